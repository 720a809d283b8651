"""Telling segments from accidents.

Some few rows always lie nearly on a line by chance, and a component that
settles on them gains likelihood: the less it varies, the more. Such a spurious
maximum is not what anyone looks for. A component is suspect when it varies
far less than the rest, and when so many rows near some line through p others
are to be expected by chance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import poisson

from mixreg.params import Parameters

Array = NDArray[np.float64]

# Suspect components have less than this share of the others' deviation ...
TIGHT = 0.25
# ... and this many such lines, or more, are expected by chance.
EXPECTED = 0.01


def suspects(params: Parameters, weights: Array, rows: float) -> NDArray[np.bool_]:
    """Components of one mixture that chance would explain, (k,).

    Parameters
    ----------
    params : Parameters
        One mixture of rows (not of groups).
    weights : (k,) array
        Average class probabilities.
    rows : float
        Number of rows.
    """
    variance = params.dispersion
    k, p = params.coef.shape
    if k == 1:
        return np.zeros(1, dtype=bool)
    rest = np.maximum(1 - weights, 1e-12)
    spread = np.sqrt((weights @ variance - weights * variance) / rest)
    deviation = np.sqrt(variance)
    # Rows of the others in a strip of two deviations around a line: their
    # density near its centre is about 0.4 over their own deviation.
    strip = np.minimum(1.0, 4 * deviation * 0.4 / np.maximum(spread, 1e-300))
    expected = rows * rest * strip
    lines = gammaln(rows + 1) - gammaln(p + 1) - gammaln(max(rows - p, 0) + 1)
    more = np.maximum(rows * weights - p, 0.0)
    chance = lines + poisson.logsf(np.ceil(more) - 1, expected)
    return np.asarray((deviation < TIGHT * spread) & (chance > np.log(EXPECTED)))
