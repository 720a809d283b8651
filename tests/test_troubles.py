"""The page of what can go wrong has an entry for all that the package warns of or notes."""

import inspect
import re
from pathlib import Path

import pytest

from mixreg import errors
from mixreg.inference import covariance
from mixreg.report import notes

PAGE = (Path(__file__).parents[1] / "docs" / "troubles.md").read_text(encoding="utf-8")
HEADINGS = [line.removeprefix("### ") for line in PAGE.splitlines() if line.startswith("### ")]
CLASSES = [
    name
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, Exception) and kind.__module__ == errors.__name__
]
# A part of the text of each note, and of the heading of its entry.
NOTES = {
    "Standard errors": "Standard errors from",
    "Priors, in standard units": "Priors, in standard units",
    "Approximate in the ELBO": "Approximate in the ELBO",
    "recovery is certified": "Recovery is certified",
    "Zero loss, but no proof": "Zero loss, but no proof",
    "were left out": "Rows were left out",
    "Case weights": "Case weights",
    "Levels of": "Levels that no row has",
    "share one": "All components share one",
    "were known": "Labels were known",
    "Noise spreads evenly": "Noise spreads evenly",
    "separated: ": "A component is separated",
    "Concomitants separate": "Concomitants separate",
    "The bound on the variances": "The bound on the variances",
    "small and tight": "small and tight",
    "most likely one": "most likely one",
    "has no rows that determine": "No rows determine",
    "some standard errors are infinite": "Some standard errors are infinite",
    "are rounded, ": "Values are rounded",
    "would live on tied values": "wider than at the nearest maximum",
    "have other segments": "Other maxima have other segments",
    "might find a better maximum": "might find a better maximum",
    "seeded anew": "seeded anew",
    " empty; try": "is empty",
    "did not converge": "did not converge",
    "at the end of their range": "Means lie at the end of their range",
    "was interrupted": "was interrupted",
    "not needed": "is not needed",
}


@pytest.mark.parametrize("name", CLASSES)
def test_warnings_and_errors_have_an_entry(name):
    assert name in HEADINGS


@pytest.mark.parametrize("part", NOTES)
def test_notes_have_an_entry(part):
    source = inspect.getsource(notes) + inspect.getsource(covariance)
    assert part in source
    assert any(NOTES[part] in heading for heading in HEADINGS)


def test_no_note_is_missing_here():
    source = inspect.getsource(notes)
    made = re.findall(r"notes\.append\(|return \[\n? *f\"", source)
    # The first note and the priors are made in other ways.
    assert len(made) + 2 == len(NOTES)
