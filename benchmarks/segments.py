"""Tight segments that are real, and chance lines that are not: which does the default fit choose?

A tight segment is lost if the default fit ends lower than EM from the true labels. With one
component too many, a chance line is a component with less than a quarter of the median residual
deviation and less than a fifth of the weight.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from benchmarks.workers import run_all
from mixreg import MixReg

Array = NDArray[np.float64]

# Log-likelihood that a lost fit lacks, at least.
SHORT = 0.01
NARROW, SMALL = 0.25, 0.2


@dataclass(frozen=True)
class Drawn:
    """A simulated data set, and what it was drawn from."""

    y: Array
    x: Array
    labels: NDArray[np.intp]  # from 1
    k: int
    groups: NDArray[np.intp] | None = None
    share: float = float("nan")
    ratio: float = float("nan")


def draw_tight(seed: int) -> Drawn:
    """Components of a common deviation, and a small one of a fraction of it."""
    rng = np.random.default_rng([1, seed])
    k, q = int(rng.integers(2, 5)), int(rng.integers(1, 7))
    n = int(np.exp(rng.uniform(np.log(300), np.log(20_000))))
    share, ratio, sigma = rng.uniform(0.03, 0.2), rng.uniform(0.05, 0.3), rng.uniform(0.3, 1.0)
    weights = np.append(rng.dirichlet(np.full(k - 1, 5.0)) * (1 - share), share)
    coef = rng.standard_normal((k, q + 1))
    x = np.column_stack([np.ones(n), rng.standard_normal((n, q))])
    labels = rng.choice(k, n, p=weights)
    while (labels == k - 1).sum() < q + 3:
        # A segment of fewer rows than its line takes is none.
        labels = rng.choice(k, n, p=weights)
    deviation = np.append(np.full(k - 1, sigma), sigma * ratio)
    y = (x * coef[labels]).sum(axis=1) + deviation[labels] * rng.standard_normal(n)
    return Drawn(y, x, labels + 1, k, share=share, ratio=ratio)


def draw_plain(seed: int, grouped: bool) -> Drawn:
    """Components none of which is tight, of rows or of groups of one to eight."""
    rng = np.random.default_rng([2, int(grouped), seed])
    k, q = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    n = int(np.exp(rng.uniform(np.log(100), np.log(3000))))
    weights, sigma = rng.dirichlet(np.full(k, 8.0)), rng.uniform(0.3, 1.0, k)
    coef = 1.5 * rng.standard_normal((k, q + 1))
    x = np.column_stack([np.ones(n), rng.standard_normal((n, q))])
    groups = np.repeat(np.arange(n), rng.integers(1, 9, n))[:n] if grouped else None
    units = np.arange(n) if groups is None else groups
    labels = rng.choice(k, n, p=weights)[units]
    y = (x * coef[labels]).sum(axis=1) + sigma[labels] * rng.standard_normal(n)
    return Drawn(y, x, labels + 1, k, groups)


@dataclass(frozen=True)
class Tight:
    """A fit to data with a tight segment."""

    seed: int
    k: int
    n: int
    p: int
    rows: int  # of the tight segment
    share: float
    ratio: float
    short: float  # log-likelihood from the true labels over that of the default
    suspect: bool  # whether the fit from the true labels has suspect components


def try_tight(seed: int) -> Tight:
    drawn = draw_tight(seed)
    n, p = drawn.x.shape
    model = MixReg(drawn.y, drawn.x, k=drawn.k)
    default, true = model.fit(), model.fit(init=drawn.labels)
    return Tight(
        seed,
        drawn.k,
        n,
        p,
        int((drawn.labels == drawn.k).sum()),
        drawn.share,
        drawn.ratio,
        float(true.llf - default.llf),
        bool(true.solution.suspects),
    )


@dataclass(frozen=True)
class Line:
    """A fit with one component too many."""

    seed: int
    chosen: bool
    told: bool  # the notes say so


def try_chance(job: tuple[int, bool]) -> Line:
    seed, grouped = job
    drawn = draw_plain(seed, grouped)
    results = MixReg(drawn.y, drawn.x, k=drawn.k + 1, groups=drawn.groups).fit()
    scale, weights = np.asarray(results.scale), np.asarray(results.weights)
    lines = (scale < NARROW * np.median(scale)) & (weights < SMALL)
    told = [j for j in np.flatnonzero(lines) if j in results.solution.suspects]
    return Line(seed, bool(lines.any()), len(told) == lines.sum())


def tight(trials: int = 300, workers: int = 2) -> None:
    fits = run_all(try_tight, range(trials), workers)
    lost = [fit for fit in fits if fit.short > SHORT]
    print(f"Tight real segments: default fit against EM from the true labels, {trials} sets")
    print("   k   sets   lost")
    for k in sorted({fit.k for fit in fits}):
        print(f"{k:4d}{sum(f.k == k for f in fits):7d}{sum(f.k == k for f in lost):7d}")
    print(f" all{len(fits):7d}{len(lost):7d}", flush=True)
    for fit in lost:
        told = {field.name: getattr(fit, field.name) for field in fields(fit)}
        print("  lost:", ", ".join(f"{name}={_short(value)}" for name, value in told.items()))


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def chance(trials: int = 100, workers: int = 2) -> None:
    print("One component too many: chance lines")
    print(f"{'units':8s}{'sets':>6s}{'chosen':>8s}{'told':>6s}")
    for grouped in (False, True):
        fits = run_all(try_chance, [(seed, grouped) for seed in range(trials)], workers)
        chosen = [fit for fit in fits if fit.chosen]
        name = "groups" if grouped else "rows"
        print(
            f"{name:8s}{len(fits):6d}{len(chosen):8d}{sum(f.told for f in chosen):6d}", flush=True
        )
