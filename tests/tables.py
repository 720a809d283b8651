"""The same sales as tables of many libraries."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset

SIZES = ["small", "middle", "large"]
ROWS = 300
# Older versions of DuckDB close a connection that nobody holds, though a query of it is held.
DATABASE = duckdb.connect()


class Stream:
    """Something of which nothing is known but that it has Arrow's C stream."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Interchange:
    """Something of which nothing is known but the interchange protocol."""

    def __init__(self, table):
        self.table = table

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self.table.__dataframe__(nan_as_null, allow_copy)


def make_pandas():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {
            "x": rng.standard_normal(ROWS),
            "size": pd.Categorical(rng.choice(SIZES, ROWS), SIZES),
            "shop": rng.choice(["north", "south"], ROWS),
            "open": rng.random(ROWS) < 0.5,
            "id": np.repeat(np.arange(30), 10),
            "weight": np.repeat(rng.integers(1, 4, 30), 10),
            "past": rng.standard_normal(ROWS),
        }
    )
    noise = 0.3 * rng.standard_normal(ROWS)
    data["y"] = np.where(data["id"] % 2, 1, -1) * data["x"].abs() + data["open"] + noise
    data.loc[[4, 17], "x"] = np.nan
    data.loc[8, "shop"] = None
    data.loc[11, "size"] = None
    return data


def make_arrow():
    data = pa.Table.from_pandas(make_pandas(), preserve_index=False)
    # Nobody can use these columns, and nobody asks for them.
    return data.append_column("baskets", pa.array([[1]] * ROWS))


def make_polars():
    data = make_pandas()
    names = ("x", "y", "past", "id", "weight", "open")
    columns = {name: pl.Series(name, data[name].to_numpy()) for name in names}
    text = {name: [v if isinstance(v, str) else None for v in data[name]] for name in data}
    columns["size"] = pl.Series("size", text["size"], dtype=pl.Enum(SIZES))
    columns["shop"] = pl.Series("shop", text["shop"])
    return pl.DataFrame(columns).with_columns(pl.lit([1]).alias("baskets"))


def make_duckdb():
    table = make_arrow()
    DATABASE.register("sales", table)
    names = ", ".join(f"'{name}'" for name in SIZES)
    return DATABASE.sql(f"SELECT * REPLACE (size::ENUM({names}) AS size) FROM sales")


KINDS = {
    "polars": make_polars,
    "lazy": lambda: make_polars().lazy(),
    "table": make_arrow,
    "batch": lambda: make_arrow().combine_chunks().to_batches()[0],
    "reader": lambda: make_arrow().to_reader(max_chunksize=70),
    "dataset": lambda: pa.dataset.dataset(make_arrow()),
    "duckdb": make_duckdb,
    "stream": lambda: Stream(make_arrow()),
    "polars stream": lambda: Stream(make_polars()),
    "interchange": lambda: Interchange(make_arrow().drop_columns(["baskets"])),
    "nullable": lambda: make_pandas().convert_dtypes(),
    "arrow types": lambda: make_arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "arrow text": lambda: make_pandas().astype({"shop": "string[pyarrow]", "x": "Float64"}),
}
