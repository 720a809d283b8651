"""Log densities averaged over coefficients that are not known: what variational Bayes asks.

Coefficients are normal, so a row's linear predictor is; the log dispersion is normal too.
Three points in each direction average polynomials up to the fifth degree without error.
A family whose rows do not stand alone says for itself how it averages (`families/choice.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mixreg.families.rows import Rows
from mixreg.families.statistics import FamilyStatistics, cross_sums, linear_predictor
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Distance of the outer points in standard deviations, and the share of each.
POINT, SHARE = float(np.sqrt(3.0)), 1 / 6
# Standard deviations of a linear predictor, and of a log dispersion, that are computed with.
WIDEST, WIDEST_LOG = 50.0, 5.0


class Derived(Protocol):
    """What averages are made of."""

    @property
    def dispersion_name(self) -> str | None:
        """Name of the dispersion, or None."""

    def rows_at(self, y: Array, eta: Array, dispersion: Array, trials: Array | None) -> Rows:
        """Rows at given linear predictors."""

    def in_range(self, eta: Array) -> NDArray[np.bool_] | None:
        """Linear predictors that have a mean in its range, or None if all have."""

    def log_density(self, rows: Rows) -> Array:
        """Log density of each row."""

    def score(self, rows: Rows) -> Array:
        """Derivative in the linear predictor."""

    def curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the linear predictor."""

    def scale_score(self, rows: Rows) -> Array:
        """Derivative in the log dispersion."""

    def scale_curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the log dispersion."""


@dataclass(frozen=True, slots=True)
class Averages:
    """Averages of each row, (k, [runs,] rows).

    Attributes
    ----------
    density : array
        Log density.
    score, curvature : arrays
        In the linear predictor.
    scales : tuple of two arrays, or of none
        Score and curvature in the log dispersion.
    """

    density: Array
    score: Array
    curvature: Array
    scales: tuple[Array, ...] = ()


class Uncertain:
    """How a family averages over its coefficients and dispersions."""

    def averages(
        self: Derived, block: Block, params: Parameters, root: Array, wide: Array
    ) -> tuple[Array, Any]:
        """Average log density of each unit, and what `average_statistics` needs.

        Parameters
        ----------
        block : Block
        params : Parameters
            Means of coefficients, and of dispersions on a scale of logarithms.
        root : (k, [runs,] p, p) array
            Root of the coefficients' covariance.
        wide : (k, [runs]) array
            Standard deviation of the log dispersion.
        """
        found = row_averages(self, block, params, row_spread(block, root), wide)
        return block.per_unit(found.density), found

    def average_statistics(
        self, block: Block, params: Parameters, state: Any, responsibilities: Array
    ) -> FamilyStatistics:
        """Sums of average scores and curvatures, given weighted responsibilities."""
        r = block.per_row(responsibilities)
        xx, xe = cross_sums(block, r * state.curvature, r * state.score)
        size = r.sum(axis=-1)
        scales = [(r * part).sum(axis=-1) for part in state.scales]
        spread = np.array(scales) if scales else np.empty((0, *size.shape))
        return FamilyStatistics(size, xx, xe, spread)


def row_spread(block: Block, root: Array) -> Array:
    """Standard deviation of each row's linear predictor, (k, [runs,] rows)."""
    lead, p = root.shape[:-2], root.shape[-1]
    out = np.empty((int(np.prod(lead)), block.rows))
    for i, one in enumerate(root.reshape(-1, p, p)):
        product = np.dot(block.x, one)
        out[i] = np.einsum("ij,ij->i", product, product)
    return np.minimum(np.sqrt(out), WIDEST).reshape(*lead, block.rows)


def row_averages(
    family: Derived, block: Block, params: Parameters, spread: Array, wide: Array
) -> Averages:
    """Averages over the points; a row that they lead out of range counts at its mean."""
    eta, scale = linear_predictor(block, params.coef), params.dispersion[..., None]
    whole = spread
    inside = _inside(family, eta, spread)
    if inside is not None:
        spread = np.where(inside, spread, 0.0)

    def at(step: float, log_step: float) -> Rows:
        further = scale * np.exp(log_step * np.minimum(wide, WIDEST_LOG))[..., None]
        return family.rows_at(block.y, eta + step * spread, further, block.trials)

    middle, around = at(0.0, 0.0), [at(POINT, 0.0), at(-POINT, 0.0)]
    if family.dispersion_name is None:
        density, score = (
            _mean(f(middle), [f(rows) for rows in around])
            for f in (family.log_density, family.score)
        )
        curved = _mean(family.curvature(middle), [family.curvature(rows) for rows in around])
        return Averages(_less(density, curved, whole, inside), score, curved)
    scaled = [at(0.0, POINT), at(0.0, -POINT)]
    density, score, scale_score = (
        _mean(f(middle), [f(rows) for rows in (*around, *scaled)])
        for f in (family.log_density, family.score, family.scale_score)
    )
    curved = _mean(family.curvature(middle), [family.curvature(rows) for rows in around])
    bent = _mean(family.scale_curvature(middle), [family.scale_curvature(rows) for rows in scaled])
    return Averages(_less(density, curved, whole, inside), score, curved, (scale_score, bent))


def _mean(middle: Array, others: list[Array]) -> Array:
    """Weighted mean of values at the points."""
    total = (1 - SHARE * len(others)) * middle
    for value in others:
        total = total + SHARE * value
    return np.asarray(total)


def _inside(family: Derived, eta: Array, spread: Array) -> NDArray[np.bool_] | None:
    """Rows whose points all have a mean, or None if every row has."""
    low, high = family.in_range(eta - POINT * spread), family.in_range(eta + POINT * spread)
    if low is None or high is None:
        return None
    both = low & high
    return None if both.all() else both


def _less(density: Array, curved: Array, spread: Array, inside: Any) -> Array:
    """Densities of rows that count at their mean, less what uncertainty takes off."""
    if inside is None:
        return density
    taken = 0.5 * np.maximum(curved, 0.0) * spread**2
    return np.asarray(np.where(inside, density, density - taken))
