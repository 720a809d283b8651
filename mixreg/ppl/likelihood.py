"""The log-likelihood of a PyMC model: as a graph of all rows, or by a sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from mixreg.errors import InputError
from mixreg.ppl.density import per_unit, row_density
from mixreg.sources.block import Block
from mixreg.table.parts import ModelParts

Graph = Any
Likelihood = Literal["graph", "sweep"]


@dataclass(frozen=True, slots=True)
class Graphs:
    """Parameters of a mixture as graphs, in standard coordinates.

    Attributes
    ----------
    coef : (k, p) graph
    dispersion : (k,) graph or None
    gating : (K, width) graph
    """

    coef: Graph
    dispersion: Graph
    gating: Graph


def check_likelihood(given: Any) -> Callable[[Any, ModelParts, Graphs], Graph]:
    """The function that builds a likelihood, by its name."""
    known = {"graph": by_graph, "sweep": by_sweep}
    if not isinstance(given, str) or given not in known:
        names = " or ".join(repr(name) for name in get_args(Likelihood))
        raise InputError(f"likelihood={given!r} must be {names}; use 'sweep' where rows are many")
    return known[given]


def by_sweep(pt: Any, model: ModelParts, at: Graphs) -> Graph:
    """One operation that passes over the rows, in standard units."""
    # PyTensor is not imported with the package.
    from mixreg.ppl.swept import SweptLikelihood

    problem, layout = model.problem(), model.layout.free()
    own = [at.coef]
    if at.dispersion is not None:
        own.append(layout.scale_power * pt.log(at.dispersion)[:, None])
    odds = at.gating[1:] - at.gating[:1]
    vector = pt.concatenate([pt.concatenate(own, axis=1).ravel(), odds.ravel()])
    rows = problem.source.standard(problem.whitening)
    made: Any = SweptLikelihood(rows, problem.mixture, layout)(vector)
    return made[0]


def by_graph(pt: Any, model: ModelParts, at: Graphs) -> Graph:
    """All rows in one graph, which knows its second derivatives too, in standard units."""
    block = model.source.at_hand("a PyMC graph of all rows").standard(model.whitening).as_block()
    joint = _own_density(pt, model, block, at)
    if model.noise:
        length: Any = model.problem().mixture.background
        even = model.family.unit_background(block, length)
        joint = pt.concatenate([joint, pt.as_tensor(np.array(even)[None])])
    joint = joint + model.mixture.gate.prior_graph(pt, at.gating, block)
    if block.known is not None:
        classes = np.arange(model.layout.classes)[:, None]
        wrong = (block.known >= 0) & (classes != block.known)
        joint = joint + np.where(wrong, -np.inf, 0.0)
    marginal = _log_sum(pt, joint)
    return marginal.sum() if block.weight is None else pt.dot(marginal, block.weight)


def _own_density(pt: Any, model: ModelParts, block: Block, at: Graphs) -> Graph:
    """Log density of each unit under each component, (k, units)."""
    eta = pt.dot(at.coef, block.x.T)
    if block.offset is not None:
        eta = eta + block.offset
    wide = None if at.dispersion is None else at.dispersion[:, None]
    density = row_density(pt, model.family, block, eta, wide)
    return per_unit(pt, model.family, block, density, model.k)


def _log_sum(pt: Any, joint: Graph) -> Graph:
    """Logarithm of the sum over classes; zero density where no class can have made a unit."""
    top = pt.max(joint, axis=0)
    finite = pt.switch(pt.isinf(top), 0.0, top)
    return pt.log(pt.sum(pt.exp(joint - finite), axis=0)) + finite
