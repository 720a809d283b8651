"""Tasks that look at one column of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.sources.base import Parts
from mixreg.sources.block import Block

Array = NDArray[np.float64]


def responses(block: Block, params: None = None) -> Parts:
    """The response of every row, (rows,); of several, (responses, rows)."""
    return Parts((block.y.T,))


def regressors(block: Block, params: None = None) -> Parts:
    """The regressors of every row, (p, rows)."""
    return Parts((block.x.T,))


def offsets(block: Block, params: None = None) -> Parts:
    """The offset of every row, (rows,); of several responses, (responses, rows)."""
    assert block.offset is not None
    return Parts((block.offset.T,))


def set_sizes(block: Block, params: None = None) -> Parts:
    """Rows of every choice set, (sets,)."""
    return Parts((np.diff(block.sets, append=block.rows),))


def unit_sizes(block: Block, params: None = None) -> Parts:
    """Rows of every unit, (units,)."""
    return Parts((np.broadcast_to(np.asarray(block.size), (block.units,)).astype(np.intp),))


def count_known(block: Block, params: None = None) -> int:
    """How many units have a label that is known."""
    return 0 if block.known is None else int((block.known >= 0).sum())


def count_labelled(block: Block, params: None = None) -> int:
    """How many units count and have a label that is known."""
    if block.known is None:
        return 0
    here = block.known >= 0
    return int((here if block.weight is None else here & (block.weight > 0)).sum())


@dataclass(frozen=True, slots=True)
class Sizes:
    """Absolute values of each response added up, (responses,), and how many there are."""

    total: Array
    rows: int

    def __add__(self, other: Sizes) -> Sizes:
        """Add those of other rows."""
        return Sizes(self.total + other.total, self.rows + other.rows)

    @property
    def mean(self) -> Array:
        """Mean absolute value of each response."""
        return np.asarray(self.total / self.rows)


def response_sizes(block: Block, params: None = None) -> Sizes:
    """How large each response is."""
    return Sizes(np.atleast_1d(np.abs(block.y).sum(axis=0)), block.rows)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Smallest and largest response, (responses,) each; infinite where there is none."""

    low: Array
    high: Array

    def __add__(self, other: Ranges) -> Ranges:
        """The range of other rows too."""
        return Ranges(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


def response_ranges(block: Block, params: None = None) -> Ranges:
    """Range of each response, of the rows that count."""
    y = block.y if block.weight is None else block.y[block.row_units(block.weight) > 0]
    y = y.reshape(len(y), -1)
    return Ranges(y.min(axis=0, initial=np.inf), y.max(axis=0, initial=-np.inf))
