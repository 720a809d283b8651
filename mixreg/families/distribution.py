"""What a family may say of its distribution: slopes of the mean, the variance, and tails.

Predictions with errors, marginal effects and residuals are made of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.families.rows import Rows

Array = NDArray[np.float64]

# Steps of numerical derivatives, as a share of the linear predictor and of one.
FIRST, SECOND = 1e-3, 5e-3


@dataclass(frozen=True, slots=True)
class Tails:
    """Chances of a response below the one seen, of that one, and of one above, (..., rows)."""

    below: Array
    at: Array
    above: Array

    @staticmethod
    def continuous(below: Array, above: Array) -> Tails:
        """Of a response that has a density."""
        return Tails(below, np.zeros_like(below), above)


class Distribution:
    """Mean, variance and tails of a response; a family of your own may do with its mean."""

    name: ClassVar[str]

    def mean(self, eta: Array) -> Array:
        """Mean of the response at a linear predictor."""
        return eta

    def mean_slope(self, eta: Array) -> Array:
        """First derivative of the mean; by differences unless a family knows better."""
        h = FIRST * (1 + np.abs(eta))
        near = self.mean(eta + h) - self.mean(eta - h)
        far = self.mean(eta + 2 * h) - self.mean(eta - 2 * h)
        return np.asarray((8 * near - far) / (12 * h))

    def mean_curve(self, eta: Array) -> Array:
        """Second derivative of the mean; by differences unless a family knows better."""
        h = SECOND * (1 + np.abs(eta))
        near = self.mean(eta + h) + self.mean(eta - h)
        far = self.mean(eta + 2 * h) + self.mean(eta - 2 * h)
        return np.asarray((16 * near - far - 30 * self.mean(eta)) / (12 * h * h))

    def predictor(self, mean: Array) -> Array | None:
        """The linear predictor of a mean, on whose scale intervals are made; None: of the mean."""
        return None

    def response_variance(self, rows: Rows) -> Array:
        """Variance of the response of each row."""
        raise self._needs("response_variance", "Pearson residuals")

    def tails(self, rows: Rows) -> Tails:
        """Chances of responses below, at and above that of each row."""
        raise self._needs("tails", "quantile residuals")

    def _needs(self, method: str, what: str) -> InputError:
        return InputError(
            f"{what} need a method `{method}` of the family {self.name!r}; give it one, or ask "
            "for kind='response'"
        )
