"""What variational Bayes believes of class probabilities: counts, or coefficients of a logit.

Weights that are the same for all units are Dirichlet, and all that is asked of them is
exact. Coefficients of a logit are normal; the average of its log probabilities is taken to
second order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, polygamma

from mixreg.mixture.gate_statistics import GateStatistics, LogitStatistics
from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.sources.block import Block, GramBlock, column_pairs

Array = NDArray[np.float64]

LONGEST_STEP = 5.0
# Where the constant of a class goes that is to lose its units.
GONE = 8.0


@dataclass(frozen=True, slots=True)
class Chances:
    """Beliefs about class probabilities, of one mixture or a stack.

    Attributes
    ----------
    counts : (K, [runs]) array
        Units of each class, and those that the prior adds: Dirichlet counts of constant weights.
    gating : (K, [runs,] q) array
        Means of a logit's coefficients, zero for the first class; q is 0 if there is no logit.
    spread : (K, [runs,] q, K, q) array
        Their covariance.
    """

    counts: Array
    gating: Array
    spread: Array


class GatePosterior(Protocol):
    """What variational Bayes asks of a gate."""

    @property
    def exact(self) -> bool:
        """Whether its part of the bound is exact."""

    def start(self, gating: Array, units: float, priors: Any) -> Chances:
        """Beliefs around the gating of some parameters."""

    def expected(self, block: Block | GramBlock, at: Chances) -> Array:
        """Average log class probability of each unit, (K, [runs,] units or 1)."""

    def statistics(self, block: Block | GramBlock, at: Chances, resp: Array) -> Any:
        """Sums of an update, given weighted responsibilities (K, [runs,] units)."""

    def update(self, count: Array, sums: Any, at: Chances, priors: Any) -> Chances:
        """Beliefs after a step."""

    def divergence(self, at: Chances, priors: Any) -> Array:
        """Kullback-Leibler divergence from the prior, ([runs])."""

    def emptied(self, at: Chances, j: int, priors: Any) -> Chances:
        """The same beliefs with class j about to lose its units."""

    def point(self, at: Chances) -> Array:
        """Gating at the means."""

    def moments(self, at: Chances) -> tuple[Array, Array]:
        """Gating whose log odds are the means, and covariance of the log odds of classes 2..K."""

    def draw(self, at: Chances, n: int, rng: np.random.Generator) -> Array:
        """Gating of n draws, (K, n, width)."""


def none_of(counts: Array) -> Chances:
    """Counts, and no logit."""
    lead = counts.shape
    return Chances(counts, np.zeros((*lead, 0)), np.zeros((*lead, 0, lead[0], 0)))


@dataclass(frozen=True, slots=True)
class DirichletPosterior:
    """Weights that all units share."""

    @property
    def exact(self) -> bool:
        """They are conjugate."""
        return True

    def start(self, gating: Array, units: float, priors: Any) -> Chances:
        """As if units had been counted."""
        weights = np.exp(gating[..., 0] - np.logaddexp.reduce(gating[..., 0], axis=0))
        return none_of(priors.concentration + units * weights)

    def expected(self, block: Block | GramBlock, at: Chances) -> Array:
        """Average log weights."""
        return np.asarray(digamma(at.counts) - digamma(at.counts.sum(axis=0)))[..., None]

    def statistics(self, block: Block | GramBlock, at: Chances, resp: Array) -> GateStatistics:
        """Nothing but the counts is needed."""
        return GateStatistics()

    def update(self, count: Array, sums: GateStatistics, at: Chances, priors: Any) -> Chances:
        """Counts, and those of the prior."""
        return none_of(priors.concentration + count)

    def divergence(self, at: Chances, priors: Any) -> Array:
        """Of one Dirichlet distribution from another."""
        alpha, alpha0 = at.counts, priors.concentration
        total, K = alpha.sum(axis=0), alpha.shape[0]
        weights = gammaln(total) - gammaln(K * alpha0)
        weights = weights - (gammaln(alpha) - gammaln(alpha0)).sum(axis=0)
        each = (alpha - alpha0) * (digamma(alpha) - digamma(total))
        return np.asarray(weights + each.sum(axis=0))

    def emptied(self, at: Chances, j: int, priors: Any) -> Chances:
        """No units of class j."""
        counts = at.counts.copy()
        counts[j] = priors.concentration
        return none_of(counts)

    def point(self, at: Chances) -> Array:
        """Logarithms of the mean weights."""
        return log_gating(np.asarray(at.counts / at.counts.sum(axis=0)))

    def moments(self, at: Chances) -> tuple[Array, Array]:
        """Those of log weights against the first."""
        spread = polygamma(1, at.counts)
        return digamma(at.counts)[..., None], np.diag(spread[1:]) + spread[0]

    def draw(self, at: Chances, n: int, rng: np.random.Generator) -> Array:
        """Gamma draws in logarithms, because small counts underflow."""
        counts = at.counts
        logs = np.log(rng.gamma(counts + 1, size=(n, len(counts))))
        logs += np.log(rng.random((n, len(counts)))) / counts
        gate = logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)
        return gate.T[..., None]


class Logit(Protocol):
    """What is asked of the logit itself."""

    def log_prior(self, block: Block | GramBlock, params: Parameters) -> Array:
        """Log class probability of each unit."""

    def statistics(
        self, block: Block | GramBlock, params: Parameters, resp: Array
    ) -> LogitStatistics:
        """Score and information of a Newton step."""

    def variables(self, block: Block | GramBlock) -> Array:
        """The concomitants."""


@dataclass(frozen=True, slots=True)
class LogitPosterior:
    """Coefficients of a multinomial logit.

    Attributes
    ----------
    gate : Logit
    """

    gate: Logit

    @property
    def exact(self) -> bool:
        """Averages are taken to second order."""
        return False

    def start(self, gating: Array, units: float, priors: Any) -> Chances:
        """Coefficients as they are, known about as well as so many units tell."""
        gate = gating - gating[:1]
        lead, q = gate.shape[:-1], gate.shape[-1]
        weights = np.exp(gating[..., 0] - np.logaddexp.reduce(gating[..., 0], axis=0))
        each = np.ones((*lead[1:], (lead[0] - 1) * q)) / (units / 4 + priors.gate_scale**-2)
        spread = _unfold(each[..., None] * np.eye(each.shape[-1]), lead[0], q)
        return Chances(priors.concentration + units * weights, gate, spread)

    def expected(self, block: Block | GramBlock, at: Chances) -> Array:
        """Log probabilities at the means, less half the variance of utilities under them."""
        logs = self.gate.log_prior(block, _at(at))
        _, variance = self._gaps(block, at, np.exp(logs))
        return np.asarray(logs - 0.5 * variance)

    def statistics(self, block: Block | GramBlock, at: Chances, resp: Array) -> LogitStatistics:
        """Score of the average log probabilities, and information at the means."""
        sums = self.gate.statistics(block, _at(at), resp)
        chance = np.exp(self.gate.log_prior(block, _at(at)))
        gaps, variance = self._gaps(block, at, chance)
        more = resp.sum(axis=0) * chance * (-0.5) * (gaps - variance)
        return LogitStatistics(sums.score + more @ self.gate.variables(block), sums.information)

    def _gaps(self, block: Block | GramBlock, at: Chances, chance: Array) -> tuple[Array, Array]:
        """Variance of each utility about the mean one, (K, [runs,] units), and their mean."""
        pairs, K = column_pairs(self.gate.variables(block)), chance.shape[0]
        between = np.zeros_like(chance)  # Covariance with the mean utility.
        own = np.zeros_like(chance)
        for j in range(1, K):
            for other in range(j, K):
                both = _fold(at.spread[j, ..., :, other, :]) @ pairs.T
                between[j] += chance[other] * both
                if other == j:
                    own[j] = both
                else:
                    between[other] += chance[j] * both
        middle = (chance * between).sum(axis=0)
        gaps = own - 2 * between + middle
        return gaps, np.asarray((chance * gaps).sum(axis=0))

    def update(self, count: Array, sums: LogitStatistics, at: Chances, priors: Any) -> Chances:
        """One Newton step, and the inverse curvature where it began."""
        gate, counts = at.gating, priors.concentration + count
        K, q = gate.shape[0], gate.shape[-1]
        if K == 1:
            return Chances(counts, gate, at.spread)
        precision = priors.gate_scale**-2
        score = sums.score[1:] - precision * gate[1:]
        score = np.moveaxis(score, 0, -2)
        score = score.reshape(*score.shape[:-2], (K - 1) * q)
        inverse = np.linalg.inv(sums.matrix() + precision * np.eye((K - 1) * q))
        step = np.einsum("...pq,...q->...p", inverse, score)
        length = np.abs(step).max(axis=-1, keepdims=True)
        step = step * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-300))
        step = np.moveaxis(step.reshape(*step.shape[:-1], K - 1, q), -2, 0)
        new = np.concatenate([gate[:1], gate[1:] + step])
        return Chances(counts, new, _unfold(inverse, K, q))

    def divergence(self, at: Chances, priors: Any) -> Array:
        """Of one normal distribution from another."""
        cov, precision = free_spread(at.spread), priors.gate_scale**-2
        size = cov.shape[-1]
        length = (at.gating[1:] ** 2).sum(axis=(0, -1))
        trace, logdet = np.trace(cov, axis1=-2, axis2=-1), np.linalg.slogdet(cov)[1]
        inner = precision * (trace + length) - size - logdet - size * np.log(precision)
        return np.asarray(0.5 * inner)

    def emptied(self, at: Chances, j: int, priors: Any) -> Chances:
        """Class j far less likely than the others, whatever the concomitants."""
        counts, gate = at.counts.copy(), at.gating.copy()
        counts[j] = priors.concentration
        if len(counts) > 1:
            rest = np.delete(gate, j, axis=0).mean(axis=0)
            gate[j], gate[j, ..., 0] = 0.0, rest[..., 0] - GONE
        return Chances(counts, gate - gate[:1], at.spread)

    def point(self, at: Chances) -> Array:
        """The mean coefficients."""
        return at.gating

    def moments(self, at: Chances) -> tuple[Array, Array]:
        """Of the coefficients."""
        return at.gating, free_spread(at.spread)

    def draw(self, at: Chances, n: int, rng: np.random.Generator) -> Array:
        """Normal draws."""
        K, q = at.gating.shape
        draws = np.zeros((n, K, q))
        if K > 1:
            root = np.linalg.cholesky(free_spread(at.spread))
            normal = rng.standard_normal((n, (K - 1) * q)) @ root.T
            draws[:, 1:] = at.gating[1:] + normal.reshape(n, K - 1, q)
        return np.moveaxis(draws, 1, 0)


def free_spread(spread: Array) -> Array:
    """Covariance of the coefficients of classes 2..K, ([runs,] m, m)."""
    K, q = spread.shape[0], spread.shape[-1]
    free = np.moveaxis(spread[1:, ..., 1:, :], 0, -4)
    return free.reshape(*free.shape[:-4], (K - 1) * q, (K - 1) * q)


def _unfold(cov: Array, K: int, q: int) -> Array:
    """A covariance of classes 2..K as one of all classes, the first known for sure."""
    lead = cov.shape[:-2]
    full = np.zeros((*lead, K, q, K, q))
    full[..., 1:, :, 1:, :] = cov.reshape(*lead, K - 1, q, K - 1, q)
    return np.moveaxis(full, -4, 0)


def _fold(matrix: Array) -> Array:
    """Quadratic forms (..., q, q) as weights of `column_pairs`."""
    rows, cols = np.triu_indices(matrix.shape[-1])
    both = matrix[..., rows, cols] + matrix[..., cols, rows]
    return np.asarray(np.where(rows == cols, 0.5, 1.0) * both)


def _at(at: Chances) -> Parameters:
    """Parameters with this gating and nothing else."""
    nothing = np.empty((*at.counts.shape, 0))
    return Parameters(nothing, at.counts, at.gating)
