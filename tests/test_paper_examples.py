"""The examples that call the paper's methods on functions of their own: they run, and show what they say."""

import re

import numpy as np
import pytest

import steepen as st

from .examples import EXAMPLES, load

NAMES = sorted(path.stem for path in EXAMPLES.glob("cgd_*.py"))


@pytest.fixture
def made(request, capsys):
    module = load(request.param, "numpy")
    return module, module.main(), capsys.readouterr().out


def test_each_is_in_both_lists_and_in_a_test():
    root = EXAMPLES.parent
    for page in (root / "docs" / "cgd.md", EXAMPLES / "README.md"):
        assert set(re.findall(r"`(cgd_\w+)\.py`\]", page.read_text("utf-8"))) == set(NAMES)
    tested = "methods schedules artificial_points egr safe_step tuned"
    assert sorted(f"cgd_{name}" for name in tested.split()) == NAMES


@pytest.mark.parametrize("made", ["cgd_methods"], indirect=True)
def test_methods(made):
    module, runs, said = made
    assert [*runs] == ["gd", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp"]
    assert {run.njev for run in runs.values()} == {40}
    assert all(run.fun < module.f(np.array([1.5, -1.6, 0.3])) for run in runs.values())
    assert said.count("\n") == 6
    x, v = np.array([0.3, -0.2, 1.0]), np.array([1.0, 2.0, -1.0])
    np.testing.assert_allclose(module.hvp(x, v), _slope(module.grad, x, v), rtol=1e-6)
    np.testing.assert_allclose(module.grad(x) @ v, _slope(module.f, x, v), rtol=1e-6)


@pytest.mark.parametrize("made", ["cgd_schedules"], indirect=True)
def test_schedules(made):
    _, runs, said = made
    assert runs["b = 3"].trace.penalised.sum() == 4  # b + 1, as in the listing
    assert runs["λ with the sign of the curvature"].trace.guarded.sum() == 0
    np.testing.assert_allclose(np.diff(runs["λ = L(0.02, 0.2)"].trace.lam[:11], 2), 0, atol=1e-12)
    assert said.count("penalised") == len(runs)


@pytest.mark.parametrize("made", ["cgd_artificial_points"], indirect=True)
def test_artificial_points(made):
    module, runs, said = made
    assert {name: run.status for name, run in runs.items()} == {
        "GD": st.Status.CONVERGED, "EGR": st.Status.CONVERGED, "CGD": st.Status.ARTIFICIAL,
        "CGD, λ/4": st.Status.CONVERGED, "CGD, Perturbed(λ)": st.Status.CONVERGED,
    }  # fmt: skip
    assert abs(runs["EGR"].x - runs["CGD"].x) < 1e-3
    assert abs(module.d2f(runs["CGD"].x) + 1 / 0.6) < 1e-3
    assert "artificial points at [-2.68 -2.16  2.16  2.68]" in said
    x = np.array([1.7])
    np.testing.assert_allclose(module.d2f(x), _slope(module.df, x, np.ones(1)), rtol=1e-6)


@pytest.mark.parametrize("made", ["cgd_egr"], indirect=True)
def test_egr(made):
    module, found, said = made
    for f, x in ((module.Wells(), np.array([0.13])), (module.Waves(), np.array([1.7]))):
        np.testing.assert_allclose(f.slope(x), (f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rtol=1e-6)
        np.testing.assert_allclose(f.curvature(x), _slope(f.slope, x, np.ones(1)), rtol=1e-6)
    means = {way: mean for way, (_, mean, _) in found["Wells"].items()}
    assert abs(means["EGR"]) < 1e-6 < means["EGR, b = 5"] < means["GD"] - 0.3
    ends = {way: counts for way, (counts, _, _) in found["Waves"].items()}
    assert ends["EGR"]["maximum"] > 0.3 * 120
    assert {way for way, counts in ends.items() if counts == {"minimum": 120}} == {*ends} - {"EGR"}
    assert said.count("ends: ") == 8


@pytest.mark.parametrize("made", ["cgd_safe_step"], indirect=True)
def test_safe_step(made):
    module, (run, rate), said = made
    gaps = run.trace.f - st.minimize(module.f, run.x, jac=module.grad, gtol=1e-10).fun
    assert (gaps[1:] <= rate * gaps[:-1] + 1e-12).all()
    assert "f falls in every step: True" in said
    assert "1.9 times that step: f rises in 0 of" in said


@pytest.mark.parametrize("made", ["cgd_tuned"], indirect=True)
def test_tuned(made):
    _, found, said = made
    assert np.median(found["gd"]) < np.median(found["cgd-fd"])
    assert re.search(r"CGD-FD is lower from \d+% of the starts", said)


def _slope(function, x, v, h=1e-6):
    return (function(x + h * v) - function(x - h * v)) / (2 * h)
