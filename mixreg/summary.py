"""The printed summary, in statsmodels' look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from statsmodels.iolib.summary import Summary, summary_params
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

if TYPE_CHECKING:
    from mixreg.results import MixRegResults

STOPPED = {
    "converged": "converged, {n} iterations",
    "labels": "labels settled, {n} iterations",
    "exact": "exact fit, {n} iterations",
    "resampled": "all samples used, {n}",
    "max_iter": "NOT converged, {n} iterations",
    "decreased": "objective fell, {n} iterations",
}
METHOD_NAMES = {"em": "EM", "altmin": "AltMin (hard EM)"}


def make_summary(results: MixRegResults, alpha: float) -> Summary:
    """Build the summary: header, weights, one table a component, notes."""
    summary = Summary()
    left, right = _header(results)
    summary.add_table_2cols(
        results, title="Mixture of Linear Regressions", gleft=left, gright=right
    )
    summary.tables.append(weights_table(results, alpha))
    for component in results.components:
        summary.tables.append(_component_table(results, int(component), alpha))
    notes = _notes(results)
    summary.add_extra_txt(["Notes:", *(f"[{i}] {note}" for i, note in enumerate(notes, 1))])
    return summary


def _header(results: MixRegResults) -> tuple[list[Any], list[Any]]:
    reason = results.solution.fit.reason
    groups = "-" if results.ngroups is None else str(results.ngroups)
    race = results.solution.race
    agreed = "-" if race is None else f"{race.agreed} of {race.finalists}"
    if results.solution.certified:
        agreed = "certified"
    swaps = "-" if race is None else f"{race.accepted} of {race.swaps} kept"
    left = [
        ("Dep. Variable:", [results.model.endog_names]),
        ("Method:", [METHOD_NAMES[results.method]]),
        ("No. Observations:", [str(results.nobs)]),
        ("No. Groups:", [groups]),
        ("Components:", [str(results.k)]),
        ("Parameters:", [str(results.df_model)]),
        ("Stopped:", [STOPPED[reason].format(n=results.n_iter)]),
    ]
    right = [
        ("Log-Likelihood:", [_number(results.llf)]),
        ("AIC:", [_number(results.aic)]),
        ("BIC:", [_number(results.bic)]),
        ("ICL:", [_number(results.icl)]),
        ("Entropy R²:", [f"{results.entropy_r2:.3f}"]),
        ("Starts agreed:", [agreed]),
        ("Swaps:", [swaps]),
    ]
    return left, right


def _number(value: float) -> str:
    return f"{value:#.8g}" if np.isfinite(value) else str(value)


def weights_table(results: MixRegResults, alpha: float) -> SimpleTable:
    """Weights and residual deviations with standard errors, and segment sizes."""
    frame = weights_frame(results, alpha)
    low, high = f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"
    header = ["weight", "std err", low, high, "sigma", "std err", "rows"]
    rows = [
        [
            _short(row.weight),
            _short(row.weight_se),
            _short(row.lower),
            _short(row.upper),
            f"{row.sigma:.4g}",
            f"{row.sigma_se:.3g}" if np.isfinite(row.sigma_se) else "-",
            str(int(row.rows)),
        ]
        for row in frame.itertuples()
    ]
    if results.ngroups is not None:
        header.append("groups")
        for row, count in zip(rows, frame["groups"], strict=True):
            row.append(str(int(count)))
    stubs = [f"Component {j}" for j in results.components]
    return SimpleTable(rows, header, stubs, title="Mixing weights and segments", txt_fmt=fmt_params)


def _short(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "-"


def weights_frame(results: MixRegResults, alpha: float = 0.05) -> Any:
    """Weights and residual deviations with standard errors, as a DataFrame.

    Intervals of weights are made on the logit scale, so they stay in (0, 1).
    """
    import pandas as pd

    layout, params = results.model.layout, results._estimate.params
    pi, sigma = params.weights, np.sqrt(params.dispersion)
    weight_se = sigma_se = np.full(results.k, np.nan)
    if results._estimate.cov is not None:
        cov = results._estimate.finite_cov
        gate = layout.gating_index()
        slope = (np.diag(pi) - np.outer(pi, pi))[:, 1:]
        inner = slope @ cov[np.ix_(gate, gate)] @ slope.T
        weight_se = np.sqrt(np.maximum(np.diag(inner), 0.0))
        scale = layout.scale_index()
        sigma_se = sigma * np.sqrt(np.maximum(cov[scale, scale], 0.0))
        weight_se, sigma_se = (np.where(se > 1e100, np.inf, se) for se in (weight_se, sigma_se))
    with np.errstate(divide="ignore", invalid="ignore"):
        logit = np.log(pi) - np.log1p(-pi)
        half = norm.isf(alpha / 2) * weight_se / (pi * (1 - pi))
    if results.k == 1:
        lower = upper = np.ones(1)
    else:
        lower, upper = expit(logit - half), expit(logit + half)
    counts = np.bincount(results.labels, minlength=results.k + 1)[1:]
    frame = pd.DataFrame(
        {
            "weight": pi,
            "weight_se": weight_se,
            "lower": lower,
            "upper": upper,
            "sigma": sigma,
            "sigma_se": sigma_se,
            "rows": counts,
        },
        index=results.components,
    )
    if results.ngroups is not None:
        frame["groups"] = np.bincount(results.group_labels, minlength=results.k + 1)[1:]
    return frame


def _component_table(results: MixRegResults, component: int, alpha: float) -> SimpleTable:
    index = results.model.layout.coef_index()[component - 1]
    params = results.params.to_numpy()[index]
    if results._estimate.cov is None:
        missing = np.full(len(index), np.nan)
        parts = (params, missing, missing, missing, np.column_stack([missing, missing]))
    else:
        parts = (
            params,
            results.bse.to_numpy()[index],
            results.tvalues.to_numpy()[index],
            results.pvalues.to_numpy()[index],
            results.conf_int(alpha).to_numpy()[index],
        )
    return summary_params(
        (results, *parts),
        xname=results.model.exog_names,
        alpha=alpha,
        use_t=False,
        title=f"Component {component}",
    )


def _notes(results: MixRegResults) -> list[str]:
    solution, estimate = results.solution, results._estimate
    notes = [estimate.description]
    if solution.certified:
        notes.append("Zero loss: the recovery of all components is certified.")
    elif solution.exact:
        notes.append(
            "Zero loss, but no proof of recovery: some component has too few rows of its own "
            "to be told from chance. Try a smaller k."
        )
    if results.model.family.equal_variance:
        notes.append("All components share one residual variance (equal_variance=True).")
    if solution.binds:
        ratio = results.model.family.variance_ratio
        notes.append(
            f"The bound on the variances binds (variance_ratio={ratio:g}): a component singles "
            "out a few rows. Try a smaller k, or equal_variance=True. Standard errors take the "
            "bound for an estimate."
        )
    if not estimate.regular:
        notes.append(
            "The data do not determine every parameter: some standard errors are infinite. "
            "k may be too large."
        )
    if solution.revived:
        notes.append(f"An emptied component was seeded anew {solution.revived} times.")
    for j in solution.empty:
        notes.append(f"Component {j + 1} is empty; try a smaller k.")
    if solution.race is not None and solution.race.rows < results.nobs:
        notes.append(f"Starts were compared on a sample of {solution.race.rows} rows.")
    if not results.converged and solution.fit.reason == "max_iter":
        notes.append("The fit did not converge; raise max_iter.")
    return notes
