"""Estimates in the user's units with their covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.estimators.expectation import HardAssignment
from mixreg.families import Gaussian
from mixreg.fitting import Solution
from mixreg.inference.covariance import DESCRIPTIONS, covariance
from mixreg.inference.information import InformationSums, TakeInformation
from mixreg.params import Layout, Parameters
from mixreg.sources import MemorySource
from mixreg.whitening import Whitening

Array = NDArray[np.float64]


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
    regular : bool
        Whether the information matrix was positive definite.
    llf : float
        Log-likelihood, in the user's units.
    """

    params: Parameters
    vector: Array
    cov: Array | None
    cov_type: str
    description: str
    regular: bool
    llf: float

    @property
    def finite_cov(self) -> Array:
        """The covariance with a huge number for infinity, safe to multiply."""
        if self.cov is None:
            raise NotAvailableError(
                "standard errors were not computed; fit again with cov_type='oim'"
            )
        return np.where(np.isinf(self.cov), 1e300, self.cov)


def estimate(
    source: MemorySource,
    whitening: Whitening,
    layout: Layout,
    family: Gaussian,
    solution: Solution,
    method: str,
    cov_type: str,
    clusters: NDArray[np.intp] | None,
) -> Estimate:
    """Map a solution to the user's units and work out its covariance."""
    standard = solution.fit.params
    params = whitening.to_user(standard)
    vector = layout.pack(params)
    llf = solution.fit.objective
    llf = llf if np.isinf(llf) else whitening.log_likelihood(llf)
    description = DESCRIPTIONS[cov_type]
    if cov_type == "none":
        return Estimate(params, vector, None, cov_type, description, True, llf)
    if solution.exact:
        description = "The fit is exact: coefficients are known without error, weights are not."
        cov = _weights_only(source.total_weight, layout, params)
        return Estimate(params, vector, cov, cov_type, description, True, llf)
    if method == "altmin":
        description = "Standard errors are conditional on the labels, as if these were known."
        sums = _known_labels(source, standard, family).contract(layout)
    else:
        task = TakeInformation(family, clusters)
        sums = source.sweep(task, standard).contract(layout)
    if clusters is not None:
        description = description.format(clusters=int(clusters.max()) + 1)
    cov, lost = covariance(sums, cov_type)
    back = to_user_matrix(whitening, layout)
    cov = back @ cov @ back.T
    lost = (back[:, lost] != 0).any(axis=1)
    cov[lost, :] = cov[:, lost] = 0.0
    cov[lost, lost] = np.inf
    return Estimate(params, vector, cov, cov_type, description, not lost.any(), llf)


def _weights_only(units: float, layout: Layout, params: Parameters) -> Array:
    """Covariance of an exact fit: labels are known, so only weights are uncertain."""
    cov = np.zeros((layout.size, layout.size))
    gate, pi = layout.gating_index(), params.weights[1:]
    if pi.size and params.weights.min() > 0:
        information = units * (np.diag(pi) - np.outer(pi, pi))
        cov[np.ix_(gate, gate)] = np.linalg.pinv(information)
    return cov


def to_user_matrix(whitening: Whitening, layout: Layout) -> Array:
    """Derivative of the user's parameters in the standard ones."""
    back = np.eye(layout.size)
    for index in layout.coef_index():
        back[np.ix_(index, index)] = whitening.scale * whitening.basis
    return back


def _known_labels(source: MemorySource, params: Parameters, family: Gaussian) -> InformationSums:
    """Information of the complete data, with labels from hard assignment."""
    sums = source.sweep(HardAssignment(family), params.stacked())
    layout = Layout(params.k, ("",) * params.coef.shape[1], equal_variance=False)
    info = np.zeros((layout.size, layout.size))
    for j, index in enumerate(layout.coef_index()):
        info[np.ix_(index, index)] = sums.family.xx[j, 0] / params.dispersion[j]
    scale = layout.scale_index()
    info[scale, scale] = 2 * sums.family.size[:, 0]
    gate, pi = layout.gating_index(), params.weights[1:]
    info[np.ix_(gate, gate)] = sums.count.sum() * (np.diag(pi) - np.outer(pi, pi))
    zeros = np.zeros(layout.size)
    return InformationSums(np.zeros(1), zeros, info, np.zeros_like(info))
