"""The final run from a start: EM finished by Newton steps, or AltMin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mixreg.estimators import EM, AltMin, Control, Newton, Run, iterate
from mixreg.estimators.lean import ended, lean
from mixreg.estimators.loop import Progress, joined
from mixreg.estimators.newton import SETTLED, ChordNewton
from mixreg.exact.thresholds import SOFT
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Source, Swept, wide_block

# EM hands over to Newton's steps when an iteration gains less than this a row, or after so many
# iterations if it gains no more than that a row any more.
HANDOVER, EM_STEPS, CRAWL = 1e-6, 30, 1e-2
# With many regressors an iteration of EM costs little, and the information of all components much
# (300 regressors, three components: a second).
WIDE_STEPS = 300
NEWTON_STEPS = 60
# Where Newton's steps have not ended a run, it ends at a gain of this a row (NPreg_yb of the
# references, whose likelihood has no maximum).
LAST_TOLERANCE = 1e-8
# Beyond this many rows EM hands over sooner, and Newton's steps share information: it is taken
# anew so often at most, for so many steps each. Runs that start near a maximum go without EM.
# At once from anywhere, starts from random labels take ten times as long (cps1988 of
# `benchmarks search --real`, k = 3 and 4).
MANY_ROWS, SOONER, INFORMATIONS, SHARED_STEPS = 20_000, 1e-4, 4, 10
# Gain that may be left on a sample: the run on all rows has far more to gain.
POLISHED = 1e-2
# Variances of a response with unit variance below which EM may be on its way to an exact fit.
SMALL = 1e-8
# Beyond so many times the mean square of an exact fit, one is not looked for.
FAR_FROM_EXACT = 1e3


def run_em(
    source: Source,
    mixture: Mixture,
    start: Parameters,
    control: Control,
    progress: Progress | None = None,
) -> Run:
    """EM, then Newton steps, then EM again if the steps did not settle it."""
    many = has_many(source, mixture) and control.tol <= HANDOVER
    begun: Run | None = None
    if many and control.near and _is_regular(mixture, start):
        begun = _shared_steps(source, mixture, start, control, progress)[0]
        if begun.reason == "converged":
            return begun
        start, control = begun.params, _left(control, begun)
    handover = SOONER if many else HANDOVER
    first = replace(control, tol=max(control.tol, handover), leaps=True)
    fit, em = _first_run(source, mixture, start, first, progress)
    fit = fit if begun is None else joined(begun, fit)
    crawls = fit.reason == "max_iter" and _left(control, fit).max_iter > 0
    if not (crawls or fit.reason == "converged") or control.tol > HANDOVER:
        return fit
    sure = ended(source, mixture, fit)
    if sure is not None:
        return sure
    if many and _is_regular(mixture, fit.params):
        end = _shared_steps(source, mixture, fit.params, _left(control, fit), progress)[0]
        if not mixture.family.bound_binds(end.params):
            fit = joined(fit, end)
            if fit.reason == "converged":
                return fit
    for rest in (EM_STEPS, None):
        fit = joined(fit, newton_steps(source, mixture, fit.params, _left(control, fit), progress))
        left = _left(control, fit)
        if fit.reason == "converged" or not left.max_iter:
            return fit
        if rest is not None and fit.reason == "max_iter":
            # Where the region is narrow EM leads on.
            some = replace(left, max_iter=min(rest, left.max_iter), leaps=True)
            on = lean(em, source)
            fit = joined(fit, iterate(source, on, fit.params.stacked(), some, progress)[0])
    left = _left(control, fit)
    if not any(part.ranged for part in mixture.family.parts):
        # What is left then are parameters that run off, at a pace that falls for ever.
        left = replace(left, tol=max(control.tol, LAST_TOLERANCE))
    return joined(fit, iterate(source, lean(em, source), fit.params.stacked(), left, progress)[0])


def polished(
    sample: Source, source: Source, mixture: Mixture, start: Parameters, control: Control
) -> Parameters:
    """A start of a run on all rows: the maximum of a sample, or nearly, and a step from there.

    Information of a sample does for that step, which is the longest. That of all rows is then
    taken where it changes least on the way that is left.
    """
    if not has_many(sample, mixture) or not _is_regular(mixture, start):
        return start
    fit, newton = _shared_steps(sample, mixture, start, control, None, POLISHED)
    if fit.reason != "converged":
        found: Parameters = run_em(sample, mixture, fit.params, control).params
        return found
    after = newton.on(source, fit.params, sample.row_weight / source.row_weight)
    return fit.params if mixture.family.bound_binds(after) else after


def nearest_top(
    source: Source, mixture: Mixture, start: Parameters, control: Control
) -> Run | None:
    """The maximum that a run has come near to, where Newton's steps share one information.

    None where these do not settle.
    """
    if not mixture.family.moments or not _is_regular(mixture, start):
        return None
    fit = _shared_steps(source, mixture, start, replace(control, leaps=False), None)[0]
    return fit if fit.settled else None


def has_many(source: Source, mixture: Mixture) -> bool:
    """Whether rows are so many that Newton's steps share one information."""
    return source.rows > MANY_ROWS and mixture.family.moments


def _left(control: Control, fit: Run) -> Control:
    """What a run may still take."""
    return replace(control, max_iter=max(0, control.max_iter - fit.n_iter))


def _is_regular(mixture: Mixture, params: Parameters) -> bool:
    """Whether no variance is at its bound, or next to nothing."""
    family = mixture.family
    small = family.certifies and float(params.dispersion.max()) < FAR_FROM_EXACT * SOFT
    return not small and not family.bound_binds(params)


def newton_steps(
    source: Source,
    mixture: Mixture,
    start: Parameters,
    control: Control,
    progress: Progress | None = None,
) -> Run:
    """Newton's steps in a trust region, with the information of each point.

    They end at a maximum from anywhere, also on flat ground, where EM crawls; the
    log-likelihood never falls.
    """
    newton = Newton(mixture, standard_layout(mixture, start), source.row_weight)
    steps = replace(control, max_iter=min(NEWTON_STEPS, control.max_iter))
    fit = iterate(source, newton, start.stacked(), steps, progress)[0]
    return replace(fit, steps=fit.n_iter)


def _shared_steps(
    source: Source,
    mixture: Mixture,
    start: Parameters,
    control: Control,
    progress: Progress | None,
    enough: float = SETTLED,
) -> tuple[Run, ChordNewton]:
    """Newton's steps that share information; not converged if it shows no maximum."""
    layout, fit = standard_layout(mixture, start), None
    for _ in range(INFORMATIONS):
        params = start if fit is None else fit.params
        newton = ChordNewton.at(params, mixture, layout, source, enough)
        if fit is None:
            height = newton.begin.objective
            fit = Run(start, float(height[0]), height, "max_iter", 0)
        left = _left(control, fit)
        if not newton.below_a_maximum or not left.max_iter:
            break
        steps = replace(left, max_iter=min(SHARED_STEPS, left.max_iter))
        end = iterate(source, newton, params.stacked(), steps, progress)[0]
        if mixture.family.bound_binds(end.params):
            break
        fit = joined(fit, end)
        if fit.settled:
            return fit, newton
    assert fit is not None
    return replace(fit, reason="max_iter"), newton


def _first_run(
    source: Source,
    mixture: Mixture,
    start: Parameters,
    control: Control,
    progress: Progress | None,
) -> tuple[Run, EM]:
    """EM until its steps are small, or it crawls, or its residuals vanish."""
    em = EM(mixture)
    # Long groups are condensed for EM; the finish, and its numbers, are on rows.
    data: Swept = source.shortest() if mixture.family.linear else source
    rows = source.row_weight
    fit = _until_it_crawls(data, lean(em, data), start, control, progress, rows)
    if fit.reason == "exact":
        # Hard labels take an exact fit from small residuals to none.
        hard = iterate(source, AltMin(_hard(mixture)), fit.params.stacked(), control)[0]
        if hard.reason == "exact":
            return replace(hard, history=fit.history, n_iter=fit.n_iter + hard.n_iter), em
        # The noise is tiny but there: EM goes on, and is not stopped by it.
        em = EM(mixture, exact=0.0)
        return joined(fit, iterate(source, em, fit.params.stacked(), control, progress)[0]), em
    if data is not source and fit.reason == "decreased":
        # Cross products resolve residuals only down to rounding; rows do better.
        left = _left(control, fit)
        again = _until_it_crawls(source, em, fit.params, left, progress, rows)
        # What cross products say of the height may be rounding too.
        high = again.history[0] >= fit.objective - 1e-8 * (1 + abs(fit.objective))
        return joined(fit, again) if high else again, em
    return fit, em


def _until_it_crawls(
    source: Swept,
    em: EM,
    start: Parameters,
    control: Control,
    progress: Progress | None,
    rows: float,
) -> Run:
    """EM with leaps, some iterations at a time while they gain much, or variances vanish."""
    fit: Run | None = None
    while True:
        at, left = (start, control) if fit is None else (fit.params, _left(control, fit))
        each = EM_STEPS if wide_block(source) is None else WIDE_STEPS
        some = replace(left, max_iter=min(each, left.max_iter))
        more = iterate(source, em, at.stacked(), some, progress)[0]
        fit = more if fit is None else joined(fit, more)
        family, tail = em.mixture.family, fit.history[-4:]
        gains = float(tail[-1] - tail[0]) / max(1, len(tail) - 1)
        small = family.certifies and float(fit.params.dispersion.min()) < SMALL
        if fit.reason != "max_iter" or fit.n_iter >= control.max_iter:
            return fit
        if (gains < CRAWL * rows and not small) or not more.n_iter:
            return fit


def run_altmin(
    source: Source,
    mixture: Mixture,
    start: Parameters,
    control: Control,
    progress: Progress | None = None,
) -> Run:
    """The paper's alternating minimisation."""
    return iterate(source, AltMin(_hard(mixture)), start.stacked(), control, progress)[0]


def run_resampled(
    source: Source,
    mixture: Mixture,
    start: Parameters,
    parts: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Run:
    """The same with a fresh part of the data in each iteration."""
    fresh = tuple(source.split(parts, int(rng.integers(2**63))))
    hard = AltMin(_hard(mixture), fresh)
    fit = iterate(source, hard, start.stacked(), Control(parts), progress)[0]
    return replace(fit, reason="resampled")


def _hard(mixture: Mixture) -> Mixture:
    """The mixture whose M-step minimises squares, also where coefficients are shared."""
    return mixture.common() if mixture.family.linear else mixture


def standard_layout(mixture: Mixture, params: Parameters) -> Layout:
    """The flat vector of a mixture in standard coordinates."""
    family, (k, p) = mixture.family, params.coef.shape
    return Layout(
        k,
        ("",) * p,
        family.equal_dispersion,
        family.scale_name,
        family.scale_power,
        tuple(range(p - mixture.shared, p)),
        ("",) * mixture.gate.terms,
        mixture.background is not None,
        mixture.absent,
    )
