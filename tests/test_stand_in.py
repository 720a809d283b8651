"""Quadratics that stand in for the log-likelihood of groups, and the search on them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from mixreg import MixReg
from mixreg.families.statistics import unfold_triangle
from mixreg.jobs.ladder import make_ladder
from mixreg.mixture.parameters import Parameters
from mixreg.search.stand_in import Quadratic, can_stand_in, stand_in
from mixreg.search.views import apart
from mixreg.sources.block import column_pairs

COEF = np.array([[0.8, 1.0, -0.7], [-0.8, -0.6, 0.9]])
FAMILIES = ["binomial", "poisson", "negativebinomial", "gamma", "choice"]


def panel(family, seed=0, groups=60, each=12, width=4):
    """Groups of two kinds; with choices, each row is an alternative of a set of `width`."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(each // 2, each + 1, groups) * (width if family == "choice" else 1)
    ids = np.repeat(np.arange(groups), sizes)
    n = len(ids)
    labels = rng.integers(0, 2, groups)
    x = rng.standard_normal((n, 2))
    eta = np.column_stack([np.ones(n), x]) @ COEF.T
    eta = 0.7 * eta[np.arange(n), labels[ids]]
    if family == "binomial":
        y = rng.random(n) < 1 / (1 + np.exp(-eta))
    elif family == "poisson":
        y = rng.poisson(np.exp(eta))
    elif family == "negativebinomial":
        y = rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, n))
    elif family == "gamma":
        y = np.exp(eta) * rng.gamma(3.0, 1 / 3, n)
    else:
        noisy = (eta + rng.gumbel(size=n)).reshape(-1, width)
        y = (noisy == noisy.max(axis=1, keepdims=True)).ravel()
    sets = np.repeat(np.arange(n // width), width) if family == "choice" else 0
    table = pd.DataFrame({"id": ids, "set": sets, "y": y * 1.0, "a": x[:, 0], "b": x[:, 1]})
    return table, labels


def model_of(family, table, k=2, **options):
    if family == "choice":
        options |= {"choice_set": "set"}
    elif family == "gamma":
        options |= {"link": "log"}
    formula = "y ~ 0 + a + b" if family == "choice" else "y ~ a + b"
    return MixReg.from_formula(formula, table, k=k, family=family, groups="id", **options)


def course_of(model, seed=0):
    rng = np.random.default_rng(seed)
    ladder = make_ladder(model.problem(), model.source, rng)
    return ladder.make(ladder.rows, rng)


def unit_log_densities(course, points):
    """Log-likelihood of each unit at coefficients of its own, by the family itself."""
    family, block = course.mixture.family, course.sample.as_block()
    spread = float(np.mean(course.whitening.dispersion))
    densities = []
    for point in points:
        params = Parameters.uniform(point[None], spread)
        densities.append(family.unit_density(block, params, family.evaluate(block, params))[0])
    return np.array(densities).diagonal() if len(points) == block.units else np.array(densities)


@pytest.mark.parametrize("family", FAMILIES)
def test_expansions_are_the_derivatives_of_each_unit(family):
    course = course_of(model_of(family, panel(family)[0]))
    mixture, block = course.mixture, course.sample.as_block()
    p, spread = block.x.shape[1], float(np.mean(course.whitening.dispersion))
    rng = np.random.default_rng(3)
    points = course.whitening.pooled + 0.3 * rng.standard_normal((block.units, p))
    eta = np.einsum("np,np->n", block.x, block.row_units(points))
    info, score = mixture.family.unit_expansion(block, eta, np.full(1, spread))
    step = 1e-5
    for i in range(p):
        move = step * np.eye(p)[i]
        up, down = (unit_log_densities(course, points + s * move) for s in (1, -1))
        assert_allclose(score[:, i], (up - down) / (2 * step), rtol=1e-5, atol=1e-5)
    if family in ("binomial", "poisson", "choice"):
        # Canonical links: expected and observed information are one.
        info = unfold_triangle(info, p)
        for i in range(p):
            move = 1e-5 * np.eye(p)[i]
            slopes = [
                mixture.family.unit_expansion(
                    block,
                    np.einsum("np,np->n", block.x, block.row_units(points + s * move)),
                    np.full(1, spread),
                )[1]
                for s in (1, -1)
            ]
            assert_allclose(info[:, i], (slopes[1] - slopes[0]) / 2e-5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["binomial", "poisson", "choice"])
def test_near_the_point_a_quadratic_is_the_log_likelihood(family):
    course = course_of(model_of(family, panel(family)[0]))
    view = stand_in(course, course.whitening.pooled, 1e9)
    # So firm that every unit is expanded around the pooled fit.
    near = course.whitening.pooled + np.array([[0.0], [1e-3], [-2e-3]])
    truth = unit_log_densities(course, near)
    params = Parameters.uniform(near[:, None], 1.0)
    state = view.mixture.family.evaluate(view.block, params)
    found = view.mixture.family.unit_density(view.block, params, state)[:, 0]
    assert_allclose(found - found[0], truth - truth[0], atol=2e-6)
    assert np.abs(truth - truth[0]).max() > 1e-3


def test_the_looser_the_nearer_to_each_units_own_fit():
    course = course_of(model_of("poisson", panel("poisson")[0]))
    reached = []
    for firmness in (100.0, 1.0, 0.01):
        view = stand_in(course, course.whitening.pooled, firmness)
        full = unfold_triangle(view.block.gram, view.block.p + 1)
        own = np.linalg.solve(full[:, :-1, :-1], full[:, :-1, -1][..., None])[..., 0]
        gap = unit_log_densities(course, own) - unit_log_densities(
            course, np.broadcast_to(course.whitening.pooled, own.shape)
        )
        reached.append(gap.sum())
    assert reached[0] < reached[1] < reached[2]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_search_on_stand_ins_reaches_em_from_the_truth(family, seed):
    table, labels = panel(family, seed=seed)
    model = model_of(family, table)
    found = model.fit(seed=seed, cov_type="none")
    truth = model.fit(init=labels + 1, cov_type="none")
    assert found.llf > truth.llf - 1e-3
    assert found.diagnostics.search.starts >= 24


@pytest.mark.parametrize(
    "options",
    [
        {"concomitant": "~ z"},
        {"shared": ["a"]},
        {"only": {"a": [1]}},
        {"known_labels": "known"},
        {"weights": "w"},
        {"offset": "o"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_every_option_has_stand_ins(options):
    table, labels = panel("poisson", groups=80)
    rng = np.random.default_rng(5)
    each = {"z": rng.standard_normal(80), "w": rng.integers(1, 3, 80) * 1.0}
    known = np.where(rng.random(80) < 0.1, labels + 1.0, np.nan)
    table = table.assign(
        z=each["z"][table.id], w=each["w"][table.id], known=known[table.id], o=0.1 * table.b
    )
    model = model_of("poisson", table, **options)
    assert can_stand_in(model.source, model.problem().mixture)
    found = model.fit(cov_type="none")
    starts = [
        model.fit(init=np.random.default_rng(s).integers(1, 3, 80), cov_type="none").llf
        for s in range(5)
    ]
    assert found.llf > max(starts) - 1e-3


def test_only_groups_of_other_families_have_stand_ins():
    table, _ = panel("poisson")
    rows = MixReg.from_formula("y ~ a + b", table, k=2, family="poisson")
    linear = MixReg.from_formula("y ~ a + b", table, k=2, groups="id")
    noisy = model_of("poisson", table, noise=True)
    identity = model_of("poisson", table.assign(y=table.y + 5), link="identity")
    several = MixReg.from_formula(
        ["y ~ a", "b ~ a"], table, k=2, family=["poisson", "gaussian"], groups="id"
    )
    for model in (rows, linear, noisy, identity, several):
        assert not can_stand_in(model.source, model.problem().mixture)
    assert can_stand_in(*(lambda m: (m.source, m.problem().mixture))(model_of("poisson", table)))


def test_the_family_of_stand_ins_has_variance_one():
    family = Quadratic()
    assert_allclose(family.variances(np.array([[4.0], [9.0]]), np.ones((2, 1))), 1.0)
    assert_allclose(family.allowed(np.array([[4.0], [9.0]])), 1.0)
    assert family.common() is family


def test_candidates_that_lie_close_are_one_pile():
    base = np.array([[1.0, 0.0], [-1.0, 0.0]])
    points = [Parameters.uniform(base + shift, 1.0) for shift in (0.0, 0.01, 3.0, 3.02, 9.0, 0.015)]
    piles = apart(points, np.array([1, 0, 2, 3, 4, 5]), 0.25)
    assert piles == [[1, 0, 5], [2, 3], [4]]
    assert apart(points[:1], np.array([0]), 0.25) == [[0]]


def test_products_of_regressors_that_are_kept_change_nothing():
    course = course_of(model_of("choice", panel("choice")[0]))
    block = course.sample.as_block()
    kept = replace(block, pairs=column_pairs(block.x))
    eta = block.x @ course.whitening.pooled
    for one, other in zip(
        course.mixture.family.unit_expansion(block, eta, np.ones(1)),
        course.mixture.family.unit_expansion(kept, eta, np.ones(1)),
        strict=True,
    ):
        assert_allclose(one, other, rtol=1e-13)


def test_n_init_scales_the_rounds_on_stand_ins():
    model = model_of("binomial", panel("binomial")[0], k=2)
    few, many = (model.fit(n_init=n, cov_type="none").diagnostics.search for n in (2, 16))
    assert few.starts < many.starts
    assert few.moves < many.moves
    assert 0 < many.chance < 1


def test_numbers_that_leave_the_range_are_searched_on_rows():
    table, _ = panel("poisson")
    course = course_of(model_of("poisson", table))
    wild = course.whitening.pooled + 80.0
    assert stand_in(course, wild, 1.0) is None
    assert stand_in(course, course.whitening.pooled, 1.0) is not None


def test_short_groups_of_many_regressors_are_searched_on_rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 30))
    pairs = MixReg(
        rng.poisson(1.0, 2000), x, k=2, family="poisson", groups=np.repeat(np.arange(1000), 2)
    )
    long = MixReg(
        rng.poisson(1.0, 2000), x, k=2, family="poisson", groups=np.repeat(np.arange(20), 100)
    )
    assert not can_stand_in(pairs.source, pairs.problem().mixture)
    assert can_stand_in(long.source, long.problem().mixture)
