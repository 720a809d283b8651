"""Whether the parts of a file go together: shapes, numbers of terms, levels and classes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from mixreg.errors import FileFormatError
from mixreg.estimators.beliefs import Beliefs
from mixreg.mixture.parameters import Parameters
from mixreg.report.fitted import KEPT_GROUPS, Fitted
from mixreg.report.tally import Tally
from mixreg.table.cost import LONGEST
from mixreg.table.design import Design
from mixreg.table.recipe import Recipe
from mixreg.table.rows import RowColumns
from mixreg.table.spec import Spec

COLUMNS = {field.name for field in fields(RowColumns)}
METHODS = ("em", "altmin", "vb")
STOPPED = (
    *("converged", "labels", "exact", "edge", "resampled", "max_iter", "decreased"),
    "interrupted",
)


def check_agreement(spec: Spec, fitted: Fitted) -> None:
    """Refuse a fit whose parts are not of one model."""
    # The number of coefficients first: all else is as large as that.
    terms = [len(response.design.terms) for response in spec.responses]
    _shape("components", fitted.estimate.params.coef, (spec.k, sum(terms)))
    _check_terms(spec)
    layout, classes = spec.layout, spec.k + spec.noise
    gate = spec.mixture.gate.width
    for params in (fitted.estimate.params, fitted.standard):
        _check_params(params, spec, classes, gate)
    _shape("params", fitted.estimate.vector, (layout.size,))
    if fitted.estimate.cov is not None:
        _shape("covariance", fitted.estimate.cov, (layout.size, layout.size))
    finite, runaway = fitted.estimate.finite, fitted.estimate.runaway
    _true("covariance", (finite is None) == (runaway is None))
    if finite is not None and runaway is not None:
        _true("covariance", fitted.estimate.cov is not None and runaway.ndim == 2)
        _shape("covariance", finite, (layout.size, layout.size))
        _shape("covariance", runaway[:, :0], (layout.size, 0))
    _shape("coordinates", fitted.whitening.basis, (layout.p, layout.p))
    _check_tally(fitted.tally, classes, gate)
    _check_posterior(fitted, classes)
    if fitted.beliefs is not None:
        _check_beliefs(fitted.beliefs, spec, classes)
        _shape("covariance", fitted.estimate.mean_field, (layout.size, layout.size))
    _true("method", fitted.method in METHODS and fitted.reason in STOPPED)
    _true("method", (fitted.method == "vb") == (fitted.beliefs is not None))
    _true("method", (fitted.beliefs is None) == (fitted.priors is None) == (fitted.elbo is None))
    _check_numbers(spec, fitted)


def _check_terms(spec: Spec) -> None:
    """Terms of the responses, and where they are among all."""
    _true("responses", len(spec.responses) > 0 and spec.k > 0)
    end = 0
    for response in spec.responses:
        _same(
            "terms",
            (response.columns.start, response.columns.stop - end),
            (end, len(response.design.terms)),
        )
        end = response.columns.stop
        check_design_parts(response.design)
        _same("names of columns", set(response.names), COLUMNS)
    if spec.gate_design is not None:
        check_design_parts(spec.gate_design)
    terms = range(len(spec.design.terms))
    _true("shared terms", list(spec.shared) == sorted(set(spec.shared) & set(terms)))
    absent = {(j, i) for j, i in spec.absent if j in range(spec.k) and i in terms}
    _true(
        "absent terms",
        len(absent) == len(spec.absent) and not ({i for _, i in absent} & set(spec.shared)),
    )


def check_design_parts(design: Design) -> None:
    """Whether a design's formula makes the columns that it names."""
    _true("terms", len(set(design.terms)) == len(design.terms) > 0)
    # Tables are as wide as the longest name.
    _true("terms", all(len(name) <= LONGEST for name in (*design.terms, design.response)))
    for recipe in (design.left, design.right):
        if recipe is not None:
            _check_recipe(recipe)
    if design.right is not None:
        _same("columns of the formula", design.right.names, design.terms)


def _check_recipe(recipe: Recipe) -> None:
    """Whether patsy can make columns by it."""
    count = range(len(recipe.factors))
    for term in recipe.terms:
        numbers = [*term.factors, *(i for subterm in term.subterms for i in subterm.factors)]
        _true("factors", all(i in count for i in numbers))
        for subterm in term.subterms:
            for each in subterm.contrasts:
                _true("contrasts", each.factor in count and each.matrix.ndim == 2)
                levels = recipe.factors[each.factor].levels or ()
                _shape("contrasts", each.matrix, (len(levels), len(each.suffixes)))
    info = recipe.info
    _same("columns of the formula", len(info.column_names), len(recipe.names))
    for factor, known in zip(recipe.factors, info.factor_infos.values(), strict=True):
        made = known.state["transforms"].values()
        for transform, learnt in zip(made, factor.states, strict=True):
            # A fresh transform has the names of all that one can learn.
            _same("transforms", set(learnt), set(vars(type(transform)())) - {"_tmp"})


def _check_params(params: Parameters, spec: Spec, classes: int, gate: int) -> None:
    _shape("coefficients", params.coef, (spec.k, len(spec.design.terms)))
    several = () if len(spec.responses) == 1 else (len(spec.responses),)
    _shape("dispersions", params.dispersion, (spec.k, *several))
    _shape("class probabilities", params.gating, (classes, gate))


def _check_tally(tally: Tally, classes: int, gate: int) -> None:
    for name in ("weights", "rows", "units", "assigned"):
        _shape(f"tally of {name}", getattr(tally, name), (classes,))
    _shape("tally of slopes", tally.slopes, (classes, (classes - 1) * gate))
    _shape("tally of labels", tally.joint, (classes, classes))
    _true("tally", tally.given >= tally.nobs > 0 and tally.n_units > 0)


def _check_posterior(fitted: Fitted, classes: int) -> None:
    groups, posterior = fitted.groups, fitted.posterior
    _true("groups", (groups is None) == (posterior is None))
    _true("groups", fitted.tally.ngroups is not None or groups is None)
    few = fitted.tally.ngroups is not None and fitted.tally.ngroups <= KEPT_GROUPS
    _true("groups", groups is not None or not few)
    if groups is not None and posterior is not None:
        _shape("posterior", posterior, (classes, len(groups)))
        _same("groups", fitted.tally.ngroups, len(groups))


def _check_beliefs(beliefs: Beliefs, spec: Spec, classes: int) -> None:
    k, p = spec.k, len(spec.design.terms)
    wanted = {"coef": (k, p), "factor": (k, p, p), "shape": (k,), "rate": (k,)}
    for name, shape in wanted.items():
        _shape(f"beliefs in {name}", getattr(beliefs, name), shape)
    _shape("beliefs in counts", beliefs.counts, (classes,))
    q = spec.mixture.gate.terms
    _shape("beliefs in gating", beliefs.gating, (classes, q))
    _shape("beliefs in spread", beliefs.spread, (classes, q, classes, q))


def _check_numbers(spec: Spec, fitted: Fitted) -> None:
    """Numbers of components and terms that notes speak of."""
    k, p = range(spec.k), range(len(spec.design.terms))
    named = [*fitted.empty, *fitted.suspects, *fitted.estimate.separated]
    _true("notes", all(j in k for j in named))
    _true("notes", all(j in k and i in p for j, i in fitted.estimate.undetermined))
    for reason in fitted.reasons:
        _true("notes", reason.component in k and (reason.column == -1 or reason.column in p))
    _true("history", fitted.history.ndim == 1)
    search = fitted.search
    _true("search", search is None or len(search.hits) == len(search.heights) > 0)


def _shape(what: str, array: Any, shape: tuple[int, ...]) -> None:
    _same(what, np.shape(array), shape)


def _same(what: str, found: Any, wanted: Any) -> None:
    _true(what, found == wanted)


def _true(what: str, good: bool) -> None:
    if not good:
        raise FileFormatError(f"the file does not hold together: {what} do not agree")
