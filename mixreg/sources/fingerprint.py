"""What tells one set of rows from another: a digest of each of their columns.

Digests are sums of hashes, each of a value and its place: they add up in any order, so that rows
need not be in one place, or met one after the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.sources.base import Swept
from mixreg.sources.block import ROW_FIELDS, UNIT_FIELDS, Block
from mixreg.sources.hashes import Words, mixed, row_hashes

# Columns that follow from others, or are put in on the way.
MADE = ("repeats", "given", "cov_group", "numbers", "rounding")
NAMES = tuple(name for name in (*ROW_FIELDS, *UNIT_FIELDS, "starts") if name not in MADE)
# Two sums of 64 bits each, of hashes that begin differently.
SALTS = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Digests:
    """Sums of hashes by column, (2,) each."""

    words: dict[str, Words]

    def __add__(self, other: Digests) -> Digests:
        """Add those of other rows."""
        return Digests({name: word + other.words[name] for name, word in self.words.items()})


def digests(block: Block, params: None = None) -> Digests:
    """Task: hashes of all columns that a block has, added up."""
    sizes = np.broadcast_to(np.asarray(block.size), (block.units,))
    units: Any = block.unit_numbers
    starts: Any = np.arange(block.units) if block.starts is None else block.starts
    within: Any = np.arange(block.rows) - block.row_units(starts)
    numbers: Any = block.row_units(units)
    rows = mixed(numbers.astype(np.uint64) + mixed(within.astype(np.uint64)))
    found = {}
    for name in NAMES:
        values = sizes if name == "starts" else getattr(block, name)
        if values is not None and (name != "starts" or block.starts is not None):
            places = rows if name in ROW_FIELDS else units.astype(np.uint64)
            found[name] = _added(np.asarray(values, dtype=float), places)
    return Digests(found)


def _added(values: NDArray[np.float64], places: Words) -> Words:
    """Hashes of values at places, added up with two salts."""
    words = row_hashes(list(values.reshape(len(values), -1).T))
    return np.array([mixed(words + mixed(places + salt)).sum() for salt in SALTS])


def fingerprint(source: Swept) -> dict[str, str]:
    """A digest of every column, by its name; the same whatever the blocks."""
    words = source.sweep(digests).words
    return {name: words[name].tobytes().hex() for name in NAMES if name in words}


def digest_of(*arrays: Any) -> str:
    """A digest of some arrays: their shapes and values."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
