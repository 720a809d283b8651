"""Large data: time over least squares with known labels, passes, growth in n, k and p.

A table row is a function in `ROWS` that yields lines; others can be added there. Sources other
than memory can be counted too: `counted` takes any class that has the methods of a `Source`.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from benchmarks import cluster, far, kernels
from benchmarks.peak import peak_memory
from benchmarks.scale_plot import draw_growth
from mixreg import MixReg
from mixreg.simulate import MixedLinearEquations, mixed_linear_equations

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
# Most times that a default fit may take of least squares with known labels, and most passes.
LIMITS = {0.1: (8.0, 8), 0.3: (15.0, 15)}
EXPONENTS = {"n": 1.05, "k": 1.3, "p": 2.1}


@dataclass(frozen=True)
class Sizes:
    """What is measured: rows, columns and components of the fits."""

    n: int = 1_000_000
    p: int = 20
    k: int = 5
    repeats: int = 5
    growth: tuple[tuple[str, tuple[int, ...]], ...] = (
        ("n", (10_000, 100_000, 1_000_000, 10_000_000)),
        ("k", (2, 5, 10, 20)),
        ("p", (5, 10, 20, 50, 100)),
    )
    # Rows where k and p grow.
    held: int = 300_000
    growth_repeats: int = 3
    # Rows in files.
    far: int = 10_000_000
    counts: int = 5_000_000
    on_cluster: int = 10_000_000


QUICK = Sizes(
    n=60_000,
    p=8,
    k=3,
    repeats=1,
    growth=(("n", (5_000, 20_000, 80_000)), ("k", (2, 3, 4)), ("p", (5, 10, 20))),
    held=30_000,
    growth_repeats=1,
    far=450_000,
    counts=450_000,
    on_cluster=200_000,
)


@dataclass(frozen=True)
class Line:
    """A line of the table: what was measured, the figure, its spread, and what it may be."""

    what: str
    figure: float
    spread: str
    limit: float | None = None

    def __str__(self) -> str:
        """One line of text."""
        limit = "" if self.limit is None else f"{self.limit:9.4g}"
        return f"{self.what:62}{self.figure:10.3g}  {self.spread:22}{limit}"


@contextmanager
def counted(kind: type, rows: int) -> Iterator[list[str]]:
    """Passes over all rows of a source of some class, by the task or method that made them."""
    passes: list[str] = []

    def wrapped(name: str) -> Callable[..., Any]:
        plain = getattr(kind, name)

        def method(self: Any, first: Any, *others: Any, **named: Any) -> Any:
            if self.rows == rows and not (name == "sample" and first >= rows):
                task = getattr(first, "__name__", type(first).__name__)
                passes.append(name if name == "sample" else task)
            return plain(self, first, *others, **named)

        return method

    names = ("sweep", "pieces", "sample")
    with patch.multiple(kind, **{name: wrapped(name) for name in names}):
        yield passes


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def known_labels(data: MixedLinearEquations) -> None:
    """Least squares for each component, by the true labels."""
    for j in np.unique(data.labels):
        rows = data.labels == j
        np.linalg.lstsq(data.X[rows], data.y[rows], rcond=None)


def passes_of(data: MixedLinearEquations, k: int) -> list[str]:
    """Passes over all rows of a default fit, from the declaration to standard errors."""
    source = type(MixReg(data.y[:200], data.X[:200], k=1).source)
    with counted(source, len(data.y)) as passes:
        MixReg(data.y, data.X, k=k).fit()
    return passes


def against_least_squares(sizes: Sizes) -> Iterator[Line]:
    """A whole default fit against `lstsq` with known labels, in turn."""
    for noise, (most, passes) in LIMITS.items():
        data = mixed_linear_equations(sizes.n, sizes.p, sizes.k, noise=noise, seed=0)
        what = f"{sizes.n:,} x {sizes.p}, k={sizes.k}, noise {noise}"
        made = passes_of(data, sizes.k)
        pairs = [
            (
                seconds(lambda data=data: MixReg(data.y, data.X, k=sizes.k).fit()),
                seconds(lambda data=data: known_labels(data)),
            )
            for _ in range(sizes.repeats)
        ]
        fit, lstsq = np.array(pairs).T
        yield spread_line(f"default fit over lstsq, {what}", fit / lstsq, most)
        yield spread_line("  seconds of the fit", fit)
        yield spread_line("  seconds of lstsq", lstsq)
        yield Line("  passes over all rows", len(made), "", passes)
        print(f"  {', '.join(made)}")


def spread_line(what: str, values: np.ndarray, limit: float | None = None) -> Line:
    """The median of some values, with their range."""
    return Line(what, float(np.median(values)), f"[{values.min():.3g} {values.max():.3g}]", limit)


@dataclass(frozen=True)
class Point:
    """A fit on the curves of growth."""

    grows: str
    size: int
    seconds: float
    megabytes: float
    passes: int


def measure(grows: str, n: int, p: int, k: int, repeats: int) -> Point:
    """Median time, and peak memory beside the data, of a default fit; for a fresh process."""
    data = mixed_linear_equations(n, p, k, noise=0.1, seed=0)
    # Imports and threads are paid for before the clock starts.
    MixReg(data.y[:500], data.X[:500], k=1).fit()
    before = peak_memory(anew=True)
    made = passes_of(data, k)
    peak = peak_memory() - before
    times = [seconds(lambda: MixReg(data.y, data.X, k=k).fit()) for _ in range(repeats)]
    size = {"n": n, "p": p, "k": k}[grows]
    return Point(grows, size, float(np.median(times)), peak, len(made))


def exponent(points: list[Point]) -> float:
    """Slope of log time in log size, by least squares."""
    size, took = (
        np.log([getattr(point, name) for point in points]) for name in ("size", "seconds")
    )
    return float(np.polyfit(size, took, 1)[0])


def growth(sizes: Sizes) -> Iterator[Line]:
    """Time and memory as rows, components or columns grow; each fit in a process of its own."""
    found: list[Point] = []
    for grows, values in sizes.growth:
        shape = {"n": sizes.held, "p": sizes.p, "k": sizes.k}
        points = []
        for value in values:
            now = shape | {grows: value}
            with get_context("spawn").Pool(1) as pool:
                given = (grows, now["n"], now["p"], now["k"], sizes.growth_repeats)
                points.append(pool.apply(measure, given))
            print(f"  {points[-1]}", flush=True)
        ends = f"{values[0]:,} to {values[-1]:,}"
        yield Line(f"exponent of time in {grows}, {ends}", exponent(points), "", EXPONENTS[grows])
        found += points
    table = pd.DataFrame([asdict(point) for point in found])
    if sizes is not QUICK:
        table.to_csv(FIGURES / "scale.csv", index=False)
        draw_growth(table, {p: exponent(_of(found, p)) for p in EXPONENTS}, FIGURES / "scale.png")


def _of(points: list[Point], grows: str) -> list[Point]:
    return [point for point in points if point.grows == grows]


def spare_components(sizes: Sizes) -> Iterator[Line]:
    """Two components more than there are: likelihoods are flat, and runs long."""
    data = mixed_linear_equations(sizes.held, 10, 3, noise=0.3, seed=0)
    times = {k: seconds(lambda k=k: MixReg(data.y, data.X, k=k).fit()) for k in (3, 5)}
    yield Line(f"seconds, {sizes.held:,} x 10, 3 components, k=3", times[3], "one run")
    yield Line("  k=5", times[5], "one run")


def from_files(sizes: Sizes) -> Iterator[Line]:
    """Rows in Parquet files, against the same in memory."""
    for line in far.parquet(sizes.far, sizes.p, sizes.k):
        yield Line(*line)


def counts_from_files(sizes: Sizes) -> Iterator[Line]:
    """Counts of groups in Parquet files."""
    for line in far.counts(sizes.counts, 10, 3, sizes.counts // 25):
        yield Line(*line)


def on_cluster(sizes: Sizes) -> Iterator[Line]:
    """Two workers of a Dask cluster against one process; prints lines of its own."""
    cluster.main(sizes.on_cluster)
    yield from ()


def ways_of_a_pass(sizes: Sizes) -> Iterator[Line]:
    """One pass by threads, processes and a compiled kernel."""
    for line in kernels.kernels(sizes.n, sizes.p, sizes.k):
        yield Line(*line)


ROWS: dict[str, Callable[[Sizes], Iterator[Line]]] = {
    "lstsq": against_least_squares,
    "growth": growth,
    "spare": spare_components,
    "parquet": from_files,
    "counts": counts_from_files,
    "kernels": ways_of_a_pass,
    "cluster": on_cluster,
}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, and no figure")
    parser.add_argument("--only", choices=list(ROWS), help="one group of rows")
    chosen = parser.parse_args(arguments)
    sizes = QUICK if chosen.quick else Sizes()
    print(f"{'':62}{'figure':>10}  {'spread':22}{'at most':>9}")
    for name in [chosen.only] if chosen.only else ROWS:
        for line in ROWS[name](sizes):
            print(line, flush=True)
