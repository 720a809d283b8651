"""Predictions for new rows: means, components, posteriors, labels, choice shares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.errors import InputError, InputWarning, InterpretationWarning, warn
from mixreg.estimators.expectation import Posterior
from mixreg.families import Family
from mixreg.inference.averages import ClassProbabilities
from mixreg.reading.files import read_whole
from mixreg.report.base_results import BaseResults
from mixreg.report.beside import places
from mixreg.sources import in_memory, per_unit
from mixreg.sources.base import PerRow
from mixreg.sources.block import Block
from mixreg.sources.tasks import offsets, regressors, set_sizes
from mixreg.table import frames
from mixreg.table.columns import as_frame
from mixreg.table.design import Design
from mixreg.table.prepared import prepared
from mixreg.table.responses import OneResponse, Response, side_by_side
from mixreg.table.rows import check_range, in_sets
from mixreg.table.units import check_names, make_units, plain_value

Array = NDArray[np.float64]

WHICH = ("mean", "component", "posterior", "label")


def predict(res: BaseResults, new: Any, which: str, columns: dict[str, Any]) -> Any:
    """Predict for new data, or for the model's own rows; see `MixRegResults.predict`."""
    if which not in WHICH:
        raise InputError(f"which={which!r} is unknown; use one of {', '.join(WHICH)}")
    if new is None and which in ("posterior", "label"):
        return res.posterior if which == "posterior" else res.labels
    rows = own_rows(res) if new is None else new_rows(res, read_new(res, new), columns, which)
    if which == "component":
        return component_frame(res, rows)
    if which == "mean":
        share = prior_of(res, rows) if new is not None else _own_prior(res)
        share = _of_components(res, share[:, : res.k])
        means = [(each * share).sum(axis=1) for each in component_means(res, rows)]
        if len(means) == 1:
            return pd.Series(means[0], rows.index, name=res.spec.endog_names)
        return pd.DataFrame(dict(zip(res.spec.response_names, means, strict=True)), rows.index)
    warn_of_groups(res, rows)
    posterior = pd.DataFrame(new_posterior(res, rows), rows.index, res.classes)
    return posterior if which == "posterior" else most_likely(posterior)


def _of_components(res: BaseResults, share: Array) -> Array:
    """Shares of the components alone; where noise has everything, those of all rows."""
    total = share.sum(axis=1, keepdims=True)
    weights = res.weights.to_numpy(dtype=float)[: res.k]
    usual = np.broadcast_to(weights / max(float(weights.sum()), 1e-300), share.shape)
    return np.divide(share, total, out=usual.copy(), where=total > 0)


def warn_of_groups(res: BaseResults, rows: NewRows) -> None:
    """Say that rows are labelled one by one, though the fit labels groups of them."""
    alone = res.ngroups is None or rows.groups is not None
    # One row is one group; and without responses, groups make no difference.
    if alone or len(rows) < 2 or not any(seen.any() for seen in rows.seen()):
        return
    name = res.spec.groups_name
    what, cure = "the fit has groups, and the new rows have none", ""
    if name is not None and name != "":
        what, cure = f"groups={name!r} is not a column of the new rows", "the column, or "
    warn(
        f"{what}: every row is taken for a group of its own; give {cure}groups=array",
        InputWarning,
    )


def most_likely(posterior: pd.DataFrame) -> pd.Series:
    """The most probable class of each row; <NA> where nothing is known."""
    codes = posterior.to_numpy().argmax(axis=1)
    labels = pd.Series(posterior.columns.to_numpy()[codes], posterior.index, name="component")
    bad = posterior.isna().any(axis=1)
    return labels.astype("Int64").mask(bad) if bad.any() else labels


# What leaves means as they are, and what asks for average class probabilities.
NEUTRAL = {"offset": 0, "exposure": 1}
AVERAGE = "average"


@dataclass
class NewResponse:
    """Columns of one response, as far as they are there; NaN where they are missing."""

    x: Array
    y: Array | None = None
    trials: Array | None = None
    offset: Array | None = None

    def seen(self) -> NDArray[np.bool_]:
        """Rows at which the response can be used."""
        if self.y is None:
            return np.zeros(len(self.x), dtype=bool)
        there = np.isfinite(self.y)
        for column in (self.offset, self.trials):
            there &= True if column is None else np.isfinite(column)
        return there

    def check(self, response: Response, seen: NDArray[np.intp], index: pd.Index) -> None:
        """Refuse what is out of range at the rows at which the response is seen."""
        if self.y is None or not len(seen):
            return
        if response.has_trials and self.trials is None:
            raise InputError("new responses are proportions; give their trials, trials=array")
        trials = self.trials[seen] if response.has_trials and self.trials is not None else None
        check_range(response.family, self.y[seen], trials, index[seen])

    def block(self, order: NDArray[np.intp]) -> Block:
        """Some rows as a block; NaN where there is no response."""
        y = np.full(len(order), np.nan) if self.y is None else self.y[order]
        offset = None if self.offset is None else self.offset[order]
        trials = None if self.trials is None else self.trials[order]
        return Block(self.x[order], y, offset=offset, trials=trials)


@dataclass
class NewRows:
    """Columns of some rows: those of each response, and those of the rows."""

    parts: list[NewResponse]
    index: pd.Index
    z: Array | None = None
    groups: pd.Index | None = None
    sets: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.index)

    @property
    def good(self) -> NDArray[np.bool_]:
        """Rows with all their regressors."""
        finite = [np.isfinite(part.x).all(axis=1) for part in self.parts]
        return np.asarray(np.logical_and.reduce(finite))

    def some(self, where: Any) -> NewRows:
        """Some of the rows, by a slice or a mask."""

        def cut(values: Any) -> Any:
            return None if values is None else values[where]

        parts = [
            NewResponse(p.x[where], cut(p.y), cut(p.trials), cut(p.offset)) for p in self.parts
        ]
        rest = (self.z, self.groups, self.sets)
        return NewRows(parts, self.index[where], *map(cut, rest))

    def seen(self) -> list[NDArray[np.bool_]]:
        """Rows at which each response says something about the label."""
        good = self.good if self.z is None else self.good & np.isfinite(self.z).all(axis=1)
        seen = [good & part.seen() for part in self.parts]
        if self.sets is not None:
            # A choice is only known from a whole set.
            seen = [each & ~np.isin(self.sets, self.sets[~each]) for each in seen]
        return seen


def own_rows(res: BaseResults) -> NewRows:
    """The model's own rows, in the user's order."""
    given, names = res.model.given, res.model.rows.names
    parts = []
    for i in range(len(res.spec.responses)):
        own = given.mapped(OneResponse(i))
        offset = names.unsort(per_unit(own, offsets)) if own.has("offset") else None
        parts.append(NewResponse(names.unsort(per_unit(own, regressors).T), offset=offset))
    sets = None
    if given.has("opens"):
        sizes: Any = per_unit(given, set_sizes)
        sets = names.unsort(np.repeat(np.arange(len(sizes)), sizes))
    return NewRows(parts, names.index, sets=sets)


def new_rows(res: BaseResults, new: Any, columns: dict[str, Any], which: str) -> NewRows:
    """Columns of new data, through the same formulas; responses only where they count."""
    spec = res.spec
    frame = None if isinstance(new, np.ndarray) else as_frame(new)
    made = [response.design.regressors(new) for response in spec.responses]
    rows = NewRows([NewResponse(x) for x, _ in made], made[0][1])

    def find(name: str, response: Response = spec.responses[0]) -> Any:
        value = columns.get(name)
        if isinstance(value, dict):
            value = value.get(response.name)
        key = response.names[name]
        if value is None and key is not None:
            value = None if frame is None else _named(frame, key)
            if value is None and name in NEUTRAL:
                raise lacking(name, key)
        if value is None:
            return None
        if np.ndim(value) == 0:
            return np.full(len(rows), value)
        if len(value) != len(rows):
            raise InputError(f"{name} has length {len(value)}, but there are {len(rows)} new rows")
        return value

    for part, response in zip(rows.parts, spec.responses, strict=True):
        if which in ("posterior", "label"):
            part.y, part.trials = response.design.responses(new), response.design.trials(new)
        if part.trials is None and response.has_trials:
            trials = find("trials", response)
            trials = find("weights", response) if trials is None else trials
            part.trials = None if trials is None else np.asarray(trials, dtype=float)
        exposure = find("exposure", response)
        part.offset = _new_offset(find("offset", response), exposure, rows.index)
    groups, sets = find("groups"), find("choice_set")
    check_names("groups", groups)
    check_names("choice_set", sets)
    if spec.family.takes_sets:
        rows.sets = _new_sets(sets, groups, len(rows))
        groups = sets if groups is None else groups
    if res.ngroups is not None and groups is not None:
        rows.groups = pd.Index(groups)
    if which != "component":
        rows.z = _new_concomitants(spec.gate_design, frame, columns.get("concomitant"), len(rows))
    return rows


def _named(frame: pd.DataFrame, name: Any) -> Any:
    """A column, or a level of the index; None if there is none of that name."""
    if name in frame.columns:
        return frame[name]
    return frame.index.get_level_values(name) if name in frame.index.names else None


def lacking(name: str, key: str) -> InputError:
    """Say that new data lack what shifts their means."""
    what = f"the column {key!r}" if key else "a column"
    return InputError(
        f"the model was declared with {what} as {name}, and new data have none; add it, or pass "
        f"{name}=array, or {name}={NEUTRAL[name]} for all rows"
    )


def read_new(res: BaseResults, new: Any) -> Any:
    """New data as pandas has them; of a table, the columns that the model knows."""
    if isinstance(new, str) and new in WHICH:
        raise InputError(
            f"new={new!r} must be a table, an array or a file; write predict(which={new!r})"
        )
    spec = res.spec
    terms = spec.design.terms if spec.design.right is None and len(spec.responses) == 1 else ()
    names = {*terms, spec.groups_name}
    for response in spec.responses:
        design = response.design
        names |= {design.response, *design.left_columns, *design.right_columns}
        names |= {name for name in response.names.values() if isinstance(name, str)}
    gate = spec.gate_design
    if gate is not None:
        names |= gate.right_columns if gate.right is not None else {*gate.terms}
    return frames.read(read_whole(new, names or None), names, by_place=terms, levels=False)


def _new_concomitants(
    gate: Design | None, frame: pd.DataFrame | None, given: Any, n: int
) -> Array | None:
    """Concomitants of new rows; None if classes are to have their average probabilities."""
    if gate is None or (isinstance(given, str) and given == AVERAGE):
        return None
    wanted = gate.right_columns if gate.right is not None else frozenset(gate.terms)
    if given is None:
        absent = sorted(wanted if frame is None else wanted - set(frame.columns))
        if absent:
            raise InputError(
                f"new data lack the concomitant {', '.join(absent)}; add the column, pass "
                f"concomitant=table, or concomitant={AVERAGE!r} for average class probabilities"
            )
        given = frame
    z = gate.regressors(given)[0]
    if len(z) != n:
        raise InputError(f"concomitant has {len(z)} rows, but there are {n} new rows")
    return z


def _new_offset(offset: Any, exposure: Any, index: pd.Index) -> Array | None:
    total = None if offset is None else np.asarray(offset, dtype=float)
    if exposure is None:
        return total
    exposure = np.asarray(exposure, dtype=float)
    bad = np.flatnonzero(exposure <= 0)
    if bad.size:
        row = plain_value(index[bad[0]])
        raise InputError(f"exposure must be positive; row {row!r} has {exposure[bad[0]]:g}")
    logs = np.log(exposure)
    return logs if total is None else total + logs


def _new_sets(sets: Any, groups: Any, n: int) -> NDArray[np.intp]:
    """Choice sets of new rows; without any, all rows are one set."""
    if sets is None:
        return np.zeros(n, dtype=np.intp)
    codes = pd.factorize(np.asarray(sets))[0]
    if groups is not None:
        each = pd.factorize(np.asarray(groups))[0]
        codes = pd.factorize(each * (codes.max(initial=0) + 1) + codes)[0]
    return np.asarray(codes, dtype=np.intp)


def component_means(res: BaseResults, rows: NewRows) -> list[Array]:
    """Expected response (or choice share) in each component, (rows, k), by response."""
    coef = res.fitted.estimate.params.coef
    means = []
    for part, response in zip(rows.parts, res.spec.responses, strict=True):
        eta = part.x @ coef[:, response.columns].T
        if part.offset is not None:
            eta = eta + part.offset[:, None]
        means.append(np.asarray(_shares(eta, rows.sets, response.family)))
    return means


def _shares(eta: Array, sets: NDArray[np.intp] | None, family: Family) -> Array:
    """Means at linear predictors; within choice sets, shares."""
    if sets is None:
        good = family.in_range(eta)
        if good is None or (good | np.isnan(eta)).all():
            return family.mean(eta)
        other = "logit" if family.takes_trials else "log"
        warn(
            f"{int((~good).any(axis=1).sum())} rows have no mean under the {family.link_name} "
            f"link in some component, and are NaN there; another link, such as {other!r}, has "
            "one everywhere",
            InterpretationWarning,
        )
        return np.where(good, family.mean(eta), np.nan)
    frame = pd.DataFrame(eta).groupby(sets)
    shares = np.exp(eta - frame.transform("max").to_numpy())
    total = pd.DataFrame(shares).groupby(sets).transform("sum", min_count=0).to_numpy()
    # A set with an unknown alternative has no known shares.
    unknown = np.isin(sets, sets[np.isnan(eta).any(axis=1)])
    return np.where(unknown[:, None], np.nan, shares / total)


def component_frame(res: BaseResults, rows: NewRows) -> pd.DataFrame:
    """Expected responses, components in columns; with several, (response, component)."""
    means = [pd.DataFrame(m, rows.index, res.components) for m in component_means(res, rows)]
    if len(means) == 1:
        return means[0]
    names = ["response", "component"]
    return pd.concat(means, axis=1, keys=res.spec.response_names, names=names)


def _own_prior(res: BaseResults) -> Array:
    """Class probabilities of the model's own rows, (rows, K)."""
    source, gate = res.model.source, res.spec.mixture.gate
    task = PerRow(ClassProbabilities(gate))
    prior = per_unit(source, task, res.fitted.estimate.params)
    return np.asarray(res.model.rows.names.unsort(prior.T))


def prior_of(res: BaseResults, rows: NewRows) -> Array:
    """Class probabilities of new rows before their responses are seen, (rows, K)."""
    gate, params = res.gate_at(rows.z)
    block = Block(np.empty((len(rows), 0)), np.empty(len(rows)), z=rows.z)
    return ClassProbabilities(gate)(block, params).join().T


def new_posterior(res: BaseResults, rows: NewRows) -> Array:
    """Posterior of new rows, (rows, K): by response, by group, or the prior."""
    good, labels = rows.good, None if rows.groups is None else res.known_groups
    out = np.full((len(rows), len(res.classes)), np.nan)
    out[good] = prior_of(res, rows)[good]
    if rows.groups is not None and labels is not None:
        # What is known of a group from the fit, unless it answers anew below.
        known = places(labels, rows.groups)
        out[good & (known >= 0)] = res.unit_posterior.T[known[good & (known >= 0)]]
    if not any(seen.any() for seen in rows.seen()):
        return out
    # Rows without a group stand for themselves.
    codes = np.arange(len(rows)) if rows.groups is None else pd.factorize(rows.groups)[0]
    codes = np.where(codes < 0, len(rows) + np.arange(len(rows)), codes)
    found = _posterior_given(res, rows, codes)
    there = good & np.isin(codes, found.index)
    out[there] = found.loc[codes[there]].to_numpy()
    return out


def _posterior_given(res: BaseResults, rows: NewRows, codes: NDArray[np.intp]) -> pd.DataFrame:
    """Posterior of each unit of new rows with responses, by the unit's code."""
    spec, seen = res.spec, np.column_stack(rows.seen())
    for part, response, there in zip(rows.parts, spec.responses, seen.T, strict=True):
        part.check(response, np.flatnonzero(there), rows.index)
    row = np.flatnonzero(seen.any(axis=1))
    sets = None if rows.sets is None else rows.sets[row]
    n = len(row)
    units = make_units(codes[row], None, np.ones(n, dtype=bool), pd.RangeIndex(n), sets)
    order, seen = units.sort(row), seen[units.sort(row)]
    # Units have codes; an error names the groups.
    named = units
    if rows.groups is not None:
        named = replace(units, labels=rows.groups[order[units.starts]])
    block = replace(
        side_by_side([part.block(order) for part in rows.parts]),
        starts=units.starts,
        seen=None if seen.all() else seen,
        z=None if rows.z is None else named.to_units(rows.z[row], "concomitants vary"),
    )
    if sets is not None:
        block = in_sets(block, units.sort(sets), np.asarray(rows.index)[order])
    block = prepared([response.family for response in spec.responses])(block)
    gate, params = res.gate_at(rows.z)
    task = Posterior(replace(spec.mixture, gate=gate), hard=res.method == "altmin")
    return pd.DataFrame(in_memory(block).sweep(task, params).join().T, units.labels)
