"""Numbers of any type enter formulas as 64-bit floats do, or are refused."""

import decimal
import functools
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import mixreg
from mixreg import InputError, InputWarning, MixReg
from mixreg.cli import main
from mixreg.cli.tables import read_table
from mixreg.reading import files
from mixreg.sources import per_unit
from mixreg.sources.tasks import regressors, responses

ROWS = 40
OPERATIONS = (
    "x",
    "I(x**2)",
    "I(x * 1000)",
    "I(x - z)",
    "np.sqrt(x)",
    "np.log(x)",
    "np.exp(x)",
    "I(-x)",
    "I(x / z)",
    "I(x // z)",
    "C(x)",
    "bs(x, df=4)",
)
# More ways to wrap around, to round, and to mix levels with numbers.
MORE = (
    "C(x % 2) + I(x**2)",
    "C(x % 3) + C(x - 1 > z)",
    "C(x * 1000)",
    "np.square(x)",
    "x.pow(2)",
    "I(x + z)",
    "center(x) + standardize(z)",
    "x:z",
    "Q('x') + I(Q('x')**2)",
    "np.where(x > 4, x * 1000, -x)",
    "I((x > 4) & (z > 4))",
    "I(x == 3.0)",
    "triple(x)",
)
TOGETHER = "y ~ I(x**2) + I(x * 1000) + I((z - x)**2) + np.sqrt(x) + I(x // z) + C(z)"
REFUSED = ("C(x) ~ w", "bs(x, df=4) ~ w", "I(a - b) ~ w")
NUMPY = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "longdouble"),
]
PANDAS = ["Int8", "UInt8", "UInt64", "Float32"]
ARROW = [f"{kind}[pyarrow]" for kind in ("int8", "uint64", "float")]
POLARS = [pl.Int8, pl.UInt16, pl.UInt64, pl.Float32, pl.Decimal(8, 2)]


def triple(values):
    return values * 3


def numbers() -> pd.DataFrame:
    """Whole numbers that all types have, and whose squares do not fit into eight bits."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "y": rng.standard_normal(ROWS),
            "x": rng.permutation(np.repeat([1.0, 3, 4, 7, 50, 90, 99, 100], ROWS // 8)),
            "z": rng.integers(1, 9, ROWS).astype(float),
            "w": rng.standard_normal(ROWS),
        }
    )


def typed(kind, data=None):
    """The same numbers as another type has them."""
    data = numbers() if data is None else data
    if isinstance(kind, pl.DataType | type(pl.Int8)):
        return pl.from_pandas(data).with_columns(pl.col("x", "z").cast(kind))
    if kind == "Decimal":
        return data.assign(**{name: data[name].map(decimal.Decimal) for name in ("x", "z")})
    if kind == "objects":
        return data.astype({"x": "int64", "z": "int64"}).astype({"x": object, "z": object})
    return data.astype({"x": kind, "z": kind})


def made(formula, data):
    """Names and columns of both sides, or None where they are refused."""
    try:
        model = MixReg.from_formula(formula, data, k=1)
    except InputError:
        return None
    x, y = (per_unit(model.given, task).T for task in (regressors, responses))
    # Levels are named as they are written: 1 in whole numbers, 1.0 in floats.
    return [name.replace(".0]", "]") for name in model.exog_names], x, y


@functools.cache
def made_of_floats(formula):
    return made(formula, numbers())


def check(formula, data, expected=None):
    found = made(formula, data)
    wanted = made_of_floats(formula) if expected is None else made(formula, expected)
    assert wanted is not None or formula in REFUSED
    assert (found is None) == (wanted is None), formula
    for one, other in zip(found or (), wanted or (), strict=True):
        assert_array_equal(one, other, err_msg=formula)


@pytest.mark.parametrize(
    "kind", [*NUMPY, *PANDAS, *ARROW, *POLARS, "Decimal", "objects"], ids=lambda kind: str(kind)
)
def test_every_type_gives_the_columns_of_floats(kind):
    data = typed(kind)
    for operation in OPERATIONS:
        check(f"y ~ {operation}", data)
        check(f"{operation} ~ w", data)
    for operation in MORE:
        check(f"y ~ {operation}", data)


@pytest.mark.parametrize("kind", ["int8", "uint8", "float16", "UInt8", "uint8[pyarrow]"])
def test_a_response_a_gate_and_columns_beside_them(kind):
    data = numbers().assign(y=lambda d: np.tile([0.0, 200.0, 3.0, 100.0], ROWS // 4))
    other = typed(kind, data).astype({"y": "float16" if kind == "float16" else "UInt8"})
    asked = {"k": 1, "concomitant": "~ I(z * 1000)", "offset": "z", "weights": "x"}
    for k, formula, family, columns in (
        (2, "I(y * 100) ~ w", "gaussian", {"weights": "x", "offset": "z"}),
        (1, "I(y * 100) ~ w + I(x**2)", "poisson", {"exposure": "x"}),
        (1, "y + x ~ w", "binomial", {}),
        (1, "I(y / 200) ~ w", "binomial", {"weights": "x"}),
    ):
        asked = {**columns, "k": k, "family": family}
        if k > 1:
            asked["concomitant"] = "~ I(z * 1000) + I(x - z)"
        if "I(y / 200)" in formula:
            asked["trials"] = 200 * np.ones(ROWS, dtype="uint8")
            asked.pop("weights")
        blocks = [
            MixReg.from_formula(formula, each, **asked).given.as_block() for each in (other, data)
        ]
        for name in ("x", "y", "z", "offset", "trials", "weight"):
            found, wanted = (getattr(block, name) for block in blocks)
            assert (found is None) == (wanted is None)
            if wanted is not None:
                assert_array_equal(found, wanted, err_msg=f"{formula}: {name}")


def test_whole_numbers_of_64_bits_do_not_wrap_around():
    values = np.array([1, 3, 4, 5] * 10) * 10**9
    data = numbers().assign(x=values)
    floats = numbers().assign(x=values.astype(float))
    for operation in ("I(x**2)", "I(x * 10**12)", "np.square(x)", "I(x**5 / 1e40)"):
        check(f"y ~ {operation}", data, floats)
        check(f"y ~ {operation}", data.astype({"x": "uint64"}), floats)
        check(f"y ~ {operation}", data.astype({"x": "Int64"}), floats)


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64", "UInt64"])
def test_levels_beyond_2_to_53_stay_apart(kind):
    big = 2**63 - 20 if kind.startswith("i") else 2**60
    data = numbers().assign(x=pd.Series([big + i % 4 for i in range(ROWS)], dtype=kind))
    names, x, _ = made("y ~ C(x)", data)
    assert names == ["Intercept", *(f"C(x)[T.{big + i}]" for i in (1, 2, 3))]
    assert x[:, 1:].sum() == 30
    assert made(f"y ~ I(x == {big})", data)[1][:, 1].sum() == 10
    res = MixReg.from_formula("y ~ C(x)", data, k=1).fit()
    assert_array_equal(res.predict(data.iloc[:4]), res.predict()[:4])


def test_levels_beyond_2_to_53_with_missing_values_are_refused():
    values = pd.array([2**60 + 2**59 * (i % 4) for i in range(ROWS - 1)] + [None], dtype="Int64")
    with pytest.raises(InputError, match=r"column 'x' has missing values beside whole numbers"):
        MixReg.from_formula("y ~ C(x)", numbers().assign(x=values), k=1)
    model = MixReg.from_formula("y ~ I(x / 2**60)", numbers().assign(x=values), k=1)
    assert model.nobs == ROWS - 1


# Names of levels and the meaning of yes and no


def test_levels_of_whole_numbers_are_named_as_before():
    data = numbers().astype({"x": "int16", "z": "int64"})
    model = MixReg.from_formula("y ~ C(x) + C(z % 2) + z", data, k=1)
    assert model.exog_names[1:3] == ["C(x)[T.3]", "C(x)[T.4]"]
    assert model.exog_names[-2:] == ["C(z % 2)[T.1]", "z"]


@pytest.mark.parametrize("kind", ["bool", "boolean", "bool[pyarrow]", "object"])
def test_yes_and_no_keep_their_meaning(kind):
    truth = numbers().assign(a=lambda d: d.x > 4, b=lambda d: d.z > 4)
    data = truth.astype({"a": kind, "b": kind})
    plain = truth.astype({"a": float, "b": float})
    model = MixReg.from_formula("y ~ a + I(a * z) + I(a & b) + I(~b)", data, k=1)
    assert model.exog_names == [
        *("Intercept", "a[T.True]", "I(a & b)[T.True]", "I( ~b)[T.True]", "I(a * z)")
    ]
    assert_array_equal(model.given.as_block().x[:, 4], plain.a * plain.z)
    for operation in ("I(a + b)", "I(-a)", "I(a**2 + b)", "np.exp(a)", "center(a)", "I(a - b)"):
        check(f"y ~ {operation}", data, plain)
        check(f"{operation} ~ w", data, plain)
    for operation in ("a + I(a + b) + b", "b + np.sqrt(b)", "I((x > 4) + (z > 4))", "a + I(-a)"):
        with pytest.raises(InputError, match=r"takes yes and no for numbers.*write 1 \* \("):
            MixReg.from_formula(f"y ~ {operation}", data, k=1)
    check("y ~ I(1 * a + 1 * b)", data, plain)


def test_yes_and_no_with_missing_values_in_arithmetic():
    data = numbers().assign(a=lambda d: d.x > 4)
    data["a"] = data["a"].astype("boolean").mask(data.z == 2)
    model = MixReg.from_formula("y ~ a + I(a * w)", data, k=1)
    assert model.exog_names == ["Intercept", "a[T.True]", "I(a * w)"]
    assert model.nobs == (data.z != 2).sum()


# No real numbers


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_complex_numbers_are_refused(kind):
    data = numbers().astype({"x": kind})
    for operation in OPERATIONS:
        if operation.startswith("np"):
            continue
        for formula in (f"y ~ {operation}", f"{operation} ~ w"):
            with pytest.raises(InputError, match=r"column 'x' holds complex|bs\(\) takes numbers"):
                MixReg.from_formula(formula, data, k=1)
    for operation in ("np.sqrt(x)", "np.exp(x)"):
        with pytest.raises(InputError, match="complex"):
            MixReg.from_formula(f"y ~ {operation}", data, k=1)
    check("y ~ np.real(x)", data.assign(z=1.0), numbers().assign(z=1.0))
    arrays = {"k": 1, "endog": data.y, "exog": data[["z", "w"]]}
    for name in ("endog", "weights", "offset"):
        with pytest.raises(InputError, match=f"{name}.* has complex numbers, not real numbers"):
            MixReg(**{**arrays, name: data.x})
    for values in (data[["x", "w"]], data[["x", "w"]].to_numpy()):
        with pytest.raises(InputError, match=r"exog.* has complex numbers"):
            MixReg(**{**arrays, "exog": values})


@pytest.mark.parametrize("name", ["weights", "offset", "exposure", "trials"])
def test_dates_beside_a_formula_are_refused(name):
    data = numbers().assign(day=pd.date_range("2020", periods=ROWS), u=[0, 1] * 20)
    family = {"exposure": "poisson", "trials": "binomial"}.get(name, "gaussian")
    for column in ("day", data.day - data.day.min()):
        with pytest.raises(InputError, match=f"{name} has d.*, not real numbers"):
            MixReg.from_formula("u ~ w", data, k=1, family=family, **{name: column})


@pytest.mark.parametrize("function", ["bs(t, df=4)", "cr(t, df=4)", "center(t)", "standardize(t)"])
def test_a_transform_of_text_is_refused_by_name(function):
    data = numbers().assign(t=["a", "b"] * 20)
    message = rf"{function.split('(')[0]}\(\) takes numbers, but column 't' holds text"
    for asked in ({"formula": f"y ~ {function}"}, {"formula": f"{function} ~ w"}):
        with pytest.raises(InputError, match=message):
            MixReg.from_formula(data=data, k=1, **asked)
    with pytest.raises(InputError, match=message):
        MixReg.from_formula("y ~ w", data, k=2, concomitant=f"~ {function}")


def test_what_patsy_lets_through_is_an_error_of_ours():
    data = numbers().assign(t=["a", "b"] * 20, day=pd.date_range("2020", periods=ROWS))
    for formula in ("y ~ bs(t + 'b', df=4)", "y ~ I(day - day.min())", "y ~ I(t - 1)"):
        with pytest.raises(InputError, match=r"the formula|takes numbers of"):
            MixReg.from_formula(formula, data, k=1)


def test_months_and_days_with_a_zone_are_levels(tmp_path):
    months = pd.PeriodIndex(["2020-01", "2021-02"] * 20, freq="M")
    days = pd.DatetimeIndex(["2020-01-01", "2021-01-03"] * 20, tz="UTC")
    data = numbers().assign(month=months, day=days)
    for name in ("month", "day"):
        res = MixReg.from_formula(f"y ~ C({name})", data, k=1).fit()
        assert len(res.params) == 3
        assert_array_equal(res.predict(data.iloc[1:2]), res.predict()[1:2])
        months_of = MixReg.from_formula(f"y ~ {name}.dt.year + w", data, k=1)
        assert months_of.exog_names[1] == f"{name}.dt.year"


# Signs


@pytest.mark.parametrize(
    "formula",
    ["y ~ x^2", "y ~ I(x^2)", "y ~ np.log(x ^ 2)", "y ~ (x + z)^2", "I(y^2) ~ x", "y^2 ~ x"],
)
def test_a_power_as_in_R_is_refused(formula):
    data = numbers().astype({"x": int, "z": int, "y": int})
    with pytest.raises(InputError, match=r"'\^', which is a power in R.*\*\* 2\)"):
        MixReg.from_formula(formula, data, k=1)


def test_a_power_as_in_R_is_refused_in_all_formulas(tmp_path, capsys):
    data = numbers().astype({"x": int, "z": int})
    with pytest.raises(InputError, match=r"concomitant '~ x\^2' has '\^'.*I\(x \*\* 2\)"):
        MixReg.from_formula("y ~ w", data, k=2, concomitant="~ x^2")
    with pytest.raises(InputError, match=r"'\^'"):
        MixReg.from_formula(["y ~ w", "z ~ x^2"], data, k=2)
    with pytest.raises(InputError, match=r"subset='x\^2 > 3'.*write \*\*"):
        MixReg.from_formula("y ~ w", data, k=2, subset="x^2 > 3")
    path = str(tmp_path / "a.csv")
    data.to_csv(path)
    assert main(["fit", path, "y ~ x^2", "-k", "1"]) == 2
    assert "I(x ** 2)" in capsys.readouterr().err
    named = data.rename(columns={"x": "x^2"})
    assert MixReg.from_formula("y ~ Q('x^2')", named, k=1).exog_names[1] == "Q('x^2')"


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ I(x & 2)", "has &, | or ~ with column 'x', which holds numbers"),
        ("y ~ x & z", "has &, | or ~ with column 'x', which holds numbers"),
        ("y ~ I(x | z)", "has &, | or ~ with column 'x', which holds numbers"),
        ("y ~ I(~x)", "has &, | or ~ with column 'x', which holds numbers"),
        ("y ~ I(x << 2)", "'<<', which is a shift of bits; write I(x * 2 ** 2)"),
        ("y ~ I(x >> 2)", "'>>', which is a shift of bits; write I(x // 2 ** 2)"),
    ],
)
def test_operators_on_bits_are_refused(formula, message):
    data = numbers().astype({"x": int, "z": int})
    with pytest.raises(InputError) as caught:
        MixReg.from_formula(formula, data, k=1)
    assert message in str(caught.value)


def test_a_power_outside_of_a_function_is_warned_of():
    with pytest.warns(InputWarning, match=r"x\*\*2, which stands for.*write I\(x\*\*2\)"):
        assert MixReg.from_formula("y ~ x**2", numbers(), k=1).exog_names == ["Intercept", "x"]
    model = MixReg.from_formula("y ~ (x + z)**2", numbers(), k=1)
    assert model.exog_names == ["Intercept", "x", "z", "x:z"]


# Files, clusters, arrays of the caller's, new data, the command line


@pytest.mark.parametrize("kind", ["uint8", "int16", "float16", "float32", "UInt8", "uint64"])
def test_files_give_the_columns_of_floats(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK_ROWS", 16)
    path = str(tmp_path / "a.parquet")
    typed(kind).to_parquet(path)
    check(TOGETHER, path)
    check("I(x * 1000) ~ w", path)


def test_csv_files_give_the_columns_of_floats(tmp_path):
    path = str(tmp_path / "a.csv")
    typed("uint8").to_csv(path, index=False)
    check(TOGETHER, path)


def test_arrays_of_the_caller_give_the_columns_of_floats():
    frame = numbers()
    y, w = frame.y.to_numpy(), frame.w.to_numpy()
    x = frame.x.astype("uint8").to_numpy()
    assert x.dtype == "uint8"
    expected = made("y ~ I(x * 1000) + w", frame)
    found = MixReg.from_formula("y ~ I(x * 1000) + w", k=1).given.as_block()
    assert_array_equal(found.x, expected[1])
    found = MixReg.from_formula("y ~ I(x * 1000) + w", frame.drop(columns="x"), k=1)
    assert_array_equal(found.given.as_block().x, expected[1])
    gate = MixReg.from_formula("y ~ w", k=2, concomitant="~ I(x * 1000)").given.as_block()
    assert_array_equal(gate.z, expected[1][:, :2])
    assert len(w) == len(y)


@pytest.mark.parametrize("kind", ["uint8", "float16", "UInt8", "uint8[pyarrow]", pl.UInt8, "bool"])
def test_new_data_give_the_columns_of_floats(kind, tmp_path):
    rng = np.random.default_rng(1)
    data = numbers().assign(z=rng.integers(0, 2, ROWS).astype(float))
    formula = "y ~ I(x**2) + np.sqrt(z) * w + I(-z * x)"
    MixReg.from_formula(formula, data, k=1).fit().save(tmp_path / "a")
    res = mixreg.load(tmp_path / "a")
    other = data.astype({"z": "bool"}) if kind == "bool" else typed(kind, data)
    assert_array_equal(res.predict(other), res.predict(data))
    assert_array_equal(res.assign(other), res.assign(data))


@pytest.mark.parametrize("kind", ["uint8", "float16"])
def test_the_command_line_fits_and_predicts_as_with_floats(kind, tmp_path, capsys):
    told = []
    for each in ("float64", kind):
        path, fit = str(tmp_path / f"{each}.parquet"), str(tmp_path / f"{each}.mixreg")
        typed(each).to_parquet(path)
        asked = ["fit", path, "y ~ I(x * 1000) + I(x - z)", "-k", "1", "--json", "--save", fit]
        assert main(asked) == 0
        told.append([json.loads(capsys.readouterr().out)["params"]])
        assert main(["predict", fit, path, "--which", "mean"]) == 0
        told[-1].append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_queries_do_not_wrap_around(tmp_path):
    path = str(tmp_path / "a.parquet")
    for kind in ("uint8", "UInt8", "float16", "int64"):
        data = typed(kind)
        data.to_parquet(path)
        for query in ("x * 1000 > 3500", "z - x < 0", "x**2 > 2500", "-x < -50", "x**12 > 1e20"):
            wanted = MixReg.from_formula("y ~ w", numbers(), k=1, subset=query).nobs
            assert 0 < wanted < ROWS or query == "z - x < 0"
            for each in (data, path):
                assert MixReg.from_formula("y ~ w", each, k=1, subset=query).nobs == wanted


# New data that do not fit


def test_an_unseen_level_is_named():
    data = numbers().assign(t=["a", "b"] * 20)
    res = MixReg.from_formula("y ~ t + C(z > 4)", data, k=1).fit()
    message = r"levels of column 't' that the data of the fit had not: 'c', 'd'\. Its levels are"
    with pytest.raises(InputError, match=message + " 'a', 'b'"):
        res.predict(data.assign(t=["c", "a", "d", "c"] * 10))


def test_numbers_that_come_back_as_something_else_are_named():
    data = numbers()
    res = MixReg.from_formula("y ~ x + I(z * 2)", data, k=1).fit()
    for name, values, kind in (
        ("x", data.x.astype(str), "string"),
        ("z", data.z.astype(str), "string"),
        ("x", data.x > 4, "boolean"),
        ("x", pd.date_range("2020", periods=ROWS), "datetime64"),
    ):
        with pytest.raises(InputError, match=f"new data have {kind} values in column '{name}'"):
            res.predict(data.assign(**{name: values}))


# Names of groups


def ids(base: int, missing: int = 0) -> pd.Series:
    """Names of 20 groups of two rows, beyond what floats tell apart."""
    names = pd.Series([base + i // 2 for i in range(ROWS)], dtype=object)
    names[ROWS - missing :] = None
    return names


@pytest.mark.parametrize("base", [2**53, 2**60, 2**63 + 10])
@pytest.mark.parametrize("missing", [0, 1])
def test_large_names_of_groups_stay_apart_in_files(base, missing, tmp_path):
    groups = ids(base, missing)
    kind = "Int64" if base < 2**63 else "UInt64"
    table = numbers().assign(id=groups.astype(kind))
    paths = {name: str(tmp_path / f"a.{name}") for name in ("csv", "tsv", "parquet", "feather")}
    table.to_csv(paths["csv"], index=False)
    table.to_csv(paths["tsv"], index=False, sep="\t")
    pl.from_pandas(table).write_parquet(paths["parquet"])
    pl.from_pandas(table).write_ipc(paths["feather"], compression="uncompressed")
    wanted = list(dict.fromkeys(groups.dropna()))
    sources = [table, table.astype({"id": object}), pl.from_pandas(table), *paths.values()]
    sources += [read_table(path) for path in paths.values()]
    for source in sources:
        model = MixReg.from_formula("y ~ w", source, k=1, groups="id")
        assert model.groups.tolist() == wanted
        assert model.nobs == ROWS - missing
    csv, other = read_table(paths["csv"]), read_table(paths["parquet"])
    assert not csv.id[ROWS - missing :].notna().any()
    assert not other.id[ROWS - missing :].notna().any()


def test_columns_of_large_numbers_and_text_that_are_no_names_stay_what_they_are(tmp_path):
    table = numbers().assign(
        x=lambda d: d.x * 1e17,
        code=["12345678901234567"] * 39 + ["none"],
        day=pd.Series([20200101120000123] * 39 + [None], dtype="Int64"),
    )
    table.to_csv(tmp_path / "a.csv", index=False)
    found = read_table(str(tmp_path / "a.csv"))
    assert found.x.dtype == "float64"
    assert found.code.tolist() == [*["12345678901234567"] * 39, "none"]
    assert found.day.dropna().eq(20200101120000123).all()
    assert_array_equal(found.x, table.x)


@pytest.mark.parametrize("name", ["groups", "choice_set"])
def test_floats_that_merge_names_are_refused(name, tmp_path):
    groups = ids(2**60).astype(float)
    data = numbers().assign(id=groups, u=[0.0, 1.0] * 20)
    family = "choice" if name == "choice_set" else "gaussian"
    path = str(tmp_path / "a.parquet")
    data.to_parquet(path)
    message = f"{name} has floats beyond 2\\^53, such as 1152921504606846976"
    for source in (data, path, pl.from_pandas(data)):
        with pytest.raises(InputError, match=message):
            MixReg.from_formula("u ~ w", source, k=1, family=family, **{name: "id"})
    with pytest.raises(InputError, match=message):
        MixReg.from_formula("u ~ w", data, k=1, family=family, **{name: groups.to_numpy()})
    good = data.assign(id=ids(2**60).astype("int64"))
    res = MixReg.from_formula("u ~ w", good, k=1, family=family, **{name: "id"}).fit()
    with pytest.raises(InputError, match=message):
        res.predict(data, "posterior")
    small = data.assign(id=ids(2**52).astype(float))
    assert MixReg.from_formula("u ~ w", small, k=1, family=family, **{name: "id"}).nobs == ROWS


def test_an_excel_file_keeps_15_digits_so_longer_names_are_refused(tmp_path):
    path = str(tmp_path / "a.xlsx")
    for base in (2**60, 2**63 + 10):
        numbers().assign(id=ids(base, 1)).to_excel(path, index=False)
        with pytest.raises(InputError, match="groups has floats beyond"):
            MixReg.from_formula("y ~ w", read_table(path), k=1, groups="id")
    numbers().assign(id=ids(2**50)).to_excel(path, index=False)
    assert MixReg.from_formula("y ~ w", read_table(path), k=1, groups="id").ngroups == 20


# Advice


@pytest.mark.parametrize("shape", ["{:.1f} %", "4.{:03.0f},77", "$ {:.2f}"])
def test_numbers_as_text_are_no_reason_to_delete_signs(shape):
    data = numbers().assign(t=[shape.format(each) for each in np.arange(ROWS) // 2 * 3.0])
    with pytest.warns(
        InputWarning, match="they look like numbers.*decimal= and thousands="
    ) as told:
        MixReg.from_formula("y ~ w + t", data, k=1)
    assert not any("replace" in str(each.message) or "0-9" in str(each.message) for each in told)


def test_a_missing_file_is_answered_with_files_of_data(tmp_path):
    for name in (".git", ".ci", "_SUCCESS", "notes.md", "sales.csv", "sale.parquet", ".a.csv"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"It has sales\.csv, sale\.parquet$"):
        MixReg.from_formula("y ~ x", str(tmp_path / "salse.csv"), k=1)
    with pytest.raises(
        InputError, match=r"It has (sale\.parquet, sales\.csv|sales\.csv, sale\.parquet)$"
    ):
        MixReg.from_formula("y ~ x", str(tmp_path / "what.feather"), k=1)


def test_choices_of_which_no_set_is_whole_are_refused_with_a_category_of_them():
    data = numbers().assign(u=[1.0, 0.0] * 20, s=np.repeat(np.arange(20), 2))
    data["x"] = data.x.mask(data.u == 1)
    asked = {"k": 2, "family": "choice", "choice_set": "s"}
    with pytest.raises(InputError, match="every choice set has a missing value"):
        MixReg.from_formula("u ~ x", data, **asked, groups="s", concomitant="~ C(s)")
    good = MixReg.from_formula("u ~ w", data, **{**asked, "k": 1}, groups="s").fit()
    assert len(good.predict(data.iloc[:0])) == 0
