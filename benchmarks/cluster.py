"""A Dask cluster of this machine against one process, and what it would take at a larger scale.

python -m benchmarks.cluster [rows]
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import psutil
from distributed import Client, LocalCluster
from distributed.protocol.pickle import dumps

from mixreg import MixReg
from mixreg.estimators.expectation import SoftAssignment
from mixreg.sources import client as clients
from mixreg.sources import cluster

COLUMNS, K, NOISE = 20, 5, 0.5


def part(number: int, rows: int, columns: int = COLUMNS, k: int = K) -> pd.DataFrame:
    """Rows of one partition, of k planes."""
    coef = 2 * np.random.default_rng(0).standard_normal((k, columns))
    rng = np.random.default_rng([1, number])
    x = rng.standard_normal((rows, columns))
    x[:, 0] = 1.0
    y = np.einsum("np,np->n", x, coef[rng.integers(0, k, rows)])
    frame = pd.DataFrame(x[:, 1:], columns=[f"x{i}" for i in range(1, columns)])
    return frame.assign(y=y + NOISE * rng.standard_normal(rows))


FORMULA = "y ~ " + " + ".join(f"x{i}" for i in range(1, COLUMNS))


@dataclass
class Passes:
    """What was sent and came back, by pass."""

    names: list[str] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    back: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def of(self, name: str) -> tuple[int, int, float]:
        """Most bytes of the graph and of the result, and median seconds, of passes of a kind."""
        here = [i for i, each in enumerate(self.names) if each == name]
        sent, back = (max(kind[i] for i in here) for kind in (self.sent, self.back))
        return sent, back, float(np.median([self.seconds[i] for i in here]))


@contextmanager
def counted() -> Any:
    """Count what goes to the cluster and comes back."""
    passes, sweep, get = Passes(), cluster.ClusterStore.sweep, clients.Cluster.get

    def counting(self: Any, task: Any, params: Any) -> Any:
        passes.names.append(cluster.what(task))
        begin = time.perf_counter()
        found = sweep(self, task, params)
        passes.seconds.append(time.perf_counter() - begin)
        return found

    def weighed(self: Any, graph: Any, key: Any) -> Any:
        found = get(self, graph, key)
        if len(passes.names) > len(passes.sent):
            passes.sent.append(len(dumps(graph)))
            passes.back.append(len(dumps(found)))
        return found

    cluster.ClusterStore.sweep, clients.Cluster.get = counting, weighed
    try:
        yield passes
    finally:
        cluster.ClusterStore.sweep, clients.Cluster.get = sweep, get


def timed(call: Any) -> tuple[Any, float]:
    begin = time.perf_counter()
    return call(), time.perf_counter() - begin


def on_cluster(rows: int, parts: int) -> tuple[Any, float, float, Passes]:
    """A fit on the workers: results, seconds of declaring and of fitting, and its passes."""
    frame = dd.from_map(part, range(parts), rows=rows // parts, meta=part(0, 1).iloc[:0])
    frame = frame.persist()
    frame.map_partitions(len).compute()
    with counted() as passes:
        model, declared = timed(lambda: MixReg.from_formula(FORMULA, frame, k=K))
        res, took = timed(model.fit)
    return res, declared, took, passes


def in_memory(rows: int, parts: int) -> tuple[Any, float, float]:
    """The same in one process."""
    frame = pd.concat([part(i, rows // parts) for i in range(parts)], ignore_index=True)
    model, declared = timed(lambda: MixReg.from_formula(FORMULA, frame, k=K))
    res, took = timed(model.fit)
    return res, declared, took


def compare(client: Client, rows: int, parts: int) -> Passes:
    """Two workers against one process, on the same rows."""
    there, declared, took, passes = on_cluster(rows, parts)
    memory = client.run(lambda: psutil.Process().memory_info().rss)
    here, declared_here, took_here = in_memory(rows, parts)
    print(f"{rows:,} x {COLUMNS}, k={K}, {parts} partitions")
    print(f"  one process: declaring {declared_here:.1f} s, fitting {took_here:.1f} s")
    print(f"  two workers: declaring {declared:.1f} s, fitting {took:.1f} s")
    print(f"  fitting: {took / took_here:.2f} times; all: ", end="")
    print(f"{(declared + took) / (declared_here + took_here):.2f} times")
    print(f"  log-likelihoods differ by {abs(there.llf / here.llf - 1):.0e} of their size")
    print(f"  passes over all rows {len(passes.names)}, memory of a worker ", end="")
    print(f"{max(memory.values()) / 1e9:.2f} GB")
    return passes


def bytes_of_passes(sizes: tuple[int, ...], parts: int) -> None:
    """Bytes of a pass at several numbers of rows."""
    for rows in sizes:
        passes = on_cluster(rows, parts)[-1]
        sent, back, _ = passes.of("SoftAssignment")
        print(f"  {rows:>10,} rows: an EM pass sends {sent:,} bytes, {back:,} come back")


def nothing(sums: Any, number: int) -> Any:
    """What a pass over a partition without rows would return."""
    return sums


def make_sums() -> Any:
    """Sums of an EM pass over some rows."""
    from mixreg.mixture.parameters import Parameters
    from mixreg.sources.block import Block

    frame = part(0, 2_000)
    model = MixReg.from_formula(FORMULA, frame, k=K)
    start = Parameters.uniform(np.zeros((K, 1, COLUMNS)), 1.0)
    block = model.source.standard(model.whitening).as_block()
    assert isinstance(block, Block)
    return SoftAssignment(model.mixture)(block, start)


def reduction(client: Client, partitions: tuple[int, ...]) -> float:
    """Seconds that Dask takes for each task of a pass over partitions that have nothing to do.

    The scheduler of a `LocalCluster` runs in this process, so that its time can be told from
    that of the workers, which share the same cores.
    """
    sums = make_sums()
    size = len(dumps(sums))
    _, once = timed(lambda: [sums + sums for _ in range(1000)])
    print(f"  sums of an EM pass: {size:,} bytes, {once * 1e3:.1f} µs to add two")
    each = 0.0
    for count in partitions:
        name = clients.labelled("nothing")
        keys = [(name, i) for i in range(count)]
        graph: dict[Any, Any] = {key: (nothing, name, i) for i, key in enumerate(keys)}
        graph[name] = sums
        total = clients.tree(graph, keys, clients.labelled("add nothing"))
        begin, busy = time.perf_counter(), time.process_time()
        clients.Cluster(client).get(graph, total)
        took, busy = time.perf_counter() - begin, time.process_time() - busy
        each = busy / len(graph)
        print(f"  {count:,} partitions: {len(graph):,} tasks in {took:.2f} s, ", end="")
        print(f"{each * 1e6:.0f} µs each of client and scheduler")
    return each


def estimate(pass_rows: float, task_seconds: float, rows: float = 1e10, workers: int = 100) -> None:
    """What a pass takes on a cluster, from what was measured here.

    Parameters
    ----------
    pass_rows : float
        Rows of a pass that one worker with one thread does in a second.
    task_seconds : float
        What the scheduler takes for a task.
    """
    each, held = 1e6, rows / workers * 8 * (COLUMNS + 1)
    parts = int(rows / each)
    tasks = parts + parts // (clients.ADDED_AT_ONCE - 1)
    print(f"estimate for {rows:.0e} x {COLUMNS}, k={K} on {workers} workers of one thread")
    print(f"  a worker holds {held / 1e9:.1f} GB; {parts:,} partitions of {each:.0e} rows")
    print(f"  a pass: {rows / workers / pass_rows:.0f} s of work on each worker, ", end="")
    print(f"{tasks * task_seconds:.0f} s of scheduling for {tasks:,} tasks")


def main(rows: int = 2_000_000, parts: int = 8) -> None:
    """All of it; for `python -m benchmarks scale` too."""
    own = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with own, Client(own) as client:
        on_cluster(20_000, 2)  # workers import the package
        passes = compare(client, rows, parts)
        sent, back, took = passes.of("SoftAssignment")
        print(f"  an EM pass: {took:.3f} s, sends {sent:,} bytes, {back:,} come back")
        bytes_of_passes((rows // 4, rows // 2), parts)
        task_seconds = reduction(client, (100, 10_000))
        estimate(rows / 2 / took, task_seconds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
