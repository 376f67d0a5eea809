"""The derivative of a minimiser against differences, closed forms, and itself the other way round."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import steepen as st
import steepen.jax as sj

SCALE = np.array([1.0, 3.0])
THETA = np.array([1.0, 2.0])


def fun(x: Any, theta: Any) -> Any:
    return (SCALE * (x - theta) ** 2).sum() + 0.1 * (x**4).sum() + 0.3 * x[0] * x[1]


def argmin(theta: Any, **given: Any) -> Any:
    return sj.minimize(fun, jnp.zeros(2), (theta,), method="newton", step=1.0, gtol=1e-11, **given)


def test_both_ways_and_second_order_match_differences() -> None:
    def length(theta: Any) -> Any:
        return (argmin(theta).x ** 2).sum()

    theta, h = jnp.asarray(THETA), 1e-5
    slope, run = jax.jit(jax.grad(length)), jax.jit(length)
    units = np.eye(2) * h
    np.testing.assert_allclose(
        slope(theta), [(run(theta + u) - run(theta - u)) / (2 * h) for u in units], rtol=1e-7
    )
    _, along = jax.jit(lambda t: jax.jvp(length, (t,), (jnp.ones(2),)))(theta)
    np.testing.assert_allclose(along, slope(theta).sum(), rtol=1e-9)
    second = [(slope(theta + u) - slope(theta - u)) / (2 * h) for u in units]
    np.testing.assert_allclose(jax.jit(jax.hessian(length))(theta), second, rtol=1e-5)


def test_what_fun_closes_over_counts_and_the_value_follows() -> None:
    def value(theta: Any) -> Any:
        return sj.minimize(lambda x: fun(x, theta), jnp.zeros(2), method="newton", step=1.0, gtol=1e-11).fun

    theta = jnp.asarray(THETA)
    x = argmin(theta).x
    expected = -2 * SCALE * (x - theta)  # the envelope theorem
    np.testing.assert_allclose(jax.jit(jax.grad(value))(theta), expected, rtol=1e-6)


def test_what_a_bound_holds_does_not_move() -> None:
    bounds = sj.Bounds(ub=jnp.array([0.5, jnp.inf]))
    moved = jax.jit(jax.jacfwd(lambda t: argmin(t, bounds=bounds).x))(jnp.asarray(THETA))
    x = argmin(jnp.asarray(THETA), bounds=bounds).x
    np.testing.assert_allclose(moved[0], 0.0)
    np.testing.assert_allclose(moved[1], [0.0, 6 / (6 + 1.2 * x[1] ** 2)], rtol=1e-7)


def test_a_run_without_success_has_none() -> None:
    def short(theta: Any, unsound: bool = False) -> Any:
        return argmin(theta, budget=st.Budget(iters=2), unsound=unsound).x

    theta = jnp.asarray(THETA)
    assert np.isnan(jax.jit(jax.jacrev(short))(theta)).all()
    assert np.isfinite(jax.jit(jax.jacrev(lambda t: short(t, True)))(theta)).all()


def test_rows_of_a_batch_have_their_own() -> None:
    thetas = jnp.asarray([THETA, -THETA])
    slope = jax.jit(jax.vmap(jax.grad(lambda t: argmin(t).x.sum())))(thetas)
    np.testing.assert_allclose(slope[0], jax.jit(jax.grad(lambda t: argmin(t).x.sum()))(thetas[0]), rtol=1e-9)
    starts = jnp.zeros((3, 2))
    many = jax.jit(
        jax.grad(lambda t: sj.minimize(fun, starts, (t,), method="newton", step=1.0, gtol=1e-11).x.sum())
    )
    np.testing.assert_allclose(many(thetas[0]), 3 * slope[0], rtol=1e-6)


def test_where_the_hessian_is_singular_there_is_none() -> None:
    def flat(x: Any, theta: Any) -> Any:
        return x[0] ** 2 + (theta - 1) * x[1]

    def place(theta: Any) -> Any:
        return sj.minimize(flat, jnp.zeros(2), (theta,), method="gd", step=0.1).x.sum()

    assert np.isnan(jax.jit(jax.grad(place))(1.0))
