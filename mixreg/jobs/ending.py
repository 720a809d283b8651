"""How a fit ends: the best of the finalists, at its maximum, with all that is reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.estimators import Control, Newton, Run, iterate
from mixreg.estimators.altmin import HardGate
from mixreg.estimators.expectation import HardAssignment, MixtureStatistics, SoftAssignment
from mixreg.estimators.loop import StopReason, closed
from mixreg.estimators.pruning import Pruned
from mixreg.estimators.runs import (
    has_many,
    run_altmin,
    run_em,
    standard_layout,
)
from mixreg.exact.certificate import certified, find_own_rows
from mixreg.exact.reasons import WhyTight, find_reasons, tight_components
from mixreg.exact.thresholds import HARD
from mixreg.inference.averages import GateSums, average_gate
from mixreg.inference.last_pass import ending_sums, last_pass
from mixreg.jobs.problem import Options, Solution
from mixreg.jobs.progress import Watch
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.candidates import (
    numbered,
)
from mixreg.search.chance import milder, ranked, suspects, tightness, worth
from mixreg.search.constants import ALIKE, EMPTY
from mixreg.search.course import Course, race
from mixreg.search.moves import swapped
from mixreg.search.ranges import no_means
from mixreg.search.record import Maximum, Record, chance_of_better, merged
from mixreg.search.tensor import TensorResult
from mixreg.sources import Source
from mixreg.sources.standard import Whitening

Array = NDArray[np.float64]

# A component that holds less than this many rows, of average weight, has emptied.
EMPTY_ROWS = 1.0
# A component with more units than this, by its weight, has surely not.
MANY_UNITS = 10.0
# Beyond so many rows, at most so many finalists are run to the end.
MANY_ROWS, FEWER = 2_000, 6
# A fall of the log-likelihood beyond this share is more than rounding, and shares of the way to
# safe coefficients at which a fit on the edge of the range of means is looked at.
ROUNDING, ASIDE = 1e-9, (1e-13, 1e-11, 1e-9, 1e-7, 1e-5)
# Newton steps that finish a gate on hard labels.
GATE = Control(max_iter=50, tol=1e-14)


@dataclass(frozen=True, slots=True)
class RunWithSums:
    """Where a run ended, and the sums there if a pass was made.

    Attributes
    ----------
    run : Run
    soft : MixtureStatistics or None
    gate : GateSums or None
    hard : MixtureStatistics or None
        Of hard labels.
    """

    run: Run
    soft: MixtureStatistics | None = None
    gate: GateSums | None = None
    hard: MixtureStatistics | None = None


def at_the_maximum(source: Source, mixture: Mixture, fit: Run) -> RunWithSums:
    """The fit with a last Newton step taken, if it ended near a maximum within bounds."""
    if fit.reason != "converged" or mixture.family.bound_binds(fit.params):
        return RunWithSums(fit)
    # Where rows are many the run has settled, and information of all costs as much as ten passes.
    if not (fit.settled or has_many(source, mixture)):
        newton = Newton(mixture, standard_layout(mixture, fit.params), source.row_weight)
        sums = newton.sweep(source, 0, fit.params.stacked())
        fit = closed(source, newton, fit, newton.close(sums, fit.params))
    if mixture.gate.closed_form:
        return RunWithSums(fit)
    return RunWithSums(fit, *ending_sums(source, mixture, fit.params))


def every_end(
    source: Source,
    mixture: Mixture,
    starts: list[Parameters],
    run: Any,
    control: Control,
    watch: Watch | None,
    tensors: tuple[TensorResult, ...],
) -> tuple[Run, Record | None]:
    """Run all starts to the end, which the user asked for; the best of them, and where all ended.

    There is no record of AltMin, which has losses to tell, and no likelihoods.
    """
    ends = [_ended(run, source, mixture, start, control, watch) for start in starts]
    if run is run_altmin:
        return max(ends, key=lambda end: end.objective), None
    rows = source.row_weight
    found = merged([Maximum(end, ("random",)) for end in ends], rows)
    # Ends of one maximum are counted together; the one that is reported may not be the highest.
    order = ranked(source, mixture, [each.run for each in found], rows)
    maxima = sorted(found, key=lambda each: next(i for i, r in enumerate(order) if r is each.run))
    exact = order[0].reason == "exact"
    chance = 0.0 if exact else chance_of_better(maxima, len(ends))
    levels = (source.rows,)
    return order[0], Record(
        order[0], tuple(maxima), len(ends), chance, 0, 0, levels, exact, tensors
    )


def best_end(
    source: Source,
    mixture: Mixture,
    starts: list[Parameters],
    contested: int,
    run: Any,
    control: Control,
    watch: Watch | None,
) -> Run:
    """Run the finalists to the end, on all rows; the best of them.

    Parameters
    ----------
    starts : list of Parameters
        What the search found, best first.
    contested : int
        So many are run in any case; others, and at last milder starts, only
        while chance explains part of every end.
    """
    ends: list[Run] = []
    most = len(starts) if source.rows <= MANY_ROWS else FEWER
    for number, start in enumerate(starts[:most]):
        if number >= contested and not is_accident(source, mixture, ends):
            break
        ends.append(_ended(run, source, mixture, start, control, watch))
        if run is run_altmin:
            break
    if len(ends) == 1:
        return ends[0]
    order = ranked(source, mixture, ends, source.row_weight)
    collapsing = mixture.family.collapsing
    # With one dispersion for all there is no milder one.
    free = any(part.collapses and not part.equal_dispersion for part in mixture.family.parts)
    free = free and mixture.exchangeable
    if free and is_accident(source, mixture, ends):
        # The search saw accidents only: there are milder fits, which it had no reason to look for.
        mild = milder(order[0].params, collapsing)
        ends += [_ended(run, source, mixture, start, control, watch) for start in mild]
        order = ranked(source, mixture, ends, source.row_weight)
    if mixture.family.collapses and is_accident(source, mixture, ends):
        # What is left of each is a fit with a component less: of those that are as good
        # without it, take the one with the mildest accident.
        value = worth(source, mixture, order, source.row_weight)
        if value[0] < -EMPTY:
            # A wild response leaves no numbers to compare: the search has its way.
            return ends[0]
        alike = [end for end, v in zip(order, value, strict=True) if v >= value[0] - ALIKE]
        return max(alike, key=lambda end: round(tightness(end.params, collapsing), 3))
    return order[0]


def _ended(
    run: Any,
    source: Source,
    mixture: Mixture,
    start: Parameters,
    control: Control,
    watch: Watch | None,
) -> Run:
    """A run to the end, which somebody may look at, or have seen before."""
    if watch is None:
        fit: Run = run(source, mixture, start, control)
        return fit
    return watch.ended(start, lambda: [run(source, mixture, start, control, watch)])


def is_accident(source: Source, mixture: Mixture, ends: list[Run]) -> bool:
    """Whether chance explains part of every fit."""
    values = worth(source, mixture, ends, source.row_weight)
    return all(v < end.objective for v, end in zip(values, ends, strict=True))


def renumbered(source: Source, mixture: Mixture, params: Parameters) -> Parameters:
    """The same mixture with components numbered as known labels say."""
    if not mixture.labelled:
        return params
    return numbered(source, mixture, params.stacked()).run(0)


def settled_numbers(source: Source, mixture: Mixture, fit: Run, run: Any, control: Control) -> Run:
    """Run again where a fit ended with numbers that known labels speak against."""
    other = renumbered(source, mixture, fit.params)
    if np.array_equal(other.coef, fit.params.coef):
        return fit
    again = run(source, mixture, other, control)
    return again if again.objective > fit.objective else fit


def emptied(sums: MixtureStatistics, rows: int) -> NDArray[np.intp]:
    """Components that hold next to no rows."""
    size = sums.family.size[:, 0]
    return np.flatnonzero(size < EMPTY_ROWS * size.sum() / rows)


def revive(
    source: Source,
    mixture: Mixture,
    again: Callable[[], Course],
    end: RunWithSums,
    options: Options,
    rng: np.random.Generator,
) -> tuple[RunWithSums, int]:
    """Seed components that emptied somewhere else, a few times; keep what is better.

    `again` makes the rows that are looked at.
    """
    hard, fit = options.method == "altmin", end.run
    task = HardAssignment(mixture) if hard else SoftAssignment(mixture)
    run = run_altmin if hard else run_em
    least = fit.params.weights[: fit.params.k].min() * source.total_weight
    if not hard and mixture.gate.closed_form and least > MANY_UNITS:
        # Weights are shares of the units, at the end of EM: no pass is needed to tell.
        return end, 0
    sums = end.soft if end.soft is not None else source.sweep(task, fit.params.stacked())
    tries = 0
    while tries < 3 and fit.params.k > 1 and emptied(sums, source.rows).size:
        tries += 1
        course = again()
        data = course.source
        removed = np.resize(emptied(sums, source.rows), 12)
        starts = swapped(data, mixture, course.whitening, fit.params, removed, rng)
        ends = race(course, starts)
        best = ranked(data, mixture, ends, course.rows)[0]
        new = run(source, mixture, best.params, options.control)
        new_sums = source.sweep(task, new.params.stacked())
        if new_sums.objective[0] > sums.objective[0]:
            fit, sums, end = new, new_sums, at_the_maximum(source, mixture, new)
    return replace(end, hard=sums) if hard else end, tries


def finish(
    source: Source,
    mixture: Mixture,
    end: RunWithSums,
    method: str,
    tensors: tuple[TensorResult, ...],
    record: Record | None,
    revived: int,
    whitening: Whitening,
    errors: bool,
) -> Solution:
    """Order the components and add up what is reported where the fit ended.

    Neither a last step that no pass checked nor the user's coordinates, which are rounded, may
    lower the likelihood: then what was checked is reported, or a point beside it.
    """
    asked = (method, tensors, record, revived, whitening, errors)
    solution = _finished(source, mixture, end, *asked)
    fit, best = end.run, float(end.run.history[-1]) if method == "em" else -1e300
    if solution.exact or not fell(best, solution.run.objective):
        return solution
    checked = fit.params if fit.checked is None else fit.checked
    inside = checked.coef if whitening.safe is None else whitening.safe
    for share in (0.0, *ASIDE):
        coef = (1 - share) * checked.coef + share * inside
        beside = replace(checked, coef=coef)
        # What is absent stays absent.
        beside = beside if not mixture.absent else mixture.prepare(beside)
        other = RunWithSums(replace(fit, params=beside))
        found = _finished(source, mixture, other, *asked)
        if found.run.objective > solution.run.objective:
            solution = found
        if not fell(best, solution.run.objective):
            break
    if np.isneginf(solution.run.objective):
        raise no_means(next((part for part in mixture.family.parts if part.ranged), mixture.family))
    reason: StopReason = "edge" if share else solution.run.reason
    if fell(best, solution.run.objective):
        reason = "decreased"
    return replace(solution, run=replace(solution.run, reason=reason))


def fell(before: float, after: float) -> bool:
    """Whether a log-likelihood is lower than before by more than rounding."""
    return bool(np.isneginf(after) or not after >= before - ROUNDING * (1 + abs(before)))


def _finished(
    source: Source,
    mixture: Mixture,
    end: RunWithSums,
    method: str,
    tensors: tuple[TensorResult, ...],
    record: Record | None,
    revived: int,
    whitening: Whitening,
    errors: bool,
) -> Solution:
    """What is reported at the parameters where a fit ended."""
    family, fit, params = mixture.family, end.run, end.run.params
    chance: tuple[int, ...] = ()
    exact = False
    if method == "altmin" or fit.reason == "exact":
        hard = end.hard or source.sweep(HardAssignment(mixture), params.stacked())
        exact = float(family.mean_square(hard.family)[0]) < HARD and mixture.background is None
    if method == "altmin":
        params = weighed(source, mixture, params, hard)
    if mixture.exchangeable:
        gate = end.gate if end.gate is not None else average_gate(source, mixture.gate, params)
        params = params.by_weight(gate.average)
    # What is reported is the likelihood at the parameters as the user gets them.
    user = whitening.to_user(params)
    params = params if exact else whitening.from_user(user)
    last = last_pass(source, mixture, params, method == "altmin", exact, errors)
    objective = np.inf if exact else float(last.soft.objective[0])
    empty = tuple(int(j) for j in emptied(last.soft, source.rows)) if params.k > 1 else ()
    if not exact:
        chance = suspects(source, mixture, params)
    history, reason = fit.history, fit.reason
    if method == "em" and not exact:
        height = float(history[-1])
        history = np.append(history[:-1], height if fell(height, objective) else objective)
    proved = False
    if exact:
        own = find_own_rows(source, mixture, params, whitening)
        proved = certified(own, mixture, params, whitening)
        reason = "exact"
        history = np.append(history, np.inf) if method == "em" else history
    binds = family.bound_binds(params)
    reasons: tuple[WhyTight, ...] = ()
    if family.certifies and (binds or (exact and not proved)):
        tight = tight_components(params, exact, family.variance_ratio)
        reasons = find_reasons(source, mixture, params, whitening, tight, exact)
    return Solution(
        Run(params, objective, history, reason, fit.n_iter),
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
        user=user,
    )


def believed(
    source: Source,
    mixture: Mixture,
    pruned: Pruned,
    tensors: tuple[TensorResult, ...],
    record: Record | None,
) -> Solution:
    """What is reported of variational Bayes where it ended."""
    last = last_pass(source, mixture, pruned.run.params, complete=True)
    if np.isneginf(last.soft.objective[0]) and mixture.family.ranged:
        part = next(part for part in mixture.family.parts if part.ranged)
        raise InputError(
            f"the posterior means lie where link={part.link_name!r} of family={part.name!r} has no "
            "mean for some observations; use method='em', or a link that has means everywhere"
        )
    return Solution(
        replace(pruned.run, objective=float(last.soft.objective[0])),
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
        elbo=pruned.run.objective,
    )


def weighed(
    source: Source, mixture: Mixture, params: Parameters, hard: MixtureStatistics
) -> Parameters:
    """Dispersions and weights from hard labels, which AltMin does without."""
    dispersion = mixture.family.label_dispersions(hard.family, params)
    params = replace(params, dispersion=dispersion)
    if not mixture.gate.closed_form:
        gate: Parameters = iterate(source, HardGate(mixture), params.stacked(), GATE)[0].params
        return gate
    return replace(params, gating=mixture.gate.update(hard.count, hard.gate, params)[:, 0])
