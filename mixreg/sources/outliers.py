"""Responses so far out that they would set the scale of everything.

Where a background component takes rows that belong to no segment, a single
response of 1e12 must not decide what is small: in units of it, the segments are
a point, and their residuals are below every tolerance. Standard coordinates and
starts are therefore made of responses that are drawn in; the fit itself is of
the responses as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.families import Family
from mixreg.sources.base import Source, per_unit
from mixreg.sources.block import Block
from mixreg.sources.tasks import responses

Array = NDArray[np.float64]

# Farthest a response may be from the median, in spreads: far enough for the
# background to be preferred at any range of it, near enough for double precision.
FAR = 100.0
# Rows whose responses tell what is far out.
MEASURED_ROWS = 200_000
# Pairs of quantiles that measure the spread; the first that differ are taken.
QUANTILES = ((0.25, 0.75), (0.1, 0.9), (0.01, 0.99))


def drawn_in(source: Source, family: Family) -> Source:
    """The rows with normal responses that are very far out drawn in; the same if none is."""
    few = np.atleast_2d(per_unit(source.sample(MEASURED_ROWS, 0), responses))
    each = zip(family.parts, few, strict=True)
    ranges = np.array([_range(y) if one.additive else (-np.inf, np.inf) for one, y in each])
    change = DrawIn(ranges)
    return source.mapped(change) if source.sweep(change.count) else source


@dataclass(frozen=True, slots=True)
class DrawIn:
    """Responses within ranges, (responses, 2)."""

    ranges: Array

    def __call__(self, block: Block) -> Block:
        """The block with responses drawn in."""
        return replace(block, y=np.clip(block.y, *self.ranges.T))

    def count(self, block: Block, params: None = None) -> int:
        """Task: how many responses are out of their range."""
        low, high = self.ranges.T
        return int(((block.y < low) | (block.y > high)).sum())


def _range(y: Array) -> tuple[float, float]:
    """What is not very far out."""
    middle = float(np.median(y))
    for pair in QUANTILES:
        low, high = np.quantile(y, pair)
        if high > low:
            return middle - FAR * float(high - low), middle + FAR * float(high - low)
    return -np.inf, np.inf
