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

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.em import EM
from mixreg.estimators.lean import lean
from mixreg.estimators.loop import Run
from mixreg.mixture.parameters import Parameters
from mixreg.search.agreement import agreement
from mixreg.search.behind import TakeLag
from mixreg.search.chance import worth
from mixreg.search.constants import (
    ALIKE_LABELS,
    ANNEAL,
    BATCHES,
    CHALLENGERS,
    CLEARLY,
    ENOUGH,
    FEW,
    FEW_MOVES,
    FINISH,
    FOR_LEADER,
    FOR_STARTS,
    IF_AGREED,
    INFORMATION,
    INSISTING,
    LEAST_AGREED,
    LEAST_BATCH,
    LEAST_MOVES,
    MOST,
    MOST_KEPT,
    MOST_MOVES,
    MOST_NEAR,
    MOST_OPEN,
    MOVE_COST,
    NEAR,
    NEARLY_ALL,
    PARENTS,
    PROMOTED,
    ROUND,
    SAME_HEIGHT,
    SEVERAL,
    TENSOR_ROWS,
    TENSORS,
    TWINS,
    WARM_MOVES,
    WITNESSES,
)
from mixreg.search.course import Course
from mixreg.search.effort import row_work
from mixreg.search.moves import kinds_of_moves, moved
from mixreg.search.peel import is_clear, peeled
from mixreg.search.record import (
    Maximum,
    Record,
    chance_by_looks,
    chance_of_better,
    expected_end,
    merged,
    same,
    unseen,
    within_error,
)
from mixreg.search.rounds import Rounds, certify, stack_of

Array = NDArray[np.float64]


class Search(Rounds):
    """One search, level by level.

    Attributes
    ----------
    settled : bool
        Whether starts on the first level agree.
    alone : bool
        Whether they do not, but the tensor start leads to the best of them.
    clear : bool
        Whether a fit has all components there are, which ends the search.
    """

    settled: bool = False
    alone: bool = False
    clear: bool = False

    def run(self) -> Record:
        """Look for the best fit."""
        course = self.course(self.ladder.first)
        maxima, exact = self.open(course)
        if exact is not None:
            return self.record([Maximum(exact, ("exact",))], exact=True)
        if self.clear:
            on_all = course is self.top
            return self.record(
                maxima if on_all else self.climb(self.course(self.ladder.rows), maxima[:1])
            )
        agreed = unseen(self.distinct(course, maxima)) < ENOUGH
        # A sample of counts or choices may agree on what all rows do not (electricity, k = 3).
        doubtful = not agreed and course is not self.top and not course.mixture.family.linear
        if self.settled or self.effort.n_init == 1:
            patience = min(self.effort.patience(course.k), self.short_patience(agreed))
            maxima = self.explore(course, self.ranked(course, maxima), patience)
        elif course is not self.top and self.is_alone(course, maxima):
            # Moves on so few rows would chase maxima that only these rows have; starts on more
            # rows challenge the leader instead.
            self.alone = True
        else:
            course, maxima = self.look_on(course, maxima)
        while course is not self.top:
            maxima = self.contenders(course, self.distinct(course, maxima))[:PROMOTED]
            rows = self.ladder.above(self.levels[-1])
            sure = self.settled or self.alone
            challenge = sure and len(self.levels) == 1 and self.effort.n_init > 1
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
                    (course, maxima), agreed = self.look_on(course, maxima), False
            if not agreed and (course.sample.rows >= TENSOR_ROWS or course is self.top):
                maxima, agreed = self.join_tensors(course, maxima), True
        if doubtful and self.settled and self.starts_run < self.effort.starts:
            new, _ = self.round(course, maxima, ROUND // 2)
            maxima = self.ranked(course, merged([*maxima, *new], course.rows))
        return self.record(self.insist(course, self.photo_finish(course, maxima)))

    def insist(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Moves for what is left of the budget, where another maximum may yet be found.

        That is where the chance of it is not small, or maxima with other segments are as good.
        """
        if course is not self.top or not self.effort.thorough or self.effort.n_init == 1:
            return maxima
        while not has_exact(course, maxima) and self.affords(course, LEAST_BATCH):
            sure = chance_of_better(maxima, self.starts_run) < ENOUGH
            if sure and agreement(course, maxima) > ALIKE_LABELS:
                break
            count = min(INSISTING, self.affordable(course, self.each))
            before = self.spent
            maxima = self.move(course, maxima, max(LEAST_BATCH, count))
            if self.spent <= before:
                # The arithmetic broke on all of them, and would again.
                break
        return self.photo_finish(course, maxima)

    def look_on(self, course: Course, maxima: list[Maximum]) -> tuple[Course, list[Maximum]]:
        """Where few rows leave it open which maximum is the best: many rows, starts and moves."""
        wide, doubt = self.ladder.wide, True
        if self.levels[-1] < wide:
            maxima = self.ranked(course, self.distinct(course, maxima))[:PROMOTED]
            course = self.course(wide)
            maxima = self.join_tensors(course, self.climb(course, maxima))
            maxima, doubt = self.reconsidered(course, self.photo_finish(course, maxima))
        return course, self.widen(course, maxima) if doubt else maxima

    def distinct(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Maxima that a sample tells apart; on the last level, all of them.

        Runs on few rows stop short of each other on one flat top, and look like maxima of their
        own (100,000 rows of `peers --one-start`, one seed in four: 0.3 to 0.6 standard errors
        apart; on cps1988 and diamonds most are 1 to 300 apart). Distances count in standard
        errors only where regressions are linear.
        """
        return maxima if course is self.top else self.piles(course, maxima)

    def reconsidered(self, course: Course, maxima: list[Maximum]) -> tuple[list[Maximum], bool]:
        """Maxima of a sample on many rows; whether these leave it open which is the best.

        They do not if half of the starts (of counts or choices nearly all) have come together
        there, and none of a few more leads higher; or if a few more all lead to the same.
        """
        # Of all rows no more can come that would put a lower maximum first.
        rivals = maxima[:1] if course is self.top else self.contenders(course, maxima)
        piles = self.piles(course, rivals)
        if len(piles) > 1:
            return maxima, True
        share = MOST if course.mixture.family.linear else NEARLY_ALL
        if piles[0].hits >= share * self.starts_run:
            return self.challenged(course, maxima, CHALLENGERS)
        before = self.piles(course, maxima)[0].hits - self.starts_run
        maxima, beaten = self.challenged(course, maxima, WITNESSES)
        return maxima, beaten or self.piles(course, maxima)[0].hits - self.starts_run < before

    def piles(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Maxima of linear regressions that are apart by a standard error, the best first."""
        alike = within_error if course.mixture.family.linear else same
        return merged(maxima, course.rows, alike)

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
        cheap = int((IF_AGREED if agreed else 1.0) * FEW_MOVES / each)
        return min(max(cheap, LEAST_AGREED if agreed else LEAST_MOVES), MOST_MOVES)

    def open(self, course: Course) -> tuple[list[Maximum], Run | None]:
        """Rounds of starts on the first level, until they agree; or an exact fit.

        Two rounds, unless these are all the rows there are.
        """
        maxima, exact = self.peel(course)
        if exact is not None or self.clear:
            return maxima, exact
        self.prepare(course)
        most = self.effort.starts if course is self.top else min(2 * ROUND, self.effort.starts)
        while self.starts_run < most:
            new, exact = self.round(course)
            if exact is not None:
                return [], exact
            maxima = merged(maxima + new, course.rows)
            self.lead(maxima[0])
            self.clear = is_clear(course, maxima[0].run)
            self.settled = self.is_settled(course, maxima)
            if self.clear or self.settled or self.spent > FOR_STARTS * self.budget:
                break
            if course is not self.top and max(m.hits for m in maxima) < SEVERAL:
                # More starts on so few rows would not agree either.
                break
            if self.scarce(course) and self.rounds == 1 and self.effort.n_init > 1:
                exact = self.anneal(course)
                if exact is not None:
                    return [], exact
        return maxima, None

    def peel(self, course: Course) -> tuple[list[Maximum], Run | None]:
        """What components that are peeled off lead to, if all are found; or an exact fit."""
        start = peeled(course, self.rng.spawn(1)[0]) if self.effort.n_init > 1 else None
        if start is None:
            return [], None
        fits = self.race(course, start)
        self.starts_run, self.looks = self.starts_run + 1, self.looks + 1
        self.clear = is_clear(course, fits[0])
        return [Maximum(fits[0], ("peel",))], certify(course, fits)

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

    def worth_of(self, course: Course, maxima: list[Maximum]) -> float:
        """What the leader is worth."""
        return float(worth(course.source, course.mixture, [maxima[0].run], course.rows)[0])

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
            try:
                stacks.append(moved(course, maxima[i].run.params, own, self.rng))
            except np.linalg.LinAlgError:
                # Moves on which the arithmetic breaks are tried, and lead nowhere.
                continue
            of += [maxima[i]] * len(own)
        self.moves += count
        if not stacks:
            return maxima
        ends = self.race(course, Parameters.concatenate(stacks), maxima, WARM_MOVES)
        heavy = course.stack_gain * INFORMATION - 1
        each = float(np.mean([end.n_iter + heavy * end.steps + 1 for end in ends]))
        self.each = 0.5 * (self.each + each)
        new = [
            Maximum(end, (), int(not same(end, parent.run, course.rows)))
            for end, parent in zip(ends, of, strict=True)
            if end.reason != "abandoned"
        ]
        found = merged([*maxima, *new], course.rows)
        kept = [m for i, m in enumerate(found) if i < MOST_KEPT or m.hits]
        return self.ranked(course, kept)

    def photo_finish(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Maxima that runs to a common tolerance do not tell apart are run on."""
        best = maxima[0].run.objective
        order = sorted(range(len(maxima)), key=lambda i: best - expected_end(maxima[i].run) >= NEAR)
        count = sum(best - expected_end(m.run) < NEAR for m in maxima)
        most = max(TWINS, min(MOST_NEAR, self.affordable(course, FINISH.max_iter)))
        near = [maxima[i] for i in order[: min(count, most)]]
        if len(near) < 2 or has_exact(course, maxima) or all(m.run.settled for m in near):
            return maxima
        fits = self.finish(course, stack_of([m.run for m in near]))
        rest = [maxima[i] for i in order[len(near) :]]
        return self.ranked(course, merged([*_moved(near, fits), *rest], course.rows))

    def is_settled(self, course: Course, maxima: list[Maximum]) -> bool:
        """Whether one more start would hardly find anything better.

        Either nearly all maxima have been seen, or at least half of the starts ended at
        a few that are clearly better than all others: twins that some rows tell apart,
        and more rows will not. On a sample of counts or choices nearly all of them must.
        """
        maxima = self.distinct(course, maxima)
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

    def is_alone(self, course: Course, maxima: list[Maximum]) -> bool:
        """Whether the tensor start leads to a maximum that is clearly better than all others.

        Where moments of many rows and the likelihood of few agree, the moments are to be trusted.
        More rows would not tell the maxima apart better, and looking on costs least where rows
        are few. Without the tensor start in its favour such a maximum may yet be a poor one
        (diamonds, k = 3, one seed in two).
        """
        left = self.contenders(course, self.distinct(course, maxima))
        return len(left) == 1 and "tensor" in left[0].kinds

    def join_tensors(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """The tensor start on more rows: what it leads to there, beside what is there."""
        if course.sample.rows in self.begun or not self.tensors:
            return maxima
        self.begun.add(course.sample.rows)
        common = lean(EM(course.mixture.common()), course.source)
        starts = self.runs(course, common, self.tensor_starts(course), ANNEAL)
        self.pay(course, starts)
        starts = sorted(starts, key=lambda fit: -fit.objective)[:TENSORS]
        fits = self.race(course, stack_of(starts), maxima)
        ended = [Maximum(fit, ()) for fit in fits if fit.reason != "abandoned"]
        return self.ranked(course, merged([*maxima, *ended], course.rows))

    def climb(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Take maxima to other rows."""
        fits = self.race(course, stack_of([m.run for m in maxima]))
        moved = [m for m in _moved(maxima, fits) if m.run.reason != "abandoned"]
        return self.ranked(course, merged(moved, course.rows))

    def ranked(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Best first; what chance explains does not count."""
        value = worth(course.source, course.mixture, [m.run for m in maxima], course.rows)
        maxima = [maxima[i] for i in np.argsort(-value, kind="stable")]
        self.lead(maxima[0])
        return maxima

    def contenders(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Maxima that the rows of a course do not show to be worse than the best, best first."""
        if len(maxima) == 1 or has_exact(course, maxima):
            return maxima[:1]
        fits = [m.run for m in maxima]
        value = worth(course.source, course.mixture, fits, course.rows)
        order = np.argsort(-value, kind="stable")
        lag = course.source.sweep(TakeLag(course.mixture), stack_of([fits[i] for i in order]))
        close = value[order[0]] - value[order] <= CLEARLY * lag.error + SAME_HEIGHT
        return [maxima[i] for i, stays in zip(order, close, strict=True) if stays]

    def finalists(self, record: Record) -> tuple[list[Parameters], int]:
        """What is to be run on all rows, and how many of these may be the best there.

        Where the search saw a sample only, so may all that it does not show to be worse.
        """
        first, contested = record.finalists, record.contested
        if self.ladder.sampled and not record.exact:
            still = self.contenders(self.top, list(record.maxima))[:MOST_OPEN]
            first = [*still, *(m for m in first if all(m is not other for other in still))]
            contested = len(still)
        return [m.run.params for m in first], contested

    def record(self, maxima: list[Maximum], exact: bool = False) -> Record:
        """What was found, best first."""
        if not exact:
            maxima = self.ranked(self.top, maxima)
            exact = has_exact(self.top, maxima[:1])
        return Record(
            maxima[0].run,
            tuple(maxima),
            self.starts_run,
            0.0 if exact or self.clear else chance_by_looks(maxima, self.looks),
            self.moves,
            self.accepted,
            tuple(self.levels),
            exact,
            self.tensors,
            1.0 if exact else agreement(self.top, maxima),
        )


def has_exact(course: Course, maxima: Sequence[Maximum]) -> bool:
    """Whether one of them has no loss, which ends the search; a background always has some."""
    return course.mixture.background is None and any(m.run.reason == "exact" for m in maxima)


def _moved(maxima: list[Maximum], fits: list[Run]) -> list[Maximum]:
    """The same maxima after another run."""
    return [replace(m, run=run) for m, run in zip(maxima, fits, strict=True)]
