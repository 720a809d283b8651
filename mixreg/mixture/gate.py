"""Class probabilities: constants, or a multinomial logit on concomitant variables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.families.statistics import unfold_triangle
from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.sources.block import Block, GramBlock, column_pairs

Array = NDArray[np.float64]

LONGEST_STEP = 5.0


@dataclass(frozen=True, slots=True)
class GateStatistics:
    """Sums for the gate's M-step, with K classes.

    Attributes
    ----------
    score : (K, [runs,] q) array
    information : (K, K, [runs,] q (q + 1) / 2) array
        Upper triangles of the blocks.
    """

    score: Array
    information: Array

    def __add__(self, other: GateStatistics) -> GateStatistics:
        """Add the sums of other units."""
        return GateStatistics(self.score + other.score, self.information + other.information)

    def choose(self, runs: NDArray[np.bool_], other: GateStatistics) -> GateStatistics:
        """Keep the sums of some runs and take the rest from another pass."""
        wide = runs[:, None]
        return GateStatistics(
            np.where(wide, self.score, other.score),
            np.where(wide, self.information, other.information),
        )

    def take(self, runs: NDArray[np.bool_]) -> GateStatistics:
        """Sums of some runs of a stack."""
        return GateStatistics(self.score[:, runs], self.information[:, :, runs])

    def matrix(self) -> Array:
        """Information of classes 2..K, ([runs,] (K - 1) q, (K - 1) q)."""
        q = self.score.shape[-1]
        full = unfold_triangle(self.information[1:, 1:], q)
        # (K-1, K-1, [runs,] q, q) with classes outside, coefficients inside.
        full = np.moveaxis(full, (0, 1), (-4, -2))
        size = full.shape[-4] * q
        return full.reshape(*full.shape[:-4], size, size)


def log_prior(block: Block | GramBlock, params: Parameters) -> Array:
    """Log class probability of each unit, (K, [runs,] units or 1)."""
    if block.z is None:
        return params.log_weights[..., None]
    gate = params.gating
    utility = gate @ block.z.T
    utility -= utility.max(axis=0)
    utility -= np.log(np.exp(utility).sum(axis=0))
    return np.asarray(utility)


def gate_statistics(
    block: Block | GramBlock, params: Parameters, responsibilities: Array
) -> GateStatistics | None:
    """Sums for the gate's M-step; None when class probabilities are constant.

    Weighted responsibilities are (K, [runs,] units).
    """
    if block.z is None:
        return None
    prior = np.exp(log_prior(block, params))
    total = responsibilities.sum(axis=0)
    score = (responsibilities - total * prior) @ block.z
    pairs, K = column_pairs(block.z), prior.shape[0]
    info = np.empty((K, K, *prior.shape[1:-1], pairs.shape[1]))
    for j in range(K):
        for other in range(j, K):
            mixed = prior[j] * ((j == other) - prior[other]) * total
            info[j, other] = info[other, j] = mixed @ pairs
    return GateStatistics(score, info)


def update_gate(count: Array, sums: GateStatistics | None, params: Parameters) -> Array:
    """M-step of the gate: shares of the counts, or one Newton step."""
    if sums is None:
        return log_gating(np.asarray(count / count.sum(axis=0)))
    gate = params.gating - params.gating[:1]
    K, q = gate.shape[0], gate.shape[-1]
    if K == 1:
        return gate
    lhs = sums.matrix()
    score = np.moveaxis(sums.score[1:], 0, -2)
    score = score.reshape(*score.shape[:-2], (K - 1) * q)
    ridge = 1e-8 * count.sum(axis=0)[..., None, None]
    step = np.linalg.solve(lhs + ridge * np.eye((K - 1) * q), score[..., None])[..., 0]
    length = np.abs(step).max(axis=-1, keepdims=True)
    step = step * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-300))
    step = np.moveaxis(step.reshape(*step.shape[:-1], K - 1, q), -2, 0)
    return np.concatenate([gate[:1], gate[1:] + step])


def widen(gating: Array, q: int) -> Array:
    """Log weights (K, [runs,] 1) as a gate on q variables, the first a constant."""
    if gating.shape[-1] == q:
        return gating
    out = np.zeros((*gating.shape[:-1], q))
    out[..., 0] = gating[..., 0] - gating[:1, ..., 0]
    return out
