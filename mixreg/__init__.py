"""mixreg finds the hidden segments in regression data."""

from mixreg import datasets, metrics, simulate
from mixreg.errors import (
    ConvergenceWarning,
    DegenerateFitWarning,
    InputError,
    NotAvailableError,
)
from mixreg.model import MixReg
from mixreg.results import MixRegResults
from mixreg.starts.tensor import TensorStart

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "DegenerateFitWarning",
    "InputError",
    "MixReg",
    "MixRegResults",
    "NotAvailableError",
    "TensorStart",
    "datasets",
    "metrics",
    "simulate",
]
