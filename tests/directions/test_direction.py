"""A direction of the user's own."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import steepen as st
from steepen.directions import Proposal

STARTS = np.array([[-1.2, 1.0], [0.5, 2.0], [1.0, 1.0]])
F = st.functions["rosenbrock"].at(n=2)


class Momentum(st.Direction):
    unit = True

    def start(self, backend, x):
        return Moment(0 * x, 0)

    def learn(self, context, point, memory):
        return memory._replace(learnt=memory.learnt + 1)

    def propose(self, context, k, point, lam, on, memory):
        assert np.all(memory.learnt == k + 1)
        memory = memory._replace(v=0.5 * memory.v - point.g)
        return Proposal(memory.v, 0.0, memory)


class Named(Momentum):
    """The same with a dict for its memory."""

    def start(self, backend, x):
        return {"v": 0 * x, "learnt": 0}

    def learn(self, context, point, memory):
        return memory | {"learnt": memory["learnt"] + 1}

    def propose(self, context, k, point, lam, on, memory):
        memory = memory | {"v": 0.5 * memory["v"] - point.g}
        return Proposal(memory["v"], 0.0, memory)


class Moment(NamedTuple):
    v: Any
    learnt: Any


def run(x0, method, iters=25, **more):
    return st.minimize(F, x0, method=method, budget=st.Budget(iters=iters), trace="x", **more)


@pytest.mark.parametrize("step", [None, 1e-3])
@pytest.mark.parametrize("x0", [STARTS[0], STARTS], ids=["one", "many"])
def test_a_memory_is_a_tuple_or_a_dict_and_is_resumed(tmp_path, x0, step):
    older, newer = run(x0, Named(), step=step), run(x0, Momentum(), step=step)
    for (name, a), (_, b) in zip(older.trace.columns(), newer.trace.columns(), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)
    np.testing.assert_array_equal(older.status, newer.status)
    for whole, method in ((older, Named()), (newer, Momentum())):
        path = tmp_path / f"{type(method).__name__}.npz"
        run(x0, method, 7, checkpoint=path, step=step)
        resumed = run(x0, method, checkpoint=path, step=step)
        np.testing.assert_array_equal(resumed.x, whole.x)
        np.testing.assert_array_equal(resumed.nfev, whole.nfev)


@pytest.mark.bits  # it is about values that are equal to the last bit
@pytest.mark.parametrize("x0", [[1.0, 2.0], [[1.0, 2.0], [3.0, -1.0]]], ids=["one", "many"])
@pytest.mark.parametrize("c", [-1e-4, 0.0, 1e-4, 1.0, np.nan])
def test_the_guard_takes_the_gradient_unless_the_direction_descends(c, x0):
    class Slanted(st.Direction):
        def propose(self, context, k, point, lam, on, memory):
            g = point.g
            return Proposal(c * g + np.stack([-g[..., 1], g[..., 0]], axis=-1), 0.0)

    # from 1.5 on the parabola falls by too little: a search that knows the slope of −∇f cuts it to 0.75
    given = {"step": st.steps.Armijo(initial=1.5, c=0.4), "budget": st.Budget(iters=1), "method": Slanted()}
    res = st.minimize(lambda x: (x * x).sum(-1) / 2, x0, jac=lambda x: x, **given)
    assert np.all(res.trace.guarded[0] == (not c < 0))
    if not c < 0:
        assert np.all(res.trace.step[0] == 0.75)
        np.testing.assert_array_equal(res.x, 0.25 * np.array(x0))


@pytest.mark.parametrize("method", ["gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp"])
def test_with_a_variable_held_the_others_move_as_if_it_were_a_number(method):
    """The Hessian ties all three; the third is at a bound that f pushes it against."""
    Q, b = np.array([[4.0, 1.0, 1.5], [1.0, 3.0, -1.0], [1.5, -1.0, 2.0]]), np.array([1.0, 2.0, -9.0])
    lam = {"lam": 0.2} if method in ("cgd-fd", "cgd-bfgs") else {}  # in the others it follows the curvature
    given = {"method": method, "step": 0.05, "gtol": 0, "budget": st.Budget(iters=6), **lam}

    def run(Q, b, x0, **more):
        fun, grad = (lambda x: x @ Q @ x / 2 - b @ x), (lambda x: Q @ x - b)
        return st.minimize(fun, x0, jac=grad, hess=lambda x: Q, trace="x", **given, **more).trace.x

    held = run(Q, b, [5.0, -4.0, 1.0], bounds=[(None, None), (None, None), (1.0, None)])
    free = run(Q[:2, :2], b[:2] - Q[:2, 2], [5.0, -4.0])
    assert (held[:, 2] == 1).all()
    np.testing.assert_allclose(held[:, :2], free, rtol=1e-6 if method == "cgd-fd" else 1e-10)


def test_a_direction_may_propose_again_after_a_failed_search():
    asked = []

    class Up(st.Direction):
        def restart(self, context, point, stuck, memory):
            asked.append(point.x)
            return memory, False

        def propose(self, context, k, point, lam, on, memory):
            return Proposal(-point.g, 0.0)

    result = st.minimize(lambda x: x @ x, [1.0, 2.0], method=Up(), jac=lambda x: -2 * x)  # a wrong sign
    assert result.status is st.Status.LINE_SEARCH_FAILED
    assert len(asked) == 1
