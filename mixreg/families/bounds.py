"""Residual variances whose ratio is bounded.

The likelihood of a mixture with free variances has no maximum: a component
that fits a few rows exactly sends it to infinity. A bound on the ratio of
variances (Hathaway 1985) gives it one. The maximiser under the bound clips the
variances to an interval [m, m / ratio], and the best m has a closed form on
each stretch where the same variances are clipped (Fritz, Garcia-Escudero and
Mayo-Iscar 2013).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixreg.exact.thresholds import HARD

Array = NDArray[np.float64]

# Data are standardised, so this least variance is far below any real noise; it only
# keeps an exact fit finite.
FLOOR = HARD


def residual_variances(squares: Array, size: Array, equal: bool, ratio: float) -> Array:
    """Residual variances from sums of squares, common or bounded, (k, [runs])."""
    total = size.sum(axis=0)
    if equal:
        common = np.maximum(squares.sum(axis=0) / total, FLOOR)
        return np.broadcast_to(common, size.shape).copy()
    # Where a background has all rows there is no variance, and any will do.
    variance = squares / np.maximum(size, 1e-12 * np.maximum(total, 1e-288))
    return np.maximum(bounded_variances(variance, size, ratio), FLOOR)


def bounded_variances(variance: Array, size: Array, ratio: float) -> Array:
    """Clip variances so that smallest >= ratio * largest, in the best way.

    Parameters
    ----------
    variance : (k, [runs]) array
        Unbounded estimates.
    size : (k, [runs]) array
        Weight of each estimate.
    ratio : float
        Smallest allowed variance as a share of the largest.

    Returns
    -------
    (k, [runs]) array
    """
    binds = variance.min(axis=0) < ratio * variance.max(axis=0)
    if not np.any(binds):
        return variance
    if variance.ndim == 1:
        return _clip(variance[:, None], size[:, None], ratio)[:, 0]
    out = variance.copy()
    out[:, binds] = _clip(variance[:, binds], size[:, binds], ratio)
    return out


def _clip(variance: Array, size: Array, ratio: float) -> Array:
    """Clip the variances (k, runs) of each run to its best interval."""
    edges = np.sort(np.concatenate([variance, variance * ratio]), axis=0)
    mid = np.concatenate([edges[:1] / 2, (edges[1:] + edges[:-1]) / 2, edges[-1:] * 2])[:, None]
    low, high = variance < mid, variance * ratio > mid
    # On a stretch the clipped terms are m (below) and m / ratio (above); the
    # best m is the size-weighted mean of what they stand for.
    total = (size * (low | high)).sum(axis=1)
    value = (size * variance * (low + ratio * high)).sum(axis=1)
    inner = np.divide(value, total, out=np.zeros_like(value), where=total > 0)
    candidates = np.concatenate([inner, edges])
    usable = candidates > 0
    safe = np.where(usable, candidates, 1.0)[:, None]
    clipped = np.clip(variance, safe, safe / ratio)
    with np.errstate(over="ignore"):
        cost = (size * (np.log(clipped) + variance / clipped)).sum(axis=1)
    best = np.where(usable, cost, np.inf).argmin(axis=0)
    chosen = np.take_along_axis(clipped, best[None, None], axis=0)[0]
    return np.asarray(np.where(usable.any(axis=0), chosen, variance))
