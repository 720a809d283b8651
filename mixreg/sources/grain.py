"""The grain of responses: how widely their values are rounded.

Wages, prices, speeds and claims are rounded, and many rows tie. A density rewards a component that
narrows down on tied values without bound, though rounded values say nothing of what goes on
between them. What a value stands for is an interval; how wide it is shows in the data, wherever
they are: a value that has as many rows as its neighbourhood has within a width w stands for an
interval of that width. So amounts rounded to 0.5 have wide intervals, those to 0.01 between them
narrow ones, logarithms of amounts narrower ones the larger they are, and values that hardly tie
none to speak of.

A response that may lie anywhere in its interval has a variance of w^2 / 12 around its value. The
search adds it to squared residuals: the log density is then the average over the interval, which
is below the log probability of the interval over w (Jensen), and bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import percentile_filter

from mixreg.sources import Source
from mixreg.sources.base import Parts
from mixreg.sources.block import Block
from mixreg.sources.hashes import row_hashes

Array = NDArray[np.float64]

# Rows of a value's neighbourhood, over its own, but for the ends: no more than such a share of all.
WINDOW, MOST_AROUND = 4.0, 0.8
# Where values lie in clusters, what is between these is no part of the neighbourhood: gaps count
# for so many times the usual one at most, which is this percentile of so many gaps around.
WIDEST_GAP, USUAL, GAPS = 3.0, 40, 11
# A value may stand for as much as lies between its neighbours on either side: who says 55 may have
# seen 54 to 56 (amis3 of `benchmarks rounded`, with a window of ten: six of six seeds agree with 2,
# three with 1 or 1.5).
AS_WIDE = 2.0
# Regressors that take so few values, over the rows, make ties by themselves.
FEW_KINDS = 0.05
# Rows that grain is looked for in, and values that are kept.
GRAIN_ROWS, MOST_VALUES = 100_000, 20_000
# Share of the rows that must tie for responses to be rounded at all.
LEAST_TIED = 0.02


@dataclass(frozen=True, slots=True)
class Grain:
    """Values of a response that tie, and how wide an interval each stands for.

    Attributes
    ----------
    values : (m,) array
        In ascending order.
    widths : (m,) array
    rows : (m,) array
        Rows of each, of those that were looked at.
    seen : int
        Rows that were looked at.
    """

    values: Array
    widths: Array
    rows: Array
    seen: int

    def variance(self, y: Array) -> Array:
        """What rounding hides of each response; nothing of those that do not tie."""
        at = np.searchsorted(self.values, y)
        right = np.minimum(at, len(self.values) - 1)
        left = np.maximum(at - 1, 0)
        nearer = np.abs(self.values[left] - y) < np.abs(self.values[right] - y)
        near = np.where(nearer, left, right)
        same = np.abs(self.values[near] - y) <= 1e-9 * np.maximum(np.abs(y), self.widths[near])
        return np.where(same, self.widths[near] ** 2 / 12, 0.0)

    @property
    def typical(self) -> float:
        """The median width, of the rows that tie, from one value to the next."""
        order = np.argsort(self.widths)
        half = np.searchsorted(np.cumsum(self.rows[order]), self.rows.sum() / 2)
        return float(self.widths[order][half]) / AS_WIDE

    @property
    def share(self) -> float:
        """Share of the rows that tie."""
        return float(self.rows.sum() / self.seen)


@dataclass(frozen=True, slots=True)
class ResponseAndKind:
    """Task: a response of every row, and a number that tells its regressors, (2, rows)."""

    number: int

    def __call__(self, block: Block, params: None = None) -> Parts:
        """Process one block; responses that a row lacks are no numbers."""
        kind = row_hashes(list(np.asarray(block.x).T)) >> np.uint64(12)
        y = block.y if block.owners is None else block.y[:, self.number]
        if block.seen is not None:
            y = np.where(block.seen[:, self.number], y, np.nan)
        return Parts((np.stack([y, kind.astype(float)]),))


def find_grain(source: Source, number: int = 0) -> Grain | None:
    """How widely a response of a source is rounded; None if it hardly is."""
    sample = source.sample(GRAIN_ROWS, 0)
    y, kinds = np.concatenate(list(sample.pieces(ResponseAndKind(number))), axis=1)
    return grain_of(y, kinds)


def grain_of(y: Array, kinds: Array) -> Grain | None:
    """The grain of responses, beside numbers that tell rows' regressors.

    Rows that equal others in all, regressors too, are copies, and no sign of rounding; unless
    regressors take only a few values anyway.
    """
    good = np.isfinite(y)
    y, kinds = y[good], kinds[good]
    pairs, copies = np.unique(np.stack([y, kinds], axis=1), axis=0, return_counts=True)
    # Whole data that are there several times say no more than once.
    copies //= np.gcd.reduce(copies)
    if len(np.unique(kinds)) > FEW_KINDS * copies.sum():
        copies = np.ones_like(copies)
    values, place = np.unique(pairs[:, 0], return_inverse=True)
    rows = np.bincount(place, copies).astype(float)
    tied, seen = rows > 1, int(copies.sum())
    if rows[tied].sum() < LEAST_TIED * seen or len(values) < 3:
        return None
    widths = AS_WIDE * rows / density(values, rows)
    kept = np.flatnonzero(tied)
    if len(kept) > MOST_VALUES:
        kept = np.sort(kept[np.argsort(-rows[kept], kind="stable")[:MOST_VALUES]])
    return Grain(values[kept], widths[kept], rows[kept], seen)


def density(values: Array, rows: Array) -> Array:
    """Rows for each unit of length around each value: the mean of either side's.

    A side reaches as far as it takes to have half of `WINDOW` times the value's own rows.
    """
    gaps = np.diff(values)
    usual = percentile_filter(gaps, USUAL, size=min(GAPS, len(gaps)), mode="nearest")
    at = np.concatenate([[0.0], np.cumsum(np.minimum(gaps, WIDEST_GAP * usual))])
    below = np.cumsum(rows) - rows / 2
    half = 0.5 * np.minimum(WINDOW * rows, MOST_AROUND * rows.sum())
    here, last = np.arange(len(values)), len(values) - 1
    low = np.searchsorted(below, below - half, side="right") - 1
    high = np.searchsorted(below, below + half, side="left")
    low, high = (
        np.clip(low, 0, np.maximum(here - 1, 0)),
        np.clip(high, np.minimum(here + 1, last), last),
    )
    found = np.zeros(len(values))
    for end in (low, high):
        there = end != here
        length = np.where(there, at[end] - at, 1.0)
        found += np.where(there, (below[end] - below) / length, 0.0)
    # The first value and the last have one side only.
    return found / np.where((here == 0) | (here == last), 1.0, 2.0)
