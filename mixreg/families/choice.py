"""Choices: the conditional logit, one chosen alternative in every set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block
from mixreg.families.base import Family, Rows
from mixreg.families.statistics import FamilyStatistics, cross_sums, linear_predictor
from mixreg.params import Parameters

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Choice(Family):
    """Rows are alternatives; the response is 1 for the one chosen, 0 for the others.

    The chance of an alternative is its exponential utility over the sum of
    those in its set.
    """

    name: ClassVar[str] = "choice"
    title: ClassVar[str] = "Conditional Logits"

    @property
    def link_name(self) -> str:
        """Utilities are log odds."""
        return "logit"

    def evaluate(self, block: Block, params: Parameters) -> Rows:
        """Utilities, and chances within sets."""
        eta = linear_predictor(block, params.coef)
        sets = block.sets
        width = set_width(sets, block.rows)
        if width is not None:
            # Sets of one size: a view with an axis for the alternatives.
            cube = eta.reshape(*eta.shape[:-1], -1, width)
            cube -= cube.max(axis=-1, keepdims=True)
            mu = np.exp(cube)
            total = mu.sum(axis=-1, keepdims=True)
            mu /= total
            cube -= np.log(total)
            return Rows(block.y, eta, mu.reshape(eta.shape), params.dispersion[..., None], None)
        sizes = np.diff(sets, append=block.rows)
        eta -= np.repeat(np.maximum.reduceat(eta, sets, axis=-1), sizes, axis=-1)
        mu = np.exp(eta)
        total = np.add.reduceat(mu, sets, axis=-1)
        mu /= np.repeat(total, sizes, axis=-1)
        eta -= np.repeat(np.log(total), sizes, axis=-1)
        return Rows(block.y, eta, mu, params.dispersion[..., None], None)

    def log_density(self, rows: Rows) -> Array:
        """Log chance of the chosen rows, 0 for the others."""
        return rows.y * rows.eta

    def unit_density(self, block: Block, params: Parameters, state: Any) -> Array:
        """Log chance of each unit's choices."""
        chosen = np.flatnonzero(block.y)
        values = state.eta[..., chosen]
        if block.starts is None:
            return np.asarray(values)
        first = np.searchsorted(chosen, block.starts)
        return np.add.reduceat(values, first, axis=-1)

    def score(self, rows: Rows) -> Array:
        """Chosen minus its chance."""
        return rows.y - rows.mu

    def statistics(
        self, block: Block, params: Parameters, state: Any, responsibilities: Array
    ) -> FamilyStatistics:
        """Sums for the M-step."""
        r = block.per_row(responsibilities)
        weight = r * state.mu
        xx, xe = cross_sums(block, weight, r * block.y - weight)
        xx -= _between(block, weight, state.mu)
        size = responsibilities @ np.broadcast_to(np.asarray(block.size), (block.units,))
        return FamilyStatistics(size, xx, xe, np.empty((0, *size.shape)))

    def component_information(
        self, block: Block, params: Parameters, state: Any, wr: Array, j: int
    ) -> Array:
        """Information of one component's utilities."""
        mu = state.mu[j]
        weight = block.per_row(wr) * mu
        xx, _ = cross_sums(block, weight[None], weight[None])
        return np.asarray((xx - _between(block, weight[None], mu[None]))[0])

    def row_derivatives(
        self, block: Block, eta: Array, dispersion: Array
    ) -> tuple[Array, Array, Array]:
        """Regressors as they deviate from the mean of their set; scores and chances."""
        sets = block.sets
        sizes = np.diff(sets, append=block.rows)
        chance = np.exp(eta - np.repeat(np.maximum.reduceat(eta, sets), sizes))
        chance /= np.repeat(np.add.reduceat(chance, sets), sizes)
        means = np.add.reduceat(block.x * chance[:, None], sets, axis=0)
        return block.x - np.repeat(means, sizes, axis=0), block.y - chance, chance

    def surrogate(self, y: Array, trials: Array | None) -> Array:
        """Choices as utilities, to first order; `trials` are the sizes of the sets."""
        chance = 1 / np.asarray(trials)
        return np.asarray((y - chance) / (chance * (1 - chance)))

    def unit_background(self, block: Block, length: float) -> Array:
        """Every alternative is as likely."""
        sizes = np.diff(block.sets, append=block.rows)
        values = np.zeros(block.rows)
        values[block.sets] = -np.log(sizes)
        return block.per_unit(values)

    def background(self, y: Array) -> float:
        """Not used: see `unit_background`."""
        return 1.0

    def draw_sets(self, eta: Array, sets: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Draw one alternative in every set: the largest of noisy utilities."""
        noisy = eta + rng.gumbel(size=len(eta))
        sizes = np.diff(sets, append=len(eta))
        best = np.repeat(np.maximum.reduceat(noisy, sets), sizes)
        return (noisy == best).astype(float)


def set_width(sets: NDArray[np.intp], rows: int) -> int | None:
    """Alternatives in every set, or None if sets differ in size."""
    if rows % len(sets):
        return None
    width = rows // len(sets)
    return width if np.array_equal(sets, np.arange(0, rows, width)) else None


def _between(block: Block, weight: Array, mu: Array) -> Array:
    """Sum over sets of weight times m m', m the mean regressors of a set.

    `weight` is responsibility times chance, so that a set's sum of weight * x
    is responsibility times m.
    """
    lead, p, sets = weight.shape[:-1], block.x.shape[1], block.sets
    width = set_width(sets, block.rows)
    out = np.empty((int(np.prod(lead)), p, p))
    flat, flat_mu = weight.reshape(-1, block.rows), mu.reshape(-1, block.rows)
    for i in range(flat.shape[0]):
        if width is not None:
            x = block.x.reshape(-1, width, p)
            means = np.matmul(flat_mu[i].reshape(-1, 1, width), x)[:, 0]
            total = flat[i].reshape(-1, width).sum(axis=1)
        else:
            means = np.add.reduceat(block.x * flat_mu[i][:, None], sets, axis=0)
            total = np.add.reduceat(flat[i], sets)
        out[i] = (means * total[:, None]).T @ means
    return out.reshape(*lead, p, p)
