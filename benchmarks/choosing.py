"""Choosing k: `select_k(1..6)` against one start of flexmix for each of 2 to 6.

    python -m benchmarks choosing [--draws 5] [--only wide,small,cheese,visits]

Wall-clock seconds of both, in turn on the same machine, and the k that BIC chooses. Drawn sets have
standard normal regressors and coefficients: 20,000 x 8, three segments, noise 1.0 (`wide`), and
3,000 x 6, two segments, noise 0.8 (`small`). Without R and flexmix only our times are printed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mixreg import datasets, select_k

R = """
suppressMessages(library(flexmix))
d <- read.csv("{file}"); set.seed({seed})
t0 <- proc.time()[["elapsed"]]
for (k in 2:6) try(flexmix({formula}, data = d, k = k{model}), silent = TRUE)
cat(proc.time()[["elapsed"]] - t0)
"""


def drawn(n: int, p: int, k: int, noise: float, seed: int) -> pd.DataFrame:
    """A mixture of lines with standard normal regressors and coefficients."""
    rng = np.random.default_rng(seed)
    x, coef = rng.standard_normal((n, p)), rng.standard_normal((k, p + 1))
    own = coef[rng.integers(0, k, n)]
    y = own[:, 0] + np.einsum("np,np->n", x, own[:, 1:]) + noise * rng.standard_normal(n)
    return pd.DataFrame(x, columns=[f"x{i}" for i in range(p)]).assign(y=y)


def cases(draws: int) -> Iterator[tuple[str, str, pd.DataFrame, dict[str, Any], str]]:
    """Name, formula, data, options, and what flexmix is told besides."""
    for name, (n, p, k, noise) in {
        "wide": (20_000, 8, 3, 1.0),
        "small": (3_000, 6, 2, 0.8),
    }.items():
        formula = "y ~ " + " + ".join(f"x{i}" for i in range(p))
        for seed in range(draws):
            yield name, formula, drawn(n, p, k, noise, seed), {}, ""
    cheese = datasets.cheese()
    yield "cheese", "np.log(VOLUME) ~ np.log(PRICE) + DISP", cheese, {}, ""
    visits = "visits ~ health + chronic + gender + school + insurance"
    poisson = ', model = FLXMRglm(family = "poisson")'
    yield "visits", visits, datasets.nmes1988(), {"family": "poisson"}, poisson


def flexmix_seconds(data: pd.DataFrame, formula: str, model: str, seed: int) -> float | None:
    """One start of flexmix for each k, or None without it."""
    if shutil.which("Rscript") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.csv"
        data.to_csv(file, index=False)
        script = R.format(file=file, seed=seed, formula=formula.replace("np.", ""), model=model)
        done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True)
    return float(done.stdout) if done.returncode == 0 else None


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks choosing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--only", help="names of cases, with commas between")
    chosen = parser.parse_args(arguments)
    only = chosen.only.split(",") if chosen.only else None
    # The first call loads what later ones need.
    select_k("tuned ~ stretchratio", datasets.tonedata(), k=[1, 2])
    for seed, (name, formula, data, options, model) in enumerate(cases(chosen.draws)):
        if only and name not in only:
            continue
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            choice = select_k(formula, data, k=range(1, 7), seed=seed, **options)
        ours = time.perf_counter() - begin
        theirs = flexmix_seconds(data, formula, model, seed)
        beside = "" if theirs is None else f"  flexmix {theirs:6.2f} s  ratio {ours / theirs:5.2f}"
        long = ", ".join(str(k) for k in choice.table.index[choice.table.thorough])
        print(f"{name:8s} k = {choice.best_k}  {ours:6.2f} s{beside}  thorough: {long}", flush=True)
