"""The files of a table, opened: those that paths stand for, or those of a dataset of pyarrow's."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from mixreg.errors import InputError, needs
from mixreg.reading import listing
from mixreg.reading.kinds import plain_type
from mixreg.reading.pieces import Csv, Ipc, Parquet, Piece, Scanned, scan_with
from mixreg.reading.queries import is_query, queried


def is_dataset(data: Any) -> bool:
    """Whether data are a dataset of pyarrow's files, which need not be installed.

    One of a table in memory is read as that table is.
    """
    kinds = type(data).__mro__
    if kinds[0].__name__ == "InMemoryDataset":
        return False
    return any(k.__name__ == "Dataset" and k.__module__.startswith("pyarrow") for k in kinds)


def opened(data: Any) -> list[Piece]:
    """The files that data stand for, in order."""
    with needs("reading files needs", "pyarrow", "frames"):
        import pyarrow.dataset  # noqa: F401
    if is_dataset(data):
        return _of_dataset(data)
    if is_query(data):
        return [queried(data)]
    if not listing.is_paths(data):
        raise InputError(f"data={data!r} is no path; give a file, a folder, or a list of files")
    files = listing.listed(data)
    keys = _typed([file.keys for file in files])
    return [_of_file(file, own) for file, own in zip(files, keys, strict=True)]


def _of_file(file: listing.Listed, keys: dict[str, Any]) -> Piece:
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    path = os.path.abspath(file.path)
    if file.kind == "csv":
        return Csv(file.path, path, keys)
    said = ds.scalar(True)
    for name, value in keys.items():
        said = said & (ds.field(name) == value if value.is_valid else ds.field(name).is_null())
    form = ds.ParquetFileFormat() if file.kind == "parquet" else ds.IpcFileFormat()
    fragment = form.make_fragment(path, LocalFileSystem(), partition_expression=said)
    return (Parquet if file.kind == "parquet" else Ipc)(file.path, fragment, keys)


def _of_dataset(data: Any) -> list[Piece]:
    """Files of a dataset; one that filters its rows is read as it is."""
    try:
        fragments = list(data.get_fragments())
    except ValueError:
        return [Scanned("the dataset", data.schema, partial(scan_with, data.scanner))]
    return [_of_fragment(i, fragment, data.schema) for i, fragment in enumerate(fragments)]


def _of_fragment(number: int, fragment: Any, schema: Any) -> Piece:
    import pyarrow as pa
    import pyarrow.dataset as ds

    name = getattr(fragment, "path", f"part {number} of the dataset")
    form = getattr(fragment, "format", None)
    if not isinstance(form, (ds.ParquetFileFormat, ds.IpcFileFormat)):
        return Scanned(name, schema, partial(scan_with, partial(fragment.scanner, schema=schema)))
    said = ds.get_partition_keys(fragment.partition_expression)
    keys = {
        key: pa.scalar(value, plain_type(schema.field(key).type)) for key, value in said.items()
    }
    return (Parquet if isinstance(form, ds.ParquetFileFormat) else Ipc)(name, fragment, keys)


def _typed(keys: list[dict[str, str | None]]) -> list[dict[str, Any]]:
    """What folders say, as whole numbers where all of a name are."""
    import pyarrow as pa

    values: dict[str, list[str]] = {}
    for name, value in (pair for each in keys for pair in each.items()):
        values.setdefault(name, []).extend([] if value is None else [value])
    numbers = {name for name, found in values.items() if found and all(map(_is_whole, found))}
    types = {name: pa.int64() if name in numbers else pa.string() for name in values}
    return [
        {name: pa.scalar(value, pa.string()).cast(types[name]) for name, value in each.items()}
        for each in keys
    ]


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number as numbers are written: 07 is a name."""
    return text.lstrip("-").isdecimal() and str(int(text)) == text and abs(int(text)) < 2**63
