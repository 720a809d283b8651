"""The PyMC model is the same mixture: its density, its names, short real runs."""

import copy
import inspect
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mixreg import ConvergenceWarning, InputError, MixReg, MixRegResults, Priors
from mixreg.estimators.expectation import Posterior
from mixreg.families import Poisson, Rows
from mixreg.metrics import match_components
from mixreg.mixture.parameters import Parameters
from mixreg.ppl.compat import arviz, draws_of, group_names, pymc
from mixreg.ppl.sampling import aligned, check_chains, dispersed_points
from tests.samples import lines

az, (pm, _) = arviz(), pymc()
# What PyMC calls the point that it climbs from; 6.2 gave it another name.
START = "initvals" if "initvals" in inspect.signature(pm.find_MAP).parameters else "start"

import pytensor  # noqa: E402
from pymc.model.transform.conditioning import remove_value_transforms  # noqa: E402
from pytensor.compile.mode import Mode  # noqa: E402
from pytensor.gradient import NullTypeGradError  # noqa: E402

# Chains run in processes made by fork.
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning",
    "ignore:each observation has a single 0/1 answer",
)

PRIORS = Priors(
    concentration=2.0, coef_scale=3.0, link_scale=4.0, shape=2.5, rate=0.3, gate_scale=1.5
)
# Python's own operations: no C compiler is waited for.
PLAIN = Mode(linker="py", optimizer=None)
# Runs that are too short to pass the checks of chains.
QUICK: dict[str, Any] = {
    "cores": 1,
    "compile_kwargs": {"mode": "FAST_COMPILE"},
    "compute_convergence_checks": False,
}


# Data


def customers(n: int = 90, seed: int = 0, groups: int | None = None) -> pd.DataFrame:
    """Responses of every kind around two linear predictors."""
    rng = np.random.default_rng(seed)
    who = np.arange(n) if groups is None else np.sort(rng.integers(0, groups, n))
    x1, x2, exposure = rng.standard_normal(n), rng.standard_normal(n), rng.uniform(0.5, 2.0, n)
    label = 1 + (rng.random(n) < 0.45)[who]
    eta = np.where(label == 1, 0.8 + 0.6 * x1, -0.4 - 0.7 * x1) + 0.3 * x2
    mean, chance, trials = np.exp(eta), 1 / (1 + np.exp(-eta)), rng.integers(3, 12, n)
    table = pd.DataFrame(
        {
            "x1": x1,
            "x2": x2,
            "age": rng.standard_normal(n)[who],
            "exposure": exposure,
            "weight": rng.integers(0, 3, n)[who].astype(float),
            "who": who,
            "label": np.where(who % 6 == 0, label, np.nan),
            "y": 3 * eta + 0.5 * rng.standard_normal(n),
            "positive": mean * np.exp(0.1 * rng.standard_normal(n)),
            "count": rng.poisson(mean).astype(float),
            "spread": rng.negative_binomial(2, 1 / (1 + mean / 2)).astype(float),
            "yes": (rng.random(n) < chance).astype(float),
            "trials": trials,
            "share": rng.binomial(trials, chance) / trials,
            "gamma": rng.gamma(4, mean / 4),
        }
    )
    return table if groups is None else table.iloc[rng.permutation(n)]


def choices(equal: bool, seed: int = 0) -> pd.DataFrame:
    """Four choices of each of 25 people, among 3 alternatives or among 2 to 5."""
    rng = np.random.default_rng(seed)
    parts = []
    for who in range(25):
        sign = 1 if who % 5 < 3 else -1
        for offered in range(4):
            n = 3 if equal else int(rng.integers(2, 6))
            x1, x2 = rng.standard_normal((2, n))
            best = (1.3 * sign * x1 + 0.5 * x2 + rng.gumbel(size=n)).argmax()
            y = (np.arange(n) == best).astype(float)
            parts.append(pd.DataFrame({"x1": x1, "x2": x2, "y": y, "offer": offered, "who": who}))
    table = pd.concat(parts, ignore_index=True)
    table["age"] = rng.standard_normal(25)[table["who"]]
    return table.iloc[rng.permutation(len(table))]


def model(formula: str, groups: int | None = None, **options: Any) -> MixReg:
    table = customers(groups=groups)
    if groups is not None:
        options["groups"] = "who"
    return MixReg.from_formula(formula, table, **{"k": 2, **options})


def choice(equal: bool = True, **options: Any) -> MixReg:
    return MixReg.from_formula(
        "y ~ x1 + x2", choices(equal), k=2, family="choice", choice_set="offer", **options
    )


FORMULA = "y ~ x1 + x2"
MODELS: dict[str, Callable[[], MixReg]] = {
    "gaussian": lambda: model(FORMULA),
    "one component": lambda: model(FORMULA, k=1),
    "no constant": lambda: model("y ~ x1 + x2 - 1", k=3),
    "gaussian, log link": lambda: model("positive ~ x1 + x2", link="log"),
    "poisson": lambda: model("count ~ x1 + x2", family="poisson"),
    "negative binomial": lambda: model("spread ~ x1", family="negativebinomial"),
    "yes or no": lambda: model("yes ~ x1", family="binomial"),
    "trials": lambda: model("share ~ x1 + x2", family="binomial", trials="trials"),
    "probit": lambda: model("share ~ x1", family="binomial", link="probit", trials="trials"),
    "cloglog": lambda: model("share ~ x1", family="binomial", link="cloglog", trials="trials"),
    "gamma, log link": lambda: model("gamma ~ x1 + x2", family="gamma", link="log"),
    "choices, equal sets": lambda: choice(groups="who"),
    "choices, unequal sets": lambda: choice(False, groups="who"),
    "choices, concomitant, noise": lambda: choice(
        False, groups="who", noise=True, concomitant="~ age"
    ),
    "groups": lambda: model("y ~ x1", 30),
    "groups of one size": lambda: MixReg.from_formula(
        "count ~ x1",
        customers(88).assign(who=lambda t: t["who"] % 22),
        k=2,
        groups="who",
        family="poisson",
    ),
    "poisson groups": lambda: model("count ~ x1", 30, family="poisson"),
    "weights": lambda: model(FORMULA, weights="weight"),
    "groups, weights": lambda: model("y ~ x1", 30, weights="weight"),
    "offset": lambda: model(FORMULA, offset="age"),
    "exposure": lambda: model("count ~ x1", family="poisson", exposure="exposure"),
    "shared": lambda: model(FORMULA, shared=["x2"]),
    "shared intercept": lambda: model("count ~ x1", family="poisson", shared=["Intercept"]),
    "all shared": lambda: model(FORMULA, shared=["Intercept", "x1", "x2"]),
    "concomitant": lambda: model(FORMULA, concomitant="~ age"),
    "poisson groups, concomitant": lambda: model(
        "count ~ x1", 30, family="poisson", concomitant="~ age"
    ),
    "noise": lambda: model(FORMULA, noise=True),
    "noise, one component": lambda: model(FORMULA, k=1, noise=True),
    "noise, groups": lambda: model("count ~ x1", 30, family="poisson", noise=True),
    "noise, trials": lambda: model("share ~ x1", family="binomial", trials="trials", noise=True),
    "known labels": lambda: model(FORMULA, known_labels="label"),
    "known labels, groups": lambda: model("y ~ x1", 30, known_labels="label"),
    "only": lambda: model(FORMULA, only={"x2": [1]}),
    "only, shared": lambda: model(FORMULA, only={"x1": [2]}, shared=["x2"]),
    "equal variance": lambda: model(FORMULA, equal_variance=True),
    "equal dispersion": lambda: model(
        "gamma ~ x1", family="gamma", link="log", equal_variance=True
    ),
    "everything": lambda: model(
        FORMULA,
        30,
        weights="weight",
        concomitant="~ age",
        noise=True,
        shared=["x2"],
        offset="exposure",
        equal_variance=True,
    ),
}
LINKS: dict[str, Callable[[], MixReg]] = {
    "poisson, sqrt link": lambda: MixReg.from_formula(
        "count ~ x1", customers(seed=3), k=2, family="poisson", link="sqrt"
    ),
    "poisson, identity link": lambda: model("count ~ x1", family="poisson", link="identity"),
    "gamma, inverse link": lambda: model("gamma ~ x1", family="gamma"),
    "gamma, identity link": lambda: model("gamma ~ x1", family="gamma", link="identity"),
}


# The same density, computed from the package's likelihood and scipy's priors


def mask_of(model: MixReg) -> np.ndarray:
    """Coefficients that are a component's own, (k, standard regressors not shared)."""
    mask = np.ones((model.k, model.layout.p - model.mixture.shared), dtype=bool)
    for j, i in model.mixture.absent:
        mask[j, i] = False
    return mask


def point_at(model: MixReg, vector: np.ndarray) -> dict[str, np.ndarray]:
    """Values of the PyMC model's variables at a flat vector in the user's units."""
    params = model.whitening.from_user(model.layout.unpack(vector))
    mask, family = mask_of(model), model.family
    point = {}
    if mask.any():
        point["beta"] = params.coef[:, : mask.shape[1]][mask]
    if model.mixture.shared:
        point["beta_shared"] = params.coef[0, mask.shape[1] :]
    if family.dispersion_name is not None:
        point["dispersion"] = params.dispersion[0] if family.equal_dispersion else params.dispersion
    if model.gate_design is not None:
        point["gate_standard"] = (params.gating - params.gating[:1])[1:]
    elif len(params.gating) > 1:
        point["weights"] = params.weights
    return point


def log_prior(model: MixReg, point: dict[str, np.ndarray], priors: Priors) -> float:
    total, spread = 0.0, priors.coef_scale if model.family.linear else priors.link_scale
    common = spread
    if "dispersion" in point:
        total += stats.invgamma(priors.shape, scale=priors.rate).logpdf(point["dispersion"]).sum()
    if "beta" in point:
        if model.family.linear:
            deviation = np.sqrt(np.broadcast_to(point["dispersion"], model.k))
            spread = spread * deviation[np.nonzero(mask_of(model))[0]]
        total += stats.norm(0, spread).logpdf(point["beta"]).sum()
    if "beta_shared" in point:
        total += stats.norm(0, common).logpdf(point["beta_shared"]).sum()
    if "gate_standard" in point:
        total += stats.norm(0, priors.gate_scale).logpdf(point["gate_standard"]).sum()
    if "weights" in point:
        alpha = np.full(len(point["weights"]), priors.concentration)
        total += stats.dirichlet(alpha).logpdf(point["weights"])
    return float(total)


class Compiled:
    """A fit and its PyMC model as one function of variables without transforms."""

    def __init__(self, model: MixReg, mode: Any = PLAIN) -> None:
        self.model = model
        self.res = model.fit(n_init=4, cov_type="none")
        self.built = model.to_pymc(PRIORS)
        plain = remove_value_transforms(self.built)
        self.names = [variable.name for variable in plain.value_vars]
        self.reported = [variable.name for variable in plain.deterministics]
        graphs = [plain.logp(jacobian=False), plain.dlogp(jacobian=False)]
        graphs += plain.replace_rvs_by_values(plain.deterministics)
        self.function = pytensor.function(
            plain.value_vars, graphs, mode=mode, on_unused_input="ignore"
        )

    def __call__(self, point: dict[str, np.ndarray]) -> tuple[float, np.ndarray, dict[str, Any]]:
        """Log density, gradient, and what is reported."""
        assert sorted(point) == sorted(self.names)
        density, slope, *rest = self.function(*(point[name] for name in self.names))
        return float(density), slope, dict(zip(self.reported, rest, strict=True))

    def expected(self, vector: np.ndarray) -> float:
        prior = log_prior(self.model, point_at(self.model, vector), PRIORS)
        return self.model.loglike(vector) + prior

    def elsewhere(self, step: float) -> np.ndarray:
        rng = np.random.default_rng(1)
        return self.res.params.to_numpy() + step * rng.standard_normal(len(self.res.params))


_made: dict[str, Compiled] = {}


@pytest.fixture
def compiled() -> Callable[[str], Compiled]:
    """Compile a model once, whichever test asks first."""

    def make(name: str) -> Compiled:
        if name not in _made:
            _made[name] = Compiled(MODELS[name]())
        return _made[name]

    return make


@pytest.mark.parametrize("name", MODELS)
def test_density_is_likelihood_times_priors(compiled, name):
    made = compiled(name)
    vector = made.res.params.to_numpy()
    assert_allclose(made(made.res.initial_point())[0], made.expected(vector), rtol=1e-8)
    for step in (0.03, 0.3):
        vector = made.elsewhere(step)
        density = made(point_at(made.model, vector))[0]
        assert_allclose(density, made.expected(vector), rtol=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_reported_values_are_in_the_users_units(compiled, name):
    made = compiled(name)
    vector = made.elsewhere(0.1)
    params, family = made.model.layout.unpack(vector), made.model.family
    for point, at in ((point_at(made.model, vector), params), (made.res.initial_point(), None)):
        res = made.res
        reported = made(point)[2] | ({"weights": point["weights"]} if "weights" in point else {})
        coef = res.coefficients.T if at is None else at.coef
        assert_allclose(reported.pop("coef"), coef, rtol=1e-8, atol=1e-9)
        if family.dispersion_name is not None:
            scale = res.scale if at is None else at.dispersion**family.dispersion_power
            assert_allclose(reported.pop("scale"), scale, rtol=1e-8)
        if made.model.gate_design is not None:
            gate = res.gate.T if at is None else at.gating
            assert_allclose(reported.pop("gate"), gate, rtol=1e-8, atol=1e-9)
        else:
            weights = res.weights if at is None else at.weights
            assert_allclose(reported.pop("weights"), weights, rtol=1e-8)
        assert not reported


@pytest.mark.parametrize("name", MODELS)
def test_gradient_is_the_slope_of_the_density(compiled, name):
    made = compiled(name)
    point = point_at(made.model, made.elsewhere(0.05))
    slope = made(point)[1]
    assert np.isfinite(slope).all()
    rng = np.random.default_rng(2)
    way = {key: rng.standard_normal(np.shape(value)) for key, value in point.items()}
    if "dispersion" in way:
        way["dispersion"] = point["dispersion"] * way["dispersion"]
    if "weights" in way:
        # A Dirichlet density is known on the simplex only.
        way["weights"] = np.zeros_like(point["weights"])
    flat = np.concatenate([np.ravel(way[key]) for key in made.names])
    h = 1e-5
    up, down = (made({k: v + s * way[k] for k, v in point.items()})[0] for s in (h, -h))
    assert_allclose(slope @ flat, (up - down) / (2 * h), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", LINKS)
def test_density_is_the_same_where_some_means_are_out_of_range(name):
    made = Compiled(LINKS[name](), "FAST_COMPILE")
    vector = made.res.params.to_numpy()
    assert_allclose(made(made.res.initial_point())[0], made.expected(vector), rtol=1e-8)
    for step in (0.01, 0.1, 0.3, 1.5):
        vector = made.elsewhere(step)
        density, slope, _ = made(point_at(made.model, vector))
        # Minus infinity, not NaN, where a row is out of range in all components.
        assert_allclose(density, made.expected(vector), rtol=1e-8)
        if np.isfinite(density):
            assert np.isfinite(slope).all()


@pytest.mark.parametrize("link", ["probit", "cloglog", "logit"])
def test_steep_regressions_have_a_density(link):
    rng = np.random.default_rng(0)
    x = 3 * rng.standard_normal(200)
    y = (x + 0.5 * rng.standard_normal(200) > 0).astype(float)
    exog = np.column_stack([np.ones(200), x])
    made = Compiled(MixReg(y, exog, k=1, family="binomial", link=link), "FAST_COMPILE")
    for factor in (1.0, 3.0):
        vector = factor * made.res.params.to_numpy()
        density, slope, _ = made(point_at(made.model, vector))
        assert_allclose(density, made.expected(vector), rtol=1e-8)
        assert np.isfinite(slope).all()


# Names and dimensions


def test_variables_have_names_and_dimensions(compiled):
    made = compiled("everything")
    coords, dims = made.built.coords, made.built.named_vars_to_dims
    assert list(coords["component"]) == [1, 2]
    assert list(coords["class"]) == [1, 2, 0]
    assert list(coords["term"]) == ["Intercept", "x1", "x2"]
    assert list(coords["gate_term"]) == ["Intercept", "age"]
    assert dims["coef"] == ("component", "term")
    assert dims["scale"] == ("component",)
    assert dims["gate"] == ("class", "gate_term")
    assert compiled("noise").built.named_vars_to_dims["weights"] == ("class",)


@pytest.mark.parametrize("name", ["everything", "only", "noise", "one component"])
def test_the_initial_point_fits_the_model(compiled, name):
    made = compiled(name)
    point = made.res.initial_point()
    assert set(point) == {variable.name for variable in made.built.free_RVs}
    start = made.built.initial_point()
    renamed = {"dispersion": "dispersion_log__", "weights": "weights_simplex__"}
    assert set(start) == {renamed.get(key, key) for key in point}
    for key, value in point.items():
        shape = start[renamed.get(key, key)].shape
        assert np.shape(value) == ((shape[0] + 1,) if key == "weights" else shape)


def test_default_priors_keep_all_components():
    made = model(FORMULA)
    res = made.fit(n_init=4)
    point, densities = res.initial_point(), []
    for priors in (None, Priors(concentration=1.0)):
        plain = remove_value_transforms(made.to_pymc(priors))
        function = plain.compile_logp(jacobian=False, mode=PLAIN)
        densities.append(float(function(point)))
    assert densities[0] == densities[1]
    want = made.loglike(res.params) + log_prior(made, point, Priors(concentration=1.0))
    assert_allclose(densities[0], want, rtol=1e-8)


def test_what_has_no_pymc_version_is_refused():
    from statsmodels.genmod.families import links

    made = model("yes ~ x1", family="binomial", link=links.LogLog())
    with pytest.raises(InputError, match="link has no PyMC version; use one of"):
        made.to_pymc()
    with pytest.raises(InputError, match=r"must be a mixreg.Priors"):
        model(FORMULA).to_pymc({"concentration": 1.0})
    with pytest.raises(InputError, match=r"must be a mixreg.Priors"):
        model(FORMULA).fit(n_init=4).sample(5, priors="weak")


@dataclass(frozen=True)
class Halved(Poisson):
    """A family of one's own, made from another."""

    def log_density(self, rows: Rows) -> np.ndarray:
        return 0.5 * super().log_density(rows)


def test_a_family_of_ones_own_is_not_taken_for_its_parent():
    made = model("count ~ x1", family=Halved())
    with pytest.raises(InputError, match="has no PyMC version"):
        made.to_pymc()


# By a sweep


def along(made: Compiled, point: dict[str, np.ndarray], slope: np.ndarray) -> np.ndarray:
    """A gradient along the simplex; across it, a density of weights means nothing."""
    ends = np.cumsum([np.size(point[name]) for name in made.names])[:-1]
    parts = dict(zip(made.names, np.split(slope, ends), strict=True))
    if "weights" in parts:
        parts["weights"] = parts["weights"] - parts["weights"].mean()
    return np.concatenate([parts[name] for name in made.names])


@pytest.mark.parametrize("name", MODELS)
def test_a_sweep_is_the_graph(compiled, name):
    made = compiled(name)
    plain = remove_value_transforms(made.model.to_pymc(PRIORS, "sweep"))
    assert [variable.name for variable in plain.value_vars] == made.names
    graphs = [plain.logp(jacobian=False), plain.dlogp(jacobian=False)]
    function = pytensor.function(plain.value_vars, graphs, mode=PLAIN)
    point = point_at(made.model, made.elsewhere(0.3))
    value, slope, _ = made(point)
    other, swept = function(*(point[name] for name in made.names))
    assert_allclose(other, value, rtol=1e-10)
    slope, swept = along(made, point, slope), along(made, point, swept)
    assert_allclose(swept, slope, rtol=1e-8, atol=1e-8 * np.abs(slope).max())


def test_a_sweep_never_asks_for_all_rows(monkeypatch):
    made = model(FORMULA)
    made.whitening  # noqa: B018
    monkeypatch.setattr(type(made.source), "as_block", None)
    monkeypatch.setattr(type(made.source), "at_hand", None)
    built = made.to_pymc(likelihood="sweep")
    assert np.isfinite(built.compile_logp(mode=PLAIN)(built.initial_point()))
    with pytest.raises(TypeError, match="not callable"):
        made.to_pymc()


def test_a_sweep_takes_families_of_ones_own():
    made = model("count ~ x1", family=Halved())
    built = made.to_pymc(likelihood="sweep")
    assert np.isfinite(built.compile_logp(mode=PLAIN)(built.initial_point()))


def test_a_sweep_has_no_second_derivatives():
    built = model(FORMULA).to_pymc(likelihood="sweep")
    with pytest.raises(NullTypeGradError, match="likelihood='graph'"):
        built.d2logp()


# PyMC 6.4 tells of defaults that will change.
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_highest_density_is_found_by_sweeps():
    res = model("count ~ x1", family="poisson").fit(n_init=4)
    built = res.model.to_pymc(Priors(1.0, link_scale=1e3), "sweep")
    with built, pytensor.config.change_flags(mode="FAST_COMPILE"):
        found = pm.find_MAP(**{START: res.initial_point()}, progressbar=False)
    assert_allclose(found["coef"], res.coefficients.T, atol=1e-3)


def test_chains_run_on_sweeps():
    res = model("count ~ x1", family="poisson", k=1).fit(n_init=4)
    runs = [
        res.sample(30, 1, tune=30, seed=3, likelihood=likelihood, **QUICK).posterior["coef"]
        for likelihood in ("graph", "sweep")
    ]
    assert_allclose(runs[0], runs[1], rtol=1e-5)


@pytest.mark.parametrize("given", ["rows", None, 1])
def test_an_unknown_likelihood_is_refused(given):
    with pytest.raises(InputError, match=r"likelihood=.* must be 'graph' or 'sweep'; use"):
        model(FORMULA).to_pymc(likelihood=given)


# Label switching


def permuted(stack: Parameters, runs: list[int]) -> Parameters:
    """The same draws with the components of some in another order."""
    order = np.roll(np.arange(stack.k), 1)
    parts = [stack.run(i) for i in range(stack.coef.shape[1])]
    return Parameters.concatenate(
        [(one.permute(order) if i in runs else one).stacked() for i, one in enumerate(parts)]
    )


@pytest.mark.parametrize("name", ["no constant", "poisson groups, concomitant", "noise"])
def test_label_switching_is_undone(name):
    from mixreg.ppl.draws import mixtures_of

    res = MODELS[name]().fit(n_init=4)
    rng = np.random.default_rng(0)
    vectors = res.params.to_numpy() + 0.02 * rng.standard_normal((8, len(res.params)))
    stack = mixtures_of(res.model.layout, vectors)
    found = aligned(res, permuted(stack, [0, 3, 5]))
    assert_allclose(found.coef, stack.coef)
    assert_allclose(found.dispersion, stack.dispersion)
    assert_allclose(found.gating - found.gating[:1], stack.gating - stack.gating[:1], atol=1e-9)


def test_numbers_that_mean_something_are_kept():
    from mixreg.ppl.draws import mixtures_of

    for name in ("known labels", "only", "one component"):
        res = MODELS[name]().fit(n_init=4)
        stack = mixtures_of(res.model.layout, res.params.to_numpy()[None])
        switched = permuted(stack, [0])
        assert_allclose(aligned(res, switched).coef, switched.coef)


def test_draws_are_aligned_by_what_rows_they_hold():
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(60), 5)
    x, first = rng.standard_normal(300), (rng.random(60) < 0.5)[who]
    mean = np.exp(np.where(first, 1.2 + 0.4 * x, 0.4 - 0.4 * x))
    over = rng.negative_binomial(3, 1 / (1 + mean / 3))
    y = np.where(first, rng.poisson(mean), over).astype(float)
    exog = np.column_stack([np.ones(300), x])
    made = MixReg(y, exog, k=2, family="negativebinomial", groups=who)
    res = made.fit()
    assert (res.scale < 1e-4).sum() == 1
    # Dispersions such as the sampler draws: the prior leaves none near zero.
    for dispersion in ([0.05, 0.3], [0.3, 0.05]):
        params = res.fitted.estimate.params
        draw = Parameters(params.coef, np.array(dispersion), params.gating)
        labels = made.source.sweep(Posterior(made.mixture), draw).join()
        assert match_components(labels, res.unit_posterior).tolist() == [0, 1]
        assert_allclose(aligned(res, draw.stacked()).run(0).coef, draw.coef)


# Real runs


@pytest.fixture(scope="module")
def large() -> MixRegResults:
    return MixReg.from_formula(FORMULA, lines(1500, 3), k=2).fit()


@pytest.fixture(scope="module")
def sampled(large) -> Any:
    return large.sample(1000, chains=2, tune=500, seed=1)


def test_four_chains_by_default():
    assert inspect.signature(MixRegResults.sample).parameters["chains"].default == 4


def test_chains_agree(sampled):
    assert max(float(value.max()) for value in az.rhat(sampled).data_vars.values()) < 1.05
    assert float(az.ess(sampled)["coef"].min()) > 500
    assert int(sampled.sample_stats["diverging"].sum()) < 5
    assert sampled.posterior.sizes["chain"] == 2
    assert sampled.posterior.sizes["draw"] == 1000


def test_the_posterior_is_the_estimate_and_its_standard_error(large, sampled):
    found = sampled.posterior.data_vars.items()
    draws = {key: value.stack(sample=("chain", "draw")) for key, value in found}
    index = large.model.layout.coef_index()
    error = large.bse.to_numpy()[index]
    coef = draws["coef"].transpose("sample", "component", "term").to_numpy()
    assert_allclose((coef.mean(axis=0) - large.coefficients.T.to_numpy()) / error, 0, atol=0.15)
    assert_allclose(coef.std(axis=0), error, rtol=0.12)
    scale = np.log(draws["scale"].transpose("sample", "component").to_numpy())
    index = large.model.layout.scale_index()
    error = large.bse.to_numpy()[index]
    assert_allclose((scale.mean(axis=0) - large.params.to_numpy()[index]) / error, 0, atol=0.2)
    assert_allclose(scale.std(axis=0), error, rtol=0.12)
    weights = draws["weights"].transpose("sample", "class").to_numpy()
    logit = np.log(weights[:, 1] / weights[:, 0])
    assert abs(logit.mean() - large.params.iloc[-1]) < 0.15 * large.bse.iloc[-1]
    assert_allclose(logit.std(), large.bse.iloc[-1], rtol=0.12)


@pytest.mark.parametrize("name", MODELS)
def test_chains_begin_around_the_fit(name):
    res = MODELS[name]().fit(n_init=4)
    points, start = dispersed_points(res, 3, 0), res.initial_point()
    again = dispersed_points(res, 3, 0)
    for point, same in zip(points, again, strict=True):
        assert set(point) == set(start)
        for key, value in point.items():
            assert np.shape(value) == np.shape(start[key])
            assert np.isfinite(value).all()
            assert_array_equal(value, same[key])
    # One component has one weight; coefficients that run off have no spread to begin with.
    fixed = {"one component": {"weights"}, "yes or no": {"beta"}}
    for key in set(start) - fixed.get(name, set()):
        assert not np.allclose(points[0][key], points[1][key], rtol=1e-4)
        assert not np.allclose(points[0][key], start[key], rtol=1e-4)


def test_starts_lie_two_standard_errors_around_the_fit(large):
    points = dispersed_points(large, 400, 0)
    scales = np.log([point["dispersion"] for point in points]) / 2
    error = large.bse.to_numpy()[large.model.layout.scale_index()]
    assert_allclose(scales.std(axis=0) / error, 2.0, rtol=0.15)


@pytest.mark.parametrize("cov_type", ["none", "oim"])
def test_starts_do_without_standard_errors(cov_type):
    res = model("count ~ x1", family="poisson").fit(n_init=4, cov_type=cov_type)
    if cov_type == "oim":
        cov = res.fitted.estimate.cov.copy()
        cov[0], cov[:, 0] = np.inf, np.inf
        estimate = replace(res.fitted.estimate, cov=cov)
        res = copy.copy(res)
        res.fitted = replace(res.fitted, estimate=estimate)
    one, other = dispersed_points(res, 2, 0)
    assert np.isfinite(one["beta"]).all()
    assert not np.allclose(one["weights"], other["weights"], rtol=1e-4)


def test_starts_stay_in_the_range_of_means():
    data = lines(60, 1)
    data["n"] = np.random.default_rng(0).poisson(0.05 + 2 * np.arange(60) / 60)
    data["t"] = np.arange(60) / 60
    res = MixReg.from_formula("n ~ t", data, k=1, family="poisson", link="identity").fit()
    for point in dispersed_points(res, 20, 0):
        means = point["beta"] @ standard_columns(res).T
        assert (means > 0).all()


def standard_columns(res: MixRegResults) -> np.ndarray:
    """Regressors in standard coordinates."""
    source = res.model.source.standard(res.model.whitening)
    return source.as_block().x


# Chains that are too short, or too few


def test_chains_that_disagree_are_told():
    res = model("count ~ x1", family="poisson", k=1).fit(n_init=4)
    short = {**QUICK, "compute_convergence_checks": True}
    words = r"effective number of draws is \d+ for \w+, and should be at least 200.*more of draws="
    with pytest.warns(ConvergenceWarning, match=words) as told:
        res.sample(30, 2, tune=5, **short)
    # Others may warn of other things.
    (own,) = (each for each in told if each.category is ConvergenceWarning)
    assert own.filename == __file__


def drawn(coef: np.ndarray, diverging: np.ndarray | None = None) -> Any:
    """Draws of one coefficient, as a sampler has them."""
    marks = np.zeros(coef.shape, bool) if diverging is None else diverging
    posterior = {"coef": coef[..., None, None], "weights": np.ones((*coef.shape, 1))}
    dims = {"coef": ["component", "term"], "weights": ["class"]}
    stats: Any = ({"diverging": marks}, {})
    names = {"component": [1], "term": ["x"], "class": [1]}
    return draws_of({"posterior": (posterior, dims), "sample_stats": stats}, names)


def test_what_is_wrong_with_chains_is_told_with_numbers():
    good = np.random.default_rng(0).standard_normal((4, 300))
    check_chains(drawn(good))
    check_chains(drawn(good[:1]))
    apart = good + 3.0 * np.arange(4)[:, None]
    with pytest.warns(ConvergenceWarning, match=r"R-hat is 2\.\d+ for coef.*fewer components"):
        check_chains(drawn(apart))
    marks = np.zeros(good.shape, bool)
    marks[:, :6] = True
    words = "do not rely on these draws: 24 of 1200 draws diverged. Try target_accept=0.95"
    with pytest.warns(ConvergenceWarning, match=words):
        check_chains(drawn(good, marks))
    with pytest.warns(ConvergenceWarning, match="effective number of draws is 6 for coef"):
        check_chains(drawn(good[:2, :3]))


def test_components_that_chains_number_otherwise_are_no_alarm(large):
    """PyMC would see an R-hat of 2 or so: the second chain begins with components swapped."""
    points = dispersed_points(large, 2, 0)
    beta = points[1]["beta"].reshape(2, -1)
    swapped = {"beta": beta[::-1].ravel()}
    swapped |= {key: points[1][key][::-1] for key in ("dispersion", "weights")}
    large.sample(400, 2, 1, tune=300, initvals=[points[0], swapped])


@pytest.mark.parametrize("name", ["poisson groups", "poisson groups, concomitant"])
def test_short_runs_give_arviz_data(name):
    res = MODELS[name]().fit(n_init=4)
    data = res.sample(8, chains=2, tune=8, seed=2, **QUICK)
    wanted = res.to_arviz(5)
    assert group_names(wanted) | {"sample_stats"} == group_names(data)
    for group in group_names(wanted):
        assert set(wanted[group].data_vars) == set(data[group].data_vars)
        for key, value in wanted[group].data_vars.items():
            assert data[group][key].dims == value.dims
            rest = {k: v for k, v in value.sizes.items() if k not in ("chain", "draw")}
            assert rest.items() <= dict(data[group][key].sizes).items()
        for key in set(wanted[group].coords) - {"chain", "draw"}:
            assert wanted[group][key].equals(data[group][key])
    assert data.posterior.sizes["chain"] == 2
    assert data.posterior.sizes["draw"] == 8
    assert np.isfinite(data.log_likelihood["count"]).all()
    if "concomitant" in name:
        assert data.posterior["gate"].dims == ("chain", "draw", "class", "gate_term")
        assert not data.posterior["gate"].sel({"class": 1}).any()
    assert_allclose(data.posterior["weights"].sum("class"), 1.0)


def test_the_same_seed_gives_the_same_draws():
    res = model("count ~ x1", family="poisson", k=1).fit(n_init=4)
    runs = [res.sample(8, 1, seed, tune=5, **QUICK).posterior["coef"] for seed in (3, 3, 4)]
    assert runs[0].equals(runs[1])
    assert not runs[0].equals(runs[2])


def test_priors_reach_the_sampler():
    res = model("count ~ x1", family="poisson", k=1).fit(n_init=4)
    tight = res.sample(30, 1, tune=30, priors=Priors(link_scale=1e-3), **QUICK)
    assert np.abs(tight.posterior["coef"]).max() < 0.05


def test_variational_inference_of_pymc_runs():
    res = model("count ~ x1", family="poisson").fit(n_init=4)
    with res.model.to_pymc(), pytensor.config.change_flags(mode="FAST_COMPILE"):
        start = res.initial_point()
        found = pm.fit(300, method="advi", start=start, progressbar=False, random_seed=1)
    assert np.isfinite(found.hist).all()
    assert found.hist[-50:].mean() < found.hist[:50].mean()


def test_nutpie_runs():
    # One component, because Numba takes its time to compile.
    res = model("count ~ x1", family="poisson", k=1).fit(n_init=4)
    data = res.sample(300, 2, tune=200, seed=1, nuts_sampler="nutpie")
    assert data.posterior.sizes["draw"] == 300
    assert "diverging" in data.sample_stats
    assert float(az.rhat(data, var_names=["coef"])["coef"].max()) < 1.05
    coef = data.posterior["coef"].mean(("chain", "draw"))
    assert (np.abs(coef - res.coefficients.T) < 0.3 * res.bse.to_numpy()[None]).all()


# Without PyMC


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_all_but_sampling_works_without_pymc_and_arviz():
    found = python(
        """
        import sys

        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("pymc", "arviz", "pytensor", "nutpie", "xarray"):
                    raise ImportError(f"{name} is blocked")

        sys.meta_path.insert(0, Blocked())
        import numpy as np
        import mixreg

        rng = np.random.default_rng(0)
        x = np.column_stack([np.ones(80), rng.standard_normal(80)])
        y = x @ [1.0, 2.0] * rng.choice([-1, 1], 80) + 0.1 * rng.standard_normal(80)
        model = mixreg.MixReg(y, x, k=2)
        res = model.fit()
        assert model.fit("vb").elbo < 0
        assert res.posterior_draws(5).shape == (5, 7)
        assert res.predictive_draws(5).shape == (5, 80)
        assert set(res.initial_point()) == {"beta", "dispersion", "weights"}
        calls = {
            "to_pymc": model.to_pymc,
            "sample": lambda: res.sample(5),
            "to_arviz": lambda: res.to_arviz(5),
        }
        for name, call in calls.items():
            try:
                call()
            except mixreg.NotInstalledError as error:
                assert 'pip install "pymc' in str(error), error
            else:
                raise AssertionError(name)
        print("fine")
        """
    )
    assert found.stdout == "fine\n", found.stderr


def test_building_a_model_warns_of_nothing(tmp_path):
    found = python(
        """
        import warnings

        import numpy as np
        from mixreg import MixReg

        x = np.random.default_rng(0).standard_normal((20, 2))
        model = MixReg(x[:, 0], x[:, 1:], k=1)
        warnings.simplefilter("error")
        model.to_pymc()
        print("fine")
        """,
        # ArviZ warns once a day, and remembers the day in a cache.
        XDG_CACHE_HOME=str(tmp_path),
    )
    assert found.stdout == "fine\n", found.stderr
