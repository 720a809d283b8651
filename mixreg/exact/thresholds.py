"""When a fit counts as exact: residuals of a response with unit variance, from wide to narrow.

EM stops where its sums resolve no more, hard labels go on to rounding, and a certificate looks
at every row.
"""

from __future__ import annotations

# Mean square at which a run of the search is worth going on with hard labels.
PROMISING = 1e-9
# Mean square at which EM stops for hard labels to finish. Condensed data resolve no smaller one.
SOFT = 1e-13
# Mean square of hard labels that is rounding: the fit is exact. Variances are no smaller either.
HARD = 1e-24
# Residual of a row that its component fits.
ROW = 1e-9
# Values of regressors and responses that are equal, in deviations; gaps to a line or to
# a hyperplane that are none.
SAME, GAP = 1e-9, 1e-8
