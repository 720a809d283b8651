"""Code in the README and the docs runs and prints what they show."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
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
    "docs/coming_from.md": 3,
    "docs/choosing_k.md": 1,
    "docs/files.md": 0,
    "docs/long_fits.md": 0,
    "docs/scaling.md": 0,
}
# What opens a block of Python that runs.
PYTHON = "```python\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to run pages in, with the small files that some of them read."""
    rng = np.random.default_rng(0)
    stores, weeks = 40, 20
    store = np.repeat(np.arange(stores), weeks)
    price = rng.uniform(1, 5, len(store)).round(2)
    level, slope = np.array([[10.0, 8.0, 9.0, 7.0], [-2.0, -1.0, -0.3, -3.0]])[:, store % 4]
    noise = 0.1 * rng.standard_normal(len(store))
    table = pd.DataFrame(
        {
            "store": store,
            "region": np.where(store < stores // 2, "north", "south"),
            "price": price,
            "sales": np.exp(level + slope * np.log(price) + noise).round(4),
            "volume": (level + slope * price + noise).round(4),
        }
    )
    table.to_csv(tmp_path / "sales.csv", index=False)
    for name, rows in (("sales", table), ("new", table[table["store"] < 4])):
        (tmp_path / name).mkdir()
        half = rows["store"] < rows["store"].median()
        rows[half].to_parquet(tmp_path / name / "1.parquet")
        rows[~half].to_parquet(tmp_path / name / "2.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def same(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def in_shell(block: str, folder: Path) -> str:
    """What commands print, with `mixreg` the one of this Python."""
    script = f'set -e\nmixreg() {{ "{sys.executable}" -m mixreg "$@"; }}\n{block}'
    path = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=path, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


# Any port will do for the dashboard of a cluster that a page starts.
@pytest.mark.filterwarnings("ignore:Port 8787 is already in use")
@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_the_page_shows(page, folder):
    text = (ROOT / page).read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed, shown = "", 0
    for kind, block in re.findall(r"```(python|sh|text)\n(.*?)```", text, flags=re.DOTALL):
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(block, namespace)
            printed = out.getvalue()
        elif kind == "sh":
            printed = in_shell(block, folder)
        else:
            shown += 1
            assert same(printed) == same(block)
    assert shown == PAGES[page]


def test_every_page_with_code_is_run():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    with_code = {str(p.relative_to(ROOT)) for p in pages if PYTHON in p.read_text(encoding="utf-8")}
    assert with_code <= PAGES.keys()
