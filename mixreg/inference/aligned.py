"""A refit of a replicate whose components are numbered like those of the fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.inference.overlap import Overlap
from mixreg.inference.replicate import FarReplicate, Refit, Replicate
from mixreg.metrics import best_order
from mixreg.mixture.parameters import Parameters

Array = NDArray[np.float64]

# A component that holds less than this many rows or groups has emptied.
EMPTY_UNITS = 1.0


@dataclass(frozen=True)
class Aligned:
    """A refit with its components in the order of the fit.

    Attributes
    ----------
    vector : array
        Flat parameters, in the user's units.
    sureness : float
        See `LabelProducts.sureness`.
    """

    vector: Array
    sureness: float


@dataclass(frozen=True)
class AlignedRefit:
    """A refit that numbers its components like the fit.

    Attributes
    ----------
    refit : Refit
    """

    refit: Refit

    def __call__(self, replicate: Replicate | FarReplicate) -> Aligned | str:
        """The refit, or why there is none."""
        refit = self.refit
        try:
            problem = refit.problem(replicate.apply(refit.source))
        except InputError:
            return "columns of their rows were dependent or constant"
        end = refit.best(problem, replicate.seed)
        if not end.run.converged:
            return "the fit did not converge"
        if end.last.soft.count[: problem.k].min() < EMPTY_UNITS:
            return "a component emptied"
        return self.aligned(problem.whitening.to_user(end.run.params))

    def aligned(self, params: Parameters) -> Aligned:
        """The components in the order of the fit."""
        source, mixture, layout = self.refit.source, self.refit.mixture, self.refit.layout
        if not mixture.exchangeable or params.k == 1:
            return Aligned(layout.pack(params), 1.0)
        both = Parameters.concatenate([self.refit.start.stacked(), params.stacked()])
        products = source.sweep(Overlap(mixture), both)
        order = best_order(products.apart())
        return Aligned(layout.pack(params.permute(order)), products.sureness(order))
