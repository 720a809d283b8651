"""What a search found: distinct maxima, and how often each was reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


def expected_end(fit: Run) -> float:
    """Where a run of EM is heading: its gains continued as a geometric series."""
    if fit.converged or len(fit.history) < 3:
        return fit.objective
    if not np.isfinite(fit.history[-3]):
        # A density above zero was found just now.
        return fit.objective
    before, last = np.diff(fit.history[-3:])
    rate = min(last / before, 0.99) if before > 0 else 0.0
    return float(fit.objective + last * rate / (1 - rate)) if rate > 0 else fit.objective


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
    for maximum in sorted(maxima, key=lambda m: -m.run.objective):
        for i, higher in enumerate(distinct):
            if alike(higher.run, maximum.run, rows):
                kinds, arrivals = higher.kinds + maximum.kinds, higher.arrivals + maximum.arrivals
                distinct[i] = Maximum(higher.run, kinds, arrivals)
                break
        else:
            distinct.append(maximum)
    return distinct


def unseen(maxima: list[Maximum]) -> float:
    """Chance that one more start ends at a maximum not seen yet.

    The posterior mean of Boender and Rinnooy Kan (1987): with w maxima seen in n
    starts, w (w + 1) / n (n - 1).
    """
    n, w = sum(m.hits for m in maxima), sum(m.hits > 0 for m in maxima)
    return min(1.0, w * (w + 1) / (n * (n - 1))) if n > 1 else 1.0


def chance_of_better(maxima: list[Maximum], starts: int) -> float:
    """Chance that one more start would end at a better maximum than the first.

    Good and Turing's estimate of what has not been seen, the share of starts that
    ended where no other did, times the chance that it is better: one in h + 1 for
    a maximum that h starts, or moves from other maxima, have reached. Starts that were
    left behind on the way count as such that ended alone. `python -m benchmarks search`
    calibrates it.
    """
    if starts < 2:
        return 1.0
    seen = sum(m.hits for m in maxima)
    alone = starts - seen + sum(m.hits == 1 for m in maxima)
    return (alone + 1) / (starts + 1) / (maxima[0].hits + maxima[0].arrivals + 1)


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

    @property
    def finalists(self) -> list[Maximum]:
        """The best maxima, those that only a run to the end tells apart first."""
        return list(self.maxima[:MOST_FINALISTS])

    @property
    def contested(self) -> int:
        """How many of them are near enough to the winner to win yet."""
        near = [self.run.objective - m.run.objective < CONTESTED for m in self.finalists[:3]]
        return max((i + 1 for i, close in enumerate(near) if close), default=1)
