"""Every public name has an example in its docstring, and it prints what it shows.

Examples are run as a reader would paste them: each by itself, with nothing imported before.
"""

import doctest
import functools
import importlib
import inspect
import io
import pkgutil
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import mixreg
import mixreg.errors
import mixreg.ppl
import mixreg.sklearn
from mixreg.families import Family, FamilyStatistics, Rows
from mixreg.inference.bootstrap import Bootstrap, bootstrap
from mixreg.inference.lrtest import LRTest
from mixreg.ppl.compat import pymc
from mixreg.report.diagnostics import Diagnostics
from mixreg.report.fitted import SearchReport
from mixreg.report.intervals import Prediction
from mixreg.report.segments import Classification, SegmentProfile
from mixreg.report.summary import Sections
from mixreg.table.parts import ModelParts

MODULES = (mixreg, mixreg.errors, mixreg.ppl, mixreg.sklearn)
# What methods hand out, though nobody imports it.
HANDED_OUT = (
    *(Bootstrap, bootstrap, Classification, Diagnostics, LRTest, Prediction),
    *(SearchReport, Sections, SegmentProfile),
)
# Parts of a model for who works on the package: the class's own example shows them all.
SHOWN_BY_CLASS = {
    ModelParts: {
        *("from_spec", "problem", "design", "responses", "layout", "mixture", "gate_design"),
        *("data", "rows", "source", "whitening", "units", "given"),
    }
}
# Methods of these are what a fit asks of a family. Classes have examples, methods only a text:
# what each is for is shown where a family is written, in the example of `Family`.
PROTOCOL = (Family, FamilyStatistics, Rows)


def own_members(kind: type) -> Iterator[tuple[str, type, Any]]:
    """Public methods and properties that the package gives a class: name, owner, object."""
    for name in sorted(dir(kind)):
        owner = next(each for each in kind.__mro__ if name in vars(each) or each is object)
        if name.startswith("_") or not owner.__module__.startswith("mixreg"):
            continue
        found = vars(owner)[name]
        found = getattr(found, "__func__", found)
        if inspect.isfunction(found) or isinstance(found, (property, functools.cached_property)):
            yield name, owner, found


def names_of(module: ModuleType) -> list[str]:
    """Names that a module offers: its list, or what is defined in it."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def public() -> dict[int, tuple[str, type | None, Any]]:
    """Everything public, once: its full name, the class it belongs to, and the object."""
    found: dict[int, tuple[str, type | None, Any]] = {}

    def meet(label: str, value: Any) -> None:
        found.setdefault(id(value), (label, None, value))
        if inspect.isclass(value):
            for name, owner, member in own_members(value):
                found.setdefault(id(member), (f"{label}.{name}", owner, member))

    todo = list(MODULES)
    for module in todo:
        for name in names_of(module):
            value = getattr(module, name)
            if inspect.ismodule(value):
                todo.append(value)
            elif inspect.isclass(value) or inspect.isfunction(value):
                meet(f"{module.__name__}.{name}", value)
    for value in HANDED_OUT:
        meet(f"{value.__module__}.{value.__name__}", value)
    return found


PUBLIC = public()
PARSER = doctest.DocTestParser()


def examples(value: Any) -> list[doctest.Example]:
    """Examples of the section `Examples` of a docstring."""
    text = inspect.cleandoc(value.__doc__ or "")
    section = re.search(r"^Examples\n-{8}\n(.*)", text, flags=re.DOTALL | re.MULTILINE)
    return PARSER.get_examples(section[1]) if section else []


def shown(value: Any) -> str:
    return "".join(example.source for example in examples(value))


def lacks(label: str, owner: type | None, value: Any) -> str | None:
    """What a public name lacks, or None."""
    name = label.rpartition(".")[2]
    if not value.__doc__ or not value.__doc__.strip():
        return "a docstring"
    if owner is not None and any(
        issubclass(each, owner) or issubclass(owner, each) for each in PROTOCOL
    ):
        return None
    if owner is not None and name in SHOWN_BY_CLASS.get(owner, ()):
        return None if re.search(rf"\.{name}\b", shown(owner)) else "a line in its class's example"
    if not any(example.want or example.exc_msg for example in examples(value)):
        return "an example that prints something"
    if not inspect.isclass(value) and not re.search(rf"\b{name}\b", shown(value)):
        return "an example that uses it"
    return None


def test_every_public_name_has_an_example():
    assert len(PUBLIC) > 400
    told = {label: lacks(label, owner, value) for label, owner, value in PUBLIC.values()}
    assert {label: what for label, what in told.items() if what} == {}


def test_lists_of_exceptions_hold_nothing_else():
    reached = {(owner, label.rpartition(".")[2]) for label, owner, _ in PUBLIC.values()}
    for kind, names in SHOWN_BY_CLASS.items():
        assert {name for name in names if (kind, name) not in reached} == set()


@pytest.mark.parametrize(
    ("spoilt", "what"),
    [
        (None, "a docstring"),
        ("Text.", "an example that prints something"),
        ("Text.\n\nExamples\n--------\n>>> x = 1\n", "an example that prints something"),
        ("Text.\n\n>>> 1\n1\n", "an example that prints something"),
        ("Text.\n\nExamples\n--------\n>>> 1\n1\n", "an example that uses it"),
    ],
)
def test_what_lacks_an_example_is_told(spoilt, what):
    def f(): ...

    f.__doc__ = spoilt
    assert lacks("mixreg.f", None, f) == what


def run(text: str, label: str) -> None:
    """Run the examples of a text, with no name known before."""
    test = PARSER.get_doctest(inspect.cleandoc(text), {}, label, None, 0)
    printed = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=printed.write)
    assert runner.summarize(verbose=False).failed == 0, printed.getvalue()


@pytest.fixture(autouse=True)
def _aside(tmp_path, monkeypatch):
    """Files go elsewhere, and figures are closed."""
    monkeypatch.chdir(tmp_path)
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


SHOWN = {label: value.__doc__ for label, _, value in PUBLIC.values() if examples(value)}


@pytest.mark.parametrize("label", SHOWN)
def test_examples_print_what_they_show(label):
    run(SHOWN[label], label)


def test_examples_within_the_package_print_what_they_show():
    pymc()  # imported here, it does not warn
    found = {}
    for each in pkgutil.walk_packages(mixreg.__path__, "mixreg."):
        module = importlib.import_module(each.name)
        found |= {test.name: test.docstring for test in doctest.DocTestFinder().find(module)}
    within = set(found.values()) - {value.__doc__ for _, _, value in PUBLIC.values()}
    for label, text in found.items():
        if text in within and ">>>" in text:
            run(text, label)


def test_an_example_that_prints_something_else_fails():
    with pytest.raises(AssertionError, match="Expected"):
        run(">>> 1 + 1\n3\n", "wrong")
