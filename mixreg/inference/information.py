"""Score and observed information of a mixture, as sums over units.

For a unit with posterior r_j and complete-data score s_j and Hessian H_j of
component j, the score is s = sum r_j s_j and the observed information is

    s s' - sum r_j (s_j s_j' + H_j)

(Louis 1982). Labels are not treated as known: what is uncertain about them is
in the first term. Parameters are coefficients and log standard deviation of
each component, then the logits of components 2..k (`Layout` with free
variances); other layouts follow by contraction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block
from mixreg.estimators.expectation import log_joint, normalise
from mixreg.families import Gaussian
from mixreg.params import Layout, Parameters

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class InformationSums:
    """Sums over units at given parameters, in the layout with free variances.

    Attributes
    ----------
    objective : (1,) array
        Log-likelihood.
    score : (m,) array
    information : (m, m) array
        Minus the Hessian of the log-likelihood.
    outer : (m, m) array
        Outer products of the units' scores.
    clusters : (clusters, m) array or None
        Scores added up within clusters.
    """

    objective: Array
    score: Array
    information: Array
    outer: Array
    clusters: Array | None = None

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
            None if self.clusters is None else self.clusters @ J,
        )


@dataclass(frozen=True, slots=True)
class TakeInformation:
    """Task: score and observed information of one mixture.

    Attributes
    ----------
    family : Gaussian
    cluster : (units,) int array or None
        Cluster of every unit of the source, numbered from 0.
    """

    family: Gaussian
    cluster: NDArray[np.intp] | None = None

    def __call__(self, block: Block, params: Parameters) -> InformationSums:
        """Process one block."""
        k, p = params.coef.shape
        residuals = self.family.residuals(block, params)
        posterior = log_joint(self.family, block, params, residuals)
        marginal = normalise(posterior)
        weight = np.ones(block.units) if block.weight is None else block.weight
        layout = Layout(k, ("",) * p, equal_variance=False)
        scores = np.empty((block.units, layout.size))
        info = np.zeros((layout.size, layout.size))
        gate, pi = layout.gating_index(), params.weights
        for j in range(k):
            own = slice(j * (p + 1), (j + 1) * (p + 1))
            r = posterior[j]
            score = self._component_score(block, params, residuals[j], j)
            scores[:, own] = r[:, None] * score
            wr = weight * r
            root = score * np.sqrt(wr)[:, None]
            info[own, own] -= root.T @ root
            info[own, own] += self._component_information(block, params, residuals[j], wr, j)
            # The gate's score given component j is the same for every unit.
            chosen = (np.arange(1, k) == j) - pi[1:]
            cross = np.outer(weight @ scores[:, own], chosen)
            info[own, gate] -= cross
            info[gate, own] -= cross.T
            info[np.ix_(gate, gate)] -= wr.sum() * np.outer(chosen, chosen)
        info[np.ix_(gate, gate)] += weight.sum() * (np.diag(pi[1:]) - np.outer(pi[1:], pi[1:]))
        scores[:, gate] = (posterior[1:] - pi[1:, None]).T
        root = scores if block.weight is None else scores * np.sqrt(weight)[:, None]
        outer = root.T @ root
        weighted_scores = scores if block.weight is None else scores * weight[:, None]
        return InformationSums(
            np.array([float(weight @ marginal)]),
            weighted_scores.sum(axis=0),
            info + outer,
            outer,
            self._cluster_sums(block, weighted_scores),
        )

    def _component_score(self, block: Block, params: Parameters, e: Array, j: int) -> Array:
        variance = params.dispersion[j]
        slopes = block.x * (e / variance)[:, None]
        spread = e * e / variance - 1.0
        columns = np.column_stack([slopes, spread])
        return np.ascontiguousarray(block.per_unit(columns.T).T)

    def _component_information(
        self, block: Block, params: Parameters, e: Array, wr: Array, j: int
    ) -> Array:
        variance = params.dispersion[j]
        r = block.per_row(wr) / variance
        root, p = block.x * np.sqrt(r)[:, None], block.x.shape[1]
        info = np.empty((p + 1, p + 1))
        info[:p, :p] = root.T @ root
        info[:p, p] = info[p, :p] = 2 * ((r * e) @ block.x)
        info[p, p] = 2 * float(r @ (e * e))
        return info

    def _cluster_sums(self, block: Block, scores: Array) -> Array | None:
        if self.cluster is None:
            return None
        codes = self.cluster[block.first : block.first + block.units]
        sums = np.zeros((int(self.cluster.max()) + 1, scores.shape[1]))
        np.add.at(sums, codes, scores)
        return sums
