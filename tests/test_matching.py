"""Tables of outside variables are matched with the right customers, or refused."""

from functools import cache

import duckdb
import matplotlib.pyplot as pyplot
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal

import mixreg
from mixreg import InputError, InputWarning, MixReg
from mixreg.report.beside import places

CUSTOMERS, BOUGHT = 200, 80


@cache
def demo() -> pd.DataFrame:
    """One row a customer, in no order: age is 30 in segment 1 and 50 in segment 2, nearly."""
    rng = np.random.default_rng(5)
    ids = rng.permutation(np.arange(1, CUSTOMERS + 1))
    return pd.DataFrame({"id": ids, "age": 30 + 20.0 * second(ids) + rng.normal(size=CUSTOMERS)})


def second(ids):
    """Whether customers are in segment 2."""
    return np.random.default_rng(6).random(CUSTOMERS + 1)[ids] < 0.4


@cache
def sales() -> pd.DataFrame:
    """Rows of the first customers, whose index has gaps."""
    rng = np.random.default_rng(7)
    ids = np.repeat(np.arange(1, CUSTOMERS + 1), 5)
    x = rng.normal(size=len(ids))
    y = np.where(second(ids), 2 - 3 * x, 1 + 2 * x) + 0.1 * rng.normal(size=len(ids))
    rows = pd.DataFrame({"id": ids, "x": x, "y": y}).sample(frac=1, random_state=0)
    rows = rows.reset_index(drop=True)
    return rows[rows["id"] <= BOUGHT]


@cache
def fitted(data_kind: str, tmp: str):
    data, groups = sales(), "id"
    options = {"sort": True} if data_kind == "parquet" else {}
    if data_kind == "parquet":
        data.to_parquet(f"{tmp}/sales.parquet", index=False)
        data = f"{tmp}/sales.parquet"
    res = MixReg.from_formula("y ~ x", data, k=2, groups=groups, **options).fit(n_init=2)
    if data_kind == "saved":
        res.save(f"{tmp}/fit")
        res = mixreg.load(f"{tmp}/fit")
    if data_kind == "no rows":
        res.remove_data()
    return res


FITS = ["memory", "saved", "no rows", "parquet"]


@pytest.fixture
def fit(request, tmp_path_factory):
    return fitted(request.param, str(tmp_path_factory.getbasetemp()))


def as_csv(frame, folder):
    frame.to_csv(folder / "demo.csv", index=False)
    return folder / "demo.csv"


def as_parquet(frame, folder):
    frame.to_parquet(folder / "demo.parquet", index=False)
    return str(folder / "demo.parquet")


TABLES = {
    "pandas": lambda frame, _: frame,
    "index": lambda frame, _: frame.set_index("id"),
    "levels": lambda frame, _: frame.assign(wave=1).set_index(["wave", "id"]),
    "both": lambda frame, _: frame.set_index("id", drop=False),
    "reversed": lambda frame, _: frame.iloc[::-1],
    "polars": lambda frame, _: pl.from_pandas(frame),
    "lazy": lambda frame, _: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame, _: pa.Table.from_pandas(frame, preserve_index=False),
    "duckdb": lambda frame, _: duckdb.from_df(frame),
    "csv": as_csv,
    "parquet": as_parquet,
    "rows": lambda frame, _: sales()[["id"]].merge(frame, on="id"),
}


def ages(profile) -> list[float]:
    return profile.table.loc[("age", "mean")].tolist()


def truth(res) -> list[float]:
    """Mean ages by segment, by hand."""
    age = demo().set_index("id")["age"].loc[res.known_groups].to_numpy()
    share = np.vstack([res.unit_posterior, np.ones(len(age))])
    return (share @ age / share.sum(axis=1)).tolist()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("fit", FITS, indirect=True)
def test_customers_are_matched_by_the_column_of_the_groups(fit, table, tmp_path):
    found = fit.profile(TABLES[table](demo(), tmp_path))
    assert_allclose(ages(found), truth(fit))
    assert found.tests.loc["age", "p value"] < 1e-20
    assert found.tests.loc["age", "units"] == BOUGHT


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "uint64", "float64", "Int64", "category", "int32[pyarrow]"]
)
@pytest.mark.parametrize("fit", FITS, indirect=True)
def test_types_of_the_names_do_not_matter(fit, dtype):
    found = demo()[demo()["id"] < 120].astype({"id": dtype})
    assert_allclose(ages(fit.profile(found)), truth(fit))


@pytest.mark.parametrize("fit", FITS, indirect=True)
def test_reports_and_plots_have_the_same_customers(fit, tmp_path):
    fit.report(tmp_path / "report.html", data=demo())
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    young, old = sorted(truth(fit)[:2])
    assert text.count("Who is in it") == 2
    assert f"higher age: {old:.4g}" in text
    assert f"lower age: {young:.4g}" in text
    ax = fit.plot_profile(demo())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age"]
    pyplot.close("all")


WRONG = {
    "no names": (lambda d: d[["age"]], "column 'id'"),
    "other name": (lambda d: d.set_index("id").rename_axis("store"), "column 'id'"),
    "text": (lambda d: d.astype({"id": str}), "'id' in data are text.*are numbers.*astype"),
    "yes or no": (lambda d: d.assign(id=d["id"] > 9), "'id' in data are booleans"),
    "nobody": (lambda d: d.assign(id=d["id"] + 1000), "none of the fit's 80 groups in 'id'"),
    "disagree": (lambda d: d.set_index(d["id"].iloc[::-1]), "'id' and an index.*disagree"),
    "numbers without a name": (lambda d: d[["age"]][d["age"] > 0].iloc[1:], "column 'id'"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("fit", FITS, indirect=True)
def test_tables_that_do_not_say_whose_rows_they_have_are_refused(fit, wrong):
    change, message = WRONG[wrong]
    with pytest.raises(InputError, match=message):
        fit.profile(change(demo()))


@pytest.mark.parametrize("fit", FITS, indirect=True)
def test_groups_that_a_table_lacks_are_counted(fit):
    some = demo()[demo()["id"] != 7]
    lacks = r"lacks 1 of the model's 80 groups in 'id', such as 7;"
    for table in (some, some.set_index("id"), pl.from_pandas(some)):
        with pytest.warns(InputWarning, match=lacks):
            assert fit.profile(table).tests.loc["age", "units"] == BOUGHT - 1


def test_large_numbers_of_customers_are_not_rounded():
    big = 2**60
    data, people = sales().assign(id=sales()["id"] + big), demo().assign(id=demo()["id"] + big)
    res = MixReg.from_formula("y ~ x", data, k=2, groups="id").fit(n_init=2)
    by_hand = truth(fitted("memory", ""))
    assert_allclose(ages(res.profile(people)), by_hand)
    assert_allclose(ages(res.profile(people.astype({"id": "uint64"}))), by_hand)
    with pytest.raises(InputError, match=r"beyond 2\^53 that were read as floats"):
        res.profile(people.astype({"id": float}))


def test_groups_without_a_name_need_an_index_of_their_names():
    data, people = sales(), demo().set_index("id")
    res = MixReg.from_formula("y ~ x", data, k=2, groups=data["id"].to_numpy()).fit(n_init=2)
    by_hand = truth(res)
    assert_allclose(ages(res.profile(people.loc[res.known_groups])), by_hand)
    for table in (demo()[["age"]], demo(), people.iloc[:5]):
        with pytest.raises(InputError, match=r"data lacks"):
            res.profile(table)
    res.remove_data()
    assert_allclose(ages(res.profile(people.loc[res.known_groups])), by_hand)
    with pytest.raises(InputError, match=r"by its index with a row.*row numbers only"):
        res.profile(demo())


def test_row_numbers_name_groups_that_are_row_numbers():
    data = sales().assign(id=sales()["id"] - 1).rename(columns={"id": "store"})
    people = demo().sort_values("id", ignore_index=True)[["age"]]
    res = MixReg.from_formula("y ~ x", data, k=2, groups="store").fit(n_init=2)
    by_hand = truth(fitted("memory", ""))
    assert_allclose(ages(res.profile(people.head(BOUGHT))), by_hand)
    # More of them may be rows as well.
    with pytest.raises(InputError, match="column 'store'"):
        res.profile(people)


# Rows without groups


def plain(data, **options):
    return MixReg.from_formula("y ~ x", data, k=2, **options).fit(n_init=2)


def test_rows_are_matched_by_row_numbers_if_they_have_them():
    data = sales().reset_index(drop=True)
    gaps = data.assign(y=data["y"].where(data.index % 7 != 3))
    for res in (plain(data), plain(gaps), plain(data, subset="x > -1"), plain(data.iloc[10:300])):
        for table in (data, pl.from_pandas(data), data.iloc[::-1], data.loc[res.labels.index]):
            found = res.profile(table).table.loc[("x", "mean"), "overall"]
            assert found == pytest.approx(data.loc[res.labels.index, "x"].mean())
    twos = data.iloc[::2].assign(y=gaps["y"])
    assert plain(twos).profile(data).tests.loc["x", "units"] == twos["y"].notna().sum()


def test_row_numbers_are_no_names_of_rows():
    named = sales().drop_duplicates("id").set_index("id")
    res, people = plain(named), demo()
    by_hand = people.set_index("id").loc[named.index, "age"].mean()
    for table in (people, people.set_index("id"), pl.from_pandas(people)):
        found = res.profile(table)
        assert found.table.loc[("age", "mean"), "overall"] == pytest.approx(by_hand)
        assert found.table.index.get_level_values(0).unique().tolist() == ["age"]
    for table in (people[["age"]], people.set_index("id").rename_axis("store")):
        with pytest.raises(InputError, match="give it the index of the data"):
            res.profile(table)
    numbered = plain(named.reset_index(drop=True))
    with pytest.raises(InputError, match="named 'id', and that of the model's rows None"):
        numbered.profile(people.assign(id=people["id"] - 1).set_index("id"))
    gaps = plain(sales().drop_duplicates("id"))
    wide = pd.DataFrame({"age": np.arange(2000.0)})
    with pytest.raises(InputError, match=r"row numbers \(a RangeIndex\), and the model's rows"):
        gaps.profile(wide)
    here = wide.loc[gaps.labels.index]
    assert gaps.profile(here).table.loc[("age", "mean"), "overall"] == here["age"].mean()


# Known customers


def test_known_customers_are_matched_by_the_same_rule():
    res, new = fitted("memory", ""), sales().head(40)[["id", "x"]]
    wanted = res.predict(new, known=True)
    known = res.group_posterior
    by_column = known.reset_index()
    for table in (known, by_column, by_column.iloc[::-1], by_column.astype({"id": float})):
        assert_allclose(res.predict(new, known=table), wanted)
    assert_allclose(res.predict(new.astype({"id": "uint8"}), known=True), wanted)
    with pytest.raises(InputError, match="one by row numbers"):
        res.predict(new, known=known.reset_index(drop=True))
    with pytest.raises(InputError, match="new customers are text"):
        res.predict(new.astype({"id": str}), known=known)


def test_groups_of_new_rows_have_the_types_of_their_values():
    res, new = fitted("memory", ""), sales()[["id", "x"]].head(30)
    wanted = res.predict(new, "posterior")
    for dtype in ("uint8", "float64", "Int16", "category"):
        assert_frame_equal(res.predict(new.astype({"id": dtype}), "posterior"), wanted)
    strangers = res.predict(new.astype({"id": str}), "posterior")
    assert_allclose(strangers, np.tile(res.weights, (len(new), 1)))


@pytest.mark.parametrize(
    ("names", "keys", "expected"),
    [
        ([2**60, 2**60 + 1], [2**60 + 1, 7], [1, -1]),
        ([1, 2, 3], [3.0, np.nan, 2.5], [2, -1, -1]),
        ([1, 2], ["1", "2"], [-1, -1]),
        ([1, 0], [True, False], [-1, -1]),
        (["a", "b"], pd.Categorical(["b", None]), [1, -1]),
        ([1, 2], pd.Categorical([2, None, 1]), [1, -1, 0]),
        (pd.to_datetime(["2020-01-01"]), ["2020-01-01"], [-1]),
        (pd.to_datetime(["2020-01-01"]), pd.to_datetime(["2020-01-01"]).date, [0]),
    ],
)
def test_places_compare_values(names, keys, expected):
    assert_array_equal(places(pd.Index(names), keys), expected)
