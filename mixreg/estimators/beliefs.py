"""What variational Bayes iterates: a posterior, in the place of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.mixture.gate_posterior import Chances, none_of
from mixreg.mixture.parameters import class_order

Array = NDArray[np.float64]


def _no_logit() -> Array:
    """Stands for a logit that is not there, until its shape is known."""
    return np.empty(0)


@dataclass(frozen=True, slots=True)
class Beliefs:
    """Posterior of a mixture, or of a stack of mixtures, in standard coordinates.

    Of linear regressions: given its variance, a component's coefficients are normal; the
    precision is gamma. Of other families: coefficients are normal, and so is the log
    dispersion, with mean log(rate / shape) and variance 1 / shape. Shared coefficients
    are normal in any case, and apart from the others. Weights are Dirichlet, or
    coefficients of a logit are normal.

    Attributes
    ----------
    coef : (k, [runs,] p) array
        Posterior means.
    factor : (k, [runs,] p, p) array
        Covariance of the coefficients; of linear regressions over the residual variance,
        but for the shared ones. Zero for coefficients that a component lacks.
    shape, rate : (k, [runs]) arrays
        Of the residual precision, or of the log dispersion; all equal if it is common.
    counts : (K, [runs]) array
        Units of each class, and those of the prior: Dirichlet counts.
    gating : (K, [runs,] q) array
        Means of a logit's coefficients; q is 0 if there is none.
    spread : (K, [runs,] q, K, q) array
        Their covariance.
    """

    coef: Array
    factor: Array
    shape: Array
    rate: Array
    counts: Array
    gating: Array = field(default_factory=_no_logit)
    spread: Array = field(default_factory=_no_logit)

    def __post_init__(self) -> None:
        """Give a logit that is not there its shape."""
        if self.gating.ndim == 1:
            nothing = none_of(self.counts)
            object.__setattr__(self, "gating", nothing.gating)
            object.__setattr__(self, "spread", nothing.spread)

    @property
    def k(self) -> int:
        """Number of components."""
        return self.coef.shape[0]

    @property
    def chances(self) -> Chances:
        """What is believed of class probabilities."""
        return Chances(self.counts, self.gating, self.spread)

    def with_chances(self, chances: Chances) -> Beliefs:
        """The same with other beliefs about class probabilities."""
        return replace(self, counts=chances.counts, gating=chances.gating, spread=chances.spread)

    @property
    def weights(self) -> Array:
        """Posterior means of the weights; shares of the units where there is a logit."""
        return np.asarray(self.counts / self.counts.sum(axis=0))

    def _each(self, arrays: Sequence[Array]) -> Beliefs:
        return Beliefs(*arrays)

    def _arrays(self) -> tuple[Array, ...]:
        own = self.coef, self.factor, self.shape, self.rate
        return *own, self.counts, self.gating, self.spread

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
        """Reorder the components; the background, if there is one, stays last.

        A logit is then one against the class that comes first.
        """
        classes = class_order(order, self.k, self.counts.shape[0])
        own = [a[order] for a in self._arrays()[:4]]
        gating = self.gating[classes]
        spread = self.spread[classes][..., classes, :]
        first = spread[..., :1, :]
        spread = spread - first - spread[:1] + first[:1]
        return self._each([*own, self.counts[classes], gating - gating[:1], spread])

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


def _wide(runs: Any, like: Array) -> Any:
    """Values (runs,) shaped to broadcast against (k, runs, ...)."""
    return runs.reshape(-1, *[1] * (like.ndim - 2))
