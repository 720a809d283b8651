"""Which coefficients are elasticities: those of logs, where the response is on a log scale."""

from __future__ import annotations

import re

from mixreg.report.base_results import BaseResults

# Brackets in quotes are part of a name. What is atomic is not tried again, so that no name
# takes long to refuse.
TOKEN = r"""(?>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^()])"""
LOG = re.compile(rf"(?:np\.|numpy\.)?log\(((?>{TOKEN}|\({TOKEN}*+\))*+)\)")


def log_terms(res: BaseResults) -> dict[str, str]:
    """Regressors whose coefficients are elasticities, and what is inside their log."""
    found = {}
    for prefix, link, name in res.spec.family.named_links(res.spec.endog_names):
        terms = [t for t in res.coefficients.index if t.startswith(prefix)]
        for term in terms if link == "log" or LOG.fullmatch(name) else ():
            match = LOG.fullmatch(inner := term.removeprefix(prefix))
            if match and sum(inner in t.removeprefix(prefix) for t in terms) == 1:
                found[term] = prefix + match[1].strip()
    return found
