"""Several responses that share one label, each with a family of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.families.base import Family
from mixreg.families.rows import Rows
from mixreg.families.statistics import FamilyStatistics, cross_sums, linear_predictor
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JointRows:
    """Rows of each response at the linear predictors of some components.

    Attributes
    ----------
    parts : tuple of Rows
    where : tuple of slices or int arrays
        Where the rows of each response are.
    rows : int
        Rows of all responses.
    """

    parts: tuple[Rows, ...]
    where: tuple[Any, ...]
    rows: int

    def component(self, j: int) -> JointRows:
        """Rows under one component."""
        return replace(self, parts=tuple(part.component(j) for part in self.parts))


@dataclass(frozen=True)
class Joint(Family):
    """Independent responses, given the label.

    Rows are single responses: those of one observation are in one unit, and
    have regressors (and coefficients) of their own.

    Attributes
    ----------
    families : tuple of Family
        One a response.
    names : tuple of str
        Names of the responses.
    columns : tuple of int
        Response of each standard regressor.
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

    def common(self) -> Joint:
        """The same families with one dispersion for all components."""
        parts = tuple(family.common() for family in self.families)
        return replace(self, equal_dispersion=True, families=parts)

    def where(self, part: NDArray[np.intp]) -> tuple[Any, ...]:
        """Rows of each response, as slices where responses take turns."""
        count, rows = len(self.families), len(part)
        if rows % count == 0 and (part.reshape(-1, count) == np.arange(count)).all():
            return tuple(slice(i, None, count) for i in range(count))
        return tuple(np.flatnonzero(part == i) for i in range(count))

    def by_response(self, part: NDArray[np.intp] | None) -> list[tuple[Family, Any]]:
        """The family of each response, and where its rows are."""
        assert part is not None
        return list(zip(self.families, self.where(part), strict=True))

    def named_links(self, response: str) -> list[tuple[str, str, str]]:
        """How the terms of each response begin, its link, and its name."""
        pairs = zip(self.names, self.families, strict=True)
        return [(f"{name}: ", family.link_name, name) for name, family in pairs]

    def by_regressor(self, p: int) -> list[tuple[Family, int]]:
        """The family of each response, and how many of `p` regressors it has."""
        return list(zip(self.families, np.bincount(self.columns).tolist(), strict=True))

    def evaluate(self, block: Block, params: Parameters) -> JointRows:
        """Rows of each response at their linear predictors."""
        eta = linear_predictor(block, params.coef)
        parts, where = [], []
        for i, (family, at) in enumerate(self.by_response(block.part)):
            where.append(at)
            trials = _trials(family, block.trials, at)
            spread = params.dispersion[..., i, None]
            parts.append(family.rows_at(block.y[at], eta[..., at], spread, trials))
        return JointRows(tuple(parts), tuple(where), block.rows)

    def _each(self, name: str, state: JointRows, scaled: bool = False) -> Array:
        """A method of every family (with a dispersion), on its own rows, put together again."""
        lead = state.parts[0].eta.shape[:-1]
        out = np.zeros((*lead, state.rows))
        for family, rows, at in zip(self.families, state.parts, state.where, strict=True):
            if not scaled or family.dispersion_name is not None:
                out[..., at] = getattr(family, name)(rows)
        return out

    def log_density(self, rows: Any) -> Array:
        """Log density of each row."""
        return self._each("log_density", rows)

    def score(self, rows: Any) -> Array:
        """Derivative of the log density in the linear predictor."""
        return self._each("score", rows)

    def curvature(self, rows: Any) -> Array:
        """Minus the second derivative in the linear predictor."""
        return self._each("curvature", rows)

    def weight(self, rows: Any) -> Array:
        """Information about the linear predictor that scoring uses."""
        return self._each("weight", rows)

    def scale_score(self, rows: Any) -> Array:
        """Derivative in the log dispersion, 0 where there is none."""
        return self._each("scale_score", rows, True)

    def scale_curvature(self, rows: Any) -> Array:
        """Minus the second derivative in the log dispersion, 0 where there is none."""
        return self._each("scale_curvature", rows, True)

    def cross_curvature(self, rows: Any) -> Array:
        """Minus the mixed derivative, 0 where there is no dispersion."""
        return self._each("cross_curvature", rows, True)

    def stand_in(
        self, y: Array, trials: Array | None, part: NDArray[np.intp] | None, sizes: Array
    ) -> Array:
        """Surrogate of some rows, each response on the scale of its linear predictor."""
        out = np.empty_like(y)
        for size, (family, at) in zip(sizes, self.by_response(part), strict=True):
            out[at] = family.surrogate_of(y[at], _trials(family, trials, at), float(size))
        return out

    def unit_misfit(self, block: Block, params: Parameters, state: Any) -> Array:
        """How badly each unit is fitted, (k, [runs,] units)."""
        best = np.empty(block.rows)
        for family, rows, at in zip(self.families, state.parts, state.where, strict=True):
            best[at] = family.saturated(rows.y, rows.trials)
        return block.per_unit(best - self.log_density(state))

    def unit_background(self, block: Block, length: Any) -> Array:
        """Log density of each unit under a background component, (units,)."""
        even = np.empty(block.rows)
        for each, (family, at) in zip(length, self.by_response(block.part), strict=True):
            trials = _trials(family, block.trials, at)
            even[at] = family.unit_background(Block(block.x[at], block.y[at], trials=trials), each)
        return block.per_unit(even)

    def statistics(
        self, block: Block, params: Parameters, state: Any, responsibilities: Array
    ) -> FamilyStatistics:
        """Sums for the M-step, given weighted responsibilities (k, [runs,] units)."""
        r = block.per_row(responsibilities)
        xx, xe = cross_sums(block, r * self.weight(state), r * self.score(state))
        size = r.sum(axis=-1)
        spread = np.zeros((3, len(self.families), *size.shape))
        for i, (family, rows) in enumerate(zip(self.families, state.parts, strict=True)):
            mine = r[..., state.where[i]]
            spread[2, i] = mine.sum(axis=-1)
            if family.dispersion_name is not None:
                spread[0, i] = (mine * family.scale_score(rows)).sum(axis=-1)
                spread[1, i] = (mine * family.scale_curvature(rows)).sum(axis=-1)
        return FamilyStatistics(size, xx, xe, spread)

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

    def scale_design(self, block: Block) -> Array:
        """Derivative of each row's log dispersion in those of the flat vector, (rows, m)."""
        assert block.part is not None
        scaled = [i for i, name in enumerate(self.scale_name) if name is not None]
        powers = np.array(self.scale_power)[scaled]
        return np.asarray((block.part[:, None] == np.array(scaled, dtype=int)) / powers)


def _trials(family: Family, trials: Array | None, at: Any) -> Array | None:
    """Trials of a response's rows, if it has any."""
    return None if trials is None or not family.takes_trials else trials[at]
