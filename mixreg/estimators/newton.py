"""Newton steps on the mixture's own likelihood, to finish what EM began.

EM slows down where components overlap. The observed information is at hand
for the standard errors anyway, and a few Newton steps with it reach the
maximum to the last digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import MixtureStatistics, SoftAssignment
from mixreg.estimators.loop import Control, StopReason
from mixreg.inference.information import InformationSums, TakeInformation
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Swept

Array = NDArray[np.float64]

# The step from where a run ended is taken if it gains no more than this, and moves no standard
# parameter farther: then it is one to the maximum, and not beyond.
LEAST_GAIN, SHORT = 1e-4, 0.05
# Curvatures below this share of the largest make steps of rounding errors.
FLAT = 1e-10
# Steps that settle a run on many rows, at most; the gains at which they end, and beyond which
# they are not begun; and what may be left.
SETTLING, SETTLED, WORTH_SETTLING, NEARLY = 6, 1e-18, 1e-4, 1e-13


@dataclass(frozen=True, slots=True)
class Newton:
    """Newton-Raphson for one run, on coefficients, log scales and logits.

    Attributes
    ----------
    mixture : Mixture
    layout : Layout
    rows : float
        Rows, counted with their weights; tolerances are per row.
    """

    mixture: Mixture
    layout: Layout
    rows: float

    @property
    def monotone(self) -> bool:
        """A step after which the log-likelihood fell is halved."""
        return True

    def sweep(self, source: Swept, iteration: int, params: Parameters) -> InformationSums:
        """Score and information at the parameters."""
        return source.sweep(TakeInformation(self.mixture), params.run(0)).contract(self.layout)

    def update(self, sums: InformationSums, params: Parameters) -> Parameters:
        """Take a Newton step; leave a saddle along its direction of ascent."""
        step, values, vectors = self._step(sums)
        if _saddle(values) and np.abs(step).max() < 1e-4:
            step = step + 0.1 * vectors[:, 0]
        # Standard coordinates are of order one; a longer step is a wild one.
        step = step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        return self.layout.unpack(self.layout.pack(params.run(0)) + step).stacked()

    def finished(
        self, sums: InformationSums, before: InformationSums | None, control: Control
    ) -> list[StopReason | None]:
        """Stop at a maximum at which a step would gain next to nothing."""
        step, values, _ = self._step(sums)
        gain = 0.5 * float(step @ sums.score)
        # Steps cost much and converge fast: go on to well below the tolerance,
        # but not below rounding.
        rounding = 1e-14 * (1 + abs(float(sums.objective[0])))
        small = gain < max(1e-6 * control.tol * self.rows, rounding)
        return ["converged" if small and not _saddle(values) else None]

    def close(self, sums: InformationSums, params: Parameters) -> Parameters:
        """Take the step to the maximum from a point so near that no pass need check it.

        What is left between the two depends on when the run stopped, and that on the last
        digits of its sums: at the maximum itself all runs agree.
        """
        values, vectors = np.linalg.eigh(sums.information)
        if not values[0] > FLAT * values[-1]:
            return params
        step = vectors @ (vectors.T @ sums.score / values)
        if 0.5 * float(step @ sums.score) > LEAST_GAIN or np.abs(step).max() > SHORT:
            return params
        after = self.layout.unpack(self.layout.pack(params) + step)
        return params if self.mixture.family.bound_binds(after) else after

    def _step(self, sums: InformationSums) -> tuple[Array, Array, Array]:
        """Newton step with curvatures made positive, and the curvatures."""
        values, vectors = np.linalg.eigh(sums.information)
        return _ascent(values, vectors, sums.score), values, vectors


@dataclass(frozen=True, slots=True)
class ChordNewton:
    """Newton's steps that share the information of one point, maybe of a sample.

    A pass for the score costs what an iteration of EM costs, a fraction of one
    for the information.

    Attributes
    ----------
    mixture : Mixture
    layout : Layout
    rows : float
        Rows, counted with their weights; tolerances are per row.
    values, vectors : arrays
        Eigenvalues and vectors of the information, blown up to all rows.
    """

    mixture: Mixture
    layout: Layout
    rows: float
    values: Array
    vectors: Array

    @staticmethod
    def at(
        params: Parameters,
        mixture: Mixture,
        layout: Layout,
        sample: Swept,
        share: float,
        rows: float,
    ) -> ChordNewton:
        """Take the information of a sample that is a share of all rows."""
        sums = sample.sweep(TakeInformation(mixture), params).contract(layout)
        return ChordNewton(mixture, layout, rows, *np.linalg.eigh(sums.information / share))

    @property
    def monotone(self) -> bool:
        """A step after which the log-likelihood fell is halved."""
        return True

    def sweep(self, source: Swept, iteration: int, params: Parameters) -> MixtureStatistics:
        """Make one pass at the parameters; return its sums."""
        return source.sweep(SoftAssignment(self.mixture, scores_only=True), params)

    def update(self, sums: MixtureStatistics, params: Parameters) -> Parameters:
        """Take a step along the score."""
        at = params.run(0)
        step = self._step(sums, at)
        step = step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        return self.layout.unpack(self.layout.pack(at) + step).stacked()

    def finished(
        self, sums: MixtureStatistics, before: MixtureStatistics | None, control: Control
    ) -> list[StopReason | None]:
        """Stop where EM's own next step would gain next to nothing."""
        if before is None:
            return [None]
        gain = abs(float(sums.objective[0] - before.objective[0]))
        rounding = 1e-14 * (1 + abs(float(sums.objective[0])))
        return ["converged" if gain < max(1e-3 * control.tol * self.rows, rounding) else None]

    def settled(self, source: Swept, params: Parameters) -> tuple[Parameters, bool]:
        """Steps from where a run stopped until what they gain is rounding; whether it is.

        When a run stops depends on the last digits of its sums; where it settles does not.
        """
        before, gain = WORTH_SETTLING, np.inf
        for _ in range(SETTLING):
            sums = self.sweep(source, 0, params.stacked())
            score = self._score(sums, params)
            step = _ascent(self.values, self.vectors, score)
            gain = 0.5 * float(step @ score)
            if not gain < before:
                return params, gain < NEARLY
            params = self.layout.unpack(self.layout.pack(params) + step)
            if gain < SETTLED:
                break
            before = 0.25 * gain
        return params, gain < NEARLY

    def _step(self, sums: MixtureStatistics, params: Parameters) -> Array:
        return _ascent(self.values, self.vectors, self._score(sums, params))

    def _score(self, sums: MixtureStatistics, params: Parameters) -> Array:
        score = self.mixture.score(sums.family, sums.count, sums.gate, params)
        return np.asarray(score @ self.layout.contraction())


def _ascent(values: Array, vectors: Array, score: Array) -> Array:
    """A Newton step with curvatures made positive."""
    floor = 1e-8 * np.abs(values).max()
    return np.asarray(vectors @ (vectors.T @ score / np.maximum(np.abs(values), floor)))


def _saddle(values: Array) -> bool:
    """Whether the likelihood curves upwards in some direction."""
    return bool(values[0] < -1e-6 * np.abs(values).max())
