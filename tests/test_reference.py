"""The stored R fits must be what they claim to be before anything is compared with them."""

import json
from importlib import resources

import numpy as np
import pandas as pd
import patsy
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from tests.reference import Reference, case, cases

EVERY = pytest.mark.parametrize("ref", cases(), ids=str)


def design(ref: Reference) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    data = ref.data()
    y, X = patsy.dmatrices(ref.formula, data, return_type="dataframe")
    group = np.arange(len(data)) if ref.groups is None else pd.factorize(data[ref.groups])[0]
    return y.to_numpy()[:, 0], X, group


def joint_log_density(ref: Reference, coefficients: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Log of prior times density by component and group, shape (k, groups)."""
    y, X, group = design(ref)
    rows = norm.logpdf(y, coefficients @ X.to_numpy().T, sigma[:, None])
    sums = np.array([np.bincount(group, row) for row in rows])
    return np.log(ref.weights)[:, None] + sums


def test_all_cases_are_there():
    names = {c.case for c in cases()}
    assert names == {
        *(f"cheese_k{k}" for k in range(1, 7)),
        *(f"tonedata_k{k}" for k in (1, 2, 3)),
        *("CO2data_k2", "NPreg_yn_k2", "NPreg_yn_id2_k2", "sim_n1000_p1_k3", "sim_n500_p2_k2"),
    }
    assert {c.case for c in cases("tonedata")} == {"tonedata_k1", "tonedata_k2", "tonedata_k3"}
    assert case("cheese_k6").k == 6


@EVERY
def test_terms_are_named_as_patsy_names_them(ref):
    _, X, group = design(ref)
    assert ref.terms == tuple(X.columns)
    assert (ref.n, ref.n_groups) == (len(X), group.max() + 1)


@EVERY
def test_shapes_and_degrees_of_freedom(ref):
    p = len(ref.terms)
    for errors in (ref.se, ref.flexmix_refit_se):
        assert errors.coefficients.shape == ref.coefficients.shape == (ref.k, p)
        assert errors.log_sigma.shape == ref.sigma.shape == ref.weights.shape == (ref.k,)
        assert errors.log_odds.shape == (ref.k - 1,)
    assert ref.df == ref.k * (p + 1) + ref.k - 1
    assert (np.diff(ref.weights) <= 0).all()


@EVERY
def test_log_likelihood_is_the_one_at_the_stored_parameters(ref):
    joint = joint_log_density(ref, ref.coefficients, ref.sigma)
    assert logsumexp(joint, axis=0).sum() == pytest.approx(ref.llf, rel=0, abs=1e-8)


@EVERY
def test_criteria(ref):
    joint = joint_log_density(ref, ref.coefficients, ref.sigma)
    log_posterior = joint - logsumexp(joint, axis=0)
    entropy = -(np.exp(log_posterior) * log_posterior).sum()
    assert entropy == pytest.approx(ref.entropy, rel=1e-6, abs=1e-9)
    assert ref.aic == pytest.approx(2 * ref.df - 2 * ref.llf, rel=1e-12)
    assert ref.bic_rows == pytest.approx(ref.df * np.log(ref.n) - 2 * ref.llf, rel=1e-12)
    assert ref.bic_groups == pytest.approx(ref.df * np.log(ref.n_groups) - 2 * ref.llf, rel=1e-12)


@EVERY
def test_stored_parameters_are_a_maximum(ref):
    # One step of the textbook EM algorithm must leave a maximum where it is.
    y, X, group = design(ref)
    joint = joint_log_density(ref, ref.coefficients, ref.sigma)
    posterior = np.exp(joint - logsumexp(joint, axis=0))
    np.testing.assert_allclose(posterior.mean(axis=1), ref.weights, atol=1e-8)
    for j, w in enumerate(posterior[:, group]):
        root = np.sqrt(w)
        beta = np.linalg.lstsq(X.to_numpy() * root[:, None], y * root, rcond=None)[0]
        np.testing.assert_allclose(beta, ref.coefficients[j], rtol=1e-6, atol=1e-8)
        sigma = np.sqrt(w @ (y - X.to_numpy() @ beta) ** 2 / w.sum())
        assert sigma == pytest.approx(ref.sigma[j], rel=1e-6)


@EVERY
def test_flexmix_stays_just_below_the_maximum(ref):
    assert 0 < ref.llf - ref.flexmix_llf < 0.05
    assert ref.best_known > ref.llf - 1e-8


def test_where_a_better_optimum_than_r_found_is_known():
    assert [c.case for c in cases() if not c.is_best_known] == ["cheese_k5", "cheese_k6"]


def test_files_do_not_hold_anything_else():
    for file in resources.files("tests.reference").iterdir():
        if file.name.endswith(".json"):
            stored = json.loads(file.read_text(encoding="utf-8"))
            assert f"{stored['case']}.json" == file.name
            assert stored["software"]["flexmix"] == "2.3.18"
