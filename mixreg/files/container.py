"""The container: a zip of stored members, a checksum of each, and one of the whole file.

The zip's comment, the last 64 bytes of the file, is the SHA-256 of all bytes before it; so a
file that was cut short or altered by one byte is told. Members are stored, not compressed:
what is read is never larger than the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import tokenize
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from mixreg.errors import FileFormatError, InputError

FORMAT, VERSION = "mixreg fit", 1
MANIFEST = "manifest.json"
# Long before any file of this package was written, so that equal fits give equal files.
EPOCH = (1980, 1, 1, 0, 0, 0)
DIGEST = 64
DTYPES = ("<f8", "<i8", "|b1")
# What a zip, or the header of an array, that somebody made can end in.
DAMAGED = (
    zipfile.BadZipFile,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    EOFError,
)
UNREADABLE = (
    ValueError,
    TypeError,
    SyntaxError,
    EOFError,
    KeyError,
    RecursionError,
    OverflowError,
    tokenize.TokenError,
    Warning,
)
MOST_DIMENSIONS = 4
# A fit with 2,000 coefficients and their covariance has 35 MB.
MOST_BYTES, MOST_DIRECTORY = 500_000_000, 10_000_000
# Values of a JSON member, each of which becomes an object: labels of a million groups, and some.
MOST_VALUES = 5_000_000
PIECE = 1_000_000
NAME = re.compile(r"[a-z]+\.json|arrays/[0-9]{1,6}\.npy")
# The end record of a zip without its comment: a signature, 16 bytes, and the comment's length.
START = b"PK\x03\x04"
END, END_LENGTH = b"PK\x05\x06", 22
LOCATOR, LOCATOR_LENGTH = b"PK\x06\x07", 20


def pack(members: dict[str, bytes], kind: str = FORMAT) -> bytes:
    """Members as the bytes of a file of some kind."""
    listed = {name: {"size": len(data), "sha256": _sha256(data)} for name, data in members.items()}
    manifest = {"format": kind, "version": VERSION, "members": listed}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {MANIFEST: to_json(manifest), **members}.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data)
        archive.comment = b"0" * DIGEST
    body = buffer.getvalue()[:-DIGEST]
    if len(body) + DIGEST > MOST_BYTES:
        raise FileFormatError(
            f"the fit takes {len(body):,} bytes; a file may have up to {MOST_BYTES:,}. Fit with "
            "cov_type='none', which leaves the covariance out, or use pickle"
        )
    return body + _sha256(body).encode()


def unpack(data: bytes, kind: str = FORMAT) -> dict[str, bytes]:
    """Members of a file; whatever is not as it was written is refused."""
    return _unpacked(io.BytesIO(data), len(data), kind)


def unpack_file(path: Path, kind: str = FORMAT) -> dict[str, bytes]:
    """The same of a file on disk, of which no more is read than is needed to refuse it."""
    with open(path, "rb") as stream:
        return _unpacked(stream, os.fstat(stream.fileno()).st_size, kind)


def _unpacked(stream: Any, size: int, kind: str) -> dict[str, bytes]:
    if stream.read(len(START)) != START:
        raise _not_ours(kind)
    if size > MOST_BYTES:
        raise FileFormatError(
            f"the file has {size:,} bytes; a file of mixreg may have up to {MOST_BYTES:,}"
        )
    stream.seek(max(0, size - DIGEST - END_LENGTH - LOCATOR_LENGTH))
    end = stream.read()
    locator, end, digest = end[:LOCATOR_LENGTH], end[LOCATOR_LENGTH:-DIGEST], end[-DIGEST:]
    if _digest(stream, size - DIGEST).encode() != digest:
        raise FileFormatError(
            "the file is damaged, or not of mixreg: its checksum does not agree. Save the fit "
            "again, or copy the file anew"
        )
    if not end.startswith(END) or int.from_bytes(end[-2:], "little") != DIGEST:
        raise FileFormatError("the file is damaged: it does not end as a zip does")
    # Before the directory is read. One of more than 65,535 members has a locator.
    if locator.startswith(LOCATOR) or int.from_bytes(end[12:16], "little") > MOST_DIRECTORY:
        raise FileFormatError("the file has too many members; it is not one of ours")
    try:
        with zipfile.ZipFile(stream) as archive:
            infos = _checked(archive.infolist())
            if sum(info.file_size for info in infos) > size:
                raise FileFormatError("the file's members are larger than the file")
            members = {info.filename: archive.read(info) for info in infos}
    except DAMAGED as error:
        raise FileFormatError(f"the file is damaged: {error}") from error
    return _listed(members, kind)


def _digest(stream: Any, size: int) -> str:
    """The SHA-256 of so many bytes at the beginning, read a piece at a time."""
    found = hashlib.sha256()
    stream.seek(0)
    while size > 0 and (piece := stream.read(min(size, PIECE))):
        found.update(piece)
        size -= len(piece)
    return found.hexdigest()


def _checked(infos: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """Members, if they are stored as they are and named as expected."""
    names = [info.filename for info in infos]
    if len(set(names)) < len(names):
        raise FileFormatError("the file has two members of one name")
    for info in infos:
        if not NAME.fullmatch(info.filename):
            raise FileFormatError(f"the file has a member {info.filename[:60]!r}, not one of ours")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise FileFormatError(f"the member {info.filename} is compressed; ours are not")
    return infos


def _listed(members: dict[str, bytes], kind: str) -> dict[str, bytes]:
    """Members but for the manifest, if they are those it lists."""
    manifest = from_json(members.pop(MANIFEST, b""))
    if not isinstance(manifest, dict) or manifest.get("format") != kind:
        raise _not_ours(kind)
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise FileFormatError(f"the file has version {version!r}, which there is not")
    if version > VERSION:
        raise FileFormatError(
            f"the file has version {version}, and this mixreg reads up to {VERSION}; install a "
            "newer mixreg"
        )
    listed = {name: {"size": len(data), "sha256": _sha256(data)} for name, data in members.items()}
    if manifest.get("members") != listed:
        raise FileFormatError("the file is damaged: its members are not those that it lists")
    return members


def _not_ours(kind: str) -> FileFormatError:
    if kind == FORMAT:
        return FileFormatError("this is not a file of mixreg; `res.save(path)` writes one")
    return FileFormatError(f"this is not a {kind}; `fit(checkpoint=path)` writes one")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def to_json(value: Any) -> bytes:
    """Plain values as JSON; floats as the shortest text that gives them back."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def from_json(data: bytes) -> Any:
    """Plain values again."""
    if len(data) > MOST_VALUES and sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise FileFormatError(f"a part of the file has more than {MOST_VALUES:,} values")
    try:
        return json.loads(data.decode(), parse_constant=_no_constant, object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise FileFormatError(f"a part of the file is not JSON: {error}") from error


def _no_constant(name: str) -> Any:
    raise FileFormatError(f"a part of the file is not JSON: it has {name}")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise FileFormatError("a part of the file says something twice")
    return dict(pairs)


def to_npy(array: NDArray[Any]) -> bytes:
    """An array in numpy's format."""
    kinds: dict[str, Any] = {"f": "<f8", "i": "<i8", "u": "<i8", "b": "|b1"}
    buffer = io.BytesIO()
    np.save(buffer, array.astype(kinds[array.dtype.kind], copy=False), allow_pickle=False)
    return buffer.getvalue()


def from_npy(data: bytes) -> NDArray[Any]:
    """An array again: numbers only, and as many as there are bytes for."""
    stream = io.BytesIO(data)
    try:
        if npy.read_magic(stream) != (1, 0):
            raise FileFormatError("an array of the file is of an unknown version")
        with warnings.catch_warnings():
            # numpy tells of headers as old Pythons wrote them, which are none of ours.
            warnings.simplefilter("error")
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
    except UNREADABLE as error:
        if isinstance(error, InputError):
            raise
        raise FileFormatError(f"an array of the file cannot be read: {error}") from error
    plain = all(type(length) is int and length >= 0 for length in shape)
    if dtype.str not in DTYPES or not plain or len(shape) > MOST_DIMENSIONS:
        raise FileFormatError(f"an array of the file is {dtype} of shape {shape}; not ours")
    rest = data[stream.tell() :]
    count = 1
    for length in shape:
        count *= length
    if count * dtype.itemsize != len(rest):
        raise FileFormatError(f"an array of the file has {len(rest)} bytes for shape {shape}")
    if dtype.str == "|b1" and rest.strip(b"\x00\x01"):
        raise FileFormatError("an array of the file holds neither true nor false")
    flat = np.frombuffer(rest, dtype)
    return flat.reshape(shape, order="F" if fortran else "C").copy(order="K")


def target_of(path: Any, example: str) -> Path:
    """Where a file is to be written; refuses what cannot be one before work is done for it."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"path must be a name of a file; got {path!r}")
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent}; make it first")
    if target.is_dir():
        raise InputError(f"path={str(path)!r} is a folder; name a file in it, as {example!r}")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"nothing can be written to folder {target.parent}; name another one")
    return target


def write_file(path: Path, data: bytes) -> None:
    """Write a file in one step: whatever happens, there is the old one or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(beside, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _settle(path.parent)


def _settle(folder: Path) -> None:
    """Have the folder's new entry written to disk, where a system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
