"""Mix-IRLS in plain numpy, after the algorithm as published.

Zilber and Nadler (2023), Imbalanced mixed linear regression, NeurIPS: each component in turn is
a robust regression among the rows that no earlier one fits; then all are refined together. The
numbers are those of the paper's simulations.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

# Tuning of the weights, rows for each coefficient that a component is read from, threshold of
# the weights at which rows are left to the next component, and by how much it grows.
NU, RHO, THRESHOLD, RAISED = 0.5, 1.0, 0.1, 0.1
MOST_STEPS = 1000


def least_squares(X, y, weight):
    heavy = X * weight[:, None]
    return np.linalg.solve(heavy.T @ X, heavy.T @ y)


def robust_regression(X, y, beta):
    """Iteratively reweighted least squares; coefficients and weights."""
    d = X.shape[1]
    root = np.linalg.cholesky(X.T @ X)
    leverage = np.square(solve_triangular(root, X.T, lower=True)).sum(axis=0)
    adjusted = 1 / np.sqrt(1 - np.minimum(leverage, 1 - 1e-4))
    for _ in range(MOST_STEPS):
        size = adjusted * np.abs(y - X @ beta)
        scale = max(np.median(np.sort(size)[d:]) / 0.6745, 1e-6 * y.std())
        weight = 1 / (1 + (size / (NU * scale)) ** 2)
        before, beta = beta, least_squares(X, y, weight)
        if np.all(np.abs(beta - before) <= 1e-8 * np.maximum(np.abs(beta), np.abs(before))):
            break
    return beta, weight


def one_by_one(X, y, starts, outliers):
    """First phase: components, largest first; None if rows run out at every threshold."""
    (n, d), k = X.shape, len(starts)
    first, threshold = None, THRESHOLD
    while threshold < 1:
        active, found = np.arange(n), []
        for j, start in enumerate(starts):
            if j or first is None:
                _, weight = robust_regression(X[active], y[active], start)
                best = active[np.argsort(weight)[-int(np.ceil(RHO * d)) :]]
                beta = np.linalg.lstsq(X[best], y[best], rcond=None)[0]
                first = first or (beta, weight)
            else:
                beta, weight = first
            found.append(beta)
            left = active[weight <= threshold]
            if j < k - 1 and len(left) - outliers * n < RHO * d:
                break
            active = left
        else:
            return np.array(found)
        threshold += RAISED
    return None


def refined(X, y, betas, outliers, tolerance):
    """Second phase: all components at once, by weights that sum to one."""
    n, k = len(y), len(betas)
    for _ in range(MOST_STEPS):
        squares = (y[:, None] - X @ betas.T) ** 2
        weight = 1 / (squares + 1e-16)
        weight /= weight.sum(axis=1, keepdims=True)
        sure = (weight >= 2 / 3).any(axis=1)
        weight[sure] = weight[sure] >= 2 / 3
        weight[weight < 1 / k] = 0.0
        weight /= weight.sum(axis=1, keepdims=True) + 1e-16
        if outliers:
            weight[np.argsort(squares.min(axis=1))[n - round(outliers * n) :]] = 0.0
        before = betas
        betas = np.array([least_squares(X, y, weight[:, j]) for j in range(k)])
        if np.linalg.norm(betas - before) <= tolerance * np.linalg.norm(betas):
            break
    return betas


def mix_irls(X, y, k, rng, outliers=0.0, tolerance=1e-4):
    """Coefficients (k, d), or None; `outliers` is their share, which it is told."""
    try:
        betas = one_by_one(X, y, rng.standard_normal((k, X.shape[1])), outliers)
        return None if betas is None else refined(X, y, betas, outliers, tolerance)
    except np.linalg.LinAlgError:
        return None
