"""Coefficients under which every row has a mean, where a link does not give it one.

The identity of counts, the logarithm of chances, square roots and inverses lead out of the range
of means. Starts are drawn towards coefficients that are safe; where there are none, the model is
refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from mixreg.errors import InputError
from mixreg.families import Family
from mixreg.families.statistics import linear_predictor
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.constants import MOST_HALVINGS
from mixreg.sources import Swept
from mixreg.sources.block import Block

Array = NDArray[np.float64]

# Rows of a block that a linear programme takes up at a time, and how often it is solved anew.
WORST, ROUNDS = 500, 40
# Distance from the edge of the range, as a share of the predictors' size, that is wished for;
# below the other share, rows are on the edge.
WISHED, LEAST_MARGIN = 0.1, 1e-7


@dataclass(frozen=True, slots=True)
class AnyRow:
    """Whether something is so at any row, (k, [runs])."""

    mask: NDArray[np.bool_]

    def __add__(self, other: AnyRow) -> AnyRow:
        """Or at any row of another block."""
        return AnyRow(self.mask | other.mask)


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """Task: coefficients (k, [runs,] p) under which some row has no mean."""

    mixture: Mixture

    def __call__(self, block: Block, params: Array) -> AnyRow:
        """Process one block."""
        mask = np.zeros(params.shape[:-1], dtype=bool)
        for part, (at, own) in zip(self.mixture.family.parts, block.responses(), strict=True):
            good = part.in_range(linear_predictor(own, params[..., at]))
            if good is not None:
                mask |= ~good.all(axis=-1)
        return AnyRow(mask)


def feasible(source: Swept, mixture: Mixture, params: Parameters, safe: Array) -> Parameters:
    """Draw coefficients towards safe ones until all means are in their range.

    Links such as the identity of counts lead out of it.
    """
    if not mixture.family.ranged:
        return params
    coef, goal = params.coef, np.broadcast_to(safe, params.coef.shape).copy()
    for j, i in mixture.absent:
        goal[j, ..., i] = 0.0
    for _ in range(MOST_HALVINGS):
        bad = source.sweep(OutOfRange(mixture), coef).mask
        if not bad.any():
            break
        if mixture.shared:
            # What is common stays common: all components move, or none.
            bad = np.broadcast_to(bad.any(axis=0), bad.shape)
        coef = np.where(bad[..., None], 0.5 * (coef + goal), coef)
    return replace(params, coef=coef)


@dataclass(frozen=True, slots=True)
class Worst:
    """Rows of one response that are nearest to the edge of the range, or beyond it.

    Attributes
    ----------
    x : (rows, p) array
    offset : (rows,) array
    out : bool
        Whether some row is out of range.
    """

    x: Array
    offset: Array
    out: bool

    def __add__(self, other: Worst) -> Worst:
        """Rows of another block too."""
        x, offset = np.concatenate([self.x, other.x]), np.append(self.offset, other.offset)
        return Worst(x, offset, self.out or other.out)


@dataclass(frozen=True, slots=True)
class TakeWorst:
    """Task: the rows of a response that coefficients (p,) bring farthest out of range."""

    family: Family
    number: int = 0

    def __call__(self, block: Block, params: Array) -> Worst:
        """Process one block."""
        own = block.response(self.number)
        low, high = self.family.predictor_range
        eta = linear_predictor(own, params[None])[0]
        good = self.family.in_range(eta)
        some = np.argsort(np.minimum(eta - low, high - eta), kind="stable")[:WORST]
        offset = np.zeros(own.rows) if own.offset is None else own.offset
        return Worst(own.x[some], offset[some], good is not None and not good.all())


def safe_coefficients(source: Swept, mixture: Mixture, wanted: Array, columns: Any) -> Array:
    """Coefficients (p,) under which all rows have a mean: those wanted, or others.

    Parameters
    ----------
    source : Swept
    mixture : Mixture
    wanted : (p,) array
    columns : list of slices or int arrays
        Where those of each response are.

    Raises
    ------
    InputError
        If there are none.
    """
    found = wanted.copy()
    for number, (part, at) in enumerate(zip(mixture.family.parts, columns, strict=True)):
        if part.in_range(np.zeros(1)) is not None:
            found[at] = _programme(source, TakeWorst(part, number), wanted[at])
    return found


def _programme(source: Swept, task: TakeWorst, at: Array) -> Array:
    """Coefficients as far within the range as is wished for, if that can be.

    Of many rows only those are taken up that earlier solutions left outside.
    """
    low, high = task.family.predictor_range
    worst = source.sweep(task, at)
    if not worst.out:
        return at
    for _ in range(ROUNDS):
        # All is brought to order one.
        size = max(float(np.abs(worst.x).max()), 1e-300)
        level = max(size * float(np.abs(at).max()), float(np.abs(worst.offset).max())) or 1.0
        unit = high - low if np.isfinite(high - low) else level
        x, offset = worst.x / size, worst.offset / unit
        sides = [(-x, offset - low / unit)] if low > -np.inf else []
        sides += [(x, high / unit - offset)] if high < np.inf else []
        if not sides:
            break
        left = np.concatenate([np.column_stack([side, np.ones(len(x))]) for side, _ in sides])
        made = linprog(
            np.append(np.zeros(len(at)), -1.0),
            left,
            np.concatenate([limit for _, limit in sides]),
            bounds=[(None, None)] * len(at) + [(None, WISHED)],
        )
        if not made.success or made.x[-1] < LEAST_MARGIN:
            break
        at = made.x[:-1] * unit / size
        new = source.sweep(task, at)
        if not new.out:
            return np.asarray(at)
        worst = worst + new
    raise no_means(task.family)


def no_means(family: Family) -> InputError:
    """Say that no coefficients give every row a mean."""
    low, high = family.predictor_range
    allowed = f"between {low:g} and {high:g}"
    if high == np.inf:
        allowed = f"above {low:g}" if low > -np.inf else "in the link's range"
    elif low == -np.inf:
        allowed = f"below {high:g}"
    other = "logit" if family.takes_trials else "log"
    instead = f"link={other!r}, which has means everywhere" if other in family.links else "another"
    return InputError(
        f"link={family.link_name!r} of family={family.name!r} has a mean only where the linear "
        f"predictor is {allowed}, and no coefficients were found that bring all observations "
        f"there. Add an intercept, look at the offset and at weights, or use {instead}"
    )
