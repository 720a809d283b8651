"""The numbers behind the paper's figures, as tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.paper_grid import METHODS, Panel, Point
from benchmarks.paper_trials import Trial

Results = dict[Point, list[Trial]]

# Recovery at which a sample is called large enough.
ENOUGH = 0.95


def rate_table(panels: tuple[Panel, ...], results: Results) -> pd.DataFrame:
    """Recovery rates, one row for each cell and method."""
    rows = []
    for panel in panels:
        for method in METHODS:
            for value in panel.values:
                for ratio in panel.ratios:
                    k, p, n = panel.size(value, ratio)
                    trials = results.get(Point("recovery", method, k, p, n))
                    if trials:
                        cell = {"panel": panel.letter, "method": method, "ratio": ratio}
                        rows.append(cell | {"k": k, "p": p, "n": n} | _summary(trials))
    return pd.DataFrame(rows)


def _summary(trials: list[Trial]) -> dict[str, float]:
    count = len(trials)
    recovered = sum(trial.recovered for trial in trials)
    rate = recovered / count
    return {
        "trials": count,
        "recovered": recovered,
        "rate": rate,
        "std_error": round(float(np.sqrt(rate * (1 - rate) / count)), 4),
        "seconds": round(float(np.mean([trial.seconds for trial in trials])), 4),
    }


def rate_grid(panel: Panel, method: str, rates: pd.DataFrame) -> pd.DataFrame:
    """Rates of a panel, sample sizes x what varies; missing where n <= k p."""
    cells = rates[(rates["panel"] == panel.letter) & (rates["method"] == method)]
    grid = cells.pivot(index="ratio", columns=panel.varies, values="rate")
    return grid.reindex(index=list(panel.ratios), columns=list(panel.values))


def trace_table(results: Results) -> pd.DataFrame:
    """Traces, one row for each trial, errors in one cell with three digits."""
    rows = []
    for point, trials in results.items():
        if point.figure != "trace":
            continue
        for trial in trials:
            rows.append(
                {
                    "k": point.k,
                    "p": point.p,
                    "n": point.n,
                    "start": point.method,
                    "trial": trial.number,
                    "iterations": len(trial.errors) - 1,
                    "stopped": trial.stopped,
                    "recovered": int(trial.recovered),
                    "errors": " ".join(f"{error:.2e}" for error in trial.errors),
                }
            )
    return pd.DataFrame(rows)


def trace_text(traces: pd.DataFrame) -> str:
    """Recovery and iterations by start."""
    groups = traces.groupby(["k", "p", "n", "start"])
    table = groups.agg(
        trials=("trial", "size"),
        recovered=("recovered", "sum"),
        median_iter=("iterations", "median"),
    )
    return f"Traces: trials that reached the truth\n\n{table.reset_index().to_string(index=False)}"


def rate_text(panels: tuple[Panel, ...], rates: pd.DataFrame) -> str:
    """Rates in percent, then what the paper's line gives and what is enough."""
    parts = []
    for panel in panels:
        for method in METHODS:
            grid = rate_grid(panel, method, rates)
            percent = grid.map(lambda rate: "-" if np.isnan(rate) else f"{100 * rate:.0f}")
            percent.index.name = f"n/{panel.unit}"
            other = "k" if panel.varies == "p" else "p"
            title = f"({panel.letter}) {method}, {other} = {panel.fixed}: recovered, in percent"
            parts.append(f"{title}\n\n{percent.to_string()}")
        parts.append(_enough_text(panel, rates))
    parts += [_line_text(panel, rates) for panel in panels]
    return "\n\n".join(parts)


def _enough_text(panel: Panel, rates: pd.DataFrame) -> str:
    """Smallest sample size from which on the rate stays high enough."""
    columns = {}
    for method in METHODS:
        # Sizes with no more rows than unknowns were not run, and are not enough.
        good = rate_grid(panel, method, rates).fillna(0.0) >= ENOUGH
        stays = good.iloc[::-1].cummin().iloc[::-1]
        columns[method] = stays.apply(lambda c: f"{c.idxmax():g}" if c.any() else "-")
    table = pd.DataFrame(columns).T
    title = f"({panel.letter}) n/{panel.unit} from which at least {ENOUGH:.0%} are recovered"
    return f"{title}\n\n{table.to_string()}"


def _line_text(panel: Panel, rates: pd.DataFrame) -> str:
    """Rates on the paper's dashed line, with binomial standard errors."""
    lines = [f"On the line n = {panel.line}{panel.unit}:"]
    here = rates[(rates["panel"] == panel.letter) & (rates["ratio"] == panel.line)]
    for method in METHODS:
        cells = here[here["method"] == method]
        trials, rate = cells["trials"].sum(), cells["recovered"].sum() / cells["trials"].sum()
        error = np.sqrt(rate * (1 - rate) / trials)
        each = ", ".join(
            f"{panel.varies}={value} {r:.2f} ({se:.2f})"
            for value, r, se in zip(
                cells[panel.varies], cells["rate"], cells["std_error"], strict=True
            )
        )
        lines.append(f"  {method}: {rate:.3f} (s.e. {error:.3f}, {trials} trials); {each}")
    return "\n".join(lines)


def failures(results: Results) -> list[Trial]:
    """Trials in which a fit raised an exception."""
    return [trial for trials in results.values() for trial in trials if not trial.errors]
