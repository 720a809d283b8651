"""Binomial regressions, for successes out of trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, gammaln, log_ndtr, xlog1py, xlogy

from mixreg.families.distribution import Tails
from mixreg.families.exponential import ExponentialFamily
from mixreg.families.registry import register
from mixreg.families.rows import Rows
from mixreg.sources.block import Block

Array = NDArray[np.float64]


@register
@dataclass(frozen=True)
class Binomial(ExponentialFamily):
    """Proportions of successes; the link is logit, probit, cloglog, log or identity.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> npreg = datasets.npreg()
    >>> model = MixReg.from_formula("yb ~ x", npreg, k=1, family="binomial", link="probit")
    >>> model.fit().coefficients[1].round(2).to_dict()
    {'Intercept': -0.14, 'x': 0.02}
    """

    name: ClassVar[str] = "binomial"
    title: ClassVar[str] = "Binomial Regressions"
    canonical: ClassVar[str] = "logit"
    links: ClassVar[tuple[str, ...]] = ("logit", "probit", "cloglog", "log", "identity")
    takes_trials: ClassVar[bool] = True
    least: ClassVar[float] = 0.0
    most: ClassVar[float] = 1.0

    def variance(self, mu: Array, rows: Rows) -> Array:
        """Of one trial."""
        return mu * (1 - mu)

    def variance_slope(self, mu: Array, rows: Rows) -> Array | float:
        """Derivative of mu (1 - mu)."""
        return 1 - 2 * mu

    def density(self, rows: Rows) -> Array:
        """Log density of each row."""
        if self.link_name == "logit":
            # log(1 + exp(eta)), by the mean that is there already.
            larger = np.maximum(rows.mu, 1 - rows.mu)
            density = rows.y * rows.eta - np.maximum(rows.eta, 0.0)
            density += np.log(larger, out=larger)
        elif self.link_name in TAILS:
            yes, no = TAILS[self.link_name](rows.eta)
            density = rows.y * yes.log + (1 - rows.y) * no.log
        else:
            density = rows.y * np.log(rows.mu) + (1 - rows.y) * np.log1p(-rows.mu)
        return np.asarray(density if rows.trials is None else _scaled(density, rows))

    def inside_graph(self, pt: Any, rows: Rows) -> Any:
        """`density` as a PyTensor graph."""
        y, m = rows.y, np.ones_like(rows.y) if rows.trials is None else rows.trials
        choose = pt.gammaln(m + 1) - pt.gammaln(m * y + 1) - pt.gammaln(m * (1 - y) + 1)
        yes, no = _answer_graphs(pt, self.link_name, rows)
        return m * (y * yes + (1 - y) * no) + choose

    def valid(self, mu: Array) -> Array:
        """Means of 0 and 1 are left to the tails of the link."""
        return mu

    def score(self, rows: Rows) -> Array:
        """Derivative of the log density in the linear predictor."""
        if self.link_name not in TAILS:
            return super().score(rows)
        yes, no = TAILS[self.link_name](rows.eta)
        found = rows.y * yes.slope + (1 - rows.y) * no.slope
        return np.asarray(found * self.precision(rows))

    def weight(self, rows: Rows) -> Array:
        """Expected information about the linear predictor."""
        if self.link_name not in TAILS:
            return super().weight(rows)
        yes, no = TAILS[self.link_name](rows.eta)
        return np.asarray(-yes.slope * no.slope * self.precision(rows))

    def curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the linear predictor."""
        if self.link_name not in TAILS:
            return super().curvature(rows)
        yes, no = TAILS[self.link_name](rows.eta)
        found = rows.y * yes.bend + (1 - rows.y) * no.bend
        return np.asarray(-found * self.precision(rows))

    def saturated(self, y: Array, trials: Array | None) -> Array | float:
        """Log density at the observed proportion."""
        if trials is None:
            return 0.0
        best = xlogy(y, y) + xlog1py(1 - y, -y)
        return np.asarray(trials * best + _log_choose(y, trials))

    def surrogate(self, y: Array, trials: Array | None) -> Array:
        """The link of the proportions, with 0 and 1 pulled in."""
        m = 1.0 if trials is None else trials
        return self._link.link((m * y + 0.5) / (m + 1))

    def check(self, y: Array, trials: Array | None) -> tuple[NDArray[np.bool_], str]:
        """Proportions of whole numbers of trials."""
        bad = (y < 0) | (y > 1)
        if trials is None:
            return bad | ((y != 0) & (y != 1)), (
                "0 or 1; for proportions give trials=, or a response 'successes + failures'"
            )
        successes = y * trials
        whole = np.abs(successes - np.round(successes)) < 1e-6 * np.maximum(trials, 1)
        whole &= (trials > 0) & (np.abs(trials - np.round(trials)) < 1e-6)
        return bad | ~whole, (
            "proportions of a whole number of trials, at least 1; for counts of successes write "
            "'successes + failures'"
        )

    def tails(self, rows: Rows) -> Tails:
        """Of a binomial distribution, by that of a beta variable."""
        m = np.ones(len(rows.y)) if rows.trials is None else np.round(rows.trials)
        return binomial_tails(np.round(m * rows.y), m, rows.mu, np.exp(self.log_density(rows)))

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw proportions."""
        m = np.ones(len(rows.y)) if rows.trials is None else np.round(rows.trials)
        return rng.binomial(m.astype(np.int64), rows.mu) / m

    def unit_background(self, block: Block, length: float) -> Array:
        """Every number of successes is as likely."""
        m = np.ones(block.rows) if block.trials is None else block.trials
        return block.per_unit(-np.log(m + 1))

    def background(self, y: Array) -> float:
        """Not used: see `unit_background`."""
        return 1.0

    def draw_background(
        self, rows: Rows, low: float, length: float, rng: np.random.Generator
    ) -> Array:
        """Any number of successes, all as likely."""
        n = len(rows.y)
        m = np.ones(n) if rows.trials is None else rows.trials
        return np.asarray(np.floor(rng.random(n) * (m + 1)) / m)


def binomial_tails(successes: Array, trials: Array, chance: Array, at: Array) -> Tails:
    """Chances of fewer successes, of as many (`at`), and of more."""
    some, none_left = np.maximum(successes, 1.0), successes >= trials
    below = np.where(successes > 0, betaincc(some, trials - some + 1, chance), 0.0)
    rest = np.where(none_left, 1.0, trials - successes)
    above = np.where(none_left, 0.0, betainc(successes + 1, rest, chance))
    return Tails(below, at, above)


@dataclass(frozen=True, slots=True)
class Tail:
    """Log chance of an answer at linear predictors, and its two derivatives."""

    log: Array
    slope: Array
    bend: Array


def probit_tails(eta: Array) -> tuple[Tail, Tail]:
    """Chances of yes and no under a probit link, exact far out."""
    yes, no = log_ndtr(eta), log_ndtr(-eta)
    normal = -0.5 * (eta * eta + np.log(2 * np.pi))
    up, down = np.exp(normal - yes), np.exp(normal - no)
    return Tail(yes, up, -up * (eta + up)), Tail(no, -down, down * (eta - down))


def cloglog_tails(eta: Array) -> tuple[Tail, Tail]:
    """Chances of yes and no under a complementary log-log link, exact far out."""
    rate = np.exp(np.clip(eta, -700.0, 700.0))
    with np.errstate(over="ignore"):
        up = rate / np.expm1(rate)
    yes = np.log(-np.expm1(-rate))
    return Tail(yes, up, up * (1 - rate - up)), Tail(-rate, -rate, -rate)


TAILS = {"probit": probit_tails, "cloglog": cloglog_tails}


def _answer_graphs(pt: Any, link: str, rows: Rows) -> tuple[Any, Any]:
    """Log chances of yes and no as PyTensor graphs, exact far out."""
    eta: Any = rows.eta
    if link == "logit":
        return -pt.softplus(-eta), -pt.softplus(eta)
    if link == "probit":
        return _log_normal_graph(pt, eta), _log_normal_graph(pt, -eta)
    if link == "cloglog":
        return pt.log(-pt.expm1(-pt.exp(eta))), -pt.exp(eta)
    return pt.log(rows.mu), pt.log1p(-rows.mu)


def _log_normal_graph(pt: Any, x: Any) -> Any:
    """Logarithm of the normal distribution function as a PyTensor graph."""
    tail = -x / np.sqrt(2.0)
    far = pt.log(pt.erfcx(pt.maximum(tail, 0.0)) / 2) - tail**2
    near = pt.log1p(-pt.erfc(pt.maximum(-tail, 0.0)) / 2)
    return pt.switch(pt.lt(x, 0), far, near)


def _scaled(density: Array, rows: Rows) -> Array:
    assert rows.trials is not None
    return np.asarray(rows.trials * density + _log_choose(rows.y, rows.trials))


def _log_choose(y: Array, trials: Array) -> Array:
    return np.asarray(gammaln(trials + 1) - gammaln(trials * y + 1) - gammaln(trials * (1 - y) + 1))
