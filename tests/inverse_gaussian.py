"""A family in one file: put into `mixreg/families/` it would be one of the package's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.families.exponential import ExponentialFamily
from mixreg.families.registry import register
from mixreg.families.rows import Rows

Array = NDArray[np.float64]


@register
@dataclass(frozen=True)
class InverseGaussian(ExponentialFamily):
    """Positive responses with variance scale * mean^3."""

    name: ClassVar[str] = "inversegaussian"
    title: ClassVar[str] = "Inverse Gaussian Regressions"
    canonical: ClassVar[str] = ""
    default: ClassVar[str | None] = "log"
    links: ClassVar[tuple[str, ...]] = ("log", "inverse", "identity")
    dispersion_name: ClassVar[str | None] = "scale"
    least: ClassVar[float] = 0.0
    collapses: ClassVar[bool] = True

    def variance(self, mu: Array, rows: Rows) -> Array:
        """The mean to the third power."""
        return mu**3

    def variance_slope(self, mu: Array, rows: Rows) -> Array:
        """Its derivative."""
        return 3 * mu**2

    def _distance(self, rows: Rows) -> Array:
        """What is exponentiated, times minus 2."""
        return (rows.y - rows.mu) ** 2 / (rows.dispersion * rows.mu**2 * rows.y)

    def density(self, rows: Rows) -> Array:
        """Log density of each row."""
        return -0.5 * (np.log(2 * np.pi * rows.dispersion * rows.y**3) + self._distance(rows))

    def inside_graph(self, pt: Any, rows: Rows) -> Any:
        """`density` as a PyTensor graph."""
        return -0.5 * (pt.log(2 * np.pi * rows.dispersion * rows.y**3) + self._distance(rows))

    def scale_score(self, rows: Rows) -> Array:
        """Derivative in the log scale."""
        rows, out = self.inside(rows)
        found = 0.5 * (self._distance(rows) - 1)
        return found if out is None else np.where(out, 0.0, found)

    def scale_curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the log scale."""
        rows, out = self.inside(rows)
        found = 0.5 * self._distance(rows)
        return found if out is None else np.where(out, 0.0, found)

    def cross_curvature(self, rows: Rows) -> Array:
        """Minus the mixed derivative: the score, which falls as the scale rises."""
        return self.score(rows)

    def surrogate(self, y: Array, trials: Array | None) -> Array:
        """The link of the response."""
        return self._link.link(y)

    def check(self, y: Array, trials: Array | None) -> tuple[NDArray[np.bool_], str]:
        """Positive numbers."""
        return y <= 0, "positive numbers"

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw responses."""
        return rng.wald(rows.mu, 1 / rows.dispersion)
