"""Several responses that share one label, each with a family of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.families.base import Family
from mixreg.families.statistics import FamilyStatistics, square
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """One response of some rows, at its own coefficients and dispersions.

    Attributes
    ----------
    family : Family
    at : slice or int array
        Where its coefficients are among those of all responses.
    block : Block
    params : Parameters
    state : object
        What the family made of the rows.
    """

    family: Family
    at: Any
    block: Block
    params: Parameters
    state: Any


@dataclass(frozen=True)
class Joint(Family):
    """Independent responses, given the label.

    Each has regressors and coefficients of its own, and a family that sees nothing
    else: densities add up, and cross products are those of each with its own.

    Attributes
    ----------
    families : tuple of Family
        One a response.
    names : tuple of str
        Names of the responses.
    columns : tuple of int
        Response of each standard regressor.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> npreg, families = datasets.npreg(), ["gaussian", "poisson"]
    >>> model = MixReg.from_formula(["yn ~ x", "yp ~ x"], npreg, k=2, family=families)
    >>> type(model.family).__name__, [each.name for each in model.family.families]
    ('Joint', ['gaussian', 'poisson'])
    """

    families: tuple[Family, ...] = ()
    names: tuple[str, ...] = ()
    columns: tuple[int, ...] = ()

    title: ClassVar[str] = "Joint Regressions"
    moments: ClassVar[bool] = False
    expands: ClassVar[bool] = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """Names of the families."""
        return ", ".join(family.name for family in self.families)

    @property
    def link_name(self) -> str:
        """Names of the links."""
        return ", ".join(family.link_name for family in self.families)

    @property
    def dispersion_name(self) -> str | None:  # type: ignore[override]
        """Not None if some response has a dispersion."""
        return "dispersion" if any(self.scale_name) else None

    @property
    def scale_name(self) -> tuple[str | None, ...]:
        """Name of each response's dispersion."""
        pairs = zip(self.families, self.names, strict=True)
        return tuple(f.dispersion_name and f"{f.dispersion_name} {name}" for f, name in pairs)

    @property
    def scale_power(self) -> tuple[float, ...]:
        """Power of each response's dispersion."""
        return tuple(family.dispersion_power for family in self.families)

    @property
    def collapses(self) -> bool:  # type: ignore[override]
        """Whether some response's dispersion may vanish."""
        return any(self.collapsing)

    @property
    def collapsing(self) -> tuple[bool, ...]:
        """Of each response, whether its dispersion may vanish."""
        return tuple(family.collapses for family in self.families)

    def line_columns(self, p: int) -> int:
        """Rows that fix a component which collapses: the same rows fix all its responses."""
        each = zip(self.collapsing, self.by_regressor(p), strict=True)
        return max((count for collapses, (_, count) in each if collapses), default=p)

    def common(self) -> Joint:
        """The same families with one dispersion for all components."""
        parts = tuple(family.common() for family in self.families)
        return replace(self, equal_dispersion=True, families=parts)

    @property
    def parts(self) -> tuple[Family, ...]:
        """The family of each response."""
        return self.families

    def named_links(self, response: str) -> list[tuple[str, str, str]]:
        """How the terms of each response begin, its link, and its name."""
        pairs = zip(self.names, self.families, strict=True)
        return [(f"{name}: ", family.link_name, name) for name, family in pairs]

    def by_regressor(self, p: int) -> list[tuple[Family, int]]:
        """The family of each response, and how many of `p` regressors it has."""
        return list(zip(self.families, np.bincount(self.columns).tolist(), strict=True))

    def evaluate(self, block: Block, params: Parameters) -> tuple[Part, ...]:
        """Each response at its own parameters."""
        found = []
        each = zip(self.families, block.responses(), strict=True)
        for i, (family, (at, own)) in enumerate(each):
            mine = Parameters(params.coef[..., at], params.dispersion[..., i], params.gating)
            found.append(Part(family, at, own, mine, family.evaluate(own, mine)))
        return tuple(found)

    def stand_in(self, y: Array, trials: Array | None, sizes: Array) -> Array:
        """Surrogate of some rows, each response on the scale of its linear predictor."""
        columns = [None] * len(sizes) if trials is None else list(trials.T)
        each = zip(self.families, y.T, columns, sizes.tolist(), strict=True)
        return np.column_stack([family.surrogate_of(*given) for family, *given in each])

    def unit_density(self, block: Block, params: Parameters, state: tuple[Part, ...]) -> Array:
        """Log density of each unit under each component, (k, [runs,] units)."""
        return reduce(add, (p.family.unit_density(p.block, p.params, p.state) for p in state))

    def unit_misfit(self, block: Block, params: Parameters, state: tuple[Part, ...]) -> Array:
        """How badly each unit is fitted, (k, [runs,] units)."""
        return reduce(add, (p.family.unit_misfit(p.block, p.params, p.state) for p in state))

    def unit_background(self, block: Block, length: Any) -> Array:
        """Log density of each unit under a background component, (units,)."""
        each = zip(self.families, block.responses(), length, strict=True)
        return reduce(add, (family.unit_background(own, size) for family, (_, own), size in each))

    def statistics(
        self, block: Block, params: Parameters, state: tuple[Part, ...], responsibilities: Array
    ) -> FamilyStatistics:
        """Sums for the M-step, given weighted responsibilities (k, [runs,] units)."""
        lead, p = responsibilities.shape[:-1], params.coef.shape[-1]
        xx, xe = np.zeros((*lead, p, p)), np.empty((*lead, p))
        spread = np.zeros((3, len(state), *lead))
        for i, part in enumerate(state):
            sums = part.family.statistics(part.block, part.params, part.state, responsibilities)
            xx[square(part.at)], xe[..., part.at] = sums.xx, sums.xe
            spread[: len(sums.spread), i], spread[2, i] = sums.spread, sums.size
        return FamilyStatistics(spread[2].mean(axis=0), xx, xe, spread)

    def held_back(self, step: Array, together: bool) -> Array:
        """A step in which that of each response is no longer than its family allows."""
        step, columns = step.copy(), np.asarray(self.columns)
        for i, family in enumerate(self.families):
            mine = columns == i
            step[..., mine] = family.held_back(step[..., mine], together)
        return step

    def dispersions(self, sums: FamilyStatistics, params: Parameters) -> Array:
        """Dispersions of all responses after a step, (k, [runs,] d)."""
        out = params.dispersion.copy()
        for i, family in enumerate(self.families):
            if family.dispersion_name is not None:
                score, info, size = sums.spread[:, i]
                out[..., i] = family.next_dispersion(score, info, size, out[..., i])
        return out

    def flat_score(self, sums: FamilyStatistics, params: Parameters) -> Array:
        """Scores of each component's coefficients and log dispersions, (k, p + m), of one run."""
        scaled = [i for i, name in enumerate(self.scale_name) if name is not None]
        scales = sums.spread[0, scaled, :, 0].T / np.array(self.scale_power)[scaled]
        return np.column_stack([sums.xe[:, 0], scales])

    def allowed(self, dispersion: Array) -> Array:
        """Dispersions of all responses, those out of bounds moved to them."""
        each = [family.allowed(dispersion[..., i]) for i, family in enumerate(self.families)]
        return np.stack(each, axis=-1)

    def bound_binds(self, params: Parameters) -> bool:
        """Whether a bound on some response's dispersion binds."""
        return any(
            family.bound_binds(replace(params, dispersion=params.dispersion[..., i]))
            for i, family in enumerate(self.families)
        )

    def at_bound(self, params: Parameters) -> NDArray[np.bool_]:
        """Dispersions (k, d) of one run that are as small as those of their response allow."""
        each = [
            family.at_bound(replace(params, dispersion=params.dispersion[..., i]))
            for i, family in enumerate(self.families)
        ]
        return np.stack(each, axis=-1)

    def component_scores(
        self, block: Block, params: Parameters, state: tuple[Part, ...], j: int
    ) -> Array:
        """Score of each unit in component j's parameters, (units, p + m)."""
        places, width = self._places(state, params.coef.shape[-1])
        scores = np.empty((block.units, width))
        for part, at in zip(state, places, strict=True):
            scores[:, at] = part.family.component_scores(part.block, part.params, part.state, j)
        return scores

    def component_information(
        self, block: Block, params: Parameters, state: tuple[Part, ...], wr: Array, j: int
    ) -> Array:
        """Minus the second derivatives in component j's parameters, weighted by `wr`."""
        places, width = self._places(state, params.coef.shape[-1])
        info = np.zeros((width, width))
        for part, at in zip(state, places, strict=True):
            info[square(at)] = part.family.component_information(
                part.block, part.params, part.state, wr, j
            )
        return info

    def _places(self, state: tuple[Part, ...], p: int) -> tuple[list[NDArray[np.intp]], int]:
        """Where each response's parameters are in a component's, and how many these are."""
        places, end = [], p
        for part in state:
            scales = int(part.family.dispersion_name is not None)
            places.append(np.append(np.arange(p)[part.at], np.arange(end, end + scales)))
            end += scales
        return places, end
