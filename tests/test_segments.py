"""Segments: hand-computed numbers, planted truth, and what must not matter."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import patsy
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from scipy import stats

from mixreg import InputError, MixReg, NotAvailableError, datasets
from mixreg.families import Gaussian, Poisson
from mixreg.report.importance import importance
from mixreg.report.segments import classification, profile, segments
from mixreg.sources import MemorySource
from mixreg.table.units import make_units
from tests.samples import lines, shops

POSTERIOR = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.0, 1.0]])


def stub(posterior, *, index=None, groups=None, weights=None, noise=False, kept=None):
    """A fit with a given posterior of its units, as `segments` sees one."""
    k = posterior.shape[1]
    n = len(posterior) if groups is None else len(groups)
    index = pd.RangeIndex(n) if index is None else pd.Index(index)
    groups = None if groups is None else np.asarray(groups)
    weights = None if weights is None else np.asarray(weights, dtype=float)
    units = make_units(groups, weights, np.ones(n, dtype=bool), index)
    components = pd.RangeIndex(1, k + 1)
    labels = posterior.argmax(axis=1) + 1
    if noise:
        labels[1 - posterior.sum(axis=1) > posterior.max(axis=1)] = 0
    model = SimpleNamespace(
        source=MemorySource(np.zeros((n, 1)), np.zeros(n), units.weight, units.starts),
        index=index,
        kept=np.ones(n, dtype=bool) if kept is None else kept,
        rows=SimpleNamespace(names=SimpleNamespace(given=n if kept is None else len(kept))),
        has_rows=True,
        groups_name="shop",
        family=Gaussian(),
        endog_names="y",
        noise=noise,
        classes=[*components, *([0] if noise else [])],
    )
    whole = np.column_stack([posterior, 1 - posterior.sum(axis=1)]) if noise else posterior
    weight = np.ones(len(whole)) if units.weight is None else units.weight
    chosen = np.eye(whole.shape[1])[whole.argmax(axis=1)]
    assigned, joint = weight @ chosen, (chosen.T * weight) @ whole
    row_labels = units.to_rows(whole.argmax(axis=1), n)
    tally = SimpleNamespace(
        assigned=assigned,
        joint=joint,
        rows=np.bincount(row_labels, minlength=whole.shape[1]),
        weighted=units.weight is not None,
    )
    return SimpleNamespace(
        model=model,
        spec=model,
        fitted=SimpleNamespace(tally=tally),
        known_groups=units.labels,
        k=k,
        nobs=n,
        ngroups=None if groups is None else len(units.labels),
        components=components,
        weights=pd.Series(whole.mean(axis=0), model.classes),
        coefficients=pd.DataFrame(np.arange(2.0 * k).reshape(2, k), ["const", "x"], components),
        posterior=pd.DataFrame(units.to_rows(posterior, n), index, components),
        labels=pd.Series(units.to_rows(labels, n), index),
        group_posterior=pd.DataFrame(posterior, units.labels, components),
        group_labels=pd.Series(labels, units.labels),
        entropy_r2=0.5,
        along_rows=lambda values: units.to_rows(values, n),
    )


@pytest.fixture(scope="module")
def plain_data() -> pd.DataFrame:
    data = lines(200).set_axis([f"row {i}" for i in range(200)])
    rng = np.random.default_rng(1)
    data["age"] = rng.normal(40, 5, 200) + 10 * (data["z"] == 1)
    data["city"] = np.where(rng.random(200) < np.where(data["z"] == 1, 0.8, 0.3), "big", "small")
    return data


@pytest.fixture(scope="module")
def plain_fit(plain_data):
    return MixReg.from_formula("y ~ x1 + x2", plain_data, k=2).fit(n_init=4)


@pytest.fixture(scope="module")
def shop_data() -> pd.DataFrame:
    data = shops(30)
    data["day"] = np.random.default_rng(2).choice(["mon", "tue"], len(data))
    data["owner"] = np.where(data["z"] == 1, "chain", "family")
    return data


@pytest.fixture(scope="module")
def shop_fit(shop_data):
    return MixReg.from_formula("y ~ x", shop_data, k=2, groups="shop").fit(n_init=4)


@pytest.fixture(scope="module")
def cheese_fit():
    formula = "np.log(VOLUME) ~ DISP + np.log(PRICE)"
    return MixReg.from_formula(formula, datasets.cheese(), k=3, groups="RETAILER").fit(n_init=4)


# segments


def test_segments_by_hand():
    table = segments(stub(POSTERIOR))
    assert table.columns.to_list() == [
        *("size", "rows", "share", "mixing weight", "certainty", "const", "x"),
    ]
    assert table.index.to_list() == [1, 2]
    assert table["size"].to_list() == table["rows"].to_list() == [2, 2]
    assert_allclose(table["share"], [0.5, 0.5])
    assert_allclose(table["mixing weight"], [0.425, 0.575])
    assert_allclose(table["certainty"], [0.75, 0.9])
    assert_allclose(table[["const", "x"]], [[0, 2], [1, 3]])


def test_segments_count_groups_and_case_weights():
    groups = ["a", "b", "c", "d", "a", "a", "d"]
    table = segments(stub(POSTERIOR, groups=groups, weights=[3, 1, 1, 0, 3, 3, 0]))
    assert table["size"].to_list() == [4.0, 1.0]
    assert table["rows"].to_list() == [4, 3]
    assert_allclose(table["share"], [0.8, 0.2])
    assert_allclose(table["certainty"], [(3 * 0.9 + 0.6) / 4, 0.8])


def test_noise_is_the_last_row():
    posterior = np.array([[0.7, 0.1], [0.2, 0.8], [0.1, 0.2], [0.0, 0.4]])
    res = stub(posterior, noise=True)
    table = segments(res)
    assert table.index.to_list() == [1, 2, 0]
    assert table["size"].to_list() == [1, 1, 2]
    assert_allclose(table["mixing weight"], [0.25, 0.375, 0.375])
    assert_allclose(table["certainty"], [0.7, 0.8, 0.65])
    assert table.loc[0, ["const", "x"]].isna().all()
    assert classification(res).table.loc[0, 0] == pytest.approx(0.65)
    found = profile(res, pd.DataFrame({"v": [1.0, 2.0, 5.0, 9.0]}))
    assert found.table.columns.to_list() == [1, 2, 0, "overall"]
    assert_allclose(found.table.loc[("v", "mean"), "overall"], 17 / 4)
    # The background counts neither in the test nor among its units.
    f, p = weighted_anova([1.0, 2.0, 5.0, 9.0], posterior)
    assert_allclose(found.tests.loc["v", ["statistic", "p value"]].tolist(), [f, p])
    assert found.tests.loc["v", "units"] == 2


def test_an_empty_segment_has_no_certainty():
    res = stub(np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4]]))
    table = segments(res)
    assert table["size"].to_list() == [3, 0]
    assert np.isnan(table.loc[2, "certainty"])
    assert classification(res).table.loc[2].isna().all()
    found = profile(res, pd.DataFrame({"v": [1.0, 2.0, 4.0], "c": list("aab")}))
    assert found.table.notna().all(axis=None)
    # Nobody is assigned to the second, but some may be in it.
    f, p = weighted_anova([1.0, 2.0, 4.0], res.posterior)
    assert_allclose(found.tests.loc["v", ["statistic", "p value"]].tolist(), [f, p])
    alone = profile(stub(np.array([[1.0, 0.0]] * 3)), pd.DataFrame({"v": [1.0, 2.0, 4.0]}))
    assert alone.tests["p value"].isna().all()


def test_segments_of_a_fit(plain_fit):
    table = segments(plain_fit)
    assert_array_equal(table["size"], plain_fit.labels.value_counts().sort_index())
    for j in plain_fit.components:
        mine = plain_fit.posterior.loc[plain_fit.labels == j, j]
        assert table.loc[j, "certainty"] == pytest.approx(mine.mean())
    assert_allclose(table[plain_fit.coefficients.index], plain_fit.coefficients.T)


def test_elasticities(cheese_fit):
    table = segments(cheese_fit)
    assert table["size"].sum() == 88
    assert table["rows"].sum() == 5555
    assert table.columns[-1] == "elasticity of PRICE"
    assert_array_equal(table["elasticity of PRICE"], table["np.log(PRICE)"])
    assert (table["elasticity of PRICE"] < -1).all()


@pytest.mark.parametrize(
    ("response", "terms", "expected"),
    [
        ("np.log(q)", ["np.log(p)", "d"], ["elasticity of p"]),
        ("log(q)", ["log(p + 1)", "np.log10(d)"], ["elasticity of p + 1"]),
        ("np.log(q)", ["np.log(Q('unit price'))"], ["elasticity of Q('unit price')"]),
        ("np.log(q)", ['np.log(Q("price (€)"))'], ['elasticity of Q("price (€)")']),
        ("np.log(Q('units (n'))", ["np.log(Q('a) b'))"], ["elasticity of Q('a) b')"]),
        ("np.log(q)", ["np.log(5' pipe)"], ["elasticity of 5' pipe"]),
        ("np.log(q)", ['np.log(Q("a (b)")):np.log(Q("c (d)"))'], []),
        ("np.log(q)", ["np.log(" + "'" * 300 + "(("], []),
        ("np.log(q)", ["np.log(p)", "np.log(r)", "d:np.log(p)"], ["elasticity of r"]),
        ("np.log(q)", ["np.log(p):np.log(r)", "I(np.log(s) ** 2)"], []),
        ("q", ["np.log(p)"], []),
        ("np.log1p(q)", ["np.log(p)"], []),
    ],
)
def test_which_regressors_have_elasticities(response, terms, expected):
    res = stub(POSTERIOR)
    res.model.endog_names = response
    res.coefficients = pd.DataFrame(np.ones((len(terms), 2)), terms, [1, 2])
    assert segments(res).columns[5 + len(terms) :].to_list() == expected


def test_a_log_link_gives_elasticities():
    res = stub(POSTERIOR)
    res.model.family = Poisson()
    res.coefficients = pd.DataFrame([[-1.0, -2.0]], ["np.log(p)"], [1, 2])
    assert_allclose(segments(res)["elasticity of p"], [-1, -2])


def test_terms_named_like_columns_keep_apart():
    res = stub(POSTERIOR)
    res.coefficients = res.coefficients.set_axis(["size", "x"])
    table = segments(res)
    assert table["size"].to_list() == [2, 2]
    assert table["coef size"].to_list() == [0, 1]


# profile


def test_profile_by_hand():
    data = pd.DataFrame({"v": [1.0, 2.0, 3.0, 6.0], "c": ["b", "a", "b", "b"]})
    found = profile(stub(POSTERIOR), data)
    assert found.table.index.to_list() == [("v", "mean"), ("v", "sd"), ("c", "a"), ("c", "b")]
    first = (0.9 * 1 + 0.6 * 2 + 0.2 * 3) / 1.7
    spread = (0.9 * (1 - first) ** 2 + 0.6 * (2 - first) ** 2 + 0.2 * (3 - first) ** 2) / 1.7
    assert_allclose(found.table[1], [first, np.sqrt(spread), 0.6 / 1.7, 1.1 / 1.7])
    assert_allclose(found.table["overall"], [3, np.std([1, 2, 3, 6]), 0.25, 0.75])
    # Sizes 1.7 and 2.3, sums 2.7 and 9.3: between them is 1.7 m1² + 2.3 m2² - 36, in all 14.
    between = 2.7**2 / 1.7 + 9.3**2 / 2.3 - 36
    assert found.tests.loc["v", "test"] == "F"
    expected = [between / ((14 - between) / 2), 1, 2]
    assert_allclose(found.tests.loc["v", ["statistic", "df", "df_resid"]].tolist(), expected)
    assert found.tests.loc["v", "effect size"] == pytest.approx(between / 14)
    # Counts of a and b: 0.6 and 1.1 in the first component, 0.4 and 1.9 in the second.
    counts = np.array([[0.6, 1.1], [0.4, 1.9]])
    expected = stats.chi2_contingency(counts, correction=False)
    assert found.tests.loc["c", "test"] == "chi-square"
    assert found.tests.loc["c", "statistic"] == pytest.approx(expected.statistic)
    assert found.tests.loc["c", "effect size"] == pytest.approx(np.sqrt(expected.statistic / 4))
    # The tests compare the means of the table.
    means = found.table.loc[("v", "mean")]
    spread = 1.7 * (means[1] - 3) ** 2 + 2.3 * (means[2] - 3) ** 2
    assert spread == pytest.approx(between)


def test_tests_of_certain_labels_agree_with_scipy(plain_fit, plain_data):
    labels = plain_fit.labels.to_numpy()
    sure = stub(np.eye(2)[labels - 1], index=plain_data.index)
    tests = profile(sure, plain_data[["age", "city"]]).tests
    parts = [age for _, age in plain_data["age"].groupby(plain_fit.labels)]
    f, p = stats.f_oneway(*parts)
    assert_allclose(tests.loc["age", ["statistic", "p value"]].tolist(), [f, p], rtol=1e-9)
    counts = pd.crosstab(plain_fit.labels, plain_data["city"])
    chi2 = stats.chi2_contingency(counts, correction=False)
    expected = [chi2.statistic, chi2.dof, chi2.pvalue]
    assert_allclose(tests.loc["city", ["statistic", "df", "p value"]].tolist(), expected)
    v = stats.contingency.association(counts, method="cramer")
    assert tests.loc["city", "effect size"] == pytest.approx(v)


def test_tests_weight_units_as_the_means_do(plain_fit, plain_data):
    data = plain_data[["age", "city"]]
    tests, posterior = profile(plain_fit, data).tests, plain_fit.posterior.to_numpy()
    expected = weighted_anova(data["age"], posterior)
    assert_allclose(tests.loc["age", ["statistic", "p value"]].tolist(), expected)
    counts = posterior.T @ pd.get_dummies(data["city"]).to_numpy(dtype=float)
    chi2 = stats.chi2_contingency(counts, correction=False)
    assert_allclose(
        tests.loc["city", ["statistic", "p value"]].tolist(), [chi2.statistic, chi2.pvalue]
    )


def weighted_anova(values, posterior):
    """F and p of a regression on components, units repeated with their shares as weights."""
    values, share = np.asarray(values, dtype=float), np.asarray(posterior)
    long, weight = np.repeat(values, share.shape[1]), share.ravel()
    dummies = np.tile(np.eye(share.shape[1]), (len(values), 1))
    rest = long - dummies @ np.linalg.solve(
        (dummies.T * weight) @ dummies, dummies.T @ (weight * long)
    )
    within, df = weight @ rest**2, weight.sum() - share.shape[1]
    total = weight @ (long - weight @ long / weight.sum()) ** 2
    f = (total - within) / (share.shape[1] - 1) / (within / df)
    return f, stats.f.sf(f, share.shape[1] - 1, df)


def test_planted_differences_are_found(plain_fit, plain_data):
    found = profile(plain_fit, plain_data[["age", "city"]])
    means = found.table.loc[("age", "mean")]
    assert abs(means[1] - means[2]) == pytest.approx(10, abs=2)
    assert (found.tests["p value"] < 1e-6).all()
    assert_allclose(found.table.loc["city"].sum(), 1)
    assert found.tests["units"].to_list() == [200, 200]


def test_order_of_rows_and_rows_not_used_do_not_matter(plain_data):
    data = plain_data.copy()
    data.loc["row 3", "y"] = np.nan
    res = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit(n_init=4)
    assert "row 3" not in res.labels.index
    wanted = profile(res, data[["age", "city"]])
    more = pd.concat([data, data.iloc[:5].set_axis([f"new {i}" for i in range(5)])])
    for other in (data.loc[res.labels.index], data.iloc[::-1], more):
        found = profile(res, other[["age", "city"]])
        assert_frame_equal(found.table, wanted.table)
        assert_frame_equal(found.tests, wanted.tests)
    assert wanted.tests["units"].to_list() == [199, 199]


def test_order_of_rows_of_the_fit_does_not_matter(shop_data, shop_fit):
    shuffled = shop_data.sort_values("x")
    other = MixReg.from_formula("y ~ x", shuffled, k=2, groups="shop").fit(n_init=4)
    columns = ["x", "day", "owner"]
    assert_allclose(segments(other), segments(shop_fit), rtol=1e-4)
    found, wanted = (profile(r, shop_data[columns]) for r in (other, shop_fit))
    assert_allclose(found.table, wanted.table, rtol=1e-4)
    assert_allclose(found.tests["statistic"], wanted.tests["statistic"], rtol=1e-9)
    assert_allclose(classification(other).errors, classification(shop_fit).errors, atol=1e-4)
    assert_allclose(importance(other), importance(shop_fit), rtol=1e-4)


def test_repeated_index_in_the_order_of_the_fit():
    data = pd.DataFrame({"v": [1.0, 2.0, 3.0, 6.0]}, index=[0, 1, 0, 1])
    assert profile(stub(POSTERIOR, index=data.index), data).table.loc[("v", "mean"), "overall"] == 3
    kept = np.array([True, True, False, True, True])
    more = pd.DataFrame({"v": [1.0, 2.0, 99.0, 3.0, 6.0]}, index=[0, 1, 1, 0, 1])
    res = stub(POSTERIOR, index=data.index, kept=kept)
    assert profile(res, more).table.loc[("v", "mean"), "overall"] == 3
    with pytest.raises(InputError, match="repeats labels"):
        profile(res, more.iloc[::-1])


def test_groups_count_once():
    groups = ["a", "a", "a", "b", "c", "c", "d"]
    res = stub(POSTERIOR, groups=groups)
    rows = pd.DataFrame(
        {
            "shop": groups,
            "v": [0.0, 1.0, 2.0, 2.0, 3.0, 3.0, 6.0],
            "c": ["p", "p", "q", "p", "q", "q", "q"],
        }
    )
    found = profile(res, rows)
    assert "shop" not in found.table.index
    by_hand = [1.0, 2.0, 3.0, 6.0]
    assert found.table.loc[("v", "mean"), "overall"] == 3
    assert found.tests.loc["v", "statistic"] == pytest.approx(weighted_anova(by_hand, POSTERIOR)[0])
    share = np.array([2 / 3, 1, 0, 0])
    assert_allclose(found.table.loc[("c", "p"), 1], POSTERIOR[:, 0] @ share / 1.7)
    assert found.tests["units"].to_list() == [4, 4]
    by_group = pd.DataFrame({"v": by_hand}, index=list("abcd")).iloc[::-1]
    assert_frame_equal(profile(res, by_group).table, found.table.loc[["v"]])


def test_constant_within_groups_is_the_same_by_row_and_by_group(shop_fit, shop_data):
    by_group = shop_data.groupby("shop")[["owner", "z"]].first()
    found = profile(shop_fit, shop_data[["owner", "z"]])
    wanted = profile(shop_fit, by_group)
    assert_allclose(found.table, wanted.table)
    assert_allclose(found.tests["statistic"], wanted.tests["statistic"])
    owners = pd.get_dummies(by_group["owner"].loc[shop_fit.group_labels.index])
    counts = shop_fit.group_posterior.to_numpy().T @ owners.to_numpy(dtype=float)
    chi2 = stats.chi2_contingency(counts, correction=False)
    assert found.tests.loc["owner", "statistic"] == pytest.approx(chi2.statistic)


def test_groups_with_numbers_for_names():
    groups = [0, 0, 1, 2, 2, 3]
    res = stub(POSTERIOR, groups=groups)
    by_group = pd.DataFrame({"v": [1.0, 2.0, 3.0, 6.0]})
    assert profile(res, by_group).tests.loc["v", "units"] == 4
    by_row = pd.DataFrame({"v": [1.0, 1.0, 2.0, 3.0, 3.0, 6.0]})
    assert_frame_equal(profile(res, by_row).table, profile(res, by_group).table)
    # A table of more shops than the model has fits its rows and its groups.
    shops = pd.DataFrame({"v": [1.0, 2.0, 3.0, 6.0, 0.0, 0.0, 0.0, 0.0]})
    with pytest.raises(InputError, match="fits rows and groups; name it"):
        profile(res, shops)
    found = profile(res, shops.rename_axis("shop"))
    assert_frame_equal(found.table, profile(res, by_group).table)


def test_case_weights_are_repeated_units():
    weights = np.array([1, 3, 2, 2])
    data = pd.DataFrame({"v": [1.0, 2.0, 3.0, 6.0], "c": ["b", "a", "b", "a"]})
    found = profile(stub(POSTERIOR, weights=weights), data)
    again = np.repeat(np.arange(4), weights)
    wanted = profile(stub(POSTERIOR[again]), data.iloc[again].reset_index(drop=True))
    assert_frame_equal(found.table, wanted.table)
    columns = ["statistic", "df", "p value", "effect size"]
    assert_frame_equal(found.tests[columns], wanted.tests[columns])
    one, other = classification(stub(POSTERIOR, weights=weights)), stub(POSTERIOR[again])
    assert_frame_equal(one.table, classification(other).table)
    assert_frame_equal(one.errors, classification(other).errors)
    assert one.misclassification == pytest.approx(classification(other).misclassification)
    assert_allclose(segments(stub(POSTERIOR, weights=weights))["size"], segments(other)["size"])


def test_missing_values_are_dropped_by_variable():
    data = pd.DataFrame(
        {
            "v": [1.0, np.nan, 3.0, 6.0],
            "whole": pd.array([1, 2, None, 4], dtype="Int64"),
            "c": ["b", None, "b", None],
            "yes": pd.array([True, False, None, True], dtype="boolean"),
            "size": pd.Categorical(["L", "S", "S", None], ["S", "M", "L"]),
        }
    )
    found = profile(stub(POSTERIOR), data)
    assert found.tests["missing"].to_list() == [1, 1, 2, 1, 1]
    assert found.tests["units"].to_list() == [3, 3, 2, 3, 3]
    assert found.table.loc[("v", "mean"), "overall"] == pytest.approx(10 / 3)
    assert found.table.loc[("yes", "True"), "overall"] == pytest.approx(2 / 3)
    assert found.table.loc["size"].index.to_list() == ["S", "L"]
    groups = ["a", "a", "b", "c", "d", "d"]
    rows = pd.DataFrame({"v": [np.nan, 5.0, np.nan, 1.0, 2.0, 4.0]})
    grouped = profile(stub(POSTERIOR, groups=groups), rows)
    assert_array_equal(grouped.tests.loc["v", ["units", "missing"]], [3, 2])
    assert grouped.table.loc[("v", "mean"), "overall"] == 3


def test_variables_without_spread():
    data = pd.DataFrame({"same": [0.1] * 4, "split": [1.0, 1.0, 2.0, 2.0], "one": ["a"] * 4})
    tests = profile(stub(POSTERIOR), data).tests
    assert tests.loc["same", ["statistic", "p value", "effect size"]].isna().all()
    sure = profile(stub(np.eye(2)[[0, 0, 1, 1]]), data).tests
    assert sure.loc["split", ["statistic", "p value", "effect size"]].to_list() == [np.inf, 0, 1]
    assert tests.loc["one", ["statistic", "p value", "effect size"]].isna().all()


def test_far_from_zero_digits_are_kept():
    v = np.array([1.0, 2.0, 3.0, 6.0])
    tests = profile(stub(POSTERIOR), pd.DataFrame({"v": v, "far": v + 1e9})).tests
    assert tests.loc["far", "statistic"] == pytest.approx(tests.loc["v", "statistic"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pd.Series([1.0, 2.0, 3.0, 4.0]), "must be a DataFrame; got Series"),
        (pd.DataFrame(), "data is empty"),
        (pd.DataFrame(index=range(4)), "data is empty"),
        (pd.DataFrame({"shop": list("abcd")}), "data is empty"),
        (pd.DataFrame([[1, 2]] * 4, columns=["v", "v"]), "columns with the same name"),
        (pd.DataFrame({"v": [1.0] * 3}), "lacks 1 of the model's 4 rows, such as 3"),
        (pd.DataFrame({"v": [1.0] * 4}, list("abcd")), "lacks 4 of the model's 4 rows"),
        (pd.DataFrame({"v": [1.0] * 4}, [0, 0, 1, 2]), "lacks 1 of the model's 4 rows"),
        (pd.DataFrame({"v": [np.nan] * 4}), "'v' has no value"),
        (pd.DataFrame({"v": [None] * 4}), "'v' has no value"),
        (pd.DataFrame({"v": [1.0, np.inf, 1.0, 2.0]}), "'v' has infinite values"),
        (pd.DataFrame({"v": pd.date_range("2020-01-01", periods=4)}), "turn them into numbers"),
        (pd.DataFrame({"v": pd.period_range("2020", periods=4, freq="Y")}), "into numbers"),
        (pd.DataFrame({"v": [1j] * 4}), "turn it into numbers"),
    ],
)
def test_errors_of_profile(data, message):
    with pytest.raises(InputError, match=message):
        profile(stub(POSTERIOR), data)


def test_dates_and_durations_are_left_out_of_a_profile(plain_fit, plain_data):
    day = pd.date_range("2020-01-01", periods=len(plain_data))
    data = plain_data[["age", "city"]].assign(
        day=day, wait=day - day[0], month=day.to_period("M"), born=day.date
    )
    found = profile(plain_fit, data)
    assert found.left_out == ("day", "wait", "month", "born")
    expected = profile(plain_fit, plain_data[["age", "city"]])
    assert_frame_equal(found.table, expected.table)
    assert "dates left out: day, wait, month, born" in str(found)
    assert expected.left_out == ()
    assert "dates" not in str(expected)


def test_errors_name_groups(shop_fit):
    with pytest.raises(InputError, match="or index it by the 30 groups"):
        profile(shop_fit, pd.DataFrame({"v": [1.0]}, ["nowhere"]))
    with pytest.raises(InputError, match="lacks 29 of the model's 30 groups, such as 'shop"):
        profile(shop_fit, pd.DataFrame({"v": [1.0]}, ["shop 1"]))


def test_names_are_no_categories():
    res = stub(np.tile(POSTERIOR, (30, 1)))
    with pytest.raises(InputError, match="'name' has 120 levels"):
        profile(res, pd.DataFrame({"name": [f"n{i}" for i in range(120)]}))


def test_profile_prints(plain_fit, plain_data):
    found = profile(plain_fit, plain_data[["age", "city"]].assign(income=10_000 * plain_data.age))
    text = str(found)
    assert repr(found) == text
    for word in (
        "Profile of the segments",
        "big",
        "sd",
        "overall",
        "chi-square",
        "weighted by their posterior",
    ):
        assert word in text
    assert "e+05" not in text
    assert found._repr_html_().count("<table") == 2


# classification


def test_classification_by_hand():
    found = classification(stub(POSTERIOR))
    assert_allclose(found.table, [[0.75, 0.25], [0.1, 0.9]])
    # Component 1 has 1.7 units, 1.5 of them assigned to it; component 2 has 2.3, with 1.8.
    assert_allclose(found.errors, [[1.5 / 1.7, 0.2 / 1.7], [0.5 / 2.3, 1.8 / 2.3]])
    assert found.counts.to_list() == [2, 2]
    assert found.misclassification == pytest.approx(1 - 3.3 / 4)
    assert_allclose(found.by_assigned, [0.25, 0.1])
    assert_allclose(found.by_component, [0.2 / 1.7, 0.5 / 2.3])
    assert (found.table.index.name, found.table.columns.name) == ("assigned", "component")
    assert (found.errors.index.name, found.errors.columns.name) == ("component", "assigned")


def test_classification_of_fits(plain_fit, plain_data, shop_fit):
    for res, posterior in ((plain_fit, plain_fit.posterior), (shop_fit, shop_fit.group_posterior)):
        found = classification(res)
        assert_allclose(found.table.sum(axis=1), 1)
        assert_allclose(found.errors.sum(axis=1), 1)
        assert found.misclassification == pytest.approx(1 - posterior.max(axis=1).mean())
        assert found.counts.sum() == len(posterior)
        assert found.entropy_r2 == res.entropy_r2
    wrong = np.mean(plain_fit.labels != plain_data["z"])
    assert classification(plain_fit).misclassification == pytest.approx(wrong, abs=0.05)


def test_classification_prints(shop_fit):
    found = classification(shop_fit)
    text = str(found)
    assert f"Expected misclassification {found.misclassification:.2%}" in text
    for word in ("entropy R²", "Average posterior", "P(assigned | component)", "units", "error"):
        assert word in text
    assert found._repr_html_().count("<table") == 2


def test_one_component():
    res = MixReg.from_formula("y ~ x1", lines(50), k=1).fit()
    found = classification(res)
    assert found.misclassification == 0
    assert_allclose(found.errors, [[1.0]])
    assert segments(res).loc[1, "certainty"] == 1
    tests = profile(res, lines(50)[["x2", "z"]]).tests
    assert tests["p value"].isna().all()


# importance


@pytest.fixture(scope="module")
def cards() -> pd.DataFrame:
    """Ratings of product cards by two segments, with little noise."""
    rng = np.random.default_rng(5)
    n = 400
    data = pd.DataFrame(
        {
            "brand": rng.choice(["a", "b", "c"], n),
            "green": rng.choice([True, False], n),
            "price": rng.choice([1.0, 2.0, 4.0, 5.0], n),
            "z": np.where(rng.random(n) < 0.6, 1, 2),
        }
    )
    # Ranges: brand 3 and 1, green 2 and 1, price 4 * 0.25 = 1 and 4 * 2 = 8.
    worth = data["brand"].map({"a": 0.0, "b": -1.0, "c": 2.0}) + 2 * data["green"]
    worth -= 0.25 * data["price"]
    other = data["brand"].map({"a": 1.0, "b": 0.5, "c": 0.0}) - 1 * data["green"]
    other += 20 - 2 * data["price"]
    data["y"] = np.where(data["z"] == 1, worth, other) + 0.01 * rng.standard_normal(n)
    return data


def weigh(formula: str, data: pd.DataFrame, **options) -> pd.DataFrame:
    model = MixReg.from_formula(formula, data, k=2, **options)
    return importance(model.fit(init=data["z"].to_numpy(), cov_type="none"))


def test_importance_of_planted_part_worths(cards):
    found = weigh("y ~ brand + green + price", cards)
    assert found.index.to_list() == ["brand", "green", "price"]
    assert found.columns.to_list() == [1, 2, "overall"]
    assert_allclose(found[1], [50, 100 / 3, 50 / 3], atol=0.2)
    assert_allclose(found[2], [10, 10, 80], atol=0.2)
    assert_allclose(found.sum(), 100)
    share = (cards["z"] == 1).mean()
    assert_allclose(found["overall"], share * found[1] + (1 - share) * found[2], rtol=1e-6)
    assert found.attrs["left_out"] == []


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ C(brand, Sum) + C(green, Sum) + price",
        "y ~ C(brand, Treatment('c')) + green + price",
        "y ~ C(brand, Helmert) + green + price",
        "y ~ C(brand, Poly) + C(green, Diff) + price",
        "y ~ 0 + brand + green + price",
        "y ~ 0 + green + C(brand, Sum) + center(price)",
        "y ~ brand + green + I(100 * price)",
    ],
)
def test_importance_does_not_depend_on_coding(cards, formula):
    wanted = weigh("y ~ brand + green + price", cards)
    found = weigh(formula, cards)
    for name in ("brand", "green", "price"):
        (mine,) = [attribute for attribute in found.index if name in attribute]
        assert_allclose(found.loc[mine], wanted.loc[name], rtol=1e-5)


def test_interactions_are_left_out_and_named(cards):
    found = weigh("y ~ brand * price + green", cards)
    assert set(found.index) == {"brand", "price", "green"}
    assert found.attrs["left_out"] == ["brand:price"]


def test_several_columns_of_a_number_are_one_attribute(cards):
    found = weigh("y ~ brand + green + bs(price, df=3)", cards)
    assert found.index[-1] == "bs(price, df=3)"
    assert found.loc["bs(price, df=3)", 1] == pytest.approx(50 / 3, abs=0.2)


def test_rows_of_weight_zero_have_no_range(cards):
    far = cards.assign(price=cards["price"].where(cards.index != 7, 500.0))
    weights = np.where(cards.index == 7, 0.0, 1.0)
    wanted = weigh("y ~ brand + green + price", cards.drop(index=7))
    assert_allclose(weigh("y ~ brand + green + price", far, weights=weights), wanted, rtol=1e-6)


def test_importance_of_arrays():
    data = lines(100)
    exog = np.column_stack([np.ones(100), data["x1"], data["x2"]])
    res = MixReg(data["y"], exog, k=2).fit(n_init=2)
    found = importance(res)
    assert found.index.to_list() == ["x1", "x2"]
    spans = np.ptp(exog[:, 1:], axis=0)[:, None] * res.coefficients.iloc[1:].abs()
    assert_allclose(found[[1, 2]], 100 * spans / spans.sum())


def test_a_column_taken_out_of_the_design_is_a_reference(cards):
    model = MixReg.from_formula("y ~ brand + green + price", cards, k=2)
    res = model.fit(init=cards["z"].to_numpy(), cov_type="none")
    info = patsy.dmatrix("0 + brand + green + price", cards).design_info
    smaller = SimpleNamespace(
        model=SimpleNamespace(
            given=MemorySource(model.source.x[:, 1:], model.source.y),
        ),
        nobs=res.nobs,
        spec=SimpleNamespace(
            design=SimpleNamespace(right=SimpleNamespace(info=info)),
            exog_names=["brand[b]", "brand[c]", "green[T.True]", "price"],
        ),
        coefficients=res.coefficients[1:].set_axis(
            ["brand[b]", "brand[c]", "green[T.True]", "price"]
        ),
        components=res.components,
        weights=res.weights,
    )
    assert_allclose(importance(smaller), importance(res))


def test_no_attributes():
    res = MixReg.from_formula("y ~ 1", lines(60), k=2).fit(n_init=2)
    with pytest.raises(NotAvailableError, match="no main effects"):
        importance(res)


def test_importance_takes_a_dict():
    data = lines(60)
    res = MixReg.from_formula("y ~ x1", data, k=2).fit(n_init=2)
    for wrong, name in ((["x1"], "list"), (data, "DataFrame"), ("x", "str")):
        with pytest.raises(InputError, match=f"attributes must be a dict .*; got a {name}"):
            res.importance(wrong)


def test_a_category_has_one_coding_of_its_own(cards):
    """What `importance` takes for granted about patsy."""
    for formula in ("brand", "0 + brand", "0 + green + brand", "0 + green:brand + brand"):
        info = patsy.dmatrix(formula, cards).design_info
        for term in info.terms:
            if len(term.factors) == 1:
                (coding,) = info.term_codings[term]
                assert coding.contrast_matrices[term.factors[0]].matrix.shape[1] == len(
                    info.column_names[info.term_slices[term]]
                )


# The cheese data


def test_profile_of_cheese(cheese_fit):
    data = datasets.cheese()
    data["chain"] = np.where(data["RETAILER"].str.contains("KROGER"), "KROGER", "other")
    found = profile(cheese_fit, data)
    assert set(found.tests.index) == {"VOLUME", "DISP", "PRICE", "chain"}
    means = data.groupby("RETAILER")["PRICE"].mean()
    assert found.table.loc[("PRICE", "mean"), "overall"] == pytest.approx(means.mean())
    parts = [price for _, price in means.groupby(cheese_fit.group_labels)]
    assert found.tests.loc["PRICE", "p value"] == pytest.approx(
        stats.f_oneway(*parts).pvalue, rel=1e-4
    )
    by_group = profile(cheese_fit, data.groupby("RETAILER")[["VOLUME", "PRICE"]].mean())
    assert_allclose(by_group.table, found.table.loc[["VOLUME", "PRICE"]])
    assert found.tests.loc["chain", "units"] == 88


def test_importance_of_cheese(cheese_fit):
    data, coef = datasets.cheese(), cheese_fit.coefficients.abs()
    display = np.ptp(data["DISP"]) * coef.loc["DISP"]
    price = np.ptp(np.log(data["PRICE"])) * coef.loc["np.log(PRICE)"]
    assert_allclose(
        importance(cheese_fit).loc["DISP", [1, 2, 3]], 100 * display / (display + price)
    )


def test_classification_of_cheese(cheese_fit):
    found = classification(cheese_fit)
    assert found.counts.sum() == 88
    assert found.misclassification < 0.01
    assert_allclose(np.diag(found.errors), 1, atol=0.01)
