"""Certificates, coefficients without rows, and reasons for tight components."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.certificates import DESIGNS, draw_case, fit_case, is_false
from mixreg import MixReg
from mixreg.exact.certificate import connected, find_own_rows, hashes
from mixreg.exact.crowding import crowd, levels
from mixreg.exact.reasons import lattice
from mixreg.simulate import mixed_linear_equations
from mixreg.sources import one_block


def categories(noise=0.0, n=300, seed=0):
    """Two lines with a shift for each category; component 2 has no rows in c."""
    rng = np.random.default_rng(seed)
    g, x, shop = rng.choice(list("abc"), n), rng.standard_normal(n), np.arange(n)
    z = rng.integers(0, 2, n)
    z[g == "c"] = 0
    first, second = 1 + 2 * x + (g == "b") + 5 * (g == "c"), -3 - x - 2 * (g == "b")
    y = np.where(z == 0, first, second) + noise * rng.standard_normal(n)
    return pd.DataFrame({"y": y, "x": x, "g": g, "z": z + 1, "shop": shop})


# No false certificate


@pytest.mark.parametrize("design", range(len(DESIGNS)), ids=[d.__name__ for d in DESIGNS])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_certificate_is_false(design):
    """`python -m benchmarks search --certificates` draws many more."""
    for seed in range(design, 6 * len(DESIGNS), len(DESIGNS)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = draw_case(seed)[1]
            res = fit_case(case, seed)
            assert not (res.solution.certified and is_false(case, res, tries=2)), seed


@pytest.mark.parametrize(
    ("k", "p", "n"), [(3, 10, 80), (3, 10, 100), (5, 10, 188), (8, 10, 768), (10, 10, 1500)]
)
def test_the_papers_designs_are_certified(k, p, n):
    for seed in range(2):
        data = mixed_linear_equations(n, p, k, seed=seed)
        assert MixReg(data.y, data.X, k=k).fit(init=data.coefficients).solution.certified


def test_a_category_that_all_components_have_does_not_cost_the_certificate():
    rng = np.random.default_rng(0)
    g, x, z = rng.integers(0, 3, 400), rng.standard_normal(400), rng.integers(0, 2, 400)
    y = np.where(z == 0, 1 + 2 * x + g, -1 - x + 0.5 * (g == 2))
    res = MixReg.from_formula("y ~ x + C(g)", {"y": y, "x": x, "g": g}, k=2).fit()
    assert res.solution.certified
    assert (res.bse[["x[1]", "C(g)[T.2][2]"]] == 0).all()


def test_a_row_on_two_components_leaves_a_label_open():
    rng = np.random.default_rng(0)
    x, sign = rng.integers(-20, 21, 300).astype(float), rng.choice([-1.0, 1.0], 300)
    design = np.column_stack([np.ones(300), x])
    assert (x == 0).any()
    assert not MixReg(1 + sign * x, design, k=2).fit().solution.certified
    clear = x != 0
    assert MixReg((1 + sign * x)[clear], design[clear], k=2).fit().solution.certified


# However rows are cut


@pytest.mark.parametrize("cut", [1, 3000, 40_000, 10**9])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_do_not_matter(monkeypatch, cut, seed):
    # x has 200 values: in small blocks most are distinct, in large ones few are.
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 200, 20_000) + 0.25
    y = np.where(rng.random(20_000) < 0.5, 1 + 2 * x, -3 - x)
    monkeypatch.setattr(one_block, "BLOCK_VALUES", cut)
    res = MixReg(y, np.column_stack([np.ones(20_000), x]), k=2).fit(init=[[1, 2], [-3, -1]])
    assert res.solution.certified


@pytest.mark.parametrize("seed", range(2 * len(DESIGNS)))
def test_blocks_do_not_matter_for_adversarial_designs(monkeypatch, seed):
    case = draw_case(seed)[1]
    found = []
    for cut in (1, 10**9):
        monkeypatch.setattr(one_block, "BLOCK_VALUES", cut)
        x, labels = np.tile(case.x, (8, 1)), np.tile(case.labels, 8)
        y = np.einsum("ij,ij->i", x, case.coef[labels])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(MixReg(y, x, k=len(case.coef)).fit(init=case.coef, cov_type="none"))
    assert found[0].solution.certified == found[1].solution.certified


def test_own_rows_add_up(monkeypatch):
    data = mixed_linear_equations(3000, 4, 3, seed=0)
    sums = []
    for cut in (1, 10**9):
        monkeypatch.setattr(one_block, "BLOCK_VALUES", cut)
        res = MixReg(data.y, data.X, k=3).fit(init=data.coefficients)
        model = res.model
        source = model.source.standard(model.whitening)
        params = res.solution.run.params
        sums.append(find_own_rows(source, model.problem().mixture, params, model.whitening))
    assert_allclose(sums[0].xx, sums[1].xx, rtol=1e-10, atol=1e-8)
    for one, other in zip(sums[0].samples, sums[1].samples, strict=True):
        assert_array_equal(one.keys, other.keys)


# Parts


def test_equal_rows_have_equal_hashes():
    x = np.array([[0.0, 1.5], [-0.0, 1.5], [0.0, 1.5 + 1e-14], [1.5, 0.0]])
    keys = hashes(x)
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_levels_are_numbered_from_the_smallest():
    assert_array_equal(levels(np.array([3.0, 1.0, 3.0 + 1e-12, 2.0])), [2, 0, 2, 1])


@pytest.mark.parametrize("q", [2, 5, 20])
def test_general_position_is_not_crowded(q):
    x = np.random.default_rng(0).standard_normal((3 * q + 50, q))
    assert crowd(x, np.ones(q)) == q


def test_crowds_are_found():
    rng = np.random.default_rng(0)
    v, w = rng.standard_normal((2, 400))
    hidden = np.column_stack([v, 3 * (v + (w > 0))])
    assert crowd(hidden, np.array([1.0, 1 / 3])) > 150
    assert crowd(np.column_stack([v, w, np.abs(0.3 * v + w)]), np.ones(3)) > 150


def test_components_that_are_parallel_cannot_be_followed():
    varying = np.array([[True, False], [True, False]])
    assert connected(varying, np.array([[1.0, 0.0], [2.0, 0.0]]))
    assert not connected(varying, np.array([[1.0, 0.0], [1.0, 3.0]]))
    assert not connected(np.array([[True, False], [False, True]]), np.eye(2))


@pytest.mark.parametrize(
    ("values", "spacing"), [([0, 2, 4, 10], 2), ([1, 2.5, 3], 0.5), ([0, 1, np.pi], 0)]
)
def test_the_spacing_of_a_lattice(values, spacing):
    assert lattice(np.repeat(np.array(values, float), 6)) == pytest.approx(spacing)


# Coefficients that no rows determine


def undetermined(res, term="C(g)[T.c][2]"):
    lost = np.isinf(res.bse)
    assert list(lost.index[lost]) == [term]
    assert np.isnan(res.tvalues[term])
    assert np.isnan(res.pvalues[term])
    assert_array_equal(res.conf_int().loc[term], [-np.inf, np.inf])
    text = " ".join(str(res.summary()).split())
    assert "Component 2 has no rows that determine C(g)[T.c]: its value means nothing." in text
    assert "The data do not determine every parameter" not in text
    return res


@pytest.mark.parametrize("method", ["em", "altmin"])
@pytest.mark.parametrize("start", ["auto", "labels"])
def test_a_category_without_rows_in_an_exact_fit(method, start):
    data = categories()
    init = data["z"].to_numpy() if start == "labels" else start
    res = MixReg.from_formula("y ~ x + C(g)", data, k=2).fit(method, init)
    assert res.solution.exact
    assert not res.solution.certified
    undetermined(res)
    assert (res.bse.drop(["C(g)[T.c][2]", "logit(weight)[2]"]) == 0).all()


@pytest.mark.parametrize("method", ["em", "altmin"])
def test_a_category_without_rows_where_labels_are_known(method):
    data = categories(0.3)
    model = MixReg.from_formula("y ~ x + C(g)", data, k=2, known_labels="z")
    res = undetermined(model.fit(method))
    rest = MixReg.from_formula("y ~ x + C(g)", data[data["g"] != "c"], k=2, known_labels="z")
    names = ["Intercept[2]", "C(g)[T.b][2]", "x[2]"]
    assert_allclose(res.bse[names], rest.fit(method).bse[names], rtol=1e-6)


@pytest.mark.parametrize("method", ["em", "altmin"])
def test_a_category_without_rows_among_groups(method):
    rng = np.random.default_rng(1)
    shop = np.repeat(np.arange(60), 10)
    g, z = rng.choice(list("abc"), 60), rng.integers(0, 2, 60)
    z[g == "c"] = 0
    g, z, x = g[shop], z[shop], rng.standard_normal(600)
    y = np.where(z == 0, 1 + 2 * x + (g == "b"), -3 - x) + 0.3 * rng.standard_normal(600)
    data = pd.DataFrame({"y": y, "x": x, "g": g, "shop": shop})
    res = MixReg.from_formula("y ~ x + C(g)", data, k=2, groups="shop").fit(method)
    lost = np.isinf(res.bse)
    assert lost.sum() == 1
    assert lost.index[lost][0].startswith("C(g)[T.c]")
    assert "no rows that determine C(g)[T.c]" in str(res.summary())


def test_the_reference_category_without_rows_leaves_more_open():
    data = categories(0.3)
    data["g"] = pd.Categorical(data["g"], ["c", "a", "b"])
    res = MixReg.from_formula("y ~ x + C(g)", data, k=2, known_labels="z").fit()
    lost = np.isinf(res.bse)
    assert_array_equal(sorted(lost.index[lost]), ["C(g)[T.a][2]", "C(g)[T.b][2]", "Intercept[2]"])
    assert "determine Intercept, C(g)[T.a] and C(g)[T.b]: their" in " ".join(
        str(res.summary()).split()
    )


def test_a_shared_term_is_determined_by_any_component():
    data = categories(0.3)
    model = MixReg.from_formula("y ~ x + C(g)", data, k=2, known_labels="z", shared=["C(g)"])
    assert np.isfinite(model.fit().bse).all()


def test_an_absent_term_is_not_undetermined():
    data = categories(0.3).assign(c=lambda d: (d["g"] == "c") * 1.0)
    model = MixReg.from_formula("y ~ x + c", data, k=2, known_labels="z", only={"c": [1]})
    assert np.isfinite(model.fit().bse).all()


# Reasons


def note(formula, k=2, variance_ratio=1e-4, **columns):
    data = pd.DataFrame(columns)
    res = MixReg.from_formula(formula, data, k=k, variance_ratio=variance_ratio).fit()
    return res, " ".join(str(res.summary()).split())


@pytest.mark.parametrize("constant", [0, 2, -0.5])
def test_a_response_that_repeats_a_column(constant):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 400))
    y = np.where(rng.random(400) < 0.4, x + constant, 1 - x + rng.standard_normal(400))
    res, text = note("y ~ w + x", y=y, x=x, w=w)
    share = np.isclose(y, x + constant).mean()
    plus = "" if constant == 0 else f" {'+' if constant > 0 else '-'} {abs(constant)}"
    assert res.solution.binds
    assert f"y equals x{plus} in {share:.0%} of the rows" in text


def test_a_component_at_one_value_of_a_lattice():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400)
    y = np.where(rng.random(400) < 0.4, 4.0, 2.0 * rng.integers(0, 6, 400))
    res, _ = note("y ~ x", y=y, x=x)
    assert not res.solution.binds
    res, text = note("y ~ x", variance_ratio=1e-5, y=y, x=x)
    assert res.solution.binds
    share = (y == 4).mean()
    assert "values of y are 2 apart" in text
    assert f"is constant at 4, which {share:.0%} of the rows have" in text


def test_a_component_on_a_lattice_of_regressors():
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 8, (2, 400))
    y = np.where(rng.random(400) < 0.4, a + b - 1, rng.integers(1, 15, 400))
    res, text = note("y ~ a + b", variance_ratio=1e-5, y=y, a=a, b=b)
    assert res.solution.binds
    assert "values of y are 1 apart" in text
    assert "follows regressors on a lattice" in text
    # Unless that is asked for, no component is narrower than values are apart.
    res, text = note("y ~ a + b", y=y, a=a, b=b)
    assert not res.solution.binds
    assert len(res.solution.narrow) == 1
    assert "would live on tied values alone" in text


def test_an_exact_fit_on_a_lattice_says_so():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 5, 300), 2.0 * rng.integers(0, 2, 300)
    res, text = note("y ~ x", y=y, x=x)
    assert res.solution.exact
    assert "no proof of recovery: values of y are 2 apart" in text


def test_rows_that_are_singled_out_are_counted():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(300)
    line = rng.random(300) < 0.3
    y = np.where(line, 1 + 2.5 * x, -x + rng.standard_normal(300))
    res, text = note("y ~ x", y=y, x=x)
    assert res.solution.binds
    reason = res.solution.reasons[0]
    assert reason.kind == "few"
    assert f"component {reason.component + 1} singles out {reason.rows:.0f} rows" in text


def test_reasons_do_not_depend_on_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3000)
    y = np.where(rng.random(3000) < 0.4, x, 1 - x + rng.standard_normal(3000))
    found = []
    for cut in (1, 10**9):
        monkeypatch.setattr(one_block, "BLOCK_VALUES", cut)
        found.append(note("y ~ x", y=y, x=x)[0].solution.reasons)
    assert [r.kind for r in found[0]] == ["column"]
    assert found[0] == found[1]
