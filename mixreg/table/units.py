"""Groups and case weights: which rows share a label, and how much they count."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, nearest
from mixreg.table import frames
from mixreg.table.columns import EXACT, as_numbers, without_mask

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Units:
    """What gets one label each: rows, or groups of rows.

    Attributes
    ----------
    order : (n,) int array or None
        Row order in which groups are contiguous; None if rows already are.
    starts : (units,) int array or None
        First row of each group in that order; None when rows are units.
    labels : pandas Index or None
        Group names, in the order of the units.
    weight : (units,) array or None
    """

    order: NDArray[np.intp] | None
    starts: NDArray[np.intp] | None
    labels: pd.Index | None
    weight: Array | None

    def sort(self, values: Any) -> Any:
        """Rows from the user's order to the order in which groups are contiguous."""
        return values if self.order is None else values[self.order]

    def unsort(self, values: Any) -> Any:
        """Rows back to the user's order."""
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def to_units(self, values: Any, name: str) -> Any:
        """One value for each unit, from rows in the user's order.

        Raises
        ------
        InputError
            If values vary within a group.
        """
        if self.starts is None or self.labels is None:
            return values
        ordered = self.sort(values)
        first = ordered[self.starts]
        sizes = np.diff(self.starts, append=len(ordered))
        varies = ordered != np.repeat(first, sizes, axis=0)
        varies = np.flatnonzero(varies if varies.ndim == 1 else varies.any(axis=1))
        if varies.size:
            unit = int(np.searchsorted(self.starts, varies[0], side="right")) - 1
            group = plain_value(self.labels[unit])
            raise InputError(
                f"{name} within group {group!r}; a group counts as a whole, so give all its "
                "rows the same value"
            )
        return first

    def to_rows(self, values: Any, n: int) -> Any:
        """Spread values (units, ...) over the rows in the user's order."""
        if self.starts is None:
            return values
        return self.unsort(np.repeat(values, np.diff(self.starts, append=n), axis=0))


def column(name: str, value: Any, data: pd.DataFrame | None, namespace: Any) -> Any:
    """Resolve an argument that may be a column's name or an array."""
    if value is None:
        return None
    if isinstance(value, str):
        if data is not None:
            if value not in data.columns and value in data.index.names:
                return data.index.get_level_values(value).to_series(data.index)
            if value not in data.columns:
                raise InputError(
                    f"{name}={value!r} is not a column of data"
                    f"{nearest(value, frames.columns_of(data))}"
                )
            return data[value]
        try:
            return frames.column(namespace[value], name)
        except (KeyError, TypeError):
            raise InputError(
                f"{name}={value!r} was not found; pass an array, or data with that column"
            ) from None
    if data is not None and isinstance(value, (list, tuple)) and len(value) != len(data):
        _refuse_names(name, list(value), data)
    values = frames.column(value, name)
    if not isinstance(values, (pd.Series, pd.api.extensions.ExtensionArray)):
        values = np.asarray(values)
    if np.ndim(values) != 1:
        raise InputError(f"{name} must have one dimension; got shape {np.shape(values)}")
    if data is not None and len(values) != len(data):
        raise InputError(f"{name} has length {len(values)}, but data has {len(data)} rows")
    if data is not None and isinstance(values, pd.Series) and not values.index.equals(data.index):
        raise InputError(
            f"{name} has another index than data; align it, as with {name}.reindex(data.index)"
        )
    return values


def check_names(argument: str, values: Any) -> None:
    """Refuse floats that name groups and are too large to tell whole numbers apart."""
    if getattr(getattr(values, "dtype", None), "kind", "O") != "f":
        return
    large = np.asarray(values, dtype=float)
    large = large[np.abs(large) >= EXACT]
    if len(large):
        raise InputError(
            f"{argument} has floats beyond 2^53, such as {large[0]:.0f}, which do not tell whole "
            "numbers apart, so that groups would be merged; read the column as whole numbers or "
            "text, as with pd.read_csv(path, dtype={'id': 'Int64'})"
        )


@dataclass(frozen=True, eq=False)
class UserTable:
    """The table that a model was declared on, while the user keeps it.

    Attributes
    ----------
    reference : callable
        Gives the table, or None when it is gone.
    chosen : (rows,) bool array or None
        Which of its rows a subset chose.
    numbered : bool
        Whether its rows have numbers for labels (a RangeIndex, or no index at all).
    """

    reference: Any
    chosen: NDArray[np.bool_] | None = None
    numbered: bool = True

    def __reduce__(self) -> Any:
        """Copies do not have it, but know how its rows were called."""
        return UserTable, (_gone, self.chosen, self.numbered)

    def column(self, argument: str, name: str) -> Any:
        """One of its columns, at the rows that were chosen."""
        data = self.reference()
        if data is None:
            raise InputError(
                f"{argument}={name!r} names a column, but the table that the model was declared on "
                f"is gone; pass the column itself, data[{name!r}]"
            )
        values = column(argument, name, frames.as_data(data, {name}), None)
        return values if self.chosen is None else values[self.chosen]


def _gone() -> None:
    """What is left of a table that is gone."""


NO_TABLE = UserTable(_gone)


def user_table(data: Any, chosen: NDArray[np.bool_] | None = None) -> UserTable:
    """Remember a table without keeping it."""
    pandas = isinstance(data, (pd.DataFrame, pd.Series))
    numbered = not pandas or isinstance(data.index, pd.RangeIndex)
    try:
        return UserTable(weakref.ref(data), chosen, numbered)
    except TypeError:
        return UserTable(_gone, chosen, numbered)


def _refuse_names(name: str, values: list[Any], data: pd.DataFrame) -> None:
    """Refuse a list of columns where one column is wanted."""
    if values and all(isinstance(each, str) and each in data.columns for each in values):
        joined = " + ' ' + ".join(f"data[{each!r}].astype(str)" for each in values)
        raise InputError(
            f"{name}={values!r} is a list of columns; give one column, {name}={values[0]!r}, or "
            f"combine them: {name}={joined}"
        )


def present(columns: dict[str, Any]) -> NDArray[np.bool_] | None:
    """Rows at which none of the columns is missing; None if all columns are None."""
    given = {name: values for name, values in columns.items() if values is not None}
    if not given:
        return None
    masks = [np.asarray(pd.notna(values)) for values in given.values()]
    if len({len(mask) for mask in masks}) > 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in given.items())
        raise InputError(f"columns have different lengths: {lengths}")
    return np.asarray(np.logical_and.reduce(masks))


def make_units(
    groups: Any,
    weights: Any,
    kept: NDArray[np.bool_],
    index: pd.Index,
    sets: NDArray[np.intp] | None = None,
) -> Units:
    """Sort out groups and weights of the rows that were kept.

    With `sets`, rows of one set are contiguous within their group.
    """
    weight = None if weights is None else _check_weights(weights[kept], index)
    if groups is None:
        return Units(None, None, None, weight)
    codes, labels = pd.factorize(without_mask(groups[kept]))
    labels = pd.Index(labels)
    order = None
    within = np.zeros(len(codes), dtype=np.intp) if sets is None else sets
    if np.any(np.diff(codes) < 0) or np.any((np.diff(codes) == 0) & (np.diff(within) < 0)):
        order = np.lexsort((within, codes))
        codes = codes[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    units = Units(order, starts, labels, None)
    if weight is not None:
        units = replace(units, weight=units.to_units(weight, "weights vary"))
    return units


def plain_value(value: Any) -> Any:
    """A numpy scalar as the Python value it prints best as."""
    return value.item() if isinstance(value, np.generic) else value


def _check_weights(weight: Any, index: pd.Index) -> Array:
    weight = as_numbers(weight, "weights", "give numbers >= 0")
    bad = np.flatnonzero(~(weight >= 0) | np.isinf(weight))
    if bad.size:
        row = plain_value(index[bad[0]])
        raise InputError(
            f"weights must be finite and not negative; row {row!r} has {weight[bad[0]]:g}"
        )
    return weight
