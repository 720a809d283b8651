"""Is one more component worth it? The likelihood ratio test by bootstrap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.estimators import Control
from mixreg.inference.replicate import (
    NEEDS_ROWS,
    Refit,
    Replicate,
    check_likelihood,
    drawn,
    make_refit,
    repeated,
)
from mixreg.jobs.parallel import run_all
from mixreg.report.base_results import BaseResults
from mixreg.table.checks import whole

Array = NDArray[np.float64]

# Likelihoods are compared to a fraction of one, so refits need not be finished
# to the last digit.
ENOUGH = Control(max_iter=500, tol=1e-8)


@dataclass(frozen=True, eq=False, repr=False)
class LRTest:
    """A test of k0 against k1 components; see `lr_test`.

    Attributes
    ----------
    k0, k1 : int
        Components under the hypothesis, and under the alternative.
    statistic : float
        Twice the gain in log-likelihood.
    p_value : float
    draws : (n,) array
        The statistic in data drawn from the fit with k0 components.

    Examples
    --------
    >>> from mixreg import datasets, lr_test, select_k
    >>> fits = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2]).results
    >>> test = lr_test(fits[1], fits[2], n=9, n_jobs=1)
    >>> test.k0, test.k1, round(test.statistic, 1)
    (1, 2, 272.1)
    >>> test.draws.shape
    (9,)
    """

    k0: int
    k1: int
    statistic: float
    p_value: float
    draws: Array

    @property
    def n(self) -> int:
        """Number of draws.

        Examples
        --------
        >>> from mixreg import datasets, lr_test, select_k
        >>> fits = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2]).results
        >>> lr_test(fits[1], fits[2], n=9, n_jobs=1).n
        9
        """
        return len(self.draws)

    def __repr__(self) -> str:
        """The test in words."""
        low, high = np.quantile(self.draws, [0.5, 0.95])
        few = f"{self.k0} component{'s' if self.k0 > 1 else ''}"
        lines = [
            f"Likelihood ratio test of {self.k0} against {self.k1} components",
            f"  2 x gain in log-likelihood   {self.statistic:10.3f}",
            f"  p-value                      {self.p_value:10.3f}",
            f"  under {few}: median {low:.3f}, 95% quantile {high:.3f} "
            f"({self.n} parametric bootstrap draws)",
        ]
        return "\n".join(lines)


def lr_test(
    res0: BaseResults,
    res1: BaseResults,
    n: int = 99,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
    n_init: int = 4,
) -> LRTest:
    """Test a fit against one with more components, by parametric bootstrap.

    Parameters
    ----------
    res0, res1 : BaseResults
        Fits by EM of the same model to the same data, the second with more
        components.
    n : int
        Number of draws. The smallest possible p-value is 1 / (n + 1).
    seed : int
        Same seed, same result, up to rounding whatever `n_jobs`.
    n_jobs : int, optional
        Most processes; None as many as there are cores. Others than this one are
        started only if that saves time.
    progress : bool, optional
        Show a progress bar, or none. If None, one appears by itself, on a terminal
        or in a notebook, after two seconds.
    n_init : int
        How hard each refit looks for the best fit, beside a start at `res0` or
        `res1`. Too little makes the gains in the draws too small.

    Notes
    -----
    Twice the gain in log-likelihood has no chi-square distribution here, because
    under the hypothesis the larger model is not identified. McLachlan (1987):
    draw responses from the smaller fit, refit both, and see how often the gain
    is as large as in the data: p = (1 + #{as large}) / (n + 1).

    References
    ----------
    McLachlan, G. J. (1987). On bootstrapping the likelihood ratio test statistic for the number of
    components in a normal mixture. Journal of the Royal Statistical Society C 36, 318-324.

    Examples
    --------
    >>> from mixreg import datasets, lr_test, select_k
    >>> fits = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2]).results
    >>> lr_test(fits[1], fits[2], n=9, n_jobs=1).p_value
    0.1
    """
    _check_pair(res0, res1)
    n, seed, n_init = whole("n", n, 1), whole("seed", seed, 0), whole("n_init", n_init, 1)
    source0, source1 = (repeated(res.model.source.at_hand(NEEDS_ROWS)) for res in (res0, res1))
    pair = Pair(
        make_refit(res0, source0, ENOUGH, n_init), make_refit(res1, source1, ENOUGH, n_init)
    )
    replicates = drawn(res0, source0, np.random.SeedSequence(seed).spawn(n))
    found = run_all(pair, replicates, n_jobs, progress, "lr_test", costs=[1.0] * n)
    draws = np.array([value for value in found if value is not None])
    if not draws.size:
        raise InputError(f"the response did not vary in any of {n} draws; nothing can be tested")
    statistic = 2 * (res1.llf - res0.llf)
    # Equal to rounding counts as equal.
    as_large = int((draws >= statistic - 1e-6 * max(1.0, abs(statistic))).sum())
    return LRTest(res0.k, res1.k, statistic, (1 + as_large) / (len(draws) + 1), draws)


def _check_pair(res0: BaseResults, res1: BaseResults) -> None:
    """Refuse fits that are not nested or not of the same data."""
    for name, res in (("res0", res0), ("res1", res1)):
        if not isinstance(res, BaseResults):
            raise InputError(
                f"{name} must be a fit, as model.fit() returns it; got {type(res).__name__}"
            )
        check_likelihood(res, "likelihood ratio test")
    if res0.k >= res1.k:
        raise InputError(f"the second fit must have more components; got k={res0.k} and k={res1.k}")
    prints = [res.model.source.fingerprint() for res in (res0, res1)]
    for each in prints:
        each.pop("known", None)
    if prints[0] != prints[1]:
        raise InputError("the two fits are of different data; fit both to the same rows")
    settings = [_settings(res) for res in (res0, res1)]
    if settings[0] != settings[1]:
        raise InputError(
            "the two fits differ in more than k; declare both with the same family, shared "
            "terms, concomitants and noise"
        )


def _settings(res: BaseResults) -> tuple[object, ...]:
    """All that two fits must have in common, but for the data."""
    family, layout = res.spec.family, res.spec.layout
    return (
        family.name,
        family.link_name,
        bool(layout.absent),
        res.spec.mixture.labelled,
        family.equal_dispersion,
        family.variance_ratio,
        layout.shared,
        layout.gate,
        layout.background,
    )


@dataclass(frozen=True)
class Pair:
    """Fit two models to a replicate.

    Attributes
    ----------
    small, large : Refit
    """

    small: Refit
    large: Refit

    def __call__(self, replicate: Replicate) -> float | None:
        """Twice the gain in log-likelihood, not below 0; None if nothing can be fitted."""
        try:
            problem0 = self.small.problem(replicate.apply(self.small.source))
        except InputError:
            return None
        problem1 = self.large.problem(replicate.apply(self.large.source))
        low = self.small.best(problem0, replicate.seed).run.objective
        high = self.large.best(problem1, replicate.seed).run.objective
        return max(0.0, 2 * (high - low))
