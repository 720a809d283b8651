"""Columns that are given beside new rows, by name: which there are, and as pandas has them."""

from __future__ import annotations

from typing import Any

from mixreg.errors import InputError, NotAvailableError
from mixreg.table import frames
from mixreg.table.columns import as_arrays

COLUMNS = ("groups", "offset", "exposure", "trials", "choice_set", "concomitant")


def read_columns(method: str, new: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """Columns of new rows as pandas or numpy has them; refuses names that nobody reads.

    Parameters
    ----------
    method : str
        Who was called, for errors.
    new : table or None
        The new rows; None for the fit's own, which have their columns.
    columns : dict
    """
    if "known" in columns:
        raise NotAvailableError(
            f"{method} does not take known=: it weights components by class probabilities. Use "
            "predict(new, known=...) for means of known customers"
        )
    unknown = sorted(set(columns) - set(COLUMNS))
    if unknown:
        raise InputError(
            f"{method} does not know {', '.join(unknown)}; columns of new rows are "
            f"{', '.join(COLUMNS)}"
        )
    if new is None and columns:
        raise InputError(
            f"{', '.join(f'{name}=' for name in columns)} goes with new rows, and {method} got "
            "none: the fit's own rows have theirs. Give the rows as well, or leave it out"
        )
    return {name: _new_column(name, value) for name, value in columns.items()}


def _new_column(name: str, value: Any) -> Any:
    """A column of new rows as pandas or numpy has it; concomitants may be a table."""
    if isinstance(value, dict):
        return {key: frames.column(one, name) for key, one in value.items()}
    if name == "concomitant" and not isinstance(value, str):
        return as_arrays(value)[0]
    return frames.column(value, name)
