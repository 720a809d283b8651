"""One response or several that share a label: from formulas to rows.

Several responses lie side by side: each has columns of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment

from mixreg.errors import InputError
from mixreg.families import Family, Joint, make_families, make_family
from mixreg.jobs.ladder import surrogate
from mixreg.mixture.gate import make_gate
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.sources import Source
from mixreg.sources.block import Block
from mixreg.sources.outliers import drawn_in
from mixreg.sources.standard import (
    Whitening,
    for_family,
    joined,
    triangle,
    whitening,
)
from mixreg.sources.tasks import Ranges, response_ranges
from mixreg.table import design as designs
from mixreg.table.checks import number, yes_or_no
from mixreg.table.rows import RowColumns, known_by_group, whole_sets

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

BY_RESPONSE = ("offset", "exposure", "trials")


@dataclass(frozen=True)
class Asked:
    """A response as it was asked for.

    Attributes
    ----------
    design : Design
    family : Family
    names : dict
        Names of columns such as offset and trials.
    """

    design: designs.Design
    family: Family
    names: dict[str, Any]


@dataclass(frozen=True)
class Given(Asked):
    """A response with its rows.

    Attributes
    ----------
    table : Table
    columns : RowColumns
        Resolved.
    """

    table: designs.Table
    columns: RowColumns


@dataclass(frozen=True)
class Response:
    """A response of a model.

    Attributes
    ----------
    design : Design
    family : Family
    names : dict
        Names of columns such as offset and trials.
    columns : slice
        Its regressors among those of all responses.
    has_trials : bool
    length, low : float
        Range of a background component, and where it begins; 0 if there is none.
    """

    design: designs.Design
    family: Family
    names: dict[str, Any]
    columns: slice
    has_trials: bool
    length: float
    low: float

    @property
    def name(self) -> str:
        """Name of the response."""
        return self.design.response


def families_of(
    family: Any, link: Any, equal_variance: Any, variance_ratio: Any, formulas: Sequence[Any]
) -> list[Family]:
    """The family of each response."""
    ratio = number("variance_ratio", variance_ratio, 1e-12, 1.0)
    if ratio == 1:
        raise InputError("variance_ratio=1 means one variance; use equal_variance=True")
    equal_variance = yes_or_no("equal_variance", equal_variance)
    if not formulas:
        raise InputError("formula is an empty list; give at least one formula")
    if len(formulas) == 1:
        one = family[0] if isinstance(family, list) and len(family) == 1 else family
        return [make_family(one, link, bool(equal_variance), ratio)]
    return make_families(family, link, bool(equal_variance), ratio, len(formulas))


def of_responses(given: RowColumns, formulas: Sequence[str]) -> list[RowColumns]:
    """The columns of each response; of several, some are dicts by response."""
    if len(formulas) == 1:
        return [given]
    names = [str(formula).split("~")[0].strip() for formula in formulas]
    for argument in BY_RESPONSE:
        value = getattr(given, argument)
        if value is not None and not (isinstance(value, dict) and set(value) <= set(names)):
            raise InputError(
                f"with several responses, {argument} must be a dict by response, such as "
                f"{{{names[-1]!r}: 'column'}}; responses are {', '.join(names)}"
            )
    if given.choice_set is not None:
        raise InputError("choice_set needs family='choice', which has no place in a list")
    return [
        replace(given, **{a: (getattr(given, a) or {}).get(name) for a in BY_RESPONSE})
        for name in names
    ]


def read_formulas(
    formulas: Sequence[str],
    families: Sequence[Family],
    columns: Sequence[RowColumns],
    names: Sequence[dict[str, Any]],
    frame: pd.DataFrame | None,
    environment: EvalEnvironment,
    missing: str,
    usable: Mask | None,
) -> list[Given]:
    """Columns of every response, at the rows at which nothing is missing in any."""
    read = [
        designs.from_formula(
            formula,
            frame,
            environment,
            missing,
            usable,
            counts=family.takes_trials,
            intercept=not family.takes_sets,
        )
        for formula, family in zip(formulas, families, strict=True)
    ]
    kept = [table.kept for _, table in read]
    everywhere = np.asarray(np.logical_and.reduce(kept))
    if not all(np.array_equal(mask, everywhere) for mask in kept):
        # Transforms learn from the rows that are kept, so they are made anew.
        return read_formulas(
            formulas, families, columns, names, frame, environment, missing, everywhere
        )
    parts = zip(read, columns, names, families, strict=True)
    return [
        Given(design, family, name, whole_sets(table, own, family), own)
        for (design, table), own, name, family in parts
    ]


def resolved(given: Sequence[RowColumns], frame: pd.DataFrame | None, namespace: Any) -> Any:
    """Values of the columns, and the rows at which none is missing (None: all of them)."""
    columns = [known_by_group(each, frame, namespace) for each in given]
    masks = [mask for mask in (each.usable() for each in columns) if mask is not None]
    return columns, np.logical_and.reduce(masks) if masks else None


def joint_design(given: Sequence[Asked] | Sequence[Response]) -> designs.Design:
    """Terms of all responses, with their names: `yp: x`."""
    if len(given) == 1:
        return given[0].design
    names = [each.design.response for each in given]
    if len(set(names)) < len(names):
        raise InputError(f"responses must differ; got {', '.join(names)}")
    terms: list[str] = []
    slices: dict[str, slice] = {}
    for each in given:
        design, before = each.design, len(terms)
        terms += [f"{design.response}: {term}" for term in design.terms]
        for term, where in design.term_slices.items():
            slices[f"{design.response}: {term}"] = slice(before + where.start, before + where.stop)
    return designs.Design(tuple(terms), ", ".join(names), slices=slices)


def make_responses(
    given: Sequence[Asked], rows: Source, trials: Sequence[bool], noise: bool
) -> tuple[Response, ...]:
    """The responses, where their regressors are, and the range of each if there is noise."""
    nothing = np.zeros(len(given))
    ranges = rows.sweep(response_ranges) if noise else Ranges(nothing, nothing)
    responses, end = [], 0
    for i, each in enumerate(given):
        start, end = end, end + len(each.design.terms)
        low, high = float(ranges.low[i]), float(ranges.high[i])
        length = each.family.background(np.array([low, high]))
        if noise and not length > 0:
            raise InputError(
                f"noise=True spreads a component over the range of the response, and "
                f"{each.design.response} is {low:g} in all rows; leave noise out"
            )
        response = Response(
            each.design,
            each.family,
            each.names,
            slice(start, end),
            trials[i],
            length,
            low,
        )
        responses.append(response)
    return tuple(responses)


def joint_family(given: Sequence[Response], shared: tuple[int, ...], equal: bool) -> Family:
    """The family of a response, or of several."""
    if len(given) == 1:
        return given[0].family
    part = np.repeat(np.arange(len(given)), [len(each.design.terms) for each in given])
    own = [i for i in range(len(part)) if i not in shared]
    return Joint(
        equal,
        families=tuple(each.family for each in given),
        names=tuple(each.design.response for each in given),
        columns=tuple(part[[*own, *shared]].tolist()),
    )


def side_by_side(blocks: Sequence[Block]) -> Block:
    """The same rows with all responses, each with regressors of its own."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    if any((block.weight is None) != (first.weight is None) for block in blocks):
        raise InputError("weights were taken for trials; give trials= for the proportions")
    sizes = [block.x.shape[1] for block in blocks]
    return replace(
        first,
        x=np.concatenate([block.x for block in blocks], axis=1),
        y=np.column_stack([block.y for block in blocks]),
        offset=columns_of([block.offset for block in blocks], first.rows, 0.0),
        trials=columns_of([block.trials for block in blocks], first.rows, 1.0),
        owners=tuple(np.repeat(np.arange(len(blocks)), sizes).tolist()),
    )


def columns_of(values: Sequence[Array | None], rows: int, absent: float) -> Array | None:
    """Columns beside each other, those that are not there filled in; None if none is."""
    if all(each is None for each in values):
        return None
    return np.column_stack([np.full(rows, absent) if v is None else v for v in values])


def standard_coordinates(source: Source, family: Family, layout: Layout) -> Whitening:
    """The coordinates in which a model is fitted to some rows."""
    responses = family.by_regressor(len(layout.terms))
    if len(responses) > 1:
        first, parts = 0, []
        for i, (each, size) in enumerate(responses):
            own = slice(first, first + size)
            common = tuple(j - first for j in layout.shared if first <= j < first + size)
            alone = source.mapped(OneResponse(i))
            parts.append(_coordinates(alone, each, layout, layout.terms[own], common))
            first += size
        white = joined(parts, layout.shared)
    else:
        white = _coordinates(source, family, layout, layout.terms, layout.shared)
    return replace(white, gate=make_gate(len(layout.gate)).coordinates(source, layout.gate))


def _coordinates(
    source: Source,
    family: Family,
    layout: Layout,
    terms: tuple[str, ...],
    shared: tuple[int, ...],
) -> Whitening:
    """Standard coordinates of one response."""
    if layout.background:
        source = drawn_in(source, family)
    linear = source if family.linear else source.mapped(surrogate(source, Mixture(family)))
    white = whitening(linear.sweep(triangle), terms, shared, rotate=not layout.absent)
    if family.linear:
        return white
    if family.own_units:
        return replace(white, linear=white, dispersion=max(white.variance, 1e-8))
    return for_family(white)


@dataclass(frozen=True, slots=True)
class OneResponse:
    """One response of some rows, with its own regressors."""

    number: int

    def __call__(self, block: Block) -> Block:
        """The response of a block."""
        return block.response(self.number)
