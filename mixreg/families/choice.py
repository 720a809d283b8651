"""Choices: the conditional logit, one chosen alternative in every set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from mixreg.errors import InputError
from mixreg.families.base import Family
from mixreg.families.distribution import Tails
from mixreg.families.links import logistic
from mixreg.families.registry import register
from mixreg.families.rows import Rows
from mixreg.families.statistics import FamilyStatistics, cross_sums, linear_predictor
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block, column_pairs

Array = NDArray[np.float64]

# Utilities up to this can be exponentiated as they are.
MODERATE = 300.0


@register
@dataclass(frozen=True)
class Choice(Family):
    """Rows are alternatives; the response is 1 for the one chosen, 0 for the others.

    The chance of an alternative is its exponential utility over the sum of
    those in its set.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> camera = datasets.camera().head(1600)
    >>> choice = {"family": "choice", "choice_set": "task", "groups": "id"}
    >>> res = MixReg.from_formula("chosen ~ canon + zoom + price", camera, k=1, **choice).fit()
    >>> res.coefficients[1].round(2).to_dict()
    {'canon': 0.71, 'zoom': 1.0, 'price': -0.58}
    """

    name: ClassVar[str] = "choice"
    title: ClassVar[str] = "Conditional Logits"
    stack_gain: ClassVar[float | None] = 0.95
    takes_sets: ClassVar[bool] = True

    def as_part(self) -> Family:
        """Not possible: several responses have no sets."""
        raise InputError("family='choice' has no place in a list of responses; fit it alone")

    @property
    def link_name(self) -> str:
        """Utilities are log odds."""
        return "logit"

    def evaluate(self, block: Block, params: Parameters) -> Rows:
        """Utilities, and chances within sets."""
        eta = linear_predictor(block, params.coef)
        sets, sizes = block.sets, set_sizes(block)
        if max(eta.max(initial=0.0), -eta.min(initial=0.0)) > MODERATE:
            eta -= np.repeat(np.maximum.reduceat(eta, sets, axis=-1), sizes, axis=-1)
        mu = np.exp(eta)
        total = set_sums(mu, sets)
        mu *= np.repeat(1 / total, sizes, axis=-1)
        eta -= np.repeat(np.log(total), sizes, axis=-1)
        return Rows(block.y, eta, mu, params.dispersion[..., None], None)

    def log_density(self, rows: Rows) -> Array:
        """Log chance of the chosen rows, 0 for the others."""
        return rows.y * rows.eta

    def unit_density(self, block: Block, params: Parameters, state: Any) -> Array:
        """Log chance of each unit's choices, one in each set."""
        chosen = np.flatnonzero(block.y)
        return block.per_unit_of_sets(state.eta[..., chosen])

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
        xx -= _between(block, r[..., block.sets], state.mu)
        size = responsibilities @ np.broadcast_to(np.asarray(block.size), (block.units,))
        return FamilyStatistics(size, xx, xe, np.empty((0, *size.shape)))

    def averages(
        self, block: Block, params: Parameters, root: Array, wide: Array
    ) -> tuple[Array, Any]:
        """Average log chance of each unit's choices, to second order.

        Half the variance of utilities within a set is taken off its log chance; that is
        also what its score is the derivative of.
        """
        state = self.evaluate(block, params)
        gap = _distances(block, state.mu, root)
        variance = set_sums(state.mu * gap, block.sets)
        chosen = state.eta[..., np.flatnonzero(block.y)]
        taken = np.repeat(variance, set_sizes(block), axis=-1)
        return block.per_unit_of_sets(chosen - 0.5 * variance), (state, gap - taken)

    def average_statistics(
        self, block: Block, params: Parameters, state: Any, responsibilities: Array
    ) -> FamilyStatistics:
        """Sums of average scores, and of information at the means."""
        rows, gap = state
        sums = self.statistics(block, params, rows, responsibilities)
        more = block.per_row(responsibilities) * rows.mu * (-0.5 * gap)
        lead = more.shape[:-1]
        xe = np.dot(more.reshape(-1, block.rows), block.x).reshape(*lead, -1)
        return replace(sums, xe=sums.xe + xe)

    def unit_expansion(self, block: Block, eta: Array, dispersion: Array) -> tuple[Array, Array]:
        """Information and score of each unit's coefficients, at utilities of its rows."""
        sets, sizes = block.sets, set_sizes(block)
        mu = np.exp(eta - np.repeat(np.maximum.reduceat(eta, sets), sizes))
        mu /= np.repeat(set_sums(mu, sets), sizes)
        means = np.add.reduceat(block.x * mu[:, None], sets, axis=0)
        between = column_pairs(means)
        if block.starts is not None:
            between = np.add.reduceat(between, np.searchsorted(sets, block.starts), axis=0)
        pairs = column_pairs(block.x) if block.pairs is None else block.pairs
        info = block.unit_sums(pairs * mu[:, None]) - between
        return info, block.unit_sums(block.x * (block.y - mu)[:, None])

    def component_information(
        self, block: Block, params: Parameters, state: Any, wr: Array, j: int
    ) -> Array:
        """Information of one component's utilities."""
        mu = state.mu[j]
        r = block.per_row(wr)
        xx, _ = cross_sums(block, (r * mu)[None], (r * mu)[None])
        return np.asarray((xx - _between(block, r[None, block.sets], mu[None]))[0])

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

    def density_graph(self, pt: Any, block: Block, eta: Any, dispersion: Any) -> Any:
        """Log chance of the chosen alternative of each set, as a PyTensor graph, (k, sets)."""
        sets = block.sets
        sizes = np.diff(sets, append=block.rows)
        width = int(sizes.max())
        # Sets as rows of a table; shorter ones are filled up with what never is chosen.
        position = sets[:, None] + np.minimum(np.arange(width), sizes[:, None] - 1)
        fill = np.where(np.arange(width) < sizes[:, None], 0.0, -np.inf)
        table = eta[:, position] + fill
        top = pt.max(table, axis=-1, keepdims=True)
        total = pt.log(pt.sum(pt.exp(table - top), axis=-1)) + top[..., 0]
        return eta[:, np.flatnonzero(block.y)] - total

    # What is said of an alternative by itself is said at its log odds against the others.

    def mean(self, eta: Array) -> Array:
        """Chance of an alternative."""
        return logistic(eta)

    def mean_slope(self, eta: Array) -> Array:
        """First derivative of the chance."""
        return logistic(eta) * logistic(-eta)

    def mean_curve(self, eta: Array) -> Array:
        """Second derivative of the chance."""
        return self.mean_slope(eta) * (logistic(-eta) - logistic(eta))

    def predictor(self, mean: Array) -> Array | None:
        """Log odds of a chance."""
        return np.asarray(logit(mean))

    def response_variance(self, rows: Rows) -> Array:
        """Of one answer: chosen, or not."""
        return self.mean_slope(rows.eta)

    def tails(self, rows: Rows) -> Tails:
        """Of one answer: chosen, or not."""
        yes, no = logistic(rows.eta), logistic(-rows.eta)
        chosen = rows.y > 0.5
        return Tails(
            np.where(chosen, no, 0.0), np.where(chosen, yes, no), np.where(chosen, 0.0, yes)
        )

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


def set_sizes(block: Block) -> Any:
    """Alternatives in each set: one number if all are the same, which is faster."""
    width = set_width(block.sets, block.rows)
    return np.diff(block.sets, append=block.rows) if width is None else width


def set_sums(values: Array, sets: NDArray[np.intp]) -> Array:
    """Add up (..., rows) values within sets, giving (..., sets)."""
    width = set_width(sets, values.shape[-1])
    if width is None:
        return np.add.reduceat(values, sets, axis=-1)
    # A product with ones: sums over a short last axis are slow.
    return np.asarray(values.reshape(*values.shape[:-1], -1, width) @ np.ones(width))


def _distances(block: Block, mu: Array, root: Array) -> Array:
    """Squared distance of each alternative from the mean of its set, in a metric root root'."""
    p, sets, sizes = block.x.shape[1], block.sets, set_sizes(block)
    flat = mu.reshape(-1, block.rows)
    out = np.empty_like(flat)
    for i, one in enumerate(root.reshape(-1, p, p)):
        place = np.dot(block.x, one).T
        place = place - np.repeat(set_sums(place * flat[i], sets), sizes, axis=-1)
        out[i] = np.einsum("pn,pn->n", place, place)
    return out.reshape(mu.shape)


def _between(block: Block, r: Array, mu: Array) -> Array:
    """Sum over sets of r (..., sets) times m m', m the mean regressors of a set."""
    lead, p, sets = mu.shape[:-1], block.x.shape[1], block.sets
    flat, flat_mu = r.reshape(-1, len(sets)), mu.reshape(-1, block.rows)
    runs, width = flat.shape[0], set_width(sets, block.rows)
    out = np.empty((runs, p, p))
    if width is None:
        x = np.ascontiguousarray(block.x.T)
        for i in range(runs):
            means = set_sums(x * flat_mu[i], sets)
            out[i] = np.dot(means * flat[i], means.T)
        return out.reshape(*lead, p, p)
    # Sets of one size: the means of a set under all runs are one small product.
    chances = flat_mu.reshape(runs, -1, width).transpose(1, 0, 2)
    all_means = np.matmul(chances, block.x.reshape(-1, width, p)).transpose(1, 2, 0)
    for i in range(runs):
        means = np.ascontiguousarray(all_means[i])
        out[i] = np.dot(means * flat[i], means.T)
    return out.reshape(*lead, p, p)
