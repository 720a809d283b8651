"""Tensor starts: the paper's Algorithm 1, in standard coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorly as tl
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.search.constants import (
    NOISE_GRID,
)
from mixreg.search.moments import (
    Moments,
    MomentSums,
    TakeMoments,
    TakeThird,
    component_moments,
    largest_noise,
    whitened_third,
)
from mixreg.search.power import SymmetricDecomposition, robust_power_method
from mixreg.sources import Source
from mixreg.sources.standard import steady

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TensorStart:
    """How the tensor start is made.

    Attributes
    ----------
    n_starts : int or None
        L, power starts for each component; 200 k^2 if None, as in the paper.
    n_iter : int or None
        N, power iterations; 20 log k if None, as in the paper.
    split : bool
        Use one half of the data for the second moment and the other for the
        third, as the paper's analysis (not its experiments) does.

    Examples
    --------
    >>> from mixreg import MixReg, TensorStart, datasets
    >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
    >>> model.fit(init=TensorStart(n_starts=50)).converged
    True
    """

    n_starts: int | None = None
    n_iter: int | None = None
    split: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("n_starts", "n_iter"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, or None for the paper's; got {value}")

    def starts_for(self, k: int) -> int:
        """L for k components.

        Examples
        --------
        >>> from mixreg import TensorStart
        >>> TensorStart().starts_for(3), TensorStart(n_starts=50).starts_for(3)
        (1800, 50)
        """
        return 200 * k**2 if self.n_starts is None else self.n_starts

    def iterations_for(self, k: int) -> int:
        """N for k components.

        Examples
        --------
        >>> from mixreg import TensorStart
        >>> TensorStart().iterations_for(3), TensorStart(n_iter=15).iterations_for(3)
        (22, 15)
        """
        return max(10, round(20 * np.log(k))) if self.n_iter is None else self.n_iter


@dataclass(frozen=True, slots=True)
class TensorResult:
    """A decomposition of the moments, and the start it gives.

    Attributes
    ----------
    weights : (r,) array
    vectors : (r, d) array
        Component vectors, in standard coordinates.
    spectrum : (d,) array
        Eigenvalues of the second moment, largest first.
    decomposition : SymmetricDecomposition
        Of the whitened third moment.
    noise : float
        Assumed noise variance.
    skewness, kurtosis : (d,) arrays
        Third moment, and excess fourth moment, of each standard regressor; 0
        if it is Gaussian.
    """

    weights: Array
    vectors: Array
    spectrum: Array
    decomposition: SymmetricDecomposition
    noise: float
    skewness: Array
    kurtosis: Array


def take_moments(source: Source, has_constant: bool) -> MomentSums:
    """First pass: moments that need no projection."""
    return source.sweep(TakeMoments(has_constant))


def decompose(
    third_source: Source,
    sums: MomentSums,
    has_constant: bool,
    k: int,
    noise: float,
    options: TensorStart,
    rng: np.random.Generator,
    within: Array | None = None,
) -> TensorResult:
    """Whiten the second moment, decompose the third, map back.

    With `within` (d, r), an orthonormal basis, the leading eigenvectors of the
    second moment are looked for in its span only.
    """
    moments: Moments = component_moments(sums, has_constant, noise)
    spectrum, vectors = _eigen(moments.second)
    rank = min(k, len(spectrum))
    if within is None or within.shape[1] < rank:
        subspace = vectors[:, :rank]
        leading = spectrum[:rank]
    else:
        leading, vectors = _eigen(within.T @ moments.second @ within)
        leading, subspace = leading[:rank], within @ vectors[:, :rank]
    # Sampling error can make small eigenvalues negative; the whitener then
    # takes a small positive one in their place.
    kept = np.maximum(leading, 1e-3 * max(leading[0], 1e-12))
    whitener = subspace / np.sqrt(kept)
    slopes = whitener[1:] if has_constant else whitener
    third = third_source.sweep(TakeThird(has_constant, slopes))
    tensor = whitened_third(third, moments, whitener, sums.y3 / sums.rows)
    parts = robust_power_method(tensor, rank, options.starts_for(k), options.iterations_for(k), rng)
    vectors = parts.values[:, None] * (parts.vectors @ (subspace * np.sqrt(kept)).T)
    weights = 1 / np.maximum(parts.values**2, 1.0)
    return TensorResult(
        weights,
        vectors,
        spectrum,
        parts,
        noise,
        sums.z3 / sums.rows,
        sums.z4 / sums.rows - 3.0,
    )


def _eigen(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, largest first, and their vectors."""
    values, vectors = tl.eigh(matrix)
    order = np.argsort(values)[::-1]
    return np.asarray(values)[order], np.asarray(vectors)[:, order]


def tensor_results(
    source: Source,
    has_constant: bool,
    k: int,
    options: TensorStart,
    rng: np.random.Generator,
    within: Array | None = None,
) -> list[TensorResult]:
    """Decompose once for each trial noise variance (once, with no constant)."""
    second, third = source.split(2, int(rng.integers(2**63))) if options.split else (source, source)
    sums = take_moments(second, has_constant)
    grid = NOISE_GRID if has_constant else (0.0,)
    top = largest_noise(sums) if has_constant else 0.0
    return [
        decompose(third, sums, has_constant, k, share * top, options, rng, within) for share in grid
    ]


def start_from(
    result: TensorResult, k: int, variance: float, rng: np.random.Generator
) -> Parameters:
    """Turn a decomposition into a start, filling up with random vectors if k > rank."""
    rank, d = result.vectors.shape
    coef = np.empty((k, d))
    coef[:rank] = steady(result.vectors)
    weights = np.full(k, 1 / k)
    weights[:rank] = np.clip(steady(result.weights), 0.1 / k, 1.0)
    if k > rank:
        directions = rng.standard_normal((k - rank, d))
        coef[rank:] = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    # An eigenvector that never rose above the noise can be any length.
    length = np.linalg.norm(coef, axis=1, keepdims=True)
    coef *= np.minimum(1.0, 10.0 / np.maximum(length, 1e-300))
    return Parameters(coef, np.full(k, variance), log_gating(weights / weights.sum()))
