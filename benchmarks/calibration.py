"""Is the chance of a better maximum that a fit claims the chance that there is one?

Default fits of many small data sets; then further starts from random labels, each run to the end.
A fit is beaten if one of them ends higher by more than 0.01. The default fit passes over maxima
with components that chance explains, or that the bound on the variances holds: those that only
such a maximum beats are counted beside the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.small_sets import KINDS, SmallSet, real, simulated
from benchmarks.starts import random_labels
from benchmarks.workers import run_all

HIGHER = 0.01
# Upper ends of the bins of the claimed chance.
BINS = (0.01, 0.05, 0.2, 1.0)
# Real sets on which two hundred starts are affordable, at several k.
REAL = [
    *(("co2", k) for k in (2, 3)),
    *(("npreg", k) for k in (2, 3, 4)),
    *(("npreg_groups", k) for k in (2, 3, 4)),
    *(("npreg_counts", k) for k in (2, 3)),
    *(("fabricfault", k) for k in (2, 3)),
    *(("tonedata", k) for k in (2, 3, 4)),
    *(("sim_p1_k3", k) for k in (2, 3, 4)),
    *(("sim_p2_k2", k) for k in (2, 3, 4)),
    *(("cheese", k) for k in (2, 3, 4, 5, 6)),
    *(("laborsupply", k) for k in (2, 3, 4)),
    *(("wlddev", k) for k in (3, 4, 5)),
    *(("verbagg", k) for k in (2, 3, 4)),
    *(("doctorvisits", k) for k in (2, 3)),
    *(("nmes_poisson", k) for k in (2, 3)),
    *(("customersat_q10", k) for k in (2, 3)),
]


def draw(number: int) -> tuple[SmallSet, int]:
    """A set and its k: every fourth is real while there are any, others are simulated.

    Of the simulated ones every third is fitted with a component too many.
    """
    if number % 4 == 3 and number // 4 < len(REAL):
        name, k = REAL[number // 4]
        return real(name), k
    case, k = simulated(number)
    return case, k + int(number // len(KINDS) % 3 == 0)


@dataclass(frozen=True)
class Claim:
    """What a fit claimed, and what further starts found."""

    name: str
    k: int
    chance: float
    gain: float  # best sound further start over the default fit
    any_gain: float  # best further start of any kind

    @property
    def beaten(self) -> bool:
        return self.gain > HIGHER

    @property
    def passed_over(self) -> bool:
        return self.any_gain > HIGHER and not self.beaten


def try_set(job: tuple[int, int]) -> Claim:
    """Fit one set and start it again and again."""
    number, starts = job
    case, k = draw(number)
    model = case.model(k)
    default = model.fit()
    search = default.diagnostics.search
    gain = any_gain = -np.inf
    for seed in range(starts):
        labels = random_labels(model.source.units, k, 1000 + seed)
        end = model.fit(init=labels, cov_type="none")
        more = float(end.llf - default.llf)
        any_gain = max(any_gain, more)
        sound = not (end.solution.suspects or end.solution.binds or end.solution.empty)
        gain = max(gain, more) if sound else gain
    return Claim(case.name, k, 0.0 if search is None else search.chance, gain, any_gain)


def table(claims: list[Claim]) -> list[str]:
    """Lines by bins of the claimed chance, then the fits that were beaten."""
    lines = ["  claimed   fits   beaten   only by passed over maxima"]
    low = -1.0
    for high in BINS:
        here = [claim for claim in claims if low < claim.chance <= high]
        name = f"<= {high:.0%}" if high < 1 else "more"
        passed = sum(claim.passed_over for claim in here)
        beaten = sum(claim.beaten for claim in here)
        lines.append(f"{name:>9s}{len(here):7d}{beaten:9d}{passed:29d}")
        low = high
    for claim in claims:
        if claim.beaten:
            what = f"{claim.name} k={claim.k}: claimed {claim.chance:.1%}"
            lines.append(f"  beaten: {what}, by {claim.gain:.2f}")
    return lines


def main(trials: int = 300, starts: int = 200, workers: int = 2) -> None:
    print(f"Claimed chance of a better maximum, and {starts} further starts on {trials} sets")
    claims = run_all(try_set, [(number, starts) for number in range(trials)], workers)
    print(*table(claims), sep="\n", flush=True)
