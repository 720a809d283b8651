"""How rows are cut into blocks changes no number of a result.

Sums differ in their last digits with the order of additions. Coordinates and starts lose
these digits, decisions have tolerances, and a fit ends with a Newton step to the maximum
itself; what is left is rounding.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import xlogy

from mixreg import MixReg
from mixreg.sources import memory, one_block

ROWS, GROUP = 320, 4
SMALL, WHOLE = 64, 10**9
TERMS = " ~ x1 + x2"


def table(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Groups of four rows in two segments, with a response for every family."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(rows // GROUP), GROUP)
    x1, x2, offset = rng.standard_normal((3, rows))
    age = rng.standard_normal(rows // GROUP)
    second = (rng.random(rows // GROUP) < 1 / (1 + np.exp(-0.3 - age)))[group]
    eta = np.where(second, 1 + 0.8 * x1 - 0.3 * x2, -0.2 - 0.6 * x1 - 0.3 * x2)
    trials, success = rng.integers(3, 9, rows), 1 / (1 + np.exp(-1.5 * eta))
    named = np.arange(rows // GROUP)[group] % 9 == 0
    return pd.DataFrame(
        {
            "x1": x1,
            "x2": x2,
            "offset": 0.2 * offset,
            "group": group,
            "age": age[group],
            "weight": rng.integers(1, 4, rows // GROUP)[group],
            # The first blocks have no unit that counts.
            "some": np.where(group < 20, 0, 1 + group % 3 % 2 - (group % 7 == 3)),
            "known": np.where(named, second + 1, np.nan),
            "y": eta + 0.4 * rng.standard_normal(rows),
            "odd": np.where(group % 12 == 5, rng.uniform(-9, 9, rows), eta + 0.4 * offset),
            "exact": eta,
            "count": rng.poisson(np.exp(eta)),
            "wide": rng.negative_binomial(3, 3 / (3 + np.exp(eta))),
            "share": rng.binomial(trials, success) / trials,
            "trials": trials,
            "positive": rng.gamma(4, np.exp(eta) / 4),
        }
    ).assign(
        rare=lambda data: np.where(group % 12 == 5, rng.uniform(9, 90, rows), data["positive"]),
        many=lambda data: np.where(group % 12 == 5, rng.integers(9, 90, rows), data["count"]),
        most=lambda data: np.where(group % 12 == 5, rng.integers(9, 900, rows), data["wide"]),
    )


def choices(rows: int = 4 * ROWS, seed: int = 0) -> pd.DataFrame:
    """Four choices each among four, so that no component is separated."""
    data, rng = table(rows, seed), np.random.default_rng([seed, 1])
    group = np.arange(rows) // 16
    age, weight = rng.standard_normal(rows // 16), rng.integers(1, 4, rows // 16)
    second = (rng.random(rows // 16) < 1 / (1 + np.exp(-0.3 - age)))[group]
    value = np.where(second, 1.5 * data.x1 - data.x2, -1.2 * data.x1 + 0.3 * data.x2)
    utility = (value + data.offset + rng.gumbel(size=rows)).to_numpy().reshape(-1, 4)
    return data.assign(
        group=group,
        age=age[group],
        weight=weight[group],
        known=np.where(group % 9 == 0, second + 1, np.nan),
        set=np.arange(rows) // 4,
        chosen=(np.arange(4) == utility.argmax(axis=1)[:, None]).ravel().astype(float),
    )


def table_of(name: str) -> pd.DataFrame:
    """The rows that a case is fitted to."""
    return choices() if "choice" in name else table()


FAMILIES = {
    "gaussian": ("y", {}),
    "poisson": ("count", {}),
    "negativebinomial": ("wide", {}),
    "binomial": ("share", {"trials": "trials"}),
    "gamma": ("positive", {"link": "log"}),
    "choice": ("chosen", {"choice_set": "set"}),
}
OPTIONS = {
    "plain": {},
    "groups": {"groups": "group"},
    "weights": {"groups": "group", "weights": "weight"},
    "offset": {"groups": "group", "offset": "offset"},
    "concomitant": {"groups": "group", "concomitant": "~ age"},
    "shared": {"groups": "group", "shared": ["x2"]},
    "only": {"groups": "group", "only": {"x2": [1]}},
    "known": {"groups": "group", "known_labels": "known"},
    "noise": {"groups": "group", "noise": True},
}
# Responses with rows of a background: without them its share runs off to zero, and its logit to
# infinity, where rounding decides how far.
ODD = {
    ("gaussian", "noise"): "odd",
    ("gamma", "noise"): "rare",
    ("poisson", "noise"): "many",
    ("negativebinomial", "noise"): "most",
}
# Terms and offsets of several responses go by the response.
JOINT = {
    **OPTIONS,
    "offset": {"groups": "group", "offset": {"count": "offset"}},
    "shared": {"groups": "group", "shared": ["count: x1"]},
    "only": {"groups": "group", "only": {"y: x1": [1]}},
}


def cases() -> dict[str, tuple]:
    """Formula, declaration, and arguments of `fit`, by name."""
    found = {}
    for method in ("em", "altmin", "vb"):
        for family, (response, own) in FAMILIES.items():
            for name, option in OPTIONS.items():
                y = ODD.get((family, name), response)
                declared = {"family": family, **own, **option}
                found[f"{method}-{family}-{name}"] = (y + TERMS, declared, {"method": method})
        for name, option in JOINT.items():
            several = {"family": ["gaussian", "poisson"], **option}
            formulas = [("odd" if name == "noise" else "y") + TERMS, "count ~ x1"]
            found[f"{method}-joint-{name}"] = (formulas, several, {"method": method})
    # AltMin has no background, variational Bayes one response.
    refused = {name for name in found if name.startswith("vb-joint")}
    refused |= {name for name in found if name.startswith("altmin") and name.endswith("noise")}
    found = {name: case for name, case in found.items() if name not in refused}
    found["zeros"] = ("y" + TERMS, {"weights": "some"}, {})
    found["zeros-groups"] = ("y" + TERMS, {"groups": "group", "weights": "some"}, {})
    counts = {"family": "poisson", "weights": "some", "concomitant": "~ age", "groups": "group"}
    found["zeros-poisson"] = ("count" + TERMS, counts, {})
    found["inverse"] = ("positive" + TERMS, {"family": "gamma"}, {})
    found["log"] = ("positive" + TERMS, {"link": "log"}, {})
    found["equal"] = ("y" + TERMS, {"equal_variance": True}, {})
    found["robust"] = ("y" + TERMS, {}, {"cov_type": "robust"})
    found["exact"] = ("exact" + TERMS, {}, {})
    found["exact-altmin"] = ("exact" + TERMS, {}, {"method": "altmin"})
    return found


CASES = cases()
# Cases for sources that are slower: all with EM, some with others.
FEWER = [name for name in CASES if not name.startswith(("altmin", "vb"))]
FEWER += ["altmin-gaussian-plain", "altmin-gaussian-concomitant", "altmin-poisson-groups"]
FEWER += ["vb-gaussian-plain", "vb-gaussian-shared", "vb-poisson-concomitant", "vb-choice-known"]


def fitted(monkeypatch, rows, data, case, k=2, **options):
    """A fit with blocks of so many rows; the default if None."""
    formula, declared, fit = case
    with monkeypatch.context() as patch:
        if rows is not None:
            for module in (memory, one_block):
                patch.setattr(module, "block_rows", lambda p: rows)
        model = MixReg.from_formula(formula, data, k=k, **declared)
        return model.fit(**{"n_init": 2, **fit, **options})


def close(one, other):
    """Equal to 1e-9, of each number or of the numbers beside it."""
    one, other = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    finite = np.isfinite(other)
    assert_array_equal(one[~finite], other[~finite])
    size = np.abs(other[finite]).max(initial=0.0)
    assert_allclose(one[finite], other[finite], rtol=1e-9, atol=1e-9 * min(size, 1.0))


def assert_same(one, other):
    for name in ("params", "bse", "weights", "posterior", "coefficients", "scale"):
        close(getattr(one, name), getattr(other, name))
    for name in ("llf", "aic", "bic", "icl", "entropy"):
        close(getattr(one, name), getattr(other, name))
    close(one.cov_params(), other.cov_params())
    assert_array_equal(one.labels, other.labels)
    for name in ("exact", "certified", "binds", "empty", "suspects"):
        assert getattr(one.solution, name) == getattr(other.solution, name), name
    assert one.solution.run.reason == other.solution.run.reason


@pytest.mark.parametrize("name", CASES)
def test_blocks_of_64_rows_change_nothing(name, monkeypatch):
    # All rows of so small a table are one block by default.
    data = table_of(name)
    default = fitted(monkeypatch, None, data, CASES[name])
    assert len(list(default.model.source.blocks())) == 1
    assert_same(fitted(monkeypatch, SMALL, data, CASES[name]), default)


@pytest.mark.parametrize(
    "name",
    [
        "em-gaussian-plain",
        "em-gaussian-groups",
        "em-poisson-concomitant",
        "altmin-gaussian-plain",
        "vb-gaussian-plain",
        "vb-poisson-concomitant",
    ],
)
def test_small_blocks_default_blocks_and_one_block_agree(name, monkeypatch):
    data = table(10_000)
    fits = [fitted(monkeypatch, rows, data, CASES[name]) for rows in (SMALL, None, WHOLE)]
    for other in fits[1:]:
        assert_same(fits[0], other)


@pytest.mark.parametrize("name", ["em-poisson-groups", "altmin-gaussian-plain"])
def test_a_component_too_many_ends_at_the_same_maximum(name, monkeypatch):
    data, case = table(2_000), CASES[name]
    one, other = (fitted(monkeypatch, rows, data, case, k=3) for rows in (SMALL, None))
    assert_same(one, other)


def test_samples_do_not_depend_on_blocks(monkeypatch):
    model = MixReg.from_formula("y" + TERMS, table(), k=2, groups="group", known_labels="known")
    sizes = []
    for rows in (SMALL, WHOLE):
        for module in (memory, one_block):
            monkeypatch.setattr(module, "block_rows", lambda p, rows=rows: rows)
        part = model.source.sample(80, seed=3)
        sizes.append(part.as_block())
    assert_array_equal(sizes[0].x, sizes[1].x)
    assert (sizes[0].known >= 0).any()
    assert not np.array_equal(model.source.sample(80, seed=4).as_block().y, sizes[0].y)


# The last passes


def passes_after(monkeypatch, case, data, **options):
    """Passes over all rows after the final run has ended, and the results."""
    from mixreg.jobs import solve

    count, began = [], []
    sweep, ended = memory.MemorySource.sweep, solve.at_the_maximum

    def counting(self, task, params=None):
        if began and self.rows == len(data):
            count.append(task)
        return sweep(self, task, params)

    def begin(*arguments):
        found = ended(*arguments)
        began.append(True)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(memory.MemorySource, "sweep", counting)
        patch.setattr(solve, "at_the_maximum", begin)
        res = fitted(patch, None, data, case, **options)
    return count, res


@pytest.mark.parametrize(
    "name",
    [
        "em-gaussian-plain",
        "em-poisson-groups",
        "em-gaussian-concomitant",
        "altmin-gaussian-plain",
        "altmin-poisson-groups",
        "vb-gaussian-plain",
    ],
)
def test_two_passes_after_the_last_step(name, monkeypatch):
    count, res = passes_after(monkeypatch, CASES[name], table(2_000))
    assert res.converged
    assert len(count) <= 2


@pytest.mark.parametrize(
    "name", ["em-gaussian-weights", "em-choice-groups", "em-joint-concomitant"]
)
def test_the_last_pass_adds_up_what_labels_say(name, monkeypatch):
    data = table_of(name)
    res = fitted(monkeypatch, SMALL, data, CASES[name])
    last, posterior = res.solution.last, res.group_posterior.to_numpy()
    weight = res.model.units.weight
    weight = np.ones(len(posterior)) if weight is None else weight
    entropy = -float(weight @ xlogy(posterior, posterior).sum(axis=1))
    assert last.labels.entropy == pytest.approx(entropy, rel=1e-9)
    assert res.entropy == pytest.approx(entropy, rel=1e-9)
    assert_array_equal(last.labels.units, res.group_labels.value_counts().sort_index())
    assert_allclose(last.labels.joint.sum(axis=0), weight @ posterior, rtol=1e-9)
    assert_allclose(last.gate.average, res.weights, rtol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_the_likelihood_is_that_of_the_parameters_reported(scale, monkeypatch):
    # A cubic in a year: columns of sizes from 1 to 10,000 million, all but dependent.
    data = table(1_000)
    data["year"] = 1990 + np.arange(1_000) % 30
    late = (data.year - 2005) / 10
    data["y"] = late**3 - late + np.where(data.x1 > 0, 1, -1) + 0.3 * scale * data.y
    case = ("y ~ year + I(year**2) + I(year**3)", {}, {})
    res = fitted(monkeypatch, None, data, case)
    assert res.model.loglike(res.params) == pytest.approx(res.llf, rel=1e-11)
