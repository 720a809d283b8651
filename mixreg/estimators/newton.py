"""Newton's steps on the mixture's own likelihood, to finish what EM began.

EM slows down where components overlap. The observed information is at hand
for the standard errors anyway, and a few Newton steps with it reach the
maximum to the last digits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import SoftAssignment
from mixreg.estimators.loop import Control, StopReason
from mixreg.estimators.trust import EARLY, FIRST, Quadratic, Region, face, room, shares
from mixreg.inference.information import InformationSums, TakeInformation
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Swept

Array = NDArray[np.float64]

# The step from where a run ended is taken if it gains no more than this, and moves no standard
# parameter farther: then it is one to the maximum, and not beyond.
LEAST_GAIN, SHORT = 1e-4, 0.05
# A region that has shrunk to this share of the first, and what may be left on the ridge there.
NARROW, RIDGE = 0.1, 1e-5
# Curvatures below this share of the largest make steps of rounding errors.
FLAT = 1e-10
# Steps that share information end where they leave no more than this: less than a millionth of
# a standard error. It is taken anew, which costs as much as seven scores, where more steps than
# this are left at their pace.
SETTLED, MOST_LEFT = 1e-14, 6.0


@dataclass(frozen=True, slots=True)
class Point:
    """A point at which a pass was made."""

    sums: InformationSums
    params: Parameters
    quadratic: Quadratic


@dataclass(frozen=True, slots=True)
class Newton:
    """Newton's steps of one run in a trust region, on coefficients, log scales and logits.

    Attributes
    ----------
    mixture : Mixture
    layout : Layout
    rows : float
        Rows, counted with their weights; tolerances are per row.
    region : Region
    seen : list
        Sums and quadratic of the last points, which steps are made of.
    """

    mixture: Mixture
    layout: Layout
    rows: float
    region: Region = field(default_factory=Region)
    seen: list[Point] = field(default_factory=list)

    @property
    def monotone(self) -> bool:
        """A step after which the log-likelihood fell is made anew, in a smaller region."""
        return True

    def sweep(self, source: Swept, iteration: int, params: Parameters) -> InformationSums:
        """Score and information at the parameters."""
        one = params.run(0)
        sums = source.sweep(TakeInformation(self.mixture), one).contract(self.layout)
        if np.isfinite(sums.objective[0]) and np.isfinite(sums.information).all():
            quadratic = self._quadratic(sums, one)
            self.seen[:] = [*self.seen[-1:], Point(sums, one, quadratic)]
        return sums

    def update(self, sums: InformationSums, params: Parameters) -> Parameters:
        """Take the best step within the region, which learns from the last one."""
        here = self._at(sums)
        if len(self.seen) == 2:
            gained = float(sums.objective[0] - self.seen[0].sums.objective[0])
            self.region.learn(gained, self._rounding(sums))
        return self._step(here)

    def shorten(self, sums: InformationSums, params: Parameters) -> Parameters:
        """Another step out of the same sums, in a smaller region."""
        self.region.shrink()
        here = self._at(sums)
        self.seen[:] = [here]
        return self._step(here)

    def finished(
        self, sums: InformationSums, before: InformationSums | None, control: Control
    ) -> list[StopReason | None]:
        """Stop at a maximum at which a step would gain next to nothing."""
        if not self.seen or self.seen[-1].sums is not sums:
            return ["max_iter" if before is None else None]
        quadratic, radius = self.seen[-1].quadratic, self.region.radius
        # Steps cost much and converge fast: go on to well below the tolerance, but not below
        # rounding. A region that shrank says how far the quadratic is right, and not that there
        # is no way up.
        rounding = self._rounding(sums)
        small = quadratic.step(radius).gain < max(1e-6 * control.tol * self.rows, rounding)
        if radius < NARROW * FIRST:
            # On the curved ridge of twin components steps are short for ever.
            small = quadratic.step(FIRST).gain < max(RIDGE, 1e4 * rounding)
        elif small and radius < FIRST:
            enough = max(control.tol * self.rows, 1e4 * rounding)
            small = quadratic.step(FIRST).gain < enough
        return ["converged" if small else None]

    def _quadratic(
        self, sums: InformationSums, params: Parameters, tied: bool = False
    ) -> Quadratic:
        J = face(sums, self.layout, params, self.mixture.family, tied)
        return Quadratic.of(sums, J, self.rows * shares(self.layout, params))

    def _rounding(self, sums: InformationSums) -> float:
        return 1e-14 * (1 + abs(float(sums.objective[0])))

    def _at(self, sums: InformationSums) -> Point:
        return next(seen for seen in self.seen if seen.sums is sums)

    def _step(self, here: Point) -> Parameters:
        family, layout, params = self.mixture.family, self.layout, here.params
        step = here.quadratic.step(self.region.radius)
        share = room(step, params, layout, family)
        if share <= EARLY:
            # What is at the bound stays there, all of it.
            step = self._quadratic(here.sums, params, tied=True).step(self.region.radius)
            share = room(step, params, layout, family)
        self.region.last = step = step.part(share) if share > EARLY else step
        after = layout.unpack(layout.pack(params) + step.vector)
        return replace(after, dispersion=family.allowed(after.dispersion)).stacked()

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


@dataclass(frozen=True, slots=True)
class ScoreSums:
    """Log-likelihood, (1,), and score, (m,), of one mixture."""

    objective: Array
    score: Array

    def take(self, runs: NDArray[np.bool_]) -> ScoreSums:
        """There is only one run; nothing to leave out."""
        return self

    def choose(self, runs: NDArray[np.bool_], other: ScoreSums) -> ScoreSums:
        """These sums, or those of another pass."""
        return self if runs[0] else other


@dataclass(frozen=True, slots=True)
class ChordNewton:
    """Newton's steps that share the information of the point they begin at.

    A pass for the score costs a seventh of one for the information. Near a maximum each step
    leaves a small share of the gain before it: what the next will leave is known beforehand,
    and no pass need check it.

    Attributes
    ----------
    mixture : Mixture
    layout : Layout
    values, vectors : arrays
        Eigenvalues and vectors of the information.
    begin : ScoreSums
        Sums where the steps begin.
    enough : float
        Gain that may be left.
    trail : list of pairs of arrays
        Where passes were made, and scores there.
    """

    mixture: Mixture
    layout: Layout
    values: Array
    vectors: Array
    begin: ScoreSums
    enough: float = SETTLED
    trail: list[tuple[Array, Array]] = field(default_factory=list)

    @staticmethod
    def at(
        params: Parameters,
        mixture: Mixture,
        layout: Layout,
        source: Swept,
        enough: float = SETTLED,
    ) -> ChordNewton:
        """Take score and information at a point."""
        sums = source.sweep(TakeInformation(mixture), params).contract(layout)
        begin = ScoreSums(sums.objective, sums.score)
        return ChordNewton(mixture, layout, *np.linalg.eigh(sums.information), begin, enough)

    @property
    def monotone(self) -> bool:
        """A step after which the log-likelihood fell is halved."""
        return True

    @property
    def below_a_maximum(self) -> bool:
        """Whether the likelihood curves downwards in all directions."""
        return bool(self.values[0] > FLAT * self.values[-1])

    def sweep(self, source: Swept, iteration: int, params: Parameters) -> ScoreSums:
        """Make one pass at the parameters; return its sums."""
        found = self._scores(source, params) if iteration else self.begin
        self.trail.append((self.layout.pack(params.run(0)), found.score))
        return found

    def _scores(self, source: Swept, params: Parameters) -> ScoreSums:
        sums = source.sweep(SoftAssignment(self.mixture, scores_only=True), params)
        score = self.mixture.score(sums.family, sums.count, sums.gate, params.run(0))
        return ScoreSums(sums.objective, np.asarray(score @ self.layout.contraction()))

    def update(self, sums: ScoreSums, params: Parameters) -> Parameters:
        """Take a step along the score."""
        step = self._step(sums)
        step = step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        return self.layout.unpack(self.layout.pack(params.run(0)) + step).stacked()

    def finished(
        self, sums: ScoreSums, before: ScoreSums | None, control: Control
    ) -> list[StopReason | None]:
        """Stop where the next step leaves enough; give up where too many would be needed."""
        gain = self.gain(sums)
        pace = 1.0 if before is None else gain / max(self.gain(before), 1e-300)
        if gain < max(LEAST_GAIN, 1e3 * self.enough) and gain * pace < self.enough:
            return ["converged"]
        if before is None:
            return [None]
        left = np.log(gain / self.enough) / -np.log(min(pace, 0.999))
        return ["max_iter" if left > MOST_LEFT else None]

    def close(self, sums: ScoreSums, params: Parameters) -> Parameters:
        """Take the last step, which no pass checks."""
        return self.layout.unpack(self.layout.pack(params) + self._step(sums))

    def on(self, source: Swept, params: Parameters, share: float) -> Parameters:
        """A step on other rows, of which those that the information is of are a share."""
        sums = self._scores(source, params.stacked())
        step = self._step(replace(sums, score=sums.score * share))
        if np.abs(step).max() > SHORT:
            return params
        return self.layout.unpack(self.layout.pack(params) + step)

    def gain(self, sums: ScoreSums) -> float:
        """What a step with the information alone is to gain."""
        return 0.5 * float(_ascent(self.values, self.vectors, sums.score) @ sums.score)

    def _step(self, sums: ScoreSums) -> Array:
        """A Newton step whose information is corrected by what scores changed along the trail.

        That is the two loops of L-BFGS. On 1,000,000 x 20 with five components, and information
        of a maximum of a fifth of the rows, a step leaves 0.0002 to 0.001 of the gain before it,
        and 0.002 without the correction.
        """
        left, used = sums.score, []
        for (a, before), (b, after) in reversed(list(pairwise(self.trail))):
            step, change = b - a, before - after
            if (along := float(step @ change)) > 0:
                share = float(step @ left) / along
                left = left - share * change
                used.append((step, change, along, share))
        found = _ascent(self.values, self.vectors, left)
        for step, change, along, share in reversed(used):
            found = found + (share - float(change @ found) / along) * step
        return found


def _ascent(values: Array, vectors: Array, score: Array) -> Array:
    """A Newton step with curvatures made positive."""
    # Where nothing is known at all, as of answers that are all settled, there is no step.
    floor = max(1e-8 * float(np.abs(values).max()), 1e-100)
    return np.asarray(vectors @ (vectors.T @ score / np.maximum(np.abs(values), floor)))
