"""Class probabilities: a gate says how likely each class is before a unit's rows are seen.

A gate works on `Parameters.gating`, (K, [runs,] width): constant weights have
one column, their logarithms; a multinomial logit has one for each concomitant
variable. Another kind of gate is another class that does what `Gate` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from mixreg.families.statistics import solved
from mixreg.mixture.gate_posterior import DirichletPosterior, GatePosterior, LogitPosterior
from mixreg.mixture.gate_statistics import GateStatistics, LogitStatistics
from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.sources.base import Source
from mixreg.sources.block import Block, GramBlock, column_pairs
from mixreg.sources.standard import gate_basis, gate_triangle

Array = NDArray[np.float64]

LONGEST_STEP = 5.0


class Gate(Protocol):
    """What a mixture asks of its class probabilities."""

    @property
    def terms(self) -> int:
        """Number of concomitant variables."""

    @property
    def width(self) -> int:
        """Columns of `Parameters.gating`; a class but the first has as many parameters."""

    @property
    def constant(self) -> bool:
        """Whether all units have the same class probabilities."""

    @property
    def closed_form(self) -> bool:
        """Whether an update reaches the maximum at once, from the counts of the classes."""

    def reads(self, z: Array | None) -> bool:
        """Whether these concomitants, or none, say how likely classes are."""

    def coordinates(self, source: Source, terms: tuple[str, ...]) -> Array | None:
        """Basis of the standard concomitants, (q, q), if there are any."""

    def names(self, terms: Sequence[str], classes: Sequence[str]) -> list[str]:
        """Names of the parameters of classes 2..K."""

    def log_prior(self, block: Block | GramBlock, params: Parameters) -> Array:
        """Log class probability of each unit, (K, [runs,] units or 1)."""

    def statistics(self, block: Block | GramBlock, params: Parameters, resp: Array) -> Any:
        """Sums of its M-step, given weighted responsibilities (K, [runs,] units)."""

    def update(self, count: Array, sums: Any, params: Parameters) -> Array:
        """M-step: the new gating, from counts (K, [runs]) and the sums of `statistics`."""

    def score(self, count: Array, sums: Any, params: Parameters) -> Array:
        """Gradient in the parameters of classes 2..K, of a stack of one run."""

    def variables(self, block: Block | GramBlock) -> Array:
        """What the parameters of a class are multiplied with, (units, width)."""

    def information(self, block: Block, params: Parameters, resp: Array) -> Array:
        """Minus the second derivatives in classes 2..K of one mixture, labels given."""

    def widen(self, gating: Array) -> Array:
        """Gating of a start, whose class probabilities may be constant, as one of this gate."""

    def settled(self, gating: Array) -> Array:
        """The same class probabilities as an update would write them."""

    def metric(self, params: Parameters) -> Array | float:
        """How much a change of gating counts in the length of a step."""

    def empty(self, params: Parameters, rows: float) -> NDArray[np.bool_]:
        """Components of a stack that hold less than one of some rows, (k, runs)."""

    @property
    def posterior(self) -> GatePosterior:
        """What variational Bayes believes of it."""

    # What probabilistic programming asks

    def graph(self, pm: Any, pt: Any, basis: Array | None, classes: int, priors: Any) -> Any:
        """Gating in standard coordinates as variables of a PyMC model, (K, width).

        Parameters
        ----------
        pm, pt : modules
            `pymc` and `pytensor.tensor`, which are not imported here.
        basis : (q, q) array or None
            Of the standard concomitants.
        classes : int
        priors : Priors
        """

    def prior_graph(self, pt: Any, gating: Any, block: Block) -> Any:
        """Log class probabilities of a gating that is a graph, (K, 1) or (K, units)."""

    def point(self, params: Parameters) -> dict[str, Array]:
        """Values of the variables of `graph` at one mixture."""

    def draws(self, params: Parameters) -> dict[str, Array]:
        """What a stack says beside average weights, by name, draws first."""

    def from_draws(self, find: Callable[[str], Array]) -> Array:
        """Gating of a stack from the variables of `graph`, which have draws first."""


@dataclass(frozen=True, slots=True)
class ConstantGate:
    """The same class probabilities for all units."""

    @property
    def terms(self) -> int:
        """None."""
        return 0

    @property
    def width(self) -> int:
        """One column, of log weights."""
        return 1

    @property
    def constant(self) -> bool:
        """That is what it is."""
        return True

    @property
    def closed_form(self) -> bool:
        """Weights are shares."""
        return True

    def reads(self, z: Array | None) -> bool:
        """Nothing need be known of a unit."""
        return True

    def coordinates(self, source: Source, terms: tuple[str, ...]) -> None:
        """There are no concomitants."""

    def names(self, terms: Sequence[str], classes: Sequence[str]) -> list[str]:
        """Names of the parameters of classes 2..K."""
        return [f"logit(weight)[{j}]" for j in classes]

    def log_prior(self, block: Block | GramBlock, params: Parameters) -> Array:
        """Log class probability of all units, (K, [runs,] 1)."""
        return params.log_weights[..., None]

    def statistics(
        self, block: Block | GramBlock, params: Parameters, resp: Array
    ) -> GateStatistics:
        """Nothing but the counts is needed."""
        return GateStatistics()

    def update(self, count: Array, sums: GateStatistics, params: Parameters) -> Array:
        """Shares of the counts."""
        return log_gating(np.asarray(count / count.sum(axis=0)))

    def score(self, count: Array, sums: GateStatistics, params: Parameters) -> Array:
        """Counts less those expected."""
        own: Array = count[:, 0]
        return np.asarray((own - own.sum() * params.weights)[1:])

    def variables(self, block: Block | GramBlock) -> Array:
        """A constant."""
        return np.ones((block.units, 1))

    def information(self, block: Block, params: Parameters, resp: Array) -> Array:
        """That of a multinomial."""
        pi = params.weights[1:]
        return np.asarray(resp.sum() * (np.diag(pi) - np.outer(pi, pi)))

    def widen(self, gating: Array) -> Array:
        """As it is."""
        return gating

    def settled(self, gating: Array) -> Array:
        """Log weights that add up to one; else the sum would count as a step."""
        return np.asarray(log_softmax(gating, axis=0))

    def metric(self, params: Parameters) -> Array:
        """Log weights of a component that empties run off; they count as weights do."""
        return params.weights[..., None]

    def empty(self, params: Parameters, rows: float) -> NDArray[np.bool_]:
        """Components whose weight is less than one row."""
        return np.asarray(rows * params.weights[: params.k] < 1)

    @property
    def posterior(self) -> DirichletPosterior:
        """Counts."""
        return DirichletPosterior()

    def graph(self, pm: Any, pt: Any, basis: Array | None, classes: int, priors: Any) -> Any:
        """Weights with a Dirichlet prior."""
        if classes == 1:
            pm.Deterministic("weights", pt.ones(1), dims="class")
            return pt.zeros((1, 1))
        weights = pm.Dirichlet("weights", np.full(classes, priors.concentration), dims="class")
        return pt.log(weights)[:, None]

    def prior_graph(self, pt: Any, gating: Any, block: Block) -> Any:
        """The log weights."""
        return gating

    def point(self, params: Parameters) -> dict[str, Array]:
        """The weights, if there are several classes."""
        return {"weights": params.weights} if len(params.gating) > 1 else {}

    def draws(self, params: Parameters) -> dict[str, Array]:
        """Nothing else."""
        return {}

    def from_draws(self, find: Callable[[str], Array]) -> Array:
        """Log weights."""
        return np.log(find("weights")).T[..., None]


@dataclass(frozen=True, slots=True)
class LogitGate:
    """A multinomial logit on concomitant variables, the first of them a constant.

    Attributes
    ----------
    terms : int
    """

    terms: int

    @property
    def width(self) -> int:
        """One column a variable."""
        return self.terms

    @property
    def constant(self) -> bool:
        """Units differ."""
        return False

    @property
    def closed_form(self) -> bool:
        """Newton's steps are needed."""
        return False

    def reads(self, z: Array | None) -> bool:
        """Concomitants must be there."""
        return z is not None

    def coordinates(self, source: Source, terms: tuple[str, ...]) -> Array:
        """Orthonormal, a constant first."""
        return gate_basis(source.sweep(gate_triangle), terms)

    def names(self, terms: Sequence[str], classes: Sequence[str]) -> list[str]:
        """Names of the parameters of classes 2..K."""
        return [f"gate.{term}[{j}]" for j in classes for term in terms]

    def log_prior(self, block: Block | GramBlock, params: Parameters) -> Array:
        """Log class probability of each unit, (K, [runs,] units)."""
        utility = params.gating @ _concomitants(block).T
        utility -= utility.max(axis=0)
        utility -= np.log(np.exp(utility).sum(axis=0))
        return np.asarray(utility)

    def statistics(
        self, block: Block | GramBlock, params: Parameters, resp: Array
    ) -> LogitStatistics:
        """Score and information of a Newton step."""
        z = _concomitants(block)
        prior, total = np.exp(self.log_prior(block, params)), resp.sum(axis=0)
        score = (resp - total * prior) @ z
        pairs, K = column_pairs(z), prior.shape[0]
        info = np.empty((K, K, *prior.shape[1:-1], pairs.shape[1]))
        for j in range(K):
            for other in range(j, K):
                mixed = prior[j] * ((j == other) - prior[other]) * total
                info[j, other] = info[other, j] = mixed @ pairs
        return LogitStatistics(score, info)

    def update(self, count: Array, sums: LogitStatistics, params: Parameters) -> Array:
        """One Newton step."""
        gate = params.gating - params.gating[:1]
        K, q = gate.shape[0], gate.shape[-1]
        if K == 1:
            return gate
        lhs = sums.matrix()
        score = np.moveaxis(sums.score[1:], 0, -2)
        score = score.reshape(*score.shape[:-2], (K - 1) * q)
        ridge = 1e-8 * count.sum(axis=0)[..., None, None]
        step = solved(lhs + ridge * np.eye((K - 1) * q), score[..., None])[..., 0]
        length = np.abs(step).max(axis=-1, keepdims=True)
        step = step * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-300))
        step = np.moveaxis(step.reshape(*step.shape[:-1], K - 1, q), -2, 0)
        return np.concatenate([gate[:1], gate[1:] + step])

    def score(self, count: Array, sums: LogitStatistics, params: Parameters) -> Array:
        """Gradient in the coefficients of classes 2..K."""
        return sums.score[1:, 0].ravel()

    def variables(self, block: Block | GramBlock) -> Array:
        """The concomitants."""
        return _concomitants(block)

    def information(self, block: Block, params: Parameters, resp: Array) -> Array:
        """Minus the second derivatives in the coefficients of classes 2..K."""
        return self.statistics(block, params, resp).matrix()

    def widen(self, gating: Array) -> Array:
        """Log weights (K, [runs,] 1) as coefficients of the constant."""
        if gating.shape[-1] == self.width:
            return gating
        out = np.zeros((*gating.shape[:-1], self.width))
        out[..., 0] = gating[..., 0] - gating[:1, ..., 0]
        return out

    def settled(self, gating: Array) -> Array:
        """As it is."""
        return gating

    def metric(self, params: Parameters) -> float:
        """Coefficients count as they are."""
        return 1.0

    def empty(self, params: Parameters, rows: float) -> NDArray[np.bool_]:
        """Not known from the parameters alone."""
        return np.zeros(params.coef.shape[:-1], dtype=bool)

    @property
    def posterior(self) -> LogitPosterior:
        """Normal coefficients."""
        return LogitPosterior(self)

    def graph(self, pm: Any, pt: Any, basis: Array | None, classes: int, priors: Any) -> Any:
        """Standard coefficients with a normal prior, those of the first class zero."""
        free = pm.Normal("gate_standard", 0.0, priors.gate_scale, shape=(classes - 1, self.width))
        gate = pt.concatenate([pt.zeros((1, self.width)), free])
        assert basis is not None
        pm.Deterministic("gate", pt.dot(gate, basis.T), dims=("class", "gate_term"))
        return gate

    def prior_graph(self, pt: Any, gating: Any, block: Block) -> Any:
        """Utilities less the logarithm of their sum."""
        utility = pt.dot(gating, _concomitants(block).T)
        top = pt.max(utility, axis=0)
        return utility - top - pt.log(pt.sum(pt.exp(utility - top), axis=0))

    def point(self, params: Parameters) -> dict[str, Array]:
        """Standard coefficients of classes 2..K."""
        return {"gate_standard": params.gating[1:] - params.gating[:1]}

    def draws(self, params: Parameters) -> dict[str, Array]:
        """The coefficients."""
        return {"gate": np.moveaxis(params.gating - params.gating[:1], 1, 0)}

    def from_draws(self, find: Callable[[str], Array]) -> Array:
        """The coefficients."""
        return np.moveaxis(find("gate"), 0, 1)


def make_gate(terms: int) -> Gate:
    """The gate on some number of concomitant variables."""
    return LogitGate(terms) if terms else ConstantGate()


def _concomitants(block: Block | GramBlock) -> Array:
    """Concomitant variables of a block's units."""
    assert block.z is not None
    return block.z
