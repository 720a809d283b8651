"""Starts other than the tensor's: subspace, random directions, partitions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from mixreg.estimators.expectation import GivenAssignment
from mixreg.estimators.loop import Run
from mixreg.families.statistics import solved, unfold_triangle
from mixreg.metrics import best_order
from mixreg.mixture.gate import ConstantGate
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.constants import (
    ALIVE,
    BRED,
    LABEL_STEPS,
    LOOK,
    MODERATE,
)
from mixreg.search.course import Course
from mixreg.search.ranges import feasible
from mixreg.sources import Swept, Told
from mixreg.sources.block import Block, GramBlock, condense, spans
from mixreg.sources.standard import Whitening

Array = NDArray[np.float64]


def from_responsibilities(
    source: Told, mixture: Mixture, whitening: Whitening, resp: Array
) -> Parameters:
    """A stack of starts: an M-step from responsibilities (k, runs, units)."""
    told = source.with_columns(given=np.moveaxis(resp, -1, 0))
    return from_given(told, mixture, whitening, *resp.shape[:2])


def from_given(
    told: Swept, mixture: Mixture, whitening: Whitening, k: int, runs: int = 1
) -> Parameters:
    """A stack of starts from responsibilities that are a column of the rows.

    Class probabilities are left constant, and the background out of it.
    """
    bare = replace(mixture, background=None, gate=ConstantGate())
    params = bare.prepare(whitening.start(k).stacked().take(np.zeros(runs, dtype=np.intp)))
    for _ in range(1 if mixture.family.linear else LABEL_STEPS):
        sums = told.sweep(GivenAssignment(bare), params)
        params = bare.mstep(sums.family, sums.count, sums.gate, params)
        params = feasible(told, mixture, params, whitening.pooled)
    return mixture.prepare(params)


@dataclass(frozen=True, slots=True)
class LabelGains:
    """Task: log density of units of known label under each component, (label, k, runs)."""

    mixture: Mixture

    def __call__(self, block: Block | GramBlock, params: Parameters) -> Array:
        """Process one block."""
        family, k, runs = self.mixture.family, params.k, params.coef.shape[1]
        gain = np.zeros((k, k, runs))
        if block.known is None:
            return gain
        there = (block.known >= 0) & (block.known < k)
        units = np.flatnonzero(there if block.weight is None else there & (block.weight > 0))
        if not units.size:
            return gain
        state = family.evaluate(block, params)  # type: ignore[arg-type]
        density = family.unit_density(block, params, state)[..., units]  # type: ignore[arg-type]
        np.add.at(gain, block.known[units], np.maximum(np.moveaxis(density, -1, 0), -1e15))
        return gain


def numbered(source: Swept, mixture: Mixture, starts: Parameters) -> Parameters:
    """Number the components of each start so that known labels suit them best."""
    if not mixture.labelled or starts.k == 1:
        return starts
    gain = source.sweep(LabelGains(mixture), starts)
    runs = [
        starts.run(run).permute(best_order(-gain[..., run])).stacked()
        for run in range(gain.shape[-1])
    ]
    return mixture.prepare(Parameters.concatenate(runs))


def one_hot(labels: NDArray[np.intp], k: int) -> Array:
    """Labels 0..k-1 of shape (..., units) as responsibilities (k, ..., units)."""
    components = np.arange(k).reshape(-1, *[1] * labels.ndim)
    return (components == labels).astype(float)


def random_directions(
    k: int, runs: int, whitening: Whitening, basis: Array | None, rng: np.random.Generator
) -> Array:
    """The pooled fit plus random deviations as large as its residuals, (k, runs, p).

    With a basis (p, r), deviations lie in its span. Where means are not linear
    in the coefficients, deviations are kept moderate.
    """
    p, owners = whitening.pooled.shape[0], whitening.standard_owners
    drawn = rng.standard_normal((k, runs, p if basis is None else basis.shape[1]))
    length = np.sqrt(np.maximum(whitening.variance, 1e-3))
    if whitening.linear is not None:
        length = np.minimum(length, MODERATE)
    if owners is not None:
        # Each response has deviations of its own size.
        square = np.stack([(drawn[..., at] ** 2).sum(-1) for at in spans(owners)], -1)
        return np.asarray(whitening.pooled + drawn * (length / np.sqrt(square))[..., owners])
    drawn /= np.linalg.norm(drawn, axis=-1, keepdims=True)
    deviation = drawn if basis is None else drawn @ basis.T
    return np.asarray(whitening.pooled + length * deviation)


def random_labels(units: int, k: int, runs: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Labels drawn evenly, every component somewhere, (runs, units)."""
    labels = rng.integers(0, k, (runs, units))
    labels[:, rng.permutation(units)[:k]] = np.arange(k)[: min(k, units)]
    return labels


def make_starts(
    course: Course, kinds: list[str], subspace: Array | None, rng: np.random.Generator
) -> tuple[list[str], Parameters]:
    """A stack of starts of the kinds asked for, and the kinds in its order."""
    whitening, k, mixture = course.whitening, course.k, course.mixture
    stacks, made = [], []
    for kind in dict.fromkeys(kinds):
        runs = kinds.count(kind)
        if kind == "labels":
            resp = one_hot(random_labels(course.source.units, k, runs, rng), k)
            stacks.append(from_responsibilities(course.source, mixture, whitening, resp))
        elif kind == "partition":
            resp = partitions(course.condensed.block, k, runs, course.linear_whitening, rng)
            stacks.append(from_responsibilities(course.source, mixture.common(), whitening, resp))
        else:
            basis = subspace if kind == "subspace" else None
            coef = random_directions(k, runs, whitening, basis, rng)
            spread = 0.5 * course.linear_whitening.variance
            spread = spread if whitening.linear is None else whitening.dispersion
            stacks.append(mixture.prepare(Parameters.uniform(coef, spread)))
        made += [kind] * runs
    starts = feasible(course.source, mixture, Parameters.concatenate(stacks), whitening.pooled)
    return made, numbered(course.source, mixture, starts)


def bred(course: Course, fits: Sequence[Run], runs: int, rng: np.random.Generator) -> Parameters:
    """Starts after fits that got far: so many of their components, and as many in their span.

    On the paper's designs the span of the best fits holds more of the truth than that of the
    moments (`benchmarks recovery`, k = 3, n = 8p, p = 80: 0.9 of it against 0.5).
    """
    mixture, whitening, k = course.mixture, course.whitening, course.k
    pool = np.concatenate([fit.params.coef for fit in fits])
    mixed = pool[rng.integers(0, len(pool), (k, runs))]
    axes = np.linalg.svd(pool - whitening.pooled, full_matrices=False)[2]
    along = random_directions(k, runs, whitening, axes[: max(1, k - 1)].T, rng)
    variance = course.linear_whitening.variance
    stacks = [Parameters.uniform(mixed, BRED * variance), Parameters.uniform(along, 0.5 * variance)]
    starts = mixture.prepare(Parameters.concatenate(stacks))
    return numbered(course.source, mixture, starts)


def own_fits(block: Block | GramBlock, strength: float, pooled: Array) -> Array:
    """Coefficients of each unit's own fit, shrunk to the pooled fit, (units, p)."""
    if isinstance(block, Block):
        found = np.empty((block.units, len(pooled)))
        for at, own in block.responses():
            found[:, at] = own_fits(condense(own), strength, pooled[at])
        return found
    p = block.p
    full = unfold_triangle(block.gram, p + 1)
    lhs = full[:, :p, :p] + strength * np.eye(p)
    rhs = full[:, :p, p] + strength * pooled
    return np.asarray(solved(lhs, rhs[..., None])[..., 0])


def partitions(
    block: Block | GramBlock,
    k: int,
    runs: int,
    whitening: Whitening,
    rng: np.random.Generator,
) -> Array:
    """Clusters of groups by their own fits, or of rows by position, (k, runs, units)."""
    if isinstance(block, GramBlock) or block.owners is not None:
        points = own_fits(block, 1.0, whitening.pooled)
    elif block.starts is not None:
        # As the own fits to first order.
        scores = block.x * (block.y - block.x @ whitening.pooled)[:, None]
        points = (block.per_unit(scores.T) / block.size).T
    else:
        points = np.column_stack([block.x, block.y])
    spread = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    resp = np.empty((k, runs, block.units))
    for run in range(runs):
        # Each run looks along other directions, so that runs differ.
        look = points * rng.uniform(*LOOK, points.shape[1])
        with warnings.catch_warnings():
            # An empty cluster is no reason to stop; it gets its share below.
            warnings.simplefilter("ignore", UserWarning)
            _, labels = kmeans2(look, k, iter=10, minit="++", rng=rng)
        resp[:, run] = one_hot(labels.astype(np.intp), k)
    return (1 - ALIVE) * resp + ALIVE / k
