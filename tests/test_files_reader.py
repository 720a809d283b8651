"""Files give, chunk by chunk, what pandas gives of the whole table."""

import datetime
import decimal
import errno
import gzip
import itertools
import lzma
import re
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from mixreg import InputError
from mixreg.reading.buckets import hashed, together
from mixreg.reading.files import Files, is_files
from mixreg.reading.writing import TableWriter
from mixreg.table import frames
from mixreg.table.checks import subset_mask

NAMES = ["x", "n", "whole", "name", "kind", "yes", "day", "at", "price", "two words"]


def make_table(rows=1000, seed=0):
    """A column of every type, most with missing values."""
    rng = np.random.default_rng(seed)

    def gaps(values):
        return [None if gap else value for value, gap in zip(values, draw < 0.1, strict=True)]

    draw = rng.random(rows)
    x = np.round(rng.standard_normal(rows), 1)
    x[rng.random(rows) < 0.1] = np.nan
    day = [datetime.date(2020, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(0, 9, rows)]
    columns = {
        "x": pa.array(x),
        "n": pa.array(gaps(np.sort(rng.integers(0, 9, rows)).tolist()), pa.int32()),
        "whole": pa.array(rng.integers(-3, 4, rows) + 2**60),
        "name": pa.array(gaps(rng.choice(["a", "b", "c"], rows).tolist())),
        "kind": pa.array(gaps(rng.choice(["u", "v"], rows).tolist())).dictionary_encode(),
        "yes": pa.array(gaps((rng.random(rows) < 0.5).tolist())),
        "day": pa.array(gaps(day)),
        "at": pa.array(gaps([datetime.datetime(d.year, d.month, d.day, 12) for d in day])),
        "price": pa.array(
            gaps([decimal.Decimal(int(v)) / 100 for v in rng.integers(0, 999, rows)])
        ),
        "two words": pa.array(rng.integers(0, 5, rows)),
        "listed": pa.array([[1]] * rows),
    }
    return pa.table(columns)


TABLE = make_table()


def whole(table=TABLE, names=NAMES):
    return frames.read(table, names, levels=False)


def joined(files, names=NAMES, where=None):
    return pd.concat(list(files.chunks(names, where)))


def same(found, wanted):
    pd.testing.assert_frame_equal(found, wanted, check_exact=True, check_index_type=False)


def parts(table, count=4):
    edges = np.linspace(0, table.num_rows, count + 1).astype(int)
    return [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]


def write(folder, table=TABLE, suffix=".parquet", count=4, **options):
    folder.mkdir(exist_ok=True)
    for i, part in enumerate(parts(table, count)):
        write_file(folder / f"part-{i}{suffix}", part, **options)
    return folder


def write_file(path, table, **options):
    if path.suffix == ".parquet":
        pq.write_table(table, path, **options)
    elif path.suffix in (".feather", ".arrow", ".ipc"):
        pa.feather.write_feather(table, path, **options)
    else:
        pa.csv.write_csv(table, path)


# Forms


def forms(folder):
    paths = sorted(folder.iterdir())
    return {
        "folder": folder,
        "text": str(folder),
        "glob": str(folder / "part-*"),
        "list": paths,
        "tuple": tuple(map(str, paths)),
        "dataset": ds.dataset(folder, format="parquet"),
    }


@pytest.mark.parametrize("form", ["folder", "text", "glob", "list", "tuple", "dataset"])
@pytest.mark.parametrize("size", [1, 77, 250, 10_000])
def test_every_form_and_size_gives_the_same_rows(tmp_path, form, size):
    data = forms(write(tmp_path / "sales", row_group_size=100))[form]
    assert is_files(data)
    files = Files(data, rows_per_chunk=size)
    if size == 1:
        head = [chunk for chunk, _ in zip(files.chunks(["n"]), range(5), strict=False)]
        assert [len(chunk) for chunk in head] == [1] * 5
        return
    chunks = list(files.chunks(NAMES))
    assert [len(chunk) for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
    same(pd.concat(chunks), whole())
    same(joined(files), whole())  # again
    assert files.columns == tuple(TABLE.column_names)
    assert files.rows() == 1000


def test_a_dataset_of_a_table_is_read_as_the_table():
    data = ds.dataset(TABLE)
    assert not is_files(data)
    same(frames.read(data, NAMES, levels=False), whole())


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow", ".ipc"])
def test_every_format_of_arrow(tmp_path, suffix):
    folder = write(tmp_path / "sales", suffix=suffix)
    files = Files(folder, rows_per_chunk=128)
    same(joined(files), whole())
    assert files.rows() == 1000
    one = Files(folder / f"part-1{suffix}")
    same(joined(one), whole(parts(TABLE)[1]))
    same(
        joined(Files(ds.dataset(folder, format="parquet" if "parq" in suffix else "ipc"))), whole()
    )


def test_what_is_no_file():
    for data in (TABLE, pd.DataFrame(), {"x": [1]}, [], [1.0], None):
        assert not is_files(data)
    with pytest.raises(InputError, match="is no path"):
        Files([1.0])


QUERIES = [
    "x > 0",
    "x != 0.5",
    "not x > 0",
    "~(x <= 0.3) & n < 5",
    "n >= 4",
    "n != 4",
    "not (n > 3 or n < 1)",
    "2 < n <= 6",
    "5 >= n",
    "n > 2.5",
    "n == 3.0",
    "n in [1, 2]",
    "n not in [1, 2, 3]",
    "name == 'a'",
    "name != 'a'",
    "not name < 'b'",
    "name in ['a', 'zz'] and n > 6",
    "kind == 'u' | n == 0",
    "kind != 'u'",
    "yes",
    "not yes",
    "yes and n > 4",
    "yes == True",
    "day > '2020-01-04'",
    "day != '2020-01-04'",
    "at > '2020-01-04 12:00'",
    "day <= '2020-01-04 06:00' and not at == '2020-01-03 12:00'",
    "price > 5",
    "whole > 1152921504606846976",
    "whole == 1152921504606846976",
    "whole >= 1152921504606846976.0",
    "`two words` > 2 & n > 3",
    "n + `two words` > 9",
    "x / `two words` != 1",
    "n % 3 == 1",
    "x > n",
    "n == n",
    "index > 500 and n > 2",
    "name.str.startswith('a') and n < 4",
    "day.dt.day == 4",
    "x.isna()",
    "n > 100",
    "name == 'z' or x > 2",
    "n.isin([4]) or n.between(6, 7)",
    "name == '`n`' or name == 'a & b' or n == 1",
]


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    return write(tmp_path_factory.mktemp("files") / "sales", row_group_size=20)


def chosen(files, names, where):
    chunks = list(files.chunks(names, where))
    return pd.concat(chunks) if chunks else whole()[names].iloc[:0]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_chooses_the_rows_that_pandas_chooses(sales, query):
    wanted = whole()[subset_mask(whole(), query)]
    for size in (64, 5000):
        found = chosen(Files(sales, rows_per_chunk=size), ["x", "n"], query)
        assert found.index.tolist() == wanted.index.tolist()
        assert found["x"].equals(wanted["x"])


def random_query(rng, depth=2):
    if depth and rng.random() < 0.7:
        left, right = random_query(rng, depth - 1), random_query(rng, depth - 1)
        sign = rng.choice(["and", "or", "&", "|"])
        return f"{rng.choice(['', 'not ', '~'])}(({left}) {sign} ({right}))"
    name = rng.choice(["x", "n", "whole", "name", "kind", "day", "`two words`", "region", "year"])
    sign = rng.choice(["<", "<=", ">", ">=", "==", "!="])
    value = {
        "x": round(float(rng.standard_normal()), 1),
        "whole": 2**60 + int(rng.integers(-3, 4)),
        "name": repr(str(rng.choice(["a", "b", "c", "d"]))),
        "kind": repr(str(rng.choice(["u", "v"]))),
        "region": repr(str(rng.choice(["north", "south"]))),
        "day": f"'2020-01-0{rng.integers(1, 9)}'",
        "year": int(rng.integers(2019, 2023)),
    }.get(name, int(rng.integers(0, 9)))
    if name in ("n", "name", "region", "year") and rng.random() < 0.3:
        return f"{name} {rng.choice(['in', 'not in'])} [{value}]"
    return f"{value} {sign} {name}" if rng.random() < 0.2 else f"{name} {sign} {value}"


def write_partitions(folder, table, row_group_size=15):
    """Folders by region, one of them without, and by year."""
    pieces = parts(table, 6)
    regions = ["north", "south", "__HIVE_DEFAULT_PARTITION__"]
    values = [[pa.array([None])] * 2 for _ in pieces]
    for i, piece in enumerate(pieces):
        region, year = regions[i % 3], 2020 + i // 3
        place = folder / f"year={year}" / f"region={region}"
        place.mkdir(parents=True)
        pq.write_table(piece, place / "part.parquet", row_group_size=row_group_size)
        known = region if i % 3 < 2 else None
        values[i] = [pa.array([year] * len(piece)), pa.array([known] * len(piece), pa.string())]
    order = [i for year in range(2) for i in (3 * year + 2, 3 * year, 3 * year + 1)]
    tables = [
        pieces[i].append_column("year", values[i][0]).append_column("region", values[i][1])
        for i in order
    ]
    return pa.concat_tables(tables)


@pytest.mark.parametrize("seed", range(8))
def test_random_queries_choose_the_rows_that_pandas_chooses(tmp_path, seed):
    rng = np.random.default_rng(seed)
    table = write_partitions(tmp_path / "sales", make_table(300, seed))
    names = [*NAMES, "year", "region"]
    frame = whole(table, names)
    files = Files(tmp_path / "sales", rows_per_chunk=int(rng.choice([40, 1000])))
    same(joined(files, names), frame)
    for query in [random_query(rng) for _ in range(10)]:
        found = chosen(files, ["n"], query)
        assert found.index.tolist() == frame.index[subset_mask(frame, query)].tolist(), query


def groups_read(monkeypatch, files, where):
    """Row groups that are read."""
    read = []
    own = pq.ParquetFile.iter_batches

    def noted(self, size, groups, columns):
        read.extend(groups)
        return own(self, size, groups, columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    list(files.chunks(["x"], where))
    monkeypatch.undo()
    return len(read)


def test_row_groups_and_folders_that_a_query_rules_out_are_not_read(tmp_path, sales, monkeypatch):
    files = Files(sales)
    assert groups_read(monkeypatch, files, None) == 52
    assert groups_read(monkeypatch, files, "n > 7 and x.isna()") < 15
    assert groups_read(monkeypatch, files, "not (n > 0 or name == 'q')") < 50
    assert (
        groups_read(monkeypatch, files, "n > 100") < 10
    )  # Arrow keeps some that have missing values
    assert groups_read(monkeypatch, files, "whole < 100") == 0
    # NaN is not in the statistics, and meets this condition.
    assert groups_read(monkeypatch, files, "x != 100") == 52
    write_partitions(tmp_path / "years", TABLE, 1000)
    files = Files(tmp_path / "years")
    assert groups_read(monkeypatch, files, "year == 2021") == 3
    assert groups_read(monkeypatch, files, "year == 2021 and region == 'north'") == 1
    assert groups_read(monkeypatch, files, "region != 'north'") == 4
    assert groups_read(monkeypatch, files, "region in ['south'] or x > 0") == 6


def test_an_expression_of_arrow_chooses_rows(sales):
    files, n = Files(sales, rows_per_chunk=100), pc.field("n")
    found = joined(files, ["x"], (n > 3) & (pc.field("two words") == 1))
    wanted = whole()[subset_mask(whole(), "n > 3 and `two words` == 1")]
    same(found, wanted[["x"]])
    # Arrow's statistics lose the rows with NaN; they are not asked.
    assert joined(files, ["x"], pc.field("x") != 0.5)["x"].isna().any()
    with pytest.raises(InputError, match="cannot be evaluated: No match"):
        files.chunks(["x"], pc.field("nowhere") > 1)


BAD_QUERIES = {
    "x > x.mean()": r"looks at other rows in 'x.mean\(\)'",
    "n in whole": "looks at other rows in 'n in whole'",
    "n.isin(whole)": r"looks at other rows in 'n.isin\(whole\)'",
    "x > x[0]": r"looks at other rows in 'x\[0\]'",
    "n < n.size": "looks at other rows in 'n.size'",
    "nowhere > 1": "subset='nowhere > 1' cannot be evaluated",
    "n >": "cannot be evaluated",
    "n + 1": r"subset='n \+ 1' is not a condition",
}


@pytest.mark.parametrize("query", BAD_QUERIES)
def test_bad_queries_are_refused_before_rows_are_read(sales, query):
    with pytest.raises(InputError, match=BAD_QUERIES[query]):
        Files(sales).chunks(["x"], query)


def test_a_query_that_compares_what_cannot_be_compared(sales):
    chunks = Files(sales).chunks(["x"], "name > 3")
    with pytest.raises(InputError, match="subset='name > 3' cannot be evaluated"):
        list(chunks)


def test_a_mask_is_refused(sales):
    with pytest.raises(InputError, match="cannot choose rows of files; write a query"):
        Files(sales).chunks(["x"], np.ones(1000, dtype=bool))


# Columns


def test_columns_that_are_named_are_read(sales):
    files = Files(sales)
    chunk = next(files.chunks(["n", "np", "x"]))
    assert chunk.columns.tolist() == ["x", "n"]
    assert frames.columns_of(chunk) == files.columns
    nothing = pd.concat(files.chunks(["np"], "n > 3"))
    assert nothing.shape == (int((whole()["n"] > 3).sum()), 0)
    with pytest.raises(InputError, match="column 'listed' holds list"):
        files.chunks(["listed"])


def test_wide_tables_have_shorter_chunks(sales):
    assert Files(sales).size(["x"]) == 65_536
    assert Files(sales).size([str(i) for i in range(1000)]) == 4194
    with pytest.raises(InputError, match="rows_per_chunk must be a whole number"):
        Files(sales, rows_per_chunk=0)


def test_partitions_are_columns(tmp_path):
    table = write_partitions(tmp_path / "sales", TABLE)
    found = joined(Files(tmp_path / "sales"), ["year", "region", "n"])
    same(found, whole(table, ["year", "region", "n"]))
    pattern = str(tmp_path / "sales" / "year=*" / "region=*" / "*.parquet")
    same(joined(Files(pattern), ["year", "region", "n"]), found)
    data = ds.dataset(tmp_path / "sales", partitioning="hive")
    again = joined(Files(data), ["year", "region", "n"], "year == 2021")
    assert again["region"].equals(found["region"][found["year"] == 2021])


def test_partitions_with_leading_zeros_are_names(tmp_path):
    for month in ("01", "12"):
        place = tmp_path / f"month={month}" / "shop=a%2Fb"
        place.mkdir(parents=True)
        pq.write_table(TABLE, place / "a.parquet")
    found = joined(Files(tmp_path), ["month", "shop"])
    assert set(found["month"]) == {"01", "12"}
    assert set(found["shop"]) == {"a/b"}


def test_hidden_files_are_left_out(tmp_path):
    folder = write(tmp_path / "sales")
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.parquet.crc").write_text("")
    assert Files(folder).rows() == 1000


def test_dictionaries_differ_by_file(tmp_path):
    for i, values in enumerate((["b", "a"], ["c", None], ["a", "c"])):
        pq.write_table(pa.table({"a": pa.array(values).dictionary_encode()}), tmp_path / f"{i}.pq")
    pq.write_table(pa.table({"a": pa.array(["z"], pa.large_string())}), tmp_path / "4.pq")
    found = joined(Files(tmp_path, rows_per_chunk=3), ["a"])["a"]
    assert found.fillna("-").tolist() == ["b", "a", "c", "-", "a", "c", "z"]
    assert not isinstance(found.dtype, pd.CategoricalDtype)


UNIFIED = {
    "int64 and double": ([1, None], [1.5], [1, np.nan, 1.5]),
    "int32 and int64": (pa.array([1], pa.int32()), [2**60], [1, 2**60]),
    "null": ([None], [3], [pd.NA, 3]),
    "float and double": (pa.array([0.5], pa.float32()), [0.1], [0.5, 0.1]),
    "uint8 and int8": (pa.array([200], pa.uint8()), pa.array([-1], pa.int8()), [200, -1]),
}


@pytest.mark.parametrize("kind", UNIFIED)
@pytest.mark.parametrize("turned", [False, True])
def test_types_that_go_together_are_unified(tmp_path, kind, turned):
    one, other, wanted = UNIFIED[kind]
    pq.write_table(pa.table({"a": one}), tmp_path / ("2.pq" if turned else "1.pq"))
    pq.write_table(pa.table({"a": other}), tmp_path / ("1.pq" if turned else "2.pq"))
    found = joined(Files(tmp_path), ["a"])["a"].tolist()
    wanted = wanted[len(one) :] + wanted[: len(one)] if turned else wanted
    pd.testing.assert_series_equal(pd.Series(found, dtype=object), pd.Series(wanted, dtype=object))


# CSV


# Two megabytes: Arrow looks at one at a time.
CSV_ROWS = 80_000
CSV_TEXT = "a,b,c,d\n" + "".join(
    f"{i},{i},t{i % 3},2020-01-0{i % 9 + 1}\n" for i in range(CSV_ROWS)
)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.xz", ".tsv"])
def test_csv(tmp_path, suffix):
    text = CSV_TEXT + "0.5,,NA,\n"
    path = tmp_path / f"sales{suffix}"
    text = text.replace(",", "\t") if suffix == ".tsv" else text
    opener = {".csv.gz": gzip.open, ".csv.xz": lzma.open}.get(suffix, open)
    with opener(path, "wt") as stream:
        stream.write(text)
    files = Files(path)
    assert files.columns == ("a", "b", "c", "d")
    assert files.rows() is None
    found = joined(files, ["a", "b", "c", "d"], "a > 1000 or a == 0.5")
    assert files.rows() == CSV_ROWS + 1
    with opener(path, "rt") as stream:
        wanted = pd.read_csv(stream, sep="\t" if suffix == ".tsv" else ",", parse_dates=["d"])
    wanted = wanted[(wanted["a"] > 1000) | (wanted["a"] == 0.5)]
    assert np.array_equal(found.index, wanted.index)
    # Types fit all rows: those at the end are not like the first ones.
    assert found["a"].dtype == float
    assert np.array_equal(found["a"], wanted["a"])
    assert found["b"].isna().tolist() == wanted["b"].isna().tolist()
    assert found["c"].fillna("-").tolist() == wanted["c"].fillna("-").tolist()
    assert np.array_equal(found["d"].iloc[:-1].to_numpy(), wanted["d"].iloc[:-1].to_numpy())
    assert len(joined(files, [])) == CSV_ROWS + 1


@pytest.mark.parametrize(
    ("end", "wanted"), [("2.5", float), ("x", "text"), ("2020-01-01", "text"), ("", "Int64")]
)
def test_csv_types_fit_the_last_row(tmp_path, end, wanted):
    body = "".join(f"{i},1\n" for i in range(200_000))
    (tmp_path / "a.csv").write_text(f"a,b\n{body}{end},1\n")
    chunks = list(Files(tmp_path / "a.csv").chunks(["a"]))
    first, last = chunks[0]["a"], chunks[-1]["a"]
    if wanted == "text":
        assert (first.iloc[1], last.iloc[-1]) == ("1", end)
    else:
        assert last.dtype == wanted
        assert first.iloc[1] == 1


def test_csv_with_quotes_and_empty_files(tmp_path):
    (tmp_path / "1.csv").write_text('a,b\n"x\ny",1\n"NA",2\n')
    (tmp_path / "2.csv").write_text("")
    (tmp_path / "3.csv").write_text("b,a\n")
    (tmp_path / "4.csv").write_text("b,a\n2.5,é\n")
    found = joined(Files(tmp_path), ["a", "b"])
    assert found["a"].fillna("-").tolist() == ["x\ny", "-", "é"]
    assert found["b"].tolist() == [1, 2, 2.5]


def test_a_dataset_of_csv_files_keeps_its_own_options(tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n1;2\n3;4\n")
    form = ds.CsvFileFormat(pa.csv.ParseOptions(delimiter=";"))
    data = ds.dataset(tmp_path / "a.csv", format=form)
    assert joined(Files(data), ["b"], "a > 1")["b"].to_dict() == {1: 4}
    # Rows of a dataset that filters them are those that pass.
    assert joined(Files(data.filter(pc.field("a") > 1)), ["b"])["b"].to_dict() == {0: 4}


# Bad input


def test_files_that_are_not_there(tmp_path):
    folder = write(tmp_path / "sales")
    with pytest.raises(InputError, match=r"no file matches '.*\*\.pq'; folder '.*' was searched"):
        Files(str(folder / "*.pq"))
    with pytest.raises(InputError, match=r"no file matches .* folder '.*no' does not exist"):
        Files(str(tmp_path / "no" / "*.pq"))
    with pytest.raises(InputError, match=r"part-9.parquet' does not exist.*It has part-0.parquet"):
        Files([folder / "part-0.parquet", folder / "part-9.parquet"])
    with pytest.raises(InputError, match=r"part-0.parquet' is given twice"):
        Files([folder, folder / "part-0.parquet"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no files"):
        Files(tmp_path / "empty")
    with pytest.raises(InputError, match=r"is not a local path; open it with pyarrow.dataset"):
        Files("s3://bucket/sales")


def test_formats_that_are_mixed_or_not_known(tmp_path):
    folder = write(tmp_path / "sales")
    (folder / "a.csv").write_text("x\n1\n")
    with pytest.raises(InputError, match=r"mixes formats: .*a.csv' is csv, .*part-0.* is parquet"):
        Files(folder)
    (folder / "a.csv").rename(folder / "notes.txt")
    with pytest.raises(InputError, match=r"notes.txt' is of no known format; names must end in"):
        Files(folder)


def test_a_file_that_lacks_a_column(tmp_path):
    folder = write(tmp_path / "sales")
    pq.write_table(TABLE.drop_columns("n"), folder / "part-2.parquet")
    files = Files(folder)
    with pytest.raises(InputError, match=r"part-2.parquet' lacks the column 'n'"):
        files.chunks(["n"])
    with pytest.raises(InputError, match=r"part-2.parquet' lacks the column 'n'"):
        files.chunks(["x"], "n > 2")
    assert len(joined(files, ["x"])) == 1750  # nobody asks for it


def test_a_file_with_a_column_twice(tmp_path):
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "a.pq")
    with pytest.raises(InputError, match=r"a.pq' has several columns named 'a'"):
        Files(tmp_path / "a.pq").chunks(["a"])


@pytest.mark.parametrize("column", [["1"], [True], [datetime.date(2020, 1, 1)]])
def test_a_type_that_changes(tmp_path, column):
    kind = re.escape(str(pa.array(column).type))
    pq.write_table(pa.table({"a": [None], "b": [1]}), tmp_path / "1.pq")
    pq.write_table(pa.table({"a": [1], "b": [1]}), tmp_path / "2.pq")
    pq.write_table(pa.table({"a": column, "b": [1]}), tmp_path / "3.pq")
    message = rf"column 'a' is int64 in '.*2.pq', but {kind} in '.*3.pq'; write it with one type"
    with pytest.raises(InputError, match=message):
        Files(tmp_path).chunks(["a"])
    assert len(joined(Files(tmp_path), ["b"])) == 3


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_a_truncated_file_is_named(tmp_path, suffix):
    folder = write(tmp_path / "sales", suffix=suffix)
    path = folder / f"part-2{suffix}"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=rf"part-2{suffix}' cannot be read: .*Write it anew"):
        Files(folder)


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_a_file_that_fails_in_the_middle_is_named(tmp_path, suffix):
    # Compressed pages, of which one is damaged.
    options = {"compression": "zstd"}
    a = np.random.default_rng(0).integers(0, 9, 200_000)
    numbers = pa.table({"first": np.zeros(200_000), "a": a})
    folder = write(tmp_path / "sales", numbers, suffix, **options)
    path = folder / f"part-2{suffix}"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 500] = b"\0" * 500
    path.write_bytes(data)
    chunks = Files(folder, rows_per_chunk=10_000).chunks(["a"])
    assert len(next(chunks)) == 10_000
    with pytest.raises(InputError, match=rf"part-2{suffix}' cannot be read: "):
        list(chunks)


def test_csv_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(InputError, match=r"2.csv' cannot be read: .*Expected 2 columns, got 1"):
        Files(tmp_path).chunks(["a"])
    (tmp_path / "2.csv").write_bytes(b"a,b\n1,\xff\xfe\n")
    with pytest.raises(InputError, match=r"2.csv' cannot be read: column 'b' is no UTF-8 text"):
        joined(Files(tmp_path), ["b"])
    late = CSV_TEXT.encode() + b"1,2,\xff\xfe,\n"
    (tmp_path / "2.csv").write_bytes(late)
    with pytest.raises(InputError, match=r"2.csv' cannot be read: column 'c' is no UTF-8 text"):
        Files(tmp_path / "2.csv").chunks(["a", "c"])
    (tmp_path / "2.csv").unlink()
    whole_file = gzip.compress(CSV_TEXT.encode())
    (tmp_path / "1.csv").unlink()
    (tmp_path / "3.csv.gz").write_bytes(whole_file[: len(whole_file) // 2])
    with pytest.raises(InputError, match=r"3.csv.gz' cannot be read: .*[Tt]runcated"):
        Files(tmp_path).chunks(["a"])


def test_empty_data(tmp_path):
    folder = write(tmp_path / "sales")
    pq.write_table(pa.table({}), folder / "part-1.parquet")
    pq.write_table(TABLE.slice(0, 0), folder / "part-3.parquet")
    assert len(joined(Files(folder))) == 500
    with pytest.raises(InputError, match=r"data is empty: no rows in '.*part-3.parquet'"):
        Files(folder / "part-3.parquet")
    (tmp_path / "a.csv").write_text("a,b\n")
    with pytest.raises(InputError, match=r"data is empty: no rows in '.*a.csv'"):
        joined(Files(tmp_path / "a.csv"), ["a"])


def test_what_to_install_is_said(monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    told = r'needs pyarrow, .*; try: python -m pip install "narwhals\S*" "pyarrow\S*"$'
    with pytest.raises(ImportError, match=f"reading files {told}"):
        Files("a.parquet")
    with (
        pytest.raises(ImportError, match=f"writing a table {told}"),
        TableWriter(tmp_path / "a.csv"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_fingerprints(tmp_path):
    folder = write(tmp_path / "sales")
    first = Files(folder).fingerprint()
    assert Files(folder, rows_per_chunk=10).fingerprint() == first
    assert Files(folder / "part-0.parquet").fingerprint() != first
    write_file(folder / "part-1.parquet", parts(TABLE)[2])
    assert Files(folder).fingerprint() != first


# Groups together


KEYS = {
    "number": lambda rng, rows: pa.array(
        [None if v == 3 else v for v in rng.integers(0, 40, rows).tolist()]
    ),
    "text": lambda rng, rows: pa.array(
        [None if v == 3 else f"g{v}" for v in rng.integers(0, 40, rows)]
    ),
    "float": lambda rng, rows: pa.array(rng.choice([0.0, -0.0, 1.5, np.nan, 2.5], rows)),
    "date": lambda rng, rows: pa.array(rng.integers(0, 30, rows), pa.int32()).cast(pa.date32()),
    "one": lambda rng, rows: pa.array(np.zeros(rows, dtype=int)),
    "all differ": lambda rng, rows: pa.array(rng.permutation(rows)),
    "skewed": lambda rng, rows: pa.array(
        np.where(rng.random(rows) < 0.8, 0, rng.integers(0, 99, rows))
    ),
}


def grouped(folder, key, rows=600):
    rng = np.random.default_rng(1)
    table = pa.table(
        {"g": KEYS[key](rng, rows), "s": rng.integers(0, 5, rows), "y": np.arange(rows)}
    )
    return write(folder, table), frames.read(table)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("limit", [30, 300, 10_000])
@pytest.mark.parametrize("where", [None, "y % 3 != 0"])
def test_groups_are_brought_together(tmp_path, key, limit, where):
    folder, frame = grouped(tmp_path / "sales", key)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    files = Files(folder, rows_per_chunk=50)
    chunks = list(together(files, ["g", "y"], "g", scratch, where, limit))
    assert max(map(len, chunks)) <= 50
    assert list(scratch.iterdir()) == []
    found = pd.concat(chunks)
    wanted = frame if where is None else frame[subset_mask(frame, where)]
    assert found.sort_index()["y"].equals(wanted["y"])
    codes = pd.factorize(found["g"], use_na_sentinel=False)[0]
    assert (np.diff(codes) >= 0).all()  # each group lies together
    assert (np.diff(found["y"])[np.diff(codes) == 0] > 0).all()  # in its own order
    if limit > len(frame):
        order = np.argsort(pd.factorize(wanted["g"], use_na_sentinel=False)[0], kind="stable")
        assert found["y"].tolist() == wanted["y"].iloc[order].tolist()
    # The same on every run.
    again = pd.concat(together(files, ["g", "y"], "g", scratch, where, limit))
    assert again.index.equals(found.index)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("limit", [30, 300])
def test_sets_lie_together_within_groups(tmp_path, key, limit):
    folder, frame = grouped(tmp_path / "sales", key)
    files = Files(folder, rows_per_chunk=25)
    found = pd.concat(together(files, ["g", "s", "y"], ["g", "s"], tmp_path, None, limit))
    assert len(found) == len(frame)
    groups = pd.factorize(found["g"], use_na_sentinel=False)[0]
    sets = pd.factorize(pd.Series(groups * 10 + found["s"].to_numpy()))[0]
    assert (np.diff(groups) >= 0).all()
    assert (np.diff(sets) >= 0).all()
    assert (np.diff(found["y"])[np.diff(sets) == 0] > 0).all()


def test_chunks_end_where_groups_do(tmp_path):
    folder, _ = grouped(tmp_path / "sales", "number")
    chunks = list(together(Files(folder, rows_per_chunk=100), ["y", "g"], "g", tmp_path, None, 500))
    for one, other in itertools.pairwise(chunks):
        assert set(one["g"].dropna()).isdisjoint(other["g"].dropna())


def test_nothing_is_left_behind_by_who_stops_early(tmp_path):
    folder, _ = grouped(tmp_path / "sales", "number")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    chunks = together(Files(folder, rows_per_chunk=50), ["y"], "g", scratch, None, 100)
    next(chunks)
    assert list(scratch.iterdir())
    chunks.close()
    del chunks
    assert list(scratch.iterdir()) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/full is of Linux")
def test_a_full_disk_is_said_and_nothing_is_left(tmp_path):
    folder, _ = grouped(tmp_path / "sales", "number")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    # Whichever bucket is written to first, there is no room for it.
    for number in range(30):
        (scratch / f"bucket-0-{number}.arrow").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"no room left in '.*scratch'.*larger disk") as caught:
        list(together(Files(folder, rows_per_chunk=50), ["y"], "g", scratch, None, 100))
    assert caught.value.errno == errno.ENOSPC
    assert not [path for path in scratch.iterdir() if not path.is_symlink()]


def test_a_damaged_file_leaves_no_buckets(tmp_path):
    (tmp_path / "a.csv").write_text(CSV_TEXT)
    files = Files(tmp_path / "a.csv")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    chunks = together(files, ["a"], "c", scratch, None, 1000)
    (tmp_path / "a.csv").write_text(CSV_TEXT + "1,2\n")
    with pytest.raises(InputError, match=r"a.csv' cannot be read"):
        list(chunks)
    assert list(scratch.iterdir()) == []


def test_bad_keys_and_limits(sales, tmp_path):
    with pytest.raises(InputError, match=r"key='G' is not a column of data; columns are x, n"):
        together(Files(sales), ["x"], "G", tmp_path)
    with pytest.raises(InputError, match="limit_rows must be a whole number"):
        together(Files(sales), ["x"], "n", tmp_path, None, 0)


# Writing


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow", ".csv"])
def test_tables_are_written_chunk_by_chunk(tmp_path, suffix):
    path = tmp_path / f"labels{suffix}"
    path.write_text("old")
    frame = pd.DataFrame(
        {"row": np.arange(100), "label": ["a", "b"] * 50, "p": np.linspace(0, 1, 100)}
    )
    frame["label"] = frame["label"].astype("category")
    with TableWriter(path) as writer:
        writer.write(frame[:50])
        writer.write({name: frame[name][50:].to_numpy() for name in frame})
        assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    found = joined(Files(path), ["row", "label", "p"])
    same(found, frame.astype({"label": found["label"].dtype}))


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv"])
def test_an_error_leaves_the_old_file(tmp_path, suffix):
    path = tmp_path / f"labels{suffix}"
    path.write_text("old")

    def fail(chunk):
        with TableWriter(path) as writer:
            writer.write({"a": [1]})
            writer.write(chunk)
            raise KeyboardInterrupt("stopped")

    for chunk, error, message in [
        ({"a": [2]}, KeyboardInterrupt, "stopped"),
        ({"b": [1]}, InputError, "columns b do not follow a"),
        ({"a": ["x"]}, InputError, "other types than the first one"),
    ]:
        with pytest.raises(error, match=message):
            fail(chunk)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


def test_bad_targets(tmp_path):
    with pytest.raises(InputError, match=r"says no format; end it in .parquet"):
        TableWriter(tmp_path / "labels.xlsx")
    with pytest.raises(InputError, match=r"folder '.*no' does not exist; create it first"):
        TableWriter(tmp_path / "no" / "labels.csv")
    with (
        pytest.raises(InputError, match="nothing was written"),
        TableWriter(tmp_path / "a.csv"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


# Memory


MEMORY = """
    import re, sys
    from mixreg.reading.buckets import hashed, together
    from mixreg.reading.files import Files

    def now(what):
        # ru_maxrss begins with what the parent process had.
        with open("/proc/self/status") as status:
            return int(re.search(what + r":\\s+(\\d+)", status.read())[1]) / 1024

    def walk(chunks):
        # Mapped pages of a file count for the peak, though they can be dropped at any time.
        most = 0
        for chunk in chunks:
            rows.append(len(chunk))
            most = max(most, now("RssAnon"))
        return most if mapped else now("VmHWM")

    def walks(files):
        read = walk(files.chunks(files.columns, "g != 3"))
        return read, walk(together(files, files.columns, "g", sys.argv[3], None, 200_000))

    rows, mapped = [], sys.argv[4] == "one batch"
    _, before = walks(Files(sys.argv[2]))  # libraries are loaded
    rows.clear()
    read, sorted_too = walks(Files(sys.argv[1]))
    print(sum(rows), read - before, sorted_too - before)
"""


@pytest.fixture(scope="module")
def many_rows():
    rows, width, rng = 3_000_000, 8, np.random.default_rng(0)
    columns = {f"c{i}": rng.standard_normal(rows) for i in range(width)}
    return pa.table({**columns, "g": rng.integers(0, 10_000, rows)})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is of Linux")
@pytest.mark.parametrize("kind", ["one group", "many groups", "feather", "one batch", "csv"])
def test_memory_is_bounded(tmp_path, kind, many_rows):
    rows = 2_000_000 if kind == "csv" else 3_000_000
    table = many_rows.slice(0, rows)
    path = tmp_path / f"a.{'parquet' if 'group' in kind else 'csv' if kind == 'csv' else 'feather'}"
    options = {} if kind == "csv" else {"compression": "zstd"}
    if "group" in kind:
        options = {"row_group_size": rows if kind == "one group" else 100_000}
    elif kind == "one batch":
        options = {"compression": "uncompressed", "chunksize": rows}
    small = path.with_stem("small")
    write_file(path, table, **options)
    write_file(small, table.slice(0, 100), **options)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEMORY), path, small, tmp_path, kind],
        capture_output=True,
        text=True,
        check=True,
    )
    found, read, sorted_too = map(float, done.stdout.split())
    assert rows * 1.9 < found < 2 * rows
    # All rows are 206 MB (CSV: 137), and a frame of them as much again.
    assert read < 190
    assert sorted_too < 190


def test_a_writer_on_a_full_disk_leaves_nothing(tmp_path):
    code = (
        "import resource, signal, sys; import numpy as np\n"
        "from mixreg.reading.writing import TableWriter\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        with TableWriter(name) as writer:\n"
        "            for _ in range(20):\n"
        "                writer.write({'x': np.random.default_rng(0).random(5_000)})\n"
        "    except OSError:\n"
        "        print('full')\n"
    )
    paths = [tmp_path / f"labels.{suffix}" for suffix in ("parquet", "feather", "csv")]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["full"] * 3
    assert list(tmp_path.iterdir()) == []


def test_equal_numbers_have_equal_hashes():
    whole, real = pd.Series([1, 2, 3]), pd.Series([3.0, 1.0, np.nan])
    assert hashed(whole)[2] == hashed(real)[0]
    assert hashed(whole)[0] == hashed(real)[1]
    large = pd.Series([2**60, 2**60 + 1])
    assert len(set(hashed(large))) == 2


def test_lists_with_zero_spare_no_row_group_of_zeros(tmp_path):
    data = pd.DataFrame({"dose": np.repeat([0.0, 1.0, 2.0, -0.0], 500), "x": np.arange(2000.0)})
    data.to_parquet(tmp_path / "dose.parquet", row_group_size=500)
    for query in ("dose in [0, 1]", "dose == 0 or dose == 1", "dose == 0", "dose not in [2.0]"):
        chunks = Files(tmp_path / "dose.parquet").chunks(["x"], query)
        found = pd.concat(chunks)
        assert_array_equal(found.index, data.query(query).index)
