"""The Gaussian family: densities by the book, and an M-step nothing improves on."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import LinearConstraint, minimize
from scipy.stats import norm

from mixreg.estimators.expectation import GivenAssignment
from mixreg.families import Gaussian
from mixreg.families.bounds import bounded_variances
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources.memory import condensed
from tests.samples import random_mixture, random_source

KINDS = pytest.mark.parametrize("grouped", [False, True], ids=["rows", "groups"])


def mstep(family, sums, params):
    return Mixture(family).mstep(sums.family, sums.count, sums.gate, params)


def densities(source, params: Parameters) -> np.ndarray:
    """Log densities of the rows by scipy, added up within units, (k, units)."""
    sigma = np.sqrt(params.dispersion)[:, None]
    rows = norm.logpdf(source.y, params.coef @ source.x.T, sigma)
    return rows if source.starts is None else np.add.reduceat(rows, source.starts, axis=1)


@KINDS
def test_log_density_is_that_of_scipy(grouped):
    source, params, family = random_source(90, 3, grouped=grouped), random_mixture(4, 3), Gaussian()
    for block in (source.as_block(), condensed(source).block):
        found = family.unit_density(block, params, family.evaluate(block, params))
        assert_allclose(found, densities(source, params), rtol=1e-10, atol=1e-10)


@KINDS
def test_a_stack_is_its_runs(grouped):
    source, stack = random_source(90, 3, grouped=grouped), random_mixture(2, 3, runs=3)
    family, block = Gaussian(), source.as_block()
    found = family.unit_density(block, stack, family.evaluate(block, stack))
    for run in range(3):
        assert_allclose(found[:, run], densities(source, stack.run(run)), rtol=1e-11, atol=1e-11)


def test_densities_far_out_stay_finite():
    source, family = random_source(20, 2), Gaussian()
    params = random_mixture(2, 2)
    tiny = Parameters(params.coef, np.array([1e-24, 1e6]), params.gating)
    block = source.as_block()
    found = family.unit_density(block, tiny, family.evaluate(block, tiny))
    assert np.isfinite(found).all()
    assert_allclose(found, densities(source, tiny), rtol=1e-10)


# Variances under a bound on their ratio


def cost(bounded, variance, size) -> float:
    """Minus twice the expected log-likelihood of the variances, up to a constant."""
    return float((size * (np.log(bounded) + variance / bounded)).sum())


def solved_by_scipy(variance, size, ratio) -> np.ndarray:
    """Minimise over log variances: a convex problem with linear constraints."""
    k = len(variance)
    pairs = [np.eye(k)[i] - np.eye(k)[j] for i in range(k) for j in range(k) if i != j]
    start = np.full(k, np.log(size @ variance / size.sum()))
    # Points that a line search tries may be far off.
    with np.errstate(over="ignore"):
        found = minimize(
            lambda u: (size * (u + variance * np.exp(-u))).sum(),
            start,
            jac=lambda u: size * (1 - variance * np.exp(-u)),
            constraints=LinearConstraint(np.array(pairs), np.log(ratio), np.inf),
            method="SLSQP",
            options={"maxiter": 1000, "ftol": 1e-14},
        )
    return np.exp(found.x)


@pytest.mark.parametrize("seed", range(40))
def test_bounded_variances_are_the_best_ones(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    variance, size = rng.lognormal(0, 3, k), rng.uniform(0.5, 50, k)
    ratio = float(rng.choice([1e-3, 0.05, 0.5, 1.0]))
    found = bounded_variances(variance, size, ratio)
    assert found.min() >= ratio * found.max() * (1 - 1e-12)
    best = cost(found, variance, size)
    assert best <= cost(solved_by_scipy(variance, size, ratio), variance, size) + 1e-6
    # The solution clips; no other place to clip at may be better.
    for least in np.geomspace(variance.min() * ratio, variance.max() / ratio, 400):
        clipped = np.clip(variance, least, least / ratio)
        assert best <= cost(clipped, variance, size) + 1e-9


def test_variances_within_the_bound_are_left_alone():
    variance = np.array([[1.0, 2.0], [3.0, 0.5]])
    assert_array_equal(bounded_variances(variance, np.ones((2, 2)), 1e-2), variance)


def test_a_ratio_of_one_pools_the_variances():
    variance, size = np.array([1.0, 4.0, 10.0]), np.array([10.0, 5.0, 1.0])
    assert_allclose(bounded_variances(variance, size, 1.0), size @ variance / size.sum())


def test_an_exact_component_gets_the_smallest_variance_allowed():
    found = bounded_variances(np.array([0.0, 1.0]), np.array([5.0, 95.0]), 1e-2)
    assert found.min() == pytest.approx(1e-2 * found.max())
    # The best m on this stretch is the weighted mean of 0 and 0.01 * 1.
    assert found.min() == pytest.approx(0.95 * 1e-2)


def test_every_run_of_a_stack_is_bounded_on_its_own():
    rng = np.random.default_rng(0)
    variance, size = rng.lognormal(0, 3, (3, 20)), rng.uniform(1, 9, (3, 20))
    found = bounded_variances(variance, size, 0.1)
    for run in range(20):
        alone = bounded_variances(variance[:, run], size[:, run], 0.1)
        assert_array_equal(found[:, run], alone)


@pytest.mark.parametrize("squares", [[0.0, 0.0], [1e-320, 1.0], [1e-300, 1e300]])
def test_extreme_sums_of_squares_give_positive_variances(squares):
    for family in (Gaussian(), Gaussian(equal_dispersion=True)):
        variance = family.variances(np.array(squares), np.array([10.0, 10.0]))
        assert np.isfinite(variance).all()
        assert (variance > 0).all()


def test_an_empty_component_has_a_variance():
    variance = Gaussian().variances(np.array([0.0, 20.0]), np.array([0.0, 10.0]))
    assert_allclose(variance, [2e-4, 2.0], rtol=1e-9)


# The M-step


def expected(source, params: Parameters, resp: np.ndarray) -> float:
    """Expected log-likelihood of complete data, by scipy."""
    return float((resp * (np.log(params.weights)[:, None] + densities(source, params))).sum())


def nearby(params: Parameters, size: float, equal: bool, rng) -> Parameters:
    spread = rng.standard_normal(1 if equal else params.k)
    return Parameters(
        params.coef + size * rng.standard_normal(params.coef.shape),
        params.dispersion * np.exp(size * spread),
        params.gating + size * rng.standard_normal(params.gating.shape),
    )


FAMILIES = {
    "free": Gaussian(),
    "equal": Gaussian(equal_dispersion=True),
    "bound": Gaussian(variance_ratio=0.95),
}


@KINDS
@pytest.mark.parametrize("name", FAMILIES)
def test_nothing_improves_on_the_m_step(grouped, name):
    family = FAMILIES[name]
    rng = np.random.default_rng(5)
    source, current = random_source(200, 3, grouped=grouped), random_mixture(3, 3)
    resp = rng.dirichlet([1.0, 0.5, 0.3], source.units).T
    told = replace(source.as_block(), given=resp[:, None].transpose(2, 0, 1))
    sums = GivenAssignment(Mixture(family))(told, current.stacked())
    best = mstep(family, sums, current.stacked()).run(0)
    top = expected(source, best, resp)
    ratio = best.dispersion.min() / best.dispersion.max()
    assert ratio == pytest.approx({"free": ratio, "equal": 1.0, "bound": 0.95}[name])
    assert top > expected(source, current, resp)
    tried = 0
    for size in np.repeat([1e-4, 1e-3, 1e-2, 0.1, 0.5], 60):
        other = nearby(best, size, name == "equal", rng)
        if other.dispersion.min() < family.variance_ratio * other.dispersion.max():
            continue
        tried += 1
        assert expected(source, other, resp) < top
    assert tried > 20


@KINDS
def test_the_m_step_is_weighted_least_squares(grouped):
    rng = np.random.default_rng(6)
    source, family = random_source(200, 3, grouped=grouped, weighted=True), Gaussian()
    resp = rng.dirichlet([1.0, 1.0], source.units).T
    current = random_mixture(2, 3).stacked()
    block = source.as_block()
    told = replace(block, given=resp[:, None].transpose(2, 0, 1))
    new = mstep(family, GivenAssignment(Mixture(family))(told, current), current).run(0)
    for j in range(2):
        w = block.per_row(resp[j] * source.weight)
        root = np.sqrt(w)
        beta = np.linalg.lstsq(source.x * root[:, None], source.y * root, rcond=None)[0]
        assert_allclose(new.coef[j], beta, rtol=1e-9, atol=1e-10)
        mean_square = w @ (source.y - source.x @ beta) ** 2 / w.sum()
        assert new.dispersion[j] == pytest.approx(mean_square, rel=1e-9)
    # Weights are shares of units, not of rows.
    assert_allclose(new.weights, resp @ source.weight / source.weight.sum(), rtol=1e-12)
