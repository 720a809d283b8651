"""Plots: what their artists hold, for every kind of model."""

import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.markers import MarkerStyle
from numpy.testing import assert_allclose
from scipy.stats import norm

import mixreg
from mixreg import InputError, MixReg, NotAvailableError, datasets, select_k
from mixreg.report.plots import style
from mixreg.report.plots.posterior_plot import LEAST, columns_of, histogram
from mixreg.report.plots.profile_plot import distances
from mixreg.report.plots.residual_plot import weighted_quantiles
from mixreg.report.plots.tensor_plot import spectrum
from mixreg.simulate import mixed_linear_equations

mpl.use("Agg")
CHOICE = {"family": "choice", "choice_set": "task", "groups": "id"}
ODD = "a $x^2_{very}$ column & a long one, with <b>'quotes'</b>"


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def drawn(axes):
    """Draw for real: layout and text are made then, and warnings are errors."""
    first = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()[0]
    first.figure.canvas.draw()
    return axes


def labelled(ax):
    return {line.get_label(): line for line in ax.get_lines() if line.get_label()[0] != "_"}


@pytest.fixture(scope="module")
def tone():
    data = datasets.tonedata()
    return data, MixReg.from_formula("tuned ~ stretchratio", data, k=2).fit()


@pytest.fixture(scope="module")
def cheese():
    data = datasets.cheese()
    formula = "np.log(VOLUME) ~ DISP + np.log(PRICE)"
    return data, MixReg.from_formula(formula, data, k=3, groups="RETAILER").fit()


@pytest.fixture(scope="module")
def cameras():
    data = datasets.camera().query("id <= 80").reset_index(drop=True)
    return data, MixReg.from_formula("chosen ~ canon + zoom + price", data, k=2, **CHOICE).fit()


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(2)
    n = 400
    data = pd.DataFrame({ODD: rng.normal(size=n), "w": rng.uniform(1, 2, n)})
    first = rng.random(n) < 0.6
    data["y"] = rng.poisson(np.exp(np.where(first, 2 + 0.5 * data[ODD], 0.2 - data[ODD])))
    data["n"] = rng.integers(1, 4, n)
    formula = f"y ~ Q({ODD!r}) + w"
    options = {"family": "poisson", "weights": "n", "shared": ["w"]}
    return data, MixReg.from_formula(formula, data, k=2, **options).fit()


def test_components_hold_data_and_lines(tone):
    data, res = tone
    ax = drawn(res.plot_components())
    points = np.concatenate([c.get_offsets() for c in ax.collections])
    expected = data[["stretchratio", "tuned"]].to_numpy()
    assert_allclose(np.sort(points, axis=0), np.sort(expected, axis=0))
    for j in (1, 2):
        line = labelled(ax)[f"segment {j} ({res.weights[j]:.0%})"]
        x, y = line.get_data()
        assert_allclose(y, res.coefficients[j].iloc[0] + res.coefficients[j].iloc[1] * x)
        rows = (res.labels == j).sum()
        assert len(ax.collections[j - 1].get_offsets()) == rows
        sizes = ax.collections[j - 1].get_sizes()
        certain = res.posterior.loc[res.labels == j, j]
        assert_allclose(np.sort(sizes / sizes.max()), np.sort(certain / certain.max()))


def test_components_of_a_polynomial_are_curves(tone):
    data, _ = tone
    res = MixReg.from_formula("tuned ~ stretchratio + I(stretchratio**2)", data, k=2).fit()
    ax = res.plot_components("stretchratio")
    line = next(iter(labelled(ax).values()))
    x, y = line.get_data()
    new = pd.DataFrame({"stretchratio": x})
    assert_allclose(y, res.predict(new, "component")[1])


def test_components_show_partial_residuals(cheese):
    data, res = cheese
    ax = drawn(res.plot_components("np.log(PRICE)"))
    assert "partial residual" in ax.get_ylabel()
    assert "a sample of" in ax.get_title("right")
    shown = len({tuple(p) for c in ax.collections for p in np.round(c.get_offsets(), 9)})
    assert shown <= 3000
    slopes = []
    for line in labelled(ax).values():
        x, y = line.get_data()
        slopes.append((y[1] - y[0]) / (x[1] - x[0]))
    assert_allclose(slopes, res.coefficients.loc["np.log(PRICE)"])
    small = MixReg.from_formula("np.log(VOLUME) ~ DISP + np.log(PRICE)", data.head(300), k=1).fit()
    (cloud,) = small.plot_components("DISP").collections
    x, y = cloud.get_offsets().T
    slope = small.coefficients.loc["DISP", 1]
    assert_allclose(np.sort(y - slope * (x - x.mean())), np.sort(small.resid), atol=1e-9)


def test_components_refuse_choices_and_unknown_terms(cameras, tone):
    with pytest.raises(NotAvailableError, match="plot_shares"):
        cameras[1].plot_components()
    with pytest.raises(InputError, match="term='q'"):
        tone[1].plot_components("q")
    with pytest.raises(InputError, match="response='q'"):
        tone[1].plot_components(response="q")
    for plot in (tone[1].plot_components, tone[1].plot_residuals):
        with pytest.raises(
            InputError, match=r"=a DataFrame is unknown; (responses are tuned|terms are Inter)"
        ):
            plot(tone[0])


def test_coefficients_hold_estimates_and_intervals(counts):
    _, res = counts
    ax = drawn(res.plot_coefficients(conf_level=0.9))
    rows = res.tidy(conf_level=0.9).query("term != 'Intercept'")
    lines = labelled(ax)
    assert set(lines) == {"segment 1", "segment 2", "all segments"}
    shared = rows[rows.component.isna()]
    assert_allclose(lines["all segments"].get_xdata(), shared.estimate)
    ends = np.array([s[:, 0] for c in ax.collections for s in c.get_segments()])
    assert_allclose(np.sort(ends, axis=0), np.sort(rows[["conf_low", "conf_high"]], axis=0))
    ratios = drawn(res.plot_coefficients(exponentiate=True))
    assert ratios.get_xlabel() == "ratio of means"
    assert ratios.get_xscale() == "log"
    assert_allclose(labelled(ratios)["all segments"].get_xdata(), np.exp(shared.estimate))


def test_coefficients_without_errors_and_of_some_terms(cheese):
    bare = drawn(cheese[1].with_cov("none").plot_coefficients("DISP"))
    assert bare.get_title("right") == "no standard errors"
    assert [t.get_text() for t in bare.get_yticklabels()] == ["DISP"]
    with pytest.raises(InputError, match="terms='q'"):
        cheese[1].plot_coefficients("q")


def test_posterior_is_a_rootogram(tone, counts, cheese):
    _, res = tone
    axes = drawn(res.plot_posterior(bins=10))
    assert len(axes) == 2
    for j, ax in zip(res.components, axes, strict=True):
        p = res.posterior[j].to_numpy()
        expected = np.histogram(p[p >= LEAST], 10, (0, 1))[0]
        assert_allclose([bar.get_height() ** 2 for bar in ax.patches], expected, atol=1e-9)
    heights = [bar.get_height() ** 2 for ax in cheese[1].plot_posterior() for bar in ax.patches]
    assert sum(heights) == pytest.approx(88, abs=20)
    weighted = counts[1].plot_posterior()
    assert "weight of rows" in weighted[0].get_ylabel()
    with pytest.raises(InputError, match="bins"):
        res.plot_posterior(bins=0)
    assert_allclose(histogram(np.array([[1.0, 0.5, 0.0]]), np.array([1, 2, 9.0]), 2), [[0, 3]])


def test_search_marks_the_winner(cheese):
    _, res = cheese
    ax = drawn(res.plot_search())
    search = res.fitted.search
    winner = next(line for line in ax.get_lines() if line.get_marker() == "D")
    assert winner.get_xdata().tolist() == [0.0]
    assert winner.get_ydata().tolist() == [search.hits[0]]
    drawn_hits = sorted(np.concatenate([line.get_ydata() for line in ax.get_lines()]))
    assert drawn_hits == sorted([*search.hits, search.hits[0]])
    once = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit(n_init=1)
    if once.fitted.search is None:
        with pytest.raises(NotAvailableError, match="no search"):
            once.plot_search()


def test_a_winner_that_only_a_move_reached_is_hollow(tone, cheese):
    filled = {}
    for res in (tone[1], cheese[1]):
        ax = drawn(res.plot_search())
        winner = next(line for line in ax.get_lines() if line.get_marker() == "D")
        filled[res.fitted.search.hits[0] > 0] = winner.get_markerfacecolor() != "white"
    assert filled == {False: False, True: True}


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (3, 3), (4, 2), (5, 3), (7, 4)])
def test_rootograms_fill_their_rows(count, columns):
    assert columns_of(count) == columns


def test_marks_of_the_background_are_as_large_as_others():
    heights = []
    for j in (0, 1, 2):
        made = MarkerStyle(style.look(j).mark)
        heights.append(made.get_path().transformed(made.get_transform()).get_extents().height)
    assert min(heights) > 0.8 * max(heights)


def test_residuals_lie_on_the_line_of_a_right_model(counts):
    data, res = counts
    qq, against = drawn(res.plot_residuals())
    for line in labelled(qq).values():
        x, y = line.get_data()
        assert np.abs(x - y)[np.abs(x) < 1.5].max() < 0.35
    count = sum(len(c.get_offsets()) for c in against.collections)
    assert count == len(data)
    with pytest.raises(InputError, match="needs 2"):
        res.plot_residuals(axes=[qq])


def test_weighted_quantiles_are_those_of_repeated_values():
    rng = np.random.default_rng(0)
    values, weight = rng.normal(size=4000), rng.integers(0, 3, 4000)
    at, found = weighted_quantiles(values, weight.astype(float))
    assert_allclose(found, np.quantile(np.repeat(values, weight), at), atol=0.05)
    assert_allclose(found[10:-10], norm.ppf(at)[10:-10], atol=0.12)


def test_lines_are_drawn_over_a_number_rather_than_a_dummy(tone):
    data = tone[0].assign(late=np.arange(len(tone[0])) % 3 == 0, other=np.arange(150) % 2)
    res = MixReg.from_formula("tuned ~ late + stretchratio", data, k=2).fit()
    assert res.plot_components().get_xlabel() == "stretchratio"
    assert res.plot_components("late[T.True]").get_xlabel() == "late[T.True]"
    dummies = MixReg.from_formula("tuned ~ late + other", data, k=1).fit()
    assert dummies.plot_components().get_xlabel() == "late[T.True]"


def test_profile_holds_standard_distances(cheese):
    data, res = cheese
    rng = np.random.default_rng(0)
    table = data.assign(size=rng.normal(size=len(data)), kind=rng.choice(["u", "v"], len(data)))
    table = table.set_index(data.index)[["size", "kind"]]
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(data)), "D")
    ax = drawn(res.plot_profile(table.assign(day=day)))
    assert [t.get_text() for t in ax.get_yticklabels()] == ["size", "kind = v"]
    found = res.profile(table).table
    overall = found["overall"]
    expected = (found.loc[("size", "mean"), 1] - overall["size", "mean"]) / overall["size", "sd"]
    assert labelled(ax)["segment 1"].get_xdata()[0] == pytest.approx(expected)
    share = overall["kind", "v"]
    gap = (found.loc[("kind", "v"), 2] - share) / np.sqrt(share * (1 - share))
    assert distances(found).loc[("kind", "v"), 2] == pytest.approx(gap)
    with pytest.raises(InputError, match="variables='q'"):
        res.plot_profile(table, "q")


def test_shares_and_wtp(cameras, tone):
    data, res = cameras
    new = data.head(5)
    ax = drawn(res.plot_shares(new, labels=list("ABCDE")))
    shares = res.predict(new.drop(columns=["task", "id"]), "component")
    lines = [line for name, line in labelled(ax).items() if name.startswith("segment")]
    for j, line in zip(res.components, lines, strict=True):
        assert_allclose(line.get_xdata(), shares[j])
        assert not line.get_clip_on()
    assert_allclose(sum(bar.get_width() for bar in ax.patches), 1)
    with pytest.raises(InputError, match="2 choice sets"):
        res.plot_shares(data.head(10))
    with pytest.raises(NotAvailableError, match="family='choice'"):
        tone[1].plot_shares(new)
    worth = drawn(res.plot_wtp("price", terms=["zoom"]))
    expected = res.wtp("price")["wtp"].xs("zoom", level="term")
    found = [line.get_xdata()[0] for line in labelled(worth).values()]
    assert_allclose(found, expected)
    with pytest.raises(InputError, match="terms='q'"):
        res.plot_wtp("price", terms="q")


def test_tensor_tells_signal_from_noise():
    data = mixed_linear_equations(3000, 8, 3, noise=0.3, seed=1).frame()
    formula = "y ~ " + " + ".join(f"x{i}" for i in range(1, 9))
    res = MixReg.from_formula(formula, data, k=3).fit()
    found = spectrum(res)
    assert (found.values > found.high).sum() == 3
    ax = drawn(res.plot_tensor())
    assert len(labelled(ax)["beyond noise"].get_xdata()) == 3
    z = np.linalg.qr(data.filter(like="x") - data.filter(like="x").mean())[0] * np.sqrt(3000)
    y = (data.y - data.y.mean()) / data.y.std(ddof=0)
    by_hand = (z.T @ (z * (y**2).to_numpy()[:, None]) / 3000 - np.eye(8) * (y**2).mean()) / 2
    assert_allclose(found.values[:3], np.linalg.eigvalsh(by_hand)[::-1][:3], rtol=0.05)


@pytest.mark.parametrize("k", [1, 2, 8])
def test_a_page_of_any_k(k):
    data = mixed_linear_equations(800, 8, 8, noise=0.2, seed=1).frame()
    formula = "y ~ " + " + ".join(f"x{i}" for i in range(1, 9))
    model = MixReg.from_formula(formula, data.rename(columns={"y": "y"}), k=k)
    axes = drawn(model.fit(init="random", n_init=1, max_iter=5000).plot())
    assert len(axes) == 3 + k


def test_a_page_of_choices_noise_and_odd_names(cameras, counts):
    assert len(drawn(cameras[1].plot())) == 5
    axes = drawn(counts[1].plot())
    assert len(axes) == 5
    assert len(axes[0].get_xlabel()) < 60
    rng = np.random.default_rng(0)
    x, first = rng.normal(size=300), rng.random(300) < 0.5
    y = np.where(first, x, 3 - x) + 0.2 * rng.normal(size=300)
    y[:30] = rng.uniform(-8, 8, 30)
    noisy = MixReg.from_formula("y ~ x", pd.DataFrame({"x": x, "y": y}), k=2, noise=True).fit()
    assert len(drawn(noisy.plot())) == 6


def test_several_responses_are_drawn_one_by_one():
    rng = np.random.default_rng(1)
    first = rng.random(300) < 0.5
    data = pd.DataFrame({"x": rng.normal(size=300)})
    data["a"] = np.where(first, data.x, 2 - data.x) + 0.3 * rng.normal(size=300)
    data["b"] = rng.poisson(np.where(first, 2.0, 6.0))
    families = ["gaussian", "poisson"]
    res = MixReg.from_formula(["a ~ x", "b ~ 1"], data, k=2, family=families).fit()
    assert drawn(res.plot_components(response="a")).get_ylabel() == "a"
    with pytest.raises(NotAvailableError, match="no regressor varies"):
        res.plot_components(response="b")
    assert "b" in drawn(res.plot_residuals(response="b"))[1].get_xlabel()
    drawn(res.plot_coefficients())
    with pytest.raises(NotAvailableError, match="one response"):
        res.plot_tensor()


def test_axes_are_taken_and_returned(tone, cheese):
    _, res = tone
    axes = pyplot.subplots(2, 2)[1]
    assert res.plot_components(ax=axes[0, 0]) is axes[0, 0]
    assert res.plot_coefficients(ax=axes[0, 1]) is axes[0, 1]
    assert res.plot_search(ax=axes[1, 0]) is axes[1, 0]
    assert list(res.plot_residuals(axes=axes[1])) == list(axes[1])
    with pytest.raises(InputError, match="ax must be matplotlib axes"):
        res.plot_search(ax=3)
    page = pyplot.figure(figsize=(12, 8), layout="constrained")
    assert res.plot(page)[0].figure.canvas is page.canvas


def test_a_fit_from_a_file_draws_what_it_can(cheese, tone, tmp_path):
    cheese[1].save(tmp_path / "fit")
    res = mixreg.load(tmp_path / "fit")
    drawn(res.plot_coefficients())
    drawn(res.plot_search())
    drawn(res.plot_posterior())
    for ask in (res.plot_components, res.plot_residuals, res.plot_tensor, res.plot):
        with pytest.raises(NotAvailableError, match="rows are gone"):
            ask()
    tone[1].save(tmp_path / "rows")
    with pytest.raises(NotAvailableError, match="rows are gone"):
        mixreg.load(tmp_path / "rows").plot_posterior()


def test_segments_can_be_told_without_colour():
    looks = [style.look(j) for j in range(1, 41)]
    assert len({(a.colour, a.mark) for a in looks}) == 40
    assert len({a.mark for a in looks[:9]}) == 9
    assert len({to_hex(a.colour) for a in looks[:8]}) == 8


def test_selection_has_the_same_style(tone):
    chosen = select_k("tuned ~ stretchratio", tone[0], k=[1, 2], n_jobs=1)
    line = labelled(drawn(chosen.plot()))["BIC"]
    assert to_hex(line.get_color()) == style.STRONG.lower()


def test_without_matplotlib(tone, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    told = r'plots need matplotlib, .*; try: python -m pip install "matplotlib\S*" "jinja2\S*"$'
    with pytest.raises(ImportError, match=told):
        tone[1].plot_search()
