"""The search: many starts on few rows, fewer on more, the last few on all.

Starts are run to the end on a small sample. If they agree, their maximum climbs
to all rows. If they do not, the best of them go to many rows at once, where the
tensor start of all rows joins them; moves from several of the best maxima, not
only from the leader, take turns with more starts. What rows show to be worse is
left behind on the way. What reaches the top is run on until maxima can be told
apart, and compared on all rows. In the noiseless model a loss of zero ends the
search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.altmin import AltMin
from mixreg.estimators.em import EM
from mixreg.estimators.expectation import Marginal
from mixreg.estimators.loop import Control, Fit, Progress, iterate
from mixreg.mixture.parameters import Parameters
from mixreg.search.candidates import feasible, make_starts, numbered
from mixreg.search.chance import worth
from mixreg.search.course import WARM, Course, race
from mixreg.search.moments import TakeDeviations, deviation_subspace
from mixreg.search.moves import MOVE_COST, WARM_MOVES, kinds_of_moves, moved
from mixreg.search.record import (
    SAME_HEIGHT,
    Maximum,
    Record,
    chance_of_better,
    expected_end,
    merged,
    same,
    unseen,
)
from mixreg.search.tensor import TensorResult, TensorStart, start_from, tensor_results
from mixreg.sources import Swept
from mixreg.sources.standard import Whitening, steady

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
# ... or when so many starts ended at one that is better than all others; a few may share
# that, on a sample two.
SEVERAL, FEW, TWINS = 3, 5, 2
# Starts that challenge what a small sample agreed on, the tensor's among them (cps1988, k = 3).
CHALLENGERS = 2
# Share of the starts that must have ended at these; more on samples of counts and
# choices, which say less.
MOST, NEARLY_ALL = 0.5, 0.85
# Rows whose moments the tensor start is of.
MOMENT_ROWS = 30_000
# Tensor starts that are run on more rows where starts on a sample did not agree: so many, on
# at least so many rows.
TENSORS, TENSOR_ROWS = 1, 10_000
# A maximum is clearly worse if it is so by this many standard errors.
CLEARLY = 3.0
# Most maxima of a sample that climb to all rows where its starts disagree, and most
# rows on which they are challenged.
PROMOTED, WIDE_ROWS = 5, 100_000
# Moves start from the leader and from so many of the maxima behind it: on the bank data
# with k = 4 the best maximum is out of reach of one that starts often end at, not of lower ones.
# One move in FOR_LEADER is the leader's.
PARENTS, FOR_LEADER = 10, 4
# A round of starts, then so many batches of moves, in turn.
BATCHES = 3
# Starts and moves that must fail for each unit of n_init.
PATIENCE = 5
# Share of the budget for starts on the first level, and where only an exact fit means much.
FOR_STARTS, FOR_EXACT = 0.35, 0.85
# Moves of a batch; more where data are few and overhead rules.
LEAST_BATCH, MOST_BATCH = 8, 48
# Maxima this near to the leader are run on together, at most so many.
NEAR, MOST_NEAR = 1.0, 8
FINISH = Control(max_iter=100, tol=1e-9, leaps=True)
# What a plain start takes beside the iterations of a run in a stack: more of them,
# because it goes to the end, and Newton's steps and standard errors, which cost the
# more the more coefficients there are.
MORE_ITERATIONS, FINAL_EACH = 1.5, 0.55
# What a pass costs whatever the rows, and what a plain start takes beside its passes, in
# multiplications of which a second has three thousand million: 0.3 and 8 ms (cheese, tonedata,
# CO2data and wlddev of the benchmark).
PASS, BESIDE = 1e6, 2.5e7
# Moves that a leader must hold against where starts settled it may cost so much without passes;
# data on which two rounds cost no more than CHEAP are not sampled.
FEW_MOVES = 1e8
CHEAP = 4e8
# With fewer rows than this for each coefficient there are many maxima, and only an
# exact fit means much: it is worth so many times more (`benchmarks recovery`).
SCARCE, MORE_IF_SCARCE = 5, 24
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
        """What the search may cost, in plain starts on all rows (`benchmarks search --real`)."""
        return 0.5 * self.n_init

    def patience(self, k: int) -> int:
        """Starts and moves in a row that must fail."""
        if self.n_init == 1:
            return 0
        return PATIENCE * self.n_init * k if self.thorough else ROUND


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
    plain : int
        What a pass of a plain start costs.
    """

    make: Callable[[int, np.random.Generator], Course]
    first: int
    rows: int
    cost: int
    plain: int

    def above(self, rows: int) -> int:
        """Rows of the next level."""
        return FACTOR * rows if 2 * FACTOR * rows < self.rows else self.rows

    @property
    def wide(self) -> int:
        """Rows of the level after the first where starts on that do not agree."""
        affordable = WIDE_ROWS * self.rows // self.cost
        return min(self.rows, max(self.above(self.first), affordable))


def row_work(k: int, p: int) -> float:
    """Multiplications that a row costs in a pass, about; a logarithm or so counts 60."""
    return k * (p * (p + 1) / 2 + 60)


def first_rows(rows: int, units: int, cost: int, k: int, p: int, linear: bool) -> int:
    """Rows of the first level: some for each coefficient, groups for each component."""
    if 2 * ROUND * MOVE_COST * cost * row_work(k, p) < CHEAP:
        return rows
    groups = UNITS_EACH * k * cost / units if units < rows else 0.0
    size = max(FEWEST if linear else FEWEST_OTHERS, ROWS_EACH * k * p, int(groups))
    return rows if 2 * size >= cost else int(size * (rows / cost))


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

    # What a search of this kind may cost, over what one on rows may.
    of_plain: ClassVar[float] = 1.0

    def __init__(
        self,
        ladder: Ladder,
        effort: Effort,
        rng: np.random.Generator,
        progress: Progress | None = None,
    ) -> None:
        self.ladder, self.effort, self.rng, self.progress = ladder, effort, rng, progress
        self.spent = self.budget = 0.0
        self.each = float(MOVE_COST)
        self.tensors: tuple[TensorResult, ...] = ()
        self.subspace: Array | None = None
        self.starts_run = self.rounds = self.moves = self.accepted = 0
        self.levels: list[int] = []
        self.begun: set[int] = set()
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
        agreed = unseen(maxima) < ENOUGH
        # A sample of counts or choices may agree on what all rows do not (electricity, k = 3).
        doubtful = not agreed and course is not self.top and not course.mixture.family.linear
        if self.settled or self.effort.n_init == 1:
            patience = min(self.effort.patience(course.k), self.short_patience(agreed))
            maxima = self.explore(course, self.ranked(course, maxima), patience)
        else:
            if course is not self.top:
                wide = self.course(self.ladder.wide)
                maxima = self.climb(wide, self.ranked(course, maxima)[:PROMOTED])
                course, rows = wide, wide.sample.rows
                maxima = self.join_tensors(course, maxima)
            maxima = self.widen(course, maxima)
        while course is not self.top:
            maxima = self.contenders(course, maxima)
            rows = self.ladder.above(rows)
            challenge = self.settled and len(self.levels) == 1 and self.effort.n_init > 1
            if agreed and rows == self.ladder.rows and len(maxima) == 1 and not challenge:
                # One more run on all rows is all that is left to do.
                return self.record(maxima)
            course = self.course(rows)
            maxima = self.climb(course, maxima)
            if challenge:
                # Starts on few rows can agree on what more rows do not (cps1988, k = 3: one
                # sample of 1,000 rows in ten, 161 below the best).
                maxima, beaten = self.challenged(course, maxima, CHALLENGERS)
                if beaten:
                    maxima, agreed = self.widen(course, maxima), False
            if not agreed and (rows >= TENSOR_ROWS or course is self.top):
                maxima, agreed = self.join_tensors(course, maxima), True
        if doubtful and self.settled and self.starts_run < self.effort.starts:
            new, _ = self.round(course, maxima, ROUND // 2)
            maxima = self.ranked(course, merged([*maxima, *new], course.rows))
        return self.record(self.photo_finish(maxima))

    def challenged(
        self, course: Course, maxima: list[Maximum], starts: int
    ) -> tuple[list[Maximum], bool]:
        """Maxima of fewer rows beside those of a few starts; whether these are better."""
        height, left = self.worth_of(course, maxima), self.effort.starts - self.starts_run
        if left <= 0 or has_exact(course, maxima):
            return maxima, False
        new, _ = self.round(course, maxima, min(starts, left), certifies=False)
        maxima = self.ranked(course, merged([*maxima, *new], course.rows))
        return maxima, self.worth_of(course, maxima) > height + SAME_HEIGHT

    def short_patience(self, agreed: bool) -> int:
        """Moves that a leader must hold against where starts settled it: more if they are cheap."""
        k, p = self.top.k, self.top.sample.columns
        each = MOVE_COST * self.ladder.cost * row_work(k, p)
        cheap = int((0.3 if agreed else 1.0) * FEW_MOVES / each)
        return min(max(cheap, 2 if agreed else ROUND // 2), 10 * ROUND)

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
            if course is not self.top and max(m.hits for m in maxima) < SEVERAL:
                # More starts on so few rows would not agree either.
                break
            if self.scarce(course) and self.rounds == 1 and self.effort.n_init > 1:
                exact = self.anneal(course)
                if exact is not None:
                    return [], exact
        return maxima, None

    def scarce(self, course: Course) -> bool:
        """Whether rows are so few that only an exact fit means much."""
        p, mixture = course.sample.columns, course.mixture
        few = course.sample.rows < SCARCE * course.k * p
        return mixture.family.certifies and mixture.background is None and few

    def anneal(self, course: Course) -> Fit | None:
        """Look for an exact fit only: many starts with a common variance."""
        while self.spent < FOR_EXACT * self.budget:
            kinds = ["random"] if self.subspace is None else ["subspace", "random"]
            _, starts = make_starts(course, 2 * ROUND * kinds, self.subspace, self.rng)
            fits = iterate(course.source, EM(course.mixture.common()), starts, ANNEAL_LONG)
            self.pay(course, fits)
            exact = certify(course, fits)
            if exact is not None:
                return exact
        return None

    def widen(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Rounds of starts and moves in turn, until the leader has held against enough."""
        failed, height, turn = 0, self.worth_of(course, maxima), 0
        batch = self.batch(course)
        while failed < self.effort.patience(course.k) and not has_exact(course, maxima):
            starts = turn % (1 + BATCHES) == BATCHES and self.starts_run < self.effort.starts
            if turn > 1 and not self.affords(course, ROUND if starts else batch):
                break
            if starts:
                new, exact = self.round(course, maxima)
                new = new if exact is None else [Maximum(exact, ("exact",))]
                maxima = self.ranked(course, merged([*maxima, *new], course.rows))
            else:
                maxima = self.move(course, maxima, batch)
            now, turn = self.worth_of(course, maxima), turn + 1
            better = now > height + SAME_HEIGHT
            failed = 0 if better else failed + (ROUND if starts else batch)
            height, self.accepted = now, self.accepted + better
        return maxima

    def batch(self, course: Course) -> int:
        """Moves of a batch, so that what is left pays for a few of them."""
        left = (self.budget - self.spent) / self.each - (1 + BATCHES) * self.overhead
        left /= (1 + BATCHES) * course.source.cost
        return int(np.clip(left, LEAST_BATCH, MOST_BATCH))

    def affords(self, course: Course, runs: int) -> bool:
        """Whether so many runs would not overdraw the budget."""
        each = runs * course.source.cost + self.overhead
        return self.spent + self.each * each < self.budget

    def worth_of(self, course: Course, maxima: list[Maximum]) -> float:
        """What the leader is worth."""
        return float(worth(course.source, course.mixture, [maxima[0].fit], course.rows)[0])

    def explore(self, course: Course, maxima: list[Maximum], patience: int) -> list[Maximum]:
        """Moves from the best maxima, until so many in a row have not changed the leader.

        What they lead to joins the maxima: the best may be out of reach of the leader, and
        within reach of what is behind it.
        """
        batch = min(self.batch(course), patience)
        height, failed = self.worth_of(course, maxima) if patience else 0.0, 0
        while failed < patience and not has_exact(course, maxima):
            if self.moves and not self.affords(course, batch):
                break
            maxima = self.move(course, maxima, batch)
            now = self.worth_of(course, maxima)
            failed += batch
            if now > height + SAME_HEIGHT:
                failed, self.accepted = 0, self.accepted + 1
            height = now
        return maxima

    def move(self, course: Course, maxima: list[Maximum], count: int) -> list[Maximum]:
        """One batch of moves, run to the end."""
        kinds = np.array(kinds_of_moves(self.moves, count, course.k))
        parents = 1 + self.rng.integers(0, max(1, min(PARENTS, len(maxima) - 1)), count)
        parents = np.where(self.rng.integers(0, FOR_LEADER, count) == 0, 0, parents)
        parents = np.minimum(parents, len(maxima) - 1)
        stacks, of = [], []
        for i in np.unique(parents):
            own = kinds[parents == i].tolist()
            stacks.append(moved(course, maxima[i].fit.params, own, self.rng))
            of += [maxima[i]] * len(own)
        ends = self.race(course, Parameters.concatenate(stacks), maxima, WARM_MOVES)
        self.each = 0.5 * (self.each + float(np.mean([end.n_iter + 1 for end in ends])))
        self.moves += count
        new = [
            Maximum(end, (), int(not same(end, parent.fit, course.rows)))
            for end, parent in zip(ends, of, strict=True)
            if end.reason != "abandoned"
        ]
        return self.ranked(course, merged([*maxima, *new], course.rows))

    def photo_finish(self, maxima: list[Maximum]) -> list[Maximum]:
        """Maxima that runs to a common tolerance do not tell apart are run on."""
        course, best = self.top, maxima[0].fit.objective
        order = sorted(range(len(maxima)), key=lambda i: best - expected_end(maxima[i].fit) >= NEAR)
        count = sum(best - expected_end(m.fit) < NEAR for m in maxima)
        near = [maxima[i] for i in order[: min(count, MOST_NEAR)]]
        if len(near) < 2 or has_exact(course, maxima):
            return maxima
        fits = iterate(course.source, EM(course.mixture), _stack([m.fit for m in near]), FINISH)
        self.pay(course, fits)
        rest = [maxima[i] for i in order[len(near) :]]
        return self.ranked(course, merged([*_moved(near, fits), *rest], course.rows))

    def is_settled(self, course: Course, maxima: list[Maximum]) -> bool:
        """Whether one more start would hardly find anything better.

        Either nearly all maxima have been seen, or at least half of the starts ended at
        a few that are clearly better than all others: twins that some rows tell apart,
        and more rows will not. On a sample of counts or choices nearly all of them must.
        """
        if unseen(maxima) < ENOUGH:
            return True
        few, needed = FEW, MOST * self.starts_run
        if course is not self.top:
            few = TWINS
            if not course.mixture.family.linear:
                needed = NEARLY_ALL * self.starts_run
        hits = sorted(m.hits for m in maxima)[-few:]
        if hits[-1] < SEVERAL or sum(hits) < needed:
            return False
        left = self.contenders(course, maxima)
        return len(left) <= few and sum(m.hits for m in left) >= needed

    def prepare(self, course: Course) -> None:
        """Moments: of many rows, because they cost one pass."""
        if not course.mixture.family.moments:
            return
        rows = self.ladder.rows
        if course is not self.top:
            course = self.top if rows <= MOMENT_ROWS else self.ladder.make(MOMENT_ROWS, self.rng)
        self.subspace, self.tensors = decompositions(course, self.rng)

    def join_tensors(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """The tensor start on more rows: what it leads to there, beside what is there."""
        if course.sample.rows in self.begun or not self.tensors:
            return maxima
        self.begun.add(course.sample.rows)
        common = EM(course.mixture.common())
        starts = iterate(course.source, common, self.tensor_starts(course), ANNEAL)
        self.pay(course, starts)
        starts = sorted(starts, key=lambda fit: -fit.objective)[:TENSORS]
        fits = self.race(course, _stack(starts), maxima)
        ended = [Maximum(fit, ()) for fit in fits if fit.reason != "abandoned"]
        return self.ranked(course, merged([*maxima, *ended], course.rows))

    def round(
        self,
        course: Course,
        there: Sequence[Maximum] = (),
        count: int = ROUND,
        certifies: bool = True,
    ) -> tuple[list[Maximum], Fit | None]:
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
            common = iterate(course.source, EM(mixture.common()), starts.take(~cold), ANNEAL)
            self.pay(course, common)
            exact = certify(course, common) if certifies else None
            if exact is not None:
                return [], exact
            stacks.append(_stack(common))
        order = [*np.flatnonzero(cold), *np.flatnonzero(~cold)]
        fits = self.race(course, Parameters.concatenate(stacks), there)
        self.rounds += 1
        self.starts_run += len(kinds) - max(0, kinds.count("tensor") - 1)
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

    # Climbing

    def climb(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Take maxima to other rows."""
        fits = self.race(course, _stack([m.fit for m in maxima]))
        moved = [m for m in _moved(maxima, fits) if m.fit.reason != "abandoned"]
        return self.ranked(course, merged(moved, course.rows))

    def ranked(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Best first; what chance explains does not count."""
        value = worth(course.source, course.mixture, [m.fit for m in maxima], course.rows)
        return [maxima[i] for i in np.argsort(-value, kind="stable")]

    def contenders(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Maxima that the rows of a course do not show to be worse than the best, best first."""
        if len(maxima) == 1 or has_exact(course, maxima):
            return maxima[:1]
        fits = [m.fit for m in maxima]
        value = worth(course.source, course.mixture, fits, course.rows)
        order = np.argsort(-value, kind="stable")
        units = course.source.sweep(Marginal(course.mixture), _stack([fits[i] for i in order]))
        behind = units.join()
        behind = behind[0] - behind
        error = behind.std(axis=-1) * np.sqrt(behind.shape[-1])
        close = value[order[0]] - value[order] <= CLEARLY * error + SAME_HEIGHT
        return [maxima[i] for i, stays in zip(order, close, strict=True) if stays]

    # Accounts

    def race(
        self,
        course: Course,
        stack: Parameters,
        there: Sequence[Maximum] = (),
        warm: int = WARM,
    ) -> list[Fit]:
        """Run EM to the end, but for runs that cannot reach the best; pay for it."""
        height = max((m.fit.objective for m in there), default=-np.inf)
        fits = race(course, stack, height, warm)
        self.pay(course, fits)
        if self.progress is not None:
            self.progress(self.starts_run, max(fit.objective for fit in fits))
        return fits

    def pay(self, course: Course, fits: Sequence[Fit]) -> None:
        """Count rows times iterations: counted, not timed, the same call gives the same result."""
        self.charge(course.source.cost, fits)

    def charge(self, rows: float, fits: Sequence[Fit]) -> None:
        """Count runs in one stack, which share what a pass costs beside its rows."""
        passes = [fit.n_iter + 1 for fit in fits]
        self.spent += rows * sum(passes) + self.overhead * max(passes)

    @property
    def overhead(self) -> float:
        """What a pass costs whatever the rows, in rows."""
        return PASS / row_work(self.top.k, self.top.sample.columns)

    def set_budget(self, course: Course, fits: list[Fit]) -> None:
        """What the search may cost, by what plain starts on all rows would."""
        iterations = float(np.mean([fit.n_iter for fit in fits])) + 1
        k, p = fits[0].params.coef.shape
        plain = self.ladder.plain * (MORE_ITERATIONS * iterations + FINAL_EACH * k * p)
        beside = MORE_ITERATIONS * iterations * self.overhead + BESIDE / row_work(k, p)
        plain = plain * self.top.stack_gain + beside
        self.budget = self.of_plain * self.effort.runs * plain
        if self.scarce(course):
            self.budget *= MORE_IF_SCARCE
        elif course.lattice:
            self.budget *= MORE_ON_LATTICE

    def record(self, maxima: list[Maximum], exact: bool = False) -> Record:
        """What was found, best first."""
        if not exact:
            maxima = self.ranked(self.top, maxima)
            exact = has_exact(self.top, maxima[:1])
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


def has_exact(course: Course, maxima: Sequence[Maximum]) -> bool:
    """Whether one of them has no loss, which ends the search; a background always has some."""
    return course.mixture.background is None and any(m.fit.reason == "exact" for m in maxima)


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
