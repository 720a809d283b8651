"""Maxima that are as good: whether they have the same segments, and rows that are alike."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mixreg import MixReg
from mixreg.estimators.loop import Run
from mixreg.metrics import adjusted_rand_index
from mixreg.search.agreement import _rand
from mixreg.search.record import Maximum, chance_by_looks, chance_of_better, merged, same
from mixreg.sources.memory import MemorySource


def surveyed(seed, n=3_000):
    """Answers in whole numbers, with a few categories: few rows that are not alike."""
    rng = np.random.default_rng(seed)
    place, label = rng.integers(0, 5, n), rng.random(n) < 0.4
    score = np.round(np.where(label, 30, 48) + 2 * place + rng.normal(0, 4, n))
    return pd.DataFrame({"score": score, "place": place})


def test_the_index_of_weighted_units_is_that_of_rows():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, 400), rng.integers(0, 2, 400)
    b[a == 2] = 1
    weight = rng.integers(1, 40, 400)
    rows = adjusted_rand_index(np.repeat(a, weight), np.repeat(b, weight))
    assert _rand(a, b, weight.astype(float)) == pytest.approx(rows, abs=1e-3)
    assert _rand(a, a, weight.astype(float)) == pytest.approx(1.0)


def test_rows_that_are_alike_are_taken_together():
    x = np.repeat(np.eye(3), 4, axis=0)
    y = np.array([1.0, 1, 2, 2] * 3)
    source = MemorySource(x, y, weight=np.arange(1.0, 13.0))
    few = source.distinct()
    assert few.rows == 6
    assert few.row_weight == source.row_weight
    np.testing.assert_allclose(few.x.T * few.weight @ few.x, source.x.T * source.weight @ source.x)
    assert MemorySource(x, np.arange(12.0)).distinct().rows == 12


def test_a_search_of_rows_that_are_alike_ends_at_the_maximum_of_all():
    data = surveyed(1)
    fit = MixReg.from_formula("score ~ C(place)", data, k=2).fit(seed=0)
    assert fit.diagnostics.search.levels[-1] < 0.1 * len(data)
    apart = data.assign(score=data.score + 1e-7 * np.arange(len(data)))
    other = MixReg.from_formula("score ~ C(place)", apart, k=2).fit(seed=0)
    assert fit.llf == pytest.approx(other.llf, abs=0.05)
    order = np.random.default_rng(0).permutation(len(data))
    turned = MixReg.from_formula("score ~ C(place)", data.iloc[order], k=2).fit(seed=3)
    assert turned.llf == pytest.approx(fit.llf, abs=1e-6)


def test_a_note_says_that_maxima_as_good_have_other_segments():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((300, 2))
    data = pd.DataFrame({"y": x @ [1, 0.5] + rng.standard_normal(300), "a": x[:, 0], "b": x[:, 1]})
    fits = [MixReg.from_formula("y ~ a + b", data, k=4).fit(seed=seed) for seed in range(3)]
    told = [fit for fit in fits if fit.diagnostics.search.agreement < 0.9]
    assert told
    assert "have other segments" in str(told[0].summary())
    clear = surveyed(2).assign(a=lambda d: d.score + rng.normal(0, 0.5, len(d)))
    fit = MixReg.from_formula("a ~ C(place)", clear, k=2).fit(seed=0)
    assert fit.diagnostics.search.agreement > 0.9
    assert "have other segments" not in str(fit.summary())


def test_starts_on_one_view_are_one_look():
    run = Run(None, 0.0, np.zeros(1), "converged", 1)
    best = Maximum(run, ("view 1",) * 12 + ("view 2",) * 12)
    assert best.hits == 24
    assert best.looks == 2
    assert chance_by_looks([best], 2) == pytest.approx(1 / 9)
    assert chance_of_better([best], 24) < 0.01


def test_merging_counts_what_comparing_all_pairs_counts():
    data = surveyed(5, 400).assign(score=lambda d: d.score + np.linspace(0, 0.3, len(d)))
    search = MixReg.from_formula("score ~ C(place)", data, k=3).fit(seed=1).solution.search
    rows = 400.0
    found = list(search.maxima) * 2
    once = merged(found, rows)
    for i, one in enumerate(once):
        assert not any(same(one.run, other.run, rows) for other in once[:i])
    assert sum(m.hits for m in once) == sum(m.hits for m in found)
