"""Drawing from a fit: responses and labels of the model's own rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.mixture.parameters import Parameters
from mixreg.report.estimates import Estimates
from mixreg.sources import Source
from mixreg.sources.block import Block
from mixreg.table.parts import ModelParts
from mixreg.table.responses import Response
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
    model: ModelParts, params: Parameters, rng: np.random.Generator
) -> tuple[Array, NDArray[np.intp]]:
    """Responses of a model's own rows in the order of the fit, and the class of each unit."""
    offset = taken_out(model)
    y, classes = draw(model.spec, model.source, params, rng, offset)
    return (y if offset is None else y + offset), classes


def taken_out(model: ModelParts) -> Array | None:
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
    classes: Any = _draw_classes(spec, block, params, rng)
    each = block.per_row(classes)
    own = np.minimum(each, k - 1)
    if family.takes_sets:
        eta = np.where(each == k, 0.0, _predictor(block, params.coef[own]))
        return family.draw_sets(eta, block.sets, rng), classes
    spread, columns = params.dispersion.reshape(k, -1), []
    even = each == k if spec.noise else None
    for i, (response, (at, rows)) in enumerate(zip(spec.responses, block.responses(), strict=True)):
        eta = _predictor(rows, params.coef[:, at][own])
        columns.append(_draw_response(response, rows, eta, spread[own, i], even, offset, rng))
    return (columns[0] if len(columns) == 1 else np.column_stack(columns)), classes


def _draw_classes(
    spec: Spec, block: Block, params: Parameters, rng: np.random.Generator
) -> NDArray[np.intp]:
    """The class of each unit; known labels stay."""
    prior = np.exp(spec.mixture.gate.log_prior(block, params))
    prior = np.broadcast_to(prior, (prior.shape[0], block.units))
    uniform = rng.random(block.units)
    classes = (prior.cumsum(axis=0) < uniform).sum(axis=0).clip(max=prior.shape[0] - 1)
    return classes if block.known is None else np.where(block.known >= 0, block.known, classes)


def _predictor(block: Block, coef: Array) -> Array:
    """Linear predictors of rows, each at coefficients of its own, (rows, p)."""
    eta = np.einsum("np,np->n", block.x, coef)
    return np.asarray(eta if block.offset is None else eta + block.offset)


def _draw_response(
    response: Response,
    block: Block,
    eta: Array,
    spread: Array,
    even: NDArray[np.bool_] | None,
    offset: Array | None,
    rng: np.random.Generator,
) -> Array:
    """One response at linear predictors; `even` are the rows of a background component."""
    family, good = response.family, response.family.in_range(eta)
    inner = eta if good is None else np.where(good, eta, np.median(eta[good]))
    rows = family.rows_at(block.y, inner, spread, block.trials if family.takes_trials else None)
    y = family.draw(rows, rng)
    if good is not None:
        # There is no mean to draw around where the link leads out of the range.
        y = np.where(good, y, np.nan)
    if even is None:
        return np.asarray(y, dtype=float)
    other = family.draw_background(rows, response.low, response.length, rng)
    return np.where(even, other if offset is None else other - offset, y)
