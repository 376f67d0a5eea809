"""What a compiled program is made of: which runs are one kernel, and how often the function is in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.pairs import sample

import steepen as st
import steepen.jax as sj
from steepen.jax import _kernel

MARK = "xla_cpu_small_call"
RNG = np.random.default_rng(0)
DATA = RNG.standard_normal((40, 5))


def network(x):
    return ((jnp.tanh(jnp.asarray(DATA) @ x[:20].reshape(5, 4)) @ x[20:] - 1) ** 2).mean() + 0.1 * x @ x


def unrolled(x):
    y = x
    for i in range(60):
        y = 0.99 * y + 0.01 * jnp.sin(y + i)
    return ((y - 0.3) ** 2).sum()


def square(x):
    return ((x - 1) ** 2).sum()


def lowered(fun, x, **given):
    given = {"method": "gd", "step": 1e-2, "budget": st.Budget(iters=20)} | given
    return jax.jit(lambda x: sj.minimize(fun, x, **given)).lower(jnp.asarray(x))


FUNCTIONS = {
    "short": (square, np.zeros(3), True),
    "longer": (square, np.zeros(5000), False),
    "a matrix and a vector": (lambda x: ((jnp.asarray(DATA[:30]) @ x - 1) ** 2).sum(), np.zeros(5), True),
    "matrices": (network, 0.3 * RNG.standard_normal(24), False),
    "work for threads": (unrolled, RNG.standard_normal(300), False),
    "a gather": (lambda x: (x[jnp.array([0, 2, 1, 0])] ** 2).sum(), np.ones(3), False),
    "a sort": (lambda x: (jnp.sort(x) * jnp.arange(3.0)).sum() ** 2, np.ones(3), False),
    "a loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, y: 1.1 * y, square(x)), np.zeros(3), True),
    "one that says nothing": (lambda x: 0.0 * x.sum(), np.ones(2), True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_fits_is_one_kernel(name, monkeypatch):
    monkeypatch.setattr(_kernel, "_offered", lambda: True)  # on any machine, since nothing is compiled
    fun, x, fits = FUNCTIONS[name]
    assert (MARK in lowered(fun, x, trace=1).as_text()) == fits


@pytest.mark.parametrize("name", sample(FUNCTIONS, 2))
def test_in_one_kernel_a_run_is_what_it_is_otherwise(name, monkeypatch):
    fun, x, _ = FUNCTIONS[name]
    found = lowered(fun, x).compile()(jnp.asarray(x))
    _kernel._offered.cache_clear()
    monkeypatch.setenv(_kernel.SWITCH, "0")
    plain = lowered(fun, x, budget=st.Budget(iters=20, evals=10**6)).compile()(jnp.asarray(x))
    assert not _kernel._offered()
    _kernel._offered.cache_clear()
    np.testing.assert_allclose(found.x, plain.x, rtol=1e-9, atol=1e-12)
    assert int(found.status) == int(plain.status)


def test_under_vmap_and_of_constants_alone():
    """XLA aborts where an argument of such a call is not used, or is a constant that it has folded away."""

    def many(x):
        return jax.vmap(lambda x: sj.minimize(square, x, method="gd", step=0.1).x)(x)

    assert MARK not in jax.jit(many).lower(jnp.zeros((3, 2))).as_text()
    found = jax.jit(lambda: sj.minimize(square, jnp.zeros(2), method="gd", step=0.1))()
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)


def primitives(jaxpr, seen):
    """Yield the names of all primitives; a part that is called from several places counts once."""
    if id(jaxpr) in seen:
        return
    seen.add(id(jaxpr))
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in equation.params.values():
            for part in value if isinstance(value, tuple) else (value,):
                inner = getattr(part, "jaxpr", None)
                if inner is not None:
                    yield from primitives(getattr(inner, "jaxpr", inner), seen)


@pytest.mark.parametrize("method", ["gd", "bfgs", "cgd-auto"])
@pytest.mark.parametrize(("x0", "places"), [(np.array([-1.2, 1.0]), 2), (np.ones((3, 2)), 4)])
def test_a_function_is_in_the_program_at_few_places(method, x0, places):
    """The trials of the search have it, and all that is seldom run has one together.

    In batches f and ∇f come apart in the trials, and the starts, which are fewer at a time, have their own.
    """

    def fun(x):  # it has one arc tangent, and its gradient none
        return jnp.arctan(x).sum() + (x * x).sum()

    program = jax.make_jaxpr(lambda x: sj.minimize(fun, x, method=method, bounds=[(-2.0, 2.0)] * 2))(x0)
    assert list(primitives(program.jaxpr, set())).count("atan") == places
