"""What marketers ask of a fit, as methods: segments, who is in them, what they would pay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mixreg.inference.delta import willingness_to_pay
from mixreg.report import segments as market
from mixreg.report.base_results import check_alpha
from mixreg.report.given_rows import on_rows
from mixreg.report.importance import importance
from mixreg.report.plotted import Plotted


class Segmented(Plotted):
    """Segments of a fit: their sizes, members, and what they care about."""

    def segments(self) -> pd.DataFrame:
        """Size, share, certainty, coefficients and elasticities of each segment.

        Examples
        --------
        >>> import numpy as np
        >>> from mixreg import MixReg, datasets
        >>> cheese, formula = datasets.cheese(), "np.log(VOLUME) ~ DISP + np.log(PRICE)"
        >>> res = MixReg.from_formula(formula, cheese, k=2, groups="RETAILER").fit()
        >>> table = res.segments()
        >>> table["size"].tolist()
        [50, 38]
        >>> table["elasticity of PRICE"].round(2).tolist()
        [-1.33, -1.84]
        """
        return market.segments(self)

    def profile(self, data: Any) -> market.SegmentProfile:
        """Describe the segments by variables that were not in the model.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> tone = datasets.tonedata()
        >>> res = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
        >>> profile = res.profile(tone.assign(late=tone.index > 75))
        >>> profile.table.loc[("stretchratio", "mean")].round(2).tolist()
        [2.18, 2.13, 2.17]
        >>> profile.tests["test"].tolist()
        ['F', 'F', 'chi-square']
        """
        return market.profile(self, data)

    def classification(self) -> market.Classification:
        """Average posterior table and expected misclassification.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
        >>> found = res.classification()
        >>> round(found.misclassification, 3)
        0.024
        >>> found.table.round(2).to_numpy().tolist()
        [[0.99, 0.01], [0.05, 0.95]]
        """
        return market.classification(self)

    def importance(
        self, attributes: Mapping[str, Sequence[str]] | None = None, *, data: Any = None
    ) -> pd.DataFrame:
        """Conjoint importance of each attribute, in percent.

        Parameters
        ----------
        attributes : dict, optional
            Terms that are one attribute: `{"fee": ["Med_Fee", "Low_Fee"]}`.
        data : DataFrame or another table, optional
            Rows with all columns of the model, for a fit whose own are gone.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> camera = datasets.camera().head(1600)
        >>> choice = {"family": "choice", "choice_set": "task", "groups": "id"}
        >>> res = MixReg.from_formula("chosen ~ canon + zoom + price", camera, k=1, **choice).fit()
        >>> res.importance()[1].round().to_dict()
        {'canon': 21.0, 'zoom': 30.0, 'price': 49.0}
        >>> res.importance({"features": ["canon", "zoom"]})[1].round().to_dict()
        {'features': 51.0, 'price': 49.0}
        """
        self.spec.check_one_response("importance")
        return importance(on_rows(self, data), attributes)

    def wtp(self, price: str, alpha: float = 0.05) -> pd.DataFrame:
        """Willingness to pay: minus each coefficient over that of the price.

        Parameters
        ----------
        price : str
            The price's term.
        alpha : float
            Intervals cover 1 - alpha.

        Returns
        -------
        DataFrame
            By component and term: wtp, std err (delta method), z, P>|z|, bounds. Where a
            coefficient runs off to infinity, as that of a brand nobody in the component buys,
            the standard error is infinite, and z is NaN; other terms keep theirs.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> camera = datasets.camera().head(1600)
        >>> choice = {"family": "choice", "choice_set": "task", "groups": "id"}
        >>> res = MixReg.from_formula("chosen ~ canon + zoom + price", camera, k=1, **choice).fit()
        >>> res.wtp("price")["wtp"].round(2).to_dict()
        {(1, 'canon'): 1.23, (1, 'zoom'): 1.73}
        """
        self.spec.check_one_response("wtp")
        return willingness_to_pay(self, price, check_alpha(alpha))
