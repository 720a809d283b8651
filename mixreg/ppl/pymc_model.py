"""A mixture put into a PyMC model, labels summed out."""

from __future__ import annotations

from typing import Any

from mixreg.errors import InputError
from mixreg.estimators.priors import Priors
from mixreg.ppl.compat import pymc
from mixreg.ppl.given import DEFAULT, Given, graphs
from mixreg.ppl.inference_data import observed
from mixreg.ppl.likelihood import Likelihood, by_sweep, check_graph, check_likelihood
from mixreg.ppl.mixed import Mixed
from mixreg.ppl.names import Names, Prefixed, add_coords, coords_of, row_labels
from mixreg.table.parts import ModelParts


def to_pymc(parts: ModelParts, priors: Priors | None, likelihood: Likelihood = "graph") -> Any:
    """Build the PyMC model; see `MixReg.to_pymc`."""
    parts.spec.check_one_response("to_pymc")
    pm, _ = pymc()
    with pm.Model() as built:
        add_mixture(parts, None, Given(), priors, likelihood)
    return built


def add_mixture(
    parts: ModelParts,
    name: str | None,
    given: Given,
    priors: Priors | None,
    likelihood: Likelihood,
    prefix: str = "",
) -> Any:
    """Put a mixture into the model that is being built; the variable of its responses.

    Parameters
    ----------
    parts : ModelParts
        Rows, and what was asked.
    name : str or None
        Of the responses; None is their own, or "response" if that is taken.
    given : Given
        Parameters that are there already.
    priors : Priors or None
        Of the others.
    likelihood : {"graph", "sweep"}
        With "sweep" there is no variable of the responses, but a potential.
    prefix : str
        What names of variables and dimensions begin with.
    """
    pm, pt = pymc()
    if priors is not None and not isinstance(priors, Priors):
        raise InputError(f"priors={priors!r} must be a mixreg.Priors(...)")
    kind, model = check_likelihood(likelihood), pm.modelcontext(None)
    names = Names(Prefixed(pm, prefix), model)
    add_coords(model, prefix, coords_of(parts))
    mixed = Mixed(parts, given.coef is None, prefix)
    at = graphs(pt, mixed, given, DEFAULT if priors is None else priors, names)
    if kind == "sweep":
        if given.offset is not None:
            raise InputError("an offset that is a variable needs likelihood='graph'")
        return pm.Potential(prefix + "log_likelihood", by_sweep(pt, mixed, at))
    # PyTensor is not imported with the package.
    from mixreg.ppl.variable import MixtureVariable

    check_graph(pt, mixed, at)
    inputs = [at.coef, at.dispersion, at.gating]
    signature = "(k,p),(k),(c,q)"
    if at.offset is not None:
        inputs, signature = [*inputs, at.offset], signature + ",(m)"
    variable = MixtureVariable(mixed, signature=signature + "->(n)").responses(inputs)
    add_coords(model, prefix, {"row": row_labels(parts.index)})
    # Log densities are those of groups, where there are some; `name_dims` says so.
    dims = (prefix + "row",)
    label = _free_name(model, parts.endog_names) if name is None else name
    return model.register_rv(variable, label, observed=observed(parts), dims=dims)


def _free_name(model: Any, name: str) -> str:
    """The name of a response, if neither a variable nor a dimension has it."""
    taken = {*model.named_vars, *model.coords, "row"}
    return name if name not in taken else "response"
