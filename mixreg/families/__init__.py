"""Families: log density, statistics, and an M-step from statistics alone."""

from mixreg.families.base import VARIANCE_RATIO, Family
from mixreg.families.binomial import Binomial
from mixreg.families.choice import Choice
from mixreg.families.gamma import Gamma
from mixreg.families.gaussian import Gaussian
from mixreg.families.gaussian_link import GaussianLink
from mixreg.families.joint import Joint
from mixreg.families.make import make_families, make_family
from mixreg.families.negative_binomial import NegativeBinomial
from mixreg.families.poisson import Poisson
from mixreg.families.registry import find_modules, register
from mixreg.families.rows import Rows
from mixreg.families.statistics import FamilyStatistics

__all__ = [
    "VARIANCE_RATIO",
    "Binomial",
    "Choice",
    "Family",
    "FamilyStatistics",
    "Gamma",
    "Gaussian",
    "GaussianLink",
    "Joint",
    "NegativeBinomial",
    "Poisson",
    "Rows",
    "make_families",
    "make_family",
    "register",
]

find_modules(__name__, __path__)
