"""Families of one's own: a few lines of mathematics, and the rest follows."""

import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln
from scipy.stats import t as student

from mixreg import MixReg, load
from mixreg.errors import FileFormatError, InputError
from mixreg.families import Family, Poisson
from mixreg.metrics import adjusted_rand_index


class TruncatedPoisson(Family):
    """Counts of at least 1: a Poisson that is seen only where it is not 0."""

    name = "truncatedpoisson"
    title = "Truncated Poisson Regressions"
    link_name = "log"

    def mean(self, eta):
        return np.exp(eta) / -np.expm1(-np.exp(eta))

    def log_density(self, rows):
        rate = np.exp(rows.eta)
        return rows.y * rows.eta - rate - np.log(-np.expm1(-rate)) - gammaln(rows.y + 1)

    def score(self, rows):
        return rows.y - rows.mu

    def curvature(self, rows):
        return rows.mu * (1 + np.exp(rows.eta) - rows.mu)

    def surrogate(self, y, trials):
        return np.log(y)

    def check(self, y, trials):
        return (y < 1) | (y != np.round(y)), "counts of at least 1"

    def draw(self, rows, rng):
        return truncated(np.exp(rows.eta), rng)


@dataclass(frozen=True)
class StudentT(Family):
    """Responses with heavy tails around a linear predictor."""

    df: float = 4.0

    name: ClassVar[str] = "studentt"
    dispersion_name: ClassVar[str | None] = "sigma"
    dispersion_power: ClassVar[float] = 0.5

    def _parts(self, rows):
        """Squared residual over df times variance, and the residual's weight."""
        gap = rows.y - rows.mu
        u = gap**2 / (self.df * rows.dispersion)
        return gap, u, (self.df + 1) / (self.df * rows.dispersion)

    def log_density(self, rows):
        _, u, _ = self._parts(rows)
        constant = gammaln((self.df + 1) / 2) - gammaln(self.df / 2)
        constant -= 0.5 * np.log(self.df * np.pi * rows.dispersion)
        return constant - 0.5 * (self.df + 1) * np.log1p(u)

    def score(self, rows):
        gap, u, w = self._parts(rows)
        return w * gap / (1 + u)

    def curvature(self, rows):
        _, u, w = self._parts(rows)
        return w * (1 - u) / (1 + u) ** 2

    def weight(self, rows):
        _, u, w = self._parts(rows)
        return w / (1 + u)

    def scale_score(self, rows):
        _, u, _ = self._parts(rows)
        return 0.5 * (self.df + 1) * u / (1 + u) - 0.5

    def scale_curvature(self, rows):
        _, u, _ = self._parts(rows)
        return 0.5 * (self.df + 1) * u / (1 + u) ** 2

    def cross_curvature(self, rows):
        gap, u, w = self._parts(rows)
        return w * gap / (1 + u) ** 2

    def draw(self, rows, rng):
        return rows.mu + np.sqrt(rows.dispersion) * rng.standard_t(self.df, len(rows.y))


class Exponential(Family):
    """Waiting times whose mean is the exponential of the linear predictor; nothing else said."""

    link_name = "log"

    def log_density(self, rows):
        return -rows.eta - rows.y * np.exp(-rows.eta)

    def score(self, rows):
        return rows.y * np.exp(-rows.eta) - 1

    def curvature(self, rows):
        return rows.y * np.exp(-rows.eta)

    def mean(self, eta):
        return np.exp(eta)

    def surrogate(self, y, trials):
        return np.log(y)


def truncated(rate: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Poisson counts, drawn again while they are 0."""
    y = rng.poisson(rate)
    while (y == 0).any():
        y = np.where(y == 0, rng.poisson(rate), y)
    return y.astype(float)


TRUTH = {
    "truncatedpoisson": np.array([[2.5, 0.5], [0.5, -0.5]]),
    "studentt": np.array([[-1.0, -2.0], [3.0, 1.0]]),
    "own": np.array([[4.0, 0.5], [0.0, -0.5]]),
}
FAMILIES = {"truncatedpoisson": TruncatedPoisson(), "studentt": StudentT(), "own": Exponential()}
EVERY = pytest.mark.parametrize("name", FAMILIES)


def planted(name: str, n: int = 500, seed: int = 0) -> pd.DataFrame:
    """Groups of two rows from two components; column `z` is the component."""
    rng = np.random.default_rng(seed)
    z = np.repeat(rng.choice(2, n // 2, p=[0.6, 0.4]), 2)
    x = rng.uniform(-1, 1, n)
    eta = TRUTH[name][z, 0] + TRUTH[name][z, 1] * x
    draw = {
        "truncatedpoisson": lambda: truncated(np.exp(eta), rng),
        "studentt": lambda: eta + 0.4 * rng.standard_t(4, n),
        "own": lambda: rng.exponential(np.exp(eta)),
    }[name]
    return pd.DataFrame({"y": draw(), "x": x, "z": z + 1, "g": np.arange(n) // 2})


def declare(name: str, data: pd.DataFrame, k: int = 2, **options) -> MixReg:
    return MixReg.from_formula("y ~ x", data, k=k, groups="g", family=FAMILIES[name], **options)


@EVERY
def test_planted_components_are_found(name):
    data = planted(name)
    fit = declare(name, data).fit()
    found = fit.coefficients.to_numpy().T
    errors = fit.bse.to_numpy()[fit.model.layout.coef_index()]
    assert fit.converged
    assert np.abs((found - TRUTH[name]) / errors).max() < 4.5
    assert abs(fit.weights[1] - 0.6) < 0.1
    assert adjusted_rand_index(data["z"], fit.labels) > 0.85
    assert np.diff(fit.history).min() >= -1e-10 * abs(fit.llf)
    if name == "studentt":
        assert_allclose(fit.scale, 0.4, rtol=0.25)
        assert fit.scale.name == "sigma"


@EVERY
@pytest.mark.parametrize("option", ["plain", "shared", "noise"])
def test_standard_errors_are_those_of_differences(name, option):
    options = {
        "plain": {},
        "shared": {"shared": ["x"], "concomitant": "~ w", "weights": "two", "offset": "o"},
        "noise": {"noise": True},
    }[option]
    data = planted(name, 200)
    data = data.assign(w=np.cos(data["g"]), two=1 + data["g"] % 2, o=0.1 * data["x"] ** 2)
    model = declare(name, data, **options)
    fit = model.fit(init=data["z"].to_numpy(), tol=1e-14, max_iter=5000)
    at = fit.params.to_numpy()
    steps = 1e-5 * np.eye(len(at))
    away = at + 0.05
    slope = [(model.loglike(away + e) - model.loglike(away - e)) / 2e-5 for e in steps]
    assert_allclose(model.score(away), slope, rtol=1e-5, atol=1e-4)
    bend = np.array([(model.score(at + e) - model.score(at - e)) / 2e-5 for e in steps])
    assert_allclose(model.hessian(at), bend, rtol=1e-5, atol=1e-4)
    if option != "noise":
        assert_allclose(fit.bse, np.sqrt(np.diag(np.linalg.inv(-bend))), rtol=1e-4)


def test_one_component_is_what_scipy_says():
    data = planted("studentt")
    data = data[data["z"] == 1]
    fit = declare("studentt", data, 1).fit(tol=1e-14)
    residual = data["y"] - fit.predict()
    assert_allclose(fit.llf, student.logpdf(residual, 4, scale=fit.scale[1]).sum(), rtol=1e-12)
    # Nothing nearby is better.
    for step in 1e-3 * np.vstack([np.eye(3), -np.eye(3)]):
        assert fit.model.loglike(fit.params.to_numpy() + step) < fit.llf


@pytest.mark.parametrize("unit", [1e-6, 1e-2, 1e3, 1e5])
def test_units_of_the_response_do_not_matter(unit):
    data = planted("studentt", 200)
    fit = declare("studentt", data).fit()
    scaled = declare("studentt", data.assign(y=unit * data["y"])).fit()
    assert_allclose(scaled.llf, fit.llf - 200 * np.log(unit), rtol=1e-6)
    assert_allclose(scaled.scale, unit * fit.scale, rtol=1e-3)
    assert_allclose(scaled.coefficients, unit * fit.coefficients, rtol=1e-3)
    assert_allclose(scaled.bse["x[1]"], unit * fit.bse["x[1]"], rtol=1e-3)


def test_fields_of_a_family_are_kept():
    data = planted("studentt", 200)
    wide = MixReg.from_formula("y ~ x", data, k=2, family=StudentT(df=30.0)).fit()
    narrow = MixReg.from_formula("y ~ x", data, k=2, family=StudentT(df=2.5)).fit()
    assert narrow.llf > wide.llf
    assert (narrow.scale < wide.scale).all()
    equal = MixReg.from_formula("y ~ x", data, k=2, family=StudentT(equal_dispersion=True)).fit()
    assert equal.scale[1] == equal.scale[2]
    assert equal.df_model == wide.df_model - 1


def test_equal_variance_holds_for_a_family_of_ones_own():
    model = declare("studentt", planted("studentt", 100), equal_variance=True)
    assert model.family.equal_dispersion
    assert "log(sigma)" in model.param_names


def test_a_link_beside_a_family_of_ones_own_is_refused():
    with pytest.raises(InputError, match="link"):
        declare("studentt", planted("studentt", 100), link="log")


def test_what_a_family_allows_is_checked():
    data = planted("truncatedpoisson", 100).set_axis([f"r{i}" for i in range(100)])
    data.loc["r5", "y"] = 0
    with pytest.raises(InputError, match=r"is 0 in row 'r5'.*counts of at least 1"):
        declare("truncatedpoisson", data)


@pytest.mark.parametrize("name", ["truncatedpoisson", "studentt"])
def test_draws_follow_the_family(name):
    data = planted(name, 200)
    fit = declare(name, data).fit(n_init=4)
    draws = [fit.simulate(seed) for seed in range(40)]
    assert draws[2].equals(fit.simulate(2))
    y, labels = np.array([d["y"] for d in draws]), np.array([d["component"] for d in draws])
    means = fit.predict(which="component").to_numpy()
    for j in (1, 2):
        gaps = (y - means[:, j - 1])[labels == j]
        assert abs(gaps.mean()) < 4.5 * gaps.std() / np.sqrt(gaps.size)
    if name == "truncatedpoisson":
        assert y.min() == 1


def test_a_family_without_draws_says_so():
    fit = declare("own", planted("own", 100)).fit(n_init=2)
    with pytest.raises(InputError, match="family own cannot draw"):
        fit.simulate()


def test_a_family_without_a_density_says_what_is_missing():
    with pytest.raises((InputError, NotImplementedError), match="log_density"):
        MixReg.from_formula("y ~ x", planted("own", 100), k=2, family=Family()).fit()


@EVERY
def test_the_rest_follows(name):
    data = planted(name, 200)
    fit = declare(name, data).fit(n_init=4)
    title = FAMILIES[name].title
    assert f"Mixture of {title}" in fit.summary().as_text()
    assert_allclose(fit.predict(data, "posterior"), fit.posterior, atol=1e-12)
    assert_allclose(fit.predict(data), fit.predict(), rtol=1e-10)
    hard = declare(name, data).fit("altmin", n_init=4)
    assert adjusted_rand_index(data["z"], hard.labels) > 0.8
    arrays = MixReg(data["y"].to_numpy(), data[["x"]].assign(c=1.0), 2, family=FAMILIES[name])
    fit = arrays.fit(n_init=2)
    assert pickle.loads(pickle.dumps(fit)).llf == fit.llf


def test_a_family_with_other_options_is_refused_when_a_file_is_loaded(tmp_path):
    data, path = planted("studentt", 200), tmp_path / "fit.mixreg"
    res = MixReg.from_formula("y ~ x", data, k=2, family=StudentT(df=4.0)).fit(n_init=2)
    res.save(path)
    again = load(path, family=StudentT(df=4.0))
    assert_array_equal(again.predict(data), res.predict(data))
    with pytest.raises(FileFormatError, match=r"other options than family= has: df"):
        load(path, family=StudentT(df=30.0))


def test_a_family_is_not_handed_over_for_one_of_mixregs(tmp_path):
    path = tmp_path / "fit.mixreg"
    MixReg.from_formula("y ~ x", planted("studentt", 200), k=2).fit(n_init=2).save(path)
    with pytest.raises(FileFormatError, match="leave family= out"):
        load(path, family=StudentT(df=4.0))


@dataclass(frozen=True)
class Capped(Poisson):
    """Counts with an option that JSON has no word for."""

    cap: float = np.inf
    odd: float = np.nan


def test_options_that_are_not_finite_are_kept(tmp_path):
    path, data = tmp_path / "fit.mixreg", planted("truncatedpoisson", 200)
    MixReg.from_formula("y ~ x", data, k=2, family=Capped()).fit(n_init=2).save(path)
    assert load(path, family=Capped()).spec.family.cap == np.inf
    with pytest.raises(FileFormatError, match="other options than family= has: cap"):
        load(path, family=Capped(cap=3.0))
