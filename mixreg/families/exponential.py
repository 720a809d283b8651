"""Exponential families: derivatives from the variance function and the link."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.families.base import Family
from mixreg.families.links import LONGEST, Link, make_link
from mixreg.families.rows import Rows
from mixreg.families.statistics import linear_predictor
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Smallest mean of a family of positive means, and its logarithm.
LEAST = 1e-100
SHORTEST = float(np.log(LEAST))
# Links that map every linear predictor to a mean in its range.
EVERYWHERE = ("log", "logit", "probit", "cloglog")


@dataclass(frozen=True)
class ExponentialFamily(Family):
    """Mean by a link, variance by a function of the mean.

    Where a link leads out of the range of means, the density is zero and the
    derivatives are left out.

    Attributes
    ----------
    link : str, statsmodels link or None
        None is the canonical link.
    """

    link: Any = None
    _link: Link = field(init=False, repr=False, compare=False)

    canonical: ClassVar[str] = "identity"
    default: ClassVar[str | None] = None
    # Open interval of means.
    least: ClassVar[float] = -np.inf
    most: ClassVar[float] = np.inf

    def __post_init__(self) -> None:
        """Read the link."""
        link = make_link(self.link, self.default or self.canonical)
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "link", link)

    @classmethod
    def make(cls, link: Any, equal_dispersion: bool, variance_ratio: float) -> Family:
        """The family as it is asked for by name, with a link that fits it."""
        made = cls(equal_dispersion, variance_ratio, link)
        if isinstance(link, str) and made.link_name not in cls.links:
            raise InputError(
                f"link={link!r} does not fit family={cls.name!r}; use one of {', '.join(cls.links)}"
            )
        return made

    def with_link(self, link: Any) -> Self:
        """The same family with another link."""
        return replace(self, link=link)

    @property
    def link_name(self) -> str:
        """Name of the link function."""
        return self._link.name

    @property
    def everywhere(self) -> bool:
        """Whether every linear predictor has a mean in its range."""
        unbounded = self.least == -np.inf and self.most == np.inf
        mapped = self.link_name in EVERYWHERE and not (
            self.link_name == "log" and self.most < np.inf
        )
        return mapped or (unbounded and self.link_name == "identity")

    @property
    def longest_step(self) -> float:  # type: ignore[override]
        """Longest step: links on a log scale are held back, others are not."""
        return 3.0 if self.link_name in ("log", "logit", "probit", "cloglog") else np.inf

    def mean(self, eta: Array) -> Array:
        """Mean of the response at a linear predictor; out of range where there is none."""
        return self.valid(self._link.mean(eta))

    def mean_slope(self, eta: Array) -> Array:
        """First derivative of the mean."""
        return self._link.slope(eta, self.mean(eta))

    def mean_curve(self, eta: Array) -> Array:
        """Second derivative of the mean."""
        return self._link.curve(eta, self.mean(eta))

    def predictor(self, mean: Array) -> Array | None:
        """The linear predictor of a mean."""
        return self._link.link(mean)

    def response_variance(self, rows: Rows) -> Array:
        """Variance of the response of each row."""
        return np.asarray(self.variance(rows.mu, rows) / self.precision(rows))

    def evaluate(self, block: Block, params: Parameters) -> Any:
        """Rows at their linear predictors."""
        eta = linear_predictor(block, params.coef)
        rows = self.rows_at(block.y, eta, params.dispersion[..., None], block.trials)
        hidden = self.hidden(block)
        return rows if hidden is None else replace(rows, hidden=hidden)

    def rows_at(self, y: Array, eta: Array, dispersion: Array, trials: Array | None) -> Rows:
        """Rows at given linear predictors, cut off where the mean is."""
        if self.link_name == "log" and self.everywhere and self.least == 0:
            eta = np.clip(eta, SHORTEST, LONGEST)
            return Rows(y, eta, np.exp(eta), dispersion, trials)
        return Rows(y, eta, self.mean(eta), dispersion, trials)

    def valid(self, mu: Array) -> Array:
        """Keep means from the ends of their range, which rounding can reach."""
        return np.maximum(mu, LEAST) if self.everywhere and self.least == 0 else mu

    def outside(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Rows whose mean is out of range, or None if that cannot be."""
        if self.everywhere:
            return None
        out = ~self._has_mean(rows.eta, rows.mu)
        return out if out.any() else None

    def _has_mean(self, eta: Array, mu: Array) -> NDArray[np.bool_]:
        """Whether a linear predictor stands for a mean in its range."""
        good = (mu > self.least) & (mu < self.most) & np.isfinite(mu)
        return np.asarray(good & (eta > 0) if self.link_name in ("sqrt", "inverse") else good)

    def inside(self, rows: Rows) -> tuple[Rows, NDArray[np.bool_] | None]:
        """Rows with harmless means where there are none, and where that is."""
        out = self.outside(rows)
        if out is None:
            return rows, None
        mu = 0.5 if self.most == 1 else 1.0
        eta = float(self._link.link(np.array([mu]))[0])
        return rows.moved(np.where(out, eta, rows.eta), np.where(out, mu, rows.mu)), out

    def in_range(self, eta: Array) -> NDArray[np.bool_] | None:
        """Linear predictors that have a mean in its range, or None if all have."""
        if self.everywhere:
            return None
        return self._has_mean(eta, self.mean(eta))

    @property
    def predictor_range(self) -> tuple[float, float]:
        """Between which linear predictors means are in range; infinite if that is not known."""
        if self.link_name == "identity":
            return self.least, self.most
        if self.link_name == "log":
            return -np.inf, float(np.log(self.most))
        return (0.0 if self.link_name in ("sqrt", "inverse") else -np.inf), np.inf

    def density(self, rows: Rows) -> Array:
        """Log density of rows whose means are in range."""
        raise NotImplementedError

    def log_density(self, rows: Rows) -> Array:
        """Log density of each row."""
        rows, out = self.inside(rows)
        density = self.density(rows)
        return density if out is None else np.where(out, -np.inf, density)

    def inside_graph(self, pt: Any, rows: Rows) -> Any:
        """`density` as a PyTensor graph; linear predictors, means and dispersions are graphs."""
        raise InputError(
            f"family {self.name!r} has no PyMC version; give it a method `inside_graph`"
        )

    def density_graph(self, pt: Any, block: Block, eta: Any, dispersion: Any) -> Any:
        """Log density of rows as a PyTensor graph, (k, rows)."""
        good = None
        if not self.everywhere:
            good = self._has_mean_graph(pt, eta)
            # A harmless linear predictor where there is no mean, so that gradients stay finite.
            middle = self._link.link(np.array([0.5 if self.most == 1 else 1.0]))[0]
            eta = pt.switch(good, eta, middle)
        mu = self._link.mean_graph(pt, eta)
        density = self.inside_graph(pt, Rows(block.y, eta, mu, dispersion, block.trials))
        return density if good is None else pt.switch(good, density, -np.inf)

    def _has_mean_graph(self, pt: Any, eta: Any) -> Any:
        """`_has_mean` as a PyTensor graph."""
        mu = self._link.mean_graph(pt, eta)
        good = pt.gt(mu, self.least) & pt.lt(mu, self.most)
        return good & pt.gt(eta, 0) if self.link_name in ("sqrt", "inverse") else good

    def variance(self, mu: Array, rows: Rows) -> Array:
        """Variance of a response over its dispersion."""
        raise NotImplementedError

    def variance_slope(self, mu: Array, rows: Rows) -> Array | float:
        """Derivative of `variance` in the mean."""
        raise NotImplementedError

    def precision(self, rows: Rows) -> Array | float:
        """What one row counts: trials over dispersion."""
        trials = 1.0 if rows.trials is None else rows.trials
        return trials / rows.dispersion if self.dispersion_name else trials

    def score(self, rows: Rows) -> Array:
        """Derivative of the log density in the linear predictor."""
        rows, out = self.inside(rows)
        gap = (rows.y - rows.mu) * self.precision(rows)
        if self.link_name != self.canonical:
            slope = self._link.slope(rows.eta, rows.mu)
            gap = gap * (slope / self.variance(rows.mu, rows))
        return np.asarray(gap) if out is None else np.where(out, 0.0, gap)

    def weight(self, rows: Rows) -> Array:
        """Expected information about the linear predictor."""
        rows, out = self.inside(rows)
        slope = self._link.slope(rows.eta, rows.mu)
        if self.link_name == self.canonical:
            weight = self.precision(rows) * np.abs(slope)
        else:
            weight = self.precision(rows) * slope * (slope / self.variance(rows.mu, rows))
        return np.asarray(weight) if out is None else np.where(out, 0.0, weight)

    def curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the linear predictor."""
        expected = self.weight(rows)
        if self.link_name == self.canonical:
            return expected
        rows, out = self.inside(rows)
        variance = self.variance(rows.mu, rows)
        slope = self._link.slope(rows.eta, rows.mu)
        # Divided twice, because a squared variance can overflow.
        bend = self._link.curve(rows.eta, rows.mu)
        bend = (bend - slope * (slope / variance) * self.variance_slope(rows.mu, rows)) / variance
        gap = (rows.y - rows.mu) * self.precision(rows)
        found = expected - gap * bend
        return np.asarray(found) if out is None else np.where(out, 0.0, found)
