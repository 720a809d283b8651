"""The picture of a selection: criteria against k."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.report.plots.style import MUTED, STRONG, caption, dress, one_axes

Array = NDArray[np.float64]

STYLES = {"aic": (0, (5, 2)), "bic": "-", "icl": (0, (1.5, 1.5))}
# Least distance of two names at the right, as a share of the height.
APART = 0.065


def plot_selection(
    table: pd.DataFrame, chosen: str, best_k: int, sound: NDArray[np.bool_], ax: Any = None
) -> Any:
    """Draw the criteria against k; see `Selection.plot`."""
    ax = one_axes(ax)
    finite = table[list(STYLES)].where(np.isfinite(table[list(STYLES)]))
    for name, values in finite.items():
        strong = name == chosen
        look = {
            "color": STRONG if strong else MUTED,
            "linestyle": "-" if strong else STYLES[str(name)],
            "linewidth": 2.2 if strong else 1.3,
            "markersize": 6 if strong else 4,
            "zorder": 4 if strong else 3,
        }
        ax.plot(table.index, values, marker="o", label=str(name).upper(), **look)
        # Hollow marks are drawn over the full ones.
        hollow = dict(look, linestyle="none", markerfacecolor="white")
        ax.plot(table.index[~sound], values[~sound], marker="o", **hollow)
    _mark(ax, best_k, float(finite.loc[best_k, chosen]))
    _dress(ax, table.index.to_numpy(), f"k = {best_k} by {chosen.upper()}")
    _name_lines(ax, finite, chosen)
    if not sound.all():
        caption(ax, "hollow: a component is empty or may be chance")
    return ax


def _mark(ax: Any, k: int, value: float) -> None:
    """A ring around the choice and a line down to its k."""
    ax.axvline(k, color=STRONG, linewidth=0.8, alpha=0.35, zorder=1)
    if np.isfinite(value):
        ax.plot(
            [k],
            [value],
            "o",
            markersize=13,
            markerfacecolor="none",
            markeredgecolor=STRONG,
            markeredgewidth=1.6,
            zorder=5,
        )


def _dress(ax: Any, ks: NDArray[np.intp], title: str) -> None:
    from matplotlib.ticker import StrMethodFormatter

    dress(ax, title, "components k", "criterion (smaller is better)")
    ax.set_xticks(ks)
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    ax.margins(x=0.06, y=0.08)


def _name_lines(ax: Any, values: Any, chosen: str) -> None:
    """Names of the lines at their right ends, moved apart where they would overlap."""
    last = values.ffill().iloc[-1].dropna().sort_values()
    low, high = ax.get_ylim()
    at = spread((last.to_numpy() - low) / (high - low), APART)
    for name, height in zip(last.index, at, strict=True):
        strong = name == chosen
        ax.annotate(
            name.upper(),
            (values.index[-1], low + height * (high - low)),
            xytext=(12, 0),
            textcoords="offset points",
            va="center",
            annotation_clip=False,
            color=STRONG if strong else MUTED,
            fontweight="bold" if strong else "normal",
            fontsize=9.5,
        )


def spread(positions: Array, apart: float) -> Array:
    """Move sorted positions at least `apart` from each other, as a group around their mean."""
    at = np.array(positions, dtype=float)
    for i in range(1, len(at)):
        at[i] = max(at[i], at[i - 1] + apart)
    moved = at.mean() - np.mean(positions) if len(at) else 0.0
    return at - moved
