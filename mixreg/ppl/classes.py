"""Posterior class probabilities and labels of rows and groups, from draws of a PyMC model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.expectation import Posterior
from mixreg.ppl.compat import check_posterior, with_groups
from mixreg.ppl.draws import CHUNK
from mixreg.ppl.likelihood import with_offset
from mixreg.ppl.located import AtDraws, at_draws, located
from mixreg.ppl.mixed import Mixed
from mixreg.ppl.names import row_labels
from mixreg.sources import Source, per_unit

Array = NDArray[np.float64]

# The group of ArviZ data, and probabilities of all draws that are kept in it at most.
CLASSES, MOST_KEPT = "classes", 40_000_000


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
        A copy with a group `classes`: `probability` of each row or group, averaged over
        draws, its `label`, and `probability_by_draw`; with groups also
        `row_probability`, `row_label` and `row_group`, the number of its group.
        Averages over draws mean something if components keep their numbers: see
        `mixreg.ppl.align`, which makes them anew.

    Notes
    -----
    With very many draws, rows and classes, `probability_by_draw` is left out.

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
    names = [variable.name for variable in found.needed()]
    draws = {name: _draws_first(posterior[name]) for name in names if name in posterior}
    at = at_draws(found, draws)
    chains = (posterior.sizes["chain"], posterior.sizes["draw"])
    total = chains[0] * chains[1]
    one = class_probabilities(found.mixed, at)
    probability = np.broadcast_to(one, (total, *one.shape[1:])).reshape(*chains, *one.shape[1:])
    labelled = {"chain": posterior["chain"], "draw": posterior["draw"]}
    return with_groups(data, {CLASSES: class_table(found.mixed, probability, labelled)})


def _draws_first(values: Any) -> Array:
    """Draws of a variable, one chain after another."""
    array = values.transpose("chain", "draw", ...).to_numpy()
    return np.asarray(array.reshape(-1, *array.shape[2:]))


def class_probabilities(mixed: Mixed, at: AtDraws) -> Array:
    """Class probabilities of each unit at each draw, (draws, units, K)."""
    task, source = Posterior(mixed.mixture), mixed.source
    if at.offsets is not None:
        linear = mixed.parts.family.linear
        each = [
            _of(with_offset(source, linear, offset), task, at, slice(i, i + 1))
            for i, offset in enumerate(at.offsets)
        ]
        return np.concatenate(each)
    per = max(1, CHUNK // (source.rows * mixed.parts.layout.classes))
    firsts = range(0, len(at), per)
    return np.concatenate([_of(source, task, at, slice(i, i + per)) for i in firsts])


def _of(source: Source, task: Posterior, at: AtDraws, runs: slice) -> Array:
    some = at.params.take(np.arange(len(at))[runs])
    return np.moveaxis(per_unit(source, task, some), 0, -1)


def class_table(mixed: Mixed, probability: Array, labelled: dict[str, Any]) -> Any:
    """The group `classes` as a Dataset, from probabilities (chain, draw, units, K)."""
    import xarray

    parts, dim = mixed.parts, mixed.prefix + "class"
    unit = "row" if parts.groups is None else "group"
    classes = np.array(parts.spec.classes)
    names = parts.index if parts.groups is None else parts.groups
    coords = {unit: row_labels(names), dim: classes}
    mean = probability.mean(axis=(0, 1))
    variables: dict[str, Any] = {
        "probability": ((unit, dim), mean),
        "label": ((unit,), classes[mean.argmax(axis=1)]),
    }
    if parts.groups is not None:
        rows = np.asarray(parts.units.to_rows(mean, parts.nobs))
        coords["row"] = row_labels(parts.index)
        number = np.arange(len(mean))
        variables["row_group"] = (("row",), np.asarray(parts.units.to_rows(number, parts.nobs)))
        variables["row_probability"] = (("row", dim), rows)
        variables["row_label"] = (("row",), classes[rows.argmax(axis=1)])
    if probability.size <= MOST_KEPT:
        variables["probability_by_draw"] = (("chain", "draw", unit, dim), probability)
        coords |= labelled
    return xarray.Dataset(variables, coords)
