"""Which stage of a fit is under way, for those who send its work elsewhere and label it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_stage: ContextVar[str] = ContextVar("mixreg_stage", default="rows")


def begin(stage: str) -> None:
    """Another stage begins."""
    _stage.set(stage)


def under_way() -> str:
    """The stage that is under way."""
    return _stage.get()


@contextmanager
def stages() -> Iterator[None]:
    """Stages that begin in here end with it."""
    token = _stage.set(_stage.get())
    try:
        yield
    finally:
        _stage.reset(token)
