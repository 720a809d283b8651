"""Threads: one for linear algebra while rows are swept, several for blocks of rows.

Products of blocks are too small to share between threads of a linear algebra
library: with another process busy on the machine, waiting for each other costs
them ten times what they save. Blocks are shared out instead. That pays because
numpy lets go of the interpreter's lock in `numpy.dot` and in its ufuncs; in
`numpy.matmul`, the operator `@`, it does not, so tasks use `dot` for what is large.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

# The interpreter's lock lets no more than this many threads work at once to any use.
MOST = 4


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """The linear algebra libraries of this process, found once."""
    return ThreadpoolController().select(user_api="blas")


@lru_cache(maxsize=1)
def allowed() -> int:
    """Threads that a sweep may use: as many as linear algebra was given."""
    given = [library["num_threads"] for library in _libraries().info()]
    return max(1, min([MOST, *given])) if given else 1


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(allowed(), thread_name_prefix="mixreg")


# A forked process has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


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
    allowed()
    keep_memory()
    with _libraries().limit(limits=1):
        yield


def spread(function: Callable[[T], R], parts: Sequence[T]) -> Iterator[R]:
    """Call a function on every part, on several threads, and yield results in order."""
    if allowed() == 1 or len(parts) == 1:
        return map(function, parts)
    # Numpy's settings for floating point errors belong to the context.
    runs = [_pool().submit(copy_context().run, function, part) for part in parts]
    return (run.result() for run in runs)
