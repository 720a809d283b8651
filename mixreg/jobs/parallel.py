"""Many independent pieces of work, on this process or on several.

Worker processes are programs of their own (`worker.py`), not forks: a fork copies
the threads of a linear algebra library in an unknown state. A worker does not run
the user's script, so no `if __name__ == "__main__"` is needed, and uses one thread.
Work that names things of that script cannot be read by a worker, and stays in this
process. Starting workers takes about as long as importing the package, so short work
stays here too.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from queue import Queue
from typing import Any, TypeVar

from mixreg.jobs.bar import Bar
from mixreg.jobs.worker import Worker
from mixreg.table.checks import whole

T = TypeVar("T")
R = TypeVar("R")

# Workers are worth their start when they save this many seconds.
WORTH = 3.0
# Tasks on their way to each worker; the others are not made yet.
AHEAD = 4
NO_MORE = object()
# Seconds in which Ctrl-C is heard: not every system wakes who waits for a thread.
HEARD = 0.2


def run_all(
    function: Callable[[T], R],
    tasks: Iterable[T],
    n_jobs: int | None = None,
    progress: bool | None = None,
    desc: str = "mixreg",
    *,
    costs: Sequence[float],
    at_once: bool = False,
) -> list[R]:
    """Run a function on every task and return what it gave, in the order of the tasks.

    Parameters
    ----------
    function : callable
        Sent once to each worker, so it may carry data. If it cannot be sent, or
        is made of things defined in the user's script, all runs in this process.
    tasks : iterable
        Made one by one, as they are needed.
    n_jobs : int, optional
        Most processes; 1 is this one, None as many as there are cores. Others are
        started once the first tasks show that this saves time.
    progress : bool, optional
        Show a progress bar, or none; by itself if None.
    desc : str
        Its title.
    costs : sequence of float
        Cost of each task relative to the others.
    at_once : bool
        Start the processes whatever they save.
    """
    jobs = cores() if n_jobs is None else whole("n_jobs", n_jobs, 1)
    jobs = min(jobs, len(costs))
    if multiprocessing.current_process().daemon:
        jobs = 1
    queue = iter(tasks)
    results: list[R] = []
    payload = None if jobs == 1 else _packed(function)
    with Bar(desc, progress, len(costs)) as bar:
        begin = time.perf_counter()
        while len(results) < len(costs):
            done, left = math.fsum(costs[: len(results)]), math.fsum(costs[len(results) :])
            seconds = (time.perf_counter() - begin) * left / done if done else 0.0
            if payload and (at_once or seconds * (1 - 1 / jobs) > WORTH):
                break
            results.append(function(next(queue)))
            bar.step()
        if payload and len(results) < len(costs):
            with _workers(payload, min(jobs, len(costs) - len(results))) as workers:
                for result in _in_workers(workers, queue) if workers else map(function, queue):
                    results.append(result)
                    bar.step()
    return results


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _packed(function: Any) -> bytes | None:
    """The function as bytes, or None if it cannot be sent."""
    try:
        return pickle.dumps(function, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


@contextmanager
def _workers(payload: bytes, jobs: int) -> Iterator[list[Worker]]:
    """Processes that have read the function; none if the first cannot read it."""
    with ExitStack() as stack:
        # The threads are left last: those that wait for a worker end with it.
        starters = stack.enter_context(ThreadPoolExecutor(jobs))
        first = stack.enter_context(Worker())
        if not _result(starters.submit(first.understands, payload)):
            yield []
            return
        others = [stack.enter_context(Worker()) for _ in range(jobs - 1)]
        for answer in [starters.submit(worker.understands, payload) for worker in others]:
            _result(answer)
        yield [first, *others]


def _in_workers(workers: list[Worker], queue: Iterator[Any]) -> Iterator[Any]:
    """Results in order; only a few tasks are under way at any time."""
    idle: Queue[Worker] = Queue()
    for worker in workers:
        idle.put(worker)

    def work(task: Any) -> Any:
        worker = idle.get()
        try:
            return worker(task)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(len(workers))
    pending: deque[Future[Any]] = deque()
    try:
        while True:
            while len(pending) < AHEAD * len(workers):
                task = next(queue, NO_MORE)
                if task is NO_MORE:
                    break
                pending.append(threads.submit(work, task))
            if not pending:
                return
            yield _result(pending.popleft())
    finally:
        for worker in workers:
            worker.process.kill()
        threads.shutdown(cancel_futures=True)


def _result(run: Future[Any]) -> Any:
    """What a piece of work gave; Ctrl-C is heard while it is waited for."""
    while not wait([run], HEARD).done:
        pass
    return run.result()
