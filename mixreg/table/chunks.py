"""From a chunk of a table to a block of rows, wherever the chunk is.

What patsy learnt of all rows is known by then: a chunk of whole groups becomes the same rows
whatever lies beside it, here or on a worker of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.sources.block import Block
from mixreg.table.columns import UNFIT, plain
from mixreg.table.concomitant import check_concomitants
from mixreg.table.design import Design, successes, yes_no_columns
from mixreg.table.functions import evaluating
from mixreg.table.making import KeptRows, make, without_missing
from mixreg.table.responses import Asked, Given, side_by_side
from mixreg.table.rows import RowColumns, chosen_rows, declare, whole_sets
from mixreg.table.table import Table, finish_part, missing_counts, refuse_missing

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class MadeChunk:
    """A chunk of a table as rows.

    Attributes
    ----------
    block : Block or None
        Rows as they were given, in the order of the fit; None if none is left.
    trials : tuple of bool
        Which responses are shares of trials.
    numbers : (rows,) array
        Labels of the rows, in that order.
    groups : pandas Index or None
        Names of the groups.
    given : int
        Rows of the chunk.
    places : (rows,) array or None
        Which of the chunk's rows these are, from 0, in the order of the fit.
    """

    block: Block | None
    trials: tuple[bool, ...]
    numbers: NDArray[Any]
    groups: pd.Index | None
    given: int
    places: NDArray[np.intp] | None = None


@dataclass(frozen=True, eq=False)
class ChunkMaker:
    """Makes rows of chunks.

    Attributes
    ----------
    asked : tuple of Asked
        The responses, with what was learnt.
    columns : tuple of RowColumns
        Names of the columns that each response has beside its formula.
    gate : Design or None
        Concomitant variables.
    k : int
    noise : bool
    missing : {"drop", "raise"}
    """

    asked: tuple[Asked, ...]
    columns: tuple[RowColumns, ...]
    gate: Design | None
    k: int
    noise: bool
    missing: str

    @evaluating(told=False)
    def __call__(self, frame: pd.DataFrame) -> MadeChunk:
        """Make the rows of a chunk of whole groups."""
        columns = [named_columns(each, frame) for each in self.columns]
        usable = self._usable(columns, len(frame))
        z, usable = self._concomitants(frame, usable)
        pairs = list(zip(self.asked, columns, strict=True))
        tables = [self._table(asked, own, frame, usable) for asked, own in pairs]
        everywhere = np.logical_and.reduce([table.kept for table in tables])
        nothing = MadeChunk(None, (), np.empty(0, dtype=np.int64), None, len(frame))
        if not everywhere.any():
            return nothing
        given = []
        for (asked, own), table in zip(pairs, tables, strict=True):
            table = whole_sets(chosen_rows(table, everywhere), own, asked.family)
            given.append(Given(asked.design, asked.family, asked.names, table, own))
        kept = given[0].table.kept
        return self._made(given, None if z is None else z[kept]) if kept.any() else nothing

    def _made(self, given: list[Given], z: Array | None) -> MadeChunk:
        parts = [declare(g.table, g.columns, g.family, z, self.k, self.noise) for g in given]
        units, table = parts[0].units, given[0].table
        return MadeChunk(
            side_by_side([part.block for part in parts]),
            tuple(part.block.trials is not None for part in parts),
            units.sort(np.asarray(table.index)),
            units.labels,
            len(table.kept),
            units.sort(np.flatnonzero(table.kept)),
        )

    def _usable(self, columns: list[RowColumns], rows: int) -> Mask:
        """Rows at which no column beside the formulas is missing."""
        if self.missing == "raise":
            for one in columns:
                one.refuse_missing()
        masks = [mask for mask in (one.usable() for one in columns) if mask is not None]
        return np.logical_and.reduce(masks) if masks else np.ones(rows, dtype=bool)

    def _concomitants(self, frame: pd.DataFrame, usable: Mask) -> tuple[Array | None, Mask]:
        """Concomitants of all rows of a chunk, and the rows that have them too."""
        if self.gate is None:
            return None, usable
        z = self.gate.regressors(frame)[0]
        there = ~np.isnan(z).any(axis=1)
        if self.missing == "raise" and not there.all():
            own = frame[[name for name in frame.columns if name in self.gate.right_columns]]
            gone = int((~there).sum())
            refuse_missing(missing_counts(own), gone)
            refuse_missing({str(self.gate.formula): gone}, gone)
        usable = usable & there
        check_concomitants(z[usable], self.gate.terms, frame.index[usable])
        return z, usable

    def _table(self, asked: Asked, columns: RowColumns, frame: pd.DataFrame, usable: Mask) -> Table:
        """Columns of one response, at the rows at which nothing is missing."""
        design = asked.design
        assert design.left is not None
        assert design.right is not None
        names = design.left_columns | design.right_columns
        own = plain(frame[[name for name in frame.columns if name in names]], design.codes)
        kept = without_missing(own)
        if self.missing == "raise":
            refuse_missing(missing_counts(own), int((~kept).sum()))
        kept = kept & usable
        if not kept.any():
            empty = np.empty((0, len(design.terms)))
            return Table(empty, np.empty(0), frame.index[:0], kept)
        rows = KeptRows(own, kept, yes_no_columns(own, set(design.left_columns)))
        try:
            left, x = make(design.left.info, design.right.info, rows)
        except (patsy.PatsyError, *UNFIT) as error:
            raise InputError(_level_error(error, rows)) from error
        y, trials = successes(left, rows.index)
        table = Table(x, y, rows.index, kept, trials)
        return finish_part(table, design.terms, design.response, self.missing)


def _level_error(error: Exception, rows: KeptRows) -> str:
    first, last = rows.index[0], rows.index[-1]
    text = str(error).split("\n")[0]
    return f"rows {first} to {last} of the data do not fit the formula ({text})"


def named_columns(given: RowColumns, frame: pd.DataFrame) -> RowColumns:
    """Columns of a chunk by their names; known labels may map groups to labels."""
    known = given.known_labels
    if not isinstance(known, dict):
        return given.resolve(frame, None)
    columns = replace(given, known_labels=None).resolve(frame, None)
    labels = pd.Series(np.asarray(columns.groups)).map(known)
    return replace(columns, known_labels=labels.to_numpy())


def whole_groups(frames: Iterator[pd.DataFrame], key: str | None) -> Iterator[pd.DataFrame]:
    """Chunks whose groups are whole: the last one is held back until it is."""
    if key is None:
        yield from frames
        return
    held: list[pd.DataFrame] = []
    for frame in frames:
        start = last_group(frame[key])
        if start is None:
            # No row has a group: they are left out, and counted.
            yield frame
        elif start == 0 and (not held or _goes_on(held[-1][key], frame[key])):
            held.append(frame)
        else:
            yield pd.concat([*held, frame.iloc[:start]])
            held = [frame.iloc[start:]]
    if held:
        yield pd.concat(held)


def last_group(keys: pd.Series) -> int | None:
    """The row at which the last group begins; None if no row has a group."""
    there = np.flatnonzero(keys.notna().to_numpy())
    if not there.size:
        return None
    values = keys.array[there]
    other = np.flatnonzero(np.asarray(values != values[-1], dtype=bool))
    return int(there[other[-1] + 1]) if other.size else 0


def _goes_on(before: pd.Series, after: pd.Series) -> bool:
    """Whether the group that a chunk ends with is the one that the next begins with."""
    return bool(before.dropna().iloc[-1] == after.dropna().iloc[0])
