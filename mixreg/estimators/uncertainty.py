"""Uncertain coefficients of linear regressions: x' V x of many rows, where it matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]

# Changes of a responsibility that are let pass, so that uncertainty need not be
# taken off where it changes nothing.
NEGLIGIBLE = 1e-11
# What uncertainty may take off a log density before no row is left out.
SPARE = 2.0
# Entries of a root of V below which single precision is enough for x' V x.
SMALL = 0.02


def subtract_uncertainty(
    block: Block | GramBlock, factor: Array, root: Array, joint: Array
) -> None:
    """Take half of x' V x off each log density, in place: coefficients are uncertain."""
    k, p = factor.shape[0], factor.shape[-1]
    lead = factor.shape[:-2]
    if isinstance(block, Block) and block.pairs is None:
        for index in np.ndindex(*lead):
            joint[index] -= 0.5 * block.per_unit(_squares(block.x, root[index]))
        return
    rows, cols = np.triu_indices(p)
    double = np.where(rows == cols, 1.0, 2.0)
    triangle = (factor[..., rows, cols] * double).reshape(-1, len(rows))
    if isinstance(block, GramBlock):
        products = block.gram[:, _inner_columns(block)]
        joint[:k] -= 0.5 * (triangle @ products.T).reshape(*lead, block.units)
    else:
        assert block.pairs is not None
        each = (triangle @ block.pairs.T).reshape(*lead, block.rows)
        joint[:k] -= 0.5 * block.per_unit(each)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Roots of V in the form that squares of many rows are made with.

    Roots are lower triangular, so their last columns need the last regressors
    only: they are kept in two halves.

    Attributes
    ----------
    halves : two arrays
        (k * columns, p) and (k * columns, regressors), components first.
    k : int
    most : float
        The most that uncertainty takes off a log density.
    """

    halves: tuple[NDArray[Any], NDArray[Any]]
    k: int
    most: float

    @staticmethod
    def of(root: Array, longest: float) -> Uncertainty:
        """Prepare the roots (k, p, p) of one run."""
        k, p = root.shape[:2]
        half = p // 2
        parts = (root[:, :, :half], root[:, half:, half:])
        most = 0.5 * longest * float((root * root).sum(axis=(-1, -2)).max())
        # Squares this small need no more than single precision, which is faster.
        kind = np.float32 if np.abs(root).max() < SMALL else np.float64
        first, second = (
            np.ascontiguousarray(part.transpose(0, 2, 1), dtype=kind).reshape(
                k * part.shape[2], part.shape[1]
            )
            for part in parts
        )
        return Uncertainty((first, second), k, most)

    def squares(self, x: Array) -> NDArray[Any]:
        """Values of x' V x of every row under every component, (k, rows)."""
        first, second = self.halves
        x = x.astype(first.dtype, copy=False)
        last = x[:, x.shape[1] - second.shape[1] :]
        one = (first @ x.T).reshape(self.k, len(first) // self.k, len(x))
        two = (second @ last.T).reshape(self.k, len(second) // self.k, len(x))
        total = np.einsum("kpn,kpn->kn", two, two)
        total += np.einsum("kpn,kpn->kn", one, one)
        return np.asarray(total)


@dataclass(frozen=True, slots=True)
class Contested:
    """Rows that more than one component may have made, and x' V x at them.

    Attributes
    ----------
    rows : int array, or a slice for all rows
    spread : (k, contested rows) array
    """

    rows: Any
    spread: NDArray[Any]

    @staticmethod
    def find(block: Block, uncertainty: Uncertainty, joint: Array) -> Contested:
        """Take uncertainty off the log densities where it decides, in place.

        It only lowers a log density. A component far below the best stays out
        of it, and a row with one component left has that for sure.
        """
        flat, most = joint.reshape(joint.shape[0], block.rows), uncertainty.most
        rows: Any = slice(None)
        if most < SPARE:
            margin = most + max(0.0, float(np.log(most / NEGLIGIBLE)))
            near = flat > flat.max(axis=0) - margin
            few = np.flatnonzero(np.count_nonzero(near, axis=0) > 1)
            rows = few if len(few) < 0.6 * block.rows else rows
        spread = uncertainty.squares(block.x[rows])
        flat[: uncertainty.k, rows] -= 0.5 * spread
        return Contested(rows, spread)

    def taken(self, resp: Array) -> Array:
        """Sum of responsibility times x' V x over these rows, shaped like an objective."""
        k = self.spread.shape[0]
        own = resp.reshape(resp.shape[0], -1)[:k, self.rows]
        return np.full(resp.shape[1:-1], float(np.einsum("kn,kn->", own, self.spread)))


def _squares(x: NDArray[Any], root: NDArray[Any]) -> NDArray[Any]:
    """Squared length of each row of x @ root."""
    product = x @ root
    return np.asarray(np.einsum("ij,ij->i", product, product))


@dataclass(frozen=True, slots=True)
class Largest:
    """A number of which the largest is kept."""

    value: float

    def __add__(self, other: Largest) -> Largest:
        """The larger of two."""
        return self if self.value >= other.value else other


def longest_row(block: Block, params: None = None) -> Largest:
    """Task: the largest squared length of a row of regressors."""
    return Largest(float(np.einsum("ij,ij->i", block.x, block.x).max()))


def _inner_columns(block: GramBlock) -> NDArray[np.intp]:
    """Stored cross products that involve regressors only."""
    rows, cols = block.triangle
    return np.flatnonzero((rows < block.p) & (cols < block.p))


def roots(factor: Array) -> Array:
    """Lower triangular roots of covariances (..., p, p), in which zeros stand for what is known."""
    known = np.diagonal(factor, axis1=-2, axis2=-1) == 0
    if not known.any():
        return _root(factor)
    one = known[..., None] * np.eye(factor.shape[-1])
    return _root(factor + one) - one


def _root(factor: Array) -> Array:
    """Lower triangular roots; of what rounding left without one, of the nearest that have."""
    try:
        return np.asarray(np.linalg.cholesky(factor))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(np.nan_to_num(factor, posinf=0.0, neginf=0.0))
        half = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        upper = np.linalg.qr(np.swapaxes(half, -1, -2), mode="r")
        signs = np.where(np.diagonal(upper, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
        return np.asarray(np.swapaxes(upper * signs[..., None], -1, -2))


def log_determinant(factor: Array) -> Array:
    """Logarithm of the determinant of covariances, but for what is known."""
    known = np.diagonal(factor, axis1=-2, axis2=-1) == 0
    filled = factor + known[..., None] * np.eye(factor.shape[-1])
    return np.asarray(np.linalg.slogdet(filled)[1])
