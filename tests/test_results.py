"""What a fit promises to say, in the types and with the labels it promises."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, xlogy
from scipy.stats import norm

from mixreg import ConvergenceWarning, InputError, InputWarning, MixReg, MixRegResults
from mixreg.simulate import mixed_linear_equations
from tests.samples import lines, shops

TERMS = ["Intercept", "x1", "x2"]
NAMES = [
    *("Intercept[1]", "x1[1]", "x2[1]", "log(sigma)[1]"),
    *("Intercept[2]", "x1[2]", "x2[2]", "log(sigma)[2]"),
    "logit(weight)[2]",
]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return lines(200).set_axis([f"row {i}" for i in range(200)])


@pytest.fixture(scope="module")
def res(data) -> MixRegResults:
    return MixReg.from_formula("y ~ x1 + x2", data, k=2).fit()


@pytest.fixture(scope="module")
def shop_data() -> pd.DataFrame:
    return shops(30)


@pytest.fixture(scope="module")
def grouped(shop_data) -> MixRegResults:
    return MixReg.from_formula("y ~ x", shop_data, k=2, groups="shop").fit()


def joint(res: MixRegResults, data: pd.DataFrame) -> np.ndarray:
    """Log of weight times density, rows x components."""
    X = np.column_stack([np.ones(len(data)), data[res.model.exog_names[1:]]])
    means = X @ res.coefficients.to_numpy()
    density = norm.logpdf(data["y"].to_numpy()[:, None], means, res.scale.to_numpy())
    return density + np.log(res.weights.to_numpy())


# Names, types, labels


def test_estimates(res):
    assert_array_equal(res.components, [1, 2])
    for series in (res.weights, res.scale):
        assert isinstance(series, pd.Series)
        assert_array_equal(series.index, [1, 2])
    assert isinstance(res.coefficients, pd.DataFrame)
    assert res.coefficients.index.to_list() == TERMS
    assert_array_equal(res.coefficients.columns, [1, 2])
    assert res.weights[1] >= res.weights[2]
    assert res.k == 2
    assert res.cov_type == "oim"


def test_inference_is_flat_and_named(res):
    for name in ("params", "bse", "tvalues", "pvalues"):
        series = getattr(res, name)
        assert isinstance(series, pd.Series)
        assert series.index.to_list() == NAMES
        assert series.name == name
    assert res.cov_params().shape == (9, 9)
    assert res.cov_params().index.to_list() == res.cov_params().columns.to_list() == NAMES
    assert res.conf_int().index.to_list() == NAMES
    assert res.conf_int().columns.to_list() == [0, 1]
    assert res.params["x1[2]"] == res.coefficients.loc["x1", 2]
    assert res.params["log(sigma)[1]"] == pytest.approx(np.log(res.scale[1]))
    assert res.params["logit(weight)[2]"] == pytest.approx(np.log(res.weights[2] / res.weights[1]))


def test_labels_are_indexed_like_the_rows(res, data):
    assert_array_equal(res.labels.index, data.index)
    assert_array_equal(res.posterior.index, data.index)
    assert_array_equal(res.posterior.columns, [1, 2])
    assert set(res.labels) == {1, 2}
    assert pd.api.types.is_integer_dtype(res.labels)
    assert_array_equal(res.labels, res.posterior.idxmax(axis=1))
    log = joint(res, data)
    assert_allclose(res.posterior, np.exp(log - logsumexp(log, axis=1, keepdims=True)), atol=1e-9)


def test_groups_have_labels_of_their_own(grouped, shop_data):
    posterior, labels = grouped.group_posterior, grouped.group_labels
    assert posterior.shape == (30, 2)
    assert posterior.index.name == labels.index.name == "shop"
    assert set(labels.index) == set(shop_data["shop"])
    assert_array_equal(grouped.labels.index, shop_data.index)
    assert_array_equal(grouped.labels, labels.loc[shop_data["shop"]])
    assert_array_equal(grouped.posterior, posterior.loc[shop_data["shop"]])
    rows = pd.DataFrame(joint_of_shops(grouped, shop_data), shop_data.index)
    sums = rows.groupby(shop_data["shop"]).sum() + np.log(grouped.weights.to_numpy())
    wanted = np.exp(sums.sub(logsumexp(sums, axis=1), axis=0))
    assert_allclose(posterior.loc[wanted.index], wanted, atol=1e-9)


def joint_of_shops(res: MixRegResults, data: pd.DataFrame) -> np.ndarray:
    return joint(res, data) - np.log(res.weights.to_numpy())


@pytest.mark.parametrize("name", ["group_labels", "group_posterior"])
def test_without_groups_there_are_no_groups(res, name):
    with pytest.raises(AttributeError, match="the model has no groups; declare them with groups="):
        getattr(res, name)


def test_scalars(res, data):
    assert isinstance(res.llf, float)
    assert res.llf == pytest.approx(logsumexp(joint(res, data), axis=1).sum(), rel=1e-10)
    assert (res.nobs, res.ngroups, res.df_model) == (200, None, 9)
    assert res.aic == pytest.approx(-2 * res.llf + 18)
    assert res.bic == pytest.approx(-2 * res.llf + 9 * np.log(200))
    p = res.posterior.to_numpy()
    assert res.entropy == pytest.approx(-xlogy(p, p).sum(), rel=1e-9)
    assert res.icl == pytest.approx(res.bic + 2 * res.entropy)
    assert res.entropy_r2 == pytest.approx(1 - res.entropy / (200 * np.log(2)))
    assert res.df_resid == 191
    assert res.model.loglike(res.params) == pytest.approx(res.llf, rel=1e-12)


def test_groups_are_the_units_of_bic(grouped, shop_data):
    assert grouped.nobs == len(shop_data)
    assert grouped.ngroups == 30
    assert grouped.bic == pytest.approx(-2 * grouped.llf + grouped.df_model * np.log(30))


def test_how_it_went(res):
    assert res.converged is True
    assert res.n_iter == len(res.history) - 1
    assert res.history[-1] == pytest.approx(res.llf, rel=1e-10)
    assert repr(res).startswith("<MixRegResults: k=2, n=200, llf=")


@pytest.mark.parametrize("init", ["random", "tensor", "auto"])
@pytest.mark.parametrize("equal", [False, True])
def test_history_rises_to_the_log_likelihood(data, init, equal):
    model = MixReg.from_formula("y ~ x1 + x2", data, k=2, equal_variance=equal)
    found = model.fit(init=init)
    assert (np.diff(found.history) >= -1e-8).all()
    assert found.history[-1] == pytest.approx(found.llf, rel=1e-10)


def test_history_of_altmin_is_minus_the_loss(data):
    found = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit("altmin", init="random")
    assert (np.diff(found.history) >= -1e-8).all()
    means = found.predict(which="component")
    loss = (means.sub(data["y"], axis=0) ** 2).min(axis=1).sum()
    assert found.history[-1] == pytest.approx(-loss, rel=1e-9)


@pytest.mark.parametrize("init", ["auto", "tensor", "random"])
def test_history_of_an_exact_fit_never_falls(init):
    drawn = mixed_linear_equations(300, 4, 2, seed=1)
    found = MixReg(drawn.y, drawn.X, k=2).fit(init=init)
    assert found.diagnostics.certified
    assert (np.diff(found.history) >= -1e-8).all()


def test_without_standard_errors(data):
    found = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit(cov_type="none")
    for name in ("bse", "tvalues", "pvalues"):
        with pytest.raises(AttributeError, match="fit again with cov_type='oim'"):
            getattr(found, name)
    for call in (found.cov_params, found.conf_int, lambda: found.t_test("x1[1] = 0")):
        with pytest.raises(AttributeError, match="fit again with cov_type='oim'"):
            call()
    assert found.params.index.to_list() == NAMES
    assert "Standard errors were not computed" in str(found.summary())


# Summary


def shown(number: float) -> str:
    return f"{number:.4f}"


def test_summary_has_every_estimate_in_every_format(res):
    summary = res.summary()
    for text in (summary.as_text(), summary.as_html(), summary.as_latex(), summary.as_csv()):
        for term in TERMS:
            for j in (1, 2):
                assert shown(res.coefficients.loc[term, j]) in text
        for j in (1, 2):
            assert f"Component {j}" in text
            assert f"{res.weights[j]:.3f}" in text
            assert f"{res.scale[j]:.4g}" in text
        assert "observed information" in text
    text = str(summary)
    assert "Mixture of Linear Regressions" in text
    assert f"{res.llf:.4f}"[:6] in text
    for label in ("Log-Likelihood", "AIC", "BIC", "ICL", "No. Observations", "Stopped"):
        assert label in text
    assert "converged" in text
    assert res._repr_html_() == summary.as_html()


def test_summary_intervals_follow_alpha(res):
    wide, narrow = str(res.summary()), str(res.summary(alpha=0.1))
    assert "[0.025     0.975]" in wide
    assert "[0.05      0.95]" in narrow
    assert f"{res.conf_int(0.1).loc['x1[1]', 0]:.3f}" in narrow


def test_summary_is_the_same_twice_and_changes_nothing(res):
    before = res.params.copy()
    assert str(res.summary()) == str(res.summary())
    assert_array_equal(res.params, before)


def test_summary_of_groups_counts_them(grouped):
    text = str(grouped.summary())
    assert re.search(r"No. Groups: +30\b", text)
    assert f"{(grouped.group_labels == 1).sum()}" in text


def test_notes_on_a_binding_bound(data):
    found = MixReg.from_formula("y ~ x1 + x2", data, k=2, variance_ratio=0.9).fit()
    assert "The bound on the variances binds (variance_ratio=0.9)" in str(found.summary())
    assert found.solution.binds


def test_notes_on_an_exact_fit():
    drawn = mixed_linear_equations(200, 3, 2, seed=0)
    text = str(MixReg(drawn.y, drawn.X, k=2).fit().summary())
    assert "recovery is certified" in text
    assert "exact fit" in text
    assert "inf" in text


def test_notes_on_running_out_of_iterations(data):
    model = MixReg.from_formula("y ~ x1 + x2", data, k=2)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations"):
        found = model.fit(init="random", max_iter=2)
    text = str(found.summary())
    assert "NOT converged (2 it.)" in text
    assert "did not converge; raise max_iter" in text


def test_notes_on_rows_left_out_and_on_weights(data, shop_data):
    holes = data.assign(x1=data["x1"].where(np.arange(200) >= 40))
    weights = np.full(200, 1.5)
    found = MixReg.from_formula("y ~ x1 + x2", holes, k=1, weights=weights).fit()
    text = str(found.summary())
    assert "40 of 200 rows have missing values and were left out." in text
    assert "Case weights of the rows add up to 240." in text
    shop = MixReg.from_formula(
        "y ~ x", shop_data, k=1, groups="shop", weights=shop_data["x"] * 0 + 2
    )
    assert "Case weights of the groups add up to 60." in str(shop.fit().summary())


def test_notes_on_choice_sets_left_out():
    sets = pd.DataFrame({"set": np.repeat(np.arange(60), 2), "chosen": np.tile([1, 0], 60)})
    sets["price"] = np.random.default_rng(0).normal(size=120)
    sets.loc[7, "price"] = np.nan
    options = {"k": 1, "family": "choice", "choice_set": "set"}
    text = str(MixReg.from_formula("chosen ~ price", sets, **options).fit().summary())
    assert "2 of 120 rows are in choice sets that have missing values and were left out" in text


def test_notes_on_whole_data_say_nothing_of_rows(res):
    notes = str(res.summary()).split("Notes:")[1]
    assert "left out" not in notes
    assert "weights" not in notes


def test_infinite_errors_that_no_table_shows_are_named(res):
    cov = res.fitted.estimate.cov.copy()
    where = NAMES.index("log(sigma)[2]")
    cov[where, where] = np.inf
    estimate = replace(res.fitted.estimate, cov=cov, regular=False)
    found = MixRegResults(res.model, replace(res.fitted, estimate=estimate), res.solution)
    assert "infinite (in no table: log(sigma)[2]). k may" in " ".join(str(found.summary()).split())


def test_models_print_in_one_line(res, data):
    assert repr(res.model) == "<MixReg: y ~ x1 + x2, k=2, n=200>"
    assert repr(res.model.without_rows()) == "<MixReg: y ~ x1 + x2, k=2, rows gone>"
    assert repr(MixReg(data["y"], data[["x1"]], k=1)) == "<MixReg: y, k=1, n=200>"


def test_notes_on_one_variance(data):
    found = MixReg.from_formula("y ~ x1 + x2", data, k=2, equal_variance=True).fit()
    assert "share one residual variance" in str(found.summary())


def test_summary_of_one_component(data):
    text = str(MixReg.from_formula("y ~ x1 + x2", data, k=1).fit().summary())
    assert "Component 1" in text
    assert "nan" not in text


# Predictions


def test_predictions_for_the_models_own_rows(res, data):
    means = res.predict(which="component")
    assert_array_equal(means.index, data.index)
    assert_array_equal(means.columns, [1, 2])
    X = np.column_stack([np.ones(200), data[["x1", "x2"]]])
    assert_allclose(means, X @ res.coefficients, rtol=1e-10)
    assert_allclose(res.predict(), means @ res.weights, rtol=1e-12)
    assert res.predict().name == "y"
    assert_array_equal(res.predict(which="posterior"), res.posterior)
    assert_array_equal(res.predict(which="label"), res.labels)


@pytest.mark.parametrize("which", ["mean", "component", "posterior", "label"])
def test_predictions_for_the_training_data_are_those_of_the_fit(res, data, which):
    again = res.predict(data, which)
    own = res.predict(which=which)
    assert_array_equal(again.index, own.index)
    assert_allclose(again, own, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("which", ["mean", "component", "posterior", "label"])
def test_predictions_for_the_training_groups_are_those_of_the_fit(grouped, shop_data, which):
    again = grouped.predict(shop_data, which)
    assert_array_equal(again.index, shop_data.index)
    assert_allclose(again, grouped.predict(which=which), rtol=1e-8, atol=1e-10)


def test_altmin_predicts_its_own_labels(data):
    found = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit("altmin")
    assert_array_equal(found.predict(data, "label"), found.labels)
    assert_allclose(found.predict(data, "posterior"), found.posterior, atol=1e-10)


def test_a_new_row_is_weighed_by_its_response(res):
    new = pd.DataFrame({"y": [3.0, -2.0], "x1": [1.0, 1.0], "x2": [0.0, 0.0]}, index=["a", "b"])
    posterior = res.predict(new, "posterior")
    log = joint(res, new)
    assert_allclose(posterior, np.exp(log - logsumexp(log, axis=1, keepdims=True)), rtol=1e-9)
    assert_array_equal(res.predict(new, "label"), [1, 2])
    assert_array_equal(posterior.index, ["a", "b"])


def test_without_a_response_the_weights_are_all_that_is_known(res):
    new = pd.DataFrame({"x1": [0.0, 1.0], "x2": [1.0, 2.0]})
    assert_allclose(res.predict(new, "posterior"), np.tile(res.weights, (2, 1)))
    assert_array_equal(res.predict(new, "label"), [1, 1])
    assert_allclose(res.predict(new), res.predict(new.assign(y=9.0)))


def test_rows_with_missing_values_are_missing_in_predictions(res):
    new = pd.DataFrame(
        {"y": [1.0, 1.0, np.nan], "x1": [0.5, np.nan, 0.5], "x2": [0.0, 0.0, 0.0]}, list("abc")
    )
    assert_array_equal(res.predict(new).isna(), [False, True, False])
    assert_array_equal(res.predict(new, "component").isna().any(axis=1), [False, True, False])
    posterior = res.predict(new, "posterior")
    assert posterior.loc["b"].isna().all()
    assert_allclose(posterior.loc["c"], res.weights)
    assert_allclose(posterior.loc["a"], res.predict(new[:1], "posterior").loc["a"])
    labels = res.predict(new, "label")
    assert labels.isna().to_list() == [False, True, False]
    assert labels["c"] == 1


def test_new_rows_of_a_group_share_their_posterior(grouped):
    new = pd.DataFrame(
        {"y": [1.0, 2.0, 0.0, 1.1], "x": [0.0, 1.0, 0.5, 0.0], "shop": ["new", "other", "new", "x"]}
    )
    posterior = grouped.predict(new, "posterior")
    assert_array_equal(posterior.loc[0], posterior.loc[2])
    rows = joint_of_shops(grouped, new)
    log = rows[0] + rows[2] + np.log(grouped.weights.to_numpy())
    assert_allclose(posterior.loc[0], np.exp(log - logsumexp(log)), rtol=1e-9)
    alone = grouped.predict(new[["y", "x"]], "posterior", groups=range(4))
    assert not np.allclose(alone.loc[0], alone.loc[2])


@pytest.mark.parametrize("method", ["predict", "assign"])
def test_rows_that_lack_the_column_of_groups_are_taken_one_by_one(grouped, shop_data, method):
    new = shop_data.head(5).drop(columns="shop")
    how = ["posterior"] if method == "predict" else []
    call = getattr(grouped, method)
    with pytest.warns(InputWarning, match=r"groups='shop' is not a column.*groups=array") as told:
        found = call(new, *how)
    assert len(told) == 1
    assert_allclose(found, call(new, *how, groups=range(5)))
    # One row is one group, and without responses there is nothing to add up.
    assert len(call(new.head(1), *how)) == 1
    if method == "predict":
        assert len(call(new.drop(columns="y"), *how)) == 5


def test_groups_without_a_name_are_asked_for(shop_data):
    arrays = shop_data["y"].to_numpy(), shop_data[["x"]].assign(one=1.0).to_numpy()
    res = MixReg(*arrays, 2, groups=shop_data["shop"].to_numpy()).fit()
    new = pd.DataFrame(arrays[1], columns=res.spec.exog_names).assign(y=arrays[0])
    with pytest.warns(InputWarning, match="the fit has groups, and the new rows have none"):
        res.predict(new, "label")


def test_a_new_row_without_a_group_stands_for_itself(grouped):
    new = pd.DataFrame({"y": [1.0, 2.0], "x": [0.0, 1.0], "shop": ["new", None]})
    posterior = grouped.predict(new, "posterior")
    assert_allclose(posterior.loc[1], grouped.predict(new.loc[[1], ["y", "x"]], "posterior").loc[1])


def test_transforms_are_those_learnt_in_the_fit(data):
    found = MixReg.from_formula("y ~ center(x1) + bs(x2, df=4)", data, k=2).fit()
    few = data.iloc[[5, 17, 3]]
    assert_allclose(found.predict(few), found.predict().loc[few.index], rtol=1e-9)
    assert_allclose(
        found.predict(few, "posterior"), found.posterior.loc[few.index], rtol=1e-6, atol=1e-9
    )


def test_a_transformed_response_is_used_when_it_is_there(data):
    positive = data.assign(w=np.exp(data["y"]))
    found = MixReg.from_formula("np.log(w) ~ x1 + x2", positive, k=2).fit()
    assert_allclose(found.predict(positive, "posterior"), found.posterior, atol=1e-8)
    assert found.predict(positive).name == "np.log(w)"
    assert_allclose(found.predict(data.drop(columns="y"), "posterior").loc["row 3"], found.weights)


def test_categories_in_new_data(data):
    typed = data.assign(g=np.where(data["x2"] > 0, "north", "south"))
    found = MixReg.from_formula("y ~ x1 + g", typed, k=2).fit()
    one = typed[typed["g"] == "south"][:3]
    assert_allclose(found.predict(one), found.predict().loc[one.index], rtol=1e-9)
    with pytest.raises(InputError, match=r"levels of .*: .east.*Its levels are"):
        found.predict(one.assign(g="east"))


def test_new_data_without_a_regressor(res):
    with pytest.raises(InputError, match="new data lack the columns x2"):
        res.predict(pd.DataFrame({"x1": [1.0]}))


@pytest.mark.parametrize(
    ("formula", "new", "message"),
    [
        (
            None,
            "label",
            r"new='label' must be a table.*write predict\(which='label'",
        ),
        (None, "x", "data='x' does not exist"),
        (None, 3, "must be a DataFrame or an array; got 3"),
        ("y ~ bs(x1, df=4)", {"x1": [99.0]}, r"outside .* \[-\d.*\] of bs\(x1, df=4\); clip"),
    ],
)
def test_new_data_that_cannot_be_used(res, data, formula, new, message):
    found = res if formula is None else MixReg.from_formula(formula, data, k=1).fit()
    for ask in (found.predict, found.assign):
        with pytest.raises(InputError, match=message):
            ask(new)


def test_unknown_columns_of_new_rows(res, data):
    with pytest.raises(InputError, match=r"does not know weights; columns .* are groups, offset"):
        res.predict(data, weights=1)


def test_new_groups_with_varying_concomitants_are_named(shop_data):
    data = shop_data.assign(size=shop_data.groupby("shop")["x"].transform("mean"))
    options = {"k": 2, "groups": "shop", "concomitant": "~ size"}
    found = MixReg.from_formula("y ~ x", data, **options).fit(n_init=1)
    with pytest.raises(InputError, match="concomitants vary within group 'shop "):
        found.predict(data.assign(size=data["x"]), "label")


def test_unknown_prediction(res):
    message = "which='median' is unknown; use one of mean, component, posterior, label"
    with pytest.raises(InputError, match=message):
        res.predict(which="median")


def test_a_new_response_that_is_not_a_number(res):
    new = pd.DataFrame({"y": ["much"], "x1": [1.0], "x2": [0.0]})
    with pytest.raises(InputError, match="y"):
        res.predict(new, "posterior")
    assert np.isfinite(res.predict(new).iloc[0])


def test_a_new_response_far_out_still_has_a_posterior(res):
    new = pd.DataFrame({"y": [1e6, 1e100], "x1": 0.0, "x2": 0.0})
    assert_allclose(res.predict(new, "posterior").sum(axis=1), 1)


def test_no_new_rows_give_no_predictions(res, data):
    for which in ("mean", "component", "posterior", "label"):
        assert len(res.predict(data[:0], which)) == 0


def test_new_data_as_dict_series_or_single_row(res):
    row = {"x1": 1.0, "x2": 2.0}
    wanted = res.predict(pd.DataFrame([row])).iloc[0]
    for new in (row, {"x1": [1.0], "x2": [2.0]}, pd.Series(row)):
        found = res.predict(new)
        assert len(found) == 1
        assert found.iloc[0] == pytest.approx(wanted)


def test_intercepts_only_predict_every_row(data):
    found = MixReg.from_formula("y ~ 1", data, k=2).fit()
    new = pd.DataFrame({"anything": np.arange(5)})
    assert_allclose(found.predict(new), np.full(5, found.predict().iloc[0]))


def test_predictions_from_arrays(data):
    X = np.column_stack([np.ones(200), data[["x1", "x2"]]])
    found = MixReg(data["y"].to_numpy(), X, k=2).fit()
    assert_allclose(found.predict(X[:3]), found.predict()[:3], rtol=1e-12)
    frame = pd.DataFrame(X, columns=["const", "x1", "x2"]).assign(y=data["y"].to_numpy())
    assert_allclose(found.predict(frame, "posterior"), found.posterior, atol=1e-9)
    mixed = frame[["x2", "y", "const", "x1"]]
    assert_allclose(found.predict(mixed), found.predict(), rtol=1e-12)
    with pytest.raises(InputError, match=r"exog must have shape \(n, 3\); got \(2, 2\)"):
        found.predict(np.ones((2, 2)))
    renamed = frame[["const", "x1", "x2"]].set_axis(list("abc"), axis=1)
    assert_allclose(found.predict(renamed), found.predict(), rtol=1e-12)
    for partial in (frame[["const", "x1"]], frame[["const", "x1", "y"]]):
        with pytest.raises(InputError, match="lack the columns x2; the model has const, x1, x2"):
            found.predict(partial)


def test_new_data_are_left_as_they_were(grouped, shop_data):
    new = shop_data.copy()
    for which in ("mean", "component", "posterior", "label"):
        grouped.predict(new, which)
    pd.testing.assert_frame_equal(new, shop_data)


def test_no_warning_is_given_on_the_way(data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = MixReg.from_formula("y ~ x1 + x2", data, k=3).fit()
        str(found.summary()), str(found.diagnostics), found.predict(data, "label")
    assert caught == []


def test_rows_without_weight_are_no_sample():
    weights = (np.arange(300) < 150).astype(float)
    found = MixReg.from_formula("y ~ x1 + x2", lines(300), k=2, weights=weights).fit()
    assert "sample of" not in str(found.summary())
