"""The benchmarks run and print what the documentation quotes; the figures get drawn."""

import numpy as np
import pytest

from benchmarks import paper, recovery, reference
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
