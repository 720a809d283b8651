"""The bootstrap: its standard errors, its alignment, what it refuses."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixreg import InputError, MixReg, MixRegResults
from mixreg.inference.aligned import AlignedRefit
from mixreg.inference.bootstrap import Bootstrap, bootstrap
from mixreg.inference.overlap import LabelProducts
from mixreg.inference.replicate import Replicate, make_refit, repeated, resampled
from mixreg.jobs import parallel
from mixreg.simulate import mixed_linear_equations
from tests.samples import lines, shops

FORMULA = "y ~ x1 + x2"


@pytest.fixture(scope="module")
def res() -> MixRegResults:
    return MixReg.from_formula(FORMULA, lines(800), k=2).fit()


@pytest.fixture(scope="module")
def boot(res) -> Bootstrap:
    return res.bootstrap(150, n_jobs=1)


@pytest.fixture(scope="module")
def grouped() -> MixRegResults:
    return MixReg.from_formula("y ~ x", shops(80), k=2, groups="shop").fit()


def assert_near(one: pd.Series, other: pd.Series, most: float = 1.35) -> None:
    """Standard errors of the same size: 150 draws give them to 6 percent."""
    assert one.index.to_list() == other.index.to_list()
    ratio = (one / other).to_numpy()
    assert ratio.max() < most
    assert ratio.min() > 1 / most


def aligner(res: MixRegResults) -> AlignedRefit:
    return AlignedRefit(make_refit(res, res.model.source, res.options.control, None))


# Standard errors


def test_parametric_errors_are_those_of_the_information(res, boot):
    assert boot.draws.shape == (150, len(res.params))
    assert boot.draws.columns.to_list() == res.model.param_names
    assert boot.failed == 0
    assert_near(boot.bse, res.bse)
    assert (boot.bias.abs() < 0.35 * boot.bse).all()


def test_case_errors_are_those_of_the_information(res):
    assert_near(res.bootstrap(150, "case", n_jobs=1).bse, res.bse)


def test_groups(grouped):
    assert_near(grouped.bootstrap(40, n_jobs=1).bse, grouped.bse, 1.8)
    assert_near(grouped.bootstrap(40, "group", n_jobs=1).bse, grouped.bse, 1.8)


def test_a_weight_of_two_is_two_rows():
    table = lines(150)
    times = np.random.default_rng(1).integers(0, 3, len(table))
    weighted = MixReg.from_formula(FORMULA, table, k=2, weights=times).fit()
    long = MixReg.from_formula(FORMULA, table.loc[table.index.repeat(times)], k=2).fit()
    short = weighted.bootstrap(40, "case", n_jobs=1).bse
    assert_near(short, long.bootstrap(40, "case", n_jobs=1).bse, 1.8)
    one = weighted.bootstrap(5, n_jobs=1).draws
    assert_allclose(one, long.bootstrap(5, n_jobs=1).draws, atol=1e-6)


def test_counts():
    rng = np.random.default_rng(2)
    x, time = rng.standard_normal(400), rng.uniform(1, 3, 400)
    mean = time * np.exp(np.where(rng.random(400) < 0.6, 2 + 0.5 * x, -0.5 * x))
    table = pd.DataFrame({"y": rng.poisson(mean), "x": x, "time": time})
    res = MixReg.from_formula("y ~ x", table, k=2, family="poisson", exposure="time").fit()
    assert_near(res.bootstrap(60, n_jobs=1).bse, res.bse, 1.6)


def test_an_offset_is_not_counted_twice():
    table = lines(300).assign(base=lambda t: 10 * t["x1"] ** 2)
    plain = MixReg.from_formula(FORMULA, table, k=2).fit()
    moved = MixReg.from_formula("I(y + base) ~ x1 + x2", table, k=2, offset="base").fit()
    one, other = (r.bootstrap(5, n_jobs=1).draws for r in (plain, moved))
    assert_allclose(one, other, atol=1e-6)


def test_one_component():
    table = lines(200)
    res = MixReg.from_formula(FORMULA, table, k=1).fit()
    assert_near(res.bootstrap(150, n_jobs=1).bse, res.bse)


def test_concomitants_noise_and_shared_terms():
    table = lines(300).assign(far=lambda t: t["y"].where(t.index % 15 > 0, 9 * t["x1"]))
    for options in ({"concomitant": "~ x1"}, {"noise": True}, {"shared": ["x2"]}):
        res = MixReg.from_formula("far ~ x1 + x2", table, k=2, **options).fit(n_init=2)
        found = res.bootstrap(30, n_jobs=1)
        assert found.failed == 0
        assert_near(found.bse, res.bse, 2.0)


# Labels


def test_swapped_components_are_put_back(res, grouped):
    for fit in (res, grouped):
        params = fit.fitted.estimate.params
        found = aligner(fit).aligned(params.permute([1, 0]))
        assert_array_equal(found.vector, fit.spec.layout.pack(params))
        assert found.sureness == pytest.approx(1.0)


def test_components_that_differ_in_noise_only_are_told_apart():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(600)
    y = x + np.where(rng.random(600) < 0.5, 0.1, 2.0) * rng.standard_normal(600)
    res = MixReg.from_formula("y ~ x", {"y": y, "x": x}, k=2, shared=["x", "Intercept"]).fit()
    align, params = aligner(res), res.fitted.estimate.params
    found = align.aligned(params.permute([1, 0]))
    assert_array_equal(found.vector, res.spec.layout.pack(params))
    draws = res.bootstrap(30, n_jobs=1, n_init=1).draws
    less = np.sign(res.params["log(sigma)[1]"] - res.params["log(sigma)[2]"])
    assert (np.sign(draws["log(sigma)[1]"] - draws["log(sigma)[2]"]) == less).all()


def test_nearly_equal_weights_do_not_mix_components():
    rng = np.random.default_rng(6)
    x = rng.standard_normal(300)
    y = np.where(rng.random(300) < 0.5, 1 + x, -1 - x) + 0.5 * rng.standard_normal(300)
    res = MixReg.from_formula("y ~ x", {"y": y, "x": x}, k=2).fit()
    draws = res.bootstrap(40, n_jobs=1, n_init=1).draws
    assert (draws["logit(weight)[2]"] > 0).any()
    assert (draws["logit(weight)[2]"] < 0).any()
    sign = np.sign(res.params["x[1]"])
    assert (np.sign(draws["x[1]"]) == sign).all()


def test_sureness_is_a_correlation_of_labels():
    rng = np.random.default_rng(8)
    first, second = rng.dirichlet([0.4, 0.3, 0.3], (2, 500)).transpose(0, 2, 1)
    second = 0.7 * first + 0.3 * second
    weight = rng.uniform(0.5, 2.0, 500)
    both = np.concatenate([first, second])
    products = LabelProducts(weight.sum(), both @ weight, (both * weight) @ both.T)
    for order in ([0, 1, 2], [2, 0, 1]):
        told = [
            np.cov(first[i] - first[j], second[order[i]] - second[order[j]], aweights=weight)
            for i, j in ((0, 1), (0, 2), (1, 2))
        ]
        least = min(c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]) for c in told)
        assert products.sureness(np.array(order)) == pytest.approx((1 + least) / 2, rel=1e-12)


def test_replicates_that_are_not_matched_surely_are_told():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(400)
    slope = np.where(rng.random(400) < 0.5, 0.35, -0.35)
    table = pd.DataFrame({"x": x, "y": slope * x + 0.7 * rng.standard_normal(400)})
    fit = MixReg.from_formula("y ~ x", table, k=2).fit()
    found = fit.bootstrap(60, n_jobs=1, n_init=1)
    unsure = int(found.ambiguous.sum())
    assert 0 < unsure < 58
    kept = found.without_ambiguous()
    assert len(kept.draws) == len(found.draws) - unsure
    assert kept.failed == found.failed
    assert not kept.ambiguous.any()
    text = str(found.summary())
    assert f"{unsure} of {len(found.draws)} replicates could not be matched surely" in text
    assert f"{len(kept.draws)} replicates, matched surely" in text
    assert "matched surely" not in str(kept.summary())


def test_separated_components_are_matched_surely(res, grouped):
    for fit in (res, grouped):
        found = fit.bootstrap(15, n_jobs=1)
        assert not found.ambiguous.any()
        assert "surely" not in str(found.summary())


def test_known_labels_keep_their_numbers():
    table = lines(300)
    known = (3 - table["z"]).where(np.arange(300) < 30)
    res = MixReg.from_formula(FORMULA, table, k=2, known_labels=known).fit()
    params = res.fitted.estimate.params
    for order in ([0, 1], [1, 0]):
        swapped = params.permute(order)
        found = aligner(res).aligned(swapped)
        assert_array_equal(found.vector, res.spec.layout.pack(swapped))
        assert found.sureness == 1.0
    for kind in ("parametric", "case"):
        assert_near(res.bootstrap(40, kind, n_jobs=1).bse, res.bse, 1.8)


# Replicates


def test_processes_do_not_matter(res, monkeypatch):
    monkeypatch.setattr(parallel, "WORTH", -1.0)
    one = res.bootstrap(4, seed=3, n_jobs=1)
    two = res.bootstrap(4, seed=3, n_jobs=2)
    other = res.bootstrap(4, seed=4, n_jobs=1)
    assert_allclose(one.draws, two.draws, rtol=1e-6)
    assert not np.allclose(one.draws, other.draws)


def test_the_first_replicates_do_not_depend_on_how_many(res):
    few, many = (res.bootstrap(n, "case", n_jobs=1).draws for n in (3, 5))
    assert_array_equal(few, many[:3])


def test_resampled_weights_add_up():
    source = MixReg.from_formula("y ~ x", shops(20), k=1, groups="shop").source
    seeds = np.random.SeedSequence(0).spawn(3)
    weight = np.random.default_rng(0).uniform(0, 2, source.units)
    for data in (source, replace(source, weight=weight)):
        for one in resampled(data, seeds):
            assert one.weight.sum() == pytest.approx(data.total_weight)
            taken = one.apply(data)
            assert taken.weight.min() > 0
            assert taken.row_weight == pytest.approx(
                float((one.weight * np.diff(source.starts, append=source.rows)).sum())
            )


def test_replicates_that_fail_are_left_out_and_told(res):
    align = aligner(res)
    weight = np.zeros(res.nobs)
    weight[:2] = 1.0
    assert "dependent" in align(Replicate(0, weight=weight))
    slow = MixReg.from_formula(FORMULA, lines(300, noise=0.8), k=2).fit()
    options = replace(slow.options, control=replace(slow.options.control, max_iter=9))
    slow = MixRegResults(slow.model, slow.fitted, slow.solution, options)
    found = slow.bootstrap(20, "case", n_jobs=1)
    assert 0 < found.failed < 19
    assert len(found.draws) == 20 - found.failed == 20 - found.reasons.sum()
    assert f"Left out: {found.failed} of 20 replicates, the fit did not converge." in str(found)
    options = replace(options, control=replace(options.control, max_iter=1))
    slow = MixRegResults(slow.model, slow.fitted, slow.solution, options)
    with pytest.raises(InputError, match="only 0 could be fitted"):
        slow.bootstrap(3, "case", n_jobs=1)


# Reports


def test_intervals(boot, res):
    percentile, normal, basic = (
        boot.conf_int(0.1, kind) for kind in ("percentile", "normal", "basic")
    )
    assert_allclose(percentile[0], np.quantile(boot.draws, 0.05, axis=0, method="weibull"))
    assert_allclose(normal[1] - normal[0], 2 * 1.6448536 * boot.bse, rtol=1e-6)
    assert_allclose(basic[0] + percentile[1], 2 * res.params)
    assert_allclose(boot.mean - boot.params, boot.bias)
    assert_allclose(np.sqrt(np.diag(boot.cov_params())), boot.bse)
    for bounds in (percentile, normal, basic):
        assert ((bounds[0] < res.params) & (res.params < bounds[1])).all()


def test_print(boot):
    text = str(boot)
    assert "Parametric bootstrap, 150 replicates" in text
    assert "Responses were drawn from the fit." in text
    assert all(name in text for name in boot.params.index)
    assert "[0.05" in str(boot.summary(alpha=0.1))
    assert "<table" in boot._repr_html_()


# Errors


def test_wrong_arguments(res, grouped, boot):
    with pytest.raises(InputError, match=re.escape("kind='rows' is unknown; use one of param")):
        res.bootstrap(5, "rows")
    with pytest.raises(InputError, match="use kind='group'"):
        grouped.bootstrap(5, "case")
    with pytest.raises(InputError, match="needs a model with groups"):
        res.bootstrap(5, "group")
    with pytest.raises(InputError, match="n must be a whole number of at least 2"):
        res.bootstrap(1)
    with pytest.raises(InputError, match="n_init must be a whole number"):
        bootstrap(res, 5, n_init=0)
    with pytest.raises(InputError, match="alpha must lie between 0 and 1"):
        boot.conf_int(2)
    with pytest.raises(InputError, match="kind='bca' is unknown"):
        boot.conf_int(kind="bca")


def test_choice_sets_are_not_torn_apart():
    sets = pd.DataFrame({"set": np.repeat(np.arange(60), 2), "chosen": np.tile([1, 0], 60)})
    sets["price"] = np.random.default_rng(0).normal(size=120)
    options = {"k": 1, "family": "choice", "choice_set": "set"}
    res = MixReg.from_formula("chosen ~ price", sets, **options).fit()
    with pytest.raises(InputError, match="tear choice sets apart; use kind='group'"):
        res.bootstrap(5, "case")


def test_fits_without_a_likelihood():
    table = lines(200)
    hard = MixReg.from_formula(FORMULA, table, k=2).fit(method="altmin")
    with pytest.raises(InputError, match="bootstrap needs a fit by method='em'; got 'altmin'"):
        hard.bootstrap(5)
    made = mixed_linear_equations(200, 3, 2, seed=0)
    exact = MixReg(made.y, made.X, k=2).fit()
    with pytest.raises(InputError, match="the fit is exact"):
        exact.bootstrap(5)


def test_fractional_weights():
    table = lines(200)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 200)
    res = MixReg.from_formula(FORMULA, table, k=2, weights=weight).fit()
    with pytest.raises(InputError, match="whole case weights only"):
        res.bootstrap(5)
    assert_near(res.bootstrap(60, "case", n_jobs=1).bse, res.bse, 1.6)
    assert repeated(MixReg.from_formula(FORMULA, table, k=2).source).rows == 200
