"""EM of many regressors, without the products of all their pairs.

An M-step of linear regressions wants weighted cross products, rows times p^2 for each
component. Standard regressors are orthonormal over all rows, so those of a component are not
far from a multiple of the identity, and a few conjugate gradients from where the coefficients
are take the step nearly whole, at rows times p each. Every one of them raises what an M-step
maximises, so the likelihood still never falls. Where responsibilities are nearly hard, each row
counts for one component, and the products of its own rows cost less: then the step is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.em import EM
from mixreg.estimators.expectation import MixtureStatistics, Seen, weighted
from mixreg.estimators.loop import Control, Run, StopReason
from mixreg.families import Gaussian
from mixreg.families.statistics import NEGLIGIBLE, RIDGE
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import wide_block
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Gradients of a step, and how far its equations are solved: what is left over what there was.
GRADIENTS, LEFT = 6, 0.1
# Exact steps may cost so many times what gradients do: they come nearer to the end.
EXACT_IS_WORTH = 2.0
# Where each step is at most this share of the one before, EM ends a run by itself: at a step of
# this length, in residual deviations, after so many at most.
SURE, SHORTEST, MOST_STEPS = 0.6, 1e-10, 40


@dataclass(frozen=True, slots=True)
class LeanStatistics(MixtureStatistics):
    """Sums of a pass without products of regressors, and what is needed to take a step.

    Attributes
    ----------
    resp : (k, [runs,] rows) array
        Weighted responsibilities of rows.
    """

    resp: Array | None = None

    def choose(self, runs: NDArray[np.bool_], other: MixtureStatistics) -> LeanStatistics:
        """Keep the sums of some runs and take the rest from another pass."""
        assert isinstance(other, LeanStatistics)
        both = MixtureStatistics.choose(self, runs, other)
        assert self.resp is not None
        assert other.resp is not None
        return _with_rows(both, np.where(runs[:, None], self.resp, other.resp))

    def take(self, runs: NDArray[np.bool_]) -> LeanStatistics:
        """Sums of some runs of a stack."""
        assert self.resp is not None
        return _with_rows(MixtureStatistics.take(self, runs), self.resp[:, runs])


def _with_rows(sums: MixtureStatistics, resp: Array) -> LeanStatistics:
    return LeanStatistics(sums.objective, sums.count, sums.family, sums.gate, resp)


@dataclass(frozen=True)
class LeanEM:
    """EM on one block of many regressors; see above.

    Attributes
    ----------
    em : EM
        What it stands for: says when a run is finished.
    block : Block
    gradients, left : int, float
        Most conjugate gradients of a step, and what may be left of its equations.
    """

    em: EM
    block: Block
    gradients: int = GRADIENTS
    left: float = LEFT

    @property
    def mixture(self) -> Mixture:
        """What is fitted."""
        return self.em.mixture

    @property
    def monotone(self) -> bool:
        """The log-likelihood never falls."""
        return True

    def sweep(self, source: Any, iteration: int, params: Parameters) -> LeanStatistics:
        """Make one pass at the parameters; return its sums."""
        mixture, block, k = self.em.mixture, self.block, params.k
        seen = Seen.by(mixture, block, params)
        resp = weighted(block, seen.posterior)
        own = block.per_row(resp[:k])
        family = mixture.family.score_statistics(block, params, seen.state, own_units(resp, k))
        return LeanStatistics(
            weighted(block, seen.marginal).sum(axis=-1),
            resp.sum(axis=-1),
            family,
            mixture.gate.statistics(block, params, resp),
            own,
        )

    def update(self, sums: LeanStatistics, params: Parameters) -> Parameters:
        """M-step: coefficients as far as gradients go, then variances and gate."""
        assert sums.resp is not None
        mixture, lead = self.em.mixture, params.coef.shape[:-1]
        flat, score = sums.resp.reshape(-1, self.block.rows), sums.family.xe
        score = score.reshape(len(flat), -1)
        ridge = RIDGE * sums.family.size.sum(axis=0) + 1e-300
        ridge = np.broadcast_to(ridge, lead).reshape(-1)
        step, over = self._step(flat, score, ridge)
        # What is left of the equations counts for the squares too.
        gained = np.einsum("rp,rp->r", step, score + over).reshape(lead)
        squares = np.maximum(sums.family.ee - gained, 0.0)
        variance = mixture.family.variances(squares, sums.family.size)  # type: ignore[attr-defined]
        gating = mixture.gate.update(sums.count, sums.gate, params)
        return Parameters(params.coef + step.reshape(params.coef.shape), variance, gating)

    def _step(self, resp: Array, score: Array, ridge: Array) -> tuple[Array, Array]:
        """Step of each component and run, and what is left of its equations, (runs, p)."""
        rows, p = self.block.x.shape
        counts = resp > NEGLIGIBLE * resp.max(axis=1, keepdims=True)
        held = np.count_nonzero(counts, axis=1)
        exact = held.sum() * p / 2 + len(resp) * p * p / 3
        if exact <= EXACT_IS_WORTH * 2 * self.gradients * rows * len(resp):
            return exact_steps(self.block.x, resp, counts, score, ridge), np.zeros_like(score)
        return conjugate_gradients(self.block.x, resp, score, ridge, self.gradients, self.left)

    def ahead(
        self, first: Parameters, middle: Parameters, end: Parameters, longest: Array
    ) -> tuple[Parameters, Array]:
        """The point that a leap leads to, and how many steps that is."""
        return self.em.ahead(first, middle, end, longest)

    def finished(
        self, sums: MixtureStatistics, before: MixtureStatistics | None, control: Control
    ) -> list[StopReason | None]:
        """As EM."""
        return self.em.finished(sums, before, control)


def own_units(resp: Array, k: int) -> Array:
    """Responsibilities of the components, without that of a background."""
    return resp if len(resp) == k else resp[:k]


def exact_steps(
    x: Array, resp: Array, counts: NDArray[np.bool_], score: Array, ridge: Array
) -> Array:
    """Solve the equations of each component and run on the rows that count, (runs, p)."""
    step, diagonal = np.empty_like(score), np.arange(x.shape[1])
    for i, keep in enumerate(counts):
        rows: Any = np.flatnonzero(keep)
        if 2 * len(rows) > len(x):
            rows = slice(None)
        root = x[rows] * np.sqrt(resp[i, rows])[:, None]
        # A product of an array with itself turned costs half of one of two arrays.
        lhs = np.dot(root.T, root)
        lhs[diagonal, diagonal] += ridge[i]
        step[i] = np.linalg.solve(lhs, score[i])
    return step


def conjugate_gradients(
    x: Array, resp: Array, score: Array, ridge: Array, most: int, left: float
) -> tuple[Array, Array]:
    """As far as some gradients go from zero, all runs at once; and what is left, (runs, p)."""
    step, rest = np.zeros_like(score), score.copy()
    way, size = rest.copy(), np.einsum("rp,rp->r", rest, rest)
    enough = left * left * size
    for _ in range(most):
        along = np.dot(way, x.T)
        along *= resp
        curved = np.dot(along, x)
        curved += ridge[:, None] * way
        length = np.einsum("rp,rp->r", way, curved)
        going = (size > enough) & (length > 0)
        if not going.any():
            break
        share = np.where(going, size / np.where(going, length, 1.0), 0.0)
        step += share[:, None] * way
        rest -= share[:, None] * curved
        now = np.einsum("rp,rp->r", rest, rest)
        turn = np.where(going, now / np.where(size > 0, size, 1.0), 0.0)
        way = rest + turn[:, None] * way
        size = np.where(going, now, 0.0)
    return step, rest


def lean(em: EM, source: Any) -> Any:
    """EM as it is, or without products of pairs where there are many regressors."""
    mixture = em.mixture
    if type(mixture.family) is not Gaussian or mixture.shared or mixture.absent:
        return em
    block = wide_block(source)
    return em if block is None else LeanEM(em, block)


def ended(source: Any, mixture: Mixture, fit: Run) -> Run | None:
    """The very end of a run of many regressors, where labels are so sure that EM hardly repeats.

    Each step then leaves a small share of the one before, and what Newton's steps would want,
    the information of all components together, is dear. None where labels are not so sure.
    """
    if wide_block(source) is None or mixture.shared or mixture.absent:
        return None
    em, params, before = EM(mixture, exact=0.0), fit.params.stacked(), np.inf
    for step in range(MOST_STEPS):
        sums = em.sweep(source, step, params)
        if before < SHORTEST:
            history = np.append(fit.history, sums.objective)
            objective, n_iter = float(sums.objective[0]), fit.n_iter + step
            return replace(
                fit,
                params=params.run(0),
                objective=objective,
                history=history,
                n_iter=n_iter,
                settled=True,
            )
        after = em.update(sums, params)
        move = _length(params, after)
        if step > 1 and not move < SURE * before:
            return None
        params, before = after, move
    return None


def _length(one: Parameters, other: Parameters) -> float:
    """Longest step of a parameter: of coefficients in residual deviations."""
    deviation = np.sqrt(one.dispersion)[..., None]
    return max(
        float(np.abs((other.coef - one.coef) / deviation).max()),
        float(np.abs(np.log(other.dispersion / one.dispersion)).max()),
        float(np.abs(other.gating - one.gating).max()),
    )
