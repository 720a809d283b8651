"""The gate for formulas: what a file may name, and nothing else.

Formulas are evaluated as Python when columns are made. A file comes from anywhere, so each
factor of a stored formula is parsed, and only arithmetic, comparisons, columns, patsy's own
functions and a list of numpy's are let through.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import numpy as np

from mixreg.errors import FileFormatError
from mixreg.table.functions import NUMPY
from mixreg.table.recipe import Module, Recipe

PATSY = frozenset({"C", "I", "Q", "bs", "cr", "cc", "te", "center", "standardize", "scale"})
CONTRASTS = frozenset({"Treatment", "Poly", "Sum", "Helmert", "Diff"})
CONSTANTS = frozenset({"pi", "e", "inf", "nan"})
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr)
# Powers of plain numbers beyond these could take for ever.
LARGEST, HIGHEST = 1e6, 64
# So would splines with more pieces than this fill the memory.
SPLINES, MOST_KNOTS = frozenset({"bs", "cr", "cc"}), 1_000
# Keywords of numpy's functions that choose no place to write to, and no kind of object.
KEYWORDS = frozenset({"a_min", "a_max", "min", "max", "decimals"})
IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
LONGEST = 10_000
NAMES = re.compile(r"[^\W\d]\w*")
DEEPEST = 100


def check_recipe(recipe: Recipe, columns: frozenset[str]) -> None:
    """Refuse a side of a formula that names what a file may not name."""
    named = {name for factor in recipe.factors for name in NAMES.findall(factor.code)}
    for name, value in recipe.outside.items():
        _check_outside(name, value)
        if name in columns or name not in named:
            raise FileFormatError(f"the formula has no place for {name[:60]!r}")
    for factor in recipe.factors:
        check_code(factor.code, columns, recipe.outside)


def check_code(code: str, columns: frozenset[str], outside: dict[str, Any]) -> None:
    """Refuse a factor that is more than arithmetic of columns and known functions."""
    if len(code) > LONGEST:
        raise FileFormatError(f"a factor of the formula has {len(code)} characters; too many")
    try:
        tree = ast.parse(code, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FileFormatError(f"the formula's {code[:60]!r} cannot be read") from error
    _Gate(columns, outside).value(tree.body, 0)


def function_name(value: Any) -> str | None:
    """The name of a numpy function that a file may name, or None."""
    for name in NUMPY:
        if value is getattr(np, name):
            return name
    return None


def _check_outside(name: str, value: Any) -> None:
    """Refuse what a formula names beside columns, unless it is numpy's or a plain value."""
    if isinstance(value, Module):
        good = value.name == "numpy"
    elif isinstance(value, np.ndarray):
        good = value.dtype.kind in "fib"
    else:
        good = isinstance(value, (bool, int, float, str, np.number)) or value is None
        good = good or function_name(value) is not None
    if not good:
        raise _refused(name)


def _refused(what: str) -> FileFormatError:
    return FileFormatError(
        f"the formula names {what!r}, which a file may not keep; it may have arithmetic, "
        "comparisons, columns, patsy's functions and numpy's such as np.log. Make a column of it "
        "before the fit, or use pickle"
    )


class _Gate:
    """Walks an expression; whatever is not known is refused by name."""

    def __init__(self, columns: frozenset[str], outside: dict[str, Any]) -> None:
        self.columns, self.outside = columns, outside

    def value(self, node: ast.expr, depth: int) -> None:
        """A number, a column, or arithmetic of them."""
        if depth > DEEPEST:
            raise FileFormatError("the formula is nested too deeply")
        inner = depth + 1
        if isinstance(node, ast.Constant):
            self._number(node)
        elif isinstance(node, ast.Name):
            self._name(node)
        elif isinstance(node, ast.BinOp):
            self._operation(node, inner)
        elif isinstance(node, ast.UnaryOp):
            self.value(node.operand, inner)
        elif isinstance(node, ast.Compare) and not any(
            isinstance(each, IDENTITY) for each in node.ops
        ):
            for each in (node.left, *node.comparators):
                self._compared(each, inner)
        elif isinstance(node, ast.Call):
            self._call(node, inner)
        elif not self._is_constant(node):
            raise _refused(ast.unparse(node)[:60])

    def _number(self, node: ast.Constant) -> None:
        if type(node.value) not in (bool, int, float):
            raise _refused(repr(node.value)[:60])

    def _name(self, node: ast.Name) -> None:
        value = self.outside.get(node.id)
        plain = node.id in self.outside and not isinstance(value, Module) and not callable(value)
        if node.id not in self.columns and not plain:
            raise _refused(node.id)

    def _operation(self, node: ast.BinOp, depth: int) -> None:
        if isinstance(node.op, ast.Pow):
            self._power(node)
        elif not isinstance(node.op, OPERATORS):
            raise _refused(ast.unparse(node)[:60])
        self.value(node.left, depth)
        self.value(node.right, depth)

    def _power(self, node: ast.BinOp) -> None:
        """Powers of columns are numpy's; powers of plain numbers must be small."""
        small = _small(node.left, LARGEST) and _small(node.right, HIGHEST)
        if not (small or self._has_column(node.left) or self._has_column(node.right)):
            raise _refused(ast.unparse(node)[:60])

    def _has_column(self, node: ast.expr) -> bool:
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        # A column's name may be that of a function: what `Q` names was looked at.
        quoted = any(isinstance(each, ast.Call) and _is_q(each) for each in ast.walk(node))
        return bool(names & self.columns) or quoted

    def _compared(self, node: ast.expr, depth: int) -> None:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            self.value(node, depth)

    def _is_constant(self, node: ast.expr) -> bool:
        """Whether a node is such as np.pi."""
        return isinstance(node, ast.Attribute) and self._of_numpy(node) and node.attr in CONSTANTS

    def _of_numpy(self, node: ast.Attribute) -> bool:
        owner = node.value
        return isinstance(owner, ast.Name) and self.outside.get(owner.id) == Module("numpy")

    def _call(self, node: ast.Call, depth: int) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            known = function.id in PATSY | CONTRASTS and function.id not in self.outside
            good = known or function_name(self.outside.get(function.id)) is not None
        else:
            numpy = isinstance(function, ast.Attribute) and self._of_numpy(function)
            good = numpy and function.attr in NUMPY  # type: ignore[attr-defined]
        if not good or any(keyword.arg is None for keyword in node.keywords):
            raise _refused(ast.unparse(function)[:60])
        if isinstance(function, ast.Name) and function.id in PATSY | CONTRASTS:
            self._check_call(node, function.id)
        else:
            kinds = {a.id for a in node.args if isinstance(a, ast.Name)} & CONTRASTS
            written = len(node.args) > getattr(self._numpy(function), "nin", len(node.args))
            if kinds or written or any(keyword.arg not in KEYWORDS for keyword in node.keywords):
                raise _refused(ast.unparse(node)[:60])
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self._argument(argument, depth)

    def _numpy(self, function: ast.expr) -> Any:
        """The function of numpy's that is called."""
        if isinstance(function, ast.Attribute):
            return getattr(np, function.attr)
        assert isinstance(function, ast.Name)
        return self.outside[function.id]

    def _check_call(self, node: ast.Call, name: str) -> None:
        """Refuse a quoted name that is no column, and splines that fill the memory."""
        if name == "Q":
            (only,) = node.args if len(node.args) == 1 and not node.keywords else (None,)
            if not (isinstance(only, ast.Constant) and only.value in self.columns):
                raise _refused(ast.unparse(node)[:60])
        if name in SPLINES:
            sizes = [keyword.value for keyword in node.keywords if keyword.arg in ("df", "degree")]
            for size in (*sizes, *node.args[1:2]):
                given = isinstance(size, ast.Constant) and size.value is not None
                if given and not _small(size, MOST_KNOTS):
                    raise _refused(ast.unparse(node)[:60])

    def _argument(self, node: ast.expr, depth: int) -> None:
        """A value, a text, nothing, a kind of contrast, or a list of numbers and texts."""
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str)):
            return
        if isinstance(node, ast.Name) and node.id in CONTRASTS and node.id not in self.outside:
            return
        if isinstance(node, (ast.List, ast.Tuple)):
            for each in node.elts:
                self._compared(each, depth + 1)
            return
        self.value(node, depth)


def _is_q(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "Q"


def _small(node: ast.expr, most: float) -> bool:
    """Whether a node is a plain number of at most this size."""
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    number = isinstance(inner, ast.Constant) and type(inner.value) in (int, float)
    return number and abs(inner.value) <= most  # type: ignore[attr-defined]
