"""Each segment on a card: how large, what it responds to, who is in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mixreg.report.base_results import BaseResults
from mixreg.report.html.contrasts import CLEAR, Contrast, contrasts, gate_contrasts, level_contrast
from mixreg.report.html.effects import Effect, effects, signed
from mixreg.report.html.markup import Html, listed, tag
from mixreg.report.notes import separated_terms, some_of
from mixreg.report.plots.profile_plot import distances
from mixreg.report.plots.style import COLOURS
from mixreg.report.segments import SegmentProfile, segments

MOST_LINES = 4
# A variable is told where a segment is so many standard deviations from the average, and the
# test of its differences has a p-value below the second.
FAR, SURE = 0.2, 0.05


@dataclass(frozen=True, eq=False)
class Segment:
    """What is told of a segment.

    Attributes
    ----------
    number : int
        0 is the background.
    size, share, certainty : float
        Of the units that have its label.
    weight : float
        Its mixing weight.
    units : str
        "rows", or what groups are called.
    contrasts : list of Contrast
    members : list of str
        Who is in it.
    """

    number: int
    size: float
    share: float
    weight: float
    certainty: float
    units: str
    contrasts: list[Contrast]
    members: list[str]

    @property
    def name(self) -> str:
        """As in the plots."""
        return f"Segment {self.number}" if self.number else "No segment (noise)"


def described(res: BaseResults, profile: SegmentProfile | None) -> list[Segment]:
    """All segments that rows are in, in their order."""
    table = segments(res)
    shown = [j for j in res.spec.classes if j == 0 or j in res.alive]
    found = []
    for j in shown:
        row = table.loc[j]
        told = contrasts(res, j) if j else []
        who = _members(res, profile, j) if j else []
        columns = ("size", "share", "mixing weight", "certainty")
        size, share, weight, sure = (float(row[name]) for name in columns)
        found.append(Segment(j, size, share, weight, sure, units_of(res), told, who))
    return found


def units_of(res: BaseResults) -> str:
    """What gets a label: rows, or groups by the name of their column."""
    if res.ngroups is None:
        return "rows"
    name = res.spec.groups_name
    return "groups" if name is None else f"groups ({name})"


def sentence(res: BaseResults, segment: Segment, told: list[Effect]) -> str:
    """What a segment does, in plain words."""
    if not segment.number:
        return "They follow no segment, and lie anywhere in the range of the response."
    clear = [c for c in segment.contrasts if c.clear]
    if not clear:
        return _alike(res, segment)
    first = clear[0]
    effect = told[first.term]
    text = f"Here {effect.cause} goes with {effect.outcome(first.value)}"
    if np.isnan(first.others):
        return f"{text}."
    return f"{text}; in the {_others(res)} with {effect.outcome(first.others, named=False)}."


def _alike(res: BaseResults, segment: Segment) -> str:
    """What is said of a segment without clear contrasts."""
    if segment.contrasts and all(np.isnan(c.z) for c in segment.contrasts):
        return "How far it differs is not known: there are no standard errors."
    if len(res.alive) == 1:
        return "No regressor has a clear effect." if segment.contrasts else ""
    level = level_contrast(res, segment.number)
    if abs(level) >= CLEAR:
        where = "higher" if level > 0 else "lower"
        return f"It responds much as the others do, at a {where} level (intercept)."
    return "It does not differ clearly from the others in any coefficient."


def _others(res: BaseResults) -> str:
    return "other segment" if len(res.alive) == 2 else "other segments on average"


def line(contrast: Contrast, effect: Effect) -> Html:
    """A contrast on a card: how it differs, then the numbers."""
    if np.isnan(contrast.others):
        return tag("span", f"{effect.cause}: {effect.outcome(contrast.value)}")
    numbers = f"{signed(contrast.value)} against {signed(contrast.others)}"
    what = tag("strong", _bare(effect))
    return tag("span", what, f" {how(contrast)} ", tag("span", numbers, class_="quiet"))


def _bare(effect: Effect) -> str:
    """What an effect is of, without how much of it."""
    for begin in ("one more ", "1% more ", "the term "):
        if effect.cause.startswith(begin):
            return effect.cause.removeprefix(begin)
    return effect.cause


def how(contrast: Contrast) -> str:
    """How a coefficient stands to those of the others."""
    value, others = contrast.value, contrast.others
    if value * others < 0 and abs(contrast.own) >= CLEAR:
        return "works the other way:"
    if abs(contrast.own) < CLEAR:
        return "hardly matters:"
    return "matters more:" if abs(value) > abs(others) else "matters less:"


def card(res: BaseResults, segment: Segment, told: list[Effect]) -> Html:
    """The card of a segment."""
    clear = [c for c in segment.contrasts if c.clear][:MOST_LINES]
    lines = [line(c, told[c.term]) for c in clear]
    head = tag("h3", tag("span", class_="dot"), segment.name)
    share = tag(
        "p",
        tag("span", f"{segment.share:.0%}", class_="big"),
        f" {_count(segment.size)} {segment.units} {'assigned' if segment.number else 'in none'}",
    )
    average = "mixing weight" if res.spec.mixture.gate.constant else "average mixing weight"
    weight = tag("p", f"Estimated share ({average}): {segment.weight:.0%}.", class_="quiet")
    parts: list[Html | None] = [head, share, weight, tag("p", sentence(res, segment, told))]
    if lines:
        title = "Compared with the others" if len(res.alive) > 1 else "What matters"
        parts += [tag("h4", title), listed(lines)]
    if segment.members:
        parts += [tag("h4", "Who is in it"), listed(segment.members)]
    parts += [tag("p", doubt, class_="care") for doubt in _doubts(res, segment)]
    who = "Members belong here" if segment.number else "They belong to no segment"
    sure = f"{who} with a probability of {segment.certainty:.0%} on average."
    if np.isfinite(segment.certainty) and len(res.spec.classes) > 1:
        parts.append(tag("p", sure, class_="quiet"))
    return tag("article", *parts, class_="card", style=f"--own: {colour(segment.number)}")


def colour(component: int) -> str:
    """The variable of the page that has the colour of a component."""
    return f"var(--c{(component - 1) % len(COLOURS) + 1})" if component else "var(--noise)"


def _doubts(res: BaseResults, segment: Segment) -> list[str]:
    fitted, j = res.fitted, segment.number - 1
    found = []
    if j in fitted.suspects:
        found.append("Small and tight: chance may explain this segment.")
    if j in fitted.estimate.separated:
        names = some_of(separated_terms(res)[j])
        told = "run off to infinity: only their signs mean something"
        found.append(f"Coefficients of {names} {told}.")
    if segment.number and segment.size == 0:
        found.append("Nobody is assigned to it: its members are likelier elsewhere.")
    return found


def _members(res: BaseResults, profile: SegmentProfile | None, component: int) -> list[str]:
    """Who is in a segment: by concomitants, and by outside variables."""
    found = []
    for name, z in gate_contrasts(res, component).items():
        found.append(f"likelier the {'higher' if z > 0 else 'lower'} {name}")
    return found + ([] if profile is None else _profiled(profile, component))


def _profiled(profile: SegmentProfile, component: int) -> list[str]:
    """Variables in which a segment is far from the average, the farthest first."""
    far = distances(profile.table)[component].dropna()
    far = far[[profile.tests.loc[name, "p value"] < SURE for name, _ in far.index]]
    lines: dict[str, tuple[float, str]] = {}
    for (name, level), distance in far.items():
        enough = abs(distance) >= FAR if level == "" else distance >= FAR
        if enough and abs(distance) > lines.get(name, (0.0, ""))[0]:
            lines[name] = (abs(distance), _fact(profile.table, name, level, component))
    return [text for _, text in sorted(lines.values(), key=lambda pair: -pair[0])[:MOST_LINES]]


def _fact(table: pd.DataFrame, name: str, level: str, component: int) -> str:
    if level == "":
        here, overall = table.loc[(name, "mean"), [component, "overall"]]
        return f"{'higher' if here > overall else 'lower'} {name}: {here:.4g} (all: {overall:.4g})"
    here, overall = table.loc[(name, level), [component, "overall"]]
    return f"more often {name} = {level}: {here:.0%} (all: {overall:.0%})"


def _count(size: float) -> str:
    return f"{size:,.0f}" if float(size).is_integer() else f"{size:,.1f}"


def bar(found: list[Segment]) -> Html:
    """Sizes of the segments on one line; the cards have the numbers."""
    parts = [
        tag("span", style=f"flex-grow: {max(s.share, 0.001):.4f}; background: {colour(s.number)}")
        for s in found
    ]
    return tag("div", *parts, class_="bar", aria_hidden="true")


def cards(res: BaseResults, found: list[Segment]) -> Html:
    """All cards, in rows of three, or of two where one would be left over."""
    told = effects(res)
    return tag(
        "div",
        *(card(res, segment, told) for segment in found),
        class_=f"cards{' two' if len(found) % 3 == 1 else ''}",
    )
