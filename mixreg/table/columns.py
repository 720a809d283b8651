"""Small conversions: tables and columns as patsy and numpy know them."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment, EvalFactor
from patsy.parse_formula import parse_formula

from mixreg.errors import InputError, InputWarning, warn
from mixreg.table import frames
from mixreg.table.cost import (
    MOST_COLUMNS,
    columns_of,
    described,
    is_too_deep,
    parsed,
    pieces,
    shown,
    tokens,
)
from mixreg.table.functions import NUMPY

Array = NDArray[np.float64]

# Rows that are looked at at once.
PIECE_ROWS = 65_536
# What evaluating an expression raises where columns do not fit; patsy lets it through where
# transforms learn, and where columns are put together.
UNFIT = (TypeError, ValueError, AttributeError, ArithmeticError, LookupError, RecursionError)
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
# Whole numbers up to here are floats too.
EXACT = 2**53

# What a formula takes a column for: a value as it is; a level, inside of C(), or a whole number
# there that arithmetic keeps whole; a number; what a function of the user's is given; yes and no.
# The name of one of patsy's functions that learn from numbers is one more.
VALUE, LEVEL, COUNT, NUMBER, GIVEN, SWITCH = "value", "level", "count", "number", "given", "switch"
KEEP_WHOLE = (ast.Add, ast.Sub, ast.FloorDiv, ast.Mod)
SWITCHES = (ast.BitAnd, ast.BitOr)
# Methods of columns that look at values as they are.
BY_VALUE = frozenset({"astype", "isin", "map", "replace", "eq", "ne", "cat", "str"})
# Patsy's functions that learn from numbers.
LEARNING = frozenset({"bs", "cr", "cc", "te", "center", "standardize", "scale"})
# Of these, those that draw curves.
SPLINES = frozenset({"bs", "cr", "cc", "te"})
# Signs that are another thing in R or in arithmetic than in Python, and what to write.
SIGNS = {
    "^": (
        "a power in R, but a bitwise XOR in Python; write I({left} ** {right}) for a power, "
        "(a + b)**2 for interactions, and I(a != b) for an exclusive or"
    ),
    "<<": "a shift of bits; write I({left} * 2 ** {right})",
    ">>": "a shift of bits; write I({left} // 2 ** {right})",
}


def names_in(code: str) -> set[str]:
    """Variables that a piece of a formula mentions, Q('...') included."""
    tree = parsed(code)
    if tree is None:
        try:
            ast.parse(code, mode="eval")
        except (RecursionError, MemoryError) as error:
            raise _too_deep(code) from error
        except (SyntaxError, ValueError):
            pass
        raise _not_python(code)
    if is_too_deep(tree):
        raise _too_deep(code)
    try:
        list(_uses(tree, VALUE, False))
    except RecursionError as error:  # who calls is deep in calls already
        raise _too_deep(code) from error
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
            names |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return names


def _too_deep(code: str) -> InputError:
    return InputError(f"the formula has {shown(code)}: {parse_error(RecursionError())}")


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


def parse_error(error: Exception) -> str:
    """What patsy says of a formula, in one line."""
    if not isinstance(error, patsy.PatsyError):  # as patsy says it of too many brackets
        return "its parts are nested too deeply, or too many; make columns of some of them"
    return str(error).split("\n")[0].rstrip(". ") + (
        ". A column whose name has spaces or signs, or is a word such as class, is written "
        "Q('name')"
    )


def bare_name(code: str) -> str | None:
    """The column that a piece of a formula is, if it is nothing else."""
    found = re.fullmatch(r"""([^\W\d]\w*)|Q\((['"])(.*)\2\)""", code.strip())
    return None if found is None else found[1] or found[3]


def codes_of(formula: str) -> list[str]:
    """The factors of a formula, each once."""
    description = described(formula)
    return list(pieces([*description.lhs_termlist, *description.rhs_termlist]))


def refuse_times(formula: str, frame: pd.DataFrame) -> None:
    """Refuse dates, durations and complex numbers that a formula has as they are.

    Complex numbers are for functions alone that make real ones of them.
    """
    for code in codes_of(formula):
        name = bare_name(code)
        kind = None if name not in frame.columns else _odd_kind(frame[name])
        if kind is not None:
            raise InputError(f"column {name!r} holds {kind}; {CURES[kind].format(code)}")
        direct = {name for name, _, called in uses_of(code) if not called}
        for name in sorted(direct & set(frame.columns)):
            if _odd_kind(frame[name]) == "complex numbers":
                cure = CURES["complex numbers"].format(name)
                raise InputError(f"column {name!r} holds complex numbers; {cure}")


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
    """Whether a column holds texts, categories or other objects, but not yes and no."""
    if isinstance(values, pd.DataFrame) or is_switch(values):
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
    except (patsy.PatsyError, *UNFIT):
        return {}  # it is told when columns are made


def _distinct(values: pd.Series) -> int:
    """How many different values there are; objects that have no hash are not counted."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return len(values.dtype.categories)
    try:
        return int(values.nunique())
    except TypeError:
        return 1


def refuse_signs(argument: str, formula: str) -> None:
    """Refuse signs that have another meaning in R's formulas.

    They are '^' and shifts of bits anywhere, and '|' outside of function calls, where R's
    formulas have groups: patsy would take it for Python's operator, and fit a bitwise or.
    """
    calls: list[bool] = []
    last = ""
    signs = tokens(formula)
    for at, sign in enumerate(signs):
        if sign in ("(", "["):
            calls.append(bool(re.match(r"\w", last)))
        elif sign in (")", "]") and calls:
            calls.pop()
        after = signs[at + 1] if at + 1 < len(signs) else ""
        if sign in SIGNS:
            left = last if re.match(r"\w", last) else "x"
            how = SIGNS[sign].format(left=left, right=after if re.match(r"\w", after) else "2")
            raise InputError(f"{argument} {formula!r} has '{sign}', which is {how}")
        if sign == "|" and not any(calls):
            name = next((each for each in signs[at + 1 :] if re.match(r"\w", each)), "column")
            raise InputError(
                f"{argument} {formula!r} has '|', which formulas here do not know; name the "
                f"groups by groups={name!r}. For an elementwise or, write I(a | b)"
            )
        last = sign


def formula_names(formula: str) -> tuple[set[str], set[str]]:
    """Variables that the left and the right side of a formula mention."""
    if not isinstance(formula, str):
        raise InputError(f"formula must be text such as 'y ~ x1 + x2'; got {_shown(formula)}")
    refuse_signs("formula", formula)
    try:
        description = described(formula)
    except (patsy.PatsyError, RecursionError) as error:
        raise InputError(
            f"formula {shown(formula)} cannot be read: {parse_error(error)}"
        ) from error
    _warn_of_powers(formula)
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


def plain(frame: pd.DataFrame, codes: Iterable[str] | None = None) -> pd.DataFrame:
    """Columns as patsy knows them: numpy's for nullable numbers, objects for text.

    Parameters
    ----------
    frame : DataFrame
    codes : iterable of str, optional
        Factors of a formula: columns become what these take them for. Numbers are then floats of
        64 bits, so that arithmetic neither wraps around nor rounds; whole numbers that are levels
        stay whole.
    """
    uses: dict[str, set[str]] | None = None
    if codes is not None:
        codes = list(codes)
        uses = {}
        for name, taken, _ in (each for code in codes for each in uses_of(code)):
            uses.setdefault(name, set()).add(taken)
    changed = {
        name: _plain_column(frame[name], None if uses is None else uses.get(name, set()))
        for name in frame.columns
    }
    changes = {name: new for name, new in changed.items() if new is not None}
    frame = frame.assign(**changes) if changes else frame
    if codes is not None:
        switches = {str(name) for name in frame.columns if is_switch(frame[name])}
        for code in codes:
            _refuse_sums(code, switches)
    return frame


def _plain_column(values: pd.Series, uses: set[str] | None = None) -> pd.Series | None:
    """A column as patsy knows it, and a formula that takes it so; None if it is that already."""
    found = _of_numpy(values)
    if not uses:
        return found
    new = _taken(values if found is None else found, uses)
    return found if new is None else new


def _of_numpy(values: pd.Series) -> pd.Series | None:
    dtype = values.dtype
    whole = without_mask(values)
    if whole.dtype != dtype:
        return whole
    if isinstance(dtype, (pd.StringDtype, pd.BooleanDtype)):
        return values.astype(object)
    if isinstance(dtype, pd.CategoricalDtype) and isinstance(dtype.categories.dtype, pd.ArrowDtype):
        return values.cat.rename_categories(dtype.categories.tolist())
    if pd.api.types.is_object_dtype(dtype):
        return _of_objects(values) if pd.api.types.infer_dtype(values) in NUMBERS else None
    numeric = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    if numeric and pd.api.types.is_extension_array_dtype(dtype):
        # Floats would merge large numbers that are names: they wait for what they are taken for.
        return None if _is_beyond(values) else values.astype("float64")
    return None


def _of_objects(values: pd.Series) -> pd.Series:
    """Numbers that are objects; whole ones stay whole where floats would merge them."""
    found = pd.to_numeric(values)
    if found.dtype.kind == "f" and (found.abs() >= EXACT).any():
        for kind in ("Int64", "UInt64"):
            try:
                return values.astype(kind)
            except (TypeError, ValueError, OverflowError):  # fractions, or still larger
                continue
    return found


def _taken(values: pd.Series, uses: set[str]) -> pd.Series | None:
    """A column as a formula takes it; None if it is so already."""
    name, dtype = values.name, values.dtype
    if is_switch(values):
        # As a category, and in arithmetic with numbers, yes and no stay what they are.
        spline = min(uses & SPLINES, default=None)
        if spline is not None:
            raise InputError(
                f"{spline}() takes numbers, but column {name!r} holds yes and no, between which "
                f"there is no curve; write {name} without {spline}()"
            )
        if uses <= {NUMBER, COUNT} | LEARNING:
            return as_floats(values)
        odd = pd.api.types.is_object_dtype(dtype) and not values.isna().any()
        return values.astype(bool) if odd else None  # ~ of objects is that of whole numbers
    if isinstance(dtype, (pd.PeriodDtype, pd.DatetimeTZDtype)):
        return values.astype(object) if uses == {LEVEL} else None  # patsy knows no such types
    kind = dtype.kind if isinstance(dtype, np.dtype) else "O"
    beyond = _is_beyond(values)
    learning = min(uses & LEARNING, default=None)
    if learning is not None and kind not in "iuf" and not beyond:
        raise InputError(
            f"{learning}() takes numbers, but column {name!r} holds {_odd_kind(values) or 'text'}; "
            f"write it without {learning}(), or turn it into numbers, as with "
            f"pd.to_numeric(data[{name!r}])"
        )
    if SWITCH in uses and (kind in "iuf" or beyond):
        raise InputError(
            f"the formula has &, | or ~ with column {name!r}, which holds numbers: they would be "
            f"taken bit by bit; compare first, as in I(({name} > 0) & ({name} < 5))"
        )
    number = bool(uses & ({NUMBER, GIVEN} | LEARNING))
    if kind == "f":
        keep = dtype == np.float64 or (uses == {LEVEL} and dtype != np.longdouble)
        return None if keep else values.astype(np.float64)
    if kind in "iu":
        if number or (beyond and COUNT in uses):
            return values.astype(np.float64)
        return values.astype(np.int64) if dtype.itemsize < 8 else None
    if not beyond:
        return None
    if not number and uses & {LEVEL, COUNT}:
        raise InputError(
            f"column {name!r} has missing values beside whole numbers beyond 2^53, which floats "
            f"do not tell apart; make it text, as with data[{name!r}].astype('string')"
        )
    return values.astype(np.float64)


def _is_beyond(values: pd.Series) -> bool:
    """Whether a column has whole numbers that are no floats."""
    if not pd.api.types.is_integer_dtype(values.dtype) or not len(values):
        return False
    low, high = values.min(), values.max()
    return bool(not pd.isna(low) and (int(low) < -EXACT or int(high) > EXACT))


def in_64_bits(frame: pd.DataFrame, query: str) -> pd.DataFrame:
    """A table whose numbers have 64 bits where a query names them; if it multiplies, as floats.

    Arithmetic of smaller numbers would wrap around.
    """
    named = {one or other for one, other in re.findall(r"`([^`]+)`|(\w+)", query)}
    once = frame.columns.drop_duplicates(keep=False)
    changes = {}
    for name, dtype in frame.dtypes[once].items() if named & set(once) else ():
        kind = getattr(dtype, "kind", "O")
        if name not in named or kind not in "iuf" or isinstance(dtype, pd.SparseDtype):
            continue
        masked = pd.api.types.is_extension_array_dtype(dtype)
        if kind == "f" or ("*" in query and not _is_beyond(frame[name])):
            changes[name] = "Float64" if masked else "float64"
        elif dtype.itemsize < 8:
            changes[name] = "Int64" if masked else "int64"
    return frame.astype(changes) if changes else frame


def is_switch(values: pd.Series) -> bool:
    """Whether a column holds yes and no."""
    return pd.api.types.is_bool_dtype(values.dtype) or (
        pd.api.types.is_object_dtype(values.dtype) and pd.api.types.infer_dtype(values) == "boolean"
    )


def as_floats(values: pd.Series) -> pd.Series:
    """Yes and no as 1 and 0, NaN where they are missing."""
    return values.map({True: 1.0, False: 0.0}).astype(float)


def uses_of(code: str) -> Iterator[tuple[str, str, bool]]:
    """Names in a piece of a formula, what each is taken for, and whether by a function."""
    return _uses(ast.parse(code.strip(), mode="eval").body, VALUE, False)


def _uses(node: ast.AST, taken: str, called: bool) -> Iterator[tuple[str, str, bool]]:
    """The same of a part of it."""
    name = node.id if isinstance(node, ast.Name) else quoted_name(node)
    if name is not None:
        yield name, taken, called
        return
    parts = ast.iter_child_nodes(node)
    if isinstance(node, ast.Call):
        yield from _uses_of_call(node, taken, called)
        return
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        keeps = isinstance(node.op, (*KEEP_WHOLE, ast.USub, ast.UAdd))
        within = COUNT if keeps and taken in (LEVEL, COUNT) else NUMBER
        within = SWITCH if isinstance(node.op, (*SWITCHES, ast.Invert)) else within
        taken = VALUE if isinstance(node.op, ast.Not) else within
    elif isinstance(node, (ast.Compare, ast.BoolOp)):
        taken = VALUE
    elif isinstance(node, ast.Attribute):
        taken, called = VALUE if node.attr in BY_VALUE else GIVEN, True
    elif isinstance(node, ast.Subscript):
        yield from _uses(node.slice, VALUE, called)
        parts = iter([node.value])
    for part in parts:
        yield from _uses(part, taken, called)


def _uses_of_call(node: ast.Call, taken: str, called: bool) -> Iterator[tuple[str, str, bool]]:
    function = node.func
    name = function.id if isinstance(function, ast.Name) else ""
    if name in ("C", "I"):
        for part in node.args[:1]:
            yield from _uses(part, LEVEL if name == "C" else taken, called)
        return
    if isinstance(function, ast.Attribute) and not _is_numpy(function):
        yield from _uses(function, taken, called)
    known = name if name in LEARNING else NUMBER
    inner = known if name in LEARNING | NUMPY or _is_numpy(function) else GIVEN
    for part in (*node.args, *(keyword.value for keyword in node.keywords)):
        yield from _uses(part, inner, True)


def _is_numpy(function: ast.expr) -> bool:
    """Whether a function is written as numpy's."""
    owner = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in ("np", "numpy")


def quoted_name(node: ast.AST) -> str | None:
    """The column that Q('...') names; None if a node is something else."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q"
    first = node.args[0] if called and node.args else None  # type: ignore[attr-defined]
    return str(first.value) if isinstance(first, ast.Constant) else None


def _refuse_sums(code: str, switches: Collection[str]) -> None:
    """Refuse arithmetic of nothing but yes and no: numpy adds by or, and has few digits."""
    for node in ast.walk(ast.parse(code.strip(), mode="eval")):
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and not isinstance(node.op, (*SWITCHES, ast.Mult)):
            parts = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            parts = [node.operand]
        elif isinstance(node, ast.Call) and _takes_numbers(node.func):
            parts = node.args
        if parts and all(_is_yes_no(part, switches) for part in parts):
            raise InputError(
                f"{ast.unparse(node)!r} takes yes and no for numbers, which numpy adds up by a "
                f"logical or, and rounds; write 1 * ({ast.unparse(parts[0])}) where a number is "
                "meant"
            )


def _takes_numbers(function: ast.expr) -> bool:
    """Whether a function makes something else of yes and no than of 1 and 0."""
    name = getattr(function, "attr", getattr(function, "id", ""))
    found = getattr(np, name, None) if _is_numpy(function) or name in NUMPY else None
    logic = isinstance(found, np.ufunc) and any(kind.startswith("?") for kind in found.types)
    return name in LEARNING or (isinstance(found, np.ufunc) and (not logic or found is np.add))


def _is_yes_no(node: ast.expr, switches: Collection[str]) -> bool:
    """Whether a part of a formula is yes and no as they are."""
    name = node.id if isinstance(node, ast.Name) else quoted_name(node)
    return isinstance(node, ast.Compare) or name in switches


def _warn_of_powers(formula: str) -> None:
    """Warn of a column to a power outside of I(): of one term, interactions are the term."""
    nodes = [parse_formula(formula)]
    while nodes:
        node = nodes.pop()
        nodes += node.args
        if node.type == "**" and node.args[0].type == "PYTHON_EXPR":
            text = node.args[0].token.extra
            warn(
                f"formula {formula!r} has {text}**{node.args[1].token.extra}, which stands for "
                f"interactions of {text} with itself, and is {text}; write "
                f"I({text}**{node.args[1].token.extra}) for the power",
                InputWarning,
            )


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
    cure = "give numbers, or use MixReg.from_formula, which turns categories into columns"
    x = as_numbers(data, "exog", cure)
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


def as_numbers(values: Any, name: str, cure: str = "recode it as numbers") -> Array:
    """Numbers as floats; what numpy would make of dates and complex numbers is refused."""
    table = isinstance(values, pd.DataFrame)
    for part in [values.iloc[:, i] for i in range(values.shape[1])] if table else [values]:
        kind = _odd_kind(part) if isinstance(part, pd.Series) else KINDS.get(_kind(part))
        if kind is not None:
            own = f", column {part.name!r}," if table else ""
            raise InputError(f"{name}{own} has {kind}, not real numbers; {cure}")
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        verb = "are" if name == "weights" else "is"
        raise InputError(f"{name} {verb} not numeric ({error}); {cure}") from error


def _kind(values: Any) -> str:
    dtype = getattr(values, "dtype", None)
    return str(getattr(np.asarray(values).dtype if dtype is None else dtype, "kind", "O"))


def as_vector(values: Any, name: str) -> Array:
    """One column of numbers."""
    vector = as_numbers(values, name)
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
