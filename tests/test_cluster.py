"""Rows on a Dask cluster give the numbers of the same rows in memory.

All run on a real cluster of two worker processes; some kill workers, or the cluster.
"""

import copy
import gc
import itertools
import os
import pickle
import signal
import threading
import time

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from numpy.testing import assert_allclose, assert_array_equal

import mixreg
from mixreg import InputError, MixReg, NotAvailableError, select_k
from mixreg.errors import ClusterError
from mixreg.jobs import solve
from mixreg.sources import MemorySource, cluster, stream
from mixreg.sources import client as clients
from tests.test_chunks import CASES, assert_same, choices, close, table, table_of

SEEN = 160
# One for each family and method, and for each option.
SOME = (
    "em-gaussian-plain",
    "em-gaussian-concomitant",
    "em-gaussian-noise",
    "em-poisson-known",
    "em-negativebinomial-groups",
    "em-binomial-offset",
    "em-choice-weights",
    "em-gaussian-only",
    "altmin-gaussian-shared",
    "vb-gaussian-weights",
    "vb-poisson-concomitant",
    "em-joint-concomitant",
    "robust",
    "exact-altmin",
)


def local(workers: int = 2) -> LocalCluster:
    return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")


@pytest.fixture(scope="module", autouse=True)
def two_workers():
    """The cluster that all tests share; those that harm one have their own."""
    with local() as own, Client(own) as client:
        yield client


@pytest.fixture
def few_seen(monkeypatch):
    """Samples of few rows, so that a small table is a large one."""
    monkeypatch.setattr(solve, "searched_rows", lambda p: SEEN)


def far(data: pd.DataFrame, parts: int = 4) -> dd.DataFrame:
    """The table in partitions of whole groups, the second one empty."""
    edges = np.linspace(0, len(data), parts + 1).astype(int) // 16 * 16
    pieces = [data.iloc[a:b] for a, b in itertools.pairwise(edges)]
    pieces.insert(1, data.iloc[:0])
    return dd.from_map(lambda i: pieces[i], range(len(pieces)), meta=data.iloc[:0])


def both(data, case, k=2, **options):
    """The fit of rows in memory, and of the same rows on a cluster."""
    formula, declared, fit = case
    fit = {"n_init": 2, **fit, **options}
    return [
        MixReg.from_formula(formula, given, k=k, **declared).fit(**fit)
        for given in (data, far(data))
    ]


@pytest.mark.usefixtures("few_seen")
@pytest.mark.parametrize("name", SOME)
def test_a_cluster_and_memory_agree(name):
    memory, there = both(table_of(name), CASES[name])
    assert there.model.source.rows > SEEN
    assert_same(there, memory)
    assert there.model.loglike(there.params) == pytest.approx(memory.model.loglike(there.params))


# What formulas learn


def shift(x):
    return x + 1


def many_kinds() -> pd.DataFrame:
    data, rng = table(), np.random.default_rng(1)
    n = len(data)
    data["region"] = np.sort(rng.choice(["north", "south", "east"], n))
    data["rare"] = np.where(np.arange(n) < 9, "z", rng.choice(["b", "a"], n))
    data["grade"] = pd.Categorical(rng.choice(["low", "high"], n), ["low", "high"])
    data["yes"] = rng.random(n) < 0.5
    data["number"] = rng.integers(1, 4, n)
    data["maybe"] = pd.array(np.where(np.arange(n) % 7, rng.integers(0, 9, n), 0), dtype="Int64")
    return data


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ C(region) + rare * grade + yes",
        "y ~ C(rare, Treatment('b')) + C(number, levels=[3, 1, 2])",
        "np.exp(y) ~ C(region, Sum):shift(x1) + x2:yes + own(offset) + maybe",
        "y ~ center(x1) + standardize(x2) + bs(offset, df=4) + C(region) + I(x1 * age)",
        "y ~ 1",
    ],
)
def test_formulas_learn_where_rows_are(formula):
    def own(x):
        return shift(x) ** 2

    data = many_kinds()
    assert own(1) == 4
    memory = MixReg.from_formula(formula, data, k=2, concomitant="~ grade + age")
    there = MixReg.from_formula(formula, far(data), k=2, concomitant="~ grade + age")
    assert there.exog_names == memory.exog_names
    one, other = (each.source.at_hand("a test").as_block() for each in (there, memory))
    for name in ("x", "y", "z"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12, atol=1e-12)


def test_categories_that_partitions_do_not_share():
    data = many_kinds()
    frame = far(data).assign(region=lambda d: d.region.astype("category"))
    assert not frame.region.cat.known
    there = MixReg.from_formula("y ~ region", frame, k=2)
    memory = MixReg.from_formula("y ~ region", data, k=2)
    assert there.exog_names == memory.exog_names
    close(there.source.at_hand("a test").as_block().x, memory.source.as_block().x)


@pytest.mark.usefixtures("few_seen")
def test_subset_and_missing_values():
    data = table()
    data.loc[data.index[7::97], "x1"] = np.nan
    case = ("y ~ x1", {"subset": "x2 > -1 and age < 9", "groups": "group"}, {})
    memory, there = both(data, case)
    assert_same(there, memory)
    assert_array_equal(there.labels.compute().index, memory.labels.index)
    assert there.fitted.tally.given == memory.fitted.tally.given
    with pytest.raises(InputError, match=r"missing values in x1 \("):
        MixReg.from_formula("y ~ x1", far(data), k=2, missing="raise")


def test_weights_of_proportions_are_trials():
    data = table()
    data.loc[:150, "share"] = (data.share[:151] > 0.5).astype(float)
    declared = {"family": "binomial", "weights": "trials", "k": 2}
    memory, there = (
        MixReg.from_formula("share ~ x1", given, **declared) for given in (data, far(data))
    )
    assert there.responses[0].has_trials
    assert there.whitening.variance == pytest.approx(memory.whitening.variance)


# Groups


@pytest.mark.usefixtures("few_seen")
@pytest.mark.parametrize("method", ["tasks", "p2p"])
def test_groups_in_several_partitions_are_brought_together(method):
    data = table()
    mixed = data.sample(frac=1, random_state=0)
    frame = dd.from_pandas(mixed, npartitions=4, sort=False)
    with dask.config.set({"dataframe.shuffle.method": method}):
        there = MixReg.from_formula("y ~ x1", frame, k=2, groups="group").fit(n_init=4)
        labels, posterior = there.labels, there.posterior
        assert labels.npartitions == frame.npartitions
        for i in (0, 3):
            part = labels.get_partition(i).compute()
            assert_array_equal(part.index, frame.get_partition(i).compute().index)
        found = posterior.compute()
    memory = MixReg.from_formula("y ~ x1", data, k=2, groups="group").fit(n_init=4)
    assert_allclose(there.llf, memory.llf, rtol=1e-9)
    assert_array_equal(there.group_labels.sort_index(), memory.group_labels)
    assert_array_equal(found.index, mixed.index)
    close(found.sort_index(), memory.posterior)


def test_choice_sets_are_brought_together():
    data = choices()
    frame = dd.from_pandas(data.sample(frac=1, random_state=0), npartitions=3, sort=False)
    declared = {"family": "choice", "choice_set": "set", "k": 1}
    there = MixReg.from_formula("chosen ~ x1 + x2", frame, **declared).fit()
    memory = MixReg.from_formula("chosen ~ x1 + x2", data, **declared).fit()
    close(there.params, memory.params)


# What users ask of results


@pytest.mark.usefixtures("few_seen")
def test_what_users_ask_of_results(tmp_path):
    data = table()
    case = ("y ~ x1 + x2", {"groups": "group", "weights": "weight", "offset": "offset"}, {})
    memory, there = both(data, case)
    assert isinstance(there.labels, dd.Series)
    assert isinstance(there.posterior, dd.DataFrame)
    assert isinstance(there.group_labels, pd.Series)
    assert_array_equal(there.group_labels.index, memory.group_labels.index)
    assert_array_equal(there.group_labels, memory.group_labels)
    pd.testing.assert_series_equal(there.labels.compute(), memory.labels)
    close(there.predict(data), memory.predict(data))
    close(there.importance().drop(columns="overall"), memory.importance().drop(columns="overall"))
    assert str(there.summary()) == str(memory.summary())
    close(copy.deepcopy(there).group_posterior, memory.group_posterior)
    with pytest.raises(NotAvailableError, match=r"cannot be pickled; keep the fit with res.save"):
        pickle.dumps(there)
    there.save(tmp_path / "fit.mixreg")
    assert_array_equal(mixreg.load(tmp_path / "fit.mixreg").group_labels, memory.group_labels)


def test_labels_go_beside_the_data_they_are_of():
    data = table()
    frame = dd.from_pandas(data, npartitions=3)
    there = MixReg.from_formula("y ~ x1", frame, k=2).fit(n_init=1)
    beside = frame.assign(segment=there.labels)
    assert there.labels.divisions == frame.divisions
    counted = beside.groupby("segment").size().compute()
    assert_array_equal(counted.sort_index(), there.fitted.tally.rows)


def test_selection_and_bootstrap(monkeypatch):
    data = table()
    options = {"k": [1, 2], "n_init": 2, "cov_type": "none"}
    one = select_k("y ~ x1", far(data), **options)
    other = select_k("y ~ x1", data, **options)
    close(one.table["bic"], other.table["bic"])
    near = one.best.bootstrap(2, "case", n_jobs=1)
    close(near.draws, other.best.bootstrap(2, "case", n_jobs=1).draws)
    # Too many to be brought to hand: weights are put on them where they are.
    monkeypatch.setattr(stream, "AT_HAND_BYTES", 1000)
    monkeypatch.setattr(MemorySource, "fits_at_hand", False)
    drawn = one.best.bootstrap(2, "case")
    close(drawn.draws, other.best.bootstrap(2, "case", n_jobs=1).draws)
    assert not np.allclose(drawn.draws, near.draws)
    with pytest.raises(NotAvailableError, match="a bootstrap needs all rows in memory"):
        one.best.bootstrap(3)


# What cannot be


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("y ~ x1", {"groups": np.zeros(320)}, "groups is an array, but data on a cluster"),
        ("y ~ x1", {"weights": "wait"}, "weights='wait' is not a column of the data"),
        ("y ~ offst", {}, "names 'offst', which is not a column of data; did you mean 'offset'"),
        ("y ~ x1", {"subset": [1, 2]}, "subset=list has no place beside data on a cluster"),
        ("y ~ x1", {"subset": "x1 > 99"}, "data has no rows left"),
        ("count ~ x1", {"family": "gamma"}, "the response is 0 in row"),
        ("y ~ I(x1 - np.mean(x1))", {}, "looks at rows beside its own"),
        ("y ~ x1", {"sort": True}, "scratch= and sort= are for data that are not in memory"),
    ],
)
def test_what_a_cluster_cannot_do_is_told(formula, options, message):
    with pytest.raises(InputError, match=message):
        MixReg.from_formula(formula, far(table()), **{"k": 2, **options})


# Workers that come and go


def keys_on(dask_scheduler=None) -> list[str]:
    """Names of tasks that the scheduler knew."""
    return sorted(dask_scheduler.task_prefixes)


@pytest.mark.usefixtures("few_seen")
def test_tasks_are_labelled_and_bytes_do_not_grow(two_workers, monkeypatch):
    sent, said = {}, cluster.said

    def counted(task, params):
        message = said(task, params)
        sent.setdefault(cluster.what(task), []).append(len(message))
        return message

    monkeypatch.setattr(cluster, "said", counted)
    sizes = []
    for rows in (320, 3200):
        sent.clear()
        MixReg.from_formula("y ~ x1", far(table(rows)), k=2).fit(n_init=2)
        sizes.append({name: max(each) for name, each in sent.items()})
    common = sizes[0].keys() & sizes[1].keys()
    assert {"SoftAssignment", "triangle"} <= common
    for name in common:
        assert sizes[1][name] < 1.1 * sizes[0][name]
    known = two_workers.run_on_scheduler(keys_on)
    assert {"mixreg-learn", "mixreg-blocks", "mixreg-all-rows-SoftAssignment"} <= set(known)


def during_passes(monkeypatch, at: int, happens):
    """Have something happen in a pass."""
    passes, sweep = [], cluster.ClusterStore.sweep

    def counting(self, task, params):
        passes.append(task)
        if len(passes) == at:
            happens()
        return sweep(self, task, params)

    monkeypatch.setattr(cluster.ClusterStore, "sweep", counting)
    return passes


@pytest.mark.usefixtures("few_seen")
def test_workers_are_killed_and_added_while_a_fit_goes_on(monkeypatch):
    data = table()
    memory = MixReg.from_formula("y ~ x1", data, k=2, groups="group").fit(n_init=2)
    with local(1) as own, Client(own) as client:
        model = MixReg.from_formula("y ~ x1", far(data), k=2, groups="group")

        def kill():
            pids = client.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)
            own.scale(2)

        passes = during_passes(monkeypatch, 3, kill)
        there = model.fit(n_init=2)
        assert len(passes) > 3
        assert_same(there, memory)
        client.wait_for_workers(2, timeout=60)


@pytest.mark.usefixtures("few_seen")
def test_a_cluster_goes_away_and_another_goes_on(monkeypatch, tmp_path):
    data, path = table(), tmp_path / "fit.ckpt"
    memory = MixReg.from_formula("y ~ x1", data, k=2).fit(n_init=2)
    own = local(1)
    with Client(own) as client:
        model = MixReg.from_formula("y ~ x1", far(data), k=2)
        with monkeypatch.context() as patch:
            passes = during_passes(patch, 6, own.close)
            with pytest.raises(ClusterError, match="the cluster that has the rows is gone"):
                model.fit(n_init=2, checkpoint=path)
        assert len(passes) == 6
        with pytest.raises(ClusterError, match="is gone; connect to another"):
            model.fit(n_init=2)
        client.close()
    assert path.exists()
    there = MixReg.from_formula("y ~ x1", far(data), k=2).fit(n_init=2, checkpoint=path)
    assert_same(there, memory)


def test_a_cluster_without_workers_is_told(monkeypatch):
    monkeypatch.setattr(clients, "LOOKED_AFTER", 0.2)
    monkeypatch.setattr(clients, "WITHOUT_WORKERS", 0.5)
    with (
        local(0) as own,
        Client(own),
        pytest.raises(ClusterError, match=r"had no workers for 0\.5"),
    ):
        MixReg.from_formula("y ~ x1", far(table()), k=2)


def slow(x):
    time.sleep(3.0)
    return x


@pytest.fixture
def heard():
    """Ctrl-C is heard, also where whoever started the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_an_interrupt_cancels_what_is_under_way(two_workers):
    frame = dd.from_pandas(table(), npartitions=6)
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        MixReg.from_formula("y ~ slow(x1)", frame, k=2)
    assert time.monotonic() - begin < 3.0
    while any(two_workers.processing().values()) and time.monotonic() - begin < 10:
        time.sleep(0.1)
    assert not any(two_workers.processing().values())


def test_without_a_client_processes_are_started_and_closed(monkeypatch):
    import distributed

    def nobody():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", nobody)
    model = MixReg.from_formula("y ~ x1", far(table()), k=2)
    own = model.source.store.cluster.client
    assert own.status == "running"
    assert model.fit(n_init=1).nobs == 320
    del model
    gc.collect()
    assert own.status == "closed"


@pytest.mark.parametrize("name", ["em-gaussian-plain", "em-poisson-known", "em-choice-weights"])
def test_draws_are_those_of_rows_in_memory(name):
    near, there = both(table_of(name), CASES[name])
    assert_allclose(there.simulate(3).to_numpy(), near.simulate(3).to_numpy(), rtol=1e-9)


@pytest.mark.parametrize("kind", ["uint8", "float16"])
def test_numbers_of_few_bits_are_floats_of_64_in_partitions(kind):
    rng = np.random.default_rng(0)
    x = rng.permutation(np.repeat([1, 3, 4, 50, 90, 100], 8)).astype(float)
    data = pd.DataFrame({"y": rng.standard_normal(48), "x": x, "z": rng.integers(1, 9, 48)})
    formula = "y ~ I(x**2) + I(x * 1000) + np.sqrt(x) + C(z > 4)"
    found, wanted = (
        MixReg.from_formula(formula, each, k=1).fit().params
        for each in (far(data.astype({"x": kind}), 2), data)
    )
    assert_allclose(found, wanted, rtol=1e-9)
