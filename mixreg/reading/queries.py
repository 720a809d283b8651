"""Tables that another library makes when they are asked for: read batch by batch, not collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mixreg.reading.pieces import numbered, reading


def is_query(data: Any) -> bool:
    """Whether data are a LazyFrame of polars or a relation of DuckDB."""
    return _is_lazy(data) or _is_relation(data)


def _is_lazy(data: Any) -> bool:
    kind = type(data)
    return kind.__name__ == "LazyFrame" and kind.__module__.startswith("polars")


def _is_relation(data: Any) -> bool:
    return type(data).__name__ == "DuckDBPyRelation" and hasattr(data, "project")


class Query:
    """A query, made anew for each pass over its rows."""

    def __init__(self, data: Any) -> None:
        self.name = f"the {type(data).__name__}"
        with reading(self.name):
            self._data, self._schema = data, _schema(data)
        self.columns = tuple(self._schema.names)
        self.keys: dict[str, Any] = {}

    def stamp(self) -> tuple[Any, ...]:
        """Name and types: what it holds cannot be told without reading it."""
        return self.name, str(self._schema)

    def rows(self) -> None:
        """Not known."""
        return None

    def types(self, names: Sequence[str]) -> dict[str, Any]:
        """As the query says."""
        return {name: self._schema.field(name).type for name in names}

    def batches(
        self, names: Sequence[str], size: int, keep: Any = None
    ) -> Iterator[tuple[int, Any]]:
        """All rows, in their order."""
        with reading(self.name):
            yield from numbered(_batches(self._data, list(names), size))


def _schema(data: Any) -> Any:
    if _is_lazy(data):
        return data.clear().collect().to_arrow().schema
    return data.limit(0).to_arrow_table().schema


def _batches(data: Any, names: list[str], size: int) -> Iterable[Any]:
    """Record batches of some columns, of so many rows at most."""
    if _is_lazy(data):
        parts = data.select(names).collect_batches(chunk_size=size, maintain_order=True)
        for part in parts:
            yield from part.to_arrow().to_batches(max_chunksize=size)
    else:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        for batch in data.project(quoted).to_arrow_reader(size):
            for first in range(0, batch.num_rows, size):
                yield batch.slice(first, size)
