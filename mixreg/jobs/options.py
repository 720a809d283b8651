"""Checking what `fit` was asked to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.estimators import Control
from mixreg.estimators.expectation import HardAssignment
from mixreg.estimators.priors import Priors
from mixreg.inference.covariance import COV_TYPES
from mixreg.jobs.problem import Options
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.candidates import one_hot
from mixreg.search.effort import Effort
from mixreg.search.tensor import TensorStart
from mixreg.table.checks import number, whole
from mixreg.table.own_rows import OwnRows
from mixreg.table.parts import ModelParts

Array = NDArray[np.float64]

METHODS = ("em", "altmin", "vb")


def make_options(
    method: Any,
    start: Any,
    n_init: Any,
    max_iter: Any,
    tol: Any,
    seed: Any,
    resample: Any,
    priors: Any,
    model: ModelParts,
) -> Options:
    """Check the arguments of `fit` and put them together."""
    if method not in METHODS:
        raise InputError(f"method={method!r} is unknown; use one of {', '.join(METHODS)}")
    if resample is not None:
        if method != "altmin" or resample == 0:
            raise InputError(
                f"resample={resample!r} needs method='altmin' and a number of parts of at least 1"
            )
        resample = whole("resample", resample, 1)
        units = model.source.counting().units
        if resample > units:
            raise InputError(f"resample={resample} is more parts than the {units} rows or groups")
    if priors is not None and method != "vb":
        raise InputError(f"priors= needs method='vb'; got method={method!r}")
    if priors is not None and not isinstance(priors, Priors):
        raise InputError(f"priors={priors!r} must be a mixreg.Priors(...)")
    if method == "vb":
        _check_one_response(model)
    return Options(
        method,
        start,
        Effort(_starts(start) if n_init is None else whole("n_init", n_init, 1)),
        Control(whole("max_iter", max_iter, 1), number("tol", tol, 0.0, 1.0)),
        whole("seed", seed, 0),
        resample,
        Priors() if priors is None else priors,
    )


def _starts(start: Any) -> int:
    """How hard to look if nothing is said: one random start is what was asked for."""
    return 1 if isinstance(start, str) and start == "random" else Effort().n_init


def _check_one_response(model: ModelParts) -> None:
    """Refuse several responses, whose dispersions have no posterior yet."""
    if len(model.responses) > 1:
        raise InputError(
            f"method='vb' is for one response; this model has {len(model.responses)}, "
            f"{model.endog_names}. Use method='em'"
        )


def check_cov_type(cov_type: Any, method: str) -> None:
    """Refuse unknown or unfit kinds of standard errors."""
    if cov_type not in COV_TYPES:
        raise InputError(f"cov_type={cov_type!r} is unknown; use one of {', '.join(COV_TYPES)}")
    if method == "vb" and cov_type != "oim":
        raise InputError(
            f"cov_type={cov_type!r} has no place with method='vb', whose standard errors are "
            "posterior standard deviations; leave it out"
        )
    if method == "altmin" and cov_type not in ("oim", "none"):
        raise InputError(
            f"cov_type={cov_type!r} needs a maximum of the likelihood; with method='altmin' "
            "use 'oim' or 'none'"
        )


def make_start(init: Any, model: ModelParts) -> Any:
    """Read the argument `init`: a name, a TensorStart, labels or coefficients."""
    if not model.family.moments and (isinstance(init, TensorStart) or str(init) == "tensor"):
        raise InputError("the tensor start is for one response; use init='auto' or 'random'")
    if isinstance(init, TensorStart) or (isinstance(init, str) and init in ("auto", "random")):
        return init
    if isinstance(init, str) and init == "tensor":
        return TensorStart()
    if isinstance(init, str) or init is None or np.ndim(init) == 0:
        raise InputError(
            f"init={init!r} is unknown; use 'auto', 'tensor', 'random', a TensorStart, "
            "labels 1..k or a table of coefficients"
        )
    if isinstance(init, pd.DataFrame):
        return start_from_coefficients(_by_term(init, model.design.terms), model)
    if isinstance(init, pd.Series):
        names = model.rows.names
        check_order("init labels", init, names.index, names.kept, names.groups)
    values = np.asarray(init)
    if values.ndim == 2:
        return start_from_coefficients(values, model)
    return start_from_labels(values, model)


def start_from_coefficients(coef: Any, model: ModelParts) -> Parameters:
    """A start from coefficients (k, p) in the user's units."""
    source, k, white = model.source, model.k, model.whitening
    p = source.columns
    try:
        coef = np.asarray(coef, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"init coefficients are not numeric ({error})") from error
    if coef.shape != (k, p) or not np.isfinite(coef).all():
        raise InputError(
            f"init coefficients must be finite, with shape (k, p) = ({k}, {p}); "
            f"got shape {coef.shape}"
        )
    params = Parameters.uniform(coef, white.dispersion * white.scale**2)
    if model.family.linear:
        bare = Mixture(model.family)
        sums = source.without("z").sweep(HardAssignment(bare), params.stacked())
        square = float(model.family.mean_square(sums.family)[0])
        params = params.with_equal_dispersion(max(square, 1e-10 * white.scale**2))
    return white.from_user(params)


def _by_term(frame: pd.DataFrame, terms: tuple[str, ...]) -> Any:
    absent = [term for term in terms if term not in frame.index]
    if absent:
        raise InputError(
            f"init coefficients lack rows for {', '.join(absent)}; use a table like "
            "results.coefficients, terms x components"
        )
    return frame.loc[list(terms)].to_numpy().T


def start_from_labels(labels: NDArray[Any], model: ModelParts) -> Array:
    """Responsibilities (k, units) from labels 1..k, one a row or group.

    Label 0, of the background, is everyone's in equal parts.
    """
    source, units, kept, k = model.source, model.units, model.kept, model.k
    if len(labels) == len(kept):
        labels = labels[kept]
    rows = int(kept.sum())
    if units.starts is not None and len(labels) == rows:
        labels = units.to_units(labels, "init labels vary")
    if len(labels) != source.units:
        groups = "" if units.starts is None else f" or {source.units} groups"
        raise InputError(
            f"init labels have length {len(labels)}; give one for each of {rows} rows" + groups
        )
    own = labels[labels != 0] if model.noise else labels
    if not np.array_equal(np.unique(own), np.arange(1, k + 1)):
        raise InputError(
            f"init labels must use each of 1..{k}; got {np.unique(labels)[:10].tolist()}"
        )
    return one_hot(labels.astype(np.intp) - 1, k) + (labels == 0) / k


def check_order(
    name: str,
    values: pd.Series,
    rows: pd.Index,
    kept: NDArray[np.bool_],
    groups: pd.Index | None = None,
) -> None:
    """Refuse a Series of other rows, or of the rows or groups in another order."""
    index = values.index
    given = index[kept] if len(index) == len(kept) else index
    if not (given.equals(rows) or (groups is not None and index.equals(groups))):
        raise InputError(
            f"{name} has another index than the rows of the model; align it, as with "
            "series.reindex(data.index), or give series.to_numpy() if the order is that of the rows"
        )


def cov_group_codes(
    cov_type: str, cov_kwds: dict[str, Any] | None, rows: OwnRows
) -> NDArray[np.intp] | None:
    """Cluster of each unit, numbered from 0; None unless cov_type is "cluster"."""
    kwds = dict(cov_kwds or {})
    groups = kwds.pop("groups", None)
    if kwds:
        raise InputError(f"cov_kwds has unknown keys {', '.join(kwds)}; only 'groups' is known")
    if cov_type != "cluster":
        if groups is not None:
            raise InputError("cov_kwds['groups'] is only used with cov_type='cluster'")
        return None
    if groups is None:
        return _own_groups(rows)
    if isinstance(groups, str):
        groups = rows.names.column("cov_kwds['groups']", groups)
    elif isinstance(groups, pd.Series):
        names = rows.names
        check_order("cov_kwds['groups']", groups, names.index, names.kept)
    if np.ndim(groups) != 1:
        raise InputError(
            f"cov_kwds['groups'] must be a column's name or an array with one entry a row; got "
            f"{groups!r}"
        )
    codes = pd.factorize(np.asarray(groups))[0]
    kept, used = rows.names.kept, rows.source.rows
    codes = codes[kept] if len(codes) == len(kept) else codes
    if len(codes) != used:
        raise InputError(f"cov_kwds['groups'] has length {len(codes)}; give {used}")
    if (codes < 0).any():
        raise InputError("cov_kwds['groups'] has missing values; fill them")
    codes = rows.names.units.to_units(codes, "cov_kwds['groups'] vary")
    return np.asarray(pd.factorize(codes)[0], dtype=np.intp)


def _own_groups(rows: OwnRows) -> NDArray[np.intp]:
    """The model's own groups as clusters: each unit is one."""
    if not rows.source.has("starts"):
        raise InputError(
            "cov_type='cluster' needs clusters, and the model has no groups: give a column's name "
            "or an array, cov_kwds={'groups': 'store'}, or declare the model with groups="
        )
    return np.arange(rows.source.units, dtype=np.intp)


def flat(params: Any, layout: Layout) -> Array:
    """Check a flat parameter vector."""
    vector = np.asarray(params, dtype=float)
    if vector.shape != (layout.size,):
        raise InputError(f"params must have shape ({layout.size},); got {vector.shape}")
    return vector
