"""Coefficients that run off to infinity: they have no standard error, all others keep theirs."""

import json
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import poisson
from statsmodels.tools.numdiff import approx_hess3

from mixreg import MixReg, load
from mixreg.errors import InterpretationWarning
from mixreg.files.container import pack, unpack

LINKS = sm.families.links
ONE = {
    "logit": ("binomial", "logit", sm.families.Binomial()),
    "probit": ("binomial", "probit", sm.families.Binomial(LINKS.Probit())),
    "cloglog": ("binomial", "cloglog", sm.families.Binomial(LINKS.CLogLog())),
    "poisson": ("poisson", "log", sm.families.Poisson()),
}
EMPTY = "g[T.e][1]"


@cache
def answers(seed=0, n=600):
    """A factor of five levels, of which one has no events."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"g": rng.choice(list("abcde"), n), "x": rng.normal(size=n)})
    data["store"] = rng.integers(0, 40, n)
    count = rng.poisson(np.exp(1 + 0.3 * data["x"] - 0.2 * (data["g"] == "b")))
    yes = rng.random(n) < 1 / (1 + np.exp(-0.3 * data["x"]))
    some = data["g"] != "e"
    return data.assign(count=count * some, yes=(yes & some).astype(int))


def response(family):
    return "yes" if family == "binomial" else "count"


@cache
def one(name, formula="g + x", levels="abcde", cov_type="oim"):
    family, link, _ = ONE[name]
    data = answers()[answers()["g"].isin(list(levels))]
    model = MixReg.from_formula(
        f"{response(family)} ~ {formula}", data, k=1, family=family, link=link
    )
    options = {"cov_kwds": {"groups": "store"}} if cov_type == "cluster" else {}
    return model.fit(cov_type=cov_type, **options)


@pytest.mark.parametrize("cov_type", ["oim", "opg", "robust", "cluster"])
@pytest.mark.parametrize("name", ONE)
def test_other_levels_keep_their_errors(name, cov_type):
    res, reduced = (one(name, levels=levels, cov_type=cov_type) for levels in ("abcde", "abcd"))
    assert np.isinf(res.bse[EMPTY])
    assert_allclose(res.bse.drop(EMPTY), reduced.bse, rtol=1e-6)
    assert_allclose(
        res.cov_params().drop(EMPTY).drop(columns=EMPTY), reduced.cov_params(), rtol=1e-4, atol=1e-9
    )
    assert (res.conf_int().loc[EMPTY] == [-np.inf, np.inf]).all()
    assert res.conf_int().drop(EMPTY).notna().all(axis=None)


@pytest.mark.parametrize("name", ["logit", "poisson"])
def test_errors_are_those_of_statsmodels(name):
    family, _, theirs = ONE[name]
    data = answers()
    formula = f"{response(family)} ~ g + x"
    whole = smf.glm(formula, data, family=theirs).fit()
    reduced = smf.glm(formula, data[data["g"] != "e"], family=theirs).fit(tol=1e-12)
    res = one(name)
    assert whole.bse["g[T.e]"] > 1000
    assert_allclose(res.bse.drop(EMPTY), reduced.bse, rtol=1e-6)
    test = res.t_test("g[T.b][1] - g[T.c][1]")
    known = reduced.t_test("g[T.b] - g[T.c]")
    assert_allclose(test.sd, known.sd, rtol=1e-6)
    assert_allclose(test.tvalue, known.tvalue, rtol=1e-4)
    joint = res.wald_test("g[T.b][1] = 0, g[T.c][1] = 0")
    assert_allclose(
        joint.statistic,
        reduced.wald_test("g[T.b] = 0, g[T.c] = 0", scalar=True).statistic,
        rtol=1e-4,
    )


def test_of_other_codings_contrasts_are_known():
    reduced = one("poisson", levels="abcd")
    sums = one("poisson", "C(g, Sum) + x")
    levels = [f"C(g, Sum)[S.{level}][1]" for level in "abcd"]
    assert np.isinf(sums.bse[["Intercept[1]", *levels]]).all()
    assert_allclose(sums.bse["x[1]"], reduced.bse["x[1]"], rtol=1e-6)
    test = sums.t_test(f"{levels[1]} - {levels[0]}")
    assert_allclose(test.sd.item(), reduced.bse["g[T.b][1]"], rtol=1e-6)
    # All levels are compared with the one that has no events.
    against = one("poisson", "C(g, Treatment('e')) + x")
    lines = np.array([[0, -1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
    test = against.t_test(lines)
    assert_allclose(test.sd[:2], reduced.bse[["g[T.b][1]", "Intercept[1]"]], rtol=1e-6)
    assert np.isinf(test.sd[2])
    assert test.pvalue[2] == 1


def test_tests_that_involve_what_runs_off_say_so():
    res, reduced = one("poisson"), one("poisson", levels="abcd")
    alone = res.t_test(f"{EMPTY} = 0")
    assert np.isinf(alone.sd).all()
    assert alone.pvalue.item() == 1
    with pytest.warns(InterpretationWarning, match="which is 1 of 2 hypotheses"):
        some = res.wald_test(f"g[T.b][1] = 0, {EMPTY} = 0")
    known = reduced.wald_test("g[T.b][1] = 0")
    assert_allclose(some.statistic, known.statistic, rtol=1e-4)
    assert int(some.df_denom) == 1
    with pytest.warns(InterpretationWarning, match="none of the hypotheses"):
        assert res.wald_test(f"{EMPTY} = 0").pvalue == 1


@pytest.mark.parametrize("name", ONE)
def test_predictions_and_margins_that_do_not_involve_it(name):
    res, reduced = one(name), one(name, levels="abcd")
    new = answers()[answers()["g"] != "e"].head(20)
    ours, theirs = (fit.get_prediction(new).summary_frame() for fit in (res, reduced))
    assert_allclose(ours, theirs, rtol=1e-4)
    assert_allclose(ours["mean_se"], theirs["mean_se"], rtol=1e-5)
    lost = res.get_prediction(answers()[answers()["g"] == "e"].head(3)).summary_frame()
    assert np.isinf(lost["mean_se"]).all()
    assert lost.notna().all(axis=None)
    ours, theirs = (fit.margins(new) for fit in (res, reduced))
    x = ours[ours["variable"] == "x"]["std_error"]
    assert_allclose(x, theirs[theirs["variable"] == "x"]["std_error"], rtol=1e-4)
    table = res.margins()
    found = table.loc[table["variable"] == "x", "std_error"]
    assert len(found) > 0
    assert np.isfinite(found).all()


def test_the_summary_names_the_terms():
    text = " ".join(str(one("poisson").summary()).split())
    assert "Component 1 is separated: the coefficient of g[T.e] runs off to infinity" in text
    assert "What does not involve it keeps its standard error." in text
    assert "only the log-likelihood" not in text
    assert "do not determine every parameter" not in text


def counted(res, data, vector):
    """Log-likelihood of groups, by hand."""
    params = res.spec.layout.unpack(vector)
    columns = [np.ones(len(data)), *(data["g"] == level for level in "bc"), data["x"]]
    X = np.column_stack(columns).astype(float)
    rows = poisson.logpmf(data["count"].to_numpy(), np.exp(X @ params.coef.T).T)
    groups = pd.DataFrame(rows.T).groupby(data["id"].to_numpy()).sum().to_numpy()
    logits = params.gating[:, 0]
    return logsumexp(groups + logits - logsumexp(logits), axis=1).sum()


@cache
def two(cov_type="oim", **options):
    """Two components; the smaller buys nothing at level c."""
    rng = np.random.default_rng(3)
    n = 150
    z = np.repeat(rng.random(n) < 0.35, 6)
    data = pd.DataFrame({"id": np.repeat(np.arange(n), 6), "g": np.tile(list("aabbcc"), n)})
    data["x"] = rng.normal(size=6 * n)
    first = 0.5 + 0.4 * data["x"] + 0.3 * (data["g"] == "b")
    second = 1.8 - 0.4 * data["x"]
    data["count"] = rng.poisson(np.where(z, np.exp(second) * (data["g"] != "c"), np.exp(first)))
    data["z"] = np.repeat(rng.normal(size=n) + 0.5 * z[::6], 6)
    options = {name: list(value) if name == "shared" else value for name, value in options.items()}
    model = MixReg.from_formula(
        "count ~ g + x", data, k=2, family="poisson", groups="id", **options
    )
    return model.fit(cov_type=cov_type), data


def test_two_components_against_a_hessian_by_hand():
    res, data = two()
    lost = np.isinf(res.bse)
    assert list(lost.index[lost]) == ["g[T.c][2]"]
    at, free = res.params.to_numpy(), np.flatnonzero(~lost)
    assert counted(res, data, at) == pytest.approx(res.llf, rel=1e-9)

    def rest(part):
        vector = at.copy()
        vector[free] = part
        return counted(res, data, vector)

    cov = np.linalg.inv(-approx_hess3(at[free], rest))
    assert_allclose(res.bse[~lost], np.sqrt(np.diag(cov)), rtol=1e-5)
    test = res.t_test("g[T.b][1] = g[T.b][2]")
    names = list(res.params.index[~lost])
    i, j = names.index("g[T.b][1]"), names.index("g[T.b][2]")
    assert_allclose(test.sd.item() ** 2, cov[i, i] + cov[j, j] - 2 * cov[i, j], rtol=1e-4)
    # What components share is in what is overall, too.
    assert np.isfinite(res.margins().query("variable == 'x'")["std_error"]).all()
    new = res.get_prediction(data.head(6), which="component").summary_frame()
    component, level = new.index.get_level_values("component"), np.tile(data["g"].head(6), 2)
    assert (np.isinf(new["mean_se"]) == ((component == 2) & (level == "c"))).all()
    assert np.isfinite(res.get_prediction(data.head(6)).se).all()


@pytest.mark.parametrize("cov_type", ["oim", "opg", "robust"])
@pytest.mark.parametrize("options", [{}, {"shared": ("x",)}, {"concomitant": "~ z"}], ids=str)
def test_two_components_with_all_kinds_of_errors(options, cov_type):
    res, _ = two(cov_type, **options)
    lost = np.isinf(res.bse)
    assert list(lost.index[lost]) == ["g[T.c][2]"]
    assert ((res.bse[~lost] > 0.005) & (res.bse[~lost] < 1)).all()
    assert "coefficient of g[T.c] runs off" in " ".join(str(res.summary()).split())


def test_a_term_that_only_one_component_has():
    data = two()[1]
    model = MixReg.from_formula(
        "count ~ g + x", data, k=2, family="poisson", groups="id", only={"x": [1]}
    )
    res = model.fit(init=two()[0].labels.to_numpy())
    lost = np.isinf(res.bse)
    assert list(lost.index[lost]) == ["g[T.c][2]"]


def test_a_term_that_runs_off_in_all_components():
    data = two()[1].assign(count=lambda t: t["count"] * (t["g"] != "c"))
    model = MixReg.from_formula(
        "count ~ g + x", data, k=2, family="poisson", groups="id", shared=["g"]
    )
    res = model.fit()
    lost = np.isinf(res.bse)
    assert list(lost.index[lost]) == ["g[T.c]"]
    rest = data[data["g"] != "c"]
    reduced = MixReg.from_formula(
        "count ~ g + x", rest, k=2, family="poisson", groups="id", shared=["g"]
    ).fit()
    assert_allclose(res.bse[~lost], reduced.bse, rtol=1e-5)


def test_other_numbers_and_files_keep_it(tmp_path):
    res, data = two()
    turned = res.relabel([2, 1])
    assert_allclose(turned.bse["x[1]"], res.bse["x[2]"])
    assert np.isinf(turned.bse["g[T.c][1]"])
    assert np.isinf(turned.bse).sum() == 1
    path = tmp_path / "fit.mixreg"
    res.save(path)
    again = load(path)
    assert_allclose(again.cov_params(), res.cov_params())
    contrast = "g[T.b][1] = g[T.b][2]"
    assert again.t_test(contrast).sd.item() == res.t_test(contrast).sd.item()
    assert str(again.summary()) == str(res.summary())
    assert_allclose(again.get_prediction(data.head(4)).se, res.get_prediction(data.head(4)).se)


def test_a_file_of_an_earlier_version_loads(tmp_path):
    res = one("poisson", "C(g, Sum) + x")
    path = tmp_path / "fit.mixreg"
    res.save(path)
    members = unpack(path.read_bytes())
    tree = json.loads(members["fitted.json"])
    # Arrays are members by number; they stay, and nothing asks for them.
    del tree["estimate"]["finite"], tree["estimate"]["runaway"]
    members["fitted.json"] = json.dumps(tree).encode()
    path.write_bytes(pack(members))
    old = load(path)
    assert_allclose(old.bse, res.bse)
    assert np.isinf(old.t_test("C(g, Sum)[S.b][1] - C(g, Sum)[S.a][1]").sd).all()
    assert np.isfinite(old.t_test("x[1] = 0").sd).all()
    del tree["estimate"]["cov"]
    members["fitted.json"] = json.dumps(tree).encode()
    path.write_bytes(pack(members))
    with pytest.raises(ValueError, match=r"not say what it should at fitted\.estimate"):
        load(path)


# Choices


@cache
def brands(never="E", sets=400, seed=0):
    """Choices among brands of which one is never bought."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {"task": np.repeat(np.arange(sets), 5), "brand": np.tile(list("ABCDE"), sets)}
    )
    data["price"] = rng.uniform(1, 4, len(data))
    liking = data["brand"].map({"A": 0.0, "B": 0.4, "C": -0.3, "D": 0.2, "E": 0.0})
    utility = liking - 0.8 * data["price"] + rng.gumbel(size=len(data))
    utility = utility.where(~data["brand"].isin(list(never)), -np.inf)
    data["chosen"] = (utility.groupby(data["task"]).transform("max") == utility).astype(int)
    return data


def chosen(data):
    model = MixReg.from_formula(
        "chosen ~ brand + price", data, k=1, family="choice", choice_set="task"
    )
    return model.fit()


@pytest.mark.parametrize("never", ["E", "DE"])
def test_a_brand_that_nobody_buys_leaves_the_others(never):
    data = brands(never)
    res, reduced = chosen(data), chosen(data[~data["brand"].isin(list(never))])
    gone = [f"brand[T.{brand}][1]" for brand in never]
    assert np.isinf(res.bse[gone]).all()
    assert_allclose(res.bse.drop(gone), reduced.bse, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours, theirs = res.wtp("price").loc[1], reduced.wtp("price").loc[1]
    assert_allclose(ours.loc[theirs.index], theirs, rtol=1e-4)
    lost = ours.drop(index=theirs.index)
    assert np.isinf(lost["std err"]).all()
    assert lost[["wtp", "std err", "[0.025", "0.975]"]].notna().all(axis=None)
    margins = res.margins(data).set_index("variable")["std_error"]
    assert np.isfinite(margins["price"]).all()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("formula", ["chosen ~ 0 + price", "chosen ~ 0 + price + brand"])
def test_choices_that_price_decides_are_told(formula):
    data = pd.DataFrame({"task": np.repeat(np.arange(30), 3), "price": np.tile([1.0, 2, 3], 30)})
    data["brand"] = np.random.default_rng(0).normal(size=90)
    data["chosen"] = (data["price"] == 1).astype(int)
    res = MixReg.from_formula(formula, data, k=1, family="choice", choice_set="task").fit()
    assert np.isinf(res.bse).all()
    assert res.params.notna().all()
    assert "Component 1 is separated: the coefficient" in " ".join(str(res.summary()).split())
    with pytest.warns(InterpretationWarning, match="coefficient of price runs off"):
        res.wtp("price")


# Concomitants


def test_a_gate_that_is_separated_leaves_the_other_concomitants():
    rng = np.random.default_rng(0)
    n = 400
    data = pd.DataFrame({"x": rng.normal(size=n), "w": rng.normal(size=n)})
    data["town"] = rng.choice(list("abc"), n)
    second = (rng.random(n) < 1 / (1 + np.exp(-data["w"]))) & (data["town"] != "c")
    data["y"] = np.where(second, 8 - data["x"], data["x"]) + 0.3 * rng.normal(size=n)
    res, reduced = (
        MixReg.from_formula("y ~ x", part, k=2, concomitant="~ w + town").fit()
        for part in (data, data[data["town"] != "c"])
    )
    lost = np.isinf(res.bse)
    assert len(lost.index[lost]) == 1
    assert "town[T.c]" in lost.index[lost][0]
    shown = [name for name in lost.index if "gate" in name and not lost[name]]
    # The segments' order may differ, and with it the sign of the gate alone.
    assert_allclose(res.bse[shown], reduced.bse[shown], rtol=1e-4)
    assert np.isfinite(res.get_prediction(data[data["town"] != "c"].head(5)).se).all()
    text = " ".join(str(res.summary()).split())
    assert "Concomitants separate the classes" in text
    assert lost.index[lost][0] in text


def test_nothing_is_lost_that_is_only_vague():
    # One event of three observations: a large error, but a finite one.
    data = pd.DataFrame({"g": np.repeat(list("ab"), [3, 300]), "n": 0})
    data.loc[[0, *range(3, 150)], "n"] = 1
    res = MixReg.from_formula("n ~ g", data, k=1, family="binomial").fit()
    known = smf.glm("n ~ g", data, family=sm.families.Binomial()).fit()
    assert_allclose(res.bse, known.bse, rtol=1e-6)


def test_bounds_of_a_bootstrap_leave_the_others_finite():
    res, _ = two()
    boot = res.bootstrap(20, seed=0)
    assert np.isfinite(boot.bse).all()
    assert boot.bse["g[T.b][2]"] < 1


def test_a_report_names_the_terms(tmp_path):
    res, _ = two()
    page = tmp_path / "segments.html"
    res.report(page)
    text = page.read_text(encoding="utf-8")
    assert "Coefficients of g[T.c] run off to infinity: only their signs mean something." in text
