"""What a search found: distinct maxima, and how often each was reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from mixreg.estimators.loop import Run
from mixreg.mixture.parameters import Parameters
from mixreg.search.constants import (
    CONTESTED,
    LEFT_OPEN,
    MOST_FINALISTS,
    SAME_HEIGHT,
    SAME_POINT,
)
from mixreg.search.tensor import TensorResult

Array = NDArray[np.float64]

# The largest square of a distance.
FARTHEST = 1e200


# How kinds of starts on a view begin; its number follows.
VIEW = "view "


@dataclass(frozen=True, slots=True)
class Maximum:
    """A maximum, and the starts that led to it.

    Attributes
    ----------
    run : Run
        The best run that ended there.
    kinds : tuple of str
        Kind of each independent start that ended there; empty if only moves did.
    arrivals : int
        Moves from other maxima that ended there.
    """

    run: Run
    kinds: tuple[str, ...]
    arrivals: int = 0

    @property
    def hits(self) -> int:
        """How often it was reached by independent starts; tensor starts count as one."""
        tensors = self.kinds.count("tensor")
        return len(self.kinds) - max(0, tensors - 1)

    @property
    def looks(self) -> int:
        """How many independent looks at the rows led there: starts on one view are one."""
        views = [kind for kind in self.kinds if kind.startswith(VIEW)]
        return self.hits - len(views) + len({*views})


def expected_end(fit: Run) -> float:
    """Where a run of EM is heading: its gains continued as a geometric series."""
    if fit.converged or len(fit.history) < 3:
        return fit.objective
    first, second, third = fit.history[-3:].tolist()
    if not np.isfinite(first):
        # A density above zero was found just now.
        return fit.objective
    before, last = second - first, third - second
    rate = min(last / before, 0.99) if before > 0 else 0.0
    return fit.objective + last * rate / (1 - rate) if rate > 0 else fit.objective


def same(one: Run, other: Run, rows: float) -> bool:
    """Whether two runs on the same rows ended at the same maximum."""
    if abs(expected_end(one) - expected_end(other)) > SAME_HEIGHT + LEFT_OPEN * rows:
        return False
    # Around a maximum the log-likelihood falls with the square of the distance.
    most = SAME_POINT**2 * one.params.coef.size + 4 * LEFT_OPEN * rows
    return distance(one.params, other.params) ** 2 * rows < most


def within_error(one: Run, other: Run, rows: float) -> bool:
    """Whether maxima of a sample are as close as it is to those of all rows: a standard error.

    More rows, not more starts, decide between them. Heights differ by no more than such a
    distance costs.
    """
    size = one.params.coef.size
    if abs(expected_end(one) - expected_end(other)) > size / 2:
        return False
    return distance(one.params, other.params) ** 2 * rows < size


def distance(one: Parameters, other: Parameters) -> float:
    """Root mean square distance of linear predictors, in residual deviations.

    Components are paired as suits best. Standard regressors are orthonormal, so
    distances of coefficients are distances of linear predictors.
    """
    variance = one.dispersion.reshape(one.k, -1).mean(axis=1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = cdist(one.coef, other.coef, "sqeuclidean") / np.maximum(variance, 1e-300)
    # Components that are farther apart than there are numbers.
    squares = np.nan_to_num(squares, nan=FARTHEST, posinf=FARTHEST)
    mine, theirs = linear_sum_assignment(squares)
    weights = np.exp(one.log_weights[: one.k])
    return float(np.sqrt(weights @ squares[mine, theirs]))


def merged(
    maxima: list[Maximum], rows: float, alike: Callable[[Run, Run, float], bool] = same
) -> list[Maximum]:
    """Distinct maxima, highest first; runs that ended at one are counted together."""
    distinct: list[Maximum] = []
    ends = np.full(len(maxima), np.inf)
    for maximum in sorted(maxima, key=lambda m: -m.run.objective):
        end = expected_end(maximum.run)
        # Those of another height need not be looked at.
        most = SAME_HEIGHT + LEFT_OPEN * rows
        most = most if alike is same else max(most, maximum.run.params.coef.size / 2)
        for i in np.flatnonzero(~(np.abs(ends[: len(distinct)] - end) > most)).tolist():
            higher = distinct[i]
            if alike(higher.run, maximum.run, rows):
                kinds, arrivals = higher.kinds + maximum.kinds, higher.arrivals + maximum.arrivals
                distinct[i] = Maximum(higher.run, kinds, arrivals)
                break
        else:
            ends[len(distinct)] = end
            distinct.append(maximum)
    return distinct


def unseen(maxima: list[Maximum]) -> float:
    """Chance that one more start ends at a maximum not seen yet.

    The posterior mean of Boender and Rinnooy Kan (1987): with w maxima seen in n
    starts, w (w + 1) / n (n - 1).
    """
    n, w = sum(m.hits for m in maxima), sum(m.hits > 0 for m in maxima)
    return min(1.0, w * (w + 1) / (n * (n - 1))) if n > 1 else 1.0


def chance_by_looks(maxima: list[Maximum], looks: int) -> float:
    """The same chance from independent looks at the rows alone."""
    return _chance([m.looks for m in maxima], looks, maxima[0].arrivals)


def chance_of_better(maxima: list[Maximum], starts: int) -> float:
    """Chance that one more start would end at a better maximum than the first.

    Good and Turing's estimate of what has not been seen, the share of starts that
    ended where no other did, times the chance that it is better: one in h + 1 for
    a maximum that h starts, or moves from other maxima, have reached. Starts that were
    left behind on the way count as such that ended alone. `python -m benchmarks search`
    calibrates it.
    """
    return _chance([m.hits for m in maxima], starts, maxima[0].arrivals)


def _chance(hits: list[int], starts: int, arrivals: int) -> float:
    if starts < 2:
        return 1.0
    alone = max(0, starts - sum(hits)) + hits.count(1)
    return (alone + 1) / (starts + 1) / (hits[0] + arrivals + 1)


@dataclass(frozen=True, slots=True)
class Record:
    """The winner, and how the search went.

    Attributes
    ----------
    run : Run
        The winner, on the rows of the last level.
    maxima : tuple of Maximum
        Distinct maxima found, the winner first.
    starts : int
        Independent starts run to the end.
    chance : float
        Estimated chance that one more start would find a better maximum.
    moves, accepted : int
        Moves tried and accepted.
    levels : tuple of int
        Rows of each level.
    exact : bool
        Whether the winner reached zero loss.
    tensors : tuple of TensorResult
        Decompositions of the moments, one for each trial noise variance.
    agreement : float
        Least adjusted Rand index between the labels of the winner and those of maxima within two
        units of log-likelihood; 1 if there are none.
    """

    run: Run
    maxima: tuple[Maximum, ...]
    starts: int
    chance: float
    moves: int
    accepted: int
    levels: tuple[int, ...]
    exact: bool
    tensors: tuple[TensorResult, ...]
    # Records of earlier versions lack these.
    agreement: float = field(default=1.0, metadata={"later": True})

    @property
    def finalists(self) -> list[Maximum]:
        """The best maxima, those that only a run to the end tells apart first."""
        return list(self.maxima[:MOST_FINALISTS])

    @property
    def contested(self) -> int:
        """How many of them are near enough to the winner to win yet."""
        near = [self.run.objective - m.run.objective < CONTESTED for m in self.finalists[:3]]
        return max((i + 1 for i, close in enumerate(near) if close), default=1)
