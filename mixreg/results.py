"""MixRegResults: what a fit says."""

from __future__ import annotations

from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import PatsyError
from scipy.special import xlogy
from scipy.stats import norm
from statsmodels.base.model import LikelihoodModelResults

from mixreg.columns import as_frame
from mixreg.diagnostics import Diagnostics, diagnose
from mixreg.errors import InputError, NotAvailableError
from mixreg.estimators.expectation import Posterior
from mixreg.fitting import Options, Solution
from mixreg.inference.estimate import Estimate
from mixreg.params import Parameters
from mixreg.sources import MemorySource
from mixreg.summary import make_summary
from mixreg.units import make_units

if TYPE_CHECKING:
    from statsmodels.iolib.summary import Summary

    from mixreg.model import MixReg

Array = NDArray[np.float64]


def check_alpha(alpha: Any) -> float:
    """A level of significance, between 0 and 1."""
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie between 0 and 1; got {alpha!r}")
    return float(alpha)


WHICH = ("mean", "component", "posterior", "label")


class MixRegResults:
    """Estimates, inference, segments and predictions of one fit.

    Components are numbered from 1 and ordered by weight, largest first.
    """

    def __init__(
        self,
        model: MixReg,
        solution: Solution,
        estimate: Estimate,
        posterior: Array,
        rule: Parameters,
        options: Options,
    ) -> None:
        self.model = model
        self.solution = solution
        self.method = options.method
        self.options = options
        self._estimate = estimate
        self._posterior = posterior
        self._rule = rule
        self.cov_type = estimate.cov_type

    def __repr__(self) -> str:
        """One line."""
        return (
            f"<MixRegResults: k={self.k}, n={self.nobs}, llf={self.llf:.6g}, "
            f"{self.solution.fit.reason}>"
        )

    # Estimates

    @property
    def k(self) -> int:
        """Number of components."""
        return self.model.k

    @property
    def components(self) -> pd.Index:
        """Numbers of the components, 1..k."""
        return pd.RangeIndex(1, self.k + 1, name="component")

    @property
    def weights(self) -> pd.Series:
        """Mixing weights by component."""
        return pd.Series(self._estimate.params.weights, self.components, name="weight")

    @property
    def coefficients(self) -> pd.DataFrame:
        """Coefficients, terms x components."""
        return pd.DataFrame(
            self._estimate.params.coef.T,
            pd.Index(self.model.design.terms, name="term"),
            self.components,
        )

    @property
    def scale(self) -> pd.Series:
        """Residual standard deviation by component."""
        return pd.Series(np.sqrt(self._estimate.params.dispersion), self.components, name="sigma")

    # Labels

    @property
    def posterior(self) -> pd.DataFrame:
        """Probability of each component, rows of the data x components."""
        rows = self.model.units.to_rows(self._posterior.T, self.nobs)
        return pd.DataFrame(rows, self.model.index, self.components)

    @property
    def labels(self) -> pd.Series:
        """Most likely component of each row."""
        units = self._posterior.argmax(axis=0) + 1
        return pd.Series(
            self.model.units.to_rows(units, self.nobs), self.model.index, name="component"
        )

    @property
    def group_posterior(self) -> pd.DataFrame:
        """Probability of each component, groups x components."""
        return pd.DataFrame(self._posterior.T, self._groups(), self.components)

    @property
    def group_labels(self) -> pd.Series:
        """Most likely component of each group."""
        return pd.Series(self._posterior.argmax(axis=0) + 1, self._groups(), name="component")

    def _groups(self) -> pd.Index:
        if self.model.units.labels is None:
            raise NotAvailableError("the model has no groups; declare them with groups='column'")
        return self.model.units.labels.rename(self.model.groups_name)

    # Inference, by statsmodels

    @cached_property
    def _inference(self) -> LikelihoodModelResults:
        cov = self._estimate.finite_cov
        names = self.model.param_names
        stand_in = SimpleNamespace(data=SimpleNamespace(cov_names=names, param_names=names))
        inner = LikelihoodModelResults(stand_in, self._estimate.vector, cov)
        inner.use_t = False
        inner.df_resid = self.df_resid
        return inner

    def _series(self, values: Array, name: str) -> pd.Series:
        return pd.Series(values, self.model.param_names, name=name)

    @property
    def params(self) -> pd.Series:
        """All free parameters, flat: `x1[1]`, `log(sigma)[1]`, `logit(weight)[2]`."""
        return self._series(self._estimate.vector, "params")

    @property
    def bse(self) -> pd.Series:
        """Standard errors of `params`."""
        cov = self.cov_params().to_numpy()
        return self._series(np.sqrt(np.maximum(np.diag(cov), 0.0)), "bse")

    @property
    def tvalues(self) -> pd.Series:
        """Estimates over standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.params / self.bse).rename("tvalues")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values, normal."""
        return self._series(2 * norm.sf(np.abs(self.tvalues)), "pvalues")

    def cov_params(self) -> pd.DataFrame:
        """Covariance of `params`."""
        names = self.model.param_names
        cov = self._inference.cov_params()
        return pd.DataFrame(np.where(cov >= 1e300, np.inf, cov), names, names)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Confidence intervals of `params`, normal."""
        half = norm.isf(check_alpha(alpha) / 2) * self.bse
        return pd.DataFrame({0: self.params - half, 1: self.params + half})

    def t_test(self, r_matrix: Any) -> Any:
        """Test linear hypotheses one by one, as `"x1[1] = x1[2]"`."""
        return self._test("t_test", r_matrix)

    def wald_test(self, r_matrix: Any) -> Any:
        """Test linear hypotheses together, as `"x1[1] = x1[2], x1[1] = x1[3]"`."""
        return self._test("wald_test", r_matrix, scalar=True)

    def _test(self, name: str, hypotheses: Any, **options: Any) -> Any:
        inference = self._inference
        try:
            return getattr(inference, name)(hypotheses, **options)
        except (PatsyError, ValueError, IndexError, AssertionError) as error:
            raise InputError(
                f"the hypothesis {hypotheses!r} cannot be read ({error}); use the names "
                f"{', '.join(self.model.param_names[:6])}, ..."
            ) from error

    # Scalars

    @property
    def llf(self) -> float:
        """Log-likelihood at the estimates; infinite when the fit is exact."""
        return self._estimate.llf

    @property
    def nobs(self) -> int:
        """Number of rows."""
        return self.model.nobs

    @property
    def ngroups(self) -> int | None:
        """Number of groups, or None."""
        return self.model.ngroups

    @property
    def n_units(self) -> float:
        """Rows or groups that got a label, counted with their weights."""
        weight = self.model.units.weight
        return float(self.model.source.units if weight is None else weight.sum())

    @property
    def df_model(self) -> int:
        """Number of free parameters."""
        return self.model.layout.size

    @property
    def df_resid(self) -> float:
        """Rows (counted with weights) minus free parameters."""
        return self.model._whitening.rows - self.df_model

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return -2 * self.llf + 2 * self.df_model

    @property
    def bic(self) -> float:
        """Bayesian criterion; n is the number of groups where there are groups."""
        return -2 * self.llf + self.df_model * float(np.log(self.n_units))

    @property
    def entropy(self) -> float:
        """Entropy of the posterior, summed over rows or groups."""
        each = -xlogy(self._posterior, self._posterior).sum(axis=0)
        weight = self.model.units.weight
        return max(0.0, float(each.sum() if weight is None else weight @ each))

    @property
    def entropy_r2(self) -> float:
        """How clearly the components separate: 1 is certain, 0 is a guess."""
        if self.k == 1:
            return 1.0
        return 1 - self.entropy / (self.n_units * float(np.log(self.k)))

    @property
    def icl(self) -> float:
        """Integrated complete likelihood: BIC plus twice the entropy."""
        return self.bic + 2 * self.entropy

    @property
    def converged(self) -> bool:
        """Whether the final run ended by itself."""
        return self.solution.fit.converged

    @property
    def n_iter(self) -> int:
        """Iterations of the final run."""
        return self.solution.fit.n_iter

    @property
    def history(self) -> Array:
        """Log-likelihood at each iteration of the final run; for "altmin", minus the loss.

        The last entry is infinite when the fit is exact.
        """
        history = self.solution.fit.history
        white = self.model._whitening
        if self.method == "altmin":
            return history * white.scale**2
        return history - white.rows * float(np.log(white.scale))

    # Reports

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """The paper's quantities, and what they mean here."""
        return diagnose(self.solution, self.model._whitening, self.nobs, self.entropy_r2)

    def summary(self, alpha: float = 0.05) -> Summary:
        """Tables in statsmodels' look: text, HTML, LaTeX, CSV."""
        return make_summary(self, check_alpha(alpha))

    def _repr_html_(self) -> str:
        return str(self.summary().as_html())

    # Predictions

    def predict(self, new: Any = None, which: str = "mean", groups: Any = None) -> Any:
        """Predict for new data, or for the model's own rows.

        Parameters
        ----------
        new : DataFrame or array, optional
            New data through the same formula.
        which : {"mean", "component", "posterior", "label"}
            "mean": expected response, averaged over components by weight.
            "component": expected response in each component. "posterior":
            probability of each component, given the responses of the row or
            its group if `new` has them; otherwise what the fit knows of the
            group; otherwise the mixing weights. "label": the most probable
            component.

        groups : array, optional
            Group of each new row, where `new` has no column of that name.

        Returns
        -------
        Series or DataFrame with the index of `new`; rows with missing
        regressors are NaN (labels: <NA>).
        """
        if which not in WHICH:
            raise InputError(f"which={which!r} is unknown; use one of {', '.join(WHICH)}")
        coef = self._estimate.params.coef
        if new is None and which in ("posterior", "label"):
            return self.posterior if which == "posterior" else self.labels
        x, index = self._own_regressors() if new is None else self.model.design.regressors(new)
        if which in ("mean", "component"):
            means = x @ coef.T
            if which == "component":
                return pd.DataFrame(means, index, self.components)
            return pd.Series(means @ self.weights.to_numpy(), index, name=self.model.endog_names)
        found = self._new_posterior(new, x, self._new_groups(new, groups, len(x)))
        posterior = pd.DataFrame(found, index, self.components)
        if which == "posterior":
            return posterior
        labels = pd.Series(posterior.to_numpy().argmax(axis=1) + 1, index, name="component")
        bad = posterior.isna().any(axis=1)
        return labels.astype("Int64").mask(bad) if bad.any() else labels

    def _own_regressors(self) -> tuple[Array, pd.Index]:
        x, units = self.model.source.x, self.model.units
        if units.order is not None:
            back = np.empty_like(x)
            back[units.order] = x
            x = back
        return x, self.model.index

    def _new_groups(self, new: Any, groups: Any, rows: int) -> pd.Index | None:
        """Groups of new rows: as given, from the groups' column, or None."""
        if self.model.units.labels is None:
            return None
        if groups is None:
            frame = new if isinstance(new, np.ndarray) else as_frame(new)
            name = self.model.groups_name
            if name is None or isinstance(frame, np.ndarray) or name not in frame.columns:
                return None
            groups = frame[name]
        if len(groups) != rows:
            raise InputError(f"groups has length {len(groups)}, but there are {rows} new rows")
        return pd.Index(groups)

    def _new_posterior(self, new: Any, x: Array, groups: pd.Index | None) -> Array:
        """Posterior of new rows, (rows, k): by response, by group, or the weights."""
        good = np.isfinite(x).all(axis=1)
        out = np.full((len(x), self.k), np.nan)
        out[good] = self.weights.to_numpy()
        labels = self.model.units.labels
        if groups is not None and labels is not None:
            # What is known of a group from the fit, unless it answers anew below.
            known = labels.get_indexer(groups)
            out[good & (known >= 0)] = self._posterior.T[known[good & (known >= 0)]]
        y = self.model.design.responses(new)
        seen = good & np.isfinite(y) if y is not None else np.zeros(len(x), dtype=bool)
        if y is None or not seen.any():
            return out
        # Rows without a group stand for themselves.
        codes = np.arange(len(x)) if groups is None else pd.factorize(groups)[0]
        codes = np.where(codes < 0, len(x) + np.arange(len(x)), codes)
        found = self._posterior_given(x[seen], y[seen], codes[seen])
        out[good & np.isin(codes, found.index)] = found.loc[
            codes[good & np.isin(codes, found.index)]
        ].to_numpy()
        return out

    def _posterior_given(self, x: Array, y: Array, codes: NDArray[np.intp]) -> pd.DataFrame:
        """Posterior of each unit of new rows with responses."""
        kept = np.ones(len(y), dtype=bool)
        units = make_units(codes, None, kept, pd.RangeIndex(len(y)))
        source = MemorySource(units.sort(x), units.sort(y), None, units.starts)
        posterior = source.sweep(Posterior(self.model.family), self._rule).join().T
        return pd.DataFrame(posterior, units.labels)
