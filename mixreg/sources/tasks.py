"""Tasks that look at one column of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.sources.base import Parts
from mixreg.sources.block import Block

Array = NDArray[np.float64]


def responses(block: Block, params: None = None) -> Parts:
    """The response of every row."""
    return Parts((block.y,))


def regressors(block: Block, params: None = None) -> Parts:
    """The regressors of every row, (p, rows)."""
    return Parts((block.x.T,))


def numbers(block: Block, params: None = None) -> Parts:
    """Which response every row is of, from 0."""
    return Parts((np.zeros(block.rows) if block.part is None else block.part.astype(float),))


def count_known(block: Block, params: None = None) -> int:
    """How many units have a label that is known."""
    return 0 if block.known is None else int((block.known >= 0).sum())


@dataclass(frozen=True, slots=True)
class Sizes:
    """Absolute responses added up, and how many there are, both (responses,)."""

    total: Array
    rows: Array

    def __add__(self, other: Sizes) -> Sizes:
        """Add those of other rows."""
        return Sizes(self.total + other.total, self.rows + other.rows)

    @property
    def mean(self) -> Array:
        """Mean absolute value of each response."""
        return np.asarray(self.total / self.rows)


def response_sizes(block: Block, params: None = None) -> Sizes:
    """How large each response is."""
    part = np.zeros(block.rows, dtype=np.intp) if block.part is None else block.part
    rows = np.bincount(part).astype(float)
    return Sizes(np.bincount(part, np.abs(block.y)).astype(float), rows)
