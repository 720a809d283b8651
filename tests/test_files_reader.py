"""Files give, chunk by chunk, what pandas gives of the whole table."""

import datetime
import decimal
import gzip
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from mixreg import InputError
from mixreg.table import frames
from mixreg.table.checks import subset_mask
from mixreg.table.files import Files, is_files

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
        "price": pa.array(gaps([decimal.Decimal(int(v)) / 100 for v in rng.integers(0, 999, rows)])),
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
    return [table.slice(a, b - a) for a, b in zip(edges[:-1], edges[1:], strict=True)]


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
        "in memory": ds.dataset(TABLE),
    }


@pytest.mark.parametrize("form", ["folder", "text", "glob", "list", "tuple", "dataset", "in memory"])
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
    assert files.rows() == (None if form == "in memory" else 1000)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow", ".ipc"])
def test_every_format_of_arrow(tmp_path, suffix):
    folder = write(tmp_path / "sales", suffix=suffix)
    files = Files(folder, rows_per_chunk=128)
    same(joined(files), whole())
    assert files.rows() == 1000
    one = Files(folder / f"part-1{suffix}")
    same(joined(one), whole(parts(TABLE)[1]))
    same(joined(Files(ds.dataset(folder, format="parquet" if "parq" in suffix else "ipc"))), whole())


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
    "n / `two words` != 1",
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


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_chooses_the_rows_that_pandas_chooses(tmp_path, query):
    folder = write(tmp_path / "sales", row_group_size=20)
    wanted = whole()[subset_mask(whole(), query)]
    for size in (64, 5000):
        files = Files(folder, rows_per_chunk=size)
        chunks = list(files.chunks(["x", "n"], query))
        found = pd.concat(chunks) if chunks else whole().iloc[:0]
        assert found.index.tolist() == wanted.index.tolist()
        assert found["x"].equals(wanted["x"])
