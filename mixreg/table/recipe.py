"""How columns are made from a table: what patsy learnt, in a form that can be kept.

Patsy's own objects can be neither pickled nor copied. A recipe holds what they know (codes of
the factors, levels, contrasts, and the state of transforms such as `bs` and `center`) and
makes them anew when it is used.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import patsy
from numpy.typing import NDArray
from patsy.contrasts import ContrastMatrix
from patsy.desc import Term
from patsy.design_info import DesignInfo, FactorInfo, SubtermInfo
from patsy.eval import EvalEnvironment, EvalFactor

from mixreg.errors import MOST_LISTED, InputError, nearest
from mixreg.table.columns import (
    NUMBER,
    UNFIT,
    bare_name,
    is_switch,
    names_in,
    refuse_text,
    uses_of,
)
from mixreg.table.functions import written_with_np
from mixreg.table.units import plain_value

Array = NDArray[np.float64]

# What patsy says of a level that it has not learnt.
UNSEEN = "does not match any of the expected levels"
KEEP_MISSING = patsy.NAAction(on_NA="drop", NA_types=[])


@dataclass(frozen=True)
class Module:
    """A module that a formula names, such as `np`.

    Attributes
    ----------
    name : str
    """

    name: str


@dataclass(frozen=True, eq=False)
class Factor:
    """One factor of a formula.

    Attributes
    ----------
    code : str
        Such as `np.log(price)`.
    kind : {"numerical", "categorical"}
    columns : int or None
        Columns that a numerical factor gives.
    levels : tuple or None
        Levels of a categorical factor.
    states : tuple of dicts
        What its stateful transforms learnt, in the order in which they are called.
    """

    code: str
    kind: str
    columns: int | None
    levels: tuple[Any, ...] | None
    states: tuple[dict[str, Any], ...]


@dataclass(frozen=True, eq=False)
class Contrast:
    """How a categorical factor is coded in a subterm.

    Attributes
    ----------
    factor : int
        Its number.
    matrix : (levels, columns) array
    suffixes : tuple of str
    """

    factor: int
    matrix: Array
    suffixes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Subterm:
    """One product of factors.

    Attributes
    ----------
    factors : tuple of int
        Numbers of the factors.
    contrasts : tuple of Contrast
    columns : int
    """

    factors: tuple[int, ...]
    contrasts: tuple[Contrast, ...]
    columns: int


@dataclass(frozen=True, eq=False)
class RecipeTerm:
    """One term of a formula, and the subterms that code it.

    Attributes
    ----------
    factors : tuple of int
    subterms : tuple of Subterm
    """

    factors: tuple[int, ...]
    subterms: tuple[Subterm, ...]


@dataclass(frozen=True, eq=False)
class Recipe:
    """One side of a formula, with all that was learnt from the data.

    Attributes
    ----------
    names : tuple of str
        Names of the columns that it makes.
    factors : tuple of Factor
    terms : tuple of RecipeTerm
    outside : dict
        What factors name that is not a column of the table: functions, modules
        (as `Module`), numbers.
    """

    names: tuple[str, ...]
    factors: tuple[Factor, ...]
    terms: tuple[RecipeTerm, ...]
    outside: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def info(self) -> Any:
        """The same as patsy has it."""
        known = {name: opened(value) for name, value in self.outside.items()}
        infos = [_factor_info(factor, EvalEnvironment([known])) for factor in self.factors]
        made = [info.factor for info in infos]
        codings = OrderedDict(
            (Term([made[i] for i in term.factors]), [_subterm(s, made) for s in term.subterms])
            for term in self.terms
        )
        return DesignInfo(list(self.names), {info.factor: info for info in infos}, codings)

    def __getstate__(self) -> dict[str, Any]:
        """All but what patsy makes of it."""
        return {key: value for key, value in self.__dict__.items() if key != "info"}

    def __deepcopy__(self, memo: Any) -> Recipe:
        """Itself: it is frozen, and functions in it are shared anyway."""
        return self

    def as_levels(self, frame: pd.DataFrame) -> pd.DataFrame:
        """New rows whose categories may have other levels than the fit's, as values.

        Patsy refuses levels that are declared and that no row has.
        """
        coded = [factor for factor in self.factors if factor.levels is not None]
        names = {name for factor in coded for name in names_in(factor.code)}
        known = [factor.levels for factor in coded]
        other = [
            name
            for name, dtype in frame.dtypes.items()
            if name in names
            and isinstance(dtype, pd.CategoricalDtype)
            and tuple(dtype.categories) not in known
        ]
        return frame.astype(dict.fromkeys(other, object)) if other else frame

    def apply(self, frame: pd.DataFrame) -> Array:
        """The columns of a table without missing values."""
        with evaluation(tuple(frame.columns)):
            try:
                for factor in self.factors:
                    refuse_text(factor.code, frame)
                made = patsy.build_design_matrices([self.info], frame, NA_action=KEEP_MISSING)[0]
            except (patsy.PatsyError, *UNFIT) as error:
                message = self._misfit(error, frame)
                if message is not None:
                    raise InputError(message) from error
                raise
            return np.asarray(made, dtype=float)

    def _misfit(self, error: Exception, frame: pd.DataFrame) -> str | None:
        """Why new data do not fit what was learnt; None if that is not known."""
        if "outermost knots" in str(error):
            return self._beyond_knots()
        if UNSEEN in str(error):
            return self._unseen(frame)
        for factor in self.factors:
            name = bare_name(factor.code)
            used = {name} if name else {n for n, use, _ in uses_of(factor.code) if use == NUMBER}
            for each in sorted(used & set(frame.columns)) if factor.kind == "numerical" else ():
                if not pd.api.types.is_numeric_dtype(frame[each].dtype) or is_switch(frame[each]):
                    kind = pd.api.types.infer_dtype(frame[each])
                    return (
                        f"new data have {kind} values in column {each!r}, which held numbers in "
                        f"the data of the fit; turn them into numbers, as with "
                        f"pd.to_numeric(data[{each!r}])"
                    )
        return None

    def _unseen(self, frame: pd.DataFrame) -> str | None:
        """Say which levels of which column the data of the fit had not."""
        for info in self.info.factor_infos.values():
            made = info.factor.eval(info.state, frame) if info.categories is not None else ()
            values = pd.unique(np.asarray(getattr(made, "data", made), dtype=object).ravel())
            new = _listed([each for each in values if each not in set(info.categories or values)])
            if new:
                name = bare_name(info.factor.code)
                return (
                    f"new data have levels of {f'column {name!r}' if name else info.factor.code} "
                    f"that the data of the fit had not: {new}. Its levels are "
                    f"{_listed(info.categories)}. Give the rows one of these, leave them out, or "
                    "fit with rows of the new levels"
                )
        return None

    def _beyond_knots(self) -> str:
        """Where splines that do not go beyond their knots have them."""
        ranges = [
            f"[{min(state['_all_knots']):g}, {max(state['_all_knots']):g}] of {factor.code}"
            for factor in self.factors
            for state in factor.states
            if "_all_knots" in state
        ]
        return (
            f"new data lie outside the range of a spline, which is {', '.join(ranges)}; clip the "
            "column, or fit with a wider lower_bound= and upper_bound= in bs()"
        )


def make_recipe(info: Any, columns: frozenset[str]) -> Recipe:
    """Write down what patsy learnt; `columns` are names that the table has."""
    made = list(info.factor_infos)
    number = {factor: i for i, factor in enumerate(made)}
    factors, outside = [], {}
    for factor in made:
        known = info.factor_infos[factor]
        states = tuple(_state_of(each) for each in known.state["transforms"].values())
        factors.append(Factor(factor.code, known.type, known.num_columns, known.categories, states))
        outside.update(outside_of(factor.code, known.state["eval_env"].namespace, columns))
    terms = tuple(
        RecipeTerm(
            tuple(number[factor] for factor in term.factors),
            tuple(_read_subterm(subterm, number) for subterm in subterms),
        )
        for term, subterms in info.term_codings.items()
    )
    return Recipe(tuple(info.column_names), tuple(factors), terms, outside)


def outside_of(code: str, namespace: Any, columns: frozenset[str]) -> dict[str, Any]:
    """What a factor names beside columns and patsy's own functions."""
    found = {}
    for name in patsy.eval.ast_names(code):
        if name in columns or name not in namespace:
            continue
        value = namespace[name]
        if value is getattr(patsy.builtins, name, None):
            continue
        found[name] = Module(value.__name__) if isinstance(value, ModuleType) else value
    return found


def opened(value: Any) -> Any:
    """What a factor names: a module is imported, all else is as it is."""
    return importlib.import_module(value.name) if isinstance(value, Module) else value


def _state_of(transform: Any) -> dict[str, Any]:
    """What a stateful transform learnt: its attributes."""
    return {name: value for name, value in vars(transform).items() if name != "_tmp"}


def _factor_info(factor: Factor, environment: EvalEnvironment) -> Any:
    """A factor as patsy has it after it has seen the data."""
    made, state = EvalFactor(factor.code), {}  # type: ignore[var-annotated]
    made.memorize_passes_needed(state, environment)
    for transform, learnt in zip(state["transforms"].values(), factor.states, strict=True):
        vars(transform).update(learnt)
    return FactorInfo(made, factor.kind, state, factor.columns, factor.levels)


def _read_subterm(subterm: Any, number: dict[Any, int]) -> Subterm:
    contrasts = tuple(
        Contrast(number[factor], np.asarray(each.matrix, float), tuple(each.column_suffixes))
        for factor, each in subterm.contrast_matrices.items()
    )
    return Subterm(tuple(number[f] for f in subterm.factors), contrasts, subterm.num_columns)


def _subterm(subterm: Subterm, made: list[Any]) -> Any:
    contrasts = {
        made[each.factor]: ContrastMatrix(each.matrix, list(each.suffixes))
        for each in subterm.contrasts
    }
    return SubtermInfo([made[i] for i in subterm.factors], contrasts, subterm.columns)


@contextmanager
def evaluation(columns: tuple[Any, ...]) -> Iterator[None]:
    """Say in plain words why patsy could not make columns; `columns` are those of the table."""
    try:
        yield
    except InputError:
        raise
    except (patsy.PatsyError, *UNFIT) as error:
        raise formula_error(error, columns) from error


def _listed(values: Sequence[Any]) -> str:
    """Some values as text."""
    more = f" and {len(values) - MOST_LISTED} more" if len(values) > MOST_LISTED else ""
    return ", ".join(repr(plain_value(value)) for value in values[:MOST_LISTED]) + more


def formula_error(error: Exception, columns: tuple[Any, ...]) -> InputError:
    """Say in plain words why patsy could not read a formula."""
    cause = error.__cause__ or error
    text = str(cause).split("\n")[0]
    message = f"the formula cannot be evaluated: {text}"
    if isinstance(cause, NameError) and columns:
        return _absent(getattr(cause, "name", None) or "", code_of(error), columns)
    if isinstance(cause, TypeError) and "ufunc" in text:
        code = repr(code_of(error)) if code_of(error) else "the formula"
        message = (
            f"{code} takes numbers of a column that holds text, or something else that is no "
            f"number ({text}); look at data.dtypes, and turn the column into numbers, as with "
            "pd.to_numeric(data['column']), which names what is none"
        )
    if "no attribute 'dtype'" in text:
        message = "a term of the formula was numeric in some rows, and is none in others"
    if "levels" in text or "categor" in text.lower():
        message += "; new data must have the categories the model was fitted with"
    return InputError(message)


def code_of(error: Exception) -> str:
    """The piece of a formula that an error is about; empty if that is not known."""
    origin = getattr(error, "origin", None)
    return "" if origin is None else str(origin.code[origin.start : origin.end])


def _absent(name: str, code: str, columns: tuple[Any, ...]) -> InputError:
    """Say that a formula names what is no column, and what may have been meant."""
    with_np = written_with_np(name, code)
    if with_np is not None:
        hint = f"; write {with_np}, after 'import numpy as np'"
    elif name == "np":
        hint = "; write 'import numpy as np' where the formula is written"
    else:
        hint = nearest(name, columns)
        if "did you mean" not in hint:
            hint += "; if it is a function or a module, import it where the formula is written"
    return InputError(f"the formula names {name!r}, which is not a column of data{hint}")
