"""What is left of a fit that was interrupted: the best so far, as a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mixreg.errors import InputError
from mixreg.estimators import Control
from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.pruning import run_on
from mixreg.estimators.runs import run_altmin, run_em
from mixreg.estimators.variational import Variational
from mixreg.jobs.ending import RunWithSums, believed, finish, renumbered
from mixreg.jobs.problem import Options, Problem, Solution
from mixreg.jobs.progress import Watch
from mixreg.sources import Source

OnInterrupt = Literal["raise", "return"]
# Where a fit stands takes one pass; a posterior takes one step from any parameters.
NO_STEP, ONE_STEP = Control(max_iter=0), Control(max_iter=1, tol=0.0)


def check_on_interrupt(on_interrupt: Any) -> None:
    """Refuse what there is not."""
    if on_interrupt not in ("raise", "return"):
        raise InputError(
            f"on_interrupt={on_interrupt!r} is unknown; use 'raise', or 'return' for the best fit "
            "so far"
        )


def cut_short(problem: Problem, options: Options, watch: Watch, errors: bool) -> Solution:
    """The best fit so far, with all that is reported of a fit, marked as interrupted."""
    source = problem.source.standard(problem.whitening)
    solution = _end(problem, source, options, watch, errors)
    if solution.exact:
        # No loss is left: nothing better was to be found.
        return solution
    return replace(solution, run=replace(solution.run, reason="interrupted"))


def _end(
    problem: Problem, source: Source, options: Options, watch: Watch, errors: bool
) -> Solution:
    mixture, best = problem.mixture, watch.best
    if options.method == "vb":
        estimator = Variational(mixture, options.priors)
        if not isinstance(best, Beliefs):
            best = estimator.around(best, source.row_weight, source.total_weight)
        pruned = run_on(source, estimator, best, ONE_STEP)
        return believed(source, mixture, pruned, (), None)
    run = run_altmin if options.method == "altmin" else run_em
    fit = run(source, mixture, renumbered(source, mixture, best), NO_STEP)
    if watch.history:
        steps = len(watch.history) - 1
        fit = replace(fit, history=np.array(watch.history), n_iter=fit.n_iter + steps)
    white = problem.whitening
    return finish(source, mixture, RunWithSums(fit), options.method, (), None, 0, white, errors)
