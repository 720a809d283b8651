"""The E-step as a task: responsibilities, and the sums the M-step needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block, GramBlock
from mixreg.families import Gaussian, GaussianStatistics
from mixreg.params import Parameters

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MixtureStatistics:
    """What one pass at given parameters adds up to.

    Attributes
    ----------
    objective : ([runs]) array
        Log-likelihood at those parameters, or minus the loss of AltMin.
    count : (k, [runs]) array
        Sum of responsibilities over units.
    family : GaussianStatistics
        Sums for the family's M-step.
    """

    objective: Array
    count: Array
    family: GaussianStatistics

    def __add__(self, other: MixtureStatistics) -> MixtureStatistics:
        """Add the sums of other units."""
        return MixtureStatistics(
            self.objective + other.objective,
            self.count + other.count,
            self.family + other.family,
        )

    def choose(self, runs: NDArray[np.bool_], other: MixtureStatistics) -> MixtureStatistics:
        """Keep the sums of some runs and take the rest from another pass."""
        return MixtureStatistics(
            np.where(runs, self.objective, other.objective),
            np.where(runs, self.count, other.count),
            self.family.choose(runs, other.family),
        )

    def take(self, runs: NDArray[np.bool_]) -> MixtureStatistics:
        """Sums of some runs of a stack."""
        return MixtureStatistics(self.objective[runs], self.count[:, runs], self.family.take(runs))

    @property
    def mean_square(self) -> Array:
        """Mean squared residual of each run."""
        return np.asarray(self.family.ee.sum(axis=0) / self.family.size.sum(axis=0))


def normalise(joint: Array) -> Array:
    """Turn log joint densities (k, ..., units) into responsibilities, in place.

    Returns the log marginal density of each unit, (..., units).
    """
    top = joint.max(axis=0)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=0)
    joint /= total
    return np.asarray(top + np.log(total))


def log_joint(
    family: Gaussian, block: Block | GramBlock, params: Parameters, residuals: Array
) -> Array:
    """Log of class probability times density, (k, [runs,] units).

    Class probabilities enter here and nowhere else.
    """
    joint = family.log_density(block, params, residuals)
    joint += params.log_weights[..., None]
    return joint


def weighted(block: Block | GramBlock, values: Array) -> Array:
    """Multiply (..., units) values by the case weights, if there are any."""
    return values if block.weight is None else values * block.weight


@dataclass(frozen=True, slots=True)
class SoftAssignment:
    """Posterior probabilities: the E-step of maximum likelihood."""

    family: Gaussian

    def __call__(self, block: Block | GramBlock, params: Parameters) -> MixtureStatistics:
        """Process one block."""
        residuals = self.family.residuals(block, params)
        resp = log_joint(self.family, block, params, residuals)
        marginal = normalise(resp)
        resp = weighted(block, resp)
        return MixtureStatistics(
            weighted(block, marginal).sum(axis=-1),
            resp.sum(axis=-1),
            self.family.statistics(block, params, residuals, resp),
        )


@dataclass(frozen=True, slots=True)
class HardAssignment:
    """Each unit to the component that reconstructs it best: the paper's labels.

    The objective is minus the squared error; weights and variances play no part.
    """

    family: Gaussian

    def __call__(self, block: Block | GramBlock, params: Parameters) -> MixtureStatistics:
        """Process one block."""
        residuals = self.family.residuals(block, params)
        squares = self.family.squares(block, residuals)
        labels = squares.argmin(axis=0)
        components = np.arange(squares.shape[0]).reshape(-1, *[1] * labels.ndim)
        resp = weighted(block, (components == labels).astype(float))
        sums = self.family.statistics(block, params, residuals, resp)
        return MixtureStatistics(-sums.ee.sum(axis=0), resp.sum(axis=-1), sums)


@dataclass(frozen=True, slots=True)
class GivenAssignment:
    """Responsibilities that someone else made, for all units of the source.

    Attributes
    ----------
    responsibilities : (k, [runs,] units) array
    """

    family: Gaussian
    responsibilities: Array

    def __call__(self, block: Block | GramBlock, params: Parameters) -> MixtureStatistics:
        """Process one block."""
        residuals = self.family.residuals(block, params)
        part = self.responsibilities[..., block.first : block.first + block.units]
        resp = weighted(block, part)
        return MixtureStatistics(
            np.zeros(resp.shape[1:-1]),
            resp.sum(axis=-1),
            self.family.statistics(block, params, residuals, resp),
        )


@dataclass(frozen=True, slots=True)
class Parts:
    """Arrays over units, joined end to end in the order of the blocks."""

    arrays: tuple[Array, ...]

    def __add__(self, other: Parts) -> Parts:
        """Append the units of the next block."""
        return Parts(self.arrays + other.arrays)

    def join(self) -> Array:
        """Return one array, units last."""
        return np.concatenate(self.arrays, axis=-1)


@dataclass(frozen=True, slots=True)
class Posterior:
    """Posterior probabilities of every unit, (k, units)."""

    family: Gaussian

    def __call__(self, block: Block | GramBlock, params: Parameters) -> Parts:
        """Process one block."""
        joint = log_joint(self.family, block, params, self.family.residuals(block, params))
        normalise(joint)
        return Parts((joint,))
