"""The certificate: zero loss that chance cannot explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block
from mixreg.mixture import Mixture
from mixreg.params import Parameters
from mixreg.sources import Source

Array = NDArray[np.float64]

# Residual (unit variance) below which a row counts as fitted exactly.
EXACT_RESIDUAL = 1e-9


@dataclass(frozen=True, slots=True)
class OwnRows:
    """Rows that one component alone fits exactly, counted for each component.

    Attributes
    ----------
    rows, distinct_x, distinct_y : (k,) arrays
        All of them; those with different regressors; different responses.
        Differences are counted within blocks.
    """

    rows: Array
    distinct_x: Array
    distinct_y: Array

    def __add__(self, other: OwnRows) -> OwnRows:
        """Add the counts of another block."""
        return OwnRows(
            self.rows + other.rows,
            self.distinct_x + other.distinct_x,
            np.maximum(self.distinct_y, other.distinct_y),
        )


@dataclass(frozen=True, slots=True)
class FindOwnRows:
    """Task: rows that belong to one component only."""

    mixture: Mixture

    def __call__(self, block: Block, params: Parameters) -> OwnRows:
        """Process one block."""
        fitted = np.abs(self.mixture.family.evaluate(block, params)) < EXACT_RESIDUAL
        alone = fitted & (fitted.sum(axis=0) == 1)
        # Rounded, because equal rows can differ in the last bits after rotation.
        x = [len(np.unique(block.x[mine].round(9), axis=0)) for mine in alone]
        y = [len(np.unique(block.y[mine].round(9))) for mine in alone]
        return OwnRows(alone.sum(axis=1).astype(float), np.array(x, float), np.array(y, float))


def certified(source: Source, mixture: Mixture, params: Parameters) -> bool:
    """Whether each component alone fits more rows than chance or ties could explain.

    In general position a wrong component passes through no more rows than it
    has coefficients. Data on a lattice are not in general position: most rows
    must differ, and so must their responses.
    """
    own, p = source.sweep(FindOwnRows(mixture), params), params.coef.shape[1]
    general = (own.distinct_x > p) & (own.distinct_y > p)
    return bool((general & (own.distinct_x > 0.5 * own.rows)).all())
