"""Queries that choose rows of files: what they name and rule out, and which rows they choose.

A query is evaluated by pandas on the rows of a chunk, as it is on a table in memory; so both choose
the same rows, under the same numbers. What is pushed down to the files is a weaker expression, that
is true at least of all rows that pandas chooses: row groups and folders of which it cannot be true
are not read. Arrow's own filter would not do: it loses the rows' numbers, takes comparisons with
missing values another way, and its statistics know nothing of NaN.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pandas as pd

from mixreg.errors import InputError
from mixreg.reading.kinds import plain_type
from mixreg.table import frames
from mixreg.table.checks import subset_mask

# Whole numbers up to here are floats too.
EXACT = 2**53
FLIPPED: dict[Any, Any] = {ast.Gt: ast.Lt, ast.Lt: ast.Gt, ast.GtE: ast.LtE, ast.LtE: ast.GtE}
FLIPPED |= {ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}
OPPOSITE: dict[Any, Any] = {ast.Gt: ast.LtE, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.LtE: ast.Gt}
OPPOSITE |= {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In}
SIGNS: dict[Any, Any] = {
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
# Texts, which stay as they are; names in backquotes; signs that pandas reads as words.
SPECIAL = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`([^`]+)`|([&|])""")
# Calls that say of a row what they say of it among others.
ROW_BY_ROW = {
    *("isna", "isnull", "notna", "notnull", "isin", "between", "abs", "round", "astype", "clip"),
    *("fillna", "Timestamp", "sin", "cos", "tan", "exp", "log", "log10", "log1p", "expm1", "sqrt"),
    *("arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "floor", "ceil"),
}
ACCESSORS = ("str", "dt")
OF_ALL_ROWS = ("cat", "get_dummies")


@dataclass(frozen=True)
class Condition:
    """Rows to choose: a query as pandas has it, an expression of Arrow's, or all rows (None)."""

    where: Any

    def __post_init__(self) -> None:
        """Refuse what chooses no rows of files."""
        if isinstance(self.where, str):
            _check_rows_apart(self.where)
        elif self.where is not None and not _is_expression(self.where):
            raise InputError(
                f"subset is a {type(self.where).__name__}, which cannot choose rows of files; "
                "write a query, such as subset='year > 2000'"
            )

    def names(self, columns: Sequence[str]) -> list[str]:
        """Columns that it may name."""
        if self.where is None:
            return []
        if isinstance(self.where, str):
            found = re.findall(r"`([^`]+)`|(\w+)", self.where)
            named = {one or other for one, other in found}
            return [name for name in columns if name in named]
        text = str(self.where)
        return [name for name in columns if _word(name, text) or "FieldPath(" in text]

    def divides(self) -> bool:
        """Whether it divides, which makes 0 / 0 missing in columns that may be missing."""
        tree = _tree(self.where) if isinstance(self.where, str) else None
        signs = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
        return tree is not None and any(isinstance(node, signs) for node in ast.walk(tree))

    def pushed(self, types: dict[str, Any]) -> Any:
        """An expression that is true of all rows that are chosen, and maybe of others; or None.

        Parameters
        ----------
        types : dict
            Arrow's types of the columns of a file.
        """
        tree = _tree(self.where) if isinstance(self.where, str) else None
        return None if tree is None else Pushed(types).of(tree.body)

    def choose(self, table: Any, row: str, nullable: Sequence[str] = ()) -> Any:
        """The rows of an Arrow table that it is true of.

        Parameters
        ----------
        table : Arrow table
        row : str
            Column of the rows' numbers, which queries know as `index`.
        nullable : sequence of str
            Columns of whole numbers to take for such as may be missing.
        """
        import pyarrow as pa

        if self.where is None:
            return table
        if not isinstance(self.where, str):
            try:
                return table.filter(self.where)
            except pa.ArrowException as error:
                raise InputError(f"subset={self.where} cannot be evaluated: {error}") from error
        frame = frames.read(table, self.names(table.column_names))
        frame.index = pd.Index(table.column(row).to_numpy())
        changed = {name: frames.NULLABLE.get(str(frame[name].dtype)) for name in nullable}
        frame = frame.astype({name: kind for name, kind in changed.items() if kind is not None})
        return table.filter(pa.array(subset_mask(frame, self.where)))


@dataclass(frozen=True)
class Pushed:
    """Turns a condition into an expression that rules out no row that pandas chooses.

    `!=` and `not` are true of some missing values in pandas, so they are made true of all
    of them. NaN is not in the statistics of a file, so both say nothing of floats.

    Attributes
    ----------
    types : dict
        Arrow's types by column.
    """

    types: dict[str, Any]

    def of(self, node: ast.expr, wanted: bool = True) -> Any:
        """An expression for a condition, or for its opposite; None if nothing is known."""
        if isinstance(node, ast.BoolOp):
            parts = [self.of(each, wanted) for each in node.values]
            return _joined(parts, isinstance(node.op, ast.And) == wanted)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
            return self.of(node.operand, not wanted)
        if isinstance(node, ast.Compare):
            terms = [node.left, *node.comparators]
            pairs = zip(terms[:-1], node.ops, terms[1:], strict=True)
            return _joined([self._compared(*pair, wanted) for pair in pairs], wanted)
        if isinstance(node, ast.Name):
            return self._compared(node, ast.Eq(), ast.Constant(True), wanted)
        return None

    def _compared(self, left: ast.expr, sign: ast.cmpop, right: ast.expr, wanted: bool) -> Any:
        """A column against a number, a text or a list of them; None for all else."""
        kind: Any = type(sign)
        if isinstance(right, ast.Name):
            left, right, kind = right, left, FLIPPED.get(kind)
        if not isinstance(left, ast.Name) or left.id not in self.types or kind not in OPPOSITE:
            return None
        many = kind in (ast.In, ast.NotIn)
        found, of = _constant(right), plain_type(self.types[left.id])
        if found is None or isinstance(found, list) != many:
            return None
        values = [_scalar(each, of, many) for each in (found if many else [found])]
        kind = kind if wanted else OPPOSITE[kind]
        loose = not wanted or kind in (ast.NotEq, ast.NotIn)
        return None if None in values else _expression(left.id, of, kind, values, loose)


def _expression(name: str, of: Any, kind: Any, values: list[Any], loose: bool) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if loose and pa.types.is_floating(of):
        return None
    column = pc.field(name)
    if kind in (ast.In, ast.NotIn):
        # Arrow takes a row group of zeros, whose statistics say -0.0, for one without any value
        # of a list; single comparisons it gets right.
        found = reduce(operator.or_, (column == value for value in values))
        found = found if kind is ast.In else ~found
    else:
        found = SIGNS[kind](column, values[0])
    return found | column.is_null() if loose else found


def _scalar(value: Any, of: Any, many: bool) -> Any:
    """A constant of the column's type, if it is exactly one; else None."""
    import pyarrow as pa

    try:
        if pa.types.is_temporal(of):
            return None if many or not isinstance(value, str) else _time(value, of)
        if pa.types.is_integer(of) and isinstance(value, float):
            value = int(value) if value.is_integer() and abs(value) < EXACT else None
        if of == pa.float64() and type(value) is int:
            value = float(value) if abs(value) < EXACT else None
        takes = {pa.bool_(): bool, pa.string(): str, pa.float64(): float}
        wanted = takes.get(of, int if pa.types.is_integer(of) else None)
        return pa.scalar(value, of) if type(value) is wanted else None
    except (ValueError, OverflowError, pa.ArrowException):
        return None


def _time(value: str, of: Any) -> Any:
    """A text as a date or a time, as pandas reads it."""
    import pyarrow as pa

    stamp = pd.Timestamp(value)
    if stamp.tz is not None or getattr(of, "tz", None) is not None:
        return None
    if of == pa.date32():
        made = pa.scalar(stamp.date(), of)
    elif pa.types.is_timestamp(of):
        made = pa.scalar(stamp, of)
    else:
        return None
    return made if pd.Timestamp(made.as_py()) == stamp else None


def _joined(parts: list[Any], both: bool) -> Any:
    """Conditions that must all hold, of which some may be unknown; or one of which must."""
    known = [part for part in parts if part is not None]
    if not known or (not both and len(known) < len(parts)):
        return None
    made = known[0]
    for part in known[1:]:
        made = made & part if both else made | part
    return made


def _constant(node: ast.expr) -> Any:
    """A number, a text, or a list of them; None if it is neither."""
    if isinstance(node, (ast.List, ast.Tuple)):
        values = [_constant(each) for each in node.elts]
        return None if None in values else values
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _constant(node.operand)
        return -value if type(value) in (int, float) else None
    return node.value if isinstance(node, ast.Constant) else None


def _tree(text: str) -> ast.Expression | None:
    """A query as pandas reads it: & and | bind as words do; None if it cannot be read."""
    quoted: dict[str, str] = {}

    def changed(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        if found[3]:
            return " and " if found[3] == "&" else " or "
        quoted[f"_quoted_{len(quoted)}"] = found[2]
        return f"_quoted_{len(quoted) - 1}"

    try:
        tree = ast.parse(SPECIAL.sub(changed, text).strip(), mode="eval")
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = quoted.get(node.id, node.id)
    return tree


def _check_rows_apart(text: str) -> None:
    """Refuse what looks at other rows: a chunk does not have them."""
    tree = _tree(text)
    bad = next((node for node in ast.walk(tree) if _of_others(node)), None) if tree else None
    if bad is not None:
        raise InputError(
            f"subset={text!r} looks at other rows in {ast.unparse(bad)!r}, but files are read a "
            "piece at a time; work out the value first, and write it into the query"
        )


def _of_others(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return True
    if isinstance(node, ast.Compare):
        pairs = zip(node.ops, node.comparators, strict=True)
        return any(isinstance(s, (ast.In, ast.NotIn)) and not _constant(v) for s, v in pairs)
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        lists = name != "isin" or all(_constant(each) for each in node.args)
        return not lists or not (name in ROW_BY_ROW or _on_accessor(node.func))
    if isinstance(node, ast.Attribute):
        return not (node.attr in {*ACCESSORS, *ROW_BY_ROW} or _on_accessor(node))
    return False


def _on_accessor(node: ast.expr) -> bool:
    """Whether it is something of a column's texts or times: s.str.lower, day.dt.year."""
    owner = getattr(node, "value", None)
    known = isinstance(owner, ast.Attribute) and owner.attr in ACCESSORS
    return known and getattr(node, "attr", "") not in OF_ALL_ROWS


def _word(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _is_expression(where: Any) -> bool:
    kind = type(where)
    return kind.__name__ == "Expression" and kind.__module__.startswith("pyarrow")
