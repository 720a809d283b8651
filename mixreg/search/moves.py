"""Moves: change a fit in a way EM cannot.

EM cannot carry a component across a valley of the likelihood. A swap takes a
component away and seeds it on units that some few units' own fit explains well;
a merge joins two components that overlap and splits a third; a split deals the
units of two anew; a shuffle forgets the labels of some units. Moves are run to the
end: a short run does not tell which of them will pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import Posterior, normalise
from mixreg.mixture.mixture import Mixture, pinned
from mixreg.mixture.parameters import Parameters
from mixreg.search.candidates import from_responsibilities
from mixreg.search.constants import (
    MOVES,
)
from mixreg.search.course import Course
from mixreg.sources import OneBlock
from mixreg.sources.block import Block, GramBlock
from mixreg.sources.standard import Whitening

Array = NDArray[np.float64]


def seed_masks(
    source: OneBlock,
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
    source: OneBlock,
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


def kinds_of_moves(first: int, count: int, k: int) -> list[str]:
    """Kinds of so many moves, in turn; `first` is the number of the first."""
    kinds = [MOVES[i % len(MOVES)] for i in range(first, first + count)]
    # Of two components there is no third to split.
    return ["split" if kind == "merge" and k == 2 else kind for kind in kinds]


def moved(
    course: Course, params: Parameters, kinds: Sequence[str], rng: np.random.Generator
) -> Parameters:
    """A stack of starts, each made by one move from the same fit, in the order of the kinds."""
    k, source, mixture, white = params.k, course.source, course.mixture, course.whitening
    swaps = [i for i, kind in enumerate(kinds) if kind == "swap"]
    others = [i for i, kind in enumerate(kinds) if kind != "swap"]
    stacks = []
    if swaps:
        removed = rng.permutation(np.arange(len(swaps)) % k)
        stacks.append(swapped(source, mixture, white, params, removed, rng))
    if others:
        posterior = source.sweep(Posterior(mixture), params).join()[:k]
        resp = np.stack([dealt(posterior, kinds[i], rng) for i in others], axis=1)
        resp = fix_known(source.block, resp)
        stacks.append(from_responsibilities(source, mixture, white, resp))
    return Parameters.concatenate(stacks).take(np.argsort(swaps + others))


def dealt(posterior: Array, kind: str, rng: np.random.Generator) -> Array:
    """Responsibilities (k, units) after a move that only deals units anew."""
    resp, (k, units) = posterior.copy(), posterior.shape
    if kind == "shuffle":
        some = rng.random(units) < rng.uniform(0.2, 0.6)
        labels = np.asarray(rng.integers(0, k, units))
        resp[:, some] = np.arange(k)[:, None] == labels[some]
        return resp
    a, b = likely_pair(posterior, rng)
    pile = resp[a] + resp[b]
    if kind == "merge":
        rest = [j for j in range(k) if j not in (a, b)]
        share = posterior[rest].sum(axis=1) + 1e-300
        c = int(rng.choice(rest, p=share / share.sum()))
        pile, resp[a], a = resp[c].copy(), pile, c
    left = rng.random(units) < rng.uniform(0.3, 0.7)
    resp[a], resp[b] = np.where(left, pile, 0.0), np.where(left, 0.0, pile)
    return resp


def likely_pair(posterior: Array, rng: np.random.Generator) -> tuple[int, int]:
    """Two components, those that share many units more often than others."""
    k = posterior.shape[0]
    rows, cols = np.triu_indices(k, 1)
    shared = (posterior @ posterior.T)[rows, cols]
    odds = 0.5 * shared / max(float(shared.sum()), 1e-300) + 0.5 / len(rows)
    chosen = int(rng.choice(len(rows), p=odds / odds.sum()))
    a, b = int(rows[chosen]), int(cols[chosen])
    return (a, b) if rng.random() < 0.5 else (b, a)
