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


# Curvatures below this share of the largest are zero: nothing is known along them.
FLAT = 1e-11
# On a scale of logarithms or log odds, a standard error beyond this in a direction of standard
# coefficients means that the maximum lies at infinity along it.
SEPARATED = 30.0
# A variance beyond this stands for one that is infinite; the root of it for its error.
HUGE, HUGE_ERROR = 1e100, 1e75
# Of a sum whose parts cancel along what runs off, this share is rounding.
CANCELS = 1e-3


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """What is known of the parameters, and what is not.

    Some directions are not determined: no rows tell of them, or the estimates run off to infinity
    along them. A linear function of the parameters that does not change along any of these is
    estimable, and has the variance of `finite`. All others have an infinite variance.

    Attributes
    ----------
    finite : (m, m) array
        Covariance where directions that are not determined are left out.
    runaway : (m, r) array
        These directions, each as long as its standard error where the fit stopped. Parameters
        that do not change along them have zeros.
    """

    finite: Array
    runaway: Array

    @staticmethod
    def of(cov: Array) -> Uncertainty:
        """From a covariance with infinite variances of some parameters, one direction each."""
        lost = np.isinf(np.diag(cov))
        return Uncertainty(
            np.where(np.isinf(cov), 0.0, cov), HUGE_ERROR * np.eye(len(cov))[:, lost]
        )

    def involved(self, lines: Array) -> NDArray[np.bool_]:
        """Which linear functions (n, m) change along what is not determined.

        Where the fit stopped their variance is nearly all of that direction. A function that
        changes next to nothing along it, as an average of means does along a coefficient that
        sets some of them to zero, keeps its variance.
        """
        if not self.runaway.shape[1]:
            return np.zeros(len(lines), dtype=bool)
        along = np.square(lines @ self.runaway).sum(axis=1)
        parts = np.square(lines) @ np.square(self.runaway).sum(axis=1)
        return np.asarray((along > CANCELS**2 * parts) & (along > self._finite_variance(lines)))

    def variance(self, lines: Array) -> Array:
        """Variances of linear functions (n, m) of the parameters."""
        found = self._finite_variance(lines)
        return np.where(self.involved(lines) | (found > HUGE), np.inf, found)

    def covariance(self, lines: Array) -> Array:
        """Covariance of linear functions (n, m), infinite on the diagonal where they are lost."""
        lost, found = self.involved(lines), lines @ self.finite @ lines.T
        found[lost, :] = found[:, lost] = 0.0
        found[lost, lost] = np.inf
        return np.asarray(found)

    def estimable(self, lines: Array) -> Array:
        """Weights (r, n) of sums of linear functions (n, m) that the data determine."""
        along = lines @ self.runaway
        size = np.abs(lines) @ np.abs(self.runaway)
        along = np.where(self.involved(lines)[:, None], along, 0.0)
        left, values, _ = np.linalg.svd(along / np.maximum(np.max(size, axis=0), 1e-300))
        return np.asarray(left[:, (values > CANCELS).sum() :].T)

    @property
    def matrix(self) -> Array:
        """Covariance of the parameters, infinite on the diagonal where they are lost."""
        return self.covariance(np.eye(len(self.finite)))

    def turned(self, turn: Array) -> Uncertainty:
        """The same of other parameters, `turn @ parameters`."""
        runaway = np.where(self.involved(turn)[:, None], turn @ self.runaway, 0.0)
        return Uncertainty(turn @ self.finite @ turn.T, runaway)

    def _finite_variance(self, lines: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.einsum("ns,st,nt->n", lines, self.finite, lines, optimize=True)
        return np.maximum(found, 0.0)


@dataclass(frozen=True, slots=True)
class Covariance:
    """Covariance of standard parameters, and directions in which they are not determined.

    Attributes
    ----------
    bread : (m, m) array
        By the information, without the directions below.
    flat, far : (m, r) arrays
        Directions without information, and along which estimates run off to infinity. Each is
        as long as its standard error; the inverse information is `bread + far @ far.T`.
    meat : (m, m) array or None
        Of sandwiches.
    other : (m, m) array or None
        What is asked for in place of `bread`.
    """

    bread: Array
    flat: Array
    far: Array
    meat: Array | None = None
    other: Array | None = None

    def seen_by(self, back: Array, unknown: Array) -> Uncertainty:
        """Of the parameters `back @ parameters`, and of directions that no rows tell of."""
        # Whether a variance is finite does not depend on how it is estimated.
        known = Uncertainty(self.bread, np.hstack([self.flat, self.far])).turned(back)
        without_rows = HUGE_ERROR * (back @ unknown) * reached(back, unknown)[:, None]
        # What does not run off has next to nothing of these directions, and keeps it.
        rest = back @ self.far - known.runaway[:, self.flat.shape[1] :]
        rest *= ~known.runaway.any(axis=1)[:, None]
        if self.other is not None:
            cov = back @ self.other @ back.T
        elif self.meat is not None:
            bread = back @ self.bread + rest @ self.far.T
            cov = bread @ self.meat @ bread.T
        else:
            cov = known.finite + rest @ rest.T
        return Uncertainty(cov, np.hstack([known.runaway, without_rows]))


def covariance(
    sums: InformationSums, cov_type: str, on_logs: NDArray[np.bool_], unknown: Array
) -> Covariance:
    """Covariance of the estimates, and what about them the data do not determine.

    Parameters
    ----------
    sums : InformationSums
    cov_type : str
    on_logs : (m,) array
        Parameters on a scale of logarithms or log odds, which may run off to infinity.
    unknown : (m, r) array
        Directions that no rows tell of.
    """
    bread, flat = inverse_beside(sums.information, unknown)
    # Scores vanish along what runs off, and sandwiches with them, so the information decides.
    far = _far(bread, on_logs)
    if far.size:
        bread, more = inverse_beside(sums.information, np.hstack([unknown, flat, far]))
        flat = np.hstack([flat, more])
        far = _beside(far, bread, sums.information)
    if cov_type == "oim":
        return Covariance(bread, flat, far)
    if cov_type == "opg":
        other, more = inverse_beside(sums.outer, np.hstack([unknown, flat, far]))
        return Covariance(bread, np.hstack([flat, more]), far, other=other)
    meat = sums.outer
    if cov_type == "cluster":
        assert sums.clusters is not None
        each = sums.clusters.each()
        clusters = each.shape[0]
        meat = each.T @ each * clusters / max(1, clusters - 1)
    return Covariance(bread, flat, far, meat=meat)


def inverse_beside(matrix: Array, gone: Array) -> tuple[Array, Array]:
    """Invert a symmetric matrix beside directions (m, r) that are left out.

    Returns
    -------
    inverse : (m, m) array
        A generalised inverse of its positive part.
    flat : (m, s) array
        More directions, in which it is not positive. Each is as long as its standard error
        would be with the least curvature that counts.
    """
    matrix = 0.5 * (matrix + matrix.T)
    diagonal = np.diag(matrix)
    # Scale first: logits and slopes of small components can differ by orders
    # of magnitude. A parameter with no information of its own is not scaled up.
    scale = 1 / np.sqrt(np.maximum(diagonal, 1e-14 * max(float(diagonal.max()), 1e-100)))
    beside = _complement(gone / scale[:, None])
    values, vectors = np.linalg.eigh(beside.T @ (matrix * np.outer(scale, scale)) @ beside)
    wide = scale[:, None] * (beside @ vectors)
    least = FLAT * max(float(np.max(values, initial=0.0)), 1e-100)
    keep = values > least
    inverse = (wide[:, keep] / values[keep]) @ wide[:, keep].T
    return inverse, wide[:, ~keep] / np.sqrt(least)


def _far(cov: Array, on_logs: NDArray[np.bool_]) -> Array:
    """Directions along which estimates run off to infinity."""
    values, vectors = np.linalg.eigh(cov[np.ix_(on_logs, on_logs)])
    far = values > SEPARATED**2
    # With the others as they follow.
    return _unit(cov[:, on_logs] @ vectors[:, far])


def _beside(far: Array, inverse: Array, matrix: Array) -> Array:
    """Directions with all that follows along them, as long as their standard errors.

    The inverse of the matrix is then `inverse`, which is beside these directions, and their
    outer product, without the cancellation of small numbers against large ones.
    """
    along = far - inverse @ (matrix @ far)
    values, vectors = np.linalg.eigh(far.T @ matrix @ along)
    good = np.maximum(values, FLAT * max(float(np.max(values)), 1e-100))
    return np.asarray(along @ (vectors / np.sqrt(good)))


def span(directions: Array) -> Array:
    """An orthonormal basis of what some directions (m, r) span."""
    left, values, _ = np.linalg.svd(_unit(directions), full_matrices=False)
    return np.asarray(left[:, values > CANCELS])


def _complement(directions: Array) -> Array:
    """An orthonormal basis of what is orthogonal to some directions (m, r)."""
    if not directions.shape[1]:
        return np.eye(len(directions))
    left, values, _ = np.linalg.svd(_unit(directions))
    return np.asarray(left[:, (values > CANCELS).sum() :])


def _unit(directions: Array) -> Array:
    """Directions of length one."""
    return np.asarray(directions / np.maximum(np.linalg.norm(directions, axis=0), 1e-300))


def reached(matrix: Array, directions: Array) -> NDArray[np.bool_]:
    """Which rows of `matrix @ parameters` change along orthonormal directions."""
    part = np.square(matrix @ directions).sum(axis=1)
    return np.asarray(part > CANCELS**2 * np.square(matrix).sum(axis=1))
