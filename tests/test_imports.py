"""The house: imports go one way, and what is private stays where it is."""

import ast
from pathlib import Path

import mixreg

ROOT = Path(mixreg.__file__).parent


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


TREES = {name_of(path): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}


def imports(tree: ast.Module) -> set[str]:
    """Modules of the package that a module imports anywhere, for types too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in TREES else node.module)
    return found & set(TREES)


def test_no_import_cycle():
    left = {name: imports(tree) - {name} for name, tree in TREES.items()}
    while True:
        free = {name for name, needs in left.items() if not needs & set(left)}
        if not free:
            break
        left = {name: needs for name, needs in left.items() if name not in free}
    assert not left, sorted(left)


def test_private_names_stay_in_their_module():
    crossing = []
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mixreg"):
                private = [a.name for a in node.names if a.name.startswith("_")]
                crossing += [
                    (name, each) for each in private if f"{node.module}.{each}" not in TREES
                ]
    assert not crossing


def test_front_doors_are_not_imported_from_within():
    doors = {"mixreg.model", "mixreg.results", "mixreg.selection", "mixreg.cli"}
    # Other front doors may use them: the command line and scikit-learn have rooms of their own.
    allowed = {*doors, "mixreg", "mixreg.files.load", "mixreg.__main__"}
    inside = {
        name: imports(tree) & doors
        for name, tree in TREES.items()
        if name not in allowed and not name.startswith(("mixreg.cli.", "mixreg.sklearn."))
    }
    assert not {name: found for name, found in inside.items() if found}
