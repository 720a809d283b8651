"""Concomitant variables: the columns that class probabilities depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment

from mixreg.errors import InputError
from mixreg.table import frames
from mixreg.table.columns import (
    as_matrix,
    codes_of,
    column_names,
    names_in,
    parse_error,
    plain,
    refuse_cost,
    refuse_signs,
    refuse_times,
)
from mixreg.table.cost import described, shown
from mixreg.table.design import Design, column_like, of_caller, with_outside
from mixreg.table.functions import evaluating
from mixreg.table.making import KeptRows, check_levels, no_category
from mixreg.table.recipe import KEEP_MISSING, evaluation, make_recipe
from mixreg.table.table import infinite_rows, missing_counts, refuse_missing

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@evaluating(told=False)
def concomitants(
    formula: Any,
    data: pd.DataFrame | None,
    environment: EvalEnvironment | None,
    kept: Mask,
    index: pd.Index,
) -> tuple[Design, Array]:
    """Columns of a one-sided formula (or of an array), at the rows that were kept."""
    if not isinstance(formula, str):
        terms, z = _from_array(formula)
        if len(z) != len(kept):
            raise InputError(f"concomitant has {len(z)} rows; give {len(kept)}, one for each row")
        design, z = Design(terms, ""), z[kept]
    else:
        frame, used = _frame(formula, data, environment)
        columns = () if data is None else frames.columns_of(data)
        unused: dict[str, tuple[str, ...]] = {}
        if frame is not None:
            there, unused = KeptRows(frame, kept).with_used_levels()
            frame = there.columns(there.frame.columns)
        made = _evaluate(formula, frame, environment, columns)
        info = made.design_info
        z = np.asarray(made, dtype=float)
        if frame is None and len(z) == len(kept):
            z = z[kept]
        if len(z) == 1 and info.column_names == ["Intercept"]:
            z = np.ones((int(kept.sum()), 1))
        terms = tuple(info.column_names)
        design = Design(
            terms,
            "",
            formula,
            None,
            make_recipe(info, frozenset(used)),
            frozenset(),
            frozenset(used),
            unused=unused,
        )
    check_terms(formula, terms)
    check_concomitants(z, terms, index)
    return design, z


def check_terms(formula: Any, terms: tuple[str, ...]) -> None:
    """Refuse concomitants without columns, or with names that repeat."""
    if not terms:
        raise InputError(f"concomitant={formula!r} has no columns; leave it out, or name some")
    repeated = {term for term in terms if terms.count(term) > 1}
    if repeated:
        raise InputError(f"concomitant has columns with the same name: {', '.join(repeated)}")


def check_concomitants(z: Array, terms: tuple[str, ...], index: pd.Index) -> None:
    """Refuse infinite concomitants."""
    finite = np.isfinite(z)
    bad = np.flatnonzero(~finite.all(axis=0))
    if bad.size:
        raise InputError(
            f"concomitant {terms[bad[0]]} is infinite in {infinite_rows(finite[:, bad[0]], index)} "
            "(log of zero?); drop or correct them"
        )


def _from_array(values: Any) -> tuple[tuple[str, ...], Array]:
    """Names and columns of concomitants that were given as they are."""
    if isinstance(values, (list, tuple)) and values and isinstance(values[0], str):
        raise InputError(
            f"concomitant={values!r} is a list of names; write a formula, '~ {' + '.join(values)}'"
        )
    try:
        z, _ = as_matrix(values, None)
    except InputError as error:
        raise InputError(str(error).replace("exog", "concomitant")) from error
    if isinstance(values, (pd.DataFrame, pd.Series)) and getattr(values, "name", "") is not None:
        return column_names(values, z), z
    names = column_names(np.asarray(values), z)
    return tuple(f"z{name[1:]}" if name.startswith("x") else name for name in names), z


def _frame(
    formula: str, data: pd.DataFrame | None, environment: EvalEnvironment | None
) -> tuple[pd.DataFrame | None, list[Any]]:
    """Columns that a formula uses, with the caller's arrays brought in, and their names."""
    names = names_of(formula)
    if data is None:
        return None, [] if environment is None else sorted(column_like(names, environment))
    frame = data[[column for column in data.columns if column in names]]
    if environment is not None:
        frame = with_outside(frame, names, environment)
    frame = plain(frame, codes_of(formula))
    refuse_times(formula, frame)
    refuse_cost(formula, frame, environment)
    return frame, list(frame.columns)


def _evaluate(
    formula: str, frame: pd.DataFrame | None, environment: Any, columns: tuple[Any, ...]
) -> Any:
    with evaluation(columns):
        own: Any = frame
        if frame is None:
            own = {} if environment is None else of_caller(formula, names_of(formula), environment)
        made = patsy.dmatrix(formula, own, environment, NA_action=KEEP_MISSING)
    check_levels(frame, made.design_info)
    if frame is not None and made.design_info.factor_infos and len(made) < len(frame):
        raise no_category(f"concomitant={formula!r}", len(frame) - len(made))
    return made


def names_of(formula: str) -> set[str]:
    """Variables that a one-sided formula mentions."""
    refuse_signs("concomitant", formula)
    try:
        description = described(formula)
    except (patsy.PatsyError, RecursionError) as error:
        raise InputError(
            f"concomitant={shown(formula)} cannot be read: {parse_error(error)}"
        ) from error
    if description.lhs_termlist:
        raise InputError(
            f"concomitant={shown(formula)} has a left side; write it as '~ age + income'"
        )
    return {
        name
        for term in description.rhs_termlist
        for factor in term.factors
        for name in names_in(factor.code)
    }


@evaluating()
def usable_rows(
    formula: Any, data: pd.DataFrame | None, environment: EvalEnvironment | None, missing: str
) -> Mask | None:
    """Rows at which no concomitant is missing, or None if that is all."""
    good = _without_missing(formula, data, environment)
    if missing == "raise" and good is not None and not good.all():
        _refuse_missing(formula, data, environment, int((~good).sum()))
    return good


def _refuse_missing(
    formula: Any, data: pd.DataFrame | None, environment: EvalEnvironment | None, rows: int
) -> None:
    """Name the concomitants that have missing values, or the formula that makes some."""
    if isinstance(formula, str):
        frame, _ = _frame(formula, data, environment)
        refuse_missing({} if frame is None else missing_counts(frame), rows)
        refuse_missing({formula: rows}, rows)
    terms, z = _from_array(formula)
    refuse_missing(dict(zip(terms, np.isnan(z).sum(axis=0).tolist(), strict=True)), rows)


def _without_missing(
    formula: Any, data: pd.DataFrame | None, environment: EvalEnvironment | None
) -> Mask | None:
    if formula is None:
        return None
    if not isinstance(formula, str):
        return np.asarray(~np.isnan(_from_array(formula)[1]).any(axis=1))
    frame, _ = _frame(formula, data, environment)
    if frame is None:
        made = np.asarray(_evaluate(formula, None, environment, ()), dtype=float)
        return None if len(made) == 1 else np.asarray(~np.isnan(made).any(axis=1))
    good = frame.notna().all(axis=1).to_numpy(copy=True)
    if good.any():
        # A transform can make a value missing too.
        columns = () if data is None else frames.columns_of(data)
        there = KeptRows(frame, good).columns(frame.columns)
        made = np.asarray(_evaluate(formula, there, environment, columns), dtype=float)
        if len(made) == good.sum():
            good[np.flatnonzero(good)[np.isnan(made).any(axis=1)]] = False
    return np.asarray(good)


def check_index(values: Any, *others: Any) -> None:
    """Refuse concomitants of another length, or with another index, than the data."""
    if values is not None and not isinstance(values, str) and len(values) != len(others[0]):
        raise InputError(f"concomitant has {len(values)} rows; the data have {len(others[0])}")
    if not isinstance(values, (pd.DataFrame, pd.Series)):
        return
    for other in others:
        labelled = isinstance(other, (pd.DataFrame, pd.Series))
        if labelled and not values.index.equals(other.index):
            raise InputError(
                "concomitant has another index than the data; align it, as with "
                "concomitant.reindex(exog.index)"
            )
