"""Tables that the command line reads and writes: files by their suffix, and pipes."""

from __future__ import annotations

import glob
import importlib
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from mixreg.errors import InputError, NotInstalledError, needs
from mixreg.files.container import target_of
from mixreg.reading.writing import plain_cells
from mixreg.table import frames
from mixreg.table.columns import EXACT

# Files beyond this are read piece by piece, not into memory.
LARGE_BYTES = 200_000_000
STDIN = "-"
READ = ".csv, .tsv, .parquet, .feather, .xlsx"
EXCEL = (".xlsx", ".xlsm")
# What a pipe begins with, and what that is.
MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".feather", b"PK\x03\x04": ".xlsx"}
SEPARATORS = ";\t|"
# Whole numbers as text.
DIGITS = r"\s*[+-]?\d+\s*"


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


def check_table(path: str | None, *taken: str) -> None:
    """Refuse a file that a table cannot be written to, or that is one of those taken."""
    if path is None or path == STDIN:
        return
    kind = _kind(path)
    if not Path(path).absolute().parent.is_dir():
        raise InputError(f"there is no folder for {path!r}; make it first")
    target_of(path, "new.csv")
    if os.path.realpath(path) in [os.path.realpath(each) for each in taken if each != STDIN]:
        raise InputError(f"{path!r} is what is read; name another file for what is written")
    if kind in (".parquet", ".feather", *EXCEL):
        module, extra = _package(kind)
        with needs(f"writing {path!r} needs", module, extra):
            importlib.import_module(module)


def write_table(frame: pd.DataFrame, path: str | None) -> None:
    """A frame to a file, by its suffix, or as CSV to the standard output.

    In CSV and Excel, texts that a spreadsheet would take for formulas begin with an apostrophe.
    """
    if path is None or path == STDIN:
        plain_cells(frame).to_csv(sys.stdout, index=False)
        return
    check_table(path)
    kind = _kind(path)
    with needs(f"writing {path!r} needs", *_package(kind)):
        if kind == ".parquet":
            frame.to_parquet(path, index=False)
        elif kind == ".feather":
            frame.to_feather(path)
        elif kind in EXCEL:
            plain_cells(frame).to_excel(path, index=False)
        else:
            sep = "\t" if ".tsv" in Path(path).suffixes else ","
            plain_cells(frame).to_csv(path, index=False, sep=sep)


def _package(kind: str) -> tuple[str, str]:
    """What reads and writes a kind of file, and the extra that brings it."""
    return ("openpyxl", "excel") if kind in EXCEL else ("pyarrow", "frames")


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
    try:
        with needs(f"reading {name} needs", *_package(kind)):
            found = read(source)
            if kind in EXCEL:
                # Excel keeps 15 digits: floats, which groups refuse, say that the others are lost.
                lost = _beyond(found, "iuO")
                return found.assign(
                    **{n: pd.to_numeric(found[n], "coerce").astype(float) for n in lost}
                )
            lost = _beyond(found, "f")
            return found.assign(**_as_written(source, kind, lost)) if lost else found
    except (MemoryError, NotInstalledError):
        raise
    except Exception as error:  # each format has errors of its own
        reason = " ".join(str(error).split())
        raise InputError(f"{name} cannot be read: {reason}") from error


def _beyond(frame: pd.DataFrame, kinds: str) -> list[str]:
    """Columns of some of numpy's kinds with whole numbers that are no floats."""
    found = []
    for name, dtype in frame.dtypes.items() if frame.columns.is_unique else ():
        values = frame[name]
        if getattr(dtype, "kind", "O") not in kinds:
            continue
        if pd.api.types.is_object_dtype(dtype):
            values = values.mask(values == "")  # a missing value beside unsigned ones
            whole = pd.api.types.infer_dtype(values, skipna=True) == "integer"
            values = pd.to_numeric(values.dropna()) if whole else values[:0].astype(float)
        if float(values.abs().max()) > EXACT:
            found.append(name)
    return found


def _as_written(source: Any, kind: str, names: list[str]) -> dict[str, Any]:
    """Columns that pandas made floats of for a missing value: whole numbers, if they are some."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    if isinstance(source, io.BytesIO):
        source.seek(0)
    read = parquet.read_table if kind == ".parquet" else feather.read_table
    table = read(source, columns=names)
    whole = [name for name in names if pa.types.is_integer(table.schema.field(name).type)]
    found = frames.read(table.select(whole))
    return {name: found[name].array for name in whole}


def _whole_numbers(texts: pd.Series) -> pd.Series | None:
    """Texts as whole numbers of 64 bits, signed or not, else as Python has them; None if not."""
    there = texts.dropna()
    if not there.str.fullmatch(DIGITS).all():
        return None
    numbers = pd.Series(pd.NA, texts.index, dtype=object)
    numbers[there.index] = [int(text) for text in there]
    low, high = min(numbers[there.index]), max(numbers[there.index])
    kinds = {"Int64": (-(2**63), 2**63), "UInt64": (0, 2**64)}
    for kind, (least, beyond) in kinds.items():
        if least <= low and high < beyond:
            return numbers.astype(kind)
    return numbers


def _csv(source: Any, kind: str, name: str, sep: str | None, encoding: str | None) -> pd.DataFrame:
    usual = "\t" if kind == ".tsv" else ","
    try:
        how = {"sep": sep or usual, "encoding": encoding or "utf-8"}
        frame = pd.read_csv(source, **how)
        # A missing value makes floats of whole numbers, or texts of them and of itself.
        texts = [n for n in frame.columns if _is_long(frame[n])]
        lost = [*_beyond(frame, "f"), *texts] if frame.columns.is_unique else []
        if lost:
            if hasattr(source, "seek"):
                source.seek(0)
            written = pd.read_csv(source, **how, usecols=lost, dtype="string")
            made = {name: _whole_numbers(written[name]) for name in lost}
            frame = frame.assign(**{n: new for n, new in made.items() if new is not None})
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


def _is_long(values: pd.Series) -> bool:
    """Whether texts begin with a whole number that is no float."""
    if not (pd.api.types.is_object_dtype(values.dtype) or values.dtype == "str"):
        return False
    first = next((each for each in values if isinstance(each, str) and each.strip()), "")
    return len(first) > 15 and re.fullmatch(DIGITS, first) is not None


def _refuse_one_column(frame: pd.DataFrame, name: str, sep: str) -> None:
    """Refuse a table whose names stand in one column: another sign is between them."""
    header = str(frame.columns[0]) if frame.shape[1] == 1 else ""
    found = next((sign for sign in SEPARATORS + "," if sign in header and sign != sep), None)
    if found is not None:
        shown = "$'\\t'" if found == "\t" else f"{found!r}"
        raise InputError(f"{name} has {found!r} between its columns; add --sep {shown}")
