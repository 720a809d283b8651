"""Sums over whole numbers below a count: the logarithm of a rising factorial, and its slopes.

With a = 1 / alpha, sum of log(1 + alpha j) over j below y is
log gamma(y + a) - log gamma(a) - y log(a). Where a is large these cancel, and
Stirling's series of both, with the leading terms taken together, does not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, polygamma

Array = NDArray[np.float64]

# From this a on, the terms of Stirling's series below are all that doubles see.
LARGE = 30.0
# Below this t, a few terms of the series of t - log(1 + t) are exact.
SMALL = 1e-3
# Coefficients of x^-1, x^-3, ... in the series of log gamma.
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)


def rising_sums(alpha: Array, y: Array, which: int) -> Array:
    """Sum over j below y, with s = alpha j: log(1 + s), s / (1 + s), s / (1 + s)^2."""
    a, y = np.broadcast_arrays(1 / alpha, y)
    out = np.empty(a.shape)
    large = a >= LARGE
    for some, rule in ((large, _stirling), (~large, _gamma)):
        if some.any():
            out[some] = rule(a[some], y[some], which)
    return out


def _gamma(a: Array, y: Array, which: int) -> Array:
    """By gamma functions."""
    if which == 0:
        return np.asarray(gammaln(y + a) - gammaln(a) - y * np.log(a))
    # s / (1 + s) = 1 - a / (a + j), and s / (1 + s)^2 = a / (a + j) - a^2 / (a + j)^2.
    inverse = a * (digamma(y + a) - digamma(a))
    if which == 1:
        return np.asarray(y - inverse)
    return np.asarray(inverse - a * a * (polygamma(1, a) - polygamma(1, y + a)))


def _stirling(a: Array, y: Array, which: int) -> Array:
    """By Stirling's series, with u = y / a."""
    u = y / a
    logs, v = np.log1p(u), 1 / (1 + u)
    if which == 0:
        found = (y - 0.5) * logs - a * excess(u, logs)
    elif which == 1:
        found = a * excess(u, logs) - 0.5 * u * v
    else:
        found = a * (u * u * v - excess(u, logs)) - 0.5 * u * v * v
    # What is left of both series is a sum of c (v^m - 1) / a^m.
    for i, c in enumerate(STIRLING):
        m = 2 * i + 1
        found += c * _remainder(m, logs, which) / a**m
    return np.asarray(found)


def _remainder(m: int, logs: Array, which: int) -> Array:
    """Times a^m: v^m - 1 over a^m, and its two derivatives in log alpha; log v is -logs."""
    if which == 0:
        return np.asarray(np.expm1(-m * logs))
    first = np.expm1(-(m + 1) * logs)
    if which == 1:
        return np.asarray(m * first)
    return np.asarray(m * ((m + 1) * np.expm1(-(m + 2) * logs) - first))


def excess(t: Array, logs: Array) -> Array:
    """Value of t - log(1 + t), without the cancellation at small t; `logs` is log(1 + t)."""
    found = np.asarray(t - logs)
    if t.size and t.min() < SMALL:
        small = t < SMALL
        s = t[small]
        found[small] = s * s * (0.5 - s * (1 / 3 - s * (0.25 - s * (0.2 - s / 6))))
    return found
