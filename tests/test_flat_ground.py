"""Flat ground: runs with more components than there are segments end, soon, and at a maximum."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mixreg import MixReg
from mixreg.estimators import EM, Control, Run, iterate, runs
from mixreg.estimators.runs import newton_steps, run_em, standard_layout
from mixreg.estimators.trust import trust_step
from mixreg.inference.information import TakeInformation
from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.search.candidates import feasible, random_directions
from tests.samples import lines, shops
from tests.test_families import KINDS, declare, planted

CONTROL = Control(1000, 1e-10)


class Counted:
    """A source that counts its passes."""

    def __init__(self, source):
        self.source, self.passes = source, 0

    def __getattr__(self, name):
        return getattr(self.source, name)

    def shortest(self):
        """Itself, so that all passes are counted."""
        return self

    def sweep(self, task, params):
        self.passes += 1
        return self.source.sweep(task, params)


def planes(rows: int, p: int, k: int, noise: float, seed: int = 0):
    """Response and regressors of planted components, all standard normal."""
    rng = np.random.default_rng(seed)
    x, coef = rng.standard_normal((rows, p)), rng.standard_normal((k, p))
    labels = rng.integers(0, k, rows)
    return (x * coef[labels]).sum(axis=1) + noise * rng.standard_normal(rows), x


def counts(link: str, k: int):
    kind = next(kind for kind in KINDS if kind.link == link)
    return declare(kind, planted(kind, 1500), k)


MODELS = {
    "gaussian": lambda k: MixReg(*planes(3000, 6, 2, 0.8), k=k),
    "other rows": lambda k: MixReg(*planes(3000, 6, 2, 0.8, 1), k=k),
    "at the bound": lambda k: MixReg(*planes(3000, 6, 2, 0.8), k=k, variance_ratio=0.9),
    "equal": lambda k: MixReg(*planes(3000, 6, 2, 0.8), k=k, equal_variance=True),
    "noise": lambda k: MixReg(*planes(3000, 6, 2, 0.8), k=k, noise=True),
    "poisson": lambda k: counts("log", k),
    "binomial": lambda k: counts("logit", k),
    "groups": lambda k: MixReg.from_formula("y ~ x", shops(300), k=k, groups="shop"),
}


def starts_of(model: MixReg, runs: int, seed: int = 1):
    """Rows in standard coordinates that count passes, the mixture, and random starts."""
    problem = model.problem()
    white, mixture = problem.whitening, problem.mixture
    source = problem.source.standard(white)
    coef = random_directions(problem.k, runs, white, None, np.random.default_rng(seed))
    spread = 0.5 * white.variance if white.linear is None else white.dispersion
    starts = mixture.prepare(Parameters.uniform(coef, spread))
    starts = feasible(source, mixture, starts, white.pooled)
    return Counted(source), mixture, [starts.run(i) for i in range(runs)]


@pytest.mark.parametrize("more", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_starts_with_components_to_spare_converge_in_some_dozens_of_passes(name, more):
    source, mixture, starts = starts_of(MODELS[name](2 + more), 12)
    passes = []
    for start in starts:
        source.passes = 0
        fit = run_em(source, mixture, start, CONTROL)
        passes.append(source.passes)
        assert fit.reason == "converged"
        assert (np.diff(fit.history) >= -1e-9 * (1 + abs(fit.objective))).all()
        # EM finds nothing more from there, however long it goes on.
        on = iterate(source, EM(mixture), fit.params.stacked(), Control(300, 0.0, leaps=True))[0]
        assert on.objective < fit.objective + 1e-3
    assert np.median(passes) <= 60
    assert max(passes) <= 200


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.link != "sqrt"], ids=str)
def test_every_family_gets_off_flat_ground(kind):
    source, mixture, starts = starts_of(declare(kind, planted(kind, 800), 4), 10)
    passes = []
    for start in starts:
        source.passes = 0
        fit = run_em(source, mixture, start, CONTROL)
        passes.append(source.passes)
        assert fit.reason == "converged"
        assert (np.diff(fit.history) >= -1e-9 * (1 + abs(fit.objective))).all()
    assert np.median(passes) <= 60
    assert max(passes) <= 200


@pytest.mark.parametrize("k", [4, 5])
def test_twenty_thousand_rows_with_components_to_spare(k):
    source, mixture, starts = starts_of(MixReg(*planes(20_000, 8, 3, 1.0), k=k), 3)
    fits = [run_em(source, mixture, start, CONTROL) for start in starts]
    assert {fit.reason for fit in fits} == {"converged"}
    assert np.median([fit.n_iter for fit in fits]) <= 60
    assert source.passes <= 3 * 100


@pytest.mark.parametrize("name", ["gaussian", "noise", "poisson", "binomial", "groups"])
def test_ends_are_maxima(name):
    source, mixture, starts = starts_of(MODELS[name](4), 5)
    inside = 0
    for start in starts:
        end = run_em(source, mixture, start, CONTROL).params
        layout = standard_layout(mixture, end)
        at, found = layout.pack(end), source.sweep(TakeInformation(mixture), end)
        found = found.contract(layout)

        def height(vector, layout=layout):
            there = layout.unpack(vector)
            return source.sweep(TakeInformation(mixture), there).objective[0]

        if mixture.family.bound_binds(end):
            # There the likelihood rises towards smaller variances.
            continue
        inside += 1
        size = np.sqrt(np.maximum(np.diag(found.information), 1e-6))
        for i, step in enumerate(np.diag(1e-3 / size)):
            slope = (height(at + step) - height(at - step)) / (2e-3 / size[i])
            # In standard errors: a thousandth of one is left to go, at most.
            assert abs(slope) < 1e-2 * size[i]
        scaled = found.information / size / size[:, None]
        assert np.linalg.eigvalsh(scaled)[0] > -1e-5
    assert inside


def test_steps_stay_at_the_bound_and_leave_it_where_they_should():
    source, mixture, starts = starts_of(MODELS["at the bound"](4), 6)
    at_bound = 0
    for start in starts:
        fit = newton_steps(source, mixture, start, CONTROL)
        spread = fit.params.dispersion
        assert spread.min() >= 0.9 * spread.max() * (1 - 1e-6)
        assert (np.diff(fit.history) >= -1e-9 * (1 + abs(fit.objective))).all()
        if fit.reason == "converged":
            at_bound += mixture.family.bound_binds(fit.params)
            on = iterate(source, EM(mixture), fit.params.stacked(), Control(300, 0.0))[0]
            assert on.objective < fit.objective + 1e-3
    assert at_bound
    # A start at the bound where all variances are one.
    bound = replace(starts[0], dispersion=np.array([0.9, 0.9, 1.0, 1.0]))
    assert mixture.family.bound_binds(bound)
    fit = run_em(source, mixture, bound, CONTROL)
    assert fit.reason == "converged"


def test_twin_components_are_a_ridge_on_which_a_run_ends():
    source, mixture, starts = starts_of(MODELS["gaussian"](2), 1)
    top = run_em(source, mixture, starts[0], CONTROL)
    twins = top.params.doubled(0, 1, 0.0)
    fit = newton_steps(source, mixture, twins, CONTROL)
    assert fit.reason == "converged"
    assert fit.objective >= top.objective - 1e-6


def test_an_empty_component_does_not_hold_up_a_run():
    source, mixture, starts = starts_of(MODELS["gaussian"](2), 1)
    top = run_em(source, mixture, starts[0], CONTROL)
    weights = np.append(top.params.weights * (1 - 1e-14), 1e-14)
    wide = Parameters(
        np.vstack([top.params.coef, [top.params.coef[0] + 30]]),
        np.append(top.params.dispersion, top.params.dispersion.max()),
        log_gating(weights),
    )
    fit = newton_steps(source, mixture, wide, CONTROL)
    assert fit.reason == "converged"
    assert fit.objective >= top.objective - 1e-6


def test_a_user_who_sets_max_iter_is_heard():
    source, mixture, starts = starts_of(MODELS["gaussian"](4), 2)
    for most in (5, 30, 40):
        fit = run_em(source, mixture, starts[0], replace(CONTROL, max_iter=most))
        assert fit.reason == "max_iter"
        assert fit.n_iter == most


# The step itself


def gain(matrix, score, step):
    return step @ score - step @ matrix @ step / 2


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("radius", [1e-3, 0.3, 1.0, 30.0])
def test_no_step_within_the_radius_gains_more(seed, radius):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((4, 4))
    # Curvatures of both signs, of one, and with a flat direction.
    matrix = [a + a.T, a @ a.T, a[:, :3] @ a[:, :3].T, -a @ a.T][seed % 4]
    score = rng.standard_normal(4)
    step = trust_step(*np.linalg.eigh(matrix), score, radius)
    assert np.linalg.norm(step) <= radius * (1 + 1e-9)
    others = rng.standard_normal((4000, 4))
    others *= (
        radius * rng.uniform(0, 1, (4000, 1)) ** 0.25 / np.linalg.norm(others, axis=1)[:, None]
    )
    best = max(gain(matrix, score, other) for other in others)
    assert gain(matrix, score, step) >= best
    # The conditions of Moré and Sorensen.
    slope = score - matrix @ step
    shift = float(slope @ step) / float(step @ step)
    assert_allclose(slope, shift * step, atol=1e-6 * np.abs(score).max())
    assert np.linalg.eigvalsh(matrix)[0] + shift >= -1e-7
    assert shift >= -1e-7


@pytest.mark.parametrize("along", [0.0, 1e-200, 1e-18])
def test_a_saddle_is_left_along_its_ascent(along):
    values, vectors = np.array([-1.0, 2.0, 3.0]), np.eye(3)
    step = trust_step(values, vectors, np.array([along, 0.5, 0.0]), 2.0)
    assert_allclose(np.linalg.norm(step), 2.0)
    assert_allclose(step[1], 0.5 / 3, rtol=1e-6)
    assert abs(step[0]) > 1.9


def test_no_score_and_no_curvature_mean_no_step():
    step = trust_step(np.array([0.0, 1.0]), np.eye(2), np.zeros(2), 1.0)
    assert_allclose(step, 0.0)


def test_flat_directions_get_no_wild_steps():
    values = np.array([-1e-17, 1e-17, 1.0])
    step = trust_step(values, np.eye(3), np.array([0.0, 0.0, 0.1]), 1.0)
    assert_allclose(step, [0, 0, 0.1], atol=1e-9)


def test_a_run_whose_steps_all_fall_ends(monkeypatch):
    # EM's first step gains much, and then none does: no step is accepted any more.
    model = MixReg.from_formula("y ~ x1 + x2", lines(60), k=2)
    problem, calls = model.problem(), []
    start = problem.mixture.prepare(problem.whitening.start(2))

    def stuck(source, estimator, params, control, progress=None):
        calls.append(control.max_iter)
        if len(calls) > 5:
            raise AssertionError("the run goes on for ever")
        history = np.array([-1e6, -10.0]) if len(calls) == 1 else np.array([-10.0])
        return [Run(params.run(0), -10.0, history, "max_iter", len(history) - 1)]

    monkeypatch.setattr(runs, "iterate", stuck)
    source = problem.source.standard(problem.whitening)
    fit = runs._until_it_crawls(source, EM(problem.mixture), start, Control(3), None, 60.0)
    assert fit.n_iter == 1
