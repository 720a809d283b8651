"""The final run from a start: EM finished by Newton steps, or AltMin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mixreg.estimators import EM, AltMin, Control, Fit, Newton, iterate
from mixreg.estimators.loop import Progress, joined
from mixreg.estimators.newton import ChordNewton
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Source, Swept

# EM hands over to Newton steps when an iteration gains less than this a row.
HANDOVER = 1e-6
NEWTON_STEPS = 25
# Beyond this many rows EM hands over sooner, at once if it starts near a maximum, and Newton's
# steps share one information, of at most so many rows. At once from anywhere, starts from random
# labels take ten times as long (cps1988 of `benchmarks search --real`, k = 3 and 4).
MANY_ROWS, SOONER, AT_ONCE, SHARED_ROWS, SHARED_STEPS = 20_000, 1e-4, 1e-2, 25_000, 10


def run_em(
    source: Source,
    mixture: Mixture,
    start: Parameters,
    control: Control,
    progress: Progress | None = None,
) -> Fit:
    """EM, then Newton steps, then EM again if the steps did not settle it."""
    many = has_many(source, mixture)
    handover = HANDOVER
    if many and control.tol <= HANDOVER:
        handover = AT_ONCE if control.near else SOONER
    first = replace(control, tol=max(control.tol, handover), leaps=True)
    fit, em = _first_run(source, mixture, start, first, progress)
    if fit.reason != "converged" or control.tol > HANDOVER:
        return fit
    left = replace(control, max_iter=max(0, control.max_iter - fit.n_iter))
    if not mixture.family.bound_binds(fit.params):
        layout = standard_layout(mixture, start)
        if many:
            fit = _shared_steps(source, mixture, layout, fit, left, progress)
            if fit.reason == "converged":
                return fit
            left = replace(control, max_iter=max(0, control.max_iter - fit.n_iter))
        newton = Newton(mixture, layout, source.row_weight)
        steps = replace(left, max_iter=min(NEWTON_STEPS, left.max_iter))
        end = iterate(source, newton, fit.params.stacked(), steps, progress)[0]
        if not mixture.family.bound_binds(end.params):
            fit = joined(fit, end)
            if fit.reason == "converged":
                return fit
    left = replace(control, max_iter=max(0, control.max_iter - fit.n_iter))
    return joined(fit, iterate(source, em, fit.params.stacked(), left, progress)[0])


def has_many(source: Source, mixture: Mixture) -> bool:
    """Whether rows are so many that Newton's steps share one information."""
    return source.rows > MANY_ROWS and mixture.family.moments


def _shared_steps(
    source: Source,
    mixture: Mixture,
    layout: Layout,
    fit: Fit,
    control: Control,
    progress: Progress | None,
) -> Fit:
    """Newton's steps that share one information; not converged if it shows no maximum."""
    sample = source.sample(SHARED_ROWS, 0)
    rows = source.row_weight
    newton = ChordNewton.at(fit.params, mixture, layout, sample, sample.row_weight / rows, rows)
    if newton.values[0] <= 0:
        return replace(fit, reason="max_iter")
    steps = replace(control, max_iter=min(SHARED_STEPS, control.max_iter))
    end = iterate(source, newton, fit.params.stacked(), steps, progress)[0]
    if mixture.family.bound_binds(end.params):
        return replace(fit, reason="max_iter")
    if end.reason == "converged":
        params, done = newton.settled(source, end.params)
        end = replace(end, params=params, reason="converged" if done else "max_iter")
    return joined(fit, end)


def _first_run(
    source: Source,
    mixture: Mixture,
    start: Parameters,
    control: Control,
    progress: Progress | None,
) -> tuple[Fit, EM]:
    """EM until its steps are small or its residuals vanish."""
    em = EM(mixture)
    # Long groups are condensed for EM; the finish, and its numbers, are on rows.
    data: Swept = source.shortest() if mixture.family.linear else source
    fit = iterate(data, em, start.stacked(), control, progress)[0]
    if fit.reason == "exact":
        # Hard labels take an exact fit from small residuals to none.
        hard = iterate(source, AltMin(_hard(mixture)), fit.params.stacked(), control)[0]
        if hard.reason == "exact":
            return replace(hard, history=fit.history, n_iter=fit.n_iter + hard.n_iter), em
        # The noise is tiny but there: EM goes on, and is not stopped by it.
        em = EM(mixture, exact=0.0)
        return joined(fit, iterate(source, em, fit.params.stacked(), control, progress)[0]), em
    if data is not source and fit.reason != "converged":
        # Cross products resolve residuals only down to rounding; rows do better.
        return joined(fit, iterate(source, em, fit.params.stacked(), control, progress)[0]), em
    return fit, em


def run_altmin(
    source: Source,
    mixture: Mixture,
    start: Parameters,
    control: Control,
    progress: Progress | None = None,
) -> Fit:
    """The paper's alternating minimisation."""
    return iterate(source, AltMin(_hard(mixture)), start.stacked(), control, progress)[0]


def run_resampled(
    source: Source,
    mixture: Mixture,
    start: Parameters,
    parts: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Fit:
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
