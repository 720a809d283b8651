"""Choices: shares of alternatives, and what features are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mixreg.errors import InputError, NotAvailableError
from mixreg.inference.delta import willingness_to_pay
from mixreg.report.base_results import BaseResults, check_alpha
from mixreg.report.plots.coefficient_plot import draw_intervals
from mixreg.report.plots.style import MUTED, caption, dress, legend, look, name, offsets, one_axes
from mixreg.report.prediction import predict, read_new


def plot_shares(res: BaseResults, new: Any, labels: Any, ax: Any) -> Any:
    """Draw shares; see `MixRegResults.plot_shares`."""
    if not res.spec.family.takes_sets:
        raise NotAvailableError(
            "shares are those of choices; declare family='choice', or see predict(new, 'component')"
        )
    by_segment, overall = _shares(res, new)
    names = _labels(labels, by_segment.index)
    ax = one_axes(ax, (6.8, max(2.4, 1.0 + 0.5 * len(names))))
    place = np.arange(len(names))
    whole = {"color": "#D9D9D9", "edgecolor": "#8A8A8A", "linewidth": 0.8}
    ax.barh(place, overall, 0.72, label="all segments", zorder=1, **whole)
    apart = offsets(len(res.alive), 0.44)
    for j, shift in zip(res.alive, apart, strict=True):
        seen = look(j)
        # Marks at the edge are drawn whole: a share of nearly 0 is a share like others.
        style = {"color": seen.colour, "marker": seen.mark, "linestyle": "none", "clip_on": False}
        label = f"{seen.name} ({res.weights.loc[j]:.0%})"
        ax.plot(by_segment[j], place + shift, markersize=7, label=label, zorder=3, **style)
    dress(ax, "Shares", "share of choices", "", grid="x")
    ax.set_yticks(place, [name(each) for each in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, min(1.0, 1.08 * float(max(by_segment.to_numpy().max(), overall.max()))))
    ax.xaxis.set_major_formatter(_percent())
    ax.tick_params(axis="y", length=0)
    legend(ax, 2)
    return ax


def _shares(res: BaseResults, new: Any) -> tuple[pd.DataFrame, pd.Series]:
    """Shares in each segment and overall, of one choice set."""
    table = read_new(res, new)
    key = res.spec.responses[0].names.get("choice_set")
    if isinstance(table, pd.DataFrame) and isinstance(key, str) and key in table.columns:
        if table[key].nunique() > 1:
            raise InputError(
                f"new has {table[key].nunique()} choice sets ({key}); shares are drawn of one: "
                "give the rows of one set"
            )
        table = table.drop(columns=key)
    average = {} if res.spec.gate_design is None else {"concomitant": "average"}
    by_segment = predict(res, table, "component", {})
    return by_segment, predict(res, table, "mean", average)


def _labels(labels: Any, index: pd.Index) -> list[Any]:
    """Names of the alternatives."""
    if labels is None:
        return list(index)
    names = list(labels)
    if len(names) != len(index):
        raise InputError(f"labels has {len(names)} names; new has {len(index)} alternatives")
    return names


def _percent() -> Any:
    from matplotlib.ticker import PercentFormatter

    return PercentFormatter(1.0, decimals=0)


def plot_wtp(res: BaseResults, price: str, terms: Any, alpha: float, ax: Any) -> Any:
    """Draw willingness to pay; see `MixRegResults.plot_wtp`."""
    res.spec.check_one_response("plot_wtp")
    alpha = check_alpha(alpha)
    table = willingness_to_pay(res, price, alpha).reset_index()
    table.columns = pd.Index(
        ["component", "term", "estimate", "std_error", "z", "p", "conf_low", "conf_high"]
    )
    table = table[table["component"].isin(res.alive)]
    every = list(dict.fromkeys(table["term"]))
    wanted = every if terms is None else [terms] if isinstance(terms, str) else list(terms)
    for term in wanted:
        if term not in every:
            raise InputError(f"terms={term!r} is unknown; terms are {', '.join(every)}")
    table = table[table["term"].isin(wanted)]
    count = len(res.alive)
    ax = one_axes(ax, (6.8, max(2.4, 0.9 + len(wanted) * (0.3 + 0.11 * count))))
    draw_intervals(ax, table, wanted, res.alive)
    dress(ax, "Willingness to pay", f"in units of {name(price)}", "", grid="x")
    ax.axvline(0.0, color=MUTED, linewidth=1.0, zorder=1)
    ax.tick_params(axis="y", length=0)
    caption(ax, f"{1 - alpha:.0%} intervals")
    legend(ax, count)
    return ax
