"""A pass over all rows by threads, by processes that share memory, and by a compiled kernel.

What a fit uses is the first of them. The others are here so that the choice can be measured anew:
`python -m benchmarks scale --only kernels`. The compiled kernel needs numba, which is no
dependency: without it, its line says so.
"""

import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context, shared_memory
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mixreg.estimators.expectation import SoftAssignment
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.simulate import mixed_linear_equations
from mixreg.sources import MemorySource

# What numba puts its own in place of.
prange = range


def median(call: Callable[[], Any], repeats: int = 5) -> float:
    """Median seconds of a call, the first one left out."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def kernels(n: int, p: int, k: int) -> Iterator[tuple[str, float, str, float | None]]:
    """Seconds of one pass, by how it is made."""
    data = mixed_linear_equations(n, p, k, noise=0.1, seed=0)
    start = Parameters.uniform(data.coefficients, 0.01).stacked()
    source, task = MemorySource(data.X, data.y), SoftAssignment(Mixture())
    what = f"one pass, {n:,} x {p}, k={k}, seconds"
    with threadpool_limits(1):
        yield f"{what}: one thread", median(lambda: source.sweep(task, start)), "", None
    yield "  threads over blocks", median(lambda: source.sweep(task, start)), "", None
    yield "  two processes, rows in shared memory", _by_processes(data, start), "", None
    numba = _by_numba(data, start)
    yield "  a kernel of numba's on two threads", *numba, None


def _by_processes(data: Any, start: Parameters) -> float:
    """Two worker processes, each with half of the rows in memory that all share."""
    rows = np.column_stack([data.X, data.y])
    shared = shared_memory.SharedMemory(create=True, size=rows.nbytes)
    try:
        np.ndarray(rows.shape, buffer=shared.buf)[:] = rows
        half = len(rows) // 2
        parts = [(shared.name, rows.shape, a, b) for a, b in ((0, half), (half, len(rows)))]
        with get_context("spawn").Pool(2) as pool:
            return median(lambda: pool.map(_half, [(part, start) for part in parts]))
    finally:
        shared.close()
        shared.unlink()


def _half(given: Any) -> Any:
    (name, shape, first, last), start = given
    shared = shared_memory.SharedMemory(name=name)
    rows = np.ndarray(shape, buffer=shared.buf)[first:last]
    with threadpool_limits(1):
        sums = MemorySource(rows[:, :-1], rows[:, -1]).sweep(SoftAssignment(Mixture()), start)
    del rows
    shared.close()
    return sums.objective, sums.family.xx


def _by_numba(data: Any, start: Parameters) -> tuple[float, str]:
    try:
        import numba
    except ImportError:
        return float("nan"), "numba is not installed"
    _sweep.__globals__["prange"] = numba.prange
    sweep = numba.njit(parallel=True, fastmath=True)(_sweep)
    coef, spread = start.coef[:, 0], start.dispersion[:, 0]
    prior = np.log(np.full(len(coef), 1 / len(coef)))
    numba.set_num_threads(2)
    return median(lambda: sweep(data.X, data.y, coef, spread, prior, 64)), ""


def _sweep(x: Any, y: Any, coef: Any, spread: Any, prior: Any, parts: int) -> Any:
    """Log-likelihood and cross products, row by row; small responsibilities are skipped."""
    n, p = x.shape
    k = coef.shape[0]
    grams, logs = np.zeros((parts, k, p, p)), np.zeros(parts)
    for part in prange(parts):
        density, residual = np.empty(k), np.empty(k)
        for i in range(part * n // parts, (part + 1) * n // parts):
            top = -np.inf
            for j in range(k):
                mean = 0.0
                for a in range(p):
                    mean += x[i, a] * coef[j, a]
                residual[j] = y[i] - mean
                density[j] = prior[j] - 0.5 * (
                    np.log(2 * np.pi * spread[j]) + residual[j] ** 2 / spread[j]
                )
                top = max(top, density[j])
            total = 0.0
            for j in range(k):
                density[j] = np.exp(density[j] - top)
                total += density[j]
            logs[part] += top + np.log(total)
            for j in range(k):
                weight = density[j] / total
                if weight > 1e-12:
                    for a in range(p):
                        value = weight * x[i, a]
                        for b in range(a + 1):
                            grams[part, j, a, b] += value * x[i, b]
    return logs.sum(), grams.sum(axis=0)
