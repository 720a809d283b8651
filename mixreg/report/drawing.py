"""Drawing from a fit: responses and labels of the model's own rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.mixture.parameters import Parameters
from mixreg.report.estimates import Estimates
from mixreg.sources import Source
from mixreg.table.parts import Parts
from mixreg.table.spec import Spec

Array = NDArray[np.float64]


def simulate(res: Estimates, seed: int) -> pd.DataFrame:
    """Draw new responses and labels for the model's own rows; see `MixRegResults.simulate`."""
    model, rng = res.model, np.random.default_rng(seed)
    y, classes = draw_own(model, res.fitted.estimate.params, rng)
    labels = model.units.to_rows(res.classes.to_numpy()[classes], res.nobs)
    table = model.units.unsort(y.reshape(-1, len(model.responses)))
    columns = dict(zip(model.response_names, table.T, strict=True))
    return pd.DataFrame({**columns, "component": labels}, model.index)


def draw_own(
    model: Parts, params: Parameters, rng: np.random.Generator
) -> tuple[Array, NDArray[np.intp]]:
    """Responses of a model's own rows in the order of the fit, and the class of each unit."""
    offset = taken_out(model)
    y, classes = draw(model.spec, model.source, params, rng, offset)
    return (y if offset is None else y + offset), classes


def taken_out(model: Parts) -> Array | None:
    """The offset that the responses of a linear fit have lost, in the order of the fit."""
    if not model.family.linear or model.offset is None:
        return None
    return np.asarray(model.units.sort(model.offset))


def draw(
    spec: Spec,
    source: Source,
    params: Parameters,
    rng: np.random.Generator,
    offset: Array | None = None,
) -> tuple[Array, NDArray[np.intp]]:
    """Responses at the rows of a source, and the class of each unit.

    `offset` is what the responses of the source, and so those drawn, have lost;
    a background component is even in the responses that have it.
    """
    block, family, k = source.as_block(), spec.family, params.k
    prior = np.exp(spec.mixture.gate.log_prior(block, params))
    prior = np.broadcast_to(prior, (prior.shape[0], source.units))
    uniform = rng.random(source.units)
    classes = (prior.cumsum(axis=0) < uniform).sum(axis=0).clip(max=prior.shape[0] - 1)
    if block.known is not None:
        classes = np.where(block.known >= 0, block.known, classes)
    each = block.per_row(classes)
    own = np.minimum(each, k - 1)
    coef = params.coef[own]
    eta = np.einsum("np,np->n", block.x, coef)
    if block.offset is not None:
        eta = eta + block.offset
    if family.takes_sets:
        eta = np.where(each == k, 0.0, eta)
        return family.draw_sets(eta, block.sets, rng), classes
    y, spread = np.empty(source.rows), params.dispersion[own]
    for i, (each_family, at) in enumerate(family.by_response(block.part)):
        trials = None if block.trials is None else block.trials[at]
        trials = trials if each_family.takes_trials else None
        its_spread = spread[at] if spread.ndim == 1 else spread[at, i]
        good = each_family.in_range(eta[at])
        inner = eta[at] if good is None else np.where(good, eta[at], np.median(eta[at][good]))
        rows = each_family.rows_at(block.y[at], inner, its_spread, trials)
        y[at] = each_family.draw(rows, rng)
        if good is not None:
            # There is no mean to draw around where the link leads out of the range.
            y[at] = np.where(good, y[at], np.nan)
        if spec.noise:
            low, length = spec.responses[i].low, spec.responses[i].length
            even = each_family.draw_background(rows, low, length, rng)
            even = even if offset is None else even - offset
            y[at] = np.where(each[at] == k, even, y[at])
    return np.asarray(y), classes
