"""Tables of outside variables beside a fit: which row of them is whose.

One rule for tables of all libraries, and for fits with rows or without: a column that has the
groups' name, always; else a level of the index that has it; else the index itself, where it is
plain whose labels these are. Row numbers (a RangeIndex) are labels of numbered rows only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, InputWarning, warn
from mixreg.reading.files import read_whole
from mixreg.report.base_results import BaseResults
from mixreg.table import frames
from mixreg.table.columns import plain
from mixreg.table.units import plain_value

Mask = NDArray[np.bool_]
Places = NDArray[np.int_]
Aligned = tuple[pd.DataFrame, Places | None]

# Whole numbers from here on are not told apart as floats.
EXACT = 2.0**53
# What pandas calls the values of a column, and how to turn them into another kind.
KINDS = {
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), "numbers"),
    **dict.fromkeys(("string", "bytes"), "text"),
    **dict.fromkeys(("boolean",), "booleans"),
    **dict.fromkeys(("date", "datetime", "datetime64"), "dates"),
    **dict.fromkeys(("period",), "periods"),
    **dict.fromkeys(("timedelta", "timedelta64"), "durations"),
}
CAST = {"numbers": "astype(int)", "text": "astype(str)", "booleans": "astype(bool)"}


def has_labels(res: BaseResults) -> bool:
    """Whether a fit without rows knows its groups, each of which counts once."""
    return res.known_groups is not None and not res.fitted.tally.weighted


def aligned(res: BaseResults, data: Any) -> Aligned:
    """The rows of data that belong to the model, and the unit of each.

    Units are None where there is one row a unit, in the model's order.
    """
    table = frames.read(read_whole(data))
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"data must be a DataFrame; got {type(table).__name__}")
    groups, name = res.known_groups, res.spec.groups_name
    keys = None if groups is None else key_of(table, name)
    table = _variables(table, name)
    if groups is not None and keys is not None:
        return _by_key(table, keys, groups, name)
    if not res.model.has_rows:
        assert groups is not None
        return _by_group_index(table, groups, name)
    return _by_index(res, table, groups)


def key_of(table: pd.DataFrame, name: Any) -> pd.Index | None:
    """The column of a name, else the level of the index; None if there is neither.

    Raises
    ------
    InputError
        If there are both, and they disagree.
    """
    if name is None or name == "":
        return None
    column = pd.Index(table[name]) if name in table.columns else None
    level = table.index.get_level_values(name) if name in table.index.names else None
    if column is not None and level is not None and not column.equals(level):
        raise InputError(
            f"data has a column {name!r} and an index of that name, and they disagree; drop one "
            f"of them, as with data.reset_index({name!r}, drop=True)"
        )
    return level if column is None else column


def places(names: pd.Index, keys: Any, what: str = "") -> Places:
    """Where keys are among names that are unique, -1 where they are not.

    Numbers are compared by their values, whatever their types; a number is never a text.

    Parameters
    ----------
    names : pandas Index
    keys : sequence
    what : str
        What the keys are, for an error where they are of another kind than the names. Without
        it, none of them is found.
    """
    keys = pd.Index(keys)
    if isinstance(names, pd.MultiIndex) or isinstance(keys, pd.MultiIndex):
        both = isinstance(names, pd.MultiIndex) and isinstance(keys, pd.MultiIndex)
        found = names.get_indexer(keys) if both else np.full(len(keys), -1)
        return np.asarray(found)
    if isinstance(keys, pd.CategoricalIndex):
        # Levels keep their type, which values beside missing ones do not.
        return np.append(places(names, keys.categories, what), -1)[keys.codes]
    if isinstance(names, pd.CategoricalIndex):
        names = names.categories.take(names.codes)
    own, kind = _kind(names), _kind(keys)
    if own is not None and kind is not None and own != kind:
        if what:
            raise _other_kind(what, names, own, kind)
        return np.full(len(keys), -1)
    if own == kind == "dates":
        return _date_places(names, keys)
    if own == kind == "numbers":
        _refuse_rounded(names, keys, what or "names of groups")
    # Objects are compared as Python compares them, which rounds no number.
    return np.asarray(names.astype(object).get_indexer(keys.astype(object)))


def _kind(index: pd.Index) -> str | None:
    """What labels are; None if they are of several kinds, or of one that is rare."""
    return KINDS.get(pd.api.types.infer_dtype(index, skipna=True))


def _other_kind(what: str, names: pd.Index, own: str, kind: str) -> InputError:
    cast = CAST.get(own)
    cure = "convert one of them" if cast is None else f"convert these, as with .{cast}"
    return InputError(
        f"{what} are {kind}, and the model's are {own}, such as {plain_value(names[0])!r}; {cure}"
    )


def _refuse_rounded(names: pd.Index, keys: pd.Index, what: str) -> None:
    """Refuse whole numbers as floats that stand for several whole numbers."""
    for each, other in ((names, keys), (keys, names)):
        if pd.api.types.is_float_dtype(each) and not pd.api.types.is_float_dtype(other):
            values = np.abs(each.dropna().to_numpy(dtype=float))
            if ((values >= EXACT) & np.isfinite(values)).any():
                raise InputError(
                    f"{what} are whole numbers beyond 2^53 that were read as floats, which do not "
                    "tell such numbers apart; read them as integers or as text"
                )


def _date_places(names: pd.Index, keys: pd.Index) -> Places:
    own, other = pd.DatetimeIndex(names), pd.DatetimeIndex(keys)
    if (own.tz is None) != (other.tz is None):
        return np.full(len(keys), -1)
    return np.asarray(own.get_indexer(other))


def _variables(table: pd.DataFrame, name: Any) -> pd.DataFrame:
    """Columns that describe; the one that names the groups does not."""
    table = table.drop(columns=[name], errors="ignore").rename(columns=str)
    if table.empty or not table.columns.is_unique:
        what = "is empty" if table.empty else "has columns with the same name"
        raise InputError(f"data {what}; give at least one row and one column, names all different")
    return table


def _by_key(table: pd.DataFrame, keys: pd.Index, groups: pd.Index, name: Any) -> Aligned:
    """Rows by the name of their group: one row a group, or all rows of each."""
    unit = places(groups, keys, f"values of {name!r} in data")
    there = unit >= 0
    lost = np.setdiff1d(np.arange(len(groups)), unit)
    if len(lost) == len(groups):
        raise InputError(
            f"data has none of the fit's {len(groups)} groups in {name!r}, such as "
            f"{plain_value(groups[0])!r}; give the rows of some of them"
        )
    if len(lost):
        warn(
            f"data lacks {len(lost)} of the model's {len(groups)} groups in {name!r}, such as "
            f"{plain_value(groups[lost[0]])!r}; segments are described by the groups that it has",
            InputWarning,
        )
    return plain(table[there]), unit[there]


def _by_group_index(table: pd.DataFrame, groups: pd.Index, name: Any) -> Aligned:
    """One row a group by an index without a name, for a fit whose rows are gone."""
    at = _at_groups(table.index, groups, name)
    if at is None:
        named = "" if name is None or name == "" else f"by the column {name!r}, or "
        raise InputError(
            "data must name the groups of its rows, since the fit's own rows are gone: "
            f"{named}by its index with a row for each of the {len(groups)} groups, such as "
            f"{plain_value(groups[0])!r}{_no_numbers(table.index)}"
        )
    return plain(table.iloc[at]), None


def _by_index(res: BaseResults, table: pd.DataFrame, groups: pd.Index | None) -> Aligned:
    """Rows by the labels of the model's rows, or one row a group by the names of groups."""
    own, index = res.model.index, table.index
    keys = None if own.nlevels > 1 else key_of(table, own.name)
    if keys is not None:
        table, index = _variables(table, own.name), keys.rename(own.name)
    at_rows = _at_rows(res, index)
    at_groups = None if groups is None else _at_groups(index, groups, res.spec.groups_name)
    if at_rows is None and at_groups is None:
        raise _index_error(res, index, groups)
    if at_rows is None:
        assert at_groups is not None
        return plain(table.iloc[at_groups]), None
    if groups is None:
        return plain(table.iloc[at_rows]), None
    unit = res.along_rows(np.arange(len(groups)))
    every = len(index) in (res.nobs, res.model.rows.names.given)
    both = places(index, groups) if index.is_unique else np.full(len(groups), -1)
    if (both >= 0).all() and not (every and (at_groups is None or (both[unit] == at_rows).all())):
        raise InputError(
            "the index of data fits rows and groups; name it as the groups, or keep the rows of "
            "res.labels.index"
        )
    return plain(table.iloc[at_rows]), unit


def _at_rows(res: BaseResults, index: pd.Index) -> Places | None:
    """Where the model's rows are by their labels; None if an index does not say it."""
    own = res.model.index
    if not index.is_unique:
        # Labels repeat: only the rows of the fit or the whole table, in their order, can be told.
        for mask in (np.ones(len(own), dtype=bool), res.model.kept):
            if len(mask) == len(index) and index[mask].equals(own):
                return np.flatnonzero(mask)
        return None
    if _meant_otherwise(res, index):
        return None
    at = places(index, own)
    return None if (at < 0).any() else at


def _meant_otherwise(res: BaseResults, index: pd.Index) -> bool:
    """Whether labels that look like those of the model's rows may be those of other things.

    Row numbers are compared with row numbers alone, and labels under a name with others under it.
    """
    own = res.model.index
    if own.nlevels > 1 or index.nlevels > 1 or index.equals(own):
        return False
    if own.name is not None and index.name is not None:
        return bool(own.name != index.name)
    if _kind(own) != "numbers":
        return False
    if isinstance(index, pd.RangeIndex):
        return not (isinstance(own, pd.RangeIndex) or res.model.rows.names.numbered)
    return bool(own.name != index.name)


def _at_groups(index: pd.Index, groups: pd.Index, name: Any) -> Places | None:
    """Where one row a group is by the names of groups; None if an index does not say it."""
    if not index.is_unique or (index.name is not None and name not in (None, "")):
        return None
    at = places(index, groups)
    if (at < 0).any():
        return None
    # Numbers may be those of rows, unless they are the groups' and no others.
    numbers = _kind(groups) == "numbers"
    return None if numbers and len(index) != len(groups) else at


def _no_numbers(index: pd.Index) -> str:
    """Say that row numbers name nothing, where a table has no other index."""
    numbered = isinstance(index, pd.RangeIndex)
    return ". Its index has row numbers only (a RangeIndex)" if numbered else ""


def _index_error(res: BaseResults, index: pd.Index, groups: pd.Index | None) -> InputError:
    rows, name = res.model.index, res.spec.groups_name
    other = "" if groups is None else f", or index it by the {len(groups)} groups"
    if groups is not None and name not in (None, ""):
        other = f", add the column {name!r}{other}"
        if index.name is not None:
            other += f". If {index.name!r} names the groups: data.rename_axis({name!r})"
    cure = f"give it the index of the data that the model was fitted on{other}"
    distinct = index.unique()
    if groups is not None and not isinstance(index, pd.RangeIndex):
        lost = groups[places(distinct, groups) < 0]
        if 0 < len(lost) < len(groups) and (places(distinct, rows) < 0).all():
            return InputError(
                f"data lacks {len(lost)} of the model's {len(groups)} groups, such as "
                f"{plain_value(lost[0])!r}; give it a row for each, with missing values where "
                "nothing is known"
            )
    absent = rows[places(distinct, rows) < 0]
    if len(absent):
        return InputError(
            f"data lacks {len(absent)} of the model's {len(rows)} rows, such as "
            f"{plain_value(absent[0])!r}; {cure}"
        )
    if not index.is_unique:
        return InputError(f"the index of data repeats labels; {cure}")
    if isinstance(index, pd.RangeIndex):
        return InputError(
            "data has row numbers (a RangeIndex), and the model's rows have labels that need not "
            f"be row numbers; {cure}. If they are the same rows, data.loc[res.labels.index] says so"
        )
    return InputError(
        f"the index of data is named {index.name!r}, and that of the model's rows {rows.name!r}, "
        f"so their labels may not be of the same things; {cure}"
    )
