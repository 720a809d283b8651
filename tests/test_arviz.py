"""Draws as ArviZ data: groups, dimensions, order of rows, and what ArviZ makes of them."""

from collections.abc import Callable, Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixreg import InputError, MixReg, MixRegResults, NotAvailableError, Priors
from mixreg.ppl.compat import arviz, arviz_makes_trees, group_names
from tests.samples import lines, shops
from tests.test_pymc import MODELS, QUICK, choices, customers, model

mpl.use("Agg")
az = arviz()

import matplotlib.pyplot as plt  # noqa: E402

# ArviZ calls what pandas and matplotlib will drop.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame"),
    pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping"),
]

FORMULA = "y ~ x1 + x2"
GROUPS = {
    "posterior",
    "posterior_predictive",
    "log_likelihood",
    "observed_data",
    "constant_data",
}
NAMES = (
    "gaussian",
    "one component",
    "gaussian, log link",
    "poisson",
    "trials",
    "probit",
    "gamma, log link",
    "choices, equal sets",
    "choices, unequal sets",
    "groups",
    "poisson groups",
    "weights",
    "groups, weights",
    "offset",
    "exposure",
    "shared",
    "concomitant",
    "poisson groups, concomitant",
    "noise, one component",
    "known labels",
    "only",
    "equal variance",
)
BAYES = (
    "gaussian",
    "one component",
    "groups, weights",
    "offset",
    "noise",
    "known labels",
    "trials",
    "choices, unequal sets",
    "poisson groups, concomitant",
    "shared",
    "only",
)
KINDS = [*NAMES, *(f"vb: {name}" for name in BAYES)]


def fit(kind: str) -> MixRegResults:
    name = kind.removeprefix("vb: ")
    return MODELS[name]().fit("vb" if kind.startswith("vb") else "em", n_init=4)


_found: dict[str, tuple[MixRegResults, Any]] = {}


@pytest.fixture
def found() -> Callable[[str], tuple[MixRegResults, Any]]:
    """A fit and 40 draws of it, made once."""

    def make(kind: str) -> tuple[MixRegResults, Any]:
        if kind not in _found:
            res = fit(kind)
            _found[kind] = res, res.to_arviz(40, seed=3)
        return _found[kind]

    return make


# What is in it


@pytest.mark.parametrize("kind", KINDS)
def test_groups_and_dimensions_are_always_the_same(found, kind):
    res, data = found(kind)
    assert group_names(data) == GROUPS
    name, unit = res.model.endog_names, "row" if res.ngroups is None else "group"
    dims = {key: value.dims for key, value in data.posterior.data_vars.items()}
    expected = {"coef": ("component", "term"), "weights": ("class",)}
    if res.model.family.dispersion_name is not None:
        expected["scale"] = ("component",)
    if res.model.gate_design is not None:
        expected["gate"] = ("class", "gate_term")
    assert dims == {key: ("chain", "draw", *value) for key, value in expected.items()}
    assert data.log_likelihood[name].dims == ("chain", "draw", unit)
    assert data.posterior_predictive[name].dims == ("chain", "draw", "row")
    assert data.observed_data[name].dims == ("row",)
    assert data.constant_data["labels"].dims == (unit,)
    assert data.constant_data["probability"].dims == (unit, "class")
    assert data.posterior["component"].to_numpy().tolist() == res.components.to_list()
    assert data.posterior["class"].to_numpy().tolist() == res.classes.to_list()
    assert data.posterior["term"].to_numpy().tolist() == res.model.exog_names
    assert_array_equal(data.observed_data["row"], res.model.index)
    assert data.posterior.sizes["draw"] == 40


@pytest.mark.parametrize("kind", KINDS)
def test_draws_are_those_of_the_parameters(found, kind):
    res, data = found(kind)
    vectors, family = res.posterior_draws(40, seed=3).to_numpy(), res.model.family
    for i in (0, 7, 39):
        params, one = res.model.layout.unpack(vectors[i]), data.posterior.isel(chain=0, draw=i)
        assert_allclose(one["coef"], params.coef, rtol=1e-9, atol=1e-12)
        if family.dispersion_name is not None:
            assert_allclose(one["scale"], params.dispersion**family.dispersion_power, rtol=1e-9)
        if "gate" in one:
            assert_allclose(one["gate"], params.gating, rtol=1e-9, atol=1e-12)
            utility = params.gating @ res.model.source.z.T
            shares = np.exp(utility) / np.exp(utility).sum(axis=0)
            average = np.average(shares, axis=1, weights=res.model.source.weight)
            assert_allclose(one["weights"], average, rtol=1e-9)
        else:
            assert_allclose(one["weights"], params.weights, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_log_likelihoods_add_up(found, kind):
    res, data = found(kind)
    each = data.log_likelihood[res.model.endog_names].isel(chain=0).to_numpy()
    weight = res.model.units.weight
    total = each.sum(axis=1) if weight is None else each @ weight
    vectors = res.posterior_draws(40, seed=3).to_numpy()
    assert_allclose(total, [res.model.loglike(vector) for vector in vectors], rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_those_of_the_fit(found, kind):
    res, data = found(kind)
    labels = data.constant_data["labels"].to_series()
    chance = data.constant_data["probability"].to_pandas()
    if res.ngroups is None:
        assert_array_equal(labels, res.labels)
        assert_allclose(chance, res.posterior)
    else:
        assert_array_equal(labels.index, res.group_labels.index)
        assert_array_equal(labels, res.group_labels)
        assert_allclose(chance, res.group_posterior)


def test_responses_are_in_the_users_order(found):
    shuffled = customers(groups=30)
    same = {
        "gaussian": customers()["y"],
        "trials": customers()["share"],
        "offset": customers()["y"],
        "vb: offset": customers()["y"],
        "exposure": customers()["count"],
        "groups": shuffled["y"],
        "poisson groups": shuffled["count"],
        "choices, unequal sets": choices(False)["y"],
    }
    for kind, y in same.items():
        res, data = found(kind)
        observed = data.observed_data[res.model.endog_names].to_series()
        assert_allclose(observed, y, rtol=1e-12, atol=1e-12)
        assert_array_equal(observed.index, y.index)


@pytest.mark.parametrize("kind", ["groups", "offset", "poisson groups", "vb: groups, weights"])
def test_predictions_are_in_the_users_order(kind):
    res = fit(kind)
    future = res.to_arviz(800, seed=1).posterior_predictive[res.model.endog_names][0].to_pandas()
    assert future.columns.to_list() == res.model.index.to_list()
    error = future.std() / np.sqrt(800)
    assert ((future.mean() - res.predict()).abs() < 6 * error + 0.05).all()
    assert_allclose(future, res.predictive_draws(800, seed=1))


def test_predicted_choices_choose_once(found):
    for kind in ("choices, equal sets", "choices, unequal sets"):
        data, table = found(kind)[1], choices("unequal" not in kind)
        y = data.posterior_predictive["y"][0].to_pandas().T
        sets = y.groupby([table["who"], table["offer"]]).sum()
        assert (sets == 1).all(axis=None)


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("gamma ~ x1", {"family": "gamma"}),
        ("share ~ x1", {"family": "binomial", "link": "identity", "trials": "trials"}),
    ],
    ids=["gamma, inverse link", "binomial, identity link"],
)
def test_draws_may_leave_the_range_of_means(formula, options):
    table = customers(seed=3)
    res = MixReg.from_formula(formula, table, k=2, **options).fit(n_init=4)
    data = res.to_arviz(200)
    assert group_names(data) == GROUPS
    assert not np.isnan(values_of(data.log_likelihood)).any()
    assert res.predictive_draws(200).shape == (200, len(table))


def test_predicted_shares_are_of_whole_trials(found):
    y = found("trials")[1].posterior_predictive["share"][0].to_numpy()
    successes = y * customers()["trials"].to_numpy()
    assert_allclose(successes, np.round(successes), atol=1e-9)


def test_draws_have_the_moments_of_the_estimates():
    res = fit("poisson groups, concomitant")
    draws = res.posterior_draws(5000, seed=1)
    assert ((draws.mean() - res.params).abs() < 5 * res.bse / np.sqrt(5000)).all()
    assert_allclose(draws.std(), res.bse, rtol=0.06)
    scale = np.outer(res.bse, res.bse)
    assert_allclose(draws.cov() / scale, res.cov_params() / scale, atol=0.08)


def test_the_same_seed_gives_the_same_data(found):
    res, data = found("gaussian")
    again, other = res.to_arviz(40, seed=3), res.to_arviz(40, seed=4)
    for group in ("posterior", "posterior_predictive", "log_likelihood"):
        assert again[group].equals(data[group])
        assert not other[group].equals(data[group])


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2020-01-01", periods=60, freq="D"),
        pd.MultiIndex.from_product([range(6), range(10)]),
        pd.Index(["a"] * 60),
        pd.period_range("2020-01", periods=60, freq="M"),
    ],
    ids=["dates", "pairs", "repeated", "months"],
)
def test_any_index_will_do(index):
    res = MixReg.from_formula(FORMULA, lines(60, 1).set_index(index), k=2).fit(n_init=4)
    data = res.to_arviz(5)
    assert_allclose(data.observed_data["y"], lines(60, 1)["y"])


@pytest.mark.parametrize("kind", ["category", "str", "float"])
def test_any_names_of_groups_will_do(kind):
    table = shops(30)
    table["shop"] = (
        table["shop"].astype(kind) if kind != "float" else table["shop"].str[5:].astype(float)
    )
    res = MixReg.from_formula("y ~ x", table, k=2, groups="shop").fit(n_init=4)
    data = res.to_arviz(5)
    assert data.constant_data["group"].to_numpy().tolist() == res.group_labels.index.to_list()


def test_rows_that_were_dropped_are_left_out():
    table = lines(60, 1)
    table.loc[[3, 50], "x1"] = np.nan
    data = MixReg.from_formula(FORMULA, table, k=2).fit(n_init=4).to_arviz(5)
    assert_array_equal(data.observed_data["row"], table.index.drop([3, 50]))


@pytest.mark.parametrize("name", ["weights", "coef", "scale", "labels", "probability", "row"])
def test_a_response_may_have_any_name(name):
    table = lines(60, 1)
    exog = table[["x1", "x2"]].assign(const=1.0)
    res = MixReg(table["y"].rename(name), exog, k=2).fit(n_init=4)
    data = res.to_arviz(5)
    assert group_names(data) == GROUPS
    assert data.posterior["coef"].shape == (1, 5, 2, 3)
    assert data.posterior["weights"].shape == (1, 5, 2)


# The same from a sampler


def test_dimensions_are_those_of_a_sampler():
    res = model("y ~ x1", 30, concomitant="~ age", noise=True, weights="weight").fit("em", n_init=4)
    asymptotic = MODELS["concomitant"]().fit(n_init=4).to_arviz(4)
    data = res.sample(4, chains=2, tune=4, **QUICK)
    assert group_names(data) == GROUPS | {"sample_stats"}
    for group in GROUPS:
        assert set(data[group].data_vars) == set(asymptotic[group].data_vars)
    for key, value in asymptotic.posterior.data_vars.items():
        assert data.posterior[key].dims == value.dims
    assert data.posterior["class"].to_numpy().tolist() == [1, 2, 0]
    assert data.log_likelihood["y"].dims == ("chain", "draw", "group")


def test_the_bootstrap_has_the_same_groups(found):
    res, data = found("gaussian")
    boot = res.bootstrap(12, n_jobs=1)
    drawn = boot.to_arviz()
    assert group_names(drawn) == GROUPS
    for group in GROUPS:
        for key, value in data[group].data_vars.items():
            assert drawn[group][key].dims == value.dims
    index = res.model.layout.coef_index()
    assert_allclose(drawn.posterior["coef"][0], boot.draws.to_numpy()[:, index])


# What ArviZ makes of it


def values_of(group: Any) -> np.ndarray:
    """All values of a group of one variable."""
    (values,) = group.data_vars.values()
    return values.to_numpy()


def left_out(loo: Any) -> tuple[float, Any]:
    """Expected log density of new data, and what each row or group adds to it."""
    return (loo.elpd, loo.elpd_i) if arviz_makes_trees(az) else (loo.elpd_loo, loo.loo_i)


@pytest.fixture(scope="module")
def two() -> dict[str, Any]:
    table = lines(400, 2, noise=0.5)
    models = {f"k={k}": MixReg.from_formula(FORMULA, table, k=k) for k in (1, 2)}
    return {name: made.fit(n_init=4).to_arviz(1000) for name, made in models.items()}


@pytest.fixture
def figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_arviz_prints_a_summary(two, found):
    table = az.summary(two["k=2"], kind="stats")
    assert "coef[1, x1]" in table.index
    assert_allclose(table.loc["coef[1, x1]", "mean"], 2.0, atol=0.2)
    for kind in ("poisson groups, concomitant", "vb: noise", "choices, unequal sets"):
        assert len(az.summary(found(kind)[1], kind="stats"))


def test_leave_one_out_prefers_two_components(two):
    table = az.compare(two)
    assert table.index.to_list() == ["k=2", "k=1"]
    loo = az.loo(two["k=2"], pointwise=True)
    total, each = left_out(loo)
    assert each.shape == (400,)
    assert bool((loo.pareto_k < 0.7).all())
    likelihood = two["k=2"].log_likelihood["y"].sum("row").max()
    assert likelihood - 40 < total < likelihood


def test_groups_are_left_out_as_a_whole():
    res = MixReg.from_formula("y ~ x", shops(80, noise=1.0), k=2, groups="shop").fit(n_init=4)
    loo = az.loo(res.to_arviz(1000), pointwise=True)
    _, each = left_out(loo)
    assert each.shape == (80,)
    assert each["group"].to_numpy().tolist() == res.group_labels.index.to_list()


def test_variational_draws_can_be_compared():
    table = lines(400, 2, noise=0.5)
    fits = {
        f"k={k}": MixReg.from_formula(FORMULA, table, k=k).fit("vb", priors=Priors(1.0))
        for k in (1, 2)
    }
    assert az.compare({key: res.to_arviz(1000) for key, res in fits.items()}).index[0] == "k=2"


@pytest.mark.usefixtures("figures")
def test_arviz_draws_figures(two, found):
    az.plot_forest(two["k=2"], var_names=["coef", "scale", "weights"])
    az.plot_trace(two["k=2"], var_names=["coef"])
    az.plot_forest(found("concomitant")[1], var_names=["gate"])
    if arviz_makes_trees(az):
        az.plot_dist(two["k=2"], var_names=["weights"])
        az.plot_ppc_dist(two["k=2"], num_samples=20)
        axes = (
            az.plot_ppc_dist(found("poisson groups")[1], num_samples=11).viz["figure"].item().axes
        )
    else:
        az.plot_posterior(two["k=2"], var_names=["weights"])
        az.plot_ppc(two["k=2"], num_pp_samples=20)
        axes = np.ravel(az.plot_ppc(found("poisson groups")[1], num_pp_samples=10))
    assert len(axes[0].lines) > 10


def test_data_can_be_written_and_read(two, tmp_path):
    path = tmp_path / "draws.nc"
    two["k=2"].to_netcdf(str(path))
    back = az.from_netcdf(str(path))
    assert back.posterior["coef"].equals(two["k=2"].posterior["coef"])
    back.close()


# What is refused


def test_draws_need_a_covariance():
    res = MODELS["gaussian"]().fit(n_init=4, cov_type="none")
    for call in (res.to_arviz, res.posterior_draws, res.predictive_draws):
        with pytest.raises(NotAvailableError, match="no finite covariance to draw from"):
            call(5)


@pytest.mark.parametrize(("n", "seed"), [(0, 0), (-1, 0), (2.5, 0), (5, -1)])
def test_a_bad_number_of_draws_is_refused(found, n, seed):
    with pytest.raises(InputError, match="must be a whole number of at least"):
        found("gaussian")[0].to_arviz(n, seed=seed)


@pytest.mark.parametrize("name", ["noise", "noise, groups", "negative binomial"])
def test_what_the_data_do_not_determine_leaves_the_rest_alone(name):
    res = MODELS[name]().fit(n_init=4)
    vague = res.bse > 100
    assert vague.sum() == 1
    try:
        draws = res.posterior_draws(2000, seed=1)
        data = res.to_arviz(20)
    except NotAvailableError:
        return
    assert_allclose(draws.loc[:, ~vague].std(), res.bse[~vague], rtol=0.1)
    assert np.isfinite(values_of(data.log_likelihood)).all()
