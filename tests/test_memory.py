"""Large data are held once: what is made when it is asked for, and what a fit takes beside it."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.memory import draw
from mixreg import MixReg
from mixreg.estimators.expectation import SoftAssignment
from mixreg.jobs.ladder import make_ladder
from mixreg.mixture.mixture import Mixture
from mixreg.search import cells
from mixreg.sources import drawn, made, memory, one_block
from mixreg.sources.hashes import all_hashes, unit_hashes
from mixreg.sources.made import MadeRows, as_array, picked, times
from mixreg.sources.memory import BlockSource, MemorySource
from mixreg.table import making
from tests.test_chunks import CASES, assert_same, fitted, table_of
from tests.test_sources import assert_same_sums, random_mixture, random_source

NAMES = [f"x{i}" for i in range(1, 20)]
RIGHT = [
    "x1 + x2",
    "0 + x1 + x2",
    "1",
    "C(g) * x1 + C(h)",
    "bs(x1, df=5) + center(x2) + standardize(np.exp(x2))",
    "0 + cr(x1, df=4) + x1:x2 + np.log(x2 ** 2 + 1)",
    "I(x1 - np.mean(x1)) + np.cumsum(x2) + Q('odd name')",
]


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(made, "room_beside", lambda data, together: 0.0)
    monkeypatch.setattr(making, "AT_ONCE_BYTES", 0)


def peak(declare) -> float:
    """Peak of declaring and fitting."""
    tracemalloc.start()
    try:
        declare().fit(n_init=4)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_cells_take_no_products_of_all_rows():
    x, y = draw(60_000, 20, 2)
    problem, rng = MixReg(y, x, k=2).problem(), np.random.default_rng(0)
    course = make_ladder(problem, problem.source, rng).make(60_000, rng)
    held = course.source.block.x.nbytes
    tracemalloc.start()
    try:
        cells.cells_of(course, None, rng)
        # Products of all rows would be eleven times the rows.
        assert tracemalloc.get_traced_memory()[1] < 5 * held
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("kind", "copies"), [("arrays", 0.9), ("formula", 1.9)])
def test_a_fit_of_large_data_takes_little_beside_them(kind, copies, monkeypatch):
    # What a pass holds grows with threads, not with rows: half the benchmark's need more leeway.
    monkeypatch.setattr(memory, "KEPT_BYTES", 0)
    MixReg(*reversed(draw(1_000, 3, 2)), k=2).fit(n_init=1)
    x, y = draw(200_000, 20, 3)
    frame, formula = pd.DataFrame(x[:, 1:], columns=NAMES).assign(y=y), "y ~ " + " + ".join(NAMES)
    declare = {
        "arrays": lambda: MixReg(y, x, k=3),
        "formula": lambda: MixReg.from_formula(formula, frame, k=3),
    }
    assert peak(declare[kind]) < copies * x.nbytes


@pytest.mark.parametrize("large", [False, True])
def test_arrays_are_neither_copied_nor_changed(large, request):
    if large:
        request.getfixturevalue("everything_is_large")
    x, y = draw(2_000, 4, 2)
    x.flags.writeable = y.flags.writeable = False
    model = MixReg(y, x, k=2)
    assert model.source.x is x
    assert model.source.y is y
    assert model.given.as_block().x is x
    model.fit(n_init=2)


@pytest.mark.parametrize("name", ["y", "x"])
def test_rows_with_missing_values_leave_the_users_arrays_alone(name):
    x, y = draw(500, 3, 2)
    (y if name == "y" else x)[7] = np.nan
    before = x.copy(), y.copy()
    assert MixReg(y, x, k=2).nobs == 499
    assert_array_equal(x, before[0])
    assert_array_equal(y, before[1])


@pytest.mark.parametrize(
    "name",
    [
        "em-gaussian-plain",
        "em-gaussian-weights",
        "em-gaussian-known",
        "em-gaussian-noise",
        "em-poisson-concomitant",
        "em-binomial-plain",
        "em-choice-groups",
        "em-joint-plain",
        "altmin-gaussian-plain",
        "vb-gaussian-plain",
        "vb-poisson-concomitant",
        "exact",
    ],
)
def test_rows_that_are_made_give_the_same_fit(name, request, monkeypatch):
    data = table_of(name)
    default = fitted(monkeypatch, None, data, CASES[name])
    request.getfixturevalue("everything_is_large")
    assert_same(fitted(monkeypatch, None, data, CASES[name]), default)


def test_a_large_sample_gives_the_same_fit_whether_it_is_kept(monkeypatch):
    x, y = draw(30_000, 5, 3)
    default = MixReg(y, x, k=3).fit()
    monkeypatch.setattr(made, "KEPT_BYTES", 0)
    monkeypatch.setattr(memory, "KEPT_BYTES", 0)
    assert_same(MixReg(y, x, k=3).fit(), default)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("right", RIGHT)
def test_terms_made_a_few_at_a_time_are_those_made_at_once(right, missing, monkeypatch):
    rng = np.random.default_rng(0)
    x1, x2, y = rng.standard_normal((3, 300))
    kinds = rng.choice(list("abc"), 300), pd.Categorical(rng.choice(list("uv"), 300))
    data = pd.DataFrame({"x1": x1, "x2": x2, "y": y, "g": kinds[0], "h": kinds[1], "odd name": x2})
    if missing:
        data.loc[[3, 77], "y"], data.loc[5, "g"] = np.nan, None
    data["yes"] = (data["y"] > 0).astype(object)
    for left in ("y", "yes"):
        whole = MixReg.from_formula(f"{left} ~ {right}", data, k=1)
        with monkeypatch.context() as patch:
            patch.setattr(making, "AT_ONCE_BYTES", 0)
            pieces = MixReg.from_formula(f"{left} ~ {right}", data, k=1)
        assert pieces.exog_names == whole.exog_names
        assert_array_equal(pieces.source.x, whole.source.x)
        assert_array_equal(pieces.source.y, whole.source.y)
        assert_array_equal(pieces.index, whole.index)


def test_made_rows_are_those_of_the_product():
    rng = np.random.default_rng(0)
    x, basis = rng.standard_normal((50, 3)), rng.standard_normal((3, 3))
    rows, few = rng.permutation(50)[:20], np.array([4, 1, 9])
    some = MadeRows(x, rows, basis)
    assert some.shape == (20, 3)
    assert some.nbytes == some.whole().nbytes
    assert_allclose(some.whole(), x[rows] @ basis)
    assert_allclose(some[2:7], x[rows[2:7]] @ basis)
    assert_allclose(some[few], x[rows[few]] @ basis)
    assert_allclose(some[1::3, 1:], (x[rows] @ basis)[1::3, 1:])
    assert_array_equal(MadeRows(x)[:4], x[:4])


@pytest.mark.usefixtures("everything_is_large")
def test_rows_are_picked_and_multiplied_in_turns():
    rng = np.random.default_rng(0)
    x, basis = rng.standard_normal((50, 3)), rng.standard_normal((3, 3))
    first, then = rng.permutation(50)[:20], np.array([4, 1, 9])
    turns = times(picked(times(picked(x, first), basis), then), basis)
    assert isinstance(turns, MadeRows)
    assert turns.given is x
    assert_allclose(as_array(turns), x[first][then] @ basis @ basis)


@pytest.mark.parametrize("starts", [None, np.array([0, 30, 31, 200])])
def test_units_that_are_taken_are_the_same_made_or_kept(starts, monkeypatch):
    rng = np.random.default_rng(0)
    source = MemorySource(rng.standard_normal((300, 2)), rng.standard_normal(300), starts=starts)
    units = np.array([0, 2, 3])
    kept = source.take_units(units).as_block()
    monkeypatch.setattr(made, "room_beside", lambda data, together: 0.0)
    some = source.take_units(units)
    assert isinstance(some.x, MadeRows)
    assert_array_equal(some.as_block().x, kept.x)
    assert_array_equal(some.as_block().y, kept.y)
    assert_array_equal(np.concatenate([block.x for block in some.blocks()]), kept.x)


@pytest.mark.parametrize("runs", [1, 12])
@pytest.mark.parametrize("grouped", [False, True])
def test_products_made_on_the_way_add_up_to_those_of_the_block(runs, grouped, monkeypatch):
    monkeypatch.setattr(one_block, "PAIR_VALUES", 0)
    source = random_source(3_000, 4, grouped=grouped, weighted=False)
    source, mixture = replace(source, x=MadeRows(source.x)), Mixture()
    params, task = mixture.prepare(random_mixture(3, 4, runs=runs)), SoftAssignment(mixture)
    served = BlockSource(source.as_held())
    assert not served.keeps_pairs
    assert_same_sums(served.sweep(task, params), task(served.block, params))


def test_a_sample_is_the_units_with_the_lowest_hashes(monkeypatch):
    for module in ("hashes", "drawn"):
        monkeypatch.setattr(f"mixreg.sources.{module}.PIECE_UNITS", 64)
    hashes = unit_hashes(np.arange(1_000), 3)
    assert_array_equal(all_hashes(1_000, 3), hashes)
    rows = MemorySource(np.ones((1_000, 1)), np.ones(1_000))
    found = drawn.draw(rows, 1_000, 100, 3, known=False, gaps=False).of(rows)
    assert_array_equal(found, np.sort(np.argsort(hashes)[:100]))


def test_products_of_a_sample_take_a_share_of_large_data():
    rows = np.zeros((1_000, 20))
    sample = MemorySource(rows, rows[:, 0], origin=800_000_000)
    assert memory.room_for_pairs(sample) == made.KEPT_SHARE * 800_000_000
    alone = replace(sample, origin=0)
    assert memory.room_for_pairs(alone) == memory.KEPT_BYTES - rows.nbytes
