"""Fits find what was planted, do not depend on units, and survive hard cases."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixreg import ConvergenceWarning, DegenerateFitWarning, InputError, MixReg, TensorStart
from mixreg.metrics import estimation_error, match_components, misclassification_rate
from mixreg.simulate import mixed_linear_equations, mixture_of_regressions
from tests.samples import lines, shops

THREE = np.array([[1.0, 2.0, 0.0], [-1.0, 0.0, 1.5], [4.0, -1.0, -1.0]])


def three_segments(n: int = 900, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, 2))])
    drawn = mixture_of_regressions(X, THREE, [0.5, 0.3, 0.2], [0.3, 0.4, 0.5], seed=rng)
    return pd.DataFrame({"y": drawn.y, "x1": X[:, 1], "x2": X[:, 2], "z": drawn.labels})


def assert_usable(res) -> None:
    """Nothing that a user looks at may be NaN, or more certain than it can be."""
    assert np.isfinite(res.params).all()
    assert np.isfinite(res.posterior).all(axis=None)
    assert not np.isnan(res.llf)
    assert not np.isnan(res.bse).any()
    assert (res.bse >= 0).all()
    assert res.weights.sum() == pytest.approx(1)
    assert_allclose(res.posterior.sum(axis=1), 1, rtol=1e-9)
    assert "Mixture of Linear Regressions" in str(res.summary())
    assert "Diagnostics" in str(res.diagnostics)
    if res.method == "em" and res.solution.run.reason != "exact":
        # No standard error is below that of a component that has all rows to itself.
        source = res.model.source
        block = source.as_block()
        weight = 1.0 if source.weight is None else block.per_row(source.weight)
        squares = (np.multiply(weight, source.x.T**2)).sum(axis=1)
        least = res.scale.to_numpy()[:, None] / np.sqrt(squares)
        assert (res.bse.to_numpy()[res.model.layout.coef_index()] > 0.9 * least).all()


# Planted truth


def test_three_noisy_segments_are_recovered():
    data = three_segments()
    res = MixReg.from_formula("y ~ x1 + x2", data, k=3).fit()
    assert_allclose(res.coefficients.T, THREE, atol=0.12)
    assert_allclose(res.weights, [0.5, 0.3, 0.2], atol=0.05)
    assert_allclose(res.scale, [0.3, 0.4, 0.5], rtol=0.15)
    assert misclassification_rate(res.labels, data["z"]) < 0.1
    assert res.converged
    assert res.model.loglike(res.params) == pytest.approx(res.llf, rel=1e-12)


@pytest.mark.parametrize("init", ["auto", "tensor", "random"])
def test_every_start_finds_the_segments(init):
    data = three_segments()
    res = MixReg.from_formula("y ~ x1 + x2", data, k=3).fit(init=init)
    best = MixReg.from_formula("y ~ x1 + x2", data, k=3).fit(init=data["z"])
    assert res.llf == pytest.approx(best.llf, rel=1e-8)


@pytest.mark.parametrize("method", ["em", "altmin"])
@pytest.mark.parametrize(
    ("n", "p", "k"), [(300, 5, 2), (450, 10, 3), (600, 4, 4)], ids=["k=2", "k=3", "k=4"]
)
def test_without_noise_recovery_is_exact_and_certified(method, n, p, k):
    data = mixed_linear_equations(n, p, k, seed=k)
    res = MixReg(data.y, data.X, k=k).fit(method)
    assert estimation_error(res.coefficients.T, data.coefficients) < 1e-10
    assert misclassification_rate(res.labels, data.labels) == 0
    assert res.diagnostics.certified
    assert res.llf == np.inf
    assert_array_equal(res.bse.filter(regex="^x"), 0)
    # Labels are known, so weights are counts: var log(w_j / w_1) = 1 / n_j + 1 / n_1.
    counts = res.labels.value_counts().sort_index().to_numpy()
    assert_allclose(res.bse.filter(like="logit"), np.sqrt(1 / counts[1:] + 1 / counts[0]))
    assert res.converged
    shares = np.bincount(data.labels)[1:] / n
    assert_allclose(res.weights, np.sort(shares)[::-1])
    assert_usable(res)


def test_recovery_is_certified_with_an_intercept_too():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(300), rng.standard_normal((300, 2))])
    drawn = mixture_of_regressions(X, THREE, [0.4, 0.3, 0.3], 0.0, seed=rng)
    res = MixReg(1000 * drawn.y, X, k=3).fit()
    assert res.diagnostics.certified
    order = match_components(res.coefficients.T, 1000 * THREE)
    assert_allclose(res.coefficients.T.to_numpy()[order], 1000 * THREE, rtol=1e-9, atol=1e-6)


def test_a_certificate_is_not_given_for_noisy_data():
    data = mixed_linear_equations(400, 4, 2, noise=1e-4, seed=0)
    res = MixReg(data.y, data.X, k=2).fit()
    assert not res.diagnostics.certified
    assert np.isfinite(res.llf)
    assert_allclose(res.scale, 1e-4, rtol=0.2)


@pytest.mark.parametrize("noise", [1e-5, 1e-7, 1e-9])
def test_tiny_noise_is_estimated(noise):
    data = mixed_linear_equations(400, 4, 2, noise=noise, seed=0)
    res = MixReg(data.y, data.X, k=2).fit()
    assert res.converged
    assert_allclose(res.scale, noise, rtol=0.2)
    assert res.history[-1] == pytest.approx(res.llf, rel=1e-9)


@pytest.mark.filterwarnings("ignore::mixreg.DegenerateFitWarning")
@pytest.mark.parametrize("k", [2, 4])
def test_a_certificate_is_not_given_for_more_components_than_there_are(k):
    # One line less than k: zero loss is reached, but one component is a copy or empty.
    data = mixed_linear_equations(300, 4, k - 1, seed=1)
    res = MixReg(data.y, data.X, k=k).fit()
    assert res.solution.exact
    assert not res.diagnostics.certified
    assert "no proof of recovery" in str(res.summary())
    assert_usable(res)


def test_wider_than_the_published_conditions():
    # More components than regressors, and parallel lines: the intercept makes them different.
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(600), rng.standard_normal(600)])
    truth = np.array([[-3.0, 1.0], [0.0, 1.0], [3.0, 1.0]])
    drawn = mixture_of_regressions(X, truth, [0.4, 0.3, 0.3], 0.3, seed=rng)
    res = MixReg(drawn.y, X, k=3).fit()
    order = match_components(res.coefficients.T, truth)
    assert_allclose(res.coefficients.T.to_numpy()[order], truth, atol=0.15)


def test_more_rows_than_the_first_level_has():
    data = three_segments(30_000, seed=5)
    res = MixReg.from_formula("y ~ x1 + x2", data, k=3).fit()
    assert res.solution.search.levels[0] < res.nobs
    assert_allclose(res.coefficients.T, THREE, atol=0.03)


# Starts that the user chooses


def test_one_start_is_the_tensor_start():
    data = three_segments()
    res = MixReg.from_formula("y ~ x1 + x2", data, k=3).fit(n_init=1)
    assert_allclose(res.coefficients.T, THREE, atol=0.12)


def test_starting_from_labels():
    data = three_segments()
    model = MixReg.from_formula("y ~ x1 + x2", data, k=3)
    best = model.fit()
    for labels in (data["z"], data["z"].to_numpy(), data["z"].to_list(), data["z"].astype(float)):
        assert model.fit(init=labels).llf == pytest.approx(best.llf, rel=1e-9)


def test_starting_from_labels_of_groups_or_their_rows():
    data = shops(40)
    model = MixReg.from_formula("y ~ x", data, k=2, groups="shop")
    by_rows = model.fit(init=data["z"])
    in_order = data.drop_duplicates("shop").set_index("shop")["z"].loc[by_rows.group_labels.index]
    by_groups = model.fit(init=in_order)
    assert_array_equal(by_rows.params, by_groups.params)
    assert by_rows.llf == pytest.approx(model.fit().llf, rel=1e-9)


def test_labels_of_dropped_rows_are_dropped_too():
    data = lines(100)
    data.loc[10, "y"] = np.nan
    res = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit(init=data["z"])
    wanted = MixReg.from_formula("y ~ x1 + x2", data.drop(10), k=2).fit(init=data["z"].drop(10))
    assert_array_equal(res.params, wanted.params)


def test_starting_from_coefficients():
    data = three_segments()
    model = MixReg.from_formula("y ~ x1 + x2", data, k=3)
    best = model.fit()
    for start in (THREE, best.coefficients, best.coefficients.iloc[::-1]):
        res = model.fit(init=start)
        assert res.llf == pytest.approx(best.llf, rel=1e-9)
        assert_allclose(res.coefficients, best.coefficients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("start", [TensorStart(), TensorStart(split=True), TensorStart(50, 20)])
def test_tensor_starts(start):
    data = mixed_linear_equations(3000, 5, 3, noise=0.2, seed=2)
    res = MixReg(data.y, data.X, k=3).fit(init=start)
    assert estimation_error(res.coefficients.T, data.coefficients) < 0.05
    assert res.solution.search is None


def test_altmin_finds_the_segments():
    data = three_segments()
    res = MixReg.from_formula("y ~ x1 + x2", data, k=3).fit("altmin")
    order = match_components(res.coefficients.T, THREE)
    assert_allclose(res.coefficients.T.to_numpy()[order], THREE, atol=0.2)
    assert res.solution.run.reason == "labels"
    assert set(np.unique(res.posterior)) == {0.0, 1.0}
    squares = res.predict(which="component").sub(data["y"], axis=0) ** 2
    assert_array_equal(res.labels, squares.idxmin(axis=1))


def test_altmin_with_fresh_samples():
    data = mixed_linear_equations(6000, 4, 2, noise=0.1, seed=3)
    res = MixReg(data.y, data.X, k=2).fit("altmin", resample=5)
    assert estimation_error(res.coefficients.T, data.coefficients) < 0.05
    assert res.n_iter == 5


# Same seed, same bits


@pytest.mark.parametrize("method", ["em", "altmin"])
@pytest.mark.parametrize("init", ["auto", "tensor", "random", TensorStart(split=True)], ids=str)
def test_the_same_seed_gives_the_same_bits(method, init):
    data = three_segments(400)
    first, again = (
        MixReg.from_formula("y ~ x1 + x2", data, k=3).fit(method, init, seed=11) for _ in range(2)
    )
    assert_array_equal(first.params, again.params)
    assert_array_equal(first.posterior, again.posterior)
    assert_array_equal(first.bse, again.bse)
    assert first.llf == again.llf


def test_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    MixReg.from_formula("y ~ x1 + x2", lines(100), k=2).fit()
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_a_fit_does_not_change_the_model():
    model = MixReg.from_formula("y ~ x1 + x2", lines(100), k=2)
    first = model.fit()
    model.fit("altmin", seed=3)
    assert_array_equal(model.fit().params, first.params)


def test_progress_shows_a_bar(capsys):
    MixReg.from_formula("y ~ x1 + x2", lines(100), k=2).fit(progress=True)
    assert "mixreg" in capsys.readouterr().err


# Units do not matter


@pytest.mark.parametrize("c", [1e-13, 1e-6, -1.0, 3.0, 1e9])
@pytest.mark.parametrize("equal", [False, True])
def test_units_of_the_response(c, equal):
    data = lines(200)
    scaled = data.assign(y=c * data["y"])
    a, b = (
        MixReg.from_formula("y ~ x1 + x2", each, k=2, equal_variance=equal).fit()
        for each in (data, scaled)
    )
    assert_allclose(b.coefficients, c * a.coefficients, rtol=1e-5)
    assert_allclose(b.scale, abs(c) * a.scale, rtol=1e-6)
    assert_allclose(b.weights, a.weights, rtol=1e-6)
    assert b.llf == pytest.approx(a.llf - 200 * np.log(abs(c)), abs=1e-6)
    names = [name for name in a.params.index if name.startswith(("Intercept", "x"))]
    assert_allclose(b.bse[names], abs(c) * a.bse[names], rtol=1e-5)
    assert_allclose(b.history, a.history - 200 * np.log(abs(c)), atol=1e-5)


def test_a_shift_of_the_response_moves_the_intercepts():
    data = lines(200)
    a, b = (
        MixReg.from_formula("y ~ x1 + x2", each, k=2).fit()
        for each in (data, data.assign(y=data["y"] + 1e5))
    )
    assert_allclose(b.coefficients.loc["Intercept"] - 1e5, a.coefficients.loc["Intercept"], 1e-5)
    assert_allclose(b.coefficients.loc["x1"], a.coefficients.loc["x1"], rtol=1e-5)
    assert b.llf == pytest.approx(a.llf, abs=1e-5)


def test_affine_transforms_of_the_regressors():
    data = lines(200)
    moved = data.assign(x1=1e4 + 25 * data["x1"], x2=-data["x2"] / 1e3)
    a, b = (MixReg.from_formula("y ~ x1 + x2", each, k=2).fit() for each in (data, moved))
    assert b.llf == pytest.approx(a.llf, abs=1e-6)
    assert_allclose(25 * b.coefficients.loc["x1"], a.coefficients.loc["x1"], rtol=1e-5)
    assert_allclose(b.coefficients.loc["x2"] / -1e3, a.coefficients.loc["x2"], rtol=1e-5)
    assert_allclose(25 * b.bse[["x1[1]", "x1[2]"]], a.bse[["x1[1]", "x1[2]"]], rtol=1e-5)
    assert_allclose(b.posterior, a.posterior, atol=1e-6)


def test_other_codings_of_a_category_are_the_same_model():
    data = three_segments(600)
    data["g"] = np.random.default_rng(0).choice(list("abc"), 600)
    data["y"] += 2 * (data["g"] == "b")
    fits = [
        MixReg.from_formula(f"y ~ x1 + x2 + {term}", data, k=3).fit()
        for term in ("C(g)", "C(g, Sum)", "C(g) - 1")
    ]
    for res in fits[1:]:
        assert res.llf == pytest.approx(fits[0].llf, abs=1e-6)
        assert_allclose(res.predict(), fits[0].predict(), rtol=1e-5, atol=1e-5)


def test_the_order_of_rows_and_columns_does_not_matter():
    data = lines(200)
    mixed = data.iloc[np.random.default_rng(0).permutation(200)]
    a = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit()
    b = MixReg.from_formula("y ~ x2 + x1", mixed, k=2).fit()
    assert b.llf == pytest.approx(a.llf, abs=1e-6)
    assert_allclose(b.coefficients.loc[a.coefficients.index], a.coefficients, rtol=1e-5, atol=1e-6)
    assert_array_equal(b.labels.loc[data.index], a.labels)


@pytest.mark.parametrize("c", [1e-3, 0.01, 50.0])
def test_units_of_the_weights(c):
    # Weights that sum to 1, or to a population, say the same about the lines.
    data = lines(200)
    w = np.random.default_rng(0).uniform(0.5, 1.5, 200)
    a = MixReg.from_formula("y ~ x1 + x2", data, k=2, weights=w).fit()
    b = MixReg.from_formula("y ~ x1 + x2", data, k=2, weights=c * w).fit()
    assert_allclose(b.params, a.params, rtol=1e-5, atol=1e-6)
    assert b.llf == pytest.approx(c * a.llf, rel=1e-8)
    assert_allclose(b.bse * np.sqrt(c), a.bse, rtol=1e-5)


# Variances


def test_equal_variances_are_equal():
    res = MixReg.from_formula("y ~ x1 + x2", lines(), k=2, equal_variance=True).fit()
    assert res.scale[1] == res.scale[2]
    assert res.df_model == 2 * 3 + 1 + 1
    assert "log(sigma)" in res.params.index
    free = MixReg.from_formula("y ~ x1 + x2", lines(), k=2).fit()
    assert free.llf > res.llf
    assert free.df_model == res.df_model + 1


def test_a_binding_bound_is_respected_and_reported():
    data = lines(300, noise=0.3)
    res = MixReg.from_formula("y ~ x1 + x2", data, k=2, variance_ratio=0.9).fit()
    assert (res.scale.min() / res.scale.max()) ** 2 == pytest.approx(0.9, rel=1e-9)
    assert res.solution.binds
    again = MixReg.from_formula("y ~ x1 + x2", data, k=2, variance_ratio=0.9).fit(
        init=res.coefficients
    )
    assert again.llf == pytest.approx(res.llf, abs=1e-6)
    looser = MixReg.from_formula("y ~ x1 + x2", data, k=2, variance_ratio=0.89).fit()
    tighter = MixReg.from_formula("y ~ x1 + x2", data, k=2, variance_ratio=0.99).fit()
    assert tighter.llf < res.llf < looser.llf
    assert_usable(res)


def test_a_ratio_near_one_is_nearly_the_model_with_one_variance():
    data = lines(300)
    bound = MixReg.from_formula("y ~ x1 + x2", data, k=2, variance_ratio=1 - 1e-9).fit()
    equal = MixReg.from_formula("y ~ x1 + x2", data, k=2, equal_variance=True).fit()
    assert bound.llf == pytest.approx(equal.llf, abs=1e-6)
    assert_allclose(bound.coefficients, equal.coefficients, rtol=1e-4, atol=1e-5)


def test_a_few_rows_on_a_line_by_chance_are_no_segment():
    # Overlapping components: accidents of a few rows have the higher likelihood here. Where one
    # is as large as a real segment could be, it is chosen, and told.
    chosen = 0
    for seed in range(3, 11):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(500)
        y = np.where(rng.random(500) < 0.5, 0.5, -0.5) * x + rng.standard_normal(500)
        res = MixReg.from_formula("y ~ x", {"x": x, "y": y}, k=2).fit()
        lines = np.flatnonzero((res.weights < 0.1) & (res.scale < 0.3))
        chosen += bool(lines.size)
        assert set(lines) <= set(res.solution.suspects)
    assert chosen <= 2


def test_a_start_on_a_few_rows_is_called_suspect():
    rng = np.random.default_rng(4)
    x = rng.standard_normal(500)
    y = np.where(rng.random(500) < 0.5, 0.5, -0.5) * x + rng.standard_normal(500)
    line = y[0] + (y[1] - y[0]) / (x[1] - x[0]) * (x - x[0])
    labels = np.where(np.abs(y - line) < 0.02, 2, 1)
    res = MixReg.from_formula("y ~ x", {"x": x, "y": y}, k=2).fit(init=labels)
    assert res.solution.suspects
    assert "chance may explain it" in str(res.summary())


# Hard cases


def test_running_out_of_iterations_warns():
    model = MixReg.from_formula("y ~ x1 + x2", lines(), k=2)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 .*raise max_iter"):
        res = model.fit(init="random", max_iter=1)
    assert not res.converged
    assert_usable(res)


@pytest.mark.parametrize("method", ["em", "altmin"])
@pytest.mark.parametrize("few", [1, 2, 3, 4])
def test_a_component_that_starts_with_hardly_any_rows(method, few):
    data = lines(100)
    labels = np.where(np.arange(100) < few, 2, 1)
    res = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit(method, init=labels)
    assert_usable(res)


@pytest.mark.parametrize("method", ["em", "altmin"])
def test_a_component_that_starts_out_of_sight_is_brought_back(method):
    data = lines(200)
    start = np.array([[0.0, 0.0, 0.0], [1e6, 1e6, 1e6]])
    res = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit(method, init=start)
    assert res.solution.revived
    assert res.weights.min() > 0.2
    assert_usable(res)


def test_components_that_start_alike_never_give_wrong_certainty():
    # EM cannot tell two copies apart. Their common fit is that of least squares, and each copy
    # is known no better than that.
    data = lines(100)
    res = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit(init=np.zeros((2, 3)))
    assert_usable(res)
    one = MixReg.from_formula("y ~ x1 + x2", data, k=1).fit()
    assert res.llf >= one.llf - 1e-8
    if res.llf < one.llf + 1e-6:
        assert res.bse["x1[1]"] > 0.5 * one.bse["x1[1]"]


@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("equal", [False, True])
def test_more_components_than_there_are(k, equal):
    res = MixReg.from_formula("y ~ x1 + x2", lines(150), k=k, equal_variance=equal).fit()
    fewer = MixReg.from_formula("y ~ x1 + x2", lines(150), k=2, equal_variance=equal).fit()
    assert res.llf > fewer.llf - 1e-6
    assert_usable(res)


@pytest.mark.parametrize("copies", [2, 30])
def test_repeated_rows(copies):
    data = pd.concat([lines(12)] * copies)
    assert_usable(MixReg.from_formula("y ~ x1", data, k=3).fit())


@pytest.mark.parametrize("method", ["em", "altmin"])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 2), (9, 3)])
def test_tiny_tables(method, n, k):
    assert_usable(MixReg.from_formula("y ~ x1", lines(n), k=k).fit(method, n_init=4))


def test_intercepts_only():
    y = np.concatenate([np.linspace(-1, 1, 40), np.linspace(9, 11, 60)])
    res = MixReg.from_formula("y ~ 1", k=2).fit()
    assert_allclose(res.coefficients.loc["Intercept"], [10, 0], atol=1e-6)
    assert_allclose(res.weights, [0.6, 0.4], atol=1e-6)
    assert_array_equal(res.labels, np.where(y > 5, 1, 2))


@pytest.mark.filterwarnings("ignore:component . stayed empty:mixreg.DegenerateFitWarning")
@pytest.mark.parametrize("method", ["em", "altmin"])
def test_as_many_components_as_groups(method):
    data = shops(5)
    res = MixReg.from_formula("y ~ x", data, k=5, groups="shop").fit(method)
    assert_usable(res)
    assert res.ngroups == res.k == 5


def test_groups_of_one_row_among_large_ones():
    data = shops(20)
    data.iloc[:5, data.columns.get_loc("shop")] = [f"single {i}" for i in range(5)]
    assert_usable(MixReg.from_formula("y ~ x", data, k=2, groups="shop").fit())


@pytest.mark.parametrize("grouped", [False, True])
def test_rows_that_do_not_count(grouped):
    # A weight of zero is as good as no row.
    data = shops(30) if grouped else lines(100)
    data = data.reset_index(drop=True)
    groups = "shop" if grouped else None
    formula = "y ~ x" if grouped else "y ~ x1 + x2"
    names = data["shop"].unique()[:20] if grouped else None
    counts = data["shop"].isin(names) if grouped else data.index < 40
    res = MixReg.from_formula(formula, data, k=2, groups=groups, weights=1.0 * counts).fit()
    wanted = MixReg.from_formula(formula, data[counts], k=2, groups=groups).fit()
    assert res.llf == pytest.approx(wanted.llf, abs=1e-6)
    assert_allclose(res.params, wanted.params, rtol=1e-4, atol=1e-5)
    assert_allclose(res.bse, wanted.bse, rtol=1e-4)
    assert_usable(res)


@pytest.mark.parametrize("size", [1e4, 1e6, 1e8, 1e12])
def test_one_wild_value(size):
    # As a missing value that was coded 99999999.
    data = lines(200)
    data.loc[3, "y"] = size
    res = MixReg.from_formula("y ~ x1 + x2", data, k=3).fit()
    assert_usable(res)
    # A fit that leaves residuals must not call itself exact.
    assert (res.solution.run.reason == "exact") == res.diagnostics.certified
    assert res.history[-1] == pytest.approx(res.llf, rel=1e-9)


def test_one_component_that_is_exact():
    data = lines(200)
    line = data["z"] == 1
    data.loc[line, "y"] = 1 + 2 * data["x1"] + data["x2"]
    res = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit()
    assert_allclose(res.coefficients[1], [1, 2, 1], atol=1e-2)
    assert res.solution.binds
    assert_usable(res)


def test_few_distinct_values():
    data = lines(300).round(0)
    assert_usable(MixReg.from_formula("y ~ x1 + x2", data, k=3).fit())


@pytest.mark.parametrize("level", [0.0, -3.5])
def test_a_constant_response_is_refused(level):
    with pytest.raises(InputError, match="the response does not vary"):
        MixReg.from_formula("y ~ x1", lines(50).assign(y=level), k=2)


def test_a_component_that_stays_empty_is_reported():
    # Two values, each with its own constant: nothing is left for a third component.
    y, x = np.repeat([0.0, 1.0], 30), np.tile([1.0, 2.0, 3.0], 20)
    model = MixReg(y, pd.DataFrame({"const": 1.0, "x": x}), k=3)
    with pytest.warns(DegenerateFitWarning, match="component 3 stayed empty .*try k=2"):
        res = model.fit(init="random")
    assert "Component 3 is empty; try a smaller k." in str(res.summary())
    assert_usable(res)
