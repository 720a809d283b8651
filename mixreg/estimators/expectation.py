"""The E-step as a task: responsibilities, and the sums the M-step needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.families import FamilyStatistics
from mixreg.mixture.gate_statistics import GateStatistics
from mixreg.mixture.mixture import Mixture, pinned
from mixreg.mixture.parameters import Parameters
from mixreg.sources.base import Parts
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MixtureStatistics:
    """What one pass at given parameters adds up to.

    Attributes
    ----------
    objective : ([runs]) array
        Log-likelihood at those parameters, or minus the loss of AltMin.
    count : (K, [runs]) array
        Sum of responsibilities over units.
    family : FamilyStatistics
        Sums for the family's M-step.
    gate : GateStatistics
        Sums for the gate's M-step beside the counts.
    """

    objective: Array
    count: Array
    family: FamilyStatistics
    gate: GateStatistics = field(default_factory=GateStatistics)

    def __add__(self, other: MixtureStatistics) -> MixtureStatistics:
        """Add the sums of other units."""
        return MixtureStatistics(
            self.objective + other.objective,
            self.count + other.count,
            self.family + other.family,
            self.gate + other.gate,
        )

    def choose(self, runs: NDArray[np.bool_], other: MixtureStatistics) -> MixtureStatistics:
        """Keep the sums of some runs and take the rest from another pass."""
        return MixtureStatistics(
            np.where(runs, self.objective, other.objective),
            np.where(runs, self.count, other.count),
            self.family.choose(runs, other.family),
            self.gate.choose(runs, other.gate),
        )

    def stacked(self) -> MixtureStatistics:
        """Sums of one mixture as those of a stack of one."""
        return MixtureStatistics(
            np.asarray(self.objective)[None],
            self.count[:, None],
            self.family.stacked(),
            self.gate.stacked(),
        )

    def take(self, runs: NDArray[np.bool_]) -> MixtureStatistics:
        """Sums of some runs of a stack."""
        return MixtureStatistics(
            self.objective[runs],
            self.count[:, runs],
            self.family.take(runs),
            self.gate.take(runs),
        )


def normalise(joint: Array) -> Array:
    """Turn log joint densities (k, ..., units) into responsibilities, in place.

    Returns the log marginal density of each unit, (..., units).
    """
    top = joint.max(axis=0)
    impossible = top == -np.inf
    if impossible.any():
        # No component can have made the unit; labels are then anyone's guess.
        joint[:, impossible] = 0.0
        marginal = normalise(joint)
        return np.where(impossible, -np.inf, marginal)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=0)
    joint /= total
    return np.asarray(top + np.log(total))


def weighted(block: Block | GramBlock, values: Array) -> Array:
    """Multiply (..., units) values by the case weights, if there are any."""
    weight = block.weight
    if weight is None:
        return values
    if weight.all():
        return values * weight
    # Units that do not count have no say, even if no component can have made them.
    return np.multiply(values, weight, out=np.zeros(values.shape), where=weight > 0)


@dataclass(frozen=True, slots=True)
class Seen:
    """A block as a mixture, or a stack of them, sees it: what tasks of a pass share.

    Attributes
    ----------
    block : Block or GramBlock
    params : Parameters
    state : object
        What the family makes of the rows.
    posterior : (K, [runs,] units) array
    marginal : ([runs,] units) array
        Log density.
    """

    block: Any
    params: Parameters
    state: Any
    posterior: Array
    marginal: Array

    @staticmethod
    def by(mixture: Mixture, block: Any, params: Parameters) -> Seen:
        """Look at a block."""
        state = mixture.family.evaluate(block, params)
        posterior = mixture.log_joint(block, params, state)
        marginal = normalise(posterior)
        return Seen(block, params, state, posterior, marginal)


@dataclass(frozen=True, slots=True)
class SoftAssignment:
    """Posterior probabilities: the E-step of maximum likelihood.

    With `scores_only`, sums are those that a gradient needs and no more.
    """

    mixture: Mixture
    scores_only: bool = False

    def __call__(self, block: Block | GramBlock, params: Parameters) -> MixtureStatistics:
        """Process one block."""
        return self.of(Seen.by(self.mixture, block, params))

    def of(self, seen: Seen) -> MixtureStatistics:
        """The sums of a block that was looked at."""
        mixture, block, params = self.mixture, seen.block, seen.params
        resp = weighted(block, seen.posterior)
        return MixtureStatistics(
            weighted(block, seen.marginal).sum(axis=-1),
            resp.sum(axis=-1),
            mixture.statistics(block, params, seen.state, resp, self.scores_only),
            mixture.gate.statistics(block, params, resp),
        )


def hard_labels(
    mixture: Mixture, block: Block | GramBlock, params: Parameters, state: Any
) -> tuple[Array, NDArray[np.intp]]:
    """Loss of each unit under its best component, and labels, ([runs,] units)."""
    loss = mixture.family.unit_loss(block, params, state)  # type: ignore[arg-type]
    loss = pinned(block, loss.copy() if block.known is not None else loss, np.inf)
    labels = loss.argmin(axis=0)
    return np.take_along_axis(loss, labels[None], axis=0)[0], labels


def one_hot(mixture: Mixture, seen: Seen) -> Array:
    """Hard labels of the units of a block, (K, units)."""
    _, labels = hard_labels(mixture, seen.block, seen.params, seen.state)
    return (np.arange(len(seen.posterior))[:, None] == labels).astype(float)


@dataclass(frozen=True, slots=True)
class HardAssignment:
    """Each unit to the component that reconstructs it best: the paper's labels.

    The objective is minus the squared error (the log density, in families that
    are not Gaussian), and class probabilities play no part; with `of_labels` it
    is the log probability of the labels.
    """

    mixture: Mixture
    of_labels: bool = False

    def __call__(self, block: Block | GramBlock, params: Parameters) -> MixtureStatistics:
        """Process one block."""
        mixture = self.mixture
        state = mixture.family.evaluate(block, params)  # type: ignore[arg-type]
        loss, labels = hard_labels(mixture, block, params, state)
        components = np.arange(params.gating.shape[0]).reshape(-1, *[1] * labels.ndim)
        resp = weighted(block, (components == labels).astype(float))
        objective = -weighted(block, loss).sum(axis=-1)
        if self.of_labels:
            objective = (resp * mixture.gate.log_prior(block, params)).sum(axis=(0, -1))
        return MixtureStatistics(
            objective,
            resp.sum(axis=-1),
            mixture.statistics(block, params, state, resp),
            mixture.gate.statistics(block, params, resp),
        )


@dataclass(frozen=True, slots=True)
class GivenAssignment:
    """Responsibilities that someone else made: the column `given` of a block."""

    mixture: Mixture

    def __call__(self, block: Block | GramBlock, params: Parameters) -> MixtureStatistics:
        """Process one block."""
        mixture = self.mixture
        state = mixture.family.evaluate(block, params)  # type: ignore[arg-type]
        assert block.given is not None
        resp = weighted(block, np.moveaxis(block.given, 0, -1))
        return MixtureStatistics(
            np.zeros(resp.shape[1:-1]),
            resp.sum(axis=-1),
            mixture.statistics(block, params, state, resp),
        )


@dataclass(frozen=True, slots=True)
class Posterior:
    """Posterior probabilities of every unit, (K, units); one-hot if `hard`."""

    mixture: Mixture
    hard: bool = False

    def __call__(self, block: Block | GramBlock, params: Parameters) -> Parts:
        """Process one block."""
        state = self.mixture.family.evaluate(block, params)  # type: ignore[arg-type]
        if self.hard:
            _, labels = hard_labels(self.mixture, block, params, state)
            classes = np.arange(params.gating.shape[0])[:, None]
            return Parts(((classes == labels).astype(float),))
        joint = self.mixture.log_joint(block, params, state)
        normalise(joint)
        return Parts((joint,))


@dataclass(frozen=True, slots=True)
class Marginal:
    """Log density of every unit under each mixture of a stack, (runs, units).

    It counts as often as its case weight says, unless `once`.
    """

    mixture: Mixture
    once: bool = False

    def __call__(self, block: Block | GramBlock, params: Parameters) -> Parts:
        """Process one block."""
        state = self.mixture.family.evaluate(block, params)  # type: ignore[arg-type]
        found = normalise(self.mixture.log_joint(block, params, state))
        return Parts((found if self.once else weighted(block, found),))
