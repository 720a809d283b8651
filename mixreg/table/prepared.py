"""Rows as they are fitted, made of rows as they were given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.families import Family
from mixreg.sources import Source
from mixreg.sources.block import Block

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Attributes centred within choice sets; responses of linear fits without their offset.

    Attributes
    ----------
    moved : tuple of bool
        By response: whether an offset moves the response instead.
    """

    moved: tuple[bool, ...]

    def changes(self, rows: Source) -> bool:
        """Whether anything becomes of such rows."""
        return rows.has("opens") or (rows.has("offset") and any(self.moved))

    def __call__(self, block: Block) -> Block:
        """The block as it is fitted."""
        if block.opens is not None:
            block = replace(block, x=centred(block))
        if block.offset is None or not any(self.moved):
            return block
        if block.owners is None:
            return replace(block, y=block.y - block.offset, offset=None)
        moved = np.array(self.moved)
        y = block.y - np.where(moved, block.offset, 0.0)
        offset = np.where(moved, 0.0, block.offset)
        return replace(block, y=y, offset=None if moved.all() else offset)


def prepared(families: Sequence[Family]) -> Prepared:
    """What is done to rows before they are fitted, by the families of their responses."""
    return Prepared(tuple(family.linear for family in families))


def centred(block: Block) -> Array:
    """Attributes less their means within choice sets."""
    starts = block.sets
    sizes = np.diff(starts, append=block.rows)
    means = np.add.reduceat(block.x, starts, axis=0) / sizes[:, None]
    return np.asarray(block.x - np.repeat(means, sizes, axis=0))
