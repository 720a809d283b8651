"""Eigenvalues of the slopes' second moment, against those that noise alone would give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.jobs.ladder import make_ladder, seen_rows
from mixreg.report.base_results import BaseResults
from mixreg.report.plots.style import MUTED, STRONG, caption, dress, legend, one_axes
from mixreg.search.moments import MomentSums, TakeMoments
from mixreg.sources import per_unit
from mixreg.sources.tasks import responses

Array = NDArray[np.float64]

MOST_ROWS, SHUFFLES = 20_000, 60


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues, largest first, and where noise would leave them.

    Attributes
    ----------
    values : (d,) array
    low, high : float
        Between these lie all eigenvalues of shuffled responses, 19 times of 20.
    rows : int
    """

    values: Array
    low: float
    high: float
    rows: int


def spectrum(res: BaseResults, seed: int = 0) -> Spectrum:
    """Eigenvalues of E[y²(zz' - I)] / 2, and of the same with responses shuffled."""
    res.spec.check_one_response("plot_tensor")
    problem = res.model.problem()
    problem = replace(problem, source=problem.source.counting())
    rng = np.random.default_rng(seed)
    seen = seen_rows(problem, MOST_ROWS, rng)
    course = make_ladder(problem, seen, rng).make(seen.rows, rng)
    rows, white = course.linear, course.linear_whitening
    if len(white.pooled) - white.has_constant < 1:
        raise NotAvailableError("the model has no slopes, so their moments have no eigenvalues")
    task = TakeMoments(white.has_constant)
    values = _eigenvalues(rows.sweep(task))
    y = per_unit(rows, responses)
    null = np.array(
        [_eigenvalues(rows.with_columns(y=rng.permutation(y)).sweep(task)) for _ in range(SHUFFLES)]
    )
    low, high = np.quantile(null.min(axis=1), 0.025), np.quantile(null.max(axis=1), 0.975)
    return Spectrum(values, float(low), float(high), seen.rows)


def _eigenvalues(sums: MomentSums) -> Array:
    """Of the slopes' second moment, largest first."""
    d = len(sums.y1z)
    matrix = (sums.y2zz - sums.y2 * np.eye(d)) / (2 * sums.rows)
    return np.asarray(np.linalg.eigvalsh(matrix)[::-1], dtype=float)


def plot_tensor(res: BaseResults, seed: int, ax: Any) -> Any:
    """Draw the eigenvalues; see `MixRegResults.plot_tensor`."""
    found = spectrum(res, seed)
    ax = one_axes(ax)
    place = np.arange(1, len(found.values) + 1)
    band = {"color": "#E2E2E2", "linewidth": 0, "zorder": 1}
    ax.axhspan(found.low, found.high, label="noise (95%)", **band)
    ax.axhline(0.0, color=MUTED, linewidth=0.8, zorder=1)
    above = (found.values > found.high) | (found.values < found.low)
    style = {"linestyle": "none", "marker": "o", "markersize": 7, "color": STRONG}
    ax.plot(place[above], found.values[above], label="beyond noise", zorder=3, **style)
    hollow = {**style, "color": MUTED, "markerfacecolor": "white"}
    ax.plot(place[~above], found.values[~above], label="within noise", zorder=3, **hollow)
    dress(ax, "Second moment of the slopes", "eigenvalue, by size", "value")
    ax.set_xlim(0.5, len(place) + 0.5)
    if len(place) <= 20:
        ax.set_xticks(place)
    caption(ax, f"moments of {found.rows:,} rows" if found.rows < res.nobs else f"k = {res.k}")
    legend(ax, 3)
    return ax
