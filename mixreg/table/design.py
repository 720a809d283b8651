"""From formulas and tables to arrays, and the same way again for new data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment

from mixreg.errors import InputError
from mixreg.table import frames
from mixreg.table.columns import (
    as_floats,
    as_frame,
    as_matrix,
    as_numbers,
    as_vector,
    codes_of,
    column_names,
    formula_names,
    plain,
    refuse_cost,
    refuse_times,
    without_intercept,
    without_nan,
)
from mixreg.table.functions import evaluating
from mixreg.table.making import KeptRows, learn, make, without_missing
from mixreg.table.recipe import KEEP_MISSING, Recipe, evaluation, make_recipe
from mixreg.table.table import Table, finish, missing_counts, nan_counts, refuse_missing
from mixreg.table.units import plain_value

Array = NDArray[np.float64]

# Which of two answers is meant by 1.
YES = frozenset({"yes", "y", "true", "t", "1", "ja", "oui", "si", "sí", "sim", "bought", "success"})


@dataclass(frozen=True, slots=True)
class Design:
    """How columns are made.

    Attributes
    ----------
    terms : tuple of str
        Names of the regressors.
    response : str
        Name of the response.
    formula : str or None
        None when arrays were given.
    left, right : Recipe or None
        How both sides are made, with what was learnt from the data.
    left_columns, right_columns : frozenset of str
        Columns of a table that each side is made of.
    slices : dict
        Columns of each term, where they are not patsy's.
    unused : dict
        Levels of categories that no row has which is used, by column; they were dropped.
    """

    terms: tuple[str, ...]
    response: str
    formula: str | None = None
    left: Recipe | None = None
    right: Recipe | None = None
    left_columns: frozenset[str] = frozenset()
    right_columns: frozenset[str] = frozenset()
    slices: dict[str, slice] = field(default_factory=dict)
    unused: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def term_slices(self) -> dict[str, slice]:
        """Columns of each term of a formula."""
        return self.slices if self.right is None else dict(self.right.info.term_name_slices)

    @property
    def codes(self) -> list[str]:
        """The factors of a formula, of both sides."""
        sides = [side for side in (self.left, self.right) if side is not None]
        return [factor.code for side in sides for factor in side.factors]

    def regressors(self, data: Any) -> tuple[Array, pd.Index]:
        """Regressors of new data, by the same transforms; missing values give NaN."""
        if self.right is None:
            return as_matrix(data, self.terms)
        frame = as_frame(data)
        x = self._transform(self.right, frame, self.right_columns, len(self.terms))
        return x, frame.index

    def responses(self, data: Any) -> Array | None:
        """Responses of new data, or None where they are not there."""
        if self.left is None:
            if isinstance(data, pd.DataFrame) and self.response in data.columns:
                return as_vector(data[self.response], self.response)
            return None
        frame = as_frame(data)
        if not self.left_columns or not self.left_columns <= set(frame.columns):
            return None
        width = len(self.left.names)
        values = self._transform(self.left, self._numbers(frame), self.left_columns, width)
        if width == 1:
            return values[:, 0]
        total = values.sum(axis=1)
        return np.divide(values[:, 0], total, out=np.full(len(total), np.nan), where=total > 0)

    def trials(self, data: Any) -> Array | None:
        """Trials of new data where the response is 'successes + failures'."""
        if self.left is None or len(self.left.names) == 1:
            return None
        frame = as_frame(data)
        if not self.left_columns <= set(frame.columns):
            return None
        both = self._transform(self.left, self._numbers(frame), self.left_columns, 2)
        return np.asarray(both.sum(axis=1))

    def _numbers(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Columns of yes and no that a response is made of as numbers, as in the fit."""
        names = yes_no_columns(frame, set(self.left_columns))
        return frame.assign(**{name: as_floats(frame[name]) for name in names})

    def _transform(
        self, recipe: Recipe, frame: pd.DataFrame, columns: frozenset[str], width: int
    ) -> Array:
        """Apply one side's transforms to the rows without missing values."""
        absent = sorted(map(str, columns - set(frame.columns)))
        if absent:
            raise InputError(f"new data lack the columns {', '.join(absent)}")
        frame = plain(frame[[column for column in frame.columns if column in columns]], self.codes)
        good = without_missing(frame)
        out = np.full((len(frame), width), np.nan)
        if not good.any():
            return out
        try:
            rows = KeptRows(frame, good)
            out[good] = recipe.apply(recipe.as_levels(rows.columns(frame.columns)))
        except InputError:
            raise
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"new data do not fit the formula ({error}); check the types of "
                f"{', '.join(sorted(map(str, columns)))}"
            ) from error
        return out


@evaluating()
def from_formula(
    formula: str,
    data: pd.DataFrame | None,
    environment: EvalEnvironment,
    missing: str,
    usable: NDArray[np.bool_] | None,
    *,
    counts: bool = False,
    intercept: bool = True,
) -> tuple[Design, Table]:
    """Build columns from a formula.

    Parameters
    ----------
    formula : str
    data : DataFrame or None
        None looks names up in the environment.
    environment : patsy EvalEnvironment
    missing : {"drop", "raise"}
    usable : (rows,) bool array or None
        Rows whose groups and weights are not missing.
    counts : bool
        Whether the response may be 'successes + failures'.
    intercept : bool
        False leaves the intercept out, and codes categories as if it were there.
    """
    left_names, right_names = formula_names(formula)
    names = left_names | right_names
    columns: tuple[Any, ...] = () if data is None else frames.columns_of(data)
    rows = (
        None
        if data is None
        else _usable_rows(formula, data, left_names, names, environment, missing, usable)
    )
    unused: dict[str, tuple[str, ...]] = {}
    if rows is not None:
        refuse_times(formula, rows.frame)
        rows, unused = rows.with_used_levels()
        refuse_cost(formula, rows.frame, environment)
    with evaluation(columns):
        if rows is None:
            own = of_caller(formula, names, environment)
            left, right = patsy.dmatrices(formula, own, environment, KEEP_MISSING, "dataframe")
            left_info, whole_info, index = left.design_info, right.design_info, left.index
        else:
            (left_info, whole_info), index = learn(formula, rows, environment), rows.index
        check_response(formula, left_info, counts)
        right_info = whole_info if intercept else without_intercept(whole_info)
        if rows is not None:
            left, right = make(left_info, right_info, rows)
    inside = column_like(names, environment) if rows is None else set(rows.frame.columns)
    design = replace(
        make_design(formula, left_info, right_info, left_names & inside, right_names & inside),
        unused=unused,
    )
    x = np.asarray(right if rows is not None else right[right_info.column_names], dtype=float)
    y, trials = successes(np.asarray(left, dtype=float), index)
    kept = None if rows is None else rows.kept
    if kept is None:
        kept = np.ones(len(y), dtype=bool) if usable is None else usable
        if len(kept) != len(y):
            raise InputError(
                f"groups, weights or concomitants have length {len(kept)}, but the formula gives "
                f"{len(y)} rows"
            )
        y, x, index = y[kept], x[kept], index[kept]
        trials = None if trials is None else trials[kept]
    return design, finish(
        Table(x, y, index, kept, trials), design.terms, design.response, design.right, missing
    )


def make_design(
    formula: str, left: Any, right: Any, left_names: set[str], right_names: set[str]
) -> Design:
    """A design of what patsy learnt of both sides, and the columns that they are made of."""
    left_columns, right_columns = frozenset(left_names), frozenset(right_names)
    return Design(
        tuple(right.column_names),
        " + ".join(left.column_names),
        formula,
        make_recipe(left, left_columns),
        make_recipe(right, right_columns),
        left_columns,
        right_columns,
    )


def successes(left: Array, index: pd.Index) -> tuple[Array, Array | None]:
    """Response and trials, from one column or from successes and failures."""
    if left.ndim == 1 or left.shape[1] == 1:
        return left.reshape(len(left)), None
    trials = left.sum(axis=1)
    if (left < 0).any() or (trials == 0).any():
        row = int(np.flatnonzero((left < 0).any(axis=1) | (trials == 0))[0])
        raise InputError(
            f"successes and failures are {left[row].tolist()} in row {plain_value(index[row])!r}; "
            "both must be at least 0, and not both 0"
        )
    return left[:, 0] / trials, trials


def _usable_rows(
    formula: str,
    data: pd.DataFrame,
    left_names: set[str],
    names: set[str],
    environment: EvalEnvironment,
    missing: str,
    usable: NDArray[np.bool_] | None,
) -> KeptRows:
    """The columns a formula uses, without the rows that have missing values.

    Rows go before patsy sees them, so that stateful transforms (center, bs)
    learn from the rows that are kept.
    """
    used = [column for column in data.columns if column in names]
    repeated = {str(column) for column in used if used.count(column) > 1}
    if repeated:
        raise InputError(f"data has several columns named {', '.join(sorted(repeated))}")
    own = pd.DataFrame({name: data[name] for name in used}, index=data.index, copy=False)
    frame = plain(with_outside(own, names, environment), codes_of(formula))
    kept = without_missing(frame)
    kept = kept if usable is None else kept & usable
    if missing == "raise":
        refuse_missing(missing_counts(frame), int((~kept).sum()))
    if not kept.any():
        raise InputError(
            "data has no rows left; check that the frame is not empty, and missing values"
        )
    return KeptRows(frame, kept, yes_no_columns(frame, left_names))


def yes_no_columns(frame: pd.DataFrame, names: set[str]) -> frozenset[str]:
    """Those of the named columns that hold yes and no."""
    there = [name for name in frame.columns if name in names]
    return frozenset(n for n in there if pd.api.types.infer_dtype(frame[n]) == "boolean")


def check_response(formula: str, info: Any, counts: bool) -> None:
    """Refuse a left side that is not one number."""
    categorical = any(factor.type == "categorical" for factor in info.factor_infos.values())
    names, (left, _, right) = info.column_names, formula.partition("~")
    left, right = left.strip(), right.strip()
    if len(names) > (2 if counts else 1) and not categorical:
        listed = ", ".join(repr(f"{name} ~ {right}") for name in names[:4])
        raise InputError(
            f"the response {left!r} gives columns {', '.join(names[:4])}; for several responses "
            f"give a list of formulas, [{listed}]. Successes + failures need family='binomial'"
        )
    if len(names) == 0 or categorical:
        raise InputError(
            f"the response {left!r} is not numeric: it holds text or categories, or gives columns "
            f"{', '.join(names[:4])}; {_recoded(left, right, info)}"
        )


def _recoded(left: str, right: str, info: Any) -> str:
    """How to make a number of a response that is none: the line that does it for two levels."""
    (factor,) = info.factor_infos.values() if len(info.factor_infos) == 1 else (None,)
    levels = None if factor is None else factor.categories
    if levels is None or len(levels) != 2:
        return "recode it as one number"
    found = next((level for level in levels if str(level).strip().lower() in YES), levels[1])
    yes = plain_value(found)
    code = left if levels == (False, True) else f"({left} == {yes!r})"
    return f'write the formula as "I(1 * {code}) ~ {right}", which takes {yes!r} for 1'


def column_like(names: set[str], environment: EvalEnvironment) -> set[str]:
    """Names that stand for columns in the caller's environment, not for functions."""
    found = set()
    for name in names:
        try:
            value = environment.namespace[name]
        except KeyError:
            continue
        known = isinstance(value, (pd.Series, np.ndarray, list, pd.Categorical))
        if known or frames.is_column(value):
            found.add(name)
    return found


def of_caller(formula: str, names: set[str], environment: EvalEnvironment) -> dict[str, Any]:
    """The caller's arrays that a formula names, as it takes them, where there is no table."""
    codes, found = codes_of(formula), {}
    for name in column_like(names, environment):
        value = frames.column(environment.namespace[name], name)
        if isinstance(value, pd.Series):
            found[name] = plain(value.to_frame(name), codes)[name]
        elif np.ndim(value) == 1:
            found[name] = plain(pd.DataFrame({name: value}), codes)[name].to_numpy()
        elif isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
            found[name] = value.astype(float)
    return found


def with_outside(
    frame: pd.DataFrame, names: set[str], environment: EvalEnvironment
) -> pd.DataFrame:
    """Bring the caller's arrays into the frame, so that rows are dropped from both."""
    outside = {}
    for name in column_like(names - set(frame.columns), environment):
        value = environment.namespace[name]
        if np.ndim(value) != 1 or len(value) != len(frame):
            continue
        if isinstance(value, pd.Series) and not value.index.equals(frame.index):
            raise InputError(
                f"{name} has another index than data; align it, as with {name}.reindex(data.index)"
            )
        outside[name] = np.asarray(value)
    return frame.assign(**outside) if outside else frame


def from_arrays(
    endog: Any, exog: Any, missing: str, usable: NDArray[np.bool_] | None, counts: bool = False
) -> tuple[Design, Table]:
    """Take columns as they are; two response columns are successes and failures."""
    x, index = as_matrix(exog, None)
    trials = None
    if counts and np.ndim(endog) == 2 and np.shape(endog)[1] == 2:
        y, trials = successes(as_numbers(endog, "endog"), index)
    else:
        y = as_vector(endog, "endog")
    if len(y) != len(x):
        raise InputError(f"endog has length {len(y)}, but exog has {len(x)} rows")
    if isinstance(endog, pd.Series):
        labelled = isinstance(exog, (pd.DataFrame, pd.Series))
        if labelled and not endog.index.equals(exog.index):
            raise InputError(
                "endog and exog have different indexes; align them first, as with "
                "endog.reindex(exog.index)"
            )
        index = endog.index
    terms = column_names(exog, x)
    if len(set(terms)) < len(terms):
        raise InputError(f"exog has columns with the same name: {', '.join(terms)}; rename them")
    response = str(getattr(endog, "name", None) or "y")
    kept = without_nan(x)
    kept &= ~np.isnan(y)
    if usable is not None:
        if len(usable) != len(y):
            raise InputError(
                f"groups, weights or concomitants have length {len(usable)}; endog has {len(y)}"
            )
        kept &= usable
    if missing == "raise":
        refuse_missing(nan_counts(x, y, terms, response), int((~kept).sum()))
    design = Design(terms, response)
    named = getattr(endog, "name", None) in terms
    if named and np.array_equal(x[:, terms.index(response)], y, equal_nan=True):
        raise InputError(
            f"exog has the column {response!r}, which is the response: it cannot explain itself. "
            f"Leave it out, as with exog.drop(columns={response!r})"
        )
    if not kept.all():
        x, y, index = x[kept], y[kept], index[kept]
        trials = None if trials is None else trials[kept]
    return design, finish(
        Table(x, y, index, kept, trials), design.terms, design.response, design.right, missing
    )
