"""Runs on JAX's arrays, and autodiff by JAX: what is compiled, when, and that it is what fun does now."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steepen as st

from .. import smooth
from ..calls import same
from ..pairs import pairs
from ..smooth import COUNTS, MANY, ONE, STARTS, check, f, g, hess, hvp, parts, run


def slope(x):
    return jnp.stack(parts(x), -1)


def bend(x):
    return jnp.asarray(hess(np.asarray(x)))


@pytest.mark.parametrize(("method", "rows"), [("newton", "one"), ("cgd-auto", "one"), ("cgd-fd", "many")])
def test_jax_arrays_stay_jax_arrays(method, rows):
    x0 = STARTS[rows].astype(np.float32)
    result = run(jnp.asarray(x0), method=method, jac=slope, hess=bend, trace="x")
    expected = run(x0, method=method, hess=hess, trace="x")
    check(result, expected, jax.Array, np.float32, 2e-3)
    if method == "cgd-auto":  # the inverse Hessian is an operator on NumPy's arrays
        product = result.hess_inv @ np.ones(3, np.float32)
        assert isinstance(product, np.ndarray)
        np.testing.assert_allclose(product, expected.hess_inv @ np.ones(3, np.float32), rtol=1e-2)


def test_a_covariance_is_measured_by_autodiff():
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]])
    with jax.enable_x64(True):
        result = st.minimize(lambda x: 0.5 * x @ jnp.asarray(matrix) @ x, jnp.ones(2))
        np.testing.assert_allclose(result.covariance(), np.linalg.inv(matrix), rtol=1e-12)


def test_jax_arrays_of_64_bits_stay_so():
    with jax.enable_x64(True):
        result = run(jnp.asarray(ONE), jac="jax", method="gd", trace="x")
    check(result, run(method="gd", trace="x"), jax.Array, np.float64, 1e-12)


def test_autodiff_is_the_default_and_counts_as_given_derivatives_do():
    result, expected = run(jnp.asarray(MANY, "float32"), jac=None, lam=0.01), run(MANY, lam=0.01, hvp=hvp)
    assert result.hvp_source == "jax"
    np.testing.assert_allclose(result.x, expected.x, rtol=1e-4, atol=1e-5)
    for name in COUNTS:
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


def test_bounds_hold_and_a_resumed_run_is_the_same_to_the_bit(tmp_path):
    x0, given = jnp.asarray(ONE, "float32"), {"jac": slope, "method": "cgd-auto", "step": None, "gtol": 1e-3}
    given |= {"bounds": [(None, -1.0), (None, None), (None, None)], "trace": "x"}
    whole = run(x0, **given)
    assert whole.x[0] == -1.0
    assert np.abs(g(np.asarray(whole.x))[1:]).max() < 0.1
    run(x0, checkpoint=tmp_path / "run.npz", **(given | {"budget": st.Budget(iters=3)}))
    same(run(x0, checkpoint=tmp_path / "run.npz", **given), whole)


def test_differences_of_float32_end_honestly():
    x0 = jnp.asarray(ONE, "float32")
    res = st.minimize(f, x0, jac="2-point", method="gd", step=0.05, gtol=0.1)
    assert res.x.dtype == np.float32
    assert np.all(res.success)
    assert np.linalg.norm(g(np.asarray(res.x)), axis=-1).max() < 0.11


@pairs(dtype=(np.float64, np.float32), rows=STARTS, method=("bfgs", "cgd", "newton"))
def test_autodiff_from_numpy_keeps_the_precision(dtype, rows, method):
    smooth.check_autodiff_from_numpy("jax", dtype, rows, method)


def test_autodiff_leaves_to_the_user_what_is_given():
    smooth.check_what_autodiff_takes_from_the_user("jax")


@pytest.mark.parametrize("shape", [(3,), (3, 3)], ids=["one", "many"])
def test_a_function_that_stops_the_gradient_is_refused(shape):
    stop = jax.lax.stop_gradient
    plain, compiled = lambda x: (stop(x) ** 2).sum(), jax.jit(lambda x: (stop(x) ** 2).sum())
    for fun, x0 in ((plain, jnp.ones(shape)), (compiled, np.ones(shape))):
        with pytest.raises(ValueError, match=r"^fun: its value changes with x.* the graph is broken"):
            st.minimize(fun, x0, method="gd", jac="jax")


def test_a_function_that_is_mapped_already_is_refused():
    with pytest.raises(TypeError, match=r"^fun: expected one value.* write fun for one point: it is mapped"):
        st.minimize(jax.vmap(lambda x: (x * x).sum()), MANY, jac="jax")


def bowl(x, to=1.0):
    return ((x - to) ** 2).sum() + (x[1:] * x[:-1]).sum() ** 2


@pytest.mark.parametrize(("method", "rows"), [("cgd-auto", "one"), ("cgd", "many"), ("newton", "one")])
def test_a_second_run_compiles_nothing_and_traces_once(compiled, method, rows):
    traces = []

    def fun(x):
        traces.append(x)
        return bowl(x)

    first = st.minimize(fun, STARTS[rows], jac="jax", method=method)
    assert np.sum(first.nfev) > len(traces) > 0
    traces.clear(), compiled.clear()
    again = st.minimize(fun, STARTS[rows], jac="jax", method=method)
    assert (len(traces), len(compiled)) == (1, 0)
    np.testing.assert_array_equal(again.x, first.x)


@pytest.mark.parametrize("kind", ["lambda", "method", "args"])
def test_functions_that_are_made_anew_compile_nothing_either(compiled, kind):
    class Model(SimpleNamespace):
        def loss(self, x):
            return bowl(x, self.data)

    def go(data):
        fun = {"lambda": lambda x: bowl(x, data), "method": Model(data=data).loss, "args": bowl}[kind]
        return st.minimize(fun, np.zeros(3), (data,) if kind == "args" else (), jac="jax")

    go(np.ones(3))
    compiled.clear()
    to = np.array([1.0, 2.0, 3.0])
    other = go(to)
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
