"""Rows held in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mixreg.sources.base import Parts, Task, condensing_pays, pieces, sweep
from mixreg.sources.block import (
    Block,
    Columns,
    GramBlock,
    condense,
    own_pairs,
    pair_spans,
)
from mixreg.sources.drawn import Redrawn, draw, rows_of, shuffled, take
from mixreg.sources.fingerprint import fingerprint
from mixreg.sources.made import PIECE_ROWS, MadeRows, as_array, picked, room_beside, times
from mixreg.sources.one_block import BlockSource, OfPlace, block_rows, parts
from mixreg.sources.repeats import alike, distinct_rows, pass_cost, share_rows
from mixreg.sources.standard import Whitening
from mixreg.sources.threads import one_thread

Array = NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True)
class MemorySource(Columns):
    """Rows in arrays, served in blocks that are views of them.

    Nothing here writes to these arrays, which may be the user's own. Of large data, the
    regressors of samples and those in standard coordinates are made block by block.

    Attributes
    ----------
    origin : int
        Bytes of the regressors that these rows are a sample of; 0 if they are no sample.
    """

    origin: int = 0

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
    def cuts(self) -> list[tuple[int, int]]:
        """First and last unit of each block."""
        per_block = block_rows(self.columns)
        if isinstance(self.x, MadeRows):
            # There are many blocks to share out, and each is one more array.
            per_block = max(1, per_block // 2)
        return list(parts(self, per_block))

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks in order."""
        return map(self.block_at, self.cuts)

    def block_at(self, cut: tuple[int, int]) -> Block:
        """The block of a cut."""
        return self.cut(*cut)

    def without(self, *columns: str) -> MemorySource:
        """The same rows with columns left out."""
        return self.with_columns(**dict.fromkeys(columns))

    def sweep(self, task: Task[T], params: Any = None) -> T:
        """Run a task on every block and add up what it returns."""
        with one_thread():
            return sweep(self.cuts, OfPlace(task, self.block_at), params)

    def pieces(self, task: Task[Parts], params: Any = None) -> Iterator[Array]:
        """What a task says of each unit, block by block, in order, as it is asked for."""
        return pieces(self.blocks(), task, params)

    def lazily(self, task: Task[Parts], params: Any = None) -> None:
        """Rows in memory are not Dask's."""

    def as_block(self) -> Block:
        """All rows as one block."""
        return replace(self.as_held(), x=as_array(self.x))

    def as_held(self) -> Block:
        """All rows as one block, whose regressors may yet be to be made."""
        return Block(**columns_of(self))

    def take_units(self, units: NDArray[np.intp]) -> MemorySource:
        """Some units, whole groups, as a source of their own."""
        rows = units if self.starts is None else rows_of(self.starts, self.rows, units)[0]
        # The regressors of large data are not copied, but made when they are asked for.
        x: Any = picked(self.x, rows)
        some = replace(take(replace(self.as_held(), x=self.y), units), x=x)
        return MemorySource(**columns_of(some), origin=self.origin or self.x.nbytes)

    def counting(self) -> MemorySource:
        """The units with a positive weight: the same source if these are all."""
        if self.weight is None or self.weight.all():
            return self
        numbered = replace(self, numbers=self.unit_numbers)
        return numbered.take_units(np.flatnonzero(self.weight))

    def split(self, parts: int, seed: int) -> list[MemorySource]:
        """Cut the units into disjoint parts of equal size, by a hash of unit and seed."""
        each = np.array_split(shuffled(self.units, seed), parts)
        return [self.take_units(np.sort(part)) for part in each]

    def sample(self, rows: int, seed: int) -> MemorySource:
        """Whole units, about so many rows in all: those with the lowest hashes."""
        if self.rows <= rows:
            return self
        units = max(1, int(self.units * rows / self.rows))
        gaps, known = self.numbers is not None, self.known is not None
        return self.take_units(draw(self, self.units, units, seed, known, gaps).of(self))

    def standard(self, whitening: Whitening) -> MemorySource:
        """The rows in standard coordinates; many of them are made block by block."""
        x: Any = self._of_each(whitening) if self.owners else times(self.x, whitening.basis)
        y, offset = whitening.standard_rows(self.y, self.offset)
        z = self.z if self.z is None or whitening.gate is None else self.z @ whitening.gate
        hidden = whitening.hidden(self.y)
        owners = whitening.standard_owners
        return replace(self, x=x, y=y, z=z, offset=offset, owners=owners, rounding=hidden)

    def _of_each(self, whitening: Whitening) -> Array:
        """Standard regressors of several responses, each made of its own."""
        given = as_array(self.x)
        out = np.empty(given.shape)
        for row in range(0, self.rows, PIECE_ROWS):
            part = slice(row, row + PIECE_ROWS)
            whitening.standard_columns(given[part], out[part])
        return out

    def mapped(self, change: Callable[[Block], Block]) -> MemorySource:
        """The same units with other rows."""
        return replace(in_memory(change(self.as_held())), origin=self.origin)

    def shortest(self) -> MemorySource | BlockSource:
        """The rows as linear regressions can do with."""
        return self.condensed() if condensing_pays(self) else self

    def fingerprint(self) -> dict[str, str]:
        """A digest of every column, by its name."""
        return fingerprint(self)

    def redrawn(self, seed: int) -> MemorySource:
        """The units drawn anew, with replacement, as weights."""
        return self.with_columns(weight=Redrawn(seed)(self.as_held()).weight)

    @property
    def fits_at_hand(self) -> bool:
        """Rows are in memory."""
        return True

    def at_hand(self, what: str) -> MemorySource:
        """The rows in memory, where they are."""
        return self

    def condensed(self, linear: bool = True) -> BlockSource:
        """The rows as one block, in its shortest form."""
        return condensed(self, linear)

    def distinct(self) -> MemorySource:
        """Rows that are alike taken together, if many are."""
        return distinct(self)

    def with_repeats(self) -> MemorySource:
        """Groups that know which of their rows repeat, if many do."""
        return with_repeats(self)


def distinct(source: MemorySource) -> MemorySource:
    """Rows that are alike in all that a fit sees, taken together with their weights added."""
    if source.starts is not None or source.owners is not None or source.given is not None:
        return source
    beside = [source.offset, source.trials, source.known, source.rounding]
    columns = [*as_array(source.x).T, source.y, *(each for each in beside if each is not None)]
    columns += [] if source.z is None else list(source.z.T)
    found = alike([np.asarray(column, dtype=float) for column in columns])
    if found is None:
        return source
    first, number = found
    weight = np.bincount(number, source.weight).astype(float)
    return replace(source.take_units(first), weight=weight, cov_group=None, numbers=None)


def in_memory(block: Block) -> MemorySource:
    """Serve the arrays of one large block in small ones."""
    return MemorySource(**columns_of(block))


def columns_of(block: Columns) -> dict[str, Any]:
    """All columns of a block, by name."""
    return {field.name: getattr(block, field.name) for field in fields(Columns)}


def with_repeats(source: MemorySource) -> MemorySource:
    """Groups that know which of their rows repeat, if many do."""
    if source.starts is None or source.owners is not None or source.repeats is not None:
        return source
    extra = [values for values in (source.offset, source.trials) if values is not None]
    columns = [*as_array(source.x).T, source.y, *extra]
    return replace(source, repeats=distinct_rows(columns, source.opens))


# Products of regressors, kept, let a whole stack of runs share one matrix product. They and
# the rows of the fit share so many bytes: on 54,000 rows of 9 columns, 19 MB of them, eight runs
# of the search take half the time.
KEPT_BYTES = 70_000_000
# Regressors from which on linear fits go without: EM's steps are then made of products of rows
# with coefficients (`python -m benchmarks imbalanced`).
LEAN_PRODUCTS = 60
# Values of these that may lie in memory once more.
MOST_VALUES = 30_000_000


def room_for_pairs(source: MemorySource) -> float:
    """Bytes that products of regressors may take."""
    return room_beside(source.origin or source.x.nbytes, KEPT_BYTES)


def condensed(source: MemorySource, linear: bool = True) -> BlockSource:
    """Serve a source as one block, with products of regressors kept if they fit.

    In a linear Gaussian fit, groups are condensed to their cross products,
    which is all it needs of them. Several responses stay as they are.
    """
    if linear and source.owners is not None:
        return BlockSource(source.as_block())
    p = source.columns
    if source.repeats is not None and not linear:
        return BlockSource(share_rows(source.as_block(), source.repeats))
    gram = linear and source.starts is not None
    products = source.units if gram else source.rows
    entries = pair_spans(source.owners or (0,) * p)[-1].stop
    large = products * entries * 8 > room_for_pairs(source)
    large |= linear and not gram and p >= LEAN_PRODUCTS
    if large and not (gram and condensing_pays(source)):
        return BlockSource(source.as_held())
    if not gram:
        block = source.as_block()
        return BlockSource(replace(block, pairs=own_pairs(block)))
    parts = [condense(block) for block in source.blocks()]
    hidden = None
    if source.rounding is not None:
        hidden = np.concatenate([part.rounding for part in parts if part.rounding is not None])
    return BlockSource(
        GramBlock(
            np.concatenate([part.gram for part in parts]),
            np.concatenate([part.size for part in parts]),
            source.weight,
            p,
            z=source.z,
            known=source.known,
            rounding=hidden,
        )
    )


def wide_block(source: Any) -> Block | None:
    """All rows of many regressors in arrays, if they are in memory; None if not, or if few."""
    if not isinstance(source, MemorySource | BlockSource):
        return None
    held = source.held if isinstance(source, BlockSource) else source
    if isinstance(held, GramBlock) or held.owners is not None:
        return None
    rows, p = held.x.shape
    if p < LEAN_PRODUCTS or rows * p > MOST_VALUES:
        return None
    block = source.block if isinstance(source, BlockSource) else source.as_block()
    return replace(block, pairs=None) if isinstance(block, Block) else None
