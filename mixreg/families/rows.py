"""Rows as a family sees them: responses, linear predictors, means."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
    hidden : (rows,) array or None
        Variance of what rounding hides of each response.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg.families import Rows, make_family
    >>> eta = np.zeros((2, 3))
    >>> rows = Rows(np.array([0.0, 1.0, 2.0]), eta, np.exp(eta), np.ones((2, 1)), None)
    >>> make_family("poisson", None, False, 1e-4).log_density(rows).round(2).tolist()[0]
    [-1.0, -1.0, -1.69]
    >>> rows.component(0).eta.shape
    (3,)
    """

    y: Array
    eta: Array
    mu: Array
    dispersion: Array
    trials: Array | None
    hidden: Array | None = field(default=None, kw_only=True)

    def component(self, j: int) -> Rows:
        """Rows under one component."""
        return replace(self, eta=self.eta[j], mu=self.mu[j], dispersion=self.dispersion[j])

    def moved(self, eta: Array, mu: Array) -> Rows:
        """The same rows at other linear predictors."""
        return replace(self, eta=eta, mu=mu)
