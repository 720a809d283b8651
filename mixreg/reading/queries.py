"""Tables that another library makes when they are asked for: read batch by batch, not collected."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from mixreg.reading.pieces import Scanned, reading


def is_query(data: Any) -> bool:
    """Whether data are a LazyFrame of polars or a relation of DuckDB."""
    return _is_lazy(data) or _is_relation(data)


def _is_lazy(data: Any) -> bool:
    kind = type(data)
    return kind.__name__ == "LazyFrame" and kind.__module__.startswith("polars")


def _is_relation(data: Any) -> bool:
    return type(data).__name__ == "DuckDBPyRelation" and hasattr(data, "project")


def queried(data: Any) -> Scanned:
    """A query, made anew for each pass over its rows."""
    name = f"the {type(data).__name__}"
    with reading(name):
        schema = _schema(data)
    return Scanned(name, schema, partial(_batches, data))


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
        chosen = data.project(quoted)
        # Older versions of DuckDB have another name for it.
        read = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_arrow_reader
        for batch in read(size):
            for first in range(0, batch.num_rows, size):
                yield batch.slice(first, size)
