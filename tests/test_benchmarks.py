"""The benchmarks run and print what the documentation quotes; the figures get drawn."""

import numpy as np
import pytest

from benchmarks import paper, real_sets, recovery, reference, search
from mixreg import MixReg
from tests.reference import case
from tests.samples import lines


def test_one_trial_of_recovery():
    trial = recovery.run_trial((3, 10, 100), seed=0)
    assert trial.recovered
    assert trial.certified
    assert trial.seconds > 0
    assert trial.published_seconds > 0


def test_a_reference_case_is_reported(capsys):
    reference.report(case("CO2data_k2"), seeds=2)
    assert "2/2" in capsys.readouterr().out


def test_the_numerical_hessian_is_that_of_the_likelihood():
    model = MixReg.from_formula("y ~ x1", lines(100), k=2)
    at = model.fit().params.to_numpy()
    found = reference.numerical_hessian(model.loglike, at)
    np.testing.assert_allclose(found, model.hessian(at), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("figure", ["1", "2"])
def test_the_figures_of_the_paper_are_drawn(figure, tmp_path, capsys):
    options = ["--quick", "--trials", "1", "--jobs", "1", "--figure", figure]
    assert paper.main([*options, "--out", str(tmp_path)]) == 0
    pictures = list(tmp_path.glob("*.png"))
    assert len(pictures) == 1
    assert pictures[0].stat().st_size > 10_000
    assert len(list(tmp_path.glob("*.csv"))) == 1


ROWS = {
    **{"cps1988": 28155, "diamonds": 53940, "chem97": 31022, "laborsupply": 5320, "wlddev": 9022},
    **{"egsingle": 7230, "doctorvisits": 5190, "randhie_visits": 20190, "randhie_costs": 15737},
    **{"innovation": 6208, "detailing": 23000, "verbagg": 7584, "bank": 14799},
    **{"electricity": 17232, "camera": 26560},
}


@pytest.mark.parametrize("case", real_sets.SETS, ids=lambda case: case.name)
def test_a_real_set_is_whole(case):
    data = real_sets.load(case.name)
    model = case.model(data, 2)
    assert len(data) == ROWS[case.name] == model.source.rows
    assert not data.isna().any(axis=None)


def test_the_search_is_measured_and_random_starts_are_kept(tmp_path, capsys):
    options = ["--sets", "laborsupply", "--k", "2", "--starts", "2", "--seeds", "1"]
    for _ in range(2):
        search.main([*options, "--out", str(tmp_path)])
    first, again = (line for line in capsys.readouterr().out.splitlines() if "5,320" in line)
    assert "1/1" in first
    assert "*" not in first
    assert "*" in again
    assert len(list(tmp_path.glob("*.json"))) == 1
