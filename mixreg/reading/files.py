"""Tables in files: their rows in chunks of bounded size, as pandas has them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mixreg.errors import InputError
from mixreg.reading import listing
from mixreg.reading.filters import Condition
from mixreg.reading.kinds import ROW, agreed, assembled, nothing
from mixreg.reading.opening import is_dataset, opened
from mixreg.reading.pieces import Piece, reading
from mixreg.reading.queries import is_query
from mixreg.table import frames
from mixreg.table.checks import whole

# Rows of a chunk, and bytes, at 8 for a value, where there are many columns.
CHUNK_ROWS, CHUNK_BYTES = 65_536, 1 << 25


def is_files(data: Any) -> bool:
    """Whether data are files: a path, a pattern, a list of them, or a dataset of pyarrow's."""
    return is_dataset(data) or listing.is_paths(data)


def is_far(data: Any, queries: bool) -> bool:
    """Whether data are to be read piece by piece: files, or queries where that is asked for."""
    return is_files(data) or (queries and is_query(data))


def read_whole(data: Any, names: Collection[Any] | None = None) -> Any:
    """Files as one frame, the columns that are named; what is no file as it is."""
    if not is_files(data):
        return data
    files = Files(data)
    chunks = list(files.chunks(files.columns if names is None else names))
    return chunks[0] if len(chunks) == 1 else pd.concat(chunks)


class Files:
    """A table in files.

    Parameters
    ----------
    data : path, list of paths or pyarrow Dataset
        Parquet, Feather (Arrow IPC) or CSV files, folders of them (what they say,
        as in region=north, is a column), or patterns such as `"sales/*.parquet"`.
    rows_per_chunk : int, optional
        Rows of a chunk; 65,536, or fewer where columns are many.

    Attributes
    ----------
    columns : tuple of str
        All names, those of folders included.
    """

    def __init__(self, data: Any, rows_per_chunk: int | None = None) -> None:
        if rows_per_chunk is not None:
            rows_per_chunk = whole("rows_per_chunk", rows_per_chunk, 1)
        self._rows_per_chunk = rows_per_chunk
        self._pieces = opened(data)
        self.columns = tuple(
            dict.fromkeys(name for piece in self._pieces for name in (*piece.columns, *piece.keys))
        )
        if self.rows() == 0:
            raise _empty(self._pieces)

    def rows(self) -> int | None:
        """Number of rows; None if not known, as of CSV files that were not read yet."""
        counts = [piece.rows() for piece in self._pieces]
        return None if None in counts else sum(count or 0 for count in counts)

    def size(self, names: Collection[Any]) -> int:
        """Rows of a chunk with some columns."""
        if self._rows_per_chunk is not None:
            return self._rows_per_chunk
        width = 8 * max(1, len(names))
        return max(1, min(CHUNK_ROWS, CHUNK_BYTES // width))

    def chunks(self, names: Collection[Any], where: Any = None) -> Iterator[pd.DataFrame]:
        """Frames of some columns, those of them that there are.

        Each has `size(names)` rows, the last one maybe fewer. The index is the
        number of a row among all, from 0, those included that `where` leaves out.

        Parameters
        ----------
        names : collection of str
        where : str or pyarrow Expression, optional
            Rows to choose: a query such as `"year > 2000 and region == 'north'"`.

        Raises
        ------
        InputError
            If a file lacks a column, has another type of it, or cannot be read.
        """
        return (self.frame(table) for table in self.tables(names, where))

    def tables(self, names: Collection[Any], where: Any = None) -> Iterator[Any]:
        """The same chunks as Arrow has them, with a column of the rows' numbers."""
        there, condition = [name for name in self.columns if name in names], Condition(where)
        needed = list(dict.fromkeys([*there, *condition.names(self.columns)]))
        types = self._types(needed)
        empty = nothing(types)
        self.frame(empty.select([*there, ROW]))  # refuses types that cannot be used
        size = self.size(needed)
        nullable = self._with_gaps(condition, types, size)
        condition.choose(empty, ROW, nullable)  # refuses what cannot be evaluated
        chosen = (
            condition.choose(table, ROW, nullable).select([*there, ROW])
            for table in regrouped(self._read(types, size, condition), size)
        )
        return regrouped(chosen, size)

    def frame(self, table: Any) -> pd.DataFrame:
        """A table with the rows' numbers as a frame that they are the index of."""
        frame = frames.read(table, [name for name in table.column_names if name != ROW])
        frame.index = _index(table.column(ROW).to_numpy())
        frame.attrs[frames.COLUMNS] = self.columns
        return frame

    def fingerprint(self) -> str:
        """What tells these files from others: their names, sizes, times and columns."""
        digest = hashlib.blake2b(digest_size=16)
        for piece in self._pieces:
            digest.update(repr((piece.stamp(), piece.columns, piece.keys)).encode())
        return digest.hexdigest()

    def _types(self, names: Sequence[str]) -> dict[str, Any]:
        """Types of columns that all files agree on."""
        found: dict[str, tuple[str, Any]] = {}
        for piece in self._pieces:
            if piece.rows() == 0:
                continue
            for name, kind in _types_of(piece, names).items():
                found[name] = agreed(name, found.get(name), (piece.name, kind))
        return {name: kind for name, (_, kind) in found.items()}

    def _with_gaps(self, condition: Condition, types: dict[str, Any], size: int) -> list[str]:
        """Columns of whole numbers that a query divides, and that have missing values.

        pandas takes 0 / 0 for missing in such columns, in others for NaN; so a chunk
        must know of missing values in other chunks.
        """
        if not condition.divides():
            return []
        names = [n for n in condition.names(list(types)) if str(types[n]) in frames.NULLABLE]
        gaps: set[str] = set()
        for table in self._read({name: types[name] for name in names}, size, Condition(None)):
            gaps |= {name for name in names if table.column(name).null_count}
        return sorted(gaps)

    def _read(self, types: dict[str, Any], size: int, condition: Condition) -> Iterator[Any]:
        """Tables of all rows that a condition does not rule out, in order."""
        total = 0
        for piece in self._pieces:
            names = [name for name in types if name not in piece.keys and name in piece.columns]
            keep, read = self._kept(piece, types, condition), 0
            for first, batch in piece.batches(names, size, keep):
                with reading(piece.name):
                    table = assembled(batch, types, piece.keys, total + first)
                read = first + batch.num_rows
                yield table
            total += piece.rows() or read
        if not total:
            raise _empty(self._pieces)

    def _kept(self, piece: Piece, types: dict[str, Any], condition: Condition) -> Any:
        names = condition.names(list(types))
        there = [name for name in names if name in piece.columns and name not in piece.keys]
        keys = {name: value.type for name, value in piece.keys.items() if name in names}
        return condition.pushed({**piece.types(there), **keys}) if names else None


def regrouped(tables: Iterable[Any], size: int) -> Iterator[Any]:
    """Tables of exactly so many rows, the last one maybe fewer."""
    import pyarrow as pa

    held: list[Any] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        while count >= size:
            whole_table = pa.concat_tables(held)
            yield whole_table.slice(0, size)
            held, count = [whole_table.slice(size)], count - size
    if count:
        yield pa.concat_tables(held)


def _types_of(piece: Piece, names: Sequence[str]) -> dict[str, Any]:
    """Types of columns in a file, which must have all of them, once."""
    own = [name for name in names if name not in piece.keys]
    for name in own:
        count = piece.columns.count(name)
        if count != 1:
            what = "lacks the column" if count == 0 else "has several columns named"
            raise InputError(
                f"file {piece.name!r} {what} {name!r}; write it with one column of that name, as "
                "other files have it, or leave the file out of data"
            )
    keys = {name: piece.keys[name].type for name in names if name in piece.keys}
    return {**piece.types(own), **keys}


def _index(numbers: Any) -> pd.Index:
    """Numbers of rows as an index; a range where no row between them is left out."""
    rows = len(numbers)
    if rows and numbers[-1] - numbers[0] == rows - 1 and (np.diff(numbers) == 1).all():
        return pd.RangeIndex(int(numbers[0]), int(numbers[0]) + rows)
    return pd.Index(numbers)


def _empty(pieces: Sequence[Piece]) -> InputError:
    names = ", ".join(repr(piece.name) for piece in pieces[:3])
    more = "" if len(pieces) <= 3 else f" and {len(pieces) - 3} more"
    return InputError(f"data is empty: no rows in {names}{more}; give files with rows")
