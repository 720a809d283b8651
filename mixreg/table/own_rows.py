"""The rows that a model was declared on: where they are, and how they are named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.sources import Source
from mixreg.sources.standard import Whitening
from mixreg.table.units import Units

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OwnRows:
    """All of a model that runs along its rows.

    Attributes
    ----------
    source : Source
        Rows in the order of the fit.
    whitening : Whitening
        Their standard coordinates.
    units : Units
        What gets a label.
    index : pandas Index
        Labels of the rows, in the user's order.
    kept : (rows given,) bool array
        Which of the rows given are used.
    sets : (n,) int array or None
        Choice sets, in the user's order.
    offsets : tuple of (n,) arrays or None
        Known part of each response's linear predictor, in the user's order.
    regressors : (n, p) array
        As they were given, in the order of the fit.
    """

    source: Source
    whitening: Whitening
    units: Units
    index: pd.Index
    kept: NDArray[np.bool_]
    sets: NDArray[np.intp] | None
    offsets: tuple[Array | None, ...]
    regressors: Array
