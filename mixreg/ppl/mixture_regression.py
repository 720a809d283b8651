"""A mixture of regressions inside a user's own PyMC model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from mixreg.errors import InputError
from mixreg.estimators.priors import Priors
from mixreg.ppl.compat import pymc
from mixreg.ppl.given import Given
from mixreg.ppl.likelihood import Likelihood
from mixreg.ppl.pymc_model import add_mixture
from mixreg.table.arguments import called
from mixreg.table.declaration import Declaration


class MixtureRegression:
    """A mixture of regressions as a variable of a PyMC model, labels summed out.

    Called inside a `pymc.Model`, it returns the variable of the responses, which is
    observed. What is not given of `coef`, `scale`, `weights` and `gate` becomes a
    variable with the weakly informative prior of `MixReg.to_pymc`, and the same names
    and dimensions: `component`, `class`, `term` and `gate_term`. What is given may be
    any variable of PyMC, any expression of PyTensor, or numbers, and is in the user's
    units: coefficients of the user's columns.

    Parameters
    ----------
    name : str
        Of the responses.
    X : (n, p) array or DataFrame
        Regressors. A constant is not added.
    k : int
        Number of components.
    observed : (n,) array or Series
        Responses.
    coef : (k, p) variable, optional
        Coefficients, components by columns of X. It gives those of all components, so
        `shared` and `only` have no place beside it.
    scale : (k,) variable or a single one, optional
        Residual standard deviation, or the dispersion of other families, as `results.scale`.
    weights : (K,) variable, optional
        Class probabilities: of the components, and of the background if there is
        `noise`. An array along the rows, or a column's name, are case weights as in
        `MixReg`.
    gate : (K, q) or (K - 1, q) variable, optional
        Coefficients of the concomitants; without its first row, that of the first
        class is zero.
    offset : (n,) array or variable, optional
        Part of the linear predictor that is known, or comes from elsewhere in the model.
    case_weights : (n,) array, optional
        Case weights, under a name of their own.
    priors : Priors, optional
        Of what is not given.
    likelihood : {"graph", "sweep"}
        As in `MixReg.to_pymc`. With "sweep" the likelihood is a potential, and there is
        nothing to draw responses from.
    prefix : str
        What names of the mixture's own variables and dimensions begin with. Needed if
        the model has others of the same name, such as those of another mixture.
    **options
        groups, concomitant, family, link, shared, only, choice_set, known_labels, noise,
        exposure, trials, equal_variance, variance_ratio and missing, as in `MixReg`.

    Notes
    -----
    With groups, all rows of a group share a label, responses that are drawn included.
    Log densities of `pymc.compute_log_likelihood` are then those of groups.
    `variance_ratio` bounds the variances that `mixreg.ppl.fit` begins with; it has no part in the
    density. Rows are fixed: X and `observed` cannot be `pymc.Data`.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from mixreg.ppl import MixtureRegression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal(100)
    >>> y = np.where(rng.random(100) < 0.5, 2 + x, -2 - x) + 0.3 * rng.standard_normal(100)
    >>> X = np.column_stack([np.ones(100), x])
    >>> with pm.Model() as model:
    ...     slope = pm.Normal("slope", 0, 1)
    ...     intercept = pm.Normal("intercept", 0, 5, shape=2)
    ...     coef = pm.math.stack([intercept, slope * np.array([1, -1])], axis=1)
    ...     y = MixtureRegression("y", X, k=2, coef=coef, observed=y)
    >>> [variable.name for variable in model.free_RVs]
    ['slope', 'intercept', 'dispersion', 'weights']
    """

    def __new__(
        cls,
        name: str,
        X: Any,
        k: int,
        *,
        observed: Any = None,
        coef: Any = None,
        scale: Any = None,
        weights: Any = None,
        gate: Any = None,
        offset: Any = None,
        case_weights: Any = None,
        priors: Priors | None = None,
        likelihood: Likelihood = "graph",
        prefix: str = "",
        **options: Any,
    ) -> Any:
        """Put the mixture into the model."""
        _check_name(name)
        if observed is None:
            raise InputError(
                "observed is missing: give the responses; pymc.sample_prior_predictive draws "
                "others in their place"
            )
        for argument, value in {"X": X, "observed": observed}.items():
            _refuse_graph(argument, value)
        known, given = _told_apart(k, coef, scale, weights, gate, offset, case_weights, options)
        made = called("MixtureRegression")(Declaration)(observed, X, k, **known, **options)
        return add_mixture(made, name, given, priors, likelihood, prefix)

    @classmethod
    def from_formula(
        cls,
        name: str,
        formula: str,
        data: Any = None,
        *,
        k: int,
        coef: Any = None,
        scale: Any = None,
        weights: Any = None,
        gate: Any = None,
        offset: Any = None,
        case_weights: Any = None,
        priors: Priors | None = None,
        likelihood: Likelihood = "graph",
        prefix: str = "",
        eval_env: int = 0,
        **options: Any,
    ) -> Any:
        """The same from a formula; see `MixReg.from_formula` for formula, data and options.

        Examples
        --------
        >>> import pymc as pm
        >>> from mixreg import datasets
        >>> from mixreg.ppl import MixtureRegression
        >>> with pm.Model() as model:
        ...     tuned = MixtureRegression.from_formula(
        ...         "tuned", "tuned ~ stretchratio", datasets.tonedata(), k=2
        ...     )
        >>> list(model.coords["term"])
        ['Intercept', 'stretchratio']
        """
        _check_name(name)
        known, given = _told_apart(k, coef, scale, weights, gate, offset, case_weights, options)
        # The caller is two frames up from there: this one, and the one that checks arguments.
        made = Declaration.from_formula(
            formula, data, k=k, **known, **options, eval_env=eval_env + 1
        )
        made.spec.check_one_response("MixtureRegression")
        return add_mixture(made, name, given, priors, likelihood, prefix)


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise InputError(
            f"the name of the responses comes first; got {type(name).__name__}. Write "
            'MixtureRegression("y", X, k=2, observed=y)'
        )


def _is_graph(value: Any) -> bool:
    """Whether a value is a variable of PyTensor."""
    return hasattr(value, "type") and hasattr(value, "owner") and hasattr(value, "eval")


def _is_asked(option: Any) -> bool:
    """Whether an option asks for something: neither left out nor empty."""
    return (
        option is not None
        and option is not False
        and not (isinstance(option, Collection) and len(option) == 0)
    )


def _refuse_graph(name: str, value: Any) -> None:
    if _is_graph(value):
        raise InputError(
            f"{name} is a variable of PyTensor, but rows of a mixture are fixed; give an array, "
            "and what varies as coef= or offset="
        )


def _told_apart(
    k: Any,
    coef: Any,
    scale: Any,
    weights: Any,
    gate: Any,
    offset: Any,
    case_weights: Any,
    options: dict[str, Any],
) -> tuple[dict[str, Any], Given]:
    """What belongs to the rows, and what are parameters of the model."""
    pymc()
    for name in ("groups", "concomitant", "exposure", "trials", "choice_set", "known_labels"):
        _refuse_graph(name, options.get(name))
    for option, argument, value in (
        ("shared", "coef", coef),
        ("only", "coef", coef),
        ("equal_variance", "scale", scale),
    ):
        if value is not None and _is_asked(options.get(option)):
            raise InputError(
                f"{option}= has no place beside {argument}=, which gives {argument} of every "
                f"component; leave {option}= out and say it in {argument}, or leave {argument}= out"
            )
    classes = k + bool(options.get("noise", False)) if isinstance(k, (int, np.integer)) else None
    mixing = _is_graph(weights) or (
        weights is not None and not isinstance(weights, str) and np.shape(weights) == (classes,)
    )
    if weights is not None and not mixing:
        if case_weights is not None:
            raise InputError("weights and case_weights are both case weights; give one of them")
        case_weights, weights = weights, None
    varies = _is_graph(offset)
    known = {"weights": case_weights, "offset": None if varies else offset}
    return known, Given(coef, scale, weights, gate, offset if varies else None)
