"""Peak memory of a default fit beyond the user's own data, in copies of the design."""

import tracemalloc
from multiprocessing import get_context

import numpy as np
import pandas as pd

from mixreg import MixReg

# Size of the coefficients, and noise: planes that are apart, and planes that overlap so much that
# starts on a sample disagree and the search looks at many rows.
KINDS = {"apart": (2.0, 0.5), "overlapping": (0.4, 1.0)}


def draw(rows: int, columns: int, k: int, planes: str = "apart") -> tuple[np.ndarray, np.ndarray]:
    """Regressors with a constant, and responses of k planes."""
    size, noise = KINDS[planes]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns))
    x[:, 0] = 1.0
    coef = size * rng.standard_normal((k, columns))
    y = np.einsum("np,np->n", x, coef[rng.integers(0, k, rows)])
    return x, y + noise * rng.standard_normal(rows)


def peak(kind: str, rows: int, columns: int, k: int, planes: str) -> tuple[float, float]:
    """Peak of declaring and of fitting, in copies of the design; for a fresh process."""
    x, y = draw(rows, columns, k, planes)
    design = x.nbytes
    names = [f"x{i}" for i in range(1, columns)]
    frame = pd.DataFrame(x[:, 1:], columns=names).assign(y=y)
    if kind == "formula":
        del x
    tracemalloc.start()
    if kind == "formula":
        model = MixReg.from_formula("y ~ " + " + ".join(names), frame, k=k)
    else:
        model = MixReg(y, x, k=k)
    declared = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    model.fit()
    return declared / design, tracemalloc.get_traced_memory()[1] / design


def main(rows: int = 400_000, columns: int = 20, k: int = 5) -> None:
    print(
        f"peak memory beyond the user's own data, {rows:,} x {columns}, k={k}, copies of the design"
    )
    for planes in KINDS:
        for kind in ("arrays", "formula"):
            with get_context("spawn").Pool(1) as pool:
                declared, fitted = pool.apply(peak, (kind, rows, columns, k, planes))
            print(f"  {planes:12} {kind:8} declaring {declared:.2f}, fitting {fitted:.2f}")
