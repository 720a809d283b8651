"""Rows that are met a block at a time: in files, or on the workers of a cluster.

A store holds the blocks and runs tasks on them; what is the same wherever they are is here.
Rows that are transformed (standard coordinates, another response) are transformed on the way to
the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.sources.base import Parts, Swept, Task, condensing_pays
from mixreg.sources.block import ROW_FIELDS, UNIT_FIELDS, Block, GramBlock, condense
from mixreg.sources.drawn import Redrawn, TakeDrawn, draw, positive, take_all
from mixreg.sources.fingerprint import fingerprint
from mixreg.sources.memory import MemorySource, in_memory
from mixreg.sources.one_block import BlockSource
from mixreg.sources.standard import Whitening
from mixreg.sources.threads import one_thread

Array = NDArray[np.float64]
Change = Callable[[Block], Block]
T = TypeVar("T")

# Rows that may be brought into memory for what cannot do without, in bytes.
AT_HAND_BYTES = 1_000_000_000
# Cross products of groups that may be kept in memory.
GRAM_BYTES = 128_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """How many rows there are.

    Attributes
    ----------
    rows, units : int
    total_weight, row_weight : float
        Units and rows, counted with their weights.
    counting : int
        Units with a positive weight.
    counting_rows : int
        Their rows.
    """

    rows: int = 0
    units: int = 0
    total_weight: float = 0.0
    row_weight: float = 0.0
    counting: int = 0
    counting_rows: int = 0

    @staticmethod
    def of(block: Block) -> Shape:
        """The shape of a block."""
        rows, units, weight = block.rows, block.units, block.weight
        if weight is None:
            return Shape(rows, units, float(units), float(rows), units, rows)
        sizes = np.broadcast_to(np.asarray(block.size), (units,))
        there = weight > 0
        total, by_row = float(weight.sum()), float(weight @ sizes)
        return Shape(rows, units, total, by_row, int(there.sum()), int(sizes[there].sum()))

    def __add__(self, other: Shape) -> Shape:
        """The shape of both."""
        names = self.__dataclass_fields__
        return Shape(*(getattr(self, name) + getattr(other, name) for name in names))


def take_shape(block: Block, params: None = None) -> Shape:
    """Task: the shape of a block."""
    return Shape.of(block)


class Store(Protocol):
    """Where blocks are; each is numbered by its first unit."""

    @property
    def shape(self) -> Shape:
        """How many rows there are."""
        ...

    def sweep(self, task: Task[T], params: Any) -> T:
        """Run a task on every block and add up what it returns, in order.

        What it returns must not be a view of the block, whose memory is used again.
        """
        ...

    def pieces(self, task: Task[Parts], params: Any) -> Iterator[Array]:
        """What a task says of each unit, block by block, in order, as it is asked for."""
        ...

    def first(self, task: Task[T]) -> T:
        """What a task says of the first block."""
        ...

    def lazily(self, task: Task[Parts], params: Any) -> list[Any] | None:
        """What a task says of each unit, as delayed objects of Dask's; None if it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Changed:
    """Task: another one, of blocks that are changed on the way."""

    task: Task[Any]
    changes: tuple[Change, ...]

    def __call__(self, block: Block, params: Any) -> Any:
        """Process one block."""
        for change in self.changes:
            block = change(block)
            if not block.units:
                # No task need know what to say of nothing.
                return None
        return self.task(block, params)


@dataclass(frozen=True, slots=True)
class Without:
    """Blocks with columns left out."""

    columns: tuple[str, ...]

    def __call__(self, block: Block) -> Block:
        """The block without them."""
        nothing: dict[str, Any] = dict.fromkeys(self.columns)
        return replace(block, **nothing)


@dataclass(frozen=True, slots=True)
class Look:
    """What a block has: how many regressors, and which columns."""

    columns: int
    names: frozenset[str]


def look(block: Block, params: None = None) -> Look:
    """Task: what a block has."""
    names = (*ROW_FIELDS, *UNIT_FIELDS, "starts", "owners")
    there = frozenset(name for name in names if getattr(block, name) is not None)
    return Look(block.x.shape[1], there)


@dataclass(frozen=True, slots=True)
class Grams:
    """Condensed groups of some blocks, in order."""

    parts: tuple[GramBlock, ...]

    def __add__(self, other: Grams) -> Grams:
        """Append those of the blocks that follow."""
        return Grams(self.parts + other.parts)

    def join(self) -> GramBlock:
        """All of them as one block."""
        names = ("gram", "size", "weight", "z", "known", "given", "rounding")
        first = self.parts[0]
        values = {name: [getattr(part, name) for part in self.parts] for name in names}
        there: dict[str, Any] = {}
        for name, parts in values.items():
            there[name] = None if parts[0] is None else np.concatenate(parts)
        return GramBlock(p=first.p, **there)


def take_grams(block: Block, params: None = None) -> Grams:
    """Task: a block's groups as cross products."""
    gram = condense(block)
    kept: dict[str, Any] = {name: getattr(gram, name) for name in KEPT}
    kept = {name: None if values is None else values.copy() for name, values in kept.items()}
    return Grams((replace(gram, **kept),))


# What cross products have of a block as it is.
KEPT = ("weight", "z", "known", "given")


@dataclass(frozen=True, eq=False)
class StreamSource:
    """Rows in a store.

    Attributes
    ----------
    store : Store
    shape : Shape
    changes : tuple of callables
        What becomes of each block on its way to a task.
    """

    store: Store
    shape: Shape
    changes: tuple[Change, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.shape.rows

    @property
    def units(self) -> int:
        """Number of rows or groups that get a label."""
        return self.shape.units

    @property
    def total_weight(self) -> float:
        """Units, counted with their weights."""
        return self.shape.total_weight

    @property
    def row_weight(self) -> float:
        """Rows, counted with their weights."""
        return self.shape.row_weight

    @cached_property
    def _looks(self) -> Look:
        # What blocks have is not changed by leaving units out, which may empty the first.
        kept = tuple(change for change in self.changes if change is not positive)
        return self.store.first(Changed(look, kept))

    @property
    def columns(self) -> int:
        """Number of regressors."""
        return self._looks.columns

    def has(self, column: str) -> bool:
        """Whether blocks have a column."""
        return column in self._looks.names

    def _of(self, task: Task[T]) -> Task[T]:
        """A task of blocks as they are in the store."""
        return Changed(task, self.changes) if self.changes else task

    def sweep(self, task: Task[T], params: Any = None) -> T:
        """Run a task on every block and add up what it returns."""
        with one_thread():
            return self.store.sweep(self._of(task), params)

    def pieces(self, task: Task[Parts], params: Any = None) -> Iterator[Array]:
        """What a task says of each unit, block by block, in order, as it is asked for."""
        return self.store.pieces(self._of(task), params)

    def lazily(self, task: Task[Parts], params: Any = None) -> list[Any] | None:
        """What a task says of each unit, as delayed objects of Dask's, one for each partition."""
        return self.store.lazily(self._of(task), params)

    def mapped(self, change: Change) -> StreamSource:
        """The same units with other rows, made block by block."""
        return StreamSource(self.store, self.shape, (*self.changes, change))

    def without(self, *columns: str) -> StreamSource:
        """The same rows with columns left out."""
        there = tuple(name for name in columns if self.has(name))
        return self.mapped(Without(there)) if there else self

    def standard(self, whitening: Whitening) -> StreamSource:
        """The same rows in standard coordinates."""
        return self.mapped(whitening.standard_block)

    def sample(self, rows: int, seed: int) -> MemorySource:
        """Whole units, about so many rows in all, in memory."""
        if self.rows <= rows:
            return in_memory(self.sweep(take_all).join())
        count = max(1, int(self.units * rows / self.rows))
        gaps, known = positive in self.changes, self.has("known")
        drawn = draw(self, self.units, count, seed, known, gaps)
        return in_memory(self.sweep(TakeDrawn(drawn)).join())

    def split(self, parts: int, seed: int) -> list[MemorySource]:
        """Cut the units into disjoint parts of equal size, in memory."""
        return self.at_hand("parts of the rows (resample=)").split(parts, seed)

    def counting(self) -> StreamSource:
        """The units with a positive weight: the same source if these are all."""
        shape = self.shape
        if shape.counting == shape.units:
            return self
        fewer = replace(shape, rows=shape.counting_rows, units=shape.counting)
        return StreamSource(self.store, fewer, (*self.changes, positive))

    def shortest(self) -> Swept:
        """The rows as linear regressions can do with: groups as their cross products if it pays."""
        p = self.columns
        size = 4 * self.units * (p + 1) * (p + 2)
        if self.has("owners") or size > GRAM_BYTES or not condensing_pays(self):
            return self
        return BlockSource(self.sweep(take_grams).join())

    def fingerprint(self) -> dict[str, str]:
        """A digest of every column, by its name."""
        return fingerprint(self)

    def redrawn(self, seed: int) -> StreamSource:
        """The units drawn anew, with replacement, as weights."""
        again = self.mapped(Redrawn(seed))
        return replace(again, shape=again.sweep(take_shape))

    @property
    def _size(self) -> int:
        return 8 * self.rows * (self.columns + 1)

    @property
    def fits_at_hand(self) -> bool:
        """Whether rows are few enough to be brought into memory."""
        return self._size <= AT_HAND_BYTES

    def at_hand(self, what: str) -> MemorySource:
        """The rows in memory; refused if they are many."""
        if not self.fits_at_hand:
            raise NotAvailableError(
                f"{what} needs all rows in memory, which would take {self._size / 1e9:.1f} GB of "
                f"{AT_HAND_BYTES / 1e9:g} that are allowed; fit a sample of the rows in memory "
                "for it"
            )
        return self.sample(self.rows, 0)
