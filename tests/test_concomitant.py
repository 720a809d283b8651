"""Class probabilities that depend on concomitant variables."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from scipy.stats import norm

from mixreg import MixReg, MixRegResults
from mixreg.errors import InputError, NotAvailableError
from mixreg.report.summary import weight_errors
from tests.reference.concomitant import GateReference, gate_cases

GATED = [ref for ref in gate_cases() if ref.concomitant is not None]


def people(n: int = 500, seed: int = 0) -> pd.DataFrame:
    """Two lines; the old and the rich are more often on the second. `label` is the truth."""
    rng = np.random.default_rng(seed)
    age, income, x = rng.uniform(20, 70, n), rng.lognormal(0, 0.5, n), rng.standard_normal(n)
    sex = rng.choice(["f", "m"], n)
    utility = -0.6 + 0.08 * (age - 45) + 0.8 * (income - 1)
    label = 1 + (rng.random(n) < 1 / (1 + np.exp(-utility)))
    y = np.where(label == 1, 1 + 2 * x, -1 - x) + 0.4 * rng.standard_normal(n)
    count = rng.poisson(np.exp(np.where(label == 1, 0.5 + 0.4 * x, 2.2 - 0.4 * x)))
    return pd.DataFrame(
        {"y": y, "x": x, "age": age, "income": income, "sex": sex, "label": label, "count": count}
    )


def apart(n: int = 400, k: int = 2, seed: int = 1) -> pd.DataFrame:
    """Lines so far apart that labels are certain."""
    rng = np.random.default_rng(seed)
    age, x = rng.uniform(20, 70, n), rng.standard_normal(n)
    male = rng.integers(0, 2, n)
    slopes = np.array([[0.0, 0.0], [-0.4, 0.05], [-1.0, -0.06]])[:k]
    prior = softmax(slopes[:, 0] + np.outer(age - 45, slopes[:, 1]), axis=1)
    code = (prior.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    y = 40.0 * code + x * (1 + code) + 0.3 * rng.standard_normal(n)
    return pd.DataFrame({"y": y, "x": x, "age": age, "male": male})


def shops(seed: int = 2) -> pd.DataFrame:
    """Groups in scattered order, whose label depends on the `size` of the shop."""
    rng = np.random.default_rng(seed)
    count = 120
    code = np.repeat(np.arange(count), rng.integers(3, 8, count))
    size = rng.standard_normal(count)
    label = 1 + (rng.random(count) < 1 / (1 + np.exp(0.4 - 1.5 * size)))
    x = rng.standard_normal(len(code))
    y = np.where(label[code] == 1, 1 + x, -x) + 0.7 * rng.standard_normal(len(code))
    table = pd.DataFrame({"shop": [f"shop {c}" for c in code], "size": size[code], "x": x, "y": y})
    return table.iloc[rng.permutation(len(table))]


def fit(data: pd.DataFrame, concomitant: str | None = "~ age + income", **options) -> MixRegResults:
    options = {"k": 2, "formula": "y ~ x", **options}
    formula = options.pop("formula")
    return MixReg.from_formula(formula, data, concomitant=concomitant, **options).fit()


def prior_by_hand(res: MixRegResults, z: np.ndarray) -> np.ndarray:
    """Class probabilities of rows z, in the order of `res.classes`."""
    return softmax(z @ res.gate.to_numpy(), axis=1)


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="module")
def res(data) -> MixRegResults:
    return fit(data)


@pytest.fixture(scope="module")
def grouped() -> MixRegResults:
    return fit(shops(), "~ size", groups="shop")


# Against R


@pytest.fixture(scope="module")
def as_in_r():
    """Fit every case once, when it is first asked for."""
    known: dict[str, MixRegResults] = {}

    def fitted(ref: GateReference) -> MixRegResults:
        if ref.case not in known:
            model = MixReg.from_formula(
                ref.formula,
                ref.data(),
                k=ref.k,
                family=ref.family,
                groups=ref.groups,
                concomitant=ref.concomitant,
            )
            known[ref.case] = model.fit()
        return known[ref.case]

    return fitted


@pytest.mark.parametrize("ref", GATED, ids=str)
def test_the_log_likelihood_is_that_of_the_maximum_next_to_rs_fit(ref, as_in_r):
    res = as_in_r(ref)
    assert (res.nobs, res.df_model) == (ref.n, ref.df)
    assert res.llf == pytest.approx(ref.llf, rel=1e-10, abs=1e-6)
    assert res.llf > ref.flexmix_llf - 1e-6


@pytest.mark.parametrize("ref", GATED, ids=str)
def test_estimates_are_those_of_r(ref, as_in_r):
    res = as_in_r(ref)
    assert_allclose(res.coefficients.loc[list(ref.terms)].T, ref.ml.coefficients, rtol=1e-4)
    assert_allclose(res.gate.loc[list(ref.gate_terms)].T[1:], ref.ml.gate, rtol=1e-4)
    assert_array_equal(res.gate[1], 0.0)
    assert_allclose(res.weights, ref.weights, rtol=1e-5)
    if ref.family == "gaussian":
        assert_allclose(np.log(res.scale), ref.ml.log_sigma, rtol=1e-4)


@pytest.mark.parametrize("ref", GATED, ids=str)
@pytest.mark.parametrize(("kind", "rtol"), [("se", 1e-3), ("refit_se", 2e-2)])
def test_standard_errors_are_those_of_r(ref, kind, rtol, as_in_r):
    res, expected = as_in_r(ref), getattr(ref, kind)
    bse = res.bse
    for j in range(1, ref.k + 1):
        mine = bse[[f"{term}[{j}]" for term in ref.terms]]
        assert_allclose(mine, expected.coefficients[j - 1], rtol=rtol)
        if ref.family == "gaussian":
            assert bse[f"log(sigma)[{j}]"] == pytest.approx(expected.log_sigma[j - 1], rel=rtol)
        if j > 1:
            mine = bse[[f"gate.{term}[{j}]" for term in ref.gate_terms]]
            assert_allclose(mine, expected.gate[j - 2], rtol=rtol)


# Estimates


def test_planted_truth_is_recovered(res):
    truth = {1: (1.0, 2.0), 2: (-1.0, -1.0)}
    # The second line has the smaller share, so that numbers are those of the truth.
    for j in (1, 2):
        assert_allclose(res.coefficients[j], truth[j], atol=0.15)
    gate = {"Intercept": -0.6 - 0.08 * 45 - 0.8, "age": 0.08, "income": 0.8}
    for term, value in gate.items():
        name = f"gate.{term}[2]"
        assert abs(res.params[name] - value) < 3 * res.bse[name]
    assert res.pvalues["gate.age[2]"] < 1e-6


def test_three_components_have_two_gates():
    data = apart(600, k=3)
    found = fit(data, "~ age", k=3)
    assert found.gate.shape == (2, 3)
    names = [f"gate.{term}[{j}]" for j in (2, 3) for term in ("Intercept", "age")]
    assert found.params.index[-4:].to_list() == names
    assert found.df_model == 3 * 3 + 2 * 2


@pytest.mark.parametrize("method", ["em", "altmin"])
def test_with_certain_labels_the_gate_is_a_logit_of_the_labels(method):
    data = apart()
    found = MixReg.from_formula("y ~ x", data, k=2, concomitant="~ age + male").fit(method)
    z = sm.add_constant(data[["age", "male"]])
    logit = sm.Logit((found.labels == 2).astype(float), z).fit(disp=0)
    assert_allclose(found.gate[2], logit.params, rtol=1e-6)
    names = [f"gate.{term}[2]" for term in ("Intercept", "age", "male")]
    assert_allclose(found.bse[names], logit.bse, rtol=1e-6)


def test_with_certain_labels_the_gate_of_three_is_a_multinomial_logit():
    data = apart(500, k=3)
    found = fit(data, "~ age + male", k=3)
    z = sm.add_constant(data[["age", "male"]])
    logit = sm.MNLogit(found.labels - 1, z).fit(disp=0)
    assert_allclose(found.gate[[2, 3]], logit.params, rtol=1e-6)
    assert_allclose(found.bse[-6:], logit.bse.to_numpy().T.ravel(), rtol=1e-6)


def test_an_exact_fit_has_a_gate_too():
    data = apart()
    data["y"] = np.where(data["y"] > 20, 40 + 2 * data["x"], data["x"])
    found = fit(data, "~ age")
    assert found.solution.exact
    logit = sm.Logit((found.labels == 2).astype(float), sm.add_constant(data["age"])).fit(disp=0)
    assert_allclose(found.gate[2], logit.params, rtol=1e-6)
    assert_allclose(found.bse[-2:], logit.bse, rtol=1e-6)


def test_altmin_finishes_the_gate(data):
    # Labels settle before a gate that takes one step a pass has.
    found = MixReg.from_formula("y ~ x", data, k=2, concomitant="~ age").fit("altmin")
    logit = sm.Logit((found.labels == 2).astype(float), sm.add_constant(data["age"])).fit(disp=0)
    assert_allclose(found.gate[2], logit.params, rtol=1e-6)


def test_a_constant_concomitant_is_no_concomitant(data):
    with_one, without = fit(data, "~ 1"), fit(data, None)
    assert with_one.llf == pytest.approx(without.llf, abs=1e-8)
    assert_allclose(with_one.weights, without.weights, rtol=1e-6)
    assert_allclose(with_one.params, without.params, rtol=1e-6, atol=1e-8)
    assert_allclose(with_one.bse, without.bse, rtol=1e-6)
    assert with_one.df_model == without.df_model
    assert with_one.params.index[-1] == "gate.Intercept[2]"


def test_an_irrelevant_concomitant_changes_little(data):
    rng = np.random.default_rng(0)
    without = fit(data, None)
    found = fit(data.assign(nothing=rng.standard_normal(len(data))), "~ nothing")
    # Twice the gain is a chi-square with one degree of freedom.
    assert -1e-6 < found.llf - without.llf < 5
    assert abs(found.tvalues["gate.nothing[2]"]) < 3.2


@pytest.mark.parametrize(("factor", "shift"), [(1e6, 0.0), (1e-6, 0.0), (1.0, 1e4), (-3.0, 7.0)])
def test_the_scale_of_a_concomitant_does_not_matter(data, res, factor, shift):
    moved = data.assign(age=factor * data["age"] + shift)
    found = fit(moved)
    assert found.llf == pytest.approx(res.llf, abs=1e-6)
    assert_allclose(found.posterior, res.posterior, atol=1e-6)
    name = "gate.age[2]"
    assert found.params[name] * factor == pytest.approx(res.params[name], rel=1e-5)
    assert found.bse[name] * abs(factor) == pytest.approx(res.bse[name], rel=1e-5)
    assert found.tvalues["gate.income[2]"] == pytest.approx(res.tvalues["gate.income[2]"], rel=1e-5)


def test_the_order_of_rows_does_not_matter(data, res):
    found = fit(data.sample(frac=1, random_state=0))
    assert_allclose(found.params, res.params, rtol=1e-7)
    assert_array_equal(found.labels.reindex(data.index), res.labels)


def test_categories_are_coded_as_in_a_formula(data):
    found = fit(data, "~ sex")
    assert found.gate.index.to_list() == ["Intercept", "sex[T.m]"]
    other = fit(data, "~ 0 + sex")
    assert found.llf == pytest.approx(other.llf, abs=1e-7)
    assert other.gate.loc["sex[m]", 2] == pytest.approx(found.gate[2].sum(), rel=1e-5)


def test_a_transformed_concomitant_is_made_again_for_new_rows(data):
    found = fit(data, "~ center(np.log(income))")
    new = data.head(20)
    assert_allclose(found.predict(new, "posterior"), found.posterior.head(20), atol=1e-12)


def test_a_regressor_may_be_a_concomitant(data):
    found = fit(data, "~ x + age")
    assert found.model.param_names[-3:] == [f"gate.{t}[2]" for t in ("Intercept", "x", "age")]


@pytest.mark.parametrize("init", ["auto", "tensor", "random", "labels", "coefficients"])
def test_every_start_finds_the_same_gate(data, res, init):
    given = {"labels": data["label"].to_numpy(), "coefficients": res.coefficients}
    model = MixReg.from_formula("y ~ x", data, k=2, concomitant="~ age + income")
    assert model.fit(init=given.get(init, init)).llf == pytest.approx(res.llf, abs=1e-6)


@pytest.mark.parametrize("concomitant", ["~ 0 + age", "~ age"])
def test_components_are_ordered_by_average_weight(data, concomitant):
    found = fit(data, concomitant)
    assert found.weights.is_monotonic_decreasing


def test_weights_are_averages_of_the_class_probabilities(data, res):
    z = np.column_stack([np.ones(len(data)), data["age"], data["income"]])
    assert_allclose(res.weights, prior_by_hand(res, z).mean(axis=0), rtol=1e-10)
    # With a constant, the score equations make them averages of the posterior.
    assert_allclose(res.weights, res.posterior.mean(), rtol=1e-6)
    assert res.weights.sum() == pytest.approx(1.0)


def test_the_log_likelihood_is_that_of_the_formula(data, res):
    z = np.column_stack([np.ones(len(data)), data["age"], data["income"]])
    mean = np.column_stack([np.ones(len(data)), data["x"]]) @ res.coefficients.to_numpy()
    density = norm.pdf(data["y"].to_numpy()[:, None], mean, res.scale.to_numpy())
    joint = prior_by_hand(res, z) * density
    assert np.log(joint.sum(axis=1)).sum() == pytest.approx(res.llf, rel=1e-12)
    assert_allclose(res.posterior, joint / joint.sum(axis=1, keepdims=True), atol=1e-12)
    assert res.model.loglike(res.params) == pytest.approx(res.llf, rel=1e-12)


COMBINATIONS = {
    "gaussian": {},
    "equal variance": {"equal_variance": True},
    "poisson": {"formula": "count ~ x", "family": "poisson"},
    "shared": {"shared": ["x"]},
    "noise": {"noise": True},
    "weights": {"weights": "w"},
    "known": {"known_labels": "known"},
    "all": {
        "formula": "count ~ x",
        "family": "poisson",
        "noise": True,
        "shared": ["x"],
        "weights": "w",
        "known_labels": "known",
    },
}


def differences(function, at: np.ndarray) -> np.ndarray:
    steps = 1e-6 * np.maximum(1.0, np.abs(at)) * np.eye(len(at))
    return np.array([(function(at + h) - function(at - h)) / (2 * h.sum()) for h in steps])


@pytest.mark.parametrize("name", COMBINATIONS)
def test_gates_go_with_everything_else(name):
    data = people(300, seed=4)
    rng = np.random.default_rng(5)
    known = data["label"].where(rng.random(len(data)) < 0.1)
    data = data.assign(old=data["age"] / 10 - 4.5, w=rng.integers(0, 3, len(data)), known=known)
    found = fit(data, "~ old + sex", **COMBINATIONS[name])
    model, at = found.model, found.params.to_numpy()
    assert found.converged
    assert model.loglike(at) == pytest.approx(found.llf, rel=1e-12)
    # At the maximum; a gate that runs off to infinity has no information left.
    assert np.abs(model.score(at) * np.minimum(found.bse, 1e3)).max() < 1e-2
    aside = at + 0.02 * rng.standard_normal(len(at))
    score = model.score(aside)
    limit = 1e-5 * np.abs(score).max()
    assert_allclose(score, differences(model.loglike, aside), rtol=1e-4, atol=limit)
    hessian = model.hessian(aside)
    limit = 1e-5 * np.abs(hessian).max()
    assert_allclose(hessian, differences(model.score, aside), rtol=1e-4, atol=limit)
    assert found.posterior.sum(axis=1).to_numpy() == pytest.approx(1.0)
    assert "Who is in component 2" in found.summary().as_text()


def test_case_weights_are_repeated_rows(data):
    rng = np.random.default_rng(6)
    w = rng.integers(1, 4, len(data))
    weighted = fit(data.assign(w=w), weights="w")
    repeated = fit(data.loc[data.index.repeat(w)].reset_index(drop=True))
    assert weighted.llf == pytest.approx(repeated.llf, abs=1e-6)
    assert_allclose(weighted.params, repeated.params, rtol=1e-5)
    assert_allclose(weighted.bse, repeated.bse, rtol=1e-5)
    assert_allclose(weighted.weights, repeated.weights, rtol=1e-6)
    # Whatever is averaged over units counts them with their weights.
    assert_allclose(weight_errors(weighted), weight_errors(repeated), rtol=1e-5)
    columns = ["size", "share", "mixing weight", "certainty"]
    assert_allclose(weighted.segments()[columns], repeated.segments()[columns], rtol=1e-5)
    one = data[["x"]].head(1)
    assert_allclose(
        weighted.predict(one, concomitant="average"),
        repeated.predict(one, concomitant="average"),
        rtol=1e-5,
    )


@pytest.mark.parametrize("cov_type", ["oim", "opg", "robust"])
def test_gates_have_standard_errors_of_every_kind(data, res, cov_type):
    model = MixReg.from_formula("y ~ x", data, k=2, concomitant="~ age + income")
    bse = model.fit(cov_type=cov_type, init=res.coefficients).bse
    assert_allclose(bse[-3:], res.bse[-3:], rtol=0.3)


def test_with_one_component_concomitants_say_nothing(data):
    found, without = fit(data, k=1), fit(data, None, k=1)
    assert found.llf == pytest.approx(without.llf, abs=1e-9)
    assert found.df_model == without.df_model == 3
    assert found.weights.to_list() == [1.0]
    assert found.params.index.to_list() == without.params.index.to_list()
    assert "Who is in" not in found.summary().as_text()
    assert_allclose(found.predict(data.head(3)), without.predict(data.head(3)))


def test_one_component_and_noise_have_a_gate():
    rng = np.random.default_rng(7)
    n = 400
    age, x = rng.uniform(20, 70, n), rng.standard_normal(n)
    odd = rng.random(n) < 1 / (1 + np.exp(6 - 0.1 * age))
    y = np.where(odd, rng.uniform(-10, 10, n), 1 + 2 * x + 0.3 * rng.standard_normal(n))
    found = fit(pd.DataFrame({"y": y, "x": x, "age": age}), "~ age", k=1, noise=True)
    assert found.gate.columns.to_list() == [1, 0]
    assert found.params.index[-1] == "gate.age[noise]"
    assert abs(found.params["gate.age[noise]"] - 0.1) < 3 * found.bse["gate.age[noise]"]
    assert "Who is in noise" in found.summary().as_text()


# Reports


def numbers_below(text: str, title: str) -> dict[str, list[float]]:
    """Rows of the table under a title, by their first word."""
    lines = text[text.index(title) :].splitlines()
    begin = next(i for i, line in enumerate(lines) if line and set(line) == {"-"})
    rows = {}
    for line in lines[begin + 1 :]:
        found = re.match(r"(\S+)((?:\s+\S+)+)$", line.strip())
        if found is None or set(line.strip()) == {"="} or not found[2].split()[0][-1].isdigit():
            break
        rows[found[1]] = [float(number) for number in found[2].split()]
    return rows


def test_the_summary_has_odds_ratios(res):
    text = res.summary().as_text()
    assert "Average weights" in text
    header = text[text.index("Who is in component 2, against component 1") :].splitlines()[2]
    assert header.split() == ["coef", "std", "err", "z", "P>|z|", "[0.025", "0.975]", "OR"]
    rows = numbers_below(text, "Who is in component 2")
    assert list(rows) == ["Intercept", "age", "income"]
    bounds = res.conf_int()
    for term, (coef, se, z, p, low, high, ratio) in rows.items():
        name = f"gate.{term}[2]"
        value = res.params[name]
        assert coef == pytest.approx(value, abs=1e-4)
        assert se == pytest.approx(res.bse[name], abs=1e-3)
        assert z == pytest.approx(res.tvalues[name], abs=1e-3)
        assert p == pytest.approx(res.pvalues[name], abs=1e-3)
        assert (low, high) == pytest.approx(tuple(bounds.loc[name]), abs=1e-3)
        assert ratio == pytest.approx(np.exp(value), abs=1e-4)


def test_intervals_of_the_gate_follow_alpha(res):
    text = res.summary(alpha=0.2).as_text()
    row = numbers_below(text, "Who is in component 2")["age"]
    assert row[4:6] == pytest.approx(res.conf_int(0.2).loc["gate.age[2]"].to_list(), abs=1e-3)


def test_all_tables_of_the_summary_are_as_wide(res):
    lines = res.summary().as_text().splitlines()
    assert len({len(line) for line in lines if line and set(line) == {"="}}) == 1


def test_the_summary_without_standard_errors(data):
    model = MixReg.from_formula("y ~ x", data, k=2, concomitant="~ age")
    found = model.fit(cov_type="none")
    text = found.summary().as_text()
    line = next(row for row in text[text.index("Who is in") :].splitlines() if "age" in row)
    assert line.split()[2:7] == ["-"] * 5
    assert float(line.split()[7]) == pytest.approx(np.exp(found.params["gate.age[2]"]), abs=1e-4)


def test_other_formats_have_the_gate(res):
    summary = res.summary()
    for text in (summary.as_html(), summary.as_csv()):
        assert "Who is in component 2" in text
    # Titles are not in statsmodels' LaTeX, but the numbers are.
    assert "OR" in summary.as_latex()


def test_average_weights_have_standard_errors_by_the_delta_method(data, res):
    model, at = res.model, res.params.to_numpy()
    z = np.column_stack([np.ones(len(data)), data["age"], data["income"]])

    def share(vector: np.ndarray) -> float:
        gate = np.column_stack([np.zeros(3), vector[-3:]])
        return float(softmax(z @ gate, axis=1)[:, 1].mean())

    slope = differences(share, at)
    expected = np.sqrt(slope @ res.cov_params().to_numpy() @ slope)
    row = numbers_below(res.summary().as_text().replace("Component 2", "Component_2"), "Average")
    assert model.layout.size == len(at)
    assert row["Component_2"][1] == pytest.approx(expected, abs=1e-3)


def test_hypotheses_about_the_gate_use_its_names(res):
    test = res.t_test("gate.age[2] = 0.08")
    expected = (res.params["gate.age[2]"] - 0.08) / res.bse["gate.age[2]"]
    assert float(np.squeeze(test.tvalue)) == pytest.approx(expected)
    joint = res.wald_test("gate.age[2] = 0, gate.income[2] = 0")
    names = ["gate.age[2]", "gate.income[2]"]
    v, cov = res.params[names], res.cov_params().loc[names, names]
    assert float(joint.statistic) == pytest.approx(float(v @ np.linalg.solve(cov, v)))


def test_the_gate_of_a_constant_prior_is_not_there(data):
    with pytest.raises(NotAvailableError, match="concomitant"):
        _ = fit(data, None).gate


def test_a_separated_gate_is_pointed_out():
    # All of one sex are on one line: the coefficient runs off to infinity.
    data = apart().assign(same=lambda t: (t["y"] > 20).astype(float))
    found = fit(data, "~ same")
    text = found.summary().as_text()
    assert re.search("infinit|separat|not determine", text)


# Predictions


def test_new_rows_use_their_own_concomitants(data, res):
    new = data[["x", "age", "income"]].head(30)
    z = np.column_stack([np.ones(30), new["age"], new["income"]])
    prior = prior_by_hand(res, z)
    assert_allclose(res.predict(new, "posterior"), prior, atol=1e-12)
    assert_array_equal(res.predict(new, "label"), 1 + prior.argmax(axis=1))
    each = res.predict(new, "component").to_numpy()
    assert_allclose(res.predict(new), (each * prior).sum(axis=1), atol=1e-12)
    assert_allclose(res.predict(data), res.predict(), atol=1e-12)


def test_new_rows_with_responses_use_both(data, res):
    assert_allclose(res.predict(data, "posterior"), res.posterior, atol=1e-12)
    placed = res.assign(data.head(10))
    assert_allclose(placed[["p1", "p2"]], res.posterior.head(10), atol=1e-12)
    assert_array_equal(placed["component"], res.labels.head(10))
    # The same response says something else about the young and the old.
    young, old = data.head(10).assign(age=20.0), data.head(10).assign(age=70.0)
    later = res.assign(old)["p2"] - res.assign(young)["p2"]
    assert (later >= 0).all()
    assert later.max() > 0.1


def test_new_rows_may_have_average_probabilities(data, res):
    average = {"concomitant": "average"}
    found = res.predict(data[["x"]].head(5), "posterior", **average)
    assert_allclose(found, np.tile(res.weights, (5, 1)), rtol=1e-12)
    each = res.predict(data[["x"]].head(5), "component")
    mean = res.predict(data[["x"]].head(5), **average)
    assert_allclose(mean, each.to_numpy() @ res.weights.to_numpy())
    with_response = res.predict(data[["x", "y"]], "posterior", **average).to_numpy()
    density = norm.pdf(
        data["y"].to_numpy()[:, None],
        res.predict(data[["x"]], "component").to_numpy(),
        res.scale.to_numpy(),
    )
    joint = density * res.weights.to_numpy()
    assert_allclose(with_response, joint / joint.sum(axis=1, keepdims=True), atol=1e-10)


@pytest.mark.parametrize("which", ["mean", "posterior", "label"])
def test_new_rows_without_a_concomitant_are_refused(data, res, which):
    with pytest.raises(InputError, match=r"lack the concomitant age; .*concomitant='average'"):
        res.predict(data.drop(columns="age").head(5), which)


@pytest.mark.parametrize("columns", [["x", "age", "income"], ["x", "age", "income", "y"]])
def test_a_new_row_without_one_concomitant_leaves_the_others_alone(data, res, columns):
    new = data[columns].head(6).copy()
    expected = res.predict(new, "posterior").to_numpy()
    new.loc[new.index[2], "age"] = np.nan
    found = res.predict(new, "posterior").to_numpy()
    others = [0, 1, 3, 4, 5]
    assert_allclose(found[others], expected[others], atol=1e-12)
    assert np.isnan(found[2]).all() or found[2].sum() == pytest.approx(1.0)


def test_a_category_never_seen_is_refused(data):
    found = fit(data, "~ sex")
    new = data.head(3).assign(sex=["f", "m", "unknown"])
    with pytest.raises(InputError, match=r"levels of column 'sex' .*: 'unknown'"):
        found.predict(new, "posterior")


def test_a_concomitant_of_another_type_is_refused(data):
    found = fit(data, "~ age")
    with pytest.raises(InputError, match="age"):
        found.predict(data.head(3).assign(age=["a", "b", "c"]), "posterior")


def test_simulated_labels_depend_on_concomitants(data, res):
    drawn = pd.concat([res.simulate(seed)["component"] for seed in range(5)])
    share = (drawn == 2).groupby(data["age"].reindex(drawn.index) > 45).mean()
    assert share[True] > share[False] + 0.3


# Groups


def test_groups_count_once_in_the_gate(grouped):
    data = shops()
    first = data.groupby("shop", sort=False)["size"].first()
    z = np.column_stack([np.ones(len(first)), first])
    assert_allclose(grouped.weights, prior_by_hand(grouped, z).mean(axis=0), rtol=1e-10)
    assert_allclose(grouped.weights, grouped.group_posterior.mean(), rtol=1e-6)
    clear = grouped.group_posterior.max(axis=1).mean()
    assert clear > 0.95
    logit = sm.Logit((grouped.group_labels == 2).astype(float).to_numpy(), z).fit(disp=0)
    assert_allclose(grouped.gate[2], logit.params, rtol=0.1, atol=0.1)
    assert_allclose(grouped.bse[-2:], logit.bse, rtol=0.2)


def test_the_first_group_with_varying_concomitants_is_named():
    data = shops().reset_index(drop=True)
    order = data["shop"].unique()
    for shop in (order[40], order[17]):
        row = data.index[data["shop"] == shop][1]
        data.loc[row, "size"] += 1.0
    with pytest.raises(InputError, match=f"concomitants vary within group '{order[17]}'"):
        fit(data, "~ size", groups="shop")


def test_new_rows_of_a_known_group_keep_what_is_known(grouped):
    data = shops()
    new = data[["shop", "size", "x"]].head(8)
    assert_allclose(grouped.predict(new, "posterior"), grouped.posterior.head(8), atol=1e-12)
    other = grouped.predict(new.assign(shop="another"), "posterior")
    z = np.column_stack([np.ones(8), new["size"]])
    assert_allclose(other, prior_by_hand(grouped, z), atol=1e-12)


def test_rows_of_a_group_without_its_concomitant_are_dropped():
    data = shops().reset_index(drop=True)
    data.loc[3, "size"] = np.nan
    assert fit(data, "~ size", groups="shop").nobs == len(data) - 1


# Missing and odd values


def test_rows_without_a_concomitant_are_dropped(data):
    holes = data.copy()
    holes.loc[3:10, "age"] = np.nan
    found, expected = fit(holes, "~ age"), fit(data.drop(index=range(3, 11)), "~ age")
    assert found.nobs == len(data) - 8
    assert found.llf == pytest.approx(expected.llf, abs=1e-8)
    assert 5 not in found.labels.index


def test_missing_categories_are_dropped_too(data):
    holes = data.copy()
    holes.loc[[1, 2], "sex"] = None
    assert fit(holes, "~ sex + age").nobs == len(data) - 2


def test_missing_concomitants_can_be_refused(data):
    holes = data.copy()
    holes.loc[3, "age"] = np.nan
    with pytest.raises(InputError, match=r"1 rows have missing values.*age"):
        fit(holes, "~ age", missing="raise")


def grown(age):
    """Age of adults; missing for the others."""
    return np.where(age >= 30, age, np.nan)


def endless(age):
    """Age, and infinity beyond 65."""
    return np.where(age > 65, np.inf, age)


def test_rows_that_a_transform_makes_missing_are_dropped(data):
    assert fit(data, "~ grown(age)").nobs == int((data["age"] >= 30).sum())


def test_infinite_concomitants_are_refused(data):
    with pytest.raises(InputError, match="infinite"):
        fit(data, "~ endless(age)")


def test_a_concomitant_may_be_an_array_of_the_caller(data):
    years = data["age"].to_numpy()
    expected = fit(data, "~ age")
    model = MixReg.from_formula("y ~ x", data, k=2, concomitant="~ years")
    assert model.fit().llf == pytest.approx(expected.llf, abs=1e-8)
    assert len(years) == model.nobs


def test_an_array_of_the_caller_loses_the_rows_that_the_data_lose(data):
    years = data["age"].to_numpy()
    holes = data.copy()
    holes.loc[5, "y"] = np.nan
    model = MixReg.from_formula("y ~ x", holes, k=2, concomitant="~ years")
    assert model.nobs == len(years) - 1
    expected = MixReg.from_formula("y ~ x", holes, k=2, concomitant="~ age")
    assert_array_equal(model.source.z, expected.source.z)


def test_a_subset_applies_to_concomitants(data):
    found = fit(data, "~ age", subset="x > -1")
    expected = fit(data[data["x"] > -1], "~ age")
    assert found.llf == pytest.approx(expected.llf, abs=1e-9)


@pytest.mark.parametrize("hole", ["y", "age"])
def test_without_data_missing_values_are_dropped(data, hole):
    columns = {name: data[name].to_numpy().copy() for name in ("y", "x", "age")}
    columns[hole][4] = np.nan
    y, x, age = columns["y"], columns["x"], columns["age"]
    found = MixReg.from_formula("y ~ x", k=2, concomitant="~ age").fit()
    assert found.nobs == len(y) - 1 == len(x) - 1 == len(age) - 1
    assert found.llf == pytest.approx(fit(data.drop(index=4), "~ age").llf, abs=1e-8)


# Errors


@pytest.mark.parametrize(
    ("concomitant", "message"),
    [
        ("~ agee", "did you mean 'age'"),
        ("label ~ age", "has a left side"),
        ("~ age +", "cannot be read"),
        ("~ age + I(2 * age)", "combination of"),
        ("~ 0", "concomitant"),
        (["age", "income"], "concomitant"),
    ],
    ids=str,
)
def test_formulas_that_cannot_be(data, concomitant, message):
    with pytest.raises(InputError, match=message):
        fit(data, concomitant)


# Arrays


@pytest.fixture(scope="module")
def arrays(data) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ones = np.ones(len(data))
    x = np.column_stack([ones, data["x"]])
    return data["y"].to_numpy(), x, np.column_stack([ones, data["age"], data["income"]])


@pytest.fixture(scope="module")
def by_arrays(arrays) -> MixRegResults:
    y, x, z = arrays
    return MixReg(y, x, 2, concomitant=z).fit()


def test_arrays_give_the_same_fit(by_arrays, res):
    assert by_arrays.llf == pytest.approx(res.llf, abs=1e-8)
    assert_allclose(by_arrays.gate, res.gate, rtol=1e-6, atol=1e-12)


def test_columns_of_an_array_are_numbered(by_arrays):
    assert by_arrays.gate.index.to_list() == ["const", "z1", "z2"]


def test_a_frame_gives_its_names(data, arrays):
    y, x, _ = arrays
    model = MixReg(y, x, 2, concomitant=data[["age"]].assign(one=1.0))
    assert model.param_names[-2:] == ["gate.age[2]", "gate.one[2]"]


def test_a_series_keeps_its_name(data, arrays):
    y, x, _ = arrays
    model = MixReg(y, x, 2, concomitant=data["age"].rename("xp"))
    assert model.param_names[-1] == "gate.xp[2]"


def test_rows_of_an_array_with_missing_concomitants_are_dropped(data, arrays):
    y, x, z = arrays
    holes = z.copy()
    holes[[3, 9], 1] = np.nan
    assert MixReg(y, x, 2, concomitant=holes).fit().nobs == len(y) - 2


def test_regressors_are_not_taken_for_concomitants(data, arrays):
    # Two regressors and two concomitants: new rows have only the former.
    y, x, z = arrays
    found = MixReg(y, x, 2, concomitant=z[:, :2]).fit()
    assert_allclose(
        found.predict(x[:4], "posterior", concomitant="average"),
        np.tile(found.weights, (4, 1)),
        rtol=1e-10,
    )
    names = pd.DataFrame(x[:4], columns=["one", "x"])
    named = MixReg(y, pd.DataFrame(x, columns=["one", "x"]), 2, concomitant=z[:, :2]).fit()
    assert_allclose(
        named.predict(names, "posterior", concomitant="average"),
        np.tile(named.weights, (4, 1)),
        rtol=1e-10,
    )


def test_concomitants_of_new_arrays_can_be_given(arrays, by_arrays):
    _, x, z = arrays
    found = by_arrays.predict(x[:5], "posterior", concomitant=z[:5])
    assert_allclose(found, prior_by_hand(by_arrays, z[:5]), atol=1e-12)


def test_a_new_frame_may_hold_both(data):
    exog = data[["x"]].assign(one=1.0)
    found = MixReg(data["y"], exog, 2, concomitant=data[["age"]].assign(one=1.0)).fit()
    both = exog.assign(age=data["age"])
    assert_allclose(found.predict(both), found.predict(), atol=1e-12)
    assert_allclose(found.predict(both.assign(y=data["y"]), "posterior"), found.posterior)


def test_an_array_of_another_length_is_refused(arrays):
    y, x, z = arrays
    with pytest.raises(InputError, match="concomitant has"):
        MixReg(y, x, 2, concomitant=z[:-1])


def test_text_in_an_array_is_refused(data, arrays):
    y, x, _ = arrays
    with pytest.raises(InputError, match="concomitant is not numeric"):
        MixReg(y, x, 2, concomitant=data[["sex"]])


def test_infinity_in_an_array_is_refused(arrays):
    y, x, z = arrays
    with pytest.raises(InputError, match="infinite"):
        MixReg(y, x, 2, concomitant=np.where(z > 69, np.inf, z))


def test_names_of_concomitants_are_told_apart(arrays):
    y, x, z = arrays
    with pytest.raises(InputError, match="same name"):
        MixReg(y, x, 2, concomitant=pd.DataFrame(z, columns=["one", "a", "a"]))


def test_a_frame_in_another_order_is_not_taken_row_by_row(data):
    exog = data[["x"]].assign(one=1.0)
    shuffled = data[["age"]].assign(one=1.0).sample(frac=1, random_state=0)
    with pytest.raises(InputError, match="index"):
        MixReg(data["y"], exog, 2, concomitant=shuffled)
