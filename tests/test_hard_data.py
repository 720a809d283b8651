"""Data on which an earlier version went wrong, or a simpler one would."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose

from mixreg import InputError, MixReg
from mixreg.search.rounds import find_subspace
from mixreg.simulate import mixed_linear_equations
from mixreg.sources import MemorySource
from mixreg.sources.standard import triangle, whitening
from tests.samples import shops


def test_a_regressor_far_from_zero_is_not_a_constant():
    rng = np.random.default_rng(0)
    x = 1e6 + 10 * rng.standard_normal(200)
    y = 3e-6 * x + rng.standard_normal(200)
    ours, theirs = MixReg(y, x, k=1).fit(), sm.OLS(y, x).fit()
    assert ours.llf == pytest.approx(theirs.llf, abs=1e-7)
    assert_allclose(ours.coefficients[1], theirs.params, rtol=1e-8)


def test_replicates_do_not_make_a_certificate():
    # {y = 0, y = 1} and {y = x, y = 1 - x} both fit every row: nothing is proved.
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 2, (2, 200)).astype(float)
    res = MixReg(y, np.column_stack([np.ones(200), x]), k=2).fit()
    assert res.solution.exact
    assert not res.diagnostics.certified


@pytest.mark.parametrize(("levels", "answers", "k"), [(5, 2, 2), (3, 3, 3)])
def test_a_lattice_does_not_make_a_certificate(levels, answers, k):
    rng = np.random.default_rng(3)
    x = rng.integers(0, levels, 300).astype(float)
    y = rng.integers(0, answers, 300).astype(float)
    res = MixReg(y, np.column_stack([np.ones(300), x]), k=k).fit()
    assert not res.diagnostics.certified


def test_groups_of_new_rows_can_be_given():
    data = shops(40)
    res = MixReg.from_formula("y ~ x", data, k=2, groups=data["shop"].to_numpy()).fit()
    again = res.predict(data, "posterior", groups=data["shop"])
    assert_allclose(again, res.posterior)
    named = MixReg.from_formula("y ~ x", data, k=2, groups="shop").fit()
    row = {"x": [1.0], "shop": [data["shop"].iloc[0]]}
    wanted = named.group_posterior.loc[[data["shop"].iloc[0]]]
    assert_allclose(named.predict(row, "posterior"), wanted)


def test_hypotheses_that_cannot_be_read_say_which_names_there_are():
    res = MixReg.from_formula("y ~ x", shops(40), k=2).fit()
    with pytest.raises(InputError, match=r"use the names Intercept\[1\], x\[1\]"):
        res.t_test("x[3] = 0")


@pytest.mark.parametrize("gap", [0.0, 2.0, 5.0])
def test_the_subspace_is_found_whatever_the_intercepts(gap):
    rng = np.random.default_rng(2)
    z = rng.standard_normal((20_000, 8))
    direction = np.eye(8)[0]
    second = rng.random(20_000) < 0.1
    y = np.where(second, gap + 1.5 * z @ direction, 0.0) + 0.5 * rng.standard_normal(20_000)
    raw = MemorySource(np.column_stack([np.ones(20_000), z]), y)
    white = whitening(raw.sweep(triangle), tuple("cabdefghi"))
    basis = find_subspace(raw.standard(white), white, k=2)
    truth = np.linalg.solve(white.basis, np.append(0.0, direction))[1:]
    found = basis[1:, 1]
    assert abs(found @ truth) / np.linalg.norm(truth) > 0.9


def test_outliers_that_the_sample_missed_do_not_turn_em_into_altmin():
    data = mixed_linear_equations(60_000, 3, 2, seed=0)
    y = data.y.copy()
    y[[10, 40_000]] += 5.0
    model = MixReg(y, data.X, k=2)
    res = model.fit()
    assert np.isfinite(res.llf)
    assert not res.diagnostics.certified
    assert res.history[-1] == pytest.approx(res.llf, rel=1e-9)
    assert np.all(np.diff(res.history) > -1e-6 * np.abs(res.history[1:]))


@pytest.mark.parametrize("noise", [1e-6, 3e-6])
def test_groups_with_tiny_noise(noise):
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(30), 60)
    X = np.column_stack([np.ones(1800), rng.standard_normal((1800, 2))])
    coef = np.array([[1.0, 2.0, -1.0], [-1.0, 0.5, 1.0]])[np.arange(30) % 2][groups]
    y = (X * coef).sum(axis=1) + noise * rng.standard_normal(1800)
    res = MixReg(y, X, k=2, groups=groups).fit()
    assert res.converged
    assert_allclose(res.scale, noise, rtol=0.1)


def test_a_group_is_known_by_all_its_rows_and_by_the_fit():
    data = shops(40)
    res = MixReg.from_formula("y ~ x", data, k=2, groups="shop").fit()
    name = data["shop"].iloc[0]
    wanted = res.group_posterior.loc[name].to_numpy()
    known = data[data["shop"] == name]
    silent = known.drop(columns="y")
    assert_allclose(res.predict(silent, "posterior"), np.tile(wanted, (len(silent), 1)))
    partly = known.copy()
    partly.loc[partly.index[0], "y"] = np.nan
    posterior = res.predict(partly, "posterior").to_numpy()
    assert_allclose(posterior, np.tile(posterior[1], (len(partly), 1)))
    stranger = silent.assign(shop="nobody knows it")
    assert_allclose(res.predict(stranger, "posterior"), np.tile(res.weights, (len(silent), 1)))


def test_columns_in_another_order_are_refused():
    data = pd.DataFrame({"x": np.arange(30.0), "y": np.arange(30.0) % 7})
    shuffled = pd.Series(np.arange(30.0) + 1, index=data.index[::-1])
    with pytest.raises(InputError, match="weights has another index than data"):
        MixReg.from_formula("y ~ x", data, k=1, weights=shuffled)
    with pytest.raises(InputError, match="shuffled has another index than data"):
        MixReg.from_formula("y ~ x + shuffled", data, k=1)


def test_labels_must_not_vary_within_a_group():
    data = shops(20)
    labels = np.arange(len(data)) % 2 + 1
    with pytest.raises(InputError, match="init labels vary within group"):
        MixReg.from_formula("y ~ x", data, k=2, groups="shop").fit(init=labels)


def test_a_new_row_may_be_a_series_or_lack_a_category():
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.standard_normal(90), "c": list("abc") * 30})
    data["y"] = data["x"] + (data["c"] == "b") + rng.standard_normal(90)
    res = MixReg.from_formula("y ~ x + c", data, k=1).fit()
    row = data.iloc[4].drop("y")
    assert res.predict(row).iloc[0] == pytest.approx(res.predict(data).iloc[4])
    new = data[["x", "c"]].head(3).copy()
    new.loc[new.index[1], "c"] = None
    assert res.predict(new).isna().tolist() == [False, True, False]
