"""The printed summary, in statsmodels' look."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import beta, norm
from statsmodels.iolib.summary import Summary, forg
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_params

from mixreg.inference.covariance import Uncertainty
from mixreg.reading.writing import plain_cell
from mixreg.report.base_results import BaseResults
from mixreg.report.html.markup import html, printable
from mixreg.report.notes import notes_of

Array = NDArray[np.float64]

STOPPED = {
    "converged": "converged",
    "labels": "labels settled",
    "exact": "exact fit",
    "resampled": "samples used",
    "max_iter": "NOT converged",
    "decreased": "objective fell",
    "edge": "end of a range",
    "interrupted": "INTERRUPTED",
}
METHOD_NAMES = {"em": "EM", "altmin": "AltMin (hard EM)", "vb": "Variational Bayes"}


class Sections(Summary):
    """Tables with titles, which LaTeX shows too: statsmodels' own joins tables without them.

    Names come from data and files, so they are escaped.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
    >>> summary = res.summary()
    >>> [table.title for table in summary.tables]
    ['Mixture of Linear Regressions', 'Mixing weights; rows assigned', 'Component 1', 'Component 2']
    """

    def as_html(self) -> str:
        """All tables in HTML, with names escaped.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.summary().as_html().count("<table")
        4
        """
        return str(Summary.as_html(self._told(html)))

    def as_latex(self) -> str:
        """One tabular a table, below its title.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.summary().as_latex().count("begin{tabular}")
        4
        """
        parts = [_latex_section(table) for table in self.tables]
        notes = self._told(latex).extra_txt or ""
        body = "\n\n".join([*parts, notes.replace("\n", " \\newline\n ")])
        return f"\\begin{{center}}\n{body}\n\\end{{center}}"

    def _repr_latex_(self) -> str:
        return self.as_latex()

    def _told(self, write: Callable[[str], str]) -> Sections:
        """The same tables, with notes as another format has them."""
        other = Sections()
        other.tables = self.tables
        if self.extra_txt is not None:
            other.extra_txt = "\n".join(map(write, self.extra_txt.split("\n")))
        return other


class Table(SimpleTable):
    """A table of statsmodels' whose texts are text in every format, by itself too."""

    def as_html(self, **options: Any) -> str:
        """HTML, with texts escaped."""
        return str(SimpleTable.as_html(_rewritten(self, html), **options))

    def as_latex_tabular(self, center: bool = True, **options: Any) -> str:
        """LaTeX, in which no text is a command."""
        # statsmodels would escape some signs once more.
        made = _rewritten(self, latex)
        return str(SimpleTable.as_latex_tabular(made, center, replacements={}, **options))

    def as_csv(self, **options: Any) -> str:
        """CSV, whose texts a spreadsheet does not take for formulas."""
        return str(SimpleTable.as_csv(_rewritten(self, _csv_text), **options))


# Signs that mean something to LaTeX.
LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "²": r"\textsuperscript{2}",
}


def latex(text: str) -> str:
    """Text in LaTeX: no sign of it is a command."""
    return "".join(LATEX.get(sign, sign) for sign in printable(" ".join(text.splitlines())))


def _csv_text(text: str) -> str:
    """A cell of a CSV file."""
    text = plain_cell(text)
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\r\n') else text


def _rewritten(table: Table, write: Callable[[str], str]) -> Table:
    """A table with all its texts written in another way."""
    other = deepcopy(table)
    other.title = None if table.title is None else write(table.title)
    for cell in (cell for row in other for cell in row):
        if isinstance(cell.data, str):
            cell.data = write(cell.data)
    return other


def _latex_section(table: Table) -> str:
    """A table with its title, in LaTeX."""
    bare = copy(table)
    bare.title = None
    return f"\\textbf{{{latex(table.title)}}}\n\n{bare.as_latex_tabular(center=False)}"


def make_summary(results: BaseResults, alpha: float) -> Summary:
    """Build the summary: header, weights, one table a component, notes."""
    summary = Sections()
    width = _width(results)
    summary.tables.append(_header(results, width))
    summary.tables.append(_weights_table(results, alpha, width))
    layout = results.spec.layout
    if len(results.spec.responses) > 1 and layout.scale_names:
        summary.tables.append(_scales_table(results, width))
    shared = list(layout.shared)
    names, index = results.spec.exog_names, layout.coef_index()
    for j in results.components:
        own = layout.own(j - 1)
        if own and j in results.alive:
            stubs = [names[i] for i in own]
            title = f"Component {j}"
            table = _coefficient_table(results, index[j - 1, own], stubs, title, alpha, width)
            summary.tables.append(table)
    if shared:
        stubs, title = [names[i] for i in shared], "All components (shared)"
        table = _coefficient_table(results, index[0, shared], stubs, title, alpha, width)
        summary.tables.append(table)
    if not results.spec.mixture.gate.constant:
        summary.tables += _gate_tables(results, alpha, width)
    notes = [fill(note, width) for note in notes_of(results)]
    summary.add_extra_txt(["Notes:", *(f"[{i}] {note}" for i, note in enumerate(notes, 1))])
    return summary


def _width(results: BaseResults) -> int:
    """Width of all tables: term names and six columns of numbers."""
    names = [*results.spec.exog_names, *results.spec.layout.gate]
    header = len(results.spec.family.name) + len(results.spec.family.link_name) - 40
    return max(13, header, *(len(name) for name in names)) + 66


def _table(
    rows: list[list[str]],
    header: list[str] | None,
    stubs: list[str],
    title: str,
    width: int,
) -> Table:
    """A table of numbers that is exactly `width` characters wide as text."""
    columns = len(rows[0])
    each = 66 // columns - 1
    stub = width - columns * (each + 1)
    layout = dict(fmt_params, colwidths=[stub, *[each] * columns], data_fmts=["%s"])
    return Table(rows, header, stubs, title=title, txt_fmt=layout)


def _header(results: BaseResults, width: int) -> Table:
    fitted, search = results.fitted, results.fitted.search
    reached, better = "-", "-"
    if fitted.certified:
        reached, better = "certified", "none"
    elif search is not None:
        # Moves from other maxima find what no start did, which is no failure.
        hits, starts = search.hits[0], search.starts
        reached = f"{hits} of {starts} starts" if hits else f"moves, 0 of {starts}"
        better = f"{search.chance:.1%}"
    components = str(results.k) + (" and noise" if results.spec.noise else "")
    if results.method == "vb":
        components = f"{len(results.alive)} alive of {components}"
    left = [
        ("Dep. Variable:", results.spec.endog_names),
        ("Method:", METHOD_NAMES[results.method]),
        ("No. Observations:", str(results.nobs)),
        ("No. Groups:", "-" if results.ngroups is None else str(results.ngroups)),
        ("Components:", components),
        ("Parameters:", str(results.df_model)),
        ("Stopped:", f"{STOPPED[fitted.reason]} ({results.n_iter} it.)"),
    ]
    unfinished = " (unfinished)" if fitted.reason == "interrupted" else ""
    right = [
        ("Log-Likelihood:", _number(results.llf)),
        (f"AIC{unfinished}:", _number(results.aic)),
        (f"BIC{unfinished}:", _number(results.bic)),
        (f"ICL{unfinished}:", _number(results.icl)),
        ("Entropy R²:", f"{results.entropy_r2:.3f}"),
        ("Reached by:", reached),
        ("Chance of better:", better),
    ]
    if fitted.elbo is not None:
        left.append(("Prior:", "see notes"))
        right.insert(0, ("ELBO:", _number(results.elbo)))
    family = results.spec.family
    if not family.linear:
        left.insert(1, ("Family:", family.name))
        right.insert(0, ("Link:", family.link_name))
    rows = [[a[1], f"  {b[0]}", b[1]] for a, b in zip(left, right, strict=True)]
    rest = width - 18 - 19 - 3
    layout = dict(
        fmt_params,
        colwidths=[18, rest - rest // 2, 19, rest // 2],
        data_fmts=["%s"],
        data_aligns="rlr",
    )
    stubs = [label for label, _ in left]
    title = f"Mixture of {results.spec.family.title}"
    return Table(rows, None, stubs, title=title, txt_fmt=layout)


def _number(value: float) -> str:
    return f"{value:#.8g}" if np.isfinite(value) else str(value)


def _weights_table(results: BaseResults, alpha: float, width: int) -> Table:
    """Weights with standard errors, residual deviations, and how many have which label."""
    frame = weights_frame(results, alpha)
    scale = results.spec.family.dispersion_name
    scale = None if len(results.spec.responses) > 1 else scale
    header = ["weight", "std err", *_interval_names(alpha), *([scale] if scale else []), "rows"]
    rows = []
    for row in frame.itertuples():
        numbers = [_plain(v) for v in (row.weight, row.weight_se, row.lower, row.upper)]
        if scale:
            numbers.append(f"{row.scale:.4g}" if row.Index else "-")
        rows.append([*numbers, str(int(row.rows))])
    if results.ngroups is not None:
        header.append("groups")
        for row, count in zip(rows, frame["groups"], strict=True):
            row.append(str(int(count)))
    stubs = [f"Component {j}" if j else "Noise" for j in results.classes]
    average = "Mixing weights" if results.spec.mixture.gate.constant else "Average weights"
    assigned = "rows" if results.ngroups is None else "rows and groups"
    return _table(rows, header, stubs, f"{average}; {assigned} assigned", width)


def _plain(value: float) -> str:
    """A weight or a bound of it; a dash where it was not computed."""
    return "-" if np.isnan(value) else f"{value:.3f}"


def _scales_table(results: BaseResults, width: int) -> Table:
    """Dispersions of several responses, with standard errors."""
    frame, names = weights_frame(results).loc[results.components], results.spec.layout.scale_names
    header = [text for name in names for text in (name, "std err")]
    pairs = [column for name in names for column in (name, f"{name}_se")]
    rows = [["-" if np.isnan(v) else f"{v:.4g}" for v in row] for row in frame[pairs].to_numpy()]
    stubs = [f"Component {j}" for j in results.components]
    return _table(rows, header, stubs, "Dispersions of the responses", width)


def _interval_names(alpha: float) -> list[str]:
    return [f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]


def weights_frame(results: BaseResults, alpha: float = 0.05) -> pd.DataFrame:
    """Weights and residual deviations with standard errors, as a DataFrame."""
    pi, weight_se = results.weights.to_numpy(), weight_errors(results)
    lower, upper = weight_intervals(results, alpha)
    frame = pd.DataFrame(
        {"weight": pi, "weight_se": weight_se, "lower": lower, "upper": upper},
        index=results.classes,
    )
    frame = frame.join(_scale_columns(results))
    frame["rows"] = results.fitted.tally.rows
    if results.ngroups is not None:
        frame["groups"] = results.fitted.tally.units
    return frame


def _scale_columns(results: BaseResults) -> pd.DataFrame:
    """Dispersions and their standard errors; columns by response if there are several."""
    scale = results.scale
    values, errors = scale.to_numpy(), np.full(scale.shape, np.nan)
    index = results.spec.layout.scale_index()
    if results.fitted.estimate.cov is not None and index.size:
        errors = values * results.bse.to_numpy()[index]
    if isinstance(scale, pd.Series):
        return pd.DataFrame({"scale": values, "scale_se": errors}, results.components)
    return scale.join(pd.DataFrame(errors, scale.index, [f"{name}_se" for name in scale]))


def weight_intervals(results: BaseResults, alpha: float) -> tuple[Array, Array]:
    """Bounds of the weights, made on the logit scale, so that they stay in (0, 1).

    Of variational Bayes, those of the posterior.
    """
    pi, weight_se, beliefs = results.weights.to_numpy(), weight_errors(results), _counts(results)
    if len(pi) == 1:
        return np.ones(1), np.ones(1)
    if np.isnan(weight_se).all():
        return weight_se, weight_se
    if beliefs is not None:
        each = beta(*beliefs)
        return each.ppf(alpha / 2), each.isf(alpha / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        logit = np.log(pi) - np.log1p(-pi)
        half = norm.isf(alpha / 2) * weight_se / (pi * (1 - pi))
    # Nothing is known of a weight that rounds to 0 or 1.
    known = np.isfinite(logit) & np.isfinite(half)
    logit, half = np.where(known, logit, 0.0), np.where(known, half, np.inf)
    return expit(logit - half), expit(logit + half)


def _counts(results: BaseResults) -> tuple[Array, Array] | None:
    """Beta distributions of the weights in variational Bayes, if no concomitants make them.

    Those of the Dirichlet counts, made wider by what labels leave open.
    """
    beliefs, estimate = results.fitted.beliefs, results.fitted.estimate
    if beliefs is None or estimate.mean_field is None or beliefs.gating.shape[-1]:
        return None
    lines = _weight_slopes(results)
    after, before = (
        known.variance(lines) for known in (estimate.known, Uncertainty.of(estimate.mean_field))
    )
    wider = np.divide(after, before, out=np.ones(len(lines)), where=before > 0)
    total, share = beliefs.counts.sum(), beliefs.weights
    counts = np.maximum((total + 1) / np.maximum(wider, 1e-300) - 1, 1e-3)
    return share * counts, (1 - share) * counts


def weight_errors(results: BaseResults) -> Array:
    """Standard errors of the weights, by the delta method or of the posterior."""
    counts = _counts(results)
    if counts is not None and len(counts[0]) > 1:
        return np.asarray(beta(*counts).std())
    estimate, slopes = results.fitted.estimate, results.fitted.tally.slopes
    if len(slopes) == 1:
        return np.zeros(1)
    if estimate.cov is None:
        return np.full(len(slopes), np.nan)
    return np.asarray(np.sqrt(estimate.known.variance(_weight_slopes(results))))


def _weight_slopes(results: BaseResults) -> Array:
    """Derivatives of the average weights in all parameters."""
    slopes, layout = results.fitted.tally.slopes, results.spec.layout
    lines = np.zeros((len(slopes), layout.size))
    lines[:, layout.gating_index()] = slopes
    return lines


def _gate_tables(results: BaseResults, alpha: float, width: int) -> list[Table]:
    """One table of the class probabilities for each component but the first."""
    layout = results.spec.layout
    gate = layout.gating_index().reshape(-1, len(layout.gate))
    tables = []
    for j, index in zip(results.classes[1:], gate, strict=True):
        name = f"component {j}" if j else "noise"
        title = f"Who is in {name}, against component 1 (multinomial logit; OR: odds ratio)"
        table = _coefficient_table(results, index, list(layout.gate), title, alpha, width, True)
        tables.append(table)
    return tables


def _coefficient_table(
    results: BaseResults,
    index: NDArray[np.intp],
    stubs: list[str],
    title: str,
    alpha: float,
    width: int,
    odds: bool = False,
) -> Table:
    """Coefficients with standard errors, z, p and intervals; with odds ratios if asked."""
    header = ["coef", "std err", "z", "P>|z|", *_interval_names(alpha)]
    coef = results.fitted.estimate.vector[index]
    ratios = None
    if odds:
        values = np.exp(np.minimum(coef, 700.0))
        ratios = [[f"{v:.5g}" if 1e-3 < v < 1e4 else f"{v:.2e}"] for v in values]
    header += ["OR"] if odds else []
    if results.fitted.estimate.cov is None:
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
            [
                forg(c, prec=4).strip(),
                forg(se).strip(),
                f"{z:.3f}",
                f"{p:.3f}",
                forg(low).strip(),
                forg(high).strip(),
            ]
            for c, (se, z, p, low, high) in zip(coef, parts, strict=True)
        ]
    if ratios is not None:
        numbers = [a + b for a, b in zip(numbers, ratios, strict=True)]
    return _table(numbers, header, stubs, title, width)
