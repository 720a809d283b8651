"""From a source in standard coordinates to a finished fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mixreg.certificate import certified
from mixreg.estimators import EM, Control, Fit, iterate
from mixreg.estimators.altmin import EXACT
from mixreg.estimators.expectation import HardAssignment, MixtureStatistics, SoftAssignment
from mixreg.estimators.loop import Progress
from mixreg.families import Gaussian
from mixreg.params import Parameters, log_gating
from mixreg.runs import bound_binds, run_altmin, run_em, run_resampled
from mixreg.sources import MemorySource
from mixreg.sources.memory import condensed, condensing_pays, standardised
from mixreg.starts.candidates import from_responsibilities, random_directions
from mixreg.starts.race import Effort, RaceResult, race
from mixreg.starts.spurious import suspects
from mixreg.starts.swap import FINISH, SHORT, finish_best, swapped
from mixreg.starts.tensor import TensorResult, TensorStart, start_from, tensor_results
from mixreg.whitening import Whitening

Array = NDArray[np.float64]
Method = Literal["em", "altmin"]

# A component that holds less than this many rows, of average weight, has emptied.
EMPTY_ROWS = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """What `fit` was asked to do.

    Attributes
    ----------
    method : {"em", "altmin"}
    init : "auto", "random", TensorStart, or a start
        A start is responsibilities (k, units) or `Parameters` in standard
        coordinates.
    effort : Effort
    control : Control
    seed : int
    resample : int or None
        Number of fresh samples for AltMin.
    """

    method: Method
    init: str | TensorStart | Parameters | Array
    effort: Effort
    control: Control
    seed: int
    resample: int | None = None


@dataclass(frozen=True, slots=True)
class Solution:
    """A finished fit in standard coordinates, with what was learnt on the way.

    Attributes
    ----------
    fit : Fit
        Components ordered by weight; objective is the log-likelihood.
    exact : bool
        Zero loss: every row lies on a component.
    certified : bool
        Zero loss with more distinct rows than coefficients on each component
        alone: for regressors in general position, these are the components.
    tensors : tuple of TensorResult
        Decompositions of the moments, one for each trial noise variance.
    race : RaceResult or None
    binds : bool
        Whether the bound on the variances binds.
    empty : tuple of int
        Components (from 0) that stayed empty.
    revived : int
        Times that an empty component was seeded again.
    suspects : tuple of int
        Components (from 0) that may be accidents of a few rows.
    """

    fit: Fit
    exact: bool
    certified: bool
    tensors: tuple[TensorResult, ...]
    race: RaceResult | None
    binds: bool
    empty: tuple[int, ...]
    revived: int
    suspects: tuple[int, ...]


def solve(
    raw: MemorySource,
    whitening: Whitening,
    family: Gaussian,
    k: int,
    options: Options,
    progress: Progress | None = None,
) -> tuple[MemorySource, Solution]:
    """Start, fit, finish.

    `raw` has the user's columns. Its standardised copy is made only after the
    race, which needs just a sample, so that the two never share the memory.
    """
    rng = np.random.default_rng(options.seed)
    sample = standardised(raw.sample(race_rows(raw, k), rng), whitening)
    tensors: tuple[TensorResult, ...] = ()
    outcome: RaceResult | None = None
    if k > 1 and isinstance(options.init, str) and options.init == "auto":
        outcome = race(sample, family, whitening, k, options.effort, rng, progress)
        tensors, start = outcome.tensors, outcome.fit.params
    source = sample if sample.rows == raw.rows else standardised(raw, whitening)
    if k == 1:
        start = whitening.start(1)
    elif outcome is None:
        tensors, start = _single_start(source, sample, whitening, family, k, options, rng)
    if options.resample is not None:
        fit, revived = run_resampled(source, family, start, options.resample, rng), 0
    else:
        run = run_altmin if options.method == "altmin" else run_em
        fit = run(source, family, start, options.control, progress)
        fit, revived = _revive(source, sample, whitening, family, fit, options, rng)
    return source, _finish(source, family, fit, options.method, tensors, outcome, revived)


def race_rows(raw: MemorySource, k: int) -> int:
    """Rows that the race looks at: plenty for k * p coefficients, but bounded.

    Groups that will be condensed cost as much as a few rows each.
    """
    rows = int(np.clip(50 * k * raw.x.shape[1], 8_000, 20_000))
    return rows * raw.rows // raw.units if condensing_pays(raw) else rows


def _single_start(
    source: MemorySource,
    sample: MemorySource,
    whitening: Whitening,
    family: Gaussian,
    k: int,
    options: Options,
    rng: np.random.Generator,
) -> tuple[tuple[TensorResult, ...], Parameters]:
    """One start: the tensor's, random directions, or what the user gave."""
    init = options.init
    tensor = init if isinstance(init, TensorStart) else TensorStart(30 * k, 20)
    data = source if isinstance(init, TensorStart) else sample
    tensors = tuple(tensor_results(data, whitening.has_constant, k, tensor, rng))
    variance = 0.5 * whitening.variance
    if isinstance(init, Parameters):
        return tensors, init
    if isinstance(init, np.ndarray):
        start = from_responsibilities(source, family, whitening, init[:, None])
        return tensors, start.run(0)
    if isinstance(init, str):
        coef = random_directions(k, 1, whitening, None, rng)[:, 0]
        return tensors, Parameters.uniform(coef, variance)
    starts = [start_from(t, k, variance, rng) for t in tensors]
    if len(starts) == 1:
        return tensors, starts[0]
    # With an intercept there is one start for each trial noise variance; the
    # likelihood of the start itself chooses among them.
    stack = Parameters.concatenate([s.stacked() for s in starts])
    scores = sample.sweep(SoftAssignment(Gaussian(equal_variance=True)), stack).objective
    return tensors, starts[int(np.argmax(scores))]


def _empty(sums: MixtureStatistics, rows: int) -> NDArray[np.intp]:
    size = sums.family.size[:, 0]
    return np.flatnonzero(size < EMPTY_ROWS * size.sum() / rows)


def _revive(
    source: MemorySource,
    sample: MemorySource,
    whitening: Whitening,
    family: Gaussian,
    fit: Fit,
    options: Options,
    rng: np.random.Generator,
) -> tuple[Fit, int]:
    """Seed components that emptied somewhere else, a few times; keep what is better."""
    hard = options.method == "altmin"
    task = HardAssignment(family) if hard else SoftAssignment(family)
    run = run_altmin if hard else run_em
    sums = source.sweep(task, fit.params.stacked())
    tries = 0
    while tries < 3 and fit.params.k > 1 and _empty(sums, source.rows).size:
        tries += 1
        data = condensed(sample)
        removed = np.resize(_empty(sums, source.rows), 12)
        starts = swapped(data, family, whitening, fit.params, removed, rng)
        short = iterate(data, EM(family), starts, SHORT)
        best = finish_best(data, family, short, 4, FINISH)[0]
        new = run(source, family, best.params, options.control)
        new_sums = source.sweep(task, new.params.stacked())
        if new_sums.objective[0] > sums.objective[0]:
            fit, sums = new, new_sums
    return fit, tries


def _finish(
    source: MemorySource,
    family: Gaussian,
    fit: Fit,
    method: str,
    tensors: tuple[TensorResult, ...],
    outcome: RaceResult | None,
    revived: int,
) -> Solution:
    """Order the components and take the log-likelihood where the fit ended."""
    hard = source.sweep(HardAssignment(family), fit.params.stacked())
    params = fit.params
    if method == "altmin":
        squares = np.maximum(hard.family.ee[:, 0], 0.0)
        variance = family.variances(squares, hard.family.size[:, 0])
        weights = hard.count[:, 0] / hard.count.sum()
        params = Parameters(params.coef, variance, log_gating(weights))
    params = params.by_weight()
    exact = float(hard.mean_square[0]) < EXACT
    soft = source.sweep(SoftAssignment(family), params.stacked())
    objective = np.inf if exact else float(soft.objective[0])
    empty = tuple(int(j) for j in _empty(soft, source.rows)) if params.k > 1 else ()
    by_rows = source.starts is None and not exact
    suspect = suspects(params, source.row_weight) if by_rows else np.zeros(0, dtype=bool)
    history, reason = fit.history, fit.reason
    if exact:
        reason = "exact"
        history = np.append(history, np.inf) if method == "em" else history
    return Solution(
        Fit(params, objective, history, reason, fit.n_iter),
        exact,
        exact and certified(source, family, params),
        tensors,
        outcome,
        bound_binds(family, params),
        empty,
        revived,
        tuple(np.flatnonzero(suspect).tolist()),
    )
