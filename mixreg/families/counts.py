"""What families of counts have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from mixreg.families.exponential import ExponentialFamily
from mixreg.families.rows import Rows

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CountFamily(ExponentialFamily):
    """Whole numbers from 0."""

    least: ClassVar[float] = 0.0

    def saturated(self, y: Array, trials: Array | None) -> Array | float:
        """Log density of a Poisson at the mean y; near enough for others to rank rows."""
        return np.asarray(xlogy(y, y) - y - gammaln(y + 1))

    def log_mean(self, rows: Rows) -> Array:
        """Logarithm of the mean."""
        return rows.eta if self.link_name == "log" else np.log(rows.mu)

    def surrogate(self, y: Array, trials: Array | None) -> Array:
        """The link of the counts, with zero pulled in."""
        return self._link.link(y + 0.5)

    def check(self, y: Array, trials: Array | None) -> tuple[NDArray[np.bool_], str]:
        """Whole numbers from 0."""
        return (y < 0) | (y != np.round(y)), "counts, whole numbers of at least 0"

    def background(self, y: Array) -> float:
        """Counts from 0 to the largest."""
        return float(y.max() + 1)

    def draw_background(
        self, rows: Rows, low: float, length: float, rng: np.random.Generator
    ) -> Array:
        """Counts from 0 to the largest, all as likely."""
        return np.floor(rng.random(len(rows.y)) * length)
