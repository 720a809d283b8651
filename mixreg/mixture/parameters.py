"""The parameters of a mixture, and their flat vector.

Component is axis 0 of every array. A stack of runs (many starts iterated as
one) adds one axis after it. This is the only place that permutes components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

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
        classes = np.concatenate([order, np.arange(self.k, self.gating.shape[0])])
        return Parameters(self.coef[order], self.dispersion[order], self.gating[classes])

    def by_weight(self, weights: Array | None = None) -> Parameters:
        """Order the components by weight, largest first; ties by coefficients."""
        weights = self.weights if weights is None else weights
        keys = [*self.coef.T[::-1], -weights[: self.k]]
        return self.permute(np.lexsort(keys))

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
        self, middle: Parameters, end: Parameters, longest: Array
    ) -> tuple[Parameters, Array]:
        """Where two steps in a row are heading, variances in logs.

        Parameters
        ----------
        middle, end : Parameters
            One step from here, and two.
        longest : (runs,) array
            Most steps to go ahead.

        Returns
        -------
        Parameters and (runs,) array
            The point ahead; how many steps that is.
        """
        at = [(a.coef, np.log(a.dispersion), a.gating) for a in (self, middle, end)]
        steps = [b - a for a, b in zip(at[0], at[1], strict=True)]
        bends = [c - b - s for b, c, s in zip(at[1], at[2], steps, strict=True)]
        # Log weights of a component that empties run off; they count as weights do.
        constant = self.gating.shape[-1] == 1
        metric = (1.0, 1.0, middle.weights[..., None] if constant else 1.0)
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
        scale = np.exp(np.clip(scale, -LARGEST_LOG, LARGEST_LOG))
        if constant:
            # Log weights that do not add up to one would count as a step of the next cycle.
            gate = np.asarray(log_softmax(gate, axis=0))
        return Parameters(coef, scale, gate), length

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


def _wide(runs: Any, like: Array) -> Any:
    """Values (runs,) shaped to broadcast against (k, runs, ...)."""
    return runs.reshape(-1, *[1] * (like.ndim - 2))


def _run_squares(values: Array) -> Array:
    """Sum of squares of each run of (k, runs, ...) values."""
    return np.asarray((values * values).sum(axis=(0, *range(2, values.ndim))))


def log_gating(weights: Array) -> Array:
    """Turn weights (k, [runs]) into the gate's log weights, with no -inf."""
    return np.log(np.maximum(weights, 1e-300))[..., None]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each free parameter sits in the flat vector, and its name.

    Components come first, each with its own coefficients and, when dispersions
    are free, its log dispersion; then shared coefficients; then a common log
    dispersion, if there is one; then the gate of components 2..k against
    component 1, and of the background.

    Attributes
    ----------
    k : int
    terms : tuple of str
    equal_dispersion : bool
    scale_name : str or None
        Name of the dispersion in the flat vector; None if there is none. A tuple
        with one entry a response where there are several.
    scale_power : float
        The flat vector holds log(dispersion ** scale_power); a tuple likewise.
    shared : tuple of int
        Terms with one coefficient for all components.
    gate : tuple of str
        Concomitant variables; empty when class probabilities are constant.
    background : bool
    absent : tuple of (component, term) pairs, both from 0
        Coefficients that are zero because a component lacks the term.
    """

    k: int
    terms: tuple[str, ...]
    equal_dispersion: bool = False
    scale_name: str | tuple[str | None, ...] | None = "sigma"
    scale_power: float | tuple[float, ...] = 0.5
    shared: tuple[int, ...] = ()
    gate: tuple[str, ...] = ()
    background: bool = False
    absent: tuple[tuple[int, int], ...] = ()

    @property
    def p(self) -> int:
        """Number of coefficients in a component."""
        return len(self.terms)

    def own(self, component: int) -> list[int]:
        """Terms of a component that are not shared, and not absent."""
        apart = {i for j, i in self.absent if j == component} | set(self.shared)
        return [i for i in range(self.p) if i not in apart]

    @property
    def classes(self) -> int:
        """Components, and the background."""
        return self.k + self.background

    @property
    def scale_names(self) -> list[str]:
        """Names of a component's dispersions: none, one, or some of the responses'."""
        given = self.scale_name if isinstance(self.scale_name, tuple) else (self.scale_name,)
        return [name for name in given if name is not None]

    @property
    def _scaled(self) -> Any:
        """Where in an array of dispersions (k, ...) those of the flat vector are."""
        if not isinstance(self.scale_name, tuple):
            return slice(None)
        return np.s_[:, [i for i, name in enumerate(self.scale_name) if name is not None]]

    @property
    def _power(self) -> Any:
        """Exponents of the dispersions of the flat vector."""
        power = np.asarray(self.scale_power)
        return power if power.ndim == 0 else power[self._scaled[1]]

    @property
    def names(self) -> list[str]:
        """Names of the free parameters, `term[component]`."""
        names: list[str] = []
        for j in range(1, self.k + 1):
            names += [f"{self.terms[i]}[{j}]" for i in self.own(j - 1)]
            if not self.equal_dispersion:
                names += [f"log({name})[{j}]" for name in self.scale_names]
        names += [self.terms[i] for i in self.shared]
        if self.equal_dispersion:
            names += [f"log({name})" for name in self.scale_names]
        others = [str(j) for j in range(2, self.k + 1)] + ["noise"] * self.background
        if not self.gate:
            return names + [f"logit(weight)[{j}]" for j in others]
        return names + [f"gate.{term}[{j}]" for j in others for term in self.gate]

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return self._gate_start + (self.classes - 1) * max(1, len(self.gate))

    def _starts(self) -> list[int]:
        """First position of each component's own parameters, and of what follows them."""
        starts, scales = [0], 0 if self.equal_dispersion else len(self.scale_names)
        for j in range(self.k):
            starts.append(starts[-1] + len(self.own(j)) + scales)
        return starts

    @property
    def _gate_start(self) -> int:
        common = len(self.scale_names) if self.equal_dispersion else 0
        return self._starts()[-1] + len(self.shared) + common

    def coef_index(self) -> NDArray[np.intp]:
        """Positions of the coefficients, (k, p); shared ones repeat, absent ones are -1."""
        index = np.full((self.k, self.p), -1, dtype=np.intp)
        starts, shared = self._starts(), list(self.shared)
        for j in range(self.k):
            own = self.own(j)
            index[j, own] = starts[j] + np.arange(len(own))
        index[:, shared] = starts[-1] + np.arange(len(shared))
        return index

    def scale_index(self) -> NDArray[np.intp]:
        """Positions of the log dispersions, (k,), all equal if common; (0,) if none.

        With several responses (k, m), where m of them have a dispersion.
        """
        if self.scale_name is None:
            return np.zeros(0, dtype=np.intp)
        ends = [self._gate_start] * self.k if self.equal_dispersion else self._starts()[1:]
        index = np.array(ends, dtype=np.intp)[:, None] + np.arange(-len(self.scale_names), 0)
        return index if isinstance(self.scale_name, tuple) else index[:, 0]

    def gating_index(self) -> NDArray[np.intp]:
        """Positions of the gate of classes 2..K, one class after another."""
        return np.arange(self._gate_start, self.size)

    def pack(self, params: Parameters) -> Array:
        """Write a mixture as a flat vector."""
        vector, index = np.empty(self.size), self.coef_index()
        vector[index[index >= 0]] = params.coef[index >= 0]
        if self.scale_name is not None:
            logs = np.log(params.dispersion[self._scaled])
            vector[self.scale_index()] = self._power * logs
        gate = params.gating
        vector[self.gating_index()] = (gate[1:] - gate[:1]).ravel()
        return vector

    def unpack(self, vector: Array) -> Parameters:
        """Read a mixture from a flat vector."""
        vector = np.asarray(vector, dtype=float)
        width = max(1, len(self.gate))
        gate = np.zeros((self.classes, width))
        gate[1:] = vector[self.gating_index()].reshape(-1, width)
        several = (len(self.scale_name),) if isinstance(self.scale_name, tuple) else ()
        dispersion = np.ones((self.k, *several))
        if self.scale_name is not None:
            dispersion[self._scaled] = np.exp(vector[self.scale_index()] / self._power)
        gate = gate if self.gate else np.asarray(log_softmax(gate, axis=0))
        index = self.coef_index()
        return Parameters(np.where(index >= 0, vector[index], 0.0), dispersion, gate)

    def free(self) -> Layout:
        """Give the same model with nothing in common between components."""
        return replace(self, equal_dispersion=False, shared=(), absent=())

    def contraction(self) -> Array:
        """Matrix J with free vector = J @ this vector, (free size, size)."""
        free = self.free()
        J = np.zeros((free.size, self.size))
        index = self.coef_index()
        J[free.coef_index()[index >= 0], index[index >= 0]] = 1.0
        J[free.scale_index(), self.scale_index()] = 1.0
        J[free.gating_index(), self.gating_index()] = 1.0
        return J
