"""Swap search: take a component away, seed it elsewhere, keep what is better.

EM cannot move a component across a valley of the likelihood. A swap can: it
hands one component's units to the others, seeds the component on units that
some few units' own fit explains well, takes a few EM steps, and finishes what
looks promising. Many swaps are tried as one stack of runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block, GramBlock
from mixreg.estimators.em import EM
from mixreg.estimators.expectation import normalise
from mixreg.estimators.loop import Control, Fit, iterate
from mixreg.mixture import Mixture, pinned
from mixreg.params import Parameters
from mixreg.sources.memory import BlockSource
from mixreg.search.candidates import from_responsibilities
from mixreg.search.chance import ranked, worth
from mixreg.search.course import Course
from mixreg.whitening import Whitening

Array = NDArray[np.float64]

BATCH = 24
SHORT = Control(max_iter=8, tol=0.0)
LONGER = Control(max_iter=16, tol=1e-7, leaps=True)
FINISH = Control(max_iter=150, tol=1e-7, leaps=True)


@dataclass(frozen=True, slots=True)
class SwapResult:
    """Where the search ended.

    Attributes
    ----------
    fit : Fit
        The best fit found.
    tried, accepted : int
        Swaps.
    spent : float
        Rows times iterations.
    """

    fit: Fit
    tried: int
    accepted: int
    spent: float


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


def finish_best(course: Course, fits: list[Fit], keep: int, control: Control) -> list[Fit]:
    """Run the best few of some short runs to the end, best first."""
    source, mixture, rows = course.source, course.mixture, course.rows
    best = ranked(source, mixture, fits, rows)[:keep]
    stack = Parameters.concatenate([fit.params.stacked() for fit in best])
    return ranked(source, mixture, iterate(source, EM(mixture), stack, control), rows)


def swap_search(
    course: Course,
    fit: Fit,
    patience: int,
    affordable: Callable[[float], bool],
    rng: np.random.Generator,
) -> SwapResult:
    """Defend a fit against swaps until `patience` of them in a row have failed.

    Parameters
    ----------
    course : Course
    fit : Fit
    patience : int
    affordable : callable
        Whether so many rows times iterations may have been spent.
    rng : Generator
    """
    source, mixture = course.source, course.mixture
    k, batch = fit.params.k, min(batch_size(source, fit.params.k), max(patience, 1))
    keep, rows = max(2, batch // 6), source.block.rows
    value = worth(source, mixture, [fit], course.rows)[0]
    tried = failed = accepted = 0
    spent = 0.0
    while failed < patience and affordable(spent) and fit.reason != "exact":
        removed = np.arange(tried, tried + batch) % k
        starts = swapped(source, mixture, course.whitening, fit.params, removed, rng)
        short = iterate(source, EM(mixture), starts, SHORT)
        longer = finish_best(course, short, keep, LONGER)
        spent += rows * sum(f.n_iter + 1 for f in (*short, *longer))
        least = fit.objective + 1e-6 * source.block.units**0.5
        hopeful = [f for f in longer if f.reason == "exact" or expected_end(f) > least]
        tried += batch
        failed += batch
        if not hopeful:
            continue
        ends = finish_best(course, hopeful, 4, FINISH)
        spent += rows * sum(f.n_iter + 1 for f in ends)
        best, high = ends[0], worth(source, mixture, ends[:1], course.rows)[0]
        if high > value + 1e-6 * source.block.units**0.5 or best.reason == "exact":
            fit, value, failed, accepted = best, high, 0, accepted + 1
    return SwapResult(fit, tried, accepted, spent)


def batch_size(source: BlockSource, k: int) -> int:
    """Swaps tried as one stack: more of them where data are few and overhead rules."""
    block = source.block
    each = block.units if isinstance(block, GramBlock) else block.rows
    return BATCH * int(np.clip(40_000 // (each * k * BATCH), 1, 4))


def expected_end(fit: Fit) -> float:
    """Where a run of EM is heading: its gains continued as a geometric series."""
    if fit.converged or len(fit.history) < 3:
        return fit.objective
    before, last = np.diff(fit.history[-3:])
    rate = min(last / before, 0.99) if before > 0 else 0.0
    return float(fit.objective + last * rate / (1 - rate)) if rate > 0 else fit.objective
