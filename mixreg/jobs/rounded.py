"""Fits of rounded responses: found at their grain, ended at the density.

The search, its ranking and its moves take what rounding hides for part of the data (see
`sources/grain.py`); what is reported are a maximum of the density and the likelihood of the
density there, as everywhere. Only where the density would have a component narrower than what
rounding hides of its rows does the fit stay where it was found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators import Control, Run
from mixreg.estimators.expectation import Seen, weighted
from mixreg.estimators.loop import Progress, joined
from mixreg.estimators.runs import run_em
from mixreg.families import VARIANCE_RATIO, Family
from mixreg.inference.last_pass import last_pass
from mixreg.jobs.problem import Options, Problem, Solution
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.chance import worth
from mixreg.sources import Source
from mixreg.sources.block import Block
from mixreg.sources.grain import AS_WIDE, LEAST_TIED, Grain, find_grain
from mixreg.sources.standard import Whitening

Array = NDArray[np.float64]

# A component is narrow below this share of the variance of values that lie evenly within one width:
# a line without errors, rounded, has all of it.
NARROW = 0.8
# Maxima that were nearly as good take the winner's place if their density is so much higher.
HIGHER = 1e-3
# Rounding is not told of where all components deviate by more than so many widths: it then changes
# nothing that anybody could see.
FAR_WIDER = 10.0
# What rounding hides matters from this share of the least variance that a component may have.
MATTERS = 0.01


def at_its_grain(problem: Problem, options: Options, seen: Source) -> Problem:
    """The problem with the grain of its responses, where narrow components could live on ties.

    Whoever sets `variance_ratio` has said how narrow components may be.
    """
    family = problem.mixture.family
    usable = options.method == "em" and options.resample is None and problem.k > 1
    if not usable or not any(map(_can_narrow, family.parts)):
        return problem
    white = problem.whitening
    if white.columns is None:
        grain: Any = _mattering(find_grain(seen), family, white, white.scale)
    else:
        grain = tuple(
            _mattering(find_grain(seen, i), part, white, np.atleast_1d(white.scale)[i])
            if _can_narrow(part)
            else None
            for i, part in enumerate(family.parts)
        )
        grain = grain if any(each is not None for each in grain) else None
    return replace(problem, whitening=replace(white, grain=grain))


def _can_narrow(family: Family) -> bool:
    """Whether components may narrow down as far as the default bound lets them."""
    own = family.variance_ratio != VARIANCE_RATIO
    return family.rounds and not family.equal_dispersion and not own


def _mattering(
    grain: Grain | None, family: Family, whitening: Whitening, scale: float
) -> Grain | None:
    """The grain, if it is wide enough to matter."""
    if grain is None or not family.linear:
        return grain
    least = MATTERS * family.variance_ratio * float(np.max(whitening.variance)) * scale**2
    wide = grain.widths**2 / 12 > least
    return grain if grain.rows[wide].sum() > LEAST_TIED * grain.seen else None


@dataclass(frozen=True, slots=True)
class HiddenSums:
    """Variances that rounding hides, added up over each component's rows, and these."""

    hidden: Array
    rows: Array

    def __add__(self, other: HiddenSums) -> HiddenSums:
        """Add the sums of other units."""
        return HiddenSums(self.hidden + other.hidden, self.rows + other.rows)


@dataclass(frozen=True, slots=True)
class TakeHidden:
    """Task: what rounding hides of the rows of each component, and response, (k, d)."""

    mixture: Mixture

    def __call__(self, block: Block, params: Parameters) -> HiddenSums:
        """Process one block."""
        # Whose a row is, by the density.
        bare = replace(block, rounding=None)
        resp = weighted(block, Seen.by(self.mixture, bare, params).posterior[: params.k])
        found = []
        for family, (_, own) in zip(self.mixture.family.parts, block.responses(), strict=True):
            hidden = family.hidden_dispersion(own)
            each = own.per_row(resp)
            found.append((each @ hidden, each.sum(axis=-1)))
        return HiddenSums(*(np.stack(part, axis=-1) for part in zip(*found, strict=True)))


def narrow_components(grained: Source, mixture: Mixture, params: Parameters) -> tuple[int, ...]:
    """Components (from 0) that are narrower than what rounding hides of their rows."""
    sums = grained.sweep(TakeHidden(mixture), params)
    hidden = sums.hidden / np.maximum(sums.rows, 1e-300) / AS_WIDE**2
    narrow = (params.dispersion.reshape(params.k, -1) < NARROW * hidden).any(axis=1)
    return tuple(np.flatnonzero(narrow).tolist())


def at_the_density(
    grained: Source,
    source: Source,
    mixture: Mixture,
    fit: Run,
    control: Control,
    progress: Progress | None = None,
) -> tuple[Run, tuple[int, ...]]:
    """Run on to a maximum of the density; and components that it would make too narrow.

    Where there are such, the fit stays where it was found.
    """
    near = replace(control, near=True)
    plain = run_em(source, mixture, fit.params, near, progress)
    if plain.reason == "exact":
        # Every row lies on a component: that is no matter of ties.
        return joined(fit, plain), ()
    if narrow := narrow_components(grained, mixture, plain.params):
        return fit, narrow
    return joined(fit, plain), ()


def best_density(
    grained: Source,
    source: Source,
    mixture: Mixture,
    fit: Run,
    rivals: list[Parameters],
    control: Control,
    progress: Progress | None = None,
) -> tuple[Run, tuple[int, ...]]:
    """The same of the winner and of maxima that were nearly as good: the best by the density."""
    best, narrow = at_the_density(grained, source, mixture, fit, control, progress)
    for rival in rivals:
        if narrow or best.reason == "exact":
            break
        other = run_em(grained, mixture, rival, replace(control, near=True), progress)
        end, too_narrow = at_the_density(grained, source, mixture, other, control, progress)
        bound = mixture.family.bound_binds(end.params)
        if too_narrow or bound:
            continue
        # What chance explains of either does not count.
        old, new = worth(source, mixture, [best, end], source.row_weight).tolist()
        best = end if new > old + HIGHER else best
    return best, narrow


def of_rounded(
    solution: Solution,
    grained: Source,
    mixture: Mixture,
    whitening: Whitening,
    narrow: tuple[int, ...],
    errors: bool,
) -> Solution:
    """What is told of the grain; and standard errors of a fit that stayed where it was found.

    They are those of what it is a maximum of.
    """
    several = whitening.grain if whitening.columns is not None else (whitening.grain,)
    scales = np.broadcast_to(whitening.scale, len(several)).tolist()
    variances = solution.run.params.dispersion.reshape(solution.run.params.k, -1).min(axis=0)
    told = []
    for each, scale, variance, family in zip(
        several, scales, variances.tolist(), mixture.family.parts, strict=True
    ):
        deviation = scale * np.sqrt(variance) if family.additive else 0.0
        wide = each is None or (not narrow and deviation > FAR_WIDER * each.typical)
        told.append((0.0, 0.0) if wide else (each.typical, each.share))
    solution = replace(solution, rounded=tuple(told), narrow=narrow)
    if not narrow or not errors:
        return solution
    other = last_pass(grained, mixture, solution.run.params, errors=True)
    return replace(solution, last=replace(solution.last, information=other.information))
