"""Run the tutorials, each in a fresh kernel: `python tutorials/run.py [--write] [NAME ...]`.

A notebook fails if a cell raises an error, if one prints to standard error (warnings do), if what
is stored was not made by running the cells once, in order, or if a text is still a placeholder.
Outputs of the run are thrown away; `--write` puts them into the files.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

HERE = Path(__file__).resolve().parent
# Rows of the tutorial that is about many of them; it reads this variable.
ROWS = "MIXREG_TUTORIAL_ROWS"
# Seconds that a cell may take.
PATIENCE = 1200
WIDGET = "application/vnd.jupyter.widget-view+json"
# What tells of the machine: where things are, and numbers of objects in memory.
PLACES = {
    str(HERE.parent): ".",
    sys.prefix: "python",
    str(Path.home()): "~",
    tempfile.gettempdir(): "scratch",
}
PATH = re.compile(r"(?<![\w./~-])/(?:Users|home|opt|root|tmp|usr|var)/[\w.-]+")
# What stands where a text is still to be written.
PLACEHOLDER = re.compile(r"\b(?:TEXT|TODO|FIXME)\b")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run notebooks; return 1 if one of them fails."""
    options = _parser().parse_args(arguments)
    if options.rows is not None:
        os.environ[ROWS] = str(options.rows)
    paths = [_found(name) for name in options.names] or sorted(HERE.glob("*.ipynb"))
    faults = asyncio.run(_run_all(paths, options))
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python tutorials/run.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help="notebooks; all by default")
    parser.add_argument("--write", action="store_true", help="put the outputs into the files")
    parser.add_argument("--rows", type=int, help="rows of the tutorial on many rows")
    parser.add_argument("--jobs", type=int, default=2, help="notebooks at a time (2)")
    return parser


def _found(name: str) -> Path:
    """The notebook of a path, or of a name with or without its ending."""
    for path in (Path(name), HERE / name, HERE / f"{name}.ipynb"):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in HERE.glob("*.ipynb")))
    raise SystemExit(f"there is no notebook {name!r}; there are: {known}")


async def _run_all(paths: list[Path], options: argparse.Namespace) -> list[str]:
    turns = asyncio.Semaphore(options.jobs)

    async def run(path: Path) -> list[str]:
        async with turns:
            began = time.perf_counter()
            faults = await _run(path, options.write)
            told = "FAILED" if faults else "written" if options.write else "ok"
            print(f"{path.name}: {told}, {time.perf_counter() - began:.0f} s", flush=True)
            return faults

    return [fault for faults in await asyncio.gather(*map(run, paths)) for fault in faults]


async def _run(path: Path, write: bool) -> list[str]:
    """Run one notebook; what is wrong with it, one line each."""
    stored = nbformat.read(path, as_version=4)
    fresh = copy.deepcopy(stored)
    for _, cell in _code(fresh):
        cell.outputs, cell.execution_count = [], None
    # Python's own kernel in the notebook's folder, as a reader has it.
    client = NotebookClient(
        fresh,
        kernel_name="python3",
        timeout=PATIENCE,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        # The kernel need not say that it speaks to this process unencrypted.
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(path.resolve().parent)}},
    )
    try:
        await client.async_execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return [f"{path.name}, cell {_last(fresh)}: {str(error).strip()}"]
    clean(fresh)
    faults = complaints(fresh)
    if write and not faults:
        nbformat.validate(fresh)
        nbformat.write(fresh, path)
        stored = fresh
    # A run that complains is no measure of what is stored.
    faults = faults or lacks(stored, fresh)
    return [f"{path.name}, {fault}" for fault in faults]


def _code(notebook: NotebookNode) -> list[tuple[int, NotebookNode]]:
    """Cells of code that have some, by their place in the notebook, from 1."""
    cells = enumerate(notebook.cells, start=1)
    return [(n, c) for n, c in cells if c.cell_type == "code" and c.source.strip()]


def _last(notebook: NotebookNode) -> int:
    """The place of the cell at which a run ended."""
    failed = [n for n, c in _code(notebook) if any(o.output_type == "error" for o in c.outputs)]
    begun = [n for n, c in _code(notebook) if c.execution_count]
    return max(failed or begun, default=1)


def clean(notebook: NotebookNode) -> None:
    """Take out of a notebook what differs from run to run and from machine to machine."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    notebook.nbformat_minor = max(notebook.nbformat_minor, 5)
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number:02d}"
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k == "tags"})
    for _, cell in _code(notebook):
        cell.outputs = [output for output in map(_cleaned, cell.outputs) if output is not None]


def _cleaned(output: NotebookNode) -> NotebookNode | None:
    """An output without names of the machine; None if nothing is left of it."""
    if output.output_type == "stream":
        output.text = _anonymous(_seen(output.text))
        return output if output.text.strip() else None
    if WIDGET in output.get("data", {}):
        return None
    for kind, value in output.get("data", {}).items():
        if isinstance(value, str) and not kind.startswith("image/"):
            output.data[kind] = _anonymous(value)
    return output


def _seen(text: str) -> str:
    """What is left to see: progress bars write over themselves."""
    lines = (line.rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n"))
    return "\n".join(lines)


def _anonymous(text: str) -> str:
    # The longest first, since one place may lie in another.
    for place in sorted(PLACES, key=len, reverse=True):
        text = re.sub(rf"{re.escape(place)}(?![\w.-])", PLACES[place], text)
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def complaints(notebook: NotebookNode) -> list[str]:
    """What cells printed to standard error, each with its place."""
    return [
        f"cell {number} prints to standard error: {output.text.strip()}"
        for number, cell in _code(notebook)
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stderr"
    ]


def lacks(stored: NotebookNode, fresh: NotebookNode) -> list[str]:
    """Why what is stored is not finished, or not what one run of all cells, in order, left."""
    found = [
        f"cell {number} has a placeholder: {placeholder.group()}"
        for number, cell in enumerate(stored.cells, start=1)
        if cell.cell_type == "markdown" and (placeholder := PLACEHOLDER.search(cell.source))
    ]
    for count, ((number, cell), (_, ran)) in enumerate(
        zip(_code(stored), _code(fresh), strict=True), start=1
    ):
        if cell.execution_count != count:
            found.append(f"cell {number} is stored as run {cell.execution_count}, not {count}")
        elif ran.outputs and not cell.outputs:
            found.append(f"cell {number} prints or draws, but no output of it is stored")
        elif PATH.search(_text(cell)):
            found.append(f"cell {number} shows a path: {PATH.search(_text(cell)).group()}")
    return found


def _text(cell: NotebookNode) -> str:
    """All that the outputs of a cell say in words."""
    shown = [
        value for o in cell.outputs for kind, value in o.get("data", {}).items() if "text" in kind
    ]
    return "\n".join([*shown, *(o.text for o in cell.outputs if o.output_type == "stream")])


if __name__ == "__main__":
    sys.exit(main())
