"""PyMC 5 with ArviZ 0 and PyMC 6 with ArviZ 1, behind one door.

ArviZ 1 keeps draws in a `DataTree` of xarray, ArviZ 0 in a class of its own,
`InferenceData`. Both have groups of variables as attributes (`data.posterior`);
how they are made, put together and listed differs, and nobody else asks which
of them is there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from mixreg.errors import InputError, needs

Variables = Mapping[str, Any]
Dimensions = Mapping[str, Sequence[str]]


def arviz() -> Any:
    """Import ArviZ, or say how to get it."""
    with needs("this needs", "ArviZ", "bayes"), _quiet_import():
        import arviz as az
    return az


def pymc() -> tuple[Any, Any]:
    """Import PyMC and PyTensor, or say how to get them."""
    with needs("this needs", "PyMC", "bayes"), _quiet_import():
        import pymc as pm
        import pytensor.tensor as pt
    return pm, pt


@contextmanager
def _quiet_import() -> Iterator[None]:
    """Not a word of what will change: ArviZ 0 warns of ArviZ 1, PyMC 6 calls old names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def draws_of(
    groups: Mapping[str, tuple[Variables, Dimensions]], coords: Mapping[str, Sequence[Any]]
) -> Any:
    """ArviZ data of some groups of variables.

    Parameters
    ----------
    groups : mapping
        From a group's name to its variables, chains and draws first, and the
        names of their other dimensions. Variables of two groups may share a name.
    coords : mapping
        Labels along the dimensions.
    """
    az = arviz()
    parts = []
    for name, (variables, dims) in groups.items():
        # ArviZ 0 adds names to these lists.
        lists = {variable: list(names) for variable, names in dims.items()}
        parts.append(_from_dict(az, name, variables, coords=coords, dims=lists))
    return reduce(_joined, parts)


def arviz_makes_trees(az: Any) -> bool:
    """Whether ArviZ is 1 or later."""
    return int(az.__version__.split(".")[0]) >= 1


def _from_dict(az: Any, name: str, variables: Variables, **names: Any) -> Any:
    """ArviZ data of one group."""
    if arviz_makes_trees(az):
        return az.from_dict({name: variables}, **names)
    return az.from_dict(**{name: variables}, **names)


def _joined(data: Any, more: Any) -> Any:
    """ArviZ data with the groups of others put into it."""
    if hasattr(data, "children"):
        data.update(more.children)
    else:
        data.extend(more)
    return data


def with_groups(data: Any, groups: Mapping[str, Any]) -> Any:
    """A copy of ArviZ data with some groups put in, or in the place of others; each a Dataset."""
    if hasattr(data, "children"):
        from xarray import DataTree

        new = data.copy()
        for name, dataset in groups.items():
            new[name] = DataTree(dataset)
        return new
    new = data.copy()
    for name, dataset in groups.items():
        if name in new.groups():
            del new[name]
        new.add_groups({name: dataset})
    return new


def dataset_of(data: Any, group: str) -> Any:
    """A group of ArviZ data as a Dataset of xarray."""
    found = data[group]
    return found.to_dataset() if hasattr(found, "to_dataset") else found


def check_posterior(data: Any) -> Any:
    """The posterior of ArviZ data as a Dataset; refuse what is none."""
    known = hasattr(data, "groups") or hasattr(data, "children")
    if not known or "posterior" not in group_names(data):
        raise InputError(
            f"data is {type(data).__name__} without a posterior; give what pymc.sample returns"
        )
    return dataset_of(data, "posterior")


def group_names(data: Any) -> set[str]:
    """Names of the groups of ArviZ data."""
    return set(data.children if hasattr(data, "children") else data.groups())
