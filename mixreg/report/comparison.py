"""Fits side by side: one column a fit and segment, for a page of HTML, LaTeX or Word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mixreg.errors import InputError, needs
from mixreg.report.base_results import BaseResults
from mixreg.report.html.markup import printable
from mixreg.report.summary import latex
from mixreg.report.tidy import point_estimates, tidy

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
STATISTICS = {
    "Observations": "nobs",
    "Groups": "ngroups",
    "Parameters": "df_model",
    "Log-likelihood": "llf",
    "AIC": "aic",
    "BIC": "bic",
    "ICL": "icl",
    "Entropy R²": "entropy_r2",
}
CELL = "padding:2pt 6pt;text-align:{};border:none;{}"
RULE = "border-bottom:1pt solid #000;"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Fits side by side; see `mixreg.compare`.

    Attributes
    ----------
    table : DataFrame
        Text as it is printed: terms, then weights and dispersions, x (fit, segment).
    statistics : DataFrame
        Text: observations, likelihood and criteria x fits.
    note : str
        What the numbers in parentheses are.

    Examples
    --------
    >>> from mixreg import MixReg, compare, datasets
    >>> tone = datasets.tonedata()
    >>> fits = [MixReg.from_formula("tuned ~ stretchratio", tone, k=k).fit() for k in (1, 2)]
    >>> compare(*fits).table.shape[1]
    3
    """

    table: pd.DataFrame
    statistics: pd.DataFrame
    note: str

    def __repr__(self) -> str:
        """Text."""
        lines = [self.table.to_string(), "", self.statistics.to_string(), self.note]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.to_html()

    @property
    def _spans(self) -> dict[str, int]:
        """How many columns each fit has."""
        fits = self.table.columns.get_level_values(0)
        return {str(fit): int((fits == fit).sum()) for fit in self.statistics.columns}

    def _lines(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """All lines below the head: a stub, and cells with the columns they take."""
        lines: list[tuple[str, list[tuple[str, int]]]] = []
        for term, row in zip(self.table.index, self.table.to_numpy(), strict=True):
            lines.append((str(term), [(str(cell), 1) for cell in row]))
        spans = list(self._spans.values())
        for name, row in zip(self.statistics.index, self.statistics.to_numpy(), strict=True):
            cells = [(str(c), n) for c, n in zip(row, spans, strict=True)]
            lines.append((str(name), cells))
        return lines

    def to_html(self, path: Any = None) -> str:
        """A table in HTML, with no style of its own; written to a file if `path` is given.

        Examples
        --------
        >>> from mixreg import MixReg, compare, datasets
        >>> tone = datasets.tonedata()
        >>> fits = [MixReg.from_formula("tuned ~ stretchratio", tone, k=k).fit() for k in (1, 2)]
        >>> compare(*fits).to_html().splitlines()[0]
        '<table>'
        """
        return _written(self._html(styled=False), path)

    def to_word(self, path: Any = None) -> str:
        """A page of HTML that Word opens, and that can be pasted into it.

        Styles stand in the cells, where Word reads them; name the file `.doc` or `.html`. A
        `.docx` file is another format, and is refused.

        Examples
        --------
        >>> from mixreg import MixReg, compare, datasets
        >>> tone = datasets.tonedata()
        >>> fits = [MixReg.from_formula("tuned ~ stretchratio", tone, k=k).fit() for k in (1, 2)]
        >>> compare(*fits).to_word()[:12]
        '<html><head>'
        """
        if path is not None and Path(path).suffix.lower() == ".docx":
            raise InputError(
                f"path={str(path)!r} ends in .docx, but this is a page of HTML; name it "
                f"{str(Path(path).with_suffix('.doc'))!r}, which Word opens and saves as .docx"
            )
        head = '<html><head><meta charset="utf-8"></head>'
        body = '<body style="font-family:Calibri,Arial,sans-serif;font-size:10pt">'
        return _written(f"{head}{body}{self._html(styled=True)}</body></html>", path)

    def _html(self, styled: bool) -> str:
        def cell(tag: str, text: str, span: int = 1, align: str = "right", rule: str = "") -> str:
            wide = f' colspan="{span}"' if span > 1 else ""
            style = f' style="{CELL.format(align, rule)}"' if styled else ""
            return f"<{tag}{wide}{style}>{escape(printable(text))}</{tag}>"

        fits = [cell("th", "", align="left")]
        fits += [cell("th", fit, n, "center", RULE) for fit, n in self._spans.items()]
        segments = self.table.columns.get_level_values(1)
        heads = [cell("th", "", align="left", rule=RULE)]
        heads += [cell("th", str(segment), rule=RULE) for segment in segments]
        rows = ["".join(fits), "".join(heads)]
        lines, last = self._lines(), len(self.table) - 1
        for number, (stub, cells) in enumerate(lines):
            rule = RULE if number in (last, len(lines) - 1) else ""
            row = cell("td", stub, align="left", rule=rule)
            row += "".join(
                cell("td", text, n, "right" if n == 1 else "center", rule) for text, n in cells
            )
            rows.append(row)
        border = ' style="border-collapse:collapse"' if styled else ""
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table{border}>\n{body}\n</table>\n<p>{escape(printable(self.note))}</p>"

    def to_latex(self, path: Any = None) -> str:
        """A table in LaTeX, for the package booktabs.

        Examples
        --------
        >>> from mixreg import MixReg, compare, datasets
        >>> tone = datasets.tonedata()
        >>> fits = [MixReg.from_formula("tuned ~ stretchratio", tone, k=k).fit() for k in (1, 2)]
        >>> compare(*fits).to_latex().splitlines()[0].lstrip(chr(92))
        'begin{tabular}{lrrr}'
        """
        columns = len(self.table.columns)
        fits = [rf"\multicolumn{{{n}}}{{c}}{{{latex(fit)}}}" for fit, n in self._spans.items()]
        heads = [latex(str(s)) for s in self.table.columns.get_level_values(1)]
        out = [rf"\begin{{tabular}}{{l{'r' * columns}}}", r"\toprule"]
        out += [f" & {' & '.join(fits)} \\\\", f" & {' & '.join(heads)} \\\\", r"\midrule"]
        for number, (stub, cells) in enumerate(self._lines()):
            if number == len(self.table):
                out.append(r"\midrule")
            made = [
                latex(text) if n == 1 else rf"\multicolumn{{{n}}}{{c}}{{{latex(text)}}}"
                for text, n in cells
            ]
            out.append(f"{latex(stub)} & {' & '.join(made)} \\\\")
        out += [r"\bottomrule", r"\end{tabular}", rf"\par {latex(self.note)}", ""]
        return _written("\n".join(out), path)

    def to_great_table(self) -> Any:
        """The same as an object of the package great-tables, to be styled further.

        Examples
        --------
        >>> from mixreg import MixReg, compare, datasets
        >>> tone = datasets.tonedata()
        >>> fits = [MixReg.from_formula("tuned ~ stretchratio", tone, k=k).fit() for k in (1, 2)]
        >>> type(compare(*fits).to_great_table()).__name__
        'GT'
        """
        with needs("this table needs", "great-tables", instead=", or use to_html()"):
            from great_tables import GT
        frame, labels, spans = self._flat()
        # Its earlier versions take cells for HTML; later ones escape them.
        if "<b>" in GT(pd.DataFrame({"cell": ["<b>"]})).as_raw_html():
            frame = frame.map(escape)
        made = GT(frame, rowname_col="term", groupname_col="part").cols_label(**labels)
        for fit, columns in spans.items():
            made = made.tab_spanner(label=fit, columns=columns)
        return made.tab_source_note(self.note)

    def _flat(self) -> tuple[pd.DataFrame, dict[str, Any], dict[str, list[str]]]:
        """One frame with plain column names, what they are called, and whose they are."""
        names = [f"c{i}" for i in range(len(self.table.columns))]
        fits = self.table.columns.get_level_values(0)
        segments = self.table.columns.get_level_values(1)
        labels: dict[str, Any] = {n: str(s) for n, s in zip(names, segments, strict=True)}
        spans = {
            fit: [n for n, f in zip(names, fits, strict=True) if str(f) == fit]
            for fit in self._spans
        }
        rows = []
        for number, (stub, cells) in enumerate(self._lines()):
            texts = [text if i == 0 else "" for text, n in cells for i in range(n)]
            part = "Estimates" if number < len(self.table) else "Fit"
            rows.append({"part": part, "term": stub, **dict(zip(names, texts, strict=True))})
        return pd.DataFrame(rows), labels, spans


def compare(
    *fits: BaseResults, names: Sequence[str] | None = None, digits: int = 3, stars: bool = False
) -> Comparison:
    """Put fits side by side, one column a fit and segment.

    Parameters
    ----------
    *fits : MixRegResults
        Two or more; they may have different terms and numbers of components.
    names : list of str, optional
        What the fits are called; "k=2", "k=3" and so on if left out.
    digits : int
        Digits after the point.
    stars : bool
        Mark p-values below 0.05, 0.01 and 0.001.

    Returns
    -------
    Comparison
        Prints as text, shows as HTML in a notebook; `to_html`, `to_latex`, `to_word` and
        `to_great_table` export it.

    Examples
    --------
    >>> from mixreg import MixReg, compare, datasets
    >>> tone = datasets.tonedata()
    >>> fits = [MixReg.from_formula("tuned ~ stretchratio", tone, k=k).fit() for k in (1, 2)]
    >>> compare(*fits).statistics.loc["Parameters"].tolist()
    ['3', '7']
    """
    if not fits or not all(isinstance(fit, BaseResults) for fit in fits):
        raise InputError("compare takes fits, as in compare(model.fit(), other.fit())")
    if not isinstance(digits, int) or not 0 <= digits <= 12:
        raise InputError(f"digits must be a whole number from 0 to 12; got {digits!r}")
    called = _names(fits, names)
    columns = {}
    for name, fit in zip(called, fits, strict=True):
        for segment, cells in _segments(fit, digits, stars).items():
            columns[name, segment] = cells
    terms = _order([list(cells) for cells in columns.values()])
    table = pd.DataFrame(
        {key: [cells.get(term, "") for term in terms] for key, cells in columns.items()},
        index=pd.Index(terms, name="term"),
    )
    table.columns = pd.MultiIndex.from_tuples(list(columns), names=["fit", "segment"])
    told = {name: _statistics(fit) for name, fit in zip(called, fits, strict=True)}
    kinds = sorted({fit.cov_type for fit in fits})
    note = f"Standard errors in parentheses ({', '.join(kinds)})."
    if stars:
        note += " *** p < 0.001, ** p < 0.01, * p < 0.05."
    return Comparison(table, pd.DataFrame(told), note)


def _names(fits: Sequence[BaseResults], names: Sequence[str] | None) -> list[str]:
    """What the fits are called: each by another name."""
    if names is not None:
        called = [str(name) for name in names]
        if len(called) != len(fits) or len(set(called)) < len(called):
            raise InputError(f"names={names!r} must be {len(fits)} different names")
        return called
    called = [f"k={fit.k}" for fit in fits]
    if len(set(called)) == len(called):
        return called
    return [f"({i}) {name}" for i, name in enumerate(called, 1)]


def _order(lists: list[list[str]]) -> list[str]:
    """All terms, in the order in which they come first; parts beside coefficients last."""
    every = list(dict.fromkeys(term for terms in lists for term in terms))
    last = {term for term in every if term.startswith(" ")}
    return [t for t in every if t not in last] + [t for t in every if t in last]


def _segments(fit: BaseResults, digits: int, stars: bool) -> dict[str, dict[str, str]]:
    """Cells of each segment of a fit, by term."""
    make = tidy if fit.fitted.estimate.cov is not None else point_estimates
    rows = make(fit, False, 0.95, "coefficients")
    found = {}
    for j in fit.alive:
        own = rows[rows["component"].isna() | (rows["component"] == j)]
        cells = {str(row.term): _cell(row, digits, stars) for row in own.itertuples()}
        cells[" weight"] = f"{fit.weights.loc[j]:.{digits}f}"
        cells |= _scales(fit, j, digits)
        found[str(j)] = cells
    return found


def _cell(row: Any, digits: int, stars: bool) -> str:
    star = next((mark for level, mark in STARS if row.p_value < level), "") if stars else ""
    error = "" if np.isnan(row.std_error) else f" ({row.std_error:.{digits}f})"
    return f"{row.estimate:.{digits}f}{star}{error}"


def _scales(fit: BaseResults, j: int, digits: int) -> dict[str, str]:
    """Dispersions of a segment."""
    scale = fit.scale
    if isinstance(scale, pd.DataFrame):
        return {f" {name}": f"{scale.loc[j, name]:.{digits}f}" for name in scale.columns}
    if fit.spec.family.dispersion_name is None:
        return {}
    return {f" {scale.name}": f"{scale.loc[j]:.{digits}f}"}


def _statistics(fit: BaseResults) -> dict[str, str]:
    found = {}
    for name, attribute in STATISTICS.items():
        value = getattr(fit, attribute)
        if value is None:
            found[name] = "-"
        elif isinstance(value, int):
            found[name] = f"{value:,}"
        else:
            found[name] = f"{value:.3f}" if attribute == "entropy_r2" else f"{value:,.2f}"
    return found


def _written(text: str, path: Any) -> str:
    """Text, written to a file if there is a name for one."""
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text
