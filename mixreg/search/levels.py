"""The search: many starts on few rows, fewer on more, the last few on all.

Starts are run to the end on a small sample. The maxima they reach, each counted
once, climb to larger samples; what the rows at hand show to be worse is left
behind, and swaps challenge what leads. What reaches the top is compared on all
rows. A search that finds nothing new stops early; in the noiseless model a loss
of zero ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.altmin import AltMin
from mixreg.estimators.em import EM
from mixreg.estimators.expectation import Marginal
from mixreg.estimators.loop import Control, Fit, Progress, iterate
from mixreg.params import Parameters
from mixreg.search.candidates import feasible, make_starts, numbered
from mixreg.search.chance import ranked, worth
from mixreg.search.course import Course
from mixreg.search.moments import TakeDeviations, deviation_subspace
from mixreg.search.quadratic import real, stand_in
from mixreg.search.record import SAME_HEIGHT, Maximum, Record, merged, unseen
from mixreg.search.swaps import swap_search
from mixreg.search.tensor import TensorResult, TensorStart, start_from, tensor_results
from mixreg.sources import MemorySource
from mixreg.whitening import Whitening

Array = NDArray[np.float64]

# Rows of the first level: so many for each coefficient, and at least ...
ROWS_EACH, FEWEST = 15, 1_000
# Above parabolas the first level has more.
FEWEST_REAL = 20_000
# Each level has so many times the rows of the one below.
FACTOR = 5
# Starts of a round. Eight that end at one maximum leave a chance of 2 in 56 that
# one more would find another (see `unseen`).
ROUND = 8
# A search stops starting when the chance of another maximum is below this.
ENOUGH = 0.05
# Several starts: so many.
SEVERAL = 3
# A maximum stays behind if the rows of a level show it to be worse by so many
# standard errors.
CLEARLY = 3.0
# Mean squared residual (unit variance) that makes a run worth certifying.
PROMISING = 1e-9
# Where starts do not agree, later rounds see one row in so many.
SHARE = 30
# Kinds of starts, in turn.
CYCLE = ["labels", "subspace", "partition", "random"]
# Iterations that climbing to a level takes, about; at least so many climb.
CLIMB_COST, FEWEST_CLIMBERS = 30, 3
# Newton steps and standard errors of a plain start, in iterations.
FINAL_COST = 25
# Least a search may cost, in multiplications, about.
FLOOR = 2e8
ANNEAL = Control(max_iter=8, tol=0.0)
CLIMB = Control(max_iter=150, tol=1e-6, leaps=True)
GLANCE = Control(max_iter=8, tol=1e-6, leaps=True)
HARD = Control(max_iter=15)


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to look.

    Attributes
    ----------
    n_init : int
        Scales everything: starts, swaps, and what they may cost. 1 means one
        start and no swaps.
    thorough : bool
        False makes do with few swaps.
    """

    n_init: int = 16
    thorough: bool = True

    @property
    def starts(self) -> int:
        """Most starts."""
        return 4 * self.n_init if self.n_init > 1 else 1

    @property
    def runs(self) -> float:
        """What the search may cost, in plain starts on all rows."""
        return 0.35 * self.n_init


@dataclass(frozen=True)
class Ladder:
    """The levels, smallest first; the last has all rows.

    Attributes
    ----------
    make : callable
        Makes the course of a number of rows, and a generator.
    rows : tuple of int
    cost : int
        What a pass over all rows costs.
    stand_in : bool
        Whether parabolas stand in for groups below the first level.
    """

    make: Callable[[int, np.random.Generator], Course]
    rows: tuple[int, ...]
    cost: int
    stand_in: bool = False


def level_rows(rows: int, cost: int, k: int, p: int, fewest: int = FEWEST) -> tuple[int, ...]:
    """Rows of each level.

    Parameters
    ----------
    rows : int
        All there are.
    cost : int
        What a pass over all of them costs, in rows: condensed groups cost one each.
    k, p, fewest : int
    """
    size, sizes = max(fewest, ROWS_EACH * k * p), []
    while 2 * size < cost:
        sizes.append(int(size * (rows / cost)))
        size *= FACTOR
    return (*sizes, rows)


def find_subspace(sample: MemorySource, whitening: Whitening, k: int) -> Array:
    """The directions in which components differ from the pooled fit."""
    task = TakeDeviations(whitening.has_constant, whitening.pooled, whitening.variance)
    return deviation_subspace(sample.sweep(task), whitening.has_constant, k)


class Search:
    """One search, level by level."""

    def __init__(
        self,
        ladder: Ladder,
        effort: Effort,
        rng: np.random.Generator,
        progress: Progress | None = None,
    ) -> None:
        self.ladder, self.effort, self.rng, self.progress = ladder, effort, rng, progress
        self.spent = self.budget = 0.0
        self.tensors: tuple[TensorResult, ...] = ()
        self.swaps = self.accepted = 0
        self.top = len(ladder.rows) - 1
        self.courses: dict[int, Course] = {}
        self.settled = False

    def course(self, level: int) -> Course:
        """The rows of a level, made when first needed."""
        if level not in self.courses:
            self.courses[level] = self.ladder.make(self.ladder.rows[level], self.rng)
        return self.courses[level]

    def run(self) -> Record:
        """Look for the best fit."""
        first = self.course(0)
        ground = stand_in(first) if self.ladder.stand_in else first
        maxima, exact = self.casts(ground)
        if exact is not None:
            return self.record([Maximum(exact, ("exact",))], exact=True)
        if self.top == 0 or self.ladder.stand_in or self.settled:
            maxima = self.challenge(ground, maxima)
        if self.settled:
            maxima = self.contenders(ground, maxima, len(maxima))
        if self.ladder.stand_in:
            lifted = [replace(m.fit, params=real(first, m.fit.params)) for m in maxima]
            maxima = [Maximum(f, m.kinds) for f, m in zip(lifted, maxima, strict=True)]
            maxima = self.climb(0, maxima)
        for level in range(1, self.top + 1):
            if self.settled and level == self.top and len(maxima) == 1:
                break
            maxima = self.climb(level, maxima)
            swap = not self.settled and not self.ladder.stand_in
            if level == max(1, self.top - 1) and swap:
                maxima = self.challenge(self.course(level), maxima)
        return self.record(maxima)

    # Starts

    def casts(self, course: Course) -> tuple[list[Maximum], Fit | None]:
        """Starts on the first level, until one more would hardly find anything new.

        After two rounds that do not agree, rounds see other rows, if there are any.
        """
        found: list[Maximum] = []
        subspace = self.prepare(course)
        n_starts, again, here = 0, 2 * ROUND, []
        while n_starts < self.effort.starts:
            kinds, starts = self.starts(course, subspace, n_starts)
            n_starts += len(kinds)
            new, exact = self.round(course, kinds, starts)
            if exact is not None:
                return [], exact
            here = merged(here + new, course.rows)
            if not self.budget:
                self.set_budget(course, new)
            self.settled = self.is_settled(course, here)
            if self.settled or self.spent > self.budget / 4:
                break
            if self.top and not self.ladder.stand_in and n_starts >= again:
                found, here, again = found + here, [], n_starts + 2 * ROUND
                rows = max(self.ladder.rows[0], self.ladder.rows[-1] // SHARE)
                course = self.ladder.make(rows, self.rng)
        return found + here, None

    def is_settled(self, course: Course, maxima: list[Maximum]) -> bool:
        """Whether one more start would hardly find anything better.

        Either nearly all maxima have been seen, or several starts ended at one that
        is clearly better than all others.
        """
        if unseen(maxima) < ENOUGH:
            return True
        if max(m.hits for m in maxima[:3]) < SEVERAL:
            return False
        left = self.contenders(course, maxima, len(maxima))
        return len(left) == 1 and left[0].hits >= SEVERAL

    def prepare(self, course: Course) -> Array | None:
        """Moments of the first level."""
        if not course.mixture.family.moments or course.given is not None:
            return None
        linear, white, k = course.linear, course.linear_whitening, course.k
        subspace = find_subspace(linear, white, k)
        span = np.linalg.qr(np.column_stack([white.pooled, subspace]))[0]
        options = TensorStart(n_starts=30 * k, n_iter=20)
        found = tensor_results(linear, white.has_constant, k, options, self.rng, within=span)
        self.tensors = tuple(found)
        return subspace

    def starts(
        self, course: Course, subspace: Array | None, n_starts: int
    ) -> tuple[list[str], Parameters]:
        """A round of starts, the tensor's in the first."""
        cycle = CYCLE if subspace is not None else [c for c in CYCLE if c != "subspace"]
        many = min(ROUND, self.effort.starts - n_starts)
        if self.effort.n_init == 1:
            cycle = ["random"]
        kinds = [cycle[i % len(cycle)] for i in range(n_starts, n_starts + many)]
        if n_starts or not self.tensors:
            return make_starts(course, kinds, subspace, self.rng)
        variance = 0.5 * course.linear_whitening.variance
        stack = [
            course.lift(start_from(t, course.k, variance, self.rng).stacked())
            for t in self.tensors
        ]
        tensor = Parameters.concatenate(stack)
        tensor = feasible(course.source, course.mixture, tensor, course.whitening.pooled)
        tensor = numbered(course.source.block, course.mixture, tensor)
        if self.effort.n_init == 1:
            return ["tensor"] * len(stack), tensor
        made, others = make_starts(course, kinds[: ROUND - 1], subspace, self.rng)
        return ["tensor"] * len(stack) + made, Parameters.concatenate([tensor, others])

    def round(
        self, course: Course, kinds: list[str], starts: Parameters
    ) -> tuple[list[Maximum], Fit | None]:
        """Starts run to the end on the rows of a course; or one that is exact.

        A common variance that shrinks as the fit improves is an annealing
        schedule for free; free variances come after it. Random labels go
        without it.
        """
        mixture = course.mixture
        cold = np.array([kind == "labels" for kind in kinds])
        stacks = []
        if not cold.all():
            common = iterate(course.source, EM(mixture.common()), starts.take(~cold), ANNEAL)
            self.pay(course, common)
            exact = certify(course, common)
            if exact is not None:
                return [], exact
            stacks.append(_stack(common))
        if cold.any():
            stacks.append(starts.take(cold))
        order = [*np.flatnonzero(~cold), *np.flatnonzero(cold)]
        fits = self.em(course, Parameters.concatenate(stacks), CLIMB)
        return [Maximum(fit, (kinds[i],)) for i, fit in zip(order, fits, strict=True)], None

    # Climbing

    def climb(self, level: int, maxima: list[Maximum]) -> list[Maximum]:
        """Take maxima of one level to the next; leave behind what is clearly worse."""
        course = self.course(level)
        each = course.source.block.rows * CLIMB_COST
        most = max(FEWEST_CLIMBERS, int(self.budget / 4 / each))
        maxima = sorted(maxima, key=lambda m: -m.fit.objective)
        glances = self.em(course, _stack([m.fit for m in maxima[: 2 * most]]), GLANCE)
        maxima = [Maximum(f, m.kinds) for f, m in zip(glances, maxima, strict=False)]
        maxima = self.contenders(course, merged(maxima, course.rows), most)
        ends = self.em(course, _stack([m.fit for m in maxima]), CLIMB)
        maxima = [Maximum(f, m.kinds) for f, m in zip(ends, maxima, strict=True)]
        maxima = merged(maxima, course.rows)
        return maxima if level == self.top else self.contenders(course, maxima, most)

    def contenders(self, course: Course, maxima: list[Maximum], most: int) -> list[Maximum]:
        """Maxima that the rows of a course do not show to be worse than the best."""
        fits = [m.fit for m in maxima]
        value = worth(course.source, course.mixture, fits, course.rows)
        order = np.argsort(-value, kind="stable")[:most]
        units = course.source.sweep(Marginal(course.mixture), _stack([fits[i] for i in order]))
        density = units.join()
        behind = density[0] - density
        error = behind.std(axis=-1) * np.sqrt(density.shape[-1])
        close = value[order[0]] - value[order] <= CLEARLY * error + SAME_HEIGHT
        return [maxima[i] for i, stays in zip(order, close, strict=True) if stays]

    def challenge(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Swaps against the leader."""
        patience = 0 if self.effort.n_init == 1 else 5 * self.effort.n_init * course.k
        if self.settled or not self.effort.thorough:
            patience = min(patience, ROUND)
        fits = ranked(course.source, course.mixture, [m.fit for m in maxima], course.rows)
        leader = next(m for m in maxima if m.fit is fits[0])
        allowed = self.spent + self.budget / 4
        result = swap_search(
            course, leader.fit, patience, lambda used: self.spent + used < allowed, self.rng
        )
        self.spent += result.spent
        self.swaps += result.tried
        self.accepted += result.accepted
        if not result.accepted:
            return maxima
        return merged([Maximum(result.fit, ()), *maxima], course.rows)

    # Accounts

    def em(self, course: Course, stack: Parameters, control: Control) -> list[Fit]:
        """Run EM and pay for it."""
        fits = iterate(course.source, EM(course.mixture), stack, control)
        self.pay(course, fits)
        return fits

    def pay(self, course: Course, fits: Sequence[Fit]) -> None:
        """Count rows times iterations."""
        self.spent += course.source.block.rows * sum(fit.n_iter + 1 for fit in fits)

    def set_budget(self, course: Course, maxima: list[Maximum]) -> None:
        """What the search may cost, by what one start on all rows would take."""
        iterations = np.mean([m.fit.n_iter for m in maxima])
        cost = self.ladder.cost * (iterations + FINAL_COST)
        k, p = maxima[0].fit.params.coef.shape
        floor = FLOOR / (k * (p * (p + 1) / 2 + 60))
        self.budget = max(self.effort.runs * cost, floor)

    def record(self, maxima: list[Maximum], exact: bool = False) -> Record:
        """What was found, best first."""
        if exact:
            winner = maxima[0].fit
        else:
            course = self.course(self.top)
            fits = [m.fit for m in maxima]
            order = np.argsort(-worth(course.source, course.mixture, fits, course.rows))
            maxima = [maxima[i] for i in order]
            winner = maxima[0].fit
        return Record(
            winner,
            tuple(maxima),
            sum(m.hits for m in maxima),
            0.0 if exact else unseen(maxima),
            self.swaps,
            self.accepted,
            self.ladder.rows,
            exact,
            self.tensors,
        )


def _stack(fits: Sequence[Fit]) -> Parameters:
    return Parameters.concatenate([fit.params.stacked() for fit in fits])


def certify(course: Course, fits: list[Fit]) -> Fit | None:
    """Finish the best runs with hard labels; return one that reaches zero loss."""
    if not course.mixture.family.certifies or course.mixture.background is not None:
        return None
    sample, source, hard = course.sample, course.source, AltMin(course.mixture.common())
    order = np.argsort([-fit.objective for fit in fits])[:3]
    for fit in iterate(source, hard, _stack([fits[i] for i in order]), HARD):
        if -fit.objective > PROMISING * sample.row_weight:
            continue
        done = iterate(sample, hard, fit.params.stacked(), HARD)[0]
        if done.reason == "exact":
            return done
    return None
