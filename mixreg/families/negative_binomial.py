"""Negative binomial regressions, for counts that vary more than a Poisson's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, polygamma, xlogy

from mixreg.families.base import Rows
from mixreg.families.exponential import ExponentialFamily

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NegativeBinomial(ExponentialFamily):
    """Counts with variance mean + alpha * mean^2, each component with its own alpha."""

    name: ClassVar[str] = "negativebinomial"
    title: ClassVar[str] = "Negative Binomial Regressions"
    canonical: ClassVar[str] = ""
    default: ClassVar[str | None] = "log"
    dispersion_name: ClassVar[str | None] = "alpha"

    def valid(self, mu: Array) -> Array:
        """Means are positive."""
        return np.clip(mu, 1e-100, 1e100)

    def _precision(self, rows: Rows) -> Array | float:
        """The variance holds alpha already."""
        return 1.0

    def variance(self, mu: Array, rows: Rows) -> Array:
        """Mu + alpha mu^2."""
        return np.asarray(mu + rows.dispersion * mu * mu)

    def variance_slope(self, mu: Array, rows: Rows) -> Array | float:
        """1 + 2 alpha mu."""
        return np.asarray(1 + 2 * rows.dispersion * mu)

    def log_density(self, rows: Rows) -> Array:
        """Log density of each row."""
        a, mu, y = 1 / rows.dispersion, rows.mu, rows.y
        density = gammaln(y + a) - gammaln(a) - gammaln(y + 1)
        # a log(a / (a + mu)), exact for large a too.
        density = density - a * np.log1p(mu / a)
        return np.asarray(density + xlogy(y, mu) - xlogy(y, a + mu))

    def _gain(self, rows: Rows) -> Array:
        """Derivative of the log density in a = 1 / alpha."""
        a, mu, y = 1 / rows.dispersion, rows.mu, rows.y
        return np.asarray(digamma(y + a) - digamma(a) - np.log1p(mu / a) + (mu - y) / (a + mu))

    def scale_score(self, rows: Rows) -> Array:
        """Derivative in log alpha."""
        return -self._gain(rows) / rows.dispersion

    def scale_curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in log alpha."""
        a, mu, y = 1 / rows.dispersion, rows.mu, rows.y
        second = polygamma(1, y + a) - polygamma(1, a) + mu / (a * (a + mu))
        second = second - (mu - y) / (a + mu) ** 2
        return np.asarray(-a * self._gain(rows) - a * a * second)

    def cross_curvature(self, rows: Rows) -> Array:
        """Minus the mixed derivative in linear predictor and log alpha."""
        slope = self._link.slope(rows.eta, rows.mu)
        variance = self.variance(rows.mu, rows)
        gap = (rows.y - rows.mu) * slope * rows.mu**2
        return np.asarray(rows.dispersion * gap / variance**2)

    def saturated(self, y: Array, trials: Array | None) -> Array | float:
        """That of a Poisson, near enough to rank rows."""
        return np.asarray(xlogy(y, y) - y - gammaln(y + 1))

    def surrogate(self, y: Array, trials: Array | None) -> Array:
        """The link of the counts, with zero pulled in."""
        return self._link.link(y + 0.5)

    def check(self, y: Array, trials: Array | None) -> tuple[NDArray[np.bool_], str]:
        """Whole numbers from 0."""
        return (y < 0) | (y != np.round(y)), "counts, whole numbers of at least 0"

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw counts."""
        a = 1 / rows.dispersion
        return rng.negative_binomial(a, a / (a + rows.mu)).astype(float)

    def background(self, y: Array) -> float:
        """Counts from 0 to the largest."""
        return float(y.max() + 1)
