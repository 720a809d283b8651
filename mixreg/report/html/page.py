"""The report as one page that needs nothing beside itself."""

from __future__ import annotations

from datetime import date
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from mixreg.report.base_results import BaseResults
from mixreg.report.diagnostics import Diagnostics
from mixreg.report.html import drawings, sections
from mixreg.report.html.calls import code_of
from mixreg.report.html.cards import bar, cards, described, units_of
from mixreg.report.html.chosen import Choice, check_selection, compared, why
from mixreg.report.html.doubt import certainty, in_doubt
from mixreg.report.html.effects import without_log
from mixreg.report.html.markup import Html, joined, tag
from mixreg.report.segments import SegmentProfile, profile


def make_page(
    res: BaseResults, diagnostics: Diagnostics, data: Any, selection: Any, title: str | None
) -> str:
    """The whole report; see `MixRegResults.report`."""
    if selection is not None:
        check_selection(res, selection)
    outside = None if data is None else profile(res, data)
    names = [without_log(name) for name in res.spec.response_names]
    title = title or f"Segments by {', '.join(names)}"
    parts = _sections(res, diagnostics, data, outside, selection)
    body = [
        _header(res, title, parts),
        tag("main", *(sections.section(*part) for part in parts)),
        tag("footer", tag("p", f"Made by mixreg {version('mixreg')} on {date.today():%Y-%m-%d}.")),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(files(__package__).joinpath("report.css").read_text("utf-8"))),
    ]
    page = tag("html", tag("head", *head), tag("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _sections(
    res: BaseResults, diagnostics: Diagnostics, data: Any, outside: Any, selection: Choice | None
) -> list[tuple[Any, ...]]:
    """Sections as name, title and parts, in their order."""
    found = described(res, outside)
    alone = len(res.spec.classes) == 1
    sure = [certainty(res), in_doubt(res), drawings.posterior_figure(res)]
    made = [
        ("segments", "The segments", why(res, selection), bar(found), cards(res, found)),
        ("number", "How many segments", *_number(res, selection)),
        ("responses", "What they respond to", *_responses(res)),
        ("members", "Who is in them", *_members(res, data, outside)),
        ("certainty", "How sure that is", *sure),
        ("fit", "How well the model fits", sections.criteria(res), drawings.residual_figure(res)),
        ("search", "How the search went", *_search(res, diagnostics)),
        ("assumptions", "What this rests on", sections.assumptions(res)),
        ("code", "The code that made it", _code(res)),
    ]
    left_out = {*(["certainty"] if alone else []), *([] if selection else ["number"])}
    return [part for part in made if part[0] not in left_out]


def _number(res: BaseResults, selection: Choice | None) -> list[Html]:
    if selection is None:
        return []
    return [drawings.selection_figure(selection), compared(res, selection)]


def _header(res: BaseResults, title: str, parts: list[tuple[Any, ...]]) -> Html:
    """Title, what was fitted, and a way to each section."""
    formulas = [response.design.formula or response.name for response in res.spec.responses]
    n = f"{res.nobs:,} rows"
    if res.ngroups is not None:
        n += f" of {res.ngroups:,} {units_of(res)}"
    links = [tag("li", tag("a", part[1], href=f"#{part[0]}")) for part in parts]
    nav = tag("nav", tag("ul", *links), aria_label="Sections")
    model = joined([tag("code", formula) for formula in formulas], ", ")
    return tag("header", tag("h1", title), tag("p", n, "; model ", model), nav)


def _responses(res: BaseResults) -> list[Html | None]:
    choices = res.spec.family.takes_sets
    lines = None if choices else drawings.component_figure(res)
    worth = sections.importances(res) if choices else None
    return [drawings.coefficient_figure(res), worth, lines, sections.coefficients(res)]


def _members(res: BaseResults, data: Any, outside: SegmentProfile | None) -> list[Html]:
    if outside is None:
        told = (
            "No table of outside variables was given; report(path, data=...) describes the "
            "segments by its columns."
        )
        return [tag("p", told)]
    tables = sections.profile_table(outside), sections.profile_tests(outside)
    dates = f"Dates are left out: {', '.join(outside.left_out)}." if outside.left_out else ""
    notes = [tag("p", dates)] if dates else []
    return [drawings.profile_figure(res, data, outside), *notes, *tables]


def _search(res: BaseResults, diagnostics: Diagnostics) -> list[Html | None]:
    return [sections.searched(res, diagnostics), drawings.search_figure(res)]


def _code(res: BaseResults) -> Html:
    code = tag("code", code_of(res))
    return tag("pre", code, tabindex="0", role="region", aria_label="Code")
