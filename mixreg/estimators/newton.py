"""Newton steps on the mixture's own likelihood, to finish what EM began.

EM slows down where components overlap. The observed information is at hand
for the standard errors anyway, and a few Newton steps with it reach the
maximum to the last digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.loop import Control, Reason
from mixreg.inference.information import InformationSums, TakeInformation
from mixreg.mixture import Mixture
from mixreg.params import Layout, Parameters
from mixreg.sources import Source

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Newton:
    """Newton-Raphson for one run, on coefficients, log scales and logits.

    Attributes
    ----------
    mixture : Mixture
    layout : Layout
    rows : float
        Rows, counted with their weights; tolerances are per row.
    """

    mixture: Mixture
    layout: Layout
    rows: float

    @property
    def monotone(self) -> bool:
        """A step after which the log-likelihood fell is halved."""
        return True

    def sweep(self, source: Source, iteration: int, params: Parameters) -> InformationSums:
        """Score and information at the parameters."""
        return source.sweep(TakeInformation(self.mixture), params.run(0)).contract(self.layout)

    def update(self, sums: InformationSums, params: Parameters) -> Parameters:
        """Take a Newton step; leave a saddle along its direction of ascent."""
        step, values, vectors = self._step(sums)
        if _saddle(values) and np.abs(step).max() < 1e-4:
            step = step + 0.1 * vectors[:, 0]
        # Standard coordinates are of order one; a longer step is a wild one.
        step = step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        return self.layout.unpack(self.layout.pack(params.run(0)) + step).stacked()

    def finished(
        self, sums: InformationSums, before: InformationSums | None, control: Control
    ) -> list[Reason | None]:
        """Stop at a maximum at which a step would gain next to nothing."""
        step, values, _ = self._step(sums)
        gain = 0.5 * float(step @ sums.score)
        # Steps cost much and converge fast: go on to well below the tolerance,
        # but not below rounding.
        rounding = 1e-14 * (1 + abs(float(sums.objective[0])))
        small = gain < max(1e-3 * control.tol * self.rows, rounding)
        return ["converged" if small and not _saddle(values) else None]

    def _step(self, sums: InformationSums) -> tuple[Array, Array, Array]:
        """Newton step with curvatures made positive, and the curvatures."""
        values, vectors = np.linalg.eigh(sums.information)
        floor = 1e-8 * np.abs(values).max()
        step = vectors @ (vectors.T @ sums.score / np.maximum(np.abs(values), floor))
        return step, values, vectors


def _saddle(values: Array) -> bool:
    """Whether the likelihood curves upwards in some direction."""
    return bool(values[0] < -1e-6 * np.abs(values).max())
