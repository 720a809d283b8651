"""Estimators for scikit-learn: its own checks, and what users do with them."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mixreg.sklearn import MixtureClassifier, MixtureRegressor


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([MixtureRegressor(), MixtureClassifier()])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
