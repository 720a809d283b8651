"""Tables of other libraries give what the same data give as a pandas frame, to the last bit."""

import ast
import datetime
import decimal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import mixreg
from mixreg import InputError, MixReg, select_k
from mixreg.table import frames
from tests.tables import KINDS, ROWS, Stream, make_arrow, make_pandas, make_polars

FORMULA = "y ~ np.abs(x) + size + shop + open"


def fit(data, **options):
    given = {"groups": "id", "weights": "weight", "concomitant": "~ C(weight)", **options}
    return MixReg.from_formula(FORMULA, data, k=2, **given).fit()


@pytest.fixture(scope="module")
def expected():
    return fit(make_pandas())


def same(res, expected):
    pd.testing.assert_series_equal(res.params, expected.params, check_exact=True)
    pd.testing.assert_frame_equal(res.posterior, expected.posterior, check_exact=True)
    pd.testing.assert_series_equal(res.group_labels, expected.group_labels, check_exact=True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_fit(kind, expected):
    same(fit(KINDS[kind]()), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_can_be_predicted(kind, expected):
    for which in ("mean", "component", "posterior", "label"):
        found = expected.predict(KINDS[kind](), which)
        wanted = expected.predict(make_pandas(), which)
        assert found.equals(wanted)
        assert found.index.equals(pd.RangeIndex(ROWS))
    assert expected.assign(KINDS[kind]()).equals(expected.assign(make_pandas()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_chooses_rows(kind):
    # A reader is read once, so all that the query names must be read with the rest.
    query = "past > -1 and `id` != 3"
    same(fit(KINDS[kind](), subset=query), fit(make_pandas(), subset=query))


@pytest.mark.parametrize("kind", ["lazy", "reader", "duckdb"])
def test_select_k_reads_a_table_once(kind):
    options = {"groups": "id", "k": [2, 3], "only": {"shop": [1]}, "n_jobs": 1, "n_init": 2}
    found = select_k("y ~ x + shop", KINDS[kind](), **options)
    wanted = select_k("y ~ x + shop", make_pandas(), **options)
    pd.testing.assert_frame_equal(found.table, wanted.table, check_exact=True)


@pytest.mark.parametrize("kind", ["polars", "duckdb", "stream", "arrow types"])
def test_segments_are_profiled(kind, expected):
    data, keep = KINDS[kind](), ["past", "shop", "size", "id"]
    if kind == "stream":
        data = Stream(data.table.select(keep))
    else:
        data = data.select(*keep) if kind == "duckdb" else data[keep]
    wanted = expected.profile(make_pandas()[keep])
    found = expected.profile(data)
    pd.testing.assert_frame_equal(found.table, wanted.table, check_exact=True)
    pd.testing.assert_frame_equal(found.tests, wanted.tests, check_exact=True)


def test_a_table_with_a_row_a_group_is_profiled_by_group(expected):
    data = pd.DataFrame({"id": np.arange(30)[::-1], "age": np.arange(30.0)})
    wanted = expected.profile(data.set_index("id"))
    found = expected.profile(pl.from_pandas(data))
    pd.testing.assert_frame_equal(found.tests, wanted.tests, check_exact=True)


# Columns and arrays


COLUMNS = {
    "polars": lambda values: pl.Series("id", values),
    "chunked": lambda values: pa.chunked_array([values[:100], values[100:]]),
    "array": pa.array,
    "stream": lambda values: Stream(pa.chunked_array([values])),
    "arrow type": lambda values: pd.Series(values, dtype="int64[pyarrow]"),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_other_libraries(kind):
    data, make = make_pandas(), COLUMNS[kind]
    labels = [1 if i < 20 else 2 if i >= 280 else None for i in range(ROWS)]
    wanted = MixReg.from_formula(
        "y ~ x", data, k=2, groups="id", weights="weight", offset="past", known_labels=labels
    )
    found = MixReg.from_formula(
        "y ~ x",
        data,
        k=2,
        groups=make(data["id"].to_list()),
        weights=make(data["weight"].to_list()),
        offset=pl.Series(data["past"].to_list()),
        known_labels=make(labels),
    )
    first, second = found.fit(), wanted.fit()
    pd.testing.assert_series_equal(first.params, second.params, check_exact=True)
    assert np.array_equal(first.group_labels.index, second.group_labels.index)
    new = {"groups": make(data["id"].to_list()), "offset": pa.array(data["past"].to_numpy())}
    found = first.predict(make_polars(), "posterior", **new)
    assert found.equals(second.predict(data, "posterior"))


def test_matrices_of_other_libraries():
    data, table = make_pandas(), make_polars()
    names = ["x", "weight"]
    wanted = MixReg(data["y"], data[names], 2, concomitant=data[["past"]].assign(one=1)).fit()
    gate = table.select("past", pl.lit(1).alias("one"))
    found = MixReg(table["y"], table.select(names), 2, concomitant=gate).fit()
    pd.testing.assert_series_equal(found.params, wanted.params, check_exact=True)
    new = table.with_columns(pl.lit(1).alias("one"))
    assert found.predict(new, "label").equals(wanted.predict(data.assign(one=1), "label"))
    # Columns that go by other names go by their place.
    renamed = table.select(names).rename({"x": "a", "weight": "b"})
    average = {"concomitant": "average"}
    by_place = wanted.predict(data[names].to_numpy(), **average)
    assert found.predict(renamed, **average).equals(by_place)


def test_a_column_without_an_index_takes_the_place_of_the_rows():
    data, table = make_pandas(), make_polars()
    data.index = data.index + 1000
    model = MixReg(table["y"], data[["x"]], 2, groups=table["id"])
    assert model.index[0] == 1000
    model = MixReg(data["y"], table.select("x"), 2, groups=data["id"])
    assert model.index[0] == 1000
    model = MixReg.from_formula("y ~ x", data, k=2, groups=table["id"])
    assert model.index[0] == 1000
    assert model.spec.groups_name == "id"


NUMBER = np.arange(ROWS) % 7
PRICE = pl.Series(NUMBER)


def half(values):
    return values / 2


def test_names_of_the_caller_are_found():
    table, data = make_polars(), make_pandas()
    found = MixReg.from_formula("y ~ half(x) + PRICE", table, k=1).fit()
    wanted = MixReg.from_formula("y ~ half(x) + NUMBER", data, k=1).fit()
    assert np.array_equal(found.params, wanted.params)
    # Rows are counted even where no column is asked for.
    only = MixReg.from_formula("PRICE ~ half(NUMBER)", table.select("baskets"), k=1)
    assert only.kept.size == ROWS


# Types


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table, pd.DataFrame], ids=["pl", "pa", "pd"])
def test_missing_values_of_every_type(make):
    data = make_pandas()
    gaps = {name: [None if i % 9 == 5 else v for i, v in enumerate(data[name])] for name in data}
    gaps["shop"] = [v if isinstance(v, str) else None for v in gaps["shop"]]
    gaps["size"] = [v if isinstance(v, str) else None for v in gaps["size"]]
    gaps["id"] = [None if i < 10 else v for i, v in enumerate(data["id"])]
    formula = "y ~ x + shop + open + C(weight)"
    found = MixReg.from_formula(formula, make(gaps), k=2, groups="id").fit()
    wanted = MixReg.from_formula(formula, pd.DataFrame(gaps), k=2, groups="id").fit()
    assert found.nobs == wanted.nobs < ROWS * 8 / 9
    assert np.array_equal(found.params, wanted.params)
    assert found.predict(make(gaps), "label").equals(wanted.predict(pd.DataFrame(gaps), "label"))
    with pytest.raises(InputError, match="missing values"):
        MixReg.from_formula(formula, make(gaps), k=2, missing="raise")


def test_groups_with_large_numbers_are_not_rounded(tmp_path):
    data = make_polars().with_columns(id=pl.col("id") + 2**60)
    data = data.with_columns(id=pl.when(pl.col("id") > 2**60).then("id"))
    res = fit(data)
    assert len(res.group_labels) == 29
    assert res.group_labels.index[0] == 2**60 + 1
    res.save(tmp_path / "fit")


def test_categories_keep_their_order():
    levels = ["c", "a", "b"]
    values = [levels[i % 3] for i in range(ROWS)]
    y = np.random.default_rng(0).standard_normal(ROWS)
    codes = pa.array(np.arange(ROWS, dtype=np.int8) % 3)
    made = {
        "enum": pl.DataFrame({"y": y, "a": pl.Series(values, dtype=pl.Enum(levels))}),
        "categorical": pl.DataFrame({"y": y, "a": pl.Series(values, dtype=pl.Categorical)}),
        "dictionary": pa.table(
            {"y": y, "a": pa.DictionaryArray.from_arrays(codes, pa.array(levels))}
        ),
    }
    made["arrow type"] = made["dictionary"].to_pandas(types_mapper=pd.ArrowDtype)
    for data in made.values():
        res = MixReg.from_formula("y ~ a", data, k=1).fit()
        assert res.spec.exog_names == ["Intercept", "a[T.a]", "a[T.b]"]
        # Few new rows need not have all categories, nor have them in this order.
        new = pl.DataFrame({"a": pl.Series(["b", "c"], dtype=pl.Categorical)})
        wanted = res.predict(pd.DataFrame({"a": ["b", "c"]}))
        assert res.predict(new).equals(wanted)
        assert res.predict(new.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)).equals(wanted)


def test_dictionaries_that_differ_by_chunk_become_one():
    chunks = [pa.array(["b", "a"]).dictionary_encode(), pa.array(["c", None]).dictionary_encode()]
    found = frames.read(pa.table({"a": pa.chunked_array(chunks)}))["a"]
    assert found.cat.categories.tolist() == ["b", "a", "c"]
    assert found.isna().tolist() == [False, False, False, True]


def test_a_null_among_the_levels_is_missing():
    levels = pa.array(["b", None, "a"])
    values = pa.DictionaryArray.from_arrays(pa.array([2, 1, 0]), levels)
    found = frames.read(pa.table({"a": values}))["a"]
    assert found.cat.categories.tolist() == ["b", "a"]
    assert found.isna().tolist() == [False, True, False]


def test_a_type_that_arrow_lacks_is_refused():
    data = make_polars().with_columns(x=pl.col("weight").cast(pl.Int128))
    with pytest.raises(InputError, match="data cannot be read as Arrow has them"):
        MixReg.from_formula("y ~ x", data, k=2)


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table], ids=["pl", "pa"])
def test_decimals_dates_and_booleans(make):
    rng = np.random.default_rng(0)
    day = datetime.date(2024, 1, 1)
    data = {
        "y": rng.standard_normal(ROWS),
        "price": [decimal.Decimal(int(v)) / 1000 for v in rng.integers(10**5, 10**7, ROWS)],
        "day": [day + datetime.timedelta(days=i) for i in range(ROWS)],
    }
    frame = pd.DataFrame(data).assign(day=pd.to_datetime(data["day"]))
    formula = "y ~ price + C(day.dt.month)"
    found = MixReg.from_formula(formula, make(data), k=1).fit()
    wanted = MixReg.from_formula(formula, frame, k=1).fit()
    pd.testing.assert_series_equal(found.params, wanted.params, check_exact=True)
    yes = MixReg.from_formula("b ~ x", make({"b": data["y"] > 0, "x": data["y"] ** 2}), k=1)
    assert set(yes.fit().model.spec.exog_names) == {"Intercept", "x"}


REFUSED = {
    "list": pa.array([[1]] * ROWS),
    "struct": pa.array([{"a": 1}] * ROWS),
    "binary": pa.array([b"a"] * ROWS),
    "time": pa.array([datetime.time(1)] * ROWS),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_types_that_cannot_be_used_are_refused_by_name(kind):
    table = make_arrow().append_column("odd", REFUSED[kind])
    for data in (table, table.to_pandas(types_mapper=pd.ArrowDtype)):
        with pytest.raises(InputError, match=f"column 'odd' holds {kind}"):
            MixReg.from_formula("y ~ odd", data, k=2)
        with pytest.raises(InputError, match=f"column 'odd' holds {kind}"):
            MixReg.from_formula("y ~ x", data, k=2, groups="odd")
        MixReg.from_formula("y ~ x", data, k=2)
    with pytest.raises(InputError, match=f"column 'weights' holds {kind}"):
        MixReg.from_formula("y ~ x", table, k=2, weights=REFUSED[kind])


@pytest.mark.parametrize("kind", ["lazy", "table", "duckdb", "stream"])
def test_messages_name_the_columns_of_the_table(kind):
    data = KINDS[kind]()
    with pytest.raises(InputError, match=r"groups='ID' is not a column of data; did you mean 'id'"):
        MixReg.from_formula("y ~ x", data, k=2, groups="ID")
    with pytest.raises(InputError, match=r"names 'pst'.*did you mean 'past'"):
        MixReg.from_formula("y ~ pst", data, k=2)
    res = MixReg.from_formula("y ~ x", data, k=1).fit()
    with pytest.raises(InputError, match="new data lack the columns x"):
        res.predict(pl.DataFrame({"past": [1.0]}))


def test_empty_and_repeated_columns_are_refused():
    with pytest.raises(InputError, match="data is empty"):
        MixReg.from_formula("y ~ x", make_polars().head(0).lazy(), k=2)
    table = make_arrow().append_column("x", pa.array(np.zeros(ROWS)))
    with pytest.raises(InputError, match="several columns named x"):
        MixReg.from_formula("y ~ x", Stream(table), k=2)


# What is read


def test_a_scan_reads_the_columns_that_are_named(tmp_path):
    path = tmp_path / "sales.parquet"
    make_polars().write_parquet(path)
    plan = pl.scan_parquet(path)
    # Reading any other column would fail.
    others = [name for name in make_polars().columns if name not in ("y", "x", "id")]
    broken = plan.with_columns(pl.col(others).map_batches(_fail, return_dtype=pl.Float64))
    found = MixReg.from_formula("y ~ x", broken, k=2, groups="id").fit()
    same(found, MixReg.from_formula("y ~ x", make_pandas(), k=2, groups="id").fit())
    assert found.predict(broken).equals(found.predict(make_pandas()))


def _fail(_):
    raise AssertionError("a column was read that nobody asked for")


MEMORY = """
    import resource, sys
    import numpy as np, polars as pl
    from mixreg.table import frames

    plan = pl.scan_parquet(sys.argv[1])
    frames.read(plan.head(10), ["c1"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    frame = frames.read(plan, ["c1", "c7", "c40", "np"])
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(frame.shape[1], (after - before) / 1024, frame.memory_usage().sum() / 2**20)
"""


def test_a_wide_scan_is_not_held_in_memory(tmp_path):
    rows, width = 500_000, 50
    rng = np.random.default_rng(0)
    path = tmp_path / "wide.parquet"
    column = rng.standard_normal(rows)
    pa.parquet.write_table(pa.table({f"c{i}": column + i for i in range(width)}), path)
    script = textwrap.dedent(MEMORY)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    columns, peak, held = map(float, done.stdout.split())
    assert columns == 3
    assert held < 13
    # All columns are 190 MB; three, and a few copies of them on the way, are far less.
    assert peak < 100


def test_columns_of_a_stream_do_not_hold_the_others():
    schema = pa.schema([(f"c{i}", pa.float64()) for i in range(20)])
    batches = (
        pa.record_batch([pa.array([float(i)] * 10_000)] * 20, schema=schema) for i in range(10)
    )
    before = pa.total_allocated_bytes()
    frame = frames.read(Stream(pa.RecordBatchReader.from_batches(schema, batches)), ["c3"])
    assert frame.shape == (100_000, 1)
    assert frame["c3"].iloc[-1] == 9
    assert pa.total_allocated_bytes() - before <= 2 * 8 * 100_000


def test_only_those_who_have_such_tables_wait_for_these_libraries():
    for path in Path(mixreg.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in getattr(node, "names", [])]
            module = getattr(node, "module", None) or ""
            found = {name.split(".")[0] for name in [*names, module]}
            assert not found & {"duckdb", "narwhals", "polars", "pyarrow"}, path


FRAMES = (
    "a polars {} needs narwhals and pyarrow, not all of which are installed; "
    r'try: python -m pip install "narwhals\S*" "pyarrow\S*"$'
)


@pytest.mark.parametrize("missing", ["pyarrow", "narwhals"])
def test_what_to_install_is_said(monkeypatch, missing):
    data, weights = make_polars(), pl.Series(np.ones(ROWS))
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=FRAMES.format("DataFrame")):
        MixReg.from_formula("y ~ x", data, k=2)
    if missing == "pyarrow":
        with pytest.raises(ImportError, match=FRAMES.format("Series")):
            MixReg.from_formula("y ~ x", make_pandas(), k=2, weights=weights)
