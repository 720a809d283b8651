"""Variational Bayes and PyMC against maximum likelihood: `python -m benchmarks bayes`."""

import ctypes
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workers import run_all
from mixreg import MixReg, Priors
from mixreg.estimators import EM
from mixreg.estimators.variational import Variational
from mixreg.metrics import match_components
from mixreg.mixture.parameters import Parameters


def planted(n: int, seed: int, noise: float = 0.2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three well separated planes: response, regressors, coefficients (3, p)."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.standard_normal((n, 3))])
    coef = np.array([[4.0, 1.0, 0.0, 0.5], [0.0, -1.0, 1.0, 0.0], [-4.0, 0.5, 0.5, -1.0]])
    label = rng.choice(3, n, p=[0.4, 0.35, 0.25])
    y = np.einsum("np,np->n", x, coef[label]) + noise * rng.standard_normal(n)
    return y, x, coef


def agreement() -> None:
    """Posterior means and deviations against estimates and standard errors."""
    y, x, _ = planted(5000, 0)
    em, vb = MixReg(y, x, k=3).fit(), MixReg(y, x, k=3).fit("vb")
    gap = ((vb.params - em.params) / em.bse).abs()
    ratio = vb.bse / em.bse
    print(f"vb against em, n=5000: means within {gap.max():.3f} standard errors, ", end="")
    print(f"deviations {ratio.min():.3f} to {ratio.max():.3f} times the standard errors")


def covered(seeds: tuple[int, int]) -> tuple[int, int]:
    """Credible intervals that cover the truth, and all of them."""
    hits = total = 0
    for seed in range(*seeds):
        y, x, coef = planted(600, 1000 + seed)
        res = MixReg(y, x, k=3).fit("vb")
        order = match_components(res.coefficients.to_numpy().T, coef)
        index, bounds = res.model.layout.coef_index()[order], res.conf_int().to_numpy()
        inside = (bounds[index, 0] <= coef) & (coef <= bounds[index, 1])
        hits, total = hits + int(inside.sum()), total + inside.size
    return hits, total


def alive(seed: int) -> int:
    """Components left alive of the eight asked for, three true ones."""
    y, x, _ = planted(5000, 2000 + seed, noise=0.5)
    return len(MixReg(y, x, k=8).fit("vb", seed=seed).alive)


def speed() -> None:
    """Time of an iteration against EM's, in turn, same data."""
    for noise in (0.1, 0.5, 1.0):
        rng = np.random.default_rng(3)
        x = np.column_stack([np.ones(200_000), rng.standard_normal((200_000, 19))])
        coef, label = rng.standard_normal((5, 20)), rng.integers(0, 5, 200_000)
        y = np.einsum("np,np->n", x, coef[label]) + noise * rng.standard_normal(200_000)
        model = MixReg(y, x, k=5)
        problem = model.problem()
        source = problem.source.standard(problem.whitening)
        start = Parameters.uniform(coef, noise**2)
        params = problem.whitening.from_user(start)
        priors = Priors()
        em, vb = EM(problem.mixture), Variational(problem.mixture, priors).measured(source)
        beliefs = vb.around(params, float(source.rows), float(source.rows))
        ratios = []
        for _ in range(7):
            times = []
            for estimator, state in ((em, params.stacked()), (vb, beliefs.stacked())):
                begin = time.perf_counter()
                estimator.update(estimator.sweep(source, 0, state), state)
                times.append(time.perf_counter() - begin)
            ratios.append(times[1] / times[0])
        low, mid, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        print(f"vb iteration over em's, noise {noise}: {mid:.2f} ({low:.2f} to {high:.2f})")


def sampled() -> None:
    """PyMC against maximum likelihood on many rows."""
    y, x, _ = planted(5000, 4)
    em = MixReg(y, x, k=3).fit()
    began = time.perf_counter()
    data = em.sample(draws=4000, chains=2, tune=1000, seed=1)
    took = time.perf_counter() - began
    index = em.model.layout.coef_index()
    draws = data.posterior["coef"].to_numpy().reshape(-1, 3, 4)
    gap = np.abs(draws.mean(axis=0) - em.params.to_numpy()[index]) / em.bse.to_numpy()[index]
    ratio = draws.std(axis=0) / em.bse.to_numpy()[index]
    print(
        f"pymc against em, n=5000, 8000 draws ({took:.0f} s): means within {gap.max():.3f} ", end=""
    )
    print(f"standard errors, deviations {ratio.min():.3f} to {ratio.max():.3f} times them")


def five_planes(n: int) -> MixReg:
    """Twenty regressors, five components."""
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(n), rng.standard_normal((n, 19))])
    coef, label = rng.standard_normal((5, 20)), rng.integers(0, 5, n)
    y = np.einsum("np,np->n", x, coef[label]) + 0.5 * rng.standard_normal(n)
    return MixReg(y, x, k=5)


def compiled(model: MixReg, likelihood: str) -> tuple[Any, np.ndarray]:
    """Value and gradient as NUTS calls them, and a point to call them at."""
    built = model.to_pymc(likelihood=likelihood)
    function = built.logp_dlogp_function(ravel_inputs=True)
    function.set_extra_values({})
    size = sum(value.size for value in built.initial_point().values())
    return function, 0.2 * np.random.default_rng(1).standard_normal(size)


def megabytes(field: str) -> float:
    """A line of what the system says of this process: VmRSS is now, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def peak_anew() -> None:
    """Let the peak of memory begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


def gradients(job: tuple[str, int]) -> tuple[float, np.ndarray, float, float, float]:
    """Value, gradient, median seconds of a call; megabytes at the peak beside the data.

    The peak of all, the compiler's included, and that of the calls alone.
    """
    warnings.simplefilter("ignore")
    likelihood, rows = job
    model = five_planes(rows)
    assert model.whitening.rows == rows  # Standard coordinates are looked for once.
    before = megabytes("VmRSS")
    peak_anew()
    function, at = compiled(model, likelihood)
    compiling = megabytes("VmHWM")
    # What the compiler let go would hide what calls take.
    ctypes.CDLL(None).malloc_trim(0)
    ready = megabytes("VmRSS")
    peak_anew()
    times = []
    for _ in range(15):
        began = time.perf_counter()
        value, slope = function(at)
        times.append(time.perf_counter() - began)
    calls = megabytes("VmHWM")
    most = max(compiling, calls) - before
    return float(value), slope, float(np.median(times)), most, calls - ready


def alone(work: Callable[[Any], Any], job: Any) -> Any:
    """A job in a new process, which has its peak of memory to itself."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(work, job).result()


def by_sweep() -> None:
    """Value and gradient by the sweep against the graph, each in a process of its own."""
    kinds = ("graph", "sweep")
    for kind in kinds:
        # Code is kept on disk: to make it takes memory that later runs save.
        alone(gradients, (kind, 1000))
    # What the first call of compiled code takes is there with few rows, too.
    few = [alone(gradients, (kind, 1000))[4] for kind in kinds]
    graph, sweep = (alone(gradients, (kind, 200_000)) for kind in kinds)
    gaps = np.abs(sweep[1] - graph[1]).max() / np.abs(graph[1]).max(), sweep[0] / graph[0] - 1
    print("value and gradient at 200,000 x 20, k=5, sweep against graph: equal to ", end="")
    print(
        f"{np.abs(gaps).max():.0e}; {1e3 * sweep[2]:.0f} against {1e3 * graph[2]:.0f} ms; ", end=""
    )
    print(
        f"rows add {sweep[4] - few[1]:.0f} against {graph[4] - few[0]:.0f} MB to the peak of "
        f"calls; all in all, the compiler included, {sweep[3]:.0f} against {graph[3]:.0f} MB"
    )


def main(workers: int = 2) -> None:
    """Print one line a figure."""
    warnings.simplefilter("ignore")
    by_sweep()
    agreement()
    speed()
    edges = np.linspace(0, 300, 4 * workers + 1).astype(int).tolist()
    parts = run_all(covered, pairwise(edges), workers)
    hits, total = (sum(part[i] for part in parts) for i in (0, 1))
    print(f"vb 95% credible intervals over 300 sets: {100 * hits / total:.1f}% of {total}")
    left = run_all(alive, range(20), workers)
    print(f"pruning, 3 true of 8 asked, n=5000: 3 alive in {left.count(3)} of 20; {left}")
    sampled()
