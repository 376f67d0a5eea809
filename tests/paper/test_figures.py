"""The data of the figures against points computed another way."""

import importlib
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

import steepen as st
from steepen.paper import fig_ascent, fig_convergence, fig_egr, fig_quasi_newton, fig_surfaces
from steepen.paper.experiments import EXPERIMENTS

MODULES = (fig_surfaces, fig_ascent, fig_convergence, fig_quasi_newton, fig_egr)


@pytest.fixture(scope="module")
def outcomes():
    return {module.NAME: module.run() for module in MODULES}


def lines(axes):
    return {line.get_label(): line.get_xydata() for line in axes.lines}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.NAME)
def test_every_outcome_is_whole(module, outcomes):
    outcome = outcomes[module.NAME]
    assert [claim.text for claim in outcome.claims if not claim.holds] == []
    assert outcome.figures.keys() == outcome.captions.keys()
    for part in (outcome.figures, outcome.tables, outcome.traces):
        assert part
        assert all(name.startswith(module.NAME) for name in part)
    assert all(outcome.captions.values())
    assert outcome.settings
    assert all(len(row) == len(table.columns) for table in outcome.tables.values() for row in table.rows)
    assert all(trace.x is not None for trace in outcome.traces.values())
    assert importlib.import_module(st.paper.ITEMS[module.NAME]) is module
    for figure in outcome.figures.values():
        assert 7 <= figure.get_figwidth() <= 10
        for axes in figure.axes:
            assert axes.get_title() or axes.get_xlabel() or axes.get_ylabel()
            if axes.get_yscale() == "linear" and axes.get_ylim()[0] > 0 and axes.get_label() != "<colorbar>":
                assert f"axis starts at {axes.get_ylim()[0]:.4g}" in axes.get_ylabel()


# --- Fig. 1 ---------------------------------------------------------------------------------------


def test_trajectories_are_powers_of_the_two_factors(outcomes):
    """On a quadratic each coordinate shrinks by 1 − αh(1+2λh)."""
    surfaces, paths, *_ = outcomes["fig-surfaces"].figures["fig-surfaces"].axes
    drawn = lines(paths)
    k = np.arange(6)
    np.testing.assert_allclose(drawn["GD"], np.stack([4 * 0.9**k, 3 * 0.8**k], axis=1), rtol=1e-12)
    np.testing.assert_allclose(drawn["CGD"], np.stack([4 * 0.74**k, 3 * 0.16**k], axis=1), rtol=1e-11)
    assert surfaces.zz_dataLim.intervalx[1] == pytest.approx(2.6 * 16 + 8.4 * 16)
    assert [c.get_label() for c in surfaces.collections] == ["f₂, steeper", "f₁"]


def test_f2_is_f1_with_its_penalty():
    f1, f2 = fig_surfaces.f1(), fig_surfaces.f2()
    for x, y in ((1.0, 0.0), (0.0, 1.0), (-2.5, 0.7)):
        assert f1([x, y]) == pytest.approx(x * x + 2 * y * y, rel=1e-14)
        assert f2([x, y]) == pytest.approx(f1([x, y]) + 0.4 * ((2 * x) ** 2 + (4 * y) ** 2), rel=1e-14)


# --- Fig. 2 and the right of Fig. 5 ---------------------------------------------------------------


def levy(x):
    w = 1 + (x - 1) / 4
    return mp.sin(mp.pi * w) ** 2 + (w - 1) ** 2 * (1 + mp.sin(2 * mp.pi * w) ** 2)


def steeper_levy(x, lam):
    return levy(x) + lam * mp.diff(levy, x) ** 2


def roots(fun, interval, count=1000):
    """Find the roots by sign on a grid and then by mpmath."""
    grid = np.linspace(*interval, count)
    signs = [mp.sign(fun(x)) for x in grid]
    return [
        float(mp.findroot(fun, pair, solver="anderson"))
        for pair, (a, b) in zip(pairwise(grid), pairwise(signs), strict=True)
        if a * b < 0
    ]


@pytest.mark.parametrize(
    ("name", "panel", "lam", "interval"),
    [("fig-ascent", 0, 0.2, (-10.0, -5.0)), ("fig-egr", 1, 0.075, (-10.0, 0.0))],
)
def test_marked_points_of_the_levy_landscapes(name, panel, lam, interval, outcomes):
    drawn = lines(outcomes[name].figures[name].axes[panel])
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


def test_arrows_point_down_each_curve_and_opposite_ways(outcomes):
    axes = outcomes["fig-ascent"].figures["fig-ascent"].axes[0]
    arrows = [text for text in axes.texts if getattr(text, "arrow_patch", None) is not None]
    assert len(arrows) == 2
    for arrow, fun in zip(arrows, (levy, lambda x: steeper_levy(x, 0.2)), strict=True):
        (tip_x, tip_y), (x, y) = arrow.xy, arrow.xyann
        assert x == -7.7
        assert y == pytest.approx(float(fun(-7.7)), abs=1e-9)
        assert (tip_y - y) / (tip_x - x) == pytest.approx(float(mp.diff(fun, -7.7)), rel=1e-8)
        assert tip_y < y
    assert (arrows[0].xy[0] + 7.7) * (arrows[1].xy[0] + 7.7) < 0
    assert any(
        (line.get_xdata() == np.array([-7.7, -7.7])).all()
        for line in axes.lines
        if len(line.get_xdata()) == 2
    )


# --- Fig. 3 ---------------------------------------------------------------------------------------


def listing_of_cgd_fd(e, T=40, b=10):
    """Return (c, f) after every step, as in the listing with c + cost <= T for its test c = T."""
    f, grad, x = e.function, e.function.grad, np.array(e.start)
    c, use, spent, values = 0, True, [0], [f(x)]
    for k in range(T):
        if c + (2 if use else 1) > T:
            break
        g = grad(x)
        p = -g
        if use:
            lam = np.linspace(e.lam.start, e.lam.end, T)[k] if isinstance(e.lam, st.L) else e.lam
            nu = 2 * lam / e.r
            p = -(1 - nu) * g - nu * grad(x + e.r * g)
            c += 1
            if not g @ p < 0:
                p, use = -g, False
        c += 1
        x = x + e.step * p
        use = use and k < b
        spent.append(c)
        values.append(f(x))
    return np.array(spent), np.array(values) - f.fmin


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("figure", ["fig-convergence", "fig-convergence-log"])
def test_convergence_curves_are_those_of_hand_written_loops(name, figure, outcomes):
    panel = list(EXPERIMENTS).index(name)
    drawn = lines(outcomes["fig-convergence"].figures[figure].axes[panel])
    e = EXPERIMENTS[name]
    x, values = np.array(e.start), []
    for _ in range(41):
        values.append(e.function(x) - e.function.fmin)
        x = x - e.step * e.function.grad(x)
    scale = 1e-9 * values[0]
    assert drawn["GD"][:, 0].tolist() == list(range(41))
    np.testing.assert_allclose(drawn["GD"][:, 1], values, rtol=1e-6, atol=scale)
    spent, values = listing_of_cgd_fd(e)
    assert drawn["CGD-FD"][:, 0].tolist() == spent.tolist()
    np.testing.assert_allclose(drawn["CGD-FD"][:, 1], values, rtol=1e-6, atol=scale)
    assert drawn["CGD-FD"][-1, 0] == 40


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("figure", ["fig-convergence", "fig-convergence-log"])
def test_lam_alpha_and_the_end_of_the_penalty_are_marked(name, figure, outcomes):
    axes = outcomes["fig-convergence"].figures[figure].axes[list(EXPERIMENTS).index(name)]
    e = EXPERIMENTS[name]
    assert f"λ = {e.lam_text}, α = {e.step:g}" in axes.get_title()
    spent, _ = listing_of_cgd_fd(e)
    last = max(after for before, after in pairwise(spent) if after - before == 2)
    (mark,) = [line for line in axes.lines if line.get_linestyle() == ":"]
    assert list(mark.get_xdata()) == [last, last]


@pytest.mark.parametrize(
    ("name", "cgd_fd", "gd"),
    [
        ("branin", 0.0558, 0.0695),
        ("matyas", 0.694, 3.96),
        ("griewank", 72.55, 73.25),
        ("levy", 4.624, 4.624),
    ],
)
def test_values_after_forty_gradients(name, cgd_fd, gd):
    panel = fig_convergence.panels()[name]
    assert panel.cgd_fd[40] == pytest.approx(cgd_fd, rel=1e-3)
    assert panel.gd[40] == pytest.approx(gd, rel=1e-3)


def test_cgd_fd_is_ahead_at_every_count_but_on_levy():
    behind = {name: panel.behind for name, panel in fig_convergence.panels().items()}
    assert behind.pop("levy")[0] == 4
    assert not any(behind.values())


# --- Fig. 4 ---------------------------------------------------------------------------------------


def quasi_newton(panel, method, T=40):
    """Return f − f* of the paper's product-form updates, skipping pairs without positive curvature."""
    f, grad, x, eye = panel.function, panel.function.grad, np.array(panel.start), np.eye(2)
    matrix, values = eye, [panel.function(panel.start)]
    g = grad(x)
    penalised = method.startswith("cgd")
    for _ in range(T):
        p = -(eye + 2 * panel.lam * matrix) @ g if penalised else -matrix @ g
        new = x + panel.step * (p if g @ p < 0 else -g)
        s, y = new - x, grad(new) - g
        if y @ s > 1e-10 * np.linalg.norm(y) * np.linalg.norm(s):
            # BFGS on G and DFP on its inverse are one formula with s and y exchanged
            a, b = (y, s) if penalised else (s, y)
            if method in {"bfgs", "cgd-dfp"}:
                left = eye - np.outer(a, b) / (a @ b)
                matrix = left @ matrix @ left.T + np.outer(a, a) / (a @ b)
            else:
                mb = matrix @ b
                matrix = matrix + np.outer(a, a) / (a @ b) - np.outer(mb, mb) / (b @ mb)
        x, g = new, grad(new)
        values.append(f(x))
    return np.array(values) - f.fmin


@pytest.mark.parametrize("name", fig_quasi_newton.PANELS)
def test_quasi_newton_curves_are_those_of_hand_written_loops(name, outcomes):
    position = list(fig_quasi_newton.PANELS).index(name)
    drawn = lines(outcomes["fig-quasi-newton"].figures["fig-quasi-newton"].axes[position])
    for label, method in fig_quasi_newton.METHODS.items():
        expected = quasi_newton(fig_quasi_newton.PANELS[name], method)
        assert drawn[label][:, 0].tolist() == list(range(41))
        np.testing.assert_allclose(drawn[label][:11, 1], expected[:11], rtol=1e-6)
        # on Drop-Wave the plain methods leave a straight line by rounding, which grows
        loose = name == "drop-wave" and not method.startswith("cgd")
        np.testing.assert_allclose(drawn[label][:, 1], expected, rtol=2e-3 if loose else 1e-6)


def test_curves_that_coincide_are_told_apart_without_colour(outcomes):
    for axes in outcomes["fig-quasi-newton"].figures["fig-quasi-newton"].axes:
        drawn = {line.get_label(): line for line in axes.lines}
        assert "λ = " in axes.get_title()
        assert "α = " in axes.get_title()
        for pair in (("BFGS", "DFP"), ("CGD-BFGS", "CGD-DFP")):
            one, other = (drawn[label] for label in pair)
            assert one.get_linestyle() != other.get_linestyle()
            assert one.get_linewidth() > 2 * other.get_linewidth()  # so that both are seen
            assert one.get_marker() != other.get_marker()
            places = [set(range(*line.get_markevery()[:1], 41, 10)) for line in (one, other)]
            assert not places[0] & places[1]


@pytest.mark.parametrize("name", fig_quasi_newton.PANELS)
def test_quasi_newton_runs_stay_inside_the_bounds(name):
    panel = fig_quasi_newton.PANELS[name]
    low, high = panel.function.bounds.T
    for run in panel.runs().values():
        assert (run.trace.x >= low).all()
        assert (run.trace.x <= high).all()


@pytest.mark.parametrize("name", fig_quasi_newton.PANELS)
def test_quasi_newton_runs_learn_from_every_step(name):
    panel = fig_quasi_newton.PANELS[name]
    for run in panel.runs().values():
        s, y = (np.diff(rows, axis=0) for rows in (run.trace.x, panel.function.grad(run.trace.x)))
        assert ((s * y).sum(axis=1) > 0.1 * np.linalg.norm(s, axis=1) * np.linalg.norm(y, axis=1)).all()


@pytest.mark.parametrize("name", fig_quasi_newton.PANELS)
def test_quasi_newton_settings_are_no_knife_edge(name):
    """A start, α and λ changed a little give the same picture."""
    panel = fig_quasi_newton.PANELS[name]
    rng = np.random.default_rng(0)
    before = {label: run.trace.f - panel.function.fmin for label, run in panel.runs().items()}
    for _ in range(5):
        shift = 1 + 2e-4 * rng.uniform(-1, 1, 4)
        start = tuple(np.array(panel.start) * shift[:2])
        other = fig_quasi_newton.Panel(panel.function, panel.lam * shift[2], panel.step * shift[3], start)
        for label, run in other.runs().items():
            after = run.trace.f - panel.function.fmin
            assert np.abs(after - before[label]).max() < 0.03 * before[label][0]


# --- the left of Fig. 5 ---------------------------------------------------------------------------


def test_two_wells_paths_are_those_of_hand_written_loops(outcomes):
    drawn = lines(outcomes["fig-egr"].figures["fig-egr"].axes[0])

    def f(x):
        return (x - 2) ** 2 / 2 - 1.2 * mp.exp(-8 * x**2)

    def g(x):
        return f(x) + 0.055 * mp.diff(f, x) ** 2

    for label, fun in (("GD, on f", f), ("CGD, on g", g)):
        x = mp.mpf("-0.8")
        for drawn_x, drawn_y in drawn[label][:20]:
            assert drawn_x == pytest.approx(float(x), abs=1e-7)
            assert drawn_y == pytest.approx(float(fun(x)), abs=1e-7)
            x -= mp.mpf("0.1") * mp.diff(fun, x)
    assert drawn["GD, on f"][-1, 0] == pytest.approx(
        float(mp.findroot(lambda t: mp.diff(f, t), 0.1)), abs=1e-6
    )
    assert drawn["CGD, on g"][-1, 0] == pytest.approx(2, abs=1e-5)
