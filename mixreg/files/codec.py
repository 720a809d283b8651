"""Frozen trees as JSON and arrays, and back.

A dataclass is a JSON object with its fields; arrays are members of their own. Reading goes by
the types that the fields declare, so a value of another type is refused where it stands.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import FileFormatError
from mixreg.families import Family
from mixreg.files.formulas import function_name
from mixreg.files.labels import index_from, parts_of
from mixreg.table.recipe import Module, Recipe

ODD = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass
class Writer:
    """Turns trees into JSON; arrays are collected.

    Attributes
    ----------
    family : callable
        Writes a family.
    arrays : list
    """

    family: Callable[[Family], Any]
    arrays: list[NDArray[Any]] = field(default_factory=list)

    def write(self, value: Any) -> Any:
        """A value as JSON."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, Family):
            return self.family(value)
        if isinstance(value, Module):
            return {"module": value.name}
        return self._tree(value)

    def _tree(self, value: Any) -> Any:
        if is_dataclass(value):
            return {f.name: self.write(getattr(value, f.name)) for f in fields(value) if f.init}
        if isinstance(value, slice):
            return [self.write(value.start), self.write(value.stop)]
        if isinstance(value, (tuple, list)):
            return [self.write(each) for each in value]
        if isinstance(value, frozenset):
            return sorted(value)
        if isinstance(value, dict):
            return {name: self.write(each) for name, each in value.items()}
        if isinstance(value, pd.Index):
            return self.write(parts_of(value))
        if function_name(value) is not None:
            return {"function": function_name(value)}
        raise FileFormatError(f"{value!r} cannot be kept in a file; use text or numbers")

    def _array(self, value: NDArray[Any]) -> Any:
        if value.dtype == np.longdouble and value.dtype != np.float64:
            # Patsy adds up in more digits than a double has; two doubles have them all.
            high = value.astype(np.float64)
            return {"high": self._array(high), "low": self._array((value - high).astype(float))}
        if value.dtype.kind not in "fiub":
            raise FileFormatError(f"an array of {value.dtype} cannot be kept in a file")
        self.arrays.append(value)
        return {"array": len(self.arrays) - 1}


@dataclass
class Reader:
    """Turns JSON into trees of declared types.

    Attributes
    ----------
    family : callable
        Reads a family.
    arrays : list
    """

    family: Callable[[Any], Family]
    arrays: list[NDArray[Any]]

    def read(self, value: Any, kind: Any, where: str) -> Any:
        """A value of a declared type; `where` names it if it is not."""
        origin = get_origin(kind)
        if hasattr(origin, "__value__"):
            # Numpy 2.5 and newer: `NDArray[...]` is an alias with a name of its own.
            (item,) = get_args(kind)
            inner = types.GenericAlias(np.dtype, (item,))
            kind, origin = types.GenericAlias(np.ndarray, (Any, inner)), np.ndarray
        if kind is Any:
            return self._anything(value, where)
        if origin in (Union, types.UnionType):
            return self._one_of(value, get_args(kind), where)
        if origin is Literal:
            return self._checked(value, value in get_args(kind), where)
        if origin is tuple:
            return self._tuple(value, get_args(kind), where)
        if origin is np.ndarray:
            return self._array(value, kind, where)
        if origin in (dict, frozenset):
            return self._collection(value, origin, get_args(kind)[-1], where)
        return self._single(value, kind, where)

    def _single(self, value: Any, kind: Any, where: str) -> Any:
        if kind is type(None) or kind is None:
            return self._checked(value, value is None, where)
        if kind in (bool, str):
            return self._checked(value, type(value) is kind, where)
        if kind is int:
            return self._checked(value, type(value) is int and abs(value) < 2**63, where)
        if kind is float:
            return self._float(value, where)
        if kind is slice:
            return slice(*self._tuple(value, (int, int), where))
        if kind is pd.Index:
            return index_from(self._labels(value, where))
        if kind is Family:
            return self.family(value)
        return self.tree(value, kind, where)

    def tree(self, value: Any, kind: Any, where: str) -> Any:
        """A dataclass, field by field."""
        declared, later = _declared(kind)
        if not isinstance(value, dict) or not set(declared) - later <= set(value) <= set(declared):
            raise _wrong(where)
        made = {}
        for name, each in declared.items():
            if name not in value:
                continue  # The file is older than this field, which has a default.
            inner = f"{where}.{name}"
            outside = kind is Recipe and name == "outside"
            made[name] = (
                self._outside(value[name], inner)
                if outside
                else self.read(value[name], each, inner)
            )
        return kind(**made)

    def _float(self, value: Any, where: str) -> float:
        if isinstance(value, dict) and set(value) == {"float"} and value["float"] in ODD:
            return ODD[value["float"]]
        return float(self._checked(value, type(value) in (int, float), where))

    def _one_of(self, value: Any, kinds: tuple[Any, ...], where: str) -> Any:
        for kind in kinds:
            try:
                return self.read(value, kind, where)
            except FileFormatError as error:
                last = error
        raise last

    def _tuple(self, value: Any, kinds: tuple[Any, ...], where: str) -> tuple[Any, ...]:
        self._checked(value, isinstance(value, list), where)
        if len(kinds) == 2 and kinds[1] is ...:
            kinds = kinds[:1] * len(value)
        self._checked(value, len(value) == len(kinds), where)
        return tuple(
            self.read(each, kind, f"{where}[{i}]")
            for i, (each, kind) in enumerate(zip(value, kinds, strict=True))
        )

    def _collection(self, value: Any, origin: Any, kind: Any, where: str) -> Any:
        if origin is frozenset:
            return frozenset(self._tuple(value, (kind, ...), where))
        self._checked(value, isinstance(value, dict), where)
        return {name: self.read(each, kind, f"{where}.{name}") for name, each in value.items()}

    def _member(self, value: Any, where: str) -> NDArray[Any]:
        good = isinstance(value, dict) and set(value) == {"array"}
        number = value["array"] if good else None
        if type(number) is not int or not 0 <= number < len(self.arrays):
            raise _wrong(where)
        return self.arrays[number]

    def _array(self, value: Any, kind: Any, where: str) -> NDArray[Any]:
        (wanted,) = get_args(get_args(kind)[1])
        array = self._member(value, where)
        if array.dtype != np.dtype(wanted):
            raise _wrong(where)
        return array

    def _anything(self, value: Any, where: str) -> Any:
        """A number, a text, nothing, or an array."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) in (int, float):
            return self._single(value, type(value), where)
        if isinstance(value, dict) and set(value) == {"high", "low"}:
            high, low = (self._member(value[name], where) for name in ("high", "low"))
            return high.astype(np.longdouble) + low
        if isinstance(value, dict) and set(value) == {"float"}:
            return self._float(value, where)
        return self._member(value, where)

    def _outside(self, value: Any, where: str) -> dict[str, Any]:
        """What a formula names beside columns: plain values, numpy, and its functions."""
        self._checked(value, isinstance(value, dict), where)
        return {name: self._named(each, f"{where}.{name}") for name, each in value.items()}

    def _named(self, value: Any, where: str) -> Any:
        if isinstance(value, dict) and set(value) == {"module"}:
            return Module(self._single(value["module"], str, where))
        if isinstance(value, dict) and set(value) == {"function"}:
            name = self._single(value["function"], str, where)
            found = getattr(np, name, None)
            return self._checked(found, function_name(found) is not None, where)
        return self._anything(value, where)

    def _labels(self, value: Any, where: str) -> dict[str, Any]:
        """The parts of an index, with their arrays."""
        self._checked(value, isinstance(value, dict) and "array" not in value, where)
        found: dict[str, Any] = {}
        for name, each in value.items():
            if name == "levels":
                found[name] = self._labels(each, f"{where}.{name}")
            elif isinstance(each, list):
                found[name] = [self._anything(one, where) for one in each]
            else:
                found[name] = self._anything(each, f"{where}.{name}")
        return found

    def _checked(self, value: Any, good: bool, where: str) -> Any:
        if not good:
            raise _wrong(where)
        return value


def _wrong(where: str) -> FileFormatError:
    return FileFormatError(f"the file does not say what it should at {where}")


@cache
def _declared(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Types of the fields of a dataclass, and fields that files of earlier versions lack."""
    hints = typing.get_type_hints(kind)
    given = [f for f in fields(kind) if f.init]
    later = frozenset(f.name for f in given if f.metadata.get("later"))
    return {f.name: hints[f.name] for f in given}, later
