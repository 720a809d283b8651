"""Hashes of rows and of units: what is drawn, what repeats, and what tells data apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Words = NDArray[np.uint64]

# Units that are hashed at once.
PIECE_UNITS = 65_536
# Of more units than this, about as many are drawn as were asked for: to draw just as many takes a
# hash of each of them in one place.
COUNTED_UNITS = 2**21
ALL = 2**64 - 1


def mixed(words: Words) -> Words:
    """Scatter the bits of whole numbers (the finaliser of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def row_hashes(columns: Sequence[Array]) -> Words:
    """One whole number for each row, the same for rows with the same values."""
    words = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        # Adding zero makes minus zero plain.
        bits = np.ascontiguousarray(column + 0.0).view(np.uint64)
        words = mixed(words * np.uint64(3) + bits)
    return words


def unit_hashes(units: NDArray[np.intp], seed: int) -> Words:
    """A whole number for each unit that only its number and the seed decide; no two are alike."""
    origin = mixed(np.array([seed % 2**64], dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    return mixed(units.astype(np.uint64) + origin)


def all_hashes(units: int, seed: int) -> Words:
    """The hash of each of so many units, made piece by piece."""
    hashes = np.empty(units, dtype=np.uint64)
    for first in range(0, units, PIECE_UNITS):
        last = min(first + PIECE_UNITS, units)
        hashes[first:last] = unit_hashes(np.arange(first, last), seed)
    return hashes


def highest_drawn(units: int, count: int, seed: int) -> int:
    """The hash up to which units are drawn, so that there are so many of them."""
    if count >= units:
        return ALL
    if units > COUNTED_UNITS:
        return min(ALL, count * 2**64 // units)
    return nth_lowest(all_hashes(units, seed), count)


def nth_lowest(hashes: Any, count: int) -> int:
    """The n-th lowest of some hashes; the highest there can be if there are fewer."""
    return ALL if len(hashes) < count else int(np.partition(hashes, count - 1)[count - 1])
