"""Peeling: one component after another, each robustly, among rows that no other explains.

Where one segment is larger than the others, these look like outliers to it: a robust
regression finds its line, its rows are taken off, and what is left has a largest segment of its
own (Mix-IRLS; Zilber and Nadler 2023, Imbalanced mixed linear regression). Residuals are weighed
as Cauchy's likelihood does, around a scale that most rows have; where that stands still, the
component and an even spread share the rows by EM, which finds the scale of its own rows
however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.loop import Run
from mixreg.families import Gaussian
from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.search.chance import TakeGains, bought
from mixreg.search.constants import (
    PEEL_APART,
    PEEL_COLUMNS,
    PEEL_FAR,
    PEEL_SETTLED,
    PEEL_SHARING,
    PEEL_SOME,
    PEEL_STEPS,
    PEEL_TIGHT,
    PEEL_TRIES,
    PEEL_TUNING,
    PEEL_WIDER,
    PEEL_WORK,
)
from mixreg.search.course import Course
from mixreg.sources.block import Block

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Layer:
    """One component and the rows it holds.

    Attributes
    ----------
    coef : (p,) array
    variance : float
        Of its residuals, with a divisor that counts its coefficients.
    around : float
        Variance of the residuals of the other rows.
    share : (rows,) array
        Probability that a row is its own.
    """

    coef: Array
    variance: float
    around: float
    share: Array


def weighted_fit(x: Array, y: Array, weight: Array) -> Array:
    """Least squares; a trace of a ridge keeps equations of few rows solvable."""
    root = np.sqrt(weight)[:, None] * x
    lhs = np.dot(root.T, root)
    lhs[np.diag_indices(len(lhs))] += 1e-12 * lhs.trace() / len(lhs) + 1e-300
    return np.asarray(np.linalg.solve(lhs, (weight * y) @ x))


def robust_scale(residuals: Array, p: int) -> float:
    """Median size of residuals, as a deviation; p of them are zero for nothing."""
    sizes = np.abs(residuals)
    place = p + (len(sizes) - p) // 2
    return float(np.partition(sizes, place)[place] / 0.6745)


def robust_fit(x: Array, y: Array, weight: Array, coef: Array) -> Layer:
    """The component that most rows around some coefficients lie near to."""
    p = x.shape[1]
    least = 1e-9 * float(np.sqrt(np.mean(y * y))) + 1e-300
    before = np.inf
    for _ in range(PEEL_STEPS):
        e = y - x @ coef
        scale = max(robust_scale(e, p), least)
        if abs(before - scale) < PEEL_SETTLED * scale or scale == least:
            break
        coef = weighted_fit(x, y, weight / (1 + (e / (PEEL_TUNING * scale)) ** 2))
        before = scale
    layer = shared_fit(x, y, weight, coef)
    if layer.variance == np.inf:
        # Hardly more rows than coefficients: those that most rows lie near to have to do.
        e = np.abs(y - x @ coef)
        scale = max(robust_scale(e, p), least)
        layer = Layer(coef, scale**2, scale**2, (e < PEEL_FAR * scale).astype(float))
    return layer


def shared_fit(x: Array, y: Array, weight: Array, coef: Array) -> Layer:
    """A component that shares the rows with an even spread of others, by EM."""
    rows, p = x.shape
    e = y - x @ coef
    total, squares = float(weight.sum()), e * e
    # Half of the rows are nearer than the median; as many are what it begins with.
    variance = max(robust_scale(e, p) * PEEL_TUNING, 1e-150) ** 2
    around = max(float(weight @ squares) / total, variance)
    share, part = np.ones(rows), 0.5
    floor = 1e-20 * float(np.mean(y * y)) + 1e-300
    for _ in range(PEEL_SHARING):
        odds = np.log(part / (1 - part)) - 0.5 * np.log(variance / around)
        odds = odds - 0.5 * squares * (1 / variance - 1 / around)
        share = 1 / (1 + np.exp(np.clip(-odds, -700, 700)))
        own = weight * share
        held = float(own.sum())
        if held <= p + 1:
            return Layer(coef, np.inf, around, share)
        coef = weighted_fit(x, y, own)
        e = y - x @ coef
        squares = e * e
        before, variance = variance, max(float(own @ squares) / (held - p), floor)
        others = weight - own
        if others.sum() > 0:
            around = float(others @ squares / others.sum())
        # As narrow as the component it would be a second one.
        around = max(around, PEEL_WIDER * variance)
        part = min(max(held / total, 1e-6), 1 - 1e-6)
        if abs(before - variance) < PEEL_SETTLED * variance or variance == floor:
            break
    return Layer(coef, variance, around, share)


def tries(
    x: Array, y: Array, weight: Array, many: int, rng: np.random.Generator
) -> Iterator[Array]:
    """Coefficients to begin with: of all rows, then of some at random."""
    yield weighted_fit(x, y, weight)
    for _ in range(many):
        some = rng.random(len(y)) < rng.uniform(*PEEL_SOME)
        yield weighted_fit(x, y, weight * some)


def peel(x: Array, y: Array, weight: Array, k: int, rng: np.random.Generator) -> list[Layer]:
    """Components one after the other, until one of them is not found, (at most k)."""
    layers: list[Layer] = []
    rows, p = x.shape
    left, size = np.arange(rows), float(np.mean(y * y))
    for _ in range(k):
        if len(left) <= p + 1:
            break
        part = x[left], y[left], weight[left]
        each = (PEEL_STEPS + PEEL_SHARING) * len(left) * p * p / 2
        for coef in tries(*part, min(PEEL_TRIES, int(PEEL_WORK / each)), rng):
            layer = robust_fit(*part, coef)
            if layer.variance < PEEL_TIGHT**2 * size:
                break
        else:
            break
        layers.append(layer)
        left = left[layer.share < 0.5]
    return layers


def peeled(course: Course, rng: np.random.Generator) -> Parameters | None:
    """A start made of components that were peeled off; None if these are not all."""
    block, mixture = course.source.block, course.mixture
    plain = type(mixture.family) is Gaussian and not mixture.shared and not mixture.labelled
    if not plain or not isinstance(block, Block) or block.starts is not None or mixture.absent:
        return None
    rows, p = block.x.shape
    if p < PEEL_COLUMNS or block.owners is not None or block.offset is not None:
        return None
    weight = np.ones(rows) if block.weight is None else block.weight
    layers = peel(block.x, block.y, weight, course.k, rng)
    if len(layers) < course.k:
        return None
    coef = np.stack([layer.coef for layer in layers])[:, None]
    held = np.array([layer.share.sum() for layer in layers]) + 1.0
    # Few rows have a variance of their own that says little: all begin with one.
    variance = float(held @ [layer.variance for layer in layers] / held.sum())
    gating = log_gating(held / held.sum())
    start = Parameters(coef, np.full((course.k, 1), variance), gating[:, None])
    return mixture.prepare(start)


def is_clear(course: Course, fit: Run) -> bool:
    """Whether a fit has all components there are, so that no other can be better.

    Each is far tighter than one regression for all rows, and far from the others; and it holds
    more rows than chance brings to a line among those that larger components leave, as few of
    theirs lie near it. Fewer components than there are fail the first. Of more than there are,
    some share a segment, or part of one by chance, and fail the second or the third.
    """
    mixture, p = course.mixture, course.sample.columns
    plain = type(mixture.family) is Gaussian and not mixture.shared and not mixture.absent
    if not plain or p < PEEL_COLUMNS or course.sample.has("starts"):
        return False
    coef, variance = fit.params.coef, fit.params.dispersion
    if variance.max() > PEEL_TIGHT**2 * course.linear_whitening.variance:
        return False
    apart = np.linalg.norm(coef[:, None] - coef, axis=2) + np.diag(np.full(len(coef), np.inf))
    if apart.min() < PEEL_APART * np.sqrt(variance.max()):
        return False
    gains = course.source.sweep(TakeGains(mixture), fit.params.stacked())
    left = gains.all_rows
    for j in np.argsort(-gains.rows[:, 0]):
        rows = float(gains.rows[j, 0])
        among = replace(gains, all_rows=max(left, rows))
        if not gains.gain[j, 0] > bought(among, p, grouped=False)[j, 0]:
            return False
        left -= rows
    return True
