"""From a source in standard coordinates to a finished fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block
from mixreg.estimators import EM, AltMin, Control, Fit, Newton, iterate
from mixreg.estimators.altmin import EXACT
from mixreg.estimators.expectation import HardAssignment, MixtureStatistics, SoftAssignment
from mixreg.estimators.loop import Progress
from mixreg.families import Gaussian
from mixreg.params import Layout, Parameters, log_gating
from mixreg.sources import MemorySource, Source
from mixreg.sources.memory import BlockSource, condensed, condensing_pays, standardised
from mixreg.starts.candidates import from_responsibilities, random_directions
from mixreg.starts.race import Effort, RaceResult, race
from mixreg.starts.swap import FINISH, SHORT, finish_best, swapped
from mixreg.starts.tensor import TensorResult, TensorStart, start_from, tensor_results
from mixreg.whitening import Whitening

Array = NDArray[np.float64]
Method = Literal["em", "altmin"]

# EM hands over to Newton steps when an iteration gains less than this a row.
HANDOVER = 1e-6
# A component that holds less than this many rows, of average weight, has emptied.
EMPTY_ROWS = 1.0
# Residual (unit variance) below which a row counts as fitted exactly.
EXACT_RESIDUAL = 1e-9


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
        Zero loss with more rows than coefficients on each component alone,
        which proves that the components are the true ones.
    tensors : tuple of TensorResult
        Decompositions of the moments, one for each trial noise variance.
    race : RaceResult or None
    binds : bool
        Whether the bound on the variances binds.
    empty : tuple of int
        Components (from 0) that stayed empty.
    revived : int
        Times that an empty component was seeded again.
    """

    fit: Fit
    exact: bool
    certified: bool
    tensors: tuple[TensorResult, ...]
    race: RaceResult | None
    binds: bool
    empty: tuple[int, ...]
    revived: int


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
        outcome = race(sample, family, whitening, k, options.effort, rng)
        tensors, start = outcome.tensors, outcome.fit.params
    source = sample if sample.rows == raw.rows else standardised(raw, whitening)
    if k == 1:
        start = whitening.start(1)
    elif outcome is None:
        tensors, start = _single_start(source, sample, whitening, family, k, options, rng)
    exact_start = outcome is not None and outcome.exact
    method = "altmin" if exact_start else options.method
    run = _run_altmin if method == "altmin" else _run_em
    fit = run(source, family, start, options, rng, progress)
    fit, revived = _revive(source, sample, whitening, family, fit, run, options, rng)
    if options.method == "em" and method == "altmin":
        fit = replace(fit, history=np.zeros(0))
    return source, _finish(source, family, fit, method, options, tensors, outcome, revived)


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
        block = source.as_block()
        start = from_responsibilities(block, family, whitening, init[:, None])
        return tensors, start.run(0)
    if isinstance(init, str):
        coef = random_directions(k, 1, whitening, None, rng)[:, 0]
        return tensors, Parameters(coef, np.full(k, variance), np.full((k, 1), -np.log(k)))
    starts = [start_from(t, k, variance, 1.0, rng) for t in tensors]
    if len(starts) == 1:
        return tensors, starts[0]
    # With an intercept there is one start for each trial noise variance; the
    # likelihood of the start itself chooses among them.
    stack = Parameters.concatenate([s.stacked() for s in starts])
    scores = sample.sweep(SoftAssignment(Gaussian(equal_variance=True)), stack).objective
    return tensors, starts[int(np.argmax(scores))]


def _run_em(
    source: MemorySource,
    family: Gaussian,
    start: Parameters,
    options: Options,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Fit:
    """EM, then Newton steps, then EM again if the steps did not settle it."""
    control = options.control
    # Long groups are condensed for EM; the finish, and its numbers, are on rows.
    data: Source = condensed(source) if condensing_pays(source) else source
    first = replace(control, tol=max(control.tol, HANDOVER))
    em = EM(family)
    fit = iterate(data, em, start.stacked(), first, progress)[0]
    if fit.reason == "exact":
        # Hard labels take an exact fit from small residuals to none.
        hard = iterate(source, AltMin(family), fit.params.stacked(), control)[0]
        if hard.reason == "exact":
            return replace(hard, history=fit.history, n_iter=fit.n_iter + hard.n_iter)
        # The noise is tiny but there: EM goes on, and is not stopped by it.
        data, em = source, EM(family, exact=0.0)
        fit = _joined(fit, iterate(data, em, fit.params.stacked(), first, progress)[0])
    if fit.reason != "converged":
        return fit
    left = replace(control, max_iter=max(0, control.max_iter - fit.n_iter))
    layout = Layout(start.k, ("",) * start.coef.shape[1], family.equal_variance)
    if not bound_binds(family, fit.params):
        steps = Control(min(25, left.max_iter), tol=1e-9)
        end = iterate(source, Newton(family, layout), fit.params.stacked(), steps)[0]
        if end.reason == "converged" and not bound_binds(family, end.params):
            return _joined(fit, end)
    return _joined(fit, iterate(data, em, fit.params.stacked(), left, progress)[0])


def _run_altmin(
    source: MemorySource,
    family: Gaussian,
    start: Parameters,
    options: Options,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Fit:
    """The paper's alternating minimisation, with fresh samples if asked for."""
    hard = Gaussian(family.equal_variance, family.variance_ratio)
    if options.resample is None or options.method != "altmin":
        return iterate(source, AltMin(hard), start.stacked(), options.control, progress)[0]
    parts = tuple(source.split(options.resample, rng))
    control = replace(options.control, max_iter=options.resample)
    fit = iterate(source, AltMin(hard, parts), start.stacked(), control, progress)[0]
    return replace(fit, reason="resampled")


def _joined(first: Fit, second: Fit) -> Fit:
    """One fit out of two stages; the first step of the second repeats a point."""
    history = np.concatenate([first.history, second.history[1:]])
    return replace(second, history=history, n_iter=first.n_iter + second.n_iter)


def bound_binds(family: Gaussian, params: Parameters) -> bool:
    """Whether the smallest variance sits at the bound."""
    variance = params.dispersion
    least = family.variance_ratio * variance.max() * (1 + 1e-6)
    return bool(not family.equal_variance and variance.min() <= least and params.k > 1)


def _empty(sums: MixtureStatistics, rows: int) -> NDArray[np.intp]:
    size = sums.family.size[:, 0]
    return np.flatnonzero(size < EMPTY_ROWS * size.sum() / rows)


def _revive(
    source: MemorySource,
    sample: MemorySource,
    whitening: Whitening,
    family: Gaussian,
    fit: Fit,
    run: Callable[..., Fit],
    options: Options,
    rng: np.random.Generator,
) -> tuple[Fit, int]:
    """Seed components that emptied somewhere else, a few times."""
    task = HardAssignment(family) if run is _run_altmin else SoftAssignment(family)
    tries = 0
    while tries < 3:
        empty = _empty(source.sweep(task, fit.params.stacked()), source.rows)
        if not empty.size or fit.params.k == 1:
            break
        tries += 1
        data: BlockSource = condensed(sample)
        removed = np.resize(empty, 12)
        starts = swapped(data.block, family, whitening, fit.params, removed, rng)
        best = finish_best(data, family, iterate(data, EM(family), starts, SHORT), 4, FINISH)
        new = run(source, family, best[0].params, options, rng, None)
        fit = new if new.objective > fit.objective else fit
    return fit, tries


def _finish(
    source: MemorySource,
    family: Gaussian,
    fit: Fit,
    method: str,
    options: Options,
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
    history, reason = fit.history, fit.reason
    if exact:
        reason = "exact"
        history = np.append(history, np.inf) if options.method == "em" else history
    return Solution(
        Fit(params, objective, history, reason, fit.n_iter),
        exact,
        exact and _certified(source, family, params),
        tensors,
        outcome,
        bound_binds(family, params),
        empty,
        revived,
    )


def _certified(source: MemorySource, family: Gaussian, params: Parameters) -> bool:
    """Whether each component alone fits more rows exactly than it has coefficients."""
    own = source.sweep(CountOwnRows(family), params).counts
    return bool((own > params.coef.shape[1]).all())


@dataclass(frozen=True, slots=True)
class OwnRows:
    """Rows that one component fits exactly and no other does, (k,)."""

    counts: Array

    def __add__(self, other: OwnRows) -> OwnRows:
        """Add the counts of other rows."""
        return OwnRows(self.counts + other.counts)


@dataclass(frozen=True, slots=True)
class CountOwnRows:
    """Task: count the rows that belong to one component only."""

    family: Gaussian

    def __call__(self, block: Block, params: Parameters) -> OwnRows:
        """Process one block."""
        fitted = np.abs(self.family.residuals(block, params)) < EXACT_RESIDUAL
        alone = fitted & (fitted.sum(axis=0) == 1)
        return OwnRows(alone.sum(axis=1).astype(float))
