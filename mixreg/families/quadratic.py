"""Groups whose log-likelihood is a parabola: a stand-in that the search looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.blocks import Block, GramBlock
from mixreg.families.gaussian import Gaussian
from mixreg.families.statistics import FamilyStatistics
from mixreg.params import Parameters

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Quadratic(Gaussian):
    """The log-likelihood of a unit is minus half a square form of its coefficients.

    Units are condensed as those of a linear regression are, with information in
    the place of cross products; there is no variance.
    """

    name: ClassVar[str] = "quadratic"
    dispersion_name: ClassVar[str | None] = None
    collapses: ClassVar[bool] = False
    certifies: ClassVar[bool] = False

    def unit_density(self, block: Block | GramBlock, params: Parameters, state: Array) -> Array:
        """Log density of each unit under each component, up to a constant of the unit."""
        return -0.5 * state

    def variances(self, squares: Array, size: Array) -> Array:
        """There are none."""
        return np.ones_like(size)

    def mean_square(self, sums: FamilyStatistics) -> Array:
        """A loss of zero proves nothing here."""
        return np.full(sums.size.shape[1:], np.inf)

    def common(self) -> Quadratic:
        """The same family: there is no variance to share."""
        return self
