"""Predictions with standard errors and intervals, by the delta method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from mixreg.errors import InputError
from mixreg.families import Family
from mixreg.mixture.parameters import Parameters
from mixreg.report.base_results import BaseResults, check_alpha
from mixreg.report.prediction import NewRows, own_rows
from mixreg.report.row_facts import read_rows
from mixreg.report.surfaces import surface
from mixreg.sources import per_unit
from mixreg.sources.base import Parts, PerRow
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Rows whose gradients are held at once.
PIECE = 20_000


@dataclass(frozen=True, eq=False)
class Prediction:
    """Expected responses with standard errors; see `MixRegResults.get_prediction`.

    Attributes
    ----------
    predicted_mean : (m,) array
    se : (m,) array
        Standard errors by the delta method.
    index : pandas Index
        Of `summary_frame`.
    families : tuple of (Family, slice)
        The family of some of the predictions, on the scale of whose link intervals are made.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> tone = datasets.tonedata()
    >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
    >>> found = res.get_prediction(tone.head(2))
    >>> found.predicted_mean.round(2).tolist()
    [1.67, 1.69]
    >>> found.se.shape
    (2,)
    """

    predicted_mean: Array
    se: Array
    index: pd.Index
    families: tuple[tuple[Family, slice], ...]

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Intervals that cover 1 - alpha, (m, 2), made on the scale of the link.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> res.get_prediction(tone.head(2)).conf_int().round(2).tolist()
        [[1.6, 1.73], [1.63, 1.76]]
        """
        ends = np.empty((len(self.se), 2))
        for family, where in self.families:
            ends[where] = _ends(family, self.predicted_mean[where], self.se[where], alpha)
        return ends

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Columns mean, mean_se, mean_ci_lower, mean_ci_upper, as in statsmodels.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> frame = res.get_prediction(tone.head(2)).summary_frame()
        >>> frame.columns.tolist()
        ['mean', 'mean_se', 'mean_ci_lower', 'mean_ci_upper']
        >>> frame.loc[0].round(2).tolist()
        [1.67, 0.03, 1.6, 1.73]
        """
        ends = self.conf_int(check_alpha(alpha))
        columns = {
            "mean": self.predicted_mean,
            "mean_se": self.se,
            "mean_ci_lower": ends[:, 0],
            "mean_ci_upper": ends[:, 1],
        }
        return pd.DataFrame(columns, self.index)


def _ends(family: Family, mean: Array, se: Array, alpha: float) -> Array:
    half = norm.isf(alpha / 2)
    eta = family.predictor(mean)
    if eta is None:
        return np.column_stack([mean - half * se, mean + half * se])
    with np.errstate(all="ignore"):
        slope = np.abs(family.mean_slope(eta))
        gap = half * np.where(slope > 0, se / slope, 0.0)
        both = np.column_stack([family.mean(eta - gap), family.mean(eta + gap)])
    # Where the link leads out of its range there is no end to an interval.
    good = family.in_range(np.column_stack([eta - gap, eta + gap]))
    both = both if good is None else np.where(good, both, np.nan)
    # Some links fall.
    return np.sort(both, axis=1)


def get_prediction(res: BaseResults, new: Any, which: str, columns: dict[str, Any]) -> Prediction:
    """Predict with standard errors; see `MixRegResults.get_prediction`."""
    if which not in ("mean", "component"):
        raise InputError(f"which={which!r} is unknown; use 'mean' or 'component'")
    if new is None:
        rows, z = own_rows(res), own_gate(res)
    else:
        rows = read_rows(res, new, columns, which)
        z = rows.z
    each = [_with_errors(res, part, near, which) for part, near in _pieces(rows, z)]
    made = np.concatenate(each, axis=-1)
    return _put_together(res, rows.index, made, which)


def _pieces(rows: NewRows, z: Array | None) -> Iterator[tuple[NewRows, Array | None]]:
    """Some rows at a time, so that gradients stay small; choice sets stay whole."""
    step = max(1, len(rows)) if rows.sets is not None else PIECE
    for first in range(0, max(1, len(rows)), step):
        some = slice(first, first + step)
        yield rows.some(some), None if z is None else z[some]


def _with_errors(res: BaseResults, rows: NewRows, z: Array | None, which: str) -> Array:
    """Means and standard errors, (2, predictions of a row, n)."""
    found = []
    for i in range(len(res.spec.responses)):
        each = component_gradients(res, rows, i)
        found += each if which == "component" else [mixed(res, each, z)]
    means, errors = zip(*((m, standard_errors(res, g)) for m, g in found), strict=True)
    return np.array([means, errors])


def component_gradients(
    res: BaseResults, rows: NewRows, response: int
) -> list[tuple[Array, Array]]:
    """Means of a response under each component, and their gradients in all parameters."""
    part, asked = rows.parts[response], res.spec.responses[response]
    layout, coef, found = res.spec.layout, res.fitted.estimate.params.coef, []
    for j in range(res.k):
        at = surface(asked.family, part.x, part.offset, rows.sets, coef[j, asked.columns])
        index = layout.coef_index()[j, asked.columns]
        found.append((at.mean, spread_out(at.gradient, index, layout.size)))
    return found


def spread_out(values: Array, index: NDArray[np.intp], size: int) -> Array:
    """Derivatives in some coefficients (n, p) as derivatives in all parameters, (n, size)."""
    out, there = np.zeros((len(values), size)), index >= 0
    out[:, index[there]] = values[:, there]
    return out


def mixed(
    res: BaseResults, found: list[tuple[Array, Array]], z: Array | None
) -> tuple[Array, Array]:
    """The components' means weighted by class probabilities, and the gradient of that."""
    n = len(found[0][0])
    share, slopes = shares(res, z, n)
    means = np.array([mean for mean, _ in found])
    gradient = np.zeros(found[0][1].shape)
    for weight, (_, each) in zip(share, found, strict=True):
        gradient += weight[:, None] * each
    gradient[:, res.spec.layout.gating_index()] += np.einsum("kng,kn->ng", slopes, means)
    return (share * means).sum(axis=0), gradient


def shares(res: BaseResults, z: Array | None, n: int) -> tuple[Array, Array]:
    """Class probabilities of the components, (k, n), and slopes in the gate, (k, n, g).

    The background is left out. Without concomitants they are the averages, whose slopes
    the fit keeps.
    """
    k, layout = res.k, res.spec.layout
    gate, params = res.gate_at(z)
    slopes = np.zeros((k, n, len(layout.gating_index())))
    if not res.spec.mixture.gate.constant and z is None:
        tally = res.fitted.tally
        own, whole = tally.weights[:k], tally.weights[:k].sum()
        share = np.repeat(own[:, None] / whole, n, axis=1)
        part = tally.slopes[:k] / whole
        part = part - share[:, :1] * part.sum(axis=0)
        slopes[:] = part[:, None]
        return share, slopes
    block = Block(np.empty((n, 0)), np.empty(n), z=z)
    prior = np.exp(gate.log_prior(block, params))[:k]
    share = np.broadcast_to(prior / prior.sum(axis=0), (k, n))
    variables = gate.variables(block)
    width = variables.shape[1]
    for j in range(k):
        for other in range(1, k):
            gap = share[j] * ((j == other) - share[other])
            here = slice((other - 1) * width, other * width)
            slopes[j, :, here] = gap[:, None] * variables
    return share, slopes


@dataclass(frozen=True, slots=True)
class Concomitants:
    """Task: concomitant variables of every unit, (q, units)."""

    def __call__(self, block: Block, params: Parameters | None = None) -> Parts:
        """Process one block."""
        assert block.z is not None
        return Parts((block.z.T,))


def own_gate(res: BaseResults) -> Array | None:
    """Concomitants of the model's own rows, in the user's order, (n, q)."""
    model = res.model
    if not model.source.has("z"):
        return None
    told = per_unit(model.source, PerRow(Concomitants()))
    return np.asarray(model.rows.names.unsort(told.T))


def standard_errors(res: BaseResults, gradients: Array) -> Array:
    """Standard errors of functions of the parameters, by their gradients (n, size)."""
    return np.sqrt(res.fitted.estimate.known.variance(gradients))


def _put_together(res: BaseResults, index: pd.Index, made: Array, which: str) -> Prediction:
    """All predictions below each other."""
    n, several = len(index), len(res.spec.responses) > 1
    numbers = [None] if which == "mean" else list(res.components)
    tables: list[pd.DataFrame] = []
    cuts: list[tuple[Family, slice]] = []
    for response in res.spec.responses:
        for j in numbers:
            levels = {"response": response.name} if several else {}
            levels |= {} if j is None else {"component": j}
            tables.append(pd.DataFrame({**levels, "row": index}))
            cuts.append((response.family, slice(len(cuts) * n, (len(cuts) + 1) * n)))
    table = pd.concat(tables, ignore_index=True)
    named = index if table.shape[1] == 1 else pd.MultiIndex.from_frame(table)
    return Prediction(made[0].ravel(), made[1].ravel(), named, tuple(cuts))
