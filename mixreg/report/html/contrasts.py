"""How segments differ: a coefficient of one against the average of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.report.base_results import BaseResults

Array = NDArray[np.float64]

# Differences of so many standard errors are told.
CLEAR = 2.0


@dataclass(frozen=True, slots=True)
class Contrast:
    """A coefficient of a segment beside the weighted average of the others.

    Attributes
    ----------
    term : int
        Its place among the terms.
    value, others : float
        `others` is NaN where there are none.
    z : float
        Their difference (of one segment: the value) in standard errors; NaN if not known.
    own : float
        The value in standard errors.
    """

    term: int
    value: float
    others: float
    z: float
    own: float

    @property
    def clear(self) -> bool:
        """Whether chance is an unlikely reason of the difference."""
        return bool(abs(self.z) >= CLEAR)


def contrasts(res: BaseResults, component: int) -> list[Contrast]:
    """Contrasts of a component's own terms, the clearest first; no intercepts, no shared terms."""
    names = res.spec.exog_names
    wanted = [i for i in res.spec.layout.own(component - 1) if not is_intercept(names[i])]
    found = [_contrast(res, component, i) for i in wanted]
    return sorted(found, key=lambda c: 0.0 if np.isnan(c.z) else -abs(c.z))


def level_contrast(res: BaseResults, component: int) -> float:
    """The intercept against those of the others, in standard errors; 0 if not known."""
    own, names = res.spec.layout.own(component - 1), res.spec.exog_names
    places = [i for i in own if is_intercept(names[i])]
    return float(np.nan_to_num(_contrast(res, component, places[0]).z)) if len(places) == 1 else 0.0


def gate_contrasts(res: BaseResults, component: int) -> dict[str, float]:
    """Concomitants that make a class likelier or less likely than average, in standard errors."""
    layout, classes = res.spec.layout, res.spec.classes
    if not layout.gate:
        return {}
    places = layout.gating_index().reshape(len(classes) - 1, -1)
    # Nothing is known of the gate of a class that nobody is in.
    average = np.where(res.fitted.tally.assigned > 0, res.fitted.tally.weights, 0.0)
    average, at = average / average.sum(), classes.index(component)
    found = {}
    for q, name in enumerate(layout.gate):
        line = np.zeros(layout.size)
        line[places[:, q]] = -average[1:]
        if at:
            line[places[at - 1, q]] += 1.0
        z = in_errors(res, line)
        if not is_intercept(name) and abs(z) >= CLEAR:
            found[name] = z
    return found


def is_intercept(term: str) -> bool:
    """Whether a term, of one response or several, is the intercept."""
    return term.rpartition(": ")[2] == "Intercept"


def _contrast(res: BaseResults, component: int, term: int) -> Contrast:
    j, index = component - 1, res.spec.layout.coef_index()[:, term]
    coef = res.fitted.estimate.params.coef[:, term]
    rest = np.array([o - 1 for o in res.alive if o != component], dtype=int)
    share = res.fitted.tally.weights[rest] / max(res.fitted.tally.weights[rest].sum(), 1e-300)
    own, other = np.zeros(res.spec.layout.size), np.zeros(res.spec.layout.size)
    own[index[j]] = 1.0
    there = index[rest] >= 0
    np.add.at(other, index[rest][there], share[there])
    others = float(share @ coef[rest]) if len(rest) else float("nan")
    return Contrast(term, float(coef[j]), others, in_errors(res, own - other), in_errors(res, own))


def in_errors(res: BaseResults, line: Array) -> float:
    """A linear function of the parameters over its standard error; NaN if that is not known."""
    if res.fitted.estimate.cov is None:
        return float("nan")
    variance = float(res.fitted.estimate.known.variance(line[None])[0])
    if not np.isfinite(variance):
        return float("nan")
    value = float(line @ res.fitted.estimate.vector)
    if variance > 0:
        return value / float(np.sqrt(variance))
    # Of an exact fit nothing is in doubt.
    return float(np.copysign(np.inf, value)) if variance == 0 and value else float("nan")
