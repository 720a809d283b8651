"""Small simulated tables that several test files share."""

import numpy as np
import pandas as pd

from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.sources import MemorySource
from mixreg.sources.standard import Whitening, triangle, whitening


def lines(n: int = 300, seed: int = 0, noise: float = 0.3) -> pd.DataFrame:
    """Two crossing planes with different noise; column `z` is the true component."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.standard_normal((2, n))
    z = np.where(rng.random(n) < 0.6, 1, 2)
    mean = np.where(z == 1, 1 + 2 * x1 + x2, -1 - x1 + 0.5 * x2)
    y = mean + noise * np.where(z == 1, 1.0, 1.5) * rng.standard_normal(n)
    return pd.DataFrame({"y": y, "x1": x1, "x2": x2, "z": z})


def shops(n_groups: int = 40, seed: int = 0, noise: float = 0.5) -> pd.DataFrame:
    """Groups of 3 to 8 rows in scattered order; all rows of a shop share `z`."""
    rng = np.random.default_rng(seed)
    names = np.repeat([f"shop {i}" for i in range(n_groups)], rng.integers(3, 9, n_groups))
    by_shop = dict(zip(np.unique(names), 1 + (rng.random(n_groups) < 0.4), strict=True))
    z = np.array([by_shop[name] for name in names])
    x = rng.standard_normal(len(names))
    y = np.where(z == 1, 1 + x, -0.5 * x) + noise * rng.standard_normal(len(names))
    table = pd.DataFrame({"y": y, "x": x, "shop": names, "z": z})
    return table.iloc[rng.permutation(len(table))]


def random_mixture(k: int, p: int, seed: int = 0, runs: int | None = None) -> Parameters:
    """Parameters with nothing special about them, one mixture or a stack of `runs`."""
    rng = np.random.default_rng(seed)
    lead = (k,) if runs is None else (k, runs)
    weights = rng.uniform(0.5, 1.5, lead)
    return Parameters(
        rng.standard_normal((*lead, p)),
        rng.uniform(0.3, 2.0, lead),
        log_gating(weights / weights.sum(axis=0)),
    )


def random_source(
    n: int, p: int, seed: int = 0, grouped: bool = False, weighted: bool = False
) -> MemorySource:
    """Standard normal rows with a constant, in groups of 1 to 9 rows if asked for."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p))
    x[:, 0] = 1.0
    y = x @ rng.standard_normal(p) * rng.choice([-1.0, 1.0], n) + rng.standard_normal(n)
    starts = None
    if grouped:
        edges = np.cumsum(rng.integers(1, 10, n))
        starts = np.concatenate([[0], edges[edges < n]])
    units = n if starts is None else len(starts)
    weight = rng.integers(0, 4, units).astype(float) if weighted else None
    return MemorySource(x, y, weight, starts)


def standardised(source: MemorySource) -> tuple[MemorySource, Whitening]:
    """The source in standard coordinates, and the way there."""
    white = whitening(triangle(source.as_block()), tuple(f"x{i}" for i in range(source.x.shape[1])))
    x, y = source.x @ white.basis, (source.y - white.shift) / white.scale
    return MemorySource(x, y, source.weight, source.starts), white
