"""The benchmarks run and print what the documentation quotes; the figures get drawn."""

import re
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from benchmarks import (
    calibration,
    certificates,
    imbalanced,
    paper,
    paper_grid,
    paper_plots,
    peers,
    real_sets,
    recovery,
    reference,
    reference_sets,
    scale,
    search,
    segments,
    selection,
    small_sets,
    speed,
)
from mixreg import MixReg
from tests.reference import case
from tests.samples import lines


def test_one_trial_of_imbalanced_segments():
    setting = imbalanced.Setting(20, (0.7, 0.3), 400, 0.05)
    recovered, seconds, peer_recovered, peer_seconds = imbalanced.trial(setting, seed=0)
    assert recovered
    assert peer_recovered
    assert min(seconds, peer_seconds) > 0
    assert setting.name == "20:.7/.3:400+5%"


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
def test_the_figures_of_the_paper_are_drawn(figure, tmp_path, capsys, monkeypatch):
    panels = (
        paper_grid.Panel("a", "p", 3, (5, 10), (10, 30), 30),
        paper_grid.Panel("b", "k", 10, (2, 3), (6, 12), 12),
    )
    monkeypatch.setattr(paper_grid, "QUICK", paper_grid.Plan(panels, 1, 1))
    for module in (paper_grid, paper_plots):
        monkeypatch.setattr(module, "TRACE_SIZES", ((2, 10, 200), (3, 10, 300), (3, 5, 200)))
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
    written = []
    for _ in range(2):
        search.main([*options, "--out", str(tmp_path)])
        written += [file.stat().st_mtime_ns for file in tmp_path.glob("*.json")]
    lines = [line for line in capsys.readouterr().out.splitlines() if "5,320" in line]
    assert len(lines) == len(written) == 2
    assert all("1/1" in line for line in lines)
    assert written[0] == written[1]


def test_the_references_are_compared_with_random_starts(tmp_path, capsys):
    options = ["--refs", "--sets", "fabricfault_nested,NPreg_joint", "--starts", "2"]
    search.main([*options, "--seeds", "1", "--out", str(tmp_path)])
    assert capsys.readouterr().out.count("1/1") == 2


def test_all_mixtures_of_the_references_are_there():
    assert sum(len(each.ks) for each in reference_sets.SETS) == 26
    for each in reference_sets.SETS:
        assert set(each.ks) <= set(reference_sets.load(each.name))


def test_tables_can_be_asked_for_alone(capsys):
    search.main(["--tight", "--chance", "--trials", "1", "--workers", "1"])
    printed = capsys.readouterr().out
    assert "true labels, 1 sets" in printed
    assert "groups       1" in printed
    assert "select_k" not in printed


@pytest.mark.parametrize("seed", range(20))
def test_tight_segments_have_rows_enough(seed):
    drawn = segments.draw_tight(seed)
    n, p = drawn.x.shape
    assert 300 <= n <= 20_000
    assert (drawn.labels == drawn.k).sum() >= p + 2
    assert 0.05 <= drawn.ratio <= 0.3


def test_a_lost_segment_is_told(monkeypatch, capsys):
    lost = segments.Tight(4, 3, 500, 2, 40, 0.08, 0.1, 2.5, True)
    monkeypatch.setattr(segments, "try_tight", lambda seed: lost)
    segments.tight(1, workers=1)
    assert "lost: seed=4, k=3, n=500, p=2, rows=40" in capsys.readouterr().out


def test_falls_of_the_likelihood_are_counted(capsys):
    np.testing.assert_allclose(selection.falls(np.array([1.0, 3.0, 2.5])), [0.0, 0.5])
    selection.main(trials=1, most=2)
    assert "of 1 sets" in capsys.readouterr().out


def test_thirty_sets_for_the_choice_of_k():
    names = small_sets.real_names()
    assert len(names) + selection.SIMULATED == 30
    for name in ("co2", "customersat_q1", "fabricfault"):
        assert small_sets.real(name).model(2).source.rows > 0


@pytest.mark.parametrize("seed", range(len(small_sets.KINDS)))
def test_simulated_sets_of_every_kind_can_be_declared(seed):
    case, k = small_sets.simulated(seed)
    assert case.model(k).k == k


def test_claims_are_counted_by_bins():
    claims = [
        calibration.Claim("a", 2, 0.0, -1.0, 3.0),
        calibration.Claim("b", 3, 0.03, 0.5, 0.5),
        calibration.Claim("c", 3, 0.9, -1.0, -1.0),
    ]
    lines = [line.split() for line in calibration.table(claims)]
    assert lines[1] == ["<=", "1%", "1", "0", "1"]
    assert lines[2] == ["<=", "5%", "1", "1", "0"]
    assert lines[4] == ["more", "1", "0", "0"]
    assert lines[5][:3] == ["beaten:", "b", "k=3:"]


def test_claims_are_put_to_the_test(capsys):
    calibration.main(trials=1, starts=2, workers=1)
    assert "2 further starts on 1 sets" in capsys.readouterr().out
    assert {name for name, _ in calibration.REAL} <= set(small_sets.real_names())


def test_certificates_are_counted(capsys):
    certificates.adversarial(2)
    assert "all" in capsys.readouterr().out


def test_fits_are_timed(capsys):
    speed.counts((1,), repeats=1)
    assert "negative binomial" in capsys.readouterr().out


def test_a_core_can_be_kept_busy(capsys):
    speed.busy(500, 2, 2, repeats=1)
    assert "one core busy" in capsys.readouterr().out


def test_both_sides_of_a_comparison_get_the_same_data():
    case = peers.simulated_case(50, 2, 2)
    script = peers._script(case, peers.Path("data.csv"), 3)
    assert case.r_formula == "y ~ 0 + x1 + x2"
    assert "for (seed in 1:3)" in script
    assert "nrep = 1" in script
    assert len(peers.ours(case, 1).seconds) == 1


def test_the_search_has_options_of_its_own(capsys):
    from benchmarks.__main__ import main

    with pytest.raises(SystemExit, match="0"):
        main(["search", "--help"])
    assert "--calibration" in capsys.readouterr().out


def test_large_data_are_measured(capsys):
    scale.main(["--quick", "--only", "lstsq"])
    printed = capsys.readouterr().out
    assert "default fit over lstsq" in printed
    assert "passes over all rows" in printed


def test_growth_is_drawn(tmp_path):
    points = [
        scale.Point(grows, size, 0.001 * size, 10.0, 7)
        for grows in scale.EXPONENTS
        for size in (2, 4)
    ]
    assert scale.exponent(points[:2]) == pytest.approx(1.0)
    table = pd.DataFrame([asdict(point) for point in points])
    scale.draw_growth(table, dict.fromkeys(scale.EXPONENTS, 1.0), tmp_path / "scale.png")
    assert (tmp_path / "scale.png").stat().st_size > 10_000


def test_exponents_on_the_page_are_those_of_the_figure():
    page = (scale.FIGURES.parent / "benchmarks.md").read_text(encoding="utf-8")
    table = pd.read_csv(scale.FIGURES / "scale.csv")
    assert set(table["grows"]) == set(scale.EXPONENTS)
    for grows, some in table.groupby("grows"):
        found = scale.exponent([scale.Point(*row) for row in some.itertuples(index=False)])
        assert re.search(rf"exponent of time in {grows}, .*\| {found:.2f} \|", page)
        assert found <= scale.EXPONENTS[grows]
