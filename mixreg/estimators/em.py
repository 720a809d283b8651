"""Maximum likelihood by expectation and maximisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import MixtureStatistics, SoftAssignment
from mixreg.estimators.loop import Control, StopReason
from mixreg.exact.thresholds import SOFT
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Swept

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EM:
    """Soft labels; the log-likelihood rises at every step.

    Attributes
    ----------
    mixture : Mixture
    exact : float
        Mean squared residual (unit variance) at which to stop for an exact fit.
    """

    mixture: Mixture
    exact: float = SOFT

    @property
    def monotone(self) -> bool:
        """The log-likelihood never falls."""
        return True

    def sweep(self, source: Swept, iteration: int, params: Parameters) -> MixtureStatistics:
        """Make one pass at the parameters; return its sums."""
        return source.sweep(SoftAssignment(self.mixture), params)

    def update(self, sums: MixtureStatistics, params: Parameters) -> Parameters:
        """M-step for the family and the gate."""
        return self.mixture.mstep(sums.family, sums.count, sums.gate, params)

    def ahead(
        self, first: Parameters, middle: Parameters, end: Parameters, longest: Array
    ) -> tuple[Parameters, Array]:
        """The point that a leap leads to, and how many steps that is."""
        return self.mixture.ahead(first, middle, end, longest)

    def finished(
        self, sums: MixtureStatistics, before: MixtureStatistics | None, control: Control
    ) -> list[StopReason | None]:
        """Stop at an exact fit, or when the log-likelihood hardly rises."""
        exact = self.mixture.family.mean_square(sums.family) < self.exact
        if before is None:
            return ["exact" if e else None for e in exact]
        rows = sums.family.size.sum(axis=0)
        with np.errstate(invalid="ignore"):
            # Where some row had no density before and after, there is no gain to speak of.
            still = sums.objective - before.objective < control.tol * rows
        return [
            "exact" if e else "converged" if s else None for e, s in zip(exact, still, strict=True)
        ]


# A run that would have to keep its pace for this many iterations has no hope, but
# for a little more than that.
PACE, MARGIN = 100.0, 5.0


@dataclass(frozen=True, slots=True)
class RacingEM(EM):
    """EM that abandons runs which cannot reach the best.

    Attributes
    ----------
    height : float
        Log-likelihood of the best fit known on these rows.
    """

    height: float = -np.inf

    def finished(
        self, sums: MixtureStatistics, before: MixtureStatistics | None, control: Control
    ) -> list[StopReason | None]:
        """As EM, and let go what has no hope."""
        reasons = EM.finished(self, sums, before, control)
        if before is None:
            return reasons
        best = max(self.height, float(np.max(sums.objective)))
        with np.errstate(invalid="ignore"):
            # A run that just found a density above zero may still go anywhere.
            reach = sums.objective + PACE * np.abs(sums.objective - before.objective) + MARGIN
            lost = reach < best
        return [
            "abandoned" if reason is None and hopeless else reason
            for reason, hopeless in zip(reasons, lost, strict=True)
        ]
