"""The data of the figures against points computed another way."""

from itertools import pairwise
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from benchmarks.references.functions import REFERENCES

from steepen.paper import fig_convergence, fig_quasi_newton, fig_surfaces, listings
from steepen.paper.experiments import EXPERIMENTS


def lines(axes):
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def test_trajectories_are_powers_of_the_two_factors(outcome_of):
    """On a quadratic each coordinate shrinks by 1 − αh(1+2λh)."""
    surfaces, paths, *_ = outcome_of("fig-surfaces").pictures["fig-surfaces"].figure.axes
    drawn = lines(paths)
    k = np.arange(6)
    np.testing.assert_allclose(drawn["GD"], np.stack([4 * 0.9**k, 3 * 0.8**k], axis=1), rtol=1e-12)
    np.testing.assert_allclose(drawn["CGD"], np.stack([4 * 0.74**k, 3 * 0.16**k], axis=1), rtol=1e-11)
    # at equal cost, from any start, since x₂ shrinks by more
    text = (Path(__file__).parents[2] / "docs" / "paper.md").read_text("utf-8")
    assert f"at most {0.74**5 / 0.9**10:.2f} times as far as ten steps on f" in text
    assert surfaces.zz_dataLim.intervalx[1] == pytest.approx(2.6 * 16 + 8.4 * 16)
    assert [c.get_label() for c in surfaces.collections] == ["f₂, steeper", "f₁"]
    f1, f2 = fig_surfaces.F1, fig_surfaces.F2
    for x, y in ((1.0, 0.0), (-2.5, 0.7)):
        assert f1([x, y]) == pytest.approx(x * x + 2 * y * y, rel=1e-14)
        assert f2([x, y]) == pytest.approx(f1([x, y]) + 0.4 * ((2 * x) ** 2 + (4 * y) ** 2), rel=1e-14)


def levy(x):
    return REFERENCES["levy"]([x])


def steeper_levy(x, lam):
    return levy(x) + lam * mp.diff(levy, x) ** 2


def roots(fun, interval, count=200):
    grid = np.linspace(*interval, count)
    between = [pair for pair in pairwise(grid) if fun(pair[0]) * fun(pair[1]) < 0]
    return [float(mp.findroot(fun, pair, solver="anderson")) for pair in between]


@pytest.mark.parametrize(
    ("name", "panel", "lam", "interval"),
    [
        ("fig-ascent", 0, 0.2, (-10.0, -5.0)),
        pytest.param("fig-egr", 1, 0.075, (-10.0, 0.0), marks=pytest.mark.slow),
    ],
)
def test_marked_points_of_the_levy_landscapes(name, panel, lam, interval, outcome_of):
    drawn = lines(outcome_of(name).pictures[name].figure.axes[panel])
    artificial = roots(lambda x: mp.diff(levy, x, 2) + 1 / (2 * lam), interval)
    maxima = [x for x in roots(lambda x: mp.diff(levy, x), interval) if mp.diff(levy, x, 2) < -1 / (2 * lam)]
    np.testing.assert_allclose(drawn["stationary for g only"][:, 0], artificial, atol=1e-8)
    np.testing.assert_allclose(drawn["maximum of f, minimum of g"][:, 0], maxima, atol=1e-8)
    for label, points in drawn.items():
        if label in {"stationary for g only", "maximum of f, minimum of g"} or label.startswith("g ="):
            for x, y in points[:: max(1, len(points) // 9)]:
                assert y == pytest.approx(float(steeper_levy(x, lam)), abs=1e-9)
    for x, y in drawn["f"][::120]:
        assert y == pytest.approx(float(levy(x)), abs=1e-12)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_convergence_curves_are_the_runs_and_say_their_settings(name, outcome_of):
    e = EXPERIMENTS[name]
    for picture in outcome_of("fig-convergence").pictures.values():
        axes = picture.figure.axes[list(EXPERIMENTS).index(name)]
        for label, method in (("GD", "gd"), ("CGD-FD", "cgd-fd")):
            trace = e.run(method).trace
            assert lines(axes)[label][:, 0].tolist() == trace.njev.tolist()
            assert lines(axes)[label][:, 1] == pytest.approx(trace.f - e.function.fmin, rel=1e-12)
        assert f"λ = {e.lam_text}, α = {e.alpha:g}" in axes.get_title()
        (mark,) = [line for line in axes.lines if line.get_linestyle() == ":"]
        last = trace.njev[np.flatnonzero(trace.penalised)[-1] + 1]  # the end of the penalty
        assert list(mark.get_xdata()) == [last, last]


def test_values_after_forty_gradients_and_who_is_ahead():
    panels = fig_convergence.panels()
    ends = {"branin": (0.0558, 0.0695), "matyas": (0.694, 3.96), "griewank": (72.55, 73.25)}
    for name, pair in ends.items():
        assert (panels[name].cgd_fd[40], panels[name].gd[40]) == pytest.approx(pair, rel=1e-3)
    assert all(panel.cgd_fd[1] == panel.cgd_fd[0] for panel in panels.values())  # a first step costs two
    behind = {name: panel.behind for name, panel in panels.items()}
    assert behind.pop("levy")[0] == 4
    assert not any(behind.values())


@pytest.mark.parametrize("name", fig_quasi_newton.PANELS)
def test_quasi_newton_curves_are_those_of_the_listings(name, outcome_of):
    panel, position = fig_quasi_newton.PANELS[name], list(fig_quasi_newton.PANELS).index(name)
    f, grad = panel.function, panel.function.grad
    drawn = lines(outcome_of("fig-quasi-newton").pictures["fig-quasi-newton"].figure.axes[position])
    for label, method in fig_quasi_newton.METHODS.items():
        if method.startswith("cgd"):
            update = listings.kept({"cgd-bfgs": listings.bfgs, "cgd-dfp": listings.dfp}[method])
            xs = listings.cgd_qn(grad, panel.start, 40, panel.step, panel.lam, update)
        else:
            xs = listings.quasi_newton(grad, panel.start, 40, panel.step, method)
        expected = f(xs) - f.fmin
        assert drawn[label][:, 0].tolist() == list(range(41))
        np.testing.assert_allclose(drawn[label][:11, 1], expected[:11], rtol=1e-6)
        # on Drop-Wave the plain methods leave a straight line by rounding, which grows
        loose = name == "drop-wave" and not method.startswith("cgd")
        np.testing.assert_allclose(drawn[label][:, 1], expected, rtol=2e-3 if loose else 1e-6)
        low, high = f.bounds.T
        assert ((low <= xs) & (xs <= high)).all()


def test_curves_that_coincide_are_told_apart_without_colour(outcome_of):
    for axes in outcome_of("fig-quasi-newton").pictures["fig-quasi-newton"].figure.axes:
        drawn = {line.get_label(): line for line in axes.lines}
        assert all(words in axes.get_title() for words in ("λ = ", "α = "))
        for one, other in ((drawn["BFGS"], drawn["DFP"]), (drawn["CGD-BFGS"], drawn["CGD-DFP"])):
            assert one.get_linestyle() != other.get_linestyle()
            assert one.get_linewidth() > 2 * other.get_linewidth()  # so that both are seen
            assert one.get_marker() != other.get_marker()
            places = [set(range(line.get_markevery()[0], 41, 10)) for line in (one, other)]
            assert not places[0] & places[1]


def test_two_wells_paths_are_those_of_hand_written_loops(outcome_of):
    drawn = lines(outcome_of("fig-egr").pictures["fig-egr"].figure.axes[0])

    def f(x):
        return (x - 2) ** 2 / 2 - 1.2 * mp.exp(-8 * x**2)

    def g(x):
        return f(x) + 0.055 * mp.diff(f, x) ** 2

    trap = float(mp.findroot(lambda t: mp.diff(f, t), 0.1))
    for label, fun, end in (("GD, on f", f, trap), ("CGD, on g", g, 2)):
        x = mp.mpf("-0.8")
        for point in drawn[label][:20]:
            assert point == pytest.approx([float(x), float(fun(x))], abs=1e-7)
            x -= mp.mpf("0.1") * mp.diff(fun, x)
        assert drawn[label][-1, 0] == pytest.approx(end, abs=1e-5)
