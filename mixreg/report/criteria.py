"""How good a fit is, in single numbers."""

from __future__ import annotations

import math

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
        """What was asked.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.spec.exog_names
        ['Intercept', 'stretchratio']
        """
        return self.model.spec

    @property
    def k(self) -> int:
        """Number of components.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.k
        2
        """
        return self.spec.k

    @property
    def components(self) -> pd.Index:
        """Numbers of the components, 1..k.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.components.tolist()
        [1, 2]
        """
        return pd.RangeIndex(1, self.k + 1, name="component")

    @property
    def classes(self) -> pd.Index:
        """Labels that occur: the components, and 0 for the background if there is one.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2, noise=True).fit()
        >>> res.classes.tolist()
        [1, 2, 0]
        """
        if not self.spec.noise:
            return self.components
        return pd.Index(self.spec.classes, name="component")

    @property
    def alive(self) -> list[int]:
        """Components that hold rows; variational Bayes empties those it does not need.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=4).fit("vb")
        >>> res.k, res.alive
        (4, [1, 2, 3])
        """
        beliefs, priors = self.fitted.beliefs, self.fitted.priors
        if beliefs is None or priors is None:
            return list(self.components)
        held = alive(beliefs, priors) | (self.fitted.tally.units[: self.k] > 0)
        return [int(j) for j in self.components[held]]

    @property
    def llf(self) -> float:
        """Log-likelihood at the estimates; infinite when the fit is exact.

        It is `model.loglike(res.params)`. Of variational Bayes it is that of `coefficients`,
        `scale` and `weights`, of which all but scales that are not of linear regressions are
        posterior means; `params` has the means of logarithms of scales and weights.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> round(res.llf, 3)
        145.417
        """
        return self.fitted.estimate.llf

    @property
    def nobs(self) -> int:
        """Number of rows.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.nobs
        150
        """
        return self.fitted.tally.nobs

    @property
    def ngroups(self) -> int | None:
        """Number of groups, or None.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, groups="id2").fit()
        >>> res.nobs, res.ngroups
        (200, 50)
        """
        return self.fitted.tally.ngroups

    @property
    def n_units(self) -> float:
        """Rows or groups that got a label, counted with their weights.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, groups="id2").fit()
        >>> res.n_units
        50.0
        """
        return self.fitted.tally.n_units

    @property
    def df_model(self) -> int:
        """Number of free parameters; of variational Bayes, those of living components.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.df_model == len(res.params)
        True
        >>> res.df_model
        7
        """
        alive = len(self.alive)
        spec = self.spec if alive == self.k else self.spec.with_k(alive)
        return spec.layout.size

    @property
    def df_resid(self) -> float:
        """Rows (counted with weights) minus free parameters.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.df_resid
        143.0
        """
        return self.fitted.tally.row_weight - self.df_model

    @property
    def aic(self) -> float:
        """Akaike's criterion.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> round(res.aic, 3)
        -276.834
        >>> res.aic == -2 * res.llf + 2 * res.df_model
        True
        """
        return -2 * self.llf + 2 * self.df_model

    @property
    def bic(self) -> float:
        """Bayesian criterion; n is the number of groups where there are groups.

        Examples
        --------
        >>> import numpy as np
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, groups="id2").fit()
        >>> round(res.bic, 2)
        1158.32
        >>> round(-2 * res.llf + res.df_model * float(np.log(res.ngroups)), 2)
        1158.32
        """
        return -2 * self.llf + self.df_model * float(np.log(self.n_units))

    @property
    def caic(self) -> float:
        """Consistent AIC: BIC plus one for each free parameter.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> round(res.caic - res.bic, 6), res.df_model
        (7.0, 7)
        """
        return self.bic + self.df_model

    @property
    def hqic(self) -> float:
        """Hannan and Quinn's criterion; n as in `bic`.

        Its penalty 2 log(log(n)) is taken for zero where n is so small that it is negative.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> [round(value, 2) for value in (res.aic, res.hqic, res.bic)]
        [-276.83, -268.27, -255.76]
        """
        penalty = float(np.log(np.log(max(self.n_units, math.e))))
        return -2 * self.llf + 2 * self.df_model * penalty

    @property
    def entropy(self) -> float:
        """Entropy of the posterior, summed over rows or groups.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> round(res.entropy, 2)
        12.21
        """
        return self.fitted.tally.entropy

    @property
    def entropy_r2(self) -> float:
        """How clearly the components separate: 1 is certain, 0 is a guess.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> round(res.entropy_r2, 2)
        0.88
        """
        classes = len(self.alive) + self.spec.noise
        if classes == 1:
            return 1.0
        return 1 - self.entropy / (self.n_units * float(np.log(classes)))

    @property
    def icl(self) -> float:
        """Integrated complete likelihood: BIC plus twice the entropy.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> round(res.icl, 2)
        -231.34
        >>> round(res.icl - res.bic - 2 * res.entropy, 6)
        0.0
        """
        return self.bic + 2 * self.entropy

    @property
    def converged(self) -> bool:
        """Whether the final run ended by itself.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.converged
        True
        """
        return self.fitted.reason in ("converged", "labels", "exact", "edge")

    @property
    def n_iter(self) -> int:
        """Iterations of the final run.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> res = model.fit(init="random")
        >>> res.n_iter == len(res.history) - 1
        True
        """
        return self.fitted.n_iter

    @property
    def history(self) -> Array:
        """Log-likelihood at each iteration of the final run; for "altmin", minus the loss.

        The last entry is infinite when the fit is exact.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> res = model.fit(init="random")
        >>> bool((res.history[1:] >= res.history[:-1]).all())
        True
        >>> round(float(res.history[-1]), 3) == round(res.llf, 3)
        True
        """
        return self.fitted.history
