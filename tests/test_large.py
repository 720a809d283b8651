"""Large data: a sample is searched, and a few passes over all rows lead to their maximum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.scale import counted
from mixreg import MixReg
from mixreg.estimators import EM, Control, Newton, iterate, runs
from mixreg.estimators.runs import polished, run_em, standard_layout
from mixreg.search import effort
from mixreg.simulate import mixture_of_regressions
from mixreg.sources import memory, one_block

ROWS, SEEN = 6_000, 2_000


@pytest.fixture
def large(monkeypatch):
    """A few thousand rows count as many."""
    monkeypatch.setattr(runs, "MANY_ROWS", 500)
    monkeypatch.setattr(effort, "SEARCHED_ROWS", (SEEN, SEEN))


def draw(noise=0.6, groups=None, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, 4))
    x[:, 0] = 1.0
    coef = np.array([[1.0, 2.0, 0.0, 0.5], [-1.0, 0.0, 1.5, 0.5], [0.0, -2.0, -1.0, 0.5]])
    data = mixture_of_regressions(x, coef, (0.5, 0.3, 0.2), noise, seed=seed, groups=groups)
    return data.y, x


COUNTS = {"family": "poisson"}
OPTIONS = {
    "plain": {},
    "equal": {"equal_variance": True},
    "noise": {"noise": True},
    "weights": {"weights": np.resize([1.0, 2.0, 0.5], ROWS)},
    "groups": {"groups": np.repeat(np.arange(ROWS // 3), 3)},
    "poisson": COUNTS,
}


def declared(option):
    options = OPTIONS[option]
    y, x = draw(groups=options.get("groups"))
    if options is COUNTS:
        y = np.random.default_rng(1).poisson(np.exp(0.5 * y)).astype(float)
    if "noise" in options:
        y = np.where(np.arange(ROWS) % 10 == 0, np.linspace(-20, 20, ROWS), y)
    return MixReg(y, x, k=3, **options)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_few_passes_lead_to_the_maximum_of_all_rows(option, large):
    model = declared(option)
    with counted(type(model.source), ROWS) as passes:
        res = model.fit()
    assert len(passes) <= 12
    assert res.converged
    assert np.all(np.diff(res.history) > -1e-9 * abs(res.llf))
    assert res.model.loglike(res.params) == pytest.approx(res.llf, rel=1e-12)
    # A Newton step from there gains nothing.
    score, hessian = res.model.score(res.params), res.model.hessian(res.params)
    assert abs(score @ np.linalg.solve(hessian, score)) < 1e-10


def test_ten_passes_do_where_lines_are_apart(large):
    y, x = draw(noise=0.2)
    with counted(memory.MemorySource, ROWS) as passes:
        MixReg(y, x, k=3).fit()
    assert len(passes) <= 10, passes


@pytest.mark.parametrize("option", ["plain", "weights", "groups"])
def test_blocks_change_no_number(option, large, monkeypatch):
    found = []
    for rows in (64, None, 10**9):
        if rows is not None:
            for module in (memory, one_block):
                monkeypatch.setattr(module, "block_rows", lambda p, rows=rows: rows)
        found.append(declared(option).fit())
        monkeypatch.undo()
        monkeypatch.setattr(runs, "MANY_ROWS", 500)
        monkeypatch.setattr(effort, "SEARCHED_ROWS", (SEEN, SEEN))
    for other in found[1:]:
        assert_allclose(other.params, found[0].params, rtol=1e-9, atol=1e-9)
        assert_allclose(other.bse, found[0].bse, rtol=1e-8)
        assert_array_equal(other.labels, found[0].labels)


def test_a_polished_start_ends_where_a_plain_one_does(large):
    problem = MixReg(*draw(), k=3).problem()
    source, mixture = problem.source.standard(problem.whitening), problem.mixture
    sample = source.sample(SEEN, 1)
    fit = MixReg(*draw(), k=3).fit()
    start = problem.whitening.from_user(fit.model.layout.unpack(np.asarray(fit.params) + 0.02))
    near = polished(sample, source, mixture, start, Control())
    assert run_em(source, mixture, near, Control(near=True)).n_iter <= 8
    layout = standard_layout(mixture, start)
    newton = Newton(mixture, layout, source.row_weight)
    plain = iterate(source, EM(mixture), start.stacked(), Control(500, 1e-8))[0]
    plain = iterate(source, newton, plain.params.stacked(), Control())[0]
    ends = [run_em(source, mixture, at, Control(near=True)) for at in (near, start)]
    for end in ends:
        assert end.reason == "converged"
        assert_allclose(layout.pack(end.params), layout.pack(plain.params), atol=1e-7)
