"""What is mixed and how: family, shared terms, background, known labels.

The E-step's joint densities, the M-step and the preparation of starts live
here, so that estimators know nothing of families and gates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.families import Family, FamilyStatistics, Gaussian
from mixreg.mixture.gate import ConstantGate, Gate
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]

# Share of the rows that a background component starts with.
BACKGROUND_START = 0.05


@dataclass(frozen=True)
class Mixture:
    """A mixture of regressions, but for the number of its components.

    Attributes
    ----------
    family : Family
    shared : int
        The last so many standard regressors have one coefficient for all
        components.
    background : float or None
        Range over which a background component spreads evenly, in standard
        units; None if there is no such component. It is the last class. With
        several responses, a tuple of their ranges.
    gate : Gate
        Class probabilities.
    labelled : bool
        Whether labels of units that count are known: components are not exchangeable.
    absent : tuple of (component, standard regressor) pairs
        Coefficients that are zero.
    """

    family: Family = field(default_factory=Gaussian)
    shared: int = 0
    background: float | tuple[float, ...] | None = None
    gate: Gate = field(default_factory=ConstantGate)
    labelled: bool = False
    absent: tuple[tuple[int, int], ...] = ()

    @property
    def exchangeable(self) -> bool:
        """Whether components may be numbered in any order."""
        return not self.labelled and not self.absent

    @property
    def scales(self) -> int:
        """Dispersions of a component."""
        name = self.family.scale_name
        return sum(n is not None for n in (name if isinstance(name, tuple) else (name,)))

    def common(self) -> Mixture:
        """The same mixture with one dispersion for all components."""
        return replace(self, family=self.family.common())

    def log_joint(self, block: Block | GramBlock, params: Parameters, state: Any) -> Array:
        """Log of class probability times density, (K, [runs,] units).

        Class probabilities, background and known labels enter here and nowhere
        else.
        """
        joint = self.family.unit_density(block, params, state)  # type: ignore[arg-type]
        if self.background is not None:
            even = self.family.unit_background(block, self.background)  # type: ignore[arg-type]
            joint = np.concatenate([joint, np.broadcast_to(even, (1, *joint.shape[1:]))])
        joint += self.gate.log_prior(block, params)
        return pinned(block, joint, -np.inf)

    def statistics(
        self,
        block: Block | GramBlock,
        params: Parameters,
        state: Any,
        resp: Array,
        scores_only: bool = False,
    ) -> FamilyStatistics:
        """The family's sums, or those of its scores; the background has none."""
        own = resp if self.background is None else resp[: params.k]
        add_up = self.family.score_statistics if scores_only else self.family.statistics
        return add_up(block, params, state, own)  # type: ignore[arg-type]

    def mstep(
        self,
        family: FamilyStatistics,
        count: Array,
        gate: Any,
        params: Parameters,
    ) -> Parameters:
        """New parameters from the sums of one pass."""
        if self.absent:
            family = without(family, self.absent)
        new = self.family.update(family, params, self.shared)
        return Parameters(new.coef, new.dispersion, self.gate.update(count, gate, params))

    def score(
        self,
        family: FamilyStatistics,
        count: Array,
        gate: Any,
        params: Parameters,
    ) -> Array:
        """Gradient of the log-likelihood of one mixture from the sums of one pass.

        In the order of a `Layout` with nothing in common.
        """
        own = self.family.flat_score(family, params)
        return np.concatenate([own.ravel(), self.gate.score(count, gate, params)])

    def ahead(
        self, first: Parameters, middle: Parameters, end: Parameters, longest: Array
    ) -> tuple[Parameters, Array]:
        """Where two steps of a stack are heading, within the bounds of an M-step."""
        new, length = first.ahead(middle, end, longest, self.gate.metric(middle))
        dispersion = self.family.allowed(new.dispersion)
        return Parameters(new.coef, dispersion, self.gate.settled(new.gating)), length

    def prepare(self, params: Parameters) -> Parameters:
        """Make a start fit the mixture: common coefficients, gate, background."""
        coef, gate = params.coef, params.gating
        if self.shared:
            coef = coef.copy()
            coef[..., -self.shared :] = coef[..., -self.shared :].mean(axis=0)
        if self.absent:
            coef = coef.copy()
            for j, i in self.absent:
                coef[j, ..., i] = 0.0
        if self.background is not None and gate.shape[0] == params.k:
            gate = gate - np.log(np.exp(gate - gate.max(axis=0)).sum(axis=0)) - gate.max(axis=0)
            little = np.full((1, *gate.shape[1:]), np.log(BACKGROUND_START))
            gate = np.concatenate([gate + np.log(1 - BACKGROUND_START), little])
        return Parameters(coef, params.dispersion, self.gate.widen(gate))


def without(sums: FamilyStatistics, absent: tuple[tuple[int, int], ...]) -> FamilyStatistics:
    """Sums whose scoring step leaves absent coefficients where they are."""
    xx, xe = sums.xx.copy(), sums.xe.copy()
    for j, i in absent:
        xx[j, ..., i, :] = xx[j, ..., :, i] = 0.0
        xx[j, ..., i, i] = 1.0
        xe[j, ..., i] = 0.0
    return replace(sums, xx=xx, xe=xe)


def pinned(block: Block | GramBlock, values: Array, other: float) -> Array:
    """Write `other` where a unit's label is known and is not the component's, in place."""
    if block.known is not None:
        units = np.flatnonzero(block.known >= 0)
        wrong = np.arange(values.shape[0])[:, None] != block.known[units]
        component, unit = np.nonzero(wrong)
        values[component, ..., units[unit]] = other
    return values
