"""The command line."""

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal

import mixreg
from mixreg import MixReg, __version__, datasets, select_k
from mixreg.cli import main
from mixreg.cli.demos import DEMOS

CHEESE = "np.log(VOLUME) ~ DISP + np.log(PRICE)"
TONES = "tuned ~ stretchratio"


@pytest.fixture
def tones(tmp_path) -> str:
    path = tmp_path / "tones.csv"
    datasets.tonedata().to_csv(path, index=False)
    return str(path)


def last_line(capsys) -> str:
    """The one line on stderr that a bad call leaves, and nothing on stdout."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("mixreg: ")
    return err


# Demos and data sets


def test_demo_prints_the_summary_and_the_segments(capsys):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "Mixture of Linear Regressions" in out
    assert "np.log(VOLUME)" in out
    for component in (1, 2, 3):
        assert f"Component {component}" in out
        assert f"  {component}: " in out
    assert re.search(r"No. Groups: +88\b", out)
    assert "price elasticity" in out
    assert re.search(r"Fitted in \d+\.\d\d s", out)


@pytest.mark.parametrize("name", [name for name in DEMOS if name != "cheese"])
def test_every_demo_runs_and_is_the_call_it_shows(name, capsys):
    assert main(["demo", name]) == 0
    out = capsys.readouterr().out
    call = next(line for line in out.splitlines() if line.startswith("MixReg"))
    res = eval(call, {"MixReg": MixReg, "np": np, name: getattr(datasets, name)()})
    assert str(res.summary()) in out
    assert out.count("average certainty") == res.k


def test_an_unknown_demo(capsys):
    assert main(["demo", "wine"]) == 2
    assert "there is no demo 'wine'; there are cheese, tonedata" in last_line(capsys)


def test_data_sets_are_listed_and_printed(capsys, tmp_path):
    assert main(["datasets"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[1:]] == datasets.__all__
    assert main(["datasets", "co2"]) == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert_frame_equal(printed, datasets.co2())
    assert main(["datasets", "co2", "-o", str(tmp_path / "co2.parquet")]) == 0
    assert_frame_equal(pd.read_parquet(tmp_path / "co2.parquet"), datasets.co2())
    assert main(["datasets", "wine"]) == 2
    assert "there is no data set 'wine'" in last_line(capsys)


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"mixreg {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dance"], r"invalid choice: 'dance' .*fit.*; try mixreg --help"),
        ([], "required: command; try mixreg --help"),
        (["demo", "--fast"], "unrecognized arguments: --fast; try mixreg --help"),
        (["fit", "a.csv", "y ~ x"], "required: -k; try mixreg fit --help"),
        (["fit", "a.csv", "y ~ x", "-k"], "-k: expected one argument; try mixreg fit"),
        (["fit", "a.csv", "y ~ x", "-k", "2", "--method", "mcmc"], "--method.*'mcmc'.*altmin"),
        (["fit", "a.csv", "y ~ x", "-k", "2", "--seed", "one"], "--seed.*'one'"),
        (["predict", "m", "a.csv", "--which", "a\nb"], "--which.*assign"),
        (["predict", "m"], "required: DATA; try mixreg predict --help"),
    ],
)
def test_a_bad_command_ends_with_2_and_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        main(arguments)
    assert re.search(message, last_line(capsys))


# Fits


def test_a_fit_prints_what_python_prints(capsys, tmp_path):
    path = tmp_path / "cheese.csv"
    datasets.cheese().to_csv(path, index=False)
    assert main(["fit", str(path), CHEESE, "-k", "2", "--groups", "RETAILER", "--seed", "3"]) == 0
    out, err = capsys.readouterr()
    model = MixReg.from_formula(CHEESE, datasets.cheese(), k=2, groups="RETAILER")
    assert out == f"{model.fit(seed=3).summary()}\n"
    assert err == ""


def test_a_choice_of_k_prints_the_table_and_the_best_fit(capsys, tones):
    assert main(["fit", tones, TONES, "-k", "1:3"]) == 0
    out = capsys.readouterr().out
    choice = select_k(TONES, datasets.tonedata(), k=[1, 2, 3])
    assert out == f"{choice}\n\n{choice.best.summary()}\n"
    assert main(["fit", tones, TONES, "-k", "1,2", "--criterion", "icl"]) == 0
    assert "by ICL" in capsys.readouterr().out


def test_options_reach_the_model(capsys, tmp_path):
    path = tmp_path / "visits.parquet"
    data = datasets.nmes1988().head(600)
    data.to_parquet(path)
    call = ["fit", str(path), "visits ~ hospital + C(health)", "-k", "2", "--family", "poisson"]
    assert main([*call, "--concomitant", "~ age", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    want = MixReg.from_formula(
        "visits ~ hospital + C(health)", data, k=2, family="poisson", concomitant="~ age"
    ).fit()
    assert_allclose(found["llf"], want.llf)
    assert found["family"] == "poisson"
    assert [each["name"] for each in found["params"]] == list(want.params.index)
    assert_allclose([each["std_err"] for each in found["params"]], want.bse, rtol=1e-6)
    assert_allclose(found["components"][1]["weight"], want.weights[2])


@pytest.mark.parametrize("method", ["altmin", "vb"])
def test_other_methods(method, capsys, tones):
    assert main(["fit", tones, TONES, "-k", "2", "--method", method, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == method
    assert_allclose(
        found["llf"], MixReg.from_formula(TONES, datasets.tonedata(), k=2).fit(method).llf
    )


def test_choices(capsys, tmp_path):
    path = tmp_path / "camera.feather"
    datasets.camera().head(1600).to_feather(path)
    call = ["fit", str(path), "chosen ~ canon + price", "-k", "2", "--family", "choice"]
    assert main([*call, "--choice-set", "task", "--groups", "id"]) == 0
    assert "Mixture of Conditional Logits" in capsys.readouterr().out


def test_json_has_the_choice_of_k_and_no_odd_numbers(capsys, tones):
    assert main(["fit", tones, TONES, "-k", "1:2", "--json"]) == 0
    text = capsys.readouterr().out
    found = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert [row["k"] for row in found["selection"]["table"]] == [1, 2]
    assert found["selection"]["criterion"] == "bic"
    assert found["k"] == 2
    assert found["components"][0]["coefficients"].keys() == {"Intercept", "stretchratio"}


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet", "feather", "xlsx"])
def test_formats(suffix, capsys, tmp_path):
    path, data = tmp_path / f"tones.{suffix}", datasets.tonedata()
    if "sv" in suffix:
        data.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    else:
        write = {"xlsx": "excel"}.get(suffix, suffix)
        getattr(data, f"to_{write}")(path, **({} if suffix == "feather" else {"index": False}))
    assert main(["fit", str(path), TONES, "-k", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert_allclose(found["llf"], MixReg.from_formula(TONES, data, k=2).fit().llf)


@pytest.mark.parametrize("form", ["csv", "parquet", "feather", "excel"])
def test_pipes(form, capsys, monkeypatch):
    buffer, data = io.BytesIO(), datasets.tonedata()
    getattr(data, f"to_{form}")(buffer, **({} if form == "feather" else {"index": False}))
    buffer.seek(0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer))
    assert main(["fit", "-", TONES, "-k", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nobs"] == len(data)


def test_folders_and_patterns(capsys, tmp_path):
    for i, part in enumerate(np.array_split(np.arange(150), 3)):
        datasets.tonedata().iloc[part].to_parquet(tmp_path / f"part{i}.parquet")
    for path in (tmp_path, tmp_path / "part*.parquet"):
        assert main(["fit", str(path), TONES, "-k", "2", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["nobs"] == 150


def test_other_separators_and_encodings(capsys, tmp_path):
    path = tmp_path / "tones.csv"
    data = datasets.tonedata().assign(who="Müller")
    data.to_csv(path, index=False, sep=";", encoding="cp1252")
    call = ["fit", str(path), TONES, "-k", "1"]
    assert main(call) == 2
    assert "is no UTF-8 text; say what it is, as --encoding cp1252" in last_line(capsys)
    assert main([*call, "--encoding", "cp1252"]) == 2
    assert "has ';' between its columns; add --sep ';'" in last_line(capsys)
    assert main([*call, "--encoding", "cp1252", "--sep", ";"]) == 0
    capsys.readouterr()
    assert main([*call, "--encoding", "klingon"]) == 2
    assert "--encoding klingon is unknown" in last_line(capsys)


def test_what_is_kept(capsys, tmp_path, tones):
    fit, labels, picture = (str(tmp_path / name) for name in ("fit", "labels.csv", "k.png"))
    call = ["fit", tones, TONES, "-k", "1:2", "--save", fit, "--labels", labels, "--plot", picture]
    assert main([*call, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    res = MixReg.from_formula(TONES, datasets.tonedata(), k=2).fit()
    assert_allclose(mixreg.load(fit).llf, res.llf)
    assert (pd.read_csv(labels)["component"] == res.labels).all()
    assert os.path.getsize(picture) > 5000


# Predictions


def test_predictions_go_to_a_file_or_are_printed(capsys, tmp_path, tones):
    fit, data = str(tmp_path / "fit"), datasets.tonedata()
    assert main(["fit", tones, TONES, "-k", "2", "--save", fit, "--quiet"]) == 0
    capsys.readouterr()
    res = mixreg.load(fit)
    assert main(["predict", fit, tones]) == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert_frame_equal(printed.drop(columns="row"), res.assign(data), check_names=False)
    for which in ("mean", "component", "posterior", "label"):
        for suffix in ("csv", "parquet", "feather", "xlsx"):
            path = tmp_path / f"out.{suffix}"
            assert main(["predict", fit, tones, "-o", str(path), "--which", which]) == 0
            read = {"xlsx": "excel"}.get(suffix, suffix)
            found = getattr(pd, f"read_{read}")(path).drop(columns="row")
            want = np.asarray(res.predict(data, which)).reshape(len(data), -1)
            assert_allclose(found, want)
    assert capsys.readouterr().out == ""


# Bad calls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["DATA", "tuned ~ ratio", "-k", "2"],
            "names 'ratio', which is not a column of data; columns are",
        ),
        (["DATA", "tuned ~ class", "-k", "2"], "write Q('class')"),
        (["DATA", "tuned ~ stretchratio | x", "-k", "2"], "groups='x'"),
        (["DATA", TONES, "-k", "two"], "-k two is no number of segments; write -k 3, or -k 1:6"),
        (["DATA", TONES, "-k", "0"], "-k 0 is no number of segments"),
        (["DATA", TONES, "-k", "3:1"], "-k 3:1 is no number of segments"),
        (["DATA", TONES, "-k", "500"], "k=500 is more than the 150 rows"),
        (["DATA", TONES, "-k", "2", "--groups", "who"], "groups='who' is not a column of data"),
        (["DATA", TONES, "-k", "2", "--family", "cauchy"], "cauchy"),
        (["DATA", TONES, "-k", "1:3", "--method", "vb"], "--method vb is for one k"),
        (["DATA", TONES, "-k", "2", "--save", "no/such/folder/fit"], "there is no folder"),
        (["none.csv", TONES, "-k", "2"], "there is no file 'none.csv'"),
        (["tones.doc", TONES, "-k", "2"], "no file 'tones.doc'"),
        (["DATA", TONES, "-k", "2", "--sep", ";"], "has ',' between its columns; add --sep ','"),
    ],
)
def test_a_bad_fit_is_told_in_one_line(arguments, message, capsys, tones):
    assert main(["fit", *(tones if each == "DATA" else each for each in arguments)]) == 2
    assert message in last_line(capsys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--save", "no/such/folder/fit"], "there is no folder no/such/folder; make it first"),
        (["--save", "HERE"], "is a folder; name a file in it"),
        (["--labels", "HERE/a.xlsx"], "says no format; end it in .parquet, .feather"),
        (["--labels", "no/such/a.csv"], "there is no folder no/such"),
        (["--plot", "HERE/a.exe"], "ends in no format of pictures; end it in .png, .pdf or .svg"),
        (["--plot", "no/such/a.png"], "there is no folder"),
        (["--report", "no/such/a.html"], "there is no folder"),
        (["--labels", "DATA"], "would take the place of the data"),
        (["--save", "HERE/a", "--report", "HERE/./a"], "would take the place of --save"),
    ],
)
def test_files_to_write_are_looked_at_before_the_fit(
    options, message, capsys, tones, tmp_path, monkeypatch
):
    monkeypatch.setattr(MixReg, "fit", lambda *args, **more: pytest.fail("it was fitted"))
    folder = str(tmp_path)
    options = [tones if each == "DATA" else each.replace("HERE", folder) for each in options]
    before = Path(tones).read_text(encoding="utf-8")
    assert main(["fit", tones, TONES, "-k", "2", *options]) == 2
    assert message in last_line(capsys)
    assert Path(tones).read_text(encoding="utf-8") == before
    assert os.listdir(tmp_path) == ["tones.csv"]


def test_a_prediction_looks_at_its_file_first(capsys, tones, tmp_path, monkeypatch):
    fit = str(tmp_path / "fit")
    assert main(["fit", tones, TONES, "-k", "2", "--save", fit, "--quiet"]) == 0
    capsys.readouterr()
    monkeypatch.setattr("mixreg.cli.fitting.load", lambda path: pytest.fail("it was read"))
    for out, message in (
        ("a.exe", "is of no known format"),
        ("no/such/a.csv", "there is no folder"),
        (tones, "is what is read"),
    ):
        assert main(["predict", fit, tones, "-o", out]) == 2
        assert message in last_line(capsys)


def test_a_file_that_cannot_be_written_loses_neither_the_output_nor_other_files(
    capsys, tones, tmp_path, monkeypatch
):
    def full(self, path):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(mixreg.MixRegResults, "save", full)
    labels = tmp_path / "labels.csv"
    call = ["fit", tones, TONES, "-k", "2", "--save", str(tmp_path / "a"), "--labels", str(labels)]
    assert main([*call, "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert "Mixture of Linear Regressions" in out
    assert err == f"mixreg: {tmp_path / 'a'}: No space left on device\n"
    assert len(pd.read_csv(labels)) == 150


def test_who_stops_reading_the_output_still_gets_the_files(tones, tmp_path):
    fit = tmp_path / "fit"
    command = [sys.executable, "-m", "mixreg", "fit", tones, TONES, "-k", "1", "--save", str(fit)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(timeout=120) == 0
    assert mixreg.load(fit).k == 1


# Python's own limit of calls within calls, and the one that importing PyMC sets.
@pytest.fixture(params=[1_000, 10_000])
def recursion_limit(request):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(request.param)
    yield request.param
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("recursion_limit")
@pytest.mark.parametrize(
    "side",
    [
        " + ".join(["stretchratio"] * 3000),
        "(" * 300 + "stretchratio" + ")" * 300,
        "I(" + "-" * 3000 + "stretchratio)",
        "I(" + " + ".join(["stretchratio"] * 1500) + ")",
        "np.abs(" * 150 + "stretchratio" + ")" * 150,
    ],
    ids=["terms", "brackets", "signs", "sum", "calls"],
)
def test_a_formula_that_is_nested_too_deeply(side, capsys, tones):
    for formula in ([f"tuned ~ {side}"], [TONES, "--concomitant", f"~ {side}"]):
        assert main(["fit", tones, *formula, "-k", "2"]) == 2
        assert "nested too deeply" in last_line(capsys)


def test_bad_files_are_told_in_one_line(capsys, tmp_path, tones):
    for name, message in (
        ("a.doc", "is of no known format; names end in .csv"),
        ("a.csv", "is empty"),
        ("a.parquet", "cannot be read"),
        ("a.xlsx", "cannot be read"),
    ):
        (tmp_path / name).write_bytes(b"")
        assert main(["fit", str(tmp_path / name), TONES, "-k", "2"]) == 2
        assert message in last_line(capsys)
    (tmp_path / "b.csv").write_text("tuned,stretchratio\n")
    assert main(["fit", str(tmp_path / "b.csv"), TONES, "-k", "2"]) == 2
    assert "has no rows" in last_line(capsys)
    assert main(["predict", tones, tones]) == 2
    assert "not a file of mixreg" in last_line(capsys)
    assert main(["predict", str(tmp_path / "none"), tones]) == 2
    assert "there is no file" in last_line(capsys)


@pytest.mark.parametrize("k", ["2", "1:2"])
def test_a_report_and_a_picture(k, capsys, tmp_path, tones):
    page, picture = tmp_path / "segments.html", tmp_path / "segments.png"
    call = ["fit", tones, TONES, "-k", k, "--report", str(page), "--plot", str(picture)]
    assert main([*call, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert "stretchratio" in page.read_text(encoding="utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "formula",
    [
        "tuned ~ __import__('os').system('touch HERE')",
        "tuned ~ I(open('HERE', 'w'))",
        "tuned ~ eval('1')",
        "tuned ~ stretchratio.to_csv('HERE')",
        "tuned ~ np.save('HERE', stretchratio)",
        "tuned ~ np.lib.npyio.np.save('HERE', stretchratio)",
        "tuned ~ pd.read_csv('HERE')",
        "tuned ~ (lambda: open('HERE', 'w'))()",
        "tuned ~ [x for x in [open('HERE', 'w')]]",
        "I(open('HERE', 'w')) ~ stretchratio",
    ],
)
@pytest.mark.parametrize("place", ["formula", "concomitant"])
def test_a_formula_cannot_run_code(formula, place, capsys, tmp_path, tones):
    mark = tmp_path / "mark"
    formula = formula.replace("HERE", str(mark))
    call = ["fit", tones, formula, "-k", "2"]
    if place == "concomitant":
        side = formula.partition("~")[2]
        call = ["fit", tones, TONES, "-k", "2", "--concomitant", f"~ {side}"]
        if "open" in formula.partition("~")[0]:
            call[-1] = f"~ {formula.partition('~')[0]}"
    assert main(call) == 2
    last_line(capsys)
    assert not mark.exists()


def test_a_traceback_only_when_asked_for(capsys, monkeypatch, tones):
    call = ["fit", tones, TONES, "-k", "500"]
    with pytest.raises(mixreg.InputError, match="k=500 is more than"):
        main([*call, "--debug"])

    def broken(*_, **__):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(MixReg, "fit", broken)
    assert main(["fit", tones, TONES, "-k", "2"]) == 1
    assert last_line(capsys) == "mixreg: RuntimeError: two lines (add --debug to see where)\n"

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(MixReg, "fit", interrupted)
    assert main(["fit", tones, TONES, "-k", "2"]) == 130
    assert last_line(capsys) == "mixreg: interrupted\n"


def test_warnings_are_one_line_on_stderr(capsys, tmp_path):
    path = tmp_path / "tones.csv"
    data = datasets.tonedata()
    data.assign(cost=[f"${i}.50" for i in range(150)]).to_csv(path, index=False)
    assert main(["fit", str(path), "tuned ~ cost", "-k", "1"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("mixreg: warning: column 'cost' is text")
    assert err.count("\n") == 1
    assert "Mixture" in out


def test_python_runs_it_as_a_module(tones):
    run = [sys.executable, "-m", "mixreg"]
    good = subprocess.run([*run, "datasets"], capture_output=True, text=True, check=True)
    assert "cheese" in good.stdout
    bad = subprocess.run([*run, "fit", tones, "a ~ b", "-k", "2"], capture_output=True, text=True)
    assert bad.returncode == 2
    assert bad.stdout == ""
    assert bad.stderr.count("\n") == 1
    pipe = f"{sys.executable} -m mixreg datasets cheese | head -1"
    piped = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=True)
    assert piped.stdout == "RETAILER,VOLUME,DISP,PRICE\n"
    assert piped.stderr == ""


def test_the_fit_of_the_demo_is_quick():
    demo, data = DEMOS["cheese"], datasets.cheese()
    model = MixReg.from_formula(demo.formula, data, k=demo.k, **demo.options)
    spent = []
    for _ in range(3):
        begin = time.process_time()
        model.fit()
        spent.append(time.process_time() - begin)
    assert min(spent) < 1.0
