"""From a source in standard coordinates to a finished fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import SoftAssignment
from mixreg.estimators.pruning import run_vb
from mixreg.estimators.runs import (
    polished,
    run_altmin,
    run_em,
    run_resampled,
)
from mixreg.estimators.variational import Variational
from mixreg.jobs.ending import (
    RunWithSums,
    at_the_maximum,
    believed,
    best_end,
    every_end,
    finish,
    renumbered,
    revive,
    settled_numbers,
)
from mixreg.jobs.ladder import make_ladder, seen_rows
from mixreg.jobs.problem import Options, Problem, Solution
from mixreg.jobs.progress import Watch
from mixreg.jobs.rounded import at_its_grain, best_density, of_rounded
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.candidates import (
    from_given,
    numbered,
    random_directions,
)
from mixreg.search.cells import CellSearch, can_be_cut
from mixreg.search.constants import POWER_STARTS, POWER_STEPS
from mixreg.search.course import Course
from mixreg.search.effort import Effort, searched_rows
from mixreg.search.grouped import GroupedSearch
from mixreg.search.levels import Search
from mixreg.search.ranges import feasible
from mixreg.search.record import Record
from mixreg.search.stand_in import can_stand_in
from mixreg.search.tensor import TensorResult, TensorStart, start_from, tensor_results
from mixreg.sources import AtHand, Source, stages

Array = NDArray[np.float64]


def solve(
    problem: Problem,
    options: Options,
    watch: Watch | None = None,
    errors: bool = False,
) -> Solution:
    """Start, fit, finish.

    The search looks at rows in memory: all of them, or a large sample. Rows are
    standardised once: the final run uses the copy that the search ended on, if that
    has all of them and none was drawn in. With `errors`, sums for standard errors are
    taken too.
    """
    raw, mixture = problem.source, problem.mixture
    rng = np.random.default_rng(options.seed)
    _begin(watch, "search" if problem.k > 1 else "all rows")
    seen = seen_rows(problem, searched_rows(raw.columns), rng)
    problem = at_its_grain(problem, options, seen)
    course, starts, contested, tensors, record = _searched(problem, seen, options, watch, rng)
    del seen
    whitening = course.whitening
    untouched = course.sample.rows == raw.rows and mixture.background is None
    source: Source = course.sample if untouched else raw.standard(whitening)
    source = source.without("given")
    # Rows that are alike, taken together with their weights, say as much as all of them.
    whole = mixture.background is None and math.isclose(course.rows, raw.row_weight, rel_tol=1e-9)
    grained: Source = course.sample.without("given") if whole and _ends_by_em(options) else source
    if record is not None and record.exact:
        # Zero loss needs no allowance for what rounding hides.
        whitening, grained = replace(whitening, grain=None), grained.without("rounding")
    if record is not None and not record.exact and not whole:
        # A maximum of the sample is one Newton step from that of all rows.
        for i, start in enumerate(starts[:contested]):
            starts[i] = polished(course.sample, grained, mixture, start, options.control)
    starts = [renumbered(grained, mixture, start) for start in starts]
    if not whole:
        starts = [_within(grained, course, start) for start in starts]
    full, source = source, source.without("rounding")
    _begin(watch, "all rows")
    if options.method == "vb":
        few = starts if record is None else starts[:1]
        made = [_bayes(source, course, each, options, tensors, record, watch) for each in few]
        return max(made, key=lambda solution: solution.elbo or -np.inf)
    again: Callable[[], Course] = partial(_course_anew, problem, options)
    if whole:
        again = partial(_same, course)
    # Samples would be in the way of the passes, and are hardly ever needed again.
    del course
    narrow: tuple[int, ...] = ()
    if options.resample is not None:
        fit = run_resampled(source, mixture, starts[0], options.resample, rng, watch)
        end, revived = RunWithSums(fit), 0
    else:
        run = run_altmin if options.method == "altmin" else run_em
        control = replace(options.control, near=record is not None)
        if record is None and len(starts) > 1:
            fit, record = every_end(grained, mixture, starts, run, control, watch, tensors)
        else:
            # A brief search does without milder fits than accidents.
            starts = starts if options.effort.thorough else starts[:contested]
            fit = best_end(grained, mixture, starts, contested, run, control, watch)
        fit = settled_numbers(grained, mixture, fit, run, options.control)
        end = at_the_maximum(grained, mixture, fit)
        end, revived = revive(grained, mixture, again, end, options, rng)
        if whitening.grain is not None:
            rows = grained.without("rounding")
            rivals = starts[1:contested] if record is not None and run is run_em else []
            fit, narrow = best_density(grained, rows, mixture, end.run, rivals, control, watch)
            end = RunWithSums(fit) if narrow else at_the_maximum(rows, mixture, fit)
    _begin(watch, "standard errors" if errors else "last pass")
    plain = replace(whitening, grain=None)
    solution = finish(source, mixture, end, options.method, tensors, record, revived, plain, errors)
    if whitening.grain is None:
        return solution
    return of_rounded(solution, full, mixture, whitening, narrow, errors)


def _ends_by_em(options: Options) -> bool:
    """Whether runs end by EM or AltMin on rows as the search has them."""
    return options.method != "vb" and options.resample is None


def _searched(
    problem: Problem,
    seen: AtHand,
    options: Options,
    watch: Watch | None,
    rng: np.random.Generator,
) -> tuple[Course, list[Parameters], int, tuple[TensorResult, ...], Record | None]:
    """Rows that were looked at last, starts, how many of them compete, and how they were found."""
    mixture, k = problem.mixture, problem.k
    distinct = seen.distinct()
    ladder = make_ladder(problem, seen, rng, distinct)
    if k > 1 and isinstance(options.init, str) and options.init == "auto":
        thorough = options.effort.thorough and options.method != "vb"
        effort = replace(options.effort, thorough=thorough)
        hunt = _kind_of_search(distinct, mixture, effort)(ladder, effort, rng, watch)
        record = hunt.run() if watch is None else watch.searched(hunt.run, rng)
        starts, contested = hunt.finalists(record)
        return hunt.top, starts, contested, record.tensors, record
    course = ladder.make(seen.rows, rng)
    if k > 1:
        tensors, starts = _given_starts(course, options, rng)
        return course, starts, 1, tensors, None
    return course, [mixture.prepare(course.whitening.start(k))], 1, (), None


def _course_anew(problem: Problem, options: Options) -> Course:
    """Rows as a search looks at them last."""
    rng = np.random.default_rng(options.seed)
    seen = seen_rows(problem, searched_rows(problem.source.columns), rng)
    return make_ladder(problem, seen, rng).make(seen.rows, rng)


def _same(course: Course) -> Course:
    return course


def _within(source: Source, course: Course, start: Parameters) -> Parameters:
    """A start whose means are in their range on all rows: those of a sample say less."""
    return feasible(source, course.mixture, start.stacked(), course.whitening.pooled).run(0)


def _begin(watch: Watch | None, stage: str) -> None:
    """Say which stage begins, to those who label what is done, and to who looks on."""
    stages.begin(stage)
    if watch is not None:
        watch.stage(stage)


def _kind_of_search(source: AtHand, mixture: Mixture, effort: Effort) -> type[Search]:
    """What the search looks at before it looks at rows."""
    if effort.n_init == 1:
        return Search
    if can_stand_in(source, mixture):
        return GroupedSearch
    return CellSearch if can_be_cut(source, mixture) else Search


def _given_starts(
    course: Course, options: Options, rng: np.random.Generator
) -> tuple[tuple[TensorResult, ...], list[Parameters]]:
    """The tensor's start, random directions, or what the user gave beside the rows."""
    init, k, mixture = options.init, course.k, course.mixture
    white = course.linear_whitening
    tensor = init if isinstance(init, TensorStart) else TensorStart(POWER_STARTS * k, POWER_STEPS)
    whole = isinstance(init, TensorStart) and course.whitening.linear is None
    data = course.sample if whole else course.linear
    tensors: tuple[TensorResult, ...] = ()
    if mixture.family.moments and (options.told or isinstance(init, TensorStart)):
        tensors = tuple(tensor_results(data, white.has_constant, k, tensor, rng))
    if isinstance(init, Parameters):
        return tensors, [mixture.prepare(init)]
    if isinstance(init, np.ndarray):
        return tensors, [from_given(course.sample, mixture, course.whitening, k).run(0)]
    safe = course.whitening.pooled
    variance = 0.5 * white.variance
    if isinstance(init, str):
        runs = options.effort.n_init
        coef = random_directions(k, runs, course.whitening, None, rng)
        spread = variance if course.whitening.linear is None else course.whitening.dispersion
        start = Parameters.uniform(coef, spread)
        start = feasible(course.source, mixture, mixture.prepare(start), safe)
        return tensors, [start.run(i) for i in range(runs)]
    starts = [course.lift(start_from(t, k, variance, rng).stacked()) for t in tensors]
    stack = feasible(course.source, mixture, Parameters.concatenate(starts), safe)
    stack = numbered(course.source, mixture, stack)
    if len(starts) == 1:
        return tensors, [stack.run(0)]
    # With an intercept there is one start for each trial noise variance; the
    # likelihood of the start itself chooses among them.
    scores = course.sample.sweep(SoftAssignment(mixture.common()), stack).objective
    return tensors, [stack.run(int(np.argmax(scores)))]


def _bayes(
    source: Source,
    course: Course,
    start: Parameters,
    options: Options,
    tensors: tuple[TensorResult, ...],
    record: Record | None,
    watch: Watch | None,
) -> Solution:
    """Variational Bayes from a start of maximum likelihood."""
    estimator = Variational(course.mixture, options.priors)
    pruned = run_vb(source, course.source, estimator, start, options.control, watch)
    _begin(watch, "last pass")
    return believed(source, course.mixture, pruned, tensors, record)
