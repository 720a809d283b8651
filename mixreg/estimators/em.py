"""Maximum likelihood by expectation and maximisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mixreg.estimators.expectation import MixtureStatistics, SoftAssignment
from mixreg.estimators.loop import Control, Reason
from mixreg.families import Gaussian
from mixreg.params import Parameters, log_gating
from mixreg.sources import Source

# Mean squared residual, of data with unit variance, below which a fit is taken
# for exact. Condensed data resolve no smaller residuals.
EXACT = 1e-13


@dataclass(frozen=True, slots=True)
class EM:
    """Soft labels; the log-likelihood rises at every step.

    Attributes
    ----------
    family : Gaussian
    exact : float
        Mean squared residual (unit variance) at which to stop for an exact fit.
    """

    family: Gaussian
    exact: float = EXACT

    @property
    def monotone(self) -> bool:
        """The log-likelihood never falls."""
        return True

    def sweep(self, source: Source, iteration: int, params: Parameters) -> MixtureStatistics:
        """Make one pass at the parameters; return its sums."""
        return source.sweep(SoftAssignment(self.family), params)

    def update(self, sums: MixtureStatistics, params: Parameters) -> Parameters:
        """M-step for the family and the gate."""
        return mstep(self.family, sums, params)

    def finished(
        self, sums: MixtureStatistics, before: MixtureStatistics | None, control: Control
    ) -> list[Reason | None]:
        """Stop at an exact fit, or when the log-likelihood hardly rises."""
        exact = sums.mean_square < self.exact
        if before is None:
            return ["exact" if e else None for e in exact]
        rows = sums.family.size.sum(axis=0)
        still = sums.objective - before.objective < control.tol * rows
        return [
            "exact" if e else "converged" if s else None for e, s in zip(exact, still, strict=True)
        ]


def mstep(family: Gaussian, sums: MixtureStatistics, params: Parameters) -> Parameters:
    """New parameters from the sums of one pass."""
    new = family.update(sums.family, params)
    weights = sums.count / sums.count.sum(axis=0)
    return Parameters(new.coef, new.dispersion, log_gating(np.asarray(weights)))
