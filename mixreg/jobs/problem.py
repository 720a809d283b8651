"""What is to be fitted, how, and what came of it, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators import Control, Run
from mixreg.estimators.beliefs import Beliefs
from mixreg.estimators.priors import Priors
from mixreg.exact.reasons import WhyTight, permuted
from mixreg.inference.last_pass import LastPass
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters, new_numbers
from mixreg.search.effort import Effort
from mixreg.search.record import Record
from mixreg.search.tensor import TensorResult, TensorStart
from mixreg.sources import Source
from mixreg.sources.standard import Whitening

Array = NDArray[np.float64]
Method = Literal["em", "altmin", "vb"]


@dataclass(frozen=True, slots=True)
class Options:
    """What `fit` was asked to do.

    Attributes
    ----------
    method : {"em", "altmin", "vb"}
    init : "auto", "random", TensorStart, or a start
        A start is responsibilities (k, units) or `Parameters` in standard
        coordinates.
    effort : Effort
    control : Control
    seed : int
    resample : int or None
        Number of fresh samples for AltMin.
    priors : Priors
        For variational Bayes.
    told : bool
        Whether moments are decomposed to be told of, where the start does not need them.
    """

    method: Method
    init: str | TensorStart | Parameters | Array
    effort: Effort
    control: Control
    seed: int
    resample: int | None = None
    priors: Priors = field(default_factory=Priors)
    told: bool = True


@dataclass(frozen=True, slots=True)
class Solution:
    """A finished fit in standard coordinates, with what was learnt on the way.

    Attributes
    ----------
    run : Run
        Components ordered by weight; objective is the log-likelihood.
    exact : bool
        Zero loss: every row lies on a component.
    certified : bool
        Zero loss, and no other components can fit every row: these are the
        components. See `exact/certificate.py`.
    tensors : tuple of TensorResult
        Decompositions of the moments, one for each trial noise variance.
    search : Record or None
    binds : bool
        Whether the bound on the variances binds.
    empty : tuple of int
        Components (from 0) that stayed empty.
    revived : int
        Times that an empty component was seeded again.
    suspects : tuple of int
        Components (from 0) that may be accidents of a few rows.
    last : LastPass
        What the rows add up to where it ended.
    beliefs : Beliefs or None
        The posterior, of variational Bayes.
    elbo : float or None
        Its evidence lower bound.
    reasons : tuple of WhyTight
        Why components are at the bound on the variances, or exact without a
        certificate; of linear regressions with one response.
    rounded : tuple of (float, float)
        Of each response whose grain was allowed for, how widely values are rounded (the median
        width, in the user's units) and which share of them ties; zeros for others.
    narrow : tuple of int
        Components (from 0) that a maximum of the density would have made narrower than that.
    user : Parameters or None
        The same in the user's units, as they are reported: on the way there and back
        digits are lost. None if they are what the standard ones lead to.
    """

    run: Run
    exact: bool
    certified: bool
    tensors: tuple[TensorResult, ...]
    search: Record | None
    binds: bool
    empty: tuple[int, ...]
    revived: int
    suspects: tuple[int, ...]
    last: LastPass
    beliefs: Beliefs | None = None
    elbo: float | None = None
    reasons: tuple[WhyTight, ...] = ()
    rounded: tuple[tuple[float, float], ...] = ()
    narrow: tuple[int, ...] = ()
    user: Parameters | None = None

    def permute(self, order: NDArray[np.intp]) -> Solution:
        """Reorder the components; sums of standard errors are to be made anew."""
        return replace(
            self,
            run=replace(self.run, params=self.run.params.permute(order)),
            user=None if self.user is None else self.user.permute(order),
            beliefs=None if self.beliefs is None else self.beliefs.permute(order),
            empty=new_numbers(self.empty, order),
            suspects=new_numbers(self.suspects, order),
            narrow=new_numbers(self.narrow, order),
            reasons=permuted(self.reasons, order),
            last=replace(self.last, information=None, xx=None),
        )


@dataclass(frozen=True)
class Problem:
    """All that a fit needs, and nothing that cannot be sent to another process.

    Attributes
    ----------
    source : Source
        Rows with the user's columns.
    mixture : Mixture
    whitening : Whitening
    k : int
    """

    source: Source
    mixture: Mixture
    whitening: Whitening
    k: int
