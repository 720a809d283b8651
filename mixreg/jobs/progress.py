"""What the stages of a fit report to.

What a fit reports for the bar's sake is also what is left when it is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixreg.estimators.loop import Run
from mixreg.jobs.bar import Bar
from mixreg.jobs.journal import Journal
from mixreg.mixture.parameters import Parameters
from mixreg.search.record import Record
from mixreg.sources.standard import Whitening

# What the final run's objective is called, by method.
CALLED = {"em": "llf", "altmin": "loss", "vb": "elbo"}


class Watch:
    """What the stages of a fit report to: it shows them, and keeps the best so far.

    What took long goes through it too, so that a checkpoint can keep it.

    Parameters
    ----------
    bar : Bar
    method : {"em", "altmin", "vb"}
    whitening : Whitening
        The way to the user's units.
    rows : float
        All rows, counted with their weights.
    returns : bool
        Whether an interrupt returns the best fit so far.
    journal : Journal, optional
        Keeps what took long, for a checkpoint.

    Attributes
    ----------
    best : Parameters, Beliefs or None
        The best fit so far.
    history : list of float
        Objectives of the final run, where they rose.
    """

    def __init__(
        self,
        bar: Bar,
        method: str,
        whitening: Whitening,
        rows: float,
        returns: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self.bar, self.method, self.whitening, self.rows = bar, method, whitening, rows
        self.returns, self.journal = returns, journal
        self._stage = self._beside = ""
        self.best: Any = None
        self.history: list[float] = []

    def stage(self, name: str) -> None:
        """Another stage begins."""
        self._stage = name
        if self.bar.is_due():
            self.bar.show(name, self._beside)

    def __call__(self, iteration: int, objective: float, stack: Any) -> None:
        """A pass over all rows was made, of the final run."""
        if not self.history or objective >= self.history[-1]:
            self.history.append(objective)
            self.best = stack.run(0)
        self._tell(objective, CALLED[self.method])

    def found(self, params: Parameters) -> None:
        """The search has another leader, or the same."""
        self.best = params

    def runs(self, start: Parameters, make: Callable[[], list[Run]]) -> list[Run]:
        """Runs of the search: made, unless a checkpoint has them."""
        return make() if self.journal is None else self.journal.runs(start, make)

    def ended(self, start: Parameters, make: Callable[[], list[Run]]) -> Run:
        """A final run: made, unless a checkpoint has it."""
        if self.journal is None:
            return make()[0]
        (fit,) = self.journal.runs(start, make, at_once=True)
        if not self.history or fit.objective > self.history[-1]:
            self.history, self.best = fit.history.tolist(), fit.params
        return fit

    def searched(self, search: Callable[[], Record], rng: np.random.Generator) -> Record:
        """What a search found: made, unless a checkpoint has it."""
        if self.journal is None:
            return search()
        record = self.journal.searched(search, rng)
        self.found(record.run.params)
        return record

    def of(self, rows: float) -> SomeRows:
        """What passes of the search report to, which are made over some rows."""
        return SomeRows(self, rows)

    def glance(self, objective: float, rows: float) -> None:
        """A pass over some rows was made: what their log-likelihood says of all rows."""
        self._tell(objective * (self.rows / rows), "llf")

    def _tell(self, objective: float, name: str) -> None:
        self.bar.count += 1
        if self.bar.is_due():
            white = self.whitening
            hard = name == "loss"
            value = -white.hard_objective(objective) if hard else white.log_likelihood(objective)
            self._beside = f"{name}={value:.10g}"
            self.bar.show(self._stage, self._beside)


@dataclass(frozen=True, slots=True)
class SomeRows:
    """Passes over some rows, for a watch."""

    watch: Watch
    rows: float

    def __call__(self, iteration: int, objective: float, stack: Any) -> None:
        """A pass was made."""
        self.watch.glance(objective, self.rows)
