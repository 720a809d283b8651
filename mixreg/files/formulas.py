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

from mixreg.errors import FileFormatError, InputError
from mixreg.table.cost import (
    CONTRASTS,
    DEEPEST,
    LONGEST,
    MOST_BASIS,
    MOST_COLUMNS,
    MOST_DEGREE,
    MOST_FACTORS,
    Measure,
)
from mixreg.table.functions import NUMPY
from mixreg.table.recipe import Factor, Module, Recipe

PATSY = frozenset({"C", "I", "Q", "bs", "cr", "cc", "te", "center", "standardize", "scale"})
CONSTANTS = frozenset({"pi", "e", "inf", "nan"})
OPERATORS = (
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.FloorDiv,
    ast.Mod,
    ast.Pow,
    ast.BitAnd,
    ast.BitOr,
)
# Keywords of numpy's functions that choose no place to write to, and no kind of object.
KEYWORDS = frozenset({"a_min", "a_max", "min", "max", "decimals"})
IDENTITY = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
NAMES = re.compile(r"[^\W\d]\w*")


def check_recipe(recipe: Recipe, columns: frozenset[str]) -> None:
    """Refuse a side of a formula that names what a file may not name."""
    named = {name for factor in recipe.factors for name in NAMES.findall(factor.code)}
    for name, value in recipe.outside.items():
        _check_outside(name, value)
        if name in columns or name not in named:
            raise FileFormatError(f"the formula has no place for {name[:60]!r}")
    made = 0
    for factor in recipe.factors:
        found = check_code(factor.code, columns, recipe.outside)
        made += len(factor.levels or ()) or max(found.widest, factor.columns or 1)
        for state in factor.states:
            _check_state(state, factor, found.widest)
    if max(made, len(recipe.names)) > MOST_COLUMNS:
        raise FileFormatError(
            f"the formula makes {max(made, len(recipe.names)):,} columns; a formula may make up "
            f"to {MOST_COLUMNS:,}"
        )
    products = [term.factors for term in recipe.terms]
    products += [each.factors for term in recipe.terms for each in term.subterms]
    if any(len(factors) > MOST_FACTORS for factors in products):
        raise FileFormatError(f"a term of the formula has more than {MOST_FACTORS} factors")


def check_code(code: str, columns: frozenset[str], outside: dict[str, Any]) -> Measure:
    """Refuse a factor that is more than arithmetic of columns and known functions.

    Returns what it would cost.
    """
    if len(code) > LONGEST:
        raise FileFormatError(
            f"a factor of the formula has {len(code):,} characters; it may have up to {LONGEST:,}"
        )
    try:
        tree = ast.parse(code, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FileFormatError(f"the formula's {code[:60]!r} cannot be read") from error
    _Gate(columns, outside).value(tree.body, 0)
    measure = Measure(columns, outside, strict=True)
    try:
        measure(tree.body)
    except FileFormatError:
        raise
    except InputError as error:
        raise FileFormatError(f"the formula cannot be used: {error}") from error
    return measure


def _check_state(state: dict[str, Any], factor: Factor, widest: int) -> None:
    """Refuse what a transform is said to have learnt if it makes more than its formula says."""
    for name, value in state.items():
        if name == "_degree":
            good = value is None or (type(value) is int and 0 <= value <= MOST_DEGREE)
        elif name == "_all_knots":
            # Those at the ends are repeated by the degree.
            most = MOST_BASIS + 2 * MOST_DEGREE + 2
            good = value is None or (np.ndim(value) == 1 and np.size(value) <= most)
        elif name == "_constraints":
            good = value is None or (np.ndim(value) == 2 and max(np.shape(value)) <= MOST_BASIS)
        else:
            # Means and deviations, one for each column.
            good = np.size(value) <= max(widest, 1)
        if not good:
            raise FileFormatError(
                f"the file does not hold together: {factor.code[:60]!r} has more columns than its "
                "formula makes"
            )


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
        if not isinstance(node.op, OPERATORS):
            raise _refused(ast.unparse(node)[:60])
        self.value(node.left, depth)
        self.value(node.right, depth)

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
        """Refuse a quoted name that is no column."""
        if name == "Q":
            (only,) = node.args if len(node.args) == 1 and not node.keywords else (None,)
            if not (isinstance(only, ast.Constant) and only.value in self.columns):
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
