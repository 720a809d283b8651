"""Log densities of rows as PyTensor graphs, one function a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mixreg.blocks import Block
from mixreg.errors import InputError
from mixreg.families import Family

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


def row_density(pt: Any, family: Family, block: Block, eta: Graph, dispersion: Graph) -> Graph:
    """Log density of rows, (k, rows); for choices, of choice sets, (k, sets).

    `eta` is (k, rows), `dispersion` (k, 1) or None.
    """
    y, link = block.y, family.link_name
    if family.name == "choice":
        return _choice(pt, block, eta)
    mu = _mean(pt, link, eta)
    if family.name == "gaussian":
        return -0.5 * (pt.log(2 * np.pi * dispersion) + (y - mu) ** 2 / dispersion)
    if family.name == "poisson":
        logs = eta if link == "log" else pt.log(mu)
        return y * logs - mu - pt.gammaln(y + 1)
    if family.name == "binomial":
        m = np.ones_like(y) if block.trials is None else block.trials
        if link == "logit":
            each = y * eta - pt.softplus(eta)
        else:
            each = y * pt.log(mu) + (1 - y) * pt.log1p(-mu)
        choose = pt.gammaln(m + 1) - pt.gammaln(m * y + 1) - pt.gammaln(m * (1 - y) + 1)
        return m * each + choose
    if family.name == "gamma":
        shape, ratio = 1 / dispersion, y / mu
        return shape * (pt.log(shape * ratio) - ratio) - pt.gammaln(shape) - pt.log(y)
    if family.name == "negativebinomial":
        a = 1 / dispersion
        fixed = pt.gammaln(y + a) - pt.gammaln(a) - pt.gammaln(y + 1)
        return fixed - a * pt.log1p(mu / a) + y * (pt.log(mu) - pt.log(a + mu))
    raise InputError(f"family {family.name!r} has no PyMC version")


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
