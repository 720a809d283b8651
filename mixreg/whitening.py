"""The coordinates in which everything is computed.

Regressors are rotated and scaled so that their cross products are the identity
and, when a constant lies in their span, so that the first one is the constant
and the others have mean zero. The response is centred (if there is a constant)
and scaled. Normal equations are then as well conditioned as they can be, no
tolerance depends on units, and the paper's moments apply to real designs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from mixreg.blocks import Block
from mixreg.errors import InputError
from mixreg.params import Parameters

Array = NDArray[np.float64]

RANK_TOLERANCE = 1e-10
CONSTANT_TOLERANCE = 1e-10


@dataclass(frozen=True, slots=True)
class Triangle:
    """Triangular factor of (x, 1, y), built up block by block.

    Attributes
    ----------
    factor : (p + 2, p + 2) array
        R of the QR decomposition of the weighted rows.
    sum_y, rows : float
        Weighted sums.
    """

    factor: Array
    sum_y: float
    rows: float

    def __add__(self, other: Triangle) -> Triangle:
        """Join the factors of two sets of rows."""
        stacked = np.concatenate([self.factor, other.factor])
        return Triangle(
            np.asarray(np.linalg.qr(stacked, mode="r")),
            self.sum_y + other.sum_y,
            self.rows + other.rows,
        )


def triangle(block: Block, params: None = None) -> Triangle:
    """Task: the triangular factor of a block's rows."""
    v = np.column_stack([block.x, np.ones(block.rows), block.y])
    rows, total = float(block.rows), float(block.y.sum())
    if block.weight is not None:
        weight = block.per_row(block.weight)
        rows, total = float(weight.sum()), float(weight @ block.y)
        v = v * np.sqrt(weight)[:, None]
    if v.shape[0] < v.shape[1]:
        v = np.concatenate([v, np.zeros((v.shape[1] - v.shape[0], v.shape[1]))])
    return Triangle(np.asarray(np.linalg.qr(v, mode="r")), total, rows)


@dataclass(frozen=True, slots=True)
class Whitening:
    """The way to standard coordinates and back.

    Attributes
    ----------
    basis : (p, p) array
        Standard regressors are x @ basis.
    shift, scale : float
        Standard response is (y - shift) / scale.
    constant : (p,) array or None
        x @ constant = 1, where the design spans a constant.
    rows : float
        Rows, or sum of case weights.
    pooled : (p,) array
        Least squares for all rows, in standard coordinates.
    variance : float
        Its residual variance, in standard coordinates.
    """

    basis: Array
    shift: float
    scale: float
    constant: Array | None
    rows: float
    pooled: Array
    variance: float

    @property
    def has_constant(self) -> bool:
        """Whether the first standard regressor is the constant."""
        return self.constant is not None

    def to_user(self, params: Parameters) -> Parameters:
        """Parameters for the user's columns and units."""
        coef = self.scale * (params.coef @ self.basis.T)
        if self.constant is not None:
            coef = coef + self.shift * self.constant
        return Parameters(coef, params.dispersion * self.scale**2, params.gating)

    def from_user(self, params: Parameters) -> Parameters:
        """Parameters in standard coordinates."""
        coef = params.coef
        if self.constant is not None:
            coef = coef - self.shift * self.constant
        standard = np.asarray(np.linalg.solve(self.basis, coef.T / self.scale).T)
        return Parameters(standard, params.dispersion / self.scale**2, params.gating)

    def log_likelihood(self, standard: float) -> float:
        """Log-likelihood in the user's units."""
        return standard - self.rows * float(np.log(self.scale))

    def start(self, k: int) -> Parameters:
        """Give k copies of the pooled fit."""
        return Parameters.uniform(np.tile(self.pooled, (k, 1)), max(self.variance, 1e-24))


def whitening(total: Triangle, terms: tuple[str, ...]) -> Whitening:
    """Find standard coordinates from the triangular factor of all rows.

    Raises
    ------
    InputError
        If columns are linearly dependent; the message names them.
    """
    p, n = len(terms), total.rows
    factor, cross = total.factor[:p, :p], total.factor[:p, p + 1]
    last = math.hypot(total.factor[p, p + 1], total.factor[p + 1, p + 1])
    check_rank(factor, terms)
    # The column of ones in the orthonormal basis of the regressors, and how
    # much of it lies outside their span.
    ones, outside = total.factor[:p, p] / np.sqrt(n), abs(total.factor[p, p]) / np.sqrt(n)
    rotation, constant = np.eye(p), None
    if outside < CONSTANT_TOLERANCE:
        constant = solve_triangular(factor, ones) * np.sqrt(n)
        rotation = _rotation_to(ones / np.linalg.norm(ones))
    basis = solve_triangular(factor, rotation) * np.sqrt(n)
    shift = total.sum_y / n if constant is not None else 0.0
    along = rotation.T @ (cross / np.sqrt(n))
    if constant is not None:
        along[0] -= shift
    left = float(last) / math.sqrt(n)
    scale = math.hypot(*along, left)
    if scale <= 1e-12 * abs(shift) or scale == 0:
        raise InputError(
            "the response does not vary, so there are no segments to find; check that the "
            "formula's left side names the outcome"
        )
    if not 1e-100 < scale < 1e100:
        raise InputError(
            f"the response has standard deviation {scale:.3g}, too extreme to square; rescale it"
        )
    return Whitening(basis, shift, scale, constant, n, along / scale, (left / scale) ** 2)


def _rotation_to(direction: Array) -> Array:
    """Orthogonal matrix whose first column is a given unit vector."""
    mirror = direction.copy()
    sign = -1.0 if direction[0] > 0 else 1.0
    mirror[0] -= sign
    reflection = np.eye(len(mirror)) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    reflection[:, 0] *= sign
    return reflection


def check_rank(factor: Array, terms: tuple[str, ...]) -> None:
    """Raise an error that names linearly dependent columns."""
    lengths = np.linalg.norm(factor, axis=0)
    zero = [terms[i] for i in np.flatnonzero(lengths <= 0)]
    if zero:
        raise InputError(f"columns of the design are zero: {', '.join(zero)}; drop them")
    triangular, order = qr(factor / lengths, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangular))
    rank = int(np.sum(diagonal > RANK_TOLERANCE))
    p = len(terms)
    if rank == p:
        return
    # Which of the kept columns does each dropped one repeat?
    combination = solve_triangular(triangular[:rank, :rank], triangular[:rank, rank:])
    parts = []
    for column, weights in zip(order[rank:], combination.T, strict=True):
        partners = [terms[i] for i in sorted(order[:rank][np.abs(weights) > 1e-8])]
        parts.append(f"{terms[column]} is a combination of {', '.join(partners)}")
    raise InputError(
        f"the design has {p} columns but rank {rank}: {'; '.join(parts)}. Drop one of the "
        "columns named (with categories, '0 +' or a reference level often does it)"
    )
