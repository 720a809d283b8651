"""Tables that the command line reads and writes: files by their suffix, and pipes."""

from __future__ import annotations

import glob
import io
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from mixreg.errors import InputError
from mixreg.reading.writing import plain_cells

# Files beyond this are read piece by piece, not into memory.
LARGE_BYTES = 200_000_000
STDIN = "-"
READ = ".csv, .tsv, .parquet, .feather, .xlsx"
EXCEL = (".xlsx", ".xlsm")
# What a pipe begins with, and what that is.
MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".feather", b"PK\x03\x04": ".xlsx"}
SEPARATORS = ";\t|"


def read_table(path: str, sep: str | None = None, encoding: str | None = None) -> Any:
    """A file or the standard input as a frame; what is large or many files, as a path.

    Parameters
    ----------
    path : str
        "-" is the standard input.
    sep, encoding : str, optional
        Of CSV files.
    """
    if path == STDIN:
        data = sys.stdin.buffer.read()
        kind = next((kind for start, kind in MAGIC.items() if data.startswith(start)), ".csv")
        return _read(io.BytesIO(data), kind, "the standard input", sep, encoding)
    if os.path.isdir(path) or (glob.has_magic(path) and not os.path.exists(path)):
        return path
    if not os.path.exists(path):
        raise InputError(f"there is no file {path!r}")
    kind = _kind(path)
    if kind not in EXCEL and os.path.getsize(path) > LARGE_BYTES and sep is None is encoding:
        return path
    return _read(path, kind, repr(path), sep, encoding)


def write_table(frame: pd.DataFrame, path: str | None) -> None:
    """A frame to a file, by its suffix, or as CSV to the standard output.

    In CSV and Excel, texts that a spreadsheet would take for formulas begin with an apostrophe.
    """
    if path is None or path == STDIN:
        plain_cells(frame).to_csv(sys.stdout, index=False)
        return
    kind = _kind(path)
    if not Path(path).absolute().parent.is_dir():
        raise InputError(f"there is no folder for {path!r}; make it first")
    if kind == ".parquet":
        frame.to_parquet(path, index=False)
    elif kind == ".feather":
        frame.to_feather(path)
    elif kind in EXCEL:
        plain_cells(frame).to_excel(path, index=False)
    else:
        plain_cells(frame).to_csv(
            path, index=False, sep="\t" if ".tsv" in Path(path).suffixes else ","
        )


def _kind(path: str) -> str:
    """The suffix that says how a file is written; that of a compressed CSV file is .csv."""
    known = {".pq": ".parquet", ".arrow": ".feather", ".ipc": ".feather", ".txt": ".csv"}
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    for suffix in reversed(suffixes[-2:]):
        kind = known.get(suffix, suffix)
        if kind in (".csv", ".tsv", ".parquet", ".feather", *EXCEL):
            return kind
    raise InputError(f"file {path!r} is of no known format; names end in {READ}")


def _read(source: Any, kind: str, name: str, sep: str | None, encoding: str | None) -> pd.DataFrame:
    if kind not in (".csv", ".tsv"):
        if sep is not None or encoding is not None:
            raise InputError(f"--sep and --encoding are for CSV files; {name} is none")
        frame = _binary(source, kind, name)
    else:
        frame = _csv(source, kind, name, sep, encoding)
    if len(frame) == 0:
        raise InputError(f"{name} has no rows")
    return frame.rename(columns=str)


def _binary(source: Any, kind: str, name: str) -> pd.DataFrame:
    read = {".parquet": pd.read_parquet, ".feather": pd.read_feather}.get(kind, pd.read_excel)
    package, extra = ("openpyxl", "excel") if kind in EXCEL else ("pyarrow", "frames")
    try:
        return read(source)
    except ImportError as error:
        raise InputError(
            f"reading {name} needs {package}, which is not installed; try: pip install "
            f"'mixreg[{extra}]'"
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # each format has errors of its own
        reason = " ".join(str(error).split())
        raise InputError(f"{name} cannot be read: {reason}") from error


def _csv(source: Any, kind: str, name: str, sep: str | None, encoding: str | None) -> pd.DataFrame:
    usual = "\t" if kind == ".tsv" else ","
    try:
        frame = pd.read_csv(source, sep=sep or usual, encoding=encoding or "utf-8")
    except UnicodeError:
        raise InputError(
            f"{name} is no {encoding or 'UTF-8'} text; say what it is, as --encoding cp1252"
        ) from None
    except LookupError:
        raise InputError(f"--encoding {encoding} is unknown; try cp1252 or utf-16") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{name} is empty") from None
    except (pd.errors.ParserError, OSError, ValueError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{name} cannot be read as CSV: {reason}. Say what is between its columns, as --sep ';'"
        ) from error
    _refuse_one_column(frame, name, sep or usual)
    return frame


def _refuse_one_column(frame: pd.DataFrame, name: str, sep: str) -> None:
    """Refuse a table whose names stand in one column: another sign is between them."""
    header = str(frame.columns[0]) if frame.shape[1] == 1 else ""
    found = next((sign for sign in SEPARATORS + "," if sign in header and sign != sep), None)
    if found is not None:
        shown = "$'\\t'" if found == "\t" else f"{found!r}"
        raise InputError(f"{name} has {found!r} between its columns; add --sep {shown}")
