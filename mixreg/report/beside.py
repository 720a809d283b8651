"""Tables of outside variables beside a fit: which row of them is whose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.reading.files import read_whole
from mixreg.report.base_results import BaseResults
from mixreg.table import frames
from mixreg.table.columns import plain
from mixreg.table.units import plain_value

Mask = NDArray[np.bool_]
Aligned = tuple[pd.DataFrame, NDArray[np.int_] | None]


def has_labels(res: BaseResults) -> bool:
    """Whether a fit without rows knows its groups, each of which counts once."""
    return res.known_groups is not None and not res.fitted.tally.weighted


def aligned(res: BaseResults, data: Any) -> Aligned:
    """The rows of data in the model's order, and their units if those are groups of rows."""
    data = _table(data, res.spec.groups_name)
    if not isinstance(data, pd.DataFrame):
        raise InputError(f"data must be a DataFrame; got {type(data).__name__}")
    if not res.model.has_rows:
        return _by_groups(res, data)
    model, groups, index = res.model, res.known_groups, data.index
    data = _variables(data, res.spec.groups_name)
    kept = None if index.is_unique else model.kept
    at_rows = _find(index, model.index, kept)
    at_groups = None if groups is None else _find(index, groups)
    named = index.name is not None and index.name == res.spec.groups_name
    if at_groups is not None and (named or at_rows is None):
        return plain(data.iloc[at_groups]), None
    if at_rows is None:
        raise _index_error(index, model.index, groups, named)
    if at_groups is not None and len(index) not in (res.nobs, model.rows.names.given):
        cure = "name it as the groups, or keep the rows of res.labels.index"
        raise InputError(f"the index of data fits rows and groups; {cure}")
    unit = None if groups is None else res.along_rows(np.arange(len(groups)))
    return plain(data.iloc[at_rows]), unit


def _variables(data: pd.DataFrame, groups_name: Any) -> pd.DataFrame:
    """Columns that describe; the one that names the groups does not."""
    data = data.drop(columns=[groups_name], errors="ignore").rename(columns=str)
    if data.empty or not data.columns.is_unique:
        what = "is empty" if data.empty else "has columns with the same name"
        raise InputError(f"data {what}; give at least one row and one column, names all different")
    return data


def _by_groups(res: BaseResults, data: pd.DataFrame) -> Aligned:
    """The same where the rows are gone, by the names of the groups."""
    name, groups = res.spec.groups_name, res.known_groups
    assert groups is not None
    table, named = _variables(data, name), _names(data, name)
    if named is None:
        at = _find(data.index, groups)
        if at is None:
            raise InputError(
                "data must name the groups of its rows, since the fit's own rows are gone: by the "
                f"column {name!r}, or by its index with a row for each of the {len(groups)} groups"
            )
        return plain(table.iloc[at]), None
    unit = np.asarray(groups.get_indexer(named))
    if (unit < 0).all():
        raise InputError(
            f"data has none of the fit's {len(groups)} groups in {name!r}, such as "
            f"{plain_value(groups[0])!r}; give the rows of some of them"
        )
    return plain(table[unit >= 0]), unit[unit >= 0]


def _names(data: pd.DataFrame, groups_name: Any) -> pd.Index | None:
    """The group of each row, by a column or a level of the index; None if there is none."""
    if groups_name is None:
        return None
    if groups_name in data.columns:
        return pd.Index(data[groups_name])
    there = groups_name in data.index.names
    return data.index.get_level_values(groups_name) if there else None


def _table(data: Any, groups_name: Any) -> Any:
    """The data as a pandas frame; that of another library has the index that its groups name."""
    frame = frames.read(read_whole(data))
    if isinstance(data, pd.DataFrame) or not isinstance(frame, pd.DataFrame):
        return frame
    by_group = groups_name in frame.columns and frame[groups_name].is_unique
    return frame.set_index(groups_name, drop=False) if by_group else frame


def _find(index: pd.Index, wanted: pd.Index, kept: Mask | None = None) -> NDArray[np.int_] | None:
    """Where the wanted labels are in an index; None if they are not there."""
    if index.is_unique:
        at = np.asarray(index.get_indexer(wanted))
        return None if (at < 0).any() else at
    # Labels repeat: only the rows of the fit or the whole table, in their order, can be told.
    for mask in (np.ones(len(wanted), dtype=bool), kept):
        if mask is not None and len(mask) == len(index) and index[mask].equals(wanted):
            return np.flatnonzero(mask)
    return None


def _index_error(
    index: pd.Index, rows: pd.Index, groups: pd.Index | None, named: bool
) -> InputError:
    absent = rows[~rows.isin(index)].tolist()
    what = "the index of data repeats labels"
    if groups is not None and (named or len(absent) == len(rows)) and groups.isin(index).any():
        lost = groups[~groups.isin(index)].tolist()
        if lost:
            return InputError(
                f"data lacks {len(lost)} of the model's {len(groups)} groups, such as {lost[0]!r}; "
                "give it a row for each, with missing values where nothing is known"
            )
    if absent:
        what = f"data lacks {len(absent)} of the model's {len(rows)} rows, such as {absent[0]!r}"
    other = "" if groups is None else f", or index it by the {len(groups)} groups"
    return InputError(f"{what}; give it the index of the data that the model was fitted on{other}")
