"""MixReg: a mixture of regressions, and how it is fitted."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import ConvergenceWarning, DegenerateFitWarning, InputError
from mixreg.estimators.expectation import SoftAssignment
from mixreg.estimators.priors import Priors
from mixreg.inference.estimate import Estimate
from mixreg.inference.information import TakeInformation
from mixreg.inference.score import value_and_score
from mixreg.jobs.checkpoint import open_journal
from mixreg.jobs.interrupt import OnInterrupt, check_on_interrupt
from mixreg.jobs.job import make_job
from mixreg.jobs.options import check_cov_type, flat, make_options, make_start
from mixreg.jobs.problem import Options, Solution
from mixreg.ppl.likelihood import Likelihood
from mixreg.ppl.pymc_model import to_pymc
from mixreg.report.fitted import make_fitted
from mixreg.results import MixRegResults
from mixreg.sources.base import Standardised
from mixreg.table.arguments import called
from mixreg.table.checks import warn_of_many_components, warn_of_single_answers
from mixreg.table.declaration import Declaration

Array = NDArray[np.float64]

# Arguments of the model that are often given to `fit`.
DECLARED = (
    *("k", "groups", "weights", "concomitant", "family", "link", "shared", "only", "choice_set"),
    *("known_labels", "noise", "offset", "exposure", "trials", "subset", "missing"),
    *("equal_variance", "variance_ratio"),
)


class MixReg(Declaration):
    """A mixture of regressions.

    Parameters
    ----------
    endog : (n,) array or Series
        Response. With family="binomial", (n, 2) are successes and failures.
    exog : (n, p) array or DataFrame
        Regressors, of pandas, polars or Arrow too. A constant is not added;
        include one if you want intercepts.
        Arrays of floats, row by row, are not copied if nothing is missing and
        groups lie together: do not change them while the model is in use.
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
        Smallest residual variance (or dispersion of gamma regressions) as a share
        of the largest.
        Without such a bound the likelihood is infinite at fits that single out
        a few rows.
    missing : {"drop", "raise"}
        What to do with rows that have missing values.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg import MixReg
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=300)
    >>> y = np.where(rng.random(300) < 0.6, 1 + 2 * x, -x) + 0.1 * rng.normal(size=300)
    >>> model = MixReg(y, np.column_stack([np.ones(300), x]), k=2)
    >>> model.fit().coefficients.iloc[1].round(1).tolist()
    [2.0, -1.0]
    """

    def to_pymc(self, priors: Priors | None = None, likelihood: Likelihood = "graph") -> Any:
        """Build a PyMC model of the same mixture, labels summed out.

        Its variables `coef`, `scale`, `weights` and `gate` are in the user's
        units and have the dimensions `component`, `term`, `class` and
        `gate_term`; those that are sampled (`beta`, ...) belong to standardised
        regressors.

        Parameters
        ----------
        priors : Priors, optional
            Weakly informative if None, with Dirichlet(1) weights.
        likelihood : {"graph", "sweep"}
            "graph" is a PyTensor graph of all rows. "sweep" is one operation
            whose value and gradient are made in a pass over the rows, block by
            block: memory does not grow with the rows, and any family will do.
            It has no second derivatives.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> sorted(variable.name for variable in model.to_pymc().free_RVs)
        ['beta', 'dispersion', 'weights']
        """
        return to_pymc(self, priors, likelihood)

    def loglike(self, params: Any) -> float:
        """Log-likelihood at a flat parameter vector, in the order of `param_names`.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> res = model.fit()
        >>> round(model.loglike(res.params), 3), round(res.llf, 3)
        (145.417, 145.417)
        """
        at = self.whitening.from_user(self.layout.unpack(flat(params, self.layout)))
        task = Standardised(SoftAssignment(self.problem().mixture), self.whitening)
        objective = float(self.source.sweep(task, at).objective)
        return self.whitening.log_likelihood(objective)

    def score(self, params: Any) -> Array:
        """Gradient of the log-likelihood at a flat parameter vector.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> res = model.fit()
        >>> bool(abs(model.score(res.params)).max() < 0.001)
        True
        """
        at = self.layout.unpack(flat(params, self.layout))
        _, score = value_and_score(self.source, self.mixture, at)
        return np.asarray(score @ self.layout.contraction())

    def hessian(self, params: Any) -> Array:
        """Second derivatives of the log-likelihood at a flat parameter vector.

        Examples
        --------
        >>> import numpy as np
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> res = model.fit()
        >>> errors = np.sqrt(np.diag(np.linalg.inv(-model.hessian(res.params))))
        >>> np.allclose(errors, res.bse)
        True
        """
        at = self.layout.unpack(flat(params, self.layout))
        sums = self.source.sweep(TakeInformation(self.mixture), at).contract(self.layout)
        return -sums.information

    @called("MixReg.fit", DECLARED)
    def fit(
        self,
        method: str = "em",
        init: Any = "auto",
        *,
        n_init: int | None = None,
        max_iter: int = 1000,
        tol: float = 1e-10,
        seed: int = 0,
        resample: int | None = None,
        priors: Priors | None = None,
        cov_type: str = "oim",
        cov_kwds: dict[str, Any] | None = None,
        progress: bool | None = None,
        on_interrupt: OnInterrupt = "raise",
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> MixRegResults:
        """Find the components.

        Parameters
        ----------
        method : {"em", "altmin", "vb"}
            Maximum likelihood by EM, alternating minimisation (hard EM), or
            variational Bayes, of every family.
        init : {"auto", "tensor", "random"}, TensorStart, labels or coefficients
            "auto" is a search: many starts on few rows, then fewer on more, and
            moves against the best. "tensor" is the tensor start alone. Labels
            1..k are an array with one entry a row (or group); coefficients a
            (k, p) array or a DataFrame like `results.coefficients`.
        n_init : int, optional
            How hard "auto" looks: starts, moves, and what they may cost grow
            with it; 16 if None. 1 means one start, the tensor's if there is one,
            and no moves. With "random": so many starts, each run to its end, and
            the best is kept; 1 if None.
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
            For "cluster": `{"groups": array}`, one entry a row; or the name of a
            column of the table that the model was declared on, while that is there. Without
            it, clusters are the groups of the model.
        progress : bool, optional
            Show a progress bar, or none. If None, one appears by itself, on a
            terminal or in a notebook, when the fit takes more than two seconds.
            It says the stage (search, all rows, standard errors) and the
            log-likelihood so far, which the search makes out from a sample.
        on_interrupt : {"raise", "return"}
            What Ctrl-C does: raise KeyboardInterrupt, or return the best fit so
            far, which is marked as interrupted and has not converged. That takes
            one pass over the rows; a second Ctrl-C raises, and so does one
            before anything was found.
        checkpoint : str or path, optional
            A file that keeps the fit as it goes on. The same call takes up a fit
            that was killed or interrupted, and ends with the same result to the
            last bit; see docs/long_fits.md. The file stays when the fit is done:
            the same call then finishes at once.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.fit(seed=1).weights.round(2).tolist()
        [0.63, 0.37]
        >>> model.fit(method="altmin").method
        'altmin'
        >>> model.fit(cov_type="robust").cov_type
        'robust'
        """
        start = make_start(init, self)
        options = make_options(method, start, n_init, max_iter, tol, seed, resample, priors, self)
        check_cov_type(cov_type, method)
        check_on_interrupt(on_interrupt)
        if method == "altmin" and self.noise:
            raise InputError(
                "method='altmin' has no background component; use method='em', or noise=False"
            )
        warn_of_single_answers(self.spec, self.source)
        warn_of_many_components(self.spec, self.source)
        job = make_job(self, options, cov_type, cov_kwds)
        journal = None if checkpoint is None else open_journal(checkpoint, job, self.spec)
        solution, estimated = job.watched(progress, on_interrupt, journal)
        self._warn(solution)
        return self.results(solution, estimated, job.options)

    def results(self, solution: Solution, estimated: Estimate, options: Options) -> MixRegResults:
        """Put a finished fit and the model together.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> again = res.model.results(res.solution, res.fitted.estimate, res.options)
        >>> again.llf == res.llf
        True
        """
        fitted = make_fitted(self, solution, estimated, options)
        return MixRegResults(self, fitted, solution, options)

    def _warn(self, solution: Solution) -> None:
        fit = solution.run
        if fit.reason == "max_iter":
            warnings.warn(
                f"stopped after {fit.n_iter} iterations before converging; raise max_iter",
                ConvergenceWarning,
                stacklevel=3,
            )
        if fit.reason == "interrupted":
            warnings.warn(
                f"interrupted after {fit.n_iter} iterations of the final run; this is the best "
                "fit so far, fit again to finish",
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
