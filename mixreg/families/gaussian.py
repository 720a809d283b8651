"""Gaussian regressions.

The statistics are those of one scoring step from the current coefficients:
weighted cross products of the regressors, of regressors with residuals, and of
residuals. Working with residuals instead of responses keeps full precision
when a fit becomes exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block, GramBlock
from mixreg.families.bounds import bounded_variances
from mixreg.params import Parameters

Array = NDArray[np.float64]

LOG_2PI = float(np.log(2 * np.pi))
# Rows with less than this share of the largest responsibility add nothing that
# double precision would keep; skipping them makes separated data cheaper.
NEGLIGIBLE = 1e-13
# Ridge, relative to the pooled cross products, that keeps the equations of a
# nearly empty component solvable. It holds on to the present coefficients.
RIDGE = 1e-14


@dataclass(frozen=True, slots=True)
class GaussianStatistics:
    """Weighted sums over rows, one set for each component and run.

    Attributes
    ----------
    size : (k, [runs]) array
        Sum of responsibilities over rows.
    xx : (k, [runs,] p, p) array
        Cross products of the regressors.
    xe : (k, [runs,] p) array
        Cross products of regressors and residuals.
    ee : (k, [runs]) array
        Squared residuals.
    """

    size: Array
    xx: Array
    xe: Array
    ee: Array

    def __add__(self, other: GaussianStatistics) -> GaussianStatistics:
        """Add the sums of other rows."""
        return GaussianStatistics(
            self.size + other.size,
            self.xx + other.xx,
            self.xe + other.xe,
            self.ee + other.ee,
        )

    def choose(self, runs: NDArray[np.bool_], other: GaussianStatistics) -> GaussianStatistics:
        """Keep the sums of some runs and take the rest from another pass."""
        return GaussianStatistics(
            np.where(runs, self.size, other.size),
            np.where(runs[:, None, None], self.xx, other.xx),
            np.where(runs[:, None], self.xe, other.xe),
            np.where(runs, self.ee, other.ee),
        )

    def take(self, runs: NDArray[np.bool_]) -> GaussianStatistics:
        """Sums of some runs of a stack."""
        return GaussianStatistics(
            self.size[:, runs], self.xx[:, runs], self.xe[:, runs], self.ee[:, runs]
        )


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Linear regressions with normal errors.

    Attributes
    ----------
    equal_variance : bool
        One residual variance for all components.
    variance_ratio : float
        Smallest residual variance, as a share of the largest.
    """

    equal_variance: bool = False
    variance_ratio: float = 1e-4

    def residuals(self, block: Block | GramBlock, params: Parameters) -> Array:
        """Residuals of rows, or squared residuals of condensed units.

        Returns
        -------
        (k, [runs,] rows) array for a `Block`, (k, [runs,] units) for a `GramBlock`
        """
        coef = params.coef
        lead, p = coef.shape[:-1], coef.shape[-1]
        flat = coef.reshape(-1, p)
        if isinstance(block, Block):
            return block.y - (flat @ block.x.T).reshape(*lead, block.rows)
        v = np.concatenate([flat, np.full((flat.shape[0], 1), -1.0)], axis=1)
        rows, cols = block.triangle
        products = v[:, rows] * v[:, cols]
        products[:, rows != cols] *= 2.0
        squares = products @ block.gram.T
        return np.maximum(squares, 0.0, out=squares).reshape(*lead, block.units)

    def squares(self, block: Block | GramBlock, residuals: Array) -> Array:
        """Sum of squared residuals of each unit, (k, [runs,] units)."""
        if isinstance(block, Block):
            return block.per_unit(residuals * residuals)
        return residuals

    def log_density(self, block: Block | GramBlock, params: Parameters, residuals: Array) -> Array:
        """Log density of each unit under each component, (k, [runs,] units)."""
        squares = self.squares(block, residuals)
        variance = params.dispersion[..., None]
        density = squares * (-0.5 / variance)
        density -= 0.5 * block.size * (LOG_2PI + np.log(variance))
        return density

    def statistics(
        self,
        block: Block | GramBlock,
        params: Parameters,
        residuals: Array,
        responsibilities: Array,
    ) -> GaussianStatistics:
        """Sums for the M-step, given weighted responsibilities (k, [runs,] units)."""
        if isinstance(block, GramBlock):
            return _condensed_statistics(block, params.coef, responsibilities)
        return _row_statistics(block, residuals, block.per_row(responsibilities))

    def update(self, statistics: GaussianStatistics, params: Parameters) -> Parameters:
        """M-step: new coefficients and variances; the gate is left as it is."""
        xx, xe = statistics.xx, statistics.xe
        p = xe.shape[-1]
        ridge = RIDGE * statistics.size.sum(axis=0)
        lhs = xx + ridge[..., None, None] * np.eye(p)
        step = np.linalg.solve(lhs, xe[..., None])[..., 0]
        squares = statistics.ee - np.einsum("...p,...p->...", step, xe)
        variance = self.variances(np.maximum(squares, 0.0), statistics.size)
        return Parameters(params.coef + step, variance, params.gating)

    def variances(self, squares: Array, size: Array) -> Array:
        """Residual variances from sums of squares, common or bounded, (k, [runs])."""
        total = size.sum(axis=0)
        # Data are standardised, so this floor is far below any real noise; it
        # only keeps an exact fit finite.
        floor = 1e-24
        if self.equal_variance:
            common = np.maximum(squares.sum(axis=0) / total, floor)
            return np.broadcast_to(common, size.shape).copy()
        variance = squares / np.maximum(size, 1e-12 * total)
        variance = bounded_variances(variance, size, self.variance_ratio)
        return np.maximum(variance, floor)


def _row_statistics(block: Block, residuals: Array, resp: Array) -> GaussianStatistics:
    lead, p = resp.shape[:-1], block.x.shape[1]
    flat_resp = resp.reshape(-1, block.rows)
    flat_res = residuals.reshape(-1, block.rows)
    sums = _pair_sums if block.pairs is not None else _loop_sums
    xx, xe, ee = sums(block, flat_resp, flat_res)
    return GaussianStatistics(
        resp.sum(axis=-1), xx.reshape(*lead, p, p), xe.reshape(*lead, p), ee.reshape(lead)
    )


def _loop_sums(block: Block, resp: Array, residuals: Array) -> tuple[Array, Array, Array]:
    runs, p = resp.shape[0], block.x.shape[1]
    xx, xe, ee = np.empty((runs, p, p)), np.empty((runs, p)), np.empty(runs)
    for i in range(runs):
        r, e, x = resp[i], residuals[i], block.x
        keep = np.flatnonzero(r > NEGLIGIBLE * r.max())
        if keep.shape[0] < 0.5 * block.rows:
            r, e, x = r[keep], e[keep], x[keep]
        rx = x * r[:, None]
        xx[i] = rx.T @ x
        xe[i] = e @ rx
        ee[i] = (r * e) @ e
    return xx, xe, ee


def _pair_sums(block: Block, resp: Array, residuals: Array) -> tuple[Array, Array, Array]:
    assert block.pairs is not None
    weighted = resp * residuals
    xx = unfold_triangle(resp @ block.pairs, block.x.shape[1])
    return xx, weighted @ block.x, np.einsum("rn,rn->r", weighted, residuals)


def unfold_triangle(triangles: Array, p: int) -> Array:
    """Upper triangles (runs, p (p + 1) / 2) as symmetric matrices (runs, p, p)."""
    return np.asarray(triangles[:, _positions(p)])


@lru_cache(maxsize=32)
def _positions(p: int) -> NDArray[np.intp]:
    """Where each entry of a symmetric matrix stands in its upper triangle."""
    rows, cols = np.triu_indices(p)
    position = np.empty((p, p), dtype=np.intp)
    position[rows, cols] = position[cols, rows] = np.arange(rows.shape[0])
    return position


def _condensed_statistics(block: GramBlock, coef: Array, resp: Array) -> GaussianStatistics:
    lead, p = resp.shape[:-1], block.p
    sums = resp.reshape(-1, block.units) @ block.gram
    full = unfold_triangle(sums, p + 1)
    xx, xy, yy = full[:, :p, :p], full[:, :p, p], full[:, p, p]
    flat = coef.reshape(-1, p)
    if flat.shape[0] != full.shape[0]:
        flat = np.broadcast_to(coef, (*lead, p)).reshape(-1, p)
    fitted = np.matmul(xx, flat[..., None])[..., 0]
    xe = xy - fitted
    ee = yy - np.einsum("rp,rp->r", flat, xy + xe)
    return GaussianStatistics(
        resp @ block.size,
        xx.reshape(*lead, p, p),
        xe.reshape(*lead, p),
        np.maximum(ee, 0.0).reshape(lead),
    )
