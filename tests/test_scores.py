"""Scores from the sums of a pass, and information of rows, against other ways to them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from mixreg import MixReg
from mixreg.estimators.expectation import Posterior, SoftAssignment
from mixreg.estimators.runs import standard_layout
from mixreg.inference.information import TakeInformation
from mixreg.mixture.gate import LogitGate
from mixreg.sources.memory import BlockSource, condensed
from mixreg.sources.one_block import STACK_VALUES
from tests.samples import lines, random_mixture, random_source
from tests.test_families import KINDS, OPTIONS, declare, near_truth, planted, slopes, with_options


def check_score(model: MixReg, at: np.ndarray) -> None:
    """The score of a pass over rows is the slope of the log-likelihood, user's units.

    The model's own is that of the pass for the information, too.
    """
    mixture, params = model.mixture, model.layout.unpack(at)
    sums = model.source.sweep(SoftAssignment(mixture), params.stacked())
    score = mixture.score(sums.family, sums.count, sums.gate, params)
    expected = slopes(model.loglike, at)
    found = score @ model.layout.contraction()
    assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    full = model.source.sweep(TakeInformation(mixture), params).contract(model.layout).score
    assert_allclose(model.score(at), full, rtol=1e-10, atol=1e-10 * np.abs(full).max())


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_score_of_a_pass_is_the_slope_of_the_log_likelihood(kind, option):
    model = with_options(kind, planted(kind, 80), option)
    check_score(model, near_truth(model, kind))


def test_the_score_where_a_component_lacks_a_term():
    data = lines(120)
    model = MixReg.from_formula("y ~ x1 + x2", data, k=2, only={"x2": [2]}, weights=data["x2"] ** 2)
    check_score(model, np.linspace(-0.5, 0.7, len(model.param_names)))


@pytest.mark.parametrize("options", [{"noise": True}, {"known_labels": "given"}], ids=str)
def test_the_score_beside_a_background_and_known_labels(options):
    data = lines(120).assign(given=np.where(np.arange(120) % 7 == 0, 1.0, np.nan))
    model = MixReg.from_formula("y ~ x1 + x2", data, k=2, **options)
    check_score(model, np.linspace(-0.5, 0.7, len(model.param_names)))


def test_the_score_leaves_the_information_alone(monkeypatch):
    model = MixReg.from_formula("y ~ x1 + x2", lines(120), k=2)
    monkeypatch.delattr(TakeInformation, "__call__")
    assert np.isfinite(model.score(np.linspace(-0.5, 0.7, len(model.param_names)))).all()


def test_the_score_of_choices():
    rng = np.random.default_rng(0)
    offered = np.repeat(np.arange(80), 3)
    data = pd.DataFrame({"x": rng.normal(size=240), "v": rng.normal(size=240), "set": offered})
    data["y"] = (rng.permuted(np.resize([1, 0, 0], (80, 3)), axis=1)).ravel()
    model = MixReg.from_formula(
        "y ~ x + v", data, k=2, family="choice", choice_set="set", groups=offered // 4
    )
    check_score(model, np.linspace(-0.5, 0.7, len(model.param_names)))


def test_the_score_of_several_responses():
    data = planted(KINDS[0], 100)
    data["b"] = np.random.default_rng(1).normal(data["x"])
    data["w"] = np.exp(data["b"] / 3)
    model = MixReg.from_formula(
        ["y ~ x", "b ~ v", "w ~ x"],
        data,
        k=2,
        family=["poisson", "gaussian", "gamma"],
        link=["log", "identity", "log"],
    )
    check_score(model, np.linspace(-0.5, 0.7, len(model.param_names)))


# Information of rows


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("option", [o for o in OPTIONS if o != "groups"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_are_groups_of_one(kind, option, hard):
    model = with_options(kind, planted(kind, 80), option)
    problem = model.problem()
    params = model.layout.unpack(near_truth(model, kind))
    alone = replace(problem.source, starts=np.arange(80))
    assert problem.source.starts is None
    task, cluster = TakeInformation(problem.mixture, True, hard), np.arange(80) // 7
    rows, groups = (
        rows.with_columns(cov_group=cluster).sweep(task, params) for rows in (problem.source, alone)
    )
    for name in ("objective", "score", "information", "outer"):
        found, expected = getattr(rows, name), getattr(groups, name)
        assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
    assert_allclose(rows.clusters.each(), groups.clusters.each(), rtol=1e-10, atol=1e-9)


# Blocks in parts


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("form", ["rows", "products", "condensed"])
def test_a_block_is_the_sum_of_its_parts(form, grouped):
    source = random_source(900, 3, grouped=grouped, weighted=True)
    known = np.where(np.arange(source.units) % 9 == 0, np.arange(source.units) % 3, -1)
    z = np.column_stack([np.ones(source.units), np.random.default_rng(0).normal(size=source.units)])
    source = replace(source, known=known, z=z)
    served = condensed(source, linear=form == "condensed")
    block = source.as_block() if form == "rows" else served.block
    model = MixReg(source.y, source.x, k=3)
    mixture = replace(model.problem().mixture, gate=LogitGate(2))
    params = mixture.prepare(random_mixture(3, 3, runs=2))
    params = replace(params, gating=np.random.default_rng(1).normal(size=params.gating.shape))
    whole = SoftAssignment(mixture)(block, params)
    units, edges = block.units, [0, 1, block.units // 3, block.units]
    parts = [block.cut(a, b) for a, b in pairwise(edges)]
    assert [part.units for part in parts] == np.diff(edges).tolist()
    assert [part.first for part in parts] == edges[:-1]
    assert sum(part.rows for part in parts) == block.rows
    sums = [SoftAssignment(mixture)(part, params) for part in parts]
    added = sums[0] + sums[1] + sums[2]
    assert_allclose(added.objective, whole.objective, rtol=1e-11)
    assert_allclose(added.count, whole.count, rtol=1e-11)
    for name in ("size", "xx", "xe", "ee"):
        expected = getattr(whole.family, name)
        atol = 1e-11 * np.abs(expected).max()
        assert_allclose(getattr(added.family, name), expected, rtol=1e-10, atol=atol)
    assert_allclose(added.gate.score, whole.gate.score, rtol=1e-10, atol=1e-9)
    posterior = [Posterior(mixture)(part, params).join() for part in parts]
    assert_allclose(np.concatenate(posterior, -1), Posterior(mixture)(block, params).join())
    assert units == source.units


@pytest.mark.parametrize("grouped", [False, True])
def test_a_block_served_in_parts_is_one_block(grouped):
    source = random_source(9000, 3, grouped=grouped, weighted=True)
    mixture = MixReg(source.y, source.x, k=3).problem().mixture
    params = random_mixture(3, 3, runs=STACK_VALUES // 1000)
    for served in (condensed(source, linear=False), BlockSource(source.as_block())):
        seen = []

        class Count(SoftAssignment):
            def __call__(self, block, params, seen=seen):
                seen.append((block.first, block.units))
                return SoftAssignment.__call__(self, block, params)

        found = served.sweep(Count(mixture), params)
        seen.sort()
        assert len(seen) > 2
        assert sum(units for _, units in seen) == source.units
        assert [first for first, _ in seen] == np.cumsum([0, *[u for _, u in seen]])[:-1].tolist()
        expected = SoftAssignment(mixture)(served.block, params)
        assert_allclose(found.objective, expected.objective, rtol=1e-11)
        assert_allclose(found.family.xx, expected.family.xx, rtol=1e-9, atol=1e-8)


def test_the_layout_of_a_pass_is_that_of_standard_coordinates():
    model = declare(KINDS[0], planted(KINDS[0], 80), 2)
    mixture = model.problem().mixture
    assert standard_layout(mixture, random_mixture(2, 2)).size == model.layout.size
