"""Variational Bayes of families, gates and terms that have no conjugate posterior."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import gammaln

from mixreg import MixReg, MixRegResults, NotAvailableError, Priors, load
from mixreg.estimators import Control, iterate
from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.variational import Variational
from mixreg.inference.response import answered, stretch
from mixreg.metrics import match_components
from mixreg.ppl.draws import draw_beliefs, log_likelihoods, mixtures_of
from tests.inverse_gaussian import InverseGaussian
from tests.samples import random_mixture
from tests.test_own_family import StudentT, TruncatedPoisson

PRIORS = Priors(concentration=1.0)
FIRM = Priors(
    concentration=1.0, coef_scale=5.0, link_scale=2.0, shape=3.0, rate=1.0, gate_scale=1.5
)


def people(n: int = 400, seed: int = 0, apart: float = 1.0) -> pd.DataFrame:
    """Responses of every kind from two components; `z` is the component, `who` a group."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n // 4), 4)
    data = pd.DataFrame({"x": rng.standard_normal(n), "w": rng.standard_normal(n), "who": who})
    data["age"] = np.repeat(rng.standard_normal(n // 4), 4)
    first = np.repeat(rng.random(n // 4), 4) < 1 / (1 + np.exp(-0.3 - data["age"]))
    data["z"] = np.where(first, 1, 2)
    eta = np.where(first, 1.0 + apart, 1.0 - apart) + np.where(first, 0.4, -0.4) * data["x"]
    eta += 0.2 * data["w"]
    data["eta"] = eta
    data["count"] = rng.poisson(np.exp(eta))
    data["wide"] = rng.negative_binomial(4, 4 / (4 + np.exp(eta)))
    data["cost"] = rng.gamma(6, np.exp(eta) / 6)
    data["y"] = 2 * eta + 0.7 * rng.standard_normal(n)
    data["trials"] = rng.integers(4, 12, n)
    data["yes"] = rng.binomial(data["trials"], 1 / (1 + np.exp(1 - eta)))
    data["no"] = data["trials"] - data["yes"]
    data["task"] = np.repeat(np.arange(n // 2), 2)
    utility = 3 * np.where(first, 1.0, -1.0) * data["x"] + data["w"] + rng.gumbel(size=n)
    best = utility.to_numpy().reshape(-1, 2).argmax(axis=1)
    data["chosen"] = (np.arange(2) == best[:, None]).ravel().astype(int)
    data["heavy"] = 1 + who % 3
    data["hours"] = rng.uniform(0.5, 2.0, n)
    data["known"] = np.where(who % 6 == 0, data["z"], np.nan)
    data["late"] = rng.wald(np.exp(eta), 20.0)
    return data


MODELS = {
    "poisson": ("count ~ x + w", {"family": "poisson"}),
    "negative binomial": ("wide ~ x + w", {"family": "negativebinomial", "groups": "who"}),
    "trials": ("yes + no ~ x + w", {"family": "binomial", "groups": "who"}),
    "probit": ("yes + no ~ x", {"family": "binomial", "link": "probit"}),
    "gamma": ("cost ~ x + w", {"family": "gamma", "link": "log"}),
    "gamma, common": ("cost ~ x", {"family": "gamma", "link": "log", "equal_variance": True}),
    "log link": ("y ~ x", {"link": "log"}),
    "choices": (
        "chosen ~ x + w",
        {"family": "choice", "choice_set": "task", "groups": "who"},
    ),
    "concomitant": ("y ~ x + w", {"concomitant": "~ age", "groups": "who"}),
    "poisson, concomitant": (
        "count ~ x",
        {"family": "poisson", "concomitant": "~ age", "groups": "who"},
    ),
    "shared": ("y ~ x + w", {"shared": ["w"]}),
    "shared, groups": ("y ~ x + w", {"shared": ["w"], "groups": "who", "weights": "heavy"}),
    "poisson, shared": ("count ~ x + w", {"family": "poisson", "shared": ["w"]}),
    "common variance": ("y ~ x + w", {"equal_variance": True}),
    "only": ("y ~ x + w", {"only": {"w": [1]}}),
    "poisson, only": ("count ~ x + w", {"family": "poisson", "only": {"w": [2]}}),
    "all at once": (
        "y ~ x + w",
        {"shared": ["w"], "equal_variance": True, "concomitant": "~ age", "noise": True},
    ),
    "exposure, weights": (
        "count ~ x",
        {"family": "poisson", "exposure": "hours", "weights": "heavy", "groups": "who"},
    ),
    "known": ("count ~ x", {"family": "poisson", "known_labels": "known"}),
    "noise": ("count ~ x", {"family": "poisson", "noise": True}),
    "three": ("cost ~ x", {"family": "gamma", "link": "log", "k": 3}),
    "one": ("count ~ x", {"family": "poisson", "k": 1}),
    "own": ("late ~ x", {"family": InverseGaussian()}),
}
EXACT = ("shared", "shared, groups", "common variance", "only")


def model_of(name: str, data: pd.DataFrame | None = None) -> MixReg:
    formula, declared = MODELS[name]
    data = people() if data is None else data
    if name == "log link":
        data = data.assign(y=np.exp(data["eta"]) + 0.5 * np.sin(np.arange(len(data))))
    return MixReg.from_formula(formula, data, **{"k": 2, **declared})


_found: dict[str, MixRegResults] = {}


def fit_of(name: str) -> MixRegResults:
    """A fit, made once."""
    if name not in _found:
        _found[name] = model_of(name).fit("vb", priors=FIRM, n_init=4)
    return _found[name]


def problem_of(res: MixRegResults):
    """Rows in standard coordinates, and the estimator."""
    problem = res.model.problem()
    rows = problem.source.standard(problem.whitening)
    return rows, Variational(problem.mixture, res.fitted.priors)


def bound(res: MixRegResults, beliefs: Beliefs) -> float:
    rows, estimator = problem_of(res)
    return float(estimator.sweep(rows, 0, beliefs.stacked()).objective[0])


# The bound


@pytest.mark.parametrize("name", MODELS)
def test_the_bound_rises_at_every_step_from_any_start(name):
    # A step after which an approximate bound fell is halved, so what is kept never falls.
    res = fit_of(name)
    rows, estimator = problem_of(res)
    mixture = estimator.mixture
    random = random_mixture(res.k, res.model.layout.p, 5, runs=4)
    near = replace(random, coef=0.3 * random.coef, dispersion=np.full_like(random.dispersion, 0.5))
    if name == "log link":
        near = replace(near, coef=res.fitted.standard.coef[:, None] + 0.1 * near.coef)
    start = mixture.prepare(near)
    beliefs = estimator.around(start, rows.row_weight, rows.total_weight)
    for fit in iterate(rows, estimator, beliefs, Control(40, 0.0)):
        assert fit.history[-1] > fit.history[0]
        assert (np.diff(fit.history) >= -1e-10 * (1 + np.abs(fit.history[:-1]))).all()
        assert fit.reason != "decreased"


@pytest.mark.parametrize("name", MODELS)
def test_the_bound_rises_in_the_final_run(name):
    res = fit_of(name)
    assert res.converged
    assert (np.diff(res.history) >= -1e-10 * (1 + np.abs(res.history[:-1]))).all()
    assert res.elbo == res.history[-1]
    assert res.elbo < res.llf


def settled(name: str) -> tuple[MixRegResults, Beliefs]:
    """A posterior from which no step leads."""
    res = fit_of(name)
    rows, estimator = problem_of(res)
    ends = iterate(rows, estimator, res.fitted.beliefs.stacked(), Control(2000, 1e-16))
    return res, ends[0].params


@pytest.mark.parametrize("name", MODELS)
def test_the_end_is_a_stationary_point_of_the_bound(name):
    res, end = settled(name)
    rng = np.random.default_rng(0)
    mixture = res.model.problem().mixture
    h = 1e-4
    for _ in range(4):
        # A push of about one standard deviation in a random direction, h times.
        push = np.einsum(
            "kpq,kq->kp",
            np.linalg.cholesky(end.factor + 1e-12 * np.eye(end.factor.shape[-1])),
            rng.standard_normal(end.coef.shape),
        )
        if mixture.shared:
            push[:, -mixture.shared :] = push[:1, -mixture.shared :]
        for j, i in mixture.absent:
            push[j, i] = 0.0
        gate = np.sqrt(np.einsum("kqkq->kq", end.spread)) * rng.standard_normal(end.gating.shape)
        up, down = (
            replace(end, coef=end.coef + s * h * push, gating=end.gating + s * h * gate)
            for s in (1, -1)
        )
        assert abs(bound(res, up) - bound(res, down)) / (2 * h) < 0.02
    # Covariances, dispersions and counts that are wider or narrower are worse.
    for change in ("factor", "rate", "shape", "counts", "spread"):
        value = getattr(end, change)
        if value.size == 0 or (change in ("rate", "shape") and not mixture.scales):
            continue
        if change == "counts" and not mixture.gate.constant:
            continue
        slope = [bound(res, replace(end, **{change: value * f})) for f in (1 + h, 1 - h)]
        assert abs(slope[0] - slope[1]) / (2 * h) < 0.05 * max(1.0, value.shape[0])


@pytest.mark.parametrize("name", MODELS)
def test_average_densities_are_averages_of_draws(name):
    res = fit_of(name)
    rows, estimator = problem_of(res)
    beliefs, mixture = res.fitted.beliefs, estimator.mixture
    block = rows.as_block()
    view = estimator.components.view(beliefs.stacked(), np.inf)
    joint, _ = view.expected(block, beliefs.stacked())
    view.discount(block, joint)
    stack = draw_beliefs(mixture, res.fitted.priors, beliefs, 4000, np.random.default_rng(1))
    each = mixture.family.unit_density(block, stack, mixture.family.evaluate(block, stack))
    error = each.std(axis=1) / np.sqrt(4000)
    # Choices are averaged to second order, and a group has two sets of them.
    loose = 0.02 if name == "choices" else 1e-3
    assert (np.abs(each.mean(axis=1) - joint[: res.k, 0]) < 5 * error + loose).all()
    gate = mixture.gate
    chances = gate.log_prior(block, stack)
    wanted = gate.posterior.expected(block, beliefs.stacked().chances)[:, 0]
    error = chances.std(axis=1) / np.sqrt(4000)
    assert (np.abs(chances.mean(axis=1) - wanted) < 5 * error + 2e-3).all()


@pytest.mark.parametrize("name", EXACT)
def test_divergence_of_linear_regressions_is_the_average_of_draws(name):
    res = fit_of(name)
    _, estimator = problem_of(res)
    q, prior, mixture = res.fitted.beliefs, res.fitted.priors, estimator.mixture
    n, own = 40_000, q.coef.shape[1] - mixture.shared
    coef, variance = estimator.components.draw(q, n, np.random.default_rng(2))
    value = np.zeros(n)
    for j in range(res.k if not mixture.family.equal_dispersion else 1):
        value += stats.invgamma(q.shape[j], scale=q.rate[j]).logpdf(variance[j])
        value -= stats.invgamma(prior.shape, scale=prior.rate).logpdf(variance[j])
    for j in range(res.k):
        there = np.diag(q.factor[j])[:own] > 0
        root = np.linalg.cholesky(q.factor[j][:own, :own][np.ix_(there, there)])
        wide = np.sqrt(variance[j])[:, None]
        step = np.linalg.solve(root, (coef[j] - q.coef[j])[:, :own][:, there].T).T / wide
        value += stats.norm.logpdf(step).sum(axis=1) - np.log(np.diag(root)).sum()
        value -= there.sum() * np.log(wide[:, 0])
        value -= stats.norm(0, prior.coef_scale * wide).logpdf(coef[j][:, :own][:, there]).sum(1)
    if mixture.shared:
        common = stats.multivariate_normal(q.coef[0, own:], q.factor[0, own:, own:])
        value += common.logpdf(coef[0][:, own:])
        value -= stats.norm(0, prior.coef_scale).logpdf(coef[0][:, own:]).sum(axis=1)
    found = float(estimator.components.divergence(q.stacked())[0])
    assert abs(value.mean() - found) < 5 * value.std() / np.sqrt(n)


@pytest.mark.parametrize("name", ["poisson", "gamma", "trials", "own"])
def test_divergence_of_other_families_is_the_average_of_draws(name):
    res = fit_of(name)
    _, estimator = problem_of(res)
    q, prior = res.fitted.beliefs, res.fitted.priors
    coef, scale = estimator.components.draw(q, 40_000, np.random.default_rng(2))
    value = np.zeros(40_000)
    for j in range(res.k):
        value += stats.multivariate_normal(q.coef[j], q.factor[j]).logpdf(coef[j])
        value -= stats.norm(0, prior.link_scale).logpdf(coef[j]).sum(axis=1)
        if res.spec.family.dispersion_name is not None:
            deviation = 1 / np.sqrt(q.shape[j])
            value += stats.lognorm(deviation, scale=q.rate[j] / q.shape[j]).logpdf(scale[j])
            value -= stats.invgamma(prior.shape, scale=prior.rate).logpdf(scale[j])
    found = float(estimator.components.divergence(q.stacked())[0])
    assert abs(value.mean() - found) < 5 * value.std() / np.sqrt(40_000)


# One component: posteriors that are known by other means


def grid(log_posterior, center, width, points: int = 61):
    """Means and deviations of two parameters by a sum over a grid."""
    axes = [np.linspace(c - 6 * w, c + 6 * w, points) for c, w in zip(center, width, strict=True)]
    a, b = np.meshgrid(*axes, indexing="ij")
    logs = np.vectorize(log_posterior)(a, b)
    p = np.exp(logs - logs.max())
    p /= p.sum()
    means = np.array([(p * v).sum() for v in (a, b)])
    square = [(p * (v - m) ** 2).sum() for v, m in zip((a, b), means, strict=True)]
    return means, np.sqrt(square)


def test_one_component_of_counts_has_the_posterior_of_a_grid():
    data, prior = people(60, 3), Priors(link_scale=1.0)
    res = MixReg.from_formula("count ~ x", data, k=1, family="poisson").fit("vb", priors=prior)
    block = problem_of(res)[0].as_block()

    def log_posterior(a, b):
        eta = a * block.x[:, 0] + b * block.x[:, 1]
        return float((block.y * eta - np.exp(eta)).sum() - 0.5 * (a * a + b * b))

    q = res.fitted.beliefs
    means, wide = grid(log_posterior, q.coef[0], np.sqrt(np.diag(q.factor[0])))
    assert_allclose(q.coef[0], means, atol=0.01 * wide.min())
    assert_allclose(np.sqrt(np.diag(q.factor[0])), wide, rtol=0.01)


def test_the_bound_of_one_component_is_close_to_the_evidence():
    data, prior = people(60, 3), Priors(link_scale=1.0)
    res = MixReg.from_formula("count ~ x", data, k=1, family="poisson").fit("vb", priors=prior)
    block, q = problem_of(res)[0].as_block(), res.fitted.beliefs
    center, wide = q.coef[0], np.sqrt(np.diag(q.factor[0]))
    axes = [np.linspace(c - 8 * w, c + 8 * w, 161) for c, w in zip(center, wide, strict=True)]
    a, b = (v.ravel() for v in np.meshgrid(*axes, indexing="ij"))
    eta = np.outer(a, block.x[:, 0]) + np.outer(b, block.x[:, 1])
    logs = (block.y * eta - np.exp(eta) - gammaln(block.y + 1)).sum(axis=1)
    logs += stats.norm.logpdf(a) + stats.norm.logpdf(b)
    cell = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    evidence = np.logaddexp.reduce(logs) + np.log(cell)
    assert res.elbo <= evidence + 1e-4
    assert res.elbo > evidence - 0.01


def test_one_component_of_positive_responses_has_the_posterior_of_a_grid():
    data, prior = people(80, 3), Priors(link_scale=1.0, shape=2.0, rate=1.0)
    model = MixReg.from_formula("cost ~ 1", data, k=1, family="gamma", link="log")
    res = model.fit("vb", priors=prior)
    y, whole = data["cost"].to_numpy(), res.model.whitening

    def log_posterior(b, log_scale):
        shape, eta = np.exp(-log_scale), b * whole.basis[0, 0]
        logs = shape * (np.log(shape * y) - eta) - np.log(y) - shape * y * np.exp(-eta)
        prior_log = -0.5 * b * b - 2.0 * log_scale - np.exp(-log_scale)
        return float((logs - gammaln(shape)).sum() + prior_log)

    q = res.fitted.beliefs
    center = q.coef[0, 0], float(np.log(q.rate[0] / q.shape[0]))
    means, wide = grid(log_posterior, center, (np.sqrt(q.factor[0, 0, 0]), q.shape[0] ** -0.5))
    assert_allclose(center, means, atol=0.02 * wide.min())
    assert_allclose([res.bse.iloc[0], res.bse.iloc[1]], wide * [whole.basis[0, 0], 1.0], rtol=0.02)


def test_one_component_of_linear_regressions_is_not_corrected():
    res = MixReg.from_formula("y ~ x", people(), k=1).fit("vb")
    assert_allclose(res.bse, res.bse_mean_field, rtol=1e-9)


# Standard deviations


OVERLAP = {
    "gaussian": ("y ~ x + w", {}),
    "poisson": ("count ~ x + w", {"family": "poisson"}),
    "gamma": ("cost ~ x", {"family": "gamma", "link": "log"}),
    "trials": ("yes + no ~ x", {"family": "binomial", "concomitant": "~ age"}),
    "shared": ("y ~ x + w", {"shared": ["w"], "concomitant": "~ age"}),
    "common variance": ("y ~ x + w", {"equal_variance": True}),
    "poisson, shared": ("count ~ x + w", {"family": "poisson", "shared": ["w"]}),
}


@pytest.mark.parametrize("name", OVERLAP)
def test_deviations_of_many_rows_are_standard_errors(name):
    formula, declared = OVERLAP[name]
    model = MixReg.from_formula(formula, people(8000, 4, apart=0.7), k=2, **declared)
    em, vb = model.fit(n_init=4), model.fit("vb", priors=PRIORS, n_init=4)
    assert em.entropy_r2 < 0.9
    assert_allclose(vb.bse, em.bse, rtol=0.03)
    assert ((vb.params - em.params).abs() < 0.1 * em.bse).all()
    assert (vb.bse_mean_field < 1.001 * vb.bse).all()
    assert (vb.bse_mean_field / vb.bse).min() < 0.95


def test_the_answer_to_a_push_is_the_corrected_covariance():
    # The textbook's definition: how posterior means move when the log posterior is tilted.
    rng = np.random.default_rng(0)
    n = 400
    x = rng.standard_normal(n)
    label = rng.random(n) < 0.55
    y = np.where(label, 1.2 + x, -1.2 - x) + rng.standard_normal(n)
    res = MixReg.from_formula("y ~ x", {"y": y, "x": x}, k=2).fit("vb", priors=PRIORS)
    rows, estimator = problem_of(res)
    mixture, prior = estimator.mixture, estimator.priors

    def tilted(push: np.ndarray) -> np.ndarray:
        """Mean coefficients (k, p) when coefficients are pulled by `push`."""
        q = res.fitted.beliefs.stacked()
        for _ in range(400):
            sums = estimator.sweep(rows, 0, q)
            new = estimator.update(sums, q)
            pulled = new.factor * (new.rate / new.shape)[..., None, None]
            q = replace(new, coef=new.coef + np.einsum("krpq,kp->krq", pulled, push))
        return q.coef[:, 0]

    h = 1e-3
    cov = res.cov_params().to_numpy()
    index = res.model.layout.coef_index()
    back = np.linalg.inv(res.model.whitening.coef_map)
    for j, i in ((0, 1), (1, 0)):
        push = np.zeros((2, 2))
        push[j, i] = h
        moved = (tilted(push) - tilted(-push)) / (2 * h)
        wanted = [back @ cov[np.ix_(index[a], index[j])] @ back.T for a in (0, 1)]
        assert_allclose(moved[j], wanted[j][:, i], rtol=0.05, atol=0.02 * abs(wanted[j][i, i]))
    assert mixture.family.linear
    assert prior is PRIORS


def test_a_precision_that_is_taken_away_is_told():
    cov, everything = np.diag([1.0, 4.0]), np.ones(2, dtype=bool)
    same, good = answered(cov, np.zeros((2, 2)), everything)
    assert_allclose(same, cov)
    assert good
    half, good = answered(cov, -0.5 * np.linalg.inv(cov), everything)
    assert_allclose(half, 2 * cov)
    assert good
    _, good = answered(cov, -2 * np.linalg.inv(cov), everything)
    assert not good
    left, good = answered(cov, np.full((2, 2), np.nan), everything)
    assert_allclose(left, cov)
    assert not good
    only, _ = answered(cov, -0.5 * np.linalg.inv(cov), np.array([True, False]))
    assert_allclose(only, np.diag([2.0, 4.0]))


def test_draws_are_stretched_from_one_covariance_to_another():
    rng = np.random.default_rng(0)
    before = np.diag([1.0, np.inf, 4.0])
    after = np.array([[2.0, 0.0, 1.0], [0.0, np.inf, 0.0], [1.0, 0.0, 5.0]])
    draws = rng.standard_normal((50_000, 3)) * [1.0, 3.0, 2.0] + 1
    found = stretch(draws, np.ones(3), before, after)
    assert_allclose(np.cov(found[:, [0, 2]].T), [[2.0, 1.0], [1.0, 5.0]], atol=0.1)
    assert_array_equal(found[:, 1], draws[:, 1])
    assert_allclose(stretch(draws, np.ones(3), before, before), draws)


@pytest.mark.parametrize("name", ["poisson", "shared", "poisson, concomitant", "gamma, common"])
def test_draws_have_the_corrected_moments(name):
    res = fit_of(name)
    draws = res.posterior_draws(20_000, seed=1)
    assert_allclose(draws.mean(), res.params, atol=0.05 * res.bse.max())
    scale = np.outer(res.bse, res.bse)
    assert_allclose(draws.cov() / scale, res.cov_params() / scale, atol=0.06)


def test_only_variational_bayes_has_mean_field_deviations():
    res = model_of("poisson").fit(n_init=2)
    with pytest.raises(NotAvailableError, match="only method='vb' has mean-field deviations"):
        _ = res.bse_mean_field


# What does not matter


@pytest.mark.parametrize("name", ["poisson", "choices", "gamma", "shared"])
def test_the_order_of_rows_does_not_matter(name):
    data = people()
    order = np.random.default_rng(0).permutation(100)
    other = pd.concat([data[data["who"] == who] for who in order])
    one, two = (model_of(name, table).fit("vb", priors=FIRM, n_init=4) for table in (data, other))
    assert_allclose(two.elbo, one.elbo, rtol=1e-7)
    assert_allclose(two.params, one.params, atol=1e-3)


@pytest.mark.parametrize(
    "name", ["concomitant", "poisson, concomitant", "poisson", "common variance"]
)
def test_beliefs_in_another_order_give_the_same_labels(name):
    res = fit_of(name)
    rows, estimator = problem_of(res)
    block, q = rows.as_block(), res.fitted.beliefs
    turned = q.permute(np.array([1, 0]))
    back = turned.permute(np.array([1, 0]))
    for a, b in zip(q._arrays(), back._arrays(), strict=True):
        assert_allclose(a, b, atol=1e-12)
    gate = estimator.mixture.gate.posterior
    first, second = (gate.expected(block, b.stacked().chances) for b in (q, turned))
    assert_allclose(first, second[::-1], atol=1e-10)


def test_a_weight_of_two_is_two_rows():
    data = people(200)
    formula = "count ~ x"
    twice = data.loc[data.index.repeat(data["heavy"])].reset_index(drop=True)
    one = MixReg.from_formula(formula, data, k=2, family="poisson", weights="heavy")
    two = MixReg.from_formula(formula, twice, k=2, family="poisson")
    ends = [model.fit("vb", priors=FIRM) for model in (one, two)]
    assert_allclose(ends[0].elbo, ends[1].elbo, rtol=1e-6)
    assert_allclose(ends[0].params, ends[1].params, atol=2e-3)
    assert_allclose(ends[0].bse, ends[1].bse, rtol=1e-2)


def test_groups_of_one_row_are_rows():
    data = people(200).assign(own=np.arange(200))
    rows = MixReg.from_formula("cost ~ x", data, k=2, family="gamma", link="log")
    groups = MixReg.from_formula("cost ~ x", data, k=2, family="gamma", link="log", groups="own")
    one, two = (model.fit("vb", priors=FIRM) for model in (rows, groups))
    assert_allclose(one.elbo, two.elbo, rtol=1e-8)
    assert_allclose(one.bse, two.bse, rtol=1e-3)


def test_units_of_regressors_do_not_matter():
    data = people()
    other = data.assign(x=1000 * data["x"] - 5)
    one, two = (model_of("poisson", table).fit("vb", priors=FIRM) for table in (data, other))
    assert_allclose(one.elbo, two.elbo, rtol=1e-7)
    assert_allclose(two.coefficients.loc["x"], one.coefficients.loc["x"] / 1000, rtol=1e-3)
    assert_allclose(two.bse[["x[1]", "x[2]"]], one.bse[["x[1]", "x[2]"]] / 1000, rtol=1e-3)


# The rest of a fit


@pytest.mark.parametrize(
    ("formula", "declared"),
    [
        ("count ~ x", {"family": "poisson"}),
        ("yes + no ~ x", {"family": "binomial", "groups": "who"}),
        ("cost ~ x", {"family": "gamma", "link": "log", "groups": "who"}),
        ("y ~ x", {"concomitant": "~ age", "groups": "who"}),
        ("count ~ x", {"family": "poisson", "concomitant": "~ age", "groups": "who"}),
        ("y ~ x + w", {"shared": ["w"]}),
    ],
)
def test_components_that_are_not_needed_are_emptied(formula, declared):
    res = MixReg.from_formula(formula, people(800, 1, apart=1.3), k=4, **declared).fit("vb")
    assert res.alive == [1, 2]
    data = people(800, 1, apart=1.3)
    assert (res.labels.to_numpy() == data["z"]).mean() > 0.8 or (
        res.labels.to_numpy() == 3 - data["z"]
    ).mean() > 0.8
    assert np.isfinite(res.bse.iloc[res.model.layout.coef_index()[:2].ravel()]).all()
    assert "are not needed: no rows are left in them." in str(res.summary()).replace("\n", " ")


@pytest.mark.parametrize(("family", "response"), [(TruncatedPoisson(), "count"), (StudentT(), "y")])
def test_a_family_of_ones_own(family, response):
    data = people(800, 2)
    data = data[data["count"] > 0]
    res = MixReg.from_formula(f"{response} ~ x", data, k=2, family=family).fit("vb", priors=PRIORS)
    em = MixReg.from_formula(f"{response} ~ x", data, k=2, family=family).fit()
    assert res.converged
    order = match_components(res.coefficients.to_numpy().T, em.coefficients.to_numpy().T)
    index, other = res.model.layout.coef_index()[order], em.model.layout.coef_index()
    gap = res.params.to_numpy()[index] - em.params.to_numpy()[other]
    assert (np.abs(gap) < 0.3 * em.bse.to_numpy()[other]).all()
    assert_allclose(res.bse.to_numpy()[index], em.bse.to_numpy()[other], rtol=0.1)


def test_links_that_end_somewhere():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, 600)
    label = rng.random(600) < 0.5
    data = pd.DataFrame({"x": x, "y": rng.poisson(np.where(label, 2 + 3 * x, 12 - 4 * x))})
    model = MixReg.from_formula("y ~ x", data, k=2, family="poisson", link="identity")
    em, vb = model.fit(), model.fit("vb", priors=PRIORS)
    assert vb.converged
    assert ((vb.params - em.params).abs() < 0.3 * em.bse).all()
    assert_allclose(vb.bse, em.bse, rtol=0.1)


def test_the_summary_says_what_is_approximate():
    texts = {
        name: " ".join(str(fit_of(name).summary()).split())
        for name in ("poisson", "concomitant", "poisson, concomitant", *EXACT)
    }
    density = "log densities averaged over coefficients"
    chances = "class probabilities averaged over their coefficients"
    assert f"Approximate in the ELBO: {density}; all else is exact." in texts["poisson"]
    assert f"Approximate in the ELBO: {chances}; all else is exact." in texts["concomitant"]
    assert f"{density} and {chances}; all else" in texts["poisson, concomitant"]
    for name in EXACT:
        assert "Approximate in the ELBO" not in texts[name]
    for text in texts.values():
        assert "linear response); those of mean field are res.bse_mean_field." in text


@pytest.mark.parametrize(
    "name", ["poisson, concomitant", "choices", "all at once", "gamma, common"]
)
def test_results_are_pickled_saved_and_loaded(name, tmp_path):
    res = fit_of(name)
    res.save(tmp_path / "fit.mixreg")
    for found in (load(tmp_path / "fit.mixreg"), pickle.loads(pickle.dumps(res))):
        assert str(found.summary()) == str(res.summary())
        assert_array_equal(found.bse_mean_field, res.bse_mean_field)
        assert found.posterior_draws(7).equals(res.posterior_draws(7))
        assert found.elbo == res.elbo


@pytest.mark.parametrize("name", ["poisson, concomitant", "choices", "shared", "noise", "three"])
def test_what_users_ask_of_a_fit(name):
    res = fit_of(name)
    assert_allclose(res.posterior.sum(axis=1), 1.0)
    assert_allclose(res.weights.sum(), 1.0)
    assert res.conf_int().shape == (len(res.params), 2)
    assert np.isfinite(res.bse).all()
    assert (res.pvalues.between(0, 1)).all()
    assert str(res.summary())
    assert str(res.segments())
    assert res.posterior_draws(5).shape == (5, len(res.params))
    known = res.predict(people().iloc[:8]) if name != "choices" else res.predict()
    assert np.isfinite(known).all(axis=None)


def test_known_labels_are_kept():
    res, data = fit_of("known"), people()
    known = data["known"].notna()
    assert_array_equal(res.labels[known], data["known"][known].astype(int))


# The posterior itself, by importance sampling


def log_prior(res: MixRegResults, stack, priors: Priors) -> np.ndarray:
    """Log prior density of draws of coefficients, log dispersions and log odds, (draws,)."""
    mixture, family = res.spec.mixture, res.spec.family
    own = stack.coef.shape[-1] - mixture.shared
    scale = priors.coef_scale if family.linear else priors.link_scale
    logs = stats.norm(0, scale).logpdf(stack.coef[0][:, own:]).sum(axis=1)
    for coef, dispersion in zip(stack.coef, stack.dispersion, strict=True):
        wide = scale * np.sqrt(dispersion)[:, None] if family.linear else scale
        logs = logs + stats.norm(0, wide).logpdf(coef[:, :own]).sum(axis=1)
        if family.dispersion_name is not None:
            prior = stats.invgamma(priors.shape, scale=priors.rate)
            logs += prior.logpdf(dispersion) + np.log(dispersion)
    if mixture.gate.constant:
        # Odds of weights that are Dirichlet, and their Jacobian.
        return logs + priors.concentration * np.log(stack.weights).sum(axis=0)
    gate = stack.gating[1:] - stack.gating[:1]
    return logs + stats.norm(0, priors.gate_scale).logpdf(gate).sum(axis=(0, -1))


@pytest.mark.parametrize(
    "name",
    ["gamma", "negative binomial", "trials", "choices", "concomitant", "shared", "poisson, shared"],
)
def test_the_corrected_posterior_is_that_of_importance_sampling(name):
    model = model_of(name, people(2000, 5, apart=1.1))
    res = model.fit("vb", priors=PRIORS, n_init=4)
    mean, cov = res.params.to_numpy(), res.cov_params().to_numpy()
    draws = np.random.default_rng(0).multivariate_normal(mean, cov, 1000)
    stack = mixtures_of(model.layout, draws)
    logs = log_likelihoods(res, stack).sum(axis=1)
    logs += log_prior(res, model.whitening.from_user(stack), PRIORS)
    logs -= stats.multivariate_normal(mean, cov).logpdf(draws)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    # Were the approximation the posterior, every draw would count the same.
    assert 1 / (weight**2).sum() > 700
    true = weight @ draws
    wide = np.sqrt(weight @ (draws - true) ** 2)
    assert (np.abs(true - mean) < 0.2 * wide).all()
    assert_allclose(res.bse, wide, rtol=0.15)
