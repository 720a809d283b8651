"""Gamma regressions, for positive responses whose spread grows with their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammainc, gammaincc, gammaln, polygamma

from mixreg.families.distribution import Tails
from mixreg.families.exponential import ExponentialFamily
from mixreg.families.registry import register
from mixreg.families.rows import Rows
from mixreg.mixture.parameters import Parameters

Array = NDArray[np.float64]


# Dispersions below this are of responses so near to their means that logarithms round.
NEAR = 1e-4
# Shapes from which series are exact, and differences of large numbers are not.
LARGE = 1e3


def stirling(shape: Array) -> tuple[Array, Array, Array]:
    """What is left of the gamma function and its derivatives beside logarithms.

    Returns
    -------
    three arrays
        Of a shape s: s log(s) - s - gammaln(s), log(s) - digamma(s), and
        s^2 trigamma(s) - s.
    """
    small, one = np.minimum(shape, LARGE), 1 / shape
    large = shape > LARGE
    return (
        np.where(
            large,
            0.5 * np.log(shape / (2 * np.pi)) - one / 12 + one**3 / 360,
            small * np.log(small) - small - gammaln(small),
        ),
        np.where(large, one / 2 + one**2 / 12 - one**4 / 120, np.log(small) - digamma(small)),
        np.where(large, 0.5 + one / 6 - one**3 / 30, small * (small * polygamma(1, small) - 1)),
    )


@register
@dataclass(frozen=True)
class Gamma(ExponentialFamily):
    """Positive responses with variance scale * mean^2; the scale is one over the shape.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> co2 = datasets.co2()
    >>> res = MixReg.from_formula("CO2 ~ GNP", co2, k=1, family="gamma", link="log").fit()
    >>> res.coefficients[1].round(3).to_dict()
    {'Intercept': 2.011, 'GNP': 0.01}
    >>> res.scale.name
    'scale'
    """

    name: ClassVar[str] = "gamma"
    title: ClassVar[str] = "Gamma Regressions"
    # With eta = 1 / mean the canonical parameter is -eta: no shortcut.
    canonical: ClassVar[str] = ""
    default: ClassVar[str | None] = "inverse"
    links: ClassVar[tuple[str, ...]] = ("inverse", "log", "identity")
    dispersion_name: ClassVar[str | None] = "scale"
    least: ClassVar[float] = 0.0
    collapses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    # Unitless: responses that the means meet to five digits are met exactly, as far as sums tell.
    scale_range: ClassVar[tuple[float, float]] = (1e-10, 1e300)
    # Logarithms cost most, in a stack as much as alone (randhie_costs of the benchmark).
    stack_gain: ClassVar[float | None] = 1.6

    def variance(self, mu: Array, rows: Rows) -> Array:
        """The squared mean."""
        return mu * mu

    def variance_slope(self, mu: Array, rows: Rows) -> Array | float:
        """Derivative of the squared mean."""
        return 2 * mu

    def density(self, rows: Rows) -> Array:
        """Log density of each row."""
        shape = 1 / rows.dispersion
        density = shape * (self._misses(rows) - _bent(rows))
        density += stirling(shape)[0] - np.log(rows.y)
        return np.asarray(density)

    def inside_graph(self, pt: Any, rows: Rows) -> Any:
        """`density` as a PyTensor graph."""
        shape, ratio = 1 / rows.dispersion, rows.y / rows.mu
        return shape * (pt.log(shape * ratio) - ratio) - pt.gammaln(shape) - pt.log(rows.y)

    def _gain(self, rows: Rows) -> Array:
        """Derivative of the log density in the shape."""
        return np.asarray(self._misses(rows) - _bent(rows) + stirling(1 / rows.dispersion)[1])

    def _misses(self, rows: Rows) -> Array:
        """Value of log(r) - r + 1 for r = y / mean: 0 where the mean meets the response."""
        ratio = rows.y / rows.mu
        found = np.log(ratio) - ratio + 1
        if float(np.min(rows.dispersion)) < NEAR:
            gap = (rows.y - rows.mu) / rows.mu
            near = np.abs(gap) < 0.1
            np.copyto(found, np.log1p(np.where(near, gap, 0.0)) - gap, where=near)
        return np.asarray(found)

    def scale_score(self, rows: Rows) -> Array:
        """Derivative in the log scale."""
        rows, out = self.inside(rows)
        score = -self._gain(rows) / rows.dispersion
        return score if out is None else np.where(out, 0.0, score)

    def scale_curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the log scale."""
        rows, out = self.inside(rows)
        shape = 1 / rows.dispersion
        found = stirling(shape)[2] - shape * self._gain(rows)
        return np.asarray(found) if out is None else np.where(out, 0.0, found)

    def cross_curvature(self, rows: Rows) -> Array:
        """Minus the mixed derivative: the score, which falls as the scale rises."""
        return self.score(rows)

    def hidden_dispersion(self, block: Any) -> Array:
        """What rounding hides of each row, relative to the response, as the scale is."""
        return super().hidden_dispersion(block) / np.asarray(block.y) ** 2

    def bound_binds(self, params: Parameters) -> bool:
        """Whether the smallest dispersion sits at the bound, or at nothing at all."""
        least = float(np.min(params.dispersion)) <= self.scale_range[0] * (1 + 1e-6)
        return least or super().bound_binds(params)

    def saturated(self, y: Array, trials: Array | None) -> Array | float:
        """Up to a constant, the log density at the mean y."""
        return -np.log(y)

    def surrogate(self, y: Array, trials: Array | None) -> Array:
        """The link of the response, drawn in where the link is not a logarithm."""
        return self.surrogate_of(y, trials, float(y.mean()))

    def surrogate_of(self, y: Array, trials: Array | None, size: float) -> Array:
        """`surrogate` of some rows; `size` is the mean response of all rows."""
        return self._link.link(y if self.link_name == "log" else 0.5 * (y + size))

    def check(self, y: Array, trials: Array | None) -> tuple[NDArray[np.bool_], str]:
        """Positive numbers."""
        return y <= 0, "positive numbers"

    def tails(self, rows: Rows) -> Tails:
        """Of a gamma distribution."""
        shape = 1 / rows.dispersion
        at = shape * (rows.y / rows.mu)
        return Tails.continuous(gammainc(shape, at), gammaincc(shape, at))

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw responses."""
        return rng.gamma(1 / rows.dispersion, rows.mu * rows.dispersion)

    def background(self, y: Array) -> float:
        """From 0 to the largest."""
        return float(y.max())

    def draw_background(
        self, rows: Rows, low: float, length: float, rng: np.random.Generator
    ) -> Array:
        """Evenly from 0 to the largest."""
        return super().draw_background(rows, 0.0, length, rng)


def _bent(rows: Rows) -> Array | float:
    """How far the mean logarithm of what rounding hides is below the logarithm, about."""
    return 0.0 if rows.hidden is None else 0.5 * rows.hidden / rows.y**2
