"""Variational Bayes: mean-field coordinate ascent for linear regressions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from mixreg.blocks import Block, GramBlock
from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.expectation import MixtureStatistics, normalise, weighted
from mixreg.estimators.loop import Control, Reason
from mixreg.families.gaussian import LOG_2PI
from mixreg.mixture import Mixture, pinned
from mixreg.params import Parameters
from mixreg.priors import Priors
from mixreg.sources import Source

Array = NDArray[np.float64]

# Log densities this far below the largest add nothing in double precision.
NEGLIGIBLE = 38.0


@dataclass(frozen=True, slots=True)
class ExpectedAssignment:
    """Task: responsibilities under the posterior, and the sums its update needs."""

    mixture: Mixture

    def __call__(self, block: Block | GramBlock, params: Beliefs) -> MixtureStatistics:
        """Process one block; the objective is the data's part of the ELBO."""
        beliefs = params
        family, at = self.mixture.family, _at(beliefs)
        state = family.evaluate(block, at)  # type: ignore[arg-type]
        resp = self.log_joint(block, beliefs, at, state)
        marginal = normalise(resp)
        resp = weighted(block, resp)
        return MixtureStatistics(
            weighted(block, marginal).sum(axis=-1),
            resp.sum(axis=-1),
            self.mixture.statistics(block, at, state, resp),
        )

    def log_joint(
        self, block: Block | GramBlock, beliefs: Beliefs, params: Parameters, state: Array
    ) -> Array:
        """Expected log of class probability times density, (K, [runs,] units)."""
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
        subtract_uncertainty(block, beliefs.factor, joint)
        return pinned(block, joint, -np.inf)


def _at(beliefs: Beliefs) -> Parameters:
    """Posterior means as parameters, for what needs no more of them."""
    return Parameters(beliefs.coef, beliefs.rate / beliefs.shape, beliefs.counts[..., None])


def subtract_uncertainty(block: Block | GramBlock, factor: Array, joint: Array) -> None:
    """Take half of x' V x off each log density, in place: coefficients are uncertain."""
    k, p = factor.shape[0], factor.shape[-1]
    lead = factor.shape[:-2]
    if isinstance(block, GramBlock) or block.pairs is not None:
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
        return
    root = np.asarray(np.linalg.cholesky(factor))
    if block.starts is not None or (len(lead) > 1 and lead[1] > 1):
        for index in np.ndindex(*lead):
            spread = ((block.x @ root[index]) ** 2).sum(axis=1)
            joint[index] -= 0.5 * block.per_unit(spread)
        return
    _where_it_counts(block, root.reshape(k, p, p), joint.reshape(joint.shape[0], block.rows))


def _where_it_counts(block: Block, root: Array, joint: Array) -> None:
    """The same for rows and one run, leaving out components that cannot matter.

    Uncertainty only lowers a log density. A component that is far below the
    best before it is taken off, and below the best after, stays out of it.
    """
    done = np.zeros((root.shape[0], block.rows), dtype=bool)
    limit = joint.max(axis=0) - NEGLIGIBLE
    while True:
        wanted = ~done & (joint[: root.shape[0]] > limit)
        if not wanted.any():
            return
        for j in range(root.shape[0]):
            rows = np.flatnonzero(wanted[j])
            if rows.shape[0] > 0.7 * block.rows:
                rows = np.flatnonzero(~done[j])
            if rows.shape[0] == block.rows:
                joint[j] -= 0.5 * ((block.x @ root[j]) ** 2).sum(axis=1)
            elif rows.shape[0]:
                joint[j, rows] -= 0.5 * ((block.x[rows] @ root[j]) ** 2).sum(axis=1)
            done[j, rows] = True
        limit = joint.max(axis=0) - NEGLIGIBLE


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
    """

    mixture: Mixture
    priors: Priors

    @property
    def monotone(self) -> bool:
        """The bound never falls."""
        return True

    def sweep(self, source: Source, iteration: int, params: Beliefs) -> MixtureStatistics:
        """Make one pass; the objective is the evidence lower bound at the posterior."""
        sums = source.sweep(ExpectedAssignment(self.mixture), params)
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
    ) -> list[Reason | None]:
        """Stop when the bound hardly rises."""
        if before is None:
            return [None] * sums.objective.shape[0]
        still = sums.objective - before.objective < control.tol * sums.family.size.sum(axis=0)
        return ["converged" if s else None for s in still]
