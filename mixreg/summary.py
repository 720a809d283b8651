"""The printed summary, in statsmodels' look."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm
from statsmodels.iolib.summary import Summary, forg
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

if TYPE_CHECKING:
    from mixreg.results import MixRegResults

STOPPED = {
    "converged": "converged",
    "labels": "labels settled",
    "exact": "exact fit",
    "resampled": "samples used",
    "max_iter": "NOT converged",
    "decreased": "objective fell",
}
METHOD_NAMES = {"em": "EM", "altmin": "AltMin (hard EM)"}


def make_summary(results: MixRegResults, alpha: float) -> Summary:
    """Build the summary: header, weights, one table a component, notes."""
    summary = Summary()
    width = _width(results)
    summary.tables.append(_header(results, width))
    summary.tables.append(_weights_table(results, alpha, width))
    for component in results.components:
        summary.tables.append(_component_table(results, int(component), alpha, width))
    notes = [fill(note, width) for note in _notes(results)]
    summary.add_extra_txt(["Notes:", *(f"[{i}] {note}" for i, note in enumerate(notes, 1))])
    return summary


def _width(results: MixRegResults) -> int:
    """Width of all tables: term names and six columns of numbers."""
    return max(13, *(len(term) for term in results.model.exog_names)) + 66


def _table(
    rows: list[list[str]],
    header: list[str] | None,
    stubs: list[str],
    title: str,
    width: int,
) -> SimpleTable:
    """A table of numbers that is exactly `width` characters wide as text."""
    columns = len(rows[0])
    each = 66 // columns - 1
    stub = width - columns * (each + 1)
    layout = dict(fmt_params, colwidths=[stub, *[each] * columns], data_fmts=["%s"])
    return SimpleTable(rows, header, stubs, title=title, txt_fmt=layout)


def _header(results: MixRegResults, width: int) -> SimpleTable:
    fit, race = results.solution.fit, results.solution.race
    agreed = "-" if race is None else f"{race.agreed} of {race.finalists}"
    if results.solution.certified:
        agreed = "certified"
    left = [
        ("Dep. Variable:", results.model.endog_names),
        ("Method:", METHOD_NAMES[results.method]),
        ("No. Observations:", str(results.nobs)),
        ("No. Groups:", "-" if results.ngroups is None else str(results.ngroups)),
        ("Components:", str(results.k)),
        ("Parameters:", str(results.df_model)),
        ("Stopped:", f"{STOPPED[fit.reason]} ({results.n_iter} it.)"),
    ]
    right = [
        ("Log-Likelihood:", _number(results.llf)),
        ("AIC:", _number(results.aic)),
        ("BIC:", _number(results.bic)),
        ("ICL:", _number(results.icl)),
        ("Entropy R²:", f"{results.entropy_r2:.3f}"),
        ("Starts agreed:", agreed),
        ("Swaps kept:", "-" if race is None else f"{race.accepted} of {race.swaps}"),
    ]
    rows = [[a[1], f"  {b[0]}", b[1]] for a, b in zip(left, right, strict=True)]
    rest = width - 18 - 18 - 3
    layout = dict(
        fmt_params,
        colwidths=[18, rest // 2, 18, rest - rest // 2],
        data_fmts=["%s"],
        data_aligns="rlr",
    )
    stubs = [label for label, _ in left]
    title = "Mixture of Linear Regressions"
    return SimpleTable(rows, None, stubs, title=title, txt_fmt=layout)


def _number(value: float) -> str:
    return f"{value:#.8g}" if np.isfinite(value) else str(value)


def _weights_table(results: MixRegResults, alpha: float, width: int) -> SimpleTable:
    """Weights with standard errors, residual deviations, and segment sizes."""
    frame = weights_frame(results, alpha)
    header = ["weight", "std err", *_interval_names(alpha), "sigma", "rows"]
    rows = [
        [
            *(f"{v:.3f}" for v in (row.weight, row.weight_se, row.lower, row.upper)),
            f"{row.sigma:.4g}",
            str(int(row.rows)),
        ]
        for row in frame.itertuples()
    ]
    if results.ngroups is not None:
        header.append("groups")
        for row, count in zip(rows, frame["groups"], strict=True):
            row.append(str(int(count)))
    stubs = [f"Component {j}" for j in results.components]
    return _table(rows, header, stubs, "Mixing weights and segments", width)


def _interval_names(alpha: float) -> list[str]:
    return [f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]


def weights_frame(results: MixRegResults, alpha: float = 0.05) -> pd.DataFrame:
    """Weights and residual deviations with standard errors, as a DataFrame.

    Intervals of weights are made on the logit scale, so they stay in (0, 1).
    """
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


def _component_table(
    results: MixRegResults, component: int, alpha: float, width: int
) -> SimpleTable:
    index = results.model.layout.coef_index()[component - 1]
    header = ["coef", "std err", "z", "P>|z|", *_interval_names(alpha)]
    coef = results.params.to_numpy()[index]
    if results._estimate.cov is None:
        numbers = [[forg(c, prec=4), *["-"] * 5] for c in coef]
    else:
        parts = np.column_stack(
            [
                results.bse.to_numpy()[index],
                results.tvalues.to_numpy()[index],
                results.pvalues.to_numpy()[index],
                results.conf_int(alpha).to_numpy()[index],
            ]
        )
        numbers = [
            [forg(c, prec=4), forg(se), f"{z:.3f}", f"{p:.3f}", forg(low), forg(high)]
            for c, (se, z, p, low, high) in zip(coef, parts, strict=True)
        ]
    return _table(numbers, header, results.model.exog_names, f"Component {component}", width)


def _sampled(results: MixRegResults) -> bool:
    """Whether the race looked at fewer rows than count in the fit."""
    race = results.solution.race
    return race is not None and race.row_weight < (1 - 1e-9) * results.model._whitening.rows


def _notes(results: MixRegResults) -> list[str]:
    solution, estimate = results.solution, results._estimate
    notes = [estimate.description]
    if solution.certified:
        notes.append("Zero loss on rows enough for every component: recovery is certified.")
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
    for j in solution.suspects:
        notes.append(
            f"Component {j + 1} is small and tight; chance may explain it. Try a smaller k, or "
            "equal_variance=True."
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
    if solution.race is not None and _sampled(results):
        notes.append(f"Starts were compared on a sample of {solution.race.rows} rows.")
    if not results.converged and solution.fit.reason == "max_iter":
        notes.append("The fit did not converge; raise max_iter.")
    return notes
