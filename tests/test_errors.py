"""Bad input gets an error that names the argument, the value and what to do."""

import numpy as np
import pandas as pd
import pytest

from mixreg import InputError, MixReg
from tests.samples import lines

NUMBERS = lines(60)


def changed(**columns) -> pd.DataFrame:
    return NUMBERS.assign(**columns)


def with_value(column: str, value) -> pd.DataFrame:
    data = NUMBERS.copy()
    data.loc[7, column] = value
    return data


@pytest.mark.parametrize(
    ("formula", "data", "message"),
    [
        (
            "y ~ x1",
            with_value("x1", np.inf),
            "column x1 is infinite in row 7.*drop or correct them",
        ),
        ("y ~ x1", with_value("y", -np.inf), "the response y is infinite in row 7"),
        ("y ~ np.log(z - 1)", NUMBERS[:9], r"column np.log\(z - 1\) is infinite in row \d"),
        ("y ~ x1", changed(x1=np.nan), "data has no rows left"),
        ("y ~ x1", NUMBERS[:0], "data is empty; give a DataFrame with at least one row"),
        ("y ~ x1", {}, "data is empty"),
        ("y ~ x1", 3, "data must be a DataFrame or a dict of columns"),
        ("y ~ x1 + x3", NUMBERS, "names 'x3', which is not a column of data"),
        ("y ~ price", changed(prices=1.0), "names 'price', .*did you mean 'prices'"),
        (
            "t ~ x1",
            changed(t=list("ab") * 30),
            r"'t' is not numeric.*takes 'b' for 1",
        ),
        ("t ~ x1", changed(t=pd.Categorical(list("ab") * 30)), "the response 't' is not numeric"),
        ("t ~ x1", changed(t="a"), "the response 't' is not numeric"),
        ("y + x2 ~ x1", NUMBERS, r"gives columns y, x2; .*list of formulas, \['y ~ x1', 'x2 ~ x1'"),
        ("y ~ x1 | z", NUMBERS, "formula 'y ~ x1 | z' has '|', .*groups='z'"),
        ("y ~ x1 + (1|z)", NUMBERS, "groups='z'"),
        ("y ~ (x1 + x2) | z", NUMBERS, "groups='z'"),
        ("y ~ (1 + x1 || z)", NUMBERS, "groups='z'"),
        ("z | z ~ x1", NUMBERS, "has '|'"),
        (
            "y ~ x1",
            with_value("x1", np.inf).sample(60, random_state=0),
            r"column x1 is infinite in row 7 \(log",
        ),
        (
            "y ~ x1",
            with_value("y", np.inf).sample(60, random_state=0),
            "the response y is infinite in row 7;",
        ),
        ("~ x1", NUMBERS, "formula '~ x1' has no response; write one left of '~'"),
        ("y ~ x1 +* x2", NUMBERS, "cannot be read"),
        ("y ~ (x1", NUMBERS, "cannot be read"),
        ("y ~ 0", NUMBERS, "the design has no columns"),
        ("y ~ x1 + I(2 * x1)", NUMBERS, r"3 columns but rank 2: .*x1"),
        ("y ~ x1 + C(z) - 1 + I(z == 1)", NUMBERS, r"rank 3.*is a combination of .*C\(z\)"),
        ("y ~ np.linalg.inv(x1)", NUMBERS, "the formula cannot be evaluated"),
    ],
)
def test_bad_data_and_formulas(formula, data, message):
    with (
        np.errstate(divide="ignore"),
        pytest.raises(InputError, match=message),
    ):
        MixReg.from_formula(formula, data, k=1)


def test_an_elementwise_or_is_no_group():
    model = MixReg.from_formula("y ~ I((x1 > 0) | (z == 2))", NUMBERS, k=1)
    assert model.nobs == 60
    with pytest.raises(InputError, match=r"concomitant '~ x1 \| z' has '\|'"):
        MixReg.from_formula("y ~ x1", NUMBERS, k=2, concomitant="~ x1 | z")


def test_numbers_stored_as_objects_are_numbers():
    data = changed(t=NUMBERS["y"].astype(object))
    stored = MixReg.from_formula("t ~ x1", data, k=1).fit()
    plain = MixReg.from_formula("y ~ x1", data, k=1).fit()
    assert stored.llf == plain.llf


def test_many_categories_get_a_short_message():
    data = changed(t=[f"level {i}" for i in range(len(NUMBERS))])
    with pytest.raises(InputError, match="the response 't' is not numeric") as caught:
        MixReg.from_formula("t ~ x1", data, k=1)
    assert len(str(caught.value)) < 400


def test_a_formula_that_is_not_text():
    with pytest.raises(InputError, match="formula"):
        MixReg.from_formula(3, NUMBERS, k=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be a whole number of at least 1; got 0"),
        ({"k": -2}, "k must be .*got -2"),
        ({"k": 2.0}, "k must be .*got 2.0"),
        ({"k": "2"}, "k must be .*got '2'"),
        ({"k": None}, "k must be .*got None"),
        ({"k": True}, "k must be .*got True"),
        ({"k": 61}, "k=61 is more than the 60 rows; use a smaller k"),
        ({"k": 31}, "k=31 components with 2 coefficients need at least 62 distinct rows"),
        ({"k": 3, "groups": "z"}, "k=3 is more than the 2 groups"),
        ({"k": 4, "weights": np.arange(60) < 3}, "k=4 is more than the 3 rows"),
        ({"groups": "shop"}, "groups='shop' is not a column of data; columns are y, x1, x2, z"),
        ({"weights": "count"}, "weights='count' is not a column"),
        ({"groups": ["x1", "z"]}, r"list of columns; .*groups=data\['x1'\].astype\(str\) \+ ' '"),
        ({"groups": np.ones(59)}, "groups has length 59, but data has 60 rows"),
        ({"weights": np.ones(61)}, "weights has length 61, but data has 60 rows"),
        ({"weights": np.ones((60, 1))}, "weights must have one dimension"),
        ({"weights": 2.0}, "weights must have one dimension"),
        ({"weights": "x1"}, "weights must be finite and not negative; row .* has -"),
        (
            {"weights": 1.0 - NUMBERS["z"], "subset": NUMBERS["z"] == 2},
            r"not negative; row \d+ has -1$",
        ),
        ({"weights": np.full(60, np.inf)}, "weights must be finite"),
        ({"weights": np.zeros(60)}, "weights are all zero"),
        ({"weights": ["heavy"] * 60}, "weights are not numeric"),
        ({"weights": np.arange(60.0), "groups": "z"}, "weights vary within group [12]"),
        ({"missing": "skip"}, "missing='skip' is unknown; use 'drop' or 'raise'"),
        ({"subset": "q > 1"}, "subset='q > 1' cannot be evaluated"),
        ({"subset": np.ones(5, bool)}, "subset has length 5, but data has 60 rows"),
        ({"subset": "x1 > 100"}, "chooses no rows of data"),
        ({"subset": "x1 + 1"}, "subset='x1 \\+ 1'"),
        ({"subset": [1, 2, 3, 4, 900]}, "subset.*900"),
        ({"variance_ratio": 0.0}, r"variance_ratio must lie in \[1e-12, 1\]; got 0.0"),
        ({"variance_ratio": 2}, "variance_ratio must lie"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        MixReg.from_formula("y ~ x1", NUMBERS, **{"k": 1, **options})


@pytest.mark.parametrize("where", ["y", "x1", "groups", "weights"])
def test_missing_values_raise_if_they_must(where):
    extra = {name: np.ones(60) for name in ("groups", "weights")}
    data = NUMBERS.copy()
    if where in extra:
        extra[where][3] = np.nan
    else:
        data.loc[3, where] = np.nan
    message = rf"^1 rows have missing values in {where} \(1\); fill them, or use missing='drop'"
    with pytest.raises(InputError, match=message):
        MixReg.from_formula("y ~ x1", data, k=1, missing="raise", **extra)


@pytest.mark.parametrize("arrays", [True, False])
def test_columns_with_missing_values_are_counted(arrays):
    data = NUMBERS.copy()
    data.loc[[3, 4, 5], "x2"] = np.nan
    data.loc[[5, 6], "y"] = np.nan
    declare, given = MixReg.from_formula, ("y ~ x1 + x2", data)
    if arrays:
        declare, given = MixReg, (data["y"], data[["x1", "x2"]])
    with pytest.raises(InputError, match=r"^4 rows have missing values in") as caught:
        declare(*given, k=1, missing="raise")
    assert "y (2)" in str(caught.value)
    assert "x2 (3)" in str(caught.value)
    assert "x1" not in str(caught.value)


@pytest.mark.parametrize(
    ("concomitant", "message"),
    [("~ x1 + x2", r"3 rows .* in x2 \(3\);"), ("~ np.log(z - x2**2)", r"in .*x2.* \(\d+\);")],
)
def test_concomitants_with_missing_values_are_counted(concomitant, message):
    data = NUMBERS.copy()
    data.loc[[3, 4, 5], "x2"] = np.nan
    options = {"concomitant": concomitant, "missing": "raise"}
    with np.errstate(invalid="ignore"), pytest.raises(InputError, match=message):
        MixReg.from_formula("y ~ x1", data, k=2, **options)


def test_subset_needs_data():
    y = NUMBERS["y"].to_numpy()
    with pytest.raises(InputError, match="subset needs data"):
        MixReg.from_formula("y ~ 1", k=1, subset=[1, 2])
    assert len(y) == 60


def test_names_that_are_nowhere():
    with pytest.raises(InputError, match="nowhere_to_be_found"):
        MixReg.from_formula("nowhere_to_be_found ~ 1", k=1)
    y = NUMBERS["y"].to_numpy()
    with pytest.raises(InputError, match="groups='absent' was not found"):
        MixReg.from_formula("y ~ 1", k=1, groups="absent")
    assert len(y) == 60


Y, X = NUMBERS["y"].to_numpy(), NUMBERS[["x1", "x2"]].to_numpy()


@pytest.mark.parametrize(
    ("endog", "exog", "options", "message"),
    [
        ("y ~ x1", NUMBERS, {}, r"use MixReg.from_formula\('y ~ x1', data, k=1\)"),
        (Y[:5], X, {}, "endog has length 5, but exog has 60 rows"),
        (X, X, {}, r"endog must have one dimension; got shape \(60, 2\)"),
        (["a"] * 60, X, {}, "endog is not numeric"),
        (Y, X.astype(str)[:, :0].tolist(), {}, "the design has no columns"),
        (Y, np.full((60, 1), "a"), {}, "exog is not numeric.*from_formula"),
        (Y, np.ones((60, 2, 2)), {}, r"exog must have shape \(n, p\); got \(60, 2, 2\)"),
        (Y[:0], X[:0], {}, "no rows"),
        (np.where(Y > 2, np.inf, Y), X, {}, "the response y is infinite in row"),
        (Y, np.where(X > 2, np.inf, X), {}, "column x[12] is infinite in row"),
        (Y, X, {"groups": np.ones(5)}, "groups.* length 5"),
        (Y, X, {"weights": np.ones(5)}, "weights.* length 5"),
        (Y, X, {"groups": np.ones(60), "weights": np.ones(5)}, "groups 60, weights 5"),
        (Y, X, {"groups": "shop"}, "groups='shop' was not found; pass an array"),
        (Y, X, {"weights": -np.ones(60)}, "weights must be finite and not negative; row 0 has -1"),
        (Y, X, {"k": 0}, "k must be a whole number of at least 1"),
        (Y, X, {"missing": "skip"}, "missing='skip' is unknown"),
        (np.where(Y > 2, np.nan, Y), X, {"missing": "raise"}, "rows have missing values"),
    ],
)
def test_bad_arrays(endog, exog, options, message):
    with pytest.raises(InputError, match=message):
        MixReg(endog, exog, **{"k": 1, **options})


def test_tables_with_different_rows_are_refused():
    with pytest.raises(InputError, match="index"):
        MixReg(NUMBERS["y"][::-1], NUMBERS[["x1", "x2"]], k=1)


def test_misspelt_arguments_are_refused():
    message = r"^MixReg.from_formula\(\) got .* 'group'; did you mean 'groups'\?"
    with pytest.raises(TypeError, match=message):
        MixReg.from_formula("y ~ x1", NUMBERS, k=1, group="z")
    with pytest.raises(TypeError, match=r"^MixReg.from_formula\(\) missing .* 'k'$"):
        MixReg.from_formula("y ~ x1", NUMBERS)
    message = r"^MixReg\(\) got an unexpected keyword argument 'weight'; did you mean 'weights'"
    with pytest.raises(TypeError, match=message):
        MixReg(Y, X, k=1, weight=Y)
    with pytest.raises(TypeError, match="'qqq'; it has endog, exog, k, groups"):
        MixReg(Y, X, k=1, qqq=Y)
    with pytest.raises(TypeError, match="unexpected keyword argument 'maxiter'"):
        MixReg(Y, X, k=1).fit(maxiter=5)


def test_an_input_error_is_a_value_error():
    assert issubclass(InputError, ValueError)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gradient"}, "method='gradient' is unknown; use one of em, altmin"),
        ({"init": "kmeans"}, "init='kmeans' is unknown; use 'auto', 'tensor', 'random'"),
        ({"init": None}, "init"),
        ({"init": 3}, "init"),
        ({"init": np.ones(60)}, r"init labels must use each of 1..2; got \[1.0\]"),
        ({"init": np.zeros(60)}, r"init labels must use each of 1..2; got \[0.0\]"),
        ({"init": np.tile([1, 2, 3], 20)}, r"init labels must use each of 1..2"),
        ({"init": [1, 2, 1]}, "init labels have length 3; give one for each of 60 rows"),
        ({"init": np.ones((3, 2))}, r"shape \(k, p\) = \(2, 2\); got shape \(3, 2\)"),
        ({"init": np.full((2, 2), np.nan)}, "init coefficients must be finite"),
        ({"init": [["a", "b"], ["c", "d"]]}, "init coefficients"),
        ({"init": pd.DataFrame({1: [0.0], 2: [1.0]}, ["x1"])}, "lack rows for Intercept"),
        ({"n_init": 0}, "n_init must be a whole number of at least 1; got 0"),
        ({"n_init": 2.5}, "n_init must be a whole number of at least 1; got 2.5"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1; got 0"),
        ({"tol": -1e-3}, r"tol must lie in \[0, 1\]; got -0.001"),
        ({"tol": np.nan}, r"tol must lie in \[0, 1\]; got nan"),
        ({"resample": 3}, "resample=3 needs method='altmin'"),
        ({"method": "altmin", "resample": 0}, "resample=0 needs"),
        ({"method": "altmin", "resample": 100}, "resample=100"),
        ({"cov_type": "HC3"}, "cov_type='HC3' is unknown; use one of oim, opg, robust, cluster"),
        ({"cov_type": "cluster"}, "cov_type='cluster' needs clusters, and the model has no groups"),
        ({"cov_type": "cluster", "cov_kwds": {"group": 1}}, "cov_kwds has unknown keys group"),
        ({"cov_type": "cluster", "cov_kwds": {"groups": [1, 2]}}, "has length 2; give 60"),
        (
            {"cov_type": "cluster", "cov_kwds": {"groups": [np.nan, *range(59)]}},
            r"cov_kwds\['groups'\].*missing",
        ),
        ({"cov_kwds": {"groups": np.ones(60)}}, "only used with cov_type='cluster'"),
        ({"method": "altmin", "cov_type": "opg"}, "use 'oim' or 'none'"),
    ],
)
def test_bad_fit_options(options, message):
    model = MixReg.from_formula("y ~ x1", NUMBERS, k=2)
    with pytest.raises(InputError, match=message):
        model.fit(**options)


@pytest.mark.parametrize("method", ["loglike", "score", "hessian"])
def test_bad_parameter_vectors(method):
    model = MixReg.from_formula("y ~ x1", NUMBERS, k=2)
    with pytest.raises(InputError, match=r"params must have shape \(7,\); got \(3,\)"):
        getattr(model, method)(np.ones(3))


CUT = "y ~ pd.cut(x, [-2, 0, 2]) + w"


@pytest.mark.parametrize(
    ("formula", "options", "what"),
    [
        (CUT, {}, r"pd.cut\(x, \[-2, 0, 2\]\) has no category in 5 rows"),
        (CUT, {"groups": "g"}, "has no category in 5 rows"),
        (CUT, {"weights": "w"}, "has no category in 5 rows"),
        ("y ~ w", {"concomitant": "~ pd.cut(x, [-2, 0, 2])"}, "has no category in 5 rows"),
        ("y ~ c.map({'a': 'u'})", {}, r"c.map\(.*\) is missing in some rows"),
        ("y ~ w", {"concomitant": "~ c.map({'a': 'u'})"}, "is missing in some rows"),
    ],
)
def test_transforms_that_leave_rows_without_a_category(formula, options, what):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(-2, 2, 80), "w": rng.uniform(1, 3, 80)})
    data["y"], data["g"] = rng.standard_normal(80), np.repeat(np.arange(8), 10)
    data["c"] = rng.choice(["a", "b"], 80)
    data.loc[:4, "x"] = 5.0
    with pytest.raises(InputError, match=what):
        MixReg.from_formula(formula, data, k=2, **options)


def test_rows_of_no_weight_are_not_counted():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.standard_normal((40, 2)), columns=["x", "y"])
    data["w"] = np.where(np.arange(40) < 3, 1.0, 0.0)
    with pytest.raises(InputError, match="there are 3"):
        MixReg.from_formula("y ~ x", data, k=2, weights="w")
    data["w"] = np.where(np.arange(40) < 12, 1.0, 0.0)
    model = MixReg.from_formula("y ~ x", data, k=2, weights="w")
    with pytest.raises(InputError, match="resample=20 is more parts than the 12 rows"):
        model.fit(method="altmin", resample=20)
