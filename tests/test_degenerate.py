"""Degenerate fits end well or are refused; `python -m benchmarks torture` has thousands."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest

from benchmarks import torture
from mixreg import ConvergenceWarning, InputError, InputWarning, InterpretationWarning, MixReg
from mixreg.estimators.loop import Run, closed
from mixreg.estimators.newton import ChordNewton
from mixreg.estimators.runs import standard_layout
from mixreg.estimators.uncertainty import roots
from mixreg.families import Gamma, Poisson
from mixreg.families.gamma import stirling
from mixreg.families.rows import Rows
from mixreg.families.statistics import scoring_step
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search import levels
from mixreg.search.course import sturdy
from mixreg.search.ranges import OutOfRange, feasible, safe_coefficients
from mixreg.sources import MemorySource

RANGED = [
    ("poisson", "identity"),
    ("poisson", "sqrt"),
    ("negativebinomial", "identity"),
    ("gamma", "identity"),
    ("gamma", "inverse"),
    ("binomial", "identity"),
    ("binomial", "log"),
    ("gaussian", "sqrt"),
]


@pytest.mark.filterwarnings("default")
def test_degenerate_cases_end_well_or_are_refused():
    bad = [each for each in torture.outcomes(200, 7, small=True) if each.wrong]
    assert not bad, bad


@pytest.mark.filterwarnings("default")
def test_what_is_wrong_with_a_case_is_told(monkeypatch):
    def wrong(case: torture.Case) -> list[str]:
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(torture, "check", wrong)
    told = torture.one(torture.make([0, 0])).wrong
    assert "LinAlgError: singular" in told[0]
    assert "RuntimeWarning: overflow" in told[1]


def counts(seed: int = 0, n: int = 60) -> pd.DataFrame:
    """Counts, a category without any, and regressors of both signs."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"x": rng.standard_normal(n), "g": np.repeat(list("abc"), n // 3)})
    data["y"] = np.where(data.g == "b", 0.0, rng.poisson(4.0, n))
    data["o"], data["unit"] = rng.standard_normal(n), np.arange(n) // 3
    return data


# The range of means


def test_the_last_step_does_not_leave_the_range_of_means():
    rng, n = np.random.default_rng(29), 120
    label, x = rng.integers(0, 2, n), rng.random(n)
    chance = np.where(label, 0.05 + 0.9 * x, 0.95 - 0.9 * x)
    m = rng.integers(3, 12, n)
    s = rng.binomial(m, chance)
    data = pd.DataFrame({"s": s, "f": m - s, "x": x})
    model = MixReg.from_formula("s + f ~ x", data, k=2, family="binomial", link="identity")
    res = model.fit()
    assert res.llf == pytest.approx(-216.1328, abs=1e-3)
    assert res.llf >= res.history[:-1].max() - 1e-9
    assert model.loglike(res.params) == pytest.approx(res.llf, rel=1e-9)


# It may stop short of the edge, and says so.
@pytest.mark.filterwarnings("ignore::mixreg.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("link", ["identity", "sqrt"])
def test_a_category_of_zeros_keeps_its_likelihood(seed, link):
    model = MixReg.from_formula("y ~ C(g)", counts(seed), k=1, family="poisson", link=link)
    res = model.fit()
    assert res.llf > -110
    assert res.llf >= res.history.max() - 1e-6
    assert model.loglike(res.params) == pytest.approx(res.llf, rel=1e-8)
    if res.fitted.reason == "edge":
        assert "at the end of their range" in " ".join(str(res.summary()).split())


@pytest.mark.parametrize(("first", "stays"), [(-1.0, True), (3.0, True), (3.0, False)])
def test_a_last_step_is_checked_where_means_have_a_range(first, stays):
    x = np.linspace(0, 1, 40)
    source = MemorySource(np.column_stack([np.ones(40), x]), np.round(1 + 5 * x))
    at, mixture = Parameters.uniform(np.array([[1.0, 5.0]]), 1.0), Mixture(Poisson(link="identity"))
    newton = ChordNewton.at(at, mixture, standard_layout(mixture, at), source)
    height = float(newton.begin.objective[0])
    fit = Run(at, height + (0.0 if stays else -1e3), np.array([height]), "converged", 0)
    after = Parameters.uniform(np.array([[first, 5.0]]), 1.0)
    end = closed(source, newton, fit, after)
    assert end.settled
    assert (end.params is fit.params) == stays


@pytest.mark.parametrize(("family", "link"), RANGED)
@pytest.mark.parametrize("method", ["em", "altmin", "vb"])
def test_models_under_which_no_row_can_have_a_mean_are_refused(family, link, method):
    data = counts()
    data["y"] = (data.y > 3).astype(float) + (family == "gamma")
    wanted = f"link='{link}' of family='{family}' has a mean only where"
    model = MixReg.from_formula("y ~ 0 + x", data, k=1, family=family, link=link)
    begin = time.process_time()
    with pytest.raises(InputError, match=wanted) as told:
        model.fit(method)
    assert time.process_time() - begin < 1
    assert "Add an intercept" in str(told.value)


def test_joint_models_without_means_are_refused():
    data = counts()
    data["v"] = data.x + 1
    model = MixReg.from_formula(
        ["y ~ 0 + x", "v ~ x"], data, k=2, family=["poisson", "gaussian"], link=["identity", None]
    )
    with pytest.raises(InputError, match="link='identity' of family='poisson'"):
        model.fit()


@pytest.mark.parametrize(("family", "link"), RANGED)
@pytest.mark.parametrize("size", [0.1, 5.0])
def test_variational_bayes_ends_beside_an_offset(family, link, size):
    data = counts()
    data["o"] *= size
    data["y"] = data.y + 0.5 if family in ("gamma", "gaussian") else data.y
    data["y"] = (data.y > 3).astype(float) if family == "binomial" else data.y
    model = MixReg.from_formula(
        "y ~ x", data, k=2, family=family, link=link, offset="o", groups="unit"
    )
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            res = model.fit("vb")
            assert np.isfinite(res.elbo)
        except InputError as error:
            assert "has a mean only where" in str(error)  # noqa: PT017
    assert time.process_time() - begin < 3


def test_coefficients_are_found_under_which_all_rows_have_a_mean():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((3000, 3)), rng.poisson(3, 3000) + 0.0
    # Only along one direction, which no single regressor is, are all means positive.
    X[:, 2] = np.abs(X[:, 2]) + 0.2 - X[:, 0] + X[:, 1]
    source, mixture = MemorySource(X, y), Mixture(Poisson(link="identity"))
    found = safe_coefficients(source, mixture, np.zeros(3), [slice(None)])
    assert not source.sweep(OutOfRange(mixture), found[None]).mask.any()
    start = Parameters.uniform(rng.standard_normal((2, 3)), 1.0).stacked()
    drawn = feasible(source, mixture, start, found)
    assert not source.sweep(OutOfRange(mixture), drawn.coef).mask.any()


@pytest.mark.filterwarnings("ignore::mixreg.ConvergenceWarning")
@pytest.mark.parametrize("number", [2627, 2678, 2784])
def test_cases_that_were_bad_are_mended(number):
    # Quadratics without a solution; hard labels on the edge of the range.
    assert not torture.of_seed([0, number]).wrong


# Fits that collapse


@pytest.mark.parametrize("link", ["log", "inverse", "sqrt"])
@pytest.mark.parametrize("k", [1, 2])
def test_a_normal_response_that_is_met_exactly_has_a_likelihood(link, k):
    rng = np.random.default_rng(1)
    x = rng.random(60)
    mean = {"log": np.exp, "inverse": lambda e: 1 / e, "sqrt": np.square}[link]
    data = pd.DataFrame({"x": x, "y": mean(1 + x + (k - 1) * (np.arange(60) % 2))})
    model = MixReg.from_formula("y ~ x", data, k=k, link=link)
    res = model.fit()
    assert res.llf > 300
    assert model.loglike(res.params) == pytest.approx(res.llf, rel=1e-4)
    assert np.diff(res.history).min() > -1e-6 * abs(res.llf)


def test_a_gamma_response_that_is_met_exactly_has_a_likelihood():
    x = np.linspace(0, 1, 40)
    model = MixReg(np.exp(1 + x), np.column_stack([np.ones(40), x]), 1, family="gamma", link="log")
    res = model.fit()
    assert res.scale[1] == pytest.approx(1e-10, rel=1e-6)
    assert model.loglike(res.params) == pytest.approx(res.llf, rel=1e-6)
    assert np.diff(res.history).min(initial=0.0) > -1e-6 * abs(res.llf)


def test_the_gamma_density_is_right_for_all_shapes():
    shape = np.array([0.3, 2.0, 999.0, 1001.0, 1e5])
    # By series of 40 digits: log s - digamma(s), and s^2 trigamma(s) - s.
    wanted = [
        [2.2985514, 0.2703628, 5.0058400e-4, 4.9958367e-4, 5.0000083e-6],
        [0.8020828, 0.5797363, 0.5001668, 0.5001665, 0.5000017],
    ]
    found = stirling(shape)
    np.testing.assert_allclose(found[1], wanted[0], rtol=1e-6)
    np.testing.assert_allclose(found[2], wanted[1], rtol=1e-4)
    for one, other in zip(found, stirling(shape * (1 + 1e-9)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    rows = Rows(np.ones(1), np.zeros((1, 1)), np.ones((1, 1)), np.array([[1e-9]]), None)
    exact = 0.5 * np.log(1e9 / (2 * np.pi))
    assert Gamma(link="log").log_density(rows)[0, 0] == pytest.approx(exact, rel=1e-9)


# Arithmetic that breaks


def test_singular_equations_have_the_shortest_step():
    one = np.array([[1.0, 1.0], [1.0, 1.0]])
    step = scoring_step(np.array([[one], [np.eye(2)]]), np.ones((2, 1, 2)), np.zeros(1), 0)
    np.testing.assert_allclose(step[:, 0], [[0.5, 0.5], [1.0, 1.0]])
    lost = scoring_step(np.full((1, 1, 2, 2), np.inf), np.ones((1, 1, 2)), np.zeros(1), 0)
    np.testing.assert_array_equal(lost, 0.0)
    shared = scoring_step(np.array([[one], [one]]), np.ones((2, 1, 2)), np.zeros(1), 1)
    assert np.isfinite(shared).all()


def test_covariances_without_a_root_have_the_nearest():
    cov = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-12]])
    root = roots(cov)
    np.testing.assert_allclose(root @ root.T, cov, atol=1e-8)
    assert root[0, 1] == 0


def test_starts_on_which_the_arithmetic_breaks_are_left_behind():
    def run(stack: Parameters) -> list[str]:
        if (stack.coef > 2).any():
            raise np.linalg.LinAlgError("singular")
        return ["good"] * stack.coef.shape[1]

    stack = Parameters.uniform(np.array([[[1.0], [3.0], [2.0]]]), 1.0)
    ends = sturdy(run, stack)
    assert ends[::2] == ["good", "good"]
    assert ends[1].reason == "abandoned"
    assert ends[1].objective == -np.inf


def test_moves_on_which_the_arithmetic_breaks_lead_nowhere(monkeypatch):
    def breaks(*_):
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(levels, "moved", breaks)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    y = rng.choice([-1.0, 1.0], 200) * x + 0.3 * rng.standard_normal(200)
    res = MixReg(y, np.column_stack([np.ones(200), x]), k=3).fit()
    assert np.isfinite(res.llf)


def test_weights_of_zero_have_no_say():
    data = counts()
    data["w"] = (data.x > 0).astype(float)
    model = MixReg.from_formula("y ~ x", data, k=1, family="poisson", link="identity", weights="w")
    params = np.array([0.5, 1.0])
    assert np.isfinite(model.loglike(params))


# What is refused or told at once


def test_more_parameters_than_rows_are_told_at_once():
    rng = np.random.default_rng(0)
    model = MixReg(rng.standard_normal(30), np.ones((30, 1)), k=12)
    with (
        pytest.warns(InputWarning, match="k=12 components have 35 parameters, more than the 30"),
        pytest.warns(ConvergenceWarning),
    ):
        model.fit(n_init=1, max_iter=2, init="random")


def test_noise_beside_a_constant_response_is_refused():
    data = counts().assign(y=0.0)
    with pytest.raises(InputError, match=r"noise=True .* y is 0 in all rows"):
        MixReg.from_formula("y ~ 1", data, k=2, noise=True, offset="o")


def test_splines_of_yes_and_no_are_refused():
    data = counts()
    data["b"] = data.x > 0
    with pytest.raises(InputError, match=r"bs\(\) takes numbers, but column 'b' holds yes and no"):
        MixReg.from_formula("y ~ bs(b, df=4)", data, k=2)


def test_errors_of_joint_dispersions_are_dashes_where_not_asked_for():
    data = counts()
    data["v"] = data.x + 1
    res = MixReg.from_formula(["v ~ x", "o ~ x"], data, k=1).fit(cov_type="none")
    assert "nan" not in str(res.summary())


def test_rows_without_a_mean_are_told_by_a_warning_of_ours():
    data = counts()
    res = MixReg.from_formula("y ~ x", data, k=1, family="poisson", link="identity").fit()
    with pytest.warns(InterpretationWarning, match="rows have no mean under the identity link"):
        res.predict(data.assign(x=data.x * 1e6))


def test_one_variance_stays_one_where_components_are_empty():
    data = pd.DataFrame(
        {
            "x": [0.217820, -0.913483, -2.131610, 0.148425],
            "y": [0.489030, 3.871965, -78.136889, 247.762923],
        }
    )
    model = MixReg.from_formula(
        "y ~ x", data, k=3, family="gaussian", link="log", equal_variance=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [model.fit(seed=seed, n_init=6) for seed in (1, 4)]
    for fit in fits:
        assert np.ptp(fit.scale) < 1e-9 * fit.scale.max()
        assert fit.llf == pytest.approx(model.loglike(fit.params), rel=1e-9)
