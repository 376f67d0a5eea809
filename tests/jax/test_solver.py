"""A run that its user drives, the path that a run leaves, and a failure that raises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steepen as st
import steepen.jax as sj


def valley(x):
    return (5 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


START, BOX = np.array([-1.2, 1.0]), [(-2.0, 0.5), (-1.0, 2.0)]


@pytest.mark.parametrize("given", [{"bounds": BOX}, {"method": "cgd-fd", "lam": 0.01, "step": 0.02}])
def test_the_steps_of_a_solver_are_the_iterations_of_minimize(given):
    given |= {"budget": st.Budget(iters=8)}  # the two programs round apart, and each step magnifies that
    solver = sj.Solver(valley, START, trace=20, **given)
    step, state, path = jax.jit(solver.step), solver.init(START), []
    while not solver.terminate(state):
        path.append(state.x)
        state = step(state)
    sol, whole = solver.solution(state), sj.minimize(valley, START, trace=20, **given)
    for a, b in zip(jax.tree.leaves(sol), jax.tree.leaves(whole), strict=True):  # two roundings
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(whole.trace.x[: len(path)], jnp.stack(path), rtol=1e-6, atol=1e-9)
    assert jax.tree.leaves(step(state))[0] == jax.tree.leaves(state)[0]  # an ended run stays


def test_a_final_state_goes_on_under_other_limits():
    def solver(args, **given):
        return sj.Solver(lambda x, a: valley(x - a), START, (args,), **given)

    first = solver(0.0, budget=st.Budget(iters=6))
    short = first.run(first.init(START))
    assert (int(short.status), int(short.k)) == (st.Status.MAX_ITERATIONS, 6)
    rest = solver(0.0, gtol=1e-9)
    long, whole = rest.run(short), rest.run(rest.init(START))
    assert int(long.status) == st.Status.CONVERGED
    assert int(long.k) == int(whole.k)  # it has lost no pair
    assert int(long.counts.nfev) == int(whole.counts.nfev)
    np.testing.assert_allclose(long.x, whole.x, atol=1e-8)
    other = solver(0.1)  # another problem, begun with the pairs of this one
    moved = other.run(long)
    assert st.Status(int(moved.status)) is st.Status.CONVERGED
    np.testing.assert_allclose(moved.x, 1.1, atol=1e-4)
    assert int(moved.k) > int(long.k)
    for status in (st.Status.ROUNDOFF, st.Status.UNBOUNDED):  # is no limit
        stays = rest.run(short._replace(status=jnp.full_like(short.status, int(status))))
        assert int(stays.status) == status
        assert int(stays.k) == 6


def test_states_are_mapped_and_scanned_as_trees_of_points():
    solver = sj.Solver(
        lambda p: ((p["a"] - 1) ** 2).sum(), {"a": jnp.zeros(2)}, method="gd", step=0.25, gtol=1e-9
    )
    starts = {"a": jnp.arange(6.0).reshape(3, 2)}

    def path(start):
        return jax.lax.scan(lambda s, _: (solver.step(s), s.f), solver.init(start), None, length=4)[1]

    found = jax.jit(jax.vmap(path))(starts)
    first = ((starts["a"] - 1) ** 2).sum(axis=1)
    np.testing.assert_allclose(found, first[:, None] * 0.25 ** np.arange(4), rtol=1e-12)
    sol = solver.solution(solver.run(solver.init({"a": jnp.array([3.0, 0.0])})))
    np.testing.assert_allclose(sol.x["a"], 1.0, atol=1e-8)


def test_what_fails_is_not_left_open():
    solver = sj.Solver(lambda x: jnp.abs(x).sum(), jnp.ones(2), method="bfgs")
    state = solver.run(solver.init(jnp.array([1.0, 0.3])))
    assert int(state.status) == st.Status.LINE_SEARCH_FAILED
    with pytest.raises(TypeError, match="fun: expected a callable"):
        sj.Solver(3, jnp.ones(2))


def test_the_path_has_gradients_and_pairs_and_is_padded():
    path = sj.minimize(valley, START, trace=60).trace
    used = np.asarray(path.k) >= 0
    assert 10 < used.sum() < 60
    np.testing.assert_allclose(path.g[used], jax.vmap(jax.grad(valley))(path.x[used]), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(path.f[used], jax.vmap(valley)(path.x[used]), rtol=1e-9, atol=1e-15)
    s, y = path.pairs
    np.testing.assert_allclose(s, np.where(used[1:, None], np.diff(path.x, axis=0), 0.0))
    np.testing.assert_allclose(y, np.where(used[1:, None], np.diff(path.g, axis=0), 0.0))
    many = sj.minimize(valley, jnp.stack([START, 0.5 * START]), trace=60).trace
    np.testing.assert_allclose(many.pairs[0][0], s, rtol=1e-5, atol=1e-7)
    assert many.pairs[1].shape == (2, 59, 2)


def test_a_failure_is_raised_if_that_is_wished():
    def run(x, budget=3):
        limit = st.Budget(iters=budget)
        return sj.minimize(lambda x: (x**4).sum(), x, method="gd", step=0.01, budget=limit, throw=True)

    with pytest.raises(RuntimeError, match=r"^minimize: the run ended with MAX_ITERATIONS"):
        run(jnp.ones(2))
    with pytest.raises(RuntimeError, match=r"^minimize: the run of start 1 ended with MAX_ITERATIONS"):
        run(jnp.array([[0.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the run ended with MAX_ITERATIONS"):
        jax.block_until_ready(jax.jit(run)(jnp.ones(2)))
    assert bool(jax.jit(run)(jnp.zeros(2)).success)


def test_whole_numbers_and_empty_and_mixed_leaves():
    def fun(p):
        return ((p["a"] - 1) ** 2).sum() + (p["b"] - 2.0) ** 2 + p["c"].sum()

    start = {"a": np.zeros(2, int), "b": jnp.float32(0.0), "c": jnp.zeros((0, 3))}
    found = sj.minimize(fun, start, method="gd", step=0.25, gtol=1e-6)
    kinds = {name: (str(leaf.dtype), leaf.shape) for name, leaf in found.x.items()}
    assert kinds == {"a": ("float64", (2,)), "b": ("float32", ()), "c": ("float64", (0, 3))}
    np.testing.assert_allclose(found.x["a"], 1.0, atol=1e-6)
    slope = jax.grad(lambda a: sj.minimize(lambda p: fun(p) * a, start, method="gd", step=0.25).fun)(1.0)
    assert np.isfinite(slope)
    many = sj.minimize(lambda x: ((x - 1) ** 2).sum(), np.arange(6).reshape(3, 2), method="gd", step=0.25)
    np.testing.assert_allclose(many.x, 1.0, atol=1e-5)
