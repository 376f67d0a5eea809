"""What the compiled engine refuses, before anything is compiled, and in which words."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steepen as st
import steepen.jax as sj


def square(x):
    return (x * x).sum()


def branches(x):
    if x[0] > 0:
        return square(x)
    return -square(x)


X = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("callback", lambda s: None), ("checkpoint", "run.npz"), ("check_gradient", True),
        ("hvp", lambda x, v: v), ("hess", lambda x: np.eye(2)), ("jac", "2-point"), ("jac", lambda x: 2 * x),
        ("trace", "x"), ("budget", st.Budget(seconds=1.0)), ("speculate", 1),
    ],
)  # fmt: skip
def test_what_belongs_to_the_eager_engine_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"^{name}: "):
        st.minimize(square, X, engine="jax", **{name: value})


class Signs(st.Method):
    """A method of the user's."""

    def direction(self, problem, here):
        return -np.sign(here.g)


class CGD(st.CGD):
    """One by the name of ours."""


class Halved(st.steps.Step):
    """A step of the user's."""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("method", Signs()), ("method", CGD(0.1)), ("step", Halved()),
        ("step", type("Armijo", (Halved,), {})()),
    ],
)  # fmt: skip
def test_a_method_or_step_of_the_users_own_class_is_for_the_eager_engine(name, value):
    with pytest.raises(TypeError, match=f"^{name}: .*run the {name}s of the library.* eager engine"):
        sj.minimize(square, X, **{name: value})
    with pytest.raises(TypeError, match=f"^{name}: "):
        st.minimize(square, X, engine="jax", **{name: value})


def test_the_engine_has_a_name_and_double_precision_is_switched_on():
    with jax.enable_x64(False), pytest.raises(TypeError, match="x0: got float64, which is disabled"):
        sj.minimize(square, np.ones(2))
    with pytest.raises(ValueError, match="engine: 'cuda' is not known"):
        st.minimize(square, X, engine="cuda")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("fun", "said"),
    [
        (branches, r"fun: JAX cannot trace it \(line \d+ of test_refused.py: if x\[0\] > 0:\).*eager"),
        (lambda x: math.sin(x[0]), "fun: JAX cannot trace it"),
        (lambda x: x * x, "fun: expected a real number"),
        (3, "fun: expected a callable"),
    ],
)
def test_functions_that_have_no_value(fun, said):
    with pytest.raises(TypeError, match=said):
        sj.minimize(fun, X)


def test_a_value_of_less_precision_than_the_start():
    with pytest.raises(TypeError, match="fun: expected float64 values"):
        sj.minimize(lambda x: square(x).astype(jnp.float32), jnp.ones(2))


@pytest.mark.parametrize(
    ("x0", "given", "said"),
    [
        ([[1.0, 2.0], [3.0]], {}, "x0: expected an array"),
        (np.zeros((0, 2), np.float32), {}, "x0: expected non-empty points"),
        ({}, {}, "x0: expected a point"),
        ((np.zeros((2, 3), "f4"), np.zeros(4, "f4")), {"batch": True}, "x0: expected one leading"),
        (X, {"bounds": [(1.0, 0.0), (0.0, 1.0)]}, "bounds: expected low <= high"),
        (X, {"bounds": sj.Bounds({"a": 0.0})}, "bounds: expected lb to be a number or a tree"),
        ({"a": X, "b": X > 0}, {}, r"x0\['b'\]: expected an array of float32 .* numbers, got bool"),
        ({"a": X, "b": X * math.nan}, {}, "x0: expected finite numbers"),
        (jnp.array([math.inf, 0.0], "float32"), {"throw": True}, "x0: expected finite numbers"),
        ({"a": X, "b": square}, {}, r"x0\['b'\]: expected an array of .* numbers, got function, <function"),
        (X, {"bounds": (X, X)}, r"bounds: expected Bounds\(low, high\) or pairs of numbers"),
        (X, {"bounds": sj.Bounds(math.nan)}, "bounds: expected low <= high"),
        (X, {"has_aux": True}, r"fun: expected \(f, aux\), since has_aux is True"),
        (X, {"slots": 0}, "slots: expected a whole number"),
        (X, {"mesh": 3}, "mesh: expected a jax.sharding.Mesh"),
        (X, {"method": "cgd", "lam": lambda k: 1.0 if k < 5 else 0.0}, "lam: .* it branches on k"),
        (X, {"method": "gd", "step": lambda k: 1.0 if k < 5 else 0.5}, "step: .* it branches on k"),
    ],
)  # fmt: skip
def test_arguments_that_make_no_run(x0, given, said):
    with pytest.raises((TypeError, ValueError), match=said):
        sj.minimize(square, x0, **given)


def test_traced_bounds_that_leave_no_point_are_a_status():
    def run(low):
        bounds = sj.Bounds(jnp.stack([low, jnp.zeros_like(low)]), jnp.ones(2))  # one pair may be crossed
        return sj.minimize(square, jnp.ones(2), method="gd", step=0.1, bounds=bounds).status

    found = jax.jit(jax.vmap(run))(jnp.array([0.5, 2.0])).tolist()
    assert found == [st.Status.CONVERGED, st.Status.INFEASIBLE]
