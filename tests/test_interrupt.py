"""Ctrl-C: a fit ends in good order, or returns the best so far."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mixreg import MixReg
from mixreg.errors import ConvergenceWarning, InputError
from mixreg.estimators import Control, em, pruning
from mixreg.files.load import unpacked
from mixreg.files.save import packed
from mixreg.jobs import ending
from mixreg.search import account
from mixreg.sources import threads
from tests.samples import lines, shops

FORMULA = "y ~ x1 + x2"
PLACES = {
    "search": (account, "race"),
    "final run": (ending, "_ended"),
    "last": (ending, "last_pass"),
}


@pytest.fixture(autouse=True)
def heard():
    """Ctrl-C is heard, also where whoever started the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def data():
    return lines(600)


@pytest.fixture
def press(monkeypatch):
    """Press Ctrl-C when a function is called for the nth time, once or every time."""

    def at(place, number=1, again=False):
        module, name = PLACES[place]
        function, calls = getattr(module, name), []

        def pressed(*args, **options):
            calls.append(name)
            if len(calls) == number or (again and len(calls) > number):
                signal.raise_signal(signal.SIGINT)
            return function(*args, **options)

        monkeypatch.setattr(module, name, pressed)

    return at


def fit(data, *args, k=2, **options):
    with pytest.warns(ConvergenceWarning, match="interrupted after"):
        return MixReg.from_formula(FORMULA, data, k=k).fit(*args, on_interrupt="return", **options)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("options", [{}, {"on_interrupt": "raise"}])
def test_an_interrupt_is_raised_and_the_next_fit_works(data, press, monkeypatch, place, options):
    model = MixReg.from_formula(FORMULA, data, k=2)
    whole = model.fit()
    before = [library["num_threads"] for library in threadpool_info()]
    press(place)
    with pytest.raises(KeyboardInterrupt):
        model.fit(**options)
    assert [library["num_threads"] for library in threadpool_info()] == before
    monkeypatch.undo()
    np.testing.assert_array_equal(model.fit().params, whole.params)


# Variational Bayes has a final run, and a test, of its own.
RETURNED = [
    (method, place, number)
    for method in ("em", "altmin", "vb")
    for place, number in (("search", 2), ("final run", 1), ("last", 1))
    if (method, place) != ("vb", "final run")
]


@pytest.mark.parametrize(("method", "place", "number"), RETURNED)
def test_the_best_so_far_is_returned(data, press, monkeypatch, method, place, number):
    whole = MixReg.from_formula(FORMULA, data, k=2).fit(method)
    press(place, number)
    res = fit(data, method)
    assert not res.converged
    assert res.fitted.reason == "interrupted"
    assert "INTERRUPTED" in str(res.summary())
    assert "The fit was interrupted: this is the best so far." in str(res.summary())
    for name in ("AIC", "BIC", "ICL"):
        assert f"{name} (unfinished):" in str(res.summary())
        assert f"{name} (unfinished)" not in str(whole.summary())
    np.testing.assert_allclose(res.llf, whole.llf, rtol=1e-3)
    assert np.isfinite(res.bse).all()
    assert len(res.history) == res.n_iter + 1
    model = res.model
    if method == "em":
        np.testing.assert_allclose(res.llf, model.loglike(res.params), rtol=1e-12)


def test_variational_bayes_in_its_final_run(data, monkeypatch):
    whole = MixReg.from_formula(FORMULA, data, k=2).fit("vb")
    iterate = pruning.iterate

    def pressed(source, estimator, params, control, progress=None):
        if progress is not None:
            # One step, and then Ctrl-C.
            iterate(source, estimator, params, Control(1, 0.0), progress)
            monkeypatch.undo()
            signal.raise_signal(signal.SIGINT)
        return iterate(source, estimator, params, control, progress)

    monkeypatch.setattr(pruning, "iterate", pressed)
    res = fit(data, "vb")
    assert len(res.history) == res.n_iter + 1
    np.testing.assert_allclose(res.elbo, whole.elbo, rtol=1e-3)


def test_steps_of_a_final_run_are_kept(data, monkeypatch):
    start = np.random.default_rng(0).integers(1, 3, len(data))
    start[:2] = 1, 2
    sweep, passes = em.EM.sweep, []

    def pressed(self, *args):
        passes.append(1)
        if len(passes) == 6:
            signal.raise_signal(signal.SIGINT)
        return sweep(self, *args)

    monkeypatch.setattr(em.EM, "sweep", pressed)
    res = fit(data, init=start)
    assert res.n_iter >= 3
    assert (np.diff(res.history) >= 0).all()
    assert res.llf > res.history[0]


def test_an_interrupted_fit_is_kept_in_a_file(data, press):
    press("final run")
    res = fit(data)
    again = unpacked(packed(res.spec, res.fitted, res.diagnostics))
    assert again.fitted.reason == "interrupted"


def test_known_labels_keep_their_numbers(press):
    data = lines(400)
    known = np.where(np.arange(400) < 60, 3 - data.z, np.nan)
    model = MixReg.from_formula(FORMULA, data, k=2, known_labels=known)
    whole = model.fit()
    press("search", 2)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        res = model.fit(on_interrupt="return")
    np.testing.assert_allclose(res.coefficients, whole.coefficients, atol=0.1)


def test_groups_and_units_without_weight(press):
    data = shops()
    weight = np.where(data["shop"] == data["shop"].iloc[0], 0.0, 1.0)
    press("final run")
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        res = MixReg.from_formula("y ~ x", data, k=2, groups="shop", weights=weight).fit(
            on_interrupt="return"
        )
    assert len(res.group_labels) == data["shop"].nunique()


@pytest.mark.parametrize(("place", "init"), [("search", "auto"), ("final run", "random")])
def test_nothing_to_return_yet(data, press, place, init):
    press(place)
    with pytest.raises(KeyboardInterrupt):
        MixReg.from_formula(FORMULA, data, k=2).fit(init=init, on_interrupt="return")


def test_a_second_interrupt_is_raised(data, press):
    press("last", again=True)
    with pytest.raises(KeyboardInterrupt):
        MixReg.from_formula(FORMULA, data, k=2).fit(on_interrupt="return")


def test_other_wishes_are_refused(data):
    with pytest.raises(InputError, match="on_interrupt='stop' is unknown; use 'raise', or"):
        MixReg.from_formula(FORMULA, data, k=2).fit(on_interrupt="stop")


# Threads and processes


@pytest.mark.parametrize("wish", ["raise", "return"])
def test_at_any_moment(wish):
    data = lines(30_000, noise=2.0)
    model = MixReg.from_formula(FORMULA, data, k=2)
    with threadpool_limits(2, user_api="blas"):
        before = [library["num_threads"] for library in threadpool_info()]
        begin = time.perf_counter()
        whole = model.fit()
        seconds = time.perf_counter() - begin
        outcomes = [
            _pressed_after(model, share * seconds, wish)
            for share in (0.0, 0.2, 0.4, 0.6, 0.8, 0.95)
        ]
        assert [library["num_threads"] for library in threadpool_info()] == before
        np.testing.assert_array_equal(model.fit().params, whole.params)
    assert "interrupted" in outcomes
    assert threads.allowed() == threads._given()


def _pressed_after(model, seconds, wish):
    """What became of a fit that was interrupted after a while."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            timer.start()
            reason = model.fit(on_interrupt=wish).fitted.reason
            # A fit that ended before must not leave the signal to others.
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            reason = "interrupted"
    timer.join()
    return reason


def test_threads_do_not_work_on_for_nobody(monkeypatch):
    monkeypatch.setattr(threads, "allowed", lambda: 2)
    done = []

    def slow(number):
        time.sleep(0.05)
        if number == 0:
            # All parts are on their way by now.
            signal.raise_signal(signal.SIGINT)
        done.append(number)

    def all_parts():
        return list(threads.spread(slow, range(40)))

    with pytest.raises(KeyboardInterrupt):
        all_parts()
    finished = len(done)
    time.sleep(0.2)
    assert len(done) == finished < 40


def test_a_holder_that_never_left_is_forgotten():
    before = threads._given()
    lost = threads.one_thread()
    lost.__enter__()
    del lost
    assert threads._given() == 1
    with threads.one_thread():
        pass
    assert threads._given() == before


@pytest.mark.skipif(os.name != "posix", reason="looks for processes by ps")
def test_workers_end_with_an_interrupt(tmp_path):
    script = tmp_path / "work.py"
    script.write_text(
        textwrap.dedent("""
        import sys, time
        from mixreg.jobs.parallel import run_all
        print("begin", flush=True)
        try:
            run_all(time.sleep, [100.0] * 4, n_jobs=2, costs=[1.0] * 4, at_once=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.stdin.read()
        """)
    )
    for wait in (0.05, 3.0):
        run = subprocess.Popen(
            [sys.executable, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert run.stdout.readline() == "begin\n"
        time.sleep(wait)
        # As a terminal does it: to the whole group.
        begin = time.perf_counter()
        os.killpg(run.pid, signal.SIGINT)
        assert run.stdout.readline() == "interrupted\n"
        assert time.perf_counter() - begin < 20
        found = subprocess.run(["ps", "--ppid", str(run.pid)], capture_output=True, text=True)
        assert len(found.stdout.splitlines()) == 1
        _, errors = run.communicate("")
        assert errors == ""
