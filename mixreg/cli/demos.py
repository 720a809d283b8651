"""Fits of the bundled data sets, with the question that each answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mixreg import datasets
from mixreg.errors import InputError
from mixreg.model import MixReg
from mixreg.results import MixRegResults

# Members of a segment that are named.
MOST_NAMED = 4


@dataclass(frozen=True)
class Demo:
    """A data set, and what is asked of it.

    Attributes
    ----------
    question : str
    formula : str
    k : int
    options : dict
        Other arguments of `MixReg.from_formula`.
    says : dict
        What coefficients of a segment are told, and in which words.
    """

    question: str
    formula: str
    k: int
    options: Mapping[str, Any] = field(default_factory=dict)
    says: Mapping[str, str] = field(default_factory=dict)

    def call(self, name: str) -> str:
        """The call that fits it, as a user writes it."""
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        return f'MixReg.from_formula("{self.formula}", {name}, k={self.k}{options}).fit()'


DEMOS = {
    "cheese": Demo(
        "Weekly cheese sales of 88 retailers; which ones react to price, which to display?",
        "np.log(VOLUME) ~ DISP + np.log(PRICE)",
        3,
        {"groups": "RETAILER"},
        {"np.log(PRICE)": "price elasticity", "DISP": "display effect"},
    ),
    "tonedata": Demo(
        "A musician tunes a tone to the octave; by the octave itself, or by the overtones heard?",
        "tuned ~ stretchratio",
        2,
        {},
        {"stretchratio": "slope"},
    ),
    "co2": Demo(
        "Carbon dioxide and national product of 28 countries: one path of growth, or two?",
        "CO2 ~ GNP",
        2,
        {},
        {"GNP": "slope"},
    ),
    "fabricfault": Demo(
        "Faults in rolls of fabric: do they grow with the length in the same way everywhere?",
        "Faults ~ np.log(Length)",
        2,
        {"family": "poisson"},
        {"np.log(Length)": "elasticity of the length"},
    ),
    "nmes1988": Demo(
        "Visits to the doctor of 4,406 people over 65: who goes often, and why?",
        "visits ~ hospital + health + chronic",
        2,
        {"family": "poisson"},
        {"hospital": "effect of a stay in hospital", "chronic": "effect of a chronic condition"},
    ),
    "camera": Demo(
        "Cameras chosen in a conjoint study: who pays for the zoom, who for the brand?",
        "chosen ~ canon + zoom + price",
        2,
        {"family": "choice", "choice_set": "task", "groups": "id"},
        {"price": "price", "zoom": "zoom", "canon": "Canon"},
    ),
}


def run_demo(name: str) -> None:
    """Fit a bundled data set, print the summary and the segments."""
    if name not in DEMOS:
        raise InputError(f"there is no demo {name!r}; there are {', '.join(DEMOS)}")
    demo = DEMOS[name]
    data = getattr(datasets, name)()
    print(f"{demo.question}\n{demo.call(name)}\n")
    begin = time.perf_counter()
    model = MixReg.from_formula(demo.formula, data, k=demo.k, **demo.options)
    results = model.fit()
    seconds = time.perf_counter() - begin
    print(results.summary())
    print("\nSegments")
    for component in results.components:
        for line in _segment(results, component, demo.says):
            print(line)
    print(f"\nFitted in {seconds:.2f} s.")


def _segment(results: MixRegResults, component: int, says: Mapping[str, str]) -> list[str]:
    """A segment in words, and some of its members."""
    grouped = results.ngroups is not None
    labels = results.group_labels if grouped else results.labels
    posterior = results.group_posterior if grouped else results.posterior
    members = labels.index[labels == component]
    unit = f"{str(labels.index.name or 'group').lower()}s" if grouped else "rows"
    told = [
        f"{words} {results.coefficients.loc[term, component]:.2f}" for term, words in says.items()
    ]
    certainty = np.mean(posterior.loc[members].max(axis=1)) if len(members) else np.nan
    text = f"  {component}: {len(members)} {unit}, {', '.join(told)}, average certainty "
    lines = [f"{text}{certainty:.3f}"]
    if grouped and pd.api.types.is_object_dtype(np.asarray(members).dtype):
        lines.append(f"     {'; '.join(map(str, members[:MOST_NAMED]))}; ...")
    return lines


def list_datasets() -> None:
    """Print the bundled data sets: name, size, and what they are."""
    rows = []
    for name in datasets.__all__:
        load = getattr(datasets, name)
        frame = load()
        about = str(load.__doc__).strip().splitlines()[0]
        rows.append((name, f"{len(frame):,}", str(frame.shape[1]), about))
    heads = ("name", "rows", "columns", "about")
    widths = [max(len(row[i]) for row in [*rows, heads]) for i in range(3)]
    for name, size, width, about in [heads, *rows]:
        print(f"{name:<{widths[0]}}  {size:>{widths[1]}}  {width:>{widths[2]}}  {about}")
