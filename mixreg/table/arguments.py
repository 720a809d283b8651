"""Arguments that a function does not have, told by the name that users know it by."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def called(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Refuse arguments that do not fit as `name`, with the nearest one that does."""

    def around(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}() {error}{_nearest(signature, kwargs)}") from None
            return function(*args, **kwargs)

        return call

    return around


def _nearest(signature: inspect.Signature, given: dict[str, object]) -> str:
    known = [each for each in signature.parameters if each not in ("self", "cls")]
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            return f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(known)}"
    return ""
