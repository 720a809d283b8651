"""What variational Bayes iterates: a posterior, in the place of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from mixreg.estimators.priors import Priors
from mixreg.mixture.parameters import Parameters, class_order, log_gating

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Beliefs:
    """Posterior of a mixture, or of a stack of mixtures, in standard coordinates.

    Given its variance, a component's coefficients are normal; the precision is
    gamma; the weights are Dirichlet.

    Attributes
    ----------
    coef : (k, [runs,] p) array
        Posterior means.
    factor : (k, [runs,] p, p) array
        Covariance of the coefficients over the residual variance.
    shape, rate : (k, [runs]) arrays
        Of the residual precision.
    counts : (K, [runs]) array
        Dirichlet counts.
    """

    coef: Array
    factor: Array
    shape: Array
    rate: Array
    counts: Array

    @staticmethod
    def around(params: Parameters, rows: float, units: float, priors: Priors) -> Beliefs:
        """A start: as if each component had been seen in its share of the rows."""
        lead, p = params.coef.shape[:-1], params.coef.shape[-1]
        own = rows * params.weights[: params.k]
        factor = np.eye(p) / (own + priors.precision)[..., None, None]
        shape = priors.shape + own / 2
        rate = priors.rate + params.dispersion * own / 2
        return Beliefs(
            params.coef,
            np.broadcast_to(factor, (*lead, p, p)).copy(),
            shape,
            rate,
            priors.concentration + units * params.weights,
        )

    @property
    def k(self) -> int:
        """Number of components."""
        return self.coef.shape[0]

    @property
    def weights(self) -> Array:
        """Posterior means of the weights."""
        return np.asarray(self.counts / self.counts.sum(axis=0))

    def point(self) -> Parameters:
        """The mixture at the posterior means."""
        variance = self.rate / np.maximum(self.shape - 1, 0.5)
        return Parameters(self.coef, variance, log_gating(self.weights))

    def _each(self, arrays: Sequence[Array]) -> Beliefs:
        return Beliefs(*arrays)

    def _arrays(self) -> tuple[Array, ...]:
        return self.coef, self.factor, self.shape, self.rate, self.counts

    def run(self, index: int) -> Beliefs:
        """One mixture out of a stack."""
        return self._each([a[:, index] for a in self._arrays()])

    def take(self, runs: NDArray[np.intp] | NDArray[np.bool_]) -> Beliefs:
        """Some runs of a stack, still a stack."""
        return self._each([a[:, runs] for a in self._arrays()])

    def stacked(self) -> Beliefs:
        """One mixture as a stack of one run."""
        return self._each([a[:, None] for a in self._arrays()])

    @staticmethod
    def concatenate(stacks: Sequence[Beliefs]) -> Beliefs:
        """Join stacks of runs into one."""
        parts = zip(*(s._arrays() for s in stacks), strict=True)
        return Beliefs(*(np.concatenate(part, axis=1) for part in parts))

    def permute(self, order: NDArray[np.intp]) -> Beliefs:
        """Reorder the components; the background, if there is one, stays last."""
        own = [a[order] for a in self._arrays()[:-1]]
        return self._each([*own, self.counts[class_order(order, self.k, self.counts.shape[0])]])

    def blend(self, other: Beliefs, share: Array) -> Beliefs:
        """Move each run a share of the way to another stack."""
        return self._each(
            [
                a + _wide(share, a) * (b - a)
                for a, b in zip(self._arrays(), other._arrays(), strict=True)
            ]
        )

    def choose(self, runs: NDArray[np.bool_], other: Beliefs) -> Beliefs:
        """Keep some runs of this stack and take the rest from another."""
        return self._each(
            [
                np.where(_wide(runs, a), a, b)
                for a, b in zip(self._arrays(), other._arrays(), strict=True)
            ]
        )

    def divergence(self, priors: Priors) -> Array:
        """Kullback-Leibler divergence of the posterior from the prior, ([runs])."""
        p = self.coef.shape[-1]
        a, b, a0, b0 = self.shape, self.rate, priors.shape, priors.rate
        trace = np.trace(self.factor, axis1=-2, axis2=-1)
        logdet = np.linalg.slogdet(self.factor)[1]
        length = (self.coef**2).sum(axis=-1) * a / b
        normal = 0.5 * (priors.precision * (trace + length) - p - logdet)
        normal -= 0.5 * p * np.log(priors.precision)
        gamma = (a - a0) * digamma(a) - gammaln(a) + gammaln(a0)
        gamma = gamma + a0 * np.log(b / b0) + a * (b0 - b) / b
        alpha, alpha0 = self.counts, priors.concentration
        total, K = alpha.sum(axis=0), alpha.shape[0]
        weights = gammaln(total) - gammaln(K * alpha0)
        weights = weights - (gammaln(alpha) - gammaln(alpha0)).sum(axis=0)
        weights = weights + ((alpha - alpha0) * (digamma(alpha) - digamma(total))).sum(axis=0)
        return np.asarray((normal + gamma).sum(axis=0) + weights)


def _wide(runs: Any, like: Array) -> Any:
    """Values (runs,) shaped to broadcast against (k, runs, ...)."""
    return runs.reshape(-1, *[1] * (like.ndim - 2))
