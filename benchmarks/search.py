"""The search: does the default fit find what there is to find, and at what cost?

    python -m benchmarks search [--real] [--refs] [--tight] [--chance] [--selection]
                                [--calibration] [--certificates] [--trials 20]

prints the tables that are named, or all of them.

`--real` and `--refs` compare with fifty random starts, on the real sets and on those of
`tests/reference`; `--sets a,b` and `--k 3` choose among them, `--seeds`, `--starts` and `--fresh`
say how they are run. A random start draws a label 1..k for each row, or for each group, and is run
to its end on all rows by `model.fit(init=labels)`; default fits are `model.fit(seed=0)`,
`model.fit(seed=1)`, ... An optimum is reached when the log-likelihood falls short of it by less
than 1e-3. A fit where the bound on the variances binds has a log-likelihood that the bound sets: it
is marked b and no hit. Threads are left as the user has them. Random starts are kept in
`benchmarks/out/`; for times, some are run again in turn with the default fits.

The other tables are those of `report/segments.py`, `selection.py`, `calibration.py` and
`certificates.py`, which say what they count. Their trials run in processes of one thread each.
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
from typing import Any

import numpy as np

from benchmarks import calibration, certificates, real_sets, reference_sets, segments, selection
from benchmarks.real_sets import RealSet
from benchmarks.reference_sets import ReferenceSet
from benchmarks.starts import random_labels
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
    bounded: bool = False  # the bound on the variances binds; starts kept by older code lack it

    @property
    def mark(self) -> str:
        return "b" if self.bounded else "d" if self.degenerate else " "


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
    beside: tuple[Run, ...]  # random starts run in turn with the default fits, for times

    @property
    def best(self) -> Run:
        return max(self.random, key=lambda run: run.llf)

    def reached(self, runs: tuple[Run, ...]) -> int:
        """How many runs reach the best of the random starts, at an optimum inside the bounds."""
        return sum(run.llf > self.best.llf - TOLERANCE and not run.bounded for run in runs)

    @property
    def start_seconds(self) -> float:
        return float(np.median([run.seconds for run in self.beside or self.random]))

    @property
    def ratio(self) -> float:
        """Time of the default over that of ten random starts."""
        return float(np.median([run.seconds for run in self.default])) / (10 * self.start_seconds)

    def line(self) -> str:
        text = (
            f"{self.name:19s}{self.k:2d}{self.rows:8,d}{self.units:8,d}{self.terms:4d}"
            f"{self.best.llf:15.4f}{self.best.mark}"
            f"{self.reached(self.random):4d}/{len(self.random)}{self.start_seconds:8.3f} s"
        )
        if not self.default:
            return text
        gains = [run.llf - self.best.llf for run in self.default]
        mark_of_all = max((run.mark for run in self.default), key=" db".index)
        return text + (
            f"{gains[0]:+12.4f}{min(gains):+12.4f}{max(gains):+12.4f}{mark_of_all}"
            f"{self.reached(self.default):3d}/{len(self.default)}{self.ratio:7.2f}"
        )


HEADER = (
    f"{'set':19s}{'k':>2s}{'rows':>8s}{'units':>8s}{'p':>4s}{'best':>15s}{'hits':>8s}"
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
        bool(results.solution.binds),
    )


def random_runs(
    case: RealSet | ReferenceSet, model: MixReg, k: int, starts: int, fresh: bool, out: Path
) -> tuple[Run, ...]:
    """Random starts run to the end, or those kept from before."""
    units = model.source.units
    asked = {"set": asdict(case), "k": k, "starts": starts, "units": units}
    asked = json.loads(json.dumps(asked))
    file = out / f"search_{case.name}_k{k}_starts{starts}.json"
    if file.exists() and not fresh:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if _same(kept["asked"], asked):
            return tuple(Run(**each) for each in kept["runs"])
    runs = tuple(run(model, init=random_labels(units, k, seed)) for seed in range(starts))
    out.mkdir(parents=True, exist_ok=True)
    kept = {"asked": asked, "runs": [asdict(each) for each in runs]}
    file.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return runs


def _same(kept: dict, asked: dict) -> bool:
    """The same model was asked for, whatever other k the set has."""

    def bare(what: dict) -> dict:
        return {**what, "set": {**what["set"], "ks": None}}

    return bare(kept) == bare(asked)


def measure(
    case: RealSet | ReferenceSet,
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
    random = random_runs(case, model, k, starts, fresh, out)
    units, (rows, terms) = model.source.units, model.source.x.shape
    default, beside = [], []
    for seed in range(seeds):
        # In turn, so that what else the machine does weighs on both alike.
        beside.append(run(model, init=random_labels(units, k, seed)))
        default.append(run(model, seed=seed))
    return Outcome(case.name, k, rows, units, terms, random, tuple(default), tuple(beside))


def load_module(path: str) -> ModuleType:
    """Load `SETS` and `load` from a file."""
    spec = importlib.util.spec_from_file_location("other_sets", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES = ("real", "refs", "tight", "chance", "selection", "calibration", "certificates")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in TABLES:
        parser.add_argument(f"--{name}", action="store_true", help="print this table")
    parser.add_argument("--trials", type=int, help="data sets of the other tables")
    parser.add_argument("--workers", type=int, default=2, help="processes of the other tables")
    parser.add_argument("--sets", help="names, separated by commas; all if left out")
    parser.add_argument("--k", type=int, help="only this number of components")
    parser.add_argument("--seeds", type=int, default=10, help="default fits a case")
    parser.add_argument("--starts", type=int, help="random starts a case (50; calibration: 200)")
    parser.add_argument("--fresh", action="store_true", help="run kept random starts again")
    parser.add_argument("--module", help="file with SETS and load, instead of real_sets.py")
    parser.add_argument("--out", type=Path, default=OUT, help="where random starts are kept")
    chosen = parser.parse_args(arguments)
    asked = [name for name in TABLES if getattr(chosen, name)]
    if not asked:
        asked = ["real"] if chosen.sets or chosen.module or chosen.k else list(TABLES)
    for number, name in enumerate(asked):
        print("\n" if number else "", end="")
        if name in ("real", "refs"):
            source: Any = real_sets if name == "real" else reference_sets
            if name == "real" and chosen.module:
                source = load_module(chosen.module)
            compare(source, chosen, parser)
        else:
            count(name, chosen)


def compare(source: Any, chosen: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Print the table of default fits against random starts."""
    names = chosen.sets.split(",") if chosen.sets else [case.name for case in source.SETS]
    unknown = set(names) - {case.name for case in source.SETS}
    if unknown:
        parser.error(f"no such set: {', '.join(sorted(unknown))}")
    starts = chosen.starts or 50
    print(f"best: of {starts} random starts; hits: runs that end within {TOLERANCE} of it;")
    print("gain: first default fit over best, then the least and the most of all seeds;")
    print("ratio: median time of the default over that of ten random starts;")
    print("b: in one of the fits the bound on the variances binds; d: a component stayed empty")
    print(HEADER, flush=True)
    for case in (case for case in source.SETS if case.name in names):
        data = source.load(case.name)
        for k in case.ks if chosen.k is None else (chosen.k,):
            outcome = measure(
                case,
                data,
                k,
                seeds=chosen.seeds,
                starts=starts,
                fresh=chosen.fresh,
                out=chosen.out,
            )
            print(outcome.line(), flush=True)


def count(name: str, chosen: argparse.Namespace) -> None:
    """Print one of the other tables."""
    trials = {} if chosen.trials is None else {"trials": chosen.trials}
    if name == "tight":
        segments.tight(**trials, workers=chosen.workers)
    elif name == "chance":
        segments.chance(**trials, workers=chosen.workers)
    elif name == "selection":
        selection.main(**trials)
    elif name == "calibration":
        starts = {} if chosen.starts is None else {"starts": chosen.starts}
        calibration.main(**trials, **starts, workers=chosen.workers)
    else:
        certificates.main(**trials)


if __name__ == "__main__":
    main()
