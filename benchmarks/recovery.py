"""Exact recovery far below the paper's sample sizes, and what it costs."""

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.workers import run_all
from mixreg import MixReg
from mixreg.metrics import estimation_error
from mixreg.simulate import mixed_linear_equations

# k, p, n: the promised cases, then the harder ones beyond them.
CASES = [
    *((3, p, 10 * p) for p in (10, 20, 40)),
    (3, 80, 960),
    *((k, 10, 3 * k**3) for k in (4, 5, 6, 8, 10)),
    *((3, p, 8 * p) for p in (10, 20, 40, 80)),
    *((k, 10, round(1.5 * k**3)) for k in (5, 6, 8, 10)),
]
BEYOND = [
    (3, 80, 880),
    (3, 80, 800),
    *((k, 10, round(2.5 * k**3)) for k in (4, 5, 6, 8, 10)),
    *((k, 10, 2 * k**3) for k in (4, 5, 6, 8, 10)),
    *((3, p, 6 * p) for p in (10, 20, 40)),
]
PAPER_LINE = [(3, p, 30 * p) for p in (10, 20, 40)]


@dataclass(frozen=True)
class Trial:
    recovered: bool
    certified: bool
    seconds: float
    published_recovered: bool
    published_seconds: float


def run_trial(case: tuple[int, int, int], seed: int) -> Trial:
    """One data set, fitted by default and by the published method, timed alike."""
    k, p, n = case
    data = mixed_linear_equations(n, p, k, seed=seed)

    def recovered(results) -> bool:
        return estimation_error(results.coefficients.to_numpy().T, data.coefficients) < 1e-6

    begin = time.perf_counter()
    default = MixReg(data.y, data.X, k=k).fit(seed=seed)
    middle = time.perf_counter()
    published = MixReg(data.y, data.X, k=k).fit(
        method="altmin", init="tensor", max_iter=200, seed=seed, cov_type="none"
    )
    end = time.perf_counter()
    return Trial(
        recovered(default),
        default.diagnostics.certified,
        middle - begin,
        recovered(published),
        end - middle,
    )


def _run(job: tuple[tuple[int, int, int], int]) -> Trial:
    return run_trial(*job)


def table(cases: list[tuple[int, int, int]], trials: int, workers: int) -> None:
    print(f"{trials} trials a row; times are medians; ratio: default over published, same run")
    print("   k   p     n  n/p  n/k^3  default  certified  published    time  ratio [quartiles]")
    for case in cases:
        jobs = [(case, seed) for seed in range(trials)]
        runs = run_all(_run, jobs, workers)
        k, p, n = case
        ratio = np.array([r.seconds / r.published_seconds for r in runs])
        low, mid, high = np.percentile(ratio, [25, 50, 75])
        print(
            f"{k:4d}{p:4d}{n:6d}{n / p:5.0f}{n / k**3:7.1f}"
            f"{sum(r.recovered for r in runs):9d}{sum(r.certified for r in runs):11d}"
            f"{sum(r.published_recovered for r in runs):11d}"
            f"{np.median([r.seconds for r in runs]):8.3f}"
            f"{mid:7.2f} [{low:.2f} {high:.2f}]",
            flush=True,
        )


def main(
    trials: int = 100, workers: int = 2, cases: list[tuple[int, int, int]] | None = None
) -> None:
    if cases:
        table(cases, trials, workers)
        return
    print("Exact recovery, promised cases")
    table(CASES, trials, workers)
    print("\nHow near the information bound one gets")
    table(BEYOND, trials, workers)
    print("\nThe published method on the paper's line n = 30p")
    table(PAPER_LINE, trials, workers)
