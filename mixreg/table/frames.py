"""Tables and columns of other libraries, as pandas has them.

Polars and DuckDB, and whatever else narwhals knows, choose their columns themselves and hand them
over as Arrow; so does what speaks Arrow's C stream or the interchange protocol. What becomes of
an Arrow type is said once, for all of them and for pandas columns of Arrow types.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pandas as pd

from mixreg.errors import InputError, needs

# Integers and booleans with missing values: floats would round large numbers that name groups.
NULLABLE = {
    "int8": pd.Int8Dtype(),
    "int16": pd.Int16Dtype(),
    "int32": pd.Int32Dtype(),
    "int64": pd.Int64Dtype(),
    "uint8": pd.UInt8Dtype(),
    "uint16": pd.UInt16Dtype(),
    "uint32": pd.UInt32Dtype(),
    "uint64": pd.UInt64Dtype(),
    "bool": pd.BooleanDtype(),
}
READABLE = (
    "is_integer",
    "is_floating",
    "is_boolean",
    "is_string",
    "is_large_string",
    "is_string_view",
    "is_date",
    "is_timestamp",
    "is_duration",
    "is_null",
)
# All names of a table of which a part was read, for messages.
COLUMNS = "mixreg columns"
OWN = (pd.Series, pd.Index, pd.Categorical, np.ndarray, dict, list, tuple, str, bytes, int, float)


def read(
    data: Any,
    names: Collection[Any] | None = None,
    *,
    by_place: Collection[str] = (),
    levels: bool = True,
) -> Any:
    """A table of any library as a pandas frame; what is no table as it is.

    Rows of a table that is not pandas' are numbered from 0.

    Parameters
    ----------
    data : object
    names : collection, optional
        Columns to read, those of them that there are; all if None.
    by_place : collection of str
        Names that columns go by. If the table lacks some of them, its columns
        are told by their place, and all are read.
    levels : bool
        Whether categories keep their levels; False gives their values, for new
        data whose levels need not be those of the fit.
    """
    if isinstance(data, pd.DataFrame):
        return _own(data, names, levels)
    if data is None or isinstance(data, OWN):
        return data
    try:
        with _needs_arrow(data):
            table = _arrow(data, lambda columns: _wanted(columns, names, by_place))
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"data cannot be read: {error}; check the path of their file") from error
    except ValueError as error:
        raise InputError(f"data cannot be read as Arrow has them ({error})") from error
    if table is None:
        return data.to_pandas() if hasattr(data, "to_pandas") else data
    columns, table = table
    series = {
        name: _series(table.column(name), name, levels)
        for name in _wanted(columns, names, by_place)
    }
    frame = pd.DataFrame(series, pd.RangeIndex(table.num_rows), copy=False)
    frame.attrs[COLUMNS] = tuple(columns)
    return frame


def as_data(data: Any, names: Collection[Any]) -> pd.DataFrame:
    """Data as a frame, not empty, with the columns named at least."""
    data = read(data, names)
    try:
        frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)
    except (TypeError, ValueError) as error:
        raise InputError(f"data must be a DataFrame or a dict of columns ({error})") from error
    if len(frame) == 0:
        raise InputError("data is empty; give a DataFrame with at least one row")
    return frame


def column(value: Any, name: Any = "", levels: bool = True) -> Any:
    """A column of any library as pandas or numpy has it; what is none as it is.

    One that is not pandas' has no index.
    """
    if isinstance(value, pd.Series) and isinstance(value.dtype, pd.ArrowDtype):
        return _series(value.array.__arrow_array__(), name, levels).set_axis(value.index)
    if value is None or isinstance(value, (*OWN, pd.DataFrame)) or not is_column(value):
        return value
    with _needs_arrow(value):
        import pyarrow as pa
    stream = hasattr(value, "__arrow_c_stream__")
    chunks = pa.chunked_array(value if stream else [pa.array(value)])
    series = _series(chunks, name, levels)
    return series.to_numpy() if isinstance(series.dtype, np.dtype) else series.array


def arrays(*values: Any) -> list[Any]:
    """Columns and matrices that go together, as pandas and numpy have them.

    Those of other libraries have no index, and take that of the first of pandas.
    """
    pandas = (pd.DataFrame, pd.Series)
    index = next((value.index for value in values if isinstance(value, pandas)), None)
    made = [_array(value) for value in values]
    for value, new in zip(values, made, strict=True):
        if isinstance(new, pandas) and not isinstance(value, pandas) and index is not None:
            new.index = index if len(index) == len(new) else new.index
    return made


def is_column(value: Any) -> bool:
    """Whether a value is a column of another library, such as a Series of polars."""
    arrow = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return arrow and not hasattr(value, "schema") and not isinstance(value, type)


def name_of(value: Any) -> Any:
    """Name of a Series, or None; a Series of polars without one is named ""."""
    name = getattr(value, "name", None)
    return None if isinstance(name, str) and not name else name


def columns_of(frame: pd.DataFrame) -> tuple[Any, ...]:
    """Names of all columns of the table that a frame was read from."""
    return tuple(frame.attrs.get(COLUMNS, frame.columns))


def _array(value: Any) -> Any:
    if not is_column(value) or isinstance(value, (pd.Series, pd.DataFrame)):
        return read(value)
    return pd.Series(column(value), name=name_of(value))


def _own(data: pd.DataFrame, names: Collection[Any] | None, levels: bool) -> pd.DataFrame:
    """A pandas frame; if a column that is needed has an Arrow type, the needed columns."""
    used = [i for i, name in enumerate(data.columns) if names is None or name in names]
    arrow = any(isinstance(data.dtypes.iloc[i], pd.ArrowDtype) for i in used)
    if not arrow or not data.columns[used].is_unique:
        return data
    columns = [data.columns[i] for i in used]
    series = {name: column(data[name], name, levels) for name in columns}
    frame = pd.DataFrame(series, data.index, copy=False)
    frame.attrs[COLUMNS] = columns_of(data)
    return frame


def _wanted(
    columns: Sequence[str], names: Collection[Any] | None, by_place: Collection[str]
) -> list[str]:
    """The columns to read, in the order of the table."""
    everything = names is None or not set(by_place) <= set(columns)
    wanted = [name for name in columns if everything or name in (names or ())]
    repeated = sorted({name for name in wanted if wanted.count(name) > 1})
    if repeated:
        raise InputError(f"data has several columns named {', '.join(repeated)}")
    return wanted


def _arrow(data: Any, choose: Any) -> tuple[list[str], Any] | None:
    """All names, and the columns chosen as an Arrow table; None if it is no table.

    One column is read where none is chosen, so that rows are counted.
    """
    # Only those who have such tables wait for these libraries.
    import narwhals as nw

    known = nw.from_native(data, pass_through=True)
    if isinstance(known, nw.DataFrame | nw.LazyFrame):
        columns = known.collect_schema().names()
        chosen = known.select(choose(columns) or columns[:1])
        if isinstance(chosen, nw.LazyFrame):
            polars = chosen.implementation.is_polars()
            chosen = chosen.collect(engine="streaming") if polars else chosen.collect()
        return columns, chosen.to_arrow()
    if hasattr(data, "scanner") and hasattr(data, "schema"):
        columns = list(data.schema.names)
        return columns, data.to_table(columns=choose(columns) or columns[:1])
    if hasattr(data, "__arrow_c_stream__"):
        return _stream(data, choose)
    if hasattr(data, "__dataframe__"):
        return _interchange(data, choose)
    return None


def _stream(data: Any, choose: Any) -> tuple[list[str], Any]:
    """Columns of an Arrow stream, batch by batch."""
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(data)
    columns = list(reader.schema.names)
    chosen = choose(columns) or columns[:1]
    schema = pa.schema([reader.schema.field(name) for name in chosen])
    # A column that came through the stream holds on to its whole batch; a copy does not.
    memory = pa.default_cpu_memory_manager()
    batches = [batch.select(chosen).copy_to(memory) for batch in reader]
    return columns, pa.Table.from_batches(batches, schema)


def _interchange(data: Any, choose: Any) -> tuple[list[str], Any]:
    """Columns by the dataframe interchange protocol."""
    from pyarrow.interchange import from_dataframe

    frame = data.__dataframe__()
    columns = list(frame.column_names())
    return columns, from_dataframe(frame.select_columns_by_name(choose(columns) or columns[:1]))


def _series(values: Any, name: Any, levels: bool = True) -> pd.Series:
    """A column of Arrow's as pandas has it."""
    import pyarrow as pa

    values = pa.chunked_array([values]) if isinstance(values, pa.Array) else values
    if pa.types.is_dictionary(values.type):
        _check_type(values.type.value_type, name)
        category = _category(values.unify_dictionaries())
        return category if levels else pd.Series(np.asarray(category))
    if pa.types.is_decimal(values.type):
        # Arrow's own floats of decimals are not always the nearest ones.
        floats = (np.nan if value is None else float(value) for value in values.to_pylist())
        return pd.Series(np.fromiter(floats, float, len(values)))
    _check_type(values.type, name)
    dtype = NULLABLE.get(str(values.type)) if values.null_count else None
    mapper = None if dtype is None else {values.type: dtype}.get
    return values.to_pandas(date_as_object=False, types_mapper=mapper)


def _category(values: Any) -> pd.Series:
    """A dictionary of Arrow's as a category; one of its levels may be null."""
    if not any(chunk.dictionary.null_count for chunk in values.chunks):
        return _signed(values).to_pandas()
    levels = [level for level in values.chunk(0).dictionary.to_pylist() if level is not None]
    return pd.Series(pd.Categorical(values.to_pylist(), levels))


def _signed(values: Any) -> Any:
    """A dictionary with signed positions: older versions of Arrow give pandas no others."""
    import pyarrow as pa

    if not pa.types.is_unsigned_integer(values.type.index_type):
        return values
    chunks = (
        pa.DictionaryArray.from_arrays(
            chunk.indices.cast(pa.int64()), chunk.dictionary, ordered=values.type.ordered
        )
        for chunk in values.chunks
    )
    kind = pa.dictionary(pa.int64(), values.type.value_type, values.type.ordered)
    return pa.chunked_array(chunks, kind)


def _check_type(kind: Any, name: Any) -> None:
    import pyarrow as pa

    if not any(getattr(pa.types, test)(kind) for test in READABLE):
        what = f"column {name!r}" if name else "a column"
        raise InputError(
            f"{what} holds {kind}, which a regression cannot use; turn it into numbers, texts, "
            "categories or dates"
        )


def _needs_arrow(data: Any) -> AbstractContextManager[None]:
    kind = f"{type(data).__module__.split('.')[0]} {type(data).__name__}"
    return needs(f"reading a {kind} needs", "narwhals and pyarrow", "frames")
