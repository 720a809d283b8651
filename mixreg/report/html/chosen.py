"""How many segments, and why: what other numbers of segments would have given."""

from __future__ import annotations

from typing import Any, Protocol

import pandas as pd

from mixreg.errors import InputError
from mixreg.report.base_results import BaseResults
from mixreg.report.html.markup import Html, table, tag

NAMES = {"aic": "AIC", "bic": "BIC", "icl": "ICL"}


class Choice(Protocol):
    """What `select_k` returns."""

    table: pd.DataFrame
    criterion: str

    @property
    def best_k(self) -> int:
        """The k that the criterion chose."""
        ...

    @property
    def sound(self) -> pd.Series:
        """Whether each fit may be chosen."""
        ...

    @property
    def results(self) -> dict[int, Any]:
        """The fits."""
        ...

    def plot(self, ax: Any = None) -> Any:
        """Criteria against k."""
        ...


def check_selection(res: BaseResults, selection: Any) -> None:
    """Refuse what is not a selection, or not one of this model."""
    if not hasattr(selection, "best_k") or not hasattr(selection, "results"):
        kind = type(selection).__name__
        raise InputError(f"selection must be what select_k returned; got {kind}")
    if res.k not in selection.results:
        tried = ", ".join(map(str, selection.results))
        raise InputError(f"selection has no fit with k={res.k}; it has k = {tried}")
    other = selection.results[res.k]
    same = other.nobs == res.nobs and other.spec.exog_names == res.spec.exog_names
    if not same or other.spec.endog_names != res.spec.endog_names:
        raise InputError(
            "selection is of another model or of other rows; give that of this fit, as "
            "select_k(...) made it, or report selection.best"
        )


def why(res: BaseResults, selection: Choice | None) -> Html:
    """How many segments there are, and what speaks for it."""
    count = len(res.alive)
    head = f"There {'is one segment' if count == 1 else f'are {count} segments'}."
    if selection is None:
        told = (
            f"{head} Their number was given to the fit, not chosen by it; no others were compared "
            "here. mixreg.select_k compares several, and report(path, selection=...) shows them."
        )
        return tag("p", told)
    return tag("p", f"{head} {_reasons(res, selection)}")


def _reasons(res: BaseResults, selection: Choice) -> str:
    """Why this k, against the next best."""
    name, best = NAMES[selection.criterion], selection.best_k
    values = selection.table[selection.criterion]
    tried = f"{values.index.min()} to {values.index.max()}" if len(values) > 1 else f"{best}"
    if res.k != best:
        worse = values[res.k] - values[best]
        gap = f", by {worse:,.1f}" if worse > 0 else ""
        return f"Of {tried} segments {name} prefers {best}{gap}; {res.k} were chosen by hand."
    text = f"Of {tried} segments that were tried, {best} are the choice of {name}"
    others = values.drop(best)
    others = others[selection.sound[others.index]]
    if len(others):
        text += (
            f"; {int(others.idxmin())}, the next best, is {others.min() - values[best]:,.1f} worse"
        )
    means = f"{name} weighs fit against the number of parameters; smaller is better."
    return f"{text}. {means}{_passed(selection)}{_still(selection)}"


def _passed(selection: Choice) -> str:
    """Fits that have a better criterion but were passed over."""
    values, best = selection.table[selection.criterion], selection.best_k
    over = [str(k) for k in values.index[~selection.sound & (values < values[best])]]
    if not over:
        return ""
    return (
        f" k = {', '.join(over)} would have a smaller one, but with a segment that is empty or "
        "that chance may explain."
    )


def _still(selection: Choice) -> str:
    """A warning where the largest k that was tried is the best."""
    largest = int(selection.table.index.max())
    if selection.best_k < largest or len(selection.table) == 1:
        return ""
    return f" {NAMES[selection.criterion]} still falls at {largest}: more segments may fit better."


def compared(res: BaseResults, selection: Choice) -> Html:
    """A table of the numbers of segments that were tried."""
    rows = []
    for k, row in selection.table.iterrows():
        marked = [f"{row[name]:,.1f}".replace("-", "−") for name in ("llf", "aic", "bic", "icl")]
        here = f"{k} (this report)" if k == res.k else str(k)
        rows.append([here, *marked, f"{row['smallest']:.0%}", row["warnings"] or "–"])
    head = ["Segments", "Log-likelihood", "AIC", "BIC", "ICL", "Smallest segment", "Remarks"]
    return table("Numbers of segments compared", head, rows)
