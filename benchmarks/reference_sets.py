"""The cases of `tests/reference`, for the search's table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np  # noqa: F401 (formulas name it)

from benchmarks.reference_glm import declare
from mixreg import MixReg
from tests.reference import Reference, cases
from tests.reference.glm import GlmReference, glm_cases

Stored = dict[int, Reference | GlmReference]


def _name(case: Reference | GlmReference) -> str:
    return case.case.removesuffix(f"_k{case.k}")


@dataclass(frozen=True)
class ReferenceSet:
    """Cases that differ in k only."""

    name: str
    ks: tuple[int, ...]

    def model(self, stored: Stored, k: int) -> MixReg:
        """The model with k components."""
        case = stored[k]
        if isinstance(case, GlmReference):
            return declare(case)
        return MixReg.from_formula(case.formula, case.data(), k=k, groups=case.groups)


def load(name: str) -> Stored:
    """The cases of a set by their k."""
    return {case.k: case for case in [*cases(), *glm_cases()] if _name(case) == name}


def _sets() -> tuple[ReferenceSet, ...]:
    ks: dict[str, list[int]] = {}
    for case in [*cases(), *glm_cases()]:
        if case.k > 1:
            ks.setdefault(_name(case), []).append(case.k)
    return tuple(ReferenceSet(name, tuple(sorted(each))) for name, each in ks.items())


SETS = _sets()
