"""Negative binomial regressions, for counts that vary more than a Poisson's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, polygamma, xlogy

from mixreg.families.base import Rows
from mixreg.families.counts import CountFamily

Array = NDArray[np.float64]

# Up to this count, sums over the counts below it are looked up in a table.
TABLE = 3000


@dataclass(frozen=True)
class NegativeBinomial(CountFamily):
    """Counts with variance mean + alpha * mean^2, each component with its own alpha."""

    name: ClassVar[str] = "negativebinomial"
    title: ClassVar[str] = "Negative Binomial Regressions"
    canonical: ClassVar[str] = ""
    default: ClassVar[str | None] = "log"
    dispersion_name: ClassVar[str | None] = "alpha"
    # Below the first, counts are Poisson's as far as doubles can tell.
    scale_range: ClassVar[tuple[float, float]] = (1e-7, 1e7)

    def precision(self, rows: Rows) -> Array | float:
        """The variance holds alpha already."""
        return 1.0

    def variance(self, mu: Array, rows: Rows) -> Array:
        """The mean plus alpha times its square."""
        return np.asarray(mu + rows.dispersion * mu * mu)

    def variance_slope(self, mu: Array, rows: Rows) -> Array | float:
        """1 + 2 alpha mu."""
        return np.asarray(1 + 2 * rows.dispersion * mu)

    def density(self, rows: Rows) -> Array:
        """Log density of each row.

        With a = 1 / alpha, gamma(y + a) / gamma(a) / a^y is a product of
        1 + j / a over j below y, which is exact for large a too.
        """
        y, t = rows.y, rows.dispersion * rows.mu
        density = sum_below(rows, 0) - (1 / rows.dispersion + y) * np.log1p(t)
        return np.asarray(density + xlogy(y, rows.mu) - gammaln(y + 1))

    def scale_score(self, rows: Rows) -> Array:
        """Derivative in log alpha."""
        rows, out = self.inside(rows)
        t = rows.dispersion * rows.mu
        lost = sum_below(rows, 1)
        score = lost - _excess(t) / rows.dispersion + (rows.mu - rows.y) * t / (1 + t)
        return np.asarray(score) if out is None else np.where(out, 0.0, score)

    def scale_curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in log alpha."""
        inner, out = self.inside(rows)
        t, alpha = inner.dispersion * inner.mu, inner.dispersion
        # The second derivative of each part of the score, term by term.
        below = sum_below(inner, 2)
        excess = (t * t / (1 + t) - _excess(t)) / alpha
        found = -(below - excess + (inner.mu - inner.y) * t / (1 + t) ** 2)
        return np.asarray(found) if out is None else np.where(out, 0.0, found)

    def cross_curvature(self, rows: Rows) -> Array:
        """Minus the mixed derivative in linear predictor and log alpha."""
        rows, out = self.inside(rows)
        slope = self._link.slope(rows.eta, rows.mu)
        t = rows.dispersion * rows.mu
        found = (rows.y - rows.mu) * slope / rows.mu * t / (1 + t) ** 2
        return np.asarray(found) if out is None else np.where(out, 0.0, found)

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw counts."""
        a = 1 / rows.dispersion
        return rng.negative_binomial(a, a / (a + rows.mu)).astype(float)


def sum_below(rows: Rows, which: int) -> Array:
    """Sum over j below each count, with s = alpha j: log(1 + s), s / (1 + s), s / (1 + s)^2."""
    alpha, y = rows.dispersion, rows.y
    top = int(y.max()) if y.size else 0
    if top > TABLE:
        return _from_gamma(1 / alpha, y, which)
    index = y.astype(np.intp)
    if alpha.shape[-1] == 1:
        return np.asarray(_table(alpha, top, which)[..., index])
    values, at = np.unique(alpha, return_inverse=True)
    return np.asarray(_table(values[:, None], top, which)[at.reshape(alpha.shape), index])


def _table(alpha: Array, top: int, which: int) -> Array:
    """The sum for all counts up to `top`, last axis; alpha is (..., 1)."""
    s = alpha * np.arange(max(top, 1))
    part = np.log1p(s) if which == 0 else s / (1 + s) ** which
    zero = np.zeros((*s.shape[:-1], 1))
    return np.concatenate([zero, np.cumsum(part, axis=-1)], axis=-1)


def _from_gamma(a: Array, y: Array, which: int) -> Array:
    """The same by gamma functions, for large counts; a is 1 / alpha."""
    if which == 0:
        return np.asarray(gammaln(y + a) - gammaln(a) - y * np.log(a))
    # s / (1 + s) = 1 - a / (a + j), and s / (1 + s)^2 = a / (a + j) - a^2 / (a + j)^2.
    inverse = a * (digamma(y + a) - digamma(a))
    if which == 1:
        return np.asarray(y - inverse)
    return np.asarray(inverse - a * a * (polygamma(1, a) - polygamma(1, y + a)))


def _excess(t: Array) -> Array:
    """Value of t - log(1 + t), without the cancellation at small t."""
    if t.size and t.min() >= 1e-3:
        return np.asarray(t - np.log1p(t))
    small = np.abs(t) < 1e-3
    s = np.where(small, t, 0.0)
    series = s * s * (0.5 - s * (1 / 3 - s * (0.25 - s * 0.2)))
    return np.where(small, series, t - np.log1p(t))
