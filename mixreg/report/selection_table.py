"""Fits of a range of k as a table: criteria, and which of them may be chosen."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import pandas as pd

from mixreg.report.base_results import BaseResults
from mixreg.report.fitted import Fitted

STOPPED = {"max_iter": "not converged; raise max_iter", "decreased": "the objective fell"}


def selection_table(
    results: Mapping[int, BaseResults], failed: Mapping[int, str], brief: Set[int]
) -> pd.DataFrame:
    """Criteria of each fit, by k, and what to know before trusting it.

    Parameters
    ----------
    results : dict
    failed : dict
        Why other k have no fit.
    brief : set
        Which k were searched briefly.
    """
    rows: dict[int, dict[str, Any]] = {
        k: {
            "llf": res.llf,
            "df": res.df_model,
            "aic": res.aic,
            "bic": res.bic,
            "icl": res.icl,
            "entropy_r2": res.entropy_r2,
            "smallest": _smallest(res),
            "better": _chance(res.fitted),
            "thorough": k not in brief,
            "warnings": "; ".join(_warnings(res)),
        }
        for k, res in results.items()
    }
    for k, why in failed.items():
        rows[k] = {"df": 0, "better": "-", "thorough": False, "warnings": f"not fitted: {why}"}
    ks = sorted(rows)
    return pd.DataFrame([rows[k] for k in ks], pd.Index(ks, name="k"), _columns(rows))


def _columns(rows: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Names of the columns, those of the longest row."""
    names = [list(row) for row in rows.values()]
    return max(names, key=lambda each: len(each))


def _smallest(res: BaseResults) -> float:
    """Share of units assigned to the smallest component."""
    counts = res.fitted.tally.assigned
    return float(counts[: res.k].min() / counts.sum())


def _chance(fitted: Fitted) -> str:
    """Chance that one more start would have found a better maximum."""
    if fitted.certified:
        return "certified"
    return "-" if fitted.search is None else f"{fitted.search.chance:.1%}"


def _warnings(res: BaseResults) -> list[str]:
    """What a reader should know before trusting a fit."""
    fitted, estimate = res.fitted, res.fitted.estimate
    notes = [STOPPED[fitted.reason]] if fitted.reason in STOPPED else []
    notes += _named(fitted.empty, "empty")
    notes += _named(fitted.suspects, "may be chance")
    if fitted.binds:
        notes.append("the bound on the variances binds")
    if fitted.exact and not fitted.certified:
        notes.append("zero loss, but no proof of recovery")
    notes += _named(estimate.separated, "separated")
    if not estimate.regular:
        notes.append("some standard errors are infinite")
    return notes


def _named(components: tuple[int, ...], what: str) -> list[str]:
    if not components:
        return []
    numbers = ", ".join(str(j + 1) for j in components)
    return [f"component{'s' if len(components) > 1 else ''} {numbers} {what}"]


def why_not(fitted: Fitted) -> str:
    """Why a fit may not be chosen."""
    return "; ".join([*_named(fitted.empty, "empty"), *_named(fitted.suspects, "may be chance")])


def is_sound(fitted: Fitted) -> bool:
    """Whether a fit may be chosen: no component empty or likely an accident."""
    return not fitted.empty and not fitted.suspects
