"""The optimistix solver against steepen's own call, and what it says to its host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import steepen as st

jax = pytest.importorskip("jax")
optx = pytest.importorskip("optimistix")
jnp = jax.numpy
import steepen.jax as sj  # noqa: E402
from steepen.optimistix import Minimiser  # noqa: E402


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    jax.config.update("jax_disable_most_optimizations", True)
    with jax.enable_x64(True):
        yield
    jax.config.update("jax_disable_most_optimizations", False)


def fn(y: Any, args: Any) -> Any:
    return 10 * (y["b"] - y["a"] ** 2) ** 2 + ((args - y["a"]) ** 2).sum()


START = {"a": np.array([-1.0]), "b": np.array([1.0])}


def scalar(y: Any, args: Any) -> Any:
    return fn(y, args).sum()


@pytest.mark.parametrize(
    "given", [{"method": "cgd-fd", "lam": 0.01, "step": 0.01, "b": 50}, {"method": "bfgs"}], ids=str
)
def test_it_makes_the_run_that_steepen_makes(given: dict[str, Any]) -> None:
    solver = Minimiser(gtol=1e-3, **given)
    found = optx.minimise(scalar, solver, START, jnp.array(0.8), max_steps=2000)
    own = sj.minimize(scalar, START, (jnp.array(0.8),), gtol=1e-3, budget=st.Budget(iters=2000), **given)
    assert found.result == optx.RESULTS.successful
    for a, b in zip(jax.tree.leaves(found.value), jax.tree.leaves(own.x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    assert int(found.stats["num_steps"]) == int(own.nit)
    assert (int(found.stats["nfev"]), int(found.stats["njev"])) == (int(own.nfev), int(own.njev))


def test_aux_bounds_and_forward_mode() -> None:
    def both(y: Any, args: Any) -> Any:
        return scalar(y, args), {"twice": 2 * y["a"]}

    options = {"upper": 0.5, "autodiff_mode": "fwd"}
    solver = Minimiser(method="gd", step=0.02, gtol=1e-6)
    found = optx.minimise(both, solver, START, jnp.array(0.8), options, has_aux=True, max_steps=2000)
    np.testing.assert_allclose(found.value["a"], 0.5, atol=1e-6)
    np.testing.assert_allclose(found.aux["twice"], 2 * found.value["a"])


def test_what_ends_without_success_is_said() -> None:
    solver = Minimiser(method="gd", step=0.02)
    few = optx.minimise(scalar, solver, START, jnp.array(0.8), max_steps=3, throw=False)
    assert few.result == optx.RESULTS.nonlinear_max_steps_reached
    down = optx.minimise(lambda y, _: -(y**2).sum(), solver, jnp.ones(2), max_steps=100_000, throw=False)
    assert down.result == optx.RESULTS.nonlinear_divergence
    assert int(down.stats["status"]) == st.Status.UNBOUNDED


def test_the_derivative_is_the_hosts() -> None:
    def place(t: Any) -> Any:
        solver = Minimiser(method="gd", step=0.3, gtol=1e-10)
        return optx.minimise(lambda y, t: ((y - t) ** 2).sum(), solver, jnp.zeros(2), t).value.sum()

    np.testing.assert_allclose(jax.jit(jax.grad(place))(0.7), 2.0, rtol=1e-8)


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match="callback: expected one of step, lam"):
        Minimiser(callback=print)
    with pytest.raises(ValueError, match="options: expected autodiff_mode to be one of bwd, fwd"):
        optx.minimise(scalar, Minimiser(), START, 1.0, {"autodiff_mode": "reverse"})
    with pytest.raises(ValueError, match="method: 'newtn' is not known"):
        optx.minimise(scalar, Minimiser(method="newtn"), START, 1.0)
