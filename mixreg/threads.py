"""One thread for linear algebra while rows are swept.

Products of blocks are too small to share between threads: with another process
busy on the machine, waiting for each other costs them ten times what they save.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """The linear algebra libraries of this process, found once."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold linear algebra to one thread, and put its number back afterwards."""
    with _libraries().limit(limits=1):
        yield
