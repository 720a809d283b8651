"""Plots of the report: which, how large, and what they say to those who do not see them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixreg.report.base_results import BaseResults
from mixreg.report.html.contrasts import contrasts, is_intercept
from mixreg.report.html.markup import Html
from mixreg.report.html.pictures import Panel, figure
from mixreg.report.plots.coefficient_plot import plot_coefficients
from mixreg.report.plots.component_plot import plot_components
from mixreg.report.plots.posterior_plot import BINS, plot_posterior
from mixreg.report.plots.profile_plot import plot_profile
from mixreg.report.plots.residual_plot import plot_residuals
from mixreg.report.plots.search_plot import plot_search
from mixreg.report.segments import SegmentProfile

# Narrow enough for names to be read on a phone.
WIDTH = 5.3
MOST_TERMS, MOST_VARIABLES = 24, 30


def coefficient_figure(res: BaseResults) -> Html:
    """Coefficients with intervals; of very many terms, those that tell segments apart."""
    terms, left_out = _terms(res)
    values = "; ".join(_values(res, term) for term in terms[:8])
    height = max(2.4, 0.9 + len(terms) * (0.3 + 0.11 * len(res.alive)))
    panel = Panel((WIDTH, height), f"Coefficients with intervals by segment. {values}.")
    others = "Intercepts are" if not left_out else f"Intercepts and {left_out} more terms are"
    caption = f"Coefficients by segment with 95% intervals. {others} in the table below."

    def draw(axes: Any) -> None:
        ax = plot_coefficients(res, terms, False, 0.95, axes[0])
        # Below the plot there is room for it, beside the title there may be none.
        ax.set_title("", loc="right")

    return figure(1, caption, [panel], draw)


def _terms(res: BaseResults) -> tuple[list[str], int]:
    """Terms to draw, in their order, and how many are left out."""
    names = res.spec.exog_names
    shown = [term for term in names if not is_intercept(term)] or list(names)
    if len(shown) <= MOST_TERMS:
        return shown, 0
    clear: dict[str, float] = {}
    for j in res.alive:
        for each in contrasts(res, j):
            term = names[each.term]
            clear[term] = max(clear.get(term, 0.0), np.nan_to_num(abs(each.z)))
    kept = sorted(shown, key=lambda term: -clear.get(term, 0.0))[:MOST_TERMS]
    return [term for term in shown if term in kept], len(shown) - MOST_TERMS


def _values(res: BaseResults, term: str) -> str:
    row = res.coefficients.loc[term]
    return f"{term}: " + ", ".join(f"segment {j} {row[j]:.3g}" for j in res.alive)


def component_figure(res: BaseResults) -> Html:
    """Data and lines over one regressor, a number where there is one."""
    alt = f"Rows and fitted lines of {len(res.alive)} segments over a regressor."
    caption = "Rows and fitted lines over the first regressor with more than two values, if any."
    draw = lambda axes: plot_components(res, None, None, axes[0])  # noqa: E731
    return figure(2, caption, [Panel((WIDTH, 3.8), alt)], draw)


def profile_figure(res: BaseResults, data: Any, profile: SegmentProfile) -> Html:
    """Segments against outside variables."""
    effect = profile.tests["effect size"].fillna(0.0)
    names = list(effect.nlargest(MOST_VARIABLES).index)
    names = [name for name in profile.tests.index if name in names]
    table = profile.table.loc[names]
    rows = sum(level != "sd" for level in table.index.get_level_values(1))
    alt = f"Segments compared by {', '.join(names[:8])}, in standard deviations from the average."
    panel = Panel((WIDTH, max(2.4, 1.0 + 0.3 * rows)), alt)
    caption = "How far each segment is from the average; the numbers are below."
    return figure(3, caption, [panel], lambda axes: plot_profile(res, data, names, axes[0]))


def posterior_figure(res: BaseResults) -> Html:
    """A rootogram for each segment."""
    shown = [j for j in res.spec.classes if j == 0 or j in res.alive]
    names = [f"segment {j}" if j else "noise" for j in shown]
    panels = [
        Panel((3.2, 2.4), f"How probable it is to belong to {name}: rootogram.") for name in names
    ]
    caption = (
        "Probabilities of belonging to each segment. Bars at 0 and 1 only: who is in it is sure."
    )
    return figure(4, caption, panels, lambda axes: plot_posterior(res, BINS, axes))


def residual_figure(res: BaseResults) -> Html:
    """Quantile residuals, which show whether the model fits."""
    alts = [
        "Quantile residuals of each segment against those of the normal distribution.",
        "Quantile residuals against fitted values.",
    ]
    caption = "Residuals: in a model that fits, the first plot follows the line."
    panels = [Panel((width, 3.2), alt) for width, alt in zip((3.8, 5.2), alts, strict=True)]
    return figure(5, caption, panels, lambda axes: plot_residuals(res, None, 0, axes))


def search_figure(res: BaseResults) -> Html | None:
    """Maxima that the search found."""
    if res.fitted.search is None or res.k == 1:
        return None
    search = res.fitted.search
    alt = f"{len(search.heights)} maxima found by {search.starts} starts; the best is reported."
    caption = "Maxima that the search found, and how many starts led to each."
    return figure(6, caption, [Panel((WIDTH, 3.2), alt)], lambda axes: plot_search(res, axes[0]))


def selection_figure(selection: Any) -> Html:
    """Criteria against the number of segments."""
    name = selection.criterion.upper()
    alt = f"Criteria against the number of segments; {name} is smallest at {selection.best_k}."
    caption = "Criteria against the number of segments; smaller is better."
    draw = selection.plot
    return figure(7, caption, [Panel((WIDTH, 3.4), alt)], lambda axes: draw(axes[0]))
