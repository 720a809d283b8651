"""What a level of the search is run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.em import EM, RacingEM
from mixreg.estimators.lean import lean
from mixreg.estimators.loop import Control, Progress, Run, iterate, joined
from mixreg.estimators.runs import has_many, nearest_top, newton_steps
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.constants import (
    FAILURES,
    FINISH,
    FIRST_ROWS,
    GAIN_OF_ONE,
    MOST_GAIN,
    REACH,
    REPEATED,
    SAME_HEIGHT,
    SHARED_GAIN,
    SHARED_OF_ONE,
    TO_THE_END,
    TOLERANCE,
    WARM,
)
from mixreg.search.record import expected_end, same
from mixreg.sources import AtHand, OneBlock, Source, wide_block
from mixreg.sources.standard import Whitening
from mixreg.sources.tasks import responses

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Course:
    """Some rows in standard coordinates, and what is fitted to them.

    Attributes
    ----------
    mixture : Mixture
    sample : AtHand
        Rows in standard coordinates.
    linear : AtHand
        The same rows with a response for linear regressions, which the
        moments, subspaces and partitions look at.
    whitening : Whitening
    k : int
    """

    mixture: Mixture
    sample: AtHand
    linear: AtHand
    whitening: Whitening
    k: int

    @cached_property
    def source(self) -> OneBlock:
        """The rows as one block, condensed once for all runs."""
        return self.sample.condensed(self.mixture.family.linear)

    @cached_property
    def condensed(self) -> OneBlock:
        """The linear view as one block."""
        return self.source if self.linear is self.sample else self.linear.condensed()

    @property
    def rows(self) -> float:
        """Rows, counted with their weights."""
        return self.sample.row_weight

    @property
    def linear_whitening(self) -> Whitening:
        """Standard coordinates of the linear view."""
        return self.whitening.linear or self.whitening

    @property
    def stack_gain(self) -> float:
        """How many times faster a run is in a stack than alone."""
        family = self.mixture.family
        if family.linear and self.source.keeps_pairs:
            return min(SHARED_GAIN, 1 + SHARED_OF_ONE / self.sample.columns)
        # Products of regressors cost the same in a stack, all else is shared.
        by_columns = min(MOST_GAIN, 1 + GAIN_OF_ONE / self.sample.columns)
        return family.stack_gain or by_columns

    @cached_property
    def lattice(self) -> bool:
        """Whether responses repeat, so that a component may turn exact all at once."""
        collapsing = self.mixture.family.collapsing
        # What rounding hides keeps components from turning exact.
        if not any(collapsing) or self.sample.has("rounding"):
            return False
        each = zip(collapsing, first_responses(self.sample, FIRST_ROWS), strict=True)
        return any(turns and len(np.unique(y)) < REPEATED * len(y) for turns, y in each)

    def lift(self, start: Parameters) -> Parameters:
        """A start found on the linear view, for the mixture itself."""
        if self.whitening.linear is not None:
            start = replace(
                start,
                coef=self.whitening.linear.lift(start.coef),
                dispersion=np.full_like(start.dispersion, self.whitening.dispersion),
            )
        return self.mixture.prepare(start)


def first_responses(source: Source, rows: int) -> Array:
    """Each response of the first rows, from as many blocks as have them, (responses, rows)."""
    found: list[Array] = []
    for piece in source.pieces(responses):
        found.append(np.atleast_2d(piece))
        if sum(part.shape[1] for part in found) >= rows:
            break
    return np.concatenate(found, axis=1)[:, :rows]


def sturdy(run: Callable[[Parameters], list[Run]], stack: Parameters) -> list[Run]:
    """Run a stack; a start that breaks the arithmetic is left behind, and counts as a start."""
    try:
        return run(stack)
    except np.linalg.LinAlgError:
        count = stack.coef.shape[1]
        if count > 1:
            return [sturdy(run, stack.run(i).stacked())[0] for i in range(count)]
        return [Run(stack.run(0), -np.inf, np.array([-np.inf]), "abandoned", 0)]


def race(
    course: Course,
    stack: Parameters,
    known: Sequence[Run] = (),
    warm: int = WARM,
    progress: Progress | None = None,
) -> list[Run]:
    """Run EM to the end from every start that may still reach the best.

    Starts on which the arithmetic breaks are left behind.

    Parameters
    ----------
    course : Course
    stack : Parameters
    known : sequence of Run
        Maxima that are known on these rows.
    warm : int
        Iterations before runs can be left behind.
    progress : callable, optional
        Told of every pass.
    """
    # On a lattice no pace foretells where a run will end.
    warm = warm + TO_THE_END if course.lattice else warm
    first = Control(warm, TOLERANCE, leaps=True)
    em = lean(EM(course.mixture), course.source)
    fits = sturdy(lambda some: iterate(course.source, em, some, first, progress), stack)
    going = [i for i, fit in enumerate(fits) if fit.reason == "max_iter"]
    if going and not course.lattice:
        best = max(fit.objective for fit in [*known, *fits])
        stack = Parameters.concatenate([fits[i].params.stacked() for i in going])
        control = Control(TO_THE_END, TOLERANCE, leaps=True)
        racing = lean(RacingEM(course.mixture, height=best), course.source)
        ends = sturdy(lambda some: iterate(course.source, racing, some, control, progress), stack)
        for i, end in zip(going, ends, strict=True):
            fits[i] = joined(fits[i], end)
    return steepened(course, fits, known, progress)


def steepened(
    course: Course,
    fits: list[Run],
    known: Sequence[Run] = (),
    progress: Progress | None = None,
) -> list[Run]:
    """Runs near enough to the best, taken to their ends by Newton's steps.

    EM crawls on flat ground, and ends there at many points of one maximum. Runs that have come to
    a maximum that is known are left there.
    """
    if course.source.cost < course.sample.rows or wide_block(course.source) is not None:
        # Newton's steps are made on rows, which cost more than groups that were condensed, and of
        # many regressors they cost far more than EM.
        return fits
    tops = [fit for fit in known if fit.reason != "exact"]
    heights = [expected_end(fit) for fit in [*tops, *fits] if fit.reason != "exact"]
    best, control, ends = max(heights, default=-np.inf), Control(tol=TOLERANCE), list(fits)
    failed = 0
    for i in np.argsort([-fit.objective for fit in fits], kind="stable").tolist():
        if failed == FAILURES:
            break
        fit = fits[i]
        open_end = fit.reason in ("max_iter", "converged") and not fit.settled
        if not open_end or best - expected_end(fit) > REACH:
            continue
        if any(same(top, fit, course.rows) for top in tops):
            continue
        end = None
        if has_many(course.sample, course.mixture):
            end = nearest_top(course.sample, course.mixture, fit.params, FINISH)
        if end is None:
            end = newton_steps(course.sample, course.mixture, fit.params, control, progress)
        failed += end.reason != "converged"
        if end.objective >= fit.objective - SAME_HEIGHT:
            ends[i] = joined(fit, end)
            tops.append(ends[i])
            best = max(best, end.objective)
    return ends


def finish(course: Course, stack: Parameters, progress: Progress | None = None) -> list[Run]:
    """Run a stack to the very end: by Newton's steps where these settle it, else by EM.

    Newton's steps are made on rows, which cost more than groups that were condensed.
    """
    tops: list[Run | None] = [None] * stack.coef.shape[1]
    if course.source.cost >= course.sample.rows:
        each = map(stack.run, range(len(tops)))
        tops = [nearest_top(course.sample, course.mixture, start, FINISH) for start in each]
    left = np.array([top is None for top in tops])
    ends: Iterator[Run] = iter(())
    if left.any():
        em = lean(EM(course.mixture), course.source)
        ends = iter(iterate(course.source, em, stack.take(left), FINISH, progress))
    return [next(ends) if top is None else top for top in tops]
