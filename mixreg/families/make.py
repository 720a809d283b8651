"""Reading the argument `family`: a name, a statsmodels family, or one of your own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from statsmodels.genmod import families as sm_families

from mixreg.errors import InputError
from mixreg.families.base import Family
from mixreg.families.binomial import Binomial
from mixreg.families.choice import Choice
from mixreg.families.exponential import ExponentialFamily
from mixreg.families.gamma import Gamma
from mixreg.families.gaussian import Gaussian
from mixreg.families.gaussian_link import GaussianLink
from mixreg.families.joint import GaussianPart
from mixreg.families.negative_binomial import NegativeBinomial
from mixreg.families.poisson import Poisson

NAMES = ("gaussian", "poisson", "negativebinomial", "binomial", "gamma", "choice")
WITH_LINK: dict[str, Any] = {
    "poisson": Poisson,
    "negativebinomial": NegativeBinomial,
    "binomial": Binomial,
    "gamma": Gamma,
}
LINKS_OF = {
    "gaussian": ("identity", "log", "inverse", "sqrt"),
    "poisson": ("log", "identity", "sqrt"),
    "negativebinomial": ("log", "identity", "sqrt"),
    "binomial": ("logit", "probit", "cloglog", "log", "identity"),
    "gamma": ("inverse", "log", "identity"),
}


def make_family(family: Any, link: Any, equal_variance: bool, variance_ratio: float) -> Family:
    """Turn what the user gave into a family."""
    if isinstance(family, Family):
        return _adapted(family, link, equal_variance)
    if isinstance(family, sm_families.Family):
        family, link = _from_statsmodels(family, link)
    if not isinstance(family, str):
        raise InputError(
            f"family={family!r} is not a family; use one of {', '.join(NAMES)}, a statsmodels "
            "family, or an object derived from mixreg.families.Family"
        )
    name = family.lower().replace("_", "").replace("-", "").replace(" ", "")
    if name not in NAMES:
        raise InputError(f"family={family!r} is unknown; use one of {', '.join(NAMES)}")
    if name == "choice":
        if link is not None:
            raise InputError(f"link={link!r} has no place with family='choice'; leave it out")
        return Choice()
    made: Family
    if name == "gaussian":
        made = GaussianLink(equal_variance, variance_ratio, link)
        if made.link_name == "identity":
            return Gaussian(equal_variance, variance_ratio)
    else:
        made = WITH_LINK[name](equal_variance, variance_ratio, link)
    if isinstance(link, str) and made.link_name not in LINKS_OF[name]:
        raise InputError(
            f"link={link!r} does not fit family={name!r}; use one of {', '.join(LINKS_OF[name])}"
        )
    return made


def _adapted(family: Family, link: Any, equal_variance: bool) -> Family:
    """A family object with what was said beside it."""
    if link is not None:
        if not isinstance(family, ExponentialFamily):
            raise InputError(
                f"link={link!r} has no place beside family={type(family).__name__}; the family "
                "has its own"
            )
        family = replace(family, link=link)
    return family.common() if equal_variance else family


def make_families(
    family: Any, link: Any, equal_variance: bool, variance_ratio: float, count: int
) -> list[Family]:
    """Families of several responses: a list of `count`, or one for all."""
    families, links = _listed("family", family, count), _listed("link", link, count)
    made = []
    for each, its_link in zip(families, links, strict=True):
        one = make_family(each, its_link, equal_variance, variance_ratio)
        if isinstance(one, Choice):
            raise InputError("family='choice' has no place in a list of responses; fit it alone")
        if isinstance(one, (Gaussian, GaussianLink)):
            one = GaussianPart(one.equal_dispersion, variance_ratio, getattr(one, "link", None))
        made.append(one)
    return made


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
    name = type(family).__name__.lower()
    if name not in NAMES:
        raise InputError(
            f"family {type(family).__name__} is not known here; use one of {', '.join(NAMES)}"
        )
    return name, family.link if link is None else link
