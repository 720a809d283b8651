"""Rounded responses: do seeds end at one maximum, with segments that ties do not explain?

    python -m benchmarks rounded [--seeds 5] [--sets cps,amis2]

Each line is one set and k: log-likelihoods of the seeds, the least adjusted Rand index between the
labels of two seeds, the least deviation of a component over the largest, how many seeds end at the
bound on the variances, and the time of a default fit over that of one random start, both in
seconds of processor time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from benchmarks.real_sets import FOLDER
from mixreg import MixReg
from mixreg.metrics import adjusted_rand_index

SPEED = "speed ~ C(period) * C(warning)"
WAGES = "np.log(earnings) ~ C(degree) + C(gender) + age + C(year)"
HOUSES = "np.log(Sale_Price) ~ np.log(Gr_Liv_Area) + Year_Built + C(Neighborhood)"
DIAMONDS = "np.log(price) ~ np.log(carat) + C(clarity)"
CASES = {
    "cps": ("cpssw9204", WAGES, 3),
    "cps4": ("cpssw9204", WAGES, 4),
    "amis2": ("amis", SPEED, 2),
    "amis3": ("amis", SPEED, 3),
    "ames2": ("ames", HOUSES, 2),
    "ames3": ("ames", HOUSES, 3),
    "diamonds3": ("diamonds", DIAMONDS, 3),
    "diamonds4": ("diamonds", DIAMONDS, 4),
}
STARTS = 5


@dataclass(frozen=True)
class Line:
    """Fits of one case from some seeds."""

    name: str
    llf: list[float]
    rand: float
    narrowest: float
    bounded: int
    ratio: float

    def __str__(self) -> str:
        heights = " ".join(f"{value:.3f}" for value in self.llf)
        return (
            f"{self.name:10s} Rand {self.rand:5.2f}  narrowest {self.narrowest:5.3f}"
            f"  at the bound {self.bounded}  ratio {self.ratio:5.1f}  {heights}"
        )


def timed(model: MixReg, **arguments: object) -> tuple[object, float]:
    """A fit, and its processor time."""
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = model.fit(**arguments)
    return fit, time.process_time() - begin


def measured(name: str, data: pd.DataFrame, formula: str, k: int, seeds: int) -> Line:
    """Fit one case."""
    model = MixReg.from_formula(formula, data, k=k)
    timed(model, init="random", n_init=1)
    plain = [timed(model, init="random", n_init=1, seed=i)[1] for i in range(STARTS)]
    fits, seconds = zip(*(timed(model, seed=seed) for seed in range(seeds)), strict=True)
    rand = [adjusted_rand_index(a.labels, b.labels) for a, b in combinations(fits, 2)]
    return Line(
        name,
        [float(fit.llf) for fit in fits],
        min(rand, default=1.0),
        min(float(fit.scale.min() / fit.scale.max()) for fit in fits),
        sum(bool(fit.fitted.binds) for fit in fits),
        float(np.median(seconds) / np.median(plain)),
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks rounded",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", help="names of cases, with commas between")
    chosen = parser.parse_args(arguments)
    for name in chosen.sets.split(",") if chosen.sets else CASES:
        file, formula, k = CASES[name]
        data = pd.read_csv(FOLDER / f"{file}.csv.xz")
        print(measured(name, data, formula, k, chosen.seeds), flush=True)
