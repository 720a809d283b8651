"""A bar that comes when work takes long, and goes when it is done."""

from __future__ import annotations

import math
import sys
import time
import warnings
from contextlib import suppress
from typing import Any, Self

from mixreg.errors import InputError

# Seconds before a bar comes by itself, and between two looks at it.
PATIENCE, OFTEN = 2.0, 0.1


def is_watched() -> bool:
    """Whether somebody looks on: standard error is a terminal, or this is a notebook."""
    find_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if find_shell is not None and hasattr(find_shell(), "kernel"):
        return True
    with suppress(AttributeError, ValueError):
        # There may be no standard error, or it may be closed.
        return bool(sys.stderr.isatty())
    return False


def is_wanted(progress: Any) -> bool:
    """Whether a bar may be shown; refuse what is not True, False or None."""
    if progress is not None and not isinstance(progress, bool):
        raise InputError(
            f"progress={progress!r} must be True (show a bar), False (show none) or None (show "
            "one on a terminal or in a notebook, after two seconds); leave it out for None"
        )
    return is_watched() if progress is None else progress


def _make(**options: Any) -> Any:
    with warnings.catch_warnings():
        # Tqdm says what its bars in notebooks lack; those on standard error do as well.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm

        return tqdm(leave=False, **options)


class Bar:
    """A progress bar, made when it is first to be seen.

    Parameters
    ----------
    title : str
    progress : bool or None
        Show it at once, never, or by itself: after two seconds, if somebody looks on.
    total : int, optional
        Steps to come, where that is known.
    """

    def __init__(self, title: str, progress: bool | None = None, total: int | None = None) -> None:
        self.title, self.total, self.count = title, total, 0
        self.begin = time.perf_counter()
        wait = 0.0 if progress else PATIENCE
        self.due = self.begin + wait if is_wanted(progress) else math.inf
        self._bar: Any = None

    def __enter__(self) -> Self:
        """Show it, if that is asked for in any case."""
        if self.is_due():
            self.show()
        return self

    def __exit__(self, *error: object) -> None:
        """Let it go."""
        self.due = math.inf
        if self._bar is not None:
            self._bar.close()

    def is_due(self) -> bool:
        """Whether it is time to look at it."""
        return time.perf_counter() >= self.due

    def step(self) -> None:
        """Count a step."""
        self.count += 1
        if self.is_due():
            self.show()

    def show(self, stage: str = "", beside: str = "") -> None:
        """Bring it up to date."""
        if self._bar is None:
            self._bar = _make(desc=self.title, total=self.total)
            self._bar.start_t -= time.perf_counter() - self.begin
        self._bar.set_description_str(f"{self.title}, {stage}" if stage else self.title, False)
        self._bar.set_postfix_str(beside, False)
        self._bar.n = self.count
        self._bar.refresh()
        self.due = time.perf_counter() + OFTEN
