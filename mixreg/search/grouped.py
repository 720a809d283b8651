"""The search for groups of a family that is not linear: stand-ins first, rows after.

Rounds of starts and moves are run on quadratics that stand in for the
log-likelihood of each group: at first around the pooled fit, then around what the
best fits say of each group. If the rounds find nothing better, and starts do not
agree either, moves and starts on the rows spend what is left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import Posterior
from mixreg.mixture.parameters import Parameters
from mixreg.search.constants import (
    ENOUGH,
    GROUP_CHALLENGERS,
    GROUP_PLAN,
    GROUP_ROUNDS,
    GROUP_SHARE,
    GROUP_STEPS,
    SAME_HEIGHT,
)
from mixreg.search.course import Course
from mixreg.search.record import Maximum, Record, chance_of_better
from mixreg.search.stand_in import stand_in
from mixreg.search.views import Meeting, View, ViewSearch

Array = NDArray[np.float64]


class GroupedSearch(ViewSearch):
    """A search whose starts are run on stand-ins."""

    # On bank, k = 4, 16 candidates, two steps and shorter runs on stand-ins reach the best from
    # 4 of 8 seeds, and these from 7; eight of 24 candidates lead to one maximum.
    meeting: ClassVar[Meeting] = Meeting(most=24, steps=3, best=4, close=0.25)
    cycle: ClassVar[tuple[str, ...]] = ("labels", "partition", "labels", "random")
    # Bank of the benchmark.
    of_plain: ClassVar[float] = 0.9

    def run(self) -> Record:
        """Look for the best fit."""
        course = self.course(self.ladder.wide)
        first = stand_in(course, course.whitening.pooled, GROUP_PLAN[0][1])
        if first is None:
            return super().run()
        maxima: list[Maximum] = []
        failed, height, turn = 0, -np.inf, 0
        while failed < len(GROUP_PLAN) and not self.settled:
            if turn and self.spent > GROUP_SHARE * self.budget:
                break
            if turn == GROUP_ROUNDS:
                self.prepare(course)
                maxima = self.join_tensors(course, maxima)
            view = first if turn == 0 else self.view(course, maxima, turn)
            if view is not None:
                maxima = self.turn(course, view, maxima)
            now, turn = self.worth_of(course, maxima), turn + 1
            failed = 0 if now > height + SAME_HEIGHT else failed + 1
            height = max(now, height)
            sure = chance_of_better(maxima, self.starts_run) < ENOUGH
            if turn >= GROUP_ROUNDS and failed > 0 and sure:
                maxima, beaten = self.challenged(course, maxima, GROUP_CHALLENGERS)
                failed, self.settled = 0 if beaten else failed, not beaten
        if not self.settled and self.spent < self.budget:
            maxima = self.widen(course, maxima)
        if course is not self.top:
            maxima = self.contenders(course, maxima)
            course = self.course(self.ladder.rows)
            maxima = self.climb(course, maxima)
        return self.record(self.photo_finish(course, maxima))

    def view(self, course: Course, maxima: list[Maximum], number: int) -> View | None:
        """The stand-in of a round."""
        around, firmness = GROUP_PLAN[number % len(GROUP_PLAN)]
        centre = course.whitening.pooled
        if around is not None:
            centre = self.said(course, maxima[min(around, len(maxima) - 1)])
        self.spent += (GROUP_STEPS + 1) * course.source.cost
        return stand_in(course, centre, firmness)

    def said(self, course: Course, maximum: Maximum) -> Array:
        """What a fit says of each unit's coefficients, (units, p)."""
        params = maximum.run.params
        posterior = course.source.sweep(Posterior(course.mixture), params).join()
        return np.asarray(posterior[: params.k].T @ params.coef)

    def on_view(self, params: Parameters) -> Parameters:
        """The same components, with the dispersion of a stand-in."""
        return replace(params, dispersion=np.ones(params.coef.shape[:-1]))

    def on_rows(self, course: Course, params: Parameters) -> Parameters:
        """The same components, with the dispersion of the pooled fit."""
        spread = np.broadcast_to(course.whitening.dispersion, params.dispersion.shape)
        return replace(params, dispersion=spread.astype(float))
