"""Frames of a fit: against statsmodels, by finite differences, and for every kind of model."""

from dataclasses import fields, is_dataclass

import marginaleffects as marginal
import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import mixreg
from mixreg import InputError, InputWarning, MixReg, NotAvailableError, compare, datasets
from mixreg.families import Family
from mixreg.families.distribution import Distribution
from mixreg.report.marginal_model import predicted
from mixreg.report.row_facts import read_rows

N = 240
CHOICE = {"family": "choice", "choice_set": "task", "groups": "id"}
MODELS = {
    "gaussian": ("y ~ x + np.log(w) + g", {}),
    "weights": ("y ~ x + g", {"weights": "n"}),
    "groups": ("y ~ x + w", {"groups": "id"}),
    "concomitant": ("y ~ x + w", {"concomitant": "~ w + age"}),
    "grouped concomitant": ("y ~ x", {"groups": "id", "concomitant": "~ height"}),
    "shared": ("y ~ x + w", {"shared": ["w"]}),
    "equal": ("y ~ x", {"equal_variance": True}),
    "noise": ("y ~ x", {"noise": True, "concomitant": "~ age"}),
    "offset": ("y ~ x", {"offset": "w"}),
    "poisson": ("count ~ x + C(g)", {"family": "poisson", "exposure": "w"}),
    "negative binomial": ("count ~ x", {"family": "negativebinomial"}),
    "binomial": ("yes + no ~ x + w", {"family": "binomial"}),
    "gamma": ("size ~ x", {"family": "gamma", "link": "log"}),
    "several": (["y ~ x", "count ~ w"], {"family": ["gaussian", "poisson"]}),
}


def table(n: int = N, seed: int = 3) -> pd.DataFrame:
    """Two segments, of which every response tells."""
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({"x": rng.normal(size=n), "w": rng.uniform(0.5, 3, n)})
    d["g"] = rng.choice(list("abc"), n)
    d["id"] = np.repeat(np.arange(n // 4), 4)
    d["age"] = rng.normal(size=n)
    d["height"] = rng.normal(size=n // 4)[d["id"]]
    d["n"] = rng.integers(1, 4, n)
    first = (rng.random(n // 4) < 0.55)[d["id"]]
    d["y"] = np.where(first, 1 + 2 * d.x, -1 - d.x + 0.5 * d.w) + 0.4 * rng.normal(size=n)
    d["count"] = rng.poisson(np.exp(np.where(first, 1 + 0.7 * d.x, 0.3 * d.x)))
    trials = rng.integers(4, 12, n)
    d["yes"] = rng.binomial(trials, 1 / (1 + np.exp(np.where(first, -1 - d.x, 1 + d.x))))
    d["no"] = trials - d["yes"]
    d["size"] = rng.gamma(4, np.exp(np.where(first, 1 + 0.4 * d.x, -0.5 * d.x)) / 4)
    return d.set_index(np.arange(100, 100 + n))


DATA = table()


@pytest.fixture(scope="module")
def fits():
    made = {}
    for name, (formula, options) in MODELS.items():
        made[name] = MixReg.from_formula(formula, DATA, k=2, **options).fit()
    return made


@pytest.fixture(scope="module")
def cameras():
    data = datasets.camera().query("id <= 60").reset_index(drop=True)
    return data, MixReg.from_formula("chosen ~ canon + zoom + price", data, k=2, **CHOICE).fit()


# One component: statsmodels


def test_one_linear_component_is_least_squares():
    res = MixReg.from_formula("y ~ x + w + g", DATA, k=1).fit()
    ols = smf.ols("y ~ x + w + g", DATA).fit()
    assert_allclose(res.fittedvalues, ols.fittedvalues, rtol=1e-9, atol=1e-9)
    assert_allclose(res.resid, ols.resid, atol=1e-9)
    share = np.sqrt(ols.df_resid / ols.nobs)  # statsmodels' sigma has n - p below it
    assert_allclose(res.residuals("pearson") * share, ols.resid_pearson, rtol=1e-8, atol=1e-10)
    assert_allclose(res.residuals("quantile") * share, ols.resid_pearson, rtol=1e-8, atol=1e-10)
    ours, theirs = (f.get_prediction(DATA.head(9)).summary_frame() for f in (res, ols))
    assert_allclose(ours["mean"], theirs["mean"], rtol=1e-9)
    assert_allclose(ours["mean_se"], theirs["mean_se"] * share, rtol=1e-8)
    assert ours.index.equals(DATA.index[:9])


@pytest.mark.parametrize(
    ("formula", "family", "theirs"),
    [
        ("count ~ x + w", "poisson", sm.families.Poisson()),
        ("yes + no ~ x + w", "binomial", sm.families.Binomial()),
    ],
)
def test_one_glm_component_is_statsmodels(formula, family, theirs):
    res = MixReg.from_formula(formula, DATA, k=1, family=family).fit()
    glm = smf.glm(formula, DATA, family=theirs).fit(tol=1e-13, maxiter=100)
    assert_allclose(res.fittedvalues, glm.fittedvalues, rtol=1e-8)
    trials = DATA.yes + DATA.no if family == "binomial" else 1  # statsmodels' are of counts
    assert_allclose(res.resid * trials, glm.resid_response, atol=1e-8)
    assert_allclose(res.residuals("pearson"), glm.resid_pearson, rtol=1e-7, atol=1e-9)
    ours, other = (f.get_prediction(DATA.head(9)).summary_frame(alpha=0.1) for f in (res, glm))
    for column in ("mean", "mean_se", "mean_ci_lower", "mean_ci_upper"):
        assert_allclose(ours[column], other[column], rtol=1e-6)


@pytest.mark.parametrize("at", ["overall", "mean"])
@pytest.mark.parametrize(("y", "make"), [("count", smf.poisson), ("up", smf.logit)])
def test_margins_of_one_component_are_statsmodels(at, y, make):
    data = DATA.assign(up=(DATA.x + DATA.w + DATA.age > 2).astype(float))
    family = "poisson" if y == "count" else "binomial"
    res = MixReg.from_formula(f"{y} ~ x + w", data, k=1, family=family).fit()
    found = make(f"{y} ~ x + w", data).fit(disp=0, tol=1e-12).get_margeff(at=at)
    for ours in (res.margins(at=at), res.margins(data, at=at)):
        own = ours[ours.component == 1].set_index("variable").loc[["x", "w"]]
        assert_allclose(own.estimate, found.margeff, rtol=1e-7)
        assert_allclose(own.std_error, found.margeff_se, rtol=1e-6)


def test_margins_of_an_ols_with_transforms_by_hand():
    res = MixReg.from_formula("y ~ x + np.log(w) + I(x**2)", DATA, k=1).fit()
    b = res.coefficients[1]
    found = res.margins(DATA).query("component == 1").set_index("variable")["estimate"]
    assert_allclose(found["w"], b["np.log(w)"] * np.mean(1 / DATA.w), rtol=1e-8)
    assert_allclose(found["x"], b["x"] + 2 * b["I(x ** 2)"] * DATA.x.mean(), rtol=1e-8)


# Delta method: finite differences


def numeric_errors(res, values):
    """Standard errors of functions of the flat vector, by central differences."""
    vector, cov = res.params.to_numpy(), res.cov_params().to_numpy()
    cov = np.where(np.isinf(cov), 0.0, cov)  # of noise that has no rows
    columns = []
    for i, value in enumerate(vector):
        h = 1e-5 * (1 + abs(value))
        step = h * (np.arange(len(vector)) == i)
        columns.append((values(vector + step) - values(vector - step)) / (2 * h))
    gradient = np.array(columns).T
    return np.sqrt(np.einsum("ns,st,nt->n", gradient, cov, gradient))


@pytest.mark.parametrize("which", ["mean", "component"])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "several"])
def test_errors_of_predictions(fits, name, which):
    res, some = fits[name], DATA.head(16)
    rows = read_rows(res, some, {}, "mean")
    frame = res.get_prediction(some, which).summary_frame()
    assert_allclose(frame["mean"], predicted(res, rows, res.params.to_numpy(), which).ravel())
    expected = numeric_errors(res, lambda v: predicted(res, rows, v, which).ravel())
    assert_allclose(frame["mean_se"], expected, rtol=1e-5)
    assert (frame["mean_ci_lower"] < frame["mean"]).all()
    assert (frame["mean"] < frame["mean_ci_upper"]).all()
    ours = res.predict(some, which)
    assert_allclose(frame["mean"], ours if which == "mean" else ours.to_numpy().T.ravel())


@pytest.mark.parametrize("which", ["mean", "component"])
def test_errors_of_shares(cameras, which):
    data, res = cameras
    rows = read_rows(res, data.head(10), {}, "mean")
    frame = res.get_prediction(data.head(10), which).summary_frame()
    expected = numeric_errors(res, lambda v: predicted(res, rows, v, which).ravel())
    assert_allclose(frame["mean_se"], expected, rtol=1e-5)
    assert frame["mean_ci_lower"].min() > 0
    assert frame["mean_ci_upper"].max() < 1


def moved(data, variable, step):
    return data.assign(**{variable: data[variable] + step})


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("gaussian", "w"),
        ("concomitant", "w"),
        ("concomitant", "age"),
        ("noise", "age"),
        ("poisson", "x"),
        ("binomial", "w"),
        ("gamma", "x"),
        ("negative binomial", "x"),
        ("grouped concomitant", "height"),
    ],
)
def test_margins_are_derivatives_of_predictions(fits, name, variable):
    res, h = fits[name], 1e-4

    def overall(vector):
        both = [
            predicted(res, read_rows(res, moved(DATA, variable, s), {}, "mean"), vector, "mean")
            for s in (h, -h)
        ]
        return ((both[0] - both[1]) / (2 * h)).mean(axis=1)

    found = res.margins(DATA, variables=variable)
    total = found[found.component == "overall"].iloc[0]
    assert_allclose(total.estimate, overall(res.params.to_numpy())[0], rtol=1e-5, atol=1e-8)
    assert_allclose(total.std_error, numeric_errors(res, overall)[0], rtol=1e-4)
    means = [res.predict(moved(DATA, variable, s), "component").mean() for s in (h, -h)]
    own = found[found.component != "overall"].estimate
    assert_allclose(own, (means[0] - means[1]) / (2 * h), rtol=1e-5, atol=1e-8)


def test_margins_of_categories_and_weights(fits):
    res = fits["poisson"]
    found = res.margins(DATA, variables="g").query("contrast == 'b - a'")
    gap = [res.predict(DATA.assign(g=level), "component").mean() for level in "ba"]
    assert_allclose(found.estimate.iloc[:2], (gap[0] - gap[1]), rtol=1e-9)
    weighted = fits["weights"]
    own, given = weighted.margins(), weighted.margins(DATA)
    assert_allclose(own.estimate, given.estimate, rtol=1e-9)
    assert_allclose(own.std_error, given.std_error, rtol=1e-9)


def test_margins_of_shares(cameras):
    data, res = cameras
    h, found = 1e-5, res.margins(data, variables="price")
    effects = []
    for row in range(30):
        # Only this alternative's price changes.
        shifted = [data.head(30).copy() for _ in range(2)]
        for table, step in zip(shifted, (h, -h), strict=True):
            table["price"] = table["price"].astype(float)
            table.iloc[row, table.columns.get_loc("price")] += step
        up, down = (res.predict(t, "component").iloc[row] for t in shifted)
        effects.append((up - down) / (2 * h))
    some = res.margins(data.head(30), variables="price")
    assert_allclose(some.estimate.iloc[:2], np.mean(effects, axis=0), rtol=1e-5)
    assert (found.std_error > 0).all()
    with pytest.raises(NotAvailableError, match="at='overall'"):
        res.margins(data, at="mean")


def test_margins_say_what_they_need(fits):
    with pytest.raises(NotAvailableError, match=r"res\.margins\(data\)"):
        fits["gaussian"].margins()
    with pytest.raises(InputError, match="variables='q'"):
        fits["groups"].margins(variables="q")
    with pytest.raises(InputError, match="at='median'"):
        fits["groups"].margins(at="median")


def test_margins_without_a_formula():
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(200), rng.normal(size=(200, 2))])
    y = x @ [1.0, 2.0, -1.0] + rng.normal(size=200)
    res = MixReg(y, x, k=1).fit()
    found = res.margins()
    assert_allclose(found.query("component == 1").estimate, res.coefficients[1].iloc[1:], rtol=1e-8)


def test_marginaleffects_takes_a_fit(fits):
    res = fits["concomitant"]
    model = res.to_marginaleffects(DATA, "mean")
    theirs = marginal.avg_slopes(model, variables=["x", "w", "age"])
    ours = res.margins(DATA).query("component == 'overall'").set_index("variable")
    for row in theirs.data.iter_rows(named=True):
        assert_allclose(row["estimate"], ours.loc[row["term"], "estimate"], rtol=1e-3, atol=1e-5)
        assert_allclose(row["std_error"], ours.loc[row["term"], "std_error"], rtol=1e-2, atol=1e-5)


# Tables


@pytest.mark.parametrize("name", MODELS)
def test_tidy_has_every_parameter_once(fits, name):
    res = fits[name]
    full = res.tidy(what="all")
    assert len(full) == len(res.params)
    assert_allclose(np.sort(full.estimate), np.sort(res.params))
    assert_allclose(np.sort(full.std_error), np.sort(res.bse))
    coefs = res.tidy(conf_level=0.9)
    for row in coefs.itertuples():
        end = "" if pd.isna(row.component) else f"[{row.component}]"
        assert row.estimate == res.params[f"{row.term}{end}"]
        low, high = res.conf_int(0.1).loc[f"{row.term}{end}"]
        assert (row.conf_low, row.conf_high) == (pytest.approx(low), pytest.approx(high))
    ratios = res.tidy(exponentiate=True, conf_level=0.9)
    assert_allclose(ratios.conf_high, np.exp(coefs.conf_high))
    assert_allclose(ratios.std_error, coefs.std_error)


def test_tidy_marks_shared_terms_and_responses(fits):
    shared = fits["shared"].tidy()
    assert shared[shared.component.isna()].term.tolist() == ["w"]
    several = fits["several"].tidy()
    assert set(several.response) == {"y", "count"}
    with pytest.raises(InputError, match="conf_level"):
        fits["shared"].tidy(conf_level=95)


@pytest.mark.parametrize("name", MODELS)
def test_augment_own_rows_and_given_ones_agree(fits, name):
    res = fits[name]
    own, given = res.augment(), res.augment(DATA)
    assert given.index.equals(DATA.index)
    assert len(res.glance()) == 1
    assert_allclose(given[f"p{res.k}"], res.posterior[res.k], atol=1e-7)
    assert (own.component == res.labels).all()
    assert (given.component == res.labels).all()
    ends = [""] if len(res.spec.responses) == 1 else [" y", " count"]
    for end in ends:
        assert_allclose(own[f"fitted{end}"], given[f"fitted{end}"], rtol=1e-9)
        assert_allclose(own[f"residual{end}"], given[f"residual{end}"], atol=1e-8)
    assert_allclose(np.asarray(res.fittedvalues), np.asarray(res.predict()), rtol=1e-9)


def test_augment_keeps_missing_rows_and_taken_names(fits):
    data = DATA.assign(fitted=1).astype({"x": float})
    data.iloc[3, data.columns.get_loc("x")] = np.nan
    found = fits["groups"].augment(data)
    assert pd.isna(found["component"].iloc[3])
    assert (found["fitted"] == 1).all()
    assert np.isnan(found["fitted_fit"].iloc[3])


@pytest.mark.parametrize("name", MODELS)
def test_quantile_residuals_are_normal(fits, name):
    res = fits[name]
    kinds = [res.residuals(kind) for kind in ("response", "pearson", "quantile")]
    assert all(np.isfinite(np.asarray(kind)).all() for kind in kinds)
    quantile = np.asarray(kinds[2]).reshape(N, -1)[:, 0]
    assert stats.kstest(quantile, "norm").pvalue > 1e-3
    by = res.residuals("quantile", by="component", seed=1)
    assert by.shape == (N, 2 * len(res.spec.responses))


def test_residuals_of_choices(cameras):
    data, res = cameras
    share = res.predict()
    assert_allclose(res.resid, data.chosen - share)
    assert_allclose(res.residuals("pearson").abs().max(), 9, atol=9)
    with pytest.raises(InputError, match="kind='deviance'"):
        res.residuals("deviance")


class OwnMean(Family):
    """A family that knows its mean only."""

    name = "own mean"

    def mean(self, eta):
        return np.sinh(eta)


def test_families_of_ones_own_have_numeric_slopes_and_say_what_they_lack():
    eta, family = np.linspace(-3, 3, 50), OwnMean()
    assert_allclose(family.mean_slope(eta), np.cosh(eta), rtol=1e-9)
    assert_allclose(family.mean_curve(eta), np.sinh(eta), rtol=1e-6, atol=1e-8)
    with pytest.raises(InputError, match="`tails` of the family 'own mean'"):
        family.tails(None)


@pytest.mark.parametrize("name", [*MODELS])
def test_slopes_of_means_are_derivatives(fits, name):
    eta = np.linspace(-1.5, 1.5, 40)
    for family in fits[name].spec.family.parts:
        assert_allclose(family.mean_slope(eta), Distribution.mean_slope(family, eta), rtol=1e-8)
        numeric = Distribution.mean_curve(family, eta)
        assert_allclose(family.mean_curve(eta), numeric, rtol=1e-5, atol=1e-7)


# Known customers


def test_known_customers_are_predicted_by_their_posterior(fits):
    res = fits["groups"]
    found = res.predict(DATA, known=True)
    posterior = res.group_posterior.loc[DATA["id"]].to_numpy()
    expected = (posterior * res.predict(DATA, "component").to_numpy()).sum(axis=1)
    assert_allclose(found, expected)
    assert_allclose(res.predict(known=True), expected)
    assert_allclose(res.predict(DATA, known=res.group_posterior), expected)
    assert_allclose(res.predict(DATA, known=DATA), expected, rtol=1e-6)
    strangers = DATA.assign(id=DATA["id"] + 10_000)
    assert_allclose(res.predict(strangers, known=True), res.predict(DATA))
    assert np.mean((DATA.y - found) ** 2) < np.mean(res.resid**2)


def test_known_says_what_it_needs(fits):
    with pytest.raises(InputError, match="known=True needs customers"):
        fits["gaussian"].predict(DATA, known=True)
    with pytest.raises(InputError, match="which='mean'"):
        fits["groups"].predict(DATA, "component", known=True)
    with pytest.raises(InputError, match="earlier responses"):
        fits["groups"].predict(DATA, known=DATA.drop(columns="y"))


def misleading_row(res):
    """A row of a known group that alone speaks for another component than the group."""
    alone = res.predict(DATA, "label", groups=np.arange(len(DATA)) + 10_000).to_numpy()
    return DATA.iloc[[np.flatnonzero(alone != res.labels.to_numpy())[0]]]


def test_new_rows_of_known_groups_are_scored_alone_and_that_is_told(fits):
    res = fits["groups"]
    row = misleading_row(res)
    with pytest.warns(InputWarning, match=r"1 of the groups that the fit knows.*known=True"):
        found = res.assign(row)
    own = res.group_labels.loc[row["id"].iloc[0]]
    assert found["component"].iloc[0] != own
    kept = res.assign(row, known=True)
    assert_allclose(kept[["p1", "p2"]], res.group_posterior.loc[row["id"]])
    assert kept["component"].iloc[0] == own
    assert_array_equal(res.assign(row.drop(columns="y"))["component"], own)
    # All rows of the fit are scored as there, without a warning.
    assert_array_equal(res.assign(DATA)["component"], res.labels)


def test_rows_of_which_nothing_is_known_are_not_placed(fits):
    res, blind = fits["groups"], DATA.drop(columns="y")
    nothing = r"no response \(y\), so nothing tells their segments apart"
    strangers = blind.assign(id=blind["id"] + 10_000)
    for new in (strangers, strangers.assign(y=np.nan), blind.iloc[[0]].assign(id=-1)):
        with pytest.raises(InputError, match=nothing):
            res.assign(new)
        with pytest.raises(InputError, match=nothing):
            res.assign(new, known=True)
    with pytest.raises(InputError, match=nothing):
        fits["gaussian"].assign(blind)
    # Groups of the fit, known customers, concomitants, and a single segment say enough.
    assert_array_equal(res.assign(blind)["component"], res.labels)
    known = res.group_posterior.set_axis(res.known_groups + 10_000)
    assert_allclose(res.assign(strangers, known=known)["p1"], res.along_rows(res.unit_posterior)[0])
    gated = MixReg.from_formula("y ~ x", DATA, k=2, concomitant="~ x").fit(n_init=1)
    assert gated.assign(blind)["component"].nunique() == 2
    with pytest.raises(InputError, match=nothing):
        gated.assign(blind, concomitant="average")
    one = MixReg.from_formula("y ~ x", DATA, k=1).fit()
    assert one.assign(blind)["component"].eq(1).all()


def test_known_posteriors_go_to_known_groups_only(fits):
    res = fits["groups"]
    some = DATA.assign(id=np.where(DATA["id"] % 2 == 0, DATA["id"], DATA["id"] + 10_000))
    some.loc[some.index[0], "x"] = np.nan
    other = pd.DataFrame([[0.25, 0.75]], [DATA["id"].iloc[-1]], [1, 2])
    found = res.assign(some, known=True)
    assert found.iloc[0].isna().all()
    assert_allclose(found.iloc[1:, 1:], res.assign(some).iloc[1:, 1:], atol=1e-8)
    told = res.assign(DATA, known=other)["p1"]
    assert_allclose(told[DATA["id"] == DATA["id"].iloc[-1]], 0.25)
    with pytest.raises(InputError, match="known=True needs customers"):
        fits["gaussian"].assign(DATA, known=True)


@pytest.mark.parametrize("method", ["predict", "assign", "get_prediction", "margins", "augment"])
def test_names_that_nobody_reads_are_refused(fits, method):
    res = fits["groups"]
    with pytest.raises(InputError, match=r"does not know foo; columns .* are groups, offset"):
        getattr(res, method)(DATA, foo=1)
    if method != "assign":
        with pytest.raises(InputError, match="offset= goes with new rows"):
            getattr(res, method)(offset=1.0)


@pytest.mark.parametrize("method", ["get_prediction", "margins", "augment"])
def test_known_customers_have_means_and_no_errors(fits, method):
    with pytest.raises(NotAvailableError, match=f"{method} does not take known=.*predict"):
        getattr(fits["groups"], method)(DATA, known=True)


def test_columns_of_other_libraries_go_beside_new_rows(fits):
    res, rows = fits["offset"], DATA.drop(columns="w")
    found = res.get_prediction(rows, offset=pl.Series(DATA["w"].to_numpy()))
    assert_allclose(found.predicted_mean, res.predict(DATA))


# The same fit, told otherwise


@pytest.mark.parametrize("name", MODELS)
def test_relabel_changes_numbers_and_nothing_else(fits, name, tmp_path):
    res = fits[name]
    other = res.relabel([2, 1])
    assert_allclose(other.model.loglike(other.params), res.llf, rtol=1e-10)
    assert_allclose(other.posterior[1], res.posterior[2], atol=1e-9)
    assert_allclose(other.coefficients[1], res.coefficients[2])
    assert_allclose(other.weights.iloc[:2], res.weights.iloc[[1, 0]])
    back = other.relabel([2, 1])
    assert_allclose(back.params, res.params)
    assert_allclose(back.cov_params(), res.cov_params(), atol=1e-12)
    assert_allclose(other.with_cov("oim").bse, other.bse, rtol=1e-6)
    assert_allclose(other.segments()["size"].iloc[:2], res.segments()["size"].iloc[[1, 0]])
    some = DATA.head(5)
    ours, theirs = (r.get_prediction(some).summary_frame() for r in (res, other))
    assert_allclose(ours, theirs, rtol=1e-8)
    other.save(tmp_path / "fit")
    assert_allclose(mixreg.load(tmp_path / "fit").params, other.params)


@pytest.fixture(scope="module")
def believed():
    """A fit of three components by variational Bayes: no other axis has their number."""
    options = {"concomitant": "~ age + height"}
    return MixReg.from_formula("y ~ x + w + g", DATA, k=3, **options).fit("vb")


def test_relabel_moves_what_mean_field_says(believed):
    other = believed.relabel([3, 1, 2])
    for name in ("x", "w", "log(sigma)"):
        for new, old in ((1, 3), (2, 1), (3, 2)):
            places = f"{name}[{new}]", f"{name}[{old}]"
            assert_allclose(other.bse_mean_field[places[0]], believed.bse_mean_field[places[1]])


def with_components(tree, k, size, path=""):
    """Arrays of a frozen tree that have an axis of the components, or of all parameters."""
    for field in fields(tree):
        value, name = getattr(tree, field.name), f"{path}{field.name}"
        if is_dataclass(value):
            yield from with_components(value, k, size, f"{name}.")
        elif isinstance(value, np.ndarray) and {k, size} & set(value.shape):
            yield name, value


@pytest.mark.parametrize("part", ["estimate", "standard", "tally", "beliefs"])
def test_all_that_has_components_moves_when_they_do(believed, part):
    order, back = np.array([2, 0, 1]), np.array([1, 2, 0])
    layout, fitted = believed.spec.layout, believed.fitted
    there = fitted.permute(layout, order)
    again = there.permute(layout, back)
    trees = [getattr(each, part) for each in (fitted, there, again)]
    told = [list(with_components(tree, 3, layout.size)) for tree in trees]
    assert len(told[0]) >= 3
    for (name, old), (_, new), (_, same) in zip(*told, strict=True):
        assert not np.allclose(old, new), name
        assert_allclose(same, old, atol=1e-8, err_msg=name)


def test_relabel_of_one_component_leaves_it():
    res = MixReg.from_formula("y ~ x", DATA, k=1).fit()
    other = res.relabel([1])
    assert_allclose(other.params, res.params)
    assert_allclose(other.cov_params(), res.cov_params())
    assert_allclose(other.weights, [1.0])


def test_relabelled_fits_from_files_keep_their_diagnostics(fits, tmp_path):
    fits["groups"].save(tmp_path / "fit")
    other = mixreg.load(tmp_path / "fit").relabel([2, 1])
    assert other.diagnostics.search == fits["groups"].diagnostics.search
    other.save(tmp_path / "other")


def test_relabel_by_a_shared_term_is_refused():
    npreg = datasets.npreg()
    res = MixReg.from_formula("yn ~ x + z", npreg.assign(z=npreg.x**2), k=2, shared=["z"]).fit()
    with pytest.raises(InputError, match="by='z' is the same in all components; choose"):
        res.relabel(by="z")


def test_relabel_by_a_term_and_what_it_refuses(fits):
    res = fits["groups"]
    assert res.relabel(by="x").coefficients.loc["x"].is_monotonic_increasing
    with pytest.raises(InputError, match="order="):
        res.relabel([1, 1])
    with pytest.raises(InputError, match="not both"):
        res.relabel()
    known = np.where(np.arange(N) < 8, 1.0, np.nan)
    labelled = MixReg.from_formula("y ~ x", DATA, k=2, known_labels=known).fit()
    with pytest.raises(NotAvailableError, match="labels are known"):
        labelled.relabel([2, 1])


@pytest.mark.parametrize("kind", ["opg", "robust", "cluster", "none"])
@pytest.mark.parametrize("name", ["gaussian", "groups", "concomitant", "several", "weights"])
def test_with_cov_is_a_fit_with_that_cov_type(fits, name, kind):
    formula, options = MODELS[name]
    words = {"groups": DATA["id"]} if kind == "cluster" else None
    res = fits[name].with_cov(kind, words)
    fit = MixReg.from_formula(formula, DATA, k=2, **options).fit(cov_type=kind, cov_kwds=words)
    assert res.cov_type == kind
    assert fits[name].cov_type == "oim"
    if kind == "none":
        with pytest.raises(NotAvailableError, match="cov_type"):
            _ = res.bse
        res = res.with_cov("oim")
        fit = fits[name]
    assert_allclose(res.bse, fit.bse, rtol=1e-7)


def test_criteria(fits):
    res = fits["groups"]
    assert res.caic == pytest.approx(-2 * res.llf + res.df_model * (np.log(60) + 1))
    assert res.hqic == pytest.approx(-2 * res.llf + 2 * res.df_model * np.log(np.log(60)))


# Side by side


def test_compare_puts_fits_side_by_side(fits, tmp_path):
    names = ["a & b", "<i>$x$</i>"]
    made = compare(fits["groups"], fits["shared"], names=names, stars=True)
    assert made.table.columns.tolist() == [(n, j) for n in names for j in ("1", "2")]
    cell = made.table.loc["w", ("a & b", "1")]
    assert cell.startswith(f"{fits['groups'].coefficients.loc['w', 1]:.3f}")
    assert made.statistics.loc["Groups"].tolist() == ["60", "-"]
    html, latex = made.to_html(), made.to_latex(tmp_path / "t.tex")
    assert "<i>" not in html
    assert "&lt;i&gt;" in html
    assert r"a \& b" in latex
    assert r"\$x\$" in latex
    assert (tmp_path / "t.tex").read_text() == latex
    assert "style=" in made.to_word()
    assert "a & b" in repr(made)
    every = compare(*fits.values(), digits=2)
    assert every.table.shape[1] == 2 * len(fits)


def test_compare_as_a_great_table(fits):
    made = compare(fits["groups"], fits["groups"].with_cov("none")).to_great_table()
    assert "(1) k=2" in made.as_raw_html()


def test_compare_refuses_what_is_no_fit(fits):
    with pytest.raises(InputError, match="takes fits"):
        compare("fit")
    with pytest.raises(InputError, match="different names"):
        compare(fits["groups"], fits["shared"], names=["a", "a"])


# From a file


def test_a_fit_from_a_file_says_what_needs_rows(fits, tmp_path):
    fits["groups"].save(tmp_path / "fit")
    res = mixreg.load(tmp_path / "fit")
    assert_allclose(res.tidy().estimate, fits["groups"].tidy().estimate)
    assert_allclose(res.augment(DATA).fitted, fits["groups"].fittedvalues)
    assert_allclose(res.margins(DATA).estimate, fits["groups"].margins().estimate, rtol=1e-9)
    assert_allclose(
        res.get_prediction(DATA).summary_frame(), fits["groups"].get_prediction().summary_frame()
    )
    for ask in (res.augment, res.margins, res.residuals, lambda: res.resid):
        with pytest.raises(NotAvailableError, match="rows are gone"):
            ask()
    with pytest.raises(NotAvailableError, match="from a file"):
        res.with_cov("robust")
