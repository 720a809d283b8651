"""Tables with a row for each row of the data, made here or where the rows are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PosteriorTable:
    """Makes a table of posterior probabilities, (classes, rows)."""

    classes: pd.Index

    def __call__(self, posterior: Array, index: pd.Index) -> pd.DataFrame:
        """Rows x classes."""
        return pd.DataFrame(posterior.T, index, self.classes)


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Makes a column of labels of posterior probabilities, (classes, rows)."""

    classes: pd.Index

    def __call__(self, posterior: Array, index: pd.Index) -> pd.Series:
        """The most likely class of each row."""
        return pd.Series(self.classes.to_numpy()[posterior.argmax(axis=0)], index, name="component")
