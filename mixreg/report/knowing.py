"""Predictions for customers whom the fit knows: their posterior in place of class probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.report.base_results import BaseResults
from mixreg.report.prediction import NewRows, prior_of, read_new
from mixreg.report.residuals import by_response
from mixreg.report.row_facts import new_facts, own_facts, read_rows
from mixreg.table import frames

Array = NDArray[np.float64]


def predict_known(res: BaseResults, new: Any, known: Any, columns: dict[str, Any]) -> Any:
    """Expected responses, components weighted by what is known of each customer.

    See `MixRegResults.predict`.
    """
    if new is None:
        if known is not True:
            raise InputError("known= is a table only beside new rows; for the fit's own rows, True")
        facts = own_facts(res)
        share, index = facts.posterior[: res.k], res.model.index
    else:
        rows = read_rows(res, new, columns, "mean")
        facts, index = new_facts(res, rows), rows.index
        share = _known_shares(res, rows, read_new(res, new), known, columns).T[: res.k]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = share / share.sum(axis=0)
    means = [(share * facts.means(i)).sum(axis=0) for i in range(len(facts.y))]
    return by_response(res, means, index)


def _known_shares(
    res: BaseResults, rows: NewRows, new: Any, known: Any, columns: dict[str, Any]
) -> Array:
    """Class probabilities of new rows, the posterior of those that are known, (n, K)."""
    share = prior_of(res, rows)
    table, names = _posteriors(res, known, rows, columns)
    at = table.index.get_indexer(names)
    share[at >= 0] = table.to_numpy(dtype=float)[at[at >= 0]]
    return share


def _posteriors(
    res: BaseResults, known: Any, rows: NewRows, columns: dict[str, Any]
) -> tuple[pd.DataFrame, pd.Index]:
    """Posterior of each customer, and the customer of each new row."""
    if known is True:
        if res.ngroups is None or rows.groups is None:
            raise InputError(
                "known=True needs customers: a model with groups=, and new rows with that column. "
                "Else give their earlier rows, or a table of posteriors, as known="
            )
        return res.group_posterior, rows.groups
    table = frames.read(known)
    if not isinstance(table, pd.DataFrame):
        raise InputError(
            f"known must be True, a table of earlier rows, or one of posteriors; got {known!r}"
        )
    customers = rows.index if rows.groups is None else rows.groups
    if list(table.columns) == list(res.classes):
        return _one_each(table), customers
    return _from_rows(res, known, columns), customers


def _from_rows(res: BaseResults, known: Any, columns: dict[str, Any]) -> pd.DataFrame:
    """Posterior of each customer from earlier rows of theirs, with responses."""
    shared = {name: value for name, value in columns.items() if np.ndim(value) == 0}
    rows = read_rows(res, known, shared)
    if not any(seen.any() for seen in rows.seen()):
        raise InputError(
            f"known has no row with the response {res.spec.endog_names}; a customer is known by "
            "earlier responses"
        )
    posterior = new_facts(res, rows).posterior.T
    customers = rows.index if rows.groups is None else rows.groups
    return _one_each(pd.DataFrame(posterior, customers, res.classes).dropna())


def _one_each(table: pd.DataFrame) -> pd.DataFrame:
    """The first line of each customer: lines of one customer are alike."""
    return table[~table.index.duplicated()]
