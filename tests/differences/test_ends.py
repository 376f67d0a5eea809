"""How runs without a gradient end on functions that are flat, huge, tiny, coarse, or noisier as they go."""

import numpy as np
import pytest

import steepen as st

from .answers import Driver, adaptive_of

QUICK = 300


def minimized(fun, x0, **given):
    """Return a result that took few values, as an end that is seen soon does."""
    res = st.minimize(fun, x0, trace=False, **given)
    assert res.nfev < QUICK
    return res


@pytest.mark.parametrize("width", [1e-6, 1e-9, 1e-12])
def test_a_box_that_is_thin_along_one_variable_does_not_hold_the_others(width):
    res = minimized(
        lambda p: (p[0] - 2) ** 2 + (p[1] / width - 0.5) ** 2,
        [1.0, 0.1 * width],
        bounds=[(0, 10), (0, width)],
    )
    assert res.success
    np.testing.assert_allclose(res.x, [2, 0.5 * width], rtol=1e-5)


@pytest.mark.parametrize("bounds", [None, [(0, 5), (0, 5)]])
def test_what_does_not_change_f_stays_where_it_is(bounds):
    res = minimized(lambda p: 3.0, [1.0, 2.0], bounds=bounds)
    assert res.success
    np.testing.assert_array_equal(res.x, [1, 2])
    res = minimized(lambda p: (p[0] - 1) ** 2 + 2, [3.0, 2.0], bounds=bounds)
    assert res.success
    np.testing.assert_allclose(res.x, [1, 2], atol=1e-5)


@pytest.mark.parametrize("size", [1e300, 1e-300])
@pytest.mark.parametrize("least", [0.0, 1.0])
def test_values_of_any_size_are_minimized(size, least):
    res = minimized(lambda p: size * (least + ((p - 1) ** 2).sum()), [3.0, 2.0])
    np.testing.assert_allclose(res.x, [1, 1], atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_grows_along_a_run_is_seen(seed):
    """It is 1e-8 at first, and grows by a twentieth with each value."""
    rng, made = np.random.default_rng(seed), []

    def fun(p):
        made.append(1e-8 * 1.05 ** len(made))
        return float((p[0] - 1) ** 2 + 10 * (p[1] - p[0]) ** 2 + made[-1] * rng.standard_normal())

    res = minimized(fun, [-1.2, 1.0])
    assert (res.x[0] - 1) ** 2 + 10 * (res.x[1] - res.x[0]) ** 2 < max(1e-4, 100 * made[-1])


@pytest.mark.parametrize("width", [1e-14, 1e-16])
def test_bounds_that_leave_no_room_for_a_difference_hold_their_variable(width):
    res = minimized(lambda p: ((p - 1) ** 2).sum(), [1.5, 2.0], bounds=[(1.5, 1.5 + width), (0, 5)])
    assert res.success
    np.testing.assert_allclose(res.x, [1.5, 1], atol=1e-5)


def test_bounds_within_one_step_of_a_rounded_variable():
    def fun(p):
        return float(((np.round(p, 2) - 1.234) ** 2).sum())

    res = minimized(fun, [0.5012, 2.0], bounds=[(0.501, 0.502), (0, 5)])
    assert res.status is st.Status.RESOLUTION
    assert round(res.x[1], 2) == 1.23


def few(p):
    return float(np.cosh(np.round(p, 2) - np.array([0.1, 0.2]) ** 0.5).sum())


def test_the_step_of_a_rounded_variable_is_that_between_two_jumps():
    """Not the distance from x to one of them, which may be tiny."""
    x = np.array([0.505 + 1e-9, 0.5])
    gradients = adaptive_of(x)
    gradients.known.jumps = True
    assert Driver(few)(gradients._finds_grid(x, few(x), np.zeros(2), np.zeros(2)))
    assert ((gradients.known.grid > 4e-3) & (gradients.known.grid < 2e-2)).all()


def test_a_rounded_variable_is_looked_at_again_where_f_stands_still():
    x = np.array([0.5, 0.5])
    gradients = adaptive_of(x)
    known = gradients.known
    known.central, known.curvature, known.grid = True, np.array([1.0, 1.0]), np.array([1e-12, 0.0])
    known.sought = np.array([True, True])
    Driver(few)(gradients.gradient(x, few(x)))
    assert 4e-3 < known.grid[0] < 2e-2
    assert known.grid[1] == 0  # nothing has said that it is rounded


def test_a_run_does_not_go_round_from_model_to_model():
    """Searches forgive what rounding does to f, and models of values then lead back: once is enough."""

    def fun(x):
        a, b = (float(f"{v:.2e}") for v in x)
        a, b = a + 3.0 - np.pi / 2, b + 0.5 + np.e / 3
        return float((1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2)

    start = np.array([np.pi / 2, -np.e / 3]) + np.random.default_rng(0).uniform(-1.5, 1.5, 2)
    res = minimized(fun, start, budget=st.Budget(evals=QUICK))
    assert res.success
    assert res.fun < 0.03
