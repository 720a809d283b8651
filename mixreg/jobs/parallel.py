"""Many independent pieces of work, on this process or on several.

Worker processes are started afresh ("spawn"), not forked: a fork copies the
threads of a linear algebra library in an unknown state. A worker does not run
the user's script again, so no `if __name__ == "__main__"` is needed, and uses
one thread. Starting workers takes about as long as importing the package, so
short work stays in this process.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

from tqdm.auto import tqdm

from mixreg.table.checks import whole

T = TypeVar("T")
R = TypeVar("R")

# Workers are worth their start when they save this many seconds.
WORTH = 3.0
# Tasks on their way to each worker; the others are not made yet.
AHEAD = 4
NO_MORE = object()
MAIN = "__main__"
THREADS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def run_all(
    function: Callable[[T], R],
    tasks: Iterable[T],
    n_jobs: int | None = None,
    progress: bool = False,
    desc: str = "mixreg",
    *,
    costs: Sequence[float],
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
        Number of processes; 1 is this one. None uses all cores once the first
        tasks show that this saves time.
    progress : bool
        Show a progress bar.
    desc : str
        Its title.
    costs : sequence of float
        Cost of each task relative to the others.
    """
    jobs = cores() if n_jobs is None else whole("n_jobs", n_jobs, 1)
    jobs = min(jobs, len(costs))
    if multiprocessing.current_process().daemon:
        jobs = 1
    queue = iter(tasks)
    results: list[R] = []
    payload = None if jobs == 1 else _packed(function)
    with tqdm(total=len(costs), disable=not progress, desc=desc) as bar:
        begin = time.perf_counter()
        while len(results) < len(costs):
            done, left = math.fsum(costs[: len(results)]), math.fsum(costs[len(results) :])
            seconds = (time.perf_counter() - begin) * left / done if done else 0.0
            if payload and (n_jobs is not None or seconds * (1 - 1 / jobs) > WORTH):
                break
            results.append(function(next(queue)))
            bar.update()
        if payload and len(results) < len(costs):
            for result in _in_workers(payload, queue, min(jobs, len(costs) - len(results))):
                results.append(result)
                bar.update()
    return results


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _packed(function: Any) -> bytes | None:
    """The function as bytes, or None if a worker could not read them."""
    try:
        payload = pickle.dumps(function, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if MAIN.encode() in payload else payload


def _in_workers(payload: bytes, queue: Iterator[Any], jobs: int) -> Iterator[Any]:
    """Results in order; only a few tasks are under way at any time."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_adopt, initargs=(payload,))
    pending: deque[Future[Any]] = deque()
    try:
        while True:
            while len(pending) < AHEAD * jobs:
                task = next(queue, NO_MORE)
                if task is NO_MORE:
                    break
                with _fresh_start():
                    pending.append(pool.submit(_call, task))
            if not pending:
                return
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a worker process ended before its work was done, most often for lack of memory; "
            "use a smaller n_jobs, or n_jobs=1 to work in this process"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _fresh_start() -> Iterator[None]:
    """While workers start: one thread each, and no look at the user's script."""
    before = {name: os.environ.get(name) for name in THREADS}
    main = sys.modules[MAIN]
    os.environ.update(dict.fromkeys(THREADS, "1"))
    sys.modules[MAIN] = ModuleType(MAIN)
    try:
        yield
    finally:
        sys.modules[MAIN] = main
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_function: Callable[[Any], Any] | None = None


def _adopt(payload: bytes) -> None:
    """Keep the function for the tasks to come."""
    global _function
    _function = pickle.loads(payload)


def _call(task: Any) -> Any:
    assert _function is not None
    return _function(task)
