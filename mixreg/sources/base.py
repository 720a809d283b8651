"""What a source promises, and the sweep: one pass that adds up a task's results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from operator import add
from typing import Any, Protocol, TypeVar

from mixreg.sources.block import Block, GramBlock
from mixreg.sources.threads import spread

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


# A pass is shared out in so many parts, whatever the number of threads: sums are then
# added in the same order on every machine.
PARTS = 8


def sweep(blocks: Iterable[Any], task: Task[T], params: Any = None) -> T:
    """Run `task(block, params)` on every block and add up the results, in order.

    For blocks that are views of memory: all of them are there at once.
    """
    every = list(blocks)
    if not every:
        raise ValueError("the source has no blocks; give it at least one row")
    each = -(-len(every) // PARTS)
    parts = [every[first : first + each] for first in range(0, len(every), each)]
    return reduce(add, spread(partial(_add_up, task, params), parts))


def _add_up(task: Task[T], params: Any, blocks: Sequence[Any]) -> T:
    return reduce(add, (task(block, params) for block in blocks))
