"""Draws of a fit, as methods: from its posterior, for ArviZ and with PyMC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mixreg.ppl.draws import draw_vectors, mixtures_of, predictive
from mixreg.ppl.inference_data import to_arviz
from mixreg.ppl.likelihood import Likelihood
from mixreg.ppl.sampling import initial_point, sample
from mixreg.report.segmented import Segmented
from mixreg.table.checks import whole

Array = NDArray[np.float64]


class Sampled(Segmented):
    """A fit as a distribution: draws of parameters and of responses."""

    def posterior_draws(self, n: int = 1000, seed: int = 0) -> pd.DataFrame:
        """Draws of `params`, (n, parameters).

        From the posterior of variational Bayes; for other fits, from the
        asymptotic normal distribution of the estimates.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> draws = res.posterior_draws(500)
        >>> draws.shape
        (500, 7)
        >>> round(float(draws["stretchratio[2]"].mean()), 2)
        1.0
        """
        n, seed = whole("n", n, 1), whole("seed", seed, 0)
        return pd.DataFrame(draw_vectors(self, n, seed), columns=self.spec.param_names)

    def predictive_draws(self, n: int = 100, seed: int = 0) -> pd.DataFrame:
        """Responses drawn from the posterior predictive distribution, (n, rows).

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> res.predictive_draws(20).shape
        (20, 150)
        """
        self.spec.check_one_response("predictive_draws")
        n, seed = whole("n", n, 1), whole("seed", seed, 0)
        stack = mixtures_of(self.spec.layout, draw_vectors(self, n, seed))
        return pd.DataFrame(predictive(self, stack, seed), columns=self.model.index)

    def to_arviz(self, n: int = 1000, seed: int = 0) -> Any:
        """Draws as ArviZ data: posterior, log-likelihood, posterior predictive, labels.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> data = res.to_arviz(20)
        >>> dict(data.posterior["coef"].sizes)
        {'chain': 1, 'draw': 20, 'component': 2, 'term': 2}
        """
        return to_arviz(self, whole("n", n, 1), whole("seed", seed, 0))

    def initial_point(self) -> dict[str, Array]:
        """Values of the variables of `model.to_pymc()` at the fit, to start chains at.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> {name: value.shape for name, value in res.initial_point().items()}
        {'beta': (4,), 'dispersion': (2,), 'weights': (2,)}
        """
        return initial_point(self)

    def sample(
        self,
        draws: int = 1000,
        chains: int = 4,
        seed: int = 0,
        *,
        tune: int = 1000,
        priors: Any = None,
        progress: bool = False,
        likelihood: Likelihood = "graph",
        **options: Any,
    ) -> Any:
        """Sample the posterior with PyMC, and return ArviZ data.

        Chains start around the fit, further apart than the standard errors say, and label
        switching is undone against it. Then R-hat, effective numbers of draws and divergences
        are checked, and a `ConvergenceWarning` says what is wrong and what to try.

        Parameters
        ----------
        draws, tune, chains : int
            As in `pymc.sample`.
        seed : int
        priors : Priors, optional
            Weakly informative if None, with Dirichlet(1) weights.
        progress : bool
            Show a progress bar.
        likelihood : {"graph", "sweep"}
            As in `MixReg.to_pymc`.
        **options
            Passed on to `pymc.sample`, as `nuts_sampler="nutpie"` or `target_accept=0.95`;
            `compute_convergence_checks=False` leaves out the checks. One chain has no R-hat.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> data = res.sample(20, 1, tune=20, compute_convergence_checks=False)
        >>> dict(data.posterior["coef"].sizes)
        {'chain': 1, 'draw': 20, 'component': 2, 'term': 2}
        """
        return sample(self, draws, tune, chains, seed, priors, progress, likelihood, options)
