"""Families by name: each registers itself, so that a new one is a file and no more."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from mixreg.families.base import Family

Kind = TypeVar("Kind", bound=type[Family])

_BY_NAME: dict[str, type[Family]] = {}


# The family of models that name none.
DEFAULT = "gaussian"


def register(kind: Kind) -> Kind:
    """Let a family be asked for by its name; a decorator.

    Examples
    --------
    >>> from mixreg.families import Poisson, make_family, register
    >>> register(Poisson) is Poisson
    True
    >>> make_family("poisson", None, False, 1e-4).name
    'poisson'
    """
    _BY_NAME[kind.name] = kind
    return kind


def find_modules(package: str, path: list[str]) -> None:
    """Import every module of a package, so that its families register."""
    for module in iter_modules(path):
        import_module(f"{package}.{module.name}")


def names() -> list[str]:
    """Names that a family can be asked for by."""
    return sorted(_BY_NAME)


def named(name: str) -> type[Family] | None:
    """The family of a name, or None; case, spaces, hyphens and underscores do not count."""
    return _BY_NAME.get(name.lower().replace("_", "").replace("-", "").replace(" ", ""))
