"""Reference fits with concomitant variables, or with shared terms, made with R."""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from mixreg import datasets


@dataclass(frozen=True, eq=False)
class Numbers:
    """Estimates or standard errors, components first."""

    coefficients: np.ndarray  # (k, p)
    log_sigma: np.ndarray  # (k,), (0,) for counts
    gate: np.ndarray  # (k - 1, q), components 2..k against component 1


@dataclass(frozen=True, eq=False)
class GateReference:
    """One case: what was fitted, and the numbers R found."""

    case: str
    call: str
    software: dict[str, str]
    dataset: str
    formula: str
    family: str
    concomitant: str | None
    groups: str | None
    shared: tuple[str, ...]
    equal_variance: bool
    k: int
    n: int
    df: int
    llf: float  # at the maximum
    flexmix_llf: float  # what R prints
    terms: tuple[str, ...]
    gate_terms: tuple[str, ...]
    weights: np.ndarray  # (k,), averages of the class probabilities
    ml: Numbers
    se: Numbers
    refit_se: Numbers

    def __str__(self) -> str:
        return self.case

    def data(self) -> pd.DataFrame:
        data: pd.DataFrame = getattr(datasets, self.dataset)()
        if self.dataset == "cheese":
            shop = data.groupby("RETAILER")
            price = np.log(data["PRICE"]).groupby(data["RETAILER"]).transform("mean")
            data = data.assign(weeks=shop["VOLUME"].transform("size"), price=price)
        return data


def gate_cases(prefix: str = "") -> list[GateReference]:
    """Load the cases whose name begins with `prefix`, in alphabetical order."""
    files = (f for f in resources.files(__package__).iterdir() if f.name.endswith(".json"))
    found = [_reference(json.loads(f.read_text(encoding="utf-8"))) for f in files]
    return sorted((c for c in found if c.case.startswith(prefix)), key=str)


def _reference(stored: dict[str, Any]) -> GateReference:
    ml, flexmix = stored.pop("ml"), stored.pop("flexmix")
    return GateReference(
        **{**stored, "shared": tuple(stored["shared"])},
        llf=ml["llf"],
        flexmix_llf=flexmix["llf"],
        terms=tuple(ml["coefficients"][0]),
        gate_terms=tuple(ml["gate"][0]),
        weights=np.array(ml["weights"]),
        ml=_numbers(ml),
        se=_numbers(ml["se"]),
        refit_se=_numbers(flexmix["refit_se"]),
    )


def _numbers(stored: dict[str, Any]) -> Numbers:
    return Numbers(
        np.array([list(row.values()) for row in stored["coefficients"]]),
        np.array(stored["log_sigma"], dtype=float),
        np.array([list(row.values()) for row in stored["gate"]]),
    )
