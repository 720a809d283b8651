"""Scores and information where rows are units: products of the same columns.

A component's score of a row is a multiple of its regressors, so that sums over rows are
matrix products. Scores lie one below the other, (m, rows): numpy then runs along rows, and takes
60 ns a row to fill those of five components with 20 regressors, where it takes 150 otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import Seen, weighted
from mixreg.mixture.mixture import Mixture

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RowSums:
    """What scores and information of a block's rows are made of.

    Attributes
    ----------
    mixture : Mixture
    seen : Seen
    resp : (K, rows) array
        Posterior times case weights.
    first, scale : (k, rows) arrays
        Scores in the linear predictor and in the dispersion of the flat vector, times the
        posterior; the second is empty if there is none.
    left : tuple of (k, rows) arrays
        Minus second derivatives less products of scores, times `resp`: of the linear
        predictor, mixed, of the dispersion.
    prior : (K, rows) array
    z : (rows, q) array
        What the parameters of the gate are multiplied with.
    scales : int
        Dispersions of a component, 0 or 1.
    """

    mixture: Mixture
    seen: Seen
    resp: Array
    first: Array
    scale: Array
    left: tuple[Array, Array, Array]
    prior: Array
    z: Array
    scales: int

    @staticmethod
    def of(mixture: Mixture, seen: Seen) -> RowSums:
        """Derivatives of every component's log density at the rows of a block."""
        block, params, gate = seen.block, seen.params, mixture.gate
        resp = weighted(block, seen.posterior)
        prior = np.exp(gate.log_prior(block, params))
        prior = np.broadcast_to(prior, resp.shape)
        parts = _curves(mixture, seen, resp[: params.k])
        return RowSums(mixture, seen, resp, *parts, prior, gate.variables(block), mixture.scales)

    @property
    def width(self) -> int:
        """Parameters of a component."""
        return self.seen.params.coef.shape[1] + self.scales

    def own(self, j: int) -> slice:
        """Where the parameters of a component are."""
        return slice(j * self.width, (j + 1) * self.width)

    @property
    def gate(self) -> slice:
        """Where the parameters of the gate are."""
        own = self.seen.params.k * self.width
        return slice(own, own + (len(self.resp) - 1) * self.mixture.gate.width)

    def add_up(self, part: slice, info: Array) -> Array:
        """Scores of some rows, (m, rows), before case weights.

        Each component's information, less outer products of its scores, is added to `info`.
        """
        x = np.ascontiguousarray(self.seen.block.x[part].T)
        self._add_own(x, part, info)
        (k, p), width = self.seen.params.coef.shape, self.width
        scores = np.empty((self.gate.stop, x.shape[1]))
        own = scores[: k * width].reshape(k, width, -1)
        np.multiply(x, self.first[:, None, part], out=own[:, :p])
        if self.scales:
            own[:, p] = self.scale[:, part]
        gap = self.seen.posterior[1:, part] - self.prior[1:, part]
        scores[self.gate] = gate_part(gap, self.z[part]).T
        return scores

    def _add_own(self, x: Array, part: slice, info: Array) -> None:
        (k, p), width = self.seen.params.coef.shape, self.width
        bend, mixed, scale = (values[:, part] for values in self.left)
        xx = np.dot(np.multiply(x, bend[:, None]).reshape(k * p, -1), x.T).reshape(k, p, p)
        own = info[: k * width, : k * width].reshape(k, width, k, width)
        each = np.arange(k)
        own[each, :p, each, :p] += xx
        if self.scales:
            cross = np.dot(mixed, x.T)
            own[each, :p, each, p] += cross
            own[each, p, each, :p] += cross
            own[each, p, each, p] += scale.sum(axis=1)

    def add_gate(self, info: Array, score: Array) -> None:
        """Add the gate's, and what the gate and the components have in common.

        Where units are alike it follows from `score`, the sum over rows with their weights.
        """
        gate, seen = self.gate, self.seen
        info[gate, gate] += self.mixture.gate.information(seen.block, seen.params, self.resp)
        for j, resp in enumerate(self.resp):
            if self.mixture.gate.constant:
                given = gate_scores(self.prior[:, :1], self.z[:1], j)
                square = resp.sum() * given.T @ given
                cross = np.outer(score[self.own(j)], given)
            else:
                given = gate_scores(self.prior, self.z, j)
                square = np.dot((given * resp[:, None]).T, given)
                cross = self._with_gate(j, given) if j < seen.params.k else cross
            info[gate, gate] -= square
            if j < seen.params.k:
                info[self.own(j), gate] -= cross
                info[gate, self.own(j)] -= cross.T

    def _with_gate(self, j: int, given: Array) -> Array:
        """Products of a component's scores with the gate's, added up over rows."""
        x, p = self.seen.block.x, self.seen.params.coef.shape[1]
        cross = np.empty((self.width, given.shape[1]))
        cross[:p] = np.dot(x.T, weighted(self.seen.block, self.first[j])[:, None] * given)
        if self.scales:
            cross[p] = np.dot(weighted(self.seen.block, self.scale[j]), given)
        return cross


def _curves(
    mixture: Mixture, seen: Seen, resp: Array
) -> tuple[Array, Array, tuple[Array, Array, Array]]:
    """`first`, `scale` and `left` of `RowSums`, with little beside them."""
    family, posterior, k = mixture.family, seen.posterior[: len(resp)], len(resp)
    kinds = np.zeros((5 if mixture.scales else 2, *resp.shape))
    for j in range(k):
        found = family.row_curves(seen.block, seen.params, seen.state, j)
        for kind, values in zip(kinds, found, strict=False):
            kind[j] = values
    if not mixture.scales:
        first, bend = kinds
        bend -= first**2
        bend *= resp
        none = np.empty((k, 0))
        return np.multiply(first, posterior, out=first), none, (bend, none, none)
    unit = 1 / family.dispersion_power
    first, bend, mixed, scale, scale_bend = kinds
    left = (
        (bend, first, first, 1),
        (mixed, first, scale, unit),
        (scale_bend, scale, scale, unit**2),
    )
    for curve, one, other, size in left:
        curve -= one * other
        curve *= resp
        curve *= size
    first *= posterior
    scale *= posterior
    scale *= unit
    return first, scale, (bend, mixed, scale_bend)


def gate_scores(prior: Array, z: Array, j: int) -> Array:
    """Score of each unit in the gate of classes 2..K, given class j, (units, (K - 1) q)."""
    gap = -prior[1:]
    if j:
        gap[j - 1] += 1.0
    return gate_part(gap, z)


def gate_part(gap: Array, z: Array) -> Array:
    """Gaps (K - 1, units) of classes 2..K times the concomitants, (units, (K - 1) q)."""
    product = gap.T[:, :, None] * z[:, None, :]
    return product.reshape(product.shape[0], -1)
