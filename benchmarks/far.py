"""Fits to Parquet files: memory, time and numbers against the same rows in memory."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

from benchmarks.peak import peak_memory
from mixreg import MixReg
from mixreg.sources.tasks import response_sizes

CHUNK = 250_000


def write_lines(path: Path, n: int, p: int, k: int, noise: float = 0.1, seed: int = 0) -> None:
    """Rows of k linear regressions, piece by piece."""
    rng = np.random.default_rng(seed)
    coef = rng.standard_normal((k, p))

    def make(first: int, rows: int) -> pd.DataFrame:
        x, labels = rng.standard_normal((rows, p)), rng.integers(0, k, rows)
        y = np.einsum("ij,ij->i", x, coef[labels]) + noise * rng.standard_normal(rows)
        return pd.DataFrame(x, columns=[f"x{i}" for i in range(p)]).assign(y=y)

    _write(path, n, make)


def write_counts(path: Path, n: int, p: int, k: int, groups: int, seed: int = 0) -> None:
    """Counts of customers, who each belong to one of k segments."""
    rng = np.random.default_rng(seed)
    coef, each = 0.4 * rng.standard_normal((k, p)), n // groups
    labels = rng.integers(0, k, groups)

    def make(first: int, rows: int) -> pd.DataFrame:
        store = (first + np.arange(rows)) // each
        x = rng.standard_normal((rows, p))
        x[:, 0] = 1.0
        y = rng.poisson(np.exp(np.einsum("ij,ij->i", x, coef[labels[store]])))
        columns = [f"x{i}" for i in range(1, p)]
        return pd.DataFrame(x[:, 1:], columns=columns).assign(y=y, store=store)

    _write(path, n, make)


def _write(path: Path, n: int, make: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for first in range(0, n, CHUNK):
        table = pa.Table.from_pandas(make(first, min(CHUNK, n - first)), preserve_index=False)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def formula(p: int, first: int = 0) -> str:
    return f"y ~ {'0 + ' if not first else ''}" + " + ".join(f"x{i}" for i in range(first, p))


def run(path: str, kind: str, text: str, k: str, options: str) -> None:
    """One fit, in a process of its own; prints what it took."""
    import pyarrow.parquet  # noqa: F401

    source = type(MixReg(np.arange(9.0), np.ones((9, 1)), k=1).source)
    data: Any = path
    if kind == "memory":
        data = pd.read_parquet(path)
    before = peak_memory()
    begin = time.perf_counter()
    model = MixReg.from_formula(text, data, k=int(k), **json.loads(options))
    declared = time.perf_counter()
    passes: list[float] = []
    _time_passes(source if kind == "memory" else type(model.source), model.nobs, passes)
    fitting = time.perf_counter()
    res = model.fit(progress=False)
    took = time.perf_counter()
    model.source.sweep(response_sizes)
    read = time.perf_counter() - took
    passes.pop()
    found = {
        "declare": declared - begin,
        "fit": took - fitting,
        "read": read,
        "peak": peak_memory() - before,
        "passes": passes,
        "llf": res.llf,
        "params": res.params.tolist(),
    }
    print(json.dumps(found))


def _time_passes(kind: type, rows: int, passes: list[float]) -> None:
    plain = kind.sweep  # type: ignore[attr-defined]

    def sweep(self: Any, task: Any, params: Any = None) -> Any:
        begin = time.perf_counter()
        found = plain(self, task, params)
        if self.rows == rows:
            passes.append(time.perf_counter() - begin)
        return found

    kind.sweep = sweep  # type: ignore[attr-defined]


def fitted(path: Path, kind: str, text: str, k: int, **options: Any) -> dict[str, Any]:
    """What a fit took in a process of its own."""
    code = "import sys; from benchmarks import far; far.run(*sys.argv[1:])"
    given = [str(path), kind, text, str(k), json.dumps(options)]
    done = subprocess.run(
        [sys.executable, "-c", code, *given],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def parquet(n: int, p: int, k: int) -> Iterator[tuple[str, float, str, float | None]]:
    """Linear regressions from Parquet, against the same rows in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_lines(path, n, p, k)
        memory = fitted(path, "memory", formula(p), k)
        far = fitted(path, "file", formula(p), k)
    what = f"{n:,} x {p}, k={k}, from Parquet"
    total = {name: each["declare"] + each["fit"] for name, each in (("m", memory), ("f", far))}
    apart = np.abs(np.subtract(far["params"], memory["params"])).max()
    took = f"{total['f']:.1f} s, {total['m']:.1f} s"
    yield f"{what}: time over memory", total["f"] / total["m"], took, 2.0
    yield "  seconds to read, and to fit", far["declare"], f"{far['fit']:.1f}", None
    again = f"{far['read']:.2f} s"
    yield "  to read over reading the scratch file", far["declare"] / far["read"], again, None
    yield "  peak memory above the import, MB", far["peak"], "", 1024.0
    yield "  largest difference of parameters", apart, "", 1e-8
    yield "  passes over all rows of the fit", len(far["passes"]), "", None


def counts(n: int, p: int, k: int, groups: int) -> Iterator[tuple[str, float, str, float | None]]:
    """Poisson regressions with groups, and a pass of them against a GLM of known labels."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.parquet"
        write_counts(path, n, p, k, groups)
        far = fitted(path, "file", formula(p, 1), k, family="poisson", groups="store")
        some = pd.read_parquet(path, filters=[("store", "<", groups // 10)])
    x = sm.add_constant(some[[f"x{i}" for i in range(1, p)]])
    begin = time.perf_counter()
    sm.GLM(some["y"], x, family=sm.families.Poisson()).fit()
    glm = 10 * (time.perf_counter() - begin)
    one = float(np.median(far["passes"]))
    what = f"Poisson, {n:,} x {p}, k={k}, {groups:,} groups"
    yield f"{what}: peak memory, MB", far["peak"], "", 1024.0
    yield "  seconds to read, and to fit", far["declare"], f"{far['fit']:.1f}", None
    yield "  a pass over a GLM of a tenth, times ten", one / glm, f"{one:.2f} s, {glm:.1f} s", None
    yield "  passes over all rows of the fit", len(far["passes"]), "", None
