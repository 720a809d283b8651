"""The search for groups of a family that is not linear: stand-ins first, rows after.

Rounds of starts and moves are run on quadratics that stand in for the
log-likelihood of each group: at first around the pooled fit, then around what the
best fits say of each group. The best of what they find are run to the end on the
rows, where they are compared. If the rounds find nothing better, and starts do not
agree either, moves and starts on the rows spend what is left.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.em import EM
from mixreg.estimators.expectation import Posterior
from mixreg.estimators.loop import Control, Fit, iterate
from mixreg.params import Parameters
from mixreg.search.candidates import make_starts
from mixreg.search.chance import worth
from mixreg.search.course import Course
from mixreg.search.levels import ENOUGH, Search
from mixreg.search.moves import WARM_MOVES, kinds_of_moves, moved
from mixreg.search.record import SAME_HEIGHT, Maximum, Record, chance_of_better, distance, merged
from mixreg.search.stand_in import STEPS, StandIn, row_cost, stand_in

Array = NDArray[np.float64]

# What the fits of groups are shrunk to in each round, and how firmly: to the pooled fit (None),
# or to what the leader (0) or a maximum behind it says of them. Firm around the pooled fit the
# stand-in is steady, loose it tells more maxima apart (verbagg, k = 3; bank, k = 5); around good
# fits it finds the best of bank, k = 4, which one random start in fifty does.
PLAN = ((None, 3.0), (0, 3.0), (None, 0.5), (0, 3.0), (1, 3.0), (None, 1.0), (2, 3.0))
# What this search may cost, over what one on rows may (bank of the benchmark).
OF_PLAIN = 0.75
# Share of the budget for stand-ins; what is left is for moves on the rows, without which 3 of 10
# seeds reach the best of fifty random starts on bank, k = 5, and with which 7 do.
SHARE = 0.6
# Rounds before a search may settle: the third finds the better of two twins (verbagg, k = 3).
LEAST = 3
# Starts and moves of a round on stand-ins, with this n_init or more.
STARTS, MOVES, FULL = 24, 24, 16
CYCLE = ("labels", "partition", "labels", "random")
# Maxima of a stand-in that meet the rows, the steps that tell the best of them, and how
# many of these are run to the end: on bank, k = 4, 16 candidates, two steps and shorter runs on
# stand-ins reach the best from 4 of 8 seeds, and these from 7.
MEET, STEPS_TO_TELL, BEST = 24, 3, 4
# Candidates nearer than this share of the median distance are taken for one (bank, k = 4: eight
# of 24 lead to one maximum).
CLOSE = 0.25
STAND_IN_STEPS = Control(max_iter=150, tol=1e-6, leaps=True)


class GroupedSearch(Search):
    """A search whose starts are run on stand-ins."""

    def run(self) -> Record:
        """Look for the best fit."""
        course = self.course(self.ladder.wide)
        first = stand_in(course, course.whitening.pooled, PLAN[0][1])
        if first is None:
            return super().run()
        maxima: list[Maximum] = []
        failed, height, turn = 0, -np.inf, 0
        while failed < len(PLAN) and not self.settled:
            if turn and self.spent > SHARE * self.budget:
                break
            if turn == LEAST:
                self.prepare(course)
                maxima = self.join_tensors(course, maxima)
            view = first if turn == 0 else self.view(course, maxima, turn)
            if view is not None:
                maxima = self.turn(course, view, maxima)
            now, turn = self.worth_of(course, maxima), turn + 1
            failed = 0 if now > height + SAME_HEIGHT else failed + 1
            height = max(now, height)
            sure = chance_of_better(maxima, self.starts_run) < ENOUGH
            self.settled = turn >= LEAST and failed > 0 and sure
        if not self.settled and self.spent < self.budget:
            maxima = self.widen(course, maxima)
        if course is not self.top:
            maxima = self.climb(self.course(self.ladder.rows), self.contenders(course, maxima))
        return self.record(self.photo_finish(maxima))

    def view(self, course: Course, maxima: list[Maximum], number: int) -> StandIn | None:
        """The stand-in of a round."""
        around, firmness = PLAN[number % len(PLAN)]
        centre = course.whitening.pooled
        if around is not None:
            centre = self.said(course, maxima[min(around, len(maxima) - 1)])
        self.spent += (STEPS + 1) * course.source.block.rows
        return stand_in(course, centre, firmness)

    def turn(self, course: Course, view: StandIn, maxima: list[Maximum]) -> list[Maximum]:
        """A round on a stand-in; the best of what it finds, on the rows."""
        found = self.look(course, view, maxima)
        ends = self.meet(course, found, maxima)
        return self.ranked(course, merged([*maxima, *ends], course.rows))

    def said(self, course: Course, maximum: Maximum) -> Array:
        """What a fit says of each unit's coefficients, (units, p)."""
        params = maximum.fit.params
        posterior = course.source.sweep(Posterior(course.mixture), params).join()
        return np.asarray(posterior[: params.k].T @ params.coef)

    def look(self, course: Course, view: StandIn, maxima: list[Maximum]) -> list[Maximum]:
        """Starts on a stand-in, and moves from what is known, run to their ends."""
        share = min(1.0, self.effort.n_init / FULL)
        kinds = [CYCLE[i % len(CYCLE)] for i in range(max(2, int(share * STARTS)))]
        kinds, starts = make_starts(view, kinds, None, self.rng)
        fits = self.run_on(view, starts)
        self.rounds += 1
        self.starts_run += len(kinds)
        if not self.budget:
            self.set_budget(course, fits)
            self.budget *= OF_PLAIN
        found = [Maximum(fit, (kind,)) for kind, fit in zip(kinds, fits, strict=True)]
        if maxima:
            count = max(2, int(share * MOVES))
            asked = kinds_of_moves(self.moves, count, view.k)
            parents = np.sort(np.minimum(self.rng.geometric(0.5, count), len(maxima)) - 1)
            stacks = [
                moved(
                    view,
                    on_stand_in(maxima[i].fit.params),
                    [kind for kind, parent in zip(asked, parents, strict=True) if parent == i],
                    self.rng,
                )
                for i in np.unique(parents)
            ]
            self.moves += count
            ends = self.run_on(view, Parameters.concatenate(stacks))
            found += [Maximum(fit, ()) for fit in ends]
        return merged(found, view.rows)

    def run_on(self, view: StandIn, starts: Parameters) -> list[Fit]:
        """EM on a stand-in."""
        fits = iterate(view.source, EM(view.mixture, exact=0.0), starts, STAND_IN_STEPS)
        p = view.block.p
        passes = sum(fit.n_iter + 1 for fit in fits)
        self.spent += passes * view.block.units * (p + 1) * (p + 2) / row_cost(p)
        return fits

    def meet(self, course: Course, found: list[Maximum], maxima: list[Maximum]) -> list[Maximum]:
        """Maxima of a stand-in on the rows: a few steps tell the best, which go to the end."""
        mixture = course.mixture
        spread = np.broadcast_to(course.whitening.dispersion, found[0].fit.params.dispersion.shape)
        best = found[:MEET]
        stack = Parameters.concatenate(
            [replace(m.fit.params, dispersion=spread.astype(float)).stacked() for m in best]
        )
        stack = mixture.prepare(stack)
        begun = iterate(course.source, EM(mixture), stack, Control(STEPS_TO_TELL, 0.0))
        self.pay(course, begun)
        value = worth(course.source, mixture, begun, course.rows)
        order = np.argsort(-value, kind="stable")
        piles = apart([fit.params for fit in begun], order)[:BEST]
        stack = Parameters.concatenate([begun[pile[0]].params.stacked() for pile in piles])
        fits = self.race(course, stack, maxima, WARM_MOVES)
        return [
            Maximum(fit, tuple(kind for i in pile for kind in best[i].kinds))
            for pile, fit in zip(piles, fits, strict=True)
            if fit.reason != "abandoned"
        ]


def apart(points: list[Parameters], order: NDArray[np.intp]) -> list[list[int]]:
    """Points in a given order, each with those that lie close to it and come after it."""
    each = np.array([[distance(one, other) for other in points] for one in points])
    others = each[np.triu_indices(len(points), 1)]
    close = CLOSE * float(np.median(others)) if others.size else 0.0
    piles: list[list[int]] = []
    for i in order.tolist():
        near = [pile for pile in piles if each[i, pile[0]] <= close]
        if near:
            near[0].append(i)
        else:
            piles.append([i])
    return piles


def on_stand_in(params: Parameters) -> Parameters:
    """The same components, with the dispersion of a stand-in."""
    return replace(params, dispersion=np.ones(params.coef.shape[:-1]))
