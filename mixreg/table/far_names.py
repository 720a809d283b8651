"""Names of rows and groups that are not in memory: kept beside the blocks, read when asked for."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, NotAvailableError
from mixreg.reading.buckets import hashed
from mixreg.sources.scratch import ScratchFile
from mixreg.table.units import Units, plain_value

# Groups whose hashes are compared at once.
COMPARED = 4_000_000


class Pieces:
    """Indexes in a scratch file, one for each chunk."""

    def __init__(self, file: ScratchFile) -> None:
        self.file = file
        self.places: list[tuple[int, int]] = []

    def append(self, values: Any) -> None:
        """Add those of a chunk."""
        data = np.frombuffer(pickle.dumps(values, pickle.HIGHEST_PROTOCOL), dtype=np.uint8)
        self.places.append((self.file.write([data]), len(data)))

    def __iter__(self) -> Iterator[Any]:
        """Those of each chunk, in order."""
        for at, size in self.places:
            data = np.empty(size, dtype=np.uint8)
            self.file.read(at, data)
            # A file of this process, which nobody else can write to.
            yield pickle.loads(data.data)


class NoArrays:
    """Names of rows that are not in memory: arrays have no place beside these."""

    @property
    def units(self) -> Units:
        """Refused."""
        raise _no_arrays()

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Refused."""
        raise _no_arrays()


def _no_arrays() -> NotAvailableError:
    return NotAvailableError(
        "an array with one entry a row (init labels, clusters) has no place beside rows that are "
        "not in memory; give coefficients, or read the data into memory"
    )


def no_column(argument: str, name: str) -> NotAvailableError:
    """Say that a column that is named after the rows were read is not there."""
    return NotAvailableError(
        f"{argument}={name!r} names a column, and rows that are not in memory keep the columns of "
        f"the model only; with a model of groups={name!r}, cov_type='robust' sums over groups. "
        "Else read the data into memory"
    )


@dataclass(frozen=True, eq=False)
class FarNames(NoArrays):
    """Names of rows that were read chunk by chunk.

    Attributes
    ----------
    given : int
        Rows that were given.
    rows : Pieces
        Labels of the rows of each chunk.
    keys : Pieces or None
        Names of the groups of each chunk.
    """

    given: int
    rows: Pieces
    keys: Pieces | None

    @cached_property
    def _order(self) -> NDArray[np.intp] | None:
        """Where rows are in the order of the fit, if that is not the order of the data."""
        last = -1
        for piece in self.rows:
            if piece[0] < last or not piece.is_monotonic_increasing:
                return np.argsort(self._numbers())
            last = piece[-1]
        return None

    def _numbers(self) -> NDArray[Any]:
        return np.concatenate([np.asarray(piece) for piece in self.rows])

    @property
    def index(self) -> pd.Index:
        """Labels of the rows that are used, in the order of the data."""
        return pd.Index(self.unsort(self._numbers()))

    @property
    def numbered(self) -> bool:
        """Rows of files have no names but their numbers."""
        return True

    @property
    def groups(self) -> pd.Index | None:
        """Names of the groups, in the order of the fit."""
        if self.keys is None:
            return None
        pieces = list(self.keys)
        return pieces[0].append(pieces[1:]) if len(pieces) > 1 else pieces[0]

    def unsort(self, values: Any) -> Any:
        """Rows from the order of the fit to that of the data."""
        return values if self._order is None else values[self._order]

    def table(self, values: list[Any], make: Any, classes: int) -> Any:
        """Rows in files have no tables of Dask's."""
        raise NotImplementedError

    def column(self, argument: str, name: str) -> Any:
        """Rows that are read piece by piece have no columns beside those of the model."""
        raise no_column(argument, name)

    def chunks(self) -> Iterator[tuple[Any, pd.Index | None]]:
        """Labels of the rows, and names of the groups, chunk by chunk."""
        if self.keys is None:
            return ((rows, None) for rows in self.rows)
        return zip(self.rows, self.keys, strict=True)


class GroupCheck:
    """Whether groups lie together: hashes of their names, and where each began."""

    def __init__(self, file: ScratchFile, name: str, data: str) -> None:
        self.file, self.name, self.data = file, name, data
        self.places: list[tuple[int, int]] = []
        self.groups = 0

    def add(self, groups: pd.Index, keys: pd.Series) -> None:
        """The groups of a chunk, and the column of its rows."""
        rows = _first_rows(keys)
        if rows is None:
            raise self._apart(*_apart_within(keys))
        hashes = hashed(pd.Series(groups))
        pairs = np.stack([hashes, rows.astype(np.uint64)])
        self.places.append((self.file.write([pairs]), len(groups)))
        self.groups += len(groups)

    def finish(self, keys: Pieces) -> None:
        """Refuse a group that is in several places."""
        parts = -(-self.groups // COMPARED)
        for part in range(parts):
            found = [self._of(place, part, parts) for place in self.places]
            pairs = np.concatenate(found, axis=1)
            order = np.argsort(pairs[0], kind="stable")
            same = np.flatnonzero(np.diff(pairs[0][order]) == 0)
            if same.size:
                one, other = sorted(pairs[:, order[same[0] : same[0] + 2]].T.tolist())
                raise self._apart(self._name(keys, one[0]), *sorted([one[1], other[1]]))

    def _of(self, place: tuple[int, int], part: int, parts: int) -> NDArray[np.uint64]:
        at, count = place
        data = np.empty(16 * count, dtype=np.uint8)
        self.file.read(at, data)
        pairs = data.view(np.uint64).reshape(2, count)
        return pairs if parts == 1 else pairs[:, pairs[0] % np.uint64(parts) == part]

    def _name(self, keys: Pieces, hashed_name: int) -> Any:
        for piece in keys:
            at = np.flatnonzero(hashed(pd.Series(piece)) == np.uint64(hashed_name))
            if at.size:
                return piece[at[0]]
        return "?"

    def _apart(self, group: Any, first: int, second: int) -> InputError:
        return InputError(
            f"group {plain_value(group)!r} of {self.name!r} is at row {first} and again at row "
            f"{second}, with other groups between; rows of a group must lie together. Pass "
            f"sort=True, or sort the data, as with DuckDB: COPY (SELECT * FROM '{self.data}' "
            f"ORDER BY {self.name}) TO 'sorted.parquet'"
        )


def _first_rows(keys: pd.Series) -> NDArray[np.int64] | None:
    """Labels of the rows at which groups begin; None if some group is in several places."""
    there = keys.dropna()
    codes = pd.factorize(there)[0]
    if (np.diff(codes) < 0).any():
        return None
    return np.asarray(there.index)[np.flatnonzero(np.diff(codes, prepend=-1))]


def _apart_within(keys: pd.Series) -> tuple[Any, int, int]:
    """A group of a chunk that is in several places, and two of them."""
    there = keys.dropna()
    codes = pd.factorize(there)[0]
    back = int(np.flatnonzero(np.diff(codes) < 0)[0]) + 1
    first = int(np.flatnonzero(codes == codes[back])[0])
    return there.iloc[back], int(there.index[first]), int(there.index[back])
