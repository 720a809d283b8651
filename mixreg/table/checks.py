"""Checking what the user declared: numbers, terms, rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, InputWarning, warn
from mixreg.families import Family
from mixreg.mixture.layout import Layout
from mixreg.sources import Source
from mixreg.sources.block import Block
from mixreg.table.columns import in_64_bits, quoted_name
from mixreg.table.design import Design
from mixreg.table.units import plain_value

Array = NDArray[np.float64]


def whole(name: str, value: Any, least: int) -> int:
    """Check a whole number."""
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not good or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return int(value)


def number(name: str, value: Any, low: float, high: float) -> float:
    """Check a number in [low, high]."""
    try:
        real = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number; got {value!r}") from None
    if not low <= real <= high:
        raise InputError(f"{name} must lie in [{low:g}, {high:g}]; got {value!r}")
    return real


def yes_or_no(name: str, value: Any) -> bool:
    """Check a switch."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def place_of(argument: str, value: Any, names: Sequence[str], what: str) -> int:
    """Where a name is among those that there are."""
    if isinstance(value, str) and value in names:
        return list(names).index(value)
    # Tables are not shown: an error is one line.
    shown = repr(value) if isinstance(value, (str, int, float)) else f"a {type(value).__name__}"
    raise InputError(f"{argument}={shown} is unknown; {what} are {', '.join(names)}")


def shared_terms(shared: Any, design: Design) -> tuple[int, ...]:
    """Columns of the terms that do not vary across components."""
    if shared is None:
        return ()
    if isinstance(shared, str):
        shared = [shared]
    if not isinstance(shared, (list, tuple, set)) or not all(isinstance(n, str) for n in shared):
        raise InputError(f"shared={shared!r} must be a list of terms, such as ['price']")
    names = list(shared)
    return tuple(sorted({i for name in names for i in _columns_of(name, design, "shared")}))


def _columns_of(name: Any, design: Design, argument: str) -> list[int]:
    """Columns of a term, or the one column of that name."""
    if name in design.terms:
        return [design.terms.index(name)]
    bare = ["".join(str(term).split()) for term in design.terms]
    if "".join(str(name).split()) in bare:
        return [bare.index("".join(str(name).split()))]
    slices = design.term_slices
    if name not in slices:
        raise InputError(
            f"{argument} names {name!r}, which is not a term of the formula; terms are "
            f"{', '.join([*slices] or design.terms)}"
        )
    return list(range(slices[name].start, slices[name].stop))


def check_differences(k: int, design: Design, shared: tuple[int, ...], family: Family) -> None:
    """Refuse components that have nothing to differ in."""
    same = family.dispersion_name is None or family.equal_dispersion
    if k > 1 and len(shared) == len(design.terms) and same:
        raise InputError(
            "all terms are shared, so the components do not differ in anything; leave one out of "
            "shared="
        )


def absent_terms(
    only: Any, design: Design, shared: tuple[int, ...], k: int
) -> tuple[tuple[int, int], ...]:
    """Pairs of component and column, from 0, where a component lacks a term."""
    if only is None:
        return ()
    if not isinstance(only, dict):
        raise InputError(f"only={only!r} must map terms to components, as {{'price': [1, 2]}}")
    absent = []
    for name, have in only.items():
        numbers = {int(j) for j in np.atleast_1d(have)}
        if not numbers or not numbers <= set(range(1, k + 1)):
            raise InputError(f"only[{name!r}]={have!r} must list components between 1 and {k}")
        columns = _columns_of(name, design, "only")
        if set(columns) & set(shared):
            raise InputError(f"{name!r} is in shared= and in only=; a term can be in one of them")
        absent += [(j, i) for j in range(k) if j + 1 not in numbers for i in columns]
    return tuple(absent)


def check_k(k: Any, source: Source) -> int:
    """Check the number of components against the rows and groups."""
    k = whole("k", k, 1)
    units = source.counting().units
    if k > units:
        what = "groups" if source.has("starts") else "rows"
        raise InputError(f"k={k} is more than the {units} {what}; use a smaller k")
    return k


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest of some rows in each column, (p,)."""

    values: Array

    def __add__(self, other: Largest) -> Largest:
        """The largest of other rows too."""
        return Largest(np.maximum(self.values, other.values))


def largest_values(block: Block, params: None = None) -> Largest:
    """Task: the largest absolute value of each regressor."""
    return Largest(np.abs(block.x).max(axis=0))


@dataclass(frozen=True, slots=True)
class Distinct:
    """Rows that differ, (n, p + 1)."""

    rows: Array

    def __add__(self, other: Distinct) -> Distinct:
        """Those of other rows too."""
        return Distinct(np.unique(np.concatenate([self.rows, other.rows]), axis=0))


def distinct_rows(block: Block, params: None = None) -> Distinct:
    """Task: the rows that differ, regressors and response."""
    return Distinct(np.unique(np.column_stack([block.x, block.y]), axis=0))


def check_attributes(design: Design, source: Source) -> None:
    """Refuse attributes that are the same for all alternatives of every choice set."""
    if not source.has("opens"):
        return
    _refuse_all_levels(design)
    largest = source.sweep(largest_values).values
    same = [design.terms[i] for i in np.flatnonzero(largest < 1e-12)]
    if same:
        raise InputError(
            f"{', '.join(same)} does not vary within choice sets, so it cannot explain a choice; "
            f"{_without_main_effect(design, same) or OF_THE_CHOOSER}"
        )


def _refuse_all_levels(design: Design) -> None:
    """Refuse categories with a column for each level: choices tell only levels apart."""
    for factor in design.right.factors if design.right else ():
        own = design.term_slices.get(factor.code)
        if own is None or factor.levels is None or own.stop - own.start < len(factor.levels):
            continue
        raise InputError(
            f"{factor.code} has a column for each of its {len(factor.levels)} levels, which add up "
            "to a constant, and a constant cannot explain a choice: one level must go. Drop '0 +' "
            "(or '- 1') from the formula, and patsy leaves out the first level as the reference"
        )


OF_THE_CHOOSER = "make it a concomitant, or let it interact with an attribute, as in 'price:income'"


def _without_main_effect(design: Design, same: list[str]) -> str:
    """Say how to write an interaction without a main effect that does not vary."""
    levels = {f.code: f.levels for f in design.right.factors} if design.right else {}
    for term in design.term_slices:
        factors = term.split(":")
        own = [factor for factor in factors if factor in same]
        others = [factor for factor in factors if factor not in own]
        if own and len(others) == 1:
            made = [f"{each}:{own[0]}" for each in _dummies(others[0], levels.get(others[0]))]
            return (
                f"use ':' and not '*': \"{' + '.join([others[0], *made])}\" in place of "
                f'"{others[0]} * {own[0]}"'
            )
    return ""


def _dummies(code: str, levels: tuple[Any, ...] | None) -> list[str]:
    """A factor as numbers: itself, or all levels of a category but the first."""
    if levels is None:
        return [code]
    inner = re.fullmatch(r"C\((.*)\)", code)
    name = inner[1] if inner else code
    return [f"I(1 * ({name} == {plain_value(level)!r}))" for level in levels[1:]]


@dataclass(frozen=True, slots=True)
class MostTrials:
    """The most trials of any row."""

    count: float

    def __add__(self, other: MostTrials) -> MostTrials:
        """Those of other rows too."""
        return MostTrials(max(self.count, other.count))


def most_trials(block: Block, params: None = None) -> MostTrials:
    """Task: the most trials of any row; one where trials are not given."""
    return MostTrials(1.0 if block.trials is None else float(np.max(block.trials)))


def warn_of_single_answers(spec: Any, source: Source) -> None:
    """Warn of components that differ in nothing that is seen: one answer a unit, yes or no."""
    several = spec.k + spec.noise > 1 and len(spec.responses) == 1
    if not several or spec.labelled or source.has("starts") or not spec.family.takes_trials:
        return
    if source.has("trials") and source.sweep(most_trials).count > 1:
        return
    warn(
        f"each observation has a single 0/1 answer, so the data do not determine k={spec.k} "
        "components: at given regressors a mixture of chances is one chance. Let the answers of a "
        "person or shop share a label, groups='column', or give counts with trials=",
        InputWarning,
    )


# From so many components on, a search for more parameters than rows is worth a word: it takes more
# than ten seconds (60 components on 180 rows of one regressor, 80).
MANY_COMPONENTS = 10


def warn_of_many_components(spec: Any, source: Source) -> None:
    """Warn of more parameters than rows: the search takes long, and finds accidents."""
    parameters = spec.layout.size
    if spec.k < MANY_COMPONENTS or parameters <= source.rows:
        return
    warn(
        f"k={spec.k} components have {parameters} parameters, more than the {source.rows} rows: "
        "they will follow single rows, and the search may take minutes. Try a smaller k; select_k "
        "compares several",
        InputWarning,
    )


# Functions whose values are those of other rows: an earlier response explains a later one.
OTHER_ROWS = re.compile(r"(?:^|_)(?:lag|shift|prev)", re.IGNORECASE)


def check_apart(asked: Sequence[Any], gate: Design | None) -> None:
    """Refuse the response on the other side of its formula, and among the concomitants.

    Parameters
    ----------
    asked : sequence of Asked
        The responses.
    gate : Design or None
        Concomitant variables.
    """
    for each in asked:
        design, parts = each.design, _response_columns(each.design)
        for code in _codes(design.right):
            _refuse_response(design, parts, code, f"the formula has {code!r}")
        for argument in ("offset", "exposure"):
            value = each.names[argument]
            if isinstance(value, str) and frozenset([value]) in parts:
                raise _explained(design, f"{argument}={value!r} is the response", value)
        for code in () if gate is None else _codes(gate.right):
            _refuse_response(design, parts, code, f"concomitant has {code!r}")


def _response_columns(design: Design) -> list[frozenset[str]]:
    """Columns that each part of a response is made of: successes and failures are two parts."""
    if design.left is None:
        return []
    found = [frozenset(_named(code) & design.left_columns) for code in _codes(design.left)]
    return [columns for columns in found if columns]


def _codes(recipe: Any) -> list[str]:
    return [] if recipe is None else [factor.code for factor in recipe.factors]


def _refuse_response(design: Design, parts: list[frozenset[str]], code: str, where: str) -> None:
    """Refuse a factor that has all columns of a part of the response: it can tell it.

    One of several columns is another variable: 'I(food / income) ~ income' is a model.
    """
    there = next((part for part in parts if part <= _named(code)), None)
    if there is not None:
        name = ", ".join(sorted(there))
        raise _explained(design, f"{where}, which is made of the response {name!r}", code)


def _explained(design: Design, what: str, code: str) -> InputError:
    return InputError(
        f"{what}: a response cannot explain itself. Leave {code!r} out; for an earlier response, "
        "make a column of it, as with data.groupby('id')['y'].shift()"
    )


def _named(code: str) -> set[str]:
    """Columns that a factor mentions, those of other rows left out."""
    found = set()
    # Not by recursion, which long sums would be too deep for.
    waiting: list[ast.AST] = [ast.parse(code.strip(), mode="eval")]
    while waiting:
        node = waiting.pop()
        called = getattr(node, "func", None)
        if OTHER_ROWS.search(getattr(called, "id", getattr(called, "attr", ""))):
            continue
        name = node.id if isinstance(node, ast.Name) else quoted_name(node)
        if name is not None:
            found.add(name)
        waiting.extend(ast.iter_child_nodes(node))
    return found


def check_rows(layout: Layout, source: Source, family: Family) -> None:
    """Refuse more coefficients than linear regressions of rows can have."""
    index, k = layout.coef_index(), layout.k
    needed = np.unique(index[index >= 0]).size
    if k == 1 or not family.linear or source.has("starts") or source.rows > 50 * needed:
        return
    distinct = len(source.counting().sweep(distinct_rows).rows)
    if distinct < needed:
        raise InputError(
            f"k={k} components with {layout.p} coefficients need at least {needed} distinct rows; "
            f"there are {distinct}; use a smaller k or fewer terms"
        )


def subset_mask(frame: pd.DataFrame, subset: Any) -> NDArray[np.bool_]:
    """Which rows of a frame a query, a mask or labels choose."""
    text = subset if isinstance(subset, str) else None
    if isinstance(subset, slice):
        raise InputError(f"subset={subset!r} is not known; use a query, a mask or row labels")
    if text is not None:
        try:
            subset = in_64_bits(frame, text).eval(text)
        except Exception as error:
            hint = "; write ** for a power" if "^" in text else ""
            raise InputError(f"subset={text!r} cannot be evaluated: {error}{hint}") from error
        if isinstance(getattr(subset, "dtype", None), pd.BooleanDtype):
            subset = subset.fillna(False)  # as with NaN: what is missing meets no condition
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
