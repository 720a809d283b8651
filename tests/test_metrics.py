"""Metrics against brute force over permutations and numbers worked by hand."""

from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest

from mixreg.metrics import (
    adjusted_rand_index,
    estimation_error,
    match_components,
    misclassification_rate,
)


def distances(estimate: np.ndarray, truth: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    return np.linalg.norm(estimate[list(order)] - truth, axis=1)


def random_pair(k: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([k, p, seed])
    return rng.standard_normal((k, p)), rng.standard_normal((k, p))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("p", [1, 3])
def test_bottleneck_equals_brute_force(k, p):
    for seed in range(25):
        estimate, truth = random_pair(k, p, seed)
        best = min(distances(estimate, truth, o).max() for o in permutations(range(k)))
        assert estimation_error(estimate, truth) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_matching_equals_brute_force(k):
    for seed in range(25):
        estimate, truth = random_pair(k, 3, seed)
        best = min(permutations(range(k)), key=lambda o: distances(estimate, truth, o).sum())
        assert tuple(match_components(estimate, truth)) == best


def test_bottleneck_is_not_the_largest_distance_of_the_smallest_sum():
    # Kept in order the distances are 0 and 3.5; swapped, 2 and 2: a larger sum, a smaller maximum.
    angle = 2 * np.arcsin(3.5 / 4)
    estimate = np.array([[0.0, 0.0], [2.0, 0.0]])
    truth = np.array([[0.0, 0.0], [2 * np.cos(angle), 2 * np.sin(angle)]])
    assert match_components(estimate, truth).tolist() == [0, 1]
    assert distances(estimate, truth, (0, 1)).max() == pytest.approx(3.5)
    assert estimation_error(estimate, truth) == pytest.approx(2.0)


@pytest.mark.parametrize("k", [2, 7, 40])
def test_error_is_zero_up_to_order_and_exact_for_one_shift(k):
    rng = np.random.default_rng(k)
    truth = 10 * rng.standard_normal((k, 4))
    order = rng.permutation(k)
    assert estimation_error(truth[order], truth) == 0.0
    np.testing.assert_array_equal(truth[order][match_components(truth[order], truth)], truth)

    moved = truth.copy()
    moved[k // 2, 1] += 1e-9
    error = estimation_error(moved[order], truth)
    assert error == pytest.approx(1e-9, rel=1e-5)


def test_ties_and_repeated_components():
    truth = np.array([[0.0], [0.0], [1.0]])
    assert estimation_error([[0.0], [1.0], [0.0]], truth) == 0.0
    assert estimation_error([[0.0], [1.0], [1.0]], truth) == 1.0
    assert estimation_error(np.zeros((3, 1)), truth) == 1.0


def test_error_is_symmetric():
    estimate, truth = random_pair(8, 5, 0)
    assert estimation_error(estimate, truth) == pytest.approx(estimation_error(truth, estimate))


@pytest.mark.parametrize("metric", [estimation_error, match_components])
def test_components_are_checked(metric):
    with pytest.raises(ValueError, match=r"estimate has shape \(2, 3\) and truth \(3, 3\)"):
        metric(np.zeros((2, 3)), np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        metric(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="non-empty"):
        metric(np.zeros((0, 3)), np.zeros((0, 3)))
    with pytest.raises(ValueError, match="estimate has 1 values that are missing or infinite"):
        metric([[np.nan, 1.0]], [[0.0, 1.0]])
    with pytest.raises(ValueError, match="truth has 2 values"):
        metric([[0.0, 1.0]], [[np.inf, -np.inf]])


def rand_index_by_pairs(a: np.ndarray, b: np.ndarray) -> float:
    """Count pairs one by one, as the definition does."""
    pairs = [(a[i] == a[j], b[i] == b[j]) for i, j in combinations(range(len(a)), 2)]
    both = sum(x and y for x, y in pairs)
    in_a, in_b = sum(x for x, _ in pairs), sum(y for _, y in pairs)
    expected = in_a * in_b / len(pairs)
    return (both - expected) / ((in_a + in_b) / 2 - expected)


@pytest.mark.parametrize("seed", range(10))
def test_rand_index_equals_its_definition(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 4, 40), rng.integers(0, 3, 40)
    assert adjusted_rand_index(a, b) == pytest.approx(rand_index_by_pairs(a, b), abs=1e-14)
    assert adjusted_rand_index(a, b) == adjusted_rand_index(b, a)


def test_rand_index_by_hand():
    # One pair together in both, 2 in a, 1 in b, 6 in all: (1 - 2/6) / (3/2 - 2/6) = 4/7.
    assert adjusted_rand_index([0, 0, 1, 1], [0, 0, 1, 2]) == pytest.approx(4 / 7)
    assert adjusted_rand_index([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(-0.5)


def test_rand_index_of_the_same_partition_is_one_whatever_the_names():
    a = np.repeat([1, 2, 3], [5, 3, 2])
    named = np.array(["x", "y", "z"])[a - 1]
    assert adjusted_rand_index(a, named) == 1.0
    assert adjusted_rand_index(a, pd.Categorical(named)) == 1.0


def test_rand_index_of_trivial_partitions():
    assert adjusted_rand_index([1, 1, 1], [2, 2, 2]) == 1.0
    assert adjusted_rand_index([1, 2, 3], [3, 1, 2]) == 1.0
    assert adjusted_rand_index([1], [1]) == 1.0
    assert adjusted_rand_index([1, 1, 1], [1, 2, 3]) == 0.0


def test_rand_index_does_not_overflow():
    # The product of two numbers of pairs does not fit in 64 bits here.
    a = np.repeat([0, 1], 100_000)
    assert adjusted_rand_index(a, 1 - a) == 1.0


def test_rand_index_of_unrelated_labels_is_near_zero():
    rng = np.random.default_rng(3)
    assert abs(adjusted_rand_index(rng.integers(0, 3, 5000), rng.integers(0, 3, 5000))) < 0.005


@pytest.mark.parametrize("seed", range(10))
def test_misclassification_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, 60)
    labels = np.where(rng.random(60) < 0.5, truth, rng.integers(0, 4, 60))
    best = min(np.mean(np.array(o)[labels] != truth) for o in permutations(range(4)))
    assert misclassification_rate(labels, truth) == pytest.approx(best, abs=1e-14)


def test_misclassification_with_unequal_numbers_of_classes():
    assert misclassification_rate([1, 1, 1, 1], [1, 1, 2, 3]) == 0.5
    assert misclassification_rate([1, 2, 3, 4], [1, 1, 1, 1]) == 0.75
    assert misclassification_rate(["a", "b"], [7, 3]) == 0.0


@pytest.mark.parametrize("metric", [adjusted_rand_index, misclassification_rate])
def test_labels_are_checked(metric):
    with pytest.raises(ValueError, match=r"has 2 entries and .* 3;"):
        metric([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"has shape \(0,\)"):
        metric([], [])
    with pytest.raises(ValueError, match=r"has shape \(1, 2\)"):
        metric([[1, 2]], [1, 2])
    with pytest.raises(ValueError, match="1 missing entries"):
        metric([1.0, np.nan], [1, 2])
