"""Parameters that a user gives to a mixture in a PyMC model, and priors of those not given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixreg.errors import InputError
from mixreg.estimators.priors import Priors
from mixreg.ppl.mixed import Graphs, Mixed
from mixreg.ppl.names import Names
from mixreg.table.parts import ModelParts

Graph = Any

# Sampling keeps all components; variational Bayes's own default prunes them.
DEFAULT = Priors(concentration=1.0)


@dataclass(frozen=True, slots=True)
class Given:
    """What a user gives of a mixture's parameters, in the user's units; None gets a prior.

    Attributes
    ----------
    coef : (k, p) variable or array
    scale : (k,) or one variable or number
    weights : (K,) variable or array
    gate : (K, q) or (K - 1, q) variable or array
    offset : (rows,) variable
    """

    coef: Any = None
    scale: Any = None
    weights: Any = None
    gate: Any = None
    offset: Any = None


def graphs(pt: Any, mixed: Mixed, given: Given, priors: Priors, names: Names) -> Graphs:
    """All parameters of a mixture, in its coordinates; those not given become variables."""
    dispersion = _dispersion(pt, mixed, given, priors, names)
    coef = _coef(pt, mixed, given, priors, names, dispersion)
    return Graphs(coef, dispersion, _gating(pt, mixed, given, priors, names), given.offset)


def checked(pt: Any, name: str, value: Any, allowed: Sequence[tuple[int, ...]], what: str) -> Graph:
    """A parameter as a graph; refuse shapes that cannot be right."""
    graph = pt.as_tensor_variable(value)
    shape = graph.type.shape
    for each in allowed:
        fits = zip(shape, each, strict=False)
        if len(shape) == len(each) and all(a is None or a == b for a, b in fits):
            return graph
    wanted = " or ".join(str(each) for each in allowed)
    raise InputError(f"{name} has shape {tuple(shape)}; it must be {wanted}: {what}")


def _dispersion(pt: Any, mixed: Mixed, given: Given, priors: Priors, names: Names) -> Graph:
    """Dispersion of each component in the mixture's coordinates, and the scale users see."""
    parts, family = mixed.parts, mixed.parts.family
    square, power = parts.whitening.scale**2, family.dispersion_power
    if family.dispersion_name is None:
        if given.scale is not None:
            raise InputError(
                f"scale has no place with family={family.name!r}, which has no dispersion; "
                "leave it out"
            )
        return pt.ones(parts.k)
    if given.scale is not None:
        scale = checked(pt, "scale", given.scale, [(parts.k,), ()], "one for each component")
        scale = names.report("scale", scale * pt.ones(parts.k), ("component",), scale)
        return scale ** (1 / power) / (square if mixed.standard else 1.0)
    if family.equal_dispersion:
        one = names.new.InverseGamma("dispersion", priors.shape, priors.rate)
        dispersion = one * pt.ones(parts.k)
    else:
        dispersion = names.new.InverseGamma(
            "dispersion", priors.shape, priors.rate, dims="component"
        )
    names.new.Deterministic("scale", (dispersion * square) ** power, dims="component")
    return dispersion if mixed.standard else dispersion * square


def _coef(
    pt: Any, mixed: Mixed, given: Given, priors: Priors, names: Names, dispersion: Graph
) -> Graph:
    """Coefficients (k, p): the user's, or standard ones with a prior."""
    parts, white = mixed.parts, mixed.parts.whitening
    if given.coef is not None:
        shape, terms = (parts.k, parts.layout.p), ", ".join(parts.layout.terms)
        what = f"components by terms ({terms}); transpose it if components are columns"
        coef = checked(pt, "coef", given.coef, [shape], what)
        return names.report("coef", coef, ("component", "term"), coef)
    coef = _standard(pt, parts, priors, names, dispersion)
    user = white.scale * pt.dot(coef, white.basis.T)
    if white.constant is not None:
        user = user + white.shift * white.constant
    names.new.Deterministic("coef", user, dims=("component", "term"))
    return coef


def _standard(pt: Any, parts: ModelParts, priors: Priors, names: Names, dispersion: Graph) -> Graph:
    """Standard coefficients (k, p): free ones, shared ones, and zeros."""
    mixture, linear = parts.mixture, parts.family.linear
    scale = priors.coef_scale if linear else priors.link_scale
    own = parts.layout.p - mixture.shared
    spread = scale * pt.sqrt(dispersion)[:, None] if linear else scale
    found = []
    if own:
        rows, cols = present_coefficients(parts)
        each = spread * pt.ones((parts.k, own))
        free = names.new.Normal("beta", 0.0, each[rows, cols], shape=len(rows))
        found.append(pt.set_subtensor(pt.zeros((parts.k, own))[rows, cols], free))
    if mixture.shared:
        common = names.new.Normal("beta_shared", 0.0, scale, shape=mixture.shared)
        found.append(pt.ones((parts.k, 1)) * common)
    return pt.concatenate(found, axis=1)


def _gating(pt: Any, mixed: Mixed, given: Given, priors: Priors, names: Names) -> Graph:
    """Gating (K, width) in the mixture's coordinates."""
    parts, basis, classes = mixed.parts, mixed.parts.whitening.gate, mixed.parts.layout.classes
    width = parts.mixture.gate.width
    if given.weights is not None and parts.gate_design is not None:
        raise InputError(
            "weights has no place beside concomitant, which says how likely classes are; give "
            "gate, the coefficients of the concomitants, or leave it out"
        )
    if given.gate is not None and parts.gate_design is None:
        raise InputError("gate needs concomitant; for constant class probabilities give weights")
    if given.weights is not None:
        weights = checked(pt, "weights", given.weights, [(classes,)], "one for each class")
        return pt.log(names.report("weights", weights, ("class",), weights))[:, None]
    if given.gate is not None:
        shapes = [(classes, width), (classes - 1, width)]
        own = gate = checked(pt, "gate", given.gate, shapes, "classes by concomitants")
        if gate.type.shape[0] == classes - 1:
            own, gate = None, pt.concatenate([pt.zeros((1, width)), gate])
        gate = names.report("gate", gate, ("class", "gate_term"), own)
        return (
            pt.dot(gate, np.linalg.inv(basis).T) if mixed.standard and basis is not None else gate
        )
    made = parts.mixture.gate.graph(names.new, pt, basis, classes, priors)
    return made if mixed.standard or basis is None else pt.dot(made, basis.T)


def present_coefficients(parts: ModelParts) -> tuple[Any, Any]:
    """Component and standard regressor of each coefficient that is free and not shared."""
    mixture = parts.mixture
    present = np.ones((parts.k, parts.layout.p - mixture.shared), dtype=bool)
    for j, i in mixture.absent:
        present[j, i] = False
    rows, cols = np.nonzero(present)
    return rows, cols
