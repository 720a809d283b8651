"""Rows that repeat: surveys and experiments show the same few rows to many units.

A conjoint study has some hundred cards and thousands of answers. What a row costs
in a pass (its linear predictor, exponentials, products of regressors) is then paid
once for each distinct row, and units add up what is theirs by a sparse product.
Nothing is approximated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mixreg.sources.block import ADDING_UP, Block, SharedBlock, column_pairs
from mixreg.sources.hashes import Words, mixed, row_hashes

Array = NDArray[np.float64]

# Distinct rows pay if a pass costs less than this share of one over all rows.
WORTHWHILE = 0.5


def distinct_rows(
    columns: Sequence[Array], opens: NDArray[np.bool_] | None
) -> NDArray[np.intp] | None:
    """Number of the distinct row that each row equals, or None if too few repeat.

    Parameters
    ----------
    columns : sequence of (rows,) arrays
        All that a row's density depends on.
    opens : (rows,) bool array or None
        Rows at which a choice set begins: sets repeat as a whole.
    """
    words = row_hashes(columns)
    if opens is not None:
        words = _set_hashes(words, opens)
    # Numbered in the order in which they first appear, so that choice sets stay together.
    number, kinds = pd.factorize(words)
    if len(kinds) + ADDING_UP * len(words) > WORTHWHILE * len(words):
        return None
    one = _first_rows(number)[number]
    if not all(np.array_equal(column, column[one]) for column in columns):
        return None
    return np.asarray(number, dtype=np.intp)


def alike(columns: Sequence[Array]) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """Distinct rows by where they first appear, and which of them each row equals.

    None if too few repeat for it to pay.
    """
    number, kinds = pd.factorize(row_hashes(columns))
    if len(kinds) > WORTHWHILE * len(number):
        return None
    first = _first_rows(number)
    if not all(np.array_equal(column, column[first[number]]) for column in columns):
        return None
    return first, np.asarray(number, dtype=np.intp)


def _first_rows(number: NDArray[np.intp]) -> NDArray[np.intp]:
    """The row at which each number first appears."""
    return np.asarray(np.unique(number, return_index=True)[1])


def _set_hashes(words: Words, opens: NDArray[np.bool_]) -> Words:
    """Hashes of rows that know the set they are in, and their place there."""
    sets = np.flatnonzero(opens)
    sizes = np.diff(sets, append=len(words))
    place = (np.arange(len(words)) - np.repeat(sets, sizes)).astype(np.uint64)
    here = mixed(words + mixed(place + np.uint64(1)))
    whole = np.add.reduceat(here, sets)
    return mixed(here + np.repeat(whole, sizes))


def pass_cost(repeats: NDArray[np.intp]) -> int:
    """What a pass over shared rows costs, in rows."""
    return int(repeats.max() + 1 + ADDING_UP * len(repeats))


def share_rows(block: Block, repeats: NDArray[np.intp]) -> SharedBlock:
    """The same units, with rows that repeat held once."""
    number = pd.factorize(repeats)[0]
    first = _first_rows(number)
    sizes = np.broadcast_to(np.asarray(block.size), (block.units,)).astype(np.intp)
    units = np.repeat(np.arange(block.units), sizes)
    ones = np.ones(block.rows)
    shape = (block.units, len(first))
    counts = csr_array((ones, (units, number)), shape=shape)
    counts.sum_duplicates()

    def kept(values: Array | None) -> Array | None:
        return None if values is None else np.ascontiguousarray(values[first])

    x = np.ascontiguousarray(block.x[first])
    return SharedBlock(
        x,
        block.y[first],
        block.weight,
        pairs=column_pairs(x),
        offset=kept(block.offset),
        trials=kept(block.trials),
        opens=None if block.opens is None else block.opens[first],
        z=block.z,
        known=block.known,
        rounding=kept(block.rounding),
        counts=counts,
        turned=csr_array(counts.T),
    )
