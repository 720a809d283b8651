"""The command line."""

import re

import pytest

from mixreg import __version__
from mixreg.cli import main


def test_demo_prints_the_summary_and_the_segments(capsys):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "Mixture of Linear Regressions" in out
    assert "np.log(VOLUME)" in out
    for component in (1, 2, 3):
        assert f"Component {component}" in out
        assert f"  {component}: " in out
    assert re.search(r"No. Groups: +88\b", out)
    assert "price elasticity" in out


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"mixreg {__version__}\n"


@pytest.mark.parametrize("arguments", [["dance"], [], ["demo", "--fast"]])
def test_a_bad_command_ends_with_2(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage: mixreg" in capsys.readouterr().err
