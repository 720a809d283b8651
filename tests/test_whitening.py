"""Standard coordinates are standard, and there is a way back from them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from mixreg import InputError, MixReg
from mixreg.sources import MemorySource
from mixreg.sources.standard import Whitening, triangle, whitening
from tests.samples import random_mixture

N = 400


def design(kind: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((N, 3)) @ rng.standard_normal((3, 3)) + 4.0
    if kind == "constant":
        return np.column_stack([np.ones(N), x])
    if kind == "constant last":
        return np.column_stack([x, np.full(N, 2.5)])
    if kind == "dummies":
        return np.column_stack([np.eye(3)[rng.integers(0, 3, N)], x[:, :1]])
    if kind == "only constant":
        return np.ones((N, 1))
    return x


WITH_CONSTANT = ["constant", "constant last", "dummies", "only constant"]
EVERY = [*WITH_CONSTANT, "none"]


def names(x: np.ndarray) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(x.shape[1]))


def standard(x: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> Whitening:
    return whitening(triangle(MemorySource(x, y, weight).as_block()), names(x))


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("weighted", [False, True])
def test_standard_coordinates(kind, weighted):
    rng = np.random.default_rng(1)
    x = design(kind)
    y = 3 + x @ rng.standard_normal(x.shape[1]) + rng.standard_normal(N)
    weight = rng.integers(0, 4, N).astype(float)
    white = standard(x, y, weight if weighted else None)
    w = weight if weighted else np.ones(N)
    z, v = x @ white.basis, (y - white.shift) / white.scale
    assert white.rows == w.sum()
    assert_allclose((z * w[:, None]).T @ z / w.sum(), np.eye(x.shape[1]), atol=1e-10)
    assert w @ v**2 / w.sum() == pytest.approx(1)
    assert white.has_constant == (kind in WITH_CONSTANT)
    if white.has_constant:
        assert_allclose(z[:, 0], 1, atol=1e-9)
        assert_allclose(w @ z[:, 1:] / w.sum(), 0, atol=1e-10)
        assert_allclose(x @ white.constant, 1, atol=1e-9)
        assert w @ v == pytest.approx(0, abs=1e-9 * N)
    else:
        assert white.shift == 0
        assert white.constant is None


@pytest.mark.parametrize("kind", EVERY)
def test_there_and_back(kind):
    x = design(kind)
    y = np.random.default_rng(2).standard_normal(N) + x[:, 0]
    white, mixture = standard(x, y), random_mixture(3, x.shape[1])
    back = white.to_user(white.from_user(mixture))
    for name in ("coef", "dispersion", "gating"):
        assert_allclose(getattr(back, name), getattr(mixture, name), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", EVERY)
def test_both_coordinates_predict_the_same(kind):
    x = design(kind)
    y = np.random.default_rng(2).standard_normal(N) + x[:, 0]
    white, mixture = standard(x, y), random_mixture(3, x.shape[1])
    there = x @ white.basis @ mixture.coef.T
    here = x @ white.to_user(mixture).coef.T
    assert_allclose((here - white.shift) / white.scale, there, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("weighted", [False, True])
def test_pooled_fit_is_least_squares(kind, weighted):
    rng = np.random.default_rng(3)
    x = design(kind)
    y = x @ rng.standard_normal(x.shape[1]) + rng.standard_normal(N)
    weight = rng.integers(0, 4, N).astype(float) if weighted else np.ones(N)
    white = standard(x, y, weight)
    pooled = white.to_user(white.start(2))
    root = np.sqrt(weight)
    beta = np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0]
    assert_allclose(pooled.coef, [beta, beta], rtol=1e-9, atol=1e-10)
    assert_allclose(pooled.dispersion, weight @ (y - x @ beta) ** 2 / weight.sum(), rtol=1e-9)
    assert_allclose(pooled.weights, 0.5)


def test_dummies_without_intercept_find_the_constant():
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"y": rng.standard_normal(90), "g": np.tile(["a", "b", "c"], 30)})
    model = MixReg.from_formula("y ~ 0 + C(g)", data, k=1)
    white = model.whitening
    assert white.has_constant
    assert_allclose(white.constant, 1)
    assert_allclose(model.fit().coefficients[1], data.groupby("g")["y"].mean(), rtol=1e-10)


def test_badly_scaled_design_is_solved_to_the_last_digits():
    rng = np.random.default_rng(5)
    n = 500
    year, x = rng.integers(1990, 2021, n).astype(float), rng.uniform(0.5, 2, n)
    income = 1e6 * rng.lognormal(size=n)
    y = 1e-3 * (year - 2000) ** 2 + x - 0.3 * x**2 + 1e-7 * income + 0.1 * rng.standard_normal(n)
    data = pd.DataFrame({"y": y, "year": year, "x": x, "income": income})
    res = MixReg.from_formula("y ~ year + I(year**2) + x + I(x**2) + income", data, k=1).fit()
    # Years from 2000 span the same space and are easy on least squares.
    t = year - 2000
    X = np.column_stack([np.ones(n), t, t**2, x, x**2, income / 1e6])
    b = np.linalg.lstsq(X, y, rcond=None)[0]
    wanted = [b[0] - 2000 * b[1] + 2000**2 * b[2], b[1] - 4000 * b[2], *b[2:5], b[5] / 1e6]
    assert_allclose(res.coefficients[1], wanted, rtol=1e-8)
    assert_allclose(res.predict(), X @ b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"copy": lambda d: 3 * d["a"]}, "(copy is a combination of a|a is a combination of copy)"),
        ({"total": lambda d: d["a"] + d["b"]}, "a combination of (a|b|total), (a|b|total)"),
        ({"five": lambda d: 5.0 + 0 * d["a"]}, "(five|Intercept) is a combination of"),
        ({"none": lambda d: 0 * d["a"]}, "columns of the design are zero: none; drop them"),
    ],
)
def test_dependent_columns_are_named(columns, message):
    rng = np.random.default_rng(6)
    data = pd.DataFrame(rng.standard_normal((50, 3)), columns=["y", "a", "b"]).assign(**columns)
    formula = f"y ~ a + b + {next(iter(columns))}"
    with pytest.raises(InputError, match=message):
        MixReg.from_formula(formula, data, k=2)


def test_columns_of_one_thing_in_two_units_are_dependent_at_any_scale():
    rng = np.random.default_rng(6)
    grams = rng.lognormal(size=60)
    data = pd.DataFrame({"y": rng.standard_normal(60), "grams": grams, "tons": grams / 1e6})
    with pytest.raises(InputError, match=r"3 columns but rank 2: (grams|tons) is a combination"):
        MixReg.from_formula("y ~ grams + tons", data, k=1)


def test_fewer_rows_than_columns_are_dependent():
    x = np.random.default_rng(8).standard_normal((3, 4))
    with pytest.raises(InputError, match="4 columns but rank 3"):
        MixReg(x[:, 0], x, k=1)


@pytest.mark.parametrize("level", [0.0, 7.0, 1e8])
def test_a_response_that_does_not_vary_has_no_segments(level):
    x = np.random.default_rng(9).standard_normal((50, 1))
    with pytest.raises(InputError, match="the response does not vary"):
        MixReg(np.full(50, level), np.column_stack([np.ones(50), x]), k=2)
