"""The same fit with its components numbered otherwise, or with other standard errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError, NotAvailableError
from mixreg.inference.estimate import Estimate, estimate
from mixreg.inference.last_pass import last_pass
from mixreg.jobs.job import make_job
from mixreg.jobs.options import check_cov_type
from mixreg.jobs.problem import Solution
from mixreg.mixture.layout import Layout
from mixreg.mixture.parameters import class_order
from mixreg.report.base_results import BaseResults
from mixreg.report.fitted import Fitted
from mixreg.report.tally import Tally

Array = NDArray[np.float64]
Order = NDArray[np.intp]


def read_order(res: BaseResults, order: Any, by: Any) -> Order:
    """Components from 0 in their new order, by their numbers or by a term's coefficients."""
    if (order is None) == (by is None):
        raise InputError("give order=, a list of all components, or by=, a term; and not both")
    if not res.spec.mixture.exchangeable:
        raise NotAvailableError(
            "labels are known, or terms belong to some components only: these numbers were given, "
            "and cannot be changed"
        )
    if by is not None:
        terms = res.spec.exog_names
        if by not in terms:
            raise InputError(f"by={by!r} is not a term; terms are {', '.join(terms)}")
        return np.argsort(res.fitted.estimate.params.coef[:, terms.index(by)], kind="stable")
    given = np.asarray(order)
    if given.shape != (res.k,) or sorted(given.tolist()) != list(range(1, res.k + 1)):
        raise InputError(f"order={order!r} must have each of 1..{res.k} once, as {_example(res.k)}")
    return given.astype(np.intp) - 1


def _example(k: int) -> str:
    return str(list(range(k, 0, -1)))


def relabelled(fitted: Fitted, layout: Layout, order: Order) -> Fitted:
    """A fit in which the component that was `order[j]` is number j, both from 0."""
    classes = class_order(order, layout.k, layout.classes)
    places = np.argsort(order)

    def moved(components: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(int(places[j]) for j in components))

    reasons = tuple(replace(r, component=int(places[r.component])) for r in fitted.reasons)
    return replace(
        fitted,
        estimate=_estimate(fitted.estimate, layout, order),
        standard=fitted.standard.permute(order),
        tally=_tally(fitted.tally, layout, classes, order),
        posterior=None if fitted.posterior is None else fitted.posterior[classes],
        empty=moved(fitted.empty),
        suspects=moved(fitted.suspects),
        reasons=tuple(sorted(reasons, key=lambda each: each.component)),
        beliefs=None if fitted.beliefs is None else fitted.beliefs.permute(order),
    )


def _estimate(old: Estimate, layout: Layout, order: Order) -> Estimate:
    turn, places = turning(layout, order), np.argsort(order)
    cov = None
    if old.cov is not None:
        lost = (turn != 0) @ np.isinf(np.diag(old.cov))
        cov = turn @ np.where(np.isinf(old.cov), 0.0, old.cov) @ turn.T
        cov[lost, :] = cov[:, lost] = 0.0
        cov[lost, lost] = np.inf
    return replace(
        old,
        params=old.params.permute(order),
        vector=turn @ old.vector,
        cov=cov,
        separated=tuple(sorted(int(places[j]) for j in old.separated)),
        undetermined=tuple(sorted((int(places[j]), i) for j, i in old.undetermined)),
    )


def turning(layout: Layout, order: Order) -> Array:
    """Matrix that takes the flat vector to that of components in another order."""
    turn = np.zeros((layout.size, layout.size))
    for index in (layout.coef_index(), layout.scale_index().reshape(layout.k, -1)):
        if index.size:
            turn[index, index[order]] = 1.0
    gate = layout.gating_index().reshape(layout.classes - 1, -1)
    classes = class_order(order, layout.k, layout.classes)
    for row, old in zip(gate, classes[1:], strict=True):
        # Logits are against the first class, which may be another one now.
        if old:
            turn[row, gate[old - 1]] += 1.0
        if classes[0]:
            turn[row, gate[classes[0] - 1]] -= 1.0
    return turn


def _tally(old: Tally, layout: Layout, classes: Order, order: Order) -> Tally:
    gate = layout.gating_index()
    back = np.linalg.inv(turning(layout, order)[np.ix_(gate, gate)]) if len(gate) else np.eye(0)
    return replace(
        old,
        weights=old.weights[classes],
        slopes=old.slopes[classes] @ back,
        rows=old.rows[classes],
        units=old.units[classes],
        assigned=old.assigned[classes],
        joint=old.joint[np.ix_(classes, classes)],
    )


def turned(solution: Solution | None, order: Order) -> Solution | None:
    """A solution with its components in another order; its information is to be made anew."""
    if solution is None:
        return None
    run = replace(solution.run, params=solution.run.params.permute(order))
    user = None if solution.user is None else solution.user.permute(order)
    beliefs = None if solution.beliefs is None else solution.beliefs.permute(order)
    last = replace(solution.last, information=None, xx=None)
    return replace(solution, run=run, user=user, last=last, beliefs=beliefs)


def new_errors(
    res: BaseResults, solution: Solution, cov_type: Any, cov_kwds: dict[str, Any] | None
) -> tuple[Fitted, Solution]:
    """A fit with standard errors of another kind; rows are met only where sums are missing."""
    check_cov_type(cov_type, res.method)
    if res.method == "vb":
        raise NotAvailableError(
            "method='vb' has posterior standard deviations, and no other errors"
        )
    there = solution.last.information is not None and cov_type not in ("cluster", "none")
    problem = None
    if not there and cov_type != "none":
        job = make_job(res.model, res.options, cov_type, cov_kwds)
        problem = job.problem
        source = problem.source.standard(problem.whitening)
        mixture, params = problem.mixture, solution.run.params
        hard = res.method == "altmin"
        last = last_pass(source, mixture, params, hard, solution.exact)
        solution = replace(solution, last=last)
    elif cov_kwds:
        raise InputError(f"cov_kwds={cov_kwds!r} is only used with cov_type='cluster'")
    problem = res.model.problem() if problem is None else problem
    made = estimate(problem, res.spec.layout, solution, res.method, cov_type, res.options.priors)
    kept = solution if cov_type != "cluster" else _without_clusters(solution)
    return replace(res.fitted, estimate=made), kept


def _without_clusters(solution: Solution) -> Solution:
    """A solution whose sums may serve other kinds of errors."""
    information = solution.last.information
    assert information is not None
    last = replace(solution.last, information=replace(information, clusters=None))
    return replace(solution, last=last)
