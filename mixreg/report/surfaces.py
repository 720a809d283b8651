"""Means of rows under each component, and their derivatives in the coefficients.

Of choices an alternative's share depends on all of its set: raising its utility by t raises
its share as a logit does, and the coefficients act through its attributes less the average
attributes of its set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.families import Family
from mixreg.report.row_facts import at_predictors

Array = NDArray[np.float64]
Sets = NDArray[np.intp] | None


@dataclass(frozen=True, slots=True)
class Surface:
    """Rows of one response under one component.

    Attributes
    ----------
    mean : (n,) array
    slope : (n,) array
        Derivative of the mean in the row's own linear predictor.
    curve : (n,) array
        Derivative of `slope`, along `x` below.
    first : (n,) array
        Derivative of the mean, along `x` below.
    x : (n, p) array
        What coefficients act through: d mean / d coef = first * x, d slope / d coef = curve * x.
    """

    mean: Array
    slope: Array
    curve: Array
    first: Array
    x: Array

    @property
    def gradient(self) -> Array:
        """Derivatives of the means in the coefficients, (n, p)."""
        return self.first[:, None] * self.x


def surface(family: Family, x: Array, offset: Array | None, sets: Sets, coef: Array) -> Surface:
    """Rows at the coefficients (p,) of one component; NaN where there is no mean."""
    eta = at_predictors(x, offset, sets, coef[None])[0]
    good = family.in_range(eta)
    eta = eta if good is None else np.where(good, eta, np.nan)
    with np.errstate(invalid="ignore"):
        mean, slope, curve = family.mean(eta), family.mean_slope(eta), family.mean_curve(eta)
    if sets is None:
        return Surface(mean, slope, curve, slope, x)
    return Surface(mean, slope, mean * (1 - 2 * mean), mean, x - set_means(x, mean, sets))


def set_means(x: Array, share: Array, sets: NDArray[np.intp]) -> Array:
    """Average attributes of each row's choice set, weighted by shares, (n, p)."""
    return pd.DataFrame(x * share[:, None]).groupby(np.asarray(sets)).transform("sum").to_numpy()


def switched(
    family: Family, x: Array, offset: Array | None, sets: Sets, coef: Array, to: Array
) -> tuple[Array, Array]:
    """Means of rows whose regressors become `to`, each by itself, and their gradients.

    Returns
    -------
    (n,) and (n, p) arrays
    """
    if sets is None:
        there = surface(family, to, offset, None, coef)
        return there.mean, there.gradient
    here = surface(family, x, offset, sets, coef)
    odds = at_predictors(x, offset, sets, coef[None])[0] + (to - x) @ coef
    share = family.mean(odds)
    # The others of the set stay as they are.
    average, own = x - here.x, here.mean[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        others = (average - own * x) / (1 - own)
    return share, family.mean_slope(odds)[:, None] * (to - others)
