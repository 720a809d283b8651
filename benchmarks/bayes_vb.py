"""Variational Bayes against NUTS, and its intervals: `python -m benchmarks bayes --vb`.

Once with the default priors of `fit(method="vb")`, once with those of `to_pymc`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pandas as pd

from benchmarks.workers import run_all
from mixreg import MixReg, MixRegResults, Priors
from mixreg.metrics import match_components

PRIORS = {"default": Priors(), "to_pymc's": Priors(concentration=1.0)}
SETS = 300


def regressors(n: int, seed: int) -> tuple[pd.DataFrame, np.random.Generator]:
    """Three columns of noise."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.standard_normal((n, 3)), columns=["x1", "x2", "age"]), rng


def pick(chance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels 0 and 1; `chance` is that of 0."""
    return (rng.random(len(chance)) > chance).astype(int)


def predictors(data: pd.DataFrame, coef: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Linear predictors of rows with a constant, under the component of each."""
    x = np.column_stack([np.ones(len(data)), data["x1"], data["x2"]])
    return np.asarray(np.einsum("np,np->n", x, coef[label]))


def counts(n: int, seed: int) -> MixReg:
    """Counts of two kinds of customers."""
    data, rng = regressors(n, seed)
    label = pick(np.full(n, 0.6), rng)
    eta = predictors(data, np.array([[3.0, 0.4, -0.2], [0.5, -0.4, 0.3]]), label)
    data["y"] = rng.poisson(np.exp(eta))
    return MixReg.from_formula("y ~ x1 + x2", data, k=2, family="poisson")


def trials(n: int, seed: int) -> MixReg:
    """Successes out of 15 to 25 trials."""
    data, rng = regressors(n, seed)
    label = pick(np.full(n, 0.6), rng)
    eta = predictors(data, np.array([[1.6, 0.5, -0.3], [-1.6, -0.4, 0.4]]), label)
    m = rng.integers(15, 26, n)
    data["yes"] = rng.binomial(m, 1 / (1 + np.exp(-eta)))
    data["no"] = m - data["yes"]
    return MixReg.from_formula("yes + no ~ x1 + x2", data, k=2, family="binomial")


def choices(n: int, seed: int) -> MixReg:
    """Choices among four in 20 tasks each; n is the number of tasks."""
    people, tasks, width = n // 20, 20, 4
    rows = people * tasks * width
    data, rng = regressors(rows, seed)
    label = np.repeat(pick(np.full(people, 0.6), rng), tasks * width)
    coef = np.array([[0.0, 1.5, -1.0], [0.0, -1.0, 1.2]])
    utility = predictors(data, coef, label) + rng.gumbel(size=rows)
    data["person"] = np.repeat(np.arange(people), tasks * width)
    data["task"] = np.repeat(np.arange(people * tasks), width)
    best = utility.reshape(-1, width).argmax(axis=1)
    data["y"] = (np.arange(width) == best[:, None]).ravel().astype(int)
    return MixReg.from_formula(
        "y ~ x1 + x2", data, k=2, family="choice", choice_set="task", groups="person"
    )


def concomitants(n: int, seed: int) -> MixReg:
    """Linear regressions, and who belongs where by age."""
    data, rng = regressors(n, seed)
    label = pick(1 / (1 + np.exp(-0.4 - 0.8 * data["age"].to_numpy())), rng)
    eta = predictors(data, np.array([[3.0, 1.0, -0.5], [-3.0, -1.0, 0.5]]), label)
    data["y"] = eta + 0.6 * rng.standard_normal(n)
    return MixReg.from_formula("y ~ x1 + x2", data, k=2, concomitant="~ age")


SEPARATED: dict[str, Callable[[int, int], MixReg]] = {
    "poisson": counts,
    "binomial with trials": trials,
    "choice": choices,
    "gaussian with concomitants": concomitants,
}


def against_nuts(name: str, prior: str) -> str:
    """Means and deviations against those of draws, all parameters of the flat vector."""
    warnings.simplefilter("ignore")
    model, priors = SEPARATED[name](2000, 11), PRIORS[prior]
    vb = model.fit("vb", priors=priors)
    data = model.fit().sample(
        draws=4000, tune=1000, chains=2, seed=3, priors=priors, nuts_sampler="nutpie"
    )
    draws = flat_draws(vb, data)
    wide = draws.std(axis=0)
    gap = np.abs(draws.mean(axis=0) - vb.params.to_numpy()) / wide
    ratio = vb.bse.to_numpy() / wide
    return (
        f"vb against nuts, {name}, n=2000, {prior} priors: means within {gap.max():.3f} "
        f"deviations, deviations {ratio.min():.3f} to {ratio.max():.3f} times "
        f"(entropy R2 {vb.entropy_r2:.2f})"
    )


def flat_draws(res: MixRegResults, data: object) -> np.ndarray:
    """Draws of coefficients, scales and log odds in the order of `params`, (draws, m)."""
    posterior, layout = data.posterior, res.model.layout  # type: ignore[attr-defined]

    def values(name: str) -> np.ndarray:
        found = posterior[name].to_numpy()
        return found.reshape(-1, *found.shape[2:])

    coef = values("coef")
    out = np.empty((len(coef), layout.size))
    index = layout.coef_index()
    out[:, index.ravel()] = coef.reshape(len(coef), -1)
    if layout.scale_index().size:
        out[:, layout.scale_index()] = np.log(values("scale"))
    if res.spec.mixture.gate.constant:
        weights = np.log(values("weights"))
        odds = weights[:, 1:] - weights[:, :1]
    else:
        odds = values("gate")[:, 1:].reshape(len(coef), -1)
    out[:, layout.gating_index()] = odds
    return out


LINES = np.array([[1.1, 1.0, 0.5], [-1.1, -0.6, 0.5]])
RATES = np.array([[1.9, 0.35, 0.2], [0.75, -0.35, 0.2]])


def overlapping(name: str, seed: int) -> tuple[MixReg, np.ndarray]:
    """Two components that overlap, 1,000 rows; and their coefficients."""
    data, rng = regressors(1000, 5000 + seed)
    label = pick(np.full(1000, 0.55), rng)
    coef = LINES if name == "gaussian" else RATES
    eta = predictors(data, coef, label)
    noise = rng.standard_normal(1000)
    data["y"] = eta + noise if name == "gaussian" else rng.poisson(np.exp(eta))
    return MixReg.from_formula("y ~ x1 + x2", data, k=2, family=name), coef


def covered(job: tuple[str, str, int, int]) -> tuple[int, int, int, float]:
    """Intervals that cover the truth, those of mean field that do, all of them; entropy R2."""
    warnings.simplefilter("ignore")
    name, prior, first, last = job
    hits = narrow = total = 0
    clear = 0.0
    for seed in range(first, last):
        model, coef = overlapping(name, seed)
        res = model.fit("vb", priors=PRIORS[prior])
        order = match_components(res.coefficients.to_numpy().T, coef)
        index = model.layout.coef_index()[order]
        half = (res.conf_int()[1] - res.params).to_numpy()
        small = half * (res.bse_mean_field / res.bse).to_numpy()
        gap = np.abs(res.params.to_numpy()[index] - coef)
        hits, narrow = (
            hits + int((gap <= half[index]).sum()),
            narrow + int((gap <= small[index]).sum()),
        )
        total, clear = total + coef.size, clear + res.entropy_r2
    return hits, narrow, total, clear


def coverage(name: str, prior: str, workers: int, sets: int = SETS) -> str:
    """Share of intervals that cover the truth, over many data sets."""
    edges = np.linspace(0, sets, 4 * workers + 1).astype(int).tolist()
    jobs = [(name, prior, first, last) for first, last in pairwise(edges)]
    parts = run_all(covered, jobs, workers)
    hits, narrow, total, clear = (sum(part[i] for part in parts) for i in range(4))
    return (
        f"vb 95% intervals, overlapping {name}, {sets} sets (entropy R2 {clear / sets:.2f}), "
        f"{prior} priors: {100 * hits / total:.1f}% of {total} cover, "
        f"{100 * narrow / total:.1f}% by mean field"
    )


def main(what: list[str], names: list[str] | None, workers: int = 2, sets: int = SETS) -> None:
    """Print one line a figure; of some models only, if they are named."""
    asked = what or ["nuts", "coverage"]
    for prior in PRIORS:
        for name in SEPARATED if "nuts" in asked else ():
            if names is None or name in names:
                print(against_nuts(name, prior), flush=True)
        for name in ("gaussian", "poisson") if "coverage" in asked else ():
            if names is None or name in names:
                print(coverage(name, prior, workers, sets), flush=True)
