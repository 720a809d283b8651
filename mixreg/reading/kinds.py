"""Types of columns that files must agree on, and batches of a file as all files have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixreg.errors import InputError

# The column of tables that numbers their rows.
ROW = "mixreg row"
UNITS = ("s", "ms", "us", "ns")


def plain_type(kind: Any) -> Any:
    """The type of a column's values: of a dictionary, that of its levels; one kind of text."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return pa.string() if text else kind


def agreed(name: str, first: tuple[str, Any] | None, second: tuple[str, Any]) -> tuple[str, Any]:
    """The type of a column in two files, with a file that has it.

    Parameters
    ----------
    name : str
    first, second : pairs of a file's name and a type
    """
    second = (second[0], plain_type(second[1]))
    if first is None or first[1] == second[1]:
        return first or second
    kind = _common(first[1], second[1])
    if kind is None:
        raise InputError(
            f"column {name!r} is {first[1]} in {first[0]!r}, but {second[1]} in {second[0]!r}; "
            "write it with one type in all files"
        )
    return (first if kind == first[1] else second)[0], kind


def _common(one: Any, other: Any) -> Any:
    """A type for the values of both; None if they do not go together."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_null(one) or kinds.is_null(other):
        return other if kinds.is_null(one) else one
    if kinds.is_integer(one) and kinds.is_integer(other):
        return _common_whole(one, other)
    numbers = [kinds.is_integer(kind) or kinds.is_floating(kind) for kind in (one, other)]
    if all(numbers):
        return pa.float64()
    if kinds.is_timestamp(one) and kinds.is_timestamp(other) and one.tz == other.tz:
        return max(one, other, key=lambda kind: UNITS.index(kind.unit))
    return None


def _common_whole(one: Any, other: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_signed_integer(one) == pa.types.is_signed_integer(other):
        return max(one, other, key=lambda kind: kind.bit_width)
    return None if pa.uint64() in (one, other) else pa.int64()


def assembled(batch: Any, types: dict[str, Any], keys: dict[str, Any], first: int) -> Any:
    """A table of the types agreed on, with the values of folders and the rows' numbers.

    Parameters
    ----------
    batch : Arrow record batch
    types : dict
        Types by column.
    keys : dict
        Arrow scalars of columns that have one value.
    first : int
        Number of the first row.
    """
    import pyarrow as pa

    rows = batch.num_rows
    columns = {
        name: pa.repeat(keys[name].cast(kind), rows)
        if name in keys
        else _cast(batch.column(name), kind)
        for name, kind in types.items()
    }
    return pa.table({**columns, ROW: np.arange(first, first + rows)})


def nothing(types: dict[str, Any]) -> Any:
    """A table without rows."""
    import pyarrow as pa

    return pa.schema([*types.items(), (ROW, pa.int64())]).empty_table()


def _cast(values: Any, kind: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if values.type == kind:
        return values
    if pa.types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    # Whole numbers beside floats may be rounded, as in pandas.
    return values.cast(kind, safe=not pa.types.is_floating(kind))
