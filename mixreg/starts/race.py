"""The race: many starts, short runs, the best few to the end, then swaps.

Everything runs on one block, a sample if the data are large, with all runs in
one stack. In the noiseless model a loss of zero is the end of the search; the
race stops there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import GramBlock
from mixreg.estimators.altmin import AltMin
from mixreg.estimators.em import EM
from mixreg.estimators.expectation import Posterior
from mixreg.estimators.loop import Control, Fit, Progress, iterate
from mixreg.families import Gaussian
from mixreg.params import Parameters
from mixreg.sources.memory import BlockSource, MemorySource, condensed
from mixreg.starts.candidates import (
    from_responsibilities,
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
    """

    n_init: int = 16

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
        return each * self.n_init * k if self.n_init > 1 else 0


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


def candidate_starts(
    source: BlockSource,
    whitening: Whitening,
    k: int,
    n_init: int,
    tensors: list[TensorResult],
    subspace: Array,
    rng: np.random.Generator,
) -> tuple[list[str], Parameters]:
    """Tensor starts first, then subspace, random and partition starts in turn."""
    variance = 0.5 * whitening.variance
    stacks = [start_from(t, k, variance, rng).stacked() for t in tensors[:n_init]]
    kinds = ["tensor"] * len(stacks)
    cycle = ["subspace", "partition", "subspace", "random", "subspace"]
    wanted = [cycle[i % len(cycle)] for i in range(max(0, n_init - len(stacks)))]
    for kind in ("subspace", "random", "partition"):
        runs = wanted.count(kind)
        if not runs:
            continue
        if kind == "partition":
            resp = partitions(source.block, k, runs, whitening, rng)
            common = Gaussian(equal_variance=True)
            stacks.append(from_responsibilities(source, common, whitening, resp))
        else:
            basis = subspace if kind == "subspace" else None
            coef = random_directions(k, runs, whitening, basis, rng)
            stacks.append(Parameters.uniform(coef, variance))
        kinds += [kind] * runs
    return kinds, Parameters.concatenate(stacks)


def find_subspace(sample: MemorySource, whitening: Whitening, k: int) -> Array:
    """The directions in which components differ from the pooled fit."""
    task = TakeDeviations(whitening.has_constant, whitening.pooled, whitening.variance)
    return deviation_subspace(sample.sweep(task), whitening.has_constant, k)


def race(
    sample: MemorySource,
    family: Gaussian,
    whitening: Whitening,
    k: int,
    effort: Effort,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> RaceResult:
    """Find the best fit of k components on a sample of the data."""
    source = condensed(sample)
    tensors, pool, certified = _rounds(sample, source, whitening, k, effort, rng)
    finals, swaps = [], None
    if certified is None:
        finals = _finish(source, family, [fit for _, fit in pool])
        swaps = _defend(source, family, whitening, finals, effort, rng, progress)
        certified = certify(sample, source, [swaps.fit])
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
    sample: MemorySource,
    source: BlockSource,
    whitening: Whitening,
    k: int,
    effort: Effort,
    rng: np.random.Generator,
) -> tuple[list[TensorResult], list[tuple[str, Fit]], Fit | None]:
    """Rounds of short runs, until two head the same way or one is certified."""
    subspace = find_subspace(sample, whitening, k)
    span = np.linalg.qr(np.column_stack([whitening.pooled, subspace]))[0]
    options = TensorStart(n_starts=30 * k, n_iter=20)
    tensors = tensor_results(sample, whitening.has_constant, k, options, rng, within=span)
    pool: list[tuple[str, Fit]] = []
    certified: Fit | None = None
    for number in range(effort.rounds):
        # A small round first: an easy problem should cost little.
        n_starts = effort.n_init if number else min(effort.n_init, len(tensors) + VANGUARD)
        kinds, starts = candidate_starts(
            source, whitening, k, n_starts, [] if number else tensors, subspace, rng
        )
        entries, certified = _anneal(sample, source, kinds, starts)
        pool = sorted(pool + entries, key=lambda entry: -entry[1].objective)
        if certified is not None or _heading_together(pool, sample.rows):
            break
    return tensors, pool, certified


def _defend(
    source: BlockSource,
    family: Gaussian,
    whitening: Whitening,
    finals: list[Fit],
    effort: Effort,
    rng: np.random.Generator,
    progress: Progress | None,
) -> SwapResult:
    """Swaps against the best finalist; few if the problem looks settled."""
    grouped = isinstance(source.block, GramBlock)
    k, p = finals[0].params.coef.shape
    patience = min(effort.patience(k, grouped), affordable(source, k, p, effort.budget))
    if is_suspect(source, finals[0]):
        # No start led to a fit that chance does not explain: k is likely too
        # large, and there may be nothing better to find.
        patience = max(BATCH, patience // 4)
    if not grouped and _settled(source, family, finals, source.block.units):
        patience = min(patience, BATCH)
    return swap_search(source, family, whitening, finals[0], patience, rng, progress)


def _heading_together(pool: list[tuple[str, Fit]], rows: int) -> bool:
    """Whether the two best runs seem to end at the same place."""
    if len(pool) < 2:
        return True
    ends = [expected_end(fit) for _, fit in pool[:2]]
    return abs(ends[0] - ends[1]) < 1e-3 * rows


def _anneal(
    sample: MemorySource, source: BlockSource, kinds: list[str], starts: Parameters
) -> tuple[list[tuple[str, Fit]], Fit | None]:
    """Short runs with a common variance; the better half runs on.

    A common variance that shrinks as the fit improves is an annealing
    schedule for free; free variances come after it. Also returns a certified
    fit, if one was found on the way.
    """
    common = EM(Gaussian(equal_variance=True))
    first = iterate(source, common, starts, ANNEAL_ALL)
    certified = certify(sample, source, first)
    if certified is not None:
        return list(zip(kinds, first, strict=True)), certified
    order = np.argsort([-fit.objective for fit in first])
    keep = order[: max(FINALISTS, (len(order) + 1) // 2)]
    stack = Parameters.concatenate([first[i].params.stacked() for i in keep])
    second = iterate(source, common, stack, ANNEAL_HALF)
    done = [*zip(keep, second, strict=True), *((i, first[i]) for i in order[len(keep) :])]
    return [(kinds[i], fit) for i, fit in done], certify(sample, source, second)


def _finish(source: BlockSource, family: Gaussian, short: list[Fit]) -> list[Fit]:
    """Free the variances and run the best few to the end."""
    best = short[: 2 * FINALISTS]
    if not family.equal_variance:
        stack = Parameters.concatenate([fit.params.stacked() for fit in best])
        best = iterate(source, EM(family), stack, FREE)
    return finish_best(source, family, best, FINALISTS, FINISH)


def _settled(source: BlockSource, family: Gaussian, finals: list[Fit], rows: int) -> bool:
    """Whether all finalists agree on components that hardly overlap."""
    if len(finals) < FINALISTS or _agreed(finals, finals[0], rows) < len(finals):
        return False
    posterior = source.sweep(Posterior(family), finals[0].params).join()
    return float(posterior.max(axis=0).mean()) > SEPARATED


def _agreed(finals: list[Fit], winner: Fit, rows: int) -> int:
    """How many runs ended where the winner did."""
    return sum(winner.objective - fit.objective < 1e-4 * rows**0.5 for fit in finals)


def certify(sample: MemorySource, source: BlockSource, fits: list[Fit]) -> Fit | None:
    """Finish the best runs with hard labels; return one that reaches zero loss."""
    hard = AltMin(Gaussian(equal_variance=True))
    order = np.argsort([-fit.objective for fit in fits])[:3]
    stack = Parameters.concatenate([fits[i].params.stacked() for i in order])
    for fit in iterate(source, hard, stack, HARD):
        if -fit.objective > PROMISING * sample.row_weight:
            continue
        done = iterate(sample, hard, fit.params.stacked(), HARD)[0]
        if done.reason == "exact":
            return done
    return None
