"""Blocks on the workers of a Dask cluster.

A partition's blocks stay on the worker that made them; a worker that is lost has its partitions
made anew elsewhere. Tasks and parameters go out, sums come back: they are added up on the
workers, neighbours first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mixreg.sources.base import Parts, Task, goes_in_order, pieces, swept
from mixreg.sources.block import Block
from mixreg.sources.client import Cluster, labelled, tree
from mixreg.sources.one_block import block_rows, parts
from mixreg.sources.stages import under_way
from mixreg.sources.stream import Shape, StreamSource
from mixreg.sources.threads import one_thread

Array = NDArray[np.float64]
T = TypeVar("T")

# Partitions whose results are under way while one of them is used.
AHEAD = 4
# Tasks and parameters are put beside each partition up to this many bytes in all; beyond, workers
# hand them on to each other, which takes a message more.
BESIDE_BYTES = 1_000_000


@dataclass(frozen=True, eq=False)
class Held:
    """What a worker has of a partition.

    Attributes
    ----------
    blocks : tuple of Block
        Their units are numbered from 0.
    beside : object
        What is kept beside them, such as names of the rows.
    """

    blocks: tuple[Block, ...]
    beside: Any = None

    def __sizeof__(self) -> int:
        """Bytes, by which Dask decides what to move and what to put on disk."""
        return sum(_bytes(block) for block in self.blocks)


def _bytes(block: Block) -> int:
    columns = (getattr(block, field.name) for field in fields(block))
    return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))


def held(block: Block | None, beside: Any = None) -> Held:
    """A partition's rows, cut into parts of the size of a block."""
    if block is None:
        return Held((), beside)
    rows = block_rows(block.x.shape[1])
    return Held(tuple(block.cut(*place) for place in parts(block, rows)), beside)


def shape_of(rows: Held) -> Shape:
    """The shape of a partition."""
    return sum((Shape.of(block) for block in rows.blocks), Shape())


@dataclass(frozen=True, slots=True)
class Numbered:
    """Task: another one, of blocks whose units are numbered from elsewhere."""

    task: Task[Any]
    first: int

    def __call__(self, block: Block, params: Any) -> Any:
        """Process one block."""
        return self.task(replace(block, first=block.first + self.first), params)


def said(task: Any, params: Any) -> bytes:
    """A task and its parameters as bytes; functions of the user's script are among them."""
    from distributed.protocol.pickle import dumps

    return bytes(dumps((task, params)))


def heard(message: bytes) -> Any:
    """What was said."""
    from distributed.protocol.pickle import loads

    return loads(message)


def on_part(message: bytes, rows: Held, first: int) -> Any:
    """Run a task on the blocks of a partition, on a worker, and add up what it returns."""
    task, params = heard(message)
    with one_thread():
        return swept(rows.blocks, Numbered(task, first), params)


def joined_part(message: bytes, rows: Held, first: int) -> Array:
    """What a task says of each unit of a partition; of one without rows, nothing."""
    told = on_part(message, rows, first) if rows.blocks else None
    return np.empty(0) if told is None else np.asarray(told.join())


def brought(rows: Held) -> Held:
    """A partition as it is."""
    return rows


def on_first(message: bytes, rows: Held) -> Any:
    """What a task says of the first block of a partition."""
    task, params = heard(message)
    return task(rows.blocks[0], params)


@dataclass(frozen=True, eq=False)
class ClusterStore:
    """Blocks on a cluster.

    Attributes
    ----------
    cluster : Cluster
    every : tuple of futures
        Rows of all partitions (`Held`), in order.
    shapes : tuple of Shape
        The shape of each.
    shape : Shape
    """

    cluster: Cluster
    every: tuple[Any, ...]
    shapes: tuple[Shape, ...]
    shape: Shape

    def _there(self) -> Iterator[tuple[Any, int]]:
        """Partitions that have rows, and the number of the first unit of each."""
        first = 0
        for rows, shape in zip(self.every, self.shapes, strict=True):
            if shape.units:
                yield rows, first
            first += shape.units

    def sweep(self, task: Task[T], params: Any) -> T:
        """Run a task on every block and add up what it returns, in order."""
        name, message = labelled(under_way(), what(task)), said(task, params)
        there = list(self._there())
        graph: dict[Any, Any] = {}
        spoken: Any = message
        if len(message) * len(there) > BESIDE_BYTES:
            spoken = f"{name}-say"
            graph[spoken] = message
        for i, (rows, first) in enumerate(there):
            graph[name, i] = (on_part, spoken, rows, first)
        total = tree(graph, [(name, i) for i in range(len(there))], labelled("add", what(task)))
        return self.cluster.get(graph, total)

    def pieces(self, task: Task[Parts], params: Any) -> Iterator[Array]:
        """What a task says of each unit, partition by partition, in order, as it is asked for.

        A task that must see them one after the other is run here.
        """
        if goes_in_order(task):
            yield from self._here(task, params)
            return
        name, message = labelled(under_way(), what(task)), said(task, params)
        begun: deque[Any] = deque()
        for i, (rows, first) in enumerate(self._there()):
            graph = {(name, i): (joined_part, message, rows, first)}
            begun.append(self.cluster.begin(graph, (name, i)))
            if len(begun) > AHEAD:
                yield from self._told(begun.popleft())
        while begun:
            yield from self._told(begun.popleft())

    def _here(self, task: Task[Parts], params: Any) -> Iterator[Array]:
        name = labelled("fetch rows", what(task))
        for i, (rows, first) in enumerate(self._there()):
            fetched = self.cluster.get({(name, i): (brought, rows)}, (name, i))
            yield from pieces(fetched.blocks, Numbered(task, first), params)

    def _told(self, begun: Any) -> Iterator[Array]:
        found = self.cluster.awaited(begun)
        if found.size:
            yield found

    def first(self, task: Task[T]) -> T:
        """What a task says of the first block."""
        name, (rows, _) = labelled("first block", what(task)), next(self._there())
        return self.cluster.get({name: (on_first, said(task, None), rows)}, name)

    def lazily(self, task: Task[Parts], params: Any) -> list[Any]:
        """What a task says of each unit, as delayed objects, one for each partition."""
        from dask import delayed

        name, firsts = labelled("labels", what(task)), np.cumsum([0, *self._units()])
        message = delayed(said(task, params), name=f"{name}-say")
        return [
            delayed(joined_part)(message, rows, int(first), dask_key_name=f"{name}-{i}")
            for i, (rows, first) in enumerate(zip(self.every, firsts, strict=False))
        ]

    def _units(self) -> list[int]:
        return [shape.units for shape in self.shapes]


def cluster_source(cluster: Cluster, every: Sequence[Any], shapes: Sequence[Shape]) -> StreamSource:
    """Rows on the workers of a cluster, as a source."""
    shape = sum(shapes, Shape())
    return StreamSource(ClusterStore(cluster, tuple(every), tuple(shapes), shape), shape)


def what(task: Any) -> str:
    """What a task is called: its name, or that of the tasks within."""
    if hasattr(task, "tasks"):
        return " ".join(what(each) for each in task.tasks)
    if hasattr(task, "task"):
        return what(task.task)
    return str(getattr(task, "__name__", type(task).__name__))
