"""One trial of each of the paper's experiments.

Workers import this module; what it does is part of the key under which
results are kept.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper_grid import Point
from mixreg import MixReg, MixRegResults, TensorStart
from mixreg.estimators import AltMin, Control
from mixreg.families import Gaussian
from mixreg.metrics import estimation_error
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.tensor import start_from, tensor_results
from mixreg.simulate import MixedLinearEquations, mixed_linear_equations
from mixreg.sources import MemorySource

# The paper's T.
MAX_ITER = 200
# An error below this is exact recovery: failures are larger than 0.01 and
# recovered coefficients differ by rounding.
RECOVERED = 1e-6


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one trial.

    Attributes
    ----------
    point : Point
    number : int
    errors : tuple of float
        Estimation error at each iteration of a trace, or at the end only.
        Empty if the fit raised an exception.
    stopped : str
        Why the iteration stopped, or the exception.
    seconds : float
        Time of the fit.
    """

    point: Point
    number: int
    errors: tuple[float, ...]
    stopped: str
    seconds: float

    @property
    def recovered(self) -> bool:
        """Whether the trial ended at the truth."""
        return bool(self.errors) and self.errors[-1] < RECOVERED


def run_trials(point: Point, numbers: Sequence[int]) -> list[Trial]:
    """Run some trials of a point."""
    run = _trace if point.figure == "trace" else _recovery
    with warnings.catch_warnings():
        # Fits from too few rows are expected to warn.
        warnings.simplefilter("ignore")
        return [run(point, number) for number in numbers]


def draw(point: Point, number: int) -> MixedLinearEquations:
    """Draw a trial's data, the same for every method."""
    rng = np.random.default_rng([point.k, point.p, point.n, number])
    return mixed_linear_equations(point.n, point.p, point.k, seed=rng)


def _published(data: MixedLinearEquations, k: int) -> MixRegResults:
    """Tensor start with L = 200 k^2 and N = 20 log k, then AltMin on the same rows."""
    model = MixReg(data.y, data.X, k=k)
    return model.fit(method="altmin", init="tensor", max_iter=MAX_ITER, cov_type="none")


def _default(data: MixedLinearEquations, k: int) -> MixRegResults:
    return MixReg(data.y, data.X, k=k).fit()


FITS = {"published": _published, "default": _default}


def _recovery(point: Point, number: int) -> Trial:
    data = draw(point, number)
    began = time.perf_counter()
    try:
        results = FITS[point.method](data, point.k)
        seconds = time.perf_counter() - began
        error = estimation_error(results.coefficients.to_numpy().T, data.coefficients)
    except Exception as failure:
        # One broken fit must not end a long run; the report counts them.
        seconds = time.perf_counter() - began
        return Trial(point, number, (), f"{type(failure).__name__}: {failure}", seconds)
    return Trial(point, number, (error,), "", seconds)


def _trace(point: Point, number: int) -> Trial:
    """AltMin step by step, on the columns as they were drawn."""
    data = draw(point, number)
    source = MemorySource(data.X, data.y)
    rng = np.random.default_rng([point.k, point.p, point.n, number, 1])
    began = time.perf_counter()
    first = _tensor_start if point.method == "tensor" else _random_start
    params = first(source, point.k, rng).stacked()
    altmin, control, before = AltMin(Mixture(Gaussian())), Control(MAX_ITER), None
    errors: list[float] = []
    stopped = "max_iter"
    for iteration in range(MAX_ITER + 1):
        errors.append(estimation_error(params.coef[:, 0], data.coefficients))
        sums = altmin.sweep(source, iteration, params)
        reason = altmin.finished(sums, before, control)[0]
        if reason is not None:
            stopped = reason
            break
        params, before = altmin.update(sums, params), sums
    return Trial(point, number, tuple(errors), stopped, time.perf_counter() - began)


def _tensor_start(source: MemorySource, k: int, rng: np.random.Generator) -> Parameters:
    result = tensor_results(source, False, k, TensorStart(), rng)[0]
    return start_from(result, k, 1.0, rng)


def _random_start(source: MemorySource, k: int, rng: np.random.Generator) -> Parameters:
    """Draw unit vectors in uniformly random directions."""
    coef: NDArray[np.float64] = rng.standard_normal((k, source.x.shape[1]))
    coef /= np.linalg.norm(coef, axis=1, keepdims=True)
    return Parameters(coef, np.ones(k), np.full((k, 1), -np.log(k)))
