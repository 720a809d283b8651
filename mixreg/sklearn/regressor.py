"""Mixtures of regressions as a regressor of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from mixreg.sklearn.segmenting import Segmenting

Array = NDArray[np.float64]


class MixtureRegressor(RegressorMixin, Segmenting):
    """A mixture of regressions as a scikit-learn regressor.

    Parameters
    ----------
    k : int
        Number of segments. Where rows are too few for it, fewer are fitted, with
        a warning (`k_`).
    family, link, equal_variance
        As in `MixReg`; not "choice".
    concomitant : "all" or list, optional
        Columns of X on which the probabilities of segments depend. Without them,
        `predict` averages segments by their weights.
    method, init, n_init, max_iter, tol, cov_type
        As in `MixReg.fit`; the search is shorter, because folds and grids fit many
        times, and standard errors are left out by default.
    fit_intercept : bool
        Whether each segment has an intercept.
    random_state : int, RandomState or None
        None is as good as 0: fits do not differ from call to call.

    Attributes
    ----------
    result_ : MixRegResults
        The fit, with `summary()` and all else.
    k_ : int
    coef_ : (k, p) array
        0 for columns that others make up.
    intercept_, weights_ : (k,) arrays
    labels_ : (n,) array
        Segment of each row, from 1.

    Examples
    --------
    >>> from mixreg import datasets
    >>> from mixreg.sklearn import MixtureRegressor
    >>> tones = datasets.tonedata()
    >>> model = MixtureRegressor(k=2).fit(tones[["stretchratio"]], tones["tuned"])
    >>> model.coef_.round(2).ravel().tolist()
    [0.22, 1.0]
    """

    def __init__(
        self,
        k: int = 2,
        *,
        family: Any = "gaussian",
        link: Any = None,
        concomitant: Any = None,
        equal_variance: bool = False,
        fit_intercept: bool = True,
        method: str = "em",
        init: Any = "auto",
        n_init: int = 4,
        max_iter: int = 1000,
        tol: float = 1e-10,
        cov_type: str = "none",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            k,
            link=link,
            concomitant=concomitant,
            fit_intercept=fit_intercept,
            method=method,
            init=init,
            n_init=n_init,
            max_iter=max_iter,
            tol=tol,
            cov_type=cov_type,
            random_state=random_state,
        )
        self.family = family
        self.equal_variance = equal_variance

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Find the segments.

        Parameters
        ----------
        X : (n, p) array or frame
        y : (n,) array
        sample_weight : (n,) array, optional
            Case weights.
        groups : (n,) array, optional
            All rows of a group share one segment. By position, as X and y.

        Examples
        --------
        >>> from mixreg import datasets
        >>> from mixreg.sklearn import MixtureRegressor
        >>> tones = datasets.tonedata()
        >>> X, y = tones[["stretchratio"]], tones["tuned"]
        >>> model = MixtureRegressor(k=2).fit(X, y)
        >>> model.weights_.round(2).tolist()
        [0.63, 0.37]
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        return self._fit(X, np.asarray(y, dtype=float), sample_weight, groups)

    def predict(self, X: Any) -> Array:
        """Expected response: segments averaged by their probabilities.

        Examples
        --------
        >>> from mixreg import datasets
        >>> from mixreg.sklearn import MixtureRegressor
        >>> tones = datasets.tonedata()
        >>> X, y = tones[["stretchratio"]], tones["tuned"]
        >>> model = MixtureRegressor(k=2).fit(X, y)
        >>> model.predict(X.head(2)).round(2).tolist()
        [1.67, 1.69]
        """
        return self._predict(self._new(X), "mean")

    def _family(self) -> Any:
        return self.family
