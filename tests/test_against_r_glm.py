"""Fits of counts, yes-or-no responses and choices against R's; see tests/reference/README.md."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from patsy import dmatrix

from mixreg import MixReg, MixRegResults
from mixreg.errors import InputWarning
from mixreg.metrics import match_components
from tests.reference.glm import GlmReference, glm_case, glm_cases

# One component of the first lacks a term; the second has two responses.
LATER = ("fabricfault_nested_k2", "NPreg_joint_k2")
# A yes or no without repeats: coefficients run off to infinity, only the likelihood means much.
RUNAWAY = "NPreg_yb_k2"
CASES = [ref for ref in glm_cases() if ref.case not in LATER]
SAME = [ref for ref in CASES if ref.is_best_known and ref.case != RUNAWAY]
POLISHED = [ref for ref in SAME if ref.dataset != "camera"]
CAMERA = [ref for ref in SAME if ref.dataset == "camera"]
EVERY = pytest.mark.parametrize("ref", CASES, ids=str)


def model(ref: GlmReference) -> MixReg:
    part, data = ref.part, ref.data()
    offset = None if part.offset is None else np.asarray(dmatrix(f"0 + {part.offset}", data))[:, 0]
    return MixReg.from_formula(
        part.formula,
        data,
        k=ref.k,
        family=part.family,
        offset=offset,
        shared=list(part.shared) or None,
        groups=ref.groups,
        choice_set=ref.choice_set,
    )


@pytest.fixture(scope="module")
def fitted():
    """Fit every case once, when it is first asked for."""
    known: dict[str, MixRegResults] = {}

    def fit(ref: GlmReference) -> MixRegResults:
        if ref.case not in known:
            declared = model(ref)
            if ref.case == RUNAWAY:
                with pytest.warns(InputWarning, match="a single 0/1 answer"):
                    known[ref.case] = declared.fit()
            else:
                known[ref.case] = declared.fit()
        return known[ref.case]

    return fit


def in_rs_terms(res: MixRegResults, ref: GlmReference) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and their positions among the parameters, (k, p), in the reference's order."""
    where = [res.model.exog_names.index(term) for term in ref.part.terms]
    return res.coefficients.to_numpy().T[:, where], res.model.layout.coef_index()[:, where]


def as_vector(declared: MixReg, ref: GlmReference) -> np.ndarray:
    """R's estimates as a flat vector."""
    layout, part = declared.layout, ref.part
    where = [part.terms.index(term) for term in declared.exog_names]
    vector = np.empty(layout.size)
    vector[layout.coef_index()] = part.coefficients[:, where]
    vector[layout.gating_index()] = np.log(ref.weights[1:] / ref.weights[0])
    return vector


@EVERY
def test_no_better_optimum_is_known(ref, fitted):
    best = ref.llf if ref.best_known is None else max(ref.best_known, ref.llf)
    assert fitted(ref).llf >= best - 1e-6 - 1e-9 * abs(best)


@EVERY
def test_log_likelihood_at_rs_parameters(ref):
    declared = model(ref)
    # The choice models are stored with fewer digits.
    rel = 1e-8 if ref.dataset == "camera" else 1e-11
    assert declared.loglike(as_vector(declared, ref)) == pytest.approx(ref.llf, rel=rel)


@EVERY
def test_what_is_counted(ref, fitted):
    res = fitted(ref)
    assert (res.nobs, res.df_model, res.k) == (ref.n, ref.df, ref.k)
    assert sorted(res.model.exog_names) == sorted(ref.part.terms)
    groups = {"NPreg_yb_id2_k2": 50}.get(ref.case, 332 if ref.dataset == "camera" else None)
    assert res.ngroups == groups
    assert ref.n_groups == (res.nobs if groups is None else groups)


@pytest.mark.parametrize("ref", POLISHED, ids=str)
def test_estimates_are_those_of_r(ref, fitted):
    res = fitted(ref)
    assert res.llf == pytest.approx(ref.llf, abs=1e-6)
    found, _ = in_rs_terms(res, ref)
    order = match_components(found, ref.part.coefficients)
    assert_array_equal(order, np.arange(ref.k), "components are in another order")
    tiny = 1e-6 * np.abs(ref.part.coefficients).max()
    assert_allclose(found, ref.part.coefficients, rtol=1e-3, atol=tiny)
    assert_allclose(res.weights, ref.weights, rtol=1e-4)
    assert res.entropy == pytest.approx(ref.entropy, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("ref", POLISHED, ids=str)
def test_standard_errors_are_those_of_the_maximum(ref, fitted):
    res = fitted(ref)
    _, where = in_rs_terms(res, ref)
    bse, gate = res.bse.to_numpy(), res.model.layout.gating_index()
    assert_allclose(bse[where], ref.part.se, rtol=1e-3)
    assert_allclose(bse[gate], ref.log_odds_se, rtol=1e-3)


@pytest.mark.parametrize("ref", POLISHED, ids=str)
def test_standard_errors_are_close_to_those_of_rs_refit(ref, fitted):
    # With one component R's refit is the fit itself.
    res = fitted(ref)
    _, where = in_rs_terms(res, ref)
    bse, gate = res.bse.to_numpy(), res.model.layout.gating_index()
    assert_allclose(bse[where], ref.part.refit_se, rtol=0.02)
    assert_allclose(bse[gate], ref.refit_log_odds_se, rtol=0.02)


@pytest.mark.parametrize("ref", CAMERA, ids=str)
def test_choice_estimates_are_where_r_was_heading(ref, fitted):
    # R stopped a little early, 6e-6 below the maximum. A quadratic likelihood that is lower by d
    # lies within sqrt(2 d) = 0.0035 standard errors of its top, in whatever direction.
    res = fitted(ref)
    gap = res.llf - ref.llf
    assert -1e-9 * abs(ref.llf) <= gap < 1e-5
    found, where = in_rs_terms(res, ref)
    away = np.abs(found - ref.part.coefficients) / res.bse.to_numpy()[where]
    assert away.max() < 1.05 * np.sqrt(2 * max(gap, 0.0)) + 1e-4
    assert_allclose(found, ref.part.coefficients, rtol=1e-3, atol=1e-3)
    assert_allclose(res.weights, ref.weights, rtol=1e-3)


@pytest.mark.parametrize("ref", [ref for ref in CASES if ref.case != RUNAWAY], ids=str)
def test_the_default_fit_ends_at_a_maximum(ref, fitted):
    res = fitted(ref)
    assert res.converged
    gradient = res.model.score(res.params) * res.bse
    assert np.abs(gradient).max() < 1e-3
    assert (np.linalg.eigvalsh(res.model.hessian(res.params)) < 0).all()


@pytest.mark.parametrize("name", ["NMES_full_k3", "NMES_short_k3", "NMES_full_k2"])
def test_the_default_fit_is_at_least_as_good_as_the_best_of_rs_starts(name, fitted):
    ref = glm_case(name)
    assert fitted(ref).llf > ref.flexmix.llf - 1e-6


def test_where_no_start_of_r_found_the_best(fitted):
    ref = glm_case("NMES_full_k3")
    assert fitted(ref).llf > ref.llf + 60


@pytest.mark.parametrize("ref", POLISHED, ids=str)
def test_from_rs_coefficients_the_fit_ends_where_r_did(ref):
    declared = model(ref)
    where = [ref.part.terms.index(term) for term in declared.exog_names]
    res = declared.fit(init=ref.part.coefficients[:, where])
    assert res.llf == pytest.approx(ref.llf, abs=1e-6)


def test_a_runaway_fit_says_that_it_is_not_determined(fitted):
    res = fitted(glm_case(RUNAWAY))
    text = res.summary().as_text()
    assert "separated" in text or "do not determine" in text
