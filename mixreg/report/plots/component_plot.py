"""Data and fitted lines over one regressor; partial residuals where there are several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, NotAvailableError
from mixreg.report.base_results import BaseResults
from mixreg.report.plots.style import caption, dress, legend, look, name, one_axes, sampled
from mixreg.report.row_facts import RowFacts, sampled_facts
from mixreg.table.checks import place_of
from mixreg.table.columns import names_in
from mixreg.table.design import Design
from mixreg.table.responses import Response

Array = NDArray[np.float64]

MOST_ROWS = 3000
GRID = 200
# Rows with less of a component are not drawn as its partial residuals.
LEAST_SHARE = 0.05
# Area of a mark of a row that is certain.
AREA = 26.0


@dataclass(frozen=True, eq=False)
class View:
    """What is drawn over a term, by component.

    Attributes
    ----------
    x : (n,) array
    points : dict of component to (rows, values, sizes)
    grid : (m,) array
    lines : dict of component to (m,) array
    y : str
        Name of the vertical axis.
    note : str
    """

    x: Array
    points: dict[int, tuple[NDArray[np.intp], Array, Array]]
    grid: Array
    lines: dict[int, Array]
    y: str
    note: str


def plot_components(res: BaseResults, term: Any, response: Any, ax: Any) -> Any:
    """Draw the components over a term; see `MixRegResults.plot_components`."""
    if res.spec.family.takes_sets:
        raise NotAvailableError(
            "a choice has no line to draw; use plot_coefficients(), plot_shares(new) or "
            "plot_wtp(price)"
        )
    number, asked = find_response(res, response)
    own = list(range(len(res.spec.exog_names)))[asked.columns]
    facts = sampled_facts(res, MOST_ROWS, own)
    at = find_term(asked, facts.columns, term)
    view = _whole(res, asked, number, facts, at) or _partial(res, asked, number, facts, at)
    ax = one_axes(ax)
    count = _draw(res, view, ax)
    shown = len(view.x)
    notes = [note for note in (view.note, sampled(shown, res.nobs)) if note]
    dress(ax, "Components", name(asked.design.terms[at]), view.y)
    caption(ax, "; ".join(notes))
    legend(ax, count)
    return ax


def find_response(res: BaseResults, response: Any) -> tuple[int, Response]:
    """One of the responses, by its name; the first if left out."""
    names = res.spec.response_names
    number = 0 if response is None else place_of("response", response, names, "responses")
    return number, res.spec.responses[number]


def find_term(asked: Response, columns: Array, term: Any) -> int:
    """Where a term is among the regressors; if left out, the first that is no dummy."""
    terms = asked.design.terms
    if term is None:
        varies = np.flatnonzero(np.ptp(columns, axis=1) > 0)
        if not varies.size:
            raise NotAvailableError("no regressor varies, so there is nothing to draw over")
        # Over two values, lines say little; so a dummy is drawn only where all are dummies.
        numbers = [at for at in varies if len(np.unique(columns[at])) > 2]
        return int(numbers[0] if numbers else varies[0])
    if isinstance(term, str) and term not in terms:
        holding = _columns_with(asked.design, term)
        if len(holding) == 1:
            return holding[0]
        if holding:
            listed = ", ".join(terms[i] for i in holding)
            raise InputError(f"term={term!r} stands in several terms; use one of {listed}")
    return place_of("term", term, terms, "terms")


def _columns_with(design: Design, variable: str) -> list[int]:
    """Columns of the terms that a variable of the table stands in, as price in np.log(price)."""
    if design.right is None:
        return []
    found: list[int] = []
    for term, own in zip(design.right.terms, design.term_slices.values(), strict=True):
        if any(variable in names_in(design.right.factors[i].code) for i in term.factors):
            found += range(own.start, own.stop)
    return found


def _whole(res: BaseResults, asked: Response, number: int, facts: RowFacts, at: int) -> View | None:
    """The response itself, if all regressors follow from the term; None if not."""
    x = facts.columns[at]
    if np.ptp(x) == 0:
        return None
    grid = np.linspace(x.min(), x.max(), GRID)
    made = _grid_regressors(asked, facts.columns, at, grid)
    if made is None:
        return None
    coef = res.fitted.estimate.params.coef[:, asked.columns]
    shift = _offset(facts, coef, number)
    eta, lines = coef @ made.T + shift, {}
    good = asked.family.in_range(eta)
    mean = asked.family.mean(eta)
    mean = mean if good is None else np.where(good, mean, np.nan)
    for j in res.alive:
        lines[j] = mean[j - 1]
    y, note = facts.y[number], "lines at the average offset" if abs(shift) > 1e-9 else ""
    shown = y
    if len(np.unique(y)) == 2:
        # Two values would lie on top of each other.
        shown = y + 0.03 * np.ptp(y) * np.random.default_rng(0).uniform(-1, 1, len(y))
        note = "; ".join(filter(None, [note, "responses jittered"]))
    points = {}
    label = facts.posterior.argmax(axis=0)
    for place, j in enumerate(res.classes):
        rows = np.flatnonzero(label == place)
        points[int(j)] = (rows, shown[rows], facts.posterior[place, rows])
    return View(x, points, grid, lines, name(asked.name), note)


def _grid_regressors(asked: Response, columns: Array, at: int, grid: Array) -> Array | None:
    """Regressors along a term, if it alone varies or all are made of one variable."""
    varies = np.ptp(columns, axis=1) > 0
    if varies.sum() == 1:
        made = np.repeat(columns[:, :1], len(grid), axis=1)
        made[at] = grid
        return made.T
    design = asked.design
    only = list(design.right_columns)
    if design.right is None or len(only) != 1 or design.terms[at] != only[0]:
        return None
    return design.regressors(pd.DataFrame({only[0]: grid}))[0]


def _offset(facts: RowFacts, coef: Array, number: int) -> float:
    """Average offset: what linear predictors have beside the regressors."""
    return float((facts.eta[number][0] - coef[0] @ facts.columns).mean())


def _partial(res: BaseResults, asked: Response, number: int, facts: RowFacts, at: int) -> View:
    """Partial residuals: the term's part of the linear predictor, and what is left."""
    x = facts.columns[at]
    middle = float(np.average(x, weights=facts.weight)) if facts.weight.any() else float(x.mean())
    grid = np.array([x.min(), x.max()])
    coef = res.fitted.estimate.params.coef[:, asked.columns][:, at]
    eta = facts.eta[number]
    with np.errstate(divide="ignore", invalid="ignore"):
        left = (facts.y[number] - facts.means(number)) / asked.family.mean_slope(eta)
    points, lines = {}, {}
    for j in res.alive:
        share = facts.posterior[j - 1]
        rows = np.flatnonzero((share > LEAST_SHARE) & np.isfinite(left[j - 1]))
        values = coef[j - 1] * (x[rows] - middle) + left[j - 1, rows]
        points[int(j)] = (rows, values, share[rows])
        lines[int(j)] = coef[j - 1] * (grid - middle)
    scale = "" if asked.family.additive else f" ({asked.family.link_name} scale)"
    return View(x, points, grid, lines, f"partial residual of {name(asked.name)}{scale}", "")


def _draw(res: BaseResults, view: View, ax: Any) -> int:
    """Draw points and lines; how many components there are."""
    for j, (rows, values, share) in view.points.items():
        seen = look(j)
        ax.scatter(
            view.x[rows],
            values,
            s=AREA * share,
            c=seen.colour,
            marker=seen.mark,
            alpha=0.45,
            linewidths=0,
            label=seen.name if j not in view.lines else None,
            zorder=2,
        )
    for j, values in view.lines.items():
        seen = look(j)
        ax.plot(
            view.grid,
            values,
            color=seen.colour,
            linestyle=seen.line,
            linewidth=1.9,
            marker=seen.mark,
            markevery=[0, -1],
            markersize=6,
            label=f"{seen.name} ({res.weights.loc[j]:.0%})",
            zorder=4,
        )
    _limits(view, ax)
    return len(view.lines)


def _limits(view: View, ax: Any) -> None:
    """Leave far points out of sight, and say how many."""
    values = np.concatenate([v for _, v, _ in view.points.values()])
    values = values[np.isfinite(values)]
    if not len(values):
        return
    low, high = np.quantile(values, [0.005, 0.995])
    ends = np.concatenate([v[np.isfinite(v)] for v in view.lines.values()] or [values])
    room = 0.5 * (high - low)
    if values.min() < low - 2 * room or values.max() > high + 2 * room:
        ax.set_ylim(min(low, ends.min()) - room / 4, max(high, ends.max()) + room / 4)
