"""One tree of declared types as a file, and back: what a checkpoint is kept in."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from mixreg.errors import FileFormatError
from mixreg.families import Family
from mixreg.files.codec import Reader, Writer
from mixreg.files.container import from_json, from_npy, pack, to_json, to_npy, unpack, unpack_file

T = TypeVar("T")

FORMAT = "mixreg checkpoint"
# What a file made to do harm can make go wrong while it is read.
TROUBLE = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


def packed(tree: Any) -> bytes:
    """A frozen tree as the bytes of a file."""
    writer = Writer(_no_family)
    members = {"tree.json": to_json(writer.write(tree))}
    for number, array in enumerate(writer.arrays):
        members[f"arrays/{number}.npy"] = to_npy(array)
    return pack(members, FORMAT)


def unpacked(source: bytes | Path, kind: type[T]) -> T:
    """The tree again, from the bytes of a file or from a file."""
    read = unpack_file if isinstance(source, Path) else unpack
    members = read(source, FORMAT)  # type: ignore[arg-type]
    try:
        tree = from_json(members.pop("tree.json"))
        arrays = [from_npy(members[f"arrays/{number}.npy"]) for number in range(len(members))]
        made: T = Reader(_no_family, arrays).tree(tree, kind, "tree")
    except FileFormatError:
        raise
    except (*TROUBLE, RecursionError) as error:
        raise FileFormatError(f"the file does not hold together: {error}") from error
    return made


def _no_family(value: Any) -> Family:
    raise FileFormatError("the file names a family where there is none")
