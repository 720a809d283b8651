"""Reading the argument `family`: a name, a statsmodels family, or one of your own."""

from __future__ import annotations

from typing import Any

from statsmodels.genmod import families as sm_families

from mixreg.errors import InputError
from mixreg.families.base import Family
from mixreg.families.registry import named, names


def make_family(family: Any, link: Any, equal_variance: bool, variance_ratio: float) -> Family:
    """Turn what the user gave into a family.

    Examples
    --------
    >>> from mixreg.families import make_family
    >>> family = make_family("poisson", "sqrt", False, 1e-4)
    >>> family.name, family.link_name
    ('poisson', 'sqrt')
    """
    if isinstance(family, Family):
        family = family if link is None else family.with_link(link)
        return family.common() if equal_variance else family
    if isinstance(family, sm_families.Family):
        family, link = _from_statsmodels(family, link)
    if not isinstance(family, str):
        raise InputError(
            f"family={family!r} is not a family; use one of {', '.join(names())}, a statsmodels "
            "family, or an object derived from mixreg.families.Family"
        )
    kind = named(family)
    if kind is None:
        raise InputError(f"family={family!r} is unknown; use one of {', '.join(names())}")
    return kind.make(link, equal_variance, variance_ratio)


def make_families(
    family: Any, link: Any, equal_variance: bool, variance_ratio: float, count: int
) -> list[Family]:
    """Families of several responses: a list of `count`, or one for all.

    Examples
    --------
    >>> from mixreg.families import make_families
    >>> families = make_families(["poisson", "binomial"], None, False, 1e-4, 2)
    >>> [(family.name, family.link_name) for family in families]
    [('poisson', 'log'), ('binomial', 'logit')]
    """
    families, links = _listed("family", family, count), _listed("link", link, count)
    return [
        make_family(each, its_link, equal_variance, variance_ratio).as_part()
        for each, its_link in zip(families, links, strict=True)
    ]


def _listed(name: str, value: Any, count: int) -> list[Any]:
    """One value for each response."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise InputError(
            f"{name} has {len(value)} entries, but there are {count} formulas; give one for each, "
            "or one for all"
        )
    return list(value)


def _from_statsmodels(family: sm_families.Family, link: Any) -> tuple[str, Any]:
    """Name and link of a statsmodels family."""
    name = type(family).__name__
    if named(name) is None:
        raise InputError(f"family {name} is not known here; use one of {', '.join(names())}")
    alpha = getattr(family, "alpha", 1.0)
    if alpha != 1.0:  # statsmodels' default
        raise InputError(
            f"family={name}(alpha={alpha:g}) fixes alpha, which is estimated here, one for each "
            "component; use family='negativebinomial'"
        )
    return name, family.link if link is None else link
