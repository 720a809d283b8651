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
    weight : float
        Units, with their weights.
    sums : (2 k,) array
        Components of the first fit, then of the second.
    products : (2 k, 2 k) array
    """

    weight: float
    sums: Array
    products: Array

    def __add__(self, other: LabelProducts) -> LabelProducts:
        """Add the sums of other units."""
        return LabelProducts(
            self.weight + other.weight, self.sums + other.sums, self.products + other.products
        )

    def apart(self) -> Array:
        """Distance of the labels of each pair of components, (k, k)."""
        k, own = len(self.sums) // 2, np.diag(self.products)
        squares = own[:k, None] + own[k:] - 2 * self.products[:k, k:]
        return np.sqrt(np.maximum(squares, 0.0))

    def sureness(self, order: NDArray[np.int64]) -> float:
        """How sure it is that the second fit's components go in this order, 0 to 1.

        Two components of a fit are told apart by which of the two a unit belongs to.
        If the second fit tells them apart as the first does (a correlation of 1) the order
        is sure; at a correlation of 0 the two could as well change places, and it is one
        half. The least sure pair of components counts.
        """
        k = len(order)
        first, second = np.triu_indices(k, 1)
        pairs = np.arange(len(first))
        contrasts = np.zeros((2, len(first), 2 * k))
        for fit, places in enumerate((np.arange(k), k + np.asarray(order))):
            contrasts[fit, pairs, places[first]] = 1.0
            contrasts[fit, pairs, places[second]] = -1.0
        centred = self.products - np.outer(self.sums, self.sums) / self.weight
        one, other = contrasts
        both = np.einsum("pa,ab,pb->p", one, centred, other)
        spread = [np.einsum("pa,ab,pb->p", c, centred, c) for c in contrasts]
        # Components of a fit that no unit tells apart leave everything open.
        size = np.sqrt(np.maximum(spread[0] * spread[1], np.finfo(float).tiny))
        return float(np.clip((1 + both / size) / 2, 0.0, 1.0).min(initial=1.0))


@dataclass(frozen=True, slots=True)
class Overlap:
    """Task: what the labels of two mixtures, a stack, have in common."""

    mixture: Mixture

    def __call__(self, block: Block | GramBlock, params: Parameters) -> LabelProducts:
        """Process one block."""
        labels = Posterior(self.mixture)(block, params).join()[: params.k]
        each = np.concatenate(np.moveaxis(labels, 1, 0))
        heavy = weighted(block, each)
        weight = each.shape[1] if block.weight is None else float(block.weight.sum())
        return LabelProducts(weight, heavy.sum(axis=1), np.dot(heavy, each.T))
