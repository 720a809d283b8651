"""Poisson regressions, for counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, gammaln

from mixreg.families.counts import CountFamily
from mixreg.families.distribution import Tails
from mixreg.families.registry import register
from mixreg.families.rows import Rows

Array = NDArray[np.float64]


@register
@dataclass(frozen=True)
class Poisson(CountFamily):
    """Counts whose variance is their mean; the link is log, identity or sqrt.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> faults = datasets.fabricfault()
    >>> res = MixReg.from_formula("Faults ~ Length", faults, k=1, family="poisson").fit()
    >>> res.coefficients[1].round(4).to_dict()
    {'Intercept': 0.9718, 'Length': 0.0019}
    """

    name: ClassVar[str] = "poisson"
    title: ClassVar[str] = "Poisson Regressions"
    canonical: ClassVar[str] = "log"
    links: ClassVar[tuple[str, ...]] = ("log", "identity", "sqrt")

    def variance(self, mu: Array, rows: Rows) -> Array:
        """The mean."""
        return mu

    def variance_slope(self, mu: Array, rows: Rows) -> Array | float:
        """One."""
        return 1.0

    def density(self, rows: Rows) -> Array:
        """Log density of each row."""
        density = rows.y * self.log_mean(rows)
        density -= rows.mu
        density -= gammaln(rows.y + 1)
        return np.asarray(density)

    def inside_graph(self, pt: Any, rows: Rows) -> Any:
        """`density` as a PyTensor graph."""
        logs = rows.eta if self.link_name == "log" else pt.log(rows.mu)
        return rows.y * logs - rows.mu - pt.gammaln(rows.y + 1)

    def tails(self, rows: Rows) -> Tails:
        """Of a Poisson distribution: P(Y <= y) is the upper tail of a gamma variable."""
        below = np.where(rows.y > 0, gammaincc(np.maximum(rows.y, 1.0), rows.mu), 0.0)
        return Tails(below, np.exp(self.density(rows)), gammainc(rows.y + 1, rows.mu))

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw counts."""
        return rng.poisson(rows.mu).astype(float)
