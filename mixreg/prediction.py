"""Predictions for new rows: means, components, posteriors, labels, choice shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.columns import as_frame
from mixreg.declare import check_range, in_sets
from mixreg.errors import InputError
from mixreg.estimators.expectation import Posterior
from mixreg.families import Choice
from mixreg.gating import log_prior
from mixreg.params import Parameters
from mixreg.sources import MemorySource
from mixreg.units import make_units, plain_value

if TYPE_CHECKING:
    from mixreg.results import MixRegResults

Array = NDArray[np.float64]

WHICH = ("mean", "component", "posterior", "label")


def predict(res: MixRegResults, new: Any, which: str, columns: dict[str, Any]) -> Any:
    """Predict for new data, or for the model's own rows; see `MixRegResults.predict`."""
    if which not in WHICH:
        raise InputError(f"which={which!r} is unknown; use one of {', '.join(WHICH)}")
    if new is None and which in ("posterior", "label"):
        return res.posterior if which == "posterior" else res.labels
    rows = own_rows(res) if new is None else new_rows(res, new, columns, which)
    if which in ("mean", "component"):
        means = component_means(res, rows)
        if which == "component":
            return pd.DataFrame(means, rows.index, res.components)
        share = prior_of(res, rows) if new is not None else _own_prior(res)
        share = share[:, : res.k] / share[:, : res.k].sum(axis=1, keepdims=True)
        return pd.Series((means * share).sum(axis=1), rows.index, name=res.model.endog_names)
    posterior = pd.DataFrame(new_posterior(res, rows), rows.index, res.classes)
    if which == "posterior":
        return posterior
    codes = posterior.to_numpy().argmax(axis=1)
    labels = pd.Series(res.classes.to_numpy()[codes], rows.index, name="component")
    bad = posterior.isna().any(axis=1)
    return labels.astype("Int64").mask(bad) if bad.any() else labels


class NewRows:
    """Columns of some rows, as far as they are there; NaN where they are missing."""

    def __init__(self, x: Array, index: pd.Index) -> None:
        self.x, self.index = x, index
        self.good = np.isfinite(x).all(axis=1)
        self.y: Array | None = None
        self.trials: Array | None = None
        self.offset: Array | None = None
        self.z: Array | None = None
        self.groups: pd.Index | None = None
        self.sets: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.x)


def own_rows(res: MixRegResults) -> NewRows:
    """The model's own rows, in the user's order."""
    model = res.model
    x, units = model.source.x, model.units
    if units.order is not None:
        back = np.empty_like(x)
        back[units.order] = x
        x = back
    rows = NewRows(x, model.index)
    rows.offset, rows.sets = model.offset, model.sets
    return rows


def new_rows(res: MixRegResults, new: Any, columns: dict[str, Any], which: str) -> NewRows:
    """Columns of new data, through the same formulas; responses only where they count."""
    model = res.model
    rows = NewRows(*model.design.regressors(new))
    frame = None if isinstance(new, np.ndarray) else as_frame(new)
    if which in ("posterior", "label"):
        rows.y, rows.trials = model.design.responses(new), model.design.trials(new)

    def find(name: str) -> Any:
        value = columns.get(name)
        if value is None:
            key = model.column_names[name]
            if frame is None or key is None or key not in frame.columns:
                return None
            value = frame[key]
        if len(value) != len(rows):
            raise InputError(f"{name} has length {len(value)}, but there are {len(rows)} new rows")
        return value

    groups, sets = find("groups"), find("choice_set")
    if rows.trials is None and model.source.trials is not None:
        trials = find("trials")
        trials = find("weights") if trials is None else trials
        rows.trials = None if trials is None else np.asarray(trials, dtype=float)
    rows.offset = _new_offset(find("offset"), find("exposure"), rows.index)
    if isinstance(model.family, Choice):
        rows.sets = _new_sets(sets, groups, len(rows))
        groups = sets if groups is None else groups
    if model.units.labels is not None and groups is not None:
        rows.groups = pd.Index(groups)
    if model.gate_design is not None:
        try:
            rows.z = model.gate_design.regressors(new)[0]
        except InputError:
            # Without concomitants, classes have their average probabilities.
            rows.z = None
    return rows


def _new_offset(offset: Any, exposure: Any, index: pd.Index) -> Array | None:
    total = None if offset is None else np.asarray(offset, dtype=float)
    if exposure is None:
        return total
    exposure = np.asarray(exposure, dtype=float)
    bad = np.flatnonzero(exposure <= 0)
    if bad.size:
        row = plain_value(index[bad[0]])
        raise InputError(f"exposure must be positive; row {row!r} has {exposure[bad[0]]:g}")
    logs = np.log(exposure)
    return logs if total is None else total + logs


def _new_sets(sets: Any, groups: Any, n: int) -> NDArray[np.intp]:
    """Choice sets of new rows; without any, all rows are one set."""
    if sets is None:
        return np.zeros(n, dtype=np.intp)
    codes = pd.factorize(np.asarray(sets))[0]
    if groups is not None:
        each = pd.factorize(np.asarray(groups))[0]
        codes = pd.factorize(each * (codes.max() + 1) + codes)[0]
    return np.asarray(codes, dtype=np.intp)


def component_means(res: MixRegResults, rows: NewRows) -> Array:
    """Expected response (or choice share) in each component, (rows, k)."""
    eta = rows.x @ res._estimate.params.coef.T
    if rows.offset is not None:
        eta = eta + rows.offset[:, None]
    if rows.sets is None:
        return np.asarray(res.model.family.mean(eta))
    frame = pd.DataFrame(eta).groupby(rows.sets)
    shares = np.exp(eta - frame.transform("max").to_numpy())
    return np.asarray(shares / pd.DataFrame(shares).groupby(rows.sets).transform("sum").to_numpy())


def _own_prior(res: MixRegResults) -> Array:
    """Class probabilities of the model's own rows, (rows, K)."""
    source = res.model.source
    prior = np.exp(log_prior(source.as_block(), res._estimate.params))
    prior = np.broadcast_to(prior, (len(res.classes), source.units))
    return np.asarray(res.model.units.to_rows(prior.T, res.nobs))


def prior_of(res: MixRegResults, rows: NewRows) -> Array:
    """Class probabilities of new rows before their responses are seen, (rows, K)."""
    if rows.z is None:
        return np.tile(res.weights.to_numpy(), (len(rows), 1))
    utility = rows.z @ res._estimate.params.gating.T
    utility -= utility.max(axis=1, keepdims=True)
    prior = np.exp(utility)
    return np.asarray(prior / prior.sum(axis=1, keepdims=True))


def new_posterior(res: MixRegResults, rows: NewRows) -> Array:
    """Posterior of new rows, (rows, K): by response, by group, or the prior."""
    good, labels = rows.good, res.model.units.labels
    out = np.full((len(rows), len(res.classes)), np.nan)
    out[good] = prior_of(res, rows)[good]
    if rows.groups is not None and labels is not None:
        # What is known of a group from the fit, unless it answers anew below.
        known = labels.get_indexer(rows.groups)
        out[good & (known >= 0)] = res._posterior.T[known[good & (known >= 0)]]
    if rows.y is None:
        return out
    seen = good & np.isfinite(rows.y)
    for column in (rows.offset, rows.trials):
        seen &= True if column is None else np.isfinite(column)
    if res.model.source.trials is not None and rows.trials is None and seen.any():
        raise InputError("new responses are proportions; give their trials, trials=array")
    if rows.sets is not None:
        # A choice is only known from a whole set.
        seen &= ~np.isin(rows.sets, rows.sets[~seen])
    if not seen.any():
        return out
    check_range(res.model.family, rows.y[seen], _part(rows.trials, seen), rows.index[seen])
    # Rows without a group stand for themselves.
    codes = np.arange(len(rows)) if rows.groups is None else pd.factorize(rows.groups)[0]
    codes = np.where(codes < 0, len(rows) + np.arange(len(rows)), codes)
    found = _posterior_given(res, rows, seen, codes[seen])
    there = good & np.isin(codes, found.index)
    out[there] = found.loc[codes[there]].to_numpy()
    return out


def _part(values: Array | None, mask: NDArray[np.bool_]) -> Array | None:
    return None if values is None else values[mask]


def _posterior_given(
    res: MixRegResults, rows: NewRows, seen: NDArray[np.bool_], codes: NDArray[np.intp]
) -> pd.DataFrame:
    """Posterior of each unit of new rows with responses."""
    model, n = res.model, int(seen.sum())
    assert rows.y is not None
    sets = None if rows.sets is None else rows.sets[seen]
    units = make_units(codes, None, np.ones(n, dtype=bool), pd.RangeIndex(n), sets)
    y = rows.y[seen]
    if rows.offset is not None and model.family.linear:
        y = y - rows.offset[seen]

    def part(values: Array | None) -> Any:
        return None if values is None else units.sort(values[seen])

    source = MemorySource(
        part(rows.x),
        units.sort(y),
        None,
        units.starts,
        offset=None if model.family.linear else part(rows.offset),
        trials=part(rows.trials),
        z=None if rows.z is None else units.to_units(rows.z[seen], "concomitants vary"),
    )
    if sets is not None:
        source = in_sets(source, units.sort(sets), units.sort(np.asarray(rows.index)[seen]))
    params = res._estimate.params
    if rows.z is None and params.gating.shape[1] > 1:
        params = res._average_gate()
    task = Posterior(model.mixture, hard=res.method == "altmin")
    return pd.DataFrame(source.sweep(task, params).join().T, units.labels)


def simulate(res: MixRegResults, seed: int) -> pd.DataFrame:
    """Draw new responses and labels for the model's own rows; see `MixRegResults.simulate`."""
    model, rng = res.model, np.random.default_rng(seed)
    y, classes = draw(res, rng)
    units = model.units
    rows = y if units.order is None else _back(y, units.order)
    labels = units.to_rows(res.classes.to_numpy()[classes], res.nobs)
    return pd.DataFrame({model.endog_names: rows, "component": labels}, model.index)


def _back(values: Array, order: NDArray[np.intp]) -> Array:
    out = np.empty_like(values)
    out[order] = values
    return out


def draw(
    res: MixRegResults, rng: np.random.Generator, params: Parameters | None = None
) -> tuple[Array, NDArray[np.intp]]:
    """Responses of all rows in the order of the fit, and the class of each unit.

    They are drawn at the estimates, or at other parameters in the user's units.
    """
    model, source = res.model, res.model.source
    params = res._estimate.params if params is None else params
    block, family = source.as_block(), model.family
    prior = np.exp(log_prior(block, params))
    prior = np.broadcast_to(prior, (prior.shape[0], source.units))
    uniform = rng.random(source.units)
    classes = (prior.cumsum(axis=0) < uniform).sum(axis=0).clip(max=prior.shape[0] - 1)
    if source.known is not None:
        classes = np.where(source.known >= 0, source.known, classes)
    each = block.per_row(classes)
    own = np.minimum(each, res.k - 1)
    coef = params.coef[own]
    eta = np.einsum("np,np->n", source.x, coef)
    if source.offset is not None:
        eta = eta + source.offset
    if isinstance(family, Choice):
        eta = np.where(each == res.k, 0.0, eta)
        return family.draw_sets(eta, block.sets, rng), classes
    rows = family.rows_at(source.y, eta, params.dispersion[own], source.trials)
    y = family.draw(rows, rng)
    if model.noise:
        y = np.where(each == res.k, _draw_background(res, rng), y)
    if family.linear and model.offset is not None:
        y = y + model.units.sort(model.offset)
    return np.asarray(y), classes


def _draw_background(res: MixRegResults, rng: np.random.Generator) -> Array:
    """Responses spread evenly over the range of the background."""
    source, family = res.model.source, res.model.family
    if source.trials is not None or family.name == "binomial":
        m = np.ones(source.rows) if source.trials is None else source.trials
        return np.floor(rng.random(source.rows) * (m + 1)) / m
    length = family.background(source.y)
    if family.name in ("poisson", "negativebinomial"):
        return np.floor(rng.random(source.rows) * length)
    low = 0.0 if family.name == "gamma" else float(source.y.min())
    return np.asarray(low + rng.random(source.rows) * length)
