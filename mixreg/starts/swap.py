"""Swap search: take a component away, seed it elsewhere, keep what is better.

EM cannot move a component across a valley of the likelihood. A swap can: it
hands one component's units to the others, seeds the component on units that
some few units' own fit explains well, takes a few EM steps, and finishes what
looks promising. Many swaps are tried as one stack of runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block, GramBlock
from mixreg.estimators.em import EM
from mixreg.estimators.expectation import normalise
from mixreg.estimators.loop import Control, Fit, Progress, iterate
from mixreg.gating import log_prior
from mixreg.mixture import Mixture, pinned
from mixreg.params import Parameters
from mixreg.sources.memory import BlockSource
from mixreg.starts.candidates import from_responsibilities
from mixreg.starts.spurious import suspects
from mixreg.whitening import Whitening

Array = NDArray[np.float64]

BATCH = 24
SHORT = Control(max_iter=8, tol=0.0)
LONGER = Control(max_iter=20, tol=1e-7)
FINISH = Control(max_iter=200, tol=1e-7)


@dataclass(frozen=True, slots=True)
class SwapResult:
    """Where the search ended.

    Attributes
    ----------
    fit : Fit
        The best fit found.
    tried, accepted : int
        Swaps.
    """

    fit: Fit
    tried: int
    accepted: int


def seed_masks(
    source: BlockSource,
    mixture: Mixture,
    whitening: Whitening,
    misfit: Array,
    runs: int,
    rng: np.random.Generator,
) -> Array:
    """Units on which to seed a component, (runs, units) of zeros and ones.

    A few units are drawn, half of the time those that the current fit explains
    badly; their own fit is made, and the units it explains best are taken.
    """
    block = source.block
    units, p = block.units, whitening.pooled.shape[0]
    alone = isinstance(block, GramBlock) and float(np.median(block.size)) > p
    few = 1 if alone else p + 1
    masks = np.zeros((1, runs, units))
    bad = misfit / misfit.sum()
    for run in range(runs):
        odds = bad if run % 2 else None
        drawn = rng.choice(units, min(few, units), replace=False, p=odds)
        masks[0, run, drawn] = 1.0
    # Where one step is not the fit, a little of all units keeps it from going wild.
    little = 0.0 if mixture.family.linear else 0.5 * few / units
    alone_in = replace(mixture, shared=0, absent=())
    own = from_responsibilities(source, alone_in, whitening, masks + little)
    own = replace(own, gating=own.gating[:1])
    family = mixture.family
    state = family.evaluate(block, own)  # type: ignore[arg-type]
    per_row = family.unit_misfit(block, own, state)[0] / block.size  # type: ignore[arg-type]
    least = min(units, 2 if alone else 2 * (p + 1))
    most = max(least + 1, units // 4)
    for run in range(runs):
        take = int(rng.integers(least, most + 1))
        masks[0, run] = 0.0
        masks[0, run, np.argpartition(per_row[run], min(take, units - 1))[:take]] = 1.0
    return np.asarray(masks[0])


def swapped(
    source: BlockSource,
    mixture: Mixture,
    whitening: Whitening,
    params: Parameters,
    removed: NDArray[np.intp],
    rng: np.random.Generator,
) -> Parameters:
    """A stack of starts, in each of which one component was moved."""
    runs, block = len(removed), source.block
    family = mixture.family
    state = family.evaluate(block, params)  # type: ignore[arg-type]
    joint = mixture.log_joint(block, params, state)
    if family.linear:
        misfit = -np.logaddexp.reduce(joint, axis=0) / block.size
    else:
        misfit = family.unit_misfit(block, params, state).min(axis=0) / block.size  # type: ignore[arg-type]
    joint = joint[: params.k]
    misfit = np.argsort(np.argsort(misfit)).astype(float) + 1.0
    stack = np.repeat(joint[:, None], runs, axis=1)
    stack[removed, np.arange(runs)] = -np.inf
    stack = np.maximum(stack, -1e300)
    normalise(stack)
    masks = seed_masks(source, mixture, whitening, misfit, runs, rng)
    stack *= 1 - masks
    stack[removed, np.arange(runs)] = masks
    return from_responsibilities(source, mixture, whitening, fix_known(block, stack))


def fix_known(block: Block | GramBlock, resp: Array) -> Array:
    """Responsibilities (k, ..., units) with known labels as they are known."""
    if block.known is None:
        return resp
    resp = pinned(block, resp, 0.0)
    units = np.flatnonzero((block.known >= 0) & (block.known < resp.shape[0]))
    resp[block.known[units], ..., units] = 1.0
    return resp


def ranked(source: BlockSource, mixture: Mixture, fits: list[Fit]) -> list[Fit]:
    """Best first; fits with a component that chance explains come last."""

    def key(fit: Fit) -> tuple[bool, float]:
        return is_suspect(source, mixture, fit), -fit.objective

    return sorted(fits, key=key)


def is_suspect(source: BlockSource, mixture: Mixture, fit: Fit) -> bool:
    """Whether some component may be an accident of a few rows."""
    block = source.block
    if not mixture.family.collapses or fit.reason == "exact":
        return False
    if isinstance(block, GramBlock) or block.starts is not None:
        return False
    prior = np.exp(log_prior(block, fit.params))[: fit.params.k]
    weights = np.average(np.broadcast_to(prior, (len(prior), block.units)), axis=1)
    rows = block.rows if block.weight is None else float(block.weight.sum())
    return bool(suspects(fit.params, weights, rows).any())


def finish_best(
    source: BlockSource, mixture: Mixture, fits: list[Fit], keep: int, control: Control
) -> list[Fit]:
    """Run the best few of some short runs to the end, best first."""
    best = ranked(source, mixture, fits)[:keep]
    stack = Parameters.concatenate([fit.params.stacked() for fit in best])
    return ranked(source, mixture, iterate(source, EM(mixture), stack, control))


def swap_search(
    source: BlockSource,
    mixture: Mixture,
    whitening: Whitening,
    fit: Fit,
    patience: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> SwapResult:
    """Defend a fit against swaps until `patience` of them in a row have failed."""
    k, batch = fit.params.k, batch_size(source, fit.params.k)
    keep = 4 * batch // BATCH
    tried = failed = accepted = 0
    while failed < patience and tried < 2 * patience and fit.reason != "exact":
        if progress is not None:
            progress(tried, fit.objective)
        removed = np.arange(tried, tried + batch) % k
        starts = swapped(source, mixture, whitening, fit.params, removed, rng)
        short = iterate(source, EM(mixture), starts, SHORT)
        longer = finish_best(source, mixture, short, keep, LONGER)
        least = fit.objective + 1e-6 * source.block.units**0.5
        hopeful = [f for f in longer if f.reason == "exact" or expected_end(f) > least]
        tried += batch
        failed += batch
        if not hopeful:
            continue
        best = finish_best(source, mixture, hopeful, 4, FINISH)[0]
        if is_suspect(source, mixture, best) and not is_suspect(source, mixture, fit):
            continue
        if best.objective > least or best.reason == "exact":
            fit, failed, accepted = best, 0, accepted + 1
    return SwapResult(fit, tried, accepted)


def batch_size(source: BlockSource, k: int) -> int:
    """Swaps tried as one stack: more of them where data are few and overhead rules."""
    block = source.block
    each = block.units if isinstance(block, GramBlock) else block.rows
    return BATCH * int(np.clip(40_000 // (each * k * BATCH), 1, 4))


def affordable(source: BlockSource, mixture: Mixture, k: int, p: int, budget: float) -> int:
    """Swaps that a budget of about so many multiplications pays for.

    Counted, not timed, so that the same call gives the same result everywhere.
    """
    steps = BATCH * SHORT.max_iter + 4 * LONGER.max_iter + 2 * FINISH.max_iter
    linear = mixture.family.linear
    # Rows of other families are seen one by one, and cost logarithms.
    rows = source.block.units if linear else source.block.rows  # type: ignore[union-attr]
    batch = steps * k * rows * (p * (p + 1) / 2 + (60 if linear else 200))
    return BATCH * max(4, int(budget / batch))


def expected_end(fit: Fit) -> float:
    """Where a run of EM is heading: its gains continued as a geometric series."""
    if fit.converged or len(fit.history) < 3:
        return fit.objective
    before, last = np.diff(fit.history[-3:])
    rate = min(last / before, 0.99) if before > 0 else 0.0
    return float(fit.objective + last * rate / (1 - rate)) if rate > 0 else fit.objective
