"""Arguments that a function does not have, told by the name that users know it by."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

from mixreg.errors import nearest

P = ParamSpec("P")
T = TypeVar("T")


def called(name: str, declared: Collection[str] = ()) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Refuse arguments that do not fit as `name`, with the nearest one that does.

    Those that are `declared` belong to the model.
    """

    def around(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                hint = _belongs(declared, kwargs) or _nearest(signature, kwargs)
                raise TypeError(f"{name}() {error}{hint}") from None
            return function(*args, **kwargs)

        return call

    return around


def _belongs(declared: Collection[str], given: dict[str, object]) -> str:
    found = next((name for name in given if name in declared), None)
    if found is None:
        return ""
    return (
        f"; {found}= belongs to the model: MixReg.from_formula(formula, data, k=..., {found}=...)"
        if found != "k"
        else "; k= belongs to the model: MixReg.from_formula(formula, data, k=...)"
    )


def _nearest(signature: inspect.Signature, given: dict[str, object]) -> str:
    known = [each for each in signature.parameters if each not in ("self", "cls")]
    for name in given:
        if name not in known:
            return nearest(name, known, "it has")
    return ""
