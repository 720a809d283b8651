"""One fit as a job: it runs here, or is sent to a worker with its rows."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mixreg.inference.estimate import Estimate, fit_problem
from mixreg.jobs.bar import Bar, is_wanted
from mixreg.jobs.interrupt import OnInterrupt
from mixreg.jobs.journal import Journal
from mixreg.jobs.options import check_cov_type, cov_group_codes
from mixreg.jobs.problem import Options, Problem, Solution
from mixreg.jobs.progress import Watch
from mixreg.mixture.layout import Layout
from mixreg.sources.stages import stages
from mixreg.table.parts import ModelParts


@dataclass(frozen=True)
class Job:
    """What is to be fitted, and how.

    Attributes
    ----------
    problem : Problem
    layout : Layout
    options : Options
    cov_type : str
    """

    problem: Problem
    layout: Layout
    options: Options
    cov_type: str = "none"

    def run(self, watch: Watch | None = None) -> tuple[Solution, Estimate]:
        """Fit, and work out standard errors."""
        # Numbers may overflow on the way from a wild start, and rows may have no density at all:
        # what comes of it is checked where it is used, and is no news for the user.
        with stages(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return fit_problem(self.problem, self.layout, self.options, self.cov_type, watch)

    def watched(
        self, progress: bool | None, on_interrupt: OnInterrupt, journal: Journal | None
    ) -> tuple[Solution, Estimate]:
        """The same with a progress bar, a hand on the keyboard, or a checkpoint."""
        returns = on_interrupt == "return"
        if not is_wanted(progress) and not returns and journal is None:
            return self.run()
        white, rows = self.problem.whitening, self.problem.source.row_weight
        with Bar("mixreg", progress) as bar, closing(journal) if journal else nullcontext():
            return self.run(Watch(bar, self.options.method, white, rows, returns, journal))


@dataclass(frozen=True)
class Jobs:
    """Jobs by their number; rows that they share are sent once."""

    jobs: tuple[Job, ...]

    def __call__(self, number: int) -> tuple[Solution, Estimate]:
        """Run one of them."""
        return self.jobs[number].run()


def make_job(
    model: ModelParts, options: Options, cov_type: Any, cov_kwds: dict[str, Any] | None
) -> Job:
    """The fit of a model to its rows.

    Units that do not count are left out of the fit, not of the labels.
    """
    check_cov_type(cov_type, options.method)
    given = options.init.T[:, :, None] if isinstance(options.init, np.ndarray) else None
    problem = counting_problem(model, cov_type, cov_kwds, given)
    return Job(problem, model.layout, options, cov_type)


def counting_problem(
    model: ModelParts, cov_type: str, cov_kwds: dict[str, Any] | None, given: Any = None
) -> Problem:
    """A model's rows that count, with their clusters, and labels to begin with, beside them."""
    problem = model.problem()
    beside = {"cov_group": cov_group_codes(cov_type, cov_kwds, model.rows), "given": given}
    beside = {name: column for name, column in beside.items() if column is not None}
    source = problem.source
    if beside:
        source = source.at_hand("labels or clusters of rows").with_columns(**beside)
    return replace(problem, source=source.counting())
