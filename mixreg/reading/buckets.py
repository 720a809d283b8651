"""Rows of each group brought together, of files that do not fit into memory.

Rows are dealt into buckets by a hash of their group, so that a group lies in one of them and a
bucket fits into memory; then buckets are sorted one by one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, nearest
from mixreg.reading.files import Files, regrouped
from mixreg.reading.kinds import ROW
from mixreg.table import frames
from mixreg.table.checks import whole
from mixreg.table.columns import without_mask

# Rows that are held at once, and files that are open at once.
LIMIT_ROWS, MOST_BUCKETS = 1_000_000, 128
# The hash of what is missing; that of the number 0 is 0.
NO_GROUP = np.uint64(0x9E3779B97F4A7C15)
# Hashes have so many digits of that many values.
DEEPEST = 8
Codes = NDArray[np.intp]


def together(
    files: Files,
    names: Collection[Any],
    key: str | Sequence[str],
    folder: str | os.PathLike[str],
    where: Any = None,
    limit_rows: int = LIMIT_ROWS,
) -> Iterator[pd.DataFrame]:
    """Chunks of files in which the rows of a group follow each other.

    Rows of a group are in the order of the files; so are the groups of a bucket, by
    their first rows. A chunk ends where a group does, unless the group has more rows
    than a chunk. Rows without a group are a group.

    Parameters
    ----------
    files : Files
    names : collection of str
        Columns of the chunks.
    key : str or sequence of str
        Column of the groups; more of them to sort by within groups, as choice sets.
    folder : path
        Where buckets are written. They are deleted as they are used up.
    where : str or pyarrow Expression, optional
        See `Files.chunks`.
    limit_rows : int
        Rows held in memory at once.

    Raises
    ------
    OSError
        If the disk is full.
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    absent = [each for each in keys if each not in files.columns]
    if absent:
        raise InputError(
            f"key={absent[0]!r} is not a column of data{nearest(absent[0], files.columns)}"
        )
    shown = [name for name in files.columns if name in names]
    wanted = list(dict.fromkeys([*shown, *keys]))
    tables = files.tables(wanted, where)
    limit = whole("limit_rows", limit_rows, 1)
    gather = Gather(Path(folder), files.size(wanted), limit)
    sorted_tables = gather.gathered(tables, keys, files.rows())
    return (files.frame(table.select([*shown, ROW])) for table in sorted_tables)


@dataclass(frozen=True)
class Gather:
    """Brings rows of a group together.

    Attributes
    ----------
    folder : Path
    size : int
        Rows of a table that is handed on.
    limit : int
        Rows that are sorted in memory.
    level : int
        How often these rows have been dealt.
    """

    folder: Path
    size: int
    limit: int
    level: int = 0

    def gathered(
        self, tables: Iterable[Any], keys: Sequence[str], rows: int | None
    ) -> Iterator[Any]:
        """Tables with rows of a group together; None if nobody knows how many rows there are."""
        import pyarrow as pa

        if not keys:
            yield from regrouped(tables, self.size)
        elif self.level > DEEPEST or (rows is not None and rows <= self.limit):
            held = list(tables)
            if held:
                yield from self._sorted(pa.concat_tables(held), keys)
        else:
            yield from self._dealt(tables, keys, self._count(rows))

    def _count(self, rows: int | None) -> int:
        """Buckets that fit into memory, though some are larger than others."""
        wanted = MOST_BUCKETS if rows is None else -(-3 * rows // (2 * self.limit))
        return int(np.clip(wanted, 2, MOST_BUCKETS))

    def _sorted(self, table: Any, keys: Sequence[str]) -> Iterator[Any]:
        frame = frames.read(table, keys)
        codes = [pd.factorize(frame[key], use_na_sentinel=False)[0] for key in keys]
        order = np.lexsort(codes[::-1])  # equal rows stay in their order
        ends = np.flatnonzero(np.diff(codes[0][order])) + 1
        for first, last in _cuts(ends, len(order), self.size):
            yield table.take(order[first:last])

    def _dealt(self, tables: Iterable[Any], keys: Sequence[str], count: int) -> Iterator[Any]:
        paths = [self.folder / f"bucket-{self.level}-{i}.arrow" for i in range(count)]
        buckets = [Bucket(path) for path in paths]
        try:
            with _room(self.folder), ExitStack() as stack:
                for bucket in buckets:
                    stack.callback(bucket.close)
                for table in regrouped(tables, max(self.size, self.limit // 2)):
                    self._deal(table, keys[0], buckets)
            for bucket in buckets:
                yield from self._used_up(bucket, keys)
        finally:
            for bucket in buckets:
                bucket.path.unlink(missing_ok=True)

    def _deal(self, table: Any, key: str, buckets: list[Bucket]) -> None:
        hashes = hashed(frames.read(table, [key])[key])
        digit = hashes // np.uint64(MOST_BUCKETS) ** np.uint64(self.level)
        places = (digit % np.uint64(len(buckets))).astype(np.intp)
        order = np.argsort(places, kind="stable")
        table, hashes = table.take(order), hashes[order]
        edges = np.searchsorted(places[order], np.arange(len(buckets) + 1))
        for bucket, first, last in zip(buckets, edges[:-1], edges[1:], strict=True):
            if first < last:
                bucket.write(table.slice(first, last - first), hashes[first:last])

    def _used_up(self, bucket: Bucket, keys: Sequence[str]) -> Iterator[Any]:
        """Sorted rows of a bucket, dealt again if it is too large; then its file is deleted."""
        deeper = Gather(self.folder, self.size, self.limit, self.level + 1)
        # One group can only be dealt by what sorts it further.
        rest = keys[1:] if bucket.rows > self.limit and not bucket.several else keys
        if bucket.rows:
            yield from deeper.gathered(bucket.tables(), rest, bucket.rows)
        bucket.path.unlink(missing_ok=True)


class Bucket:
    """A file of rows whose groups have some digits of their hash in common.

    Attributes
    ----------
    path : Path
    rows : int
    several : bool
        Whether it has more than one group; two groups with one hash are not to be
        expected in any data.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.rows, self.several = path, 0, False
        self._hash: Any = None
        self._stack = ExitStack()
        self._writer: Any = None

    def write(self, table: Any, hashes: NDArray[np.uint64]) -> None:
        """Append rows."""
        import pyarrow as pa

        if self._writer is None:
            stream = self._stack.enter_context(pa.OSFile(str(self.path), "wb"))
            self._writer = self._stack.enter_context(pa.ipc.new_file(stream, table.schema))
            self._hash = hashes[0]
        self._writer.write_table(table.combine_chunks())
        self.rows += table.num_rows
        self.several = self.several or bool((hashes != self._hash).any())

    def close(self) -> None:
        """Close the file."""
        self._stack.close()

    def tables(self) -> Iterator[Any]:
        """The rows as they were written; the file is deleted once it was read."""
        import pyarrow as pa

        with pa.OSFile(str(self.path)) as stream:
            reader = pa.ipc.open_file(stream)
            for i in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(i)])
        self.path.unlink()


def hashed(values: pd.Series) -> NDArray[np.uint64]:
    """A hash of each value, the same on every run; equal numbers have equal ones."""
    codes, uniques = pd.factorize(values)
    plain = np.asarray(without_mask(uniques))
    if plain.dtype.kind in "iu":
        # Numbers are whole in one part of the data and not in another, where some are missing.
        floats = plain.astype(float)
        plain = floats if (floats.astype(plain.dtype) == plain).all() else plain
    plain = plain + 0.0 if plain.dtype.kind == "f" else plain  # -0.0 equals 0.0
    plain = plain if plain.dtype.kind in "fiubmM" else plain.astype(object)
    known = pd.util.hash_array(plain, categorize=False)
    return np.append(known, NO_GROUP)[codes]  # what is missing has the code -1


def _cuts(ends: Codes, rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut rows into pieces that end where groups do, if these fit."""
    first = 0
    while first < rows:
        last = min(first + size, rows)
        before = ends[: np.searchsorted(ends, last, side="right")]
        if last < rows and before.size and before[-1] > first:
            last = int(before[-1])
        yield first, last
        first = last


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    """Say which folder has no room left."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(
            error.errno,
            f"no room left in {str(folder)!r} to bring the rows of groups together; free some, or "
            "choose a scratch folder on a larger disk",
        ) from error
