"""A mixture as part of a PyMC model: its rows, its coordinates, its parameters as graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Source
from mixreg.table.parts import ModelParts

Graph = Any


@dataclass(frozen=True, slots=True)
class Graphs:
    """Parameters of a mixture as graphs.

    Attributes
    ----------
    coef : (k, p) graph
    dispersion : (k,) graph
        Of no meaning in families that have none.
    gating : (K, width) graph
    offset : (rows,) graph or None
        In the user's units and order: part of the linear predictor from elsewhere.
    """

    coef: Graph
    dispersion: Graph
    gating: Graph
    offset: Graph = None


@dataclass(frozen=True, eq=False)
class Mixed:
    """A mixture that is part of a PyMC model: its rows, and the coordinates of its graphs.

    Attributes
    ----------
    parts : ModelParts
    standard : bool
        Whether graphs are in standard coordinates; if not, in the user's units.
    prefix : str
        What the names of its own variables and dimensions begin with.
    """

    parts: ModelParts
    standard: bool
    prefix: str = ""

    @property
    def source(self) -> Source:
        """Rows in these coordinates."""
        parts = self.parts
        return parts.source.standard(parts.whitening) if self.standard else parts.source

    @property
    def mixture(self) -> Mixture:
        """What is mixed, in these coordinates."""
        return self.parts.problem().mixture if self.standard else self.parts.mixture

    @property
    def log_scale(self) -> float:
        """What the log density of a row loses on the way to the user's units."""
        return float(np.log(self.parts.whitening.scale)) if self.standard else 0.0

    def to_user(self, params: Parameters) -> Parameters:
        """Parameters, or a stack of them, in the user's units."""
        return self.parts.whitening.to_user(params) if self.standard else params

    def own_order(self, offset: Any, length: int | None) -> Any:
        """An offset of the rows that were given, as the rows in the order of the fit have it.

        Of some length, if it is known, which may be that of the rows that are used.
        """
        names = self.parts.rows.names
        if len(names.kept) != self.parts.nobs and length != self.parts.nobs:
            offset = offset[np.flatnonzero(names.kept)]
        order = names.units.order
        offset = offset if order is None else offset[order]
        return offset / self.parts.whitening.scale if self.standard else offset
