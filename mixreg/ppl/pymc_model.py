"""The same mixture as a PyMC model, labels summed out."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixreg.errors import InputError
from mixreg.estimators.priors import Priors
from mixreg.ppl.compat import pymc
from mixreg.ppl.likelihood import Graphs, Likelihood, check_likelihood
from mixreg.table.parts import ModelParts

Graph = Any

# Sampling keeps all components; variational Bayes's own default prunes them.
DEFAULT = Priors(concentration=1.0)


def to_pymc(model: ModelParts, priors: Priors | None, likelihood: Likelihood = "graph") -> Any:
    """Build the PyMC model; see `MixReg.to_pymc`."""
    model.spec.check_one_response("to_pymc")
    pm, pt = pymc()
    if priors is not None and not isinstance(priors, Priors):
        raise InputError(f"priors={priors!r} must be a mixreg.Priors(...)")
    priors = DEFAULT if priors is None else priors
    add_up = check_likelihood(likelihood)
    white, gate = model.whitening, model.mixture.gate
    with pm.Model(coords=_coords(model)) as built:
        dispersion = _dispersion(pm, pt, model, priors)
        coef = _coefficients(pm, pt, model, priors, dispersion)
        gating = gate.graph(pm, pt, white.gate, model.layout.classes, priors)
        user = white.scale * pt.dot(coef, white.basis.T)
        if white.constant is not None:
            user = user + white.shift * white.constant
        pm.Deterministic("coef", user, dims=("component", "term"))
        total = add_up(pt, model, Graphs(coef, dispersion, gating))
        pm.Potential("log_likelihood", total - white.log_volume)
    return built


def _coords(model: ModelParts) -> dict[str, list[Any]]:
    """Labels along the dimensions."""
    layout, components = model.layout, list(range(1, model.k + 1))
    return {
        "component": components,
        "class": components + [0] * model.noise,
        "term": list(layout.terms),
        "standard_term": [f"standard {i}" for i in range(layout.p)],
        "gate_term": list(layout.gate),
    }


def _dispersion(pm: Any, pt: Any, model: ModelParts, priors: Priors) -> Graph:
    """Dispersion of each component in standard units, and the scale users see."""
    family = model.family
    if family.dispersion_name is None:
        return None
    if family.equal_dispersion:
        one = pm.InverseGamma("dispersion", priors.shape, priors.rate)
        dispersion = one * pt.ones(model.k)
    else:
        dispersion = pm.InverseGamma("dispersion", priors.shape, priors.rate, dims="component")
    user = (dispersion * model.whitening.scale**2) ** family.dispersion_power
    pm.Deterministic("scale", user, dims="component")
    return dispersion


def _coefficients(pm: Any, pt: Any, model: ModelParts, priors: Priors, dispersion: Graph) -> Graph:
    """Standard coefficients (k, p): free ones, shared ones, and zeros."""
    layout, mixture = model.layout, model.mixture
    scale = priors.coef_scale if model.family.linear else priors.link_scale
    own = layout.p - mixture.shared
    spread = scale * pt.sqrt(dispersion)[:, None] if model.family.linear else scale
    parts = []
    if own:
        rows, cols = present_coefficients(model)
        each = spread * pt.ones((model.k, own))
        free = pm.Normal("beta", 0.0, each[rows, cols], shape=len(rows))
        parts.append(pt.set_subtensor(pt.zeros((model.k, own))[rows, cols], free))
    if mixture.shared:
        common = pm.Normal("beta_shared", 0.0, scale, shape=mixture.shared)
        parts.append(pt.ones((model.k, 1)) * common)
    return pt.concatenate(parts, axis=1)


def present_coefficients(model: ModelParts) -> tuple[Any, Any]:
    """Component and standard regressor of each coefficient that is free and not shared."""
    mixture = model.mixture
    present = np.ones((model.k, model.layout.p - mixture.shared), dtype=bool)
    for j, i in mixture.absent:
        present[j, i] = False
    rows, cols = np.nonzero(present)
    return rows, cols
