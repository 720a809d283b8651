"""Functions of numpy that formulas may use, and how they are written."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np

from mixreg.errors import InputWarning, warn

P = ParamSpec("P")
T = TypeVar("T")

NO_VALUE = (
    "the formula has no value in some rows, as with the logarithm of a negative number; such rows "
    "count as missing. Correct the column, or choose rows by subset="
)
NUMPY = frozenset(
    [
        "abs",
        "absolute",
        "arccos",
        "arccosh",
        "arcsin",
        "arcsinh",
        "arctan",
        "arctan2",
        "arctanh",
        "cbrt",
        "ceil",
        "clip",
        "cos",
        "cosh",
        "deg2rad",
        "exp",
        "exp2",
        "expm1",
        "fabs",
        "floor",
        "fmax",
        "fmin",
        "hypot",
        "isfinite",
        "isnan",
        "log",
        "log10",
        "log1p",
        "log2",
        "logaddexp",
        "maximum",
        "minimum",
        "mod",
        "negative",
        "power",
        "rad2deg",
        "reciprocal",
        "rint",
        "round",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
        "trunc",
        "where",
    ]
)


def written_with_np(name: str, code: str) -> str | None:
    """A piece of a formula with numpy's functions written as such; None if `name` is none of them.

    R has log and sqrt without a prefix; here they are np.log and np.sqrt.
    """
    if name not in NUMPY or not _calls(name).search(code):
        return None
    for each in sorted(NUMPY):
        code = _calls(each).sub(f"np.{each}(", code)
    return code


def _calls(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){name}\(")


def evaluating(told: bool = True) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Hold numpy's warnings back while a function evaluates a formula.

    Infinite values are refused later, by name. Values that do not exist, as the logarithm of a
    negative number, are missing, which is told once all went well, unless `told` is False.
    """

    def around(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            seen: list[str] = []
            with np.errstate(divide="ignore", over="ignore"):
                # Who has numpy ignore it wants no word of it.
                if told and np.geterr()["invalid"] == "warn":
                    np.seterr(invalid="call")
                    np.seterrcall(lambda kind, flag: seen.append(kind))
                found = function(*args, **kwargs)
            if seen:
                warn(NO_VALUE, InputWarning)
            return found

        return call

    return around
