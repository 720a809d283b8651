"""Segments are told from accidents, and maxima from one another."""

from math import comb

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from mixreg import MixReg
from mixreg.estimators.loop import Run
from mixreg.families import Gaussian
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.search.chance import (
    EMPTY,
    ONCE_IN,
    Gains,
    TakeGains,
    bought,
    milder,
    suspects,
    tight,
    worth,
)
from mixreg.search.constants import SAME_HEIGHT
from mixreg.search.record import Maximum, distance, expected_end, merged, same, unseen
from mixreg.sources import MemorySource
from tests.samples import random_mixture


def rare_and_tight() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three lines, one of them rare and with little noise, near the others."""
    rng = np.random.default_rng(0)
    n = 1000
    label = rng.choice(3, n, p=[0.495, 0.405, 0.1])
    x = rng.standard_normal(n)
    X = np.column_stack([np.ones(n), x])
    coef = np.array([[1, 1], [-1, -0.5], [3, -1.0]])
    noise = np.array([0.6, 0.6, 0.1])[label] * rng.standard_normal(n)
    return (X * coef[label]).sum(axis=1) + noise, X, label


def test_a_rare_and_tight_segment_is_found():
    y, X, label = rare_and_tight()
    found, truth = MixReg(y, X, k=3).fit(), MixReg(y, X, k=3).fit(init=label + 1)
    assert truth.llf == pytest.approx(-1412.94, abs=0.01)
    assert found.llf == pytest.approx(truth.llf, abs=0.01)
    assert found.solution.suspects == ()


def test_a_tight_segment_in_the_middle_of_a_wide_one_is_kept():
    rng = np.random.default_rng(1)
    inner = np.arange(600) < 60
    x = rng.standard_normal(600)
    y = np.where(inner, 0.5 * x + 0.02 * rng.standard_normal(600), 2 * rng.standard_normal(600))
    res = MixReg.from_formula("y ~ x", {"x": x, "y": y}, k=2).fit()
    assert res.solution.suspects == ()
    assert_allclose(res.coefficients[2], [0.0, 0.5], atol=0.05)
    assert res.scale[2] == pytest.approx(0.02, rel=0.4)


def through(rows: int, n: int = 200, seed: int = 0) -> tuple[MemorySource, Parameters]:
    """Noise, and a mixture whose second component is a line through some of its rows."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.standard_normal(n)])
    y = rng.standard_normal(n)
    chosen = np.argsort(np.abs(y - 0.3 * x[:, 1]))[:rows]
    coef = np.linalg.lstsq(x[chosen], y[chosen], rcond=None)[0]
    variance = max(float(np.mean((y[chosen] - x[chosen] @ coef) ** 2)), 1e-10)
    weights = np.array([n - rows, rows]) / n
    params = Parameters(np.array([[0, 0], coef]), np.array([1.0, variance]), log_gating(weights))
    return MemorySource(x, y), params


@pytest.mark.parametrize("seed", range(5))
def test_the_best_line_through_three_rows_of_noise_is_suspect(seed):
    # One row more than there are coefficients, the best choice out of all.
    source, params = through(3, seed=seed)
    x, y = source.x[:, 1], source.y
    i, j = np.triu_indices(200, 1)
    slope = (y[j] - y[i]) / (x[j] - x[i])
    level = y[i] - slope * x[i]
    away = np.abs(y - level[:, None] - slope[:, None] * x)
    away[np.arange(len(i)), i] = away[np.arange(len(i)), j] = np.inf
    best = away.min(axis=1).argmin()
    coef = np.array([[0, 0], [level[best], slope[best]]])
    # A variance as small as that of the three rows would be, within the bounds of a fit.
    spread = np.array([1.0, max(away.min() ** 2, 1e-6)])
    params = Parameters(coef, spread, params.gating)
    gains = source.sweep(TakeGains(Mixture(Gaussian())), params.stacked()).gain
    assert gains[1, 0] > 5
    assert suspects(source, Mixture(Gaussian()), params) == (1,)
    equal = Mixture(Gaussian(equal_dispersion=True))
    assert suspects(source, equal, params) == ()


def test_a_line_that_many_rows_share_is_not():
    source, params = through(3)
    y = source.y.copy()
    y[:40] = source.x[:40] @ params.coef[1] + np.sqrt(params.dispersion[1]) * np.resize([1, -1], 40)
    params = Parameters(params.coef, params.dispersion, log_gating(np.array([0.8, 0.2])))
    assert suspects(MemorySource(source.x, y), Mixture(Gaussian()), params) == ()


def test_rows_whose_labels_are_known_are_no_accident():
    source, params = through(3)
    held = np.abs(source.y - source.x @ params.coef[1]) < 4 * np.sqrt(params.dispersion[1])
    known = MemorySource(source.x, source.y, known=np.where(held, 1, -1))
    assert suspects(source, Mixture(Gaussian()), params) == (1,)
    assert suspects(known, Mixture(Gaussian(), labelled=True), params) == ()


def test_gains_are_what_is_lost_without_a_component():
    source, params = through(20)
    gains = source.sweep(TakeGains(Mixture(Gaussian())), params.stacked())
    block = source.as_block()
    eta = block.x @ params.coef.T
    spread = params.dispersion
    logs = -0.5 * ((block.y[:, None] - eta) ** 2 / spread + np.log(2 * np.pi * spread))
    joint = logs + np.log(params.weights)
    whole = np.logaddexp.reduce(joint, axis=1).sum()
    # The others, as they are, take its rows and its weight.
    assert_allclose(gains.gain[:, 0], [whole - logs[:, 1].sum(), whole - logs[:, 0].sum()])
    held = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None]).sum(axis=0)
    assert_allclose(gains.rows[:, 0], held)
    assert_allclose(gains.units[:, 0], held)
    assert (gains.all_rows, gains.all_units) == (200.0, 200.0)


def test_what_chance_buys_by_hand():
    gains = Gains(*np.array([[[50.0]], [[10.0]], [[10.0]]]), 100.0, 100.0)
    lines = np.log(comb(100, 2))
    assert_allclose(bought(gains, 2, False, doubt=True), (lines + np.log(ONCE_IN)) * 10 / 8)
    # Any two of its ten rows lead to the same line.
    likely = lines - np.log(comb(10, 2)) + np.log(ONCE_IN)
    assert_allclose(bought(gains, 2, grouped=False), likely * 10 / 8)
    # Five rows a group: one group gives a line, and there are twenty of them.
    groups = Gains(*np.array([[[50.0]], [[10.0]], [[2.0]]]), 100.0, 20.0)
    assert_allclose(bought(groups, 2, True, doubt=True), np.log(20 * ONCE_IN) * 10 / 8)
    # Either of its two groups leads to it.
    assert_allclose(bought(groups, 2, grouped=True), np.log(20 / 2 * ONCE_IN) * 10 / 8)
    few = Gains(*np.array([[[50.0]], [[2.0]], [[2.0]]]), 100.0, 100.0)
    assert np.isinf(bought(few, 2, grouped=False))


def test_only_components_that_vary_far_less_are_looked_at():
    params = random_mixture(3, 2, runs=1)
    spread = np.array([[1.0], [0.3], [0.1]])
    weights = log_gating(np.full((3, 1), 1 / 3))
    found = tight(Parameters(params.coef, spread, weights))[:, 0]
    # Deviations below half of the others' (root of their mean variance).
    assert found.tolist() == [False, False, True]
    assert not tight(random_mixture(1, 2, runs=1)).any()


def fit_at(params: Parameters, height: float, reason: str = "converged", history=None) -> Run:
    history = np.array([height]) if history is None else np.array(history)
    return Run(params, height, history, reason, len(history) - 1)


def test_a_fit_with_an_empty_component_is_worth_least():
    source, params = through(20)
    gone = Parameters(params.coef, np.ones(2), log_gating(np.array([1.0, 1e-6])))
    low, high = fit_at(params, -900.0), fit_at(gone, -300.0)
    value = worth(source, Mixture(Gaussian()), [high, low], 200.0)
    assert value[0] < value[1]
    assert value[0] == pytest.approx(-300 - EMPTY)
    assert value[1] == -900.0


def test_chance_counts_for_nothing():
    source, params = through(3)
    gains = source.sweep(TakeGains(Mixture(Gaussian())), params.stacked()).gain[1, 0]
    value = worth(source, Mixture(Gaussian()), [fit_at(params, -270.0)], 200.0)
    assert value[0] == pytest.approx(-270.0 - gains)


def test_milder_starts_are_without_the_tightest():
    coef = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    gating = log_gating(np.array([0.6, 0.3, 0.1]))
    params = Parameters(coef, np.array([1.0, 2.0, 0.01]), gating)
    first, second = milder(params)
    assert_allclose(first.coef, coef[[0, 1, 0]])
    assert_allclose(first.dispersion, [1.5, 2.0, 0.5])
    assert_allclose(first.weights, np.array([0.3, 0.3, 0.3]) / 0.9)
    assert_allclose(second.coef, coef[[0, 1, 1]])
    assert_allclose(second.dispersion, [1.0, 3.0, 1.0])
    assert_allclose(second.weights, np.array([0.6, 0.15, 0.15]) / 0.9)
    # The fit itself stays as it was.
    assert_allclose(params.dispersion, [1.0, 2.0, 0.01])
    assert_allclose(params.gating, gating)


def test_whole_groups_are_judged_as_such():
    rng = np.random.default_rng(4)
    shop = np.repeat(np.arange(60), 5)
    rare = np.isin(shop, np.arange(6))
    x = rng.standard_normal(300)
    y = np.where(rare, 1 + x + 0.05 * rng.standard_normal(300), rng.standard_normal(300))
    data = pd.DataFrame({"x": x, "y": y, "shop": shop})
    res = MixReg.from_formula("y ~ x", data, k=2, groups="shop").fit()
    assert res.solution.suspects == ()
    assert (res.labels == 2).sum() == rare.sum()


# Maxima


def test_components_in_another_order_are_the_same_maximum():
    params = random_mixture(3, 2)
    other = params.permute([2, 0, 1])
    assert distance(params, other) == pytest.approx(0.0, abs=1e-12)
    assert same(fit_at(params, -5.0), fit_at(other, -5.0), 1000.0)
    far = Parameters(params.coef + 1.0, params.dispersion, params.gating)
    assert not same(fit_at(params, -5.0), fit_at(far, -5.0), 1000.0)
    assert not same(fit_at(params, -5.0), fit_at(other, -5.1 - SAME_HEIGHT), 1000.0)


def test_runs_that_ended_at_one_maximum_are_counted_together():
    params, far = random_mixture(3, 2), random_mixture(3, 2, seed=5)
    maxima = [
        Maximum(fit_at(far, -9.0), ("labels",)),
        Maximum(fit_at(params, -5.01), ("tensor",)),
        Maximum(fit_at(params.permute([1, 0, 2]), -5.0), ("random",), 1),
        Maximum(fit_at(params.permute([1, 2, 0]), -5.02), ("tensor",)),
    ]
    best, other = merged(maxima, 1000.0)
    assert best.run.objective == -5.0
    assert sorted(best.kinds) == ["random", "tensor", "tensor"]
    assert best.hits == 2  # The tensor's starts are not independent of each other.
    assert best.arrivals == 1
    assert other.kinds == ("labels",)
    assert [m.run.objective for m in merged(maxima[::-1], 1000.0)] == [-5.0, -9.0]


def test_where_a_run_is_heading():
    params = random_mixture(2, 2)
    gains = 8 * 0.5 ** np.arange(4)
    history = np.concatenate([[-100.0], -100 + np.cumsum(gains)])
    running = fit_at(params, history[-1], "max_iter", history)
    assert expected_end(running) == pytest.approx(-84.0)
    assert expected_end(fit_at(params, history[-1], "converged", history)) == history[-1]
    assert expected_end(fit_at(params, -3.0, "max_iter")) == -3.0


@pytest.mark.parametrize(
    ("hits", "chance"),
    [((8,), 2 / 56), ((5, 3), 6 / 56), ((1, 1, 1), 1.0), ((1,), 1.0), ((10, 6, 0), 6 / 240)],
)
def test_the_chance_of_another_maximum_by_hand(hits, chance):
    # w (w + 1) / n (n - 1), Boender and Rinnooy Kan (1987); moves are no starts.
    params = random_mixture(2, 2)
    maxima = [Maximum(fit_at(params, -i), ("random",) * h) for i, h in enumerate(hits)]
    assert unseen(maxima) == pytest.approx(chance)
