"""Reference fits made with R. The README beside this file says how."""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from mixreg import datasets


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """Standard errors on the scale R uses, components first."""

    coefficients: np.ndarray  # (k, p)
    log_sigma: np.ndarray  # (k,)
    log_odds: np.ndarray  # (k - 1,), log(prior_j / prior_1) for j = 2..k


@dataclass(frozen=True, eq=False)
class Reference:
    """One case: what was fitted, and the numbers R found."""

    case: str
    call: str
    software: dict[str, str]
    dataset: str
    formula: str
    groups: str | None
    k: int
    n: int
    n_groups: int
    df: int
    best_known: float  # highest log-likelihood found by any means
    terms: tuple[str, ...]  # names of the p coefficients, as patsy writes them
    llf: float  # log-likelihood at the maximum that follows
    aic: float
    bic_rows: float
    bic_groups: float
    entropy: float  # of the posterior, summed over groups
    weights: np.ndarray  # (k,), descending
    coefficients: np.ndarray  # (k, p)
    sigma: np.ndarray  # (k,)
    se: StandardErrors
    flexmix_llf: float
    flexmix_refit_se: StandardErrors

    def __str__(self) -> str:
        return self.case

    @property
    def is_best_known(self) -> bool:
        """False where `llf` belongs to a lower optimum than `best_known`."""
        return self.llf > self.best_known - 1e-6

    def data(self) -> pd.DataFrame:
        return getattr(datasets, self.dataset)()


def cases(prefix: str = "") -> list[Reference]:
    """Load the cases whose name begins with `prefix`, in alphabetical order."""
    files = (f for f in resources.files(__package__).iterdir() if f.name.endswith(".json"))
    found = [_reference(json.loads(f.read_text(encoding="utf-8"))) for f in files]
    return sorted((c for c in found if c.case.startswith(prefix)), key=str)


def case(name: str) -> Reference:
    """Load one case by its full name."""
    return next(c for c in cases(name) if c.case == name)


def _reference(stored: dict[str, Any]) -> Reference:
    ml, flexmix = stored.pop("ml"), stored.pop("flexmix")
    components = ml.pop("components")
    terms = tuple(components[0]["coef"])
    return Reference(
        **{**stored, "best_known": stored["best_known"]["llf"]},
        **{name: ml[name] for name in ("llf", "aic", "bic_rows", "bic_groups", "entropy")},
        terms=terms,
        weights=np.array([c["prior"] for c in components]),
        coefficients=_table([c["coef"] for c in components], terms),
        sigma=np.array([c["sigma"] for c in components]),
        se=_standard_errors(ml["se"], terms),
        flexmix_llf=flexmix["llf"],
        flexmix_refit_se=_standard_errors(flexmix["refit_se"], terms),
    )


def _standard_errors(stored: dict[str, Any], terms: tuple[str, ...]) -> StandardErrors:
    return StandardErrors(
        coefficients=_table(stored["coefficients"], terms),
        log_sigma=np.array(stored["log_sigma"]),
        log_odds=np.array(stored["log_odds"]),
    )


def _table(rows: list[dict[str, float]], terms: tuple[str, ...]) -> np.ndarray:
    return np.array([[row[term] for term in terms] for row in rows])
