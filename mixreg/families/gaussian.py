"""Gaussian regressions.

The statistics are those of one scoring step from the current coefficients:
weighted cross products of the regressors, of regressors with residuals, and of
residuals. Working with residuals instead of responses keeps full precision
when a fit becomes exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.families.base import Family
from mixreg.families.bounds import FLOOR, residual_variances
from mixreg.families.distribution import Tails
from mixreg.families.gaussian_link import GaussianLink, GaussianPart, normal_tails
from mixreg.families.registry import register
from mixreg.families.rows import Rows
from mixreg.families.statistics import (
    NEGLIGIBLE,
    RIDGE,
    FamilyStatistics,
    scoring_step,
    unfold_triangle,
)
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]

LOG_2PI = float(np.log(2 * np.pi))


@register
@dataclass(frozen=True)
class Gaussian(Family):
    """Linear regressions with normal errors.

    Attributes
    ----------
    equal_dispersion : bool
        One residual variance for all components.
    variance_ratio : float
        Smallest residual variance, as a share of the largest.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> from mixreg.families import Gaussian
    >>> tone, family = datasets.tonedata(), Gaussian(variance_ratio=0.01)
    >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2, family=family).fit()
    >>> float((res.scale.min() / res.scale.max()).round(3))
    0.348
    """

    name: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "Linear Regressions"
    dispersion_name: ClassVar[str | None] = "sigma"
    dispersion_power: ClassVar[float] = 0.5
    linear: ClassVar[bool] = True
    certifies: ClassVar[bool] = True
    stack_gain: ClassVar[float | None] = 1.4
    collapses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True

    @classmethod
    def make(cls, link: Any, equal_dispersion: bool, variance_ratio: float) -> Family:
        """Linear regressions, or those with a link."""
        made = GaussianLink.make(link, equal_dispersion, variance_ratio)
        return cls(equal_dispersion, variance_ratio) if made.additive else made

    def as_part(self) -> GaussianPart:
        """The same family as that of one response among several."""
        return GaussianPart(self.equal_dispersion, self.variance_ratio)

    def evaluate(self, block: Block | GramBlock, params: Parameters) -> Array:
        """Residuals of rows, or squared residuals of condensed units.

        Returns
        -------
        (k, [runs,] rows) array for a `Block`, (k, [runs,] units) for a `GramBlock`
        """
        coef = params.coef
        lead, p = coef.shape[:-1], coef.shape[-1]
        flat = coef.reshape(-1, p)
        if isinstance(block, Block):
            return block.y - np.dot(flat, block.x.T).reshape(*lead, block.rows)
        v = np.concatenate([flat, np.full((flat.shape[0], 1), -1.0)], axis=1)
        rows, cols = block.triangle
        products = v[:, rows] * v[:, cols]
        products[:, rows != cols] *= 2.0
        squares = np.dot(products, block.gram.T)
        return np.maximum(squares, 0.0, out=squares).reshape(*lead, block.units)

    def unit_loss(self, block: Block | GramBlock, params: Parameters, state: Array) -> Array:
        """Sum of squared residuals of each unit, (k, [runs,] units)."""
        if isinstance(block, Block):
            return block.per_unit(state * state)
        return state

    unit_misfit = unit_loss

    def unit_density(self, block: Block | GramBlock, params: Parameters, state: Array) -> Array:
        """Log density of each unit under each component, (k, [runs,] units)."""
        squares = self.unit_loss(block, params, state)
        if (hidden := self.hidden(block)) is not None:
            squares = squares + (hidden if isinstance(block, GramBlock) else block.per_unit(hidden))
        variance = params.dispersion[..., None]
        density = squares * (-0.5 / variance)
        density -= 0.5 * block.size * (LOG_2PI + np.log(variance))
        return density

    def statistics(
        self,
        block: Block | GramBlock,
        params: Parameters,
        state: Array,
        responsibilities: Array,
    ) -> FamilyStatistics:
        """Sums for the M-step, given weighted responsibilities (k, [runs,] units)."""
        if isinstance(block, GramBlock):
            sums, resp = (
                _condensed_statistics(block, params.coef, responsibilities),
                responsibilities,
            )
        else:
            resp = block.per_row(responsibilities)
            sums = _row_statistics(block, state, resp)
        hidden = self.hidden(block)
        return sums if hidden is None else replace(sums, spread=sums.spread + resp @ hidden)

    def score_statistics(
        self,
        block: Block | GramBlock,
        params: Parameters,
        state: Array,
        responsibilities: Array,
    ) -> FamilyStatistics:
        """The sums that scores are made of: no cross products of the regressors."""
        if isinstance(block, GramBlock):
            return self.statistics(block, params, state, responsibilities)
        resp = block.per_row(responsibilities)
        lead, weighted = resp.shape[:-1], resp * state
        xe = np.dot(weighted.reshape(-1, block.rows), block.x)
        ee = np.einsum("...n,...n->...", weighted, state)
        if (hidden := self.hidden(block)) is not None:
            ee = ee + resp @ hidden
        return FamilyStatistics(
            resp.sum(axis=-1), np.empty((*lead, 0, 0)), xe.reshape(*lead, -1), ee[None]
        )

    def update(self, sums: FamilyStatistics, params: Parameters, shared: int = 0) -> Parameters:
        """M-step: new coefficients and variances; the gate is left as it is."""
        xx, xe = sums.xx, sums.xe
        ridge = RIDGE * sums.size.sum(axis=0) + 1e-300
        if shared:
            # Components speak about a common coefficient with their precisions.
            precision = 1 / params.dispersion
            step = scoring_step(
                xx * precision[..., None, None],
                xe * precision[..., None],
                ridge * precision.max(axis=0),
                shared,
            )
            fitted = np.einsum("...p,...pq->...q", step, xx)
            squares = sums.ee - np.einsum("...p,...p->...", step, 2 * xe - fitted)
        else:
            step = scoring_step(xx, xe, ridge, 0)
            squares = sums.ee - np.einsum("...p,...p->...", step, xe)
        variance = self.variances(np.maximum(squares, 0.0), sums.size)
        return Parameters(params.coef + step, variance, params.gating)

    def flat_score(self, sums: FamilyStatistics, params: Parameters) -> Array:
        """Scores of each component's coefficients and log deviation, of one run."""
        variance = params.dispersion
        scale = sums.ee[:, 0] / variance - sums.size[:, 0]
        return np.column_stack([sums.xe[:, 0] / variance[:, None], scale])

    def variances(self, squares: Array, size: Array) -> Array:
        """Residual variances from sums of squares, common or bounded, (k, [runs])."""
        return residual_variances(squares, size, self.equal_dispersion, self.variance_ratio)

    def label_dispersions(self, sums: FamilyStatistics, params: Parameters) -> Array:
        """Variances (k,) of one run, from the sums of hard labels."""
        return self.variances(np.maximum(sums.ee[:, 0], 0.0), sums.size[:, 0])

    def allowed(self, dispersion: Array) -> Array:
        """Variances (k, [runs]), those out of bounds moved to them."""
        return np.maximum(dispersion, np.maximum(self.variance_ratio * dispersion.max(0), FLOOR))

    def common(self) -> Gaussian:
        """The same family with one variance for all components."""
        return replace(self, equal_dispersion=True)

    def mean_square(self, sums: FamilyStatistics) -> Array:
        """Mean squared residual of each run; infinite where a background has all rows."""
        size = sums.size.sum(axis=0)
        return np.divide(sums.ee.sum(axis=0), size, out=np.full(size.shape, np.inf), where=size > 0)

    def unit_background(self, block: Block | GramBlock, length: float) -> Array:
        """Log density of each unit under a background component, (units,)."""
        return np.broadcast_to(-np.log(length) * np.asarray(block.size), (block.units,))

    def squares(self, block: Block, residuals: Array) -> Array:
        """Squared residuals, on average where rounding hides part of them."""
        hidden = self.hidden(block)
        return residuals**2 if hidden is None else residuals**2 + hidden

    def row_curves(
        self, block: Block, params: Parameters, state: Any, j: int
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Derivatives in the linear predictor and the log variance, at each row."""
        e, variance = state[j], params.dispersion[j]
        score, square = e / variance, self.squares(block, e) / variance
        return score, np.full_like(e, 1 / variance), score, 0.5 * (square - 1), 0.5 * square

    def component_scores(self, block: Block, params: Parameters, state: Any, j: int) -> Array:
        """Score of each unit in coefficients and log standard deviation."""
        e, variance = state[j], params.dispersion[j]
        scale = self.squares(block, e) / variance - 1.0
        columns = np.column_stack([block.x * (e / variance)[:, None], scale])
        return np.ascontiguousarray(block.per_unit(columns.T).T)

    def component_information(
        self, block: Block, params: Parameters, state: Any, wr: Array, j: int
    ) -> Array:
        """Minus the second derivatives in coefficients and log standard deviation."""
        e = state[j]
        r = block.per_row(wr) / params.dispersion[j]
        root, p = block.x * np.sqrt(r)[:, None], block.x.shape[1]
        info = np.empty((p + 1, p + 1))
        info[:p, :p] = np.dot(root.T, root)
        info[:p, p] = info[p, :p] = 2 * ((r * e) @ block.x)
        info[p, p] = 2 * float(r @ self.squares(block, e))
        return info

    def density_graph(self, pt: Any, block: Block, eta: Any, dispersion: Any) -> Any:
        """Log density of rows as a PyTensor graph, (k, rows)."""
        return GaussianLink().density_graph(pt, block, eta, dispersion)

    def mean_slope(self, eta: Array) -> Array:
        """The mean is the linear predictor."""
        return np.ones_like(eta)

    def mean_curve(self, eta: Array) -> Array:
        """It has no curvature."""
        return np.zeros_like(eta)

    def response_variance(self, rows: Rows) -> Array:
        """That of the errors."""
        return np.broadcast_to(rows.dispersion, rows.mu.shape)

    def tails(self, rows: Rows) -> Tails:
        """Of a normal distribution."""
        return normal_tails(rows)

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw responses."""
        return np.asarray(rng.normal(rows.mu, np.sqrt(rows.dispersion)))


def _row_statistics(block: Block, residuals: Array, resp: Array) -> FamilyStatistics:
    lead, p = resp.shape[:-1], block.x.shape[1]
    flat_resp = resp.reshape(-1, block.rows)
    flat_res = residuals.reshape(-1, block.rows)
    sums = _pair_sums if block.pairs is not None else _loop_sums
    xx, xe, ee = sums(block, flat_resp, flat_res)
    return FamilyStatistics(
        resp.sum(axis=-1), xx.reshape(*lead, p, p), xe.reshape(*lead, p), ee.reshape(1, *lead)
    )


# Beyond this share of responsibilities that count, components share one product (4,000 x 20, five
# components: 230 to 280 ns a row whatever the share; alone 110 with a share of 0.24, 380 with
# 0.58 and 290 to 340 with more). Values of weighted rows that are held for it at once.
MOST_COUNT, HELD_VALUES = 0.4, 200_000


def _loop_sums(block: Block, resp: Array, residuals: Array) -> tuple[Array, Array, Array]:
    counts = resp > NEGLIGIBLE * resp.max(axis=1, keepdims=True)
    if np.count_nonzero(counts) > MOST_COUNT * counts.size:
        return _one_product(block, resp, residuals)
    runs, p = resp.shape[0], block.x.shape[1]
    xx, xe, ee = np.empty((runs, p, p)), np.empty((runs, p)), np.empty(runs)
    for i in range(runs):
        r, e, x = resp[i], residuals[i], block.x
        keep = np.flatnonzero(counts[i])
        if keep.shape[0] < 0.5 * block.rows:
            r, e, x = r[keep], e[keep], x[keep]
        rx = x * r[:, None]
        xx[i] = np.dot(rx.T, x)
        xe[i] = np.dot(e, rx)
        ee[i] = np.dot(r * e, e)
    return xx, xe, ee


def _one_product(block: Block, resp: Array, residuals: Array) -> tuple[Array, Array, Array]:
    runs, p = resp.shape[0], block.x.shape[1]
    xx, each = np.zeros((runs * p, p)), max(1, HELD_VALUES // (runs * p))
    for row in range(0, block.rows, each):
        x = np.ascontiguousarray(block.x[row : row + each].T)
        heavy = x * resp[:, None, row : row + each]
        xx += np.dot(heavy.reshape(runs * p, -1), x.T)
    weighted = resp * residuals
    xe, ee = np.dot(weighted, block.x), np.einsum("rn,rn->r", weighted, residuals)
    return xx.reshape(runs, p, p), xe, ee


def _pair_sums(block: Block, resp: Array, residuals: Array) -> tuple[Array, Array, Array]:
    assert block.pairs is not None
    weighted = resp * residuals
    xx = unfold_triangle(np.dot(resp, block.pairs), block.x.shape[1])
    return xx, np.dot(weighted, block.x), np.einsum("rn,rn->r", weighted, residuals)


def _condensed_statistics(block: GramBlock, coef: Array, resp: Array) -> FamilyStatistics:
    lead, p = resp.shape[:-1], block.p
    sums = np.dot(resp.reshape(-1, block.units), block.gram)
    full = unfold_triangle(sums, p + 1)
    xx, xy, yy = full[:, :p, :p], full[:, :p, p], full[:, p, p]
    flat = coef.reshape(-1, p)
    if flat.shape[0] != full.shape[0]:
        flat = np.broadcast_to(coef, (*lead, p)).reshape(-1, p)
    fitted = np.matmul(xx, flat[..., None])[..., 0]
    xe = xy - fitted
    ee = yy - np.einsum("rp,rp->r", flat, xy + xe)
    return FamilyStatistics(
        resp @ block.size,
        xx.reshape(*lead, p, p),
        xe.reshape(*lead, p),
        np.maximum(ee, 0.0).reshape(1, *lead),
    )
