"""Newton steps on the mixture's own likelihood, to finish what EM began.

EM slows down where components overlap. The observed information is at hand
for the standard errors anyway, and a few Newton steps with it reach the
maximum to the last digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixreg.estimators.loop import Control, Reason
from mixreg.families import Gaussian
from mixreg.inference.information import InformationSums, TakeInformation
from mixreg.params import Layout, Parameters
from mixreg.sources import Source


@dataclass(frozen=True, slots=True)
class Newton:
    """Newton-Raphson for one run, on coefficients, log scales and logits."""

    family: Gaussian
    layout: Layout

    @property
    def monotone(self) -> bool:
        """A step after which the log-likelihood fell is halved."""
        return True

    def sweep(self, source: Source, iteration: int, params: Parameters) -> InformationSums:
        """Score and information at the parameters."""
        return source.sweep(TakeInformation(self.family), params.run(0)).contract(self.layout)

    def update(self, sums: InformationSums, params: Parameters) -> Parameters:
        """Take a Newton step, along directions in which the likelihood is concave."""
        values, vectors = np.linalg.eigh(sums.information)
        floor = 1e-8 * np.abs(values).max()
        along = vectors.T @ sums.score / np.maximum(np.abs(values), floor)
        vector = self.layout.pack(params.run(0)) + vectors @ along
        return self.layout.unpack(vector).stacked()

    def finished(
        self, sums: InformationSums, before: InformationSums | None, control: Control
    ) -> list[Reason | None]:
        """Stop when the Newton decrement says that nothing is left to gain."""
        values, vectors = np.linalg.eigh(sums.information)
        floor = 1e-8 * np.abs(values).max()
        along = vectors.T @ sums.score
        gain = 0.5 * float(along @ (along / np.maximum(np.abs(values), floor)))
        return ["converged" if gain < control.tol else None]
