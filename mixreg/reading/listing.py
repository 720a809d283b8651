"""Which files a path, a folder, a pattern or a list of them stands for."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mixreg.errors import InputError

SUFFIXES = {
    "parquet": r"\.(parquet|pq)$",
    "ipc": r"\.(feather|arrow|ipc)$",
    "csv": r"\.(csv|tsv)(\.(gz|bz2|zst|lz4|xz))?$",
}
ALLOWED = ".parquet, .feather, .arrow or .csv (.csv.gz too)"
# A folder that says a value is missing, as Hive and Spark name it.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a table.

    Attributes
    ----------
    path : str
        As it was given, or found below what was given.
    kind : {"parquet", "ipc", "csv"}
    keys : dict
        What the names of its folders say, as in region=north: text or None.
    """

    path: str
    kind: str
    keys: dict[str, str | None]


def is_paths(data: Any) -> bool:
    """Whether data are a path, or a list of them."""
    if isinstance(data, (list, tuple)):
        return bool(data) and all(isinstance(each, (str, os.PathLike)) for each in data)
    return isinstance(data, (str, os.PathLike))


def listed(data: Any) -> list[Listed]:
    """Files in order: lists as given, folders and patterns by name."""
    given = list(data) if isinstance(data, (list, tuple)) else [data]
    paths = [path for each in given for path in _expanded(os.path.expanduser(os.fspath(each)))]
    _refuse_twice(paths)
    files = [Listed(path, _kind(path), _keys(path)) for path in paths]
    _refuse_mixed(files)
    return files


def _expanded(path: str) -> list[str]:
    if "://" in path:
        raise InputError(
            f"data={path!r} is not a local path; open it with pyarrow.dataset.dataset({path!r}) "
            "and give the dataset"
        )
    if os.path.isdir(path):
        return _in_folder(path)
    if os.path.exists(path):
        return [path]
    if glob.has_magic(path):
        return _matches(path)
    raise InputError(f"data={path!r} does not exist; folder {_folder(path)}. {_nearby(path)}")


def _matches(pattern: str) -> list[str]:
    found = sorted(glob.glob(pattern, recursive=True), key=lambda path: Path(path).parts)
    # With **, a folder and what lies in it both match.
    files = [path for path in found if os.path.isfile(path)]
    files = files or [path for folder in found for path in _in_folder(folder)]
    if not files:
        raise InputError(f"no file matches {pattern!r}; folder {_folder(pattern)}")
    return files


def _in_folder(folder: str) -> list[str]:
    """All files below a folder but hidden ones, and those of Spark's, as _SUCCESS."""
    below = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    files = [str(path) for path in below if not _hidden(path.relative_to(folder))]
    if not files:
        raise InputError(f"folder {folder!r} has no files; put {ALLOWED} files there")
    return files


def _hidden(path: Path) -> bool:
    """Whether a file or a folder on the way is hidden; _a=1 is a partition."""
    return any(part[0] in "._" and "=" not in part for part in path.parts)


def _folder(path: str) -> str:
    """The folder that was looked in, and whether it is there."""
    parent = Path(os.path.abspath(path)).parent
    while glob.has_magic(str(parent)):
        parent = parent.parent
    return f"{str(parent)!r} {'was searched' if parent.is_dir() else 'does not exist'}"


def _nearby(path: str) -> str:
    """Files that may have been meant."""
    parent = Path(os.path.abspath(path)).parent
    there = [each.name for each in parent.iterdir()] if parent.is_dir() else []
    data = [name for name in there if name[0] not in "._" and is_data(name)]
    wanted = Path(path).name
    alike = {name: difflib.SequenceMatcher(None, name, wanted).ratio() for name in data}
    names = sorted(data, key=lambda name: (-alike[name], name))[:5]
    return f"It has {', '.join(names)}" if names else "Check the path"


def is_data(name: str) -> bool:
    """Whether a file is named as a table is."""
    return any(re.search(suffix, name.lower()) for suffix in SUFFIXES.values())


def _kind(path: str) -> str:
    for kind, suffix in SUFFIXES.items():
        if re.search(suffix, path.lower()):
            return kind
    raise InputError(
        f"file {path!r} is of no known format; names must end in {ALLOWED}. To leave it out, give "
        "a pattern, such as 'folder/*.parquet'"
    )


def _refuse_twice(paths: list[str]) -> None:
    seen: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            raise InputError(f"file {path!r} is given twice; list each file once")
        seen.add(real)


def _refuse_mixed(files: list[Listed]) -> None:
    first = files[0]
    other = next((file for file in files if file.kind != first.kind), None)
    if other is not None:
        raise InputError(
            f"data mixes formats: {first.path!r} is {first.kind}, {other.path!r} is {other.kind}; "
            "give files of one format, such as 'folder/*.parquet'"
        )


def _keys(path: str) -> dict[str, str | None]:
    """What folders say, as in region=north."""
    return dict(_pairs(Path(path).parent.parts))


def _pairs(parts: tuple[str, ...]) -> Iterator[tuple[str, str | None]]:
    for part in parts:
        name, sign, value = part.partition("=")
        if sign and name:
            yield unquote(name), None if value == NO_VALUE else unquote(value)
