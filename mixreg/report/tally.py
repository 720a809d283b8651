"""What labels and class probabilities add up to; all that tables need of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from mixreg.inference.averages import GateSums
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


def tally(rows: OwnRows, gate: GateSums, posterior: Array) -> Tally:
    """Add up the labels of a model's own rows.

    Parameters
    ----------
    rows : OwnRows
    gate : GateSums
        Class probabilities and their slopes, in standard coordinates.
    posterior : (K, units) array
    """
    units, source = rows.units, rows.source
    labels, weight, classes = posterior.argmax(axis=0), units.weight, len(posterior)
    row_labels = units.to_rows(labels, len(rows.index))
    assigned, joint = assignments(posterior, weight)
    return Tally(
        len(rows.index),
        None if units.starts is None else len(units.starts),
        float(source.units if weight is None else weight.sum()),
        rows.whitening.rows / len(rows.offsets),
        gate.average,
        user_slopes(gate, rows.whitening.gate),
        entropy_of(posterior, weight),
        np.bincount(row_labels, minlength=classes),
        np.bincount(labels, minlength=classes),
        assigned,
        joint,
        source.sweep(count_known) if source.has("known") else None,
    )


def user_slopes(gate: GateSums, basis: Array | None) -> Array:
    """Slopes of average class probabilities in the user's gate, (K, (K - 1) q)."""
    slopes = gate.average_slope
    if basis is None:
        return slopes
    each = slopes.reshape(len(slopes), -1, len(basis))
    return np.asarray((each @ np.linalg.inv(basis)).reshape(slopes.shape))


def assignments(posterior: Array, weight: Array | None) -> tuple[Array | Counts, Array]:
    """Units with each label by weight, (K,), and their posterior summed, (K, K)."""
    labels, classes = posterior.argmax(axis=0), len(posterior)
    joint = np.zeros((classes, classes))
    for label in range(classes):
        mine = labels == label
        own = posterior[:, mine]
        joint[label] = own.sum(axis=1) if weight is None else own @ weight[mine]
    return np.bincount(labels, weight, minlength=classes), joint


def entropy_of(posterior: Array, weight: Array | None) -> float:
    """Entropy of the posterior, summed over units."""
    each = -xlogy(posterior, posterior).sum(axis=0)
    return max(0.0, float(each.sum() if weight is None else weight @ each))
