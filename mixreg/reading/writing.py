"""Tables written to a file chunk by chunk, in one step: there is the whole file, or none."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pandas as pd

from mixreg.errors import InputError, needs
from mixreg.reading.kinds import plain_type

KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "ipc",
    ".arrow": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
}

# What a spreadsheet takes for the beginning of a formula.
FORMULAS = tuple("=+-@\t\r\n")


def plain_cell(value: Any) -> Any:
    """A text as a spreadsheet shows it, not as a formula that it computes; numbers stay.

    Examples
    --------
    >>> from mixreg.reading.writing import plain_cell
    >>> [plain_cell(value) for value in ("=1+1", "-0.5", -0.5, "shop")]
    ["'=1+1", '-0.5', -0.5, 'shop']
    """
    if not isinstance(value, str) or len(value) < 2 or not value.startswith(FORMULAS):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def plain_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose texts, and names of columns, are no formulas in a spreadsheet."""
    changed = {}
    for number, dtype in enumerate(frame.dtypes):
        values = frame.iloc[:, number]
        if isinstance(dtype, pd.CategoricalDtype):
            if any(plain_cell(level) != level for level in dtype.categories):
                changed[number] = values.astype(object).map(plain_cell)
        elif not pd.api.types.is_numeric_dtype(dtype):
            made = values.map(plain_cell, na_action="ignore")
            if not made.equals(values):
                changed[number] = made
    columns = [changed.get(i, frame.iloc[:, i]) for i in range(frame.shape[1])]
    if not changed and list(map(plain_cell, frame.columns)) == list(frame.columns):
        return frame
    made = pd.concat(columns, axis=1) if columns else frame.copy()
    return made.set_axis([plain_cell(name) for name in frame.columns], axis=1)


class TableWriter:
    """Writes a table to Parquet, Feather (Arrow IPC) or CSV, by the suffix of the path.

    In CSV, texts that a spreadsheet would take for formulas begin with an apostrophe.

    Use it in a `with` statement. What is written lies beside the target until the end;
    if an error leaves the statement, the target is as it was.

    Parameters
    ----------
    path : path

    Examples
    --------
    >>> with TableWriter("labels.csv") as writer:  # doctest: +SKIP
    ...     writer.write({"row": [0, 1], "label": [1, 2]})
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.suffix.lower() not in KINDS:
            raise InputError(
                f"path={str(path)!r} says no format; end it in .parquet, .feather, .arrow or .csv"
            )
        if not self.path.parent.is_dir():
            raise InputError(f"folder {str(self.path.parent)!r} does not exist; create it first")
        token = f"{os.getpid()}.{secrets.token_hex(4)}"
        self._beside = self.path.with_name(f".{self.path.name}.{token}.tmp")
        self._stack = ExitStack()
        self._stream: Any = None
        self._writer: Any = None
        self._schema: Any = None

    def __enter__(self) -> Self:
        """Open a file beside the target."""
        _need_arrow()
        self._stream = self._stack.enter_context(open(self._beside, "xb"))
        return self

    def write(self, chunk: Any) -> None:
        """Append rows: a frame, of which the index is not written, or a dict of columns."""
        import pyarrow as pa

        frame = pd.DataFrame(chunk)
        if KINDS[self.path.suffix.lower()] == "csv":
            frame = plain_cells(frame)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if self._writer is None:
            self._schema = pa.schema(
                [(field.name, plain_type(field.type)) for field in table.schema]
            )
            self._writer = self._stack.enter_context(self._opened(self._schema))
        if table.column_names != self._schema.names:
            raise InputError(
                f"columns {', '.join(table.column_names)} do not follow "
                f"{', '.join(self._schema.names)}; write the same columns in every chunk"
            )
        try:
            table = table.cast(self._schema)
        except pa.ArrowException as error:
            raise InputError(f"a chunk has other types than the first one: {error}") from error
        self._writer.write_table(table)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Put the file in its place, or take it away after an error."""
        try:
            if kind is None:
                self._finish()
        finally:
            try:
                self._stack.close()
            finally:
                self._beside.unlink(missing_ok=True)

    def _finish(self) -> None:
        if self._writer is None:
            raise InputError(f"nothing was written to {str(self.path)!r}; write at least one chunk")
        self._writer.close()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stack.close()
        os.replace(self._beside, self.path)

    def _opened(self, schema: Any) -> Any:
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        kind = KINDS[self.path.suffix.lower()]
        if kind == "parquet":
            return pa.parquet.ParquetWriter(self._stream, schema)
        if kind == "csv":
            return pa.csv.CSVWriter(self._stream, schema)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        return pa.ipc.new_file(self._stream, schema, options=options)


def _need_arrow() -> None:
    with needs("writing a table needs", "pyarrow", "frames"):
        import pyarrow  # noqa: F401
