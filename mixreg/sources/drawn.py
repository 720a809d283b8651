"""Samples of units: which are drawn, and their rows as one block.

A unit is drawn if the hash of its number is low. So the same units are drawn however rows are
cut into blocks and wherever these are, and nobody need hold a list of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

from mixreg.sources.base import Swept
from mixreg.sources.block import ROW_FIELDS, UNIT_FIELDS, Block, Columns
from mixreg.sources.hashes import (
    COUNTED_UNITS,
    PIECE_UNITS,
    Words,
    all_hashes,
    highest_drawn,
    nth_lowest,
    unit_hashes,
)

Array = NDArray[np.float64]
Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Draw:
    """Which units are drawn.

    Attributes
    ----------
    seed : int
    highest : int
        Units are drawn up to this hash; those whose label is known up to ...
    highest_known : int
        ... this one: known labels say which component is which, so some must be there.
    """

    seed: int
    highest: int
    highest_known: int = 0

    def of(self, block: Columns) -> Numbers:
        """Units of a block that are drawn, counted from its first."""
        found = []
        for start in range(0, block.units, PIECE_UNITS):
            last = min(start + PIECE_UNITS, block.units)
            numbers = np.arange(block.first + start, block.first + last)
            numbers = numbers if block.numbers is None else block.numbers[start:last]
            hashes = unit_hashes(numbers, self.seed)
            here = hashes <= np.uint64(self.highest)
            if block.known is not None:
                known = block.known[start:last] >= 0
                here |= known & (hashes <= np.uint64(self.highest_known))
            found.append(start + np.flatnonzero(here))
        return np.concatenate(found)


def known_hashes(block: Columns, seed: int) -> Words:
    """Hashes of the units whose label is known."""
    if block.known is None:
        return np.empty(0, dtype=np.uint64)
    return unit_hashes(block.unit_numbers[block.known >= 0], seed)


def draw(rows: Swept, units: int, count: int, seed: int, known: bool, gaps: bool) -> Draw:
    """How so many units are drawn of a source.

    Parameters
    ----------
    rows : Swept
    units, count, seed : int
        Units that there are, and that are wanted.
    known : bool
        Whether labels are known: as many units with one are drawn too.
    gaps : bool
        Whether units were left out, so that numbers do not follow each other.
    """
    highest = highest_drawn(units, count, seed)
    if gaps and count < units <= COUNTED_UNITS:
        highest = nth_lowest(rows.sweep(TakeLowest(seed, count, False)).hashes, count)
    labelled = 0
    if known:
        labelled = nth_lowest(rows.sweep(TakeLowest(seed, count, True)).hashes, count)
    return Draw(seed, highest, labelled)


@dataclass(frozen=True, slots=True)
class Lowest:
    """The lowest of some hashes, so many at most."""

    hashes: Words
    count: int

    def __add__(self, other: Lowest) -> Lowest:
        """The lowest of more of them."""
        both = np.concatenate([self.hashes, other.hashes])
        if len(both) > self.count:
            both = np.partition(both, self.count - 1)[: self.count]
        return Lowest(both, self.count)


@dataclass(frozen=True, slots=True)
class TakeLowest:
    """Task: the lowest hashes of units, maybe only of those whose label is known."""

    seed: int
    count: int
    known: bool

    def __call__(self, block: Block, params: None = None) -> Lowest:
        """Process one block."""
        nothing = Lowest(np.empty(0, dtype=np.uint64), self.count)
        every = known_hashes if self.known else hashes_of
        return nothing + Lowest(every(block, self.seed), self.count)


def hashes_of(block: Columns, seed: int) -> Words:
    """Hashes of all units."""
    return unit_hashes(block.unit_numbers, seed)


@dataclass(frozen=True, slots=True)
class Taken:
    """Some units of some blocks, in order."""

    parts: tuple[Block, ...]

    def __add__(self, other: Taken) -> Taken:
        """Append those of the blocks that follow."""
        return Taken(self.parts + other.parts)

    def join(self) -> Block:
        """All of them as one block."""
        return joined([part for part in self.parts if part.units] or list(self.parts[:1]))


@dataclass(frozen=True, slots=True)
class TakeDrawn:
    """Task: the units of a block that are drawn, as arrays of their own."""

    drawn: Draw

    def __call__(self, block: Block, params: None = None) -> Taken:
        """Process one block."""
        return Taken((take(block, self.drawn.of(block)),))


def take_all(block: Block, params: None = None) -> Taken:
    """Task: all units of a block, as arrays of their own."""
    return Taken((take(block, np.arange(block.units)),))


def rows_of(starts: Numbers, rows: int, units: Numbers) -> tuple[Numbers, Numbers]:
    """Rows of some groups, and where each of them begins among these."""
    sizes = np.diff(starts, append=rows)[units]
    begins = np.cumsum(sizes) - sizes
    found = np.repeat(starts[units] - begins, sizes)
    found += np.arange(found.shape[0])
    return found, begins


def take(block: Block, units: Numbers) -> Block:
    """Some units of a block, by their numbers there."""
    rows, starts = units, None
    if block.starts is not None:
        rows, starts = rows_of(block.starts, block.rows, units)
    parts = {name: _at(getattr(block, name), rows) for name in (*ROW_FIELDS, "pairs")}
    parts |= {name: _at(getattr(block, name), units) for name in UNIT_FIELDS}
    return Block(starts=starts, first=block.first, owners=block.owners, **parts)


def _at(values: Any, where: Numbers) -> Any:
    return None if values is None else values[where]


def joined(blocks: list[Block]) -> Block:
    """Blocks end to end as one, numbered from 0."""
    if len(blocks) == 1:
        return replace(blocks[0], first=0)
    parts: dict[str, Any] = {}
    for name in (*ROW_FIELDS, *UNIT_FIELDS):
        values = [getattr(block, name) for block in blocks]
        parts[name] = None if values[0] is None else np.concatenate(values)
    starts = None
    if blocks[0].starts is not None:
        before = np.cumsum([0, *(block.rows for block in blocks[:-1])])
        pairs = zip(blocks, before, strict=True)
        starts = np.concatenate([np.asarray(block.starts) + rows for block, rows in pairs])
    return Block(starts=starts, owners=blocks[0].owners, **parts)


def shuffled(units: int, seed: int) -> Numbers:
    """All units, by their hashes."""
    return np.argsort(all_hashes(units, seed))


def positive(block: Block) -> Block:
    """The units with a positive weight, which keep their numbers."""
    if block.weight is None:
        return block
    some = np.flatnonzero(block.weight)
    block = replace(block, numbers=block.unit_numbers)
    return block if len(some) == block.units else take(block, some)


# How often a unit of weight 1 is drawn at most: more often has a chance below 1e-18.
MOST_OFTEN = 20


@dataclass(frozen=True, slots=True)
class Redrawn:
    """Blocks whose units are drawn anew, with replacement: weights say how often.

    A unit of weight w is drawn Poisson(w) times, by a hash of its number and the seed. That is
    what so many independent draws come to where units are many, and nobody need count them.
    """

    seed: int

    def __call__(self, block: Block) -> Block:
        """The block with new weights."""
        hashes = hashes_of(block, self.seed)
        uniform = (hashes >> np.uint64(11)).astype(float) * 2.0**-53
        return replace(block, weight=times_drawn(uniform, block.weight))


def times_drawn(uniform: Array, weight: Array | None) -> Array:
    """Poisson numbers of given means (1 if None), from uniform ones."""
    if weight is None:
        levels = poisson.cdf(np.arange(MOST_OFTEN), 1.0)
        return np.searchsorted(levels, uniform, side="right").astype(float)
    return np.maximum(poisson.ppf(uniform, weight), 0.0)
