"""The bootstrap of a fit: how estimates vary when the data are made anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from statsmodels.iolib.summary import Summary, forg
from statsmodels.iolib.tableformatting import fmt_params

from mixreg.errors import InputError
from mixreg.inference.aligned import Aligned, AlignedRefit
from mixreg.inference.replicate import (
    FarReplicate,
    Replicate,
    check_likelihood,
    control_of,
    drawn,
    make_refit,
    redrawn,
    repeated,
    resampled,
)
from mixreg.jobs.parallel import run_all
from mixreg.ppl.draws import mixtures_of
from mixreg.ppl.inference_data import inference_data
from mixreg.report.base_results import BaseResults
from mixreg.report.summary import Sections, Table
from mixreg.sources import Source
from mixreg.table.checks import whole

Array = NDArray[np.float64]

# Replicates that are matched less surely are called ambiguous. On twenty sets of two crossing lines
# replicates were either above 0.7 or, where signs of slopes had changed, below 0.5;
# `python -m benchmarks coverage --ambiguous` prints what the choice does to coverage.
SURE = 0.75
KINDS = ("parametric", "case", "group")
INTERVALS = ("percentile", "normal", "basic")
DESCRIPTIONS = {
    "parametric": "Responses were drawn from the fit.",
    "case": "Rows were drawn with replacement.",
    "group": "Whole groups were drawn with replacement.",
}


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap:
    """Estimates from data made anew; see `bootstrap`.

    Attributes
    ----------
    draws : DataFrame
        Replicates x parameters, components in the order of the fit.
    params : Series
        The fit itself.
    kind : {"parametric", "case", "group"}
    n : int
        Replicates asked for.
    reasons : Series
        Replicates left out, by reason.
    results : BaseResults
        The fit that was bootstrapped.
    sureness : Series
        How sure it is, for each replicate, which of its components is which of the
        fit's: 1 if its labels tell the components apart as the fit's do, 0.5 if two of
        them could as well change places.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
    >>> boot = res.bootstrap(10, n_jobs=1)
    >>> boot.kind, boot.n, boot.failed
    ('parametric', 10, 0)
    """

    draws: pd.DataFrame
    params: pd.Series
    kind: str
    n: int
    reasons: pd.Series
    results: BaseResults
    sureness: pd.Series

    @property
    def ambiguous(self) -> pd.Series:
        """Whether a replicate's components could not be matched surely with the fit's.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> int(boot.ambiguous.sum())
        0
        """
        return (self.sureness < SURE).rename("ambiguous")

    def without_ambiguous(self) -> Bootstrap:
        """The same without the replicates that could not be matched surely.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> len(boot.without_ambiguous().draws)
        10
        """
        kept = ~self.ambiguous
        if kept.sum() < 2:
            raise InputError(
                f"only {kept.sum()} of {len(kept)} replicates could be matched surely with the "
                "fit; its components overlap too much: try a smaller k"
            )
        return replace(self, draws=self.draws[kept], sureness=self.sureness[kept])

    def to_arviz(self, seed: int = 0) -> Any:
        """The draws as ArviZ data, with the groups and names of `MixRegResults.to_arviz`.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> dict(boot.to_arviz().posterior["coef"].sizes)
        {'chain': 1, 'draw': 10, 'component': 2, 'term': 2}
        """
        stack = mixtures_of(self.results.spec.layout, self.draws.to_numpy())
        return inference_data(self.results, stack, 1, seed)

    @property
    def failed(self) -> int:
        """Replicates left out because their fit did not converge or a component emptied.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> boot.failed
        0
        >>> len(boot.draws) == boot.n - boot.failed
        True
        """
        return int(self.reasons.sum())

    @property
    def mean(self) -> pd.Series:
        """Average of the draws.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> round(float(boot.mean["stretchratio[2]"]), 2)
        1.0
        """
        return self.draws.mean().rename("mean")

    @property
    def bias(self) -> pd.Series:
        """Average of the draws minus the fit.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> bool(abs(boot.bias["stretchratio[2]"]) < 0.01)
        True
        """
        return (self.mean - self.params).rename("bias")

    @property
    def bse(self) -> pd.Series:
        """Standard errors: standard deviations of the draws.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> bool(boot.bse["stretchratio[2]"] < boot.bse["stretchratio[1]"])
        True
        """
        return self.draws.std().rename("bse")

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the draws.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> boot.cov_params().shape
        (7, 7)
        """
        return self.draws.cov()

    def conf_int(self, alpha: float = 0.05, kind: str = "percentile") -> pd.DataFrame:
        """Confidence intervals.

        Parameters
        ----------
        alpha : float
            Intervals cover 1 - alpha.
        kind : {"percentile", "normal", "basic"}
            Quantiles of the draws; the fit plus and minus normal quantiles times
            `bse`; or the quantiles mirrored at the fit.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> low, high = boot.conf_int(alpha=0.1).loc["stretchratio[2]"]
        >>> bool(low < res.params["stretchratio[2]"] < high)
        True
        >>> boot.conf_int(kind="normal").shape
        (7, 2)
        """
        if not 0 < alpha < 1:
            raise InputError(f"alpha must lie between 0 and 1; got {alpha!r}")
        if kind not in INTERVALS:
            raise InputError(f"kind={kind!r} is unknown; use one of {', '.join(INTERVALS)}")
        if kind == "normal":
            half = norm.isf(alpha / 2) * self.bse
            return pd.DataFrame({0: self.params - half, 1: self.params + half})
        # The quantiles that one more draw lies between with probability 1 - alpha; those that
        # pandas has by default are closer together, and with 150 draws lose 1.3% of coverage.
        values, ends = self.draws.to_numpy(), (alpha / 2, 1 - alpha / 2)
        low, high = (
            pd.Series(each, self.draws.columns)
            for each in np.quantile(values, ends, axis=0, method="weibull")
        )
        if kind == "basic":
            low, high = 2 * self.params - high, 2 * self.params - low
        return pd.DataFrame({0: low, 1: high})

    def summary(self, alpha: float = 0.05, kind: str = "percentile") -> Summary:
        """A table in statsmodels' look.

        If some replicates could not be matched surely with the fit, a second table has the
        intervals without them.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> print(str(boot.summary()).splitlines()[0].strip())
        Parametric bootstrap, 10 replicates
        """
        summary = Sections()
        summary.tables.append(self._table(alpha, kind))
        unsure = int(self.ambiguous.sum())
        if unsure and len(self.draws) - unsure >= 2:
            summary.tables.append(self.without_ambiguous()._table(alpha, kind, ", matched surely"))
        notes = [DESCRIPTIONS[self.kind], *self._left_out()]
        if unsure:
            notes.append(
                f"{unsure} of {len(self.draws)} replicates could not be matched surely: which of "
                "their components is which of the fit's is in doubt."
            )
        summary.add_extra_txt(["Notes:", *(f"[{i}] {note}" for i, note in enumerate(notes, 1))])
        return summary

    def _table(self, alpha: float, kind: str, which: str = "") -> Table:
        bounds = self.conf_int(alpha, kind)
        columns = [self.params, self.bias, self.bse, bounds[0], bounds[1]]
        rows = [
            [forg(value, prec=4 if i == 0 else 3) for i, value in enumerate(row)]
            for row in np.column_stack(columns)
        ]
        header = ["estimate", "bias", "std err", f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
        stub = max(13, *(len(name) for name in self.params.index))
        layout = dict(fmt_params, colwidths=[stub, *[12] * 5], data_fmts=["%s"])
        title = f"{self.kind.capitalize()} bootstrap, {len(self.draws)} replicates{which}"
        return Table(rows, header, list(self.params.index), title=title, txt_fmt=layout)

    def _left_out(self) -> list[str]:
        return [
            f"Left out: {count} of {self.n} replicates, {reason}."
            for reason, count in self.reasons.items()
        ]

    def __repr__(self) -> str:
        """The summary as text."""
        return str(self.summary())

    def _repr_html_(self) -> str:
        return str(self.summary().as_html())


def bootstrap(
    res: BaseResults,
    n: int = 200,
    kind: str = "parametric",
    *,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
    n_init: int | None = None,
) -> Bootstrap:
    """Refit the model to data made anew, many times.

    Parameters
    ----------
    res : BaseResults
        A fit by EM.
    n : int
        Number of replicates.
    kind : {"parametric", "case", "group"}
        Draw responses from the fit; or draw rows with replacement; or, in a
        model with groups, whole groups. A row or group with case weight 2 counts
        as two.
    seed : int
        Same seed, same result, up to rounding whatever `n_jobs`.
    n_jobs : int, optional
        Most processes; None as many as there are cores. Others than this one are
        started only if that saves time.
    progress : bool, optional
        Show a progress bar, or none. If None, one appears by itself, on a terminal
        or in a notebook, after two seconds.
    n_init : int, optional
        Each refit begins at the fit, which follows the optimum that was found.
        With `n_init`, it also searches as hard as `fit` does and keeps the
        better end; intervals then include doubt about which optimum is meant.

    Notes
    -----
    Components of each refit are put in the order that agrees best with the fit
    on the labels of the model's own rows, unless known labels fix the order. The
    range of a background component is kept.

    Rows that are too many to be in memory (in files, on a cluster) are resampled
    where they are: a row or group of weight w counts Poisson(w) times, by a hash of
    its number and the seed. That is what drawing with replacement comes to where rows
    are many; the number of rows varies by its square root.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> from mixreg.inference.bootstrap import bootstrap
    >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
    >>> boot = bootstrap(model.fit(), n=10, kind="case", n_jobs=1)
    >>> boot.draws.shape
    (10, 7)
    """
    check_likelihood(res, "bootstrap")
    n, seed = whole("n", n, 2), whole("seed", seed, 0)
    n_init = None if n_init is None else whole("n_init", n_init, 1)
    _check_kind(kind, res)
    source, replicates = _replicates(res, kind, np.random.SeedSequence(seed).spawn(n))
    refit = AlignedRefit(make_refit(res, source, control_of(res), n_init))
    found = run_all(refit, replicates, n_jobs, progress, "bootstrap", costs=[1.0] * n)
    return _collect(res, kind, found)


def _replicates(
    res: BaseResults, kind: str, seeds: list[np.random.SeedSequence]
) -> tuple[Source, Iterator[Replicate | FarReplicate]]:
    """The model's own rows, and how they are changed, once for each seed."""
    rows = res.model.source
    if kind != "parametric" and not rows.fits_at_hand:
        return rows, redrawn(seeds)
    source = rows.at_hand("a bootstrap").counting()
    if kind != "parametric":
        return source, resampled(source, seeds)
    source = repeated(source)
    return source, drawn(res, source, seeds)


def _check_kind(kind: Any, res: BaseResults) -> None:
    if kind not in KINDS:
        raise InputError(f"kind={kind!r} is unknown; use one of {', '.join(KINDS)}")
    by_set = res.spec.responses[0].names["groups"] is None
    if kind == "case" and res.spec.family.takes_sets and by_set:
        raise InputError(
            "kind='case' would tear choice sets apart; use kind='group', which draws whole sets"
        )
    if kind == "case" and res.ngroups is not None:
        raise InputError(
            "kind='case' would tear groups apart; the model has groups, so use kind='group'"
        )
    if kind == "group" and res.ngroups is None:
        raise InputError("kind='group' needs a model with groups; use kind='case'")


def _collect(res: BaseResults, kind: str, found: list[Aligned | str]) -> Bootstrap:
    good = [value for value in found if not isinstance(value, str)]
    reasons = pd.Series([value for value in found if isinstance(value, str)], dtype=object)
    counts = reasons.value_counts().rename("replicates")
    if len(good) < 2:
        raise InputError(
            f"of {len(found)} replicates, only {len(good)} could be fitted ({counts.index[0]}); "
            "try a smaller k, or kind='parametric'"
        )
    number = pd.RangeIndex(len(good), name="replicate")
    draws = pd.DataFrame(np.array([each.vector for each in good]), number, res.spec.param_names)
    sureness = pd.Series([each.sureness for each in good], number, name="sureness")
    return Bootstrap(draws, res.params, kind, len(found), counts, res, sureness)
