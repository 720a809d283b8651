"""Sums over units that a gate's M-step needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mixreg.families.statistics import unfold_triangle

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GateStatistics:
    """Sums for a gate's M-step beside the counts of the classes: none."""

    def __add__(self, other: Self) -> Self:
        """Add the sums of other units."""
        return self

    def choose(self, runs: NDArray[np.bool_], other: Self) -> Self:
        """Keep the sums of some runs and take the rest from another pass."""
        return self

    def stacked(self) -> Self:
        """Sums of one mixture as those of a stack of one."""
        return self

    def take(self, runs: NDArray[np.bool_]) -> Self:
        """Sums of some runs of a stack."""
        return self


@dataclass(frozen=True, slots=True)
class LogitStatistics(GateStatistics):
    """Sums for a logit's M-step, with K classes.

    Attributes
    ----------
    score : (K, [runs,] q) array
    information : (K, K, [runs,] q (q + 1) / 2) array
        Upper triangles of the blocks.
    """

    score: Array
    information: Array

    def __add__(self, other: Self) -> Self:
        """Add the sums of other units."""
        return type(self)(self.score + other.score, self.information + other.information)

    def choose(self, runs: NDArray[np.bool_], other: Self) -> Self:
        """Keep the sums of some runs and take the rest from another pass."""
        wide = runs[:, None]
        return type(self)(
            np.where(wide, self.score, other.score),
            np.where(wide, self.information, other.information),
        )

    def stacked(self) -> Self:
        """Sums of one mixture as those of a stack of one."""
        return type(self)(self.score[:, None], self.information[:, :, None])

    def take(self, runs: NDArray[np.bool_]) -> Self:
        """Sums of some runs of a stack."""
        return type(self)(self.score[:, runs], self.information[:, :, runs])

    def matrix(self) -> Array:
        """Information of classes 2..K, ([runs,] (K - 1) q, (K - 1) q)."""
        q = self.score.shape[-1]
        full = unfold_triangle(self.information[1:, 1:], q)
        # (K-1, K-1, [runs,] q, q) with classes outside, coefficients inside.
        full = np.moveaxis(full, (0, 1), (-4, -2))
        size = full.shape[-4] * q
        return full.reshape(*full.shape[:-4], size, size)
