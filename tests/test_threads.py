"""Blocks on several threads: the same numbers, whatever the threads."""

import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from mixreg import MixReg
from mixreg.simulate import mixture_of_regressions
from mixreg.sources import threads
from mixreg.sources.base import PARTS, sweep

COEF = np.array([[1.0, 1.0, 0.0], [-1.0, 0.0, 1.0], [3.0, -1.0, -1.0]])


@pytest.fixture
def given(monkeypatch):
    """Set the number of threads."""

    def give(number):
        monkeypatch.setattr(threads, "allowed", lambda: number)
        threads._pool.cache_clear()

    yield give
    threads._pool.cache_clear()


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_the_number_of_threads_changes_no_bit(given, family):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(40_000), rng.standard_normal((40_000, 2))])
    drawn = mixture_of_regressions(X, COEF, [0.5, 0.3, 0.2], [0.7] * 3, seed=rng)
    y = drawn.y if family == "gaussian" else rng.poisson(np.exp(np.clip(drawn.y, -3, 3)))
    results = []
    for number in (1, 2, 4):
        given(number)
        results.append(MixReg(y, X, k=2, family=family).fit(n_init=2))
    for other in results[1:]:
        assert_array_equal(results[0].params, other.params)
        assert_array_equal(results[0].bse, other.bse)
        assert results[0].llf == other.llf


def test_results_come_in_the_order_of_the_parts(given):
    given(3)

    def slow_first(number):
        time.sleep(0.02 if number == 0 else 0.0)
        return number

    assert list(threads.spread(slow_first, range(20))) == list(range(20))


def test_what_a_thread_raises_reaches_the_caller(given):
    given(2)

    def fail(block, params):
        raise ZeroDivisionError("in a block")

    with pytest.raises(ZeroDivisionError, match="in a block"):
        sweep(range(5 * PARTS), fail)


def test_threads_keep_the_callers_settings_for_floating_point(given):
    given(2)

    def divide(block, params):
        return np.ones(2000) / np.zeros(2000)

    with np.errstate(divide="ignore"):
        assert np.isinf(sweep(range(2 * PARTS), divide)).all()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        sweep(range(2 * PARTS), divide)


def test_a_source_without_blocks_is_an_error():
    with pytest.raises(ValueError, match="has no blocks"):
        sweep([], lambda block, params: 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_makes_threads_of_its_own(given):
    given(2)
    assert list(threads.spread(abs, [-1, -2, -3])) == [1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        ok = list(threads.spread(abs, [-1, -2, -3])) == [1, 2, 3]
        os._exit(0 if ok else 1)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.02)
    else:
        os.kill(child, 9)
        pytest.fail("a forked process waits for threads it does not have")
    assert os.waitstatus_to_exitcode(status) == 0


def test_sweeps_get_as_many_threads_as_linear_algebra_was_given():
    for number in (1, 2):
        with threadpool_limits(number, user_api="blas"):
            assert threads.allowed() == number
            with threads.one_thread():
                assert threads.allowed() == number
                assert blas() == {1}
            assert blas() == {number}


def blas():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_fits_at_the_same_time_leave_linear_algebra_as_it_was():
    before, x = blas(), np.random.default_rng(0).standard_normal((300, 2))
    y = x[:, 0] * np.where(x[:, 1] > 0, 1.0, -1.0) + np.sin(9 * x[:, 1])
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(MixReg(y, x, k=2).fit, seed=i) for i in range(8)]
        assert all(np.isfinite(run.result().llf) for run in runs)
    assert blas() == before


def test_a_sweep_inside_a_task_waits_for_nobody(given):
    given(2)

    def outer(number):
        return sum(threads.spread(abs, [-number, -1]))

    assert list(threads.spread(outer, [1, 2, 3, 4])) == [2, 3, 4, 5]
