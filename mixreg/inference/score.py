"""Log-likelihood and score of one mixture by a pass that adds up no more than these.

A pass for the information costs several times as much; see `information.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import SoftAssignment
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Swept

Array = NDArray[np.float64]


def value_and_score(rows: Swept, mixture: Mixture, params: Parameters) -> tuple[float, Array]:
    """Log-likelihood, and its gradient in a `Layout` with nothing in common.

    Rows, mixture and parameters are in the same coordinates, and so is what is returned.
    """
    sums = rows.sweep(SoftAssignment(mixture, scores_only=True), params.stacked())
    score = mixture.score(sums.family, sums.count, sums.gate, params)
    return float(sums.objective[0]), score
