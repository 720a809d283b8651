"""The loop: objectives never fall, runs end for the reason they give."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixreg import MixReg, datasets
from mixreg.estimators import EM, AltMin, Control, Newton, iterate
from mixreg.families import Gaussian
from mixreg.inference import TakeInformation
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.candidates import random_directions
from mixreg.simulate import mixed_linear_equations
from mixreg.sources import MemorySource
from mixreg.sources.memory import condensed
from tests.samples import random_source, standardised


def source_of(name: str) -> MemorySource:
    if name == "tones":
        data = datasets.tonedata()
        x = np.column_stack([np.ones(len(data)), data["stretchratio"]])
        return MemorySource(x, data["tuned"].to_numpy())
    if name == "cheese":
        data = datasets.cheese()
        x = np.column_stack([np.ones(len(data)), data["DISP"], np.log(data["PRICE"])])
        starts = np.flatnonzero(data["RETAILER"] != data["RETAILER"].shift())
        return MemorySource(x, np.log(data["VOLUME"].to_numpy()), None, starts)
    return random_source(300, 3, grouped="grouped" in name, weighted="weighted" in name)


FAMILIES = {
    "free": Gaussian(),
    "equal": Gaussian(equal_dispersion=True),
    "bound": Gaussian(variance_ratio=0.7),
}
DATA = ["rows", "grouped", "weighted", "weighted grouped", "tones", "cheese"]


def starts_for(source: MemorySource, k: int, runs: int, seed: int = 0):
    """A source in standard coordinates and some random starts for it."""
    standard, white = standardised(source)
    coef = random_directions(k, runs, white, None, np.random.default_rng(seed))
    return standard, Parameters.uniform(coef, 0.5 * white.variance)


def passes(source, estimator, params: Parameters, n: int) -> tuple[np.ndarray, Parameters]:
    """Objectives of n steps taken without the loop and its safeguards, (n + 1, runs)."""
    objectives = []
    for iteration in range(n + 1):
        sums = estimator.sweep(source, iteration, params)
        objectives.append(sums.objective)
        if iteration < n:
            params = estimator.update(sums, params)
    return np.array(objectives), params


# EM


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("data", DATA)
def test_every_em_step_raises_the_log_likelihood(data, family):
    source, starts = starts_for(source_of(data), 3, 4)
    objectives, last = passes(source, EM(Mixture(FAMILIES[family])), starts, 40)
    steps, rounding = np.diff(objectives, axis=0), 1e-11 * (1 + np.abs(objectives[1:]))
    assert (steps >= -rounding).all()
    assert (steps[0] > 0).all()
    if family == "bound":
        assert (last.dispersion.min(axis=0) >= 0.7 * last.dispersion.max(axis=0) - 1e-12).all()


def test_the_bound_was_put_to_the_test():
    source, starts = starts_for(source_of("tones"), 3, 4)
    _, last = passes(source, EM(Mixture(FAMILIES["bound"])), starts, 40)
    assert_allclose(last.dispersion.min(axis=0) / last.dispersion.max(axis=0), 0.7, rtol=1e-9)


@pytest.mark.parametrize("data", ["grouped", "weighted grouped", "cheese"])
def test_condensed_groups_take_the_same_steps(data):
    source, starts = starts_for(source_of(data), 3, 2)
    em = EM(Mixture(Gaussian()))
    by_rows, end_rows = passes(source, em, starts, 20)
    short, end_short = passes(condensed(source), em, starts, 20)
    assert_allclose(short, by_rows, rtol=1e-8)
    assert_allclose(end_short.coef, end_rows.coef, atol=1e-6)


def test_em_converges_where_a_step_changes_nothing():
    source, starts = starts_for(source_of("rows"), 2, 3)
    for fit in iterate(source, EM(Mixture(Gaussian())), starts, Control(2000, 1e-12)):
        assert fit.reason == "converged"
        assert fit.converged
        assert fit.n_iter == len(fit.history) - 1
        assert fit.objective == fit.history[-1]
        objectives, after = passes(source, EM(Mixture(Gaussian())), fit.params.stacked(), 1)
        assert objectives[0, 0] == pytest.approx(fit.objective, abs=1e-12 * abs(fit.objective))
        assert_allclose(after.run(0).coef, fit.params.coef, atol=1e-4)


def test_runs_do_not_depend_on_their_neighbours():
    source, starts = starts_for(source_of("rows"), 2, 4)
    control = Control(300, 1e-9)
    together = iterate(source, EM(Mixture(Gaussian())), starts, control)
    assert len({fit.n_iter for fit in together}) > 1
    for run, fit in enumerate(together):
        alone = iterate(source, EM(Mixture(Gaussian())), starts.take([run]), control)[0]
        assert fit.n_iter == alone.n_iter
        assert_allclose(fit.history, alone.history, rtol=1e-10)
        assert_allclose(fit.params.coef, alone.params.coef, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("max_iter", [0, 1, 7])
def test_running_out_of_iterations(max_iter):
    source, starts = starts_for(source_of("rows"), 3, 1)
    fit = iterate(source, EM(Mixture(Gaussian())), starts, Control(max_iter, 0.0))[0]
    assert fit.reason == "max_iter"
    assert not fit.converged
    assert fit.n_iter == max_iter
    assert_allclose(passes(source, EM(Mixture(Gaussian())), starts, max_iter)[0][:, 0], fit.history)


def test_progress_is_told_every_iteration():
    source, starts = starts_for(source_of("rows"), 2, 2)
    told = []
    fits = iterate(
        source,
        EM(Mixture(Gaussian())),
        starts,
        Control(5, 0.0),
        lambda i, value, stack: told.append((i, value, stack)),
    )
    assert [i for i, _, _ in told] == list(range(6))
    assert told[-1][1] == max(fit.objective for fit in fits)
    assert_array_equal(told[-1][2].run(0).coef, fits[0].params.coef)


# AltMin


def own_labels(source: MemorySource, params: Parameters) -> np.ndarray:
    squares = (source.y - params.coef @ source.x.T) ** 2
    if source.starts is not None:
        squares = np.add.reduceat(squares, source.starts, axis=1)
    return squares.argmin(axis=0)


@pytest.mark.parametrize("data", DATA)
def test_altmin_never_raises_the_loss(data):
    source, starts = starts_for(source_of(data), 3, 4)
    objectives, _ = passes(source, AltMin(Mixture(Gaussian())), starts, 25)
    assert (np.diff(objectives, axis=0) >= -1e-10 * (1 + np.abs(objectives[1:]))).all()


@pytest.mark.parametrize("data", DATA)
def test_altmin_stops_when_no_label_changes(data):
    source, starts = starts_for(source_of(data), 3, 3)
    for run, fit in enumerate(iterate(source, AltMin(Mixture(Gaussian())), starts, Control(500))):
        assert fit.reason == "labels"
        labels = own_labels(source, fit.params)
        refit = passes(source, AltMin(Mixture(Gaussian())), fit.params.stacked(), 1)[1].run(0)
        assert_array_equal(own_labels(source, refit), labels)
        used = np.isin(np.arange(3), labels)
        assert_allclose(refit.coef[used], fit.params.coef[used], atol=1e-8)
        # It did not stop too late either: one iteration before, labels still changed.
        assert fit.n_iter > 2
        short = Control(fit.n_iter - 2)
        earlier = iterate(source, AltMin(Mixture(Gaussian())), starts.take([run]), short)[0]
        assert earlier.reason == "max_iter"
        assert not np.array_equal(own_labels(source, earlier.params), labels)


def test_altmin_objective_is_minus_the_squared_error():
    source, starts = starts_for(source_of("rows"), 3, 1)
    params = starts.run(0)
    labels = own_labels(source, params)
    loss = ((source.y - (params.coef[labels] * source.x).sum(axis=1)) ** 2).sum()
    sums = AltMin(Mixture(Gaussian())).sweep(source, 0, starts)
    assert sums.objective[0] == pytest.approx(-loss, rel=1e-12)
    assert Gaussian().mean_square(sums.family)[0] == pytest.approx(loss / source.rows, rel=1e-12)


# Exact fits


def noiseless(seed: int = 3) -> tuple[MemorySource, Parameters]:
    data = mixed_linear_equations(200, 4, 2, seed=seed)
    y = data.y / np.sqrt(np.mean(data.y**2))
    near = data.coefficients / np.sqrt(np.mean(data.y**2)) + 0.05
    return MemorySource(data.X, y), Parameters.uniform(near[:, None], 0.1)


@pytest.mark.parametrize(
    "estimator", [AltMin(Mixture(Gaussian())), EM(Mixture(Gaussian()))], ids=["altmin", "em"]
)
def test_a_perfect_fit_is_exact(estimator):
    source, start = noiseless()
    fit = iterate(source, estimator, start, Control(200))[0]
    assert fit.reason == "exact"
    assert fit.converged
    labels = own_labels(source, fit.params)
    residual = source.y - (fit.params.coef[labels] * source.x).sum(axis=1)
    assert np.mean(residual**2) < 1e-13


def test_fresh_samples_are_used_one_after_the_other():
    source, start = noiseless()
    parts = tuple(source.split(3, 0))
    estimator = AltMin(Mixture(Gaussian()), parts)
    assert not estimator.monotone
    for iteration in range(4):
        sums = estimator.sweep(source, iteration, start)
        assert sums.family.size.sum() == parts[iteration % 3].rows


def test_a_fit_on_fresh_samples_says_so():
    data = mixed_linear_equations(600, 3, 2, noise=0.1, seed=1)
    res = MixReg(data.y, data.X, k=2).fit("altmin", init="tensor", resample=4)
    assert res.solution.run.reason == "resampled"
    assert res.n_iter == 4


# Newton


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("data", ["rows", "weighted grouped", "tones"])
def test_newton_ends_where_the_gradient_vanishes(data, equal):
    family = Gaussian(equal_dispersion=equal)
    source, starts = starts_for(source_of(data), 2, 1, seed=2)
    near = iterate(source, EM(Mixture(family)), starts, Control(500, 1e-6))[0]
    layout = Layout(2, ("",) * source.x.shape[1], equal)
    newton = Newton(Mixture(family), layout, source.row_weight)
    end = iterate(source, newton, near.params.stacked(), Control(50, 1e-14))[0]
    assert end.reason == "converged"
    assert end.objective >= near.objective
    assert (np.diff(end.history) >= -1e-9).all()
    sums = source.sweep(TakeInformation(Mixture(family)), end.params).contract(layout)
    assert np.abs(sums.score).max() < 1e-5
    assert sums.objective[0] == pytest.approx(end.objective, rel=1e-13)


# Safeguards, on an estimator made for the purpose


@dataclass(frozen=True)
class Height:
    """Objective of each run."""

    objective: np.ndarray

    def take(self, runs):
        return Height(self.objective[runs])

    def choose(self, runs, other):
        return Height(np.where(runs, self.objective, other.objective))


class Climber:
    """Takes steps of length 1 on a landscape, and remembers where it was."""

    monotone = True

    def __init__(self, height, enough=np.inf):
        self.height, self.enough, self.visited = height, enough, []

    def sweep(self, source, iteration, params):
        self.visited.append(params.coef[0, :, 0].copy())
        return Height(self.height(params.coef[0, :, 0]))

    def update(self, sums, params):
        return Parameters(params.coef + 1.0, params.dispersion, params.gating)

    def finished(self, sums, before, control):
        return ["converged" if value >= self.enough else None for value in sums.objective]


def at(*places: float) -> Parameters:
    runs = len(places)
    return Parameters(
        np.array(places).reshape(1, runs, 1), np.ones((1, runs)), np.zeros((1, runs, 1))
    )


def test_steps_that_only_fall_are_halved_and_given_up():
    climber = Climber(lambda x: -np.abs(x))
    fit = iterate(None, climber, at(0.0), Control(100))[0]
    assert fit.reason == "decreased"
    assert not fit.converged
    assert_allclose(np.ravel(climber.visited), [0.0, *(0.5**i for i in range(11))])
    assert fit.params.coef[0, 0] == 0.0
    assert_array_equal(fit.history, [0.0])


def test_a_halved_step_that_rises_is_taken():
    climber = Climber(lambda x: -((x - 0.3) ** 2), enough=-0.05)
    fit = iterate(None, climber, at(0.0), Control(100))[0]
    assert fit.reason == "converged"
    assert_allclose(np.ravel(climber.visited), [0.0, 1.0, 0.5])
    assert_allclose(fit.history, [-0.09, -0.04])
    assert fit.params.coef[0, 0] == 0.5


def test_a_run_that_falls_does_not_hold_up_another():
    climber = Climber(lambda x: np.where(x < 5, -np.abs(x), x), enough=14.0)
    falling, rising = iterate(None, climber, at(0.0, 10.0), Control(100))
    assert falling.reason == "decreased"
    assert falling.params.coef[0, 0] == 0.0
    assert rising.reason == "converged"
    assert_array_equal(rising.history, [10.0, 11.0, 12.0, 13.0, 14.0])


def test_an_objective_that_is_not_a_number_counts_as_a_fall():
    climber = Climber(lambda x: np.where(x > 0.4, np.nan, x), enough=0.2)
    fit = iterate(None, climber, at(0.0), Control(100))[0]
    assert fit.reason == "converged"
    assert fit.objective == 0.25
    assert_array_equal(fit.history, [0.0, 0.25])
