"""Means and covariances in the user's units, from standard coordinates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

from mixreg.estimators.beliefs import Beliefs
from mixreg.mixture.layout import Layout
from mixreg.sources.standard import Whitening

Array = NDArray[np.float64]


def to_user_matrix(whitening: Whitening, layout: Layout, inner: Layout) -> Array:
    """Derivative of the user's parameters in the standard ones."""
    free = layout.free()
    full = np.eye(free.size)
    for index in free.coef_index():
        full[np.ix_(index, index)] = whitening.coef_map
    if whitening.gate is not None:
        for index in free.gating_index().reshape(-1, whitening.gate.shape[0]):
            full[np.ix_(index, index)] = whitening.gate
    # Copies of a common parameter are equal; their mean is any one of them.
    spread = layout.contraction()
    return np.asarray((spread / spread.sum(axis=0)).T @ full @ inner.contraction())


def posterior_moments(
    beliefs: Beliefs, whitening: Whitening, layout: Layout, inner: Layout
) -> tuple[Array, Array]:
    """Posterior means and covariance of the flat vector, in the user's units.

    A component that no rows are left in has the moments of its prior, which
    may be infinite.
    """
    a, b, counts = beliefs.shape, beliefs.rate, beliefs.counts
    mean, cov = np.zeros(inner.size), np.zeros((inner.size, inner.size))
    variance = np.where(a > 1, b / np.maximum(a - 1, 1e-300), np.inf)
    for j, index in enumerate(inner.coef_index()):
        mean[index] = beliefs.coef[j]
        cov[np.ix_(index, index)] = np.minimum(variance[j], 1e290) * beliefs.factor[j]
    scale = inner.scale_index()
    mean[scale] = 0.5 * (np.log(b) - digamma(a))
    cov[scale, scale] = 0.25 * polygamma(1, a)
    gate = inner.gating_index()
    mean[gate] = digamma(counts[1:]) - digamma(counts[0])
    spread = polygamma(1, counts)
    cov[np.ix_(gate, gate)] = np.diag(spread[1:]) + spread[0]
    back = to_user_matrix(whitening, layout, inner)
    cov = back @ cov @ back.T
    lost = np.diag(cov) > 1e200
    cov[lost, :] = cov[:, lost] = 0.0
    cov[lost, lost] = np.inf
    vector = back @ mean
    if whitening.constant is not None:
        vector[layout.coef_index()] += whitening.shift * whitening.constant
    vector[layout.scale_index()] += np.log(whitening.scale)
    return vector, cov
