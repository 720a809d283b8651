"""Trials in parallel: processes with one thread for linear algebra each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import TypeVar

from threadpoolctl import threadpool_limits
from tqdm import tqdm

Job = TypeVar("Job")
Answer = TypeVar("Answer")


def run_all(work: Callable[[Job], Answer], jobs: Iterable[Job], workers: int = 2) -> list[Answer]:
    """Do all jobs, in their order; with one worker, in this process."""
    jobs = list(jobs)
    if workers == 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [work(job) for job in tqdm(jobs, leave=False)]
    return list(tqdm(_pool(workers).map(work, jobs), total=len(jobs), leave=False))


@cache
def _pool(workers: int) -> ProcessPoolExecutor:
    """Processes that are started once for all tables."""
    return ProcessPoolExecutor(workers, get_context("spawn"), _quiet)


def _quiet() -> None:
    """What a process does first."""
    warnings.simplefilter("ignore")
    threadpool_limits(1)
