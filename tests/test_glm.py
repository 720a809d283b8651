"""Generalised linear models: one component is statsmodels' fit, and fits obey what they must."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma, log_softmax, logsumexp
from scipy.stats import norm
from statsmodels.discrete.conditional_models import ConditionalLogit
from statsmodels.discrete.discrete_model import NegativeBinomial

from mixreg import MixReg
from mixreg.errors import ConvergenceWarning, InputError, InterpretationWarning
from mixreg.families import Gamma
from tests.test_families import KINDS, MEAN, Kind, declare, joint_density, planted

EVERY = pytest.mark.parametrize("kind", KINDS, ids=str)
LINKS = {
    "identity": sm.families.links.Identity,
    "log": sm.families.links.Log,
    "inverse": sm.families.links.InversePower,
    "sqrt": sm.families.links.Sqrt,
    "logit": sm.families.links.Logit,
    "probit": sm.families.links.Probit,
    "cloglog": sm.families.links.CLogLog,
}
FAMILIES = {
    "poisson": sm.families.Poisson,
    "binomial": sm.families.Binomial,
    "gamma": sm.families.Gamma,
    "gaussian": sm.families.Gaussian,
}
# Families and links of one component, with coefficients that suit them.
SINGLE = [
    *(("poisson", link, coef) for link, coef in (("log", (1, 0.5)), ("identity", (5, 1.5)))),
    ("poisson", "sqrt", (2, 0.5)),
    *(("binomial", link, (0.3, 0.8)) for link in ("logit", "probit", "cloglog")),
    ("binomial", "log", (-1.5, 0.5)),
    ("binomial", "identity", (0.5, 0.2)),
    *(("gamma", link, coef) for link, coef in (("inverse", (1, 0.3)), ("log", (1, 0.5)))),
    ("gamma", "identity", (5, 1.5)),
    *(("gaussian", link, coef) for link, coef in (("log", (1, 0.5)), ("inverse", (1, 0.3)))),
]
WITH_SINGLE = pytest.mark.parametrize(("family", "link", "coef"), SINGLE)


def single(family: str, link: str, coef, n: int = 250, seed: int = 0) -> pd.DataFrame:
    """Rows of one component; columns `s` and `f` are successes and failures."""
    rng = np.random.default_rng(seed)
    x, trials = rng.uniform(-1, 1, n), rng.integers(1, 9, n)
    mu = MEAN[link](coef[0] + coef[1] * x)
    data = pd.DataFrame({"x": x, "m": trials, "e": rng.uniform(0.5, 3, n)})
    if family == "binomial":
        successes = rng.binomial(trials, mu)
        return data.assign(y=successes / trials, s=successes, f=trials - successes)
    draw = {
        "poisson": lambda: rng.poisson(mu),
        "gamma": lambda: rng.gamma(4, mu / 4),
        "gaussian": lambda: rng.normal(mu, 0.2),
    }[family]
    return data.assign(y=draw().astype(float))


def glm(formula: str, data: pd.DataFrame, family: str, link: str, **options):
    """Fit of statsmodels, to the last digit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sm.GLM.from_formula(
            formula, data, family=FAMILIES[family](LINKS[link]()), **options
        )
        return model.fit(tol=1e-14, tol_criterion="params", maxiter=300)


def observed_errors(reference, scale: float) -> np.ndarray:
    """Standard errors from the observed information at a given dispersion."""
    hessian = reference.model.hessian(reference.params, scale=scale, observed=True)
    return np.sqrt(np.diag(np.linalg.inv(-hessian)))


# One component


@WITH_SINGLE
def test_one_component_is_the_glm(family, link, coef):
    data = single(family, link, coef)
    left = "s + f" if family == "binomial" else "y"
    reference = glm(f"{left} ~ x", data, family, link)
    fit = MixReg.from_formula(f"{left} ~ x", data, k=1, family=family, link=link).fit(tol=1e-14)
    assert_allclose(fit.coefficients[1], reference.params, rtol=1e-7)
    assert fit.converged
    dispersion = 1.0
    if family in ("poisson", "binomial"):
        assert_allclose(fit.llf, reference.llf, rtol=1e-12)
    if family == "gaussian":
        dispersion = float(((data["y"] - reference.fittedvalues) ** 2).mean())
        assert_allclose(fit.scale, np.sqrt(dispersion), rtol=1e-7)
    if family == "gamma":
        dispersion = fit.scale[1]
        gap = np.log(1 / dispersion) - digamma(1 / dispersion)
        assert_allclose(gap, 0.5 * reference.deviance / len(data), rtol=1e-7)
    errors = fit.bse.to_numpy()[:2]
    assert_allclose(errors, observed_errors(reference, dispersion), rtol=1e-5)
    if (family, link) in (("poisson", "log"), ("binomial", "logit")):
        assert_allclose(errors, reference.bse, rtol=1e-6)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_binomial_responses_can_be_given_in_four_ways(link):
    data = single("binomial", link, (0.3, 0.8))
    two = MixReg.from_formula("s + f ~ x", data, k=1, family="binomial", link=link).fit()
    others = [
        MixReg.from_formula("y ~ x", data, k=1, family="binomial", link=link, trials="m"),
        MixReg.from_formula("y ~ x", data, k=1, family="binomial", link=link, weights="m"),
        MixReg(
            data[["s", "f"]],
            sm.add_constant(data[["x"]]),
            1,
            family=sm.families.Binomial(LINKS[link]()),
        ),
    ]
    for other in others:
        fit = other.fit()
        assert_allclose(fit.llf, two.llf, rtol=1e-13)
        assert_allclose(fit.params, two.params, rtol=1e-12)
        assert_allclose(fit.bse, two.bse, rtol=1e-12)


def test_proportions_with_weights_are_those_of_glm():
    data = single("binomial", "logit", (0.3, 0.8))
    reference = glm("y ~ x", data, "binomial", "logit", var_weights=data["m"].to_numpy())
    fit = MixReg.from_formula("y ~ x", data, k=1, family="binomial", weights="m").fit(tol=1e-14)
    assert_allclose(fit.params, reference.params, rtol=1e-7)
    assert_allclose(fit.bse, reference.bse, rtol=1e-6)


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_offset_and_exposure_are_those_of_glm(family):
    data = single(family, "log", (1, 0.5))
    data["o"] = 0.3 * data["x"] ** 2
    options = {"offset": "o", "exposure": "e"}
    reference = glm("y ~ x", data, family, "log", offset=data["o"], exposure=data["e"])
    model = MixReg.from_formula("y ~ x", data, k=1, family=family, link="log", **options)
    fit = model.fit(tol=1e-14)
    assert_allclose(fit.coefficients[1], reference.params, rtol=1e-7)
    assert_allclose(fit.predict(), reference.fittedvalues, rtol=1e-7)


def test_case_weights_are_those_of_glm():
    data = single("poisson", "log", (1, 0.5))
    weights = np.arange(len(data)) % 4
    reference = glm("y ~ x", data, "poisson", "log", freq_weights=weights)
    fit = MixReg.from_formula("y ~ x", data, k=1, family="poisson", weights=weights).fit(tol=1e-14)
    assert_allclose(fit.params, reference.params, rtol=1e-8)
    assert_allclose(fit.bse, reference.bse, rtol=1e-8)
    assert_allclose(fit.llf, reference.llf, rtol=1e-12)


def test_robust_errors_are_those_of_glm():
    data = single("poisson", "log", (1, 0.5))
    model = sm.GLM.from_formula("y ~ x", data, family=sm.families.Poisson())
    reference = model.fit(tol=1e-14, cov_type="HC0")
    fit = MixReg.from_formula("y ~ x", data, k=1, family="poisson").fit(cov_type="robust")
    assert_allclose(fit.bse, reference.bse, rtol=1e-7)


def test_a_fixed_alpha_is_refused():
    data = pd.DataFrame({"y": [0, 1, 2, 5, 1, 0] * 5, "x": np.arange(30.0)})
    plain = MixReg.from_formula("y ~ x", data, k=1, family=sm.families.NegativeBinomial(alpha=1.0))
    assert plain.family.name == "negativebinomial"
    with pytest.raises(InputError, match=r"NegativeBinomial\(alpha=5\) fixes alpha, .*estimated"):
        MixReg.from_formula("y ~ x", data, k=1, family=sm.families.NegativeBinomial(alpha=5.0))


@pytest.mark.parametrize("alpha", [0.3, 2.0])
@pytest.mark.parametrize("exposed", [False, True])
def test_a_negative_binomial_is_that_of_statsmodels(alpha, exposed):
    rng = np.random.default_rng(1)
    x, exposure = rng.uniform(-1, 1, 400), rng.uniform(0.5, 3, 400) if exposed else None
    mu = np.exp(1 + 0.5 * x) * (1 if exposure is None else exposure)
    y = rng.poisson(rng.gamma(1 / alpha, alpha * mu)).astype(float)
    X = sm.add_constant(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NegativeBinomial(y, X, exposure=exposure)
        rough = model.fit(disp=0, start_params=[1, 0.5, alpha], method="bfgs", gtol=1e-8)
        reference = model.fit(disp=0, start_params=rough.params, method="newton", tol=1e-13)
    made = MixReg(y, X, 1, family="negativebinomial", exposure=exposure)
    fit = made.fit(tol=1e-14)
    assert_allclose(fit.coefficients[1], reference.params[:2], rtol=1e-6)
    assert_allclose(fit.scale, reference.params[2:], rtol=1e-6)
    assert_allclose(fit.llf, reference.llf, rtol=1e-12)
    assert_allclose(fit.bse[:2], reference.bse[:2], rtol=1e-5)
    assert_allclose(fit.bse.iloc[2] * fit.scale[1], reference.bse[2], rtol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_a_negative_binomial_of_poisson_counts_is_a_poisson(seed):
    rng = np.random.default_rng(seed)
    X = sm.add_constant(rng.normal(size=400))
    y = rng.poisson(np.exp(X @ [1, 0.5])).astype(float)
    poisson = MixReg(y, X, 1, family="poisson").fit()
    fit = MixReg(y, X, 1, family="negativebinomial").fit()
    assert fit.converged
    assert fit.llf > poisson.llf - 1e-5
    assert np.diff(fit.history).min(initial=0) >= -1e-9 * abs(fit.llf)
    if fit.scale[1] < 1e-4:
        assert_allclose(fit.coefficients, poisson.coefficients, atol=1e-4)
        assert_allclose(fit.bse[:2], poisson.bse, rtol=1e-3)


def choices(people: int, per: int, sizes: tuple[int, ...], seed: int = 0) -> pd.DataFrame:
    """Choices of people with one of two tastes (column `z`), rows in scattered order."""
    rng = np.random.default_rng(seed)
    taste = np.array([[2.0, -1.0], [-0.5, -2.0]])
    z = rng.choice(2, people, p=[0.6, 0.4])
    size = rng.choice(sizes, people * per)
    who = np.repeat(np.repeat(np.arange(people), per), size)
    offered = np.repeat(np.arange(people * per), size)
    x = rng.normal(size=(len(who), 2))
    utility = np.einsum("np,np->n", x, taste[z[who]]) + rng.gumbel(size=len(who))
    best = pd.Series(utility).groupby(offered).transform("max")
    data = pd.DataFrame({"y": (utility == best).astype(float), "a": x[:, 0], "price": x[:, 1]})
    data = data.assign(offered=offered, who=who, z=z[who] + 1, index=np.arange(len(who)))
    return data.sample(frac=1, random_state=seed)


def choose(data: pd.DataFrame, k: int = 2, **options) -> MixReg:
    options = {"groups": "who", "choice_set": "offered", "family": "choice"} | options
    return MixReg.from_formula("y ~ a + price", data, k=k, **options)


SIZES = pytest.mark.parametrize("sizes", [(3,), (2, 3, 5)], ids=["equal", "unequal"])


@SIZES
def test_one_component_of_choices_is_the_conditional_logit(sizes):
    data = choices(80, 2, sizes)
    model = ConditionalLogit(data["y"], data[["a", "price"]], groups=data["offered"])
    reference = model.fit(disp=0, method="newton", tol=1e-13)
    for rows in (data, data.sort_values("index")):
        fit = choose(rows, 1, groups=None).fit(tol=1e-14)
        assert_allclose(fit.params, reference.params, rtol=1e-7)
        assert_allclose(fit.llf, reference.llf, rtol=1e-12)
        assert_allclose(fit.bse, reference.bse, rtol=1e-6)


@SIZES
@pytest.mark.parametrize("noise", [False, True])
def test_log_likelihood_score_and_hessian_of_choices(sizes, noise):
    data = choices(20, 3, sizes)
    weights = 1 + data["who"] % 2
    offset = 0.3 * data["a"] ** 2
    model = choose(data, weights=weights, offset=offset, noise=noise)
    coef, share = np.array([[1.0, -0.5], [0.2, -1.5]]), np.array([0.5, 0.3, 0.2][: 2 + noise])
    share = share / share.sum()
    at = np.append(coef.ravel(), np.log(share[1:] / share[0]))
    utility = data[["a", "price"]].to_numpy() @ coef.T + offset.to_numpy()[:, None]
    if noise:
        utility = np.column_stack([utility, np.zeros(len(data))])
    total = np.log(pd.DataFrame(np.exp(utility)).groupby(data["offered"].to_numpy()).sum())
    chosen = data["y"].to_numpy()[:, None] * (utility - total.loc[data["offered"]].to_numpy())
    people = pd.DataFrame(chosen).groupby(data["who"].to_numpy()).sum() + np.log(share)
    counts = 1 + people.index.to_numpy() % 2
    assert_allclose(model.loglike(at), counts @ logsumexp(people.to_numpy(), axis=1), rtol=1e-12)
    step = 1e-5
    score, hessian = model.score(at), model.hessian(at)
    for i, e in enumerate(step * np.eye(len(at))):
        slope = (model.loglike(at + e) - model.loglike(at - e)) / (2 * step)
        assert_allclose(score[i], slope, rtol=1e-6, atol=1e-6)
        bend = (model.score(at + e) - model.score(at - e)) / (2 * step)
        assert_allclose(hessian[i], bend, rtol=1e-6, atol=1e-6)


@SIZES
def test_planted_tastes_are_found(sizes):
    data = choices(150, 6, sizes)
    fit = choose(data).fit()
    truth = np.array([[2.0, -1.0], [-0.5, -2.0]])
    errors = fit.bse.to_numpy()[fit.model.layout.coef_index()]
    assert np.abs((fit.coefficients.to_numpy().T - truth) / errors).max() < 4.5
    assert (fit.labels == data["z"]).mean() > 0.95
    assert np.diff(fit.history).min() >= -1e-10 * abs(fit.llf)


# What must not matter


def refit(kind: Kind, data: pd.DataFrame, formula: str = "y ~ x", **options):
    """A fit that starts at the true labels and ends where tolerances are tight."""
    return declare(kind, data, 2, formula, **options).fit(init=data["z"].to_numpy(), tol=1e-14)


@EVERY
def test_units_of_regressors_do_not_matter(kind):
    data = planted(kind, 200)
    fit = refit(kind, data)
    moved = refit(kind, data.assign(x=1e4 * data["x"] + 3e4))
    assert_allclose(moved.llf, fit.llf, rtol=1e-10)
    slope = fit.coefficients.loc["x"]
    assert_allclose(moved.coefficients.loc["x"], slope / 1e4, rtol=1e-5)
    expected = fit.coefficients.loc["Intercept"] - 3 * slope
    assert_allclose(moved.coefficients.loc["Intercept"], expected, rtol=1e-5, atol=1e-6)
    errors = fit.bse.filter(like="x[").to_numpy()
    assert_allclose(moved.bse.filter(like="x["), errors / 1e4, rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("kind", [k for k in KINDS if k.family in ("gamma", "gaussian")], ids=str)
def test_units_of_the_response_do_not_matter(kind, unit):
    data = planted(kind, 200)
    fit = refit(kind, data)
    scaled = refit(kind, data.assign(y=unit * data["y"]))
    assert_allclose(scaled.llf, fit.llf - 200 * np.log(unit), rtol=1e-8)
    assert_allclose(scaled.weights, fit.weights, rtol=1e-5)
    assert_allclose(scaled.predict(), unit * fit.predict(), rtol=1e-5)
    change = {"log": 1.0, "inverse": 1 / unit, "identity": unit}[kind.link]
    errors = fit.bse.filter(like="x[").to_numpy()
    assert_allclose(scaled.bse.filter(like="x["), change * errors, rtol=1e-4)
    assert "separated" not in scaled.summary().as_text()


def test_large_counts_with_an_identity_link_are_not_separated():
    rng = np.random.default_rng(0)
    X = sm.add_constant(rng.uniform(-1, 1, 100))
    y = rng.poisson(1e6 * (X @ [5, 1])).astype(float)
    fit = MixReg(y, X, 1, family="poisson", link="identity").fit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = sm.GLM(y, X, family=sm.families.Poisson(LINKS["identity"]())).fit(tol=1e-12)
    assert_allclose(fit.params, reference.params, rtol=1e-7)
    assert_allclose(fit.bse, observed_errors(reference, 1.0), rtol=1e-4)


@EVERY
def test_order_of_rows_does_not_matter(kind):
    data = planted(kind, 200)
    fit, other = refit(kind, data), refit(kind, data.sample(frac=1, random_state=0))
    assert_allclose(other.params, fit.params, rtol=1e-6, atol=1e-8)
    assert_allclose(other.posterior.loc[data.index], fit.posterior, atol=1e-6)


@EVERY
def test_coding_of_categories_does_not_matter(kind):
    data = planted(kind, 200)
    data["c"] = np.array(["a", "b", "c"])[np.arange(200) % 3]
    fit = refit(kind, data, "y ~ x + C(c)")
    other = refit(kind, data, "y ~ 0 + C(c, Sum) + x")
    assert_allclose(other.llf, fit.llf, rtol=1e-10)
    assert_allclose(other.predict(), fit.predict(), rtol=1e-5)


@EVERY
def test_a_case_weight_of_two_is_a_row_twice(kind):
    data = planted(kind, 150)
    weights = 1 + np.arange(150) % 2
    weighted = refit(kind, data, weights=weights)
    twice = refit(kind, data.loc[data.index.repeat(weights)].reset_index(drop=True))
    assert_allclose(weighted.llf, twice.llf, rtol=1e-11)
    assert_allclose(weighted.params, twice.params, rtol=1e-6, atol=1e-8)
    assert_allclose(weighted.bse, twice.bse, rtol=1e-5)


@EVERY
def test_groups_of_one_row_are_rows(kind):
    data = planted(kind, 150)
    fit, grouped = refit(kind, data), refit(kind, data, groups=np.arange(150) + 7)
    assert_allclose(grouped.llf, fit.llf, rtol=1e-12)
    assert_allclose(grouped.params, fit.params, rtol=1e-7, atol=1e-9)
    assert_allclose(grouped.bse, fit.bse, rtol=1e-7)


@pytest.mark.parametrize("n_init", [1, 16])
@EVERY
def test_known_labels_of_all_rows_leave_a_fit_of_each_component_alone(kind, n_init):
    data = planted(kind, 150)
    fit = declare(kind, data, 2, known_labels=data["z"]).fit(n_init=n_init, tol=1e-14)
    counts = data["z"].value_counts()
    total = (counts * np.log(counts / 150)).sum()
    for j, part in data.groupby("z"):
        alone = declare(kind, part, 1).fit(tol=1e-14)
        total += alone.llf
        assert_allclose(fit.coefficients[j], alone.coefficients[1], rtol=1e-5)
        assert_allclose(fit.bse.filter(like=f"x[{j}]"), alone.bse["x[1]"], rtol=1e-4)
    assert_allclose(fit.llf, total, rtol=1e-10)
    assert_array_equal(fit.labels, data["z"])


def test_trials_are_rows_of_a_group():
    kind = next(k for k in KINDS if k.link == "logit")
    data = planted(kind, 80)
    fit = refit(kind, data)
    long = data.loc[data.index.repeat(data["m"])].copy()
    number = long.groupby(level=0).cumcount()
    long["success"] = (number < np.round(long["y"] * long["m"])).astype(float)
    long["row"] = long.index
    model = MixReg.from_formula("success ~ x", long, k=2, family="binomial", groups="row")
    split = model.fit(init=long["z"].to_numpy(), tol=1e-14)
    assert_allclose(split.coefficients, fit.coefficients, rtol=1e-6)
    assert_allclose(split.bse, fit.bse, rtol=1e-5)
    assert_allclose(split.posterior.groupby(level=0).first(), fit.posterior, atol=1e-7)


def test_means_under_a_square_root_have_one_sign():
    kind = next(k for k in KINDS if k.link == "sqrt")
    for seed in range(4):
        fit = declare(kind, planted(kind, 300, seed=seed), 2).fit(n_init=4)
        assert (fit.coefficients.loc["Intercept"] > 0).all()


@pytest.mark.parametrize("seed", [2, 8])
def test_two_gammas_are_not_an_accident_of_a_few_rows(seed):
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(0, 2, 100), rng.random(100) < 0.4
    mu = np.where(z, np.exp(1 + 0.5 * x), np.exp(2 - 0.5 * x))
    y = rng.gamma(10, mu / 10)
    fit = MixReg(y, sm.add_constant(x), 2, family="gamma", link="log").fit()
    assert fit.converged
    assert fit.scale.min() > 0.01 or "chance" in fit.summary().as_text()
    assert fit.scale.min() > 1e-4 * fit.scale.max()


# Separation and overflow


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_a_separated_component_is_told(link):
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(80), 5)
    odd = np.repeat(rng.random(80) < 0.4, 5)
    x = rng.normal(size=400)
    y = np.where(odd, x > 0, rng.random(400) < 1 / (1 + np.exp(x - 1))).astype(float)
    model = MixReg(y, sm.add_constant(x), 2, family="binomial", link=link, groups=group)
    fit = model.fit()
    text = fit.summary().as_text()
    separated = int(fit.coefficients.loc["x1"].abs().idxmax())
    assert f"Component {separated} is separated" in text
    assert f"Component {3 - separated} is separated" not in text
    infinite = np.isinf(fit.bse)
    assert infinite[f"x1[{separated}]"]
    assert not infinite[[f"x1[{3 - separated}]", f"const[{3 - separated}]"]].any()
    assert np.isfinite(fit.llf)
    assert fit.predict().between(0, 1).all()


@pytest.mark.parametrize(
    ("family", "link", "mean"),
    [
        ("poisson", "identity", lambda x: np.maximum(1 + 2 * x, 0)),
        ("binomial", "identity", lambda x: np.clip(0.5 + 0.8 * x, 0, 1)),
        ("binomial", "log", lambda x: np.exp(np.minimum(-0.3 + 0.8 * x, 0))),
    ],
)
def test_means_at_the_end_of_their_range_are_told(family, link, mean):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 300)
    y = rng.poisson(mean(x)) if family == "poisson" else rng.random(300) < mean(x)
    model = MixReg(y.astype(float), sm.add_constant(x), 1, family=family, link=link)
    try:
        fit = model.fit()
    except ConvergenceWarning:
        return
    at, steps = fit.params.to_numpy(), 1e-6 * np.eye(2)
    slope = np.array([(model.loglike(at + e) - model.loglike(at - e)) / 2e-6 for e in steps])
    settled = fit.converged and np.abs(slope).max() < 1e-2
    assert settled or "range" in fit.summary().as_text()


def test_a_category_without_counts_is_told():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"y": rng.poisson(3, 60), "c": np.repeat(["a", "b", "c"], 20)})
    data.loc[data["c"] == "b", "y"] = 0
    fit = MixReg.from_formula("y ~ c", data, k=1, family="poisson").fit()
    assert "separated" in fit.summary().as_text()
    assert np.isinf(fit.bse["c[T.b][1]"])


@pytest.mark.parametrize("family", ["poisson", "negativebinomial", "gamma", "binomial"])
@pytest.mark.parametrize("far", [1e6, 1e200])
def test_a_huge_regressor_gives_no_numerical_warnings(family, far):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    z = rng.random(200) < 0.4
    mu = np.exp(np.where(z, 2 + 0.5 * x, -0.5 * x))
    y = {
        "poisson": lambda: rng.poisson(mu),
        "negativebinomial": lambda: rng.poisson(mu * rng.gamma(2, 0.5, 200)),
        "gamma": lambda: rng.gamma(5, mu / 5),
        "binomial": lambda: rng.random(200) < mu / (1 + mu),
    }[family]().astype(float)
    x[0] = far
    link = "log" if family == "gamma" else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        try:
            fit = MixReg(y, sm.add_constant(x), 2, family=family, link=link).fit(n_init=4)
        except InputError:
            return
    assert np.isfinite(fit.llf)
    assert np.isfinite(fit.params).all()


# Predictions


def known_fit(kind: Kind, **options):
    """A fit of 200 rows with an offset column `o`, and its data."""
    data = planted(kind, 200)
    data["o"] = 0.02 * np.sin(np.arange(200))
    return refit(kind, data, offset="o", **options), data


def means(fit, kind: Kind, data: pd.DataFrame) -> np.ndarray:
    """Mean of each component by hand, (rows, k)."""
    x = np.column_stack([np.ones(len(data)), data["x"]])
    return MEAN[kind.link](x @ fit.coefficients.to_numpy() + data["o"].to_numpy()[:, None])


@EVERY
def test_predicted_means_use_the_offset_of_new_data(kind):
    fit, data = known_fit(kind)
    new = data.sample(30, random_state=0).assign(o=0.03)
    expected = means(fit, kind, new)
    component = fit.predict(new, "component")
    assert_allclose(component, expected, rtol=1e-12)
    assert_allclose(fit.predict(new), expected @ fit.weights, rtol=1e-12)
    assert component.index.equals(new.index)
    given = fit.predict(new.drop(columns="o"), offset=np.full(30, 0.03))
    assert_allclose(given, fit.predict(new), rtol=1e-12)
    assert_allclose(fit.predict(), means(fit, kind, data) @ fit.weights, rtol=1e-12)
    assert_allclose(fit.predict(data), fit.predict(), rtol=1e-10)
    holes = new.assign(x=new["x"].where(np.arange(30) != 3))
    assert fit.predict(holes).isna().to_numpy().nonzero()[0].tolist() == [3]


@EVERY
def test_predicted_posteriors_follow_from_bayes(kind):
    data = planted(kind, 200)
    fit = refit(kind, data)
    new = planted(kind, 50, seed=9)
    scale = fit.scale.to_numpy() if kind.scale else ()
    joint = joint_density(kind, new, fit.coefficients.to_numpy().T, scale, fit.weights)
    expected = np.exp(log_softmax(joint, axis=0)).T
    posterior, labels = fit.predict(new, "posterior"), fit.predict(new, "label")
    assert_allclose(posterior, expected, rtol=1e-8, atol=1e-12)
    assert_array_equal(labels, 1 + expected.argmax(axis=1))
    assert_allclose(fit.predict(data, "posterior"), fit.posterior, rtol=1e-9, atol=1e-12)
    placed = fit.assign(new)
    assert list(placed.columns) == ["component", "certainty", "p1", "p2"]
    assert_allclose(placed["certainty"], expected.max(axis=1), rtol=1e-8)
    assert_array_equal(placed["component"], labels)
    unseen = fit.predict(new.drop(columns="y"), "posterior")
    assert_allclose(unseen, np.tile(fit.weights, (50, 1)), rtol=1e-12)


def test_exposure_of_new_data_multiplies_the_mean():
    kind = KINDS[0]
    data = planted(kind, 200).assign(e=1.0)
    fit = refit(kind, data, exposure="e")
    new = data.head(20).assign(e=3.0)
    assert_allclose(fit.predict(new), 3 * fit.predict(data).head(20), rtol=1e-12)
    bare = data.head(20).drop(columns="e")
    assert_allclose(fit.predict(bare, exposure=np.full(20, 3.0)), fit.predict(new), rtol=1e-12)


@pytest.mark.parametrize(
    ("family", "link", "response", "value"),
    [("poisson", None, "c", -1), ("poisson", None, "c", 1.5), ("gamma", "log", "g", 0.0)],
)
def test_new_responses_out_of_range_are_refused(family, link, response, value):
    rng = np.random.default_rng(0)
    index = [f"r{i}" for i in range(80)]
    columns = {"x": rng.normal(size=80), "c": rng.poisson(3.0, 80), "g": rng.gamma(2, 1, 80)}
    data = pd.DataFrame(columns, index).astype(float)
    model = MixReg.from_formula(f"{response} ~ x", data, k=2, family=family, link=link)
    fit = model.fit(init=1 + (data["x"] > 0).to_numpy(), max_iter=2000)
    new = data.copy()
    new.loc["r7", response] = value
    with pytest.raises(InputError, match="r7"):
        fit.predict(new, "posterior")


def test_new_rows_without_trials_have_the_prior():
    data = single("binomial", "logit", (0.3, 0.8), n=80)
    fit = MixReg.from_formula("s + f ~ x", data, k=2, family="binomial").fit(n_init=2)
    new = data.assign(s=data["s"].where(data.index != 4, 0), f=data["f"].where(data.index != 4, 0))
    assert_allclose(fit.predict(new, "posterior").loc[4], fit.weights, rtol=1e-9)


def test_new_exposure_must_be_positive():
    data = planted(KINDS[0], 100).assign(e=1.0)
    fit = refit(KINDS[0], data, exposure="e")
    with pytest.raises(InputError, match="exposure must be positive; row 5"):
        fit.predict(data.assign(e=data["e"].where(data.index != 5, 0.0)))


def test_new_proportions_need_trials():
    kind = next(k for k in KINDS if k.link == "logit")
    data = planted(kind, 100)
    fit = refit(kind, data)
    with pytest.raises(InputError, match="trials"):
        fit.predict(data.drop(columns="m"), "posterior")
    given = fit.predict(data.drop(columns="m"), "posterior", trials=data["m"])
    assert_allclose(given, fit.posterior, rtol=1e-9, atol=1e-12)


@SIZES
def test_choice_shares_add_up_to_one_in_each_set(sizes):
    data = choices(60, 4, sizes)
    fit = choose(data).fit(n_init=4)
    for rows in (None, data, data.drop(columns="y")):
        overall = fit.predict(rows)
        each = fit.predict(rows, "component")
        assert_allclose(overall.groupby(data["offered"]).sum(), 1, rtol=1e-12)
        assert_allclose(each.groupby(data["offered"]).sum(), 1, rtol=1e-12)
        assert_allclose(overall, each.to_numpy() @ fit.weights, rtol=1e-12)
    utility = data[["a", "price"]].to_numpy() @ fit.coefficients.to_numpy()
    expo = pd.DataFrame(np.exp(utility), data.index)
    assert_allclose(each, expo / expo.groupby(data["offered"]).transform("sum"), rtol=1e-10)
    assert_allclose(fit.predict(data, "posterior"), fit.posterior, atol=1e-12)
    # People that are known keep their probabilities; others have the weights.
    assert_allclose(fit.predict(data.drop(columns="y"), "posterior"), fit.posterior, atol=1e-12)
    strangers = fit.predict(data.drop(columns="y").assign(who=-1), "posterior")
    assert_allclose(strangers, np.tile(fit.weights, (len(data), 1)), rtol=1e-12)


def test_a_missing_attribute_leaves_the_shares_of_its_set_unknown():
    data = choices(40, 4, (3,))
    fit = choose(data).fit(n_init=2)
    first = data.index[data["y"] == 1][0]
    holes = data.assign(a=data["a"].where(data.index != first))
    shares = fit.predict(holes)
    its_set = data["offered"] == data["offered"][first]
    assert shares[its_set].isna().all()
    assert_allclose(shares[~its_set].groupby(data["offered"]).sum(), 1, rtol=1e-12)
    assert fit.predict(holes, "posterior").drop(first).notna().all(axis=None)


@pytest.mark.parametrize("shared", [None, "price"])
def test_willingness_to_pay_is_the_delta_method(shared):
    fit = choose(choices(80, 5, (3, 4)), shared=shared).fit(n_init=4)
    table = fit.wtp("price", alpha=0.1)
    index, cov = fit.model.layout.coef_index(), fit.cov_params().to_numpy()

    def value(vector, j):
        return -vector[index[j, 0]] / vector[index[j, 1]]

    at = fit.params.to_numpy()
    for j in range(2):
        steps = 1e-6 * np.eye(len(at))
        slope = np.array([(value(at + e, j) - value(at - e, j)) / 2e-6 for e in steps])
        error = np.sqrt(slope @ cov @ slope)
        row = table.loc[(j + 1, "a")]
        assert_allclose(row["wtp"], value(at, j), rtol=1e-12)
        assert_allclose(row["std err"], error, rtol=1e-6)
        assert_allclose(row["z"], value(at, j) / error, rtol=1e-6)
        half = norm.isf(0.05) * error
        assert_allclose(row.iloc[4:], [value(at, j) - half, value(at, j) + half], rtol=1e-6)


def test_willingness_to_pay_is_unknown_where_coefficients_run_away():
    data = choices(60, 1, (3,))
    dearest = data.groupby("offered")["price"].transform("max")
    fit = choose(data.assign(y=(data["price"] == dearest) * 1.0), 1).fit()
    assert np.isinf(fit.bse).all()
    with pytest.warns(InterpretationWarning, match="component 1 is separated"):
        assert np.isinf(fit.wtp("price")["std err"]).all()


# A family as an object


def test_arguments_beside_a_family_object_are_not_ignored():
    data = single("gamma", "log", (1, 0.5))
    for options in ({"link": "log"}, {"equal_variance": True}):
        try:
            model = MixReg.from_formula("y ~ x", data, k=2, family=Gamma(), **options)
        except InputError:
            continue
        assert model.family.link_name == options.get("link", "inverse")
        assert model.family.equal_dispersion == options.get("equal_variance", False)


@pytest.mark.parametrize(
    "link", [sm.families.links.Cauchy(), sm.families.links.LogLog()], ids=["cauchy", "loglog"]
)
def test_other_links_of_statsmodels_work(link):
    data = single("binomial", "logit", (0.3, 0.8))
    family = sm.families.Binomial(link)
    reference = sm.GLM.from_formula("s + f ~ x", data, family=family).fit(tol=1e-13)
    fit = MixReg.from_formula("s + f ~ x", data, k=1, family=family).fit(tol=1e-14)
    assert_allclose(fit.params, reference.params, rtol=1e-6)
    assert_allclose(fit.llf, reference.llf, rtol=1e-11)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("mean", [2.0, 8.0, 11.0, 14.0])
def test_negative_binomials_never_end_below_the_poisson_that_they_hold(mean, k):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(300)
    first = rng.random(300) < 0.5 if k == 2 else np.ones(300, dtype=bool)
    rate = np.exp(np.where(first, mean + 0.3 * x, mean - 1 - 0.3 * x))
    data = pd.DataFrame({"y": rng.poisson(rate), "x": x})
    found = [
        MixReg.from_formula("y ~ x", data, k=k, family=family).fit().llf
        for family in ("poisson", "negativebinomial")
    ]
    # What rounding of y log(y) allows.
    assert found[1] > found[0] - 1e-6


@pytest.mark.parametrize("column", ["offset", "exposure"])
@pytest.mark.parametrize("named", [True, False])
def test_new_rows_without_what_shifts_their_means_are_refused(column, named):
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.standard_normal(200), "t": rng.uniform(1, 9, 200)})
    data["y"] = rng.poisson(data["t"] * np.exp(0.2 * data["x"]))
    given = "t" if named else data["t"].to_numpy()
    res = MixReg.from_formula("y ~ x", data, k=1, family="poisson", **{column: given}).fit()
    new = data[["x", "y"]].head(3)
    for which in ("mean", "component", "posterior"):
        with pytest.raises(InputError, match=f"pass {column}=array"):
            res.predict(new, which)
    neutral = res.predict(new, **{column: 0 if column == "offset" else 1})
    by_hand = np.exp(res.coefficients.iloc[0, 0] + res.coefficients.iloc[1, 0] * new["x"])
    assert_allclose(neutral, by_hand, rtol=1e-9)
