"""Formulas, files, names and cells that were made to do harm; `python -m benchmarks hostile`."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import matplotlib
import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from benchmarks import hostile
from mixreg import FileFormatError, InputError, MixReg, compare, load, select_k
from mixreg.cli import main
from mixreg.files.container import MOST_BYTES, pack, unpack
from mixreg.files.formulas import check_code
from mixreg.files.load import unpacked
from mixreg.files.save import packed
from mixreg.reading.writing import plain_cells
from mixreg.table.columns import formula_names
from mixreg.table.cost import MOST_TERMS, described
from mixreg.table.recipe import Module

ROOT = Path(__file__).parents[1]
NP = {"np": Module("numpy")}


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    return hostile.table(0, 120)


@pytest.fixture(scope="module")
def fit(data):
    return MixReg.from_formula("y ~ x + bs(z, df=4)", data, k=2).fit(n_init=2)


@pytest.fixture(scope="module")
def whole(fit) -> bytes:
    return packed(fit.spec, fit.fitted, fit.diagnostics)


def test_hostile_cases_are_refused_or_escaped():
    call = [sys.executable, "-m", "benchmarks", "hostile", "--cases", "80", "--seed", "11"]
    few = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(call, cwd=ROOT, env=few, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "80 cases, seed 11: 0 came through" in done.stdout


def test_a_case_that_takes_too_much_is_told():
    def takes() -> None:
        np.ones(200_000_000)

    def waits() -> None:
        while True:
            pass

    cases = [hostile.Case("python", "", run) for run in (takes, waits, lambda: None)]
    assert [hostile.one(case).end for case in cases] == ["memory", "too long", "not refused"]
    leak = hostile.Case("name", "", lambda: False, refused=False)
    assert hostile.one(leak).end == "leaked"


# Python's own limit of calls within calls, and the one that importing PyMC sets.
@pytest.fixture(params=[1_000, 10_000])
def recursion_limit(request):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(request.param)
    yield request.param
    sys.setrecursionlimit(before)


def deep_in_calls(calls, act):
    return act() if calls == 0 else deep_in_calls(calls - 1, act)


# Terms


@pytest.mark.usefixtures("recursion_limit")
@pytest.mark.parametrize(
    ("formula", "match"),
    [
        ("y ~ (" + " + ".join(f"v{i}" for i in range(18)) + ")**18", "about [0-9,]+ terms"),
        ("y ~ " + " * ".join(f"v{i}" for i in range(22)), "about [0-9,]+ terms"),
        ("y ~ " + ":".join(f"v{i}" for i in range(22)), "a term of 13 factors"),
        ("*".join(["(a + b + c)"] * 7) + " ~ x", "terms once"),
        ("y ~ {0} - ({0})".format(" * ".join(f"v{i}" for i in range(12))), "steps to expand"),
        ("y ~ " + "v1 + " * 900 + "v2", "more terms than patsy can read"),
        ("y ~ " + "v1 + " * 401 + "v2", "more terms than patsy can read"),
        ("y ~ " + "+" * 900 + "v2", "nested too deeply"),
        ("y ~ " + "(" * 201 + "v2" + ")" * 201, "nested too deeply"),
        ("y ~ I(" + "-" * 700 + "v2)", "nested too deeply"),
        ("y ~ I(" + "v1 + " * 700 + "v2)", "nested too deeply"),
        ("y ~ " + "v" * 250_000, "has 250,004 characters"),
        ("y ~ x\x00", "cannot be read"),
    ],
)
def test_formulas_that_take_too_much_to_expand(formula, match):
    begin = time.perf_counter()
    with pytest.raises(InputError, match=match):
        formula_names(formula)
    assert time.perf_counter() - begin < 3


@pytest.mark.parametrize(
    ("formula", "terms"),
    [
        ("y ~ a + b", 3),
        ("y ~ (a + b + c)**2", 7),
        ("y ~ (a + b + c)**10", 8),
        ("y ~ 0 + a * b * c - a:b", 6),
        ("y ~ a / (b + c)", 4),
        ("y ~ (" + " + ".join(f"v{i}" for i in range(99)) + ")**2", 4951),
        ("y ~ " + " + ".join(f"v{i}" for i in range(350)), 351),
        ("y ~ " + " * ".join(f"v{i}" for i in range(12)), 4096),
    ],
)
def test_formulas_of_users_are_expanded(formula, terms):
    assert len(described(formula).rhs_termlist) == terms <= MOST_TERMS


@pytest.mark.usefixtures("recursion_limit")
@pytest.mark.parametrize(
    ("formula", "calls"),
    [
        ("y ~ " + " + ".join(f"v{i}" for i in range(150)), 300),
        ("y ~ " + " + ".join(f"v{i}" for i in range(390)), 10),
        ("y ~ I(v1" + " + v1" * 600 + ")", 200),
        ("y ~ " + "(" * 200 + "v1" + ")" * 200, 300),
        ("y ~ Q('" + "(" * 300 + "')", 0),
    ],
    ids=["terms", "most terms", "sum", "brackets", "brackets of a name"],
)
def test_formulas_are_read_from_deep_in_calls(formula, calls):
    assert deep_in_calls(calls, lambda: formula_names(formula))


def test_long_sums_of_users_are_read(data):
    long = MixReg.from_formula("y ~ I(x" + " + x" * 600 + ")", data, k=1).fit()
    short = MixReg.from_formula("y ~ x", data, k=1).fit()
    assert_allclose(601 * long.coefficients.iloc[1], short.coefficients.iloc[1])


def test_a_formula_of_too_many_columns(data):
    with pytest.raises(InputError, match=r"'h:C\(id\)' makes 14,161.*'h' has 120 different values"):
        MixReg.from_formula("y ~ h:C(id)", data, k=2)
    for code in ("C(data=h):C(data=id)", "C(np.round(x * 10**6)):C(h + g)"):
        with pytest.raises(InputError, match="may make up to 5,000"):
            MixReg.from_formula(f"y ~ {code}", data, k=2)
    with pytest.raises(InputError, match="may make up to 5,000"):
        MixReg.from_formula("y ~ x", data, k=2, concomitant="~ h * C(id)")


# Pieces that are evaluated

COLUMNS = frozenset({"x", "z", "g"})


@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("bs(x, df=10**9)", "makes 1,000,000,000 columns"),
        ("bs(x, df=2 * 10**9)", "makes 2,000,000,000 columns"),
        ("cr(x, -(-10**9))", "makes 1,000,000,000 columns"),
        ("bs(x, df=np.abs(10**9))", "must be a number, such as df=4"),
        ("bs(x, df=x)", "must be a number, such as df=4"),
        ("bs(x, df=np.inf)", "is inf; give a whole number"),
        ("bs(x, df=4, degree=25)", "degree may be up to 10"),
        ("te(cr(x, df=900), cr(z, df=900))", "makes 810,000 columns"),
        ("bs(x, df=1, degree=1) + x", "several columns beside others"),
        ("np.where(bs(x, df=1, degree=1) > 0, x, z)", "several columns beside others"),
        ("np.square(" * 26 + "9**64" + ")" * 26, "2,048 binary digits"),
        ("np.abs(9**64) ** 10**9", "2,048 binary digits"),
        ("9 ** np.abs(9**64)", "2,048 binary digits"),
        ("x * big ** 9999", "2,048 binary digits"),
        ("x + shift * 10**10", "computes with text"),
        ("shift % x", "computes with text"),
        ("I('abc') * 10**10", "computes with text"),
        ("I([0]) * 10**10", "computes with text, categories or lists"),
        ("np.where(x > 0, 'a', 'b') * 10**10", "computes with text"),
        ("np.mod(shift, x)", "computes with text"),
        ("x + table", "computes with text, categories or lists"),
        ("1 / 0", "has no value: division by zero"),
    ],
)
def test_pieces_of_a_stored_formula_that_cost_too_much(code, match):
    outside = {**NP, "shift": "%9d", "big": 10**18, "table": np.zeros((1000, 1))}
    with pytest.raises(FileFormatError, match=match):
        check_code(code, COLUMNS, outside)


@pytest.mark.parametrize(
    "code",
    [
        "x ** 2 + 10**18 * x",
        "x / 10**25",
        "x * (10**6)**64",
        "x ** 1000",
        "2 ** x",
        "np.square(np.square(np.square(x)))",
        "np.power(x, 3)",
        "bs(x, df=4 + 2)",
        "bs(x, df=n)",
        "cr(x, n, constraints='center')",
        "center(bs(x, knots=2 * knots))",
        "te(cr(x, df=9), cc(z, df=9), constraints='center')",
        "np.where(g == 'a', 'low', 'high')",
        "2 * bs(x, df=4)",
        "C(g, levels=['a', 'b'])",
        "Q('x') ** 2 // 3",
        "g == shift",
        "~(x > 0) & (z < 1)",
    ],
)
def test_pieces_of_a_stored_formula_that_may_pass(code):
    outside = {**NP, "shift": "a", "n": 6, "knots": np.array([0.1, 0.2])}
    check_code(code, COLUMNS, outside)


def test_numbers_of_a_formula_in_python_are_as_ever(data):
    shift = 3
    model = MixReg.from_formula("y ~ I(x**2) + I(z * 10**3) + np.power(z, shift)", data, k=1)
    want = np.column_stack([np.ones(120), data.x**2, data.z * 1e3, data.z**shift])
    assert_allclose(model.fit().llf, MixReg(data.y, want, k=1).fit().llf)


@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("bs(x, df=10**9)", "makes 1,000,000,000 columns"),
        ("bs(x, df=4, degree=25)", "degree may be up to 10"),
        ("I(9**9**9**9)", "2,048 binary digits"),
        ("I(g * 10**9)", "computes with text"),
        ("I(g % n)", "computes with text"),
    ],
)
def test_a_formula_in_python_says_what_it_costs(data, code, match):
    with pytest.raises(InputError, match=match):
        MixReg.from_formula(f"y ~ {code}", data, k=2)


def test_the_command_line_says_what_a_formula_costs(data, tmp_path, capsys):
    data.to_csv(tmp_path / "d.csv", index=False)
    assert main(["fit", str(tmp_path / "d.csv"), "y ~ bs(x, df=10**9)", "-k", "2"]) == 2
    assert "one basis may have up to 1,000" in capsys.readouterr().err


def test_text_in_new_data_is_not_multiplied(data, whole):
    code = (*hostile.RIGHT, "factors", 0, "code")
    found = unpacked(hostile.forged(whole, code, "x * 10**10"))
    with pytest.raises(InputError, match="have string values in column 'x'") as refused:
        found.predict(data.assign(x="abc"))
    assert "computes with text" in str(refused.value.__cause__)
    with pytest.raises(InputError, match="have string values in column 'x'") as refused:
        unpacked(hostile.forged(whole, code, "x % 5")).predict(data.assign(x="%9d"))
    assert "computes with text" in str(refused.value.__cause__)


# Files


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("_degree", 25, "more columns than its formula makes"),
        ("_all_knots", np.linspace(-9, 9, 50_000), "more columns than its formula makes"),
        ("_all_knots", np.zeros((9, 9)), "more columns than its formula makes"),
    ],
)
def test_what_a_transform_learnt_is_bounded(whole, name, value, match):
    more = {}
    if not isinstance(value, int):
        number = sum(member.startswith("arrays/") for member in unpack(whole))
        more = {f"arrays/{number}.npy": hostile.to_npy(value)}
        value = {"array": number}
    path = (*hostile.RIGHT, "factors", 1, "states", 0, name)
    with pytest.raises(FileFormatError, match=match):
        unpacked(hostile.forged(whole, path, value, more))


def test_terms_of_a_file_are_bounded(whole):
    path = (*hostile.RIGHT, "terms", 1, "subterms", 0, "factors")
    with pytest.raises(FileFormatError, match="more than 12 factors"):
        unpacked(hostile.forged(whole, path, [0] * 100_000))
    with pytest.raises(FileFormatError, match="100,000 columns"):
        unpacked(hostile.forged(whole, (*hostile.RIGHT, "names"), ["x"] * 100_000))


@pytest.mark.parametrize("head", [b"", b"PK\x03\x04"])
def test_a_large_file_is_refused_unread(head, tmp_path):
    path = tmp_path / "fit.mixreg"
    with open(path, "wb") as stream:
        stream.write(head)
        stream.truncate(5_000_000_000)
    begin = time.perf_counter()
    with pytest.raises(FileFormatError, match=f"up to {MOST_BYTES:,}" if head else "not a file"):
        load(path)
    assert time.perf_counter() - begin < 1


def test_json_of_many_values_is_refused(whole):
    members = unpack(whole)
    with pytest.raises(FileFormatError, match="more than 5,000,000 values"):
        unpacked(pack({**members, "spec.json": b"[" + b"[]," * 3_000_000 + b"0]"}))


def test_a_zip_of_many_members_is_refused(whole):
    with pytest.raises(FileFormatError, match="larger than the file"):
        unpacked(hostile.overlapping(whole, 5_000))
    end = len(whole) - 64 - 22
    for at, told in ((end - 20, b"PK\x06\x07"), (end + 12, b"\xff\xff\xff\x7f")):
        body = whole[:at] + told + whole[at + 4 :]
        with pytest.raises(FileFormatError, match="too many members"):
            unpacked(hostile.signed(body))


# Names and cells

NASTY = "<script>x</script>\\input{a}\\write18{b}^^5c"


@pytest.fixture(scope="module")
def nasty(data):
    named = data[["x", "y"]].rename(columns={"x": NASTY})
    model = MixReg.from_formula(f"y ~ Q({NASTY!r})", named, k=2)
    return model.fit(n_init=2)


def test_names_are_escaped_in_tables(nasty):
    for made in (nasty, nasty.bootstrap(n=3)):
        summary = made.summary()
        pages = [made._repr_html_(), summary.as_html()]
        pages += [table._repr_html_() for table in summary.tables]
        assert all("<script" not in page for page in pages)
        assert "&lt;script&gt;x&lt;/script&gt;" in pages[0]
        tex = summary.as_latex() + summary.tables[-1].as_latex_tabular()
        assert "\\input" not in tex
        assert "\\write" not in tex
        assert "^^" not in tex
    assert r"\textless{}script\textgreater{}" in nasty.summary().as_latex()
    assert "<script>" in str(nasty.summary())


def test_names_are_escaped_in_comparisons(nasty):
    both = compare(nasty, nasty, names=[NASTY, "b"])
    great = both.to_great_table().as_raw_html()
    assert "<script" not in both.to_html() + both.to_word() + great
    assert great.count("&lt;script&gt;") == 2  # a fit's name, and a term's, escaped once
    assert "\\input" not in both.to_latex()
    assert "\\write" not in both.to_latex()


def test_headings_of_profiles_are_escaped(fit, data):
    dates = data[["x"]].assign(**{NASTY: pd.Timestamp("2020-01-01")})
    page = fit.profile(dates)._repr_html_()
    assert "<script" not in page
    assert "dates left out: &lt;script&gt;" in page


def test_texts_are_no_formulas_in_a_spreadsheet():
    texts = ["=1+1", "+a", "@SUM(1)", "\t=1", "\r=1", "-a", "-", "-0.5", "a=1", None]
    want = ["'=1+1", "'+a", "'@SUM(1)", "'\t=1", "'\r=1", "'-a", "-", "-0.5", "a=1", None]
    frame = pd.DataFrame({"=t": texts, "n": np.linspace(-1, 1, 10)})
    for kind in (object, "category", "string"):
        made = plain_cells(frame.astype({"=t": kind}))
        assert list(made.columns) == ["'=t", "n"]
        assert made["'=t"].astype(object).where(made["'=t"].notna(), None).tolist() == want
        assert made.n.equals(frame.n)
    assert plain_cells(frame[["n"]]) is not None
    assert frame["=t"].tolist()[:-1] == texts[:-1]


def test_labels_and_predictions_are_no_formulas(data, tmp_path):
    named = data.assign(who=[f"=1+{i // 4}" for i in range(120)])
    res = MixReg.from_formula("y ~ x", named, k=2, groups="who").fit(n_init=2)
    res.write_labels(tmp_path / "l.csv")
    res.write_labels(tmp_path / "l.parquet")
    assert pd.read_csv(tmp_path / "l.csv").who.str.startswith("'=1+").all()
    assert pd.read_parquet(tmp_path / "l.parquet").who.str.startswith("=1+").all()
    named.to_csv(tmp_path / "d.csv", index=False)
    res.save(tmp_path / "fit")
    for name in ("o.csv", "o.xlsx"):
        out = str(tmp_path / name)
        call = ["predict", str(tmp_path / "fit"), str(tmp_path / "d.csv"), "--out", out]
        assert main([*call, "--which", "assign"]) == 0
        read = pd.read_csv if name.endswith("csv") else pd.read_excel
        assert read(out).iloc[:, 0].astype(str).str.match(r"'=1\+|\d+$").all()


def test_a_cell_of_many_digits_is_read_at_once(data):
    long = data.assign(h=[f"{'1' * 60_000}{i}x" for i in range(120)])
    begin = time.perf_counter()
    with pytest.raises(InputError, match=r"combination|rows"):
        MixReg.from_formula("y ~ x + h", long, k=2)
    assert time.perf_counter() - begin < 5


# What is saved


def test_every_plot_is_saved(fit, data):
    matplotlib.use("Agg")
    names = ("plot", "components", "coefficients", "posterior", "search", "residuals", "tensor")
    made = [getattr(fit, f"plot_{n}" if n != "plot" else n)() for n in names]
    made += [fit.plot_profile(data[["x", "g"]]), select_k("y ~ x", data, k=[1, 2]).plot()]
    for axes in made:
        for figure in (axes.figure, np.ravel(axes)[0].figure):
            picture = io.BytesIO()
            figure.savefig(picture)
            assert picture.getvalue().startswith(b"\x89PNG")
        matplotlib.pyplot.close(np.ravel(axes)[0].figure.figure)
    picture = io.BytesIO()
    fit.plot().savefig(picture)
    assert picture.getvalue().startswith(b"\x89PNG")
    assert fit.plot()[:2].figure is not None
    matplotlib.pyplot.close("all")


def test_word_is_a_page_of_html(fit, tmp_path):
    both = compare(fit, fit)
    with pytest.raises(InputError, match=r"'.*table\.doc', which Word opens and saves as \.docx"):
        both.to_word(tmp_path / "table.docx")
    assert not list(tmp_path.iterdir())
    both.to_word(tmp_path / "table.doc")
    assert (tmp_path / "table.doc").read_text(encoding="utf-8").startswith("<html>")
