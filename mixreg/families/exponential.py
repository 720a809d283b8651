"""Exponential families: derivatives from the variance function and the link."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.families.base import Family, Rows
from mixreg.families.links import Link, make_link

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ExponentialFamily(Family):
    """Mean by a link, variance by a function of the mean.

    Attributes
    ----------
    link : str, statsmodels link or None
        None is the canonical link.
    """

    link: Any = None
    _link: Link = field(init=False, repr=False, compare=False)

    canonical: ClassVar[str] = "identity"
    default: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        """Read the link."""
        link = make_link(self.link, self.default or self.canonical)
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "link", link)

    @property
    def link_name(self) -> str:
        """Name of the link function."""
        return self._link.name

    @property
    def longest_step(self) -> float:  # type: ignore[override]
        """Longest step: links on a log scale are held back, others are not."""
        return 3.0 if self.link_name in ("log", "logit", "probit", "cloglog") else np.inf

    def mean(self, eta: Array) -> Array:
        """Mean of the response at a linear predictor."""
        return self.valid(self._link.mean(eta))

    def valid(self, mu: Array) -> Array:
        """Bring means into their range."""
        return mu

    def variance(self, mu: Array, rows: Rows) -> Array:
        """Variance of a response over its dispersion."""
        raise NotImplementedError

    def variance_slope(self, mu: Array, rows: Rows) -> Array | float:
        """Derivative of `variance` in the mean."""
        raise NotImplementedError

    def _precision(self, rows: Rows) -> Array | float:
        """What one row counts: trials over dispersion."""
        trials = 1.0 if rows.trials is None else rows.trials
        return trials / rows.dispersion if self.dispersion_name else trials

    def score(self, rows: Rows) -> Array:
        """Derivative of the log density in the linear predictor."""
        gap = (rows.y - rows.mu) * self._precision(rows)
        if self.link_name == self.canonical:
            return np.asarray(gap)
        slope = self._link.slope(rows.eta, rows.mu)
        return np.asarray(gap * slope / self.variance(rows.mu, rows))

    def weight(self, rows: Rows) -> Array:
        """Expected information about the linear predictor."""
        precision = self._precision(rows)
        if self.link_name == self.canonical:
            return np.asarray(precision * np.abs(self._link.slope(rows.eta, rows.mu)))
        slope = self._link.slope(rows.eta, rows.mu)
        return np.asarray(precision * slope * slope / self.variance(rows.mu, rows))

    def curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the linear predictor."""
        expected = self.weight(rows)
        if self.link_name == self.canonical:
            return expected
        variance = self.variance(rows.mu, rows)
        slope = self._link.slope(rows.eta, rows.mu)
        bend = self._link.curve(rows.eta, rows.mu) / variance
        bend = bend - slope * slope * self.variance_slope(rows.mu, rows) / variance**2
        gap = (rows.y - rows.mu) * self._precision(rows)
        return np.asarray(expected - gap * bend)
