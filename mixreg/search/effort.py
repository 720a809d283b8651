"""How hard to look, and how many rows each level has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mixreg.search.constants import (
    CHEAP,
    FACTOR,
    FEWEST,
    FEWEST_OTHERS,
    MOVE_COST,
    PATIENCE,
    ROUND,
    ROWS_EACH,
    RUNS_EACH,
    SEARCHED_ROWS,
    SEARCHED_VALUES,
    STARTS_EACH,
    UNITS_EACH,
    WIDE_ROWS,
)
from mixreg.search.course import Course


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to look.

    Attributes
    ----------
    n_init : int
        Scales everything: starts, moves, and what they may cost. 1 means one
        start and no moves.
    thorough : bool
        False makes do with few moves.
    """

    n_init: int = 16
    thorough: bool = True

    @property
    def starts(self) -> int:
        """Most starts."""
        return STARTS_EACH * self.n_init if self.n_init > 1 else 1

    @property
    def runs(self) -> float:
        """What the search may cost, in plain starts on all rows (`benchmarks search --real`)."""
        return RUNS_EACH * self.n_init

    def patience(self, k: int) -> int:
        """Starts and moves in a row that must fail."""
        if self.n_init == 1:
            return 0
        return PATIENCE * self.n_init * k if self.thorough else ROUND


@dataclass(frozen=True)
class Ladder:
    """What the levels are made of.

    Attributes
    ----------
    make : callable
        Makes the course of a number of rows, with a generator that draws them.
    first, rows : int
        Rows of the first level, and all there are.
    cost : int
        What a pass over all rows costs: condensed groups cost a row each.
    plain : int
        What a pass of a plain start costs.
    sampled : bool
        Whether these rows are a sample of the data.
    """

    make: Callable[[int, np.random.Generator], Course]
    first: int
    rows: int
    cost: int
    plain: int
    sampled: bool = False

    def above(self, rows: int) -> int:
        """Rows of the next level."""
        return FACTOR * rows if 2 * FACTOR * rows < self.rows else self.rows

    @property
    def wide(self) -> int:
        """Rows of the level after the first where starts on that do not agree."""
        affordable = WIDE_ROWS * self.rows // self.cost
        return min(self.rows, max(self.above(self.first), affordable))


def searched_rows(p: int) -> int:
    """Rows of p columns that a search looks at, at most; of more, a sample is searched."""
    least, most = SEARCHED_ROWS
    return max(least, min(most, SEARCHED_VALUES // p))


def row_work(k: int, p: int) -> float:
    """Multiplications that a row costs in a pass, about; a logarithm or so counts 60."""
    return k * (p * (p + 1) / 2 + 60)


def first_rows(rows: int, units: int, cost: int, k: int, p: int, linear: bool) -> int:
    """Rows of the first level: some for each coefficient, groups for each component."""
    if 2 * ROUND * MOVE_COST * cost * row_work(k, p) < CHEAP:
        return rows
    groups = UNITS_EACH * k * cost / units if units < rows else 0.0
    size = max(FEWEST if linear else FEWEST_OTHERS, ROWS_EACH * k * p, int(groups))
    return rows if 2 * size >= cost else int(size * (rows / cost))
