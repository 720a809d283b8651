"""Families: log density, statistics, and an M-step from statistics alone."""

from mixreg.families.gaussian import Gaussian, GaussianStatistics

__all__ = ["Gaussian", "GaussianStatistics"]
