"""Functions of numpy that formulas may use, and how they are written."""

from __future__ import annotations

import re

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
