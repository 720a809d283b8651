"""Certificates on designs that tempt to false ones, and on the paper's designs."""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from mixreg import MixReg
from mixreg.metrics import estimation_error
from mixreg.simulate import mixed_linear_equations

Array = NDArray[np.float64]

# Largest error of coefficients that counts as recovery.
RECOVERED = 1e-6
# k, p, n of the paper's kind.
PAPER = [(3, 10, 80), (3, 10, 100), *((k, 10, round(1.5 * k**3)) for k in (5, 6, 8, 10))]


@dataclass(frozen=True)
class Case:
    """Rows without noise. If other components fit them too, any certificate is false."""

    x: Array
    labels: NDArray[np.intp]
    coef: Array
    several: bool = False

    @property
    def y(self) -> Array:
        return np.einsum("ij,ij->i", self.x, self.coef[self.labels])


def _dummies(codes: NDArray[np.intp]) -> Array:
    return (codes[:, None] == np.arange(1, codes.max() + 1)).astype(float)


def _drawn(rng: np.random.Generator, x: Array, k: int, whole: bool = False) -> Case:
    """Labels at random, coefficients at random, whole numbers if asked for."""
    coef = rng.standard_normal((k, x.shape[1]))
    coef = rng.integers(-3, 4, coef.shape).astype(float) if whole else coef
    return Case(x, rng.integers(0, k, len(x)), coef)


def rare_category(rng: np.random.Generator) -> Case:
    """A level that a handful of rows have; each component has one of them, or none."""
    n, k = int(rng.integers(40, 200)), int(rng.integers(2, 4))
    few = int(rng.integers(1, k + 1))
    rare = np.zeros(n)
    rare[:few] = 1.0
    case = _drawn(rng, np.column_stack([np.ones(n), rng.standard_normal(n), rare]), k)
    # One row of a level can be on any component: the others trade.
    labels = case.labels.copy()
    labels[:few] = rng.permutation(k)[:few]
    return Case(case.x, labels, case.coef, several=True)


def one_sided_category(rng: np.random.Generator) -> Case:
    """A level that only one component has."""
    n, k = int(rng.integers(60, 300)), int(rng.integers(2, 4))
    codes = rng.integers(0, 3, n)
    columns = rng.standard_normal((n, int(rng.integers(1, 3))))
    case = _drawn(rng, np.column_stack([np.ones(n), columns, _dummies(codes)]), k)
    return Case(case.x, np.where(codes == 2, 0, case.labels), case.coef, several=True)


def label_is_a_dummy(rng: np.random.Generator) -> Case:
    """The component is a column of the design."""
    n = int(rng.integers(40, 200))
    labels = rng.integers(0, 2, n)
    x = np.column_stack([np.ones(n), rng.standard_normal((n, 2)), labels.astype(float)])
    return Case(x, labels, rng.standard_normal((2, 4)), several=True)


def lattice(rng: np.random.Generator) -> Case:
    """Whole numbers on both sides."""
    n, k, q = int(rng.integers(20, 400)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    x = rng.integers(0, int(rng.integers(2, 12)), (n, q)).astype(float)
    return _drawn(rng, np.column_stack([np.ones(n), x]), k, whole=True)


def factorial(rng: np.random.Generator) -> Case:
    """All combinations of a few levels, replicated."""
    q, width, k = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(2, 4))
    grid = np.stack(np.meshgrid(*[np.arange(width)] * q), axis=-1).reshape(-1, q)
    x = np.repeat(grid, int(rng.integers(1, 5)), axis=0).astype(float)
    return _drawn(rng, np.column_stack([np.ones(len(x)), x]), k, bool(rng.integers(2)))


def duplicates(rng: np.random.Generator) -> Case:
    """A few distinct rows, many times over; so few that components are a choice."""
    k, q = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    base = np.column_stack([np.ones(q + 1), rng.standard_normal((q + 1, q))])
    times = int(rng.integers(10, 40))
    x = np.repeat(base, times, axis=0)
    case = _drawn(rng, x, k)
    return Case(x, np.tile(np.arange(times) % k, q + 1), case.coef, several=True)


def replicates(rng: np.random.Generator) -> Case:
    """Continuous rows, each of them several times."""
    n, k, q = int(rng.integers(10, 60)), int(rng.integers(2, 4)), int(rng.integers(1, 5))
    base = np.column_stack([np.ones(n), rng.standard_normal((n, q))])
    return _drawn(rng, np.repeat(base, 5, axis=0), k)


def parallel_in_cells(rng: np.random.Generator) -> Case:
    """Components that differ by constants can trade places between categories."""
    n = int(rng.integers(80, 300))
    codes = rng.integers(0, int(rng.integers(2, 4)), n)
    x = np.column_stack([np.ones(n), rng.standard_normal(n), _dummies(codes)])
    coef = np.tile(rng.standard_normal(x.shape[1]), (2, 1))
    coef[1, 0] += 1.0
    coef[1, 2:] += rng.standard_normal(x.shape[1] - 2)
    return Case(x, rng.integers(0, 2, n), coef, several=True)


def saturated_cells(rng: np.random.Generator) -> Case:
    """Categories and their interaction: every cell has a mean of its own."""
    n, k = int(rng.integers(60, 200)), int(rng.integers(2, 4))
    a, b = rng.integers(0, 2, (2, n)).astype(float)
    case = _drawn(rng, np.column_stack([np.ones(n), a, b, a * b]), k)
    return Case(case.x, case.labels, case.coef, several=True)


def slopes_in_cells(rng: np.random.Generator) -> Case:
    """Slopes of their own in every category: nothing connects the cells."""
    n = int(rng.integers(80, 300))
    g = rng.integers(0, 2, n).astype(float)
    v = rng.standard_normal(n)
    x = np.column_stack([np.ones(n), g, v, v * g])
    return Case(x, rng.integers(0, 2, n), rng.standard_normal((2, 4)), several=True)


def category_and_slopes(rng: np.random.Generator) -> Case:
    """A category and continuous columns; cells may be small."""
    n, k = int(rng.integers(40, 400)), int(rng.integers(2, 4))
    codes = rng.integers(0, int(rng.integers(2, 6)), n)
    columns = rng.standard_normal((n, int(rng.integers(1, 4))))
    return _drawn(rng, np.column_stack([np.ones(n), columns, _dummies(codes)]), k)


def folded(rng: np.random.Generator) -> Case:
    """A column and its absolute value: components that meet at zero trade their halves."""
    n = int(rng.integers(60, 300))
    v = rng.standard_normal(n)
    x = np.column_stack([np.ones(n), v, np.abs(v)])
    coef = rng.standard_normal((2, 3))
    coef[1, 0] = coef[0, 0]
    return Case(x, rng.integers(0, 2, n), coef, several=True)


def hidden_dummy(rng: np.random.Generator) -> Case:
    """Two continuous columns whose difference is a dummy; components are parallel."""
    n = int(rng.integers(60, 300))
    v, g = rng.standard_normal(n), rng.integers(0, 2, n).astype(float)
    x = np.column_stack([np.ones(n), v, v + g])
    coef = np.array([[0.0, 1.0, 1.0], [1.0, 1.5, 0.5]]) + rng.standard_normal(3)
    return Case(x, rng.integers(0, 2, n), coef, several=True)


def too_many(rng: np.random.Generator) -> Case:
    """One component more than there are."""
    case = replicates(rng)
    labels = np.minimum(case.labels, len(case.coef) - 2)
    return Case(case.x, labels, case.coef, several=True)


DESIGNS: list[Callable[[np.random.Generator], Case]] = [
    rare_category,
    one_sided_category,
    label_is_a_dummy,
    lattice,
    factorial,
    duplicates,
    replicates,
    parallel_in_cells,
    saturated_cells,
    slopes_in_cells,
    category_and_slopes,
    folded,
    hidden_dummy,
    too_many,
]


def draw_case(seed: int) -> tuple[str, Case]:
    """An adversarial design; the kinds take turns. Columns are kept independent."""
    rng = np.random.default_rng(seed)
    design = DESIGNS[seed % len(DESIGNS)]
    while True:
        case = design(rng)
        if _usable(case):
            return design.__name__, case


def _usable(case: Case) -> bool:
    """Whether the model takes these rows: it wants full rank, and enough distinct ones."""
    distinct = len(np.unique(np.column_stack([case.x, case.y]).round(9), axis=0))
    full = np.linalg.matrix_rank(case.x) == case.x.shape[1]
    return full and distinct >= case.coef.size and np.ptp(case.y) > 0


def fit_case(case: Case, seed: int):
    """Fit from the true components or by a short search, in turn."""
    model = MixReg(case.y, case.x, k=len(case.coef))
    init = case.coef if seed // len(DESIGNS) % 2 else "auto"
    return model.fit(init=init, n_init=2, cov_type="none", seed=seed)


def is_false(case: Case, res, tries: int = 5) -> bool:
    """Whether a certificate is false: not the truth, or not the only exact fit."""
    if case.several or estimation_error(res.coefficients.to_numpy().T, case.coef) > RECOVERED:
        return True
    for seed in range(tries):
        other = res.model.fit("altmin", "random", seed=seed, cov_type="none")
        error = estimation_error(other.coefficients.to_numpy().T, case.coef)
        if other.solution.exact and error > RECOVERED:
            return True
    return False


def paper(trials: int) -> None:
    print("\nThe paper's designs\n   k   p     n  certified  recovered")
    for k, p, n in PAPER:
        certified = recovered = 0
        for seed in tqdm(range(trials), leave=False):
            data = mixed_linear_equations(n, p, k, seed=seed)
            res = MixReg(data.y, data.X, k=k).fit(init=data.coefficients, cov_type="none")
            certified += res.solution.certified
            error = estimation_error(res.coefficients.to_numpy().T, data.coefficients)
            recovered += error < RECOVERED
        print(f"{k:4d}{p:4d}{n:6d}{certified:11d}{recovered:11d}", flush=True)


def adversarial(trials: int) -> None:
    exact, certified, false = Counter[str](), Counter[str](), Counter[str]()
    for seed in tqdm(range(trials), leave=False):
        name, case = draw_case(seed)
        res = fit_case(case, seed)
        exact[name] += res.solution.exact
        certified[name] += res.solution.certified
        false[name] += res.solution.certified and is_false(case, res)
    print(f"Certificates on {trials} adversarial designs without noise")
    print(f"{'design':24s}{'exact':>8s}{'certified':>11s}{'false':>7s}")
    for design in DESIGNS:
        name = design.__name__
        print(f"{name:24s}{exact[name]:8d}{certified[name]:11d}{false[name]:7d}")
    print(f"{'all':24s}{exact.total():8d}{certified.total():11d}{false.total():7d}")


def main(trials: int = 1000) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adversarial(trials)
        paper(max(1, trials // 20))


if __name__ == "__main__":
    main()
