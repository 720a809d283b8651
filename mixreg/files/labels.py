"""Names of groups in a file: numbers, texts, dates and categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import FileFormatError

NUMBERS = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64"]
)
DATES = frozenset(f"datetime64[{unit}]" for unit in ("s", "ms", "us", "ns"))
PLAIN = (str, int, float, bool)


def parts_of(index: pd.Index) -> dict[str, Any]:
    """An index as a kind and plain values."""
    kind = str(index.dtype)
    if isinstance(index.dtype, pd.CategoricalDtype):
        codes = np.asarray(index.codes, dtype=np.int64)
        levels = parts_of(index.categories)
        return {
            "kind": "category",
            "levels": levels,
            "codes": codes,
            "ordered": index.dtype.ordered,
        }
    if kind in NUMBERS:
        wide = np.float64 if kind.startswith("float") else np.bool_ if kind == "bool" else np.int64
        return {"kind": kind, "values": index.to_numpy().astype(wide)}
    if kind in DATES:
        return {"kind": kind, "values": index.to_numpy().astype(np.int64)}
    values = [value.item() if isinstance(value, np.generic) else value for value in index]
    if isinstance(index.dtype, pd.StringDtype) and all(type(v) is str for v in values):
        return {"kind": "str", "values": values}
    if kind == "object" and all(type(v) in PLAIN for v in values):
        return {"kind": "object", "values": values}
    raise FileFormatError(
        f"groups are named by {kind}, which a file cannot keep; name them by texts or numbers"
    )


def index_from(parts: dict[str, Any]) -> pd.Index:
    """The index again; what `parts_of` did not write is refused."""
    kind = parts.get("kind")
    if kind == "category":
        levels, codes = index_from(parts["levels"]), _integers(parts["codes"])
        ordered = bool(parts["ordered"])
        return pd.Index(pd.Categorical.from_codes(codes, levels, ordered=ordered))
    values = parts["values"]
    if kind in NUMBERS and isinstance(values, np.ndarray):
        return pd.Index(values.astype(kind))
    if kind in DATES:
        return pd.Index(_integers(values).astype(kind))
    if kind in ("str", "object") and isinstance(values, list):
        good = (str,) if kind == "str" else PLAIN
        if all(type(value) in good for value in values):
            return pd.Index(values, dtype=kind)
    raise FileFormatError(f"names of groups are of an unknown kind, {kind!r}")


def _integers(values: Any) -> NDArray[np.int64]:
    if not (isinstance(values, np.ndarray) and values.dtype == np.int64 and values.ndim == 1):
        raise FileFormatError("names of groups are not what their kind says")
    return values
