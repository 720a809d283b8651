"""Estimates of a fit: weights, coefficients, scales, and class probabilities."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mixreg.errors import NotAvailableError
from mixreg.mixture.gate import ConstantGate, Gate
from mixreg.mixture.parameters import Parameters, log_gating
from mixreg.report.criteria import Criteria


class Estimates(Criteria):
    """What a fit estimated, as tables by component."""

    @property
    def elbo(self) -> float:
        """Evidence lower bound of variational Bayes, in the user's units.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=4).fit("vb")
        >>> round(res.elbo, 1)
        180.2
        """
        if self.fitted.elbo is None:
            raise NotAvailableError("only method='vb' has a lower bound; see llf for this fit")
        return self.fitted.elbo

    @property
    def weights(self) -> pd.Series:
        """Mixing weights by component; averages where they depend on concomitants.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.weights.round(2).to_dict()
        {1: 0.63, 2: 0.37}
        """
        return pd.Series(self.fitted.tally.weights, self.classes, name="weight")

    def gate_at(self, z: Any) -> tuple[Gate, Parameters]:
        """The gate of units with these concomitants, and its mixture.

        Where the concomitants are not there, classes have their average probabilities.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, concomitant="~ yb").fit()
        >>> gate, params = res.gate_at(None)
        >>> gate.constant, params.k
        (True, 2)
        """
        gate, params = self.spec.mixture.gate, self.fitted.estimate.params
        if gate.reads(z):
            return gate, params
        average = log_gating(self.fitted.tally.weights)
        return ConstantGate(), Parameters(params.coef, params.dispersion, average)

    @property
    def coefficients(self) -> pd.DataFrame:
        """Coefficients, terms x components.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> print(res.coefficients.round(2))
        component        1    2
        term
        Intercept     1.56  0.0
        stretchratio  0.22  1.0
        """
        return pd.DataFrame(
            self.fitted.estimate.params.coef.T,
            pd.Index(self.spec.design.terms, name="term"),
            self.components,
        )

    @property
    def scale(self) -> pd.Series | pd.DataFrame:
        """Residual standard deviation by component; the dispersion in other families.

        With several responses a DataFrame, with a column for each that has one.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.scale.round(3).tolist()
        [0.217, 0.005]
        """
        family = self.spec.family
        values = self.fitted.estimate.params.dispersion**family.scale_power
        if isinstance(family.scale_name, tuple):
            frame = pd.DataFrame(values, self.components, list(family.scale_name))
            return frame[self.spec.layout.scale_names]
        return pd.Series(values, self.components, name=family.dispersion_name or "scale")

    @property
    def gate(self) -> pd.DataFrame:
        """Coefficients of the class probabilities, concomitants x components.

        The first component is the reference.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> npreg = datasets.npreg()
        >>> res = MixReg.from_formula("yn ~ x + I(x**2)", npreg, k=2, concomitant="~ yb").fit()
        >>> print(res.gate.round(2))
        component    1     2
        term
        Intercept  0.0  0.17
        yb         0.0 -0.42
        """
        if self.spec.mixture.gate.constant:
            raise NotAvailableError(
                "class probabilities are constant; declare concomitant='~ age' to model them"
            )
        gate, terms = self.fitted.estimate.params.gating, self.spec.layout.gate
        return pd.DataFrame((gate - gate[:1]).T, pd.Index(terms, name="term"), self.classes)
