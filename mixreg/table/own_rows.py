"""The rows that a model was declared on: where they are, and how they are named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.sources import Source
from mixreg.sources.standard import Whitening
from mixreg.table.units import NO_TABLE, Units, UserTable

Array = NDArray[np.float64]


class RowNames(Protocol):
    """What rows and groups are called, in the user's order; read when it is asked for."""

    @property
    def given(self) -> int:
        """Rows that were given: those that are used, and those with missing values."""
        ...

    @property
    def index(self) -> pd.Index:
        """Labels of the rows that are used."""
        ...

    @property
    def numbered(self) -> bool:
        """Whether rows are called by their numbers, from a RangeIndex of the table given."""
        ...

    @property
    def groups(self) -> pd.Index | None:
        """Names of the groups, in the order of the fit; None if rows are units."""
        ...

    @property
    def units(self) -> Units:
        """Which rows share a label, for arrays that the user gives beside the rows."""
        ...

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which of the rows given are used."""
        ...

    def unsort(self, values: Any) -> Any:
        """Rows from the order of the fit to the user's."""
        ...

    def chunks(self) -> Iterator[tuple[Any, pd.Index | None]]:
        """Labels of rows, and names of their groups, in the order of the fit."""
        ...

    def table(self, values: list[Any], make: Any, classes: int) -> Any:
        """What was found of each unit as a table of Dask's, if rows are there."""
        ...

    def column(self, argument: str, name: str) -> Any:
        """A column of the table that the rows came from, for the rows given."""
        ...


@dataclass(frozen=True, eq=False)
class NamesAtHand:
    """Names of rows in memory.

    Attributes
    ----------
    units : Units
        What gets a label.
    index : pandas Index
        Labels of the rows, in the user's order.
    kept : (rows given,) bool array
        Which of the rows given are used.
    user : UserTable
    """

    units: Units
    index: pd.Index
    kept: NDArray[np.bool_]
    user: UserTable = NO_TABLE

    @property
    def given(self) -> int:
        """Rows that were given."""
        return len(self.kept)

    @property
    def numbered(self) -> bool:
        """Whether rows are called by their numbers, some of which may be left out."""
        index, user = self.index, self.user
        if isinstance(index, pd.RangeIndex):
            return True
        if not user.numbered or not pd.api.types.is_integer_dtype(index.dtype):
            return False
        at = np.flatnonzero(self.kept)
        at = at if user.chosen is None else np.flatnonzero(user.chosen)[at]
        # A RangeIndex may begin anywhere, and take steps.
        far, steps = np.diff(np.asarray(index)), np.diff(at)
        return bool((far * steps[:1] == steps * far[:1]).all())

    @property
    def groups(self) -> pd.Index | None:
        """Names of the groups."""
        return self.units.labels

    def unsort(self, values: Any) -> Any:
        """Rows from the order of the fit to the user's."""
        return self.units.unsort(values)

    def chunks(self) -> Iterator[tuple[Any, pd.Index | None]]:
        """Labels of rows, and names of their groups, in the order of the fit."""
        yield self.units.sort(self.index), self.groups

    def table(self, values: list[Any], make: Any, classes: int) -> Any:
        """Rows in memory have tables of their own."""
        raise NotImplementedError

    def column(self, argument: str, name: str) -> Any:
        """A column of the table that the rows came from."""
        return self.user.column(argument, name)


@dataclass(frozen=True, eq=False)
class OwnRows:
    """All of a model that runs along its rows.

    Attributes
    ----------
    source : Source
        Rows in the order of the fit, as they are fitted.
    given : Source
        The same as they were given: responses of linear fits with their offset,
        attributes of choices not centred.
    whitening : Whitening
        Their standard coordinates.
    names : RowNames
    """

    source: Source
    given: Source
    whitening: Whitening
    names: RowNames
