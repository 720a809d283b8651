"""Whether maxima that are nearly as good as the best have the same segments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import Posterior
from mixreg.search.constants import CONTESTED
from mixreg.search.course import Course
from mixreg.search.record import Maximum
from mixreg.sources.base import unit_weights

Array = NDArray[np.float64]

# Maxima that are compared with the best, at most.
MOST_COMPARED = 6


def agreement(course: Course, maxima: Sequence[Maximum]) -> float:
    """Least adjusted Rand index between the labels of the best and those of maxima near it.

    Near are those within `CONTESTED` units of log-likelihood; 1 if there are none.
    """
    best = maxima[0].run
    if best.reason == "exact":
        return 1.0
    near = [m.run for m in maxima[1:] if abs(best.objective - m.run.objective) < CONTESTED]
    if not near:
        return 1.0
    weight = unit_weights(course.sample)
    labels = [_labels(course, run.params) for run in [best, *near[:MOST_COMPARED]]]
    return min(_rand(labels[0], other, weight) for other in labels[1:])


def _labels(course: Course, params: object) -> NDArray[np.intp]:
    posterior = course.source.sweep(Posterior(course.mixture), params).join()
    return np.asarray(posterior.argmax(axis=0))


def _rand(one: NDArray[np.intp], other: NDArray[np.intp], weight: Array) -> float:
    """The adjusted Rand index of weighted units, for which pairs are products of weights."""
    table = np.zeros((one.max() + 1, other.max() + 1))
    np.add.at(table, (one, other), weight)
    table /= table.sum()
    together = float((table**2).sum())
    in_one, in_other = (float((table.sum(axis=axis) ** 2).sum()) for axis in (1, 0))
    by_chance, most = in_one * in_other, 0.5 * (in_one + in_other)
    return 1.0 if most - by_chance < 1e-12 else (together - by_chance) / (most - by_chance)
