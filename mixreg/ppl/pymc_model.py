"""The same mixture as a PyMC model, labels summed out."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixreg.errors import InputError
from mixreg.estimators.priors import Priors
from mixreg.ppl.compat import pymc
from mixreg.ppl.density import per_unit, row_density
from mixreg.table.parts import ModelParts

Graph = Any

# Sampling keeps all components; variational Bayes's own default prunes them.
DEFAULT = Priors(concentration=1.0)


def to_pymc(model: ModelParts, priors: Priors | None) -> Any:
    """Build the PyMC model; see `MixReg.to_pymc`."""
    model.spec.check_one_response("to_pymc")
    pm, pt = pymc()
    if priors is not None and not isinstance(priors, Priors):
        raise InputError(f"priors={priors!r} must be a mixreg.Priors(...)")
    priors = DEFAULT if priors is None else priors
    white, layout, family = model.whitening, model.layout, model.family
    block = model.source.at_hand("a PyMC graph of all rows").standard(white).as_block()
    classes = [*range(1, model.k + 1), *([0] if model.noise else [])]
    coords = {
        "component": classes[: model.k],
        "class": classes,
        "term": list(layout.terms),
        "standard_term": [f"standard {i}" for i in range(layout.p)],
        "gate_term": list(layout.gate),
    }
    with pm.Model(coords=coords) as built:
        dispersion = _dispersion(pm, pt, model, priors)
        beta = _coefficients(pm, pt, model, priors, dispersion)
        log_prior = model.mixture.gate.graph(pm, pt, block, white.gate, len(classes), priors)
        user = white.scale * pt.dot(beta, white.basis.T)
        if white.constant is not None:
            user = user + white.shift * white.constant
        pm.Deterministic("coef", user, dims=("component", "term"))
        eta = pt.dot(beta, block.x.T)
        if block.offset is not None:
            eta = eta + block.offset
        wide = None if dispersion is None else dispersion[:, None]
        density = row_density(pt, family, block, eta, wide)
        joint = per_unit(pt, family, block, density, model.k)
        if model.noise:
            assert model.mixture.background is not None
            even = family.unit_background(block, model.mixture.background / white.scale)
            joint = pt.concatenate([joint, pt.as_tensor(np.array(even)[None])])
        joint = joint + log_prior
        if block.known is not None:
            wrong = (block.known >= 0) & (np.arange(len(classes))[:, None] != block.known)
            joint = joint + np.where(wrong, -np.inf, 0.0)
        top = pt.max(joint, axis=0)
        # Where no component can have made a unit, the density is zero.
        finite = pt.switch(pt.isinf(top), 0.0, top)
        marginal = pt.log(pt.sum(pt.exp(joint - finite), axis=0)) + finite
        total = marginal.sum() if block.weight is None else pt.dot(marginal, block.weight)
        pm.Potential("log_likelihood", total - white.rows * np.log(white.scale))
    return built


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
