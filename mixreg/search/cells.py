"""Cells: rows that lie close together, looked at as one.

Starts and moves cost what rows cost, and data of many rows can afford few of them.
Rows are cut into cells that lie close together in regressors and residuals. If all
rows of a cell had the same class probabilities, the log-likelihood would be

    sum over cells of m log sum_j w_j exp(mean over the cell of log f_j),

a lower bound of the real one, for any components, that needs only the cross
products of each cell. EM on it is EM on as many weighted units as there are cells,
and its maxima lie near those of the rows. Each round cuts the rows in another way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import SoftAssignment
from mixreg.estimators.loop import Control
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.constants import (
    CELL_PLAN,
    CELL_ROUNDS,
    CELL_SHARE,
    CELLS,
    CUTTING,
    ENOUGH,
    JITTER,
    LEAST_BATCH,
    MOST_LOST,
    OF_COLUMNS,
    ROWS_OF_CELL,
    SAME_HEIGHT,
    STRETCH,
)
from mixreg.search.course import Course
from mixreg.search.levels import has_exact
from mixreg.search.record import Maximum, chance_of_better
from mixreg.search.views import Meeting, View, ViewSearch
from mixreg.sources import Source
from mixreg.sources.block import Block, GramBlock, condense

Array = NDArray[np.float64]
Points = NDArray[np.float32]

# Rows that are worked on at once.
PIECE = 8_192


def can_be_cut(source: Source, mixture: Mixture) -> bool:
    """Whether there are so many rows, all of them units, that cells pay."""
    plain = not any(source.has(name) for name in ("starts", "known", "z"))
    few = source.rows < ROWS_OF_CELL * CELLS
    return mixture.family.linear and plain and not few and mixture.background is None


def cut(points: Points, cells: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Cut rows into cells of equal size, each time across the widest direction.

    Returns
    -------
    order : (rows,) int array
        Row numbers, cell by cell.
    starts : (cells,) int array
        Where each cell begins in that order.
    """
    order, edges = np.arange(len(points)), np.array([0, len(points)])
    for _ in range(int(np.log2(cells))):
        first, middle = edges[:-1], (edges[:-1] + edges[1:]) // 2
        count = np.diff(edges)
        widest = np.argmax([_spreads(column, first, count) for column in points.T], axis=0)
        places = zip(first.tolist(), middle.tolist(), edges[1:].tolist(), widest, strict=True)
        halved = np.empty_like(order)
        for begin, half, end, column in places:
            halved[begin:end] = points[begin:end, column].argpartition(half - begin) + begin
        order, points = order[halved], points[halved]
        edges = np.sort(np.concatenate([edges, middle]))
    return order, edges[:-1]


def _spreads(column: Points, first: NDArray[np.intp], count: NDArray[np.intp]) -> Array:
    """Variance of a column in each part of the rows, as large as suits comparing them."""
    mean = np.add.reduceat(column, first, dtype=float) / count
    return np.asarray(np.add.reduceat(column * column, first, dtype=float) / count - mean**2)


def coordinates(course: Course, around: Parameters | None) -> Points:
    """Where rows lie, for cells: along the user's columns, and across lines.

    Across the pooled fit, or across the components of a fit: rows that lie alike
    to these have the same class probabilities.
    """
    rows, white = course.source.block, course.whitening
    assert isinstance(rows, Block)
    # Cells across categories would mix them, so columns are as the user gave them.
    basis = np.linalg.inv(white.basis)
    centre = rows.x.mean(axis=0) @ basis
    lines = white.pooled[None] if around is None else around.coef
    columns = len(centre)
    points = np.empty((rows.rows, columns + len(lines)), dtype=np.float32)
    for first in range(0, rows.rows, PIECE):
        x, y = rows.x[first : first + PIECE], rows.y[first : first + PIECE]
        points[first : first + PIECE, :columns] = x @ basis - centre
        points[first : first + PIECE, columns:] = y[:, None] - x @ lines.T
    spread = np.array([column.std(dtype=float) for column in points.T])
    flat = spread[:columns] <= 1e-6 * (np.abs(centre) + spread[:columns])
    scale = 1 / np.maximum(spread, 1e-30)
    scale[:columns][flat] = 0.0
    if around is None:
        scale[columns:] *= STRETCH
    else:
        scale[:columns] *= OF_COLUMNS
        scale[columns:] = 1 / np.sqrt(around.dispersion)
    points *= scale.astype(np.float32)
    return points


def cells_of(course: Course, around: Parameters | None, rng: np.random.Generator) -> View:
    """The rows of a course as cells, which count as often as they have rows.

    Parameters
    ----------
    course : Course
    around : Parameters or None
        A fit whose components cells follow; None: the pooled fit.
    rng : Generator
        Stretches all directions a little, so that no two views are alike.
    """
    points = coordinates(course, around)
    points *= rng.uniform(*JITTER, points.shape[1]).astype(points.dtype)
    rows, white = course.source.block, course.whitening
    assert isinstance(rows, Block)
    order, starts = cut(points, CELLS)
    edges = np.append(starts, rows.rows)
    # Products of all rows would be many times the rows: some cells at a time.
    each = max(1, PIECE * CELLS // rows.rows)
    parts = [_gathered(rows, order, edges[i : i + each + 1]) for i in range(0, len(starts), each)]
    means, hidden, count = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    block = GramBlock(means, np.ones(len(starts)), count, rows.x.shape[1])
    if rows.rounding is not None:
        block = replace(block, rounding=hidden)
    return View(course.mixture, course.sample, course.sample, white, course.k, block)


def _gathered(
    rows: Block, order: NDArray[np.intp], edges: NDArray[np.intp]
) -> tuple[Array, Array, Array]:
    """Mean cross products of some cells, what rounding hides, and rows that each counts for."""
    places, starts = order[edges[0] : edges[-1]], edges[:-1] - edges[0]
    x, y, count = rows.x[places], rows.y[places], np.diff(edges).astype(float)
    hidden = np.zeros(len(y)) if rows.rounding is None else rows.rounding[places]
    if rows.weight is not None:
        weight = rows.weight[places]
        hidden = hidden * weight
        count = np.add.reduceat(weight, starts)
        x, y = x * np.sqrt(weight)[:, None], y * np.sqrt(weight)
    gram = condense(Block(x, y, starts=starts)).gram
    least = np.maximum(count, 1e-300)
    return gram / least[:, None], np.add.reduceat(hidden, starts) / least, count


def faithful(course: Course, view: View, params: Parameters) -> bool:
    """Whether cells keep enough of what a fit gains over one component."""
    task, stack = SoftAssignment(course.mixture), params.stacked()
    rows, seen = (float(c.source.sweep(task, stack).objective[0]) for c in (course, view))
    variance = max(course.whitening.variance, 1e-300)
    one = -0.5 * course.rows * (np.log(2 * np.pi * variance) + 1)
    return bool(rows - seen < MOST_LOST * (rows - one))


class CellSearch(ViewSearch):
    """A search that looks at cells where starts on few rows do not agree."""

    # On diamonds, k = 4, the best is among the twelve highest of a view. With the six highest after
    # eight steps 15 of 20 seeds end no lower than the best of 50 random starts, and with three,
    # which take a tenth less time; 19 of 20 with either and k = 3.
    meeting: ClassVar[Meeting] = Meeting(most=16, steps=8, best=3, close=0.1, near=0.05)
    cycle: ClassVar[tuple[str, ...]] = ("labels", "labels", "labels", "random")
    # Diamonds: with 0.65 two of six seeds find the best with k = 3, with 1.0 five do.
    of_plain: ClassVar[float] = 0.9
    to_the_end: ClassVar[Control] = Control(max_iter=100, tol=1e-5, leaps=True)

    def unit_cost(self, p: int) -> float:
        """Multiplications that a cell costs in a pass, about; a logarithm or so counts 60."""
        return (p + 1) * (p + 2) + 60

    def widen(self, course: Course, maxima: list[Maximum]) -> list[Maximum]:
        """Rounds on cells, then starts and moves on the rows."""
        if course.sample.rows < ROWS_OF_CELL * CELLS or has_exact(course, maxima):
            return super().widen(course, maxima)
        failed, turn, height = 0, 0, self.worth_of(course, maxima)
        while failed < CELL_ROUNDS and self.spent < CELL_SHARE * self.budget:
            place, turn = CELL_PLAN[turn % len(CELL_PLAN)], turn + 1
            around = None if place is None else maxima[min(place, len(maxima) - 1)].run.params
            view = cells_of(course, around, self.rng)
            self.spent += CUTTING * course.source.cost
            other = maxima[min(1, len(maxima) - 1)].run.params
            if not faithful(course, view, other):
                failed += 1
                continue
            maxima = self.turn(course, view, maxima)
            now = self.worth_of(course, maxima)
            failed = 0 if now > height + SAME_HEIGHT else failed + 1
            height = now
            if failed and chance_of_better(maxima, self.starts_run) < ENOUGH:
                return maxima
        return super().widen(course, maxima) if self.affords(course, LEAST_BATCH) else maxima
