"""What was asked, frozen: formulas with what was learnt of them, families, options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mixreg.errors import NotAvailableError
from mixreg.families import Family
from mixreg.mixture.gate import make_gate
from mixreg.mixture.layout import Layout
from mixreg.mixture.mixture import Mixture
from mixreg.table.design import Design
from mixreg.table.responses import Response, joint_design, joint_family


@dataclass(frozen=True, eq=False)
class Spec:
    """A model without its rows.

    Attributes
    ----------
    k : int
        Number of components.
    responses : tuple of Response
        Each with its formula, its family, and what was learnt of its columns.
    shared : tuple of int
        Terms with one coefficient for all components.
    absent : tuple of (component, term) pairs, both from 0
        Terms that a component lacks.
    gate_design : Design or None
        Concomitant variables.
    noise : bool
        Whether there is a background component.
    labelled : bool
        Whether labels of units that count are known.
    groups_name : str or None
        Name of the column that names the groups.
    """

    k: int
    responses: tuple[Response, ...]
    shared: tuple[int, ...]
    absent: tuple[tuple[int, int], ...]
    gate_design: Design | None
    noise: bool
    labelled: bool
    groups_name: Any

    @cached_property
    def design(self) -> Design:
        """Terms of all responses."""
        return joint_design(self.responses)

    @cached_property
    def family(self) -> Family:
        """The family of the response, or of several."""
        equal = any(response.family.equal_dispersion for response in self.responses)
        return joint_family(self.responses, self.shared, equal)

    @cached_property
    def layout(self) -> Layout:
        """Where each free parameter sits in the flat vector."""
        family = self.family
        return Layout(
            self.k,
            self.design.terms,
            family.equal_dispersion,
            family.scale_name,
            family.scale_power,
            self.shared,
            () if self.gate_design is None else self.gate_design.terms,
            self.noise,
            self.absent,
        )

    @cached_property
    def mixture(self) -> Mixture:
        """What is mixed, in the user's units."""
        lengths = tuple(response.length for response in self.responses)
        background = lengths[0] if len(lengths) == 1 else lengths
        own = [i for i in range(len(self.design.terms)) if i not in self.shared]
        order = [*own, *self.shared]
        return Mixture(
            self.family,
            len(self.shared),
            background if self.noise else None,
            make_gate(len(self.layout.gate)),
            self.labelled,
            tuple((j, order.index(i)) for j, i in self.absent),
        )

    @property
    def classes(self) -> list[int]:
        """Labels that occur: the components, and 0 for the background if there is one."""
        return [*range(1, self.k + 1), *([0] if self.noise else [])]

    @property
    def endog_names(self) -> str:
        """Name of the response."""
        return self.design.response

    @property
    def response_names(self) -> list[str]:
        """Names of all responses."""
        return [response.name for response in self.responses]

    @property
    def exog_names(self) -> list[str]:
        """Names of the regressors."""
        return list(self.design.terms)

    @property
    def param_names(self) -> list[str]:
        """Names of the free parameters, `term[component]`."""
        return self.layout.names

    @property
    def has_trials(self) -> bool:
        """Whether some response is a share of trials."""
        return any(response.has_trials for response in self.responses)

    def with_k(self, k: int) -> Spec:
        """The same model with another number of components."""
        return replace(self, k=k)

    def check_one_response(self, what: str) -> None:
        """Refuse what several responses have no part in."""
        if len(self.responses) > 1:
            raise NotAvailableError(
                f"{what} is for models of one response; this one has {len(self.responses)}, "
                f"{self.endog_names}"
            )
