"""The parameters of a mixture.

Component is axis 0 of every array. A stack of runs (many starts iterated as
one) adds one axis after it. This is the only place that permutes components.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Logarithms of dispersions beyond this are no numbers to compute with.
LARGEST_LOG = 600.0
# Standard coordinates, log dispersions and log weights are of order one: to go further
# ahead than this is wild, and empties components or leaves the range of numbers.
FARTHEST = 5.0


@dataclass(frozen=True, slots=True)
class Parameters:
    """One mixture, or a stack of mixtures that are iterated together.

    Attributes
    ----------
    coef : (k, [runs,] p) array
        Regression coefficients.
    dispersion : (k, [runs]) array
        Residual variance (dispersion in other families). With several responses
        (k, [runs,] d), one each.
    gating : (K, [runs,] q) array
        Multinomial logit of the class probabilities. With q = 1 these are
        log weights. K is k, or k + 1 with a background component, which is last.
    """

    coef: Array
    dispersion: Array
    gating: Array

    @staticmethod
    def uniform(coef: Array, variance: float | Array) -> Parameters:
        """Equal weights and one dispersion (of each response) around given coefficients."""
        lead = coef.shape[:-1]
        spread = np.broadcast_to(variance, (*lead, *np.shape(variance))).astype(float)
        return Parameters(coef, spread, np.full((*lead, 1), -np.log(coef.shape[0])))

    @property
    def k(self) -> int:
        """Number of components."""
        return self.coef.shape[0]

    @property
    def weights(self) -> Array:
        """Class probabilities of a constant gate, (K, [runs])."""
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
        classes = class_order(order, self.k, self.gating.shape[0])
        return Parameters(self.coef[order], self.dispersion[order], self.gating[classes])

    def by_weight(self, weights: Array | None = None) -> Parameters:
        """Order the components by weight, largest first; ties by coefficients."""
        return self.permute(weight_order(self.coef, self.weights if weights is None else weights))

    def doubled(self, component: int, more: int, apart: float) -> Parameters:
        """A mixture with more components, all of them copies of one, a little apart.

        The copies share the weight of that one; the background stays last.
        """
        k, order = self.k, [*range(self.k), *[component] * more]
        classes = [*order, *range(k, self.gating.shape[0])]
        coef, gate = self.coef[order], self.gating[classes]
        copies = [component, *range(k, k + more)]
        gate[copies, ..., 0] -= np.log(len(copies))
        for number, copy in enumerate(copies):
            coef[copy] += apart * np.sqrt(self.dispersion[component].mean()) * (number - more / 2)
        return Parameters(coef, self.dispersion[order], gate)

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
        wide, scales = share[:, None], self._by_run(share)
        return Parameters(
            self.coef + wide * (other.coef - self.coef),
            self.dispersion ** (1 - scales) * other.dispersion**scales,
            self.gating + wide * (other.gating - self.gating),
        )

    def ahead(
        self,
        middle: Parameters,
        end: Parameters,
        longest: Array,
        gate_metric: Array | float = 1.0,
    ) -> tuple[Parameters, Array]:
        """Where two steps in a row are heading, variances in logs.

        Parameters
        ----------
        middle, end : Parameters
            One step from here, and two.
        longest : (runs,) array
            Most steps to go ahead.
        gate_metric : array or float
            How much a change of the gate counts in the length of a step.

        Returns
        -------
        Parameters and (runs,) array
            The point ahead; how many steps that is.
        """
        at = [(a.coef, np.log(a.dispersion), a.gating) for a in (self, middle, end)]
        steps = [b - a for a, b in zip(at[0], at[1], strict=True)]
        bends = [c - b - s for b, c, s in zip(at[1], at[2], steps, strict=True)]
        metric = (1.0, 1.0, gate_metric)
        step, bend = (
            sum(_run_squares(m * d) for m, d in zip(metric, ds, strict=True))
            for ds in (steps, bends)
        )
        length = np.clip(np.sqrt(step / np.maximum(bend, 1e-300)), 1.0, longest)
        coef, scale, gate = (
            c
            + np.clip(
                a - c + _wide(length, a) * (2 * s + _wide(length, a) * b), -FARTHEST, FARTHEST
            )
            for a, s, b, c in zip(at[0], steps, bends, at[2], strict=True)
        )
        return Parameters(coef, np.exp(np.clip(scale, -LARGEST_LOG, LARGEST_LOG)), gate), length

    def choose(self, runs: NDArray[np.bool_], other: Parameters) -> Parameters:
        """Keep some runs of this stack and take the rest from another."""
        return Parameters(
            np.where(runs[:, None], self.coef, other.coef),
            np.where(self._by_run(runs), self.dispersion, other.dispersion),
            np.where(runs[:, None], self.gating, other.gating),
        )

    def _by_run(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values (runs,) in the shape that goes with a stack's dispersions."""
        return values[:, None] if self.dispersion.ndim == self.coef.ndim else values

    def with_equal_dispersion(self, value: Array | float) -> Parameters:
        """Give every component the same dispersion."""
        return replace(self, dispersion=np.broadcast_to(value, self.dispersion.shape).copy())


def class_order(order: NDArray[np.intp], k: int, classes: int) -> NDArray[np.intp]:
    """An order of the components as one of all classes: the background stays last."""
    return np.concatenate([order, np.arange(k, classes)])


def new_numbers(components: Iterable[int], order: NDArray[np.intp]) -> tuple[int, ...]:
    """Numbers of some components (from 0) in another order, smallest first."""
    places = np.argsort(order)
    return tuple(sorted(int(places[j]) for j in components))


def weight_order(coef: Array, weights: Array) -> NDArray[np.intp]:
    """Components (k, p) by weight, largest first; ties by coefficients."""
    return np.lexsort([*coef.T[::-1], -weights[: len(coef)]])


def _wide(runs: Any, like: Array) -> Any:
    """Values (runs,) shaped to broadcast against (k, runs, ...)."""
    return runs.reshape(-1, *[1] * (like.ndim - 2))


def _run_squares(values: Array) -> Array:
    """Sum of squares of each run of (k, runs, ...) values."""
    return np.asarray((values * values).sum(axis=(0, *range(2, values.ndim))))


def log_gating(weights: Array) -> Array:
    """Turn weights (k, [runs]) into the gate's log weights, with no -inf."""
    return np.log(np.maximum(weights, 1e-300))[..., None]
