"""The compiled engine against the eager one: every method, and what each of them promises."""

from __future__ import annotations

from collections.abc import Iterator
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


START = np.array([1.0, 0.2])


def agree(x0: Any, fun: Any = beale, **given: Any) -> tuple[Any, st.Result]:
    """Make a run by both engines; iterates may differ as far as a last bit of the start makes them."""
    found = st.minimize(fun, x0, engine="jax", **given)
    one, moved = (
        st.minimize(fun, x, jac="jax", **given) for x in (x0, x0 * (1 + 4 * np.finfo(x0.dtype).eps))
    )
    sway = 1000 * np.abs(one.x - moved.x).max() + 1e5 * np.finfo(x0.dtype).eps
    assert np.abs(found.x - one.x).max() <= sway
    assert found.x.dtype == x0.dtype
    if (one.nit, one.nfev, one.njev, one.status) == (moved.nit, moved.nfev, moved.njev, moved.status):
        assert found.status == one.status or {found.status, one.status} <= FLOOR
        if found.status == one.status and x0.dtype == np.float64:
            assert (found.nit, found.njev, found.nhvp, found.nhev) == (one.nit, one.njev, one.nhvp, one.nhev)
            assert found.nfev == one.nfev
    return found, one


@pytest.mark.parametrize("method", METHODS)
def test_both_engines_make_the_same_run_with_fixed_steps(method: str) -> None:
    agree(START, method=method, step=0.02, budget=st.Budget(iters=40))


BOX = [(0.0, 2.0), (-1.0, 0.4)]


@pytest.mark.parametrize(("method", "bounds"), [("bfgs", None), ("gd", BOX), ("cgd-auto", BOX)])
def test_both_engines_make_the_same_search(method: str, bounds: Any) -> None:
    agree(START, method=method, bounds=bounds, budget=st.Budget(iters=40))


@pytest.mark.parametrize(("method", "step"), [("cgd-fd", 0.02), ("cgd-auto", None)])
def test_both_engines_make_the_same_run_in_single_precision(method: str, step: Any) -> None:
    agree(START.astype(np.float32), method=method, step=step, budget=st.Budget(iters=20))


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
