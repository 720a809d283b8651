"""MixReg: what the user declares."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment
from tqdm.auto import tqdm

from mixreg import design as designs
from mixreg.errors import ConvergenceWarning, DegenerateFitWarning, InputError
from mixreg.estimators import Control
from mixreg.estimators.expectation import HardAssignment, Posterior, SoftAssignment
from mixreg.families import Gaussian
from mixreg.fitting import Options, Solution, solve
from mixreg.inference.covariance import COV_TYPES
from mixreg.inference.estimate import Estimate, estimate
from mixreg.inference.information import TakeInformation
from mixreg.params import Layout, Parameters
from mixreg.results import MixRegResults
from mixreg.sources import MemorySource
from mixreg.starts.candidates import one_hot
from mixreg.starts.race import Effort
from mixreg.starts.tensor import TensorStart
from mixreg.units import Units, column, make_units, present
from mixreg.whitening import Whitening, triangle, whitening

Array = NDArray[np.float64]

METHODS = ("em", "altmin")


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
        self._declare(design, table, units, k, equal_variance, variance_ratio)
        self.groups_name = groups if isinstance(groups, str) else getattr(groups, "name", None)

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
            frame = frame[mask]
            groups_values = None if groups_values is None else groups_values[mask]
            weights_values = None if weights_values is None else weights_values[mask]
        usable = present(groups_values, weights_values)
        design, table = designs.from_formula(formula, frame, environment, missing, usable)
        units = make_units(groups_values, weights_values, table.kept, table.index)
        model = cls.__new__(cls)
        model._declare(design, table, units, k, equal_variance, variance_ratio)
        model.groups_name = groups if isinstance(groups, str) else getattr(groups, "name", None)
        return model

    def _declare(
        self,
        design: designs.Design,
        table: designs.Table,
        units: Units,
        k: int,
        equal_variance: bool,
        variance_ratio: float,
    ) -> None:
        if not 0 < variance_ratio <= 1:
            raise InputError(f"variance_ratio must lie in (0, 1]; got {variance_ratio}")
        self.design = design
        self.units = units
        self.index = table.index
        self.kept = table.kept
        self.groups_name: Any = None
        x, y = table.x, table.y
        if units.order is not None:
            x, y = x[units.order], y[units.order]
        self.source = MemorySource(x, y, units.weight, units.starts)
        self.k = _check_k(k, self.source)
        self.family = Gaussian(bool(equal_variance), float(variance_ratio))
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
        options = self._options(method, init, n_init, max_iter, tol, seed, resample)
        if cov_type not in COV_TYPES:
            raise InputError(f"cov_type={cov_type!r} is unknown; use one of {', '.join(COV_TYPES)}")
        clusters = self._clusters(cov_type, cov_kwds)
        with tqdm(disable=not progress, desc="mixreg", unit="it") as bar:

            def report(iteration: int, objective: float) -> None:
                bar.update()
                bar.set_postfix(objective=f"{self._whitening.log_likelihood(objective):.4f}")

            source, solution = solve(
                self.source,
                self._whitening,
                self.family,
                self.k,
                options,
                report if progress else None,
            )
        estimated = estimate(
            source, self._whitening, self.layout, self.family, solution, method, cov_type, clusters
        )
        del source
        posterior = self._posterior(estimated.params, method)
        self._warn(solution, estimated)
        return MixRegResults(self, solution, estimated, posterior, options)

    def _options(
        self,
        method: str,
        init: Any,
        n_init: int,
        max_iter: int,
        tol: float,
        seed: int,
        resample: int | None,
    ) -> Options:
        if method not in METHODS:
            raise InputError(f"method={method!r} is unknown; use one of {', '.join(METHODS)}")
        for name, value, least in (("n_init", n_init, 1), ("max_iter", max_iter, 1)):
            if int(value) != value or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}; got {value}")
        if not tol >= 0:
            raise InputError(f"tol must not be negative; got {tol}")
        if resample is not None and (method != "altmin" or resample < 1):
            raise InputError(
                f"resample={resample} needs method='altmin' and a number of parts of at least 1"
            )
        return Options(
            method,  # type: ignore[arg-type]
            self._start(init),
            Effort(int(n_init)),
            Control(int(max_iter), float(tol)),
            seed,
            resample,
        )

    def _start(self, init: Any) -> Any:
        if isinstance(init, TensorStart):
            return init
        if isinstance(init, str):
            if init == "tensor":
                return TensorStart()
            if init in ("auto", "random"):
                return init
            raise InputError(
                f"init={init!r} is unknown; use 'auto', 'tensor', 'random', a TensorStart, "
                "labels 1..k or a table of coefficients"
            )
        if isinstance(init, pd.DataFrame):
            return self._start_from_coefficients(_coefficient_frame(init, self.design.terms))
        values = np.asarray(init)
        if values.ndim == 2:
            return self._start_from_coefficients(values.astype(float))
        return self._start_from_labels(values)

    def _start_from_coefficients(self, coef: Array) -> Parameters:
        if coef.shape != (self.k, len(self.design.terms)) or not np.isfinite(coef).all():
            raise InputError(
                f"init coefficients must be finite, with shape (k, p) = "
                f"({self.k}, {len(self.design.terms)}); got shape {coef.shape}"
            )
        uniform = np.full((self.k, 1), -np.log(self.k))
        params = Parameters(coef, np.ones(self.k), uniform)
        sums = self.source.sweep(HardAssignment(self.family), params.stacked())
        variance = max(float(sums.mean_square[0]), 1e-10 * self._whitening.scale**2)
        return self._whitening.from_user(params.with_equal_dispersion(variance))

    def _start_from_labels(self, labels: NDArray[Any]) -> Array:
        if len(labels) == len(self.kept):
            labels = labels[self.kept]
        units = self.units
        if units.starts is not None and len(labels) == self.nobs:
            ordered = labels if units.order is None else labels[units.order]
            labels = ordered[units.starts]
        if len(labels) != self.source.units:
            raise InputError(
                f"init labels have length {len(labels)}; give one for each of {self.nobs} rows"
                + ("" if self.ngroups is None else f" or {self.ngroups} groups")
            )
        wanted = np.arange(1, self.k + 1)
        if not np.array_equal(np.unique(labels), wanted):
            raise InputError(
                f"init labels must use each of 1..{self.k}; got {np.unique(labels)[:10].tolist()}"
            )
        return one_hot(labels.astype(np.intp) - 1, self.k)

    def _clusters(self, cov_type: str, cov_kwds: dict[str, Any] | None) -> Any:
        kwds = dict(cov_kwds or {})
        groups = kwds.pop("groups", None)
        if kwds:
            raise InputError(f"cov_kwds has unknown keys {', '.join(kwds)}; only 'groups' is known")
        if cov_type != "cluster":
            if groups is not None:
                raise InputError("cov_kwds['groups'] is only used with cov_type='cluster'")
            return None
        if groups is None:
            raise InputError("cov_type='cluster' needs cov_kwds={'groups': array}")
        codes = pd.factorize(np.asarray(groups))[0]
        if len(codes) == len(self.kept):
            codes = codes[self.kept]
        if len(codes) != self.nobs:
            raise InputError(f"cov_kwds['groups'] has length {len(codes)}; give {self.nobs}")
        units = self.units
        if units.starts is not None:
            codes = (codes if units.order is None else codes[units.order])[units.starts]
        return pd.factorize(codes)[0].astype(np.intp)

    def _posterior(self, params: Parameters, method: str) -> Array:
        """Posterior probabilities (k, units); for "altmin" they are 0 or 1."""
        if method == "altmin":
            tiny = 1e-24 * self._whitening.scale**2
            uniform = np.full((self.k, 1), -np.log(self.k))
            params = Parameters(params.coef, np.full(self.k, tiny), uniform)
        return self.source.sweep(Posterior(self.family), params).join()

    def _warn(self, solution: Solution, estimated: Estimate) -> None:
        fit = solution.fit
        if fit.reason == "max_iter":
            warnings.warn(
                f"stopped after max_iter={fit.n_iter} iterations before converging; raise max_iter",
                ConvergenceWarning,
                stacklevel=3,
            )
        if fit.reason == "decreased":
            warnings.warn(
                f"the objective fell below {fit.objective:.6g} and no shorter step raised it; "
                "check for extreme values",
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
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"k must be a whole number of at least 1; got {k!r}")
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
    return int(k)


def _as_data(data: Any) -> pd.DataFrame:
    try:
        frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)
    except (TypeError, ValueError) as error:
        raise InputError(f"data must be a DataFrame or a dict of columns ({error})") from error
    if len(frame) == 0:
        raise InputError("data is empty; give a DataFrame with at least one row")
    return frame


def _subset_mask(frame: pd.DataFrame, subset: Any) -> NDArray[np.bool_]:
    if isinstance(subset, str):
        try:
            subset = frame.eval(subset)
        except Exception as error:
            raise InputError(f"subset={subset!r} cannot be evaluated: {error}") from error
    values = np.asarray(subset)
    if values.dtype == bool:
        if len(values) != len(frame):
            raise InputError(f"subset has length {len(values)}, but data has {len(frame)} rows")
        return values
    return np.asarray(frame.index.isin(values))


def _coefficient_frame(frame: pd.DataFrame, terms: tuple[str, ...]) -> Array:
    absent = [term for term in terms if term not in frame.index]
    if absent:
        raise InputError(
            f"init coefficients lack rows for {', '.join(absent)}; use a table like "
            "results.coefficients, terms x components"
        )
    return frame.loc[list(terms)].to_numpy(dtype=float).T


def _flat(params: Any, layout: Layout) -> Array:
    vector = np.asarray(params, dtype=float)
    if vector.shape != (layout.size,):
        raise InputError(f"params must have shape ({layout.size},); got {vector.shape}")
    return vector
