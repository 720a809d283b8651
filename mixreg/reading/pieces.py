"""Files of a table, one at a time: their columns, and their rows batch by batch.

Arrow's scanner holds whole row groups, and reads ahead; a Parquet file that is one row group
would be in memory as a whole. So files of Parquet and Arrow are read by their own readers, which
hold a batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Protocol

from mixreg.errors import InputError

# Bytes of a column that a Parquet reader holds, and of a CSV file that are parsed at once.
BUFFER_BYTES = 1 << 20
# Bytes of a CSV file that tell how it is written.
HEAD_BYTES = 1 << 16
# Record batches beyond this are mapped, not read, where the disk is a local one.
MAPPED_BYTES = 1 << 26
# What pandas.read_csv takes for missing.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
    *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)


class Piece(Protocol):
    """A file, or another part of a dataset.

    Attributes
    ----------
    name : str
        For messages.
    columns : tuple of str
    keys : dict
        Columns that have one value throughout, of the names of its folders: Arrow
        scalars.
    """

    name: str
    columns: tuple[str, ...]
    keys: dict[str, Any]

    def rows(self) -> int | None:
        """Number of rows; None if nobody has counted them."""
        ...

    def stamp(self) -> tuple[Any, ...]:
        """What tells it from another, or from what it was before."""
        ...

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        """Arrow's types of some columns."""
        ...

    def batches(
        self, names: Sequence[str], size: int, keep: Any = None
    ) -> Iterator[tuple[int, Any]]:
        """Number of a first row and a batch from it on, at most `size` rows.

        Rows that an expression `keep` cannot be true of, by what the file says of
        itself, may be left out.
        """
        ...


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Name the file that cannot be read, and say why."""
    import pyarrow as pa

    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, EOFError, UnicodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"file {name!r} cannot be read: {reason}. Write it anew, or leave it out of data"
        ) from error


class Parquet:
    """A Parquet file, as a fragment of a dataset."""

    def __init__(self, name: str, fragment: Any, keys: dict[str, Any]) -> None:
        self.name, self.keys, self._fragment = name, keys, fragment
        with reading(name):
            self._schema = fragment.physical_schema
            self._metadata = fragment.metadata
            self._groups = [group.id for group in fragment.row_groups]
        self.columns = tuple(self._schema.names)

    def stamp(self) -> tuple[Any, ...]:
        """Path, size, time and types."""
        return *_stamp(self._fragment.filesystem, self._fragment.path), str(self._schema)

    def rows(self) -> int:
        """As the file says."""
        return sum(self._metadata.row_group(group).num_rows for group in self._groups)

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        """As the file says."""
        return {name: self._schema.field(name).type for name in names}

    def batches(
        self, names: Sequence[str], size: int, keep: Any = None
    ) -> Iterator[tuple[int, Any]]:
        """Row groups that may have rows to keep, by their statistics."""
        first = 0
        with reading(self.name):
            kept = self._kept(keep)
            with self._opened() as file:
                for group in self._groups:
                    if group in kept:
                        yield from numbered(file.iter_batches(size, [group], list(names)), first)
                    first += self._metadata.row_group(group).num_rows

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        import pyarrow.parquet as pq

        held = {"buffer_size": BUFFER_BYTES, "pre_buffer": False}
        with self._fragment.filesystem.open_input_file(self._fragment.path) as stream:
            yield pq.ParquetFile(stream, metadata=self._metadata, **held)

    def _kept(self, keep: Any) -> set[int]:
        import pyarrow as pa

        if keep is None:
            return set(self._groups)
        schema = self._schema
        for name, value in self.keys.items():
            at = schema.get_field_index(name)
            field = pa.field(name, value.type)
            schema = schema.append(field) if at < 0 else schema.set(at, field)
        try:
            return {group.id for group in self._fragment.subset(keep, schema=schema).row_groups}
        except pa.ArrowException:  # statistics of a kind that Arrow cannot compare
            return set(self._groups)


class Ipc:
    """A file of Arrow's own format (Feather), as a fragment of a dataset."""

    def __init__(self, name: str, fragment: Any, keys: dict[str, Any]) -> None:
        self.name, self.keys, self._fragment = name, keys, fragment
        with reading(name):
            self._schema = fragment.physical_schema
            self._rows = self._counted()
        self.columns = tuple(self._schema.names)

    def stamp(self) -> tuple[Any, ...]:
        """Path, size, time and types."""
        return *_stamp(self._fragment.filesystem, self._fragment.path), str(self._schema)

    def rows(self) -> int:
        """As the file says."""
        return self._rows

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        """As the file says."""
        return {name: self._schema.field(name).type for name in names}

    def batches(
        self, names: Sequence[str], size: int, keep: Any = None
    ) -> Iterator[tuple[int, Any]]:
        """All rows: the format has no statistics."""
        with reading(self.name), self._opened() as stream:
            yield from numbered(_cut(self._batches(stream, names), size))

    def _counted(self) -> int:
        """Rows by the first column: Arrow's own count reads all of them."""
        if not self._schema.names:
            return 0
        with self._opened() as stream:
            return sum(batch.num_rows for batch in self._batches(stream, []))

    def _batches(self, stream: Any, names: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        # No fields are taken for all of them. All columns of a mapped file cost nothing, whereas to
        # choose some has Arrow load the whole batch.
        fields = [self._schema.get_field_index(name) for name in names] or [0]
        mapped = isinstance(stream, pa.MemoryMappedFile)
        options = pa.ipc.IpcReadOptions(included_fields=[] if mapped else fields)
        reader = pa.ipc.open_file(stream, options=options)
        return (reader.get_batch(i) for i in range(reader.num_record_batches))

    def _opened(self) -> Any:
        import pyarrow as pa

        system, path = self._fragment.filesystem, self._fragment.path
        stream = system.open_input_file(path)
        if system.type_name != "local":
            return stream
        with closing(stream):
            batches = max(1, pa.ipc.open_file(stream).num_record_batches)
            large = stream.size() / batches > MAPPED_BYTES
        return pa.memory_map(path) if large else system.open_input_file(path)


class Csv:
    """A CSV file. Its types are those that fit all of its rows.

    Arrow's own reader of pieces goes by the first of them.
    """

    def __init__(self, name: str, path: str, keys: dict[str, Any]) -> None:
        self.name, self.keys, self._path = name, keys, path
        self._types: dict[str, Any] = {}
        self._rows: int | None = None
        with reading(name):
            _refuse_other_forms(name, path)
            self.columns = self._header()
        if not self.columns:
            self._rows = 0

    def stamp(self) -> tuple[Any, ...]:
        """Path, size and time."""
        from pyarrow.fs import LocalFileSystem

        return _stamp(LocalFileSystem(), self._path)

    def rows(self) -> int | None:
        """Known once the file was read."""
        return self._rows

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        """Of all rows: the file is read to its end, once for each column."""
        new = [name for name in names if name not in self._types]
        if new:
            with reading(self.name):
                found = self._settled(new)
            for name in [name for name in new if str(found[name]) == "binary"]:
                raise _other_encoding(self.name, f"column {name!r} is no UTF-8 text", "cp1252")
            self._types |= found
        return {name: self._types[name] for name in names}

    def batches(
        self, names: Sequence[str], size: int, keep: Any = None
    ) -> Iterator[tuple[int, Any]]:
        """All rows."""
        if not self.columns:
            return
        names = list(names) or self.columns[:1]  # the first counts the rows
        with reading(self.name):
            types = self.types(names)
            with closing(self._reader(names, types)) as reader:
                yield from numbered(_cut(reader, size))

    def _header(self) -> tuple[str, ...]:
        import pyarrow as pa

        try:
            with closing(self._reader([], {})) as reader:
                return tuple(reader.schema.names)
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return ()
            raise

    def _settled(self, names: list[str]) -> dict[str, Any]:
        """Types that all rows have, as Arrow finds them in a file that it reads at once."""
        import pyarrow as pa

        types: dict[str, Any] = {}
        tried: set[str] = set()
        while True:
            try:
                with closing(self._reader(names, types)) as reader:
                    types = {name: reader.schema.field(name).type for name in names}
                    beyond, self._rows = set(), 0
                    for batch in reader:
                        beyond |= _beyond(batch)
                        self._rows += batch.num_rows
                if not beyond - tried:
                    return types
                # Arrow tries no unsigned numbers, and floats would merge groups.
                types |= dict.fromkeys(beyond - tried, pa.uint64())
                tried |= beyond
            except pa.ArrowInvalid as error:
                found = re.match(r"In CSV column #(\d+):.*conversion error", str(error))
                if found is None:
                    raise
                name = self.columns[int(found[1])]
                types[name] = _next_type(types[name])

    def _reader(self, names: Sequence[str], types: dict[str, Any]) -> Any:
        from pyarrow import csv

        tabs = _has_tabs(self._path)
        return csv.open_csv(
            _decompressed(self._path),
            csv.ReadOptions(block_size=BUFFER_BYTES, use_threads=False),
            csv.ParseOptions(delimiter="\t" if tabs else ",", newlines_in_values=True),
            csv.ConvertOptions(
                include_columns=list(names),
                column_types=types,
                strings_can_be_null=True,
                null_values=MISSING,
            ),
        )


class Scanned:
    """What is made batch by batch when it is asked for: a scan of Arrow's, or a query.

    Parameters
    ----------
    name : str
    schema : Schema
    scan : callable
        Batches of some columns, of at most so many rows.
    """

    def __init__(
        self, name: str, schema: Any, scan: Callable[[list[str], int], Iterable[Any]]
    ) -> None:
        self.name, self._schema, self._scan = name, schema, scan
        self.columns = tuple(schema.names)
        self.keys: dict[str, Any] = {}

    def stamp(self) -> tuple[Any, ...]:
        """Name and types: what it holds cannot be told without reading it."""
        return self.name, str(self._schema)

    def rows(self) -> None:
        """Not known."""
        return None

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        """As it says itself."""
        return {name: self._schema.field(name).type for name in names}

    def batches(
        self, names: Sequence[str], size: int, keep: Any = None
    ) -> Iterator[tuple[int, Any]]:
        """All rows, in their order."""
        with reading(self.name):
            yield from numbered(self._scan(list(names), size))


def scan_with(scanner: Any, names: list[str], size: int) -> Iterable[Any]:
    """Batches of a part of a dataset, or of one with a filter of its own."""
    few = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
    return scanner(columns=names, batch_size=size, **few).to_batches()


def _stamp(system: Any, path: str) -> tuple[Any, ...]:
    info = system.get_file_info(path)
    return path, info.size, info.mtime_ns


def numbered(batches: Iterable[Any], first: int = 0) -> Iterator[tuple[int, Any]]:
    """Batches with the numbers of their first rows."""
    for batch in batches:
        yield first, batch
        first += batch.num_rows


def _cut(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """Batches of at most so many rows."""
    for batch in batches:
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size)


def _beyond(batch: Any) -> set[str]:
    """Columns of floats with a value from 2^63 on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [field.name for field in batch.schema if pa.types.is_float64(field.type)]
    largest = {name: pc.max(batch.column(name)).as_py() for name in names}
    return {name for name, value in largest.items() if value is not None and value >= 2**63}


def _next_type(kind: Any) -> Any:
    """What Arrow tries after a type that did not fit."""
    import pyarrow as pa

    if kind == pa.uint64():
        return pa.float64()
    made = [pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), pa.timestamp("s")]
    made += [pa.timestamp("ns"), pa.float64(), pa.string(), pa.binary()]
    return made[made.index(kind) + 1] if kind in made else made[0]


def _refuse_other_forms(name: str, path: str) -> None:
    """Refuse a CSV file of another encoding, or with another sign between columns."""
    with _decompressed(path) as stream:
        lines = bytes(stream.read(HEAD_BYTES)).splitlines() or [b""]
    if lines[0].startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _other_encoding(name, "it is UTF-16 text", "utf-16")
    try:
        first = lines[0].decode("utf-8")
    except UnicodeDecodeError:
        raise _other_encoding(name, "its first line is no UTF-8 text", "cp1252") from None
    expected = "\t" if _has_tabs(path) else ","
    other = next((sign for sign in ";\t|," if sign in first and sign != expected), None)
    if expected in first or other is None:
        return
    decimal = other == ";" and any(re.search(rb"\d,\d", line) for line in lines[1:3])
    how = f"sep={other!r}" + (", decimal=','" if decimal else "")
    raise InputError(
        f"file {name!r} has {other!r} between its columns, not {expected!r}; give the table, "
        f"pd.read_csv({name!r}, {how}), or write the file anew"
    )


def _other_encoding(name: str, what: str, encoding: str) -> InputError:
    return InputError(
        f"file {name!r} cannot be read: {what}. Give the table, pd.read_csv({name!r}, "
        f"encoding={encoding!r}), or write the file anew, with encoding='utf-8'"
    )


def _has_tabs(path: str) -> bool:
    return re.search(r"\.tsv(\.\w+)?$", path.lower()) is not None


def _decompressed(path: str) -> Any:
    if path.lower().endswith(".xz"):
        import lzma

        return lzma.open(path)
    import pyarrow as pa

    return pa.input_stream(path, compression="detect")
