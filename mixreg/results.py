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

from mixreg import segments as market
from mixreg.diagnostics import Diagnostics, diagnose
from mixreg.errors import InputError, NotAvailableError
from mixreg.fitting import Options, Solution, average_prior
from mixreg.inference.delta import willingness_to_pay
from mixreg.inference.estimate import Estimate
from mixreg.params import Parameters, log_gating
from mixreg.ppl.draws import draw_vectors, predictive, stack_of
from mixreg.ppl.inference_data import to_arviz
from mixreg.ppl.sampling import initial_point, sample
from mixreg.prediction import predict, simulate
from mixreg.pruning import alive
from mixreg.responses import check_one_response
from mixreg.summary import make_summary

if TYPE_CHECKING:
    from statsmodels.iolib.summary import Summary

    from mixreg.inference.bootstrap import Bootstrap
    from mixreg.model import MixReg

Array = NDArray[np.float64]


def check_alpha(alpha: Any) -> float:
    """A level of significance, between 0 and 1."""
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie between 0 and 1; got {alpha!r}")
    return float(alpha)


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
        options: Options,
    ) -> None:
        self.model = model
        self.solution = solution
        self.method = options.method
        self.options = options
        self._estimate = estimate
        self._posterior = posterior
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
    def classes(self) -> pd.Index:
        """Labels that occur: the components, and 0 for the background if there is one."""
        numbers = [*self.components, *([0] if self.model.noise else [])]
        return pd.Index(numbers, name="component") if self.model.noise else self.components

    @property
    def alive(self) -> list[int]:
        """Components that hold rows; variational Bayes empties those it does not need."""
        beliefs = self.solution.beliefs
        if beliefs is None:
            return list(self.components)
        held = alive(beliefs, self.options.priors)
        return [int(j) for j in self.components[held]]

    @property
    def elbo(self) -> float:
        """Evidence lower bound of variational Bayes, in the user's units."""
        if self.solution.elbo is None:
            raise NotAvailableError("only method='vb' has a lower bound; see llf for this fit")
        return self.model._whitening.log_likelihood(self.solution.elbo)

    @property
    def weights(self) -> pd.Series:
        """Mixing weights by component; averages where they depend on concomitants."""
        return pd.Series(self._weights, self.classes, name="weight")

    @cached_property
    def _weights(self) -> Array:
        return average_prior(self.model.source, self._estimate.params)

    def _average_gate(self) -> Parameters:
        """The mixture with class probabilities at their averages."""
        params = self._estimate.params
        return Parameters(params.coef, params.dispersion, log_gating(self._weights))

    @property
    def coefficients(self) -> pd.DataFrame:
        """Coefficients, terms x components."""
        return pd.DataFrame(
            self._estimate.params.coef.T,
            pd.Index(self.model.design.terms, name="term"),
            self.components,
        )

    @property
    def scale(self) -> pd.Series | pd.DataFrame:
        """Residual standard deviation by component; the dispersion in other families.

        With several responses a DataFrame, with a column for each that has one.
        """
        family = self.model.family
        values = self._estimate.params.dispersion**family.scale_power
        if isinstance(family.scale_name, tuple):
            frame = pd.DataFrame(values, self.components, list(family.scale_name))
            return frame[self.model.layout.scale_names]
        return pd.Series(values, self.components, name=family.dispersion_name or "scale")

    @property
    def gate(self) -> pd.DataFrame:
        """Coefficients of the class probabilities, concomitants x components.

        The first component is the reference.
        """
        design = self.model.gate_design
        if design is None:
            raise NotAvailableError(
                "class probabilities are constant; declare concomitant='~ age' to model them"
            )
        gate = self._estimate.params.gating
        return pd.DataFrame((gate - gate[:1]).T, pd.Index(design.terms, name="term"), self.classes)

    # Labels

    @property
    def posterior(self) -> pd.DataFrame:
        """Probability of each component, rows of the data x components."""
        rows = self.model.units.to_rows(self._posterior.T, self.nobs)
        return pd.DataFrame(rows, self.model.index, self.classes)

    @property
    def labels(self) -> pd.Series:
        """Most likely component of each row."""
        return pd.Series(
            self.model.units.to_rows(self._unit_labels, self.nobs),
            self.model.index,
            name="component",
        )

    @property
    def _unit_labels(self) -> NDArray[np.int64]:
        return np.asarray(self.classes.to_numpy()[self._posterior.argmax(axis=0)])

    @property
    def group_posterior(self) -> pd.DataFrame:
        """Probability of each component, groups x components."""
        return pd.DataFrame(self._posterior.T, self._groups(), self.classes)

    @property
    def group_labels(self) -> pd.Series:
        """Most likely component of each group."""
        return pd.Series(self._unit_labels, self._groups(), name="component")

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

    def bootstrap(self, n: int = 200, kind: str = "parametric", **options: Any) -> Bootstrap:
        """Refit to data made anew `n` times; see `mixreg.inference.bootstrap.bootstrap`.

        Parameters
        ----------
        n : int
            Number of replicates.
        kind : {"parametric", "case", "group"}
            Draw responses from the fit, or rows or whole groups with replacement.
        **options
            `seed`, `n_jobs`, `progress`, `n_init`.
        """
        from mixreg.inference.bootstrap import bootstrap

        return bootstrap(self, n, kind, **options)

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
        return self.model._whitening.rows / len(self.model.responses) - self.df_model

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
        if len(self.classes) == 1:
            return 1.0
        return 1 - self.entropy / (self.n_units * float(np.log(len(self.classes))))

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
            return white.hard_objective(history)
        return history - white.log_volume

    # Reports

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """The paper's quantities, and what they mean here."""
        weights = self._weights[: self.k]
        return diagnose(self.solution, self.model._whitening, self.nobs, self.entropy_r2, weights)

    def summary(self, alpha: float = 0.05) -> Summary:
        """Tables in statsmodels' look: text, HTML, LaTeX, CSV."""
        return make_summary(self, check_alpha(alpha))

    def _repr_html_(self) -> str:
        return str(self.summary().as_html())

    # Predictions

    def predict(self, new: Any = None, which: str = "mean", **columns: Any) -> Any:
        """Predict for new data, or for the model's own rows.

        Parameters
        ----------
        new : DataFrame or array, optional
            New data through the same formula.
        which : {"mean", "component", "posterior", "label"}
            "mean": expected response, averaged over components by weight.
            "component": expected response in each component. With
            family="choice" these are shares of the alternatives of a set. With
            several responses, columns are responses, and pairs (response,
            component).
            "posterior": probability of each component, given the responses of
            the row or its group if `new` has them; otherwise what the fit knows
            of the group; otherwise the class probabilities. "label": the most
            probable component. Of several responses, those that `new` has count.
        **columns : array, optional
            `groups`, `offset`, `exposure`, `trials`, `choice_set` or `concomitant`
            of the new rows, where `new` has no column of that name. Without a choice set,
            all rows are one. With several responses, dicts as in `from_formula`.

        Returns
        -------
        Series or DataFrame with the index of `new`; rows with missing
        regressors are NaN (labels: <NA>).
        """
        known = {"groups", "offset", "exposure", "trials", "choice_set", "concomitant"}
        unknown = set(columns) - known
        if unknown:
            raise InputError(f"predict does not know {', '.join(sorted(unknown))}")
        return predict(self, new, which, columns)

    def assign(self, new: Any, **columns: Any) -> pd.DataFrame:
        """Place new customers: label, certainty and probabilities of each new row.

        Parameters
        ----------
        new, **columns
            As in `predict`.
        """
        posterior = self.predict(new, "posterior", **columns)
        label = self.predict(new, "label", **columns)
        first = pd.DataFrame({"component": label, "certainty": posterior.max(axis=1)})
        named = posterior.rename(columns=lambda j: f"p{j}")
        return first.join(named) if first.index.is_unique else pd.concat([first, named], axis=1)

    def simulate(self, seed: int = 0) -> pd.DataFrame:
        """Draw responses and labels from the fit, for the model's own rows.

        Returns
        -------
        DataFrame
            A column with the name of each response and a column "component",
            indexed like the data.
        """
        return simulate(self, seed)

    # Segments

    def segments(self) -> pd.DataFrame:
        """Size, share, certainty, coefficients and elasticities of each segment."""
        return market.segments(self)

    def profile(self, data: pd.DataFrame) -> market.SegmentProfile:
        """Describe the segments by variables that were not in the model."""
        return market.profile(self, data)

    def classification(self) -> market.Classification:
        """Average posterior table and expected misclassification."""
        return market.classification(self)

    def importance(self) -> pd.DataFrame:
        """Conjoint importance of each attribute, in percent."""
        check_one_response(self.model, "importance")
        return market.importance(self)

    def wtp(self, price: str, alpha: float = 0.05) -> pd.DataFrame:
        """Willingness to pay: minus each coefficient over that of the price.

        Parameters
        ----------
        price : str
            The price's term.
        alpha : float
            Intervals cover 1 - alpha.

        Returns
        -------
        DataFrame
            By component and term: wtp, std err (delta method), z, P>|z|, bounds.
        """
        check_one_response(self.model, "wtp")
        return willingness_to_pay(self, price, check_alpha(alpha))

    # Into probabilistic programming

    def posterior_draws(self, n: int = 1000, seed: int = 0) -> pd.DataFrame:
        """Draws of `params`, (n, parameters).

        From the posterior of variational Bayes; for other fits, from the
        asymptotic normal distribution of the estimates.
        """
        return pd.DataFrame(draw_vectors(self, n, seed), columns=self.model.param_names)

    def predictive_draws(self, n: int = 100, seed: int = 0) -> pd.DataFrame:
        """Responses drawn from the posterior predictive distribution, (n, rows)."""
        check_one_response(self.model, "predictive_draws")
        stack = stack_of(self.model.layout, draw_vectors(self, n, seed))
        return pd.DataFrame(predictive(self, stack, seed), columns=self.model.index)

    def to_arviz(self, n: int = 1000, seed: int = 0) -> Any:
        """Draws as ArviZ data: posterior, log-likelihood, posterior predictive, labels."""
        return to_arviz(self, n, seed)

    def initial_point(self) -> dict[str, Array]:
        """Values of the variables of `model.to_pymc()` at the fit, to start chains at."""
        return initial_point(self)

    def sample(
        self,
        draws: int = 1000,
        chains: int = 2,
        seed: int = 0,
        *,
        tune: int = 1000,
        priors: Any = None,
        progress: bool = False,
        **options: Any,
    ) -> Any:
        """Sample the posterior with PyMC, and return ArviZ data.

        Chains start at the fit, and label switching is undone against it.

        Parameters
        ----------
        draws, tune, chains : int
            As in `pymc.sample`.
        seed : int
        priors : Priors, optional
            Weakly informative if None, with Dirichlet(1) weights.
        progress : bool
            Show a progress bar.
        **options
            Passed on to `pymc.sample`, as `nuts_sampler="nutpie"`.
        """
        return sample(self, draws, tune, chains, seed, priors, progress, options)
