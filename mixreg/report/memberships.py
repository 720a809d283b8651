"""Who belongs where: labels and posteriors of rows and groups."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.estimators.expectation import Posterior
from mixreg.report.estimates import Estimates
from mixreg.report.row_tables import LabelTable, PosteriorTable
from mixreg.sources.base import Standardised, per_unit
from mixreg.sources.tasks import unit_sizes

Array = NDArray[np.float64]


class Memberships(Estimates):
    """Labels of a fit, and how likely they are.

    Attributes
    ----------
    method : {"em", "altmin", "vb"}
    """

    method: str

    @property
    def posterior(self) -> Any:
        """Probability of each component, rows of the data x components.

        A DataFrame; of data on a cluster a Dask DataFrame, made when it is computed.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> print(res.posterior.head(3).round(3))
        component      1      2
        0          1.000  0.000
        1          0.008  0.992
        2          0.005  0.995
        """
        make = PosteriorTable(self.classes)
        far = self._where_rows_are(make)
        return (
            far if far is not None else make(self.along_rows(self.unit_posterior), self.model.index)
        )

    @property
    def labels(self) -> Any:
        """Most likely component of each row.

        A Series; of data on a cluster a Dask Series, made when it is computed.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.labels.head().tolist()
        [1, 2, 2, 1, 1]
        >>> res.labels.value_counts().to_dict()
        {1: 92, 2: 58}
        """
        far = self._where_rows_are(LabelTable(self.classes))
        if far is not None:
            return far
        return pd.Series(self.along_rows(self.unit_labels), self.model.index, name="component")

    def _where_rows_are(self, make: PosteriorTable | LabelTable) -> Any:
        """A table of what is said of each row, on the cluster; None if there is none."""
        if self.fitted.posterior is not None or not self.model.has_rows:
            return None
        rows = self.model.rows
        far = rows.source.lazily(self._posterior_task, self.fitted.standard)
        return None if far is None else rows.names.table(far, make, len(self.classes))

    def along_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values (..., units) for the rows in the user's order, (..., rows).

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, groups="id2").fit()
        >>> res.unit_labels.shape, res.along_rows(res.unit_labels).shape
        ((50,), (200,))
        """
        rows = self.model.rows
        if rows.source.has("starts"):
            sizes: Any = per_unit(rows.source, unit_sizes)
            values = np.repeat(values, sizes, axis=-1)
        return np.moveaxis(rows.names.unsort(np.moveaxis(values, -1, 0)), 0, -1)

    @cached_property
    def unit_posterior(self) -> Array:
        """Probability of each component, (K, units).

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, groups="id2").fit()
        >>> res.unit_posterior.shape
        (2, 50)
        >>> res.unit_posterior.sum(axis=0).round(6).tolist()[:3]
        [1.0, 1.0, 1.0]
        """
        fitted, model = self.fitted, self.model
        if fitted.posterior is not None:
            return fitted.posterior
        if not model.has_rows:
            raise NotAvailableError(
                "the rows are gone, and with them their labels; label data with "
                "res.predict(data, 'label')"
            )
        return model.source.sweep(self._posterior_task, fitted.standard).join()

    @property
    def _posterior_task(self) -> Standardised:
        task = Posterior(self.model.problem().mixture, hard=self.method == "altmin")
        return Standardised(task, self.fitted.whitening)

    @property
    def unit_labels(self) -> NDArray[np.int64]:
        """Most likely component of each unit.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, groups="id2").fit()
        >>> res.unit_labels[[0, 1, -2, -1]].tolist()
        [1, 1, 2, 2]
        """
        return np.asarray(self.classes.to_numpy()[self.unit_posterior.argmax(axis=0)])

    @property
    def group_posterior(self) -> pd.DataFrame:
        """Probability of each component, groups x components.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, groups="id2").fit()
        >>> res.group_posterior.shape
        (50, 2)
        >>> res.group_posterior.loc[1].round(2).tolist()
        [1.0, 0.0]
        """
        groups = self._groups()
        return pd.DataFrame(self.unit_posterior.T, groups, self.classes)

    @property
    def group_labels(self) -> pd.Series:
        """Most likely component of each group.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, groups="id2").fit()
        >>> res.group_labels.loc[[1, 2, 49, 50]].to_dict()
        {1: 1, 2: 1, 49: 2, 50: 2}
        """
        groups = self._groups()
        return pd.Series(self.unit_labels, groups, name="component")

    @property
    def known_groups(self) -> pd.Index | None:
        """Names of the groups; many are not kept, but read where the rows are.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, groups="id2").fit()
        >>> res.known_groups[:4].tolist()
        [1, 2, 3, 4]
        """
        if self.fitted.groups is not None or self.ngroups is None or not self.model.has_rows:
            return self.fitted.groups
        return self.model.groups

    def _groups(self) -> pd.Index:
        if self.ngroups is None:
            raise NotAvailableError("the model has no groups; declare them with groups='column'")
        groups = self.known_groups
        if groups is None:
            raise NotAvailableError(
                f"the fit does not keep the names of {self.ngroups:,} groups; write them with "
                "res.write_labels(path) while the rows are there"
            )
        return groups.rename(self.spec.groups_name)
