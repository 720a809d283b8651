"""What formulas can learn of a partition where it is: a few rows stand for all of them.

Patsy learns the levels of categories, and how many columns a factor gives. A row for each level
of each factor says as much as all rows, so only these leave the worker. Transforms that learn from
all values (center, bs) have their columns brought whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy.categorical import guess_categorical
from patsy.eval import EvalEnvironment, EvalFactor

from mixreg.table.checks import subset_mask
from mixreg.table.chunks import named_columns
from mixreg.table.cluster_names import PLACE
from mixreg.table.columns import names_in, plain
from mixreg.table.design import yes_no_columns
from mixreg.table.frames import read
from mixreg.table.functions import evaluating
from mixreg.table.making import KeptRows, without_missing
from mixreg.table.recipe import evaluation, opened, outside_of
from mixreg.table.rows import RowColumns

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Chosen:
    """Takes the rows and columns of a partition that a model is made of.

    Attributes
    ----------
    names : tuple of str
        Columns.
    subset : str or None
        A query.
    levels : dict
        Categories of columns whose partitions have different ones.
    """

    names: tuple[str, ...]
    subset: str | None
    levels: dict[str, Any]

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Those of one partition, in the order in which they were given."""
        if PLACE in frame.columns:
            frame = frame.sort_values(PLACE, kind="stable")
        frame = read(frame, [*self.names, PLACE])
        if self.subset is not None:
            frame = frame[subset_mask(frame, self.subset)]
        return frame.astype(self.levels) if self.levels else frame


@dataclass(frozen=True, eq=False)
class Sketch:
    """A formula before it has seen data.

    Attributes
    ----------
    codes : tuple of str
        Factors that look at rows one by one.
    names, left : frozenset of str
        Columns that it names, and those of them left of '~'.
    whole : frozenset of str
        Columns of transforms that learn from all values, and those that factors put
        beside them.
    outside : dict
        What factors name beside columns.
    there : tuple of str
        All columns of the table, for messages.
    all_codes : tuple of str
        All factors.
    """

    codes: tuple[str, ...]
    names: frozenset[str]
    left: frozenset[str]
    whole: frozenset[str]
    outside: dict[str, Any]
    there: tuple[str, ...]
    all_codes: tuple[str, ...]

    def rows(self, frame: pd.DataFrame, usable: NDArray[np.bool_]) -> pd.DataFrame:
        """The columns that it names, of rows at which nothing is missing."""
        own = plain(frame[[name for name in frame.columns if name in self.names]], self.all_codes)
        kept = without_missing(own) & usable
        rows = KeptRows(own, kept, yes_no_columns(own, set(self.left)))
        return rows.columns(own.columns)

    @evaluating(told=False)
    def telling(self, rows: pd.DataFrame, first: int) -> Places:
        """Rows that say as much as all: the first ones, and one for each level."""
        found = [np.arange(min(first, len(rows)))]
        where = EvalEnvironment([{name: opened(value) for name, value in self.outside.items()}])
        for code in self.codes if len(rows) else ():
            factor, state = EvalFactor(code), {}  # type: ignore[var-annotated]
            factor.memorize_passes_needed(state, where)
            with evaluation(self.there):
                found.append(one_of_each(factor.eval(state, rows)))
        return np.unique(np.concatenate(found))


def one_of_each(values: Any) -> Places:
    """The first row of each level of a category; none of what is no category."""
    if not guess_categorical(values):
        return np.empty(0, dtype=np.intp)
    data = values.data if hasattr(values, "contrast") else values
    codes = pd.factorize(np.asarray(data, dtype=object).ravel())[0]
    return np.asarray(np.unique(codes, return_index=True)[1], dtype=np.intp)


def sketch(
    sides: tuple[Sequence[Any], Sequence[Any]], columns: tuple[str, ...], where: EvalEnvironment
) -> Sketch:
    """A formula, given the terms of its left and right side."""
    left, right = ([factor for term in side for factor in term.factors] for side in sides)
    mentioned = {factor: names_in(factor.code) & set(columns) for factor in (*left, *right)}
    whole: set[str] = set()
    outside: dict[str, Any] = {}
    codes = []
    for factor, names in mentioned.items():
        state: dict[str, Any] = {}
        if factor.memorize_passes_needed(state, where):
            whole |= names
        else:
            codes.append(factor.code)
        outside |= outside_of(factor.code, state["eval_env"].namespace, frozenset(columns))
    return Sketch(
        tuple(codes),
        frozenset().union(*mentioned.values()),
        frozenset().union(*(mentioned[factor] for factor in left)),
        frozenset(beside(whole, list(mentioned.values()))),
        outside,
        columns,
        tuple(factor.code for factor in mentioned),
    )


def beside(whole: set[str], together: list[set[str]]) -> set[str]:
    """Some columns, and all that a factor needs together with one of them."""
    more = whole.union(*(names for names in together if names & whole))
    return more if more == whole else beside(more, together)


@dataclass(frozen=True, eq=False)
class Scout:
    """Looks at a partition for all formulas.

    Attributes
    ----------
    sketches : tuple of Sketch
    columns : tuple of RowColumns
        Names of columns beside the formulas.
    """

    sketches: tuple[Sketch, ...]
    columns: tuple[RowColumns, ...]

    def __call__(self, frame: pd.DataFrame, first: int) -> list[pd.DataFrame]:
        """For each formula, rows that say as much as all; the first ones are among them."""
        found = []
        for each in self.sketches:
            rows = each.rows(frame, self.usable(frame))
            found.append(rows.iloc[each.telling(rows, first)])
        return found

    def usable(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Rows at which no column beside the formulas is missing."""
        found = [named_columns(each, frame).usable() for each in self.columns]
        masks = [mask for mask in found if mask is not None]
        return np.logical_and.reduce([np.ones(len(frame), dtype=bool), *masks])

    def whole(self, frame: pd.DataFrame, number: int) -> pd.DataFrame:
        """All rows of the columns that a formula needs whole."""
        each = self.sketches[number]
        rows = each.rows(frame, self.usable(frame))
        return rows[[name for name in rows.columns if name in each.whole]]


def filled_up(some: pd.DataFrame, whole: pd.DataFrame) -> pd.DataFrame:
    """Whole columns, and beside them a few rows of the others, again and again.

    Factors learn one by one, so what lies beside what does not matter.
    """
    if whole.empty:
        return some
    again = some.iloc[np.resize(np.arange(len(some)), len(whole))]
    columns = {name: again[name].array for name in some.columns if name not in whole.columns}
    return whole.assign(**columns)[list(some.columns)]


@dataclass(frozen=True, eq=False)
class KeysSeen:
    """Hashes of the groups of some partitions, in order of size; none if a group is in several."""

    hashes: NDArray[np.uint64]
    apart: bool = False

    def __add__(self, other: KeysSeen) -> KeysSeen:
        """Those of other partitions too."""
        both = np.sort(np.concatenate([self.hashes, other.hashes]))
        if self.apart or other.apart or (both[1:] == both[:-1]).any():
            return KeysSeen(both[:0], True)
        return KeysSeen(both)
