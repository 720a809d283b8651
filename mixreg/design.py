"""From formulas and tables to arrays, and the same way again for new data."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment

from mixreg.errors import InputError

Array = NDArray[np.float64]

NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
KEEP_MISSING = patsy.NAAction(on_NA="drop", NA_types=[])


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
    """

    x: Array
    y: Array
    index: pd.Index
    kept: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Design:
    """How columns are made.

    Attributes
    ----------
    terms : tuple of str
        Names of the regressors.
    response : str
        Name of the response.
    formula : str or None
        None when arrays were given.
    left, right : patsy DesignInfo or None
        The transforms of both sides, with their state.
    """

    terms: tuple[str, ...]
    response: str
    formula: str | None = None
    left: Any = None
    right: Any = None

    def regressors(self, data: Any) -> tuple[Array, pd.Index]:
        """Regressors of new data, by the same transforms; missing values stay NaN."""
        if self.right is None:
            return _as_matrix(data, self.terms)
        frame = _as_frame(data)
        try:
            x = patsy.build_design_matrices([self.right], frame, NA_action=KEEP_MISSING)[0]
        except patsy.PatsyError as error:
            raise _formula_error(error, tuple(frame.columns)) from error
        x = np.asarray(x, dtype=float)
        if x.shape[0] == 1 and len(frame) != 1:
            x = np.repeat(x, len(frame), axis=0)
        return x, frame.index

    def responses(self, data: Any) -> Array | None:
        """Responses of new data, or None where they are not there."""
        if self.left is None:
            if isinstance(data, pd.DataFrame) and self.response in data.columns:
                return _as_vector(data[self.response], self.response)
            return None
        frame = _as_frame(data)
        needed = {n for factor in self.left.factor_infos for n in names_in(factor.code)}
        state = {n for n in needed if n in frame.columns}
        if not state:
            return None
        try:
            y = patsy.build_design_matrices([self.left], frame, NA_action=KEEP_MISSING)[0]
        except (patsy.PatsyError, AttributeError, TypeError) as error:
            if not needed <= set(frame.columns):
                return None
            raise InputError(
                f"the response {self.response} of the new data cannot be used: {error}"
            ) from error
        return np.asarray(y, dtype=float)[:, 0]


def names_in(code: str) -> set[str]:
    """Variables that a piece of a formula mentions, Q('...') included."""
    tree = ast.parse(code, mode="eval")
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
            names |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return names


def formula_names(formula: str) -> set[str]:
    """Variables that a formula mentions."""
    if not isinstance(formula, str):
        raise InputError(f"formula must be text such as 'y ~ x1 + x2'; got {formula!r}")
    try:
        described = patsy.ModelDesc.from_formula(formula)
    except patsy.PatsyError as error:
        raise InputError(f"formula {formula!r} cannot be read: {error}") from error
    if not described.lhs_termlist:
        raise InputError(
            f"formula {formula!r} has no response; write one left of '~', as in 'y ~ x1 + x2'"
        )
    terms = [*described.lhs_termlist, *described.rhs_termlist]
    return {name for term in terms for factor in term.factors for name in names_in(factor.code)}


def from_formula(
    formula: str,
    data: pd.DataFrame | None,
    environment: EvalEnvironment,
    missing: str,
    usable: NDArray[np.bool_] | None,
) -> tuple[Design, Table]:
    """Build columns from a formula.

    Parameters
    ----------
    formula : str
    data : DataFrame or None
        None looks names up in the environment.
    environment : patsy EvalEnvironment
    missing : {"drop", "raise"}
    usable : (rows,) bool array or None
        Rows whose groups and weights are not missing.
    """
    names = formula_names(formula)
    kept, columns = None, () if data is None else tuple(data.columns)
    if data is not None:
        used = [column for column in data.columns if column in names]
        repeated = {str(column) for column in used if used.count(column) > 1}
        if repeated:
            raise InputError(f"data has several columns named {', '.join(sorted(repeated))}")
        frame = _plain(_with_outside(data[used], names, environment))
        kept = frame.notna().all(axis=1).to_numpy()
        if usable is not None:
            kept = kept & usable
        _check_missing(kept, missing, used)
        # Rows go before patsy sees them, so that stateful transforms
        # (center, bs) learn from the rows that are kept.
        data = frame if kept.all() else frame[kept]
        if len(data) == 0:
            raise InputError(
                "data has no rows left; check that the frame is not empty, and missing values"
            )
    try:
        left, right = patsy.dmatrices(
            formula,
            {} if data is None else data,
            environment,
            NA_action=KEEP_MISSING,
            return_type="dataframe" if data is None else "matrix",
        )
    except patsy.PatsyError as error:
        raise _formula_error(error, columns) from error
    y, x = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
    index = left.index if data is None else data.index
    design = Design(
        tuple(right.design_info.column_names),
        left.design_info.column_names[0],
        formula,
        left.design_info,
        right.design_info,
    )
    factors = left.design_info.factor_infos.values()
    if y.shape[1] != 1 or any(factor.type == "categorical" for factor in factors):
        raise InputError(
            f"the response {formula.split('~')[0].strip()!r} is not numeric: it holds text or "
            f"categories, or gives columns {', '.join(left.design_info.column_names[:4])}; "
            "recode it as one number"
        )
    if kept is None:
        kept = np.ones(len(y), dtype=bool) if usable is None else usable
        if len(kept) != len(y):
            raise InputError(
                f"groups or weights have length {len(kept)}, but the formula gives {len(y)} rows"
            )
        y, x, index = y[kept], x[kept], index[kept]
    return design, _finish(design, x, y[:, 0], index, kept, missing)


def _with_outside(
    frame: pd.DataFrame, names: set[str], environment: EvalEnvironment
) -> pd.DataFrame:
    """Bring the caller's arrays into the frame, so that rows are dropped from both."""
    outside = {}
    for name in names - set(frame.columns):
        try:
            value = environment.namespace[name]
        except KeyError:
            continue
        if isinstance(value, (pd.Series, np.ndarray, list)) and len(value) == len(frame):
            outside[name] = np.asarray(value) if np.ndim(value) == 1 else None
    outside = {name: value for name, value in outside.items() if value is not None}
    return frame.assign(**outside) if outside else frame


def from_arrays(
    endog: Any, exog: Any, missing: str, usable: NDArray[np.bool_] | None
) -> tuple[Design, Table]:
    """Take columns as they are."""
    x, index = _as_matrix(exog, None)
    y = _as_vector(endog, "endog")
    if len(y) != len(x):
        raise InputError(f"endog has length {len(y)}, but exog has {len(x)} rows")
    if isinstance(endog, pd.Series):
        labelled = isinstance(exog, (pd.DataFrame, pd.Series))
        if labelled and not endog.index.equals(exog.index):
            raise InputError(
                "endog and exog have different indexes; align them first, as with "
                "endog.reindex(exog.index)"
            )
        index = endog.index
    terms = _column_names(exog, x)
    response = str(getattr(endog, "name", None) or "y")
    kept = np.isfinite(x).all(axis=1) | np.isinf(x).any(axis=1)
    kept &= ~np.isnan(y)
    if usable is not None:
        if len(usable) != len(y):
            raise InputError(f"groups or weights have length {len(usable)}; endog has {len(y)}")
        kept &= usable
    _check_missing(kept, missing, list(terms))
    design = Design(terms, response)
    if not kept.all():
        x, y, index = x[kept], y[kept], index[kept]
    return design, _finish(design, x, y, index, kept, missing)


def _finish(
    design: Design,
    x: Array,
    y: Array,
    index: pd.Index,
    kept: NDArray[np.bool_],
    missing: str,
) -> Table:
    """Drop rows that became NaN under transforms; refuse infinite ones."""
    good = ~(np.isnan(y) | np.isnan(x).any(axis=1))
    if not good.all():
        _check_missing(good, missing, list(design.terms))
        kept = kept.copy()
        kept[np.flatnonzero(kept)[~good]] = False
        x, y, index = x[good], y[good], index[good]
    if len(y) == 0:
        raise InputError("data has no rows left; every row has a missing value")
    if x.shape[1] == 0:
        raise InputError("the design has no columns; put at least '1' right of '~'")
    if not np.isfinite(y).all():
        row = index[np.flatnonzero(~np.isfinite(y))[0]]
        raise InputError(
            f"the response {design.response} is infinite in row {row!r}; drop or correct it"
        )
    bad = ~np.isfinite(x).all(axis=0)
    if bad.any():
        column = int(np.flatnonzero(bad)[0])
        row = index[np.flatnonzero(~np.isfinite(x[:, column]))[0]]
        raise InputError(
            f"column {design.terms[column]} is infinite in row {row!r} (log of zero?); "
            "drop or correct it"
        )
    return Table(np.ascontiguousarray(x), np.ascontiguousarray(y), index, kept)


def _check_missing(kept: NDArray[np.bool_], missing: str, columns: list[str]) -> None:
    if missing == "raise" and not kept.all():
        raise InputError(
            f"{int((~kept).sum())} rows have missing values in {', '.join(columns)} or in groups "
            "or weights; fill them, or use missing='drop'"
        )


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns as patsy knows them: floats for nullable numbers, objects for text."""
    changes: dict[str, Any] = {}
    for name in frame.columns:
        dtype = frame[name].dtype
        if isinstance(dtype, (pd.StringDtype, pd.BooleanDtype)):
            changes[name] = frame[name].astype(object)
        elif (
            pd.api.types.is_object_dtype(dtype) and pd.api.types.infer_dtype(frame[name]) in NUMBERS
        ):
            changes[name] = pd.to_numeric(frame[name])
        elif pd.api.types.is_extension_array_dtype(dtype) and (
            pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
        ):
            changes[name] = frame[name].astype("float64")
    return frame.assign(**changes) if changes else frame


def _as_frame(data: Any) -> pd.DataFrame:
    if isinstance(data, pd.DataFrame):
        return _plain(data)
    if isinstance(data, pd.Series):
        return data.to_frame().T
    try:
        return pd.DataFrame(data)
    except ValueError:
        return pd.DataFrame(data, index=[0])


def _as_matrix(data: Any, terms: tuple[str, ...] | None) -> tuple[Array, pd.Index]:
    if terms is not None and isinstance(data, pd.DataFrame):
        absent = [t for t in terms if t not in data.columns]
        if not absent:
            data = data[list(terms)]
    index = data.index if isinstance(data, (pd.DataFrame, pd.Series)) else None
    try:
        x = np.asarray(data, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"exog is not numeric ({error}); give numbers, or use MixReg.from_formula, which "
            "turns categories into columns"
        ) from error
    if x.ndim == 1 and (terms is None or len(terms) == 1):
        x = x[:, None]
    if x.ndim != 2 or (terms is not None and x.shape[1] != len(terms)):
        wanted = "(n, p)" if terms is None else f"(n, {len(terms)})"
        raise InputError(f"exog must have shape {wanted}; got {x.shape}")
    return x, pd.RangeIndex(len(x)) if index is None else index


def _as_vector(values: Any, name: str) -> Array:
    try:
        vector = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not numeric ({error}); recode it as numbers") from error
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise InputError(f"{name} must have one dimension; got shape {vector.shape}")
    return vector


def _column_names(exog: Any, x: Array) -> tuple[str, ...]:
    if isinstance(exog, pd.DataFrame):
        return tuple(str(c) for c in exog.columns)
    if isinstance(exog, pd.Series) and exog.name is not None:
        return (str(exog.name),)
    constant = (x == x[:1]).all(axis=0) if len(x) else np.zeros(x.shape[1], dtype=bool)
    names, count = [], 0
    for is_constant in constant:
        if is_constant and "const" not in names:
            names.append("const")
        else:
            count += 1
            names.append(f"x{count}")
    return tuple(names)


def _formula_error(error: Exception, columns: tuple[Any, ...]) -> InputError:
    cause = error.__cause__ or error
    text = str(cause).split("\n")[0]
    message = f"the formula cannot be evaluated: {text}"
    if isinstance(cause, NameError) and columns:
        absent = getattr(cause, "name", None) or ""
        close = difflib.get_close_matches(absent, [str(c) for c in columns], n=1)
        hint = (
            f"; did you mean {close[0]!r}?"
            if close
            else "; check the spelling, and import it where the formula is written if it is a "
            "function or a module"
        )
        return InputError(f"the formula names {absent!r}, which is not a column of data{hint}")
    if "levels" in text or "categor" in text.lower():
        message += "; new data must have the categories the model was fitted with"
    return InputError(message)
