"""The parts of a run: schedules, penalties, switches, steps; and the trace they leave."""

from __future__ import annotations

import csv
import math
import tracemalloc
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some

import steepen as st
from steepen import penalties, schedules, steps, switches

METHODS = ["gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto"]
QUICK = hypothesis_settings(max_examples=40, deadline=None)
W = np.array([1.0, 4.0])


def f(x: Any) -> Any:
    return (W * x * x).sum(axis=-1) / 2


def g(x: Any) -> Any:
    return W * x


def run(x0: Any = (1.0, -2.0), fun: Any = f, **given_: Any) -> st.Result:
    base: dict[str, Any] = {
        "jac": g,
        "method": "cgd",
        "step": 0.02,
        "budget": st.Budget(iters=12),
        "gtol": 0.0,
    }
    return st.minimize(fun, np.array(x0), **(base | given_))


def traced(*args: Any, **given_: Any) -> st.Trace:
    trace = run(*args, **given_).trace
    assert trace is not None
    return trace


# --- schedules -------------------------------------------------------------------------------------


@QUICK
@given(some.floats(-1e3, 1e3), some.floats(-1e3, 1e3), some.integers(1, 50))
def test_ramps_against_their_formulas(a: float, b: float, total: int) -> None:
    even, wave = schedules.L(a, b, T=total), schedules.Cosine(a, b, T=total)
    k = np.arange(total)
    share = k / max(total - 1, 1)
    scale = abs(a) + abs(b)
    np.testing.assert_allclose([even(i) for i in k], np.linspace(a, b, total), atol=1e-14 * scale)
    expected = b + (a - b) * np.cos(math.pi * share / 2) ** 2  # the half-angle form
    np.testing.assert_allclose([wave(i) for i in k], expected, atol=1e-13 * scale)
    assert even.length == wave.length == total
    if total > 1:
        assert even(total + 5) == even(total - 1)  # the end value ever after
    assert even(0) == wave(0) == a


@QUICK
@given(some.lists(some.floats(-9, 9), min_size=1, max_size=5), some.data())
def test_pieces_and_tables(values: list[float], data: Any) -> None:
    bounds = data.draw(
        some.lists(some.integers(1, 40), min_size=len(values) - 1, max_size=len(values) - 1, unique=True)
    )
    pieces = schedules.Piecewise(values, sorted(bounds))
    for k in range(45):
        assert pieces(k) == values[sum(k >= bound for bound in bounds)]
    assert pieces.length is None
    table = schedules.Table(values)
    assert table.length == len(values)
    assert [table(k) for k in range(len(values))] == values


@pytest.mark.parametrize("schedule", [st.L(0.001, 0.01), schedules.Cosine(0.01, 0.001)])
@pytest.mark.parametrize(
    ("budget", "total"), [({"iters": 7}, 7), ({"grads": 9}, 9), ({"iters": 30, "grads": 9}, 9)]
)
def test_the_length_of_a_ramp_comes_from_the_budget(schedule: Any, budget: Any, total: int) -> None:
    filled = type(schedule)(schedule.start, schedule.end, T=total)
    assert schedule.fit(total) == filled
    trace = traced(lam=schedule, step=schedule, budget=st.Budget(**budget))
    steps_taken = len(trace) - 1
    assert 0 < steps_taken <= total
    expected = [filled(k) for k in range(steps_taken)]
    assert trace.lam[:-1].tolist() == expected
    assert trace.step[:-1].tolist() == expected
    given_length = type(schedule)(schedule.start, schedule.end, T=50)
    assert given_length.fit(7) is given_length


@pytest.mark.parametrize(
    "schedule",
    [0.01, schedules.Constant(0.01), lambda k: 0.01 / (k + 1), schedules.Piecewise([0.01, 0.005], [3])],
)
def test_step_and_lam_follow_any_schedule(schedule: Any) -> None:
    trace = traced(lam=schedule, step=schedule)
    called = schedule if callable(schedule) else lambda k: schedule
    expected = [called(k) for k in range(12)]
    assert trace.lam[:-1].tolist() == trace.step[:-1].tolist() == expected
    assert math.isnan(trace.lam[-1])
    assert math.isnan(trace.step[-1])


def test_one_value_a_row() -> None:
    rows = np.array([0.01, 0.02])
    batch = run(np.ones((2, 2)), lam=rows, step=rows)
    assert batch.trace is not None
    assert batch.trace.lam[0].tolist() == batch.trace.step[0].tolist() == rows.tolist()
    for b, value in enumerate(rows):
        alone = run([1.0, 1.0], lam=float(value), step=float(value))
        assert batch.x[b].tolist() == alone.x.tolist()


def test_mistakes_in_schedules() -> None:
    with pytest.raises(ValueError, match=r"^values: expected one more than the 2 boundaries, got 2"):
        schedules.Piecewise([1.0, 2.0], [3, 4])
    with pytest.raises(ValueError, match=r"^boundaries: expected rising numbers, got \[4, 3\]"):
        schedules.Piecewise([1.0, 2.0, 3.0], [4, 3])
    with pytest.raises(ValueError, match=r"^T: not known yet"):
        schedules.L(0.0, 1.0)(0)
    for bad in (0, -3):
        with pytest.raises(ValueError, match=rf"^T: expected a whole number, 1 or more, got {bad}"):
            schedules.L(0.0, 1.0, T=bad)
    with pytest.raises(ValueError, match=r"the run has no limit"):
        schedules.Cosine(0.0, 1.0).fit(None)


# --- λ by curvature --------------------------------------------------------------------------------


@some.composite
def quadratics(draw: Any) -> tuple[Any, Any]:
    n = draw(some.integers(1, 6))
    rng = np.random.default_rng(draw(some.integers(0, 10**6)))
    q = rng.standard_normal((n, n)) * 10.0 ** draw(some.integers(-3, 3))
    return (q + q.T) / 2, rng.standard_normal(n)


def on_quadratic(q: Any, x0: Any, **given_: Any) -> st.Result:
    return run(x0, lambda x: x @ q @ x / 2, jac=lambda x: q @ x, hvp=lambda x, v: q @ v, **given_)


@QUICK
@given(quadratics(), some.floats(1e-3, 1e3), some.sampled_from([1e-3, None]))
def test_a_signed_lam_never_trips_the_guard(problem: Any, lam: float, step: Any) -> None:
    q, x0 = problem
    trace = on_quadratic(
        q, x0, lam=schedules.Signed(lam), step=step, budget=st.Budget(iters=6), trace="x"
    ).trace
    assert trace is not None
    assert trace.x is not None
    assert not trace.guarded.any()
    assert trace.penalised[:-1].all()
    curvature = [x @ q @ q @ q @ x for x in trace.x[:-1]]
    for along, used in zip(curvature, trace.lam, strict=False):
        assert abs(used) == lam
        assert (used > 0) == (along > 0)


def test_an_unsigned_lam_does_trip_the_guard() -> None:
    q = np.diag([-1.0, 0.1])
    assert on_quadratic(q, [1.0, 0.1], lam=5.0).trace.guarded[:-1].all()  # type: ignore[union-attr]
    assert not on_quadratic(q, [1.0, 0.1], lam=schedules.Signed(5.0)).trace.guarded.any()  # type: ignore[union-attr]


@QUICK
@given(quadratics())
def test_auto_is_the_memoryless_bfgs_direction(problem: Any) -> None:
    q, x0 = problem
    trace = on_quadratic(q, x0, step=1.0, budget=st.Budget(iters=1), trace="x").trace
    assert trace is not None
    assert trace.x is not None
    p = trace.x[1] - trace.x[0]
    grad = q @ x0
    # BFGS with the single pair s = g, y = Hg on γI, γ = sᵀy/yᵀy (both signs of sᵀy: formally)
    s, y = grad, q @ grad
    gamma, rho = s @ y / (y @ y), 1 / (s @ y)
    left = np.eye(len(s)) - rho * np.outer(s, y)
    inverse = gamma * left @ left.T + rho * np.outer(s, s)
    a = grad @ grad / (grad @ q @ grad)
    size = np.linalg.norm(p) + np.linalg.norm(trace.x[0])
    np.testing.assert_allclose(2 * a * p, -inverse @ grad, atol=1e-9 * abs(a) * size)
    assert not trace.guarded[0]
    assert grad @ p <= -0.499 * (grad @ grad) + 1e-12 * size * np.linalg.norm(grad)


@pytest.mark.parametrize(
    "penalty", [penalties.SquaredL2(), penalties.L2(), penalties.Huber(0.5), penalties.PNorm(3.0)]
)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_auto_is_free_of_the_scale_of_f(penalty: Any, scale: float) -> None:
    base = run(penalty=penalty, step=0.02).x
    result = run(penalty=penalty, step=0.02 / scale, fun=lambda x: scale * f(x), jac=lambda x: scale * g(x))
    if not isinstance(penalty, penalties.Huber):  # Huber has a scale of its own
        np.testing.assert_allclose(result.x, base, rtol=1e-9)
    assert result.trace is not None
    assert not result.trace.guarded.any()


def test_auto_where_f_is_flat() -> None:
    slope = np.array([1.0, -2.0])
    result = run(fun=lambda x: slope @ x, jac=lambda x: slope, hvp=lambda x, v: 0 * v)
    assert result.trace is not None
    assert (result.trace.lam[:-1] == 0).all()
    assert not result.trace.guarded.any()


# --- penalties -------------------------------------------------------------------------------------


def reference(penalty: Any, values: list[Any]) -> Any:
    """Write h once more, for mpmath."""
    if isinstance(penalty, penalties.SquaredL2):
        return sum(v**2 for v in values)
    if isinstance(penalty, penalties.L2):
        return mpmath.sqrt(sum(v**2 for v in values))
    if isinstance(penalty, penalties.L1):
        return sum(mpmath.sqrt(v**2 + mpmath.mpf(penalty.eps) ** 2) for v in values)
    if isinstance(penalty, penalties.PNorm):
        p = mpmath.mpf(penalty.p)
        return sum(abs(v) ** p for v in values) ** (1 / p)
    d = mpmath.mpf(penalty.delta)
    return sum(v**2 / 2 if abs(v) <= d else d * (abs(v) - d / 2) for v in values)


def slopes(penalty: Any, point: Any) -> list[float]:
    """Differentiate h by central differences at many digits."""
    found = []
    values = [mpmath.mpf(float(v)) for v in point]
    for i in range(len(values)):
        h = max(abs(v) for v in values) * mpmath.mpf(10) ** -60
        ahead, behind = ([v + sign * h * (j == i) for j, v in enumerate(values)] for sign in (1, -1))
        found.append(float((reference(penalty, ahead) - reference(penalty, behind)) / (2 * h)))
    return found


PENALTIES = [
    penalties.SquaredL2(), penalties.L2(), penalties.Huber(), penalties.Huber(1e-3), penalties.L1(),
    penalties.L1(0.5), penalties.PNorm(), penalties.PNorm(1.5), penalties.PNorm(2.0), penalties.PNorm(9.0),
]  # fmt: skip


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@hypothesis_settings(max_examples=15, deadline=None)
@given(
    values=some.lists(
        some.floats(-100, 100).filter(lambda v: v == 0 or abs(v) > 1e-3), min_size=1, max_size=4
    ),
    power=some.sampled_from([-150, -8, 0, 3, 150]),
)
def test_the_gradient_of_a_penalty(penalty: Any, values: list[float], power: int) -> None:
    point = np.array(values) * 10.0**power
    if not point.any():
        point[0] = 10.0**power
    with mpmath.workdps(500):
        expected = slopes(penalty, point)
        value = float(reference(penalty, [mpmath.mpf(float(v)) for v in point]))
    got = penalty.scale * penalty.vector(point)
    scale = max(map(abs, expected))
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14 * scale)
    np.testing.assert_allclose(float(penalty.value(point)), value, rtol=1e-13)


@pytest.mark.parametrize(
    "penalty", [p for p in PENALTIES if not isinstance(p, penalties.SquaredL2)], ids=repr
)
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_sizes_whose_squares_do_not_exist(penalty: Any, size: float) -> None:
    point = np.array([3.0, -4.0]) * size
    with mpmath.workdps(800):
        expected = slopes(penalty, point)
        value = float(reference(penalty, [mpmath.mpf(float(v)) for v in point]))
    np.testing.assert_allclose(penalty.scale * penalty.vector(point), expected, rtol=1e-12)
    np.testing.assert_allclose(float(penalty.value(point)), value, rtol=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_a_zero_gradient_and_leading_axes(penalty: Any) -> None:
    assert penalty.vector(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    at_zero = float(penalty.value(np.zeros(3)))
    assert at_zero == pytest.approx(3 * penalty.eps if isinstance(penalty, penalties.L1) else 0.0)
    batch = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [3.0, 1e-4, -7.0]])
    rows = [penalty.vector(row) for row in batch]
    np.testing.assert_allclose(penalty.vector(batch), rows, rtol=1e-15)
    np.testing.assert_allclose(penalty.value(batch), [penalty.value(row) for row in batch], rtol=1e-15)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_penalties_of_other_arrays(penalty: Any, library: str) -> None:
    xp = pytest.importorskip(library)
    point = np.array([[1.0, -2.0, 0.5], [3.0, 1e-2, -7.0]], dtype=np.float32)
    vector = penalty.vector(xp.asarray(point))
    assert isinstance(vector, type(xp.asarray(point)))
    assert str(vector.dtype).endswith("float32")
    np.testing.assert_allclose(np.asarray(vector), penalty.vector(point), rtol=2e-6)
    np.testing.assert_allclose(np.asarray(penalty.value(xp.asarray(point))), penalty.value(point), rtol=2e-6)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_the_direction_is_the_gradient_of_the_penalised_function(penalty: Any) -> None:
    """−p = ∇(f + λ·h(∇f)), by differences of the landscape itself."""
    lam, x0 = 0.01, np.array([0.7, -1.3])

    def landscape(x: Any) -> float:
        return float(f(x) + lam * penalty.value(g(x)))

    trace = run(x0, lam=lam, penalty=penalty, step=1.0, budget=st.Budget(iters=1), trace="x").trace
    assert trace is not None
    assert trace.x is not None
    h = 1e-6
    expected = [(landscape(x0 + h * e) - landscape(x0 - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(trace.x[0] - trace.x[1], expected, rtol=1e-7)


# --- Lemma 1's remedy --------------------------------------------------------------------------------


def pit(x: Any) -> Any:
    square = (x * x).sum(axis=-1)
    return square / 10 + np.tanh(square / 2 - 2)


def pit_gradient(x: Any) -> Any:
    edge = np.tanh((x * x).sum(axis=-1, keepdims=True) / 2 - 2)
    return x * (0.2 + 1 - edge * edge)


PIT: dict[str, Any] = {
    "fun": pit,
    "jac": pit_gradient,
    "step": 0.1,
    "budget": st.Budget(iters=1000),
}


@pytest.mark.parametrize("method", ["cgd", "cgd-fd"])
@pytest.mark.parametrize("factor", [0.0, 0.25, 0.5, 0.9])
def test_another_lam_leaves_the_artificial_points_of_the_pit(method: str, factor: float) -> None:
    """At radius 2.68 there is a ring of them for λ = 0.3; the minimum is at 0."""
    given_ = {"method": method, "switch": switches.Never(), **PIT}
    for x0 in ([3.5], [3.5, 1.0], [1.0, 2.0, 3.0]):
        start = np.array(x0)
        stays = st.minimize(x0=start, lam=0.3, **given_ | {"budget": st.Budget(iters=35)})
        assert np.linalg.norm(stays.x) == pytest.approx(2.6804, abs=0.01)
        leaves = st.minimize(x0=start, lam=schedules.Perturbed(0.3, factor), **given_)
        assert leaves.success
        assert np.linalg.norm(leaves.x) < 1e-4


def test_another_lam_is_used_nowhere_else() -> None:
    start = np.array([3.5, 1.0])
    plain, remedied = (
        st.minimize(x0=start, lam=lam, method="cgd", trace="x", **PIT).trace
        for lam in (0.3, schedules.Perturbed(0.3))
    )
    assert plain is not None
    assert remedied is not None
    used = remedied.lam[:-1]
    assert set(used.tolist()) == {0.0, 0.15, 0.3}  # 0 where the guard has fired
    first = int(np.argmax(used == 0.15))
    assert np.array_equal(plain.f[:first], remedied.f[:first])
    slope, bent = (float(np.linalg.norm(v)) for v in (remedied.x[first], pit_gradient(remedied.x[first])))  # type: ignore[index]
    assert slope == pytest.approx(2.68, abs=0.01)
    assert bent > 0.5


def test_each_row_has_its_own_remedy() -> None:
    starts = np.array([[3.5, 1.0], [2.0, 1.5], [0.5, 0.1]])
    lam = schedules.Perturbed([0.3, 0.3, 0.2])
    both = st.minimize(x0=starts, lam=lam, method="cgd", **PIT)
    for row, (start, one) in enumerate(zip(starts, (0.3, 0.3, 0.2), strict=True)):
        alone = st.minimize(x0=start, lam=schedules.Perturbed(one), method="cgd", **PIT)
        assert alone.nit == both.nit[row]
        np.testing.assert_allclose(both.x[row], alone.x, atol=1e-12)


# --- switches --------------------------------------------------------------------------------------


def penalised(**given_: Any) -> int:
    trace = traced(lam=0.05, **given_)
    count = int(trace.penalised.sum())
    assert trace.penalised[:count].all()  # the penalty never comes back
    assert (trace.lam[count:-1] == 0).all()
    return count


@pytest.mark.parametrize("b", [0, 1, 5, 11, 40])
def test_after(b: int) -> None:
    expected = min(b + 1, 12)
    assert penalised(switch=switches.After(b)) == expected
    assert penalised(switch=switches.After(b) | switches.FirstGuard()) == expected
    assert penalised(b=b, method="cgd-fd") == expected
    assert penalised(switch=switches.After(b) | switches.Never()) == expected
    assert penalised(switch=switches.After(b) | switches.After(3)) == min(expected, 4)
    assert switches.After(b).last == b + 1


def test_never() -> None:
    assert penalised(switch=switches.Never()) == 12
    for method in ("cgd", "cgd-bfgs", "cgd-dfp"):
        assert penalised(method=method) == 12
    assert switches.Never().last is None


@pytest.mark.parametrize("budget", [st.Budget(grads=40), st.Budget(iters=40), st.Budget(grads=8)])
def test_the_switch_of_the_cgd_fd_listing(budget: Any) -> None:
    total = budget.total
    assert penalised(method="cgd-fd", budget=budget, step=0.01) == total // 4 + 1


def test_small_improvement() -> None:
    for rtol in (0.0, 0.05, 0.09, 0.2, 0.9):
        trace = traced(lam=0.05, switch=switches.SmallImprovement(rtol), budget=st.Budget(iters=40))
        poor = np.flatnonzero(trace.f[:-1] - trace.f[1:] <= rtol * np.abs(trace.f[:-1]))
        expected = int(poor[0]) + 1 if len(poor) else 40
        assert int(trace.penalised.sum()) == expected
    counts = {rtol: penalised(switch=switches.SmallImprovement(rtol)) for rtol in (0.0, 0.9)}
    assert counts == {0.0: 12, 0.9: 1}


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.999, 5.0])
def test_good_drop_is_measured_from_the_start(share: float) -> None:
    trace = traced(lam=0.05, switch=switches.GoodDrop(share), budget=st.Budget(iters=40))
    enough = np.flatnonzero((trace.f[0] - trace.f) / abs(trace.f[0]) >= share)
    assert int(trace.penalised.sum()) == (enough[0] if len(enough) else 40)


def test_good_drop_where_f_is_negative() -> None:
    """|f₀| is the measure: from −½ to −1 f falls by once that."""
    assert switches.GoodDrop(1.0).off(0, False, before=-0.5, after=-1.0, first=-0.5)
    assert not switches.GoodDrop(1.0).off(0, False, before=-0.5, after=-0.9, first=-0.5)


def well(x: Any) -> Any:
    return (x**4 / 4 - x**2 / 2).sum(axis=-1)


WELL: dict[str, Any] = {
    "fun": well,
    "jac": lambda x: x**3 - x,
    "hvp": lambda x, v: (3 * x**2 - 1) * v,
    "step": 0.2,
}


def test_first_guard() -> None:
    """With λ = 1 the guard fires where f'' < −½, that is below x = 0.408."""
    kept = traced([0.2], lam=1.0, switch=switches.Never(), trace="x", **WELL)
    assert kept.x is not None
    below = kept.x[:-1, 0] < math.sqrt(1 / 6)
    assert kept.guarded[:-1].tolist() == below.tolist()
    assert kept.penalised[:-1].tolist() == (~below).tolist()
    assert 0 < below.sum() < 12
    ended = traced([0.2], lam=1.0, switch=switches.FirstGuard(), **WELL)
    assert ended.guarded.tolist() == [True] + [False] * 12
    assert not ended.penalised.any()
    never = traced([1.5], lam=0.05, switch=switches.FirstGuard(), **WELL)
    assert never.penalised[:-1].all()


def test_each_row_of_a_batch_has_its_own_switch() -> None:
    x0 = np.array([[0.2], [1.5], [0.35]])
    for switch in (
        switches.FirstGuard(),
        switches.SmallImprovement(0.02),
        switches.GoodDrop(0.3),
        switches.After(2) | switches.FirstGuard(),
    ):
        batch = traced(x0, lam=0.6, switch=switch, **WELL)
        for b, start in enumerate(x0):
            alone = traced(start, lam=0.6, switch=switch, **WELL)
            assert batch.penalised[:, b].tolist() == alone.penalised.tolist()
            assert batch.guarded[:, b].tolist() == alone.guarded.tolist()


def test_a_switch_of_ones_own() -> None:
    class Below(switches.Switch):
        def off(self, k: int, guarded: Any, before: Any, after: Any, first: Any) -> Any:
            return after < 3.0

    trace = traced(lam=0.05, switch=Below())
    assert int(trace.penalised.sum()) == int(np.argmax(trace.f < 3.0))
    assert penalised(switch=Below() | switches.After(0)) == 1
    assert (switches.After(3) | switches.FirstGuard() | switches.After(1)).last == 2


# --- steps -----------------------------------------------------------------------------------------


def rosenbrock(x: Any) -> Any:
    a, b = x[..., 0], x[..., 1]
    return 10 * (b - a * a) * (b - a * a) + (1 - a) * (1 - a)


def rosenbrock_grad(x: Any) -> Any:
    a, b = x[..., 0], x[..., 1]
    return np.stack([-40 * a * (b - a * a) - 2 * (1 - a), 20 * (b - a * a)], axis=-1)


@pytest.mark.parametrize("method", METHODS)
@hypothesis_settings(max_examples=12, deadline=None)
@given(
    start=some.tuples(some.floats(-2, 2), some.floats(-2, 2)),
    c=some.sampled_from([1e-4, 0.1, 0.4]),
    grow=some.sampled_from([1.0, 2.0, 5.0]),
    initial=some.sampled_from([1e-3, 1.0, 50.0]),
)
def test_armijo_holds_at_every_step(method: str, start: Any, c: float, grow: float, initial: float) -> None:
    rule = steps.Armijo(initial=initial, c=c, grow=grow, longest=100.0)
    trace = traced(start, rosenbrock, jac=rosenbrock_grad, method=method, step=rule, trace="x")
    assert trace.x is not None
    moves = np.diff(trace.x, axis=0)
    promised = np.array([rosenbrock_grad(x) @ s for x, s in zip(trace.x, moves, strict=False)])
    assert (promised <= 0).all()  # 0 where the step is lost in rounding
    slack = 1e-13 * (1 + np.abs(trace.f[:-1]))
    assert (trace.f[1:] <= trace.f[:-1] + c * promised + slack).all()
    alpha = trace.step[:-1]
    if len(alpha):
        assert alpha[0] <= initial
    if method != "cgd-auto":  # there the trace shows the α of a CGD step from the point before
        assert (alpha[1:] <= np.minimum(100.0, grow * alpha[:-1]) * (1 + 1e-15)).all()


def test_armijo_takes_the_first_trial_that_will_do() -> None:
    assert traced(method="gd", step=steps.Armijo(initial=0.1, grow=1.0)).step[:-1].tolist() == [0.1] * 12
    trace = traced(
        [1.0], lambda x: float(x @ x), jac=lambda x: 2 * x, method="gd", step=steps.Armijo(initial=8.0)
    )
    assert trace.step[0] == pytest.approx(0.8)  # the parabola's 0.5 is below a tenth of the trial
    assert trace.nfev[1] == 1 + 2


@QUICK
@given(quadratics())
def test_the_quadratic_step_is_the_exact_line_search(problem: Any) -> None:
    q, x0 = problem
    q = q @ q + 1e-3 * np.trace(q @ q) * np.eye(len(q))
    trace = on_quadratic(
        q, x0, method="gd", step=steps.Quadratic(), budget=st.Budget(iters=3), trace="x"
    ).trace
    assert trace is not None
    assert trace.x is not None
    for k in range(len(trace) - 1):
        before, after = q @ trace.x[k], q @ trace.x[k + 1]
        assert trace.step[k] == pytest.approx(before @ before / (before @ q @ before), rel=1e-9)
        assert abs(after @ before) <= 1e-9 * (before @ before)


def test_the_quadratic_step_falls_back_where_there_is_no_minimum() -> None:
    q = np.diag([-1.0, -2.0])
    trace = on_quadratic(q, [1.0, 1.0], method="gd", step=steps.Quadratic(fallback=0.125)).trace
    assert trace is not None
    assert trace.step[:-1].tolist() == [0.125] * 12
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    mixed = traced(
        rows, lambda x: (x * x * [1.0, -1.0]).sum(-1) / 2, jac=lambda x: x * [1.0, -1.0], method="gd",
        hvp=lambda x, v: v * [1.0, -1.0], step=steps.Quadratic(fallback=0.125), budget=st.Budget(iters=1),
    )  # fmt: skip
    assert mixed.step[0].tolist() == pytest.approx([1.0, 0.125], rel=1e-14)


def safe(big: float, lam: float) -> float:
    return 1 / (big * (1 + 2 * lam * big) ** 2)


def optimal(small: float, big: float, lam: float) -> float:
    return 2 / ((1 + 2 * lam * big) * big + (1 + 2 * lam * small) * small)


def test_the_formulas_take_a_number_an_array_and_a_schedule() -> None:
    lams = np.array([0.0, 0.1, 0.5])
    assert steps.safe(4.0, 0.1) == pytest.approx(safe(4.0, 0.1), rel=1e-15)
    assert steps.quadratic_optimal(1.0, 4.0, 0.1) == pytest.approx(optimal(1.0, 4.0, 0.1), rel=1e-15)
    np.testing.assert_allclose(steps.safe(4.0, lams), [safe(4.0, v) for v in lams], rtol=1e-15)
    np.testing.assert_allclose(
        steps.quadratic_optimal(1.0, 4.0, lams), [optimal(1.0, 4.0, v) for v in lams], rtol=1e-15
    )
    for lam in (schedules.L(0.1, 0.5, T=12), lambda k: 0.1 / (k + 1), schedules.Piecewise([0.5, 0.1], [4])):
        trace = traced(lam=lam, step=steps.safe(4.0, lam))
        np.testing.assert_allclose(trace.step[:-1], [safe(4.0, lam(k)) for k in range(12)], rtol=1e-14)
        trace = traced(lam=lam, step=steps.quadratic_optimal(1.0, 4.0, lam))
        np.testing.assert_allclose(
            trace.step[:-1], [optimal(1.0, 4.0, lam(k)) for k in range(12)], rtol=1e-14
        )
    batch = run(np.ones((3, 2)), lam=lams, step=steps.safe(4.0, lams))
    assert batch.trace is not None
    np.testing.assert_allclose(batch.trace.step[0], [safe(4.0, v) for v in lams], rtol=1e-15)


def test_a_ramp_inside_a_formula_is_fitted_to_the_run_too() -> None:
    ramp = schedules.L(0.1, 0.5)
    trace = traced(lam=ramp, step=steps.safe(4.0, ramp))
    np.testing.assert_allclose(trace.step[:-1], [safe(4.0, v) for v in np.linspace(0.1, 0.5, 12)], rtol=1e-13)


def test_a_table_inside_a_formula_must_be_long_enough_too() -> None:
    with pytest.raises(ValueError, match=r"^step: a schedule of 5 values is too short"):
        run(lam=0.1, step=steps.safe(4.0, schedules.Table([0.1] * 5)))


@pytest.mark.parametrize("lam", [0.0, 0.05, 0.5])
def test_the_safe_step_descends(lam: float) -> None:
    trace = traced(lam=lam, step=steps.safe(4.0, lam), budget=st.Budget(iters=60))
    assert (np.diff(trace.f) < 0).all()


@pytest.mark.parametrize("lam", [0.0, 0.05, 0.5])
def test_the_optimal_step_balances_both_ends_of_the_spectrum(lam: float) -> None:
    trace = traced([1.0, 1.0], lam=lam, step=steps.quadratic_optimal(1.0, 4.0, lam), trace="x")
    assert trace.x is not None
    ends = np.array([(1 + 2 * lam * w) * w for w in (1.0, 4.0)])
    rate = (ends[1] - ends[0]) / (ends[1] + ends[0])
    np.testing.assert_allclose(np.abs(trace.x[1:] / trace.x[:-1]), rate, rtol=1e-9)


# --- trace and result ------------------------------------------------------------------------------

COLUMNS = ["k", "f", "gnorm", "lam", "step", "penalised", "guarded", "nfev", "njev", "nhvp"]


def test_a_trace_becomes_a_data_frame() -> None:
    pd = pytest.importorskip("pandas")
    trace = traced(trace="x")
    frame = trace.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [*COLUMNS, "x0", "x1"]
    assert len(frame) == len(trace) == 13
    for name in COLUMNS:
        np.testing.assert_array_equal(frame[name].to_numpy(), getattr(trace, name))
    np.testing.assert_array_equal(frame[["x0", "x1"]].to_numpy(), trace.x)
    assert list(traced().to_pandas().columns) == COLUMNS


def test_a_trace_of_a_batch_becomes_a_long_data_frame() -> None:
    pytest.importorskip("pandas")
    x0 = np.array([[1.0, -2.0], [0.0, 1e-9], [0.1, 0.1]])
    trace = traced(x0, gtol=1e-6, trace="x", budget=st.Budget(iters=20))
    frame = trace.to_pandas()
    assert list(frame.columns) == ["row", *COLUMNS, "x0", "x1"]
    assert frame.groupby("row").size().tolist() == [21, 1, 21]
    for b, group in frame.groupby("row"):
        row = trace.row(int(str(b)))
        np.testing.assert_array_equal(group["f"].to_numpy(), row.f)
        np.testing.assert_array_equal(group["k"].to_numpy(), row.k)
        np.testing.assert_array_equal(group[["x0", "x1"]].to_numpy(), row.x)


@pytest.mark.parametrize("keep", [True, "x"])
@pytest.mark.parametrize("x0", [[1.0, -2.0], [[1.0, -2.0], [0.3, 0.1]]], ids=["one", "many"])
def test_a_trace_is_saved_to_the_last_bit(tmp_path: Path, keep: Any, x0: Any) -> None:
    trace = traced(x0, trace=keep)
    trace.save(tmp_path / "trace.npz")
    with np.load(tmp_path / "trace.npz", allow_pickle=False) as file:
        assert sorted(file.files) == sorted(name for name, _ in trace.columns())
        for name, column in trace.columns():
            np.testing.assert_array_equal(file[name], column)
            assert file[name].dtype == column.dtype
    trace.save(str(tmp_path / "trace.csv"))
    with (tmp_path / "trace.csv").open(newline="") as text:
        lines = list(csv.DictReader(text))
    rows = [trace] if trace.length is None else [trace.row(b) for b in range(2)]
    assert len(lines) == 13 * len(rows)
    for b, row in enumerate(rows):
        part = lines[13 * b : 13 * (b + 1)]
        if trace.length is not None:
            assert [line["row"] for line in part] == [str(b)] * 13
        for name, column in row.columns():
            if name == "x":
                read = [[float(line["x0"]), float(line["x1"])] for line in part]
            else:
                read = [float(line[name]) for line in part]  # type: ignore[misc]
            np.testing.assert_array_equal(read, column)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["trace.csv", "trace.npz"]


def test_a_trace_has_two_formats(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^path: expected a name ending in .csv or .npz, got .*trace\.pkl"):
        traced().save(tmp_path / "trace.pkl")
    assert not list(tmp_path.iterdir())


def test_rows_belong_to_batches() -> None:
    single = run()
    with pytest.raises(ValueError, match=r"^row: this is the result of a single run"):
        single.row(0)
    assert single.trace is not None
    with pytest.raises(ValueError, match=r"^row: this is the trace of a single run"):
        single.trace.row(0)


def test_the_text_of_a_result() -> None:
    result = run()
    text = repr(result)
    lines = dict(line.split(": ", 1) for line in text.splitlines())
    lines = {name.strip(): value for name, value in lines.items()}
    assert list(lines) == [
        "x", "fun", "jac", "success", "status", "message", "nit", "nfev", "njev", "nhev", "nhvp",
        "hvp_source", "method", "seconds",
    ]  # fmt: skip
    assert lines["status"] == "MAX_ITERATIONS"
    assert lines["message"] == result.message
    assert lines["nit"] == "12"
    assert lines["fun"] == str(result.fun)
    batch = repr(run(np.ones((3, 2))))
    assert "status" in batch
    assert "cgd" in batch
    assert str(result) == text


def test_the_trace_can_be_left_out() -> None:
    assert run(trace=False).trace is None
    with_, without = run(), run(trace=False)
    assert with_.x.tolist() == without.x.tolist()
    assert with_.best.k == without.best.k


def peak(x0: Any, iterations: int, trace: Any) -> int:
    tracemalloc.start()
    try:
        st.minimize(
            lambda x: (x * x).sum(axis=-1), x0, jac=lambda x: 2 * x, method="gd", step=1e-9, gtol=0.0,
            trace=trace, budget=st.Budget(iters=iterations - 1),
        )  # fmt: skip
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("shape", "iterations"),
    [
        ((1000,), 1000),
        ((2,), 20_000),  # fewer numbers than the others: many short iterations take long
        ((100, 10), 1000),
        ((1000, 2), 500),
    ],
    ids=str,
)
def test_a_trace_of_x_costs_at_most_twice_its_own_bytes(shape: tuple[int, ...], iterations: int) -> None:
    x0 = np.ones(shape)
    peak(x0, 10, "x")  # what is loaded on first use
    own = x0.nbytes * iterations
    assert peak(x0, iterations, "x") - peak(x0, iterations, True) <= 2 * own


@pytest.mark.parametrize(
    "schedule",
    [
        schedules.Table(np.full(60, 0.01)),
        schedules.L(np.float64(0.01), np.float64(0.02)),
        schedules.Cosine(np.float64(0.01), np.float64(0.02)),
        schedules.Piecewise(np.array([0.01, 0.02]), [5]),
    ],
)
@pytest.mark.parametrize("start", [np.ones(2, np.float32), np.ones((3, 2), np.float32)])
def test_schedules_of_numpy_numbers_leave_float32_alone(schedule: Any, start: Any) -> None:
    weights = np.array([1, 10], np.float32)
    for name, method in (("step", "gd"), ("lam", "cgd-fd")):
        given_ = {"step": 0.01} | {name: schedule}
        res = st.minimize(
            lambda x: (x * x * weights).sum(-1), start, jac=lambda x: 2 * x * weights, method=method,
            budget=st.Budget(iters=20), **given_,
        )  # fmt: skip
        assert res.x.dtype == np.float32


def test_signed_takes_one_value_a_row() -> None:
    fun, starts = st.functions["booth"], np.array([[0.0, 0.0], [2.0, 1.0]])
    both = st.minimize(fun, starts, method="cgd", lam=schedules.Signed([0.01, 0.02]), step=0.01)
    for b, lam in enumerate((0.01, 0.02)):
        one = st.minimize(fun, starts[b], method="cgd", lam=schedules.Signed(lam), step=0.01)
        assert both.row(b).nit == one.nit
        assert one.trace is not None
        assert (one.trace.lam[:-1] == lam).all()


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"step": schedules.L(0.01, -0.01)}, "step: expected positive"),
        ({"step": schedules.Table([0.1] * 1200 + [-0.1])}, "step: expected positive"),
        ({"step": schedules.Auto()}, "step: .* is a schedule for lam"),
        ({"step": lambda k: np.array([0.1, 0.2])}, "expected a finite number at k = 0"),
        ({"step": 0.1, "lam": lambda k: None, "method": "cgd"}, "expected a finite number at k = 0"),
        ({"method": "cgd", "penalty": st.penalties.L2}, "penalty: expected a Penalty"),
    ],
)
def test_what_a_schedule_or_a_penalty_may_not_be(bad: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        st.minimize(st.functions["booth"], [0.0, 0.0], **({"method": "gd"} | bad))


def test_steps_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="longest: expected a finite number"):
        steps.Armijo(grow=float("inf"))
    with pytest.raises(ValueError, match="lam: expected values known in advance"):
        steps.safe(1.0, schedules.Auto())
