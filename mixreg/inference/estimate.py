"""Estimates in the user's units with their covariance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.estimators.priors import Priors
from mixreg.estimators.runs import standard_layout
from mixreg.inference.covariance import DESCRIPTIONS, covariance
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

# On a scale of logarithms or log odds, a standard error of a standard
# coefficient beyond this means that the maximum lies at infinity.
SEPARATED = 30.0


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
        Components (from 0) whose coefficients run off to infinity.
    gate_separated : bool
        Whether coefficients of the class probabilities do.
    undetermined : tuple of (component, term) pairs, both from 0
        Coefficients that no rows of their component determine.
    mean_field : (m, m) array or None
        Covariance of variational Bayes before labels were accounted for.
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

    @property
    def finite_cov(self) -> Array:
        """The covariance with a huge number for infinity, safe to multiply."""
        if self.cov is None:
            raise NotAvailableError(
                "standard errors were not computed; fit again with cov_type='oim'"
            )
        return np.where(np.isinf(self.cov), 1e300, self.cov)

    def permute(self, layout: Layout, order: NDArray[np.intp]) -> Estimate:
        """Reorder the components."""

        def turned(cov: Array | None) -> Array | None:
            return None if cov is None else layout.turned_cov(cov, order)

        places = np.argsort(order)
        return replace(
            self,
            params=self.params.permute(order),
            vector=layout.turning(order) @ self.vector,
            cov=turned(self.cov),
            mean_field=turned(self.mean_field),
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
    unknown = undetermined(solution.last.xx, inner, back)
    separated: tuple[int, ...] = ()
    gate_separated = False
    if solution.exact:
        chance = np.zeros(layout.size, dtype=bool)
        if not solution.certified:
            chance = fitted_anyway(layout, solution.last.labels.rows)
        description = EXACT_BY_CHANCE if chance.any() else EXACT
        gate = inner.gating_index()
        cov = np.zeros((inner.size, inner.size))
        with np.errstate(over="ignore"):
            # An empty component has next to no information about its weight.
            known = np.linalg.pinv(sums.information[np.ix_(gate, gate)])
        cov[np.ix_(gate, gate)] = np.nan_to_num(known, posinf=1e300)
        lost = unknown | chance
    else:
        if hard:
            description = "Standard errors are conditional on the labels, as if these were known."
        if sums.clusters is not None:
            description = description.format(clusters=len(sums.clusters.each()))
        cov, null = covariance(sums, cov_type)
        given = null.reach(np.eye(inner.size))
        far, separated, gate_separated = _runaway(cov, given, inner, mixture)
        lost = unknown | null.reach(back) | (back[:, far] != 0).any(axis=1)
    return Estimate(
        params,
        vector,
        _with_infinities(back @ cov @ back.T, lost),
        cov_type,
        description,
        not lost.any(),
        llf,
        separated,
        gate_separated,
        named(unknown, layout),
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
    return replace(made, mean_field=found.mean_field)


def _with_infinities(cov: Array, lost: NDArray[np.bool_]) -> Array:
    """A covariance with infinite variances of some parameters."""
    cov[lost, :] = cov[:, lost] = 0.0
    cov[lost, lost] = np.inf
    return cov


def _runaway(
    cov: Array, lost: NDArray[np.bool_], inner: Layout, mixture: Mixture
) -> tuple[NDArray[np.bool_], tuple[int, ...], bool]:
    """Parameters on a log scale that run off to infinity; components, and whether the gate, do."""
    index, gate = inner.coef_index(), inner.gating_index()
    on_logs = np.zeros(inner.size, dtype=bool)
    on_logs[index[index >= 0]] = not mixture.family.linear
    on_logs[gate] = not mixture.gate.closed_form
    far = on_logs & (np.diag(cov) > SEPARATED**2)
    runaway = ((far | lost)[index] & (index >= 0)).any(axis=1)
    some = (far[index] & (index >= 0)).any()
    separated = tuple(np.flatnonzero(runaway).tolist()) if some else ()
    return far, separated, bool(far[gate].any())
