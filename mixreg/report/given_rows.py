"""A fit with rows that are given to it: one whose own are gone reads them as it once did."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.estimators.expectation import SoftAssignment
from mixreg.report.base_results import BaseResults
from mixreg.report.prediction import read_new
from mixreg.sources import in_memory
from mixreg.sources.base import Standardised
from mixreg.sources.threads import one_thread
from mixreg.table.columns import as_frame
from mixreg.table.own_rows import NamesAtHand, OwnRows
from mixreg.table.prepared import prepared
from mixreg.table.responses import Response, side_by_side
from mixreg.table.rows import RowColumns, declare, whole_sets
from mixreg.table.spec import Spec
from mixreg.table.table import Table
from mixreg.table.units import column, user_table

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Fit = TypeVar("Fit", bound=BaseResults)

# Likelihoods of the same rows differ by rounding only, as a share of their size.
SAME = 1e-6


@dataclass(frozen=True, eq=False)
class _Read:
    """What a table has of one response: columns by the fit's own formulas."""

    response: Response
    table: Table
    columns: RowColumns

    @property
    def usable(self) -> Mask:
        """Rows at which nothing is missing."""
        good = np.isfinite(self.table.x).all(axis=1) & np.isfinite(self.table.y)
        others = self.columns.usable()
        return good if others is None else good & others

    def chosen(self, kept: Mask) -> Table:
        """The rows that are used."""
        whole = self.table
        trials = None if whole.trials is None else whole.trials[kept]
        x, y = np.ascontiguousarray(whole.x[kept]), whole.y[kept]
        chosen = Table(x, y, whole.index[kept], kept, trials)
        return whole_sets(chosen, self.columns, self.response.family)


def on_rows(res: Fit, data: Any) -> Fit:
    """The same fit with other rows, read through the formulas that it has.

    Parameters
    ----------
    res : BaseResults
    data : table or None
        With the columns that the model was declared on; None leaves the fit as it is.
    """
    if data is None:
        return res
    rows = _read_rows(res.spec, read_new(res, data), res.fitted.whitening, data)
    made = copy(res)
    made.model = res.model.from_spec(res.spec, rows)
    # Groups may come in another order; what is said of them is made anew.
    made.fitted = replace(res.fitted, groups=rows.names.groups, posterior=None)
    made.__dict__.pop("unit_posterior", None)
    return made


def on_own_rows(res: Fit, data: Any) -> Fit:
    """The same with the rows that the model was fitted to, which data must be."""
    if data is None:
        return res
    made = on_rows(res, data)
    if made.model.nobs != res.nobs:
        raise InputError(
            f"data has {made.model.nobs} rows that can be used, and the fit had {res.nobs}; give "
            "the rows that the model was fitted to"
        )
    found = _log_likelihood(made)
    if np.isfinite(res.llf) and abs(found - res.llf) > SAME * (abs(res.llf) + res.nobs):
        raise InputError(
            f"data has the log-likelihood {found:.6g}, and the fit has {res.llf:.6g}: these are "
            "other rows than those that the model was fitted to; give those"
        )
    return made


def _log_likelihood(res: BaseResults) -> float:
    """Of a fit, at the rows that it has."""
    problem, white = res.model.problem(), res.fitted.whitening
    task = Standardised(SoftAssignment(problem.mixture), white)
    sums = problem.source.counting().sweep(task, res.fitted.standard.stacked())
    return float(white.log_likelihood(float(sums.objective[0])))


def can_read(res: BaseResults, data: Any) -> bool:
    """Whether a table has all columns of the formulas, so that it may be the fit's rows."""
    given = read_new(res, data)
    if isinstance(given, np.ndarray):
        return False
    return not _wanted(res.spec) - set(as_frame(given).columns)


def _wanted(spec: Spec) -> set[Any]:
    """Columns that the rows of a model cannot do without."""
    names: set[Any] = set()
    for design in [response.design for response in spec.responses]:
        names |= {*design.left_columns, *design.right_columns}
        names |= {design.response, *design.terms} if design.right is None else set()
    gate = spec.gate_design
    if gate is not None:
        names |= set(gate.terms if gate.right is None else gate.right_columns)
    return names


@one_thread()
def _read_rows(spec: Spec, given: Any, whitening: Any, data: Any) -> OwnRows:
    """Rows of a table in the order of a fit to them, with names of their own."""
    frame = as_frame(given)
    parts = [_read(response, frame) for response in spec.responses]
    kept = np.all(np.array([part.usable for part in parts]), axis=0)
    z = None if spec.gate_design is None else spec.gate_design.regressors(frame)[0]
    kept = kept if z is None else kept & np.isfinite(z).all(axis=1)
    tables = [part.chosen(kept) for part in parts]
    kept = tables[0].kept
    if not kept.any():
        raise InputError("data has no row without missing values; give rows that have them")
    near = None if z is None else z[kept]
    made = [
        declare(table, part.columns, part.response.family, near, spec.k, spec.noise)
        for part, table in zip(parts, tables, strict=True)
    ]
    raw = in_memory(side_by_side([one.block for one in made]))
    change = prepared([response.family for response in spec.responses])
    source = raw.mapped(change) if change.changes(raw) else raw
    names = NamesAtHand(made[0].units, tables[0].index, kept, user_table(data))
    return OwnRows(source, raw, whitening, names)


def _read(response: Response, frame: Any) -> _Read:
    """All rows of a table as one response has them, NaN where something is missing."""
    design = response.design
    x, index = design.regressors(frame)
    y = design.responses(frame)
    if y is None:
        raise InputError(f"data lacks the response {response.name}; add the column")
    columns = {name: _column(name, key, frame) for name, key in response.names.items()}
    table = Table(x, y, index, np.ones(len(x), dtype=bool), design.trials(frame))
    return _Read(response, table, RowColumns(**columns))


def _column(argument: str, name: Any, frame: Any) -> Any:
    """A column that the model was declared with, by its name."""
    if name == "":
        raise InputError(
            f"the model was declared with {argument}= as values without a name, which data cannot "
            "have; declare it with the name of a column, or give a Series with a name"
        )
    return column(argument, name, frame, None)
