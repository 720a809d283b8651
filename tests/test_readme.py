"""Code in the README and the docs runs and prints what they show; so do docstrings' examples."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest

import mixreg

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": 2,
    "docs/data.md": 1,
    "docs/families.md": 3,
    "docs/frames_and_plots.md": 0,
    "docs/segmentation.md": 7,
    "docs/bayes.md": 6,
}
MODULES = [m.name for m in pkgutil.walk_packages(mixreg.__path__, "mixreg.")]


def same(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_the_page_shows(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    namespace: dict[str, object] = {}
    printed, shown = "", 0
    for kind, block in re.findall(r"```(python|text)\n(.*?)```", text, flags=re.DOTALL):
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(block, namespace)
            printed = out.getvalue()
        else:
            shown += 1
            assert same(printed) == same(block)
    assert shown == PAGES[page]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
