"""Rows that lie in memory as one block, which a stack of runs sees in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from mixreg.sources.base import Task, sweep
from mixreg.sources.block import Block, Columns, GramBlock, SharedBlock, own_pairs
from mixreg.sources.made import as_array

T = TypeVar("T")

# Rows of a block: one thread is fastest with 2,000 rows of 20 columns, which stay in the
# processor's cache with a copy of them, but loses little with more; two threads wait for each
# other unless there are more (a pass over 100,000 x 20: 24 ms, and 16 to 18 ms with 8,000 rows).
BLOCK_VALUES, BLOCK_ROWS, LEAST_ROWS = 160_000, 8_192, 256


def block_rows(p: int) -> int:
    """Rows of a block with p columns."""
    return max(LEAST_ROWS, min(BLOCK_ROWS, BLOCK_VALUES // max(1, p)))


def parts(block: Columns, rows: int) -> Iterator[tuple[int, int]]:
    """First and last unit of parts of so many rows at most, but for groups that have more."""
    if block.starts is None:
        for first in range(0, block.rows, rows):
            yield first, min(first + rows, block.rows)
        return
    ends, unit = np.append(block.starts[1:], block.rows), 0
    while unit < block.units:
        fits = int(np.searchsorted(ends, block.starts[unit] + rows, side="right"))
        last = max(unit + 1, fits)
        yield unit, last
        unit = last


@dataclass(frozen=True, slots=True)
class OfPlace:
    """Task: another one, of the block that is made of a place in the data."""

    task: Task[Any]
    make: Callable[[Any], Any]

    def __call__(self, place: Any, params: Any) -> Any:
        """Process the block of one place."""
        return self.task(self.make(place), params)


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
    return replace(some, pairs=own_pairs(some))


def of_block(block: Block | GramBlock) -> BlockSource:
    """Serve one block as a source of its own."""
    return BlockSource(block)
