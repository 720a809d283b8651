"""Fits whose rows are gone, from files, and rows that are given back to them."""

import matplotlib.pyplot as pyplot
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal

import mixreg
from mixreg import InputError, InputWarning, MixReg
from mixreg.report.given_rows import on_own_rows
from tests.test_files import KINDS, table


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return table()


@pytest.fixture(scope="module")
def fits(data):
    return {
        kind: MixReg.from_formula(formula, data, k=2, **declared).fit(n_init=2, **asked)
        for kind, (formula, declared, asked) in KINDS.items()
    }


@pytest.fixture(scope="module")
def loaded(fits, tmp_path_factory):
    """The same fits without rows, from files."""
    folder, made = tmp_path_factory.mktemp("loaded"), {}
    for kind, res in fits.items():
        res.save(folder / "fit")
        made[kind] = mixreg.load(folder / "fit")
    return made


def mixed_up(data):
    """The same rows in another order, and one that cannot be used."""
    gap = data.iloc[[0]].assign(x=np.nan, shop="nobody").set_axis([10_000])
    return pd.concat([gap, data.sample(frac=1, random_state=0)])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_given_back_are_as_they_were(fits, loaded, data, kind):
    res, old = fits[kind], on_own_rows(loaded[kind], data)
    assert_array_equal(old.posterior, res.posterior)
    assert_frame_equal(old.simulate(3), res.simulate(3))
    assert_frame_equal(loaded[kind].simulate(3, data=data), res.simulate(3))
    assert_allclose(loaded[kind].residuals(data=data), res.residuals(), rtol=1e-12, atol=1e-12)
    again = on_own_rows(loaded[kind], data if kind == "choice" else mixed_up(data))
    assert_allclose(again.posterior.loc[res.posterior.index], res.posterior, atol=1e-12)
    assert not loaded[kind].model.has_rows


@pytest.mark.parametrize("kind", KINDS)
def test_profiles_of_fits_from_files(fits, loaded, data, kind):
    wanted = fits[kind].profile(data)
    found = loaded[kind].profile(data)
    assert_frame_equal(found.table, wanted.table)
    assert_frame_equal(found.tests, wanted.tests)


def test_groups_of_fits_from_files_are_profiled_by_their_names(fits, loaded, data):
    own, res = fits["equal"], loaded["equal"]
    by_shop = data.groupby("shop", sort=False)[["age", "hours"]].mean()
    wanted = own.profile(data[["age", "hours"]]).table
    for each in (by_shop, by_shop.reset_index(), data[["shop", "age", "hours"]]):
        assert_frame_equal(res.profile(each).table, wanted)
    unnamed = by_shop.rename_axis(None).sample(frac=1, random_state=0)
    assert_frame_equal(res.profile(unnamed).table, wanted)
    for each in (own, res):
        with pytest.warns(InputWarning, match="lacks 50 of the model's 60 groups in 'shop', such"):
            half = each.profile(data.iloc[:40][["shop", "age"]])
        assert half.tests.loc["age", "units"] == 10
    with pytest.raises(InputError, match=r"must name the groups of its rows.*'shop'"):
        res.profile(data[["age"]])
    with pytest.raises(InputError, match="none of the fit's 60 groups"):
        res.profile(data.assign(shop="no shop"))


@pytest.mark.parametrize("kind", ["rows", "equal", "choice", "joint", "hard"])
def test_reports_of_fits_from_files(fits, loaded, data, kind, tmp_path):
    loaded[kind].report(tmp_path / "loaded.html", data=data)
    text = (tmp_path / "loaded.html").read_text(encoding="utf-8")
    fits[kind].report(tmp_path / "own.html", data=data)
    own = (tmp_path / "own.html").read_text(encoding="utf-8")
    assert text.count("<svg") == own.count("<svg")
    assert "hours" in text
    if kind == "equal":
        loaded[kind].report(tmp_path / "groups.html", data=data[["shop", "hours"]])
        assert "hours" in (tmp_path / "groups.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["rows", "equal", "noise", "choice", "joint", "bare"])
def test_errors_of_fits_from_files(fits, loaded, data, kind):
    for cov_type, kwds in (("robust", None), ("cluster", {"groups": "shop"}), ("none", None)):
        found = loaded[kind].with_cov(cov_type, kwds, data=data)
        wanted = fits[kind].with_cov(cov_type, kwds)
        assert found.cov_type == cov_type
        assert found.llf == fits[kind].llf
        if cov_type != "none":
            assert_allclose(found.bse, wanted.bse, rtol=1e-9)
    asked = {"n": 3, "n_jobs": 1}
    found = loaded[kind].bootstrap(data=data, **asked).draws
    assert_allclose(found, fits[kind].bootstrap(**asked).draws, rtol=1e-6)


def test_what_is_drawn_and_weighed_of_rows_given_back(fits, loaded, data):
    found = loaded["rows"].importance(data=data)
    assert_frame_equal(found, fits["rows"].importance())
    for name in ("plot", "plot_components", "plot_posterior", "plot_residuals"):
        getattr(loaded["rows"], name)(data=data)
        pyplot.close("all")


def test_other_rows_are_not_taken_for_those_of_the_fit(loaded, data):
    res = loaded["rows"]
    with pytest.raises(InputError, match="has 200 rows that can be used, and the fit had 240"):
        res.bootstrap(2, data=data.iloc[:200])
    with pytest.raises(InputError, match="other rows than those"):
        res.with_cov("robust", data=data.assign(y=data["y"] + 1))
    with pytest.raises(InputError, match="data lacks the response y; add the column"):
        res.simulate(data=data.drop(columns="y"))
    with pytest.raises(InputError, match="lack the columns x"):
        res.simulate(data=data.drop(columns="x"))
    with pytest.raises(InputError, match="no row without missing"):
        res.simulate(data=data.assign(y=np.nan))


def test_columns_without_a_name_cannot_be_given_back(data, tmp_path):
    weights = np.ones(len(data))
    MixReg.from_formula("y ~ x", data, k=1, weights=weights).fit().save(tmp_path / "fit")
    with pytest.raises(InputError, match="declared with weights= as values without a name"):
        mixreg.load(tmp_path / "fit").simulate(data=data)
