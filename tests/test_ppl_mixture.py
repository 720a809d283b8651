"""A mixture inside a user's own PyMC model: density, names, draws, classes."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mixreg import InputError, MixReg, ppl
from mixreg.ppl import classes
from mixreg.ppl.compat import draws_of, pymc
from mixreg.ppl.given import Given
from mixreg.ppl.pymc_model import add_mixture
from tests.test_pymc import LINKS, MODELS, PLAIN, choices, customers

pm, pt = pymc()

import pytensor  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)

# No C compiler is waited for.
quick = pytensor.config.change_flags(mode="FAST_COMPILE")
ALL = {**MODELS, **LINKS}


# Density


def user_model(model: MixReg, given: tuple[str, ...], likelihood: str = "graph") -> Any:
    """A PyMC model of the same mixture with the user's own priors on some parameters."""
    layout, width = model.layout, model.mixture.gate.width
    makers = {
        "coef": lambda: pm.Normal("b", 0.3, 4.0, shape=(model.k, layout.p)),
        "scale": lambda: pm.LogNormal("s", 0.1, 1.5, shape=model.k),
        "weights": lambda: pm.Dirichlet("w", np.full(layout.classes, 1.7)),
        "gate": lambda: pm.Normal("g", 0.0, 2.0, shape=(layout.classes, width)),
    }
    with pm.Model() as built:
        made = Given(**{name: makers[name]() for name in given})
        add_mixture(model, "response", made, None, likelihood)
    return built


def possible(model: MixReg) -> tuple[str, ...]:
    """Parameters that a model has."""
    scale = ("scale",) if model.family.dispersion_name is not None else ()
    classes = ("gate",) if model.gate_design is not None else ("weights",)
    return ("coef", *scale, *(classes if model.layout.classes > 1 or scale == () else ()))


def values_at(model: MixReg, vector: np.ndarray) -> dict[str, np.ndarray]:
    params = model.layout.unpack(vector)
    return {
        "b": params.coef,
        "s": params.dispersion**model.family.dispersion_power,
        "w": params.weights if model.gate_design is None else np.zeros(0),
        "g": params.gating - params.gating[:1],
    }


def own_prior(name: str, value: np.ndarray) -> float:
    priors = {
        "b": lambda: stats.norm(0.3, 4.0).logpdf(value).sum(),
        "s": lambda: stats.lognorm(1.5, scale=np.exp(0.1)).logpdf(value).sum(),
        "w": lambda: stats.dirichlet(np.full(len(value), 1.7)).logpdf(value),
        "g": lambda: stats.norm(0.0, 2.0).logpdf(value).sum(),
    }
    return float(priors[name]())


def plain_logp(built: Any, point: dict[str, np.ndarray]) -> float:
    """Log density at values of the variables as the user knows them, without Jacobians."""
    from pymc.model.transform.conditioning import remove_value_transforms

    plain = remove_value_transforms(built)
    names = {variable.name for variable in plain.value_vars}
    function = plain.compile_logp(jacobian=False, mode=PLAIN)
    return float(function({name: point[name] for name in names}))


def near_fit(model: MixReg, step: float) -> np.ndarray:
    res = model.fit(n_init=2, cov_type="none")
    rng = np.random.default_rng(4)
    return res.params.to_numpy() + step * rng.standard_normal(len(res.params))


# A mixture of single answers is no model, but it has a density.
@pytest.mark.filterwarnings("ignore:each observation has a single 0/1 answer")
@pytest.mark.parametrize("name", ALL)
def test_density_is_the_likelihood_plus_the_users_priors(name):
    model = ALL[name]()
    given = possible(model)
    vector = near_fit(model, 0.02)
    point = values_at(model, vector)
    built = user_model(model, given)
    used = {variable.name for variable in built.free_RVs}
    assert used == {{"coef": "b", "scale": "s", "weights": "w", "gate": "g"}[g] for g in given}
    want = model.loglike(vector) + sum(own_prior(name, point[name]) for name in used)
    assert_allclose(plain_logp(built, point), want, rtol=1e-8)


SOME = ["gaussian", "groups, weights", "concomitant", "noise", "gamma, log link", "everything"]


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("left_out", ["coef", "scale", "classes"])
def test_what_is_not_given_has_the_usual_prior(name, left_out):
    from tests.test_pymc import log_prior, point_at

    model = MODELS[name]()
    every = possible(model)
    given = tuple(g for g in every if g != left_out)
    if left_out == "classes":
        given = tuple(g for g in every if g not in ("weights", "gate"))
    vector = near_fit(model, 0.05)
    usual, own = point_at(model, vector), values_at(model, vector)
    built = user_model(model, given)
    used = {variable.name for variable in built.free_RVs}
    from mixreg.ppl.given import DEFAULT

    there = {key: value for key, value in usual.items() if key in used}
    if "beta" in there and "dispersion" not in there:
        # The prior of standard coefficients is in residual deviations, which are given.
        both = there | {"dispersion": usual["dispersion"]}
        alone = {"dispersion": usual["dispersion"]}
        prior = log_prior(model, both, DEFAULT) - log_prior(model, alone, DEFAULT)
    else:
        prior = log_prior(model, there, DEFAULT)
    want = model.loglike(vector) + prior
    want += sum(own_prior(name, own[name]) for name in used if name in own)
    assert_allclose(plain_logp(built, usual | own), want, rtol=1e-8)


@pytest.mark.parametrize("name", ["gaussian", "poisson groups, concomitant", "noise", "only"])
def test_a_sweep_is_the_graph_in_the_users_units_too(name):
    model = MODELS[name]()
    point = values_at(model, near_fit(model, 0.1))
    found = [
        plain_logp(user_model(model, possible(model), kind), point) for kind in ("graph", "sweep")
    ]
    assert_allclose(found[0], found[1], rtol=1e-10)


def test_coefficients_of_columns_of_any_size_keep_their_digits():
    rng = np.random.default_rng(0)
    year = 1950 + rng.integers(0, 60, 200).astype(float)
    exog = np.column_stack([np.ones(200), year, year**2])
    y = 1e-3 * (year - 1980) ** 2 + rng.choice([-3, 3], 200) + 0.2 * rng.standard_normal(200)
    model = MixReg(y, exog, k=2)
    vector = model.fit(cov_type="none").params.to_numpy()
    built = user_model(model, ("coef", "scale", "weights"))
    point = values_at(model, vector)
    want = model.loglike(vector) + sum(own_prior(name, point[name]) for name in "bsw")
    assert_allclose(plain_logp(built, point), want, rtol=1e-6)


# What may be given


def two_lines(n: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    y = np.where(rng.random(n) < 0.5, 2 + x, -2 - x) + 0.3 * rng.standard_normal(n)
    return y, np.column_stack([np.ones(n), x])


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
@pytest.mark.parametrize("groups", [False, True])
def test_an_offset_may_come_from_elsewhere_in_the_model(family, groups):
    table = customers(groups=30)
    table.loc[table.index[3], "x1"] = np.nan
    formula = "y ~ x1" if family == "gaussian" else "count ~ x1"
    options: dict[str, Any] = {"family": family, "k": 2}
    options |= {"groups": "who"} if groups else {}
    own = table["x2"].to_numpy() * 0.7
    # Priors of scales are in units of the response without its offset.
    scale = {"scale": 1.5} if family == "gaussian" else {}
    heights = []
    for offset in (own, 0.7 * pt.as_tensor(table["x2"].to_numpy())):
        with pm.Model() as built:
            coef = pm.Normal("coef", 0, 1, shape=(2, 2))
            ppl.MixtureRegression.from_formula(
                "r", formula, table, coef=coef, offset=offset, **scale, **options
            )
        start = built.initial_point()
        start["coef"] = np.array([[0.5, 0.6], [-0.4, -0.7]])
        heights.append(float(built.compile_logp(mode=PLAIN)(start)))
    assert_allclose(heights[0], heights[1], rtol=1e-10)


def test_weights_are_class_probabilities_or_case_weights():
    y, exog = two_lines()
    case = np.random.default_rng(1).uniform(0.5, 2, 80)
    names = []
    for weights in (case, [0.3, 0.7], None):
        with pm.Model() as built:
            ppl.MixtureRegression("y", exog, k=2, weights=weights, observed=y)
        names.append({variable.name for variable in built.free_RVs})
    assert "weights" in names[0]
    assert "weights" not in names[1]
    with pm.Model() as one:
        ppl.MixtureRegression("y", exog, k=2, weights=case, observed=y)
    with pm.Model() as other:
        ppl.MixtureRegression("y", exog, k=2, case_weights=case, observed=y)
    found = [m.compile_logp(mode=PLAIN)(m.initial_point()) for m in (one, other)]
    assert found[0] == found[1]
    want = MixReg(y, exog, k=2, weights=case).to_pymc()
    assert_allclose(found[0], want.compile_logp(mode=PLAIN)(want.initial_point()), rtol=1e-12)
    with pytest.raises(InputError, match="both case weights; give one"), pm.Model():
        ppl.MixtureRegression("y", exog, k=2, weights=case, case_weights=case, observed=y)


@pytest.mark.parametrize("rows", [2, 1])
def test_a_gate_may_leave_out_the_first_class(rows):
    model = MODELS["concomitant"]()
    table = customers()
    with pm.Model() as built:
        gate = pm.Normal("g", 0, 1, shape=(rows, 2))
        ppl.MixtureRegression.from_formula(
            "r", "y ~ x1 + x2", table, k=2, concomitant="~ age", gate=gate
        )
    assert built.named_vars_to_dims["gate"] == ("class", "gate_term")
    assert ("g" in built.named_vars_to_dims) == (rows == 2)
    vector = near_fit(model, 0.1)
    from tests.test_pymc import point_at

    point = point_at(model, vector) | {"g": values_at(model, vector)["g"][-rows:]}
    whole = user_model(model, ("gate",))
    point_whole = point | {"g": values_at(model, vector)["g"]}
    gap = 2 * stats.norm(0, 2).logpdf(0.0) if rows == 1 else 0.0
    own = stats.norm(0, 1).logpdf(point["g"]).sum()
    other = stats.norm(0, 2).logpdf(point["g"]).sum() + gap
    found = plain_logp(built, point) - own
    assert_allclose(found, plain_logp(whole, point_whole) - other, rtol=1e-10)


def test_given_variables_get_dimensions():
    y, exog = two_lines()
    with pm.Model() as built:
        coef = pm.Normal("coef", 0, 1, shape=(2, 2))
        sigma = pm.HalfNormal("sigma", 1)
        ppl.MixtureRegression("y", exog, k=2, coef=coef, scale=sigma, observed=y)
    dims = built.named_vars_to_dims
    assert dims["coef"] == ("component", "term")
    assert dims["scale"] == ("component",)
    assert dims["weights"] == ("class",)
    assert "sigma" not in dims
    assert dims["y"] == ("row",)


def test_the_users_own_labels_of_components_stay():
    y, exog = two_lines()
    with pm.Model(coords={"component": ["low", "high"]}) as built:
        ppl.MixtureRegression("y", exog, k=2, observed=y)
    assert list(built.coords["component"]) == ["low", "high"]
    with (
        pm.Model(coords={"component": ["a", "b", "c"]}),
        pytest.raises(InputError, match=r"dimension 'component' of length 3.*prefix"),
    ):
        ppl.MixtureRegression("y", exog, k=2, observed=y)


def test_two_mixtures_have_prefixes():
    y, exog = two_lines()
    with pm.Model() as built:
        ppl.MixtureRegression("y", exog, k=2, observed=y)
        ppl.MixtureRegression("z", exog, k=3, observed=y[::-1].copy(), prefix="z_")
    assert {"beta", "z_beta", "weights", "z_weights"} <= {v.name for v in built.free_RVs}
    assert len(built.coords["z_component"]) == 3
    alone = [
        m.compile_logp(mode=PLAIN)(m.initial_point())
        for m in (
            MixReg(y, exog, k=2).to_pymc(),
            MixReg(y[::-1].copy(), exog, k=3).to_pymc(),
        )
    ]
    both = built.compile_logp(mode=PLAIN)(built.initial_point())
    assert_allclose(both, sum(alone), rtol=1e-10)
    with pytest.raises(InputError, match="the model has 2 mixtures; it must have one"):
        ppl.fit(built)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coef": np.zeros((3, 2))}, r"coef has shape \(3, 2\); it must be \(2, 2\).*transpose"),
        ({"scale": np.ones(3)}, r"scale has shape \(3,\); it must be \(2,\) or \(\)"),
        ({"gate": np.zeros((2, 1))}, "gate needs concomitant"),
        ({"family": "poisson", "scale": 1.0}, "scale has no place with family='poisson'"),
        ({"observed": None}, "observed is missing: give the responses"),
        ({"X": pt.zeros((80, 2))}, "X is a variable of PyTensor, but rows"),
        ({"priors": 3}, r"must be a mixreg.Priors"),
        ({"likelihood": "rows"}, "must be 'graph' or 'sweep'"),
        ({"offset": pt.zeros(80), "likelihood": "sweep"}, "needs likelihood='graph'"),
        ({"concomitant": np.ones((80, 1)), "weights": pt.ones(2) / 2}, "no place beside conco"),
        ({"name": 3}, "the name of the responses comes first"),
        ({"coef": np.ones((2, 2)), "shared": ["x1"]}, "shared= has no place beside coef="),
        ({"coef": pt.ones((2, 2)), "only": {"x1": [1]}}, "only= has no place beside coef="),
        ({"scale": np.ones(2), "equal_variance": True}, "equal_variance= has no place beside sc"),
    ],
)
def test_what_cannot_be_is_refused(change, message):
    y, exog = two_lines()
    arguments = {"name": "y", "X": exog, "k": 2, "observed": np.abs(y).round()} | change
    with pm.Model(), pytest.raises(InputError, match=message):
        ppl.MixtureRegression(**arguments)


def test_what_is_not_asked_for_goes_with_coefficients():
    y, exog = two_lines()
    nothing = {"shared": [], "only": None, "equal_variance": False}
    with pm.Model() as built:
        ppl.MixtureRegression("y", exog, 2, observed=y, coef=np.eye(2), scale=1.0, **nothing)
    assert [variable.name for variable in built.free_RVs] == ["weights"]


def test_unknown_options_are_refused():
    y, exog = two_lines()
    with pm.Model(), pytest.raises(TypeError, match="did you mean 'groups'"):
        ppl.MixtureRegression("y", exog, k=2, observed=y, group=y)


def test_names_of_formulas_are_looked_up_where_it_is_called():
    y, exog = two_lines()
    x1 = exog[:, 1]
    assert len(y) == 80

    def double(values):
        return 2 * values

    with pm.Model() as built:
        ppl.MixtureRegression.from_formula("r", "y ~ double(x1)", k=2)
    assert list(built.coords["term"]) == ["Intercept", "double(x1)"]
    assert len(x1) == len(built.coords["row"])


def test_to_pymc_is_the_same_model():
    table = customers(groups=30)
    options: dict[str, Any] = {"groups": "who", "family": "poisson", "concomitant": "~ age"}
    want = MixReg.from_formula("count ~ x1", table, k=2, **options).to_pymc()
    with pm.Model() as built:
        ppl.MixtureRegression.from_formula("count", "count ~ x1", table, k=2, **options)
    assert built.initial_point().keys() == want.initial_point().keys()
    found = [m.compile_logp(mode=PLAIN)(m.initial_point()) for m in (built, want)]
    assert found[0] == found[1]


def test_other_rows_are_refused():
    y, exog = two_lines()
    with pm.Model():
        variable = ppl.MixtureRegression("y", exog, k=2, observed=y)
    assert pm.logp(variable, y).type.ndim == 1
    with pytest.raises(NotImplementedError, match="its own rows only"):
        pm.logp(variable, y + 1)


def test_variables_can_be_pickled():
    y, exog = two_lines()
    with pm.Model():
        variable = ppl.MixtureRegression("y", exog, k=2, observed=y)
    op = pickle.loads(pickle.dumps(variable.owner.op))
    assert op.mixed.parts.nobs == 80
    assert op != variable.owner.op


# Draws


def drawn(n: int = 300, **options: Any) -> np.ndarray:
    """Responses at fixed parameters, (draws, rows)."""
    with pm.Model():
        variable = ppl.MixtureRegression("y", **options)
        return pm.draw(variable, n, random_seed=1, mode="FAST_COMPILE")


def test_draws_differ_from_each_other():
    y, exog = two_lines()
    found = drawn(5, X=exog, k=2, coef=np.zeros((2, 2)), scale=1.0, observed=y)
    assert len(np.unique(found)) == found.size


def test_draws_are_those_of_the_mixture():
    y, exog = two_lines()
    coef, scale = np.array([[4.0, 1.0], [-4.0, 0.0]]), np.array([0.5, 0.1])
    found = drawn(X=exog, k=2, coef=coef, scale=scale, weights=[0.25, 0.75], observed=y)
    first = found > 0
    assert_allclose(first.mean(), 0.25, atol=0.01)
    own = exog @ coef.T
    assert_allclose((found - own[:, 0])[first].std(), 0.5, rtol=0.03)
    assert_allclose((found - own[:, 1])[~first].std(), 0.1, rtol=0.03)


def test_rows_of_a_group_share_a_drawn_label():
    y, exog = two_lines()
    groups = np.arange(80) % 20
    coef = np.array([[10.0, 0.0], [-10.0, 0.0]])
    arguments = {"X": exog, "k": 2, "coef": coef, "scale": 1.0, "weights": [0.5, 0.5]}
    found = drawn(groups=groups, observed=y, **arguments) > 0
    for group in range(20):
        own = found[:, groups == group]
        assert (own == own[:, :1]).all()
    assert 0.4 < found.mean() < 0.6


def test_offsets_of_both_kinds_are_drawn_with():
    y, exog = two_lines()
    coef = np.zeros((2, 2))
    groups = np.arange(80)[::-1] % 20
    far = 100.0 * np.arange(80)
    for offset in (far, pt.as_tensor(far)):
        for given in (None, groups):
            found = drawn(
                20, X=exog, k=2, coef=coef, scale=1.0, offset=offset, observed=y, groups=given
            )
            assert_allclose(found.mean(axis=0), far, atol=2)


def test_one_alternative_of_a_set_is_drawn():
    table = choices(False).reset_index(drop=True)
    with pm.Model():
        variable = ppl.MixtureRegression.from_formula(
            "y", "y ~ x1", table, k=2, family="choice", choice_set="offer", groups="who"
        )
        found = pm.draw(variable, 5, random_seed=1, mode="FAST_COMPILE")
    for each in found:
        chosen = table.assign(drawn=each).groupby(["who", "offer"])["drawn"].sum()
        assert (chosen == 1).all()


@quick
def test_prior_and_posterior_predictive_sampling():
    y, exog = two_lines()
    with pm.Model() as built:
        ppl.MixtureRegression("y", exog, k=2, observed=y, noise=True)
        prior = pm.sample_prior_predictive(7, random_seed=1)
        again = pm.sample_prior_predictive(7, random_seed=1)
    assert prior.prior_predictive["y"].dims == ("chain", "draw", "row")
    assert prior.prior_predictive["y"].equals(again.prior_predictive["y"])
    posterior = {name: prior.prior[name].to_numpy() for name in prior.prior.data_vars}
    # With their labels: PyMC 6 takes draws without them for those of another model.
    dims = {name: prior.prior[name].dims[2:] for name in posterior}
    labels = {name: list(each) for name, each in built.coords.items() if each is not None}
    data = draws_of({"posterior": (posterior, dims)}, labels)
    with built:
        found = pm.sample_posterior_predictive(data, progressbar=False, random_seed=2)
        likely = pm.compute_log_likelihood(data, progressbar=False)
    assert found.posterior_predictive["y"].shape == (1, 7, 80)
    assert np.isfinite(found.posterior_predictive["y"]).all()
    assert likely.log_likelihood["y"].shape == (1, 7, 80)


@quick
def test_log_likelihoods_are_those_of_groups():
    y, exog = two_lines()
    model = MixReg(y, exog, k=2, groups=np.arange(80) % 20)
    res = model.fit(cov_type="none")
    point = res.initial_point()
    data = draws_of({"posterior": ({k: v[None, None] for k, v in point.items()}, {})}, {})
    with model.to_pymc():
        found = pm.compute_log_likelihood(data, progressbar=False)
    assert found.log_likelihood["y"].shape == (1, 1, 20)
    assert_allclose(float(found.log_likelihood["y"].sum()), res.llf, rtol=1e-10)


@quick
@pytest.mark.parametrize(("prefix", "groups"), [("", True), ("mix_", True), ("", False)])
def test_rows_and_groups_have_names(prefix, groups):
    y, exog = two_lines()
    table = pd.DataFrame(exog, index=[f"row {i}" for i in range(80)])
    who = np.array([f"shop {i}" for i in range(20)])[np.arange(80) % 20]
    options = {"groups": who} if groups else {}
    with pm.Model() as built:
        ppl.MixtureRegression("y", table, k=2, observed=y, prefix=prefix, **options)
        prior = pm.sample_prior_predictive(3, random_seed=1)
    row, group = prefix + "row", prefix + "group" if groups else prefix + "row"
    for each in (prior.prior_predictive, prior.observed_data):
        assert each["y"].dims[-1] == row
        assert list(each[row].to_numpy()) == list(table.index)
    posterior = {name: prior.prior[name].to_numpy() for name in prior.prior.data_vars}
    dims = {name: prior.prior[name].dims[2:] for name in posterior}
    labels = {name: list(each) for name, each in built.coords.items() if each is not None}
    data = draws_of({"posterior": (posterior, dims)}, labels)
    with built:
        data = pm.compute_log_likelihood(data, progressbar=False)
        drawn = pm.sample_posterior_predictive(data, progressbar=False, random_seed=2)
    assert drawn.posterior_predictive["y"].dims == ("chain", "draw", row)
    for named in (ppl.name_dims(data, built), ppl.classify(data, built)):
        found = named.log_likelihood
        assert found["y"].dims == ("chain", "draw", group)
        assert list(found[group].to_numpy()) == list(who[:20] if groups else table.index)
        assert_allclose(found["y"], data.log_likelihood["y"])


# Classes


@pytest.mark.parametrize(
    "name",
    ["gaussian", "groups", "noise", "poisson groups, concomitant", "everything", "known labels"],
)
def test_classes_at_the_fit_are_the_fits(name):
    model = MODELS[name]()
    res = model.fit(cov_type="none", n_init=4)
    point = res.initial_point()
    posterior = {key: np.asarray(value)[None, None] for key, value in point.items()}
    data = draws_of({"posterior": (posterior, {})}, {})
    for kind in ("graph", "sweep"):
        found = ppl.classify(data, model.to_pymc(likelihood=kind))["classes"]
        assert_allclose(found["probability"], res.unit_posterior.T, atol=1e-8)
        assert (found["label"].to_numpy() == np.asarray(res.unit_labels)).all()
        if model.groups is not None:
            assert_allclose(found["row_probability"], res.posterior, atol=1e-8)
            assert (found["row_label"].to_numpy() == res.labels.to_numpy()).all()
            assert list(found["group"].to_numpy()) == list(model.groups)


@pytest.mark.parametrize("groups", [None, "id"])
@pytest.mark.parametrize("most", [40_000_000, 10])
def test_classes_of_rows_in_files(groups, most, tmp_path, monkeypatch):
    monkeypatch.setattr(classes, "MOST_KEPT", most)
    rng, n = np.random.default_rng(2), 80
    table = pd.DataFrame({"x": rng.normal(size=n), "id": np.repeat(np.arange(n // 4), 4)})
    table["y"] = np.where(table["id"] % 2, 2, -1) * table["x"] + 0.3 * rng.normal(size=n)
    table.to_parquet(tmp_path / "rows.parquet")
    found = []
    for data in (table, tmp_path / "rows.parquet"):
        model = MixReg.from_formula("y ~ x", data, k=2, groups=groups)
        point = model.fit(cov_type="none", n_init=2).initial_point()
        posterior = {key: np.asarray(value)[None, None] for key, value in point.items()}
        draws = draws_of({"posterior": (posterior, {})}, {})
        found.append(ppl.classify(draws, model.to_pymc(likelihood="sweep"))["classes"])
    assert_allclose(found[0]["probability"], found[1]["probability"], atol=1e-6)
    assert_array_equal(found[0]["label"], found[1]["label"])
    assert ("row_label" in found[0]) == (groups is not None)
    assert "row_label" not in found[1]
    assert ("probability_by_draw" in found[1]) == (most > 10)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_classes_know_offsets_that_vary(family):
    table = customers()
    formula = "y ~ x1" if family == "gaussian" else "count ~ x1"
    own = 0.8 * table["x2"].to_numpy()
    res = MixReg.from_formula(formula, table, k=2, family=family, offset=own).fit(n_init=4)
    with pm.Model() as built:
        slope = pm.Normal("slope")
        coef = pm.Normal("coef", 0, 1, shape=(2, 2))
        more = {"scale": res.scale.to_numpy()} if family == "gaussian" else {}
        ppl.MixtureRegression.from_formula(
            "r",
            formula,
            table,
            k=2,
            family=family,
            coef=coef,
            offset=slope * table["x2"].to_numpy(),
            weights=res.weights.to_numpy(),
            **more,
        )
    posterior = {"coef": res.coefficients.T.to_numpy()[None, None], "slope": np.array([[0.8]])}
    found = ppl.classify(draws_of({"posterior": (posterior, {})}, {}), built)["classes"]
    assert_allclose(found["probability"], res.posterior, atol=1e-8)


def test_classify_says_what_is_missing():
    y, exog = two_lines()
    built = MixReg(y, exog, k=2).to_pymc()
    data = draws_of({"posterior": ({"weights": np.full((1, 3, 2), 0.5)}, {})}, {})
    with pytest.raises(InputError, match=r"the posterior lacks .*beta"):
        ppl.classify(data, built)
    with pytest.raises(InputError, match="without a posterior; give what"):
        ppl.classify(pd.DataFrame(), built)
    with pm.Model() as empty:
        pm.Normal("x")
    with pytest.raises(InputError, match="the model has 0 mixtures"):
        ppl.classify(data, empty)
