"""Errors and warnings that mixreg raises, in one place."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parent)


class InputError(ValueError):
    """An argument is wrong. The message names it, its value and what to try."""


class FileFormatError(InputError):
    """A file is not one of ours, or not whole; or a fit has what a file cannot keep."""


class ConvergenceWarning(UserWarning):
    """A fit stopped before it converged, or its objective fell."""


class DegenerateFitWarning(UserWarning):
    """A component emptied and could not be brought back."""


class InputWarning(UserWarning):
    """Data can be used, but are likely not what they were meant to be."""


class InterpretationWarning(UserWarning):
    """A number was made that does not mean what its name says."""


class NotAvailableError(AttributeError):
    """A quantity was asked for that this fit cannot give, with the reason."""


class AlignmentError(ValueError):
    """Components of draws cannot be told apart, so label switching cannot be undone."""


class ClusterError(RuntimeError):
    """The cluster that has the rows is gone, or its workers die of a task."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn where the user's own code called the package."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
