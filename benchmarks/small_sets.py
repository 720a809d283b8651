"""Small sets, real and simulated, for tables that need many fits of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import real_sets
from mixreg import MixReg, datasets


@dataclass(frozen=True)
class SmallSet:
    """A table, a formula, and the options of a model."""

    name: str
    data: pd.DataFrame
    formula: str
    options: dict[str, Any]

    def model(self, k: int) -> MixReg:
        """The model with k components."""
        return MixReg.from_formula(self.formula, self.data, k=k, **self.options)


# Bundled sets: loader, formula, options.
NMES = "visits ~ hospital + health + chronic + gender + school + insurance"
SATISFACTION = [f"q{i}" for i in range(1, 11)]
BUNDLED: dict[str, tuple[Callable[[], pd.DataFrame], str, dict[str, Any]]] = {
    "co2": (datasets.co2, "CO2 ~ GNP", {}),
    "npreg": (datasets.npreg, "yn ~ x + I(x**2)", {}),
    "npreg_groups": (datasets.npreg, "yn ~ x + I(x**2)", {"groups": "id2"}),
    "npreg_counts": (datasets.npreg, "yp ~ x", {"family": "poisson"}),
    "fabricfault": (datasets.fabricfault, "Faults ~ np.log(Length)", {"family": "poisson"}),
    "tonedata": (datasets.tonedata, "tuned ~ stretchratio", {}),
    "sim_p1_k3": (datasets.sim_p1_k3, "y ~ x1", {}),
    "sim_p2_k2": (datasets.sim_p2_k2, "y ~ x1 + x2", {}),
    "cheese": (datasets.cheese, "np.log(VOLUME) ~ DISP + np.log(PRICE)", {"groups": "RETAILER"}),
    "nmes_poisson": (datasets.nmes1988, NMES, {"family": "poisson"}),
    "nmes_negbin": (datasets.nmes1988, NMES, {"family": "negativebinomial"}),
}
REAL = ("laborsupply", "wlddev", "egsingle", "doctorvisits", "innovation", "verbagg", "camera")


def satisfaction(response: str) -> SmallSet:
    """Ratings of 1 to 10 on ratings of 1 to 10: lattices on both sides."""
    data = real_sets.read(real_sets.FOLDER / "customersat.csv.xz")
    others = " + ".join(name for name in SATISFACTION if name != response)
    return SmallSet(f"customersat_{response}", data, f"{response} ~ {others}", {})


def real_names() -> list[str]:
    """Names of the real sets, for `real`."""
    return [*BUNDLED, *REAL, "customersat_q1", "customersat_q10"]


def real(name: str) -> SmallSet:
    """A real set."""
    if name.startswith("customersat"):
        return satisfaction(name.removeprefix("customersat_"))
    if name in BUNDLED:
        load, formula, options = BUNDLED[name]
        return SmallSet(name, load(), formula, options)
    case = next(case for case in real_sets.SETS if case.name == name)
    return SmallSet(name, real_sets.load(name), case.formula, case.options)


KINDS = ("rows", "overlap", "groups", "unequal", "counts", "answers")


def simulated(seed: int) -> tuple[SmallSet, int]:
    """A small simulated set, and its number of components; kinds take turns."""
    kind, rng = KINDS[seed % len(KINDS)], np.random.default_rng([3, seed])
    k, q = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    n = int(np.exp(rng.uniform(np.log(100), np.log(600))))
    x = rng.standard_normal((n, q))
    groups = np.arange(n)
    if kind in ("groups", "answers"):
        size = int(rng.integers(3, 9))
        groups = np.arange(n) // size
    spread = rng.uniform(0.3, 1.0) if kind == "overlap" else rng.uniform(0.8, 2.0)
    spread = min(spread, 1.0) if kind == "counts" else spread
    coef = spread * rng.standard_normal((k, q + 1))
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 5.0)))[groups]
    mean = coef[labels, 0] + (x * coef[labels, 1:]).sum(axis=1)
    sigma = rng.uniform(0.1, 1.0, k) if kind == "unequal" else np.full(k, rng.uniform(0.3, 1.0))
    family: dict[str, Any] = {}
    if kind == "counts":
        y: np.ndarray = rng.poisson(np.exp(np.minimum(mean + 0.5, 6.0)))
        family = {"family": "poisson"}
    elif kind == "answers":
        y = (rng.random(n) < 1 / (1 + np.exp(-mean))).astype(int)
        family = {"family": "binomial"}
    else:
        y = mean + sigma[labels] * rng.standard_normal(n)
    names = [f"x{i}" for i in range(1, q + 1)]
    data = pd.DataFrame(x, columns=names).assign(y=y, unit=groups)
    grouped = {"groups": "unit"} if kind in ("groups", "answers") else {}
    return SmallSet(f"{kind}_{seed}", data, "y ~ " + " + ".join(names), {**family, **grouped}), k
