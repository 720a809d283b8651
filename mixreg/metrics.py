"""How far an estimate is from the truth when the order of components is unknown."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.spatial.distance import cdist

from mixreg.errors import InputError


def estimation_error(estimate: ArrayLike, truth: ArrayLike) -> float:
    """Return the largest error of a component under the best order of components.

    The smallest value over all permutations π of ``max_j ||estimate_π(j) - truth_j||``.

    Parameters
    ----------
    estimate, truth : array_like, shape (k, p)
        Coefficients, one row a component.

    Returns
    -------
    float
        The error, 0 when the estimate is exact up to order.

    Notes
    -----
    A bottleneck assignment, solved exactly: the answer is one of the k² distances, and a
    threshold is large enough when the pairs within it contain a perfect matching.

    Examples
    --------
    >>> from mixreg.metrics import estimation_error
    >>> estimation_error([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 3.0]])
    2.0
    """
    distances = cdist(*_components(estimate, truth))
    # No threshold below this leaves every row and every column with a partner.
    floor = max(distances.min(axis=0).max(), distances.min(axis=1).max())
    candidates = np.unique(distances[distances >= floor])
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if _has_perfect_matching(distances <= candidates[middle]):
            high = middle
        else:
            low = middle + 1
    return float(candidates[low])


def match_components(estimate: ArrayLike, truth: ArrayLike) -> NDArray[np.int64]:
    """Return the order of `estimate` that lines it up with `truth`.

    Parameters
    ----------
    estimate, truth : array_like, shape (k, p)
        Coefficients, one row a component.

    Returns
    -------
    ndarray of int, shape (k,)
        Indices from 0: ``estimate[order[j]]`` belongs to ``truth[j]``. The sum of the k
        distances is the smallest possible.

    Examples
    --------
    >>> from mixreg.metrics import match_components
    >>> match_components([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.1], [0.0, 0.9]]).tolist()
    [1, 0]
    """
    found, true = _components(estimate, truth)
    return best_order(cdist(true, found))


def best_order(cost: ArrayLike) -> NDArray[np.int64]:
    """Return the assignment of columns to rows with the smallest total cost.

    Every alignment of components in the package is made by this.

    Parameters
    ----------
    cost : array_like, shape (k, k)
        Cost of giving column c to row r.

    Returns
    -------
    ndarray of int, shape (k,)
        Column of each row.

    Examples
    --------
    >>> from mixreg.metrics import best_order
    >>> best_order([[5.0, 1.0], [1.0, 5.0]]).tolist()
    [1, 0]
    """
    return linear_sum_assignment(np.asarray(cost))[1].astype(np.int64)


def adjusted_rand_index(a: ArrayLike, b: ArrayLike) -> float:
    """Return the agreement of two partitions, corrected for chance.

    Parameters
    ----------
    a, b : array_like, shape (n,)
        Labels of any kind; only which rows share a label matters.

    Returns
    -------
    float
        1 for the same partition, about 0 for unrelated ones, negative below chance.

    References
    ----------
    Hubert, L. and Arabie, P. (1985). Comparing partitions. Journal of Classification 2, 193-218.

    Examples
    --------
    >>> from mixreg.metrics import adjusted_rand_index
    >>> adjusted_rand_index([1, 1, 2, 2], ["b", "b", "a", "a"])
    1.0
    """
    table = _contingency("a", a, "b", b)
    together = _pairs(table)
    in_a, in_b = _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0))
    everything = _pairs(table.sum())
    # Above and below times `2 * everything`: whole numbers, so equal partitions give exactly 1.
    excess = 2 * (everything * together - in_a * in_b)
    largest = everything * (in_a + in_b) - 2 * in_a * in_b
    # Both partitions are one block, or both are all single rows: they are the same.
    return 1.0 if largest == 0 else excess / largest


def misclassification_rate(labels: ArrayLike, truth: ArrayLike) -> float:
    """Return the share of rows with a wrong label under the best matching of labels.

    Parameters
    ----------
    labels, truth : array_like, shape (n,)
        Labels of any kind. Their numbers of classes may differ; rows of a class without a
        partner count as wrong.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from mixreg.metrics import misclassification_rate
    >>> misclassification_rate([1, 1, 2, 2], [2, 2, 1, 2])
    0.25
    """
    table = _contingency("labels", labels, "truth", truth)
    rows, columns = linear_sum_assignment(table, maximize=True)
    total = int(table.sum())
    return (total - int(table[rows, columns].sum())) / total


def _has_perfect_matching(allowed: NDArray[np.bool_]) -> bool:
    """Tell whether each row can have a column of its own among the allowed pairs."""
    partner = maximum_bipartite_matching(csr_matrix(allowed), perm_type="column")
    return bool((partner >= 0).all())


def _components(
    estimate: ArrayLike, truth: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check two matrices of coefficients of the same shape, finite and not empty."""
    found = np.asarray(estimate, dtype=np.float64)
    true = np.asarray(truth, dtype=np.float64)
    if found.ndim != 2 or found.shape != true.shape or found.size == 0:
        raise InputError(
            f"estimate has shape {found.shape} and truth {true.shape}; allowed are two non-empty "
            f"matrices (k, p) of the same shape. Try .T if components are columns."
        )
    for name, value in (("estimate", found), ("truth", true)):
        if not np.isfinite(value).all():
            raise InputError(
                f"{name} has {int((~np.isfinite(value)).sum())} values that are missing or "
                f"infinite; allowed are finite numbers. Try to check that the fit converged."
            )
    return found, true


def _contingency(name_a: str, a: ArrayLike, name_b: str, b: ArrayLike) -> NDArray[np.int64]:
    """Count rows by pair of labels, shape (classes of a, classes of b)."""
    code_a, size_a = _codes(name_a, a)
    code_b, size_b = _codes(name_b, b)
    if len(code_a) != len(code_b):
        raise InputError(
            f"{name_a} has {len(code_a)} entries and {name_b} {len(code_b)}; allowed are labels "
            f"of the same rows. Try to align them first."
        )
    counts = np.bincount(code_a * size_b + code_b, minlength=size_a * size_b)
    return counts.reshape(size_a, size_b).astype(np.int64)


def _codes(name: str, labels: ArrayLike) -> tuple[NDArray[Any], int]:
    """Give labels numbers from 0 and count the classes."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{name} has shape {array.shape}; allowed is (n,) with n >= 1. Try {name}.ravel()."
        )
    codes, classes = pd.factorize(array)
    if (codes < 0).any():
        raise InputError(
            f"{name} has {int((codes < 0).sum())} missing entries; allowed is a label for every "
            f"row. Try to drop those rows first."
        )
    return codes.astype(np.int64), len(classes)


def _pairs(counts: Any) -> int:
    """Count the pairs within groups of the given sizes, in whole numbers without overflow."""
    return sum(int(c) * (int(c) - 1) // 2 for c in np.ravel(counts))
