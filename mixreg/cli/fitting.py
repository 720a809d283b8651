"""`mixreg fit` and `mixreg predict`."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

# `np` is what formulas name: they are looked up here.
import numpy as np
import pandas as pd

from mixreg.cli.as_json import as_json
from mixreg.cli.tables import STDIN, check_table, read_table, write_table
from mixreg.errors import FileFormatError, InputError, nearest
from mixreg.files.container import target_of
from mixreg.files.formulas import check_code
from mixreg.files.load import load
from mixreg.model import MixReg
from mixreg.reading.files import Files
from mixreg.reading.writing import TableWriter
from mixreg.report.plots.style import pyplot
from mixreg.results import MixRegResults
from mixreg.selection import Selection, select_k
from mixreg.table.columns import formula_names
from mixreg.table.concomitant import names_of
from mixreg.table.cost import described, pieces
from mixreg.table.functions import written_with_np
from mixreg.table.recipe import Module

# Arguments of the model that have an option of the same name.
DECLARED = ("groups", "concomitant", "family", "weights", "offset", "exposure", "choice_set")


def run_fit(asked: Namespace) -> None:
    """Fit a model to a table, print what was found, and keep it where that is asked for."""
    ks = read_k(asked.k)
    _check_options(asked, ks)
    data = read_table(asked.data, asked.sep, asked.encoding)
    columns = frozenset(data.columns if isinstance(data, pd.DataFrame) else Files(data).columns)
    check_formulas(asked.formula, asked.concomitant, columns)
    declared = {name: getattr(asked, name) for name in DECLARED}
    declared = {name: value for name, value in declared.items() if value is not None}
    selection = None
    if len(ks) == 1:
        results = _fit(asked, data, ks[0], declared)
    else:
        selection = select_k(
            asked.formula,
            data,
            k=ks,
            criterion=asked.criterion,
            seed=asked.seed,
            progress=False if asked.quiet else None,
            **declared,
        )
        results = selection.best
    try:
        _print(asked, results, selection)
    finally:  # who reads the output may have seen enough of it
        _keep(asked, results, selection)


def _print(asked: Namespace, results: MixRegResults, selection: Selection | None) -> None:
    if asked.json:
        print(as_json(results, selection))
    else:
        print("" if selection is None else f"{selection}\n\n", results.summary(), sep="")
    sys.stdout.flush()


def _fit(asked: Namespace, data: Any, k: int, declared: dict[str, Any]) -> MixRegResults:
    progress = False if asked.quiet else None
    model = MixReg.from_formula(asked.formula, data, k=k, **declared)
    return model.fit(asked.method, seed=asked.seed, progress=progress)


def _check_options(asked: Namespace, ks: list[int]) -> None:
    """Refuse what cannot be done before anything is read or fitted."""
    if len(ks) > 1 and asked.method != "em":
        raise InputError(f"--method {asked.method} is for one k; with -k {asked.k} leave it out")
    _check_outputs(asked)


def _check_outputs(asked: Namespace) -> None:
    """Refuse files that cannot be written, or that would take the place of one another."""
    given = {name: getattr(asked, name) for name in ("save", "labels", "report", "plot")}
    given = {name: path for name, path in given.items() if path is not None}
    taken = {} if asked.data == STDIN else {os.path.realpath(asked.data): f"the data {asked.data}"}
    for name, path in given.items():
        target = target_of(path, f"segments.{name}")
        if target.exists() and not os.access(target, os.W_OK):
            raise InputError(f"--{name} {path} cannot be written; name another file")
        other = taken.setdefault(os.path.realpath(path), f"--{name}")
        if other != f"--{name}":
            raise InputError(f"--{name} {path} would take the place of {other}; name another file")
    if asked.labels is not None:
        TableWriter(asked.labels)
    if asked.plot is not None:
        _check_picture(asked.plot)
    if asked.report is not None:
        pyplot()


def _check_picture(path: str) -> None:
    """Refuse a picture of a format that matplotlib does not know."""
    pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    suffix = Path(path).suffix.lower().lstrip(".")
    if suffix and suffix not in known:
        raise InputError(
            f"--plot {path} ends in no format of pictures; end it in .png, .pdf or .svg (known are "
            f"{', '.join(known)})"
        )


def _keep(asked: Namespace, results: MixRegResults, selection: Selection | None) -> None:
    """Write the files that were asked for: each of them, even if another cannot be written."""
    write: dict[str, Callable[[str], Any]] = {
        "save": results.save,
        "labels": results.write_labels,
        "report": lambda path: results.report(path, selection=selection),
        "plot": lambda path: _plot(results, selection).savefig(path, bbox_inches="tight"),
    }
    failed = []
    for name, how in write.items():
        path = getattr(asked, name)
        try:
            if path is not None:
                how(path)
        except Exception as error:
            failed.append(error)
    if failed:
        raise failed[0]


def _plot(results: MixRegResults, selection: Selection | None) -> Any:
    """The figure of a choice of k, or of a fit, without a window."""
    import matplotlib

    matplotlib.use("Agg")
    axes: Any = selection.plot() if selection is not None else results.plot()
    figure = np.ravel(axes)[0].figure
    return figure.figure  # of a part of a figure, the whole


def read_k(text: str) -> list[int]:
    """Numbers of components: "3", "1:6" or "2,4"."""
    found = re.fullmatch(r"(\d+):(\d+)", text)
    if found:
        ks = list(range(int(found[1]), int(found[2]) + 1))
    elif re.fullmatch(r"\d+(,\d+)*", text):
        ks = [int(each) for each in text.split(",")]
    else:
        ks = []
    if not ks or min(ks) < 1:
        raise InputError(f"-k {text} is no number of segments; write -k 3, or -k 1:6 to choose one")
    return ks


def check_formulas(formula: str, concomitant: str | None, columns: frozenset[str]) -> None:
    """Refuse formulas that name more than columns, arithmetic, patsy's and numpy's functions.

    They are evaluated as Python; what comes from outside must not run code.
    """
    formula_names(formula)
    descriptions = [described(formula)]
    if concomitant is not None:
        names_of(concomitant)
        descriptions.append(described(concomitant))
    terms = [term for each in descriptions for term in (*each.lhs_termlist, *each.rhs_termlist)]
    for code in pieces(terms):
        try:
            check_code(code, columns, {"np": Module("numpy")})
        except FileFormatError as error:
            if isinstance(error.__cause__, InputError):
                raise error.__cause__ from error
            raise _refused(code, str(error), columns) from error


def _refused(code: str, reason: str, columns: frozenset[str]) -> InputError:
    named = re.search(r"names '(.*?)', which", reason)
    if named is None:
        return InputError(reason)
    what = named[1]
    with_np = written_with_np(what, code)
    if with_np is not None:
        return InputError(f"the formula has {what!r}, which is numpy's; write {with_np}")
    if what.isidentifier() and f"{what}(" not in code:
        return InputError(
            f"the formula names {what!r}, which is not a column of data"
            f"{nearest(what, sorted(columns))}"
        )
    if "nested" in reason or "too many" in reason:
        return InputError(f"{reason}; make columns of parts of it")
    return InputError(
        f"the formula has {what!r}; here it may have columns, arithmetic, comparisons, patsy's "
        "functions, as C(x), and numpy's, as np.log(x)"
    )


def run_predict(asked: Namespace) -> None:
    """Label and predict the rows of a table by a fit in a file."""
    check_table(asked.out, asked.data, asked.model)
    results = load(asked.model)
    data = read_table(asked.data, asked.sep, asked.encoding)
    found = results.assign(data) if asked.which == "assign" else results.predict(data, asked.which)
    write_table(_by_row(found), asked.out)


def _by_row(found: Any) -> pd.DataFrame:
    """Predictions as a table with the number of the row, names as text."""
    frame = found.to_frame() if isinstance(found, pd.Series) else found
    names = [
        ": ".join(map(str, name)) if isinstance(name, tuple) else str(name)
        for name in frame.columns
    ]
    frame = frame.set_axis(names, axis=1).rename_axis(columns=None)
    return frame.rename_axis("row").reset_index()
