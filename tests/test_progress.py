"""Progress bars: who sees them, what they say, and that they go away."""

import io
import re
import sys
import types

import numpy as np
import pytest

from mixreg import MixReg, select_k
from mixreg.errors import InputError
from mixreg.inference.lrtest import lr_test
from mixreg.jobs import bar as progress
from mixreg.jobs.bar import Bar, is_watched
from tests.samples import lines

FORMULA = "y ~ x1 + x2"


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Shown:
    """What a terminal shows."""

    def __init__(self, capsys):
        self.capsys, self.text = capsys, ""

    def getvalue(self):
        self.text += self.capsys.readouterr().err
        return self.text


@pytest.fixture
def terminal(capsys, monkeypatch):
    """A terminal whose user has no patience."""
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "OFTEN", 0.0)
    return Shown(capsys)


def model(rows=600, k=2, **options):
    return MixReg.from_formula(FORMULA, lines(rows), k=k, **options)


def values(text, name):
    return [float(each) for each in re.findall(rf"{name}=(-?[0-9.e+]+)", text)]


def test_stages_and_the_log_likelihood_are_told(terminal):
    res = model().fit()
    text = terminal.getvalue()
    stages = [text.index(f"mixreg, {name}") for name in ("search", "all rows", "standard errors")]
    assert stages == sorted(stages)
    np.testing.assert_allclose(values(text, "llf")[-1], res.llf, rtol=1e-6)


def test_a_sample_is_told_as_if_it_were_all_rows(terminal):
    res = model(30_000).fit()
    search = terminal.getvalue().split("all rows")[0]
    np.testing.assert_allclose(values(search, "llf")[-1], res.llf, rtol=0.05)


@pytest.mark.parametrize(("method", "name"), [("altmin", "loss"), ("vb", "elbo")])
def test_other_methods_have_other_objectives(terminal, method, name):
    res = model().fit(method)
    last = values(terminal.getvalue(), name)[-1]
    np.testing.assert_allclose(last, -res.history[-1] if name == "loss" else res.elbo, rtol=1e-6)


def test_the_bar_goes_away(terminal):
    model().fit()
    assert terminal.getvalue().rsplit("\r", 2)[1].strip() == ""
    assert terminal.getvalue().endswith("\r")


def test_no_bar_before_two_seconds(monkeypatch):
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    model(100).fit()
    assert progress.PATIENCE == 2.0
    assert made.getvalue() == ""


def test_no_bar_in_a_log(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    model().fit()
    assert log.getvalue() == ""
    model().fit(progress=True)
    assert "mixreg" in log.getvalue()


def test_no_bar_where_none_is_wanted(terminal):
    model().fit(progress=False)
    select_k(FORMULA, lines(100), k=[1], progress=False)
    assert terminal.getvalue() == ""


def test_one_bar_for_many_fits(terminal):
    select_k(FORMULA, lines(100), k=[1, 2], n_jobs=1)
    one, two = (model(100, k).fit(progress=False) for k in (1, 2))
    one.bootstrap(3, n_jobs=1)
    lr_test(one, two, 2, n_jobs=1, n_init=2)
    text = terminal.getvalue()
    assert all(name in text for name in ("select_k", "bootstrap", "lr_test"))
    assert "mixreg" not in text


def test_a_terminal_is_watched(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert is_watched()


def test_a_notebook_is_watched(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace())
    assert not is_watched()
    shell = types.SimpleNamespace(kernel=object())
    notebook = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert is_watched()


@pytest.mark.parametrize("gone", [None, "closed"])
def test_nobody_watches_where_there_is_no_standard_error(monkeypatch, gone):
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", None if gone is None else stream)
    assert not is_watched()


def test_a_bar_goes_away_after_an_error(terminal):
    with pytest.raises(RuntimeError, match="stop"), Bar("work"):
        raise RuntimeError("stop")
    assert terminal.getvalue().endswith("\r")


def test_what_is_neither_true_nor_false_is_refused():
    with pytest.raises(InputError, match="progress='yes' must be True"):
        model(100).fit(progress="yes")
    with pytest.raises(InputError, match="progress=1 must be True"):
        select_k(FORMULA, lines(100), k=[1], progress=1)


def test_a_bar_changes_no_number(terminal):
    shown, hidden = model().fit(), model().fit(progress=False)
    np.testing.assert_array_equal(shown.params, hidden.params)
    assert shown.llf == hidden.llf
