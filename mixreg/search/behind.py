"""How far some fits are behind the best of them, and how surely rows say so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import Marginal
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lag:
    """What units of the first of some fits have over those of each, (runs,).

    Attributes
    ----------
    total, square : (runs,) arrays
        Differences of log densities added up, and their squares.
    units : int
    """

    total: Array
    square: Array
    units: int

    def __add__(self, other: Lag) -> Lag:
        """Add the sums of other units."""
        return Lag(self.total + other.total, self.square + other.square, self.units + other.units)

    @property
    def error(self) -> Array:
        """Standard errors of the totals, as if other units might have been drawn."""
        with np.errstate(invalid="ignore", over="ignore"):
            # Of a fit that some row has no density under, there is none.
            return np.sqrt(np.maximum(self.square - self.total**2 / self.units, 0.0))


@dataclass(frozen=True, slots=True)
class TakeLag:
    """Task: how far the mixtures of a stack are behind the first of them."""

    mixture: Mixture

    def __call__(self, block: Block | GramBlock, params: Parameters) -> Lag:
        """Process one block."""
        each = Marginal(self.mixture)(block, params).join()
        with np.errstate(invalid="ignore", over="ignore"):
            # Rows that neither of two fits can have made say nothing of which is behind.
            behind = np.nan_to_num(each[0] - each, nan=0.0, posinf=np.inf, neginf=-np.inf)
            return Lag(behind.sum(axis=-1), (behind**2).sum(axis=-1), block.units)
