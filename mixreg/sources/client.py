"""A Dask client: work is sent to its cluster and waited for.

Dask is imported when a cluster is asked for. Work is a graph, sent as one message; its keys say
what it is for, so that Dask's dashboard shows it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

from mixreg.errors import ClusterError, NotAvailableError, needs
from mixreg.sources.base import added

# Seconds after which somebody who waits looks whether the cluster is still there ...
LOOKED_AFTER = 5.0
# ... and in which a cluster without workers may get some.
WITHOUT_WORKERS = 120.0
# Results that are added up by one task: neighbours, in order.
ADDED_AT_ONCE = 8

_numbers = itertools.count()


class Cluster:
    """Where work is sent.

    Parameters
    ----------
    client : distributed.Client
    own : distributed.LocalCluster, optional
        Made for it, and closed with it.
    """

    def __init__(self, client: Any, own: Any = None) -> None:
        self.client = client
        self._close = None if own is None else weakref.finalize(self, _close, client, own)

    def get(self, graph: dict[Any, Any], key: Any) -> Any:
        """What one key of a graph comes to; Ctrl-C cancels what is under way."""
        return self.awaited(self.begin(graph, key))

    def begin(self, graph: dict[Any, Any], key: Any) -> Any:
        """A future of one key of a graph."""
        self._check_open()
        return self.client.get(graph, key, sync=False)

    def compute(self, delayed: Sequence[Any]) -> list[Any]:
        """Futures of delayed objects."""
        self._check_open()
        return list(self.client.compute(list(delayed)))

    def gathered(self, delayed: Sequence[Any]) -> list[Any]:
        """What delayed objects come to, in order."""
        futures = self.compute(delayed)
        try:
            return [self.awaited(future) for future in futures]
        except BaseException:
            self._cancel(futures)
            raise

    def awaited(self, future: Any) -> Any:
        """What a future comes to; errors of tasks are raised as they are."""
        try:
            return self._waited(future)
        except BaseException as error:
            told = self._told(error)
            if told is None:
                self._cancel([future])
                raise
            raise told from error

    def _waited(self, future: Any) -> Any:
        lonely: float | None = None
        while True:
            try:
                return future.result(timeout=LOOKED_AFTER)
            except TimeoutError:
                if future.done():
                    # It may have ended just now; an error of its own comes out here too.
                    return future.result()
            lonely = None if self.client.nthreads() else lonely or time.monotonic()
            if lonely is not None and time.monotonic() - lonely > WITHOUT_WORKERS:
                raise ClusterError(
                    f"the cluster has had no workers for {WITHOUT_WORKERS:g} seconds; start some, "
                    "and fit again (fit(checkpoint='file') goes on where it was)"
                )

    def _told(self, error: BaseException) -> ClusterError | None:
        """An error of the cluster in plain words; None if it is the task's or the user's."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, KilledWorker):
            return ClusterError(
                f"workers died of a task ({error}), most often for want of memory; use more "
                "workers, or smaller partitions: ddf.repartition(partition_size='64MB')"
            )
        lost = (CancelledError, asyncio.CancelledError, CommClosedError)
        if isinstance(error, lost) or (self._gone() and isinstance(error, (OSError, RuntimeError))):
            return _gone_error()
        return None

    def _gone(self) -> bool:
        return self.client.status not in ("running", "connecting")

    def _check_open(self) -> None:
        if self._gone():
            raise _gone_error()

    def _cancel(self, futures: list[Any]) -> None:
        if not self._gone():
            self.client.cancel(futures)

    def __getstate__(self) -> dict[str, Any]:
        """A connection stays where it is."""
        raise NotAvailableError(
            "rows on a cluster cannot be pickled; keep the fit with res.save(path)"
        )

    def __deepcopy__(self, memo: Any) -> Cluster:
        """Itself: there is one connection."""
        return self


def connected() -> Cluster:
    """The cluster of the client that is there; if there is none, processes of this machine."""
    with needs("Dask DataFrames need", "distributed", "dask"):
        import distributed

    try:
        return Cluster(distributed.get_client())
    except ValueError:
        pass
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    own = distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    return Cluster(distributed.Client(own), own)


def _close(client: Any, own: Any) -> None:
    client.close()
    own.close()


def _gone_error() -> ClusterError:
    return ClusterError(
        "the cluster that has the rows is gone; connect to another, declare the model there and "
        "call fit again. With fit(checkpoint='file') it goes on where it was"
    )


def labelled(*words: str) -> str:
    """A key that says what a task is for, unlike all others."""
    name = "-".join(word for text in words for word in text.replace("_", " ").split())
    # Digits end what the dashboard takes for a name.
    return f"mixreg-{name}-{os.getpid():x}0{next(_numbers):x}0"


def tree(graph: dict[Any, Any], keys: Sequence[Any], name: str) -> Any:
    """Add tasks to a graph that add up neighbours, level by level; the key of the sum."""
    level, left = 0, list(keys)
    while len(left) > 1:
        each = [left[i : i + ADDED_AT_ONCE] for i in range(0, len(left), ADDED_AT_ONCE)]
        made = {(name, level, i): (added, some) for i, some in enumerate(each)}
        graph.update(made)
        level, left = level + 1, list(made)
    return left[0]
