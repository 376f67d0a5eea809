"""What a compiled program is made of: how often the function is in it, and how long its sums are."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steepen as st
import steepen.jax as sj


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
@pytest.mark.parametrize(("x0", "places"), [(np.array([-1.2, 1.0]), 1), (np.ones((3, 2)), 4)])
def test_a_function_is_in_the_program_at_few_places(method, x0, places):
    """A single run has it once, for the trials of the search and all that is seldom run.

    In batches f and ∇f come apart in the trials, and the starts, which are fewer at a time, have their own.
    """

    def fun(x):  # it has one arc tangent, and its gradient none
        return jnp.arctan(x).sum() + (x * x).sum()

    program = jax.make_jaxpr(lambda x: sj.minimize(fun, x, method=method, bounds=[(-2.0, 2.0)] * 2))(x0)
    assert list(primitives(program.jaxpr, set())).count("atan") <= places


def test_a_long_sum_is_accurate_in_single_precision():
    data = np.full(2**20, 0.1, np.float32)
    found = sj.minimize(lambda x: (jnp.asarray(data) * (1 + x * x)).sum(), np.float32([0.5]), method="bfgs")
    np.testing.assert_allclose(found.fun, data.sum(dtype=float), rtol=1e-5)


def test_a_derivative_rule_that_reads_another_number_is_another_program():
    factor = [2.0]

    @jax.custom_vjp
    def fun(x):
        return ((x - 1) ** 2).sum()

    fun.defvjp(lambda x: (fun(x), x), lambda x, t: (factor[0] * (x - 1) * t,))
    first = {"method": "gd", "step": 0.1, "budget": st.Budget(iters=1)}
    for factor[0], expected in ((2.0, 0.2), (0.2, 0.02)):
        np.testing.assert_allclose(sj.minimize(fun, jnp.zeros(2), **first).x, expected, rtol=1e-6)
        eager = st.minimize(fun, np.zeros(2), jac="jax", **first)
        np.testing.assert_allclose(eager.x, expected, rtol=1e-6)


def test_a_callable_whose_fields_have_no_hash_may_have_rules():
    @dataclass(frozen=True)
    class Fun:
        a: jax.Array

        def __call__(self, x):
            return jax.nn.relu(x - self.a).sum() + ((x - self.a) ** 2).sum()

    np.testing.assert_allclose(sj.minimize(Fun(jnp.ones(2)), jnp.zeros(2)).x, 1.0, rtol=1e-6)


def test_a_rule_that_reads_a_part_of_an_array_is_compiled_once(compiled):
    """Every trace makes another object of that part."""
    data = np.random.default_rng(0).normal(size=(6, 2))

    def fun(x):
        return jnp.logaddexp(0.0, data[:4] @ x).sum() + x @ x

    def both():
        sj.minimize(fun, jnp.zeros(2))
        st.minimize(lambda x: fun(x), np.zeros(2), jac="jax")  # a new function of the same operations

    both()
    del compiled[:]
    both()
    assert compiled == []
