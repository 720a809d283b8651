"""Fits to other rows of the same kind: drawn from a fit, or resampled.

Drawing is done where the results are, refitting anywhere: a `Refit` and its
tasks can be sent to another process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError, NotAvailableError
from mixreg.estimators import Control
from mixreg.jobs.job import Job
from mixreg.jobs.problem import Options, Problem, Solution
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.report.base_results import BaseResults
from mixreg.report.drawing import draw, taken_out, with_offset
from mixreg.search.chance import ranked
from mixreg.search.effort import Effort
from mixreg.sources import AtHand, Source, per_unit, unit_weights
from mixreg.sources.tasks import responses
from mixreg.table.responses import standard_coordinates

Array = NDArray[np.float64]

NEEDS_ROWS = "a bootstrap that draws responses"


@dataclass(frozen=True)
class Replicate:
    """Rows of one replicate, as changes to the rows of a fit.

    Attributes
    ----------
    seed : int
        For the search, if there is one.
    y : (rows,) array or None
        New responses.
    weight : (units,) array or None
        New case weights; units with weight 0 are left out.
    """

    seed: int
    y: Array | None = None
    weight: Array | None = None

    def apply(self, source: Source) -> Source:
        """The rows of the replicate."""
        near = source.at_hand("a bootstrap")
        if self.y is not None:
            return near.with_columns(y=self.y)
        assert self.weight is not None
        kept = np.flatnonzero(self.weight)
        return near.take_units(kept).with_columns(weight=self.weight[kept])


@dataclass(frozen=True)
class FarReplicate:
    """Units drawn anew where they are, for rows that are too many to be in memory.

    Attributes
    ----------
    seed : int
        For the search, if there is one.
    units : int
        For the units.
    """

    seed: int
    units: int

    def apply(self, source: Source) -> Source:
        """The rows of the replicate."""
        return source.redrawn(self.units).counting()


@dataclass(frozen=True)
class Refit:
    """Fit a model to other rows, from where it ended on its own.

    Attributes
    ----------
    source : Source
        The model's own rows.
    mixture : Mixture
        In the user's units.
    layout : Layout
    start : Parameters
        The fit, in the user's units.
    control : Control
    n_init : int or None
        Also search this hard, and keep the better end.
    """

    source: Source
    mixture: Mixture
    layout: Layout
    start: Parameters
    control: Control
    n_init: int | None = None

    def problem(self, source: Source) -> Problem:
        """The fit to other rows, in standard coordinates of their own."""
        white = standard_coordinates(source, self.mixture.family, self.layout)
        mixture = replace(self.mixture, background=white.background(self.mixture.background))
        return Problem(source, mixture, white, self.layout.k)

    def best(self, problem: Problem, seed: int) -> Solution:
        """The better of the run from the fit and the search, ranked as in a search."""
        start = problem.mixture.prepare(problem.whitening.from_user(self.start))
        ends = [self._solved(problem, start, Effort(1), seed)]
        if self.n_init is None or problem.k == 1:
            return ends[0]
        ends.append(self._solved(problem, "auto", Effort(self.n_init), seed))
        rows = problem.source.standard(problem.whitening)
        runs = [end.run for end in ends]
        best = ranked(rows, problem.mixture, runs, rows.row_weight)[0]
        return next(end for end in ends if end.run is best)

    def _solved(
        self, problem: Problem, init: Parameters | str, effort: Effort, seed: int
    ) -> Solution:
        options = Options("em", init, effort, self.control, seed, told=False)
        return Job(problem, self.layout, options).run()[0]


def make_refit(res: BaseResults, source: Source, control: Control, n_init: int | None) -> Refit:
    """What it takes to fit the model of some results to rows like those of `source`."""
    model = res.model
    return Refit(source, model.mixture, model.layout, res.fitted.estimate.params, control, n_init)


def control_of(res: BaseResults) -> Control:
    """When refits stop: as the fit did, or by default if the fit is from a file."""
    try:
        return res.options.control
    except NotAvailableError:
        return Control()


def check_likelihood(res: BaseResults, what: str) -> None:
    """Refuse fits that are not a maximum of a likelihood."""
    if res.method != "em":
        raise InputError(f"{what} needs a fit by method='em'; got {res.method!r}")
    if res.fitted.exact:
        raise InputError(f"the fit is exact, which leaves nothing for a {what} to vary")


def repeated(source: AtHand) -> AtHand:
    """Rows that count once each: a unit of weight 2 is there twice."""
    if not source.has("weight"):
        return source
    weight = unit_weights(source)
    if (weight != np.round(weight)).any():
        raise InputError(
            "responses can be drawn for whole case weights only, where a weight of 2 means two "
            "rows; resample with kind='case' or 'group' instead"
        )
    units = np.repeat(np.arange(source.units), weight.astype(np.intp))
    return source.take_units(units).with_columns(weight=None)


def drawn(
    res: BaseResults, source: Source, seeds: list[np.random.SeedSequence]
) -> Iterator[Replicate]:
    """Replicates drawn from a fit, one for each seed, at the rows of `source`."""
    model, params, offset = res.model, res.fitted.estimate.params, taken_out(res.model)
    if offset is not None:
        rows = model.source.at_hand(NEEDS_ROWS).with_columns(y=offset)
        offset = per_unit(repeated(rows), responses)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        y, classes = draw(model.spec, source, params, rng)
        if offset is not None:
            # The response of a linear fit has its offset taken out, and stays that way.
            y = with_offset(y, classes, params.k, offset) - offset
        yield Replicate(int(rng.integers(2**31)), y=y)


def resampled(source: Source, seeds: list[np.random.SeedSequence]) -> Iterator[Replicate]:
    """Replicates of as many units, drawn with replacement; weight 2 is drawn twice as often."""
    weight = unit_weights(source)
    total = source.total_weight
    count = max(1, round(total))
    for seed in seeds:
        rng = np.random.default_rng(seed)
        times = rng.multinomial(count, weight / total).astype(np.float64)
        yield Replicate(int(rng.integers(2**31)), weight=times * (total / count))


def redrawn(seeds: list[np.random.SeedSequence]) -> Iterator[FarReplicate]:
    """The same of rows that are not in memory."""
    for seed in seeds:
        search, units = seed.generate_state(2, np.uint64).tolist()
        yield FarReplicate(search >> 33, units)
