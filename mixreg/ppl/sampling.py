"""Sampling from the posterior with PyMC, started at the fit and aligned with it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import ConvergenceWarning, InputError, warn
from mixreg.estimators.expectation import Posterior, SoftAssignment
from mixreg.estimators.priors import Priors
from mixreg.metrics import match_components
from mixreg.mixture.parameters import Parameters
from mixreg.ppl.compat import arviz, pymc
from mixreg.ppl.draws import CHUNK
from mixreg.ppl.given import present_coefficients
from mixreg.ppl.inference_data import inference_data
from mixreg.ppl.likelihood import Likelihood
from mixreg.ppl.pymc_model import to_pymc
from mixreg.report.base_results import BaseResults
from mixreg.report.relabelling import new_errors
from mixreg.sources.base import Standardised
from mixreg.table.checks import whole

Array = NDArray[np.float64]

# Units that are looked at to tell components apart.
MOST_UNITS = 2000
# Chains begin this many standard errors around the fit: further apart than draws lie, because
# chains that begin closer together than they end can agree before they have converged.
WIDER = 2.0
# A start that is too far away comes half as near at most so often.
HALVINGS = 20
# What PyMC, too, asks of chains: R-hat at most, and the effective size of each chain at least.
MOST_RHAT, LEAST_SIZE = 1.01, 100
# R-hat of good chains is above 1 by chance, by up to this divided by their effective size.
CHANCE = 5.0


def initial_point(res: BaseResults) -> dict[str, Array]:
    """Values of the PyMC model's variables at the fit."""
    res.spec.check_one_response("initial_point")
    return _point(res, res.fitted.standard)


def _point(res: BaseResults, params: Parameters) -> dict[str, Array]:
    """Values of the PyMC model's variables at a mixture in standard coordinates."""
    model = res.model
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


def dispersed_points(res: BaseResults, chains: int, seed: int) -> list[dict[str, Array]]:
    """Values of the PyMC model's variables that chains begin at, around the fit.

    Draws of the normal distribution of the estimates, widened. Where it is far from the
    likelihood, as at the end of a range, draws come nearer to the fit until it is not.
    """
    rng = np.random.default_rng([seed, 2])
    root = _root(res)
    points = []
    for _ in range(chains):
        way = root @ rng.standard_normal(root.shape[1])
        for shrink in 0.5 ** np.arange(HALVINGS):
            if _near(res, shrink * way, root.shape[1]):
                break
        else:
            shrink = 0.0
        at = _at(res, shrink * way) if shrink else res.fitted.standard
        points.append(_point(res, at))
    return points


def _at(res: BaseResults, way: Array) -> Parameters:
    """The mixture some way from the fit, in standard coordinates."""
    user = res.spec.layout.unpack(res.fitted.estimate.vector + way)
    return res.model.whitening.from_user(user)


def _near(res: BaseResults, way: Array, directions: int) -> bool:
    """Whether the likelihood falls on some way from the fit about as much as it would if normal."""
    parts = res.model
    task = Standardised(SoftAssignment(parts.problem().mixture), parts.whitening)

    def height(at: Parameters) -> float:
        return float(parts.source.sweep(task, at).objective)

    with np.errstate(all="ignore"):
        fall = height(_at(res, np.zeros_like(way))) - height(_at(res, way))
    # Half of WIDER squared for each direction on average; three times that with many, never.
    return bool(fall <= 1.5 * WIDER**2 * (directions + 1))


def _root(res: BaseResults) -> Array:
    """A root of the covariance of the estimates, widened.

    Directions that it says nothing of are left out. Where the likelihood falls sooner than
    the covariance says, as on the way to the end of a range, a direction is made shorter.
    """
    cov = res.fitted.estimate.cov
    if cov is None:
        cov = new_errors(res, None, "oim", None)[0].cov
    if cov is None:
        return np.zeros((len(res.fitted.estimate.vector), 0))
    known = np.isfinite(np.diag(cov))
    finite = np.where(np.isfinite(cov) & known & known[:, None], cov, 0.0)
    values, vectors = np.linalg.eigh((finite + finite.T) / 2)
    found = []
    for way in (WIDER * vectors * np.sqrt(np.clip(values, 0.0, None))).T:
        for shrink in 0.5 ** np.arange(HALVINGS):
            if all(_near(res, sign * shrink * way, 1) for sign in (1.0, -1.0)):
                found.append(shrink * way)
                break
    return np.array(found).T.reshape(len(cov), -1)


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
    counts = {"draws": whole("draws", draws, 1), "tune": whole("tune", tune, 0)}
    counts["chains"] = whole("chains", chains, 1)
    seed = whole("seed", seed, 0)
    if settings["nuts_sampler"] == "pymc":
        settings.setdefault("initvals", dispersed_points(res, chains, seed))
    else:
        # Other samplers take no point for each chain, but move each away from the model's own.
        settings.pop("init")
        for name, value in initial_point(res).items():
            built.set_initval(built[name], value)
    if settings.pop("return_inferencedata", True) is not True:
        raise InputError("return_inferencedata=False is not possible; sample returns ArviZ data")
    # PyMC's own checks would take components that are numbered otherwise for chains that disagree.
    checks = settings.pop("compute_convergence_checks", True)
    with built:
        trace = pm.sample(
            **counts,
            random_seed=seed,
            progressbar=progress,
            compute_convergence_checks=False,
            **settings,
        )
    stack = aligned(res, from_trace(res, trace.posterior))
    extra = {"sample_stats": {k: v.to_numpy() for k, v in trace.sample_stats.data_vars.items()}}
    data = inference_data(res, stack, chains, seed, extra)
    if checks:
        check_chains(data)
    return data


def check_chains(data: Any) -> None:
    """Warn if chains of aligned draws disagree, know little, or diverged."""
    posterior = data["posterior"]
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    names = [name for name in ("coef", "scale", "weights", "gate") if name in posterior]
    found, tries = [], []
    rhat, at = _worst(data, names, "rhat", {})
    size, of = min(_worst(data, names, "ess", {"method": kind}) for kind in ("bulk", "tail"))
    most = max(MOST_RHAT, 1 + CHANCE / max(LEAST_SIZE, size / chains))
    if rhat > most:
        found.append(f"R-hat is {rhat:.3f} for {at}, and should be at most {most:.2f}")
        tries += ["more of tune=", "fewer components"]
    if size < LEAST_SIZE * chains:
        found.append(
            f"the effective number of draws is {size:.0f} for {of}, and should be at least "
            f"{LEAST_SIZE * chains}"
        )
        tries.insert(0, "more of draws=")
    diverged = data["sample_stats"].get("diverging")
    count = 0 if diverged is None else int(diverged.sum())
    if count:
        found.append(f"{count} of {chains * draws} draws diverged")
        tries += ["target_accept=0.95", "narrower priors="]
    if found:
        warn(
            f"do not rely on these draws: {'; '.join(found)}. Try {' or '.join(tries)}",
            ConvergenceWarning,
        )


def _worst(data: Any, names: list[str], kind: str, options: dict[str, Any]) -> tuple[float, str]:
    """The worst R-hat or effective size, and whose it is; constants have none."""
    posterior = data["posterior"]
    if posterior.sizes["draw"] < 4 or (kind == "rhat" and posterior.sizes["chain"] < 2):
        # ArviZ has none of so few.
        few = float(posterior.sizes["draw"] * posterior.sizes["chain"])
        return (0.0, "") if kind == "rhat" else (few, names[0])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        table = getattr(arviz(), kind)(data, var_names=names, **options)
    each = []
    for name in names:
        values = np.asarray(table[name], dtype=float)
        varies = np.asarray(np.ptp(posterior[name].to_numpy(), axis=(0, 1)) > 0)
        kept = values[varies & np.isfinite(values)]
        each += [(float(value), name) for value in kept]
    if not each:
        return (0.0, "") if kind == "rhat" else (np.inf, "")
    return max(each) if kind == "rhat" else min(each)


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
