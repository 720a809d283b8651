"""Sampling from the posterior with PyMC, started at the fit and aligned with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.estimators.expectation import Posterior
from mixreg.estimators.priors import Priors
from mixreg.metrics import match_components
from mixreg.mixture.parameters import Parameters
from mixreg.ppl.compat import pymc
from mixreg.ppl.draws import CHUNK
from mixreg.ppl.given import present_coefficients
from mixreg.ppl.inference_data import inference_data
from mixreg.ppl.likelihood import Likelihood
from mixreg.ppl.pymc_model import to_pymc
from mixreg.report.base_results import BaseResults
from mixreg.table.checks import whole

Array = NDArray[np.float64]

# Units that are looked at to tell components apart.
MOST_UNITS = 2000


def initial_point(res: BaseResults) -> dict[str, Array]:
    """Values of the PyMC model's variables at the fit."""
    model, params = res.model, res.fitted.standard
    res.spec.check_one_response("initial_point")
    own = model.layout.p - model.mixture.shared
    point: dict[str, Any] = {}
    if own:
        rows, cols = present_coefficients(model)
        point["beta"] = params.coef[rows, cols]
    if model.mixture.shared:
        point["beta_shared"] = params.coef[0, own:]
    family = model.family
    if family.dispersion_name is not None:
        whole = params.dispersion
        point["dispersion"] = whole[0] if family.equal_dispersion else whole
    return point | model.mixture.gate.point(params)


def sample(
    res: BaseResults,
    draws: int,
    tune: int,
    chains: int,
    seed: int,
    priors: Priors | None,
    progress: bool,
    likelihood: Likelihood,
    options: dict[str, Any],
) -> Any:
    """Sample the posterior; see `MixRegResults.sample`."""
    pm, _ = pymc()
    built = to_pymc(res.model, priors, likelihood)
    # Named, because PyMC 6 would otherwise take nutpie where that is installed.
    own = {"nuts_sampler": "pymc", "init": "adapt_diag", "cores": min(chains, 2)}
    settings: dict[str, Any] = {**own, **options}
    point = initial_point(res)
    if settings["nuts_sampler"] == "pymc":
        settings["initvals"] = point
    else:
        # Other samplers take no initvals, but start where the model says.
        settings.pop("init")
        for name, value in point.items():
            built.set_initval(built[name], value)
    known = {"compute_convergence_checks": False, **settings}
    if known.pop("return_inferencedata", True) is not True:
        raise InputError("return_inferencedata=False is not possible; sample returns ArviZ data")
    counts = {"draws": whole("draws", draws, 1), "tune": whole("tune", tune, 0)}
    counts["chains"] = whole("chains", chains, 1)
    with built:
        trace = pm.sample(
            **counts, random_seed=whole("seed", seed, 0), progressbar=progress, **known
        )
    stack = aligned(res, from_trace(res, trace.posterior))
    extra = {"sample_stats": {k: v.to_numpy() for k, v in trace.sample_stats.data_vars.items()}}
    return inference_data(res, stack, chains, seed, extra)


def from_trace(res: BaseResults, posterior: Any) -> Parameters:
    """Draws as a stack of mixtures in the user's units, one chain after another."""

    def flat(name: str) -> Array:
        values = np.asarray(posterior[name])
        return values.reshape(-1, *values.shape[2:])

    family = res.model.family
    coef = np.moveaxis(flat("coef"), 0, 1)
    dispersion = np.ones(coef.shape[:2])
    if family.dispersion_name is not None:
        dispersion = flat("scale").T ** (1 / family.dispersion_power)
    return Parameters(coef, dispersion, res.model.mixture.gate.from_draws(flat))


def aligned(res: BaseResults, stack: Parameters) -> Parameters:
    """Undo label switching: number the components of each draw like the fit's.

    Components are the same when they hold the same rows or groups.
    """
    if res.k == 1 or not res.model.mixture.exchangeable:
        return stack
    source, n = res.model.source, stack.coef.shape[1]
    part = source.sample(max(1, source.rows * MOST_UNITS // source.units), 0)
    truth = part.sweep(Posterior(res.model.mixture), res.fitted.estimate.params).join()[: res.k]
    per = max(1, CHUNK // (part.rows * len(res.classes)))
    runs = []
    for first in range(0, n, per):
        few = stack.take(np.arange(first, min(n, first + per)))
        posterior = part.sweep(Posterior(res.model.mixture), few).join()[: res.k]
        for i in range(few.coef.shape[1]):
            order = match_components(posterior[:, i], truth)
            runs.append(few.run(i).permute(order).stacked())
    return Parameters.concatenate(runs)
