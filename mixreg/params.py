"""The parameters of a mixture, and their flat vector.

Component is axis 0 of every array. A stack of runs (many starts iterated as
one) adds one axis after it. This is the only place that permutes components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Parameters:
    """One mixture, or a stack of mixtures that are iterated together.

    Attributes
    ----------
    coef : (k, [runs,] p) array
        Regression coefficients.
    dispersion : (k, [runs]) array
        Residual variance (dispersion in other families).
    gating : (k, [runs,] q) array
        Multinomial logit of the class probabilities. With q = 1 these are
        log weights.
    """

    coef: Array
    dispersion: Array
    gating: Array

    @staticmethod
    def uniform(coef: Array, variance: float) -> Parameters:
        """Equal weights and one dispersion around given coefficients."""
        lead = coef.shape[:-1]
        return Parameters(
            coef, np.full(lead, float(variance)), np.full((*lead, 1), -np.log(coef.shape[0]))
        )

    @property
    def k(self) -> int:
        """Number of components."""
        return self.coef.shape[0]

    @property
    def weights(self) -> Array:
        """Class probabilities of a constant gate, (k, [runs])."""
        return np.exp(self.log_weights)

    @property
    def log_weights(self) -> Array:
        """Logarithms of `weights`."""
        gate = self.gating[..., 0]
        gate = gate - gate.max(axis=0)
        return np.asarray(gate - np.log(np.exp(gate).sum(axis=0)))

    def permute(self, order: Sequence[int] | NDArray[np.intp]) -> Parameters:
        """Reorder the components."""
        order = np.asarray(order)
        return Parameters(self.coef[order], self.dispersion[order], self.gating[order])

    def by_weight(self) -> Parameters:
        """Order the components by weight, largest first; ties by coefficients."""
        keys = [*self.coef.T[::-1], -self.weights]
        return self.permute(np.lexsort(keys))

    def run(self, index: int) -> Parameters:
        """One mixture out of a stack."""
        return Parameters(self.coef[:, index], self.dispersion[:, index], self.gating[:, index])

    def take(self, runs: Sequence[int] | NDArray[np.intp] | NDArray[np.bool_]) -> Parameters:
        """Some runs of a stack, still a stack."""
        return Parameters(self.coef[:, runs], self.dispersion[:, runs], self.gating[:, runs])

    def stacked(self) -> Parameters:
        """One mixture as a stack of one run."""
        return Parameters(self.coef[:, None], self.dispersion[:, None], self.gating[:, None])

    @staticmethod
    def concatenate(stacks: Sequence[Parameters]) -> Parameters:
        """Join stacks of runs into one."""
        return Parameters(
            np.concatenate([s.coef for s in stacks], axis=1),
            np.concatenate([s.dispersion for s in stacks], axis=1),
            np.concatenate([s.gating for s in stacks], axis=1),
        )

    def blend(self, other: Parameters, share: Array) -> Parameters:
        """Move each run a share of the way to another stack, variances in logs.

        Parameters
        ----------
        other : Parameters
            Where to go.
        share : (runs,) array
            0 stays, 1 arrives.
        """
        wide = share[:, None]
        return Parameters(
            self.coef + wide * (other.coef - self.coef),
            self.dispersion ** (1 - share) * other.dispersion**share,
            self.gating + wide * (other.gating - self.gating),
        )

    def choose(self, runs: NDArray[np.bool_], other: Parameters) -> Parameters:
        """Keep some runs of this stack and take the rest from another."""
        return Parameters(
            np.where(runs[:, None], self.coef, other.coef),
            np.where(runs, self.dispersion, other.dispersion),
            np.where(runs[:, None], self.gating, other.gating),
        )

    def with_equal_dispersion(self, value: Array | float) -> Parameters:
        """Give every component the same dispersion."""
        return replace(self, dispersion=np.broadcast_to(value, self.dispersion.shape).copy())


def log_gating(weights: Array) -> Array:
    """Turn weights (k, [runs]) into the gate's log weights, with no -inf."""
    return np.log(np.maximum(weights, 1e-300))[..., None]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each free parameter sits in the flat vector, and its name.

    Components come first, each with its coefficients and, when variances are
    free, its log standard deviation; then a common log standard deviation, if
    there is one; then the logits of components 2..k against component 1.
    """

    k: int
    terms: tuple[str, ...]
    equal_variance: bool

    @property
    def p(self) -> int:
        """Number of coefficients in a component."""
        return len(self.terms)

    @property
    def names(self) -> list[str]:
        """Names of the free parameters, `term[component]`."""
        names: list[str] = []
        for j in range(1, self.k + 1):
            names += [f"{term}[{j}]" for term in self.terms]
            if not self.equal_variance:
                names.append(f"log(sigma)[{j}]")
        if self.equal_variance:
            names.append("log(sigma)")
        return names + [f"logit(weight)[{j}]" for j in range(2, self.k + 1)]

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return self.k * self.p + (1 if self.equal_variance else self.k) + self.k - 1

    @property
    def block(self) -> int:
        """Parameters that each component owns."""
        return self.p + (0 if self.equal_variance else 1)

    def coef_index(self) -> NDArray[np.intp]:
        """Positions of the coefficients, (k, p)."""
        return np.arange(self.k)[:, None] * self.block + np.arange(self.p)

    def scale_index(self) -> NDArray[np.intp]:
        """Positions of the log standard deviations, (k,); all equal if common."""
        if self.equal_variance:
            return np.full(self.k, self.k * self.p)
        return np.arange(self.k) * self.block + self.p

    def gating_index(self) -> NDArray[np.intp]:
        """Positions of the logits of components 2..k."""
        return np.arange(self.size - self.k + 1, self.size)

    def pack(self, params: Parameters) -> Array:
        """Write a mixture as a flat vector."""
        vector = np.empty(self.size)
        vector[self.coef_index()] = params.coef
        vector[self.scale_index()] = 0.5 * np.log(params.dispersion)
        gate = params.gating[:, 0]
        vector[self.gating_index()] = gate[1:] - gate[0]
        return vector

    def unpack(self, vector: Array) -> Parameters:
        """Read a mixture from a flat vector."""
        vector = np.asarray(vector, dtype=float)
        gate = np.concatenate([[0.0], vector[self.gating_index()]])
        return Parameters(
            vector[self.coef_index()],
            np.exp(2 * vector[self.scale_index()]),
            np.asarray(log_softmax(gate))[:, None],
        )

    def free(self) -> Layout:
        """Give the same model with a variance for each component."""
        return replace(self, equal_variance=False)

    def contraction(self) -> Array:
        """Matrix J with free vector = J @ this vector, (free size, size)."""
        free = self.free()
        J = np.zeros((free.size, self.size))
        J[free.coef_index().ravel(), self.coef_index().ravel()] = 1.0
        J[free.scale_index(), self.scale_index()] = 1.0
        J[free.gating_index(), self.gating_index()] = 1.0
        return J
