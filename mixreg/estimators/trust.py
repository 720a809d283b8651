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
# Dispersions this near to each other, as a share, are the same.
BOUND = 1e-6
# Of a step that meets a bound this early the rest is taken along the bound.
EARLY = 0.1
# Information below this share of the largest of any parameter is as good as none.
NOTHING = 1e-20
# Components with a smaller share count as one of this: beside large ones, their curvatures would
# be lost in rounding.
LEAST_SHARE = 1e-3
# Standard coordinates are of order one; a longer step is a wild one.
FARTHEST = 5.0
# Smallest number that counts.
TINY = 1e-290


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
    rounding = 1e-14 * max(float(np.abs(values).max()), 1e-280)
    if values[0] > rounding:
        inside = along / values
        if np.linalg.norm(inside) <= radius:
            return np.asarray(vectors @ inside)
    # What is added to all curvatures is counted from where they are positive.
    raised = values + max(0.0, -float(values[0]))

    def length(shift: float) -> float:
        return float(np.linalg.norm(along / (raised + shift)))

    if length(rounding) > radius:
        # There the lowest curvature alone keeps the step within the radius.
        far = rounding + 2 * float(np.linalg.norm(along)) / radius
        shift = brentq(lambda at: 1 / radius - 1 / length(at), rounding, far, rtol=1e-12, xtol=TINY)
        return np.asarray(vectors @ (along / (raised + shift)))
    found = along / (raised + rounding)
    if values[0] < -rounding:
        # The score has no part along the strongest ascent, or hardly any: either way will do.
        rest = radius**2 - float(found[1:] @ found[1:])
        found[0] = np.copysign(np.sqrt(max(rest, 0.0)), found[0])
    return np.asarray(vectors @ found)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the flat vector, and what a quadratic says of it.

    Attributes
    ----------
    vector : (m,) array
    rise, bend : float
        Product with the score, and twice with the information.
    length : float
        In scaled coordinates.
    """

    vector: Array
    rise: float
    bend: float
    length: float

    @property
    def gain(self) -> float:
        """What the log-likelihood is to gain."""
        return self.rise - self.bend / 2

    def part(self, share: float) -> Step:
        """A share of the way."""
        return Step(
            share * self.vector, share * self.rise, share**2 * self.bend, share * self.length
        )


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
    def of(sums: InformationSums, J: Array, rows: Array) -> Quadratic:
        """That of parameters of which the flat vector is J times as much.

        Parameters
        ----------
        sums : InformationSums
        J : (m, r) array
        rows : (m,) array
            How many tell of each parameter.
        """
        info = J.T @ sums.information @ J
        own = np.maximum(np.abs(np.diag(info)), (J * (sums.outer @ J)).sum(axis=0))
        own = own / (J.T**2 @ rows)
        scale = 1 / np.sqrt(np.maximum(own, NOTHING * max(float(own.max()), 1e-100)))
        values, vectors = np.linalg.eigh(info * scale * scale[:, None])
        return Quadratic(values, vectors, (sums.score @ J) * scale, J * scale)

    def step(self, radius: float) -> Step:
        """The best step in a region."""
        step = trust_step(self.values, self.vectors, self.score, radius)
        bend = float(self.values @ (self.vectors.T @ step) ** 2)
        best = Step(self.back @ step, float(step @ self.score), bend, float(np.linalg.norm(step)))
        wild = float(np.abs(best.vector).max()) / FARTHEST
        return best.part(1 / wild) if wild > 1 else best


def shares(layout: Layout, params: Parameters) -> Array:
    """How many of the rows tell of each parameter, about, as a share.

    What a quadratic is right for is a change of a component in its own deviations, be it large
    or small.
    """
    share, weights = np.ones(layout.size), np.maximum(params.weights, LEAST_SHARE)
    for j in range(params.k):
        own = layout.coef_index()[j, layout.own(j)]
        share[own] = weights[j]
        if layout.scale_names and not layout.equal_dispersion:
            share[layout.scale_index()[j]] = weights[j]
    gate = layout.gating_index()
    share[gate] = np.repeat(weights[1:], len(gate) // max(1, len(weights) - 1))
    return share


def face(
    sums: InformationSums, layout: Layout, params: Parameters, family: Family, tied: bool = False
) -> Array:
    """Matrix J with flat vector = J @ parameters that are free where bounds bind, (m, r).

    Dispersions at their bound and the largest, which they are bounded by, go together. A small
    one leaves where the score says that it should be larger, a large one where it should be
    smaller; none does if they are `tied`.
    """
    J = np.eye(layout.size)
    bound = family.at_bound(params)
    if not bound.any():
        return J
    index = layout.scale_index().reshape(params.k, -1)
    bound, spread = (layout.scaled(a).reshape(params.k, -1) for a in (bound, params.dispersion))
    gone = []
    for at, low, size in zip(index.T, bound.T, spread.T, strict=True):
        low = low & (tied | (sums.score[at] <= 0))
        top = size >= size.max() * (1 - BOUND)
        high = top & (tied | (sums.score[at] > 0))
        first, *others = at[high if high.any() else top]
        if low.any():
            J[[*at[low], *others], first] = 1.0
            gone += [*at[low], *others]
    return np.asarray(np.delete(J, gone, axis=1))


def room(step: Step, params: Parameters, layout: Layout, family: Family) -> float:
    """Share of a step after which dispersions are at a bound they were not at; or 1."""
    start = layout.pack(params)

    def inside(share: float) -> bool:
        spread = layout.unpack(start + share * step.vector).dispersion
        return bool((family.allowed(spread) <= spread * (1 + 1e-9)).all())

    if inside(1.0):
        return 1.0
    least, most = 0.0, 1.0
    while most - least > 1e-9:
        middle = (least + most) / 2
        least, most = (middle, most) if inside(middle) else (least, middle)
    return least


@dataclass(slots=True)
class Region:
    """Where a quadratic is believed, and what it said of the last step.

    Attributes
    ----------
    radius : float
    last : Step or None
        The step that was taken last.
    """

    radius: float = FIRST
    last: Step | None = None

    def learn(self, gained: float, rounding: float) -> None:
        """Adapt to what the last step gained."""
        last = self.last
        if last is None or last.gain <= rounding:
            # Gains that are lost in rounding tell nothing.
            return
        if gained < POOR * last.gain:
            self.radius = SHRINKAGE * last.length
        elif gained > GOOD * last.gain and last.length > 0.9 * self.radius:
            self.radius = min(GROWTH * self.radius, LARGEST)

    def shrink(self) -> None:
        """The last step led downwards."""
        last = self.radius if self.last is None else self.last.length
        self.radius = SHRINKAGE * min(self.radius, last)
