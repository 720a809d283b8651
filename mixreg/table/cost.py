"""What a formula may cost: its limits, and what it would take, counted before anything runs.

Patsy expands products and powers of terms, and evaluates each piece of a formula as Python.
Both can fill the memory, or never end. Here the formula is only read: terms are counted on
patsy's parse tree, and columns and whole numbers on Python's.
"""

from __future__ import annotations

import ast
import io
import math
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import patsy
from patsy.infix_parser import ParseNode
from patsy.parse_formula import parse_formula

from mixreg.errors import InputError

# Characters of a formula, and of one piece of it.
LONGEST_FORMULA, LONGEST = 200_000, 10_000
# Levels of brackets in one piece, for formulas of files and of the command line.
DEEPEST = 100
# Levels of any formula: of brackets, as many as Python's tokenizer reads from 3.12 on; of terms,
# each of which takes patsy two calls; and of the code of a piece. Python's own limit of 1,000
# calls has room for them, but does not stand in for them: PyMC raises it to 10,000.
MOST_BRACKETS, DEEPEST_TERMS, DEEPEST_CODE = 200, 400, 650
# Terms after products and powers are expanded, and factors of one term: patsy looks at all
# subsets of a term's categories.
MOST_TERMS, MOST_FACTORS = 5_000, 12
# What patsy compares while it expands a formula; so much takes about a second.
MOST_WORK = 5_000_000
# Columns of all terms, and of one basis of splines.
MOST_COLUMNS, MOST_BASIS = 5_000, 1_000
# Splines of a degree of 20 and more write beyond an array of FITPACK's.
MOST_DEGREE = 10
# Binary digits of a whole number: (10**6)**64 has 1,276.
MOST_BITS = 2_048
# Numbers of so many digits are numpy's own integers; larger ones are Python's, which grow.
OWN_BITS = 63
# Characters of a formula in a message.
SHOWN = 80
# Frames that lie between here and where patsy reads the formula again.
FRAMES = 40

BASES = {
    "bs": ("x", "df", "knots", "degree"),
    "cr": ("x", "df", "knots", "lower_bound", "upper_bound", "constraints"),
    "cc": ("x", "df", "knots", "lower_bound", "upper_bound", "constraints"),
}
PLAIN = frozenset({"center", "standardize", "scale"})
CONTRASTS = frozenset({"Treatment", "Poly", "Sum", "Helmert", "Diff"})


def described(formula: str) -> patsy.ModelDesc:
    """The terms of a formula, once it is known that they can be listed.

    Examples
    --------
    >>> from mixreg.table.cost import described
    >>> len(described("y ~ (a + b + c)**2").rhs_termlist)
    7
    """
    if len(formula) > LONGEST_FORMULA:
        raise InputError(
            f"the formula has {len(formula):,} characters; it may have up to {LONGEST_FORMULA:,}. "
            "Give the columns as arrays, as in MixReg(endog, exog, k=3)"
        )
    if _bracket_levels(formula) > MOST_BRACKETS:
        raise _too_deep()
    try:
        tree = parse_formula(formula)
    except (AssertionError, IndexError, SyntaxError, ValueError) as error:
        # Patsy expects fewer kinds of damage than Python's tokenizer knows.
        if "nested" in str(error.__context__):
            raise _too_deep() from error
        raise InputError(
            f"formula {shown(formula)} cannot be read; check its quotes, brackets and signs"
        ) from error
    _check_expansion(tree)
    if _is_deeper(tree, DEEPEST_TERMS, lambda node: node.args):
        raise _too_deep()
    try:
        return _deeper(FRAMES, lambda: patsy.ModelDesc.from_formula(formula))
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> InputError:
    return InputError(
        "the formula is nested too deeply, or joins more terms than patsy can read (about "
        "400). Give the columns as arrays, as in MixReg(endog, exog, k=3)"
    )


def tokens(formula: str) -> list[str]:
    """Names, numbers, texts and signs of a formula; those that can be read."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(formula).readline):
            found.append(token.string)
    except (tokenize.TokenError, SyntaxError):  # who reads it next says what is wrong
        pass
    return [each for each in found if each.strip()]


def _bracket_levels(formula: str) -> int:
    """Brackets that are open at once, at most; those in texts are not counted."""
    level = most = 0
    for token in tokens(formula):
        level += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
        most = max(most, level)
    return most


def is_too_deep(tree: ast.AST) -> bool:
    """Whether a piece of a formula is nested more deeply than it may be."""
    return _is_deeper(tree, DEEPEST_CODE, ast.iter_child_nodes)


def _is_deeper(tree: Any, most: int, parts: Callable[[Any], Iterable[Any]]) -> bool:
    """Whether a tree has more levels than `most`; looked at level by level, without recursion."""
    level = [tree]
    for _ in range(most):
        level = [part for node in level for part in parts(node)]
    return bool(level)


def _deeper(frames: int, call: Callable[[], Any]) -> Any:
    return call() if frames == 0 else _deeper(frames - 1, call)


def _check_expansion(tree: ParseNode) -> None:
    """Refuse a formula whose terms are too many once products and powers are expanded."""
    # Terms and most factors of a term of each node, bottom up; nesting may be deep.
    found: dict[int, tuple[int, int]] = {}
    work = 0
    for node in _bottom_up(tree):
        terms, factors, more = _expanded(node, [found.pop(id(each)) for each in node.args])
        work += more
        if terms > MOST_TERMS:
            raise InputError(
                f"the formula has about {terms:,} terms once its products and powers are expanded; "
                f"it may have up to {MOST_TERMS:,}. Leave out interactions: (a + b + c)**2 has "
                "those of two variables only"
            )
        if factors > MOST_FACTORS:
            raise InputError(
                f"the formula has a term of {factors} factors; a term may have up to "
                f"{MOST_FACTORS}. Leave out interactions of so many variables"
            )
        if work > MOST_WORK:
            raise InputError(
                f"the formula takes more than {MOST_WORK:,} steps to expand. Name fewer terms, "
                "and leave out products whose terms are taken away again"
            )
        found[id(node)] = terms, factors


def _bottom_up(tree: ParseNode) -> Iterator[ParseNode]:
    """Nodes after their arguments."""
    waiting, order = [tree], []
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(node.args)
    return reversed(order)


def _expanded(node: ParseNode, inner: list[tuple[int, int]]) -> tuple[int, int, int]:
    """Terms at most, factors of a term at most, and what patsy does to expand them."""
    if not inner:
        return 1, 1, 1
    if len(inner) == 1:
        return *inner[0], sum(inner[0])
    (terms, factors), (more, other) = inner
    if node.type == "-":
        return terms, factors, terms * more * max(factors, other)
    if node.type == "**":
        return _power(terms, factors, node.args[1])
    if node.type == "*":
        terms, factors = terms + more + terms * more, factors + other
    elif node.type == ":":
        terms, factors = terms * more, factors + other
    elif node.type == "/":
        # All that is left of it is one term with each of what is right.
        terms, factors = terms + more, terms * factors + other
    else:
        terms, factors = terms + more, max(factors, other)
    return terms, factors, terms * factors


def _power(terms: int, factors: int, exponent: ParseNode) -> tuple[int, int, int]:
    """The same for a power: all choices of at most so many terms."""
    try:
        most = max(1, min(terms, int(exponent.token.extra)))
    except (TypeError, ValueError):
        return terms, factors, terms  # patsy refuses it
    total, each = 0, 1
    for number in range(1, most + 1):
        each = each * (terms - number + 1) // number
        total += each
        if total > MOST_TERMS:
            break
    return total, min(most, MOST_FACTORS) * factors, terms * total * factors


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of a piece of a formula that was not evaluated.

    Attributes
    ----------
    kind : str
        "number", "column", "vector" (an array that is no column), "basis" (several columns),
        "text", "list", "category", "contrast" or "unknown".
    number : int, float or None
        If it is known.
    columns : int
        Columns that a basis or the levels of a category make.
    bits : int
        Binary digits of whole numbers, at most.
    """

    kind: str
    number: float | None = None
    columns: int = 1
    bits: int = OWN_BITS


UNKNOWN = Value("unknown")
NO_ARITHMETIC = ("text", "list", "category", "contrast")
ROWS = ("unknown", "column", "text", "vector")
GROWING = (ast.Mult, ast.Mod, ast.Pow, ast.LShift)


def known_number(value: Any) -> Value:
    """A plain number as it is."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        value = int(value)
    bits = value.bit_length() if isinstance(value, int) else OWN_BITS
    if bits > MOST_BITS:
        raise _too_large()
    return Value("number", value, bits=max(bits, OWN_BITS))


def _too_large() -> InputError:
    return InputError(
        f"the formula has a whole number of more than {MOST_BITS:,} binary digits; write it as a "
        "decimal, such as 1e30, or make a column of it before the fit"
    )


@dataclass
class Measure:
    """What a piece of a formula would cost, without evaluating it.

    Attributes
    ----------
    columns : collection of str
        Names of the table's columns.
    outside : dict
        Plain values that are named beside columns.
    strict : bool
        Whether the formula comes from a file or a command line: what cannot be counted is
        refused. If not, it is the user's own, and passes.
    levels : dict
        Values of each column that holds text or categories, counted.
    """

    columns: Any
    outside: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    levels: Mapping[str, int] = field(default_factory=dict)
    widest: int = 1

    def __call__(self, node: ast.expr) -> Value:
        """What is known of one node; raises InputError if it costs too much."""
        found = self._value(node)
        if found.kind == "basis":
            self.widest = max(self.widest, found.columns)
            if found.columns > MOST_BASIS:
                raise InputError(
                    f"{_shown(node)} makes {found.columns:,} columns; one basis may have up to "
                    f"{MOST_BASIS:,}. Give a smaller df, or fewer knots"
                )
        return found

    def _value(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            number = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}.get(node.attr)
            return UNKNOWN if number is None else Value("number", number)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.BinOp):
            return self._operation(node, self(node.left), self(node.right))
        if isinstance(node, ast.Compare):
            return self._beside(node, [self(each) for each in (node.left, *node.comparators)])
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            for each in node.elts:
                self(each)
            return Value("list", columns=len(node.elts))
        return UNKNOWN

    def _constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, (bool, int, float)):
            return known_number(node.value)
        return Value("text") if isinstance(node.value, (str, bytes)) else UNKNOWN

    def _name(self, name: str) -> Value:
        if name in self.levels:
            return Value("text", columns=self.levels[name])
        if name in self.columns:
            return Value("column")
        value = self.outside.get(name)
        if isinstance(value, np.ndarray) and value.size == 1:
            return known_number(value.reshape(-1)[0])
        if isinstance(value, np.ndarray):
            # Beside a column, an array of two dimensions would be a table of rows x rows.
            kind = "vector" if value.ndim == 1 else "list"
            return Value(kind, columns=max(value.shape, default=1))
        if isinstance(value, (bool, int, float, np.number)):
            return known_number(value)
        if isinstance(value, str):
            return Value("text")
        return Value("contrast") if name in CONTRASTS else UNKNOWN

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self(node.operand)
        if self.strict and value.kind in NO_ARITHMETIC:
            raise _no_numbers(node)
        if value.number is None:
            return value
        return self._folded(node, lambda: _UNARY[type(node.op)](value.number))

    def _operation(self, node: ast.BinOp, left: Value, right: Value) -> Value:
        odd = {left.kind, right.kind} & set(NO_ARITHMETIC)
        if odd and (self.strict or (isinstance(node.op, GROWING) and odd & {"text", "list"})):
            raise _no_numbers(node)
        power = isinstance(node.op, ast.Pow)
        if left.number is not None and right.number is not None and type(node.op) in _BINARY:
            if power and _power_bits(left, right) > MOST_BITS:
                raise _too_large()
            if isinstance(node.op, ast.LShift):
                return UNKNOWN
            return self._folded(node, lambda: _BINARY[type(node.op)](left.number, right.number))
        kind = self._beside(node, [left, right])
        bits = max(left.bits, right.bits)
        if bits > OWN_BITS:
            if power:
                bits = _power_bits(left, right)
            elif isinstance(node.op, ast.Mult):
                bits = left.bits + right.bits
            else:
                bits += 1
        return self._of_bits(kind, bits)

    def _of_bits(self, value: Value, bits: int) -> Value:
        if bits > MOST_BITS:
            raise _too_large()
        return Value(value.kind, None, value.columns, bits)

    def _folded(self, node: ast.expr, make: Callable[[], Any]) -> Value:
        """A number that is made of numbers."""
        try:
            made = make()
        except (ArithmeticError, TypeError, ValueError) as error:
            raise InputError(f"{_shown(node)} has no value: {error}") from error
        return known_number(made) if isinstance(made, (bool, int, float)) else UNKNOWN

    def _beside(self, node: ast.expr, values: list[Value]) -> Value:
        """Values that stand beside each other, row by row."""
        wide = [value for value in values if value.kind == "basis"]
        rows = [value for value in values if value.kind not in ("number", "basis")]
        if self.strict and wide and (rows or len(wide) > 1):
            # A column beside a basis of one column would be a table of rows x rows.
            raise InputError(
                f"{_shown(node)} has several columns beside others; for interactions of splines "
                "write te(cr(a, df=4), cr(b, df=4)), or terms with ':'"
            )
        if wide:
            return wide[0]
        kinds = {value.kind for value in values}
        if isinstance(node, ast.Compare):
            return Value("column" if kinds - {"number"} else "number")
        known = (value for kind in ROWS for value in values if value.kind == kind)
        return next(known, Value("number"))

    def _call(self, node: ast.Call) -> Value:
        given = [self(each) for each in node.args]
        named = {each.arg: self(each.value) for each in node.keywords}
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name in self.outside or name is None:
            return self._function(node, [*given, *named.values()])
        if name == "Q" and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
            return self._name(str(node.args[0].value))
        if name == "I" and len(given) == 1:
            return given[0]
        if name == "C":
            return self._category(node)
        if name in BASES:
            return self._basis(node, name, given, named)
        if name == "te":
            others = max((each.columns for each in named.values()), default=1)
            return Value("basis", columns=max(others, math.prod(each.columns for each in given)))
        if name in CONTRASTS:
            return Value("contrast")
        if name in PLAIN and given:
            return given[0] if given[0].kind == "basis" else Value("column")
        return self._function(node, [*given, *named.values()])

    def _category(self, node: ast.Call) -> Value:
        """A category, which has as many columns as levels."""
        inner = next((k.value for k in node.keywords if k.arg == "data"), None)
        inner = node.args[0] if inner is None and node.args else inner
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
            quoted = inner.func.id == "Q" and len(inner.args) == 1
            inner = inner.args[0] if quoted else inner
        name = getattr(inner, "id", None) or getattr(inner, "value", None)
        whole = self.levels.get(ast.unparse(node), 1)
        known = self.levels.get(f"C({name})") or self.levels.get(str(name), whole)
        if known > MOST_BASIS and "Poly" in ast.unparse(node):
            raise InputError(
                f"{_shown(node)} has polynomials of {known:,} levels; they may have up to "
                f"{MOST_BASIS:,}. Use the numbers themselves, or a spline"
            )
        return Value("category", columns=known)

    def _basis(
        self, node: ast.Call, name: str, given: list[Value], named: dict[str | None, Value]
    ) -> Value:
        """Columns of splines: as many as df says, or as there are knots and some."""
        asked: dict[Any, Value] = dict(zip(BASES[name], given, strict=False)) | named
        df, degree = (self._whole(node, asked, part) for part in ("df", "degree"))
        if degree > MOST_DEGREE:
            raise InputError(
                f"{_shown(node)} has splines of degree {degree:,}; a degree may be up to "
                f"{MOST_DEGREE}. The usual one is 3"
            )
        knots = asked.get("knots", UNKNOWN)
        count = knots.columns + degree + 2 if knots.kind in ("list", "vector") else 0
        # The intercept and constraints of a basis are columns that are made and dropped.
        wide = max((asked[part].columns for part in asked if part == "constraints"), default=0)
        return Value("basis", columns=max(df, count, wide, degree + 1))

    def _whole(self, node: ast.Call, asked: dict[Any, Value], part: str) -> int:
        """A count that splines are given; 0 if they are not."""
        value = asked.get(part)
        if value is None or value.number is None:
            written = [each.value for each in node.keywords if each.arg == part]
            written += node.args[1:2] if part == "df" else node.args[3:4]
            none = all(isinstance(each, ast.Constant) and each.value is None for each in written)
            if self.strict and value is not None and not none:
                raise InputError(f"{part} of {_shown(node)} must be a number, such as {part}=4")
            return 3 if part == "degree" else 0
        if not math.isfinite(value.number):
            raise InputError(f"{part} of {_shown(node)} is {value.number}; give a whole number")
        return math.ceil(value.number)

    def _function(self, node: ast.Call, given: list[Value]) -> Value:
        """A function of numpy's, or one that is not known."""
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        if name == "where" and any(each.kind == "text" for each in given[1:]):
            return Value("text")
        if not self.strict:
            return UNKNOWN
        if any(each.kind in NO_ARITHMETIC for each in given):
            raise _no_numbers(node)
        kind = self._beside(node, given)
        bits = max((each.bits for each in given), default=OWN_BITS)
        if bits > OWN_BITS:
            bits = {"square": 2 * bits}.get(str(name), bits + 1)
            if name == "power" and len(given) == 2:
                bits = _power_bits(*given)
        return self._of_bits(kind, bits)


def _power_bits(base: Value, exponent: Value) -> int:
    """Binary digits of a power of a whole number, at most; too many if that is not known."""
    whole = isinstance(base.number, int) or base.number is None
    if not whole or isinstance(exponent.number, float):
        return OWN_BITS
    if isinstance(base.number, int) and abs(base.number) <= 1:
        return OWN_BITS
    if exponent.number is None:
        return OWN_BITS if max(base.bits, exponent.bits) <= OWN_BITS else MOST_BITS + 1
    digits = base.bits if base.number is None else base.number.bit_length()
    return max(OWN_BITS, digits * max(int(exponent.number), 1))


_UNARY: dict[Any, Callable[[Any], Any]] = {
    ast.USub: lambda a: -a,
    ast.UAdd: lambda a: +a,
    ast.Invert: lambda a: ~a,
    ast.Not: lambda a: not a,
}
_BINARY: dict[Any, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.LShift: lambda a, b: a,
    ast.RShift: lambda a, b: a >> min(b, MOST_BITS),
}


def shown(text: str) -> str:
    """A formula, or a piece of one, in a message: no longer than a line."""
    return repr(text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}...")


def _shown(node: ast.expr) -> str:
    return shown(ast.unparse(node))


def _no_numbers(node: ast.expr) -> InputError:
    return InputError(
        f"{_shown(node)} computes with text, categories or lists, which are not numbers; make a "
        "column of numbers before the fit"
    )


def pieces(side: Any) -> Iterator[str]:
    """The pieces of some terms that are evaluated as Python."""
    return iter(dict.fromkeys(factor.code for term in side for factor in term.factors))


def parsed(code: str) -> ast.expr | None:
    """A piece of a formula as Python reads it; None if it cannot."""
    try:
        return ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def columns_of(code: str, columns: Any, levels: Mapping[str, int]) -> int:
    """Columns that a piece of a formula makes, as far as that is known."""
    tree = parsed(code)
    if tree is None:
        return 1
    try:
        found = Measure(columns, levels=levels)(tree)
    except RecursionError:
        return 1
    if found.kind in ("text", "category"):
        return max(1, found.columns - 1)
    return found.columns if found.kind == "basis" else 1
