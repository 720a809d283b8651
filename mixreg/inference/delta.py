"""Functions of the estimates, with standard errors by the delta method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from mixreg.errors import InputError, InterpretationWarning, warn
from mixreg.report.base_results import BaseResults


def willingness_to_pay(res: BaseResults, price: str, alpha: float) -> pd.DataFrame:
    """Minus each coefficient over the price's; see `MixRegResults.wtp`."""
    terms = res.spec.exog_names
    if price not in terms:
        raise InputError(f"price={price!r} is not a term; terms are {', '.join(terms)}")
    known, index = res.fitted.estimate.known, res.spec.layout.coef_index()
    coef, at = res.fitted.estimate.params.coef, terms.index(price)
    others = [i for i, term in enumerate(terms) if term not in (price, "Intercept")]
    names = ["wtp", "std err", "z", "P>|z|", f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
    has_it = index[:, at] >= 0
    # A price that runs off is infinite itself, and what is divided by it means nothing.
    far = has_it & known.involved(np.eye(len(known.finite)))[index[:, at]]
    _warn_of_prices(price, coef[:, at], has_it, far)
    rows, keys = [], []
    for j in range(res.k):
        for i in others:
            if index[j, i] < 0 or index[j, at] < 0:
                continue  # The component lacks the term.
            keys.append((j + 1, terms[i]))
            value = -coef[j, i] / coef[j, at]
            gradient = np.zeros(res.spec.layout.size)
            gradient[index[j, i]] -= 1 / coef[j, at]
            gradient[index[j, at]] += coef[j, i] / coef[j, at] ** 2
            se = np.inf if far[j] else float(np.sqrt(known.variance(gradient[None])[0]))
            z = np.nan if np.isinf(se) else value / se if se > 0 else np.inf
            half = norm.isf(alpha / 2) * se
            rows.append([value, se, z, 2 * norm.sf(abs(z)), value - half, value + half])
    return pd.DataFrame(rows, pd.MultiIndex.from_tuples(keys, names=["component", "term"]), names)


def _warn_of_prices(price: str, coef: Any, has_it: Any, far: Any) -> None:
    """Warn of components in which a willingness to pay means nothing."""
    for j in np.flatnonzero(far).tolist():
        warn(
            f"component {j + 1} is separated: its coefficient of {price} runs off to infinity, so "
            "it has no willingness to pay, and its standard errors are infinite; try a smaller k "
            "or fewer terms",
            InterpretationWarning,
        )
    for j in np.flatnonzero(has_it & ~far & (coef >= 0)).tolist():
        warn(
            f"the coefficient of {price} is {coef[j]:.3g} in component {j + 1}: it does not "
            "mind paying more, so its willingness to pay has no meaning",
            InterpretationWarning,
        )
