"""Plots of a fit, as methods: each takes axes and returns them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mixreg.report.framed import Framed
from mixreg.report.given_rows import on_rows
from mixreg.report.plots import (
    choice_plot,
    coefficient_plot,
    component_plot,
    page,
    posterior_plot,
    profile_plot,
    residual_plot,
    search_plot,
    tensor_plot,
)
from mixreg.report.tidy import check_level
from mixreg.table.checks import whole


class Plotted(Framed):
    """Plots of a fit, all in one style; they need matplotlib, and draw a sample of many rows."""

    def plot(self, figure: Any = None, *, data: Any = None) -> NDArray[Any]:
        """The four most useful plots on one page.

        Components over a regressor (of choices: the search), coefficients, rootograms of
        the posterior, and quantile residuals.

        Parameters
        ----------
        figure : matplotlib Figure, optional
            An empty one, such as `plt.figure(layout="constrained")`; a new one if None.
        data : DataFrame or another table, optional
            Rows with all columns of the model, for a fit whose own are gone.

        Returns
        -------
        array of matplotlib Axes
            With `savefig`, and the `figure` that they are on.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> len(res.plot())
        5
        """
        return page.plot(on_rows(self, data), figure)

    def plot_components(
        self, term: str | None = None, response: Any = None, ax: Any = None, *, data: Any = None
    ) -> Any:
        """Data and fitted lines over one regressor.

        Rows have the mark of their segment, the smaller the less certain. Where other
        regressors vary too, the plot is of partial residuals in each component, on the
        scale of the linear predictor, sized by the posterior.

        Parameters
        ----------
        term : str, optional
            A term; if left out, the first with more than two values, or else the first
            that varies.
        response : str, optional
            Of several responses, which; the first if left out.
        ax : matplotlib Axes, optional
            A new figure if None.
        data : DataFrame or another table, optional
            Rows with all columns of the model, for a fit whose own are gone.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.plot_components().get_xlabel()
        'stretchratio'
        """
        return component_plot.plot_components(on_rows(self, data), term, response, ax)

    def plot_coefficients(
        self,
        terms: Any = None,
        exponentiate: bool = False,
        conf_level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """Coefficients with intervals, by segment; shared terms once.

        Parameters
        ----------
        terms : list of str, optional
            All but the intercept if left out.
        exponentiate : bool
            Draw odds ratios, or ratios of means, on a logarithmic axis.
        conf_level : float
            What intervals cover.
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
            Hollow marks have no finite standard error.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> [label.get_text() for label in res.plot_coefficients().get_yticklabels()]
        ['stretchratio']
        """
        level = check_level(conf_level)
        return coefficient_plot.plot_coefficients(self, terms, exponentiate, level, ax)

    def plot_posterior(
        self, bins: int = posterior_plot.BINS, axes: Any = None, *, data: Any = None
    ) -> NDArray[Any]:
        """A rootogram of the posterior for each component, as in flexmix.

        Heights are roots of counts of rows (of groups where there are groups, with their
        weights). Units with a posterior below 0.0001 are left out. Bars at 1 and nothing
        between mean that the component stands apart.

        Parameters
        ----------
        bins : int
        axes : array of matplotlib Axes, optional
            One for each component.
        data : DataFrame or another table, optional
            Rows with all columns of the model, for a fit whose own are gone.

        Returns
        -------
        array of matplotlib Axes
            With `savefig`, and the `figure` that they are on.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> len(res.plot_posterior())
        2
        """
        return posterior_plot.plot_posterior(on_rows(self, data), bins, axes)

    def plot_search(self, ax: Any = None) -> Any:
        """Maxima that the search found, and how many starts led to each.

        The winner is at 0; hollow marks were reached by moves only.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> len(res.plot_search().get_xlabel()) > 0
        True
        """
        return search_plot.plot_search(self, ax)

    def plot_profile(self, data: Any, variables: Any = None, ax: Any = None) -> Any:
        """Segments against outside variables, in standard deviations from the average.

        Parameters
        ----------
        data : DataFrame or another table
            As in `profile`.
        variables : list of str, optional
            Columns to draw; all if left out.
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> [label.get_text() for label in res.plot_profile(tone).get_yticklabels()]
        ['stretchratio', 'tuned']
        """
        return profile_plot.plot_profile(self, data, variables, ax)

    def plot_residuals(
        self, response: Any = None, seed: int = 0, axes: Any = None, *, data: Any = None
    ) -> NDArray[Any]:
        """Randomised quantile residuals by component: QQ plot, and against fitted.

        In the QQ plot residuals are weighted by the posterior; those of a right model lie
        on the line, whatever the family. In the other rows are drawn in their own segment.

        Parameters
        ----------
        response : str, optional
            Of several responses, which; the first if left out.
        seed : int
            Of the random part, which counts and choices have.
        axes : two matplotlib Axes, optional
        data : DataFrame or another table, optional
            Rows with all columns of the model, for a fit whose own are gone.

        Returns
        -------
        array of matplotlib Axes
            With `savefig`, and the `figure` that they are on.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> len(res.plot_residuals())
        2
        """
        rows = on_rows(self, data)
        return residual_plot.plot_residuals(rows, response, whole("seed", seed, 0), axes)

    def plot_shares(self, new: Any, labels: Any = None, ax: Any = None) -> Any:
        """Shares of the alternatives of one choice set, by segment and in all.

        Parameters
        ----------
        new : DataFrame or another table
            One row an alternative.
        labels : list of str, optional
            Names of the alternatives; the index of `new` if left out.
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> camera = datasets.camera().head(1600)
        >>> choice = {"family": "choice", "choice_set": "task", "groups": "id"}
        >>> model = MixReg.from_formula("chosen ~ canon + price", camera, k=1, **choice)
        >>> ax = model.fit().plot_shares(camera.head(5), labels=list("ABCDE"))
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['A', 'B', 'C', 'D', 'E']
        """
        return choice_plot.plot_shares(self, new, labels, ax)

    def plot_wtp(self, price: str, terms: Any = None, alpha: float = 0.05, ax: Any = None) -> Any:
        """What features are worth to each segment, in units of the price.

        Parameters
        ----------
        price : str
            The price's term.
        terms : list of str, optional
            All others if left out.
        alpha : float
            Intervals cover 1 - alpha.
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> camera = datasets.camera().head(1600)
        >>> choice = {"family": "choice", "choice_set": "task", "groups": "id"}
        >>> model = MixReg.from_formula("chosen ~ canon + price", camera, k=1, **choice)
        >>> ax = model.fit().plot_wtp("price")
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['canon']
        """
        return choice_plot.plot_wtp(self, price, terms, alpha, ax)

    def plot_tensor(self, seed: int = 0, ax: Any = None) -> Any:
        """Eigenvalues of the moments that the tensor start is made of, against noise.

        The band is where eigenvalues of the same rows lie when their responses are
        shuffled. The moments of k components have k eigenvalues beyond it, or fewer where
        slopes depend on each other.

        Parameters
        ----------
        seed : int
            Of the shuffles, and of the sample of many rows.
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.plot_tensor().get_xlabel()
        'eigenvalue, by size'
        """
        return tensor_plot.plot_tensor(self, whole("seed", seed, 0), ax)
