"""The flat vector of a mixture: where each free parameter sits, and its name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.mixture.gate import Gate, make_gate
from mixreg.mixture.parameters import Parameters, class_order

Array = NDArray[np.float64]


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

    def scaled(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of all dispersions (k, ...), those of them that the flat vector has."""
        return np.asarray(values[self._scaled])

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
        return names + self._gate.names(self.gate, others)

    @property
    def _gate(self) -> Gate:
        return make_gate(len(self.gate))

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return self._gate_start + (self.classes - 1) * self._gate.width

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
        width = self._gate.width
        gate = np.zeros((self.classes, width))
        gate[1:] = vector[self.gating_index()].reshape(-1, width)
        several = (len(self.scale_name),) if isinstance(self.scale_name, tuple) else ()
        dispersion = np.ones((self.k, *several))
        if self.scale_name is not None:
            dispersion[self._scaled] = np.exp(vector[self.scale_index()] / self._power)
        index = self.coef_index()
        coef = np.where(index >= 0, vector[index], 0.0)
        return Parameters(coef, dispersion, self._gate.settled(gate))

    def turning(self, order: NDArray[np.intp]) -> Array:
        """Matrix that takes the flat vector to that of components in another order."""
        turn = np.zeros((self.size, self.size))
        for index in (self.coef_index(), self.scale_index().reshape(self.k, -1)):
            if index.size:
                turn[index, index[order]] = 1.0
        gate = self.gating_index().reshape(self.classes - 1, self._gate.width)
        classes = class_order(order, self.k, self.classes)
        for row, old in zip(gate, classes[1:], strict=True):
            # Logits are against the first class, which may be another one now.
            if old:
                turn[row, gate[old - 1]] += 1.0
            if classes[0]:
                turn[row, gate[classes[0] - 1]] -= 1.0
        return turn

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
