"""Terms with one coefficient for all components."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from mixreg import MixReg, MixRegResults
from mixreg.errors import InputError
from tests.reference.concomitant import gate_cases

SHARED = [ref for ref in gate_cases() if ref.shared]


def sales(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Two segments with their own intercept and slope of x; price and region act on all alike."""
    rng = np.random.default_rng(seed)
    x, price = rng.standard_normal((2, n))
    region = rng.choice(["north", "south", "west"], n)
    label = 1 + (rng.random(n) < 0.4)
    common = -0.7 * price + 0.8 * (region == "south") - 0.5 * (region == "west")
    eta = np.where(label == 1, 1 + 2 * x, -1 - x) + common
    y = eta + np.where(label == 1, 0.3, 0.6) * rng.standard_normal(n)
    rate = np.exp(np.where(label == 1, 0.3 + 0.4 * x, 2.0 - 0.3 * x) - 0.3 * price)
    binary = np.where(label == 1, 2 + 2 * x, -2 - 2 * x) - price
    return pd.DataFrame(
        {
            "y": y,
            "x": x,
            "price": price,
            "region": region,
            "label": label,
            "count": rng.poisson(rate),
            "amount": rng.gamma(6.0, rate / 6),
            "yes": rng.binomial(12, 1 / (1 + np.exp(-binary))),
            "no": 0,
            "shop": np.arange(n) // 4,
        }
    ).assign(no=lambda t: 12 - t["yes"])


def fit(data: pd.DataFrame, shared, formula: str = "y ~ x + price", **options) -> MixRegResults:
    return MixReg.from_formula(formula, data, shared=shared, **{"k": 2, **options}).fit()


def differences(function, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    return np.array(
        [(function(at + h) - function(at - h)) / (2 * step) for h in step * np.eye(len(at))]
    )


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return sales()


@pytest.fixture(scope="module")
def res(data) -> MixRegResults:
    return fit(data, ["price"])


# Against R


@pytest.mark.parametrize("ref", SHARED, ids=str)
def test_the_fit_is_the_maximum_next_to_rs(ref):
    res = fit(ref.data(), list(ref.shared), ref.formula, k=ref.k, equal_variance=ref.equal_variance)
    assert (res.nobs, res.df_model) == (ref.n, ref.df)
    assert res.llf == pytest.approx(ref.llf, abs=1e-7)
    # flexmix does not weigh components by their precision, so it stays below.
    assert res.llf > ref.flexmix_llf + 1e-3
    where, bse = res.model.layout, res.bse.to_numpy()
    assert tuple(res.model.exog_names) == ref.terms
    assert_allclose(res.coefficients.T, ref.ml.coefficients, rtol=1e-5)
    assert_allclose(np.log(res.scale), ref.ml.log_sigma, rtol=1e-5)
    assert_allclose(res.weights, ref.weights, rtol=1e-5)
    for expected, rtol in ((ref.se, 1e-4), (ref.refit_se, 2e-2)):
        assert_allclose(bse[where.coef_index()], expected.coefficients, rtol=rtol)
        assert_allclose(bse[where.scale_index()], expected.log_sigma, rtol=rtol)
        assert_allclose(bse[where.gating_index()], expected.gate[:, 0], rtol=rtol)


# Against a likelihood written by hand


def gaussian_by_hand(data: pd.DataFrame, equal: bool):
    """Minus the log-likelihood of (a1, b1, a2, b2, price, log sigmas, logit)."""
    x, price, y = (data[name].to_numpy() for name in ("x", "price", "y"))

    def value(v: np.ndarray) -> float:
        mean = np.array([v[0] + v[1] * x, v[2] + v[3] * x]) + v[4] * price
        sigma = np.exp(v[5:-1] if not equal else np.repeat(v[5], 2))[:, None]
        weight = np.array([-np.log1p(np.exp(v[-1])), v[-1] - np.log1p(np.exp(v[-1]))])
        return -float(logsumexp(norm.logpdf(y, mean, sigma) + weight[:, None], axis=0).sum())

    return value


@pytest.mark.parametrize("equal", [False, True])
def test_nothing_nearby_is_better(data, equal):
    res = fit(data, ["price"], equal_variance=equal)
    p, c = res.params, res.coefficients
    sigmas = ["log(sigma)"] if equal else ["log(sigma)[1]", "log(sigma)[2]"]
    at = np.array([*c[1][:2], *c[2][:2], p["price"], *p[sigmas], p["logit(weight)[2]"]])
    by_hand = gaussian_by_hand(data, equal)
    assert -by_hand(at) == pytest.approx(res.llf, rel=1e-12)
    assert np.abs(differences(by_hand, at)).max() < 1e-3
    rng = np.random.default_rng(0)
    start = at + 0.02 * rng.standard_normal(len(at))
    found = minimize(by_hand, start, method="BFGS", options={"gtol": 1e-6})
    assert -found.fun == pytest.approx(res.llf, abs=1e-6)
    assert_allclose(found.x, at, atol=1e-4)


def test_a_poisson_likelihood_by_hand(data):
    res = fit(data, ["price"], "count ~ x + price", family="poisson")
    x, price, y = (data[name].to_numpy() for name in ("x", "price", "count"))

    def by_hand(v: np.ndarray) -> float:
        eta = np.array([v[0] + v[1] * x, v[2] + v[3] * x]) + v[4] * price
        weight = np.array([-np.log1p(np.exp(v[5])), v[5] - np.log1p(np.exp(v[5]))])
        density = y * eta - np.exp(eta) - gammaln(y + 1)
        return -float(logsumexp(density + weight[:, None], axis=0).sum())

    at = res.params.to_numpy()
    assert res.params.index[4] == "price"
    assert -by_hand(at) == pytest.approx(res.llf, rel=1e-12)
    found = minimize(by_hand, at + 0.01, method="BFGS", options={"gtol": 1e-6})
    assert -found.fun == pytest.approx(res.llf, abs=1e-6)
    assert_allclose(found.x, at, atol=1e-4)


# Every family and every other option

MODELS = {
    "gaussian": ("y ~ x + price", {}),
    "equal variance": ("y ~ x + price", {"equal_variance": True}),
    "groups": ("y ~ x + price", {"groups": "shop"}),
    "weights": ("y ~ x + price", {"weights": "w"}),
    "poisson": ("count ~ x + price", {"family": "poisson"}),
    "gamma": ("amount ~ x + price", {"family": "gamma", "link": "log"}),
    "gamma, one scale": (
        "amount ~ x + price",
        {"family": "gamma", "link": "log", "equal_variance": True},
    ),
    "binomial": ("yes + no ~ x + price", {"family": "binomial"}),
    "noise": ("y ~ x + price", {"noise": True}),
    "concomitant": ("y ~ x + price", {"concomitant": "~ region"}),
    "known": ("y ~ x + price", {"known_labels": "known"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_coefficient_is_one_everywhere(name):
    formula, options = MODELS[name]
    rng = np.random.default_rng(1)
    data = sales(seed=3)
    if name == "groups":
        # All rows of a shop share a label.
        first = data.groupby("shop")["label"].transform("first")
        own = np.where(first == 1, 1 + 2 * data["x"], -1 - data["x"])
        data["y"] = own - 0.7 * data["price"] + 0.5 * rng.standard_normal(len(data))
    known = data["label"].where(rng.random(len(data)) < 0.1)
    data = data.assign(w=rng.integers(1, 4, len(data)), known=known)
    res = fit(data, ["price"], formula, **options)
    free = fit(data, None, formula, **options)
    assert res.converged
    both = res.coefficients.loc["price"]
    assert both[1] == both[2] == res.params["price"]
    assert "price[1]" not in res.params.index
    assert res.df_model == free.df_model - 1 == len(res.params)
    # It is a special case of the free model, and true of the data.
    assert -1e-6 < free.llf - res.llf < 6
    truth = -0.7 if formula.startswith("y ") else -1.0 if "yes" in formula else -0.3
    assert abs(both[1] - truth) < 4 * res.bse["price"]
    assert res.model.loglike(res.params) == pytest.approx(res.llf, rel=1e-12)
    usual = np.minimum(res.bse, 1e2)
    assert np.abs(res.model.score(res.params) * usual).max() < 1e-2


@pytest.mark.parametrize("name", ["gaussian", "equal variance", "groups", "poisson", "gamma"])
def test_derivatives_are_those_of_the_likelihood(name):
    formula, options = MODELS[name]
    res = fit(sales(200, seed=5), ["price"], formula, **options)
    at = res.params.to_numpy() + 0.05 * np.random.default_rng(2).standard_normal(len(res.params))
    score, hessian = res.model.score(at), res.model.hessian(at)
    limit = 1e-6 * np.abs(score).max()
    assert_allclose(score, differences(res.model.loglike, at), rtol=1e-5, atol=limit)
    limit = 1e-6 * np.abs(hessian).max()
    assert_allclose(hessian, differences(res.model.score, at), rtol=1e-5, atol=limit)


def test_the_shared_term_has_a_smaller_standard_error(data, res):
    free = fit(data, None)
    assert res.bse["price"] < free.bse[["price[1]", "price[2]"]].min()
    # Two estimates of one number, each with its precision.
    v, se = free.params[["price[1]", "price[2]"]], free.bse[["price[1]", "price[2]"]]
    pooled = (v / se**2).sum() / (1 / se**2).sum()
    assert res.params["price"] == pytest.approx(pooled, abs=res.bse["price"] / 4)


@pytest.mark.parametrize("cov_type", ["opg", "robust"])
def test_other_standard_errors(data, res, cov_type):
    model = MixReg.from_formula("y ~ x + price", data, k=2, shared=["price"])
    bse = model.fit(cov_type=cov_type, init=res.coefficients).bse
    assert_allclose(bse, res.bse, rtol=0.35)


# Names and tables


def test_names_of_shared_terms_have_no_number(res):
    assert res.params.index.to_list() == [
        "Intercept[1]",
        "x[1]",
        "log(sigma)[1]",
        "Intercept[2]",
        "x[2]",
        "log(sigma)[2]",
        "price",
        "logit(weight)[2]",
    ]
    test = res.t_test("price = -0.7")
    expected = (res.params["price"] + 0.7) / res.bse["price"]
    assert float(np.squeeze(test.tvalue)) == pytest.approx(expected)
    assert res.conf_int().loc["price", 0] < res.params["price"] < res.conf_int().loc["price", 1]


def test_the_summary_shows_shared_terms_once(data):
    res = fit(data, ["price", "region"], "y ~ x + price + region")
    text = res.summary().as_text()
    lines = [line.split() for line in text.splitlines()]
    for term in ("price", "region[T.south]", "region[T.west]"):
        (row,) = (words for words in lines if words[:1] == [term])
        assert float(row[1]) == pytest.approx(res.params[term], abs=1e-4)
        assert float(row[2]) == pytest.approx(res.bse[term], abs=1e-3)
    assert sum(words[:1] == ["x"] for words in lines) == 2
    assert text.count("All components (shared)") == 1
    assert text.index("Component 2  ") < text.index("All components (shared)")
    widths = {len(line) for line in text.splitlines() if line and set(line) == {"="}}
    assert len(widths) == 1


def test_coefficients_and_segments_repeat_shared_terms(res):
    assert res.coefficients.index.to_list() == ["Intercept", "x", "price"]
    assert_array_equal(res.segments()["price"], [res.params["price"]] * 2)
    # Predictions use them in every component.
    new = pd.DataFrame({"x": [0.0, 0.0], "price": [0.0, 1.0]})
    step = res.predict(new, "component").diff().iloc[1]
    assert_allclose(step, res.params["price"])


def test_willingness_to_pay_with_a_shared_price(res):
    found = res.wtp("price")
    for j in (1, 2):
        at = found.loc[(j, "x")]
        assert at["wtp"] == pytest.approx(-res.coefficients.loc["x", j] / res.params["price"])
        names = [f"x[{j}]", "price"]
        b, c = res.params[names]
        slope = np.array([-1 / c, b / c**2])
        cov = res.cov_params().loc[names, names].to_numpy()
        assert at["std err"] == pytest.approx(np.sqrt(slope @ cov @ slope))


# Which terms


def test_a_name_alone_is_a_list_of_one(data, res):
    assert fit(data, "price").llf == res.llf


def test_a_category_is_shared_by_the_name_of_its_term(data):
    formula = "y ~ x + price + region"
    whole = fit(data, ["region"], formula)
    assert whole.model.param_names[-3:-1] == ["region[T.south]", "region[T.west]"]
    assert whole.df_model == 2 * 4 + 2 + 1
    part = fit(data, ["region[T.south]"], formula)
    assert part.df_model == whole.df_model + 1
    assert part.llf >= whole.llf - 1e-6
    explicit = fit(data, ["region[T.south]", "region[T.west]"], formula)
    assert explicit.llf == whole.llf


def test_a_transformed_term_is_shared_by_its_text(data):
    res = fit(data, ["np.exp(price)", "x:price"], "y ~ x + np.exp(price) + x:price")
    assert res.model.param_names[-3:-1] == ["np.exp(price)", "x:price"]


def test_spaces_in_a_term_do_not_matter(data):
    res = fit(data, ["np.exp( price )"], "y ~ x + np.exp( price )")
    assert "np.exp(price)" in res.params.index


def test_a_shared_intercept():
    rng = np.random.default_rng(4)
    x = rng.standard_normal(400)
    label = 1 + (rng.random(400) < 0.4)
    y = 5 + np.where(label == 1, 2, -1) * x + 0.3 * rng.standard_normal(400)
    data = pd.DataFrame({"y": y, "x": x})
    res = fit(data, ["Intercept"], "y ~ x")
    assert res.params["Intercept"] == pytest.approx(5, abs=0.1)
    assert_allclose(res.coefficients.loc["x"], [2, -1], atol=0.15)
    assert_array_equal(res.coefficients.loc["Intercept"], [res.params["Intercept"]] * 2)
    # A shift of the response moves the intercept and nothing else.
    moved = fit(data.assign(y=1e4 + 100 * y), ["Intercept"], "y ~ x")
    assert moved.llf == pytest.approx(res.llf - 400 * np.log(100), abs=1e-5)
    assert moved.params["Intercept"] == pytest.approx(1e4 + 100 * res.params["Intercept"])


def test_all_slopes_shared_leaves_a_mixture_of_intercepts():
    rng = np.random.default_rng(5)
    x, price = rng.standard_normal((2, 300))
    label = 1 + (rng.random(300) < 0.4)
    y = np.where(label == 1, 2.0, -2.0) + x - 0.7 * price + 0.5 * rng.standard_normal(300)
    res = fit(pd.DataFrame({"y": y, "x": x, "price": price}), ["x", "price"])
    assert res.df_model == 2 * 2 + 2 + 1
    assert_allclose(res.coefficients.loc["Intercept"], [2, -2], atol=0.15)
    assert_allclose(res.params[["x", "price"]], [1, -0.7], atol=0.1)


@pytest.mark.parametrize("init", ["auto", "tensor", "random"])
def test_all_terms_shared_leaves_a_mixture_of_variances(init):
    rng = np.random.default_rng(6)
    x = rng.standard_normal(500)
    wide = rng.random(500) < 0.3
    y = 1 + 2 * x + np.where(wide, 3.0, 0.5) * rng.standard_normal(500)
    data = pd.DataFrame({"y": y, "x": x})
    model = MixReg.from_formula("y ~ x", data, k=2, shared=["Intercept", "x"])
    res = model.fit(init=init)
    assert res.df_model == 2 + 2 + 1
    assert_allclose(res.scale, [0.5, 3.0], rtol=0.15)
    assert res.weights[2] == pytest.approx(0.3, abs=0.07)
    # Rows with little noise speak louder than in least squares.
    assert res.bse["x"] < 0.7 * smf.ols("y ~ x", data).fit().bse["x"]
    text = res.summary().as_text()
    assert "All components (shared)" in text
    assert "Component 1  " in text


@pytest.mark.parametrize(
    "options", [{"family": "poisson", "formula": "count ~ x"}, {"equal_variance": True}], ids=str
)
def test_components_that_differ_in_nothing_are_refused(data, options):
    options = {"formula": "y ~ x", **options}
    with pytest.raises(InputError, match="shared"):
        fit(data, ["Intercept", "x"], **options)


def test_nothing_shared_is_the_free_model(data):
    assert fit(data, []).llf == fit(data, None).llf


def test_one_component_is_least_squares(data):
    res = fit(data, ["price"], k=1)
    ols = smf.ols("y ~ x + price", data).fit()
    assert_allclose(res.coefficients[1], ols.params, rtol=1e-8)
    assert res.llf == pytest.approx(ols.llf)
    assert res.params.index.to_list() == ["Intercept[1]", "x[1]", "log(sigma)[1]", "price"]
    scale = np.sqrt(ols.df_resid / ols.nobs)
    assert_allclose(res.bse[["x[1]", "price"]], ols.bse[["x", "price"]] * scale, rtol=1e-6)


def test_three_components(data):
    res = fit(data, ["price"], k=3)
    assert res.df_model == 3 * 3 + 1 + 2
    assert res.coefficients.loc["price"].nunique() == 1


def test_arrays_share_columns_by_name(data, res):
    exog = data[["x", "price"]].assign(const=1.0)
    named = MixReg(data["y"], exog, 2, shared=["price"]).fit()
    assert named.llf == pytest.approx(res.llf, abs=1e-8)
    numbered = MixReg(data["y"].to_numpy(), exog.to_numpy(), 2, shared=["x2"]).fit()
    assert numbered.params["x2"] == pytest.approx(res.params["price"], rel=1e-6)


@pytest.mark.parametrize("init", ["tensor", "random", "labels", "coefficients"])
def test_every_start_ends_at_the_same_fit(data, res, init):
    free = fit(data, None)
    given = {"labels": data["label"].to_numpy(), "coefficients": free.coefficients}
    model = MixReg.from_formula("y ~ x + price", data, k=2, shared=["price"])
    assert model.fit(init=given.get(init, init)).llf == pytest.approx(res.llf, abs=1e-6)


def test_hard_labels_share_terms_too(data):
    res = MixReg.from_formula("y ~ x + price", data, k=2, shared=["price"]).fit("altmin")
    assert res.coefficients.loc["price"].nunique() == 1
    assert res.params["price"] == pytest.approx(-0.7, abs=0.1)


def test_data_without_noise_are_fitted_exactly(data):
    own = np.where(data["label"] == 1, 1 + 2 * data["x"], -1 - data["x"])
    res = fit(data.assign(y=own + 0.5 * data["price"]), ["price"])
    assert res.solution.certified
    assert_allclose(res.coefficients, [[1, -1], [2, -1], [0.5, 0.5]], atol=1e-9)
    assert_array_equal(res.labels, data["label"])


@pytest.mark.parametrize("shared", [["prise"], ["x", "price[1]"], ["log(sigma)"]])
def test_a_term_that_is_not_in_the_formula(data, shared):
    with pytest.raises(InputError, match=r"shared names .* terms are Intercept, x, price"):
        fit(data, shared)


@pytest.mark.parametrize("shared", [1, True, [2]])
def test_what_is_not_a_name(data, shared):
    with pytest.raises(InputError, match="shared"):
        fit(data, shared)
