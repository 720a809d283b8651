"""Engines for a PyMC model: modes under its own priors, normal approximations, starts of chains."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mixreg import InputError, MixReg, NotAvailableError, Priors, ppl
from mixreg.ppl.compat import pymc
from tests.samples import lines
from tests.test_pymc import PLAIN, choices, customers

pm, pt = pymc()

from pymc.distributions.transforms import ordered  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def three_lines(n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, label = rng.standard_normal(n), rng.integers(0, 3, n)
    y = np.array([3, 0, -3])[label] + np.array([1, -1, 0.5])[label] * x
    return y + 0.4 * rng.standard_normal(n), np.column_stack([np.ones(n), x])


def ordered_model() -> Any:
    """Ordered intercepts, slopes that come from one distribution."""
    y, exog = three_lines()
    with pm.Model() as built:
        a = pm.Normal("a", 0, 5, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
        mu, tau = pm.Normal("mu"), pm.LogNormal("tau", 0, 0.5)
        b = pm.Normal("b", mu, tau, shape=3)
        s = pm.InverseGamma("s", 3, 1, shape=3)
        ppl.MixtureRegression("y", exog, k=3, coef=pt.stack([a, b], axis=1), scale=s, observed=y)
    return built


def with_offset() -> Any:
    """A slope in common, as an offset from elsewhere in the model."""
    table = customers(seed=2)
    with pm.Model() as built:
        slope = pm.Normal("slope", 0, 2)
        ppl.MixtureRegression.from_formula(
            "count",
            "count ~ x1",
            table,
            k=2,
            family="poisson",
            offset=slope * table["x2"].to_numpy(),
        )
    return built


def grouped_choices() -> Any:
    table = choices(False)
    return MixReg.from_formula(
        "y ~ x1 + x2", table, k=2, family="choice", choice_set="offer", groups="who"
    ).to_pymc()


def swept() -> Any:
    return MixReg.from_formula(
        "count ~ x1", customers(), k=2, family="poisson", concomitant="~ age"
    ).to_pymc(likelihood="sweep")


KINDS = {
    "ordered": ordered_model,
    "offset": with_offset,
    "choices": grouped_choices,
    "swept": swept,
    "one component": lambda: MixReg(*three_lines(60), k=1).to_pymc(),
    "noise, only, shared": lambda: MixReg.from_formula(
        "y ~ x1 + x2", customers(), k=2, noise=True, only={"x1": [2]}, shared=["x2"]
    ).to_pymc(),
}


@pytest.fixture(scope="module")
def fits() -> Any:
    """Fit a model once, whichever test asks first."""
    made: dict[str, Any] = {}

    def make(name: str) -> Any:
        if name not in made:
            made[name] = ppl.fit(KINDS[name](), n_init=8)
        return made[name]

    return make


@pytest.mark.parametrize("name", KINDS)
def test_the_mode_is_no_lower_than_jittered_climbs_find(fits, name):
    found = fits(name)
    surface = found.modes.surface
    rng = np.random.default_rng(99)
    size = len(surface.start)
    ends = [surface.climbed(surface.start + rng.uniform(-1, 1, size)).height for _ in range(10)]
    assert found.log_density >= max(ends) - 1e-4
    assert found.heights[0] == found.log_density
    assert list(found.heights) == sorted(found.heights, reverse=True)


@pytest.mark.parametrize("name", KINDS)
def test_the_mode_is_a_point_of_the_model(fits, name):
    found = fits(name)
    model = found.modes.surface.found.model
    assert set(found.point) == {variable.name for variable in model.free_RVs}
    for key, value in found.point.items():
        assert_allclose(found.posterior[key].to_numpy()[0, 0], value)
    point = found.modes.surface.unraveled(found.modes.best.vector)
    height = model.compile_logp(jacobian=False, mode=PLAIN)(point)
    assert_allclose(float(height), found.log_density, rtol=1e-8)
    slope = found.modes.surface.at(found.modes.best.vector, jacobian=False)[1]
    assert np.abs(slope).max() < 1e-3
    assert found.posterior.sizes["draw"] == 1


def test_order_is_kept(fits):
    found = fits("ordered")
    assert (np.diff(found.point["a"]) > 0).all()
    assert_allclose(found.point["a"], [-3, 0, 3], atol=0.3)
    assert_allclose(found.point["b"], [0.5, -1, 1], atol=0.4)


def test_an_offset_that_varies_is_found(fits):
    # Linear predictors were made with 0.3 x2.
    assert_allclose(float(fits("offset").point["slope"]), 0.3, atol=0.2)


def test_without_priors_to_speak_of_the_mode_is_the_estimate():
    res = MixReg.from_formula("count ~ x1", customers(), k=2, family="poisson").fit()
    found = ppl.fit(res.model.to_pymc(Priors(1.0, link_scale=1e4)))
    assert_allclose(found.posterior["coef"][0, 0], res.coefficients.T, atol=1e-3)
    assert_allclose(found.posterior["weights"][0, 0], res.weights, atol=1e-3)
    assert list(found.posterior["component"].to_numpy()) == [1, 2]


@pytest.fixture(scope="module")
def large() -> Any:
    return MixReg.from_formula("y ~ x1 + x2", lines(1500, 3), k=2).fit()


@pytest.mark.parametrize("method", ["laplace", "vb"])
def test_normal_draws_are_the_estimate_and_its_standard_error(large, method):
    found = ppl.fit(large.model.to_pymc(), method, draws=2000, n_init=4)
    coef = found.posterior["coef"].to_numpy()[0]
    index = large.model.layout.coef_index()
    error = large.bse.to_numpy()[index]
    assert_allclose((coef.mean(axis=0) - large.coefficients.T.to_numpy()) / error, 0, atol=0.15)
    assert_allclose(coef.std(axis=0), error, rtol=0.15)
    assert found.posterior.sizes["draw"] == 2000
    assert_allclose(found.posterior["weights"].sum("class"), 1.0)


def test_the_same_seed_gives_the_same_draws():
    model = KINDS["one component"]()
    runs = [
        ppl.fit(model, "laplace", seed=s, draws=5, n_init=2).posterior["coef"] for s in (1, 1, 2)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_initial_points_begin_chains(fits):
    found = fits("ordered")
    points = found.initial_points(chains=3)
    model = found.modes.surface.found.model
    assert len(points) == 3
    assert not np.array_equal(points[0]["weights"], points[1]["weights"])
    again = found.initial_points(chains=3)
    for point, other in zip(points, again, strict=True):
        for key, value in point.items():
            assert_allclose(value, other[key])
    with model:
        data = pm.sample(
            3,
            tune=3,
            chains=3,
            cores=1,
            initvals=points,
            init="adapt_diag",
            nuts_sampler="pymc",
            progressbar=False,
            compute_convergence_checks=False,
        )
    assert data.posterior.sizes["chain"] == 3


def test_classes_of_the_mode(fits):
    found = fits("ordered")
    model = found.modes.surface.found.model
    labels = ppl.classify(found.data, model)["classes"]["label"]
    assert set(labels.to_numpy()) == {1, 2, 3}


def test_what_cannot_be_fitted_is_refused():
    y, exog = three_lines(60)
    with pm.Model() as discrete:
        pm.Poisson("n", 3)
        ppl.MixtureRegression("y", exog, k=2, observed=y)
    with pytest.raises(InputError, match="discrete variables, n, which"):
        ppl.fit(discrete)
    with pytest.raises(InputError, match="method='nuts' is unknown; use one of map, em"):
        ppl.fit(discrete, "nuts")
    with pytest.raises(InputError, match=r"must be a pymc\.Model"):
        ppl.fit(None)
    with pm.Model() as fixed:
        ppl.MixtureRegression(
            "y", exog, k=2, coef=np.eye(2), scale=1.0, weights=[0.5, 0.5], observed=y
        )
    with pytest.raises(InputError, match="no free variables; there is nothing"):
        ppl.fit(fixed)


def test_what_no_data_determine_has_no_normal_distribution():
    y, exog = three_lines(60)
    with pm.Model() as built:
        pm.Flat("anything")
        ppl.MixtureRegression("y", exog, k=1, observed=y)
    with pytest.raises(NotAvailableError, match="method='laplace' needs a mode with curvature"):
        ppl.fit(built, "laplace", n_init=2)
    assert len(ppl.fit(built, n_init=2).initial_points(2)) == 2
