"""Segments against outside variables: how far each is from the average."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mixreg.errors import InputError
from mixreg.report.base_results import BaseResults
from mixreg.report.plots.style import MUTED, PALE, dress, legend, look, name, one_axes
from mixreg.report.segments import profile


def plot_profile(res: BaseResults, data: Any, variables: Any, ax: Any) -> Any:
    """Draw the profile; see `MixRegResults.plot_profile`."""
    table = distances(profile(res, data).table)
    names = list(dict.fromkeys(table.index.get_level_values(0)))
    wanted = names if variables is None else _wanted(variables, names)
    table = table[table.index.get_level_values(0).isin(wanted)]
    rows = [(v, level) for v in wanted for level in table.loc[[v]].index.get_level_values(1)]
    ax = one_axes(ax, (6.8, max(2.4, 1.0 + 0.3 * len(rows))))
    components = [j for j in table.columns if j == 0 or j in res.alive]
    ax.axvline(0.0, color=MUTED, linewidth=1.0, zorder=1)
    values = table[components].reindex(pd.MultiIndex.from_tuples(rows)).to_numpy(dtype=float)
    place = np.arange(len(rows))
    # From the smallest to the largest: how far apart segments are.
    ax.hlines(place, values.min(axis=1), values.max(axis=1), color=PALE, linewidth=2, zorder=2)
    for j, own in zip(components, values.T, strict=True):
        seen = look(j)
        style = {"color": seen.colour, "marker": seen.mark, "linestyle": "none"}
        ax.plot(own, place, markersize=7, label=seen.name, zorder=3, **style)
    dress(ax, "Profile", "standard deviations from the average", "", grid="x")
    ax.set_yticks(range(len(rows)), [_row_name(v, level) for v, level in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    for line in range(len(rows)):
        ax.axhline(line, color="#EEEEEE", linewidth=0.8, zorder=0)
    ax.tick_params(axis="y", length=0)
    legend(ax, len(components))
    return ax


def distances(table: pd.DataFrame) -> pd.DataFrame:
    """Means and shares of segments, less those of all, over standard deviations.

    A level of a category stands for a variable that is 1 there and 0 elsewhere.
    """
    found = {}
    for variable, part in table.groupby(level=0, sort=False):
        part = part.droplevel(0)
        overall = part["overall"]
        if list(part.index) == ["mean", "sd"]:
            spread = overall["sd"] if overall["sd"] > 0 else np.nan
            found[variable, ""] = (part.loc["mean"] - overall["mean"]) / spread
            continue
        # Of two levels, the second says it all.
        levels = part.iloc[1:] if len(part) == 2 else part
        for level, shares in levels.iterrows():
            spread = np.sqrt(overall[level] * (1 - overall[level])) or np.nan
            found[variable, level] = (shares - overall[level]) / spread
    made = pd.DataFrame(found).T.drop(columns="overall")
    made.index = pd.MultiIndex.from_tuples(list(found), names=["variable", "level"])
    return made


def _wanted(variables: Any, names: list[Any]) -> list[Any]:
    wanted = [variables] if isinstance(variables, str) else list(variables)
    for each in wanted:
        if each not in names:
            raise InputError(
                f"variables={each!r} is unknown; data has {', '.join(map(str, names))}"
            )
    return wanted


def _row_name(variable: Any, level: Any) -> str:
    return name(variable) if level == "" else name(f"{variable} = {level}")
