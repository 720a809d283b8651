"""Label switching undone with no fit at hand: numbers of components that agree between draws."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import AlignmentError, InputError
from mixreg.metrics import best_order
from mixreg.ppl.classes import CLASSES
from mixreg.ppl.compat import check_posterior, dataset_of, group_names, with_groups

Array = NDArray[np.float64]
Orders = NDArray[np.intp]

# Rounds of relabelling at most; draws that it is begun from; units that are looked at.
MOST_ROUNDS, PIVOTS, MOST_UNITS = 50, 5, 2000
# Up to so many components all orders are compared, beyond that those that swap a pair.
ALL_ORDERS = 6
# A draw is sure of its order at this probability. Components are told apart if few draws are
# unsure, and few are much nearer to another order than draws are: where two components are
# the same thing, draws lie between both orders.
SURE, MOST_UNSURE = 0.95, 0.1
NEAR, MOST_NEAR = 0.1, 0.025
SMALLEST = 1e-12


@dataclass(frozen=True)
class Alignment:
    """Orders of the components of each draw.

    Attributes
    ----------
    orders : (draws, k) int array
        `order[j]` is the component of a draw that becomes number j.
    confidence : (draws,) array
        Probability of the order, against all others.
    margin : (draws,) array
        How much worse the next best order is, in log probability.
    rival : (draws, k) int array
        The next best order.
    """

    orders: Orders
    confidence: Array
    margin: Array
    rival: Orders


def align(data: Any, *, prefix: str = "", also: Sequence[str] = ()) -> Any:
    """Give components the same numbers in all draws, with no fit at hand.

    With class probabilities of draws (`mixreg.ppl.classify`), by Stephens' relabelling:
    components are the same if they hold the same rows or groups. Without them,
    by the parameters that have the dimension `component`.

    Parameters
    ----------
    data : InferenceData or DataTree
        With a posterior.
    prefix : str
        The `prefix` of the mixture, if it has one.
    also : sequence of str
        Variables without the dimension `component` whose first dimension it is.

    Returns
    -------
    InferenceData or DataTree
        A copy with components reordered, class probabilities too, and a group
        `alignment`: the `confidence` of each draw's order, between 0 and 1, its
        `margin` over the next best, and the `order` itself.

    Raises
    ------
    AlignmentError
        If components cannot be told apart: too many draws could as well be ordered
        in another way. That is what too many components look like.

    References
    ----------
    Stephens, M. (2000). Dealing with label switching in mixture models. Journal of the
    Royal Statistical Society B 62, 795-809.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg import ppl
    >>> from mixreg.ppl.compat import draws_of
    >>> coef = np.tile([[1.0], [5.0]], (2, 50, 1, 1))
    >>> coef += 0.1 * np.random.default_rng(0).standard_normal(coef.shape)
    >>> coef[1] = coef[1, :, ::-1]
    >>> data = draws_of({"posterior": ({"coef": coef}, {"coef": ["component", "term"]})},
    ...                 {"component": [1, 2], "term": ["x"]})
    >>> found = ppl.align(data).posterior["coef"].mean(["chain", "draw"])
    >>> found.values.round().ravel().tolist()
    [1.0, 5.0]
    """
    posterior = check_posterior(data)
    component, classes = prefix + "component", prefix + "class"
    table = dataset_of(data, CLASSES) if CLASSES in group_names(data) else None
    by_draw = None if table is None else table.get("probability_by_draw")
    count = posterior.sizes.get(classes) if by_draw is None else by_draw.sizes[classes]
    for name in also:
        if not _is_short_gate(posterior, name, prefix, count or posterior.sizes.get(component)):
            posterior = _with_component(posterior, name, component)
    if component not in posterior.sizes:
        raise InputError(
            f"no variable of the posterior has the dimension {component!r}; name it in the "
            "model, as in dims=('component', 'term'), or give also= or prefix="
        )
    k = posterior.sizes[component]
    found = (
        by_parameters(_features(posterior, component, classes))
        if by_draw is None
        else by_classes(_flat(by_draw)[..., :k], _flat(by_draw)[..., k:].sum(axis=-1))
    )
    check_told_apart(found)
    short = {name for name in posterior if _is_short_gate(posterior, name, prefix, count or k)}
    groups = {"posterior": _reordered(posterior, found.orders, prefix, k, short)}
    if table is not None and by_draw is not None:
        groups[CLASSES] = _new_classes(table, found.orders, classes, k)
    _warn_of_others(posterior.drop_vars(short), found.orders, component, classes, prefix, k)
    groups["alignment"] = _report(posterior, found, component)
    return with_groups(data, groups)


# Orders


def by_classes(probability: Array, rest: Array) -> Alignment:
    """Stephens' relabelling of class probabilities (draws, units, k).

    `rest` (draws, units) is the probability of a background, which keeps its place.
    """
    p = np.clip(probability[:, :: max(1, probability.shape[1] // MOST_UNITS)], SMALLEST, 1.0)
    entropy = np.einsum("dul,dul->dl", p, np.log(p))

    def costs(orders: Orders) -> Array:
        mean = np.take_along_axis(p, orders[:, None], axis=2).mean(axis=0)
        return entropy[:, None] - np.einsum("dul,uj->djl", p, np.log(mean))

    return _best_of(costs, _pivots(len(p)), p.shape[2], lambda i: _to_pivot(p, entropy, i))


def _to_pivot(p: Array, entropy: Array, pivot: int) -> Array:
    return entropy[:, None] - np.einsum("dul,uj->djl", p, np.log(p[pivot]))


def by_parameters(features: Array) -> Alignment:
    """Relabelling of parameters (draws, k, features): components are normal around a mean."""
    spread = features.std(axis=(0, 1))
    scaled = features[..., spread > 0] / spread[spread > 0]

    def costs(orders: Orders) -> Array:
        own = np.take_along_axis(scaled, orders[..., None], axis=1)
        mean, deviation = own.mean(axis=0), np.maximum(own.std(axis=0), 1e-3)
        gap = (scaled[:, None] - mean[:, None]) / deviation[:, None]
        return (0.5 * gap**2 + np.log(deviation)[:, None]).sum(axis=-1)

    def to_pivot(pivot: int) -> Array:
        return ((scaled[:, None] - scaled[pivot][:, None]) ** 2).sum(axis=-1)

    return _best_of(costs, _pivots(len(scaled)), scaled.shape[1], to_pivot)


def _pivots(n: int) -> list[int]:
    return sorted({int(i) for i in np.linspace(0, n - 1, PIVOTS)})


def _best_of(costs: Any, pivots: list[int], k: int, to_pivot: Any) -> Alignment:
    """Relabel from several draws on; the one with the smallest cost in all."""
    ends: list[tuple[float, int, Orders, Array]] = []
    for pivot in pivots:
        orders = _orders(to_pivot(pivot))
        for _ in range(MOST_ROUNDS):
            cost = costs(orders)
            new = _orders(cost)
            if np.array_equal(new, orders):
                break
            orders = new
        ends.append((float(_total(cost, orders).sum()), len(ends), orders, cost))
    _, _, orders, cost = min(ends)
    return _compared(cost, orders)


def _orders(cost: Array) -> Orders:
    return np.array([best_order(each) for each in cost])


def _total(cost: Array, orders: Orders) -> Array:
    """Cost of an order of each draw, (draws,)."""
    return np.take_along_axis(cost, orders[..., None], axis=2)[..., 0].sum(axis=-1)


def _compared(cost: Array, orders: Orders) -> Alignment:
    """The order of each draw against others."""
    k = orders.shape[1]
    changes = [np.array(each) for each in _changes(k)]
    if not changes:
        ones = np.ones(len(orders))
        return Alignment(orders, ones, ones * np.inf, orders)
    least = _total(cost, orders)
    more = np.array([_total(cost, orders[:, change]) - least for change in changes])
    nearest = more.argmin(axis=0)
    rival = np.array([order[changes[i]] for order, i in zip(orders, nearest, strict=True)])
    confidence = 1 / (1 + np.exp(-np.clip(more, 0, None)).sum(axis=0))
    return Alignment(orders, confidence, more.min(axis=0), rival)


def _changes(k: int) -> list[tuple[int, ...]]:
    """Orders other than the one at hand: all of them, or swaps of two."""
    same = tuple(range(k))
    if k <= ALL_ORDERS:
        return [each for each in permutations(same) if each != same]
    swaps = []
    for i in range(k):
        for j in range(i):
            order = list(same)
            order[i], order[j] = j, i
            swaps.append(tuple(order))
    return swaps


def check_told_apart(found: Alignment) -> None:
    """Refuse components that are not distinguishable."""
    unsure = found.confidence < SURE
    near = found.margin < NEAR * np.median(found.margin)
    if unsure.mean() <= MOST_UNSURE and near.mean() <= MOST_NEAR:
        return
    doubtful = unsure if unsure.mean() > MOST_UNSURE else near
    moved = (found.orders != found.rival)[doubtful].mean(axis=0)
    names = " and ".join(str(j + 1) for j in sorted(np.argsort(-moved, kind="stable")[:2]))
    raise AlignmentError(
        f"components {names} cannot be told apart: {100 * doubtful.mean():.0f}% of the draws could "
        "as well be numbered in another way. Use fewer components, or priors that tell them apart "
        "(such as ordered intercepts)"
    )


# Variables


def _flat(values: Any) -> Array:
    """Draws of a variable, one chain after another."""
    array = values.transpose("chain", "draw", ...).to_numpy()
    return np.asarray(array.reshape(-1, *array.shape[2:]))


def _with_component(posterior: Any, name: str, component: str) -> Any:
    if name not in posterior:
        raise InputError(f"also={name!r} is not in the posterior; it has {list(posterior)}")
    dims = [dim for dim in posterior[name].dims if dim not in ("chain", "draw")]
    values = posterior[name]
    bare = values.drop_vars([dim for dim in dims if dim in values.coords])
    renamed = bare.rename({dims[0]: component}) if dims else bare
    return posterior.drop_vars(name).assign({name: renamed})


def _features(posterior: Any, component: str, classes: str) -> Array:
    """Parameters of components, (draws, k, features); positive ones as logarithms."""
    parts, k = [], posterior.sizes[component]
    for values in posterior.data_vars.values():
        dim = component if component in values.dims else classes
        if dim not in values.dims or {"chain", "draw"} - set(values.dims):
            continue
        array = _flat(values.transpose("chain", "draw", dim, ...))[:, :k]
        array = array.reshape(*array.shape[:2], -1)
        parts.append(np.log(array) if (array > 0).all() else array)
    return np.concatenate(parts, axis=2)


def _permuted(values: Any, dim: str, orders: Orders) -> Any:
    """A variable with the entries along a dimension in the order of each draw."""
    moved = values.transpose("chain", "draw", dim, ...)
    array = moved.to_numpy()
    lead, n = array.shape[:2], array.shape[2]
    tail = np.arange(orders.shape[1], n)
    wide = np.concatenate([orders, np.tile(tail, (len(orders), 1))], axis=1)
    index = wide.reshape(*lead, n, *[1] * (array.ndim - 3))
    new = moved.copy(data=np.take_along_axis(array, index, axis=2))
    return new.transpose(*values.dims)


def _is_short_gate(posterior: Any, name: str, prefix: str, classes: int | None) -> bool:
    """Whether a variable holds coefficients of all classes but the first, which has none."""
    if name != prefix + "gate" or name not in posterior or classes is None:
        return False
    values = posterior[name]
    return prefix + "class" not in values.dims and values.shape[2:3] == (classes - 1,)


def _reordered(posterior: Any, orders: Orders, prefix: str, k: int, short: set[str]) -> Any:
    """All variables of a posterior, those of components in their order."""
    changed = {}
    for name, values in posterior.data_vars.items():
        for dim in (prefix + "component", prefix + "class"):
            if dim in values.dims:
                values = _permuted(values, dim, orders)
        if name == prefix + "gate" and prefix + "class" in values.dims:
            # Only differences between classes count; the first class is zero.
            values = values - values.isel({prefix + "class": 0})
        elif name == prefix + "beta" and values.ndim == 3 and values.shape[2] % k == 0:
            values = _own_coefficients(values, orders, k)
        elif values.ndim == 4 and (name == prefix + "gate_standard" or name in short):
            values = _own_gate(values, orders)
        changed[name] = values.transpose(*posterior[name].dims)
    return posterior.assign(changed)


def _own_coefficients(values: Any, orders: Orders, k: int) -> Any:
    """Standard coefficients, one component after the other."""
    array = _flat(values).reshape(len(orders), k, -1)
    new = np.take_along_axis(array, orders[..., None], axis=1)
    return values.copy(data=new.reshape(values.shape))


def _own_gate(values: Any, orders: Orders) -> Any:
    """Coefficients of a standard gate, whose first class has none."""
    array = _flat(values)
    whole = np.concatenate([np.zeros_like(array[:, :1]), array], axis=1)
    k, n = orders.shape[1], whole.shape[1]
    wide = np.concatenate([orders, np.tile(np.arange(k, n), (len(orders), 1))], axis=1)
    new = np.take_along_axis(whole, wide[..., None], axis=1)
    return values.copy(data=(new[:, 1:] - new[:, :1]).reshape(values.shape))


def _new_classes(table: Any, orders: Orders, dim: str, k: int) -> Any:
    """Class probabilities in the new order, and what follows from them."""
    by_draw = _permuted(table["probability_by_draw"], dim, orders)
    mean = by_draw.mean(["chain", "draw"])
    new = {"probability_by_draw": by_draw, "probability": mean, "label": _likeliest(mean, dim)}
    if "row_probability" in table:
        own = mean.transpose("group", dim).to_numpy()[table["row_group"].to_numpy()]
        rows = table["row_probability"].copy(data=own)
        new |= {"row_probability": rows, "row_label": _likeliest(rows, dim)}
    return table.assign(new)


def _likeliest(probability: Any, dim: str) -> Any:
    """The class with the highest probability, by its name."""
    return probability.idxmax(dim).astype(probability[dim].dtype)


def _warn_of_others(
    posterior: Any, orders: Orders, component: str, classes: str, prefix: str, k: int
) -> None:
    """Say which variables may belong to components, but do not say so."""
    if k == 1 or (orders == np.arange(k)).all():
        return
    own = {prefix + "beta", prefix + "gate_standard"}
    left = [
        str(name)
        for name, values in posterior.data_vars.items()
        if not {component, classes} & set(values.dims)
        and name not in own
        and values.ndim > 2
        and values.shape[2] == k
    ]
    if left:
        warnings.warn(
            f"{', '.join(left)} keep their order, because they do not have the dimension "
            f"{component!r}; if they belong to components, give also={left!r}",
            UserWarning,
            stacklevel=3,
        )


def _report(posterior: Any, found: Alignment, component: str) -> Any:
    """How sure the order of each draw is."""
    import xarray

    lead = (posterior.sizes["chain"], posterior.sizes["draw"])
    both = ("chain", "draw")
    return xarray.Dataset(
        {
            "confidence": (both, found.confidence.reshape(lead)),
            "margin": (both, found.margin.reshape(lead)),
            "order": ((*both, component), 1 + found.orders.reshape(*lead, -1)),
        },
        {"chain": posterior["chain"], "draw": posterior["draw"]},
    )
