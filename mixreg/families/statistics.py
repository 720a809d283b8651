"""Sums over rows that an M-step needs, and the step they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Rows with less than this share of the largest responsibility add nothing that
# double precision would keep; skipping them makes separated data cheaper.
NEGLIGIBLE = 1e-13
# Ridge, relative to the pooled cross products, that keeps the equations of a
# nearly empty component solvable. It holds on to the present coefficients.
RIDGE = 1e-14


@dataclass(frozen=True, slots=True)
class FamilyStatistics:
    """Weighted sums over rows, one set for each component and run.

    They are those of one scoring step from the present coefficients.

    Attributes
    ----------
    size : (k, [runs]) array
        Sum of responsibilities over rows.
    xx : (k, [runs,] p, p) array
        Information of the coefficients (cross products of the regressors).
    xe : (k, [runs,] p) array
        Score of the coefficients (regressors times residuals).
    spread : (m, k, [runs]) array
        Sums for the dispersion: squared residuals of a Gaussian (m = 1); score
        and information of the log dispersion of others (m = 2); m = 0 if there
        is none. With several responses (3, d, k, [runs]): score, information and
        size of each.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg.families import FamilyStatistics
    >>> sums = FamilyStatistics(np.ones(2), np.ones((2, 1, 1)), np.ones((2, 1)), np.ones((1, 2)))
    >>> (sums + sums).size.tolist()
    [2.0, 2.0]
    """

    size: Array
    xx: Array
    xe: Array
    spread: Array

    def __add__(self, other: FamilyStatistics) -> FamilyStatistics:
        """Add the sums of other rows."""
        return FamilyStatistics(
            self.size + other.size,
            self.xx + other.xx,
            self.xe + other.xe,
            self.spread + other.spread,
        )

    @property
    def ee(self) -> Array:
        """Squared residuals of a Gaussian fit, (k, [runs])."""
        return np.asarray(self.spread[0])

    def choose(self, runs: NDArray[np.bool_], other: FamilyStatistics) -> FamilyStatistics:
        """Keep the sums of some runs and take the rest from another pass."""
        return FamilyStatistics(
            np.where(runs, self.size, other.size),
            np.where(runs[:, None, None], self.xx, other.xx),
            np.where(runs[:, None], self.xe, other.xe),
            np.where(runs, self.spread, other.spread),
        )

    def stacked(self) -> FamilyStatistics:
        """Sums of one mixture as those of a stack of one."""
        return FamilyStatistics(
            self.size[:, None], self.xx[:, None], self.xe[:, None], self.spread[..., None]
        )

    def take(self, runs: NDArray[np.bool_]) -> FamilyStatistics:
        """Sums of some runs of a stack."""
        return FamilyStatistics(
            self.size[:, runs], self.xx[:, runs], self.xe[:, runs], self.spread[..., runs]
        )


def linear_predictor(block: Block, coef: Array) -> Array:
    """Linear predictors of rows under coefficients (k, [runs,] p), (k, [runs,] rows)."""
    lead, p = coef.shape[:-1], coef.shape[-1]
    eta = np.dot(coef.reshape(-1, p), block.x.T).reshape(*lead, block.rows)
    if block.offset is not None:
        eta += block.offset
    return eta


def cross_sums(block: Block, weight: Array, score: Array) -> tuple[Array, Array]:
    """Sums of weight * x x' and of score * x over rows.

    Parameters
    ----------
    block : Block
    weight, score : (..., rows) arrays

    Returns
    -------
    (..., p, p) and (..., p) arrays
    """
    lead, p = weight.shape[:-1], block.x.shape[1]
    flat, flat_score = weight.reshape(-1, block.rows), score.reshape(-1, block.rows)
    if block.pairs is not None:
        xx = unfold_triangle(np.dot(flat, block.pairs), p)
        return xx.reshape(*lead, p, p), np.dot(flat_score, block.x).reshape(*lead, p)
    xx, xe = np.empty((flat.shape[0], p, p)), np.empty((flat.shape[0], p))
    for i, (w, s) in enumerate(zip(flat, flat_score, strict=True)):
        x = block.x
        size = np.abs(s)
        counts = (w > NEGLIGIBLE * w.max()) | (size > NEGLIGIBLE * size.max())
        keep = np.flatnonzero(counts)
        if keep.shape[0] < 0.5 * block.rows:
            w, s, x = w[keep], s[keep], x[keep]
        xx[i] = np.dot((x * w[:, None]).T, x)
        xe[i] = np.dot(s, x)
    return xx.reshape(*lead, p, p), xe.reshape(*lead, p)


def square(at: Any) -> tuple[Any, ...]:
    """Index of the part of (..., p, p) matrices that some coefficients have to themselves."""
    return (..., at, at) if isinstance(at, slice) else (..., at[:, None], at)


def unfold_triangle(triangles: Array, p: int) -> Array:
    """Upper triangles (runs, p (p + 1) / 2) as symmetric matrices (runs, p, p)."""
    return np.asarray(triangles[..., _positions(p)])


@lru_cache(maxsize=32)
def _positions(p: int) -> NDArray[np.intp]:
    """Where each entry of a symmetric matrix stands in its upper triangle."""
    rows, cols = np.triu_indices(p)
    position = np.empty((p, p), dtype=np.intp)
    position[rows, cols] = position[cols, rows] = np.arange(rows.shape[0])
    return position


def solved(lhs: Array, rhs: Array) -> Array:
    """Solutions of symmetric equations (..., p, p); the shortest where they are singular.

    Equations that are not finite, as of rows that no component can have made, have the solution
    zero: their components stay where they are.
    """
    try:
        found = np.linalg.solve(lhs, rhs)
    except np.linalg.LinAlgError:
        found = np.full(rhs.shape, np.nan)
    if np.isfinite(found).all():
        return np.asarray(found)
    found = np.zeros(rhs.shape)
    good = np.isfinite(lhs).all(axis=(-1, -2)) & np.isfinite(rhs).all(axis=(-1, -2))
    if good.any():
        inverse = np.linalg.pinv(lhs[good], rcond=1e-13, hermitian=True)
        found[good] = np.nan_to_num(inverse @ rhs[good], posinf=0.0, neginf=0.0)
    return found


def scoring_step(xx: Array, xe: Array, ridge: Array, shared: int) -> Array:
    """Solve for the step of the coefficients, (k, [runs,] p).

    Parameters
    ----------
    xx, xe : (k, [runs,] p, p) and (k, [runs,] p) arrays
    ridge : ([runs]) array
        Added to the diagonal.
    shared : int
        The last so many coefficients take one step for all components.
    """
    p = xe.shape[-1]
    # Information of a group of one row has one direction; where it is large, as that of counts
    # is, the ridge is lost in its rounding.
    lhs = xx + ridge[..., None, None] * np.eye(p)
    if not shared:
        return np.asarray(solved(lhs, xe[..., None])[..., 0])
    own = p - shared
    A, B, C = lhs[..., :own, :own], lhs[..., :own, own:], lhs[..., own:, own:]
    a, c = xe[..., :own, None], xe[..., own:, None]
    # Eliminate each component's own coefficients; what is left is common.
    found = solved(A, np.concatenate([B, a], axis=-1))
    AB, Aa = found[..., :shared], found[..., shared:]
    Bt = np.swapaxes(B, -1, -2)
    left = (C - Bt @ AB).sum(axis=0)
    common = solved(left, (c - Bt @ Aa).sum(axis=0))
    mine = Aa - AB @ common
    both = np.concatenate([mine, np.broadcast_to(common, (*mine.shape[:-2], shared, 1))], axis=-2)
    return np.asarray(both[..., 0])
