"""Importance of attributes, as in conjoint analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, NotAvailableError
from mixreg.report.base_results import BaseResults
from mixreg.sources.block import Block

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A main effect.

    Attributes
    ----------
    name : str
    columns : tuple of int
        Its regressors.
    coef : (columns, k) array
    span : (k,) array or None
        Of its part-worths; None if the rows tell.
    """

    name: str
    columns: tuple[int, ...]
    coef: Array
    span: Array | None = None


@dataclass(frozen=True, slots=True)
class Spans:
    """Smallest and largest contribution of each attribute, (attributes, k)."""

    low: Array
    high: Array

    def __add__(self, other: Spans) -> Spans:
        """Those of other rows too."""
        return Spans(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def width(self) -> Array:
        """From the smallest to the largest."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class TakeSpans:
    """Task: how far the contributions of attributes reach, over the rows that count."""

    attributes: tuple[Attribute, ...]

    def __call__(self, block: Block, params: None = None) -> Spans:
        """Process one block."""
        x = block.x if block.weight is None else block.x[block.row_units(block.weight) > 0]
        parts = [x[:, each.columns] @ each.coef for each in self.attributes]
        return Spans(
            np.array([part.min(axis=0, initial=np.inf) for part in parts]),
            np.array([part.max(axis=0, initial=-np.inf) for part in parts]),
        )


def importance(
    res: BaseResults, attributes: Mapping[str, Sequence[str]] | None = None
) -> pd.DataFrame:
    """Importance of attributes in percent, as in conjoint analysis.

    An attribute is a main effect. A category spans the part-worths of all its
    levels, whatever their coding. A number spans its contribution over the
    rows of the data (coefficient times range); so does a spline, while x and
    I(x**2) count apart. Importance is the span over the sum of spans.

    Parameters
    ----------
    attributes : dict, optional
        Terms that are one attribute, as dummies of its levels:
        `{"fee": ["Med_Fee", "Low_Fee"]}`. Levels of `C(fee)` are one without it.

    Returns
    -------
    DataFrame, attributes x components and "overall", the average by mixing
    weight. Interactions are left out and listed in `attrs["left_out"]`; where
    there are some, main effects are those at the reference. Without a formula
    each column that varies is an attribute.
    """
    found, left_out = _attributes(res)
    found = _together(found, _read(attributes))
    spans = {each.name: each.span for each in found if each.span is not None}
    if len(spans) < len(found):
        seen = res.model.given.sweep(TakeSpans(found)).width
        widths = {a.name: w for a, w in zip(found, seen, strict=True)}
        spans = {a.name: spans.get(a.name, widths[a.name]) for a in found}
    if res.spec.design.right is None:
        spans = {name: width for name, width in spans.items() if np.any(width)}
    if not spans:
        raise NotAvailableError("the model has no main effects, so no attributes to compare")
    frame = pd.DataFrame.from_dict(spans, orient="index", columns=list(res.components))
    frame = 100 * (frame / frame.sum()).rename_axis(index="attribute")
    frame["overall"] = np.average(frame, axis=1, weights=res.weights.loc[res.components])
    frame.attrs["left_out"] = left_out
    return frame


def _read(attributes: Any) -> Mapping[str, Sequence[str]]:
    """Which terms are one attribute, as a dict."""
    if attributes is None:
        return {}
    if not isinstance(attributes, Mapping):
        raise InputError(
            "attributes must be a dict of lists of terms, as {'fee': ['Med_Fee', 'Low_Fee']}; got "
            f"a {type(attributes).__name__}. Leave it out to compare the terms as they are"
        )
    return attributes


def _together(
    found: tuple[Attribute, ...], groups: Mapping[str, Sequence[str]]
) -> tuple[Attribute, ...]:
    """Main effects of which some are told to be one attribute, in place of the first of them."""
    known, owner = {each.name: each for each in found}, {}
    for name, terms in groups.items():
        if isinstance(terms, str) or not terms:
            raise InputError(f"attributes[{name!r}]={terms!r} must be a list of terms")
        for term in terms:
            if term not in known or term in owner:
                why = "is in two attributes" if term in owner else "is not a main effect"
                raise InputError(
                    f"attributes[{name!r}] names {term!r}, which {why}; main effects are "
                    f"{', '.join(known)}"
                )
            owner[term] = name
    taken = set(known) - set(owner)
    for name in groups:
        if name in taken:
            raise InputError(f"attributes has {name!r}, which is a term of its own; rename it")
    made = {}
    for each in found:
        name = owner.get(each.name, each.name)
        parts = [known[term] for term in groups[name]] if name in groups else [each]
        made[name] = parts[0] if len(parts) == 1 else _joined(name, parts)
    return tuple(replace(each, name=name) for name, each in made.items())


def _joined(name: str, parts: list[Attribute]) -> Attribute:
    columns = tuple(column for part in parts for column in part.columns)
    return Attribute(name, columns, np.concatenate([part.coef for part in parts]))


def _attributes(res: BaseResults) -> tuple[tuple[Attribute, ...], list[str]]:
    """Main effects, and the terms that are none."""
    recipe, names = res.spec.design.right, res.spec.exog_names
    table = res.coefficients
    if recipe is None:
        each = enumerate(names)
        return tuple(Attribute(n, (i,), table.iloc[[i]].to_numpy()) for i, n in each), []
    info = recipe.info
    coef = table.reindex(info.column_names, fill_value=0.0).to_numpy()
    found, left_out = [], []
    for term in info.terms:
        where = info.term_slices[term]
        if len(term.factors) > 1:
            left_out.append(term.name())
        elif term.factors:
            span = None
            if info.factor_infos[term.factors[0]].type == "categorical":
                (coding,) = info.term_codings[term]
                matrix = coding.contrast_matrices[term.factors[0]].matrix
                span = np.ptp(matrix @ coef[where], axis=0)
            there = [c for c in info.column_names[where] if c in names]
            columns = tuple(names.index(c) for c in there)
            own = table.loc[there].to_numpy()
            found.append(Attribute(term.name(), columns, own, span))
    return tuple(found), left_out
