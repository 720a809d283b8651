"""From the parameters of a mixture to the variables of a model that has them.

A model may make its coefficients of anything. Its variables are found by climbing its
priors with the mixture's likelihood replaced by a quadratic around given parameters, which
is cheap: no row is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.mixture.parameters import Parameters
from mixreg.ppl.compat import pymc
from mixreg.ppl.surface import NOTHING, Climb, Surface, climb

Array = NDArray[np.float64]

MATCH_STEPS = 300


@dataclass(frozen=True, eq=False)
class Matching:
    """Finds the variables of a model for parameters of its mixture.

    Attributes
    ----------
    surface : Surface
    """

    surface: Surface

    @cached_property
    def _functions(self) -> tuple[Any, Any]:
        """Height and slope given a target and its weights; and the parameters themselves."""
        import pytensor
        from pymc.pytensorf import compile as compiled

        _, pt = pymc()
        found = self.surface.found
        model = found.model
        terms = [term for term in model.basic_RVs + model.potentials if term is not found.term]
        prior = model.logp(vars=terms, jacobian=False) if terms else pt.zeros(())
        at = model.replace_rvs_by_values(found.outputs[:3])
        (prior, flat), vector = self.surface.joined([prior, self._standard(*at)])
        target, weight = pt.dvector(), pt.dvector()
        # Entries that are infinite or missing in the target are left to the prior.
        gap = pt.switch(weight > 0, flat - target, 0.0)
        height = prior - 0.5 * pt.sum(weight * gap**2)
        slope: Any = pytensor.grad(height, vector)
        both = compiled([vector, target, weight], [height, slope])
        return both, pytensor.function([vector], flat, mode="FAST_COMPILE")

    def _standard(self, coef: Any, dispersion: Any, gating: Any) -> Any:
        """Parameters as one vector, in standard coordinates, where they are of one size."""
        _, pt = pymc()
        mixed = self.surface.found.mixed
        white = mixed.parts.whitening
        if not mixed.standard:
            if white.constant is not None:
                coef = coef - white.shift * white.constant
            coef = pt.dot(coef / white.scale, np.linalg.pinv(white.basis).T)
            dispersion = dispersion / white.scale**2
            if white.gate is not None:
                gating = pt.dot(gating, np.linalg.pinv(white.gate).T)
        odds = gating - gating[:1]
        return pt.concatenate([coef.ravel(), pt.log(dispersion), odds.ravel()])

    def target(self, params: Parameters) -> tuple[Array, Array]:
        """Standard parameters as the vector that is matched, and what its entries weigh."""
        mixed = self.surface.found.mixed
        family, n = mixed.parts.family, mixed.parts.source.row_weight
        share = params.weights[: params.k] if params.gating.shape[-1] == 1 else 1 / params.k
        rows = n * np.maximum(np.broadcast_to(share, (params.k,)), 0.02)
        spread = params.dispersion if family.linear else np.ones(params.k)
        # As much as a tenth of the rows would tell: priors have a say in what is left open.
        own = 0.1 * np.repeat(rows / np.maximum(spread, 1e-6), params.coef.shape[1])
        scales = 0.05 * rows * (family.dispersion_name is not None)
        odds = params.gating - params.gating[:1]
        vector = np.concatenate([params.coef.ravel(), np.log(params.dispersion), odds.ravel()])
        weight = np.concatenate([own, scales, np.full(odds.size, 0.1 * rows.mean())])
        good = np.isfinite(vector)
        return np.where(good, vector, 0.0), np.where(good, weight, 0.0)

    def matched(self, params: Parameters, start: Array | None = None) -> Climb:
        """Variables of the model for standard parameters, and how well they fit."""
        target, weight = self.target(params)
        function = self._functions[0]

        def at(vector: Array) -> tuple[float, Array]:
            with np.errstate(all="ignore"):
                value, slope = function(vector, target, weight)
            if not np.isfinite(value) or not np.isfinite(slope).all():
                return NOTHING, np.zeros_like(vector)
            return float(value), slope

        return climb(at, self.surface.start if start is None else start, MATCH_STEPS)

    def parameters(self, vector: Array) -> Parameters:
        """Standard parameters of the mixture at values of the model's variables."""
        parts = self.surface.found.mixed.parts
        flat, (k, p) = self._functions[1](vector), (parts.k, parts.layout.p)
        coef, dispersion = flat[: k * p].reshape(k, p), np.exp(flat[k * p : k * p + k])
        gating = flat[k * p + k :].reshape(parts.layout.classes, -1)
        return Parameters(coef, dispersion, parts.mixture.gate.settled(gating))
