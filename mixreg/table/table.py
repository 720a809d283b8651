"""The rows of a model: what is missing, infinite or empty in them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.table.columns import without_nan
from mixreg.table.recipe import Recipe
from mixreg.table.units import plain_value

Array = NDArray[np.float64]

# Columns with larger values cannot be squared.
HUGE = 1e100


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a model, in the user's order.

    Attributes
    ----------
    x : (n, p) array
    y : (n,) array
    index : pandas Index
        Labels of the rows that were kept.
    kept : (rows given,) bool array
        Which of the rows given were kept.
    trials : (n,) array or None
        Where the response was given as successes and failures: their sum.
    """

    x: Array
    y: Array
    index: pd.Index
    kept: NDArray[np.bool_]
    trials: Array | None = None


def finish(
    table: Table, terms: tuple[str, ...], response: str, right: Recipe | None, missing: str
) -> Table:
    """Drop rows that became NaN under transforms; refuse infinite ones and empty levels."""
    table = _without_nan(table, terms, response, missing)
    if len(table.y) == 0:
        raise InputError("data has no rows left; every row has a missing value")
    largest = check_finite(table, terms, response)
    if right is not None:
        _refuse_unused_levels({terms[i] for i in np.flatnonzero(largest == 0)}, right)
    return replace(table, x=np.ascontiguousarray(table.x), y=np.ascontiguousarray(table.y))


def finish_part(table: Table, terms: tuple[str, ...], response: str, missing: str) -> Table:
    """The same of a part of the rows, which may be empty and lack levels."""
    table = _without_nan(table, terms, response, missing)
    if len(table.y):
        check_finite(table, terms, response)
    return table


def check_finite(table: Table, terms: tuple[str, ...], response: str) -> Array:
    """Refuse infinite values; the largest of each column, (p,)."""
    x, y, index = table.x, table.y, table.index
    if x.shape[1] == 0:
        raise InputError("the design has no columns; put at least '1' right of '~'")
    if not np.isfinite(y).all():
        where = infinite_rows(np.isfinite(y), index)
        raise InputError(f"the response {response} is infinite in {where}; drop or correct them")
    largest = np.maximum(x.max(axis=0), -x.min(axis=0))  # no copy of the columns
    huge = np.flatnonzero((largest > HUGE) & np.isfinite(largest))
    if huge.size:
        raise InputError(
            f"column {terms[huge[0]]} has values beyond {HUGE:g}, too extreme to square; rescale it"
        )
    bad = np.flatnonzero(~np.isfinite(largest))
    if bad.size:
        column = int(bad[0])
        where = infinite_rows(np.isfinite(x[:, column]), index)
        raise InputError(
            f"column {terms[column]} is infinite in {where} (log of zero?); drop or correct them"
        )
    return np.asarray(largest)


def infinite_rows(finite: NDArray[np.bool_], index: pd.Index) -> str:
    """Which rows are infinite, and how many, for a message."""
    bad = np.flatnonzero(~finite)
    row = f"row {plain_value(index[bad[0]])!r}"
    return row if len(bad) == 1 else f"{row} and {len(bad) - 1:,} more of {len(index):,}"


def _without_nan(table: Table, terms: tuple[str, ...], response: str, missing: str) -> Table:
    x, y, trials = table.x, table.y, table.trials
    good = without_nan(x) & ~np.isnan(y)
    if good.all():
        return table
    if missing == "raise":
        refuse_missing(nan_counts(x, y, terms, response), int((~good).sum()))
    kept = table.kept.copy()
    kept[np.flatnonzero(kept)[~good]] = False
    return Table(
        x[good], y[good], table.index[good], kept, None if trials is None else trials[good]
    )


def _refuse_unused_levels(zero: set[str], right: Recipe) -> None:
    """Name the categorical column whose levels no row has, and how to drop them."""
    for term, columns in right.info.term_name_slices.items():
        empty = [name for name in right.info.column_names[columns] if name in zero]
        factor = next((f for f in right.factors if f.code == term), None)
        if empty and factor is not None and factor.kind == "categorical":
            raise InputError(
                f"columns of the design are zero: {', '.join(empty)}; no row that is used has "
                f"these levels of {term}. Choose the rows first, then drop the levels with "
                ".cat.remove_unused_categories()"
            )


def missing_counts(frame: pd.DataFrame) -> dict[str, int]:
    """Missing values of each column."""
    return {str(name): int(frame[name].isna().sum()) for name in frame.columns}


def nan_counts(x: Array, y: Array, terms: tuple[str, ...], response: str) -> dict[str, int]:
    """Missing values of each regressor, and of the response."""
    counts = zip(terms, np.isnan(x).sum(axis=0).tolist(), strict=True)
    return {response: int(np.isnan(y).sum()), **dict(counts)}


def refuse_missing(counts: dict[str, int], rows: int) -> None:
    """With missing="raise": name the columns that have missing values, and how many."""
    there = [f"{name} ({count})" for name, count in counts.items() if count]
    if there:
        raise InputError(
            f"{rows} rows have missing values in {', '.join(there)}; fill them, or use "
            "missing='drop'"
        )
