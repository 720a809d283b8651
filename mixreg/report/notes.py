"""Notes below the summary: what the tables do not say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mixreg.estimators.components import components_of
from mixreg.estimators.priors import Priors
from mixreg.exact.reasons import WhyTight
from mixreg.mixture.mixture import Mixture
from mixreg.report.base_results import BaseResults
from mixreg.report.diagnostics import DOUBTFUL
from mixreg.search.constants import ALIKE_LABELS

# Levels that a note names.
MOST_NAMED = 8
TOO_LARGE = "k may be too large."


def notes_of(results: BaseResults) -> list[str]:
    """All that a reader of the tables should know, most important first."""
    fitted, estimate = results.fitted, results.fitted.estimate
    notes = [estimate.description]
    if fitted.beliefs is not None:
        notes += _prior_notes(results)
    if fitted.certified:
        notes.append("Zero loss on rows enough for every component: recovery is certified.")
    elif fitted.exact:
        notes.append(f"Zero loss, but no proof of recovery: {_why_exact(results)}")
    return [
        *notes,
        *_row_notes(results),
        *_model_notes(results),
        *_rounding(results),
        *_doubts(results),
        *_search_notes(results),
    ]


def _row_notes(results: BaseResults) -> list[str]:
    """Which of the rows given count, and how much."""
    tally, notes = results.fitted.tally, []
    if tally.given > tally.nobs:
        lost = f"{tally.given - tally.nobs:,} of {tally.given:,} rows"
        sets = results.spec.family.takes_sets
        why = "are in choice sets that have missing values" if sets else "have missing values"
        notes.append(f"{lost} {why} and were left out.")
    if tally.weighted:
        what = "rows" if tally.ngroups is None else "groups"
        notes.append(f"Case weights of the {what} add up to {tally.n_units:,.8g}.")
    designs = [response.design for response in results.spec.responses]
    designs += [] if results.spec.gate_design is None else [results.spec.gate_design]
    unused = {name: levels for design in designs for name, levels in design.unused.items()}
    for name, levels in unused.items():
        notes.append(f"Levels of {name} that no row has were dropped: {some_of([*levels])}.")
    return notes


def _model_notes(results: BaseResults) -> list[str]:
    """What the model was told: common dispersions, known labels, background."""
    notes = []
    family = results.spec.family
    if family.equal_dispersion and family.dispersion_name:
        what = "residual variance" if family.dispersion_name == "sigma" else family.dispersion_name
        each = " of each response" if len(results.spec.responses) > 1 else ""
        notes.append(f"All components share one {what}{each} (equal_variance=True).")
    known = results.fitted.tally.known
    if known is not None:
        notes.append(f"Labels of {known} rows or groups were known and are kept.")
    if results.spec.noise:
        what = "response" if len(results.spec.responses) == 1 else "responses"
        notes.append(f"Noise spreads evenly over the range of the {what}; its label is 0.")
    return notes


def _doubts(results: BaseResults) -> list[str]:
    """What speaks against the fit."""
    fitted, estimate = results.fitted, results.fitted.estimate
    notes = []
    remedy = "fewer terms" if results.k == 1 else "a smaller k or fewer terms"
    if estimate.separated:
        terms = separated_terms(results)
        one = sum(map(len, terms.values())) == 1
        notes.append(
            f"{_components(estimate.separated)} separated: {_run_off(terms)} to infinity, and "
            f"{'its standard error is' if one else 'their standard errors are'} infinite. What "
            f"does not involve {'it' if one else 'them'} keeps its standard error. Try {remedy}."
        )
    if estimate.gate_separated:
        names = _lost_names(results, results.spec.layout.gating_index())
        notes.append(
            f"Concomitants separate the classes: coefficients of the class probabilities{names} "
            "run off to infinity, and their standard errors are infinite. What does not involve "
            "them keeps its standard error. Use fewer concomitants."
        )
    if fitted.binds:
        parts = [response.family for response in results.spec.responses]
        ratio = max(part.variance_ratio for part in parts)
        why = "; ".join(_why_tight(results, reason) for reason in fitted.reasons)
        notes.append(
            f"The bound on the variances binds (variance_ratio={ratio:g}): "
            f"{why or 'a component singles out a few rows'}. Try a smaller k, or "
            "equal_variance=True. Standard errors take the bound for an estimate."
        )
    if fitted.suspects:
        many = len(fitted.suspects) > 1
        notes.append(
            f"{_components(fitted.suspects)} small and tight; chance may explain "
            f"{'them' if many else 'it'}. Try a smaller k, or equal_variance=True."
        )
    notes += _without_members(results)
    notes += _undetermined(results)
    lost = _more_lost(results)
    if lost.any():
        notes.append(
            "The data do not determine every parameter: some standard errors are infinite"
            f"{_hidden(results, lost)}. {'Try fewer terms.' if results.k == 1 else TOO_LARGE}"
        )
    return notes


def _rounding(results: BaseResults) -> list[str]:
    """How widely responses are rounded, and what that did to the fit."""
    fitted, notes = results.fitted, []
    for response, (width, share) in zip(results.spec.responses, fitted.rounded, strict=False):
        if share > 0:
            notes.append(
                f"Values of {response.name} are rounded, {share:.0%} of them to about {width:.2g}: "
                "segments were looked for that are no narrower than that."
            )
    if fitted.narrow:
        many = len(fitted.narrow) > 1
        notes.append(
            f"{_components(fitted.narrow)} wider than at the nearest maximum of the likelihood, "
            f"where {'they' if many else 'it'} would live on tied values alone. Set variance_ratio "
            "to ask for such a maximum."
        )
    return notes


def _components(numbers: Sequence[int]) -> str:
    """Components by their numbers from 0, as the subject of a sentence."""
    named = [str(j + 1) for j in numbers]
    if len(named) == 1:
        return f"Component {named[0]} is"
    return f"Components {', '.join(named[:-1])} and {named[-1]} are"


def _without_members(results: BaseResults) -> list[str]:
    """Components that are nobody's most likely one, though they have a weight."""
    tally, told = results.fitted.tally, {*results.fitted.empty}
    alive = {j - 1 for j in results.alive}
    bare = [j for j in range(results.k) if tally.units[j] == 0 and j in alive - told]
    if not bare:
        return []
    many = len(bare) > 1
    weights = " and ".join(f"{tally.weights[j]:.2g}" for j in bare)
    what = "row" if tally.ngroups is None else "group"
    return [
        f"{_components(bare)} no {what}'s most likely one, though {'their' if many else 'its'} "
        f"weight is {weights}: {'they overlap' if many else 'it overlaps'} with others. Read "
        "posterior probabilities, not labels, or try a smaller k."
    ]


def _why_tight(results: BaseResults, reason: WhyTight) -> str:
    """What keeps a component's rows together, for a sentence."""
    j, share, y = reason.component + 1, f"{reason.share:.0%}", results.spec.design.response
    apart = f"values of {y} are {reason.spacing:g} apart"
    if reason.kind == "column":
        name = results.spec.design.terms[reason.column]
        plus = "" if reason.value == 0 else f" {'-' if reason.value < 0 else '+'} "
        plus += "" if reason.value == 0 else f"{abs(reason.value):g}"
        return f"{y} equals {name}{plus} in {share} of the rows, which make component {j}"
    if reason.kind == "constant":
        return (
            f"{apart}, and component {j} is constant at {reason.value:g}, which {share} of the "
            "rows have"
        )
    if reason.kind == "lattice":
        return f"{apart}, and component {j} follows regressors on a lattice in {share} of the rows"
    rows = "row" if reason.rows == 1 else "rows"
    return f"component {j} singles out {reason.rows:.0f} {rows}"


def _why_exact(results: BaseResults) -> str:
    """Why an exact fit proves nothing, with a remedy."""
    reasons = results.fitted.reasons
    told = [_why_tight(results, reason) for reason in reasons if reason.kind != "few"]
    if told:
        return "; ".join(told) + ". Other components may fit as well."
    rows = {reason.rows: reason.component + 1 for reason in reasons}
    fewest = f" (component {rows[min(rows)]} has {min(rows):.0f})" if rows else ""
    return (
        "other components may fit every row too, or some have too few rows of their own to be "
        f"told from chance{fewest}. Try a smaller k or fewer terms."
    )


def _undetermined(results: BaseResults) -> list[str]:
    """Coefficients that a component has no rows for."""
    notes = []
    for j, terms in _unknown_terms(results).items():
        whose = "its value means" if len(terms) == 1 else "their values mean"
        names = some_of(terms)
        notes.append(f"Component {j + 1} has no rows that determine {names}: {whose} nothing.")
    return notes


def _unknown_terms(results: BaseResults) -> dict[int, list[str]]:
    """Names of the coefficients that no rows determine, by component from 0."""
    terms: dict[int, list[str]] = {}
    for j, i in results.fitted.estimate.undetermined:
        if j not in results.fitted.empty:
            terms.setdefault(j, []).append(results.spec.design.terms[i])
    return terms


def separated_terms(results: BaseResults) -> dict[int, list[str]]:
    """Names of the coefficients that run off to infinity, by component from 0."""
    estimate, index = results.fitted.estimate, results.spec.layout.coef_index()
    if estimate.cov is None:
        return {}
    lost, names = np.isinf(np.diag(estimate.cov)), results.spec.design.terms
    return {
        j: [
            name
            for i, name in enumerate(names)
            if index[j, i] >= 0 and lost[index[j, i]] and (j, i) not in estimate.undetermined
        ]
        for j in estimate.separated
    }


def _run_off(terms: dict[int, list[str]]) -> str:
    """Which coefficients run off to infinity, as the beginning of a sentence."""
    each = {j: some_of(names) for j, names in terms.items() if names}
    if len(each) == 1:
        ((j, names),) = each.items()
        where = "" if len(terms) == 1 else f" in component {j + 1}"
        if len(terms[j]) == 1:
            return f"the coefficient of {names}{where} runs off"
        return f"the coefficients of {names}{where} run off"
    told = "; ".join(f"{names} in component {j + 1}" for j, names in each.items())
    return f"coefficients run off ({told})" if told else "coefficients run off"


def some_of(names: list[str]) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - MOST_NAMED
    if more > 0:
        return f"{', '.join(names[:MOST_NAMED])} and {more} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _lost_names(results: BaseResults, index: NDArray[np.intp]) -> str:
    """Those of some parameters that have infinite standard errors, in brackets."""
    cov = results.fitted.estimate.cov
    names = (
        [] if cov is None else [results.spec.param_names[i] for i in index if np.isinf(cov[i, i])]
    )
    return f" ({some_of(names)})" if names else ""


def _more_lost(results: BaseResults) -> NDArray[np.bool_]:
    """Parameters with infinite standard errors that no other note explains."""
    estimate = results.fitted.estimate
    if estimate.cov is None or estimate.regular:
        return np.zeros(0, dtype=bool)
    lost = np.isinf(np.diag(estimate.cov))
    index = results.spec.layout.coef_index()
    for j, i in estimate.undetermined:
        lost[index[j, i]] = False
    for j in estimate.separated:
        lost[index[j][index[j] >= 0]] = False
    if estimate.gate_separated:
        lost[results.spec.layout.gating_index()] = False
    return np.asarray(lost)


def _hidden(results: BaseResults, lost: NDArray[np.bool_]) -> str:
    """Names of those that no table shows: the dispersions of one response."""
    index = np.unique(results.spec.layout.scale_index())
    if len(results.spec.responses) > 1 or not lost[index].any():
        return ""
    names = [results.spec.param_names[i] for i in index if lost[i]]
    return f" (in no table: {', '.join(names)})"


def _search_notes(results: BaseResults) -> list[str]:
    """How the search went, where it was not as usual."""
    fitted = results.fitted
    notes, search = [], fitted.search
    # One start alone says nothing of others, and its chance is no estimate.
    tried = None if search is None or fitted.certified or search.starts < 2 else search
    if tried is not None and tried.chance > DOUBTFUL:
        notes.append(
            f"One more start might find a better maximum (chance {tried.chance:.0%}): fit again "
            "with a larger n_init, or another seed."
        )
    if tried is not None and tried.agreement < ALIKE_LABELS:
        notes.append(
            "Other maxima within two units of log-likelihood have other segments (Rand index "
            f"{tried.agreement:.2f}): the data hardly tell them apart. Try a smaller k."
        )
    if fitted.revived:
        notes.append(f"An emptied component was seeded anew {fitted.revived} times.")
    if fitted.empty:
        notes.append(f"{_components(fitted.empty)} empty; try a smaller k.")
    if not results.converged and fitted.reason == "max_iter":
        notes.append("The fit did not converge; raise max_iter.")
    if fitted.reason == "edge":
        notes.append(
            "Some means lie at the end of their range, as those of a category without events do "
            "under an identity link: the likelihood rises up to there, and standard errors do not "
            "hold. A link that has means everywhere avoids it."
        )
    if fitted.reason == "interrupted":
        notes.append(
            "The fit was interrupted: this is the best so far. AIC, BIC and ICL are those of an "
            "unfinished fit. Fit again to finish."
        )
    return notes


def _prior_notes(results: BaseResults) -> list[str]:
    """The priors, and how many components they left alive."""
    p, mixture = results.fitted.priors, results.spec.mixture
    assert p is not None
    chances = f"weights Dirichlet({p.concentration:g})"
    if not mixture.gate.constant:
        chances = f"coefficients of the class probabilities normal({p.gate_scale:g})"
    linear, scaled = mixture.family.linear, mixture.family.dispersion_name is not None
    coef = f"{p.coef_scale:g} sigma" if linear else f"{p.link_scale:g}"
    text = (
        f"Priors, in standard units: {chances}; coefficients normal with standard deviation {coef}"
    )
    if scaled:
        what = "variances" if linear else "dispersions"
        text += f"; {what} inverse gamma({p.shape:g}, {p.rate:g})"
    notes = [f"{text}.", *_approximate(mixture, p)]
    if len(results.alive) < results.k:
        dead = [str(j) for j in results.components if j not in results.alive]
        one = len(dead) == 1
        which = f"Component {dead[0]} is" if one else f"Components {', '.join(dead)} are"
        notes.append(f"{which} not needed: no rows are left in {'it' if one else 'them'}.")
    return notes


def _approximate(mixture: Mixture, priors: Priors) -> list[str]:
    """Which parts of the lower bound are not exact."""
    parts = {
        "log densities averaged over coefficients": components_of(mixture, priors).exact,
        "class probabilities averaged over their coefficients": mixture.gate.posterior.exact,
    }
    told = " and ".join(part for part, exact in parts.items() if not exact)
    return [f"Approximate in the ELBO: {told}; all else is exact."] if told else []
