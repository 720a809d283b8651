"""Estimates in the user's units with their covariance."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.estimators.priors import Priors
from mixreg.estimators.runs import standard_layout
from mixreg.inference.covariance import (
    DESCRIPTIONS,
    Covariance,
    Uncertainty,
    covariance,
    reached,
    span,
)
from mixreg.inference.determined import named, undetermined
from mixreg.inference.response import posterior_moments
from mixreg.inference.to_user import to_user_matrix
from mixreg.jobs.interrupt import cut_short
from mixreg.jobs.problem import Options, Problem, Solution
from mixreg.jobs.progress import Watch
from mixreg.jobs.solve import solve
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters, new_numbers
from mixreg.sources.threads import one_thread

Array = NDArray[np.float64]

# A part of the parameters runs off by itself if a direction is its own up to this share.
OWN, SOME = 0.99, 0.5


@dataclass(frozen=True, slots=True)
class Estimate:
    """Point estimates and their covariance.

    Attributes
    ----------
    params : Parameters
        In the user's units, ordered by weight.
    vector : (m,) array
        The same, flat.
    cov : (m, m) array or None
        None with cov_type="none". Infinite on the diagonal for parameters that
        the data do not determine.
    cov_type, description : str
        What standard errors are made of, "posterior" with variational Bayes, and in words.
    regular : bool
        Whether the information matrix was positive definite.
    llf : float
        Log-likelihood, in the user's units.
    separated : tuple of int
        Components (from 0) some of whose coefficients run off to infinity.
    gate_separated : bool
        Whether coefficients of the class probabilities do.
    undetermined : tuple of (component, term) pairs, both from 0
        Coefficients that no rows of their component determine.
    mean_field : (m, m) array or None
        Covariance of variational Bayes before labels were accounted for.
    finite, runaway : arrays or None
        See `Uncertainty`; None where `cov` tells all there is. Ask `known` instead.
    """

    params: Parameters
    vector: Array
    cov: Array | None
    cov_type: str
    description: str
    regular: bool
    llf: float
    separated: tuple[int, ...] = ()
    gate_separated: bool = False
    undetermined: tuple[tuple[int, int], ...] = ()
    mean_field: Array | None = None
    # Files of earlier versions lack these.
    finite: Array | None = field(default=None, metadata={"later": True})
    runaway: Array | None = field(default=None, metadata={"later": True})

    @property
    def known(self) -> Uncertainty:
        """Variances of functions of the parameters: which are infinite, and what the others are."""
        if self.cov is None:
            raise NotAvailableError(
                "standard errors were not computed; fit again with cov_type='oim'"
            )
        if self.finite is None or self.runaway is None:
            return Uncertainty.of(self.cov)
        return Uncertainty(self.finite, self.runaway)

    def permute(self, layout: Layout, order: NDArray[np.intp]) -> Estimate:
        """Reorder the components."""
        places, turn = np.argsort(order), layout.turning(order)
        known = None if self.cov is None else self.known.turned(turn)
        before = None if self.mean_field is None else Uncertainty.of(self.mean_field).turned(turn)
        return replace(
            self,
            params=self.params.permute(order),
            vector=turn @ self.vector,
            cov=None if known is None else known.matrix,
            finite=None if known is None else known.finite,
            runaway=None if known is None else known.runaway,
            mean_field=None if before is None else before.matrix,
            separated=new_numbers(self.separated, order),
            undetermined=tuple(sorted((int(places[j]), i) for j, i in self.undetermined)),
        )


EXACT = "The fit is exact: coefficients are known without error, weights are not."
EXACT_BY_CHANCE = (
    "The fit is exact, but some components have no more rows than coefficients and would fit any "
    "responses: errors of their coefficients are not known."
)


@one_thread()
def fit_problem(
    problem: Problem,
    layout: Layout,
    options: Options,
    cov_type: str,
    watch: Watch | None = None,
) -> tuple[Solution, Estimate]:
    """Solve a problem and estimate its uncertainty; all of it can cross processes."""
    errors = cov_type != "none"
    try:
        solution = solve(problem, options, watch, errors)
        return solution, estimate(
            problem, layout, solution, options.method, cov_type, options.priors
        )
    except KeyboardInterrupt:
        if watch is None or not watch.returns or watch.best is None:
            raise
    # Here, and not above, what the search held is gone.
    watch.stage("interrupted, last pass")
    solution = cut_short(problem, options, watch, errors)
    return solution, estimate(problem, layout, solution, options.method, cov_type, options.priors)


def estimate(
    problem: Problem,
    layout: Layout,
    solution: Solution,
    method: str,
    cov_type: str,
    priors: Priors,
) -> Estimate:
    """Map a solution to the user's units and work out its covariance, from its sums."""
    whitening, mixture, standard = problem.whitening, problem.mixture, solution.run.params
    params = whitening.to_user(standard) if solution.user is None else solution.user
    vector = layout.pack(params)
    llf = solution.run.objective
    llf = llf if np.isinf(llf) else whitening.log_likelihood(llf)
    description = DESCRIPTIONS[cov_type]
    if solution.beliefs is not None:
        inner = standard_layout(mixture, standard)
        return _posterior(problem, (layout, inner), solution, params, priors, llf)
    if cov_type == "none":
        return Estimate(params, vector, None, cov_type, description, True, llf)
    hard = method == "altmin"
    inner = standard_layout(mixture, standard)
    assert solution.last.information is not None
    assert solution.last.xx is not None
    sums = solution.last.information.contract(inner)
    back = to_user_matrix(whitening, layout, inner)
    unknown = undetermined(solution.last.xx, inner)
    on_logs = _on_logs(inner, mixture)
    if solution.exact:
        chance = np.zeros(inner.size, dtype=bool)
        if not solution.certified:
            chance = fitted_anyway(inner, solution.last.labels.rows)
        description = EXACT_BY_CHANCE if chance.any() else EXACT
        gate = inner.gating_index()
        cov = np.zeros((inner.size, inner.size))
        with np.errstate(over="ignore"):
            # An empty component has next to no information about its weight.
            weights = np.linalg.pinv(sums.information[np.ix_(gate, gate)])
        cov[np.ix_(gate, gate)] = np.nan_to_num(weights, posinf=1e300)
        none = np.zeros((inner.size, 0))
        found = Covariance(cov, none, none)
    else:
        if hard:
            description = "Standard errors are conditional on the labels, as if these were known."
        if sums.clusters is not None:
            description = description.format(clusters=len(sums.clusters.each()))
        found = covariance(sums, cov_type, on_logs, unknown)
        chance = np.zeros(inner.size, dtype=bool)
    separated, gate_separated = _runaway(found, on_logs, inner)
    known = found.seen_by(back, np.hstack([unknown, np.eye(inner.size)[:, chance]]))
    cov = known.matrix
    return Estimate(
        params,
        vector,
        cov,
        cov_type,
        description,
        not np.isinf(np.diag(cov)).any(),
        llf,
        separated,
        gate_separated,
        named(reached(back, unknown), layout),
        finite=known.finite,
        runaway=known.runaway,
    )


def fitted_anyway(layout: Layout, rows: Array) -> NDArray[np.bool_]:
    """Parameters of exact components whose rows some coefficients would fit in any case.

    A component with no more rows than coefficients is exact whatever its responses are; and so
    are all of them, if together they have no more.

    Parameters
    ----------
    layout : Layout
    rows : (K,) array
        Rows with each label.
    """
    index, scales = layout.coef_index(), layout.scale_index()
    own, found = (index >= 0).sum(axis=1), np.zeros(layout.size, dtype=bool)
    everything = rows.sum() <= np.unique(index[index >= 0]).size
    for j in range(layout.k):
        if everything or rows[j] <= own[j]:
            mine = index[j][[i for i in range(layout.p) if everything or i not in layout.shared]]
            found[mine[mine >= 0]] = True
    if everything:
        found[scales] = True
    return found


def _posterior(
    problem: Problem,
    layouts: tuple[Layout, Layout],
    solution: Solution,
    params: Parameters,
    priors: Priors,
    llf: float,
) -> Estimate:
    """Posterior means and standard deviations, which allow for uncertain labels."""
    last = solution.last
    assert solution.beliefs is not None
    assert last.information is not None
    assert last.complete is not None
    found = posterior_moments(
        solution.beliefs,
        problem.mixture,
        priors,
        problem.whitening,
        layouts,
        last.information.information,
        last.complete,
    )
    text = (
        "Posterior means by variational Bayes. Standard deviations allow for uncertain labels "
        "(linear response); those of mean field are res.bse_mean_field."
    )
    if not found.regular:
        text += (
            " Components overlap so much that some deviations are not known: sample with "
            "model.to_pymc(), or try a smaller k."
        )
    made = Estimate(params, found.vector, found.cov, "posterior", text, True, llf)
    known = made.known
    return replace(made, mean_field=found.mean_field, finite=known.finite, runaway=known.runaway)


def _on_logs(inner: Layout, mixture: Mixture) -> NDArray[np.bool_]:
    """Standard parameters that may run off to infinity."""
    index = inner.coef_index()
    found = np.zeros(inner.size, dtype=bool)
    found[index[index >= 0]] = not mixture.family.linear
    found[inner.gating_index()] = not mixture.gate.closed_form
    return found


def _runaway(
    found: Covariance, on_logs: NDArray[np.bool_], inner: Layout
) -> tuple[tuple[int, ...], bool]:
    """Components, and whether the gate, run off to infinity."""
    basis = span(np.hstack([found.flat, found.far])[on_logs])
    full = np.zeros((inner.size, basis.shape[1]))
    full[on_logs] = basis
    index = [own[own >= 0] for own in inner.coef_index()]
    parts = [*index, inner.gating_index()]
    share = [float(np.linalg.norm(full[part], 2)) if full[part].size else 0.0 for part in parts]
    # Directions that no part has for itself are those of all that take part in them.
    least = SOME if found.far.size and max(share) < OWN else OWN
    far = [each > least for each in share]
    return tuple(np.flatnonzero(far[:-1]).tolist()), far[-1]
