"""A mixture of regressions as a random variable of PyTensor: what it draws, and its density."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant
from pytensor.tensor.random.op import RandomVariable

from mixreg.mixture.parameters import Parameters
from mixreg.ppl.inference_data import observed
from mixreg.ppl.likelihood import all_rows, by_graph, drawn
from mixreg.ppl.mixed import Graphs, Mixed
from mixreg.report.drawing import taken_out
from mixreg.sources.block import Block

Array = NDArray[np.float64]


class MixtureVariable(RandomVariable):
    """Responses of all rows, given the parameters of a mixture.

    Attributes
    ----------
    mixed : Mixed
        The mixture, of which there is one for each variable: two variables are
        never taken for the same.
    """

    __props__: Any = ("name", "signature", "dtype", "inplace", "mixed")
    _print_name: ClassVar[tuple[str, str]] = (
        "MixtureRegression",
        "\\operatorname{MixtureRegression}",
    )

    def __init__(
        self,
        mixed: Mixed,
        name: str = "MixtureRegression",
        signature: str = "(k,p),(k),(c,q)->(n)",
        dtype: str = "float64",
        inplace: bool = False,
    ) -> None:
        self.mixed = mixed
        super().__init__(name=name, signature=signature, dtype=dtype, inplace=inplace)

    def responses(self, inputs: Sequence[Any]) -> Any:
        """The responses, given the graphs of some parameters.

        With a generator of their own, which PyMC seeds; from PyTensor 3 on a call without one,
        or one that does not ask for the generator after it, warns.
        """
        rng = pytensor.shared(np.random.default_rng())
        return self.make_node(rng, None, *inputs).default_output()

    def _supp_shape_from_params(self, dist_params: Any, param_shapes: Any = None) -> Any:
        return (pt.constant(np.int64(self.mixed.parts.nobs)),)

    def rng_fn(self, rng: np.random.Generator, *inputs: Any) -> Array:
        """Draw responses, once for each set of parameters."""
        *params, size = inputs
        cores = [np.ndim(each) - wanted for each, wanted in zip(params, self._cores, strict=True)]
        batch = np.broadcast_shapes(
            () if size is None else tuple(size),
            *(np.shape(each)[:lead] for each, lead in zip(params, cores, strict=True)),
        )
        wide = [
            np.broadcast_to(each, (*batch, *np.shape(each)[lead:]))
            for each, lead in zip(params, cores, strict=True)
        ]
        out = np.empty((*batch, self.mixed.parts.nobs))
        for at in np.ndindex(batch):
            out[at] = self.draw_once(rng, *(each[at] for each in wide))
        return out

    @property
    def _cores(self) -> Sequence[int]:
        return [2, 1, 2, 1][: len(self.ndims_params)]

    def draw_once(
        self,
        rng: np.random.Generator,
        coef: Array,
        dispersion: Array,
        gating: Array,
        offset: Array | None = None,
    ) -> Array:
        """Responses at one set of parameters, in the user's units and order."""
        known = (
            self._offset
            if offset is None
            else self._offset + self._user.own_order(offset, len(offset))
        )
        at = self.mixed.to_user(Parameters(coef, dispersion, gating))
        return drawn(self._user, self._block, at, known, rng)

    @cached_property
    def _user(self) -> Mixed:
        return Mixed(self.mixed.parts, False)

    @cached_property
    def _block(self) -> Block:
        """All rows, which are looked for once."""
        return all_rows(self._user)

    @cached_property
    def _offset(self) -> Array:
        """The offset that responses of a linear fit have lost."""
        known = taken_out(self.mixed.parts)
        return np.zeros(self.mixed.parts.nobs) if known is None else known


@_logprob.register(MixtureVariable)
def log_density(
    op: MixtureVariable, values: Sequence[Any], rng: Any, size: Any, *inputs: Any, **kwargs: Any
) -> Any:
    """Log density of each unit; the rows are those that the variable was made for."""
    [value] = values
    own = observed(op.mixed.parts)
    data: Any = value.data if isinstance(value, Constant) else None
    if data is None or not np.array_equal(data, own.astype(data.dtype)):
        raise NotImplementedError(
            "a MixtureRegression knows the density of its own rows only; for other data make "
            "another model with observed=..."
        )
    return by_graph(pt, op.mixed, Graphs(*inputs))
