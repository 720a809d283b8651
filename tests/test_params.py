"""Parameters survive every change of form, and components move as one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixreg.mixture.layout import Layout
from mixreg.mixture.parameters import Parameters, log_gating
from tests.samples import random_mixture

SHAPES = [(1, 1), (1, 3), (2, 1), (3, 2), (5, 4)]


def layout(k: int, p: int, equal_variance: bool = False) -> Layout:
    return Layout(k, tuple(f"x{i}" for i in range(1, p + 1)), equal_variance)


def assert_same(a: Parameters, b: Parameters, rtol: float = 0.0) -> None:
    for name in ("coef", "dispersion", "gating"):
        assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize(("k", "p"), SHAPES)
@pytest.mark.parametrize("equal", [False, True])
def test_a_mixture_survives_the_flat_vector(k, p, equal):
    mixture = random_mixture(k, p)
    if equal:
        mixture = mixture.with_equal_dispersion(0.7)
    where = layout(k, p, equal)
    vector = where.pack(mixture)
    assert vector.shape == (where.size,)
    assert_same(where.unpack(vector), mixture, 1e-13)
    assert_allclose(where.pack(where.unpack(vector)), vector, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("k", "p"), SHAPES)
@pytest.mark.parametrize("equal", [False, True])
def test_every_place_of_the_vector_is_used_once(k, p, equal):
    where = layout(k, p, equal)
    scale = np.unique(where.scale_index())
    places = np.concatenate([where.coef_index().ravel(), scale, where.gating_index()])
    assert_array_equal(np.sort(places), np.arange(where.size))
    assert len(where.names) == len(set(where.names)) == where.size
    assert where.size == k * p + (1 if equal else k) + k - 1


def test_names_with_free_variances():
    assert layout(2, 2).names == [
        *("x1[1]", "x2[1]", "log(sigma)[1]"),
        *("x1[2]", "x2[2]", "log(sigma)[2]"),
        "logit(weight)[2]",
    ]


def test_names_with_one_variance():
    assert layout(3, 1, equal_variance=True).names == [
        *("x1[1]", "x1[2]", "x1[3]"),
        "log(sigma)",
        *("logit(weight)[2]", "logit(weight)[3]"),
    ]


def test_names_say_what_the_vector_holds():
    mixture, where = random_mixture(3, 2), layout(3, 2)
    named = dict(zip(where.names, where.pack(mixture), strict=True))
    assert named["x2[3]"] == mixture.coef[2, 1]
    assert named["log(sigma)[2]"] == pytest.approx(np.log(np.sqrt(mixture.dispersion[1])))
    ratio = mixture.weights[2] / mixture.weights[0]
    assert named["logit(weight)[3]"] == pytest.approx(np.log(ratio))


def test_weights_sum_to_one_whatever_the_gate_is_shifted_by():
    mixture = random_mixture(4, 2, runs=3)
    shifted = Parameters(mixture.coef, mixture.dispersion, mixture.gating + 700.0)
    assert_allclose(shifted.weights.sum(axis=0), 1, rtol=1e-14)
    assert_allclose(shifted.weights, mixture.weights, rtol=1e-12)
    assert_allclose(np.exp(shifted.log_weights), mixture.weights, rtol=1e-12)


def test_an_empty_component_has_a_finite_gate():
    gate = log_gating(np.array([1.0, 0.0]))
    assert np.isfinite(gate).all()
    mixture = Parameters(np.zeros((2, 1)), np.ones(2), gate)
    assert_allclose(mixture.weights, [1.0, 1e-300], rtol=1e-12)


@pytest.mark.parametrize("runs", [None, 2])
def test_permuting_moves_whole_components(runs):
    mixture, order = random_mixture(4, 3, runs=runs), [2, 0, 3, 1]
    moved = mixture.permute(order)
    for place, component in enumerate(order):
        assert_array_equal(moved.coef[place], mixture.coef[component])
        assert_array_equal(moved.dispersion[place], mixture.dispersion[component])
        assert_array_equal(moved.gating[place], mixture.gating[component])
    assert_same(moved.permute(np.argsort(order)), mixture)


def test_by_weight_puts_the_largest_first():
    mixture = random_mixture(6, 2)
    ordered = mixture.by_weight()
    assert (np.diff(ordered.weights) <= 0).all()
    assert_same(ordered, mixture.permute(np.argsort(-mixture.weights)))
    assert_same(ordered.by_weight(), ordered)


def test_equal_weights_are_ordered_by_coefficients():
    coef = np.array([[1.0, 5.0], [0.0, 2.0], [0.0, -1.0], [-3.0, 9.0]])
    mixture = Parameters(coef, np.ones(4), log_gating(np.full(4, 0.25)))
    assert_array_equal(mixture.by_weight().coef, coef[[3, 2, 1, 0]])


@pytest.mark.parametrize(("k", "p"), SHAPES)
def test_contraction_maps_one_variance_to_one_each(k, p):
    mixture = random_mixture(k, p).with_equal_dispersion(0.4)
    common = layout(k, p, equal_variance=True)
    J = common.contraction()
    assert J.shape == (common.free().size, common.size)
    assert_allclose(J @ common.pack(mixture), common.free().pack(mixture), rtol=1e-14)
    assert_array_equal(J.sum(axis=0)[common.coef_index().ravel()], 1)
    assert J.sum(axis=0)[common.scale_index()[0]] == k
    assert_array_equal(layout(k, p).contraction(), np.eye(layout(k, p).size))


def test_blend_stays_arrives_and_meets_halfway():
    here, there = random_mixture(3, 2, seed=1, runs=3), random_mixture(3, 2, seed=2, runs=3)
    met = here.blend(there, np.array([0.0, 1.0, 0.5]))
    assert_same(met.run(0), here.run(0), 1e-15)
    assert_same(met.run(1), there.run(1), 1e-15)
    assert_allclose(met.coef[:, 2], (here.coef + there.coef)[:, 2] / 2)
    assert_allclose(met.dispersion[:, 2], np.sqrt(here.dispersion * there.dispersion)[:, 2])


def test_choose_keeps_some_runs_and_takes_the_rest():
    here, there = random_mixture(2, 3, seed=1, runs=3), random_mixture(2, 3, seed=2, runs=3)
    mixed = here.choose(np.array([True, False, True]), there)
    for run, source in enumerate((here, there, here)):
        assert_same(mixed.run(run), source.run(run))


def test_stacks_are_taken_apart_and_joined():
    stack = random_mixture(3, 2, runs=4)
    assert_same(Parameters.concatenate([stack.run(i).stacked() for i in range(4)]), stack)
    assert_same(stack.take([2, 0]).run(0), stack.run(2))
    assert_same(stack.take(np.array([False, True, False, True])).run(1), stack.run(3))
    joined = Parameters.concatenate([stack.take([3]), stack.take([1, 2])])
    assert joined.coef.shape == (3, 3, 2)
    assert_same(joined.run(2), stack.run(2))


def test_one_dispersion_for_all():
    mixture = random_mixture(3, 2)
    equal = mixture.with_equal_dispersion(0.25)
    assert_array_equal(equal.dispersion, np.full(3, 0.25))
    assert_array_equal(equal.coef, mixture.coef)
    assert equal.dispersion.flags.writeable
