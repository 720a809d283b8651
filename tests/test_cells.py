"""Rows that lie close together, looked at as one."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixreg import MixReg
from mixreg.estimators.expectation import SoftAssignment
from mixreg.jobs.ladder import make_ladder
from mixreg.mixture.parameters import Parameters
from mixreg.search import cells
from mixreg.search.cells import can_be_cut, cells_of, cut, faithful


def lines(n=20_000, seed=0, weights=False):
    """Overlapping lines of one regressor and a rare category."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.standard_normal(n), rng.random(n) < 0.1])
    coef = np.array([[0.0, 1.0, 0.5], [0.6, 0.4, -0.5], [-0.5, 0.1, 0.0]])
    labels = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    sigma = np.array([0.4, 0.6, 0.3])
    y = (x * coef[labels]).sum(axis=1) + sigma[labels] * rng.standard_normal(n)
    more = {"weights": rng.integers(1, 4, n) * 1.0} if weights else {}
    return MixReg(y, x, k=3, **more), labels


def course_of(model):
    rng = np.random.default_rng(0)
    ladder = make_ladder(model.problem(), model.source, rng)
    return ladder.make(ladder.rows, rng)


def test_every_row_is_in_one_cell_and_cells_are_of_one_size():
    points = np.random.default_rng(0).standard_normal((1000, 3))
    order, starts = cut(points, 64)
    assert_array_equal(np.sort(order), np.arange(1000))
    sizes = np.diff(starts, append=1000)
    assert len(starts) == 64
    assert sizes.min() >= 15
    assert sizes.max() <= 16
    # Rows of a cell lie closer together than rows do.
    labels = np.repeat(np.arange(64), sizes)
    within = [points[order][labels == i].var(axis=0).sum() for i in range(64)]
    assert np.mean(within) < 0.2 * points.var(axis=0).sum()


@pytest.mark.parametrize("weights", [False, True])
def test_cells_bound_the_log_likelihood_from_below(weights, monkeypatch):
    course = course_of(lines(weights=weights)[0])
    rng = np.random.default_rng(1)
    params = Parameters.uniform(0.5 * rng.standard_normal((3, 4, 3)), 0.3)
    task = SoftAssignment(course.mixture)
    rows = course.source.sweep(task, params)
    gaps = []
    for count in (256, 1024, 4096):
        monkeypatch.setattr(cells, "CELLS", count)
        view = cells_of(course, None, np.random.default_rng(0))
        sums = view.source.sweep(task, params)
        assert_allclose(sums.family.size.sum(axis=0), rows.family.size.sum(axis=0), rtol=1e-10)
        gaps.append(rows.objective - sums.objective)
    assert (np.array(gaps) > 0).all()
    assert (np.diff(gaps, axis=0) < 0).all()
    # Fine cells come close: a small part of what the components explain.
    assert (gaps[-1] < 0.02 * course.rows).all()


def test_cells_of_one_row_are_the_rows(monkeypatch):
    model, _ = lines(n=1024)
    course = course_of(model)
    monkeypatch.setattr(cells, "CELLS", 1024)
    view = cells_of(course, None, np.random.default_rng(0))
    params = Parameters.uniform(np.random.default_rng(1).standard_normal((3, 2, 3)), 0.3)
    task = SoftAssignment(course.mixture)
    one, other = view.source.sweep(task, params), course.source.sweep(task, params)
    assert_allclose(one.objective, other.objective, rtol=1e-10)
    assert_allclose(one.family.xx, other.family.xx, rtol=1e-8, atol=1e-8)


def test_only_many_rows_of_linear_regressions_are_cut():
    model, labels = lines()
    mixture, source = model.problem().mixture, model.source
    assert can_be_cut(source, mixture)
    assert not can_be_cut(source.take_units(np.arange(5000)), mixture)
    assert not can_be_cut(replace(source, known=labels), mixture)
    assert not can_be_cut(replace(source, starts=np.arange(0, 20_000, 2)), mixture)
    assert not can_be_cut(source, replace(mixture, background=1.0))
    counts = MixReg(labels, source.x, k=2, family="poisson")
    assert not can_be_cut(counts.source, counts.problem().mixture)


@pytest.mark.parametrize("weights", [False, True])
def test_the_search_on_cells_reaches_em_from_the_truth(weights):
    model, labels = lines(seed=3, weights=weights)
    found = model.fit(cov_type="none")
    truth = model.fit(init=labels + 1, cov_type="none")
    assert found.llf > truth.llf - 1e-3


def test_cells_of_many_regressors_are_not_faithful():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, 15))
    coef = rng.standard_normal((2, 15))
    labels = rng.integers(0, 2, 20_000)
    y = (x * coef[labels]).sum(axis=1) + 0.5 * rng.standard_normal(20_000)
    for model, kept in ((MixReg(y, x, k=2), False), (lines()[0], True)):
        course = course_of(model)
        best = model.fit(seed=0, cov_type="none").solution.run.params
        view = cells_of(course, None, rng)
        assert faithful(course, view, best) == kept


def test_cells_around_a_fit_lose_less_of_it():
    model, labels = lines(seed=5)
    course = course_of(model)
    best = model.fit(init=labels + 1, cov_type="none").solution.run.params
    task = SoftAssignment(course.mixture)
    rows = course.source.sweep(task, best.stacked()).objective[0]
    seen = [
        cells_of(course, around, np.random.default_rng(0)).source.sweep(task, best.stacked())
        for around in (None, best)
    ]
    lost = [rows - sums.objective[0] for sums in seen]
    assert 0 < lost[1] < lost[0]
