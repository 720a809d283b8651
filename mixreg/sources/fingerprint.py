"""What tells one set of rows from another: a digest of each of their columns."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixreg.sources.base import Parts, Source
from mixreg.sources.block import ROW_FIELDS, UNIT_FIELDS, Block

# Columns that follow from others, or are put in on the way.
MADE = ("repeats", "given", "cluster")


@dataclass(frozen=True, slots=True)
class Column:
    """Task: a column as it is, with rows or units last."""

    name: str

    def __call__(self, block: Block, params: None = None) -> Parts:
        """Process one block."""
        if self.name == "starts":
            size = np.broadcast_to(np.asarray(block.size), (block.units,))
            return Parts((size.astype(np.int64),))
        return Parts((getattr(block, self.name).T,))


def fingerprint(source: Source) -> dict[str, str]:
    """A digest of every column, by its name; the same whatever the blocks."""
    names = [name for name in (*ROW_FIELDS, *UNIT_FIELDS, "starts") if name not in MADE]
    return {name: _digest(source, name) for name in names if source.has(name)}


def _digest(source: Source, name: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for piece in source.pieces(Column(name)):
        digest.update(np.ascontiguousarray(piece.T).data)
    return digest.hexdigest()


def digest_of(*arrays: Any) -> str:
    """A digest of some arrays: their shapes and values."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
