"""What a level of the search is run on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mixreg.mixture import Mixture
from mixreg.params import Parameters
from mixreg.sources.memory import BlockSource, MemorySource, condensed
from mixreg.whitening import Whitening

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Course:
    """Some rows in standard coordinates, and what is fitted to them.

    Attributes
    ----------
    mixture : Mixture
    sample : MemorySource
        Rows in standard coordinates.
    linear : MemorySource
        The same rows with a response for linear regressions, which the
        moments, subspaces and partitions look at.
    whitening : Whitening
    k : int
    given : BlockSource or None
        What stands in for the rows, if anything does.
    """

    mixture: Mixture
    sample: MemorySource
    linear: MemorySource
    whitening: Whitening
    k: int
    given: BlockSource | None = None

    @cached_property
    def source(self) -> BlockSource:
        """The rows as one block, condensed once for all runs."""
        return self.given or condensed(self.sample, self.mixture.family.linear)

    @cached_property
    def condensed(self) -> BlockSource:
        """The linear view as one block."""
        return self.source if self.linear is self.sample else condensed(self.linear)

    @property
    def rows(self) -> float:
        """Rows, counted with their weights."""
        return self.sample.row_weight

    @property
    def linear_whitening(self) -> Whitening:
        """Standard coordinates of the linear view."""
        return self.whitening.linear or self.whitening

    def lift(self, start: Parameters) -> Parameters:
        """A start found on the linear view, for the mixture itself."""
        if self.whitening.linear is not None:
            start = replace(
                start,
                coef=self.whitening.linear.lift(start.coef),
                dispersion=np.full_like(start.dispersion, self.whitening.dispersion),
            )
        return self.mixture.prepare(start)
