"""Which functions are the same for a compiled program: by what they read, and by their operations."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steepen as st
import steepen.jax as sj
from steepen._tools.traces import signature
from steepen.jax import _program

QUICK = {"method": "gd", "step": 0.5, "gtol": 1e-9}
MANY = 5000


def with_rule(box, kind):
    """Return ½‖x − to‖² whose derivative rule reads `to` from a large array that may be another one later."""

    def value(x):
        return 0.5 * ((x - 1.0) ** 2).sum()  # says nothing of the array

    if kind == "vjp":
        fun = jax.custom_vjp(value)
        fun.defvjp(lambda x: (value(x), x), lambda x, t: (t * (x - box["to"][:2]),))
    else:
        fun = jax.custom_jvp(value)
        fun.defjvp(lambda x, v: (value(*x), (x[0] - box["to"][:2]) @ v[0]))
    return fun


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
@pytest.mark.parametrize("array", [np.full, jnp.full], ids=("numpy", "jax"))
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_rule_that_reads_another_large_array_is_never_answered_by_the_old_one(kind, array, wrapped):
    box = {"to": array(MANY, 1.0)}
    rule = with_rule(box, kind)
    fun = (lambda x: rule(x)) if wrapped else rule
    for to in (1.0, 3.0, -2.0):
        box["to"] = array(MANY, to)
        found = sj.minimize(fun, jnp.zeros(2), **QUICK)
        np.testing.assert_allclose(found.jac, found.x - to, atol=1e-12)
        eager = st.minimize(fun, np.zeros(2), jac="jax", method="gd", step=0.5, budget=st.Budget(iters=1))
        np.testing.assert_allclose(eager.x, to / 2, rtol=1e-12)


def test_the_derivative_of_a_minimum_reads_the_rule_as_it_is_now():
    box = {"by": jnp.full(MANY, 1.0)}

    @jax.custom_jvp
    def scaled(a):
        return a

    scaled.defjvp(lambda a, t: (a[0], box["by"][0] * t[0]))

    def place(a):
        return sj.minimize(lambda x: ((x - scaled(a)) ** 2).sum(), jnp.zeros(1), **QUICK).x[0]

    for by in (1.0, 5.0):
        box["by"] = jnp.full(MANY, by)
        np.testing.assert_allclose(jax.grad(place)(2.0), by, rtol=1e-6)


def test_a_loop_that_makes_a_function_each_turn_compiles_one_program(compiled):
    for turn in range(4):
        data, weights = jnp.arange(3.0) + turn, np.full(3, 1.0 + turn)

        def fun(x, data=data, weights=weights):
            kinks = jax.nn.relu(-x - 9.0) + jax.nn.softplus(-x - 99.0) + jnp.logaddexp(x - 99.0, 0.0)
            return 0.1 * (weights * (x - data) ** 2).sum() + kinks.sum()

        found = sj.minimize(fun, jnp.zeros(3), method="gd", step=0.5, gtol=1e-9)
        np.testing.assert_allclose(found.x, data, atol=1e-6)
        if turn:
            assert not compiled
        compiled.clear()


def test_a_function_that_is_the_same_is_traced_once_and_forgotten_with_it(monkeypatch):
    shift = {"to": 1.0}
    traces, made = [], _program._traced
    monkeypatch.setattr(_program, "_traced", lambda *given: (traces.append(given[1]), made(*given))[1])

    def fun(x):
        return ((x - shift["to"]) ** 2).sum()

    for to in (1.0, 1.0, 2.0, 2.0, 1.0):
        shift["to"] = to
        np.testing.assert_allclose(sj.minimize(fun, jnp.zeros(2), **QUICK).x, to)
    assert len(traces) == 2
    held = len(_program._SEEN)
    del fun
    gc.collect()
    assert len(_program._SEEN) < held


def repeated(by):
    return lambda x: jax.lax.fori_loop(0, 3, lambda i, s: s * by, x)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x * 1.0, lambda x: x * 1.0000000000000002),
        (lambda x: x * 0.0, lambda x: x * -0.0),
        (lambda x: x + np.arange(2000.0)[:2], lambda x: x - np.arange(2000.0)[:2]),
        (lambda x: x.sum(), lambda x: x.max()),
        (repeated(2.0), repeated(3.0)),
        (lambda x: x[0] - x[1], lambda x: x[1] - x[0]),
        (jax.jit(lambda x: x * jnp.ones(2)), jax.jit(lambda x: x * 2)),
    ],
)  # fmt: skip
def test_traces_are_told_by_their_operations(one, other):
    x = np.ones(2)

    def told(fun):
        return signature(jax.make_jaxpr(lambda x: fun(x))(x).jaxpr)

    assert told(one) == told(one)
    assert told(one) != told(other)
    assert hash(told(one)) == hash(told(one))


def test_a_function_that_is_compiled_at_every_call_is_warned_of_once(monkeypatch):
    def run(by):
        return sj.minimize(lambda x: ((x - by) ** 2).sum(), jnp.zeros(2), (), "gd", step=0.5)

    monkeypatch.setattr(_program, "OFTEN", 3)
    with pytest.warns(UserWarning, match="fun: .* in 3 calls") as said:
        list(map(run, np.arange(5.0).tolist()))
    assert len(said) == 1
    assert said[0].filename == __file__
