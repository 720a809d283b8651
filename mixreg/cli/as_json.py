"""A fit as JSON, for other programs."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

import mixreg
from mixreg.report.notes import notes_of
from mixreg.results import MixRegResults
from mixreg.selection import Selection


def as_json(results: MixRegResults, selection: Selection | None = None) -> str:
    """What a fit found, as one JSON object; what is not finite is null."""
    return json.dumps(_plain(_told(results, selection)), indent=2, ensure_ascii=False)


def _told(results: MixRegResults, selection: Selection | None) -> dict[str, Any]:
    told = {
        "mixreg": mixreg.__version__,
        "formula": [response.design.formula for response in results.spec.responses],
        "family": results.spec.family.name,
        "method": results.method,
        "k": results.k,
        "nobs": results.nobs,
        "ngroups": results.ngroups,
        "df_model": results.df_model,
        "llf": results.llf,
        "aic": results.aic,
        "bic": results.bic,
        "icl": results.icl,
        "entropy_r2": results.entropy_r2,
        "converged": results.converged,
        "components": [_component(results, j) for j in results.classes],
        "params": _parameters(results),
        "notes": notes_of(results),
    }
    if selection is not None:
        table = selection.table.reset_index().to_dict(orient="records")
        told["selection"] = {"criterion": selection.criterion, "table": table}
    return told


def _component(results: MixRegResults, j: int) -> dict[str, Any]:
    """Size and coefficients of a component; 0 is the background."""
    place = list(results.classes).index(j)
    tally = results.fitted.tally
    told: dict[str, Any] = {
        "component": j,
        "weight": results.weights.loc[j],
        "rows": tally.rows[place],
        "units": tally.units[place],
    }
    if j in results.components:
        told["coefficients"] = results.coefficients[j].to_dict()
        if len(results.spec.responses) == 1 and results.spec.family.dispersion_name:
            told["scale"] = results.scale.loc[j]
    return told


def _parameters(results: MixRegResults) -> list[dict[str, Any]]:
    """Free parameters with their standard errors, where there are some."""
    params = results.params
    if results.fitted.estimate.cov is None:
        return [{"name": name, "estimate": value} for name, value in params.items()]
    bounds = results.conf_int().to_numpy()
    columns = zip(params, results.bse, results.tvalues, results.pvalues, bounds, strict=True)
    return [
        {"name": name, "estimate": e, "std_err": se, "z": z, "p": p, "lower": b[0], "upper": b[1]}
        for name, (e, se, z, p, b) in zip(params.index, columns, strict=True)
    ]


def _plain(value: Any) -> Any:
    """Numbers, texts, lists and dicts as JSON has them."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
