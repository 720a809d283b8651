"""What a source promises, and the sweep: one pass that adds up a task's results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mixreg.sources.block import Block, GramBlock
from mixreg.sources.standard import Whitening
from mixreg.sources.threads import spread

Array = NDArray[np.float64]
T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Task(Protocol[T_co]):
    """A picklable callable that turns a block into something that adds up."""

    def __call__(self, block: Any, params: Any) -> T_co:
        """Process one block."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """Arrays over units, joined end to end in the order of the blocks."""

    arrays: tuple[Array, ...]

    def __add__(self, other: Parts) -> Parts:
        """Append the units of the next block."""
        return Parts(self.arrays + other.arrays)

    def join(self) -> Array:
        """Return one array, units last."""
        return np.concatenate(self.arrays, axis=-1)


@dataclass(frozen=True, slots=True)
class PerRow:
    """Task: what another one says of each unit, for each of its rows."""

    task: Task[Parts]

    def __call__(self, block: Block, params: Any) -> Parts:
        """Process one block."""
        return Parts((block.per_row(self.task(block, params).join()),))


@dataclass(frozen=True, slots=True)
class Several:
    """What several tasks add up to, each in its place."""

    sums: tuple[Any, ...]

    def __add__(self, other: Several) -> Several:
        """Add the sums of other blocks."""
        return Several(tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)))


@dataclass(frozen=True, slots=True)
class Standardised:
    """Task: another one, of rows that are brought to standard coordinates on the way."""

    task: Task[Any]
    whitening: Whitening

    def __call__(self, block: Block, params: Any) -> Any:
        """Process one block."""
        return self.task(self.whitening.standard_block(block), params)


def goes_in_order(task: Any) -> bool:
    """Whether a task, or one within it, must see blocks one after the other, as draws do."""
    if hasattr(task, "task"):
        return goes_in_order(task.task)
    return bool(getattr(task, "in_order", False))


class Swept(Protocol):
    """Rows that a task can be run on: all that an estimator needs."""

    def sweep(self, task: Task[T], params: Any = None) -> T:
        """Run a task on every block and add up what it returns."""
        ...


class Told(Swept, Protocol):
    """Rows beside which arrays can be put that run along the units."""

    def with_columns(self, **columns: Any) -> Self:
        """The same rows with columns of a block (`Block`) put in, or left out (None)."""
        ...


class Source(Swept, Protocol):
    """Rows somewhere, cut into blocks of whole units.

    A unit is a row, or a group of rows that share one label. Nothing outside the
    sources sees more than a block at a time.
    """

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def units(self) -> int:
        """Number of rows or groups that get a label."""
        ...

    @property
    def columns(self) -> int:
        """Number of regressors."""
        ...

    @property
    def total_weight(self) -> float:
        """Units, counted with their weights."""
        ...

    @property
    def row_weight(self) -> float:
        """Rows, counted with their weights."""
        ...

    def has(self, column: str) -> bool:
        """Whether blocks have a column, such as "starts" (groups), "z" or "known"."""
        ...

    def without(self, *columns: str) -> Source:
        """The same rows with columns of a block left out."""
        ...

    def pieces(self, task: Task[Parts], params: Any = None) -> Iterator[Array]:
        """What a task says of each unit, block by block, in order, as it is asked for."""
        ...

    def lazily(self, task: Task[Parts], params: Any = None) -> list[Any] | None:
        """The same as delayed objects of Dask's, one for each partition; None if it has none."""
        ...

    def sample(self, rows: int, seed: int) -> AtHand:
        """Whole units, about so many rows in all, in memory: the same whatever the blocks."""
        ...

    def split(self, parts: int, seed: int) -> Sequence[Source]:
        """Disjoint parts of whole units, of equal size."""
        ...

    def counting(self) -> Source:
        """The units with a positive weight: the same source if these are all."""
        ...

    def redrawn(self, seed: int) -> Source:
        """The units drawn anew, with replacement, as weights; see `Redrawn`."""
        ...

    def standard(self, whitening: Whitening) -> Source:
        """The same rows in standard coordinates."""
        ...

    def mapped(self, change: Callable[[Block], Block]) -> Source:
        """The same units with other rows, made block by block."""
        ...

    def shortest(self) -> Swept:
        """The rows as linear regressions can do with: groups as their cross products if it pays."""
        ...

    def fingerprint(self) -> dict[str, str]:
        """A digest of every column, by its name; the same whatever the blocks."""
        ...

    @property
    def fits_at_hand(self) -> bool:
        """Whether rows are in memory, or few enough to be brought there."""
        ...

    def at_hand(self, what: str) -> AtHand:
        """The rows in memory, for what cannot do without (`what`); refused if they are many."""
        ...


class AtHand(Source, Told, Protocol):
    """Rows in memory: a sample, or data that are there anyway.

    A search looks at these, and arrays that run along units can be put beside them.
    """

    @property
    def cost(self) -> int:
        """What a pass costs, in rows: rows that repeat are evaluated once."""
        ...

    def as_block(self) -> Block:
        """All rows as one block, for what cannot do with less: PyMC."""
        ...

    def counting(self) -> AtHand:
        """The units with a positive weight: the same source if these are all."""
        ...

    def take_units(self, units: NDArray[np.intp]) -> AtHand:
        """Some units, by their numbers."""
        ...

    def standard(self, whitening: Whitening) -> AtHand:
        """The same rows in standard coordinates."""
        ...

    def mapped(self, change: Callable[[Block], Block]) -> AtHand:
        """The same units with other rows, made block by block."""
        ...

    def condensed(self, linear: bool = True) -> OneBlock:
        """The rows as one block, in its shortest form.

        In a linear Gaussian fit, groups are condensed to their cross products.
        """
        ...

    def distinct(self) -> AtHand:
        """Rows that are alike in all that a fit sees taken together, if many are."""
        ...

    def with_repeats(self) -> AtHand:
        """Groups that know which of their rows repeat, if many do."""
        ...


class OneBlock(Told, Protocol):
    """Rows of which a search may look at all at once."""

    @property
    def block(self) -> Block | GramBlock:
        """All of them, in arrays, which are made if there are none yet."""
        ...

    @property
    def cost(self) -> int:
        """What a pass costs, in rows."""
        ...

    @property
    def units(self) -> int:
        """Number of rows or groups that get a label."""
        ...

    @property
    def keeps_pairs(self) -> bool:
        """Whether products of regressors are kept."""
        ...


# A pass is shared out in so many parts, whatever the number of threads: sums are then
# added in the same order on every machine.
PARTS = 8


def sweep(blocks: Iterable[Any], task: Task[T], params: Any = None) -> T:
    """Run `task(block, params)` on every block and add up the results, in order.

    For blocks that are views of memory, or places of blocks that the task makes: all of
    them are there at once.
    """
    total = swept(blocks, task, params)
    if total is None:
        raise ValueError("no unit of the source counts; give some a positive weight")
    return total


def swept(blocks: Iterable[Any], task: Task[T], params: Any = None) -> T | None:
    """The same; None if no block has units."""
    every = list(blocks)
    if not every:
        raise ValueError("the source has no blocks; give it at least one row")
    each = -(-len(every) // PARTS)
    parts = [every[first : first + each] for first in range(0, len(every), each)]
    return added(spread(partial(_add_up, task, params), parts))


def added(results: Iterable[T | None]) -> T | None:
    """The sum of some results, in order; None stands for a block without units.

    No more than one of them is held beside the sum.
    """
    total: T | None = None
    for result in results:
        if result is not None:
            total = result if total is None else add(total, result)
    return total


def _add_up(task: Task[T], params: Any, blocks: Sequence[Any]) -> T | None:
    return added(task(block, params) for block in blocks)


def condensing_pays(source: Source) -> bool:
    """Whether groups are long enough for cross products to be smaller than rows."""
    p = source.columns
    return source.has("starts") and source.units * (p + 1) * (p + 2) < source.rows * p


def per_unit(source: Source, task: Task[Parts], params: Any = None) -> Array:
    """What a task says of every unit, in one array, units last."""
    return np.concatenate(list(source.pieces(task, params)), axis=-1)


def unit_weights(source: Source) -> Array:
    """Case weight of every unit, (units,); 1 where none are given."""
    return per_unit(source, _weights)


def _weights(block: Block, params: None = None) -> Parts:
    return Parts((np.ones(block.units) if block.weight is None else block.weight,))


def pieces(blocks: Iterable[Any], task: Task[Parts], params: Any = None) -> Iterator[Array]:
    """Run `task(block, params)` on one block after the other, as results are asked for."""
    told = (task(block, params) for block in blocks)
    return (each.join() for each in told if each is not None)
