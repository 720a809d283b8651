"""Standard deviations of variational Bayes, corrected by linear response.

Mean field takes labels and parameters for independent, and its posterior is too narrow where
components overlap. How its means answer to a small push is known from the curvature of the
whole bound, labels included (Giordano, Broderick and Jordan 2018). In a mixture that is the
precision of mean field, less the information that is missing because labels are (Louis 1982),
and with what blocks of parameters that mean field holds apart say of each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.components import components_of
from mixreg.estimators.expectation import Seen
from mixreg.estimators.priors import Priors
from mixreg.estimators.pruning import alive
from mixreg.inference.to_user import to_user_matrix
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block
from mixreg.sources.standard import Whitening

Array = NDArray[np.float64]

# Least share of a precision that is left when missing information is taken off: deviations
# grow thirtyfold at most.
LEAST = 1e-3
# Variances beyond this stand for infinity.
INFINITE = 1e200


@dataclass(frozen=True, slots=True)
class TakeComplete:
    """Task: information of one mixture if its labels were known, (m, m).

    In the layout with nothing in common, as `TakeInformation`.
    """

    mixture: Mixture

    def of(self, seen: Seen) -> Array:
        """The sums of a block that was looked at."""
        block: Block = seen.block
        params, gate = seen.params, self.mixture.gate
        weight = np.ones(block.units) if block.weight is None else block.weight
        width = params.coef.shape[1] + self.mixture.scales
        first, m = params.k * width, (params.gating.shape[0] - 1) * gate.width
        info = np.zeros((first + m, first + m))
        for j in range(params.k):
            own, wr = slice(j * width, (j + 1) * width), weight * seen.posterior[j]
            info[own, own] = self.mixture.family.component_information(
                block, params, seen.state, wr, j
            )
        info[first:, first:] = gate.information(block, params, seen.posterior * weight)
        return info


@dataclass(frozen=True, slots=True)
class Moments:
    """Posterior of the flat vector, in the user's units.

    Attributes
    ----------
    vector : (m,) array
        Means.
    cov : (m, m) array
        Covariance, corrected; infinite on the diagonal where there is none.
    mean_field : (m, m) array
        The same as mean field has it.
    regular : bool
        Whether missing information left a precision in every direction.
    """

    vector: Array
    cov: Array
    mean_field: Array
    regular: bool


def posterior_moments(
    beliefs: Beliefs,
    mixture: Mixture,
    priors: Priors,
    whitening: Whitening,
    layouts: tuple[Layout, Layout],
    observed: Array,
    complete: Array,
) -> Moments:
    """Means and covariances of a variational posterior.

    Parameters
    ----------
    beliefs : Beliefs
        Of one mixture.
    layouts : pair of Layout
        In the user's units, and in standard coordinates.
    observed, complete : (m, m) arrays
        Information with labels unknown, and known, at the posterior means; with
        nothing in common.
    """
    layout, inner = layouts
    mean, cov = mean_field_moments(beliefs, mixture, priors, inner)
    J = inner.contraction()
    held = held_together(inner, mixture.family.linear)
    change = J.T @ observed @ J - np.where(held, J.T @ complete @ J, 0.0)
    fixed, regular = answered(cov, change, _living(beliefs, priors, inner))
    back = to_user_matrix(whitening, layout, inner)
    vector = layout.pack(whitening.to_user(mean))
    return Moments(vector, _user(back, fixed), _user(back, cov), regular)


def mean_field_moments(
    beliefs: Beliefs, mixture: Mixture, priors: Priors, inner: Layout
) -> tuple[Parameters, Array]:
    """Means, and the covariance of the flat vector, in standard coordinates.

    A component that no rows are left in has the moments of its prior, which may be infinite.
    """
    components = components_of(mixture, priors)
    cov = np.zeros((inner.size, inner.size))
    for index, block in zip(inner.coef_index(), components.covariances(beliefs), strict=True):
        there = index >= 0
        cov[np.ix_(index[there], index[there])] = block[np.ix_(there, there)]
    logs, variance = components.log_dispersion(beliefs)
    scale = inner.scale_index()
    if scale.size:
        cov[scale, scale] = variance * np.square(inner.scale_power)
    gating, spread = mixture.gate.posterior.moments(beliefs.chances)
    gate = inner.gating_index()
    cov[np.ix_(gate, gate)] = spread
    return Parameters(beliefs.coef, np.exp(logs), gating), cov


def held_together(inner: Layout, linear: bool) -> NDArray[np.bool_]:
    """Pairs of parameters that mean field does not hold apart, (m, m).

    Linear regressions know how a component's own coefficients and variance go together.
    """
    group = np.empty(inner.size, dtype=np.intp)
    index, scale = inner.coef_index(), inner.scale_index()
    for j in range(inner.k):
        group[index[j][index[j] >= 0]] = j
    group[index[0, list(inner.shared)]] = inner.k
    group[scale] = inner.k + 1 + np.arange(len(scale))
    group[inner.gating_index()] = -1
    held = group[:, None] == group
    if linear:
        own, scales = (group >= 0) & (group < inner.k), group > inner.k
        held |= np.outer(own, scales) | np.outer(scales, own)
    return np.asarray(held)


def _living(beliefs: Beliefs, priors: Priors, inner: Layout) -> NDArray[np.bool_]:
    """Parameters of components that hold units, and all that are common."""
    found = np.ones(inner.size, dtype=bool)
    index, scale = inner.coef_index(), inner.scale_index()
    for j in np.flatnonzero(~alive(beliefs, priors)).tolist():
        own = [i for i in range(inner.p) if i not in inner.shared]
        found[index[j, own][index[j, own] >= 0]] = False
        if scale.size and not inner.equal_dispersion:
            found[scale[j]] = False
        if j:
            gate = inner.gating_index().reshape(inner.classes - 1, -1)
            found[gate[j - 1]] = False
    return found


def answered(cov: Array, change: Array, living: NDArray[np.bool_]) -> tuple[Array, bool]:
    """The inverse of a precision that is changed, and whether the change left one.

    Parameters
    ----------
    cov : (m, m) array
        Inverse of the precision as it was.
    change : (m, m) array
    living : (m,) array
        Parameters that the change is about.
    """
    at = np.flatnonzero(np.diag(cov) < INFINITE)
    part, change = cov[np.ix_(at, at)], np.where(np.outer(living, living), change, 0.0)
    if not np.isfinite(change).all():
        return cov, False
    scale = np.sqrt(np.diag(part))
    try:
        root = scale[:, None] * np.linalg.cholesky(part / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return cov, False
    inner = np.eye(len(at)) + root.T @ change[np.ix_(at, at)] @ root
    if not np.isfinite(inner).all():
        return cov, False
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    wide = root @ (vectors / np.sqrt(np.maximum(values, LEAST)))
    fixed = cov.copy()
    fixed[np.ix_(at, at)] = wide @ wide.T
    return fixed, bool((values > LEAST).all())


def _user(back: Array, cov: Array) -> Array:
    """A covariance in the user's units, with infinities."""
    cov = back @ cov @ back.T
    lost = np.diag(cov) > INFINITE
    cov[lost, :] = cov[:, lost] = 0.0
    cov[lost, lost] = np.inf
    return np.asarray(cov)


def stretch(draws: Array, mean: Array, before: Array, after: Array) -> Array:
    """Draws (n, m) of one covariance as draws of another; infinite variances stay.

    What both covariances agree on is left as it was drawn.
    """
    at = np.flatnonzero(np.isfinite(np.diag(before)) & (np.diag(before) > 0))
    scale = np.sqrt(np.diag(before)[at])
    each = np.outer(scale, scale)
    first, second = (np.linalg.cholesky(cov[np.ix_(at, at)] / each) for cov in (before, after))
    steps = (draws[:, at] - mean[at]) / scale
    moved = np.linalg.solve(first, steps.T)
    out = draws.copy()
    out[:, at] = mean[at] + (second @ moved).T * scale
    return out
