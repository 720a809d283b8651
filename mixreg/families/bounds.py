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

Array = NDArray[np.float64]


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
        return _clip_one(variance, size, ratio)
    out = variance.copy()
    for run in np.flatnonzero(binds):
        out[:, run] = _clip_one(variance[:, run], size[:, run], ratio)
    return out


def _clip_one(variance: Array, size: Array, ratio: float) -> Array:
    edges = np.sort(np.concatenate([variance, variance * ratio]))
    mid = np.concatenate([[edges[0] / 2], (edges[1:] + edges[:-1]) / 2, [edges[-1] * 2]])
    low = variance < mid[:, None]
    high = variance * ratio > mid[:, None]
    # On a stretch the clipped terms are m (below) and m / ratio (above); the
    # best m is the size-weighted mean of what they stand for.
    total = (size * (low | high)).sum(axis=1)
    value = (size * variance * (low + ratio * high)).sum(axis=1)
    candidates = np.concatenate([value[total > 0] / total[total > 0], edges])
    candidates = candidates[candidates > 0]
    if candidates.shape[0] == 0:
        return variance
    clipped = np.clip(variance, candidates[:, None], candidates[:, None] / ratio)
    with np.errstate(over="ignore"):
        cost = (size * (np.log(clipped) + variance / clipped)).sum(axis=1)
    return np.asarray(clipped[np.argmin(cost)])
