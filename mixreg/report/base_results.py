"""Estimates of a fit, their inference, labels and criteria."""

from __future__ import annotations

from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import PatsyError
from scipy.stats import norm, t
from statsmodels.base.model import LikelihoodModelResults

from mixreg.errors import InputError, NotAvailableError
from mixreg.estimators.components import components_of
from mixreg.estimators.expectation import Posterior
from mixreg.jobs.problem import Options, Solution
from mixreg.mixture.gate import ConstantGate, Gate
from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.report.criteria import Criteria
from mixreg.report.fitted import Fitted
from mixreg.report.row_tables import LabelTable, PosteriorTable
from mixreg.sources.base import Standardised, per_unit
from mixreg.sources.tasks import unit_sizes
from mixreg.table.parts import ModelParts

Array = NDArray[np.float64]


def check_alpha(alpha: Any) -> float:
    """A level of significance, between 0 and 1."""
    good = isinstance(alpha, (int, float, np.floating)) and 0 < alpha < 1
    if not good:
        raise InputError(f"alpha must be a number between 0 and 1; got {alpha!r}")
    return float(alpha)


class BaseResults(Criteria):
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
        """The fit in standard coordinates, with all that the search came by."""
        if self._solution is None:
            raise NotAvailableError("a fit from a file has no record of its search's runs")
        return self._solution

    @property
    def options(self) -> Options:
        """What `fit` was asked to do."""
        if self._options is None:
            raise NotAvailableError("a fit from a file does not keep the options of `fit`")
        return self._options

    # Estimates

    @property
    def elbo(self) -> float:
        """Evidence lower bound of variational Bayes, in the user's units."""
        if self.fitted.elbo is None:
            raise NotAvailableError("only method='vb' has a lower bound; see llf for this fit")
        return self.fitted.elbo

    @property
    def weights(self) -> pd.Series:
        """Mixing weights by component; averages where they depend on concomitants."""
        return pd.Series(self.fitted.tally.weights, self.classes, name="weight")

    def gate_at(self, z: Any) -> tuple[Gate, Parameters]:
        """The gate of units with these concomitants, and its mixture.

        Where the concomitants are not there, classes have their average probabilities.
        """
        gate, params = self.spec.mixture.gate, self.fitted.estimate.params
        if gate.reads(z):
            return gate, params
        average = log_gating(self.fitted.tally.weights)
        return ConstantGate(), Parameters(params.coef, params.dispersion, average)

    @property
    def coefficients(self) -> pd.DataFrame:
        """Coefficients, terms x components."""
        return pd.DataFrame(
            self.fitted.estimate.params.coef.T,
            pd.Index(self.spec.design.terms, name="term"),
            self.components,
        )

    @property
    def scale(self) -> pd.Series | pd.DataFrame:
        """Residual standard deviation by component; the dispersion in other families.

        With several responses a DataFrame, with a column for each that has one.
        """
        family = self.spec.family
        values = self.fitted.estimate.params.dispersion**family.scale_power
        if isinstance(family.scale_name, tuple):
            frame = pd.DataFrame(values, self.components, list(family.scale_name))
            return frame[self.spec.layout.scale_names]
        return pd.Series(values, self.components, name=family.dispersion_name or "scale")

    @property
    def gate(self) -> pd.DataFrame:
        """Coefficients of the class probabilities, concomitants x components.

        The first component is the reference.
        """
        if self.spec.mixture.gate.constant:
            raise NotAvailableError(
                "class probabilities are constant; declare concomitant='~ age' to model them"
            )
        gate, terms = self.fitted.estimate.params.gating, self.spec.layout.gate
        return pd.DataFrame((gate - gate[:1]).T, pd.Index(terms, name="term"), self.classes)

    # Labels

    @property
    def posterior(self) -> Any:
        """Probability of each component, rows of the data x components.

        A DataFrame; of data on a cluster a Dask DataFrame, made when it is computed.
        """
        make = PosteriorTable(self.classes)
        far = self._where_rows_are(make)
        return (
            far if far is not None else make(self.along_rows(self.unit_posterior), self.model.index)
        )

    @property
    def labels(self) -> Any:
        """Most likely component of each row.

        A Series; of data on a cluster a Dask Series, made when it is computed.
        """
        far = self._where_rows_are(LabelTable(self.classes))
        if far is not None:
            return far
        return pd.Series(self.along_rows(self.unit_labels), self.model.index, name="component")

    def _where_rows_are(self, make: PosteriorTable | LabelTable) -> Any:
        """A table of what is said of each row, on the cluster; None if there is none."""
        if self.fitted.posterior is not None or not self.model.has_rows:
            return None
        rows = self.model.rows
        far = rows.source.lazily(self._posterior_task, self.fitted.standard)
        return None if far is None else rows.names.table(far, make, len(self.classes))

    def along_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values (..., units) for the rows in the user's order, (..., rows)."""
        rows = self.model.rows
        if rows.source.has("starts"):
            sizes: Any = per_unit(rows.source, unit_sizes)
            values = np.repeat(values, sizes, axis=-1)
        return np.moveaxis(rows.names.unsort(np.moveaxis(values, -1, 0)), 0, -1)

    @cached_property
    def unit_posterior(self) -> Array:
        """Probability of each component, (K, units)."""
        fitted, model = self.fitted, self.model
        if fitted.posterior is not None:
            return fitted.posterior
        if not model.has_rows:
            raise NotAvailableError(
                "the rows are gone, and with them their labels; label data with "
                "res.predict(data, 'label')"
            )
        return model.source.sweep(self._posterior_task, fitted.standard).join()

    @property
    def _posterior_task(self) -> Standardised:
        task = Posterior(self.model.problem().mixture, hard=self.method == "altmin")
        return Standardised(task, self.fitted.whitening)

    @property
    def unit_labels(self) -> NDArray[np.int64]:
        """Most likely component of each unit."""
        return np.asarray(self.classes.to_numpy()[self.unit_posterior.argmax(axis=0)])

    @property
    def group_posterior(self) -> pd.DataFrame:
        """Probability of each component, groups x components."""
        groups = self._groups()
        return pd.DataFrame(self.unit_posterior.T, groups, self.classes)

    @property
    def group_labels(self) -> pd.Series:
        """Most likely component of each group."""
        groups = self._groups()
        return pd.Series(self.unit_labels, groups, name="component")

    @property
    def known_groups(self) -> pd.Index | None:
        """Names of the groups; many are not kept, but read where the rows are."""
        if self.fitted.groups is not None or self.ngroups is None or not self.model.has_rows:
            return self.fitted.groups
        return self.model.groups

    def _groups(self) -> pd.Index:
        if self.ngroups is None:
            raise NotAvailableError("the model has no groups; declare them with groups='column'")
        groups = self.known_groups
        if groups is None:
            raise NotAvailableError(
                f"the fit does not keep the names of {self.ngroups:,} groups; write them with "
                "res.write_labels(path) while the rows are there"
            )
        return groups.rename(self.spec.groups_name)

    # Inference, by statsmodels

    @cached_property
    def _inference(self) -> LikelihoodModelResults:
        cov = self.fitted.estimate.finite_cov
        names = self.spec.param_names
        stand_in = SimpleNamespace(data=SimpleNamespace(cov_names=names, param_names=names))
        inner = LikelihoodModelResults(stand_in, self.fitted.estimate.vector, cov)
        inner.use_t = False
        inner.df_resid = self.df_resid
        return inner

    def _series(self, values: Array, name: str) -> pd.Series:
        return pd.Series(values, self.spec.param_names, name=name)

    @property
    def params(self) -> pd.Series:
        """All free parameters, flat: `x1[1]`, `log(sigma)[1]`, `logit(weight)[2]`."""
        return self._series(self.fitted.estimate.vector, "params")

    @property
    def bse(self) -> pd.Series:
        """Standard errors of `params`."""
        cov = self.cov_params().to_numpy()
        return self._series(np.sqrt(np.maximum(np.diag(cov), 0.0)), "bse")

    @property
    def tvalues(self) -> pd.Series:
        """Estimates over standard errors; NaN where these are infinite."""
        bse = self.bse
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.params / bse.mask(np.isinf(bse))).rename("tvalues")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values, normal (Student's for coefficients of variational Bayes)."""
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
        """Covariance of `params`."""
        names = self.spec.param_names
        cov = self._inference.cov_params()
        return pd.DataFrame(np.where(cov >= 1e300, np.inf, cov), names, names)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Confidence intervals of `params`, normal; credible intervals of variational Bayes."""
        half = self._quantiles(check_alpha(alpha) / 2) * self.bse
        return pd.DataFrame({0: self.params - half, 1: self.params + half})

    def _quantiles(self, tail: float) -> Array:
        """Standard deviations between a parameter's mean and a tail of its distribution."""
        df = self._degrees()
        found, own = np.full(len(df), norm.isf(tail)), np.isfinite(df)
        found[own] = t.isf(tail, df[own]) * np.sqrt((df[own] - 2) / df[own])
        return found

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
                f"{', '.join(self.spec.param_names[:6])}, ..."
            ) from error
