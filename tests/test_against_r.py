"""Fits against R's, with R's conventions written down in tests/reference/README.md."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mixreg import MixReg, MixRegResults
from mixreg.metrics import match_components
from tests.reference import Reference, case, cases

EVERY = pytest.mark.parametrize("ref", cases(), ids=str)
# On tonedata with k = 2 the default fit finds a higher optimum than any start of R did.
HIGHER = "tonedata_k2"
SAME = [ref for ref in cases() if ref.is_best_known and ref.case != HIGHER]


def model(ref: Reference) -> MixReg:
    return MixReg.from_formula(ref.formula, ref.data(), k=ref.k, groups=ref.groups)


@pytest.fixture(scope="module")
def fitted():
    """Fit every case once, when it is first asked for."""
    known: dict[str, MixRegResults] = {}

    def fit(ref: Reference) -> MixRegResults:
        if ref.case not in known:
            known[ref.case] = model(ref).fit()
        return known[ref.case]

    return fit


def assert_same_optimum(res: MixRegResults, ref: Reference) -> None:
    """Estimates to 1e-4, standard errors to 1 %."""
    found = res.coefficients.loc[list(ref.terms)].to_numpy().T
    order = match_components(found, ref.coefficients)
    np.testing.assert_array_equal(order, np.arange(ref.k), "components are in another order")
    size = np.abs(ref.coefficients).max(axis=0) * 1e-6
    assert_allclose(found, ref.coefficients, rtol=1e-4, atol=size.max())
    assert_allclose(res.scale, ref.sigma, rtol=1e-4)
    assert_allclose(res.weights, ref.weights, rtol=1e-4)
    where = res.model.layout
    bse = res.bse.to_numpy()
    assert_allclose(bse[where.coef_index()], ref.se.coefficients, rtol=0.01)
    assert_allclose(bse[where.scale_index()], ref.se.log_sigma, rtol=0.01)
    assert_allclose(bse[where.gating_index()], ref.se.log_odds, rtol=0.01)


@EVERY
def test_no_better_optimum_is_known(ref, fitted):
    assert fitted(ref).llf >= ref.best_known - 1e-6


@pytest.mark.parametrize("ref", SAME, ids=str)
def test_the_default_fit_is_that_of_r(ref, fitted):
    res = fitted(ref)
    assert res.llf == pytest.approx(ref.llf, abs=1e-6)
    assert_same_optimum(res, ref)


@EVERY
def test_from_rs_coefficients_the_fit_ends_where_r_did(ref):
    res = model(ref).fit(init=ref.coefficients)
    assert res.llf == pytest.approx(ref.llf, abs=1e-6)
    assert_same_optimum(res, ref)


@pytest.mark.parametrize("ref", SAME, ids=str)
def test_criteria_and_entropy(ref, fitted):
    res = fitted(ref)
    assert (res.nobs, res.df_model) == (ref.n, ref.df)
    assert res.ngroups == (None if ref.groups is None else ref.n_groups)
    assert res.aic == pytest.approx(ref.aic, abs=1e-5)
    # R counts rows; groups are the independent units.
    assert res.bic == pytest.approx(ref.bic_groups, abs=1e-5)
    assert res.entropy == pytest.approx(ref.entropy, rel=1e-4, abs=1e-6)
    assert res.icl == pytest.approx(ref.bic_groups + 2 * ref.entropy, abs=1e-2)


def test_tonedata_has_a_higher_optimum_than_r_found(fitted):
    ref = case(HIGHER)
    res = fitted(ref)
    assert res.llf == pytest.approx(145.4164, abs=0.01)
    assert res.llf > ref.best_known + 4
    # It is an optimum within the bound on the variances, not one that the bound made.
    ratio = (res.scale.min() / res.scale.max()) ** 2
    assert ratio > res.model.family.variance_ratio
    assert not res.solution.binds
    gradient = res.model.score(res.params) * res.bse
    assert np.abs(gradient).max() < 1e-3
    assert (np.linalg.eigvalsh(res.model.hessian(res.params)) < 0).all()


@pytest.mark.parametrize("name", ["cheese_k5", "cheese_k6"])
def test_where_no_start_of_r_found_the_best(name, fitted):
    ref = case(name)
    assert fitted(ref).llf > ref.llf + 0.5


@EVERY
def test_log_likelihood_at_rs_parameters(ref):
    declared = model(ref)
    vector = np.empty(declared.layout.size)
    vector[declared.layout.coef_index()] = ref.coefficients
    vector[declared.layout.scale_index()] = np.log(ref.sigma)
    vector[declared.layout.gating_index()] = np.log(ref.weights[1:] / ref.weights[0])
    assert declared.loglike(vector) == pytest.approx(ref.llf, abs=1e-8)
