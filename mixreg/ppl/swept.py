"""A mixture's log-likelihood as one PyTensor operation: value and gradient by a sweep.

A graph of all rows holds arrays of components by rows, several of them. A sweep
holds a block at a time, so its memory does not grow with the rows, and a source
need not have them in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numba
import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.gradient import DisconnectedType, grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch import basic as dispatch

from mixreg.inference.score import value_and_score
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.ppl.mixed import Mixed
from mixreg.sources import Swept

Array = NDArray[np.float64]


class SweptLikelihood(Op):
    """Log-likelihood of a flat vector, and its gradient, both from one pass.

    Attributes
    ----------
    rows : Swept
        In standard coordinates.
    mixture : Mixture
    layout : Layout
        With nothing in common between components.
    mixed : Mixed or None
        The mixture as part of a PyMC model.
    """

    def __init__(
        self, rows: Swept, mixture: Mixture, layout: Layout, mixed: Mixed | None = None
    ) -> None:
        self.rows, self.mixture, self.layout, self.mixed = rows, mixture, layout, mixed
        self.number = _enter(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Another process, or a copy, has a number of its own."""
        self.__dict__.update(state)
        self.number = _enter(self)

    def at(self, vector: Array) -> tuple[Array, Array]:
        """Value and gradient."""
        value, slope = value_and_score(self.rows, self.mixture, self.layout.unpack(vector))
        return np.asarray(value), slope

    def make_node(self, *inputs: Any) -> Apply:
        """A number and a vector, from a vector."""
        return Apply(self, [pt.as_tensor(*inputs)], [pt.dscalar(), pt.dvector()])

    def perform(self, node: Apply, inputs: Sequence[Array], outputs: list[list[Any]]) -> None:
        """Sweep."""
        outputs[0][0], outputs[1][0] = self.at(inputs[0])

    def pullback(
        self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]
    ) -> list[Any]:
        """The gradient is there already; second derivatives are not."""
        if not isinstance(cotangents[1].type, DisconnectedType):
            return [grad_not_implemented(self, 0, inputs[0], "use likelihood='graph'")]
        return [cotangents[0] * outputs[1]]

    def L_op(
        self, inputs: Sequence[Any], outputs: Sequence[Any], output_grads: Sequence[Any]
    ) -> list[Any]:
        """What PyTensor 2 calls it."""
        return self.pullback(inputs, outputs, output_grads)


# Numba would put a copy of an operation, rows and all, into the code it makes. So its code has the
# number of an operation, which is looked up here; models keep their operations alive.
_numbers = count()
_known: WeakValueDictionary[int, SweptLikelihood] = WeakValueDictionary()


def _enter(operation: SweptLikelihood) -> int:
    number = next(_numbers)
    _known[number] = operation
    return number


def at_number(number: int, vector: Array) -> tuple[Array, Array]:
    """Value and gradient of an operation that is known by its number."""
    if number not in _known:
        raise RuntimeError("the PyMC model of this likelihood is gone; keep it while it is in use")
    return _known[number].at(vector)


@dispatch.numba_funcify.register(SweptLikelihood)
def in_numba(op: SweptLikelihood, node: Any = None, **kwargs: Any) -> Callable[..., Any]:
    """The operation for Numba, the compiler of PyMC 6 and of nutpie: a call of Python."""
    number = op.number
    returned = numba.types.Tuple([dispatch.get_numba_type(each.type) for each in node.outputs])

    @dispatch.numba_njit
    def perform(vector: Any) -> Any:
        with numba.objmode(found=returned):
            found = at_number(number, vector)
        return found

    return perform
