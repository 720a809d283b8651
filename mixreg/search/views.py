"""Searches on views: what stands in for the rows, and costs a fraction of them.

Starts and moves are run to their ends on a view. The best of what they find meet
the rows for a few steps, and the best of those that lie apart are run to the end
there, where they are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.em import EM
from mixreg.estimators.loop import Control, Run
from mixreg.mixture.parameters import Parameters
from mixreg.search.candidates import make_starts
from mixreg.search.chance import worth
from mixreg.search.constants import (
    FULL_EFFORT,
    VIEW_MOVES,
    VIEW_STARTS,
    WARM_MOVES,
)
from mixreg.search.course import Course
from mixreg.search.levels import Search
from mixreg.search.moves import kinds_of_moves, moved
from mixreg.search.record import VIEW, Maximum, distance, merged
from mixreg.sources import OneBlock, of_block
from mixreg.sources.block import GramBlock
from mixreg.sources.standard import Whitening

Array = NDArray[np.float64]


@dataclass(frozen=True)
class View(Course):
    """A course whose units stand in for others.

    Attributes
    ----------
    block : GramBlock
        The units that are looked at.
    """

    block: GramBlock

    @cached_property
    def source(self) -> OneBlock:
        """What is looked at."""
        return of_block(self.block)

    @property
    def linear_whitening(self) -> Whitening:
        """A view is its own linear view."""
        return self.whitening

    @cached_property
    def lattice(self) -> bool:
        """Views never turn exact."""
        return False


def row_cost(p: int) -> float:
    """Multiplications that a row costs in a pass, about; a logarithm or so counts 60."""
    return p * (p + 1) / 2 + 2 * p + 60


@dataclass(frozen=True, slots=True)
class Meeting:
    """How what was found on a view meets the rows.

    Attributes
    ----------
    most : int
        Maxima of a view that meet the rows.
    steps : int
        Steps that tell the best of them.
    best : int
        How many of these are run to the end.
    close : float
        Candidates nearer than this share of the median distance are taken for one.
    near : float
        So are maxima of a view that are nearer than this, in residual deviations.
    """

    most: int
    steps: int
    best: int
    close: float
    near: float = 0.0


class ViewSearch(Search):
    """A search whose starts are run on views."""

    meeting: ClassVar[Meeting]
    cycle: ClassVar[tuple[str, ...]]
    # How far starts and moves are run on a view.
    to_the_end: ClassVar[Control] = Control(max_iter=150, tol=1e-6, leaps=True)

    def turn(self, course: Course, view: View, maxima: list[Maximum]) -> list[Maximum]:
        """A round on a view; the best of what it finds, on the rows."""
        found = self.look(course, view, maxima)
        ends = self.meet(course, found, maxima)
        return self.ranked(course, merged([*maxima, *ends], course.rows))

    def look(self, course: Course, view: View, maxima: list[Maximum]) -> list[Maximum]:
        """Starts on a view, and moves from what is known, run to their ends."""
        share = min(1.0, self.effort.n_init / FULL_EFFORT)
        kinds = [self.cycle[i % len(self.cycle)] for i in range(max(2, int(share * VIEW_STARTS)))]
        kinds, starts = make_starts(view, kinds, None, self.rng)
        fits = self.run_on(view, starts)
        self.rounds += 1
        self.starts_run, self.looks = self.starts_run + len(kinds), self.looks + 1
        if not self.budget:
            self.set_budget(course, fits)
        found = [Maximum(fit, (f"{VIEW}{self.rounds}",)) for fit in fits]
        if maxima:
            count = max(2, int(share * VIEW_MOVES))
            asked = kinds_of_moves(self.moves, count, view.k)
            parents = np.sort(np.minimum(self.rng.geometric(0.5, count), len(maxima)) - 1)
            stacks = [
                moved(
                    view,
                    self.on_view(maxima[i].run.params),
                    [kind for kind, parent in zip(asked, parents, strict=True) if parent == i],
                    self.rng,
                )
                for i in np.unique(parents)
            ]
            self.moves += count
            ends = self.run_on(view, Parameters.concatenate(stacks))
            found += [Maximum(fit, ()) for fit in ends]
        return merged(found, view.rows)

    def unit_cost(self, p: int) -> float:
        """Multiplications that a unit of a view costs in a pass, about."""
        return (p + 1) * (p + 2)

    def on_view(self, params: Parameters) -> Parameters:
        """A fit of the rows as a view has it."""
        return params

    def on_rows(self, course: Course, params: Parameters) -> Parameters:
        """A fit of a view as the rows have it."""
        return params

    def run_on(self, view: View, starts: Parameters) -> list[Run]:
        """EM on a view."""
        fits = self.runs(view, EM(view.mixture, exact=0.0), starts, self.to_the_end, told=False)
        p = view.block.p
        self.charge(view.block.units * self.unit_cost(p) / row_cost(p), fits)
        return fits

    def meet(self, course: Course, found: list[Maximum], maxima: list[Maximum]) -> list[Maximum]:
        """Maxima of a view on the rows: a few steps tell the best, which go to the end."""
        mixture, rule = course.mixture, self.meeting
        best = thinned(found, rule.near)[: rule.most]
        stack = Parameters.concatenate([self.on_rows(course, m.run.params).stacked() for m in best])
        stack = mixture.prepare(stack)
        begun = self.runs(course, EM(mixture), stack, Control(rule.steps, 0.0))
        self.pay(course, begun)
        value = worth(course.source, mixture, begun, course.rows)
        order = np.argsort(-value, kind="stable")
        piles = apart([fit.params for fit in begun], order, rule.close)[: rule.best]
        stack = Parameters.concatenate([begun[pile[0]].params.stacked() for pile in piles])
        fits = self.race(course, stack, maxima, WARM_MOVES)
        return [
            Maximum(fit, tuple(kind for i in pile for kind in best[i].kinds))
            for pile, fit in zip(piles, fits, strict=True)
            if fit.reason != "abandoned"
        ]


def thinned(found: Sequence[Maximum], near: float) -> list[Maximum]:
    """Maxima, highest first; those near to a higher one are counted with it."""
    kept: list[Maximum] = []
    for maximum in found:
        for i, higher in enumerate(kept):
            if near and distance(higher.run.params, maximum.run.params) < near:
                kept[i] = replace(higher, kinds=higher.kinds + maximum.kinds)
                break
        else:
            kept.append(maximum)
    return kept


def apart(points: list[Parameters], order: NDArray[np.intp], share: float) -> list[list[int]]:
    """Points in a given order, each with those that lie close to it and come after it."""
    each = np.array([[distance(one, other) for other in points] for one in points])
    others = each[np.triu_indices(len(points), 1)]
    close = share * float(np.median(others)) if others.size else 0.0
    piles: list[list[int]] = []
    for i in order.tolist():
        near = [pile for pile in piles if each[i, pile[0]] <= close]
        if near:
            near[0].append(i)
        else:
            piles.append([i])
    return piles
