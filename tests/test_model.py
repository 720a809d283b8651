"""What can be declared: formulas, arrays, subsets, weights, groups. k = 1 is least squares."""

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose, assert_array_equal

from mixreg import MixReg
from tests.samples import lines, shops


def table(n: int = 150, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal(n), rng.lognormal(size=n)
    g = rng.choice(["north", "south", "west"], n)
    y = 1 + x + np.log(w) + (g == "west") + 0.5 * rng.standard_normal(n)
    return pd.DataFrame({"y": y, "x": x, "w": w, "g": g, "a b": rng.standard_normal(n)})


# One component


@pytest.mark.parametrize(
    "formula",
    [
        *("y ~ 1", "y ~ x", "y ~ 0 + x", "y ~ x - 1", "y ~ x + C(g)", "y ~ g", "y ~ 0 + C(g) + x"),
        *("y ~ x * C(g)", "y ~ x:w", "y ~ np.log(w)", "np.log(w) ~ x", "y ~ x + I(x**2)"),
        *("y ~ bs(x, df=4)", "y ~ cr(x, df=4) - 1", "y ~ center(x) * w", "y ~ standardize(w)"),
        *("y ~ C(g, Treatment('west'))", "y ~ C(g, Sum)", "y ~ Q('a b') + x", "I(2 * y) ~ x"),
    ],
)
def test_one_component_is_ordinary_least_squares(formula):
    data = table()
    res = MixReg.from_formula(formula, data, k=1).fit()
    y, X = patsy.dmatrices(formula, data, return_type="dataframe")
    ols = sm.OLS(y, X).fit()
    n, p = X.shape
    assert res.coefficients.index.to_list() == list(X.columns)
    assert_allclose(res.coefficients[1], ols.params, rtol=1e-8, atol=1e-10)
    assert res.llf == pytest.approx(ols.llf, rel=1e-8)
    # OLS divides the residual sum of squares by n - p, maximum likelihood by n.
    assert res.scale[1] == pytest.approx(np.sqrt(ols.ssr / n), rel=1e-8)
    assert_allclose(res.bse[:p], ols.bse * np.sqrt((n - p) / n), rtol=1e-7)
    assert res.bse["log(sigma)[1]"] == pytest.approx(1 / np.sqrt(2 * n), rel=1e-7)
    assert_allclose(res.predict(), ols.fittedvalues, rtol=1e-8, atol=1e-8)
    assert res.weights[1] == 1
    assert res.converged


def test_one_component_by_altmin_is_ordinary_least_squares_too():
    data = table()
    res = MixReg.from_formula("y ~ x", data, k=1).fit("altmin")
    y, X = patsy.dmatrices("y ~ x", data)
    beta = np.linalg.lstsq(X, y, rcond=None)[0][:, 0]
    assert_allclose(res.coefficients[1], beta, rtol=1e-8)


# Where names are found


def test_names_are_looked_up_in_the_caller_without_data():
    frame = table()
    outcome, regressor = frame["y"].to_numpy(), frame["x"].to_numpy()
    res = MixReg.from_formula("outcome ~ regressor", k=1).fit()
    assert_allclose(res.params, MixReg.from_formula("y ~ x", frame, k=1).fit().params, rtol=1e-12)
    assert res.model.endog_names == "outcome"
    assert regressor.shape == outcome.shape


def test_names_are_looked_up_one_frame_further_up():
    response = table()["y"].to_numpy()

    def wrapper(formula):
        return MixReg.from_formula(formula, k=1, eval_env=1)

    assert wrapper("response ~ 1").nobs == len(response)


def test_groups_and_weights_are_looked_up_too():
    frame = shops(10)
    y, x, shop = (frame[name].to_numpy() for name in ("y", "x", "shop"))
    twice = np.full(len(y), 2.0)
    model = MixReg.from_formula("y ~ x", k=1, groups="shop", weights="twice")
    assert model.ngroups == 10
    assert model.fit().n_units == 20
    assert len(x) == len(shop) == len(twice)


def test_functions_of_the_caller_work_with_data():
    def double(v):
        return 2 * v

    model = MixReg.from_formula("y ~ double(x)", table(), k=1)
    assert model.exog_names == ["Intercept", "double(x)"]
    assert double(1) == 2


def test_an_array_of_the_caller_beside_columns_with_missing_values():
    data = table()
    data.loc[3, "y"] = np.nan
    outside = data["x"].to_numpy()
    res = MixReg.from_formula("y ~ outside", data, k=1).fit()
    wanted = MixReg.from_formula("y ~ x", data, k=1).fit()
    assert_allclose(res.params, wanted.params, rtol=1e-10)
    assert len(outside) == len(data)


def test_series_of_the_caller_keep_their_index():
    frame = table().set_axis([f"row {i}" for i in range(150)])
    y, x = frame["y"], frame["x"]
    res = MixReg.from_formula("y ~ x", k=1).fit()
    assert_array_equal(res.labels.index, frame.index)
    assert x.index.equals(y.index)


# Arrays and tables


def test_arrays_tables_and_formulas_agree():
    data = lines()
    x = sm.add_constant(data[["x1", "x2"]])
    by_formula = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit()
    by_frame = MixReg(data["y"], x, k=2).fit()
    by_array = MixReg(data["y"].to_numpy(), x.to_numpy(), 2).fit()
    for res in (by_frame, by_array):
        assert_array_equal(res.coefficients, by_formula.coefficients)
        assert res.llf == by_formula.llf
    assert by_frame.model.exog_names == ["const", "x1", "x2"]
    assert by_frame.model.endog_names == "y"
    assert by_array.model.exog_names == ["const", "x1", "x2"]
    assert by_formula.model.exog_names == ["Intercept", "x1", "x2"]


def test_no_constant_is_added_to_arrays():
    data = lines()
    model = MixReg(data["y"], data[["x1", "x2"]], k=2)
    assert model.exog_names == ["x1", "x2"]
    assert model.param_names[:3] == ["x1[1]", "x2[1]", "log(sigma)[1]"]


def test_a_single_column_may_have_one_dimension():
    data = lines()
    one = MixReg(data["y"].to_list(), data["x1"], k=1).fit()
    assert one.model.exog_names == ["x1"]
    other = MixReg(data[["y"]], data[["x1"]], k=1).fit()
    assert_array_equal(one.params, other.params)


def test_a_dict_of_columns_is_data():
    data = table()
    res = MixReg.from_formula("y ~ x", {"y": data["y"], "x": data["x"]}, k=1).fit()
    assert_array_equal(res.params, MixReg.from_formula("y ~ x", data, k=1).fit().params)


@pytest.mark.parametrize("dtype", ["float32", "Float64", "int64", "Int64", "category", "string"])
def test_column_types(dtype):
    data = table()
    data["v"] = np.arange(150) % 3
    numeric = dtype not in ("category", "string")
    typed = data.astype({"v": str if dtype == "string" else "int64"}).astype({"v": dtype})
    res = MixReg.from_formula("y ~ C(v)" if dtype == "string" else "y ~ v", typed, k=1).fit()
    wanted = MixReg.from_formula("y ~ v" if numeric else "y ~ C(v)", data, k=1).fit()
    assert_allclose(res.coefficients[1].to_numpy(), wanted.coefficients[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["bool", "boolean"])
def test_a_yes_or_no_column_is_a_category(dtype):
    data = table()
    data["v"] = (data["x"] > 0).astype(dtype)
    res = MixReg.from_formula("y ~ v", data, k=1).fit()
    means = data.groupby(data["x"] > 0)["y"].mean()
    assert res.coefficients.index.to_list() == ["Intercept", "v[T.True]"]
    assert_allclose(res.coefficients[1], [means[False], means[True] - means[False]], rtol=1e-9)


def test_the_frame_is_left_as_it_was():
    data = shops(12).convert_dtypes()
    before = data.copy(deep=True)
    MixReg.from_formula("y ~ x", data, k=2, groups="shop", subset="x > -1").fit()
    pd.testing.assert_frame_equal(data, before)


# Which rows


def test_subset_by_query_mask_and_labels():
    data = table().set_axis([f"row {i}" for i in range(150)])
    chosen = data[data["w"] > 1]
    wanted = MixReg.from_formula("y ~ center(x)", chosen, k=1).fit()
    for subset in ("w > 1", data["w"] > 1, (data["w"] > 1).to_list(), chosen.index):
        res = MixReg.from_formula("y ~ center(x)", data, k=1, subset=subset).fit()
        assert_array_equal(res.params, wanted.params)
        assert_array_equal(res.labels.index, chosen.index)


def test_a_mask_in_another_order_is_aligned_by_its_index():
    data = table()
    mask = data["w"] > 1
    model = MixReg.from_formula("y ~ x", data, k=1, subset=mask[::-1])
    assert_array_equal(np.sort(model.index), data.index[mask])


def test_subset_with_groups_and_weights():
    data = shops(20).assign(count=2.0)
    keep = data["shop"].isin(["shop 3", "shop 4", "shop 11"])
    model = MixReg.from_formula(
        "y ~ x", data, k=1, groups="shop", weights=data["count"].to_numpy(), subset=keep
    )
    assert (model.nobs, model.ngroups) == (int(keep.sum()), 3)


def test_rows_with_missing_values_are_dropped_before_transforms_learn():
    data = table()
    data.loc[[2, 5], "x"], data.loc[7, "y"], data.loc[9, "g"] = np.nan, np.nan, None
    res = MixReg.from_formula("y ~ center(x) + g", data, k=1).fit()
    wanted = MixReg.from_formula("y ~ center(x) + g", data.drop([2, 5, 7, 9]), k=1).fit()
    assert_array_equal(res.params, wanted.params)
    assert_array_equal(res.labels.index, data.index.drop([2, 5, 7, 9]))


def test_missing_values_elsewhere_do_not_matter():
    data = table()
    data.loc[4, "w"] = np.nan
    assert MixReg.from_formula("y ~ x", data, k=1, missing="raise").nobs == 150


def test_rows_without_group_or_weight_are_dropped():
    data = shops(20).assign(count=1.0).reset_index(drop=True)
    data.loc[0, "shop"], data.loc[1, "count"] = None, np.nan
    model = MixReg.from_formula("y ~ x", data, k=1, groups="shop", weights="count")
    assert_array_equal(model.index, data.index[2:])


def test_missing_values_in_arrays():
    data = lines(50)
    y, x = data["y"].to_numpy(copy=True), data[["x1", "x2"]].to_numpy(copy=True)
    y[3] = x[8, 1] = np.nan
    res = MixReg(y, x, k=1).fit()
    wanted = MixReg(np.delete(y, [3, 8]), np.delete(x, [3, 8], axis=0), k=1).fit()
    assert_array_equal(res.params, wanted.params)
    assert_array_equal(res.labels.index, np.delete(np.arange(50), [3, 8]))


# Weights count rows


@pytest.mark.parametrize("cov_type", ["oim", "opg", "robust"])
@pytest.mark.parametrize("equal", [False, True])
def test_weights_are_repetitions(cov_type, equal):
    data = lines(200, seed=4)
    data["count"] = np.random.default_rng(0).integers(0, 4, 200)
    repeated = data.loc[data.index.repeat(data["count"])]
    options = {"k": 2, "equal_variance": equal}
    weighted = MixReg.from_formula("y ~ x1 + x2", data, weights="count", **options)
    by_weight = weighted.fit(cov_type=cov_type)
    by_rows = MixReg.from_formula("y ~ x1 + x2", repeated, **options).fit(cov_type=cov_type)
    assert by_weight.llf == pytest.approx(by_rows.llf, rel=1e-10)
    assert_allclose(by_weight.params, by_rows.params, rtol=1e-5, atol=1e-6)
    assert_allclose(by_weight.bse, by_rows.bse, rtol=1e-5)
    for name in ("aic", "bic", "icl", "entropy", "df_resid"):
        assert getattr(by_weight, name) == pytest.approx(getattr(by_rows, name), rel=1e-7)


def test_weights_of_groups_are_repetitions_of_groups():
    data = shops(40, seed=2)
    count = pd.Series(np.random.default_rng(0).integers(1, 4, 40), data["shop"].unique())
    data["count"] = data["shop"].map(count)
    copies = [data[data["count"] > i].assign(shop=data["shop"] + f" copy {i}") for i in range(3)]
    by_weight = MixReg.from_formula("y ~ x", data, k=2, groups="shop", weights="count").fit()
    by_rows = MixReg.from_formula("y ~ x", pd.concat(copies), k=2, groups="shop").fit()
    assert by_weight.llf == pytest.approx(by_rows.llf, rel=1e-10)
    assert_allclose(by_weight.params, by_rows.params, rtol=1e-5, atol=1e-6)
    assert_allclose(by_weight.bse, by_rows.bse, rtol=1e-5)
    assert by_weight.bic == pytest.approx(by_rows.bic, rel=1e-10)


def test_weights_of_one_component_are_those_of_least_squares():
    data = table()
    res = MixReg.from_formula("y ~ x", data, k=1, weights="w").fit()
    wls = sm.WLS(data["y"], sm.add_constant(data["x"]), data["w"]).fit()
    assert_allclose(res.coefficients[1], wls.params, rtol=1e-9)


# Groups share a label


def test_the_order_of_rows_does_not_matter():
    data = shops(40, seed=3)
    mixed = data.sample(frac=1.0, random_state=np.random.default_rng(0))
    first, second = (
        MixReg.from_formula("y ~ x", each, k=2, groups="shop").fit() for each in (data, mixed)
    )
    assert first.llf == pytest.approx(second.llf, rel=1e-10)
    assert_allclose(first.params, second.params, rtol=1e-5, atol=1e-7)
    assert_array_equal(first.labels.loc[data.index], second.labels.loc[data.index])
    assert_allclose(first.posterior.loc[data.index], second.posterior.loc[data.index], atol=1e-6)
    assert_array_equal(first.group_labels.sort_index(), second.group_labels.sort_index())
    assert (first.labels.groupby(data["shop"]).nunique() == 1).all()


@pytest.mark.parametrize(
    "convert",
    [
        lambda codes: codes,
        lambda codes: codes.astype(float),
        lambda codes: codes.astype(str).astype(object),
        lambda codes: pd.Series(codes.astype(str)).astype("string"),
        lambda codes: pd.Series(codes).astype("Int64"),
        lambda codes: pd.Categorical(codes, categories=np.arange(60)),
        lambda codes: pd.Timestamp("2020-01-01") + pd.to_timedelta(codes, unit="D"),
        lambda codes: [(code, "shop") for code in codes],
        lambda codes: pd.arrays.IntervalArray.from_breaks(np.arange(61))[codes],
    ],
    ids=["int", "float", "object", "string", "Int64", "category", "date", "tuple", "interval"],
)
def test_groups_may_be_of_any_type(convert):
    data = shops(40, seed=3).reset_index(drop=True)
    codes = pd.factorize(data["shop"])[0]
    wanted = MixReg.from_formula("y ~ x", data, k=2, groups="shop").fit()
    data["name"] = pd.Series(convert(codes))
    res = MixReg.from_formula("y ~ x", data, k=2, groups="name").fit()
    assert res.ngroups == 40
    assert_array_equal(res.labels, wanted.labels)
    assert res.llf == wanted.llf
    assert res.group_labels.index.name == "name"
    assert res.group_labels[data["name"][0]] == res.labels[0]


def test_groups_as_array_are_groups_by_name():
    data = shops(30)
    by_name, by_array = (
        MixReg.from_formula("y ~ x", data, k=2, groups=groups).fit()
        for groups in ("shop", data["shop"].to_numpy())
    )
    assert_array_equal(by_name.params, by_array.params)
    frame = pd.DataFrame({"const": 1.0, "x": data["x"]})
    by_frame = MixReg(data["y"], frame, k=2, groups=data["shop"]).fit()
    assert_array_equal(by_name.params, by_frame.params)


def test_groups_of_one_row_are_rows():
    data = lines(200)
    data["id"] = np.arange(200)
    grouped = MixReg.from_formula("y ~ x1 + x2", data, k=2, groups="id").fit()
    rows = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit()
    assert grouped.llf == pytest.approx(rows.llf, rel=1e-10)
    assert_allclose(grouped.params, rows.params, rtol=1e-5, atol=1e-7)
