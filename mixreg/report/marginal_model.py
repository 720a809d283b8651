"""A fit as the package marginaleffects takes models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, needs
from mixreg.mixture.parameters import Parameters
from mixreg.report.base_results import BaseResults
from mixreg.report.changes import levels_of
from mixreg.report.prediction import NewRows
from mixreg.report.row_facts import read_rows
from mixreg.report.surfaces import surface
from mixreg.sources.block import Block
from mixreg.table import frames

Array = NDArray[np.float64]


def predicted(res: BaseResults, rows: NewRows, vector: Array, which: str) -> Array:
    """Expected responses at another flat vector, (k, n), or (1, n) of the mixture."""
    params: Parameters = res.spec.layout.unpack(vector)
    part, family = rows.parts[0], res.spec.responses[0].family
    means = np.array(
        [surface(family, part.x, part.offset, rows.sets, coef).mean for coef in params.coef]
    )
    if which == "component":
        return means
    block = Block(np.empty((len(rows), 0)), np.empty(len(rows)), z=rows.z)
    prior = np.exp(res.spec.mixture.gate.log_prior(block, params))[: res.k]
    return np.asarray((means * (prior / prior.sum(axis=0))).sum(axis=0, keepdims=True))


def marginal_model(res: BaseResults, data: Any, which: str) -> Any:
    """An object for marginaleffects; see `MixRegResults.to_marginaleffects`."""
    with needs("this needs", "marginaleffects", instead=", or use res.margins()"):
        import polars as pl
        from marginaleffects.classes.model import ModelAbstract, ModelVault
    res.spec.check_one_response("to_marginaleffects")
    if which not in ("mean", "component"):
        raise InputError(f"which={which!r} is unknown; use 'mean' or 'component'")

    class MixtureModel(ModelAbstract):
        """What marginaleffects asks of a model."""

        def validation(self) -> None:
            """Kinds of the variables, which the formulas know."""
            kinds = {name: "numeric" for name in self.vault.modeldata.columns}
            known = levels_of(res.spec).items()
            kinds |= {name: "character" for name, levels in known if levels is not None}
            self.vault.variables_type = kinds

        def find_response(self) -> str:
            """Name of the response."""
            return res.spec.endog_names

        def find_predictors(self) -> list[str]:
            """Variables of the formulas."""
            return list(levels_of(res.spec))

        def get_exog(self, newdata: Any) -> pd.DataFrame:
            """New rows, which the formulas take as they are."""
            return _pandas(newdata)

        def get_vcov(self, vcov: Any = True) -> Array | None:
            """Covariance of the flat vector; another kind by its name."""
            if vcov is False:
                return None
            fit = res if vcov is True else res.with_cov(vcov)  # type: ignore[attr-defined]
            return np.asarray(fit.cov_params())

        def get_predict(self, params: Array, newdata: Any) -> Any:
            """Predictions at other parameters, components as groups."""
            rows = read_rows(res, _pandas(newdata), {}, "mean")
            made = predicted(res, rows, np.asarray(params), which)
            n = made.shape[1]
            table = {"rowid": np.tile(np.arange(n, dtype=np.int32), len(made))}
            if which == "component":
                table["group"] = np.repeat([str(j) for j in res.components], n)
            return pl.DataFrame({**table, "estimate": made.ravel()})

    vault = ModelVault(
        coef=res.params.to_numpy(),
        coefnames=np.array(res.spec.param_names),
        formula=res.spec.design.formula,
        modeldata=_polars(pl, frames.read(data), levels_of(res.spec)),
        package="mixreg",
        variable_names=[res.spec.endog_names, *levels_of(res.spec)],
    )
    return MixtureModel(res, vault)


def _polars(pl: Any, data: Any, levels: dict[str, Any]) -> Any:
    """A table as polars has it, without pyarrow; text that is a category as one."""
    table = pd.DataFrame(data)
    made = pl.DataFrame({str(name): table[name].tolist() for name in table.columns})
    if int(pl.__version__.partition(".")[0]) >= 2:
        # The package asks categories of polars 1 for what those of polars 2 no longer say.
        return made
    kinds = {
        name: pl.Enum(list(each))
        for name, each in levels.items()
        if each is not None and all(isinstance(level, str) for level in each)
    }
    return made.with_columns(pl.col(name).cast(kind) for name, kind in kinds.items())


def _pandas(table: Any) -> pd.DataFrame:
    """A table of polars as pandas has it, without pyarrow."""
    if isinstance(table, pd.DataFrame):
        return table
    return pd.DataFrame({name: table[name].to_list() for name in table.columns})
