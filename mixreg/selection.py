"""How many components? Fits for a range of k, side by side."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from mixreg.errors import InputError
from mixreg.inference.estimate import Estimate
from mixreg.inference.lrtest import LRTest, lr_test
from mixreg.jobs.job import Job, make_job
from mixreg.jobs.options import make_options, make_start
from mixreg.jobs.parallel import run_all
from mixreg.jobs.problem import Solution
from mixreg.model import MixReg
from mixreg.report.plots.selection_plot import plot_selection
from mixreg.report.selection_table import is_sound, selection_table, why_not
from mixreg.results import MixRegResults
from mixreg.search.effort import Effort, row_work
from mixreg.sources.base import condensing_pays
from mixreg.table import frames
from mixreg.table.checks import whole
from mixreg.table.declaration import needed_names
from mixreg.table.distributed import is_distributed

CRITERIA = {"aic": "AIC", "bic": "BIC", "icl": "ICL"}
# Arguments of `fit` that may be given to `select_k`.
FIT_OPTIONS = {
    "method": "em",
    "init": "auto",
    "max_iter": 1000,
    "tol": 1e-10,
    "cov_type": "oim",
    "cov_kwds": None,
}
# A fit that starts from a smaller one doubles at most so many of its components in
# turn, the copies so many residual deviations apart.
MOST_DOUBLED, APART = 6, 0.02
# A k is searched briefly first (n_init, and whether thoroughly) where a pass takes more
# multiplications than this, and again if it lacks less than this share of what the criterion asks:
# on flat ground one component too many gains a quarter, several with lines of chance half (`wide`
# and `small` of `benchmarks choosing`).
BRIEF, DEAR, MAY_WIN = (2, False), 5e5, 0.3
# Arguments that name components, which each model must check for itself.
BY_NUMBER = ("known_labels", "only")


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Fits for a range of k; see `select_k`.

    Attributes
    ----------
    table : DataFrame
        By k: llf, df (free parameters), aic, bic and icl (n is the number of
        groups where there are groups), entropy_r2, smallest (share of units in
        the smallest segment), better (the chance that one more start would find a better fit),
        thorough (whether the search was as long as that of `fit`), and warnings as text.
    results : dict of int to MixRegResults
        Of each k that could be fitted.
    criterion : {"aic", "bic", "icl"}
    failed : dict of int to str
        Why other k could not be.

    Examples
    --------
    >>> from mixreg import datasets, select_k
    >>> choice = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2])
    >>> choice.best is choice.results[2]
    True
    """

    table: pd.DataFrame
    results: dict[int, MixRegResults]
    criterion: str
    failed: dict[int, str] = field(default_factory=dict)

    @property
    def sound(self) -> pd.Series:
        """Whether a fit may be chosen: no component empty or likely an accident.

        Examples
        --------
        >>> from mixreg import datasets, select_k
        >>> choice = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2, 3])
        >>> choice.sound.to_dict()
        {1: True, 2: True, 3: True}
        """
        good = {k: k in self.results and is_sound(self.results[k].fitted) for k in self.table.index}
        return pd.Series(good, name="sound").rename_axis("k")

    @property
    def best_k(self) -> int:
        """The k with the smallest criterion among sound fits; the smaller k of equals.

        Examples
        --------
        >>> from mixreg import datasets, select_k
        >>> choice = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2, 3])
        >>> choice.best_k
        3
        """
        values, sound = self.table[self.criterion], self.sound
        return int((values[sound] if sound.any() else values).idxmin())

    @property
    def best(self) -> MixRegResults:
        """The fit with `best_k` components.

        Examples
        --------
        >>> from mixreg import datasets, select_k
        >>> choice = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2, 3])
        >>> choice.best.k == choice.best_k
        True
        """
        return self.results[self.best_k]

    def lr_test(self, k0: int, k1: int | None = None, n: int = 99, **options: Any) -> LRTest:
        """Test k0 against k1 (k0 + 1 if left out) components; see `mixreg.lr_test`.

        Examples
        --------
        >>> from mixreg import datasets, select_k
        >>> choice = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2, 3])
        >>> choice.lr_test(1, n=9, n_jobs=1).p_value
        0.1
        """
        k1 = k0 + 1 if k1 is None else k1
        for k in (k0, k1):
            if k not in self.results:
                tried = ", ".join(map(str, self.results))
                raise InputError(f"there is no fit with k={k!r}; fits have k = {tried}")
        return lr_test(self.results[k0], self.results[k1], n, **options)

    def plot_selection(self, ax: Any = None) -> Any:
        """Draw the criteria against k.

        The criterion that chose is strong and the chosen k is ringed. Fits that
        are not sound have hollow marks.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            A new figure if None.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from mixreg import datasets, select_k
        >>> choice = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2, 3])
        >>> choice.plot_selection().get_xlabel()
        'components k'
        """
        sound = self.sound.to_numpy()
        return plot_selection(self.table, self.criterion, self.best_k, sound, ax)

    def plot(self, ax: Any = None) -> Any:
        """The same as `plot_selection`.

        Examples
        --------
        >>> from mixreg import datasets, select_k
        >>> choice = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2, 3])
        >>> choice.plot().get_xlabel()
        'components k'
        """
        return self.plot_selection(ax)

    def __repr__(self) -> str:
        """The table as text, with the choice marked."""
        return "\n".join([self._title(), self._formatted().to_string(), *self._notes()])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return f"<p><b>{escape(self._title())}</b></p>{self._formatted().to_html()}{notes}"

    def _title(self) -> str:
        name = CRITERIA[self.criterion]
        over = self.passed_over
        if not len(over):
            return f"k = {self.best_k} by {name}"
        told = "; ".join(f"k = {k}: {why_not(self.results[k].fitted)}" for k in over)
        fewer = "a smaller" if len(over) == 1 else "smaller"
        return (
            f"k = {self.best_k} by {name} among sound fits; passed over, though of {fewer} {name}: "
            f"{told}"
        )

    @property
    def passed_over(self) -> list[int]:
        """Each k with a smaller criterion than the one chosen, whose fit is not sound.

        Examples
        --------
        >>> from mixreg import datasets, select_k
        >>> choice = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2, 3])
        >>> choice.passed_over
        []
        """
        values = self.table[self.criterion]
        return [int(k) for k in values.index[values < values[self.best_k]]]

    def _formatted(self) -> pd.DataFrame:
        """The table in print: numbers as text, a star at the choice."""
        t = self.table
        names = {"entropy_r2": "entropy R²", **CRITERIA}
        text = pd.DataFrame(index=[f"{'*' if k == self.best_k else ' '} {k}" for k in t.index])
        for column in ("llf", "df", "aic", "bic", "icl", "entropy_r2", "smallest", "better"):
            form = FORMATS.get(column, "{:.2f}")
            values = [form.format(value) if value == value else "" for value in t[column]]
            text[names.get(column, column)] = values
        return text.rename_axis(columns="  k")

    def _notes(self) -> list[str]:
        notes = [f"k={k}: {text}" for k, text in self.table["warnings"].items() if text]
        brief = [str(k) for k in self.table.index[~self.table["thorough"]] if k in self.results]
        if brief:
            notes.append(
                f"k = {', '.join(brief)}: searched briefly, because {CRITERIA[self.criterion]} is "
                "too far from the best for a longer search to win; with n_init all are searched "
                "alike"
            )
        largest = max(self.results)
        if self.best_k == largest and len(self.table) > 1 and not self.failed:
            notes.append(f"{CRITERIA[self.criterion]} still falls at k={largest}; try larger k")
        return notes


FORMATS = {"df": "{}", "better": "{}", "entropy_r2": "{:.3f}", "smallest": "{:.1%}"}


def select_k(
    formula: str | None = None,
    data: Any = None,
    k: Iterable[int] = range(1, 7),
    criterion: str = "bic",
    *,
    endog: Any = None,
    exog: Any = None,
    n_init: int | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
    eval_env: int = 0,
    **options: Any,
) -> Selection:
    """Fit a model for each k and choose one.

    Parameters
    ----------
    formula : str, optional
        As in `MixReg.from_formula`. Leave it out to give arrays.
    data : DataFrame or another table, optional
        As in `MixReg.from_formula`. Without data, names are looked up where this is called.
    k : iterable of int
        Numbers of components to try.
    criterion : {"bic", "aic", "icl"}
        What chooses. ICL also asks that segments be distinct.
    endog, exog : arrays, optional
        Response and regressors as in `MixReg`, in place of formula and data.
    n_init, seed : int
        As in `fit`.
    n_jobs : int, optional
        Most processes; None as many as there are cores. Others than this one are
        started only if that saves time.
    progress : bool, optional
        Show a progress bar, or none. If None, one appears by itself, on a terminal
        or in a notebook, after two seconds.
    eval_env : int
        Frames to go up when looking for names; 0 is the caller.
    **options
        Other arguments of `MixReg.from_formula` (or `MixReg`) and of `fit`, such
        as `groups`, `family`, `concomitant` or `cov_type`. The method is "em".

    Returns
    -------
    Selection
        Warnings of the single fits are not raised but told in its table.

    Notes
    -----
    The smallest criterion chooses, but a fit with an empty component, or with
    one that chance may explain (small, and much tighter than the others), is
    passed over while there is another. A fit at the bound on the variances is
    told in the table and not passed over.

    Where a search takes long, each k is first searched briefly. The best, the one before it, and
    all that gain 70% or more of what the criterion asks of them are then searched as long as
    `fit` does; the column `thorough` says which. With `n_init` all are. A k that cannot be fitted
    is told in the table, and the others are kept.

    Examples
    --------
    >>> from mixreg import datasets, select_k
    >>> choice = select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2])
    >>> choice.best_k
    2
    """
    ks = _numbers(k)
    if criterion not in CRITERIA:
        raise InputError(f"criterion={criterion!r} is unknown; use one of {', '.join(CRITERIA)}")
    _check_data(formula, data, endog, exog)
    declared, fit_options = _split(options, MixReg if formula is None else MixReg.from_formula)
    if formula is not None and not is_distributed(data):
        # Once: a table may be the outcome of a query, or a stream.
        data = frames.read(data, _names(formula, declared))
    models: list[MixReg] = []
    jobs: dict[int, Job] = {}
    ends: dict[int, End] = {}
    for each in ks:
        try:
            if models and all(declared.get(name) is None for name in BY_NUMBER):
                model = models[0].with_k(each)
            elif formula is None:
                model = MixReg(endog, exog, each, **declared)
            else:
                model = MixReg.from_formula(
                    formula, data, k=each, eval_env=eval_env + 1, **declared
                )
            jobs[each] = _job(model, n_init, seed, fit_options)
            models.append(model)
        except InputError as error:
            # What is wrong with the model is so for every k; what is wrong with one k is told.
            ends[each] = Failure(error)
    if all(model.k == 1 for model in models) and ends:
        raise next(end.error for end in ends.values() if isinstance(end, Failure))
    brief = set() if n_init is not None else {each for each in jobs if _is_dear(jobs[each])}
    left = list(ks)
    while left:
        _run(jobs, [each for each in left if each in jobs], brief, ends, n_jobs, progress)
        results = {
            model.k: model.results(*end, jobs[model.k].options)
            for model in models
            if not isinstance(end := ends[model.k], Failure)
        }
        left = _may_win(results, brief, criterion) if results else []
        brief -= {*left}
    failed = {each: end for each, end in ends.items() if isinstance(end, Failure)}
    if not results:
        raise failed[ks[0]].error
    why = {each: failure.text for each, failure in failed.items()}
    return Selection(selection_table(results, why, brief), results, criterion, why)


def _numbers(k: Any) -> list[int]:
    """The numbers of components to try, in order."""
    if isinstance(k, (str, bytes)) or not isinstance(k, Iterable):
        raise InputError(f"k must be several whole numbers, such as range(1, 7); got {k!r}")
    ks = sorted({whole("each k", each, 1) for each in k})
    if not ks:
        raise InputError("k is empty; give the numbers of components to try, as range(1, 7)")
    return ks


def _names(formula: Any, declared: dict[str, Any]) -> set[str]:
    """Names that formulas and arguments mention, columns among them."""
    formulas = [formula] if isinstance(formula, str) else formula
    return needed_names(formulas, declared.get("concomitant"), declared.get("subset"), declared)


def _check_data(formula: Any, data: Any, endog: Any, exog: Any) -> None:
    if formula is None:
        if endog is None or exog is None or data is not None:
            raise InputError("give a formula and data, or endog= and exog=")
    elif endog is not None or exog is not None:
        raise InputError("give a formula and data, or endog= and exog=, not both")
    elif not isinstance(formula, (str, list, tuple)):
        raise InputError(
            f"formula must be text; got {type(formula).__name__}. For arrays use endog= and exog="
        )


def _split(options: dict[str, Any], declare: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options that declare the model, and options of the fit with their defaults."""
    fit = {name: options.get(name, default) for name, default in FIT_OPTIONS.items()}
    declared = {name: value for name, value in options.items() if name not in FIT_OPTIONS}
    unknown = [name for name in declared if name not in inspect.signature(declare).parameters]
    if unknown:
        raise TypeError(f"select_k() got an unexpected keyword argument {unknown[0]!r}")
    if fit["method"] != "em":
        raise InputError(
            f"criteria need a maximum of the likelihood: method='em'; got {fit['method']!r}"
        )
    return declared, fit


@dataclass(frozen=True)
class Failure:
    """A fit that could not be made."""

    error: Exception

    @property
    def text(self) -> str:
        """Why not."""
        return " ".join(str(self.error).split()) or type(self.error).__name__


End = tuple[Solution, Estimate] | Failure


@dataclass(frozen=True)
class Trials:
    """Fits by their k, of which some may fail."""

    jobs: dict[int, Job]

    def __call__(self, k: int) -> End:
        """Run one of them."""
        try:
            return self.jobs[k].run()
        except Exception as error:  # Whatever it is, the other k are to be kept.
            return Failure(error)


def _is_dear(job: Job) -> bool:
    """Whether a thorough search takes so long that a brief one is to come first."""
    source, k = job.problem.source, job.problem.k
    short = job.problem.mixture.family.linear and condensing_pays(source)
    rows = source.units if short else source.rows
    return k > 1 and rows * row_work(k, source.columns) > DEAR


def _run(
    jobs: dict[int, Job],
    ks: list[int],
    brief: set[int],
    ends: dict[int, End],
    n_jobs: int | None,
    progress: bool | None,
) -> None:
    """Fit some k, and put where they end to the others."""
    short = Effort(*BRIEF)
    trials = {
        k: replace(job, options=replace(job.options, effort=short)) if k in brief else job
        for k, job in jobs.items()
    }
    # The largest first, so that no process is left waiting for it at the end.
    order = ks[::-1]
    costs = [float(k) ** 2 for k in order]
    found = run_all(Trials(trials), order, n_jobs, progress, "select_k", costs=costs)
    for k, end in zip(order, found, strict=True):
        before = ends.get(k)
        if isinstance(before, tuple) and isinstance(end, tuple):
            spike = before[0].binds or before[0].suspects
            if end[1].llf < before[1].llf and not spike:
                # A longer search may end lower: then its record stands beside the earlier fit.
                end = replace(before[0], search=end[0].search), before[1]
        ends[k] = end
    _raise_falls(trials, ends)


def _raise_falls(jobs: dict[int, Job], ends: dict[int, End]) -> None:
    """See to it that the likelihood does not fall with k.

    A fit with fewer components is one with more, two of which are alike: where a
    fit falls short of it, it starts again from there.
    """
    fewer: tuple[Solution, Estimate] | None = None
    for k in sorted(ends):
        end = ends[k]
        if isinstance(end, Failure):
            continue
        if fewer is not None:
            alike = jobs[k].problem.mixture.exchangeable and not fewer[0].exact
            if alike and end[1].llf < fewer[1].llf:
                end = ends[k] = _better(end, _grown(jobs[k], fewer[0]))
        fewer = end


def _may_win(results: dict[int, MixRegResults], brief: set[int], criterion: str) -> list[int]:
    """Which k of those that were searched briefly might be chosen after a longer search.

    The best so far, the one before it, and those that gain a good part of what is asked of them.
    """
    values = {k: float(getattr(res, criterion)) for k, res in results.items()}
    asked = {k: value + 2 * results[k].llf for k, value in values.items()}
    sound = [k for k, res in results.items() if is_sound(res.fitted)]
    wanted: set[int] = set()
    # The best of all, and the best that may be chosen.
    for some in (list(values), sound or list(values)):
        best = min(some, key=lambda k: values[k])
        wanted |= {best, max((k for k in values if k < best), default=best)}
        wanted |= {
            k for k in values if values[k] - values[best] < MAY_WIN * abs(asked[k] - asked[best])
        }
    return sorted(brief & wanted)


def _grown(job: Job, fewer: Solution) -> list[tuple[Solution, Estimate]]:
    """Fits from the components of a smaller fit, each of the larger ones doubled in turn."""
    params, k = fewer.run.params, job.problem.k
    pairs = []
    for j in range(min(params.k, MOST_DOUBLED)):
        start = job.problem.mixture.prepare(params.doubled(j, k - params.k, APART))
        pairs.append(replace(job, options=replace(job.options, init=start)).run())
    return pairs


def _better(
    pair: tuple[Solution, Estimate], others: list[tuple[Solution, Estimate]]
) -> tuple[Solution, Estimate]:
    """The fit with the highest likelihood; how the search went stays told."""
    best = max(others, key=lambda other: other[1].llf)
    if best[1].llf <= pair[1].llf:
        return pair
    return replace(best[0], search=pair[0].search), best[1]


def _job(model: MixReg, n_init: Any, seed: Any, fit: dict[str, Any]) -> Job:
    """Check the options of a fit as `MixReg.fit` does."""
    start = make_start(fit["init"], model)
    if isinstance(start, np.ndarray):
        raise InputError("init labels are for one k; use 'auto', 'tensor' or 'random'")
    options = make_options(
        "em", start, n_init, fit["max_iter"], fit["tol"], seed, None, None, model
    )
    return make_job(model, options, fit["cov_type"], fit["cov_kwds"])
