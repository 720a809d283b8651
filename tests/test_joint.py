"""Several responses that share one label: R's numbers, derivatives, planted truth, errors."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import binom, norm, poisson

from mixreg import InputWarning, MixReg, lr_test, select_k
from mixreg.errors import InputError, NotAvailableError
from mixreg.metrics import match_components
from mixreg.mixture.parameters import Parameters
from mixreg.search.chance import tight
from mixreg.search.tensor import TensorStart
from tests.reference.glm import glm_case

REF = glm_case("NPreg_joint_k2")
FORMULAS = [part.formula for part in REF.parts]
FAMILIES = [part.family for part in REF.parts]


@pytest.fixture(scope="module")
def npreg():
    return MixReg.from_formula(FORMULAS, REF.data(), k=2, family=FAMILIES)


@pytest.fixture(scope="module")
def fitted(npreg):
    return npreg.fit()


def mixed(n: int = 400, seed: int = 0, groups: int | None = None) -> pd.DataFrame:
    """A Gaussian, a count, successes out of 8 and a Gaussian whose unit is tiny; `z` is true."""
    rng = np.random.default_rng(seed)
    shop = np.arange(n) if groups is None else rng.integers(0, groups, n)
    z = (rng.random(shop.max() + 1) < 0.4)[shop].astype(int)
    x, u = rng.standard_normal((2, n))
    yes = rng.binomial(8, expit(np.array([0.5, -1])[z] + np.array([1.0, -0.5])[z] * x))
    return pd.DataFrame(
        {
            "a": 1000 + np.array([300.0, -100])[z] * x + 200 * rng.standard_normal(n),
            "c": rng.poisson(np.exp(np.array([1.0, 0.3])[z] + np.array([0.2, -0.4])[z] * u)),
            "yes": yes,
            "no": 8 - yes,
            "t": 1e-3 * (np.array([1.0, 2])[z] + np.array([0.5, -1])[z] * u)
            + 1e-3 * np.array([0.5, 1.0])[z] * rng.standard_normal(n),
            "x": x,
            "u": u,
            "shop": shop,
            "z": z + 1,
        }
    )


THREE = {
    "formula": ["a ~ x", "c ~ u", "yes + no ~ x"],
    "family": ["gaussian", "poisson", "binomial"],
}


# R's numbers


@pytest.mark.parametrize("seed", range(10))
def test_every_seed_reaches_flexmix(npreg, seed):
    assert npreg.fit(seed=seed).llf == pytest.approx(REF.llf, abs=1e-6)


def test_estimates_and_standard_errors_are_those_of_r(npreg, fitted):
    coef, bse = fitted.coefficients.to_numpy().T, fitted.bse.to_numpy()
    index = npreg.layout.coef_index()
    for part, response in zip(REF.parts, npreg.responses, strict=True):
        where = response.columns
        assert_allclose(coef[:, where], part.coefficients, rtol=1e-3, atol=1e-3)
        assert_allclose(bse[index[:, where]], part.se, rtol=0.02)
        assert_allclose(bse[index[:, where]], part.refit_se, rtol=0.02)
    assert_allclose(fitted.scale["sigma yn"], REF.parts[0].sigma, rtol=1e-4)
    scales = bse[npreg.layout.scale_index()[:, 0]]
    assert_allclose(scales, REF.parts[0].log_sigma_se, rtol=0.02)
    assert_allclose(scales, REF.parts[0].refit_log_sigma_se, rtol=0.02)
    assert bse[-1] == pytest.approx(REF.log_odds_se[0], rel=0.02)
    assert_allclose(fitted.weights, REF.weights, atol=1e-5)
    assert fitted.entropy == pytest.approx(REF.entropy, rel=1e-3)


def test_counts_are_those_of_the_data(fitted):
    data = REF.data()
    assert (fitted.nobs, fitted.ngroups, fitted.df_model) == (len(data), None, REF.df)
    assert fitted.bic == pytest.approx(-2 * REF.llf + REF.df * np.log(len(data)), abs=1e-3)
    assert fitted.posterior.index.equals(data.index)
    assert fitted.labels.index.equals(data.index)
    assert fitted.df_resid == len(data) - REF.df


def test_names(npreg):
    assert npreg.exog_names == [
        "yn: Intercept",
        "yn: x",
        "yn: I(x ** 2)",
        "yp: Intercept",
        "yp: x",
    ]
    assert npreg.param_names[5] == "log(sigma yn)[1]"
    assert npreg.param_names[-1] == "logit(weight)[2]"


# The likelihood


def by_hand(data: pd.DataFrame, res) -> np.ndarray:
    """Log densities of the rows under each component, by scipy, (n, k)."""
    b = res.coefficients
    one = np.ones(len(data))
    xs = {"a": np.column_stack([one, data["x"]]), "c": np.column_stack([one, data["u"]])}
    out = []
    for j in res.components:
        eta = {
            k: x @ b.loc[[f"{k}: Intercept", f"{k}: {v}"], j]
            for (k, x), v in zip(xs.items(), ["x", "u"], strict=True)
        }
        p = expit(xs["a"] @ b.loc[["yes + no: Intercept", "yes + no: x"], j])
        sigma = res.scale.loc[j, "sigma a"] if "sigma a" in res.scale else None
        out.append(
            norm.logpdf(data["a"], eta["a"], sigma)
            + poisson.logpmf(data["c"], np.exp(eta["c"]))
            + binom.logpmf(data["yes"], 8, p)
        )
    return np.array(out).T


@pytest.mark.parametrize("grouped", [False, True])
def test_log_likelihood_and_posterior_are_those_of_scipy(grouped):
    data = mixed(120, groups=30 if grouped else None)
    groups = {"groups": "shop"} if grouped else {}
    res = MixReg.from_formula(**THREE, data=data, k=2, **groups).fit(n_init=4)
    rows = by_hand(data, res)
    joint = pd.DataFrame(rows).groupby(data["shop"].to_numpy()).sum().to_numpy()
    joint = joint + np.log(res.weights.to_numpy())
    total = np.logaddexp.reduce(joint, axis=1)
    assert res.llf == pytest.approx(total.sum(), rel=1e-9)
    by_shop = np.exp(joint - total[:, None])
    shops = np.unique(data["shop"])
    assert_allclose(res.posterior, by_shop[np.searchsorted(shops, data["shop"])], atol=1e-9)
    assert res.n_units == len(shops)


MODELS = {
    "plain": {},
    "groups": {"groups": "shop"},
    "equal": {"equal_variance": True},
    "weights": {"weights": "w"},
    "gate": {"concomitant": "~ u"},
    "shared": {"shared": ["c: u", "a: Intercept"]},
    "only": {"only": {"a: x": [1], "c: u": [2]}},
    "noise": {"noise": True},
    "offset": {"exposure": {"c": "e"}, "offset": {"a": "u"}},
}


@pytest.mark.parametrize("name", MODELS)
def test_score_and_hessian_are_derivatives(name):
    rng = np.random.default_rng(1)
    data = mixed(60, groups=20 if name == "groups" else None).assign(
        a=lambda d: d["a"] / 100, e=rng.uniform(0.5, 2, 60), w=rng.integers(1, 4, 60)
    )
    formulas = [*THREE["formula"][:2], "yes + no ~ 1", "g ~ x"]
    data["g"] = rng.gamma(2.0, np.exp(0.3 * data["x"]))
    model = MixReg.from_formula(
        formulas,
        data,
        k=2,
        family=["gaussian", "negativebinomial", "binomial", "gamma"],
        link=[None, None, None, "log"],
        **MODELS[name],
    )
    at = 0.3 * rng.standard_normal(len(model.param_names))
    at[[i for i, n in enumerate(model.param_names) if "a: Intercept" in n]] += 10
    at[[i for i, n in enumerate(model.param_names) if n.startswith("log(sigma")]] += 1

    def slope(f, h):
        steps = h * np.eye(len(at))
        return np.array([(f(at + step) - f(at - step)) / (2 * h) for step in steps])

    score = model.score(at)
    assert_allclose(score, slope(model.loglike, 1e-5), rtol=1e-5, atol=1e-4)
    size = np.abs(model.hessian(at)).max()
    assert_allclose(model.hessian(at), slope(model.score, 1e-5), rtol=1e-5, atol=1e-7 * size)


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_a_maximum(name):
    rng = np.random.default_rng(2)
    data = mixed(300, groups=60 if name == "groups" else None).assign(
        e=rng.uniform(0.5, 2, 300), w=rng.integers(1, 4, 300)
    )
    model = MixReg.from_formula(**THREE, data=data, k=2, **MODELS[name])
    res = model.fit(n_init=4)
    assert model.loglike(res.params) == pytest.approx(res.llf, rel=1e-10)
    # In units of standard errors, which is what steps are measured in.
    assert np.abs(model.score(res.params) * res.bse).max() < 1e-2
    assert np.isfinite(res.bse).all()
    assert np.diff(res.history).min() > -1e-7
    assert str(res.summary())


# Planted truth


def truth_of(data: pd.DataFrame, res) -> float:
    """Share of rows with the right label, under the best numbering."""
    hit = (res.labels == data["z"]).mean()
    return max(hit, 1 - hit)


@pytest.mark.parametrize("seed", range(3))
def test_two_gaussians_in_different_units_are_recovered(seed):
    data = mixed(1500, seed)
    res = MixReg.from_formula(["a ~ x", "t ~ u"], data, k=2).fit()
    assert list(res.scale) == ["sigma a", "sigma t"]
    gap = res.coefficients - pd.DataFrame(
        {1: [1000, 300, 1e-3, 0.5e-3], 2: [1000, -100, 2e-3, -1e-3]}, res.coefficients.index
    )
    se = res.bse.filter(regex=": ").to_numpy().reshape(2, 4).T
    assert np.abs(gap / se).to_numpy().max() < 4
    assert_allclose(res.scale["sigma t"], [0.5e-3, 1e-3], rtol=0.1)
    assert_allclose(res.scale["sigma a"], [200, 200], rtol=0.1)
    assert truth_of(data, res) > 0.85


@pytest.mark.parametrize("seed", range(3))
def test_three_families_are_recovered(seed):
    data = mixed(1500, seed)
    res = MixReg.from_formula(**THREE, data=data, k=2).fit()
    truth = np.array([[1000, 300, 1.0, 0.2, 0.5, 1.0], [1000, -100, 0.3, -0.4, -1, -0.5]])
    assert_array_equal(match_components(res.coefficients.to_numpy().T, truth), [0, 1])
    se = res.bse.filter(regex=": ").to_numpy().reshape(2, 6)
    assert np.abs((res.coefficients.to_numpy().T - truth) / se).max() < 4.5
    assert truth_of(data, res) > 0.9


def test_a_unit_of_measurement_changes_nothing_else():
    data = mixed(300)
    one = MixReg.from_formula(["a ~ x", "c ~ u"], data, k=2, family=["gaussian", "poisson"]).fit()
    other = MixReg.from_formula(
        ["b ~ x", "c ~ u"],
        data.assign(b=1e-6 * data["a"]),
        k=2,
        family=["gaussian", "poisson"],
    ).fit()
    assert other.llf == pytest.approx(one.llf + 300 * np.log(1e6), rel=1e-9)
    assert_allclose(other.posterior, one.posterior, atol=1e-6)


def test_a_response_without_noise_does_no_harm():
    data = mixed(300).assign(y=lambda d: np.where(d["z"] == 1, 1 + d["x"], 2 - d["x"]))
    res = MixReg.from_formula(["y ~ x", "c ~ u"], data, k=2, family=["gaussian", "poisson"]).fit()
    assert res.converged
    assert truth_of(data, res) == 1.0
    assert_allclose(np.sort(res.coefficients.loc["y: x"]), [-1, 1], atol=1e-6)


def test_groups_and_known_labels():
    data = mixed(600, 3, groups=80).sample(frac=1.0, random_state=1)
    res = MixReg.from_formula(**THREE, data=data, k=2, groups="shop").fit()
    assert (res.nobs, res.ngroups) == (600, data["shop"].nunique())
    assert truth_of(data, res) == 1.0
    known = data["z"].where(np.arange(600) < 60).map({1: 2, 2: 1})
    by_shop = known.groupby(data["shop"]).max()
    named = MixReg.from_formula(
        **THREE, data=data, k=2, groups="shop", known_labels=by_shop.dropna().to_dict()
    ).fit()
    assert (named.labels == 3 - data["z"]).all()


def test_a_weight_of_two_counts_twice():
    data = mixed(200)
    model = {**THREE, "k": 2}
    twice = MixReg.from_formula(**model, data=pd.concat([data, data])).fit()
    heavy = MixReg.from_formula(**model, data=data, weights=np.full(200, 2)).fit()
    assert heavy.llf == pytest.approx(twice.llf, rel=1e-8)
    assert_allclose(heavy.bse, twice.bse, rtol=1e-4)
    assert heavy.bic == pytest.approx(twice.bic)


def test_one_component_is_separate_regressions():
    data = mixed(200)
    joint = MixReg.from_formula(**THREE, data=data, k=1).fit()
    pairs = zip(THREE["formula"], THREE["family"], strict=True)
    alone = [MixReg.from_formula(f, data, k=1, family=family).fit() for f, family in pairs]
    assert joint.llf == pytest.approx(sum(res.llf for res in alone), rel=1e-9)
    expected = np.concatenate([res.coefficients[1] for res in alone])
    assert_allclose(joint.coefficients[1], expected, rtol=1e-5, atol=1e-6)


def test_rows_with_a_missing_response_are_left_out():
    data = mixed(100)
    data.loc[3, "a"] = np.nan
    data.loc[7, "yes"] = np.nan
    data.loc[9, "u"] = -1.0
    formulas = ["a ~ x", "c ~ np.sqrt(u + 1)", "yes + no ~ x"]
    data["u"] = data["u"].abs()
    data.loc[9, "u"] = -5.0
    with pytest.warns(InputWarning, match="no value in some rows"):
        model = MixReg.from_formula(formulas, data, k=2, family=THREE["family"])
    assert_array_equal(np.setdiff1d(data.index, model.index), [3, 7, 9])
    assert model.nobs == 97


# What results say


def test_predictions_have_a_column_for_each_response(fitted):
    data = REF.data().iloc[:5]
    means = fitted.predict(data)
    assert list(means) == ["yn", "yp"]
    each = fitted.predict(data, "component")
    assert each.columns.names == ["response", "component"]
    b = fitted.coefficients
    expected = np.exp(b.loc["yp: Intercept", 2] + b.loc["yp: x", 2] * data["x"])
    assert_allclose(each["yp", 2], expected)
    assert_allclose(means["yp"], each["yp"] @ fitted.weights)
    assert_allclose(fitted.predict().iloc[:5], means)


def test_posteriors_use_the_responses_that_are_there(fitted):
    data = REF.data()
    assert_allclose(fitted.predict(data, "posterior"), fitted.posterior, atol=1e-12)
    some = data.iloc[:3].copy()
    some.loc[some.index[0], "yn"] = np.nan
    some.loc[some.index[1], ["yn", "yp"]] = np.nan
    found = fitted.predict(some, "posterior")
    b, x, y = fitted.coefficients, some["x"].iloc[0], some["yp"].iloc[0]
    rate = np.exp(b.loc["yp: Intercept"] + b.loc["yp: x"] * x)
    odds = fitted.weights.to_numpy() * poisson.pmf(y, rate)
    assert_allclose(found.iloc[0], odds / odds.sum())
    assert_allclose(found.iloc[1], fitted.weights)
    assert_allclose(found.iloc[2], fitted.posterior.iloc[2])
    only = fitted.predict(data[["x", "yp"]].iloc[:1], "posterior")
    assert_allclose(only.iloc[0], found.iloc[0])
    assert_array_equal(fitted.assign(data)["component"], fitted.labels)


def test_groups_of_new_rows_share_a_posterior():
    data = mixed(300, 3, groups=60)
    res = MixReg.from_formula(**THREE, data=data, k=2, groups="shop").fit()
    order = np.random.default_rng(0).permutation(300)
    new = data.iloc[order].assign(shop=lambda d: d["shop"] + 1000)
    found = res.predict(new, "posterior")
    assert_allclose(found, res.posterior.iloc[order], atol=1e-10)


def test_simulated_responses_lead_back():
    data = mixed(1500)
    res = MixReg.from_formula(["a ~ x", "c ~ u"], data, k=2, family=["gaussian", "poisson"]).fit()
    drawn = res.simulate(1)
    assert list(drawn) == ["a", "c", "component"]
    again = MixReg.from_formula(
        ["a ~ x", "c ~ u"], data.assign(**drawn[["a", "c"]]), k=2, family=["gaussian", "poisson"]
    ).fit()
    assert np.abs((again.params - res.params) / again.bse).max() < 4.5


def test_reports(fitted):
    text = str(fitted.summary())
    for part in ("gaussian, poisson", "identity, log", "yn, yp", "sigma yn", "yp: x"):
        assert part in text
    page = str(fitted.diagnostics)
    assert "2 responses" in page
    assert "nan" not in page
    assert "tensor" not in page
    assert "yp: x" in fitted.segments()
    assert fitted.classification().table.shape == (2, 2)
    assert "yb" in fitted.profile(REF.data()[["yb"]]).tests.index
    assert fitted.posterior_draws(10).shape == (10, REF.df)


ALONE = {
    "importance": lambda res: res.importance(),
    "wtp": lambda res: res.wtp("yn: x"),
    "predictive_draws": lambda res: res.predictive_draws(),
    "to_arviz": lambda res: res.to_arviz(),
    "to_pymc": lambda res: res.model.to_pymc(),
    "initial_point": lambda res: res.initial_point(),
}


@pytest.mark.parametrize("name", ALONE)
def test_what_is_for_one_response_says_so(fitted, name):
    with pytest.raises(NotAvailableError, match=f"{name} is for models of one response"):
        ALONE[name](fitted)


def test_refits(fitted):
    options = {"n_jobs": 1, "seed": 1}
    for kind in ("parametric", "case"):
        draws = fitted.bootstrap(20, kind, **options).draws
        assert_allclose(draws.std(), fitted.bse, rtol=0.5)
    chosen = select_k(FORMULAS, REF.data(), k=[1, 2, 3], family=FAMILIES, n_jobs=1, n_init=4)
    assert chosen.best.k == 2
    assert chosen.best.llf == pytest.approx(fitted.llf, abs=1e-6)
    test = lr_test(chosen.results[1], chosen.results[2], n=9, n_init=2, n_jobs=1)
    assert test.p_value == pytest.approx(0.1)


def test_elasticities_belong_to_their_response():
    data = mixed(200).assign(v=lambda d: np.exp(d["u"]))
    res = MixReg.from_formula(
        ["a ~ np.log(v)", "c ~ np.log(v)"], data, k=2, family=["gaussian", "poisson"]
    ).fit(n_init=4)
    columns = [c for c in res.segments() if c.startswith("elasticity")]
    assert columns == ["elasticity of c: v"]


def test_other_fits(npreg, fitted):
    hard = npreg.fit(method="altmin")
    assert (hard.labels == fitted.labels).mean() > 0.95
    assert hard.llf < fitted.llf
    from_labels = npreg.fit(init=fitted.labels.to_numpy())
    from_table = npreg.fit(init=fitted.coefficients)
    for res in (from_labels, from_table, npreg.fit(init="random", seed=1)):
        assert res.llf == pytest.approx(fitted.llf, abs=1e-6)
        assert "tensor" not in str(res.diagnostics)
    clusters = np.arange(200) // 2
    for kind in ({"cov_type": "robust"}, {"cov_type": "cluster", "cov_kwds": {"groups": clusters}}):
        assert np.isfinite(npreg.fit(init=fitted.labels.to_numpy(), **kind).bse).all()


# What is refused


BAD = {
    "a list too short": ({"family": ["gaussian"]}, "family has 1 entries"),
    "links": ({"link": ["identity"]}, "link has 1 entries"),
    "choice": ({"family": ["gaussian", "choice"]}, "no place in a list"),
    "choice set": ({"choice_set": "x"}, "no place in a list"),
    "an offset for all": ({"offset": "x"}, "offset must be a dict by response"),
    "exposure of nobody": ({"exposure": {"q": "x"}}, "exposure must be a dict by response"),
    "exposure of a line": ({"exposure": {"a": "e"}}, "exposure needs a log link"),
    "a plain term": ({"shared": ["x"]}, "terms are a: Intercept, a: x, c: Intercept, c: u"),
    "negative counts": ({"formula": ["c ~ x", "a ~ x"]}, "allows counts"),
    "twice": ({"formula": ["a ~ x", "a ~ u"], "family": "gaussian"}, "responses must differ"),
    "too many": ({"k": 1000}, "k=1000 is more than"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors(name):
    changes, match = BAD[name]
    data = mixed(50).assign(e=1.0, a=lambda d: d["a"] - 1000)
    given = {"formula": ["a ~ x", "c ~ u"], "family": ["gaussian", "poisson"], "k": 2, **changes}
    with pytest.raises(InputError, match=match):
        MixReg.from_formula(data=data, **given)


@pytest.mark.parametrize("init", ["tensor", TensorStart()])
def test_there_is_no_tensor_start(npreg, init):
    with pytest.raises(InputError, match="tensor start is for one response"):
        npreg.fit(init=init)


def test_one_formula_in_a_list_is_one_formula():
    data = mixed(100)
    alone = MixReg.from_formula("a ~ x", data, k=2)
    listed = MixReg.from_formula(["a ~ x"], data, k=2, family=["gaussian"])
    assert listed.param_names == alone.param_names
    assert listed.fit().llf == alone.fit().llf


def test_responses_lie_side_by_side():
    model = MixReg.from_formula(**THREE, data=mixed(20), k=2, groups=np.arange(20) // 2)
    block = model.source.as_block()
    assert (block.x.shape, block.y.shape, block.units) == ((20, 6), (20, 3), 10)
    for i, (at, own) in enumerate(block.responses()):
        assert_array_equal(own.x, block.x[:, at])
        assert_array_equal(own.y, block.y[:, i])
    standard = model.whitening.standard_block(block)
    assert_allclose(standard.x, block.x @ model.whitening.basis, atol=1e-12)


@pytest.mark.parametrize("shared", [[], ["a: x", "c: Intercept"]])
def test_sums_of_each_response_are_those_of_a_stacked_design(shared):
    model = MixReg.from_formula(**THREE, data=mixed(40), k=2, shared=shared)
    block = model.source.standard(model.whitening).as_block()
    params = model.whitening.start(2).stacked()
    resp = np.random.default_rng(0).dirichlet([1, 1], 40).T[:, None]
    family = model.family
    state = family.evaluate(block, params)
    sums = family.statistics(block, params, state, resp)
    xx, xe = np.zeros((2, 6, 6)), np.zeros((2, 6))
    for part in state:
        x = np.zeros((40, 6))
        x[:, part.at] = part.block.x
        rows = part.state
        xx += np.einsum("np,kn,nq->kpq", x, (resp * part.family.weight(rows))[:, 0], x)
        xe += (resp * part.family.score(rows))[:, 0] @ x
    assert_allclose(sums.xx[:, 0], xx, atol=1e-10)
    assert_allclose(sums.xe[:, 0], xe, atol=1e-10)


@pytest.mark.parametrize("gone", range(4))
def test_a_response_that_no_row_has_says_nothing(gone):
    data = mixed(60).assign(g=lambda d: np.exp(d["u"]))
    names = ["a", "c", "yes", "g"]
    families = ["gaussian", "negativebinomial", "binomial", "gamma"]
    res = MixReg.from_formula(
        ["a ~ x", "c ~ u", "yes + no ~ x", "g ~ x"], data, k=2, family=families
    ).fit(n_init=2)
    one = res.predict(data.iloc[:1].assign(**{names[gone]: np.nan}), "posterior")
    several = res.predict(data.iloc[:2].assign(**{names[gone]: [np.nan, 1.0]}), "posterior")
    assert_allclose(one.iloc[0], several.iloc[0])
    assert_allclose(one.sum(axis=1), 1)


@pytest.mark.parametrize("seed", range(3))
def test_chance_lines_of_several_responses_are_told_or_passed_over(seed):
    # Nothing but noise: what two or three rows fit exactly in both responses is no segment.
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.standard_normal((60, 4)), columns=["a", "b", "x", "z"])
    res = MixReg.from_formula(["a ~ x", "b ~ z"], data, k=3).fit()
    small = [j for j, rows in enumerate(res.fitted.tally.rows) if rows <= 3]
    assert set(small) <= set(res.fitted.suspects) | set(res.fitted.empty)


def test_only_responses_that_collapse_make_a_component_tight():
    dispersion = np.array([[[1.0, 1e-6]], [[1.0, 1.0]]])
    params = Parameters(np.zeros((2, 1, 3)), dispersion, np.zeros((2, 1, 1)))
    assert tight(params, (True, True))[:, 0].tolist() == [True, False]
    assert not tight(params, (True, False)).any()
