"""The code that makes a fit again, as far as the fit knows it."""

from __future__ import annotations

from typing import Any

from mixreg.errors import NotAvailableError
from mixreg.families import registry
from mixreg.report.base_results import BaseResults
from mixreg.table.responses import Response

BY_RESPONSE = "offset", "exposure", "trials", "choice_set"
UNNAMED = "..."


def code_of(res: BaseResults) -> str:
    """Lines that declare the model and fit it; dots stand for what the fit does not know."""
    arguments = [*_first(res), f"k={res.k}", *_declared(res)]
    lines = ["import mixreg", "", f"model = {_called(_maker(res), arguments)}"]
    fit = [f"{name}={value}" for name, value in _fit_options(res).items()]
    return "\n".join([*lines, f"res = {_called('model.fit', fit)}"])


def _called(name: str, arguments: list[str]) -> str:
    """A call on one line, or with an argument a line where it is long."""
    line = f"{name}({', '.join(arguments)})"
    if len(line) <= 76:
        return line
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), ")"])


def _maker(res: BaseResults) -> str:
    arrays = res.spec.responses[0].design.formula is None
    return "mixreg.MixReg" if arrays else "mixreg.MixReg.from_formula"


def _first(res: BaseResults) -> list[str]:
    formulas = [response.design.formula for response in res.spec.responses]
    if formulas[0] is None:
        return ["endog", "exog"]
    return [repr(formulas[0]) if len(formulas) == 1 else repr(formulas), "data"]


def _declared(res: BaseResults) -> list[str]:
    """Arguments that are not as usual."""
    spec, found = res.spec, []
    if res.ngroups is not None:
        found.append(f"groups={_text(spec.groups_name)}")
    found += _family(spec.responses)
    if spec.gate_design is not None:
        found.append(f"concomitant={_text(spec.gate_design.formula)}")
    if spec.shared:
        found.append(f"shared={[spec.exog_names[i] for i in spec.shared]!r}")
    if spec.absent:
        found.append(f"only={_only(res)!r}")
    if spec.noise:
        found.append("noise=True")
    return found + _columns(spec.responses)


def _text(name: Any) -> str:
    """A name as code; dots where a column had none."""
    return UNNAMED if name is None or name == "" else repr(name)


def _family(responses: tuple[Response, ...]) -> list[str]:
    """Families and links, and whether dispersions are common."""
    names = [response.family.name for response in responses]
    links = [response.family.link_name for response in responses]
    found = []
    if set(names) != {registry.DEFAULT}:
        found.append(f"family={(names[0] if len(set(names)) == 1 else names)!r}")
    if not responses[0].family.takes_sets:
        found.append(f"link={(links[0] if len(set(links)) == 1 else links)!r}")
    if responses[0].family.equal_dispersion:
        found.append("equal_variance=True")
    return found


def _only(res: BaseResults) -> dict[str, list[int]]:
    found = {}
    for i in sorted({i for _, i in res.spec.absent}):
        lacking = {j for j, term in res.spec.absent if term == i}
        found[res.spec.exog_names[i]] = [j for j in res.components if j - 1 not in lacking]
    return found


def _columns(responses: tuple[Response, ...]) -> list[str]:
    """Columns beside the formula, by response where there are several."""
    found = []
    for name in ("weights", "known_labels"):
        if responses[0].names.get(name) is not None:
            found.append(f"{name}={_text(responses[0].names[name])}")
    for name in BY_RESPONSE:
        given = {r.name: _text(r.names[name]) for r in responses if r.names.get(name) is not None}
        if given and len(responses) == 1:
            found.append(f"{name}={next(iter(given.values()))}")
        elif given:
            each = ", ".join(f"{key!r}: {value}" for key, value in given.items())
            found.append(f"{name}={{{each}}}")
    return found


def _fit_options(res: BaseResults) -> dict[str, str]:
    """Options of `fit` that matter; a fit from a file keeps few of them."""
    known: dict[str, Any] = {"method": res.method}
    if res.method != "vb":
        known["cov_type"] = res.cov_type
    try:
        options = res.options
    except NotAvailableError:
        return {name: repr(value) for name, value in known.items()}
    known |= {"n_init": options.effort.n_init, "seed": options.seed}
    if options.resample is not None:
        known["resample"] = options.resample
    init = repr(options.init) if isinstance(options.init, str) else UNNAMED
    return {"init": init} | {name: repr(value) for name, value in known.items()}
