"""A mixture's log-likelihood as one PyTensor operation: value and gradient by a sweep.

A graph of all rows holds arrays of components by rows, several of them. A sweep
holds a block at a time, so its memory does not grow with the rows, and a source
need not have them in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.gradient import DisconnectedType, grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from mixreg.inference.score import value_and_score
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
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
    """

    def __init__(self, rows: Swept, mixture: Mixture, layout: Layout) -> None:
        self.rows, self.mixture, self.layout = rows, mixture, layout

    def make_node(self, *inputs: Any) -> Apply:
        """A number and a vector, from a vector."""
        return Apply(self, [pt.as_tensor(*inputs)], [pt.dscalar(), pt.dvector()])

    def perform(self, node: Apply, inputs: Sequence[Array], outputs: list[list[Any]]) -> None:
        """Sweep."""
        params = self.layout.unpack(inputs[0])
        value, slope = value_and_score(self.rows, self.mixture, params)
        outputs[0][0], outputs[1][0] = np.asarray(value), slope

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

    def infer_shape(self, fgraph: Any, node: Apply, shapes: Sequence[Any]) -> list[Any]:
        """The gradient is as long as the vector."""
        return [(), shapes[0]]
