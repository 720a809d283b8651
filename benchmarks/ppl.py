"""A mixture inside PyMC models: `python -m benchmarks bayes --ppl [density|modes|chains ...]`."""

import time
import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from mixreg import AlignmentError, MixReg, ppl
from mixreg.ppl.compat import arviz, pymc
from mixreg.ppl.located import located
from mixreg.ppl.surface import Surface

STARTS = 50


# Data


def customers(n: int, k: int, seed: int, each: int = 1) -> pd.DataFrame:
    """Responses of every kind of k segments; `each` rows of a customer lie together."""
    rng = np.random.default_rng(seed)
    who = np.arange(n) // each
    label = rng.integers(0, k, n)[who]
    x1, x2 = rng.standard_normal((2, n))
    intercept, slope = np.linspace(-1.2, 1.2, k), rng.uniform(-1, 1, k)
    eta = intercept[label] + slope[label] * x1 + 0.3 * x2
    mean, trials = np.exp(eta), rng.integers(3, 12, n)
    country = rng.integers(0, 3, n)[who]
    return pd.DataFrame(
        {
            "x1": x1,
            "x2": x2,
            "who": who,
            "age": rng.standard_normal(n)[who] + 0.5 * label,
            "country": np.array(["AT", "BE", "CH"])[country],
            "number": country,
            "y": 2 * eta + 0.5 * rng.standard_normal(n),
            "count": rng.poisson(mean).astype(float),
            "spread": rng.negative_binomial(2, 1 / (1 + mean / 2)).astype(float),
            "trials": trials,
            "share": rng.binomial(trials, 1 / (1 + np.exp(-eta))) / trials,
            "gamma": rng.gamma(4, mean / 4),
        }
    )


def choices(people: int, k: int, seed: int) -> pd.DataFrame:
    """Six choices of each of some people among three alternatives."""
    rng = np.random.default_rng(seed)
    n = people * 18
    who, offer = np.arange(n) // 18, np.arange(n) // 3
    x1, x2 = rng.standard_normal((2, n))
    slope = np.linspace(-2, 2, k)[rng.integers(0, k, people)][who]
    utility = (slope * x1 + 0.5 * x2 + rng.gumbel(size=n)).reshape(-1, 3)
    y = (utility == utility.max(axis=1, keepdims=True)).ravel().astype(float)
    return pd.DataFrame({"x1": x1, "x2": x2, "y": y, "who": who, "offer": offer})


# Twelve models


def hierarchical(formula: str, k: int, seed: int, **options: Any) -> Any:
    """Coefficients of segments come from one distribution."""
    pm, _ = pymc()
    each = 5 if "groups" in options else 1
    with pm.Model() as built:
        mu = pm.Normal("mu", 0, 2, shape=2)
        tau = pm.LogNormal("tau", 0, 0.5, shape=2)
        coef = pm.Normal("coef", mu, tau, shape=(k, 2))
        data = customers(500, k, seed, each)
        ppl.MixtureRegression.from_formula("r", formula, data, k=k, coef=coef, **options)
    return built


def ordered_intercepts(seed: int) -> Any:
    """Components are told apart by their intercepts; one slope for all."""
    pm, pt = pymc()
    from pymc.distributions.transforms import ordered

    data = customers(400, 3, seed)
    with pm.Model() as built:
        first = np.linspace(-1, 1, 3)
        intercept = pm.Normal("intercept", 0, 3, shape=3, transform=ordered, initval=first)
        slope = pm.Normal("slope", 0, 1, shape=3)
        scale = pm.InverseGamma("scale", 3, 1, shape=3)
        coef = pt.stack([intercept, slope], axis=1)
        ppl.MixtureRegression.from_formula("r", "y ~ x1", data, k=3, coef=coef, scale=scale)
    return built


def countries(seed: int) -> Any:
    """Levels of three countries from one distribution, on top of segments."""
    pm, _ = pymc()
    data = customers(450, 3, seed, 5)
    with pm.Model() as built:
        spread = pm.LogNormal("spread", -1, 0.5)
        level = pm.Normal("level", 0, spread, shape=3)
        offset = level[data["number"].to_numpy()]
        ppl.MixtureRegression.from_formula(
            "r", "count ~ x1", data, k=3, family="poisson", groups="who", offset=offset
        )
    return built


def usual(formula: str, k: int, seed: int, each: int = 1, n: int = 400, **options: Any) -> Any:
    """The usual priors."""
    return MixReg.from_formula(formula, customers(n, k, seed, each), k=k, **options).to_pymc()


def chosen(seed: int) -> Any:
    """Latent-class conditional logit."""
    options = {"family": "choice", "choice_set": "offer", "groups": "who"}
    return MixReg.from_formula("y ~ x1 + x2", choices(80, 3, seed), k=3, **options).to_pymc()


MODELS: dict[str, Callable[[int], Any]] = {
    "gaussian": lambda seed: usual("y ~ x1 + x2", 3, seed),
    "gaussian, ordered intercepts": ordered_intercepts,
    "gaussian, groups, k=4": lambda seed: usual("y ~ x1", 4, seed, 5, groups="who"),
    "gaussian, noise, shared": lambda seed: usual(
        "y ~ x1 + x2", 3, seed, noise=True, shared=["x2"]
    ),
    "gaussian, hierarchical": lambda seed: hierarchical("y ~ x1", 4, seed),
    "poisson": lambda seed: usual("count ~ x1 + x2", 3, seed, family="poisson"),
    "poisson, countries, groups": countries,
    "poisson, hierarchical, groups": lambda seed: hierarchical(
        "count ~ x1", 3, seed, family="poisson", groups="who"
    ),
    "negative binomial, concomitant": lambda seed: usual(
        "spread ~ x1", 2, seed, 5, 600, family="negativebinomial", groups="who", concomitant="~ age"
    ),
    "binomial, trials": lambda seed: usual(
        "share ~ x1", 3, seed, family="binomial", trials="trials"
    ),
    "gamma": lambda seed: usual("gamma ~ x1", 3, seed, family="gamma", link="log"),
    "choices": chosen,
}


def plain_maximum(surface: Surface, start: np.ndarray) -> float:
    """What `pymc.find_MAP` does, on a function that is compiled once."""

    def down(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = surface.at(vector, jacobian=False)
        return -value, -slope

    return -float(minimize(down, start, jac=True, method="L-BFGS-B").fun)


def same_as_find_map(seed: int) -> None:
    """That `plain_maximum` is what `pymc.find_MAP` finds, from one start of one model."""
    pm, _ = pymc()
    built = MODELS["poisson"](seed)
    surface = Surface(located(built))
    start = surface.start + np.random.default_rng(seed).uniform(-1, 1, len(surface.start))
    values = surface.reported(start[None])
    point = {variable.name: values[variable.name][0] for variable in built.free_RVs}
    with built:
        asked = {"initvals" if "initvals" in signature(pm.find_MAP).parameters else "start": point}
        found = pm.find_MAP(**asked, progressbar=False)
    theirs = surface.at(surface.raveled(found), jacobian=False)[0]
    print(f"find_MAP itself {theirs:.3f}, as it is done here {plain_maximum(surface, start):.3f}")


def modes(seed: int, names: list[str] | None) -> None:
    """`ppl.fit` against the best of 50 jittered climbs, model by model."""
    chosen = names or list(MODELS)
    if names is None:
        same_as_find_map(seed)
    never_below = 0
    for name in chosen:
        built = MODELS[name](seed)
        began = time.perf_counter()
        found = ppl.fit(built, seed=seed)
        took = time.perf_counter() - began
        surface, rng = found.modes.surface, np.random.default_rng([seed, 77])
        jitter = rng.uniform(-1, 1, (STARTS, len(surface.start)))
        ends = np.array([plain_maximum(surface, surface.start + each) for each in jitter])
        best, gap = ends.max(), found.log_density - ends.max()
        reached = int((ends > max(best, found.log_density) - 0.1).sum())
        never_below += gap > -1e-4
        print(
            f"{name:32s} fit {found.log_density:10.3f} ({took:3.0f} s), best of {STARTS} "
            f"{best:10.3f}, reached by {reached:2d}; from PyMC's own point "
            f"{plain_maximum(surface, surface.start):10.3f}",
            flush=True,
        )
    print(f"ppl.fit never below the best of {STARTS}: {never_below} of {len(chosen)}", flush=True)


def density() -> None:
    """Log density in a user's model against likelihood and priors, every family and option."""
    # Here, because tests import PyMC, which other benchmarks do without.
    from tests import test_ppl_mixture as own

    worst = 0.0
    for make in own.ALL.values():
        model = make()
        vector = own.near_fit(model, 0.02)
        point, built = own.values_at(model, vector), own.user_model(model, own.possible(model))
        used = [variable.name for variable in built.free_RVs]
        want = model.loglike(vector) + sum(own.own_prior(name, point[name]) for name in used)
        if np.isfinite(want):
            worst = max(worst, abs(own.plain_logp(built, point) / want - 1))
    print(f"log density in a user's model, {len(own.ALL)} models: equal to {worst:.0e}", flush=True)


def chains(seeds: Sequence[int], workers: int) -> None:
    """R-hat of chains begun at `initial_points`, and by PyMC's own initialisation."""
    pm, _ = pymc()
    az = arviz()
    good = {"initial_points": 0, "PyMC's own": 0, "PyMC's own, aligned": 0}
    settings: dict[str, Any] = {
        "draws": 1000, "tune": 700, "chains": 4, "cores": workers, "nuts_sampler": "pymc",
        "progressbar": False, "compute_convergence_checks": False,
    }  # fmt: skip
    for seed in seeds:
        built = usual("y ~ x1", 4, seed, 4, n=400, groups="who")
        found = ppl.fit(built, seed=seed)
        with built:
            points = found.initial_points(chains=4, seed=seed)
            began = time.perf_counter()
            ours = pm.sample(
                initvals=points, init="adapt_diag", random_seed=seed, target_accept=0.9, **settings
            )
            took = time.perf_counter() - began
            theirs = pm.sample(random_seed=seed, target_accept=0.9, **settings)
        worst = {"initial_points": rhat(az, ours), "PyMC's own": rhat(az, theirs)}
        try:
            worst["PyMC's own, aligned"] = rhat(az, ppl.align(ppl.classify(theirs, built)))
        except AlignmentError:
            worst["PyMC's own, aligned"] = np.inf
        for name, value in worst.items():
            good[name] += value < 1.01
        told = ", ".join(f"{name} {value:.3f}" for name, value in worst.items())
        print(f"seed {seed}: largest R-hat {told}; {took:.0f} s", flush=True)
    told = ", ".join(f"{name} {count}" for name, count in good.items())
    print(f"largest R-hat below 1.01, of {len(seeds)} seeds: {told}", flush=True)


def rhat(az: Any, data: Any) -> float:
    """The largest R-hat of coefficients, scales and weights."""
    found = az.rhat(data, var_names=["coef", "scale", "weights"])
    return max(float(value.max()) for value in found.data_vars.values())


def main(what: list[str], names: list[str] | None, seeds: int, workers: int) -> None:
    """Print the figures that are asked for; of some models or seeds only, if they are named."""
    warnings.simplefilter("ignore")
    asked = what or ["density", "modes", "chains"]
    if "density" in asked:
        density()
    if "modes" in asked:
        modes(0, names)
    if "chains" in asked:
        chains([int(name) for name in names or range(seeds)], workers)
