"""Threads: one for linear algebra while rows are swept, several for blocks of rows.

Products of blocks are too small to share between threads of a linear algebra
library: with another process busy on the machine, waiting for each other costs
them ten times what they save. Blocks are shared out instead. That pays because
numpy lets go of the interpreter's lock in `numpy.dot` and in its ufuncs; in
`numpy.matmul`, the operator `@`, it does not, so tasks use `dot` for what is large.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from typing import Any, TypeVar

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
    """Who holds linear algebra to one thread: the first limits it, the last lets it go."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.given = 1
        self.limiter: Any = None

    def enter(self) -> None:
        with self.lock:
            if self.depth == 0:
                self.given = _given()
                self.limiter = _libraries().limit(limits=1)
            self.depth += 1

    def leave(self) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self.limiter.restore_original_limits()


_hold = _Hold()


def _given() -> int:
    given = [library["num_threads"] for library in _libraries().info()]
    return max(1, min([MOST, *given])) if given else 1


def allowed() -> int:
    """Threads that a sweep may use: as many as linear algebra was given before it was held."""
    return _hold.given if _hold.depth else _given()


@lru_cache(maxsize=MOST)
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix=NAME)


def _forget() -> None:
    """A forked process has none of its parent's threads, and none of its locks."""
    global _hold
    _pool.cache_clear()
    depth, given, limiter = _hold.depth, _hold.given, _hold.limiter
    _hold = _Hold()
    _hold.depth, _hold.given, _hold.limiter = depth, given, limiter


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# Just below the most that glibc lets such a hint be.
HINT_BYTES = 31 << 20


@lru_cache(maxsize=1)
def keep_memory() -> None:
    """Have the allocator keep what it is given back, instead of asking the system anew.

    glibc keeps up to twice the largest piece that was ever given back whole. Without the hint a
    pass spends up to two thirds of its time on pages it had before (doctorvisits of the
    benchmark, eight runs: 45 ms against 15 ms for ten passes).
    """
    np.empty(HINT_BYTES, dtype=np.uint8)


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold linear algebra to one thread, and put its number back afterwards."""
    keep_memory()
    _hold.enter()
    try:
        yield
    finally:
        _hold.leave()


def spread(function: Callable[[T], R], parts: Sequence[T]) -> Iterator[R]:
    """Call a function on every part, on several threads, and yield results in order."""
    size = allowed()
    nested = threading.current_thread().name.startswith(NAME)
    if size == 1 or len(parts) == 1 or nested:
        return map(function, parts)
    # Numpy's settings for floating point errors belong to the context.
    runs = [_pool(size).submit(copy_context().run, function, part) for part in parts]
    return (run.result() for run in runs)
