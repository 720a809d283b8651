"""Does the log-likelihood ever fall with k? It cannot at the maxima."""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.small_sets import real, real_names, simulated
from mixreg import select_k

# A fall by more than this, relative, is one.
FALL = 1e-6
SIMULATED = 10


def falls(llf: np.ndarray) -> np.ndarray:
    """By how much each log-likelihood is below that of one component less."""
    return np.maximum(llf[:-1] - llf[1:], 0.0)


def main(trials: int = 30, most: int = 5) -> None:
    """`trials` limits the sets, simulated ones first."""
    names = [*range(SIMULATED), *real_names()][:trials]
    print(f"select_k, k = 1 to {most}: sets whose log-likelihood falls with k")
    print("suspect: the k at which chance may explain a component of the fit")
    print(f"{'set':17s}{'rows':>8s}   largest fall   chosen k   suspect")
    fell = 0
    for name in names:
        case = simulated(name)[0] if isinstance(name, int) else real(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen = select_k(case.formula, case.data, range(1, most + 1), **case.options)
        llf = chosen.table["llf"].to_numpy()
        deep = falls(llf)
        fell += bool((deep > FALL * np.abs(llf[:-1])).any())
        doubtful = [str(k) for k, res in chosen.results.items() if res.solution.suspects]
        print(
            f"{case.name:17s}{len(case.data):8,d}{deep.max():15.4g}{chosen.best_k:11d}"
            f"   {', '.join(doubtful) or '-'}",
            flush=True,
        )
    print(f"falls by more than {FALL:g} of the log-likelihood: {fell} of {len(names)} sets")
