"""The end of a fit: one pass that adds up all that is reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import MixtureStatistics, Seen, SoftAssignment, one_hot
from mixreg.inference.averages import GateSums, TakeGate
from mixreg.inference.determined import CrossProducts
from mixreg.inference.information import InformationSums, TakeInformation
from mixreg.inference.response import TakeComplete
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Source
from mixreg.sources.base import Several
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# What stands for no probability in a logarithm: times zero it is zero.
TINY = 1e-300


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
        return self.of(Seen.by(self.mixture, block, params))

    def of(self, seen: Seen) -> LabelSums:
        """The sums of a block that was looked at."""
        block, posterior = seen.block, seen.posterior
        if self.hard:
            posterior = one_hot(self.mixture, seen)
        labels, classes = posterior.argmax(axis=0), len(posterior)
        weight = np.ones(block.units) if block.weight is None else block.weight
        size = np.broadcast_to(np.asarray(block.size), (block.units,))
        chosen = (np.arange(classes)[:, None] == labels).astype(float)
        logs = np.log(np.maximum(posterior, TINY))
        return LabelSums(
            -float(np.einsum("ku,ku,u->", posterior, logs, weight)),
            np.bincount(labels, minlength=classes).astype(float),
            np.bincount(labels, size, classes).astype(float),
            np.bincount(labels, weight, classes).astype(float),
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
    complete : (m, m) array or None
        Information if labels were known; of variational Bayes.
    """

    soft: MixtureStatistics
    labels: LabelSums
    gate: GateSums
    information: InformationSums | None = None
    xx: Array | None = None
    complete: Array | None = None


class OfSeen(Protocol):
    """A task of blocks that a mixture has looked at."""

    def of(self, seen: Seen) -> Any:
        """The sums of one block."""
        ...


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Task: several of them, for which a block is looked at once."""

    mixture: Mixture
    tasks: tuple[OfSeen, ...]

    def __call__(self, block: Block, params: Parameters) -> Several:
        """Process one block."""
        seen = Seen.by(self.mixture, block, params)
        return Several(tuple(task.of(seen) for task in self.tasks))


def last_pass(
    source: Source,
    mixture: Mixture,
    params: Parameters,
    hard: bool = False,
    exact: bool = False,
    errors: bool = True,
    complete: bool = False,
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
    complete : bool
        Whether the information that known labels would give is asked for: a posterior's
        standard deviations need it, and no cross products.
    """
    tasks: list[OfSeen] = [SoftAssignment(mixture), TakeLabels(mixture, hard)]
    tasks.append(TakeGate(mixture.gate))
    if errors or complete:
        tasks.append(TakeInformation(mixture, source.has("cov_group"), hard))
    # Of linear regressions the first task adds up cross products anyway.
    at_hand = mixture.family.linear and not (hard or exact)
    if complete:
        tasks.append(TakeComplete(mixture))
    elif errors and not at_hand:
        tasks.append(CrossProducts(mixture, hard, exact))
    soft, *others = source.sweep(AtOnce(mixture, tuple(tasks)), params).sums
    if complete:
        labels, gate, information, known = others
        return LastPass(soft.stacked(), labels, gate, information, complete=known)
    last = LastPass(soft.stacked(), *others)
    return replace(last, xx=soft.family.xx) if errors and at_hand else last


def ending_sums(
    source: Source, mixture: Mixture, params: Parameters
) -> tuple[MixtureStatistics, GateSums]:
    """Sums where a run ended: of units, and of class probabilities."""
    task = AtOnce(mixture, (SoftAssignment(mixture), TakeGate(mixture.gate)))
    soft, gate = source.sweep(task, params).sums
    return soft.stacked(), gate
