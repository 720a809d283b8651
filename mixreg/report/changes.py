"""What becomes of regressors when one variable changes: by a little, or to another level.

Derivatives of columns are taken through the formula, by differences of the fourth order
that stay within the range of the data: logarithms and splines end there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.report.base_results import BaseResults
from mixreg.table.columns import as_frame, names_in
from mixreg.table.recipe import Recipe
from mixreg.table.spec import Spec

Array = NDArray[np.float64]

# Weights of five values, a step apart, in the derivative at the first, the middle and the last.
STENCIL = np.array([[-25, 48, -36, 16, -3], [1, -8, 0, 8, -1], [3, -16, 36, -48, 25]]) / 12
# A step as a share of the spread of a variable, or of its size where that is smaller; sizes
# below this share of the spread do not count.
STEP, SMALLEST = 1e-3, 1e-5


@dataclass(frozen=True, eq=False)
class Change:
    """A change of one variable, at some rows.

    Attributes
    ----------
    variable, contrast : str
        What changes, and how: "dy/dx", or "b - a".
    x : list of arrays, or of pairs of arrays, (n, p)
        Of each response: derivatives of the regressors, or regressors before and after.
    z : array, pair of arrays, or None
        The same of the concomitants; None where they do not change.
    discrete : bool
    """

    variable: str
    contrast: str
    x: list[Any]
    z: Any
    discrete: bool


def levels_of(spec: Spec) -> dict[str, tuple[Any, ...] | None]:
    """Variables of the formulas, and the levels of those that are categories."""
    designs = [response.design for response in spec.responses]
    if spec.gate_design is not None:
        designs.append(spec.gate_design)
    found: dict[str, tuple[Any, ...] | None] = {}
    for design in designs:
        if design.right is None:
            found |= dict.fromkeys(design.terms) if design is not spec.gate_design else {}
            continue
        for name in _in_order(design.right, design.right_columns):
            found[name] = found.get(name) or _levels(design.right, name)
    return found


def _in_order(recipe: Recipe, columns: frozenset[str]) -> list[str]:
    """Variables of a formula as they come in it."""
    named = [name for factor in recipe.factors for name in sorted(names_in(factor.code))]
    return [name for name in dict.fromkeys(named) if name in columns]


def _levels(recipe: Recipe, name: str) -> tuple[Any, ...] | None:
    """Levels of a variable that a formula takes for a category."""
    for factor in recipe.factors:
        if factor.kind == "categorical" and name in names_in(factor.code):
            return factor.levels
    return None


def chosen(res: BaseResults, variables: Any) -> dict[str, tuple[Any, ...] | None]:
    """The variables that are asked for, in their order."""
    known = levels_of(res.spec)
    if variables is None:
        return known
    wanted = [variables] if isinstance(variables, str) else list(variables)
    for name in wanted:
        if name not in known:
            raise InputError(f"variables={name!r} is unknown; the model has {', '.join(known)}")
    return {name: known[name] for name in wanted}


def changes(
    res: BaseResults, frame: Any, variables: Any, reach: dict[str, tuple[float, float, float]]
) -> Iterator[Change]:
    """Changes of the variables at the rows of a table.

    Parameters
    ----------
    frame : DataFrame or array
    variables : str, list of str or None
    reach : dict
        Spread, smallest and largest value of numbers: differences stay within.
    """
    table = frame if isinstance(frame, np.ndarray) else as_frame(frame)
    for name, levels in chosen(res, variables).items():
        if levels is not None:
            yield from _switches(res, table, name, levels)
        else:
            yield _slope(res, table, name, reach[name])


def _switches(
    res: BaseResults, table: pd.DataFrame, name: str, levels: tuple[Any, ...]
) -> Iterator[Change]:
    """From the first level to each of the others."""
    before = made(res, _with(table, name, levels[0]))
    for level in levels[1:]:
        after = made(res, _with(table, name, level))
        x = list(zip(before[0], after[0], strict=True))
        z = None if before[1] is None else (before[1], after[1])
        yield Change(name, f"{level} - {levels[0]}", x, z, True)


def _slope(res: BaseResults, table: Any, name: str, reach: tuple[float, float, float]) -> Change:
    """By a little."""
    value = values_of(res, table, name)
    spread, low, high = reach
    size = np.maximum(np.abs(value), SMALLEST * spread)
    step = STEP * np.minimum(spread, size)
    # Which of five values is where the row stands.
    at = np.where(value - 2 * step < low, 0, np.where(value + 2 * step > high, 4, 2))
    at = np.where((value - 2 * step < low) & (value + 2 * step > high), 2, at)
    weights = STENCIL[at // 2] / step[:, None]
    here, gate_here = made(res, table)
    x: list[Any] = [0.0 for _ in res.spec.responses]
    z: Any = 0.0
    for node in range(5):
        moved = _with(table, name, value + (node - at) * step, res)
        columns, gate = made(res, moved)
        share = weights[:, node, None]
        # Less what is here, so that columns without the variable stay exactly where they are.
        parts = zip(x, columns, here, strict=True)
        x = [old + share * (new - base) for old, new, base in parts]
        z = None if gate is None or gate_here is None else z + share * (gate - gate_here)
    return Change(name, "dy/dx", x, None if z is None or not np.any(z) else z, False)


def values_of(res: BaseResults, table: Any, name: str) -> Array:
    """A variable as numbers."""
    if isinstance(table, np.ndarray):
        return np.asarray(table[:, res.spec.exog_names.index(name)], dtype=float)
    try:
        return table[name].to_numpy(dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the variable {name!r} holds {table[name].dtype}, and the formula makes numbers of "
            "it; leave it out with variables=[...]"
        ) from error


def _with(table: Any, name: str, value: Any, res: BaseResults | None = None) -> Any:
    """A table with another value in a column."""
    if isinstance(table, np.ndarray):
        assert res is not None
        out = np.array(table, dtype=float)
        out[:, res.spec.exog_names.index(name)] = value
        return out
    return table.assign(**{name: value}) if isinstance(name, str) else _replaced(table, name, value)


def _replaced(table: pd.DataFrame, name: Any, value: Any) -> pd.DataFrame:
    out = table.copy()
    out[name] = value
    return out


def made(res: BaseResults, table: Any) -> tuple[list[Array], Array | None]:
    """Regressors of each response, and concomitants."""
    x = [response.design.regressors(table)[0] for response in res.spec.responses]
    gate = res.spec.gate_design
    if gate is None or isinstance(table, np.ndarray):
        return x, None
    wanted = gate.right_columns if gate.right is not None else frozenset(gate.terms)
    return x, gate.regressors(table)[0] if wanted <= set(table.columns) else None
