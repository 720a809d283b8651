"""Variational Bayes: mean-field coordinate ascent."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.components import Components, View, components_of
from mixreg.estimators.expectation import MixtureStatistics, normalise, weighted
from mixreg.estimators.loop import Control, StopReason
from mixreg.estimators.priors import Priors
from mixreg.estimators.uncertainty import longest_row
from mixreg.mixture.mixture import Mixture, pinned
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Swept
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ExpectedAssignment:
    """Task: responsibilities under the posterior, and the sums its update needs.

    Attributes
    ----------
    mixture : Mixture
    view : View
        Rows under what is believed of the components.
    """

    mixture: Mixture
    view: View

    def __call__(self, block: Block | GramBlock, params: Beliefs) -> MixtureStatistics:
        """Process one block; the objective is the data's part of the ELBO."""
        gate, chances = self.mixture.gate.posterior, params.chances
        joint, state = self.view.expected(block, params)
        if self.mixture.background is not None:
            length = self.mixture.background
            even = self.mixture.family.unit_background(block, length)  # type: ignore[arg-type]
            joint = np.concatenate([joint, np.broadcast_to(even, (1, *joint.shape[1:]))])
        joint += gate.expected(block, chances)
        taken = self.view.discount(block, joint)
        marginal = normalise(pinned(block, joint, -np.inf))
        resp = weighted(block, joint)
        sums = self.view.statistics(block, params, state, resp)
        objective = weighted(block, marginal).sum(axis=-1) - self.view.left(taken, sums, resp)
        count = resp.sum(axis=-1)
        return MixtureStatistics(objective, count, sums, gate.statistics(block, chances, resp))


@dataclass(frozen=True, slots=True)
class Variational:
    """Coordinate ascent; the evidence lower bound rises at every step.

    Where a part of the bound is approximate, a step after which it fell is halved.

    Attributes
    ----------
    mixture : Mixture
    priors : Priors
    longest : float
        Largest squared length of a row of regressors; infinity if not known.
    """

    mixture: Mixture
    priors: Priors
    longest: float = np.inf

    @property
    def monotone(self) -> bool:
        """The bound never falls."""
        return True

    @property
    def components(self) -> Components:
        """Beliefs about the components."""
        return components_of(self.mixture, self.priors)

    def around(self, params: Parameters, rows: float, units: float) -> Beliefs:
        """A start: as if each component had been seen in its share of the rows."""
        chances = self.mixture.gate.posterior.start(params.gating, units, self.priors)
        share = chances.counts / chances.counts.sum(axis=0)
        if self.mixture.gate.constant:
            share = params.weights
        return self.components.start(params, rows * share[: params.k], chances)

    def measured(self, source: Swept) -> Variational:
        """The same, knowing the rows of linear regressions."""
        if not self.mixture.family.linear:
            return self
        return replace(self, longest=source.sweep(longest_row).value)

    def point(self, beliefs: Beliefs) -> Parameters:
        """The mixture at the posterior means."""
        gating = self.mixture.gate.posterior.point(beliefs.chances)
        return Parameters(beliefs.coef, self.components.dispersion(beliefs), gating)

    def sweep(self, source: Swept, iteration: int, params: Beliefs) -> MixtureStatistics:
        """Make one pass; the objective is the evidence lower bound at the posterior."""
        components, gate = self.components, self.mixture.gate.posterior
        task = ExpectedAssignment(self.mixture, components.view(params, self.longest))
        sums = source.sweep(task, params)
        away = components.divergence(params) + gate.divergence(params.chances, self.priors)
        return replace(sums, objective=sums.objective - away)

    def update(self, sums: MixtureStatistics, params: Beliefs) -> Beliefs:
        """The posterior given responsibilities."""
        gate = self.mixture.gate.posterior
        chances = gate.update(sums.count, sums.gate, params.chances, self.priors)
        return self.components.update(sums.family, params).with_chances(chances)

    def finished(
        self, sums: MixtureStatistics, before: MixtureStatistics | None, control: Control
    ) -> list[StopReason | None]:
        """Stop when the bound hardly rises."""
        if before is None:
            return [None] * sums.objective.shape[0]
        with np.errstate(invalid="ignore"):
            # From a start that no component can have made a row of, there is no way to count.
            gain = sums.objective - before.objective
        still = gain < control.tol * sums.family.size.sum(axis=0)
        return ["converged" if s else None for s in still]
