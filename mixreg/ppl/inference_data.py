"""Draws as ArviZ data, with the same groups and dimensions wherever they are from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.inference.averages import average_weights
from mixreg.mixture.parameters import Parameters
from mixreg.ppl.compat import draws_of
from mixreg.ppl.draws import draw_vectors, log_likelihoods, mixtures_of, predictive
from mixreg.report.base_results import BaseResults
from mixreg.sources import per_unit
from mixreg.sources.tasks import responses
from mixreg.table.parts import ModelParts

Array = NDArray[np.float64]

DIMENSIONS = {
    "coef": ["component", "term"],
    "scale": ["component"],
    "weights": ["class"],
    "gate": ["class", "gate_term"],
}


def to_arviz(res: BaseResults, n: int, seed: int) -> Any:
    """Draws of a fit as ArviZ data; see `MixRegResults.to_arviz`."""
    res.spec.check_one_response("to_arviz")
    vectors = draw_vectors(res, n, seed)
    return inference_data(res, mixtures_of(res.spec.layout, vectors), 1, seed)


def inference_data(
    res: BaseResults, stack: Parameters, chains: int, seed: int, extra: Any = None
) -> Any:
    """ArviZ data of draws that are aligned with the fit.

    Parameters
    ----------
    res : BaseResults
    stack : Parameters
        Draws in the user's units, one chain after another.
    chains : int
    seed : int
        For the posterior predictive draws.
    extra : dict, optional
        More groups, such as sample_stats.
    """
    res.spec.check_one_response("to_arviz")
    model = res.model
    draws = stack.coef.shape[1] // chains

    def by_chain(values: Array) -> Array:
        return values.reshape(chains, draws, *values.shape[1:])

    unit = "group" if model.groups is not None else "row"
    coords: dict[str, Any] = {
        "component": list(res.components),
        "class": list(res.classes),
        "term": model.exog_names,
        "row": np.asarray(model.index),
    }
    if model.groups is not None:
        coords["group"] = np.asarray(model.groups)
    # A variable cannot be called like a dimension.
    name = model.endog_names if model.endog_names not in coords else "response"
    posterior = {key: by_chain(value) for key, value in variables(res, stack).items()}
    if "gate" in posterior:
        coords["gate_term"] = list(model.layout.gate)
    drawn = {name: by_chain(predictive(res, stack, seed))}
    pointwise = {name: by_chain(log_likelihoods(res, stack))}
    more: dict[str, Any] = {group: (values, {}) for group, values in (extra or {}).items()}
    labels = {"labels": res.unit_labels, "probability": res.unit_posterior.T}
    groups: dict[str, Any] = {
        "posterior": (posterior, DIMENSIONS),
        **more,
        "posterior_predictive": (drawn, {name: ["row"]}),
        "log_likelihood": (pointwise, {name: [unit]}),
        "observed_data": ({name: observed(model)}, {name: ["row"]}),
        "constant_data": (labels, {"labels": [unit], "probability": [unit, "class"]}),
    }
    return draws_of(groups, coords)


def observed(model: ModelParts) -> Array:
    """Responses in the user's order and units."""
    y = model.rows.names.unsort(per_unit(model.source, responses))
    if model.family.linear and model.offset is not None:
        y = y + model.offset
    return np.asarray(y)


def variables(res: BaseResults, stack: Parameters) -> dict[str, Array]:
    """Draws by name, draws first: coef, scale, weights and gate."""
    family = res.model.family
    found = {"coef": np.moveaxis(stack.coef, 1, 0)}
    if family.dispersion_name is not None:
        found["scale"] = stack.dispersion.T**family.dispersion_power
    gate = res.model.mixture.gate
    found["weights"] = average_weights(res.model.source, gate, stack).T
    return found | gate.draws(stack)
