"""The log-likelihood of a PyMC model: as a graph of all rows, or by a sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.ppl.density import per_unit, row_density
from mixreg.ppl.mixed import Graphs, Mixed
from mixreg.report.drawing import DrawRows
from mixreg.sources import Source
from mixreg.sources.block import Block

Array = NDArray[np.float64]
Graph = Any
Likelihood = Literal["graph", "sweep"]


def all_rows(mixed: Mixed) -> Block:
    """All rows of a mixture, in its coordinates."""
    parts = mixed.parts
    rows = parts.source.at_hand("a PyMC graph of all rows")
    return (rows.standard(parts.whitening) if mixed.standard else rows).as_block()


def check_likelihood(given: Any) -> Likelihood:
    """The name of a likelihood."""
    known = get_args(Likelihood)
    if not isinstance(given, str) or given not in known:
        names = " or ".join(repr(name) for name in known)
        raise InputError(f"likelihood={given!r} must be {names}; use 'sweep' where rows are many")
    return given  # type: ignore[return-value]


def by_sweep(pt: Any, mixed: Mixed, at: Graphs) -> Graph:
    """Log-likelihood as one operation that passes over the rows, in the user's units."""
    # PyTensor is not imported with the package.
    from mixreg.ppl.swept import SweptLikelihood

    parts, layout = mixed.parts, mixed.parts.layout.free()
    own = [at.coef]
    if parts.family.dispersion_name is not None:
        own.append(layout.scale_power * pt.log(at.dispersion)[:, None])
    odds = at.gating[1:] - at.gating[:1]
    vector = pt.concatenate([pt.concatenate(own, axis=1).ravel(), odds.ravel()])
    made: Any = SweptLikelihood(mixed.source, mixed.mixture, layout, mixed)(vector)
    return made[0] - (parts.whitening.log_volume if mixed.standard else 0.0)


def check_graph(pt: Any, mixed: Mixed, at: Graphs) -> None:
    """Refuse a family that has no graph, when a model is built and not when it is sampled."""
    rows = mixed.parts.source.at_hand("a PyMC graph of all rows").as_block().cut(0, 1)
    _row_density(pt, mixed, rows, pt.dot(at.coef, rows.x.T), at)


def by_graph(pt: Any, mixed: Mixed, at: Graphs) -> Graph:
    """Log-likelihood of each unit times its weight, (units,), in the user's units.

    All rows are in one graph, which knows its second derivatives too.
    """
    parts, block = mixed.parts, all_rows(mixed)
    joint = _own_density(pt, mixed, block, at)
    if parts.noise:
        length: Any = mixed.mixture.background
        even = parts.family.unit_background(block, length)
        joint = pt.concatenate([joint, pt.as_tensor(np.array(even)[None])])
    joint = joint + parts.mixture.gate.prior_graph(pt, at.gating, block)
    if block.known is not None:
        classes = np.arange(parts.layout.classes)[:, None]
        wrong = (block.known >= 0) & (classes != block.known)
        joint = joint + np.where(wrong, -np.inf, 0.0)
    marginal = _log_sum(pt, joint) - mixed.log_scale * np.asarray(block.size)
    return marginal if block.weight is None else marginal * block.weight


def drawn(mixed: Mixed, block: Block, at: Any, offset: Array, rng: np.random.Generator) -> Array:
    """Responses at some parameters, in the user's units and order.

    Parameters
    ----------
    mixed : Mixed
    block : Block
        All rows in the user's units.
    at : Parameters
        In the user's units.
    offset : (rows,) array
        All of it that rows do not have themselves, in the order of the fit.
    rng : Generator
    """
    spec = mixed.parts.spec
    block = replace(block, offset=offset if block.offset is None else block.offset + offset)
    # Not spawned: PyTensor's copies of a generator have forgotten where they come from.
    seeds = rng.integers(2**63, size=(1 + 2 * len(spec.responses), 2))
    task = DrawRows(spec, tuple(np.random.default_rng(seed) for seed in seeds))
    return np.asarray(mixed.parts.rows.names.unsort(task(block, at).join()[0]))


def with_offset(source: Source, linear: bool, offset: Array) -> Source:
    """Rows with one more offset, which moves the responses of a linear fit."""
    rows = source.at_hand("an offset that is a variable")
    block = rows.as_block()
    if linear:
        return rows.with_columns(y=block.y - offset)
    return rows.with_columns(offset=offset if block.offset is None else block.offset + offset)


def _own_density(pt: Any, mixed: Mixed, block: Block, at: Graphs) -> Graph:
    """Log density of each unit under each component, (k, units)."""
    family, eta = mixed.parts.family, pt.dot(at.coef, block.x.T)
    if block.offset is not None:
        eta = eta + block.offset
    if at.offset is not None:
        eta = eta + mixed.own_order(at.offset, at.offset.type.shape[0])
    density = _row_density(pt, mixed, block, eta, at)
    return per_unit(pt, family, block, density, mixed.parts.k)


def _row_density(pt: Any, mixed: Mixed, block: Block, eta: Graph, at: Graphs) -> Graph:
    family = mixed.parts.family
    wide = None if family.dispersion_name is None else at.dispersion[:, None]
    return row_density(pt, family, block, eta, wide)


def _log_sum(pt: Any, joint: Graph) -> Graph:
    """Logarithm of the sum over classes; zero density where no class can have made a unit."""
    top = pt.max(joint, axis=0)
    finite = pt.switch(pt.isinf(top), 0.0, top)
    return pt.log(pt.sum(pt.exp(joint - finite), axis=0)) + finite
