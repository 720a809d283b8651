"""Responses that are rounded: how widely, and what fits make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import gamma, norm

from mixreg import MixReg
from mixreg.estimators.expectation import SoftAssignment
from mixreg.families import Gamma, Gaussian, GaussianLink
from mixreg.inference.information import TakeInformation
from mixreg.metrics import adjusted_rand_index
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block, condense
from mixreg.sources.grain import AS_WIDE, grain_of

RNG = np.random.default_rng(5)


def kinds_of(n):
    return np.arange(float(n))


def widths(y):
    grain = grain_of(np.asarray(y, dtype=float), kinds_of(len(y)))
    return None if grain is None else (grain.values, grain.widths / AS_WIDE)


@pytest.mark.parametrize("width", [0.01, 0.5, 1.0, 25.0])
def test_a_lattice_is_as_wide_as_its_spacing(width):
    values, found = widths(width * np.round(RNG.normal(50, 8, 4_000)))
    inner = np.abs(values / width - 50) < 8
    assert np.median(found[inner]) == pytest.approx(width, rel=0.2)
    assert found[inner].max() < 2 * width


def test_heaps_are_wider_than_the_values_between_them():
    fine = np.round(RNG.uniform(0, 40, 20_000), 1)
    heaped = RNG.random(20_000) < 0.5
    values, found = widths(np.where(heaped, np.round(fine), fine))
    whole = np.isclose(values, np.round(values)) & (values > 5) & (values < 35)
    between = ~np.isclose(values, np.round(values)) & (values > 5) & (values < 35)
    # Half of the rows are on the whole numbers, and a twentieth of the others besides.
    assert np.median(found[whole]) == pytest.approx(0.55, rel=0.15)
    assert np.median(found[between]) == pytest.approx(0.05, rel=0.3)


def test_logs_of_rounded_amounts_are_rounded_more_narrowly_the_larger_they_are():
    amounts = np.round(np.exp(RNG.normal(3, 0.5, 20_000)))
    values, found = widths(np.log(amounts))
    for amount in (10, 20, 40):
        near = np.abs(np.exp(values) - amount) < 0.2 * amount
        assert 0.8 / amount < np.median(found[near]) < 2 / amount


def test_responses_that_hardly_tie_have_no_grain():
    y = RNG.standard_normal(3_000)
    assert grain_of(y, kinds_of(3_000)) is None
    few = y.copy()
    few[:20] = few[20:40]
    assert grain_of(few, kinds_of(3_000)) is None


def test_copies_of_rows_are_no_sign_of_rounding():
    y, kinds = RNG.standard_normal(500), kinds_of(500)
    assert grain_of(np.tile(y, 3), np.tile(kinds, 3)) is None
    rounded = np.round(y, 1)
    once, thrice = grain_of(rounded, kinds), grain_of(np.tile(rounded, 3), np.tile(kinds, 3))
    np.testing.assert_array_equal(once.widths, thrice.widths)


def test_regressors_of_few_values_tie_rows_without_being_copies():
    y = np.round(RNG.normal(0, 5, 2_000))
    assert grain_of(y, np.arange(2_000.0) % 4) is not None


def test_variances_of_values_that_do_not_tie_are_zero():
    y = np.round(RNG.normal(0, 5, 2_000))
    grain = grain_of(y, kinds_of(2_000))
    hidden = grain.variance(np.array([0.0, 0.4, 1.0, 1e6]))
    assert hidden[0] > 0
    assert hidden[2] > 0
    assert hidden[1] == hidden[3] == 0


# What rounding hides, in densities


def block_of(n=40, seed=1):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.standard_normal(n)])
    y = np.round(2 + x @ [1.0, 0.5] + rng.normal(0, 0.4, n), 1)
    return Block(x, np.maximum(y, 0.3), rounding=np.full(n, 0.4**2 / 12))


PARAMS = Parameters(
    np.array([[2.0, 0.3], [3.5, 0.4]]), np.array([0.3, 0.08]), np.log(np.array([[0.4], [0.6]]))
)


def average(log_density, y, width):
    return quad(log_density, y - width / 2, y + width / 2)[0] / width


@pytest.mark.parametrize("family", [Gaussian(), GaussianLink()])
def test_densities_are_averages_over_what_rounding_hides(family):
    block = block_of()
    found = family.unit_density(block, PARAMS, family.evaluate(block, PARAMS))
    for j in range(2):
        mean, sd = block.x @ PARAMS.coef[j], np.sqrt(PARAMS.dispersion[j])
        for i in (0, 7, 20):
            density = norm(mean[i], sd).logpdf
            assert found[j, i] == pytest.approx(average(density, block.y[i], 0.4), abs=1e-9)


def test_gamma_densities_are_nearly_such_averages():
    block, family = block_of(), Gamma(link="identity")
    found = family.unit_density(block, PARAMS, family.evaluate(block, PARAMS))
    bare = replace(block, rounding=None)
    plain = family.unit_density(bare, PARAMS, family.evaluate(bare, PARAMS))
    for j in range(2):
        mean, shape = block.x @ PARAMS.coef[j], 1 / PARAMS.dispersion[j]
        for i in (0, 7, 20):
            density = gamma(shape, scale=mean[i] / shape)
            # The response's own logarithm is the same in all components, and left as it is.
            exact = average(lambda y, d=density: d.logpdf(y) + np.log(y), block.y[i], 0.4)
            exact -= np.log(block.y[i])
            assert found[j, i] == pytest.approx(exact, abs=0.02 * abs(exact - plain[j, i]) + 1e-6)


def test_one_dispersion_for_all_takes_responses_as_they_are():
    block, family = block_of(), Gaussian().common()
    bare = replace(block, rounding=None)
    state = family.evaluate(block, PARAMS)
    np.testing.assert_array_equal(
        family.unit_density(block, PARAMS, state), family.unit_density(bare, PARAMS, state)
    )


@pytest.mark.parametrize(
    "family", [Gaussian(), GaussianLink(), GaussianLink(link="log"), Gamma(link="log")]
)
def test_scores_and_information_are_derivatives(family):
    block, mixture = block_of(), Mixture(family)
    params = replace(PARAMS, coef=PARAMS.coef / (3 if family.link_name == "log" else 1))
    layout = Layout(2, ("a", "b"), scale_power=family.dispersion_power)
    at = layout.pack(params)

    def height(vector):
        sums = SoftAssignment(mixture)(block, layout.unpack(vector).stacked())
        return float(sums.objective[0])

    def score(vector):
        sums = TakeInformation(mixture)(block, layout.unpack(vector))
        return sums.contract(layout).score

    h, eye = 1e-5, np.eye(len(at))
    slopes = [(height(at + h * e) - height(at - h * e)) / (2 * h) for e in eye]
    np.testing.assert_allclose(score(at), slopes, rtol=1e-5, atol=1e-5)
    bends = np.array([(score(at + h * e) - score(at - h * e)) / (2 * h) for e in eye])
    information = TakeInformation(mixture)(block, params).contract(layout).information
    np.testing.assert_allclose(information, -bends, rtol=1e-4, atol=1e-4)


def test_condensed_groups_hide_as_much_as_their_rows():
    block = replace(block_of(), starts=np.arange(0, 40, 4), weight=np.linspace(1, 2, 10))
    task = SoftAssignment(Mixture(Gaussian()))
    rows, groups = task(block, PARAMS.stacked()), task(condense(block), PARAMS.stacked())
    np.testing.assert_allclose(rows.objective, groups.objective, rtol=1e-12)
    np.testing.assert_allclose(rows.family.ee, groups.family.ee, rtol=1e-10)


# Fits


def wages(seed, n=4_000):
    """Hourly wages in three segments, most rounded to halves and wholes."""
    rng = np.random.default_rng(seed)
    label, school = rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.integers(8, 19, n)
    start, gain = np.array([1.0, 1.9, 2.4]), np.array([0.10, 0.05, 0.02])
    deviation = np.array([0.25, 0.3, 0.6])
    amount = np.exp(rng.normal(start[label] + gain[label] * school, deviation[label]))
    to = rng.choice([1.0, 0.5, 0.01], n, p=[0.5, 0.3, 0.2])
    wage = np.maximum(np.round(amount / to) * to, 0.5)
    return pd.DataFrame({"wage": wage, "school": school}), label


@pytest.mark.parametrize("formula", ["np.log(wage) ~ school", "wage ~ school"])
def test_rounded_wages_have_one_maximum_from_every_seed(formula):
    data, _ = wages(3)
    model = MixReg.from_formula(formula, data, k=3)
    fits = [model.fit(seed=seed) for seed in range(4)]
    for fit in fits:
        assert fit.converged
        assert not fit.fitted.binds
        assert fit.scale.min() > 0.05 * fit.scale.max()
        assert adjusted_rand_index(fit.labels, fits[0].labels) > 0.95
    assert np.ptp([fit.llf for fit in fits]) < 0.01


def test_the_likelihood_is_that_of_the_density_at_its_maximum():
    data, _ = wages(4, 1_500)
    model = MixReg.from_formula("np.log(wage) ~ school", data, k=2)
    fit = model.fit(seed=0)
    assert fit.fitted.rounded[0][1] > 0.5
    assert fit.fitted.narrow == ()
    coef = fit.coefficients.T
    mean = coef["Intercept"].to_numpy() + np.outer(data.school, coef["school"])
    density = norm.pdf(np.log(data.wage.to_numpy())[:, None], mean, fit.scale.to_numpy())
    assert fit.llf == pytest.approx(np.log(density @ fit.weights.to_numpy()).sum(), rel=1e-9)
    plain = model.fit(init=coef.to_numpy())
    assert plain.llf == pytest.approx(fit.llf, abs=1e-4)


def test_the_notes_say_how_widely_responses_are_rounded():
    data, _ = wages(5, 1_500)
    text = str(MixReg.from_formula("wage ~ school", data, k=2).fit(seed=0).summary())
    assert "Values of wage are rounded" in text
    smooth = data.assign(wage=data.wage + RNG.normal(0, 0.1, len(data)))
    text = str(MixReg.from_formula("wage ~ school", smooth, k=2).fit(seed=0).summary())
    assert "rounded" not in text


def test_a_spike_is_had_by_asking_for_it():
    rng = np.random.default_rng(1)
    place = rng.integers(0, 4, 2_000)
    slow = rng.random(2_000) < 0.4
    speed = np.round(np.where(slow, 30, 50) + 2 * place + rng.normal(0, 3, 2_000))
    data = pd.DataFrame({"speed": speed, "place": place})
    plain = MixReg.from_formula("speed ~ C(place)", data, k=3).fit(seed=0)
    assert plain.scale.min() > 0.2 * plain.scale.max()
    model = MixReg.from_formula("speed ~ C(place)", data, k=3, variance_ratio=1e-6)
    fit = model.fit(seed=0)
    assert fit.fitted.rounded == ()
    assert fit.llf > plain.llf + 100
    assert fit.scale.min() < 0.05 * fit.scale.max()


def test_exact_lines_on_a_lattice_are_found_and_certified():
    rng = np.random.default_rng(2)
    x, label = rng.standard_normal((300, 2)), rng.integers(0, 2, 300)
    x[:, 1] = rng.integers(-4, 5, 300)
    y = np.where(label, 3 * x[:, 1] + 1, -2 * x[:, 1] - 3)
    fit = MixReg.from_formula("y ~ x1", pd.DataFrame({"y": y, "x1": x[:, 1]}), k=2).fit(seed=0)
    assert fit.fitted.exact


def test_groups_and_weights_are_rounded_too():
    data, _ = wages(6, 2_000)
    data["person"], data["count"] = np.arange(len(data)) // 4, np.repeat(RNG.integers(1, 3, 500), 4)
    model = MixReg.from_formula("wage ~ school", data, k=2, groups="person", weights="count")
    fit = model.fit(seed=0)
    assert fit.fitted.rounded[0][1] > 0.5
    assert fit.converged


def test_streams_are_rounded_as_memory_is(tmp_path):
    pytest.importorskip("pyarrow")
    data, _ = wages(7, 2_500)
    data.to_parquet(tmp_path / "wages.parquet")
    here = MixReg.from_formula("wage ~ school", data, k=2).fit(seed=0)
    there = MixReg.from_formula("wage ~ school", tmp_path / "wages.parquet", k=2).fit(seed=0)
    assert there.llf == pytest.approx(here.llf, rel=1e-9)
    assert there.fitted.rounded[0] == pytest.approx(here.fitted.rounded[0])


def test_results_of_rounded_responses_are_saved(tmp_path):
    from mixreg import load

    data, _ = wages(8, 1_000)
    fit = MixReg.from_formula("wage ~ school", data, k=2).fit(seed=0)
    fit.save(tmp_path / "fit.mixreg")
    assert load(tmp_path / "fit.mixreg").fitted.rounded == fit.fitted.rounded


def two_lines(seed, n, width, sd):
    """Two lines in a regressor of four levels, whose responses lie in tight clusters."""
    rng = np.random.default_rng(seed)
    label, x = rng.integers(0, 2, n), rng.integers(0, 4, n).astype(float)
    y = np.where(label, 2 * x, 9 - x) + sd * rng.standard_normal(n)
    return pd.DataFrame({"y": width * np.round(y / width), "x": x})


@pytest.mark.parametrize("sd", [0.01, 0.02, 0.05])
def test_clusters_of_values_are_no_wider_than_values_in_them_are_apart(sd):
    fit = MixReg.from_formula("y ~ x", two_lines(0, 800, 0.01, sd), k=2).fit(seed=0)
    assert fit.fitted.rounded[0][0] == pytest.approx(0.01, rel=0.6)
    np.testing.assert_allclose(fit.scale, np.hypot(sd, 0.01 / np.sqrt(12)), rtol=0.15)


@pytest.mark.parametrize("seed", [2, 5])
def test_values_at_the_end_of_their_range_are_not_taken_for_narrow(seed):
    # Responses that are cut off at zero: the next value may lie as near as chance has it.
    rng = np.random.default_rng(seed)
    x, label, e = rng.normal(size=800), rng.integers(0, 2, 800), rng.normal(size=800)
    y = np.where(label, np.maximum(0, 1 + 2 * x + 0.5 * e), 3 + x + 0.3 * e)
    fit = MixReg(y, np.column_stack([np.ones(800), x]), k=2).fit(seed=0)
    assert fit.scale.min() > 0.2
    assert adjusted_rand_index(fit.labels, label) > 0.6


def test_whole_data_that_are_there_several_times_say_the_same():
    once = two_lines(1, 120, 0.1, 0.06)
    fits = [
        MixReg.from_formula("y ~ x", pd.concat([once] * times), k=2).fit(seed=0)
        for times in (1, 2, 3)
    ]
    for times, fit in enumerate(fits, 1):
        assert fit.llf == pytest.approx(times * fits[0].llf, abs=1e-4)
        np.testing.assert_allclose(fit.scale, fits[0].scale, rtol=1e-5)


def test_of_maxima_that_are_nearly_as_good_the_best_by_the_density_is_taken():
    rng = np.random.default_rng(0)
    place, label = rng.integers(0, 3, 600), rng.integers(0, 2, 600)
    y = np.round(np.where(label, 8 * place, 40 - 8 * place) + rng.normal(size=600))
    data = pd.DataFrame({"y": y, "place": place})
    fit = MixReg.from_formula("y ~ C(place)", data, k=2).fit(seed=0)
    asked = MixReg.from_formula("y ~ C(place)", data, k=2, variance_ratio=9.9e-5).fit(seed=0)
    assert fit.llf == pytest.approx(asked.llf, abs=1e-4)
