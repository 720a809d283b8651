"""Binomial regressions, for successes out of trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_expit, xlog1py, xlogy

from mixreg.blocks import Block
from mixreg.families.base import Rows
from mixreg.families.exponential import ExponentialFamily

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Binomial(ExponentialFamily):
    """Proportions of successes; the link is logit, probit, cloglog, log or identity."""

    name: ClassVar[str] = "binomial"
    title: ClassVar[str] = "Binomial Regressions"
    canonical: ClassVar[str] = "logit"

    def valid(self, mu: Array) -> Array:
        """Probabilities lie inside (0, 1)."""
        return mu if self.link_name == "logit" else np.clip(mu, 1e-14, 1 - 1e-14)

    def variance(self, mu: Array, rows: Rows) -> Array:
        """Of one trial."""
        return mu * (1 - mu)

    def variance_slope(self, mu: Array, rows: Rows) -> Array | float:
        """Derivative of mu (1 - mu)."""
        return 1 - 2 * mu

    def log_density(self, rows: Rows) -> Array:
        """Log density of each row."""
        if self.link_name == "logit":
            density = rows.y * rows.eta + log_expit(-rows.eta)
        else:
            density = rows.y * np.log(rows.mu) + (1 - rows.y) * np.log1p(-rows.mu)
        return np.asarray(density if rows.trials is None else _scaled(density, rows))

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
        return bad | ~whole, "proportions of a whole number of trials, at least 1"

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


def _scaled(density: Array, rows: Rows) -> Array:
    assert rows.trials is not None
    return np.asarray(rows.trials * density + _log_choose(rows.y, rows.trials))


def _log_choose(y: Array, trials: Array) -> Array:
    return np.asarray(gammaln(trials + 1) - gammaln(trials * y + 1) - gammaln(trials * (1 - y) + 1))
