"""Tables that a person can use: parameters, rows, predictions and effects of a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import pandas as pd

from mixreg.errors import NotAvailableError
from mixreg.jobs.problem import Solution
from mixreg.report import intervals, margins, residuals, tidy
from mixreg.report.base_results import BaseResults
from mixreg.report.fitted import Fitted
from mixreg.report.given_rows import on_own_rows, on_rows
from mixreg.report.marginal_model import marginal_model
from mixreg.report.new_columns import read_columns
from mixreg.report.relabelling import new_errors, read_order
from mixreg.table.checks import whole

# What a fit whose rows are gone has at hand, and could not make again.
KEPT = ("diagnostics",)


class Framed(BaseResults):
    """Frames of a fit: what R's broom, and statsmodels, would give."""

    def tidy(
        self,
        exponentiate: bool = False,
        conf_level: float = 0.95,
        what: str = "coefficients",
    ) -> pd.DataFrame:
        """One row a coefficient: estimate, standard error, z, p-value and interval.

        Parameters
        ----------
        exponentiate : bool
            Give exponentials of estimates and intervals: odds ratios of a logit, rate
            ratios of a log link. Errors, z and p stay those of the coefficients.
        conf_level : float
            What intervals cover.
        what : {"coefficients", "all"}
            "all" has dispersions and class probabilities as well, and a column "part".

        Returns
        -------
        DataFrame
            Columns component (missing for shared terms), term, estimate, std_error, z,
            p_value, conf_low, conf_high; with several responses "response" too.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.tidy()[["component", "term"]].values.tolist()[0]
        [1, 'Intercept']
        """
        return tidy.tidy(self, exponentiate, conf_level, what)

    def glance(self) -> pd.DataFrame:
        """The fit in one row: sizes, likelihood, criteria, how it ended.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> int(res.glance().loc[0, "nobs"])
        150
        """
        return tidy.glance(self)

    def augment(self, data: Any = None, **columns: Any) -> pd.DataFrame:
        """Rows with label, certainty, posteriors, fitted value and residual.

        Parameters
        ----------
        data : DataFrame or another table, optional
            Rows old or new, whose columns are kept. Without it, the fit's own rows with
            their response.
        **columns
            As in `predict`.

        Returns
        -------
        DataFrame
            With component, certainty, p1, p2, ..., fitted, residual (with several
            responses "fitted y1", ...). Where data has a column of such a name, ours
            ends in `_fit`.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> res.augment(tone).columns.tolist()[-5:]
        ['certainty', 'p1', 'p2', 'fitted', 'residual']
        """
        return tidy.augment(self, data, read_columns("augment", data, columns))

    # Fitted values and residuals

    @property
    def fittedvalues(self) -> Any:
        """Expected response of each row, components weighted by class probabilities.

        A Series; with several responses a DataFrame. It is what `predict()` gives.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.fittedvalues.head(2).round(3).tolist()
        [1.668, 1.693]
        >>> res.fittedvalues.equals(res.predict())
        True
        """
        return residuals.fitted_values(self)

    @property
    def resid(self) -> Any:
        """Response less `fittedvalues`; for other kinds see `residuals`.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> res.resid.head(2).round(3).tolist()
        [-0.207, -0.286]
        >>> bool((res.resid + res.fittedvalues - tone["tuned"]).abs().max() < 1e-12)
        True
        """
        return residuals.residuals(self, "response", "mixture", 0)

    def residuals(
        self, kind: str = "response", by: str = "mixture", seed: int = 0, *, data: Any = None
    ) -> Any:
        """Residuals of the fit's own rows.

        Parameters
        ----------
        kind : {"response", "pearson", "quantile"}
            Response less its mean; the same over its standard deviation; or the normal
            quantile of the response's probability, at random within the probability of a
            count. Quantile residuals of a right model are standard normal, whatever the
            family.
        by : {"mixture", "component"}
            From the mixture, or from each component: weight these by `posterior`.
        seed : int
            For quantile residuals.
        data : DataFrame or another table, optional
            Rows with all columns of the model, for a fit whose own are gone.

        Returns
        -------
        Series or DataFrame
            With by="component" a column for each; several responses come first.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.residuals("quantile", by="component").shape
        (150, 2)
        """
        return residuals.residuals(on_rows(self, data), kind, by, whole("seed", seed, 0))

    # Predictions and effects with errors

    def get_prediction(
        self, new: Any = None, which: str = "mean", **columns: Any
    ) -> intervals.Prediction:
        """Predict with standard errors and intervals, by the delta method.

        Parameters
        ----------
        new : DataFrame or another table, optional
            New rows; the fit's own if left out.
        which : {"mean", "component"}
            As in `predict`.
        **columns
            As in `predict`, but for `known`.

        Returns
        -------
        Prediction
            `summary_frame(alpha)` has mean, mean_se, mean_ci_lower and mean_ci_upper, by
            row; with which="component" by component and row. Intervals are made on the
            scale of the link, as statsmodels makes those of a GLM, and stay in range.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> res.get_prediction(tone.head(3), "component").summary_frame().shape
        (6, 4)
        """
        columns = read_columns("get_prediction", new, columns)
        return intervals.get_prediction(self, new, which, columns)

    def margins(
        self,
        data: Any = None,
        at: str = "overall",
        variables: Any = None,
        conf_level: float = 0.95,
        **columns: Any,
    ) -> pd.DataFrame:
        """Marginal effects on the expected response, by segment and overall.

        A number's effect is the derivative of the mean, taken through the formula. That of
        a category is the change from its first level to each of the others.

        Parameters
        ----------
        data : DataFrame or another table, optional
            Rows to average over. Without it the fit's own, where the regressors tell the
            variables: a formula with `np.log(price)` alone needs the data.
        at : {"overall", "mean"}
            Averages of the rows' effects, or effects at the average row: numbers at their
            means, categories at their shares.
        variables : str or list of str, optional
            All of the formulas' if left out.
        conf_level : float
            What intervals cover.
        **columns
            As in `predict`.

        Returns
        -------
        DataFrame
            Columns component (a number, or "overall": weighted by class probabilities, which
            change as well where the variable is a concomitant), variable, contrast,
            estimate, std_error (delta method), z, p_value, conf_low, conf_high. In a choice
            model effects are on the share of the alternative that changes.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.margins()["component"].tolist()
        [1, 2, 'overall']
        """
        columns = read_columns("margins", data, columns)
        return margins.margins(self, data, at, variables, conf_level, columns)

    def to_marginaleffects(self, data: Any, which: str = "component") -> Any:
        """The fit as the package marginaleffects takes models.

        Parameters
        ----------
        data : DataFrame
            Rows that the package averages over, which a fit does not keep.
        which : {"component", "mean"}
            Predictions of each component, as groups, or of the mixture.

        Returns
        -------
        object
            For `marginaleffects.avg_slopes`, `predictions`, `comparisons` and so on.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> model = res.to_marginaleffects(tone)
        >>> model.get_coef().round(2).tolist()[:2]
        [1.56, 0.22]
        """
        return marginal_model(self, data, which)

    # The same fit, told otherwise

    def relabel(self, order: Any = None, by: str | None = None) -> Self:
        """The same fit with its components numbered otherwise.

        Parameters
        ----------
        order : list of int, optional
            Each of 1..k once: the component that comes first, and so on.
        by : str, optional
            A term: components in the order of its coefficients, smallest first.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> bool(res.relabel([2, 1]).weights.iloc[0] == res.weights.iloc[1])
        True
        """
        moved = read_order(self, order, by)
        solution = None if self._solution is None else self._solution.permute(moved)
        return self._told_anew(self.fitted.permute(self.spec.layout, moved), solution)

    def _told_anew(self, fitted: Fitted, solution: Solution | None) -> Self:
        """The same fit with other numbers, or other errors; diagnostics depend on neither."""
        made = type(self)(self.model, fitted, solution, self._options)
        made.__dict__ |= {name: self.__dict__[name] for name in KEPT if name in self.__dict__}
        return made

    def with_cov(
        self, cov_type: str, cov_kwds: dict[str, Any] | None = None, *, data: Any = None
    ) -> Self:
        """The same fit with standard errors of another kind.

        Parameters
        ----------
        cov_type : {"oim", "opg", "robust", "cluster", "none"}
        cov_kwds : dict, optional
            For "cluster": `{"groups": array}`, one entry a row; the model's groups if None.
        data : DataFrame or another table, optional
            The rows that the model was fitted to, where they are gone.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.with_cov("robust").cov_type
        'robust'
        """
        if self._solution is None and data is None:
            raise NotAvailableError(
                "a fit from a file does not keep the sums of other standard errors; give the rows "
                "that it was fitted to, with_cov(cov_type, data=data)"
            )
        res = on_own_rows(self, data)
        made, solution = new_errors(res, self._solution, cov_type, cov_kwds)
        return self._told_anew(replace(self.fitted, estimate=made), solution)
