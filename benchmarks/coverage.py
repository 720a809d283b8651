"""Choosing k, and intervals that cover: `python -m benchmarks coverage`."""

import time
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd

from benchmarks.workers import run_all
from mixreg import MixReg, datasets, select_k
from mixreg.metrics import match_components

SALES = "np.log(VOLUME) ~ DISP + np.log(PRICE)"
CASES = {
    "gaussian": ("y ~ x1 + x2", {}),
    "poisson": ("y ~ x1 + x2", {"family": "poisson"}),
}


def planted(family: str, n: int = 600) -> pd.DataFrame:
    """Two overlapping segments."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((n, 2))
    second = rng.random(n) < 0.4
    eta = np.where(second, 0.4 - 0.3 * x[:, 0] + 0.5 * x[:, 1], 1.6 + 0.5 * x[:, 0])
    y = rng.poisson(np.exp(eta)) if family == "poisson" else eta + 0.5 * rng.standard_normal(n)
    return pd.DataFrame({"y": y, "x1": x[:, 0], "x2": x[:, 1]})


def covered(task: tuple[str, int, int]) -> tuple[int, int]:
    """Intervals of coefficients that cover the truth, and all of them, over some draws."""
    family, first, last = task
    formula, options = CASES[family]
    data = planted(family)
    fit = MixReg.from_formula(formula, data, k=2, **options).fit()
    truth = fit.coefficients.to_numpy()
    hits = total = 0
    for seed in range(first, last):
        drawn = data.assign(y=fit.simulate(seed)["y"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            res = MixReg.from_formula(formula, drawn, k=2, **options).fit()
        order = match_components(res.coefficients.to_numpy().T, truth.T)
        bounds = res.conf_int()
        for j, mine in enumerate(order):
            for i, term in enumerate(res.coefficients.index):
                low, high = bounds.loc[f"{term}[{mine + 1}]"]
                hits += low <= truth[i, j] <= high
                total += 1
    return hits, total


# Half the distance of two slopes, and rows; the residual deviation is 0.7. Entropy R² is about 0.6
# and 0.25. With 250 rows that overlap so much, estimates themselves are often of another maximum
# than the one near the truth.
LINES = {
    "separated": (1.5, 250),
    "strongly overlapping": (0.5, 600),
    "strongly overlapping, few rows": (0.5, 250),
}
SETS = 200


def crossing(half: float, n: int, seed: int) -> pd.DataFrame:
    """Two lines that cross, as often as each other."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    slope = np.where(rng.random(n) < 0.6, half, -half)
    return pd.DataFrame({"x": x, "y": slope * x + 0.7 * rng.standard_normal(n)})


def matched(task: tuple[float, int, int]) -> tuple[int, int, dict[str, np.ndarray]]:
    """Replicates, those in doubt, and by kind of interval which coefficients the rest cover."""
    half, n, seed = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = MixReg.from_formula("y ~ x", crossing(half, n, seed), k=2).fit()
        found = fit.bootstrap(150, n_jobs=1)
    truth = np.array([[0.0, 0.0], [half, -half]])
    order = match_components(fit.coefficients.to_numpy().T, truth.T)
    kinds = ("percentile", "normal", "basic")
    bounds = {"information": fit.conf_int()}
    bounds |= {f"all, {kind}": found.conf_int(kind=kind) for kind in kinds}
    sure = found.without_ambiguous()
    bounds |= {f"matched surely, {kind}": sure.conf_int(kind=kind) for kind in kinds}
    rows = [f"{term}[{mine + 1}]" for mine in order for term in ("Intercept", "x")]
    at = truth.T.ravel()
    covers = {
        name: ((each.loc[rows, 0] <= at) & (at <= each.loc[rows, 1])).to_numpy()
        for name, each in bounds.items()
    }
    return len(found.draws), int(found.ambiguous.sum()), covers


def ambiguous(sets: int = SETS, workers: int = 2, names: list[str] | None = None) -> None:
    """Replicates that are not matched surely, and how the intervals of the rest cover."""
    for name in names or LINES:
        parts = run_all(matched, [(*LINES[name], seed) for seed in range(sets)], workers)
        total, unsure = (sum(part[i] for part in parts) for i in (0, 1))
        print(f"{name}: {unsure} of {total} replicates not matched surely, {sets} sets")
        for kind in parts[0][2]:
            share = np.mean([part[2][kind] for part in parts])
            print(f"  {kind:28s} covers {100 * share:5.1f}%")


def selection() -> None:
    """Time of choosing k on the cheese data."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        select_k(SALES, datasets.cheese(), k=range(1, 7), groups="RETAILER")
        times.append(time.perf_counter() - begin)
    print(f"select_k, cheese, k=1..6: {np.median(times):.2f} s [{min(times):.2f} {max(times):.2f}]")


def main(draws: int = 500, workers: int = 2) -> None:
    """Print one line a family."""
    selection()
    print(f"95% intervals of coefficients over {draws} draws by simulate()")
    for family in CASES:
        edges = np.linspace(0, draws, 4 * workers + 1).astype(int)
        tasks = [(family, a, b) for a, b in pairwise(edges.tolist())]
        parts = run_all(covered, tasks, workers)
        hits, total = (sum(part[i] for part in parts) for i in (0, 1))
        share = hits / total
        error = np.sqrt(share * (1 - share) / draws)
        print(f"{family:<10} {100 * share:5.1f}% of {total} (s.e. about {100 * error:.1f})")
