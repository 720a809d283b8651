"""Negative binomial regressions, for counts that vary more than a Poisson's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, gammaln

from mixreg.families.counts import CountFamily
from mixreg.families.distribution import Tails
from mixreg.families.registry import register
from mixreg.families.rising import excess, rising_sums
from mixreg.families.rows import Rows
from mixreg.families.statistics import FamilyStatistics, cross_sums
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Up to this count, sums over the counts below it are added up one by one.
TABLE = 3000
# Below this dispersion, tails are those of it: Poisson's but for rounding.
SMALLEST = 1e-12


@dataclass(frozen=True, slots=True)
class SpreadRows(Rows):
    """Rows with what several derivatives are made of.

    Attributes
    ----------
    t : (..., rows) array
        Dispersion times mean.
    logs : (..., rows) array
        Logarithm of 1 + t.
    shrink : (..., rows) array
        One over 1 + t: the mean over the variance.
    """

    t: Array
    logs: Array
    shrink: Array

    @staticmethod
    def of(rows: Rows) -> SpreadRows:
        """Add what is missing."""
        if isinstance(rows, SpreadRows):
            return rows
        t = rows.dispersion * rows.mu
        shrink = 1 + t
        np.reciprocal(shrink, out=shrink)
        made = (t, np.log1p(t), shrink)
        return SpreadRows(rows.y, rows.eta, rows.mu, rows.dispersion, rows.trials, *made)

    @property
    def lost(self) -> Array:
        """Value of t - log(1 + t), over the dispersion."""
        return excess(self.t, self.logs) / self.dispersion

    def component(self, j: int) -> SpreadRows:
        """Rows under one component."""
        each = (self.eta[j], self.mu[j], self.dispersion[j])
        return SpreadRows(self.y, *each, self.trials, self.t[j], self.logs[j], self.shrink[j])


@register
@dataclass(frozen=True)
class NegativeBinomial(CountFamily):
    """Counts with variance mean + alpha * mean^2, each component with its own alpha.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> nmes = datasets.nmes1988().head(400)
    >>> model = MixReg.from_formula("visits ~ chronic", nmes, k=1, family="negativebinomial")
    >>> res = model.fit()
    >>> res.scale.name, res.scale.round(2).tolist()
    ('alpha', [1.06])
    """

    name: ClassVar[str] = "negativebinomial"
    title: ClassVar[str] = "Negative Binomial Regressions"
    stack_gain: ClassVar[float | None] = 1.2
    canonical: ClassVar[str] = ""
    default: ClassVar[str | None] = "log"
    links: ClassVar[tuple[str, ...]] = ("log", "identity", "sqrt")
    dispersion_name: ClassVar[str | None] = "alpha"
    # Below the first, counts are Poisson's as far as doubles can tell, whatever
    # their mean: a log-likelihood changes by about alpha times the mean.
    scale_range: ClassVar[tuple[float, float]] = (1e-20, 1e7)

    def evaluate(self, block: Block, params: Parameters) -> Rows:
        """Rows at their linear predictors, with what the passes share."""
        rows: Rows = super().evaluate(block, params)
        return SpreadRows.of(rows) if self.everywhere else rows

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
        rows = SpreadRows.of(rows)
        density = self.log_mean(rows) - rows.logs
        density *= rows.y
        if rows.dispersion.shape[-1] != 1:
            density -= rows.logs / rows.dispersion
            return np.asarray(density + sum_below(rows, 0) - gammaln(rows.y + 1))
        # What depends on count and alpha alone is worked out once a count.
        table, counts, index = by_count(rows, 0)
        table -= gammaln(counts + 1)
        part = table[..., index]
        density += part
        density -= np.multiply(rows.logs, 1 / rows.dispersion, out=part)
        return np.asarray(density)

    def inside_graph(self, pt: Any, rows: Rows) -> Any:
        """`density` as a PyTensor graph."""
        y, mu, alpha = rows.y, rows.mu, rows.dispersion
        spread = (y + 1 / alpha) * pt.log1p(alpha * mu)
        return _rising_graph(pt, y, alpha) - pt.gammaln(y + 1) + y * pt.log(mu) - spread

    def score(self, rows: Rows) -> Array:
        """Derivative of the log density in the linear predictor."""
        if self.link_name != "log":
            return super().score(rows)
        rows = SpreadRows.of(rows)
        found = rows.y - rows.mu
        found *= rows.shrink
        return found

    def weight(self, rows: Rows) -> Array:
        """Expected information about the linear predictor."""
        if self.link_name != "log":
            return super().weight(rows)
        rows = SpreadRows.of(rows)
        return np.asarray(rows.mu * rows.shrink)

    def statistics(
        self, block: Block, params: Parameters, state: Any, responsibilities: Array
    ) -> FamilyStatistics:
        """Sums for the M-step; those for alpha are made of what others are made of."""
        if self.link_name != "log":
            return super().statistics(block, params, state, responsibilities)
        r = block.per_row(responsibilities)
        score, weight = self.score(state), self.weight(state)
        score *= r
        weight *= r
        xx, xe = cross_sums(block, weight, score)
        first, second = self._spread_sums(state, r, score, weight)
        return FamilyStatistics(r.sum(axis=-1), xx, xe, np.array([first, second]))

    def _spread_sums(
        self, rows: SpreadRows, r: Array, score: Array, weight: Array
    ) -> tuple[Array, Array]:
        """Sums of `scale_score` and `scale_curvature`, given those of score and weight.

        One array is used for all that is summed: memory that is asked for anew
        costs more than the arithmetic.
        """
        part = excess(rows.t, rows.logs)
        lost = np.vecdot(r, part) / rows.dispersion[..., 0]
        first = -lost - np.vecdot(score, rows.t)
        np.multiply(rows.t, rows.shrink, out=part)
        second = np.vecdot(weight, rows.t) + np.vecdot(score, part) - lost
        for which, sign, total in ((1, 1.0, first), (2, -1.0, second)):
            table, _, index = by_count(rows, which)
            np.take(table, index, axis=-1, out=part, mode="clip")
            total += sign * np.vecdot(r, part)
        return first, second

    def scale_score(self, rows: Rows) -> Array:
        """Derivative in log alpha."""
        inner, out = self.inside(rows)
        at = SpreadRows.of(inner)
        found = sum_below(at, 1) - at.lost
        found += (at.mu - at.y) * (at.t * at.shrink)
        return np.asarray(found) if out is None else np.where(out, 0.0, found)

    def scale_curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in log alpha."""
        inner, out = self.inside(rows)
        at = SpreadRows.of(inner)
        # The second derivative of each part of the score, term by term.
        part = at.t * at.shrink
        found = at.mu * part - at.lost - sum_below(at, 2)
        found += (at.y - at.mu) * (part * at.shrink)
        return np.asarray(found) if out is None else np.where(out, 0.0, found)

    def cross_curvature(self, rows: Rows) -> Array:
        """Minus the mixed derivative in linear predictor and log alpha."""
        inner, out = self.inside(rows)
        at = SpreadRows.of(inner)
        slope = self._link.slope(at.eta, at.mu)
        found = (at.y - at.mu) * slope / at.mu * (at.t * at.shrink * at.shrink)
        return np.asarray(found) if out is None else np.where(out, 0.0, found)

    def tails(self, rows: Rows) -> Tails:
        """Of a negative binomial distribution, by that of a beta variable."""
        size = 1 / np.maximum(rows.dispersion, SMALLEST)
        chance, y = rows.mu / (size + rows.mu), np.maximum(rows.y, 1.0)
        below = np.where(rows.y > 0, betaincc(y, size, chance), 0.0)
        return Tails(below, np.exp(self.log_density(rows)), betainc(rows.y + 1, size, chance))

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw counts."""
        a = 1 / rows.dispersion
        return rng.negative_binomial(a, a / (a + rows.mu)).astype(float)


def sum_below(rows: Rows, which: int) -> Array:
    """Sum over j below each count, with s = alpha j: log(1 + s), s / (1 + s), s / (1 + s)^2."""
    if rows.dispersion.shape[-1] != 1:
        return rising_sums(rows.dispersion, rows.y, which)
    table, _, index = by_count(rows, which)
    return np.asarray(table[..., index])


def by_count(rows: Rows, which: int) -> tuple[Array, Array, NDArray[np.intp]]:
    """The sum for each count that may occur (last axis), the counts, and where rows have theirs."""
    alpha, y = rows.dispersion, rows.y
    top = float(y.max(initial=0.0))
    if top > TABLE:
        counts, index = np.unique(y, return_inverse=True)
        return rising_sums(alpha, counts, which), counts, index
    s = alpha * np.arange(max(top, 1.0))
    part = np.log1p(s) if which == 0 else s / (1 + s) ** which
    table = np.zeros((*s.shape[:-1], s.shape[-1] + 1))
    np.cumsum(part, axis=-1, out=table[..., 1:])
    return table, np.arange(s.shape[-1] + 1.0), y.astype(np.intp)


def _rising_graph(pt: Any, y: Array, alpha: Any) -> Any:
    """Logarithm of the product of 1 + j alpha over j below y, (k, rows), as `density` has it.

    A difference of log gammas loses its digits where alpha is small.
    """
    most = int(y.max(initial=0.0))
    if most > TABLE:
        return pt.gammaln(y + 1 / alpha) - pt.gammaln(1 / alpha) + y * pt.log(alpha)
    sums = pt.cumsum(pt.log1p(np.arange(most) * alpha), axis=1)
    table = pt.concatenate([pt.zeros_like(alpha), sums], axis=1)
    return table[:, y.astype(np.intp)]
