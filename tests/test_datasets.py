"""Data sets arrive whole: every row, every digit, the right types."""

import csv
from importlib import resources

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from mixreg import datasets

SHAPES = {
    "tonedata": (150, ["stretchratio", "tuned"]),
    "co2": (28, ["GNP", "CO2", "country"]),
    "npreg": (200, ["x", "yn", "yp", "yb", "class", "id1", "id2"]),
    "cheese": (5555, ["RETAILER", "VOLUME", "DISP", "PRICE"]),
    "sim_p1_k3": (1000, ["y", "x1", "z"]),
    "sim_p2_k2": (500, ["y", "x1", "x2", "z"]),
}
EVERY = pytest.mark.parametrize("name", SHAPES)


def test_every_public_loader_is_tested():
    assert set(datasets.__all__) == set(SHAPES)


@EVERY
def test_shape_and_columns(name):
    data = getattr(datasets, name)()
    rows, columns = SHAPES[name]
    assert data.columns.to_list() == columns
    assert len(data) == rows
    assert not data.isna().any(axis=None)
    pd.testing.assert_index_equal(data.index, pd.RangeIndex(rows))


@EVERY
def test_every_digit_and_the_order_of_rows_survive(name):
    data = getattr(datasets, name)()
    text = resources.files("mixreg.datasets").joinpath(f"{name}.csv").read_text(encoding="utf-8")
    for column, *written in zip(*csv.reader(text.splitlines()), strict=True):
        read = data[column].to_list()
        if isinstance(read[0], str):
            assert read == written
        else:
            assert read == [float(value) for value in written]


@EVERY
def test_each_call_returns_a_fresh_table(name):
    load = getattr(datasets, name)
    first = load()
    kept = first.copy(deep=True)
    first.iloc[0, 0] = first.iloc[-1, 0]
    del first[first.columns[-1]]
    pd.testing.assert_frame_equal(load(), kept)


@EVERY
def test_docstring_names_every_column(name):
    doc = getattr(datasets, name).__doc__
    assert all(f"``{column}``" in doc for column in SHAPES[name][1])


def test_types():
    cheese, npreg, co2 = datasets.cheese(), datasets.npreg(), datasets.co2()
    assert pd.api.types.is_string_dtype(cheese["RETAILER"])
    assert pd.api.types.is_string_dtype(co2["country"])
    assert cheese["RETAILER"].nunique() == 88
    for column, groups in (("id1", 100), ("id2", 50)):
        assert isinstance(npreg[column].dtype, pd.CategoricalDtype)
        assert npreg[column].cat.categories.to_list() == list(range(1, groups + 1))
    assert set(npreg["yb"]) == {0, 1}


def test_groups_of_npreg_lie_within_a_class():
    npreg = datasets.npreg()
    for column, size in (("id1", 2), ("id2", 4)):
        groups = npreg.groupby(column, observed=True)["class"]
        assert (groups.size() == size).all()
        assert (groups.nunique() == 1).all()


def test_simulated_lines_are_where_the_docstring_says():
    data = datasets.sim_p1_k3()
    for z, intercept, slope in ((1, -2, 1), (2, 0, -1), (3, 2, 0.5)):
        fit = smf.ols("y ~ x1", data[data["z"] == z]).fit()
        # Four standard errors: a planted value outside them would be a wrong docstring.
        error = np.abs(fit.params.to_numpy() - [intercept, slope]) / fit.bse.to_numpy()
        assert (error < 4).all()
        assert np.sqrt(fit.scale) == pytest.approx(0.3, rel=0.15)
