"""The search: many starts on few rows, fewer on more, the last few on all.

Starts are run to the end on a small sample. If they agree, their maximum climbs
to all rows. If they do not, more rounds of starts follow, each on other and more
rows; what leads in a round meets the leaders of the others on common rows, where
moves challenge the best. What rows show to be worse is left behind on the way.
What reaches the top is compared on all rows. In the noiseless model a loss of
zero ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.altmin import AltMin
from mixreg.estimators.em import EM
from mixreg.estimators.expectation import Marginal
from mixreg.estimators.loop import Control, Fit, Progress, iterate
from mixreg.params import Parameters
from mixreg.search.candidates import feasible, make_starts, numbered
from mixreg.search.chance import worth
from mixreg.search.course import Course, race
from mixreg.search.moments import TakeDeviations, deviation_subspace
from mixreg.search.moves import MOVE_COST, defend
from mixreg.search.record import SAME_HEIGHT, Maximum, Record, chance_of_better, merged, unseen
from mixreg.search.tensor import TensorResult, TensorStart, start_from, tensor_results
from mixreg.sources import MemorySource
from mixreg.whitening import Whitening

Array = NDArray[np.float64]

# Rows of the first level: so many for each coefficient, and at least ...
ROWS_EACH, FEWEST = 15, 1_000
# A count or a choice says less than a measurement does.
FEWEST_OTHERS = 2_500
# Groups of the first level, for each component.
UNITS_EACH = 40
# Each level has so many times the rows of the one below.
FACTOR = 9
# Starts of a round. Eight that end at one maximum leave a chance of 2 in 56 that
# one more would find another (see `unseen`).
ROUND = 8
# A search stops starting when the chance of another maximum is below this, ...
ENOUGH = 0.05
# ... or when so many starts, or rounds on rows of their own, ended at one that is
# better than all others; twins count as one if they are few.
SEVERAL, FEW = 3, 5
# A maximum is clearly worse if it is so by this many standard errors.
CLEARLY = 3.0
# Later rounds see no more than this share of all rows; of each round so many maxima
# climb. Rounds end when this share of them has the same leader.
MOST_SHARE, PROMOTED, AGREED = 0.4, 3, 0.6
# Shares of the budget: rounds on one sample, rounds with what they promote, moves.
FOR_STARTS, FOR_ROUNDS, FOR_MOVES = 0.35, 0.65, 0.3
# Nothing is begun that would overdraw a share by more than this.
OVERDRAFT = 1.2
# What a plain start takes beside the iterations of a run in a stack: more of them,
# because it goes to the end, and Newton's steps and standard errors, which cost the
# more the more coefficients there are.
MORE_ITERATIONS, FINAL_EACH = 1.5, 0.55
# Least a search may cost, in multiplications, about.
FLOOR = 2.5e8
# With fewer rows than this for each coefficient there are many maxima, and only an
# exact fit means much: it is worth so many times more (`benchmarks recovery`).
SCARCE, MORE_IF_SCARCE = 5, 20
# Rows on a lattice make many maxima too, as components turn exact.
MORE_ON_LATTICE = 2
# Mean squared residual (unit variance) that makes a run worth certifying.
PROMISING = 1e-9
# Kinds of starts, in turn.
CYCLE = ("labels", "subspace", "labels", "partition", "labels", "random")
ANNEAL = Control(max_iter=8, tol=0.0)
ANNEAL_LONG = Control(max_iter=25, tol=0.0)
HARD = Control(max_iter=15)


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to look.

    Attributes
    ----------
    n_init : int
        Scales everything: starts, moves, and what they may cost. 1 means one
        start and no moves.
    thorough : bool
        False makes do with few moves.
    """

    n_init: int = 16
    thorough: bool = True

    @property
    def starts(self) -> int:
        """Most starts."""
        return 6 * self.n_init if self.n_init > 1 else 1

    @property
    def runs(self) -> float:
        """What the search may cost, in plain starts on all rows."""
        return 0.45 * self.n_init

    def patience(self, k: int) -> int:
        """Moves in a row that must fail."""
        return 5 * self.n_init * k if self.n_init > 1 else 0


@dataclass(frozen=True)
class Ladder:
    """What the levels are made of.

    Attributes
    ----------
    make : callable
        Makes the course of a number of rows, with a generator that draws them.
    first, rows : int
        Rows of the first level, and all there are.
    cost : int
        What a pass over all rows costs: condensed groups cost a row each.
    """

    make: Callable[[int, np.random.Generator], Course]
    first: int
    rows: int
    cost: int

    def above(self, rows: int) -> int:
        """Rows of the next level."""
        return FACTOR * rows if 2 * FACTOR * rows < self.rows else self.rows


def first_rows(rows: int, units: int, cost: int, k: int, p: int, linear: bool) -> int:
    """Rows of the first level: some for each coefficient, groups for each component."""
    groups = UNITS_EACH * k * cost / units if units < rows else 0.0
    size = max(FEWEST if linear else FEWEST_OTHERS, ROWS_EACH * k * p, int(groups))
    return rows if 2 * size >= cost else int(size * (rows / cost))


def find_subspace(sample: MemorySource, whitening: Whitening, k: int) -> Array:
    """The directions in which components differ from the pooled fit."""
    task = TakeDeviations(whitening.has_constant, whitening.pooled, whitening.variance)
    return deviation_subspace(sample.sweep(task), whitening.has_constant, k)


def decompositions(
    course: Course, rng: np.random.Generator
) -> tuple[Array, tuple[TensorResult, ...]]:
    """Subspace of the components, and the moments decomposed within it."""
    linear, white, k = course.linear, course.linear_whitening, course.k
    subspace = find_subspace(linear, white, k)
    span = np.linalg.qr(np.column_stack([white.pooled, subspace]))[0]
    options = TensorStart(n_starts=30 * k, n_iter=20)
    return subspace, tuple(tensor_results(linear, white.has_constant, k, options, rng, within=span))


class Search:
    """One search, level by level.

    Attributes
    ----------
    starts_run, rounds : int
        Independent starts run to the end so far (tensor starts count as one), and
        rounds of them.
    levels : list of int
        Rows of each level so far.
    settled : bool
        Whether starts on the first level agree.
    """

    def __init__(
        self,
        ladder: Ladder,
        effort: Effort,
        rng: np.random.Generator,
        progress: Progress | None = None,
    ) -> None:
        self.ladder, self.effort, self.rng, self.progress = ladder, effort, rng, progress
        self.spent = self.budget = 0.0
        self.iterations = 1.0
        self.tensors: tuple[TensorResult, ...] = ()
        self.subspace: Array | None = None
        self.starts_run = self.rounds = self.moves = self.accepted = 0
        self.levels: list[int] = []
        self.settled = False

    @cached_property
    def top(self) -> Course:
        """All rows."""
        return self.ladder.make(self.ladder.rows, self.rng)

    def course(self, rows: int) -> Course:
        """Rows drawn for a level, or all of them."""
        if rows not in self.levels:
            self.levels.append(rows)
        return self.top if rows == self.ladder.rows else self.ladder.make(rows, self.rng)

    def run(self) -> Record:
        """Look for the best fit."""
        rows = self.ladder.first
        course = self.course(rows)
        maxima, exact = self.open(course)
        if exact is not None:
            return self.record([Maximum(exact, ("exact",))], exact=True)
        if not self.settled and course is not self.top and self.effort.n_init > 1:
            rows, course = self.ladder.rows, self.top
            maxima = self.widen(maxima)
        if course is self.top and self.settled and self.ladder.first < rows:
            maxima = self.confirm(maxima)
        else:
            maxima = self.challenge(course, maxima)
        while rows < self.ladder.rows:
            maxima = self.contenders(course, maxima)
            rows = self.ladder.above(rows)
            if self.settled and rows == self.ladder.rows and len(maxima) == 1:
                break
            course = self.course(rows)
            maxima = self.climb(course, maxima)
        if self.settled and self.ladder.first < self.ladder.rows and self.few_rows():
            maxima = self.challenge(self.top, self.climb(self.top, maxima))
        return self.record(maxima)

    def few_rows(self) -> bool:
        """Whether some moves on all rows cost next to nothing."""
        k, p = self.top.k, self.top.sample.x.shape[1]
        return ROUND * MOVE_COST * self.ladder.cost * k * (p * (p + 1) / 2 + 60) < FLOOR

    # Starts

    def open(self, course: Course) -> tuple[list[Maximum], Fit | None]:
        """Rounds of starts on the first level, until they agree; or an exact fit.

        Two rounds, unless these are all the rows there are.
        """
        self.prepare(course)
        maxima: list[Maximum] = []
        most = self.effort.starts if course is self.top else min(2 * ROUND, self.effort.starts)
        while self.starts_run < most:
            new, exact = self.round(course)
            if exact is not None:
                return [], exact
            maxima = merged(maxima + new, course.rows)
            self.settled = self.is_settled(course, maxima)
            if self.settled or self.spent > FOR_STARTS * self.budget:
                break
            if self.scarce(course) and self.rounds == 1:
                exact = self.anneal(course)
                if exact is not None:
                    return [], exact
        return maxima, None

    def scarce(self, course: Course) -> bool:
        """Whether rows are so few that only an exact fit means much."""
        p = course.sample.x.shape[1]
        return course.mixture.family.certifies and course.rows < SCARCE * course.k * p

    def anneal(self, course: Course) -> Fit | None:
        """Look for an exact fit only: many starts with a common variance."""
        allowed = self.spent + FOR_STARTS * self.budget
        while self.spent < allowed:
            kinds = [kind for kind in ("subspace", "random") if self.subspace is not None]
            _, starts = make_starts(course, 2 * ROUND * kinds, self.subspace, self.rng)
            fits = iterate(course.source, EM(course.mixture.common()), starts, ANNEAL_LONG)
            self.pay(course, fits)
            exact = certify(course, fits)
            if exact is not None:
                return exact
        return None

    def widen(self, maxima: list[Maximum]) -> list[Maximum]:
        """More rounds, each on other rows, until several have the same leader.

        What leads on one sample may be hidden in another, and how many rows it takes
        to see it is not known beforehand: rounds on samples and rounds on all rows
        cost the same in total. Their leaders meet on all rows.
        """
        pool = self.climb(self.top, maxima[:PROMOTED])
        paid = dict.fromkeys((self.ladder.rows, self.sample_rows()), 0.0)
        while self.starts_run < self.effort.starts and self.spent < FOR_ROUNDS * self.budget:
            size, before = min(paid, key=lambda size: paid[size]), self.spent
            share = size / self.ladder.rows
            if before + share * self.round_cost > OVERDRAFT * FOR_ROUNDS * self.budget:
                break
            course = self.course(size)
            new, _ = self.round(course, pool if course is self.top else [])
            if course is self.top:
                pool = self.ranked(course, merged([*pool, *new], course.rows))
            else:
                best = self.contenders(course, merged(new, course.rows))[:PROMOTED]
                pool = self.climb(self.top, best, pool)
            paid[size] += self.spent - before
            self.settled = len(pool[0].rounds) >= max(SEVERAL, AGREED * self.rounds)
            if self.settled:
                break
        return pool

    def confirm(self, maxima: list[Maximum]) -> list[Maximum]:
        """Moves against a leader that rounds agree on: on a sample, where they cost little."""
        course = self.course(self.sample_rows())
        here = self.climb(course, maxima[:1])
        moved = self.challenge(course, here)
        new = [m for m in moved if not m.hits]
        return self.climb(self.top, new, maxima) if new else maxima

    @property
    def round_cost(self) -> float:
        """What a round on all rows costs, about: half of its runs go to the end."""
        return 0.75 * ROUND * self.iterations * self.ladder.cost

    def sample_rows(self) -> int:
        """Rows of the samples of later rounds: between those of the first level and all."""
        return int(np.sqrt(self.ladder.first * MOST_SHARE * self.ladder.rows))

    def is_settled(self, course: Course, maxima: list[Maximum]) -> bool:
        """Whether one more start would hardly find anything better.

        Either nearly all maxima have been seen, or at least half of the starts ended at
        a few that are clearly better than all others: twins that
        some rows tell apart, and more rows will not. A sample of counts or choices says
        too little for the latter.
        """
        if unseen(maxima) < ENOUGH:
            return True
        if course is not self.top and not course.mixture.family.linear:
            return False
        hits = sorted(m.hits for m in maxima)[-FEW:]
        if hits[-1] < SEVERAL or 2 * sum(hits) < self.starts_run:
            return False
        left = self.contenders(course, maxima)
        return len(left) <= FEW and 2 * sum(m.hits for m in left) >= self.starts_run

    def prepare(self, course: Course) -> None:
        """Moments of the first level."""
        if course.mixture.family.moments:
            self.subspace, self.tensors = decompositions(course, self.rng)

    def round(
        self, course: Course, there: Sequence[Maximum] = ()
    ) -> tuple[list[Maximum], Fit | None]:
        """A round of starts run to the end on the rows of a course; or one that is exact.

        A common variance that shrinks as the fit improves is an annealing
        schedule for free; free variances come after it. Random labels go
        without it.
        """
        kinds, starts = self.make_round(course)
        mixture = course.mixture
        cold = np.array([kind == "labels" for kind in kinds])
        stacks = [starts.take(cold)] if cold.any() else []
        if not cold.all():
            common = iterate(course.source, EM(mixture.common()), starts.take(~cold), ANNEAL)
            self.pay(course, common)
            exact = certify(course, common)
            if exact is not None:
                return [], exact
            stacks.append(_stack(common))
        order = [*np.flatnonzero(cold), *np.flatnonzero(~cold)]
        fits = self.race(course, Parameters.concatenate(stacks), there)
        self.rounds += 1
        self.starts_run += len(kinds) - max(0, kinds.count("tensor") - 1)
        if not self.budget:
            self.set_budget(course, fits)
        rounds = frozenset([self.rounds])
        pairs = zip(order, fits, strict=True)
        # Runs that were abandoned ended at no maximum; they count as starts.
        ended = [(kinds[i], fit) for i, fit in pairs if fit.reason != "abandoned"]
        return [Maximum(fit, (kind,), rounds) for kind, fit in ended], None

    def make_round(self, course: Course) -> tuple[list[str], Parameters]:
        """Starts of several kinds, the tensor's among the first."""
        cycle = [kind for kind in CYCLE if kind != "subspace" or self.subspace is not None]
        done, first = self.starts_run, self.starts_run == 0 and self.tensors
        many = min(ROUND, self.effort.starts - done) - bool(first)
        kinds = [cycle[i % len(cycle)] for i in range(done, done + many)]
        if not first:
            return make_starts(course, kinds, self.subspace, self.rng)
        variance = 0.5 * course.linear_whitening.variance
        stack = [
            course.lift(start_from(t, course.k, variance, self.rng).stacked()) for t in self.tensors
        ]
        tensor = Parameters.concatenate(stack)
        tensor = feasible(course.source, course.mixture, tensor, course.whitening.pooled)
        tensor = numbered(course.source.block, course.mixture, tensor)
        made = ["tensor"] * len(stack)
        if not kinds:
            return made, tensor
        others, starts = make_starts(course, kinds, self.subspace, self.rng)
        return made + others, Parameters.concatenate([tensor, starts])

    # Climbing

    def climb(
        self, course: Course, maxima: list[Maximum], there: Sequence[Maximum] = ()
    ) -> list[Maximum]:
        """Take maxima to other rows, beside those that are there already."""
        fits = self.race(course, _stack([m.fit for m in maxima]), there)
        return self.ranked(course, merged([*_moved(maxima, fits), *there], course.rows))

    def ranked(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Best first; what chance explains does not count."""
        value = worth(course.source, course.mixture, [m.fit for m in maxima], course.rows)
        return [maxima[i] for i in np.argsort(-value, kind="stable")]

    def contenders(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Maxima that the rows of a course do not show to be worse than the best, best first."""
        if len(maxima) == 1:
            return maxima
        fits = [m.fit for m in maxima]
        value = worth(course.source, course.mixture, fits, course.rows)
        order = np.argsort(-value, kind="stable")
        units = course.source.sweep(Marginal(course.mixture), _stack([fits[i] for i in order]))
        behind = units.join()
        behind = behind[0] - behind
        error = behind.std(axis=-1) * np.sqrt(behind.shape[-1])
        close = value[order[0]] - value[order] <= CLEARLY * error + SAME_HEIGHT
        return [maxima[i] for i, stays in zip(order, close, strict=True) if stays]

    def challenge(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Moves against the leader."""
        maxima = self.ranked(course, maxima)
        patience = self.effort.patience(course.k)
        if self.settled or not self.effort.thorough:
            patience = min(patience, ROUND if len(maxima) > 1 else ROUND // 2)
        result = defend(
            course, maxima[0].fit, patience, FOR_MOVES * self.budget, self.rng, self.progress
        )
        self.spent += result.spent
        self.moves += result.tried
        self.accepted += result.accepted
        if not result.accepted:
            return maxima
        return merged([Maximum(result.fit, ()), *maxima], course.rows)

    # Accounts

    def race(self, course: Course, stack: Parameters, there: Sequence[Maximum] = ()) -> list[Fit]:
        """Run EM to the end, but for runs that cannot reach the best; pay for it."""
        height = max((m.fit.objective for m in there), default=-np.inf)
        fits = race(course, stack, height)
        self.pay(course, fits)
        if self.progress is not None:
            self.progress(self.starts_run, max(fit.objective for fit in fits))
        return fits

    def pay(self, course: Course, fits: Sequence[Fit]) -> None:
        """Count rows times iterations: counted, not timed, the same call gives the same result."""
        self.spent += course.source.block.rows * sum(fit.n_iter + 1 for fit in fits)

    def set_budget(self, course: Course, fits: list[Fit]) -> None:
        """What the search may cost, by what plain starts on all rows would."""
        self.iterations = float(np.mean([fit.n_iter for fit in fits])) + 1
        family, (k, p) = course.mixture.family, fits[0].params.coef.shape
        plain = self.ladder.cost * (MORE_ITERATIONS * self.iterations + FINAL_EACH * k * p)
        floor = FLOOR / (k * (p * (p + 1) / 2 + 60)) * self.effort.n_init / 16
        self.budget = max(self.effort.runs * plain * family.stack_gain, floor)
        if self.scarce(course):
            self.budget *= MORE_IF_SCARCE
        elif course.lattice:
            self.budget *= MORE_ON_LATTICE

    def record(self, maxima: list[Maximum], exact: bool = False) -> Record:
        """What was found, best first."""
        if not exact:
            maxima = self.ranked(self.top, maxima)
        return Record(
            maxima[0].fit,
            tuple(maxima),
            self.starts_run,
            0.0 if exact else chance_of_better(maxima, self.starts_run),
            self.moves,
            self.accepted,
            tuple(self.levels),
            exact,
            self.tensors,
        )


def _stack(fits: Sequence[Fit]) -> Parameters:
    return Parameters.concatenate([fit.params.stacked() for fit in fits])


def _moved(maxima: list[Maximum], fits: list[Fit]) -> list[Maximum]:
    """The same maxima after another run."""
    return [replace(m, fit=fit) for m, fit in zip(maxima, fits, strict=True)]


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
