"""Starts as a user without a search would draw them."""

from __future__ import annotations

import numpy as np


def random_labels(units: int, k: int, seed: int) -> np.ndarray:
    """A label 1..k for each row or group, every label at least once."""
    rng = np.random.default_rng(seed)
    while True:
        labels = rng.integers(1, k + 1, units)
        if len(np.unique(labels)) == k:
            return labels
