"""How many rows lie in one hyperplane: what regressors in general position never do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixreg.exact.thresholds import GAP, SAME

Array = NDArray[np.float64]

# Rows, random hyperplanes and columns in pairs that are looked at.
ROWS = 500
HYPERPLANES = 400
PAIRED = 30


def levels(values: Array) -> NDArray[np.intp]:
    """Number values from the smallest on; those that hardly differ get the same number."""
    order = np.argsort(values, kind="stable")
    codes = np.empty(values.shape[0], dtype=np.intp)
    codes[order] = np.cumsum(np.diff(values[order], prepend=values[order[:1]]) > SAME)
    return codes


def crowd(x: Array, spread: Array) -> int:
    """Most rows (n, q) found in one hyperplane; q of them always are.

    Looked at are equal values of a column, equal sums and differences of two
    columns in the user's units, and hyperplanes through rows drawn at random.

    Parameters
    ----------
    x : (n, q) array
        Distinct rows in random order, in deviations.
    spread : (q,) array
        Deviations of the columns, in the user's units.
    """
    n, q = x.shape
    found = max(int(np.bincount(levels(column)).max()) for column in x.T)
    some = x[:ROWS]
    share = max(_pairs(some, spread), _random(some)) / some.shape[0]
    # What is no more than chance in a sample is not blown up.
    return max(found, q if share * some.shape[0] <= q else int(np.ceil(share * n)))


def _pairs(x: Array, spread: Array) -> int:
    """Most rows with the same sum or difference of two columns."""
    q = x.shape[1]
    most = 1
    for i in range(min(q, PAIRED)):
        for j in range(i):
            ratio = spread[j] / spread[i]
            for sign in (-1, 1):
                mixed = x[:, i] + sign * ratio * x[:, j]
                most = max(most, int(np.bincount(levels(mixed / max(1.0, ratio))).max()))
    return most


def _random(x: Array) -> int:
    """Most rows in a hyperplane through q rows drawn at random."""
    n, q = x.shape
    rng = np.random.default_rng(0)
    draws = min(HYPERPLANES, max(20, 20_000 // q))
    chosen = np.argsort(rng.random((draws, n)), axis=1)[:, :q]
    # Hyperplanes are (x + shift) @ normal = 1: none passes through the origin.
    moved = x + rng.standard_normal(q)
    points = moved[chosen] + 1e-13 * rng.standard_normal((draws, q, q))
    normal = np.linalg.solve(points, np.ones((draws, q, 1)))[:, :, 0]
    length = np.maximum(np.linalg.norm(normal, axis=1), 1e-300)
    inside = np.abs(moved @ normal.T - 1) < GAP * length
    return int(inside.sum(axis=0).max())
