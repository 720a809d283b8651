"""Data sets arrive whole: every row, every digit, the right types."""

import csv
import lzma
from importlib import resources

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.formula.api as smf

from mixreg import datasets

SHAPES = {
    "tonedata": (150, ["stretchratio", "tuned"]),
    "co2": (28, ["GNP", "CO2", "country"]),
    "npreg": (200, ["x", "yn", "yp", "yb", "class", "id1", "id2"]),
    "cheese": (5555, ["RETAILER", "VOLUME", "DISP", "PRICE"]),
    "fabricfault": (32, ["Length", "Faults"]),
    "nmes1988": (
        4406,
        [
            *("visits", "nvisits", "ovisits", "novisits", "emergency", "hospital", "health"),
            *("chronic", "adl", "region", "age", "afam", "gender", "married", "school"),
            *("income", "employed", "insurance", "medicaid"),
        ],
    ),
    "camera": (
        26560,
        [
            *("id", "task", "alt", "chosen", "canon", "sony", "nikon", "panasonic"),
            *("pixels", "zoom", "video", "swivel", "wifi", "price"),
        ],
    ),
    "sim_p1_k3": (1000, ["y", "x1", "z"]),
    "sim_p2_k2": (500, ["y", "x1", "x2", "z"]),
}
EVERY = pytest.mark.parametrize("name", SHAPES)


def written_text(name: str) -> str:
    folder = resources.files("mixreg.datasets")
    if folder.joinpath(f"{name}.csv.xz").is_file():
        packed = folder.joinpath(f"{name}.csv.xz").read_bytes()
        return lzma.decompress(packed).decode("utf-8")
    return folder.joinpath(f"{name}.csv").read_text(encoding="utf-8")


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
    columns = list(zip(*csv.reader(written_text(name).splitlines()), strict=True))
    assert [column[0] for column in columns] == data.columns.to_list()
    for column, *written in columns:
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


def test_reference_levels_of_nmes1988_come_first():
    data = datasets.nmes1988()
    levels = {c: data[c].cat.categories.to_list() for c in data.select_dtypes("category")}
    yes_no = ("afam", "married", "employed", "insurance", "medicaid")
    assert levels == {
        "health": ["average", "excellent", "poor"],
        "adl": ["normal", "limited"],
        "region": ["other", "midwest", "northeast", "west"],
        "gender": ["female", "male"],
        **{column: ["no", "yes"] for column in yes_no},
    }
    # A level that patsy takes as reference has no column of its own.
    design = patsy.dmatrix("health + region + gender + insurance", data)
    assert design.design_info.column_names == [
        "Intercept",
        *("health[T.excellent]", "health[T.poor]"),
        *("region[T.midwest]", "region[T.northeast]", "region[T.west]"),
        *("gender[T.male]", "insurance[T.yes]"),
    ]


def test_numbers_of_nmes1988():
    data = datasets.nmes1988()
    assert data["visits"].sum() == 25442
    assert data["health"].value_counts().to_dict() == {
        "average": 3509,
        "poor": 554,
        "excellent": 343,
    }
    assert data["age"].between(6.6, 10.9).all()


def test_every_task_of_camera_has_five_alternatives_and_one_choice():
    data = datasets.camera()
    sets = data.groupby(["id", "task"])
    assert len(sets) == 332 * 16
    assert (sets["alt"].agg(list).map(tuple) == (1, 2, 3, 4, 5)).all()
    assert (sets["chosen"].sum() == 1).all()
    brands = data[["canon", "sony", "nikon", "panasonic"]].sum(axis=1)
    none = data["alt"] == 5
    assert (data.loc[none, "canon":] == 0).all(axis=None)
    assert (brands[~none] == 1).all()
    assert set(data.loc[~none, "price"]) == {0.79, 1.29, 1.79, 2.29, 2.79}


def test_faults_grow_with_length():
    data = datasets.fabricfault()
    assert data["Faults"].sum() == 284
    assert np.corrcoef(np.log(data["Length"]), data["Faults"])[0, 1] > 0.5


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
