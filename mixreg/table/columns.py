"""Small conversions: tables and columns as patsy and numpy know them."""

from __future__ import annotations

import ast
import math
import re
from typing import Any

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment, EvalFactor

from mixreg.errors import InputError
from mixreg.table import frames
from mixreg.table.cost import MOST_COLUMNS, columns_of, described, parsed, pieces, shown

Array = NDArray[np.float64]

# Rows that are looked at at once.
PIECE_ROWS = 65_536
KINDS = {"M": "dates", "m": "durations", "c": "complex numbers"}
OBJECTS = {
    **dict.fromkeys(("date", "datetime", "datetime64", "period"), "dates"),
    **dict.fromkeys(("timedelta", "timedelta64"), "durations"),
    "complex": "complex numbers",
}
CURES = {
    "dates": (
        "a date is no number. For a trend, make a column of days, as (date - date.min()).dt.days; "
        "for seasons, one such as date.dt.month; for a category with a level a date, write C({0})"
    ),
    "durations": "turn them into numbers, as with .dt.total_seconds() or .dt.days",
    "complex numbers": "take their parts, as np.real({0}) and np.imag({0})",
}
NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")


def names_in(code: str) -> set[str]:
    """Variables that a piece of a formula mentions, Q('...') included."""
    tree = parsed(code)
    if tree is None:
        raise _not_python(code)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
            names |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return names


def _not_python(code: str) -> InputError:
    """Say what to write in place of a piece of a formula that is no Python."""
    text = code.strip()
    if text == ".":
        return InputError(
            "the formula has '.', which stands for all other columns in R and for nothing here; "
            "name the columns, as in 'y ~ x1 + x2', or join their names: "
            "'y ~ ' + ' + '.join(data.columns.drop('y'))"
        )
    if not re.search(r"""[()\[\]'"+*/:~]""", text):
        return InputError(
            f"the formula has {shown(text)}, which is no Python name; write Q({shown(text)}) for a "
            "column of that name"
        )
    return InputError(
        f"the formula has {shown(text)}, which cannot be read as Python; check its brackets and "
        "signs. A column whose name has spaces or signs, or is a word such as class, is written "
        "Q('name')"
    )


def parse_error(error: patsy.PatsyError) -> str:
    """What patsy says of a formula, in one line."""
    return str(error).split("\n")[0].rstrip(". ") + (
        ". A column whose name has spaces or signs, or is a word such as class, is written "
        "Q('name')"
    )


def bare_name(code: str) -> str | None:
    """The column that a piece of a formula is, if it is nothing else."""
    found = re.fullmatch(r"""([^\W\d]\w*)|Q\((['"])(.*)\2\)""", code.strip())
    return None if found is None else found[1] or found[3]


def refuse_times(formula: str, frame: pd.DataFrame) -> None:
    """Refuse dates, durations and complex numbers that a formula has as they are."""
    description = described(formula)
    for code in pieces([*description.lhs_termlist, *description.rhs_termlist]):
        name = bare_name(code)
        kind = None if name not in frame.columns else _odd_kind(frame[name])
        if kind is not None:
            raise InputError(f"column {name!r} holds {kind}; {CURES[kind].format(code)}")


def _odd_kind(values: pd.Series) -> str | None:
    """What a column holds that is neither a number nor a category."""
    if pd.api.types.is_object_dtype(values.dtype):
        return OBJECTS.get(pd.api.types.infer_dtype(values, skipna=True))
    if isinstance(values.dtype, pd.PeriodDtype):
        return "dates"
    return KINDS.get(getattr(values.dtype, "kind", "O"))


def refuse_cost(formula: str, frame: pd.DataFrame, environment: EvalEnvironment | None) -> None:
    """Refuse a formula that makes too many columns of a table, or computes with its texts."""
    description = described(formula)
    sides = [*description.lhs_termlist, *description.rhs_termlist]
    levels = _levels(sides, frame)
    for code in pieces(sides):
        columns_of(code, frame.columns, levels)
        levels |= _computed_levels(code, frame, environment)
    columns = {code: columns_of(code, frame.columns, levels) for code in pieces(sides)}
    made = [math.prod(columns[factor.code] for factor in term.factors) for term in sides]
    if sum(made) <= MOST_COLUMNS:
        return
    worst = int(np.argmax(made))
    many = max(levels, key=levels.__getitem__, default=None)
    hint = (
        ""
        if many is None
        else f"; column {_category_name(many)!r} has {levels[many]:,} different values"
    )
    raise InputError(
        f"the formula makes about {sum(made):,} columns, of which {sides[worst].name()!r} makes "
        f"{made[worst]:,}; it may make up to {MOST_COLUMNS:,}{hint}. Leave out interactions, join "
        "rare levels, and name units by groups= rather than as a category"
    )


def _category_name(name: str) -> str:
    """The column of a category that is counted as `C(name)`."""
    return name[2:-1] if name.startswith("C(") else name


def refuse_text(code: str, frame: pd.DataFrame) -> None:
    """Refuse a piece of a formula that multiplies or formats text: it could make any amount."""
    texts = {name: 1 for name in frame.columns if _is_text(frame[name])}
    if any(str(name) in code for name in texts):
        columns_of(code, frame.columns, texts)


def _is_text(values: Any) -> bool:
    """Whether a column holds texts, categories or other objects."""
    if isinstance(values, pd.DataFrame):
        return False
    dtype = values.dtype
    return isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_object_dtype(dtype)


def _levels(sides: Any, frame: pd.DataFrame) -> dict[str, int]:
    """How many values there are of each column that becomes a category."""
    codes, found = list(pieces(sides)), {}
    for name in frame.columns:
        mentioned = [code for code in codes if str(name) in code]
        if not mentioned or isinstance(frame[name], pd.DataFrame):
            continue
        if _is_text(frame[name]):
            found[str(name)] = _distinct(frame[name])
        elif any("C(" in code for code in mentioned):
            found[f"C({name})"] = _distinct(frame[name])
    return found


def _computed_levels(
    code: str, frame: pd.DataFrame, environment: EvalEnvironment | None
) -> dict[str, int]:
    """How many levels a category has that is computed of other columns, as C(np.round(x))."""
    tree = parsed(code)
    if not isinstance(tree, ast.Call) or getattr(tree.func, "id", "") != "C":
        return {}
    if environment is None or re.fullmatch(r"C\(\w+(,.*)?\)", code):
        return {}
    factor, state = EvalFactor(code), {}  # type: ignore[var-annotated]
    try:
        if factor.memorize_passes_needed(state, environment):
            return {}
        made = factor.eval(state, frame).data
        return {ast.unparse(tree): _distinct(pd.Series(np.asarray(made).ravel()))}
    except (patsy.PatsyError, AttributeError, ArithmeticError, TypeError, ValueError):
        return {}  # it is told when columns are made


def _distinct(values: pd.Series) -> int:
    """How many different values there are; objects that have no hash are not counted."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return len(values.dtype.categories)
    try:
        return int(values.nunique())
    except TypeError:
        return 1


def refuse_bars(argument: str, formula: str) -> None:
    """Refuse '|' outside of function calls, where R's formulas have groups.

    Patsy would take it for Python's operator, and fit a bitwise or.
    """
    calls: list[bool] = []
    for at, sign in enumerate(formula):
        if sign in "([":
            before = formula[at - 1 : at]
            calls.append(before.isalnum() or before in ("_", "."))
        elif sign in ")]" and calls:
            calls.pop()
        elif sign == "|" and not any(calls):
            name = re.match(r"\|+\s*(\w+)", formula[at:])
            raise InputError(
                f"{argument} {formula!r} has '|', which formulas here do not know; name the "
                f"groups by groups={name[1] if name else 'column'!r}. For an elementwise or, "
                "write I(a | b)"
            )


def formula_names(formula: str) -> tuple[set[str], set[str]]:
    """Variables that the left and the right side of a formula mention."""
    if not isinstance(formula, str):
        raise InputError(f"formula must be text such as 'y ~ x1 + x2'; got {_shown(formula)}")
    refuse_bars("formula", formula)
    try:
        description = described(formula)
    except patsy.PatsyError as error:
        raise InputError(
            f"formula {shown(formula)} cannot be read: {parse_error(error)}"
        ) from error
    if not description.lhs_termlist:
        raise InputError(
            f"formula {shown(formula)} has no response; write one left of '~', as in 'y ~ x1 + x2'"
        )
    sides = (description.lhs_termlist, description.rhs_termlist)
    left, right = (
        {name for term in side for factor in term.factors for name in names_in(factor.code)}
        for side in sides
    )
    return left, right


def _shown(value: Any) -> str:
    """A value in a message; tables are not printed, for an error is one line."""
    if not hasattr(value, "shape") and not hasattr(value, "columns"):
        return repr(value)
    return f"a {type(value).__name__}; the formula comes before the data"


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns as patsy knows them: numpy's for nullable numbers, objects for text."""
    changed = {name: _plain_column(frame[name]) for name in frame.columns}
    changes = {name: new for name, new in changed.items() if new is not None}
    return frame.assign(**changes) if changes else frame


def _plain_column(values: pd.Series) -> pd.Series | None:
    """A column as patsy knows it; None if it is one already."""
    dtype = values.dtype
    whole = without_mask(values)
    if whole.dtype != dtype:
        return whole
    if isinstance(dtype, (pd.StringDtype, pd.BooleanDtype)):
        return values.astype(object)
    if isinstance(dtype, pd.CategoricalDtype) and isinstance(dtype.categories.dtype, pd.ArrowDtype):
        return values.cat.rename_categories(dtype.categories.tolist())
    if pd.api.types.is_object_dtype(dtype):
        return pd.to_numeric(values) if pd.api.types.infer_dtype(values) in NUMBERS else None
    numeric = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    if numeric and pd.api.types.is_extension_array_dtype(dtype):
        return values.astype("float64")
    return None


def without_mask(values: Any) -> Any:
    """Integers and booleans that may be missing but are not, as numpy has them."""
    numpy_type = getattr(values.dtype, "numpy_dtype", None)
    masked = isinstance(numpy_type, np.dtype) and numpy_type.kind in "iub"
    return values.astype(numpy_type) if masked and not values.isna().any() else values


def as_frame(data: Any) -> pd.DataFrame:
    """New data as a frame: a Series or a dict of scalars is one row."""
    if isinstance(data, pd.DataFrame):
        return plain(data)
    if isinstance(data, pd.Series):
        return plain(data.to_frame().T)
    try:
        return plain(pd.DataFrame(data))
    except ValueError:
        pass
    try:
        return plain(pd.DataFrame(data, index=[0]))
    except (TypeError, ValueError):
        raise InputError(f"new data must be a DataFrame or an array; got {data!r}") from None


def as_arrays(*values: Any) -> list[Any]:
    """Columns and matrices of any library that go together, as pandas and numpy have them."""
    return [
        plain(value) if isinstance(value, pd.DataFrame) and value.columns.is_unique else value
        for value in frames.arrays(*values)
    ]


def as_matrix(data: Any, terms: tuple[str, ...] | None) -> tuple[Array, pd.Index]:
    """Regressors as an array, chosen by name where `terms` are known, and their index."""
    if terms is not None and isinstance(data, pd.DataFrame):
        absent = [t for t in terms if t not in data.columns]
        # Columns may have other names than those made up for an array, but not in part.
        if absent and (len(absent) < len(terms) or data.shape[1] != len(terms)):
            raise InputError(
                f"new data lack the columns {', '.join(absent)}; the model has {', '.join(terms)}"
            )
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


def without_nan(x: Array) -> NDArray[np.bool_]:
    """Rows of a matrix in which no number is missing."""
    good = np.empty(len(x), dtype=bool)
    for row in range(0, len(x), PIECE_ROWS):
        part = slice(row, row + PIECE_ROWS)
        good[part] = ~np.isnan(x[part]).any(axis=1)
    return good


def as_vector(values: Any, name: str) -> Array:
    """One column of numbers."""
    try:
        vector = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not numeric ({error}); recode it as numbers") from error
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise InputError(f"{name} must have one dimension; got shape {vector.shape}")
    return vector


def column_names(exog: Any, x: Array) -> tuple[str, ...]:
    """Names of the regressors: the frame's, or const, x1, x2, ..."""
    if isinstance(exog, pd.DataFrame):
        return tuple(str(c) for c in exog.columns)
    if isinstance(exog, pd.Series) and exog.name is not None:
        return (str(exog.name),)
    constant = x.min(axis=0) == x.max(axis=0) if len(x) else np.zeros(x.shape[1], dtype=bool)
    names, count = [], 0
    for is_constant in constant:
        if is_constant and "const" not in names:
            names.append("const")
        else:
            count += 1
            names.append(f"x{count}")
    return tuple(names)


def without_intercept(info: Any) -> Any:
    """The same terms, coded the same way, but no intercept."""
    if "Intercept" not in info.term_names:
        return info
    others = [name for name in info.term_names if name != "Intercept"]
    if not others:
        raise InputError("the formula has no terms but the intercept; name the attributes")
    return info.subset(others)
