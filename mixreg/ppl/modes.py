"""Modes of a model with a mixture: starts from the package's own search, climbs, moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from mixreg.jobs.job import make_job
from mixreg.jobs.options import make_options
from mixreg.jobs.problem import Solution
from mixreg.mixture.parameters import Parameters
from mixreg.ppl.likelihood import with_offset
from mixreg.ppl.located import Located
from mixreg.ppl.matching import Matching
from mixreg.ppl.surface import NOTHING, Climb, Surface
from mixreg.table.parts import ModelParts
from mixreg.table.responses import standard_coordinates

Array = NDArray[np.float64]

# Maxima of the likelihood that are climbed from; jittered starts of PyMC's, and moves.
MOST_MAXIMA, JITTERED, MOST_MOVES = 8, 64, 24
# Rounds of moves, each from the best mode of those before; there is none after one that fails.
ROUNDS = 6
# A component that is moved may begin with this share of the dispersion: it then fits few rows.
NARROW = 1e-3
# Heights that count as one; orders of components that are all tried.
SAME, ALL_ORDERS = 1e-4, 4
# Steps after which climbs from other starts are compared with the best, and those that go on.
FIRST_STEPS, GO_ON = 100, 8
# A component with a smaller share of the largest dispersion has collapsed on a few rows.
COLLAPSED = 1e-9


@dataclass(frozen=True, eq=False)
class Modes:
    """Modes of a model, highest first.

    Attributes
    ----------
    surface : Surface
    matching : Matching
    ends : tuple of Climb
        Distinct ones.
    """

    surface: Surface
    matching: Matching
    ends: tuple[Climb, ...]

    @property
    def best(self) -> Climb:
        """The highest."""
        return self.ends[0]


def find_modes(found: Located, seed: int, n_init: int) -> Modes:
    """Search, match, climb, move."""
    surface = Surface(found)
    hunt = Hunt(surface, Matching(surface), np.random.default_rng(seed), n_init, seed)
    ends = hunt.from_search(found.mixed.parts)
    ends += hunt.from_model()
    ends = hunt.distinct(ends)
    ends = hunt.improved(ends)
    if found.graphs.offset is not None:
        # The search knew nothing of an offset that varies: let it look again at the best one.
        ends = hunt.distinct([*ends, *hunt.from_search(hunt.with_offset(ends[0]))])
    best = surface.polished(hunt.by_weight(ends[0]))
    return Modes(surface, hunt.matching, (best, *ends[1:]))


@dataclass(frozen=True, eq=False)
class Hunt:
    """Starts of several kinds, and the climbs from them.

    Attributes
    ----------
    surface : Surface
    matching : Matching
    rng : Generator
    n_init : int
        As in `MixReg.fit`; starts and moves grow with it.
    seed : int
    """

    surface: Surface
    matching: Matching
    rng: np.random.Generator
    n_init: int
    seed: int

    def from_search(self, parts: ModelParts) -> list[Climb]:
        """Climbs from maxima of the likelihood, components in the order that priors like."""
        solution = searched(parts, self.n_init, self.seed)
        own = self.surface.found.mixed.parts.whitening
        starts = [own.from_user(parts.whitening.to_user(p)) for p in maxima(solution)]
        order = self.best_order(starts[0])
        matched = [self.matching.matched(start.permute(order)) for start in starts]
        return [self.surface.climbed(each.vector) for each in matched]

    def best_order(self, params: Parameters) -> list[int]:
        """The order of components that fits the model best; theirs, if it knows none."""
        same, k = list(range(params.k)), params.k
        if k == 1 or not self.surface.found.mixed.parts.mixture.exchangeable:
            return same
        turned = [*same[1:], same[0]]
        heights = {tuple(order): self.fitness(params, order) for order in (same, turned)}
        gap = abs(heights[tuple(same)] - heights[tuple(turned)])
        if gap < SAME * (1 + abs(heights[tuple(same)])):
            return same
        for order in first_orders(params):
            heights.setdefault(tuple(order), self.fitness(params, order))
        best = max(heights, key=heights.__getitem__)
        return list(best) if k <= ALL_ORDERS else self.swapped(params, list(best), heights[best])

    def fitness(self, params: Parameters, order: list[int]) -> float:
        """How well a model can have these parameters in some order."""
        return self.matching.matched(params.permute(order)).height

    def swapped(self, params: Parameters, order: list[int], height: float) -> list[int]:
        """Swap pairs of components as long as that helps."""
        better = True
        while better:
            better = False
            for i in range(params.k):
                for j in range(i):
                    new = list(order)
                    new[i], new[j] = new[j], new[i]
                    value = self.fitness(params, new)
                    if value > height + SAME:
                        order, height, better = new, value, True
        return order

    def from_model(self) -> list[Climb]:
        """Climbs from where PyMC would begin."""
        size = len(self.surface.start)
        count = min(JITTERED, 4 * self.n_init)
        jittered = [self.surface.start + self.rng.uniform(-1, 1, size) for _ in range(count)]
        return self.promising(jittered)

    def improved(self, ends: list[Climb]) -> list[Climb]:
        """Rounds of moves, as long as they find a better mode."""
        for _ in range(ROUNDS):
            before, ends = ends[0], self.distinct([*ends, *self.from_moves(ends[0])])
            if ends[0] is before:
                break
        return ends

    def from_moves(self, best: Climb) -> list[Climb]:
        """Climbs from changes of the best mode, the most promising to the end."""
        params = self.matching.parameters(best.vector)
        wide = self.surface.found.mixed.parts.family.dispersion_name is not None
        starts = list(moved(params, self.rng, min(MOST_MOVES, 2 * self.n_init), wide))
        near = [self.matching.matched(start, best.vector) for start in starts]
        return self.promising([each.vector for each in near])

    def promising(self, starts: list[Array]) -> list[Climb]:
        """Climbs from some starts, of which the highest after some steps go on to the end."""
        first = [self.surface.climbed(start, steps=FIRST_STEPS) for start in starts]
        first.sort(key=lambda end: -end.height)
        return [self.surface.climbed(end.vector) for end in first[:GO_ON]]

    def by_weight(self, best: Climb) -> Climb:
        """The same mode with the heaviest component first, where the model knows no order."""
        params = self.matching.parameters(best.vector)
        order = np.argsort(-params.weights[: params.k], kind="stable")
        free = self.surface.found.mixed.parts.mixture.exchangeable
        if not free or np.array_equal(order, np.arange(params.k)):
            return best
        start = self.matching.matched(params.permute(order))
        again = self.surface.climbed(start.vector)
        return again if again.height > best.height - SAME else best

    def with_offset(self, best: Climb) -> ModelParts:
        """The mixture's rows with the offset that a mode has."""
        found = self.surface.found
        parts, linear = found.mixed.parts, found.mixed.parts.family.linear
        vector = self.offset(best.vector)
        user = replace(found.mixed, standard=False)
        source = with_offset(parts.source, linear, user.own_order(vector, len(vector)))
        white = standard_coordinates(source, parts.family, parts.layout)
        rows = replace(parts.rows, source=source, whitening=white)
        return type(parts).from_spec(parts.spec, rows)

    def offset(self, vector: Array) -> Array:
        """The offset at values of the model's variables."""
        import pytensor

        model, offset = self.surface.found.model, self.surface.found.graphs.offset
        [value], at = self.surface.joined(model.replace_rvs_by_values([offset]))
        return np.asarray(pytensor.function([at], value, mode="FAST_COMPILE")(vector))

    def distinct(self, ends: list[Climb]) -> list[Climb]:
        """Ends of different heights, highest first; those that collapsed come last."""
        there = [end for end in ends if end.height > NOTHING]
        ranked = sorted(there or ends, key=lambda end: (self.collapsed(end), -end.height))
        kept: list[Climb] = []
        for end in ranked:
            if all(abs(end.height - other.height) > SAME for other in kept):
                kept.append(end)
        return kept

    def collapsed(self, end: Climb) -> bool:
        """Whether a component sits on a few rows, where the density has no bound."""
        family = self.surface.found.mixed.parts.family
        if not family.collapses:
            return False
        spread = self.matching.parameters(end.vector).dispersion
        good = np.isfinite(spread).all() and spread.min() > COLLAPSED * max(1.0, spread.max())
        return not good


def searched(parts: ModelParts, n_init: int, seed: int) -> Solution:
    """What the package's own search finds on the rows of a mixture."""
    options = make_options("em", "auto", n_init, 1000, 1e-10, seed, None, None, parts)
    return make_job(parts, options, "none", None).run()[0]


def maxima(solution: Solution) -> list[Parameters]:
    """The maximum of a search, and others that it met, in standard coordinates."""
    found = [solution.run.params]
    if solution.search is not None:
        found += [m.run.params for m in solution.search.maxima[1:MOST_MAXIMA]]
    return found


def first_orders(params: Parameters) -> Iterator[list[int]]:
    """Orders that a model may want: all of few components, or by one of their parameters."""
    k = params.k
    if k <= ALL_ORDERS:
        yield from (list(order) for order in permutations(range(k)))
        return
    columns = [*params.coef.T, params.dispersion, *params.gating[:k].T]
    for column in columns:
        order = np.argsort(column, kind="stable").tolist()
        yield order
        yield order[::-1]


def moved(
    params: Parameters, rng: np.random.Generator, count: int, wide: bool
) -> Iterator[Parameters]:
    """A component given up, and another split in two, maybe unevenly; or all of them shaken."""
    k = params.k
    pairs = [(i, j) for i in range(k) for j in range(k) if i != j]
    chosen = rng.permutation(len(pairs))[:count]
    for at in chosen:
        left, split = pairs[at]
        coef, gating = params.coef.copy(), params.gating.copy()
        apart = rng.standard_normal(coef.shape[1]) * np.sqrt(params.dispersion[split])
        coef[left], coef[split] = coef[split] + apart, coef[split] - apart
        dispersion = params.dispersion.copy()
        dispersion[left] = dispersion[split]
        gating[left] = gating[split]
        yield Parameters(coef, dispersion, gating)
        if wide:
            narrow = dispersion.copy()
            narrow[left] *= NARROW
            yield Parameters(coef, narrow, gating)
    for _ in range(max(0, min(4, count - len(chosen)))):
        shaken = params.coef + rng.standard_normal(params.coef.shape)
        yield Parameters(shaken, params.dispersion, params.gating)
