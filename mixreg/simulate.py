"""Draw data from mixtures of linear regressions."""

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from mixreg.errors import InputError

Seed = int | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class MixedLinearEquations:
    """One data set of mixed linear equations, with its truth.

    Attributes
    ----------
    X : ndarray, shape (n, p)
        Regressors, without an intercept.
    y : ndarray, shape (n,)
        Response.
    coefficients : ndarray, shape (k, p)
        True coefficients, one row a component.
    labels : ndarray of int, shape (n,)
        True component of each row, 1 to k.
    weights : ndarray, shape (k,)
        Probabilities the labels were drawn with.

    Examples
    --------
    >>> from mixreg.simulate import mixed_linear_equations
    >>> data = mixed_linear_equations(100, 5, 3, seed=1)
    >>> data.X.shape, data.y.shape, data.coefficients.shape
    ((100, 5), (100,), (3, 5))
    >>> sorted(set(data.labels.tolist()))
    [1, 2, 3]
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    labels: NDArray[np.int64]
    weights: NDArray[np.float64]

    def frame(self) -> pd.DataFrame:
        """Return the rows as a table.

        Returns
        -------
        pandas.DataFrame
            Columns ``y``, ``x1`` to ``xp`` and ``label``.

        Examples
        --------
        >>> from mixreg.simulate import mixed_linear_equations
        >>> frame = mixed_linear_equations(100, 2, 2, seed=1).frame()
        >>> frame.columns.tolist(), len(frame)
        (['y', 'x1', 'x2', 'label'], 100)
        """
        regressors = {f"x{j}": column for j, column in enumerate(self.X.T, start=1)}
        return pd.DataFrame({"y": self.y, **regressors, "label": self.labels})


@dataclass(frozen=True, eq=False)
class SimulatedResponse:
    """Responses and labels drawn for given regressors.

    Attributes
    ----------
    y : ndarray, shape (n,)
        Response.
    labels : ndarray of int, shape (n,)
        True component of each row, 1 to k.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg.simulate import mixture_of_regressions
    >>> X = np.column_stack([np.ones(6), np.arange(6)])
    >>> drawn = mixture_of_regressions(X, [[0, 1], [10, 0]], [0.5, 0.5], 0.0, seed=0)
    >>> drawn.labels.tolist()
    [2, 1, 1, 1, 2, 2]
    >>> drawn.y.tolist()
    [10.0, 1.0, 2.0, 3.0, 10.0, 10.0]
    """

    y: NDArray[np.float64]
    labels: NDArray[np.int64]


def mixed_linear_equations(
    n: int,
    p: int,
    k: int,
    delta: float = 1.2,
    *,
    noise: float = 0.0,
    weights: ArrayLike | None = None,
    seed: Seed = None,
) -> MixedLinearEquations:
    """Draw mixed linear equations with equally spaced unit coefficients.

    Regressors are standard normal. The k coefficient vectors have length 1, lie in a random
    k-dimensional subspace, and every two of them are `delta` apart.

    Parameters
    ----------
    n, p, k : int
        Number of rows, regressors and components; ``k <= p``.
    delta : float, default 1.2
        Distance between every two coefficient vectors, above 0 and at most
        ``sqrt(2 k / (k - 1))``. Not used when k is 1.
    noise : float, default 0
        Standard deviation of Gaussian noise added to the response.
    weights : array_like, shape (k,), optional
        Probability of each component; equal by default.
    seed : int, numpy.random.Generator or None
        Where the random numbers come from. The same seed gives the same coefficients,
        regressors and labels for every value of `noise`.

    Returns
    -------
    MixedLinearEquations
        The rows and the truth behind them.

    References
    ----------
    Yi, X., Caramanis, C. and Sanghavi, S. (2016). Solving a mixture of many random linear
    equations by tensor decomposition and alternating minimization. arXiv:1608.05749.

    Examples
    --------
    >>> from mixreg.simulate import mixed_linear_equations
    >>> data = mixed_linear_equations(100, 5, 3, seed=1)
    >>> data.coefficients.shape
    (3, 5)
    """
    n, p, k = _count("n", n), _count("p", p), _count("k", k)
    if k > p:
        raise InputError(
            f"k={k} is larger than p={p}; allowed is k <= p, because {k} equally spaced vectors "
            f"span {k} dimensions. Try p={k}."
        )
    noise = _scale("noise", noise, 1).item()
    probabilities = _weights(np.full(k, 1.0 / k) if weights is None else weights, k)
    rng = np.random.default_rng(seed)

    coefficients = _equidistant_coefficients(p, k, delta, rng)
    X = rng.standard_normal((n, p))
    drawn = mixture_of_regressions(X, coefficients, probabilities, noise, seed=rng)
    return MixedLinearEquations(X, drawn.y, coefficients, drawn.labels, probabilities)


def mixture_of_regressions(
    X: ArrayLike,
    coefficients: ArrayLike,
    weights: ArrayLike,
    scale: ArrayLike,
    *,
    seed: Seed = None,
    groups: ArrayLike | None = None,
) -> SimulatedResponse:
    """Draw labels and Gaussian responses from given parameters.

    Parameters
    ----------
    X : array_like, shape (n, p)
        Regressors; include a column of ones for an intercept.
    coefficients : array_like, shape (k, p)
        Coefficients, one row a component.
    weights : array_like, shape (k,)
        Probability of each component.
    scale : float or array_like, shape (k,)
        Standard deviation of the noise, one for all components or one each.
    seed : int, numpy.random.Generator or None
        Where the random numbers come from.
    groups : array_like, shape (n,), optional
        Names of groups. All rows of a group share one label, drawn once with `weights`.

    Returns
    -------
    SimulatedResponse
        The response and the label of each row.

    Examples
    --------
    >>> from mixreg.simulate import mixture_of_regressions
    >>> drawn = mixture_of_regressions([[1.0], [1.0]], [[3.0]], [1.0], 0.0, seed=1)
    >>> drawn.y.tolist()
    [3.0, 3.0]
    """
    X = _matrix("X", X)
    coefficients = _matrix("coefficients", coefficients)
    if coefficients.shape[1] != X.shape[1]:
        raise InputError(
            f"coefficients has shape {coefficients.shape}; allowed is (k, {X.shape[1]}), a column "
            f"for each column of X. Try coefficients.T if components are its columns."
        )
    n, k = len(X), len(coefficients)
    probabilities = _weights(weights, k)
    deviations = _scale("scale", scale, k)
    rng = np.random.default_rng(seed)

    unit = np.arange(n) if groups is None else _group_codes(groups, n)
    classes = rng.choice(k, size=unit.max() + 1, p=probabilities)[unit]
    # Noise comes last, so that the labels of a seed do not depend on the scale.
    error = deviations[classes] * rng.standard_normal(n)
    y = np.einsum("ij,ij->i", X, coefficients[classes]) + error
    return SimulatedResponse(y, classes.astype(np.int64) + 1)


def _equidistant_coefficients(
    p: int, k: int, delta: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw k unit vectors in p dimensions, every two of them delta apart.

    With C = V Λ V' the wanted inner products (1 on the diagonal, 1 - δ²/2 off it) the vectors
    are the columns of B = U Λ^½ V', where U is an orthonormal basis of a random subspace.

    Parameters
    ----------
    p, k : int
        Dimensions and number of vectors.
    delta : float
        Distance between every two vectors.
    rng : numpy.random.Generator
        Where the random numbers come from.

    Returns
    -------
    ndarray, shape (k, p)
        One vector a row.
    """
    # Beyond this distance no k unit vectors exist: C has a negative eigenvalue.
    largest = math.inf if k == 1 else math.sqrt(2 * k / (k - 1))
    if not 0 < delta <= largest:
        raise InputError(
            f"delta={delta!r} is out of range; allowed is 0 < delta <= {largest:.6g} for k={k}. "
            f"Try delta=1.2."
        )
    inner = np.full((k, k), 1 - delta**2 / 2)
    np.fill_diagonal(inner, 1.0)
    eigenvalues, V = np.linalg.eigh(inner)
    roots = np.sqrt(np.clip(eigenvalues, 0.0, None))

    basis, triangle = np.linalg.qr(rng.standard_normal((p, k)))
    basis *= np.where(np.diag(triangle) < 0, -1.0, 1.0)  # makes the draw uniform
    # Eigenvectors of a repeated eigenvalue are arbitrary and differ between machines. Taking
    # basis @ V for U is the same draw in distribution and leaves only V Λ^½ V', which is unique.
    U = basis @ V
    return np.ascontiguousarray(((U * roots) @ V.T).T)


def _count(name: str, value: int) -> int:
    """Check a whole number of at least 1."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name}={value!r} is a {type(value).__name__}; allowed is a whole number of at "
            f"least 1. Try {name}=int(...)."
        ) from None
    if number < 1:
        raise InputError(f"{name}={number} is too small; allowed is 1 or more. Try {name}=1.")
    return number


def _matrix(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Check a non-empty matrix of finite numbers."""
    matrix = np.asarray(value, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise InputError(
            f"{name} has shape {matrix.shape}; allowed is a non-empty matrix. "
            f"Try {name}.reshape(-1, 1) for a single column."
        )
    if not np.isfinite(matrix).all():
        raise InputError(
            f"{name} has {int((~np.isfinite(matrix)).sum())} values that are missing or infinite; "
            f"allowed are finite numbers. Try to drop those rows first."
        )
    return matrix


def _weights(value: ArrayLike, k: int) -> NDArray[np.float64]:
    """Check k positive probabilities and make them sum to 1 exactly."""
    weights = np.asarray(value, dtype=np.float64)
    if weights.shape != (k,):
        raise InputError(
            f"weights has shape {weights.shape}; allowed is ({k},), one for each component. "
            f"Try np.full({k}, 1 / {k})."
        )
    total = weights.sum()
    if not (weights > 0).all() or not abs(total - 1) <= 1e-8:
        raise InputError(
            f"weights={weights.tolist()} sum to {total:.10g}; allowed are positive numbers that "
            f"sum to 1. Try weights / weights.sum()."
        )
    return weights / total


def _scale(name: str, value: ArrayLike, k: int) -> NDArray[np.float64]:
    """Check standard deviations and return one for each of k components."""
    scale = np.asarray(value, dtype=np.float64)
    if scale.shape not in ((), (k,)):
        raise InputError(
            f"{name} has shape {scale.shape}; allowed is one number or shape ({k},). "
            f"Try {name}=1.0."
        )
    if not ((scale >= 0) & np.isfinite(scale)).all():
        raise InputError(
            f"{name}={scale.tolist()} is not a standard deviation; allowed are finite numbers of "
            f"at least 0. Try {name}=0.0."
        )
    return np.broadcast_to(scale, (k,))


def _group_codes(groups: ArrayLike, n: int) -> NDArray[Any]:
    """Give groups numbers from 0 in order of appearance, shape (n,)."""
    names = pd.Series(groups)
    if len(names) != n:
        raise InputError(
            f"groups has {len(names)} entries; allowed is one for each of the {n} rows of X. "
            f"Try the column of the same table."
        )
    codes, _ = pd.factorize(names)
    if (codes < 0).any():
        raise InputError(
            f"groups has {int((codes < 0).sum())} missing entries; allowed is a name for every "
            f"row. Try to drop those rows first."
        )
    return codes
