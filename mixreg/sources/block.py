"""Frozen bundles of arrays for some rows: what a task is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.float64]

# Arrays with one entry a row, and with one entry a unit.
ROW_FIELDS = ("x", "y", "offset", "trials", "opens", "seen", "repeats", "rounding")
UNIT_FIELDS = ("weight", "z", "known", "given", "cov_group", "numbers")
# What a row that a unit shares with others costs, over what it costs to evaluate it: it is added
# up twice, for the density and for the sums (bank, camera and detailing of the benchmark).
ADDING_UP = 0.04


@dataclass(frozen=True, slots=True)
class Columns:
    """Arrays that run along some rows: whole groups only.

    A unit is what gets one label: a row, or a group of rows. Several responses (m of
    them) lie side by side: each has some columns of x, and a column of y.

    Attributes
    ----------
    x : (rows, p) array
        Regressors, of all responses.
    y : (rows,) array
        Response; of several, (rows, m), and offset and trials likewise.
    weight : (units,) array or None
        Case weight of each unit; None means 1.
    starts : (units,) int array or None
        First row of each group within the block; None when rows are units.
    first : int
        Number of the first unit of this block in its source.
    pairs : (rows, p (p + 1) / 2) array or None
        Products of the regressors, kept where many runs share them; of several
        responses, those of each with its own, one response after the other.
    offset : (rows,) array or None
        Known part of the linear predictor.
    trials : (rows,) array or None
        Trials behind a proportion.
    opens : (rows,) bool array or None
        Rows at which a choice set begins.
    seen : (rows, m) bool array or None
        Which of several responses each row has; None when it has all of them.
    owners : tuple of int or None
        Which response each regressor belongs to; None when there is one.
    z : (units, q) array or None
        Concomitant variables; None when class probabilities are constant.
    known : (units,) int array or None
        Component of units whose label is known, -1 for the others.
    repeats : (rows,) int array or None
        Number of the distinct row that each row equals, where many do.
    given : (units, ...) array or None
        What a task is told of each unit: responsibilities (units, k, [runs]), or
        points of expansion (units, p).
    cov_group : (units,) int array or None
        Cluster of each unit, numbered from 0.
    numbers : (units,) int array or None
        Number of each unit in its source, where some were left out; None if they follow
        each other from `first` on.
    rounding : (rows,) array or None
        Variance of what rounding hides of each response; of several, (rows, m).
    """

    x: Array
    y: Array
    weight: Array | None = None
    starts: NDArray[np.intp] | None = None
    first: int = 0
    pairs: Array | None = None
    offset: Array | None = None
    trials: Array | None = None
    opens: NDArray[np.bool_] | None = None
    seen: NDArray[np.bool_] | None = None
    owners: tuple[int, ...] | None = None
    z: Array | None = None
    known: NDArray[np.intp] | None = None
    repeats: NDArray[np.intp] | None = None
    given: Array | None = None
    cov_group: NDArray[np.intp] | None = None
    numbers: NDArray[np.intp] | None = None
    rounding: Array | None = None

    @property
    def unit_numbers(self) -> NDArray[np.intp]:
        """Number of each unit in its source."""
        return self.first + np.arange(self.units) if self.numbers is None else self.numbers

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.y.shape[0]

    @property
    def cost(self) -> int:
        """What a pass over the block costs, in rows."""
        return self.rows

    @property
    def units(self) -> int:
        """Number of rows or groups that get a label."""
        return self.rows if self.starts is None else self.starts.shape[0]

    @property
    def size(self) -> Array | float:
        """Rows in each unit."""
        if self.starts is None:
            return 1.0
        return np.diff(self.starts, append=self.rows).astype(float)

    @property
    def sets(self) -> NDArray[np.intp]:
        """First row of each choice set."""
        assert self.opens is not None
        return np.flatnonzero(self.opens)

    def cut(self, first: int, last: int) -> Block:
        """Units from `first` up to `last`, as views."""
        rows = units = slice(first, last)
        if self.starts is not None:
            end = self.rows if last == len(self.starts) else int(self.starts[last])
            rows = slice(int(self.starts[first]), end)
        parts = {name: _sliced(getattr(self, name), rows) for name in (*ROW_FIELDS, "pairs")}
        parts |= {name: _sliced(getattr(self, name), units) for name in UNIT_FIELDS}
        starts = None if self.starts is None else self.starts[units] - rows.start
        return Block(starts=starts, first=self.first + first, owners=self.owners, **parts)


@dataclass(frozen=True, slots=True)
class Block(Columns):
    """Some rows, whole groups only: what a task is given."""

    def responses(self) -> list[tuple[Any, Block]]:
        """Each response by itself: where its regressors are, and a block of its own."""
        if self.owners is None:
            return [(slice(None), self)]
        return [(at, self.response(i)) for i, at in enumerate(spans(self.owners))]

    def response(self, number: int) -> Block:
        """One response with its own regressors; of what units have, their weights."""
        if self.owners is None:
            return self
        at, pairs = spans(self.owners)[number], pair_spans(self.owners)[number]
        alone = Block(
            self.x[:, at],
            self.y[:, number],
            self.weight,
            self.starts,
            self.first,
            _columns(self.pairs, pairs),
            _columns(self.offset, number),
            _columns(self.trials, number),
            rounding=_columns(self.rounding, number),
        )
        return alone if self.seen is None else some_rows(alone, self.seen[:, number])

    def per_unit(self, values: Array) -> Array:
        """Add up (..., rows) values within units, giving (..., units)."""
        if self.starts is None:
            return values
        return np.add.reduceat(values, self.starts, axis=-1)

    def per_unit_of_sets(self, values: Array) -> Array:
        """Add up (..., sets) values within units, giving (..., units)."""
        if self.starts is None:
            return values
        return np.add.reduceat(values, np.searchsorted(self.sets, self.starts), axis=-1)

    def unit_sums(self, values: Array) -> Array:
        """Add up (rows, ...) values within units, giving (units, ...)."""
        if self.starts is None:
            return values
        return np.add.reduceat(values, self.starts, axis=0)

    def per_row(self, values: Array) -> Array:
        """Spread (..., units) values over rows, giving (..., rows)."""
        if self.starts is None:
            return values
        return np.repeat(values, np.diff(self.starts, append=self.rows), axis=-1)

    def row_units(self, values: Array) -> Array:
        """Spread (units, ...) values over rows, giving (rows, ...)."""
        if self.starts is None:
            return values
        return np.repeat(values, np.diff(self.starts, append=self.rows), axis=0)


@dataclass(frozen=True, slots=True)
class SharedBlock(Block):
    """Units that share rows: each distinct row is held once.

    `per_row` adds up what the units that have a row bring to it, so that sums over
    rows are the same as if each unit had rows of its own.

    Attributes
    ----------
    counts : (units, rows) sparse array
        How often each unit has each row.
    turned : (rows, units) sparse array
        The same, rows first.
    """

    counts: csr_array | None = None
    turned: csr_array | None = None

    @property
    def units(self) -> int:
        """Number of groups that get a label."""
        assert self.counts is not None
        return int(self.counts.shape[0])

    @property
    def size(self) -> Array:
        """Rows in each unit."""
        assert self.counts is not None
        return np.asarray(self.counts.sum(axis=1), dtype=float)

    @property
    def cost(self) -> int:
        """What a pass over the block costs, in rows."""
        assert self.counts is not None
        return int(self.rows + ADDING_UP * self.counts.nnz)

    def per_unit(self, values: Array) -> Array:
        """Add up (..., rows) values within units, giving (..., units)."""
        return _through(self.counts, values)

    def per_unit_of_sets(self, values: Array) -> Array:
        """Add up (..., sets) values within units, giving (..., units)."""
        assert self.counts is not None
        return _through(self.counts[:, self.sets], values)

    def per_row(self, values: Array) -> Array:
        """Add up (..., units) values over the units that have a row, giving (..., rows)."""
        return _through(self.turned, values)


def _through(matrix: Any, values: Array) -> Array:
    """Apply a sparse matrix along the last axis."""
    lead, length = values.shape[:-1], values.shape[-1]
    flat = values.reshape(math.prod(lead), length)
    return np.ascontiguousarray((matrix @ flat.T).T).reshape(*lead, matrix.shape[0])


@dataclass(frozen=True, slots=True)
class GramBlock:
    """Groups condensed to the cross products that a Gaussian fit needs.

    Attributes
    ----------
    gram : (units, (p + 1)(p + 2) / 2) array
        Upper triangle of sum v v' over the unit's rows, v = (x, y).
    size : (units,) array
        Rows in each unit.
    weight : (units,) array or None
        Case weight of each unit; None means 1.
    p : int
        Number of regressors.
    first : int
        Number of the first unit of this block in its source.
    z, known, given
        As in `Block`.
    rounding : (units,) array or None
        Variances of what rounding hides, added up over the unit's rows.
    """

    gram: Array
    size: Array
    weight: Array | None
    p: int
    first: int = 0
    z: Array | None = None
    known: NDArray[np.intp] | None = None
    given: Array | None = None
    rounding: Array | None = None

    @property
    def units(self) -> int:
        """Number of rows or groups that get a label."""
        return self.gram.shape[0]

    @property
    def rows(self) -> int:
        """Condensed units are a row each."""
        return self.units

    @property
    def cost(self) -> int:
        """What a pass over the block costs, in rows: condensed units cost a row each."""
        return self.units

    def cut(self, first: int, last: int) -> GramBlock:
        """Units from `first` up to `last`, as views."""
        units = slice(first, last)
        return GramBlock(
            self.gram[units],
            self.size[units],
            _sliced(self.weight, units),
            self.p,
            self.first + first,
            _sliced(self.z, units),
            _sliced(self.known, units),
            _sliced(self.given, units),
            _sliced(self.rounding, units),
        )

    @property
    def triangle(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and column of each stored cross product."""
        return triangle_indices(self.p + 1)


def _sliced(values: Any, where: Any) -> Any:
    return None if values is None else values[where]


def _columns(values: Any, where: Any) -> Any:
    return None if values is None else values[:, where]


@lru_cache(maxsize=32)
def spans(owners: tuple[int, ...]) -> tuple[Any, ...]:
    """Where the regressors of each response are, as slices where they lie together."""
    return tuple(_span(np.flatnonzero(np.equal(owners, i))) for i in range(max(owners) + 1))


def _span(at: NDArray[np.intp]) -> Any:
    first, last = int(at[0]), int(at[-1])
    return slice(first, last + 1) if last - first + 1 == len(at) else at


@lru_cache(maxsize=32)
def pair_spans(owners: tuple[int, ...]) -> tuple[slice, ...]:
    """Where the products of each response's regressors are."""
    sizes = np.bincount(owners)
    ends = np.cumsum(sizes * (sizes + 1) // 2).tolist()
    return tuple(slice(a, b) for a, b in pairwise([0, *ends]))


def some_rows(block: Block, mask: NDArray[np.bool_]) -> SharedBlock:
    """Some rows of a block, and all of its units: some may be left without any."""
    rows = np.flatnonzero(mask)
    units = block.row_units(np.arange(block.units, dtype=float))[rows].astype(np.intp)
    places = (units, np.arange(len(rows)))
    counts = csr_array((np.ones(len(rows)), places), shape=(block.units, len(rows)))
    return SharedBlock(
        block.x[rows],
        block.y[rows],
        block.weight,
        offset=_sliced(block.offset, rows),
        trials=_sliced(block.trials, rows),
        rounding=_sliced(block.rounding, rows),
        counts=counts,
        turned=csr_array(counts.T),
    )


@lru_cache(maxsize=32)
def triangle_indices(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column of each entry of an upper triangle."""
    return np.triu_indices(n)


def column_pairs(v: Array) -> Array:
    """Products of all pairs of columns, in the order of `numpy.triu_indices`."""
    n, p = v.shape
    pairs = np.empty((n, p * (p + 1) // 2))
    first = 0
    for i in range(p):
        np.multiply(v[:, i : i + 1], v[:, i:], out=pairs[:, first : first + p - i])
        first += p - i
    return pairs


def own_pairs(block: Block) -> Array:
    """Products of the regressors of each response, as `Block.pairs` has them."""
    found = [column_pairs(own.x) for _, own in block.responses()]
    return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def condense(block: Block) -> GramBlock:
    """Replace a block's rows by the cross products of its groups."""
    pairs = column_pairs(np.column_stack([block.x, block.y]))
    gram = pairs if block.starts is None else np.add.reduceat(pairs, block.starts, axis=0)
    size = np.broadcast_to(np.asarray(block.size), (block.units,)).astype(float)
    p, known, given = block.x.shape[1], block.known, block.given
    hidden = None if block.rounding is None else block.per_unit(block.rounding)
    return GramBlock(gram, size, block.weight, p, block.first, block.z, known, given, hidden)
