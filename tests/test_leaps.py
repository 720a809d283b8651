"""Leaps, racing runs and shared Newton steps: the same maximum, sooner."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mixreg import MixReg
from mixreg.estimators import EM, Control, Newton, iterate
from mixreg.estimators.em import MARGIN, PACE, RacingEM
from mixreg.estimators.newton import ChordNewton
from mixreg.estimators.runs import standard_layout
from mixreg.families import Gaussian
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.search.candidates import random_directions
from mixreg.search.constants import WARM
from mixreg.sources import MemorySource
from tests.samples import lines, random_mixture, random_source
from tests.samples import standardised as standard_of
from tests.test_families import KINDS, Kind, declare, planted

# Overlapping components, where EM crawls.
SLOW = {
    "poisson": Kind("poisson", "log", ((1.5, 0.5), (0.8, -0.3))),
    "binomial": Kind("binomial", "logit", ((0.5, 1), (-0.5, -0.5))),
    "gamma": Kind("gamma", "log", ((1, 0.5), (0.2, -0.5)), (0.3, 0.3)),
    "negativebinomial": Kind("negativebinomial", "log", ((2, 0.5), (0.8, -0.5)), (0.3, 0.3)),
    "gaussian": Kind("gaussian", "identity", ((0.6, 0.5), (-0.6, -0.5)), (0.7, 0.9)),
}


def slow_case(name: str):
    """A source in standard coordinates, its mixture, and the true components there."""
    kind = SLOW[name]
    data = planted(kind, 500)
    problem = declare(kind, data, 2).problem()
    scale = np.array(kind.scale) ** (2 if name == "gaussian" else 1) if kind.scale else np.ones(2)
    truth = Parameters(np.array(kind.coef, float), scale, log_gating(np.array([0.6, 0.4])))
    start = problem.whitening.from_user(truth)
    return problem.source.standard(problem.whitening), problem.mixture, start.stacked()


@pytest.mark.parametrize("name", SLOW)
def test_leaps_reach_the_maximum_of_plain_em_in_fewer_iterations(name):
    source, mixture, start = slow_case(name)
    control = Control(5000, 1e-11)
    plain = iterate(source, EM(mixture), start, control)[0]
    leaping = iterate(source, EM(mixture), start, replace(control, leaps=True))[0]
    assert plain.converged
    assert leaping.converged
    assert leaping.objective > plain.objective - 1e-5
    assert_allclose(leaping.objective, plain.objective, atol=1e-3)
    assert_allclose(leaping.params.coef, plain.params.coef, atol=0.02)
    assert leaping.n_iter < 0.7 * plain.n_iter


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_no_accepted_step_lowers_the_likelihood(kind):
    problem = declare(kind, planted(kind, 200, 3), 3).problem()
    source, white = problem.source.standard(problem.whitening), problem.whitening
    rng = np.random.default_rng(0)
    # The moderate deviations of starts keep means in their range under these links.
    coef = white.pooled + 0.1 * rng.standard_normal((3, 4, 2))
    start = problem.mixture.prepare(Parameters.uniform(coef, white.dispersion))
    for fit in iterate(source, EM(problem.mixture), start, Control(150, 1e-9, leaps=True)):
        rounding = 2e-10 * (1 + np.abs(fit.history[:-1]))
        assert (np.diff(fit.history) >= -rounding).all()
        assert np.isfinite(fit.params.coef).all()


def test_a_leap_is_where_a_geometric_series_ends():
    start, end = random_mixture(2, 3, 0, runs=2), random_mixture(2, 3, 1, runs=2)
    end = replace(end, gating=start.gating)

    def at(share):
        logs = np.log(start.dispersion) + share * np.log(end.dispersion / start.dispersion)
        coef = start.coef + share * (end.coef - start.coef)
        return Parameters(coef, np.exp(logs), start.gating)

    ahead, length = at(0.0).ahead(at(0.3), at(1 - 0.7**2), np.full(2, 100.0))
    assert_allclose(length, 1 / 0.3)
    assert_allclose(ahead.coef, end.coef)
    assert_allclose(ahead.dispersion, end.dispersion)
    short, length = at(0.0).ahead(at(0.3), at(1 - 0.7**2), np.full(2, 1.0))
    assert_allclose(length, 1.0)
    assert_allclose(short.coef, at(1 - 0.7**2).coef)


def test_a_leap_keeps_weights_and_never_goes_wild():
    first, middle = random_mixture(3, 2, 0, runs=4), random_mixture(3, 2, 1, runs=4)
    end = random_mixture(3, 2, 2, runs=4)
    for size in (1.0, 1e10, 1e100):
        there = replace(end, coef=size * end.coef)
        ahead, length = Mixture().ahead(first, middle, there, np.full(4, 1e6))
        assert np.isfinite(length).all()
        assert_allclose(np.exp(ahead.gating[..., 0]).sum(axis=0), 1.0)
        assert np.abs(ahead.coef - there.coef).max() <= 5.0
        assert (ahead.weights > 1e-6).all()


def test_a_leap_keeps_variances_in_their_bounds():
    family = Gaussian(variance_ratio=0.3)
    source, white = standard_of(random_source(300, 3))
    coef = random_directions(3, 6, white, None, np.random.default_rng(0))
    starts = Parameters.uniform(coef, 0.5)
    for most in range(2, 30):
        control = Control(most, 0.0, leaps=True)
        for fit in iterate(source, EM(Mixture(family)), starts, control):
            spread = fit.params.dispersion
            assert spread.min() >= 0.3 * spread.max() * (1 - 1e-12)
            assert fit.reason == "max_iter"


def test_runs_with_leaps_do_not_depend_on_their_neighbours():
    source, white = standard_of(random_source(300, 3))
    coef = random_directions(2, 5, white, None, np.random.default_rng(1))
    starts, control = Parameters.uniform(coef, 0.5), Control(300, 1e-8, leaps=True)
    em = EM(Mixture(Gaussian()))
    together = iterate(source, em, starts, control)
    assert len({fit.n_iter for fit in together}) > 1
    for run, fit in enumerate(together):
        alone = iterate(source, em, starts.take([run]), control)[0]
        assert fit.n_iter == alone.n_iter
        assert_allclose(fit.history, alone.history, rtol=1e-9)


# Runs that are let go


def many_runs(runs: int = 72):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(400), rng.standard_normal((400, 3))])
    coef = np.array([[2.0, 1, 0, 1], [-2.0, 0, 1, -1], [0.0, -1, -1, 2]])[rng.integers(0, 3, 400)]
    y = (x * coef).sum(axis=1) + 0.5 * rng.standard_normal(400)
    source, white = standard_of(MemorySource(x, y))
    coef = random_directions(3, runs, white, None, np.random.default_rng(2))
    return source, Parameters.uniform(coef, 0.5 * white.variance)


def test_only_hopeless_runs_are_abandoned():
    source, starts = many_runs()
    em, control = EM(Mixture(Gaussian())), Control(600, 1e-8, leaps=True)
    # Runs show what they are after some iterations, as in a race.
    warm = iterate(source, em, starts, Control(WARM, 0.0, leaps=True))
    starts = Parameters.concatenate([fit.params.stacked() for fit in warm])
    full = iterate(source, em, starts, control)
    racing = iterate(source, RacingEM(Mixture(Gaussian())), starts, control)
    best = max(fit.objective for fit in full)
    left = [i for i, fit in enumerate(racing) if fit.reason == "abandoned"]
    assert left
    for i, (fit, end) in enumerate(zip(racing, full, strict=True)):
        if i in left:
            pace = abs(fit.history[-1] - fit.history[-2])
            assert fit.objective + PACE * pace + MARGIN < best + 1e-6
            assert end.objective < best - 1.0
            assert not fit.converged
        else:
            assert fit.objective == pytest.approx(end.objective, abs=1e-6)
    assert max(fit.objective for fit in racing) == pytest.approx(best, abs=1e-6)


def test_a_known_height_lets_go_of_all_that_cannot_reach_it():
    source, starts = many_runs(4)
    control = Control(600, 1e-8)
    ends = iterate(source, RacingEM(Mixture(Gaussian()), height=1e6), starts, control)
    assert {fit.reason for fit in ends} == {"abandoned"}
    ends = iterate(source, RacingEM(Mixture(Gaussian()), height=-1e6), starts.take([0]), control)
    assert ends[0].reason == "converged"


# Newton's steps with one information

OPTIONS = {
    "plain": {},
    "equal": {"equal_variance": True},
    "shared": {"shared": ["x2"]},
    "only": {"only": {"x2": [1]}},
    "gate": {"concomitant": "~ x2"},
    "noise": {"noise": True},
    "weights": {"weights": np.resize([1.0, 2.0, 0.5], 300)},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_shared_steps_end_where_newton_does(option):
    data = lines(300, noise=0.8)
    data.loc[::10, "y"] = np.linspace(-20, 20, 30)
    model = MixReg.from_formula("y ~ x1 + x2", data, k=2, **OPTIONS[option])
    problem = model.problem()
    source, mixture = problem.source.standard(problem.whitening), problem.mixture
    start = mixture.prepare(model.fit(init="tensor", max_iter=30, tol=1e-4).solution.run.params)
    near = iterate(source, EM(mixture), start.stacked(), Control(500, 1e-6))[0].params
    layout, rows = standard_layout(mixture, near), source.row_weight
    control = Control(60, 1e-9)
    newton = iterate(source, Newton(mixture, layout, rows), near.stacked(), control)[0]
    chord = ChordNewton.at(near, mixture, layout, source)
    shared = iterate(source, chord, near.stacked(), control)[0]
    assert newton.reason == shared.reason == "converged"
    assert shared.objective == pytest.approx(newton.objective, abs=1e-7)
    assert_allclose(layout.pack(shared.params), layout.pack(newton.params), atol=1e-3)
