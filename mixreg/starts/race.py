"""The race: many starts, short runs, the best few to the end, then swaps.

Everything runs on one block, a sample if the data are large, with all runs in
one stack. In the noiseless model a loss of zero is the end of the search; the
race stops there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import GramBlock
from mixreg.estimators.altmin import AltMin
from mixreg.estimators.em import EM
from mixreg.estimators.expectation import Posterior
from mixreg.estimators.loop import Control, Fit, Progress, iterate
from mixreg.mixture import Mixture
from mixreg.params import Parameters
from mixreg.sources.memory import BlockSource, MemorySource, condensed
from mixreg.starts.candidates import (
    feasible,
    from_responsibilities,
    numbered,
    partitions,
    random_directions,
)
from mixreg.starts.moments import TakeDeviations, deviation_subspace
from mixreg.starts.swap import (
    BATCH,
    FINISH,
    SwapResult,
    affordable,
    expected_end,
    finish_best,
    is_suspect,
    swap_search,
)
from mixreg.starts.tensor import TensorResult, TensorStart, start_from, tensor_results
from mixreg.whitening import Whitening

Array = NDArray[np.float64]

FINALISTS = 4
# Starts beside the tensor's in the first round.
VANGUARD = 4
# Mean squared residual (unit variance) that makes a run worth certifying.
PROMISING = 1e-9
# Average certainty of labels beyond which components count as separated.
SEPARATED = 0.98
ANNEAL_ALL = Control(max_iter=8, tol=0.0)
ANNEAL_HALF = Control(max_iter=12, tol=0.0)
FREE = Control(max_iter=10, tol=0.0)
HARD = Control(max_iter=15)


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to look.

    Attributes
    ----------
    n_init : int
        Starts in a round of the race. The swap search gives up after
        5 * n_init * k failures in a row (8 with groups), or after one batch when
        all finalists agree on well separated components, or when large data
        make them costly. 1 means one start and no swaps.
    thorough : bool
        False makes do with one batch of swaps.
    """

    n_init: int = 16
    thorough: bool = True

    @property
    def budget(self) -> float:
        """Multiplications that the swap search may cost: some seconds by default."""
        return 1e9 * self.n_init

    @property
    def rounds(self) -> int:
        """Rounds of starts that are run while no two finalists agree."""
        return 6 if self.n_init > 1 else 1

    def patience(self, k: int, grouped: bool) -> int:
        """Swaps in a row that must fail.

        Labels of groups are nearly always clear, whether the components are
        right or not, and optima are many; but swaps of groups cost little.
        """
        each = 8 if grouped else 5
        if self.n_init == 1:
            return 0
        return each * self.n_init * k if self.thorough else 1


@dataclass(frozen=True, slots=True)
class StartRecord:
    """What one start reached: its kind, and log-likelihoods in standard units."""

    kind: str
    reached: float


@dataclass(frozen=True, slots=True)
class RaceResult:
    """The winner, and how the race went.

    Attributes
    ----------
    fit : Fit
        The winner, on the race's data.
    records : tuple of StartRecord
        One a start.
    agreed, finalists : int
        Runs that ended where the winner did, of those run to the end.
    swaps, accepted : int
        Swaps tried and accepted.
    rows : int
        Rows the race was run on.
    row_weight : float
        The same, counted with their weights.
    exact : bool
        Whether the winner reached zero loss on the race's rows.
    tensors : tuple of TensorResult
        Decompositions of the moments, one for each trial noise variance.
    """

    fit: Fit
    records: tuple[StartRecord, ...]
    agreed: int
    finalists: int
    swaps: int
    accepted: int
    rows: int
    row_weight: float
    exact: bool
    tensors: tuple[TensorResult, ...]


@dataclass(frozen=True, slots=True)
class Course:
    """What the race is run on.

    Attributes
    ----------
    mixture : Mixture
    sample : MemorySource
        Rows in standard coordinates.
    linear : MemorySource
        The same rows with a response for linear regressions, which the
        moments, subspaces and partitions look at.
    source, condensed : BlockSource
        The same two as one block each.
    whitening : Whitening
    k : int
    """

    mixture: Mixture
    sample: MemorySource
    linear: MemorySource
    source: BlockSource
    condensed: BlockSource
    whitening: Whitening
    k: int

    @property
    def linear_whitening(self) -> Whitening:
        """Standard coordinates of the linear view."""
        return self.whitening.linear or self.whitening

    def lift(self, start: Parameters) -> Parameters:
        """A start found on the linear view, for the mixture itself."""
        if self.whitening.linear is not None:
            start = replace(
                start,
                coef=self.whitening.linear.lift(start.coef),
                dispersion=np.full_like(start.dispersion, self.whitening.dispersion),
            )
        return self.mixture.prepare(start)


def make_course(
    mixture: Mixture, sample: MemorySource, linear: MemorySource, whitening: Whitening, k: int
) -> Course:
    """Condense the rows once for all runs."""
    source = condensed(sample, mixture.family.linear)
    view = source if linear is sample else condensed(linear)
    return Course(mixture, sample, linear, source, view, whitening, k)


def candidate_starts(
    course: Course,
    n_init: int,
    tensors: list[TensorResult],
    subspace: Array | None,
    rng: np.random.Generator,
) -> tuple[list[str], Parameters]:
    """Tensor starts first, then subspace, random and partition starts in turn.

    Without a subspace, partition and random starts only.
    """
    whitening, k = course.whitening, course.k
    variance = 0.5 * course.linear_whitening.variance
    stacks = [course.lift(start_from(t, k, variance, rng).stacked()) for t in tensors[:n_init]]
    kinds = ["tensor"] * len(stacks)
    cycle = ["subspace", "partition", "subspace", "random", "subspace"]
    cycle = ["partition", "random"] if subspace is None else cycle
    wanted = [cycle[i % len(cycle)] for i in range(max(0, n_init - len(stacks)))]
    for kind in ("subspace", "random", "partition"):
        runs = wanted.count(kind)
        if not runs:
            continue
        if kind == "partition":
            resp = partitions(course.condensed.block, k, runs, course.linear_whitening, rng)
            common = course.mixture.common()
            stacks.append(from_responsibilities(course.source, common, whitening, resp))
        else:
            basis = subspace if kind == "subspace" else None
            coef = random_directions(k, runs, whitening, basis, rng)
            spread = variance if whitening.linear is None else whitening.dispersion
            start = Parameters.uniform(coef, spread)
            stacks.append(course.mixture.prepare(start))
        kinds += [kind] * runs
    starts = Parameters.concatenate(stacks)
    starts = feasible(course.source, course.mixture, starts, whitening.pooled)
    return kinds, numbered(course.source.block, course.mixture, starts)


def find_subspace(sample: MemorySource, whitening: Whitening, k: int) -> Array:
    """The directions in which components differ from the pooled fit."""
    task = TakeDeviations(whitening.has_constant, whitening.pooled, whitening.variance)
    return deviation_subspace(sample.sweep(task), whitening.has_constant, k)


def race(
    course: Course, effort: Effort, rng: np.random.Generator, progress: Progress | None = None
) -> RaceResult:
    """Find the best fit of k components on a sample of the data."""
    sample = course.sample
    tensors, pool, certified = _rounds(course, effort, rng)
    finals, swaps = [], None
    if certified is None:
        finals = _finish(course.source, course.mixture, [fit for _, fit in pool])
        swaps = _defend(course, finals, effort, rng, progress)
        certified = certify(course, [swaps.fit])
        winner = certified or swaps.fit
    else:
        winner = certified
    finals = finals if certified is None else [certified]
    return RaceResult(
        winner,
        tuple(StartRecord(kind, fit.objective) for kind, fit in pool),
        _agreed(finals, winner, sample.rows),
        len(finals),
        swaps.tried if swaps else 0,
        swaps.accepted if swaps else 0,
        sample.rows,
        sample.row_weight,
        certified is not None,
        tuple(tensors),
    )


def _rounds(
    course: Course, effort: Effort, rng: np.random.Generator
) -> tuple[list[TensorResult], list[tuple[str, Fit]], Fit | None]:
    """Rounds of short runs, until two head the same way or one is certified."""
    linear, white, k = course.linear, course.linear_whitening, course.k
    subspace, tensors = None, []
    if course.mixture.family.moments:
        subspace = find_subspace(linear, white, k)
        span = np.linalg.qr(np.column_stack([white.pooled, subspace]))[0]
        options = TensorStart(n_starts=30 * k, n_iter=20)
        tensors = tensor_results(linear, white.has_constant, k, options, rng, within=span)
    pool: list[tuple[str, Fit]] = []
    certified: Fit | None = None
    for number in range(effort.rounds):
        # A small round first: an easy problem should cost little.
        n_starts = effort.n_init if number else min(effort.n_init, len(tensors) + VANGUARD)
        kinds, starts = candidate_starts(course, n_starts, [] if number else tensors, subspace, rng)
        entries, certified = _anneal(course, kinds, starts)
        pool = sorted(pool + entries, key=lambda entry: -entry[1].objective)
        if certified is not None or _heading_together(pool, linear.rows):
            break
    return tensors, pool, certified


def _defend(
    course: Course,
    finals: list[Fit],
    effort: Effort,
    rng: np.random.Generator,
    progress: Progress | None,
) -> SwapResult:
    """Swaps against the best finalist; few if the problem looks settled."""
    source, mixture = course.source, course.mixture
    grouped = isinstance(source.block, GramBlock)
    k, p = finals[0].params.coef.shape
    patience = min(effort.patience(k, grouped), affordable(source, mixture, k, p, effort.budget))
    if is_suspect(source, mixture, finals[0]):
        # No start led to a fit that chance does not explain: k is likely too
        # large, and there may be nothing better to find.
        patience = max(BATCH, patience // 4)
    if not grouped and _settled(source, mixture, finals, source.block.units):
        patience = min(patience, BATCH)
    return swap_search(source, mixture, course.whitening, finals[0], patience, rng, progress)


def _heading_together(pool: list[tuple[str, Fit]], rows: int) -> bool:
    """Whether the two best runs seem to end at the same place."""
    if len(pool) < 2:
        return True
    ends = [expected_end(fit) for _, fit in pool[:2]]
    return abs(ends[0] - ends[1]) < 1e-3 * rows


def _anneal(
    course: Course, kinds: list[str], starts: Parameters
) -> tuple[list[tuple[str, Fit]], Fit | None]:
    """Short runs with a common variance; the better half runs on.

    A common variance that shrinks as the fit improves is an annealing
    schedule for free; free variances come after it. Also returns a certified
    fit, if one was found on the way.
    """
    source, common = course.source, EM(course.mixture.common())
    first = iterate(source, common, starts, ANNEAL_ALL)
    certified = certify(course, first)
    if certified is not None:
        return list(zip(kinds, first, strict=True)), certified
    order = np.argsort([-fit.objective for fit in first])
    keep = order[: max(FINALISTS, (len(order) + 1) // 2)]
    stack = Parameters.concatenate([first[i].params.stacked() for i in keep])
    second = iterate(source, common, stack, ANNEAL_HALF)
    done = [*zip(keep, second, strict=True), *((i, first[i]) for i in order[len(keep) :])]
    return [(kinds[i], fit) for i, fit in done], certify(course, second)


def _finish(source: BlockSource, mixture: Mixture, short: list[Fit]) -> list[Fit]:
    """Free the variances and run the best few to the end."""
    best = short[: 2 * FINALISTS]
    if mixture.family.dispersion_name and not mixture.family.equal_dispersion:
        stack = Parameters.concatenate([fit.params.stacked() for fit in best])
        best = iterate(source, EM(mixture), stack, FREE)
    return finish_best(source, mixture, best, FINALISTS, FINISH)


def _settled(source: BlockSource, mixture: Mixture, finals: list[Fit], rows: int) -> bool:
    """Whether all finalists agree on components that hardly overlap."""
    if len(finals) < FINALISTS or _agreed(finals, finals[0], rows) < len(finals):
        return False
    posterior = source.sweep(Posterior(mixture), finals[0].params).join()
    return float(posterior.max(axis=0).mean()) > SEPARATED


def _agreed(finals: list[Fit], winner: Fit, rows: int) -> int:
    """How many runs ended where the winner did."""
    return sum(winner.objective - fit.objective < 1e-4 * rows**0.5 for fit in finals)


def certify(course: Course, fits: list[Fit]) -> Fit | None:
    """Finish the best runs with hard labels; return one that reaches zero loss."""
    if not course.mixture.family.linear or course.mixture.background is not None:
        return None
    sample, source, hard = course.sample, course.source, AltMin(course.mixture.common())
    order = np.argsort([-fit.objective for fit in fits])[:3]
    stack = Parameters.concatenate([fits[i].params.stacked() for i in order])
    for fit in iterate(source, hard, stack, HARD):
        if -fit.objective > PROMISING * sample.row_weight:
            continue
        done = iterate(sample, hard, fit.params.stacked(), HARD)[0]
        if done.reason == "exact":
            return done
    return None
