"""What was asked, frozen: formulas with what was learnt of them, family, layout, options."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mixreg.errors import NotAvailableError
from mixreg.families import Family
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Layout
from mixreg.table.design import Design
from mixreg.table.responses import Response


@dataclass(frozen=True, eq=False)
class Spec:
    """A model without its rows.

    Attributes
    ----------
    k : int
        Number of components.
    design : Design
        Terms of all responses.
    responses : tuple of Response
    family : Family
        Of the response, or of several.
    layout : Layout
    mixture : Mixture
        In the user's units.
    gate_design : Design or None
        Concomitant variables.
    noise : bool
        Whether there is a background component.
    groups_name : str or None
        Name of the column that names the groups.
    """

    k: int
    design: Design
    responses: tuple[Response, ...]
    family: Family
    layout: Layout
    mixture: Mixture
    gate_design: Design | None
    noise: bool
    groups_name: str | None

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
        return replace(self, k=k, layout=replace(self.layout, k=k))

    def check_one_response(self, what: str) -> None:
        """Refuse what several responses have no part in."""
        if len(self.responses) > 1:
            raise NotAvailableError(
                f"{what} is for models of one response; this one has {len(self.responses)}, "
                f"{self.endog_names}"
            )
