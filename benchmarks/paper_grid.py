"""Where the paper's experiments are run: problem sizes and numbers of trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Figure = Literal["trace", "recovery"]

STARTS = ("random", "tensor")
METHODS = ("published", "default")

# Sample sizes at which the two starts differ most visibly: 20 p, 30 p, 150 p.
TRACE_SIZES = ((2, 20, 400), (3, 20, 600), (5, 20, 3000))


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """One cell of a figure: how data are drawn, and what is run on them.

    Attributes
    ----------
    figure : {"trace", "recovery"}
    method : str
        One of `STARTS` for a trace, one of `METHODS` for a recovery rate.
    k, p, n : int
        Components, regressors, rows.
    """

    figure: Figure
    method: str
    k: int
    p: int
    n: int


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the second figure.

    Attributes
    ----------
    letter : str
    varies : {"p", "k"}
        What the horizontal axis shows; the other one is fixed.
    fixed : int
    values : tuple of int
        Values of what varies.
    ratios : tuple of float
        Sample sizes, n / p or n / k^3.
    line : int
        Ratio of the paper's dashed line.
    """

    letter: str
    varies: Literal["p", "k"]
    fixed: int
    values: tuple[int, ...]
    ratios: tuple[float, ...]
    line: int

    @property
    def unit(self) -> str:
        """What rows are counted in."""
        return "p" if self.varies == "p" else "k³"

    def size(self, value: int, ratio: float) -> tuple[int, int, int]:
        """Return k, p and n of a cell."""
        if self.varies == "p":
            return self.fixed, value, round(ratio * value)
        return value, self.fixed, round(ratio * value**3)

    def points(self, method: str) -> list[Point]:
        """Cells that can be recovered at all: more rows than unknowns."""
        sizes = [self.size(value, ratio) for value in self.values for ratio in self.ratios]
        return [Point("recovery", method, k, p, n) for k, p, n in sizes if n > k * p]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one run of the benchmark measures.

    Attributes
    ----------
    panels : tuple of Panel
    trace_trials, recovery_trials : int
    """

    panels: tuple[Panel, ...]
    trace_trials: int
    recovery_trials: int

    def trials(self, point: Point) -> int:
        """Trials at a point."""
        return self.trace_trials if point.figure == "trace" else self.recovery_trials

    def points(self, figures: tuple[Figure, ...]) -> list[Point]:
        """All points of some figures, each once."""
        found: list[Point] = []
        if "trace" in figures:
            found += [Point("trace", start, *size) for size in TRACE_SIZES for start in STARTS]
        if "recovery" in figures:
            for panel in self.panels:
                for method in METHODS:
                    found += panel.points(method)
        return list(dict.fromkeys(found))


FULL = Plan(
    (
        Panel("a", "p", 3, (10, 20, 30, 40, 50), (6, 8, 10, 12, 15, 20, 30, 40, 50), 30),
        Panel("b", "k", 10, (2, 3, 4, 5, 6, 7, 8), (1, 2, 3, 4, 6, 9, 12, 16), 12),
    ),
    trace_trials=50,
    recovery_trials=100,
)

# A part of the full plan, so that the full run can use its results.
QUICK = Plan(
    (
        Panel("a", "p", 3, (10, 20, 30), (6, 8, 10, 15, 20, 30, 50), 30),
        Panel("b", "k", 10, (2, 3, 4, 5), (1, 2, 4, 6, 12, 16), 12),
    ),
    trace_trials=10,
    recovery_trials=10,
)
