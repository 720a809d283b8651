"""Log-likelihoods and standard errors against R's reference fits."""

import time
import warnings

import numpy as np

from mixreg import MixReg
from tests.reference import Reference, cases


def numerical_hessian(function, at: np.ndarray) -> np.ndarray:
    """Central differences with one Richardson step; errors of order h^4."""

    def differences(scale: float) -> np.ndarray:
        h = scale * 1e-3 * np.maximum(1.0, np.abs(at))
        m = len(at)
        out = np.empty((m, m))
        for i in range(m):
            for j in range(i, m):
                total = 0.0
                for a in (1, -1):
                    for b in (1, -1):
                        x = at.copy()
                        x[i] += a * h[i]
                        x[j] += b * h[j]
                        total += a * b * function(x)
                out[i, j] = out[j, i] = total / (4 * h[i] * h[j])
        return out

    return (4 * differences(0.25) - differences(0.5)) / 3


def worst_ratio(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.max(np.abs(ours / theirs - 1)))


def flat_errors(case: Reference, errors) -> np.ndarray:
    parts = [np.append(c, s) for c, s in zip(errors.coefficients, errors.log_sigma, strict=True)]
    return np.concatenate([*parts, np.atleast_1d(errors.log_odds)])


def report(case: Reference, seeds: int) -> None:
    model = MixReg.from_formula(case.formula, case.data(), k=case.k, groups=case.groups)
    gains, seconds = [], []
    for seed in range(seeds):
        begin = time.perf_counter()
        results = model.fit(seed=seed)
        seconds.append(time.perf_counter() - begin)
        gains.append(results.llf - case.best_known)
    first = model.fit(seed=0)
    hessian = numerical_hessian(model.loglike, first.params.to_numpy())
    numeric = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    line = (
        f"{case.case:16s}{case.best_known:13.4f}{gains[0]:+10.1e}"
        f"{sum(g > -1e-6 for g in gains):4d}/{seeds}{np.median(seconds):8.3f} s"
        f"{100 * worst_ratio(first.bse.to_numpy(), numeric):10.4f}%"
    )
    # R's standard errors belong to R's optimum, so the comparison starts there.
    start = case.coefficients
    at_r = model.fit(init=start) if case.k > 1 else first
    if abs(at_r.llf - case.llf) < 1e-4:
        ml = worst_ratio(at_r.bse.to_numpy(), flat_errors(case, case.se))
        refit = worst_ratio(at_r.bse.to_numpy(), flat_errors(case, case.flexmix_refit_se))
        line += f"{100 * ml:10.4f}%{100 * refit:9.3f}%"
    print(line, flush=True)


def main(seeds: int = 10) -> None:
    warnings.simplefilter("ignore")
    print("gain: log-likelihood over the best known, first seed; hits: seeds within 1e-6 of it")
    print("standard errors, worst parameter: against the numerical Hessian of our likelihood;")
    print("against R's observed information (ml) and R's refit, both at R's own optimum")
    print("case               best known      gain   hits     time   numeric        ml    refit")
    for case in cases():
        report(case, seeds)
