"""A stand-in for groups of families that are not linear.

Around a fit of its own, a group's log-likelihood is nearly a parabola in the
coefficients. Its own fit is drawn to the pooled one, so that short groups have
one too. Hundreds of starts and swaps on these parabolas cost what they cost for
linear groups; only the few survivors meet the real likelihood.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block, GramBlock, column_pairs
from mixreg.families.base import Family
from mixreg.families.quadratic import Quadratic
from mixreg.families.statistics import unfold_triangle
from mixreg.params import Parameters
from mixreg.search.candidates import MODERATE
from mixreg.search.course import Course
from mixreg.sources.memory import BlockSource, MemorySource

Array = NDArray[np.float64]

# Rows a group must have, on average, for its own fit to mean something.
LONG_ENOUGH = 4
# Precision that draws a group's own fit to the pooled one: components differ by
# about one on a scale of logarithms.
PRIOR = 1.0
STEPS = 4
# Products of this many values are formed at a time.
BLOCK_PAIRS = 2_000_000


def has_stand_in(family: Family, rows: MemorySource) -> bool:
    """Whether groups are long enough, of a family that needs a stand-in."""
    linear = family.linear or not family.moments
    return not linear and rows.rows >= LONG_ENOUGH * rows.units


def stand_in(course: Course) -> Course:
    """The same groups as parabolas."""
    white, mixture = course.whitening, replace(course.mixture, family=Quadratic())
    scale = min(float(np.sqrt(white.variance)), MODERATE)
    white = replace(white, linear=None, variance=scale**2, dispersion=1.0)
    source = BlockSource(condensed_parabolas(course.sample, course))
    return Course(mixture, course.sample, course.sample, white, course.k, source)


def real(course: Course, params: Parameters) -> Parameters:
    """Parameters found on the stand-in, for the family itself."""
    spread = np.full_like(params.dispersion, course.whitening.dispersion)
    return replace(params, dispersion=spread)


def condensed_parabolas(sample: MemorySource, course: Course) -> GramBlock:
    """Each group's parabola, in the place of its cross products."""
    p = sample.x.shape[1]
    grams = [
        _parabolas(block, course) for block in BlockSource(sample.as_block())._parts(
            max(1, BLOCK_PAIRS // (p * p))
        )
    ]
    return GramBlock(
        np.concatenate(grams),
        np.diff(sample.starts, append=sample.rows).astype(float),
        sample.weight,
        p,
        z=sample.z,
        known=sample.known,
    )


def _parabolas(block: Block, course: Course) -> Array:
    """Upper triangles of each unit's square form, (units, (p + 1)(p + 2) / 2)."""
    p, pooled = block.x.shape[1], course.whitening.pooled
    own = np.tile(pooled, (block.units, 1))
    for _ in range(STEPS):
        score, info = _derivatives(block, course, own)
        pull = score - PRIOR * (own - pooled)
        step = np.linalg.solve(info + PRIOR * np.eye(p), pull[..., None])[..., 0]
        length = np.linalg.norm(step, axis=1, keepdims=True)
        own = own + step * np.minimum(1.0, MODERATE / np.maximum(length, 1e-300))
    score, info = _derivatives(block, course, own)
    side = np.einsum("upq,uq->up", info, own) + score
    # The constant does not matter; this one keeps the form from being negative.
    low = np.linalg.solve(info + 1e-6 * np.eye(p), side[..., None])[..., 0]
    form = np.empty((block.units, p + 1, p + 1))
    form[:, :p, :p] = info
    form[:, :p, p] = form[:, p, :p] = side
    form[:, p, p] = np.einsum("up,up->u", side, low)
    rows, cols = np.triu_indices(p + 1)
    return form[:, rows, cols]


def _derivatives(block: Block, course: Course, own: Array) -> tuple[Array, Array]:
    """Score and information of each unit at coefficients of its own."""
    eta = np.einsum("np,np->n", block.x, block.per_row(own.T).T)
    eta = eta if block.offset is None else eta + block.offset
    family, spread = course.mixture.family, np.full(1, course.whitening.dispersion)
    x, score, weight = family.row_derivatives(block, eta, spread)
    gradient = block.per_unit((x * score[:, None]).T).T
    info = block.per_unit((column_pairs(x) * weight[:, None]).T).T
    return gradient, unfold_triangle(info, x.shape[1])
