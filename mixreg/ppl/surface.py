"""The log density of a PyMC model as a function of one vector, with its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from mixreg.errors import InputError
from mixreg.ppl.located import Located

Array = NDArray[np.float64]

# What a density of zero counts as, for who climbs.
NOTHING = -1e100
# Steps of a climb; of Newton's at its end; length of a step that tells the curvature.
MOST_STEPS, NEWTON_STEPS, STEP = 2000, 5, 1e-4


@dataclass(frozen=True, eq=False)
class Surface:
    """A model's log density in the unconstrained coordinates of its free variables.

    Attributes
    ----------
    found : Located
    """

    found: Located

    def __post_init__(self) -> None:
        """Refuse what has no gradient."""
        discrete = [v.name for v in self.found.model.discrete_value_vars]
        if discrete:
            raise InputError(
                f"the model has discrete variables, {', '.join(discrete)}, which no climb can "
                "reach; sum them out, or sample"
            )
        if not self.found.model.free_RVs:
            raise InputError("the model has no free variables; there is nothing to fit")

    @cached_property
    def start(self) -> Array:
        """The point at which PyMC would begin."""
        point = self.found.model.initial_point()
        return self.raveled(point)

    @cached_property
    def shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Name and shape of each variable, in the order of the vector."""
        point = self.found.model.initial_point()
        return [(v.name, point[v.name].shape) for v in self.found.model.value_vars]

    def raveled(self, point: dict[str, Array]) -> Array:
        """Values of unconstrained variables as a vector."""
        values = [np.ravel(point[v.name]) for v in self.found.model.value_vars]
        return np.concatenate(values).astype(float)

    def unraveled(self, vector: Array) -> dict[str, Array]:
        """A vector as values of unconstrained variables."""
        out, first = {}, 0
        for name, shape in self.shapes:
            size = int(np.prod(shape))
            out[name] = vector[first : first + size].reshape(shape)
            first += size
        return out

    def joined(self, outputs: list[Any]) -> tuple[list[Any], Any]:
        """Graphs of the value variables as graphs of one vector, and the vector."""
        from pymc.pytensorf import join_nonshared_inputs

        model = self.found.model
        made, vector = join_nonshared_inputs(
            point=model.initial_point(), outputs=outputs, inputs=model.value_vars
        )
        return list(made), vector

    @cached_property
    def _function(self) -> Any:
        import pytensor
        from pymc.pytensorf import compile as compiled

        model = self.found.model
        (plain, whole), vector = self.joined([model.logp(jacobian=False), model.logp()])
        slopes: list[Any] = [pytensor.grad(each, vector) for each in (plain, whole)]
        # PyMC's compiler makes parameters out of range a density of zero, not an error.
        return compiled([vector], [plain, slopes[0], whole, slopes[1]])

    def at(self, vector: Array, jacobian: bool) -> tuple[float, Array]:
        """Log density and its gradient; with the Jacobian, of the unconstrained variables."""
        with np.errstate(all="ignore"):
            plain, slope, whole, other = self._function(vector)
        value, gradient = (whole, other) if jacobian else (plain, slope)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return NOTHING, np.zeros_like(vector)
        return float(value), gradient

    def climbed(self, start: Array, jacobian: bool = False, steps: int = MOST_STEPS) -> Climb:
        """The maximum above a start."""
        return climb(lambda vector: self.at(vector, jacobian), start, steps)

    def curvature(self, vector: Array, jacobian: bool) -> Array:
        """Second derivatives, as differences of gradients."""
        n = len(vector)
        out = np.empty((n, n))
        for i in range(n):
            step = STEP * max(1.0, abs(vector[i])) * np.eye(1, n, i)[0]
            up, down = (self.at(vector + sign * step, jacobian)[1] for sign in (1, -1))
            out[i] = (up - down) / (2 * step[i])
        return (out + out.T) / 2

    def polished(self, end: Climb, jacobian: bool = False) -> Climb:
        """The same maximum after some of Newton's steps, where they lead upwards."""
        for _ in range(NEWTON_STEPS):
            value, slope = self.at(end.vector, jacobian)
            try:
                root = np.linalg.cholesky(-self.curvature(end.vector, jacobian))
            except np.linalg.LinAlgError:
                return end
            step = np.linalg.solve(root.T, np.linalg.solve(root, slope))
            after = self.at(end.vector + step, jacobian)[0]
            if not after > value:
                return end
            end = Climb(end.vector + step, after)
        return end

    @cached_property
    def _reported(self) -> tuple[list[str], Any]:
        model = self.found.model
        kept = [v for v in model.unobserved_value_vars if not v.name.endswith("__")]
        import pytensor

        made, vector = self.joined(kept)
        function = pytensor.function([vector], made, mode="FAST_COMPILE")
        return [v.name for v in kept], function

    def reported(self, vectors: Array) -> dict[str, Array]:
        """Variables that users know at some vectors, (draws, ...) each, deterministic ones too."""
        names, function = self._reported
        values = [function(vector) for vector in vectors]
        each = zip(names, zip(*values, strict=True), strict=True)
        return {name: np.asarray(found) for name, found in each}


@dataclass(frozen=True, eq=False)
class Climb:
    """Where a climb ended.

    Attributes
    ----------
    vector : array
    height : float
    """

    vector: Array
    height: float


def climb(function: Any, start: Array, steps: int = MOST_STEPS) -> Climb:
    """Climb a function that gives value and gradient, from a start."""

    def down(vector: Array) -> tuple[float, Array]:
        value, slope = function(vector)
        return -value, -slope

    options = {"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-13, "gtol": 1e-7, "maxcor": 30}
    end = minimize(down, start, jac=True, method="L-BFGS-B", options=options)
    return Climb(np.asarray(end.x), -float(end.fun))
