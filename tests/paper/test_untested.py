"""What the paper leaves untested: the items' numbers against closed forms and hand-written loops."""

import numpy as np
import pytest

import steepen as st
from steepen.paper import artificial_points, egr, extensions, fig_quasi_newton, listings
from steepen.paper.experiments import EXPERIMENTS, T
from steepen.paper.fig_quasi_newton import PANELS
from steepen.paper.recover import roots_in_the_plane


def test_the_best_step_of_gd_on_matyas_by_its_eigenvalues():
    row = EXPERIMENTS["matyas"]
    u, v = np.array([[1, 1], [1, -1]]) @ row.x0 / np.sqrt(2)

    def left(step):
        return (0.04 * u**2 * (1 - 0.04 * step) ** (2 * T) + v**2 * (1 - step) ** (2 * T)) / 2

    steps = extensions.STEPS * row.alpha
    steps = steps[steps < 2]  # beyond, the steep direction rises
    tuned = extensions.best_step(row, "gd")
    assert tuned.step == pytest.approx(steps[np.argmin(left(steps))])
    assert tuned.gap == pytest.approx(left(steps).min(), rel=1e-6)
    assert tuned.run.fun == pytest.approx(tuned.gap, rel=1e-6)
    for name in ("levy", "griewank"):  # the best of those with which f never rises
        f = extensions.best_step(EXPERIMENTS[name], "gd").run.trace.f
        assert (np.diff(f) <= 1e-12 * abs(f[0])).all()


def test_a_good_drop_on_the_quadratic_is_made_in_the_first_step():
    for name, steps in (("quadratic", 1), ("griewank", T // 2)):  # 97.91 % at once; 0.08 %, so never
        for share in extensions.DROPS:
            assert extensions.after_drop(EXPERIMENTS[name], share)[0] == steps


def test_all_points_of_a_separable_function_are_pairs_of_those_of_one_variable():
    lam = 0.05
    own = np.sort(np.roots([2, 0, -16, 2.5]).real)
    bent = np.sqrt((16 - 1 / (2 * lam)) / 6) * np.array([-1, 1])
    expected = np.array([(a, b) for a in [*own, *bent] for b in [*own, *bent]])
    f = st.functions["styblinski-tang"].at(n=2)
    box = np.array([(-4.0, 4.0)] * 2)
    found = roots_in_the_plane(lambda x: egr.Penalised(f, lam).grad(x), box)
    assert len(found) == 25
    apart = np.abs(found[:, None] - expected).max(axis=2)
    assert apart.min(axis=0).max() < 1e-8
    kinds = [egr.kind(f, x, lam) for x in found]
    assert kinds.count("artificial") == 25 - 9


def test_a_trial_of_the_sweep_is_a_run_of_the_listing():
    panel = PANELS["zakharov"]
    trials = fig_quasi_newton.search(panel.function, trials=20)
    rng = np.random.default_rng(fig_quasi_newton.SEED)
    starts = rng.uniform(*panel.function.bounds.T, (20, 2))
    checked = 0
    for i in np.flatnonzero(trials.suitable):
        xs = listings.cgd_qn(panel.function.grad, starts[i], T, trials.step[i], trials.lam[i], listings.bfgs)
        assert trials.gaps[2, :, i] == pytest.approx(panel.function(xs), rel=1e-6, abs=1e-12)
        checked += 1
    assert checked > 0


def test_a_function_with_one_minimum_has_no_flatter_one():
    for pairs in artificial_points.compare(st.functions["booth"]).values():
        assert pairs.minima > 0
        assert (pairs.flatter, pairs.sharper, pairs.same) == (0, 0, pairs.minima)


def test_the_best_of_the_schedules_by_hand():
    row = EXPERIMENTS["matyas"]
    low, high = row.function.bounds.T
    starts = np.random.default_rng(extensions.SEED).uniform(low, high, (extensions.STARTS, 2))
    for kind, ends in (("constant", (1, 1)), ("rising", (0.1, 1)), ("falling", (1, 0.1))):
        lowest = np.inf
        for lam in row.lam * extensions.FACTORS:
            schedule = listings.linear(ends[0] * lam, ends[1] * lam, T)
            xs, _ = listings.cgd_fd(row.function.grad, starts[0], T, row.alpha, schedule, row.r, T // 4)
            lowest = min(lowest, row.function(xs[-1]))
        assert extensions.best_schedule(row, kind)[0] == pytest.approx(lowest, rel=1e-6)


def test_a_step_with_negative_lam_by_its_formula():
    f = extensions.HILLS[0]
    x, L = extensions.points(f)
    assert (np.linalg.eigvalsh(f.hess(x)) < 0).all()
    g = f.grad(x)
    p = g - 2 / L[:, None] * np.einsum("bij,bj->bi", f.hess(x), g)
    fall = f(x) - f(x - extensions.STEP / L[:, None] * p)
    made, guarded = extensions.step(f, x, extensions.STEP / L, -1 / L)
    assert made == pytest.approx(fall, abs=1e-9)
    assert not guarded.any()


def test_how_far_a_norm_hovers_by_hand():
    row = EXPERIMENTS["quadratic"]
    H, x, sizes = row.function.hess(np.zeros(10)), np.array(row.x0), []
    for _ in range(extensions.HOVER):
        g = H @ x
        sizes.append(np.linalg.norm(g))
        p = -(g + row.lam * H @ g / sizes[-1])
        x = x + row.alpha * (p if g @ p < 0 else -g)
    left = extensions.hovers(st.penalties.L2())
    assert left == pytest.approx(max(sizes[-19:]) / sizes[0], rel=0.05)
