"""Marginal effects: how the expected response changes with a variable, with errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from mixreg.errors import InputError, NotAvailableError
from mixreg.report.base_results import BaseResults
from mixreg.report.changes import Change, changes, levels_of, made, values_of
from mixreg.report.intervals import own_gate, shares, spread_out, standard_errors
from mixreg.report.own_table import own_table
from mixreg.report.prediction import NewRows, own_rows, read_new
from mixreg.report.row_facts import read_rows
from mixreg.report.surfaces import surface, switched
from mixreg.report.tidy import check_level
from mixreg.sources import unit_weights
from mixreg.table.columns import as_frame

Array = NDArray[np.float64]

AT = ("overall", "mean")
# A step along the concomitants, in units of class utilities.
GATE_STEP = 1e-3


@dataclass(frozen=True, eq=False)
class Effect:
    """Effects of one change on one response, averaged over rows.

    Attributes
    ----------
    values : (k + 1,) array
        In each component, and overall.
    gradients : (k + 1, size) array
        Their derivatives in all parameters.
    """

    values: Array
    gradients: Array


def margins(
    res: BaseResults, data: Any, at: str, variables: Any, conf_level: float, columns: dict[str, Any]
) -> pd.DataFrame:
    """Marginal effects; see `MixRegResults.margins`."""
    level = check_level(conf_level)
    if at not in AT:
        raise InputError(f"at={at!r} is unknown; use one of {', '.join(AT)}")
    if at == "mean" and res.spec.family.takes_sets:
        raise NotAvailableError(
            "an average alternative is in no choice set; use at='overall' with family='choice'"
        )
    frame, rows, weight = _own(res) if data is None else _read(res, data, columns)
    reach = _reach(res, frame)
    if variables is None and res.spec.design.right is None and len(res.spec.responses) == 1:
        # A column of ones is no variable.
        variables = [name for name, (_, low, _) in reach.items() if np.isfinite(low)]
    if at == "mean":
        frame = _levelled(res, frame, weight)
        rows = _remade(res, rows, frame)
    found: list[dict[str, Any]] = []
    for change in changes(res, frame, variables, reach):
        near, here = (change, rows) if at == "overall" else _averaged(change, rows, weight)
        share = weight / weight.sum() if at == "overall" else np.ones(1)
        found += list(_table_rows(res, near, here, share))
    return _table(res, found, level)


def _own(res: BaseResults) -> tuple[Any, NewRows, Array]:
    """The model's own rows: their variables, as far as regressors tell them, and weights."""
    rows = own_rows(res)
    rows.z = own_gate(res)
    frame = own_table(res, [part.x for part in rows.parts], rows.z)
    weight = res.along_rows(unit_weights(res.model.source))
    good = weight > 0
    return frame[good], rows.some(good), weight[good]


def _remade(res: BaseResults, rows: NewRows, frame: Any) -> NewRows:
    """The same rows with the regressors and concomitants of another table."""
    x, z = made(res, frame)
    new = rows.some(slice(None))
    for part, columns in zip(new.parts, x, strict=True):
        part.x = columns
    new.z = None if rows.z is None else z
    return new


def _read(res: BaseResults, data: Any, columns: dict[str, Any]) -> tuple[Any, NewRows, Array]:
    """A table without rows that lack something, the rows it gives, and their weights."""
    given = read_new(res, data)
    frame = given if isinstance(given, np.ndarray) else as_frame(given)
    rows = read_rows(res, frame, columns, "mean")
    good = _whole(rows)
    if not good.any():
        raise InputError("data has no row without missing values; margins need some")
    weight = np.ones(len(good))
    name = res.spec.responses[0].names.get("weights")
    if isinstance(frame, pd.DataFrame) and isinstance(name, str) and name in frame.columns:
        weight = frame[name].to_numpy(dtype=float)
    good &= weight > 0
    return frame[good], rows.some(good), weight[good]


def _whole(rows: NewRows) -> NDArray[np.bool_]:
    """Rows that lack nothing; of choices, sets that do."""
    good = rows.good
    for part in rows.parts:
        good = good if part.offset is None else good & np.isfinite(part.offset)
    good = good if rows.z is None else good & np.isfinite(rows.z).all(axis=1)
    return good if rows.sets is None else ~np.isin(rows.sets, rows.sets[~good])


def _reach(res: BaseResults, frame: Any) -> dict[str, tuple[float, float, float]]:
    """Spread, smallest and largest value of every number."""
    found = {}
    for name, levels in levels_of(res.spec).items():
        if levels is None:
            value = values_of(res, frame, name)
            spread, low, high = float(value.std()), float(value.min()), float(value.max())
            fixed = spread < 1e-12 * max(abs(low), abs(high), 1e-300)
            size = max(abs(low), 1.0)
            found[name] = (size, -np.inf, np.inf) if fixed else (spread, low, high)
    return found


def _levelled(res: BaseResults, frame: Any, weight: Array) -> Any:
    """The table with the mean of every number in all rows; categories stay."""
    out = frame.copy()
    for name, levels in levels_of(res.spec).items():
        if levels is None and isinstance(out, np.ndarray):
            at = res.spec.exog_names.index(name)
            out[:, at] = np.average(out[:, at], weights=weight)
        elif levels is None:
            out[name] = np.average(values_of(res, out, name), weights=weight)
    return out


def _averaged(change: Change, rows: NewRows, weight: Array) -> tuple[Change, NewRows]:
    """Rows, and a change at them, as one average row: categories become their shares."""

    def mean(values: Any) -> Any:
        if values is None or isinstance(values, tuple):
            return None if values is None else tuple(map(mean, values))
        return np.average(values, axis=0, weights=weight)[None]

    one = rows.some(slice(0, 1))
    for part, new in zip(rows.parts, one.parts, strict=True):
        new.x, new.offset = mean(part.x), mean(part.offset)
    one.z = mean(rows.z)
    x = [mean(each) for each in change.x]
    return Change(change.variable, change.contrast, x, mean(change.z), change.discrete), one


def _table_rows(
    res: BaseResults, change: Change, rows: NewRows, share: Array
) -> Iterator[dict[str, Any]]:
    """Effects on each response, in each component and overall."""
    names = [*res.components, "overall"]
    for i, response in enumerate(res.spec.responses):
        effect = effect_of(res, change, rows, i, share)
        errors = standard_errors(res, effect.gradients)
        for name, value, error in zip(names, effect.values, errors, strict=True):
            yield {
                "component": name,
                "response": response.name,
                "variable": change.variable,
                "contrast": change.contrast,
                "estimate": float(value),
                "std_error": float(error),
            }


def effect_of(
    res: BaseResults, change: Change, rows: NewRows, response: int, share: Array
) -> Effect:
    """The effect of a change on a response, averaged over rows with weights that add up to 1."""
    layout, size = res.spec.layout, res.spec.layout.size
    asked = res.spec.responses[response]
    index = layout.coef_index()[:, asked.columns]
    each = [_in_component(res, change, rows, response, j) for j in range(res.k)]
    values = [share @ effect for effect, *_ in each]
    gradients = [
        spread_out((share @ slope)[None], at, size)[0]
        for at, (_, slope, *_) in zip(index, each, strict=True)
    ]
    total, gradient = _overall(res, change, rows, each, index, share)
    return Effect(np.array([*values, total]), np.array([*gradients, gradient]))


def _in_component(
    res: BaseResults, change: Change, rows: NewRows, response: int, j: int
) -> tuple[Any, ...]:
    """Effects on rows in one component and their gradients; means before and after, likewise."""
    asked, part = res.spec.responses[response], rows.parts[response]
    coef = res.fitted.estimate.params.coef[j, asked.columns]
    given = (asked.family, part.x, part.offset, rows.sets, coef)
    if change.discrete:
        before, first = switched(*given, change.x[response][0])
        after, last = switched(*given, change.x[response][1])
        return after - before, last - first, (before, first), (after, last)
    at = surface(*given)
    moved = change.x[response]
    along = moved @ coef
    slope = (at.curve * along)[:, None] * at.x + at.slope[:, None] * moved
    both = (at.mean, at.gradient)
    return at.slope * along, slope, both, both


def _overall(
    res: BaseResults,
    change: Change,
    rows: NewRows,
    each: list[tuple[Any, ...]],
    index: NDArray[np.intp],
    share: Array,
) -> tuple[float, Array]:
    """Components weighted by class probabilities, which may change as well."""
    parts = list(_weighted(res, change, rows, each))
    value, gradient = 0.0, np.zeros(res.spec.layout.size)
    gate = res.spec.layout.gating_index()
    for (prior, slopes), means in parts:
        for j, (mean, slope) in enumerate(means):
            value += float(share @ (prior[j] * mean))
            weighted = ((share * prior[j]) @ slope)[None]
            gradient += spread_out(weighted, index[j], res.spec.layout.size)[0]
            gradient[gate] += (share * mean) @ slopes[j]
    return value, gradient


def _weighted(
    res: BaseResults, change: Change, rows: NewRows, each: list[tuple[Any, ...]]
) -> Iterator[tuple[tuple[Array, Array], list[tuple[Array, Array]]]]:
    """Class probabilities, or their change, and what they are to be multiplied with."""
    n = len(rows)
    effects = [(effect, slope) for effect, slope, *_ in each]
    if change.z is None or rows.z is None:
        yield shares(res, rows.z, n), effects
        return
    if change.discrete:
        z0, z1 = change.z
        yield shares(res, z1, n), [after for *_, after in each]
        before, slopes = shares(res, z0, n)
        yield (-before, -slopes), [first for _, _, first, _ in each]
        return
    yield shares(res, rows.z, n), effects
    yield _moving_shares(res, rows.z, change.z), [before for _, _, before, _ in each]


def _moving_shares(res: BaseResults, z: Array, dz: Array) -> tuple[Array, Array]:
    """Derivatives of class probabilities, and of their slopes, along a change of concomitants."""
    utility = np.abs(res.fitted.estimate.params.gating @ dz.T).max()
    h = GATE_STEP / max(float(utility), float(np.abs(dz).max()), 1e-300)
    found = [shares(res, z + step * h * dz, len(z)) for step in (-2, -1, 1, 2)]
    weights = np.array([1, -8, 8, -1]) / (12 * h)
    priors, slopes = (np.array(parts) for parts in zip(*found, strict=True))
    return np.tensordot(weights, priors, 1), np.tensordot(weights, slopes, 1)


def _table(res: BaseResults, found: list[dict[str, Any]], level: float) -> pd.DataFrame:
    table = pd.DataFrame(found)
    if len(res.spec.responses) == 1:
        table = table.drop(columns="response")
    error = table["std_error"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(np.isinf(error), np.nan, table["estimate"].to_numpy() / error)
    half = norm.isf((1 - level) / 2) * error
    return table.assign(
        z=z,
        p_value=2 * norm.sf(np.abs(z)),
        conf_low=table["estimate"] - half,
        conf_high=table["estimate"] + half,
    )
