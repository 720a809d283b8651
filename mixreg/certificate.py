"""The certificate: zero loss that chance cannot explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block
from mixreg.families import Gaussian
from mixreg.params import Parameters
from mixreg.sources import Source

Array = NDArray[np.float64]

# Residual (unit variance) below which a row counts as fitted exactly.
EXACT_RESIDUAL = 1e-9


@dataclass(frozen=True, slots=True)
class OwnRows:
    """Distinct regressors of rows that one component alone fits exactly.

    Attributes
    ----------
    rows : tuple of (at most p + 1, p) arrays
        One for each component; more than p + 1 need not be kept.
    """

    rows: tuple[Array, ...]

    def __add__(self, other: OwnRows) -> OwnRows:
        """Join with the rows of another block."""
        pairs = zip(self.rows, other.rows, strict=True)
        return OwnRows(tuple(_distinct(np.concatenate(pair)) for pair in pairs))


@dataclass(frozen=True, slots=True)
class FindOwnRows:
    """Task: rows that belong to one component only."""

    family: Gaussian

    def __call__(self, block: Block, params: Parameters) -> OwnRows:
        """Process one block."""
        fitted = np.abs(self.family.residuals(block, params)) < EXACT_RESIDUAL
        alone = fitted & (fitted.sum(axis=0) == 1)
        return OwnRows(tuple(_distinct(block.x[mine]) for mine in alone))


def _distinct(x: Array) -> Array:
    # Rounded, because equal rows can differ in the last bits after rotation.
    return np.unique(x.round(9), axis=0)[: x.shape[1] + 1]


def certified(source: Source, family: Gaussian, params: Parameters) -> bool:
    """Whether each component alone fits more distinct rows than it has coefficients.

    A wrong component passes through no more rows than it has coefficients, if
    regressors are in general position (almost surely, where they are continuous).
    """
    own = source.sweep(FindOwnRows(family), params)
    return all(len(rows) > params.coef.shape[1] for rows in own.rows)
