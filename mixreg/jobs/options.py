"""Checking what `fit` was asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.estimators import Control
from mixreg.estimators.expectation import HardAssignment
from mixreg.estimators.priors import Priors
from mixreg.families import Family
from mixreg.inference.covariance import COV_TYPES
from mixreg.jobs.solve import Options
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.search.candidates import one_hot
from mixreg.search.levels import Effort
from mixreg.search.tensor import TensorStart
from mixreg.sources import Source
from mixreg.sources.block import Block
from mixreg.table.design import Design
from mixreg.table.units import Units

if TYPE_CHECKING:
    from mixreg.model import MixReg

Array = NDArray[np.float64]

METHODS = ("em", "altmin", "vb")


def whole(name: str, value: Any, least: int) -> int:
    """Check a whole number."""
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not good or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return int(value)


def number(name: str, value: Any, low: float, high: float) -> float:
    """Check a number in [low, high]."""
    try:
        real = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number; got {value!r}") from None
    if not low <= real <= high:
        raise InputError(f"{name} must lie in [{low:g}, {high:g}]; got {value!r}")
    return real


def yes_or_no(name: str, value: Any) -> bool:
    """Check a switch."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def make_options(
    method: Any,
    start: Any,
    n_init: Any,
    max_iter: Any,
    tol: Any,
    seed: Any,
    resample: Any,
    priors: Any,
    model: MixReg,
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
        units = model.source.units
        if resample > units:
            raise InputError(f"resample={resample} is more parts than the {units} rows or groups")
    if priors is not None and method != "vb":
        raise InputError(f"priors= needs method='vb'; got method={method!r}")
    if priors is not None and not isinstance(priors, Priors):
        raise InputError(f"priors={priors!r} must be a mixreg.Priors(...)")
    if method == "vb":
        _check_conjugate(model)
    return Options(
        method,
        start,
        Effort(whole("n_init", n_init, 1)),
        Control(whole("max_iter", max_iter, 1), number("tol", tol, 0.0, 1.0)),
        whole("seed", seed, 0),
        resample,
        Priors() if priors is None else priors,
    )


def _check_conjugate(model: MixReg) -> None:
    """Refuse what has no conjugate posterior."""
    mixture = model.mixture
    reasons = {
        f"family={model.family.name!r} with the {model.family.link_name} link": (
            not model.family.linear
        ),
        "a concomitant model": not mixture.gate.closed_form,
        "shared terms": mixture.shared > 0,
        "terms that only some components have": bool(mixture.absent),
        "equal_variance=True": model.family.equal_dispersion,
    }
    for what, there in reasons.items():
        if there:
            raise InputError(
                f"method='vb' cannot do {what}: its posterior is not conjugate. Use method='em', "
                "or sample with model.to_pymc()"
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


def make_start(init: Any, model: MixReg) -> Any:
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
    values = np.asarray(init)
    if values.ndim == 2:
        return start_from_coefficients(values, model)
    return start_from_labels(values, model)


def start_from_coefficients(coef: Any, model: MixReg) -> Parameters:
    """A start from coefficients (k, p) in the user's units."""
    source, k, white = model.source, model.k, model._whitening
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
        sums = source.with_columns(z=None).sweep(HardAssignment(bare), params.stacked())
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


def start_from_labels(labels: NDArray[Any], model: MixReg) -> Array:
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


def cluster_codes(
    cov_type: str,
    cov_kwds: dict[str, Any] | None,
    units: Units,
    kept: NDArray[np.bool_],
    rows: int,
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
        raise InputError("cov_type='cluster' needs cov_kwds={'groups': array}")
    if np.ndim(groups) != 1:
        raise InputError(
            f"cov_kwds['groups'] must be an array with one entry a row; got {groups!r}. For a "
            "column, pass data['column']"
        )
    codes = pd.factorize(np.asarray(groups))[0]
    codes = codes[kept] if len(codes) == len(kept) else codes
    if len(codes) != rows:
        raise InputError(f"cov_kwds['groups'] has length {len(codes)}; give {rows}")
    if (codes < 0).any():
        raise InputError("cov_kwds['groups'] has missing values; fill them")
    codes = units.to_units(codes, "cov_kwds['groups'] vary")
    return np.asarray(pd.factorize(codes)[0], dtype=np.intp)


def shared_terms(shared: Any, design: Design) -> tuple[int, ...]:
    """Columns of the terms that do not vary across components."""
    if shared is None:
        return ()
    if isinstance(shared, str):
        shared = [shared]
    if not isinstance(shared, (list, tuple, set)) or not all(isinstance(n, str) for n in shared):
        raise InputError(f"shared={shared!r} must be a list of terms, such as ['price']")
    names = list(shared)
    return tuple(sorted({i for name in names for i in _columns_of(name, design, "shared")}))


def _columns_of(name: Any, design: Design, argument: str) -> list[int]:
    """Columns of a term, or the one column of that name."""
    if name in design.terms:
        return [design.terms.index(name)]
    bare = ["".join(str(term).split()) for term in design.terms]
    if "".join(str(name).split()) in bare:
        return [bare.index("".join(str(name).split()))]
    slices = design.term_slices
    if name not in slices:
        raise InputError(
            f"{argument} names {name!r}, which is not a term of the formula; terms are "
            f"{', '.join([*slices] or design.terms)}"
        )
    return list(range(slices[name].start, slices[name].stop))


def check_differences(k: int, design: Design, shared: tuple[int, ...], family: Family) -> None:
    """Refuse components that have nothing to differ in."""
    same = family.dispersion_name is None or family.equal_dispersion
    if k > 1 and len(shared) == len(design.terms) and same:
        raise InputError(
            "all terms are shared, so the components do not differ in anything; leave one out of "
            "shared="
        )


def absent_terms(
    only: Any, design: Design, shared: tuple[int, ...], k: int
) -> tuple[tuple[int, int], ...]:
    """Pairs of component and column, from 0, where a component lacks a term."""
    if only is None:
        return ()
    if not isinstance(only, dict):
        raise InputError(f"only={only!r} must map terms to components, as {{'price': [1, 2]}}")
    absent = []
    for name, have in only.items():
        numbers = {int(j) for j in np.atleast_1d(have)}
        if not numbers or not numbers <= set(range(1, k + 1)):
            raise InputError(f"only[{name!r}]={have!r} must list components between 1 and {k}")
        columns = _columns_of(name, design, "only")
        if set(columns) & set(shared):
            raise InputError(f"{name!r} is in shared= and in only=; a term can be in one of them")
        absent += [(j, i) for j in range(k) if j + 1 not in numbers for i in columns]
    return tuple(absent)


def check_k(k: Any, source: Source) -> int:
    """Check the number of components against the rows and groups."""
    k = whole("k", k, 1)
    counted = source.counted()
    units = source.units if counted is None else len(counted)
    if k > units:
        what = "groups" if source.has("starts") else "rows"
        raise InputError(f"k={k} is more than the {units} {what}; use a smaller k")
    return k


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest of some rows in each column, (p,)."""

    values: Array

    def __add__(self, other: Largest) -> Largest:
        """The largest of other rows too."""
        return Largest(np.maximum(self.values, other.values))


def largest_values(block: Block, params: None = None) -> Largest:
    """Task: the largest absolute value of each regressor."""
    return Largest(np.abs(block.x).max(axis=0))


@dataclass(frozen=True, slots=True)
class Distinct:
    """Rows that differ, (n, p + 1)."""

    rows: Array

    def __add__(self, other: Distinct) -> Distinct:
        """Those of other rows too."""
        return Distinct(np.unique(np.concatenate([self.rows, other.rows]), axis=0))


def distinct_rows(block: Block, params: None = None) -> Distinct:
    """Task: the rows that differ, regressors and response."""
    return Distinct(np.unique(np.column_stack([block.x, block.y]), axis=0))


def check_attributes(design: Design, source: Source) -> None:
    """Refuse attributes that are the same for all alternatives of every choice set."""
    if not source.has("opens"):
        return
    largest = source.sweep(largest_values).values
    same = [design.terms[i] for i in np.flatnonzero(largest < 1e-12)]
    if same:
        raise InputError(
            f"{', '.join(same)} does not vary within choice sets, so it cannot explain a choice; "
            "make it a concomitant, or let it interact with an attribute"
        )


def check_rows(layout: Layout, source: Source, family: Family) -> None:
    """Refuse more coefficients than linear regressions of rows can have."""
    index, k = layout.coef_index(), layout.k
    needed = np.unique(index[index >= 0]).size
    if k == 1 or not family.linear or source.has("starts") or source.rows > 50 * needed:
        return
    distinct = len(source.sweep(distinct_rows).rows)
    if distinct < needed:
        raise InputError(
            f"k={k} components with {layout.p} coefficients need at least {needed} distinct rows; "
            f"there are {distinct}; use a smaller k or fewer terms"
        )


def as_data(data: Any) -> pd.DataFrame:
    """Data as a frame, not empty."""
    data = data.to_pandas() if hasattr(data, "to_pandas") else data
    try:
        frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)
    except (TypeError, ValueError) as error:
        raise InputError(f"data must be a DataFrame or a dict of columns ({error})") from error
    if len(frame) == 0:
        raise InputError("data is empty; give a DataFrame with at least one row")
    return frame


def subset_mask(frame: pd.DataFrame, subset: Any) -> NDArray[np.bool_]:
    """Which rows of a frame a query, a mask or labels choose."""
    text = subset if isinstance(subset, str) else None
    if isinstance(subset, slice):
        raise InputError(f"subset={subset!r} is not known; use a query, a mask or row labels")
    if text is not None:
        try:
            subset = frame.eval(text)
        except Exception as error:
            raise InputError(f"subset={text!r} cannot be evaluated: {error}") from error
    same_rows = isinstance(subset, pd.Series) and len(subset) == len(frame)
    if same_rows and frame.index.is_unique and not subset.index.equals(frame.index):
        subset = subset.reindex(frame.index)
    values = np.asarray(subset)
    if values.dtype == object and set(pd.unique(values)) <= {True, False}:
        values = values.astype(bool)
    if values.dtype == bool:
        if values.shape != (len(frame),):
            raise InputError(f"subset has length {len(values)}, but data has {len(frame)} rows")
        return values
    if text is not None:
        raise InputError(f"subset={text!r} is not a condition; write one, such as 'year > 2000'")
    unknown = [label for label in values.ravel().tolist() if label not in frame.index]
    if unknown:
        raise InputError(f"subset names rows that data does not have: {unknown[:5]}")
    return np.asarray(frame.index.isin(values))


def flat(params: Any, layout: Layout) -> Array:
    """Check a flat parameter vector."""
    vector = np.asarray(params, dtype=float)
    if vector.shape != (layout.size,):
        raise InputError(f"params must have shape ({layout.size},); got {vector.shape}")
    return vector
