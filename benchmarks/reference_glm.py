"""Other families: log-likelihoods, coefficients and standard errors against R's fits."""

import time
import warnings

import numpy as np

from mixreg import MixReg
from tests.reference.glm import GlmReference, glm_cases


def declare(case: GlmReference) -> MixReg:
    """The model of a case."""
    if len(case.parts) > 1:
        formulas = [part.formula for part in case.parts]
        families = [part.family for part in case.parts]
        return MixReg.from_formula(formulas, case.data(), k=case.k, family=families)
    part = case.part
    options = {"family": part.family, "groups": case.groups, "choice_set": case.choice_set}
    if part.shared:
        options["shared"] = list(part.shared)
    data = case.data()
    if part.offset:
        options["offset"] = np.log(data["Length"])
    if not part.present.all():
        options["only"] = {
            term: (np.flatnonzero(have) + 1).tolist()
            for term, have in zip(part.terms, part.present.T, strict=True)
            if not have.all()
        }
    return MixReg.from_formula(part.formula, data, k=case.k, **options)


def worst_coefficient(case: GlmReference, res) -> float:
    """Largest relative gap, of coefficients beyond a tenth of their standard error."""
    if not case.is_best_known or case.solution_kind != "regular":
        return float("nan")
    ours = res.coefficients.loc[term_names(case)].to_numpy().T
    theirs = np.concatenate([part.coefficients for part in case.parts], axis=1)
    present = np.concatenate([part.present for part in case.parts], axis=1)
    return float((np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-2))[present].max())


def term_names(case: GlmReference) -> list[str]:
    """Terms as mixreg names them."""
    if len(case.parts) == 1:
        return list(case.part.terms)
    return [
        f"{part.formula.split('~')[0].strip()}: {term}"
        for part in case.parts
        for term in part.terms
    ]


def worst_error(case: GlmReference, res, which: str) -> float:
    """Largest relative gap of the coefficients' standard errors."""
    errors = [getattr(part, which) for part in case.parts]
    if any(each is None for each in errors) or not case.is_best_known:
        return float("nan")
    theirs = np.concatenate(errors, axis=1)
    present = np.concatenate([part.present for part in case.parts], axis=1)
    index = res.model.layout.coef_index()
    columns = [res.model.exog_names.index(term) for term in term_names(case)]
    ours = res.bse.to_numpy()[index[:, columns]]
    return float(np.abs(ours / theirs - 1)[present].max())


def main(seeds: int = 10) -> None:
    """Print one line a case."""
    print("gain: log-likelihood over the best known (or R's), first seed; hits: seeds within 1e-5")
    print(f"{'case':<22} {'best known':>12} {'gain':>9} {'hits':>6} {'time':>8} ", end="")
    print(f"{'coef':>9} {'se ml':>9} {'se refit':>9}")
    for case in glm_cases():
        model, best = declare(case), case.best_known or case.llf
        gains, times, first = [], [], None
        for seed in range(seeds):
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                res = model.fit(seed=seed)
            times.append(time.perf_counter() - start)
            gains.append(res.llf - best)
            first = first or res
        hits = sum(gain > -1e-5 for gain in gains)
        print(
            f"{case.case:<22} {best:12.4f} {gains[0]:+9.1e} {hits:>3}/{seeds} "
            f"{np.median(times):6.3f} s {worst_coefficient(case, first):9.1e} "
            f"{100 * worst_error(case, first, 'se'):8.4f}% "
            f"{100 * worst_error(case, first, 'refit_se'):8.3f}%",
            flush=True,
        )
