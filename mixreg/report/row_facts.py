"""What a fit says of each row: linear predictors, class probabilities, the posterior.

Frames and plots are made of these. The model's own rows are met block by block; a plot
takes a sample of many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.estimators.expectation import Posterior
from mixreg.families import Family, Rows
from mixreg.inference.averages import ClassProbabilities
from mixreg.mixture.parameters import Parameters
from mixreg.report.base_results import BaseResults
from mixreg.report.prediction import NewRows, new_posterior, new_rows, prior_of, read_new
from mixreg.sources import Source, per_unit
from mixreg.sources.base import Parts
from mixreg.sources.block import Block
from mixreg.table.prepared import prepared
from mixreg.table.spec import Spec

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowFacts:
    """Some rows as a fit sees them: n rows, d responses, k components, K classes.

    Attributes
    ----------
    families : tuple of Family
    y, trials : (d, n) arrays
        Responses; trials are NaN where there are none.
    eta : (d, k, n) array
        Linear predictors; of choices, log odds of an alternative against the others.
    dispersion : (d, k) array
    prior, posterior : (K, n) arrays
        Class probabilities before and after the responses are seen.
    weight : (n,) array
        Case weights.
    columns : (c, n) array
        Regressors that were asked for.
    """

    families: tuple[Family, ...]
    y: Array
    trials: Array
    eta: Array
    dispersion: Array
    prior: Array
    posterior: Array
    weight: Array
    columns: Array

    @property
    def k(self) -> int:
        """Number of components."""
        return self.eta.shape[1]

    @property
    def share(self) -> Array:
        """Class probabilities of the components, (k, n), the background left out."""
        own = self.prior[: self.k]
        return np.asarray(own / own.sum(axis=0))

    def rows(self, response: int) -> Rows:
        """The rows of one response at their linear predictors under each component.

        Those without a mean, and those without a response, are NaN.
        """
        family, eta = self.families[response], self.eta[response]
        good = family.in_range(eta)
        eta = eta if good is None else np.where(good, eta, np.nan)
        trials = None if np.isnan(self.trials[response]).all() else self.trials[response]
        spread = self.dispersion[response][:, None]
        with np.errstate(invalid="ignore"):
            return family.rows_at(self.y[response], eta, spread, trials)

    def means(self, response: int) -> Array:
        """Expected response under each component, (k, n)."""
        eta = self.eta[response]
        good = self.families[response].in_range(eta)
        with np.errstate(invalid="ignore"):
            mean = self.families[response].mean(eta)
        return mean if good is None else np.where(good, mean, np.nan)

    def fitted(self, response: int) -> Array:
        """Expected response, components weighted by class probabilities, (n,)."""
        return np.asarray((self.share * self.means(response)).sum(axis=0))

    def in_order(self, unsort: Any) -> RowFacts:
        """The same rows in the user's order."""

        def turned(values: Array) -> Array:
            return np.moveaxis(unsort(np.moveaxis(values, -1, 0)), 0, -1)

        names = ("y", "trials", "eta", "prior", "posterior", "weight", "columns")
        moved: dict[str, Any] = {name: turned(getattr(self, name)) for name in names}
        return replace(self, **moved)


@dataclass(frozen=True, eq=False)
class TakeFacts:
    """Task: what a fit says of each row of a block, as it was given, (m, rows).

    Attributes
    ----------
    spec : Spec
    hard : bool
        Whether labels are hard.
    columns : tuple of int
        Regressors to tell as well.
    """

    spec: Spec
    hard: bool
    columns: tuple[int, ...] = ()

    def __call__(self, block: Block, params: Parameters) -> Parts:
        """Process one block."""
        spec, rows = self.spec, block.rows
        ready = prepared([response.family for response in spec.responses])(block)
        posterior = Posterior(spec.mixture, self.hard)(ready, params).join()
        prior = ClassProbabilities(spec.mixture.gate)(block, params).join()
        weight = np.ones(block.units) if block.weight is None else block.weight
        blank = np.full(block.y.shape, np.nan)
        told = [
            block.y.reshape(rows, -1).T,
            (blank if block.trials is None else block.trials).reshape(rows, -1).T,
            np.concatenate(_predictors(spec, block, params)),
            block.per_row(prior),
            block.per_row(posterior),
            block.per_row(weight)[None],
            block.x[:, list(self.columns)].T,
        ]
        return Parts((np.concatenate(told),))


def _predictors(spec: Spec, block: Block, params: Parameters) -> list[Array]:
    """Linear predictors of each response, (k, rows)."""
    codes = None
    if block.opens is not None:
        codes = np.cumsum(block.opens) - 1
    return [
        at_predictors(own.x, own.offset, codes, params.coef[:, at]) for at, own in block.responses()
    ]


def at_predictors(
    x: Array, offset: Array | None, sets: NDArray[np.intp] | None, coef: Array
) -> Array:
    """Linear predictors (k, rows); within choice sets, log odds against the others."""
    eta = coef @ x.T
    if offset is not None:
        eta = eta + offset
    return eta if sets is None else against_others(eta, sets)


def against_others(eta: Array, sets: NDArray[np.intp]) -> Array:
    """Log odds of each alternative against the others of its set, (k, rows)."""
    frame = pd.DataFrame(eta.T).groupby(np.asarray(sets))
    gap = eta - frame.transform("max").to_numpy().T
    chance = np.exp(gap)
    total = pd.DataFrame(chance.T).groupby(np.asarray(sets)).transform("sum", min_count=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = gap - np.log(np.maximum(total.to_numpy().T - chance, 0.0))
    # A set with an unknown alternative has no known shares.
    unknown = np.isin(sets, np.asarray(sets)[np.isnan(eta).any(axis=0)])
    return np.where(unknown, np.nan, odds)


def take_facts(res: BaseResults, source: Source, columns: Sequence[int] = ()) -> RowFacts:
    """What a fit says of the rows of a source, which are as they were given."""
    task = TakeFacts(res.spec, res.method == "altmin", tuple(columns))
    params = res.fitted.estimate.params
    told = per_unit(source, task, params)
    d, k, K = len(res.spec.responses), res.k, len(res.classes)
    sizes = np.cumsum([d, d, d * k, K, K, 1])
    y, trials, eta, prior, posterior, weight, rest = np.split(told, sizes)
    return RowFacts(
        families_of(res),
        y,
        trials,
        eta.reshape(d, k, -1),
        dispersions_of(res),
        prior,
        posterior,
        weight[0],
        rest,
    )


def own_facts(res: BaseResults, columns: Sequence[int] = ()) -> RowFacts:
    """What a fit says of all rows of its model, in the user's order."""
    model = res.model
    return take_facts(res, model.given, columns).in_order(model.rows.names.unsort)


def sampled_facts(res: BaseResults, most: int, columns: Sequence[int] = ()) -> RowFacts:
    """What a fit says of some rows of its model, whole groups, about `most` in all."""
    return take_facts(res, res.model.given.sample(most, 0), columns)


def families_of(res: BaseResults) -> tuple[Family, ...]:
    """The family of each response."""
    return tuple(response.family for response in res.spec.responses)


def dispersions_of(res: BaseResults) -> Array:
    """Dispersions by response and component, (d, k)."""
    spread = res.fitted.estimate.params.dispersion
    return np.asarray(spread.reshape(res.k, -1).T)


def read_rows(res: BaseResults, new: Any, columns: dict[str, Any], which: str = "label") -> NewRows:
    """New data through the same formulas, with their responses where they are there."""
    return new_rows(res, read_new(res, new), columns, which)


def new_facts(res: BaseResults, rows: NewRows) -> RowFacts:
    """What a fit says of new rows."""
    coef, n = res.fitted.estimate.params.coef, len(rows)
    blank = np.full(n, np.nan)
    pairs = list(zip(rows.parts, res.spec.responses, strict=True))
    return RowFacts(
        families_of(res),
        np.array([blank if part.y is None else part.y for part, _ in pairs]),
        np.array([blank if part.trials is None else part.trials for part, _ in pairs]),
        np.array([at_predictors(p.x, p.offset, rows.sets, coef[:, r.columns]) for p, r in pairs]),
        dispersions_of(res),
        prior_of(res, rows).T,
        new_posterior(res, rows).T,
        np.ones(n),
        np.empty((0, n)),
    )
