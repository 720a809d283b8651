"""The report: one file that needs nothing else, says what the fit says, and trusts no name.

How it looks, and what axe-core finds, is tested in a browser: `tests/browser/run`.
"""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import mixreg
from mixreg import MixReg, datasets, select_k
from mixreg.errors import InputError
from mixreg.report.html.calls import code_of
from mixreg.report.html.contrasts import contrasts
from mixreg.report.html.effects import effects
from mixreg.report.html.markup import html, tag
from tests.samples import lines

VOID = {"meta", "br", "hr", "link"}


class Page(HTMLParser):
    """Elements, their attributes, and the text of a page; refuses what is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag == name]


def written(res, tmp_path, *args, **options) -> Page:
    path = tmp_path / "report.html"
    assert res.report(path, *args, **options) is None
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    check(page, text)
    return page


def check(page: Page, text: str) -> None:
    """What must hold of every report."""
    assert text.startswith("<!DOCTYPE html>")
    assert not {name for name, _ in page.found} & {"script", "iframe", "object", "link", "img"}
    ids = [given["id"] for _, given in page.found if "id" in given]
    assert len(ids) == len(set(ids))
    for name, given in page.found:
        assert not any(key.startswith("on") for key in given), name
        assert "src" not in given
        target = given.get("href") or given.get("xlink:href") or "#"
        assert target.startswith(("#", "data:image/png;base64,"))
        assert target.startswith("data:") or target == "#" or target[1:] in ids
    assert not re.search(r"url\((?!#)", text)
    for url in re.findall(r"url\(#([^)]*)\)", text):
        assert url in ids
    pictures = page.tags("svg")
    assert pictures
    assert all(given.get("role") == "img" and given.get("aria-label") for given in pictures)


@pytest.fixture(scope="module")
def tone():
    return datasets.tonedata()


@pytest.fixture(scope="module")
def fitted(tone):
    return MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()


@pytest.fixture(scope="module")
def sales():
    """Two kinds of shops: the second minds the price four times as much."""
    rng = np.random.default_rng(5)
    shop = np.repeat(np.arange(40), 12)
    kind = shop % 2
    price, ad = rng.uniform(1, 3, len(shop)), rng.choice(["no", "yes"], len(shop))
    y = 5 - np.array([0.5, 2.0])[kind] * np.log(price) + 0.3 * (ad == "yes")
    volume = np.exp(y + 0.1 * rng.normal(size=len(shop)))
    weight = rng.integers(1, 4, 40)[shop]
    return pd.DataFrame(
        {"volume": volume, "price": price, "ad": ad, "shop": shop, "w": weight, "kind": kind}
    )


@pytest.fixture(scope="module")
def shops(sales):
    formula = "np.log(volume) ~ np.log(price) + ad"
    return MixReg.from_formula(formula, sales, k=2, groups="shop", weights="w").fit()


def test_it_says_what_the_fit_says(fitted, tone, tmp_path):
    page = written(fitted, tmp_path)
    for number in (f"{fitted.bic:,.2f}", f"{fitted.llf:,.2f}", "61%", "39%", "92 rows", "58 rows"):
        assert number.replace("-", "−") in page.text
    for j in (1, 2):
        assert f"{fitted.coefficients.loc['stretchratio', j]:.3g} more tuned" in page.text
    assert "in the other segment with" in page.text
    assert "was given to the fit, not chosen" in page.text
    assert f"{fitted.classification().misclassification:.1%} of the rows" in page.text
    assert "tuned ~ stretchratio" in page.text
    # Rows in doubt are named, the most doubtful first.
    top = fitted.posterior.max(axis=1)
    assert f"Most in doubt rows Likeliest Probability Next Probability {top.idxmin()} " in page.text


def test_elasticities_are_told_in_percent_and_segments_compared(shops, tmp_path):
    page = written(shops, tmp_path)
    steep = int(shops.coefficients.loc["np.log(price)"].idxmin())
    first = contrasts(shops, steep)[0]
    value, others = shops.coefficients.loc["np.log(price)", [steep, 3 - steep]]
    assert (first.value, first.others) == pytest.approx((value, others))
    difference = shops.t_test(f"np.log(price)[{steep}] - np.log(price)[{3 - steep}]")
    assert first.z == pytest.approx(difference.tvalue.item())
    assert f"Here 1% more price goes with {-value:.3g}% less volume" in page.text
    assert f"in the other segment with {-others:.3g}% less." in page.text
    assert "groups (shop)" in page.text
    assert [effect.kind for effect in effects(shops)] == ["ratio", "ratio", "percent"]
    assert effects(shops)[1].cause == "ad = yes"


def test_coefficients_that_do_not_tell_alone_are_called_coefficients(sales):
    formula = "volume ~ price * ad + I(shop ** 2) + shop + w"
    res = MixReg.from_formula(formula, sales, k=1).fit()
    kinds = dict(zip(res.spec.exog_names, [e.kind for e in effects(res)], strict=True))
    assert {term for term, kind in kinds.items() if kind == "plain"} == {"Intercept", "w"}
    causes = [effect.cause for effect in effects(res)]
    assert "the term price:ad[T.yes]" in causes
    quoted = sales.rename(columns={"price": "a:b", "ad": "the ad"})
    res = MixReg.from_formula("volume ~ Q('a:b') + Q('the ad')", quoted, k=1).fit()
    assert [e.cause for e in effects(res)][1:] == ["the ad = yes", "one more a:b"]


@pytest.mark.parametrize(
    ("term", "cause"),
    [
        ("C(Q('the ad?'))", "the ad? = yes"),
        ('C(Q("the ad?"), Treatment("no"))', "the ad? = yes"),
        ("C(Q('the ad?'), Treatment(reference='no'))", "the ad? = yes"),
        ("Q('the ad?')", "the ad? = yes"),
        ("C(ad, Treatment('no'))", "ad = yes"),
        ("C(ad)", "ad = yes"),
    ],
)
def test_levels_of_categories_are_told_by_name(sales, term, cause):
    data = sales.assign(**{"the ad?": sales["ad"]})
    res = MixReg.from_formula(f"volume ~ {term} + price", data, k=1).fit()
    assert [e.cause for e in effects(res)][1:] == [cause, "one more price"]
    assert {e.kind for e in effects(res)} == {"plain"}


def test_products_of_quoted_names_are_coefficients(sales):
    data = sales.rename(columns={"price": "price (€)", "ad": "ad: tv"})
    formula = "volume ~ Q('price (€)'):C(Q('ad: tv'), Treatment('no'))"
    res = MixReg.from_formula(formula, data, k=1).fit()
    assert [e.kind for e in effects(res)][1:] == ["coefficient"] * 2


def test_dates_are_named_and_left_out(shops, sales, tmp_path):
    data = sales[["shop"]].assign(size=sales["price"], day=pd.Timestamp("2020-01-01"))
    page = written(shops, tmp_path, data)
    assert "Dates are left out: day." in page.text


@pytest.mark.parametrize("where", ["nowhere/report.html", "nowhere/deeper/report.html"])
def test_a_folder_that_is_not_there_is_named(shops, tmp_path, where):
    with pytest.raises(InputError, match=r"there is no folder .*nowhere.*; make it first"):
        shops.report(tmp_path / where)


@pytest.mark.parametrize("path", [None, 3])
def test_a_report_needs_the_name_of_a_file(shops, tmp_path, path):
    with pytest.raises(InputError, match="path must be a name of a file"):
        shops.report(path)
    with pytest.raises(InputError, match=r"is a folder; name a file in it, as 'report\.html'"):
        shops.report(tmp_path)


def test_who_is_in_a_segment_comes_from_the_profile(shops, sales, tmp_path):
    data = sales.groupby("shop")[["kind"]].first()
    data["old"] = np.where(data["kind"] == 1, "old", "new")
    data["chance"] = np.random.default_rng(0).normal(size=len(data))
    page = written(shops, tmp_path, data)
    j = int(shops.group_labels[1])
    here = shops.profile(data).table.loc[("kind", "mean"), j]
    assert f"higher kind: {here:.4g}" in page.text
    assert "more often old = old: 100%" in page.text
    assert "higher chance" not in page.text
    assert "Tests of differences" in page.text


def test_a_selection_says_why_so_many(tmp_path):
    choice = select_k("y ~ x1 + x2", lines(), k=[1, 2, 3])
    page = written(choice.best, tmp_path, selection=choice)
    assert choice.best_k == 2
    assert "Of 1 to 3 segments that were tried, 2 are the choice of BIC" in page.text
    bic = choice.table["bic"]
    assert f"1, the next best, is {bic[1] - bic[2]:,.1f} worse" in page.text
    # Three have a smaller one, but with a segment that chance may explain.
    assert not choice.sound[3]
    assert bic[3] < bic[2]
    assert "k = 3 would have a smaller one, but" in page.text
    other = written(choice.results[3], tmp_path, selection=choice)
    assert "3 were chosen by hand" in other.text


def test_a_selection_of_another_model_is_refused(fitted, tone, tmp_path):
    one = select_k("tuned ~ stretchratio", tone, k=[1])
    with pytest.raises(InputError, match="no fit with k=2; it has k = 1"):
        fitted.report(tmp_path / "a.html", selection=one)
    half = select_k("tuned ~ stretchratio", tone.head(80), k=[2])
    with pytest.raises(InputError, match="of another model or of other rows"):
        fitted.report(tmp_path / "a.html", selection=half)
    with pytest.raises(InputError, match="what select_k returned; got DataFrame"):
        fitted.report(tmp_path / "a.html", selection=tone)
    assert not (tmp_path / "a.html").exists()


HOSTILE = [
    "<script>alert(1)</script>",
    "</style></title><img src=x onerror=alert(1)>",
    '"\' onload="alert(1)',
    "$x_1$ & --> ]]>",
    "a\x01b",
    "价格 ö",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_whatever_stands_in_them(name, tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=120)
    kind = rng.integers(0, 2, 120)
    frame = pd.DataFrame(
        {name: x, f"{name}y": np.where(kind, 3 * x, -x) + 0.1 * rng.normal(size=120)}
    )
    model = MixReg(frame[f"{name}y"], frame[[name]], k=2, groups=None)
    data = pd.DataFrame({f"{name}z": np.where(kind, name, f"{name}!")})
    page = written(model.fit(), tmp_path, data, title=name)
    shown = " ".join(name.replace("\x01", "\ufffd").split())
    assert shown in page.text
    assert f"Segments compared by {name.replace(chr(1), chr(0xFFFD))}z" in {
        (given["aria-label"] or "").split(", in")[0] for given in page.tags("svg")
    }


def test_markup_escapes_text_and_attributes():
    assert tag("p", "<b>", tag("i", "&")) == "<p>&lt;b&gt;<i>&amp;</i></p>"
    assert tag("p", class_='"><b>') == '<p class="&quot;&gt;&lt;b&gt;"></p>'
    assert html(None) == ""


def test_one_segment_has_nobody_to_be_compared_with(tone, tmp_path):
    page = written(MixReg.from_formula("tuned ~ stretchratio", tone, k=1).fit(), tmp_path)
    assert "There is one segment." in page.text
    assert "Compared with the others" not in page.text
    assert "How sure that is" not in page.text
    assert "Here one more stretchratio goes with" in page.text


def test_noise_concomitants_shared_terms_and_no_errors(sales, tmp_path):
    rng = np.random.default_rng(2)
    data = sales.assign(age=20 + 5 * sales["kind"] + 5 * rng.normal(size=len(sales)))
    data.loc[data.index[::40], "volume"] *= np.exp(rng.uniform(-4, 4, len(data.index[::40])))
    res = MixReg.from_formula(
        "np.log(volume) ~ np.log(price) + ad",
        data,
        k=2,
        concomitant="~ age",
        shared=["ad[T.yes]"],
        noise=True,
    ).fit()
    page = written(res, tmp_path)
    # Rows of the background are members of nothing, and nobody describes them.
    cards = {}
    profiled = written(res, tmp_path, data[["age"]]).text.split("How many segments")[0]
    for card in re.split(r"(?=Segment \d |No segment \(noise\) )", profiled):
        cards.setdefault(card[:9].strip(), card)
    background = cards["No segmen"].split("What they respond to")[0]
    assert "in none" in background
    assert "They belong to no segment with a probability of" in background
    assert "Who is in it" not in background
    assert "Members" not in background
    assert "no segment and no background with a probability of 80%" in page.text
    table = res.segments()
    assert table["share"].sum() == pytest.approx(1)
    mine = cards["Segment 1"]
    count = int(table.loc[1, "size"])
    assert f"{table.loc[1, 'share']:.0%} {count:,} rows assigned" in mine
    assert f"Estimated share (average mixing weight): {table.loc[1, 'mixing weight']:.0%}." in mine
    assert "Members belong here with a probability of" in mine
    assert "depends on age, by a logit" in page.text
    assert "ad[T.yes]: the same in all segments." in page.text
    assert re.search(r"likelier the (higher|lower) age", page.text)
    bare = written(res.with_cov("none"), tmp_path)
    assert "there are no standard errors" in bare.text


def test_choices_several_responses_and_counts(tmp_path):
    camera = datasets.camera()
    choice = {"family": "choice", "choice_set": "task", "groups": "id"}
    res = MixReg.from_formula("chosen ~ canon + price", camera, k=2, **choice).fit(n_init=2)
    page = written(res, tmp_path)
    assert re.search(r"a utility [\d.]+ (lower|higher)", page.text)
    assert "Importance" in page.text
    npreg = datasets.npreg()
    several = MixReg.from_formula(
        ["yn ~ x", "yp ~ x"], npreg, k=2, family=["gaussian", "poisson"]
    ).fit(n_init=2)
    page = written(several, tmp_path)
    assert "yp follows the poisson family with a log link" in page.text


def test_a_fit_from_a_file_tells_what_it_knows(fitted, shops, tmp_path):
    fitted.save(tmp_path / "a.mixreg")
    page = written(mixreg.load(tmp_path / "a.mixreg"), tmp_path)
    assert "Not drawn" in page.text
    assert "Nobody is named here" in page.text
    shops.save(tmp_path / "b.mixreg")
    page = written(mixreg.load(tmp_path / "b.mixreg"), tmp_path)
    assert "have no segment with a probability of 80%" in page.text


def test_the_code_makes_the_fit_again(shops, sales, tmp_path):
    made: dict[str, object] = {"data": sales, "np": np}
    exec(code_of(shops), made)
    again = made["res"]
    assert isinstance(again, mixreg.MixRegResults)
    np.testing.assert_array_equal(again.params, shops.params)
    text = code_of(shops)
    assert "groups='shop'" in text
    assert "weights='w'" in text


@pytest.mark.parametrize("method", ["em", "altmin", "vb"])
def test_the_code_of_every_method_runs(method, tmp_path):
    data = mixreg.datasets.tonedata()
    res = mixreg.MixReg.from_formula("tuned ~ stretchratio", data, k=2).fit(method=method)
    for fit in (res, saved_and_loaded(res, tmp_path)):
        made: dict[str, object] = {"data": data, "np": np}
        exec(code_of(fit), made)
        np.testing.assert_allclose(made["res"].params, res.params, rtol=1e-6)


def saved_and_loaded(res, folder):
    res.save(folder / "fit.mixreg")
    return mixreg.load(folder / "fit.mixreg")


def test_the_style_of_others_does_not_show_and_figures_are_closed(fitted, tmp_path):
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    others = plt.get_fignums()
    before = written(fitted, tmp_path).found
    with plt.style.context("dark_background"), mpl.rc_context({"font.size": 30}):
        assert written(fitted, tmp_path).found == before
        assert mpl.rcParams["font.size"] == 30
    assert plt.get_fignums() == others
