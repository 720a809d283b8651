"""Diagnostics: the numbers by hand, and the words that should come with them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist
from scipy.stats import kurtosis, skew

from mixreg import MixReg, TensorStart
from mixreg.simulate import mixed_linear_equations
from tests.samples import lines, shops


def test_numbers_without_a_constant():
    data = mixed_linear_equations(1500, 4, 2, noise=0.2, seed=1)
    res = MixReg(data.y, data.X, k=2).fit()
    d = res.diagnostics
    assert (d.n, d.p, d.k) == (1500, 4, 2)
    # Standard coordinates: X'X / n = I, y'y / n = 1.
    root = np.linalg.cholesky(data.X.T @ data.X / 1500)
    scale = np.sqrt(np.mean(data.y**2))
    vectors = (root.T @ res.coefficients.to_numpy()).T / scale
    length = np.linalg.norm(vectors, axis=1)
    unit = vectors / length.max()
    assert d.delta == pytest.approx(pdist(unit)[0], rel=1e-9)
    assert d.eta == pytest.approx(1 - length.min() / length.max(), abs=1e-9)
    assert d.gamma == pytest.approx(abs(unit[0] @ unit[1]), rel=1e-9)
    assert d.omega_min == res.weights.min()
    assert d.rule_p == pytest.approx(1500 / 120)
    assert d.rule_k == pytest.approx(1500 / 96)
    assert d.noise == pytest.approx(np.sqrt(res.weights @ res.scale**2) / scale, rel=1e-9)
    z, y = np.linalg.solve(root, data.X.T).T, data.y / scale
    M2 = np.einsum("n,na,nb->ab", y**2, z, z) / 3000 - np.mean(y**2) * np.eye(4) / 2
    spectrum = np.sort(np.linalg.eigvalsh(M2))[::-1]
    assert d.sigma_k == pytest.approx(spectrum[1], rel=1e-9)
    assert d.sigma_next == pytest.approx(spectrum[2], rel=1e-6, abs=1e-9)
    assert d.gap == pytest.approx(spectrum[1] - abs(spectrum[2]), rel=1e-6)
    assert 0 <= d.tensor_residual < 0.5
    assert not d.certified
    assert d.identifiable
    assert d.gaussian
    assert "the tensor start can be trusted" in str(d)


def test_tensor_eigenvalues_are_one_over_root_weight():
    data = mixed_linear_equations(50_000, 4, 2, noise=0.2, weights=[0.7, 0.3], seed=0)
    d = MixReg(data.y, data.X, k=2).fit(init="tensor").diagnostics
    assert_allclose(np.sort(d.tensor_values), [0.7**-0.5, 0.3**-0.5], rtol=0.1)
    assert d.tensor_residual < 0.1


def test_shape_of_the_design():
    rng = np.random.default_rng(0)
    x = rng.exponential(size=2000)
    y = np.where(rng.random(2000) < 0.5, 1 + x, -x) + 0.2 * rng.standard_normal(2000)
    d = MixReg.from_formula("y ~ x", {"x": x, "y": y}, k=2).fit().diagnostics
    assert d.skewness == pytest.approx(skew(x), rel=1e-9)
    assert d.kurtosis == pytest.approx(kurtosis(x), rel=1e-9)
    assert not d.gaussian
    assert "The design is not Gaussian" in str(d)


def test_the_search_is_told_in_the_users_units():
    data = lines(300).assign(y=lambda d: 1000 * d["y"])
    res = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit()
    search, record = res.diagnostics.search, res.solution.search
    kinds = {kind for m in record.maxima for kind in m.kinds}
    assert kinds <= {"tensor", "subspace", "random", "partition", "labels"}
    assert "tensor" in kinds
    assert len(search.heights) == len(search.hits) == len(record.maxima)
    assert search.heights[0] == max(search.heights)
    assert res.llf - 1 < search.heights[0] <= res.llf + 1e-6
    # Tensor starts count as one, wherever they end.
    assert max(search.hits) <= search.starts
    assert sum(search.hits) >= search.starts
    assert (search.starts, search.chance) == (record.starts, record.chance)
    assert (search.moves, search.accepted) == (record.moves, record.accepted)
    assert search.levels == (300,)
    text = str(res.diagnostics)
    assert f"Search on 300 rows: {search.starts} starts run to the end" in text
    assert f"{search.heights[0]:.4f}   {search.hits[0]} starts" in text
    assert f"Moves tried against the best: {search.moves}, kept: {search.accepted}." in text
    assert f"one more start finds a better one: {search.chance:.1%}" in text
    header = str(res.summary())
    assert f"{search.hits[0]} of {search.starts} starts" in header
    assert f"{search.chance:.1%}" in header


def test_more_components_than_the_moments_can_tell_apart():
    rng = np.random.default_rng(2)
    x = rng.standard_normal(600)
    a, b = np.array([[-6.0, 1.0], [0.0, -1.0], [6.0, 0.5]])[rng.integers(0, 3, 600)].T
    data = pd.DataFrame({"x": x, "y": a + b * x + 0.3 * rng.standard_normal(600)})
    d = MixReg.from_formula("y ~ x", data, k=3).fit().diagnostics
    assert not d.identifiable
    assert np.isnan(d.sigma_k)
    assert "k=3 is more than the moments of 2 regressors can tell apart" in str(d)


def test_a_categorical_design_is_not_gaussian():
    data = lines(300)
    data["g"] = np.random.default_rng(0).choice(list("aaaaab"), 300)
    d = MixReg.from_formula("y ~ x1 + C(g)", data, k=2).fit().diagnostics
    assert not d.gaussian
    assert "categories" in str(d)


def test_an_exact_fit_is_certified():
    data = mixed_linear_equations(300, 4, 2, seed=0)
    res = MixReg(data.y, data.X, k=2).fit()
    d = res.diagnostics
    assert d.certified
    assert d.noise < 1e-10
    text = str(d)
    assert "Recovery is certified" in text
    assert "The search ended with zero loss" in text
    assert "overlap" not in text
    assert "certified" in str(res.summary())


def test_the_summary_says_certified_only_where_it_is():
    # One row of its own: zero loss, but nothing is proved about a line through one point.
    y = np.where(np.arange(60) < 59, 0.0, 5.0)
    res = MixReg(y, np.ones((60, 1)), k=2).fit()
    assert not res.diagnostics.certified
    assert "certified" not in str(res.summary())


def test_one_component_has_nothing_to_decompose():
    d = MixReg.from_formula("y ~ x1", lines(100), k=1).fit().diagnostics
    assert d.k == 1
    assert d.omega_min == 1
    assert np.isnan(d.delta)
    assert "One component: ordinary least squares" in str(d)


@pytest.mark.parametrize("init", ["tensor", "random", TensorStart(20, 10)], ids=str)
def test_without_a_search_it_says_so(init):
    res = MixReg.from_formula("y ~ x1 + x2", lines(200), k=2).fit(init=init)
    assert res.diagnostics.search is None
    assert "There was no search" in str(res.diagnostics)
    assert "Reached by:" in str(res.summary())


def test_overlapping_components_are_called_that():
    rng = np.random.default_rng(3)
    x = rng.standard_normal(500)
    y = np.where(rng.random(500) < 0.5, 0.5, -0.5) * x + rng.standard_normal(500)
    d = MixReg.from_formula("y ~ x", {"x": x, "y": y}, k=2).fit().diagnostics
    assert "Components overlap" in str(d)


def test_diagnostics_of_groups_and_altmin():
    data = shops(40)
    for method in ("em", "altmin"):
        d = MixReg.from_formula("y ~ x", data, k=2, groups="shop").fit(method).diagnostics
        assert d.n == len(data)
        assert "nan" not in str(d).replace("next nan", "")
