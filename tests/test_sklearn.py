"""Estimators for scikit-learn: its own checks, and what users do with them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mixreg import InputError, InputWarning, MixReg, datasets
from mixreg.sklearn import MixtureClassifier, MixtureRegressor


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([MixtureRegressor(), MixtureClassifier()])
def test_the_checks_of_scikit_learn(estimator, check, monkeypatch):
    # Without it, scikit-learn leaves one of its checks out.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    check(estimator)


def two_lines(n: int = 300, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Regressors, responses and true segments."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"price": rng.uniform(1, 5, n), "const": rng.standard_normal(n)})
    kind = (rng.random(n) < 0.4).astype(int)
    y = np.where(kind, 8 - 0.5 * X["price"], 2 * X["price"]) + X["const"]
    return X, y + 0.2 * rng.standard_normal(n), kind


def test_a_fit_is_that_of_the_package():
    X, y, _ = two_lines()
    model = MixtureRegressor(k=2, n_init=16, cov_type="oim").fit(X, y)
    exog = X.rename(columns={"const": "other"}).assign(one=1.0)[["one", "price", "other"]]
    res = MixReg(y, exog, k=2).fit()
    assert_allclose(model.result_.llf, res.llf)
    assert_allclose(model.coef_, res.coefficients.loc[["price", "other"]].T, rtol=1e-6)
    assert_allclose(model.intercept_, res.coefficients.loc["one"], rtol=1e-6)
    assert_allclose(model.weights_, res.weights, rtol=1e-6)
    assert_allclose(model.predict(X), res.predict(exog))
    assert_allclose(model.segment_proba(X, y), res.posterior, atol=1e-8)
    assert_array_equal(model.predict_segment(X, y), model.labels_)
    assert_allclose(model.segment_proba(X), np.tile(res.weights, (len(X), 1)))
    assert np.isfinite(model.result_.bse).all()


def test_segments_are_found():
    X, y, kind = two_lines()
    found = MixtureRegressor(k=2).fit(X, y).labels_ - 1
    assert max(np.mean(found == kind), np.mean(found != kind)) > 0.95


def test_concomitants_make_predictions_differ():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.standard_normal(500), "age": rng.uniform(-1, 1, 500)})
    kind = rng.random(500) < 1 / (1 + np.exp(-6 * X["age"]))
    y = np.where(kind, 3, -3) * X["x"] + 0.3 * rng.standard_normal(500)
    plain = MixtureRegressor(k=2).fit(X, y)
    gated = MixtureRegressor(k=2, concomitant=["age"]).fit(X, y)
    assert gated.score(X, y) > plain.score(X, y) + 0.3
    same = MixtureRegressor(k=2, concomitant=[1]).fit(X, y)
    assert_allclose(same.predict(X), gated.predict(X))
    assert MixtureRegressor(k=2, concomitant="all").fit(X, y).score(X, y) > 0.5
    with pytest.raises(InputError, match="concomitant names 'sex', which is not a column of X"):
        MixtureRegressor(k=2, concomitant=["sex"]).fit(X, y)


def test_weights_count_rows():
    X, y, _ = two_lines(120)
    times = np.arange(120) % 3
    model = MixtureRegressor(k=2).fit(X, y, sample_weight=times)
    again = MixtureRegressor(k=2).fit(X.loc[np.repeat(X.index, times)], np.repeat(y, times))
    assert_allclose(model.predict(X), again.predict(X), rtol=1e-5)


def test_groups_share_a_segment():
    X, y, _ = two_lines()
    groups = np.arange(len(X)) // 5
    labels = MixtureRegressor(k=2).fit(X, y, groups=groups).labels_
    assert pd.Series(labels).groupby(groups).nunique().eq(1).all()


def test_counts():
    cloth = datasets.fabricfault()
    model = MixtureRegressor(k=2, family="poisson").fit(np.log(cloth[["Length"]]), cloth["Faults"])
    formula = MixReg.from_formula("Faults ~ np.log(Length)", cloth, k=2, family="poisson").fit()
    assert_allclose(model.predict(np.log(cloth[["Length"]])), formula.predict(cloth), rtol=1e-5)


def test_pipelines_columns_and_folds():
    X, y, _ = two_lines()
    X["region"] = np.where(np.arange(len(X)) % 2, "north", "south")
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), ["price", "const"]), ("texts", OneHotEncoder(), ["region"])]
    )
    model = make_pipeline(columns, MixtureRegressor(k=2)).fit(X, y)
    # Dummies of all regions and an intercept: one of them is made up of the others.
    assert (model[-1].coef_ == 0).all(axis=0).sum() == 1
    scores = cross_val_score(model, X, y, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


def test_grid_search_over_k():
    X, y, _ = two_lines()

    def minus_bic(estimator, X, y):
        return -estimator.result_.bic

    search = GridSearchCV(MixtureRegressor(), {"k": [1, 2, 3]}, scoring=minus_bic, cv=2)
    assert search.fit(X, y).best_params_ == {"k": 2}
    assert clone(search.best_estimator_).get_params()["k"] == 2


def test_output_has_the_columns_of_segments():
    X, y, _ = two_lines()
    model = MixtureRegressor(k=2).fit(X, y)
    plain = model.transform(X)
    assert plain.shape == (len(X), 2)
    frame = model.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == ["mixtureregressor0", "mixtureregressor1"]
    assert_allclose(frame, plain)
    assert_allclose(plain @ model.weights_, model.predict(X))


def test_classes_and_segments_are_different_things():
    rng = np.random.default_rng(2)
    person = np.repeat(np.arange(60), 20)
    X = rng.standard_normal((1200, 1))
    slope = np.where(person % 2, 3.0, -3.0)
    y = np.where(rng.random(1200) < 1 / (1 + np.exp(-slope * X[:, 0])), "yes", "no")
    model = MixtureClassifier(k=2).fit(X, y, groups=person)
    assert_array_equal(model.classes_, ["no", "yes"])
    assert model.predict_proba(X).shape == (1200, 2)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert set(model.predict(X)) <= {"no", "yes"}
    assert_allclose(np.sort(model.coef_[:, 0]), [-3, 3], rtol=0.3)
    share = model.transform(X) @ model.weights_
    assert_allclose(model.predict_proba(X)[:, 1], share)
    assert model.segment_proba(X, y, groups=person).shape == (1200, 2)
    sure = model.segment_proba([[2.0], [2.0]], ["yes", "no"], groups=["a", "b"])
    assert_allclose(sure[0].argmax(), model.coef_[:, 0].argmax())
    assert sure[0].argmax() != sure[1].argmax()
    with pytest.raises(InputError, match="y has 'maybe', which is none of"):
        model.segment_proba(X[:1], ["maybe"])


def test_too_few_rows_carry_fewer_segments():
    X, y, _ = two_lines(7)
    with pytest.warns(InputWarning, match=r"carry k=2 at most, not k=5"):
        model = MixtureRegressor(k=5).fit(X, y)
    assert model.k_ == 2
    for k in (0, 1.5, True):
        with pytest.raises(InputError, match="k must be a whole number"):
            MixtureRegressor(k=k).fit(X, y)


def stores(n: int = 60, seed: int = 4) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of stores with gaps, and the true segment of each row that is whole."""
    rng = np.random.default_rng(seed)
    store = np.repeat(np.arange(n), 6)
    kind = (rng.random(n) < 0.4)[store]
    x = rng.standard_normal(len(store))
    y = np.where(kind, 0.5 + x, -x) + 0.8 * rng.standard_normal(len(store))
    frame = pd.DataFrame({"x": x, "y": y, "store": [f"S{i:03}" for i in store]})
    frame.loc[::7, "x"] = np.nan
    whole = frame.notna().all(axis=1).to_numpy()
    return frame.dropna(), kind[whole]


def test_groups_are_taken_by_position_whatever_their_index():
    frame, kind = stores()
    X, y, groups = frame[["x"]], frame["y"], frame["store"]
    model = MixtureRegressor(k=2).fit(X, y, groups=groups)
    again = MixtureRegressor(k=2).fit(X, y, groups=groups.to_numpy())
    assert model.result_.ngroups == 60
    assert_allclose(model.coef_, again.coef_)
    found = model.labels_ - 1
    assert max(np.mean(found == kind), np.mean(found != kind)) > 0.9
    yes = np.where(y > 0, "yes", "no")
    assert MixtureClassifier(k=2).fit(X, yes, groups=groups).result_.ngroups == 60


def test_rows_are_labelled_by_group():
    frame, _ = stores()
    X, y, groups = frame[["x"]], frame["y"], frame["store"]
    model = MixtureRegressor(k=2).fit(X, y, groups=groups)
    assert_array_equal(model.predict_segment(X, y, groups=groups), model.labels_)
    assert_allclose(model.segment_proba(X, y, groups=groups), model.result_.posterior, atol=1e-8)
    with pytest.warns(InputWarning, match="every row is taken for a group of its own"):
        model.predict_segment(X, y)
    # Without responses, groups of the fit are known.
    assert_allclose(model.segment_proba(X, groups=groups), model.result_.posterior, atol=1e-8)


def test_groups_that_cannot_be_used_are_told():
    frame, _ = stores()
    X, y, groups = frame[["x"]], frame["y"], frame["store"]
    with pytest.raises(InputError, match=r"groups has shape \(3,\), but X has"):
        MixtureRegressor(k=2).fit(X, y, groups=groups.head(3))
    with pytest.raises(InputError, match="groups= goes with a fit that has groups"):
        MixtureRegressor(k=2).fit(X, y).predict_segment(X, y, groups=groups)
