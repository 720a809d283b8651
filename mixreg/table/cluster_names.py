"""Names of rows and groups on a cluster: they stay beside the blocks until they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.sources.client import Cluster, labelled
from mixreg.sources.cluster import Held
from mixreg.table.far_names import NoArrays, no_column

Table = Callable[[NDArray[Any], pd.Index], Any]

# Rows of a partition that can be told apart.
ROWS_OF_PARTITION = 2**36
# Columns of a table on its way back to the partitions that rows were given in.
PART, PLACE, LABEL = "mixreg part", "mixreg place", "mixreg label"


@dataclass(frozen=True, eq=False)
class PartNames:
    """Names of a partition's rows.

    Attributes
    ----------
    index : pandas Index
        Labels of the rows, in the order of the fit.
    places : (rows,) int array
        Which rows of the partition these are, in that order; of rows that were shuffled,
        their places in the partitions that they were given in.
    sizes : (groups,) int array or None
        Rows of each group.
    groups : pandas Index or None
        Names of the groups.
    given : int
        Rows of the partition.
    trials : tuple of bool
        Which responses are shares of trials; empty if there are no rows.
    """

    index: pd.Index
    places: NDArray[np.intp]
    sizes: NDArray[np.intp] | None
    groups: pd.Index | None
    given: int
    trials: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class ClusterNames(NoArrays):
    """Names of rows on a cluster.

    Attributes
    ----------
    cluster : Cluster
    every : tuple of futures
        Rows of all partitions (`Held`), with their names beside.
    given : int
        Rows that were given.
    divisions : tuple
        Labels at which partitions begin, as Dask has them.
    empty : pandas Index
        Labels of no rows.
    grouped : bool
    apart : bool
        Whether rows were shuffled.
    """

    cluster: Cluster
    every: tuple[Any, ...]
    given: int
    divisions: tuple[Any, ...]
    empty: pd.Index
    grouped: bool
    apart: bool

    def _gathered(self, what: Any) -> list[Any]:
        from dask import delayed

        name = labelled("names", what.__name__)
        parts = [
            delayed(what)(rows, dask_key_name=f"{name}-{i}") for i, rows in enumerate(self.every)
        ]
        return [names for names in self.cluster.gathered(parts) if len(names)]

    @property
    def index(self) -> pd.Index:
        """Labels of the rows that are used, in the order of the fit."""
        return end_to_end(self._gathered(index_of))

    @property
    def numbered(self) -> bool:
        """Whether rows are called by their numbers, some of which may be left out."""
        index = self.index
        if index.name is not None or not pd.api.types.is_integer_dtype(index.dtype):
            return False
        numbers = np.sort(np.asarray(index))
        distinct = bool((np.diff(numbers) > 0).all())
        return distinct and numbers[0] >= 0 and bool(numbers[-1] < self.given)

    @cached_property
    def groups(self) -> pd.Index | None:
        """Names of the groups, in the order of the fit."""
        return end_to_end(self._gathered(groups_of)) if self.grouped else None

    def unsort(self, values: Any) -> Any:
        """Rows are in the order of the fit."""
        return values

    def chunks(self) -> Iterator[tuple[pd.Index, pd.Index | None]]:
        """Labels of the rows, and names of the groups, partition by partition."""
        from dask import delayed

        for rows in self.every:
            found = self.cluster.gathered([delayed(beside_of)(rows)])[0]
            if len(found.index):
                yield found.index, found.groups

    def table(self, values: list[Any], make: Table, classes: int) -> Any:
        """What was found of each unit as a table of Dask's, rows as they were given.

        Parameters
        ----------
        values : list of delayed arrays, (classes, units)
            For each partition.
        make : callable
            A table, given values (classes, rows) and labels of the rows.
        classes : int
        """
        import dask.dataframe as dd
        from dask import delayed

        name, meta = labelled("table"), make(np.empty((classes, 0)), self.empty)
        there = list(zip(self.every, values, strict=True))
        if not self.apart:
            parts = [
                delayed(given_rows)(rows, found, make, classes, dask_key_name=f"{name}-{i}")
                for i, (rows, found) in enumerate(there)
            ]
            return dd.from_delayed(parts, meta=meta, divisions=self.divisions)
        far = [
            delayed(travelling)(rows, found, classes, dask_key_name=f"{name}-{i}")
            for i, (rows, found) in enumerate(there)
        ]
        frame = dd.from_delayed(far, meta=no_travellers(classes, self.empty))
        back = frame.set_index(PART, divisions=list(range(len(there) + 1)))
        parts = [delayed(arrived)(part, make, self.empty.name) for part in back.to_delayed()]
        return dd.from_delayed(parts, meta=meta, divisions=self.divisions)

    def column(self, argument: str, name: str) -> Any:
        """Rows that are read piece by piece have no columns beside those of the model."""
        raise no_column(argument, name)


def unit_rows(rows: Held, values: NDArray[Any], classes: int) -> NDArray[Any]:
    """What was found of a partition's units, for each of its rows."""
    if not len(rows.beside.index):
        return np.empty((classes, 0))
    sizes = rows.beside.sizes
    return values if sizes is None else np.repeat(values, sizes, axis=-1)


def given_rows(rows: Held, values: NDArray[Any], make: Table, classes: int) -> Any:
    """What was found of a partition's units as a table of its rows, as they were given."""
    names: PartNames = rows.beside
    order = np.argsort(names.places)
    return make(unit_rows(rows, values, classes)[:, order], names.index[order])


def travelling(rows: Held, values: NDArray[Any], classes: int) -> pd.DataFrame:
    """The same as a frame that knows where each row was given."""
    names: PartNames = rows.beside
    found = unit_rows(rows, values, classes)
    return pd.DataFrame(
        {
            PART: names.places // ROWS_OF_PARTITION,
            PLACE: names.places,
            LABEL: np.asarray(names.index),
            **{f"mixreg {j}": found[j] for j in range(classes)},
        }
    )


def no_travellers(classes: int, empty: pd.Index) -> pd.DataFrame:
    """Such a frame of no rows."""
    nothing = np.empty(0, dtype=np.int64)
    return travelling(Held((), PartNames(empty, nothing, None, None, 0, ())), nothing, classes)


def arrived(frame: pd.DataFrame, make: Table, name: Any) -> Any:
    """A table of the rows of a partition that they were given in, in order."""
    frame = frame.sort_values(PLACE)
    index = pd.Index(np.asarray(frame[LABEL]), name=name)
    return make(frame.drop(columns=[PLACE, LABEL]).to_numpy().T, index)


def beside_of(rows: Held) -> Any:
    """What is kept beside a partition's blocks."""
    return rows.beside


def index_of(rows: Held) -> pd.Index:
    """Labels of a partition's rows."""
    return rows.beside.index


def groups_of(rows: Held) -> Any:
    """Names of a partition's groups."""
    return () if rows.beside.groups is None else rows.beside.groups


def end_to_end(parts: list[pd.Index]) -> pd.Index:
    """Names of all partitions as one."""
    return parts[0].append(parts[1:]) if len(parts) > 1 else parts[0]
