"""Threads: one for linear algebra while rows are swept, several for blocks of rows.

Products of blocks are too small to share between threads of a linear algebra
library: with another process busy on the machine, waiting for each other costs
them ten times what they save. Blocks are shared out instead. That pays because
numpy lets go of the interpreter's lock in `numpy.dot` and in its ufuncs; in
`numpy.matmul`, the operator `@`, it does not, so tasks use `dot` for what is large.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ContextDecorator, suppress
from contextvars import copy_context
from functools import lru_cache
from typing import Any, Self, TypeVar
from weakref import WeakSet

import numpy as np
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

# The interpreter's lock lets few threads work at once to any use: a pass over 100,000 x 20 with
# five components takes 28 ms on one and 16 ms on two; more than two were not measured.
MOST = 4
NAME = "mixreg"


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """The linear algebra libraries of this process, found once."""
    return ThreadpoolController().select(user_api="blas")


class _Hold:
    """Who holds linear algebra to one thread: the first limits it, the last lets it go.

    An interrupt may come between any two steps. So what is to be put back is known before it
    is changed, and holders are held weakly: one that never left is gone with its frame.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders: WeakSet[one_thread] = WeakSet()
        self.given = 1
        self.before: Any = None

    def enter(self, holder: one_thread) -> None:
        with self.lock:
            if self.before is None:
                self.given = _given()
                # Changes nothing, and knows what there was.
                self.before = _libraries().limit(limits=None)
                _libraries().limit(limits=1)
            self.holders.add(holder)

    def leave(self, holder: one_thread) -> None:
        with self.lock:
            self.holders.discard(holder)
            if self.before is not None and not self.holders:
                self.before.restore_original_limits()
                self.before = None


_hold = _Hold()


def _given() -> int:
    given = [library["num_threads"] for library in _libraries().info()]
    return max(1, min([MOST, *given])) if given else 1


def allowed() -> int:
    """Threads that a sweep may use: as many as linear algebra was given before it was held."""
    return _given() if _hold.before is None else _hold.given


@lru_cache(maxsize=MOST)
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix=NAME)


def _forget() -> None:
    """A forked process has none of its parent's threads, and none of its locks."""
    global _hold
    _pool.cache_clear()
    holders, given, before = _hold.holders, _hold.given, _hold.before
    _hold = _Hold()
    _hold.holders, _hold.given, _hold.before = holders, given, before


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# Just below the most that glibc lets such a hint be.
HINT_BYTES = 31 << 20
# What sets thresholds, and their numbers in glibc's malloc.h.
SET_BY = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3


@lru_cache(maxsize=1)
def keep_memory() -> None:
    """Have the allocator keep what it is given back, instead of asking the system anew.

    glibc keeps up to twice the largest piece that was ever given back whole. Without the hint a
    pass spends up to two thirds of its time on pages it had before (doctorvisits of the
    benchmark, eight runs: 45 ms against 15 ms for ten passes). It goes unheard where the
    environment sets a threshold, as Dask does for its workers, whose passes then take three times
    as long: there the allocator is told in so many words.
    """
    np.empty(HINT_BYTES, dtype=np.uint8)
    if any(name in os.environ for name in SET_BY):
        with suppress(OSError, AttributeError):
            tell = ctypes.CDLL(None).mallopt
            tell(MMAP_THRESHOLD, HINT_BYTES)
            tell(TRIM_THRESHOLD, 2 * HINT_BYTES)


class one_thread(ContextDecorator):
    """Hold linear algebra to one thread, and put its number back afterwards."""

    def _recreate_cm(self) -> Self:
        return type(self)()

    def __enter__(self) -> None:
        """Hold it."""
        keep_memory()
        try:
            _hold.enter(self)
        except BaseException:
            _hold.leave(self)
            raise

    def __exit__(self, *error: object) -> None:
        """Let it go."""
        _hold.leave(self)


def spread(function: Callable[[T], R], parts: Sequence[T]) -> Iterator[R]:
    """Call a function on every part, on several threads, and yield results in order."""
    size = allowed()
    nested = threading.current_thread().name.startswith(NAME)
    if size == 1 or len(parts) == 1 or nested:
        return map(function, parts)
    return _in_order(_pool(size), function, parts)


def _in_order(
    pool: ThreadPoolExecutor, function: Callable[[T], R], parts: Sequence[T]
) -> Iterator[R]:
    runs: list[Future[R]] = []
    try:
        for part in parts:
            # Numpy's settings for floating point errors belong to the context.
            runs.append(pool.submit(copy_context().run, function, part))
        for run in runs:
            yield run.result()
    except BaseException:
        # After an error or an interrupt no thread works on for nobody.
        for run in runs:
            run.cancel()
        wait(runs)
        raise
