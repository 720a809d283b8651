"""What was found, frozen: estimates, what labels add up to, and how the search went."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.priors import Priors
from mixreg.exact.reasons import WhyTight, permuted
from mixreg.inference.estimate import Estimate
from mixreg.inference.last_pass import TakeLabels
from mixreg.jobs.problem import Options, Solution
from mixreg.mixture.layout import Layout
from mixreg.mixture.parameters import Parameters, class_order, new_numbers
from mixreg.report.tally import Tally, tally
from mixreg.search.record import Record
from mixreg.sources.base import Standardised
from mixreg.sources.standard import Whitening
from mixreg.table.parts import ModelParts

Array = NDArray[np.float64]

# More groups than this are named where the rows are, not in the fit.
KEPT_GROUPS = 1_000_000


@dataclass(frozen=True, slots=True)
class SearchReport:
    """How the search went.

    Attributes
    ----------
    starts : int
        Independent starts run to the end.
    heights : tuple of float
        Log-likelihood of each distinct maximum that was taken to all rows, the
        winner first, before its last steps.
    hits : tuple of int
        How many starts led to each of them; 0 if only a move did.
    chance : float
        Estimated chance that one more start would find a better maximum.
    moves, accepted : int
        Moves tried against the leader, and kept.
    levels : tuple of int
        Rows of each level of the search.
    agreement : float
        Whether maxima within two units of log-likelihood have the same segments: the least adjusted
        Rand index between their labels and those of this fit; 1 if there are none.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
    >>> search = res.diagnostics.search
    >>> search.levels, sum(search.hits) <= search.starts
    ((150,), True)
    >>> bool(0 <= search.chance <= 1)
    True
    """

    starts: int
    heights: tuple[float, ...]
    hits: tuple[int, ...]
    chance: float
    moves: int
    accepted: int
    levels: tuple[int, ...]
    # Files of earlier versions lack these.
    agreement: float = field(default=1.0, metadata={"later": True})


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit in arrays, strings and numbers.

    Attributes
    ----------
    method : {"em", "altmin", "vb"}
    estimate : Estimate
        Parameters in the user's units, their covariance, and the log-likelihood
        at them.
    standard : Parameters
        The same in standard coordinates.
    whitening : Whitening
        The way between the two.
    tally : Tally
        What the labels add up to.
    groups : pandas Index or None
        Names of the groups.
    posterior : (K, groups) array or None
        Of the groups, once the rows are gone.
    reason, n_iter, history
        Why the final run stopped, after how many iterations, and the objective
        at each of them, in the user's units.
    exact, certified, binds, empty, revived, suspects, reasons, rounded, narrow
        As in `Solution`.
    search : SearchReport or None
    beliefs : Beliefs or None
        Posterior of variational Bayes, in standard coordinates.
    priors : Priors or None
    elbo : float or None
        Its lower bound, in the user's units.
    """

    method: str
    estimate: Estimate
    standard: Parameters
    whitening: Whitening
    tally: Tally
    groups: pd.Index | None
    posterior: Array | None
    reason: str
    n_iter: int
    history: Array
    exact: bool
    certified: bool
    binds: bool
    empty: tuple[int, ...]
    revived: int
    suspects: tuple[int, ...]
    reasons: tuple[WhyTight, ...]
    search: SearchReport | None
    beliefs: Beliefs | None
    priors: Priors | None
    elbo: float | None
    # Files of earlier versions lack these.
    rounded: tuple[tuple[float, float], ...] = field(default=(), metadata={"later": True})
    narrow: tuple[int, ...] = field(default=(), metadata={"later": True})

    def with_groups(self, posterior: Array) -> Fitted:
        """The same fit with what the rows say of the groups, which it can then do without."""
        return self if self.groups is None else replace(self, posterior=posterior)

    def permute(self, layout: Layout, order: NDArray[np.intp]) -> Fitted:
        """Reorder the components: the one that was `order[j]` is number j, both from 0."""
        classes = class_order(order, layout.k, layout.classes)
        return replace(
            self,
            estimate=self.estimate.permute(layout, order),
            standard=self.standard.permute(order),
            tally=self.tally.permute(layout, order),
            posterior=None if self.posterior is None else self.posterior[classes],
            empty=new_numbers(self.empty, order),
            suspects=new_numbers(self.suspects, order),
            narrow=new_numbers(self.narrow, order),
            reasons=permuted(self.reasons, order),
            beliefs=None if self.beliefs is None else self.beliefs.permute(order),
        )


def make_fitted(
    model: ModelParts, solution: Solution, estimate: Estimate, options: Options
) -> Fitted:
    """Put a finished fit together, in the user's units."""
    white, fit, bayes = model.whitening, solution.run, solution.beliefs is not None
    hard = options.method == "altmin"
    labels = solution.last.labels
    if model.source.counting() is not model.source:
        # Units of no weight had no part in the fit, but they get labels.
        task = TakeLabels(model.problem().mixture, hard)
        labels = model.source.sweep(Standardised(task, white), fit.params)
    return Fitted(
        options.method,
        estimate,
        fit.params,
        white,
        tally(model.rows, solution.last.gate, labels),
        model.groups if model.source.units <= KEPT_GROUPS else None,
        None,
        fit.reason,
        fit.n_iter,
        white.hard_objective(fit.history) if hard else fit.history - white.log_volume,
        solution.exact,
        solution.certified,
        solution.binds,
        solution.empty,
        solution.revived,
        solution.suspects,
        solution.reasons,
        None if solution.search is None else report(solution.search, white),
        solution.beliefs,
        options.priors if bayes else None,
        None if solution.elbo is None else white.log_likelihood(solution.elbo),
        solution.rounded,
        solution.narrow,
    )


def report(record: Record, whitening: Whitening) -> SearchReport:
    """A record of the search in the user's units."""
    return SearchReport(
        record.starts,
        tuple(whitening.log_likelihood(m.run.objective) for m in record.maxima),
        tuple(m.hits for m in record.maxima),
        record.chance,
        record.moves,
        record.accepted,
        record.levels,
        record.agreement,
    )
