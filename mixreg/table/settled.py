"""From rows as they were given to a model: what was asked, and the rows as they are fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixreg.errors import InputError
from mixreg.sources import Source
from mixreg.sources.tasks import count_known, count_labelled
from mixreg.table.checks import (
    absent_terms,
    check_apart,
    check_attributes,
    check_differences,
    check_k,
    check_rows,
    shared_terms,
)
from mixreg.table.design import Design
from mixreg.table.own_rows import OwnRows, RowNames
from mixreg.table.prepared import prepared
from mixreg.table.responses import Asked, joint_design, make_responses, standard_coordinates
from mixreg.table.spec import Spec


def settled(
    asked: Sequence[Asked],
    raw: Source,
    trials: Sequence[bool],
    gate: Design | None,
    names: RowNames,
    k: Any,
    shared: Any,
    only: Any,
    noise: bool,
) -> tuple[Spec, OwnRows]:
    """Check what was asked against all rows, and find their standard coordinates.

    Parameters
    ----------
    asked : sequence of Asked
        The responses.
    raw : Source
        Rows as they were given.
    trials : sequence of bool
        Which responses are shares of trials.
    gate : Design or None
        Concomitant variables.
    names : RowNames
    k, shared, only, noise
        As in `MixReg`.
    """
    if raw.total_weight == 0:
        raise InputError("weights are all zero; give some rows a positive weight")
    check_apart(asked, gate)
    k, change = check_k(k, raw), prepared([each.family for each in asked])
    source = raw.mapped(change) if change.changes(raw) else raw
    design, named = joint_design(asked), asked[0].names
    check_attributes(design, source)
    common = shared_terms(shared, design)
    spec = Spec(
        k,
        make_responses(asked, raw, trials, noise),
        common,
        absent_terms(only, design, common, k),
        gate,
        noise,
        _labelled(source),
        named["groups"] or named["choice_set"],
    )
    check_differences(k, design, common, spec.family)
    check_rows(spec.layout, source, spec.family)
    white = standard_coordinates(source, spec.family, spec.layout)
    return spec, OwnRows(source, raw, white, names)


def _labelled(source: Source) -> bool:
    """Whether labels of units that count are known; refuse labels of none."""
    if not source.has("known"):
        return False
    if source.sweep(count_known) == 0:
        what = "groups" if source.has("starts") else "rows"
        raise InputError(
            f"known_labels names no {what} that are used: all labels are missing, or their rows "
            f"were left out by subset= or for missing values. Name {what} that are used, or leave "
            "the argument out"
        )
    return source.sweep(count_labelled) > 0
