"""Gates: constant class probabilities, and a multinomial logit, behind one protocol."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixreg.inference.averages import TakeGate, average_gate, average_weights
from mixreg.mixture.gate import ConstantGate, LogitGate, make_gate
from mixreg.mixture.gate_statistics import GateStatistics
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import in_memory
from tests.samples import random_mixture, random_source

EVERY = pytest.mark.parametrize("terms", [0, 1, 3])
UNITS, K = 50, 3


def block_of(terms: int):
    """A block whose units have concomitants, and unequal weights."""
    rng = np.random.default_rng(0)
    z = np.column_stack([np.ones(UNITS), rng.normal(size=(UNITS, 2))])[:, :terms]
    source = replace(random_source(UNITS, 2), weight=rng.uniform(0.5, 2.0, UNITS))
    return replace(source, z=z if terms else None).as_block()


def params_of(terms: int, seed: int = 0):
    """A mixture with a random gate."""
    params, gate = random_mixture(K, 2), make_gate(terms)
    gating = np.random.default_rng(seed).normal(size=(K, gate.width))
    return replace(params, gating=gate.settled(gating - gating[:1]))


def labels(block) -> np.ndarray:
    """Weighted responsibilities, (K, units)."""
    return np.random.default_rng(2).dirichlet(np.ones(K), UNITS).T * block.weight


def log_likelihood(gate, block, params, resp) -> float:
    return float((resp * gate.log_prior(block, params)).sum())


def moved(gate, params, step):
    """Parameters with the gate of classes 2..K moved by a flat step."""
    gating = params.gating - params.gating[:1]
    gating[1:] += step.reshape(-1, gate.width)
    return replace(params, gating=gate.settled(gating))


@EVERY
def test_class_probabilities_add_up_to_one(terms):
    gate, block, params = make_gate(terms), block_of(terms), params_of(terms)
    prior = np.exp(gate.log_prior(block, params))
    assert_allclose(prior.sum(axis=0), 1.0)
    each = np.broadcast_to(prior, (K, UNITS))
    assert_allclose(
        TakeGate(gate)(block, params).average, np.average(each, axis=1, weights=block.weight)
    )
    assert_allclose(np.exp(gate.log_prior(block, replace(params, gating=params.gating + 1))), prior)


@EVERY
def test_score_and_information_are_derivatives(terms):
    gate, block, params = make_gate(terms), block_of(terms), params_of(terms)
    resp, h = labels(block), 1e-5

    def score(at):
        sums = gate.statistics(block, at.stacked(), resp[:, None])
        return gate.score(resp.sum(axis=1)[:, None], sums, at)

    def value(step):
        return log_likelihood(gate, block, moved(gate, params, step), resp)

    steps = h * np.eye((K - 1) * gate.width)
    slope = [(value(e) - value(-e)) / (2 * h) for e in steps]
    assert_allclose(score(params), slope, rtol=1e-6, atol=1e-6)
    bend = [score(moved(gate, params, e)) - score(moved(gate, params, -e)) for e in steps]
    info = gate.information(block, params, resp)
    assert_allclose(info, -np.array(bend) / (2 * h), rtol=1e-5, atol=1e-5)


@EVERY
def test_updates_lead_to_the_maximum(terms):
    gate, block, params = make_gate(terms), block_of(terms), params_of(terms).stacked()
    resp = labels(block)[:, None]
    count = resp.sum(axis=-1)
    for _ in range(1 if gate.closed_form else 20):
        sums = gate.statistics(block, params, resp)
        params = replace(params, gating=gate.update(count, sums, params))
    sums = gate.statistics(block, params, resp)
    assert_allclose(gate.score(count, sums, params.run(0)), 0.0, atol=1e-6)


@EVERY
def test_sums_of_parts_are_those_of_the_whole(terms):
    gate, block, params = make_gate(terms), block_of(terms), params_of(terms).stacked()
    resp, both = labels(block)[:, None], np.array([True])
    one, two = (block.cut(a, b) for a, b in ((0, 20), (20, UNITS)))
    parts = gate.statistics(one, params, resp[..., :20])
    parts = parts + gate.statistics(two, params, resp[..., 20:])
    whole, count = gate.statistics(block, params, resp), resp.sum(axis=-1)
    for sums in (parts, parts.take(both), parts.choose(~both, whole)):
        assert_allclose(gate.update(count, sums, params), gate.update(count, whole, params))


def test_a_logit_on_a_constant_is_constant():
    constant, logit, block = ConstantGate(), LogitGate(1), block_of(1)
    params, resp = params_of(0), labels(block)
    assert_allclose(
        np.broadcast_to(constant.log_prior(block, params), (K, UNITS)),
        logit.log_prior(block, params),
    )
    assert_allclose(
        constant.information(block, params, resp), logit.information(block, params, resp)
    )
    averages = [TakeGate(gate)(block, params).average for gate in (constant, logit)]
    assert_allclose(*averages)
    assert isinstance(constant.statistics(block, params, resp), GateStatistics)


def test_a_start_is_widened_and_keeps_its_probabilities():
    start, gate = random_mixture(K, 2, runs=4), LogitGate(3)
    wide = Mixture(gate=gate).prepare(start)
    assert wide.gating.shape == (K, 4, 3)
    assert_array_equal(wide.gating[..., 1:], 0.0)
    assert_allclose(wide.weights, start.weights)
    assert gate.widen(wide.gating) is wide.gating
    assert ConstantGate().widen(start.gating) is start.gating


def test_names_are_those_of_the_layout():
    assert Layout(3, ("x",)).names[-2:] == ["logit(weight)[2]", "logit(weight)[3]"]
    noisy = Layout(2, ("x",), gate=("Intercept", "age"), background=True)
    assert noisy.names[-4:] == [f"gate.{t}[{j}]" for j in (2, "noise") for t in noisy.gate]
    assert noisy.size == 2 * 2 + 2 * LogitGate(2).width


def test_components_with_less_than_a_row_are_empty():
    params = replace(random_mixture(2, 2, runs=2), gating=np.log([[[0.9]] * 2, [[0.1]] * 2]))
    assert_array_equal(ConstantGate().empty(params, 5.0), [[False] * 2, [True] * 2])
    assert not LogitGate(2).empty(params, 5.0).any()


@EVERY
def test_only_a_constant_gate_can_do_without_concomitants(terms):
    gate, block = make_gate(terms), block_of(terms)
    assert gate.reads(block.z)
    assert gate.reads(None) == gate.constant == (terms == 0)


@EVERY
def test_average_weights_of_a_stack_are_those_of_its_mixtures(terms):
    gate, source = make_gate(terms), in_memory(block_of(terms))
    each = [params_of(terms, seed) for seed in range(3)]
    stack = Parameters.concatenate([params.stacked() for params in each])
    expected = [average_gate(source, gate, params).average for params in each]
    assert_allclose(average_weights(source, gate, stack).T, expected)


@EVERY
def test_draws_lead_back_to_the_gate(terms):
    gate, params = make_gate(terms), params_of(terms)
    found = {"weights": params.weights[None], **gate.draws(params.stacked())}
    assert_allclose(
        gate.log_prior(block_of(terms), replace(params, gating=gate.from_draws(found.get)[:, 0])),
        gate.log_prior(block_of(terms), params),
    )
