"""Concomitant variables: the columns that class probabilities depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment

from mixreg.columns import as_matrix, column_names, names_in, plain
from mixreg.design import KEEP_MISSING, Design, formula_error
from mixreg.errors import InputError

Array = NDArray[np.float64]


def concomitants(
    formula: Any,
    data: pd.DataFrame | None,
    environment: EvalEnvironment | None,
    kept: NDArray[np.bool_],
) -> tuple[Design, Array]:
    """Columns of a one-sided formula (or of an array), at the rows that were kept."""
    if not isinstance(formula, str):
        x, _ = as_matrix(formula, None)
        terms = tuple(f"z{n}" if n.startswith("x") else n for n in column_names(formula, x))
        if isinstance(formula, pd.DataFrame):
            terms = tuple(map(str, formula.columns))
        if len(x) != len(kept):
            raise InputError(f"concomitant has {len(x)} rows; give {len(kept)}")
        return Design(terms, ""), x[kept]
    try:
        made = patsy.dmatrix(
            formula,
            {} if data is None else plain(data[_used(formula, data)][kept]),
            environment,
            NA_action=KEEP_MISSING,
        )
    except patsy.PatsyError as error:
        columns = () if data is None else tuple(data.columns)
        raise formula_error(error, columns) from error
    x = np.asarray(made, dtype=float)
    info = made.design_info
    if len(x) == 1 and len(kept) > 1 and info.column_names == ["Intercept"]:
        x = np.ones((int(kept.sum()), 1))
    used = frozenset(_used(formula, data)) if data is not None else frozenset()
    return Design(tuple(info.column_names), "", formula, None, info, frozenset(), used), x


def _used(formula: str, data: pd.DataFrame) -> list[Any]:
    """Columns of the data that a one-sided formula mentions."""
    try:
        described = patsy.ModelDesc.from_formula(formula)
    except patsy.PatsyError as error:
        raise InputError(f"concomitant={formula!r} cannot be read: {error}") from error
    if described.lhs_termlist:
        raise InputError(f"concomitant={formula!r} has a left side; write it as '~ age + income'")
    names = {
        name
        for term in described.rhs_termlist
        for factor in term.factors
        for name in names_in(factor.code)
    }
    return [column for column in data.columns if column in names]


def without_missing(formula: Any, data: pd.DataFrame | None) -> NDArray[np.bool_] | None:
    """Rows at which no concomitant is missing, or None if that is all."""
    if formula is None:
        return None
    if not isinstance(formula, str):
        return np.asarray(pd.DataFrame(np.asarray(formula)).notna().all(axis=1))
    if data is None:
        return None
    return np.asarray(data[_used(formula, data)].notna().all(axis=1))
