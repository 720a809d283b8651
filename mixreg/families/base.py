"""What a family is: how rows are distributed around a linear predictor.

A family of your own derives from `Family` and says, for rows at given linear
predictors, their log density, its first derivative and minus its second. The
rest (E-step, M-step, standard errors, starts) follows from these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError
from mixreg.families.distribution import Distribution
from mixreg.families.informed import Informed
from mixreg.families.rows import Rows
from mixreg.families.statistics import (
    RIDGE,
    FamilyStatistics,
    cross_sums,
    linear_predictor,
    scoring_step,
)
from mixreg.families.uncertain import Uncertain
from mixreg.mixture.parameters import Parameters
from mixreg.sources.block import Block, column_pairs

Array = NDArray[np.float64]

# Smallest dispersion as a share of the largest, unless the user says otherwise.
VARIANCE_RATIO = 1e-4
# Largest change of a log dispersion in one step.
SCALE_STEP = 1.0


@dataclass(frozen=True)
class Family(Informed, Uncertain, Distribution):
    """Base of the families; see the module's text.

    Attributes
    ----------
    equal_dispersion : bool
        One dispersion for all components.
    variance_ratio : float
        Smallest dispersion as a share of the largest, in families that collapse.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg import MixReg
    >>> from mixreg.families import Family
    >>> class Waiting(Family):
    ...     # Exponential waiting times with a log link.
    ...     name, link_name = "waiting", "log"
    ...     def mean(self, eta):
    ...         return np.exp(eta)
    ...     def log_density(self, rows):
    ...         return -rows.eta - rows.y * np.exp(-rows.eta)
    ...     def score(self, rows):
    ...         return rows.y * np.exp(-rows.eta) - 1
    ...     def curvature(self, rows):
    ...         return rows.y * np.exp(-rows.eta)
    ...     def surrogate(self, y, trials):
    ...         return np.log(y)
    >>> rng = np.random.default_rng(0)
    >>> y = rng.exponential(rng.choice([1.0, 100.0], 400))
    >>> res = MixReg(y, np.ones((400, 1)), k=2, family=Waiting()).fit()
    >>> sorted(np.exp(res.coefficients.iloc[0]).round().tolist())
    [1.0, 104.0]
    """

    equal_dispersion: bool = False
    variance_ratio: float = VARIANCE_RATIO

    name: ClassVar[str] = "own"
    title: ClassVar[str] = "Regressions"
    # Name of the dispersion in tables, or None if there is none; reported is
    # dispersion ** dispersion_power.
    dispersion_name: ClassVar[str | None] = None
    dispersion_power: ClassVar[float] = 1.0
    # What the dispersion may be. A family that collapses has no maximum of the
    # likelihood unless dispersions are bounded against each other.
    scale_range: ClassVar[tuple[float, float]] = (1e-300, 1e300)
    collapses: ClassVar[bool] = False
    # Whether its log density takes what rounding hides of responses (`Rows.hidden`) into account.
    rounds: ClassVar[bool] = False
    # Linear in the coefficients with normal errors: groups can be condensed to
    # cross products, and a loss of zero is a certificate.
    linear: ClassVar[bool] = False
    certifies: ClassVar[bool] = False
    # What a pass of one run costs over that of a run in a stack; None: by the regressors.
    stack_gain: ClassVar[float | None] = None
    # Longest step of the linear predictor (root mean square over rows).
    longest_step: ClassVar[float] = 3.0
    # Whether the response has moments that a tensor start can be made of.
    moments: ClassVar[bool] = True
    # Whether quadratics may stand in for the log-likelihood of a group.
    expands: ClassVar[bool] = True
    # What the rows must have: trials behind a proportion (a response of two columns
    # is successes and failures); choice sets, in which a constant says nothing.
    takes_trials: ClassVar[bool] = False
    takes_sets: ClassVar[bool] = False
    # Links that may be asked for by name, canonical first.
    links: ClassVar[tuple[str, ...]] = ()

    @property
    def scale_name(self) -> str | tuple[str | None, ...] | None:
        """Name of the dispersion as a `Layout` has it."""
        return self.dispersion_name

    @property
    def scale_power(self) -> float | tuple[float, ...]:
        """Power of the dispersion as a `Layout` has it."""
        return self.dispersion_power

    @property
    def link_name(self) -> str:
        """Name of the link function."""
        return "identity"

    @property
    def additive(self) -> bool:
        """Whether a response is its linear predictor plus an error, on one scale."""
        return self.linear

    @property
    def own_units(self) -> bool:
        """Whether its dispersion is in squared units of the response, as whitening has it."""
        return self.linear

    # How it is made of what a user says

    @classmethod
    def make(cls, link: Any, equal_dispersion: bool, variance_ratio: float) -> Family:
        """The family as it is asked for by name."""
        if link is not None:
            raise InputError(f"link={link!r} has no place with family={cls.name!r}; leave it out")
        made = cls(variance_ratio=variance_ratio)
        return made.common() if equal_dispersion else made

    def with_link(self, link: Any) -> Family:
        """The same family with another link."""
        raise InputError(
            f"link={link!r} has no place beside family={type(self).__name__}; the family "
            "has its own"
        )

    def as_part(self) -> Family:
        """The same family as that of one response among several."""
        return self

    # What a family of your own must say

    def log_density(self, rows: Rows) -> Array:
        """Log density of each row."""
        raise self._lacks("log_density")

    def score(self, rows: Rows) -> Array:
        """Derivative of the log density in the linear predictor."""
        raise self._lacks("score")

    def curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the linear predictor."""
        raise self._lacks("curvature")

    def _lacks(self, method: str) -> InputError:
        return InputError(
            f"family {type(self).__name__} has no method {method}(rows); see docs/families.md"
        )

    # What it may say

    def weight(self, rows: Rows) -> Array:
        """Information about the linear predictor that scoring uses; not negative."""
        return np.abs(self.curvature(rows))

    def scale_score(self, rows: Rows) -> Array:
        """Derivative of the log density in the log dispersion."""
        raise self._lacks("scale_score")

    def scale_curvature(self, rows: Rows) -> Array:
        """Minus the second derivative in the log dispersion."""
        raise self._lacks("scale_curvature")

    def cross_curvature(self, rows: Rows) -> Array:
        """Minus the mixed derivative in linear predictor and log dispersion."""
        raise self._lacks("cross_curvature")

    def in_range(self, eta: Array) -> NDArray[np.bool_] | None:
        """Linear predictors that have a mean in its range, or None if all have."""
        return None

    @property
    def ranged(self) -> bool:
        """Whether some linear predictors have no mean, of any response."""
        return any(part.in_range(np.zeros(1)) is not None for part in self.parts)

    @property
    def predictor_range(self) -> tuple[float, float]:
        """Between which linear predictors means are in range; infinite if that is not known."""
        return -np.inf, np.inf

    def saturated(self, y: Array, trials: Array | None) -> Array | float:
        """Log density of each row at its best mean, or 0 if that is unknown."""
        return 0.0

    def surrogate(self, y: Array, trials: Array | None) -> Array:
        """A response for linear regressions that look for starts."""
        return y

    def surrogate_of(self, y: Array, trials: Array | None, size: float) -> Array:
        """`surrogate` of some rows; `size` is the mean absolute response of all rows."""
        return self.surrogate(y, trials)

    def check(self, y: Array, trials: Array | None) -> tuple[NDArray[np.bool_], str]:
        """Rows whose response is out of range, and what is allowed."""
        return np.zeros(len(y), dtype=bool), ""

    def draw(self, rows: Rows, rng: np.random.Generator) -> Array:
        """Draw responses."""
        raise InputError(f"family {self.name} cannot draw responses; give it a method `draw`")

    def draw_sets(self, eta: Array, sets: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Draw the responses of choice sets, which begin at `sets`."""
        raise self._lacks("draw_sets")

    def background(self, y: Array) -> float:
        """Length of the range over which a background component is even."""
        return float(y.max() - y.min())

    def draw_background(
        self, rows: Rows, low: float, length: float, rng: np.random.Generator
    ) -> Array:
        """Draw responses evenly over a range; `low` is the smallest response of the fit."""
        return np.asarray(low + rng.random(len(rows.y)) * length)

    def density_graph(self, pt: Any, block: Block, eta: Any, dispersion: Any) -> Any:
        """Log density of rows as a PyTensor graph, (k, rows); of choice sets, (k, sets).

        Parameters
        ----------
        pt : module
            `pytensor.tensor`, which is not imported here.
        block : Block
        eta, dispersion : graphs
            Linear predictors (k, rows), and dispersions (k, 1) or None.
        """
        raise InputError(
            f"family {self.name!r} has no PyMC version; give it a method `density_graph`"
        )

    def stand_in(self, y: Array, trials: Array | None, sizes: Array) -> Array:
        """`surrogate_of` some rows; `sizes` has one entry a response."""
        return self.surrogate_of(y, trials, float(sizes[0]))

    @property
    def parts(self) -> tuple[Family, ...]:
        """The family of each response."""
        return (self,)

    def named_links(self, response: str) -> list[tuple[str, str, str]]:
        """How the terms of each response begin, its link, and its name."""
        return [("", self.link_name, response)]

    def by_regressor(self, p: int) -> list[tuple[Family, int]]:
        """The family of each response, and how many of `p` regressors it has."""
        return [(self, p)]

    # What the sweep calls

    def common(self) -> Family:
        """The same family with one dispersion for all components."""
        return replace(self, equal_dispersion=True) if self.dispersion_name else self

    def evaluate(self, block: Block, params: Parameters) -> Any:
        """Rows at their linear predictors."""
        eta = linear_predictor(block, params.coef)
        return Rows(block.y, eta, self.mean(eta), params.dispersion[..., None], block.trials)

    def rows_at(self, y: Array, eta: Array, dispersion: Array, trials: Array | None) -> Rows:
        """Rows at given linear predictors."""
        return Rows(y, eta, self.mean(eta), dispersion, trials)

    def unit_density(self, block: Block, params: Parameters, state: Any) -> Array:
        """Log density of each unit under each component, (k, [runs,] units)."""
        return block.per_unit(self.log_density(state))

    def unit_loss(self, block: Block, params: Parameters, state: Any) -> Array:
        """What hard labels minimise, (k, [runs,] units)."""
        return -self.unit_density(block, params, state)

    def unit_misfit(self, block: Block, params: Parameters, state: Any) -> Array:
        """How badly each unit is fitted, (k, [runs,] units): comparable across units."""
        best = self.saturated(block.y, block.trials)
        return block.per_unit(best - self.log_density(state))

    def unit_expansion(self, block: Block, eta: Array, dispersion: Array) -> tuple[Array, Array]:
        """Information and score of each unit's coefficients, at linear predictors of its rows.

        Returns
        -------
        (units, p (p + 1) / 2) and (units, p) arrays
            Upper triangles, and scores.
        """
        rows = self.rows_at(block.y, eta, dispersion, block.trials)
        pairs = column_pairs(block.x) if block.pairs is None else block.pairs
        info = pairs * self.weight(rows)[:, None]
        score = block.x * self.score(rows)[:, None]
        return block.unit_sums(info), block.unit_sums(score)

    def unit_background(self, block: Block, length: float) -> Array:
        """Log density of each unit under a background component, (units,)."""
        return np.broadcast_to(-np.log(length) * np.asarray(block.size), (block.units,))

    def statistics(
        self, block: Block, params: Parameters, state: Any, responsibilities: Array
    ) -> FamilyStatistics:
        """Sums for the M-step, given weighted responsibilities (k, [runs,] units)."""
        r = block.per_row(responsibilities)
        xx, xe = cross_sums(block, r * self.weight(state), r * self.score(state))
        size = r.sum(axis=-1)
        if self.dispersion_name is None:
            return FamilyStatistics(size, xx, xe, np.empty((0, *size.shape)))
        parts = (self.scale_score(state), self.scale_curvature(state))
        return FamilyStatistics(size, xx, xe, np.array([(r * part).sum(axis=-1) for part in parts]))

    def score_statistics(
        self, block: Block, params: Parameters, state: Any, responsibilities: Array
    ) -> FamilyStatistics:
        """The sums that scores are made of; those of an M-step will do."""
        return self.statistics(block, params, state, responsibilities)

    def update(self, sums: FamilyStatistics, params: Parameters, shared: int = 0) -> Parameters:
        """M-step: one scoring step; the gate is left as it is."""
        ridge = 10 * RIDGE * sums.size.sum(axis=0) + 1e-300
        ridge = ridge + 1e-10 * np.trace(sums.xx, axis1=-2, axis2=-1).max(axis=0)
        step = scoring_step(sums.xx, sums.xe, ridge, shared)
        step = self.held_back(step, bool(shared))
        return Parameters(params.coef + step, self.dispersions(sums, params), params.gating)

    def held_back(self, step: Array, together: bool) -> Array:
        """A step (k, [runs,] p), no longer than allowed; one share for all if `together`."""
        length = np.linalg.norm(step, axis=-1, keepdims=True)
        if together:
            length = length.max(axis=0)
        return np.asarray(step * np.minimum(1.0, self.longest_step / np.maximum(length, 1e-300)))

    def dispersions(self, sums: FamilyStatistics, params: Parameters) -> Array:
        """All dispersions after a step."""
        if self.dispersion_name is None:
            return params.dispersion
        score, info = sums.spread
        return self.next_dispersion(score, info, sums.size, params.dispersion)

    def next_dispersion(self, score: Array, info: Array, size: Array, dispersion: Array) -> Array:
        """Dispersions (k, [runs]) after one step on their logarithms."""
        if self.equal_dispersion:
            score = np.broadcast_to(score.sum(axis=0), score.shape)
            info = np.broadcast_to(info.sum(axis=0), info.shape)
            size = size.sum(axis=0)
        # Far from the maximum the curvature can be of the wrong sign.
        step = score / np.maximum(np.abs(info), 1e-3 * np.abs(score) + 1e-12 * size + 1e-300)
        change = np.exp(np.clip(step, -SCALE_STEP, SCALE_STEP))
        return self.allowed(dispersion * change)

    def hidden(self, block: Any) -> Array | None:
        """What rounding hides of responses, where narrow components could live on it."""
        return block.rounding if self.rounds and not self.equal_dispersion else None

    def hidden_dispersion(self, block: Any) -> Array:
        """What rounding hides of each row, as a dispersion; zeros where nothing is known of it."""
        return np.zeros(block.rows) if block.rounding is None else np.asarray(block.rounding)

    @property
    def collapsing(self) -> tuple[bool, ...]:
        """Of each response, whether its dispersion may vanish."""
        return (self.collapses,)

    def line_columns(self, p: int) -> int:
        """Rows that fix a component which collapses, if it has `p` regressors in all."""
        return p

    def allowed(self, dispersion: Array) -> Array:
        """Dispersions (k, [runs]), those out of bounds moved to them."""
        if self.dispersion_name is None:
            return dispersion
        new = np.clip(dispersion, *self.scale_range)
        return np.maximum(new, self.variance_ratio * new.max(axis=0)) if self.collapses else new

    def flat_score(self, sums: FamilyStatistics, params: Parameters) -> Array:
        """Scores of each component's coefficients and log dispersion, (k, p + m), of one run."""
        if self.dispersion_name is None:
            return sums.xe[:, 0]
        return np.column_stack([sums.xe[:, 0], sums.spread[0, :, 0] / self.dispersion_power])

    def label_dispersions(self, sums: FamilyStatistics, params: Parameters) -> Array:
        """Dispersions (k,) of one run, from the sums of hard labels."""
        return params.dispersion

    def mean_square(self, sums: FamilyStatistics) -> Array:
        """Mean squared residual of each run; infinite where zero proves nothing."""
        return np.full(sums.size.shape[1:], np.inf)

    def bound_binds(self, params: Parameters) -> bool:
        """Whether the smallest dispersion sits at its bound."""
        return bool(self.at_bound(params).any())

    def at_bound(self, params: Parameters) -> NDArray[np.bool_]:
        """Dispersions (k,) of one run that are as small as the largest one allows."""
        if not self.collapses or self.equal_dispersion or params.k == 1:
            return np.zeros(params.dispersion.shape, dtype=bool)
        least = self.variance_ratio * params.dispersion.max() * (1 + 1e-6)
        return np.asarray(params.dispersion <= least)
