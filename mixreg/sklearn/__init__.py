"""Mixtures of regressions as scikit-learn has estimators: pipelines, cross-validation, grid search.

There, `predict_proba` is for classes: a regressor must not have it, and a classifier's means its
classes. Probabilities of segments are `segment_proba` in both.

Needs scikit-learn, which the extra `sklearn` brings.
"""

from mixreg.errors import needs

with needs("mixreg.sklearn needs", "scikit-learn", "sklearn"):
    from mixreg.sklearn.classifier import MixtureClassifier
    from mixreg.sklearn.regressor import MixtureRegressor

__all__ = ["MixtureClassifier", "MixtureRegressor"]
