"""Why a component is exact, or as tight as the bound on the variances lets it be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import hard_labels
from mixreg.exact.crowding import levels
from mixreg.exact.thresholds import GAP
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Source
from mixreg.sources.block import Block
from mixreg.sources.standard import Whitening

Array = NDArray[np.float64]

# Rows of each component that are looked at, the first ones.
SAMPLE = 2000
# Fewer rows than this show nothing.
ENOUGH = 5
# Share of a component's rows that must agree.
MOST = 0.9
# A lattice has at most so many values ...
VALUES = 100
# ... and each of them so many times, on average.
REPEATS = 5


@dataclass(frozen=True, slots=True)
class WhyTight:
    """Why one component is tight.

    Attributes
    ----------
    component : int
        From 0.
    kind : {"column", "constant", "lattice", "few"}
        The response is a column plus a constant; one value of a lattice; on a
        lattice that regressors are on too; or just these rows.
    rows : float
        Rows of the component.
    share : float
        Share of all rows for which this is so.
    column : int
        Which column.
    value : float
        The constant, or the value.
    spacing : float
        Of the lattice.
    """

    component: int
    kind: Literal["column", "constant", "lattice", "few"]
    rows: float
    share: float
    column: int = -1
    value: float = 0.0
    spacing: float = 0.0


def permuted(reasons: tuple[WhyTight, ...], order: NDArray[np.intp]) -> tuple[WhyTight, ...]:
    """Reasons of the same components in another order, the first component's first."""
    places = np.argsort(order)
    moved = [replace(each, component=int(places[each.component])) for each in reasons]
    return tuple(sorted(moved, key=lambda each: each.component))


@dataclass(frozen=True, slots=True)
class Gathered:
    """Rows in deviations: the first ones of each component, and how many there are.

    Attributes
    ----------
    first : tuple of (n, p + 1) arrays
        The user's columns and the response, in units of its deviation.
    rows : (k,) array
    """

    first: tuple[Array, ...]
    rows: Array

    def __add__(self, other: Gathered) -> Gathered:
        """Add the rows of the next block."""
        pairs = zip(self.first, other.first, strict=True)
        first = tuple(a if len(a) >= SAMPLE else np.concatenate([a, b])[:SAMPLE] for a, b in pairs)
        return Gathered(first, self.rows + other.rows)


@dataclass(frozen=True, slots=True)
class UserRows:
    """The user's columns and response, from standard rows.

    Attributes
    ----------
    back : (p, p) array
        Standard regressors times this are the columns, over the response's scale.
    shift : float
        The response's, over its scale.
    """

    back: Array
    shift: float

    def __call__(self, block: Block) -> Array:
        """The rows of a block, (rows, p + 1)."""
        return np.column_stack([block.x @ self.back, block.y + self.shift])


@dataclass(frozen=True, slots=True)
class Gather:
    """Task: the first rows of each component.

    Attributes
    ----------
    mixture : Mixture
    user : UserRows
    exact : bool
        Label rows by their residuals alone.
    """

    mixture: Mixture
    user: UserRows
    exact: bool

    def __call__(self, block: Block, params: Parameters) -> Gathered:
        """Process one block."""
        state = self.mixture.family.evaluate(block, params)
        if self.exact:
            chosen = hard_labels(self.mixture, block, params, state)[1]
        else:
            chosen = self.mixture.log_joint(block, params, state).argmax(axis=0)
        labels = block.per_row(chosen.astype(float)).astype(int)
        rows = self.user(block)
        first = tuple(rows[labels == j][:SAMPLE] for j in range(params.k))
        return Gathered(first, np.bincount(labels, minlength=params.k)[: params.k].astype(float))


@dataclass(frozen=True, slots=True)
class CountRows:
    """Task: all rows, and those whose response is a column (or nothing) plus a constant."""

    user: UserRows
    column: int
    value: float

    def __call__(self, block: Block, params: None = None) -> Array:
        """Process one block."""
        rows = self.user(block)
        gap = rows[:, -1] - self.value
        if self.column >= 0:
            gap = gap - rows[:, self.column]
        return np.array([float(block.rows), float((np.abs(gap) < GAP).sum())])


def find_reasons(
    source: Source,
    mixture: Mixture,
    params: Parameters,
    whitening: Whitening,
    tight: NDArray[np.intp],
    exact: bool,
) -> tuple[WhyTight, ...]:
    """Say of each tight component of a linear regression why it is so."""
    scale = float(whitening.scale)
    back = np.asarray(np.linalg.inv(whitening.basis), dtype=float) / scale
    user = UserRows(back, float(whitening.shift) / scale)
    gathered = source.sweep(Gather(mixture, user, exact), params)
    pooled = np.concatenate(gathered.first)
    spacing = lattice(pooled[:, -1])
    slopes = whitening.to_user(params).coef / scale
    reasons = []
    for j in tight:
        kind, column, value = _guess(gathered.first[j], slopes[j] * scale, spacing)
        share = float(gathered.rows[j]) / max(1.0, float(gathered.rows.sum()))
        if kind in ("column", "constant"):
            every, alike = source.sweep(CountRows(user, column, value))
            share = float(alike / every)
        reasons.append(
            WhyTight(
                int(j),
                kind,
                float(gathered.rows[j]),
                share,
                column,
                _neat(value * scale),
                _neat(spacing * scale),
            )
        )
    return tuple(reasons)


def _guess(
    rows: Array, slopes: Array, spacing: float
) -> tuple[Literal["column", "constant", "lattice", "few"], int, float]:
    """What the rows of one component have in common: kind, column, constant."""
    if len(rows) < ENOUGH:
        return "few", -1, 0.0
    y = rows[:, -1]
    if spacing and _mode(y)[1] >= MOST:
        return "constant", -1, _mode(y)[0]
    moving = [i for i, column in enumerate(rows[:, :-1].T) if np.ptp(column) > 1e-8]
    found = [(*_mode(y - rows[:, i])[::-1], i) for i in moving]
    if found and max(found)[0] >= MOST:
        _, value, column = max(found)
        return "column", column, value
    used = [i for i in moving if abs(slopes[i]) * np.ptp(rows[:, i]) > 1e-6 * max(np.ptp(y), 1e-9)]
    if spacing and used and all(lattice(rows[:, i]) for i in used):
        return "lattice", -1, 0.0
    return "few", -1, 0.0


def _mode(values: Array) -> tuple[float, float]:
    """The most frequent value, and its share."""
    codes = levels(values)
    top = int(np.bincount(codes).argmax())
    return float(values[codes == top].mean()), float((codes == top).mean())


def lattice(values: Array) -> float:
    """Common spacing of a few values that repeat, or 0."""
    codes = levels(values)
    count = int(codes.max()) + 1
    if count < 2 or count > VALUES or REPEATS * count > len(values):
        return 0.0
    steps = np.diff(np.sort(values[np.unique(codes, return_index=True)[1]]))
    spacing = float(steps[0])
    for step in steps[1:]:
        # Euclid's algorithm, for lengths that are known to some digits.
        a, b = max(spacing, float(step)), min(spacing, float(step))
        while b > 1e-7 * a:
            a, b = b, a - b * round(a / b)
            b = abs(b)
        spacing = a
    return spacing if spacing > float(steps.sum()) / (4 * VALUES) else 0.0


def _neat(value: float) -> float:
    """A value without the last digits, which are rounding errors."""
    return float(f"{value:.8g}") if abs(value) > 1e-8 else 0.0


def tight_components(params: Parameters, exact: bool, ratio: float) -> NDArray[np.intp]:
    """All components of an exact fit, or those at the bound on the variances."""
    if exact:
        return np.arange(params.k)
    least = ratio * params.dispersion.max() * (1 + 1e-6)
    return np.flatnonzero(params.dispersion <= least)
