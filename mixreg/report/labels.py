"""Labels of all rows or groups, written to a file as they are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, NotAvailableError
from mixreg.estimators.expectation import Posterior
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.reading.writing import TableWriter
from mixreg.report.base_results import BaseResults
from mixreg.sources.base import Parts, Standardised
from mixreg.sources.block import Block

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Labelled:
    """Task: posterior of every unit, and its rows, (K + 1, units)."""

    mixture: Mixture
    hard: bool

    def __call__(self, block: Block, params: Parameters) -> Parts:
        """Process one block."""
        posterior = Posterior(self.mixture, self.hard)(block, params).join()
        sizes = np.broadcast_to(np.asarray(block.size), (1, block.units))
        return Parts((np.concatenate([posterior, sizes]),))


def write_labels(res: BaseResults, path: Any, rows: bool = False) -> int:
    """Write labels and posteriors to a file, piece by piece; how many were written.

    See `MixRegResults.write_labels`.
    """
    if not res.model.has_rows:
        raise NotAvailableError(
            "write_labels needs the rows that were fitted, and they are gone: they were removed, "
            "or the fit was read from a file. Give the data: res.assign(data).to_csv(path)"
        )
    model, fitted, count = res.model, res.fitted, 0
    _check_name(res, rows)
    task = Labelled(model.problem().mixture, fitted.method == "altmin")
    told = model.source.pieces(Standardised(task, fitted.whitening), fitted.standard)
    names = model.rows.names.chunks()
    with TableWriter(path) as writer:
        for table in _tables(res, told, names, rows):
            writer.write(table)
            count += len(table)
    return count


def _check_name(res: BaseResults, rows: bool) -> None:
    """Refuse groups that are called as a column of the file is."""
    taken = {"component", *(f"p{j}" for j in res.classes), *(["row"] if rows else [])}
    if res.ngroups is not None and res.spec.groups_name in taken:
        raise InputError(
            f"the groups are called {res.spec.groups_name!r}, as a column of the labels is; rename "
            "the column of the data"
        )


def _tables(
    res: BaseResults, told: Iterator[Array], names: Iterator[Any], rows: bool
) -> Iterator[pd.DataFrame]:
    """What is said of units, beside what they are called."""
    left = np.empty((len(res.classes) + 1, 0))
    for index, groups in names:
        wanted = len(index) if groups is None else len(groups)
        while left.shape[1] < wanted:
            left = np.concatenate([left, next(told)], axis=1)
        yield _table(res, left[:, :wanted], index, groups, rows)
        left = left[:, wanted:]


def _table(
    res: BaseResults, told: Array, index: Any, groups: pd.Index | None, rows: bool
) -> pd.DataFrame:
    posterior, sizes = told[:-1], told[-1].astype(np.intp)
    found: dict[str, Any] = {}
    if groups is None:
        found["row"] = np.asarray(index)
    else:
        key = res.spec.groups_name or "group"
        found[key] = groups
        if rows:
            posterior = np.repeat(posterior, sizes, axis=1)
            found = {"row": np.asarray(index), key: groups.repeat(sizes)}
    found["component"] = res.classes.to_numpy()[posterior.argmax(axis=0)]
    found |= {f"p{j}": values for j, values in zip(res.classes, posterior, strict=True)}
    return pd.DataFrame(found)
