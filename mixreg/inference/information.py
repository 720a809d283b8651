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

from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import Seen, one_hot, weighted
from mixreg.inference.row_scores import RowSums, gate_part, gate_scores
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Scores of units that are held at once: more take memory and save no time.
SCORES = 100_000


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
            np.nan_to_num(self.score, posinf=0.0, neginf=0.0) @ J,
            J.T @ _finite(self.information) @ J,
            J.T @ _finite(self.outer) @ J,
            None if self.clusters is None else self.clusters.contract(J),
        )


def _finite(matrix: Array) -> Array:
    """A matrix without what overflowed: of such parameters nothing is known."""
    if np.isfinite(matrix).all():
        return matrix
    lost = ~np.isfinite(np.diag(matrix))
    found = np.nan_to_num(matrix, posinf=0.0, neginf=0.0)
    found[lost, :] = found[:, lost] = 0.0
    return found


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
        """Process one block."""
        return self.of(Seen.by(self.mixture, block, params))

    def of(self, seen: Seen) -> InformationSums:
        """The sums of a block that was looked at, some scores at a time."""
        block, params = seen.block, seen.params
        width = params.coef.shape[1] + self.mixture.scales
        columns = params.k * width + (params.gating.shape[0] - 1) * self.mixture.gate.width
        each = max(1, -(-block.units // -(-block.rows * columns // SCORES)))
        edges = [*range(0, block.units, each), block.units]
        if block.starts is None and block.owners is None:
            return self._rows(self._labelled(seen), edges)
        return reduce(add, (self._units(block.cut(*ends), params) for ends in pairwise(edges)))

    def _rows(self, seen: Seen, edges: list[int]) -> InformationSums:
        """Rows are units: scores and information are products of the same columns."""
        block, rows = seen.block, RowSums.of(self.mixture, seen)
        m = rows.gate.stop
        info, outer, score = np.zeros((m, m)), np.zeros((m, m)), np.zeros(m)
        clusters: list[ClusterSums] = []
        for ends in pairwise(edges):
            part = slice(*ends)
            scores = rows.add_up(part, info)
            weight = None if block.weight is None else block.weight[part]
            heavy = scores if weight is None else scores * weight
            # The product of an array with itself costs half.
            root = scores if weight is None else scores * np.sqrt(weight)
            outer += np.dot(root, root.T)
            score += heavy.sum(axis=1)
            if self.clusters:
                clusters.append(ClusterSums.of(block.cov_group[part], heavy.T))
        rows.add_gate(info, score)
        objective = np.array([float(weighted(block, seen.marginal).sum())])
        return InformationSums(
            objective, score, info + outer, outer, reduce(add, clusters) if clusters else None
        )

    def _units(self, block: Block, params: Parameters) -> InformationSums:
        family, chances = self.mixture.family, self.mixture.gate
        seen = self._labelled(Seen.by(self.mixture, block, params))
        state, posterior = seen.state, seen.posterior
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
            score = family.component_scores(block, params, state, j)
            heavy = score * np.sqrt(wr)[:, None]
            info[own, own] = family.component_information(block, params, state, wr, j)
            info[own, own] -= np.dot(heavy.T, heavy)
            part = scores[:, own] = posterior[j][:, None] * score
            part = part if block.weight is None else part * weight[:, None]
            cross = np.dot(part.T, given)
            info[own, gate] -= cross
            info[gate, own] -= cross.T
        info[gate, gate] += chances.information(block, params, posterior * weight)
        scores[:, gate] = gate_part((posterior - prior)[1:], z)
        return self._sums(block, scores, info, weight, seen.marginal)

    def _labelled(self, seen: Seen) -> Seen:
        """The same block; with hard labels in place of the posterior, if asked for."""
        if not self.hard:
            return seen
        chosen = one_hot(self.mixture, seen)
        joint = self.mixture.log_joint(seen.block, seen.params, seen.state)
        marginal = np.where(chosen > 0, joint, 0.0).sum(axis=0)
        return replace(seen, posterior=chosen, marginal=marginal)

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
        assert block.cov_group is not None
        return ClusterSums.of(block.cov_group, scores)
