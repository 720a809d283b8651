"""Redraw the figures of the paper: `python -m benchmarks.paper`.

Yi, X., Caramanis, C. and Sanghavi, S. (2016). Solving a mixture of many random
linear equations by tensor decomposition and alternating minimization.
arXiv:1608.05749.

Figure 1 follows AltMin from random and from tensor starts; figure 2 counts how
often the truth is recovered, by the published method and by the package's
default. Results are kept trial by trial, so a run that was stopped goes on
where it was.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import paper_grid as grid
from benchmarks import paper_store as store
from benchmarks import paper_tables as tables

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "figures"
FIGURES: dict[int, tuple[grid.Figure, ...]] = {1: ("trace",), 2: ("recovery",)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    options = _parser().parse_args(arguments)
    if options.docs and options.quick:
        print("--docs shows the full grid; run it without --quick", file=sys.stderr)
        return 2
    plan = _plan(options)
    figures = FIGURES.get(options.figure, ("trace", "recovery"))
    options.out.mkdir(parents=True, exist_ok=True)
    kept = store.Store(options.out / "paper_trials.jsonl", store.code_key())
    if options.fresh:
        kept.path.unlink(missing_ok=True)
    began = time.perf_counter()
    try:
        results = store.complete(plan, plan.points(figures), kept, options.jobs)
    except KeyboardInterrupt:
        print(f"\nstopped; the same command goes on from {kept.path}", file=sys.stderr)
        return 130
    files = _write(plan, figures, results, options.out)
    print(f"\n{time.perf_counter() - began:.0f} s; wrote {', '.join(map(str, files))}")
    if options.docs:
        DOCS.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, DOCS / file.name)
        print(f"copied to {DOCS}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="few trials, small grid: two minutes")
    parser.add_argument("--fresh", action="store_true", help="forget the results kept so far")
    parser.add_argument("--figure", type=int, choices=(1, 2), help="only this figure")
    parser.add_argument("--trials", type=_positive, help="trials a point (50 and 100)")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count(), help="worker processes")
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder for the results")
    parser.add_argument("--docs", action="store_true", help="copy the results to docs/figures")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; got {value}")
    return value


def _plan(options: argparse.Namespace) -> grid.Plan:
    plan = grid.QUICK if options.quick else grid.FULL
    if options.trials is None:
        return plan
    return replace(plan, trace_trials=options.trials, recovery_trials=options.trials)


def _write(
    plan: grid.Plan, figures: Sequence[grid.Figure], results: tables.Results, out: Path
) -> list[Path]:
    """Print the tables; write figures and numbers."""
    # Workers import this module too, and need no figures.
    from benchmarks import paper_plots as plots

    files = []
    if "trace" in figures:
        traces = tables.trace_table(results)
        traces.to_csv(out / "paper_trace.csv", index=False)
        plots.draw_traces(results, out / "paper_trace.png")
        print(f"\n{tables.trace_text(traces)}")
        files += [out / "paper_trace.png", out / "paper_trace.csv"]
    if "recovery" in figures:
        rates = tables.rate_table(plan.panels, results)
        rates.to_csv(out / "paper_recovery.csv", index=False)
        plots.draw_recovery(plan.panels, rates, out / "paper_recovery.png")
        print(f"\n{tables.rate_text(plan.panels, rates)}")
        files += [out / "paper_recovery.png", out / "paper_recovery.csv"]
    broken = tables.failures(results)
    if broken:
        print(f"\n{len(broken)} fits raised an exception; the first: {broken[0].stopped}")
    return files


if __name__ == "__main__":
    sys.exit(main())
