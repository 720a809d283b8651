"""Rows held in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
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
    condense,
    own_pairs,
    pair_spans,
)
from mixreg.sources.repeats import distinct_rows, pass_cost, share_rows, unit_hashes
from mixreg.sources.standard import Whitening
from mixreg.sources.threads import one_thread

Array = NDArray[np.float64]
T = TypeVar("T")


# Rows of a block: one thread is fastest with 2,000 rows of 20 columns, which stay in the
# processor's cache with a copy of them, but loses little with more; two threads wait for each
# other unless there are more (a pass over 100,000 x 20: 24 ms, and 16 to 18 ms with 8,000 rows).
BLOCK_VALUES, BLOCK_ROWS, LEAST_ROWS = 160_000, 8_192, 256
# Rows that are standardised at once.
STANDARD_ROWS = 4_096


@dataclass(frozen=True)
class MemorySource:
    """Rows in arrays, served in blocks that are views of them.

    Attributes
    ----------
    x : (rows, p) array
    y : (rows,) array
    weight : (units,) array or None
        Case weights; None means 1.
    starts : (units,) int array or None
        First row of each group; rows of a group are contiguous.
    offset, trials, opens, seen, owners, z, known, repeats, given, cluster
        As in `Block`.
    """

    x: Array
    y: Array
    weight: Array | None = None
    starts: NDArray[np.intp] | None = None
    offset: Array | None = None
    trials: Array | None = None
    opens: NDArray[np.bool_] | None = None
    seen: NDArray[np.bool_] | None = None
    owners: tuple[int, ...] | None = None
    z: Array | None = None
    known: NDArray[np.intp] | None = None
    repeats: NDArray[np.intp] | None = None
    given: Array | None = None
    cluster: NDArray[np.intp] | None = None

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
        per_block = block_rows(self.x.shape[1])
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
        for unit, last, row, end in self.cuts:
            starts = None if self.starts is None else self.starts[unit:last] - row
            yield Block(starts=starts, first=unit, **self._cut(slice(row, end), slice(unit, last)))

    def _cut(self, rows: Any, units: Any) -> dict[str, Any]:
        """Arrays of some rows and the units they make up."""
        parts: dict[str, Any] = {"owners": self.owners}
        for names, where in ((ROW_FIELDS, rows), (UNIT_FIELDS, units)):
            for name in names:
                values = getattr(self, name)
                parts[name] = None if values is None else values[where]
        return parts

    def sweep(self, task: Task[T], params: Any = None) -> T:
        """Run a task on every block and add up what it returns."""
        with one_thread():
            return sweep(self.blocks(), task, params)

    def pieces(self, task: Task[Parts], params: Any = None) -> Iterator[Array]:
        """What a task says of each unit, block by block, in order, as it is asked for."""
        return pieces(self.blocks(), task, params)

    def as_block(self) -> Block:
        """All rows as one block."""
        everything = slice(None)
        return Block(starts=self.starts, **self._cut(everything, everything))

    def take_units(self, units: NDArray[np.intp]) -> MemorySource:
        """Copy some units, whole groups, into a source of their own."""
        if self.starts is None:
            return MemorySource(**self._cut(units, units))
        sizes = np.diff(self.starts, append=self.rows)[units]
        rows = np.repeat(self.starts[units] - np.cumsum(sizes) + sizes, sizes)
        rows += np.arange(rows.shape[0])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return MemorySource(starts=starts, **self._cut(rows, units))

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
        shuffled = np.argsort(unit_hashes(np.arange(self.units), seed))
        return [self.take_units(np.sort(part)) for part in np.array_split(shuffled, parts)]

    def sample(self, rows: int, seed: int) -> MemorySource:
        """Whole units, about so many rows in all: those with the lowest hashes."""
        if self.rows <= rows:
            return self
        units = max(1, int(self.units * rows / self.rows))
        hashes = unit_hashes(np.arange(self.units), seed)
        drawn = np.argpartition(hashes, units - 1)[:units]
        if self.known is not None:
            # Known labels say which component is which; some of them must be there.
            known = np.flatnonzero(self.known >= 0)
            drawn = np.union1d(drawn, known[np.argsort(hashes[known])][:units])
        return self.take_units(np.sort(drawn))

    def standard(self, whitening: Whitening) -> MemorySource:
        """The rows in standard coordinates, made piece by piece into one new array."""
        x = np.empty(self.x.shape)
        # Always the same pieces: the last bit of a product depends on the rows beside it.
        for row in range(0, self.rows, STANDARD_ROWS):
            part = slice(row, row + STANDARD_ROWS)
            whitening.standard_columns(self.x[part], x[part])
        y, offset = whitening.standard_rows(self.y, self.offset)
        z = self.z if self.z is None or whitening.gate is None else self.z @ whitening.gate
        return replace(self, x=x, y=y, z=z, offset=offset, owners=whitening.standard_owners)

    def mapped(self, change: Callable[[Block], Block]) -> MemorySource:
        """The same units with other rows."""
        return in_memory(change(self.as_block()))

    def condensed(self, linear: bool = True) -> BlockSource:
        """The rows as one block, in its shortest form."""
        return condensed(self, linear)

    def with_repeats(self) -> MemorySource:
        """Groups that know which of their rows repeat, if many do."""
        return with_repeats(self)


def in_memory(block: Block) -> MemorySource:
    """Serve the arrays of one large block in small ones."""
    return MemorySource(**{f.name: getattr(block, f.name) for f in fields(MemorySource)})


def with_repeats(source: MemorySource) -> MemorySource:
    """Groups that know which of their rows repeat, if many do."""
    if source.starts is None or source.owners is not None or source.repeats is not None:
        return source
    extra = [values for values in (source.offset, source.trials) if values is not None]
    columns = [*source.x.T, source.y, *extra]
    return replace(source, repeats=distinct_rows(columns, source.opens))


def block_rows(p: int) -> int:
    """Rows of a block with p columns."""
    return max(LEAST_ROWS, min(BLOCK_ROWS, BLOCK_VALUES // max(1, p)))


# Values that a stack of runs holds of one block, and products of regressors there: fewer keep
# threads waiting, more leave the processor's cache (bank, diamonds, camera of the benchmark).
STACK_VALUES, PAIR_VALUES = 131_072, 200_000


@dataclass(frozen=True)
class BlockSource:
    """One block, rows or condensed, as a source of its own.

    A stack of runs sees it in parts, the smaller the more runs there are.
    """

    block: Block | GramBlock

    def blocks(self) -> Iterator[Block | GramBlock]:
        """Yield the one block."""
        yield self.block

    def with_columns(self, **columns: Any) -> BlockSource:
        """The same rows with columns put in, or left out (None)."""
        return BlockSource(replace(self.block, **columns))

    def sweep(self, task: Task[T], params: Any = None) -> T:
        """Run a task on the block."""
        stack = getattr(params, "coef", None)
        runs = 1 if stack is None else int(np.prod(stack.shape[:-1]))
        rows = max(LEAST_ROWS, STACK_VALUES // runs)
        if isinstance(self.block, Block):
            pairs, p = self.block.pairs, self.block.x.shape[1]
            most = block_rows(p) if pairs is None else PAIR_VALUES // pairs.shape[1]
            rows = min(rows, max(LEAST_ROWS, most))
        if self.block.rows < 2 * rows or isinstance(self.block, SharedBlock):
            return task(self.block, params)
        return sweep(self._parts(rows), task, params)

    def _parts(self, rows: int) -> Iterator[Block | GramBlock]:
        """Parts of about so many rows, whole groups only."""
        units = self.block.units
        each = max(1, rows * units // self.block.rows)
        for first in range(0, units, each):
            yield self.block.cut(first, min(first + each, units))


def of_block(block: Block | GramBlock) -> BlockSource:
    """Serve one block as a source of its own."""
    return BlockSource(block)


# Products of regressors, kept, let a whole stack of runs share one matrix
# product; beyond this many bytes they are made anew on every pass. On 54,000 rows of
# 9 columns, 19 MB of them, eight runs of the search take half the time.
KEPT_BYTES = 64_000_000


def condensed(source: MemorySource, linear: bool = True) -> BlockSource:
    """Serve a source as one block, with products of regressors kept if they fit.

    In a linear Gaussian fit, groups are condensed to their cross products,
    which is all it needs of them. Several responses stay as they are.
    """
    p, block = source.x.shape[1], source.as_block()
    if linear and source.owners is not None:
        return BlockSource(block)
    if source.repeats is not None and not linear:
        return BlockSource(share_rows(block, source.repeats))
    gram = linear and source.starts is not None
    products = source.units if gram else source.rows
    entries = pair_spans(source.owners or (0,) * p)[-1].stop
    if products * entries * 8 > KEPT_BYTES and not (gram and condensing_pays(source)):
        return BlockSource(block)
    if not gram:
        return BlockSource(replace(block, pairs=own_pairs(block)))
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
