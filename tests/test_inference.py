"""Derivatives and standard errors against mpmath, finite differences and simulation."""

import mpmath
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import chi2, norm

from mixreg import InputError, MixReg
from mixreg.inference.covariance import inverse_beside, reached
from mixreg.report.summary import weights_frame
from tests.samples import lines, shops

VARIANTS = {
    "rows": {},
    "groups": {"groups": "shop"},
    "weights": {"weights": "count"},
    "equal": {"equal_variance": True},
    "all": {"groups": "shop", "weights": "count", "equal_variance": True},
}
EVERY = pytest.mark.parametrize("variant", VARIANTS)


def declared(variant: str, k: int = 2) -> MixReg:
    data = shops(30, seed=5)
    counts = pd.Series(np.random.default_rng(1).integers(1, 4, 30), data["shop"].unique())
    data["count"] = data["shop"].map(counts)
    return MixReg.from_formula("y ~ x", data, k=k, **VARIANTS[variant])


def somewhere(model: MixReg, seed: int = 0) -> np.ndarray:
    """A parameter vector that is no maximum."""
    return 0.5 * np.random.default_rng(seed).standard_normal(model.layout.size)


def differences(function, at: np.ndarray, step: float) -> np.ndarray:
    """Central differences with one Richardson step, derivative last."""

    def slope(i, h):
        ahead, behind = at.copy(), at.copy()
        ahead[i], behind[i] = at[i] + h, at[i] - h
        return (np.asarray(function(ahead)) - np.asarray(function(behind))) / (2 * h)

    return np.stack(
        [(4 * slope(i, step / 2) - slope(i, step)) / 3 for i in range(len(at))], axis=-1
    )


# Log-likelihood and its derivatives


def in_many_digits(model: MixReg, vector: np.ndarray):
    """Log-likelihood from its definition, with 40 digits."""
    params, x, y = model.layout.unpack(vector), model.source.x, model.source.y
    starts = np.arange(len(y)) if model.source.starts is None else model.source.starts
    weight = np.ones(len(starts)) if model.source.weight is None else model.source.weight
    total = mpmath.mpf(0)
    for unit, rows in enumerate(np.split(np.arange(len(y)), starts[1:])):
        density = mpmath.mpf(0)
        for j in range(model.k):
            part = mpmath.mpf(float(params.weights[j]))
            for i in rows:
                mean = mpmath.fdot(map(float, x[i]), map(float, params.coef[j]))
                sigma = mpmath.sqrt(float(params.dispersion[j]))
                part *= mpmath.npdf(float(y[i]), mean, sigma)
            density += part
        total += weight[unit] * mpmath.log(density)
    return total


@EVERY
@pytest.mark.parametrize("k", [1, 2, 3])
def test_log_likelihood_is_the_one_of_the_definition(variant, k):
    model = declared(variant, k)
    vector = somewhere(model)
    with mpmath.workdps(40):
        wanted = float(in_many_digits(model, vector))
    assert model.loglike(vector) == pytest.approx(wanted, rel=1e-12)


def test_log_likelihood_of_six_rows_far_from_every_line():
    x, y = np.array([0.0, 1, 2, 3, 4, 5]), np.array([0.0, 1e3, -1e3, 5.0, 1e4, 2.0])
    model = MixReg.from_formula("y ~ x", {"x": x, "y": y}, k=2)
    vector = np.array([1.0, 2.0, -3.0, 0.0, -1.0, -4.0, 3.0])
    with mpmath.workdps(40):
        wanted = float(in_many_digits(model, vector))
    assert model.loglike(vector) == pytest.approx(wanted, rel=1e-12)


@EVERY
@pytest.mark.parametrize("k", [1, 2, 3])
def test_score_is_the_gradient(variant, k):
    model = declared(variant, k)
    for seed in range(3):
        at = somewhere(model, seed)
        score = model.score(at)
        wanted = differences(model.loglike, at, 1e-3)
        assert_allclose(score, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


@EVERY
@pytest.mark.parametrize("k", [1, 2, 3])
def test_hessian_is_the_derivative_of_the_score(variant, k):
    model = declared(variant, k)
    for seed in range(3):
        at = somewhere(model, seed)
        hessian = model.hessian(at)
        wanted = differences(model.score, at, 1e-3)
        assert_allclose(hessian, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
        assert_allclose(hessian, hessian.T, rtol=1e-12, atol=1e-10)


@EVERY
def test_the_gradient_vanishes_at_the_fit(variant):
    res = declared(variant).fit()
    # In standard errors, so that the scale of parameters does not matter.
    assert np.abs(res.model.score(res.params) * res.bse).max() < 1e-4


# Covariances


@EVERY
def test_observed_information_is_the_curvature_of_the_log_likelihood(variant):
    res = declared(variant).fit()
    at = res.params.to_numpy()
    steps = 0.05 * res.bse.to_numpy()
    scaled = differences(
        lambda v: differences(lambda u: res.model.loglike(u * steps), v, 0.5), at / steps, 0.5
    )
    cov = np.linalg.inv(-scaled) * np.outer(steps, steps)
    assert_allclose(res.bse, np.sqrt(np.diag(cov)), rtol=1e-4)
    assert_allclose(res.cov_params(), cov, rtol=1e-3, atol=1e-4 * np.abs(cov).max())


def unit_scores(model: MixReg, at: np.ndarray) -> np.ndarray:
    """Score of every unit by differences of its own log-likelihood, (units, m)."""

    def each(vector):
        params, source = model.layout.unpack(vector), model.source
        sigma = np.sqrt(params.dispersion)[:, None]
        density = norm.logpdf(source.y, params.coef @ source.x.T, sigma)
        if source.starts is not None:
            density = np.add.reduceat(density, source.starts, axis=1)
        return logsumexp(density + np.log(params.weights)[:, None], axis=0)

    return differences(each, at, 1e-3)


@EVERY
def test_outer_product_and_sandwich_are_those_of_the_units(variant):
    model = declared(variant)
    res = {cov_type: model.fit(cov_type=cov_type) for cov_type in ("oim", "opg", "robust")}
    at = res["oim"].params.to_numpy()
    scores = unit_scores(model, at)
    weight = np.ones(len(scores)) if model.source.weight is None else model.source.weight
    outer = (scores * weight[:, None]).T @ scores
    bread = np.linalg.inv(-model.hessian(at))
    for cov_type, wanted in (
        ("oim", bread),
        ("opg", np.linalg.inv(outer)),
        ("robust", bread @ outer @ bread),
    ):
        found = res[cov_type].cov_params()
        assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_add_up_their_scores(weighted):
    data = lines(120)
    weights = np.random.default_rng(0).integers(1, 4, 120) if weighted else None
    clusters = np.random.default_rng(1).choice([f"town {i}" for i in range(15)], 120)
    model = MixReg.from_formula("y ~ x1 + x2", data, k=2, weights=weights)
    res = model.fit(cov_type="cluster", cov_kwds={"groups": clusters})
    at = res.params.to_numpy()
    scores = unit_scores(model, at) * (1 if weights is None else weights[:, None])
    sums = pd.DataFrame(scores).groupby(clusters).sum().to_numpy()
    bread = np.linalg.inv(-model.hessian(at))
    wanted = bread @ (sums.T @ sums * 15 / 14) @ bread
    assert_allclose(res.cov_params(), wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())
    assert "within 15 clusters" in str(res.summary())


def test_a_cluster_for_each_row_is_the_sandwich():
    data = lines(120)
    model = MixReg.from_formula("y ~ x1 + x2", data, k=2)
    robust = model.fit(cov_type="robust").cov_params()
    own = model.fit(cov_type="cluster", cov_kwds={"groups": np.arange(120)}).cov_params()
    assert_allclose(own, robust * 120 / 119, rtol=1e-10)


def test_clusters_are_the_groups_of_the_model_by_default():
    data = shops(30, seed=5)
    model = MixReg.from_formula("y ~ x", data, k=2, groups="shop")
    wanted = model.fit(cov_type="cluster", cov_kwds={"groups": "shop"})
    found = model.fit(cov_type="cluster")
    assert_allclose(found.cov_params(), wanted.cov_params(), rtol=1e-12)
    assert "within 30 clusters" in str(found.summary())
    assert_allclose(model.fit().with_cov("cluster").bse, wanted.bse, rtol=1e-10)


def test_series_beside_the_rows_have_their_index():
    data = shops(30, seed=5)
    data.index = [f"row {i}" for i in range(len(data))]
    model = MixReg.from_formula("y ~ x", data, k=2, groups="shop")
    res, other = model.fit(n_init=2), "has another index than the rows of the model; align it"
    with pytest.raises(InputError, match=f"init labels {other}"):
        model.fit(init=res.group_labels.iloc[::-1])
    with pytest.raises(InputError, match=f"{other}"):
        model.fit(cov_type="cluster", cov_kwds={"groups": data["shop"].iloc[::-1]})
    for init in (res.group_labels, res.labels, res.labels.to_numpy()):
        assert model.fit(init=init).llf == pytest.approx(res.llf)


def test_clusters_of_groups():
    # Towns hold whole shops; dropped rows take their town along.
    data = shops(30, seed=5)
    data["town"] = data["shop"].str[-1]
    broken = pd.concat([data, data[:1].assign(y=np.nan, town="nowhere")])
    first, second = (
        MixReg.from_formula("y ~ x", each, k=2, groups="shop").fit(
            cov_type="cluster", cov_kwds={"groups": each["town"]}
        )
        for each in (data, broken)
    )
    assert_allclose(first.bse, second.bse, rtol=1e-10)
    assert "within 10 clusters" in str(second.summary())


def test_clusters_must_not_cut_groups():
    data = shops(30, seed=5)
    model = MixReg.from_formula("y ~ x", data, k=2, groups="shop")
    with pytest.raises(ValueError, match="cov_kwds"):
        model.fit(cov_type="cluster", cov_kwds={"groups": np.arange(len(data))})


def test_covariances_do_not_change_the_fit():
    model = MixReg.from_formula("y ~ x1 + x2", lines(120), k=2)
    fits = [model.fit(cov_type=cov_type) for cov_type in ("oim", "opg", "robust", "none")]
    for res in fits[1:]:
        np.testing.assert_array_equal(res.params, fits[0].params)


def test_altmin_errors_are_those_of_least_squares_within_labels():
    data = lines(200)
    res = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit("altmin")
    for j in (1, 2):
        rows = data[res.labels == j]
        X = np.column_stack([np.ones(len(rows)), rows[["x1", "x2"]]])
        residual = rows["y"] - X @ res.coefficients[j]
        cov = np.linalg.inv(X.T @ X) * np.mean(residual**2)
        names = [f"{term}[{j}]" for term in ("Intercept", "x1", "x2")]
        assert_allclose(res.bse[names], np.sqrt(np.diag(cov)), rtol=1e-6)
        assert res.bse[f"log(sigma)[{j}]"] == pytest.approx(1 / np.sqrt(2 * len(rows)))
    n1, n2 = (res.labels == 1).sum(), (res.labels == 2).sum()
    assert res.bse["logit(weight)[2]"] == pytest.approx(np.sqrt(1 / n1 + 1 / n2))
    assert "conditional on the labels" in str(res.summary())


@pytest.mark.parametrize("own", [0.0, 1e-25, -1e-25])
def test_a_parameter_without_information_leaves_the_others_alone(own):
    information = np.array([[4.0, 1.0, 1e-17], [1.0, 3.0, -1e-17], [1e-17, -1e-17, own]])
    cov, flat = inverse_beside(information, np.zeros((3, 0)))
    lost = reached(np.eye(3), flat / np.linalg.norm(flat, axis=0))
    assert lost.tolist() == [False, False, True]
    assert_allclose(cov[:2, :2], np.linalg.inv(information[:2, :2]), rtol=1e-9)


def test_a_regular_matrix_is_inverted():
    root = np.random.default_rng(0).standard_normal((5, 5)) * 10.0 ** np.arange(-4, 6, 2)[:, None]
    cov, flat = inverse_beside(root @ root.T, np.zeros((5, 0)))
    assert not flat.size
    assert_allclose(cov @ root @ root.T, np.eye(5), atol=1e-5)


# Tests of hypotheses


@pytest.fixture(scope="module")
def crossing():
    return MixReg.from_formula("y ~ x1 + x2", lines(), k=2).fit()


def test_t_test_is_difference_over_standard_error(crossing):
    res, cov = crossing, crossing.cov_params()
    a, b = "x1[1]", "x1[2]"
    se = np.sqrt(cov.loc[a, a] + cov.loc[b, b] - 2 * cov.loc[a, b])
    difference = res.params[a] - res.params[b]
    test = res.t_test("x1[1] = x1[2]")
    assert test.effect.item() == pytest.approx(difference)
    assert test.sd.item() == pytest.approx(se)
    assert test.tvalue.item() == pytest.approx(difference / se)
    small = res.t_test("x2[2] = 0.5")
    z = (res.params["x2[2]"] - 0.5) / res.bse["x2[2]"]
    assert small.pvalue.item() == pytest.approx(2 * norm.sf(abs(z)))


def test_t_test_takes_a_matrix_and_several_at_once(crossing):
    res = crossing
    one = np.eye(len(res.params))
    assert_allclose(res.t_test(one).tvalue, res.tvalues, rtol=1e-12)
    both = res.t_test("x1[1] = 2, x2[1] = 1")
    assert_allclose(both.effect, [res.params["x1[1]"], res.params["x2[1]"]])


def test_wald_test_is_the_quadratic_form(crossing):
    res = crossing
    R = np.zeros((2, len(res.params)))
    names = res.params.index
    for row, term in enumerate(("x1", "x2")):
        R[row, names.get_loc(f"{term}[1]")], R[row, names.get_loc(f"{term}[2]")] = 1, -1
    gap = R @ res.params
    wanted = gap @ np.linalg.solve(R @ res.cov_params() @ R.T, gap)
    for test in (res.wald_test("x1[1] = x1[2], x2[1] = x2[2]"), res.wald_test(R)):
        assert float(test.statistic) == pytest.approx(wanted)
        assert float(test.pvalue) == pytest.approx(chi2.sf(wanted, 2), rel=1e-8, abs=1e-300)


def test_hypotheses_about_categories_and_functions():
    data = lines()
    data["g"] = np.where(data["x2"] > 0, "north", "south")
    res = MixReg.from_formula("y ~ x1 + np.exp(x2) + C(g)", data, k=2).fit()
    for name in ("np.exp(x2)", "C(g)[T.south]", "Intercept"):
        test = res.t_test(f"{name}[1] = {name}[2]")
        wanted = res.params[f"{name}[1]"] - res.params[f"{name}[2]"]
        assert test.effect.item() == pytest.approx(wanted)


def test_tables_of_the_inference_agree(crossing):
    res = crossing
    assert_allclose(res.bse, np.sqrt(np.diag(res.cov_params())), rtol=1e-12)
    assert_allclose(res.tvalues, res.params / res.bse, rtol=1e-12)
    assert_allclose(res.pvalues, 2 * norm.sf(np.abs(res.tvalues)), rtol=1e-12)
    assert (res.pvalues[res.tvalues.abs() < 30] > 0).all()
    for alpha in (0.05, 0.2):
        half = norm.isf(alpha / 2) * res.bse
        assert_allclose(res.conf_int(alpha)[0], res.params - half, rtol=1e-12)
        assert_allclose(res.conf_int(alpha)[1], res.params + half, rtol=1e-12)


# Weights and sigmas on their own scale


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("equal", [False, True])
def test_weights_and_sigmas_by_the_delta_method(k, equal):
    data = lines(300, seed=2)
    res = MixReg.from_formula("y ~ x1 + x2", data, k=k, equal_variance=equal).fit()
    layout, at, cov = res.model.layout, res.params.to_numpy(), res.cov_params().to_numpy()
    frame = weights_frame(res)
    for column, values in (
        ("weight", lambda v: layout.unpack(v).weights),
        ("scale", lambda v: np.sqrt(layout.unpack(v).dispersion)),
    ):
        J = differences(values, at, 1e-4)
        assert_allclose(frame[column], values(at), rtol=1e-12)
        assert_allclose(frame[f"{column}_se"], np.sqrt(np.diag(J @ cov @ J.T)), rtol=1e-6)
    # Intervals on the logit scale stay within (0, 1).
    se = frame["weight_se"] / (frame["weight"] * (1 - frame["weight"]))
    logit = np.log(frame["weight"] / (1 - frame["weight"]))
    for side, name in ((-1, "lower"), (1, "upper")):
        wanted = 1 / (1 + np.exp(-(logit + side * norm.isf(0.025) * se)))
        assert_allclose(frame[name], wanted, rtol=1e-10)
    assert frame["rows"].sum() == 300


# Simulation


def test_standard_errors_are_the_spread_of_the_estimates():
    truth = np.array([1.0, 2.0, 1.0])
    estimates, errors = [], []
    for seed in range(40):
        data = lines(150, seed=100 + seed)
        res = MixReg.from_formula("y ~ x1 + x2", data, k=2).fit(init=data["z"])
        # Which component is which does not depend on the draw's weights.
        near = res.coefficients.sub(truth, axis=0).abs().sum().idxmin()
        order = [near, 3 - near]
        names = [f"{term}[{j}]" for j in order for term in ("Intercept", "x1", "x2", "log(sigma)")]
        estimates.append(res.params[names].to_numpy())
        errors.append(res.bse[names].to_numpy())
    spread = np.std(estimates, axis=0, ddof=1)
    assert_allclose(np.sqrt(np.mean(np.square(errors), axis=0)), spread, rtol=0.3)


# Numbers that there are not


@pytest.mark.parametrize(("groups", "weight"), [(True, 1.0), (False, 0.002)])
def test_criteria_of_next_to_nothing_are_numbers(groups, weight):
    data = lines(100).assign(one="a", w=weight)
    options = {"groups": "one"} if groups else {"weights": "w"}
    res = MixReg.from_formula("y ~ x1", data, k=1, **options).fit()
    assert res.n_units <= 1
    assert res.hqic == pytest.approx(-2 * res.llf)
    assert res.glance()["hqic"].iloc[0] == res.hqic


def test_weights_without_errors_are_printed_without_them():
    model = MixReg.from_formula("y ~ x1", lines(150), k=2)
    res = model.fit(cov_type="none")
    weights = str(res.summary().tables[1])
    assert "nan" not in weights
    rows = [line.split() for line in weights.splitlines() if line.startswith("Component")]
    assert [row[3:6] for row in rows] == [["-"] * 3] * 2
    assert weights_frame(res)[["weight_se", "lower", "upper"]].isna().all(axis=None)
    assert weights_frame(model.fit())["weight_se"].gt(0).all()
    alone = weights_frame(model.with_k(1).fit(cov_type="none"))
    assert alone[["weight", "weight_se", "lower", "upper"]].to_numpy().tolist() == [[1, 0, 1, 1]]


def test_as_many_coefficients_as_rows_are_not_known_without_error():
    data = pd.DataFrame({"y": [1.0, 3.0, 2.0, 7.0], "x": [0.0, 1.0, 2.0, 3.0]})
    res = MixReg.from_formula("y ~ x", data, k=2).fit()
    assert res.fitted.exact
    assert np.isinf(res.bse[[name for name in res.bse.index if "weight" not in name]]).all()
    text = str(res.summary())
    assert "known without error" not in text
    assert "no more rows than coefficients" in text
    # Enough rows on two lines are.
    x = np.tile(np.arange(20.0), 2)
    sure = pd.DataFrame({"x": x, "y": np.where(np.arange(40) < 20, 1 + 2 * x, 30 - 3 * x)})
    sure = MixReg.from_formula("y ~ x", sure, k=2).fit()
    assert "known without error" in str(sure.summary())
    assert (sure.bse[["x[1]", "x[2]"]] == 0).all()
