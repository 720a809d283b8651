"""Into probabilistic programming: draws, ArviZ data, PyMC models."""

from mixreg.ppl.alignment import align
from mixreg.ppl.classes import classify, name_dims
from mixreg.ppl.engines import EngineResult, fit
from mixreg.ppl.mixture_regression import MixtureRegression

__all__ = ["EngineResult", "MixtureRegression", "align", "classify", "fit", "name_dims"]
