"""Families in a file: built-in ones by name; a family of one's own must be handed over."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from mixreg.errors import FileFormatError, InputError
from mixreg.families import Family, Joint
from mixreg.families.links import LINKS, Link


def _kinds(kind: type[Family]) -> list[type[Family]]:
    """A kind of family and all kinds of it."""
    return [kind, *(each for below in kind.__subclasses__() for each in _kinds(below))]


def built_in() -> dict[str, type[Family]]:
    """The package's own families by class; several responses are written one by one."""
    inside = [kind for kind in _kinds(Family) if kind.__module__.startswith("mixreg.families.")]
    return {kind.__name__: kind for kind in inside if kind not in (Family, Joint)}


def write_family(family: Family) -> dict[str, Any]:
    """A family as its name and options."""
    name = type(family).__name__
    link = getattr(family, "link", None)
    known = link is None or (isinstance(link, Link) and type(link.of) is LINKS.get(link.name))
    if built_in().get(name) is not type(family) or not known:
        same = bool(family.equal_dispersion)
        return {"own": _full_name(family), "equal_dispersion": same, "options": _options(family)}
    options = {f.name: getattr(family, f.name) for f in fields(family) if f.init}
    if link is not None:
        options["link"] = link.name
    return {"name": name, **options}


def read_family(value: Any, given: Family | None) -> Family:
    """The family of a file, or the one handed over in its place."""
    if not isinstance(value, dict):
        raise FileFormatError("the file does not say which family it is of")
    if "own" in value:
        return _handed_over(value, given)
    name, options = value.get("name"), {k: v for k, v in value.items() if k != "name"}
    kind = built_in().get(name) if isinstance(name, str) else None
    if kind is None or set(options) != {f.name for f in fields(kind) if f.init}:
        raise FileFormatError(f"the file is of a family {name!r} that is not known here")
    ratio, link = options["variance_ratio"], options.get("link", "")
    good = type(options["equal_dispersion"]) is bool and type(ratio) is float and 0 < ratio < 1
    if not good or not (link == "" or (isinstance(link, str) and link in LINKS)):
        raise FileFormatError(f"the file's family {name} has options that it cannot have")
    return kind(**options)


def _handed_over(value: dict[str, Any], given: Family | None) -> Family:
    """A family of the user's own, of the class that the file names."""
    own = value["own"]
    if not isinstance(own, str):
        raise FileFormatError("the file does not say which family it is of")
    if given is None:
        raise FileFormatError(
            f"the fit is of a family of your own, {own[:80]}; hand it over, load(path, family=...)"
        )
    if _full_name(given) != own:
        raise FileFormatError(
            f"the fit is of the family {own[:80]}; got {_full_name(given)} for family="
        )
    said, has = value.get("options"), _options(given)
    differ = [k for k in has if not isinstance(said, dict) or said.get(k) != has[k]]
    if differ or set(said or ()) != set(has):
        raise FileFormatError(
            f"the fit is of {own[:80]} with other options than family= has: "
            f"{', '.join(differ) or 'some are missing'}; hand over the family that was fitted"
        )
    return given.common() if value.get("equal_dispersion") is True else given


def _options(family: Family) -> dict[str, Any]:
    """Plain options that a family of one's own was made with, but for what a fit sets itself."""
    known = {f.name: getattr(family, f.name) for f in fields(family) if f.init}
    known.pop("equal_dispersion", None)
    plain = (bool, int, float, str, np.number, np.bool_)
    # As text: JSON has no infinity, and a missing number is not equal to itself.
    return {
        name: repr(v.item() if isinstance(v, np.generic) else v)
        for name, v in known.items()
        if isinstance(v, plain)
    }


def _full_name(family: Family) -> str:
    """Class of a family, and of its link where that is not built in."""
    link = getattr(family, "link", None)
    beside = f" with link {link.name}" if isinstance(link, Link) else ""
    return type(family).__qualname__ + beside


def listed(family: Any) -> list[Family | None]:
    """What was handed over as a list; refuse what is not a family of one's own."""
    each = list(family) if isinstance(family, (list, tuple)) else [family]
    for one in each:
        if one is not None and not isinstance(one, Family):
            raise InputError(
                f"family={one!r} is not a family of your own; give an object derived from "
                "mixreg.families.Family, or leave it out"
            )
    return each


def by_response(given: list[Family | None], count: int) -> list[Family | None]:
    """What was handed over, one entry a response."""
    if len(given) == 1:
        return given * count
    if len(given) != count:
        raise FileFormatError(f"family has {len(given)} entries; the fit has {count} responses")
    return given
