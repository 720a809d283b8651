"""Reference fits of counts, yes-or-no responses and choices, made with R."""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from mixreg import datasets


@dataclass(frozen=True, eq=False)
class Part:
    """One response: its regression in every component.

    Components come first. Where a component lacks a term, its coefficient is 0 and its standard
    error is missing (NaN).
    """

    family: str  # "poisson", "binomial", "choice" or "gaussian"
    formula: str
    offset: str | None  # patsy term with coefficient 1
    shared: tuple[str, ...]  # terms with one coefficient for all components
    terms: tuple[str, ...]  # names of the p coefficients, as patsy writes them
    coefficients: np.ndarray  # (k, p)
    present: np.ndarray  # (k, p), False where a component lacks the term
    sigma: np.ndarray | None  # (k,), Gaussian responses only
    se: np.ndarray | None  # (k, p)
    log_sigma_se: np.ndarray | None  # (k,)
    refit_se: np.ndarray | None  # (k, p), from flexmix
    refit_log_sigma_se: np.ndarray | None  # (k,)

    @property
    def n_free(self) -> int:
        """Number of free parameters."""
        shared = np.isin(self.terms, self.shared)
        coefficients = self.present[:, ~shared].sum() + shared.sum()
        return int(coefficients) + (0 if self.sigma is None else len(self.sigma))


@dataclass(frozen=True)
class Starts:
    """What flexmix found from random starts."""

    llf: float  # the best
    n_starts: int
    n_reached: int  # starts within 0.001 of the best under tight control
    seconds_per_start: float | None  # median
    seconds_total: float


@dataclass(frozen=True, eq=False)
class GlmReference:
    """One case: what was fitted, and the numbers R found."""

    case: str
    call: str
    software: dict[str, str]
    dataset: str
    groups: str | None
    choice_set: str | None
    k: int
    n: int  # rows
    n_groups: int
    df: int
    solution_kind: str
    best_known: float | None  # highest log-likelihood found by any means
    llf: float  # log-likelihood at the parameters that follow
    entropy: float | None  # of the posterior, summed over groups
    positive_definite: bool | None  # the observed information there
    weights: np.ndarray  # (k,), descending but for the nested case
    log_odds_se: np.ndarray | None  # (k - 1,), log(prior_j / prior_1) for j = 2..k
    refit_log_odds_se: np.ndarray | None  # (k - 1,), from flexmix
    parts: tuple[Part, ...]  # one a response; all cases but the joint one have one
    flexmix: Starts | None  # tight control
    flexmix_default: Starts | None  # flexmix's own defaults

    def __str__(self) -> str:
        return self.case

    @property
    def part(self) -> Part:
        """The regression, in cases with one response."""
        (only,) = self.parts
        return only

    @property
    def is_best_known(self) -> bool:
        """False where `llf` belongs to a lower optimum than `best_known`."""
        return self.best_known is None or self.llf > self.best_known - 1e-6

    def data(self) -> pd.DataFrame:
        data: pd.DataFrame = getattr(datasets, self.dataset)()
        if self.choice_set is not None:
            # A respondent and a task make a choice set; flexmix wants them numbered from 1.
            data = data.assign(**{self.choice_set: data.groupby(["id", "task"]).ngroup() + 1})
        return data


def glm_cases(prefix: str = "") -> list[GlmReference]:
    """Load the cases whose name begins with `prefix`, in alphabetical order."""
    files = (f for f in resources.files(__package__).iterdir() if f.name.endswith(".json"))
    found = [_reference(json.loads(f.read_text(encoding="utf-8"))) for f in files]
    return sorted((c for c in found if c.case.startswith(prefix)), key=str)


def glm_case(name: str) -> GlmReference:
    """Load one case by its full name."""
    return next(c for c in glm_cases(name) if c.case == name)


def _reference(stored: dict[str, Any]) -> GlmReference:
    ml, flexmix, default = (stored.pop(key) for key in ("ml", "flexmix", "flexmix_default"))
    model, best_known = stored.pop("model"), stored.pop("best_known")
    se, refit = ml["se"] or {}, (flexmix or {}).get("refit_se") or {}
    parts = tuple(
        _part(declared, ml["parts"][i], *(e["parts"][i] if e else {} for e in (se, refit)))
        for i, declared in enumerate(model)
    )
    return GlmReference(
        **stored,
        best_known=best_known and best_known["llf"],
        **{name: ml[name] for name in ("llf", "entropy", "positive_definite")},
        weights=np.array(ml["weights"], dtype=float),
        log_odds_se=_array(se.get("log_odds")),
        refit_log_odds_se=_array(refit.get("log_odds")),
        parts=parts,
        flexmix=_starts(flexmix),
        flexmix_default=_starts(default),
    )


def _part(
    declared: dict[str, Any], found: dict[str, Any], se: dict[str, Any], refit: dict[str, Any]
) -> Part:
    rows = found["coefficients"]
    # The component with most terms has them all, in patsy's order.
    terms = tuple(max(rows, key=len))
    return Part(
        **{**declared, "shared": tuple(declared["shared"])},
        terms=terms,
        coefficients=_table(rows, terms, 0.0),
        present=np.array([[term in row for term in terms] for row in rows]),
        sigma=_array(found.get("sigma")),
        se=_table(se["coefficients"], terms, np.nan) if se else None,
        log_sigma_se=_array(se.get("log_sigma")),
        refit_se=_table(refit["coefficients"], terms, np.nan) if refit else None,
        refit_log_sigma_se=_array(refit.get("log_sigma")),
    )


def _starts(stored: dict[str, Any] | None) -> Starts | None:
    if stored is None:
        return None
    names = ("llf", "n_starts", "n_reached", "seconds_per_start", "seconds_total")
    return Starts(**{name: stored[name] for name in names})


def _table(rows: list[dict[str, float]], terms: tuple[str, ...], absent: float) -> np.ndarray:
    return np.array([[row.get(term, absent) for term in terms] for row in rows])


def _array(values: list[float] | None) -> np.ndarray | None:
    return None if values is None else np.array(values, dtype=float)
