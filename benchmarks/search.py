"""Does the default fit find what fifty random starts find, and at what cost?

    python -m benchmarks.search [--sets a,b] [--k 3] [--seeds 10] [--starts 50] [--fresh]

A random start draws a label 1..k for each row, or for each group, and is run to its end on all
rows by `model.fit(init=labels)`; default fits are `model.fit(seed=0)`, `model.fit(seed=1)`, ...
An optimum is reached when the log-likelihood falls short of it by less than 1e-3. Threads are left
as the user has them.

Random starts are kept in `benchmarks/out/`; a star marks times that were read from there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks import real_sets
from benchmarks.real_sets import RealSet
from mixreg import MixReg
from mixreg.errors import ConvergenceWarning, DegenerateFitWarning

OUT = Path(__file__).parent / "out"
TOLERANCE = 1e-3  # of the log-likelihood, absolute


@dataclass(frozen=True)
class Run:
    """How one fit ended."""

    llf: float
    seconds: float
    degenerate: bool
    converged: bool


@dataclass(frozen=True)
class Outcome:
    """All fits of one set with k components."""

    name: str
    k: int
    rows: int
    units: int
    terms: int
    random: tuple[Run, ...]
    default: tuple[Run, ...]
    cached: bool

    @property
    def best(self) -> Run:
        return max(self.random, key=lambda run: run.llf)

    def reached(self, runs: tuple[Run, ...]) -> int:
        """How many runs reach the best of the random starts."""
        return sum(run.llf > self.best.llf - TOLERANCE for run in runs)

    @property
    def start_seconds(self) -> float:
        return float(np.median([run.seconds for run in self.random]))

    @property
    def ratio(self) -> float:
        """Time of the default over that of ten random starts."""
        return float(np.median([run.seconds for run in self.default])) / (10 * self.start_seconds)

    def line(self) -> str:
        mark = "*" if self.cached else " "
        text = (
            f"{self.name:15s}{self.k:2d}{self.rows:8,d}{self.units:8,d}{self.terms:4d}"
            f"{self.best.llf:15.4f}{'d' if self.best.degenerate else ' '}"
            f"{self.reached(self.random):4d}/{len(self.random)}{self.start_seconds:8.3f} s{mark}"
        )
        if not self.default:
            return text
        gains = [run.llf - self.best.llf for run in self.default]
        wrong = any(run.degenerate for run in self.default)
        return text + (
            f"{gains[0]:+12.4f}{min(gains):+12.4f}{max(gains):+12.4f}{'d' if wrong else ' '}"
            f"{self.reached(self.default):3d}/{len(self.default)}{self.ratio:7.2f}{mark}"
        )


HEADER = (
    f"{'set':15s}{'k':>2s}{'rows':>8s}{'units':>8s}{'p':>4s}{'best':>15s}{'hits':>8s}"
    f"{'one start':>11s}{'gain':>12s}{'least':>12s}{'most':>12s} {'hits':>5s}{'ratio':>8s}"
)


def run(model: MixReg, **arguments) -> Run:
    """Fit once; what the package warns of is kept."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.perf_counter()
        results = model.fit(**arguments)
        seconds = time.perf_counter() - begin
    kinds = [warning.category for warning in caught]
    return Run(
        float(results.llf),
        seconds,
        any(issubclass(kind, DegenerateFitWarning) for kind in kinds),
        not any(issubclass(kind, ConvergenceWarning) for kind in kinds),
    )


def random_labels(units: int, k: int, seed: int) -> np.ndarray:
    """A label 1..k for each row or group, every label at least once."""
    rng = np.random.default_rng(seed)
    while True:
        labels = rng.integers(1, k + 1, units)
        if len(np.unique(labels)) == k:
            return labels


def random_runs(
    case: RealSet, model: MixReg, k: int, starts: int, fresh: bool, out: Path
) -> tuple[tuple[Run, ...], bool]:
    """Random starts run to the end, and whether they were kept from before."""
    units = model.source.units
    asked = {"set": asdict(case), "k": k, "starts": starts, "units": units}
    asked = json.loads(json.dumps(asked))
    file = out / f"search_{case.name}_k{k}_starts{starts}.json"
    if file.exists() and not fresh:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if _same(kept["asked"], asked):
            return tuple(Run(**each) for each in kept["runs"]), True
    runs = tuple(run(model, init=random_labels(units, k, seed)) for seed in range(starts))
    out.mkdir(parents=True, exist_ok=True)
    kept = {"asked": asked, "runs": [asdict(each) for each in runs]}
    file.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return runs, False


def _same(kept: dict, asked: dict) -> bool:
    """The same model was asked for, whatever other k the set has."""

    def bare(what: dict) -> dict:
        return {**what, "set": {**what["set"], "ks": None}}

    return bare(kept) == bare(asked)


def measure(
    case: RealSet,
    data,
    k: int,
    *,
    seeds: int = 10,
    starts: int = 50,
    fresh: bool = False,
    out: Path = OUT,
) -> Outcome:
    """Random starts and default fits of a set with k components."""
    model = case.model(data, k)
    random, cached = random_runs(case, model, k, starts, fresh, out)
    default = tuple(run(model, seed=seed) for seed in range(seeds))
    rows, terms = model.source.x.shape
    return Outcome(case.name, k, rows, model.source.units, terms, random, default, cached)


def load_module(path: str) -> ModuleType:
    """Load `SETS` and `load` from a file."""
    spec = importlib.util.spec_from_file_location("other_sets", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sets", help="names, separated by commas; all if left out")
    parser.add_argument("--k", type=int, help="only this number of components")
    parser.add_argument("--seeds", type=int, default=10, help="default fits a case")
    parser.add_argument("--starts", type=int, default=50, help="random starts a case")
    parser.add_argument("--fresh", action="store_true", help="run kept random starts again")
    parser.add_argument("--module", help="file with SETS and load, instead of real_sets.py")
    parser.add_argument("--out", type=Path, default=OUT, help="where random starts are kept")
    chosen = parser.parse_args(arguments)
    source = load_module(chosen.module) if chosen.module else real_sets
    names = chosen.sets.split(",") if chosen.sets else [case.name for case in source.SETS]
    unknown = set(names) - {case.name for case in source.SETS}
    if unknown:
        parser.error(f"no such set: {', '.join(sorted(unknown))}")
    print(f"best: of {chosen.starts} random starts; hits: runs that end within {TOLERANCE} of it;")
    print("gain: first default fit over best, then the least and the most of all seeds;")
    print("ratio: median time of the default over that of ten random starts; d: degenerate")
    print(HEADER, flush=True)
    for case in (case for case in source.SETS if case.name in names):
        data = source.load(case.name)
        for k in case.ks if chosen.k is None else (chosen.k,):
            outcome = measure(
                case,
                data,
                k,
                seeds=chosen.seeds,
                starts=chosen.starts,
                fresh=chosen.fresh,
                out=chosen.out,
            )
            print(outcome.line(), flush=True)


if __name__ == "__main__":
    main()
