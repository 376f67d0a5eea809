"""The optimistix solver against steepen's own call, and what it says to its host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.pairs import sample

import steepen as st
import steepen.jax as sj

optx = pytest.importorskip("optimistix")
from steepen.integrations.optimistix import Adjoint, Minimiser  # noqa: E402


def fn(y, args):
    return 10 * (y["b"] - y["a"] ** 2) ** 2 + ((args - y["a"]) ** 2).sum()


START = {"a": np.array([-1.0]), "b": np.array([1.0])}


def scalar(y, args):
    return fn(y, args).sum()


def test_it_makes_the_run_that_steepen_makes():
    given = {"method": "cgd-fd", "lam": 0.01, "step": 0.01, "b": 50}
    solver = Minimiser(atol=1e-3, **given)
    found = optx.minimise(scalar, solver, START, jnp.array(0.8), max_steps=2000)
    own = sj.minimize(scalar, START, (jnp.array(0.8),), gtol=1e-3, budget=st.Budget(iters=2000), **given)
    assert found.result == optx.RESULTS.successful
    for a, b in zip(jax.tree.leaves(found.value), jax.tree.leaves(own.x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    assert int(found.stats["num_steps"]) == int(own.nit) + 1  # the last one shows the host where it ended
    assert (int(found.stats["nfev"]), int(found.stats["njev"])) == (int(own.nfev), int(own.njev))


def test_aux_bounds_and_forward_mode():
    def both(y, args):
        return scalar(y, args), {"twice": 2 * y["a"]}

    options = {"upper": 0.5, "autodiff_mode": "fwd"}
    solver = Minimiser(method="gd", step=0.02, atol=1e-6)
    found = optx.minimise(
        both, solver, START, jnp.array(0.8), options, has_aux=True, max_steps=2000, adjoint=Adjoint()
    )
    np.testing.assert_allclose(found.value["a"], 0.5, atol=1e-6)
    np.testing.assert_allclose(found.aux["twice"], 2 * found.value["a"])


def test_what_ends_without_success_is_said():
    solver = Minimiser(method="gd", step=0.02)
    few = optx.minimise(scalar, solver, START, jnp.array(0.8), max_steps=3, throw=False)
    assert few.result == optx.RESULTS.nonlinear_max_steps_reached
    assert int(few.stats["status"]) == st.Status.MAX_ITERATIONS
    own = Minimiser(method="gd", step=0.02, budget=st.Budget(iters=3))  # a limit of its own is no success
    few = optx.minimise(scalar, own, START, jnp.array(0.8), max_steps=100, throw=False)
    assert few.result == optx.RESULTS.nonlinear_divergence
    assert int(few.stats["status"]) == st.Status.MAX_ITERATIONS
    down = optx.minimise(lambda y, _: -(y**2).sum(), solver, jnp.ones(2), max_steps=100_000, throw=False)
    assert down.result == optx.RESULTS.nonlinear_divergence
    assert int(down.stats["status"]) == st.Status.UNBOUNDED


@pytest.fixture
def strict():
    """Numbers of different types and ranks must not meet, as in optimistix's own tests."""
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


MATRIX = np.diag([1.0, 3.0, 0.5, 2.0, 1.5]) + 0.1


def bowl(y, matrix):
    flat = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(y)])
    return flat @ matrix @ flat


def shifted(y, args):
    return y * y - args


PROBLEMS = {
    "a nested tree": (bowl, ({"a": np.full((2, 2), 0.3)}, np.full(1, -0.2)), MATRIX, 0.0),
    "one number, below zero": (shifted, np.array(1.0), np.array(1.0), -1.0),
}


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    ("name", "method"),
    [
        *((name, "bfgs") for name in sample(PROBLEMS, 1)),
        pytest.param("one number, below zero", "cgd-auto", marks=pytest.mark.slow),
    ],
)
def test_minimum_and_jvp(name, method):
    fun, y0, args, least = PROBLEMS[name]
    y0, args = jax.tree.map(jnp.asarray, (y0, args))
    solver = Minimiser(1e-14, 1e-10, method)

    @jax.jit
    def place(args):
        return optx.minimise(lambda y, a: (fun(y, a), a), solver, y0, args, has_aux=True, throw=False).value

    moved = jax.tree.map(lambda a: jnp.ones_like(a) * 0.3, args)
    found, change = jax.jvp(place, (args,), (moved,))
    assert jax.tree.structure(found) == jax.tree.structure(y0)
    np.testing.assert_allclose(fun(found, args), least, atol=1e-8)
    up, down = (place(jax.tree.map(lambda a, m, e=e: a + e * m, args, moved)) for e in (1e-4, -1e-4))
    for a, b, c in zip(*map(jax.tree.leaves, (change, up, down)), strict=True):
        np.testing.assert_allclose(a, (b - c) / 2e-4, atol=1e-4)


@pytest.mark.usefixtures("strict")
def test_a_function_with_a_derivative_in_forward_mode_alone():
    def fun(y, args):
        grown = jax.lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * y), (0, jnp.ones(())))[1]
        return (grown - 32.0) ** 2

    options = {"autodiff_mode": "fwd"}
    found = optx.minimise(fun, Minimiser(method="bfgs"), jnp.array(1.5), options=options)
    np.testing.assert_allclose(found.value, 2.0, rtol=1e-6)


def test_vmap_and_a_start_that_is_no_number():
    def run(start):
        solver = Minimiser(method="bfgs", atol=1e-8)
        return optx.minimise(lambda y, _: (y * y).sum(), solver, start, throw=False)

    found = jax.jit(jax.vmap(lambda start: run(start).value))(jnp.array([[1.0, 2.0], [-3.0, 0.5]]))
    np.testing.assert_allclose(found, 0.0, atol=1e-8)
    assert run(jnp.array([jnp.nan, 1.0])).result == optx.RESULTS.nonfinite


def test_what_is_refused():
    with pytest.raises(TypeError, match="callback: expected one of rtol, atol, method, step, lam"):
        Minimiser(callback=print)
    with pytest.raises(ValueError, match="options: autodiff_mode: 'reverse' is not known; there are bwd"):
        optx.minimise(scalar, Minimiser(), START, 1.0, {"autodiff_mode": "reverse"})
    with pytest.raises(
        ValueError, match=r"options: lower and upper need .*adjoint=steepen.integrations.optimistix.Adjoint"
    ):
        optx.minimise(scalar, Minimiser(), START, 1.0, {"upper": 0.5})
    with pytest.raises(ValueError, match="method: 'newtn' is not known"):
        optx.minimise(scalar, Minimiser(method="newtn"), START, 1.0)
    with pytest.raises(ValueError, match="options: 'lowr' is not known; did you mean 'lower'"):
        optx.minimise(scalar, Minimiser(), START, 1.0, {"lowr": 0})
    for name, side in (("lower", np.zeros(3)), ("upper", {"a": np.zeros(3), "b": 1.0})):
        y0 = np.zeros(2) if name == "lower" else START
        with pytest.raises(ValueError, match="options: expected lower and upper to be numbers or like y0"):
            optx.minimise(lambda y, _: 0.0, Minimiser(), y0, 1.0, {name: side}, adjoint=Adjoint())


def test_with_bounds_the_derivative_is_that_of_steepens_own_call():
    given = {"method": "newton", "step": 1.0, "atol": 1e-11}

    def fun(y, theta):
        return (y[0] - theta) ** 2 + 3 * (y[1] - 2) ** 2 + 0.3 * y[0] * y[1]

    def place(z):
        options = {"lower": -9.0, "upper": jnp.stack([z[1], jnp.inf])}
        solver = Minimiser(**given)
        return optx.minimise(fun, solver, jnp.zeros(2), z[0], options, adjoint=Adjoint()).value

    z = jnp.array([1.0, 0.5])
    expected = [[0.0, 1.0], [0.0, -0.05]]  # H_FF = 6 and H_FA = 0.3
    np.testing.assert_allclose(jax.jacfwd(place)(z), expected, atol=1e-10)
    np.testing.assert_allclose(jax.jit(jax.jacrev(place))(z), expected, atol=1e-10)
    many = jnp.stack([z, jnp.array([0.2, 0.5])])  # the second is free: H = [[2, .3], [.3, 6]]
    free = np.linalg.solve([[2.0, 0.3], [0.3, 6.0]], [[2.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(jax.vmap(jax.jacfwd(place))(many), [expected, free], atol=1e-10)
    twice = jax.jacfwd(jax.grad(lambda z: (place(z) ** 2).sum()))(z)
    np.testing.assert_allclose(twice, [[0.0, 0.0], [0.0, 2 * (1 + 0.05**2)]], atol=1e-9)
