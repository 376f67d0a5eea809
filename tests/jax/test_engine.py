"""The compiled engine against the eager one: every method, and what each of them promises."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import steepen as st
from steepen import penalties, schedules, steps, switches

jax = pytest.importorskip("jax")
jnp = jax.numpy
import steepen.jax as sj  # noqa: E402

METHODS = ("gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto")
FLOOR = {st.Status.CONVERGED, st.Status.PRECISION, st.Status.NOISE}


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """Trace in float64; to optimise the programs would take longer than to run them as they are."""
    jax.config.update("jax_disable_most_optimizations", True)
    with jax.enable_x64(True):
        yield
    jax.config.update("jax_disable_most_optimizations", False)


def beale(x: Any) -> Any:
    a, b = x[0], x[1]
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


def family(x: Any, a: Any) -> Any:
    """Return one of many functions, so that one program serves them all."""
    valley = 10 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
    return a[0] * beale(x) + a[1] * valley + a[2] * jnp.cos(3 * x).sum() + a[3] * (x**4).sum()


START = np.array([1.0, 0.2])
PROBLEMS = {
    "beale": (1.0, 0.0, 0.0, 0.0), "valley": (0.0, 1.0, 0.0, 0.0), "waves": (0.0, 0.1, 1.0, 0.0),
    "mixed": (0.3, 0.5, 0.2, 0.1),
}  # fmt: skip


@cache
def eager(fun: Any) -> dict[str, Any]:
    """Return a function and its derivatives, compiled once, for the eager engine."""
    grad = jax.grad(fun)

    def hvp(x: Any, v: Any, *args: Any) -> Any:
        return jax.jvp(lambda x: grad(x, *args), (x,), (v,))[1]

    parts = {"fun": fun, "jac": grad, "hvp": hvp, "hess": jax.hessian(fun)}
    return {name: jax.jit(part) for name, part in parts.items()}


def agree(x0: Any, fun: Any = beale, **given: Any) -> tuple[Any, st.Result]:
    """Make a run by both engines; iterates may differ as far as a last bit of the start makes them."""
    found = st.minimize(fun, x0, engine="jax", **given)
    own = eager(fun)
    one, moved = (st.minimize(x0=x, **own, **given) for x in (x0, x0 * (1 + 4 * np.finfo(x0.dtype).eps)))
    sway = 1000 * np.abs(one.x - moved.x).max() + 1e5 * np.finfo(x0.dtype).eps
    assert np.abs(found.x - one.x).max() <= sway * max(1.0, np.abs(one.x).max())
    assert found.x.dtype == x0.dtype
    if (one.nit, one.nfev, one.njev, one.status) == (moved.nit, moved.nfev, moved.njev, moved.status):
        assert found.status == one.status or {found.status, one.status} <= FLOOR
        if found.status == one.status and x0.dtype == np.float64:
            assert (found.nit, found.njev, found.nhvp, found.nhev) == (one.nit, one.njev, one.nhvp, one.nhev)
            assert found.nfev == one.nfev
    return found, one


@pytest.mark.parametrize("method", METHODS)
def test_both_engines_make_the_same_run_with_fixed_steps(method: str) -> None:
    for dtype in (np.float64, np.float32):
        for problem in PROBLEMS.values():
            a = np.array(problem, dtype)
            agree(
                START.astype(dtype), family, args=(a,), method=method, step=0.02, budget=st.Budget(iters=30)
            )


BOX = [(0.0, 2.0), (-1.0, 0.4)]


@pytest.mark.parametrize(("method", "bounds"), [("bfgs", None), ("gd", BOX), ("cgd-auto", BOX)])
def test_both_engines_make_the_same_search(method: str, bounds: Any) -> None:
    for problem in PROBLEMS.values():
        args = (np.array(problem),)
        agree(START, family, args=args, method=method, bounds=bounds, budget=st.Budget(iters=40))


def test_both_engines_make_one_trial_an_iteration() -> None:
    """What is known of a search goes from one iteration to the next in a compiled program, too."""
    step = st.steps.Armijo(grow=np.inf, longest=1.0, wait=False)
    for problem in PROBLEMS.values():
        args = (np.array(problem),)
        found, _ = agree(START, family, args=args, method="bfgs", step=step, budget=st.Budget(iters=60))
        assert found.nfev <= found.nit + 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_function_without_a_minimum_is_followed_down_as_far(dtype: Any) -> None:
    a = np.array((0.0, 0.0, 0.0, -1.0), dtype)
    nowhere = [(None, None)] * 2  # a bounded program without bounds: it is compiled already
    found, one = agree(
        START.astype(dtype), family, args=(a,), method="cgd-auto", bounds=nowhere, budget=st.Budget(iters=200)
    )
    assert found.status == one.status == st.Status.UNBOUNDED
    if dtype == np.float32:
        for problem in PROBLEMS.values():
            args = (np.array(problem, dtype),)
            agree(START.astype(dtype), family, args=args, bounds=BOX, budget=st.Budget(iters=20))


@pytest.mark.parametrize(
    "given",
    [
        {"method": "cgd", "lam": schedules.L(0.0, 0.01), "step": 1e-2, "switch": switches.After(9)},
        {"method": "cgd", "lam": schedules.Perturbed(0.01), "step": steps.Quadratic()},
        {"method": "cgd-fd", "lam": 0.01, "r": 1e-3, "step": schedules.Cosine(1e-2, 1e-3)},
        {"method": "cgd-dfp", "lam": schedules.Piecewise([0.1, 0.0], [5]), "penalty": penalties.Huber(0.5),
         "step": 1e-2, "switch": switches.GoodDrop(0.9)},
        {"method": "gd", "step": schedules.Table(np.linspace(0.01, 0.001, 30).tolist()), "ftol": 1e-4},
    ],
    ids=str,
)  # fmt: skip
def test_steps_switches_schedules_and_penalties(given: dict[str, Any]) -> None:
    agree(START, budget=st.Budget(iters=30), **given)


@pytest.mark.parametrize(("method", "step"), [("cgd-fd", 0.02), ("cgd-auto", None)])
def test_budgets_hold_to_the_unit(method: str, step: Any) -> None:
    for evals, grads in ((7, 9), (8, 7), (20, 7), (9, 20), (1, 1), (2, 1)):
        found, one = agree(START, method=method, step=step, budget=st.Budget(evals=evals, grads=grads))
        assert found.nfev <= evals
        assert found.njev <= grads
        assert found.status == one.status


def test_the_floor_of_f_is_found() -> None:
    found, one = agree(START, method="bfgs", gtol=0.0, budget=st.Budget(iters=40))
    assert {found.status, one.status} <= FLOOR


def test_a_start_without_a_gradient_is_left() -> None:
    def saddle(x: Any) -> Any:
        return x[0] ** 2 - x[1] ** 2 + x[1] ** 4

    found, one = (st.minimize(saddle, np.zeros(2), **given) for given in ({"engine": "jax"}, {"jac": "jax"}))
    assert found.success
    assert found.fun == pytest.approx(-0.25)
    assert (found.nit, found.njev) == (one.nit, one.njev)
    assert found.nfev + 1 == one.nfev  # the eager engine looks whether a graph is cut


@pytest.mark.parametrize(
    ("fun", "status"),
    [
        (lambda x: jnp.sqrt(x - 2).sum(), st.Status.NONFINITE_VALUE),
        (lambda x: -(x**2).sum(), st.Status.UNBOUNDED),
        (lambda x: jnp.sqrt(abs(x - START)).sum(), st.Status.NONFINITE_GRADIENT),
    ],
)
def test_ends_that_are_no_use(fun: Any, status: st.Status) -> None:
    found, one = agree(START, fun, method="gd", step=10.0)
    assert found.status == one.status == status
    assert np.isnan(found.jac).all()


def test_lanes_are_refilled_and_keep_their_rows_apart() -> None:
    x0 = np.random.default_rng(0).uniform(0.0, 2.0, (23, 2))
    x0[5] = np.nan
    x = jnp.asarray(x0)
    given: dict[str, Any] = {"method": "cgd-fd", "lam": 0.001, "step": 0.02, "budget": st.Budget(iters=300)}
    alone = jax.vmap(lambda x: sj.minimize(beale, x, **given))(x)
    for lanes in (4, 100):
        many = sj.minimize(beale, x, lanes=lanes, **given)
        for a, b in zip(jax.tree.leaves(many), jax.tree.leaves(alone), strict=True):
            np.testing.assert_array_equal(a, b)
    assert int(many.status[5]) == st.Status.NONFINITE_VALUE
    assert len(np.unique(many.nit)) > 3


@pytest.mark.parametrize("method", ["bfgs", "cgd-auto"])
def test_lanes_search_as_the_eager_batch_does(method: str) -> None:
    x0 = np.random.default_rng(0).uniform(0.5, 2.0, (5, 2))
    given: dict[str, Any] = {"method": method, "bounds": [(-4.0, 4.0)] * 2, "budget": st.Budget(iters=6)}
    many, eager = sj.minimize(beale, x0, lanes=2, **given), st.minimize(beale, x0, jac="jax", **given)
    np.testing.assert_allclose(many.x, eager.x, rtol=1e-6)
    np.testing.assert_allclose(many.jac, eager.jac, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(many.njev, eager.njev)


def test_each_start_may_have_numbers_of_its_own() -> None:
    lam, x0 = np.linspace(0.0, 0.02, 5), np.tile(START, (5, 1))
    given: dict[str, Any] = {"method": "cgd", "step": 0.01, "budget": st.Budget(iters=20)}
    many = sj.minimize(beale, x0, lam=lam, lanes=2, **given)
    grid = jax.vmap(lambda lam: sj.minimize(beale, jnp.asarray(START), lam=lam, **given))(jnp.asarray(lam))
    for row in range(5):
        one = st.minimize(beale, START, jac="jax", lam=lam[row], **given)
        np.testing.assert_allclose(many.x[row], one.x, rtol=1e-12)
        np.testing.assert_allclose(grid.x[row], one.x, rtol=1e-12)


def test_new_numbers_compile_nothing() -> None:
    from steepen.jax import _minimize

    def run(step: float, gtol: float, iters: int, high: float) -> Any:
        return sj.minimize(
            beale, jnp.asarray(START), method="gd", step=step, gtol=gtol, budget=st.Budget(iters=iters),
            bounds=[(0.0, high), (None, 3.0)],
        )  # fmt: skip

    run(0.01, 1e-3, 5, 2.0)
    before = _minimize._solve._cache_size()
    assert int(run(0.02, 1e-4, 9, 1.5).nit) == 9
    assert _minimize._solve._cache_size() == before


def test_a_point_may_be_a_tree_and_the_trace_is_a_ring() -> None:
    def fun(p: Any, shift: Any) -> Any:
        return ((p["w"] - shift) ** 2).sum() + (p["b"] - 1) ** 2 + (p["b"] - 1) ** 4

    start = {"w": jnp.zeros((2, 2)), "b": jnp.asarray(3.0)}
    bounds = sj.Bounds(ub={"w": 0.5, "b": 9.0})
    given: dict[str, Any] = {"method": "gd", "step": 0.1, "gtol": 1e-8, "bounds": bounds, "trace": 3}
    found = sj.minimize(fun, start, (jnp.eye(2),), **given)
    np.testing.assert_allclose(found.x["w"], 0.5 * np.eye(2), atol=1e-8)
    np.testing.assert_allclose(found.x["b"], 1.0, atol=1e-8)
    assert found.trace is not None
    np.testing.assert_array_equal(found.trace.k, np.arange(-2, 1) + int(found.nit))
    np.testing.assert_array_equal(found.trace.f[-1], found.fun)


@pytest.mark.parametrize("x0", [START, np.stack([START, 1.5 * START, -START])], ids=("one", "many"))
def test_the_trace_is_that_of_the_eager_engine(x0: Any) -> None:
    given: dict[str, Any] = {"method": "cgd-fd", "lam": 0.01, "r": 1e-3, "step": 0.02, "gtol": 0.2}
    found = st.minimize(beale, x0, engine="jax", trace=500, **given).trace
    one = st.minimize(beale, x0, jac="jax", trace="x", **given).trace
    assert found is not None
    assert one is not None
    for (name, a), (other, b) in zip(found.columns(), one.columns(), strict=True):
        assert name == other
        np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=name)
    last = st.minimize(beale, x0, engine="jax", trace=3, **given).trace
    assert last is not None
    run, whole = (last, found) if x0.ndim == 1 else (last.row(0), found.row(0))
    np.testing.assert_array_equal(run.f[-3:], whole.f[-3:])
    np.testing.assert_array_equal(run.k[-3:], whole.k[-3:])


def test_numbers_may_be_of_strict_types() -> None:
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        found = sj.minimize(lambda x: (x * x).sum(), jnp.ones(2), method="gd", step=0.2)
    assert bool(found.success)


DEVICES = """
import jax, numpy as np, steepen as st, steepen.jax as sj
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
x = np.random.default_rng(0).uniform(-1, 1, (11, 2))
given = dict(method="cgd-fd", lam=0.01, step=np.linspace(0.01, 0.1, 11), lanes=2, gtol=1e-3)
def run(mesh=None):
    return sj.minimize(lambda x: ((x - 1) ** 2 * (1 + x**2)).sum(), x, mesh=mesh, **given)
one, mesh = run(), jax.make_mesh((3,), ("devices",))
for found in (run(mesh), jax.jit(lambda: run(mesh))()):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(a, b)
assert one.success.all() and len(set(np.asarray(one.nit).tolist())) > 5
"""


def test_devices_share_a_batch_and_change_no_bit_of_it() -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", DEVICES], env=os.environ | flags, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_it_runs_inside_scan_and_jit() -> None:
    def fun(x: Any, a: Any) -> Any:
        return ((x - a) ** 2).sum() + (x**4).sum()

    def body(x: Any, a: Any) -> Any:
        x = sj.minimize(fun, x, (a,), method="gd", step=0.05).x
        return x, x

    path = jnp.linspace(0.0, 1.0, 3)
    _, found = jax.jit(lambda x: jax.lax.scan(body, x, path))(jnp.ones(2))
    for x, a in zip(found, path, strict=True):
        np.testing.assert_allclose(2 * (x - a) + 4 * x**3, 0.0, atol=1e-5)
