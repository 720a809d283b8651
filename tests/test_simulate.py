"""Simulated data have exactly the geometry and the randomness they promise."""

from dataclasses import FrozenInstanceError
from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import chisquare, kstest

from mixreg.simulate import mixed_linear_equations, mixture_of_regressions


@pytest.mark.parametrize(("p", "k"), [(1, 1), (2, 2), (5, 3), (10, 10), (40, 7)])
@pytest.mark.parametrize("delta", [0.05, 1.2, np.sqrt(2)])
def test_coefficients_are_unit_vectors_delta_apart(p, k, delta):
    B = mixed_linear_equations(3, p, k, delta, seed=p).coefficients
    assert B.shape == (k, p)
    np.testing.assert_allclose(np.linalg.norm(B, axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(pdist(B), delta, atol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_largest_delta_is_a_regular_simplex(k):
    largest = np.sqrt(2 * k / (k - 1))
    B = mixed_linear_equations(3, k, k, largest, seed=0).coefficients
    np.testing.assert_allclose(np.linalg.norm(B, axis=1), 1, atol=1e-7)
    np.testing.assert_allclose(pdist(B), largest, atol=1e-7)
    np.testing.assert_allclose(B.sum(axis=0), 0, atol=1e-7)


def test_without_noise_every_row_solves_its_own_equation():
    data = mixed_linear_equations(500, 6, 4, seed=1)
    residual = data.y - data.X @ data.coefficients[0]
    own = np.array([x @ data.coefficients[z - 1] for x, z in zip(data.X, data.labels, strict=True)])
    np.testing.assert_allclose(data.y, own, atol=1e-14)
    assert (np.abs(residual[data.labels != 1]) > 1e-6).all()


def test_a_single_component_has_no_largest_delta():
    data = mixed_linear_equations(5, 3, 1, delta=50.0, seed=0)
    assert np.linalg.norm(data.coefficients) == pytest.approx(1)
    assert set(data.labels) == {1}


def test_regressors_are_standard_normal():
    X = mixed_linear_equations(4000, 5, 2, seed=2).X
    assert kstest(X.ravel(), "norm").pvalue > 0.001
    np.testing.assert_allclose(np.cov(X.T), np.eye(5), atol=0.1)


def test_directions_have_no_preference():
    # The first coordinate of a uniform point on the sphere in 3 dimensions is uniform on (-1, 1).
    rng = np.random.default_rng(10)
    draws = [mixed_linear_equations(1, 3, 2, seed=rng).coefficients for _ in range(3_000)]
    for component, coordinate in ((0, 0), (1, 2)):
        values = np.array(draws)[:, component, coordinate]
        assert kstest(values, "uniform", args=(-1, 2)).pvalue > 0.001


@pytest.mark.parametrize("weights", [None, [0.2, 0.3, 0.5]])
def test_labels_follow_the_weights(weights):
    data = mixed_linear_equations(6000, 3, 3, weights=weights, seed=5)
    np.testing.assert_allclose(data.weights, np.full(3, 1 / 3) if weights is None else weights)
    counts = np.bincount(data.labels, minlength=4)
    assert counts[0] == 0
    assert len(counts) == 4
    assert chisquare(counts[1:], 6000 * data.weights).pvalue > 0.001


def test_noise_has_the_stated_deviation_and_changes_nothing_else():
    quiet = mixed_linear_equations(5000, 4, 3, seed=6)
    loud = mixed_linear_equations(5000, 4, 3, noise=0.7, seed=6)
    for name in ("X", "coefficients", "labels", "weights"):
        np.testing.assert_array_equal(getattr(quiet, name), getattr(loud, name))
    assert kstest((loud.y - quiet.y) / 0.7, "norm").pvalue > 0.001


def test_seeds():
    first, again = (mixed_linear_equations(20, 4, 2, seed=7) for _ in range(2))
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.y, mixed_linear_equations(20, 4, 2, seed=8).y)
    rng = np.random.default_rng(7)
    np.testing.assert_array_equal(first.y, mixed_linear_equations(20, 4, 2, seed=rng).y)
    assert not np.array_equal(first.y, mixed_linear_equations(20, 4, 2, seed=rng).y)
    unseeded = [mixed_linear_equations(20, 4, 2).y for _ in range(2)]
    assert not np.array_equal(*unseeded)


def test_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    mixed_linear_equations(20, 4, 2, seed=1)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_frame():
    data = mixed_linear_equations(30, 3, 2, seed=9)
    frame = data.frame()
    assert frame.columns.to_list() == ["y", "x1", "x2", "x3", "label"]
    np.testing.assert_array_equal(frame[["x1", "x2", "x3"]], data.X)
    np.testing.assert_array_equal(frame["y"], data.y)
    np.testing.assert_array_equal(frame["label"], data.labels)
    assert frame["label"].dtype == np.int64


def test_result_is_frozen():
    data = mixed_linear_equations(5, 2, 1, seed=0)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'y'"):
        data.y = data.y


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 6}, r"k=6 is larger than p=5; .*Try p=6"),
        ({"n": 0}, "n=0 is too small"),
        ({"p": 0}, "p=0 is too small"),
        ({"k": 0}, "k=0 is too small"),
        ({"delta": 0.0}, r"delta=0.0 is out of range; allowed is 0 < delta <= 1.73205 for k=3"),
        ({"delta": -1.2}, "delta=-1.2 is out of range"),
        ({"delta": 1.74}, "delta=1.74 is out of range"),
        ({"delta": np.nan}, "delta=nan is out of range"),
        ({"noise": -0.1}, "noise=-0.1 is not a standard deviation"),
        ({"noise": np.nan}, "noise=nan is not a standard deviation"),
        ({"noise": [0.1, 0.2]}, r"noise has shape \(2,\)"),
        ({"weights": [0.5, 0.5]}, r"weights has shape \(2,\); allowed is \(3,\)"),
        ({"weights": [0.5, 0.6, -0.1]}, "allowed are positive numbers that sum to 1"),
        ({"weights": [0.5, 0.5, 0.0]}, "allowed are positive numbers that sum to 1"),
        ({"weights": [0.5, 0.3, 0.3]}, "sum to 1.1;"),
        ({"weights": [0.5, 0.3, np.nan]}, "allowed are positive numbers that sum to 1"),
    ],
)
def test_arguments_out_of_range(change, message):
    arguments = {"n": 10, "p": 5, "k": 3, "seed": 0, **change}
    with pytest.raises(ValueError, match=message):
        mixed_linear_equations(**arguments)


@pytest.mark.parametrize("name", ["n", "p", "k"])
def test_sizes_must_be_whole_numbers(name):
    with pytest.raises(TypeError, match=f"{name}=2.0 is a float; allowed is a whole number"):
        mixed_linear_equations(**{"n": 9, "p": 3, "k": 2, name: 2.0})


def test_weights_may_miss_one_by_rounding():
    weights = np.array([1 / 3, 1 / 3, 1 / 3 + 5e-9])
    data = mixed_linear_equations(10, 3, 3, weights=weights, seed=0)
    assert data.weights.sum() == pytest.approx(1, abs=1e-15)


def test_given_parameters_are_drawn_from():
    rng = np.random.default_rng(10)
    X = np.column_stack([np.ones(9000), rng.standard_normal(9000)])
    coefficients, scale = np.array([[0.0, 1.0], [4.0, -2.0]]), np.array([0.5, 2.0])
    drawn = mixture_of_regressions(X, coefficients, [0.7, 0.3], scale, seed=rng)
    z = drawn.labels - 1
    assert chisquare(np.bincount(z), [6300, 2700]).pvalue > 0.001
    standardised = (drawn.y - (X * coefficients[z]).sum(axis=1)) / scale[z]
    for j in (0, 1):
        assert kstest(standardised[z == j], "norm").pvalue > 0.001


def test_one_scale_serves_all_components():
    arguments = (np.ones((50, 1)), [[0.0], [5.0]], [0.5, 0.5])
    one = mixture_of_regressions(*arguments, 0.3, seed=0)
    each = mixture_of_regressions(*arguments, [0.3, 0.3], seed=0)
    np.testing.assert_array_equal(one.y, each.y)


@pytest.mark.parametrize("names", [np.arange(400), np.array([f"shop {i}" for i in range(400)])])
def test_rows_of_a_group_share_one_label(names):
    rng = np.random.default_rng(11)
    # Every group is present; its rows are scattered and groups differ in size.
    groups = rng.permutation(np.concatenate([names, rng.choice(names, 1600)]))
    X = np.ones((2000, 1))
    drawn = mixture_of_regressions(X, [[0.0], [9.0]], [0.25, 0.75], 0.1, seed=12, groups=groups)
    labels = [set(drawn.labels[groups == name]) for name in names]
    assert all(len(seen) == 1 for seen in labels)
    # The weights are those of groups, not of rows.
    first = sum(seen == {1} for seen in labels)
    assert chisquare([first, 400 - first], [100, 300]).pvalue > 0.001


def test_groups_are_drawn_independently():
    pairs = np.repeat(np.arange(3000), 2)
    X = np.ones((6000, 1))
    labels = mixture_of_regressions(X, [[0.0], [1.0]], [0.5, 0.5], 0, seed=1, groups=pairs).labels
    by_group = labels[::2]
    agree = [
        (by_group[i::3][:1000] == by_group[j::3][:1000]).sum() for i, j in combinations(range(3), 2)
    ]
    assert all(chisquare([count, 1000 - count]).pvalue > 0.001 for count in agree)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.ones(4)}, r"X has shape \(4,\); allowed is a non-empty matrix"),
        ({"X": np.ones((0, 2))}, r"X has shape \(0, 2\)"),
        ({"X": np.array([[1.0, np.nan]] * 4)}, "X has 4 values that are missing or infinite"),
        ({"coefficients": np.ones((2, 3))}, r"coefficients has shape \(2, 3\).*\(k, 2\).*\.T"),
        ({"coefficients": [[np.inf, 1.0], [0.0, 1.0]]}, "coefficients has 1 values"),
        ({"weights": [1.0]}, r"weights has shape \(1,\); allowed is \(2,\)"),
        ({"scale": [1.0, -1.0]}, "is not a standard deviation"),
        ({"scale": [1.0, 1.0, 1.0]}, r"scale has shape \(3,\)"),
        ({"groups": [1, 1, 2]}, "groups has 3 entries; allowed is one for each of the 4 rows"),
        ({"groups": [1, 1, None, 2]}, "groups has 1 missing entries"),
    ],
)
def test_given_parameters_are_checked(change, message):
    arguments = {
        "X": np.ones((4, 2)),
        "coefficients": np.eye(2),
        "weights": [0.5, 0.5],
        "scale": 1.0,
        **change,
    }
    with pytest.raises(ValueError, match=message):
        mixture_of_regressions(**arguments, seed=0)
