"""The variables of a model's own rows, read off its regressors where these tell."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.report.base_results import BaseResults
from mixreg.table.design import Design

Array = NDArray[np.float64]


def own_table(res: BaseResults, x: list[Array], z: Array | None) -> pd.DataFrame:
    """Variables of the formulas, from the regressors of each response and the concomitants.

    A formula that has a variable only in a transform, as `np.log(price)`, does not tell it.
    """
    found: dict[Any, Any] = {}
    pairs = [(response.design, own) for response, own in zip(res.spec.responses, x, strict=True)]
    gate = res.spec.gate_design
    if gate is not None and z is not None:
        pairs.append((gate, z))
    wanted: set[Any] = set()
    for design, columns in pairs:
        found = _columns(design, columns) | found
        wanted |= set(design.terms if design.right is None else design.right_columns)
    lost = sorted(map(str, wanted - set(found)))
    if lost:
        raise NotAvailableError(
            f"the regressors do not tell the variable {', '.join(lost)}, which is only in "
            "transforms; give the data, as in res.margins(data)"
        )
    return pd.DataFrame(found)


def _columns(design: Design, x: Array) -> dict[Any, Any]:
    """Variables that columns of a design stand for."""
    if design.right is None:
        return dict(zip(design.terms, x.T, strict=True))
    info, found = design.right.info, {}
    for term, coding in info.term_codings.items():
        if len(term.factors) != 1:
            continue
        (factor,), where = term.factors, info.term_slices[term]
        known, code = info.factor_infos[factor], factor.code
        if known.type == "categorical":
            part = coding[0]
            matrix = np.asarray(part.contrast_matrices[factor].matrix, dtype=float)
            column = _category(code, design.right_columns)
            if column is not None:
                found[column] = _levels(x[:, where], matrix, known.categories)
        elif known.type == "numerical" and _bare(code) in design.right_columns:
            found[_bare(code)] = x[:, where][:, 0]
    return found


def _bare(code: str) -> Any:
    """The name of a column that a factor is, without a transform."""
    tree = ast.parse(code, mode="eval").body
    if isinstance(tree, ast.Name):
        return tree.id
    quoted = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "Q"
    if quoted and isinstance(tree, ast.Call) and isinstance(tree.args[0], ast.Constant):
        return tree.args[0].value
    return None


def _category(code: str, columns: frozenset[str]) -> Any:
    """The column of a category: `x`, or `C(x, ...)`."""
    tree = ast.parse(code, mode="eval").body
    called = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "C"
    if called and isinstance(tree, ast.Call):
        code = ast.unparse(tree.args[0])
    name = _bare(code)
    return name if name in columns else None


def _levels(x: Array, matrix: Array, categories: tuple[Any, ...]) -> Any:
    """The level of each row, by the nearest row of a contrast matrix."""
    gaps = ((x[:, None, :] - matrix[None]) ** 2).sum(axis=2)
    return np.array(categories, dtype=object)[gaps.argmin(axis=1)]
