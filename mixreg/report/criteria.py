"""How good a fit is, in single numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.estimators.pruning import alive
from mixreg.report.fitted import Fitted
from mixreg.table.parts import ModelParts
from mixreg.table.spec import Spec

Array = NDArray[np.float64]


class Criteria:
    """Sizes, criteria, and how the final run went.

    Attributes
    ----------
    model : ModelParts
    fitted : Fitted
    """

    model: ModelParts
    fitted: Fitted

    @property
    def spec(self) -> Spec:
        """What was asked."""
        return self.model.spec

    @property
    def k(self) -> int:
        """Number of components."""
        return self.spec.k

    @property
    def components(self) -> pd.Index:
        """Numbers of the components, 1..k."""
        return pd.RangeIndex(1, self.k + 1, name="component")

    @property
    def classes(self) -> pd.Index:
        """Labels that occur: the components, and 0 for the background if there is one."""
        if not self.spec.noise:
            return self.components
        return pd.Index(self.spec.classes, name="component")

    @property
    def alive(self) -> list[int]:
        """Components that hold rows; variational Bayes empties those it does not need."""
        beliefs, priors = self.fitted.beliefs, self.fitted.priors
        if beliefs is None or priors is None:
            return list(self.components)
        held = alive(beliefs, priors) | (self.fitted.tally.units[: self.k] > 0)
        return [int(j) for j in self.components[held]]

    @property
    def llf(self) -> float:
        """Log-likelihood at the estimates; infinite when the fit is exact."""
        return self.fitted.estimate.llf

    @property
    def nobs(self) -> int:
        """Number of rows."""
        return self.fitted.tally.nobs

    @property
    def ngroups(self) -> int | None:
        """Number of groups, or None."""
        return self.fitted.tally.ngroups

    @property
    def n_units(self) -> float:
        """Rows or groups that got a label, counted with their weights."""
        return self.fitted.tally.n_units

    @property
    def df_model(self) -> int:
        """Number of free parameters; of variational Bayes, those of living components."""
        alive = len(self.alive)
        spec = self.spec if alive == self.k else self.spec.with_k(alive)
        return spec.layout.size

    @property
    def df_resid(self) -> float:
        """Rows (counted with weights) minus free parameters."""
        return self.fitted.tally.row_weight - self.df_model

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return -2 * self.llf + 2 * self.df_model

    @property
    def bic(self) -> float:
        """Bayesian criterion; n is the number of groups where there are groups."""
        return -2 * self.llf + self.df_model * float(np.log(self.n_units))

    @property
    def caic(self) -> float:
        """Consistent AIC: BIC plus one for each free parameter."""
        return self.bic + self.df_model

    @property
    def hqic(self) -> float:
        """Hannan and Quinn's criterion; n as in `bic`."""
        return -2 * self.llf + 2 * self.df_model * float(np.log(np.log(self.n_units)))

    @property
    def entropy(self) -> float:
        """Entropy of the posterior, summed over rows or groups."""
        return self.fitted.tally.entropy

    @property
    def entropy_r2(self) -> float:
        """How clearly the components separate: 1 is certain, 0 is a guess."""
        classes = len(self.alive) + self.spec.noise
        if classes == 1:
            return 1.0
        return 1 - self.entropy / (self.n_units * float(np.log(classes)))

    @property
    def icl(self) -> float:
        """Integrated complete likelihood: BIC plus twice the entropy."""
        return self.bic + 2 * self.entropy

    @property
    def converged(self) -> bool:
        """Whether the final run ended by itself."""
        return self.fitted.reason in ("converged", "labels", "exact")

    @property
    def n_iter(self) -> int:
        """Iterations of the final run."""
        return self.fitted.n_iter

    @property
    def history(self) -> Array:
        """Log-likelihood at each iteration of the final run; for "altmin", minus the loss.

        The last entry is infinite when the fit is exact.
        """
        return self.fitted.history
