"""Rows held in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mixreg.sources.base import Parts, Task, condensing_pays, pieces, sweep
from mixreg.sources.block import (
    ROW_FIELDS,
    UNIT_FIELDS,
    Block,
    GramBlock,
    SharedBlock,
    column_pairs,
    condense,
)
from mixreg.sources.made import MadeRows, Rows, as_array, picked, room_beside, times
from mixreg.sources.repeats import (
    all_hashes,
    distinct_rows,
    lowest_hashes,
    pass_cost,
    share_rows,
    unit_hashes,
)
from mixreg.sources.standard import Whitening
from mixreg.sources.threads import one_thread

Array = NDArray[np.float64]
T = TypeVar("T")


# Rows of a block: one thread is fastest with 2,000 rows of 20 columns, which stay in the
# processor's cache with a copy of them, but loses little with more; two threads wait for each
# other unless there are more (a pass over 100,000 x 20: 24 ms, and 16 to 18 ms with 8,000 rows).
BLOCK_VALUES, BLOCK_ROWS, LEAST_ROWS = 160_000, 8_192, 256
# All columns of a source but the regressors.
OTHERS = tuple(name for name in (*ROW_FIELDS, *UNIT_FIELDS) if name != "x")


@dataclass(frozen=True, slots=True)
class OfPlace:
    """Task: another one, of the block that is made of a place in the data."""

    task: Task[Any]
    make: Callable[[Any], Any]

    def __call__(self, place: Any, params: Any) -> Any:
        """Process the block of one place."""
        return self.task(self.make(place), params)


@dataclass(frozen=True)
class MemorySource:
    """Rows in arrays, served in blocks that are views of them.

    Nothing here writes to these arrays, which may be the user's own.

    Attributes
    ----------
    x : (rows, p) array or MadeRows
        Regressors; of large data, samples and standard coordinates are made block by block.
    y : (rows,) array
    weight : (units,) array or None
        Case weights; None means 1.
    starts : (units,) int array or None
        First row of each group; rows of a group are contiguous.
    offset, trials, opens, part, z, known, repeats, given, cluster
        As in `Block`.
    origin : int
        Bytes of the regressors that these rows are a sample of; 0 if they are no sample.
    """

    x: Rows
    y: Array
    weight: Array | None = None
    starts: NDArray[np.intp] | None = None
    offset: Array | None = None
    trials: Array | None = None
    opens: NDArray[np.bool_] | None = None
    part: NDArray[np.intp] | None = None
    z: Array | None = None
    known: NDArray[np.intp] | None = None
    repeats: NDArray[np.intp] | None = None
    given: Array | None = None
    cluster: NDArray[np.intp] | None = None
    origin: int = 0

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.y.shape[0]

    @property
    def units(self) -> int:
        """Number of rows or groups that get a label."""
        return self.rows if self.starts is None else self.starts.shape[0]

    @property
    def columns(self) -> int:
        """Number of regressors."""
        return self.x.shape[1]

    @property
    def cost(self) -> int:
        """What a pass costs, in rows: rows that repeat are evaluated once."""
        return self.rows if self.repeats is None else pass_cost(self.repeats)

    def has(self, column: str) -> bool:
        """Whether blocks have a column."""
        return getattr(self, column) is not None

    def with_columns(self, **columns: Any) -> MemorySource:
        """The same rows with columns put in, or left out (None)."""
        return replace(self, **columns)

    @property
    def total_weight(self) -> float:
        """Units, counted with their weights."""
        return float(self.units if self.weight is None else self.weight.sum())

    @property
    def row_weight(self) -> float:
        """Rows, counted with their weights."""
        if self.weight is None:
            return float(self.rows)
        sizes = 1 if self.starts is None else np.diff(self.starts, append=self.rows)
        return float((self.weight * sizes).sum())

    @cached_property
    def cuts(self) -> list[tuple[int, int, int, int]]:
        """First and last unit, first and last row of each block."""
        per_block = block_rows(self.columns)
        if isinstance(self.x, MadeRows):
            # There are many blocks to share out, and each is one more array.
            per_block = max(1, per_block // 2)
        if self.starts is None:
            edges = [*range(0, self.rows, per_block), self.rows]
            return [(a, b, a, b) for a, b in pairwise(edges)]
        ends = np.append(self.starts[1:], self.rows)
        cuts, unit = [], 0
        while unit < self.units:
            row = int(self.starts[unit])
            last = max(unit + 1, int(np.searchsorted(ends, row + per_block, side="right")))
            cuts.append((unit, last, row, int(ends[last - 1])))
            unit = last
        return cuts

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks in order."""
        return map(self.block_at, self.cuts)

    def block_at(self, cut: tuple[int, int, int, int]) -> Block:
        """The block of a cut."""
        unit, last, row, end = cut
        starts = None if self.starts is None else self.starts[unit:last] - row
        rows, units = slice(row, end), slice(unit, last)
        return Block(self.x[rows], starts=starts, first=unit, **self._others(rows, units))

    def _others(self, rows: Any, units: Any) -> dict[str, Any]:
        """Arrays of some rows and the units they make up, but for the regressors."""
        parts = {}
        for name in OTHERS:
            values = getattr(self, name)
            where = rows if name in ROW_FIELDS else units
            parts[name] = None if values is None else values[where]
        return parts

    def sweep(self, task: Task[T], params: Any = None) -> T:
        """Run a task on every block and add up what it returns."""
        with one_thread():
            return sweep(self.cuts, OfPlace(task, self.block_at), params)

    def pieces(self, task: Task[Parts], params: Any = None) -> Iterator[Array]:
        """What a task says of each unit, block by block, in order, as it is asked for."""
        return pieces(self.blocks(), task, params)

    def as_block(self) -> Block:
        """All rows as one block."""
        return replace(self.as_held(), x=as_array(self.x))

    def as_held(self) -> Block:
        """All rows as one block, whose regressors may yet be to be made."""
        x: Any = self.x
        everything = slice(None)
        return Block(x, starts=self.starts, **self._others(everything, everything))

    def take_units(self, units: NDArray[np.intp]) -> MemorySource:
        """Some units, whole groups, as a source of their own."""
        rows, starts = units, None
        if self.starts is not None:
            sizes = np.diff(self.starts, append=self.rows)[units]
            rows = np.repeat(self.starts[units] - np.cumsum(sizes) + sizes, sizes)
            rows += np.arange(rows.shape[0])
            starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        x, others = picked(self.x, rows), self._others(rows, units)
        return MemorySource(x, starts=starts, origin=self.origin or self.x.nbytes, **others)

    def counted(self) -> NDArray[np.intp] | None:
        """Units with a positive weight, or None if that is all of them."""
        if self.weight is None or self.weight.all():
            return None
        return np.flatnonzero(self.weight)

    def labelled(self) -> NDArray[np.intp]:
        """Units that count and whose label is known."""
        if self.known is None:
            return np.zeros(0, dtype=np.intp)
        here = self.known >= 0
        return np.flatnonzero(here if self.weight is None else here & (self.weight > 0))

    def split(self, parts: int, seed: int) -> list[MemorySource]:
        """Cut the units into disjoint parts of equal size, by a hash of unit and seed."""
        shuffled = np.argsort(all_hashes(self.units, seed))
        return [self.take_units(np.sort(part)) for part in np.array_split(shuffled, parts)]

    def sample(self, rows: int, seed: int) -> MemorySource:
        """Whole units, about so many rows in all: those with the lowest hashes."""
        if self.rows <= rows:
            return self
        units = max(1, int(self.units * rows / self.rows))
        drawn = lowest_hashes(self.units, units, seed)
        if self.known is not None:
            # Known labels say which component is which; some of them must be there.
            known = np.flatnonzero(self.known >= 0)
            drawn = np.union1d(drawn, known[np.argsort(unit_hashes(known, seed))][:units])
        return self.take_units(drawn)

    def standard(self, whitening: Whitening) -> MemorySource:
        """The rows in standard coordinates; many of them are made block by block."""
        x = times(self.x, whitening.basis)
        y, offset = whitening.standard_rows(self.y, self.offset, self.part)
        z = self.z if self.z is None or whitening.gate is None else self.z @ whitening.gate
        return replace(self, x=x, y=y, z=z, offset=offset)

    def mapped(self, change: Callable[[Block], Block]) -> MemorySource:
        """The same units with other rows."""
        return replace(in_memory(change(self.as_held())), origin=self.origin)

    def condensed(self, linear: bool = True) -> BlockSource:
        """The rows as one block, in its shortest form."""
        return condensed(self, linear)

    def with_repeats(self) -> MemorySource:
        """Groups that know which of their rows repeat, if many do."""
        return with_repeats(self)


def in_memory(block: Block) -> MemorySource:
    """Serve the arrays of one large block in small ones."""
    others = {name: getattr(block, name) for name in OTHERS}
    return MemorySource(block.x, starts=block.starts, **others)


def with_repeats(source: MemorySource) -> MemorySource:
    """Groups that know which of their rows repeat, if many do."""
    if source.starts is None or source.part is not None or source.repeats is not None:
        return source
    extra = [values for values in (source.offset, source.trials) if values is not None]
    columns = [*as_array(source.x).T, source.y, *extra]
    return replace(source, repeats=distinct_rows(columns, source.opens))


def block_rows(p: int) -> int:
    """Rows of a block with p columns."""
    return max(LEAST_ROWS, min(BLOCK_ROWS, BLOCK_VALUES // max(1, p)))


# Values that a stack of runs holds of one block, and products of regressors there: fewer keep
# threads waiting, more leave the processor's cache (bank, diamonds, camera of the benchmark).
STACK_VALUES, PAIR_VALUES = 131_072, 200_000
# Components of all runs of a stack from which on products that are not kept pay although they are
# made on every pass: 121,500 x 20, eight runs of five take 170 ms with them, 290 ms without; four
# runs 120 and 140, two 96 and 72 ms. With 9 columns they pay earlier, with 40 at eight runs.
PAIRED_RUNS = 20


@dataclass(frozen=True)
class BlockSource:
    """One block, rows or condensed, as a source of its own.

    A stack of runs sees it in parts, the smaller the more runs there are.

    Attributes
    ----------
    held : Block or GramBlock
        The block; of large data its regressors are made part by part.
    """

    held: Block | GramBlock

    @cached_property
    def block(self) -> Block | GramBlock:
        """All of it, in arrays."""
        if isinstance(self.held, GramBlock):
            return self.held
        return replace(self.held, x=as_array(self.held.x))

    @property
    def cost(self) -> int:
        """What a pass costs, in rows."""
        return self.held.cost

    @property
    def units(self) -> int:
        """Number of rows or groups that get a label."""
        return self.held.units

    @property
    def keeps_pairs(self) -> bool:
        """Whether products of regressors are kept."""
        return isinstance(self.held, Block) and self.held.pairs is not None

    def blocks(self) -> Iterator[Block | GramBlock]:
        """Yield the one block."""
        yield self.block

    def with_columns(self, **columns: Any) -> BlockSource:
        """The same rows with columns put in, or left out (None)."""
        return BlockSource(replace(self.held, **columns))

    def sweep(self, task: Task[T], params: Any = None) -> T:
        """Run a task on the block."""
        stack = getattr(params, "coef", None)
        runs = 1 if stack is None else int(np.prod(stack.shape[:-1]))
        plain = isinstance(self.held, Block) and self.held.pairs is None
        make = paired_part if plain and runs >= PAIRED_RUNS else part
        rows = self._part_rows(runs, make is paired_part or self.keeps_pairs)
        if self.held.rows < 2 * rows or isinstance(self.held, SharedBlock):
            return task(self.block, params)
        return sweep(self.places(rows), OfPlace(task, partial(make, self.held)), params)

    def _part_rows(self, runs: int, paired: bool) -> int:
        """Rows of a part that a stack of so many runs sees."""
        rows = max(LEAST_ROWS, STACK_VALUES // runs)
        if isinstance(self.held, GramBlock):
            return rows
        p = self.held.x.shape[1]
        most = PAIR_VALUES // (p * (p + 1) // 2) if paired else block_rows(p)
        return min(rows, max(LEAST_ROWS, most))

    def places(self, rows: int) -> list[tuple[int, int]]:
        """First and last unit of parts of about so many rows."""
        units = self.held.units
        each = max(1, rows * units // self.held.rows)
        return [(first, min(first + each, units)) for first in range(0, units, each)]


def part(block: Any, place: tuple[int, int]) -> Any:
    """Some units of a block."""
    return block.cut(*place)


def paired_part(block: Any, place: tuple[int, int]) -> Any:
    """Some units of a block, with products of their regressors."""
    some = block.cut(*place)
    return replace(some, pairs=column_pairs(some.x))


def of_block(block: Block | GramBlock) -> BlockSource:
    """Serve one block as a source of its own."""
    return BlockSource(block)


# Products of regressors, kept, let a whole stack of runs share one matrix product. They and
# the rows of the fit share so many bytes: on 54,000 rows of 9 columns, 19 MB of them, eight runs
# of the search take half the time.
KEPT_BYTES = 70_000_000


def room_for_pairs(source: MemorySource) -> float:
    """Bytes that products of regressors may take."""
    return room_beside(source.origin or source.x.nbytes, KEPT_BYTES)


def condensed(source: MemorySource, linear: bool = True) -> BlockSource:
    """Serve a source as one block, with products of regressors kept if they fit.

    In a linear Gaussian fit, groups are condensed to their cross products,
    which is all it needs of them.
    """
    p = source.columns
    if source.repeats is not None and not linear:
        return BlockSource(share_rows(source.as_block(), source.repeats))
    gram = linear and source.starts is not None
    products = source.units if gram else source.rows
    large = products * p * (p + 1) * 4 > room_for_pairs(source)
    if large and not (gram and condensing_pays(source)):
        return BlockSource(source.as_held())
    if not gram:
        block = source.as_block()
        return BlockSource(replace(block, pairs=column_pairs(block.x)))
    parts = [condense(block) for block in source.blocks()]
    return BlockSource(
        GramBlock(
            np.concatenate([part.gram for part in parts]),
            np.concatenate([part.size for part in parts]),
            source.weight,
            p,
            z=source.z,
            known=source.known,
        )
    )
