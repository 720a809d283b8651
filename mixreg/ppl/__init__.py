"""Into probabilistic programming: draws, ArviZ data, PyMC models."""

from mixreg.ppl.mixture_regression import MixtureRegression

__all__ = ["MixtureRegression"]
