"""From a source in standard coordinates to a finished fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators import EM, Control, Fit, Newton, iterate
from mixreg.estimators.altmin import EXACT, HardGate
from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.expectation import HardAssignment, MixtureStatistics, SoftAssignment
from mixreg.estimators.loop import Progress
from mixreg.estimators.priors import Priors
from mixreg.estimators.pruning import run_vb
from mixreg.estimators.runs import (
    has_many,
    run_altmin,
    run_em,
    run_resampled,
    standard_layout,
)
from mixreg.estimators.variational import Variational
from mixreg.exact.certificate import certified, find_own_rows
from mixreg.exact.reasons import Reason, find_reasons, tight_components
from mixreg.inference.averages import GateSums, average_gate
from mixreg.inference.last_pass import LastPass, ending_sums, last_pass
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.candidates import (
    feasible,
    from_responsibilities,
    numbered,
    random_directions,
)
from mixreg.search.cells import CellSearch, can_be_cut
from mixreg.search.chance import EMPTY, milder, ranked, suspects, tightness, worth
from mixreg.search.course import Course, race
from mixreg.search.grouped import GroupedSearch
from mixreg.search.levels import Effort, Ladder, Search, decompositions, first_rows
from mixreg.search.moves import swapped
from mixreg.search.record import Record
from mixreg.search.stand_in import can_stand_in
from mixreg.search.tensor import TensorResult, TensorStart, start_from, tensor_results
from mixreg.sources import Source
from mixreg.sources.base import condensing_pays
from mixreg.sources.block import Block
from mixreg.sources.outliers import drawn_in
from mixreg.sources.standard import Whitening, steady
from mixreg.sources.tasks import response_sizes

Array = NDArray[np.float64]
Method = Literal["em", "altmin", "vb"]

# A component that holds less than this many rows, of average weight, has emptied.
EMPTY_ROWS = 1.0
# A component with more units than this, by its weight, has surely not.
MANY_UNITS = 10.0
# Rows whose moments are reported; the search looks at those of its first level.
MOMENT_ROWS = 100_000
# Fits that differ by less, but for what chance explains of them, are as good as each other
# (`python -m benchmarks search --chance`).
ALIKE = 10.0
# Beyond so many rows, at most so many finalists are run to the end.
MANY_ROWS, FEWER = 20_000, 8
# What a search on shared rows may cost, over what one on rows may (bank of the benchmark).
OF_SHARED = 0.8
# Newton steps that finish a gate on hard labels.
GATE = Control(max_iter=50, tol=1e-14)


@dataclass(frozen=True, slots=True)
class Options:
    """What `fit` was asked to do.

    Attributes
    ----------
    method : {"em", "altmin", "vb"}
    init : "auto", "random", TensorStart, or a start
        A start is responsibilities (k, units) or `Parameters` in standard
        coordinates.
    effort : Effort
    control : Control
    seed : int
    resample : int or None
        Number of fresh samples for AltMin.
    priors : Priors
        For variational Bayes.
    """

    method: Method
    init: str | TensorStart | Parameters | Array
    effort: Effort
    control: Control
    seed: int
    resample: int | None = None
    priors: Priors = field(default_factory=Priors)


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
        Zero loss, and no other components can fit every row: these are the
        components. See `exact/certificate.py`.
    tensors : tuple of TensorResult
        Decompositions of the moments, one for each trial noise variance.
    search : Record or None
    binds : bool
        Whether the bound on the variances binds.
    empty : tuple of int
        Components (from 0) that stayed empty.
    revived : int
        Times that an empty component was seeded again.
    suspects : tuple of int
        Components (from 0) that may be accidents of a few rows.
    last : LastPass
        What the rows add up to where it ended.
    beliefs : Beliefs or None
        The posterior, of variational Bayes.
    elbo : float or None
        Its evidence lower bound.
    reasons : tuple of Reason
        Why components are at the bound on the variances, or exact without a
        certificate; of linear regressions with one response.
    """

    fit: Fit
    exact: bool
    certified: bool
    tensors: tuple[TensorResult, ...]
    search: Record | None
    binds: bool
    empty: tuple[int, ...]
    revived: int
    suspects: tuple[int, ...]
    last: LastPass
    beliefs: Beliefs | None = None
    elbo: float | None = None
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Problem:
    """All that a fit needs, and nothing that cannot be sent to another process.

    Attributes
    ----------
    source : Source
        Rows with the user's columns.
    mixture : Mixture
    whitening : Whitening
    k : int
    """

    source: Source
    mixture: Mixture
    whitening: Whitening
    k: int


def solve(
    problem: Problem,
    options: Options,
    progress: Progress | None = None,
    errors: bool = False,
) -> Solution:
    """Start, fit, finish.

    All rows are standardised once: the final run uses the copy that the search
    ended on, unless outliers were drawn in for the search. With `errors`, sums
    for standard errors are taken too.
    """
    raw, mixture, k = problem.source, problem.mixture, problem.k
    rng = np.random.default_rng(options.seed)
    raw = raw if mixture.family.linear else raw.with_repeats()
    near = raw if mixture.background is None else drawn_in(raw, mixture.family)
    ladder = make_ladder(replace(problem, source=near), rng)
    tensors: tuple[TensorResult, ...] = ()
    record: Record | None = None
    contested = 1
    if k > 1 and isinstance(options.init, str) and options.init == "auto":
        effort = replace(options.effort, thorough=options.method != "vb")
        hunt = _kind_of_search(near, mixture, effort)(ladder, effort, rng, progress)
        record = hunt.run()
        tensors, starts = record.tensors, [m.fit.params for m in record.finalists]
        contested = record.contested
        course = hunt.top
    else:
        course = ladder.make(raw.rows, rng)
        starts = [mixture.prepare(course.whitening.start(k))]
    if k > 1 and record is None:
        tensors, start = _single_start(course.sample, course, options, rng)
        starts = [start]
    source = course.sample if near is raw else raw.standard(course.whitening)
    starts = [_renumbered(source, mixture, start) for start in starts]
    if options.method == "vb":
        return _bayes(source, course, starts[0], options, tensors, record, progress)
    if options.resample is not None:
        fit, revived = run_resampled(source, mixture, starts[0], options.resample, rng), 0
        end = Ended(fit)
    else:
        run = run_altmin if options.method == "altmin" else run_em
        fit = _best_end(source, mixture, starts, contested, run, options.control, progress)
        fit = _settled_numbers(source, mixture, fit, run, options.control)
        end = at_the_maximum(source, mixture, fit)
        end, revived = _revive(source, course, end, options, rng)
    return _finish(
        source, mixture, end, options.method, tensors, record, revived, course.whitening, errors
    )


@dataclass(frozen=True, slots=True)
class Ended:
    """Where a run ended, and the sums there if a pass was made.

    Attributes
    ----------
    fit : Fit
    soft : MixtureStatistics or None
    gate : GateSums or None
    """

    fit: Fit
    soft: MixtureStatistics | None = None
    gate: GateSums | None = None


def at_the_maximum(source: Source, mixture: Mixture, fit: Fit) -> Ended:
    """The fit with a last Newton step taken, if it ended near a maximum within bounds."""
    if fit.reason != "converged" or mixture.family.bound_binds(fit.params):
        return Ended(fit)
    # Where rows are many the run has settled, and information of all costs as much as ten passes.
    if not (fit.settled or has_many(source, mixture)):
        newton = Newton(mixture, standard_layout(mixture, fit.params), source.row_weight)
        sums = newton.sweep(source, 0, fit.params.stacked())
        fit = replace(fit, params=newton.close(sums, fit.params), settled=True)
    if mixture.gate.closed_form:
        return Ended(fit)
    return Ended(fit, *ending_sums(source, mixture, fit.params))


def _kind_of_search(source: Source, mixture: Mixture, effort: Effort) -> type[Search]:
    """What the search looks at before it looks at rows."""
    if effort.n_init == 1:
        return Search
    if can_stand_in(source, mixture):
        return GroupedSearch
    return CellSearch if can_be_cut(source, mixture) else Search


def _best_end(
    source: Source,
    mixture: Mixture,
    starts: list[Parameters],
    contested: int,
    run: Any,
    control: Control,
    progress: Progress | None,
) -> Fit:
    """Run the finalists to the end, on all rows; the best of them.

    Parameters
    ----------
    starts : list of Parameters
        What the search found, best first.
    contested : int
        So many are run in any case; others, and at last milder starts, only
        while chance explains part of every end.
    """
    ends: list[Fit] = []
    most = len(starts) if source.rows <= MANY_ROWS else FEWER
    for number, start in enumerate(starts[:most]):
        if number >= contested and not _accident(source, mixture, ends):
            break
        ends.append(run(source, mixture, start, control, progress))
        if run is run_altmin:
            break
    if len(ends) == 1:
        return ends[0]
    order = ranked(source, mixture, ends, source.row_weight)
    free = mixture.family.collapses and mixture.exchangeable
    if free and _accident(source, mixture, ends):
        # The search saw accidents only: there are milder fits, which it had no reason to look for.
        ends += [run(source, mixture, s, control, progress) for s in milder(order[0].params)]
        order = ranked(source, mixture, ends, source.row_weight)
    if mixture.family.collapses and _accident(source, mixture, ends):
        # What is left of each is a fit with a component less: of those that are as good
        # without it, take the one with the mildest accident.
        value = worth(source, mixture, order, source.row_weight)
        if value[0] < -EMPTY:
            # A wild response leaves no numbers to compare: the search has its way.
            return ends[0]
        alike = [end for end, v in zip(order, value, strict=True) if v >= value[0] - ALIKE]
        return max(alike, key=lambda end: round(tightness(end.params), 3))
    return order[0]


def _accident(source: Source, mixture: Mixture, ends: list[Fit]) -> bool:
    """Whether chance explains part of every fit."""
    values = worth(source, mixture, ends, source.row_weight)
    return all(v < end.objective for v, end in zip(values, ends, strict=True))


def make_ladder(problem: Problem, rng: np.random.Generator) -> Ladder:
    """The levels of a search, and how their rows are made."""
    raw, mixture, k = problem.source, problem.mixture, problem.k
    plain = raw.units if mixture.family.linear and condensing_pays(raw) else raw.rows
    cost = plain
    if raw.has("repeats"):
        cost, plain = raw.cost, int(OF_SHARED * plain)
    rows = first_rows(raw.rows, raw.units, cost, k, raw.columns, mixture.family.linear)
    whitening = problem.whitening
    if whitening.linear is not None:
        small = drawn(raw, rows, rng).standard(whitening)
        whitening = pooled_fit(small, mixture, whitening)

    def make(size: int, rng: np.random.Generator) -> Course:
        part = drawn(raw, size, rng)
        sample = linear = part.standard(whitening)
        if whitening.linear is not None:
            linear = surrogate(part, mixture).standard(whitening.linear)
        return Course(mixture, sample, linear, whitening, k)

    return Ladder(make, rows, raw.rows, cost, plain)


def drawn(source: Source, rows: int, rng: np.random.Generator) -> Source:
    """A sample by the generator's next seed; all rows take none."""
    return source if rows >= source.rows else source.sample(rows, int(rng.integers(2**63)))


def data_moments(problem: Problem, seed: int) -> tuple[TensorResult, ...]:
    """Decompositions of the moments of the data, of many rows at most."""
    rng = np.random.default_rng(seed)
    raw, mixture, counted = problem.source, problem.mixture, problem.source.counted()
    raw = raw if counted is None else raw.take_units(counted)
    near = raw if mixture.background is None else drawn_in(raw, mixture.family)
    ladder = make_ladder(replace(problem, source=near), rng)
    return decompositions(ladder.make(MOMENT_ROWS, rng), rng)[1]


def _renumbered(source: Source, mixture: Mixture, params: Parameters) -> Parameters:
    """The same mixture with components numbered as known labels say."""
    units = source.labelled()
    if not units.size:
        return params
    return numbered(source.take_units(units), mixture, params.stacked()).run(0)


def _settled_numbers(source: Source, mixture: Mixture, fit: Fit, run: Any, control: Control) -> Fit:
    """Run again where a fit ended with numbers that known labels speak against."""
    other = _renumbered(source, mixture, fit.params)
    if np.array_equal(other.coef, fit.params.coef):
        return fit
    again = run(source, mixture, other, control)
    return again if again.objective > fit.objective else fit


def surrogate(source: Source, mixture: Mixture) -> Source:
    """The rows with a response on the scale of the linear predictor."""
    return source.mapped(Surrogate(mixture, source.sweep(response_sizes).mean))


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A response for linear regressions in place of a family's own.

    Attributes
    ----------
    mixture : Mixture
    sizes : (responses,) array
        Mean absolute value of each response, of all rows.
    """

    mixture: Mixture
    sizes: Array

    def __call__(self, block: Block) -> Block:
        """The block with that response."""
        sizes = block.trials
        if block.opens is not None:
            counts = np.diff(block.sets, append=block.rows)
            sizes = np.repeat(counts, counts).astype(float)
        y = self.mixture.family.stand_in(block.y, sizes, self.sizes)
        y = y if block.offset is None else y - block.offset
        return replace(block, y=np.asarray(y, dtype=float), offset=None, trials=None)


def pooled_fit(sample: Source, mixture: Mixture, whitening: Whitening) -> Whitening:
    """Put the family's own fit of one component in place of the linear one."""
    if whitening.linear is None:
        return whitening
    one = Mixture(mixture.family)
    safe = whitening.linear.lift(np.zeros_like(whitening.pooled))
    start = feasible(sample, one, whitening.start(1), safe)
    plain = sample.with_columns(z=None, known=None)
    fit = iterate(plain, EM(one), start.stacked(), Control(50, 1e-8))[0]
    pooled, spread = steady(fit.params.coef[0]), steady(fit.params.dispersion[0])
    return replace(whitening, pooled=pooled, dispersion=spread)


def _single_start(
    source: Source, course: Course, options: Options, rng: np.random.Generator
) -> tuple[tuple[TensorResult, ...], Parameters]:
    """One start: the tensor's, random directions, or what the user gave."""
    init, k, mixture = options.init, course.k, course.mixture
    white = course.linear_whitening
    tensor = init if isinstance(init, TensorStart) else TensorStart(30 * k, 20)
    whole = isinstance(init, TensorStart) and course.whitening.linear is None
    data = source if whole else course.linear
    tensors: tuple[TensorResult, ...] = ()
    if mixture.family.moments:
        tensors = tuple(tensor_results(data, white.has_constant, k, tensor, rng))
    if isinstance(init, Parameters):
        return tensors, mixture.prepare(init)
    if isinstance(init, np.ndarray):
        start = from_responsibilities(source, mixture, course.whitening, init[:, None])
        return tensors, start.run(0)
    safe = course.whitening.pooled
    variance = 0.5 * white.variance
    if isinstance(init, str):
        coef = random_directions(k, 1, course.whitening, None, rng)
        spread = variance if course.whitening.linear is None else course.whitening.dispersion
        start = Parameters.uniform(coef, spread)
        start = feasible(course.source, mixture, mixture.prepare(start), safe)
        return tensors, start.run(0)
    starts = [course.lift(start_from(t, k, variance, rng).stacked()) for t in tensors]
    stack = feasible(course.source, mixture, Parameters.concatenate(starts), safe)
    stack = numbered(course.source, mixture, stack)
    if len(starts) == 1:
        return tensors, stack.run(0)
    # With an intercept there is one start for each trial noise variance; the
    # likelihood of the start itself chooses among them.
    scores = course.sample.sweep(SoftAssignment(mixture.common()), stack).objective
    return tensors, stack.run(int(np.argmax(scores)))


def _empty(sums: MixtureStatistics, rows: int) -> NDArray[np.intp]:
    size = sums.family.size[:, 0]
    return np.flatnonzero(size < EMPTY_ROWS * size.sum() / rows)


def _revive(
    source: Source, course: Course, end: Ended, options: Options, rng: np.random.Generator
) -> tuple[Ended, int]:
    """Seed components that emptied somewhere else, a few times; keep what is better."""
    hard, mixture, fit = options.method == "altmin", course.mixture, end.fit
    task = HardAssignment(mixture) if hard else SoftAssignment(mixture)
    run = run_altmin if hard else run_em
    least = fit.params.weights[: fit.params.k].min() * source.total_weight
    if not hard and mixture.gate.closed_form and least > MANY_UNITS:
        # Weights are shares of the units, at the end of EM: no pass is needed to tell.
        return end, 0
    sums = end.soft if end.soft is not None else source.sweep(task, fit.params.stacked())
    tries = 0
    while tries < 3 and fit.params.k > 1 and _empty(sums, source.rows).size:
        tries += 1
        data = course.source
        removed = np.resize(_empty(sums, source.rows), 12)
        starts = swapped(data, mixture, course.whitening, fit.params, removed, rng)
        ends = race(course, starts)
        best = ranked(data, mixture, ends, course.rows)[0]
        new = run(source, mixture, best.params, options.control)
        new_sums = source.sweep(task, new.params.stacked())
        if new_sums.objective[0] > sums.objective[0]:
            fit, sums, end = new, new_sums, at_the_maximum(source, mixture, new)
    return end, tries


def _finish(
    source: Source,
    mixture: Mixture,
    end: Ended,
    method: str,
    tensors: tuple[TensorResult, ...],
    record: Record | None,
    revived: int,
    whitening: Whitening,
    errors: bool,
) -> Solution:
    """Order the components and add up what is reported where the fit ended."""
    family, fit, params = mixture.family, end.fit, end.fit.params
    chance: tuple[int, ...] = ()
    exact = False
    if method == "altmin" or fit.reason == "exact":
        hard = source.sweep(HardAssignment(mixture), params.stacked())
        exact = float(family.mean_square(hard.family)[0]) < EXACT and mixture.background is None
    if method == "altmin":
        params = _weighed(source, mixture, params, hard)
    if mixture.exchangeable:
        gate = end.gate if end.gate is not None else average_gate(source, mixture.gate, params)
        params = params.by_weight(gate.average)
    # What is reported is the likelihood at the parameters as the user gets them.
    params = params if exact else whitening.from_user(whitening.to_user(params))
    last = last_pass(source, mixture, params, method == "altmin", exact, errors)
    objective = np.inf if exact else float(last.soft.objective[0])
    empty = tuple(int(j) for j in _empty(last.soft, source.rows)) if params.k > 1 else ()
    if not exact:
        chance = suspects(source, mixture, params)
    history, reason = fit.history, fit.reason
    if method == "em" and not exact:
        history = np.append(history[:-1], objective)
    proved = False
    if exact:
        own = find_own_rows(source, mixture, params, whitening)
        proved = certified(own, mixture, params, whitening)
        reason = "exact"
        history = np.append(history, np.inf) if method == "em" else history
    binds = family.bound_binds(params)
    reasons: tuple[Reason, ...] = ()
    if family.certifies and (binds or (exact and not proved)):
        tight = tight_components(params, exact, family.variance_ratio)
        reasons = find_reasons(source, mixture, params, whitening, tight, exact)
    return Solution(
        Fit(params, objective, history, reason, fit.n_iter),
        exact,
        proved,
        tensors,
        record,
        binds,
        empty,
        revived,
        chance,
        last,
        reasons=reasons,
    )


def _bayes(
    source: Source,
    course: Course,
    start: Parameters,
    options: Options,
    tensors: tuple[TensorResult, ...],
    record: Record | None,
    progress: Progress | None,
) -> Solution:
    """Variational Bayes from a start of maximum likelihood."""
    estimator = Variational(course.mixture, options.priors)
    pruned = run_vb(source, course.source, estimator, start, options.control, progress)
    point = pruned.fit.params
    last = last_pass(source, course.mixture, point, errors=False)
    return Solution(
        replace(pruned.fit, objective=float(last.soft.objective[0])),
        exact=False,
        certified=False,
        tensors=tensors,
        search=record,
        binds=False,
        empty=(),
        revived=0,
        suspects=(),
        last=last,
        beliefs=pruned.beliefs,
        elbo=pruned.fit.objective,
    )


def _weighed(
    source: Source, mixture: Mixture, params: Parameters, hard: MixtureStatistics
) -> Parameters:
    """Dispersions and weights from hard labels, which AltMin does without."""
    dispersion = mixture.family.label_dispersions(hard.family, params)
    params = replace(params, dispersion=dispersion)
    if not mixture.gate.closed_form:
        gate: Parameters = iterate(source, HardGate(mixture), params.stacked(), GATE)[0].params
        return gate
    return replace(params, gating=mixture.gate.update(hard.count, hard.gate, params)[:, 0])
