"""Options meet: constraints hold, and the log-likelihood is that of the parameters."""

import itertools

import numpy as np
import pandas as pd
import pytest

from mixreg import InputError, MixReg, lr_test, select_k

OPTIONS = {
    "shared": {"shared": ["x2"]},
    "only": {"only": {"x2": [1]}},
    "concomitant": {"concomitant": "~ z"},
    "noise": {"noise": True},
    "known": {"known_labels": "known"},
    "weights": {"weights": "w"},
    "groups": {"groups": "shop"},
    "equal": {"equal_variance": True},
}
PAIRS = [p for p in itertools.combinations(OPTIONS, 2) if set(p) != {"shared", "only"}]


def planted(family: str, n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    shop = np.repeat(np.arange(n // 4), 4)
    z = np.repeat(rng.standard_normal(n // 4), 4)
    second = np.repeat(rng.random(n // 4) < 0.4, 4)
    x1, x2 = rng.uniform(0, 1, (2, n))
    eta = np.where(second, 2.5 - 0.8 * x1, 0.8 + 0.5 * x1 + 0.6 * x2)
    y = {
        "gaussian": lambda: eta + 0.2 * rng.standard_normal(n),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "gamma": lambda: rng.gamma(20, 1 / eta / 20),
    }[family]()
    # The first component is the one with x2, whatever its weight.
    known = np.where(np.arange(n) % 40 < 4, np.where(second, 2.0, 1.0), np.nan)
    weight = np.repeat(rng.integers(1, 3, n // 4), 4)
    return pd.DataFrame(
        {"y": y, "x1": x1, "x2": x2, "z": z, "shop": shop, "known": known, "w": weight}
    )


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma"])
def test_pairs_of_options_hold_together(family, pair):
    options = {**OPTIONS[pair[0]], **OPTIONS[pair[1]]}
    data = planted(family)
    model = MixReg.from_formula("y ~ x1 + x2", data, k=2, family=family, **options)
    res = model.fit(n_init=4)
    assert model.loglike(res.params) == pytest.approx(res.llf, rel=1e-9)
    x2 = res.coefficients.loc["x2"]
    if "shared" in pair:
        assert x2[1] == x2[2]
    if "only" in pair:
        assert x2[2] == 0
        assert x2[1] != 0
    if "known" in pair:
        labels = data["known"].dropna()
        assert (res.labels[labels.index] == labels).all()


def test_altmin_with_shared_terms_minimises_squares():
    data = planted("gaussian")
    res = MixReg.from_formula("y ~ x1 + x2", data, k=2, shared=["x2"]).fit("altmin")
    means = res.predict(which="component").to_numpy()
    own = means[np.arange(len(data)), res.labels - 1]
    loss = ((data["y"] - own) ** 2).sum()
    # Least squares with these labels and one slope of x2 for both.
    second = (res.labels == 2).to_numpy(float)
    x1, one = data["x1"].to_numpy(), np.ones(len(data))
    X = np.column_stack([one - second, second, (one - second) * x1, second * x1, data["x2"]])
    best = np.linalg.lstsq(X, data["y"], rcond=None)[1][0]
    assert loss == pytest.approx(best, rel=1e-8)


def test_a_gate_on_one_column_is_a_gate():
    data = planted("gaussian")
    model = MixReg.from_formula("y ~ x1 + x2", data, k=2, concomitant="~ 0 + z")
    for method in ("em", "vb"):
        res = model.fit(method)
        without = res.predict(data.drop(columns="z"), which="posterior", concomitant="average")
        assert np.isfinite(without).all(axis=None)


def test_small_latent_class_models_are_allowed():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 10)
    chance = np.repeat(np.repeat([0.1, 0.5, 0.9], 4), 10)
    data = pd.DataFrame({"y": rng.binomial(1, chance), "g": groups})
    res = MixReg.from_formula("y ~ 1", data, k=3, family="binomial", groups="g").fit()
    assert np.isfinite(res.llf)


def test_fits_of_other_data_are_not_compared():
    data = planted("poisson").assign(e=np.linspace(1, 2, 240))
    two = MixReg.from_formula("y ~ x1", data, k=2, family="poisson").fit(n_init=2)
    exposed = MixReg.from_formula("y ~ x1", data, k=3, family="poisson", exposure="e")
    with pytest.raises(InputError, match="different data"):
        lr_test(two, exposed.fit(n_init=2), n=2)


def test_components_without_a_difference_are_refused_for_every_k():
    data = planted("poisson")
    with pytest.raises(InputError, match="do not differ"):
        select_k("y ~ x1", data, k=[1, 2], family="poisson", shared=["Intercept", "x1"])


@pytest.mark.parametrize(
    "options",
    [{"concomitant": "~ w"}, {"noise": True}, {"shared": ["v"]}, {"known_labels": "one"}],
    ids=["concomitant", "noise", "shared", "known"],
)
def test_accidents_are_not_chosen_under_any_option(options):
    chosen = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data = pd.DataFrame(rng.normal(size=(150, 3)), columns=["x", "w", "v"])
        second = rng.integers(0, 2, 150)
        data["y"] = np.where(second, 3 - data["x"], 2 * data["x"]) + 0.3 * rng.normal(size=150)
        data["one"] = np.where(np.arange(150) == 0, 1.0, np.nan)
        formula = "y ~ x + v" if "shared" in options else "y ~ x"
        chosen.append(select_k(formula, data, k=[2, 3], n_jobs=1, n_init=4, **options).best_k)
    assert chosen.count(2) >= 2
