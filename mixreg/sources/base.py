"""What a source promises, and the sweep: one pass that adds up a task's results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from mixreg.blocks import Block, GramBlock

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Task(Protocol[T_co]):
    """A picklable callable that turns a block into something that adds up."""

    def __call__(self, block: Any, params: Any) -> T_co:
        """Process one block."""
        ...


class Source(Protocol):
    """Rows somewhere, cut into blocks of whole groups."""

    def blocks(self) -> Iterator[Block | GramBlock]:
        """Yield the blocks in order."""
        ...

    def sweep(self, task: Task[T], params: Any = None) -> T:
        """Run a task on every block and add up what it returns."""
        ...


def sweep(blocks: Iterable[Any], task: Task[T], params: Any = None) -> T:
    """Run `task(block, params)` on every block and add up the results, in order."""
    total: Any = None
    for block in blocks:
        part = task(block, params)
        total = part if total is None else total + part
    if total is None:
        raise ValueError("the source has no blocks; give it at least one row")
    return total
