"""Maxima that the search found, and how often."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixreg.errors import NotAvailableError
from mixreg.report.base_results import BaseResults
from mixreg.report.plots.style import MUTED, PALE, STRONG, caption, dress, one_axes


def plot_search(res: BaseResults, ax: Any) -> Any:
    """Draw the maxima; see `MixRegResults.plot_search`."""
    search = res.fitted.search
    if search is None:
        raise NotAvailableError(
            "the fit keeps no record of a search: it had one start, or random ones of "
            "method='altmin' or 'vb'; fit with init='auto' and n_init above 1"
        )
    heights, hits = np.array(search.heights), np.array(search.hits)
    known = np.isfinite(heights)
    if not known.any():
        raise NotAvailableError("the fit is exact: there is one maximum, of zero loss")
    heights, hits = heights[known], hits[known]
    behind = heights[0] - heights
    ax = one_axes(ax)
    ax.vlines(behind, 0, hits, color=PALE, linewidth=1.6, zorder=2)
    moved = hits == 0
    ax.plot(behind[~moved], hits[~moved], "o", color=MUTED, markersize=6, zorder=3)
    if moved.any():
        # Marks on the axis are drawn whole; none at all would have no place in a layout.
        hollow = {"color": MUTED, "markerfacecolor": "white", "markersize": 6}
        ax.plot(behind[moved], hits[moved], "o", zorder=3, clip_on=False, **hollow)
    best = {"color": STRONG, "markerfacecolor": "white" if moved[0] else STRONG, "markersize": 9}
    ax.plot(behind[:1], hits[:1], "D", zorder=4, clip_on=False, **best)
    ax.annotate(
        "winner",
        (behind[0], hits[0]),
        xytext=(9, 6),
        textcoords="offset points",
        va="bottom",
        color=STRONG,
        fontweight="bold",
    )
    _dress(ax, int(hits.max()), search.starts, float(heights[0]))
    note = f"a better one with chance {search.chance:.1%}"
    caption(ax, f"hollow: by a move; {note}" if moved.any() else note)
    return ax


def _dress(ax: Any, most: int, starts: int, best: float) -> None:
    from matplotlib.ticker import MaxNLocator

    dress(ax, "Search", f"log-likelihood below the best, {best:,.1f}", f"of {starts} starts")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    ax.set_ylim(0, max(most, 1) * 1.12)
    ax.margins(x=0.08)
    if np.ptp(ax.get_xlim()) < 1e-6:
        ax.set_xlim(-0.5, 0.5)
