"""Numbers that overflow, underflow or vanish: an honest status each time, no error or warning of ours."""

import itertools
import math

import numpy as np
import pytest

import steepen as st
from steepen import Budget, Status

from ..objectives import METHODS
from ..pairs import pairs, sample
from ..rounding import seen as moved


def silent(function):
    """Make a function that does not warn: every warning left, an error under pytest, is ours."""

    def call(x):
        with np.errstate(all="ignore"):
            return function(x)

    return call


@pytest.mark.parametrize("a", [10.0, 100.0])
def test_an_exponential_cliff_is_descended_or_its_end_is_no_success(a):
    """exp(ax) − x is least at −log(a)/a."""
    f, g = silent(lambda x: float(np.exp(a * x[0]) - x[0])), silent(lambda x: a * np.exp(a * x) - 1)
    for x0 in sample(np.linspace(0.5, 14, 60).tolist(), 12):
        res = st.minimize(f, [x0], jac=g)
        if math.isinf(f(np.array([x0]))):
            assert res.status is Status.NONFINITE_VALUE
        else:
            assert res.success
            assert res.fun - (1 + math.log(a)) / a <= 1e-6


@pairs(method=METHODS, step=(1e12, None), batch=(False, True))
def test_a_minimum_at_infinity_is_not_reached_in_one_step(method, step, batch):
    """f = exp(−x) is 0 at infinity, with no slope left: no success may have an x that is not finite."""
    x0 = np.array([[-700.0], [-699.0]]) if batch else np.array([-700.0])
    f, g = silent(lambda x: np.exp(-x[..., 0])), silent(lambda x: -np.exp(-x))
    res = st.minimize(f, x0, jac=g, method=method, step=step, xtol=10.0)
    assert np.isfinite(res.x).all()
    assert np.isfinite(res.fun).all()
    if step is not None and method == "gd":
        assert np.all(res.status == Status.DIVERGED)
        assert np.all(res.x == x0)


def test_a_run_that_climbs_until_it_overflows_gives_its_lowest_point():
    res = st.minimize(lambda x: abs(x).sum(), [1.0], jac=lambda x: x, method="gd", step=1e100)
    assert (res.status, res.x, res.fun) == (Status.DIVERGED, 1.0, pytest.approx(1.0))


def test_a_row_that_diverges_leaves_the_others_to_their_xtol():
    starts = np.array([[1e308, 1e308], [1.0, 2.0], [3.0, 2.0]])
    given = {"method": "bfgs", "step": 1.0, "xtol": 1e-9, "budget": Budget(iters=5)}
    given["jac"] = lambda x: np.where(abs(x) > 1e300, -x, x * 1e-3)
    fun = lambda x: (np.clip(x, -1e100, 1e100) ** 2).sum(-1) / 1e200  # noqa: E731
    together = st.minimize(fun, starts, **given)
    assert together.status[0] == Status.DIVERGED
    for row, x0 in enumerate(starts):
        alone = st.minimize(fun, x0, **given)
        assert together.status[row] == alone.status
        np.testing.assert_array_equal(together.x[row], alone.x)


@pairs(dtype=(np.float32, np.float64), rows=(None, 2))
def test_x_overflows_in_the_range_of_its_own_precision(dtype, rows):
    """A step of 10³⁹ is nothing to float64, and out of range for float32: nobody is asked about such an x."""
    asked = []

    def fun(x):
        asked.append(bool(np.isfinite(x).all()))
        return np.asarray(x.sum(axis=-1), dtype=float)

    x0 = np.ones((3,) if rows is None else (rows, 3), dtype=dtype)
    res = st.minimize(fun, x0, jac=np.ones_like, method="gd", step=1e39, budget=Budget(iters=3))
    assert np.all(res.status == (Status.DIVERGED if dtype == np.float32 else Status.MAX_ITERATIONS))
    assert all(asked)


SCALES, STEEP = (1e-320, 1e-162, 1e-80, 1e80, 1e162, 1e300), (1e-300, 1e-150, 1.0, 1e150, 1e300)
BOWLS = sample(itertools.product(METHODS, SCALES, STEEP, (None, 1e-12, 0.1, 1e12)), 151)


@pytest.mark.parametrize(("method", "scale", "steep", "step"), BOWLS)
def test_a_bowl_of_any_size_ends_with_an_honest_status(method, scale, steep, step):
    """f = ½·steep·Σ aᵢxᵢ² from points of any size: its minimum is 0, at 0."""
    a = steep * np.array([1.0, 3.0])
    f, g = silent(lambda x: float((a * x * x).sum() / 2)), silent(lambda x: a * x)
    x0 = scale * np.array([1.0, -2.0])
    res = st.minimize(f, x0, jac=g, method=method, step=step, gtol=0, budget=Budget(iters=60))
    if res.success:
        assert res.status is not Status.CONVERGED or not moved(g, "jac")(res.x).any()
        # by another way of counting: no shorter vector along any axis has a lower value
        assert all(res.fun - f(res.x * np.array(k)) <= 1e-12 * res.fun for k in ((0.9, 1.0), (1.0, 0.9)))


@pytest.mark.bits  # the sum itself is looked at
def test_a_linear_function_falls_without_a_warning():
    for state in ("warn", "raise"):  # a caller who raises on overflow meets none of ours
        with np.errstate(all=state):
            res = st.minimize(silent(lambda x: float(x.sum())), np.ones(8), jac=lambda x: np.ones(8))
        assert res.status is Status.UNBOUNDED
        assert res.best.fun == res.fun == res.x.sum()


def test_functions_and_callbacks_keep_the_error_state_of_the_caller():
    seen = []

    def noted(value):
        seen.append(dict(np.geterr()))
        return value

    with np.errstate(over="raise", invalid="print", divide="ignore"):
        mine = dict(np.geterr())
        st.minimize(
            lambda x: noted(float(x @ x)), np.array([3.0, 4.0]), jac=lambda x: noted(2 * x), method="cgd",
            hvp=lambda x, v: noted(2 * v), callback=lambda s: noted(None), check_gradient=True,
            budget=Budget(iters=3),
        )  # fmt: skip
        assert dict(np.geterr()) == mine
    assert len(seen) > 10
    assert all(state == mine for state in seen)


def test_a_warning_of_the_function_is_still_heard():
    with pytest.warns(RuntimeWarning, match="overflow encountered in exp"):
        st.minimize(lambda x: float(np.exp(x[0] * 1e3)), [1.0], jac=lambda x: x, budget=Budget(iters=1))
