"""Code in the README and the docs runs and prints what they show."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": 2,
    "docs/data.md": 1,
    "docs/families.md": 3,
    "docs/frames_and_plots.md": 0,
    "docs/segmentation.md": 7,
    "docs/bayes.md": 6,
    "docs/command_line.md": 3,
    "docs/scikit_learn.md": 3,
    "docs/index.md": 0,
    "docs/start.md": 3,
    "docs/guide.md": 5,
    "docs/report.md": 0,
    "docs/coming_from.md": 2,
    "docs/choosing_k.md": 1,
}


def same(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def in_shell(block: str, folder: Path) -> str:
    """What commands print, with `mixreg` the one of this Python."""
    script = f'set -e\nmixreg() {{ "{sys.executable}" -m mixreg "$@"; }}\n{block}'
    path = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=path, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    namespace: dict[str, object] = {}
    printed, shown = "", 0
    for kind, block in re.findall(r"```(python|sh|text)\n(.*?)```", text, flags=re.DOTALL):
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(block, namespace)
            printed = out.getvalue()
        elif kind == "sh":
            printed = in_shell(block, tmp_path)
        else:
            shown += 1
            assert same(printed) == same(block)
    assert shown == PAGES[page]
