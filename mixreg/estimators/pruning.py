"""Variational Bayes from a start to the end, with components that are not needed let go.

Coordinate ascent alone seldom empties a component: two that share a segment
hold each other up. So each one in turn is reset to its prior, the others take
its rows, and what raises the evidence lower bound is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.components import components_of
from mixreg.estimators.loop import Control, Progress, Run, iterate
from mixreg.estimators.priors import Priors
from mixreg.estimators.variational import Variational
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters, weight_order
from mixreg.sources import Source, Swept

Array = NDArray[np.float64]

SHORT = Control(max_iter=12, tol=0.0)
SETTLE = Control(max_iter=100, tol=1e-7)
# A component with fewer units than this, and no unit's label, is not alive.
ALIVE = 1.0
# What a component holds of all units when there is something to empty.
TRACE = 1e-6
# Times that components are put in order; a logit's fit changes a little with it.
REORDERED = 3


@dataclass(frozen=True, slots=True)
class Pruned:
    """A posterior, and how it was reached.

    Attributes
    ----------
    beliefs : Beliefs
        One mixture, in standard coordinates.
    run : Run
        Its last run; the objective and the history are lower bounds.
    """

    beliefs: Beliefs
    run: Run


def alive(beliefs: Beliefs, priors: Priors) -> NDArray[np.bool_]:
    """Components that hold units, (k,)."""
    return np.asarray(held(beliefs, priors) >= ALIVE)


def held(beliefs: Beliefs, priors: Priors) -> Array:
    """Units in each component, counted with their weights, (k,)."""
    return np.asarray(beliefs.counts[: beliefs.k] - priors.concentration)


def reset(beliefs: Beliefs, j: int, priors: Priors, mixture: Mixture | None = None) -> Beliefs:
    """The same posterior with component j as before any data.

    Where a logit gives class probabilities, that component goes last: others are compared
    with the first.
    """
    mixture = Mixture() if mixture is None else mixture
    if not mixture.gate.constant and mixture.exchangeable:
        beliefs = beliefs.permute(np.array([*np.delete(np.arange(beliefs.k), j), j]))
        j = beliefs.k - 1
    chances = mixture.gate.posterior.emptied(beliefs.chances, j, priors)
    return components_of(mixture, priors).emptied(beliefs, j).with_chances(chances)


def prune(source: Swept, estimator: Variational, beliefs: Beliefs) -> Beliefs:
    """Let components go one by one while the lower bound rises."""
    priors = estimator.priors
    best = iterate(source, estimator, beliefs.stacked(), SETTLE)[0]
    while True:
        current: Beliefs = best.params
        # A component may hold a lone group, or a little of many, and be one too many.
        mine = held(current, priors)
        candidates = np.flatnonzero(mine > TRACE * mine.sum())
        if len(candidates) < 2:
            return current
        stack = [reset(current, int(j), priors, estimator.mixture).stacked() for j in candidates]
        short = iterate(source, estimator, Beliefs.concatenate(stack), SHORT)
        short.sort(key=lambda fit: -fit.objective)
        ends = Beliefs.concatenate([fit.params.stacked() for fit in short[:3]])
        top = max(iterate(source, estimator, ends, SETTLE), key=lambda fit: fit.objective)
        if not top.objective > best.objective + 1e-6 * abs(best.objective):
            # Also where neither is a number.
            return current
        best = top


def run_vb(
    source: Source,
    small: Swept,
    estimator: Variational,
    start: Parameters,
    control: Control,
    progress: Progress | None = None,
) -> Pruned:
    """Prune on a sample, then run to the end on all rows.

    Parameters
    ----------
    source : Source
        All rows in standard coordinates.
    small : Swept
        A sample of them, or all.
    """
    priors = estimator.priors
    beliefs = estimator.around(start, source.row_weight, source.total_weight)
    beliefs = _to_scale(prune(small, estimator, beliefs), priors, source)
    return run_on(source, estimator, beliefs, control, progress)


def run_on(
    source: Source,
    estimator: Variational,
    beliefs: Beliefs,
    control: Control,
    progress: Progress | None = None,
) -> Pruned:
    """From a posterior to the end, on all rows; largest components first."""
    estimator = estimator.measured(source)
    run = iterate(source, estimator, beliefs.stacked(), control, progress)[0]
    for _ in range(REORDERED):
        end: Beliefs = run.params
        order = _order(estimator.mixture, end)
        if np.array_equal(order, np.arange(end.k)):
            break
        run = replace(run, params=end.permute(order))
        if not estimator.mixture.gate.constant:
            # Another class comes first, and the prior of a logit is one against the first.
            run = iterate(source, estimator, run.params.stacked(), control, progress)[0]
    return Pruned(run.params, replace(run, params=estimator.point(run.params)))


def _order(mixture: Mixture, beliefs: Beliefs) -> NDArray[np.intp]:
    """Largest components first, if they may be numbered in any order."""
    if not mixture.exchangeable:
        return np.arange(beliefs.k)
    return weight_order(beliefs.coef, beliefs.counts)


def _to_scale(beliefs: Beliefs, priors: Priors, source: Source) -> Beliefs:
    """Counts of a sample as counts of all units; dead components stay dead."""
    own = beliefs.counts - priors.concentration
    ratio = source.total_weight / max(float(own.sum()), 1e-300)
    counts = priors.concentration + own * ratio
    return replace(beliefs, counts=counts)
