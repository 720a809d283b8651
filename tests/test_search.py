"""The search: what it finds, what it reports, and what it leaves alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from mixreg import MixReg
from mixreg.estimators import EM, Control, iterate
from mixreg.estimators.expectation import Posterior
from mixreg.jobs import solve as fitting
from mixreg.jobs.ladder import make_ladder
from mixreg.mixture.parameters import log_gating
from mixreg.search import levels
from mixreg.search.constants import MOVES, ROUND
from mixreg.search.course import race
from mixreg.search.effort import Effort, Ladder, first_rows
from mixreg.search.levels import Search
from mixreg.search.moves import dealt, fix_known, kinds_of_moves, moved
from mixreg.search.record import Maximum, merged
from mixreg.simulate import mixture_of_regressions
from mixreg.sources.threads import one_thread
from tests.samples import lines

DESIGNS = {
    # Components, weights, residual deviations, rows.
    "two lines": ([[1, 2], [-1, -1]], [0.7, 0.3], [0.5, 0.5], 300),
    "three lines": ([[3, 1], [0, -1], [-3, 0.5]], [0.4, 0.4, 0.2], [0.6, 0.4, 0.8], 600),
    "parallel lines": ([[-2, 1], [0, 1], [2, 1]], [0.4, 0.3, 0.3], [0.3, 0.3, 0.3], 500),
    "a small one": ([[1, 1, 0], [-1, 0, 1], [4, -1, -1]], [0.6, 0.35, 0.05], [0.4] * 3, 800),
    "four planes": (
        [[2, 1, 0, 0], [-2, 0, 1, 0], [0, 0, 0, 2], [0, -2, 0, -2]],
        [0.25] * 4,
        [0.4, 0.4, 0.4, 0.4],
        1000,
    ),
    "many rows": ([[1, 1, 0], [-1, 0, 1], [3, -1, -1]], [0.5, 0.3, 0.2], [0.7] * 3, 12_000),
}


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_default_fit_reaches_em_from_the_truth(name, seed):
    coef, weights, noise, n = DESIGNS[name]
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, len(coef[0]) - 1))])
    drawn = mixture_of_regressions(X, np.array(coef, float), weights, noise, seed=rng)
    model = MixReg(drawn.y, X, k=len(coef))
    found, truth = model.fit(cov_type="none"), model.fit(init=drawn.labels, cov_type="none")
    assert found.llf > truth.llf - 0.01


# The same again


def test_the_same_seed_gives_the_same_result_to_the_last_bit():
    data = lines(1000, noise=1.0)
    model = MixReg.from_formula("y ~ x1 + x2", data, k=3)
    first, again = model.fit(seed=5), model.fit(seed=5)
    assert_array_equal(first.params, again.params)
    assert first.llf == again.llf
    assert first.diagnostics.search == again.diagnostics.search


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_threads_do_not_matter():
    model = MixReg.from_formula("y ~ x1 + x2", lines(800, noise=1.0), k=3)
    with threadpool_limits(1, user_api="blas"):
        one = model.fit()
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        two = model.fit()
        assert blas_threads() == before
    assert_array_equal(one.params, two.params)
    assert_array_equal(one.bse, two.bse)
    assert one.diagnostics.search == two.diagnostics.search


def test_a_fit_holds_linear_algebra_to_one_thread(monkeypatch):
    seen = []
    original = fitting.run_em

    def watched(*args, **options):
        seen.append(blas_threads())
        return original(*args, **options)

    monkeypatch.setattr(fitting, "run_em", watched)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        MixReg.from_formula("y ~ x1", lines(100), k=2).fit(n_init=2)
        assert blas_threads() == before
    assert seen
    assert all(threads == {1} for threads in seen)


def raise_inside() -> None:
    with one_thread():
        assert blas_threads() == {1}
        raise ValueError


def test_the_number_of_threads_is_put_back_after_an_error():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(ValueError):  # noqa: PT011
            raise_inside()
        assert blas_threads() == before


# What is reported


def test_one_start_means_one_start_and_no_moves():
    res = MixReg.from_formula("y ~ x1 + x2", lines(300, noise=1.0), k=3).fit(n_init=1)
    search = res.diagnostics.search
    assert (search.starts, search.moves, search.accepted) == (1, 0, 0)
    assert sum(search.hits) >= 1
    assert search.chance == 1.0
    assert Effort(1).starts == 1
    assert Effort(1).patience(4) == 0


@pytest.mark.parametrize("n_init", [2, 16])
def test_starts_and_hits_add_up(n_init):
    res = MixReg.from_formula("y ~ x1 + x2", lines(400, noise=1.5), k=3).fit(n_init=n_init)
    search, record = res.diagnostics.search, res.solution.search
    assert 1 < search.starts <= 6 * n_init
    kinds = [kind for m in record.maxima for kind in m.kinds]
    assert len(kinds) - max(0, kinds.count("tensor") - 1) == search.starts
    assert search.hits == tuple(m.hits for m in record.maxima)
    assert 0 <= search.chance <= 1
    assert search.accepted <= search.moves
    assert search.levels == (400,)
    text = str(res.diagnostics)
    assert f"Search on 400 rows: {search.starts} starts run to the end" in text
    assert text.count(" start") >= 2
    assert f"kept: {search.accepted}." in text


def test_levels_grow_to_all_rows():
    res = MixReg.from_formula("y ~ x1 + x2", lines(40_000, noise=2.0), k=2).fit(cov_type="none")
    levels = res.diagnostics.search.levels
    assert levels[0] == 1000
    assert max(levels) <= 40_000
    assert "1,000" in str(res.diagnostics) or "1000" in str(res.diagnostics)


def test_rows_of_the_first_level():
    assert first_rows(1000, 1000, 1000, 2, 3, True) == 1000  # Half would not be worth it.
    assert first_rows(100_000, 100_000, 100_000, 2, 3, True) == 1000
    assert first_rows(100_000, 100_000, 100_000, 2, 3, False) == 2500
    assert first_rows(100_000, 100_000, 100_000, 5, 20, True) == 1500
    # Groups of ten rows: forty for each component.
    assert first_rows(100_000, 10_000, 100_000, 4, 3, True) == 1600
    # Where all rows cost next to nothing there is no sample.
    assert first_rows(8000, 8000, 8000, 2, 2, True) == 8000


# Moves


def table(n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    z = np.repeat(rng.integers(0, 3, n // 4), 4)
    x, v = rng.standard_normal((2, n))
    y = np.array([3.0, 0.0, -3.0])[z] + np.array([1, -1, 0.5])[z] * x
    known = np.where(np.arange(n) % 12 < 4, z + 1.0, np.nan)
    return pd.DataFrame(
        {
            "y": y + 0.7 * rng.standard_normal(n),
            "x": x,
            "v": v,
            "c": rng.poisson(np.exp(0.5 * z + 0.2 * x)),
            "g": np.repeat(np.arange(n // 4), 4),
            "u": np.repeat(rng.standard_normal(n // 4), 4),
            "known": known,
            "w": np.repeat(rng.integers(1, 4, n // 4), 4),
        }
    )


MODELS = {
    "rows": ("y ~ x + v", {}),
    "groups": ("y ~ x + v", {"groups": "g", "weights": "w"}),
    "known": ("y ~ x + v", {"known_labels": "known"}),
    "known groups": ("y ~ x + v", {"known_labels": "known", "groups": "g"}),
    "shared": ("y ~ x + v", {"shared": ["v"]}),
    "only": ("y ~ x + v", {"only": {"v": [1, 3]}}),
    "noise": ("y ~ x + v", {"noise": True}),
    "known noise": ("y ~ x + v", {"noise": True, "known_labels": "known"}),
    "gate": ("y ~ x + v", {"concomitant": "~ u", "groups": "g"}),
    "counts": ("c ~ x + v", {"family": "poisson", "known_labels": "known"}),
    "joint": (["y ~ x", "c ~ x"], {"family": ["gaussian", "poisson"], "known_labels": "known"}),
    "equal": ("y ~ x + v", {"equal_variance": True}),
}


@pytest.fixture(params=MODELS)
def course(request):
    formula, options = MODELS[request.param]
    data = table()
    problem = MixReg.from_formula(formula, data, k=3, **options).problem()
    rng = np.random.default_rng(0)
    ladder = make_ladder(problem, problem.source, rng)
    return ladder.make(ladder.rows, rng)


def settled(course):
    """Some fit on a course, from a round of starts."""
    hunt = Search(make_ladder_of(course), Effort(2), np.random.default_rng(1))
    hunt.prepare(course)
    new, _ = hunt.round(course)
    return max((m.run for m in new), key=lambda fit: fit.objective)


def make_ladder_of(course):
    return Ladder(lambda rows, rng: course, course.sample.rows, course.sample.rows, 1, 1)


def test_every_move_goes_through(course):
    fit, rng = settled(course), np.random.default_rng(2)
    mixture, source = course.mixture, course.source
    stack = moved(course, fit.params, kinds_of_moves(0, 2 * len(MOVES), 3), rng)
    assert stack.coef.shape == (3, 2 * len(MOVES), fit.params.coef.shape[1])
    assert np.isfinite(stack.coef).all()
    if mixture.shared:
        common = stack.coef[..., -mixture.shared :]
        assert_allclose(common, np.broadcast_to(common[0], common.shape), atol=1e-10)
    for j, i in mixture.absent:
        assert_array_equal(stack.coef[j, :, i], 0.0)
    assert stack.gating.shape[0] == fit.params.gating.shape[0]
    for end in race(course, stack, [fit], warm=10):
        assert np.isfinite(end.objective)
        posterior = source.sweep(Posterior(mixture), end.params).join()
        known = source.block.known
        if known is not None:
            units = np.flatnonzero(known >= 0)
            assert_allclose(posterior[known[units], units], 1.0)


def test_moves_only_raise_what_the_leader_is_worth(course):
    hunt = Search(make_ladder_of(course), Effort(), np.random.default_rng(3))
    hunt.prepare(course)
    new, _ = hunt.round(course)
    maxima = hunt.ranked(course, merged(new, course.rows))
    before, spent = hunt.worth_of(course, maxima), hunt.spent
    found = hunt.explore(course, maxima, 12)
    assert hunt.moves >= 12
    assert 0 <= hunt.accepted <= hunt.moves
    assert hunt.spent > spent
    assert hunt.worth_of(course, found) >= before
    # Moves are no starts: they add arrivals, not hits.
    assert sum(m.hits for m in found) == sum(m.hits for m in maxima)


def test_moves_come_in_the_order_asked_for(course):
    # A shuffle of no swap and a swap differ: the same kinds in another order give the same starts.
    fit = settled(course)
    kinds = ["split", "swap", "shuffle", "swap"]
    stack = moved(course, fit.params, kinds, np.random.default_rng(2))
    alone = moved(course, fit.params, ["swap", "swap"], np.random.default_rng(2))
    assert_allclose(stack.take([1, 3]).coef, alone.coef)


def test_of_two_components_there_is_none_to_split_for_a_merge():
    assert "merge" in kinds_of_moves(0, len(MOVES), 3)
    assert "merge" not in kinds_of_moves(0, len(MOVES), 2)


@pytest.mark.parametrize("kind", ["merge", "split", "shuffle"])
def test_units_are_dealt_to_someone(kind):
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet([1, 1, 1, 1], 50).T
    before = posterior.copy()
    for _ in range(20):
        resp = dealt(posterior, kind, rng)
        assert_allclose(resp.sum(axis=0), 1.0)
        assert (resp >= 0).all()
        assert np.abs(resp - posterior).max() > 0.1
    assert_array_equal(posterior, before)


def test_known_labels_stay_known():
    source = MixReg.from_formula("y ~ x", table(), k=3, known_labels=table()["known"]).source
    block = source.as_block()
    resp = np.full((3, 5, block.units), 1 / 3)
    fixed = fix_known(block, resp.copy())
    units = np.flatnonzero(block.known >= 0)
    assert_array_equal(fixed[:, 2, units], np.arange(3)[:, None] == block.known[units])
    others = np.flatnonzero(block.known < 0)
    assert_array_equal(fixed[..., others], resp[..., others])


def test_a_round_has_starts_of_every_kind():
    problem = MixReg.from_formula("y ~ x + v", table(), k=3).problem()
    rng = np.random.default_rng(0)
    ladder = make_ladder(problem, problem.source, rng)
    hunt = Search(ladder, Effort(), rng)
    hunt.prepare(hunt.top)
    new, exact = hunt.round(hunt.top)
    assert exact is None
    kinds = [kind for m in new for kind in m.kinds]
    assert kinds.count("tensor") == 1  # Its starts are not independent; the best counts.
    assert set(kinds) == {"tensor", "labels", "subspace", "partition", "random"}
    assert hunt.starts_run == ROUND
    assert hunt.budget > 0
    assert hunt.spent > 0


def test_a_lower_maximum_that_a_sample_agreed_on_is_challenged():
    data = lines(6000, noise=0.5)
    problem = MixReg.from_formula("y ~ x1 + x2", data, k=3).problem()
    rng = np.random.default_rng(0)
    hunt = Search(make_ladder(problem, problem.source, rng), Effort(), rng)
    course = hunt.top
    # All rows in one component, the others far away and next to empty.
    start = course.whitening.start(3)
    start.coef[1:] += 5.0
    start = replace(start, gating=log_gating(np.array([0.998, 0.001, 0.001])))
    low = iterate(course.source, EM(course.mixture), start.stacked(), Control(30, 1e-3))[0]
    hunt.budget = 1.0
    maxima, beaten = hunt.challenged(course, [Maximum(low, ("labels",))], 4)
    assert beaten
    assert maxima[0].run.objective > low.objective + 10
    # With no starts left there is no challenge.
    hunt.starts_run = hunt.effort.starts
    assert hunt.challenged(course, maxima, 4) == (maxima, False)


def flat_top(hunt, course):
    """A maximum, and runs that stopped short of it by parts of a standard error, and by ten."""
    start = course.whitening.start(3)
    start.coef[:] += np.linspace(-1, 1, start.coef.size).reshape(start.coef.shape)
    best = iterate(course.source, EM(course.mixture), start.stacked(), Control(300, 1e-9))[0]
    error = np.sqrt(best.params.dispersion / course.rows)[:, None]
    ends = []
    for kind, away in (("labels", 0.0), ("random", 0.6), ("partition", 10.0)):
        coef = best.params.coef + away * error
        run = replace(best, params=replace(best.params, coef=coef), objective=best.objective - away)
        ends.append(Maximum(run, (kind,)))
    return ends


def test_maxima_within_an_error_of_a_sample_are_one_until_all_rows_are_seen():
    problem = MixReg.from_formula("y ~ x1 + x2", lines(6000, noise=0.5), k=3).problem()
    rng = np.random.default_rng(0)
    hunt = Search(make_ladder(problem, problem.source, rng), Effort(), rng)
    sample = hunt.course(500)
    maxima = flat_top(hunt, sample)
    assert len(merged(maxima, sample.rows)) == 3
    assert [m.kinds for m in hunt.distinct(sample, maxima)] == [
        ("labels", "random"),
        ("partition",),
    ]
    assert hunt.distinct(hunt.top, maxima) is maxima


def test_what_beats_a_sample_is_looked_at_on_many_rows(monkeypatch):
    data = lines(40_000)
    problem = MixReg.from_formula("y ~ x1 + x2", data, k=2).problem()
    rng = np.random.default_rng(0)
    hunt = Search(make_ladder(problem, problem.source, rng), Effort(), rng)
    widened = []
    challenged, widen = Search.challenged, Search.widen

    def beaten(self, course, maxima, starts):
        return challenged(self, course, maxima, starts)[0], True

    def watched(self, course, maxima):
        widened.append(course.sample.rows)
        return widen(self, course, maxima)

    monkeypatch.setattr(Search, "challenged", beaten)
    monkeypatch.setattr(Search, "widen", watched)
    record = hunt.run()
    assert hunt.settled
    assert len(record.levels) == 3
    assert widened == [40_000]


def test_a_search_ends_where_the_arithmetic_breaks_on_every_move(monkeypatch):
    def breaks(*_):
        raise np.linalg.LinAlgError("Singular matrix")

    calls = []
    insist = levels.Search.insist

    def counted(self, course, maxima):
        move = self.move

        def tried(*args):
            calls.append(1)
            assert len(calls) < 50, "the search goes on for ever"
            return move(*args)

        monkeypatch.setattr(self, "move", tried)
        return insist(self, course, maxima)

    monkeypatch.setattr(levels, "moved", breaks)
    monkeypatch.setattr(levels, "chance_of_better", lambda *_: 1.0)
    monkeypatch.setattr(levels.Search, "insist", counted)
    rng = np.random.default_rng(0)
    fit = MixReg(rng.standard_normal(200), rng.standard_normal((200, 2)), k=3).fit(seed=0)
    assert fit.converged
    assert calls
