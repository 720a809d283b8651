"""A background component for rows that belong to no segment."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gamma, norm, poisson

from mixreg import MixReg, MixRegResults
from mixreg.errors import InputError


def spoilt(n: int = 500, seed: int = 0, share: float = 0.08) -> pd.DataFrame:
    """Two lines and rows that lie anywhere; `label` is the truth, 0 for the latter."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, n)
    label = 1 + (rng.random(n) < 0.4)
    y = np.where(label == 1, 1 + 2 * x, -1 - x) + 0.4 * rng.standard_normal(n)
    odd = rng.random(n) < share
    y = np.where(odd, rng.uniform(-15, 15, n), y)
    return pd.DataFrame({"y": y, "x": x, "label": np.where(odd, 0, label)})


def one_line(n: int = 200, seed: int = 0, share: float = 0.1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    odd = rng.random(n) < share
    y = np.where(odd, rng.uniform(-20, 20, n), 1 + 2 * x + 0.3 * rng.standard_normal(n))
    return pd.DataFrame({"y": y, "x": x, "odd": odd})


def counts(n: int = 500, seed: int = 1) -> pd.DataFrame:
    """Two kinds of counts and amounts, and 7 % that are far too large for either."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    first = rng.random(n) < 0.6
    rate = np.exp(np.where(first, 0.5 + 0.5 * x, 2.3 - 0.4 * x))
    odd = rng.random(n) < 0.07
    count = np.where(odd, rng.integers(45, 100, n), rng.poisson(rate))
    amount = np.where(odd, rng.uniform(45, 100, n), rng.gamma(8.0, rate / 8))
    return pd.DataFrame({"x": x, "count": count, "amount": amount, "odd": odd})


def choices(people: int = 100, careless: int = 10, seed: int = 2) -> pd.DataFrame:
    """Eight choices of three each; some people choose at random."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(1, 3, people)
    kind[:careless] = 0
    taste = np.array([[0.0, 0.0], [2.5, -1.5], [-1.5, 2.5]])[kind]
    attributes = rng.standard_normal((people, 8, 3, 2))
    utility = np.einsum("itap,ip->ita", attributes, taste) + rng.gumbel(size=(people, 8, 3))
    chosen = utility == utility.max(axis=2, keepdims=True)
    who, task, _ = np.indices((people, 8, 3)).reshape(3, -1)
    return pd.DataFrame(
        {
            "id": who,
            "set": 8 * who + task,
            "quality": attributes[..., 0].ravel(),
            "price": attributes[..., 1].ravel(),
            "chosen": chosen.ravel().astype(int),
            "kind": kind[who],
        }
    )


def fit(data: pd.DataFrame, formula: str = "y ~ x", noise: bool = True, **options) -> MixRegResults:
    return MixReg.from_formula(formula, data, noise=noise, **{"k": 2, **options}).fit()


def differences(function, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    return np.array(
        [(function(at + h) - function(at - h)) / (2 * step) for h in step * np.eye(len(at))]
    )


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return spoilt()


@pytest.fixture(scope="module")
def res(data) -> MixRegResults:
    return fit(data)


# Planted truth


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.05, 0.1])
def test_lines_are_recovered_among_odd_rows(seed, share):
    data = spoilt(seed=seed, share=share)
    found, plain = fit(data), fit(data, noise=False)
    assert_allclose(found.coefficients[1], [1, 2], atol=0.12)
    assert_allclose(found.coefficients[2], [-1, -1], atol=0.12)
    assert_allclose(found.scale, 0.4, atol=0.08)
    assert found.weights[0] == pytest.approx((data["label"] == 0).mean(), abs=0.03)
    # Odd rows that fall on a line cannot be told; the others can.
    mean = found.predict(data, "component").to_numpy()
    off = np.abs(data["y"].to_numpy()[:, None] - mean).min(axis=1) > 5 * 0.4
    assert (found.labels[off] == 0).all()
    assert (found.labels[data["label"] == 0] == 0).mean() > 0.6
    assert (found.labels[data["label"] > 0] == 0).mean() < 0.02
    # Without a background, some component has to swallow them.
    assert plain.scale.max() > 3 * found.scale.max()
    assert found.llf > plain.llf + 50


def test_clean_data_have_no_noise(data):
    clean = data[data["label"] > 0]
    found, plain = fit(clean), fit(clean, noise=False)
    assert found.weights[0] < 0.01
    assert found.llf == pytest.approx(plain.llf, abs=1.0)
    assert found.llf > plain.llf - 1e-3
    assert_allclose(found.coefficients, plain.coefficients, atol=0.02)
    assert (found.labels != 0).all()


@pytest.mark.parametrize("init", ["auto", "tensor", "random", "labels", "coefficients"])
def test_every_start_finds_the_lines(data, res, init):
    guess = np.where(data["label"] == 0, 1, data["label"])
    given = {"labels": guess, "coefficients": res.coefficients}
    model = MixReg.from_formula("y ~ x", data, k=2, noise=True)
    assert model.fit(init=given.get(init, init)).llf == pytest.approx(res.llf, abs=1e-6)


def test_a_fit_can_start_from_the_labels_of_another(data, res):
    # Noise has label 0 in what a fit returns.
    model = MixReg.from_formula("y ~ x", data, k=2, noise=True)
    assert model.fit(init=res.labels).llf == pytest.approx(res.llf, abs=1e-6)


def test_hard_labels_with_noise_mean_something_or_are_refused(data):
    model = MixReg.from_formula("y ~ x", data, k=2, noise=True)
    try:
        found = model.fit("altmin")
    except InputError:
        return
    assert (found.labels == 0).any()


# The likelihood


def test_the_log_likelihood_is_that_of_the_formula(data, res):
    mean = res.predict(data, "component").to_numpy()
    y = data["y"].to_numpy()
    density = norm.pdf(y[:, None], mean, res.scale.to_numpy())
    density = np.column_stack([density, np.full(len(y), 1 / (y.max() - y.min()))])
    joint = density * res.weights.to_numpy()
    assert np.log(joint.sum(axis=1)).sum() == pytest.approx(res.llf, rel=1e-12)
    assert res.model.loglike(res.params) == pytest.approx(res.llf, rel=1e-12)
    assert_allclose(res.posterior, joint / joint.sum(axis=1, keepdims=True), atol=1e-12)


MODELS = {
    "gaussian": ("y ~ x", {}),
    "equal variance": ("y ~ x", {"equal_variance": True}),
    "shared": ("y ~ x", {"shared": ["Intercept"]}),
    "concomitant": ("y ~ x", {"concomitant": "~ z"}),
    "groups": ("y ~ x", {"groups": "g"}),
    "weights": ("y ~ x", {"weights": "w"}),
    "one component": ("y ~ x", {"k": 1}),
}


@pytest.mark.parametrize("name", MODELS)
def test_noise_goes_with_everything_else(name):
    formula, options = MODELS[name]
    rng = np.random.default_rng(3)
    data = spoilt(300, seed=4)
    n = len(data)
    data = data.assign(z=rng.standard_normal(n), w=rng.integers(1, 3, n), g=np.arange(n) // 2)
    found = fit(data, formula, **options)
    model = found.model
    assert found.converged
    assert found.classes.to_list() == [*range(1, found.k + 1), 0]
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.df_model == fit(data, formula, noise=False, **options).df_model + (
        2 if name == "concomitant" else 1
    )
    at = found.params.to_numpy() + 0.03 * rng.standard_normal(len(found.params))
    assert model.loglike(found.params) == pytest.approx(found.llf, rel=1e-12)
    assert np.abs(model.score(found.params) * np.minimum(found.bse, 1e2)).max() < 1e-2
    score, hessian = model.score(at), model.hessian(at)
    limit = 1e-6 * np.abs(score).max()
    assert_allclose(score, differences(model.loglike, at), rtol=1e-5, atol=limit)
    limit = 1e-6 * np.abs(hessian).max()
    assert_allclose(hessian, differences(model.score, at), rtol=1e-5, atol=limit)


@pytest.mark.parametrize("cov_type", ["opg", "robust"])
def test_other_standard_errors(data, res, cov_type):
    model = MixReg.from_formula("y ~ x", data, k=2, noise=True)
    bse = model.fit(cov_type=cov_type, init=res.coefficients).bse
    assert_allclose(bse, res.bse, rtol=0.5)


def test_the_scale_of_the_response_does_not_matter(data, res):
    moved = fit(data.assign(y=100 * data["y"] + 7))
    assert_array_equal(moved.labels, res.labels)
    assert_allclose(moved.posterior, res.posterior, atol=1e-7)
    assert moved.llf == pytest.approx(res.llf - len(data) * np.log(100), abs=1e-6)
    assert_allclose(moved.scale, 100 * res.scale, rtol=1e-6)
    flipped = fit(data.assign(y=-data["y"]))
    assert_array_equal(flipped.labels, res.labels)


def test_an_offset_that_a_slope_can_undo_does_not_matter(data, res):
    # Noise spreads over the range of the response, not of what an offset leaves of it.
    found = fit(data.assign(known=5 * data["x"]), offset="known")
    assert found.llf == pytest.approx(res.llf, abs=1e-6)
    assert_allclose(found.coefficients.loc["x"], res.coefficients.loc["x"] - 5, atol=1e-5)


def test_rows_that_do_not_count_do_not_stretch_the_background(data):
    far = pd.DataFrame({"y": [1e6], "x": [0.0], "label": [0], "w": [0.0]})
    counted = data.assign(w=1.0)
    found = fit(pd.concat([counted, far], ignore_index=True), weights="w")
    expected = fit(counted, weights="w")
    assert found.llf == pytest.approx(expected.llf, abs=1e-6)
    assert_allclose(found.weights, expected.weights, rtol=1e-6)


def test_case_weights_are_repeated_rows(data):
    w = np.random.default_rng(5).integers(1, 4, len(data))
    weighted = fit(data.assign(w=w), weights="w")
    repeated = fit(data.loc[data.index.repeat(w)].reset_index(drop=True))
    assert weighted.llf == pytest.approx(repeated.llf, abs=1e-6)
    assert_allclose(weighted.params, repeated.params, rtol=1e-5)


def test_lines_without_errors_are_found_among_odd_rows():
    data = spoilt(seed=6)
    exact = np.where(data["label"] == 1, 1 + 2 * data["x"], -1 - data["x"])
    found = fit(data.assign(y=np.where(data["label"] == 0, data["y"], exact)))
    assert_allclose(found.coefficients, [[1, -1], [2, -1]], atol=1e-6)
    assert_array_equal(found.labels == 0, data["label"] == 0)
    assert np.isfinite(found.llf)


# One component


@pytest.mark.parametrize("seed", range(4))
def test_one_component_and_noise_is_a_robust_regression(seed):
    data = one_line(seed=seed)
    found = fit(data, k=1)
    assert_allclose(found.coefficients[1], [1, 2], atol=0.08)
    assert found.scale[1] == pytest.approx(0.3, abs=0.06)
    assert found.weights.index.to_list() == [1, 0]
    assert found.weights[0] == pytest.approx(data["odd"].mean(), abs=0.04)
    assert found.df_model == 4
    assert found.params.index.to_list()[-1] == "logit(weight)[noise]"
    assert fit(data, k=1, noise=False).scale[1] > 5 * found.scale[1]
    assert 0 <= found.entropy_r2 <= 1


def test_one_component_survives_many_odd_rows():
    data = one_line(seed=7, share=0.4)
    assert_allclose(fit(data, k=1).coefficients[1], [1, 2], atol=0.15)


# Reports


def test_names_and_shapes(data, res):
    assert res.weights.index.to_list() == [1, 2, 0]
    assert res.posterior.columns.to_list() == [1, 2, 0]
    assert res.posterior.shape == (len(data), 3)
    assert_allclose(res.posterior.sum(axis=1), 1.0)
    assert res.coefficients.columns.to_list() == [1, 2]
    assert res.scale.index.to_list() == [1, 2]
    assert set(res.labels) == {0, 1, 2}
    assert res.params.index.to_list()[-2:] == ["logit(weight)[2]", "logit(weight)[noise]"]
    assert res.df_model == 8
    logit = np.log(res.weights[0] / res.weights[1])
    assert res.params["logit(weight)[noise]"] == pytest.approx(logit)


def test_components_are_ordered_by_weight_and_noise_is_last():
    # Noise is more than the smaller component here.
    data = spoilt(800, seed=8, share=0.45)
    found = fit(data)
    assert found.weights[1] > found.weights[2]
    assert found.weights[0] > found.weights[2]
    assert found.classes.to_list() == [1, 2, 0]
    assert_allclose(found.coefficients[1], [1, 2], atol=0.15)


def test_the_summary_has_a_row_for_noise(res):
    text = res.summary().as_text()
    assert "2 and noise" in text
    row = next(line.split() for line in text.splitlines() if line.startswith("Noise "))
    assert float(row[1]) == pytest.approx(res.weights[0], abs=1e-3)
    low, high = float(row[3]), float(row[4])
    assert 0 < low < res.weights[0] < high < 1
    assert row[5] == "-"
    assert int(row[6]) == int((res.labels == 0).sum())
    assert "Component 0" not in text
    widths = {len(line) for line in text.splitlines() if line and set(line) == {"="}}
    assert len(widths) == 1


def test_the_standard_error_of_the_share_of_noise(res):
    names = ["logit(weight)[2]", "logit(weight)[noise]"]
    share = res.weights[0]
    slope = np.array([-share * res.weights[2], share * (1 - share)])
    cov = res.cov_params().loc[names, names].to_numpy()
    text = res.summary().as_text()
    row = next(line.split() for line in text.splitlines() if line.startswith("Noise "))
    assert float(row[2]) == pytest.approx(np.sqrt(slope @ cov @ slope), abs=1e-3)


def test_new_rows_can_be_noise(data, res):
    assert_allclose(res.predict(data, "posterior"), res.posterior, atol=1e-12)
    assert_array_equal(res.predict(data, "label"), res.labels)
    placed = res.assign(pd.DataFrame({"x": [0.0, 0.0], "y": [12.0, 1.0]}))
    assert placed["component"].to_list() == [0, 1]
    assert placed.columns.to_list() == ["component", "certainty", "p1", "p2", "p0"]
    prior = res.predict(data[["x"]].head(3), "posterior")
    assert_allclose(prior, np.tile(res.weights, (3, 1)))


def test_expected_responses_are_those_of_the_components(data, res):
    each = res.predict(data, "component")
    assert each.columns.to_list() == [1, 2]
    share = res.weights[[1, 2]] / res.weights[[1, 2]].sum()
    assert_allclose(res.predict(data), each @ share, rtol=1e-10, atol=1e-12)


def test_simulated_noise_spreads_over_the_range(data, res):
    drawn = pd.concat([res.simulate(seed) for seed in range(8)])
    odd = drawn[drawn["component"] == 0]["y"]
    assert len(odd) / len(drawn) == pytest.approx(res.weights[0], abs=0.02)
    assert odd.min() >= data["y"].min()
    assert odd.max() <= data["y"].max()
    assert np.abs(odd.mean() - (data["y"].min() + data["y"].max()) / 2) < 2
    again = MixReg.from_formula("y ~ x", data.assign(y=res.simulate(1)["y"]), k=2, noise=True)
    assert_allclose(again.fit().coefficients, res.coefficients, atol=0.15)


def test_segments_list_noise_without_coefficients(res):
    table = res.segments()
    assert table.index.to_list() == [1, 2, 0]
    assert table.loc[0, ["Intercept", "x"]].isna().all()
    assert table["size"].sum() == res.nobs
    assert "misclassification" in repr(res.classification())


# Other families


def test_poisson_noise_spreads_over_the_counts():
    data = counts()
    found = fit(data, "count ~ x", family="poisson")
    assert_allclose(found.coefficients[1], [0.5, 0.5], atol=0.2)
    assert_allclose(found.coefficients[2], [2.3, -0.4], atol=0.2)
    assert (found.labels[data["odd"]] == 0).mean() > 0.95
    assert (found.labels[~data["odd"]] == 0).mean() < 0.05
    mean = found.predict(data, "component").to_numpy()
    density = poisson.pmf(data["count"].to_numpy()[:, None], mean)
    even = np.full(len(data), 1 / (data["count"].max() + 1))
    joint = np.column_stack([density, even]) @ found.weights.to_numpy()
    assert np.log(joint).sum() == pytest.approx(found.llf, rel=1e-12)
    # Without a background one component is spent on the large counts.
    plain = fit(data, "count ~ x", noise=False, family="poisson")
    assert plain.coefficients.loc["Intercept"].max() > 3.5


def test_gamma_noise_spreads_over_the_amounts():
    data = counts()
    found = fit(data, "amount ~ x", family="gamma", link="log")
    assert_allclose(found.coefficients[1], [0.5, 0.5], atol=0.2)
    assert_allclose(found.coefficients[2], [2.3, -0.4], atol=0.2)
    assert (found.labels[data["odd"]] == 0).mean() > 0.95
    assert (found.labels[~data["odd"]] == 0).mean() < 0.05
    mean, shape = found.predict(data, "component").to_numpy(), 1 / found.scale.to_numpy()
    density = gamma.pdf(data["amount"].to_numpy()[:, None], shape, scale=mean / shape)
    even = np.full(len(data), 1 / data["amount"].max())
    joint = np.column_stack([density, even]) @ found.weights.to_numpy()
    assert np.log(joint).sum() == pytest.approx(found.llf, rel=1e-12)


@pytest.mark.parametrize("noise", [False, True])
def test_the_default_link_of_gamma_regressions_does_not_crash(noise):
    # With the inverse link a line may leave the positive half for some rows.
    found = fit(counts(), "amount ~ x", noise=noise, family="gamma")
    assert np.isfinite(found.llf)


def test_careless_people_are_noise_among_choices():
    data = choices()
    found = fit(data, "chosen ~ quality + price", family="choice", groups="id", choice_set="set")
    kind = data.groupby("id")["kind"].first()
    assert (found.group_labels[kind == 0] == 0).mean() > 0.5
    assert (found.group_labels[kind > 0] == 0).mean() < 0.05
    for j in (1, 2):
        names = [f"quality[{j}]", f"price[{j}]"]
        truth = [2.5, -1.5] if found.params[names[0]] > 0 else [-1.5, 2.5]
        assert (np.abs(found.params[names] - truth) < 3 * found.bse[names]).all()
    assert found.weights[0] == pytest.approx(0.1, abs=0.06)
    # A careless person takes one of three, eight times over.
    chosen = data["chosen"] == 1
    shares = found.predict(data, "component")[chosen].groupby(data["id"][chosen]).prod()
    joint = np.column_stack([shares, np.full(len(shares), 3.0**-8)]) @ found.weights.to_numpy()
    assert np.log(joint).sum() == pytest.approx(found.llf, rel=1e-10)
    plain = fit(
        data,
        "chosen ~ quality + price",
        noise=False,
        family="choice",
        groups="id",
        choice_set="set",
    )
    # Carelessness draws tastes towards zero.
    assert plain.coefficients.abs().to_numpy().sum() < found.coefficients.abs().to_numpy().sum()


def test_binomial_noise_makes_every_number_as_likely():
    rng = np.random.default_rng(9)
    n = 400
    x = rng.standard_normal(n)
    first, odd = rng.random(n) < 0.6, rng.random(n) < 0.1
    chance = 1 / (1 + np.exp(-np.where(first, 1.5 + x, -1.5 - x)))
    yes = np.where(odd, rng.integers(0, 31, n), rng.binomial(30, chance))
    data = pd.DataFrame({"yes": yes, "no": 30 - yes, "x": x})
    found = fit(data, "yes + no ~ x", family="binomial")
    assert_allclose(found.coefficients[1], [1.5, 1], atol=0.2)
    assert_allclose(found.coefficients[2], [-1.5, -1], atol=0.2)
    assert found.weights[0] == pytest.approx(odd.mean(), abs=0.05)
    assert found.model.loglike(found.params) == pytest.approx(found.llf, rel=1e-12)


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_one_component_and_noise_in_other_families(family):
    data = counts()
    rng = np.random.default_rng(10)
    rate = np.exp(0.5 + 0.5 * data["x"])
    clean = rng.poisson(rate) if family == "poisson" else rng.gamma(8.0, rate / 8)
    spoilt_rows = data["count"] if family == "poisson" else data["amount"]
    table = data.assign(y=np.where(data["odd"], spoilt_rows, clean))
    found = fit(table, k=1, family=family, link="log")
    assert_allclose(found.coefficients[1], [0.5, 0.5], atol=0.1)
    assert_array_equal(found.labels == 0, data["odd"])


# Groups


def test_whole_groups_are_noise():
    rng = np.random.default_rng(11)
    kind = rng.integers(1, 3, 90)
    kind[:8] = 0
    code = rng.permutation(np.repeat(np.arange(90), 6))
    x = rng.standard_normal(540)
    y = np.where(kind[code] == 1, 1 + 2 * x, -1 - x) + 0.5 * rng.standard_normal(540)
    y = np.where(kind[code] == 0, rng.uniform(-7, 7, 540), y)
    found = fit(pd.DataFrame({"shop": code, "x": x, "y": y}), groups="shop")
    assert (found.group_labels[found.group_labels.index < 8] == 0).all()
    assert (found.group_labels[found.group_labels.index >= 8] > 0).all()
    assert found.weights[0] == pytest.approx(8 / 90, abs=1e-3)
    sizes = found.group_posterior.shape
    assert sizes == (90, 3)
    row = next(
        line.split() for line in found.summary().as_text().splitlines() if line.startswith("Noise ")
    )
    assert row[-2:] == ["48", "8"]


@pytest.mark.parametrize("size", [1e6, 1e9, 1e12, -1e15])
def test_a_response_that_is_very_far_out_is_noise_and_nothing_else(size):
    data = spoilt(share=0.0)
    data.loc[3, "y"] = size
    model = MixReg.from_formula("y ~ x", data, k=2, noise=True)
    found, good = model.fit(), model.fit(init=data["label"])
    assert found.llf == pytest.approx(good.llf, abs=1e-5)
    assert_allclose(found.coefficients[1], [1.0, 2.0], atol=0.15)
    assert_allclose(found.coefficients[2], [-1.0, -1.0], atol=0.15)
    assert found.labels[3] == 0
    by_hand = gaussian_log_likelihood(found, data)
    assert found.llf == pytest.approx(by_hand, abs=1e-6)
    other = MixReg.from_formula("y ~ x", data.assign(y=data["y"] / 1e3), k=2, noise=True).fit()
    assert other.llf == pytest.approx(found.llf + len(data) * np.log(1e3), abs=1e-5)


def gaussian_log_likelihood(found: MixRegResults, data: pd.DataFrame) -> float:
    """By the formula, at the estimates."""
    mean = found.predict(data, which="component")
    parts = [found.weights[j] * norm.pdf(data["y"], mean[j], found.scale[j]) for j in (1, 2)]
    length = data["y"].max() - data["y"].min()
    return float(np.log(sum(parts) + found.weights[0] / length).sum())


def test_one_of_several_responses_may_be_very_far_out():
    data = spoilt(share=0.0)
    data["other"] = data["y"] * 3 + np.random.default_rng(4).standard_normal(len(data))
    data.loc[3, "y"], data.loc[5, "other"] = 1e12, -1e13
    model = MixReg.from_formula(["y ~ x", "other ~ x"], data, k=2, noise=True)
    found, good = model.fit(), model.fit(init=data["label"])
    assert found.llf == pytest.approx(good.llf, abs=1e-5)
    assert found.labels[[3, 5]].tolist() == [0, 0]
