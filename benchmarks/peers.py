"""Whole fits against R's flexmix, on the same data and in the same run.

flexmix is run as its users run it: `stepFlexmix` with ten random starts and default control. On
the camera data it gets one start, which takes seconds, unless ten are asked for. A second table
is against one start of flexmix only, on simulated data and on the camera's.
Its clock starts and stops inside R, around that call. Ours is `MixReg.from_formula(...).fit()`,
from the table to the standard errors, which flexmix leaves to `refit`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mixreg import MixReg
from mixreg.simulate import mixed_linear_equations
from tests.reference import Reference, cases
from tests.reference.glm import GlmReference, glm_cases

STARTS = 10
REPEATS = 3
# Rows, regressors and components of the simulated sets, and their noise.
SIZES = ((2_000, 10, 3), (20_000, 10, 3), (100_000, 20, 5))
NOISE = 0.3
MODELS = {
    "gaussian": "FLXMRglm()",
    "poisson": 'FLXMRglm(family = "poisson")',
    "choice": "FLXMRcondlogit(strata = ~ {choice_set})",
}
SCRIPT = """
suppressPackageStartupMessages(library(flexmix))
d <- read.csv("{file}", stringsAsFactors = TRUE)
{levels}
for (seed in 1:{runs}) {{
  set.seed(seed)
  seconds <- system.time(
    fit <- stepFlexmix({formula}, data = d, k = {k}, nrep = {starts}, model = {model},
                       verbose = FALSE)
  )[["elapsed"]]
  cat("result", seconds, format(as.numeric(logLik(fit)), digits = 15), fit@k, "\\n")
}}
"""


@dataclass(frozen=True)
class Case:
    """What both are asked to fit."""

    name: str
    data: pd.DataFrame
    formula: str
    k: int
    family: str
    groups: str | None
    choice_set: str | None
    starts: int

    @property
    def r_formula(self) -> str:
        formula = self.formula.replace("np.", "")
        if self.family == "choice":
            formula = formula.replace("~ 0 +", "~")
        return formula if self.groups is None else f"{formula} | {self.groups}"


@dataclass(frozen=True)
class Theirs:
    seconds: float
    llf: float
    k: int  # components that were not dropped


@dataclass(frozen=True)
class Ours:
    seconds: tuple[float, ...]
    llf: float


def long_cases(all_starts: bool = False) -> list[Case]:
    """Mixtures in the references with more than a thousand rows."""
    stored: list[Reference | GlmReference] = [*cases(), *glm_cases()]
    return [_case(ref, all_starts) for ref in stored if ref.n > 1000 and ref.k > 1]


def _case(ref: Reference | GlmReference, all_starts: bool) -> Case:
    gaussian = isinstance(ref, Reference)
    formula, family = (ref.formula, "gaussian") if gaussian else (ref.part.formula, ref.part.family)
    return Case(
        name=ref.case,
        data=ref.data(),
        formula=formula,
        k=ref.k,
        family=family,
        groups=ref.groups,
        choice_set=None if gaussian else ref.choice_set,
        starts=1 if family == "choice" and not all_starts else STARTS,
    )


def why_not() -> str | None:
    """Say what is missing to run flexmix, or None."""
    if shutil.which("Rscript") is None:
        return "Rscript is not on the path: install R to compare with flexmix"
    has_flexmix = 'quit(status = as.integer(!requireNamespace("flexmix", quietly = TRUE)))'
    if subprocess.run(["Rscript", "-e", has_flexmix], capture_output=True).returncode:
        return 'R has no package flexmix: install.packages("flexmix") in R'
    return None


def theirs(case: Case, runs: int = 1) -> list[Theirs]:
    """Run flexmix in a process of its own, with so many seeds."""
    with tempfile.TemporaryDirectory() as folder:
        file, script = Path(folder, "data.csv"), Path(folder, "fit.R")
        case.data.to_csv(file, index=False)
        script.write_text(_script(case, file, runs), encoding="utf-8")
        run = subprocess.run(["Rscript", str(script)], capture_output=True, text=True)
    found = [line.split() for line in run.stdout.splitlines() if line.startswith("result")]
    if run.returncode or not found:
        raise RuntimeError(f"flexmix failed on {case.name}: {run.stderr.strip()[-500:]}")
    return [Theirs(float(seconds), float(llf), int(k)) for _, seconds, llf, k in found]


def _script(case: Case, file: Path, runs: int) -> str:
    """Write the R lines; categories keep their order, so that both code them alike."""
    lines = []
    for column in case.data.select_dtypes("category"):
        levels = ", ".join(f'"{level}"' for level in case.data[column].cat.categories)
        lines.append(f"d${column} <- factor(d${column}, levels = c({levels}))")
    return SCRIPT.format(
        file=file.as_posix(),
        levels="\n".join(lines),
        formula=case.r_formula,
        k=case.k,
        starts=case.starts,
        runs=runs,
        model=MODELS[case.family].format(choice_set=case.choice_set),
    )


def ours(case: Case, repeats: int = REPEATS) -> Ours:
    """Fit with all defaults, a few times."""
    options = {"groups": case.groups}
    if case.family != "gaussian":
        options["family"] = case.family
    if case.choice_set is not None:
        options["choice_set"] = case.choice_set
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        results = MixReg.from_formula(case.formula, case.data, k=case.k, **options).fit()
        seconds.append(time.perf_counter() - begin)
    return Ours(tuple(seconds), float(results.llf))


def report(case: Case) -> None:
    """Print a line of the table; one broken fit must not end a long run."""
    line, notes, peer = f"{case.name:17s}{len(case.data):7,d}", [], None
    try:
        peer = theirs(case)[0]
        line += f"{peer.seconds:9.2f} s{peer.llf:12.3f}"
        if case.starts != STARTS:
            notes.append(f"flexmix: {case.starts} start")
        if peer.k != case.k:
            notes.append(f"flexmix: {peer.k} components left")
    except RuntimeError as failure:
        line += " " * 23
        notes.append(str(failure))
    try:
        own = ours(case)
        middle = float(np.median(own.seconds))
        line += f"{middle:8.3f} s [{min(own.seconds):.3f} {max(own.seconds):.3f}]{own.llf:12.3f}"
        line += f"{peer.seconds / middle:7.1f}" if peer else " " * 7
    except Exception as failure:
        notes.append(f"mixreg: {type(failure).__name__}: {failure}")
    print(line, *notes, sep="  ", flush=True)


def simulated_case(n: int, p: int, k: int) -> Case:
    """Mixed linear equations with noise, for one start."""
    data = mixed_linear_equations(n, p, k, noise=NOISE, seed=0)
    names = [f"x{i}" for i in range(1, p + 1)]
    table = pd.DataFrame(data.X, columns=names).assign(y=data.y)
    formula = f"y ~ 0 + {' + '.join(names)}"
    return Case(f"p={p}, k={k}", table, formula, k, "gaussian", None, None, 1)


def one_start(cases: list[Case], repeats: int = 9) -> None:
    """Print times of the default fit over those of one start of flexmix."""
    print(f"flexmix: median time of one start over {repeats} seeds [least, most], and the best of")
    print(f"their log-likelihoods; mixreg: median of {repeats} default fits [least, most];")
    print("ratio: mixreg over flexmix")
    print(f"{'case':17s}{'rows':>8s}{'flexmix':>10s}{'llf':>28s}{'mixreg':>10s}{'llf':>27s}  ratio")
    for case in cases:
        peers, own = theirs(case, repeats), ours(case, repeats)
        one = np.array([peer.seconds for peer in peers])
        ratio = np.median(own.seconds) / np.median(one)
        print(
            f"{case.name:17s}{len(case.data):8,d}{_times(one)}{max(p.llf for p in peers):13.3f}"
            f"{_times(np.array(own.seconds))}{own.llf:13.3f}{ratio:7.2f}",
            flush=True,
        )


def _times(seconds: np.ndarray) -> str:
    spread = f"[{seconds.min():.3f} {seconds.max():.3f}]"
    return f"{np.median(seconds):8.3f} s {spread:15s}"


def one_start_cases() -> list[Case]:
    """Simulated sets, and camera choices with three components."""
    camera = next(case for case in long_cases() if case.name == "camera_choice_k3")
    return [*(simulated_case(*size) for size in SIZES), camera]


def main(all_starts: bool = False, only_one_start: bool = False) -> None:
    missing = why_not()
    if missing is not None:
        print(missing)
        return
    warnings.simplefilter("ignore")
    if not only_one_start:
        ten_starts(all_starts)
        print()
    one_start(one_start_cases())


def ten_starts(all_starts: bool = False) -> None:
    """Print times of ten starts of flexmix over those of the default fit."""
    print(f"flexmix: seconds for {STARTS} starts and the best log-likelihood, default control;")
    print(f"mixreg: median of {REPEATS} default fits [least, most]; ratio: flexmix over mixreg")
    print(f"{'case':17s}{'rows':>7s}{'flexmix':>11s}{'llf':>12s}{'mixreg':>10s}{'llf':>26s}  ratio")
    for case in long_cases(all_starts):
        report(case)
