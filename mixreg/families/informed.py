"""What standard errors ask of a family: scores and information in the parameters of a component."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mixreg.families.rows import Rows
from mixreg.families.uncertain import Derived
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

Array = NDArray[np.float64]


class Curved(Derived, Protocol):
    """What scores and information are made of."""

    @property
    def dispersion_power(self) -> float:
        """Reported is the dispersion to this power."""

    def cross_curvature(self, rows: Rows) -> Array:
        """Minus the mixed derivative in linear predictor and log dispersion."""

    def scale_design(self, block: Block) -> Array:
        """Derivative of each row's log dispersion in those of the flat vector."""


class Informed:
    """Scores and information of rows that stand alone."""

    def scale_design(self: Curved, block: Block) -> Array:
        """Derivative of each row's log dispersion in those of the flat vector, (rows, m)."""
        m = int(self.dispersion_name is not None)
        return np.full((block.rows, m), 1 / self.dispersion_power)

    def row_curves(
        self: Curved, block: Block, params: Parameters, state: Any, j: int
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Derivatives of component j's log density at each row, (rows,) each.

        Score and minus second derivative in the linear predictor; the mixed one;
        score and minus second derivative in the log dispersion.
        """
        rows, none = state.component(j), np.zeros(0)
        first = self.score(rows), self.curvature(rows)
        if self.dispersion_name is None:
            return (*first, none, none, none)
        return (
            *first,
            self.cross_curvature(rows),
            self.scale_score(rows),
            self.scale_curvature(rows),
        )

    def component_scores(
        self: Curved, block: Block, params: Parameters, state: Any, j: int
    ) -> Array:
        """Score of each unit in component j's parameters, (units, p + m)."""
        rows, scales = state.component(j), self.scale_design(block)
        columns = block.x * self.score(rows)[:, None]
        if scales.shape[1]:
            columns = np.column_stack([columns, scales * self.scale_score(rows)[:, None]])
        return np.ascontiguousarray(block.per_unit(columns.T).T)

    def component_information(
        self: Curved, block: Block, params: Parameters, state: Any, wr: Array, j: int
    ) -> Array:
        """Minus the second derivatives in component j's parameters, weighted by `wr`."""
        rows, r, p = state.component(j), block.per_row(wr), block.x.shape[1]
        scales = self.scale_design(block)
        m = p + scales.shape[1]
        info = np.empty((m, m))
        info[:p, :p] = (block.x * (r * self.curvature(rows))[:, None]).T @ block.x
        if m > p:
            cross = (block.x * (r * self.cross_curvature(rows))[:, None]).T @ scales
            info[:p, p:], info[p:, :p] = cross, cross.T
            info[p:, p:] = (scales * (r * self.scale_curvature(rows))[:, None]).T @ scales
        return info
