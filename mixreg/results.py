"""MixRegResults: what a fit says."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import pandas as pd
from statsmodels.iolib.summary import Summary

from mixreg.errors import InputError
from mixreg.files.container import target_of, write_file
from mixreg.files.save import save
from mixreg.inference.bootstrap import Bootstrap, bootstrap
from mixreg.jobs.ladder import data_moments
from mixreg.ppl.sampled import Sampled
from mixreg.report.base_results import check_alpha
from mixreg.report.diagnostics import Diagnostics, diagnose
from mixreg.report.drawing import simulate
from mixreg.report.fitted import Fitted
from mixreg.report.given_rows import can_read, on_own_rows, on_rows
from mixreg.report.html.page import make_page
from mixreg.report.knowing import assign, predict_known
from mixreg.report.labels import write_labels
from mixreg.report.new_columns import read_columns
from mixreg.report.prediction import predict
from mixreg.report.summary import make_summary
from mixreg.table.checks import whole


class MixRegResults(Sampled):
    """Estimates, inference, segments and predictions of one fit.

    Components are numbered from 1 and ordered by weight, largest first.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> tone = datasets.tonedata()
    >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
    >>> res.weights.round(2).tolist()
    [0.63, 0.37]
    >>> res.coefficients.loc["stretchratio"].round(2).tolist()
    [0.22, 1.0]
    >>> float(res.bse.round(3)["stretchratio[1]"])
    0.043
    >>> res.labels.value_counts().tolist()
    [92, 58]
    >>> res.assign(tone.head(2))["component"].tolist()
    [1, 2]
    >>> res.segments()["certainty"].round(2).tolist()
    [0.99, 0.95]
    """

    # Reports

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """The paper's quantities, and what they mean here.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.diagnostics.certified
        False
        >>> round(res.diagnostics.omega_min, 2)
        0.37
        """
        tensors, search = self.solution.tensors, self.fitted.search
        if search is not None and tensors:
            problem = self.model.problem()
            if search.levels[0] < problem.source.rows:
                tensors = data_moments(problem, 0)
        return diagnose(self.fitted, tensors, self.entropy_r2)

    def summary(self, alpha: float = 0.05) -> Summary:
        """Tables in statsmodels' look: text, HTML, LaTeX, CSV.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> text = str(res.summary())
        >>> print(text.splitlines()[0].strip())
        Mixture of Linear Regressions
        >>> "Component 2" in text
        True
        """
        return make_summary(self, check_alpha(alpha))

    def _repr_html_(self) -> str:
        return str(self.summary().as_html())

    def report(
        self, path: Any, data: Any = None, *, selection: Any = None, title: str | None = None
    ) -> None:
        """Write a report to an HTML file that needs nothing beside itself.

        It says how many segments there are and why, describes each in a sentence and on a
        card, and shows plots, who is in doubt, criteria, how the search went, assumptions
        and the code. It needs matplotlib.

        Parameters
        ----------
        path : str or path
            Such as "segments.html"; written in one step.
        data : DataFrame or another table, optional
            Variables that describe who is in the segments, as in `profile`. If they are the
            rows of a fit whose own are gone, all that needs rows is made of them.
        selection : Selection, optional
            What `select_k` returned: other numbers of segments are compared.
        title : str, optional

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "segments.html"
        >>> res.report(path)
        >>> path.read_text(encoding="utf-8")[:15]
        '<!DOCTYPE html>'
        """
        target = target_of(path, "report.html")
        rows_given = not (data is None or self.model.has_rows) and can_read(self, data)
        res = on_own_rows(self, data) if rows_given else self
        page = make_page(res, self.diagnostics, data, selection, title)
        write_file(target, page.encode("utf-8"))

    def bootstrap(
        self, n: int = 200, kind: str = "parametric", *, data: Any = None, **options: Any
    ) -> Bootstrap:
        """Refit to data made anew `n` times; see `mixreg.inference.bootstrap.bootstrap`.

        Parameters
        ----------
        n : int
            Number of replicates.
        kind : {"parametric", "case", "group"}
            Draw responses from the fit, or rows or whole groups with replacement.
        data : DataFrame or another table, optional
            The rows that the model was fitted to, where they are gone.
        **options
            `seed`, `n_jobs`, `progress`, `n_init`.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> boot = res.bootstrap(10, n_jobs=1)
        >>> boot.draws.shape
        (10, 7)
        """
        return bootstrap(on_own_rows(self, data), n, kind, **options)

    # Without the rows, and in a file

    def remove_data(self) -> None:
        """Let the rows go, so that the results are small.

        Estimates, tables and predictions for new data stay, and groups keep their
        labels. What needs the rows says so from now on; `model` is one without
        them, and the model that was fitted keeps its own.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> res.remove_data()
        >>> res.model
        <MixReg: tuned ~ stretchratio, k=2, rows gone>
        >>> res.predict(tone.head(2), "label").tolist()
        [1, 2]
        """
        self.diagnostics = self.diagnostics
        self.fitted = self._self_contained()
        self.model = self.model.without_rows()
        self.__dict__.pop("unit_posterior", None)
        if self._options is not None and not isinstance(self._options.init, str):
            self._options = replace(self._options, init="given")

    def save(self, path: Any) -> None:
        """Write the fit to a file, which `mixreg.load(path)` reads.

        The file is a zip of JSON and arrays that cannot run code; see
        docs/files.md. It holds no rows: see `remove_data` for what that means. It
        is written in one step: whatever happens, there is the old file or the new.

        Parameters
        ----------
        path : str or path

        Examples
        --------
        >>> import tempfile, pathlib, mixreg
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> tone = mixreg.datasets.tonedata()
        >>> res = mixreg.MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> res.save(folder / "tone.mixreg")
        >>> mixreg.load(folder / "tone.mixreg").weights.round(2).tolist()
        [0.63, 0.37]
        """
        save(path, self.spec, self._self_contained(), self.diagnostics)

    def _self_contained(self) -> Fitted:
        """What was found, with all of the groups that can be told without rows."""
        grouped = self.fitted.groups is not None
        return self.fitted.with_groups(self.unit_posterior) if grouped else self.fitted

    def write_labels(self, path: Any, *, rows: bool = False) -> int:
        """Write the label and the posterior of every row, or group, to a file.

        Rows are met a block at a time, and nothing is held: for data that are not in
        memory. The file has the name of the group (or the number of the row),
        `component`, and `p1`, `p2`, ...; it is written in one step. Lines are in the
        order of the fit: the data's own, unless groups had to be brought together.

        Parameters
        ----------
        path : str or path
            Ends in .parquet, .feather or .csv, which says how it is written.
        rows : bool
            In a model with groups: a line for each row, not for each group.

        Returns
        -------
        int
            Lines that were written.

        Examples
        --------
        >>> import tempfile, pathlib, mixreg
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> tone = mixreg.datasets.tonedata()
        >>> res = mixreg.MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> res.write_labels(folder / "labels.csv")
        150
        >>> (folder / "labels.csv").read_text().splitlines()[0]
        '"row","component","p1","p2"'
        """
        return write_labels(self, path, rows)

    # Predictions

    def predict(
        self, new: Any = None, which: str = "mean", *, known: Any = None, **columns: Any
    ) -> Any:
        """Predict for new data, or for the model's own rows.

        Parameters
        ----------
        new : DataFrame, another table, array or files, optional
            New data through the same formula; files are read into memory, and their
            rows numbered from 0.
        which : {"mean", "component", "posterior", "label"}
            "mean": expected response, averaged over components by weight; the
            background of a model with noise is left out.
            "component": expected response in each component. With
            family="choice" these are shares of the alternatives of a set. With
            several responses, columns are responses, and pairs (response,
            component).
            "posterior": probability of each component, given the responses of
            the row or its group if `new` has them; otherwise what the fit knows
            of the group; otherwise the class probabilities. "label": the most
            probable component. Of several responses, those that `new` has count.
            Rows that lack the column of the groups are taken one by one, with a warning.
        known : True or table, optional
            With "mean": weight components by the posterior of each customer who is known,
            in place of class probabilities. True: by the posterior of the groups of the
            fit (of the fit's own rows, by their own). A table of earlier rows with
            responses, or of posteriors with columns 1..k, says it of others.
        **columns : array, optional
            `groups`, `offset`, `exposure`, `trials`, `choice_set` or `concomitant`
            of the new rows, where `new` has no column of that name. What shifts means
            must be there, or be given for all rows: `exposure=1`. `concomitant="average"`
            gives classes their average probabilities. Without a choice set, all rows are
            one. With several responses, dicts as in `from_formula`.

        Returns
        -------
        Series or DataFrame with the index of `new`, or numbered from 0 if it is
        not pandas'; rows with missing regressors are NaN (labels: <NA>).

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> res.predict(tone.head(2)).round(3).tolist()
        [1.668, 1.693]
        >>> res.predict(tone.head(2), "component").round(2).to_numpy().tolist()
        [[1.85, 1.35], [1.87, 1.4]]
        >>> res.predict(tone.head(2), "label").tolist()
        [1, 2]
        >>> res.predict(tone[["stretchratio"]].head(1), "posterior").round(2).iloc[0].tolist()
        [0.63, 0.37]
        """
        columns = read_columns("predict", new, columns)
        if known is None or known is False:
            return predict(self, new, which, columns)
        if which != "mean":
            raise InputError(f"known= goes with which='mean'; got which={which!r}")
        return predict_known(self, new, known, columns)

    def assign(self, new: Any, *, known: Any = None, **columns: Any) -> pd.DataFrame:
        """Place new customers: label, certainty and probabilities of each new row.

        Rows with responses are scored by these rows alone, also those of a group that
        the fit knows: they may be the fit's rows once more. Where that gives such a
        group another label than the fit did, a warning says so. Rows without responses
        have what the fit knows of their group.

        Parameters
        ----------
        new, **columns
            As in `predict`.
        known : True or table, optional
            True: groups of the fit keep the posterior that they have there, whatever
            their new rows say; others are scored by their rows. A table as in
            `predict` says it of others.

        Raises
        ------
        InputError
            If nothing tells segments of the new rows apart.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> print(res.assign(tone.head(2)).round(2))
           component  certainty    p1    p2
        0          1       1.00  1.00  0.00
        1          2       0.99  0.01  0.99

        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, groups="id2").fit()
        >>> res.assign(npreg.head(1), known=True)["certainty"].round(2).tolist()
        [1.0]
        """
        return assign(self, new, known, read_columns("assign", new, columns))

    def simulate(self, seed: int = 0, *, data: Any = None) -> pd.DataFrame:
        """Draw responses and labels from the fit, for the model's own rows.

        Parameters
        ----------
        seed : int
        data : DataFrame or another table, optional
            Rows with all columns of the model, for a fit whose own are gone.

        Returns
        -------
        DataFrame
            A column with the name of each response and a column "component",
            indexed like the data.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> drawn = res.simulate(seed=1)
        >>> drawn.columns.tolist(), len(drawn)
        (['tuned', 'component'], 150)
        >>> res.simulate(seed=1).equals(drawn)
        True
        """
        return simulate(on_rows(self, data), whole("seed", seed, 0))
