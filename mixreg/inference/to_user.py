"""From standard coordinates to the user's units, as a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
