"""Fitted values and residuals: of the response, Pearson's, and randomised quantile residuals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from mixreg.errors import InputError
from mixreg.families.distribution import Tails
from mixreg.report.base_results import BaseResults
from mixreg.report.row_facts import RowFacts, own_facts

Array = NDArray[np.float64]

KINDS = ("response", "pearson", "quantile")
BY = ("mixture", "component")
# Normal quantiles end here, where probabilities are no longer numbers.
FARTHEST = 38.0


def fitted_values(res: BaseResults) -> Any:
    """Expected responses of the model's own rows; see `MixRegResults.fittedvalues`."""
    facts = own_facts(res)
    values = [facts.fitted(i) for i in range(len(facts.y))]
    return by_response(res, values, res.model.index)


def residuals(res: BaseResults, kind: str, by: str, seed: int) -> Any:
    """Residuals of the model's own rows; see `MixRegResults.residuals`."""
    check_kind(kind, by)
    facts = own_facts(res)
    found = [residuals_of(facts, i, kind, by, seed + i) for i in range(len(facts.y))]
    index = res.model.index
    if by == "mixture":
        return by_response(res, [each[0] for each in found], index)
    tables = [pd.DataFrame(each.T, index, res.components) for each in found]
    if len(tables) == 1:
        return tables[0]
    names = ["response", "component"]
    return pd.concat(tables, axis=1, keys=res.spec.response_names, names=names)


def check_kind(kind: Any, by: Any) -> None:
    """Refuse residuals that are not known."""
    for name, value, known in (("kind", kind, KINDS), ("by", by, BY)):
        if value not in known:
            raise InputError(f"{name}={value!r} is unknown; use one of {', '.join(known)}")


def by_response(res: BaseResults, values: list[Array], index: pd.Index) -> Any:
    """A Series of one response, a DataFrame of several."""
    if len(values) == 1:
        return pd.Series(values[0], index, name=res.spec.endog_names)
    return pd.DataFrame(dict(zip(res.spec.response_names, values, strict=True)), index)


def residuals_of(facts: RowFacts, response: int, kind: str, by: str, seed: int = 0) -> Array:
    """Residuals of some rows: (1, n) from the mixture, (k, n) from each component."""
    mixed = by == "mixture"
    if kind == "quantile":
        tails = facts.families[response].tails(facts.rows(response))
        return quantile_residuals(mixed_tails(facts, tails) if mixed else tails, seed)
    mean = facts.fitted(response)[None] if mixed else facts.means(response)
    gap = facts.y[response] - mean
    if kind == "response":
        return np.asarray(gap)
    variance = _variance(facts, response, mixed)
    with np.errstate(divide="ignore", invalid="ignore"):
        # An exact fit leaves nothing, and expects nothing else.
        return np.where((gap == 0) & (variance == 0), 0.0, gap / np.sqrt(variance))


def _variance(facts: RowFacts, response: int, mixed: bool) -> Array:
    """Variance of the responses, of the mixture (1, n) or of each component (k, n)."""
    own = facts.families[response].response_variance(facts.rows(response))
    if not mixed:
        return own
    gap = facts.means(response) - facts.fitted(response)
    return np.asarray((facts.share * (own + gap**2)).sum(axis=0, keepdims=True))


def mixed_tails(facts: RowFacts, tails: Tails) -> Tails:
    """Tails of the mixture of the components, (1, n)."""
    parts = (tails.below, tails.at, tails.above)
    return Tails(*((facts.share * part).sum(axis=0, keepdims=True) for part in parts))


def quantile_residuals(tails: Tails, seed: int) -> Array:
    """Normal quantiles of the responses; where these have mass, at random within it.

    The nearer tail is used, so that far residuals keep their digits.
    """
    n = tails.below.shape[-1]
    at = np.random.default_rng(seed).random(n)
    low, high = tails.below + at * tails.at, tails.above + (1 - at) * tails.at
    found = np.where(low <= high, norm.ppf(np.minimum(low, 1.0)), norm.isf(np.minimum(high, 1.0)))
    return np.asarray(np.clip(found, -FARTHEST, FARTHEST))
