"""The levels of a search: rows drawn, in standard coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators import EM, Control, iterate
from mixreg.jobs.problem import Problem
from mixreg.mixture.mixture import Mixture
from mixreg.search.constants import OF_ALIKE, OF_SHARED
from mixreg.search.course import Course
from mixreg.search.effort import Ladder, first_rows
from mixreg.search.ranges import feasible, safe_coefficients
from mixreg.search.rounds import decompositions
from mixreg.search.tensor import TensorResult
from mixreg.sources import AtHand, Source
from mixreg.sources.base import condensing_pays
from mixreg.sources.block import Block, spans
from mixreg.sources.outliers import drawn_in
from mixreg.sources.standard import Whitening, steady
from mixreg.sources.tasks import response_sizes

Array = NDArray[np.float64]

# Rows whose moments are reported; the search looks at those of its first level.
REPORTED_ROWS = 100_000


def make_ladder(
    problem: Problem, seen: AtHand, rng: np.random.Generator, raw: AtHand | None = None
) -> Ladder:
    """The levels of a search, and how their rows are made.

    Parameters
    ----------
    problem : Problem
    seen : AtHand
        The rows that are searched: all of the problem's, or a sample of them. Those that are alike
        are looked at once.
    rng : Generator
    raw : AtHand, optional
        These rows with those that are alike taken together, where that was done before.
    """
    mixture, k = problem.mixture, problem.k
    raw = seen.distinct() if raw is None else raw
    plain = raw.units if mixture.family.linear and condensing_pays(raw) else raw.rows
    cost = plain
    if raw.has("repeats"):
        cost, plain = raw.cost, int(OF_SHARED * plain)
    elif raw is not seen:
        plain = max(raw.rows, int(OF_ALIKE * seen.rows))
    rows = first_rows(raw.rows, raw.units, cost, k, raw.columns, mixture.family.linear)
    whitening = problem.whitening
    if whitening.linear is not None:
        small = sampled(raw, rows, rng).standard(whitening)
        whitening = pooled_fit(small, mixture, whitening, problem.source)

    def make(size: int, rng: np.random.Generator) -> Course:
        part = sampled(raw, size, rng)
        sample = linear = part.standard(whitening)
        if whitening.linear is not None:
            linear = part.mapped(surrogate(part, mixture)).standard(whitening.linear)
        return Course(mixture, sample, linear, whitening, k)

    return Ladder(make, rows, raw.rows, cost, plain, seen.rows < problem.source.rows)


def sampled(source: Source, rows: int, rng: np.random.Generator) -> AtHand:
    """A sample by the generator's next seed; all rows take none."""
    return source.sample(rows, 0 if rows >= source.rows else int(rng.integers(2**63)))


def seen_rows(problem: Problem, rows: int, rng: np.random.Generator) -> AtHand:
    """Rows that a search may look at, so many at most; far responses drawn in where it matters."""
    near, family = problem.source, problem.mixture.family
    if problem.mixture.background is not None:
        near = drawn_in(near, family)
    seen = sampled(near, rows, rng)
    return seen if family.linear else seen.with_repeats()


def data_moments(problem: Problem, seed: int) -> tuple[TensorResult, ...]:
    """Decompositions of the moments of the data, of many rows at most."""
    rng = np.random.default_rng(seed)
    problem = replace(problem, source=problem.source.counting())
    seen = seen_rows(problem, REPORTED_ROWS, rng)
    ladder = make_ladder(problem, seen, rng)
    return decompositions(ladder.make(seen.rows, rng), rng)[1]


def surrogate(source: Source, mixture: Mixture) -> Surrogate:
    """What gives rows a response on the scale of the linear predictor."""
    return Surrogate(mixture, source.sweep(response_sizes).mean)


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A response for linear regressions in place of a family's own.

    Attributes
    ----------
    mixture : Mixture
    sizes : (responses,) array
        Mean absolute value of each response, of all rows.
    """

    mixture: Mixture
    sizes: Array

    def __call__(self, block: Block) -> Block:
        """The block with that response."""
        sizes = block.trials
        if block.opens is not None:
            counts = np.diff(block.sets, append=block.rows)
            sizes = np.repeat(counts, counts).astype(float)
        y = self.mixture.family.stand_in(block.y, sizes, self.sizes)
        y = y if block.offset is None else y - block.offset
        return replace(block, y=np.asarray(y, dtype=float), offset=None, trials=None)


def pooled_fit(
    sample: Source, mixture: Mixture, whitening: Whitening, raw: Source | None = None
) -> Whitening:
    """Put the family's own fit of one component in place of the linear one.

    Parameters
    ----------
    sample : Source
        Some rows in standard coordinates.
    mixture : Mixture
    whitening : Whitening
    raw : Source, optional
        All rows as they were given: each has a mean under the pooled fit. A model under which
        they cannot all have one is refused.
    """
    if whitening.linear is None:
        return whitening
    one = Mixture(mixture.family)
    safe = whitening.linear.lift(np.zeros_like(whitening.pooled))
    every = None if raw is None or not mixture.family.ranged else raw.standard(whitening)
    if every is not None:
        owners = whitening.standard_owners
        columns = [slice(None)] if owners is None else spans(owners)
        safe = safe_coefficients(every, one, safe, columns)
    start = feasible(sample, one, whitening.start(1), safe)
    plain = sample.without("z", "known")
    fit = iterate(plain, EM(one), start.stacked(), Control(50, 1e-8))[0]
    pooled, spread = steady(fit.params.coef[0]), steady(fit.params.dispersion[0])
    if every is not None:
        found = replace(fit.params, coef=pooled[None])
        pooled = feasible(every, one, found.stacked(), safe).run(0).coef[0]
        whitening = replace(whitening, safe=safe)
    return replace(whitening, pooled=pooled, dispersion=spread)
