"""Differences where there is little to go by: boxes narrower than their steps, and values with few digits."""

from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import assume, given, settings
from hypothesis import strategies as some

import steepen as st
from steepen import Status

from ..objectives import METHODS

SCHEME = pytest.mark.parametrize("scheme", ["2-point", "3-point"])
METHOD = pytest.mark.parametrize("method", METHODS)


def bowl(x):
    return ((x - 1) ** 2).sum(axis=-1)


COARSE = {
    "float32": lambda x: bowl(x).astype(np.float32),
    "decimals": lambda x: np.round(bowl(x), 6),
    "float32 with an offset": lambda x: (1000 + bowl(x)).astype(np.float32).astype(float),
    "float32, scaled": lambda x: bowl(x).astype(np.float32).astype(float) / 3,
    "two decimals": lambda x: np.round(bowl(x), 2),
}
STARTS = np.array([[3.0, 4.0], [1.45, 0.45], [1.0, 1.0], [-20.0, 7.0]])


@SCHEME
@METHOD
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0], ids=["low", "middle", "high"])
@pytest.mark.parametrize("box", [(0, 1e-9), (0, 0), (3, np.nextafter(3, 4))], ids=["narrow", "none", "float"])
def test_a_narrow_box_does_not_end_a_run(method, scheme, box, place):
    low, high = box
    x0 = [1.0, min(low + place * (high - low), high)]
    res = st.minimize(lambda x: (x[0] - 4) ** 2 + x[1], x0, bounds=[(0, 10), box], jac=scheme, method=method)
    assert res.success
    assert res.x[0] == pytest.approx(4, abs=1e-5)
    assert low <= res.x[1] <= high
    assert np.isfinite(res.jac[0])


@pytest.mark.parametrize("width", [0.2, 0.05, 0.01])
def test_a_box_that_shortens_the_survey_of_f_leaves_the_gradient_right(width):
    """The variables' sizes differ, so f″ is surveyed; the box has no room for its intervals."""

    def fun(x):
        return 1e-3 * x[0] + x[1] + 1e6 * (x[1] - 1e-3) ** 2

    res = st.minimize(fun, [1.0, 1e-3], bounds=[(1 - width, 1 + width), (1e-3 - 1e-6, 1.0)])
    assert res.x[0] == 1 - width
    assert res.jac[0] == pytest.approx(1e-3, rel=1e-4)


@SCHEME
@pytest.mark.parametrize("start", [1e-12, 1e-9])
def test_a_capacitance_as_in_scipy(scheme, start):
    def fun(x):
        return (x[0] - 3) ** 2 + 0.01 * (x[1] / 1e-10 - 4) ** 2

    bounds = [(0, 10), (1e-12, 1e-9)]
    ours = st.minimize(fun, [1.0, start], bounds=bounds, jac=scheme)
    theirs = scipy.optimize.minimize(fun, [1.0, start], bounds=bounds, method="L-BFGS-B", jac="2-point")
    assert ours.fun <= theirs.fun + 1e-6


@pytest.mark.bits  # moved, values that are rounded are so no more
@SCHEME
@METHOD
@pytest.mark.parametrize("name", COARSE)
def test_no_success_that_rests_on_rounding(name, method, scheme):
    fun, calls = COARSE[name], 0

    def counted(x):
        nonlocal calls
        calls += 1
        return fun(x)

    for x0 in STARTS:
        calls = 0
        res = st.minimize(counted, x0, method=method, jac=scheme, budget=st.Budget(iters=200))
        true = np.linalg.norm(2 * (res.x - 1))
        assert res.nfev == calls
        lowest = res.status is Status.RESOLUTION and fun(res.x) <= fun(np.ones(2))
        ends = (Status.INACCURATE_GRADIENT, Status.LINE_SEARCH_FAILED)
        assert true < 1e-3 or lowest if res.success else res.status in ends
        if name != "two decimals":
            assert true < 0.2


@pytest.mark.bits  # moved, values that are rounded are so no more
@settings(deadline=None)
@given(
    digits=some.integers(3, 12), offset=some.sampled_from([0.0, 1.0, -300.0, 1e4]),
    scale=some.floats(0.01, 100), x0=some.lists(some.floats(-30, 30), min_size=1, max_size=4),
    scheme=some.sampled_from(["2-point", "3-point"]), method=some.sampled_from(["cgd-auto", "gd"]),
    box=some.sampled_from([None, (-1.0, 40.0), (0.5, 1.0), (-50.0, 0.0)]),
)  # fmt: skip
def test_significant_digits(digits, offset, scale, x0, scheme, method, box: Any):
    """However many digits f has: a slope is left only where it moves no digit over a tenth of x's size."""
    curvature = scale * np.arange(1, len(x0) + 1)

    def fun(x):
        return float(f"{offset + 0.5 * (curvature * (x - 1) ** 2).sum():.{digits}g}")

    bounds = None if box is None else [box] * len(x0)
    res = st.minimize(fun, x0, jac=scheme, method=method, bounds=bounds, budget=st.Budget(iters=200))
    reach, last = 0.1 * np.maximum(1, np.abs(res.x)), 10.0 ** (1 - digits) * abs(res.fun)
    slope = curvature * (res.x - 1)
    true = np.abs(slope if box is None else np.clip(res.x - slope, *box) - res.x)
    lowest = res.status is Status.RESOLUTION and res.fun - fun(np.clip(1.0, *(box or (1, 1)))) <= 10 * last
    assert (
        not res.success or lowest or (true < 1e-4 * max(1.0, scale)).all() or (true * reach < 2 * last).all()
    )


@SCHEME
def test_a_batch_finds_what_its_rows_find(scheme):
    def fun(x):
        return np.where(x[..., 1] > 0.7, np.round(bowl(x), 6), bowl(x) + 1)

    together = st.minimize(fun, STARTS, jac=scheme, budget=st.Budget(iters=40))
    for b, x0 in enumerate(STARTS):
        alone = st.minimize(fun, x0, jac=scheme, budget=st.Budget(iters=40))
        assert (together.status[b], together.nfev[b]) == (alone.status, alone.nfev)
        assert np.array_equal(together.x[b], alone.x)


@pytest.mark.bits  # it is about values that are equal to the last bit
@SCHEME
@METHOD
def test_a_smooth_function_that_is_level_is_no_coarse_one(method, scheme):
    """At a minimum to the last bit, far from 0; where nothing depends on x, or not on one variable."""
    for fun in (lambda x: bowl(x) + 7, lambda x: 5.0, lambda x: (x[0] - 1) ** 4 + 1):
        for bounds in (None, [(1, 3), (-3, 1)]):
            res = st.minimize(fun, [1.0, 1.0], method=method, jac=scheme, bounds=bounds)
            assert res.status is Status.CONVERGED
    res = st.minimize(lambda x: (x[0] - 2) ** 2 + 3, [1.0, 1.0], method=method, jac=scheme)
    assert res.success
    assert res.x == pytest.approx([2, 1], abs=1e-5)


@settings(deadline=None)
@given(c=some.floats(1e-3, 1e3), offset=some.floats(-100, 100), x0=some.floats(-5, 5))
def test_cubic_terms_are_no_grain(c, offset, x0):
    """At a start whose difference is exactly 0, by luck or since f is level there."""
    assume(abs(x0) > 1e-3)

    def fun(x):
        return offset + c * ((x[0] - x0) ** 2 + 0.1 * (x[0] - x0) ** 3)

    res = st.minimize(fun, [x0])
    assert res.status is not Status.INACCURATE_GRADIENT
    assert res.x[0] == pytest.approx(x0, abs=1e-5)
