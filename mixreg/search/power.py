"""Robust tensor power method: the paper's Algorithm 2, all starts as one batch.

The tensor algebra is TensorLy's. Starts are drawn uniformly on the sphere from
a seeded generator and iterated together, as columns of one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorly as tl
from numpy.typing import NDArray
from tensorly.tenalg import multi_mode_dot, outer

Array = NDArray[np.float64]

# Columns iterated at once: enough to share the unfolded tensor, few enough for
# their products to stay in cache.
BATCH = 2048


@dataclass(frozen=True, slots=True)
class SymmetricDecomposition:
    """A symmetric tensor as a sum of eigenvalue times eigenvector cubed.

    Attributes
    ----------
    values : (rank,) array
        Eigenvalues in the order they were found.
    vectors : (rank, d) array
        One eigenvector a row.
    residual : float
        Norm of what is left over, relative to the tensor's.
    """

    values: Array
    vectors: Array
    residual: float


def apply_twice(unfolded: Array, vectors: Array) -> Array:
    """T(I, b, b) for every column b of `vectors`, with T unfolded to (k, k * k)."""
    # TensorLy's `khatri_rao`, whose way to its backend takes longer than so small a product.
    products = vectors[:, None] * vectors[None, :]
    return np.asarray(unfolded @ products.reshape(-1, vectors.shape[1]))


def power_iterations(unfolded: Array, vectors: Array, n_iter: int) -> Array:
    """Iterate b <- T(I, b, b) / |T(I, b, b)| for every column."""
    for _ in range(n_iter):
        vectors = apply_twice(unfolded, vectors)
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=0), 1e-300)
    return vectors


def robust_power_method(
    tensor: Array, rank: int, n_starts: int, n_iter: int, rng: np.random.Generator
) -> SymmetricDecomposition:
    """Decompose a symmetric third-order tensor by power iterations and deflation.

    Parameters
    ----------
    tensor : (d, d, d) array
    rank : int
        Eigenpairs to find.
    n_starts : int
        L, random starts for each eigenpair.
    n_iter : int
        N, power iterations for each start, and once more for the best.
    rng : numpy Generator
    """
    d = tensor.shape[0]
    left = tensor
    values, vectors = [], []
    for _ in range(rank):
        unfolded = np.asarray(tl.unfold(left, 0))
        starts = rng.standard_normal((d, n_starts))
        starts /= np.linalg.norm(starts, axis=0)
        best, score = starts[:, :1], -np.inf
        for first in range(0, n_starts, BATCH):
            batch = power_iterations(unfolded, starts[:, first : first + BATCH], n_iter)
            scores = np.einsum("dl,dl->l", batch, apply_twice(unfolded, batch))
            top = int(np.argmax(scores))
            if scores[top] > score:
                best, score = batch[:, top : top + 1], float(scores[top])
        vector = power_iterations(unfolded, best, n_iter)[:, 0]
        value = float(multi_mode_dot(left, [vector] * 3))
        values.append(value)
        vectors.append(vector)
        left = left - value * outer([vector] * 3)
    size = float(tl.norm(tensor))
    residual = float(tl.norm(left)) / size if size > 0 else 0.0
    return SymmetricDecomposition(np.array(values), np.array(vectors), residual)
