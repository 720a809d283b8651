"""What is handed out: requirements, terms, description; what is said where a package is missing."""

import inspect
import re
import runpy
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from mixreg import NotInstalledError, datasets
from mixreg.errors import install_line, needs

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOLDER = Path(datasets.__file__).parent
TERMS = (FOLDER / "SOURCES.md").read_text(encoding="utf-8").split("## Terms")[1]


# What is missing


@pytest.mark.parametrize("extra", ["plot", "frames", "dask", "bayes", "sklearn", "excel"])
def test_the_line_that_installs_names_the_packages(extra):
    line = install_line("nothing", extra)
    assert line.startswith("python -m pip install ")
    named = re.findall(r'"([\w.-]+)', line)
    assert named == [re.match(r"[\w.-]+", each).group() for each in EXTRAS[extra]]


def test_packages_are_named_where_no_extra_is_known(monkeypatch):
    assert install_line("great-tables") == 'python -m pip install "great-tables"'
    monkeypatch.setattr("mixreg.errors.metadata.requires", lambda name: None)
    line = install_line("narwhals and pyarrow", "frames")
    assert line == 'python -m pip install "narwhals" "pyarrow"'


def test_a_package_that_cannot_be_imported_is_not_said_to_be_missing():
    with (
        pytest.raises(NotInstalledError, match=r"which cannot be imported \(no symbol\); try"),
        needs("plots need", "matplotlib", "plot"),
    ):
        raise ImportError("no symbol")
    with (
        pytest.raises(NotInstalledError, match=r"which is not installed; try: .*, or use that"),
        needs("plots need", "matplotlib", "plot", ", or use that"),
    ):
        raise ModuleNotFoundError("no module")


CALLS = {
    "sklearn": ("import mixreg.sklearn", "scikit-learn"),
    "matplotlib": ("res.plot_components()", "matplotlib"),
    "arviz": ("res.to_arviz()", "arviz"),
    "pymc": ("res.sample()", "pymc"),
    "pyarrow": ("MixReg.from_formula('y ~ x', 'sales.csv', k=2)", "pyarrow"),
    "openpyxl": ("from mixreg.cli.tables import write_table; write_table(t, 'a.xlsx')", "openpyxl"),
    "great_tables": ("mixreg.compare(res).to_great_table()", "great-tables"),
    "marginaleffects": ("res.to_marginaleffects(t)", "marginaleffects"),
    "distributed": ("from mixreg.sources.client import connected; connected()", "distributed"),
}


def test_each_missing_package_is_told_in_the_same_words(tmp_path):
    script = """
        import sys
        from pathlib import Path

        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {names}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

        sys.meta_path.insert(0, Blocked())
        import mixreg
        from mixreg import MixReg

        t = mixreg.datasets.tonedata().rename(columns=dict(tuned="y", stretchratio="x"))
        t.to_csv("sales.csv", index=False)
        res = MixReg.from_formula("y ~ x", t, k=2).fit()
        for call, package in {calls}:
            try:
                exec(call)
            except mixreg.NotInstalledError as error:
                assert "which is not installed; try: python -m pip install" in str(error), error
                assert f'"{{package}}' in str(error), (package, error)
            else:
                raise AssertionError(call)
        print("fine")
    """
    code = textwrap.dedent(script).format(names=set(CALLS), calls=list(CALLS.values()))
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "fine\n", done.stderr


# What it needs


def test_what_is_numbered_by_the_calendar_has_no_upper_limit():
    for line in (*EXTRAS["dask"], *EXTRAS["frames"]):
        if line.startswith(("dask", "distributed", "pyarrow")):
            assert "<" not in line


# On what terms


@pytest.mark.parametrize("name", datasets.__all__)
def test_the_terms_of_each_data_set_are_stated(name):
    told = [line for line in TERMS.splitlines() if line.startswith("|") and f"{name}.csv" in line]
    assert len(told) == 1
    licence = re.split(r"\s*\|\s*", told[0])[3].split(" (")[0]
    text = " ".join(inspect.getdoc(getattr(datasets, name)).split())
    assert "under its licence, " in text
    for each in licence.split(" OR "):
        assert each in text
        assert each in PROJECT["license"]


def test_no_data_file_is_without_terms():
    files = [path.name for path in FOLDER.iterdir() if ".csv" in path.suffixes]
    assert len(files) == len(datasets.__all__)
    assert all(name in TERMS for name in files)


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_licences_are_handed_out(version):
    text = (FOLDER / "LICENSES" / f"GPL-{version}.txt").read_text(encoding="utf-8")
    assert text.split()[:3] == ["GNU", "GENERAL", "PUBLIC"]
    assert f"Version {version[0]}," in text


# What is read of it


def test_the_description_has_no_links_into_the_repository(monkeypatch):
    said = {}
    monkeypatch.setitem(sys.modules, "setuptools", SimpleNamespace(setup=said.update))
    runpy.run_path(str(ROOT / "setup.py"))
    assert said["long_description_content_type"] == "text/markdown"
    links = re.findall(r"\]\(([^)]+)\)", said["long_description"])
    assert not [link for link in links if "://" not in link]
    assert "`docs/guide.md`" in said["long_description"]


@pytest.mark.parametrize("folder", ["tests", "docs", "tutorials", "benchmarks", ".ci"])
def test_the_source_distribution_has_what_tests_read(folder):
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    assert f"graft {folder}" in lines
    assert (ROOT / folder).is_dir()
