"""What a search spends, and what it may."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import ClassVar, Protocol

import numpy as np

from mixreg.estimators.loop import Control, Estimator, Progress, Run, iterate
from mixreg.mixture.parameters import Parameters
from mixreg.search.constants import (
    BATCHES,
    BESIDE,
    FINAL_EACH,
    INFORMATION,
    LEAST_BATCH,
    MORE_IF_SCARCE,
    MORE_ITERATIONS,
    MORE_ON_LATTICE,
    MOST_BATCH,
    MOST_IF_SCARCE,
    MOST_PASSES,
    MOST_WORK,
    MOVE_COST,
    PASS,
    SCARCE,
    STEP,
    WARM,
)
from mixreg.search.course import Course, finish, race, sturdy
from mixreg.search.effort import Effort, Ladder, row_work
from mixreg.search.record import Maximum


class Watched(Protocol):
    """Who looks on while a search is run."""

    def of(self, rows: float) -> Progress:
        """Who is told of passes over so many rows."""
        ...

    def runs(self, start: Parameters, make: Callable[[], list[Run]]) -> list[Run]:
        """Runs from a stack of starts: made, unless they were made before."""
        ...

    def found(self, params: Parameters) -> None:
        """The best fit so far is this."""
        ...


class Account:
    """The levels of a search, runs on them, and what these cost.

    Costs are counted, not timed: rows times iterations. The same call gives the same result.

    Attributes
    ----------
    spent, budget : float
        What was spent, and what may be.
    each : float
        Iterations of a move, about.
    starts_run, rounds : int
        Independent starts run to the end so far (tensor starts count as one), and
        rounds of them.
    looks : int
        Independent looks at the rows: starts, and views of which all starts are one.
    moves, accepted : int
        Moves tried against the leader, and kept.
    levels : list of int
        Rows of each level so far.
    begun : set of int
        Rows of the levels that the tensor start was run on.
    """

    # What a search of this kind may cost, over what one on rows may.
    of_plain: ClassVar[float] = 1.0

    def __init__(
        self,
        ladder: Ladder,
        effort: Effort,
        rng: np.random.Generator,
        watch: Watched | None = None,
    ) -> None:
        self.ladder, self.effort, self.rng, self.watch = ladder, effort, rng, watch
        self.spent = self.budget = 0.0
        self.each = float(MOVE_COST)
        self.starts_run = self.rounds = self.moves = self.accepted = self.looks = 0
        self.levels: list[int] = []
        self.begun: set[int] = set()

    @cached_property
    def top(self) -> Course:
        """All rows."""
        return self.ladder.make(self.ladder.rows, self.rng)

    def course(self, rows: int) -> Course:
        """Rows drawn for a level, or all of them."""
        if rows not in self.levels:
            self.levels.append(rows)
        return self.top if rows == self.ladder.rows else self.ladder.make(rows, self.rng)

    def race(
        self,
        course: Course,
        stack: Parameters,
        there: Sequence[Maximum] = (),
        warm: int = WARM,
    ) -> list[Run]:
        """Run EM to the end, but for runs that cannot reach the best; pay for it."""
        known = tuple(m.run for m in there)
        fits = self.seen(course, stack, partial(race, course, stack, known, warm))
        self.pay(course, fits)
        return fits

    def finish(self, course: Course, stack: Parameters) -> list[Run]:
        """Run a stack to the very end; pay for it."""
        fits = self.seen(course, stack, partial(finish, course, stack))
        self.pay(course, [fit for fit in fits if not fit.settled])
        passes = sum(fit.n_iter + INFORMATION for fit in fits if fit.settled)
        self.spent += course.source.cost * course.stack_gain * passes
        return fits

    def runs(
        self,
        course: Course,
        estimator: Estimator,
        stack: Parameters,
        control: Control,
        told: bool = True,
    ) -> list[Run]:
        """Run an estimator on the rows of a course, or on what stands in for them."""

        def make(progress: Progress | None = None) -> list[Run]:
            one = partial(iterate, course.source, estimator, control=control, progress=progress)
            return sturdy(one, stack)

        return self.seen(course, stack, make, told)

    def seen(
        self,
        course: Course,
        stack: Parameters,
        make: Callable[..., list[Run]],
        told: bool = True,
    ) -> list[Run]:
        """Make runs from a stack, or have them from somebody who looks on and is told of passes."""
        if self.watch is None:
            return make()
        return self.watch.runs(stack, partial(make, self.watch.of(course.rows) if told else None))

    def lead(self, maximum: Maximum) -> None:
        """Tell who leads, if somebody looks on."""
        if self.watch is not None:
            self.watch.found(maximum.run.params)

    def pay(self, course: Course, fits: Sequence[Run]) -> None:
        """Count rows times iterations: counted, not timed, the same call gives the same result."""
        self.charge(course.source.cost, fits)

    def charge(self, rows: float, fits: Sequence[Run]) -> None:
        """Count runs in one stack, which share what a pass costs beside its rows."""
        passes = [fit.n_iter - fit.steps + 1 for fit in fits]
        self.spent += rows * sum(passes) + self.overhead * max(passes, default=0)
        each = rows * self.top.stack_gain * INFORMATION + STEP * self.overhead
        self.spent += each * sum(fit.steps for fit in fits)

    @property
    def overhead(self) -> float:
        """What a pass costs whatever the rows, in rows."""
        return PASS / row_work(self.top.k, self.top.sample.columns)

    def affords(self, course: Course, runs: int) -> bool:
        """Whether so many runs would not overdraw the budget."""
        each = runs * course.source.cost + self.overhead
        return self.spent + self.each * each < self.budget

    def affordable(self, course: Course, passes: float) -> int:
        """How many runs of so many passes what is left of the budget pays for."""
        left = self.budget - self.spent - passes * self.overhead
        return max(0, int(left / (passes * course.source.cost)))

    def batch(self, course: Course) -> int:
        """Moves of a batch, so that what is left pays for a few of them."""
        left = (self.budget - self.spent) / self.each - (1 + BATCHES) * self.overhead
        left /= (1 + BATCHES) * course.source.cost
        return int(np.clip(left, LEAST_BATCH, MOST_BATCH))

    def set_budget(self, course: Course, fits: list[Run]) -> None:
        """What the search may cost, by what plain starts on all rows would."""
        iterations = float(np.mean([fit.n_iter - fit.steps for fit in fits])) + 1
        passes = min(MORE_ITERATIONS * iterations, MOST_PASSES)
        k, p = fits[0].params.coef.shape
        plain = self.ladder.plain * (passes + FINAL_EACH * k * p)
        beside = passes * self.overhead + BESIDE / row_work(k, p)
        plain = plain * self.top.stack_gain + beside
        self.budget = self.of_plain * self.effort.runs * plain
        most = MOST_WORK
        if self.scarce(course):
            self.budget *= MORE_IF_SCARCE
            most *= MOST_IF_SCARCE
        elif course.lattice:
            self.budget *= MORE_ON_LATTICE
        # Equations that are solved after a pass cost as much as p rows, and are not counted.
        rows = self.top.source.cost
        self.budget = min(self.budget, most / row_work(k, p) * rows / (rows + p))

    def scarce(self, course: Course) -> bool:
        """Whether rows are so few that only an exact fit means much."""
        p, mixture = course.sample.columns, course.mixture
        few = max(course.sample.rows, course.rows) < SCARCE * course.k * p
        return mixture.family.certifies and mixture.background is None and few
