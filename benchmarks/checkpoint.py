"""Checkpoints: fits killed at random moments, and taken up by the same call."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CODE = "from benchmarks.checkpoint import fit; fit()"


def fit() -> None:
    """One fit in a process of its own: names of the checkpoint and of the end, rows."""
    from mixreg import MixReg

    path, end, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(rows), rng.standard_normal((rows, 7))])
    coef, label = rng.standard_normal((5, 8)), rng.integers(0, 5, rows)
    y = (x * coef[label]).sum(axis=1) + 1.5 * rng.standard_normal(rows)
    res = MixReg(y, x, k=5).fit(checkpoint=None if path == "none" else path)
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


def start(path: Path | None, end: Path, rows: int) -> subprocess.Popen[bytes]:
    """Begin a fit, or go on with it."""
    command = [sys.executable, "-c", CODE, str(path or "none"), str(end), str(rows)]
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
    """Kill a fit, go on, and compare it with one that was left alone."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        whole, path, end = (Path(folder) / name for name in ("whole.npz", "fit.ckpt", "end.npz"))
        begin = time.perf_counter()
        start(None, whole, rows).wait()
        seconds = time.perf_counter() - begin
        good = killed = kept = 0
        while killed < kills:
            path.unlink(missing_ok=True)
            moment = rng.uniform(0, seconds)
            if not kill_after(moment, start(path, end, rows)):
                # The machine was less busy than before.
                seconds = moment
                continue
            killed, kept = killed + 1, kept + path.exists()
            begin = time.perf_counter()
            start(path, end, rows).wait()
            took = time.perf_counter() - begin
            print(f"killed after {moment:.1f} s, taken up for {took:.1f} s", flush=True)
            good += agree(whole, end)
    print(
        f"checkpoint: a fit of {rows:,} rows killed {killed} times, {kept} with a file; "
        f"{good} ended the same to the bit"
    )
