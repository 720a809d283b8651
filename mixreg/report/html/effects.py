"""What a coefficient means, in words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from mixreg.report.base_results import BaseResults
from mixreg.report.elasticities import LOG, log_terms

# A name in a formula that is in quotes; brackets and colons in it are part of the name.
QUOTED = re.compile(r"Q\((?P<mark>['\"])(?P<name>(?:\\.|(?!(?P=mark)).)*)(?P=mark)\)")
NAME = r"""Q\("(?:\\.|[^"\\])*"\)|Q\('(?:\\.|[^'\\])*'\)"""
LEVEL = re.compile(
    rf"(?:C\(\s*(?P<inner>{NAME}|[^,()]+)\s*(?:,.*)?\)|(?P<plain>{NAME}|[^\[\]():]+))"
    r"\[(?:T\.)?(?P<level>.*)\]"
)
BRACKETED = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")


@dataclass(frozen=True, slots=True)
class Effect:
    """How a term is told.

    Attributes
    ----------
    cause : str
        "1% more price", "one more x", "fee = high".
    response : str
    kind : {"percent", "odds", "ratio", "utility", "predictor", "plain", "coefficient"}
        What the coefficient does to the response; "coefficient" where it alone does not tell.
    """

    cause: str
    response: str
    kind: str

    def outcome(self, value: float, named: bool = True) -> str:
        """What goes with the cause, at a coefficient; with the name of the response or without."""
        y = f" {self.response}" if named else ""
        if self.kind == "coefficient":
            return f"a coefficient of {signed(value)}"
        if self.kind == "percent":
            return f"{amount(value)}% {_more(value)}{y}"
        if self.kind == "odds":
            return f"{times(value)} the odds{y and ' of'}{y}"
        if self.kind == "ratio":
            return f"{times(value)}{y and ' the'}{y}"
        if self.kind in ("utility", "predictor"):
            what = "utility" if self.kind == "utility" else "linear predictor"
            return f"a {what} {amount(value)} {'lower' if value < 0 else 'higher'}"
        return f"{amount(value)} {_more(value)}{y}"


def effects(res: BaseResults) -> list[Effect]:
    """How each term is told, in the order of the terms."""
    logs, found = log_terms(res), []
    named = res.spec.family.named_links(res.spec.endog_names)
    for term in res.spec.exog_names:
        prefix, link, response = max(
            (each for each in named if term.startswith(each[0])), key=lambda each: len(each[0])
        )
        inner = term.removeprefix(prefix)
        y, terms = without_log(response), res.spec.exog_names
        if term in logs:
            found.append(
                Effect(f"1% more {unquoted(logs[term].removeprefix(prefix))}", y, "percent")
            )
        elif entangled(term, prefix, terms):
            found.append(Effect(f"the term {inner}", y, "coefficient"))
        else:
            found.append(Effect(_cause(inner), y, _kind(res, link, response)))
    return found


def entangled(term: str, prefix: str, terms: list[str]) -> bool:
    """Whether a term's variable is in other terms too: an interaction, or a power."""
    inner = term.removeprefix(prefix)
    if _is_product(inner):
        return True
    variable = _variable(inner)
    others = [t.removeprefix(prefix) for t in terms if t.startswith(prefix) and t != term]
    return any(
        _variable(other) != variable
        and (_mentions(other, variable) or _mentions(inner, _variable(other)))
        for other in others
    )


def _mentions(term: str, variable: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(variable)}(?!\w)", term) is not None


def _is_product(term: str) -> bool:
    """Whether a term is an interaction: colons that stand in no brackets or quotes."""
    bare, inner = "", QUOTED.sub("", term)
    # From the inside to the outside: C(a, Treatment("b")).
    while bare != inner:
        bare, inner = inner, BRACKETED.sub("", inner)
    return ":" in bare


def _variable(term: str) -> str:
    """The variable of a term: of a level, its category."""
    level = None if _is_product(term) else LEVEL.fullmatch(term)
    return term if level is None else (level["inner"] or level["plain"]).strip()


def _kind(res: BaseResults, link: str, response: str) -> str:
    if res.spec.family.takes_sets:
        return "utility"
    if link == "logit":
        return "odds"
    if link == "log" or (link == "identity" and LOG.fullmatch(response)):
        return "ratio"
    return "plain" if link == "identity" else "predictor"


def _cause(term: str) -> str:
    level = LEVEL.fullmatch(term)
    if level is None:
        return f"one more {unquoted(term)}"
    return f"{unquoted((level['inner'] or level['plain']).strip())} = {level['level']}"


def without_log(response: str) -> str:
    """A response without its log: what a log is of."""
    match = LOG.fullmatch(response)
    return unquoted(response if match is None else match[1].strip())


def unquoted(term: str) -> str:
    """A name without the `Q("...")` that it needs in a formula."""
    match = QUOTED.fullmatch(term)
    return term if match is None else re.sub(r"\\(.)", r"\1", match["name"])


def _more(value: float) -> str:
    return "less" if value < 0 else "more"


def amount(value: float) -> str:
    """The size of a number, with as many digits as one reads."""
    size = abs(value)
    return f"{size:,.0f}" if 1000 <= size < 1e15 else f"{size:.3g}"


def signed(value: float) -> str:
    """A number with its sign."""
    return f"{'−' if value < 0 else '+'}{amount(value)}"


def times(value: float) -> str:
    """A factor whose logarithm is given."""
    return f"{math.exp(value):.3g} times" if value < 700 else "many times"
