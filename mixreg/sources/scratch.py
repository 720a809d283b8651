"""Blocks in a scratch file, written once and read on every pass.

The file has no name, so that nothing is left of it whatever happens to the process. Blocks are
read into memory that is used again: pages of a file that is mapped would count as memory of
the process.
"""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError, NotAvailableError
from mixreg.sources.base import Parts, Task, pieces, sweep
from mixreg.sources.block import ROW_FIELDS, UNIT_FIELDS, Block
from mixreg.sources.one_block import OfPlace, block_rows, parts
from mixreg.sources.stream import Shape, StreamSource

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]
T = TypeVar("T")

# Columns that are put in on the way, and those that are kept.
MADE = ("repeats", "given", "numbers", "rounding")
KEPT = tuple(name for name in (*ROW_FIELDS, *UNIT_FIELDS) if name not in MADE)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the blocks in a file.

    Attributes
    ----------
    name, kind : str
        Its name, and numpy's for its type.
    by_unit : bool
        Whether it has one entry a unit, or a row.
    width : tuple of int
        What each entry is: () a number, (p,) so many.
    """

    name: str
    kind: str
    by_unit: bool
    width: tuple[int, ...]

    def shape(self, rows: int, units: int) -> tuple[int, ...]:
        """The shape of the column of a block."""
        return (units if self.by_unit else rows, *self.width)

    def size(self, rows: int, units: int) -> int:
        """Its bytes, filled up so that the next one is aligned."""
        count = int(np.prod(self.shape(rows, units), dtype=np.int64))
        return -(-count * np.dtype(self.kind).itemsize // 8) * 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block is: its first byte, its rows and units, the number of its first unit."""

    at: int
    rows: int
    units: int
    first: int


def columns_of(block: Block) -> tuple[Column, ...]:
    """The columns of blocks like this one."""
    names = [name for name in (*KEPT, "starts") if getattr(block, name) is not None]
    by_unit = {*UNIT_FIELDS, "starts"}
    found = []
    for name in names:
        values = np.asarray(getattr(block, name))
        found.append(Column(name, values.dtype.str, name in by_unit, values.shape[1:]))
    return tuple(found)


class ScratchFile:
    """A file without a name, which is gone with the last process that has it open."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = tempfile.gettempdir() if folder is None else os.fspath(folder)
        try:
            with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                self._hold(os.dup(file.fileno()))
                # By this a process that opens the file later knows it from another one.
                self.token = secrets.token_bytes(16)
                file.write(self.token)
        except OSError as error:
            raise InputError(
                f"scratch={self.folder!r} cannot be written to ({error.strerror}); name a folder "
                "that can"
            ) from error
        self.size = len(self.token)

    def _hold(self, number: int) -> None:
        """Keep the open file of a number until nobody needs it."""
        self._number = number
        self._close = weakref.finalize(self, os.close, number)

    def write(self, arrays: Sequence[Any]) -> int:
        """Append arrays, each filled up to a multiple of eight bytes; where they begin."""
        at = self.size
        try:
            for values in arrays:
                data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
                self._append(data)
                self._append(bytes(-len(data) % 8))
        except OSError as error:
            self._close()
            raise self._full(error) from error
        return at

    def _append(self, data: Any) -> None:
        rest = memoryview(data)
        while len(rest):
            done = os.write(self._number, rest)
            rest, self.size = rest[done:], self.size + done

    def _full(self, error: OSError) -> Exception:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return error
        return InputError(
            f"the scratch folder {self.folder!r} is full after {self.size / 1e9:.2f} GB; name "
            "another with scratch='folder'. Nothing was left there"
        )

    def read(self, at: int, into: Bytes) -> None:
        """Fill memory with the bytes from a place on."""
        left = into.data
        while len(left):
            done = os.preadv(self._number, [left], at)
            if not done:
                raise OSError(errno.EIO, "the scratch file has been cut short")
            left, at = left[done:], at + done

    def __getstate__(self) -> dict[str, Any]:
        """How another process finds the file while this one has it open."""
        where = f"/proc/{os.getpid()}/fd/{self._number}"
        return {"where": where, "size": self.size, "folder": self.folder, "token": self.token}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the file of the process that has it."""
        self.folder, self.size, self.token = state["folder"], state["size"], state["token"]
        try:
            self._hold(os.open(state["where"], os.O_RDONLY))
            found = os.pread(self._number, len(self.token), 0)
        except OSError:
            found = b""
        if found != self.token:
            raise NotAvailableError(
                "the rows were in a scratch file, which is gone with the model or the process that "
                "made it, or cannot be shared on this system; save the fit with res.save(path), "
                "declare the model anew, or use n_jobs=1"
            )

    def __deepcopy__(self, memo: Any) -> ScratchFile:
        """Itself: it is written once."""
        return self


@dataclass(frozen=True, eq=False)
class ScratchStore:
    """Blocks in a scratch file.

    Attributes
    ----------
    file : ScratchFile
    columns : tuple of Column
    owners : tuple of int or None
        As in `Block`.
    places : tuple of Place
    shape : Shape
    """

    file: ScratchFile
    columns: tuple[Column, ...]
    owners: tuple[int, ...] | None
    places: tuple[Place, ...]
    shape: Shape

    def sweep(self, task: Task[T], params: Any) -> T:
        """Run a task on every block and add up what it returns, in order."""
        return sweep(self.places, OfPlace(task, self.again), params)

    def pieces(self, task: Task[Parts], params: Any) -> Iterator[Array]:
        """What a task says of each unit, block by block, in order, as it is asked for."""
        return pieces(map(self.block, self.places), task, params)

    def first(self, task: Task[T]) -> T:
        """What a task says of the first block."""
        return task(self.block(self.places[0]), None)

    def lazily(self, task: Task[Parts], params: Any) -> None:
        """Blocks in a file are not Dask's."""

    def block(self, place: Place) -> Block:
        """The block at a place, in memory of its own."""
        return self._read(place, np.empty(self._size(place), dtype=np.uint8))

    def again(self, place: Place) -> Block:
        """The block at a place, in memory that the next one will be read into."""
        size = self._size(place)
        room = getattr(_memory, "room", None)
        if room is None or len(room) < size:
            room = _memory.room = np.empty(size, dtype=np.uint8)
        return self._read(place, room[:size])

    def _size(self, place: Place) -> int:
        return sum(column.size(place.rows, place.units) for column in self.columns)

    def _read(self, place: Place, room: Bytes) -> Block:
        self.file.read(place.at, room)
        sizes = [column.size(place.rows, place.units) for column in self.columns]
        parts: dict[str, Any] = {}
        for column, size, end in zip(self.columns, sizes, accumulate(sizes), strict=True):
            shape = column.shape(place.rows, place.units)
            count = int(np.prod(shape, dtype=np.int64))
            values = room[end - size : end].view(column.kind)[:count]
            parts[column.name] = values.reshape(shape)
        return Block(first=place.first, owners=self.owners, **parts)


# The memory that each thread reads into.
_memory = threading.local()


class ScratchWriter:
    """Puts blocks into a scratch file, one after the other."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.file = ScratchFile(folder)
        self.columns: tuple[Column, ...] | None = None
        self.owners: tuple[int, ...] | None = None
        self.places: list[Place] = []
        self.shape = Shape()

    def append(self, block: Block) -> None:
        """Add some units, in parts of the size of a block."""
        found = columns_of(block)
        if self.columns is None:
            self.columns, self.owners = found, block.owners
        if (found, block.owners) != (self.columns, self.owners):
            raise ValueError("blocks of a file must have the same columns")
        for first, last in parts(block, block_rows(block.x.shape[1])):
            part = block.cut(first, last)
            arrays = [np.asarray(getattr(part, c.name), dtype=c.kind) for c in self.columns]
            at = self.file.write(arrays)
            self.places.append(Place(at, part.rows, part.units, self.shape.units))
            self.shape = self.shape + Shape.of(part)

    def source(self) -> StreamSource:
        """All that was added, as a source."""
        assert self.columns is not None
        store = ScratchStore(self.file, self.columns, self.owners, tuple(self.places), self.shape)
        return StreamSource(store, self.shape)
