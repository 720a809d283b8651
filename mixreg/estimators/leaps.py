"""Leaps: EM's slow steps, continued (squared extrapolation, Varadhan and Roland 2008).

Where components overlap, steps of EM shrink by a constant factor. Two steps in
a row tell that factor, and a leap goes where they are heading. A leap after
which the objective fell is taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Longest first leap, in steps, and by how much a limit grows or shrinks.
LONGEST, GROWTH = 4.0, 4.0


class Leaps:
    """Where each run of a stack stands in its cycle of step, step, leap.

    Attributes
    ----------
    leapt : (runs,) array
        Whether a run's present point was reached by a leap.
    safe : Parameters
        Where those runs go if the leap was none to keep.
    ahead : callable or None
        From three points in a row, and the most steps to go, the point that a leap
        leads to and how many steps that is; None for that of the parameters.
    """

    def __init__(self, params: Any, ahead: Callable[..., Any] | None = None) -> None:
        self.ahead = type(params).ahead if ahead is None else ahead
        runs = params.coef.shape[1]
        self.phase = np.zeros(runs, dtype=np.intp)
        self.longest = np.full(runs, LONGEST)
        self.limited = np.zeros(runs, dtype=bool)
        self.first = self.safe = params

    @property
    def leapt(self) -> NDArray[np.bool_]:
        """Whether a run's present point was reached by a leap."""
        return self.phase == 2

    def next(self, params: Any, goal: Any, fell: NDArray[np.bool_]) -> Any:
        """Where to go from `params`, whose next plain step is `goal`."""
        leapt = self.leapt
        shorter = np.maximum(self.longest / GROWTH, 1.0)
        longer = np.where(self.limited, self.longest * GROWTH, self.longest)
        self.longest = np.where(leapt, np.where(fell, shorter, longer), self.longest)
        ready = (self.phase == 1) & ~fell
        new = goal
        if ready.any():
            ahead, length = self.ahead(self.first, params, goal, self.longest)
            new = ahead.choose(ready, goal)
            self.safe = goal.choose(ready, self.safe)
            self.limited = np.where(ready, length >= self.longest, self.limited)
        opens = (self.phase != 1) & ~fell
        if opens.any():
            self.first = params.choose(opens, self.first)
        self.phase = np.where(fell, 0, np.where(self.phase == 1, 2, 1))
        return new

    def take(self, runs: NDArray[np.bool_]) -> None:
        """Let finished runs go."""
        self.phase, self.longest = self.phase[runs], self.longest[runs]
        self.limited = self.limited[runs]
        self.first, self.safe = self.first.take(runs), self.safe.take(runs)
