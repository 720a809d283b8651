"""Variational Bayes: its bound, its posterior, the components it lets go, what it refuses."""

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import digamma, gammaln, logsumexp, polygamma

from mixreg import InputError, MixReg, MixRegResults, NotAvailableError, Priors
from mixreg.estimators import Control, iterate
from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.pruning import reset
from mixreg.estimators.variational import Variational, longest_row
from mixreg.metrics import match_components
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.report.summary import weights_frame
from mixreg.simulate import mixed_linear_equations
from mixreg.sources.memory import BlockSource, MemorySource, condensed
from tests.samples import lines, random_mixture, random_source, shops

FORMULA = "y ~ x1 + x2"
PRIORS = {
    "default": Priors(),
    "strong": Priors(concentration=1.5, coef_scale=2.0, shape=3.0, rate=0.5),
}


def planes(n: int, seed: int = 0, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three planes far apart: response, regressors, labels from 0."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    coef = np.array([[4.0, 1.0, 0.5], [0.0, -1.0, 1.0], [-4.0, 0.5, -1.0]])
    labels = rng.choice(3, n, p=[0.45, 0.35, 0.2])
    y = np.einsum("np,np->n", x, coef[labels]) + noise * rng.standard_normal(n)
    return y, x, labels


def overlapping(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three random planes that cross, of random sizes."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(600), rng.standard_normal((600, 2))])
    coef, share = 2 * rng.standard_normal((3, 3)), rng.dirichlet(np.full(3, 2.0))
    labels = rng.choice(3, 600, p=share)
    y = np.einsum("np,np->n", x, coef[labels]) + 0.5 * rng.standard_normal(600)
    return y, x, labels


def model_of(kind: str) -> MixReg:
    """A small model, two components, with one thing more than rows."""
    if kind.startswith("groups"):
        table = shops(25).assign(heavy=lambda t: t["shop"].str[5:].astype(int) % 3)
        weights = "heavy" if "weights" in kind else None
        noise = "noise" in kind
        return MixReg.from_formula("y ~ x", table, k=2, groups="shop", weights=weights, noise=noise)
    table, rng = lines(60, 1), np.random.default_rng(0)
    known = np.where(np.arange(60) % 5 == 0, table["z"], np.nan)
    more = {
        "rows": {},
        "weights": {"weights": rng.integers(0, 3, 60)},
        "noise": {"noise": True},
        "known labels": {"known_labels": known},
        "offset": {"offset": rng.standard_normal(60)},
    }
    if kind == "no constant":
        return MixReg.from_formula("y ~ x1 + x2 - 1", table, k=2)
    if kind.startswith("k="):
        return MixReg.from_formula(FORMULA, table, k=int(kind[2:]))
    return MixReg.from_formula(FORMULA, table, k=2, **more[kind])


KINDS = (
    "rows",
    "weights",
    "noise",
    "known labels",
    "offset",
    "no constant",
    "groups",
    "groups, weights",
    "groups, weights, noise",
    "k=1",
    "k=4",
)


# The bound by the book: expectations of log densities, plus entropies


def range_of(model: MixReg) -> float:
    """Range of the responses that count."""
    source = model.source
    if source.weight is None:
        return float(np.ptp(source.y))
    return float(np.ptp(source.y[source.as_block().per_row(source.weight) > 0]))


def expected_log_joint(model: MixReg, q: Beliefs) -> np.ndarray:
    """Log class probability times density of each unit, expected under q, (K, units)."""
    source = model.source.standard(model.whitening)
    starts = np.arange(source.rows) if source.starts is None else source.starts
    unit = np.repeat(np.arange(len(starts)), np.diff(starts, append=source.rows))
    out = np.zeros((len(q.counts), len(starts)))
    for i, (x, y) in enumerate(zip(source.x, source.y, strict=True)):
        for j in range(q.k):
            log_variance = np.log(q.rate[j]) - digamma(q.shape[j])
            square = (y - x @ q.coef[j]) ** 2 * q.shape[j] / q.rate[j] + x @ q.factor[j] @ x
            out[j, unit[i]] -= 0.5 * (np.log(2 * np.pi) + log_variance + square)
        if model.noise:
            out[q.k, unit[i]] -= np.log(range_of(model) / model.whitening.scale)
    out += (digamma(q.counts) - digamma(q.counts.sum()))[:, None]
    if source.known is not None:
        for u in np.flatnonzero(source.known >= 0):
            out[np.arange(len(out)) != source.known[u], u] = -np.inf
    return out


def textbook_bound(res: MixRegResults) -> float:
    """E log p(y, z, theta) - E log q(z, theta), every term written out."""
    model, q, prior = res.model, res.solution.beliefs, res.options.priors
    joint = expected_log_joint(model, q)
    r = np.exp(joint - logsumexp(joint, axis=0))
    weight = np.ones(r.shape[1]) if model.source.weight is None else model.source.weight
    there = r > 0
    bound = float(((r * weight)[there] * (joint[there] - np.log(r[there]))).sum())
    p, K, precision = q.coef.shape[1], len(q.counts), prior.coef_scale**-2
    for j in range(q.k):
        log_variance = np.log(q.rate[j]) - digamma(q.shape[j])
        inverse = q.shape[j] / q.rate[j]
        square = precision * (inverse * q.coef[j] @ q.coef[j] + np.trace(q.factor[j]))
        bound += 0.5 * (p * np.log(precision / (2 * np.pi)) - p * log_variance - square)
        bound += prior.shape * np.log(prior.rate) - gammaln(prior.shape)
        bound -= (prior.shape + 1) * log_variance + prior.rate * inverse
        bound += float(stats.invgamma(q.shape[j], scale=q.rate[j]).entropy())
        bound += 0.5 * (p * np.log(2 * np.pi * np.e) + np.linalg.slogdet(q.factor[j])[1])
        bound += 0.5 * p * log_variance
    if K > 1:
        alpha, logs = prior.concentration, digamma(q.counts) - digamma(q.counts.sum())
        bound += gammaln(K * alpha) - K * gammaln(alpha) + (alpha - 1) * logs.sum()
        bound += float(stats.dirichlet(q.counts).entropy())
    return bound - model.whitening.rows * np.log(model.whitening.scale)


def textbook_ascent(model: MixReg, labels: np.ndarray, priors: Priors) -> Beliefs:
    """Plain coordinate ascent from given labels, rows only."""
    source = model.source.standard(model.whitening)
    x, y, p = source.x, source.y, source.x.shape[1]
    r = np.eye(model.k)[labels].T
    for _ in range(500):
        before, parts = r, []
        for weight in r:
            inverse = np.linalg.inv((x.T * weight) @ x + priors.precision * np.eye(p))
            mean = inverse @ (x.T @ (weight * y))
            left = weight @ (y - x @ mean) ** 2 + priors.precision * mean @ mean
            shape, rate = priors.shape + weight.sum() / 2, priors.rate + left / 2
            parts.append((mean, inverse, shape, rate))
        q = Beliefs(
            *(np.array(part) for part in zip(*parts, strict=True)),
            priors.concentration + r.sum(axis=1),
        )
        joint = expected_log_joint(model, q)
        r = np.exp(joint - logsumexp(joint, axis=0))
        if np.abs(r - before).max() < 1e-6:
            break
    return q


def bound_at(model: MixReg, q: Beliefs, priors: Priors) -> float:
    """The package's bound at a posterior."""
    problem = model.problem()
    source = problem.source.standard(problem.whitening)
    sums = Variational(problem.mixture, priors).sweep(source, 0, q.stacked())
    return model.whitening.log_likelihood(float(sums.objective[0]))


def around(params: Parameters, rows: float, priors: Priors) -> Beliefs:
    """A posterior as if each component had been seen in its share of the rows."""
    own, p = rows * params.weights, params.coef.shape[-1]
    return Beliefs(
        params.coef,
        np.eye(p) / (own + priors.precision)[..., None, None],
        priors.shape + own / 2,
        priors.rate + params.dispersion * own / 2,
        priors.concentration + own,
    )


@pytest.fixture(scope="module")
def fits() -> dict[tuple[str, str], MixRegResults]:
    return {
        (kind, name): model_of(kind).fit("vb", priors=priors)
        for kind in KINDS
        for name, priors in PRIORS.items()
    }


@pytest.mark.parametrize("priors", PRIORS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_is_the_textbooks(fits, kind, priors):
    res = fits[kind, priors]
    assert res.converged
    assert_allclose(res.elbo, textbook_bound(res), rtol=1e-11)
    assert res.elbo == res.history[-1]


def test_the_bound_is_the_textbooks_where_a_known_label_is_far_off():
    table = lines(4000, 1, noise=0.02)
    known = np.where(np.arange(4000) < 20, table["z"], np.nan)
    known[np.flatnonzero((table["z"] == 1) & table["x1"].between(1.5, 2.0))[0]] = 2
    res = MixReg.from_formula(FORMULA, table, k=2, known_labels=known).fit("vb")
    assert_allclose(res.elbo, textbook_bound(res), rtol=1e-11)


@pytest.mark.parametrize("kind", ["rows", "groups, weights, noise", "known labels"])
def test_the_bound_is_the_average_of_draws(fits, kind):
    res, draws = fits[kind, "strong"], 20_000
    model, q, prior = res.model, res.solution.beliefs, res.options.priors
    source = model.source.standard(model.whitening)
    joint = expected_log_joint(model, q)
    weight = np.ones(source.units) if source.weight is None else source.weight
    r = np.exp(joint - logsumexp(joint, axis=0))
    entropy, r = weight @ stats.entropy(r, axis=0), r * weight
    starts = np.arange(source.rows) if source.starts is None else source.starts
    by_row = np.repeat(r, np.diff(starts, append=source.rows), axis=1)
    rng = np.random.default_rng(0)
    share = rng.dirichlet(q.counts, draws)
    alpha = np.full(len(q.counts), prior.concentration)
    value = stats.dirichlet(alpha).logpdf(share.T) - stats.dirichlet(q.counts).logpdf(share.T)
    value += np.log(share) @ r.sum(axis=1) + entropy
    if model.noise:
        value -= by_row[-1].sum() * np.log(range_of(model) / model.whitening.scale)
    p = q.coef.shape[1]
    for j in range(q.k):
        variance = stats.invgamma(q.shape[j], scale=q.rate[j]).rvs(draws, random_state=rng)
        root = np.linalg.cholesky(q.factor[j])
        step = np.sqrt(variance)[:, None] * (rng.standard_normal((draws, p)) @ root.T)
        coef = q.coef[j] + step
        value += stats.invgamma(prior.shape, scale=prior.rate).logpdf(variance)
        value -= stats.invgamma(q.shape[j], scale=q.rate[j]).logpdf(variance)
        spread = np.sqrt(variance)[:, None]
        value += stats.norm(0, prior.coef_scale * spread).logpdf(coef).sum(axis=1)
        inner = np.linalg.solve(root, step.T).T
        value -= stats.norm(0, spread).logpdf(inner).sum(axis=1) - np.log(np.diag(root)).sum()
        value += stats.norm(coef @ source.x.T, spread).logpdf(source.y) @ by_row[j]
    value -= model.whitening.rows * np.log(model.whitening.scale)
    error = value.std() / np.sqrt(draws)
    assert error < 0.05
    assert abs(value.mean() - res.elbo) < 4 * error


# Every step


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_rises_in_the_final_run(fits, kind):
    history = fits[kind, "default"].history
    assert len(history) >= 2
    assert (np.diff(history) >= -1e-10 * (1 + np.abs(history[:-1]))).all()


@pytest.mark.parametrize("kind", ["rows", "pairs", "groups", "condensed", "weights"])
def test_the_bound_rises_at_every_step_from_any_start(kind):
    source = random_source(400, 3, 2, kind in ("groups", "condensed"), kind == "weights")
    start = around(random_mixture(4, 3, 1, runs=5), 400.0, Priors())
    served = condensed(source) if kind in ("pairs", "condensed") else source
    assert isinstance(served, BlockSource if kind in ("pairs", "condensed") else MemorySource)
    for fit in iterate(served, Variational(Mixture(), Priors()), start, Control(60, 0.0)):
        assert len(fit.history) > 40
        assert fit.history[-1] > fit.history[0] + 1.0
        assert (np.diff(fit.history) >= -1e-10 * (1 + np.abs(fit.history[:-1]))).all()
        assert fit.reason != "decreased"


def test_one_run_is_the_run_of_a_stack():
    source, estimator = random_source(300, 3, 3), Variational(Mixture(), Priors())
    stack = around(random_mixture(3, 3, 4, runs=3), 300.0, Priors())
    together = iterate(source, estimator, stack, Control(20, 0.0))
    for i, fit in enumerate(together):
        alone = iterate(source, estimator, stack.run(i).stacked(), Control(20, 0.0))[0]
        assert_allclose(alone.history, fit.history, rtol=1e-12)


@pytest.mark.parametrize("noise", [0.2, 1.5])
def test_shortcuts_for_many_rows_change_nothing(noise):
    y, x, _ = planes(16_000, noise=noise)
    problem = MixReg(y, x, k=3).problem()
    source = problem.source.standard(problem.whitening)
    end = MixReg(y, x, k=3).fit(n_init=4, cov_type="none").solution.run.params
    rng = np.random.default_rng(0)
    near = replace(end, coef=end.coef + 0.05 * rng.standard_normal(end.coef.shape))
    start = around(near, 16_000.0, Priors()).stacked()
    # Roots of the posterior are small enough for every shortcut.
    assert np.linalg.cholesky(start.factor).max() < 0.02
    quick = Variational(problem.mixture, Priors(), source.sweep(longest_row).value)
    plain = Variational(problem.mixture, Priors())
    fit = iterate(source, quick, start, Control(15, 0.0))[0]
    other = iterate(condensed(source), plain, start, Control(15, 0.0))[0]
    shared = min(len(fit.history), len(other.history))
    assert shared > 5
    assert_allclose(fit.history[:shared], other.history[:shared], rtol=1e-12)
    assert (np.diff(fit.history) >= -1e-12 * np.abs(fit.history[:-1])).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_condensed_groups_are_their_rows(weighted):
    source = random_source(500, 3, 5, grouped=True, weighted=weighted)
    estimator = Variational(Mixture(), Priors())
    start = around(random_mixture(3, 3, 6, runs=2), 500.0, Priors())
    rows = iterate(source, estimator, start, Control(30, 0.0))
    short = iterate(condensed(source), estimator, start, Control(30, 0.0))
    for one, other in zip(rows, short, strict=True):
        assert_allclose(one.history, other.history, rtol=1e-11)
        for a, b in zip(one.params._arrays(), other.params._arrays(), strict=True):
            assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def test_groups_of_one_row_are_rows():
    table = lines(120, 2).assign(who=np.arange(120))
    rows = MixReg.from_formula(FORMULA, table, k=2).fit("vb")
    groups = MixReg.from_formula(FORMULA, table, k=2, groups="who").fit("vb")
    assert_allclose(groups.elbo, rows.elbo, rtol=1e-10)
    assert_allclose(groups.params, rows.params, atol=1e-5)
    assert_array_equal(groups.labels, rows.labels)


def test_a_weight_of_two_is_two_rows():
    table, times = lines(120, 3), np.random.default_rng(1).integers(0, 3, 120)
    weighted = MixReg.from_formula(FORMULA, table, k=2, weights=times).fit("vb")
    long = MixReg.from_formula(FORMULA, table.loc[table.index.repeat(times)], k=2).fit("vb")
    assert_allclose(weighted.elbo, long.elbo, rtol=1e-9)
    assert_allclose(weighted.params, long.params, atol=1e-5)
    assert_allclose(weighted.bse, long.bse, rtol=1e-5)


# One component: everything is known exactly


@pytest.mark.parametrize("formula", [FORMULA, "y ~ x1 + x2 - 1"])
@pytest.mark.parametrize("priors", PRIORS.values(), ids=PRIORS)
def test_one_component_has_the_exact_evidence(formula, priors):
    res = MixReg.from_formula(formula, lines(50, 4), k=1).fit("vb", priors=priors)
    white = res.model.whitening
    x = res.model.source.x @ white.basis
    y = (res.model.source.y - white.shift) / white.scale
    spread = np.eye(50) + priors.coef_scale**2 * x @ x.T
    evidence = stats.multivariate_t(
        np.zeros(50), priors.rate / priors.shape * spread, df=2 * priors.shape
    ).logpdf(y)
    assert_allclose(res.elbo, evidence - 50 * np.log(white.scale), rtol=1e-8)


@pytest.mark.parametrize("priors", PRIORS.values(), ids=PRIORS)
def test_one_component_has_the_exact_posterior(priors):
    res = MixReg.from_formula(FORMULA, lines(50, 4), k=1).fit("vb", priors=priors)
    white = res.model.whitening
    x, y = res.model.source.x, res.model.source.y - white.shift
    # A prior N(0, coef_scale^2 sigma^2) of x @ basis, written for the user's columns.
    inner = np.linalg.inv(white.basis)
    precision = inner.T @ inner * priors.coef_scale**-2
    cov = np.linalg.inv(x.T @ x + precision)
    mean = cov @ x.T @ y
    shape = priors.shape + 25
    rate = priors.rate * white.scale**2 + 0.5 * (y @ y - mean @ np.linalg.solve(cov, mean))
    assert_allclose(res.params.iloc[:3], mean + white.shift * white.constant, rtol=1e-8)
    assert_allclose(res.cov_params().iloc[:3, :3], rate / (shape - 1) * cov, rtol=1e-8)
    assert_allclose(res.params.iloc[3], 0.5 * (np.log(rate) - digamma(shape)), rtol=1e-8)
    assert_allclose(res.bse.iloc[3], 0.5 * np.sqrt(polygamma(1, shape)), rtol=1e-8)
    assert_allclose(res.coefficients[1], res.params.iloc[:3], rtol=1e-12)


# Many rows


@pytest.fixture(scope="module")
def large() -> tuple[MixRegResults, MixRegResults]:
    y, x, _ = planes(5000, noise=0.2)
    return MixReg(y, x, k=3).fit(), MixReg(y, x, k=3).fit("vb")


def test_coefficients_and_weights_are_those_of_em(large):
    em, vb = large
    gap = (vb.params - em.params).abs() / em.bse
    assert gap[~gap.index.str.startswith("log(sigma)")].max() < 0.1
    assert (vb.labels == em.labels).mean() > 0.999


def test_residual_deviations_are_those_of_em(large):
    em, vb = large
    gap = (vb.params - em.params).abs() / em.bse
    assert gap[gap.index.str.startswith("log(sigma)")].max() < 0.1


def test_deviations_are_the_standard_errors_of_em(large):
    em, vb = large
    assert_allclose(vb.bse, em.bse, rtol=0.1)


def test_the_bound_lies_below_the_likelihood(large):
    em, vb = large
    assert vb.elbo < vb.llf <= em.llf + 1e-6


def test_the_likelihood_is_that_of_the_means_that_are_shown(large):
    em, vb = large
    at = vb.model.layout.pack(vb.fitted.estimate.params)
    assert_allclose(vb.model.loglike(at), vb.llf, rtol=1e-12)
    assert_allclose(vb.model.loglike(em.params), em.llf, rtol=1e-12)
    assert_allclose(np.exp(at[vb.model.layout.scale_index()]), vb.scale, rtol=1e-12)
    assert 0 < abs(vb.model.loglike(vb.params) - vb.llf) < 0.1


# Components that are not needed


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_three_of_eight_components_stay_alive(seed):
    y, x, labels = planes(1000, seed, noise=0.3)
    res = MixReg(y, x, k=8).fit("vb", seed=seed)
    assert res.alive == [1, 2, 3]
    assert set(res.labels) == {1, 2, 3}
    assert_allclose(res.weights[:3].sum(), 1.0, atol=0.001)
    order = match_components(pd.get_dummies(res.labels).T, np.eye(3)[labels].T)
    assert (order[labels] + 1 == res.labels).mean() > 0.97
    text = str(res.summary())
    assert "3 alive of 8" in text
    assert "Components 4, 5, 6, 7, 8 are not needed" in text
    assert "Component 4" in text.split("Component 1 ")[1]
    assert text.count("coef    std err") == 3


# Seeds of data on which a component was lost once.
@pytest.mark.parametrize("k", [3, 6])
@pytest.mark.parametrize("seed", [0, 5, 8, 11])
def test_no_component_is_lost_that_raises_the_bound(seed, k):
    y, x, labels = overlapping(seed)
    model = MixReg(y, x, k=k)
    reference = bound_at(model, textbook_ascent(model, labels, Priors()), Priors())
    res = model.fit("vb")
    assert res.elbo > reference - 0.01
    assert len(res.alive) == 3


def test_the_summary_names_the_priors(fits):
    text = str(fits["rows", "strong"].summary())
    for part in ("Variational Bayes", "ELBO:", "2 alive of 2", "Dirichlet(1.5)"):
        assert part in text
    joined = " ".join(text.split())
    assert "standard deviation 2 sigma; variances inverse gamma(3, 0.5)" in joined
    assert "are not needed" not in text
    assert "alive" in fits["rows", "strong"].summary().as_html()


# Draws


@pytest.mark.parametrize("kind", ["rows", "noise", "groups"])
def test_draws_have_the_moments_of_the_posterior(fits, kind):
    res = fits[kind, "strong"]
    draws = res.posterior_draws(20_000, seed=1)
    assert draws.columns.to_list() == res.model.param_names
    error = res.bse / np.sqrt(20_000)
    assert ((draws.mean() - res.params).abs() < 5 * error).all()
    assert_allclose(draws.std(), res.bse, rtol=0.05)
    scale = np.outer(res.bse, res.bse)
    assert_allclose(draws.cov() / scale, res.cov_params() / scale, atol=0.05)


def test_draws_of_an_empty_component_are_those_of_its_prior():
    y, x, _ = planes(300)
    res = MixReg(y, x, k=5).fit("vb", priors=Priors(shape=3.0, rate=0.1))
    assert res.alive == [1, 2, 3]
    draws = res.posterior_draws(20_000)
    assert np.isfinite(draws.to_numpy()).all()
    sigma = np.exp(draws["log(sigma)[5]"]) / res.model.whitening.scale
    expected = stats.invgamma(3.0, scale=0.1).mean()
    assert_allclose((sigma**2).mean(), expected, rtol=0.05)


def test_draws_are_reproducible(fits):
    res = fits["rows", "default"]
    one = res.posterior_draws(10, seed=3)
    assert one.equals(res.posterior_draws(10, seed=3))
    assert not one.equals(res.posterior_draws(10, seed=4))
    future = res.predictive_draws(10, seed=3)
    assert future.equals(res.predictive_draws(10, seed=3))
    assert not future.equals(res.predictive_draws(10, seed=4))


@pytest.mark.parametrize("name", ["posterior_draws", "predictive_draws"])
@pytest.mark.parametrize(("n", "seed"), [(0, 0), (2.5, 0), ("many", 0), (5, -1)])
def test_a_bad_number_of_draws_is_refused(fits, name, n, seed):
    with pytest.raises(InputError, match="must be a whole number of at least"):
        getattr(fits["rows", "default"], name)(n, seed=seed)


def test_predictive_draws_look_like_the_data(fits):
    for kind in ("rows", "groups", "offset"):
        res = fits[kind, "strong"]
        future = res.predictive_draws(500, seed=1)
        assert future.columns.equals(res.model.index)
        error = future.std() / np.sqrt(500)
        assert ((future.mean() - res.predict()).abs() < 6 * error).all()


def test_predictive_draws_are_wider_than_the_plug_in():
    table = lines(12, 7)
    res = MixReg.from_formula(FORMULA, table, k=1).fit("vb")
    spread = res.predictive_draws(1000).std().mean()
    assert spread > 1.1 * res.scale[1]


# The rest of a fit


def test_intervals_are_those_of_the_posterior(fits):
    for kind in ("rows", "groups", "k=1"):
        res = fits[kind, "strong"]
        q, white, index = res.solution.beliefs, res.model.whitening, res.model.layout.coef_index()
        bounds, p = res.conf_int(alpha=0.1).to_numpy(), res.pvalues.to_numpy()
        wider = (res.bse / res.bse_mean_field).to_numpy()
        for j in range(res.k):
            spread = white.scale**2 * white.basis @ q.factor[j] @ white.basis.T
            # Wider than the conditional posterior by what labels leave open.
            scale = wider[index[j]] * np.sqrt(np.diag(spread) * q.rate[j] / q.shape[j])
            student = stats.t(2 * q.shape[j], res.coefficients[j + 1], scale)
            assert_allclose(bounds[index[j]], np.column_stack(student.interval(0.9)))
            side = np.minimum(student.cdf(0), student.sf(0))
            assert_allclose(p[index[j]], 2 * side, rtol=1e-6)
        rest = np.setdiff1d(np.arange(len(res.params)), index)
        half = stats.norm.isf(0.05) * res.bse.iloc[rest]
        assert_allclose(bounds[rest, 0], res.params.iloc[rest] - half)
        assert_allclose(bounds[rest, 1], res.params.iloc[rest] + half)


def test_means_are_reported(fits):
    for kind in ("rows", "groups", "noise", "k=4"):
        res = fits[kind, "strong"]
        q, white = res.solution.beliefs, res.model.whitening
        assert_allclose(res.weights, q.counts / q.counts.sum())
        variance = q.rate / (q.shape - 1)
        assert_allclose(res.scale, np.sqrt(variance) * white.scale)
        assert_allclose(res.coefficients.T, res.params.to_numpy()[res.model.layout.coef_index()])
        assert np.all(np.diff(res.weights[res.components]) <= 0)
    assert res.cov_type == "posterior"


def test_labels_predictions_and_segments(fits):
    res, table = fits["rows", "default"], lines(60, 1)
    assert (res.labels.to_numpy() == table["z"]).mean() > 0.9
    assert_array_equal(res.posterior.idxmax(axis=1), res.labels)
    new = table.drop(columns="z").iloc[:7]
    assert_array_equal(res.predict(new, "label"), res.labels[:7])
    assert_allclose(res.predict(new, "posterior"), res.posterior[:7], atol=1e-12)
    assert_allclose(res.predict(new), res.predict()[:7])
    assigned = res.assign(new)
    assert_array_equal(assigned["component"], res.labels[:7])
    assert_allclose(assigned["certainty"], res.posterior[:7].max(axis=1))
    assert_allclose(res.segments()["share"].sum(), 1.0, atol=1e-6)
    assert res.simulate(1)["component"].isin([1, 2]).all()
    assert "llf" in repr(res)


def test_known_labels_are_kept(fits):
    res = fits["known labels", "default"]
    known = np.arange(60) % 5 == 0
    assert_array_equal(res.labels[known], lines(60, 1)["z"][known])


def test_predictions_leave_out_empty_components():
    y, x, _ = planes(600)
    res = MixReg(y, x, k=6).fit("vb")
    assert len(res.alive) == 3
    few = MixReg(y, x, k=3).fit("vb")
    assert_allclose(res.predict(), few.predict(), atol=0.02)
    assert np.isfinite(res.coefficients.to_numpy()).all()
    assert str(res.segments())
    assert (res.conf_int()[1] > res.conf_int()[0]).all()


def test_units_do_not_matter():
    table = lines(200, 5)
    other = table.assign(y=100 * table["y"], x1=10 * table["x1"])
    one = MixReg.from_formula(FORMULA, table, k=3).fit("vb")
    two = MixReg.from_formula(FORMULA, other, k=3).fit("vb")
    assert_array_equal(one.labels, two.labels)
    assert one.alive == two.alive
    factors = pd.Series({"Intercept": 100.0, "x1": 10.0, "x2": 100.0})
    live = one.alive
    assert_allclose(two.coefficients[live], one.coefficients[live].mul(factors, axis=0), rtol=1e-5)
    assert_allclose(two.scale[live], 100 * one.scale[live], rtol=1e-6)
    assert_allclose(two.elbo, one.elbo - 200 * np.log(100), rtol=1e-9)


def test_any_start_will_do():
    table = lines(200, 6)
    model = MixReg.from_formula(FORMULA, table, k=2)
    best = model.fit("vb")
    for init in ("tensor", "random", table["z"].to_numpy(), best.coefficients):
        assert_allclose(model.fit("vb", init).elbo, best.elbo, rtol=1e-8)


def test_the_same_seed_gives_the_same_fit():
    model = MixReg.from_formula(FORMULA, lines(200, 6), k=3)
    assert_array_equal(model.fit("vb", seed=3).params, model.fit("vb", seed=3).params)


@pytest.mark.parametrize("formula", ["y ~ x1", "y ~ x1 - 1", "y ~ 1"])
def test_components_that_no_row_is_torn_between(formula):
    table = lines(300, 9).assign(y=lambda t: np.where(t["z"] == 1, 50.0, -50.0) + t["x1"])
    table["y"] += np.random.default_rng(0).standard_normal(300)
    res = MixReg.from_formula(formula, table, k=2).fit("vb")
    assert_allclose(res.elbo, textbook_bound(res), rtol=1e-11)


def test_an_exact_fit_has_a_finite_bound():
    table = lines(100, 8, noise=0.0)
    res = MixReg.from_formula(FORMULA, table, k=2).fit("vb")
    assert np.isfinite(res.elbo)
    assert np.isfinite(res.bse).all()
    assert_allclose(res.coefficients[1], [1.0, 2.0, 1.0], atol=0.1)


def test_many_rows_are_sampled_for_the_start():
    y, x, _ = planes(12_000)
    res = MixReg(y, x, k=4).fit("vb")
    assert res.alive == [1, 2, 3]
    assert res.diagnostics.search.levels[0] < 5000
    assert (np.diff(res.history) >= -1e-10 * np.abs(res.history[:-1])).all()
    assert_allclose(res.elbo, textbook_bound_of_rows(res), rtol=1e-10)


def textbook_bound_of_rows(res: MixRegResults) -> float:
    """The bound again, at the fit's posterior, from products of regressors."""
    problem = res.model.problem()
    source = problem.source.standard(problem.whitening)
    served = BlockSource(replace(condensed(source).block))
    sums = Variational(problem.mixture, res.options.priors).sweep(
        served, 0, res.solution.beliefs.stacked()
    )
    return res.model.whitening.log_likelihood(float(sums.objective[0]))


# What is refused


@pytest.mark.parametrize("name", [f.name for f in fields(Priors)])
@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, "wide", "1", None, [1.0]])
def test_improper_priors_are_refused(name, value):
    with pytest.raises(InputError, match=rf"Priors\({name}=.*is improper"):
        Priors(**{name: value})


@pytest.mark.parametrize("extreme", [1e-160, 1e170])
def test_extreme_priors_are_refused(extreme):
    with pytest.raises(InputError, match="too extreme to compute with"):
        Priors(coef_scale=extreme)


def test_priors_need_variational_bayes():
    model = model_of("rows")
    for method in ("em", "altmin"):
        with pytest.raises(InputError, match="priors= needs method='vb'"):
            model.fit(method, priors=Priors())
    with pytest.raises(InputError, match=r"must be a mixreg.Priors"):
        model.fit("vb", priors={"concentration": 1.0})


@pytest.mark.parametrize("cov_type", ["opg", "robust", "cluster", "none"])
def test_other_standard_errors_are_refused(cov_type):
    with pytest.raises(InputError, match="has no place with method='vb'"):
        model_of("rows").fit("vb", cov_type=cov_type)


def test_several_responses_are_refused_for_what_they_are():
    model = MixReg.from_formula(["y ~ x1", "x2 ~ x1"], lines(60, 1), k=2)
    with pytest.raises(
        InputError, match=r"one response; this model has 2, y, x2\. Use method='em'"
    ):
        model.fit("vb")


def test_what_belongs_to_the_likelihood_is_refused(fits):
    res = fits["rows", "default"]
    with pytest.raises(InputError, match="bootstrap"):
        res.bootstrap(5)
    with pytest.raises(NotAvailableError, match="only method='vb' has a lower bound"):
        _ = model_of("rows").fit().elbo
    with pytest.raises(InputError, match="resample"):
        model_of("rows").fit("vb", resample=2)


def grouped(seed: int, k: int) -> MixReg:
    """Groups on k random planes that may overlap, and a model with components to spare."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(25 + 10 * (seed % 4)), 6)
    labels = rng.integers(0, k, code[-1] + 1)
    x = np.column_stack([np.ones(len(code)), rng.standard_normal((len(code), 2))])
    coef = 2 * rng.standard_normal((k, 3))
    noise = (0.5, 1.0, 1.5)[seed % 3] * rng.standard_normal(len(code))
    y = np.einsum("np,np->n", x, coef[labels[code]]) + noise
    return MixReg(y, x, k + 1 + seed % 3, groups=code)


@pytest.mark.parametrize("seed", range(16))
def test_labels_are_of_the_living_and_no_component_is_one_too_many(seed):
    model = grouped(seed, 2 + seed % 2)
    res = model.fit(method="vb")
    assert set(res.group_labels) <= set(res.alive)
    beliefs, priors = res.solution.beliefs, res.options.priors
    source = model.source.standard(model.whitening)
    estimator = Variational(model.mixture, priors)
    resets = [reset(beliefs, j, priors).stacked() for j in range(model.k)]
    ends = iterate(source, estimator, Beliefs.concatenate(resets), Control(300, 1e-11))
    assert max(end.objective for end in ends) < res.solution.elbo + 1e-3


def test_criteria_count_living_components():
    data = mixed_linear_equations(n=1500, p=3, k=2, noise=0.3, seed=1)
    res = MixReg(data.y, data.X, k=5).fit(method="vb", n_init=4)
    assert res.alive == [1, 2]
    # Three coefficients and a variance each, and a weight.
    assert res.df_model == 9
    assert len(res.params) == len(res.conf_int()) == 24
    assert_allclose(res.aic, -2 * res.llf + 18)
    assert_allclose(res.bic, -2 * res.llf + 9 * np.log(1500))
    assert_allclose(res.llf, res.model.loglike(res.model.layout.pack(res.fitted.estimate.params)))
    assert res.elbo < res.llf


def test_intervals_of_weights_are_those_of_the_posterior():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.standard_normal(1500)})
    data["y"] = data["x"] + rng.standard_normal(1500)
    res = MixReg.from_formula("y ~ x", data, k=3).fit(method="vb")
    assert res.alive == [1]
    assert res.entropy_r2 == 1.0
    counts = res.fitted.beliefs.counts
    draws = np.random.default_rng(1).dirichlet(counts, 20_000)
    frame = weights_frame(res)
    assert_allclose(frame["lower"], np.quantile(draws, 0.025, axis=0), atol=2e-4)
    assert_allclose(frame["upper"], np.quantile(draws, 0.975, axis=0), atol=2e-4)
    assert_allclose(frame["weight_se"], draws.std(axis=0), rtol=0.05)
