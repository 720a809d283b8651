"""Run trials on all cores, and keep each result as soon as it is there."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

import mixreg
from benchmarks.paper_grid import Plan, Point
from benchmarks.paper_trials import Trial, run_trials

# Trials that a worker takes at once: a few seconds of work, so that little is
# lost when a run is interrupted.
BATCH = 5
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Code that reports a fit and has no part in making it.
REPORTS = {"cli.py", "diagnostics.py", "plots.py", "results.py", "summary.py", "datasets"}


def code_key() -> str:
    """Version of the package, and a digest of the code that fits and measures."""
    root = Path(mixreg.__file__).parent
    files = [f for f in sorted(root.rglob("*.py")) if f.relative_to(root).parts[0] not in REPORTS]
    files.append(Path(__file__).with_name("paper_trials.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return f"{mixreg.__version__}+{digest.hexdigest()[:10]}"


@dataclass(frozen=True, slots=True)
class Store:
    """A file with one line of JSON for each trial.

    Attributes
    ----------
    path : Path
    code : str
        Results of other code are neither read nor removed.
    """

    path: Path
    code: str

    def load(self) -> dict[tuple[Point, int], Trial]:
        """Read the results of this code."""
        found: dict[tuple[Point, int], Trial] = {}
        if not self.path.exists():
            return found
        for line in self.path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut short when a run was interrupted
            if entry.pop("code") != self.code:
                continue
            point, errors = Point(**entry.pop("point")), tuple(entry.pop("errors"))
            trial = Trial(point=point, errors=errors, **entry)
            found[point, trial.number] = trial
        return found

    def append(self, trials: Iterable[Trial]) -> None:
        """Add results at the end of the file."""
        lines = [json.dumps({"code": self.code, **asdict(trial)}) for trial in trials]
        with self.path.open("a") as file:
            # The first line break ends a line that an interruption cut short.
            file.write("\n" + "\n".join(lines))


def complete(plan: Plan, points: list[Point], store: Store, jobs: int) -> dict[Point, list[Trial]]:
    """Run what the store lacks; return the trials of every point."""
    known = store.load()
    batches = _missing(plan, points, known)
    if batches:
        for trial in _run(batches, store, jobs):
            known[trial.point, trial.number] = trial
    return {point: [known[point, i] for i in range(plan.trials(point))] for point in points}


def _missing(
    plan: Plan, points: list[Point], known: dict[tuple[Point, int], Trial]
) -> list[tuple[Point, list[int]]]:
    batches = []
    for point in points:
        numbers = [i for i in range(plan.trials(point)) if (point, i) not in known]
        batches += [(point, numbers[i : i + BATCH]) for i in range(0, len(numbers), BATCH)]
    # Slow and fast points in random order make the time left predictable.
    order = np.random.default_rng(0).permutation(len(batches))
    return [batches[i] for i in order]


def _run(batches: list[tuple[Point, list[int]]], store: Store, jobs: int) -> list[Trial]:
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"
    # Spawned workers import numpy anew, and so with one thread each.
    context = multiprocessing.get_context("spawn")
    done: list[Trial] = []
    total = sum(len(numbers) for _, numbers in batches)
    with (
        ProcessPoolExecutor(jobs, context, initializer=_ignore_interrupt) as pool,
        tqdm(total=total, unit="fit", smoothing=0.05) as bar,
    ):
        futures = [pool.submit(run_trials, point, numbers) for point, numbers in batches]
        try:
            for future in as_completed(futures):
                trials = future.result()
                store.append(trials)
                done += trials
                bar.update(len(trials))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return done


def _ignore_interrupt() -> None:
    """Leave Ctrl-C to the parent, which keeps what is finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
