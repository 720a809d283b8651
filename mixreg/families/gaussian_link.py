"""Gaussian regressions with a link other than the identity, or beside other responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from mixreg.families.bounds import residual_variances
from mixreg.families.distribution import Tails
from mixreg.families.exponential import ExponentialFamily
from mixreg.families.rows import Rows
from mixreg.mixture.parameters import Parameters

Array = NDArray[np.float64]

# Residuals below this share of a response are not told from zero.
LEAST_GAP = 1e-9


@dataclass(frozen=True)
class GaussianLink(ExponentialFamily):
    """Normal errors around a mean that is not linear in the coefficients.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> co2 = datasets.co2()
    >>> model = MixReg.from_formula("CO2 ~ GNP", co2, k=1, family="gaussian", link="log")
    >>> type(model.family).__name__, model.family.link_name
    ('GaussianLink', 'log')
    """

    name: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "Gaussian Regressions"
    dispersion_name: ClassVar[str | None] = "sigma"
    dispersion_power: ClassVar[float] = 0.5
    canonical: ClassVar[str] = "identity"
    links: ClassVar[tuple[str, ...]] = ("identity", "log", "inverse", "sqrt")
    collapses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True

    @property
    def additive(self) -> bool:
        """Whether a response is its linear predictor plus an error."""
        return self.link_name == "identity"

    def as_part(self) -> GaussianPart:
        """The same family as that of one response among several."""
        return GaussianPart(self.equal_dispersion, self.variance_ratio, self.link)

    @property
    def least(self) -> float:  # type: ignore[override]
        """Means are positive but for the identity; an inverse link has a pole at zero."""
        return -np.inf if self.link_name == "identity" else 0.0

    def variance(self, mu: Array, rows: Rows) -> Array:
        """Constant."""
        return np.ones_like(mu)

    def variance_slope(self, mu: Array, rows: Rows) -> Array | float:
        """Zero."""
        return 0.0

    def density(self, rows: Rows) -> Array:
        """Log density of each row."""
        squares = self._squares(rows)
        return np.asarray(-0.5 * (np.log(2 * np.pi * rows.dispersion) + squares / rows.dispersion))

    def _squares(self, rows: Rows) -> Array:
        """Squared residuals, on average where rounding hides part of them.

        Below rounding of the response none is told from zero.

        Without that a component on rows that its means meet has a variance of rounding errors,
        and no likelihood that could be found again.
        """
        gap = np.maximum(np.abs(rows.y - rows.mu), LEAST_GAP * np.abs(rows.y))
        gap *= gap
        return np.asarray(gap if rows.hidden is None else gap + rows.hidden)

    def inside_graph(self, pt: Any, rows: Rows) -> Any:
        """`density` as a PyTensor graph."""
        gap = rows.y - rows.mu
        return -0.5 * (pt.log(2 * np.pi * rows.dispersion) + gap**2 / rows.dispersion)

    def tails(self, rows: Rows) -> Tails:
        """Of a normal distribution."""
        return normal_tails(rows)

    def scale_score(self, rows: Rows) -> Array:
        """Derivative in the log variance."""
        rows, out = self.inside(rows)
        found = 0.5 * (self._squares(rows) / rows.dispersion - 1)
        return np.asarray(found) if out is None else np.where(out, 0.0, found)

    def scale_curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the log variance."""
        rows, out = self.inside(rows)
        found = 0.5 * self._squares(rows) / rows.dispersion
        return np.asarray(found) if out is None else np.where(out, 0.0, found)

    def cross_curvature(self, rows: Rows) -> Array:
        """Minus the mixed derivative: the score, which falls as the variance rises."""
        return self.score(rows)

    def surrogate(self, y: Array, trials: Array | None) -> Array:
        """The link of the response, brought into its domain."""
        return self.surrogate_of(y, trials, float(np.abs(y).mean()))

    def surrogate_of(self, y: Array, trials: Array | None, size: float) -> Array:
        """`surrogate` of some rows; `size` is the mean absolute response of all rows."""
        ranged = self.link_name in ("log", "inverse", "sqrt")
        # A response of zeros has no size; any will do.
        least = 0.1 * (size or 1.0) if ranged else -np.inf
        return self._link.link(np.maximum(y, least))

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw responses."""
        return np.asarray(rng.normal(rows.mu, np.sqrt(rows.dispersion)))


@dataclass(frozen=True)
class GaussianPart(GaussianLink):
    """Normal errors of one response among several, with bounded variances."""

    # Responses are standardised; this floor only keeps an exact fit finite.
    scale_range: ClassVar[tuple[float, float]] = (1e-8, 1e8)

    @property
    def own_units(self) -> bool:
        """Its response can be standardised too: all parts are then of order one."""
        return self.additive

    def next_dispersion(self, score: Array, info: Array, size: Array, dispersion: Array) -> Array:
        """Mean squared residuals, common or bounded; `info` is half their sum, relative."""
        squares = 2 * info * dispersion
        found = residual_variances(squares, size, self.equal_dispersion, self.variance_ratio)
        return np.clip(found, *self.scale_range)

    def bound_binds(self, params: Parameters) -> bool:
        """Whether the smallest variance sits at the bound, or at nothing at all."""
        least = float(params.dispersion.min()) <= self.scale_range[0] * (1 + 1e-6)
        return least or super().bound_binds(params)


def normal_tails(rows: Rows) -> Tails:
    """Chances below and above the responses of rows with normal errors."""
    gap = (rows.y - rows.mu) / np.sqrt(rows.dispersion)
    return Tails.continuous(ndtr(gap), ndtr(-gap))
