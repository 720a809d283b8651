"""The paper's moments of (x, y), extended to designs with an intercept.

With standard normal z and y = a_j + b_j'z + noise in component j, Stein's
identities give

    E[y^2 (zz' - I)] / 2 = sum w bb'         E[y^3 H3(z)] / 6 = sum w bbb
    E[y^2 z] / 2         = sum w ab          E[y^3 (zz' - I)] / 6 = sum w abb

The blocks with a^2 and a^3 follow up to the noise variance. Nothing of size
p x p x p is ever formed: the third moment is taken of projected covariates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.exact.thresholds import HARD
from mixreg.sources.block import Block

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MomentSums:
    """Weighted sums of products of y and z; `y2zz` is sum y^2 zz', and so on.

    `n2` stands for |z|^2; `z3` and `z4` are powers of each covariate.
    """

    rows: float
    y1: float
    y2: float
    y3: float
    y3n2: float
    y1z: Array
    y2z: Array
    y3z: Array
    y3n2z: Array
    y2zz: Array
    z3: Array
    z4: Array

    def __add__(self, other: MomentSums) -> MomentSums:
        """Add the sums of other rows."""
        names = self.__dataclass_fields__
        return MomentSums(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class TakeMoments:
    """Task: first to third moments that need no projection.

    Attributes
    ----------
    has_constant : bool
        The first regressor is the constant, the others are z.
    """

    has_constant: bool

    def __call__(self, block: Block, params: None = None) -> MomentSums:
        """Process one block."""
        z = block.x[:, 1:] if self.has_constant else block.x
        y, weight = block.y, _row_weight(block)
        wy = weight * y
        wy2, wy3 = wy * y, wy * y * y
        n2 = np.einsum("nd,nd->n", z, z)
        squares = z * z
        return MomentSums(
            rows=float(weight.sum()),
            y1=float(wy.sum()),
            y2=float(wy2.sum()),
            y3=float(wy3.sum()),
            y3n2=float(wy3 @ n2),
            y1z=wy @ z,
            y2z=wy2 @ z,
            y3z=wy3 @ z,
            y3n2z=(wy3 * n2) @ z,
            y2zz=(z * wy2[:, None]).T @ z,
            z3=weight @ (squares * z),
            z4=weight @ (squares * squares),
        )


@dataclass(frozen=True, slots=True)
class DeviationSums:
    """Sums of f(r) and of f(r) zz' over rows, for some functions f: (m,) and (m, d, d)."""

    rows: float
    f: Array
    fzz: Array

    def __add__(self, other: DeviationSums) -> DeviationSums:
        """Add the sums of other rows."""
        return DeviationSums(self.rows + other.rows, self.f + other.f, self.fzz + other.fzz)


@dataclass(frozen=True, slots=True)
class TakeDeviations:
    """Task: second moments of bounded functions of the pooled fit's residuals r.

    By Stein's identity the range of E[f(r) (zz' - I)] lies in the span of the
    slopes' deviations from their mean. Bounded functions keep the sampling
    error small: with few rows this finds the span far better than y^2 does.
    When intercepts differ too, one function can miss it (its curvature changes
    sign with the offset), so several are used.
    """

    has_constant: bool
    pooled: Array
    variance: float

    def __call__(self, block: Block, params: None = None) -> DeviationSums:
        """Process one block."""
        z = block.x[:, 1:] if self.has_constant else block.x
        r = (block.y - block.x @ self.pooled) / np.sqrt(max(self.variance, HARD))
        functions = [(r * r - 1) / (r * r + 4)]
        if self.has_constant:
            functions += [r / (r * r + 4), np.cos(2 * r), np.sin(2 * r)]
        weight = _row_weight(block)
        f = np.array(functions) * weight
        fzz = np.array([(z * each[:, None]).T @ z for each in f])
        return DeviationSums(float(weight.sum()), f.sum(axis=1), fzz)


def deviation_subspace(sums: DeviationSums, has_constant: bool, k: int) -> Array:
    """Orthonormal basis (p, r) in which components deviate from the pooled fit."""
    d = sums.fzz.shape[1]
    moments = (sums.fzz - sums.f[:, None, None] * np.eye(d)) / sums.rows
    combined = moments[0] if len(moments) == 1 else (moments @ moments).sum(axis=0)
    values, vectors = np.linalg.eigh(combined)
    leading = vectors[:, np.argsort(values)[::-1][: min(k - 1, d)]]
    if not has_constant:
        return np.asarray(leading)
    basis = np.zeros((d + 1, leading.shape[1] + 1))
    basis[0, 0] = 1.0
    basis[1:, 1:] = leading
    return basis


@dataclass(frozen=True, slots=True)
class ThirdSums:
    """Weighted sums of y^3 times products of projected covariates u."""

    rows: float
    uuu: Array
    uu: Array
    u: Array

    def __add__(self, other: ThirdSums) -> ThirdSums:
        """Add the sums of other rows."""
        return ThirdSums(
            self.rows + other.rows, self.uuu + other.uuu, self.uu + other.uu, self.u + other.u
        )


@dataclass(frozen=True, slots=True)
class TakeThird:
    """Task: the third moment of the projected covariates u = z @ projection."""

    has_constant: bool
    projection: Array

    def __call__(self, block: Block, params: None = None) -> ThirdSums:
        """Process one block."""
        z = block.x[:, 1:] if self.has_constant else block.x
        weight = _row_weight(block)
        u = z @ self.projection
        r = u.shape[1]
        yu = u * (weight * block.y**3)[:, None]
        pairs = (u[:, :, None] * u[:, None, :]).reshape(-1, r * r)
        return ThirdSums(
            float(weight.sum()), (yu.T @ pairs).reshape(r, r, r), yu.T @ u, yu.sum(axis=0)
        )


def _row_weight(block: Block) -> Array:
    if block.weight is None:
        return np.ones(block.rows)
    return block.per_row(block.weight)


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of the component vectors c = (a, b), or c = b with no constant.

    Attributes
    ----------
    second : (d, d) array
        Estimate of sum w c c'.
    cubes : (d,) array
        (sum w a^3, sum w a^2 b); empty with no constant.
    """

    second: Array
    cubes: Array


def component_moments(sums: MomentSums, has_constant: bool, noise: float = 0.0) -> Moments:
    """Turn sums into moments of the component vectors."""
    n, d = sums.rows, sums.y1z.shape[0]
    bb = (sums.y2zz - sums.y2 * np.eye(d)) / (2 * n)
    if not has_constant:
        return Moments(bb, np.zeros(0))
    ab = sums.y2z / (2 * n)
    aa = sums.y2 / n - float(np.trace(bb)) - noise
    second = np.block([[np.array([[aa]]), ab[None, :]], [ab[:, None], bb]])
    trace_abb = (sums.y3n2 - d * sums.y3) / (6 * n)
    trace_bbb = (sums.y3n2z - (d + 2) * sums.y3z) / (6 * n)
    aaa = sums.y3 / n - 3 * trace_abb - 3 * noise * sums.y1 / n
    aab = sums.y3z / (3 * n) - trace_bbb - noise * sums.y1z / n
    return Moments(second, np.concatenate([[aaa], aab]))


def largest_noise(sums: MomentSums) -> float:
    """Upper bound of the noise variance: what leaves no variance of intercepts."""
    n, d = sums.rows, sums.y1z.shape[0]
    slopes = (float(np.trace(sums.y2zz)) - d * sums.y2) / (2 * n)
    return max(0.0, sums.y2 / n - slopes - (sums.y1 / n) ** 2)


def symmetric_sum(vector: Array, matrix: Array) -> Array:
    """Sum of vector x matrix over the three places the vector can take."""
    product = np.multiply.outer(vector, matrix)
    return np.asarray(product + product.transpose(1, 0, 2) + product.transpose(1, 2, 0))


def whitened_third(third: ThirdSums, moments: Moments, whitener: Array, y3: float) -> Array:
    """Third moment of the component vectors, seen through the whitener.

    Parameters
    ----------
    third : ThirdSums
        Of covariates projected by the slopes' rows of `whitener`.
    moments : Moments
    whitener : (d, r) array
    y3 : float
        Mean of y^3.

    Returns
    -------
    (r, r, r) array
    """
    n = third.rows
    slopes = whitener[1:] if moments.cubes.size else whitener
    gram = slopes.T @ slopes
    tensor = third.uuu / (6 * n) - symmetric_sum(third.u / (6 * n), gram)
    if moments.cubes.size:
        wa = whitener[0]
        abb = third.uu / (6 * n) - y3 / 6 * gram
        aaa, aab = moments.cubes[0], slopes.T @ moments.cubes[1:]
        tensor = tensor + symmetric_sum(wa, abb) + symmetric_sum(aab, np.outer(wa, wa))
        tensor = tensor + aaa * np.multiply.outer(wa, np.outer(wa, wa))
    return np.asarray(tensor)
