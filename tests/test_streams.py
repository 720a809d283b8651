"""Rows in files give the numbers of the same rows in memory."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mixreg
from mixreg import InputError, MixReg, NotAvailableError, select_k
from mixreg.errors import FileFormatError
from mixreg.jobs import solve
from mixreg.reading import files
from mixreg.sources import scratch
from mixreg.sources.scratch import ScratchWriter
from mixreg.table.chunks import whole_groups
from tests.test_chunks import CASES, FEWER, assert_same, choices, close, table, table_of

SEEN = 160


@pytest.fixture
def small(monkeypatch):
    """Chunks, blocks and samples of few rows, so that a small table is a large one."""
    monkeypatch.setattr(files, "CHUNK_ROWS", 50)
    monkeypatch.setattr(scratch, "block_rows", lambda p: 32)
    monkeypatch.setattr(solve, "searched_rows", lambda p: SEEN)


def in_files(data: pd.DataFrame, folder) -> str:
    """The table in two Parquet files."""
    data.iloc[:131].to_parquet(folder / "1.parquet")
    data.iloc[131:].to_parquet(folder / "2.parquet")
    return str(folder / "*.parquet")


def both(data, folder, case, k=2, **options):
    """The fit of rows in memory, and of the same rows in files."""
    formula, declared, fit = case
    fit = {"n_init": 2, **fit, **options}
    return [
        MixReg.from_formula(formula, given, k=k, **declared).fit(**fit)
        for given in (data, in_files(data, folder))
    ]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", FEWER)
def test_files_and_memory_agree(name, tmp_path):
    memory, far = both(table_of(name), tmp_path, CASES[name])
    assert far.model.source.rows > SEEN
    assert_same(far, memory)
    assert far.model.loglike(far.params) == pytest.approx(memory.model.loglike(far.params))
    assert_array_equal(far.labels.index, memory.labels.index)


@pytest.mark.usefixtures("small")
def test_formulas_learn_from_all_chunks(tmp_path):
    data = table()
    rng = np.random.default_rng(1)
    data["region"] = np.sort(rng.choice(["north", "south", "east"], len(data)))
    data["yes"] = rng.random(len(data)) < 0.5
    formula = "y ~ C(region) + center(x1) + standardize(x2) + bs(offset, df=4) + yes"
    case = (formula, {"concomitant": "~ age + C(region)"}, {})
    memory, far = both(data, tmp_path, case)
    assert_same(far, memory)
    new = data.head(20)
    close(far.predict(new), memory.predict(new))
    close(far.predict(new, "posterior"), memory.predict(new, "posterior"))


@pytest.mark.usefixtures("small")
def test_missing_values_are_left_out_of_files_too(tmp_path):
    data = table()
    for i, name in enumerate(["x1", "y", "age", "weight"]):
        data.loc[data.index[7 + 11 * i :: 97], name] = np.nan
    data["count"] = data["count"].astype("Int64")
    data.loc[[3, 300], "count"] = pd.NA
    case = (["y ~ x1 + x2", "count ~ x1"], {"family": ["gaussian", "poisson"]}, {})
    memory, far = both(data, tmp_path, case)
    assert_same(far, memory)
    assert memory.nobs < len(data)
    assert_array_equal(far.labels.index, memory.labels.index)
    assert far.fitted.tally.given == memory.fitted.tally.given == len(data)
    case = ("y ~ np.log(x1)", {"concomitant": "~ age", "weights": "weight"}, {})
    with np.errstate(invalid="ignore"):
        memory, far = both(data, tmp_path, case)
    assert_same(far, memory)
    with pytest.raises(InputError, match=r"missing values in x1 \("):
        MixReg.from_formula("y ~ x1", in_files(data, tmp_path), k=2, missing="raise")
    with pytest.raises(InputError, match=r"missing values in weights"):
        MixReg.from_formula(
            "wide ~ x2", in_files(data, tmp_path), k=2, weights="weight", missing="raise"
        )


@pytest.mark.usefixtures("small")
def test_what_users_ask_of_results_of_files(tmp_path):
    data = table()
    case = ("y ~ x1 + x2", {"groups": "group", "weights": "weight", "offset": "offset"}, {})
    memory, far = both(data, tmp_path, case)
    for name in ("group_labels", "group_posterior", "labels", "posterior", "weights", "params"):
        one, other = getattr(far, name), getattr(memory, name)
        assert_array_equal(one.index, other.index)
        close(one, other)
    close(far.importance().drop(columns="overall"), memory.importance().drop(columns="overall"))
    close(far.predict(), memory.predict())
    close(far.predict(which="component"), memory.predict(which="component"))
    pd.testing.assert_frame_equal(far.simulate(3), memory.simulate(3))
    aside = far.params + 0.1
    close(far.model.score(aside), memory.model.score(aside))
    close(far.bootstrap(5, "group", n_jobs=1).draws, memory.bootstrap(5, "group", n_jobs=1).draws)
    close(far.profile(data[["age"]]).table, memory.profile(data[["age"]]).table)
    assert str(far.summary()).replace("files", "") == str(memory.summary())


@pytest.mark.usefixtures("small")
def test_results_of_files_are_copied_pickled_and_saved(tmp_path):
    data = table()
    far = MixReg.from_formula("y ~ x1", in_files(data, tmp_path), k=2, groups="group").fit(n_init=2)
    for twin in (copy.deepcopy(far), pickle.loads(pickle.dumps(far))):
        close(twin.posterior, far.posterior)
        close(twin.model.loglike(far.params), far.llf)
    far.save(tmp_path / "fit.mixreg")
    loaded = mixreg.load(tmp_path / "fit.mixreg")
    assert_array_equal(loaded.group_labels, far.group_labels)
    close(loaded.predict(data), far.predict(data))
    far.remove_data()
    assert_array_equal(loaded.group_labels, far.group_labels)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": np.zeros(320)}, "groups is an array, but data in files"),
        ({"weights": "wait"}, "weights='wait' is not a column of the data; did you mean '"),
        ({"concomitant": "~ old"}, "the formula names 'old', which is not a column"),
        ({"subset": "x1 > 100"}, "no rows"),
        ({"k": 400}, "k=400 is more than the 320 rows"),
        ({"known_labels": {1: 1}}, "known_labels as a dict needs groups="),
        ({"scratch": "nowhere/at/all"}, "scratch='nowhere/at/all' cannot be written to"),
    ],
)
def test_what_files_cannot_do_is_told(options, message, tmp_path):
    where = in_files(table(), tmp_path)
    with pytest.raises(InputError, match=message):
        MixReg.from_formula("y ~ x1", where, **{"k": 2, **options})


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("term", ["I(x1 - np.mean(x1))", "np.cumsum(x1)"])
def test_terms_that_look_at_other_rows_are_refused(term, tmp_path):
    with pytest.raises(InputError, match="looks at rows beside its own"):
        MixReg.from_formula(f"y ~ {term}", in_files(table(), tmp_path), k=2)


@pytest.mark.usefixtures("small")
def test_arrays_beside_rows_in_files_are_refused(tmp_path):
    far = MixReg.from_formula("y ~ x1", in_files(table(), tmp_path), k=2)
    with pytest.raises(NotAvailableError, match="rows that are not in memory"):
        far.fit(init=np.ones(320))
    outside = np.zeros(320)
    with pytest.raises(InputError, match="'outside', an array that is no column"):
        MixReg.from_formula("y ~ x1 + outside", in_files(table(), tmp_path), k=2)
    assert len(outside) == 320


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("at", [10, 248])
def test_groups_that_do_not_lie_together_are_named(at, tmp_path):
    data = table()
    data.loc[at, "group"] = 0
    where = in_files(data, tmp_path)
    message = rf"group 0 of 'group' is at row 0 and again at row {at}, .*sort=True.*ORDER BY group"
    with pytest.raises(InputError, match=message):
        MixReg.from_formula("y ~ x1", where, k=2, groups="group")
    far = MixReg.from_formula("y ~ x1", where, k=2, groups="group", sort=True).fit(n_init=4)
    memory = MixReg.from_formula("y ~ x1", data, k=2, groups="group").fit(n_init=4)
    assert_allclose(far.llf, memory.llf, rtol=1e-9)
    assert_array_equal(far.group_labels.sort_index(), memory.group_labels.sort_index())
    assert_array_equal(far.labels.sort_index(), memory.labels)


@pytest.mark.usefixtures("small")
def test_weights_of_proportions_are_trials_in_files_too(tmp_path):
    data = table()
    # The first chunks have no proportion that is neither 0 nor 1.
    data.loc[:150, "share"] = (data.share[:151] > 0.5).astype(float)
    case = ("share ~ x1", {"family": "binomial", "weights": "trials"}, {})
    memory, far = both(data, tmp_path, case)
    assert_same(far, memory)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("suffix", ["parquet", "feather", "csv"])
def test_labels_are_written_as_they_are_made(suffix, tmp_path):
    read = getattr(pd, f"read_{suffix}")
    data = table()
    data.loc[[3, 100], "y"] = np.nan
    memory, far = both(data, tmp_path, ("y ~ x1", {"groups": "group"}, {}))
    for fit in (memory, far):
        (tmp_path / "out").mkdir(exist_ok=True)
        path = tmp_path / "out" / f"labels.{suffix}"
        assert fit.write_labels(path) == fit.ngroups
        found = read(path)
        assert list(found.columns) == ["group", "component", "p1", "p2"]
        assert_array_equal(found["group"], memory.group_labels.index)
        assert_array_equal(found["component"], memory.group_labels)
        assert_allclose(found[["p1", "p2"]], memory.group_posterior, rtol=1e-9, atol=1e-12)
        assert fit.write_labels(path, rows=True) == fit.nobs
        found = read(path)
        assert_array_equal(found["row"], memory.labels.index)
        assert_array_equal(found["group"], data["group"].drop([3, 100]))
        assert_array_equal(found["component"], memory.labels)
    plain = MixReg.from_formula("y ~ x1", in_files(data, tmp_path), k=2).fit(n_init=2)
    plain.write_labels(path)
    assert_array_equal(read(path)["row"], plain.labels.index)
    assert_array_equal(read(path)["component"], plain.labels)


FILL_UP = """
import resource, signal, sys
import pandas as pd
import polars as pl
from mixreg import InputError, MixReg
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    MixReg.from_formula("y ~ x1 + x2", sys.argv[1], k=2, scratch=sys.argv[2])
except InputError as error:
    print(error)
"""


def test_a_scratch_folder_that_fills_up_is_told_and_left_empty(tmp_path):
    where = in_files(table(2_000), tmp_path)
    place = tmp_path / "scratch"
    place.mkdir()
    run = [sys.executable, "-c", FILL_UP, where, str(place)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert f"the scratch folder '{place}' is full after 0.00 GB" in done.stdout
    assert "name another with scratch='folder'" in done.stdout
    assert list(place.iterdir()) == []


KILLED = """
import os, signal, sys
from mixreg import MixReg
model = MixReg.from_formula("y ~ x1", sys.argv[1], k=2, scratch=sys.argv[2], groups="group",
                            sort=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_is_left_of_a_process_that_is_killed(tmp_path):
    place = tmp_path / "scratch"
    place.mkdir()
    run = [sys.executable, "-c", KILLED, in_files(table(), tmp_path), str(place)]
    assert subprocess.run(run, check=False).returncode == -signal.SIGKILL
    assert list(place.iterdir()) == []


def test_disk_is_given_back_when_a_model_goes(tmp_path):
    # What other tests left open is not counted.
    gc.collect()
    model = MixReg.from_formula("y ~ x1", in_files(table(2_000), tmp_path), k=2)
    number = len(os.listdir("/proc/self/fd"))
    del model
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == number - 2


@pytest.mark.usefixtures("small")
def test_reading_is_told_by_a_bar(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("mixreg.jobs.bar.OFTEN", 0.0)
    where = in_files(table(), tmp_path)
    MixReg.from_formula("y ~ x1", where, k=2, progress=True)
    shown = capsys.readouterr().err
    assert "mixreg, reading" in shown
    assert "320 rows" in shown
    MixReg.from_formula("y ~ x1", where, k=2)
    MixReg.from_formula("y ~ x1", where, k=2, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("small")
def test_several_k_are_fitted_to_files_by_worker_processes(tmp_path):
    data = table()
    where = in_files(data, tmp_path)
    memory = select_k("y ~ x1", data, [1, 2], n_init=2, n_jobs=1)
    for n_jobs in (1, 2):
        far = select_k("y ~ x1", where, [1, 2], n_init=2, n_jobs=n_jobs)
        close(far.table["bic"], memory.table["bic"])


@pytest.mark.usefixtures("small")
def test_a_checkpoint_of_a_fit_to_files_is_taken_up(tmp_path):
    data = table()
    where, path = in_files(data, tmp_path), tmp_path / "fit.ckpt"
    fits = [
        MixReg.from_formula("y ~ x1", where, k=2).fit(n_init=2, checkpoint=path) for _ in range(2)
    ]
    assert_array_equal(fits[0].params, fits[1].params)
    in_files(data.assign(y=data.y + 1e-9), tmp_path)
    with pytest.raises(FileFormatError, match="the response differs"):
        MixReg.from_formula("y ~ x1", where, k=2).fit(n_init=2, checkpoint=path)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["polars", "duckdb"])
def test_queries_are_streamed_where_a_scratch_folder_is_named(kind, tmp_path):
    data = table()
    data["region"] = np.where(data.x1 > 0, "north", "south")
    data.loc[5, "x2"] = np.nan
    query = pl.from_pandas(data).lazy() if kind == "polars" else duckdb.from_df(data)
    memory = MixReg.from_formula("y ~ x2 + region", data, k=2, groups="group").fit(n_init=2)
    model = MixReg.from_formula("y ~ x2 + region", query, k=2, groups="group", scratch=tmp_path)
    with pytest.raises(NotAvailableError, match="not in memory"):
        _ = model.units
    assert_same(model.fit(n_init=2), memory)
    in_memory = MixReg.from_formula("y ~ x2 + region", query, k=2, groups="group")
    assert in_memory.units.labels is not None
    with pytest.raises(InputError, match="scratch= and sort= are for data that are not in memory"):
        MixReg.from_formula("y ~ x2", data, k=2, scratch=tmp_path)


@pytest.mark.usefixtures("small")
def test_many_groups_are_named_where_the_rows_are(tmp_path, monkeypatch):
    for module in ("report.fitted", "files.agree"):
        monkeypatch.setattr(f"mixreg.{module}.KEPT_GROUPS", 10)
    data = table()
    far = MixReg.from_formula("y ~ x1", in_files(data, tmp_path), k=2, groups="group").fit(n_init=2)
    assert far.fitted.groups is None
    assert_array_equal(far.group_labels.index, data["group"].unique())
    known = far.predict(data[["x1", "group"]].head(8), "posterior")
    close(known.iloc[4:8], far.group_posterior.iloc[[1]].to_numpy().repeat(4, axis=0))
    far.save(tmp_path / "fit.mixreg")
    loaded = mixreg.load(tmp_path / "fit.mixreg")
    with pytest.raises(NotAvailableError, match="does not keep the names of 80 groups"):
        _ = loaded.group_labels
    close(loaded.predict(data), far.predict(data))


@pytest.mark.usefixtures("small")
def test_samples_of_units_that_count_do_not_depend_on_blocks(tmp_path, monkeypatch):
    data = table()
    memory = MixReg.from_formula("y ~ x1", data, k=2, groups="group", weights="some").source
    for rows in (20, 32, 1_000):
        monkeypatch.setattr(scratch, "block_rows", lambda p, rows=rows: rows)
        where = in_files(data, tmp_path)
        far = MixReg.from_formula("y ~ x1", where, k=2, groups="group", weights="some").source
        one, other = (s.counting().sample(90, 5).as_block() for s in (memory, far))
        assert_array_equal(one.x, other.x)
        assert_array_equal(one.numbers, other.numbers)
        assert far.counting().fingerprint() == memory.counting().fingerprint()
        twice = [s.redrawn(3).counting().sample(60, 1).as_block().x for s in (memory, far)]
        assert_array_equal(*twice)


@pytest.mark.usefixtures("small")
def test_groups_longer_than_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr("mixreg.sources.stream.AT_HAND_BYTES", 1)
    data = table()
    data["long"] = data["group"] // 20
    memory, far = both(data, tmp_path, ("y ~ x1", {"groups": "long"}, {}))
    assert_same(far, memory)
    assert len(far.bootstrap(6, "group", n_jobs=1).draws) >= 2


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("sort", [False, True])
def test_rows_without_a_group_are_left_out_and_not_held(sort, tmp_path):
    data = table()
    data["group"] = data["group"].astype("Int64")
    data.loc[60:220, "group"] = pd.NA
    data.loc[[7, 300], "group"] = pd.NA
    memory = MixReg.from_formula("y ~ x1", data, k=2, groups="group").fit(n_init=2)
    where = in_files(data, tmp_path)
    far = MixReg.from_formula("y ~ x1", where, k=2, groups="group", sort=sort)
    assert far.nobs == memory.nobs
    assert far.rows.names.given == len(data)
    assert_allclose(far.fit(n_init=2).llf, memory.llf, rtol=1e-9)
    frames = [data.iloc[first : first + 50] for first in range(0, 320, 50)]
    assert max(len(frame) for frame in whole_groups(iter(frames), "group")) <= 100


def test_a_handle_does_not_open_another_models_file(tmp_path):
    data = table()
    model = MixReg.from_formula("y ~ x1", in_files(data, tmp_path), k=2)
    kept = pickle.dumps(model.source)
    del model
    gc.collect()
    other = MixReg.from_formula("x2 ~ x1", in_files(data, tmp_path), k=2)
    with pytest.raises(NotAvailableError, match="gone with the model or the process"):
        pickle.loads(kept)
    assert other.nobs == len(data)


def test_known_labels_of_groups_that_are_not_there_are_refused(tmp_path):
    where = in_files(table(), tmp_path)
    with pytest.raises(InputError, match=r"groups that data does not have: \[999\]"):
        MixReg.from_formula("y ~ x1", where, k=2, groups="group", known_labels={0: 1, 999: 2})


def test_labels_cannot_be_called_as_their_groups_are(tmp_path):
    data = table().rename(columns={"group": "component"})
    fit = MixReg.from_formula("y ~ x1", data, k=2, groups="component").fit(n_init=1)
    with pytest.raises(InputError, match="the groups are called 'component'"):
        fit.write_labels(tmp_path / "labels.csv")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("sort", [False, True])
def test_labels_of_choices_are_in_the_order_of_the_data(sort, tmp_path):
    data = choices()
    # Sets of a group lie in each other.
    order = np.argsort(np.arange(len(data)) // 16 * 16 + np.arange(len(data)) % 4, kind="stable")
    data = data.iloc[order].reset_index(drop=True)
    options = {"k": 2, "family": "choice", "choice_set": "set", "groups": "group"}
    memory = MixReg.from_formula("chosen ~ x1 + x2", data, **options).fit(n_init=2)
    where = in_files(data, tmp_path)
    far = MixReg.from_formula("chosen ~ x1 + x2", where, **options, sort=sort).fit(n_init=2)
    assert_array_equal(far.labels.index, data.index)
    assert_array_equal(far.labels, memory.labels)
    assert_allclose(far.predict(), memory.predict(), rtol=1e-6)


@pytest.mark.usefixtures("small")
def test_files_that_change_while_they_are_read_are_refused(tmp_path, monkeypatch):
    where, plain = in_files(table(), tmp_path), ScratchWriter.append

    def append(self, block):
        os.utime(tmp_path / "2.parquet", (1, 1))
        plain(self, block)

    monkeypatch.setattr(ScratchWriter, "append", append)
    with pytest.raises(InputError, match="changed while they were read"):
        MixReg.from_formula("y ~ x1", where, k=2)
