"""Writing a fit to a file."""

from __future__ import annotations

from typing import Any

from mixreg.files.codec import Writer
from mixreg.files.container import pack, target_of, to_json, to_npy, write_file
from mixreg.files.families import write_family
from mixreg.files.formulas import check_recipe
from mixreg.report.diagnostics import Diagnostics
from mixreg.report.fitted import Fitted
from mixreg.table.design import Design
from mixreg.table.spec import Spec


def save(path: Any, spec: Spec, fitted: Fitted, diagnostics: Diagnostics) -> None:
    """Write a fit, without its rows, in one step; see `MixRegResults.save`."""
    write_file(target_of(path, "fit.mixreg"), packed(spec, fitted, diagnostics))


def packed(spec: Spec, fitted: Fitted, diagnostics: Diagnostics) -> bytes:
    """A fit as the bytes of a file."""
    for design in designs_of(spec):
        check_design(design)
    writer = Writer(write_family)
    trees = {"spec": spec, "fitted": fitted, "diagnostics": diagnostics}
    members = {f"{name}.json": to_json(writer.write(tree)) for name, tree in trees.items()}
    for number, array in enumerate(writer.arrays):
        members[f"arrays/{number}.npy"] = to_npy(array)
    return pack(members)


def designs_of(spec: Spec) -> list[Design]:
    """All designs that have formulas: those of the responses, and of the concomitants."""
    gate = [] if spec.gate_design is None else [spec.gate_design]
    return [*(response.design for response in spec.responses), *gate]


def check_design(design: Design) -> None:
    """Refuse formulas that a file may not keep."""
    if design.left is not None:
        check_recipe(design.left, design.left_columns)
    if design.right is not None:
        check_recipe(design.right, design.right_columns)
