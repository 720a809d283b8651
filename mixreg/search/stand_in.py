"""Stand-ins: the log-likelihood of each group as a quadratic.

A group's log-likelihood under a family that is not linear is replaced by its
second-order expansion around a fit of the group's own, shrunk to a centre. A
mixture of such quadratics is fitted as a linear one is to groups condensed to
their cross products: a run costs a fraction of what it costs on the rows. Around
the pooled fit the stand-in is rough, and shows where the maxima are; around what
a good fit says of each group it is closer, and shows the maxima near that one.
What is found there must prove itself on the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.families import Gaussian
from mixreg.families.statistics import solved, unfold_triangle
from mixreg.mixture.mixture import Mixture
from mixreg.search.constants import (
    CHEAPER,
    GROUP_STEPS,
    LARGEST,
    LONGEST_STEP,
    MOST_VALUES,
    SPARE,
)
from mixreg.search.course import Course
from mixreg.search.views import View, row_cost
from mixreg.sources import AtHand
from mixreg.sources.base import Parts
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Quadratic(Gaussian):
    """The family of a stand-in: normal errors whose variance is one."""

    name: ClassVar[str] = "quadratic"
    certifies: ClassVar[bool] = False
    collapses: ClassVar[bool] = False
    rounds: ClassVar[bool] = False

    def variances(self, squares: Array, size: Array) -> Array:
        """One, whatever the squares."""
        return np.ones(size.shape)

    def allowed(self, dispersion: Array) -> Array:
        """One."""
        return np.ones(dispersion.shape)

    def common(self) -> Quadratic:
        """The variance is common already."""
        return self


@dataclass(frozen=True, slots=True)
class Expand:
    """Task: information (p (p + 1) / 2) and score (p) of each unit at coefficients of its own.

    Attributes
    ----------
    mixture : Mixture
    dispersion : float
    """

    mixture: Mixture
    dispersion: float

    def __call__(self, block: Block, params: None = None) -> Parts:
        """Process one block; `given` are points of expansion, (units, p)."""
        assert block.given is not None
        eta = np.einsum("np,np->n", block.x, block.row_units(block.given))
        if block.offset is not None:
            eta += block.offset
        spread = np.full(1, self.dispersion)
        info, score = self.mixture.family.unit_expansion(block, eta, spread)
        return Parts((np.concatenate([info, score], axis=1).T,))


def can_stand_in(source: AtHand, mixture: Mixture) -> bool:
    """Whether the units of a source are groups that quadratics can stand in for."""
    family, grouped = mixture.family, source.has("starts")
    if family.linear:
        return False
    ranges = family.in_range(np.zeros(1)) is not None
    if not grouped or not family.expands or ranges or mixture.background is not None:
        return False
    p = source.columns
    values = source.units * (p + 1) * (p + 2)
    return CHEAPER * values < source.cost * row_cost(p) and values < MOST_VALUES


def stand_in(course: Course, centre: Array, firmness: float) -> View | None:
    """Expand the log-likelihood of each unit around its own fit; None if numbers do not allow it.

    Parameters
    ----------
    course : Course
    centre : (p,) or (units, p) array
        What fits are shrunk to.
    firmness : float
        How firmly: what the centre counts over what a unit of average size does.
    """
    sample, mixture = course.sample, course.mixture
    units, p = sample.units, sample.columns
    entries = p * (p + 1) // 2
    expand = Expand(mixture, float(np.mean(course.whitening.dispersion)))
    points = np.array(np.broadcast_to(centre, (units, p)))
    prior = 0.0
    for step in range(GROUP_STEPS + 1):
        parts = sample.with_columns(given=points).sweep(expand).join().T
        info, score = unfold_triangle(parts[:, :entries], p), parts[:, entries:]
        if not np.abs(parts).max() < LARGEST:
            return None
        if step == GROUP_STEPS:
            break
        prior = prior or firmness * float(np.trace(info.mean(axis=0))) / p
        if prior <= 0:
            return None
        pull = score - prior * (points - centre)
        change = solved(info + prior * np.eye(p), pull[..., None])[..., 0]
        length = np.sqrt(np.mean(change**2, axis=1, keepdims=True))
        points += change * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-300))
    cross = np.einsum("upq,uq->up", info, points) + score
    rows = course.source.block
    size = np.asarray(rows.size)
    # Least squares of each quadratic, so that the sum of squares stays positive.
    ridge = 1e-8 * np.trace(info, axis1=1, axis2=2)[:, None, None] * np.eye(p) + 1e-300 * np.eye(p)
    least = solved(info + ridge, cross[..., None])[..., 0]
    square = np.einsum("up,up->u", cross, least) + SPARE * size
    full = np.empty((units, p + 1, p + 1))
    full[:, :p, :p], full[:, p, p] = info, square
    full[:, :p, p] = full[:, p, :p] = cross
    i, j = np.triu_indices(p + 1)
    block = GramBlock(full[:, i, j], size, rows.weight, p, z=rows.z, known=rows.known)
    return View(
        replace(mixture, family=Quadratic()),
        sample,
        sample,
        replace(course.whitening, dispersion=1.0),
        course.k,
        block,
    )
