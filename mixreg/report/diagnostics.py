"""The paper's quantities for a fit, and what they mean for a practitioner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.report.fitted import Fitted, SearchReport
from mixreg.search.tensor import TensorResult

Array = NDArray[np.float64]

# A regressor whose skewness or excess kurtosis is beyond these is far enough
# from Gaussian for the moments to mislead.
SKEWED, HEAVY = 0.5, 1.0
# A chance of a better maximum beyond which the reader is told to look harder.
DOUBTFUL = 0.2


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Hardness of the problem, quality of the tensor start, how the search went.

    Distances are in standard coordinates, scaled so that the longest component
    vector has length 1, as in the paper.

    Attributes
    ----------
    n, p, k : int
    sigma_k, sigma_next : float
        k-th and next eigenvalue of the second moment M2 (nan: not there).
    tensor_values : (r,) array
        Eigenvalues of the whitened third moment.
    tensor_residual : float
        Share of the third moment that k components leave unexplained.
    identifiable : bool
        Whether k is within what the moments can tell apart.
    omega_min, delta : float
        Smallest weight; smallest distance between two components.
    eta, gamma : float
        Nearly orthonormal numbers: 1 - shortest length; largest inner product.
    rule_p, rule_k : float
        n over 30 p and over 12 k^3.
    skewness, kurtosis : float
        Largest absolute values over the standard regressors; 0 if Gaussian.
    noise : float
        Residual standard deviation over that of the response.
    entropy_r2 : float
        How clearly the components separate: 1 is certain, 0 is a guess.
    certified : bool
        Zero loss that chance cannot explain: these are the components.
    search : SearchReport or None
        How the search went; None if there was one start, or random ones of AltMin or
        variational Bayes.
    responses : int
        With several responses there are no moments, and no tensor start.
    linear : bool
        Whether the moments are those of the response itself, or of its stand-in
        on the scale of the linear predictor (families other than the Gaussian).

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
    >>> found = res.diagnostics
    >>> found.n, found.p, found.k
    (150, 2, 2)
    >>> found.identifiable, found.certified, found.search.starts > 0
    (True, False, True)
    """

    n: int
    p: int
    k: int
    sigma_k: float
    sigma_next: float
    tensor_values: Array
    tensor_residual: float
    identifiable: bool
    omega_min: float
    delta: float
    eta: float
    gamma: float
    rule_p: float
    rule_k: float
    skewness: float
    kurtosis: float
    noise: float
    entropy_r2: float
    certified: bool
    search: SearchReport | None
    linear: bool = True
    responses: int = 1

    @property
    def gap(self) -> float:
        """sigma_k minus the next eigenvalue's size: room between signal and noise.

        Examples
        --------
        >>> from mixreg import MixReg
        >>> from mixreg.simulate import mixed_linear_equations
        >>> data = mixed_linear_equations(n=900, p=5, k=2, seed=0)
        >>> found = MixReg(data.y, data.X, k=2).fit().diagnostics
        >>> found.gap > 0
        True
        """
        return self.sigma_k - abs(self.sigma_next)

    @property
    def gaussian(self) -> bool:
        """Whether the design is near enough to Gaussian for the moments.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.diagnostics.gaussian, round(res.diagnostics.kurtosis, 1)
        (True, 0.8)
        """
        return self.skewness <= SKEWED and self.kurtosis <= HEAVY

    def __str__(self) -> str:
        """A page for a practitioner."""
        return "\n".join([*_verdict(self), "", *_numbers(self), "", *_search_lines(self)])


def diagnose(fitted: Fitted, tensors: tuple[TensorResult, ...], entropy_r2: float) -> Diagnostics:
    """Work out the diagnostics of a fit; `tensors` are decompositions of the data's moments."""
    params, whitening, n = fitted.standard, fitted.whitening, fitted.tally.nobs
    k, p = params.coef.shape
    weights = fitted.tally.weights[:k]
    linear = whitening.linear is None
    share = weights / weights.sum()
    noise2 = float(share @ params.dispersion) if linear else float("nan")
    tensor = _nearest(tensors, noise2 if linear else 0.5)
    length = np.linalg.norm(params.coef, axis=1)
    unit = params.coef / max(float(length.max()), 1e-300)
    inner = unit @ unit.T
    apart = np.linalg.norm(unit[:, None] - unit[None, :], axis=-1)
    pairs = ~np.eye(k, dtype=bool)
    spectrum = tensor.spectrum if tensor is not None else np.zeros(0)
    return Diagnostics(
        n=n,
        p=p,
        k=k,
        sigma_k=float(spectrum[k - 1]) if len(spectrum) >= k else float("nan"),
        sigma_next=float(spectrum[k]) if len(spectrum) > k else float("nan"),
        tensor_values=tensor.decomposition.values if tensor is not None else np.zeros(0),
        tensor_residual=tensor.decomposition.residual if tensor is not None else float("nan"),
        identifiable=k <= p,
        omega_min=float(weights.min()),
        delta=float(apart[pairs].min()) if k > 1 else float("nan"),
        eta=1 - float(np.linalg.norm(unit, axis=1).min()),
        gamma=float(np.abs(inner[pairs]).max()) if k > 1 else float("nan"),
        rule_p=n / (30 * p),
        rule_k=n / (12 * k**3),
        skewness=_largest(tensor.skewness) if tensor is not None else float("nan"),
        kurtosis=_largest(tensor.kurtosis) if tensor is not None else float("nan"),
        noise=float(np.sqrt(noise2)),
        entropy_r2=entropy_r2,
        certified=fitted.certified,
        search=fitted.search,
        linear=linear,
        responses=1 if whitening.columns is None else int(whitening.columns.max()) + 1,
    )


def _largest(values: Array) -> float:
    return float(np.abs(values).max()) if len(values) else 0.0


def _nearest(tensors: tuple[TensorResult, ...], noise: float) -> TensorResult | None:
    """The decomposition whose assumed noise is nearest to what was fitted."""
    if not tensors:
        return None
    return min(tensors, key=lambda t: abs(t.noise - noise))


def _verdict(d: Diagnostics) -> list[str]:
    lines = ["Diagnostics", "==========="]
    if d.certified:
        lines.append(
            "Recovery is certified: every row is fitted exactly, and no other components could do "
            "so."
        )
    if d.k == 1:
        kind = "ordinary least squares" if d.linear else "a generalized linear model"
        return [*lines, f"One component: {kind}; nothing to decompose."]
    if d.responses > 1:
        lines.append(
            f"There are {d.responses} responses: no moments of one were decomposed. Partitions and "
            "random starts were tried, and the search decided."
        )
    elif not d.linear:
        lines.append(
            "The moments are those of the response on the scale of the linear predictor, "
            "which follows the model only roughly; the search decided."
        )
    if not d.identifiable and d.responses == 1:
        lines.append(
            f"k={d.k} is more than the moments of {d.p} regressors can tell apart; "
            "the tensor start was filled up with random directions, and the search decided."
        )
    if not d.gaussian and d.responses == 1:
        lines.append(
            "The design is not Gaussian (categories, skewed or heavy-tailed columns): "
            "the tensor start is a guess here, and the search decided."
        )
    if d.identifiable and d.gaussian and d.linear:
        sound = d.tensor_residual < 0.5 and d.sigma_k > 0 and not d.gap < 0
        lines.append(
            "The moments fit the model: the tensor start can be trusted."
            if sound
            else "The moments are noisy at this sample size: the search mattered."
        )
    if d.search is not None and not d.certified and d.search.chance > DOUBTFUL:
        lines.append(
            f"One more start would find a better maximum with a chance of about "
            f"{d.search.chance:.0%}. Raise n_init and see whether the log-likelihood still rises."
        )
    if d.entropy_r2 < 0.8:
        lines.append("Components overlap: labels of many rows are uncertain.")
    return lines


def _numbers(d: Diagnostics) -> list[str]:
    values = " ".join(f"{v:.2f}" for v in d.tensor_values) or "-"
    if d.responses > 1:
        return [
            f"rows n = {d.n}, regressors p = {d.p}, components k = {d.k}",
            f"ω_min = {d.omega_min:.3f}   smallest weight",
            f"Δ = {d.delta:.3f}   smallest distance between components (longest has length 1)",
        ]
    return [
        f"rows n = {d.n}, regressors p = {d.p}, components k = {d.k}",
        f"n / 30p  = {d.rule_p:.2f}   the paper's tensor start wants 1 or more",
        f"n / 12k³ = {d.rule_k:.2f}   likewise",
        f"σ_k(M2)  = {d.sigma_k:.3g}, next {d.sigma_next:.3g}   signal of the weakest component",
        f"tensor eigenvalues {values}   1/√weight of each component",
        f"tensor residual {d.tensor_residual:.2f}   share of the third moment left unexplained",
        f"ω_min = {d.omega_min:.3f}   smallest weight",
        f"Δ = {d.delta:.3f}   smallest distance between components (longest has length 1)",
        f"η = {d.eta:.3f}, γ = {d.gamma:.3f}   0, 0 would be orthonormal components",
        *(
            [f"noise = {d.noise:.3g}   residual over response standard deviation"]
            if d.linear
            else []
        ),
        f"design: largest skewness {d.skewness:.2f}, excess kurtosis {d.kurtosis:.2f}   "
        "0, 0 is Gaussian",
    ]


def _search_lines(d: Diagnostics) -> list[str]:
    if d.search is None:
        return ["There was no search: the fit began at one start, or at random ones."]
    search = d.search
    if d.certified:
        return [f"The search ended with zero loss (levels of {_rows(search)} rows)."]
    lines = [
        f"Search on {_rows(search)} rows: {search.starts} starts run to the end",
        "  log-likelihood   reached by",
    ]
    pairs = list(zip(search.heights, search.hits, strict=True))
    lines += [f"{height:16.4f}   {_times(hits)}" for height, hits in pairs[:8]]
    if len(pairs) > 8:
        lines.append(f"  and {len(pairs) - 8} more, down to {min(search.heights):.4f}")
    lines.append(f"Moves tried against the best: {search.moves}, kept: {search.accepted}.")
    lines.append(f"Chance that one more start finds a better one: {search.chance:.1%}.")
    return lines


def _rows(search: SearchReport) -> str:
    return ", ".join(f"{rows:,}" for rows in search.levels)


def _times(hits: int) -> str:
    return "a move" if hits == 0 else f"{hits} start{'s' if hits > 1 else ''}"
