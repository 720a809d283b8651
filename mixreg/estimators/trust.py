"""Newton's steps in a region in which a quadratic can be trusted.

Where a mixture has more components than there are segments, its likelihood has ridges and
saddles, and EM crawls. The quadratic of score and information says where they lead. It is
believed within a region, which grows while it is right and shrinks where it is wrong
(Conn, Gould and Toint 2000).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from mixreg.families import Family
from mixreg.inference.information import InformationSums
from mixreg.mixture.layout import Layout
from mixreg.mixture.parameters import Parameters

Array = NDArray[np.float64]

# Radius of the first region, in deviations (`scales`), and of any.
FIRST, LARGEST = 0.2, 2.0
# The quadratic is good where the likelihood gains more than the first share of what it says, and
# poor where it gains less than the second; the region then grows or shrinks so many times.
GOOD, POOR, GROWTH, SHRINKAGE = 0.75, 0.25, 1.5, 0.5
# Information below this share of the largest of any parameter is as good as none.
NOTHING = 1e-12
# Standard coordinates are of order one; a longer step is a wild one.
FARTHEST = 5.0


def trust_step(values: Array, vectors: Array, score: Array, radius: float) -> Array:
    """The step no longer than a radius that gains most by a quadratic.

    Parameters
    ----------
    values, vectors : (m,) and (m, m) arrays
        Eigenvalues of minus the second derivatives, ascending, and their vectors.
    score : (m,) array
    radius : float

    Returns
    -------
    (m,) array
        Maximiser of score's - s'Hs / 2 over all s of that length at most.
    """
    along = vectors.T @ score
    most = max(float(np.abs(values).max()), 1e-300)
    rounding = 1e-14 * most
    if values[0] > rounding:
        inside = along / values
        if np.linalg.norm(inside) <= radius:
            return np.asarray(vectors @ inside)
    lowest = max(0.0, -float(values[0]))

    def length(shift: float) -> float:
        return float(np.linalg.norm(along / (values + shift)))

    # Just beyond the lowest shift all curvatures are positive; there the step is longest.
    least = lowest + max(rounding, 1e-13 * lowest)
    if length(least) > radius:
        far = lowest + float(np.linalg.norm(along)) / radius + rounding
        shift = brentq(lambda at: 1 / radius - 1 / length(at), least, far, xtol=1e-300, rtol=1e-12)
        return np.asarray(vectors @ (along / (values + shift)))
    found = along / (values + least)
    if values[0] < -rounding:
        # The score has no part along the strongest ascent, or hardly any: either way will do.
        rest = radius**2 - float(found[1:] @ found[1:])
        found[0] = np.copysign(np.sqrt(max(rest, 0.0)), found[0])
    return np.asarray(vectors @ found)


@dataclass(frozen=True, slots=True)
class Quadratic:
    """What score and information say of the surroundings of a point.

    Attributes
    ----------
    values, vectors : arrays
        Eigenvalues and vectors of the information in scaled coordinates.
    score : array
        In scaled coordinates.
    back : (m, r) array
        From scaled coordinates to the flat vector.
    """

    values: Array
    vectors: Array
    score: Array
    back: Array

    @staticmethod
    def of(
        sums: InformationSums, layout: Layout, params: Parameters, family: Family, rows: float
    ) -> Quadratic:
        """That of one mixture; dispersions at their bound stay there, but for those that rise."""
        J = face(sums, layout, params, family)
        info = J.T @ sums.information @ J
        own = np.maximum(np.abs(np.diag(info)), (J * (sums.outer @ J)).sum(axis=0))
        own = own / (rows * (J.T**2 @ shares(layout, params)))
        scale = 1 / np.sqrt(np.maximum(own, NOTHING * max(float(own.max()), 1e-100)))
        values, vectors = np.linalg.eigh(info * scale * scale[:, None])
        return Quadratic(values, vectors, (sums.score @ J) * scale, J * scale)

    @property
    def is_saddle(self) -> bool:
        """Whether the likelihood curves upwards in some direction."""
        return bool(self.values[0] < -1e-6 * np.abs(self.values).max())

    def step(self, radius: float) -> tuple[Array, float, float]:
        """The best step of the flat vector in a region, its gain, and its length."""
        step = trust_step(self.values, self.vectors, self.score, radius)
        wild = float(np.abs(self.back @ step).max()) / FARTHEST
        step = step / max(1.0, wild)
        bend = self.values @ (self.vectors.T @ step) ** 2
        return self.back @ step, float(step @ self.score - bend / 2), float(np.linalg.norm(step))


def shares(layout: Layout, params: Parameters) -> Array:
    """How many of the rows tell of each parameter, about, as a share.

    What a quadratic is right for is a change of a component in its own deviations, be it large
    or small.
    """
    share, weights = np.ones(layout.size), np.maximum(params.weights, 1e-12)
    for j in range(params.k):
        own = layout.coef_index()[j, layout.own(j)]
        share[own] = weights[j]
        if layout.scale_names and not layout.equal_dispersion:
            share[layout.scale_index()[j]] = weights[j]
    gate = layout.gating_index()
    share[gate] = np.repeat(weights[1:], len(gate) // max(1, len(weights) - 1))
    return share


def face(sums: InformationSums, layout: Layout, params: Parameters, family: Family) -> Array:
    """Matrix J with flat vector = J @ parameters that are free where bounds bind, (m, r).

    A dispersion at its bound goes with the largest one. It leaves the bound where the score says
    that it should be larger.
    """
    J = np.eye(layout.size)
    bound = family.at_bound(params)
    if not bound.any():
        return J
    index = layout.scale_index().reshape(params.k, -1)
    bound, spread = (layout.scaled(a).reshape(params.k, -1) for a in (bound, params.dispersion))
    bound &= sums.score[index] <= 0
    for j, i in np.argwhere(bound):
        J[index[j, i], index[np.argmax(spread[:, i]), i]] = 1.0
    return np.asarray(np.delete(J, index[bound], axis=1))


@dataclass(slots=True)
class Region:
    """Where a quadratic is believed, and what it said of the last step.

    Attributes
    ----------
    radius : float
    gain, length : float
        Of the step that was taken last.
    """

    radius: float = FIRST
    gain: float = 0.0
    length: float = 0.0

    def learn(self, gained: float, rounding: float) -> None:
        """Adapt to what the last step gained."""
        if not self.length or self.gain <= rounding:
            # Gains that are lost in rounding tell nothing.
            return
        if gained < POOR * self.gain:
            self.radius = SHRINKAGE * self.length
        elif gained > GOOD * self.gain and self.length > 0.9 * self.radius:
            self.radius = min(GROWTH * self.radius, LARGEST)

    def step(self, quadratic: Quadratic) -> Array:
        """The best step within."""
        step, self.gain, self.length = quadratic.step(self.radius)
        return step
