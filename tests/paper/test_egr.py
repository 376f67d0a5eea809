"""EGR: its landscapes, its traps and its cures against formulas and hand-written loops."""

import mpmath as mp
import numpy as np
import pytest
from tests.pairs import pairs

import steepen as st
from steepen.paper import egr


def hand_written(scene, way):
    f, x, lam = scene.f, scene.starts.copy(), scene.lam
    guarded = 0
    for k in range(scene.iters):
        slope = f.grad(x)
        steep = slope + 2 * lam * np.einsum("bij,bj->bi", f.hess(x), slope)
        if way == "gd" or (way == "switch-off" and k >= scene.b):
            p = -slope
        elif way == "guard":
            descends = (slope * steep).sum(axis=1, keepdims=True) > 0
            moving = np.linalg.norm(slope, axis=1) > 1e-6
            guarded += int((~descends[:, 0] & moving).sum())
            p = np.where(descends, -steep, -slope)
        else:
            p = -steep
        x = x + scene.step * p
    return x, guarded


def descended(scene, way):
    return egr.descend(
        scene.f, scene.starts, way, lam=scene.lam, step=scene.step, iters=scene.iters, b=scene.b
    )


@pairs(way=egr.WAYS, name=["levy-1d", "pit-2d-short-step"])
def test_ends_are_those_of_hand_written_loops(name, way):
    scene = egr.SCENES[name]
    x, guarded = hand_written(scene, way)
    close = np.abs(descended(scene, way).x - x).max(axis=1) < 1e-4
    # a run that hops between wells for long magnifies rounding; such starts are few
    assert close.mean() > 0.97
    assert abs(scene.ends(way).guarded - guarded) <= 0.03 * max(guarded, 1)


@pytest.mark.parametrize(
    ("name", "way", "kind"),
    [
        ("two-wells-1d", "egr", "minimum"), ("levy-1d", "guard", "minimum"), ("pit-2d", "egr", "artificial"),
        ("pit-1d", "guard", "minimum"), ("pit-1d-short-step", "guard", "artificial"),
        ("pit-2d-short-step", "switch-off", "minimum"),
    ],
)  # fmt: skip
def test_all_runs_of_a_scene_end_alike(name, way, kind):
    ends = egr.SCENES[name].ends(way)
    assert ends.kinds == {kind: len(egr.SCENES[name].starts)}
    assert ends.total == len(egr.SCENES[name].starts)
    assert ends.astray == (0 if kind == "minimum" else ends.total)


def test_artificial_points_of_the_pit_are_a_circle():
    radius = float(mp.findroot(lambda s: mp.diff(mp_pit, s, 2) + 1 / 0.6, 2.7))
    for angle in (0.0, 1.0, 4.0):
        x = [radius * np.cos(angle), radius * np.sin(angle)]
        assert egr.kind(egr.pit(2), x, lam=0.3) == "artificial"
        assert np.linalg.norm(egr.Penalised(egr.pit(2), 0.3).grad(x)) < 1e-9
    found = egr.stationary_points(egr.pit(), 0.3, (0.5, 5.0))
    assert [(one.to_f, one.to_g) for one in found] == [("artificial", "maximum"), ("artificial", "minimum")]
    assert found[1].x == pytest.approx(radius, abs=1e-9)


def mp_wells(*x):
    return sum((t - (2 if i == 0 else 0)) ** 2 for i, t in enumerate(x)) / 2 - mp.mpf("1.2") * mp.exp(
        -sum(t * t for t in x) / (2 * mp.mpf("0.25") ** 2)
    )


def mp_pit(*x):
    square = sum(t * t for t in x)
    return square / 10 + mp.tanh(square / 2 - 2)


@pytest.mark.parametrize(("make", "truth"), [(egr.two_wells, mp_wells), (egr.pit, mp_pit)])
@pytest.mark.parametrize("point", [(0.3,), (2.2, 0.9)])
def test_landscapes_and_their_gradients(make, truth, point):
    f = make(len(point))
    orders = np.eye(len(point), dtype=int).tolist()
    assert float(f(point)) == pytest.approx(float(truth(*point)), abs=1e-13)
    expected = [float(mp.diff(truth, point, tuple(order))) for order in orders]
    np.testing.assert_allclose(f.grad(point), expected, rtol=1e-10, atol=1e-12)
    batch = np.array([point, point])
    np.testing.assert_array_equal(f.grad(batch)[1], f.grad(point))
    np.testing.assert_allclose(f.grad(f.minima), 0, atol=1e-11)
    np.testing.assert_allclose(f(f.minima), f.fmin, rtol=1e-12)
    assert f.at(n=4).n == 4


@pytest.mark.parametrize(("h", "lam"), [(1.0, 0.0), (30.0, 0.05)])
def test_stable_step_divides_convergence_from_escape(h, lam):
    f = st.functions.quadratic([[h]])
    for factor, stays in ((0.98, True), (1.02, False)):
        run = egr.descend(f, [1.0], "egr", lam=lam, step=factor * egr.stable_step(h, lam), iters=300)
        assert bool(abs(run.x[0]) < 1) is stays


def test_switch_off_takes_b_steps_on_g_and_the_rest_on_f():
    f = st.functions["levy"].at(n=1)
    x = np.array([-7.7])
    for _ in range(3):
        x = x - 0.004 * (f.grad(x) * (1 + 2 * 0.2 * f.hess(x)[0]))
    run = egr.descend(f, [-7.7], "switch-off", lam=0.2, step=0.004, iters=10, b=3)
    np.testing.assert_allclose(run.trace.x[0], x, rtol=1e-13)
    assert run.nit == 7
    scene = egr.SCENES["pit-1d"]  # a step on g costs two gradients, one on f one
    rest = descended(scene, "switch-off")
    assert scene.ends("switch-off").cost == pytest.approx(2 * scene.b + np.mean(rest.njev))


def test_wrong_arguments_say_which():
    for way, b, says in (("sgd", 5, "'sgd' is not known; did you mean 'gd'"), ("switch-off", 5, "iters: ")):
        with pytest.raises(ValueError, match=says):
            egr.descend(egr.pit(), [1.0], way, lam=0.1, step=0.1, iters=3, b=b)
