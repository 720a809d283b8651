"""What chance can buy: telling segments from accidents.

Some few rows always lie nearly on a line, and a component that settles on them
gains likelihood. How much can it gain if there is no segment? Take a component
that holds m rows near its line where the others would put lambda of them. Its
gain is that of a scan: m log(m / lambda) - m + lambda, whatever the density of
the others where the line lies. A line is fixed by p of its rows, which it
passes through for nothing, so only m - p of them are evidence: they come
together by chance with probability exp(-gain (m - p) / m). There are as many
lines to choose from as ways to choose p rows of n; but any p of its own m rows
lead to the same line. So chance buys a gain of

    m / (m - p) * (log C(n, p) - log C(m, p))

and a component that gains no more, and varies far less than the others, counts
for nothing. Groups are chosen whole: there are as many lines as ways to choose
groups that have p rows together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from mixreg.estimators.expectation import weighted
from mixreg.estimators.loop import Run
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.constants import (
    EMPTY,
    NARROWER,
    ONCE_IN,
    TIGHT,
    WIDER,
)
from mixreg.sources import Swept
from mixreg.sources.block import Block, GramBlock

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gains:
    """What each component adds to the log-likelihood, and the rows it holds.

    Attributes
    ----------
    gain : (k, runs) array
        Log-likelihood lost if the others, as they are, took its units.
    rows, units : (k, runs) arrays
        Rows and units it holds, counted with their weights.
    all_rows, all_units : float
    """

    gain: Array
    rows: Array
    units: Array
    all_rows: float
    all_units: float

    def __add__(self, other: Gains) -> Gains:
        """Add the sums of other units."""
        return Gains(
            self.gain + other.gain,
            self.rows + other.rows,
            self.units + other.units,
            self.all_rows + other.all_rows,
            self.all_units + other.all_units,
        )


@dataclass(frozen=True, slots=True)
class TakeGains:
    """Task: what each component of a stack of mixtures adds."""

    mixture: Mixture

    def __call__(self, block: Block | GramBlock, params: Parameters) -> Gains:
        """Process one block."""
        mixture, k = self.mixture, params.k
        state = mixture.family.evaluate(block, params)  # type: ignore[arg-type]
        joint = mixture.log_joint(block, params, state)
        top = np.maximum(joint.max(axis=0), -1e300)
        density = np.exp(joint - top)
        # Rows that no component can have made are nobody's.
        total = np.maximum(density.sum(axis=0), 1e-300)
        prior = np.exp(mixture.gate.log_prior(block, params))
        gain = np.empty(joint.shape[:-1])[:k]
        held = weighted(block, density[:k] / total)
        for j in range(k):
            others = np.delete(joint, j, axis=0)
            best = np.maximum(others.max(axis=0), -1e300)
            # Units that no other component can have made, such as those with known
            # labels, are no accidents.
            rest = best + np.log(np.maximum(np.exp(others - best).sum(axis=0), 1e-300))
            lost = top + np.log(total) - rest + np.log1p(-np.minimum(prior[j], 1 - 1e-12))
            gain[j] = weighted(block, lost).sum(axis=-1)
        size = np.broadcast_to(np.asarray(block.size), (block.units,))
        weight = np.ones(block.units) if block.weight is None else block.weight
        return Gains(
            gain, held @ size, held.sum(axis=-1), float(weight @ size), float(weight.sum())
        )


def bought(gains: Gains, p: int, grouped: bool, doubt: bool = False) -> Array:
    """Gain that chance can buy for each component, (k, runs); infinite if it can buy any.

    With `doubt`, as much as it may buy at the most.
    """
    spare = gains.rows - p
    needed, held, available = np.full(gains.rows.shape, float(p)), gains.rows, gains.all_rows
    if grouped:
        each = gains.rows / np.maximum(gains.units, 1e-300)
        needed, held, available = np.ceil(p / np.maximum(each, 1.0)), gains.units, gains.all_units
    lines = _log_choose(available, np.minimum(needed, available))
    if not doubt:
        lines = lines - _log_choose(held, np.minimum(needed, held))
    lines = lines + np.log(ONCE_IN)
    share = np.maximum(spare, 1e-300) / np.maximum(gains.rows, 1e-300)
    return np.where(spare > 0, lines / share, np.inf)


def _log_choose(n: Array | float, r: Array) -> Array:
    """Logarithm of the number of ways to choose r of n, which need not be whole."""
    return np.asarray(gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1))


def tight(params: Parameters, collapsing: tuple[bool, ...] = (True,)) -> NDArray[np.bool_]:
    """Components that vary far less than the others, (k, runs)."""
    return np.asarray((variance_ratios(params, collapsing) < TIGHT**2).any(axis=-1))


def tightness(params: Parameters, collapsing: tuple[bool, ...] = (True,)) -> float:
    """Least variance of a component of one mixture over that of the others."""
    return float(variance_ratios(params.stacked(), collapsing).min())


def variance_ratios(params: Parameters, collapsing: tuple[bool, ...] = (True,)) -> Array:
    """Variance of each component, and response, over that of the others, (k, runs, d).

    1 for responses that do not collapse.
    """
    k, weights = params.k, np.exp(params.gating[..., 0] - params.gating[..., 0].max(axis=0))
    variance = params.dispersion.reshape(*params.coef.shape[:2], -1)
    if k == 1:
        return np.ones(variance.shape)
    share = (weights[:k] / weights[:k].sum(axis=0))[..., None]
    rest = ((share * variance).sum(axis=0) - share * variance) / np.maximum(1 - share, 1e-12)
    with np.errstate(over="ignore"):
        return np.where(collapsing, variance / np.maximum(rest, 1e-300), 1.0)


def accidental_gains(
    source: Swept, mixture: Mixture, params: Parameters, doubt: bool = False
) -> Array:
    """Gains that chance explains, (k, runs); 0 for components that it does not."""
    family = mixture.family
    suspect = tight(params, family.collapsing)
    if family.equal_dispersion or not suspect.any():
        return np.zeros(suspect.shape)
    gains = source.sweep(TakeGains(mixture), params)
    grouped = gains.all_units < gains.all_rows
    lines = family.line_columns(params.coef.shape[-1])
    suspect &= gains.gain < bought(gains, lines, grouped, doubt)
    return np.where(suspect, np.maximum(gains.gain, 0.0), 0.0)


def worth(source: Swept, mixture: Mixture, fits: list[Run], rows: float) -> Array:
    """Log-likelihood of each fit, less what chance explains of it.

    A fit with an empty component is worth less than any other.
    """
    exact = [fit.reason == "exact" and mixture.background is None for fit in fits]
    # The objective of an exact fit is its loss; its likelihood has no bound.
    heights = np.where(exact, np.inf, [fit.objective for fit in fits])
    noisy = np.flatnonzero(~np.array(exact)).tolist()
    if noisy:
        stack = Parameters.concatenate([fits[i].params.stacked() for i in noisy])
        heights[noisy] -= accidental_gains(source, mixture, stack).sum(axis=0)
        heights[noisy] -= EMPTY * mixture.gate.empty(stack, rows).sum(axis=0)
    return heights


def ranked(source: Swept, mixture: Mixture, fits: list[Run], rows: float) -> list[Run]:
    """Best first; what chance explains does not count."""
    return [fits[i] for i in np.argsort(-worth(source, mixture, fits, rows), kind="stable")]


def milder(params: Parameters, collapsing: tuple[bool, ...] = (True,)) -> list[Parameters]:
    """Starts without the tightest component: each of the others in turn is taken twice.

    One of the two is wider and the other narrower than it was.
    """
    least = variance_ratios(params.stacked(), collapsing).min(axis=-1)[:, 0]
    gone, starts = int(np.argmin(least)), []
    for twice in range(params.k):
        if twice == gone:
            continue
        order = np.arange(params.k)
        order[gone] = twice
        start = params.permute(order)
        start.dispersion[twice] *= WIDER
        start.dispersion[gone] *= NARROWER
        start.gating[[gone, twice], 0] -= np.log(2.0)
        starts.append(start)
    return starts


def suspects(source: Swept, mixture: Mixture, params: Parameters) -> tuple[int, ...]:
    """Components of one mixture (from 0) that chance may explain."""
    gains = accidental_gains(source, mixture, params.stacked(), doubt=True)[:, 0]
    return tuple(np.flatnonzero(gains > 0).tolist())
