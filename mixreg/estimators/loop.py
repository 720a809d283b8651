"""The one loop that every estimator runs on.

An estimator says how a pass over the data is made (`sweep`), how parameters
follow from what the pass added up (`update`), and when a run is finished
(`finished`). The loop iterates a stack of runs at once, lets finished runs go,
halves a step after which the objective fell, and says why each run stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.leaps import Leaps
from mixreg.sources import Swept

Array = NDArray[np.float64]
StopReason = Literal[
    "converged",
    "labels",
    "exact",
    "resampled",
    "max_iter",
    "decreased",
    "edge",
    "abandoned",
    "interrupted",
]
# Told of every pass: the iteration, the best objective, and the stack it was made at.
Progress = Callable[[int, float, Any], None]

SMALLEST_STEP = 2.0**-10


class Sums(Protocol):
    """What a pass adds up to."""

    @property
    def objective(self) -> Array:
        """The value of each run that must not fall."""
        ...

    def take(self, runs: NDArray[np.bool_]) -> Any:
        """Sums of some runs."""
        ...

    def choose(self, runs: NDArray[np.bool_], other: Any) -> Any:
        """Keep the sums of some runs and take the rest from another pass."""
        ...


class Estimator(Protocol):
    """An algorithm on the loop.

    It may have more methods. `ahead(first, middle, end, longest)` says where a leap leads to
    and how many steps that is; without it, the parameters do. `close(sums, params)` takes the
    last step from where a run converged. An estimator of one run may have `shorten(sums, params)`
    too, which answers a fall: a shorter step from the point before and its sums.
    """

    @property
    def monotone(self) -> bool:
        """Whether the objective must not fall from one pass to the next."""
        ...

    def sweep(self, source: Swept, iteration: int, params: Any) -> Any:
        """Make one pass at the parameters; return its sums."""
        ...

    def update(self, sums: Any, params: Any) -> Any:
        """Return the next parameters."""
        ...

    def finished(self, sums: Any, before: Any, control: Control) -> list[StopReason | None]:
        """Say for each run why it is finished, or None. `before` is None at first."""
        ...


@dataclass(frozen=True, slots=True)
class Control:
    """When to stop.

    Attributes
    ----------
    max_iter : int
        Most iterations.
    tol : float
        Stop when an iteration raises the log-likelihood by less than `tol`
        times the number of rows.
    leaps : bool
        Continue slow steps by leaps.
    near : bool
        Runs start at maxima of a sample, near to those they go to.
    """

    max_iter: int = 1000
    tol: float = 1e-9
    leaps: bool = False
    near: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Where a run ended.

    Attributes
    ----------
    params : Parameters
        One mixture (`Beliefs` of one, in variational Bayes).
    objective : float
        Log-likelihood (or minus AltMin's loss) at those parameters.
    history : (iterations + 1,) array
        The objective at every accepted step.
    reason : str
        Why it stopped.
    n_iter : int
        Number of updates made.
    settled : bool
        Whether the last step, too short to be checked by a pass, was taken too.
    steps : int
        How many of the updates were Newton's, with the information of each point.
    checked : Parameters or None
        Where the last pass was made, if a step was taken from there.
    """

    params: Any
    objective: float
    history: Array
    reason: StopReason
    n_iter: int
    settled: bool = False
    # Files of earlier versions lack these.
    steps: int = field(default=0, metadata={"later": True})
    checked: Any = None

    @property
    def converged(self) -> bool:
        """Whether the run ended by itself, at a stationary point."""
        return self.reason in ("converged", "labels", "exact", "edge")


def joined(first: Run, second: Run) -> Run:
    """One fit out of two stages; the first step of the second repeats a point."""
    history = np.concatenate([first.history, second.history[1:]])
    n_iter, steps = first.n_iter + second.n_iter, first.steps + second.steps
    return replace(second, history=history, n_iter=n_iter, steps=steps)


def iterate(
    source: Swept,
    estimator: Estimator,
    params: Any,
    control: Control,
    progress: Progress | None = None,
) -> list[Run]:
    """Run an estimator from a stack of starts.

    Parameters
    ----------
    source : Swept
    estimator : Estimator
    params : Parameters or Beliefs
        A stack of starts.
    control : Control
    progress : callable, optional
        Called with the iteration, the best objective and the stack.

    Returns
    -------
    list of Run
        One for each run, in the order of the starts.
    """
    n_runs = params.coef.shape[1]
    fits: dict[int, Run] = {}
    histories: list[list[float]] = [[] for _ in range(n_runs)]
    active = np.arange(n_runs)
    base = params
    before: Any = None
    share = np.ones(n_runs)
    leaps = Leaps(params, getattr(estimator, "ahead", None)) if control.leaps else None
    close: Callable[[Any, Any], Any] | None = getattr(estimator, "close", None)
    shorten: Callable[[Any, Any], Any] | None = getattr(estimator, "shorten", None)
    for iteration in range(control.max_iter + 1):
        sums = estimator.sweep(source, iteration, params)
        fell = _fell(sums, before if estimator.monotone else None)
        for position in np.flatnonzero(~fell).tolist():
            histories[active[position]].append(float(sums.objective[position]))
        reasons = estimator.finished(sums, before, control)
        for i, run in enumerate(active.tolist()):
            if leaps is not None and leaps.leapt[i]:
                # A leap's gain says little of the gains to come.
                reasons[i] = None if reasons[i] != "exact" else reasons[i]
            if fell[i]:
                stuck = share[i] <= SMALLEST_STEP
                reasons[i] = _stuck(sums, before, i) if stuck else None
            if reasons[i] is None and iteration == control.max_iter:
                reasons[i] = "max_iter"
            reason = reasons[i]
            if reason is not None:
                history = np.array(histories[run])
                at = (base if fell[i] else params).run(i)
                fit = Run(at, float(history[-1]), history, reason, len(history) - 1)
                if close is not None and reason == "converged" and not fell[i]:
                    fit = closed(source, estimator, fit, close(sums, at))
                fits[run] = fit
        if progress is not None:
            progress(iteration, float(np.max(sums.objective)), params)
        going = np.array([reason is None for reason in reasons])
        if not going.any():
            break
        if shorten is not None and fell.all():
            goal = shorten(before, base)
        else:
            goal = estimator.update(sums, params)
        back = np.zeros_like(fell)
        if leaps is not None:
            # A leap that fell goes back to the step it was to continue.
            back = fell & leaps.leapt
            goal = leaps.next(params, goal, fell)
        if fell.any():
            # Any other run that fell goes half as far from the same base point.
            share = np.where(fell & ~back, share / 2, 1.0)
            if shorten is None:
                goal = base.blend(params, np.where(fell, 0.5, 0.0)).choose(fell, goal)
            goal = goal if leaps is None else leaps.safe.choose(back, goal)
            base, before = base.choose(fell, params), before.choose(fell, sums)
        else:
            share, base, before = np.ones(len(active)), params, sums
        params = goal
        if not going.all():
            active, share = active[going], share[going]
            base, params, before = base.take(going), params.take(going), before.take(going)
            if leaps is not None:
                leaps.take(going)
    return [fits[run] for run in range(n_runs)]


def closed(source: Swept, estimator: Estimator, fit: Run, after: Any) -> Run:
    """A run after its last step, which a pass checks only where means have a range.

    A step within rounding of the edge of the range leaves it.
    """
    mixture = getattr(estimator, "mixture", None)
    if mixture is not None and mixture.family.ranged:
        # Not the first pass: that may be one that was made before.
        sums = estimator.sweep(source, 1, after.stacked())
        if not sums.objective[0] >= fit.objective:
            return replace(fit, settled=True)
    return replace(fit, params=after, settled=True, checked=fit.params)


def _stuck(sums: Sums, before: Sums, run: int) -> StopReason:
    """Why a run stops that no step can raise: rounding, or something worse."""
    fall = float(before.objective[run] - sums.objective[run])
    rounding = fall < 1e-6 * (1 + abs(float(before.objective[run])))
    return "converged" if rounding else "decreased"


def _fell(sums: Sums, before: Sums | None) -> NDArray[np.bool_]:
    if before is None:
        return np.zeros(sums.objective.shape[0], dtype=bool)
    rounding = 1e-10 * (1 + np.abs(before.objective))
    return ~(sums.objective >= before.objective - rounding)
