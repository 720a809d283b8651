"""Checkpoints: fits killed at random moments, and taken up by the same call."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

FORMULA = "y ~ " + " + ".join(f"x{i}" for i in range(1, 8))
CODE = "from benchmarks.checkpoint import fit; fit()"


def fit() -> None:
    """One fit in a process of its own: names of the checkpoint, of the end and of the table."""
    from mixreg import MixReg

    path, end, table, place = sys.argv[1:]
    data = table if place == "files" else pd.read_parquet(table)
    model = MixReg.from_formula(FORMULA, data, k=5)
    res = model.fit(checkpoint=None if path == "none" else path)
    search = res.fitted.search
    assert search is not None
    np.savez(
        end,
        params=res.params,
        bse=res.bse,
        history=res.history,
        posterior=res.posterior,
        llf=res.llf,
        heights=search.heights,
        counts=[*search.hits, search.starts, search.moves, search.accepted, *search.levels],
    )


def write(table: Path, rows: int) -> None:
    """Rows of five planes with much noise, on which a search takes its time."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 7))
    coef, label = rng.standard_normal((5, 8)), rng.integers(0, 5, rows)
    y = coef[label, 0] + (x * coef[label, 1:]).sum(axis=1) + 1.5 * rng.standard_normal(rows)
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(1, 8)]).assign(y=y)
    frame.to_parquet(table, row_group_size=10_000)


def start(path: Path | None, end: Path, table: Path, place: str) -> subprocess.Popen[bytes]:
    """Begin a fit, or go on with it."""
    command = [sys.executable, "-c", CODE, str(path or "none"), str(end), str(table), place]
    return subprocess.Popen(command, cwd=Path(__file__).parents[1])


def kill_after(seconds: float, run: subprocess.Popen[bytes]) -> bool:
    """Let a fit run for a while, then kill it; whether it had not ended before."""
    try:
        run.wait(seconds)
    except subprocess.TimeoutExpired:
        run.kill()
    return run.wait() != 0


def written(path: Path) -> int:
    """When a checkpoint was last written; 0 before it is."""
    return path.stat().st_mtime_ns if path.exists() else 0


def agree(one: Path, other: Path) -> bool:
    """Whether two ends are the same in all numbers, to the last bit."""
    a, b = np.load(one), np.load(other)
    return all(np.array_equal(a[name], b[name]) for name in a.files)


def main(kills: int = 20, rows: int = 60_000) -> None:
    """Kill fits, go on, and compare them with one that was left alone."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        write(table, rows)
        for place in ("memory", "files"):
            killed_and_taken_up(Path(folder), table, place, kills, rows)


def killed_and_taken_up(folder: Path, table: Path, place: str, kills: int, rows: int) -> None:
    """Fits to rows in memory, or in files."""
    rng = np.random.default_rng(0)
    whole, path, end = (folder / f"{place}-{name}" for name in ("whole.npz", "ckpt", "end.npz"))
    begin = time.perf_counter()
    start(None, whole, table, place).wait()
    seconds = time.perf_counter() - begin
    good = killed = kept = 0
    while killed < kills:
        path.unlink(missing_ok=True)
        moment = rng.uniform(0, seconds)
        if not kill_after(moment, start(path, end, table, place)):
            # The machine was less busy than before.
            seconds = moment
            continue
        killed, kept = killed + 1, kept + path.exists()
        begin = time.perf_counter()
        start(path, end, table, place).wait()
        took = time.perf_counter() - begin
        print(f"killed after {moment:.1f} s, taken up for {took:.1f} s", flush=True)
        good += agree(whole, end)
    print(
        f"checkpoint: a fit of {rows:,} rows in {place} killed {killed} times, {kept} with a file; "
        f"{good} ended the same to the bit"
    )
