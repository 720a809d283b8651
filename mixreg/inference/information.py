"""Score and observed information of a mixture, as sums over units.

For a unit with posterior r_j and complete-data score s_j and Hessian H_j of
component j, the score is s = sum r_j s_j and the observed information is

    s s' - sum r_j (s_j s_j' + H_j)

(Louis 1982). Labels are not treated as known: what is uncertain about them is
in the first term. Parameters are those of each component, then the gate of
classes 2..K (`Layout` with nothing in common); other layouts follow by
contraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import hard_labels, normalise
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Scores of units that are held at once: more take memory and save no time.
SCORES = 200_000


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """Scores added up within the clusters that occur in some blocks.

    Attributes
    ----------
    parts : tuple of (codes, sums) pairs
        Clusters in ascending order, (c,), and their sums, (c, m). A cluster may
        be in several parts.
    """

    parts: tuple[tuple[NDArray[np.intp], Array], ...]

    @staticmethod
    def of(codes: NDArray[np.intp], scores: Array) -> ClusterSums:
        """Sums of some units' scores, (units, m)."""
        return ClusterSums((_by_code(codes, scores),))

    def __add__(self, other: ClusterSums) -> ClusterSums:
        """Add the sums of other units."""
        parts = [*self.parts, *other.parts]
        # Parts are joined when they are of like size, so that no cluster is
        # copied for every block.
        while len(parts) > 1 and len(parts[-2][0]) <= 2 * len(parts[-1][0]):
            parts[-2:] = [_joined(parts[-2:])]
        return ClusterSums(tuple(parts))

    def each(self) -> Array:
        """One row a cluster, (clusters, m)."""
        return _joined(self.parts)[1]

    def contract(self, J: Array) -> ClusterSums:
        """The same sums of other parameters."""
        return ClusterSums(tuple((codes, sums @ J) for codes, sums in self.parts))


def _joined(parts: Any) -> tuple[NDArray[np.intp], Array]:
    """Several parts as one."""
    if len(parts) == 1:
        found: tuple[NDArray[np.intp], Array] = parts[0]
        return found
    codes, sums = zip(*parts, strict=True)
    return _by_code(np.concatenate(codes), np.concatenate(sums))


def _by_code(codes: NDArray[np.intp], values: Array) -> tuple[NDArray[np.intp], Array]:
    """Values (n, m) added up where codes are the same, in ascending order of codes."""
    order = np.argsort(codes, kind="stable")
    found, first = np.unique(codes[order], return_index=True)
    return found, np.add.reduceat(values[order], first, axis=0)


@dataclass(frozen=True, slots=True)
class InformationSums:
    """Sums over units at given parameters, in the layout with nothing in common.

    Attributes
    ----------
    objective : (1,) array
        Log-likelihood.
    score : (m,) array
    information : (m, m) array
        Minus the Hessian of the log-likelihood.
    outer : (m, m) array
        Outer products of the units' scores.
    clusters : ClusterSums or None
        Scores added up within clusters.
    """

    objective: Array
    score: Array
    information: Array
    outer: Array
    clusters: ClusterSums | None = None

    def __add__(self, other: InformationSums) -> InformationSums:
        """Add the sums of other units."""
        clusters = self.clusters
        if clusters is not None and other.clusters is not None:
            clusters = clusters + other.clusters
        return InformationSums(
            self.objective + other.objective,
            self.score + other.score,
            self.information + other.information,
            self.outer + other.outer,
            clusters,
        )

    def take(self, runs: NDArray[np.bool_]) -> InformationSums:
        """There is only one run; nothing to leave out."""
        return self

    def choose(self, runs: NDArray[np.bool_], other: InformationSums) -> InformationSums:
        """These sums, or those of another pass."""
        return self if runs[0] else other

    def contract(self, layout: Layout) -> InformationSums:
        """The same sums for a layout with fewer parameters."""
        J = layout.contraction()
        return InformationSums(
            self.objective,
            self.score @ J,
            J.T @ self.information @ J,
            J.T @ self.outer @ J,
            None if self.clusters is None else self.clusters.contract(J),
        )


@dataclass(frozen=True, slots=True)
class TakeInformation:
    """Task: score and observed information of one mixture.

    Attributes
    ----------
    mixture : Mixture
    clusters : bool
        Add up scores within the clusters that blocks say units are in.
    hard : bool
        Take the labels of hard assignment for known.
    """

    mixture: Mixture
    clusters: bool = False
    hard: bool = False

    def __call__(self, block: Block, params: Parameters) -> InformationSums:
        """Process one block, a part at a time."""
        width = params.coef.shape[1] + self.mixture.scales
        columns = params.k * width + (params.gating.shape[0] - 1) * self.mixture.gate.width
        parts = -(-block.rows * columns // SCORES)
        each = max(1, -(-block.units // parts))
        edges = [*range(0, block.units, each), block.units]
        return reduce(add, (self._part(block.cut(*ends), params) for ends in pairwise(edges)))

    def _part(self, block: Block, params: Parameters) -> InformationSums:
        family, chances = self.mixture.family, self.mixture.gate
        state = family.evaluate(block, params)
        posterior, marginal = self._labels(block, params, state)
        weight = np.ones(block.units) if block.weight is None else block.weight
        width = params.coef.shape[1] + self.mixture.scales
        k, K, q = params.k, params.gating.shape[0], chances.width
        gate = slice(k * width, k * width + (K - 1) * q)
        scores = np.empty((block.units, gate.stop))
        info = np.zeros((gate.stop, gate.stop))
        z = chances.variables(block)
        prior = np.broadcast_to(np.exp(chances.log_prior(block, params)), posterior.shape)
        for j in range(K):
            wr = weight * posterior[j]
            given = gate_scores(prior, z, j)
            root = given * np.sqrt(wr)[:, None]
            info[gate, gate] -= np.dot(root.T, root)
            if j == k:
                continue  # The background has no parameters of its own.
            own = slice(j * width, (j + 1) * width)
            score, info[own, own] = self._own(block, params, state, wr, j)
            part = scores[:, own] = posterior[j][:, None] * score
            part = part if block.weight is None else part * weight[:, None]
            cross = np.dot(part.T, given)
            info[own, gate] -= cross
            info[gate, own] -= cross.T
        info[gate, gate] += chances.information(block, params, posterior * weight)
        scores[:, gate] = _gate_part(posterior - prior, z)
        return self._sums(block, scores, info, weight, marginal)

    def _own(
        self, block: Block, params: Parameters, state: Any, wr: Array, j: int
    ) -> tuple[Array, Array]:
        """Scores of units in component j's parameters; their information less outer products."""
        family = self.mixture.family
        if block.starts is not None or block.owners is not None:
            score = family.component_scores(block, params, state, j)
            heavy = score * np.sqrt(wr)[:, None]
            info = family.component_information(block, params, state, wr, j)
            info -= np.dot(heavy.T, heavy)
            return score, info
        # Rows are units: both are sums of products of the same columns.
        x, p = block.x, block.x.shape[1]
        first, bend, mixed, scale, scale_bend = family.row_curves(block, params, state, j)
        scales = family.scale_design(block)
        score = np.empty((block.rows, p + scales.shape[1]))
        np.multiply(x, first[:, None], out=score[:, :p])
        info = np.empty((score.shape[1],) * 2)
        info[:p, :p] = np.dot((x * (wr * (bend - first**2))[:, None]).T, x)
        if scales.shape[1]:
            score[:, p:] = scales * scale[:, None]
            cross = ((wr * (mixed - first * scale)) @ x)[:, None] * scales[:1]
            info[:p, p:], info[p:, :p] = cross, cross.T
            rest = float(wr @ (scale_bend - scale**2))
            info[p:, p:] = rest * scales[:1].T @ scales[:1]
        return score, info

    def _labels(self, block: Block, params: Parameters, state: Any) -> tuple[Array, Array]:
        """Posterior, and log marginal density of each unit."""
        joint = self.mixture.log_joint(block, params, state)
        if self.hard:
            _, labels = hard_labels(self.mixture, block, params, state)
            chosen = (np.arange(joint.shape[0])[:, None] == labels).astype(float)
            return chosen, (np.where(chosen > 0, joint, 0.0)).sum(axis=0)
        marginal = normalise(joint)
        return joint, marginal

    def _sums(
        self, block: Block, scores: Array, info: Array, weight: Array, marginal: Array
    ) -> InformationSums:
        root = scores if block.weight is None else scores * np.sqrt(weight)[:, None]
        outer = np.dot(root.T, root)
        weighted_scores = scores if block.weight is None else scores * weight[:, None]
        return InformationSums(
            np.array([float(weight @ marginal)]),
            weighted_scores.sum(axis=0),
            info + outer,
            outer,
            self._cluster_sums(block, weighted_scores),
        )

    def _cluster_sums(self, block: Block, scores: Array) -> ClusterSums | None:
        if not self.clusters:
            return None
        assert block.cluster is not None
        return ClusterSums.of(block.cluster, scores)


def gate_scores(prior: Array, z: Array, j: int) -> Array:
    """Score of each unit in the gate of classes 2..K, given class j, (units, (K - 1) q)."""
    gap = -prior[1:]
    if j:
        gap = gap.copy()
        gap[j - 1] += 1.0
    return _gate_part(np.concatenate([prior[:1], gap]), z)


def _gate_part(gap: Array, z: Array) -> Array:
    """Gaps (K, units) of classes 2..K times the concomitants, (units, (K - 1) q)."""
    product = gap[1:].T[:, :, None] * z[:, None, :]
    return product.reshape(product.shape[0], -1)
