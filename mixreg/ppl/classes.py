"""Posterior class probabilities and labels of rows and groups, from draws of a PyMC model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.estimators.expectation import Posterior
from mixreg.ppl.compat import check_posterior, dataset_of, group_names, with_groups
from mixreg.ppl.draws import CHUNK
from mixreg.ppl.likelihood import with_offset
from mixreg.ppl.located import AtDraws, Located, at_draws, located
from mixreg.ppl.mixed import Mixed
from mixreg.ppl.names import row_labels
from mixreg.sources import Source, per_unit
from mixreg.table.parts import ModelParts

Array = NDArray[np.float64]

# The group of ArviZ data, and probabilities of all draws that are kept in it at most.
CLASSES, MOST_KEPT = "classes", 40_000_000
# Groups of ArviZ data with responses.
RESPONSES = ("observed_data", "posterior_predictive", "prior_predictive", "predictions")


def classify(data: Any, model: Any) -> Any:
    """Add class probabilities and labels to draws of a PyMC model.

    Parameters
    ----------
    data : InferenceData or DataTree
        With a posterior of the model.
    model : pymc Model
        With one `MixtureRegression`, or made by `MixReg.to_pymc`.

    Returns
    -------
    InferenceData or DataTree
        A copy with the names of `name_dims`, and a group `classes`: `probability` of
        each row or group, averaged over draws, its `label`, and `probability_by_draw`;
        with groups also `row_probability`, `row_label` and `row_group`, the number of its
        group, if rows are in memory.
        Averages over draws mean something if components keep their numbers: see
        `mixreg.ppl.align`, which makes them anew.

    Notes
    -----
    With very many draws, rows and classes, `probability_by_draw` is left out. Rows in files
    are met block by block; of those in groups, the groups are told.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg import MixReg, ppl
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((60, 1))
    >>> y = 3.0 * x[:, 0] * rng.choice([-1, 1], 60) + 0.3 * rng.standard_normal(60)
    >>> model = MixReg(y, x, k=2).to_pymc()
    >>> found = ppl.classify(ppl.fit(model).data, model)
    >>> found["classes"]["probability"].dims
    ('row', 'class')
    """
    posterior, found = check_posterior(data), located(model)
    data = _named(data, found)
    names = [variable.name for variable in found.needed()]
    draws = {name: _draws_first(posterior[name]) for name in names if name in posterior}
    at = at_draws(found, draws)
    chains = (posterior.sizes["chain"], posterior.sizes["draw"])
    total, mixed = chains[0] * chains[1], found.mixed
    pieces = class_probabilities(mixed, at)
    if total * mixed.source.units * mixed.parts.layout.classes > MOST_KEPT:
        mean = np.asarray(sum(piece.sum(axis=0) for piece in pieces)) / len(at)
        return with_groups(data, {CLASSES: class_table(mixed, mean)})
    one = np.concatenate(list(pieces))
    probability = np.broadcast_to(one, (total, *one.shape[1:])).reshape(*chains, *one.shape[1:])
    labelled = {"chain": posterior["chain"], "draw": posterior["draw"]}
    table = class_table(mixed, one.mean(axis=0), probability, labelled)
    return with_groups(data, {CLASSES: table})


def name_dims(data: Any, model: Any) -> Any:
    """Name the dimensions of a mixture's log densities and responses.

    PyMC has one list of dimensions for a variable. In a mixture with groups, responses
    run along the rows and log densities along the groups, and so
    `pymc.compute_log_likelihood` leaves the latter without a name.

    Parameters
    ----------
    data : InferenceData or DataTree
        Of PyMC, with any groups.
    model : pymc Model
        With one `MixtureRegression`, or made by `MixReg.to_pymc`.

    Returns
    -------
    InferenceData or DataTree
        A copy. Log-likelihoods have the dimension `group`, or `row` without groups, with labels;
        responses that were observed or drawn have `row`.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from mixreg import MixReg, ppl
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((60, 1))
    >>> y = 3.0 * x[:, 0] * np.tile([-1, 1], 30) + 0.3 * rng.standard_normal(60)
    >>> model = MixReg(y, x, k=2, groups=np.arange(60) % 20).to_pymc()
    >>> data = ppl.fit(model).data
    >>> with model:
    ...     data = pm.compute_log_likelihood(data, progressbar=False)
    >>> ppl.name_dims(data, model)["log_likelihood"]["y"].dims
    ('chain', 'draw', 'group')
    """
    return _named(data, located(model))


def _named(data: Any, found: Located) -> Any:
    name, parts, prefix = found.term.name, found.mixed.parts, found.mixed.prefix
    by_row = (prefix + "row", parts.index)
    units = by_row if parts.groups is None else (prefix + "group", parts.groups)
    wanted = dict.fromkeys(RESPONSES, by_row) | {"log_likelihood": units}
    changed = {}
    for group in group_names(data) & set(wanted):
        table, (dim, labels) = dataset_of(data, group), wanted[group]
        if name not in table or not table[name].dims:
            continue
        old = table[name].dims[-1]
        if old != dim and table.sizes[old] == len(labels):
            bare = table.drop_vars(old, errors="ignore")
            changed[group] = bare.rename({old: dim}).assign_coords({dim: row_labels(labels)})
    return with_groups(data, changed)


def _draws_first(values: Any) -> Array:
    """Draws of a variable, one chain after another."""
    array = values.transpose("chain", "draw", ...).to_numpy()
    return np.asarray(array.reshape(-1, *array.shape[2:]))


def class_probabilities(mixed: Mixed, at: AtDraws) -> Iterator[Array]:
    """Class probabilities of each unit at each draw, (draws, units, K), some draws at a time."""
    task, source = Posterior(mixed.mixture), mixed.source
    if at.offsets is not None:
        linear = mixed.parts.family.linear
        for i, offset in enumerate(at.offsets):
            yield _of(with_offset(source, linear, offset), task, at, slice(i, i + 1))
        return
    per = max(1, CHUNK // (source.rows * mixed.parts.layout.classes))
    for i in range(0, len(at), per):
        yield _of(source, task, at, slice(i, i + per))


def _of(source: Source, task: Posterior, at: AtDraws, runs: slice) -> Array:
    some = at.params.take(np.arange(len(at))[runs])
    return np.moveaxis(per_unit(source, task, some), 0, -1)


def has_units(parts: ModelParts) -> bool:
    """Whether it is known which rows share a label: those in files are many."""
    try:
        return parts.units.starts is not None
    except NotAvailableError:
        return False


def class_table(
    mixed: Mixed,
    mean: Array,
    by_draw: Array | None = None,
    labelled: dict[str, Any] | None = None,
) -> Any:
    """The group `classes` as a Dataset.

    Parameters
    ----------
    mixed : Mixed
    mean : (units, K) array
    by_draw : (chain, draw, units, K) array or None
        Left out where it would be too large.
    labelled : dict or None
        Chains and draws.
    """
    import xarray

    parts, dim = mixed.parts, mixed.prefix + "class"
    unit = "row" if parts.groups is None else "group"
    classes = np.array(parts.spec.classes)
    names = parts.index if parts.groups is None else parts.groups
    coords = {unit: row_labels(names), dim: classes}
    variables: dict[str, Any] = {
        "probability": ((unit, dim), mean),
        "label": ((unit,), classes[mean.argmax(axis=1)]),
    }
    if parts.groups is not None and has_units(parts):
        rows = np.asarray(parts.units.to_rows(mean, parts.nobs))
        coords["row"] = row_labels(parts.index)
        number = np.arange(len(mean))
        variables["row_group"] = (("row",), np.asarray(parts.units.to_rows(number, parts.nobs)))
        variables["row_probability"] = (("row", dim), rows)
        variables["row_label"] = (("row",), classes[rows.argmax(axis=1)])
    if by_draw is not None:
        variables["probability_by_draw"] = (("chain", "draw", unit, dim), by_draw)
        coords |= labelled or {}
    return xarray.Dataset(variables, coords)
