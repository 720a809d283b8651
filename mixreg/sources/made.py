"""Regressors that are made when they are asked for, so that large data are held once.

The search and the final run look at rows in standard coordinates, and the search at samples
of them. Of few rows these are arrays of their own. Of many they are one matrix, the rows
that were picked, and what these are multiplied by: a block of them is made while it is swept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Arrays are kept while they and the data take no more than this: a copy of 100,000 rows of 20
# columns. To make blocks anew adds a tenth to a pass with five components, and a fit of 400,000
# rows takes 5% longer (`python -m benchmarks memory` prints what it takes instead).
KEPT_BYTES = 32_000_000
# Beside larger data, what is kept of a sample may take this share of them.
KEPT_SHARE = 0.1
# Rows that are made at once.
PIECE_ROWS = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class MadeRows:
    """Some rows of a matrix times another one; an index gives an array.

    Attributes
    ----------
    given : (n, p) array
    picked : (rows,) int32 or int64 array or None
        Rows of the matrix; None means all of them.
    basis : (p, p) array or None
        What they are multiplied by; None means nothing.
    """

    given: Array
    picked: NDArray[np.integer] | None = None
    basis: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows = self.given.shape[0] if self.picked is None else self.picked.shape[0]
        return rows, self.given.shape[1]

    @property
    def nbytes(self) -> int:
        """What an array of them would take."""
        return 8 * self.shape[0] * self.shape[1]

    def __getitem__(self, where: Any) -> Array:
        """Make some rows, by a slice or by their numbers; maybe some of their columns."""
        rows, columns = where if isinstance(where, tuple) else (where, slice(None))
        if self.picked is None:
            given = self.given[rows]
        else:
            given = self.given.take(self.picked[rows], axis=0)
        return (given if self.basis is None else np.dot(given, self.basis))[:, columns]

    def whole(self) -> Array:
        """All rows as an array, made piece by piece."""
        out = np.empty(self.shape)
        # Always the same pieces: the last bit of a product depends on the rows beside it.
        for row in range(0, len(out), PIECE_ROWS):
            part = slice(row, row + PIECE_ROWS)
            out[part] = self[part]
        return out


Rows = Array | MadeRows


def room_beside(data: int, together: int) -> float:
    """Bytes that may be kept beside data of so many, if both may take so many together."""
    return max(KEPT_SHARE * data, together - data)


def is_large(rows: Rows, data: int) -> bool:
    """Whether there is no room for an array of the rows beside data of so many bytes."""
    return rows.nbytes > room_beside(data, KEPT_BYTES)


def kept_if_small(rows: MadeRows) -> Rows:
    """An array of the rows, unless it would be large."""
    return rows if is_large(rows, rows.given.nbytes) else rows.whole()


def picked(x: Rows, rows: NDArray[np.integer]) -> Rows:
    """Some rows, by their numbers."""
    if isinstance(x, np.ndarray):
        # Numbers are held beside the rows as long as these: half as long where they fit.
        made = MadeRows(x, rows.astype(np.int32) if len(x) < 2**31 else rows)
        # A sample of large data is on its way to standard coordinates, which copy a small one.
        return made if is_large(x, x.nbytes) else made.whole()
    return kept_if_small(replace(x, picked=rows if x.picked is None else x.picked[rows]))


def times(x: Rows, basis: Array) -> Rows:
    """The rows times a matrix."""
    if isinstance(x, np.ndarray):
        return kept_if_small(MadeRows(x, None, basis))
    return kept_if_small(replace(x, basis=basis if x.basis is None else x.basis @ basis))


def as_array(x: Rows) -> Array:
    """The rows as an array, which is made if there is none."""
    return x if isinstance(x, np.ndarray) else x.whole()
