"""How sure it is who belongs where, and who is in doubt."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixreg.errors import NotAvailableError
from mixreg.report.base_results import BaseResults
from mixreg.report.html.cards import units_of
from mixreg.report.html.markup import Html, joined, table, tag
from mixreg.report.plots.posterior_plot import counted
from mixreg.report.segments import classification

BINS, DOUBTFUL = 20, 0.8
MOST_NAMED = 10
# Of more units nobody is named: that would take all posteriors at once.
MOST_UNITS = 200_000


def certainty(res: BaseResults) -> Html:
    """How far labels can be trusted, in words and in a table."""
    found = classification(res)
    wrong = (
        f"{found.misclassification:.1%} of the {units_of(res)} are expected to have a wrong label."
    )
    text = f"{wrong} Entropy R² is {found.entropy_r2:.2f}, where 1 is certain and 0 a guess."
    ids = [_name(j) for j in found.table.columns]
    rows = [
        [_name(j), *(f"{p:.1%}" if np.isfinite(p) else "–" for p in row)]
        for j, row in zip(found.table.index, found.table.to_numpy(), strict=True)
        if found.counts[j] > 0
    ]
    head = ["Label", *ids]
    return joined([tag("p", text), table("Probability of each segment, on average", head, rows)])


def in_doubt(res: BaseResults) -> Html:
    """How many are in doubt, and some of them by name."""
    return joined([_how_many(res), _who(res)])


def _how_many(res: BaseResults) -> Html | None:
    try:
        counts = counted(res, BINS)
    except NotAvailableError:
        return None
    total = res.n_units
    sure = float(counts[:, int(DOUBTFUL * BINS) :].sum())
    share = max(0.0, 1 - sure / total) if total else 0.0
    classes = "segment" + (" and no background" if res.spec.noise else "")
    what = f"have no {classes} with a probability of {DOUBTFUL:.0%}."
    return tag("p", f"{share:.1%} of the {units_of(res)} {what}")


def _who(res: BaseResults) -> Html | None:
    """The most doubtful units, if they can be named."""
    posterior = _posterior(res)
    if posterior is None:
        return tag("p", "Nobody is named here; res.write_labels(path) writes all.", class_="quiet")
    top = posterior.max(axis=1)
    least = top[top < DOUBTFUL].nsmallest(MOST_NAMED).index
    if posterior.index.is_unique and len(least):
        rows = [_row(name, posterior.loc[name]) for name in least]
        head = [
            str(posterior.index.name or units_of(res)),
            "Likeliest",
            "Probability",
            "Next",
            "Probability",
        ]
        return table("Most in doubt", head, rows)
    return None


def _row(name: object, of: pd.Series) -> list[str]:
    first, second = of.nlargest(2).index
    return [str(name), _name(first), f"{of[first]:.0%}", _name(second), f"{of[second]:.0%}"]


def _posterior(res: BaseResults) -> pd.DataFrame | None:
    if res.fitted.tally.units.sum() > MOST_UNITS:
        return None
    try:
        found = res.posterior if res.ngroups is None else res.group_posterior
    except NotAvailableError:
        return None
    return found if isinstance(found, pd.DataFrame) else None


def _name(component: int) -> str:
    return f"Segment {component}" if component else "Noise"
