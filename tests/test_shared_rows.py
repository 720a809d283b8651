"""Rows that repeat are evaluated once, and nothing changes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixreg import MixReg
from mixreg.estimators.expectation import Marginal, Posterior, SoftAssignment
from mixreg.jobs.ladder import make_ladder
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import SharedBlock
from mixreg.sources.memory import condensed, with_repeats
from mixreg.sources.repeats import distinct_rows, pass_cost


def survey(family, seed=0, people=40, cards=6, width=3):
    """Every person answers some of a few cards; a card of choices has `width` rows."""
    rng = np.random.default_rng(seed)
    tall = width if family == "choice" else 1
    deck = rng.integers(-1, 2, (cards, tall, 2)) * 1.0
    rows = []
    for person in range(people):
        for task, card in enumerate(rng.integers(0, cards, 8)):
            eta = (1 if person % 2 else -1) * deck[card].sum(axis=1)
            if family == "choice":
                y = np.eye(tall)[np.argmax(eta + rng.gumbel(size=tall))]
            elif family == "binomial":
                y = (rng.random(1) < 1 / (1 + np.exp(-eta))) * 1.0
            elif family == "gamma":
                y = np.round(np.exp(0.3 * eta) * rng.gamma(3.0, 0.3, 1), 0) + 1.0
            else:
                y = rng.poisson(np.exp(0.5 * eta)) * 1.0
            for j in range(tall):
                rows.append((person, 100 * person + task, y[j], *deck[card, j]))
    return pd.DataFrame(rows, columns=["id", "set", "y", "a", "b"])


def model_of(family, table, **options):
    if family == "choice":
        options |= {"choice_set": "set"}
    elif family == "gamma":
        options |= {"link": "log"}
    formula = "y ~ 0 + a + b" if family == "choice" else "y ~ a + b"
    return MixReg.from_formula(formula, table, k=2, family=family, groups="id", **options)


def both(model, rows=None):
    """The same rows as blocks that share them and that do not."""
    problem = model.problem()
    raw = with_repeats(problem.source)
    assert raw.repeats is not None
    rng = np.random.default_rng(0)
    ladder = make_ladder(problem, raw, rng)
    course = ladder.make(rows or ladder.rows, rng)
    plain = condensed(replace(course.sample, repeats=None), linear=False)
    assert isinstance(course.source.block, SharedBlock)
    return course, course.source, plain


@pytest.mark.parametrize("family", ["binomial", "poisson", "negativebinomial", "gamma", "choice"])
@pytest.mark.parametrize("option", ["none", "weights", "offset", "concomitant", "known", "part"])
def test_every_sum_is_that_of_the_rows(family, option):
    table = survey(family)
    people = table.id.to_numpy()
    options = {}
    if option == "weights":
        options = {"weights": 1.0 + people % 3}
    elif option == "offset":
        options = {"offset": 0.1 * table.b.to_numpy()}
    elif option == "concomitant":
        options = {"concomitant": "~ z"}
        table = table.assign(z=np.sin(people))
    elif option == "known":
        options = {"known_labels": np.where(people < 4, 1.0 + people % 2, np.nan)}
    model = model_of(family, table, **options)
    course, shared, plain = both(model, 100 if option == "part" else None)
    rng = np.random.default_rng(1)
    p = course.sample.x.shape[1]
    start = Parameters.uniform(0.5 * rng.standard_normal((2, 3, p)), 0.7)
    params = course.mixture.prepare(start)
    mine = shared.sweep(SoftAssignment(course.mixture), params)
    theirs = plain.sweep(SoftAssignment(course.mixture), params)
    assert shared.block.rows < plain.block.rows
    assert_allclose(mine.objective, theirs.objective, rtol=1e-12)
    assert_allclose(mine.count, theirs.count, rtol=1e-10)
    for name in ("size", "xx", "xe", "spread"):
        one, other = (getattr(sums.family, name) for sums in (mine, theirs))
        assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    gates = [course.mixture.gate.update(s.count, s.gate, params) for s in (mine, theirs)]
    assert_allclose(*gates, rtol=1e-9, atol=1e-9)
    for task in (Posterior(course.mixture), Marginal(course.mixture)):
        single = params.run(0) if isinstance(task, Posterior) else params
        ours, rows = shared.sweep(task, single).join(), plain.sweep(task, single).join()
        assert_allclose(ours, rows, rtol=1e-9, atol=1e-12)


def test_rows_that_differ_in_anything_are_not_shared():
    x = np.repeat([[1.0, 2.0], [1.0, 3.0]], 10, axis=0)
    y = np.tile([0.0, 1.0], 10)
    columns = [*x.T, y]
    repeats = distinct_rows(columns, None)
    assert_array_equal(np.unique(repeats), np.arange(4))
    for a in range(20):
        for b in range(20):
            equal = (x[a] == x[b]).all() and y[a] == y[b]
            assert (repeats[a] == repeats[b]) == equal
    assert distinct_rows([*x.T, np.arange(20.0)], None) is None
    # Minus zero is zero.
    assert distinct_rows([np.tile([0.0, -0.0], 10)], None).max() == 0


def test_sets_repeat_as_a_whole():
    # The same alternatives in another order, or with another one chosen, are another set.
    x = np.array([1.0, 2, 1, 2, 2, 1, 1, 2] * 6)
    y = np.array([1.0, 0, 1, 0, 1, 0, 0, 1] * 6)
    opens = np.tile([True, False], 24)
    repeats = distinct_rows([x, y], opens)
    assert_array_equal(repeats[:8], [0, 1, 0, 1, 2, 3, 4, 5])
    assert_array_equal(repeats, np.tile(repeats[:8], 6))
    assert pass_cost(repeats) < len(x) / 2


@pytest.mark.parametrize("family", ["binomial", "choice"])
def test_the_search_finds_what_starts_on_the_rows_find(family):
    model = model_of(family, survey(family, seed=2, people=80))
    found = model.fit(cov_type="none")
    starts = [
        model.fit(init=np.random.default_rng(s).integers(1, 3, 80), cov_type="none").llf
        for s in range(10)
    ]
    assert found.llf > max(starts) - 1e-3
