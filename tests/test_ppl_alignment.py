"""Label switching is undone with no fit at hand, or refused."""

from typing import Any

import numpy as np
import pytest
import xarray
from numpy.testing import assert_allclose

from mixreg import AlignmentError, InputError, MixReg, ppl
from mixreg.ppl.compat import draws_of, group_names, with_groups
from mixreg.simulate import mixed_linear_equations

DIMS = {
    "coef": ["component", "term"],
    "scale": ["component"],
    "weights": ["class"],
    "gate": ["class", "gate_term"],
    "probability_by_draw": ["row", "class"],
}


def around(k: int, draws: int = 200, noise: float = 0.1, seed: int = 0) -> dict[str, np.ndarray]:
    """Draws around k components that differ."""
    rng = np.random.default_rng(seed)
    coef = 3 * rng.standard_normal((k, 3))
    weights = rng.dirichlet(np.full(k, 20.0), (2, draws))
    return {
        "coef": coef + noise * rng.standard_normal((2, draws, k, 3)),
        "scale": np.exp(0.2 * rng.standard_normal((2, draws, k))),
        "weights": weights,
    }


def switched(values: dict[str, np.ndarray], seed: int = 1) -> tuple[Any, np.ndarray]:
    """The same with the components of each draw in an order of its own."""
    rng = np.random.default_rng(seed)
    lead, k = values["coef"].shape[:2], values["coef"].shape[2]
    orders = np.array([rng.permutation(k) for _ in range(lead[0] * lead[1])]).reshape(*lead, k)
    out = {}
    for name, array in values.items():
        index = orders.reshape(*orders.shape, *[1] * (array.ndim - 3))
        out[name] = np.take_along_axis(array, index, axis=2)
    return out, orders


def as_data(values: dict[str, np.ndarray], **groups: Any) -> Any:
    dims = {name: DIMS[name] for name in values if name in DIMS}
    return draws_of({"posterior": (values, dims), **groups}, {})


def with_classes(data: Any, probability: np.ndarray) -> Any:
    """Draws with class probabilities."""
    dims = ("chain", "draw", "row", "class")
    coords = {"class": 1 + np.arange(probability.shape[3])}
    table = xarray.Dataset({"probability_by_draw": (dims, probability)}, coords)
    return with_groups(data, {"classes": table})


def same_up_to_one_order(found: np.ndarray, want: np.ndarray) -> None:
    """All draws are those wanted, with components renamed in one way."""
    gaps = ((found[0, 0][:, None] - want[0, 0][None]) ** 2).sum(axis=-1)
    order = gaps.argmin(axis=1)
    assert sorted(order) == list(range(len(order)))
    assert_allclose(found, want[:, :, order])


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_switched_draws_are_put_in_order(k):
    want = around(k)
    values, _ = switched(want)
    found = ppl.align(as_data(values))
    same_up_to_one_order(found["posterior"]["coef"].to_numpy(), want["coef"])
    assert float(found["alignment"]["confidence"].min()) > 0.95
    assert found["alignment"]["order"].shape == (2, 200, k)
    # All variables are put in the same order.
    order = found["alignment"]["order"].to_numpy() - 1
    for name in ("scale", "weights"):
        assert_allclose(found["posterior"][name], np.take_along_axis(values[name], order, axis=2))


def test_what_was_given_is_left_as_it_was():
    values, _ = switched(around(3))
    data = as_data(values)
    before = {name: data["posterior"][name].to_numpy().copy() for name in values}
    ppl.align(data)
    for name, array in before.items():
        assert_allclose(data["posterior"][name], array)
    assert "alignment" not in group_names(data)


def test_class_probabilities_decide_where_they_are_there():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 150)
    sure = np.where(label[:, None] == np.arange(3), 8.0, 0.0)
    logits = sure + rng.standard_normal((2, 100, 150, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    # Parameters that say nothing, and one that tells which component it was.
    values, orders = switched({"coef": rng.standard_normal((2, 100, 3, 2))})
    tag = np.take_along_axis(np.tile(np.arange(3.0), (2, 100, 1)), orders, axis=2)
    p = np.take_along_axis(p, orders[:, :, None], axis=3)
    posterior = values | {"tag": tag}
    dims = {"coef": DIMS["coef"], "tag": ["component"]}
    data = with_classes(draws_of({"posterior": (posterior, dims)}, {}), p)
    found = ppl.align(data)
    tags = found["posterior"]["tag"].to_numpy()
    assert (tags == tags[0, 0]).all()
    mean = found["classes"]["probability"].to_numpy()
    assert (tags[0, 0][mean.argmax(axis=1)] == label).all()


def test_a_gate_and_standard_variables_go_along():
    want = around(3)
    rng = np.random.default_rng(3)
    gate = np.array([[0, 0], [1, 2], [-2, 1.0]]) + 0.01 * rng.standard_normal((2, 200, 3, 2))
    gate[:, :, 0] = 0
    want["gate"] = gate
    values, _ = switched(want)
    values["gate"] = values["gate"] - values["gate"][:, :, :1]
    values["beta"] = values["coef"].reshape(2, 200, 9)
    values["gate_standard"] = values["gate"][:, :, 1:]
    values["other"] = rng.standard_normal((2, 200))
    found = ppl.align(as_data(values))["posterior"]
    assert_allclose(found["beta"], found["coef"].to_numpy().reshape(2, 200, 9))
    assert_allclose(found["gate_standard"], found["gate"].to_numpy()[:, :, 1:])
    assert not found["gate"].to_numpy()[:, :, 0].any()
    assert_allclose(found["gate"].std(["chain", "draw"]), 0, atol=0.03)
    assert_allclose(found["other"], values["other"])


@pytest.mark.parametrize("also", [(), ("gate",)])
@pytest.mark.parametrize("noise", [False, True])
def test_a_gate_of_all_classes_but_the_first_goes_along(noise, also):
    rng = np.random.default_rng(0)
    coef = np.tile([[1.0], [5.0]], (2, 50, 1, 1)) + 0.1 * rng.standard_normal((2, 50, 2, 1))
    coef[1] = coef[1, :, ::-1]
    # Of components 1 and 2 and a background; the second chain has the components switched.
    gate = np.array([[0.8], [-3.0]])[: 1 + noise]
    switched = np.array([[-0.8], [-3.8]])[: 1 + noise]
    weights = np.full((2, 50, 2 + noise), 1 / (2 + noise))
    variables = {"coef": coef, "gate": np.stack([np.tile(g, (50, 1, 1)) for g in (gate, switched)])}
    dims = {"coef": ["component", "term"], "weights": ["class"]}
    labels = {"component": [1, 2], "term": ["x"], "class": [1, 2, "noise"][: 2 + noise]}
    data = draws_of({"posterior": (variables | {"weights": weights}, dims)}, labels)
    found = ppl.align(data, also=also).posterior["gate"].to_numpy()
    assert_allclose(found, np.broadcast_to(gate, found.shape))


def test_variables_without_the_dimension_are_named():
    want = around(3)
    want["slope"] = want["coef"][..., 0]
    values, _ = switched(want)
    with pytest.warns(UserWarning, match=r"slope keep their order.*also=\['slope'\]"):
        ppl.align(as_data(values))
    found = ppl.align(as_data(values), also=["slope"])["posterior"]
    assert_allclose(found["slope"], found["coef"].to_numpy()[..., 0])
    with pytest.raises(InputError, match="also='nobody' is not in the posterior"):
        ppl.align(as_data(values), also=["nobody"])


def test_components_must_have_a_dimension():
    data = draws_of({"posterior": ({"coef": np.zeros((1, 5, 2, 2))}, {})}, {})
    with pytest.raises(InputError, match=r"no variable .* has the dimension 'component'"):
        ppl.align(data)


def test_components_that_are_the_same_are_refused():
    rng = np.random.default_rng(0)
    values = around(3)
    values["coef"][:, :, 2] = values["coef"][:, :, 1] + 0.1 * rng.standard_normal((2, 200, 3))
    values, _ = switched(values)
    with pytest.raises(AlignmentError, match=r"components \d and \d cannot"):
        ppl.align(as_data(values))


@pytest.mark.parametrize("seed", range(3))
def test_draws_of_a_posterior_with_too_many_components_are_refused(seed):
    # One line, two components: the posterior of each is that of the other.
    rng = np.random.default_rng(seed)
    n, draws = 300, 400
    y = rng.standard_normal(n)
    means = 0.15 * rng.standard_normal((draws, 2))
    share = rng.uniform(0.2, 0.8, draws)
    share = np.column_stack([share, 1 - share])
    logs = np.log(share)[:, None] - 0.5 * (y[None, :, None] - means[:, None]) ** 2
    p = np.exp(logs - logs.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    data = with_classes(as_data({"coef": means[None, :, :, None]}), p[None])
    with pytest.raises(AlignmentError, match="components 1 and 2 cannot be told apart"):
        ppl.align(data)


@pytest.mark.parametrize("groups", [False, True])
def test_draws_of_a_fit_are_aligned_with_their_classes(groups):
    data = mixed_linear_equations(n=300, p=3, k=3, noise=0.3, seed=1)
    who = np.repeat(np.arange(100), 3) if groups else None
    res = MixReg(data.y, data.X, k=3, groups=who).fit()
    drawn = res.to_arviz(60)
    values = {name: drawn["posterior"][name].to_numpy() for name in ("coef", "scale", "weights")}
    values, _ = switched(values)
    import pymc as pm

    with pm.Model() as model:
        coef = pm.Normal("coef", 0, 1, shape=(3, 3))
        scale = pm.HalfNormal("scale", 1, shape=3)
        weights = pm.Dirichlet("weights", np.ones(3))
        ppl.MixtureRegression(
            "y", data.X, k=3, coef=coef, scale=scale, weights=weights, observed=data.y, groups=who
        )
    found = ppl.align(ppl.classify(as_data(values), model))
    again = ppl.classify(found, model)
    for name in ("probability", "probability_by_draw", "label"):
        assert_allclose(found["classes"][name], again["classes"][name])
    if groups:
        for name in ("row_probability", "row_label"):
            assert_allclose(found["classes"][name], again["classes"][name])
    same_up_to_one_order(
        found["posterior"]["coef"].to_numpy(), drawn["posterior"]["coef"].to_numpy()
    )
