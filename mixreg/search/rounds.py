"""Rounds of starts, run to their ends; and the hunt for an exact fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.estimators.altmin import AltMin
from mixreg.estimators.em import EM
from mixreg.estimators.lean import lean
from mixreg.estimators.loop import Run, iterate
from mixreg.exact.thresholds import PROMISING
from mixreg.mixture.parameters import Parameters
from mixreg.search.account import Account
from mixreg.search.candidates import bred, make_starts, numbered
from mixreg.search.constants import (
    ANNEAL,
    ANNEAL_LONG,
    BEST,
    CYCLE,
    FOR_EXACT,
    HARD_LABELS,
    MOMENT_ROWS,
    MOMENTS_EACH,
    POWER_STARTS,
    POWER_STEPS,
    ROUND,
)
from mixreg.search.course import Course
from mixreg.search.moments import TakeDeviations, deviation_subspace
from mixreg.search.ranges import feasible
from mixreg.search.record import Maximum
from mixreg.search.tensor import TensorResult, TensorStart, start_from, tensor_results
from mixreg.sources import Swept
from mixreg.sources.standard import Whitening, steady

Array = NDArray[np.float64]


def find_subspace(sample: Swept, whitening: Whitening, k: int) -> Array:
    """The directions in which components differ from the pooled fit."""
    task = TakeDeviations(whitening.has_constant, whitening.pooled, whitening.variance)
    return steady(deviation_subspace(sample.sweep(task), whitening.has_constant, k))


def decompositions(
    course: Course, rng: np.random.Generator
) -> tuple[Array, tuple[TensorResult, ...]]:
    """Subspace of the components, and the moments decomposed within it."""
    linear, white, k = course.linear, course.linear_whitening, course.k
    subspace = find_subspace(linear, white, k)
    span = np.linalg.qr(np.column_stack([white.pooled, subspace]))[0]
    options = TensorStart(POWER_STARTS * k, POWER_STEPS)
    return subspace, tuple(tensor_results(linear, white.has_constant, k, options, rng, within=span))


class Rounds(Account):
    """Starts of several kinds, a round at a time.

    Attributes
    ----------
    tensors : tuple of TensorResult
        What the tensor start found.
    subspace : (p, r) array or None
        Where components deviate from the pooled fit, by the moments.
    """

    tensors: tuple[TensorResult, ...] = ()
    subspace: Array | None = None

    def prepare(self, course: Course) -> None:
        """Moments: of many rows, because they cost one pass."""
        if not course.mixture.family.moments:
            return
        rows, few = self.ladder.rows, moment_rows(course)
        if course is not self.top:
            course = self.top if rows <= few else self.ladder.make(few, self.rng)
        self.subspace, self.tensors = decompositions(course, self.rng)

    def round(
        self,
        course: Course,
        there: Sequence[Maximum] = (),
        count: int = ROUND,
        certifies: bool = True,
    ) -> tuple[list[Maximum], Run | None]:
        """A round of starts run to the end on the rows of a course; or one that is exact.

        A common variance that shrinks as the fit improves is an annealing
        schedule for free; free variances come after it. Random labels go
        without it. Where fewer rows had no exact fit, more have none: then
        none need be certified.
        """
        kinds, starts = self.make_round(course, count)
        mixture = course.mixture
        cold = np.array([kind == "labels" for kind in kinds])
        stacks = [starts.take(cold)] if cold.any() else []
        if not cold.all():
            common = self.runs(
                course, lean(EM(mixture.common()), course.source), starts.take(~cold), ANNEAL
            )
            self.pay(course, common)
            exact = certify(course, common) if certifies else None
            if exact is not None:
                return [], exact
            stacks.append(stack_of(common))
        order = [*np.flatnonzero(cold), *np.flatnonzero(~cold)]
        fits = self.race(course, Parameters.concatenate(stacks), there)
        if not there and all(fit.reason == "abandoned" for fit in fits):
            raise InputError(
                "no start led anywhere, because the numbers are too extreme for the model; look "
                "for extreme values in the data, rescale columns, or use a smaller k"
            )
        if certifies and course.sample.has("rounding"):
            # What rounding hides keeps runs from turning exact by themselves.
            exact = certify(course, fits)
            if exact is not None:
                return [], exact
        self.rounds += 1
        count = len(kinds) - max(0, kinds.count("tensor") - 1)
        self.starts_run, self.looks = self.starts_run + count, self.looks + count
        if not self.budget:
            self.set_budget(course, fits)
        pairs = [(kinds[i], fit) for i, fit in zip(order, fits, strict=True)]
        tensors = [fit for kind, fit in pairs if kind == "tensor"]
        best = max(tensors, key=lambda fit: fit.objective, default=None)
        # Runs that were abandoned ended at no maximum; they count as starts. Of the tensor's
        # starts, which are not independent, the best counts.
        return [
            Maximum(fit, () if kind == "tensor" and fit is not best else (kind,))
            for kind, fit in pairs
            if fit.reason != "abandoned"
        ], None

    def make_round(self, course: Course, count: int) -> tuple[list[str], Parameters]:
        """Starts of several kinds, the tensor's among the first."""
        cycle = [kind for kind in CYCLE if kind != "subspace" or self.subspace is not None]
        done, first = self.starts_run, course.sample.rows not in self.begun and self.tensors
        self.begun.add(course.sample.rows)
        many = min(count, self.effort.starts - done) - bool(first)
        kinds = [cycle[i % len(cycle)] for i in range(done, done + many)]
        if not first:
            return make_starts(course, kinds, self.subspace, self.rng)
        tensor = self.tensor_starts(course)
        made = ["tensor"] * len(self.tensors)
        if not kinds:
            return made, tensor
        others, starts = make_starts(course, kinds, self.subspace, self.rng)
        return made + others, Parameters.concatenate([tensor, starts])

    def tensor_starts(self, course: Course) -> Parameters:
        """A stack of the tensor's starts, one for each trial noise variance."""
        variance = 0.5 * course.linear_whitening.variance
        stack = [
            course.lift(start_from(t, course.k, variance, self.rng).stacked()) for t in self.tensors
        ]
        tensor = Parameters.concatenate(stack)
        tensor = feasible(course.source, course.mixture, tensor, course.whitening.pooled)
        return numbered(course.source, course.mixture, tensor)

    def anneal(self, course: Course) -> Run | None:
        """Look for an exact fit only: many starts with a common variance.

        The best of them know more of where to look than moments do: the next are
        bred from them, until that leads no higher.
        """
        best: list[Run] = []
        height = -np.inf
        while self.spent < FOR_EXACT * self.budget:
            if best:
                starts = bred(course, best, 2 * ROUND, self.rng)
            else:
                kinds = ["random"] if self.subspace is None else ["subspace", "random"]
                _, starts = make_starts(course, 2 * ROUND * kinds, self.subspace, self.rng)
            em = lean(EM(course.mixture.common()), course.source)
            fits = self.runs(course, em, starts, ANNEAL_LONG)
            self.pay(course, fits)
            exact = certify(course, fits)
            if exact is not None:
                return exact
            fits = sorted(fits, key=lambda fit: -fit.objective)
            higher, height = fits[0].objective > height, fits[0].objective
            best = fits[: max(1, len(fits) // BEST)] if higher else []
            height = height if higher else -np.inf
        return None


def moment_rows(course: Course) -> int:
    """Rows whose moments are taken: the third moments of many components need many."""
    return max(MOMENT_ROWS, MOMENTS_EACH * course.k * course.sample.columns)


def stack_of(fits: Sequence[Run]) -> Parameters:
    """Where fits ended, as a stack."""
    return Parameters.concatenate([fit.params.stacked() for fit in fits])


def certify(course: Course, fits: list[Run]) -> Run | None:
    """Finish the best runs with hard labels; return one that reaches zero loss."""
    if not course.mixture.family.certifies or course.mixture.background is not None:
        return None
    sample, source, hard = course.sample, course.source, AltMin(course.mixture.common())
    order = np.argsort([-fit.objective for fit in fits])[:3]
    for fit in iterate(source, hard, stack_of([fits[i] for i in order]), HARD_LABELS):
        if -fit.objective > PROMISING * sample.row_weight:
            continue
        done = iterate(sample, hard, fit.params.stacked(), HARD_LABELS)[0]
        if done.reason == "exact":
            return done
    return None
