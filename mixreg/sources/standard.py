"""The coordinates in which everything is computed.

Regressors are rotated and scaled so that their cross products are the identity
and, when a constant lies in their span, so that the first one is the constant
and the others have mean zero. The response is centred (if there is a constant)
and scaled. Normal equations are then as well conditioned as they can be, no
tolerance depends on units, and the paper's moments apply to real designs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from mixreg.errors import InputError
from mixreg.exact.thresholds import HARD
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block, spans

Array = NDArray[np.float64]

RANK_TOLERANCE = 1e-10
CONSTANT_TOLERANCE = 1e-10
# Bits of coordinates and starts that are kept, and the condition of coordinates that can lose
# the others.
KEPT_BITS, MOST_CONDITION = 38, 1e4
# Times that a solution is improved.
REFINEMENTS = 2


def steady(values: Any) -> Any:
    """Values without their last digits, which depend on the order of additions.

    Searches go apart on the last bit of what they begin with. Coordinates and starts need
    not be exact, but they should be the same however rows are cut into blocks.
    """
    values = np.asarray(values, dtype=float)
    size = np.abs(values).max(initial=0.0)
    if not 0 < size < np.inf:
        return values
    unit = 2.0 ** (math.frexp(float(size))[1] - KEPT_BITS)
    return np.round(values / unit) * unit


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
            _factor(stacked),
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
    return Triangle(_factor(v), total, rows)


def _factor(v: Array) -> Array:
    """R of the QR decomposition, square also where rows are few, its diagonal not negative."""
    missing = max(0, v.shape[1] - v.shape[0])
    v = np.concatenate([v, np.zeros((missing, v.shape[1]))]) if missing else v
    factor = np.asarray(np.linalg.qr(v, mode="r"))
    return factor * np.where(np.diag(factor) < 0, -1.0, 1.0)[:, None]


@dataclass(frozen=True, slots=True)
class Whitening:
    """The way to standard coordinates and back.

    Attributes
    ----------
    basis : (p, p) array
        Standard regressors are x @ basis.
    shift, scale : float
        Standard response is (y - shift) / scale. With several responses, shift,
        scale, variance and dispersion are arrays (d,), one entry a response.
    constant : (p,) array or None
        x @ constant = 1, where the design spans a constant.
    rows : float
        Rows, or sum of case weights.
    pooled : (p,) array
        Least squares for all rows, in standard coordinates.
    variance : float
        Its residual variance, in standard coordinates.
    linear : Whitening or None
        In families other than the linear one, the standard coordinates of the
        surrogate response, which starts are looked for in.
    dispersion : float
        In those families, the dispersion of the pooled fit.
    gate : (q, q) array or None
        Standard concomitants are z @ gate.
    columns : (p,) int array or None
        With several responses, which of them each regressor belongs to.
    grain : Grain, tuple of them, or None
        How widely responses are rounded, in the user's units, where that is to be kept apart
        from errors; with several responses, of each (or None).
    safe : (p,) array or None
        Coefficients under which every row has a mean, well within its range, where links lead
        out of it.
    """

    basis: Array
    shift: Any
    scale: Any
    constant: Array | None
    rows: float
    pooled: Array
    variance: Any
    linear: Whitening | None = None
    dispersion: Any = 1.0
    gate: Array | None = None
    columns: NDArray[np.intp] | None = None
    grain: Any = None
    safe: Array | None = None

    @property
    def has_constant(self) -> bool:
        """Whether the first standard regressor is the constant."""
        return self.constant is not None

    def of_columns(self, values: Any) -> Any:
        """Values of the responses for the user's columns that belong to them."""
        return values if self.columns is None else values[self.columns]

    @property
    def standard_owners(self) -> tuple[int, ...] | None:
        """Response of each standard regressor."""
        if self.columns is None:
            return None
        return tuple(self.columns[np.abs(self.basis).argmax(axis=0)].tolist())

    def standard_columns(self, x: Array, out: Array) -> Array:
        """Standard regressors of some rows, those of each response from its own."""
        if self.columns is None or self.standard_owners is None:
            return np.matmul(x, self.basis, out=out)
        pairs = zip(spans(tuple(self.columns)), spans(self.standard_owners), strict=True)
        for own, made in pairs:
            out[:, made] = x[:, own] @ self.basis[own][:, made]
        return out

    @property
    def coef_map(self) -> Array:
        """Derivative of the user's coefficients in the standard ones, (p, p)."""
        scale = self.of_columns(self.scale)
        return np.asarray(self.basis * (scale if np.ndim(scale) == 0 else scale[:, None]))

    @property
    def log_volume(self) -> float:
        """What a log-likelihood loses on the way to the user's units."""
        return self.rows * float(np.log(self.scale).mean())

    def to_user(self, params: Parameters) -> Parameters:
        """Parameters for the user's columns and units."""
        coef = self.of_columns(self.scale) * (params.coef @ self.basis.T)
        if self.constant is not None:
            coef = coef + self.of_columns(self.shift) * self.constant
        gate = params.gating if self.gate is None else params.gating @ self.gate.T
        return Parameters(coef, params.dispersion * self.scale**2, gate)

    def from_user(self, params: Parameters) -> Parameters:
        """Parameters in standard coordinates."""
        coef = params.coef
        if self.constant is not None:
            coef = coef - self.of_columns(self.shift) * self.constant
        standard = _unmap(self.basis, coef / self.of_columns(self.scale))
        gate = params.gating
        if self.gate is not None and gate.shape[-1] == self.gate.shape[0]:
            gate = _unmap(self.gate, gate)
        return Parameters(standard, params.dispersion / self.scale**2, gate)

    def standard_block(self, block: Block) -> Block:
        """Some rows in standard coordinates."""
        y, offset = self.standard_rows(block.y, block.offset)
        x = self.standard_columns(block.x, np.empty(block.x.shape))
        z = block.z if block.z is None or self.gate is None else block.z @ self.gate
        owners, hidden = self.standard_owners, self.hidden(block.y)
        made = replace(block, x=x, y=y, z=z, offset=offset, pairs=None, owners=owners)
        return replace(made, rounding=hidden)

    def standard_rows(self, y: Array, offset: Array | None) -> tuple[Array, Array | None]:
        """Standard responses and offsets."""
        if self.columns is None and self.shift == 0 and self.scale == 1:
            return y, offset
        return (y - self.shift) / self.scale, None if offset is None else offset / self.scale

    def hidden(self, y: Array) -> Array | None:
        """Variance of what rounding hides of the user's responses, in standard units."""
        if self.grain is None:
            return None
        if self.columns is None:
            return np.asarray(self.grain.variance(y) / self.scale**2)
        each = [
            np.zeros(len(y)) if grain is None else grain.variance(y[:, i])
            for i, grain in enumerate(self.grain)
        ]
        return np.asarray(np.stack(each, axis=1) / self.scale**2)

    def background(self, length: Any) -> Any:
        """Ranges in the user's units as standard ones."""
        if length is None or self.columns is None:
            return None if length is None else length / self.scale
        return tuple((np.asarray(length) / self.scale).tolist())

    def log_likelihood(self, standard: float) -> float:
        """Log-likelihood in the user's units."""
        return standard - self.log_volume

    def hard_objective(self, standard: Any) -> Any:
        """AltMin's objective in the user's units: squares, or a log-likelihood."""
        if self.columns is not None:
            return standard - self.log_volume
        return standard * self.scale**2

    def lift(self, coef: Array) -> Array:
        """Coefficients for the centred response as ones for the response as it is."""
        out = np.array(coef)
        if self.constant is not None and self.columns is None:
            out[..., 0] += self.shift / self.scale
        return out

    def start(self, k: int) -> Parameters:
        """Give k copies of the pooled fit."""
        spread = np.maximum(self.variance, HARD) if self.linear is None else self.dispersion
        return Parameters.uniform(np.tile(self.pooled, (k, 1)), spread)


def whitening(
    total: Triangle,
    terms: tuple[str, ...],
    shared: tuple[int, ...] = (),
    rotate: bool = True,
) -> Whitening:
    """Find standard coordinates from the triangular factor of all rows.

    Standard regressors made of shared terms come last, and the others have no
    part in them, so that a coefficient in common stays one. Without `rotate`,
    columns are only scaled, so that a coefficient of zero stays zero.

    Raises
    ------
    InputError
        If columns are linearly dependent; the message names them.
    """
    p, n = len(terms), total.rows
    factor, cross = total.factor[:p, :p], total.factor[:p, p + 1]
    last = math.hypot(total.factor[p, p + 1], total.factor[p + 1, p + 1])
    check_rank(factor, terms)
    order = [*(i for i in range(p) if i not in shared), *shared]
    turn, factor = np.linalg.qr(factor[:, order]) if shared else (np.eye(p), factor)
    cross = turn.T @ cross
    # The column of ones in the orthonormal basis of the regressors, and how
    # much of it lies outside the span of those that are not shared.
    own = p - len(shared)
    ones = turn.T @ total.factor[:p, p] / np.sqrt(n)
    outside = math.hypot(total.factor[p, p] / np.sqrt(n), *ones[own:])
    rotation, constant = np.eye(p), None
    if rotate and own and outside < CONSTANT_TOLERANCE:
        constant = np.empty(p)
        constant[order] = solve_triangular(factor, ones) * np.sqrt(n)
        rotation[:own, :own] = _rotation_to(ones[:own] / np.linalg.norm(ones[:own]))
    basis = np.empty((p, p))
    basis[order] = solve_triangular(factor, rotation) * np.sqrt(n)
    shift = total.sum_y / n if constant is not None else 0.0
    along = rotation.T @ (cross / np.sqrt(n))
    if constant is not None:
        along[0] -= shift
    left = float(last) / math.sqrt(n)
    scale = math.hypot(*along, left)
    if not rotate:
        length = np.sqrt(n) / np.linalg.norm(factor, axis=0)
        along = (basis[order] @ along) / length
        basis[order] = np.diag(length)
    if scale <= 1e-12 * abs(shift) or scale == 0:
        raise InputError(
            "the response does not vary, so there are no segments to find; check that the "
            "formula's left side names the outcome"
        )
    if not 1e-100 < scale < 1e100:
        raise InputError(
            f"the response has standard deviation {scale:.3g}, too extreme to square; rescale it"
        )
    if np.linalg.cond(basis / np.linalg.norm(basis, axis=0)) < MOST_CONDITION:
        basis = np.apply_along_axis(steady, 0, basis)
        shift, scale = float(steady(shift)), float(steady(scale))
    pooled, variance = steady(along / scale), float(steady((left / scale) ** 2))
    return Whitening(basis, shift, scale, constant, n, pooled, variance)


def _unmap(basis: Array, values: Array) -> Array:
    """Solve values = out @ basis' for the last axis.

    Polynomials in a year have coefficients of all sizes: rows are scaled to one size, and
    what is left over is solved for again, in more digits.
    """
    size = 1 / np.abs(basis).max(axis=1)
    scaled, flat = basis * size[:, None], (values.reshape(-1, values.shape[-1]) * size).T
    found = np.linalg.solve(scaled, flat)
    for _ in range(REFINEMENTS):
        left = flat - np.dot(scaled.astype(np.longdouble), found)
        found = found + np.linalg.solve(scaled, left.astype(float))
    return np.asarray(found.T.reshape(values.shape), dtype=float)


def for_family(linear: Whitening) -> Whitening:
    """The same regressors with the response as it is, for families that are not linear."""
    # The surrogate's scale goes into the regressors, so that coefficients are of
    # order one whatever the units of the response.
    return replace(
        linear,
        basis=linear.basis * linear.scale,
        shift=0.0,
        scale=1.0,
        pooled=linear.lift(linear.pooled),
        linear=linear,
    )


def joined(parts: list[Whitening], shared: tuple[int, ...]) -> Whitening:
    """Standard coordinates of several responses, each with its own.

    Standard regressors made of shared terms come last, as in `whitening`.
    """
    sizes = [len(part.pooled) for part in parts]
    columns = np.repeat(np.arange(len(parts)), sizes)
    p, ends = len(columns), np.cumsum(sizes)
    basis, order = np.zeros((p, p)), []
    for part, size, end in zip(parts, sizes, ends, strict=True):
        basis[end - size : end, end - size : end] = part.basis
        common = sum(end - size <= i < end for i in shared)
        order += [(j >= end - common, j) for j in range(end - size, end)]
    last = [j for _, j in sorted(order)]
    none = [np.zeros(size) for size in sizes]
    constants = [z if w.constant is None else w.constant for w, z in zip(parts, none, strict=True)]
    linear = None
    if parts[0].linear is not None:
        linear = joined([part.linear for part in parts if part.linear is not None], shared)
    return Whitening(
        basis[:, last],
        np.array([part.shift for part in parts]),
        np.array([part.scale for part in parts]),
        np.concatenate(constants),
        float(sum(part.rows for part in parts)),
        np.concatenate([part.pooled for part in parts])[last],
        np.array([part.variance for part in parts]),
        linear,
        np.array([part.dispersion for part in parts]),
        columns=columns,
    )


def gate_triangle(block: Block, params: None = None) -> Triangle:
    """Task: the triangular factor of (z, 1) of a block's units."""
    assert block.z is not None
    v, total = np.column_stack([block.z, np.ones(block.units)]), float(block.units)
    if block.weight is not None:
        v, total = v * np.sqrt(block.weight)[:, None], float(block.weight.sum())
    return Triangle(_factor(v), 0.0, total)


def gate_basis(total: Triangle, terms: tuple[str, ...]) -> Array:
    """Coordinates in which concomitants are orthonormal, a constant first if there is one."""
    q = len(terms)
    factor = total.factor / np.sqrt(total.rows)
    check_rank(factor[:q, :q], terms)
    ones, rotation = factor[:q, q], np.eye(q)
    if abs(factor[q, q]) < CONSTANT_TOLERANCE:
        rotation = _rotation_to(ones / np.linalg.norm(ones))
    basis = np.asarray(solve_triangular(factor[:q, :q], rotation))
    if np.linalg.cond(basis / np.linalg.norm(basis, axis=0)) < MOST_CONDITION:
        basis = np.apply_along_axis(steady, 0, basis)
    return basis


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
        "columns named (where levels of a category add up to a constant, a level or the constant)"
    )
