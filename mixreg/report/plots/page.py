"""The four most useful plots on one page."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.report.base_results import BaseResults
from mixreg.report.plots.coefficient_plot import plot_coefficients
from mixreg.report.plots.component_plot import plot_components
from mixreg.report.plots.posterior_plot import BINS, columns_of, plot_posterior
from mixreg.report.plots.residual_plot import MOST_ROWS, draw_quantiles
from mixreg.report.plots.search_plot import plot_search
from mixreg.report.plots.style import Panels, caption, new_figure, panels, sampled
from mixreg.report.residuals import residuals_of
from mixreg.report.row_facts import sampled_facts


def plot(res: BaseResults, figure: Any) -> NDArray[Any]:
    """Draw a page; see `MixRegResults.plot`."""
    if not res.model.has_rows:
        raise NotAvailableError(
            "the rows are gone, and two of the four plots need them; plot_coefficients() and "
            "plot_search() do not"
        )
    page = new_figure((13.0, 8.5)) if figure is None else figure
    corners = page.subfigures(2, 2, wspace=0.03, hspace=0.05).ravel()
    classes = len(res.alive) + res.spec.noise
    first = corners[0].subplots()
    if res.spec.family.takes_sets and res.fitted.search is not None:
        made = [plot_search(res, first)]
    elif res.spec.family.takes_sets:
        made = [first]
        first.set_axis_off()
    else:
        made = [plot_components(res, None, None, first)]
    made.append(plot_coefficients(res, None, False, 0.95, corners[1].subplots()))
    made += list(plot_posterior(res, BINS, panels(corners[2], classes, columns_of(classes))))
    made.append(_quantiles(res, corners[3].subplots()))
    for corner in corners:
        # Axes know the part of the figure that they are on, which cannot be saved by itself.
        corner.savefig = page.figure.savefig
    return np.array(made, dtype=object).view(Panels)


def _quantiles(res: BaseResults, ax: Any) -> Any:
    facts = sampled_facts(res, MOST_ROWS)
    draw_quantiles(ax, res, facts, residuals_of(facts, 0, "quantile", "component"))
    caption(ax, sampled(facts.y.shape[1], res.nobs))
    return ax
