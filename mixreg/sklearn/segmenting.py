"""What both estimators for scikit-learn share: the fit, segments, and predictions of each."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import qr
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mixreg.errors import InputError, InputWarning, nearest
from mixreg.families import make_family
from mixreg.model import MixReg
from mixreg.table import frames

Array = NDArray[np.float64]

# A column that others make up to this share of its length is left out.
DEPENDENT = 1e-9


class Segmenting(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What both estimators share: the fit, segments, and predictions of each of them."""

    result_: Any

    def __init__(
        self,
        k: int = 2,
        *,
        link: Any = None,
        concomitant: Any = None,
        fit_intercept: bool = True,
        method: str = "em",
        init: Any = "auto",
        n_init: int = 4,
        max_iter: int = 1000,
        tol: float = 1e-10,
        cov_type: str = "none",
        random_state: Any = None,
    ) -> None:
        self.k = k
        self.link = link
        self.concomitant = concomitant
        self.fit_intercept = fit_intercept
        self.method = method
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.cov_type = cov_type
        self.random_state = random_state

    def _fit(self, X: Array, y: Array, sample_weight: Any, groups: Any) -> Self:
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        used = np.ones(len(X), dtype=bool) if weight is None else weight > 0
        groups = _by_place(groups, len(X))
        self._names = _names(self, X)
        self._kept = _independent(X[used], self.fit_intercept)
        self.k_ = self._carried(X[used], y[used], groups)
        self.result_ = self._model(X, y, weight, groups).fit(
            self.method,
            self.init,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            seed=_seed(self.random_state),
            cov_type=self.cov_type,
            progress=False,
        )
        self.n_iter_ = max(1, int(self.result_.n_iter))
        self.weights_ = self.result_.weights.to_numpy()
        coef = np.zeros((self.k_, X.shape[1]))
        found = self.result_.coefficients.to_numpy().T
        coef[:, self._kept] = found[:, int(self.fit_intercept) :]
        self.coef_ = coef
        self.intercept_ = found[:, 0] if self.fit_intercept else np.zeros(self.k_)
        self.labels_ = self.result_.labels.to_numpy()
        self._n_features_out = self.k_
        return self

    def _model(self, X: Array, y: Array, weight: Array | None, groups: Any) -> MixReg:
        return MixReg(
            y,
            self._design(X),
            self.k_,
            weights=weight,
            groups=groups,
            concomitant=self._concomitants(X, learn=True),
            family=self._family(),
            link=self.link,
            equal_variance=self.equal_variance,
        )

    def _carried(self, X: Array, y: Array, groups: Any) -> int:
        """Number of components that so few rows can carry; warn where it is fewer than asked."""
        k = self.k
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise InputError(f"k must be a whole number of at least 1; got {k!r}")
        size = len(self._kept) + int(self.fit_intercept)
        linear = make_family(self._family(), self.link, False, 0.5).linear
        rows = len(np.unique(np.column_stack([X, y]), axis=0)) if linear else len(X)
        if groups is not None:
            return int(k)
        most = max(1, rows // max(1, size) if linear else rows)
        if most < k:
            warnings.warn(
                f"{rows} distinct rows with {size} coefficients a component carry k={most} at "
                f"most, not k={k}; give more rows, or a smaller k",
                InputWarning,
                stacklevel=4,
            )
        return int(min(k, most))

    def _design(self, X: Array) -> pd.DataFrame:
        """Regressors by name, those that others do not make up."""
        frame = pd.DataFrame(X[:, self._kept], columns=[self._names[i] for i in self._kept])
        if self.fit_intercept:
            frame.insert(0, "const", 1.0)
        return frame

    def _concomitants(self, X: Array, learn: bool = False) -> pd.DataFrame | None:
        """Variables that class probabilities depend on, with a constant."""
        if self.concomitant is None or self.k_ == 1:
            return None
        asked = self.concomitant
        chosen = range(X.shape[1]) if str(asked) == "all" else asked
        if isinstance(chosen, str) or not np.iterable(chosen):
            raise InputError(f"concomitant={asked!r} must be 'all' or a list of columns")
        places = [self._place(each) for each in chosen]
        frame = pd.DataFrame(X[:, places], columns=[self._names[i] for i in places])
        if learn:
            # A constant is added, and columns that others make up are left out.
            self._gated = [frame.columns[i] for i in _independent(frame.to_numpy(), True)]
        return frame[self._gated].assign(const=1.0)

    def _place(self, column: Any) -> int:
        names = list(getattr(self, "feature_names_in_", ()))
        if isinstance(column, str) and column in names:
            return names.index(column)
        if isinstance(column, (int, np.integer)) and 0 <= column < self.n_features_in_:
            return int(column)
        raise InputError(
            f"concomitant names {column!r}, which is not a column of X{nearest(column, names)}"
        )

    def _new(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _predict(self, X: Array, which: str, y: Any = None, groups: Any = None) -> Array:
        """What the fit says of new rows, by position."""
        frame = self._design(X)
        if y is not None:
            frame[self.result_.spec.endog_names] = np.asarray(y, dtype=float)
        z = self._concomitants(X)
        given = {"concomitant": z, "groups": groups}
        columns = {name: value for name, value in given.items() if value is not None}
        return np.asarray(self.result_.predict(frame, which, **columns), dtype=float)

    def transform(self, X: Any) -> Any:
        """Expected response of each row in each segment.

        A segment that stayed empty has no coefficients to go by: all of the mixture's stand in.

        Returns
        -------
        (n, k) array, or a frame after `set_output(transform="pandas")`.

        Examples
        --------
        >>> from mixreg import datasets
        >>> from mixreg.sklearn import MixtureRegressor
        >>> tones = datasets.tonedata()
        >>> X, y = tones[["stretchratio"]], tones["tuned"]
        >>> model = MixtureRegressor(k=2).fit(X, y)
        >>> model.transform(X.head(2)).round(2).tolist()
        [[1.85, 1.35], [1.87, 1.4]]
        """
        new = self._new(X)
        each = np.array(self._predict(new, "component"))
        if empty := list(self.result_.fitted.empty):
            each[:, empty] = np.asarray(self._predict(new, "mean"))[:, None]
        return each

    def segment_proba(self, X: Any, y: Any = None, groups: Any = None) -> Array:
        """Probability of each segment, (n, k).

        Parameters
        ----------
        X : (n, p) array or frame
        y : (n,) array, optional
            Responses. Without them nothing is known of a row but its concomitants,
            and probabilities are the mixing weights.
        groups : (n,) array, optional
            After a fit with groups: rows of a group share one segment, by all their
            responses; without responses, groups of the fit have what is known of them.

        Examples
        --------
        >>> from mixreg import datasets
        >>> from mixreg.sklearn import MixtureRegressor
        >>> tones = datasets.tonedata()
        >>> X, y = tones[["stretchratio"]], tones["tuned"]
        >>> model = MixtureRegressor(k=2).fit(X, y)
        >>> model.segment_proba(X.head(1)).round(2).tolist()
        [[0.63, 0.37]]
        >>> model.segment_proba(X.head(2), y.head(2)).round(2).tolist()
        [[1.0, 0.0], [0.01, 0.99]]
        """
        X = self._new(X)
        if y is not None:
            y = self._numbers(y)
            if len(y) != len(X):
                raise InputError(f"y has length {len(y)}, but X has {len(X)} rows")
        if groups is not None and self.result_.ngroups is None:
            raise InputError(
                "groups= goes with a fit that has groups; fit(X, y, groups=...), or leave it out"
            )
        return self._predict(X, "posterior", y, _by_place(groups, len(X)))

    def predict_segment(self, X: Any, y: Any = None, groups: Any = None) -> NDArray[np.intp]:
        """Most likely segment of each row, from 1 as in `labels_`; see `segment_proba`.

        Examples
        --------
        >>> from mixreg import datasets
        >>> from mixreg.sklearn import MixtureRegressor
        >>> tones = datasets.tonedata()
        >>> X, y = tones[["stretchratio"]], tones["tuned"]
        >>> model = MixtureRegressor(k=2).fit(X, y)
        >>> model.predict_segment(X.head(3), y.head(3)).tolist()
        [1, 2, 2]
        >>> npreg = datasets.npreg()
        >>> X, y, groups = npreg[["x"]].assign(square=npreg.x**2), npreg["yn"], npreg["id2"]
        >>> model = MixtureRegressor(k=2).fit(X, y, groups=groups)
        >>> bool((model.predict_segment(X, y, groups=groups) == model.labels_).all())
        True
        """
        return np.asarray(self.segment_proba(X, y, groups).argmax(axis=1) + 1)

    def _numbers(self, y: Any) -> Array:
        return np.asarray(y, dtype=float)

    def _family(self) -> Any:
        raise NotImplementedError


def _by_place(groups: Any, n: int) -> Any:
    """Groups by position, as X and y are taken: their index says nothing here."""
    if groups is None:
        return None
    values = frames.column(groups, "groups")
    if isinstance(values, pd.Series):
        values = values.reset_index(drop=True)
    if np.ndim(values) != 1 or len(values) != n:
        raise InputError(
            f"groups has shape {np.shape(values)}, but X has {n} rows; give the group of each row"
        )
    return values


def _names(estimator: Any, X: Array) -> list[str]:
    """Names of the columns; made up where there are none, or where they are in use here."""
    names = getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(X.shape[1])])
    taken = {"const", "y"}
    return [f"{name}_" if name in taken else str(name) for name in names]


def _independent(X: Array, constant: bool) -> list[int]:
    """Columns that are not made up of the constant and of those before them."""
    basis = np.ones((len(X), int(constant)))
    kept: list[int] = []
    for i, length in enumerate(np.linalg.norm(X, axis=0)):
        if length == 0 or basis.shape[1] >= len(X):
            continue
        scaled = X[:, i] / length
        if basis.shape[1]:
            q, _ = qr(basis, mode="economic")
            scaled = scaled - q @ (q.T @ scaled)
        if np.linalg.norm(scaled) > DEPENDENT:
            kept.append(i)
            basis = np.column_stack([basis, X[:, i] / length])
    return kept


def _seed(random_state: Any) -> int:
    """A seed: a number as it is, 0 for None."""
    if random_state is None:
        return 0
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
