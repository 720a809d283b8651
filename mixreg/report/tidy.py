"""Estimates, criteria and rows as plain tables, as R's broom has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.report.base_results import BaseResults
from mixreg.report.residuals import residuals_of
from mixreg.report.row_facts import RowFacts, new_facts, own_facts, read_rows
from mixreg.table import frames

Array = NDArray[np.float64]

WHAT = ("coefficients", "all")


def check_level(conf_level: Any) -> float:
    """A level of confidence, between 0 and 1."""
    number = isinstance(conf_level, (int, float, np.floating)) and not isinstance(conf_level, bool)
    if not number or not 0 < conf_level < 1:
        raise InputError(
            f"conf_level must be a number between 0 and 1, such as 0.95; got {conf_level!r}"
        )
    return float(conf_level)


def tidy(res: BaseResults, exponentiate: bool, conf_level: float, what: str) -> pd.DataFrame:
    """One row a parameter; see `MixRegResults.tidy`."""
    if what not in WHAT:
        raise InputError(f"what={what!r} is unknown; use one of {', '.join(WHAT)}")
    table = _coefficient_rows(res)
    if what == "all":
        table = pd.concat([table, _other_rows(res)], ignore_index=True)
    at = table.pop("place").to_numpy()
    ends = res.conf_int(1 - check_level(conf_level)).to_numpy()[at]
    values = {
        "estimate": res.params.to_numpy()[at],
        "std_error": res.bse.to_numpy()[at],
        "z": res.tvalues.to_numpy()[at],
        "p_value": res.pvalues.to_numpy()[at],
        "conf_low": ends[:, 0],
        "conf_high": ends[:, 1],
    }
    if exponentiate:
        for name in ("estimate", "conf_low", "conf_high"):
            values[name] = _exponentials(values[name])
    if what != "all":
        table = table.drop(columns="part")
    return table.assign(**values)


def point_estimates(
    res: BaseResults, exponentiate: bool, conf_level: float, what: str
) -> pd.DataFrame:
    """The same of a fit without standard errors: these are missing."""
    table = _coefficient_rows(res).drop(columns="part")
    values = res.params.to_numpy()[table.pop("place")]
    table["estimate"] = _exponentials(values) if exponentiate else values
    return table.assign(**dict.fromkeys(["std_error", "p_value", "conf_low", "conf_high"], np.nan))


def _exponentials(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.exp(values)


def _coefficient_rows(res: BaseResults) -> pd.DataFrame:
    """Component and term of each coefficient, shared ones once, and its place."""
    layout, names = res.spec.layout, res.spec.exog_names
    index, rows = layout.coef_index(), []
    for j in res.alive:
        rows += [(j, names[i], int(index[j - 1, i])) for i in layout.own(j - 1)]
    rows += [(pd.NA, names[i], int(index[0, i])) for i in layout.shared]
    return _placed(res, rows, "coefficient")


def _other_rows(res: BaseResults) -> pd.DataFrame:
    """Dispersions, a common one once, and class probabilities; the background is 0."""
    layout, rows = res.spec.layout, []
    scales, common = layout.scale_index().reshape(layout.k, -1), layout.equal_dispersion
    for j in [1] if common else res.alive:
        number: Any = pd.NA if common else j
        rows += [(number, _bare(layout.names, at, j), int(at), "scale") for at in scales[j - 1]]
    width = layout.gating_index().reshape(layout.classes - 1, -1)
    for j, places in zip(res.spec.classes[1:], width, strict=True):
        named = [_bare(layout.names, at, j or "noise") for at in places]
        rows += [(j, name, int(at), "gate") for name, at in zip(named, places, strict=True)]
    return _placed(res, [row[:3] for row in rows], [row[3] for row in rows])


def _bare(names: list[str], place: Any, component: Any) -> str:
    """The name of a parameter without its component."""
    return names[place].removesuffix(f"[{component}]")


def _placed(res: BaseResults, rows: list[Any], part: Any) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["component", "term", "place"])
    table["component"] = table["component"].astype("Int64")
    table.insert(0, "part", part)
    table["place"] = table["place"].astype(int)
    if len(res.spec.responses) > 1:
        table.insert(1, "response", [_response_of(res, term) for term in table["term"]])
    return table


def _response_of(res: BaseResults, term: str) -> Any:
    """The response that a term belongs to, by how it begins."""
    names = [name for name in res.spec.response_names if term.startswith(f"{name}: ")]
    return max(names, key=len) if names else None


def glance(res: BaseResults) -> pd.DataFrame:
    """A fit in one row; see `MixRegResults.glance`."""
    told: dict[str, Any] = {
        "k": res.k,
        "family": res.spec.family.name,
        "method": res.method,
        "nobs": res.nobs,
        "ngroups": pd.NA if res.ngroups is None else res.ngroups,
        "df_model": res.df_model,
        "llf": res.llf,
        "aic": res.aic,
        "bic": res.bic,
        "icl": res.icl,
        "caic": res.caic,
        "hqic": res.hqic,
        "entropy_r2": res.entropy_r2,
        "cov_type": res.cov_type,
        "converged": res.converged,
        "n_iter": res.n_iter,
    }
    return pd.DataFrame([told]).astype({"ngroups": "Int64"})


def augment(res: BaseResults, data: Any, columns: dict[str, Any]) -> pd.DataFrame:
    """Rows with what the fit says of them; see `MixRegResults.augment`."""
    if data is None:
        facts, index = own_facts(res), res.model.index
        y = {name: facts.y[i] for i, name in enumerate(res.spec.response_names)}
        return _beside(res, pd.DataFrame(y, index), facts, np.ones(len(index), dtype=bool))
    rows = read_rows(res, data, columns)
    facts = new_facts(res, rows)
    table = frames.read(data)
    if not isinstance(table, pd.DataFrame):
        table = pd.DataFrame(np.asarray(table), rows.index)
    return _beside(res, table.set_axis(rows.index, axis=0), facts, rows.good)


def _beside(
    res: BaseResults, table: pd.DataFrame, facts: RowFacts, good: NDArray[np.bool_]
) -> pd.DataFrame:
    """A table with labels, posteriors, fitted values and residuals."""
    made: dict[str, Any] = {}
    labels = pd.array(res.classes.to_numpy()[facts.posterior.argmax(axis=0)], dtype="Int64")
    labels[~good | np.isnan(facts.posterior).any(axis=0)] = pd.NA
    made["component"] = labels if pd.isna(labels).any() else labels.to_numpy(dtype=int)
    made["certainty"] = facts.posterior.max(axis=0)
    made |= {f"p{j}": p for j, p in zip(res.classes, facts.posterior, strict=True)}
    for i, name in enumerate(res.spec.response_names):
        end = "" if len(facts.y) == 1 else f" {name}"
        made[f"fitted{end}"] = facts.fitted(i)
        made[f"residual{end}"] = residuals_of(facts, i, "response", "mixture")[0]
    named = {f"{n}_fit" if n in table.columns else n: values for n, values in made.items()}
    return pd.concat([table, pd.DataFrame(named, table.index)], axis=1)
