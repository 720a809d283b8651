"""Customers whom the fit knows: their posterior in predictions, and beside new rows of theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, InputWarning, warn
from mixreg.report.base_results import BaseResults
from mixreg.report.beside import key_of, places
from mixreg.report.prediction import NewRows, most_likely, new_posterior, prior_of, warn_of_groups
from mixreg.report.residuals import by_response
from mixreg.report.row_facts import new_facts, own_facts, read_rows
from mixreg.table import frames
from mixreg.table.units import plain_value

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
        share = _with_known(res, prior_of(res, rows), rows, known, columns).T[: res.k]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = share / share.sum(axis=0)
    means = [(share * facts.means(i)).sum(axis=0) for i in range(len(facts.y))]
    return by_response(res, means, index)


def assign(res: BaseResults, new: Any, known: Any, columns: dict[str, Any]) -> pd.DataFrame:
    """Label, certainty and probabilities of each new row; see `MixRegResults.assign`."""
    rows = read_rows(res, new, columns)
    share = new_posterior(res, rows)
    informed = False
    if known is None or known is False:
        warn_of_groups(res, rows)
        _warn_of_known(res, rows, share)
    else:
        before = share.copy()
        share = _with_known(res, share, rows, known, columns)
        informed = not np.array_equal(before, share, equal_nan=True)
    if not informed:
        _check_informed(res, rows)
    posterior = pd.DataFrame(share, rows.index, res.classes)
    first = pd.DataFrame({"component": most_likely(posterior), "certainty": share.max(axis=1)})
    named = posterior.rename(columns=lambda j: f"p{j}")
    return first.join(named) if first.index.is_unique else pd.concat([first, named], axis=1)


def _check_informed(res: BaseResults, rows: NewRows) -> None:
    """Refuse to place rows of which nothing is known: all would be in the largest segment."""
    alone = len(res.alive) + res.spec.noise < 2
    if alone or rows.z is not None or not rows.good.any():
        return
    groups = None if rows.groups is None else res.known_groups
    if groups is not None and rows.groups is not None and (places(groups, rows.groups) >= 0).any():
        return
    if not any(seen.any() for seen in rows.seen()):
        raise InputError(
            f"the new rows have no response ({res.spec.endog_names}), so nothing tells their "
            "segments apart, and all would be put into the largest. Add the response, or groups "
            "of the fit; predict(new) gives expected responses, and predict(new, 'posterior') "
            "class probabilities"
        )


def _warn_of_known(res: BaseResults, rows: NewRows, share: Array) -> None:
    """Say which groups of the fit get another label from their new rows than they had."""
    groups = None if rows.groups is None else res.known_groups
    if rows.groups is None or groups is None:
        return
    at = places(groups, rows.groups)
    there = (at >= 0) & np.isfinite(share).all(axis=1)
    other = np.zeros(len(rows), dtype=bool)
    other[there] = share[there].argmax(axis=1) != res.unit_posterior.argmax(axis=0)[at[there]]
    if not other.any():
        return
    changed = rows.groups[other].unique()
    warn(
        f"{len(changed)} of the groups that the fit knows, such as {plain_value(changed[0])!r}, "
        "have another label by these rows than by those of the fit: new rows with responses are "
        "scored alone. assign(new, known=True) gives what the fit knows of its groups",
        InputWarning,
    )


def _with_known(
    res: BaseResults, share: Array, rows: NewRows, known: Any, columns: dict[str, Any]
) -> Array:
    """Probabilities of new rows, (n, K), with the posterior of the customers who are known."""
    table, names = _posteriors(res, known, rows, columns)
    at = places(table.index, names, "new customers" if known is not True else "")
    # Rows that lack a regressor stay unknown, as they are for strangers.
    told = (at >= 0) & rows.good
    share[told] = table.to_numpy(dtype=float)[at[told]]
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
    found = _given_posteriors(res, table)
    found = _from_rows(res, known, columns) if found is None else found
    names = _customers(rows)
    _check_customers(found.index, names, rows.groups is not None)
    return _one_each(found.dropna()), names


def _customers(rows: NewRows) -> pd.Index:
    """Who each row is of: its group, else the label of the row."""
    return rows.index if rows.groups is None else rows.groups


def _given_posteriors(res: BaseResults, table: pd.DataFrame) -> pd.DataFrame | None:
    """A table of posteriors by customer; None if it is one of rows."""
    name = res.spec.groups_name
    keys = key_of(table, name)
    classes = table.drop(columns=[name], errors="ignore")
    if list(classes.columns) != list(res.classes):
        return None
    return classes if keys is None else classes.set_axis(keys, axis=0)


def _check_customers(known: pd.Index, names: pd.Index, grouped: bool) -> None:
    """Refuse row numbers where customers have names, and names where they have row numbers."""
    ranged = isinstance(known, pd.RangeIndex)
    if grouped:
        bad = ranged and not (len(known) == names.nunique() and names.isin(known).all())
    else:
        bad = ranged != isinstance(names, pd.RangeIndex) and known.name != names.name
    if bad:
        raise InputError(
            "known and the new rows name their customers in different ways: one by row numbers "
            "(a RangeIndex), the other by names; give both the column of the groups, or an index "
            "of customers"
        )


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
    return pd.DataFrame(posterior, _customers(rows), res.classes)


def _one_each(table: pd.DataFrame) -> pd.DataFrame:
    """The first line of each customer: lines of one customer are alike."""
    return table[~table.index.duplicated()]
