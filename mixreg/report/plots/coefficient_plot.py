"""Coefficients with their intervals, by segment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mixreg.errors import InputError, NotAvailableError
from mixreg.report.base_results import BaseResults
from mixreg.report.plots.style import (
    INK,
    MUTED,
    caption,
    dress,
    legend,
    look,
    name,
    offsets,
    one_axes,
)
from mixreg.report.tidy import point_estimates, tidy


def plot_coefficients(
    res: BaseResults, terms: Any, exponentiate: bool, conf_level: float, ax: Any
) -> Any:
    """Draw coefficients and intervals; see `MixRegResults.plot_coefficients`."""
    sure = res.fitted.estimate.cov is not None
    make = tidy if sure else point_estimates
    table = make(res, exponentiate, conf_level, "coefficients")
    wanted = _terms(res, table, terms)
    table = table[table["term"].isin(wanted)]
    count = len(res.alive)
    ax = one_axes(ax, (6.8, max(2.4, 0.9 + len(wanted) * (0.3 + 0.11 * count))))
    draw_intervals(ax, table, wanted, res.alive)
    _dress(ax, res, exponentiate, [name(term) for term in wanted])
    level = f"{conf_level:.4g}".removeprefix("0.")
    caption(ax, f"{float(conf_level):.0%} intervals" if sure and level else "no standard errors")
    legend(ax, count + table["component"].isna().any())
    return ax


def _terms(res: BaseResults, table: pd.DataFrame, terms: Any) -> list[str]:
    """Terms to draw, in their order; the intercept only where it is asked for."""
    every = [term for term in res.spec.exog_names if term in set(table["term"])]
    if terms is None:
        plain = [t for t in every if t.rpartition(": ")[2] != "Intercept"]
        return plain or every
    wanted = [terms] if isinstance(terms, str) else list(terms)
    for term in wanted:
        if term not in every:
            raise InputError(f"terms={term!r} is unknown; terms are {', '.join(every)}")
    if not wanted:
        raise NotAvailableError("terms is empty, so there is nothing to draw; name some terms")
    return wanted


def draw_intervals(
    ax: Any, table: pd.DataFrame, rows: list[Any], components: list[int], key: str = "term"
) -> None:
    """Marks with whiskers, a line for each row, segments below each other.

    `table` has component (missing: of all), `key`, estimate, conf_low and conf_high.
    """
    place = {row: i for i, row in enumerate(rows)}
    apart = dict(zip(components, offsets(len(components)), strict=True))
    for j in [*components, None]:
        own = table[table["component"].isna() if j is None else table["component"] == j]
        if not len(own):
            continue
        y = np.array([place[row] for row in own[key]]) + (0.0 if j is None else apart[j])
        colour, mark, label = (INK, "o", "all segments") if j is None else _marks(j)
        low, high = own["conf_low"].to_numpy(), own["conf_high"].to_numpy()
        known = np.isfinite(low) & np.isfinite(high)
        ax.hlines(y[known], low[known], high[known], color=colour, linewidth=1.8, zorder=2)
        values = own["estimate"].to_numpy()
        look_of = {"linestyle": "none", "marker": mark, "color": colour, "markersize": 6.5}
        ax.plot(values, y, label=label, zorder=3, **look_of)
        # Hollow marks are drawn over the full ones: nothing is known of their error.
        ax.plot(values[~known], y[~known], markerfacecolor="white", zorder=4, **look_of)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_yticks(range(len(rows)), [name(row) for row in rows])
    for line in range(1, len(rows)):
        ax.axhline(line - 0.5, color="#EEEEEE", linewidth=0.8, zorder=0)


def _marks(component: int) -> tuple[str, str, str]:
    seen = look(component)
    return seen.colour, seen.mark, seen.name


def _dress(ax: Any, res: BaseResults, exponentiate: bool, names: list[str]) -> None:
    links = {link for _, link, _ in res.spec.family.named_links(res.spec.endog_names)}
    what = "coefficient"
    if exponentiate:
        ratios = {"logit": "odds ratio", "log": "ratio of means"}
        what = ratios.get(next(iter(links)), "exponential") if len(links) == 1 else "exponential"
        ax.set_xscale("log")
        plain_ticks(ax)
    dress(ax, "Coefficients", what, "", grid="x")
    ax.axvline(1.0 if exponentiate else 0.0, color=MUTED, linewidth=1.0, zorder=1)
    ax.tick_params(axis="y", length=0)


def plain_ticks(ax: Any) -> None:
    """Numbers, not powers, on a logarithmic axis; few of them."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    low, high = ax.get_xlim()
    decades = np.log10(high / low)
    steps = (1.0,) if decades > 2 else (1.0, 2.0, 5.0) if decades > 1 else (1, 1.5, 2, 3, 5, 7)
    ax.xaxis.set_major_locator(LogLocator(subs=steps))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
