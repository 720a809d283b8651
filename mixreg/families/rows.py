"""Rows as a family sees them: responses, linear predictors, means."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows at the linear predictors of some components.

    Attributes
    ----------
    y : (rows,) array
        Response.
    eta, mu : (..., rows) arrays
        Linear predictor and mean under each component.
    dispersion : (..., 1) array
        Dispersion of each component.
    trials : (rows,) array or None
        Trials behind a proportion.
    """

    y: Array
    eta: Array
    mu: Array
    dispersion: Array
    trials: Array | None

    def component(self, j: int) -> Rows:
        """Rows under one component."""
        return replace(self, eta=self.eta[j], mu=self.mu[j], dispersion=self.dispersion[j])

    def moved(self, eta: Array, mu: Array) -> Rows:
        """The same rows at other linear predictors."""
        return replace(self, eta=eta, mu=mu)
