"""What the runner of the tutorials finds wrong with a notebook; the tutorials are not run here."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

RUNNER = Path(__file__).parents[1] / "tutorials" / "run.py"
WARNS = "import warnings\nwarnings.warn('too few rows')"
# A bar that writes over itself, a path of this machine and an object in memory.
NOISY = """import sys, tempfile
print("\\rhalf", "\\r    ", end="\\r", file=sys.stderr)
print(tempfile.gettempdir() + "/rows")
print(2)
object()"""


def write(path: Path, *sources: str, count: int | None = None, text: str = "# Rows") -> Path:
    cells = [nbformat.v4.new_markdown_cell(text), *map(nbformat.v4.new_code_cell, sources)]
    for number, cell in enumerate(cells[1:]):
        cell.execution_count = None if count is None else count + number
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUNNER), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """All that is wrong, found by one command, which tries two notebooks at a time."""
    folder = tmp_path_factory.mktemp("notebooks")
    notebooks = [
        write(folder / "fails.ipynb", "1 + 1", "1 / 0"),
        write(folder / "warns.ipynb", "x = 1", WARNS),
        write(folder / "never_run.ipynb", "x = 1"),
        write(folder / "twice_run.ipynb", "x = 1", "x", count=3),
        write(folder / "shows_nothing.ipynb", "x = 1", "x", count=1),
        write(folder / "is_a_draft.ipynb", "x = 1", count=1, text="# Rows\n\nTEXT-END"),
        write(folder / "is_to_do.ipynb", "x = 1", count=1, text="TODO: what this means"),
        write(folder / "is_fine.ipynb", "x = 'TODO'", count=1, text="The TEXTURE of a text"),
    ]
    return run(*notebooks)


def test_a_notebook_with_a_fault_is_named_with_its_cell(done):
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if ".ipynb, cell" in line]
    assert len(said) == 8
    assert said[0].startswith("fails.ipynb, cell 3: ")
    assert "ZeroDivisionError" in done.stderr
    assert said[1].startswith("warns.ipynb, cell 3 prints to standard error: ")
    assert "UserWarning: too few rows" in said[1]
    assert said[2:] == [
        "never_run.ipynb, cell 2 is stored as run None, not 1",
        "twice_run.ipynb, cell 2 is stored as run 3, not 1",
        "twice_run.ipynb, cell 3 is stored as run 4, not 2",
        "shows_nothing.ipynb, cell 3 prints or draws, but no output of it is stored",
        "is_a_draft.ipynb, cell 1 has a placeholder: TEXT",
        "is_to_do.ipynb, cell 1 has a placeholder: TODO",
    ]


def test_a_notebook_without_a_fault_is_ok(done):
    assert "is_fine.ipynb: ok" in done.stdout
    assert done.stdout.count("FAILED") == 7


def test_outputs_are_written_without_what_tells_of_the_machine(tmp_path):
    path = write(tmp_path / "noisy.ipynb", NOISY)
    assert (run(path).returncode, run("--write", path).returncode) == (1, 0)
    first = path.read_text()
    cell = nbformat.read(path, as_version=4).cells[1]
    assert [output.get("text") for output in cell.outputs] == ["scratch/rows\n2\n", None]
    assert cell.outputs[1].data["text/plain"] == "<object>"
    assert (cell.id, cell.execution_count) == ("cell-02", 1)
    assert run("--write", path).returncode == 0
    assert path.read_text() == first


def test_a_notebook_that_is_not_there_is_named():
    done = run("8_no_such_tutorial")
    assert done.returncode == 1
    assert "there is no notebook '8_no_such_tutorial'" in done.stderr
