"""Log densities of rows as PyTensor graphs, one function a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mixreg.errors import InputError
from mixreg.families import (
    Binomial,
    Choice,
    Family,
    Gamma,
    Gaussian,
    GaussianLink,
    NegativeBinomial,
    Poisson,
)
from mixreg.families.exponential import ExponentialFamily
from mixreg.sources.block import Block

Graph = Any


def _mean(pt: Any, link: str, eta: Graph) -> Graph:
    """Inverse link."""
    means: dict[str, Callable[[Graph], Graph]] = {
        "identity": lambda e: e,
        "log": pt.exp,
        "logit": pt.sigmoid,
        "probit": lambda e: 0.5 * pt.erfc(-e / np.sqrt(2.0)),
        "cloglog": lambda e: -pt.expm1(-pt.exp(e)),
        "inverse": lambda e: 1 / e,
        "sqrt": lambda e: e * e,
    }
    if link not in means:
        raise InputError(f"the {link} link has no PyMC version; use one of {', '.join(means)}")
    return means[link](eta)


KNOWN = (Binomial, Choice, Gamma, Gaussian, GaussianLink, NegativeBinomial, Poisson)


def row_density(pt: Any, family: Family, block: Block, eta: Graph, dispersion: Graph) -> Graph:
    """Log density of rows, (k, rows); for choices, of choice sets, (k, sets).

    `eta` is (k, rows), `dispersion` (k, 1) or None.
    """
    if type(family) not in KNOWN:
        raise InputError(f"family {family.name!r} has no PyMC version; use one of mixreg's own")
    if isinstance(family, Choice):
        return _choice(pt, block, eta)
    if not isinstance(family, ExponentialFamily) or family.everywhere:
        return _density(pt, family, block, eta, dispersion)
    mu = _mean(pt, family.link_name, eta)
    good = pt.gt(mu, family.least) & pt.lt(mu, family.most)
    if family.link_name in ("sqrt", "inverse"):
        good = good & pt.gt(eta, 0)
    # A harmless linear predictor where there is no mean, so that gradients stay finite.
    middle = family.link.link(np.array([0.5 if family.most == 1 else 1.0]))[0]
    density = _density(pt, family, block, pt.switch(good, eta, middle), dispersion)
    return pt.switch(good, density, -np.inf)


def _density(pt: Any, family: Family, block: Block, eta: Graph, dispersion: Graph) -> Graph:
    """Log density of rows whose means are in their range."""
    y, link = block.y, family.link_name
    mu = _mean(pt, link, eta)
    if isinstance(family, (Gaussian, GaussianLink)):
        return -0.5 * (pt.log(2 * np.pi * dispersion) + (y - mu) ** 2 / dispersion)
    if isinstance(family, Poisson):
        logs = eta if link == "log" else pt.log(mu)
        return y * logs - mu - pt.gammaln(y + 1)
    if isinstance(family, Binomial):
        m = np.ones_like(y) if block.trials is None else block.trials
        choose = pt.gammaln(m + 1) - pt.gammaln(m * y + 1) - pt.gammaln(m * (1 - y) + 1)
        yes, no = _answers(pt, link, eta, mu)
        return m * (y * yes + (1 - y) * no) + choose
    if isinstance(family, Gamma):
        shape, ratio = 1 / dispersion, y / mu
        return shape * (pt.log(shape * ratio) - ratio) - pt.gammaln(shape) - pt.log(y)
    a = 1 / dispersion
    fixed = pt.gammaln(y + a) - pt.gammaln(a) - pt.gammaln(y + 1)
    return fixed - a * pt.log1p(mu / a) + y * (pt.log(mu) - pt.log(a + mu))


def _answers(pt: Any, link: str, eta: Graph, mu: Graph) -> tuple[Graph, Graph]:
    """Log chances of yes and no, exact far out."""
    if link == "logit":
        return -pt.softplus(-eta), -pt.softplus(eta)
    if link == "probit":
        return _log_normal(pt, eta), _log_normal(pt, -eta)
    if link == "cloglog":
        return pt.log(-pt.expm1(-pt.exp(eta))), -pt.exp(eta)
    return pt.log(mu), pt.log1p(-mu)


def _log_normal(pt: Any, x: Graph) -> Graph:
    """Logarithm of the normal distribution function."""
    tail = -x / np.sqrt(2.0)
    far = pt.log(pt.erfcx(pt.maximum(tail, 0.0)) / 2) - tail**2
    near = pt.log1p(-pt.erfc(pt.maximum(-tail, 0.0)) / 2)
    return pt.switch(pt.lt(x, 0), far, near)


def _choice(pt: Any, block: Block, eta: Graph) -> Graph:
    """Log chance of the chosen alternative of each set."""
    sets = block.sets
    sizes = np.diff(sets, append=block.rows)
    width = int(sizes.max())
    # Sets as rows of a table; shorter ones are filled up with what never is chosen.
    position = sets[:, None] + np.minimum(np.arange(width), sizes[:, None] - 1)
    fill = np.where(np.arange(width) < sizes[:, None], 0.0, -np.inf)
    table = eta[:, position] + fill
    top = pt.max(table, axis=-1, keepdims=True)
    total = pt.log(pt.sum(pt.exp(table - top), axis=-1)) + top[..., 0]
    return eta[:, np.flatnonzero(block.y)] - total


def per_unit(pt: Any, family: Family, block: Block, density: Graph, k: int) -> Graph:
    """Add up log densities of rows (or of choice sets) within units, (k, units)."""
    if block.starts is None:
        return density
    first = block.starts
    n = block.rows
    if family.name == "choice":
        first, n = np.searchsorted(block.sets, block.starts), len(block.sets)
    sizes = np.diff(first, append=n)
    if (sizes == sizes[0]).all():
        return density.reshape((k, len(first), int(sizes[0]))).sum(axis=-1)
    codes = np.repeat(np.arange(len(first)), sizes)
    return pt.inc_subtensor(pt.zeros((k, len(first)))[:, codes], density)
