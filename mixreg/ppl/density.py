"""Log densities of rows and units as PyTensor graphs; each family has its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixreg.errors import InputError
from mixreg.families import Family
from mixreg.sources.block import Block

Graph = Any

# Methods that say what a density is, as numbers and as graphs.
NUMBERS = ("log_density", "density", "unit_density", "mean")
GRAPHS = ("density_graph", "inside_graph")


def row_density(pt: Any, family: Family, block: Block, eta: Graph, dispersion: Graph) -> Graph:
    """Log density of rows, (k, rows); for choices, of choice sets, (k, sets).

    `eta` is (k, rows), `dispersion` (k, 1) or None.
    """
    # A family with a density of its own must not go by its parent's graph.
    if _first(family, NUMBERS) < _first(family, GRAPHS):
        raise InputError(f"family {family.name!r} has no PyMC version; use one of mixreg's own")
    return family.density_graph(pt, block, eta, dispersion)


def _first(family: Family, methods: tuple[str, ...]) -> int:
    """How far up a family's parents the first class is that has one of some methods."""
    kinds = type(family).__mro__
    return next(i for i, kind in enumerate(kinds) if any(name in vars(kind) for name in methods))


def per_unit(pt: Any, family: Family, block: Block, density: Graph, k: int) -> Graph:
    """Add up log densities of rows (or of choice sets) within units, (k, units)."""
    if block.starts is None:
        return density
    first = block.starts
    n = block.rows
    if family.takes_sets:
        first, n = np.searchsorted(block.sets, block.starts), len(block.sets)
    sizes = np.diff(first, append=n)
    if (sizes == sizes[0]).all():
        return density.reshape((k, len(first), int(sizes[0]))).sum(axis=-1)
    codes = np.repeat(np.arange(len(first)), sizes)
    return pt.inc_subtensor(pt.zeros((k, len(first)))[:, codes], density)
