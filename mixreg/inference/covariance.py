"""Covariance matrices of the estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mixreg.inference.information import InformationSums

Array = NDArray[np.float64]
CovType = Literal["oim", "opg", "robust", "cluster", "none"]
COV_TYPES: tuple[str, ...] = get_args(CovType)

DESCRIPTIONS = {
    "oim": "Standard errors from the observed information of the mixture.",
    "opg": "Standard errors from the outer product of the scores.",
    "robust": "Standard errors are robust to misspecification (sandwich).",
    "cluster": "Standard errors are robust to correlation within {clusters} clusters (sandwich).",
    "none": "Standard errors were not computed (cov_type='none').",
}


@dataclass(frozen=True, slots=True)
class Null:
    """Directions in which parameters are not determined.

    Attributes
    ----------
    directions : (m, r) array
        Orthonormal, of parameters divided by their scale.
    scale : (m,) array
    """

    directions: Array
    scale: Array

    def reach(self, matrix: Array) -> NDArray[np.bool_]:
        """Which rows of `matrix @ parameters` change along these directions."""
        full = matrix * self.scale
        part = full @ self.directions
        return np.asarray((part**2).sum(axis=1) > 1e-6 * (full**2).sum(axis=1))


def covariance(sums: InformationSums, cov_type: str) -> tuple[Array, Null]:
    """Covariance of the estimates, and what about them the data do not determine.

    Where the information matrix is singular or not positive definite, a
    generalised inverse of its positive part stands in for the inverse.
    """
    if cov_type == "opg":
        return positive_inverse(sums.outer)
    bread, null = positive_inverse(sums.information)
    if cov_type == "oim":
        return bread, null
    meat = sums.outer
    if cov_type == "cluster":
        assert sums.clusters is not None
        each = sums.clusters.each()
        clusters = each.shape[0]
        meat = each.T @ each * clusters / max(1, clusters - 1)
    return bread @ meat @ bread, null


def positive_inverse(matrix: Array) -> tuple[Array, Null]:
    """Invert a symmetric matrix where it is positive; also return where it is not."""
    matrix = 0.5 * (matrix + matrix.T)
    diagonal = np.diag(matrix)
    # Scale first: logits and slopes of small components can differ by orders
    # of magnitude. A parameter with no information of its own is not scaled up.
    scale = 1 / np.sqrt(np.maximum(diagonal, 1e-14 * max(float(diagonal.max()), 1e-300)))
    values, vectors = np.linalg.eigh(matrix * np.outer(scale, scale))
    keep = values > 1e-11 * values.max()
    inverse = (vectors[:, keep] / values[keep]) @ vectors[:, keep].T
    return inverse * np.outer(scale, scale), Null(vectors[:, ~keep], scale)
