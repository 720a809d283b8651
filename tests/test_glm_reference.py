"""The stored R fits of counts, yes-or-no responses and choices must be what they claim to be.

Everything is computed here from the data and the stored parameters with patsy and scipy alone,
without a fit of ours.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

import numpy as np
import pandas as pd
import patsy
import pytest
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import norm, poisson

from tests.reference.glm import GlmReference, Part, glm_case, glm_cases

CASES = glm_cases()
EVERY = pytest.mark.parametrize("ref", CASES, ids=str)
# Without repeats a mixture of Bernoulli regressions has no maximum: coefficients run away.
RUNAWAY = "NPreg_yb_k2"
WITH_ERRORS = pytest.mark.parametrize(
    "ref", [c for c in CASES if c.log_odds_se is not None], ids=str
)


@dataclass(frozen=True)
class Regression:
    """Data of one response, and which place of the parameter vector each coefficient takes."""

    part: Part
    y: np.ndarray
    x: pd.DataFrame
    offset: np.ndarray
    sets: np.ndarray | None
    places: np.ndarray  # (k, p), -1 where a component lacks the term

    def by_row(self, eta: np.ndarray, sigma: float | None) -> tuple[np.ndarray, ...]:
        """Log density, its derivative by eta, and by log sigma, row by row."""
        y, nothing = self.y, np.zeros_like(self.y)
        if self.part.family == "gaussian":
            z = (y - eta) / sigma
            return norm.logpdf(y, eta, sigma), z / sigma, z**2 - 1
        if self.part.family == "poisson":
            return poisson.logpmf(y, np.exp(eta)), y - np.exp(eta), nothing
        if self.part.family == "binomial":
            return log_expit((2 * y - 1) * eta), y - expit(eta), nothing
        assert self.part.family == "choice"
        log_share = eta - np.log(np.bincount(self.sets, np.exp(eta)))[self.sets]
        return y * log_share, y - np.exp(log_share), nothing


class Likelihood:
    """Log-likelihood and score of a case as functions of its free parameters.

    They are the coefficients (shared ones once) and log sigmas of every response, then the
    log-odds of the weights against the first.
    """

    def __init__(self, ref: GlmReference) -> None:
        data = ref.data()
        self.k = ref.k
        self.group = (
            np.arange(len(data)) if ref.groups is None else pd.factorize(data[ref.groups])[0]
        )
        self.regressions: list[Regression] = []
        self.log_sigma_places: list[np.ndarray | None] = []
        at: list[float] = []
        se: list[float] = []
        for part in ref.parts:
            y, x = patsy.dmatrices(part.formula, data, return_type="dataframe")
            offset = np.zeros(len(y))
            if part.offset is not None:
                offset = np.asarray(patsy.dmatrix(f"0 + {part.offset}", data))[:, 0]
            sets = None if ref.choice_set is None else pd.factorize(data[ref.choice_set])[0]
            places = np.full(part.coefficients.shape, -1)
            for j, m in np.argwhere(part.present):
                shared = part.terms[m] in part.shared
                if shared and j > 0:
                    places[j, m] = places[0, m]
                    continue
                places[j, m] = len(at)
                at.append(part.coefficients[j, m])
                se.append(np.nan if part.se is None else part.se[j, m])
            self.regressions.append(Regression(part, y.to_numpy()[:, 0], x, offset, sets, places))
            self.log_sigma_places.append(None)
            if part.sigma is not None:
                self.log_sigma_places[-1] = len(at) + np.arange(ref.k)
                at.extend(np.log(part.sigma))
                se.extend(part.log_sigma_se)
        self.n_before_odds = len(at)
        self.at = np.array([*at, *np.log(ref.weights[1:] / ref.weights[0])])
        self.se = None if ref.log_odds_se is None else np.array([*se, *ref.log_odds_se])

    def joint(self, theta: np.ndarray) -> tuple[np.ndarray, list[list[tuple[np.ndarray, ...]]]]:
        """Log of weight times density by component and group, and what each row adds."""
        odds = np.append(0.0, theta[self.n_before_odds :])
        total = np.repeat((odds - logsumexp(odds))[:, None], self.group.max() + 1, axis=1)
        rows = []
        for regression, sigma_places in zip(self.regressions, self.log_sigma_places, strict=True):
            coefficients = np.where(regression.places < 0, 0.0, theta[regression.places])
            eta = coefficients @ regression.x.to_numpy().T + regression.offset
            sigma = [None] * self.k if sigma_places is None else np.exp(theta[sigma_places])
            rows.append([regression.by_row(eta[j], sigma[j]) for j in range(self.k)])
            total = total + [np.bincount(self.group, row[0]) for row in rows[-1]]
        return total, rows

    def llf(self, theta: np.ndarray) -> float:
        return float(logsumexp(self.joint(theta)[0], axis=0).sum())

    def posterior(self, theta: np.ndarray) -> np.ndarray:
        joint = self.joint(theta)[0]
        return np.exp(joint - logsumexp(joint, axis=0))

    def score(self, theta: np.ndarray) -> np.ndarray:
        joint, rows = self.joint(theta)
        posterior = np.exp(joint - logsumexp(joint, axis=0))
        weights = np.exp(np.append(0.0, theta[self.n_before_odds :]))
        weights /= weights.sum()
        score = np.zeros_like(theta)
        score[self.n_before_odds :] = (posterior.sum(axis=1) - joint.shape[1] * weights)[1:]
        for i, regression in enumerate(self.regressions):
            for j in range(self.k):
                w = posterior[j][self.group]
                _, by_eta, by_log_sigma = rows[i][j]
                present = regression.places[j] >= 0
                slopes = (w * by_eta) @ regression.x.to_numpy()[:, present]
                score[regression.places[j][present]] += slopes
                if self.log_sigma_places[i] is not None:
                    score[self.log_sigma_places[i][j]] = w @ by_log_sigma
        return score

    @cached_property
    def information(self) -> np.ndarray:
        """Observed information at the stored parameters, by differences of the exact score."""
        step = 1e-5
        rows = [
            (self.score(self.at - e) - self.score(self.at + e)) / (2 * step)
            for e in step * np.eye(len(self.at))
        ]
        return (np.array(rows) + np.array(rows).T) / 2


def test_all_cases_are_there():
    assert {c.case for c in CASES} == {
        *(f"NMES_{size}_k{k}" for size in ("short", "full") for k in (1, 2, 3)),
        *("NPreg_yp_k2", "NPreg_yb_k2", "NPreg_yb_id2_k2", "NPreg_joint_k2"),
        *(f"fabricfault_{kind}_k2" for kind in ("free", "fix", "offset", "nested")),
        *(f"camera_choice_k{k}" for k in (1, 2, 3)),
    }
    assert [c.k for c in glm_cases("NMES_short")] == [1, 2, 3]


@EVERY
def test_terms_are_named_as_patsy_names_them(ref):
    likelihood = Likelihood(ref)
    for regression in likelihood.regressions:
        assert regression.part.terms == tuple(regression.x.columns)
        assert set(regression.part.shared) <= set(regression.part.terms)
        assert len(regression.y) == ref.n
    assert likelihood.group.max() + 1 == ref.n_groups


@EVERY
def test_shapes_and_degrees_of_freedom(ref):
    assert ref.df == sum(part.n_free for part in ref.parts) + ref.k - 1
    assert ref.df == len(Likelihood(ref).at)
    assert ref.weights.sum() == pytest.approx(1.0, rel=1e-12)
    nested = ref.case == "fabricfault_nested_k2"
    assert (np.diff(ref.weights) <= 0).all() or nested
    for part in ref.parts:
        shape = (ref.k, len(part.terms))
        assert part.coefficients.shape == part.present.shape == shape
        assert part.present.all() or nested
        for errors in (part.se, part.refit_se):
            assert errors is None or errors.shape == shape
    for odds in (ref.log_odds_se, ref.refit_log_odds_se):
        assert odds is None or odds.shape == (ref.k - 1,)


@EVERY
def test_log_likelihood_is_the_one_at_the_stored_parameters(ref):
    likelihood = Likelihood(ref)
    # flexmix reports the value before its last M-step, and the choice models are not polished.
    rel = 1e-10 if ref.dataset == "camera" else 1e-12
    assert likelihood.llf(likelihood.at) == pytest.approx(ref.llf, rel=rel)


@EVERY
def test_entropy(ref):
    likelihood = Likelihood(ref)
    posterior = likelihood.posterior(likelihood.at)
    entropy = -(posterior * np.log(posterior, where=posterior > 0, out=0 * posterior)).sum()
    if ref.entropy is not None:
        assert entropy == pytest.approx(ref.entropy, rel=1e-6, abs=1e-9)


@EVERY
def test_stored_parameters_are_a_maximum(ref):
    likelihood = Likelihood(ref)
    score, information = likelihood.score(likelihood.at), likelihood.information
    if ref.case == RUNAWAY:
        assert not ref.positive_definite
        return
    assert np.linalg.eigvalsh(information).min() > 0
    # What one more Newton step would gain. The choice models are as flexmix left them.
    gain = score @ np.linalg.solve(information, score) / 2
    assert gain < (1e-4 if ref.dataset == "camera" else 1e-9)


def test_the_score_is_that_of_the_likelihood():
    for name in ("NPreg_joint_k2", "fabricfault_nested_k2", "NPreg_yb_id2_k2", "camera_choice_k2"):
        likelihood = Likelihood(glm_case(name))
        theta = likelihood.at + 0.1
        step = 1e-6
        numeric = [
            (likelihood.llf(theta + e) - likelihood.llf(theta - e)) / (2 * step)
            for e in step * np.eye(len(theta))
        ]
        score = likelihood.score(theta)
        np.testing.assert_allclose(score, numeric, rtol=1e-5, atol=1e-5 * np.abs(score).max())


@WITH_ERRORS
def test_standard_errors_are_those_of_the_observed_information(ref):
    likelihood = Likelihood(ref)
    exact = np.sqrt(np.diag(np.linalg.inv(likelihood.information)))
    np.testing.assert_allclose(likelihood.se, exact, rtol=1e-6)
    for part in ref.parts:
        shared = np.isin(part.terms, part.shared)
        assert (part.se[:, shared] == part.se[0, shared]).all()
        assert (part.coefficients[:, shared] == part.coefficients[0, shared]).all()
        assert (np.isnan(part.se) == ~part.present).all()


@WITH_ERRORS
def test_refit_agrees_with_the_observed_information(ref):
    # R's refit differs most where the information is nearly singular.
    rtol = 0.05 if ref.case == "NMES_full_k3" else 1e-3
    for part in ref.parts:
        np.testing.assert_allclose(part.refit_se, part.se, rtol=rtol)
        if part.sigma is not None:
            np.testing.assert_allclose(part.refit_log_sigma_se, part.log_sigma_se, rtol=rtol)
    np.testing.assert_allclose(ref.refit_log_odds_se, ref.log_odds_se, rtol=rtol)


def test_cases_without_standard_errors():
    without = {c.case for c in CASES if c.log_odds_se is None}
    assert without == {RUNAWAY, *(f"camera_choice_k{k}" for k in (1, 2, 3))}


@EVERY
def test_flexmix_stays_just_below_the_maximum(ref):
    if ref.flexmix is None:
        assert ref.case == "camera_choice_k1"
        return
    # The Gaussian sigma of flexmix costs the joint case a little.
    below = {RUNAWAY: 4.0, "NPreg_joint_k2": 0.02}.get(ref.case, 1e-4)
    assert -1e-9 <= ref.llf - ref.flexmix.llf < below
    assert 1 <= ref.flexmix.n_reached <= ref.flexmix.n_starts
    if ref.flexmix_default is not None:
        assert ref.flexmix_default.llf <= ref.llf
        assert 0 <= ref.flexmix_default.n_reached <= ref.flexmix_default.n_starts


def test_where_a_better_optimum_than_r_found_is_known():
    assert [c.case for c in CASES if not c.is_best_known] == ["NMES_full_k3"]
    for c in CASES:
        assert c.best_known is None or c.best_known > c.llf - 1e-6


def test_files_do_not_hold_anything_else():
    for file in resources.files("tests.reference.glm").iterdir():
        if file.name.endswith(".json"):
            stored = json.loads(file.read_text(encoding="utf-8"))
            assert f"{stored['case']}.json" == file.name
            assert stored["software"]["flexmix"] == "2.3.18"
