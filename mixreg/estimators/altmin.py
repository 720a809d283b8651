"""Alternating minimisation: the paper's Algorithm 3, also known as hard EM."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import HardAssignment, MixtureStatistics
from mixreg.estimators.loop import Control, StopReason
from mixreg.exact.thresholds import HARD
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Swept

Array = NDArray[np.float64]

# Sums that differ by less, of the largest, differ by rounding: one row of so many is more.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class HardGate:
    """Class probabilities on concomitants, given hard labels; the rest stays as it is."""

    mixture: Mixture

    @property
    def monotone(self) -> bool:
        """The log probability of the labels never falls."""
        return True

    def sweep(self, source: Swept, iteration: int, params: Parameters) -> MixtureStatistics:
        """Assign labels; return the sums, and the log probability of the labels."""
        return source.sweep(HardAssignment(self.mixture, of_labels=True), params)

    def update(self, sums: MixtureStatistics, params: Parameters) -> Parameters:
        """Take a Newton step of the gate."""
        return replace(params, gating=self.mixture.gate.update(sums.count, sums.gate, params))

    def finished(
        self, sums: MixtureStatistics, before: MixtureStatistics | None, control: Control
    ) -> list[StopReason | None]:
        """Stop when the log probability hardly rises."""
        if before is None:
            return [None] * sums.objective.shape[0]
        still = sums.objective - before.objective < control.tol * sums.count.sum(axis=0)
        return ["converged" if s else None for s in still]


@dataclass(frozen=True, slots=True)
class AltMin:
    """Hard labels; the loss falls until no label changes.

    Attributes
    ----------
    mixture : Mixture
    fresh : tuple of Swept
        Disjoint parts of the data, a fresh one for each iteration; empty to
        use all of the data every time.
    """

    mixture: Mixture
    fresh: tuple[Swept, ...] = ()

    @property
    def monotone(self) -> bool:
        """The loss never rises, unless every iteration sees other data."""
        return not self.fresh

    def sweep(self, source: Swept, iteration: int, params: Parameters) -> MixtureStatistics:
        """Assign labels at the parameters; return the sums."""
        part = self.fresh[iteration % len(self.fresh)] if self.fresh else source
        return part.sweep(HardAssignment(self.mixture), params)

    def update(self, sums: MixtureStatistics, params: Parameters) -> Parameters:
        """Least squares within labels."""
        return self.mixture.mstep(sums.family, sums.count, sums.gate, params)

    def finished(
        self, sums: MixtureStatistics, before: MixtureStatistics | None, control: Control
    ) -> list[StopReason | None]:
        """Stop at zero loss, or when no label changed."""
        if before is None:
            return [None] * sums.objective.shape[0]
        if self.fresh:
            return [None] * sums.objective.shape[0]
        exact = self.mixture.family.mean_square(sums.family) < HARD
        if not self.mixture.family.linear:
            # The scores of one label's rows change until its fit is done.
            with np.errstate(invalid="ignore"):
                # Where some row had no density before and after, there is no gain to speak of.
                gain = sums.objective - before.objective
            still = gain < control.tol * sums.family.size.sum(axis=0)
            return ["labels" if s else None for s in still]
        # Unchanged labels give the same sums but for the order of additions, and no change
        # of labels is likely to; so labels need not be stored to be compared.
        same = _alike(sums.family.xx, before.family.xx, (0, -1, -2))
        same &= _alike(sums.family.size, before.family.size, (0,))
        return ["exact" if e else "labels" if s else None for e, s in zip(exact, same, strict=True)]


def _alike(one: Array, other: Array, axes: tuple[int, ...]) -> NDArray[np.bool_]:
    """Whether the sums of each run are the same to rounding."""
    gap = np.abs(one - other).max(axis=axes)
    return np.asarray(gap <= ROUNDING * np.abs(other).max(axis=axes))
