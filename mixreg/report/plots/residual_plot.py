"""Randomised quantile residuals by component: against normal quantiles, and against fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from mixreg.report.base_results import BaseResults
from mixreg.report.plots.component_plot import find_response
from mixreg.report.plots.style import (
    MUTED,
    PALE,
    caption,
    dress,
    legend,
    look,
    name,
    sampled,
    several_axes,
)
from mixreg.report.residuals import residuals_of
from mixreg.report.row_facts import RowFacts, sampled_facts

Array = NDArray[np.float64]

MOST_ROWS = 5000
MOST_QUANTILES = 120
# Residuals are drawn up to here.
FARTHEST = 6.0


def plot_residuals(res: BaseResults, response: Any, seed: int, axes: Any) -> NDArray[Any]:
    """Draw both; see `MixRegResults.plot_residuals`."""
    number, asked = find_response(res, response)
    facts = sampled_facts(res, MOST_ROWS)
    found = residuals_of(facts, number, "quantile", "component", seed)
    made = several_axes(axes, 2, (4.8, 3.8), 2)
    draw_quantiles(made[0], res, facts, found)
    _draw_fitted(made[1], res, facts, found, number)
    dress(made[1], "Against fitted", f"fitted {name(asked.name)} in its segment", "residual", "")
    caption(made[1], sampled(facts.y.shape[1], res.nobs))
    legend(made[1], len(res.alive))
    return made


def draw_quantiles(ax: Any, res: BaseResults, facts: RowFacts, found: Array) -> None:
    """Quantiles of the residuals, weighted by the posterior, against normal ones."""
    ends = np.array([-3.3, 3.3])
    ax.plot(ends, ends, color=PALE, linewidth=1.2, zorder=1)
    for j in res.alive:
        seen = look(j)
        at, values = weighted_quantiles(found[j - 1], facts.posterior[j - 1] * facts.weight)
        style = {"marker": seen.mark, "color": seen.colour, "linestyle": "none"}
        ax.plot(norm.ppf(at), values, markersize=4.5, alpha=0.8, label=seen.name, **style)
    dress(ax, "Quantile residuals", "normal quantile", "residual", "")
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, -FARTHEST), min(high, FARTHEST))


def weighted_quantiles(values: Array, weight: Array) -> tuple[Array, Array]:
    """Quantiles of weighted values at probabilities that are evenly spaced."""
    good = np.isfinite(values) & (weight > 0)
    values, weight = values[good], weight[good]
    if not len(values):
        return np.zeros(0), np.zeros(0)
    order = np.argsort(values)
    values, weight = values[order], weight[order]
    at = (np.cumsum(weight) - weight / 2) / weight.sum()
    # As many as the weights are worth.
    worth = weight.sum() ** 2 / (weight**2).sum()
    count = int(np.clip(worth, 2, MOST_QUANTILES))
    wanted = (np.arange(count) + 0.5) / count
    return wanted, np.interp(wanted, at, values)


def _draw_fitted(ax: Any, res: BaseResults, facts: RowFacts, found: Array, number: int) -> None:
    """Residuals of the rows of each label, in their own component."""
    label, means = facts.posterior.argmax(axis=0), facts.means(number)
    for height, strong in ((0, True), (-2, False), (2, False)):
        ax.axhline(height, color=MUTED if strong else PALE, linewidth=1.0, zorder=1)
    for j in res.alive:
        seen, rows = look(j), np.flatnonzero(label == j - 1)
        ax.scatter(
            means[j - 1, rows],
            np.clip(found[j - 1, rows], -FARTHEST, FARTHEST),
            s=24 * facts.posterior[j - 1, rows],
            c=seen.colour,
            marker=seen.mark,
            alpha=0.5,
            linewidths=0,
            label=seen.name,
            zorder=2,
        )
