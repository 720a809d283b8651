"""Speed and memory of the parts, as ratios within one run."""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context

import numpy as np
from tensorly.decomposition import symmetric_parafac_power_iteration
from threadpoolctl import threadpool_limits

from mixreg import MixReg, datasets
from mixreg.estimators import EM
from mixreg.families import Gaussian
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.power import robust_power_method
from mixreg.simulate import mixed_linear_equations, mixture_of_regressions
from mixreg.sources import MemorySource


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def power(k: int = 5) -> None:
    """Batched power method against TensorLy's, same tensor, same L and N."""
    starts, iterations = 200 * k**2, round(20 * np.log(k))
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.standard_normal((k, k)))[0]
    values = np.linspace(2.0, 3.0, k)
    tensor = np.einsum("j,ja,jb,jc->abc", values, vectors, vectors, vectors)
    noise = rng.standard_normal((k, k, k)) * 0.02
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    tensor += sum(noise.transpose(order) for order in orders) / 6
    ours: list[object] = []
    times = [
        seconds(lambda: ours.append(robust_power_method(tensor, k, starts, iterations, rng)))
        for _ in range(5)
    ]
    # TensorLy draws from the global state and says nothing of seeds.
    np.random.seed(0)  # noqa: NPY002
    theirs: list[object] = []
    slow = seconds(
        lambda: theirs.append(symmetric_parafac_power_iteration(tensor, k, starts, iterations))
    )
    weights, factors = theirs[0]
    overlap = np.abs(ours[0].vectors @ np.asarray(factors))
    print(f"power method, k={k}, L={starts}, N={iterations}")
    print(f"  batched {np.median(times):.4f} s (of 5), TensorLy {slow:.2f} s")
    print(f"  {slow / np.median(times):.0f} times faster")
    print(f"  components agree to {np.max(np.abs(overlap.max(axis=1) - 1)):.1e} (1 - cosine)")
    print(
        f"  eigenvalues differ by {np.max(np.abs(np.sort(ours[0].values) - np.sort(weights))):.1e}"
    )


def em_iteration(n: int = 400_000, p: int = 20, k: int = 5, repeats: int = 11) -> None:
    """One EM iteration against least squares with known labels."""
    print(f"one EM iteration, {n:,} x {p}, k={k}, against lstsq for each known component")
    for noise in (0.1, 0.5, 1.0):
        data = mixed_linear_equations(n, p, k, noise=noise, seed=0)
        source = MemorySource(data.X, data.y)
        start = Parameters.uniform(data.coefficients, noise**2).stacked()
        em = EM(Mixture(Gaussian()))

        def iteration(em=em, source=source, start=start) -> None:
            em.update(em.sweep(source, 0, start), start)

        def known_labels(data=data) -> None:
            for j in range(1, k + 1):
                rows = data.labels == j
                np.linalg.lstsq(data.X[rows], data.y[rows], rcond=None)

        pairs = np.array([(seconds(iteration), seconds(known_labels)) for _ in range(repeats)])
        low, mid, high = np.percentile(pairs[:, 0] / pairs[:, 1], [25, 50, 75])
        a, b = np.median(pairs, axis=0)
        print(
            f"  noise {noise}: EM {a:.3f} s, lstsq {b:.3f} s, ratio {mid:.2f} "
            f"[quartiles {low:.2f} {high:.2f}]",
            flush=True,
        )


def memory(n: int = 400_000, p: int = 20, k: int = 5) -> None:
    """Peak memory of a whole fit beyond the design matrix."""
    data = mixed_linear_equations(n, p, k, noise=0.5, seed=0)
    groups = np.repeat(np.arange(n // 8), 8)
    shuffled = np.random.default_rng(0).permutation(groups)
    for name, given in (("rows", None), ("groups of 8", groups), ("the same, shuffled", shuffled)):
        y = data.y
        if given is not None:
            y = mixture_of_regressions(
                data.X, data.coefficients, data.weights, 0.5, seed=0, groups=given
            ).y
        tracemalloc.start()
        model = MixReg(y, data.X, k=k, groups=given)
        before, declared = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        results = model.fit()
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        size = data.X.nbytes
        print(
            f"peak memory of fit, {n:,} x {p}, k={k}, {name}: {peak / size:.2f} copies of the "
            f"design (declaring the model: {declared / size:.2f}); {results.solution.run.reason}",
            flush=True,
        )


NMES = "visits ~ hospital + health + chronic + gender + school + insurance"


def counts(ks: tuple[int, ...] = (2, 3), repeats: int = 5) -> None:
    """Negative binomial against Poisson, whole default fits."""
    data = datasets.nmes1988()
    for k in ks:
        times = {
            family: [
                seconds(MixReg.from_formula(NMES, data, k=k, family=family).fit)
                for _ in range(repeats)
            ]
            for family in ("poisson", "negativebinomial")
        }
        one, other = (np.median(each) for each in times.values())
        print(
            f"health care demand, k={k}, median of {repeats} fits: Poisson {one:.3f} s, negative "
            f"binomial {other:.3f} s, ratio {other / one:.2f}",
            flush=True,
        )


def spin(started) -> None:
    """Keep one core busy."""
    matrix = np.random.default_rng(0).standard_normal((300, 300))
    with threadpool_limits(1):
        started.set()
        while True:
            matrix @ matrix


@contextmanager
def busy_core() -> Iterator[None]:
    """One core busy with something else."""
    context = get_context("spawn")
    started = context.Event()
    child = context.Process(target=spin, args=(started,), daemon=True)
    child.start()
    try:
        started.wait(60)
        yield
    finally:
        child.terminate()
        child.join()


def busy(n: int = 100_000, p: int = 20, k: int = 5, repeats: int = 5) -> None:
    """A whole fit with one core busy elsewhere, over the same on a quiet machine."""
    data = mixed_linear_equations(n, p, k, noise=0.3, seed=0)
    model = MixReg(data.y, data.X, k=k)
    model.fit()
    quiet = [seconds(model.fit) for _ in range(repeats)]
    with busy_core():
        loud = [seconds(model.fit) for _ in range(repeats)]
    one, other = np.median(quiet), np.median(loud)
    print(
        f"default fit, {n:,} x {p}, k={k}, median of {repeats}: quiet {one:.2f} s, one core busy "
        f"{other:.2f} s, ratio {other / one:.2f}",
        flush=True,
    )


def main(only_fits: bool = False) -> None:
    if not only_fits:
        power()
        em_iteration()
        memory()
    counts()
    busy()
