"""What a level of the search is run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.em import EM, RacingEM
from mixreg.estimators.loop import Control, Progress, Run, iterate, joined
from mixreg.estimators.runs import nearest_top
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.constants import (
    FINISH,
    FIRST_ROWS,
    GAIN_OF_ONE,
    MOST_GAIN,
    REPEATED,
    SHARED_GAIN,
    TO_THE_END,
    TOLERANCE,
    WARM,
)
from mixreg.sources import AtHand, OneBlock, Source
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
            return SHARED_GAIN
        # Products of regressors cost the same in a stack, all else is shared.
        by_columns = min(MOST_GAIN, 1 + GAIN_OF_ONE / self.sample.columns)
        return family.stack_gain or by_columns

    @cached_property
    def lattice(self) -> bool:
        """Whether responses repeat, so that a component may turn exact all at once."""
        collapsing = self.mixture.family.collapsing
        if not any(collapsing):
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
    height: float = -np.inf,
    warm: int = WARM,
    progress: Progress | None = None,
) -> list[Run]:
    """Run EM to the end from every start that may still reach the best.

    Starts on which the arithmetic breaks are left behind.

    Parameters
    ----------
    course : Course
    stack : Parameters
    height : float
        Log-likelihood of the best fit known on these rows.
    warm : int
        Iterations before runs can be left behind.
    progress : callable, optional
        Told of every pass.
    """
    # On a lattice no pace foretells where a run will end.
    warm = warm + TO_THE_END if course.lattice else warm
    first = Control(warm, TOLERANCE, leaps=True)
    em = EM(course.mixture)
    fits = sturdy(lambda some: iterate(course.source, em, some, first, progress), stack)
    going = [i for i, fit in enumerate(fits) if fit.reason == "max_iter"]
    if going and not course.lattice:
        best = max(height, *(fit.objective for fit in fits), -np.inf)
        stack = Parameters.concatenate([fits[i].params.stacked() for i in going])
        control = Control(TO_THE_END, TOLERANCE, leaps=True)
        racing = RacingEM(course.mixture, height=best)
        ends = sturdy(lambda some: iterate(course.source, racing, some, control, progress), stack)
        for i, end in zip(going, ends, strict=True):
            fits[i] = joined(fits[i], end)
    return fits


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
        ends = iter(iterate(course.source, EM(course.mixture), stack.take(left), FINISH, progress))
    return [next(ends) if top is None else top for top in tops]
