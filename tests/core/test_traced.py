"""The same lines where JAX traces them: directions, steps, switches, schedules and penalties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import steepen as st
from steepen import penalties, schedules, steps, switches
from steepen._core.guard import guarded
from steepen._core.judge import RUNNING, Tolerances, judge
from steepen._core.kits import Traced
from steepen._core.records import Move, Point
from steepen._core.space import space_of
from steepen._oracle.calls import Probing
from steepen._oracle.context import Context
from steepen._oracle.ledger import Cost, Ledger
from steepen.directions import METHODS

jax = pytest.importorskip("jax")
jnp = jax.numpy

N, ITERS = 6, 60
A = np.linalg.qr(np.random.default_rng(0).standard_normal((N, N)))[0] * np.geomspace(1.0, 2.0, N)[:, None]
START = np.random.default_rng(1).uniform(0.5, 1.5, (2, N))


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """Trace in float64; to optimise the programs would take longer than to run them as they are."""
    jax.config.update("jax_disable_most_optimizations", True)
    with jax.enable_x64(True):
        yield
    jax.config.update("jax_disable_most_optimizations", False)


# ¼Σ(Ax)⁴ has its minimum at 0, without curvature: no method is done in sixty steps, and f shows no floor.
def f(x: Any) -> Any:
    return ((x @ A.T) ** 4).sum(axis=-1) / 4


def g(x: Any) -> Any:
    return (x @ A.T) ** 3 @ A


def hess(x: Any) -> Any:
    return A.T @ (3 * ((x @ A.T) ** 2)[..., None] * A)


def hvp(x: Any, v: Any) -> Any:
    return (3 * (x @ A.T) ** 2 * (v @ A.T)) @ A


class Oracle(Probing):
    """f and its derivatives where JAX traces them: nothing is counted, and nothing is limited."""

    cost_value = cost_grad = cost_probe = cost_hvp = cost_hess = Cost()

    def __init__(self, kit: Traced, space: Any):
        super().__init__(kit, space, float(np.finfo(float).eps))
        self.ledger = Ledger(kit)

    def value(self, x: Any, only: Any = None) -> Any:
        return f(x)

    def grad(self, x: Any, only: Any = None, came: Any = None, *, spare: bool = False) -> Any:
        return g(x)

    def hvp(self, x: Any, v: Any, g: Any, only: Any = None) -> Any:
        return hvp(x, v)

    def hess(self, x: Any, g: Any, only: Any = None) -> Any:
        return hess(x)


def scanned(x0: Any, direction: Any, step: Any, switch: Any, bounds: Any = None, iters: int = ITERS) -> Any:
    """Make a run in one `lax.scan`; return x, f, α, λ and the guard for each."""
    direction = direction.prepare(ITERS, None)
    step = step.prepare(ITERS, None)
    kit = Traced(x0)
    space = space_of(bounds, x0, kit)
    oracle: Any = Oracle(kit, space)
    context = Context(oracle, kit, space)

    def body(state: Any, k: Any) -> Any:
        x, value, gradient, on, alpha, noise, memory = state
        point = Point(x, value, gradient, True, kit.norm(gradient))
        free, size = space.descent(x, gradient, point.size)
        memory = direction.learn(context, point, memory)
        lam = context.live(direction.coefficient(k))
        p, lam, memory, trusted = direction.propose(context, k, point, lam, on, memory)
        p = space.inward(x, gradient, p)
        p, slope, used, fired, _ = guarded(kit, on, free, size, p, trusted)
        along = steps.Along(k, x, value, gradient, p, slope, alpha, noise)
        alpha, found, _, _, noise, *_ = step.choose(context, along)
        to = space.project(x + kit.times(alpha, p))
        found = oracle.value(to) if found is None else found
        on = kit.without(on, switch.off(k, fired, value, found, f(x0)))
        shown, lam = direction.amounts(alpha, kit.pick(used, lam, 0.0), memory)
        after = (to, found, g(to), on, kit.scalar(alpha), kit.scalar(noise), memory)
        return after, (to, found, shown, lam, fired)

    x0 = space.project(x0)
    start = (x0, f(x0), g(x0), True, jnp.nan, 0.0, direction.start(kit, x0))
    return jax.lax.scan(body, jax.tree.map(jnp.asarray, start), jnp.arange(iters))[1]


def eager(
    x0: Any, direction: Any, step: Any, switch: Any, bounds: Any = None, iters: int = ITERS
) -> st.Result:
    result = st.minimize(
        f, x0, method=direction, jac=g, hvp=hvp, hess=hess, step=step, bounds=bounds, gtol=0.0, trace="x",
        switch=switch if direction.penalised else None, budget=st.Budget(iters=iters),
    )  # fmt: skip
    assert result.nit == iters
    return result


def columns(result: st.Result) -> list[Any]:
    trace = result.trace
    assert trace is not None
    assert trace.x is not None
    return [trace.x[1:], trace.f[1:], trace.step[:-1], trace.lam[:-1], trace.guarded[:-1]]


def compare(found: Any, x0: Any, *settings: Any) -> st.Result:
    """Hold a scan against the loop: it may differ by what a last bit of the start makes of the loop."""
    result = eager(x0, *settings)
    expected, moved = columns(result), columns(eager(x0 * (1 + 4e-16), *settings))
    for a, b, c in zip(found, expected, moved, strict=True):
        sway = np.maximum.accumulate(np.abs(1.0 * b - c), axis=0)
        assert (np.abs(1.0 * np.asarray(a) - b) <= 1000 * sway + 1e-12 * np.abs(b) + 1e-300).all()
    return result


STEPS = {"fixed": steps.Fixed(0.02), "armijo": None}


def armijo(direction: Any) -> steps.Step:
    return steps.Armijo(grow=np.inf, longest=1.0) if direction.unit else steps.Armijo()


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("method", METHODS)
def test_sixty_steps_in_a_scan_are_those_of_the_loop(method: str, kind: str) -> None:
    direction = METHODS[method]
    step = STEPS[kind] or armijo(direction)
    found = jax.jit(jax.vmap(lambda x: scanned(x, direction, step, switches.Never())))(START)
    for row, x0 in enumerate(START):
        compare([a[row] for a in found], x0, direction, step, switches.Never())


@pytest.mark.parametrize("method", ["newton", "cgd-fd", "cgd-auto"])
def test_bounds_trace(method: str) -> None:
    direction, bounds = METHODS[method], [(0.3, 2.0)] * 2 + [(None, None)] * (N - 2)
    step = armijo(direction)
    found = jax.jit(lambda x: scanned(x, direction, step, switches.Never(), bounds, 10))(START[0])
    expected = compare(found, START[0], direction, step, switches.Never(), bounds, 10)
    assert (np.asarray(expected.x)[:2] == 0.3).any()


@pytest.mark.parametrize("step", [steps.Quadratic(), steps.Fixed(schedules.L(0.02, 0.01))], ids=str)
def test_every_step_traces(step: Any) -> None:
    direction, switch = st.CGD(schedules.Signed(schedules.L(0.001, 0.01))), switches.After(20)
    found = jax.jit(lambda x: scanned(x, direction, step, switch))(START[0])
    compare(found, START[0], direction, step, switch)


SCHEDULES = (
    schedules.Constant(0.01),
    schedules.L(0.001, 0.01, ITERS // 2),
    schedules.L(0.001, 0.01, 1),
    schedules.Cosine(0.01, 0.001, ITERS // 2),
    schedules.Piecewise([0.01, 0.003, 0.0], [20, 40]),
    schedules.Table(np.linspace(0.01, 0.001, ITERS).tolist()),
    schedules.Custom(lambda k: 0.01 / (k + 1)),
    schedules.Mapped(lambda lam: lam / 2, schedules.L(0.001, 0.01, ITERS)),
    schedules.Signed(schedules.L(0.001, 0.01, ITERS)),
    schedules.Perturbed(schedules.L(0.001, 0.01, ITERS)),
    schedules.Auto(),
)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: type(s).__name__)
def test_every_schedule_traces(schedule: Any) -> None:
    found = jax.jit(jax.vmap(lambda k: jnp.asarray(schedule(k), dtype=float)))(jnp.arange(ITERS))
    np.testing.assert_allclose(found, [schedule(k) for k in range(ITERS)], rtol=1e-14)


@pytest.mark.parametrize(
    "schedule",
    [schedules.Signed(0.1), schedules.Perturbed(0.1, 0.25), schedules.Auto()],
    ids=lambda s: type(s).__name__,
)
def test_a_schedule_that_follows_the_curvature_traces(schedule: Any) -> None:
    along, square = np.array([2.0, -3.0, 0.0, 1e-200, -2.0]), np.array([4.0, 9.0, 0.0, 0.0, 10.0])
    found = jax.jit(jax.vmap(lambda a, s: schedule.at(0.1, a, s, 2.0)))(along, square)
    expected = [schedule.at(0.1, a, s, 2.0) for a, s in zip(along.tolist(), square.tolist(), strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    np.testing.assert_array_equal(schedule.at(0.1, along, square, 2.0), expected)


@pytest.mark.parametrize(
    "switch",
    [
        switches.Never(), switches.After(2), switches.FirstGuard(), switches.SmallImprovement(0.05),
        switches.GoodDrop(0.6),
        switches.After(3) | switches.SmallImprovement(0.01) | switches.FirstGuard(),
    ],
    ids=str,
)  # fmt: skip
def test_every_switch_traces(switch: Any) -> None:
    seen = ([0, 1, 2, 3], [False, True, False, False], [1.0, 1.0, -1.0, 1.0], [0.5, 0.5, -1.02, 0.999])
    seen = (*seen, [2.0, 1.0, 1.0, 1.0])
    off = jax.vmap(lambda *step: jnp.asarray(switch.off(*step)))
    found = jax.jit(off)(*map(jnp.asarray, seen))
    assert found.tolist() == [bool(switch.off(*step)) for step in zip(*seen, strict=True)]


@pytest.mark.parametrize(
    "penalty",
    [penalties.SquaredL2(), penalties.L2(), penalties.Huber(0.7), penalties.L1(0.1), penalties.PNorm(3.0)],
    ids=str,
)
def test_every_penalty_traces(penalty: Any) -> None:
    gradients = np.concatenate([START, np.zeros((1, N))])
    for part in (penalty.value, penalty.vector):
        found = jax.jit(jax.vmap(part))(gradients)
        np.testing.assert_allclose(found, part(gradients), rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize(
    ("value", "size", "before", "status"),
    [
        (1.0, 1.0, 2.0, RUNNING),
        (1.0, 1e-9, 2.0, st.Status.CONVERGED),
        (np.nan, 1e-9, 2.0, st.Status.NONFINITE_VALUE),
        (-np.inf, 1.0, 2.0, st.Status.UNBOUNDED),
        (1.0, np.inf, 2.0, st.Status.NONFINITE_GRADIENT),
        (1.0, 1.0, 1.0 + 1e-9, st.Status.SMALL_DECREASE),
    ],
)
def test_the_judge_traces(value: float, size: float, before: float, status: int) -> None:
    tolerances = Tolerances(1e-6, 1e-6, 1e-6, -1e300)

    def code(value: Any, size: Any, before: Any) -> Any:
        x = jnp.ones(N)
        point = Point(x, value, x, True, size, size)
        return judge(Traced(x), point, Move(before=before, alpha=1.0, moved=1.0), tolerances)

    assert int(jax.jit(code)(value, size, before)) == status
