"""Coefficients that a component's rows do not determine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import Seen, one_hot, weighted
from mixreg.exact.certificate import fitted_alone
from mixreg.families.statistics import square
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Directions with less than this share of the most that a component knows in any
# direction, in standard coordinates, are not determined.
KNOWN = 1e-8


@dataclass(frozen=True, slots=True)
class CrossProducts:
    """Task: cross products of the regressors of each component's rows, (k, p, p).

    Attributes
    ----------
    mixture : Mixture
    hard : bool
        Take the labels of hard assignment for known.
    exact : bool
        Take only rows that no other component fits.
    """

    mixture: Mixture
    hard: bool = False
    exact: bool = False

    def __call__(self, block: Block, params: Parameters) -> Array:
        """Process one block."""
        return self.of(Seen.by(self.mixture, block, params))

    def of(self, seen: Seen) -> Array:
        """The sums of a block that was looked at."""
        block, share = seen.block, self._shares(seen)
        p = block.x.shape[1]
        found = np.zeros((len(share), p, p))
        for at, own in block.responses():
            x = _within_sets(block) if block.opens is not None else own.x
            found[square(at)] = [np.dot((x * r[:, None]).T, x) for r in share]
        return found

    def _shares(self, seen: Seen) -> Array:
        """How much of each row belongs to each component, (k, rows)."""
        block, k = seen.block, seen.params.k
        if self.exact:
            return fitted_alone(self.mixture, block, seen.params).astype(float)
        units = one_hot(self.mixture, seen) if self.hard else seen.posterior
        return np.asarray(block.per_row(weighted(block, units[:k])))


def _within_sets(block: Block) -> Array:
    """What differs within choice sets, which is all that choices depend on."""
    sizes = np.diff(block.sets, append=block.rows)
    means = np.add.reduceat(block.x, block.sets, axis=0) / sizes[:, None]
    return np.asarray(block.x - np.repeat(means, sizes, axis=0))


def undetermined(xx: Array, inner: Layout) -> Array:
    """Directions of the standard parameters that no rows tell of, orthonormal, (m, r).

    Parameters
    ----------
    xx : (k, p, p) array
        Cross products of the standard regressors of each component's rows.
    inner : Layout
        Of the standard coordinates.
    """
    free = inner.free()
    known = np.eye(free.size)
    most = np.linalg.eigvalsh(xx)[:, -1]
    least = KNOWN * max(float(most.sum()), 1e-300)
    for products, top, index in zip(xx, most, free.coef_index(), strict=True):
        known[np.ix_(index, index)] = products / max(float(top), least)
    J = inner.contraction()
    values, vectors = np.linalg.eigh(J.T @ known @ J)
    return np.asarray(vectors[:, values < KNOWN])


def named(mask: NDArray[np.bool_], layout: Layout) -> tuple[tuple[int, int], ...]:
    """Pairs (component, term), both from 0, of the coefficients in a mask."""
    index = layout.coef_index()
    pairs = np.argwhere(mask[index] & (index >= 0))
    return tuple((int(j), int(i)) for j, i in pairs)
