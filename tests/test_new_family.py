"""A new family is one file: `inverse_gaussian.py` is all that this knows of it."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from scipy.stats import invgauss

from mixreg import InputError, MixReg, families
from mixreg.families import registry
from mixreg.metrics import adjusted_rand_index
from tests.inverse_gaussian import InverseGaussian

TRUTH = np.array([[1.5, 0.5], [0.0, -0.5]])
SCALES = np.array([0.01, 0.05])
LINKS = pytest.mark.parametrize("link", InverseGaussian.links)


def planted(n: int = 600, seed: int = 0) -> pd.DataFrame:
    """Groups of two rows from two components; column `z` is the component."""
    rng = np.random.default_rng(seed)
    z = np.repeat(rng.choice(2, n // 2, p=[0.6, 0.4]), 2)
    x = rng.uniform(-1, 1, n)
    y = rng.wald(np.exp(TRUTH[z, 0] + TRUTH[z, 1] * x), 1 / SCALES[z])
    return pd.DataFrame({"y": y, "x": x, "z": z + 1, "g": np.arange(n) // 2})


def fitted(**options):
    data = planted()
    return data, MixReg.from_formula(
        "y ~ x", data, k=2, groups="g", family="inverse gaussian", **options
    ).fit(n_init=6)


def random_rows(family, seed: int = 0):
    rng = np.random.default_rng(seed)
    eta = rng.uniform(0.3, 1.5, 40)
    return family.rows_at(rng.gamma(4, 0.3, 40), eta, np.full(40, 0.3), None)


def slope(function, h: float = 1e-5):
    """Derivative at 0, by differences."""
    return (function(h) - function(-h)) / (2 * h)


# Its mathematics


@LINKS
def test_density_is_that_of_scipy(link):
    family = InverseGaussian(link=link)
    rows = random_rows(family)
    shape = 1 / rows.dispersion
    want = invgauss.logpdf(rows.y, rows.mu / shape, scale=shape)
    assert_allclose(family.log_density(rows), want, rtol=1e-10)


@LINKS
def test_derivatives_are_those_of_the_density(link):
    family = InverseGaussian(link=link)
    rows = random_rows(family)

    def at(move: float, spread: float = 0.0):
        wide = rows.dispersion * np.exp(spread)
        return family.rows_at(rows.y, rows.eta + move, wide, None)

    close = {"rtol": 1e-6, "atol": 1e-7}
    assert_allclose(family.score(rows), slope(lambda h: family.log_density(at(h))), **close)
    assert_allclose(family.curvature(rows), -slope(lambda h: family.score(at(h))), **close)
    scale = slope(lambda h: family.log_density(at(0, h)))
    assert_allclose(family.scale_score(rows), scale, **close)
    bend = -slope(lambda h: family.scale_score(at(0, h)))
    assert_allclose(family.scale_curvature(rows), bend, **close)
    mixed = -slope(lambda h: family.score(at(0, h)))
    assert_allclose(family.cross_curvature(rows), mixed, **close)


# By its name


def test_planted_segments_are_found():
    data, res = fitted()
    assert res.converged
    assert_allclose(res.coefficients.to_numpy().T, TRUTH, atol=0.1)
    assert_allclose(res.scale, SCALES, rtol=0.3)
    assert adjusted_rand_index(res.labels, data["z"]) > 0.95
    assert_allclose(res.llf, res.model.loglike(res.params), rtol=1e-10)


def test_one_component_is_a_glm():
    data = planted().query("z == 1")
    res = MixReg.from_formula("y ~ x", data, k=1, family="inversegaussian").fit()
    family = sm.families.InverseGaussian(sm.families.links.Log())
    glm = sm.GLM.from_formula("y ~ x", data, family=family).fit()
    assert_allclose(res.coefficients[1], glm.params, rtol=1e-6)


def test_a_statsmodels_family_will_do():
    family = sm.families.InverseGaussian(sm.families.links.Log())
    res = MixReg.from_formula("y ~ x", planted(), k=2, groups="g", family=family).fit(n_init=6)
    assert_allclose(res.llf, fitted()[1].llf, rtol=1e-8)


def test_score_of_the_mixture_vanishes_and_its_information_is_the_curvature():
    _, res = fitted()
    vector, size = res.params.to_numpy(), len(res.params)
    score = [slope(lambda h, e=e: res.model.loglike(vector + h * e)) for e in np.eye(size)]
    assert_allclose(score, 0.0, atol=1e-3)
    away = vector + 0.01
    want = [slope(lambda h, e=e: res.model.loglike(away + h * e)) for e in np.eye(size)]
    assert_allclose(res.model.score(away), want, rtol=1e-5, atol=1e-4)
    h = 1e-3
    info = np.empty((size, size))
    for i, e in enumerate(np.eye(size)):
        info[i] = -(res.model.score(vector + h * e) - res.model.score(vector - h * e)) / (2 * h)
    assert_allclose(res.bse, np.sqrt(np.diag(np.linalg.inv(info))), rtol=1e-3)


def test_it_draws_predicts_and_prints():
    data, res = fitted()
    drawn = res.simulate(seed=1)
    assert (drawn["y"] > 0).all()
    means = res.predict(data, which="component").to_numpy()
    own = means[np.arange(len(data)), drawn["component"].to_numpy() - 1]
    assert_allclose((drawn["y"] / own).mean(), 1.0, atol=0.03)
    assert_allclose(means, np.exp(sm.add_constant(data["x"]).to_numpy() @ res.coefficients))
    assert adjusted_rand_index(res.predict(data, which="label"), data["z"]) > 0.95
    text = str(res.summary())
    assert "Inverse Gaussian Regressions" in text
    assert "scale" in text


def test_background_shared_terms_and_other_responses():
    data = planted()
    data["count"] = np.random.default_rng(1).poisson(np.where(data["z"] == 1, 8.0, 1.0))
    joint = MixReg.from_formula(
        ["y ~ x", "count ~ 1"], data, k=2, family=["inversegaussian", "poisson"]
    ).fit(n_init=6)
    assert adjusted_rand_index(joint.labels, data["z"]) > 0.95
    _, res = fitted(noise=True, shared=["x"], equal_variance=True)
    assert len(set(res.scale.round(12))) == 1
    assert (res.simulate(seed=0)["y"] > 0).all()


def test_the_pymc_model_is_the_same_mixture():
    import tests.test_pymc as pymc

    for link in ("log", "inverse"):
        made = MixReg.from_formula(
            "y ~ x", planted(120), k=2, groups="g", family="inversegaussian", link=link
        )
        compiled = pymc.Compiled(made)
        for vector in (compiled.res.params.to_numpy(), compiled.elsewhere(0.01)):
            found, _, _ = compiled(pymc.point_at(made, vector))
            assert_allclose(found, compiled.expected(vector), rtol=1e-8)


def test_what_it_does_not_allow_is_refused():
    data = planted()
    data.loc[3, "y"] = -1.0
    message = "the response is -1 in row 3; family 'inversegaussian' allows positive numbers"
    with pytest.raises(InputError, match=re.escape(message)):
        MixReg.from_formula("y ~ x", data, k=2, family="inversegaussian")
    with pytest.raises(InputError, match="link='logit' does not fit family='inversegaussian'"):
        MixReg.from_formula("y ~ x", planted(), k=2, family="inversegaussian", link="logit")
    with pytest.raises(InputError, match="choice, gamma, gaussian, inversegaussian"):
        MixReg.from_formula("y ~ x", planted(), k=2, family="tweedie")


SCRIPT = """
import sys
import mixreg
from mixreg import families
from mixreg.families.registry import find_modules, named
assert named("inversegaussian") is None
families.__path__.append(sys.argv[1])
find_modules("mixreg.families", families.__path__)
print(named("inversegaussian").__module__)
"""


def test_a_file_in_the_folder_is_enough(tmp_path):
    here = Path(__file__).parent
    shutil.copy(here / "inverse_gaussian.py", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(here.parent)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert done.stdout.strip() == "mixreg.families.inverse_gaussian"


def test_importing_families_does_not_import_pytensor():
    script = "import sys, mixreg; print('pytensor' in sys.modules or 'pymc' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        check=True,
    )
    assert done.stdout.strip() == "False"


def questions(tree: ast.AST) -> list[int]:
    """Lines that ask for a family, or a gate, by its type or its name."""
    kinds = {name for name in dir(families) if isinstance(getattr(families, name), type)}
    kinds = kinds - {"Family"} | {"GaussianPart", "ExponentialFamily", "ConstantGate", "LogitGate"}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
            found += [node.lineno] if names & kinds else []
        if isinstance(node, ast.Compare):
            texts = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
            found += [node.lineno] if texts & set(registry.names()) else []
    return found


def test_no_other_file_asks_which_family_or_gate_it_is():
    package = Path(families.__file__).parents[1]
    rooms = [f for f in package.rglob("*.py") if f.parent.name not in ("families", "datasets")]
    asked = {f.name: questions(ast.parse(f.read_text())) for f in rooms}
    assert {name: lines for name, lines in asked.items() if lines} == {}
    assert questions(ast.parse("isinstance(a.family, (Choice, int))\nfamily.name in ('gamma',)"))
