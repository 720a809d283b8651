"""Variational Bayes: mean-field coordinate ascent for linear regressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.expectation import MixtureStatistics, normalise, weighted
from mixreg.estimators.loop import Control, StopReason
from mixreg.estimators.priors import Priors
from mixreg.families.gaussian import LOG_2PI
from mixreg.mixture.mixture import Mixture, pinned
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Swept
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]

# Changes of a responsibility that are let pass, so that uncertainty need not be
# taken off where it changes nothing.
NEGLIGIBLE = 1e-11
# What uncertainty may take off a log density before no row is left out.
SPARE = 2.0
# Entries of a root of V below which single precision is enough for x' V x.
SMALL = 0.02


@dataclass(frozen=True, slots=True)
class ExpectedAssignment:
    """Task: responsibilities under the posterior, and the sums its update needs.

    Attributes
    ----------
    mixture : Mixture
    root : (k, [runs,] p, p) array
        Cholesky factors of the posterior's `factor`.
    uncertainty : Uncertainty or None
        Of one run; None for a stack of runs.
    """

    mixture: Mixture
    root: Array
    uncertainty: Uncertainty | None = None

    def __call__(self, block: Block | GramBlock, params: Beliefs) -> MixtureStatistics:
        """Process one block; the objective is the data's part of the ELBO."""
        family, at = self.mixture.family, _at(params)
        state = family.evaluate(block, at)  # type: ignore[arg-type]
        joint = self.log_joint(block, params, at, state)
        contested = None
        alone = isinstance(block, Block) and block.pairs is None and block.starts is None
        if isinstance(block, Block) and alone and self.uncertainty is not None:
            contested = Contested.find(block, self.uncertainty, joint)
        else:
            subtract_uncertainty(block, params.factor, self.root, joint)
        marginal = normalise(pinned(block, joint, -np.inf))
        resp = weighted(block, joint)
        sums = self.mixture.statistics(block, at, state, resp)
        objective = weighted(block, marginal).sum(axis=-1)
        if contested is not None:
            # Where uncertainty changes no label it is in the cross products.
            total = np.einsum("k...pq,k...pq->...", params.factor, sums.xx)
            objective = objective - 0.5 * (total - contested.taken(resp))
        return MixtureStatistics(objective, resp.sum(axis=-1), sums)

    def log_joint(
        self, block: Block | GramBlock, beliefs: Beliefs, params: Parameters, state: Array
    ) -> Array:
        """Expected log of class probability times density, coefficients taken for known."""
        family = self.mixture.family
        precision = (beliefs.shape / beliefs.rate)[..., None]
        log_variance = (np.log(beliefs.rate) - digamma(beliefs.shape))[..., None]
        joint = family.unit_loss(block, params, state) * (-0.5 * precision)  # type: ignore[arg-type]
        joint -= 0.5 * block.size * (LOG_2PI + log_variance)
        if self.mixture.background is not None:
            even = family.unit_background(block, self.mixture.background)  # type: ignore[arg-type]
            joint = np.concatenate([joint, np.broadcast_to(even, (1, *joint.shape[1:]))])
        counts = beliefs.counts
        joint += (digamma(counts) - digamma(counts.sum(axis=0)))[..., None]
        return joint


def _at(beliefs: Beliefs) -> Parameters:
    """Posterior means as parameters, for what needs no more of them."""
    return Parameters(beliefs.coef, beliefs.rate / beliefs.shape, beliefs.counts[..., None])


def subtract_uncertainty(
    block: Block | GramBlock, factor: Array, root: Array, joint: Array
) -> None:
    """Take half of x' V x off each log density, in place: coefficients are uncertain."""
    k, p = factor.shape[0], factor.shape[-1]
    lead = factor.shape[:-2]
    if isinstance(block, Block) and block.pairs is None:
        for index in np.ndindex(*lead):
            joint[index] -= 0.5 * block.per_unit(_squares(block.x, root[index]))
        return
    rows, cols = np.triu_indices(p)
    double = np.where(rows == cols, 1.0, 2.0)
    triangle = (factor[..., rows, cols] * double).reshape(-1, len(rows))
    if isinstance(block, GramBlock):
        products = block.gram[:, _inner_columns(block)]
        joint[:k] -= 0.5 * (triangle @ products.T).reshape(*lead, block.units)
    else:
        assert block.pairs is not None
        each = (triangle @ block.pairs.T).reshape(*lead, block.rows)
        joint[:k] -= 0.5 * block.per_unit(each)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Roots of V in the form that squares of many rows are made with.

    Roots are lower triangular, so their last columns need the last regressors
    only: they are kept in two halves.

    Attributes
    ----------
    halves : two arrays
        (k * columns, p) and (k * columns, regressors), components first.
    k : int
    most : float
        The most that uncertainty takes off a log density.
    """

    halves: tuple[NDArray[Any], NDArray[Any]]
    k: int
    most: float

    @staticmethod
    def of(root: Array, longest: float) -> Uncertainty:
        """Prepare the roots (k, p, p) of one run."""
        k, p = root.shape[:2]
        half = p // 2
        parts = (root[:, :, :half], root[:, half:, half:])
        most = 0.5 * longest * float((root * root).sum(axis=(-1, -2)).max())
        # Squares this small need no more than single precision, which is faster.
        kind = np.float32 if np.abs(root).max() < SMALL else np.float64
        first, second = (
            np.ascontiguousarray(part.transpose(0, 2, 1), dtype=kind).reshape(
                k * part.shape[2], part.shape[1]
            )
            for part in parts
        )
        return Uncertainty((first, second), k, most)

    def squares(self, x: Array) -> NDArray[Any]:
        """Values of x' V x of every row under every component, (k, rows)."""
        first, second = self.halves
        x = x.astype(first.dtype, copy=False)
        last = x[:, x.shape[1] - second.shape[1] :]
        one = (first @ x.T).reshape(self.k, len(first) // self.k, len(x))
        two = (second @ last.T).reshape(self.k, len(second) // self.k, len(x))
        total = np.einsum("kpn,kpn->kn", two, two)
        total += np.einsum("kpn,kpn->kn", one, one)
        return np.asarray(total)


@dataclass(frozen=True, slots=True)
class Contested:
    """Rows that more than one component may have made, and x' V x at them.

    Attributes
    ----------
    rows : int array, or a slice for all rows
    spread : (k, contested rows) array
    """

    rows: Any
    spread: NDArray[Any]

    @staticmethod
    def find(block: Block, uncertainty: Uncertainty, joint: Array) -> Contested:
        """Take uncertainty off the log densities where it decides, in place.

        It only lowers a log density. A component far below the best stays out
        of it, and a row with one component left has that for sure.
        """
        flat, most = joint.reshape(joint.shape[0], block.rows), uncertainty.most
        rows: Any = slice(None)
        if most < SPARE:
            margin = most + max(0.0, float(np.log(most / NEGLIGIBLE)))
            near = flat > flat.max(axis=0) - margin
            few = np.flatnonzero(np.count_nonzero(near, axis=0) > 1)
            rows = few if len(few) < 0.6 * block.rows else rows
        spread = uncertainty.squares(block.x[rows])
        flat[: uncertainty.k, rows] -= 0.5 * spread
        return Contested(rows, spread)

    def taken(self, resp: Array) -> Array:
        """Sum of responsibility times x' V x over these rows, shaped like an objective."""
        k = self.spread.shape[0]
        own = resp.reshape(resp.shape[0], -1)[:k, self.rows]
        return np.full(resp.shape[1:-1], float(np.einsum("kn,kn->", own, self.spread)))


def _squares(x: NDArray[Any], root: NDArray[Any]) -> NDArray[Any]:
    """Squared length of each row of x @ root."""
    product = x @ root
    return np.asarray(np.einsum("ij,ij->i", product, product))


@dataclass(frozen=True, slots=True)
class Largest:
    """A number of which the largest is kept."""

    value: float

    def __add__(self, other: Largest) -> Largest:
        """The larger of two."""
        return self if self.value >= other.value else other


def longest_row(block: Block, params: None = None) -> Largest:
    """Task: the largest squared length of a row of regressors."""
    return Largest(float(np.einsum("ij,ij->i", block.x, block.x).max()))


def _inner_columns(block: GramBlock) -> NDArray[np.intp]:
    """Stored cross products that involve regressors only."""
    rows, cols = block.triangle
    return np.flatnonzero((rows < block.p) & (cols < block.p))


@dataclass(frozen=True, slots=True)
class Variational:
    """Coordinate ascent; the evidence lower bound rises at every step.

    Attributes
    ----------
    mixture : Mixture
    priors : Priors
    longest : float
        Largest squared length of a row of regressors; infinity if not known.
    """

    mixture: Mixture
    priors: Priors
    longest: float = np.inf

    @property
    def monotone(self) -> bool:
        """The bound never falls."""
        return True

    def sweep(self, source: Swept, iteration: int, params: Beliefs) -> MixtureStatistics:
        """Make one pass; the objective is the evidence lower bound at the posterior."""
        root = np.asarray(np.linalg.cholesky(params.factor))
        single = Uncertainty.of(root[:, 0], self.longest) if root.shape[1] == 1 else None
        sums = source.sweep(ExpectedAssignment(self.mixture, root, single), params)
        objective = sums.objective - params.divergence(self.priors)
        return MixtureStatistics(objective, sums.count, sums.family)

    def update(self, sums: MixtureStatistics, params: Beliefs) -> Beliefs:
        """The posterior given responsibilities."""
        xx, xe, size, ee = sums.family.xx, sums.family.xe, sums.family.size, sums.family.ee
        priors, p = self.priors, xe.shape[-1]
        factor = np.asarray(np.linalg.inv(xx + priors.precision * np.eye(p)))
        pull = xe - priors.precision * params.coef
        step = np.einsum("...pq,...q->...p", factor, pull)
        coef = params.coef + step
        fitted = np.einsum("...pq,...q->...p", xx, step)
        squares = ee - np.einsum("...p,...p->...", step, 2 * xe - fitted)
        squares = np.maximum(squares, 0.0) + priors.precision * (coef**2).sum(axis=-1)
        return Beliefs(
            coef,
            0.5 * (factor + np.swapaxes(factor, -1, -2)),
            priors.shape + 0.5 * size,
            priors.rate + 0.5 * squares,
            priors.concentration + sums.count,
        )

    def finished(
        self, sums: MixtureStatistics, before: MixtureStatistics | None, control: Control
    ) -> list[StopReason | None]:
        """Stop when the bound hardly rises."""
        if before is None:
            return [None] * sums.objective.shape[0]
        still = sums.objective - before.objective < control.tol * sums.family.size.sum(axis=0)
        return ["converged" if s else None for s in still]
