"""Sections of the report, each a heading and what stands below it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixreg.errors import NotAvailableError
from mixreg.report.base_results import BaseResults
from mixreg.report.diagnostics import DOUBTFUL, Diagnostics
from mixreg.report.html.cards import units_of
from mixreg.report.html.contrasts import is_intercept
from mixreg.report.html.markup import Html, joined, listed, table, tag
from mixreg.report.importance import importance
from mixreg.report.notes import notes_of
from mixreg.report.segments import SegmentProfile
from mixreg.report.summary import METHOD_NAMES, STOPPED
from mixreg.report.tidy import glance, point_estimates, tidy


def section(name: str, title: str, *parts: Any) -> Html:
    """A part of the page with its heading."""
    return tag("section", tag("h2", title, id=name), *parts, aria_labelledby=name)


def coefficients(res: BaseResults) -> Html:
    """All coefficients, with intervals where they are known."""
    make = point_estimates if res.fitted.estimate.cov is None else tidy
    rows = []
    for row in make(res, False, 0.95, "coefficients").to_dict("records"):
        j = row["component"]
        who = "All segments" if j is None or j != j or str(j) == "<NA>" else f"Segment\u00a0{j}"
        keys = ("estimate", "std_error", "conf_low", "conf_high")
        numbers = [_number(row.get(key)) for key in keys]
        rows.append([row["term"], who, *numbers, _p(row.get("p_value"))])
    head = ["Term", "Segment", "Estimate", "Std. error", "95% from", "to", "p-value"]
    return table("Coefficients", head, rows, numbers=2)


def _number(value: Any) -> str:
    return "–" if value is None or not np.isfinite(value) else minus(f"{value:.4g}")


def minus(text: str) -> str:
    """Numbers with a minus sign in place of a dash."""
    return text.replace("-", "−")


def _p(value: Any) -> str:
    if value is None or not np.isfinite(value):
        return "–"
    return "<\u00a00.001" if value < 0.001 else f"{value:.3f}"


def importances(res: BaseResults) -> Html | None:
    """Conjoint importance of each attribute, where the rows can tell it."""
    try:
        found = importance(res)
    except NotAvailableError:
        return None
    head = ["Attribute", *(f"Segment {j}" for j in found.columns)]
    rows = [[name, *(f"{value:.0f}%" for value in row)] for name, row in found.iterrows()]
    return table("Importance: how much of the range of utility is an attribute's", head, rows)


def profile_table(profile: SegmentProfile) -> Html:
    """Means and shares of the outside variables, by segment."""
    names = {0: "Noise", "overall": "All"}
    head = ["Variable", "Shown", *(names.get(j, f"Segment {j}") for j in profile.table.columns)]
    rows = []
    for (name, level), row in profile.table.iterrows():
        number = list(profile.table.loc[[name]].index.get_level_values(1)) == ["mean", "sd"]
        shown = [_number(v) if number else f"{v:.0%}" for v in row]
        rows.append([name, level if number else f"share of {level}", *shown])
    return table("Outside variables by segment", head, rows, numbers=2)


def profile_tests(profile: SegmentProfile) -> Html:
    """Tests of differences between the segments, by variable."""
    rows = [
        [
            name,
            row["test"],
            _number(row["statistic"]),
            _p(row["p value"]),
            _number(row["effect size"]),
        ]
        for name, row in profile.tests.iterrows()
    ]
    head = ["Variable", "Test", "Statistic", "p-value", "Effect size"]
    return table("Tests of differences", head, rows, numbers=2)


def criteria(res: BaseResults) -> Html:
    """The fit in numbers."""
    row = glance(res).iloc[0]
    shown = {
        "Method": METHOD_NAMES.get(res.method, res.method),
        "How it ended": STOPPED.get(res.fitted.reason, res.fitted.reason),
        "Rows": f"{row['nobs']:,}",
        "Groups": "none" if res.ngroups is None else f"{res.ngroups:,}",
        "Free parameters": row["df_model"],
        "Log-likelihood": minus(f"{row['llf']:,.2f}"),
        **{
            name.upper(): minus(f"{row[name]:,.2f}")
            for name in ("aic", "bic", "caic", "hqic", "icl")
        },
        "n in the criteria": f"{res.n_units:,.8g} ({'rows' if res.ngroups is None else 'groups'})",
    }
    return table("Fit", ["What", "Value"], [[key, value] for key, value in shown.items()])


def searched(res: BaseResults, found: Diagnostics) -> Html:
    """How the search went, in words."""
    search = res.fitted.search
    if search is None:
        return tag("p", "There was no search: the fit began at one start, or at random ones.")
    hits, others = search.hits[0] if search.hits else 0, len(search.heights) - 1
    lesser = f" {others} lesser maxima were met by starts and moves." if others else ""
    text = (
        f"{search.starts} independent starts were run to the end, and {hits} of them led to the "
        f"fit that is reported.{lesser} {search.moves} moves were tried against the best, and "
        f"{search.accepted} kept. "
    )
    if res.fitted.certified:
        return tag("p", f"{text}The fit is exact, and proven to be the only one.")
    text += f"One more start would find a better fit with a chance of about {search.chance:.1%}."
    if search.chance > DOUBTFUL:
        text += " That is much: fit again with a larger n_init."
    return joined([tag("p", text), _page(found)])


def _page(found: Diagnostics) -> Html:
    title = "Diagnostics"
    return tag("pre", str(found), tabindex="0", role="region", aria_label=title)


def assumptions(res: BaseResults) -> Html:
    """What the numbers rest on."""
    spec, units = res.spec, units_of(res)
    items = [
        f"The {units} come from {len(res.alive)} segments, each with coefficients of its own.",
        *([] if res.ngroups is None else [f"All rows of one of the {units} are in one segment."]),
        "Within a segment, rows do not depend on each other beyond their regressors.",
        *[_distribution(response) for response in spec.responses],
        *_of_classes(res),
        "What goes with a regressor need not be caused by it.",
    ]
    return joined([listed(items), tag("h3", "Notes of the fit"), listed(notes_of(res))])


def _distribution(response: Any) -> str:
    family = response.family
    if family.takes_sets:
        return "Of each choice set, one alternative is taken, by a logit of its utility."
    return (
        f"Given segment and regressors, {response.name} follows the {family.name} family with a "
        f"{family.link_name} link, as the residual plots let one check."
    )


def _of_classes(res: BaseResults) -> list[str]:
    spec, found = res.spec, []
    if spec.gate_design is None:
        found.append("How likely each segment is does not depend on anything that was observed.")
    else:
        named = [name for name in spec.layout.gate if not is_intercept(name)]
        found.append(f"How likely each segment is depends on {', '.join(named)}, by a logit.")
    if spec.shared:
        shared = [spec.exog_names[i] for i in spec.shared]
        found.append(f"{', '.join(shared)}: the same in all segments.")
    return found
