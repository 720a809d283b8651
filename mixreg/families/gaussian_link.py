"""Gaussian regressions with a link other than the identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.families.base import Rows
from mixreg.families.exponential import ExponentialFamily

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianLink(ExponentialFamily):
    """Normal errors around a mean that is not linear in the coefficients."""

    name: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "Gaussian Regressions"
    dispersion_name: ClassVar[str | None] = "sigma"
    dispersion_power: ClassVar[float] = 0.5
    canonical: ClassVar[str] = "identity"
    collapses: ClassVar[bool] = True

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
        gap = rows.y - rows.mu
        return np.asarray(
            -0.5 * (np.log(2 * np.pi * rows.dispersion) + gap * gap / rows.dispersion)
        )

    def scale_score(self, rows: Rows) -> Array:
        """Derivative in the log variance."""
        rows, out = self.inside(rows)
        found = 0.5 * ((rows.y - rows.mu) ** 2 / rows.dispersion - 1)
        return np.asarray(found) if out is None else np.where(out, 0.0, found)

    def scale_curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the log variance."""
        rows, out = self.inside(rows)
        found = 0.5 * (rows.y - rows.mu) ** 2 / rows.dispersion
        return np.asarray(found) if out is None else np.where(out, 0.0, found)

    def cross_curvature(self, rows: Rows) -> Array:
        """Minus the mixed derivative: the score, which falls as the variance rises."""
        return self.score(rows)

    def surrogate(self, y: Array, trials: Array | None) -> Array:
        """The link of the response, brought into its domain."""
        return self.surrogate_of(y, trials, float(np.abs(y).mean()))

    def surrogate_of(self, y: Array, trials: Array | None, size: float) -> Array:
        """`surrogate` of some rows; `size` is the mean absolute response of all rows."""
        least = 0.1 * size if self.link_name in ("log", "inverse", "sqrt") else -np.inf
        return self._link.link(np.maximum(y, least))

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw responses."""
        return np.asarray(rng.normal(rows.mu, np.sqrt(rows.dispersion)))
