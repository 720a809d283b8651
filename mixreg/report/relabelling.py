"""The same fit with its components numbered otherwise, or with other standard errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError, NotAvailableError
from mixreg.estimators import Run
from mixreg.estimators.priors import Priors
from mixreg.inference.estimate import Estimate, estimate
from mixreg.inference.last_pass import LastPass, last_pass
from mixreg.jobs.job import counting_problem
from mixreg.jobs.options import check_cov_type
from mixreg.jobs.problem import Solution
from mixreg.report.base_results import BaseResults
from mixreg.report.fitted import Fitted

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
        if terms.index(by) in res.spec.layout.shared:
            raise InputError(f"by={by!r} is the same in all components; choose a term that is not")
        return np.argsort(res.fitted.estimate.params.coef[:, terms.index(by)], kind="stable")
    given = np.asarray(order)
    if given.shape != (res.k,) or sorted(given.tolist()) != list(range(1, res.k + 1)):
        raise InputError(f"order={order!r} must have each of 1..{res.k} once, as {_example(res.k)}")
    return given.astype(np.intp) - 1


def _example(k: int) -> str:
    return str(list(range(k, 0, -1)))


def new_errors(
    res: BaseResults, solution: Solution | None, cov_type: Any, cov_kwds: dict[str, Any] | None
) -> tuple[Estimate, Solution]:
    """Standard errors of another kind; rows are met only where sums are missing."""
    check_cov_type(cov_type, res.method)
    if res.method == "vb":
        raise NotAvailableError(
            "method='vb' has posterior standard deviations, and no other errors"
        )
    needed = cov_type == "cluster" or (
        cov_type != "none" and (solution is None or solution.last.information is None)
    )
    if cov_kwds and not needed:
        raise InputError(f"cov_kwds={cov_kwds!r} is only used with cov_type='cluster'")
    problem = res.model.problem()
    if needed or solution is None:
        problem = counting_problem(res.model, cov_type, cov_kwds)
        source, params = problem.source.standard(problem.whitening), res.fitted.standard
        hard, exact = res.method == "altmin", res.fitted.exact
        last = last_pass(source, problem.mixture, params, hard, exact)
        solution = _ended(res.fitted, last) if solution is None else replace(solution, last=last)
    made = estimate(problem, res.spec.layout, solution, res.method, cov_type, Priors())
    kept = solution if cov_type != "cluster" else _without_clusters(solution)
    # Rows that are read again have their likelihood up to rounding.
    return replace(made, llf=res.llf), kept


def _ended(fitted: Fitted, last: LastPass) -> Solution:
    """Where a fit from a file ended, by what it keeps and the sums of its rows."""
    objective = np.inf if fitted.exact else float(last.soft.objective[0])
    reason: Any = fitted.reason
    return Solution(
        Run(fitted.standard, objective, fitted.history, reason, fitted.n_iter),
        fitted.exact,
        fitted.certified,
        (),
        None,
        fitted.binds,
        fitted.empty,
        fitted.revived,
        fitted.suspects,
        last,
        reasons=fitted.reasons,
        user=fitted.estimate.params,
    )


def _without_clusters(solution: Solution) -> Solution:
    """A solution whose sums may serve other kinds of errors."""
    information = solution.last.information
    assert information is not None
    last = replace(solution.last, information=replace(information, clusters=None))
    return replace(solution, last=last)
