"""The README's code runs, and prints what the README shows; so do the docstrings' examples."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest

import mixreg

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
MODULES = [m.name for m in pkgutil.walk_packages(mixreg.__path__, "mixreg.")]


def same(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def test_readme_examples_print_what_it_shows():
    blocks = re.findall(r"```(python|text)\n(.*?)```", README, flags=re.DOTALL)
    namespace: dict[str, object] = {}
    printed, shown = "", 0
    for kind, text in blocks:
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(text, namespace)
            printed = out.getvalue()
        else:
            shown += 1
            assert same(printed) == same(text)
    assert shown == 2


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
