"""EM, the search and normal approximations as engines for a PyMC model with a mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError, NotAvailableError
from mixreg.ppl.compat import draws_of
from mixreg.ppl.located import located
from mixreg.ppl.modes import Modes, find_modes
from mixreg.ppl.surface import NOTHING, Climb, Surface, climb
from mixreg.table.checks import whole

Array = NDArray[np.float64]
Engine = Literal["map", "em", "vb", "laplace"]

# Draws that stand for a normal distribution while its centre and spread are found, at least.
FIXED_DRAWS = 40
# Spread of initial points where the curvature says nothing.
LITTLE = 1e-3


@dataclass(frozen=True, eq=False)
class EngineResult:
    """What `mixreg.ppl.fit` found.

    Attributes
    ----------
    method : str
    data : InferenceData or DataTree
        With a posterior: one draw of "map" and "em", many of the others.
    point : dict
        The mode: values of the model's free variables.
    log_density : float
        Of the model at the mode, without Jacobians, as `pymc.find_MAP` has it.
    heights : tuple of float
        Log densities of all modes that were met, highest first.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg import MixReg, ppl
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((80, 1))
    >>> y = 3.0 * x[:, 0] * rng.choice([-1, 1], 80) + 0.3 * rng.standard_normal(80)
    >>> found = ppl.fit(MixReg(y, x, k=2).to_pymc())
    >>> found.method, sorted(found.point)
    ('map', ['beta', 'dispersion', 'weights'])
    >>> max(found.heights) == found.heights[0]
    True
    """

    method: str
    data: Any
    point: dict[str, Array]
    log_density: float
    heights: tuple[float, ...]
    modes: Modes
    normal: Normal | None

    @property
    def posterior(self) -> Any:
        """The posterior of `data`.

        Examples
        --------
        >>> import numpy as np
        >>> from mixreg import MixReg, ppl
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((80, 1))
        >>> y = 3.0 * x[:, 0] * rng.choice([-1, 1], 80) + 0.3 * rng.standard_normal(80)
        >>> found = ppl.fit(MixReg(y, x, k=2).to_pymc())
        >>> dict(found.posterior["coef"].sizes)
        {'chain': 1, 'draw': 1, 'component': 2, 'term': 1}
        """
        return self.data["posterior"]

    def initial_points(self, chains: int = 4, seed: int = 0) -> list[dict[str, Array]]:
        """Points to begin chains at, all near one mode, with components in one order.

        Draws of the normal distribution at the mode; where the curvature there is not
        that of a maximum, the mode itself, a little jittered. Give them to
        `pymc.sample(initvals=..., init="adapt_diag")`: PyMC's own default would jitter
        them again.

        Parameters
        ----------
        chains : int
        seed : int

        Examples
        --------
        >>> import numpy as np
        >>> from mixreg import MixReg, ppl
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((80, 1))
        >>> y = 3.0 * x[:, 0] * rng.choice([-1, 1], 80) + 0.3 * rng.standard_normal(80)
        >>> found = ppl.fit(MixReg(y, x, k=2).to_pymc())
        >>> points = found.initial_points(chains=2)
        >>> len(points), sorted(points[0])
        (2, ['beta', 'dispersion', 'weights'])
        """
        rng, chains = np.random.default_rng(whole("seed", seed, 0)), whole("chains", chains, 1)
        surface = self.modes.surface
        normal = self.normal or normal_at(surface, self.modes.best)
        vectors = self.modes.best.vector + LITTLE * rng.standard_normal(
            (chains, len(surface.start))
        )
        if normal is not None:
            good = [_with_density(surface, normal, rng) for _ in range(chains)]
            vectors = np.array(good)
        values = surface.reported(vectors)
        free = [variable.name for variable in surface.found.model.free_RVs]
        return [{name: values[name][i] for name in free} for i in range(chains)]

    def __repr__(self) -> str:
        """One line."""
        return f"<EngineResult: {self.method}, log density {self.log_density:.2f}>"


def fit(
    model: Any, method: Engine = "map", *, seed: int = 0, draws: int = 1000, n_init: int = 16
) -> EngineResult:
    """Fit a PyMC model that has one mixture of regressions.

    The package's own search looks at the mixture's rows and supplies starts, several
    maxima of the likelihood with their components in the order that suits the model's
    priors and constraints. From these, from some of PyMC's own starts, and from moves
    of the best, a gradient method climbs the model's log density.

    Parameters
    ----------
    model : pymc Model
        With one `MixtureRegression`, or made by `MixReg.to_pymc`. All free variables
        are continuous.
    method : {"map", "em", "laplace", "vb"}
        "map" and "em" are two names of one thing: the mode under the model's priors,
        as one draw. EM supplies the starts; the climb to the mode is by gradients.
        "laplace" is the normal distribution at the mode in the unconstrained space.
        "vb" is a normal distribution there with the same correlations, whose centre
        and spreads maximise the evidence lower bound, estimated by fixed
        draws; it is not the coordinate ascent of `MixReg.fit(method="vb")`. Both know one mode
        only, and both are normal.
    seed : int
        Same seed, same result.
    draws : int
        Draws of "laplace" and "vb".
    n_init : int
        How hard is looked, as in `MixReg.fit`.

    Returns
    -------
    EngineResult
        `data` is ArviZ data; `initial_points(chains=4)` are starts for `pymc.sample`.

    Notes
    -----
    Densities of mixtures can be without bound: where a prior lets the scale of a component
    go to zero, a component may sit on a few rows. Such ends are kept out as long
    as there are others.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg import MixReg, ppl
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((80, 1))
    >>> y = 3.0 * x[:, 0] * rng.choice([-1, 1], 80) + 0.3 * rng.standard_normal(80)
    >>> found = ppl.fit(MixReg(y, x, k=2).to_pymc())
    >>> sorted(found.point["beta"].round().tolist())
    [-1.0, 1.0]
    """
    if method not in get_args(Engine):
        raise InputError(f"method={method!r} is unknown; use one of {', '.join(get_args(Engine))}")
    seed, draws = whole("seed", seed, 0), whole("draws", draws, 1)
    modes = find_modes(located(model), seed, whole("n_init", n_init, 1))
    surface, best, normal = modes.surface, modes.best, None
    vectors = best.vector[None]
    if method in ("laplace", "vb"):
        normal = normal_at(surface, best)
        if normal is None:
            raise NotAvailableError(
                f"method={method!r} needs a mode with curvature in all directions, and this model "
                "has none: a parameter is not determined, or runs to the end of its range. Use "
                "method='map', narrower priors, or sample"
            )
        rng = np.random.default_rng([seed, 1])
        normal = widened(surface, normal, rng) if method == "vb" else normal
        vectors = normal.draws(rng.standard_normal((draws, len(best.vector))))
    found = surface.reported(best.vector[None])
    point = {v.name: found[v.name][0] for v in surface.found.model.free_RVs}
    data = as_data(surface, vectors)
    heights = tuple(end.height for end in modes.ends)
    return EngineResult(method, data, point, best.height, heights, modes, normal)


@dataclass(frozen=True, eq=False)
class Normal:
    """A normal distribution of unconstrained variables.

    Attributes
    ----------
    centre : (n,) array
    root : (n, n) array
        root @ root' is the covariance.
    """

    centre: Array
    root: Array

    def draws(self, standard: Array) -> Array:
        """Standard normal draws (draws, n) as draws of this one."""
        return np.asarray(self.centre + standard @ self.root.T)


def normal_at(surface: Surface, best: Climb) -> Normal | None:
    """The normal distribution at the mode of the unconstrained variables near a mode."""
    end = surface.polished(surface.climbed(best.vector, jacobian=True), jacobian=True)
    try:
        lower = np.linalg.cholesky(-surface.curvature(end.vector, jacobian=True))
    except np.linalg.LinAlgError:
        return None
    return Normal(end.vector, np.linalg.inv(lower).T)


def widened(surface: Surface, normal: Normal, rng: np.random.Generator) -> Normal:
    """The normal with the same correlations that maximises the evidence lower bound."""
    n = len(normal.centre)
    fixed = even_draws(n, rng)

    def bound(params: Array) -> tuple[float, Array]:
        shift, logs = params[:n], params[n:]
        spread = np.exp(logs)
        value, slope = float(logs.sum()), np.concatenate([np.zeros(n), np.ones(n)])
        for each in fixed:
            height, up = surface.at(normal.draws(shift + spread * each), jacobian=True)
            if height <= NOTHING:
                return NOTHING, np.zeros(2 * n)
            own = normal.root.T @ up / len(fixed)
            value += height / len(fixed)
            slope += np.concatenate([own, own * spread * each])
        return value, slope

    end = climb(bound, np.zeros(2 * n), 200).vector
    return Normal(normal.draws(end[:n]), normal.root * np.exp(end[n:]))


def even_draws(n: int, rng: np.random.Generator) -> Array:
    """Draws of n variables whose means are exactly 0, and whose covariances are exactly theirs.

    Where the posterior is normal, its spread is then found exactly; that of 40 independent
    draws would be off by a sixth.
    """
    count = max(FIXED_DRAWS // 2, n)
    turned = np.linalg.qr(rng.standard_normal((count, n)))[0]
    return np.sqrt(count) * np.concatenate([turned, -turned])


def as_data(surface: Surface, vectors: Array) -> Any:
    """Draws of unconstrained variables as ArviZ data."""
    model = surface.found.model
    values = {name: each[None] for name, each in surface.reported(vectors).items()}
    dims = {
        name: [str(dim) for dim in model.named_vars_to_dims[name]]
        for name in values
        if name in model.named_vars_to_dims
    }
    used = {dim for each in dims.values() for dim in each}
    coords = {dim: list(labels) for dim, labels in model.coords.items() if dim in used and labels}
    return draws_of({"posterior": (values, dims)}, coords)


def _with_density(surface: Surface, normal: Normal, rng: np.random.Generator) -> Array:
    """A draw at which the model has a density."""
    for shrink in 0.5 ** np.arange(10):
        vector = normal.draws(shrink * rng.standard_normal(len(normal.centre)))
        if surface.at(vector, jacobian=True)[0] > NOTHING:
            return vector
    return normal.centre
