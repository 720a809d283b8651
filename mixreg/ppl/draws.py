"""Draws from the distribution of the estimates, and what follows from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.components import components_of
from mixreg.estimators.expectation import Marginal
from mixreg.estimators.priors import Priors
from mixreg.inference.response import stretch
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.report.base_results import BaseResults
from mixreg.report.drawing import draw_own

Array = NDArray[np.float64]

# A logarithm with a larger standard error is not determined by the data.
VAGUE = 50.0
# Log densities kept at once, of all draws and units.
CHUNK = 4_000_000


def draw_vectors(res: BaseResults, n: int, seed: int) -> Array:
    """Draws of the flat parameter vector in the user's units, (n, m).

    From the posterior of variational Bayes, which allows for uncertain labels, or from the
    asymptotic normal distribution of the estimates.
    """
    rng = np.random.default_rng(seed)
    beliefs, priors, estimate = res.fitted.beliefs, res.fitted.priors, res.fitted.estimate
    if beliefs is not None and priors is not None:
        stack = draw_beliefs(res.spec.mixture, priors, beliefs, n, rng)
        user = res.fitted.whitening.to_user(stack)
        drawn = np.array([res.spec.layout.pack(user.run(i)) for i in range(n)])
        assert estimate.cov is not None
        assert estimate.mean_field is not None
        return stretch(drawn, estimate.vector, estimate.mean_field, estimate.cov)
    cov = estimate.cov
    if cov is None or not np.isfinite(cov).all():
        raise NotAvailableError(
            "the estimates have no finite covariance to draw from; fit with cov_type='oim', or "
            "use res.bootstrap()"
        )
    layout = res.spec.layout
    on_logs = np.concatenate([layout.scale_index().ravel(), layout.gating_index()])
    vague = [on for on in on_logs.tolist() if on >= 0 and cov[on, on] > VAGUE**2]
    if vague:
        names = ", ".join(layout.names[on] for on in sorted(set(vague)))
        raise NotAvailableError(
            f"the data say next to nothing about {names}; there is no normal distribution to "
            "draw from. Use res.bootstrap(), or a simpler model"
        )
    return rng.multivariate_normal(res.fitted.estimate.vector, cov, size=n, method="eigh")


def draw_beliefs(
    mixture: Mixture, priors: Priors, beliefs: Beliefs, n: int, rng: np.random.Generator
) -> Parameters:
    """A stack of n mixtures from a mean-field posterior, in standard coordinates."""
    coef, dispersion = components_of(mixture, priors).draw(beliefs, n, rng)
    return Parameters(coef, dispersion, mixture.gate.posterior.draw(beliefs.chances, n, rng))


def mixtures_of(layout: Layout, vectors: Array) -> Parameters:
    """Flat vectors (n, m) as a stack of n mixtures."""
    return Parameters.concatenate([layout.unpack(v).stacked() for v in vectors])


def log_likelihoods(res: BaseResults, stack: Parameters) -> Array:
    """Log density of each row or group under each draw, (draws, units)."""
    model = res.model
    n = stack.coef.shape[1]
    per = max(1, CHUNK // (model.source.rows * len(res.classes)))
    parts = []
    for first in range(0, n, per):
        some = stack.take(np.arange(first, min(n, first + per)))
        parts.append(model.source.sweep(Marginal(model.mixture, once=True), some).join())
    return np.concatenate(parts)


def predictive(res: BaseResults, stack: Parameters, seed: int) -> Array:
    """Responses drawn under each draw, in the user's order of rows, (draws, rows)."""
    rng = np.random.default_rng([seed, 1])
    n, names = stack.coef.shape[1], res.model.rows.names
    out = np.empty((n, res.nobs))
    for i in range(n):
        out[i] = names.unsort(draw_own(res.model, stack.run(i), rng)[0])
    return out
