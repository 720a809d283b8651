"""Rootograms of the posterior: how surely units belong to each component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.estimators.expectation import Posterior
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.report.base_results import BaseResults
from mixreg.report.plots.style import caption, dress, look, several_axes
from mixreg.sources.base import Standardised
from mixreg.sources.block import Block

Array = NDArray[np.float64]

BINS = 20
# Units with less are left out, as flexmix does: they would hide all others.
LEAST = 1e-4


@dataclass(frozen=True, slots=True)
class TakeHistogram:
    """Task: units by their posterior of each class, counted with weights, (K, bins)."""

    mixture: Mixture
    hard: bool
    bins: int

    def __call__(self, block: Block, params: Parameters) -> Array:
        """Process one block."""
        posterior = Posterior(self.mixture, self.hard)(block, params).join()
        weight = np.ones(block.units) if block.weight is None else block.weight
        return histogram(posterior, weight, self.bins)


def histogram(posterior: Array, weight: Array, bins: int) -> Array:
    """Units by their posterior (K, units), counted with weights, (K, bins)."""
    place = np.minimum((posterior * bins).astype(np.intp), bins - 1)
    counts = np.where(posterior < LEAST, 0.0, weight)
    each = zip(place, counts, strict=True)
    return np.array([np.bincount(p, c, bins)[:bins] for p, c in each])


def counted(res: BaseResults, bins: int) -> Array:
    """Units of a fit by their posterior, (K, bins); of a fit from a file, its groups."""
    fitted = res.fitted
    if not res.model.has_rows:
        posterior = res.unit_posterior
        return histogram(posterior, np.ones(posterior.shape[1]), bins)
    task = TakeHistogram(res.model.problem().mixture, res.method == "altmin", bins)
    return res.model.source.sweep(Standardised(task, fitted.whitening), fitted.standard)


def columns_of(count: int) -> int:
    """In how many columns so many rootograms stand: four of them as two by two."""
    if count == 4:
        return 2
    return min(count, 4 if count > 6 else 3)


def plot_posterior(res: BaseResults, bins: int, axes: Any) -> NDArray[Any]:
    """Draw a rootogram for each component; see `MixRegResults.plot_posterior`."""
    if not isinstance(bins, int) or isinstance(bins, bool) or bins < 2:
        raise InputError(f"bins must be a whole number of at least 2; got {bins!r}")
    counts = counted(res, bins)
    shown = [(i, j) for i, j in enumerate(res.classes) if j == 0 or j in res.alive]
    count = len(shown)
    made = several_axes(axes, count, (3.2, 2.4), columns_of(count))
    top = np.sqrt(counts.max()) * 1.06 or 1.0
    left = np.arange(bins) / bins
    for ax, (i, j) in zip(made, shown, strict=True):
        seen = look(j)
        dark = {"color": seen.colour, "edgecolor": "white", "linewidth": 0.6}
        ax.bar(left, np.sqrt(counts[i]), 1 / bins, align="edge", **dark)
        dress(ax, seen.name.capitalize(), "posterior", "")
        ax.set_xlim(0, 1)
        ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        ax.set_ylim(0, top)
        _root_ticks(ax, float(counts.max()))
    what = "rows" if res.ngroups is None else "groups"
    if res.fitted.tally.weighted:
        what = f"weight of {what}"
    for ax in made:
        first = ax.get_subplotspec() is None or ax.get_subplotspec().is_first_col()
        ax.set_ylabel(f"{what} (root scale)" if first else "")
    caption(made[-1], "")
    return made


def _root_ticks(ax: Any, most: float) -> None:
    """Counts, at heights that are their roots."""
    if most <= 0:
        return
    step = 10 ** np.floor(np.log10(most))
    ticks = [0.0] + [step * f for f in (0.01, 0.1, 0.5, 1, 2, 5) if step * f <= most]
    wide = [t for t in ticks if t == 0 or t >= 1]
    heights = np.sqrt(wide)
    # Those that would lie on each other are left out.
    kept = [0]
    for i in range(1, len(wide)):
        if heights[i] - heights[kept[-1]] > 0.12 * np.sqrt(most):
            kept.append(i)
    ax.set_yticks([heights[i] for i in kept], [f"{wide[i]:,.6g}" for i in kept])
