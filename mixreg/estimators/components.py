"""What variational Bayes asks of beliefs about components: a protocol, and who does it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.averaged import Averaged
from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.conjugate import Conjugate
from mixreg.estimators.priors import Priors
from mixreg.families import FamilyStatistics
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters

Array = NDArray[np.float64]


class View(Protocol):
    """What a pass over the rows asks of beliefs."""

    def expected(self, block: Any, beliefs: Beliefs) -> tuple[Array, Any]:
        """Average log density of each unit, (k, [runs,] units), and what sums need."""

    def discount(self, block: Any, joint: Array) -> Any:
        """Take off log densities times class probabilities what is not yet, in place."""

    def statistics(self, block: Any, beliefs: Beliefs, state: Any, resp: Array) -> FamilyStatistics:
        """Sums of an update, given weighted responsibilities."""

    def left(self, taken: Any, sums: FamilyStatistics, resp: Array) -> Any:
        """What is still to be taken off the bound."""


class Components(Protocol):
    """Beliefs about components: what to begin with, and how they change."""

    @property
    def exact(self) -> bool:
        """Whether their part of the bound is exact."""

    def start(self, params: Parameters, rows: Array, chances: Any) -> Beliefs:
        """As if each component had been seen in so many rows, (k, [runs])."""

    def view(self, beliefs: Beliefs, longest: float) -> View:
        """What a pass over the rows needs."""

    def update(self, sums: FamilyStatistics, beliefs: Beliefs) -> Beliefs:
        """Beliefs after a step, class probabilities left as they are."""

    def divergence(self, beliefs: Beliefs) -> Array:
        """Kullback-Leibler divergence from the prior, ([runs])."""

    def emptied(self, beliefs: Beliefs, j: int) -> Beliefs:
        """Component j as before any data."""

    def dispersion(self, beliefs: Beliefs) -> Array:
        """Dispersions that are reported."""

    def covariances(self, beliefs: Beliefs) -> Array:
        """Of the coefficients of one mixture, (k, p, p)."""

    def log_dispersion(self, beliefs: Beliefs) -> tuple[Array, Array]:
        """Means and variances of the log dispersions, (k,)."""

    def degrees(self, beliefs: Beliefs) -> Array:
        """Degrees of freedom of the coefficients, (k, p)."""

    def draw(self, beliefs: Beliefs, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Coefficients (k, n, p) and dispersions (k, n)."""


def components_of(mixture: Mixture, priors: Priors) -> Components:
    """Beliefs that suit a mixture's family."""
    return Conjugate(mixture, priors) if mixture.family.linear else Averaged(mixture, priors)
