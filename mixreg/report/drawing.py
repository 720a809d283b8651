"""Drawing from a fit: responses and labels of the model's own rows.

Rows are drawn block by block, in order. Labels and responses have streams of random numbers of
their own, each used up row by row, so that it does not matter how rows are cut into blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import warn
from mixreg.mixture.parameters import Parameters
from mixreg.report.base_results import BaseResults
from mixreg.sources import Source, per_unit
from mixreg.sources.base import Parts
from mixreg.sources.block import Block
from mixreg.sources.tasks import offsets
from mixreg.table.parts import ModelParts
from mixreg.table.responses import Response
from mixreg.table.spec import Spec

Array = NDArray[np.float64]

# A linear predictor that every link allows.
ALLOWED = 0.5


def simulate(res: BaseResults, seed: int) -> pd.DataFrame:
    """Draw new responses and labels for the model's own rows; see `MixRegResults.simulate`."""
    model, rng = res.model, np.random.default_rng(seed)
    y, classes = draw_own(model, res.fitted.estimate.params, rng)
    if missing := int(np.isnan(y.reshape(len(classes), -1)).any(axis=1).sum()):
        warn(
            f"{missing} rows have no mean in the component that was drawn for them, and are NaN; "
            "another link, such as 'log', has one everywhere",
            UserWarning,
        )
    names = model.rows.names
    labels = names.unsort(res.classes.to_numpy()[classes])
    table = names.unsort(y.reshape(-1, len(model.responses)))
    columns = dict(zip(model.response_names, table.T, strict=True))
    return pd.DataFrame({**columns, "component": labels}, names.index)


def draw_own(
    model: ModelParts, params: Parameters, rng: np.random.Generator
) -> tuple[Array, NDArray[np.intp]]:
    """Responses of a model's own rows in the order of the fit, and the class of each row."""
    y, classes = draw(model.spec, model.source, params, rng)
    offset = taken_out(model)
    return y if offset is None else with_offset(y, classes, params.k, offset), classes


def taken_out(model: ModelParts) -> Array | None:
    """The offset that the responses of a linear fit have lost, in the order of the fit."""
    if not model.family.linear or not model.given.has("offset"):
        return None
    return per_unit(model.given, offsets)


def with_offset(y: Array, classes: NDArray[np.intp], k: int, offset: Array) -> Array:
    """Responses with their offset; a background component is even in those that have it."""
    return y + np.where(classes == k, 0.0, offset)


def draw(
    spec: Spec, source: Source, params: Parameters, rng: np.random.Generator
) -> tuple[Array, NDArray[np.intp]]:
    """Responses at the rows of a source, and the class of each row.

    Those of a linear fit are without an offset, which its rows have lost.
    """
    drawn = per_unit(source, DrawRows(spec, tuple(rng.spawn(1 + 2 * len(spec.responses)))), params)
    y = drawn[0] if len(spec.responses) == 1 else drawn[:-1].T
    return y, drawn[-1].astype(np.intp)


@dataclass(frozen=True, eq=False)
class DrawRows:
    """Task: responses drawn at the rows of a block, and the class of each, (d + 1, rows).

    Draws go on from block to block, so these come one after the other wherever they are.

    Attributes
    ----------
    spec : Spec
    streams : tuple of Generator
        For labels; for each response, and for each where it is of the background.
    """

    spec: Spec
    streams: tuple[np.random.Generator, ...]
    in_order: ClassVar[bool] = True

    def __call__(self, block: Block, params: Parameters) -> Parts:
        """Process one block."""
        spec, k = self.spec, params.k
        classes: Any = _draw_classes(spec, block, params, self.streams[0])
        each = block.per_row(classes)
        own = np.minimum(each, k - 1)
        if spec.family.takes_sets:
            eta = np.where(each == k, 0.0, _predictor(block, params.coef[own]))
            y = spec.family.draw_sets(eta, block.sets, self.streams[1])
            return Parts((np.stack([y, each]),))
        spread, columns = params.dispersion.reshape(k, -1), []
        even = each == k if spec.noise else None
        parts = zip(spec.responses, block.responses(), strict=True)
        for i, (response, (at, rows)) in enumerate(parts):
            eta = _predictor(rows, params.coef[:, at][own])
            streams = self.streams[1 + 2 * i : 3 + 2 * i]
            columns.append(_draw_response(response, rows, eta, spread[own, i], even, streams))
        return Parts((np.stack([*columns, each]),))


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
    streams: tuple[np.random.Generator, ...],
) -> Array:
    """One response at linear predictors; `even` are the rows of a background component."""
    family, good = response.family, response.family.in_range(eta)
    inner = eta if good is None else np.where(good, eta, ALLOWED)
    rows = family.rows_at(block.y, inner, spread, block.trials if family.takes_trials else None)
    y = family.draw(rows, streams[0])
    if good is not None:
        # There is no mean to draw around where the link leads out of the range.
        y = np.where(good, y, np.nan)
    if even is None:
        return np.asarray(y, dtype=float)
    other = family.draw_background(rows, response.low, response.length, streams[1])
    return np.where(even, other, y)
