"""Many regressors and segments of different size: `python -m benchmarks imbalanced`.

Settings are those of Zilber and Nadler (2023), whose Mix-IRLS is the peer: standard normal
regressors and coefficients, noise 0.01; outliers are normal with the response's deviation. A fit
recovers if no segment's coefficients are farther from the truth than twice as far as least
squares on the rows that are its own. Times are medians of processor seconds with one thread of
linear algebra; mixreg's are whole default fits, with standard errors.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from benchmarks.mix_irls import mix_irls
from mixreg import MixReg

NOISE = 0.01
UNEVEN, EVEN, FOUR = (0.7, 0.2, 0.1), (1 / 3, 1 / 3, 1 / 3), (0.4, 0.3, 0.2, 0.1)


@dataclass(frozen=True)
class Setting:
    d: int
    shares: tuple[float, ...]
    n: int
    outliers: float = 0.0

    @property
    def k(self) -> int:
        return len(self.shares)

    @property
    def name(self) -> str:
        shares = (
            "even" if len(set(self.shares)) == 1 else "/".join(f"{s:g}"[1:] for s in self.shares)
        )
        more = f"+{self.outliers:.0%}" if self.outliers else ""
        return f"{self.d}:{shares}:{self.n}{more}"


SETTINGS = [
    *(Setting(100, UNEVEN, n) for n in (2000, 1500, 1200)),
    Setting(100, UNEVEN, 2500, 0.05),
    Setting(100, FOUR, 1900),
    *(Setting(100, EVEN, n) for n in (1500, 1200, 1000)),
    *(Setting(300, shares, 900 * times) for shares in (EVEN, UNEVEN) for times in (4, 8, 12)),
]


def draw(setting: Setting, seed: int):
    """Regressors, response, labels (-1 for outliers) and coefficients of a data set."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((setting.n, setting.d))
    betas = rng.standard_normal((setting.k, setting.d))
    labels = rng.choice(setting.k, setting.n, p=setting.shares)
    y = np.einsum("ij,ij->i", X, betas[labels]) + NOISE * rng.standard_normal(setting.n)
    bad = rng.permutation(setting.n)[: round(setting.outliers * setting.n)]
    y[bad], labels[bad] = y.std() * rng.standard_normal(len(bad)), -1
    return X, y, labels, betas


def error(found, betas) -> float:
    """Largest distance of a segment's coefficients from the truth."""
    if found is None or not np.all(np.isfinite(found)):
        return np.inf
    far = np.linalg.norm(found[:, None] - betas, axis=2)
    return float(far[linear_sum_assignment(far)].max())


def of_labels(X, y, labels, betas) -> float:
    """The same of least squares on each segment's own rows."""
    own = [
        np.linalg.lstsq(X[labels == j], y[labels == j], rcond=None)[0] for j in range(len(betas))
    ]
    return float(np.linalg.norm(np.array(own) - betas, axis=1).max())


def timed(run):
    begin = time.process_time()
    found = run()
    return found, time.process_time() - begin


def trial(setting: Setting, seed: int) -> tuple[bool, float, bool, float]:
    X, y, labels, betas = draw(setting, seed)
    most = 2 * of_labels(X, y, labels, betas)
    model = MixReg(y, X, k=setting.k, noise=setting.outliers > 0)
    result, ours = timed(lambda: model.fit(seed=seed))
    rng = np.random.default_rng(seed)
    peer, theirs = timed(lambda: mix_irls(X, y, setting.k, rng, setting.outliers))
    coef = result.coefficients.to_numpy().T[: setting.k]
    return error(coef, betas) <= most, ours, error(peer, betas) <= most, theirs


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks imbalanced",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--d", type=int, help="only settings with so many regressors")
    parser.add_argument("--trials", type=int, help="data sets each; 20, or 5 of 300 regressors")
    parser.add_argument("--setting", action="append", help="only this one, may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first data set")
    chosen = parser.parse_args(arguments)
    names = [setting.name for setting in SETTINGS]
    for name in chosen.setting or ():
        if name not in names:
            parser.error(f"no setting {name!r}; there are {', '.join(names)}")
    print(f"{'d:shares:n':24s}{'trials':>7s}{'mixreg':>8s}{'s':>8s}{'Mix-IRLS':>10s}{'s':>8s}")
    for setting in SETTINGS:
        if chosen.d not in (None, setting.d) or setting.name not in (chosen.setting or names):
            continue
        trials = chosen.trials or (20 if setting.d == 100 else 5)
        with threadpool_limits(1):
            runs = [trial(setting, chosen.seed + i) for i in range(trials)]
        ours, seconds, theirs, their_seconds = zip(*runs, strict=True)
        print(
            f"{setting.name:24s}{trials:7d}{sum(ours):8d}{np.median(seconds):8.2f}"
            f"{sum(theirs):10d}{np.median(their_seconds):8.2f}",
            flush=True,
        )
