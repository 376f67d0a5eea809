"""Runs that are one kernel: which are, and that they are the runs they would be otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import steepen as st

jax = pytest.importorskip("jax")
jnp = jax.numpy
import steepen.jax as sj  # noqa: E402
from steepen.jax import _kernel  # noqa: E402

MARK = "xla_cpu_small_call"
RNG = np.random.default_rng(0)
DATA = RNG.standard_normal((40, 5))


@pytest.fixture(autouse=True)
def _doubles() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def unrolled(x: Any) -> Any:
    y = x
    for i in range(60):
        y = 0.99 * y + 0.01 * jnp.sin(y + i)
    return ((y - 0.3) ** 2).sum()


def network(x: Any) -> Any:
    return ((jnp.tanh(jnp.asarray(DATA) @ x[:20].reshape(5, 4)) @ x[20:] - 1) ** 2).mean() + 0.1 * x @ x


def likelihood(x: Any) -> Any:
    apart = (jnp.arange(4.0)[:, None] - jnp.arange(4.0)) ** 2
    factor = jnp.linalg.cholesky(jnp.exp(-apart * jnp.exp(x[0])) + jnp.exp(x[1]) * jnp.eye(4))
    return jnp.log(jnp.diag(factor)).sum() + (x * x).sum()


def square(x: Any) -> Any:
    return ((x - 1) ** 2).sum()


def run(fun: Any, x: Any, **given: Any) -> Any:
    given = {"method": "gd", "step": 1e-2, "budget": st.Budget(iters=20)} | given
    return jax.jit(lambda x: sj.minimize(fun, x, **given)).lower(x)


FUNCTIONS: dict[str, tuple[Any, Any, bool]] = {
    "short": (square, np.zeros(3), True),
    "long": (lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum(), np.full(1000, 0.5), True),
    "longer": (square, np.zeros(5000), False),
    "a matrix and a vector": (lambda x: ((jnp.asarray(DATA) @ x - 1) ** 2).sum(), np.zeros(5), True),
    "matrices": (network, 0.3 * RNG.standard_normal(24), False),
    "work for threads": (unrolled, RNG.standard_normal(300), False),
    "a gather": (lambda x: (x[jnp.array([0, 2, 1, 0])] ** 2).sum(), np.ones(3), False),
    "a sort": (lambda x: (jnp.sort(x) * jnp.arange(3.0)).sum() ** 2, np.ones(3), False),
    "a decomposition": (likelihood, np.zeros(2), False),
    "a loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, y: 1.1 * y, square(x)), np.zeros(3), True),
    "one that says nothing": (lambda x: 0.0 * x.sum(), np.ones(2), True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_fits_is_one_kernel_and_all_make_the_same_run(name: str, monkeypatch: Any) -> None:
    fun, x, fits = FUNCTIONS[name]
    program = run(fun, jnp.asarray(x))
    compiled = program.compile()
    if _kernel._offered():
        assert (MARK in program.as_text()) == fits
    monkeypatch.setattr(_kernel, "_offered", lambda: False)
    jax.clear_caches()
    plain = run(fun, jnp.asarray(x)).compile()(jnp.asarray(x))
    found = compiled(jnp.asarray(x))
    np.testing.assert_allclose(found.x, plain.x, rtol=1e-9, atol=1e-12)
    assert int(found.status) == int(plain.status)


@pytest.mark.parametrize("method", ["bfgs", "cgd-auto"])
@pytest.mark.parametrize("bounds", [None, sj.Bounds(-2.0, 2.0)], ids=("free", "bounded"))
def test_a_search_on_short_vectors_is(method: str, bounds: Any) -> None:
    program = jax.jit(lambda x: sj.minimize(square, x, method=method, bounds=bounds)).lower(jnp.zeros(2))
    assert not _kernel._offered() or MARK in program.as_text()


def test_under_vmap_nothing_is() -> None:
    def many(x: Any) -> Any:
        return jax.vmap(lambda x: sj.minimize(square, x, method="gd", step=0.1).x)(x)

    assert MARK not in jax.jit(many).lower(jnp.zeros((3, 2))).as_text()
    np.testing.assert_allclose(many(jnp.zeros((3, 2))), 1.0, atol=1e-4)


@pytest.mark.parametrize("given", [{"method": "gd", "step": 0.1}, {"method": "bfgs"}], ids=str)
def test_nothing_but_constants_goes_in(given: dict[str, Any]) -> None:
    """XLA aborts where an argument of such a call is not used, or is a constant that it has folded away."""
    found = jax.jit(lambda: sj.minimize(square, jnp.zeros(2), **given))()
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)


def test_the_environment_switches_them_off(monkeypatch: Any) -> None:
    _kernel._offered.cache_clear()
    monkeypatch.setenv(_kernel.SWITCH, "0")
    assert not _kernel._offered()
    _kernel._offered.cache_clear()
