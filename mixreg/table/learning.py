"""What patsy learns of tables that are read chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import patsy
from patsy.eval import EvalEnvironment

from mixreg.errors import InputError
from mixreg.families import Family
from mixreg.table.columns import (
    codes_of,
    formula_names,
    plain,
    refuse_cost,
    refuse_times,
    without_intercept,
)
from mixreg.table.concomitant import check_terms, names_of
from mixreg.table.design import Design, check_response, make_design, yes_no_columns
from mixreg.table.functions import evaluating
from mixreg.table.making import KeptRows, check_levels, without_missing
from mixreg.table.recipe import KEEP_MISSING, Recipe, evaluation, make_recipe

Frames = Callable[[], Iterator[pd.DataFrame]]

# Rows that tell whether a formula looks at rows one by one.
TOLD_BY = 64


@evaluating(told=False)
def learn_design(
    formula: str, family: Family, frames: Frames, columns: tuple[str, ...], where: EvalEnvironment
) -> Design:
    """What a formula's sides are, from all chunks.

    Parameters
    ----------
    formula : str
    family : Family
    frames : callable
        Gives the chunks anew, each time it is called: rows without missing values.
    columns : tuple of str
        Names of the table's columns.
    where : EvalEnvironment
        Where functions are looked up.
    """
    left_names, right_names = formula_names(formula)
    left_names, right_names = left_names & set(columns), right_names & set(columns)
    made = of_names(formula, frames, left_names | right_names, left_names)
    refuse_times(formula, next(made()))
    refuse_cost(formula, next(made()), where)
    with evaluation(columns):
        left, whole = patsy.incr_dbuilders(formula, made, where, KEEP_MISSING)
        check_levels(next(made()), left, whole)
        check_response(formula, left, family.takes_trials)
        right = without_intercept(whole) if family.takes_sets else whole
    design = make_design(formula, left, right, left_names, right_names)
    for recipe in (design.left, design.right):
        assert recipe is not None
        check_by_row(recipe, made)
    return design


@evaluating(told=False)
def learn_gate(
    formula: str, frames: Frames, columns: tuple[str, ...], where: EvalEnvironment
) -> Design:
    """What the concomitants are, from all chunks."""
    names = names_of(formula) & set(columns)
    made = of_names(formula, frames, names, set())
    refuse_times(formula, next(made()))
    refuse_cost(formula, next(made()), where)
    with evaluation(columns):
        info = patsy.incr_dbuilder(formula, made, where, KEEP_MISSING)
    check_levels(next(made()), info)
    terms, used = tuple(info.column_names), frozenset(names)
    check_terms(formula, terms)
    recipe = make_recipe(info, used)
    check_by_row(recipe, made)
    return Design(terms, "", formula, None, recipe, frozenset(), used)


def of_names(formula: str, frames: Frames, names: set[str], yes_no: set[str]) -> Frames:
    """The columns that are named, as patsy knows them."""
    codes = codes_of(formula)

    def made() -> Iterator[pd.DataFrame]:
        for frame in frames():
            own = plain(frame[[name for name in frame.columns if name in names]], codes)
            kept = without_missing(own)
            if kept.any():
                rows = KeptRows(own, kept, yes_no_columns(own, yes_no))
                yield rows.columns(own.columns)

    if next(made(), None) is None:
        raise InputError(
            "data has no rows left; check that the data are not empty, subset=, and missing values"
        )
    return made


def check_by_row(recipe: Recipe, frames: Frames) -> None:
    """Refuse a formula whose columns depend on the rows beside: chunks would differ."""
    first = next(frames()).iloc[:TOLD_BY]
    if not recipe.factors:
        return
    one = recipe.apply(first)
    parts = [part for part in (first.iloc[:1], first.iloc[1:]) if len(part)]
    other = np.concatenate([recipe.apply(part) for part in parts])
    bad = np.flatnonzero(~np.isclose(one, other, rtol=1e-12, atol=0, equal_nan=True).all(axis=0))
    if bad.size:
        raise InputError(
            f"the term {recipe.names[bad[0]]!r} looks at rows beside its own, but these are read "
            "piece by piece; use patsy's center(), standardize() or bs(), which learn from all "
            "rows, or make the column beforehand"
        )


def refuse_arrays(names: set[str], columns: tuple[str, ...], where: EvalEnvironment) -> None:
    """Refuse arrays of the caller's that a formula names: they have no place in chunks."""
    for name in sorted(names - set(columns)):
        value: Any = where.namespace.get(name) if hasattr(where.namespace, "get") else None
        if isinstance(value, (np.ndarray, pd.Series, list)):
            raise InputError(
                f"the formula names {name!r}, an array that is no column of the data; data that "
                "are read piece by piece need it as a column"
            )
