"""What a new user runs into: each case is either done, or told in words that help."""

import datetime
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal, assert_series_equal
from statsmodels.iolib.summary2 import summary_col

import mixreg
from mixreg import (
    InputError,
    InputWarning,
    InterpretationWarning,
    MixReg,
    NotAvailableError,
    select_k,
)
from mixreg.cli import main
from mixreg.jobs import solve as solving
from tests.samples import lines


def sales(n: int = 240, seed: int = 5) -> pd.DataFrame:
    """Two kinds of shops, with columns of many kinds."""
    rng = np.random.default_rng(seed)
    shop = np.repeat(np.arange(n // 8), 8)
    kind = rng.permutation(n // 8)[shop] % 2
    x = rng.standard_normal(n)
    slope = np.where(kind == 0, 2.0, -2.0)
    y = 1 + slope * x + 0.3 * rng.standard_normal(n)
    bought = rng.random(n) < 1 / (1 + np.exp(-slope * x))
    return pd.DataFrame(
        {
            "x": x,
            "y": y,
            "shop": shop,
            "bought": bought,
            "said": np.where(bought, "yes", "no"),
            "region": rng.choice(["north", "south", "west"], n),
            "my age": rng.uniform(18, 80, n),
            "class": rng.standard_normal(n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n), "D"),
            "took": pd.to_timedelta(rng.integers(1, 100, n), "D"),
            "wave": rng.standard_normal(n) + 1j,
            "price": [f"${value:.2f}" for value in rng.uniform(1, 9, n)],
        }
    )


# Responses


@pytest.mark.parametrize("kind", [bool, object, "boolean", float, int])
def test_a_response_of_yes_and_no_is_scored_as_it_was_fitted(kind):
    data = sales()
    res = MixReg.from_formula("bought ~ x", data, k=2, family="binomial", groups="shop").fit()
    own = res.group_posterior.loc[data["shop"]].to_numpy()
    new = data.astype({"bought": kind})
    assert_allclose(res.predict(new, "posterior"), own, atol=1e-8)
    assert_allclose(res.assign(new)[["p1", "p2"]], own, atol=1e-8)


def test_an_unknown_answer_does_not_count():
    data = sales()
    with pytest.warns(InputWarning, match="single 0/1 answer"):
        res = MixReg.from_formula("bought ~ x", data, k=2, family="binomial").fit(n_init=2)
    new = data.head(3).assign(bought=pd.array([True, None, False], dtype="boolean"))
    found = res.predict(new, "posterior")
    assert_allclose(found.iloc[1], res.weights, atol=1e-8)
    assert_allclose(
        found.iloc[[0, 2]],
        res.predict(data.head(3).assign(bought=[1, 0, 0]), "posterior").iloc[[0, 2]],
    )


@pytest.mark.filterwarnings("ignore::mixreg.errors.ConvergenceWarning")
def test_single_answers_do_not_determine_components():
    data = sales().assign(one=1, yes=lambda d: 1 * d["bought"], no=lambda d: 1 - d["bought"])
    single = r"single 0/1 answer, so the data do not determine k=2.*groups='column'"
    for formula, options in (
        ("yes ~ x", {}),
        ("yes ~ x", {"trials": "one"}),
        ("yes + no ~ x", {}),
        ("yes ~ x", {"concomitant": "~ x"}),
    ):
        model = MixReg.from_formula(formula, data, k=2, family="binomial", **options)
        with pytest.warns(InputWarning, match=single):
            model.fit(n_init=1)
        # Several answers a unit, or one component, are determined.
        model.with_k(1).fit(n_init=1)
        grouped = {"family": "binomial", "groups": "shop"}
        MixReg.from_formula("yes + no ~ x", data, k=2, **grouped).fit(n_init=1)
    more = data.assign(no=data["no"] + 2)
    MixReg.from_formula("yes + no ~ x", more, k=2, family="binomial").fit(n_init=1)


# The response on the other side


def lagged(values):
    """The values of the rows before."""
    return np.r_[0.0, np.asarray(values, dtype=float)[:-1]]


@pytest.mark.parametrize(
    ("formula", "named", "options"),
    [
        ("y ~ y", "'y'", {}),
        ("y ~ x + np.log(y + 99)", r"'np.log\(y \+ 99\)'", {}),
        ("np.log(y + 99) ~ x + y", "'y'", {}),
        ("I(y * 2) ~ y:x", "'y'", {}),
        ("y ~ x + I(y*2)", r"'I\(y \* 2\)'", {}),
        ("y ~ Q('y')", "Q", {}),
        ("y ~ center(y)", r"center\(y\)", {}),
        ("y ~ I(x * y)", r"'I\(x \* y\)'", {}),
        ("I(y / x) ~ I(y / x)", r"'I\(y / x\)'", {}),
        ("yes + no ~ x + no", "'no'", {"family": "binomial"}),
        ("y ~ x", "concomitant has 'y'", {"concomitant": "~ y"}),
        ("y ~ x", r"concomitant has 'np.abs\(y\)'", {"concomitant": "~ np.abs(y)"}),
        ("y ~ x", "offset='y' is the response", {"offset": "y"}),
    ],
)
@pytest.mark.parametrize("source", ["memory", "file", "names"])
def test_the_response_does_not_explain_itself(formula, named, options, source, tmp_path):
    data = sales().assign(yes=lambda d: 1 * d["bought"], no=lambda d: 2 - d["bought"])
    if source == "names":
        y, x, yes, no = (data[name] for name in ("y", "x", "yes", "no"))
        assert len(y) == len(x) == len(yes) == len(no)
        data = None
    elif source == "file":
        data.drop(columns="wave").to_parquet(tmp_path / "sales.parquet")
        data = tmp_path / "sales.parquet"
    with pytest.raises(InputError, match=rf"{named}.*a response cannot explain itself"):
        MixReg.from_formula(formula, data, k=2, **options)


def test_other_columns_explain_a_response():
    data = sales().assign(y_lag=lambda d: d["y"].shift().fillna(0), flag_y=lambda d: d["y"] > 0)
    for formula in (
        "y ~ y_lag + x",
        "y ~ lagged(y)",
        "y ~ y.shift().fillna(0)",
        "I(y - x) ~ x",
        "I(y / np.exp(x)) ~ np.exp(x)",
        "y ~ flag_y",
        ["y ~ x", "x ~ y_lag + y"],
    ):
        assert MixReg.from_formula(formula, data, k=2).nobs == len(data)


def test_the_response_is_no_column_of_arrays():
    data = sales()
    with pytest.raises(InputError, match=r"exog has the column 'y', which is the response"):
        MixReg(data["y"], data[["x", "y"]], k=2)
    assert MixReg(data["y"], data[["x"]].rename(columns={"x": "y"}), k=2).nobs == len(data)


def test_an_answer_in_words_is_refused_with_the_line_that_takes_it():
    data = sales()
    with pytest.raises(
        InputError, match=r"not numeric.*write the formula as \"I\(1 \* \(said"
    ) as e:
        MixReg.from_formula("said ~ x", data, k=2, family="binomial")
    line = str(e.value).split('"')[1]
    res = MixReg.from_formula(line, data, k=2, family="binomial", groups="shop").fit()
    same = MixReg.from_formula("bought ~ x", data, k=2, family="binomial", groups="shop").fit()
    assert_allclose(res.llf, same.llf)
    assert_frame_equal(res.assign(data), same.assign(data))


def test_an_answer_of_three_words_has_no_such_line():
    with pytest.raises(InputError, match=r"'region' is not numeric.*recode it as one number"):
        MixReg.from_formula("region ~ x", sales(), k=2)


# Formulas


@pytest.mark.parametrize(
    ("formula", "match"),
    [
        ("y ~ class", r"'class', which is no Python name; write Q\('class'\)"),
        ("y ~ x + my age", r"'my age', which is no Python name; write Q\('my age'\)"),
        ("my age ~ x", r"write Q\('my age'\)"),
        ("y ~ .", "'.', which stands for all other columns in R.*name the columns"),
        ("y ~ x | shop", "groups='shop'"),
        ("y ~ x +", r"expected a noun.*Q\('name'\)"),
        ("y ~ np.log(price)", r"'np.log\(price\)' takes numbers of a column that holds text"),
        ("y ~ np.log(region)", "holds text.*pd.to_numeric"),
    ],
)
def test_a_formula_that_cannot_be_read_says_what_to_write(formula, match):
    with pytest.raises(InputError, match=match):
        MixReg.from_formula(formula, sales(), k=2)


def test_concomitants_say_the_same():
    with pytest.raises(InputError, match=r"write Q\('class'\)"):
        MixReg.from_formula("y ~ x", sales(), k=2, concomitant="~ class")
    with pytest.raises(InputError, match="column 'day' holds dates"):
        MixReg.from_formula("y ~ x", sales(), k=2, concomitant="~ day")


def test_what_is_said_to_be_written_works():
    model = MixReg.from_formula("y ~ Q('class') + Q(\"my age\")", sales(), k=2)
    assert model.exog_names == ["Intercept", "Q('class')", 'Q("my age")']


# Columns that are neither numbers nor categories


@pytest.mark.parametrize(
    ("formula", "match"),
    [
        ("y ~ day", r"column 'day' holds dates.*\.dt\.days.*write C\(day\)"),
        ("y ~ x:day", "column 'day' holds dates"),
        ("day ~ x", "column 'day' holds dates"),
        ("y ~ Q('took')", "column 'took' holds durations.*total_seconds"),
        ("y ~ wave", r"column 'wave' holds complex numbers.*np\.real\(wave\)"),
    ],
)
@pytest.mark.parametrize("table", ["pandas", "objects", "zones"])
def test_dates_durations_and_complex_numbers_are_refused(formula, match, table):
    data = sales()
    if table == "objects":
        data = data.astype({"day": object, "took": object, "wave": object})
    elif table == "zones":
        data["day"] = data["day"].dt.tz_localize("Europe/Vienna")
    with pytest.raises(InputError, match=match):
        MixReg.from_formula(formula, data, k=2)


def test_dates_of_other_kinds_are_refused():
    data = sales()
    for days in (data["day"].dt.date, data["day"].dt.to_period("M")):
        with pytest.raises(InputError, match="column 'day' holds dates"):
            MixReg.from_formula("y ~ day", data.assign(day=days), k=2)
    assert isinstance(data["day"].dt.date.iloc[0], datetime.date)
    frame = pl.from_pandas(data[["y", "day"]])
    with pytest.raises(InputError, match="column 'day' holds dates"):
        MixReg.from_formula("y ~ day", frame, k=2)


def test_dates_in_files_are_refused(tmp_path):
    path = tmp_path / "sales.parquet"
    sales()[["x", "y", "day"]].to_parquet(path)
    with pytest.raises(InputError, match="column 'day' holds dates"):
        MixReg.from_formula("y ~ day", path, k=2)
    with pytest.raises(InputError, match="column 'day' holds dates"):
        MixReg.from_formula("y ~ x", path, k=2, concomitant="~ day")


def test_what_is_made_of_dates_is_taken():
    data = sales()
    model = MixReg.from_formula("y ~ x + day.dt.day + np.real(wave)", data, k=2)
    assert len(model.exog_names) == 4
    month = pd.to_datetime({"year": 2024, "month": data["day"].dt.month, "day": 1})
    model = MixReg.from_formula("y ~ x + C(month)", data.assign(month=month), k=2)
    assert len(model.exog_names) > 3


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_texts_of_arrow_are_categories(kind):
    data = sales()
    arrow = data.assign(region=data["region"].astype(pd.ArrowDtype(kind)))
    terms = MixReg.from_formula("y ~ region", arrow, k=2).exog_names
    assert len(terms) == 3
    assert set(terms[1:]) < {f"region[T.{each}]" for each in ("north", "south", "west")}


# Numbers that are texts


def test_numbers_in_words_are_warned_of():
    data = sales(480)
    with pytest.warns(InputWarning, match=r"'price' is text.*\d+ levels.*like numbers.*'\$") as w:
        MixReg.from_formula("y ~ price", data, k=1)
    assert w[0].filename == __file__


@pytest.mark.parametrize(
    "form", ["{:.2f}", "{:.0f} €", "USD {:.2f}", "{:,.1f}", "-{:.1f}", "{:.1f}%"]
)
def test_numbers_of_other_forms_are_warned_of(form):
    values = 1000 * np.random.default_rng(1).random(240)
    data = sales().assign(price=[form.format(value) for value in values])
    data.loc[7, "price"] = "n.a."
    with pytest.warns(InputWarning, match=r"like numbers .*and 'n\.a\.'"):
        MixReg.from_formula("y ~ price", data, k=1)


def test_names_and_categories_are_not_warned_of():
    data = sales()
    names = [f"shop {i}" for i in data["shop"]]
    MixReg.from_formula("y ~ name", data.assign(name=names), k=1)
    few = (data["shop"] % 4).astype(str)
    MixReg.from_formula("y ~ C(few)", data.assign(few=few), k=1)
    MixReg.from_formula("y ~ few", data.assign(few=few.astype("category")), k=1)
    MixReg.from_formula("y ~ few", data.assign(few="wave " + few), k=1)
    MixReg.from_formula("y ~ C(price)", data.assign(price=data["shop"].astype(str)), k=1)


@pytest.mark.parametrize("odd", [None, "?", "10+"])
@pytest.mark.parametrize("role", ["regressor", "concomitant", "file"])
def test_few_numbers_that_are_texts_are_warned_of(odd, role, tmp_path):
    data = sales()
    data = data.assign(few=(data["shop"] % 4).astype(str))
    if odd is not None:
        data.loc[data["few"] == "2", "few"] = odd
    formula, options = "y ~ few", {"k": 1}
    if role == "concomitant":
        formula, options = "y ~ x", {"k": 2, "concomitant": "~ few"}
    elif role == "file":
        data[["y", "few"]].to_parquet(tmp_path / "few.parquet")
        data = tmp_path / "few.parquet"
    with pytest.warns(InputWarning, match="'few' is text, so it becomes a category with 4 levels"):
        MixReg.from_formula(formula, data, **options)


def test_numbers_in_words_in_files_are_warned_of(tmp_path):
    path = tmp_path / "sales.csv"
    sales(480)[["y", "price"]].to_csv(path, index=False)
    with pytest.warns(InputWarning, match="'price' is text"):
        MixReg.from_formula("y ~ price", path, k=1)


# Levels that no row has


def test_levels_that_a_subset_empties_are_dropped_with_a_note():
    data = sales().astype({"region": "category"})
    res = MixReg.from_formula("y ~ x + region", data, k=2, subset="region != 'west'").fit()
    assert list(res.coefficients.index) == ["Intercept", "region[T.south]", "x"]
    assert "Levels of region that no row has were dropped: west." in str(res.summary())
    words = data.astype({"region": object})
    same = MixReg.from_formula("y ~ x + region", words, k=2, subset="region != 'west'").fit()
    assert_allclose(res.llf, same.llf)
    assert "dropped" not in str(same.summary())
    # New rows declare the level, and may lack it.
    new = data[data["region"] != "west"]
    assert_series_equal(res.predict(new), same.predict(new))
    with pytest.raises(InputError, match=r"levels of column 'region' that .* had not: 'west'"):
        res.predict(data)


def test_levels_that_are_left_keep_their_order():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.standard_normal(60), "c": rng.choice(list("abc"), 60)})
    data["y"] = data["x"] + rng.standard_normal(60)
    data["own"] = pd.Categorical(data["c"], categories=list("cabz"))
    terms = MixReg.from_formula("y ~ own", data, k=1).design.terms
    assert terms == ("Intercept", "own[T.a]", "own[T.b]")
    terms = MixReg.from_formula("y ~ own", data, k=1, subset="c != 'a'").design.terms
    assert terms == ("Intercept", "own[T.b]")


def test_levels_that_missing_values_empty_are_dropped(tmp_path):
    data = sales().astype({"region": "category"})
    data["x"] = data["x"].mask(data["region"] == "north")
    res = MixReg.from_formula("y ~ x + region", data, k=2, concomitant="~ region").fit()
    assert list(res.coefficients.index) == ["Intercept", "region[T.west]", "x"]
    assert list(res.gate.index) == ["Intercept", "region[T.west]"]
    assert str(res.summary()).count("were dropped: north.") == 1
    res.save(tmp_path / "fit")
    again = mixreg.load(tmp_path / "fit")
    assert str(again.summary()) == str(res.summary())
    new = data.dropna()
    assert_series_equal(again.predict(new), res.predict(new))


def test_levels_in_another_order_are_the_same_levels():
    data = sales().astype({"region": "category"})
    res = MixReg.from_formula("y ~ x + region", data, k=2).fit(n_init=2)
    other = data["region"].cat.reorder_categories(["west", "south", "north"])
    assert_series_equal(res.predict(data.assign(region=other)), res.predict(data))


# Names of columns


def test_groups_may_name_a_level_of_the_index():
    data = sales()
    want = MixReg.from_formula("y ~ x", data, k=2, groups="shop").fit()
    for indexed in (data.set_index("shop"), data.set_index(["shop", "region"])):
        res = MixReg.from_formula("y ~ x", indexed, k=2, groups="shop").fit()
        assert_frame_equal(res.group_posterior, want.group_posterior)
        assert_allclose(res.predict(indexed, "posterior"), want.predict(data, "posterior"))
        unseen = indexed[["x"]]
        assert_allclose(res.predict(unseen, "posterior"), want.predict(data, "posterior"))
    with pytest.raises(InputError, match="groups='store' is not a column"):
        MixReg.from_formula("y ~ x", data.set_index("shop"), k=2, groups="store")


@pytest.mark.parametrize("make", [lambda data: data, pl.from_pandas, pa.Table.from_pandas])
def test_clusters_may_name_a_column(make):
    data = sales().drop(columns="wave")
    table = make(data)
    want = MixReg.from_formula("y ~ x", data, k=2).fit(
        cov_type="cluster", cov_kwds={"groups": data["shop"]}
    )
    model = MixReg.from_formula("y ~ x", table, k=2)
    res = model.fit(cov_type="cluster", cov_kwds={"groups": "shop"})
    assert_series_equal(res.bse, want.bse)
    with pytest.raises(InputError, match=r"cov_kwds\['groups'\]='store' is not a column of data"):
        model.fit(cov_type="cluster", cov_kwds={"groups": "store"})
    pickle.loads(pickle.dumps(res)).summary()


def test_clusters_by_name_follow_the_subset_and_missing_values():
    data = sales()
    data.loc[3:9, "x"] = np.nan
    chosen = data["region"] != "west"
    model = MixReg.from_formula("y ~ x", data, k=2, subset="region != 'west'")
    res = model.fit(cov_type="cluster", cov_kwds={"groups": "shop"})
    few = data[chosen]
    want = MixReg.from_formula("y ~ x", few, k=2).fit(
        cov_type="cluster", cov_kwds={"groups": few["shop"]}
    )
    assert_series_equal(res.bse, want.bse)


def test_clusters_by_name_need_the_table():
    model = MixReg.from_formula("y ~ x", sales(), k=2)
    with pytest.raises(InputError, match=r"'shop' names a column, but the table.*data\['shop'\]"):
        model.fit(cov_type="cluster", cov_kwds={"groups": "shop"})


# Where arguments belong


@pytest.mark.parametrize("name", ["weights", "groups", "family", "subset", "k"])
def test_what_belongs_to_the_model_is_told(name):
    model = MixReg.from_formula("y ~ x", sales(), k=2)
    with pytest.raises(TypeError, match=rf"{name}= belongs to the model: MixReg.from_formula\("):
        model.fit(**{name: "shop"})
    with pytest.raises(TypeError, match="did you mean 'n_init'"):
        model.fit(n_int=3)


# Starts


@pytest.mark.parametrize("method", ["em", "altmin", "vb"])
def test_random_starts_are_as_many_as_asked_for(method, monkeypatch):
    model = MixReg.from_formula("y ~ x1 + x2", lines(120), k=3)
    kept, made = solving._given_starts, []

    def counted(*arguments):
        tensors, starts = kept(*arguments)
        made.append(len(starts))
        return tensors, starts

    monkeypatch.setattr(solving, "_given_starts", counted)
    one = model.fit(method, init="random", seed=3)
    many = model.fit(method, init="random", n_init=8, seed=3)
    assert made == [1, 8]
    value = "elbo" if method == "vb" else "llf"
    assert getattr(many, value) >= getattr(one, value) - 1e-6


def test_clusters_of_rows_in_files_say_what_there_is(tmp_path):
    data = lines(120).assign(shop=np.repeat(np.arange(30), 4))
    data.to_parquet(tmp_path / "rows.parquet")
    far = MixReg.from_formula("y ~ x1", tmp_path / "rows.parquet", k=2, groups="shop")
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": "shop"}}
    with pytest.raises(NotAvailableError, match="groups='shop', cov_type='robust' sums over"):
        far.fit(**clusters)
    near = MixReg.from_formula("y ~ x1", data, k=2, groups="shop")
    more = np.sqrt(30 / 29)
    assert_allclose(near.fit(**clusters).bse, more * far.fit(cov_type="robust").bse, rtol=1e-4)


def test_random_starts_are_kept_account_of():
    model = MixReg.from_formula("y ~ x1 + x2", lines(120), k=3)
    res = model.fit(init="random", n_init=8, seed=3)
    search = res.diagnostics.search
    assert search.starts == 8 == sum(search.hits)
    assert search.levels == (120,)
    assert 0 < search.chance < 1
    assert_allclose(search.heights[0], res.llf, atol=1e-3)
    assert f"{search.hits[0]} of 8 starts" in str(res.summary())
    assert res.plot_search().get_ylabel() == "of 8 starts"
    again = model.fit(init=res.coefficients)
    assert again.diagnostics.search is None
    for other in (again, model.fit("altmin", init="random", n_init=3)):
        with pytest.raises(NotAvailableError, match="no record of a search: it had one start, or"):
            other.plot_search()
        assert "There was no search: the fit began at one" in str(other.diagnostics)


def test_more_random_starts_find_more():
    data = sales(48, seed=1)
    rng = np.random.default_rng(0)
    data["u"] = rng.choice([-1, 0, 1], 48)
    model = MixReg.from_formula("y ~ x + u", data, k=4, equal_variance=True)
    alone = [model.fit(init="random", seed=seed).llf for seed in range(6)]
    together = [model.fit(init="random", n_init=12, seed=seed).llf for seed in range(3)]
    assert min(together) > min(alone) + 0.1
    assert min(together) >= np.median(alone) - 1e-6


# Summaries


def test_latex_has_the_titles_of_the_sections():
    data = sales().assign(a_b=lambda d: d["class"])
    res = MixReg.from_formula("y ~ x + a_b", data, k=2, groups="shop").fit()
    latex = res.summary().as_latex()
    titles = [
        "Mixture of Linear Regressions",
        "Mixing weights; rows and groups assigned",
        "Component 1",
        "Component 2",
    ]
    places = [latex.index(rf"\textbf{{{title}}}" + "\n\n") for title in titles]
    assert places == sorted(places)
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 4
    assert r"a\_b" in latex
    assert "Notes:" in latex
    assert res.summary()._repr_latex_() == latex


def test_columns_of_statsmodels_take_our_results():
    data = sales()
    fits = [MixReg.from_formula("y ~ x", data, k=k).fit(n_init=2) for k in (1, 2)]
    text = str(summary_col(fits, stars=True, model_names=["one", "two"]))
    for name in ("x[1]", "x[2]", "log(sigma)[2]", "one", "two"):
        assert name in text
    assert f"{fits[1].params['x[2]']:.4f}" in text


# New data


def test_new_data_may_be_files(tmp_path):
    data = sales().drop(columns="wave")
    res = MixReg.from_formula("y ~ x", data, k=2, groups="shop").fit()
    for name in ("new.csv", "new.parquet", "new.feather"):
        path = tmp_path / name
        getattr(data, f"to_{path.suffix[1:]}")(path, **({"index": False} if ".csv" in name else {}))
        assert_series_equal(res.predict(path), res.predict(data))
        assert_series_equal(res.predict(str(path), "label"), res.predict(data, "label"))
        assert_frame_equal(res.assign(path), res.assign(data))
    few = ["my age", "region"]
    want = res.profile(data[few])
    data[few].to_parquet(tmp_path / "who.parquet")
    assert_frame_equal(res.profile(tmp_path / "who.parquet").table, want.table)
    by_shop = data.groupby("shop", as_index=False)["my age"].mean()
    by_shop.to_csv(tmp_path / "shops.csv", index=False)
    want = res.profile(by_shop.set_index("shop"))
    assert_allclose(res.profile(tmp_path / "shops.csv").table, want.table)
    with pytest.raises(InputError, match=r"data='.*none.csv' does not exist"):
        res.predict(tmp_path / "none.csv")
    with pytest.raises(InputError, match="does not exist"):
        res.profile("none.csv")
    with pytest.raises(InputError, match=r"write predict\(which='label'\)"):
        res.predict("label")


def test_what_shifts_means_is_not_made_up():
    data = sales()
    data["hours"] = np.random.default_rng(0).uniform(1, 5, len(data))
    data["count"] = np.random.default_rng(1).poisson(data["hours"] * np.exp(0.5 * data["x"]))
    model = MixReg.from_formula("count ~ x", data, k=2, family="poisson", exposure="hours")
    res = model.fit(n_init=2)
    lacking = data.drop(columns="hours")
    for call in (res.predict, res.assign):
        with pytest.raises(InputError, match="'hours' as exposure, and new data have none"):
            call(lacking)
    assert_allclose(res.predict(lacking, exposure=1), res.predict(data) / data["hours"])


def test_concomitants_are_not_made_up():
    data = sales()
    res = MixReg.from_formula("y ~ x", data, k=2, concomitant="~ Q('class')").fit(n_init=2)
    lacking = data.drop(columns="class")
    for call in (res.predict, res.assign):
        with pytest.raises(InputError, match="new data lack the concomitant class"):
            call(lacking)
    assert len(res.assign(lacking, concomitant="average")) == len(data)


def test_labels_without_rows_say_what_is_needed(tmp_path):
    res = MixReg.from_formula("y ~ x", sales(), k=2).fit(n_init=2)
    res.save(tmp_path / "fit")
    with pytest.raises(
        NotAvailableError, match=r"write_labels needs the rows.*res\.assign\(data\)"
    ):
        mixreg.load(tmp_path / "fit").write_labels(tmp_path / "labels.csv")


# Files


def test_a_file_with_other_separators_is_named(tmp_path):
    data = sales()[["x", "y", "said"]]
    path = tmp_path / "sales.csv"
    data.to_csv(path, sep=";", index=False)
    with pytest.raises(InputError, match=r"sales.csv' has ';' between its columns.*sep=';'\)"):
        MixReg.from_formula("y ~ x", path, k=2)
    data.to_csv(path, sep=";", decimal=",", index=False)
    with pytest.raises(InputError, match=r"sep=';', decimal=','\)"):
        MixReg.from_formula("y ~ x", path, k=2)
    data.to_csv(path, sep="\t", index=False)
    with pytest.raises(InputError, match=r"sep='\\t'\)"):
        MixReg.from_formula("y ~ x", path, k=2)
    tabs = tmp_path / "sales.tsv"
    data.to_csv(tabs, index=False)
    with pytest.raises(InputError, match=r"sales.tsv' has ',' between its columns"):
        MixReg.from_formula("y ~ x", tabs, k=2)
    data.to_csv(tabs, sep="\t", index=False)
    assert MixReg.from_formula("y ~ x", tabs, k=2).nobs == len(data)
    # A sign in a name is no separator.
    data.rename(columns={"said": "said;or not"}).to_csv(path, index=False)
    assert MixReg.from_formula("y ~ x", path, k=2).nobs == len(data)


@pytest.mark.parametrize(
    ("encoding", "column", "match"),
    [
        ("cp1252", "said", r"column 'said' is no UTF-8 text.*encoding='cp1252'\)"),
        ("cp1252", "größe", r"first line is no UTF-8 text.*encoding='cp1252'\)"),
        ("utf-16", "said", r"it is UTF-16 text.*encoding='utf-16'\)"),
    ],
)
def test_a_file_of_another_encoding_is_named(tmp_path, encoding, column, match):
    data = sales()[["x", "y", "said"]].rename(columns={"said": column})
    data[column] = data[column].replace("yes", "früh")
    path = tmp_path / "sales.csv"
    data.to_csv(path, index=False, encoding=encoding)
    with pytest.raises(InputError, match=rf"sales.csv' cannot be read: .*{match}"):
        MixReg.from_formula(f"y ~ x + {column}", path, k=2)
    again = pd.read_csv(path, encoding=encoding)
    assert MixReg.from_formula(f"y ~ x + {column}", again, k=2).nobs == len(data)


def test_a_query_of_a_file_that_is_not_there(tmp_path):
    for scan, name in ((pl.scan_parquet, "no.parquet"), (pl.scan_csv, "no.csv")):
        with pytest.raises(InputError, match=f"cannot be read: .*{name}"):
            MixReg.from_formula("y ~ x", scan(tmp_path / name), k=2)
        with pytest.raises(InputError, match=f"cannot be read: .*{name}"):
            MixReg.from_formula("y ~ x", scan(tmp_path / name), k=2, scratch=tmp_path)


# What speaks against a fit


@pytest.mark.parametrize("suspects", [(), (1,), (0, 1)])
def test_many_doubts_are_one_note(suspects):
    res = MixReg.from_formula("y ~ x", sales(), k=2).fit(n_init=2)
    assert not res.fitted.suspects
    object.__setattr__(res.fitted, "suspects", suspects)
    text = " ".join(str(res.summary()).split())
    assert text.count("hance may explain") == (1 if suspects else 0)
    named = {(): "", (1,): "Component 2 ", (0, 1): "Components 1 and 2 "}[suspects]
    assert named in text


def test_a_choice_of_k_says_what_was_passed_over(monkeypatch):
    selection = select_k("y ~ x", sales(), k=[1, 2, 3], n_init=2)
    assert selection.best_k == 2
    assert str(selection).splitlines()[0] == "k = 2 by BIC"
    assert selection.passed_over == []
    fitted = selection.results[2].fitted
    object.__setattr__(fitted, "suspects", (1,))
    best = selection.best_k
    assert best != 2
    first = str(selection).splitlines()[0]
    assert first.startswith(f"k = {best} by BIC among sound fits; passed over")
    assert "k = 2: component 2 may be chance" in first
    assert "passed over" in selection._repr_html_()


# Market research


def conjoint(seed: int = 0) -> pd.DataFrame:
    """Choices of 80 people from sets of three, with fees in three levels."""
    rng = np.random.default_rng(seed)
    people, sets, size = 80, 8, 3
    n = people * sets * size
    data = pd.DataFrame(
        {
            "id": np.repeat(np.arange(people), sets * size),
            "task": np.repeat(np.arange(people * sets), size),
            "fee": rng.choice(["high", "low", "med"], n),
            "price": rng.uniform(1, 5, n),
            "brand": rng.choice(["a", "b"], n),
        }
    )
    data["Med_Fee"] = (data["fee"] == "med").astype(float)
    data["Low_Fee"] = (data["fee"] == "low").astype(float)
    data["income"] = rng.uniform(1, 3, people)[data["id"]]
    kind = np.arange(people)[data["id"]] % 2
    utility = 2.0 * data["Low_Fee"] + data["Med_Fee"] - np.where(kind, 1.5, 0.3) * data["price"]
    utility += np.where(kind, 0.0, 1.0) * (data["brand"] == "b") + rng.gumbel(size=n)
    data["chosen"] = (utility == utility.groupby(data["task"]).transform("max")).astype(int)
    return data


CHOICE = {"k": 2, "family": "choice", "choice_set": "task", "groups": "id"}


def test_dummies_can_be_told_to_be_one_attribute():
    data = conjoint()
    dummies = MixReg.from_formula("chosen ~ Med_Fee + Low_Fee + price + brand", data, **CHOICE)
    coded = MixReg.from_formula("chosen ~ C(fee) + price + brand", data, **CHOICE).fit()
    res = dummies.fit()
    want = coded.importance()
    assert set(want.index) == {"C(fee)", "price", "brand"}
    found = res.importance({"fee": ["Med_Fee", "Low_Fee"]})
    assert set(found.index) == {"fee", "price", "brand"}
    found = found.rename(index={"fee": "C(fee)"}).loc[want.index]
    assert_frame_equal(found, want, rtol=1e-4)
    assert set(res.importance().index) == {"Med_Fee", "Low_Fee", "price", "brand"}
    with pytest.raises(InputError, match="names 'Fee', which is not a main effect"):
        res.importance({"fee": ["Fee"]})
    with pytest.raises(InputError, match="'Med_Fee', which is in two attributes"):
        res.importance({"fee": ["Med_Fee"], "cost": ["Med_Fee"]})
    with pytest.raises(InputError, match="must be a list of terms"):
        res.importance({"fee": "Med_Fee"})
    with pytest.raises(InputError, match="'price', which is a term of its own"):
        res.importance({"price": ["Med_Fee", "Low_Fee"]})


@pytest.mark.parametrize("formula", ["C(brand) * income", "brand * income", "price * income"])
def test_main_effects_of_the_chooser_are_told_apart(formula):
    with pytest.raises(InputError, match=r"income does not vary.*use ':' and not '\*'") as e:
        MixReg.from_formula(f"chosen ~ {formula}", conjoint(), **CHOICE)
    line = str(e.value).split('"')[1]
    assert len(MixReg.from_formula(f"chosen ~ {line}", conjoint(), **CHOICE).exog_names) == 2


def test_what_does_not_vary_within_choices_is_told():
    with pytest.raises(InputError, match="make it a concomitant, or let it interact"):
        MixReg.from_formula("chosen ~ price + income", conjoint(), **CHOICE)


def test_a_price_that_nobody_minds_is_told():
    data = conjoint()
    data["gift"] = -data["price"]
    res = MixReg.from_formula("chosen ~ gift + Low_Fee", data, **CHOICE).fit()
    with pytest.warns(
        InterpretationWarning, match=r"the coefficient of gift is .* in component \d"
    ):
        res.wtp("gift")


def test_a_separated_component_has_no_willingness_to_pay():
    data = conjoint()
    # Half of the people always take the cheapest.
    half = data["id"] % 2 == 0
    cheapest = data["price"] == data.groupby("task")["price"].transform("min")
    data["chosen"] = np.where(half, cheapest, data["chosen"]).astype(int)
    res = MixReg.from_formula("chosen ~ price + Low_Fee", data, **CHOICE).fit()
    (gone,) = res.fitted.estimate.separated
    with pytest.warns(InterpretationWarning, match=f"component {gone + 1} is separated"):
        table = res.wtp("price")
    assert np.isinf(table.loc[gone + 1, "std err"]).all()
    assert table.drop(index=gone + 1).notna().all(axis=None)
    assert f"Component {gone + 1} is separated" in str(res.summary())


def test_a_component_that_is_nobodys_most_likely_one_is_told():
    rng = np.random.default_rng(2)
    n = 4000
    wide = rng.random(n) < 0.15
    y = np.where(wide, 0.9, 0.0) + rng.standard_normal(n)
    data = pd.DataFrame({"y": y})
    start = pd.DataFrame({1: [0.0], 2: [0.9]}, index=["Intercept"])
    res = MixReg.from_formula("y ~ 1", data, k=2, equal_variance=True).fit(init=start)
    assert res.fitted.tally.units.tolist() == [n, 0]
    text = " ".join(str(res.summary()).split())
    assert "Component 2 is no row's most likely one, though its weight is 0.021" in text


# Names that are nearly right


@pytest.mark.parametrize("kind", ["frame", "parquet", "csv"])
@pytest.mark.parametrize(
    ("formula", "declared", "meant"),
    [
        ("y ~ Regoin", {}, "region"),
        ("y ~ x", {"groups": "shopp"}, "shop"),
        ("y ~ x", {"concomitant": "~ regio"}, "region"),
        ("y ~ x", {"weights": "X"}, "x"),
    ],
)
def test_a_misspelt_column_is_answered_with_the_nearest(tmp_path, kind, formula, declared, meant):
    data = sales()[["x", "y", "shop", "region"]]
    path = str(tmp_path / f"sales.{kind}")
    if kind == "parquet":
        data.to_parquet(path)
    elif kind == "csv":
        data.to_csv(path, index=False)
    with pytest.raises(InputError, match=f"is not a column of .*; did you mean '{meant}'"):
        MixReg.from_formula(formula, data if kind == "frame" else path, k=2, **declared)


def test_a_name_like_no_other_is_answered_with_the_columns():
    data = sales()[["x", "y", "shop"]]
    with pytest.raises(InputError, match=r"columns are x, y, shop; if it is a function .* import"):
        MixReg.from_formula("y ~ quantity", data, k=2)


def test_the_command_line_suggests_a_column_too(tmp_path, capsys):
    path = tmp_path / "sales.csv"
    sales()[["x", "y", "region"]].to_csv(path, index=False)
    assert main(["fit", str(path), "y ~ regoin", "-k", "2"]) == 2
    assert "did you mean 'region'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("formula", "advice"),
    [
        ("log(y) ~ x", "names 'log', which is not a column of data; write np.log(y), after"),
        ("y ~ x + sqrt(x)", "names 'sqrt', .*; write np.sqrt(x), after 'import numpy as np'"),
        ("y ~ log(exp(x) + 1)", "; write np.log(np.exp(x) + 1), after"),
        ("y ~ lag(x)", "names 'lag', .*; columns are .*import it where the formula is written"),
    ],
)
@pytest.mark.parametrize("kind", ["frame", "file"])
def test_functions_as_r_has_them_are_answered_with_numpys(tmp_path, kind, formula, advice):
    data = sales()[["x", "y", "region"]]
    data.to_parquet(tmp_path / "sales.parquet")
    given = data if kind == "frame" else tmp_path / "sales.parquet"
    wanted = advice.replace("(", r"\(").replace(")", r"\)").replace("+", r"\+")
    with pytest.raises(InputError, match=wanted):
        MixReg.from_formula(formula, given, k=2)


@pytest.mark.parametrize("name", ["log", "abs"])
def test_the_command_line_writes_numpys_functions_too(tmp_path, capsys, name):
    path = tmp_path / "sales.csv"
    sales()[["x", "y"]].to_csv(path, index=False)
    assert main(["fit", str(path), f"{name}(y) ~ x", "-k", "2"]) == 2
    assert f"the formula has '{name}', which is numpy's; write np.{name}(y)" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, np.asarray])
def test_data_before_the_formula_are_not_printed(kind):
    data = kind(sales()[["x", "y"]])
    with pytest.raises(InputError, match=r"got a \w+; the formula comes before the data$"):
        MixReg.from_formula(data, "y ~ x", k=2)


# Logarithms of what has none


@pytest.mark.parametrize("kind", ["frame", "file"])
@pytest.mark.parametrize(
    ("formula", "declared", "what"),
    [
        ("y ~ np.log(sold)", {}, "column"),
        ("np.log(sold) ~ x", {}, "the response"),
        ("y ~ x", {"concomitant": "~ np.log(sold)"}, "concomitant"),
    ],
)
def test_a_logarithm_of_zero_is_told_once_and_counted(tmp_path, kind, formula, declared, what):
    # Warnings are errors here, so numpy's own would be seen.
    data = sales()[["x", "y"]].assign(sold=np.arange(240) % 40)
    data.to_parquet(tmp_path / "sales.parquet")
    given = data if kind == "frame" else tmp_path / "sales.parquet"
    wanted = rf"^{what} np.log\(sold\) is infinite in row 0 and 5 more of 240"
    with pytest.raises(InputError, match=wanted):
        MixReg.from_formula(formula, given, k=2, **declared)


def test_zeros_beside_negative_numbers_are_told_once():
    data = sales()[["x", "y"]].assign(sold=np.arange(240.0) - 3)
    with pytest.raises(InputError, match=r"column np.log\(sold\) is infinite in row 3 \(log"):
        MixReg.from_formula("y ~ np.log(sold)", data, k=2)


@pytest.mark.parametrize(
    ("formula", "gate"), [("y ~ np.log(sold)", None), ("y ~ x", "~ np.log(sold)")]
)
@pytest.mark.parametrize("place", ["memory", "file"])
def test_a_logarithm_of_negative_numbers_is_missing_and_told(formula, gate, place, tmp_path):
    data = sales()[["x", "y"]].assign(sold=np.arange(240.0) - 3.5)
    if place == "file":
        data.to_parquet(tmp_path / "sales.parquet")
        data = str(tmp_path / "sales.parquet")
    with pytest.warns(
        InputWarning, match="no value in some rows, as with the logarithm of a neg"
    ) as told:
        model = MixReg.from_formula(formula, data, k=2, concomitant=gate)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert model.nobs == 236


# Dates as text


@pytest.mark.parametrize("tail", ["", " 12:00:00", "T12:00:00Z"])
def test_dates_that_are_text_are_told(tail):
    data = sales().assign(week=lambda d: d["day"].dt.to_period("W").dt.start_time)
    data["week"] = data["week"].dt.strftime("%Y-%m-%d") + tail
    with pytest.warns(InputWarning, match=r"'week' is text, .* 35 levels, .*like dates .* C\(week"):
        MixReg.from_formula("y ~ x + week", data, k=1)


def test_dates_that_are_meant_as_categories_pass():
    data = sales().assign(wave=np.tile(["2024-01-01", "2024-06-01", "2025-01-01"], 80))
    MixReg.from_formula("y ~ x + wave", data, k=1)
    data["week"] = data["day"].dt.to_period("M").astype(str) + "-01"
    MixReg.from_formula("y ~ x + C(week)", data, k=1)
    MixReg.from_formula("y ~ x + code", data.assign(code="A" + data["week"]), k=1)


# What a fit says of itself


def test_one_component_is_not_told_to_be_too_many():
    data = pd.DataFrame({"x": np.arange(40.0), "won": np.arange(40) >= 20})
    res = MixReg.from_formula("won ~ x", data, k=1, family="binomial").fit()
    text = " ".join(str(res.summary()).split())
    assert "is separated" in text
    assert "k may be" not in text
    assert "smaller k" not in text


@pytest.mark.parametrize(
    ("hits", "chance", "cell", "told"),
    [
        ((0, 4), 0.382, "moves, 0 of 16", True),
        ((3, 4), 0.3, "3 of 16 starts", True),
        ((0, 9), 0.05, "moves, 0 of 16", False),
    ],
)
def test_a_search_in_doubt_says_what_to_do(hits, chance, cell, told):
    res = MixReg.from_formula("y ~ x", sales(), k=2, groups="shop").fit()
    search = replace(res.fitted.search, starts=16, hits=hits, chance=chance)
    res.fitted = replace(res.fitted, search=search)
    summary = str(res.summary())
    assert cell in summary
    assert len({len(line) for line in summary.splitlines() if line.startswith("===")}) == 1
    note = f"One more start might find a better maximum (chance {chance:.0%}): fit again with a"
    assert (note in " ".join(summary.split())) == told


@pytest.mark.parametrize("formula", ["chosen ~ 0 + brand + price", "chosen ~ price + C(brand) - 1"])
def test_choices_with_a_column_for_each_level_are_told_to_drop_the_zero(formula):
    data = conjoint()
    data["brand"] = np.resize(["a", "b", "c", "b", "a"], len(data))
    wanted = r"brand\)? has a column for each of its 3 levels.*Drop '0 \+'"
    with pytest.raises(InputError, match=wanted):
        MixReg.from_formula(formula, data, **CHOICE)
    MixReg.from_formula("chosen ~ brand + price", data, **CHOICE)


def test_components_are_drawn_over_a_variable_that_one_term_has():
    data = sales()
    data["cost"] = np.exp(data["x"])
    res = MixReg.from_formula("y ~ np.log(cost) + region", data, k=2, groups="shop").fit()
    assert res.plot_components("cost").get_xlabel() == "np.log(cost)"
    with pytest.raises(InputError, match=r"'region' stands in several terms; use one of region\[T"):
        res.plot_components("region")
    with pytest.raises(InputError, match=r"term='price' is unknown; terms are Intercept"):
        res.plot_components("price")
