"""Making the columns of a formula: at once, or a few terms at a time where rows are many.

Patsy holds what each factor gives, a copy of it and the matrix at the same time. Terms are
made a few at a time into one array instead. Each is still made of all rows, because a formula
may name functions that look at all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment

from mixreg.errors import InputError, InputWarning, warn
from mixreg.table.columns import CURES, bare_name, is_switch, names_in
from mixreg.table.recipe import KEEP_MISSING

Array = NDArray[np.float64]

# Designs up to this size are made at once; of larger ones, terms of so large a share.
AT_ONCE_BYTES, SHARE = 16_000_000, 0.05
# Texts that are numbers, maybe with signs of money, shares or thousands; a column whose levels
# are such texts, up to one of them or a share of them, is likely a number.
NUMBER = re.compile(
    r"\s*[-+(]?\s*(?:[$€£¥₹]|[A-Z]{3}\s)?\s*[-+]?[\d.,]*\d[\d., ']*(?:[eE][-+]?\d+)?"
    r"\s*(?:[%$€£¥₹)]|[A-Z]{3})?\s*"
)
MOSTLY = 0.8
LONGEST_NUMBER = 60
# Texts that begin as a date does; a few dates, as those of waves of a study, may be a category.
DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")
MANY_DATES = 5


@dataclass(frozen=True)
class KeptRows:
    """Columns of a table at the rows that are kept.

    Attributes
    ----------
    frame : DataFrame
    kept : (rows,) bool array
    yes_no : frozenset of str
        Columns of yes and no that are wanted as numbers.
    """

    frame: pd.DataFrame
    kept: NDArray[np.bool_]
    yes_no: frozenset[str] = frozenset()

    @property
    def index(self) -> pd.Index:
        """Labels of the rows."""
        return self.frame.index if self.kept.all() else self.frame.index[self.kept]

    def columns(self, names: Any) -> pd.DataFrame:
        """Those of the named columns that there are; not copied if all rows are kept."""
        there = {name: self._column(name) for name in self.frame.columns if name in names}
        return pd.DataFrame(there, index=self.index, copy=False)

    def with_used_levels(self) -> tuple[KeptRows, dict[str, tuple[str, ...]]]:
        """The same without the levels of categories that none of the rows has, and those."""
        changes, dropped = {}, {}
        for name, dtype in self.frame.dtypes.items():
            if not isinstance(dtype, pd.CategoricalDtype):
                continue
            codes = np.unique(self.frame[name].cat.codes.to_numpy()[self.kept])
            unused = dtype.categories.delete(codes[codes >= 0])
            if len(unused):
                # `remove_categories` would sort those that are left.
                used = dtype.categories.take(codes[codes >= 0])
                changes[name] = self.frame[name].cat.set_categories(used)
                dropped[str(name)] = tuple(map(str, unused))
        return (replace(self, frame=self.frame.assign(**changes)) if changes else self), dropped

    def _column(self, name: Any) -> pd.Series:
        values = self.frame[name]
        values = values if self.kept.all() else values[self.kept]
        if name in self.yes_no:
            return values.astype(float)
        # Yes and no with missing values are objects; those that are left are none.
        odd = pd.api.types.is_object_dtype(values.dtype) and len(values) < len(self.kept)
        return values.astype(bool) if odd and is_switch(values) else values


def without_missing(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Rows at which no column is missing."""
    good = np.ones(len(frame), dtype=bool)
    for name in frame.columns:
        good &= frame[name].notna().to_numpy()
    return good


def learn(formula: str, rows: KeptRows, environment: EvalEnvironment) -> tuple[Any, Any]:
    """Both sides of a formula as patsy has them after it has seen the data."""
    frame = rows.columns(rows.frame.columns)
    left, right = patsy.incr_dbuilders(formula, lambda: iter([frame]), environment, KEEP_MISSING)
    check_levels(frame, left, right)
    return left, right


def check_levels(frame: pd.DataFrame | None, *sides: Any) -> None:
    """Refuse what a transform leaves without a category: patsy takes it for one.

    Warn of texts that are numbers in other words, or dates; columns of categories are meant so.
    """
    for factor, info in ((f, i) for side in sides for f, i in side.factor_infos.items()):
        if info.type != "categorical":
            continue
        if pd.isna(list(info.categories)).any():
            raise InputError(
                f"{factor.name()} is missing in some rows; fill them, or drop the rows first"
            )
        name = bare_name(factor.code)
        dtype = None if frame is None or name not in frame.columns else frame[name].dtype
        if name is not None and not isinstance(dtype, pd.CategoricalDtype):
            _warn_of_numbers(name, factor.code, info.categories)
            _warn_of_dates(name, factor.code, info.categories)


def _warn_of_numbers(name: Any, code: str, levels: Sequence[Any]) -> None:
    """Warn of a text column whose levels look like numbers, as "3" and "$3.50" do."""
    texts = [level for level in levels if isinstance(level, str)]
    alike = [text for text in texts if _like_number(text)]
    if len(alike) < 2 or len(texts) - len(alike) > max(1.0, (1 - MOSTLY) * len(texts)):
        return
    odd = next((text for text in texts if not _like_number(text)), None)
    shown = f"such as {alike[0]!r}" + ("" if odd is None else f", and {odd!r}")
    warn(
        f"column {name!r} is text, so it becomes a category with {len(levels)} levels, but they "
        f"look like numbers ({shown}). Read it as numbers: decimal= and thousands= of pd.read_csv "
        "say which signs stand before decimals and between thousands, as decimal=',' and "
        "thousands='.'; signs of money and of per cent have to be taken out first. If it is a "
        f"category, write C({code})",
        InputWarning,
    )


def _like_number(text: str) -> bool:
    """Whether a text is a number in other words; the pattern takes long on long texts."""
    return len(text) <= LONGEST_NUMBER and NUMBER.fullmatch(text) is not None


def _warn_of_dates(name: Any, code: str, levels: Sequence[Any]) -> None:
    """Warn of a text column whose levels are dates, as pandas.read_csv leaves them."""
    dates = [level for level in levels if isinstance(level, str) and DATE.match(level)]
    if len(dates) < MANY_DATES or len(dates) < MOSTLY * len(levels):
        return
    warn(
        f"column {name!r} is text, so it becomes a category with {len(levels)} levels, but they "
        f"look like dates (such as {dates[0]!r}). Turn it into dates with "
        f"date = pd.to_datetime(data[{name!r}]); {CURES['dates'].format(code)}",
        InputWarning,
    )


def make(left: Any, right: Any, rows: KeptRows) -> tuple[Array, Array]:
    """The columns of both sides."""
    length, width = len(rows.index), len(right.column_names)
    if 8 * length * width <= AT_ONCE_BYTES:
        made = _built([left, right], rows.columns(rows.frame.columns))
        if len(made[1]) < length:
            check_lengths(right, rows)
        return made[0], made[1]
    x, first = np.empty((length, width)), 0
    for info in _shares(right, SHARE * width):
        last = first + len(info.column_names)
        _fill(x[:, first:last], info, rows)
        first = last
    return _built([left], rows.columns(_names(left)))[0], x


def check_lengths(info: Any, rows: KeptRows) -> None:
    """Refuse terms that have no category in some rows: patsy leaves these out."""
    for one in _shares(info, 0.0):
        _fill(np.empty((len(rows.index), len(one.column_names))), one, rows)


def no_category(terms: str, rows: int) -> InputError:
    """Say that terms have no category in so many rows."""
    return InputError(f"{terms} has no category in {rows} rows; fill or drop them")


def _fill(x: Array, info: Any, rows: KeptRows) -> None:
    """Make some terms and put them where they belong."""
    part = _built([info], rows.columns(_names(info)))[0]
    if len(part) < len(x) and info.factor_infos:
        raise no_category(", ".join(info.term_names), len(x) - len(part))
    x[:] = part


def _built(infos: list[Any], frame: pd.DataFrame) -> list[Array]:
    made = patsy.build_design_matrices(infos, frame, NA_action=KEEP_MISSING)
    return [np.asarray(each, dtype=float) for each in made]


def _shares(info: Any, width: float) -> Iterator[Any]:
    """Terms in turn, one or as many as have so many columns."""
    some: list[Any] = []
    columns = 0
    for term, where in info.term_slices.items():
        if some and columns + where.stop - where.start > width:
            yield info.subset(some)
            some, columns = [], 0
        some.append(term)
        columns += where.stop - where.start
    if some:
        yield info.subset(some)


def _names(info: Any) -> set[str]:
    """Variables that the terms mention."""
    return {name for factor in info.factor_infos for name in names_in(factor.code)}
