"""The tensor start: moments by brute force, and planted components recovered."""

from itertools import permutations

import numpy as np
import pytest
import tensorly as tl
from numpy.testing import assert_allclose, assert_array_equal
from tensorly.decomposition import symmetric_parafac_power_iteration

from mixreg import InputError, TensorStart
from mixreg.metrics import match_components
from mixreg.search import tensor as tensors
from mixreg.search.moments import (
    TakeMoments,
    TakeThird,
    component_moments,
    largest_noise,
    symmetric_sum,
    whitened_third,
)
from mixreg.search.power import robust_power_method
from mixreg.search.tensor import decompose, start_from, take_moments, tensor_results
from mixreg.simulate import mixture_of_regressions
from mixreg.sources import MemorySource
from tests.samples import random_source


def planted(values, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A tensor with given eigenvalues and random orthonormal eigenvectors (rows)."""
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    return np.einsum("r,ra,rb,rc->abc", values, vectors, vectors, vectors), vectors


# Power iterations


@pytest.mark.parametrize("values", [[2.0], [3.0, 2.0], [2.2, 2.0, 1.8, 1.5, 1.2]])
def test_planted_components_are_recovered(values):
    tensor, vectors = planted(values)
    found = robust_power_method(tensor, len(values), 100, 30, np.random.default_rng(1))
    order = match_components(found.vectors, vectors)
    assert_allclose(found.vectors[order], vectors, atol=1e-8)
    assert_allclose(found.values[order], values, rtol=1e-8)
    assert found.residual < 1e-8


def test_equal_eigenvalues_are_no_obstacle():
    tensor, vectors = planted([1.0] * 6)
    found = robust_power_method(tensor, 6, 200, 40, np.random.default_rng(1))
    overlap = np.abs(found.vectors @ vectors.T)
    assert_allclose(np.sort(overlap, axis=1)[:, -1], 1, atol=1e-8)
    assert set(overlap.argmax(axis=1)) == set(range(6))


def test_a_negative_eigenvalue_turns_its_vector_round():
    tensor, vectors = planted([2.0, -1.5])
    found = robust_power_method(tensor, 2, 50, 30, np.random.default_rng(1))
    assert (found.values > 0).all()
    assert_allclose(found.vectors[1], -vectors[1], atol=1e-8)


def test_some_noise_is_tolerated():
    tensor, vectors = planted([2.0, 1.8, 1.6])
    noise = np.random.default_rng(2).standard_normal((3, 3, 3))
    noise = sum(noise.transpose(order) for order in permutations(range(3))) / 6
    noisy = tensor + 0.01 * noise
    found = robust_power_method(noisy, 3, 50, 30, np.random.default_rng(1))
    order = match_components(found.vectors, vectors)
    assert_allclose(found.vectors[order], vectors, atol=0.05)
    assert 0 < found.residual < 0.05


def test_agreement_with_tensorly(monkeypatch):
    # TensorLy draws its starts from the global state; here from a seeded generator.
    monkeypatch.setattr(np.random, "random_sample", np.random.default_rng(3).random)
    tensor, _ = planted([2.2, 2.0, 1.8, 1.5])
    values, factors = symmetric_parafac_power_iteration(
        tl.tensor(tensor), 4, n_repeat=50, n_iteration=15
    )
    found = robust_power_method(tensor, 4, 50, 45, np.random.default_rng(1))
    order = match_components(found.vectors, factors.T)
    assert_allclose(found.vectors[order], factors.T, atol=1e-8)
    assert_allclose(found.values[order], values, rtol=1e-8)


def test_a_tensor_of_zeros_leaves_nothing_over():
    found = robust_power_method(np.zeros((3, 3, 3)), 2, 10, 10, np.random.default_rng(0))
    assert np.isfinite(found.vectors).all()
    assert_array_equal(found.values, 0)
    assert found.residual == 0


# Moments against brute force


def cubed(z: np.ndarray, y3: np.ndarray) -> np.ndarray:
    """Mean of y^3 times the third Hermite tensor of z, term by term as in the paper."""
    n, d = z.shape
    e = np.eye(d)
    total = np.einsum("n,na,nb,nc->abc", y3, z, z, z) / n
    m = y3 @ z / n
    for i in range(d):
        total -= np.einsum("a,b,c->abc", e[i], m, e[i])
        total -= np.einsum("a,b,c->abc", e[i], e[i], m)
        total -= np.einsum("a,b,c->abc", m, e[i], e[i])
    return total


def through(tensor: np.ndarray, W: np.ndarray) -> np.ndarray:
    return np.einsum("abc,ai,bj,ck->ijk", tensor, W, W, W)


@pytest.mark.parametrize("p", [2, 4])
def test_without_a_constant_the_moments_are_the_papers(p):
    source = random_source(60, p)
    x, y, n = source.x, source.y, 60
    block = source.as_block()
    moments = component_moments(TakeMoments(False)(block), False)
    M2 = np.einsum("n,na,nb->ab", y**2, x, x) / (2 * n) - np.mean(y**2) * np.eye(p) / 2
    assert_allclose(moments.second, M2, rtol=1e-10, atol=1e-10)
    W = np.random.default_rng(1).standard_normal((p, 2))
    third = whitened_third(TakeThird(False, W)(block), moments, W, np.mean(y**3))
    wanted = through(cubed(x, y**3) / 6, W)
    assert_allclose(third, wanted, rtol=1e-10, atol=1e-10 * np.abs(wanted).max())


@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_with_a_constant_every_block_follows_its_identity(noise):
    source = random_source(80, 4)
    z, y, n, d = source.x[:, 1:], source.y, 80, 3
    block = source.as_block()
    moments = component_moments(TakeMoments(True)(block), True, noise)
    outer = np.einsum("na,nb->nab", z, z) - np.eye(d)
    bb = np.einsum("n,nab->ab", y**2, outer) / (2 * n)
    full = np.empty((d + 1, d + 1))
    full[1:, 1:], full[0, 1:] = bb, y**2 @ z / (2 * n)
    full[1:, 0] = full[0, 1:]
    full[0, 0] = np.mean(y**2) - np.trace(bb) - noise
    assert_allclose(moments.second, full, rtol=1e-10, atol=1e-10)
    bbb, abb = cubed(z, y**3) / 6, np.einsum("n,nab->ab", y**3, outer) / (6 * n)
    # E[y^3 z] = 3 sum w b (a^2 + |b|^2 + noise), E[y^3] = sum w (a^3 + 3 a (|b|^2 + noise)).
    aab = y**3 @ z / (3 * n) - np.einsum("iia->a", bbb) - noise * (y @ z / n)
    aaa = np.mean(y**3) - 3 * np.trace(abb) - 3 * noise * np.mean(y)
    tensor = np.empty((d + 1,) * 3)
    tensor[1:, 1:, 1:] = bbb
    tensor[0, 1:, 1:] = tensor[1:, 0, 1:] = tensor[1:, 1:, 0] = abb
    tensor[0, 0, 1:] = tensor[0, 1:, 0] = tensor[1:, 0, 0] = aab
    tensor[0, 0, 0] = aaa
    W = np.random.default_rng(1).standard_normal((d + 1, 3))
    third = whitened_third(TakeThird(True, W[1:])(block), moments, W, np.mean(y**3))
    wanted = through(tensor, W)
    assert_allclose(third, wanted, rtol=1e-10, atol=1e-10 * np.abs(wanted).max())


def test_weights_and_groups_count_rows():
    source = random_source(300, 3, grouped=True, weighted=True)
    block = source.as_block()
    rows = np.repeat(np.arange(300), block.per_row(source.weight).astype(int))
    repeated = MemorySource(source.x[rows], source.y[rows]).as_block()
    a, b = (TakeMoments(True)(each) for each in (block, repeated))
    for name in a.__dataclass_fields__:
        assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-10, atol=1e-9, err_msg=name)
    projection = np.eye(2)
    a, b = (TakeThird(True, projection)(each) for each in (block, repeated))
    assert_allclose(a.uuu / a.rows, b.uuu / b.rows, rtol=1e-10, atol=1e-10)


def test_the_symmetric_sum_puts_the_vector_in_every_place():
    rng = np.random.default_rng(0)
    v, M = rng.standard_normal(3), rng.standard_normal((3, 3))
    M = M + M.T
    wanted = (
        np.einsum("a,bc->abc", v, M) + np.einsum("b,ac->abc", v, M) + np.einsum("c,ab->abc", v, M)
    )
    assert_allclose(symmetric_sum(v, M), wanted, rtol=1e-14)


# Moments of large Gaussian samples

CROSSING = np.array([[0.5, 1.0, 0.0, 0.5], [-0.3, -0.5, 1.0, 0.0]])
PARALLEL = np.array([[1.0, 0.8, 0.3, 0.0], [-1.0, 0.8, 0.3, 0.0]])
WEIGHTS = np.array([0.65, 0.35])
SIGMA = 0.4


def large_sample(vectors: np.ndarray, constant: bool, n: int = 400_000) -> MemorySource:
    rng = np.random.default_rng(11)
    x = rng.standard_normal((n, vectors.shape[1]))
    if constant:
        x[:, 0] = 1.0
    drawn = mixture_of_regressions(x, vectors, WEIGHTS, SIGMA, seed=rng)
    return MemorySource(x, drawn.y)


@pytest.mark.parametrize(
    ("vectors", "constant"),
    [(CROSSING, False), (CROSSING, True), (PARALLEL, False), (PARALLEL, True)],
    ids=["crossing", "crossing with intercept", "parallel", "parallel with intercept"],
)
def test_moments_approach_those_of_the_components(vectors, constant):
    source = large_sample(vectors, constant)
    sums = take_moments(source, constant)
    moments = component_moments(sums, constant, SIGMA**2)
    wanted = np.einsum("r,ra,rb->ab", WEIGHTS, vectors, vectors)
    assert_allclose(moments.second, wanted, atol=0.03)
    W = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 2)))[0]
    third = source.sweep(TakeThird(constant, W[1:] if constant else W))
    tensor = whitened_third(third, moments, W, sums.y3 / sums.rows)
    cubes = np.einsum("r,ra,rb,rc->abc", WEIGHTS, vectors, vectors, vectors)
    assert_allclose(tensor, through(cubes, W), atol=0.05)
    if constant:
        assert moments.cubes[0] == pytest.approx(cubes[0, 0, 0], abs=0.1)
        assert_allclose(moments.cubes[1:], cubes[0, 0, 1:], atol=0.05)
        assert largest_noise(sums) >= SIGMA**2


@pytest.mark.parametrize("vectors", [CROSSING, PARALLEL], ids=["crossing", "parallel"])
@pytest.mark.parametrize("constant", [False, True])
def test_components_and_weights_are_read_off_the_moments(vectors, constant):
    source = large_sample(vectors, constant)
    sums = take_moments(source, constant)
    options, rng = TensorStart(), np.random.default_rng(0)
    found = decompose(source, sums, constant, 2, SIGMA**2 if constant else 0.0, options, rng)
    order = match_components(found.vectors, vectors)
    assert_allclose(found.vectors[order], vectors, atol=0.1)
    assert_allclose(found.weights[order], WEIGHTS, atol=0.06)
    assert found.spectrum[1] > 0.1
    assert_allclose(found.spectrum[2:], 0, atol=0.03)
    assert_allclose([found.skewness, found.kurtosis], 0, atol=0.05)


# How the start is made


def halves_for(source: MemorySource, seed: int) -> tuple[list[MemorySource], np.random.Generator]:
    rng = np.random.default_rng(seed)
    return source.split(2, int(rng.integers(2**63))), rng


def test_split_uses_one_half_for_each_moment():
    source = large_sample(CROSSING, False, 4000)
    options = TensorStart(20, 10, split=True)
    found = tensor_results(source, False, 2, options, np.random.default_rng(5))[0]
    (second, third), rng = halves_for(source, 5)
    assert not set(second.y) & set(third.y)
    assert set(second.y) | set(third.y) == set(source.y)
    wanted = decompose(third, take_moments(second, False), False, 2, 0.0, options, rng)
    assert_array_equal(found.vectors, wanted.vectors)
    assert_array_equal(found.spectrum, wanted.spectrum)
    plain = tensor_results(source, False, 2, TensorStart(20, 10), np.random.default_rng(5))[0]
    assert not np.array_equal(found.spectrum, plain.spectrum)


def test_the_third_moment_never_sees_the_first_half():
    source = large_sample(CROSSING, False, 2000)
    (second, third), _ = halves_for(source, 5)
    y = source.y.copy()
    y[np.isin(y, third.y)] *= 1.5
    changed = MemorySource(source.x, y)
    options = TensorStart(20, 10, split=True)
    a, b = (
        tensor_results(each, False, 2, options, np.random.default_rng(5))[0]
        for each in (source, changed)
    )
    assert_array_equal(a.spectrum, b.spectrum)
    assert not np.allclose(a.decomposition.values, b.decomposition.values)
    assert len(second.y) == len(third.y)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_the_same_seed_gives_the_same_bits(constant, split):
    source = large_sample(CROSSING, constant, 3000)
    options = TensorStart(split=split)
    first, again = (
        tensor_results(source, constant, 2, options, np.random.default_rng(9)) for _ in range(2)
    )
    assert len(first) == len(again) == (len(tensors.NOISE_GRID) if constant else 1)
    for a, b in zip(first, again, strict=True):
        assert_array_equal(a.vectors, b.vectors)
        assert_array_equal(a.weights, b.weights)


def test_with_a_constant_several_noise_levels_are_tried():
    source = large_sample(PARALLEL, True, 3000)
    results = tensor_results(source, True, 2, TensorStart(20, 10), np.random.default_rng(0))
    top = largest_noise(take_moments(source, True))
    assert_allclose([r.noise for r in results], np.multiply(tensors.NOISE_GRID, top))


def test_more_components_than_dimensions_are_filled_up():
    source = large_sample(CROSSING, False, 3000)
    rng = np.random.default_rng(0)
    found = tensor_results(source, False, 6, TensorStart(20, 10), rng)[0]
    assert found.vectors.shape == (4, 4)
    start = start_from(found, 6, 0.5, rng)
    assert start.coef.shape == (6, 4)
    assert_allclose(np.linalg.norm(start.coef[4:], axis=1), 1)
    assert start.weights.sum() == pytest.approx(1)
    assert_array_equal(start.dispersion, 0.5)


def test_a_start_is_never_out_of_proportion():
    # Pure noise: whatever the eigenvectors are, the start must be usable.
    rng = np.random.default_rng(0)
    source = MemorySource(rng.standard_normal((40, 6)), rng.standard_normal(40))
    found = tensor_results(source, False, 5, TensorStart(), rng)[0]
    start = start_from(found, 5, 1.0, rng)
    assert np.linalg.norm(start.coef, axis=1).max() <= 10 * (1 + 1e-12)
    assert (start.weights > 0).all()


def test_numbers_of_the_paper_are_the_default():
    assert [TensorStart().starts_for(k) for k in (2, 5)] == [800, 5000]
    assert [TensorStart().iterations_for(k) for k in (2, 5)] == [14, 32]
    assert TensorStart(7, 9).starts_for(5) == 7
    assert TensorStart(7, 9).iterations_for(5) == 9


@pytest.mark.parametrize("name", ["n_starts", "n_iter"])
def test_numbers_that_make_no_sense(name):
    with pytest.raises(InputError, match=f"{name} must be at least 1, or None .*; got 0"):
        TensorStart(**{name: 0})
