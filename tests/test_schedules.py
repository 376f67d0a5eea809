"""Values that change with k, and λ that follows the curvature."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import steepen as st
from steepen import penalties, schedules, switches

from .calls import by_matrix, cgd, matrices, quadratic, slope, traced
from .pairs import pairs


@given(some.floats(-1e3, 1e3), some.floats(-1e3, 1e3), some.integers(1, 50))
def test_a_ramp_against_its_formula(a, b, total):
    even = schedules.L(a, b, T=total)
    expected = np.linspace(a, b, total)
    np.testing.assert_allclose([even(k) for k in range(total)], expected, atol=1e-14 * (abs(a) + abs(b)))
    assert even(0) == a
    assert even(total) == even(total + 5) == pytest.approx(b, abs=1e-14 * (abs(a) + abs(b)))  # ever after


@pytest.mark.parametrize(
    ("limit", "total"), [({"iters": 7}, 7), ({"grads": 9}, 9), ({"iters": 30, "grads": 9}, 9)]
)
def test_the_length_of_a_ramp_comes_from_the_budget(limit, total):
    ramp, filled = st.L(0.001, 0.01), st.L(0.001, 0.01, T=total)
    for lam in (ramp, schedules.Signed(ramp)):  # one inside another, too
        trace = traced(lam=lam, step=ramp, budget=st.Budget(**limit))
        expected = [filled(k) for k in range(len(trace) - 1)]
        assert np.abs(trace.lam[:-1]).tolist() == trace.step[:-1].tolist() == expected
    assert filled.fit(50) is filled


def test_step_and_lam_follow_any_callable():
    schedule = lambda k: 0.01 / (k + 1)  # noqa: E731
    trace = traced(lam=schedule, step=schedule)
    assert trace.lam[:-1].tolist() == trace.step[:-1].tolist() == [schedule(k) for k in range(12)]


@pytest.mark.parametrize("wrap", [lambda v: v, schedules.Signed, schedules.Constant])
def test_one_value_a_row(wrap):
    rows, starts = np.array([0.03, 0.01, 0.02]), np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    batch = cgd(starts, lam=wrap(rows), step=rows, r=rows, method="cgd-fd", b=3)  # the first ends at once
    assert batch.trace.lam[0, 1:].tolist() == batch.trace.step[0, 1:].tolist() == [0.01, 0.02]
    for start, x, value in zip(starts, batch.x, rows.tolist(), strict=True):
        alone = cgd(start, lam=wrap(value), step=value, r=value, method="cgd-fd", b=3)
        assert x.tolist() == alone.x.tolist()


@pytest.mark.parametrize("schedule", [np.full(60, 0.01).__getitem__, st.L(*np.array([0.01, 0.02]))])
def test_schedules_of_numpy_numbers_leave_float32_alone(schedule):
    given_ = {"jac": lambda x: 2 * x, "budget": st.Budget(iters=20)}
    for more in ({"method": "gd", "step": schedule}, {"method": "cgd-fd", "step": 0.01, "lam": schedule}):
        assert st.minimize(lambda x: x @ x, np.ones(2, "f4"), **given_, **more).x.dtype == np.float32


@given(matrices(), some.floats(1e-3, 1e3), some.sampled_from([1e-3, None]))
def test_a_signed_lam_never_trips_the_guard(problem, lam, step):
    q, x0 = problem
    trace = by_matrix(q, x0, lam=schedules.Signed(lam), step=step, budget=st.Budget(iters=6), trace="x")
    assert not trace.guarded.any()
    assert trace.penalised[:-1].all()
    for x, used in zip(trace.x[:-1], trace.lam, strict=False):
        assert used == math.copysign(lam, x @ q @ q @ q @ x)
    assert by_matrix(np.diag([-1.0, 0.1]), [1.0, 0.1], lam=5.0).guarded[:-1].all()  # an unsigned one does


@given(matrices())
def test_auto_is_the_memoryless_bfgs_direction(problem):
    q, x0 = problem
    trace = by_matrix(q, x0, step=1.0, budget=st.Budget(iters=1), trace="x")
    p, s = trace.x[1] - trace.x[0], q @ x0
    # BFGS with the single pair s = g, y = Hg on γI, γ = sᵀy/yᵀy (both signs of sᵀy: formally)
    y = q @ s
    gamma, rho = s @ y / (y @ y), 1 / (s @ y)
    left = np.eye(len(s)) - rho * np.outer(s, y)
    inverse = gamma * left @ left.T + rho * np.outer(s, s)
    a, size = s @ s / (s @ y), np.linalg.norm(p) + np.linalg.norm(x0)
    np.testing.assert_allclose(2 * a * p, -inverse @ s, atol=1e-9 * abs(a) * size)
    assert not trace.guarded[0]
    assert s @ p <= -0.499 * (s @ s) + 1e-12 * size * np.linalg.norm(s)


@pairs(
    penalty=[penalties.SquaredL2(), penalties.L2(), penalties.PNorm(3.0)],
    scale=[1e-3, 1e3],
    method=["cgd", "cgd-fd"],
)
def test_auto_is_free_of_the_scale_of_f(penalty, scale, method):
    given_ = {"penalty": penalty, "method": method}
    scaled = {"fun": lambda x: scale * quadratic(x), "jac": lambda x: scale * slope(x), "step": 0.02 / scale}
    result = cgd(**given_ | scaled)
    np.testing.assert_allclose(result.x, cgd(**given_).x, rtol=1e-9 if method == "cgd" else 1e-6)
    assert not result.trace.guarded.any()


def test_auto_is_nothing_where_f_is_a_plane():
    trace = traced(fun=lambda x: x[0] - 2 * x[1], jac=lambda x: np.array([1.0, -2.0]), hvp=lambda x, v: 0 * v)
    assert (trace.lam[:-1] == 0).all()
    assert not trace.guarded.any()


def test_one_rule_of_the_curvature_inside_another():
    """On x² − y² from (1, 2), gᵀHg = −24 and ‖Hg‖² = 80."""
    given_ = {"fun": lambda x: x[0] ** 2 - x[1] ** 2, "jac": lambda x: np.array([2 * x[0], -2 * x[1]])}
    given_ |= {"x0": [1.0, 2.0], "hvp": lambda x, v: np.array([2.0, -2.0]) * v, "step": 0.1}
    auto = schedules.Auto()
    for lam, first in (
        (auto, 0.075), (schedules.Signed(auto), -0.075), (schedules.Perturbed(auto), 0.075),
        (schedules.Perturbed(schedules.Signed(0.1)), -0.1),
        (schedules.Signed(schedules.Perturbed(0.15)), -0.075),
    ):  # fmt: skip
        assert traced(lam=lam, **given_).lam[0] == pytest.approx(first)


def pit(x):
    square = (x * x).sum(axis=-1)
    return square / 10 + np.tanh(square / 2 - 2)


def pit_gradient(x):
    edge = np.tanh((x * x).sum(axis=-1, keepdims=True) / 2 - 2)
    return x * (0.2 + 1 - edge * edge)


PIT = {"fun": pit, "jac": pit_gradient, "step": 0.1, "budget": st.Budget(iters=1000)}


@pairs(method=["cgd", "cgd-fd"], factor=[0.0, 0.5, 0.9], x0=[[3.5], [1.0, 2.0, 3.0]])
def test_another_lam_leaves_the_artificial_points_of_the_pit(method, factor, x0):
    """At radius 2.68 there is a ring of them for λ = 0.3; the minimum is at 0."""
    given_ = {"x0": np.array(x0), "method": method, "switch": switches.Never(), **PIT}
    stays = st.minimize(lam=0.3, **given_ | {"budget": st.Budget(iters=35)})
    assert np.linalg.norm(stays.x) == pytest.approx(2.6804, abs=0.01)
    leaves = st.minimize(lam=schedules.Perturbed(0.3, factor), **given_)
    assert leaves.success
    assert np.linalg.norm(leaves.x) < 1e-4


def test_another_lam_is_used_nowhere_else():
    lams = (0.3, schedules.Perturbed(0.3, 0.4))
    plain, remedied = (
        st.minimize(x0=np.array([3.5, 1.0]), lam=lam, method="cgd", trace="x", **PIT).trace for lam in lams
    )
    used = remedied.lam[:-1]
    assert set(used.tolist()) == {0.0, 0.4 * 0.3, 0.3}  # 0 where the guard has fired
    first = int(np.argmax(used == 0.4 * 0.3))
    assert np.array_equal(plain.f[:first], remedied.f[:first])
    at = remedied.x[first]
    assert np.linalg.norm(at) == pytest.approx(2.68, abs=0.01)
    assert np.linalg.norm(pit_gradient(at)) > 0.5


def test_each_row_has_its_own_remedy():
    starts, lams = np.array([[3.5, 1.0], [2.0, 1.5], [0.5, 0.1]]), [0.3, 0.3, 0.2]
    both = st.minimize(x0=starts, lam=schedules.Perturbed(lams), method="cgd", **PIT)
    for row, (start, one) in enumerate(zip(starts, lams, strict=True)):
        alone = st.minimize(x0=start, lam=schedules.Perturbed(one), method="cgd", **PIT)
        assert alone.nit == both.nit[row]
        np.testing.assert_allclose(both.x[row], alone.x, atol=1e-12)
