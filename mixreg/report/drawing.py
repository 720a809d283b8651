"""Drawing from a fit: responses and labels of the model's own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.mixture.parameters import Parameters

if TYPE_CHECKING:
    from mixreg.results import MixRegResults

Array = NDArray[np.float64]


def simulate(res: MixRegResults, seed: int) -> pd.DataFrame:
    """Draw new responses and labels for the model's own rows; see `MixRegResults.simulate`."""
    model, rng = res.model, np.random.default_rng(seed)
    y, classes = draw(res, rng)
    labels = model.units.to_rows(res.classes.to_numpy()[classes], res.nobs)
    table = model.units.unsort(y.reshape(-1, len(model.responses)))
    columns = dict(zip(model.response_names, table.T, strict=True))
    return pd.DataFrame({**columns, "component": labels}, model.index)


def draw(
    res: MixRegResults,
    rng: np.random.Generator,
    params: Parameters | None = None,
    taken_out: Array | None = None,
) -> tuple[Array, NDArray[np.intp]]:
    """Responses of all rows in the order of the fit, and the class of each unit.

    They are drawn at the estimates, or at other parameters in the user's units.
    `taken_out` is an offset that the responses of the fit, and so those drawn,
    have lost; a background component is even in the responses that have it.
    """
    model, source = res.model, res.model.source
    params = res._estimate.params if params is None else params
    block, family = source.as_block(), model.family
    offset = None if model.offset is None else model.units.sort(model.offset)
    prior = np.exp(model.mixture.gate.log_prior(block, params))
    prior = np.broadcast_to(prior, (prior.shape[0], source.units))
    uniform = rng.random(source.units)
    classes = (prior.cumsum(axis=0) < uniform).sum(axis=0).clip(max=prior.shape[0] - 1)
    if block.known is not None:
        classes = np.where(block.known >= 0, block.known, classes)
    each = block.per_row(classes)
    own = np.minimum(each, res.k - 1)
    coef = params.coef[own]
    eta = np.einsum("np,np->n", block.x, coef)
    if block.offset is not None:
        eta = eta + block.offset
    if family.takes_sets:
        eta = np.where(each == res.k, 0.0, eta)
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
        if model.noise:
            low, length = model.responses[i].low, model.responses[i].length
            even = each_family.draw_background(rows, low, length, rng)
            shift = offset if taken_out is None else taken_out
            if family.linear and shift is not None:
                even = even - shift
            y[at] = np.where(each[at] == res.k, even, y[at])
    if family.linear and offset is not None:
        y = y + offset
    return np.asarray(y), classes
