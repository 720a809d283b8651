"""What labels and class probabilities add up to; all that tables need of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.inference.averages import GateSums
from mixreg.inference.last_pass import LabelSums
from mixreg.mixture.layout import Layout
from mixreg.mixture.parameters import class_order
from mixreg.sources.tasks import count_known
from mixreg.table.own_rows import OwnRows

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over the rows of a fit, with K classes.

    Attributes
    ----------
    nobs : int
        Rows.
    given : int
        Rows before those with missing values were left out.
    ngroups : int or None
    n_units : float
        Rows or groups that got a label, counted with their weights.
    row_weight : float
        Rows, counted with their weights.
    weights : (K,) array
        Class probabilities, averaged where they depend on concomitants.
    slopes : (K, (K - 1) q) array
        Their derivatives in the gate of classes 2..K.
    entropy : float
        Of the posterior, summed over units.
    rows, units : (K,) int arrays
        Rows and units with each label.
    assigned : (K,) array
        Units with each label, counted with their weights.
    joint : (K, K) array
        Posterior of the units with each label, summed: label x class.
    known : int or None
        Units whose label was known.
    """

    nobs: int
    given: int
    ngroups: int | None
    n_units: float
    row_weight: float
    weights: Array
    slopes: Array
    entropy: float
    rows: Counts
    units: Counts
    assigned: Array | Counts
    joint: Array
    known: int | None

    @property
    def weighted(self) -> bool:
        """Whether units have case weights."""
        return self.assigned.dtype.kind == "f"

    def permute(self, layout: Layout, order: NDArray[np.intp]) -> Tally:
        """Reorder the components; the background, if there is one, stays last."""
        classes, gate = class_order(order, layout.k, layout.classes), layout.gating_index()
        # Slopes are in the gate's coefficients, which turn the other way.
        back = np.linalg.inv(layout.turning(order)[np.ix_(gate, gate)])
        return replace(
            self,
            weights=self.weights[classes],
            slopes=self.slopes[classes] @ back,
            rows=self.rows[classes],
            units=self.units[classes],
            assigned=self.assigned[classes],
            joint=self.joint[np.ix_(classes, classes)],
        )


def tally(rows: OwnRows, gate: GateSums, labels: LabelSums) -> Tally:
    """Put sums over a model's own rows together.

    Parameters
    ----------
    rows : OwnRows
    gate : GateSums
        Class probabilities and their slopes, in standard coordinates.
    labels : LabelSums
    """
    source = rows.source
    return Tally(
        source.rows,
        rows.names.given,
        source.units if source.has("starts") else None,
        source.total_weight,
        source.row_weight,
        gate.average,
        user_slopes(gate, rows.whitening.gate),
        max(0.0, labels.entropy),
        counts(labels.rows),
        counts(labels.units),
        labels.assigned if source.has("weight") else counts(labels.assigned),
        labels.joint,
        source.sweep(count_known) if source.has("known") else None,
    )


def counts(sums: Array) -> Counts:
    """Sums of ones as whole numbers."""
    return np.rint(sums).astype(np.int64)


def user_slopes(gate: GateSums, basis: Array | None) -> Array:
    """Slopes of average class probabilities in the user's gate, (K, (K - 1) q)."""
    slopes = gate.average_slope
    if basis is None:
        return slopes
    each = slopes.reshape(len(slopes), -1, len(basis))
    return np.asarray((each @ np.linalg.inv(basis)).reshape(slopes.shape))
