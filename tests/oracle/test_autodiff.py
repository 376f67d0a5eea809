"""Autodiff by JAX: what is compiled, when, and that it is what the function does now."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steepen as st


@pytest.fixture
def compiled():
    """Count what JAX compiles."""
    seen = []

    def listen(name, seconds, **more):
        if name == "/jax/core/compile/backend_compile_duration":
            seen.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


def bowl(x, to=1.0):
    return ((x - to) ** 2).sum() + (x[1:] * x[:-1]).sum() ** 2


@pytest.mark.parametrize("method", ["cgd-auto", "cgd", "newton"])
@pytest.mark.parametrize("rows", [None, 2])
def test_a_second_run_compiles_nothing_and_traces_once(compiled, method, rows):
    traces = []

    def fun(x):
        traces.append(x)
        return bowl(x)

    x0 = np.array([3.0, -2.0, 1.0]) if rows is None else np.array([[3.0, -2.0, 1.0], [0.0, 1.0, 2.0]])
    first = st.minimize(fun, x0, jac="jax", method=method)
    assert np.sum(first.nfev) > len(traces) > 0
    traces.clear()
    compiled.clear()
    again = st.minimize(fun, x0, jac="jax", method=method)
    assert (len(traces), len(compiled)) == (1, 0)
    np.testing.assert_array_equal(again.x, first.x)


@pytest.mark.parametrize("kind", ["lambda", "method", "args"])
def test_functions_that_are_made_anew_compile_nothing_either(compiled, kind):
    class Model:
        def __init__(self, data):
            self.data = data

        def loss(self, x):
            return bowl(x, self.data)

    def run(data):
        if kind == "args":
            return st.minimize(bowl, np.zeros(3), (data,), jac="jax")
        fun = Model(data).loss if kind == "method" else lambda x: bowl(x, data)
        return st.minimize(fun, np.zeros(3), jac="jax")

    run(np.ones(3))
    compiled.clear()
    to = np.array([1.0, 2.0, 3.0])
    other = run(to)
    assert len(compiled) == 0
    expected = st.minimize(lambda x: bowl(x, to), np.zeros(3), jac="3-point", gtol=1e-7)
    np.testing.assert_allclose(other.x, expected.x, atol=1e-5)


def test_what_a_function_closes_over_may_change():
    data, inner = {"to": 1.0}, {"scale": jax.jit(lambda x: 2.0 * x)}

    def fun(x):
        return ((inner["scale"](x) - data["to"]) ** 2).sum()

    np.testing.assert_allclose(st.minimize(fun, np.zeros(2), jac="jax").x, 0.5)
    data["to"] = 4.0
    np.testing.assert_allclose(st.minimize(fun, np.zeros(2), jac="jax").x, 2.0)
    one, three = np.array([1.0, 1.0]), np.array([3.0, 3.0])
    for by in (one, three):
        inner["scale"] = jax.jit(lambda x, by=by: by * x)
        np.testing.assert_allclose(st.minimize(fun, np.zeros(2), jac="jax").x, 4.0 / by, rtol=1e-6)
    three[:] = 8.0
    inner["scale"] = lambda x: three * x
    np.testing.assert_allclose(st.minimize(fun, np.zeros(2), jac="jax").x, 0.5)


def test_an_object_without_a_hash_will_do():
    class Odd:
        __hash__ = None

        def __call__(self, x):
            return bowl(x)

    assert st.minimize(Odd(), np.zeros(3), jac="jax").success


def test_few_programs_are_compiled_for_a_jax_start(compiled):
    compiled.clear()
    with jax.enable_x64(True):
        res = st.minimize(lambda x: bowl(x) + (x**4).sum(), jnp.array([3.0, -2.0, 1.0, 0.5, 2.0, -1.0, 0.1]))
    assert res.success
    assert 0 < len(compiled) < 100  # 195 when every number of pairs was a shape
