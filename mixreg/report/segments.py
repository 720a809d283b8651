"""What the segments are: their size, who is in them, how sure that is, what they care about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from mixreg.errors import InputError
from mixreg.report.base_results import BaseResults
from mixreg.report.beside import aligned, has_labels
from mixreg.report.elasticities import log_terms
from mixreg.report.given_rows import on_rows
from mixreg.report.html.markup import tag
from mixreg.sources import unit_weights

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
# What pandas calls objects that are points or spans of time.
DATES = frozenset({"date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period"})
# Components with a smaller share of the units have nobody in them.
NOBODY = 1e-6
MOST_LEVELS = 100  # a text column with more names its rows; it does not describe them
TESTS = "test", "statistic", "df", "df_resid", "p value", "effect size", "units", "missing"


def _short(number: float) -> str:
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e9 else f"{number:.4g}"


LAYOUT = {"float_format": _short, "na_rep": "-"}


class _Report:
    """Tables with headings, as text and as HTML."""

    def _parts(self) -> list[tuple[str, pd.DataFrame]]:
        raise NotImplementedError

    def __repr__(self) -> str:
        """The tables as text."""
        return "\n\n".join(f"{head}\n{t.to_string(**LAYOUT)}" for head, t in self._parts())

    def _repr_html_(self) -> str:
        return "\n".join(f"{tag('p', head)}{t.to_html(**LAYOUT)}" for head, t in self._parts())


@dataclass(frozen=True, eq=False, repr=False)
class SegmentProfile(_Report):
    """Segments described by variables; see `profile`.

    Attributes
    ----------
    table : DataFrame
        (variable, level) x components and "overall". The levels of a number
        are "mean" and "sd"; those of a category hold shares.
    tests : DataFrame
        By variable: test, statistic, df, df_resid, p value, effect size (eta²
        or Cramér's V), units used (without those labelled as background), values missing.
    left_out : tuple of str
        Columns of dates and durations, which have neither means nor shares.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> tone = datasets.tonedata()
    >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
    >>> profile = res.profile(tone)
    >>> profile.table.index.tolist()
    [('stretchratio', 'mean'), ('stretchratio', 'sd'), ('tuned', 'mean'), ('tuned', 'sd')]
    >>> profile.tests["units"].tolist()
    [150, 150]
    """

    table: pd.DataFrame
    tests: pd.DataFrame
    left_out: tuple[str, ...] = ()

    def _parts(self) -> list[tuple[str, pd.DataFrame]]:
        note = (
            "Tests (units weighted by their posterior, as in the profile); effect size is eta² for "
            "F, Cramér's V for chi-square"
        )
        dates = f" (dates left out: {', '.join(self.left_out)})" if self.left_out else ""
        return [(f"Profile of the segments{dates}", self.table), (note, self.tests)]


@dataclass(frozen=True, eq=False, repr=False)
class Classification(_Report):
    """How well units can be told apart; see `classification`.

    Attributes
    ----------
    table : DataFrame
        Average posterior, assigned component x component.
    errors : DataFrame
        P(assigned | component), component x assigned component.
    counts : Series
        Units assigned to each component, counted with their case weights.
    misclassification : float
        Share of units expected to have a wrong label.
    entropy_r2 : float
        1 is certain, 0 is a guess.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
    >>> found = res.classification()
    >>> found.counts.to_dict()
    {1: 92, 2: 58}
    >>> found.errors.round(2).to_numpy().tolist()
    [[0.97, 0.03], [0.01, 0.99]]
    """

    table: pd.DataFrame
    errors: pd.DataFrame
    counts: pd.Series
    misclassification: float
    entropy_r2: float

    @property
    def by_assigned(self) -> pd.Series:
        """Share expected to be wrong, among the units assigned to each component.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.classification().by_assigned.round(3).tolist()
        [0.008, 0.051]
        """
        return pd.Series(1 - np.diag(self.table), self.table.index, name="error")

    @property
    def by_component(self) -> pd.Series:
        """Share expected to be assigned elsewhere, among the members of each component.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.classification().by_component.round(3).tolist()
        [0.031, 0.013]
        """
        return pd.Series(1 - np.diag(self.errors), self.errors.index, name="error")

    def _parts(self) -> list[tuple[str, pd.DataFrame]]:
        wrong, r2 = f"{self.misclassification:.2%}", f"{self.entropy_r2:.3f}"
        head = f"Expected misclassification {wrong}, entropy R² {r2}\nAverage posterior"
        table = self.table.assign(error=self.by_assigned).round(4)
        errors = self.errors.assign(error=self.by_component).round(4)
        return [(head, table.assign(units=self.counts)), ("P(assigned | component)", errors)]


class _Members(NamedTuple):
    """Who belongs where; a unit is a row, or a group where there are groups."""

    ids: pd.Index  # components; 0 at the end where the model has noise
    posterior: Array  # (units, ids)
    background: Mask  # (units,), those whose label is 0
    weight: NDArray[Any]  # (units,), whole numbers where no weights were given

    def share(self, there: Mask) -> Array:
        """How much some units count in each component that anybody is in, (units, components)."""
        own = self.posterior[:, self.ids != 0] * self.weight[:, None]
        held = own.sum(axis=0) > NOBODY * self.weight.sum()
        return np.asarray(own[there][:, held])


def segments(res: BaseResults) -> pd.DataFrame:
    """One row a segment: how large, how certain, and its coefficients.

    Returns
    -------
    DataFrame by component. Units (groups where there are groups, else rows) are
    assigned to their most likely component: `size` counts them with their case
    weights, `rows` counts their rows, `share` is their share of all units, and
    `certainty` their average posterior. `mixing weight` is what the model estimates
    of the share, without assigning anybody. Then follow the
    coefficients ("coef size" where a term has the name of a column above).
    Where the response is a log or the link is one, a regressor `np.log(price)`
    has a column "elasticity of price", unless it is in another term as well:
    then its elasticity is not one number. Noise is the last row, 0: its rows are in no segment.
    """
    tally, ids = res.fitted.tally, pd.Index(res.spec.classes, name="component")
    size = tally.assigned
    frame = pd.DataFrame(
        {
            "size": size,
            "rows": tally.rows,
            "share": size / size.sum(),
            "mixing weight": res.weights.reindex(ids),
            "certainty": _ratio(np.diag(tally.joint), size),
        },
        ids,
    )
    coef = res.coefficients.T.reindex(ids).rename_axis(columns=None)
    for name, inner in log_terms(res).items():
        coef[f"elasticity of {inner}"] = coef[name]
    coef.columns = pd.Index([f"coef {c}" if c in frame.columns else c for c in coef.columns])
    return pd.concat([frame, coef], axis=1)


def profile(res: BaseResults, data: Any) -> SegmentProfile:
    """Describe the segments by variables, mostly ones that were not in the model.

    Parameters
    ----------
    data : DataFrame, another table, or files
        Of a model with groups: one row a group, or all rows of the groups, and the
        column that names the groups, or a level of the index that has its name. Rows
        of other groups are left out, and groups that are not there are warned of.
        Else, matched by its index: the rows of the data that the model was fitted on,
        or one row a group under the names of groups. Row numbers (a RangeIndex) are
        matched with row numbers only. Of a fit whose rows are gone and that has no
        groups, rows have all columns of the model, by which they are labelled.

    Notes
    -----
    Means, standard deviations (divided by the sum of weights) and shares are
    weighted by the posterior and by case weights. Across the components,
    noise left out, numbers are compared by one-way ANOVA with eta², categories
    by the chi-square test with Cramér's V. These tests weight units in the same
    way: a unit counts in each component with its posterior. They take the posterior
    for known, so they are approximate.

    A group counts as one: a number is averaged over its rows, a category is
    spread over the levels of its rows, and where that varies within groups
    the chi-square test is on the safe side. The column that names the groups
    is left out, and so are dates and durations (`left_out`): make numbers of them,
    such as the month. Missing values are dropped by variable.
    """
    if not (res.model.has_rows or has_labels(res)):
        res = on_rows(res, data)
    members = _members(res)
    frame, unit = aligned(res, data)
    frame, left_out = _without_dates(frame)
    tables, tests = [], {}
    for name in frame.columns:
        values, levels = _matrix(frame[name])
        if unit is not None:
            units = range(len(members.weight))
            values = pd.DataFrame(values).groupby(unit).mean().reindex(units).to_numpy()
        there = ~np.isnan(values[:, 0])
        described = _describe(values[there], members, there, levels is None)
        index = pd.MultiIndex.from_product([[name], levels or ["mean", "sd"]])
        tables.append(pd.DataFrame(described, index, [*members.ids, "overall"]))
        test = (_anova if levels is None else _chi_square)(values[there], members.share(there))
        used = int((there & ~members.background).sum())
        tests[name] = [*test, used, int(frame[name].isna().sum())]
    tested = pd.DataFrame.from_dict(tests, orient="index", columns=TESTS)
    table = pd.concat(tables).rename_axis(index=["variable", "level"])
    return SegmentProfile(table, tested.rename_axis(index="variable"), left_out)


def classification(res: BaseResults) -> Classification:
    """How far the labels can be trusted.

    A unit (a group where there are groups, else a row) is assigned to its most
    probable component, and is wrong with one minus that probability. Averages
    of the posterior over the units assigned to a component make `table`; by
    Bayes' rule they also tell where the members of a component end up, which
    is `errors`, the matrix that three-step methods correct for. Units count
    with their case weights.
    """
    joint, counts = res.fitted.tally.joint, res.fitted.tally.assigned
    rows, columns = (pd.Index(res.spec.classes, name=name) for name in ("assigned", "component"))
    return Classification(
        pd.DataFrame(_ratio(joint, counts[:, None]), rows, columns),
        pd.DataFrame(_ratio(joint, joint.sum(axis=0)).T, columns, rows),
        pd.Series(counts, rows, name="units"),
        max(0.0, 1 - float(np.trace(joint) / counts.sum())),
        res.entropy_r2,
    )


def _members(res: BaseResults) -> _Members:
    grouped = res.ngroups is not None
    labels = np.asarray(res.group_labels if grouped else res.labels)
    ids = list(res.components)
    posterior = np.asarray((res.group_posterior if grouped else res.posterior)[ids])
    if res.spec.noise:
        ids = [*ids, 0]
        posterior = np.column_stack([posterior, np.clip(1 - posterior.sum(axis=1), 0, 1)])
    weight = np.ones(len(labels), dtype=int)
    if res.fitted.tally.weighted:
        weight = unit_weights(res.model.source)
    return _Members(pd.Index(ids, name="component"), posterior, labels == 0, weight)


def _without_dates(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Columns that have means or shares, and the names of those that are dates or durations."""
    dates = tuple(name for name in frame.columns if _is_date(frame[name]))
    if len(dates) == len(frame.columns):
        raise InputError(
            f"data has nothing but dates: {', '.join(dates)}; turn them into numbers, as with "
            f"data[{dates[0]!r}].dt.month"
        )
    return frame.drop(columns=list(dates)), dates


def _is_date(column: pd.Series) -> bool:
    dtype = column.dtype
    if getattr(dtype, "kind", "O") in "mM" or isinstance(dtype, pd.PeriodDtype):
        return True
    return pd.api.types.is_object_dtype(dtype) and pd.api.types.infer_dtype(column) in DATES


def _matrix(column: pd.Series) -> tuple[Array, list[str] | None]:
    """Values as columns: one for a number, one a level for a category; NaN where missing."""
    dtype, name, count = column.dtype, column.name, column.nunique()
    if count == 0:
        raise InputError(f"column {name!r} has no value in the rows of the model; drop it")
    if getattr(dtype, "kind", "O") == "c":
        raise InputError(f"column {name!r} holds {dtype}; turn it into numbers, or drop it")
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype):
        values = column.to_numpy(dtype=float)[:, None]
        if np.isinf(values).any():
            raise InputError(f"column {name!r} has infinite values; correct them, or drop it")
        return values, None
    if count > MOST_LEVELS:
        raise InputError(f"column {name!r} has {count} levels; drop it, or make wider categories")
    category = pd.Categorical(column).remove_unused_categories()
    values = np.eye(count)[category.codes]
    values[category.codes < 0] = np.nan
    return values, [str(level) for level in category.categories]


def _describe(values: Array, members: _Members, there: Mask, number: bool) -> Array:
    """Means by component and overall, weighted by the posterior; for a number, sds as well."""
    weight = members.weight[there]
    share = np.column_stack([members.posterior[there] * weight[:, None], weight])
    total = share.sum(axis=0)
    means = _ratio(values.T @ share, total)
    if not number:
        return means
    return np.vstack([means, np.sqrt(_ratio((share * (values - means) ** 2).sum(axis=0), total))])


def _anova(values: Array, share: Array) -> list[Any]:
    """One-way analysis of variance; a unit counts in each component with its share."""
    size, weight = share.sum(axis=0), share.sum(axis=1)
    df, df_resid = len(size) - 1, size.sum() - len(size)
    if df < 1 or df_resid <= 0:
        return ["F", *[np.nan] * 5]
    number = values[:, 0] - values[:, 0] @ weight / weight.sum()
    within = number[:, None] - number @ share / size
    total, rest = weight @ number**2, (share * within**2).sum()
    floor = 1e-28 * (weight @ values[:, 0] ** 2)  # what rounding leaves of a constant
    if total <= floor:
        return ["F", np.nan, df, df_resid, np.nan, np.nan]
    f = np.inf if rest <= floor else (total - rest) / df / (rest / df_resid)
    return ["F", f, df, df_resid, float(stats.f.sf(f, df, df_resid)), 1 - rest / total]


def _chi_square(values: Array, share: Array) -> list[Any]:
    """Test of independence of levels and components; a unit counts with its shares."""
    counts = share.T @ values
    counts = counts[:, counts.any(axis=0)]
    smaller = min(counts.shape) - 1
    if smaller < 1:
        return ["chi-square", *[np.nan] * 5]
    test = stats.chi2_contingency(counts, correction=False)
    effect = float(np.sqrt(test.statistic / counts.sum() / smaller))
    return ["chi-square", test.statistic, test.dof, np.nan, test.pvalue, effect]


def _ratio(above: NDArray[Any], below: NDArray[Any]) -> Array:
    """Quotients, NaN where nothing is below."""
    out = np.full(np.broadcast_shapes(above.shape, below.shape), np.nan)
    return np.divide(above, below, out=out, where=below > 0)
