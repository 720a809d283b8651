"""How much the labels of two fits have in common, as sums over units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import Posterior, weighted
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelProducts:
    """Products of posterior probabilities added up over units, with their weights.

    Attributes
    ----------
    first, second : (k,) arrays
        Squares, of the components of each fit.
    both : (k, k) array
        Components of the first fit x components of the second.
    """

    first: Array
    second: Array
    both: Array

    def __add__(self, other: LabelProducts) -> LabelProducts:
        """Add the sums of other units."""
        return LabelProducts(
            self.first + other.first, self.second + other.second, self.both + other.both
        )

    def apart(self) -> Array:
        """Distance of the labels of each pair of components, (k, k)."""
        squares = self.first[:, None] + self.second - 2 * self.both
        return np.sqrt(np.maximum(squares, 0.0))


@dataclass(frozen=True, slots=True)
class Overlap:
    """Task: what the labels of two mixtures, a stack, have in common."""

    mixture: Mixture

    def __call__(self, block: Block | GramBlock, params: Parameters) -> LabelProducts:
        """Process one block."""
        first, second = np.moveaxis(Posterior(self.mixture)(block, params).join()[: params.k], 1, 0)
        heavy = weighted(block, first)
        return LabelProducts(
            (heavy * first).sum(axis=-1),
            (weighted(block, second) * second).sum(axis=-1),
            np.dot(heavy, second.T),
        )
