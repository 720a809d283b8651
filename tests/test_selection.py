"""Choosing the number of components: criteria, the likelihood ratio test, many processes."""

import os
import re
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from numpy.testing import assert_allclose, assert_array_equal

from mixreg import InputError, MixReg, datasets, lr_test, select_k
from mixreg.jobs import parallel
from mixreg.jobs.job import Job
from mixreg.jobs.parallel import cores, run_all
from mixreg.report.plots.selection_plot import spread
from mixreg.selection import Selection
from tests.samples import lines, shops

mpl.use("Agg")
FORMULA = "y ~ x1 + x2"
COLUMNS = ["llf", "df", "aic", "bic", "icl", "entropy_r2", "smallest", "better", "thorough"]
COLUMNS += ["warnings"]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return lines(300)


@pytest.fixture(scope="module")
def chosen(data) -> Selection:
    return select_k(FORMULA, data, k=range(1, 4), n_jobs=1)


@pytest.fixture(scope="module")
def counts() -> pd.DataFrame:
    """Counts with two log lines."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(300)
    mean = np.exp(np.where(rng.random(300) < 0.6, 2 + 0.5 * x, 0.5 - 0.5 * x))
    return pd.DataFrame({"y": rng.poisson(mean), "x": x})


# Choosing


def test_the_planted_number_is_found(chosen):
    assert chosen.best_k == 2
    assert chosen.best is chosen.results[2]
    assert chosen.best.k == 2
    assert chosen.criterion == "bic"


def test_the_table_holds_what_single_fits_say(chosen, data):
    assert chosen.table.columns.to_list() == COLUMNS
    assert chosen.table.index.to_list() == [1, 2, 3]
    assert chosen.table.index.name == "k"
    for k in (1, 2, 3):
        single = MixReg.from_formula(FORMULA, data, k=k).fit()
        row = chosen.table.loc[k]
        for name in ("llf", "aic", "bic", "icl", "entropy_r2"):
            assert row[name] == pytest.approx(getattr(single, name), rel=1e-12)
        assert row["df"] == single.df_model
        share = single.labels.value_counts(normalize=True)
        assert row["smallest"] == pytest.approx(share.reindex(single.components).min())
        assert_array_equal(chosen.results[k].params, single.params)
        assert_array_equal(chosen.results[k].bse, single.bse)


@pytest.mark.parametrize("criterion", ["aic", "bic", "icl"])
def test_the_criterion_chooses(chosen, criterion):
    other = Selection(chosen.table, chosen.results, criterion)
    assert other.best_k == chosen.table[criterion][other.sound].idxmin()
    assert f"by {criterion.upper()}" in str(other)


def test_chances_and_warnings_are_text(chosen):
    assert chosen.table.loc[1, "better"] == "-"
    assert re.fullmatch(r"\d+\.\d%", chosen.table.loc[2, "better"])
    short = select_k(
        FORMULA, lines(300, noise=1.0), k=[3], max_iter=1, n_init=1, init="random", n_jobs=1
    )
    assert "not converged; raise max_iter" in short.table.loc[3, "warnings"]
    assert "k=3: not converged" in str(short)


def test_a_fit_that_chance_explains_is_passed_over():
    rng = np.random.default_rng(2)
    x = rng.standard_normal(40)
    y = x + rng.standard_normal(40)
    selection = select_k("y ~ x", k=[1, 3], criterion="aic", n_jobs=1)
    assert "may be chance" in selection.table.loc[3, "warnings"]
    assert selection.table["aic"].idxmin() == 3
    assert selection.best_k == 1
    assert selection.sound.to_dict() == {1: True, 3: False}
    assert len(y) == 40


def test_exact_fits_choose_the_smallest_of_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    beta = np.array([[1.0, 2, 3], [-2.0, 0, 1]])
    y = (X * beta[rng.integers(0, 2, 200)]).sum(axis=1)
    selection = select_k(endog=y, exog=X, k=[1, 2, 3], n_jobs=1)
    assert selection.best_k == 2
    assert selection.table.loc[2, "better"] == "certified"
    assert np.isfinite(selection.plot().get_ylim()).all()
    pyplot.close("all")


def test_groups_are_what_is_counted():
    table = shops(40)
    selection = select_k("y ~ x", table, k=[1, 2], groups="shop", n_jobs=1)
    single = MixReg.from_formula("y ~ x", table, k=2, groups="shop").fit()
    row = selection.table.loc[2]
    assert row["bic"] == pytest.approx(-2 * single.llf + single.df_model * np.log(40))
    share = single.group_labels.value_counts(normalize=True).min()
    assert row["smallest"] == pytest.approx(share)
    assert selection.best_k == 2


def test_weights_are_counted(data):
    weight = np.random.default_rng(0).integers(0, 3, len(data))
    selection = select_k(FORMULA, data, k=[2], weights=weight, n_jobs=1)
    single = MixReg.from_formula(FORMULA, data, k=2, weights=weight).fit()
    assert selection.table.loc[2, "bic"] == pytest.approx(single.bic, rel=1e-12)
    size = pd.Series(weight).groupby(single.labels).sum()
    assert selection.table.loc[2, "smallest"] == pytest.approx(size.min() / weight.sum())


def test_other_families(counts):
    selection = select_k("y ~ x", counts, k=[1, 2, 3], family="poisson", n_jobs=1)
    assert selection.best_k == 2
    single = MixReg.from_formula("y ~ x", counts, k=2, family="poisson").fit()
    assert selection.best.llf == pytest.approx(single.llf, rel=1e-10)


def test_known_labels(data):
    known = data["z"].where(np.arange(len(data)) < 30)
    selection = select_k(FORMULA, data, k=[2, 3], known_labels=known, n_jobs=1)
    single = MixReg.from_formula(FORMULA, data, k=3, known_labels=known).fit()
    assert selection.results[3].llf == pytest.approx(single.llf, rel=1e-12)


def test_arrays(data, chosen):
    X = data[["x1", "x2"]].assign(one=1.0)
    selection = select_k(endog=data["y"], exog=X, k=[2], n_jobs=1)
    assert selection.best.llf == pytest.approx(chosen.results[2].llf)


def test_names_are_looked_up_where_it_is_called(data):
    def twice(values):
        return 2 * values

    height, width = data["y"].to_numpy(), data["x1"].to_numpy()
    selection = select_k("twice(height) ~ width", k=[1], n_jobs=1)
    assert selection.best.nobs == len(height) == len(width)
    assert twice(1) == 2


def test_options_of_the_fit(data):
    selection = select_k(FORMULA, data, k=[2], cov_type="robust", n_init=2, seed=3, n_jobs=1)
    assert selection.best.cov_type == "robust"
    assert selection.best.options.seed == 3


def test_cheese():
    selection = select_k(
        "np.log(VOLUME) ~ DISP + np.log(PRICE)",
        datasets.cheese(),
        k=range(1, 4),
        groups="RETAILER",
        n_jobs=1,
    )
    assert selection.table.loc[3, "bic"] == pytest.approx(5810.2933, abs=1e-3)
    assert "try larger k" in str(selection)


# Processes


@pytest.mark.filterwarnings("error")
def test_processes_do_not_matter(data, chosen, monkeypatch):
    monkeypatch.setattr(parallel, "WORTH", -1.0)
    selection = select_k(FORMULA, data, k=[1, 2], n_jobs=2)
    assert_allclose(selection.table["llf"], chosen.table["llf"][:2], rtol=1e-10)
    assert_allclose(selection.best.params, chosen.best.params, rtol=1e-7)
    assert selection.best_k == chosen.best_k


def test_results_come_in_order_and_tasks_are_made_as_needed():
    made = []

    def tasks():
        for i in range(30):
            made.append(i)
            yield i

    def function(i):
        assert made[-1] == i
        return 3 * i

    assert run_all(function, tasks(), 1, costs=[1.0] * 30) == [3 * i for i in range(30)]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_short_work_stays_here(n_jobs):
    here = run_all(_whoami, range(5), n_jobs, costs=[1.0] * 5)
    assert set(here) == {os.getpid()}
    assert cores() >= 1


def _whoami(_: int) -> int:
    return os.getpid()


def test_what_cannot_be_sent_runs_here():
    assert run_all(lambda i: i + 1, [1, 2], 2, costs=[1.0, 1.0], at_once=True) == [2, 3]


def test_a_worker_that_dies_is_told():
    with pytest.raises(RuntimeError, match="worker process ended before its work was done"):
        run_all(os._exit, [1, 1], 2, costs=[1.0, 1.0], at_once=True)


def test_a_script_needs_no_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from mixreg import datasets, select_k\n"
        "from mixreg.jobs import parallel\n"
        "parallel.WORTH = -1.0\n"
        "print('begin')\n"
        "s = select_k('tuned ~ stretchratio', datasets.tonedata(), k=[1, 2], n_init=1, n_jobs=2)\n"
        "print(s.best_k)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["begin", "2"]


def test_a_progress_bar(data, capsys):
    select_k(FORMULA, data, k=[1], n_jobs=1)
    assert capsys.readouterr().err == ""
    select_k(FORMULA, data, k=[1], n_jobs=1, progress=True)
    assert "select_k" in capsys.readouterr().err


# In print


def test_print(chosen):
    text = str(chosen).splitlines()
    assert text[0].startswith("k = 2 by BIC among sound fits; passed over, though of a smaller BIC")
    assert text[0].endswith("k = 3: component 3 may be chance")
    assert [line.startswith("* 2") for line in text].count(True) == 1
    assert text[1].split() == [
        *("k", "llf", "df", "AIC", "BIC", "ICL", "entropy", "R²", "smallest", "better")
    ]
    html = chosen._repr_html_()
    assert f"<b>{text[0]}</b>" in html
    assert "<table" in html


@pytest.mark.parametrize("name", ["plot_selection", "plot"])
def test_plot(chosen, name):
    plot = getattr(chosen, name)
    ax = plot()
    assert [line.get_label() for line in ax.lines[:6:2]] == ["AIC", "BIC", "ICL"]
    assert_allclose(ax.lines[2].get_ydata(), chosen.table["bic"])
    assert ax.get_title(loc="left") == "k = 2 by BIC"
    assert {text.get_text() for text in ax.texts} == {"AIC", "BIC", "ICL"}
    other = pyplot.subplots()[1]
    assert plot(ax=other) is other
    pyplot.close("all")


def test_plot_without_matplotlib(chosen, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = 'plots need matplotlib, which is not installed; try: python -m pip install "matplotlib'
    with pytest.raises(ImportError, match=re.escape(words)):
        chosen.plot()


def test_names_of_lines_do_not_overlap():
    at = spread(np.array([0.2, 0.21, 0.22, 0.8]), 0.1)
    assert np.diff(at).min() >= 0.1 - 1e-12
    assert_allclose(spread(np.array([0.1, 0.5]), 0.1), [0.1, 0.5])


# The likelihood ratio test


@pytest.fixture(scope="module")
def small() -> Selection:
    """Two lines with the same noise."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal(80)
    y = np.where(rng.random(80) < 0.6, 1 + 2 * x, -1 - x) + 0.5 * rng.standard_normal(80)
    table = pd.DataFrame({"y": y, "x": x})
    return select_k("y ~ x", table, k=[1, 2, 3], equal_variance=True, n_jobs=1)


def test_one_line_is_rejected(small):
    test = small.lr_test(1, 2, n=19, n_init=1, n_jobs=1)
    assert (test.k0, test.k1, test.n) == (1, 2, 19)
    assert test.statistic == pytest.approx(2 * (small.results[2].llf - small.results[1].llf))
    assert test.p_value == 1 / 20
    assert (test.draws >= 0).all()
    assert "1 against 2 components" in str(test)
    assert "0.050" in str(test)


def test_two_lines_are_not_rejected(small):
    test = small.lr_test(2, n=9, n_init=2, n_jobs=1)
    assert test.k1 == 3
    assert test.p_value > 0.1
    assert test.p_value == (1 + (test.draws >= test.statistic).sum()) / 10


def test_the_seed_decides(small):
    one, again, other = (
        lr_test(small.results[1], small.results[2], 2, seed=seed, n_init=1, n_jobs=1)
        for seed in (5, 5, 6)
    )
    assert_array_equal(one.draws, again.draws)
    assert not np.allclose(one.draws, other.draws)


def test_tests_of_groups_counts_and_weights(counts):
    shop = select_k("y ~ x", shops(30), k=[1, 2], groups="shop", n_jobs=1)
    assert shop.lr_test(1, n=9, n_init=1, n_jobs=1).p_value == 0.1
    weight = np.random.default_rng(0).integers(0, 3, len(counts))
    count = select_k("y ~ x", counts, k=[1, 2], family="poisson", weights=weight, n_jobs=1)
    assert count.lr_test(1, n=9, n_init=1, n_jobs=1).p_value == 0.1


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": []}, "k is empty"),
        ({"k": 3}, "k must be several whole numbers"),
        ({"k": "3"}, "k must be several whole numbers"),
        ({"k": [1, 2.5]}, "each k must be a whole number"),
        ({"k": [0, 1]}, "each k must be a whole number of at least 1"),
        ({"k": [1000]}, "k=1000 is more than the 300 rows"),
        ({"criterion": "r2"}, "criterion='r2' is unknown; use one of aic, bic, icl"),
        ({"method": "altmin"}, "method='em'; got 'altmin'"),
        ({"init": np.ones(300)}, "init labels"),
        ({"n_jobs": 0}, "n_jobs must be a whole number of at least 1"),
        ({"endog": [1.0]}, "not both"),
    ],
)
def test_wrong_arguments(data, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        select_k(FORMULA, data, **{"k": [1], **options})


def test_wrong_data(data):
    with pytest.raises(InputError, match="give a formula and data, or endog= and exog="):
        select_k(k=[1])
    with pytest.raises(InputError, match="formula must be text"):
        select_k(data["y"], data[["x1"]], k=[1])
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        select_k(FORMULA, data, k=[1], colour="red")


def test_wrong_pairs(chosen, data):
    one, two = chosen.results[1], chosen.results[2]
    with pytest.raises(InputError, match="more components; got k=2 and k=1"):
        lr_test(two, one)
    with pytest.raises(InputError, match=r"res0 must be a fit, as model.fit\(\) .*; got MixReg$"):
        lr_test(one.model, two)
    with pytest.raises(InputError, match="different data"):
        lr_test(MixReg.from_formula("y ~ x1", data, k=1).fit(), two)
    with pytest.raises(InputError, match="differ in more than k"):
        lr_test(MixReg.from_formula(FORMULA, data, k=1, equal_variance=True).fit(), two)
    with pytest.raises(InputError, match="needs a fit by method='em'"):
        lr_test(one, MixReg.from_formula(FORMULA, data, k=2).fit(method="altmin"))
    with pytest.raises(InputError, match="no fit with k=7; fits have k = 1, 2, 3"):
        chosen.lr_test(7)
    with pytest.raises(InputError, match="n must be a whole number"):
        lr_test(one, two, n=0)


def flat(seed, n=4_000):
    rng = np.random.default_rng(seed)
    x, label = rng.standard_normal((n, 4)), rng.integers(0, 2, n)
    y = np.where(label, x @ [1.0, -1, 0.5, 0] + 1, x @ [-1.0, 0.3, 1, 1] - 1)
    data = pd.DataFrame(x, columns=list("abcd"))
    return data.assign(y=y + rng.normal(0, 0.8, n))


def test_components_that_cannot_win_are_searched_briefly():
    choice = select_k("y ~ a + b + c + d", flat(1), k=range(1, 6), seed=0, n_jobs=1)
    assert choice.best_k == 2
    assert choice.table.loc[[1, 2], "thorough"].all()
    assert not choice.table.loc[[4, 5], "thorough"].any()
    assert "searched briefly" in repr(choice)
    assert (np.diff(choice.table.llf) > -1e-6).all()
    assert all(res.converged for res in choice.results.values())
    long = select_k("y ~ a + b + c + d", flat(1), k=[2, 4], n_init=4, seed=0, n_jobs=1)
    assert long.table.thorough.all()
    assert "searched briefly" not in repr(long)


def test_a_k_that_fails_is_told_and_the_others_are_kept(monkeypatch):
    run = Job.run

    def fails(self, watch=None):
        if self.problem.k == 3:
            raise np.linalg.LinAlgError("Singular matrix")
        return run(self, watch)

    monkeypatch.setattr(Job, "run", fails)
    data = datasets.tonedata()
    choice = select_k("tuned ~ stretchratio", data, k=[1, 2, 3], n_jobs=1)
    assert choice.best_k == 2
    assert choice.failed == {3: "Singular matrix"}
    assert choice.table.loc[3, "warnings"] == "not fitted: Singular matrix"
    assert np.isnan(choice.table.loc[3, "bic"])
    assert not choice.sound[3]
    assert "not fitted: Singular matrix" in repr(choice)
    choice.plot_selection()
    with pytest.raises(np.linalg.LinAlgError):
        select_k("tuned ~ stretchratio", data, k=[3], n_jobs=1)


def test_a_k_that_cannot_be_declared_is_told_and_the_others_are_kept():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 2))
    choice = select_k(endog=rng.standard_normal(12), exog=x, k=[1, 2, 13], n_jobs=1)
    assert list(choice.results) == [1, 2]
    assert "13" in choice.failed[13]
    with pytest.raises(InputError, match="13"):
        select_k(endog=rng.standard_normal(12), exog=x, k=[13], n_jobs=1)
