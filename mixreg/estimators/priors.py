"""Prior distributions, in units that suit any data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixreg.errors import InputError


@dataclass(frozen=True, slots=True)
class Priors:
    """Weakly informative priors, scaled to the data.

    Coefficients are those of standardised regressors: orthonormal, with the
    response centred and divided by its standard deviation. One unit of such a
    coefficient moves the response by one standard deviation.

    Attributes
    ----------
    concentration : float
        Dirichlet concentration of each weight. Small values favour few
        components: those that are not needed lose their rows.
    coef_scale : float
        Linear regressions: prior standard deviation of a standard coefficient,
        in residual standard deviations.
    link_scale : float
        Other families: the same on the scale of the linear predictor.
    shape, rate : float
        Linear regressions: the residual variance is inverse gamma, in units of
        the response's variance. Other families: their dispersion is.
    gate_scale : float
        Prior standard deviation of the coefficients of standardised concomitants.

    Examples
    --------
    >>> from mixreg import MixReg, Priors, datasets
    >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
    >>> model.fit("vb", priors=Priors(coef_scale=10.0)).converged
    True
    """

    concentration: float = 0.1
    coef_scale: float = 30.0
    link_scale: float = 10.0
    shape: float = 1.0
    rate: float = 1e-3
    gate_scale: float = 2.5

    def __post_init__(self) -> None:
        """Refuse improper priors."""
        for name in ("concentration", "coef_scale", "link_scale", "shape", "rate", "gate_scale"):
            value: Any = getattr(self, name)
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not number or not 0 < value < np.inf:
                raise InputError(
                    f"Priors({name}={value!r}) is improper; give a positive, finite number, or "
                    "leave it out for the default"
                )
            if not 1e-6 <= value <= 1e6:
                raise InputError(
                    f"Priors({name}={value!r}) is too extreme to compute with; give a number "
                    "between 1e-6 and 1e6"
                )

    @property
    def precision(self) -> float:
        """Prior precision of a standard coefficient.

        Examples
        --------
        >>> from mixreg import Priors
        >>> Priors(coef_scale=10.0).precision
        0.01
        """
        return self.coef_scale**-2
