"""Rows and groups whose component is known."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from numpy.testing import assert_allclose, assert_array_equal

from mixreg import MixReg, MixRegResults
from mixreg.errors import DegenerateFitWarning, InputError


def lines(n: int = 400, seed: int = 0, noise: float = 0.5) -> pd.DataFrame:
    """Two lines; the first, `label` 1, has the smaller share."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    label = 1 + (rng.random(n) < 0.65)
    y = np.where(label == 1, 1 + 2 * x, -1 - x) + noise * rng.standard_normal(n)
    rate = np.exp(np.where(label == 1, 0.5 + 0.4 * x, 2.2 - 0.4 * x))
    return pd.DataFrame({"y": y, "x": x, "label": label, "count": rng.poisson(rate)})


def few(data: pd.DataFrame, count: int = 6, seed: int = 1) -> pd.Series:
    """The true labels of some rows of each component, missing elsewhere."""
    picked = data.groupby("label").sample(count, random_state=seed).index
    return data["label"].astype(float).where(data.index.isin(picked))


def shops(seed: int = 2) -> pd.DataFrame:
    """Groups of 4 rows in scattered order; the first kind of shop is the rarer."""
    rng = np.random.default_rng(seed)
    kind = 1 + (rng.random(60) < 0.65)
    code = np.repeat(np.arange(60), 4)
    x = rng.standard_normal(240)
    y = np.where(kind[code] == 1, 1 + 2 * x, -1 - x) + 0.8 * rng.standard_normal(240)
    table = pd.DataFrame({"shop": [f"shop {c}" for c in code], "x": x, "y": y, "kind": kind[code]})
    return table.iloc[rng.permutation(240)]


def fit(data: pd.DataFrame, known, formula: str = "y ~ x", **options) -> MixRegResults:
    return MixReg.from_formula(formula, data, known_labels=known, **{"k": 2, **options}).fit()


def swapped(labels):
    """The same with the numbers of two components exchanged."""
    return 3 - labels


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return lines()


@pytest.fixture(scope="module")
def known(data) -> pd.Series:
    return few(data)


@pytest.fixture(scope="module")
def res(data, known) -> MixRegResults:
    return fit(data, known)


# Pins and numbers


def test_known_labels_are_kept(data, known, res):
    there = known.notna()
    assert_array_equal(res.labels[there], known[there])
    posterior = res.posterior[there].to_numpy()
    assert_array_equal(posterior[np.arange(len(posterior)), known[there].astype(int) - 1], 1.0)
    # The others are uncertain still.
    assert res.posterior[~there].max(axis=1).min() < 0.99


def test_a_label_is_kept_even_where_the_response_speaks_against_it(data):
    known = few(data)
    odd = data.index[(data["label"] == 2) & (data["x"].abs() > 1)][0]
    known[odd] = 1.0
    res = fit(data, known)
    assert res.labels[odd] == 1
    assert res.posterior.loc[odd, 1] == 1.0
    # Without the pin the row would go to the other component.
    assert res.assign(data.loc[[odd]])["component"].item() == 2


def test_components_have_the_numbers_given(data, known):
    first, second = fit(data, known), fit(data, swapped(known))
    assert_allclose(first.coefficients[1], [1, 2], atol=0.2)
    assert_allclose(second.coefficients[2], [1, 2], atol=0.2)
    assert first.llf == pytest.approx(second.llf, abs=1e-7)
    assert_allclose(first.coefficients[1], second.coefficients[2], rtol=1e-6)
    assert_allclose(first.weights[1], second.weights[2], rtol=1e-6)
    # Not by weight: the first is the smaller here.
    assert first.weights[1] < first.weights[2]
    assert second.weights[1] > second.weights[2]


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("init", ["auto", "tensor", "random", "labels", "coefficients"])
def test_numbers_hold_whatever_the_start(data, known, init, exchange):
    # Labels and coefficients are numbered by someone who did not know the numbers given.
    given = {
        "labels": data["label"].to_numpy(),
        "coefficients": np.array([[1.0, 2.0], [-1.0, -1.0]]),
    }
    labels = swapped(known) if exchange else known
    model = MixReg.from_formula("y ~ x", data, k=2, known_labels=labels)
    found = model.fit(init=given.get(init, init))
    assert found.llf == pytest.approx(fit(data, known).llf, abs=1e-6)
    assert_array_equal(found.labels[labels.notna()], labels.dropna())
    assert_allclose(found.coefficients[2 if exchange else 1], [1, 2], atol=0.2)


@pytest.mark.parametrize("exchange", [False, True])
def test_numbers_hold_for_hard_labels(data, known, exchange):
    labels = swapped(known) if exchange else known
    found = MixReg.from_formula("y ~ x", data, k=2, known_labels=labels).fit("altmin")
    assert_array_equal(found.labels[labels.notna()], labels.dropna())
    assert_allclose(found.coefficients[2 if exchange else 1], [1, 2], atol=0.25)


def test_one_known_label_resolves_the_numbers(data):
    row = data.index[data["label"] == 1][3]
    for number in (1, 2):
        known = pd.Series(np.nan, data.index)
        known[row] = number
        found = fit(data, known)
        assert_allclose(found.coefficients[number], [1, 2], atol=0.2)


def test_labels_of_one_component_only(data, known):
    found = fit(data, known.where(known == 2))
    assert_allclose(found.coefficients[2], [-1, -1], atol=0.2)


def test_three_components_by_number():
    rng = np.random.default_rng(3)
    x, label = rng.standard_normal(600), rng.integers(1, 4, 600)
    y = np.array([0, 4, -4])[label - 1] + np.array([2, -1, 1])[label - 1] * x
    data = pd.DataFrame({"y": y + 0.5 * rng.standard_normal(600), "x": x, "label": label})
    for order in ([1, 2, 3], [3, 1, 2], [2, 3, 1]):
        numbers = data["label"].map(dict(zip([1, 2, 3], order, strict=True)))
        known = numbers.astype(float).where(data.index < 20)
        found = fit(data, known, k=3)
        for truth, number in zip(([0, 2], [4, -1], [-4, 1]), order, strict=True):
            assert_allclose(found.coefficients[number], truth, atol=0.25)


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("row", range(6))
def test_large_data_keep_the_numbers_too(row, exchange):
    # Starts are compared on a sample of large data, which may miss the rows with labels.
    data = lines(20_000, seed=5)
    known = np.full(len(data), np.nan)
    known[[row, -1 - row]] = data["label"].iloc[[row, -1 - row]]
    known = swapped(known) if exchange else known
    found = MixReg.from_formula("y ~ x", data, k=2, known_labels=known).fit(n_init=1)
    assert_allclose(found.coefficients[2 if exchange else 1], [1, 2], atol=0.1)


# What is fitted


def test_the_log_likelihood_counts_only_the_known_component(data, known, res):
    x = np.column_stack([np.ones(len(data)), data["x"]])
    mean = x @ res.coefficients.to_numpy()
    sigma, weight = res.scale.to_numpy(), res.weights.to_numpy()
    gap = (data["y"].to_numpy()[:, None] - mean) / sigma
    joint = weight * np.exp(-0.5 * gap**2) / (sigma * np.sqrt(2 * np.pi))
    for j in (1, 2):
        joint[(known.notna() & (known != j)).to_numpy(), j - 1] = 0.0
    assert np.log(joint.sum(axis=1)).sum() == pytest.approx(res.llf, rel=1e-12)
    assert res.model.loglike(res.params) == pytest.approx(res.llf, rel=1e-12)
    assert_allclose(res.posterior, joint / joint.sum(axis=1, keepdims=True), atol=1e-12)
    # At the maximum, weights are averages of the posterior, known labels included.
    assert_allclose(res.weights, res.posterior.mean(), rtol=1e-6)


def test_derivatives_are_those_of_the_likelihood(res):
    at = res.params.to_numpy() + 0.05
    steps = 1e-6 * np.eye(len(at))
    score = [(res.model.loglike(at + h) - res.model.loglike(at - h)) / 2e-6 for h in steps]
    hessian = [(res.model.score(at + h) - res.model.score(at - h)) / 2e-6 for h in steps]
    assert_allclose(res.model.score(at), score, rtol=1e-5, atol=1e-3)
    assert_allclose(res.model.hessian(at), hessian, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("method", ["em", "altmin"])
@pytest.mark.parametrize("exchange", [False, True])
def test_all_labels_known_is_a_regression_for_each(data, method, exchange):
    labels = swapped(data["label"]) if exchange else data["label"]
    model = MixReg.from_formula("y ~ x", data, k=2, known_labels=labels)
    found = model.fit(method)
    for j in (1, 2):
        part = data[labels == j]
        ols = smf.ols("y ~ x", part).fit()
        assert_allclose(found.coefficients[j], ols.params, rtol=1e-8)
        assert found.scale[j] == pytest.approx(np.sqrt(ols.ssr / len(part)), rel=1e-8)
        assert found.weights[j] == pytest.approx(len(part) / len(data), rel=1e-8)
        scale = np.sqrt(ols.df_resid / ols.nobs)
        assert_allclose(found.bse[[f"Intercept[{j}]", f"x[{j}]"]], ols.bse * scale, rtol=1e-6)
    share = found.weights
    assert found.bse["logit(weight)[2]"] == pytest.approx(
        1 / np.sqrt(len(data) * share[1] * share[2]), rel=1e-6
    )
    assert found.entropy == pytest.approx(0.0, abs=1e-12)
    assert_array_equal(found.labels, labels)


def test_all_labels_known_is_a_glm_for_each(data):
    found = fit(data, data["label"], "count ~ x", family="poisson")
    for j in (1, 2):
        part = data[data["label"] == j]
        glm = smf.glm("count ~ x", part, family=sm.families.Poisson()).fit()
        assert_allclose(found.coefficients[j], glm.params, rtol=1e-6)
        assert_allclose(found.bse[[f"Intercept[{j}]", f"x[{j}]"]], glm.bse, rtol=1e-5)


def test_known_labels_make_estimates_more_certain():
    data = lines(noise=1.5)
    unknown, some = fit(data, few(data, 1)), fit(data, few(data, 80))
    names = ["x[1]", "x[2]", "logit(weight)[2]"]
    assert (some.bse[names] < unknown.bse[names]).all()


def test_labels_that_agree_with_the_fit_change_little(data):
    plain = fit(data, None)
    certain = plain.posterior.max(axis=1) > 0.999
    found = fit(data, plain.labels.astype(float).where(certain))
    assert_allclose(found.coefficients, plain.coefficients, atol=1e-2)
    assert_allclose(found.weights, plain.weights, atol=1e-2)


COMBINATIONS = {
    "poisson": ("count ~ x", {"family": "poisson"}),
    "equal variance": ("y ~ x", {"equal_variance": True}),
    "shared": ("y ~ x + z", {"shared": ["z"]}),
    "concomitant": ("y ~ x", {"concomitant": "~ z"}),
    "weights": ("y ~ x", {"weights": "w"}),
    "noise": ("y ~ x", {"noise": True}),
}


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("name", COMBINATIONS)
def test_known_labels_go_with_everything_else(data, known, name, exchange):
    formula, options = COMBINATIONS[name]
    rng = np.random.default_rng(8)
    table = data.assign(z=rng.standard_normal(len(data)), w=rng.integers(1, 3, len(data)))
    labels = swapped(known) if exchange else known
    found = fit(table, labels, formula, **options)
    assert_array_equal(found.labels[labels.notna()], labels.dropna())
    truth = [0.5, 0.4] if "count" in formula else [1, 2]
    mine = found.coefficients.loc[["Intercept", "x"], 2 if exchange else 1]
    assert_allclose(mine, truth, atol=0.35)
    assert found.model.loglike(found.params) == pytest.approx(found.llf, rel=1e-12)


# Noise has label 0


def noisy(data: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Some rows far off, two of them known to be noise, and some known labels."""
    rng = np.random.default_rng(9)
    table = data.copy()
    odd = data.index[:30]
    table.loc[odd, "y"] = rng.uniform(-20, 20, 30)
    known = few(data)
    known.loc[odd] = np.nan
    known.loc[[0, 1]] = 0.0
    return table, known


@pytest.mark.parametrize("init", ["auto", "tensor", "random", "labels", "coefficients"])
def test_noise_can_be_known(data, init):
    table, known = noisy(data)
    given = {"labels": data["label"].to_numpy(), "coefficients": np.array([[1, 2], [-1, -1.0]])}
    model = MixReg.from_formula("y ~ x", table, k=2, known_labels=known, noise=True)
    found = model.fit(init=given.get(init, init))
    assert_array_equal(found.labels[known.notna()], known.dropna())
    assert_array_equal(found.posterior.loc[[0, 1], 0], 1.0)
    assert_allclose(found.coefficients[1], [1, 2], atol=0.25)
    assert found.weights[0] == pytest.approx(30 / 400, abs=0.03)


def test_known_noise_holds_for_hard_labels_or_is_refused(data):
    table, known = noisy(data)
    model = MixReg.from_formula("y ~ x", table, k=2, known_labels=known, noise=True)
    try:
        found = model.fit("altmin")
    except InputError:
        return
    assert_array_equal(found.labels[known.notna()], known.dropna())


# Ways to give them


def test_columns_arrays_and_lists_are_the_same(data, known, res):
    as_list = [None if np.isnan(v) else int(v) for v in known]
    whole = known.astype("Int64")
    x = np.column_stack([np.ones(len(data)), data["x"]])
    for found in (
        fit(data.assign(known=known), "known"),
        fit(data, known.to_numpy()),
        fit(data, as_list),
        fit(data.assign(known=whole), "known"),
        MixReg(data["y"], x, 2, known_labels=known.to_numpy()).fit(),
    ):
        assert found.llf == pytest.approx(res.llf, abs=1e-8)
        assert_array_equal(found.labels, res.labels)


def test_rows_that_are_dropped_take_their_labels_with_them(data, known):
    table = data.copy()
    gone = known.dropna().index[0]
    table.loc[gone, "y"] = np.nan
    found = fit(table, known)
    expected = fit(data.drop(index=gone), known.drop(index=gone))
    assert found.llf == pytest.approx(expected.llf, abs=1e-8)
    chosen = fit(data, known, subset="x > -1")
    kept = data["x"] > -1
    assert chosen.llf == pytest.approx(fit(data[kept], known[kept]).llf, abs=1e-8)


def test_the_summary_says_how_many_labels_were_known(res):
    assert "Labels of 12 rows or groups were known" in res.summary().as_text()


def test_new_rows_are_placed_by_their_responses(data, res):
    placed = res.assign(data.head(20))
    assert placed["component"].between(1, 2).all()
    assert_allclose(placed[["p1", "p2"]].sum(axis=1), 1.0)


# Groups


def test_a_dict_names_groups():
    data = shops()
    kinds = data.groupby("shop")["kind"].first()
    names = [*kinds[kinds == 1].index[:2], *kinds[kinds == 2].index[:2]]
    for exchange in (False, True):
        labels = {name: int(swapped(kinds[name]) if exchange else kinds[name]) for name in names}
        found = fit(data, labels, groups="shop")
        assert found.group_labels[names].to_dict() == labels
        assert (found.group_posterior.loc[names].max(axis=1) == 1.0).all()
        assert_allclose(found.coefficients[2 if exchange else 1], [1, 2], atol=0.3)
        assert "Labels of 4 rows or groups" in found.summary().as_text()


def test_a_dict_is_an_array_with_one_label_a_group():
    data = shops()
    labels = {"shop 3": 2, "shop 7": 1, "shop 11": 2}
    by_dict = fit(data, labels, groups="shop")
    by_array = fit(data, data["shop"].map(labels).to_numpy(), groups="shop")
    assert by_dict.llf == by_array.llf
    as_category = fit(data.astype({"shop": "category"}), labels, groups="shop")
    assert as_category.llf == pytest.approx(by_dict.llf, abs=1e-8)
    missing = fit(data, {**labels, "shop 20": np.nan}, groups="shop")
    assert missing.llf == by_dict.llf


def test_all_groups_known_is_a_regression_for_each():
    data = shops()
    found = fit(data, data.groupby("shop")["kind"].first().to_dict(), groups="shop")
    for j in (1, 2):
        ols = smf.ols("y ~ x", data[data["kind"] == j]).fit()
        assert_allclose(found.coefficients[j], ols.params, rtol=1e-8)
    share = data.groupby("shop")["kind"].first().value_counts(normalize=True)
    assert_allclose(found.weights, share.sort_index(), rtol=1e-8)


# Errors


def test_a_conflict_within_a_group_names_the_group():
    data = shops()
    labels = data["kind"].astype(float).where(data["shop"] == "shop 5")
    labels.loc[labels.dropna().index[0]] = swapped(labels.dropna().iloc[0])
    with pytest.raises(InputError, match="known_labels vary within group 'shop 5'"):
        fit(data, labels, groups="shop")


@pytest.mark.parametrize("value", [3, 0, -1, 1.5, "second"])
def test_a_label_out_of_range_names_the_row(data, value):
    labels = pd.Series([None] * len(data), data.index, dtype=object)
    labels[17] = value
    with pytest.raises(InputError, match=r"in row 17; allowed are 1\.\.2") as raised:
        fit(data, labels)
    assert re.search(rf"known_labels is '?{value}", str(raised.value))


@pytest.mark.parametrize("value", [3, 0])
def test_a_number_out_of_range_is_shown_as_it_was_given(data, value):
    labels = np.full(len(data), np.nan)
    labels[17] = value
    with pytest.raises(InputError, match=rf"known_labels is {value}(\.0)? in row 17"):
        fit(data, labels)


def test_a_group_with_a_label_out_of_range_is_named():
    with pytest.raises(InputError, match=r"known_labels is 7 in row .* \(group 'shop 1'\); allow"):
        fit(shops(), {"shop 1": 7}, groups="shop")


def test_with_noise_zero_is_a_label(data):
    labels = np.full(len(data), np.nan)
    labels[17] = 3
    with pytest.raises(InputError, match=r"allowed are 0\.\.2"):
        fit(data, labels, noise=True)


def test_labels_that_say_nothing_are_refused(data):
    with pytest.raises(InputError, match="known_labels names no rows that are used"):
        fit(data, np.full(len(data), np.nan))
    with pytest.raises(InputError, match="known_labels"):
        fit(shops(), {}, groups="shop")
    table = shops()
    table = table.assign(y=table["y"].where(table["shop"] != "shop 1"))
    with pytest.raises(InputError, match="known_labels names no groups that are used"):
        fit(table, {"shop 1": 1}, groups="shop")


def test_labels_of_another_length_are_refused(data):
    with pytest.raises(InputError, match="known_labels has length 399"):
        fit(data, np.ones(399))


def test_a_dict_needs_groups_that_exist(data):
    with pytest.raises(InputError, match="needs groups"):
        fit(data, {"shop 1": 1})
    with pytest.raises(InputError, match=r"does not have.*nowhere"):
        fit(shops(), {"nowhere": 1}, groups="shop")


def test_a_component_that_no_row_may_join_is_pointed_out(data):
    with pytest.warns(DegenerateFitWarning, match="component 2 stayed empty"):
        found = fit(data, np.ones(len(data)))
    assert found.weights[1] == pytest.approx(1.0)
    assert_allclose(found.coefficients[1], smf.ols("y ~ x", data).fit().params, rtol=1e-6)


def test_one_component_with_known_labels(data, known):
    found = fit(data, known.where(known == 1), k=1)
    assert found.llf == pytest.approx(smf.ols("y ~ x", data).fit().llf)


@pytest.mark.parametrize("method", ["em", "altmin", "vb"])
def test_labels_of_groups_that_do_not_count_number_nothing(method):
    table = shops()
    table["weight"] = np.where(table["shop"].isin(["shop 0", "shop 1"]), 0.0, 1.0)
    labels = {"shop 0": 2, "shop 1": 1}
    model = MixReg.from_formula(
        "y ~ x", table, k=2, groups="shop", weights="weight", known_labels=labels
    )
    plain = MixReg.from_formula("y ~ x", table, k=2, groups="shop", weights="weight")
    found, without = model.fit(method=method), plain.fit(method=method)
    assert_allclose(found.coefficients, without.coefficients, rtol=1e-8)
    assert_array_equal(found.group_labels[list(labels)], [2, 1])
    others = without.group_labels.index.difference(list(labels))
    assert_array_equal(found.group_labels[others], without.group_labels[others])


def test_a_bootstrap_may_leave_out_all_known_labels():
    table = shops()
    found = fit(table, {"shop 0": 1}, groups="shop")
    drawn = found.bootstrap(6, kind="group", seed=1, n_jobs=1, n_init=1)
    assert np.isfinite(drawn.draws).all().all()
