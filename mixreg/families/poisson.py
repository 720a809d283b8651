"""Poisson regressions, for counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from mixreg.families.base import Rows
from mixreg.families.exponential import ExponentialFamily

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Poisson(ExponentialFamily):
    """Counts whose variance is their mean; the link is log, identity or sqrt."""

    name: ClassVar[str] = "poisson"
    title: ClassVar[str] = "Poisson Regressions"
    canonical: ClassVar[str] = "log"
    least: ClassVar[float] = 0.0

    def variance(self, mu: Array, rows: Rows) -> Array:
        """The mean."""
        return mu

    def variance_slope(self, mu: Array, rows: Rows) -> Array | float:
        """One."""
        return 1.0

    def density(self, rows: Rows) -> Array:
        """Log density of each row."""
        logs = rows.eta if self.link_name == "log" else np.log(rows.mu)
        density = rows.y * logs
        density -= rows.mu
        density -= gammaln(rows.y + 1)
        return np.asarray(density)

    def saturated(self, y: Array, trials: Array | None) -> Array | float:
        """Log density at the mean y."""
        return np.asarray(xlogy(y, y) - y - gammaln(y + 1))

    def surrogate(self, y: Array, trials: Array | None) -> Array:
        """The link of the counts, with zero pulled in."""
        return self._link.link(y + 0.5)

    def check(self, y: Array, trials: Array | None) -> tuple[NDArray[np.bool_], str]:
        """Whole numbers from 0."""
        return (y < 0) | (y != np.round(y)), "counts, whole numbers of at least 0"

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw counts."""
        return rng.poisson(rows.mu).astype(float)

    def background(self, y: Array) -> float:
        """Counts from 0 to the largest."""
        return float(y.max() + 1)
