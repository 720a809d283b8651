"""Many regressors: segments peeled off one by one, and EM without products of all pairs."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment

from mixreg import MixReg
from mixreg.estimators import EM, Control, iterate
from mixreg.estimators.lean import LeanEM, lean
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.peel import peel
from mixreg.sources import in_memory
from mixreg.sources.block import Block

UNEVEN, EVEN = (0.7, 0.2, 0.1), (1 / 3, 1 / 3, 1 / 3)


def drawn(n, p, shares, noise=0.01, seed=0, outliers=0.0):
    """Rows of segments of given shares, and their coefficients; labels -1 are outliers."""
    rng = np.random.default_rng(seed)
    X, coef = rng.standard_normal((n, p)), rng.standard_normal((len(shares), p))
    labels = rng.choice(len(shares), n, p=shares)
    y = np.einsum("ij,ij->i", X, coef[labels]) + noise * rng.standard_normal(n)
    bad = rng.permutation(n)[: round(outliers * n)]
    y[bad], labels[bad] = y.std() * rng.standard_normal(len(bad)), -1
    return X, y, labels, coef


def farthest(found, coef) -> float:
    """Largest distance of a segment's coefficients from the truth."""
    far = np.linalg.norm(found[:, None] - coef, axis=2)
    return float(far[linear_sum_assignment(far)].max())


def of_labels(X, y, labels, coef) -> float:
    own = [np.linalg.lstsq(X[labels == j], y[labels == j])[0] for j in range(len(coef))]
    return farthest(np.array(own), coef)


def coefficients(results, k):
    return results.coefficients.to_numpy().T[:k]


# Segments of different size


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_small_segments_with_hardly_more_rows_than_regressors_are_found(seed):
    X, y, labels, coef = drawn(480, 36, UNEVEN, seed=seed)
    results = MixReg(y, X, k=3).fit(seed=seed)
    assert farthest(coefficients(results, 3), coef) < 2 * of_labels(X, y, labels, coef)
    assert results.diagnostics.search.starts == 1


def test_outliers_are_left_to_the_background():
    X, y, labels, coef = drawn(700, 40, UNEVEN, seed=1, outliers=0.05)
    results = MixReg(y, X, k=3, noise=True).fit()
    assert farthest(coefficients(results, 3), coef) < 2 * of_labels(X, y, labels, coef)
    assert results.diagnostics.search.starts == 1


def test_segments_of_one_size_are_found_by_other_starts_which_end_the_search():
    X, y, labels, coef = drawn(700, 40, EVEN)
    results = MixReg(y, X, k=3).fit()
    assert farthest(coefficients(results, 3), coef) < 2 * of_labels(X, y, labels, coef)
    assert results.diagnostics.search.starts < 20
    assert results.diagnostics.search.moves == 0


@pytest.mark.parametrize("seed", range(6))
def test_more_components_than_segments_do_not_end_the_search(seed):
    X, y, _, _ = drawn(500, 16, (0.7, 0.3), seed=seed)
    results = MixReg(y, X, k=3).fit(cov_type="none")
    assert results.diagnostics.search.starts > 1


def test_fewer_components_than_segments_do_not_end_the_search():
    X, y, _, _ = drawn(700, 16, UNEVEN)
    results = MixReg(y, X, k=2).fit(cov_type="none")
    assert results.diagnostics.search.starts > 1


def test_without_noise_the_fit_is_exact_and_certified():
    X, y, _, coef = drawn(400, 20, UNEVEN, noise=0.0)
    results = MixReg(y, X, k=3).fit()
    assert farthest(coefficients(results, 3), coef) < 1e-9
    assert results.diagnostics.certified


def test_the_same_seed_peels_off_the_same():
    X, y, _, _ = drawn(300, 24, (0.5, 0.3, 0.2), seed=4)
    first, again = (MixReg(y, X, k=3).fit(seed=3) for _ in range(2))
    assert_array_equal(first.params, again.params)


def test_layers_are_the_segments_largest_first():
    X, y, labels, coef = drawn(900, 20, (0.1, 0.65, 0.25))
    layers = peel(X, y, np.ones(len(y)), 3, np.random.default_rng(0))
    assert len(layers) == 3
    for layer, j in zip(layers, (1, 2, 0), strict=True):
        assert_allclose(layer.coef, coef[j], atol=0.02)
        assert abs(layer.share.sum() - np.count_nonzero(labels == j)) < 10


def test_rows_without_weight_count_for_nothing():
    X, y, _, coef = drawn(500, 20, (0.7, 0.3))
    wild = np.random.default_rng(1).standard_normal(400) * 50
    both = np.vstack([X, X[:400]]), np.concatenate([y, wild])
    weight = np.repeat([1.0, 0.0], [500, 400])
    layers = peel(*both, weight, 2, np.random.default_rng(0))
    assert farthest(np.array([layer.coef for layer in layers]), coef) < 0.02


# EM without products of all pairs


def wide(n=500, p=70, runs=4, **columns):
    """Rows in standard coordinates, and a stack of starts."""
    X, y, labels, _ = drawn(n, p, EVEN, noise=0.3)
    x = np.linalg.qr(X)[0] * np.sqrt(n)
    rng = np.random.default_rng(1)
    start = Parameters.uniform(rng.standard_normal((3, runs, p)) / np.sqrt(p), 0.5)
    return in_memory(Block(x, y / y.std(), **columns)), start, labels


@pytest.mark.parametrize("background", [None, 6.0])
@pytest.mark.parametrize("equal", [False, True])
def test_a_step_of_gradients_to_the_end_is_that_of_em(background, equal):
    source, start, _ = wide(weight=np.random.default_rng(2).uniform(0.5, 2.0, 500))
    mixture = Mixture(background=background)
    em = EM(mixture.common() if equal else mixture)
    start = em.mixture.prepare(start)
    found = replace(lean(em, source), gradients=400, left=1e-14)
    sums, plain = found.sweep(source, 0, start), em.sweep(source, 0, start)
    assert_allclose(sums.objective, plain.objective, rtol=1e-12)
    one, other = found.update(sums, start), em.update(plain, start)
    assert_allclose(one.coef, other.coef, atol=1e-10)
    assert_allclose(one.dispersion, other.dispersion, rtol=1e-9)
    assert_allclose(one.gating, other.gating, atol=1e-12)


def test_a_step_where_labels_are_sure_is_that_of_em():
    source, start, labels = wide(noise_free := 500)
    assert noise_free == source.rows
    known = source.with_columns(known=labels)
    em = EM(Mixture(labelled=True))
    # Few gradients: products of each row with itself cost less, and are exact.
    found = replace(lean(em, known), gradients=12)
    one = found.update(found.sweep(known, 0, start), start)
    other = em.update(em.sweep(known, 0, start), start)
    assert_allclose(one.coef, other.coef, atol=1e-10)


def test_the_likelihood_rises_at_every_step_of_gradients():
    source, start, _ = wide(n=900, p=120)
    for fit in iterate(source, lean(EM(Mixture()), source), start, Control(60, 0.0)):
        assert np.diff(fit.history).min() > -1e-8


def test_few_regressors_shared_terms_and_other_families_go_by_plain_em():
    source, _, _ = wide(p=70)
    assert isinstance(lean(EM(Mixture()), source), LeanEM)
    assert not isinstance(lean(EM(Mixture(shared=1)), source), LeanEM)
    few, _, _ = wide(p=20)
    assert not isinstance(lean(EM(Mixture()), few), LeanEM)


def test_a_run_of_many_regressors_ends_where_plain_em_does(monkeypatch):
    X, y, labels, _ = drawn(700, 64, (0.5, 0.3, 0.2))
    model = MixReg(y, X, k=3)
    ended = model.fit(init=labels + 1)
    monkeypatch.setattr("mixreg.sources.memory.LEAN_PRODUCTS", 1000)
    plain = model.fit(init=labels + 1)
    assert ended.llf == pytest.approx(plain.llf, abs=1e-7)
    assert_allclose(ended.params, plain.params, rtol=1e-6, atol=1e-8)
    assert_allclose(ended.bse, plain.bse, rtol=1e-5)
