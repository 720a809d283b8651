"""Draw how time and memory grow."""

from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE, GREY = "#0072B2", "#888888"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
}
NAMES = {"n": "rows", "k": "components", "p": "regressors"}
VALUES = {"seconds": "Seconds of a default fit", "megabytes": "Peak memory beside the data, MB"}


def draw_growth(table: pd.DataFrame, exponents: dict[str, float], path: Path) -> None:
    """Time and memory against rows, components and regressors, on logarithmic axes."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.5, 7.0), dpi=160, layout="constrained")
        axes = figure.subplots(2, 3, sharey="row")
        for (value, label), row in zip(VALUES.items(), axes, strict=True):
            row[0].set_ylabel(label)
            for ax, grows in zip(row, NAMES, strict=True):
                _panel(ax, table[table.grows == grows], value, NAMES[grows])
        for ax, grows in zip(axes[0], NAMES, strict=True):
            text = f"exponent {exponents[grows]:.2f}"
            ax.text(0.05, 0.92, text, transform=ax.transAxes, color=GREY)
        figure.savefig(path)


def _panel(ax: Axes, points: pd.DataFrame, value: str, name: str) -> None:
    ax.plot(points["size"], points[value], "o-", color=BLUE, linewidth=1.5, markersize=5)
    ax.set(xscale="log", yscale="log", xlabel=name)
    ax.set_xticks(points["size"], [f"{size:,}" for size in points["size"]])
    ax.minorticks_off()
    ax.grid(axis="y", color="#DDDDDD", linewidth=0.6)
