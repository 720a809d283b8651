"""A fit as all of the package takes it: estimates, labels, criteria, and inference."""

from __future__ import annotations

from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import DesignInfo, PatsyError
from scipy.stats import norm, t
from statsmodels.base.model import LikelihoodModelResults
from statsmodels.stats.contrast import ContrastResults

from mixreg.errors import InputError, InterpretationWarning, NotAvailableError, warn
from mixreg.estimators.components import components_of
from mixreg.inference.covariance import HUGE, Uncertainty
from mixreg.jobs.problem import Options, Solution
from mixreg.report.fitted import Fitted
from mixreg.report.memberships import Memberships
from mixreg.table.parts import ModelParts

Array = NDArray[np.float64]


def check_alpha(alpha: Any) -> float:
    """A level of significance, between 0 and 1."""
    good = isinstance(alpha, (int, float, np.floating)) and 0 < alpha < 1
    if not good:
        raise InputError(f"alpha must be a number between 0 and 1; got {alpha!r}")
    return float(alpha)


class LinearInference(LikelihoodModelResults):
    """Tests of linear hypotheses by statsmodels, where some parameters run off to infinity.

    Parameters
    ----------
    vector : (m,) array
    known : Uncertainty
    names : list of str
    """

    def __init__(self, vector: Array, known: Uncertainty, names: list[str]) -> None:
        self.known, self.names = known, names
        stand_in = SimpleNamespace(data=SimpleNamespace(cov_names=names, param_names=names))
        super().__init__(stand_in, vector, known.finite)
        self.use_t = False

    def cov_params(self, r_matrix: Any = None, **options: Any) -> Any:
        """Covariance of linear functions, infinite on the diagonal for what is not determined."""
        if r_matrix is None or options.get("cov_p") is not None or options.get("other") is not None:
            return super().cov_params(r_matrix, **options)
        return self.known.covariance(np.atleast_2d(r_matrix))

    def wald(self, hypotheses: Any) -> Any:
        """Test together what the data determine of some hypotheses."""
        lines, values = self._lines(hypotheses)
        lost = self.known.involved(lines)
        if not lost.any():
            return self.wald_test((lines, values), scalar=True)
        sums = self.known.estimable(lines)
        told = f"{len(sums)} of {len(lines)} hypotheses" if len(sums) else "none of the hypotheses"
        warn(
            f"some of the {len(lines)} hypotheses involve parameters with infinite standard "
            f"errors; the test is of what the data determine, which is {told}",
            InterpretationWarning,
        )
        if len(sums):
            return self.wald_test((sums @ lines, sums @ values), scalar=True)
        return ContrastResults(
            chi2=0.0,
            df_denom=len(lines),
            statistic=0.0,
            distribution="chi2",
            distargs=(len(lines),),
        )

    def _lines(self, hypotheses: Any) -> tuple[Array, Array]:
        """Linear functions (n, m) and what they are to be equal to, (n,)."""
        read = DesignInfo(self.names).linear_constraint(hypotheses)
        return np.asarray(read.coefs, dtype=float), np.ravel(read.constants).astype(float)


class BaseResults(Memberships):
    """What a fit estimated: parameters, labels, inference, criteria.

    Components are numbered from 1 and ordered by weight, largest first.
    """

    def __init__(
        self,
        model: ModelParts,
        fitted: Fitted,
        solution: Solution | None = None,
        options: Options | None = None,
    ) -> None:
        self.model = model
        self.fitted = fitted
        self.method = fitted.method
        self.cov_type = fitted.estimate.cov_type
        self._solution = solution
        self._options = options

    def __repr__(self) -> str:
        """One line."""
        return (
            f"<MixRegResults: k={self.k}, n={self.nobs}, llf={self.llf:.6g}, {self.fitted.reason}>"
        )

    @property
    def solution(self) -> Solution:
        """The fit in standard coordinates, with all that the search came by.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.solution.run.converged
        True
        """
        if self._solution is None:
            raise NotAvailableError("a fit from a file has no record of its search's runs")
        return self._solution

    @property
    def options(self) -> Options:
        """What `fit` was asked to do.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.options.method, res.options.seed
        ('em', 0)
        """
        if self._options is None:
            raise NotAvailableError("a fit from a file does not keep the options of `fit`")
        return self._options

    # Inference, by statsmodels

    @cached_property
    def _inference(self) -> LinearInference:
        estimate = self.fitted.estimate
        inner = LinearInference(estimate.vector, estimate.known, self.spec.param_names)
        inner.df_resid = self.df_resid
        return inner

    def _series(self, values: Array, name: str) -> pd.Series:
        return pd.Series(values, self.spec.param_names, name=name)

    @property
    def params(self) -> pd.Series:
        """All free parameters, flat: `x1[1]`, `log(sigma)[1]`, `logit(weight)[2]`.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> print(res.params.round(3))
        Intercept[1]        1.561
        stretchratio[1]     0.218
        log(sigma)[1]      -1.528
        Intercept[2]        0.003
        stretchratio[2]     0.999
        log(sigma)[2]      -5.398
        logit(weight)[2]   -0.524
        Name: params, dtype: float64
        """
        return self._series(self.fitted.estimate.vector, "params")

    @property
    def bse(self) -> pd.Series:
        """Standard errors of `params`.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.bse.round(3)[["stretchratio[1]", "stretchratio[2]"]].tolist()
        [0.043, 0.002]
        """
        cov = self.cov_params().to_numpy()
        return self._series(np.sqrt(np.maximum(np.diag(cov), 0.0)), "bse")

    @property
    def tvalues(self) -> pd.Series:
        """Estimates over standard errors; NaN where these are infinite.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.tvalues.round(1)[["stretchratio[1]", "stretchratio[2]"]].tolist()
        [5.0, 519.5]
        """
        bse = self.bse
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.params / bse.mask(np.isinf(bse))).rename("tvalues")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values, normal (Student's for coefficients of variational Bayes).

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> bool(res.pvalues["stretchratio[1]"] < 0.001)
        True
        """
        z = np.abs(self.tvalues.to_numpy())
        df = self._degrees()
        p, own = 2 * norm.sf(z), np.isfinite(df)
        p[own] = 2 * t.sf(z[own] * np.sqrt(df[own] / (df[own] - 2)), df[own])
        return self._series(p, "pvalues")

    @property
    def bse_mean_field(self) -> pd.Series:
        """Standard deviations of variational Bayes as mean field has them.

        They take labels for known, and are too small where components overlap; `bse`,
        `conf_int()` and `posterior_draws()` do not.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=4).fit("vb")
        >>> bool(res.bse_mean_field["stretchratio[1]"] < res.bse["stretchratio[1]"])
        True
        """
        cov = self.fitted.estimate.mean_field
        if cov is None:
            raise NotAvailableError("only method='vb' has mean-field deviations; see bse")
        return self._series(np.sqrt(np.diag(cov)), "bse_mean_field")

    def _degrees(self) -> Array:
        """Degrees of freedom of each parameter: infinite if it is normal."""
        found = np.full(self.spec.layout.size, np.inf)
        beliefs, priors = self.fitted.beliefs, self.fitted.priors
        if beliefs is not None and priors is not None:
            # Posteriors of coefficients of linear regressions are Student's.
            index = self.spec.layout.coef_index()
            each = components_of(self.spec.mixture, priors).degrees(beliefs)[:, :1]
            there = index >= 0
            found[index[there]] = np.broadcast_to(np.maximum(each, 2 + 2e-9), index.shape)[there]
            found[index[:, list(self.spec.layout.shared)]] = np.inf
        return found

    def cov_params(self) -> pd.DataFrame:
        """Covariance of `params`.

        Infinite on the diagonal, and zero elsewhere, for parameters that run off to infinity or
        that the data do not determine. Tests, willingness to pay, predictions and margins know
        which functions of them are determined all the same, as a difference of two of them may be.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> cov = res.cov_params()
        >>> cov.shape
        (7, 7)
        >>> bool((cov.to_numpy().diagonal() ** 0.5).round(6).tolist() == res.bse.round(6).tolist())
        True
        """
        names = self.spec.param_names
        cov = self.fitted.estimate.known.matrix
        return pd.DataFrame(np.where(cov >= HUGE, np.inf, cov), names, names)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Confidence intervals of `params`, normal; credible intervals of variational Bayes.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.conf_int().loc["stretchratio[1]"].round(2).tolist()
        [0.13, 0.3]
        >>> res.conf_int(alpha=0.1).loc["stretchratio[1]"].round(2).tolist()
        [0.15, 0.29]
        """
        half = self._quantiles(check_alpha(alpha) / 2) * self.bse
        return pd.DataFrame({0: self.params - half, 1: self.params + half})

    def _quantiles(self, tail: float) -> Array:
        """Standard deviations between a parameter's mean and a tail of its distribution."""
        df = self._degrees()
        found, own = np.full(len(df), norm.isf(tail)), np.isfinite(df)
        found[own] = t.isf(tail, df[own]) * np.sqrt((df[own] - 2) / df[own])
        return found

    def t_test(self, r_matrix: Any) -> Any:
        """Test linear hypotheses one by one, as `"x1[1] = x1[2]"`.

        What involves a parameter that runs off to infinity has an infinite standard error, z = 0
        and p = 1.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> test = res.t_test("stretchratio[1] = stretchratio[2]")
        >>> test.effect.round(2).tolist()
        [-0.78]
        >>> bool(test.pvalue < 0.001)
        True
        """
        return self._test("t_test", r_matrix)

    def wald_test(self, r_matrix: Any) -> Any:
        """Test linear hypotheses together, as `"x1[1] = x1[2], x1[1] = x1[3]"`.

        Where some involve parameters that run off to infinity, the test is of what the data
        determine, with as many degrees of freedom, and says so.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> test = res.wald_test("Intercept[1] = Intercept[2], stretchratio[1] = stretchratio[2]")
        >>> int(test.df_denom), bool(test.pvalue < 0.001)
        (2, True)
        """
        return self._test("wald", r_matrix)

    def _test(self, name: str, hypotheses: Any) -> Any:
        inference = self._inference
        try:
            return getattr(inference, name)(hypotheses)
        except (PatsyError, ValueError, IndexError, AssertionError) as error:
            raise InputError(
                f"the hypothesis {hypotheses!r} cannot be read ({error}); use the names "
                f"{', '.join(self.spec.param_names[:6])}, ..."
            ) from error
