"""Degenerate fits: every family, link and option on data that no fit was made for.

`python -m benchmarks torture` draws 3,000 models from a seed: few rows, constant, collinear, huge,
tiny, repeated and separated columns, responses that are all alike, all zero, exact or wild, beside
every option. Each is fitted, summarised and used to predict. A case is bad if it ends in an error
that is not of mixreg, in a number that is missing, in a likelihood that fell or is minus infinity,
in a warning that is not of mixreg, or after more than twenty seconds of a processor. Bad cases are
printed with their seeds, and the command ends with status 1.
"""

from __future__ import annotations

import argparse
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mixreg import MixReg, errors
from mixreg.families.registry import named

CASES, SECONDS = 3_000, 20.0
# Rows and starts of small cases, which tests run.
FEW_ROWS, FEW_STARTS = 40, 2
# Seconds after which a case is given up.
PATIENCE = 60.0
OURS = tuple(
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, Exception) and each.__module__ == errors.__name__
)
FAMILIES = ("gaussian", "poisson", "negativebinomial", "binomial", "gamma", "choice")
# Sizes of data sets, and how often each is drawn.
ROWS, ROW_ODDS = (4, 8, 15, 40, 90, 250), (0.08, 0.1, 0.12, 0.3, 0.25, 0.15)
COLUMNS = (
    *("normal", "normal", "normal", "factor", "switch", "count"),
    *("huge", "tiny", "far", "nearly_constant", "lone", "collinear", "wild", "repeated"),
)
# What becomes of the response.
RESPONSES = (
    *("plain", "plain", "plain", "plain", "plain", "plain", "one_odd", "one_odd", "rounded"),
    *("rounded", "exact", "exact", "wild", "wild", "separated", "separated", "inflated"),
    *("inflated", "large", "large", "small", "small", "same", "zeros"),
)


@dataclass(frozen=True)
class Case:
    """A model to fit.

    Attributes
    ----------
    seed : list of int
    formula : str or list of str
    data : DataFrame
    model, fit : dict
        Options of the model, and of `fit`.
    """

    seed: list[int]
    formula: Any
    data: pd.DataFrame
    model: dict[str, Any]
    fit: dict[str, Any]

    def __str__(self) -> str:
        """A line to know it by."""
        options = {**self.model, **self.fit}
        options = {name: value for name, value in options.items() if not callable(value)}
        return f"seed {self.seed}, {len(self.data)} rows, {self.formula}, {options}"


@dataclass(frozen=True)
class Outcome:
    """What became of a case: what was wrong (nothing, if it is good), and seconds."""

    case: str
    wrong: tuple[str, ...]
    refused: str
    seconds: float


class TooLongError(BaseException):
    """A case took more than it may."""


# Cases


def make(seed: list[int], small: bool = False) -> Case:
    """A case, drawn from a seed; a small one has few rows and starts."""
    rng = np.random.default_rng(seed)
    family = str(rng.choice(FAMILIES, p=[0.25, 0.2, 0.13, 0.22, 0.14, 0.06]))
    link = str(rng.choice(links_of(family)))
    n = int(rng.choice(ROWS, p=ROW_ODDS))
    n = min(n, FEW_ROWS) if small else n
    k = int(rng.choice([1, 2, 3, 5], p=[0.3, 0.45, 0.2, 0.05]))
    data = pd.DataFrame(index=range(n))
    terms = []
    for number in range(int(rng.choice([0, 1, 2, 4], p=[0.1, 0.4, 0.35, 0.15]))):
        name = f"x{number}"
        data[name] = column(str(rng.choice(COLUMNS)), data, rng)
        terms.append(name)
    model: dict[str, Any] = {"k": k, "family": family}
    if family != "choice":
        model["link"] = link
    if family == "choice":
        return lightened(choices(seed, data, terms, model, rng), small)
    bare = bool(terms) and rng.random() < 0.12
    right = " + ".join((["0"] if bare else []) + terms) or "1"
    label = rng.integers(0, k, n)
    left = response(family, link, data, label, model, rng)
    options(model, data, terms, label, rng)
    formula: Any = f"{left} ~ {right}"
    if family in ("gaussian", "poisson") and rng.random() < 0.06:
        formula, model = beside(formula, right, data, model, rng)
    return lightened(Case(seed, formula, data, model, fitted(model, rng)), small)


def lightened(case: Case, small: bool) -> Case:
    """The case with few starts, if it is to be small."""
    return replace(case, fit={**case.fit, "n_init": FEW_STARTS}) if small else case


def links_of(family: str) -> tuple[str, ...]:
    """Links that a family may have; all of a normal response's, which has one class for most."""
    if family == "gaussian":
        return ("identity", "identity", "log", "inverse", "sqrt")
    return named(family).links or ("identity",)


def column(kind: str, data: pd.DataFrame, rng: np.random.Generator) -> Any:
    """Values of a regressor of some kind."""
    n = len(data)
    x = rng.standard_normal(n)
    if kind == "factor":
        return rng.choice(list("abc"), n, p=[0.6, 0.3, 0.1])
    if kind == "collinear":
        numbers = data.select_dtypes("number")
        return 2 * numbers.iloc[:, 0] - 1 if numbers.shape[1] else x
    made = {
        "switch": (x > 0).astype(int),
        "count": rng.poisson(1.0, n),
        "huge": 1e9 * x,
        "tiny": 1e-9 * x,
        "far": 1e6 + x,
        "nearly_constant": 1 + 1e-7 * x,
        "lone": (np.arange(n) == 0).astype(float),
        "wild": np.sinh(8 * x),
        "repeated": np.repeat(x[: max(1, n // 4)], 5)[:n] if n >= 5 else x,
    }.get(kind, x)
    return np.resize(made, n)


def response(
    family: str,
    link: str,
    data: pd.DataFrame,
    label: Any,
    model: dict[str, Any],
    rng: np.random.Generator,
) -> str:
    """Draw a response of the family, spoil it, and return the left side of the formula."""
    n, kind = len(data), str(rng.choice(RESPONSES))
    numbers = data.select_dtypes("number").to_numpy(dtype=float)
    lead = numbers[:, 0] if numbers.shape[1] else np.zeros(n)
    size = np.abs(lead).max(initial=0.0)
    lead = lead / size if size else lead
    signal = 0.3 + (label % 2) * 1.5 + (1 - 2 * (label % 2)) * lead
    spoilt = {"same": np.ones(n), "zeros": np.zeros(n), "one_odd": 1.0 * (np.arange(n) == n // 2)}
    spoilt["separated"] = 1.0 * (lead > np.median(lead))
    if family == "binomial":
        chance = 1 / (1 + np.exp(-2 * (signal - 1)))
        data["m"] = rng.integers(1, 9, n)
        data["s"] = rng.binomial(data.m, chance)
        if kind in spoilt:
            data["s"] = (spoilt[kind] * data.m).astype(int)
        data["f"] = data.m - data.s
        if rng.random() < 0.5:
            return "s + f"
        data["y"] = data.s / data.m
        if rng.random() < 0.5:
            data["y"] = (data.y > 0.5).astype(int)
        else:
            model["trials"] = "m"
        return "y"
    if family == "gaussian":
        y = signal + 0.3 * rng.standard_normal(n)
        if kind == "exact":
            y = signal
    elif family == "gamma":
        y = rng.gamma(2.0, np.exp(np.clip(signal, -3, 3)) / 2)
    else:
        mean = np.exp(np.clip(signal, -3, 3))
        y = rng.poisson(mean * (rng.gamma(1.0, 1.0, n) if family != "poisson" else 1)).astype(float)
    y = spoilt.get(kind, y)
    if kind == "inflated":
        y = np.where(rng.random(n) < 0.8, 0.0, y)
    elif kind == "rounded":
        y = np.round(y)
    elif kind == "wild":
        y = y * np.round(np.exp(8 * np.abs(rng.standard_normal(n))))
    elif kind == "large":
        y = y * 1e6
    elif kind == "small" and family in ("gaussian", "gamma"):
        y = y * 1e-6
    data["y"] = np.maximum(y, 1e-8) if family == "gamma" else y
    return "y"


def options(
    model: dict[str, Any], data: pd.DataFrame, terms: list[str], label: Any, rng: Any
) -> None:
    """Options of a model, and the columns that they need."""
    n, k = len(data), model["k"]
    units = np.arange(n)
    if rng.random() < 0.3:
        units = rng.integers(0, max(2, n // int(rng.choice([2, 5, 20]))), n)
        data["unit"] = units
        model["groups"] = "unit"
    if rng.random() < 0.2:
        data["w"] = weights(str(rng.choice(["mixed", "zeros", "light", "heavy"])), n, rng)[units]
        model["weights"] = "w"
    if rng.random() < 0.15:
        data["o"] = float(rng.choice([0.1, 1.0, 30.0])) * rng.standard_normal(n)
        model["offset"] = "o"
    elif model["link"] == "log" and rng.random() < 0.2:
        data["e"] = np.exp(rng.standard_normal(n))
        model["exposure"] = "e"
    if k > 1 and rng.random() < 0.2:
        data["z"] = column(str(rng.choice(["normal", "switch", "huge", "lone"])), data, rng)[units]
        model["concomitant"] = "~ z"
    if terms and rng.random() < 0.15:
        model["shared"] = [str(rng.choice(terms))]
    elif k > 1 and terms and rng.random() < 0.08:
        model["only"] = {str(rng.choice(terms)): [1]}
    if rng.random() < 0.08:
        model["noise"] = True
    if rng.random() < 0.15:
        model["equal_variance"] = True
    if k > 1 and rng.random() < 0.12:
        known = pd.Series(np.where(rng.random(n) < 0.3, 1.0 + label, np.nan))
        data["known"] = known.groupby(units).transform("first")
        model["known_labels"] = "known"


def weights(kind: str, n: int, rng: np.random.Generator) -> Any:
    """Case weights of some kind."""
    return {
        "mixed": rng.exponential(1.0, n) + 1e-3,
        "zeros": (rng.random(n) < 0.7) + 0.0,
        "light": 1e-3 + 1e-2 * rng.random(n),
        "heavy": 1e4 * rng.exponential(1.0, n) + 1,
    }[kind]


def beside(
    formula: str, right: str, data: pd.DataFrame, model: dict[str, Any], rng: np.random.Generator
) -> tuple[list[str], dict[str, Any]]:
    """Another response that shares the label."""
    data["v"] = np.round(3 * rng.standard_normal(len(data)))
    kept = ("k", "groups", "weights", "concomitant", "equal_variance")
    few = {name: value for name, value in model.items() if name in kept}
    few |= {"family": [model["family"], "gaussian"], "link": [model["link"], None]}
    return [formula, f"v ~ {right}"], few


def choices(
    seed: list[int],
    data: pd.DataFrame,
    terms: list[str],
    model: dict[str, Any],
    rng: np.random.Generator,
) -> Case:
    """Choices among two to four alternatives."""
    n, size = len(data), int(rng.integers(2, 5))
    data["task"] = np.arange(n) // size
    data["unit"] = data.task // int(rng.choice([1, 3]))
    if not terms:
        data["x0"], terms = rng.standard_normal(n), ["x0"]
    first = rng.random() < 0.2
    place = data.groupby("task").cumcount()
    drawn = rng.integers(0, size, n)[data.task]
    data["y"] = place == (0 if first else drawn % data.groupby("task").task.transform("size"))
    data["y"] = data.y.astype(int)
    model |= {"choice_set": "task"}
    if rng.random() < 0.6:
        model["groups"] = "unit"
    return Case(seed, f"y ~ {' + '.join(terms)}", data, model, fitted(model, rng))


def fitted(model: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Options of `fit`."""
    asked: dict[str, Any] = {"seed": int(rng.integers(5))}
    method = str(rng.choice(["em", "altmin", "vb"], p=[0.7, 0.1, 0.2]))
    if method != "em":
        asked["method"] = method
    if rng.random() < 0.4:
        asked["n_init"] = int(rng.choice([1, 2, 6]))
    if rng.random() < 0.15:
        asked["init"] = str(rng.choice(["random", "tensor"]))
    if method == "em" and rng.random() < 0.3:
        asked["cov_type"] = str(rng.choice(["opg", "robust", "none"]))
    if rng.random() < 0.05:
        asked["max_iter"] = int(rng.choice([1, 3]))
    return asked


# What must hold


def check(case: Case) -> list[str]:
    """Fit a model and use it; say what is wrong, if it is not refused."""
    result = MixReg.from_formula(case.formula, case.data, **case.model).fit(**case.fit)
    wrong = [f"{name} is missing" for name, value in reported(result) if np.isnan(value).any()]
    if not result.solution.exact and not result.llf > -1e300:
        wrong.append(f"the log-likelihood is {result.llf}")
    history = np.asarray(result.history, dtype=float)
    if len(history) > 1:
        with np.errstate(invalid="ignore"):
            falls = -np.diff(history) / (1 + np.abs(history[:-1]))
        if np.nanmax(falls, initial=0.0) > 1e-8:
            wrong.append(f"the objective fell by {np.nanmax(falls):.1e} of itself")
    if case.fit.get("method", "em") == "em" and not result.solution.exact:
        gap = abs(result.model.loglike(result.params) - result.llf) / (1 + abs(result.llf))
        if not gap < 1e-5:
            wrong.append(f"the log-likelihood at the parameters is {gap:.1e} of itself off")
    shown = str(result.summary())
    if " nan " in shown and case.fit.get("cov_type") == "none":
        wrong.append("the summary shows nan where errors were not asked for")
    result._repr_html_()
    if not result.model.family.takes_sets:
        result.predict()
    return wrong


def reported(result: Any) -> Iterator[tuple[str, Any]]:
    """Numbers that a result reports, by name."""
    for name in ("params", "weights", "llf", "aic", "bic", "icl", "hqic", "history"):
        yield name, np.asarray(getattr(result, name), dtype=float)
    for name in ("coefficients", "posterior"):
        yield name, getattr(result, name).to_numpy(dtype=float)
    if result.scale is not None:
        yield "scale", np.asarray(result.scale, dtype=float)


def one(case: Case) -> Outcome:
    """What becomes of a case."""
    wrong: list[str] = []
    refused, begin = "", time.process_time()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with patience():
                wrong += check(case)
        except OURS as error:
            refused = f"{type(error).__name__}: {error}"
        except TooLongError:
            place = "given up"
            wrong.append(place)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)
            ours = [each for each in last if "mixreg" in each.filename] or last
            wrong.append(f"{type(error).__name__}: {error} ({_place(ours[-1])})")
    seconds = time.process_time() - begin
    if seconds > SECONDS:
        wrong.append(f"{seconds:.0f} seconds")
    foreign = {
        f"{each.category.__name__}: {each.message} ({_short(each.filename)}:{each.lineno})"
        for each in told
        if not issubclass(each.category, OURS)
    }
    return Outcome(str(case), (*wrong, *sorted(foreign)), refused, seconds)


def _place(frame: Any) -> str:
    return f"{_short(frame.filename)}:{frame.lineno} in {frame.name}"


def _short(path: str) -> str:
    return path.split("/mixreg/")[-1]


@contextmanager
def patience() -> Iterator[None]:
    """Raise `TooLongError` after a while, on systems that have a timer."""

    def give_up(*_: Any) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def of_seed(seed: list[int], small: bool = False) -> Outcome:
    """Make a case and see what becomes of it."""
    return one(make(seed, small))


def outcomes(
    cases: int, seed: int, jobs: int = 1, first: int = 0, small: bool = False
) -> Iterator[Outcome]:
    """What becomes of so many cases, in order."""
    seeds = [[seed, number] for number in range(first, cases)]
    made = partial(of_seed, small=small)
    if jobs == 1:
        yield from map(made, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(made, seeds, chunksize=8)


def run(cases: int, seed: int, jobs: int = 1, first: int = 0, shown: bool = False) -> int:
    """Run cases, print those that are bad, and count them."""
    bad, refused, slowest, kinds = 0, 0, (0.0, ""), Counter[str]()
    for outcome in outcomes(cases, seed, jobs, first):
        slowest = max(slowest, (outcome.seconds, outcome.case))
        refused += bool(outcome.refused)
        kinds[outcome.refused[:60]] += bool(outcome.refused)
        bad += bool(outcome.wrong)
        if outcome.wrong or shown:
            print(f"{outcome.case}: {outcome.seconds:.1f} s", flush=True)
            for each in (*outcome.wrong, *filter(None, [outcome.refused])):
                print(f"    {each}", flush=True)
    if shown:
        for refusal, count in kinds.most_common():
            print(f"{count:5} {refusal}")
    print(
        f"{cases - first} cases, seed {seed}: {bad} bad, {refused} refused, "
        f"slowest {slowest[0]:.1f} seconds ({', '.join(slowest[1].split(', ')[:2])})"
    )
    return bad


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks torture", description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--shown", action="store_true", help="print every case, and refusals")
    asked = parser.parse_args(arguments)
    if run(asked.cases, asked.seed, asked.jobs, asked.first, asked.shown):
        raise SystemExit(1)
