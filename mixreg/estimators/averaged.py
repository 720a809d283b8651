"""What variational Bayes believes of families that have no conjugate posterior.

Coefficients are normal, and so is the log dispersion. The family averages its log density
over them (`families/uncertain.py`); a step of coefficients is Newton's, and the inverse
curvature where it begins is their covariance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.conjugate import normal_divergence, present_pairs, summed
from mixreg.estimators.priors import Priors
from mixreg.estimators.uncertainty import roots
from mixreg.families import FamilyStatistics
from mixreg.families.statistics import scoring_step
from mixreg.mixture.mixture import Mixture, without
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Largest change of a mean log dispersion in one step, and exponents that are computed with.
SCALE_STEP, LARGEST = 1.0, 600.0


@dataclass(frozen=True, slots=True)
class AveragedView:
    """Rows under beliefs about their regressions, (part of a task).

    Attributes
    ----------
    mixture : Mixture
    root : (k, [runs,] p, p) array
        Root of the coefficients' covariance.
    wide : (k, [runs]) array
        Standard deviation of the log dispersion.
    """

    mixture: Mixture
    root: Array
    wide: Array

    def expected(self, block: Block, beliefs: Beliefs) -> tuple[Array, Any]:
        """Average log density of each unit, and what its sums need."""
        return self.mixture.family.averages(block, _at(beliefs), self.root, self.wide)

    def discount(self, block: Block, joint: Array) -> None:
        """Nothing: averages have all of it."""

    def statistics(
        self, block: Block, beliefs: Beliefs, state: Any, resp: Array
    ) -> FamilyStatistics:
        """Sums of average scores and curvatures."""
        own = resp if self.mixture.background is None else resp[: beliefs.k]
        return self.mixture.family.average_statistics(block, _at(beliefs), state, own)

    def left(self, taken: None, sums: FamilyStatistics, resp: Array) -> Any:
        """Nothing is left to be taken off the bound."""
        return 0.0


def _at(beliefs: Beliefs) -> Parameters:
    """Posterior means as parameters."""
    return Parameters(beliefs.coef, beliefs.rate / beliefs.shape, beliefs.counts[..., None])


@dataclass(frozen=True, slots=True)
class Averaged:
    """Beliefs about regressions of any family.

    Attributes
    ----------
    mixture : Mixture
    priors : Priors
    """

    mixture: Mixture
    priors: Priors

    @property
    def exact(self) -> bool:
        """Averages are approximate."""
        return False

    @property
    def _scaled(self) -> bool:
        return self.mixture.family.dispersion_name is not None

    @property
    def _precision(self) -> float:
        return self.priors.link_scale**-2

    def start(self, params: Parameters, rows: Array, chances: Any) -> Beliefs:
        """As if each component had been seen in so many rows, (k, [runs])."""
        each = np.ones(params.coef.shape) / (rows + self._precision)[..., None]
        own = each.shape[-1] - self.mixture.shared
        each[..., own:] = 1 / (rows.sum(axis=0) + self._precision)[..., None]
        factor = each[..., None] * np.eye(each.shape[-1]) * present_pairs(self.mixture, each)
        shape, rate = np.ones(rows.shape), np.ones(rows.shape)
        if self._scaled:
            seen = summed(rows) if self.mixture.family.equal_dispersion else rows
            shape = self.priors.shape + seen / 2
            rate = shape * params.dispersion
        return Beliefs(params.coef, factor, shape, rate, chances.counts).with_chances(chances)

    def view(self, beliefs: Beliefs, longest: float) -> AveragedView:
        """What a pass over the rows needs."""
        wide = 1 / np.sqrt(beliefs.shape) if self._scaled else np.zeros(beliefs.shape.shape)
        return AveragedView(self.mixture, roots(beliefs.factor), wide)

    def update(self, sums: FamilyStatistics, beliefs: Beliefs) -> Beliefs:
        """A step of all means, and the inverse curvatures where it begins."""
        mixture, prior = self.mixture, self._precision
        k, p, shared = beliefs.k, beliefs.coef.shape[-1], mixture.shared
        own = p - shared
        if mixture.absent:
            sums = without(sums, mixture.absent)
        each = np.concatenate([np.full(own, prior), np.full(shared, prior / k)])
        info = _positive(sums.xx + each * np.eye(p), float(each.min()))
        step = scoring_step(info, sums.xe - each * beliefs.coef, np.zeros(info.shape[1:-2]), shared)
        step = mixture.family.held_back(step, bool(shared))
        factor = np.zeros_like(info)
        factor[..., :own, :own] = _inverse(info[..., :own, :own])
        if shared:
            factor[..., own:, own:] = _inverse(info[..., own:, own:].sum(axis=0))
        factor = 0.5 * (factor + np.swapaxes(factor, -1, -2))
        factor = factor * present_pairs(mixture, beliefs.coef)
        shape, rate = self._scales(sums, beliefs)
        return replace(beliefs, coef=beliefs.coef + step, factor=factor, shape=shape, rate=rate)

    def _scales(self, sums: FamilyStatistics, beliefs: Beliefs) -> tuple[Array, Array]:
        """A step of the mean log dispersions, and their precisions where it begins."""
        if not self._scaled:
            return beliefs.shape, beliefs.rate
        score, curved = sums.spread
        if self.mixture.family.equal_dispersion:
            score, curved = summed(score), summed(curved)
        mean, pull = _mean_log(beliefs), self._inverse(beliefs)
        score, curved = score - self.priors.shape + pull, curved + pull
        step = score / np.maximum(np.abs(curved), 1e-3 * np.abs(score) + 1e-300)
        low, high = np.log(self.mixture.family.scale_range)
        mean = np.clip(mean + np.clip(step, -SCALE_STEP, SCALE_STEP), low, high)
        # The data may say next to nothing; then no more is known than before.
        shape = np.maximum(curved, self.priors.shape)
        return shape, shape * np.exp(mean)

    def _inverse(self, beliefs: Beliefs) -> Array:
        """The prior's rate times the mean of the inverse dispersion."""
        power = 0.5 / beliefs.shape - _mean_log(beliefs)
        return np.asarray(self.priors.rate * np.exp(np.minimum(power, LARGEST)))

    def divergence(self, beliefs: Beliefs) -> Array:
        """Kullback-Leibler divergence of the posterior from the prior, ([runs])."""
        own, prior = beliefs.coef.shape[-1] - self.mixture.shared, self._precision
        length = (beliefs.coef[..., :own] ** 2).sum(axis=-1)
        mine = beliefs.factor[..., :own, :own]
        total = normal_divergence(mine, length, prior).sum(axis=0)
        if self.mixture.shared:
            length = (beliefs.coef[0, ..., own:] ** 2).sum(axis=-1)
            total = total + normal_divergence(beliefs.factor[0, ..., own:, own:], length, prior)
        if not self._scaled:
            return np.asarray(total)
        each = self._scale_divergence(beliefs)
        once = each[0] if self.mixture.family.equal_dispersion else each.sum(axis=0)
        return np.asarray(total + once)

    def _scale_divergence(self, beliefs: Beliefs) -> Array:
        """Of normal log dispersions from that of an inverse gamma distribution."""
        a0, b0 = self.priors.shape, self.priors.rate
        entropy = 0.5 * (np.log(2 * np.pi / beliefs.shape) + 1)
        prior = a0 * np.log(b0) - gammaln(a0) - a0 * _mean_log(beliefs) - self._inverse(beliefs)
        return np.asarray(-entropy - prior)

    def emptied(self, beliefs: Beliefs, j: int) -> Beliefs:
        """Component j as before any data."""
        coef, factor = beliefs.coef.copy(), beliefs.factor.copy()
        own = coef.shape[-1] - self.mixture.shared
        coef[j, ..., :own] = 0.0
        factor[j, ..., :own, :own] = np.eye(own) / self._precision
        factor = factor * present_pairs(self.mixture, coef)
        shape, rate = beliefs.shape.copy(), beliefs.rate.copy()
        if self._scaled and not self.mixture.family.equal_dispersion:
            shape[j] = self.priors.shape
            rate[j] = self.priors.rate * np.exp(0.5 / self.priors.shape)
        return replace(beliefs, coef=coef, factor=factor, shape=shape, rate=rate)

    def dispersion(self, beliefs: Beliefs) -> Array:
        """Dispersions at their mean logarithm."""
        return np.asarray(beliefs.rate / beliefs.shape)

    def covariances(self, beliefs: Beliefs) -> Array:
        """Of the coefficients of one mixture, (k, p, p)."""
        return beliefs.factor

    def log_dispersion(self, beliefs: Beliefs) -> tuple[Array, Array]:
        """Means and variances of the log dispersions, (k,)."""
        return _mean_log(beliefs), 1 / beliefs.shape

    def degrees(self, beliefs: Beliefs) -> Array:
        """Degrees of freedom of the coefficients, (k, p): they are normal."""
        return np.full(beliefs.coef.shape, np.inf)

    def draw(self, beliefs: Beliefs, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Coefficients (k, n, p) and dispersions (k, n)."""
        (k, p), shared = beliefs.coef.shape, self.mixture.shared
        normal, scales = rng.standard_normal((n, k, p)), rng.standard_normal((n, k))
        if shared:
            normal[..., p - shared :] = normal[:, :1, p - shared :]
        if self.mixture.family.equal_dispersion:
            scales = np.repeat(scales[:, :1], k, axis=1)
        coef = beliefs.coef + np.einsum("kpq,nkq->nkp", roots(beliefs.factor), normal)
        if not self._scaled:
            return np.moveaxis(coef, 1, 0), np.ones((k, n))
        logs = _mean_log(beliefs) + scales / np.sqrt(beliefs.shape)
        return np.moveaxis(coef, 1, 0), np.exp(logs).T


def _mean_log(beliefs: Beliefs) -> Array:
    """Means of the log dispersions."""
    return np.asarray(np.log(beliefs.rate) - np.log(beliefs.shape))


def _inverse(matrix: Array) -> Array:
    """Inverses of positive matrices (..., p, p), whatever the sizes of what they are about."""
    try:
        return np.asarray(np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        scale = 1 / np.sqrt(np.diagonal(matrix, axis1=-2, axis2=-1))
        sizes = scale[..., :, None] * scale[..., None, :]
        values, vectors = np.linalg.eigh(matrix * sizes)
        values = np.maximum(values, 1e-15)
        inverse = (vectors / values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return np.asarray(inverse * sizes)


def _positive(matrix: Array, least: float) -> Array:
    """Symmetric matrices (..., p, p) with curvatures made positive, and not below `least`."""
    # Curvatures beyond all numbers are of rows whose means are: they hold nothing in place.
    matrix = np.nan_to_num(matrix, posinf=0.0, neginf=0.0)
    values, vectors = np.linalg.eigh(matrix)
    if values.min() >= least:
        return matrix
    values = np.maximum(np.abs(values), least)
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))
