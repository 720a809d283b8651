"""Mixtures of logistic regressions as a classifier of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, validate_data

from mixreg.errors import InputError
from mixreg.sklearn.segmenting import Segmenting

Array = NDArray[np.float64]


class MixtureClassifier(ClassifierMixin, Segmenting):
    """A mixture of logistic regressions as a scikit-learn classifier of two classes.

    `predict_proba` has the probabilities of the classes; those of the segments are
    `segment_proba`.

    Parameters
    ----------
    k, link, concomitant, fit_intercept, method, init, n_init, max_iter, tol, cov_type, random_state
        As in `MixtureRegressor`.

    Attributes
    ----------
    classes_ : (2,) array
        The second is the one whose probability is modelled.
    result_, k_, coef_, intercept_, weights_, labels_
        As in `MixtureRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg.sklearn import MixtureClassifier
    >>> X = np.linspace(-2, 2, 200)[:, None]
    >>> y = np.where(np.sin(40 * X[:, 0]) + 2 * X[:, 0] > 0, "yes", "no")
    >>> MixtureClassifier(k=1).fit(X, y).predict([[-1.5], [1.5]]).tolist()
    ['no', 'yes']
    """

    # The binomial family has no dispersion.
    equal_variance = False

    def __sklearn_tags__(self) -> Any:
        """Two classes, not more."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Find the segments; see `MixtureRegressor.fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from mixreg.sklearn import MixtureClassifier
        >>> X = np.linspace(-2, 2, 200)[:, None]
        >>> y = np.where(np.sin(40 * X[:, 0]) + 2 * X[:, 0] > 0, "yes", "no")
        >>> model = MixtureClassifier(k=1).fit(X, y)
        >>> model.classes_.tolist(), model.score(X, y) > 0.8
        (['no', 'yes'], True)
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}."
            )
        self.classes_, codes = np.unique(y, return_inverse=True)
        seen = self.classes_
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
            seen = np.unique(y[weight > 0])
        if len(seen) < 2:
            raise ValueError(
                f"y has one class, {seen.tolist()}, in the rows that count; a classifier needs "
                "samples of two classes"
            )
        return self._fit(X, codes.astype(float), sample_weight, groups)

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, (n, 2): segments averaged by their probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> from mixreg.sklearn import MixtureClassifier
        >>> X = np.linspace(-2, 2, 200)[:, None]
        >>> y = np.where(np.sin(40 * X[:, 0]) + 2 * X[:, 0] > 0, "yes", "no")
        >>> model = MixtureClassifier(k=1).fit(X, y)
        >>> model.predict_proba([[-1.5], [0.0], [1.5]]).round(1).tolist()
        [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
        """
        second = self._predict(self._new(X), "mean")
        return np.column_stack([1 - second, second])

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of each row.

        Examples
        --------
        >>> import numpy as np
        >>> from mixreg.sklearn import MixtureClassifier
        >>> X = np.linspace(-2, 2, 200)[:, None]
        >>> y = np.where(np.sin(40 * X[:, 0]) + 2 * X[:, 0] > 0, "yes", "no")
        >>> model = MixtureClassifier(k=1).fit(X, y)
        >>> model.predict([[-1.5], [1.5]]).tolist()
        ['no', 'yes']
        """
        found = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[found])

    def _numbers(self, y: Any) -> Array:
        unknown = [each for each in np.unique(y).tolist() if each not in self.classes_]
        if unknown:
            raise InputError(f"y has {unknown[0]!r}, which is none of {self.classes_.tolist()}")
        return np.asarray(np.searchsorted(self.classes_, y), dtype=float)

    def _family(self) -> Any:
        return "binomial"
