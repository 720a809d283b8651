"""MixReg: what the user declares."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment
from tqdm.auto import tqdm

from mixreg import concomitant as gates
from mixreg import design as designs
from mixreg.declare import RowColumns, declare, known_by_group, whole_sets
from mixreg.errors import ConvergenceWarning, DegenerateFitWarning, InputError
from mixreg.estimators.expectation import Posterior, SoftAssignment
from mixreg.fitting import Options, Problem, Solution
from mixreg.inference.estimate import Estimate, fit_problem
from mixreg.inference.information import TakeInformation
from mixreg.mixture import Mixture
from mixreg.options import (
    absent_terms,
    as_data,
    check_cov_type,
    check_differences,
    check_k,
    cluster_codes,
    flat,
    make_options,
    make_start,
    shared_terms,
    subset_mask,
)
from mixreg.params import Layout
from mixreg.ppl.pymc_model import to_pymc
from mixreg.priors import Priors
from mixreg.responses import (
    Given,
    families_of,
    joint_design,
    joint_family,
    make_responses,
    of_responses,
    read_formulas,
    resolved,
    stacked,
    standard_coordinates,
)
from mixreg.results import MixRegResults

Array = NDArray[np.float64]


class MixReg:
    """A mixture of regressions.

    Parameters
    ----------
    endog : (n,) array or Series
        Response. With family="binomial", (n, 2) are successes and failures.
    exog : (n, p) array or DataFrame
        Regressors. A constant is not added; include one if you want intercepts.
    k : int
        Number of components.
    groups : (n,) array, optional
        All rows of a group share one label.
    weights : (n,) array, optional
        Case weights, constant within groups: a row (or group) with weight 2
        counts as two. With binomial proportions and no `trials`, the trials.
    concomitant : (n, q) array or DataFrame, optional
        Variables on which class probabilities depend; include a constant.
        Constant within groups.
    family : str, statsmodels family or Family
        "gaussian", "poisson", "negativebinomial", "binomial", "gamma" or
        "choice"; or a family of your own, derived from `mixreg.families.Family`.
    link : str or statsmodels link, optional
        The family's canonical link if None (for "negativebinomial", log).
    shared : list of str, optional
        Terms whose coefficients are the same in all components.
    only : dict, optional
        Terms that only some components have: `{"price": [1, 2]}`. Components
        then keep their numbers instead of being ordered by weight.
    choice_set : (n,) array, optional
        With family="choice": rows that were offered together. Sets lie within
        groups.
    known_labels : (n,) array or dict, optional
        Component of rows (or groups) whose label is known, missing for the
        others; a dict maps groups to labels. Components then keep these numbers
        instead of being ordered by weight.
    noise : bool
        Add a background component that spreads evenly over the range of the
        response, for rows that belong to no segment. Its label is 0.
    offset, exposure : (n,) array, optional
        Known part of the linear predictor; exposure enters by its logarithm.
    trials : (n,) array, optional
        Trials behind binomial proportions.
    equal_variance : bool
        One residual variance (or dispersion) for all components.
    variance_ratio : float
        Gaussian only. Smallest residual variance as a share of the largest.
        Without such a bound the likelihood is infinite at fits that single out
        a few rows.
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
        concomitant: Any = None,
        family: Any = "gaussian",
        link: Any = None,
        shared: Any = None,
        only: Any = None,
        choice_set: Any = None,
        known_labels: Any = None,
        noise: bool = False,
        offset: Any = None,
        exposure: Any = None,
        trials: Any = None,
        equal_variance: bool = False,
        variance_ratio: float = 1e-4,
        missing: str = "drop",
    ) -> None:
        _check_missing_option(missing)
        made = families_of(family, link, equal_variance, variance_ratio, [""])[0]
        frame = exog if isinstance(exog, pd.DataFrame) else None
        given = RowColumns(groups, weights, offset, exposure, trials, choice_set, known_labels)
        columns = known_by_group(given, frame, None)
        gates.check_index(concomitant, exog, endog)
        usable = _both(columns.usable(), gates.usable_rows(concomitant, None, None, missing))
        counts = made.name == "binomial"
        design, table = designs.from_arrays(endog, exog, missing, usable, counts)
        table, gate = whole_sets(table, columns, made), None
        if concomitant is not None:
            gate = gates.concomitants(concomitant, None, None, table.kept, table.index)
        self._declare(
            [Given(design, table, columns, given.names(), made)], gate, k, shared, only, noise
        )

    @classmethod
    def from_formula(
        cls,
        formula: str | Sequence[str],
        data: Any = None,
        *,
        k: int,
        groups: Any = None,
        weights: Any = None,
        concomitant: str | None = None,
        family: Any = "gaussian",
        link: Any = None,
        shared: Any = None,
        only: Any = None,
        choice_set: Any = None,
        known_labels: Any = None,
        noise: bool = False,
        offset: Any = None,
        exposure: Any = None,
        trials: Any = None,
        subset: Any = None,
        missing: str = "drop",
        equal_variance: bool = False,
        variance_ratio: float = 1e-4,
        eval_env: int = 0,
    ) -> MixReg:
        """Declare a mixture of regressions by a formula.

        Parameters
        ----------
        formula : str or list of str
            As in patsy: `"y ~ x1 + C(region) + np.log(price)"`. With
            family="binomial" the left side may be `successes + failures`; with
            family="choice" an intercept is left out. A list has one formula for
            each of several responses that share a label and are independent
            given it; terms are then named `"y: x1"`, family and link may be
            lists, and offset, exposure and trials are dicts by response.
        data : DataFrame, optional
            Without data, names are looked up where this is called.
        k : int
            Number of components.
        groups, weights, choice_set, known_labels, offset, exposure, trials : optional
            A column's name or an array; see `MixReg`.
        concomitant : str, optional
            Formula of the class probabilities, such as `"~ age + income"`.
        subset : str, bool array or index labels, optional
            Rows to use: a query such as `"year > 2000"`, a mask, or labels.
        missing : {"drop", "raise"}
            What to do with rows that have missing values.
        family, link, shared, only, noise, equal_variance, variance_ratio
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
        several = isinstance(formula, (list, tuple))
        formulas: list[Any] = list(formula) if several else [formula]
        families = families_of(family, link, equal_variance, variance_ratio, formulas)
        environment = EvalEnvironment.capture(eval_env, reference=1)
        frame = None if data is None else as_data(data)
        given = RowColumns(groups, weights, offset, exposure, trials, choice_set, known_labels)
        each = of_responses(given, formulas)
        columns, usable = resolved(each, frame, environment.namespace)
        if subset is not None:
            if frame is None:
                raise InputError("subset needs data; pass a DataFrame")
            mask = subset_mask(frame, subset)
            if not mask.any():
                raise InputError(f"subset={subset!r} chooses no rows of data")
            frame, columns = frame[mask], [one.choose(mask) for one in columns]
            usable = None if usable is None else usable[mask]
        usable = _both(usable, gates.usable_rows(concomitant, frame, environment, missing))
        names = [one.names() for one in each]
        parts = read_formulas(
            formulas, families, columns, names, frame, environment, missing, usable
        )
        gate = None
        if concomitant is not None:
            table = parts[0].table
            gate = gates.concomitants(concomitant, frame, environment, table.kept, table.index)
        model = cls.__new__(cls)
        model._declare(parts, gate, k, shared, only, noise)
        return model

    def _declare(
        self,
        given: list[Given],
        gate: tuple[designs.Design, Array] | None,
        k: int,
        shared: Any,
        only: Any,
        noise: bool,
    ) -> None:
        table, names = given[0].table, given[0].names
        self.index, self.kept, self.noise = table.index, table.kept, bool(noise)
        self.column_names, self.groups_name = names, names["groups"] or names["choice_set"]
        self.gate_design = None if gate is None else gate[0]
        z = None if gate is None else gate[1]
        parts = [declare(g.table, g.columns, g.family, z, k, self.noise) for g in given]
        sources = [part.source for part in parts]
        self.k = min(check_k(k, source) for source in sources)
        self.units, self.sets, self.offset = parts[0].units, parts[0].sets, parts[0].offset
        self.design, self.source = joint_design(given), stacked(sources)
        self.responses, design = make_responses(given, parts), self.design
        common = shared_terms(shared, design)
        equal = any(g.family.equal_dispersion for g in given)
        self.family = family = joint_family(given, common, equal)
        check_differences(self.k, design, common, family)
        absent = absent_terms(only, design, common, self.k)
        gate_terms = () if self.gate_design is None else self.gate_design.terms
        self.layout = Layout(
            self.k,
            design.terms,
            family.equal_dispersion,
            family.scale_name,
            family.scale_power,
            common,
            gate_terms,
            self.noise,
            absent,
        )
        lengths = tuple(response.length for response in self.responses)
        background = lengths[0] if len(lengths) == 1 else lengths
        order = [i for i in range(len(design.terms)) if i not in common] + list(common)
        self.mixture = Mixture(
            family,
            len(common),
            background if self.noise else None,
            max(1, len(gate_terms)),
            self.source.known is not None,
            tuple((j, order.index(i)) for j, i in absent),
        )
        self._whitening = standard_coordinates(self.source, family, self.layout)

    def problem(self) -> Problem:
        """The fit as arrays, which can be sent to another process."""
        background = self._whitening.background(self.mixture.background)
        mixture = replace(self.mixture, background=background)
        return Problem(self.source, mixture, self._whitening, self.k)

    def to_pymc(self, priors: Priors | None = None) -> Any:
        """Build a PyMC model of the same mixture, labels summed out.

        Its variables `coef`, `scale`, `weights` and `gate` are in the user's
        units and have the dimensions `component`, `term`, `class` and
        `gate_term`; those that are sampled (`beta`, ...) belong to standardised
        regressors.

        Parameters
        ----------
        priors : Priors, optional
            Weakly informative if None, with Dirichlet(1) weights.
        """
        return to_pymc(self, priors)

    @property
    def nobs(self) -> int:
        """Number of rows (of the data: several responses of a row count once)."""
        return len(self.index)

    @property
    def ngroups(self) -> int | None:
        """Number of groups, or None."""
        return None if self.units.starts is None else self.units.starts.shape[0]

    @property
    def endog_names(self) -> str:
        """Name of the response."""
        return self.design.response

    @property
    def response_names(self) -> list[str]:
        """Names of all responses."""
        return [response.name for response in self.responses]

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
        at = self.layout.unpack(flat(params, self.layout)).stacked()
        return float(self.source.sweep(SoftAssignment(self.mixture), at).objective[0])

    def score(self, params: Any) -> Array:
        """Gradient of the log-likelihood at a flat parameter vector."""
        at = self.layout.unpack(flat(params, self.layout))
        return self.source.sweep(TakeInformation(self.mixture), at).contract(self.layout).score

    def hessian(self, params: Any) -> Array:
        """Second derivatives of the log-likelihood at a flat parameter vector."""
        at = self.layout.unpack(flat(params, self.layout))
        sums = self.source.sweep(TakeInformation(self.mixture), at).contract(self.layout)
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
        priors: Priors | None = None,
        cov_type: str = "oim",
        cov_kwds: dict[str, Any] | None = None,
        progress: bool = False,
    ) -> MixRegResults:
        """Find the components.

        Parameters
        ----------
        method : {"em", "altmin", "vb"}
            Maximum likelihood by EM, alternating minimisation (hard EM), or
            variational Bayes (linear regressions).
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
        priors : Priors, optional
            With "vb"; weakly informative if None.
        cov_type : {"oim", "opg", "robust", "cluster", "none"}
            How standard errors are made.
        cov_kwds : dict, optional
            For "cluster": `{"groups": array}`, one entry a row.
        progress : bool
            Show a progress bar.
        """
        source, units, white = self.source, self.units, self._whitening
        start = make_start(init, self)
        options = make_options(method, start, n_init, max_iter, tol, seed, resample, priors, self)
        check_cov_type(cov_type, method)
        if method == "altmin" and self.noise:
            raise InputError(
                "method='altmin' has no background component; use method='em', or noise=False"
            )
        clusters = cluster_codes(cov_type, cov_kwds, units, self.kept, self.nobs)
        problem, counted = self.problem(), source.counted()
        if counted is not None:
            # Units that do not count are left out of the fit, not of the labels.
            problem = replace(problem, source=source.take_units(counted))
            clusters = None if clusters is None else pd.factorize(clusters[counted])[0]
            if isinstance(start, np.ndarray):
                options = replace(options, init=start[:, counted])
        with tqdm(disable=not progress, desc="mixreg", unit="it") as bar:

            def report(iteration: int, objective: float) -> None:
                bar.update()
                if method != "altmin":
                    bar.set_postfix(llf=f"{white.log_likelihood(objective):.4f}")
                else:
                    bar.set_postfix(loss=f"{-white.hard_objective(objective):.4g}")

            solution, estimated = fit_problem(
                problem, self.layout, options, cov_type, clusters, report if progress else None
            )
        self._warn(solution)
        return self._results(solution, estimated, options)

    def _results(self, solution: Solution, estimated: Estimate, options: Options) -> MixRegResults:
        """Put a finished fit and the model together."""
        task = Posterior(self.mixture, hard=options.method == "altmin")
        posterior = self.source.sweep(task, estimated.params).join()
        return MixRegResults(self, solution, estimated, posterior, options)

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


def _both(
    one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other
