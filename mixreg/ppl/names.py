"""Names and dimensions of a mixture's variables in a PyMC model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mixreg.errors import InputError
from mixreg.table.parts import ModelParts

Graph = Any


@dataclass(frozen=True)
class Prefixed:
    """PyMC's distributions with names and dimensions that begin alike.

    Attributes
    ----------
    pm : module
    prefix : str
    """

    pm: Any
    prefix: str

    def __getattr__(self, kind: str) -> Callable[..., Graph]:
        """A distribution, or `Deterministic`."""
        make = getattr(self.pm, kind)

        def named(name: str, *args: Any, dims: Any = None, **kwargs: Any) -> Graph:
            if dims is not None:
                each = (dims,) if isinstance(dims, str) else dims
                kwargs["dims"] = tuple(self.prefix + dim for dim in each)
            return make(self.prefix + name, *args, **kwargs)

        return named


@dataclass(frozen=True)
class Names:
    """What a mixture's variables are called in a model.

    Attributes
    ----------
    new : Prefixed
        Makes variables.
    model : pymc Model
        They go into.
    """

    new: Prefixed
    model: Any

    def report(self, name: str, value: Graph, dims: tuple[str, ...], given: Any) -> Graph:
        """Let a parameter that was given be found by its usual name and dimensions.

        A variable of the model that has no dimensions gets them, so that draws can be
        told apart by component; what has no name gets one, if that is free.
        """
        full = tuple(self.new.prefix + dim for dim in dims)
        own = getattr(given, "name", None)
        known = self.model.named_vars.get(own) is given and given is not None
        if known and given.type.ndim == len(dims):
            self.model.named_vars_to_dims.setdefault(own, full)
        if self.new.prefix + name in self.model.named_vars:
            return value
        self.new.Deterministic(name, value, dims=dims)
        return value


def add_coords(model: Any, prefix: str, coords: dict[str, Sequence[Any]]) -> None:
    """Add dimensions that a model lacks; those that it has must be as long.

    Raises
    ------
    InputError
        If the model has a dimension of that name and another length.
    """
    for name, labels in coords.items():
        full = prefix + name
        there = int(model.dim_lengths[full].eval()) if full in model.coords else None
        if there is not None and there != len(labels):
            raise InputError(
                f"the model has a dimension {full!r} of length {there}, but the mixture's "
                f"has {len(labels)}; give another prefix, such as prefix='mixture_'"
            )
        if full in model.named_vars:
            raise InputError(
                f"the model has a variable {full!r}, which is the name of a dimension of the "
                "mixture; give another prefix, such as prefix='mixture_'"
            )
        if there is None:
            model.add_coord(full, labels)


def coords_of(parts: ModelParts) -> dict[str, Sequence[Any]]:
    """Labels along the dimensions."""
    layout, components = parts.layout, list(range(1, parts.k + 1))
    return {
        "component": components,
        "class": components + [0] * parts.noise,
        "term": list(layout.terms),
        "standard_term": [f"standard {i}" for i in range(layout.p)],
        "gate_term": list(layout.gate),
    }


def row_labels(index: pd.Index) -> Any:
    """Labels of rows that xarray can hold: those of several levels as text."""
    if isinstance(index, pd.MultiIndex):
        return np.array([", ".join(map(str, each)) for each in index])
    return np.asarray(index)
