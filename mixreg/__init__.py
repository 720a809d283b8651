"""mixreg finds the hidden segments in regression data."""

from mixreg import datasets, families, metrics, simulate
from mixreg.errors import (
    AlignmentError,
    ConvergenceWarning,
    DegenerateFitWarning,
    FileFormatError,
    InputError,
    InputWarning,
    InterpretationWarning,
    NotAvailableError,
    NotInstalledError,
)
from mixreg.estimators.priors import Priors
from mixreg.files.load import load
from mixreg.model import MixReg
from mixreg.report.comparison import Comparison, compare
from mixreg.results import MixRegResults
from mixreg.search.tensor import TensorStart
from mixreg.selection import Selection, lr_test, select_k

__version__ = "0.1.0"

__all__ = [
    "AlignmentError",
    "Comparison",
    "ConvergenceWarning",
    "DegenerateFitWarning",
    "FileFormatError",
    "InputError",
    "InputWarning",
    "InterpretationWarning",
    "MixReg",
    "MixRegResults",
    "NotAvailableError",
    "NotInstalledError",
    "Priors",
    "Selection",
    "TensorStart",
    "compare",
    "datasets",
    "families",
    "load",
    "lr_test",
    "metrics",
    "select_k",
    "simulate",
]
