"""Checkpoints: a fit that was killed is taken up, and ends with the same numbers."""

import signal
import time
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import checkpoint as killing
from mixreg import MixReg, load
from mixreg.errors import ConvergenceWarning, FileFormatError, InputError
from mixreg.estimators import runs
from mixreg.files.trees import packed, unpacked
from mixreg.jobs import checkpoint, journal, solve
from mixreg.jobs.journal import Checkpoint
from mixreg.search import account
from tests.samples import lines, shops

FORMULA = "y ~ x1 + x2"
ROWS = 300


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    table = lines(ROWS, noise=1.0)
    return table.assign(
        count=rng.poisson(np.exp(np.clip(table.y / 2, -3, 2))),
        won=(table.y > 0).astype(int),
        age=rng.standard_normal(ROWS) + table.z,
        team=np.arange(ROWS) // 5,
    )


KINDS = {
    "em": (FORMULA, {}, {}),
    "altmin": (FORMULA, {}, {"method": "altmin"}),
    "vb": (FORMULA, {}, {"method": "vb"}),
    "labels": (FORMULA, {}, {"init": np.arange(ROWS) % 3 + 1}),
    "poisson": ("count ~ x1 + x2", {"family": "poisson"}, {}),
    "groups": ("won ~ x1 + x2", {"family": "binomial", "groups": "team"}, {}),
    "gate": (FORMULA, {"concomitant": "~ age"}, {}),
    "noise": (FORMULA, {"noise": True}, {}),
    "joint": (["y ~ x1", "count ~ x2"], {"family": ["gaussian", "poisson"]}, {}),
}


def make(data, kind="em", k=3):
    formula, declared, options = KINDS[kind]
    return MixReg.from_formula(formula, data, k=k, **declared), options


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A fit, and what its checkpoint holds."""
    path = tmp_path_factory.mktemp("finished") / "fit.ckpt"
    whole = make(data)[0].fit(checkpoint=path)
    return whole, path.read_bytes()


@pytest.fixture
def whole(finished):
    return finished[0]


@pytest.fixture
def path(finished, tmp_path):
    """A checkpoint of that fit, for a test to do with as it likes."""
    path = tmp_path / "fit.ckpt"
    path.write_bytes(finished[1])
    return path


def same(one, other):
    """Whether two fits agree in every bit that they report."""
    for name in ("params", "bse", "posterior", "history", "scale"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.llf == other.llf
    assert one.n_iter == other.n_iter
    assert one.fitted.search == other.fitted.search
    assert str(one.diagnostics) == str(other.diagnostics)
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_stopped_anywhere_ends_the_same(data, kind, tmp_path, monkeypatch):
    model, options = make(data, kind)
    whole = model.fit(**options)
    monkeypatch.setattr(journal, "EVERY", 0.0)
    monkeypatch.setattr(journal, "SPARE", 0.0)
    files: list[bytes] = []
    monkeypatch.setattr(journal, "write_file", lambda path, content: files.append(content))
    assert same(model.fit(**options, checkpoint=tmp_path / "fit.ckpt"), whole)
    monkeypatch.undo()
    for content in [files[0], files[len(files) // 2], files[-1]]:
        (tmp_path / "fit.ckpt").write_bytes(content)
        assert same(model.fit(**options, checkpoint=tmp_path / "fit.ckpt"), whole)


def test_many_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(solve, "searched_rows", lambda p: 500)
    model = MixReg.from_formula(FORMULA, lines(4_000, noise=2.0), k=3)
    whole = model.fit(n_init=2)
    files: list[bytes] = []
    with monkeypatch.context() as patch:
        patch.setattr(journal, "EVERY", 0.0)
        patch.setattr(journal, "SPARE", 0.0)
        patch.setattr(journal, "write_file", lambda path, content: files.append(content))
        model.fit(n_init=2, checkpoint=tmp_path / "fit.ckpt")
    assert whole.model.source.rows > 500
    for content in [files[1], files[len(files) // 2]]:
        (tmp_path / "fit.ckpt").write_bytes(content)
        assert same(model.fit(n_init=2, checkpoint=tmp_path / "fit.ckpt"), whole)


def test_killed_for_good(tmp_path):
    """`python -m benchmarks checkpoint` kills a longer fit at many more moments."""
    path, whole, ended = tmp_path / "fit.ckpt", tmp_path / "whole.npz", tmp_path / "ended.npz"
    # One alone, and one that is killed twice: once it has a file, and once it has another.
    table = tmp_path / "table.parquet"
    killing.write(table, 1500)
    alone = killing.start(None, whole, table, "memory")
    killed = 0
    for _ in range(2):
        run, before = killing.start(path, ended, table, "memory"), killing.written(path)
        while run.poll() is None and killing.written(path) == before:
            time.sleep(0.01)
        assert path.exists()
        killed += killing.kill_after(0.0, run)
    assert killed
    assert killing.start(path, ended, table, "memory").wait() == 0
    assert alone.wait() == 0
    assert killing.agree(whole, ended)


def test_what_is_done_is_not_done_again(data, whole, path, monkeypatch):
    model, _ = make(data)

    def never(*args):
        raise AssertionError

    monkeypatch.setattr(account, "race", never)
    monkeypatch.setattr(runs, "iterate", never)
    assert same(model.fit(checkpoint=str(path)), whole)


def test_other_standard_errors_take_the_same_checkpoint(data, path):
    model, _ = make(data)
    robust = model.fit(checkpoint=path, cov_type="robust")
    assert same(robust, model.fit(cov_type="robust"))


def test_after_an_interrupt(data, whole, tmp_path, monkeypatch):
    # Also where whoever started the tests has Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    model, _ = make(data)
    race, calls = account.race, []

    def pressed(*args):
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return race(*args)

    monkeypatch.setattr(account, "race", pressed)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        cut = model.fit(checkpoint=tmp_path / "fit.ckpt", on_interrupt="return")
    signal.signal(signal.SIGINT, before)
    assert not cut.converged
    assert unpacked((tmp_path / "fit.ckpt").read_bytes(), Checkpoint).found is None
    assert same(model.fit(checkpoint=tmp_path / "fit.ckpt"), whole)


def test_runs_from_other_starts_are_not_taken(data, whole, path):
    model, _ = make(data)
    kept = unpacked(path.read_bytes(), Checkpoint)
    other = tuple(replace(ends, start="elsewhere", coef=ends.coef + 1) for ends in kept.ends)
    path.write_bytes(packed(replace(kept, ends=other)))
    assert same(model.fit(checkpoint=path), whole)


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"n_init": 3}, "n_init was 16 and is 3"),
        ({"tol": 1e-9}, "tol was 1e-10 and is 1e-09"),
        ({"max_iter": 7}, "max_iter was 1000 and is 7"),
        ({"method": "altmin"}, "method was em and is altmin"),
        ({"init": "random"}, "init was 'auto' and is 'random'; n_init was 16 and is 1"),
    ],
)
def test_other_options(data, path, options, message):
    model, _ = make(data)
    with pytest.raises(FileFormatError, match=f"another fit: {message}. Fit the same"):
        model.fit(checkpoint=path, **options)


def test_other_data_and_other_models(data, path):
    changed = data.assign(y=data.y + (np.arange(ROWS) == 77) * 1e-9)
    cases = {
        "the response differs": make(changed)[0],
        "the regressors differ": MixReg.from_formula("y ~ x1 + age", data, k=3),
        "the weights differ": MixReg.from_formula(
            FORMULA, data, k=3, weights=np.arange(ROWS) + 1.0
        ),
        "the groups differ": MixReg.from_formula(FORMULA, data, k=3, groups="team"),
        "the concomitants differ": make(data, "gate")[0],
        "k was 3 and is 2": make(data, k=2)[0],
        "shared was": MixReg.from_formula(FORMULA, data, k=3, shared=["x1"]),
        "family was": MixReg.from_formula(FORMULA, data, k=3, equal_variance=True),
        "noise was None": make(data, "noise")[0],
    }
    for message, model in cases.items():
        with pytest.raises(FileFormatError, match=message):
            model.fit(checkpoint=path)
    with pytest.raises(FileFormatError, match=r"the regressors differ; the response differs\. Fit"):
        make(data.iloc[::-1])[0].fit(checkpoint=path)


def test_another_version(data, path, monkeypatch):
    model, _ = make(data)
    monkeypatch.setattr(checkpoint, "_version", lambda package: "9.9")
    with pytest.raises(FileFormatError, match=r"mixreg was .* and is 9\.9"):
        model.fit(checkpoint=path)


def test_blocks_do_not_matter(data):
    from mixreg.sources import memory
    from mixreg.sources.fingerprint import fingerprint

    source = MixReg.from_formula("y ~ x", shops(), k=2, groups="shop").source
    whole = fingerprint(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "block_rows", lambda columns: 7)
        cut = replace(source)
        assert len(cut.cuts) > 5
        assert fingerprint(cut) == whole
    assert set(whole) == {"x", "y", "starts"}


def test_files_that_are_no_checkpoints(data, whole, path):
    model, _ = make(data)
    with pytest.raises(FileFormatError, match="not a file of mixreg"):
        load(path)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    with pytest.raises(FileFormatError, match=r"damaged.*Delete the file, or give another name"):
        model.fit(checkpoint=path)
    whole.save(path)
    with pytest.raises(FileFormatError, match="not a mixreg checkpoint; `fit\\(checkpoint=path"):
        model.fit(checkpoint=path)


def test_parts_that_do_not_go_together(data, path):
    model, _ = make(data)
    kept = unpacked(path.read_bytes(), Checkpoint)
    with pytest.raises(FileFormatError, match="its runs do not hold together"):
        replace(kept.ends[0], steps=kept.ends[0].steps + 1)
    with pytest.raises(FileFormatError, match="its search does not hold together"):
        replace(kept.found, state="__import__('os')")
    path.write_bytes(packed({"of": {}, "found": 3, "ends": []}))
    with pytest.raises(FileFormatError, match="does not say what it should"):
        model.fit(checkpoint=path)


def test_names_that_are_no_files(data, tmp_path):
    model, _ = make(data)
    with pytest.raises(InputError, match="checkpoint=3 must be a name of a file"):
        model.fit(checkpoint=3)
    for path in (tmp_path, tmp_path / "nowhere" / "fit.ckpt"):
        with pytest.raises(InputError, match="is not a file in a folder that exists"):
            model.fit(checkpoint=path)


def test_nothing_is_left_beside_the_file(data, tmp_path):
    make(data)[0].fit(n_init=1, checkpoint=tmp_path / "fit.ckpt")
    assert [path.name for path in tmp_path.iterdir()] == ["fit.ckpt"]


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_fit(data, tmp_path, monkeypatch):
    model, options = make(data)
    path = tmp_path / "fit.ckpt"
    calls = []

    def full(*args):
        calls.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "write_file", full)
    monkeypatch.setattr(journal, "EVERY", 0.0)
    monkeypatch.setattr(journal, "SPARE", 0.0)
    with pytest.warns(UserWarning, match="cannot be written .No space left on device.") as told:
        res = model.fit(**options, checkpoint=path)
    assert len(calls) > 1
    assert len([each for each in told if "checkpoint" in str(each.message)]) == 1
    assert same(res, model.fit(**options))
    assert not path.exists()
