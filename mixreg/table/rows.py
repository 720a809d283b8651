"""From what the user gave to rows in order, checked: the parts of a model."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.families import Family
from mixreg.sources.block import Block
from mixreg.table import frames
from mixreg.table.columns import as_numbers
from mixreg.table.table import Table, refuse_missing
from mixreg.table.units import Units, check_names, column, make_units, plain_value, present

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RowColumns:
    """Arguments with one entry a row: a column's name or an array, later its values.

    `known_labels` may have missing entries; a missing entry of the others drops
    the row.
    """

    groups: Any = None
    weights: Any = None
    offset: Any = None
    exposure: Any = None
    trials: Any = None
    choice_set: Any = None
    known_labels: Any = None

    def resolve(self, data: pd.DataFrame | None, namespace: Any) -> RowColumns:
        """Look names up in the data, or in the caller's namespace."""
        found = {
            f.name: column(f.name, getattr(self, f.name), data, namespace) for f in fields(self)
        }
        for name in ("groups", "choice_set"):
            check_names(name, found[name])
        return RowColumns(**found)

    def choose(self, mask: NDArray[np.bool_]) -> RowColumns:
        """Values at some rows."""
        parts = (getattr(self, f.name) for f in fields(self))
        return RowColumns(*(None if part is None else part[mask] for part in parts))

    def usable(self) -> NDArray[np.bool_] | None:
        """Rows at which nothing is missing, or None if there are no such columns."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "known_labels"}
        return present(named)

    def refuse_missing(self) -> None:
        """With missing="raise": name those that have missing values."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "known_labels"}
        gone = {key: pd.isna(value) for key, value in named.items() if value is not None}
        if gone:
            rows = int(np.logical_or.reduce(list(gone.values())).sum())
            refuse_missing({key: int(np.sum(mask)) for key, mask in gone.items()}, rows)

    def names(self) -> dict[str, Any]:
        """Names of the columns that were given: empty if they have none, None if there are none."""
        return {f.name: _name_of(getattr(self, f.name)) for f in fields(self)}


def _name_of(column: Any) -> Any:
    """The name of a column, by which new data may have it too."""
    if column is None or isinstance(column, str):
        return column
    name = frames.name_of(column)
    return "" if name is None else name


def known_by_group(given: RowColumns, data: pd.DataFrame | None, namespace: Any) -> RowColumns:
    """Resolve the columns; known labels may map groups to labels."""
    known = given.known_labels
    if not isinstance(known, dict):
        return given.resolve(data, namespace)
    columns = replace(given, known_labels=None).resolve(data, namespace)
    if columns.groups is None:
        raise InputError("known_labels as a dict needs groups=; give an array with one entry a row")
    groups = pd.Series(np.asarray(columns.groups))
    unknown = [name for name in known if not (groups == name).any()]
    if unknown:
        raise InputError(f"known_labels names groups that data does not have: {unknown[:5]}")
    return replace(columns, known_labels=groups.map(known).to_numpy())


@dataclass(frozen=True)
class Declared:
    """Rows as they were given, in the order of the fit, and what gets a label."""

    block: Block
    units: Units


def numbers(name: str, values: Any, table: Table) -> Array | None:
    """A numeric column at the rows that were kept."""
    if values is None:
        return None
    out = as_numbers(values, name)[table.kept]
    bad = np.flatnonzero(~np.isfinite(out))
    if bad.size:
        raise InputError(f"{name} is infinite in row {plain_value(table.index[bad[0]])!r}")
    return out


def linear_offset(columns: RowColumns, family: Family, table: Table) -> Array | None:
    """Known part of the linear predictor: offset plus log exposure."""
    offset = numbers("offset", columns.offset, table)
    exposure = numbers("exposure", columns.exposure, table)
    if exposure is None:
        return offset
    if family.link_name != "log":
        raise InputError(
            f"exposure needs a log link; family {family.name} has the {family.link_name} link. "
            "Use offset= instead"
        )
    bad = np.flatnonzero(exposure <= 0)
    if bad.size:
        row = plain_value(table.index[bad[0]])
        raise InputError(f"exposure must be positive; row {row!r} has {exposure[bad[0]]:g}")
    return np.log(exposure) if offset is None else offset + np.log(exposure)


def declare(
    table: Table, columns: RowColumns, family: Family, z: Array | None, k: int, noise: bool
) -> Declared:
    """Check the rows and put them in order."""
    offset = linear_offset(columns, family, table)
    columns, trials = _trials(columns, family, table)
    sets = _set_codes(columns, family, table)
    groups = columns.groups if columns.groups is not None else columns.choice_set
    units = make_units(groups, columns.weights, table.kept, table.index, sets)
    check_range(family, table.y, trials, table.index)
    block = Block(
        units.sort(table.x),
        units.sort(table.y),
        units.weight,
        units.starts,
        offset=None if offset is None else units.sort(offset),
        trials=None if trials is None else units.sort(trials),
        z=None if z is None else units.to_units(z, "concomitants vary"),
        known=known_codes(columns.known_labels, units, table, k, noise),
    )
    if sets is not None:
        block = in_sets(block, units.sort(sets), units.sort(np.asarray(table.index)))
    return Declared(block, units)


def _trials(columns: RowColumns, family: Family, table: Table) -> tuple[RowColumns, Array | None]:
    """Trials of a binomial response: given, from two columns, or as weights."""
    trials = numbers("trials", columns.trials, table)
    if not family.takes_trials:
        if trials is not None or table.trials is not None:
            what = "trials=" if trials is not None else "a response of two columns"
            raise InputError(f"{what} needs family='binomial'; got family={family.name!r}")
        return columns, None
    if table.trials is not None:
        if trials is not None:
            raise InputError("trials= has no place beside a response 'successes + failures'")
        return columns, table.trials
    proportions = ((table.y > 0) & (table.y < 1)).any()
    if trials is None and proportions and columns.weights is not None:
        # As in glm: weights of proportions are their trials.
        return replace(columns, weights=None), numbers("weights", columns.weights, table)
    return columns, trials


def check_range(family: Family, y: Array, trials: Array | None, index: pd.Index) -> None:
    """Refuse responses that the family does not allow; name the first row."""
    bad, allowed = family.check(y, trials)
    rows = np.flatnonzero(bad)
    if rows.size:
        row = plain_value(index[rows[0]])
        more = f" (and {rows.size - 1} more rows)" if rows.size > 1 else ""
        raise InputError(
            f"the response is {y[rows[0]]:g} in row {row!r}{more}; family {family.name!r} "
            f"allows {allowed}"
        )


def _set_codes(columns: RowColumns, family: Family, table: Table) -> NDArray[np.intp] | None:
    """Number of the choice set of each kept row; sets of different groups differ."""
    if not family.takes_sets:
        if columns.choice_set is not None:
            raise InputError(f"choice_set needs family='choice'; got family={family.name!r}")
        return None
    if columns.choice_set is None:
        raise InputError(
            "family='choice' needs choice_set=, the column that says which rows were offered "
            "together"
        )
    kept = table.kept
    codes = pd.factorize(np.asarray(columns.choice_set)[kept])[0]
    if columns.groups is not None:
        groups = pd.factorize(np.asarray(columns.groups)[kept])[0]
        codes = pd.factorize(groups * (codes.max() + 1) + codes)[0]
    return np.asarray(codes, dtype=np.intp)


def whole_sets(table: Table, columns: RowColumns, family: Family) -> Table:
    """Leave out choice sets that missing values made holes in."""
    if not family.takes_sets or columns.choice_set is None or table.kept.all():
        return table
    absent = np.flatnonzero(pd.isna(np.asarray(columns.choice_set, dtype=object)))
    if absent.size:
        raise InputError(
            f"choice_set is missing in row number {absent[0] + 1}; say which alternatives it was "
            "offered with, or leave its whole set out"
        )
    keys = pd.DataFrame({"set": np.asarray(columns.choice_set)})
    if columns.groups is not None:
        keys["group"] = np.asarray(columns.groups)
    codes = keys.groupby(list(keys), sort=False, dropna=False).ngroup().to_numpy()
    whole = ~np.isin(codes, codes[~table.kept])
    return chosen_rows(table, whole)


def chosen_rows(table: Table, kept: NDArray[np.bool_]) -> Table:
    """Some of the rows of a table, as a mask of all rows given."""
    keep = kept[table.kept]
    trials = None if table.trials is None else table.trials[keep]
    return Table(table.x[keep], table.y[keep], table.index[keep], kept, trials)


def in_sets(block: Block, codes: NDArray[np.intp], index: Any) -> Block:
    """Mark where choice sets begin; refuse those that are none."""
    opens = np.concatenate([[True], codes[1:] != codes[:-1]])
    starts = np.flatnonzero(opens)
    sizes = np.diff(starts, append=len(codes))
    chosen = np.add.reduceat(block.y, starts)
    bad = np.flatnonzero((chosen != 1) | (sizes < 2))
    odd = np.flatnonzero((block.y != 0) & (block.y != 1))
    if odd.size:
        raise InputError(
            f"the response is {block.y[odd[0]]:g} in row {plain_value(index[odd[0]])!r}; with "
            "family 'choice' it is 1 for the alternative chosen and 0 for the others"
        )
    if bad.size:
        row = plain_value(index[starts[bad[0]]])
        what = "one alternative only"
        if sizes[bad[0]] >= 2:
            what = (
                "no alternative chosen"
                if chosen[bad[0]] == 0
                else (f"{int(chosen[bad[0]])} alternatives chosen")
            )
        raise InputError(
            f"the choice set that begins at row {row!r} has {what} ({bad.size} of {len(starts)} "
            "sets are like that); each set needs two or more alternatives and one of them chosen. "
            "If sets are numbered within respondents, give groups="
        )
    return replace(block, opens=opens)


def known_codes(
    labels: Any, units: Units, table: Table, k: int, noise: bool
) -> NDArray[np.intp] | None:
    """Component of each unit whose label is known, from 0; -1 for the others."""
    if labels is None:
        return None
    if len(labels) != len(table.kept):
        raise InputError(
            f"known_labels has length {len(labels)}; give one entry for each of the "
            f"{len(table.kept)} rows, missing where the label is not known"
        )
    given = pd.Series(np.asarray(labels)[table.kept])
    missing = pd.isna(given).to_numpy()
    numeric = pd.to_numeric(given, errors="coerce").to_numpy(dtype=float)
    least = 0 if noise else 1
    with np.errstate(invalid="ignore"):
        good = (numeric >= least) & (numeric <= k) & (numeric == np.round(numeric))
    bad = np.flatnonzero(~missing & ~good)
    if bad.size:
        value = plain_value(given[bad[0]])
        shown = f"{value:g}" if isinstance(value, float) else repr(value)
        raise InputError(
            f"known_labels is {shown} {_where(bad[0], units, table)}; "
            f"allowed are {least}..{k}, and missing where the label is not known"
        )
    codes = np.where(missing, -1, np.where(numeric == 0, k, numeric - 1))
    return np.asarray(units.to_units(codes, "known_labels vary"), dtype=np.intp)


def _where(row: int, units: Units, table: Table) -> str:
    """A row in words, with its group."""
    text = f"in row {plain_value(table.index[row])!r}"
    if units.labels is None:
        return text
    n = len(table.index)
    group = units.labels[int(units.to_rows(np.arange(len(units.labels)), n)[row])]
    return f"{text} (group {plain_value(group)!r})"
