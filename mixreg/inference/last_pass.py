"""The end of a fit: one last Newton step, and one pass that adds up all that is reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from mixreg.estimators.expectation import MixtureStatistics, Posterior, SoftAssignment
from mixreg.inference.averages import GateSums, TakeGate
from mixreg.inference.determined import CrossProducts
from mixreg.inference.information import InformationSums, TakeInformation
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Source
from mixreg.sources.base import Task, Together
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# A last step is taken if it gains no more than this, and moves no standard parameter farther:
# then it is one to the maximum, and not beyond.
LEAST_GAIN, SHORT = 1e-4, 0.05
# Curvatures below this share of the largest make steps of rounding errors.
FLAT = 1e-10


@dataclass(frozen=True, slots=True)
class LabelSums:
    """What labels add up to, with K classes.

    Attributes
    ----------
    entropy : float
        Of the posterior, over units counted with their weights.
    units, rows : (K,) arrays
        Units and rows with each label.
    assigned : (K,) array
        Units with each label, counted with their weights.
    joint : (K, K) array
        Posterior of the units with each label, counted with their weights: label x class.
    """

    entropy: float
    units: Array
    rows: Array
    assigned: Array
    joint: Array

    def __add__(self, other: LabelSums) -> LabelSums:
        """Add the sums of other units."""
        names = self.__dataclass_fields__
        return LabelSums(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class TakeLabels:
    """Task: entropy and classification; hard labels if asked for."""

    mixture: Mixture
    hard: bool = False

    def __call__(self, block: Block, params: Parameters) -> LabelSums:
        """Process one block."""
        posterior = Posterior(self.mixture, self.hard)(block, params).join()
        weight = np.ones(block.units) if block.weight is None else block.weight
        size = np.broadcast_to(np.asarray(block.size), (block.units,))
        labels, classes = posterior.argmax(axis=0), len(posterior)
        chosen = (np.arange(classes)[:, None] == labels).astype(float)
        return LabelSums(
            -float(xlogy(posterior, posterior).sum(axis=0) @ weight),
            chosen.sum(axis=1),
            chosen @ size,
            chosen @ weight,
            np.dot(chosen * weight, posterior.T),
        )


@dataclass(frozen=True, slots=True)
class LastPass:
    """All that is reported of the rows, in standard coordinates.

    Attributes
    ----------
    soft : MixtureStatistics
        Log-likelihood, and units of each class.
    labels : LabelSums
    gate : GateSums
        Class probabilities and their slopes.
    information : InformationSums or None
        None where no standard errors are asked for.
    xx : (k, p, p) array or None
        Cross products of the regressors of each component's rows.
    """

    soft: MixtureStatistics
    labels: LabelSums
    gate: GateSums
    information: InformationSums | None = None
    xx: Array | None = None


@dataclass(frozen=True, slots=True)
class AtOne:
    """Task: another one, which takes a stack, of one mixture."""

    task: Task[MixtureStatistics]

    def __call__(self, block: Block, params: Parameters) -> MixtureStatistics:
        """Process one block."""
        return self.task(block, params.stacked())


def last_pass(
    source: Source,
    mixture: Mixture,
    params: Parameters,
    hard: bool = False,
    exact: bool = False,
    errors: bool = True,
) -> LastPass:
    """Add up all that is reported in one pass.

    Parameters
    ----------
    hard : bool
        Labels are those of hard assignment.
    exact : bool
        Every row lies on a component.
    errors : bool
        Whether standard errors are asked for; where blocks have clusters, within these.
    """
    tasks: list[Task] = [AtOne(SoftAssignment(mixture)), TakeLabels(mixture, hard)]
    tasks.append(TakeGate(mixture.gate))
    if errors:
        information = TakeInformation(mixture, source.has("cluster"), hard)
        tasks += [information, CrossProducts(mixture, hard, exact)]
    return LastPass(*source.sweep(Together(tuple(tasks)), params).sums)


def ending_sums(
    source: Source, mixture: Mixture, params: Parameters
) -> tuple[MixtureStatistics, GateSums]:
    """Sums where a run ended: of units, and of class probabilities."""
    task = Together((AtOne(SoftAssignment(mixture)), TakeGate(mixture.gate)))
    soft, gate = source.sweep(task, params).sums
    return soft, gate


def last_step(
    source: Source, mixture: Mixture, layout: Layout, params: Parameters
) -> tuple[Parameters, MixtureStatistics, GateSums]:
    """A Newton step from where a run ended to the maximum; and the sums where it ended.

    What is left between the two depends on when the run stopped, and that on the last
    digits of its sums: at the maximum itself all runs agree.
    """
    task = Together(
        (TakeInformation(mixture), AtOne(SoftAssignment(mixture)), TakeGate(mixture.gate))
    )
    info, soft, gate = source.sweep(task, params).sums
    sums = info.contract(layout)
    values, vectors = np.linalg.eigh(sums.information)
    if not values[0] > FLAT * values[-1]:
        return params, soft, gate
    step = vectors @ (vectors.T @ sums.score / values)
    if 0.5 * float(step @ sums.score) > LEAST_GAIN or np.abs(step).max() > SHORT:
        return params, soft, gate
    return layout.unpack(layout.pack(params) + step), soft, gate
