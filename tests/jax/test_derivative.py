"""The derivative of a minimiser against differences, closed forms, and itself the other way round."""

import jax
import jax.numpy as jnp
import numpy as np

import steepen as st
import steepen.jax as sj

SCALE = np.array([1.0, 3.0])
THETA = np.array([1.0, 2.0])
NEWTON = {"method": "newton", "step": 1.0, "gtol": 1e-11}


def fun(x, theta):
    return (SCALE * (x - theta) ** 2).sum() + 0.1 * (x**4).sum() + 0.3 * x[0] * x[1]


def argmin(theta, **given):
    return sj.minimize(fun, jnp.zeros(2), (theta,), **NEWTON, **given)


def slopes(function, x, h=1e-5):
    return np.stack([(function(x + u) - function(x - u)) / (2 * h) for u in h * np.eye(len(x))], axis=-1)


def test_both_modes_and_second_order_match_differences():
    def length(theta):
        return (argmin(theta).x ** 2).sum()

    slope = jax.grad(length)  # the program of the run is compiled once for all of these
    np.testing.assert_allclose(slope(THETA), slopes(length, THETA), rtol=1e-7)
    _, along = jax.jvp(length, (THETA,), (jnp.ones(2),))
    np.testing.assert_allclose(along, slope(THETA).sum(), rtol=1e-9)
    np.testing.assert_allclose(jax.hessian(length)(THETA), slopes(slope, THETA), rtol=1e-5)


def test_inside_scan_each_minimum_has_its_own():
    def total(theta):
        def body(x, shift):  # it begins where the last one ended
            x = sj.minimize(fun, x, (theta + shift,), **NEWTON).x
            return x, (x**2).sum()

        return jax.lax.scan(body, jnp.zeros(2), jnp.linspace(0.0, 1.0, 3))[1].sum()

    one = lambda theta: (argmin(theta).x ** 2).sum()  # noqa: E731
    expected = sum(slopes(one, THETA + shift) for shift in (0.0, 0.5, 1.0))
    np.testing.assert_allclose(jax.jit(jax.grad(total))(THETA), expected, rtol=1e-6)
    _, along = jax.jvp(jax.jit(total), (THETA,), (jnp.ones(2),))
    np.testing.assert_allclose(along, expected.sum(), rtol=1e-6)


def test_what_fun_closes_over_counts_and_the_value_follows():
    def value(theta):
        return sj.minimize(lambda x: fun(x, theta), jnp.zeros(2), **NEWTON).fun

    expected = -2 * SCALE * (argmin(THETA).x - THETA)  # the envelope theorem
    np.testing.assert_allclose(jax.jit(jax.grad(value))(THETA), expected, rtol=1e-6)


def bounded(given, **more):
    """Return the run with θ and an upper bound of the first variable, which holds it."""
    return argmin(given[:2], bounds=sj.Bounds(ub=jnp.stack([given[2], jnp.inf])), **more)


GIVEN = np.array([1.0, 2.0, 0.5])


def test_what_a_bound_holds_follows_the_bound_and_the_rest_follows_that():
    place, value = lambda z: bounded(z).x, lambda z: bounded(z).fun
    forwards, backwards, slope = jax.jacfwd(place), jax.jacrev(place), jax.grad(value)
    bend = 6 + 1.2 * place(GIVEN)[1] ** 2  # H_FF; H_FA is 0.3
    closed = [[0.0, 0.0, 1.0], [0.0, 6 / bend, -0.3 / bend]]
    np.testing.assert_allclose(forwards(GIVEN), closed, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(backwards(GIVEN), closed, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(slope(GIVEN), slopes(value, GIVEN), rtol=1e-6)
    np.testing.assert_allclose(jax.jacfwd(slope)(GIVEN), slopes(slope, GIVEN), rtol=1e-5, atol=1e-7)


def test_at_a_bound_with_a_multiplier_of_zero_x_has_none_and_f_has():
    def place(z):  # the minimum of (x₀ − θ)² + (x₁ − 1)² with x₀ ≤ ub, where θ = ub
        bounds = sj.Bounds(ub=jnp.stack([z[1], jnp.inf]))
        return sj.minimize(
            lambda x: (x[0] - z[0]) ** 2 + (x[1] - 1) ** 2, jnp.zeros(2), **NEWTON, bounds=bounds
        )

    z = jnp.array([2.0, 2.0])
    assert np.isnan(jax.jit(jax.jacrev(lambda z: place(z).x))(z)).all()
    np.testing.assert_allclose(jax.jit(jax.grad(lambda z: place(z).fun))(z), 0.0, atol=1e-12)


def test_rows_of_a_batch_have_their_own_with_bounds_too():
    many = jnp.stack([GIVEN, jnp.array([-1.0, 1.0, 0.5]), jnp.array([2.0, 0.0, 0.7])])  # the second is free
    one = jax.jit(jax.jacfwd(lambda z: bounded(z).x))
    both = jax.jit(jax.vmap(jax.jacfwd(lambda z: bounded(z).x)))(many)
    np.testing.assert_allclose(both, [one(z) for z in many], rtol=1e-9, atol=1e-12)
    starts = jnp.zeros((3, 2))

    def total(z):
        bounds = sj.Bounds(ub=jnp.stack([z[2], jnp.inf]))
        return sj.minimize(fun, starts, (z[:2],), **NEWTON, bounds=bounds).x.sum()

    np.testing.assert_allclose(jax.jit(jax.grad(total))(GIVEN), 3 * one(GIVEN).sum(axis=0), rtol=1e-6)


def test_a_run_without_success_has_none():
    def short(theta, unsound=False):
        return argmin(theta, budget=st.Budget(iters=2), unsound=unsound)

    assert np.isnan(jax.jit(jax.jacrev(lambda t: short(t).x))(THETA)).all()
    assert np.isnan(jax.jit(jax.grad(lambda t: short(t).fun))(THETA)).all()
    assert np.isfinite(jax.jit(jax.jacrev(lambda t: short(t, True).x))(THETA)).all()


def test_where_the_hessian_is_singular_there_is_none():
    def place(theta):
        flat = lambda x, theta: x[0] ** 2 + (theta - 1) * x[1]  # noqa: E731
        return sj.minimize(flat, jnp.zeros(2), (theta,), method="gd", step=0.1).x.sum()

    assert np.isnan(jax.jit(jax.grad(place))(1.0))


def test_a_singular_hessian_has_no_derivative():
    wide = jnp.asarray(np.random.default_rng(0).normal(size=(3, 5)))  # two directions without curvature

    def place(a):
        return sj.minimize(lambda x, a: ((wide @ x - a) ** 2).sum(), jnp.zeros(5), (a,), "bfgs", gtol=1e-8).x

    assert np.isnan(jax.jacrev(place)(jnp.ones(3))).all()
