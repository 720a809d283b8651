"""MixReg: what the user declares."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment
from tqdm.auto import tqdm

from mixreg import design as designs
from mixreg.errors import ConvergenceWarning, DegenerateFitWarning, InputError
from mixreg.estimators.expectation import Posterior, SoftAssignment
from mixreg.families import Gaussian
from mixreg.fitting import Solution, solve
from mixreg.inference.estimate import estimate
from mixreg.inference.information import TakeInformation
from mixreg.options import (
    check_cov_type,
    cluster_codes,
    make_options,
    make_start,
    number,
    whole,
)
from mixreg.params import Layout, Parameters
from mixreg.results import MixRegResults
from mixreg.sources import MemorySource
from mixreg.units import Units, column, make_units, present
from mixreg.whitening import Whitening, triangle, whitening

Array = NDArray[np.float64]


class MixReg:
    """A mixture of linear regressions.

    Parameters
    ----------
    endog : (n,) array or Series
        Response.
    exog : (n, p) array or DataFrame
        Regressors. A constant is not added; include one if you want intercepts.
    k : int
        Number of components.
    groups : (n,) array, optional
        All rows of a group share one label.
    weights : (n,) array, optional
        Case weights, constant within groups: a row (or group) with weight 2
        counts as two.
    equal_variance : bool
        One residual variance for all components.
    variance_ratio : float
        Smallest residual variance as a share of the largest. Without such a
        bound the likelihood is infinite at fits that single out a few rows.
    missing : {"drop", "raise"}
        What to do with rows that have missing values.
    """

    def __init__(
        self,
        endog: Any,
        exog: Any,
        k: int,
        *,
        groups: Any = None,
        weights: Any = None,
        equal_variance: bool = False,
        variance_ratio: float = 1e-4,
        missing: str = "drop",
    ) -> None:
        _check_missing_option(missing)
        frame = exog if isinstance(exog, pd.DataFrame) else None
        groups_values = column("groups", groups, frame, None)
        weights_values = column("weights", weights, frame, None)
        usable = present(groups_values, weights_values)
        design, table = designs.from_arrays(endog, exog, missing, usable)
        units = make_units(groups_values, weights_values, table.kept, table.index)
        name = groups if isinstance(groups, str) else getattr(groups, "name", None)
        self._declare(design, table, units, name, k, equal_variance, variance_ratio)

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Any = None,
        *,
        k: int,
        groups: Any = None,
        weights: Any = None,
        subset: Any = None,
        missing: str = "drop",
        equal_variance: bool = False,
        variance_ratio: float = 1e-4,
        eval_env: int = 0,
    ) -> MixReg:
        """Declare a mixture of regressions by a formula.

        Parameters
        ----------
        formula : str
            As in patsy: `"y ~ x1 + C(region) + np.log(price)"`.
        data : DataFrame, optional
            Without data, names are looked up where this is called.
        k : int
            Number of components.
        groups, weights : str or (n,) array, optional
            A column's name or an array; see `MixReg`.
        subset : str, bool array or index labels, optional
            Rows to use: a query such as `"year > 2000"`, a mask, or labels.
        missing : {"drop", "raise"}
            What to do with rows that have missing values.
        equal_variance, variance_ratio
            See `MixReg`.
        eval_env : int
            Frames to go up when looking for names; 0 is the caller.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.fit().weights.round(2).tolist()
        [0.63, 0.37]
        """
        _check_missing_option(missing)
        environment = EvalEnvironment.capture(eval_env, reference=1)
        frame = None if data is None else _as_data(data)
        groups_values = column("groups", groups, frame, environment.namespace)
        weights_values = column("weights", weights, frame, environment.namespace)
        if subset is not None:
            if frame is None:
                raise InputError("subset needs data; pass a DataFrame")
            mask = _subset_mask(frame, subset)
            if not mask.any():
                raise InputError(f"subset={subset!r} chooses no rows of data")
            frame = frame[mask]
            groups_values = None if groups_values is None else groups_values[mask]
            weights_values = None if weights_values is None else weights_values[mask]
        usable = present(groups_values, weights_values)
        design, table = designs.from_formula(formula, frame, environment, missing, usable)
        units = make_units(groups_values, weights_values, table.kept, table.index)
        model = cls.__new__(cls)
        name = groups if isinstance(groups, str) else getattr(groups, "name", None)
        model._declare(design, table, units, name, k, equal_variance, variance_ratio)
        return model

    def _declare(
        self,
        design: designs.Design,
        table: designs.Table,
        units: Units,
        groups_name: Any,
        k: int,
        equal_variance: bool,
        variance_ratio: float,
    ) -> None:
        ratio = number("variance_ratio", variance_ratio, 1e-12, 1.0)
        if ratio == 1:
            raise InputError("variance_ratio=1 means one variance; use equal_variance=True")
        self.design = design
        self.units = units
        self.index = table.index
        self.kept = table.kept
        self.groups_name = groups_name
        x, y = units.sort(table.x), units.sort(table.y)
        self.source = MemorySource(x, y, units.weight, units.starts)
        self.k = _check_k(k, self.source)
        self.family = Gaussian(bool(equal_variance), ratio)
        self.layout = Layout(self.k, design.terms, self.family.equal_variance)
        self._whitening: Whitening = whitening(self.source.sweep(triangle), design.terms)

    @property
    def nobs(self) -> int:
        """Number of rows."""
        return self.source.rows

    @property
    def ngroups(self) -> int | None:
        """Number of groups, or None."""
        return None if self.units.starts is None else self.units.starts.shape[0]

    @property
    def endog_names(self) -> str:
        """Name of the response."""
        return self.design.response

    @property
    def exog_names(self) -> list[str]:
        """Names of the regressors."""
        return list(self.design.terms)

    @property
    def param_names(self) -> list[str]:
        """Names of the free parameters, `term[component]`."""
        return self.layout.names

    def loglike(self, params: Any) -> float:
        """Log-likelihood at a flat parameter vector, in the order of `param_names`."""
        at = self.layout.unpack(_flat(params, self.layout)).stacked()
        return float(self.source.sweep(SoftAssignment(self.family), at).objective[0])

    def score(self, params: Any) -> Array:
        """Gradient of the log-likelihood at a flat parameter vector."""
        at = self.layout.unpack(_flat(params, self.layout))
        return self.source.sweep(TakeInformation(self.family), at).contract(self.layout).score

    def hessian(self, params: Any) -> Array:
        """Second derivatives of the log-likelihood at a flat parameter vector."""
        at = self.layout.unpack(_flat(params, self.layout))
        sums = self.source.sweep(TakeInformation(self.family), at).contract(self.layout)
        return -sums.information

    def fit(
        self,
        method: str = "em",
        init: Any = "auto",
        *,
        n_init: int = 16,
        max_iter: int = 1000,
        tol: float = 1e-10,
        seed: int = 0,
        resample: int | None = None,
        cov_type: str = "oim",
        cov_kwds: dict[str, Any] | None = None,
        progress: bool = False,
    ) -> MixRegResults:
        """Find the components.

        Parameters
        ----------
        method : {"em", "altmin"}
            Maximum likelihood by EM, or alternating minimisation (hard EM).
        init : {"auto", "tensor", "random"}, TensorStart, labels or coefficients
            "auto" is a race of many starts followed by a swap search, "tensor"
            the tensor start alone. Labels 1..k are an array with one entry a
            row (or group); coefficients a (k, p) array or a DataFrame like
            `results.coefficients`.
        n_init : int
            How hard "auto" looks: starts in a round of the race. The swap
            search grows with it. 1 means one tensor start and no swaps.
        max_iter : int
            Most iterations of the final run.
        tol : float
            Stop when an iteration gains less than `tol` a row.
        seed : int
            Same seed, same result, to the last bit.
        resample : int, optional
            With "altmin": split the data into this many parts and use a fresh
            one in each iteration, as the paper's Algorithm 3.
        cov_type : {"oim", "opg", "robust", "cluster", "none"}
            How standard errors are made.
        cov_kwds : dict, optional
            For "cluster": `{"groups": array}`, one entry a row.
        progress : bool
            Show a progress bar.
        """
        source, units, white = self.source, self.units, self._whitening
        start = make_start(
            init, source, units, self.kept, self.k, self.design.terms, self.family, white
        )
        options = make_options(method, start, n_init, max_iter, tol, seed, resample, source.units)
        check_cov_type(cov_type, method)
        clusters = cluster_codes(cov_type, cov_kwds, units, self.kept, self.nobs)
        counted = source.counted()
        if counted is not None:
            # Units that do not count are left out of the fit, not of the labels.
            source = source.take_units(counted)
            clusters = None if clusters is None else pd.factorize(clusters[counted])[0]
            if isinstance(start, np.ndarray):
                options = replace(options, init=start[:, counted])
        with tqdm(disable=not progress, desc="mixreg", unit="it") as bar:

            def report(iteration: int, objective: float) -> None:
                bar.update()
                if method == "em":
                    bar.set_postfix(llf=f"{white.log_likelihood(objective):.4f}")
                else:
                    bar.set_postfix(loss=f"{-objective * white.scale**2:.4g}")

            standard, solution = solve(
                source, white, self.family, self.k, options, report if progress else None
            )
        estimated = estimate(
            standard, white, self.layout, self.family, solution, method, cov_type, clusters
        )
        del standard
        rule = self._labelling(estimated.params, method)
        posterior = self.source.sweep(Posterior(self.family), rule).join()
        self._warn(solution)
        return MixRegResults(self, solution, estimated, posterior, rule, options)

    def _labelling(self, params: Parameters, method: str) -> Parameters:
        """The mixture whose posterior gives the labels.

        AltMin assigns rows by squared error alone: equal weights and a common
        variance near zero say the same.
        """
        if method == "em":
            return params
        return Parameters.uniform(params.coef, 1e-24 * self._whitening.scale**2)

    def _warn(self, solution: Solution) -> None:
        fit = solution.fit
        if fit.reason == "max_iter":
            warnings.warn(
                f"stopped after {fit.n_iter} iterations before converging; raise max_iter",
                ConvergenceWarning,
                stacklevel=3,
            )
        if fit.reason == "decreased":
            warnings.warn(
                "the objective fell and no shorter step raised it; check for extreme values",
                ConvergenceWarning,
                stacklevel=3,
            )
        if solution.empty:
            names = ", ".join(str(j + 1) for j in solution.empty)
            warnings.warn(
                f"component {names} stayed empty after {solution.revived} new seeds; "
                f"try k={self.k - len(solution.empty)}",
                DegenerateFitWarning,
                stacklevel=3,
            )


def _check_missing_option(missing: str) -> None:
    if missing not in ("drop", "raise"):
        raise InputError(f"missing={missing!r} is unknown; use 'drop' or 'raise'")


def _check_k(k: Any, source: MemorySource) -> int:
    k = whole("k", k, 1)
    units = source.units if source.weight is None else int((source.weight > 0).sum())
    if k > units:
        what = "rows" if source.starts is None else "groups"
        raise InputError(f"k={k} is more than the {units} {what}; use a smaller k")
    p = source.x.shape[1]
    if k > 1 and source.rows <= 50 * k * p:
        distinct = len(np.unique(np.column_stack([source.x, source.y]), axis=0))
        if distinct < k * p:
            raise InputError(
                f"k={k} components with {p} coefficients need at least {k * p} distinct rows; "
                f"there are {distinct}; use a smaller k or fewer terms"
            )
    return k


def _as_data(data: Any) -> pd.DataFrame:
    try:
        frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)
    except (TypeError, ValueError) as error:
        raise InputError(f"data must be a DataFrame or a dict of columns ({error})") from error
    if len(frame) == 0:
        raise InputError("data is empty; give a DataFrame with at least one row")
    return frame


def _subset_mask(frame: pd.DataFrame, subset: Any) -> NDArray[np.bool_]:
    """Which rows of a frame a query, a mask or labels choose."""
    text = subset if isinstance(subset, str) else None
    if isinstance(subset, slice):
        raise InputError(f"subset={subset!r} is not known; use a query, a mask or row labels")
    if text is not None:
        try:
            subset = frame.eval(text)
        except Exception as error:
            raise InputError(f"subset={text!r} cannot be evaluated: {error}") from error
    same_rows = isinstance(subset, pd.Series) and len(subset) == len(frame)
    if same_rows and frame.index.is_unique and not subset.index.equals(frame.index):
        subset = subset.reindex(frame.index)
    values = np.asarray(subset)
    if values.dtype == object and set(pd.unique(values)) <= {True, False}:
        values = values.astype(bool)
    if values.dtype == bool:
        if values.shape != (len(frame),):
            raise InputError(f"subset has length {len(values)}, but data has {len(frame)} rows")
        return values
    if text is not None:
        raise InputError(f"subset={text!r} is not a condition; write one, such as 'year > 2000'")
    unknown = [label for label in values.ravel().tolist() if label not in frame.index]
    if unknown:
        raise InputError(f"subset names rows that data does not have: {unknown[:5]}")
    return np.asarray(frame.index.isin(values))


def _flat(params: Any, layout: Layout) -> Array:
    vector = np.asarray(params, dtype=float)
    if vector.shape != (layout.size,):
        raise InputError(f"params must have shape ({layout.size},); got {vector.shape}")
    return vector
