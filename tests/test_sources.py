"""Cutting rows into blocks, condensing groups and sampling change no number."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixreg.estimators.expectation import HardAssignment, Posterior, SoftAssignment
from mixreg.families import Gaussian
from mixreg.inference import TakeInformation
from mixreg.inference.information import ClusterSums
from mixreg.mixture.gate import LogitGate
from mixreg.mixture.mixture import Mixture
from mixreg.search.moments import TakeMoments, TakeThird
from mixreg.sources import MemorySource, memory, one_block, sweep
from mixreg.sources.block import Block, GramBlock, column_pairs, condense
from mixreg.sources.memory import BlockSource, condensed
from mixreg.sources.standard import triangle
from tests.samples import random_mixture, random_source

KINDS = pytest.mark.parametrize("grouped", [False, True], ids=["rows", "groups"])
WEIGHTS = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
MIXTURE = Mixture(Gaussian())


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(one_block, "BLOCK_VALUES", 1)


def whole(source: MemorySource) -> BlockSource:
    return BlockSource(source.as_block())


def assert_same_sums(a, b, rtol=1e-10):
    """Compare two bundles of sums field by field, nested ones too."""
    assert type(a) is type(b)
    for name in a.__dataclass_fields__:
        left, right = getattr(a, name), getattr(b, name)
        if isinstance(left, ClusterSums):
            left, right = left.each(), right.each()
        if hasattr(left, "__dataclass_fields__"):
            assert_same_sums(left, right, rtol)
        elif left is not None:
            size = np.abs(right).max(initial=1.0)
            assert_allclose(left, right, rtol=rtol, atol=rtol * size, err_msg=name)


@KINDS
@WEIGHTS
@pytest.mark.usefixtures("small_blocks")
def test_blocks_hold_every_unit_once_and_in_order(grouped, weighted):
    source = random_source(3000, 2, grouped=grouped, weighted=weighted)
    blocks = list(source.blocks())
    assert len(blocks) > 5
    assert_array_equal(np.concatenate([b.x for b in blocks]), source.x)
    assert_array_equal(np.concatenate([b.y for b in blocks]), source.y)
    firsts = np.cumsum([0, *(b.units for b in blocks)])
    assert_array_equal([b.first for b in blocks], firsts[:-1])
    assert firsts[-1] == source.units
    if weighted:
        assert_array_equal(np.concatenate([b.weight for b in blocks]), source.weight)


@pytest.mark.usefixtures("small_blocks")
def test_groups_are_never_cut():
    source = random_source(3000, 2, grouped=True)
    rows, starts = 0, []
    for block in source.blocks():
        assert block.starts[0] == 0
        starts.append(block.starts + rows)
        rows += block.rows
    assert_array_equal(np.concatenate(starts), source.starts)


@pytest.mark.usefixtures("small_blocks")
def test_a_group_larger_than_a_block_stays_whole():
    y = np.arange(1000.0)
    source = MemorySource(y[:, None], y, None, np.array([0, 3, 900, 901]))
    sizes = [np.diff(b.starts, append=b.rows).tolist() for b in source.blocks()]
    assert [size for block in sizes for size in block] == [3, 897, 1, 99]
    assert [897] in [size[-1:] for size in sizes]


@KINDS
@WEIGHTS
@pytest.mark.usefixtures("small_blocks")
def test_many_blocks_add_up_to_one(grouped, weighted):
    source = random_source(3000, 4, grouped=grouped, weighted=weighted)
    one, stack = random_mixture(3, 4), random_mixture(3, 4, runs=2)
    source = source.with_columns(cov_group=np.arange(source.units) % 7)
    projection = np.random.default_rng(0).standard_normal((3, 2))
    for task, params in (
        (SoftAssignment(MIXTURE), stack),
        (HardAssignment(MIXTURE), stack),
        (TakeInformation(MIXTURE), one),
        (TakeInformation(MIXTURE, True), one),
        (TakeMoments(True), None),
        (TakeThird(True, projection), None),
    ):
        assert_same_sums(source.sweep(task, params), whole(source).sweep(task, params))


@KINDS
@WEIGHTS
@pytest.mark.parametrize("linear", [True, False])
def test_a_block_cut_for_a_large_stack_adds_up_to_the_block(monkeypatch, grouped, weighted, linear):
    source = random_source(3000, 4, grouped=grouped, weighted=weighted)
    z = np.column_stack([np.ones(source.units), np.linspace(-1, 1, source.units)])
    known = np.where(np.arange(source.units) % 9 == 0, 1, -1)
    source = condensed(replace(source, z=z, known=known), linear)
    mixture = Mixture(gate=LogitGate(2), labelled=True)
    params = mixture.prepare(random_mixture(3, 4, runs=7))
    task = SoftAssignment(mixture)
    whole = task(source.block, params)
    monkeypatch.setattr(one_block, "STACK_VALUES", 0)
    parts = [source.block.cut(*place) for place in source.places(256)]
    assert len(parts) > 2
    starts = np.cumsum([0, *(part.units for part in parts)])
    assert_array_equal([part.first for part in parts], starts[:-1])
    assert starts[-1] == source.block.units
    assert_same_sums(source.sweep(task, params), whole)


@pytest.mark.parametrize("kind", ["own", "in turn", "contiguous", "drawn"])
@pytest.mark.usefixtures("small_blocks")
def test_cluster_sums_are_those_of_the_clusters_of_a_block(kind):
    source, params = random_source(3000, 4, weighted=True), random_mixture(3, 4)
    unit = np.arange(3000)
    codes = {
        "own": unit,
        "in turn": unit % 7,
        "contiguous": unit // 5,
        "drawn": np.unique(np.random.default_rng(0).integers(0, 900, 3000), return_inverse=True)[1],
    }[kind]
    source, task = source.with_columns(cov_group=codes), TakeInformation(MIXTURE, True)
    for block in source.blocks():
        (own, sums), *more = task(block, params).clusters.parts
        assert not more
        assert_array_equal(own, np.unique(codes[block.first : block.first + block.units]))
        assert len(sums) == len(own)
    found = source.sweep(task, params).clusters
    assert sum(len(own) for own, _ in found.parts) < 3 * (codes.max() + 1)
    one = task(source.as_block(), params).clusters
    assert_allclose(found.each(), one.each(), rtol=1e-10, atol=1e-10)
    assert len(one.each()) == codes.max() + 1


@pytest.mark.usefixtures("small_blocks")
def test_triangular_factors_add_up():
    source = random_source(3000, 4, weighted=True)
    many, one = source.sweep(triangle), triangle(source.as_block())
    assert_allclose(many.factor.T @ many.factor, one.factor.T @ one.factor, rtol=1e-10, atol=1e-9)
    assert many.rows == one.rows == source.weight.sum()


@KINDS
@pytest.mark.usefixtures("small_blocks")
def test_posteriors_are_joined_in_the_order_of_the_units(grouped):
    source = random_source(3000, 2, grouped=grouped)
    params = random_mixture(3, 2)
    many = source.sweep(Posterior(MIXTURE), params).join()
    assert_allclose(many, whole(source).sweep(Posterior(MIXTURE), params).join(), rtol=1e-12)
    assert many.shape == (3, source.units)
    assert_allclose(many.sum(axis=0), 1, rtol=1e-12)


def test_condensed_groups_are_their_cross_products():
    source = random_source(60, 3, grouped=True)
    block = condense(source.as_block())
    v = np.column_stack([source.x, source.y])
    for unit, rows in enumerate(np.split(v, source.starts[1:])):
        assert block.size[unit] == len(rows)
        assert_allclose(block.gram[unit], (rows.T @ rows)[block.triangle], rtol=1e-12)


def test_pairs_of_columns_are_in_the_order_of_the_triangle():
    v = np.random.default_rng(0).standard_normal((5, 4))
    i, j = np.triu_indices(4)
    assert_array_equal(column_pairs(v), v[:, i] * v[:, j])


@KINDS
@WEIGHTS
@pytest.mark.parametrize("task", [SoftAssignment(MIXTURE), HardAssignment(MIXTURE)], ids=repr)
def test_condensed_data_give_the_sums_of_the_rows(grouped, weighted, task):
    source = random_source(800, 4, grouped=grouped, weighted=weighted)
    short = condensed(source)
    assert isinstance(short.block, GramBlock if grouped else Block)
    assert grouped or short.block.pairs is not None
    for runs in (1, 3):
        params = random_mixture(3, 4, runs=runs)
        assert_same_sums(short.sweep(task, params), source.sweep(task, params))


@KINDS
def test_what_is_too_large_is_not_condensed(grouped, monkeypatch):
    monkeypatch.setattr(memory, "KEPT_BYTES", 10)
    source = random_source(300, 4, grouped=grouped)
    block = condensed(source).block
    assert isinstance(block, Block)
    assert block.pairs is None
    params = random_mixture(2, 4, runs=2)
    task = SoftAssignment(MIXTURE)
    assert_same_sums(condensed(source).sweep(task, params), source.sweep(task, params))


def numbered(n: int, grouped: bool, weighted: bool = True) -> tuple[MemorySource, np.ndarray]:
    """A source whose response is the row's number, and the unit of every row."""
    source = random_source(n, 2, grouped=grouped, weighted=weighted)
    starts = np.arange(n) if source.starts is None else source.starts
    unit = np.repeat(np.arange(source.units), np.diff(starts, append=n))
    return MemorySource(source.x, np.arange(float(n)), source.weight, source.starts), unit


def assert_whole_units(part: MemorySource, source: MemorySource, unit: np.ndarray) -> np.ndarray:
    """Check that a part consists of whole units of a source, and return them."""
    rows = part.y.astype(int)
    taken = np.unique(unit[rows])
    assert_array_equal(rows, np.flatnonzero(np.isin(unit, taken)))
    assert_array_equal(part.x, source.x[rows])
    assert_array_equal(part.weight, source.weight[taken])
    assert part.units == len(taken)
    if part.starts is not None:
        assert_array_equal(unit[rows[part.starts]], taken)
    return taken


@KINDS
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_split_is_disjoint_and_complete(grouped, parts):
    source, unit = numbered(500, grouped)
    pieces = source.split(parts, 3)
    taken = [assert_whole_units(piece, source, unit) for piece in pieces]
    assert len(taken) == parts
    assert_array_equal(np.sort(np.concatenate(taken)), np.arange(source.units))
    assert max(map(len, taken)) - min(map(len, taken)) <= 1


@KINDS
def test_a_sample_has_whole_units_and_about_the_wanted_rows(grouped):
    source, unit = numbered(2000, grouped)
    part = source.sample(400, 4)
    taken = assert_whole_units(part, source, unit)
    assert len(set(taken)) == len(taken)
    assert part.rows == pytest.approx(400, rel=0.2)
    assert source.sample(2000, 4) is source


@KINDS
def test_blocks_tasks_and_sums_can_be_sent_to_a_worker(grouped):
    source, params = random_source(200, 3, grouped=grouped), random_mixture(2, 3)
    for task in (SoftAssignment(MIXTURE), HardAssignment(MIXTURE), TakeInformation(MIXTURE)):
        at = params if isinstance(task, TakeInformation) else params.stacked()
        there = pickle.loads(pickle.dumps((source.as_block(), task, at)))
        sums = pickle.loads(pickle.dumps(there[1](there[0], there[2])))
        assert_same_sums(sums, source.sweep(task, at), rtol=1e-12)


def test_a_source_without_rows_says_so():
    with pytest.raises(ValueError, match="no blocks; give it at least one row"):
        sweep(iter([]), SoftAssignment(MIXTURE))
