"""Reading a fit from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from patsy import PatsyError

from mixreg.errors import FileFormatError, InputError
from mixreg.families import Family
from mixreg.files.agree import check_agreement
from mixreg.files.codec import Reader
from mixreg.files.container import from_json, from_npy, unpack, unpack_file
from mixreg.files.families import by_response, listed, read_family
from mixreg.files.save import check_design, designs_of
from mixreg.model import MixReg
from mixreg.report.diagnostics import Diagnostics
from mixreg.report.fitted import Fitted
from mixreg.results import MixRegResults
from mixreg.table.spec import Spec

NAMES = ("spec", "fitted", "diagnostics")
# What a file made to do harm can make go wrong while it is read.
TROUBLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    PatsyError,
    RecursionError,
    TypeError,
    ValueError,
)


def load(path: Any, family: Any = None) -> MixRegResults:
    """Read a fit that `res.save(path)` wrote.

    A file cannot run code: what it holds is checked, and formulas may name only
    columns, arithmetic, patsy's functions and a list of numpy's.

    Parameters
    ----------
    path : str or path
    family : Family or list of Family, optional
        For fits of a family of your own, which a file does not hold. A list has
        one entry for each of several responses, None for built-in families.

    Returns
    -------
    MixRegResults
        Without the rows: what needs them says so.

    Raises
    ------
    FileFormatError
        If the file is not one of ours, not whole, of a newer version, or of a
        family that must be handed over.

    Examples
    --------
    >>> import tempfile, pathlib, mixreg
    >>> tone = mixreg.datasets.tonedata()
    >>> res = mixreg.MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tone.mixreg"
    >>> res.save(path)
    >>> bool(mixreg.load(path).llf == res.llf)
    True
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"path must be a name of a file; got {path!r}")
    source = Path(path)
    if not source.is_file():
        raise InputError(f"there is no file {source}")
    return _made(unpack_file(source), family)


def unpacked(data: bytes, family: Any = None) -> MixRegResults:
    """A fit from the bytes of a file."""
    return _made(unpack(data), family)


def _made(members: dict[str, bytes], family: Any) -> MixRegResults:
    """A fit from the members of a file."""
    given = listed(family)
    try:
        return _results(members, given)
    except FileFormatError:
        raise
    except TROUBLE as error:
        raise FileFormatError(f"the file does not hold together: {error}") from error


def _results(members: dict[str, bytes], families: list[Family | None]) -> MixRegResults:
    trees = {name: from_json(members.pop(f"{name}.json")) for name in NAMES}
    count = len(members)
    arrays = [from_npy(members[f"arrays/{number}.npy"]) for number in range(count)]
    given = by_response(families, len(trees["spec"]["responses"]))
    handed_over = any(family is not None for family in given)
    if handed_over and not any("own" in r["family"] for r in trees["spec"]["responses"]):
        raise FileFormatError("the fit is of a family of mixreg's own; leave family= out")
    spec = _read_spec(trees["spec"], arrays, given)
    reader = Reader(_no_family, arrays)
    fitted = reader.tree(trees["fitted"], Fitted, "fitted")
    check_agreement(spec, fitted)
    results = MixRegResults(MixReg.from_spec(spec), fitted)
    results.diagnostics = reader.tree(trees["diagnostics"], Diagnostics, "diagnostics")
    return results


def _read_spec(tree: Any, arrays: list[Any], given: list[Family | None]) -> Spec:
    """What was asked, with formulas that passed the gate."""
    # Families are read in the order of the responses.
    waiting = iter(given)
    spec: Spec = Reader(lambda value: read_family(value, next(waiting)), arrays).tree(
        tree, Spec, "spec"
    )
    for design in designs_of(spec):
        check_design(design)
    return spec


def _no_family(value: Any) -> Family:
    raise FileFormatError("the file names a family where there is none")
