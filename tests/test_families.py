"""Families: densities and derivatives by the book, and fits that climb to the planted truth."""

import itertools
import math
import warnings
from dataclasses import dataclass

import mpmath
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import binom, gamma, nbinom, norm, poisson

from mixreg import MixReg
from mixreg.errors import ConvergenceWarning, InputError
from mixreg.families import Binomial, Family, NegativeBinomial, Poisson, make_family
from mixreg.families.links import logistic
from mixreg.families.rising import LARGE, rising_sums
from mixreg.families.statistics import RIDGE, cross_sums, scoring_step
from mixreg.metrics import adjusted_rand_index
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

MEAN = {
    "identity": lambda eta: eta,
    "log": np.exp,
    "inverse": lambda eta: 1 / eta,
    "sqrt": lambda eta: eta * eta,
    "logit": lambda eta: 1 / (1 + np.exp(-eta)),
    "probit": norm.cdf,
    "cloglog": lambda eta: -np.expm1(-np.exp(eta)),
}


@dataclass(frozen=True)
class Kind:
    """A family with a link, and the truth of up to three components."""

    family: str
    link: str
    coef: tuple[tuple[float, float], ...]
    scale: tuple[float, ...] = ()

    @property
    def arguments(self) -> dict:
        trials = "m" if self.family == "binomial" else None
        return {"family": self.family, "link": self.link, "trials": trials}

    def __str__(self) -> str:
        return f"{self.family}-{self.link}"


KINDS = (
    Kind("poisson", "log", ((2.5, 0.8), (0.2, -0.6), (3.7, -0.4))),
    Kind("poisson", "identity", ((12, 3), (2, -1), (30, -6))),
    Kind("poisson", "sqrt", ((4, 1), (1.2, -0.5), (7, -1))),
    Kind("negativebinomial", "log", ((3.2, 0.8), (0.4, -0.8), (5, -0.5)), (0.1, 0.2, 0.05)),
    Kind("binomial", "logit", ((1.5, 1), (-1.5, 0.5), (0, -2))),
    Kind("binomial", "probit", ((1, 0.7), (-1, 0.3), (0, -1))),
    Kind("binomial", "cloglog", ((0.5, 0.5), (-2, 0.5), (-0.7, -1))),
    Kind("gamma", "inverse", ((0.4, 0.1), (2, -0.6), (0.1, -0.02)), (0.05, 0.03, 0.02)),
    Kind("gamma", "log", ((1, 0.5), (-1, -0.5), (2.5, -0.3)), (0.05, 0.03, 0.02)),
    Kind("gamma", "identity", ((10, 2), (2, -1), (25, -5)), (0.03, 0.05, 0.02)),
    Kind("gaussian", "identity", ((2, 1), (-2, -1), (5, -2)), (0.5, 0.7, 0.6)),
    Kind("gaussian", "log", ((2, 0.4), (1, -0.3), (2.7, -0.2)), (0.4, 0.3, 0.3)),
    Kind("gaussian", "inverse", ((0.4, 0.1), (2, -0.6), (0.2, -0.04)), (0.1, 0.05, 0.1)),
)
EVERY = pytest.mark.parametrize("kind", KINDS, ids=str)
SHARES = np.array([0.5, 0.3, 0.2])
TRIALS = 20


def planted(kind: Kind, n: int, k: int = 2, seed: int = 0) -> pd.DataFrame:
    """Rows of a mixture of k components; column `z` is the component, `m` the trials."""
    rng = np.random.default_rng(seed)
    z = rng.choice(k, n, p=SHARES[:k] / SHARES[:k].sum())
    x, v = rng.uniform(-1, 1, (2, n))
    coef = np.array(kind.coef, dtype=float)[z]
    mu = MEAN[kind.link](coef[:, 0] + coef[:, 1] * x)
    scale = np.array(kind.scale)[z] if kind.scale else np.ones(n)
    draw = {
        "poisson": lambda: rng.poisson(mu),
        "negativebinomial": lambda: rng.poisson(rng.gamma(1 / scale, scale * mu)),
        "binomial": lambda: rng.binomial(TRIALS, mu) / TRIALS,
        "gamma": lambda: rng.gamma(1 / scale, mu * scale),
        "gaussian": lambda: rng.normal(mu, scale),
    }[kind.family]
    return pd.DataFrame({"y": draw().astype(float), "x": x, "v": v, "z": z + 1, "m": TRIALS})


def row_density(kind: Kind, data: pd.DataFrame, coef, scale) -> np.ndarray:
    """Log density of each row under one component, by scipy."""
    y, mu = data["y"], MEAN[kind.link](coef[0] + coef[1] * data["x"])
    if kind.family == "poisson":
        return poisson.logpmf(y, mu)
    if kind.family == "negativebinomial":
        return nbinom.logpmf(y, 1 / scale, 1 / (1 + scale * mu))
    if kind.family == "binomial":
        return binom.logpmf(np.round(y * data["m"]), data["m"], mu)
    if kind.family == "gamma":
        return gamma.logpdf(y, 1 / scale, scale=mu * scale)
    return norm.logpdf(y, mu, scale)


def joint_density(kind: Kind, data: pd.DataFrame, coef, scale, weights) -> np.ndarray:
    """Log of weight times density, (k, rows), by scipy."""
    scale = scale if len(scale) else np.ones(len(coef))
    parts = zip(coef, scale, weights, strict=True)
    return np.array([np.log(w) + row_density(kind, data, c, s) for c, s, w in parts])


def declare(kind: Kind, data: pd.DataFrame, k: int, formula: str = "y ~ x", **options) -> MixReg:
    return MixReg.from_formula(formula, data, k=k, **kind.arguments, **options)


def remaining_gain(model: MixReg, params: np.ndarray) -> float:
    """What one more Newton step would add to the log-likelihood."""
    score, hessian = model.score(params), model.hessian(params)
    return float(-0.5 * score @ np.linalg.solve(hessian, score))


# Densities and derivatives of one row, against mpmath

MP_MEAN = {
    "identity": lambda eta: eta,
    "log": mpmath.exp,
    "inverse": lambda eta: 1 / eta,
    "sqrt": lambda eta: eta * eta,
}
# Logarithms of the chances of success and failure.
MP_CHANCES = {
    "logit": lambda e: (-mpmath.log1p(mpmath.exp(-e)), -mpmath.log1p(mpmath.exp(e))),
    "probit": lambda e: (mpmath.log(mpmath.ncdf(e)), mpmath.log(mpmath.ncdf(-e))),
    "cloglog": lambda e: (mpmath.log(-mpmath.expm1(-mpmath.exp(e))), -mpmath.exp(e)),
    "log": lambda e: (e, mpmath.log(-mpmath.expm1(e))),
    "identity": lambda e: (mpmath.log(e), mpmath.log1p(-e)),
}


def exact(family: str, link: str, y: float, trials: float | None):
    """Log density as a function of linear predictor and log dispersion."""
    y = mpmath.mpf(y)

    def density(eta, log_dispersion):
        scale = mpmath.exp(log_dispersion)
        if family == "binomial":
            m = mpmath.mpf(1 if trials is None else trials)
            success, failure = MP_CHANCES[link](eta)
            choose = mpmath.log(mpmath.binomial(m, mpmath.nint(m * y)))
            return m * (y * success + (1 - y) * failure) + choose
        mu = MP_MEAN[link](eta)
        if family == "poisson":
            return y * mpmath.log(mu) - mu - mpmath.loggamma(y + 1)
        if family == "gaussian":
            return -(mpmath.log(2 * mpmath.pi * scale) + (y - mu) ** 2 / scale) / 2
        a = 1 / scale
        if family == "gamma":
            return a * mpmath.log(a * y / mu) - a * y / mu - mpmath.loggamma(a) - mpmath.log(y)
        ratio = mpmath.loggamma(y + a) - mpmath.loggamma(a) - mpmath.loggamma(y + 1)
        return ratio - a * mpmath.log1p(mu / a) + y * mpmath.log(mu / (a + mu))

    return density


def rows_of(family: str, link: str, points):
    """The family, and its rows at points (y, eta, dispersion, trials)."""
    made = make_family(family, link, False, 1e-4)
    y, eta, dispersion, trials = (np.array(column) for column in zip(*points, strict=True))
    trials = None if trials[0] is None else trials.astype(float)
    return made, made.rows_at(y.astype(float), eta.astype(float), dispersion.astype(float), trials)


RESPONSES = {
    "poisson": (0, 1, 7, 40),
    "negativebinomial": (0, 1, 7, 40),
    "binomial": (0, 0.25, 1),
    "gamma": (0.01, 1, 30),
    "gaussian": (-2, 0.5, 8),
}
PREDICTORS = {
    "log": (-2, 0.5, 3),
    "identity": (0.3, 2, 15),
    "inverse": (0.05, 0.7, 3),
    "sqrt": (0.7, 0.2, 5),
    "logit": (-2.5, -0.3, 1.5),
    "probit": (-2.5, -0.3, 1.5),
    "cloglog": (-2.5, -0.3, 1.5),
}
COMBINATIONS = [
    *(("poisson", link) for link in ("log", "identity", "sqrt")),
    *(("negativebinomial", link) for link in ("log", "identity", "sqrt")),
    *(("binomial", link) for link in ("logit", "probit", "cloglog", "log", "identity")),
    *(("gamma", link) for link in ("inverse", "log", "identity")),
    *(("gaussian", link) for link in ("log", "inverse", "sqrt")),
]
COMBINED = pytest.mark.parametrize(("family", "link"), COMBINATIONS)


def ordinary(family: str, link: str):
    """Points with nothing special about them."""
    predictors = PREDICTORS[link]
    if family == "binomial" and link in ("log", "identity"):
        predictors = (-2, -0.1) if link == "log" else (0.05, 0.5, 0.9)
    scales = (0.05, 1, 3) if family in ("negativebinomial", "gamma", "gaussian") else (1,)
    trials = (4,) if family == "binomial" else (None,)
    return list(itertools.product(RESPONSES[family], predictors, scales, trials))


@COMBINED
def test_log_density_is_exact(family, link):
    points = ordinary(family, link)
    made, rows = rows_of(family, link, points)
    expected = [float(exact(family, link, y, m)(e, mpmath.log(s))) for y, e, s, m in points]
    assert_allclose(made.log_density(rows), expected, rtol=1e-11, atol=1e-11)


@COMBINED
def test_derivatives_are_those_of_the_density(family, link):
    points = ordinary(family, link)
    made, rows = rows_of(family, link, points)
    parts = {"score": (1, 0), "curvature": (2, 0)}
    if made.dispersion_name is not None:
        parts |= {"scale_score": (0, 1), "scale_curvature": (0, 2), "cross_curvature": (1, 1)}
    with mpmath.workdps(40):
        for name, order in parts.items():
            sign = -1 if sum(order) == 2 else 1
            expected = []
            for y, eta, scale, m in points:
                at = (mpmath.mpf(eta), mpmath.log(mpmath.mpf(scale)))
                expected.append(sign * float(mpmath.diff(exact(family, link, y, m), at, order)))
            found = np.broadcast_to(getattr(made, name)(rows), len(points))
            assert_allclose(found, expected, rtol=1e-8, atol=1e-9, err_msg=name)


@COMBINED
def test_scoring_weights_are_the_expected_curvature(family, link):
    made, rows = rows_of(family, link, ordinary(family, link))
    mu, phi = rows.mu, rows.dispersion
    variance = {
        "poisson": mu,
        "negativebinomial": mu + phi * mu**2,
        "binomial": mu * (1 - mu) / 4,
        "gamma": phi * mu**2,
        "gaussian": phi,
    }[family]
    step = 1e-6 * np.maximum(1, np.abs(rows.eta))
    slope = (made.mean(rows.eta + step) - made.mean(rows.eta - step)) / (2 * step)
    assert_allclose(made.weight(rows), slope**2 / variance, rtol=1e-6)


def test_densities_without_trials_are_those_of_one_trial():
    for link in ("logit", "probit", "cloglog"):
        points = [(y, eta, 1, None) for y in (0, 1) for eta in (-2, 0.3, 1.7)]
        made, rows = rows_of("binomial", link, points)
        expected = [float(exact("binomial", link, y, 1)(e, 0)) for y, e, _, _ in points]
        assert_allclose(made.log_density(rows), expected, rtol=1e-12)


FAR = {
    "poisson-log": [(0, 30, 1, None), (0, -30, 1, None), (3, -30, 1, None), (10**6, 13.8, 1, None)],
    "poisson-sqrt": [(3, 1e-6, 1, None), (0, 1e3, 1, None), (10**6, 1e3, 1, None)],
    "poisson-identity": [(3, 1e-12, 1, None), (10**6, 1e6, 1, None)],
    "negativebinomial-log": [
        (y, eta, alpha, None)
        for y in (0, 5, 2000)
        for eta in (-30, 1.5, 7.5, 30)
        for alpha in (1e-3, 0.5, 1e4, 1e8)
    ],
    "binomial-logit": [(y, eta, 1, 10) for y in (0, 0.3, 1) for eta in (-30, -8, 8, 30)],
    "binomial-probit": [(y, eta, 1, 10) for y in (0, 0.3, 1) for eta in (-30, -8, 8, 30)],
    "binomial-cloglog": [(y, eta, 1, 10) for y in (0, 0.3, 1) for eta in (-30, -8, 4, 6)],
    "gamma-log": [(y, e, s, None) for y in (1e-8, 1e8) for e in (-3, 30) for s in (1e-4, 50)],
    "gamma-inverse": [(y, 1e-6, s, None) for y in (1e-3, 1e6) for s in (1e-4, 50)],
    "gaussian-log": [(y, e, s, None) for y in (-5, 1e6) for e in (-30, 13.8) for s in (1e-6, 1e6)],
}


@pytest.mark.parametrize("name", FAR)
def test_log_density_far_out(name):
    family, link = name.split("-")
    made, rows = rows_of(family, link, FAR[name])
    with mpmath.workdps(60):
        expected = [
            float(exact(family, link, y, m)(mpmath.mpf(e), mpmath.log(s)))
            for y, e, s, m in FAR[name]
        ]
    assert_allclose(made.log_density(rows), expected, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("name", [name for name in FAR if name.startswith("binomial")])
def test_scores_far_out(name):
    family, link = name.split("-")
    made, rows = rows_of(family, link, FAR[name])
    with mpmath.workdps(60):
        expected = [
            float(mpmath.diff(exact(family, link, y, m), (mpmath.mpf(eta), 0), (1, 0)))
            for y, eta, _, m in FAR[name]
        ]
    assert_allclose(made.score(rows), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("family", ["poisson", "negativebinomial", "gamma", "gaussian"])
def test_derivatives_at_the_ends_of_the_scale_are_finite(family):
    points = [(1, eta, 0.5, None) for eta in (-190, 190)]
    made, rows = rows_of(family, "log", points)
    for name, order in (("score", 1), ("curvature", 2)):
        with mpmath.workdps(100):
            functions = [exact(family, "log", y, m) for y, _, _, m in points]
            at = [(mpmath.mpf(eta), mpmath.log(scale)) for _, eta, scale, _ in points]
            pairs = zip(functions, at, strict=True)
            expected = [float(mpmath.diff(f, place, (order, 0))) for f, place in pairs]
        expected = np.array(expected) * (-1) ** (order + 1)
        assert_allclose(getattr(made, name)(rows), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("alpha", [1e-8, 1e-7, 1e-6, 1e-5])
def test_a_negative_binomial_with_a_tiny_alpha_is_nearly_a_poisson(alpha):
    points = [(y, eta, alpha, None) for y in (0, 2, 30) for eta in (0, 1.5, 3)]
    made, rows = rows_of("negativebinomial", "log", points)
    log_alpha = mpmath.log(mpmath.mpf(alpha))
    with mpmath.workdps(50):
        functions = [exact("negativebinomial", "log", y, m) for y, _, _, m in points]
        at = [(f, mpmath.mpf(eta)) for f, (_, eta, _, _) in zip(functions, points, strict=True)]
        density = [float(f(eta, log_alpha)) for f, eta in at]
        score = [float(mpmath.diff(f, (eta, log_alpha), (0, 1))) for f, eta in at]
    assert_allclose(made.log_density(rows), density, rtol=0, atol=1e-10)
    assert_allclose(made.scale_score(rows), score, rtol=1e-3, atol=1e-10)


def test_rows_of_little_weight_keep_their_score():
    x = np.column_stack([np.ones(6), np.arange(6.0)])
    weight, score = np.array([[1e20, 1, 1, 1, 1, 1]]), np.ones((1, 6))
    information, total = cross_sums(Block(x, np.zeros(6)), weight, score)
    assert_allclose(total, score @ x)
    assert_allclose(information[0], (x * weight.T).T @ x)


@EVERY
def test_a_stack_of_runs_is_its_runs(kind):
    model = declare(kind, planted(kind, 60), 2, groups=np.arange(60) // 3)
    rng = np.random.default_rng(0)
    coef = np.array(kind.coef[:2], dtype=float)[:, None] * rng.uniform(0.9, 1.1, (2, 3, 1))
    stack = Parameters(coef, rng.uniform(0.1, 1, (2, 3)), np.log(np.full((2, 3, 1), 0.5)))
    family, block = model.family, model.source.as_block()
    resp = rng.dirichlet([1, 1], (3, block.units)).transpose(2, 0, 1)
    state = family.evaluate(block, stack)
    density = family.unit_density(block, stack, state)
    sums = family.statistics(block, stack, state, resp)
    for run in range(3):
        one = stack.run(run)
        alone = family.evaluate(block, one)
        assert_allclose(density[:, run], family.unit_density(block, one, alone), rtol=1e-12)
        single = family.statistics(block, one, alone, resp[:, run])
        for name in ("size", "xx", "xe"):
            found = getattr(sums, name)[:, run]
            assert_allclose(found, getattr(single, name), rtol=1e-10, atol=1e-10)
        assert_allclose(sums.spread[..., run], single.spread, rtol=1e-10, atol=1e-10)


# Score and Hessian of mixtures

OPTIONS = ("plain", "groups", "shared", "noise", "equal")


def with_options(kind: Kind, data: pd.DataFrame, option: str) -> MixReg:
    """A mixture of two with one of the sets of options."""
    n, formula = len(data), "y ~ x + v"
    if option == "groups":
        group = 2 * (data.groupby("z").cumcount() // 4) + data["z"]
        weights = 1 + group % 3 / 2
        offset = 0.01 * data["v"] ** 2
        return declare(kind, data, 2, formula, groups=group, weights=weights, offset=offset)
    if option == "shared":
        return declare(kind, data, 2, formula, shared=["x"], concomitant="~ v")
    if option == "noise":
        known = np.where(np.arange(n) % 5 == 0, data["z"], np.nan)
        known[3] = 0
        return declare(kind, data, 2, formula, noise=True, known_labels=known)
    if option == "equal":
        return declare(kind, data, 2, formula, equal_variance=True, concomitant="~ v", noise=True)
    return declare(kind, data, 2, formula)


def near_truth(model: MixReg, kind: Kind) -> np.ndarray:
    """A parameter vector near the truth that is no maximum."""
    values = []
    for name in model.param_names:
        j = int(name[-2]) - 1 if name.endswith(("[1]", "[2]")) else 0
        coef, scale = kind.coef[j], kind.scale[j] if kind.scale else 1.0
        term = name.split("[")[0]
        start = {"Intercept": coef[0], "x": coef[1] if "[" in name else 0.1, "v": 0.02}
        values.append(start.get(term, np.log(scale) if term.startswith("log(") else 0.3))
    rng = np.random.default_rng(1)
    return np.array(values) * rng.uniform(0.97, 1.03, len(values))


def slopes(function, at: np.ndarray) -> np.ndarray:
    """Derivatives by differences of fourth order, one row a parameter."""
    rows = []
    for i, value in enumerate(at):
        step = np.zeros(len(at))
        step[i] = 1e-4 * max(0.1, abs(value))
        near = function(at + step) - function(at - step)
        far = function(at + 2 * step) - function(at - 2 * step)
        rows.append((8 * near - far) / (12 * step[i]))
    return np.array(rows)


@pytest.mark.parametrize("option", OPTIONS)
@EVERY
def test_score_and_hessian_are_the_derivatives_of_loglike(kind, option):
    model = with_options(kind, planted(kind, 80), option)
    at = near_truth(model, kind)
    score, hessian = model.score(at), model.hessian(at)
    expected = slopes(model.loglike, at)
    assert_allclose(score, expected, rtol=1e-6, atol=1e-6 * np.abs(score).max())
    scale = np.sqrt(np.abs(np.outer(np.diag(hessian), np.diag(hessian))))
    assert_allclose(hessian / scale, slopes(model.score, at) / scale, rtol=1e-5, atol=1e-5)


@EVERY
def test_log_likelihood_is_that_of_scipy(kind):
    data = planted(kind, 80)
    model = declare(kind, data, 2)
    weights = np.array([0.6, 0.4])
    scale = np.array(kind.scale[:2])
    coef = np.array(kind.coef[:2], dtype=float)
    rows = coef if not len(scale) else np.column_stack([coef, np.log(scale)])
    vector = np.append(rows.ravel(), np.log(weights[1] / weights[0]))
    expected = logsumexp(joint_density(kind, data, coef, scale, weights), axis=0).sum()
    assert_allclose(model.loglike(vector), expected, rtol=1e-11)


# The way up


@pytest.mark.parametrize("seed", [0, 1, 2])
@EVERY
def test_the_log_likelihood_never_falls(kind, seed):
    data = planted(kind, 200, seed=seed)
    rng = np.random.default_rng(seed)
    start = np.where(rng.random(200) < 0.3, rng.integers(1, 3, 200), data["z"])
    fit = declare(kind, data, 2).fit(init=start)
    assert fit.converged
    assert len(fit.history) > 2
    assert np.diff(fit.history).min() >= -1e-10 * (1 + abs(fit.llf))
    assert_allclose(fit.history[-1], fit.llf, rtol=1e-12)
    assert 0 <= remaining_gain(fit.model, fit.params.to_numpy()) < 1e-8 * fit.nobs


@EVERY
def test_tol_is_reached(kind):
    data = planted(kind, 200)
    rough = declare(kind, data, 2).fit(init=data["z"].to_numpy(), tol=1e-3)
    fine = declare(kind, data, 2).fit(init=data["z"].to_numpy(), tol=1e-14)
    assert rough.n_iter <= fine.n_iter
    assert rough.llf <= fine.llf + 1e-9
    assert remaining_gain(fine.model, fine.params.to_numpy()) < 1e-11 * fine.nobs


# Planted truth


@pytest.mark.parametrize("k", [2, 3])
@EVERY
def test_planted_components_are_found(kind, k):
    data = planted(kind, 600, k)
    fit = declare(kind, data, k).fit()
    truth = np.array(kind.coef[:k], dtype=float)
    shares = SHARES[:k] / SHARES[:k].sum()
    found = fit.coefficients.to_numpy().T
    if kind.link == "sqrt":
        found = found * np.sign(found[:, :1])
    order = min(
        itertools.permutations(range(k)), key=lambda p: np.abs(found[list(p)] - truth).max()
    )
    order = list(order)
    errors = fit.bse.to_numpy()[fit.model.layout.coef_index()]
    assert np.abs((found - truth[np.argsort(order)]) / errors).max() < 4.5
    assert_allclose(fit.weights.to_numpy()[order], shares, atol=0.08)
    if kind.scale:
        errors = fit.bse.to_numpy()[fit.model.layout.scale_index()][order]
        assert np.abs(np.log(fit.scale.to_numpy()[order] / kind.scale[:k]) / errors).max() < 4.5
    best = joint_density(kind, data, truth, kind.scale[:k], shares).argmax(axis=0)
    reachable = adjusted_rand_index(data["z"], best)
    assert adjusted_rand_index(data["z"], fit.labels) > reachable - 0.05


@pytest.mark.parametrize("k", [2, 3])
@EVERY
def test_true_labels_are_as_good_a_start_as_the_race(kind, k):
    data = planted(kind, 300, k)
    fit = declare(kind, data, k).fit(init=data["z"].to_numpy())
    truth = np.array(kind.coef[:k], dtype=float)
    shares = SHARES[:k] / SHARES[:k].sum()
    at_truth = logsumexp(joint_density(kind, data, truth, kind.scale[:k], shares), axis=0).sum()
    assert fit.converged
    assert fit.llf > at_truth


@pytest.mark.parametrize("init", ["random", "tensor"])
@EVERY
def test_no_fit_converges_below_a_single_component(kind, init):
    data = planted(kind, 300)
    one = declare(kind, data, 1).fit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        two = declare(kind, data, 2).fit(init=init)
    assert two.llf >= one.llf - 1e-6 or not two.converged


# Draws


def moments(kind: Kind, mu: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Variance of a response by the book."""
    return {
        "poisson": mu,
        "negativebinomial": mu + scale * mu**2,
        "binomial": mu * (1 - mu) / TRIALS,
        "gamma": scale * mu**2,
        "gaussian": scale**2 + 0 * mu,
    }[kind.family]


@EVERY
def test_draws_have_the_moments_of_their_components(kind):
    data = planted(kind, 300)
    fit = declare(kind, data, 2).fit(init=data["z"].to_numpy())
    draws = [fit.simulate(seed) for seed in range(20)]
    assert draws[3].equals(fit.simulate(3))
    assert not draws[3].equals(draws[4])
    assert draws[0].index.equals(data.index)
    y = np.array([d["y"] for d in draws])
    labels = np.array([d["component"] for d in draws])
    shares = fit.weights.to_numpy()
    for j in (1, 2):
        mu = MEAN[kind.link](fit.coefficients[j].to_numpy() @ [np.ones(300), data["x"]])
        z = (y - mu) / np.sqrt(moments(kind, mu, fit.scale[j]))
        z = z[labels == j]
        assert abs((labels == j).mean() - shares[j - 1]) < 4.5 * np.sqrt(0.25 / labels.size)
        assert abs(z.mean()) < 4.5 / np.sqrt(z.size)
        assert abs((z**2).mean() - 1) < 4.5 * (z**2).std() / np.sqrt(z.size)


@EVERY
def test_draws_of_groups_share_labels_and_noise_spreads_evenly(kind):
    data = planted(kind, 300)
    group = 2 * (data.groupby("z").cumcount() // 4) + data["z"]
    labels = np.where(np.arange(300) % 7 == 0, 0, data["z"])
    rows = declare(kind, data, 2, noise=True, known_labels=labels).fit(n_init=4)
    drawn = rows.simulate(1)
    assert_allclose(drawn["component"], labels)
    far = drawn["y"][labels == 0]
    low, high = {
        "gaussian": (data["y"].min(), data["y"].max()),
        "binomial": (0, 1),
    }.get(kind.family, (0, data["y"].max() + 1))
    assert far.between(low, high).all()
    assert abs(far.mean() - (low + high) / 2) < 4.5 * (high - low) / np.sqrt(12 * len(far)) + 0.5
    if kind.family in ("poisson", "negativebinomial"):
        assert (far == far.round()).all()
    grouped = declare(kind, data, 2, groups=group).fit(init=data["z"].to_numpy())
    assert (grouped.simulate(2).groupby(group)["component"].nunique() == 1).all()


def test_draws_of_choices_have_one_choice_in_each_set():
    rng = np.random.default_rng(0)
    size = rng.choice([2, 3, 5], 200)
    offered = np.repeat(np.arange(200), size)
    x = rng.normal(size=len(offered))
    first = np.flatnonzero(np.diff(offered, prepend=-1))
    y = np.zeros(len(offered))
    y[first + rng.integers(0, size)] = 1
    data = pd.DataFrame({"y": y, "x": x, "offered": offered, "who": offered // 4})
    data = data.sample(frac=1, random_state=0)
    for noise in (False, True):
        model = MixReg.from_formula(
            "y ~ x", data, k=2, family="choice", choice_set="offered", groups="who", noise=noise
        )
        fit = model.fit(n_init=2, max_iter=5000)
        draws = [fit.simulate(seed) for seed in range(30)]
        assert all((d.groupby(data["offered"])["y"].sum() == 1).all() for d in draws)
        assert draws[1].equals(fit.simulate(1))
    # Shares of the drawn choices are those predicted, given the label.
    expected = fit.predict(which="component")
    for j in (1, 2):
        drawn = np.array([np.where(d["component"] == j, d["y"] - expected[j], 0) for d in draws])
        rows = np.array([d["component"] == j for d in draws]).sum()
        assert abs((drawn * data["x"].to_numpy()).sum()) < 4.5 * np.sqrt(rows) * data["x"].std()


# What is refused


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    m = rng.integers(2, 9, 40)
    s = rng.binomial(m, 0.4)
    columns = {"x": rng.normal(size=40), "c": rng.poisson(3, 40), "g": rng.gamma(2, 1, 40)}
    columns |= {"m": m, "s": s, "f": m - s, "p": s / m, "e": rng.uniform(1, 3, 40)}
    return pd.DataFrame(columns, [f"r{i}" for i in range(40)]).astype(float)


BAD_ROWS = [
    ("c ~ x", {"c": -1}, {"family": "poisson"}, "the response is -1 in row 'r7'.*counts"),
    ("c ~ x", {"c": 1.5}, {"family": "poisson"}, "the response is 1.5 in row 'r7'.*whole"),
    ("c ~ x", {"c": -1}, {"family": "negativebinomial"}, "the response is -1 in row 'r7'"),
    ("c ~ x", {"c": 0.5}, {"family": "negativebinomial"}, "the response is 0.5 in row 'r7'"),
    ("g ~ x", {"g": 0}, {"family": "gamma"}, "the response is 0 in row 'r7'.*positive"),
    ("g ~ x", {"g": -2}, {"family": "gamma"}, "the response is -2 in row 'r7'.*positive"),
    ("p ~ x", {"p": 1.5}, {"family": "binomial", "trials": "m"}, "1.5 in row 'r7'"),
    ("p ~ x", {"p": -0.5}, {"family": "binomial", "trials": "m"}, "-0.5 in row 'r7'"),
    ("p ~ x", {"p": 0.1234}, {"family": "binomial", "trials": "m"}, "0.1234 in row 'r7'.*whole"),
    ("p ~ x", {"m": 2.5}, {"family": "binomial", "trials": "m"}, "row 'r7'.*whole"),
    ("p ~ x", {"m": 0}, {"family": "binomial", "trials": "m"}, "row 'r7'.*at least 1"),
    ("p ~ x", {"m": 0}, {"family": "binomial", "weights": "m"}, "row 'r7'.*at least 1"),
    ("p ~ x", {}, {"family": "binomial"}, "row 'r0'.*give trials="),
    ("s + f ~ x", {"s": 0, "f": 0}, {"family": "binomial"}, "'r7'"),
    ("s + f ~ x", {"s": -1}, {"family": "binomial"}, "'r7'"),
    ("s + f ~ x", {"s": 1.5}, {"family": "binomial"}, "'r7'"),
    ("c ~ x", {"e": 0}, {"family": "poisson", "exposure": "e"}, "positive; row 'r7' has 0"),
    ("c ~ x", {"e": -2}, {"family": "poisson", "exposure": "e"}, "positive; row 'r7' has -2"),
    ("c ~ x", {"e": np.inf}, {"family": "poisson", "offset": "e"}, "infinite in row 'r7'"),
]


@pytest.mark.parametrize(("formula", "bad", "options", "message"), BAD_ROWS)
def test_bad_rows_are_named(formula, bad, options, message):
    data = table()
    # A row that is dropped must not shift the name.
    data.loc["r2", "x"] = np.nan
    for column, value in bad.items():
        data.loc["r7", column] = value
    with pytest.raises(InputError, match=message):
        MixReg.from_formula(formula, data, k=1, **options)


BAD_ARGUMENTS = [
    ({"family": "tweedie"}, "family='tweedie' is unknown; use one of binomial, choice"),
    ({"family": 3}, "family=3 is not a family"),
    ({"family": "poisson", "link": "cauchit"}, "link='cauchit' is unknown; use one of"),
    ({"family": "poisson", "link": "logit"}, "link='logit' does not fit family='poisson'; use"),
    ({"family": "poisson", "link": 3}, "link=3 is not a link"),
    ({"family": "poisson", "link": "identity", "exposure": "e"}, "exposure needs a log link"),
    ({"family": "gaussian", "exposure": "e"}, "exposure needs a log link"),
    ({"family": "poisson", "trials": "m"}, "trials= needs family='binomial'"),
    ({"family": "choice"}, "family='choice' needs choice_set="),
    ({"family": "choice", "link": "logit"}, "link='logit' has no place"),
    ({"family": "poisson", "choice_set": "m"}, "choice_set needs family='choice'"),
    ({"family": "poisson", "offset": "w"}, "offset='w' is not a column"),
    ({"family": "poisson", "offset": np.ones(3)}, "offset has length 3"),
]


@pytest.mark.parametrize(("options", "message"), BAD_ARGUMENTS)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(InputError, match=message):
        MixReg.from_formula("c ~ x", table(), k=1, **options)


def test_two_columns_need_a_binomial_and_no_trials():
    with pytest.raises(InputError, match=r"response 's \+ f'"):
        MixReg.from_formula("s + f ~ x", table(), k=1, family="poisson")
    with pytest.raises(InputError, match="trials= has no place"):
        MixReg.from_formula("s + f ~ x", table(), k=1, family="binomial", trials="m")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([0, 0, 0], "begins at row 'r3' has no alternative chosen"),
        ([1, 1, 0], "begins at row 'r3' has 2 alternatives chosen"),
        ([0.5, 0.5, 0], "the response is 0.5 in row 'r3'"),
    ],
)
def test_bad_choice_sets_are_named(chosen, message):
    data = table().head(30).assign(offered=np.arange(30) // 3, y=np.tile([0, 1, 0], 10))
    data["y"] = data["y"].astype(float)
    data.iloc[3:6, data.columns.get_loc("y")] = chosen
    options = {"k": 1, "family": "choice", "choice_set": "offered"}
    with pytest.raises(InputError, match=message):
        MixReg.from_formula("y ~ x", data, **options)
    data.loc["r3", "y"] = 1
    with pytest.raises(InputError, match="begins at row 'r3' has one alternative only"):
        MixReg.from_formula("y ~ x", data.drop(index=["r4", "r5"]), **options)


@pytest.mark.parametrize("alpha", [1e-20, 1e-12, 1e-7, 1e-3, 0.03, 0.04, 2.0, 1e4])
@pytest.mark.parametrize("y", [0, 1, 7, 3500, 200_000])
def test_sums_below_a_count_are_exact_at_every_dispersion(alpha, y):
    s = alpha * np.arange(y)
    parts = np.log1p(s), s / (1 + s), s / (1 + s) ** 2
    for which, part in enumerate(parts):
        total = math.fsum(part)
        found = rising_sums(np.array([alpha]), np.array([float(y)]), which)
        # Gamma functions of small arguments are the differences of large ones.
        loss = 1e-13 * y * np.log(y + 1.0) if alpha > 1 / LARGE else 1e-13 * alpha * y
        assert_allclose(found, total, rtol=1e-12, atol=loss + 1e-300)


@pytest.mark.parametrize("mu", [1e-4, 3.0, 1e5])
def test_a_negative_binomial_with_hardly_any_dispersion_is_a_poisson(mu):
    y = np.array([0.0, 1.0, 3.0, 90.0, 1e5, 1e5 + 300])
    eta = np.full(len(y), np.log(mu))
    one = np.array([1e-20])
    negative, poisson = NegativeBinomial(), Poisson()
    at, plain = (f.rows_at(y, eta, one, None) for f in (negative, poisson))
    for name in ("log_density", "score", "weight", "curvature"):
        assert_allclose(getattr(negative, name)(at), getattr(poisson, name)(plain), 1e-12, 1e-8)


def test_sums_of_a_negative_binomial_are_those_of_its_rows():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 2)), rng.integers(0, 9, 50).astype(float)
    block = Block(x, y, weight=rng.uniform(0.5, 2, 50))
    params = Parameters.uniform(0.5 * rng.standard_normal((3, 2, 2)), 0.7)
    spread = np.array([[1e-9, 0.2], [1e-4, 3.0], [0.5, 1.0]])
    params = Parameters(params.coef, spread, params.gating)
    family = NegativeBinomial()
    state, r = family.evaluate(block, params), rng.random((3, 2, 50))
    sums = family.statistics(block, params, state, r)
    base = Family.statistics(family, block, params, state, r)
    for name in ("size", "xx", "xe", "spread"):
        assert_allclose(getattr(sums, name), getattr(base, name), rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("size", [1.0, 400.0])
def test_sums_over_choice_sets_are_those_of_the_formula(ragged, size):
    rng = np.random.default_rng(0)
    widths = np.where(np.arange(20) % 3 == 0, 2 + ragged, 3 - ragged) if ragged else np.full(20, 3)
    sets = np.concatenate([[0], widths.cumsum()[:-1]])
    rows = int(widths.sum())
    opens, y = np.zeros(rows, dtype=bool), np.zeros(rows)
    opens[sets] = True
    y[sets + rng.integers(0, widths)] = 1.0
    x = rng.standard_normal((rows, 2))
    block = Block(x, y, starts=sets, opens=opens)
    params = Parameters.uniform(size * rng.standard_normal((2, 3, 2)), 1.0)
    family = make_family("choice", None, False, 1e-4)
    state, r = family.evaluate(block, params), rng.random((2, 3, 20))
    density, sums = (
        family.unit_density(block, params, state),
        family.statistics(block, params, state, r),
    )
    for j, run in np.ndindex(2, 3):
        eta, xx, xe = x @ params.coef[j, run], np.zeros((2, 2)), np.zeros(2)
        for i, (first, width) in enumerate(zip(sets, widths, strict=True)):
            at = slice(first, first + width)
            logs = eta[at] - logsumexp(eta[at])
            mu, mean = np.exp(logs), np.exp(logs) @ x[at]
            assert_allclose(density[j, run, i], y[at] @ logs, rtol=1e-10, atol=1e-12)
            xx += r[j, run, i] * ((x[at].T * mu) @ x[at] - np.outer(mean, mean))
            xe += r[j, run, i] * (y[at] - mu) @ x[at]
        assert_allclose(sums.xx[j, run], xx, rtol=1e-9, atol=1e-10)
        assert_allclose(sums.xe[j, run], xe, rtol=1e-9, atol=1e-10)


def test_chances_are_exact_far_out():
    eta = np.array([-800.0, -700.0, -40.0, -1e-9, 0.0, 1e-9, 30.0, 40.0, 800.0])
    with mpmath.workdps(400):
        exact = [float(1 / (1 + mpmath.exp(-mpmath.mpf(e)))) for e in eta]
    assert_allclose(logistic(eta), exact, rtol=1e-14, atol=5e-324)


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_log_chances_are_exact_far_out(y):
    eta = np.array([-800.0, -40.0, -1e-9, 0.0, 1e-9, 30.0, 40.0, 800.0])
    with mpmath.workdps(400):
        signed = [(2 * y - 1) * mpmath.mpf(e) for e in eta]
        exact = [float(-mpmath.log1p(mpmath.exp(-s))) for s in signed]
    rows = Binomial().rows_at(np.full(eta.shape, y), eta, np.ones(1), None)
    assert_allclose(Binomial().density(rows), exact, rtol=1e-15, atol=1e-15)


def test_draws_that_have_no_mean_are_told():
    rng = np.random.default_rng(2)
    x, group = rng.normal(size=3000), np.repeat(np.arange(500), 6)
    slope = np.where(rng.integers(0, 2, 500)[group], 0.7, -0.7)
    data = pd.DataFrame({"x": x, "y": rng.gamma(3, np.exp(0.3 + slope * x) / 3)})
    res = MixReg.from_formula("y ~ x", data, k=2, family="gamma").fit(n_init=2)
    with pytest.warns(UserWarning, match="rows have no mean in the component") as told:
        drawn = res.simulate(3)
    assert str(drawn["y"].isna().sum()) == str(told[0].message).split()[0]


@pytest.mark.parametrize("shared", [0, 1])
def test_a_step_is_found_where_the_ridge_is_lost_in_rounding(shared):
    one_row = np.array([[900.0, 1200.0], [1200.0, 1600.0]])  # (30, 40) times itself
    rows = np.array([one_row, np.eye(2)]) if not shared else one_row[None]
    score = rows @ [3.0, 4.0]
    step = scoring_step(rows, score, np.array(RIDGE), shared)
    assert_allclose(np.einsum("kpq,kq->kp", rows, step), score, rtol=1e-3)


def test_groups_of_one_row_with_many_counts_are_fitted():
    rng = np.random.default_rng(11)
    person = np.repeat(np.arange(150), rng.integers(1, 6, 150))
    x, days = rng.normal(size=len(person)), rng.uniform(0.5, 3, len(person))
    eta = np.where(person < 75, 1 + 0.8 * x, 0.2 - 0.5 * x)
    data = pd.DataFrame({"y": rng.poisson(days * np.exp(eta)), "x": x, "days": days, "id": person})
    model = MixReg.from_formula("y ~ x", data, k=2, family="poisson", groups="id", exposure="days")
    assert_allclose(model.fit().coefficients.loc["x"], [0.8, -0.5], atol=0.1)
