"""The parts of a model: what was asked, and the rows it was asked of."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.families import Family
from mixreg.jobs.problem import Problem
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.sources import Source, per_unit
from mixreg.sources.standard import Whitening
from mixreg.sources.tasks import offsets
from mixreg.table.checks import check_differences, check_k, check_rows
from mixreg.table.design import Design
from mixreg.table.own_rows import OwnRows
from mixreg.table.responses import Response
from mixreg.table.spec import Spec
from mixreg.table.units import Units

Array = NDArray[np.float64]


class ModelParts:
    """A spec and, while they are here, its rows; the names are those of the spec and the rows.

    Attributes
    ----------
    spec : Spec

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
    >>> model
    <MixReg: tuned ~ stretchratio, k=2, n=150>
    >>> MixReg.from_spec(model.spec).has_rows
    False
    >>> model.design.terms, [each.name for each in model.responses]
    (('Intercept', 'stretchratio'), ['tuned'])
    >>> model.layout.size == len(model.data.param_names)
    True
    >>> model.mixture.gate.constant, model.gate_design is None
    (True, True)
    >>> model.source is model.rows.source, model.given.rows, model.problem().k
    (True, 150, 2)
    >>> model.whitening.linear is None, type(model.units).__name__
    (True, 'Units')
    """

    spec: Spec
    _rows: OwnRows | None

    @classmethod
    def from_spec(cls, spec: Spec, rows: OwnRows | None = None) -> Self:
        """A model of what was asked, with its rows or without."""
        model = cls.__new__(cls)
        model.spec, model._rows = spec, rows
        return model

    def __repr__(self) -> str:
        """One line."""
        asked = "; ".join(each.design.formula or each.name for each in self.responses)
        rows = f"n={self.nobs}" if self.has_rows else "rows gone"
        return f"<{type(self).__name__}: {asked}, k={self.k}, {rows}>"

    def with_k(self, k: int) -> Self:
        """The same model with another number of components; the rows are shared.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.with_k(3).k, model.k
        (3, 2)
        """
        k = check_k(k, self.source)
        spec = self.spec.with_k(k)
        check_rows(spec.layout, self.source, spec.family)
        check_differences(k, spec.design, spec.layout.shared, spec.family)
        return self.from_spec(spec, self.rows)

    def without_rows(self) -> Self:
        """The same model with its rows let go.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.without_rows()
        <MixReg: tuned ~ stretchratio, k=2, rows gone>
        """
        return self.from_spec(self.spec)

    def problem(self) -> Problem:
        """The fit as arrays, which can be sent to another process."""
        white, mixture = self.whitening, self.mixture
        mixture = replace(mixture, background=white.background(mixture.background))
        return Problem(self.source, mixture, white, self.k)

    # What was asked

    @property
    def k(self) -> int:
        """Number of components.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.k
        2
        """
        return self.spec.k

    @property
    def design(self) -> Design:
        """Terms of all responses."""
        return self.spec.design

    @property
    def responses(self) -> tuple[Response, ...]:
        """The responses."""
        return self.spec.responses

    @property
    def family(self) -> Family:
        """The family.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.family.name, model.family.link_name
        ('gaussian', 'identity')
        """
        return self.spec.family

    @property
    def layout(self) -> Layout:
        """Where each free parameter sits in the flat vector."""
        return self.spec.layout

    @property
    def mixture(self) -> Mixture:
        """What is mixed, in the user's units."""
        return self.spec.mixture

    @property
    def gate_design(self) -> Design | None:
        """Concomitant variables."""
        return self.spec.gate_design

    @property
    def noise(self) -> bool:
        """Whether there is a background component.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.noise
        False
        """
        return self.spec.noise

    @property
    def groups_name(self) -> Any:
        """Name of the column that names the groups.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("yn ~ x", datasets.npreg(), k=2, groups="id2")
        >>> model.groups_name
        'id2'
        """
        return self.spec.groups_name

    @property
    def endog_names(self) -> str:
        """Name of the response.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.endog_names
        'tuned'
        """
        return self.spec.endog_names

    @property
    def response_names(self) -> list[str]:
        """Names of all responses.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula(["yn ~ x", "yp ~ x"], datasets.npreg(), k=2)
        >>> model.response_names
        ['yn', 'yp']
        """
        return self.spec.response_names

    @property
    def exog_names(self) -> list[str]:
        """Names of the regressors.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.exog_names
        ['Intercept', 'stretchratio']
        """
        return self.spec.exog_names

    @property
    def param_names(self) -> list[str]:
        """Names of the free parameters, `term[component]`.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.param_names[:3]
        ['Intercept[1]', 'stretchratio[1]', 'log(sigma)[1]']
        """
        return self.spec.param_names

    @property
    def data(self) -> SimpleNamespace:
        """Names of the parameters where statsmodels' own tables look for them."""
        return SimpleNamespace(param_names=self.param_names, cov_names=self.param_names)

    # The rows it was declared on

    @property
    def has_rows(self) -> bool:
        """Whether the rows are here.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.has_rows, model.without_rows().has_rows
        (True, False)
        """
        return self._rows is not None

    @property
    def rows(self) -> OwnRows:
        """All that runs along the rows."""
        if self._rows is None:
            raise NotAvailableError(
                "the rows are gone: they were removed, or the fit was read from a file. Give the "
                "data, as in res.predict(data) or res.simulate(data=data), or declare the model "
                "anew"
            )
        return self._rows

    @property
    def source(self) -> Source:
        """Rows in the order of the fit."""
        return self.rows.source

    @property
    def whitening(self) -> Whitening:
        """Standard coordinates of the rows."""
        return self.rows.whitening

    @property
    def units(self) -> Units:
        """Which rows share a label."""
        return self.rows.names.units

    @property
    def index(self) -> pd.Index:
        """Labels of the rows.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.index[:3].tolist()
        [0, 1, 2]
        """
        return self.rows.names.index

    @property
    def groups(self) -> pd.Index | None:
        """Names of the groups.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("yn ~ x", datasets.npreg(), k=2, groups="id2")
        >>> model.groups[:3].tolist()
        [1, 2, 3]
        """
        return self.rows.names.groups

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which of the rows given are used.

        Examples
        --------
        >>> import numpy as np
        >>> from mixreg import MixReg
        >>> y, x = np.arange(30.0) % 7, np.column_stack([np.ones(30), np.arange(30.0)])
        >>> y[0] = np.nan
        >>> model = MixReg(y, x, k=2)
        >>> model.kept[:3].tolist()
        [False, True, True]
        """
        return self.rows.names.kept

    @property
    def given(self) -> Source:
        """Rows as they were given, in the order of the fit."""
        return self.rows.given

    @property
    def offset(self) -> Array | None:
        """Known part of the (first) linear predictor, in the user's order.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> faults = datasets.fabricfault()
        >>> asked = {"k": 2, "family": "poisson", "exposure": "Length"}
        >>> model = MixReg.from_formula("Faults ~ 1", faults, **asked)
        >>> model.offset.shape
        (32,)
        """
        if not self.given.has("offset"):
            return None
        found = np.atleast_2d(per_unit(self.given, offsets))
        return np.asarray(self.rows.names.unsort(found[0]))

    @property
    def nobs(self) -> int:
        """Number of rows (of the data: several responses of a row count once).

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.nobs
        150
        """
        return self.source.rows

    @property
    def ngroups(self) -> int | None:
        """Number of groups, or None.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("yn ~ x", datasets.npreg(), k=2, groups="id2")
        >>> model.nobs, model.ngroups
        (200, 50)
        """
        return self.source.units if self.source.has("starts") else None
