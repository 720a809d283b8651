"""Average class probabilities and their slopes, as sums over units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import Seen
from mixreg.mixture.gate import Gate
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Source
from mixreg.sources.base import Parts
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]

# Where all units are alike, one stands for them, and no pass is made.
ANYONE = Block(np.ones((1, 1)), np.ones(1))


@dataclass(frozen=True, slots=True)
class GateSums:
    """Class probabilities added up over units.

    Attributes
    ----------
    prior : (K,) array
    slope : (K, K - 1, q) array
        Their derivatives in the gate of classes 2..K.
    weight : float
        Units, counted with their weights.
    """

    prior: Array
    slope: Array
    weight: float

    def __add__(self, other: GateSums) -> GateSums:
        """Add the sums of other units."""
        return GateSums(
            self.prior + other.prior, self.slope + other.slope, self.weight + other.weight
        )

    @property
    def average(self) -> Array:
        """Average class probabilities, (K,)."""
        return np.asarray(self.prior / self.weight)

    @property
    def average_slope(self) -> Array:
        """Their derivatives in the flat gate, (K, (K - 1) q)."""
        return np.asarray(self.slope.reshape(len(self.slope), -1) / self.weight)


@dataclass(frozen=True, slots=True)
class ClassProbabilities:
    """Task: class probabilities of every unit, (K, units)."""

    gate: Gate

    def __call__(self, block: Block | GramBlock, params: Parameters) -> Parts:
        """Process one block."""
        prior = np.exp(self.gate.log_prior(block, params))
        return Parts((np.broadcast_to(prior, (*prior.shape[:-1], block.units)),))


@dataclass(frozen=True, slots=True)
class PriorSums:
    """Task: class probabilities of a stack of mixtures added up over units, (K, runs)."""

    gate: Gate

    def __call__(self, block: Block | GramBlock, params: Parameters) -> Array:
        """Process one block."""
        prior = ClassProbabilities(self.gate)(block, params).join()
        return np.asarray(prior.sum(axis=-1) if block.weight is None else prior @ block.weight)


@dataclass(frozen=True, slots=True)
class TakeGate:
    """Task: class probabilities of one mixture, and their slopes."""

    gate: Gate

    def of(self, seen: Seen) -> GateSums:
        """The sums of a block that was looked at."""
        return self(seen.block, seen.params)

    def __call__(self, block: Block | GramBlock, params: Parameters) -> GateSums:
        """Process one block."""
        if self.gate.constant and block is not ANYONE:
            units = float(block.units if block.weight is None else block.weight.sum())
            one = self(ANYONE, params)
            return GateSums(units * one.prior, units * one.slope, units)
        weight = np.ones(block.units) if block.weight is None else block.weight
        z = self.gate.variables(block)
        prior = ClassProbabilities(self.gate)(block, params).join()
        own = np.arange(1, len(prior))
        gap = (np.arange(len(prior))[:, None] == own)[..., None] - prior[None, 1:]
        slope = np.dot(prior[:, None] * gap * weight, z)
        return GateSums(prior @ weight, slope, float(weight.sum()))


def average_gate(source: Source, gate: Gate, params: Parameters) -> GateSums:
    """Class probabilities and slopes, averaged over units where these differ."""
    if not gate.constant:
        return source.sweep(TakeGate(gate), params)
    return TakeGate(gate)(ANYONE, params)


def average_weights(source: Source, gate: Gate, params: Parameters) -> Array:
    """Class probabilities of a stack, averaged over units where these differ, (K, runs)."""
    if not gate.constant:
        return source.sweep(PriorSums(gate), params) / source.total_weight
    return PriorSums(gate)(ANYONE, params)
