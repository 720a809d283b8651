"""The mixture in a PyMC model: where it is, and its parameters at draws of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.mixture.parameters import Parameters
from mixreg.ppl.compat import pymc
from mixreg.ppl.mixed import Graphs, Mixed

Array = NDArray[np.float64]
Graph = Any


@dataclass(frozen=True, eq=False)
class Located:
    """The one mixture of a PyMC model.

    Attributes
    ----------
    model : pymc Model
    mixed : Mixed
    term : variable
        What adds its log-likelihood to the model: an observed variable, or a potential.
    graphs : Graphs
        Its parameters.
    """

    model: Any
    mixed: Mixed
    term: Any
    graphs: Graphs

    @property
    def outputs(self) -> list[Graph]:
        """The graphs that there are."""
        at = self.graphs
        return [g for g in (at.coef, at.dispersion, at.gating, at.offset) if g is not None]

    def needed(self) -> list[Any]:
        """Free variables that the parameters depend on."""
        from pytensor.graph.traversal import ancestors

        above = set(ancestors(self.outputs))
        return [variable for variable in self.model.free_RVs if variable in above]


def located(model: Any) -> Located:
    """The mixture of a model.

    Raises
    ------
    InputError
        If there is none, or more than one.
    """
    pm, _ = pymc()
    if not isinstance(model, pm.Model):
        raise InputError(f"model={model!r} must be a pymc.Model with a MixtureRegression")
    found = [*_variables(model), *_potentials(model)]
    if len(found) != 1:
        raise InputError(
            f"the model has {len(found)} mixtures; it must have one: add it by "
            "mixreg.ppl.MixtureRegression, or make the model by MixReg.to_pymc"
        )
    return found[0]


def _variables(model: Any) -> list[Located]:
    from mixreg.ppl.variable import MixtureVariable

    found = []
    for variable in model.observed_RVs:
        op = variable.owner.op
        if isinstance(op, MixtureVariable):
            graphs = Graphs(*op.dist_params(variable.owner))
            found.append(Located(model, op.mixed, variable, graphs))
    return found


def _potentials(model: Any) -> list[Located]:
    from pytensor.graph.traversal import ancestors

    from mixreg.ppl.swept import SweptLikelihood

    found = []
    for term in model.potentials:
        for each in ancestors([term]):
            op = None if each.owner is None else each.owner.op
            if isinstance(op, SweptLikelihood) and op.mixed is not None:
                graphs = unpacked(op.mixed, each.owner.inputs[0])
                found.append(Located(model, op.mixed, term, graphs))
                break
    return found


def unpacked(mixed: Mixed, vector: Graph) -> Graphs:
    """Parameters of a flat vector that is a graph."""
    _, pt = pymc()
    layout = mixed.parts.layout.free()
    coef = vector[layout.coef_index()]
    dispersion = pt.ones(layout.k)
    if layout.scale_name is not None:
        dispersion = pt.exp(vector[layout.scale_index()] / layout.scale_power)
    width = mixed.parts.mixture.gate.width
    odds = vector[layout.gating_index()].reshape((layout.classes - 1, width))
    return Graphs(coef, dispersion, pt.concatenate([pt.zeros((1, width)), odds]))


@dataclass(frozen=True, eq=False)
class AtDraws:
    """Parameters of a mixture at draws of a model.

    Attributes
    ----------
    params : Parameters
        A stack, in the mixture's coordinates.
    offsets : (draws, rows) array or None
        In the order of the fit.
    """

    params: Parameters
    offsets: Array | None

    def __len__(self) -> int:
        """Number of draws."""
        return self.params.coef.shape[1]


def at_draws(found: Located, draws: Mapping[str, Array]) -> AtDraws:
    """Parameters at draws of the model's free variables, which have draws first."""
    import pytensor

    needed, mixed = found.needed(), found.mixed
    absent = [variable.name for variable in needed if variable.name not in draws]
    if absent:
        raise InputError(
            f"the posterior lacks {', '.join(absent)}, which the mixture depends on; give draws "
            "of all free variables of the model"
        )
    inputs = [variable.type() for variable in needed]
    outputs = pytensor.graph.replace.clone_replace(
        found.outputs, dict(zip(needed, inputs, strict=True))
    )
    function = pytensor.function(inputs, outputs, mode="FAST_COMPILE", on_unused_input="ignore")
    n = len(next(iter(draws.values()))) if needed else 1
    values = [function(*(draws[each.name][i] for each in needed)) for i in range(n)]
    coef, dispersion, gating, *offset = (np.asarray(part) for part in zip(*values, strict=True))
    params = Parameters(np.moveaxis(coef, 1, 0), dispersion.T, np.moveaxis(gating, 1, 0))
    if not offset:
        return AtDraws(params, None)
    length = offset[0].shape[1]
    return AtDraws(params, np.array([mixed.own_order(one, length) for one in offset[0]]))
