"""Draw the paper's two figures."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from benchmarks.paper_grid import METHODS, STARTS, TRACE_SIZES, Panel, Point
from benchmarks.paper_tables import Results, rate_grid
from benchmarks.paper_trials import Trial

# Two of Okabe and Ito's colours, which everyone can tell apart.
COLOURS = {"random": "#D55E00", "tensor": "#0072B2"}
RATES = matplotlib.colormaps["cividis"]
GREY = "#555555"
TITLES = {
    "published": "Published: tensor start, then AltMin",
    "default": "Default: MixReg(y, X, k).fit()",
}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "hatch.linewidth": 0.6,
}


def draw_traces(results: Results, path: Path) -> None:
    """Figure 1: error against iteration, random against tensor starts."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.5, 4.4), dpi=160)
        axes = figure.subplots(1, len(TRACE_SIZES), sharey=True)
        for ax, (k, p, n) in zip(axes, TRACE_SIZES, strict=True):
            _trace_panel(ax, k, p, n, results)
        axes[0].set_ylabel("Estimation error")
        _trace_legend(figure)
        figure.subplots_adjust(left=0.07, right=0.985, top=0.77, bottom=0.13, wspace=0.08)
        figure.savefig(path)


def _trace_panel(ax: Axes, k: int, p: int, n: int, results: Results) -> None:
    for start, side in zip(STARTS, ("left", "right"), strict=True):
        trials = results[Point("trace", start, k, p, n)]
        for trial in trials:
            _trace_line(ax, trial, COLOURS[start])
        share = f"{start}: {sum(t.recovered for t in trials)}/{len(trials)} recovered"
        where = {"x": float(side == "right"), "y": 1.03, "ha": side, "transform": ax.transAxes}
        ax.text(s=share, color=COLOURS[start], fontsize=9, **where)
    ax.set_yscale("log")
    ax.set_ylim(5e-18, 8)
    ax.set_yticks([10.0**e for e in range(-16, 1, 4)])
    ax.minorticks_off()
    ax.set_xlim(left=-0.5)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.set_xlabel("AltMin iteration")
    ax.grid(axis="y", color="#e6e6e6", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.set_title(f"k = {k}", loc="left", fontsize=12, fontweight="bold", pad=22)
    ax.set_title(f"p = {p},  n = {n} = {n // p}p", loc="right", fontsize=10, color=GREY, pad=22)


def _trace_line(ax: Axes, trial: Trial, colour: str) -> None:
    # Smaller errors are rounding too, and 0 has no logarithm.
    errors = np.maximum(trial.errors, 1e-17)
    ax.plot(errors, color=colour, linewidth=0.8, alpha=0.45)
    if trial.stopped != "max_iter":
        ax.plot(
            len(errors) - 1,
            errors[-1],
            "o",
            markersize=5,
            markerfacecolor="none",
            markeredgecolor=colour,
            markeredgewidth=0.9,
            alpha=0.8,
        )


def _trace_legend(figure: Figure) -> None:
    handles = [Line2D([], [], color=COLOURS[s], label=f"{s} start") for s in STARTS]
    circle = {"marker": "o", "markerfacecolor": "none", "color": GREY, "linestyle": "none"}
    handles.append(Line2D([], [], label="stopped: labels no longer change", **circle))
    figure.legend(
        handles=handles, loc="upper left", ncols=3, frameon=False, bbox_to_anchor=(0.06, 0.99)
    )


def draw_recovery(panels: tuple[Panel, ...], rates: pd.DataFrame, path: Path) -> None:
    """Figure 2: recovery rates of both methods, side by side."""
    with matplotlib.rc_context(STYLE):
        rows = [len(panel.ratios) for panel in panels]
        figure = Figure(figsize=(11, 2.6 + 0.36 * sum(rows)), dpi=160, layout="constrained")
        axes = figure.subplots(
            len(panels), len(METHODS), gridspec_kw={"height_ratios": rows}, squeeze=False
        )
        for panel, row in zip(panels, axes, strict=True):
            for method, ax in zip(METHODS, row, strict=True):
                _rate_panel(ax, panel, method, rate_grid(panel, method, rates))
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.12, hspace=0.03)
        scale = ScalarMappable(Normalize(0, 100), RATES)
        bar = figure.colorbar(scale, ax=axes, shrink=0.6, aspect=30, pad=0.02)
        bar.set_label("Exact recovery, percent of trials")
        bar.outline.set_visible(False)
        _rate_legend(figure, int(rates["trials"].max()))
        figure.savefig(path)


def _rate_panel(ax: Axes, panel: Panel, method: str, grid: pd.DataFrame) -> None:
    for row, ratio in enumerate(panel.ratios):
        for column, value in enumerate(panel.values):
            _rate_cell(ax, column, row, grid.at[ratio, value])
    ax.set_xlim(-0.5, len(panel.values) - 0.5)
    ax.set_ylim(-0.5, len(panel.ratios) - 0.5)
    _paper_line(ax, panel)
    ax.set_xticks(range(len(panel.values)), panel.values)
    ax.set_yticks(range(len(panel.ratios)), [f"{ratio:g}" for ratio in panel.ratios])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    names = {"p": "Regressors p", "k": "Components k"}
    ax.set_xlabel(names[panel.varies])
    ax.set_ylabel(f"Rows n / {panel.unit}")
    fixed = "k" if panel.varies == "p" else "p"
    ax.set_title(f"({panel.letter})  {TITLES[method]}", loc="left", fontsize=11)
    ax.set_title(f"{fixed} = {panel.fixed}", loc="right", fontsize=10, color=GREY)


def _paper_line(ax: Axes, panel: Panel) -> None:
    """Mark the paper's sample size, with gaps that leave the numbers free."""
    row = panel.ratios.index(panel.line)
    outline = [withStroke(linewidth=3.2, foreground="white")]
    for column in range(len(panel.values) + 1):
        ends = np.clip([column - 0.7, column - 0.3], -0.5, len(panel.values) - 0.5)
        ax.plot(ends, [row, row], color="black", linewidth=1.6, path_effects=outline)
    label = f"n = {panel.line}{panel.unit}"
    ax.text(1.01, row, label, transform=ax.get_yaxis_transform(), va="center")


def _rate_cell(ax: Axes, column: int, row: int, rate: float) -> None:
    corner = (column - 0.5, row - 0.5)
    if np.isnan(rate):
        ax.add_patch(
            Rectangle(corner, 1, 1, facecolor="white", edgecolor="#bbbbbb", hatch="////", lw=0)
        )
        return
    colour = RATES(rate)
    ax.add_patch(Rectangle(corner, 1, 1, facecolor=colour, edgecolor="white", lw=1.2))
    ax.text(
        column,
        row,
        f"{100 * rate:.0f}",
        ha="center",
        va="center",
        fontsize=9,
        color="black" if rate > 0.55 else "white",
    )


def _rate_legend(figure: Figure, trials: int) -> None:
    handles = [
        Line2D([], [], color="black", linestyle=(0, (4, 2)), label="line drawn in the paper"),
        Patch(
            facecolor="white",
            edgecolor="#bbbbbb",
            hatch="////",
            label="not run: no more rows than unknowns (n ≤ kp)",
        ),
        Line2D([], [], linestyle="none", label=f"{trials} trials a cell"),
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=3, frameon=False)
