"""What variational Bayes believes of linear regressions: all of it exact.

Given the residual variance, a component's own coefficients are normal, and the precision
is gamma. Coefficients that components share are normal, apart from all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, polygamma

from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.priors import Priors
from mixreg.estimators.uncertainty import (
    Contested,
    Uncertainty,
    log_determinant,
    roots,
    subtract_uncertainty,
)
from mixreg.families import FamilyStatistics
from mixreg.families.gaussian import LOG_2PI
from mixreg.families.statistics import scoring_step
from mixreg.mixture.mixture import Mixture, without
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LinearView:
    """Rows under beliefs about linear regressions, (part of a task).

    Attributes
    ----------
    mixture : Mixture
    factor, root : (k, [runs,] p, p) arrays
        Covariance of all coefficients over the residual variance, and its root.
    uncertainty : Uncertainty or None
        Of one run; None for a stack of runs.
    """

    mixture: Mixture
    factor: Array
    root: Array
    uncertainty: Uncertainty | None = None

    def expected(self, block: Block | GramBlock, beliefs: Beliefs) -> tuple[Array, Any]:
        """Average log density of each unit, coefficients taken for known; and residuals."""
        family, at = self.mixture.family, _at(beliefs)
        state = family.evaluate(block, at)  # type: ignore[arg-type]
        precision = (beliefs.shape / beliefs.rate)[..., None]
        log_variance = (np.log(beliefs.rate) - digamma(beliefs.shape))[..., None]
        density = family.unit_loss(block, at, state) * (-0.5 * precision)  # type: ignore[arg-type]
        density -= 0.5 * block.size * (LOG_2PI + log_variance)
        return density, state

    def discount(self, block: Block | GramBlock, joint: Array) -> Contested | None:
        """Take uncertainty of the coefficients off, in place, where it decides."""
        alone = isinstance(block, Block) and block.pairs is None and block.starts is None
        if isinstance(block, Block) and alone and self.uncertainty is not None:
            return Contested.find(block, self.uncertainty, joint)
        subtract_uncertainty(block, self.factor, self.root, joint)
        return None

    def statistics(
        self, block: Block | GramBlock, beliefs: Beliefs, state: Any, resp: Array
    ) -> FamilyStatistics:
        """Cross products, at the means."""
        return self.mixture.statistics(block, _at(beliefs), state, resp)

    def left(self, contested: Contested | None, sums: FamilyStatistics, resp: Array) -> Any:
        """What uncertainty takes off the bound beside what was taken off already."""
        if contested is None:
            return 0.0
        # Where uncertainty changes no label it is in the cross products.
        total = np.einsum("k...pq,k...pq->...", self.factor, sums.xx)
        return 0.5 * (total - contested.taken(resp))


def _at(beliefs: Beliefs) -> Parameters:
    """Posterior means as parameters, for what needs no more of them."""
    return Parameters(beliefs.coef, beliefs.rate / beliefs.shape, beliefs.counts[..., None])


@dataclass(frozen=True, slots=True)
class Conjugate:
    """Beliefs about linear regressions.

    Attributes
    ----------
    mixture : Mixture
    priors : Priors
    """

    mixture: Mixture
    priors: Priors

    @property
    def exact(self) -> bool:
        """All averages are."""
        return True

    def start(self, params: Parameters, rows: Array, chances: Any) -> Beliefs:
        """As if each component had been seen in so many rows, (k, [runs])."""
        own, priors = params.coef.shape[-1] - self.mixture.shared, self.priors
        each = np.ones(params.coef.shape) / (rows + priors.precision)[..., None]
        each[..., own:] = 1 / ((rows / params.dispersion).sum(axis=0) + priors.precision)[..., None]
        factor = each[..., None] * np.eye(each.shape[-1]) * present_pairs(self.mixture, each)
        seen, squares = rows, params.dispersion * rows
        if self.mixture.family.equal_dispersion:
            seen, squares = summed(seen), summed(squares)
        shape, rate = priors.shape + seen / 2, priors.rate + squares / 2
        return Beliefs(params.coef, factor, shape, rate, chances.counts).with_chances(chances)

    def view(self, beliefs: Beliefs, longest: float) -> LinearView:
        """What a pass over the rows needs."""
        factor, own = beliefs.factor, beliefs.coef.shape[-1] - self.mixture.shared
        if self.mixture.shared:
            factor = factor.copy()
            factor[..., own:, own:] *= (beliefs.shape / beliefs.rate)[..., None, None]
        root = roots(factor)
        single = Uncertainty.of(root[:, 0], longest) if root.shape[1] == 1 else None
        return LinearView(self.mixture, factor, root, single)

    def update(self, sums: FamilyStatistics, beliefs: Beliefs) -> Beliefs:
        """The posterior given responsibilities."""
        mixture, priors, p = self.mixture, self.priors, sums.xe.shape[-1]
        if mixture.absent:
            sums = without(sums, mixture.absent)
        xx, xe, size, own = sums.xx, sums.xe, sums.size, p - mixture.shared
        if mixture.shared:
            step, factor = self._together(sums, beliefs)
        else:
            factor = np.asarray(np.linalg.inv(xx + priors.precision * np.eye(p)))
            pull = xe - priors.precision * beliefs.coef
            step = np.einsum("...pq,...q->...p", factor, pull)
        coef = beliefs.coef + step
        fitted = np.einsum("...pq,...q->...p", xx, step)
        squares = sums.ee - np.einsum("...p,...p->...", step, 2 * xe - fitted)
        squares = np.maximum(squares, 0.0)
        squares = squares + priors.precision * (coef[..., :own] ** 2).sum(axis=-1)
        if mixture.shared:
            squares += np.einsum("...pq,...pq->...", xx[..., own:, own:], factor[..., own:, own:])
        if mixture.family.equal_dispersion:
            squares, size = summed(squares), summed(size)
        factor = 0.5 * (factor + np.swapaxes(factor, -1, -2)) * present_pairs(mixture, coef)
        shape, rate = priors.shape + 0.5 * size, priors.rate + 0.5 * squares
        return replace(beliefs, coef=coef, factor=factor, shape=shape, rate=rate)

    def _together(self, sums: FamilyStatistics, beliefs: Beliefs) -> tuple[Array, Array]:
        """Step and covariances where some coefficients are shared: precisions are as they were."""
        p, (k, shared) = sums.xe.shape[-1], (beliefs.k, self.mixture.shared)
        own, prior = p - shared, self.priors.precision
        precision = (beliefs.shape / beliefs.rate)[..., None]
        mine = np.repeat(prior * precision, own, axis=-1)
        common = np.full((*mine.shape[:-1], shared), prior / k)
        each = np.concatenate([mine, common], axis=-1)
        lhs = sums.xx * precision[..., None] + each[..., None] * np.eye(p)
        pull = sums.xe * precision - each * beliefs.coef
        step = scoring_step(lhs, pull, np.zeros(pull.shape[1:-1]), shared)
        factor = np.zeros_like(lhs)
        factor[..., :own, :own] = np.linalg.inv(sums.xx[..., :own, :own] + prior * np.eye(own))
        factor[..., own:, own:] = np.linalg.inv(lhs[..., own:, own:].sum(axis=0))
        return step, factor

    def divergence(self, beliefs: Beliefs) -> Array:
        """Kullback-Leibler divergence of the posterior from the prior, ([runs])."""
        priors, own = self.priors, beliefs.coef.shape[-1] - self.mixture.shared
        a, b, a0, b0 = beliefs.shape, beliefs.rate, priors.shape, priors.rate
        mine = beliefs.factor[..., :own, :own]
        length = (beliefs.coef[..., :own] ** 2).sum(axis=-1) * a / b
        normal = normal_divergence(mine, length, priors.precision).sum(axis=0)
        if self.mixture.shared:
            length = (beliefs.coef[0, ..., own:] ** 2).sum(axis=-1)
            common = beliefs.factor[0, ..., own:, own:]
            normal = normal + normal_divergence(common, length, priors.precision)
        gamma = (a - a0) * digamma(a) - gammaln(a) + gammaln(a0)
        gamma = gamma + a0 * np.log(b / b0) + a * (b0 - b) / b
        once = gamma[0] if self.mixture.family.equal_dispersion else gamma.sum(axis=0)
        return np.asarray(normal + once)

    def emptied(self, beliefs: Beliefs, j: int) -> Beliefs:
        """Component j as before any data."""
        coef, factor = beliefs.coef.copy(), beliefs.factor.copy()
        own = coef.shape[-1] - self.mixture.shared
        coef[j, ..., :own] = 0.0
        factor[j, ..., :own, :own] = np.eye(own) / self.priors.precision
        factor = factor * present_pairs(self.mixture, coef)
        shape, rate = beliefs.shape.copy(), beliefs.rate.copy()
        if not self.mixture.family.equal_dispersion:
            shape[j], rate[j] = self.priors.shape, self.priors.rate
        return replace(beliefs, coef=coef, factor=factor, shape=shape, rate=rate)

    def dispersion(self, beliefs: Beliefs) -> Array:
        """Mean variances."""
        return np.asarray(beliefs.rate / np.maximum(beliefs.shape - 1, 0.5))

    def covariances(self, beliefs: Beliefs) -> Array:
        """Of the coefficients of one mixture, (k, p, p); huge where there is none."""
        own = beliefs.coef.shape[-1] - self.mixture.shared
        a, b = beliefs.shape, beliefs.rate
        variance = np.where(a > 1, b / np.maximum(a - 1, 1e-300), np.inf)
        found = beliefs.factor.copy()
        found[:, :own, :own] *= np.minimum(variance, 1e290)[:, None, None]
        return found

    def log_dispersion(self, beliefs: Beliefs) -> tuple[Array, Array]:
        """Means and variances of the log variances, (k,)."""
        a, b = beliefs.shape, beliefs.rate
        return np.log(b) - digamma(a), np.asarray(polygamma(1, a))

    def degrees(self, beliefs: Beliefs) -> Array:
        """Degrees of freedom of the coefficients, (k, p): Student's, if they are not shared."""
        found = np.repeat(2 * beliefs.shape[:, None], beliefs.coef.shape[-1], axis=1)
        found[:, found.shape[1] - self.mixture.shared :] = np.inf
        return found

    def draw(self, beliefs: Beliefs, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Coefficients (k, n, p) and variances (k, n)."""
        (k, p), shared = beliefs.coef.shape, self.mixture.shared
        one = self.mixture.family.equal_dispersion
        variance = 1 / rng.gamma(beliefs.shape, 1 / beliefs.rate, size=(n, k))
        variance = np.repeat(variance[:, :1], k, axis=1) if one else variance
        normal = rng.standard_normal((n, k, p))
        wide = np.repeat(np.sqrt(variance)[..., None], p, axis=-1)
        if shared:
            normal[..., p - shared :] = normal[:, :1, p - shared :]
            wide[..., p - shared :] = 1.0
        step = np.einsum("kpq,nkq->nkp", roots(beliefs.factor), normal)
        return np.moveaxis(beliefs.coef + wide * step, 1, 0), variance.T


def normal_divergence(cov: Array, length: Array, precision: float) -> Array:
    """Of normal distributions from one with mean zero; `length` is that of the mean, squared."""
    known = np.diagonal(cov, axis1=-2, axis2=-1) == 0
    size = cov.shape[-1] - np.count_nonzero(known, axis=-1)
    trace = np.trace(cov, axis1=-2, axis2=-1)
    inner = precision * (trace + length) - size - log_determinant(cov)
    return np.asarray(0.5 * (inner - size * np.log(precision)))


def present_pairs(mixture: Mixture, coef: Array) -> Any:
    """One for pairs of coefficients (k, [runs,] p) that are there, else zero, (k, [runs,] p, p)."""
    if not mixture.absent:
        return 1.0
    there = np.ones(coef.shape)
    for j, i in mixture.absent:
        there[j, ..., i] = 0.0
    return there[..., :, None] * there[..., None, :]


def summed(values: Array) -> Array:
    """The sum over components, for each of them."""
    return np.broadcast_to(values.sum(axis=0), values.shape).copy()
