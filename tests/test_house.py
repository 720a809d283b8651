"""Sources own rows: who may know what of them, read from the text of the package.

What does not keep to a rule yet is listed beside it. A list may only shrink: an entry that
is no longer needed fails the test too.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mixreg
from mixreg import MixReg
from mixreg.sources.block import ROW_FIELDS, UNIT_FIELDS, Block, GramBlock

ROOT = Path(mixreg.__file__).parent
TREES = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text())
    for path in sorted(ROOT.rglob("*.py"))
    if "sources" not in path.relative_to(ROOT).parts
}
CONCRETE = {
    node.name
    for path in sorted((ROOT / "sources").glob("*.py"))
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.ClassDef) and node.name.endswith("Source") and node.name != "Source"
}
COLUMNS = {*ROW_FIELDS, *UNIT_FIELDS, "starts"}
# Names that hold a source wherever they occur.
SOURCES = {"source", "raw", "near", "sample", "linear"}

# PyMC builds one graph of all rows.
NEED_ALL_ROWS = {"ppl/likelihood.py"}
# Rows that a user hands over, to be fitted or predicted, are put into memory.
PUT_INTO_MEMORY = {"report/given_rows.py", "table/declaration.py", "report/prediction.py"}
# A search looks at its levels, and at views, as one block; so does EM of many regressors.
LOOK_AT_ONE_BLOCK = {
    "search/candidates.py",
    "search/cells.py",
    "search/moves.py",
    "search/peel.py",
    "search/stand_in.py",
}


def attributes(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Last name before each attribute, and the attribute: `a.source.x` is ("source", "x")."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = getattr(owner, "attr", getattr(owner, "id", ""))
            yield name, node.attr


def names(tree: ast.AST) -> Iterator[str]:
    """Every name that a module mentions or imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (name for name in CONCRETE if name in node.value)


def modules(tree: ast.AST) -> Iterator[str]:
    """Every module that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_there_are_modules_and_sources_to_look_at():
    assert len(TREES) > 80
    assert {"MemorySource", "BlockSource"} <= CONCRETE
    assert {"x", "y", "weight", "z", "known", "starts"} <= COLUMNS


@pytest.mark.parametrize("path", TREES)
def test_nobody_names_a_concrete_source(path):
    assert not CONCRETE & set(names(TREES[path]))
    assert "mixreg.sources.memory" not in set(modules(TREES[path]))


# Who reads data that are not in memory knows where it puts them, and what is kept beside.
FAR = {"mixreg.sources.scratch", "mixreg.sources.cluster", "mixreg.sources.client"}
PUT_AWAY = {
    "table/cluster_names.py",
    "table/distributed.py",
    "table/far_names.py",
    "table/streamed.py",
}


@pytest.mark.parametrize("path", TREES)
def test_only_readers_know_where_rows_are_put(path):
    assert bool(FAR & set(modules(TREES[path]))) == (path in PUT_AWAY)


@pytest.mark.parametrize("path", TREES)
def test_nobody_indexes_the_rows_of_a_source(path):
    assert not [
        (owner, name)
        for owner, name in attributes(TREES[path])
        if owner in SOURCES and name in COLUMNS
    ]


@pytest.mark.parametrize("path", TREES)
def test_no_task_carries_an_array_that_it_indexes_by_units(path):
    assert ("block", "first") not in set(attributes(TREES[path]))


def users(wanted: set[tuple[str, str]] | set[str]) -> set[str]:
    """Modules that use an attribute, maybe of something of a certain name."""
    found = set()
    for path, tree in TREES.items():
        pairs = set(attributes(tree))
        if wanted & pairs or wanted & {name for _, name in pairs}:
            found.add(path)
    return found


def test_only_those_on_the_list_ask_for_all_rows():
    assert users({"as_block", "blocks"}) == NEED_ALL_ROWS


def test_only_a_search_looks_at_one_block():
    assert users({("source", "block"), ("condensed", "block")}) == LOOK_AT_ONE_BLOCK


def test_columns_are_compared_in_one_place():
    found = {
        path for path, tree in TREES.items() if {"ROW_FIELDS", "UNIT_FIELDS"} & set(names(tree))
    }
    assert found == set()


@pytest.mark.parametrize("path", TREES)
def test_only_front_doors_put_rows_into_memory(path):
    assert ("in_memory" in set(names(TREES[path]))) == (path in PUT_INTO_MEMORY)


def modules_met(rows: int, run: Callable[[], None]) -> set[str]:
    """Modules of which a function is called with something that runs along the rows."""
    met: set[str] = set()

    def along(value: Any) -> bool:
        if isinstance(value, Block | GramBlock):
            return True
        if isinstance(value, list | tuple):
            return any(along(each) for each in value)
        return isinstance(value, np.ndarray | pd.DataFrame | pd.Series) and rows in value.shape

    def look(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(along(frame.f_locals.get(name)) for name in names):
                met.add(str(Path(code.co_filename).relative_to(ROOT)))

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return met


def test_a_row_meets_few_modules_on_its_way():
    # A prime number of rows, so that no other array has as many.
    rng, rows = np.random.default_rng(0), 997
    data = pd.DataFrame(rng.standard_normal((rows, 2)), columns=["x1", "x2"])
    data["y"] = rng.choice([-1, 1], rows) * data.x1 + 0.3 * rng.standard_normal(rows)

    def run() -> None:
        str(MixReg.from_formula("y ~ x1 + x2", data, k=2).fit().summary())

    met = modules_met(rows, run)
    assert "families/gaussian.py" in met
    assert len(met) <= 28, sorted(met)


def test_every_module_is_on_the_map():
    page = Path(__file__).parents[1].joinpath("docs", "architecture.md").read_text()
    named = set(re.findall(r"`(?:[a-z_]+/)*([a-z_]+\.py)`", page))
    apart = {"families", "datasets"}
    modules = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in apart]
    here = {path.name for path in modules} - {"__init__.py", "__main__.py"}
    assert here - named == set()
